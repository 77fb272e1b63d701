//! Accesses by tiles of indices and under masks: compiled, simulated under several orders without hazard, and compared with
//! the interpreter, on indices that are equal, sorted, mixed, and outside.

use warplift::compile;
use warplift::ir::target::SM90A;
use warplift::ir::tile::parse_file;
use warplift::sim::{Adversary, Options};
use warplift_golden::described::{check, compiled, reference};

/// Rows of `x[v, n]` by their numbers.
const ROWS: &str =
    "kernel rows(x: ptr<f16> align 16, ids: ptr<i32>, y: ptr<f16> align 16, m: i32, v: i32, n: i32 % 8) {
    grid cdiv(m, 16), cdiv(n, 128)
    gx = view x : f16[v, n]
    gi = view ids : i32[m] fill -1
    gy = view y : f16[m, n]
    i, j = block_index
    rows = load gi[i*16] : i32[16]
    store gy[i*16, j*128], load gx[rows, j*128] : f16[16, 128]
}
mapping rows { kernel: warps 4 }";

/// All equal, sorted, mixed with some outside, one that is most, and numbers at the ends of their type.
const IDS: [&str; 4] = ["ids=ints:3..4", "ids=sorted:0..50", "ids=ints:-5..60", "ids=zipf:1.2:0..50"];

#[test]
fn rows_are_gathered_in_vectors() {
    let sizes = [("m", 37), ("v", 50), ("n", 264)];
    let ptx = check(ROWS, &sizes, &IDS);
    assert!(ptx.contains("ld.global.v4.b32"), "{ptx}");
    check(&ROWS.replace("f16", "f32"), &sizes, &IDS[2..]);
    check(&ROWS.replace("f16", "u8").replace("% 8", ""), &[("m", 20), ("v", 9), ("n", 131)], &IDS);
    check(&ROWS.replace(" align 16", "").replace("% 8", ""), &[("m", 5), ("v", 9), ("n", 31)], &IDS);
    check(&ROWS.replace("f16[v, n]", "f16[v, n] fill 2.5"), &sizes, &["ids=ints:-50..0"]);
}

/// Rows of 4 bits, converted.
fn four_bits() -> String {
    let text = ROWS.replace("x: ptr<f16>", "x: ptr<u4>").replace("view x : f16", "view x : u4");
    text.replace("load gx[rows, j*128] : f16[16, 128]", "cast(load gx[rows, j*128] : u4[16, 128], f16)")
}

#[test]
fn rows_of_elements_below_a_byte_are_gathered_where_they_fill_bytes() {
    check(&four_bits(), &[("m", 37), ("v", 50), ("n", 264)], &IDS);
}

/// The numbers may have 64 bits; they are compared with the extent before they are cut.
#[test]
fn numbers_of_64_bits_are_compared_whole() {
    let wide = ROWS
        .replace("ptr<i32>", "ptr<i64>")
        .replace("i32[m] fill -1", "i64[m]")
        .replace("i32[16]", "i64[16]");
    let far = "ids=ints:4294967290..4294967330";
    let sizes = [("m", 37), ("v", 50), ("n", 264)];
    let ptx = check(&wide, &sizes, &["ids=ints:-5..60", far, "ids=ints:-4294967300..-4294967290"]);
    assert!(ptx.contains("ld.global.v4.b32"), "{ptx}");
    // Their low halves are rows.
    let (kernel, mapping, _) = compiled(&wide);
    let outside = reference(&kernel, &mapping, &sizes, &[far]);
    let found = outside.interpret(&kernel, &Default::default()).unwrap();
    assert!(found.last().unwrap().iter().all(|&b| b == 0), "rows far outside are zeros");
    let cast = "kernel k(x: ptr<i64> align 8, y: ptr<i64> align 8, z: ptr<u32>, n: i32) {
        grid cdiv(n, 128)
        gx = view x : i64[n]
        gy = view y : i64[n]
        gz = view z : u32[n]
        i = block_index
        t = load gx[i*128] : i64[128]
        store gz[i*128], cast(t, u32)
        store gy[i*128], cast(cast(t, i32) - 7, i64)
    }
    mapping k { kernel: warps 2 }";
    check(cast, &[("n", 300)], &["x=ints:-9..9", "x=ints:2147483640..2147483660"]);
}

