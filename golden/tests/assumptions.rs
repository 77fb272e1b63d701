//! Promises about scalars from memory: what the compiler does with them, and who notices that one is broken.

use warplift::ir::interp::Fault;
use warplift::ir::manifest::Fact;
use warplift::ir::tile::parse_file;
use warplift::sim::{HazardKind, Hazards};
use warplift_golden::given::{Given, check, has_producer, made, parsed, problem};

/// Rows that begin where an array says.
const STARTS: &str = "kernel starts(x: ptr<f32> align 16, at: ptr<TYPE>, y: ptr<f32> align 16, m: i32) {
    grid m
    gx = view x : f32[600]
    ga = view at : TYPE[m]
    gy = view y : f32[m, 128]
    i = block_index
    first = load ga[i] : TYPE
    ASSUME
    store gy[i, 0], reshape load gx[first] : f32[128] : f32[1, 128]
}
mapping starts { kernel: warps 1 }";

#[test]
fn a_multiple_allows_vectors() {
    let (narrow, wide) = ([0, 8, 596, 64], [0i64, 8, 596, 64]);
    for (ty, given) in
        [("i32", Given::I32(&narrow)), ("u32", Given::I32(&narrow)), ("i64", Given::I64(&wide))]
    {
        let plain = STARTS.replace("TYPE", ty).replace("ASSUME", "");
        let (kernel, mapping) = parsed(&plain);
        assert!(!made(&kernel, &mapping).ptx.contains("ld.global.v4"), "{ty}");
        let text = STARTS.replace("TYPE", ty).replace("ASSUME", "assume first % 4 in 0..600");
        let compiled = check(&text, &[("m", 4)], &[("at", given)]);
        assert!(compiled.ptx.contains("ld.global.v4"), "{}", compiled.ptx);
        assert!(
            compiled.ptx.contains(&format!("//sim assume.{} ", ty.replace('i', "s"))),
            "{}",
            compiled.ptx
        );
        assert!(
            !compiled.manifest.facts.iter().any(|f| matches!(f, Fact::Limit { what, .. } if what == "first"))
        );
    }
}

/// A group's rows of a product: where they begin and how many they are comes from memory.
const GROUPS: &str = "kernel groups(a: ptr<f16> align 16, b: ptr<f16> align 16, c: ptr<f16> align 16,
        first: ptr<i32>, count: ptr<i32>, g: i32, k: i32 % 8) {
    tunable BM = 64, BN = 64, BK = 64
    grid g
    i = block_index
    gf = view first : i32[g]
    gn = view count : i32[g]
    gb = view b : f16[BN, k]
    gc = view c : f16[g, BM, BN]
    row = load gf[i] : i32
    rows = load gn[i] : i32
    ASSUME
    ga = view a : f16[rows, k]
    zero = full 0.0 : f32[BM, BN]
    acc = for t in 0..cdiv(k, BK) carry x = zero {
        yield mma x, load ga[row, t*BK] : f16[BM, BK], trans(load gb[0, t*BK] : f16[BN, BK])
    }
    out = subview gc[i, _, _]
    store out[0, 0], cast(acc, f16)
}
mapping groups { for t: pipeline 2, producers 1, consumers 1 }";

#[test]
fn a_range_allows_tensor_copies() {
    let copies = |ptx: &str| ptx.matches("d.shared::cluster.global").count();
    let given = || [("first", Given::I32(&[0, 70, 190, 3])), ("count", Given::I32(&[200, 100, 200, 0]))];
    let (kernel, mapping) = parsed(&GROUPS.replace("ASSUME", ""));
    assert_eq!(copies(&made(&kernel, &mapping).ptx), 1, "nothing is known of rows and their number");
    let text = GROUPS.replace("ASSUME", "assume row in 0..\n    assume rows in 0..=200");
    let compiled = check(&text, &[("g", 4), ("k", 136)], &given());
    assert!(has_producer(&compiled) && copies(&compiled.ptx) == 2, "{}", compiled.ptx);
}

