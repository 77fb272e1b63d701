//! What stands behind a product keeps the product's plan: neighbours of the library's GEMM with other epilogues. Each is
//! compiled at the default tile, simulated without hazard at edges, compared with the interpreter, deferred, and
//! predicted to take about as long as the plain product.

use warplift::ir::target::SM90A;
use warplift::ir::tile::{Kernel, Mapping, parse_file};
use warplift::predict::predict;
use warplift::{Compiled, Options, compile};
use warplift_golden::orders::{FEW_ORDERS, right};
use warplift_lab::validate::{Sizes, Style, Validation};

const GEMM: &str = include_str!("../../driver/kernels/gemm.tile");

/// An epilogue of the library's GEMM.
struct Case {
    name: &'static str,
    /// More parameters: arrays and scalars.
    arrays: &'static str,
    scalars: &'static str,
    /// Their views.
    views: &'static str,
    /// What replaces the store.
    body: &'static str,
    /// More sizes of a problem.
    sizes: &'static str,
    /// Type of the result's elements.
    elem: &'static str,
    /// The most that its cycles may be of the plain product's: what is reached, rounded up.
    most: f64,
}

const PLAIN: Case =
    Case { name: "", arrays: "", scalars: "", views: "", body: "", sizes: "", elem: "f16", most: 1.0 };

const fn work(name: &'static str, body: &'static str, most: f64) -> Case {
    Case { name, body, most, ..PLAIN }
}

const fn with_bias(name: &'static str, body: &'static str, most: f64) -> Case {
    let (arrays, views) = (" bias: ptr<f16> align 16,", "    gbias = view bias : f16[n]\n");
    Case { arrays, views, ..work(name, body, most) }
}

const fn with_residual(name: &'static str, body: &'static str, most: f64) -> Case {
    let (arrays, views) = (" d: ptr<f16> align 16,", "    gd = view d : f16[m, n]\n");
    Case { arrays, views, ..work(name, body, most) }
}

const fn scaled(name: &'static str, body: &'static str, most: f64) -> Case {
    Case { scalars: ", alpha: f32, beta: f32", sizes: ",alpha=1.5,beta=0.5", ..work(name, body, most) }
}

const fn with_rows(name: &'static str, body: &'static str, most: f64) -> Case {
    let (arrays, views) = (" rs: ptr<f32> align 16,", "    gs = view rs : f32[m, cdiv(n, BN)]\n");
    Case { arrays, views, ..work(name, body, most) }
}

/// A result of bytes: two of a thread's elements lie together.
const fn bytes(elem: &'static str, body: &'static str, most: f64) -> Case {
    Case { elem, ..work(elem, body, most) }
}