/// Tiles of 64-bit indices stand in the loop over tiles of a persistent kernel, and are -1 where the view ends.
#[test]
fn indices_of_64_bits_are_loaded_tile_by_tile() {
    let wide = ROWS
        .replace("ptr<i32>", "ptr<i64>")
        .replace("i32[m] fill -1", "i64[m] fill -1")
        .replace("load gi[i*16] : i32[16]", "to_index(load gi[i*16] : i64[16])")
        .replace("kernel: warps 4", "kernel: warps 4, persistent");
    check(&wide, &[("m", 137), ("v", 50), ("n", 264)], &["ids=ints:-5..60", "ids=ints:0..50"]);
}

const ELEMENTS: &str = "kernel pick(x: ptr<f32>, ids: ptr<i32>, y: ptr<f32>, n: i32, v: i32) {
    grid cdiv(n, 256)
    gx = view x : f32[v] fill 7.0
    gi = view ids : i32[n]
    gy = view y : f32[n]
    i = block_index
    at = load gi[i*256] : i32[256]
    t = load gx[at] : f32[256] where at % 2 == 0
    store gy[i*256], t where t != 1.0
}
mapping pick { kernel: warps 4 }";

#[test]
fn single_elements_have_indices_and_masks() {
    check(ELEMENTS, &[("n", 1000), ("v", 300)], &["ids=ints:-20..400", "ids=ints:8..9"]);
    let columns =
        "kernel columns(x: ptr<f16> align 16, ids: ptr<i32>, y: ptr<f16> align 16, m: i32 % 8, n: i32 % 8) {
        grid cdiv(m, 32)
        gx = view x : f16[m, n]
        gi = view ids : i32[64]
        gy = view y : f16[m, 64]
        i = block_index
        at = load gi[0] : i32[64]
        store gy[i*32, 0], load gx[i*32, at] : f16[32, 64] where expand_dims(at, 0) > 2
    }
    mapping columns { kernel: warps 4 }";
    check(columns, &[("m", 40), ("n", 72)], &["ids=ints:-3..80", "ids=ints:5..6"]);
}

#[test]
fn scattered_stores_keep_their_order() {
    // Each block has one loop; later iterations overwrite what earlier ones stored by other threads.
    let text = "kernel k(ids: ptr<i32>, y: ptr<i32>, z: ptr<i32>, n: i32) {
        grid 1
        gi = view ids : i32[256]
        gy = view y : i32[n]
        gz = view z : i32[n]
        at = load gi[0] : i32[256]
        none = full 0 : i32[256]
        s = for t in 0..5 carry sum = none {
            by = (at + t * 37) % 256
            store gy[by], iota 0 : i32[256] + t * 1000
            next = sum + load gy[255 - by] : i32[256]
            yield next
        }
        store gz[0], s
    }
    mapping k { kernel: warps 4 }";
    let text = text.replace("iota 0 : i32[256] + t * 1000", "(iota 0 : i32[256]) + t * 1000");
    check(&text, &[("n", 256)], &["ids=perm"]);
}

#[test]
fn a_race_of_scattered_stores_is_reported() {
    let text = ELEMENTS.replace("store gy[i*256], t", "store gy[at], t");
    let (kernel, mapping, made) = compiled(&text);
    let problem = reference(&kernel, &mapping, &[("n", 256), ("v", 300)], &["ids=ints:0..9"]);
    let options = Options { seed: 1, order: Adversary::Random, ..Options::default() };
    let run = problem.simulate(&made.ptx, &made.manifest, &options, 2);
    assert!(run.is_err_and(|e| e.to_string().contains("GlobalRace")));
}

