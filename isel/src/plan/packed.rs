//! Packed loads: the array was packed before the launch, so a tile is one run of bytes that is copied as it is, and in
//! which each thread's registers lie in wide accesses.
//!
//! ```text
//!  register words 0..4 | lane 0..32 | warp 0..4 | warpgroup | next 4 register words | ...
//! ```
//!
//! The order follows from the register layout that the plan gave the tile. Seen as words, every thread has the same
//! number of them, and the place of a word follows from thread and word number alone (Tilus, section 7 and Fig. 9: the
//! weight's layout is transformed so that its bytes are loaded by wide accesses).

use super::types::{ACCESS_WORDS, COPY_BYTES, Staged, StagedFill, WORD};
use crate::facts::{is_multiple, is_never_negative, stays_inside};
use crate::tiles::{extents, layout_error, memory};
use crate::window::Window;
use crate::{IselError, Result};
use warplift_ir::layout::{Axis, Builder, Layout};
use warplift_ir::manifest::PackingDigit;
use warplift_ir::target::{Opcode, Target};
use warplift_ir::tile::{Inst, Kernel, Value};

/// A tile of a packed array.
pub(super) fn packed_tile(k: &Kernel, load: Inst, layout: &Layout, target: &Target) -> Result<Staged> {
    target.require(Opcode::BulkLoad).map_err(|lacks| IselError::lacks(k.insts[load].loc, lacks))?;
    let tile = rank_two(k, load)?;
    let bits = k.ty(k.result(load)).elem().bits();
    check_reads(k, load, tile)?;
    let registers = layout.in_extent(Axis::Reg) * u64::from(bits);
    if !layout.is_injective() || !registers.is_multiple_of(WORD) {
        let what = format!(
            "a packed tile whose threads hold {registers} bits each, or elements twice: whole registers, each held once, are needed"
        );
        return Err(IselError::at(k, load, what));
    }
    let words = registers / WORD;
    let to_memory = interleaved(layout, words, u64::from(bits)).map_err(layout_error(k, load))?;
    let elements = elementwise(layout, words, u64::from(bits)).map_err(layout_error(k, load))?;
    let order = elements.invert().and_then(|m| m.then(layout)).map_err(layout_error(k, load))?;
    let digit = |b: warplift_ir::layout::Basis| PackingDigit {
        extent: b.extent as u32,
        step: [b.out[0] as u32, b.out[1] as u32],
    };
    let digits = order.basis(Axis::Mem).into_iter().map(digit).collect();
    let bytes = tile[0] * tile[1] * bits / 8;
    if !bytes.is_multiple_of(COPY_BYTES) {
        return Err(IselError::at(
            k,
            load,
            format!("a packed tile of {bytes} bytes: a multiple of {COPY_BYTES} is needed"),
        ));
    }
    let fill = StagedFill::Packed { tile, digits };
    Ok(Staged { to_memory, bits: WORD as u32, bytes, stream: false, fill })
}

fn rank_two(k: &Kernel, load: Inst) -> Result<[u32; 2]> {
    match extents(k, k.result(load))[..] {
        [a, b] => Ok([a, b]),
        _ => Err(IselError::at(k, load, "a tile that goes through shared memory has rank 2")),
    }
}

/// A packed array is read in whole tiles of one kind, and nothing else accesses it.
fn check_reads(k: &Kernel, load: Inst, tile: [u32; 2]) -> Result<()> {
    let whole = (0..2).all(|d| is_multiple(k, k.args(load)[1 + d], tile[d].into()));
    if !whole {
        let what = format!("a packed array is read at multiples of its tile ({} x {})", tile[0], tile[1]);
        return Err(IselError::at(k, load, what));
    }
    let view = k.args(load)[0];
    if Window::of(k, view).is_some_and(|w| w.fill(k) != 0.0) {
        return Err(IselError::at(k, load, "a packed array has zeros outside: its view has no `fill`"));
    }
    if k.is_open(view) {
        return Err(IselError::at(
            k,
            load,
            "a packed array has extents that the caller knows: its view has none that is `?`",
        ));
    }
    let writes = |i: Inst| k.insts[i].op.is_write() && memory(k, k.args(i)[0]) == memory(k, view);
    let others = k.insts.keys().any(writes);
    match others {
        true => Err(IselError::at(k, load, "a packed array is only loaded")),
        false => Ok(()),
    }
}

