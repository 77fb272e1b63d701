//! Rows by tiles of indices that follow each other in runs: boxes of tensor copies where facts prove it, gathered otherwise,
//! on numbers that are equal, sorted, mixed, and outside.

use warplift::ir::tile::parse_file;
use warplift_golden::described::{check, compiled};

/// Scores of queries and the pages of a sequence's keys.
const PAGES: &str = "kernel scores(q: ptr<f16> align 16, k: ptr<f16> align 16, table: ptr<i32>, s: ptr<f32>,
    pages: i32, page: i32 % 16 in 16.., most: i32, n: i32) {
    grid cdiv(n, 64)
    gq = view q : f16[64, 64]
    gk = view k : f16[pages * page, 64]
    gt = view table : i32[most] fill -1
    gs = view s : f32[64, n]
    i = block_index
    zero = full 0.0 : f32[64, 64]
    sum = for t in 0..1 carry x = zero {
        spot = (iota 0 : i32[64]) + i * 64
        at = load gt[spot / page] : i32[64]
        tq = load gq[0, 0] : f16[64, 64]
        tk = load gk[at * page + spot % page, 0] : f16[64, 64]
        yield mma x, tq, trans(tk)
    }
    store gs[0, i*64], sum
}
mapping scores { for t: pipeline 2, producers 1, consumers 1 kernel: persistent }";

/// Rows that follow each other in runs are boxes of tensor copies, also where the numbers of the runs come from memory, are
/// negative, or end outside of the array.
#[test]
fn rows_in_runs_are_boxes() {
    let tables = ["table=perm", "table=ints:-3..40", "table=ints:5..6", "table=sorted:0..12"];
    for page in [16, 48, 64] {
        let sizes = [("pages", 9), ("page", page), ("most", 8), ("n", 200)];
        let ptx = check(PAGES, &sizes, &tables);
        assert!(ptx.contains("cp.async.bulk.tensor") && !ptx.contains("cp.async.c"), "{ptx}");
    }
    let outside = PAGES.replace("at * page + spot % page", "select(at < 0, -1, at * page + spot % page)");
    let ptx = check(&outside, &[("pages", 9), ("page", 16), ("most", 8), ("n", 200)], &tables);
    assert!(!ptx.contains("cp.async.c"), "{ptx}");
    let wide = PAGES
        .replace("table: ptr<i32>", "table: ptr<i64>")
        .replace("table : i32[most]", "table : i64[most]")
        .replace("load gt[spot / page] : i32[64]", "to_index(load gt[spot / page] : i64[64])");
    let ptx = check(&wide, &[("pages", 9), ("page", 16), ("most", 8), ("n", 200)], &tables[..2]);
    assert!(!ptx.contains("cp.async.c"), "{ptx}");
}

/// Rows that only seem to: a page that is no multiple of eight, a start that may be negative, memory that the kernel writes.
#[test]
fn rows_that_are_in_no_runs_are_gathered() {
    let sizes = [("pages", 9), ("page", 12), ("most", 30), ("n", 200)];
    for (from, to) in [
        ("page: i32 % 16 in 16..", "page: i32 in 1.."),
        ("spot = (iota 0 : i32[64]) + i * 64", "spot = (iota 0 : i32[64]) + i * 64 - 4"),
        ("spot = (iota 0 : i32[64]) + i * 64", "spot = (iota 0 : i32[64]) * 2 + i * 64"),
        ("store gs[0, i*64], sum", "store gs[0, i*64], sum store gt[i], full 3 : i32[1]"),
    ] {
        let text = PAGES.replace(from, to);
        assert_ne!(text, PAGES);
        let (_, _, made) = compiled(&text);
        let boxes = made.ptx.matches("cp.async.bulk.tensor").count();
        assert!(
            boxes <= 1 && made.ptx.contains("cp.async.c") | made.ptx.contains("ld.global"),
            "{to}: {}",
            made.ptx
        );
    }
    check(&PAGES.replace("page: i32 % 16 in 16..", "page: i32 in 1.."), &sizes, &["table=ints:-3..12"]);
}

/// A list of indices gives the parts of a tile a start each, in registers and in products, and round trips.
#[test]
fn a_list_of_indices_gives_parts_their_starts() {
    let rows = "kernel rows(x: ptr<f16> align 16, first: ptr<i32>, y: ptr<f16> align 16, z: ptr<f32>, m: i32, n: i32 % 8) {
        grid cdiv(n, 64)
        gx = view x : f16[m, n]
        gf = view first : i32[2]
        gy = view y : f16[64, n]
        gz = view z : f32[64, n]
        j = block_index
        a = load gf[0] : i32
        b = load gf[1] : i32
        store gy[0, j*64], load gx[[a, b], j*64] : f16[64, 64]
        zero = full 0.0 : f32[64, 64]
        sum = for t in 0..cdiv(n, 64) carry s = zero {
            one = load gx[[b, a, 3, a - 1], t*64] : f16[64, 64]
            other = load gx[[a, b], t*64] : f16[64, 64]
            yield mma s, one, trans(other)
        }
        store gz[0, j*64], sum
    }
    mapping rows { for t: pipeline 2, producers 1, consumers 1 }";
    let ptx = check(rows, &[("m", 90), ("n", 136)], &["first=ints:-9..95", "first=list:0,32"]);
    assert!(ptx.matches("cp.async.bulk.tensor").count() >= 6, "{ptx}");
    let (kernel, ..) = compiled(rows);
    let again = parse_file(&kernel.to_string(), "again.tile").unwrap_or_else(|e| panic!("{e}\n{kernel}"));
    assert_eq!(again.kernels[0].to_string(), kernel.to_string());
    let uneven = rows.replace("[a, b], j*64]", "[a, b, 0], j*64]");
    let errors = parse_file(&uneven, "f.tile").expect_err("three parts of 64 rows");
    assert!(errors.to_string().contains("3 equal parts"), "{errors}");
}

