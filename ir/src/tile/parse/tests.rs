use super::*;
use crate::tile::{AtomicOp, BinOp, Depth, Epilogue, Item, MemorySync, Op, Products, Raster, Type};

const GEMM: &str = "
kernel gemm(a: ptr<f16> align 16, b: ptr<f16> align 16 may_alias, c: ptr<f16> align 16,
            m: i32, n: i32 % 8, k: i32 % 8 in 1..4097, alpha: f32) {
    tunable BM = 128, BN = 256, BK = 64
    grid cdiv(m, BM), cdiv(n, BN)

    ga = view a : f16[m, k]
    gb = view b : f16[n, k] strides [k, 1] fill -inf
    gc = view c : f16[m, n]
    i, j = block_index
    zero = full 0.0 : f32[BM, BN]
    acc = for t in 0..cdiv(k, BK) carry x = zero {
        ta = load ga[i*BM, t*BK] : f16[BM, BK]
        tb = load gb[j*BN, t*BK] : f16[BN, BK]
        y = mma x, ta, trans(tb)
        yield y
    }
    row = iota 0 : i32[BN]
    bias = cast(row, f32) * alpha - 1
    store gc[i*BM, j*BN], cast(max(acc + bias, 0.0), f16)
}
mapping gemm {
    BM = 64, BN = 128
    for t: pipeline fit, producers 1, consumers 2, wait 0
    array a: packed, stream
    array b: staged
    kernel: persistent, raster band_m 16, epilogue deferred, pingpong 2, cluster 2, products mma_sync, no bulk_store
}
";

const ZOO: &str = "
kernel zoo(p: ptr<i32>, n: i64 in -5..) {
    tunable T = 32
    grid 1, cdiv(T, 2) , 3
    g = view p : i32[64] fill 1.5
    x = load g[0] : i32[T]
    y = load g[cast(n, i32)] : i32[T]
    h, l = split(join(x, y << 2))
    print \"a \\\"b\\\"\\n\", h, l
    r, s = while carry i = 0, z = x {
        more = (i < 10) & (n != 3)
        yield more, i + 1, z * 2
    }
    q = if r == 4 { yield s } else { w = abs(s)
        yield w % 7 }
    if r > 2 { atomic_add g[r], q }
    e = expand_dims(reshape(q) : i32[T / 2, 2], 0)
    sl = slice(trans(e, [2, 0, 1]), [0, 0, T / 4]) : i32[2, 1, T / 4]
    red = reduce_max(scan_sum(sl, 0), 2)
    f = view_as(select(red >= 0, red, 5), f32)
    ga = gather(x, y, 0)
    bits = view_as(ga, u4)
    o = async_copy g[4] : i32[T]
    async_commit
    async_wait 0
    assert !(n == 0), \"n\"
    store g[grid_dim(1)], o + ga
    for u in 0..3 step 2 { store g[u], ga }
    for u in 0..n { @[warps 2, deferred] store g[0], ga }
}
";

fn one(text: &str) -> Kernel {
    match parse_file(text, "t.tile") {
        Ok(mut m) => m.kernels.remove(0),
        Err(e) => panic!("{e:?}"),
    }
}

fn errors(text: &str) -> Vec<String> {
    parse_file(text, "t.tile").map_or_else(|e| e.iter().map(ToString::to_string).collect(), |_| Vec::new())
}

#[test]
fn printed_kernels_read_back() {
    for text in [GEMM, ZOO] {
        let kernel = one(text);
        let printed = kernel.to_string();
        let again = one(&printed);
        assert!(kernel.same_as(&again), "{printed}");
        assert_eq!(printed, again.to_string());
    }
    assert!(!one(GEMM).same_as(&one(ZOO)));
    let other = GEMM.replace("BN = 256", "BN = 128");
    assert!(!one(GEMM).same_as(&one(&other)));
}

#[test]
fn names_and_places_are_kept() {
    let kernel = one(GEMM);
    let name = |n: &str| kernel.values.keys().find(|&v| kernel.names[v] == n);
    let acc = name("acc").and_then(|v| kernel.def(v)).unwrap();
    assert_eq!(kernel.insts[acc].loc, Loc { line: 12, column: 11 });
    assert!(name("t").is_some() && name("x").is_some());
    assert_eq!(kernel.params[5].facts.max, 4096);
    assert_eq!(kernel.grid.len(), 2);
    assert!(kernel.to_string().contains("for t in"));
}

