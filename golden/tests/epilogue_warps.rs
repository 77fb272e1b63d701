//! Work on a tile in two halves, for warps of their own (`kernel: mapping`): right in the simulator under several orders of
//! events, without a hazard, with as many stages as a tile fills; or refused, or a remark.

use warplift::ir::machine::RingFill;
use warplift::ir::target::SM90A;
use warplift::ir::tile::{Module, parse_file};
use warplift::kernels::find;
use warplift::{Compiled, Options, compile};
use warplift_golden::library::reference;
use warplift_golden::orders::{self, ORDERS};

/// The library's layer_norm for rows of up to 8192 columns.
fn layer_norm() -> String {
    let text = find("layer_norm_warp_specialized").expect("the library has it").text;
    let (text, _) = text.split_once("mapping").expect("a mapping");
    text.replace("kernel layer_norm_warp_specialized", "kernel k").replace("1..=65536", "1..=8192")
}

/// Rows over their sums: what the halves of a tile can be made of.
const SHARES: &str = "kernel k(x: ptr<f32> align 16, y: ptr<f32> align 16, m: i32, n: i32 % 8 in 1..=8192) {
    tunable BM = 2, BN = 1024
    grid cdiv(m, BM)
    gx = view x : f32[m, n]
    gy = view y : f32[m, n]
    i = block_index
    zero = full 1.0 : f32[BM]
    sum = for t in 0..cdiv(n, BN) carry s = zero {
        yield s + reduce_sum(abs(load gx[i*BM, t*BN] : f32[BM, BN]), 1)
    }
    part = rcp(sum)
    for u in 0..cdiv(n, BN) {
        store gy[i*BM, u*BN], (load gx[i*BM, u*BN] : f32[BM, BN]) * expand_dims(part, 1)
    }
}";

fn module(text: &str, mapping: &str) -> Module {
    let text = format!("{text}\nmapping k {{ {mapping} }}");
    parse_file(&text, "f.tile").unwrap_or_else(|e| panic!("{e:?}\n{text}"))
}

fn compiled(module: &Module) -> Result<Compiled, String> {
    let options = Options { verify: true, ..Options::default() };
    compile(&module.kernels[0], &module.mappings[0], &SM90A, &options).map_err(|e| e.to_string())
}

/// The compiled kernel, right at all sizes and under all orders.
fn right(module: &Module, sizes: &[&[(&str, i64)]]) -> Compiled {
    let made = compiled(module).unwrap_or_else(|e| panic!("{e}"));
    for &size in sizes {
        let problem = reference(&module.kernels[0], &module.mappings[0], size, 5);
        orders::right(&problem, &made, &ORDERS, (2, 4e-3), &format!("{size:?}"));
    }
    made
}

#[test]
fn the_library_specializes_warps_where_it_reads_rows_once() {
    let module = find("softmax_warp_specialized").expect("the library has it").parse().expect("it parses");
    let made = right(&module, &[&[("m", 7), ("n", 9000)], &[("m", 2), ("n", 8)], &[("m", 5), ("n", 6144)]]);
    let rings: Vec<_> = made.explained.schedule.rings.values().collect();
    let [row, handoff] = rings[..] else { panic!("{rings:?}") };
    // 11 stages of 6144 columns are a row of 65536.
    assert!(row.least == 11 && row.depth > row.least && row.rereads.len() == 1, "{row:?}");
    assert_eq!((handoff.fill, handoff.depth, handoff.bytes), (RingFill::Handoff, 2, 12 * 128));
    let names: Vec<&str> = made.explained.registers.iter().map(|r| r.role.as_str()).collect();
    assert_eq!(names, ["consumer", "epilogue", "producer"]);
}

