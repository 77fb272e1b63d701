//! Tiles that two users want in two register layouts: whatever way the plan takes, the kernel means what its
//! text says, without a hazard. The kernels here exist for their conversions alone.

use warplift::ir::target::SM90A;
use warplift::ir::tile::parse_file;
use warplift::problem::{Data, Problem};
use warplift::sim::{self, Adversary};
use warplift::{Options, compile};
use warplift_golden::library::{difference, sizes};

/// `y = f(x, z)` on one tile of `R x C`, `x` and `z` of that shape, `y` of `outs`.
fn kernel(body: &str, outs: [&str; 2], elem: &str, rows: u32, cols: u32, warps: u32) -> String {
    let [o0, o1] = outs;
    format!(
        "kernel c(x: ptr<{elem}> align 16, z: ptr<{elem}> align 16, y: ptr<{elem}> align 16, n: i32 % 8) {{
    tunable R = {rows}, C = {cols}
    grid 1
    gx = view x : {elem}[R, n]
    gz = view z : {elem}[R, n]
    gy = view y : {elem}[{o0}, {o1}]
    tx = load gx[0, 0] : {elem}[R, C]
    tz = load gz[0, 0] : {elem}[R, C]
{body}
}}
mapping c {{ R = {rows}, C = {cols}  kernel: warps {warps} }}
"
    )
}

/// Compiles, simulates under three orders, compares; gives what the plan says of its conversions.
fn check(text: &str) -> Vec<String> {
    let module = parse_file(text, "c").unwrap_or_else(|e| panic!("{e:?}\n{text}"));
    let (kernel, mapping) = (&module.kernels[0], &module.mappings[0]);
    let cols = mapping.tunable("C").expect("C is a tunable");
    let options = Options { verify: true, dump: Vec::new() };
    let compiled = compile(kernel, mapping, &SM90A, &options).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let problem = Problem::new(kernel, &sizes(&[("n", cols)]), Data::Small, 3);
    let problem = problem.unwrap_or_else(|e| panic!("{e}\n{text}"));
    let want = problem.interpret(kernel).unwrap_or_else(|e| panic!("{e}\n{text}"));
    for order in [Adversary::Earliest, Adversary::Latest, Adversary::Random] {
        let options = sim::Options { order, ..sim::Options::default() };
        let run = problem.simulate(&compiled.ptx, &compiled.manifest, &options, 1);
        let (have, report) = run.unwrap_or_else(|e| panic!("{e}\n{text}\n{}", compiled.ptx));
        assert!(report.hazards.is_empty(), "{:?}\n{text}", report.hazards);
        assert_eq!(difference(&want, &have), 0.0, "{text}\n{}", compiled.ptx);
    }
    compiled.explained.plan.into_iter().filter(|l| l.contains("conversion")).collect()
}

/// A sum with a tile's own transposition.
const SYMMETRIC: &str = "    store gy[0, 0], tx + trans(tx) + tz";
/// Column sums used along rows.
const ACROSS: &str = "    sums = reduce_sum(tx, 0)
    store gy[0, 0], tz + expand_dims(sums, 1)";
/// A loop that turns its tile every time.
const TURNING: &str = "    last = for t in 0..3 carry a = tx {
        next = trans(a) + tz
        yield next
    }
    store gy[0, 0], last";
/// Truth values change threads.
const MASKS: &str = "    flags = trans(tx > tz)
    store gy[0, 0], select(flags, tx, tz)";
/// Positions in two layouts.
const POSITIONS: &str = "    at = iota(1) : i32[R, C]
    keep = trans(tx > cast(at, ELEM))
    store gy[0, 0], select(keep, tz, cast(at, ELEM))";

#[test]
fn a_tile_meets_its_transposition() {
    let mut ways = Vec::new();
    for elem in ["f32", "f16", "bf16"] {
        for (size, warps) in [(32, 1), (64, 4), (64, 1), (96, 3), (32, 4), (128, 8), (16, 1)] {
            ways.extend(check(&kernel(SYMMETRIC, ["R", "n"], elem, size, size, warps)));
        }
    }
    assert!(ways.iter().any(|w| w.contains("shared memory")), "{ways:?}");
    assert!(ways.len() >= 20, "every one of them converts: {ways:?}");
}

#[test]
fn sums_along_one_dimension_serve_the_other() {
    for elem in ["f32"] {
        for (size, warps) in [(32, 1), (64, 4), (96, 3), (128, 4), (256, 8)] {
            let ways = check(&kernel(ACROSS, ["R", "n"], elem, size, size, warps));
            assert!(!ways.is_empty(), "{size} on {warps}");
        }
    }
}

#[test]
fn loops_convert_every_time() {
    for elem in ["f32", "f16"] {
        for (size, warps) in [(32, 1), (64, 4), (96, 3)] {
            assert!(!check(&kernel(TURNING, ["R", "n"], elem, size, size, warps)).is_empty());
        }
    }
}

#[test]
fn truth_values_and_positions_change_threads() {
    for (size, warps) in [(32, 1), (64, 4), (96, 3)] {
        for body in [MASKS, POSITIONS] {
            check(&kernel(&body.replace("ELEM", "f32"), ["R", "n"], "f32", size, size, warps));
        }
        check(&kernel(MASKS, ["R", "n"], "f16", size, size, warps));
    }
}

#[test]
fn shapes_change_without_moving_elements() {
    let body = "    flat = reshape(tx) : ELEM[R * C]
    back = reshape(flat) : ELEM[R, C]
    store gy[0, 0], back + tz";
    for (elem, rows, cols, warps) in [("f32", 16, 64, 4), ("f16", 32, 32, 2)] {
        let body = body.replace("ELEM", elem).replace("R * C", &(rows * cols).to_string());
        check(&kernel(&body, ["R", "n"], elem, rows, cols, warps));
    }
}