#[test]
fn tiles_grow_implicitly() {
    let text = "kernel k() { grid 1 a = full 1.0 : f32[4, 8] b = full 2.0 : f32[8] c = b + a * 2 }";
    let kernel = one(text);
    let c = kernel.values.values().last().unwrap().ty;
    assert!(matches!(c, Type::Tile(_, s) if s.extents().as_deref() == Some(&[4, 8])));
    assert!(kernel.to_string().contains("broadcast("));
}

#[test]
fn mappings_read_back() {
    let mapping = parse_file(GEMM, "").unwrap().mappings.remove(0);
    assert_eq!(mapping.tunable("BN"), Some(128));
    assert_eq!(mapping.whole.raster, Raster::BandM(16));
    assert_eq!(mapping.whole.epilogue, Epilogue::Deferred);
    assert!(!mapping.whole.bulk_store && mapping.whole.persistent);
    assert_eq!(mapping.whole.products, Products::MmaSync);
    assert_eq!(mapping.loops[0].1.pipeline, Depth::Fit);
    let again = parse_file(&mapping.to_string(), "").unwrap().mappings.remove(0);
    assert_eq!(mapping, again);
}

#[test]
fn words_of_a_mapping_have_places() {
    let mapping = parse_file(GEMM, "").unwrap().mappings.remove(0);
    let start = mapping.places.of(Item::Mapping, "").line;
    let at = |item, word| {
        let loc = mapping.places.of(item, word);
        (loc.line - start, loc.column)
    };
    assert_eq!(at(Item::Tunable(1), ""), (1, 14));
    assert_eq!(at(Item::Loop(0), "consumers"), (2, 39));
    assert_eq!(at(Item::Array(0), "stream"), (3, 22));
    assert_eq!(at(Item::Kernel, "raster"), (5, 25));
    assert_eq!(at(Item::Kernel, "resident"), (5, 5), "a word that is not said stands where its item does");
    assert_eq!(at(Item::Tile(0), "layout"), (0, 1));
}

#[test]
fn words_are_said_once() {
    for (items, at, message) in [
        ("for t: wait 0, wait 1", "1:28:", "`wait` is said already"),
        ("for t: wait 0 for t: mma_order 1", "1:31:", "`t` is mapped already"),
        ("array a: staged, packed", "1:30:", "`packed` contradicts `staged`"),
        ("array a: stream array a: before_wait", "1:35:", "`a` is mapped already"),
        ("kernel: warps 4 kernel: warps 8", "1:37:", "`warps` is said already"),
        ("BM = 1 BM = 2", "1:20:", "`BM` is mapped already"),
        ("kernel: raster", "1:28:", "expected `linear`"),
        ("kernel: fast", "1:21:", "`pdl` or `no`, found `fast`"),
    ] {
        let found = errors(&format!("mapping k {{ {items} }}"));
        assert!(
            found.len() == 1 && found[0].starts_with(at) && found[0].contains(message),
            "{items}: {found:?}"
        );
    }
}

#[test]
fn former_words_are_refused_with_the_new_one_named() {
    for (items, at, message) in [
        ("kernel: persistent, alternate 2", "1:33:", "`alternate` is now `pingpong`"),
        ("for t: turns 1", "1:20:", "`turns` is now `mma_order`"),
        ("kernel: persistent, relay", "1:33:", "`relay` is now `epilogue warps`"),
        ("array w: packed, early", "1:30:", "`early` is now `before_wait`"),
        ("kernel: programmatic", "1:21:", "`programmatic` is now `pdl`"),
        ("kernel: raster folded", "1:28:", "`folded` is now `paired`"),
    ] {
        let found = errors(&format!("mapping k {{ {items} }}"));
        assert_eq!(found, [format!("{at} {message}")], "{items}");
    }
    // A word that has no meaning where it stands is not one of former versions there.
    let elsewhere = errors("mapping k { array w: relay }");
    assert!(elsewhere.len() == 1 && elsewhere[0].contains("expected `fit`, `plain`"), "{elsewhere:?}");
}

#[test]
fn several_items_of_the_kernel_are_one() {
    let mapping =
        parse_file("mapping k { kernel: warps 4 kernel: persistent }", "").unwrap().mappings.remove(0);
    assert!(mapping.whole.persistent && mapping.whole.warps == Some(4));
}