#[test]
fn several_fragments_are_handed_on() {
    let mapping = "BM = 1, BN = 1024 kernel: persistent, warps 4, epilogue warps array x: staged";
    let sizes: [&[(&str, i64)]; 3] =
        [&[("m", 9), ("n", 3000)], &[("m", 3), ("n", 8)], &[("m", 1), ("n", 8192)]];
    let made = right(&module(&layer_norm(), mapping), &sizes);
    // Mean and factor of each thread; x is read again, w and b are loads of the epilogue warps.
    let handoff = made.explained.schedule.rings.values().find(|r| r.fill == RingFill::Handoff);
    assert_eq!(handoff.map(|r| r.bytes), Some(2 * 4 * 128));
    assert_eq!(made.explained.schedule.remarks, [] as [String; 0]);
}

/// What epilogue warps alone read has a ring of its own, one for all that they await together. (Who fills it, the protocol's
/// tests say.)
#[test]
fn what_the_epilogue_alone_read_is_brought_apart() {
    let all = "array x: staged array w: staged array b: staged";
    let sizes: [&[(&str, i64)]; 3] =
        [&[("m", 300), ("n", 3000)], &[("m", 3), ("n", 8)], &[("m", 1), ("n", 8192)]];
    for depth in ["", "for u: pipeline 1"] {
        let mapping = format!("BM = 1, BN = 1024 {depth} kernel: persistent, warps 4, epilogue warps {all}");
        let made = right(&module(&layer_norm(), &mapping), &sizes);
        let rings: Vec<_> = made.explained.schedule.rings.values().collect();
        let [row, own @ .., handoff] = &rings[..] else { panic!("{rings:?}") };
        assert!(row.rereads.len() == 1 && row.depth >= 8, "{row:?}");
        // They are awaited together, unless one stage would be occupied for the work between.
        let expected = if depth.is_empty() { vec![(2, 2 * 2048)] } else { vec![(1, 2048); 2] };
        assert_eq!(own.iter().map(|r| (r.buffers.len(), r.bytes)).collect::<Vec<_>>(), expected);
        assert!(own.iter().all(|r| r.rereads.is_empty() && (r.depth == 1) != depth.is_empty()), "{own:?}");
        assert_eq!(handoff.fill, RingFill::Handoff);
        // Nobody loads them for the first half: nothing was missed.
        assert_eq!(made.explained.schedule.remarks, [] as [String; 0]);
    }
    // What both halves read keeps a ring for each.
    let both = layer_norm()
        .replace("own = reduce_sum(x1, 2) * 0.125", "v = cast(reshape(load gw[t*BN] : f16[BN]) : f16[1, BN/8, 8], f32)\n own = reduce_sum(x1, 2) * 0.125")
        .replace("off = x1 -", "off = x1 + v * 0.0 -");
    assert!(both != layer_norm());
    let mapping = format!("BM = 1, BN = 1024 kernel: persistent, warps 4, epilogue warps {all}");
    let made = right(&module(&both, &mapping), &sizes);
    let rereads = made.explained.schedule.rings.values().filter(|r| !r.rereads.is_empty());
    assert_eq!(
        rereads.map(|r| r.buffers.len()).collect::<Vec<_>>(),
        [1, 1],
        "{:?}",
        made.explained.schedule.remarks
    );
}

/// Rows that are as long as one likes are loaded by both halves.
#[test]
fn rows_without_a_bound_are_loaded_twice() {
    for (bound, why) in [
        ("n: i32 % 8", "nothing bounds the iterations of loop `t`"),
        ("n: i32 % 8 in 1..=65536", "64 stages of"),
    ] {
        let text = SHARES.replace("n: i32 % 8 in 1..=8192", bound);
        let mapping = "BM = 2, BN = 1024 kernel: persistent, warps 4, epilogue warps array x: staged";
        let made = right(&module(&text, mapping), &[&[("m", 9), ("n", 3000)], &[("m", 3), ("n", 8)]]);
        let remarks = &made.explained.schedule.remarks;
        assert!(remarks.len() == 1 && remarks[0].contains(why), "{bound}: {remarks:?}");
        assert!(made.explained.schedule.rings.values().all(|r| r.rereads.is_empty()), "{bound}");
    }
}