/// An update gives what was there: places in a list, one after the other; the list is sorted by the number of its block.
#[test]
fn updates_give_what_was_there() {
    let text = "kernel listed(x: ptr<i32>, count: ptr<i32>, y: ptr<i32>, z: ptr<i32>, n: i32, bins: i32) {
        grid 1
        gx = view x : i32[n] fill -1
        gc = view count : i32[bins]
        gy = view y : i32[bins * 60]
        gz = view z : i32[4]
        at = load gx[0] : i32[64]
        one = full 1 : i32[64]
        place = atomic_add gc[at], one : i32[64]
        zero = full 0 : i32[64]
        store gy[at * 60 + place], at
        first = full 5 : i32[1]
        none = full 7 : i32[1]
        was = atomic_exchange gz[0], first : i32[1]
        now = atomic_max gz[0], none : i32[1] where was == was
        still = atomic_min gz[0], none : i32[1] where was != was
        store gz[1], now
        store gz[2], still + 1
        store gz[3], atomic_add gz[9], none : i32[1]
    }
    mapping listed { kernel: warps 2 }";
    let text = text.replace("        zero = full 0 : i32[64]\n", "");
    let ptx = check(&text, &[("n", 60), ("bins", 9)], &["x=ints:-3..12", "x=ints:5..6"]);
    assert!(ptx.contains("atom.global.add.u32") && ptx.contains("atom.global.exch.b32"), "{ptx}");
}

#[test]
fn many_threads_count_in_one_place() {
    let text = "kernel histogram(x: ptr<i32>, y: ptr<i32>, n: i32, bins: i32) {
        grid cdiv(n, 512)
        gx = view x : i32[n] fill -1
        gy = view y : i32[bins]
        i = block_index
        at = load gx[i*512] : i32[512]
        one = full 1 : i32[512]
        atomic_add gy[at], one where at != 4
    }
    mapping histogram { kernel: warps 4 }";
    check(text, &[("n", 1500), ("bins", 20)], &["x=ints:-3..30", "x=ints:5..6", "x=sorted:0..20"]);
}

const PRODUCT: &str =
    "kernel gathered(a: ptr<f16> align 16, b: ptr<f16> align 16, ids: ptr<i32>, c: ptr<f16> align 16,
        m: i32, v: i32, n: i32 % 8, k: i32 % 8) {
    grid cdiv(m, 128), cdiv(n, 128)
    ga = view a : f16[v, k]
    gb = view b : f16[n, k]
    gi = view ids : i32[m] fill -1
    gc = view c : f16[m, n]
    i, j = block_index
    rows = load gi[i*128] : i32[128]
    zero = full 0.0 : f32[128, 128]
    acc = for t in 0..cdiv(k, 64) carry x = zero {
        ta = load ga[rows, t*64] : f16[128, 64]
        tb = load gb[j*128, t*64] : f16[128, 64]
        y = mma x, ta, trans(tb)
        yield y
    }
    store gc[i*128, j*128], cast(acc, f16)
}
mapping gathered { for t: pipeline 3, producers 1, consumers 2 }";

/// The rows of an operand come by `cp.async` into the swizzle that `wgmma` reads, stages ahead.
#[test]
fn gathered_operands_keep_wgmma_and_their_ring() {
    let sizes = [("m", 200), ("v", 77), ("n", 136), ("k", 328)];
    let ptx = check(PRODUCT, &sizes, &["ids=ints:-5..90", "ids=ints:3..4"]);
    assert!(
        ptx.contains("wgmma.mma_async") && ptx.contains("cp.async.ca") | ptx.contains("cp.async.cg"),
        "{ptx}"
    );
    assert!(ptx.contains("cp.async.wait_group 2") || ptx.contains("cp.async.wait_group 1"), "{ptx}");
    assert!(!ptx.contains("wgmma.wait_group.sync.aligned 1"), "{ptx}");
    // With `wait 1` the products of one iteration run on under the next one's.
    for pipeline in ["pipeline 4, wait 1", "pipeline 4", "pipeline 2, wait 1"] {
        let flies = pipeline == "pipeline 4, wait 1";
        for words in ["raster linear", "persistent", "persistent, epilogue deferred"] {
            let text = PRODUCT.replace("pipeline 3", pipeline).replace("consumers 2", "consumers 2 kernel: ");
            let ptx =
                check(&text.replace("kernel: ", &format!("kernel: {words}")), &sizes, &["ids=ints:-5..90"]);
            assert_eq!(ptx.contains("wgmma.wait_group.sync.aligned 1"), flies, "{pipeline} {words}: {ptx}");
        }
    }
    let right =
        PRODUCT.replace("ga[rows, t*64]", "ga[i*128, t*64]").replace("gb[j*128, t*64]", "gb[rows, t*64]");
    let right =
        right.replace("f16[v, k]", "f16[m, k]").replace("f16[n, k]", "f16[v, k]").replace("ids[m]", "ids[n]");
    let right = right.replace("i32[m] fill -1", "i32[n] fill -1").replace("load gi[i*128]", "load gi[j*128]");
    check(&right, &sizes, &["ids=ints:-5..90"]);
    let warps = PRODUCT.replace(
        "pipeline 3, producers 1, consumers 2",
        "pipeline 3, producers 0 kernel: warps 4, products mma_sync",
    );
    check(&warps, &sizes, &["ids=ints:-5..90"]);
}