#[test]
fn all_mistakes_are_reported_at_their_place() {
    let text = "kernel k(n: i32) {\n    a = b + 1\n    c = a * 2\n    n = 3\n    d = n + 1.5\n}\nkernel l( {\n}\nmapping k { BM = }\n";
    let found = errors(text);
    let expected = [
        "2:9: unknown name `b`",
        "4:5: `n` is defined already",
        "5:9: `+` of i32 and f32: `cast` one of them",
        "7:11: expected a parameter, found `{`",
        "9:18: expected an integer, found `}`",
    ];
    assert_eq!(found, expected);
    let all = parse_file(text, "k.tile").unwrap_err();
    assert_eq!(all.to_string(), expected.map(|e| format!("k.tile:{e}")).join("\n"));
}

#[test]
fn misuse_in_text_is_an_error() {
    for (body, message) in [
        ("x = 1 < 2 < 3", "chain"),
        ("x, y = 1", "2 names for 1 value: write one name for each"),
        ("full 0.0 : f32[4]", "nothing takes the 1 value of this: write `name = ..`"),
        ("x = store 1, 2", "view[index"),
        ("x = load n[0] : f32[2]", "must be a view"),
        (
            "g = view p : f16[n, n] strides [1]",
            "a view with 2 extents and 1 stride: each extent has one stride",
        ),
        (
            "g = view p : f16[n, n] x = load g[0] : f16[4]",
            "`load` of a view of 2 dimensions takes 2 indices, found 1",
        ),
        (
            "g = view p : f16[n] x = full 0.0 : f32[4] store g[0], x",
            "the view holds f16, the tile is f32[4]: write `cast(.., f16)`",
        ),
        (
            "g = view p : f16[n] store g[0], n",
            "the view holds f16, the tile is i32[1]: write `cast(.., f16)`",
        ),
        (
            "g = view p : f16[n] x = full 0.0 : f16[4, 4] store g[0], x",
            "must be a tile of f16 with 1 dimension, found f16[4, 4]",
        ),
        ("x = store n, n y = 1", "expected `view[index, ..]`"),
        (
            "g = view p : f16[n] x = full 0.0 : f16[4] old = atomic_add g[0], x where n > 2",
            "if a type behind its operands says so: `old = atomic_add v[i], x : i32[B] where c`",
        ),
        ("load = 3", "reserved"),
        ("for t in 0..n carry x = 1 { y = x }", "must yield i32, found nothing"),
        ("for t in 0..n { yield 1 }", "must yield nothing, found i32"),
        ("for t in 0..n { yield } u = t", "unknown name `t`"),
        ("x = if n == 0 { yield 1 } else { yield 1.0 }", "must yield i32, found f32"),
        ("x = full 300 : i8[4]", "does not fit"),
        ("x = full 1.0 : f32[n]", "an extent is"),
        ("x = cast(n, f17)", "an element type"),
        ("x = \"abc", "must end in its line"),
        ("x = iota 3 : i32[4]", "must be 0 to 0"),
        ("yield 1", "yields nothing"),
        ("grid 1 grid 1", "one grid"),
    ] {
        let found = errors(&format!("kernel k(n: i32, p: ptr<f16>) {{ {body} }}"));
        assert!(found.iter().any(|e| e.contains(message)), "{body}: {found:?}");
    }
}

/// A kernel and a mapping with a mistake in nearly every line.
const WRONG: &str = "kernel k(a: ptr<float16>, b ptr<f16>, c: ptr<f16>, n: i32) {
    // a comment
    tunable BM = 64, BN =
    grid ceildiv(n, BM), cdiv(n, BN)
    ga = view a : f16[n, n];
    gc = view c : f16[n, n]
    i = block_index
    x = load ga[i*BM 0] : f16[BM, 64]
    acc = for t in 0..cdiv(n 64) carry s = x {
        y = lod gc[t, 0] : f16[BM, 64]
        yield s + y
    }
    z = relu(acc)
    gc[i, 0] = z
    u = laod gc[i*BM, 0] : f16[BM, 64]
    v = if n > 3 { yield (u } else { yield u }
    yeild v
    w = reduce_argmax(u, 1)
    fulll 0.0 : f32[4]
    store gc[i, 0], uu
}
mapping k {
    BM = , BN = 64
    kernel: persistant, raster squar, warps four, cluster 2
    arry a: staged
    for t: pipline 3, wait 0
}
kernal l() { }
";