/// A loop that walks its columns another way brings other tiles.
#[test]
fn loops_that_load_something_else_do_not_share() {
    let mapping = "BM = 2, BN = 1024 kernel: persistent, warps 4, epilogue warps array x: staged";
    let sizes: [&[(&str, i64)]; 1] = [&[("m", 9), ("n", 3000)]];
    let back = SHARES.replace("gy[i*BM, u*BN], (load gx[i*BM, u*BN]", "gy[i*BM, u*BN], (load gx[0, u*BN]");
    let half = SHARES.replace("for u in 0..cdiv(n, BN)", "for u in 1..cdiv(n, BN)");
    // Other tiles of the same array come by another tensor map.
    let narrow = SHARES.replace("for u in 0..cdiv(n, BN)", "for u in 0..cdiv(n, 512)").replace(
        "gy[i*BM, u*BN], (load gx[i*BM, u*BN] : f32[BM, BN])",
        "gy[i*BM, u*512], (load gx[i*BM, u*512] : f32[BM, 512])",
    );
    for text in [back, half, narrow] {
        assert!(text != SHARES);
        // What the halved loop leaves is not compared: nobody writes it, here or in the interpreter.
        let made = right(&module(&text, mapping), &sizes);
        let remarks = &made.explained.schedule.remarks;
        assert!(remarks.len() == 1 && remarks[0].contains("no loop before theirs"), "{remarks:?}");
    }
}

/// A text with one array more.
fn with_array(text: &str, name: &str) -> String {
    let view = format!("g{name} = view {name} : f32[m, n]\n    gx = view");
    text.replace("gx = view", &view).replace("(x:", &format!("({name}: ptr<f32> align 16, x:"))
}

/// What stands outside of the loops is one half's, whoever copies it; what a tile carries to the next is the first's.
#[test]
fn tiles_outside_of_the_loops_are_one_half_s() {
    const SUM: &str = "sum = for t in 0..cdiv(n, BN) carry s = zero {";
    const ZERO: &str = "zero = full 1.0 : f32[BM]";
    const FIRST: &str = "load gx[i*BM, 0] : f32[BM, BN]";
    let scaled = format!("zero = reduce_sum(abs({FIRST}), 1)");
    let both = format!("{ZERO}\n c = {FIRST}");
    let behind = format!("expand_dims(part, 1)\n }}\n store gv[i*BM, 0], ({FIRST}) * expand_dims(part, 1)");
    let alone = format!("sum = reduce_sum(abs({FIRST}), 1)");
    let from_loop = &SHARES[SHARES.find(SUM).expect("a loop")..SHARES.find("part =").expect("behind it")];
    let mapping = "BM = 2, BN = 1024 kernel: persistent, warps 4, epilogue warps array x: staged";
    let sizes: [&[(&str, i64)]; 2] = [&[("m", 40), ("n", 3000)], &[("m", 3), ("n", 8)]];
    for (from, to, mapping) in [
        // Loaded by consumers alone, for both halves, by epilogue warps alone; in the last case loads go a tile ahead.
        (ZERO, scaled.as_str(), mapping),
        (ZERO, both.as_str(), mapping),
        ("expand_dims(part, 1)\n    }", behind.as_str(), mapping),
        (from_loop, alone.as_str(), mapping),
    ] {
        let text = SHARES.replace(from, to);
        assert!(text != SHARES, "{to}");
        let text = if to == behind { with_array(&text, "v") } else { text };
        let text = if to == both {
            text.replace("* expand_dims(part, 1)", "* expand_dims(part, 1) + c")
        } else {
            text
        };
        right(&module(&text, mapping), &sizes);
    }
    let ahead = SHARES.replace(from_loop, &alone).replace("gx = view", "gz = view z : f32[m, n]\n gx = view");
    let ahead =
        ahead.replace("load gx[i*BM, 0]", "load gz[i*BM, 0]").replace("(x:", "(z: ptr<f32> align 16, x:");
    right(&module(&ahead, mapping), &sizes);
}