/// A matrix in compressed rows times a dense one: each iteration loads the rows that it copies, and copies them iterations
/// ahead all the same.
#[test]
fn rows_by_indices_of_the_iteration_are_copied_ahead() {
    let text = |of: &str, also: &str| {
        format!(
            "kernel sparse(v: ptr<f16> align 16, column: ptr<i32>, starts: ptr<i32>, x: ptr<f16> align 16, y: ptr<f32> align 16,
                hits: ptr<i32>, brows: i32, count: i32, n: i32 % 8, k: i32) {{
                grid brows, cdiv(n, 64)
                gs = view starts : i32[brows + 1]
                gv = view v : f16[count, 64]
                gx = view x : f16[k, n]
                gy = view y : f32[brows * 64, n]
                gh = view hits : i32[64]
                gc = view {of} : i32[count] fill -1
                i, j = block_index
                first = load gs[i] : i32
                behind = load gs[i + 1] : i32
                zero = full 0.0 : f32[64, 64]
                acc = for t in 0..cdiv(behind - first, 32) carry z = zero {{
                    r = (iota 0 : i32[32]) + (first + t*32)
                    c = load gc[r] : i32[32] where r < behind
                    ta = load gv[select(r < behind, r, -1), 0] : f16[32, 64]
                    tb = load gx[c, j*64] : f16[32, 64]
                    {also}
                    yield mma z, trans(ta), tb
                }}
                store gy[i*64, j*64], acc
            }}
            mapping sparse {{ for t: pipeline 4, consumers 1 kernel: persistent }}"
        )
    };
    let sizes = [("brows", 4), ("count", 300), ("n", 72), ("k", 50)];
    let data = [
        "column=ints:-3..60 starts=list:0,0,200,201,300",
        "column=zeros starts=list:0,300,300,300,300",
        "column=ints:0..50 starts=list:290,999,-40,7,3",
    ];
    let ahead = check(&text("column", ""), &sizes, &data);
    assert!(
        ahead.contains("cp.async.wait_group 2") && ahead.contains("wgmma.wait_group.sync.aligned 1"),
        "{ahead}"
    );
    // What the kernel writes may be another number iterations later: such rows are copied where they stand.
    let written = compiled(&text("hits", "atomic_add gh[0], full 0 : i32[1]")).2.ptx;
    assert!(!written.contains("cp.async.wait_group 2"), "{written}");
}

