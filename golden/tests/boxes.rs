//! Tiles of more than two dimensions that products read as rows and columns (`boxes` of instruction selection): tensor copies
//! bring them, right in the simulator under several orders, without a hazard, and at the speed of tiles of two dimensions.

use warplift::ir::target::SM90A;
use warplift::ir::tile::{Kernel, Mapping, parse_file};
use warplift::kernels::find;
use warplift::predict::predict;
use warplift::{Compiled, Options, compile};
use warplift_golden::orders::{ORDERS, right};
use warplift_lab::validate::{Sizes, Style, Validation};

/// A convolution of 3 x 3 with a border of zeros: patches of pixels, some channels at a time.
const CONVOLUTION: &str = "
kernel conv(
    x: ptr<f16> align 16, w: ptr<f16> align 16, o: ptr<f16> align 16,
    images: i32, height: i32, width: i32, c: i32 % 8, f: i32 % 8
) {
    tunable TH = 8, TW = 16, BF = 256, BC = 64
    grid cdiv(width, TW), cdiv(height, TH), images * cdiv(f, BF)
    gx = view x : f16[images, height, width, c]
    gw = view w : f16[f, 9, c]
    go = view o : f16[images, height, width, f]
    tx, ty, z = block_index
    image = z / cdiv(f, BF)
    part = z % cdiv(f, BF)
    zero = full 0.0 : f32[TH*TW, BF]
    acc = for t in 0..9*cdiv(c, BC) carry sum = zero {
        tap = t / cdiv(c, BC)
        from = (t % cdiv(c, BC)) * BC
        pixels = load gx[image, ty*TH + tap / 3 - 1, tx*TW + tap % 3 - 1, from] : f16[1, TH, TW, BC]
        weights = load gw[part*BF, tap, from] : f16[BF, 1, BC]
        yield mma sum, reshape pixels : f16[TH*TW, BC], trans(reshape weights : f16[BF, BC])
    }
    store go[image, ty*TH, tx*TW, part*BF], reshape cast(acc, f16) : f16[1, TH, TW, BF]
}
mapping conv {
    for t: pipeline fit, producers 1, consumers 2
    kernel: persistent
}";

/// A product of heads that stand in one dimension of the arrays: no subview, a tile of four dimensions.
const HEADS: &str = "
kernel heads(a: ptr<bf16> align 16, b: ptr<bf16> align 16, o: ptr<f32>, batch: i32, rows: i32, heads: i32) {
    tunable BM = 64, BN = 64
    const D = 64
    grid cdiv(rows, BM), heads, batch
    ga = view a : bf16[batch, rows, heads, D]
    gb = view b : bf16[batch, rows, heads, D]
    go = view o : f32[batch, heads, rows, BN]
    i, h, n = block_index
    ta = reshape load ga[n, i*BM, h, 0] : bf16[1, BM, 1, D] : bf16[BM, D]
    zero = full 0.0 : f32[BM, BN]
    acc = for t in 0..cdiv(rows, BN) carry sum = zero {
        tb = load gb[n, t*BN, h, 0] : bf16[1, BN, 1, D]
        yield mma sum, ta, trans(reshape tb : bf16[BN, D])
    }
    gh = subview go[n, h, _, _]
    store gh[i*BM, 0], acc
}
mapping heads {
    for t: pipeline fit, producers 1, consumers 1
    kernel: persistent
}";

fn parsed(text: &str) -> (Kernel, Mapping) {
    let module = parse_file(text, "boxes.tile").unwrap_or_else(|e| panic!("{e}\n{text}"));
    (module.kernels[0].clone(), module.mappings[0].clone())
}

fn compiled((kernel, mapping): &(Kernel, Mapping)) -> Compiled {
    let options = Options { verify: true, ..Options::default() };
    compile(kernel, mapping, &SM90A, &options).unwrap_or_else(|e| panic!("{e}"))
}

/// Compiles a text and checks it at sizes; the PTX.
fn check(text: &str, sizes: &[&str], tolerance: f64) -> String {
    let case = parsed(text);
    let made = compiled(&case);
    for &size in sizes {
        let sizes = Sizes::parse(&case.0, size).unwrap_or_else(|e| panic!("{e}"));
        let validation = Validation::new(&case.0, &case.1, sizes).expect("a trial");
        let problem = validation.reference(Style::Normal, 7).expect("a reference");
        right(&problem, &made, &ORDERS, (2, tolerance), size);
    }
    made.ptx
}

fn cycles((kernel, mapping): &(Kernel, Mapping), sizes: &str) -> f64 {
    let sizes = Sizes::parse(kernel, sizes).expect("sizes");
    predict(kernel, mapping, &SM90A, &sizes, &Options::default()).expect("a prediction").cycles
}

const SMALL: [&str; 3] = [
    "images=2,height=9,width=17,c=72,f=136",
    "images=1,height=1,width=1,c=8,f=8",
    "images=3,height=8,width=16,c=64,f=128",
];

#[test]
fn a_convolution_reads_patches_by_tensor_copies() {
    let ptx = check(CONVOLUTION, &SMALL, 4e-3);
    assert!(ptx.contains("cp.async.bulk.tensor.4d.shared") && ptx.contains("cp.async.bulk.tensor.3d.shared"));
    assert!(!ptx.contains("ld.global"), "{ptx}");
    // As many operations as a product of 32 x 56 x 56 rows, 256 columns and a depth of 9 x 256; patches are cut off by the edge.
    let own = cycles(&parsed(CONVOLUTION), "images=32,height=56,width=56,c=256,f=256");
    let module = find("gemm").unwrap().parse().unwrap();
    let gemm = (module.kernels[0].clone(), module.mappings[0].clone());
    let product = cycles(&gemm, "m=100352,n=256,k=2304");
    assert!(own < 1.35 * product, "{own} of {product}");
}

#[test]
fn heads_stand_in_the_middle_of_a_tile() {
    let sizes = ["batch=2,rows=130,heads=3", "batch=1,rows=1,heads=1", "batch=1,rows=64,heads=5"];
    let ptx = check(HEADS, &sizes, 1e-3);
    assert!(ptx.contains("cp.async.bulk.tensor.4d.shared") && !ptx.contains("ld.global"), "{ptx}");
}

/// Where tensor copies do not reach, or something else reads the tile too, threads load it.
#[test]
fn what_is_no_box_is_loaded_by_threads() {
    let plain = HEADS.replace("kernel: persistent", "array b: plain\n    kernel: persistent");
    let odd =
        HEADS.replace("heads: i32) {", "heads: i32, first: i32 in 0..8) {").replace("h, 0]", "h, first]");
    let read = HEADS.replace(
        "        yield mma sum",
        "        extra = reduce_sum(cast(reshape tb : bf16[BN, D], f32), 1)
        yield expand_dims(extra, 0) + mma sum",
    );
    let wide = CONVOLUTION
        .replace("TH = 8, TW = 16, BF = 256, BC = 64", "TH = 1, TW = 320, BF = 32, BC = 32")
        .replace("consumers 2", "consumers 5");
    for (text, sizes) in [
        (wide, "images=1,height=2,width=330,c=40,f=40"),
        (plain, "batch=2,rows=130,heads=3"),
        (odd, "batch=2,rows=130,heads=3,first=3"),
        (read, "batch=2,rows=130,heads=3"),
    ] {
        let ptx = check(&text, &[sizes], 4e-3);
        assert!(ptx.contains("ld.global") || ptx.contains("cp.async.cg"), "{text}");
    }
}