/// A tile that is loaded twice in the second half shares one of its loads; tiles of two arrays share as far as there is room.
#[test]
fn stages_are_shared_once_and_as_room_allows() {
    let mapping = "BM = 2, BN = 1024 kernel: persistent, warps 4, epilogue warps array x: staged";
    let sizes: [&[(&str, i64)]; 1] = [&[("m", 40), ("n", 3000)]];
    let load = "(load gx[i*BM, u*BN] : f32[BM, BN])";
    let store = format!("store gy[i*BM, u*BN], {load} * expand_dims(part, 1)");
    let apart = format!("a = {load}\n b = {load}\n store gy[i*BM, u*BN], a * expand_dims(part, 1) + b");
    let twice = SHARES.replace(&store, &apart);
    assert!(twice != SHARES);
    let two = with_array(SHARES, "z")
        .replace("in 1..=8192", "in 1..=16384")
        .replace("f32[BM, BN]), 1)", "f32[BM, BN]) * abs(load gz[i*BM, t*BN] : f32[BM, BN]), 1)")
        .replace(&store, &apart.replace("b = (load gx", "b = (load gz"));
    let both = format!("{mapping} array z: staged");
    for (text, mapping, why) in
        [(twice, mapping, "loads the same for them"), (two, &both, "beyond the first")]
    {
        let made = right(&module(&text, mapping), &sizes);
        let schedule = &made.explained.schedule;
        assert!(schedule.remarks.len() == 1 && schedule.remarks[0].contains(why), "{:?}", schedule.remarks);
        assert_eq!(schedule.rings.values().filter(|r| !r.rereads.is_empty()).count(), 1);
    }
}

/// What is handed on has its room before stages are shared, and a bound below zero bounds nothing.
#[test]
fn stages_are_shared_where_what_is_handed_on_leaves_room() {
    let mapping = "BM = 2, BN = 1024 kernel: persistent, warps 4, epilogue warps array x: staged";
    let remarks = |text: &str, mapping: &str| {
        let made = compiled(&module(text, mapping)).unwrap_or_else(|e| panic!("{e}"));
        made.explained.schedule.remarks
    };
    // 28 stages of 8 KB leave 3 KB: enough for a number a row, not for a row of sums.
    let rows = SHARES.replace("in 1..=8192", "in 1..=28672");
    assert_eq!(remarks(&rows, mapping), [] as [String; 0]);
    let tiles = rows
        .replace("full 1.0 : f32[BM]", "full 1.0 : f32[BM, BN]")
        .replace(
            "s + reduce_sum(abs(load gx[i*BM, t*BN] : f32[BM, BN]), 1)",
            "s + abs(load gx[i*BM, t*BN] : f32[BM, BN])",
        )
        .replace("expand_dims(part, 1)", "part");
    let left = remarks(&tiles, mapping);
    assert!(left.len() == 1 && left[0].contains("28 stages of"), "{left:?}");
    // A difference that may wrap around is not bounded by what it is taken from.
    let below =
        SHARES.replace("in 1..=8192", "in -2147483648..=8192").replace("cdiv(n, BN)", "cdiv(n - 8, BN)");
    let left = remarks(&below, mapping);
    assert!(left.len() == 1 && left[0].contains("nothing bounds"), "{left:?}");
    // Fewer stages than a tile fills would wait for each other.
    let few = format!("{mapping} for t: pipeline 2");
    let left = remarks(SHARES, &few);
    assert!(left.len() == 1 && left[0].contains("8 stages, not 2"), "{left:?}");
}