/// A matrix in compressed rows times a vector: where a row lies, and which elements it multiplies, is loaded.
#[test]
fn sparse_rows_multiply_what_their_columns_name() {
    let text = "kernel spmv(begin: ptr<i32>, column: ptr<i32>, value: ptr<f32>, x: ptr<f32>, y: ptr<f32>, m: i32, n: i32,
            nonzeros: i32) {
        grid cdiv(m, 16)
        gb = view begin : i32[m + 1]
        gc = view column : i32[1, nonzeros]
        gv = view value : f32[1, nonzeros]
        gx = view x : f32[1, n]
        gy = view y : f32[m]
        i = block_index
        start = load gb[i*16] : i32[16]
        count = (load gb[i*16 + 1] : i32[16]) - start
        first = expand_dims(start, 1) + iota 1 : i32[16, 32]
        left = expand_dims(count, 1) - iota 1 : i32[16, 32]
        row = full 0 : i32[16, 32]
        zero = full 0.0 : f32[16, 32]
        sum = for t in 0..cdiv(max(reduce_max(count, 0), 0), 32) carry s = zero {
            own = left > t*32
            at = load gc[row, first + t*32] : i32[16, 32] where own
            v = load gv[row, first + t*32] : f32[16, 32] where own
            w = load gx[row, at] : f32[16, 32] where own
            yield fma(v, w, s)
        }
        store gy[i*16], reduce_sum(sum, 1)
    }
    mapping spmv { kernel: warps 4 }";
    let sizes = [("m", 39), ("n", 50), ("nonzeros", 700)];
    check(text, &sizes, &["begin=sorted:0..700 column=ints:-2..60", "begin=zeros column=zeros"]);
}

/// Elements that are kept go to places that a prefix sum counts.
#[test]
fn kept_elements_move_together() {
    let text = "kernel compaction(x: ptr<f32> align 16, y: ptr<f32>, n: i32 % 4, kept: i32) {
        grid cdiv(n, 1024)
        gx = view x : f32[1, n]
        gy = view y : f32[kept]
        i = block_index
        t = load gx[0, i*1024] : f32[1, 1024]
        keep = t != 0.0
        place = scan_sum(select(keep, 1, 0), 1) - 1
        store gy[reshape(place) : i32[1024]], reshape(t) : f32[1024] where reshape(keep) : bool[1024]
    }
    mapping compaction { kernel: warps 4 }";
    check(text, &[("n", 1000), ("kept", 900)], &["x=ints:-2..2", "x=zeros"]);
    check(text, &[("n", 1000), ("kept", 100)], &["x=ints:-2..2"]);
}

/// Truth values are compared, and reduced to one that decides a branch.
#[test]
fn truth_values_are_compared_and_reduced() {
    let text = "kernel k(x: ptr<f32>, y: ptr<f32>, n: i32) {
        grid cdiv(n, 256)
        gx = view x : f32[n]
        gy = view y : f32[n]
        i = block_index
        t = load gx[i*256] : f32[256]
        w = reshape t : f32[4, 64]
        even = (w > 0.0) == (w < 1.0)
        odd = (w > 1.0) != (w > 0.0)
        rows = select(reduce_or(odd & even, 1), 2.0, 1.0)
        s = w * expand_dims(rows, 1)
        some = reduce_and(reduce_or(even, 1), 0)
        r = if some { yield s } else { yield s + 8.0 }
        store gy[i*256], reshape(select(not(odd), r, 0.5)) : f32[256]
    }
    mapping k { kernel: warps 2 }";
    check(text, &[("n", 700)], &["x=ints:-2..2", "x=zeros", "x=ints:1..2"]);
}

#[test]
fn what_does_not_compile_is_said() {
    let refused = |text: &str| {
        let module = parse_file(text, "").unwrap_or_else(|e| panic!("{e}"));
        let made = compile(&module.kernels[0], &module.mappings[0], &SM90A, &Default::default());
        made.err().map(|e| e.to_string()).unwrap_or_default()
    };
    let bits = four_bits().replace("n: i32 % 8", "n: i32");
    assert!(refused(&bits).contains("1 of u4 side by side are 4 bits"), "{}", refused(&bits));
    let sum = ROWS.replace("ptr<i32>", "ptr<i64>").replace("i32[m] fill -1", "i64[m]");
    let sum = sum.replace(
        "rows = load gi[i*16] : i32[16]",
        "ids64 = load gi[i*16] : i64[16] rows = cdiv(ids64, ids64)",
    );
    assert!(refused(&sum).contains("`cdiv` of tiles of i64 does not compile"), "{}", refused(&sum));
}

