//! Sums leave the loop: what a loop only adds up stays each thread's part, and threads meet once, behind the loop. Every
//! text is compiled, simulated without hazard, and compared with the interpreter.

use warplift::ir::target::SM90A;
use warplift::ir::tile::parse_file;
use warplift::kernels::find;
use warplift::predict::predict;
use warplift::{Feature, Options, compile};
use warplift_golden::library::load;
use warplift_golden::orders::{FEW_ORDERS, right};
use warplift_lab::validate::{Sizes, Style, Validation};

/// What `explain` says of a loop whose sums meet behind it.
const BEHIND: &str = "loop: sums of lanes and warps behind it";

/// A loop over the columns of x[m, n] that carries `s`, and what it makes of `s` and the tile `tx`.
struct Case {
    name: &'static str,
    start: &'static str,
    body: &'static str,
    behind: bool,
}

const fn behind(name: &'static str, body: &'static str) -> Case {
    Case { name, start: "full 0.0 : f32[BM]", body, behind: true }
}

const fn inside(name: &'static str, body: &'static str) -> Case {
    Case { behind: false, ..behind(name, body) }
}

const CASES: &[Case] = &[
    behind("a sum", "s2 = s + reduce_sum(tx, 1)"),
    behind("from the other side", "s2 = reduce_sum(tx * tx, 1) + s"),
    behind("scaled by a number", "s2 = s * 0.5 + reduce_sum(tx, 1) * 0.25"),
    behind("two sums", "s2 = s + reduce_sum(tx, 1) + reduce_sum(abs(tx), 1)"),
    Case { start: "full -inf : f32[BM]", ..behind("a maximum", "s2 = max(s, reduce_max(tx, 1))") },
    Case { start: "full 3.0 : f32[BM]", ..behind("a minimum", "s2 = min(reduce_min(tx, 1), s)") },
    Case { start: "full 1.0 : f32[BM]", ..inside("from one", "s2 = s + reduce_sum(tx, 1)") },
    inside("beside a maximum of every iteration", "s2 = fma(s, exp(reduce_max(tx, 1)), reduce_sum(tx, 1))"),
    inside("with a number", "s2 = s + reduce_sum(tx, 1) + 1.0"),
    inside("squared", "s2 = s * s + reduce_sum(tx, 1)"),
    inside("of a function", "s2 = abs(s) + reduce_sum(tx, 1)"),
    inside("read in the loop", "s2 = s + reduce_sum(tx - expand_dims(s, 1), 1)"),
    inside("a product of sums", "s2 = s + reduce_sum(tx, 1) * reduce_sum(tx, 1)"),
    inside("a sum and a maximum", "s2 = max(s + reduce_sum(tx, 1), 0.0)"),
];

fn text(case: &Case) -> String {
    format!(
        "kernel rows(x: ptr<f32> align 16, r: ptr<f32>, m: i32, n: i32 % 4) {{
    tunable BM = 16, BN = 64
    grid cdiv(m, BM)
    gx = view x : f32[m, n]
    gr = view r : f32[m]
    i = block_index
    start = {}
    sums = for t in 0..cdiv(n, BN) carry s = start {{
        tx = load gx[i*BM, t*BN] : f32[BM, BN]
        {}
        yield s2
    }}
    store gr[i*BM], sums
}}
mapping rows {{ kernel: warps 4 }}
",
        case.start, case.body
    )
}

#[test]
fn sums_leave_the_loop_where_nothing_reads_them_inside() {
    for case in CASES {
        let module = parse_file(&text(case), "rows").unwrap_or_else(|e| panic!("{}: {e:?}", case.name));
        let (kernel, mapping) = (&module.kernels[0], &module.mappings[0]);
        let options = Options { verify: true, ..Options::default() };
        let made =
            compile(kernel, mapping, &SM90A, &options).unwrap_or_else(|e| panic!("{}: {e}", case.name));
        let found = made.explained.plan.iter().any(|line| line.contains(BEHIND));
        assert_eq!(found, case.behind, "{}: {:?}", case.name, made.explained.plan);
        let sizes = Sizes::parse(kernel, "m=37,n=200").expect("sizes");
        let validation = Validation::new(kernel, mapping, sizes).expect("a trial");
        let problem = validation.reference(Style::Normal, 5).expect("a reference");
        right(&problem, &made, &FEW_ORDERS, (2, 1e-4), case.name);
    }
}