#[test]
fn one_run_shows_all_mistakes() {
    let expected = [
        "1:17: `float16` is no element type; write `f16`",
        "1:29: expected `:`, found `ptr`",
        "2:5: a comment starts with `#`, not with `//`",
        "4:5: expected an integer, found `grid`",
        "4:10: there is no operation `ceildiv`; write `cdiv`",
        "5:28: a statement ends with its line; leave out `;`",
        "8:22: expected `,` or `]`, found `0`",
        "9:30: expected `,` or `)`, found `64`",
        "13:9: there is no operation `relu`; write `max(x, 0.0)`",
        "14:14: only a name stands before `=`; `store v[i, j], x` writes to a view",
        "15:9: there is no operation `laod`; did you mean `load`?",
        "16:29: expected `)`, found `}`",
        "17:5: there is no operation `yeild`; did you mean `yield`?",
        "18:9: there is no operation `reduce_argmax`; write `reduce_max(x, d)`, then `reduce_min` of the indices where `x` equals it",
        "19:5: there is no operation `fulll`; did you mean `full`?",
        "20:21: unknown name `uu`",
        "23:10: expected an integer, found `,`",
        "24:13: expected `persistent`, `raster`, `epilogue`, `cluster`, `pingpong`, `blocks`, `resident`, `warps`, `chunk`, `products`, `pdl` or `no`, found `persistant`; did you mean `persistent`?",
        "24:32: expected `linear`, `paired`, `square`, `band_m`, `band_n` or `counter`, found `squar`; did you mean `square`?",
        "24:45: expected a number, found `four`",
        "25:5: expected `for`, `array`, `tile`, `assume`, `kernel` or `NAME = number`, found `arry`; did you mean `array`?",
        "26:12: expected `pipeline`, `producers`, `consumers`, `wait`, `chunk`, `mma_order`, `split_k` or `stream_k`, found `pipline`; did you mean `pipeline`?",
        "28:1: expected `kernel`, `mapping` or `fn`, found `kernal`; did you mean `kernel`?",
    ];
    assert_eq!(errors(WRONG), expected);
}

#[test]
fn the_brace_that_is_not_closed_is_named() {
    let head = "kernel k(n: i32) {\n    grid 1\n";
    for (body, message) in [
        ("    x = n\n", "1:18: this `{` is not closed: the text ends before its `}`"),
        (
            "    for t in 0..n {\n        x = t\n    y = n\n}\n",
            "3:19: this `{` is not closed: the `}` of line 6 stands where another block's would",
        ),
        ("    x = n\nmapping k { }\n", "1:18: this `{` is not closed: line 4 starts before its `}`"),
        (
            "    if n > 1 {\n        x = n\n    }\n    }\n    y = n\n}\n",
            "7:5: expected `kernel`, `mapping` or `fn` behind the `}` of line 6, found `y`",
        ),
    ] {
        assert_eq!(errors(&format!("{head}{body}")), [message], "{body}");
    }
    assert_eq!(
        errors("mapping k {\n    BM = 3\n"),
        ["1:11: this `{` is not closed: the text ends before its `}`"]
    );
}

#[test]
fn nesting_has_a_limit() {
    for (open, close) in [("(", ")"), ("-", ""), ("if true {", "}"), ("abs(", ")"), ("1 + ", "")] {
        let body = format!("x = {}1{}", open.repeat(100_000), close.repeat(100_000));
        let found = errors(&format!("kernel k() {{ {body} }}"));
        assert!(!found.is_empty(), "{open}");
    }
}

const CONSTANTS: &str = "
kernel scaled(p: ptr<f32>, n: i32) {
    const GROUP = 128, HALF = GROUP / 2, LOG2E = 1.5 * 2.0
    tunable BN in {64, 128} = 128, BM in 1..=9 step 2 = 3, BK in 8.. step 8 = 16
    grid cdiv(n, GROUP)
    assert GROUP % BN == 0
    g = view p : f32[n, HALF]
    x = load g[block_index * GROUP, 0] : f32[BM, 2 * HALF / 4]
    store g[0, HALF], x * LOG2E
}
";