/// The dimensions of the whole view whose index is not known to lie inside, with that index. Such a load reads a tile of
/// zeros where it lies outside.
pub(crate) fn maybe_outside(k: &Kernel, load: Inst, tile: [u32; 2]) -> Vec<(usize, Value)> {
    let args = k.args(load);
    let Some(window) = Window::of(k, args[0]) else { return Vec::new() };
    let kept = window.kept.iter().zip(&args[1..]).zip(tile).map(|((&d, &v), tile)| (d, v, tile));
    let fixed = window.fixed.iter().map(|&(d, v)| (d, v, 1));
    let outside = |&(d, v, tile): &(usize, Value, u32)| {
        !(is_never_negative(k, v) && stays_inside(k, v, window.extent(k, d), tile.into()))
    };
    kept.chain(fixed).filter(outside).map(|(d, v, _)| (d, v)).collect()
}

/// The place of each register word of each thread: a wide access of words, then threads, then the next words.
fn interleaved(
    layout: &Layout,
    words: u64,
    bits: u64,
) -> std::result::Result<Layout, warplift_ir::layout::LayoutError> {
    by_threads(layout, near_and_far(words, bits))
}

/// The same for elements.
fn elementwise(
    layout: &Layout,
    words: u64,
    bits: u64,
) -> std::result::Result<Layout, warplift_ir::layout::LayoutError> {
    let [near, far] = near_and_far(words, bits);
    by_threads(layout, [near * WORD / bits, far])
}

/// Words of a thread that are contiguous, and the number of such runs. A run is the words of one access, or all words
/// if elements cross words.
fn near_and_far(words: u64, bits: u64) -> [u64; 2] {
    let near = match WORD.is_multiple_of(bits) {
        true => ACCESS_WORDS.min(1 << words.trailing_zeros()),
        false => words,
    };
    [near, words / near]
}

fn by_threads(
    layout: &Layout,
    [near, far]: [u64; 2],
) -> std::result::Result<Layout, warplift_ir::layout::LayoutError> {
    let axes: Vec<Axis> = layout.ins().iter().map(|a| a.0).collect();
    let threads: u64 = layout.ins().iter().filter(|a| a.0 != Axis::Reg).map(|a| a.1).product();
    let mut b = Builder::new(&[(Axis::Mem, near * far * threads)]).add(Axis::Reg, near, &[1]).add(
        Axis::Reg,
        far,
        &[near * threads],
    );
    let mut step = near;
    for &(axis, extent) in layout.ins().iter().filter(|a| a.0 != Axis::Reg) {
        b = b.axis(axis).add(axis, extent, &[step]);
        step *= extent;
    }
    b.build()?.with_ins(&axes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use warplift_ir::layout::fragment;

    #[test]
    fn a_packed_tile_holds_every_element_once() {
        for (m, k, groups, bits) in
            [(64, 128, 1, 4), (448, 128, 7, 4), (128, 64, 2, 4), (64, 32, 1, 8), (64, 128, 1, 6)]
        {
            let layout = fragment::wgmma_acc(m, k, groups).unwrap();
            let words = layout.in_extent(Axis::Reg) * bits / WORD;
            let elements = elementwise(&layout, words, bits).unwrap();
            let inverse = elements.invert().unwrap();
            let order = inverse.then(&layout).unwrap();
            assert_eq!(order.outs().len(), 2, "{inverse:?} {order:?}");
            let mut seen = std::collections::HashSet::new();
            for p in 0..m * k {
                let sum = order.basis(Axis::Mem).iter().fold([0, 0], |s, b| {
                    let digit = p / b.weight % b.extent;
                    [s[0] + digit * b.out[0], s[1] + digit * b.out[1]]
                });
                assert_eq!(order.apply(&[p]).to_vec(), sum);
                assert!(sum[0] < m && sum[1] < k && seen.insert(sum));
            }
        }
    }
}