/// Loops that memory ends: a promise bounds their iterations, in nested scopes it ends with them.
#[test]
fn a_promise_holds_in_its_block() {
    let text = "fn upto(n, most) {
    assume n in 0..=8
    yield min(n, most)
}

kernel scopes(count: ptr<i32>, y: ptr<i32>, m: i32) {
    grid m
    gn = view count : i32[m]
    gy = view y : i32[m]
    i = block_index
    n = load gn[i] : i32
    sum = for k in 0..n carry s = 0 {
        assume n in 1..
        once = n % 2 + n
        yield s + once
    }
    few = if n <= 8 { yield upto(n, 5) } else { yield n }
    store gy[i], full sum + few : i32[1]
}
mapping scopes { kernel: warps 1 }";
    let compiled = check(text, &[("m", 5)], &[("count", Given::I32(&[0, 3, 4, 8, 9]))]);
    assert_eq!(compiled.ptx.matches("//sim assume.s32").count(), 2, "{}", compiled.ptx);
}

/// What each of three numbers breaks, or keeps, in all that check it.
#[test]
fn broken_promises_are_reported_with_their_place() {
    let text = STARTS.replace("TYPE", "i32").replace("ASSUME", "assume first % 4 in 0..600");
    let line = 1 + text.lines().position(|l| l.contains("assume")).unwrap() as u32;
    let (kernel, mapping) = parsed(&text);
    let compiled = made(&kernel, &mapping);
    // The reference and the PTX are of a kernel without the promise: only the comment differs.
    let silent = text.replace("assume first % 4 in 0..600", "first2 = assume first % 1");
    let (silent, _) = parsed(&silent.replace("gx[first]", "gx[first2]"));
    for (number, broken) in [(6, true), (-4, true), (600, true), (596, false)] {
        let at = [0, 8, number, 64];
        let sizes = [("m", 4)];
        let quiet = problem(&silent, &mapping, &sizes, &[("at", Given::I32(&at))]);
        let options = warplift::sim::Options { hazards: Hazards::Warn, ..Default::default() };
        let (_, report) = quiet.simulate(&compiled.ptx, &compiled.manifest, &options, 2).unwrap();
        let found = report.hazards.iter().find(|h| h.kind == HazardKind::Assumption);
        assert_eq!(found.is_some(), broken, "{number}: {:?}", report.hazards);
        if let Some(h) = found {
            assert!(h.message.contains(&format!("{number} is assumed to be a multiple of 4")), "{h}");
            assert_eq!(h.site.loc.as_ref().map(|l| l.1), Some(line), "{h}");
        }
    }
}

#[test]
fn the_launch_checks_what_follows_from_arguments() {
    let text = "kernel f(y: ptr<f32> align 16, n: i32, k: i64) {
    grid cdiv(n, 64)
    half = n / 2
    assume half % 8 in 8..=1024
    assume k % 3
    gy = view y : f32[n]
    i = block_index
    store gy[i*64], full cast(half + cast(k, i32), f32) : f32[64]
}
mapping f { kernel: warps 1 }";
    let (kernel, mapping) = parsed(text);
    let compiled = made(&kernel, &mapping);
    let limits: Vec<String> = compiled
        .manifest
        .facts
        .iter()
        .filter_map(|f| match f {
            Fact::Limit { what, value, min, max } => Some(format!("{what}: {value} in {min}..={max}")),
            _ => None,
        })
        .collect();
    assert_eq!(
        limits,
        [
            "n / 2 % 8: mod(div(n, 2), 8) in 0..=0",
            "n / 2: div(n, 2) in 8..=1024",
            "k % 3: mod(k, 3) in 0..=0"
        ]
    );
}