const CASES: &[Case] = &[
    work("relu", "    r = max(acc, 0.0)\n", 1.002),
    work("relu from the other side", "    r = max(0.0, acc)\n", 1.002),
    work("leaky relu", "    r = max(acc, acc * 0.01)\n", 1.01),
    work("clamp", "    r = min(max(acc, 0.0), 6.0)\n", 1.002),
    work("relu by a select", "    r = select(acc > 0.0, acc, 0.0)\n", 1.002),
    work("leaky relu by a select", "    r = select(acc > 0.0, acc, acc * 0.01)\n", 1.01),
    work("leaky relu by the other select", "    r = select(acc < 0.0, acc * 0.01, acc)\n", 1.01),
    work("silu", "    r = acc / (1.0 + exp(neg(acc)))\n", 1.075),
    work(
        "silu by a sigmoid",
        "    s = 1.0 / (1.0 + exp2(acc * -1.4426950408889634))\n    r = acc * s\n",
        1.085,
    ),
    work(
        "gelu by tanh",
        "    u = acc * 0.7978845608 * (1.0 + 0.044715 * acc * acc)\n    r = 0.5 * acc * (1.0 + tanh(u))\n",
        1.055,
    ),
    work("gelu by erf", "    r = 0.5 * acc * (1.0 + erf(acc * 0.70710678118))\n", 1.08),
    with_bias("bias", "    tb = load gbias[j*BN] : f16[BN]\n    r = acc + cast(tb, f32)\n", 1.015),
    with_bias(
        "bias and relu",
        "    tb = load gbias[j*BN] : f16[BN]\n    r = max(acc + cast(tb, f32), 0.0)\n",
        1.015,
    ),
    Case {
        arrays: " rs: ptr<f32> align 16, cs: ptr<f32> align 16,",
        views: "    gr = view rs : f32[m]\n    gs = view cs : f32[n]\n",
        ..work(
            "scales of rows and columns",
            "    tr = load gr[i*BM] : f32[BM]\n    tc = load gs[j*BN] : f32[BN]\n    r = acc * expand_dims(tr, 1) * tc\n",
            1.015,
        )
    },
    with_residual(
        "residual",
        "    old = load gd[i*BM, j*BN] : f16[BM, BN]\n    r = acc + cast(old, f32)\n",
        1.06,
    ),
    scaled("alpha", "    r = acc * alpha\n", 1.01),
    scaled(
        "in place",
        "    old = load gc[i*BM, j*BN] : f16[BM, BN]\n    r = alpha * acc + beta * cast(old, f32)\n",
        1.06,
    ),
    scaled(
        "in place by a fused sum",
        "    old = load gc[i*BM, j*BN] : f16[BM, BN]\n    r = fma(cast(old, f32), beta, alpha * acc)\n",
        1.06,
    ),
    with_rows(
        "sums of squares",
        "    atomic_add gs[i*BM, 0], expand_dims(reduce_sum(acc * acc, 1), 1)\n    r = acc\n",
        1.01,
    ),
    with_rows(
        "greatest of each row",
        "    store gs[i*BM, j], expand_dims(reduce_max(acc, 1), 1)\n    r = acc\n",
        1.01,
    ),
    with_residual(
        "what relu takes, and what it gives",
        "    store gd[i*BM, j*BN], cast(acc, f16)\n    r = max(acc, 0.0)\n",
        1.045,
    ),
    with_residual(
        "a residual in place, and its relu",
        "    s = acc + cast(load gd[i*BM, j*BN] : f16[BM, BN], f32)
    r = max(s, 0.0)
    store gd[i*BM, j*BN], cast(s, f16)\n",
        1.1,
    ),
    bytes("f8e4m3", "    r = acc * 0.5\n", 1.025),
    bytes("f8e5m2", "    r = acc * 0.5\n", 1.025),
    bytes("i8", "    r = min(max(acc, -127.0), 127.0)\n", 1.045),
];

/// Two outputs: what both are computed of is held a chunk at a time. Nothing is deferred: two results of a tile do not fit
/// beside the sums of the next one.
const TWO: &[Case] = &[
    with_residual(
        "what silu takes, and what it gives",
        "    r = acc / (1.0 + exp(neg(acc)))\n    store gd[i*BM, j*BN], cast(acc, f16)\n",
        1.08,
    ),
    with_residual(
        "a residual in place, and its silu",
        "    s = acc + cast(load gd[i*BM, j*BN] : f16[BM, BN], f32)
    store gd[i*BM, j*BN], cast(s, f16)
    r = s / (1.0 + exp(neg(s)))\n",
        1.145,
    ),
    with_residual(
        "a step, and relu",
        "    store gd[i*BM, j*BN], cast(select(acc > 0.0, 1.0, 0.0), f16)\n    r = max(acc, 0.0)\n",
        1.075,
    ),
];

/// The library's GEMM with this epilogue.
fn text(case: &Case) -> String {
    let parts = [
        ("c: ptr<f16> align 16,", format!("c: ptr<{}> align 16,{}", case.elem, case.arrays)),
        ("n: i32 % 8", format!("n: i32 % {}", if case.elem == "f16" { 8 } else { 16 })),
        ("view c : f16", format!("view c : {}", case.elem)),
        ("k: i32 % 8)", format!("k: i32 % 8{})", case.scalars)),
        ("    i, j = block_index\n", format!("{}    i, j = block_index\n", case.views)),
        (
            "    store gc[i*BM, j*BN], cast(acc, f16)\n",
            format!("{}    store gc[i*BM, j*BN], cast(r, {})\n", case.body, case.elem),
        ),
    ];
    let mut text = GEMM.to_owned();
    for (from, to) in parts.iter().filter(|_| !case.body.is_empty()) {
        assert!(text.contains(from), "the text has no `{from}`:\n{text}");
        text = text.replace(from, to);
    }
    text
}