/// Without the feature threads meet in every iteration: the same result.
#[test]
fn the_feature_turns_it_off() {
    let (kernel, mapping) = load("gemm_rowsum");
    let partial: Feature = "partial-sums".parse().expect("a feature");
    for (disable, wanted) in [(vec![], true), (vec![partial], false)] {
        let options = Options { verify: true, disable, ..Options::default() };
        let made = compile(&kernel, &mapping, &SM90A, &options).expect("code");
        assert_eq!(made.explained.plan.iter().any(|line| line.contains(BEHIND)), wanted);
        let sizes = Sizes::parse(&kernel, "m=129,n=520,k=328").expect("sizes");
        let validation = Validation::new(&kernel, &mapping, sizes).expect("a trial");
        right(
            &validation.reference(Style::Normal, 7).expect("a reference"),
            &made,
            &FEW_ORDERS,
            (2, 2e-2),
            "",
        );
    }
}

fn cycles(name: &str, sizes: &str) -> f64 {
    let (kernel, mapping) = load(name);
    let sizes = Sizes::parse(&kernel, sizes).expect("sizes");
    predict(&kernel, &mapping, &SM90A, &sizes, &Options::default()).expect("a prediction").cycles
}

/// Neighbours of the product take about as long as their products do. The limits are what is reached, rounded up.
#[test]
fn work_beside_a_product_keeps_its_plan() {
    let plain = cycles("gemm", "4096x4096x4096");
    let ratio = |name, sizes| cycles(name, sizes) / plain;
    // Measured on an H100: 1.065 in bursts, 1.074 sustained. The sums wait for registers that products move.
    assert!(ratio("gemm_rowsum", "4096x4096x4096") < 1.09);
    assert!(ratio("swiglu", "4096x4096x4096") < 2.05);
    // 2048 tiles of 32 iterations on 132 multiprocessors: 16 tiles of 32 x 1024 cycles of the tensor cores.
    let batched = cycles("gemm_batched", "batch=16,m=2048,n=2048,k=2048");
    assert!(batched < 1.025 * f64::from(2048u32.div_ceil(132) * 32 * 1024), "{batched}");
}

/// The sum of squares of the rows that a product reads, as a norm behind it needs: threads hold the rows of the operand that
/// they hold of the results, so nothing is converted, and the threads of a row meet once.
#[test]
fn sums_of_an_operand_have_the_rows_of_the_results() {
    const START: &str = "    none = full 0.0 : f32[BM]
    acc, squares = for t in 0..cdiv(k, BK) carry x = zero, s = none {";
    let edits = [
        ("k: i32 % 8)", "k: i32 % 8, eps: f32)"),
        ("    acc = for t in 0..cdiv(k, BK) carry x = zero {", START),
        (
            "        yield y\n",
            "        wide = cast(ta, f32)\n        yield y, s + reduce_sum(wide * wide, 1)\n",
        ),
        ("cast(acc, f16)", "cast(acc * expand_dims(rsqrt(squares / cast(k, f32) + eps), 1), f16)"),
    ];
    let gemm = find("gemm").expect("the library has it").text.to_owned();
    let text = edits.iter().fold(gemm, |text, (from, to)| {
        assert!(text.contains(from), "{from}");
        text.replace(from, to)
    });
    let module = parse_file(&text, "normed").unwrap_or_else(|e| panic!("{e:?}"));
    let (kernel, mapping) = (&module.kernels[0], &module.mappings[0]);
    let options = Options { verify: true, ..Options::default() };
    let made = compile(kernel, mapping, &SM90A, &options).unwrap_or_else(|e| panic!("{e}"));
    assert!(made.explained.plan.iter().any(|line| line.contains(BEHIND)), "{:?}", made.explained.plan);
    for size in ["m=130,n=264,k=200,eps=0.5", "m=1,n=8,k=8,eps=0.5"] {
        let sizes = Sizes::parse(kernel, size).expect("sizes");
        let validation = Validation::new(kernel, mapping, sizes).expect("a trial");
        let problem = validation.reference(Style::Normal, 3).expect("a reference");
        right(&problem, &made, &FEW_ORDERS, (2, 4e-3), size);
    }
    let sizes = Sizes::parse(kernel, "m=4096,n=4096,k=4096,eps=0.5").expect("sizes");
    let own = predict(kernel, mapping, &SM90A, &sizes, &Options::default()).expect("a prediction").cycles;
    let plain = cycles("gemm", "m=4096,n=4096,k=4096");
    // Measured on an H100: 1.04. The assembler contracts the squares and their sums, and the prediction does not.
    assert!(own < 1.21 * plain, "{own} of {plain}");
}