/// A product and a second operand of the sum, of which only some elements are loaded.
const MASKED: &str =
    "kernel masked(a: ptr<f16> align 16, b: ptr<f16> align 16, r: ptr<f16> align 16, c: ptr<f16> align 16,
    m: i32, n: i32 % 8, k: i32 % 8) {
    grid cdiv(m, 64), cdiv(n, 64)
    ga = view a : f16[m, k]
    gb = view b : f16[n, k]
    gr = view r : f16[m, n]
    gc = view c : f16[m, n]
    i, j = block_index
    zero = full 0.0 : f32[64, 64]
    acc = for t in 0..cdiv(k, 64) carry x = zero {
        ta = load ga[i*64, t*64] : f16[64, 64]
        tb = load gb[j*64, t*64] : f16[64, 64]
        yield mma x, ta, trans(tb)
    }
    keep = acc < 0.0
    old = load gr[i*64, j*64] : f16[64, 64] where keep
    store gc[i*64, j*64], cast(acc + cast(old, f32), f16)
}
mapping masked { for t: pipeline 3, producers 1, consumers 1 }";

#[test]
fn a_masked_load_behind_products_keeps_its_mask() {
    check(MASKED, &[("m", 72), ("n", 136), ("k", 136)], &["r=normal"]);
}

/// Floats at one place in IEEE 754's order, zeros of both signs and infinities among them; a NaN changes nothing.
#[test]
fn extremes_of_floats_are_updated_by_the_order_of_their_bits() {
    let text = "kernel extremes(x: ptr<f32> align 16, ids: ptr<i32>, low: ptr<f32>, high: ptr<f32>, n: i32, bins: i32) {
        grid cdiv(n, 128)
        gx = view x : f32[n]
        gi = view ids : i32[n] fill -1
        gl = view low : f32[bins]
        gh = view high : f32[bins]
        i = block_index
        t = load gx[i*128] : f32[128]
        at = load gi[i*128] : i32[128]
        far = select(t == 3.0, inf, select(t == -3.0, -inf, t))
        v = select(t == 2.0, nan, select(t == 1.0, -0.0, far))
        atomic_min gl[at], v
        atomic_max gh[at], v where t != 0.0
    }
    mapping extremes { kernel: warps 2 }";
    let ptx = check(text, &[("n", 300), ("bins", 90)], &["ids=ints:-3..95", "ids=ints:5..6"]);
    let rows = ["red.global.min.s32", "red.global.max.u32", "red.global.max.s32", "red.global.min.u32"];
    assert!(rows.iter().all(|row| ptx.contains(row)), "{ptx}");
    let alone = text.replace("        atomic_max gh[at], v where t != 0.0\n", "");
    check(&alone, &[("n", 20), ("bins", 1)], &["ids=ints:0..1"]);
}

/// 16-bit floats are added in vectors of words where facts make them, else one by one.
#[test]
fn halves_are_added_in_words_and_alone() {
    let text = "kernel sums(x: ptr<f16> align 16, ids: ptr<i32>, y: ptr<f16> align 16, z: ptr<f16>, n: i32 % 8, bins: i32) {
        grid cdiv(n, 128), 3
        gx = view x : f16[n]
        gi = view ids : i32[n] fill -1
        gy = view y : f16[n]
        gz = view z : f16[bins]
        i, j = block_index
        t = load gx[i*128] : f16[128]
        at = load gi[i*128] : i32[128]
        atomic_add gy[i*128], t
        atomic_add gz[at], t where at != 7
    }
    mapping sums { kernel: warps 1 }";
    for elem in ["f16", "bf16"] {
        let text = text.replace("f16", elem);
        let ptx = check(&text, &[("n", 200), ("bins", 60)], &["ids=ints:-3..70", "ids=perm"]);
        assert!(ptx.contains(&format!("red.global.add.noftz.v2.{elem}x2")), "{ptx}");
        assert!(ptx.contains(&format!("red.global.add.noftz.{elem} ")), "{ptx}");
        check(&text.replace(" % 8", ""), &[("n", 131), ("bins", 60)], &["ids=ints:-3..70"]);
        for (align, row) in [(16, "v4."), (8, "v2."), (4, "")] {
            let ptx = check(
                &HALVES_OF_ROWS.replace("f16", elem).replace("ALIGN", &align.to_string()),
                &[("m", 20)],
                &["ids=ints:-1..9"],
            );
            assert!(ptx.contains(&format!("red.global.add.noftz.{row}{elem}x2")), "{ptx}");
        }
    }
}