/// Rows over the sums of a product's rows: the first part of a tile's work is a loop of products.
const PRODUCTS: &str = "kernel k(a: ptr<f16> align 16, b: ptr<f16> align 16, x: ptr<f32> align 16, y: ptr<f32> align 16, m: i32, n: i32 % 8, k: i32 % 8) {
    grid cdiv(m, 64)
    ga = view a : f16[m, k]
    gb = view b : f16[64, k]
    gx = view x : f32[m, n]
    gy = view y : f32[m, n]
    i = block_index
    zero = full 0.0 : f32[64, 64]
    acc = for t in 0..cdiv(k, 64) carry s = zero {
        ta = load ga[i*64, t*64] : f16[64, 64]
        tb = load gb[0, t*64] : f16[64, 64]
        p = mma s, ta, trans(tb)
        yield p
    }
    part = rcp(reduce_sum(abs(acc), 1) + 1.0)
    for u in 0..cdiv(n, 64) {
        store gy[i*64, u*64], (load gx[i*64, u*64] : f32[64, 64]) * expand_dims(part, 1)
    }
}";

const PRODUCTS_MAPPING: &str =
    "for t: pipeline fit, producers 1, consumers 1 kernel: persistent, epilogue warps array x: staged";

/// Products do not ask for epilogue warps or against them: their sums, or what follows from them, are handed on.
#[test]
fn a_loop_of_products_is_a_first_part() {
    let sizes: [&[(&str, i64)]; 3] = [
        &[("m", 300), ("n", 200), ("k", 200)],
        &[("m", 3), ("n", 8), ("k", 8)],
        &[("m", 129), ("n", 64), ("k", 640)],
    ];
    let sums = PRODUCTS.replace("expand_dims(part, 1)", "acc");
    // The factor of a row is handed on in the layout that the second loop needs: it is converted before that loop.
    for (text, registers) in [(PRODUCTS, 4), (&sums, 32)] {
        let made = right(&module(text, PRODUCTS_MAPPING), &sizes);
        let names: Vec<&str> = made.explained.registers.iter().map(|r| r.role.as_str()).collect();
        assert_eq!(names, ["consumer", "epilogue", "producer"]);
        let handoff = made.explained.schedule.rings.values().find(|r| r.fill == RingFill::Handoff);
        assert_eq!(handoff.map(|r| r.bytes), Some(registers * 4 * 128));
    }
}

/// Products in the second part alone, and in both: epilogue warps are whole warpgroups too.
#[test]
fn a_loop_of_products_is_a_second_part() {
    let store = "store gy[i*64, u*64], (load gx[i*64, u*64] : f32[64, 64]) * expand_dims(part, 1)";
    let both = PRODUCTS.replace(
        store,
        "va = load ga[i*64, u*64] : f16[64, 64]
        vb = load gb[0, u*64] : f16[64, 64]
        q = mma zero, va, trans(vb)
        store gy[i*64, u*64], q * expand_dims(part, 1)",
    );
    let first =
        &PRODUCTS[PRODUCTS.find("ta = load").expect("a load")..PRODUCTS.find("part =").expect("behind it")];
    let alone = both
        .replace(first, "yield s + (load gx[i*64, t*64] : f32[64, 64])\n }\n ")
        .replace("cdiv(k, 64)", "cdiv(n, 64)");
    let mapping = "for u: pipeline fit, producers 1, consumers 1 kernel: persistent, epilogue warps";
    let sizes: [&[(&str, i64)]; 2] = [&[("m", 300), ("n", 200), ("k", 200)], &[("m", 3), ("n", 8), ("k", 8)]];
    let staged = format!("{mapping} array x: staged");
    // Both parts load the same tiles, but one role frees a stage that products read.
    let same = both
        .replace("u in 0..cdiv(n, 64)", "u in 0..cdiv(k, 64)")
        .replace("k: i32 % 8", "k: i32 % 8 in 1..=256");
    for (text, mapping, apart) in [(&both, mapping, false), (&alone, &staged, false), (&same, mapping, true)]
    {
        assert!(text != PRODUCTS);
        let made = right(&module(text, mapping), &sizes);
        let names: Vec<&str> = made.explained.registers.iter().map(|r| r.role.as_str()).collect();
        assert_eq!(names, ["consumer", "epilogue", "producer"]);
        let schedule = made.explained.schedule;
        assert!(schedule.rings.values().all(|r| r.rereads.is_empty()));
        let told = schedule.remarks.iter().any(|r| r.contains("products read these stages"));
        assert_eq!(told, apart, "{:?}", schedule.remarks);
    }
}