#[test]
fn the_interpreter_ends_at_a_broken_promise() {
    let text = STARTS.replace("TYPE", "u32").replace("ASSUME", "assume first % 4 in 0..600");
    let (kernel, _) = parsed(&text);
    use warplift::ir::interp::{Arg, Memory, Options, run};
    let mut memory = Memory::new();
    let x = memory.add("x", vec![0; 2400]);
    let at = memory.add("at", [0u32, 0xffff_fffc].iter().flat_map(|v| v.to_le_bytes()).collect());
    let y = memory.add("y", vec![0; 1024]);
    let args = [Arg::Ptr(x, 0), Arg::Ptr(at, 0), Arg::Ptr(y, 0), Arg::Int(2)];
    let error = run(&kernel, &args, &mut memory, &Options::default()).unwrap_err();
    let Fault::Assume(message) = &error.fault else { panic!("{error}") };
    assert_eq!(message, "4294967292 is not % 4 in 0..=599");
    assert_eq!(error.loc.line, 8);
}

#[test]
fn what_cannot_be_promised_is_said() {
    for (statement, why) in [
        ("assume n", "expected `% 8` or `in 0..64` behind the number"),
        ("assume n % 0", "0 must be at least 1"),
        ("assume n in 5..3", "the range from 5 to 2 is empty"),
        ("assume B % 8", "`B` is a tunable: `assert` decides about it"),
        ("assume n + 1 % 8", "expected `% 8`"),
        ("assume (n + 1) % 8", "write `name = ..`"),
        ("h = cast(n, f32) assume h % 8", "an integer scalar"),
        ("t = iota 0 : i32[B] assume t % 8", "an integer scalar"),
        ("assume nn % 8", "unknown name `nn`"),
    ] {
        let text = format!("kernel f(y: ptr<f32>, n: i32) {{ tunable B = 8 grid n {statement} }}");
        let error = parse_file(&text, "f.tile").expect_err(&text).to_string();
        assert!(error.contains(why), "{statement}: {error}");
    }
    let text = "kernel f(y: ptr<f32>, n: i32) { grid n m = assume (n + 1) % 8 in 8.. gy = view y : f32[m] }";
    let printed = parse_file(text, "f.tile").unwrap().kernels[0].to_string();
    assert!(printed.contains(" % 8 in 8.."), "{printed}");
    assert!(parse_file(&printed, "f.tile").unwrap().kernels[0].to_string() == printed);
}

/// A promise about a number says nothing of the number that is left when a cast cuts bits off, or when arithmetic wraps.
#[test]
fn numbers_that_are_cut_off_keep_no_promise() {
    let text = "kernel cut(x: ptr<f32> align 16, at: ptr<u32>, wide: ptr<i64>, count: ptr<i32>, y: ptr<i32>, z: ptr<f32>, m: i32, n: i32) {
        grid m
        i = block_index
        all = view x : f32[n]
        gat = view at : u32[m]
        gw = view wide : i64[m]
        gn = view count : i32[m]
        gy = view y : i32[m, 6]
        gz = view z : f32[m, 8]
        h = load gat[i] : u32
        assume h % 8 in 0..
        j = cast(h, i32)
        w = load gw[i] : i64
        assume w % 12 in 0..
        v = cast(w, i32)
        c = load gn[i] : i32
        assume c in 0..
        store gy[i, 0], full (j / 4) : i32[1, 1]
        store gy[i, 1], full (j % 16) : i32[1, 1]
        store gy[i, 2], full (v / 4) : i32[1, 1]
        store gy[i, 3], full cdiv(v, 16) : i32[1, 1]
        store gy[i, 4], full (j / 3) : i32[1, 1]
        store gy[i, 5], full (v % 3) : i32[1, 1]
        gx = view x : f32[min(v, n)]
        gs = view x : f32[min(c * 4, n)]
        store gz[i, 0], reshape load gx[0] : f32[4] : f32[1, 4]
        store gz[i, 4], reshape load gs[0] : f32[4] : f32[1, 4]
    }
    mapping cut { kernel: warps 1 }";
    let given = [
        ("at", Given::I32(&[i32::MIN, 8, -8])),
        ("wide", Given::I64(&[(1 << 31) + 4, 24, 12 * ((1 << 32) / 12 + 1)])),
        ("count", Given::I32(&[1 << 29, 1, 0])),
    ];
    check(text, &[("m", 3), ("n", 64)], &given);
}