fn parsed(case: &Case) -> (Kernel, Mapping) {
    let text = text(case);
    let module = parse_file(&text, "epilogue").unwrap_or_else(|e| panic!("{}: {e:?}\n{text}", case.name));
    (module.kernels[0].clone(), module.mappings[0].clone())
}

fn compiled(case: &Case, (kernel, mapping): &(Kernel, Mapping)) -> Compiled {
    let options = Options { verify: true, ..Options::default() };
    compile(kernel, mapping, &SM90A, &options).unwrap_or_else(|e| panic!("{}: {e}", case.name))
}

fn cycles(case: &Case, (kernel, mapping): &(Kernel, Mapping)) -> f64 {
    let sizes = Sizes::parse(kernel, &format!("m=4096,n=4096,k=4096{}", case.sizes)).expect("sizes");
    predict(kernel, mapping, &SM90A, &sizes, &Options::default()).expect("a prediction").cycles
}

#[test]
fn epilogues_keep_the_plan_of_the_product() {
    let plain = cycles(&PLAIN, &parsed(&PLAIN));
    let mut slow = Vec::new();
    for case in CASES {
        let text = parsed(case);
        let made = compiled(case, &text);
        let deferral = &made.explained.schedule.deferral;
        assert!(deferral.is_some(), "{}: {:?}", case.name, made.explained.schedule.remarks);
        let ratio = cycles(case, &text) / plain;
        slow.extend((ratio > case.most).then(|| format!("{}: {ratio:.3}, at most {}", case.name, case.most)));
    }
    assert!(slow.is_empty(), "{slow:#?}");
}

#[test]
fn two_outputs_keep_the_plan_of_the_product() {
    let plain = cycles(&PLAIN, &parsed(&PLAIN));
    let mut slow = Vec::new();
    for case in TWO {
        let text = parsed(case);
        let remarks = compiled(case, &text).explained.schedule.remarks;
        assert!(remarks.iter().any(|r| r.contains("`deferral` turned off")), "{}: {remarks:?}", case.name);
        assert!(remarks.iter().all(|r| r.matches("turned off").count() <= 1), "{}: {remarks:?}", case.name);
        let ratio = cycles(case, &text) / plain;
        slow.extend((ratio > case.most).then(|| format!("{}: {ratio:.3}, at most {}", case.name, case.most)));
    }
    assert!(slow.is_empty(), "{slow:#?}");
}

/// The first problem has one iteration a tile: too few for the deferred form, which is then left at run time. The
/// second has enough. Both end inside tiles, and leave several tiles to a block.
#[test]
fn epilogues_compute_what_the_text_says() {
    for case in CASES.iter().chain(TWO) {
        let text = parsed(case);
        let made = compiled(case, &text);
        // Rows of bytes are multiples of 16.
        let past = if case.elem == "f16" { 8 } else { 16 };
        for sizes in [format!("m=129,n={},k=64", 256 + past), format!("m=127,n={},k=328", 512 + past)] {
            let (kernel, mapping) = &text;
            let sizes = Sizes::parse(kernel, &format!("{sizes}{}", case.sizes)).expect("sizes");
            let validation = Validation::new(kernel, mapping, sizes).expect("a trial");
            let problem = validation.reference(Style::Normal, 7).expect("a reference");
            right(&problem, &made, &FEW_ORDERS, (2, 2e-2), case.name);
        }
    }
}