#[test]
fn constants_are_numbers_wherever_they_stand() {
    let by_name = one(CONSTANTS);
    let by_number = CONSTANTS.replace("GROUP)", "128)").replace("assert GROUP", "assert 128");
    let by_number = by_number.replace("* GROUP", "* 128").replace(", HALF]", ", 64]");
    let by_number = by_number.replace("2 * HALF", "2 * 64").replace("x * LOG2E", "x * 3.0");
    assert!(by_name.same_as(&one(&by_number)));
    let printed = by_name.to_string();
    for part in ["const LOG2E = 3.0", "tunable BN in {64, 128} = 128", "BM in 1..=9 step 2 = 3"] {
        assert!(printed.contains(part), "{part} in\n{printed}");
    }
    assert!(one(&printed).same_as(&by_name), "{printed}");
}

#[test]
fn wrong_constants_and_domains_are_told() {
    for (from, to, message) in [
        ("GROUP / 2", "n / 2", "3:31: constant `HALF` is a number made of numbers and constants before it"),
        ("GROUP / 2", "GROUP / 0", "constant `HALF` is a number"),
        ("GROUP / 2", "LOG2E", "constant `HALF` is a number"),
        ("const GROUP", "const n = 1, GROUP", "`n` is defined already"),
        ("{64, 128} = 128", "{64, 128} = 96", "4:13: tunable `BN` is 96, must be 64 or 128"),
        ("{64, 128}", "{}", "tunable `BN` has no value to choose from"),
        ("1..=9 step 2", "0..=9 step 3", "tunable `BM` may be 0, must be 1 or more"),
        ("1..=9 step 2", "1..=9 step 0", "0 must be at least 1"),
        ("assert GROUP", "if n == 0 { const A = 1 } assert GROUP", "constants belong outside loops"),
    ] {
        let found = errors(&CONSTANTS.replace(from, to));
        assert!(found.iter().any(|e| e.contains(message)), "{to}: {found:?}, not {message}");
    }
}

/// The text of a kernel of 64 elements with these statements.
fn with_ids(statements: &str) -> String {
    format!(
        "kernel k(x: ptr<f16>, ids: ptr<i32>, y: ptr<f16>, m: i32, n: i32) {{ grid 1 gx = view x : f16[m, n] \
         gi = view ids : i32[n] gy = view y : f16[m, n] at = load gi[0] : i32[8] {statements} }}"
    )
}

#[test]
fn tiles_of_indices_grow_to_the_accessed_shape() {
    let text = with_ids(
        "t = load gx[at, 4] : f16[8, 32] where at > 3 store gy[0, at], trans(t) where expand_dims(at, 0) < 9 atomic_add gi[at], at \
         was = atomic_max gi[0], at : i32[8] where at > 2",
    );
    let Err(errors) = parse_file(&text, "") else {
        panic!("a mask of 8 elements is of a last dimension of 32")
    };
    assert!(errors[0].message.contains("must be bool[8, 32], found bool[8]"), "{errors}");
    let text = text.replace("where at > 3", "where expand_dims(at > 3, 1)");
    let kernel = parse_file(&text, "").unwrap().kernels.remove(0);
    let ops: Vec<&Op> = kernel.insts.values().map(|d| &d.op).collect();
    for op in [
        Op::LoadGather { masked: true },
        Op::StoreScatter { masked: true },
        Op::AtomicScatter { op: AtomicOp::Add, old: false, masked: false, sync: MemorySync::default() },
        Op::AtomicScatter { op: AtomicOp::Max, old: true, masked: true, sync: MemorySync::default() },
    ] {
        assert!(ops.contains(&&op), "{op:?} of {ops:?}");
    }
    let again = parse_file(&kernel.to_string(), "").unwrap().kernels.remove(0);
    assert_eq!(kernel.to_string(), again.to_string());
}

#[test]
fn wrong_tiles_of_indices_are_refused() {
    for (statements, message) in [
        (
            "x = mma (zero), t, t",
            "`mma` takes 3 operands, found 1: parentheses right behind it hold all of them",
        ),
        ("t = load gx[at, 0] : f16[16, 32]", "index 1 of `load` must be i32[16, 32], found i32[8]"),
        (
            "t = load gx[cast(at, f32), 0] : f16[8, 32]",
            "must be a tile of i32 or u32, or `to_index` of one of i64",
        ),
        ("t = load gx[0, 0] : f16[8, 32] where expand_dims(at, 1)", "must be a bool tile"),
        ("store gy[at, 0], full 0.0 : f16[16, 32]", "index 1 of `store` must be i32[16, 32], found i32[8]"),
    ] {
        let errors = parse_file(&with_ids(statements), "").unwrap_err();
        assert!(errors[0].message.contains(message), "{statements}: {errors}");
    }
}