/// Rows that are added to rows, each thread 8 halves.
const HALVES_OF_ROWS: &str =
    "kernel rows(x: ptr<f16> align 16, ids: ptr<i32>, y: ptr<f16> align ALIGN, m: i32) {
        grid cdiv(m, 4)
        gx = view x : f16[m, 64]
        gi = view ids : i32[m] fill -1
        gy = view y : f16[7, 64]
        i = block_index
        r = load gi[i*4] : i32[4]
        atomic_add gy[r, 0], load gx[i*4, 0] : f16[4, 64]
    }
    mapping rows { kernel: warps 1 }";

/// The first of equal ones counts, NaNs do not, and a row of NaNs has no index; high halves of products.
#[test]
fn indices_of_extremes_and_high_halves() {
    let text = "kernel picks(x: ptr<f32> align 16, u: ptr<i32> align 16, a: ptr<i32>, b: ptr<i32>, c: ptr<i32> align 16,
            d: ptr<u32> align 16, m: i32, n: i32 % 4) {
        grid cdiv(m, 8)
        gx = view x : f32[m, n] fill nan
        gu = view u : i32[m]
        ga = view a : i32[m]
        gb = view b : i32[m]
        gc = view c : i32[m]
        gd = view d : u32[m]
        i = block_index
        t = load gx[i*8, 0] : f32[8, 64]
        s = select(t == 2.0, nan, t)
        store ga[i*8], argmax(s, 1)
        store gb[i*8], argmin(t, 1) + argmax(reduce_max(t, 1), 0)
        p = (load gu[i*8] : i32[8]) * 1234567891
        q = cast(p, u32)
        store gc[i*8], mulhi(p, p - 1)
        store gd[i*8], mulhi(q, q + 3)
    }
    mapping picks { kernel: warps 2 }";
    for n in [4, 60, 64, 0] {
        check(text, &[("m", 19), ("n", n)], &["u=ints:-9..9", "u=ints:-2147483648..2147483647"]);
    }
}

/// Scales of rows whose numbers the loop carries: those of later iterations are not known ahead.
#[test]
fn scales_are_gathered_at_numbers_that_a_loop_carries() {
    let text = "kernel scaled(
        a: ptr<f16> align 16, b: ptr<f16> align 16, s: ptr<f32>, ids: ptr<i32>, next: ptr<i32>, c: ptr<f32> align 16,
        m: i32, n: i32 % 8, k: i32 % 8, g: i32
    ) {
        grid cdiv(m, 64), cdiv(n, 64)
        i, j = block_index
        ga = view a : f16[m, k]
        gb = view b : f16[n, k]
        gs = view s : f32[g, cdiv(k, 64)]
        gi = view ids : i32[m]
        gn = view next : i32[m]
        gc = view c : f32[m, n]
        zero = full 0.0 : f32[64, 64]
        first = load gi[i*64] : i32[64]
        acc, last = for t in 0..cdiv(k, 64) carry x = zero, row = first {
            ta = load ga[i*64, t*64] : f16[64, 64]
            p = mma zero, ta, trans(load gb[j*64, t*64] : f16[64, 64])
            w = load gs[row, t] : f32[64, 1]
            yield x + p * w, NEXT
        }
        store gc[i*64, j*64], acc
    }
    mapping scaled { for t: pipeline fit, producers 1, consumers 1 }";
    let sizes = [("m", 70), ("n", 72), ("k", 264), ("g", 40)];
    check(&text.replace("NEXT", "row + t"), &sizes, &["ids=ints:0..40", "next=ints:0..40"]);
    check(&text.replace("NEXT", "load gn[row] : i32[64]"), &sizes, &["ids=ints:0..40", "next=ints:0..40"]);
}