/// The library's block-scaled product adds its sums by itself, and these wait for registers that products move. (Measured on
/// an H100 in bursts, of the unscaled one: tiles of 192 x 128 1.35, the library's of 256 x 128 1.21.)
#[test]
fn scaled_blocks_take_little_longer() {
    let cycles = |name: &str, words: Option<&str>| {
        let text = warplift::kernels::find(name).expect("a kernel").text;
        let (body, own) = text.split_at(text.find("\nmapping ").expect("a mapping"));
        let mapping = words.map_or(own.to_owned(), |words| format!("\nmapping {name} {{ {words} }}"));
        let module = parse_file(&format!("{body}{mapping}"), name).expect("a text");
        let (kernel, mapping) = (&module.kernels[0], &module.mappings[0]);
        let sizes = Sizes::parse(kernel, "m=4096,n=4096,k=4096").expect("sizes");
        predict(kernel, mapping, &SM90A, &sizes, &Options::default()).expect("a prediction").cycles
    };
    let plain = cycles("gemm_e4m3", None);
    // Neighbours share the rows: where they share the columns the L2 adds a fiftieth by prediction, and nothing as measured.
    let low = "BM = 192, BN = 128 for t: pipeline fit, producers 1, consumers 3 kernel: persistent, raster band_n 16";
    for (words, most) in [(Some(low), 1.23), (None, 1.32)] {
        let ratio = cycles("gemm_e4m3_blocks", words) / plain;
        assert!(ratio <= most, "{words:?}: {ratio:.3}");
    }
}

/// What is stored before and after a load of the same array, and the sizes of a problem.
const REWRITTEN: &[(&str, &str, &str)] = &[
    (
        "an output in place, and another one that reads what stood there",
        "    old = load gc[i*BM, j*BN] : f16[BM, BN]
    store gc[i*BM, j*BN], cast(acc, f16)
    store gd[i*BM, j*BN], cast(acc + cast(old, f32), f16)
",
        "cdiv(m, BM), cdiv(n, BN)",
    ),
    (
        "a tile that is written beside the one that was read",
        "    old = load gc[i*BM, 0] : f16[BM, BN]
    store gc[i*BM, 64], cast(acc + cast(old, f32), f16)
",
        "cdiv(m, BM), 1",
    ),
    (
        "a tile that is written beside the one that was read, which another output takes",
        "    old = load gc[i*BM, 0] : f16[BM, BN]
    store gc[i*BM, 64], cast(acc, f16)
    store gd[i*BM, 0], cast(acc + cast(old, f32), f16)
",
        "cdiv(m, BM), 1",
    ),
    (
        "an output that is read at a place that wraps around to where it was stored",
        "    store gd[i*BM, j*BN], cast(acc, f16)
    old = load gd[i*BM + 1073741824 + 1073741824 + 1073741824 + 1073741824, j*BN] : f16[BM, BN]
    store gc[i*BM, j*BN], cast(acc * 0.5 + cast(old, f32), f16)
",
        "cdiv(m, BM), cdiv(n, BN)",
    ),
    (
        "an output that is read between two stores",
        "    store gd[i*BM, j*BN], cast(acc, f16)
    old = load gd[i*BM, j*BN] : f16[BM, BN]
    store gc[i*BM, j*BN], cast(acc * 0.5 + cast(old, f32), f16)
",
        "cdiv(m, BM), cdiv(n, BN)",
    ),
    (
        "a load before a loop that writes",
        "    old = load gc[i*BM, j*BN] : f16[BM, BN]
    for u in 0..2 {
        store gc[i*BM, j*BN], cast(acc + cast(old, f32), f16)
    }
",
        "cdiv(m, BM), cdiv(n, BN)",
    ),
];