const FUNCTIONS: &str = "fn twice(t) { yield t + t }
fn parts(t, by, N) {
    low = full by : f32[N]
    yield twice(t) * low, low
}
kernel k(x: ptr<f32>, n: i32) {
    tunable B = 64
    grid cdiv(n, B)
    g = view x : f32[n]
    t = load g[0] : f32[B]
    a, b = parts(t, 0.5, B)
    ones = full 1.0 : f32[64]
    c, d = parts(ones, 2.0, 64)
    store g[0], twice(a + b)
}";

#[test]
fn functions_are_inlined_with_their_places() {
    let kernel = parse_file(FUNCTIONS, "").unwrap().kernels.remove(0);
    let lines: Vec<u32> =
        kernel.insts.values().filter(|d| d.op == Op::Binary(BinOp::Add)).map(|d| d.loc.line).collect();
    assert_eq!(lines, [1, 1, 14, 1], "{kernel}");
    let again = parse_file(&kernel.to_string(), "").unwrap().kernels.remove(0);
    assert_eq!(kernel.to_string(), again.to_string());
}

#[test]
fn wrong_calls_are_refused() {
    for (was, is, message) in [
        ("twice(a + b)", "twice(a, b)", "14:17: `twice` takes 1 operand, found 2"),
        ("twice(a + b)", "parts(a, 1.0, B)", "14:17: `parts` gives 2 values, not one"),
        ("yield t + t", "yield twice(t)", "1:21: `twice` calls itself: a function is inlined"),
        ("yield t + t", "yield t + n", "1:25: unknown name `n` (`parts` is called at 11:12)"),
        ("fn parts(t, by, N)", "fn parts(t, by, by)", "2:17: there is a parameter `by` already"),
        ("fn parts(", "fn twice(", "2:4: there is a function `twice` already"),
        ("c, d = parts", "c = parts", "13:5: 1 name for 2 values: write one name for each"),
    ] {
        let errors = parse_file(&FUNCTIONS.replacen(was, is, 1), "").unwrap_err();
        let all: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert!(all.iter().any(|e| e.contains(message)), "{was} -> {is}: {all:?}");
    }
}

#[test]
fn a_parameter_that_is_a_number_keeps_its_meaning() {
    let text = "fn f(n, t) { n = n + 1 yield t * 2.0 }
        kernel k(x: ptr<f32>) { grid 1 g = view x : f32[8] a = load g[0] : f32[8] store g[0], f(3, a) }";
    let errors = parse_file(text, "").unwrap_err();
    assert!(errors.to_string().contains("`n` is defined already"), "{errors}");
}

#[test]
fn calls_that_double_from_function_to_function_end() {
    let mut text = "fn up0(t) { yield t + t }\n".to_owned();
    for n in 1..40 {
        let below = n - 1;
        text += &format!("fn up{n}(t) {{ a = up{below}(t) yield up{below}(a) }}\n");
    }
    text += "kernel k(x: ptr<f32>) { grid 1 g = view x : f32[8] a = load g[0] : f32[8] store g[0], up39(a) }";
    let errors = parse_file(&text, "").unwrap_err();
    assert!(errors.to_string().contains("a kernel has at most 4096 calls"), "{errors}");
}

#[test]
fn else_if_yields_what_its_branches_do() {
    let text = "kernel k(x: ptr<i32>, n: i32) { grid 1 g = view x : i32[n]
        a, b = if n < 4 { yield 1, n } else if n < 8 { yield 2, n + 1 } else { yield 3, n + 2 }
        if n < 2 { store g[0], full a : i32[8] } else if n < 4 { store g[8], full b : i32[8] } }";
    let kernel = parse_file(text, "").unwrap().kernels.remove(0);
    assert_eq!(kernel.insts.values().filter(|d| d.op == Op::If).count(), 4);
    let again = parse_file(&kernel.to_string(), "").unwrap().kernels.remove(0);
    assert_eq!(kernel.to_string(), again.to_string());
}