/// An operand that is loaded once, before the loops, and read by products of the second half, or of both.
const QUERIES: &str = "kernel k(
    q: ptr<f16> align 16, x: ptr<f16> align 16, l: ptr<f32>, c: ptr<f16> align 16, m: i32, n: i32
) {
    tunable BM = 64, BN = 64
    const D = 64
    grid cdiv(m, BM)
    gq = view q : f16[m, D]
    gx = view x : f16[n, D]
    gl = view l : f32[m]
    gc = view c : f16[m, BN]
    i = block_index
    tq = load gq[i*BM, 0] : f16[BM, D]
    zero = full 0.0 : f32[BM, BN]
    r = load gl[i*BM] : f32[BM]
    acc = for t in 0..cdiv(n, BN) carry sum = zero {
        tx = load gx[t*BN, 0] : f16[BN, D]
        yield mma sum, tq, trans(tx)
    }
    store gc[i*BM, 0], cast(acc * expand_dims(r, 1), f16)
}";

#[test]
fn each_half_loads_the_operands_that_it_reads() {
    let first = "low = full -inf : f32[BM]
    r = for s in 0..cdiv(n, BN) carry most = low {
        ts = load gx[s*BN, 0] : f16[BN, D]
        yield max(most, reduce_max(mma zero, tq, trans(ts), 1))
    }";
    let both = QUERIES.replace("r = load gl[i*BM] : f32[BM]", first);
    let one = "for t: pipeline fit, producers 1, consumers 1 kernel: persistent, epilogue warps";
    let two = "for t: pipeline fit, producers 1, consumers 1 for s: pipeline fit, producers 1, consumers 1 \
               kernel: persistent, epilogue warps";
    let sizes: [&[(&str, i64)]; 3] =
        [&[("m", 300), ("n", 130)], &[("m", 256), ("n", 64)], &[("m", 1), ("n", 1)]];
    for (text, mapping, copies) in [(QUERIES, one, 1), (&both, two, 2)] {
        let made = right(&module(text, mapping), &sizes);
        let buffers = &made.explained.buffers;
        assert_eq!(buffers.iter().filter(|b| b.name == "tq" && b.bytes > 0).count(), copies, "{buffers:?}");
    }
}

/// What the first half may write is not loaded behind it.
#[test]
fn operands_that_the_first_half_writes_are_not_loaded_behind_it() {
    let mapping = "for t: pipeline fit, producers 1, consumers 1 kernel: persistent, epilogue warps";
    let stored = "r = load gl[i*BM] : f32[BM]
    store gq[i*BM, 0], full 1.0 : f16[BM, D]";
    let same = QUERIES.replace("r = load gl[i*BM] : f32[BM]", stored);
    let other =
        same.replace("store gq", "store gd").replace("gl = view", "gd = view d : f16[m, D]\n    gl = view");
    let other = other.replace("l: ptr<f32>", "l: ptr<f32>, d: ptr<f16> align 16");
    let refused = compiled(&module(&same, mapping)).map(|_| ()).expect_err("a refusal");
    assert!(refused.contains("loads `q` for its second part behind the first"), "{refused}");
    right(&module(&other, mapping), &[&[("m", 300), ("n", 130)]]);
}