/// Blocks of a sparse matrix, of which one is not there: the sign that says so stands below the change of shape.
#[test]
fn runs_that_are_outside_stay_outside() {
    let sparse =
        "kernel blocks(a: ptr<f16> align 16, b: ptr<f16> align 16, list: ptr<i32>, c: ptr<f32>, k: i32) {
    grid 1
    ga = view a : f16[64, 64]
    gb = view b : f16[k, 64]
    gl = view list : i32[2]
    gc = view c : f32[64, 64]
    zero = full 0.0 : f32[64, 64]
    sum = for t in 0..1 carry x = zero {
        g = expand_dims(load gl[0] : i32[2], 1)
        rows = reshape (select(g < 0, -1, g * 32 + iota 1 : i32[2, 32])) : i32[64]
        yield mma x, load ga[0, 0] : f16[64, 64], load gb[rows, 0] : f16[64, 64]
    }
    store gc[0, 0], sum
}
mapping blocks { for t: pipeline 2, producers 1, consumers 1 }";
    let ptx = check(sparse, &[("k", 200)], &["list=list:1,-1", "list=list:-1,5"]);
    assert!(!ptx.contains("cp.async.c"), "{ptx}");
}

/// A box has 256 rows at most; a tile of runs may have more.
#[test]
fn a_tile_of_runs_may_have_more_rows_than_a_box() {
    let tall = "kernel tall(a: ptr<f16> align 16, b: ptr<f16> align 16, c: ptr<f32>, m: i32) {
    grid 1
    ga = view a : f16[m, 64]
    gb = view b : f16[m, 64]
    gc = view c : f32[512, 16]
    zero = full 0.0 : f32[512, 16]
    sum = for t in 0..2 carry s = zero {
        ta = load ga[(iota 0 : i32[512]) % 256 + t, 0] : f16[512, 64]
        tb = load gb[0, 0] : f16[16, 64]
        yield mma s, ta, trans(tb)
    }
    store gc[0, 0], sum
}
mapping tall { for t: pipeline 2, producers 1, consumers 4 }";
    let ptx = check(tall, &[("m", 300)], &[""]);
    assert!(!ptx.contains("cp.async.c"), "{ptx}");
}

/// A scalar that is the same for every tile stays in its loop: the producer loads it as well.
#[test]
fn numbers_of_all_tiles_are_loaded_by_every_role() {
    let table = "kernel table(a: ptr<f16> align 16, b: ptr<f16> align 16, t: ptr<i32>, c: ptr<f32>, m: i32) {
    grid 3
    i = block_index
    ga = view a : f16[m*8, 64]
    gb = view b : f16[m, 64]
    gt = view t : i32[8] fill -1
    gc = view c : f32[3, 64, 64]
    oc = subview gc[i, _, _]
    zero = full 0.0 : f32[64, 64]
    sum = for u in 0..2 carry s = zero {
        x = load gt[u] : i32
        ta = load ga[x * 8, 0] : f16[64, 64]
        tb = load gb[0, 0] : f16[64, 64]
        yield mma s, ta, trans(tb)
    }
    store oc[0, 0], sum
}
mapping table { for u: pipeline 2, producers 1, consumers 1
  kernel: persistent }";
    check(table, &[("m", 64)], &["t=perm", "t=ints:-9..90"]);
    let one = table.replace("gt[u]", "gt[3]");
    assert_ne!(one, table);
    check(&one, &[("m", 64)], &["t=perm"]);
}

/// Numbers that no scalar load brings leave the rows to the threads.
#[test]
fn tables_without_scalar_loads_are_gathered() {
    let bytes = PAGES
        .replace("table: ptr<i32>", "table: ptr<i8> align 16")
        .replace("table : i32[most]", "table : i8[most]")
        .replace("load gt[spot / page] : i32[64]", "cast(load gt[spot / page] : i8[64], i32)");
    let ptx = check(&bytes, &[("pages", 9), ("page", 16), ("most", 8), ("n", 200)], &["table=ints:-3..12"]);
    assert!(ptx.contains("cp.async.c"), "{ptx}");
}
