//! Speed of layout operations at 20 bits: composition, inversion and division under 1 µs, a conversion plan under 20 µs.

use divan::{Bencher, black_box};
use warplift_ir::layout::convert::convert;
use warplift_ir::layout::fragment::{blocked, ldmatrix, wgmma_a, wgmma_acc};
use warplift_ir::layout::shared::swizzled;
use warplift_ir::layout::swizzle::{Method, optimal_swizzle};
use warplift_ir::layout::{Layout, LayoutError};

fn main() {
    divan::main();
}

/// A fragment and a memory tile of 1024 x 1024 elements, 20 bits.
fn tiles() -> Result<(Layout, Layout), LayoutError> {
    let fragment = blocked(&[1024, 1024], &[1, 8], &[4, 8], &[4, 2], &[1, 0])?;
    Ok((fragment, swizzled(1024, 1024, 16, 128)?))
}

#[divan::bench(sample_size = 64)]
fn compose(bencher: Bencher) {
    let (fragment, memory) = tiles().expect("the tiles exist");
    bencher.bench(|| black_box(&fragment).then(black_box(&memory)));
}

#[divan::bench(sample_size = 64)]
fn compose_with_an_outer_three(bencher: Bencher) {
    let fragment = wgmma_acc(192, 192, 3).expect("the fragment exists");
    let memory = swizzled(192, 192, 16, 128).expect("the tile exists");
    bencher.bench(|| black_box(&fragment).then(black_box(&memory)));
}

#[divan::bench(sample_size = 64)]
fn invert(bencher: Bencher) {
    let (_, memory) = tiles().expect("the tiles exist");
    bencher.bench(|| black_box(&memory).invert());
}

#[divan::bench(sample_size = 64)]
fn divide(bencher: Bencher) {
    let (fragment, _) = tiles().expect("the tiles exist");
    let tile = blocked(&[4, 64], &[1, 8], &[4, 8], &[1, 1], &[1, 0]).expect("the tile exists");
    bencher.bench(|| black_box(&fragment).left_divide(black_box(&tile)));
}

#[divan::bench(sample_size = 64)]
fn apply(bencher: Bencher) {
    let (fragment, _) = tiles().expect("the tiles exist");
    bencher.bench(|| black_box(&fragment).apply(black_box(&[77, 13, 5])));
}

#[divan::bench(sample_size = 64)]
fn plan_registers(bencher: Bencher) {
    let from = wgmma_acc(64, 256, 1).expect("the fragment exists");
    let to = wgmma_a(64, 256, 16, 1).expect("the fragment exists");
    bencher.bench(|| convert(black_box(&from), black_box(&to), 16));
}

#[divan::bench(sample_size = 64)]
fn plan_shuffles(bencher: Bencher) {
    let from = wgmma_acc(64, 256, 1).expect("the fragment exists");
    let to = wgmma_a(64, 256, 8, 1).expect("the fragment exists");
    bencher.bench(|| convert(black_box(&from), black_box(&to), 8));
}

#[divan::bench(sample_size = 64)]
fn plan_shared(bencher: Bencher) {
    let from = wgmma_acc(64, 256, 1).expect("the fragment exists");
    let to = blocked(&[64, 256], &[1, 8], &[1, 32], &[4, 1], &[1, 0]).expect("the fragment exists");
    bencher.bench(|| convert(black_box(&from), black_box(&to), 16));
}

#[divan::bench(sample_size = 64)]
fn swizzle(bencher: Bencher) {
    let write = ldmatrix(4, false).expect("the fragment exists");
    let read = blocked(&[32, 8], &[1, 8], &[32, 1], &[1, 1], &[1, 0]).expect("the fragment exists");
    let (write, read) = (black_box(&write), black_box(&read));
    bencher.bench(|| optimal_swizzle((write, Method::Matrix), (read, Method::Vector), 16));
}