#[test]
fn what_has_no_halves_is_refused() {
    let shares = |from: &str, to: &str| {
        let text = SHARES.replace(from, to);
        assert!(text != SHARES || from.is_empty(), "{from}");
        text
    };
    let mapping = "BM = 2, BN = 1024 kernel: persistent, warps 4, epilogue warps array x: staged";
    const STORE: &str = "store gy[i*BM, 0], (load gx[i*BM, 0] : f32[BM, BN]) * 2.0\n}";
    let loops = &SHARES[SHARES.find("zero =").expect("loops")..];
    // A number that the first loop makes of the one before, and the second multiplies by.
    let counted = shares(
        "sum = for t in 0..cdiv(n, BN) carry s = zero {",
        "sum, seen = for t in 0..cdiv(n, BN) carry s = zero, c = 0 {",
    )
    .replace("f32[BM, BN]), 1)", "f32[BM, BN]), 1), c * 3 + 1")
    .replace("expand_dims(part, 1)", "expand_dims(part, 1) * cast(seen, f32)");
    let plain = find("gemm").expect("a gemm").text.replace("kernel gemm", "kernel k");
    let plain = plain.split("mapping").next().unwrap_or_default();
    for (text, mapping, piece) in [
        (shares("", ""), "BM = 2, BN = 1024 kernel: warps 4, epilogue warps", "only a `persistent` kernel"),
        (shares("", ""), &mapping.replace("warps 4", "warps 2"), "no whole warpgroups"),
        (shares("", ""), &mapping.replace("warps 4", "warps 4, cluster 2"), "clusters of blocks"),
        (shares("", ""), &mapping.replace("warps 4", "warps 16"), "at most 1024"),
        (shares("", ""), &mapping.replace("staged", "plain"), "without a producer"),
        (shares(" * expand_dims(part, 1)", ""), mapping, "needs nothing of the first"),
        (shares("", ""), &mapping.replace("warps 4", "warps 4, pingpong 2"), "remove one of the two"),
        (SHARES.replace(loops, STORE), mapping, "holds no loop"),
        (counted, mapping, "line 12: a scalar of a tile"),
        (shares("gy = view y", "gy = view x"), &mapping.replace("staged", "plain"), "reads what it stores"),
        (
            plain.to_owned(),
            "BM = 128, BN = 128, BK = 64 kernel: persistent, epilogue warps",
            "needs nothing of the first",
        ),
    ] {
        let refused = compiled(&module(&text, mapping)).err().unwrap_or_else(|| panic!("{mapping} compiles"));
        assert!(refused.contains(piece), "{mapping}: {refused}");
    }
}

/// Scalars from memory are loaded by each half that needs them, also one by the number of another. If the kernel writes that
/// memory, no barrier would order the halves.
#[test]
fn scalars_from_memory_are_loaded_by_both_halves() {
    let mapping = "BM = 2, BN = 1024 kernel: persistent, warps 4, epilogue warps array x: staged";
    let sizes: [&[(&str, i64)]; 2] = [&[("m", 40), ("n", 3000)], &[("m", 3), ("n", 8)]];
    let text = SHARES
        .replace("(x:", "(pick: ptr<i32>, by: ptr<f32>, x:")
        .replace("    zero =", "    gp = view pick : i32[m]\n    gb = view by : f32[m] fill 2.0\n    p = load gp[i] : i32\n    b = load gb[p] : f32\n    zero =")
        .replace("yield s +", "yield s + b +")
        .replace("* expand_dims(part, 1)", "* expand_dims(part, 1) * b");
    right(&module(&text, mapping), &sizes);
    let written = text.replace("part = rcp(sum)", "part = rcp(sum)\n    store gp[i + 100], full 1 : i32[1]");
    let refused = compiled(&module(&written, mapping)).err();
    assert!(refused.as_ref().is_some_and(|e| e.contains("reads what it stores")), "{refused:?}");
}