/// Slices do not sink into a load past a store that changes what it reads. Rows of n elements without a known multiple
/// are stored by threads.
#[test]
fn a_load_reads_what_stood_there_at_its_place() {
    for (name, body, grid) in REWRITTEN {
        let case = Case { body: "\n", ..with_residual(name, "", 1.0) };
        let text = text(&case)
            .replace("    store gc[i*BM, j*BN], cast(r, f16)\n", body)
            .replace("n: i32 % 8", "n: i32");
        let text = text.replace("grid cdiv(m, BM), cdiv(n, BN)", &format!("grid {grid}"));
        let text = text.replace("BN = 256", "BN = 128").replace(", epilogue deferred", "");
        let module = parse_file(&text, "rewritten").unwrap_or_else(|e| panic!("{name}: {e:?}\n{text}"));
        let (kernel, mapping) = (&module.kernels[0], &module.mappings[0]);
        let made = compiled(&case, &(kernel.clone(), mapping.clone()));
        let sizes = Sizes::parse(kernel, "m=129,n=263,k=64").expect("sizes");
        let problem = Validation::new(kernel, mapping, sizes).expect("a trial");
        right(
            &problem.reference(Style::Normal, 7).expect("a reference"),
            &made,
            &FEW_ORDERS,
            (2, 2e-2),
            name,
        );
    }
}

/// What stands behind a main loop whose results would be held back, and what an access behind them needs of them.
const PASSED: &[(&str, &str)] = &[
    (
        "a value that a branch uses too",
        "    w = expand_dims(r * 3.0, 1)\n    store gp[i*64, j], w\n    if i < 2 { store gq[i*64, j], w }\n",
    ),
    (
        "a second store of a branch",
        "    store gq[i*64, j], expand_dims(r, 1)\n    if i < 2 { store gq[i*64, j], expand_dims(r * 2.0, 1) }\n",
    ),
    (
        "an update that gives what stood there",
        "    store gn[i*64, j], full 1 : i32[64, 1]\n    old = atomic_add gn[i*64, j], full 1 : i32[64, 1] : i32[64, 1]
    store gp[i*64, j], expand_dims(r, 1) + cast(old, f32)\n",
    ),
    (
        "a release",
        "    store gp[i*64, j], expand_dims(r, 1)\n    old = atomic_add gn[i*64, j], full 1 : i32[64, 1] : i32[64, 1] order release
    store gq[i*64, j], cast(old, f32)\n",
    ),
];

/// Stores are held back only where nothing behind them waits for them.
#[test]
fn nothing_passes_what_needs_it() {
    let mut said = 0;
    for (what, body) in PASSED {
        let text = format!(
            "kernel gemm(a: ptr<f16> align 16, b: ptr<f16> align 16, p: ptr<f32>, q: ptr<f32>, o: ptr<i32>, m: i32, n: i32 % 8, k: i32 % 8) {{
    grid cdiv(m, 64), cdiv(n, 128)
    ga = view a : f16[m, k]
    gb = view b : f16[n, k]
    gp = view p : f32[m, cdiv(n, 128)]
    gq = view q : f32[m, cdiv(n, 128)]
    gn = view o : i32[m, cdiv(n, 128)]
    i, j = block_index
    zero = full 0.0 : f32[64, 128]
    acc = for t in 0..cdiv(k, 64) carry x = zero {{
        y = mma x, load ga[i*64, t*64] : f16[64, 64], trans(load gb[j*128, t*64] : f16[128, 64])
        yield y
    }}
    r = reduce_sum(acc, 1)
{body}}}
mapping gemm {{ for t: pipeline fit, producers 1, consumers 1 kernel: persistent, epilogue deferred }}"
        );
        let module = parse_file(&text, "passed").unwrap_or_else(|e| panic!("{what}: {e:?}\n{text}"));
        let (kernel, mapping) = (module.kernels[0].clone(), module.mappings[0].clone());
        let made = compiled(&Case { name: what, ..PLAIN }, &(kernel.clone(), mapping.clone()));
        let schedule = &made.explained.schedule;
        // A value of a branch is kept; whatever else stands here declines.
        assert!(*what == PASSED[0].0 || schedule.deferral.is_none(), "{what}");
        said += schedule.remarks.iter().filter(|r| r.contains("a store would pass")).count();
        let sizes = Sizes::parse(&kernel, "m=200,n=264,k=328").expect("sizes");
        let validation = Validation::new(&kernel, &mapping, sizes).expect("a trial");
        let problem = validation.reference(Style::Normal, 7).expect("a reference");
        right(&problem, &made, &FEW_ORDERS, (2, 2e-2), what);
    }
    assert!(said > 0, "no store is held back, or none passes anything");
}
