//! Row-wise kernels of the library under other types, facts, sizes and mappings than the library's: compiled,
//! simulated without hazard, and compared with the interpreter.

use std::path::Path;
use warplift::ir::target::SM90A;
use warplift::ir::tile::{ArrayMapping, Inst, Kernel, Mapping, Op, Way, parse_file};
use warplift::kernels::find;
use warplift::sim;
use warplift::{Options, compile};
use warplift_golden::library::{in_rules_form, reference};

/// A kernel's text with parts exchanged.
fn text(name: &str, change: &[(&str, &str)]) -> (Kernel, Mapping) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../driver/kernels/{name}.tile"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let text = change.iter().fold(text, |t, (from, to)| t.replace(from, to));
    let module = parse_file(&text, name).unwrap_or_else(|e| panic!("{name}: {e:?}\n{text}"));
    (module.kernels[0].clone(), module.mappings[0].clone())
}

/// Sets tunables and warps.
fn mapped(mapping: &Mapping, tunables: &[(&str, i64)], warps: u32) -> Mapping {
    let mut m = mapping.clone();
    for (name, value) in tunables {
        let slot = m.tunables.iter_mut().find(|t| t.0 == *name).unwrap_or_else(|| panic!("no {name}"));
        slot.1 = *value;
    }
    m.whole.warps = Some(warps);
    m
}

fn check(what: &str, kernel: &Kernel, mapping: &Mapping, size: &[(&str, i64)], tolerance: f64) {
    let options = Options { verify: true, ..Options::default() };
    let compiled = compile(kernel, mapping, &SM90A, &options).unwrap_or_else(|e| panic!("{what}: {e}"));
    let problem = reference(kernel, mapping, size, 5);
    let run = problem.simulate(&compiled.ptx, &compiled.manifest, &sim::Options::default(), 2);
    let (have, report) = run.unwrap_or_else(|e| panic!("{what} {size:?}: {e}"));
    assert!(report.hazards.is_empty(), "{what} {size:?}: {:?}", report.hazards);
    assert_eq!(problem.difference_beyond(&have, tolerance), None, "{what} {size:?}");
}

/// Nothing promised: any extent, any alignment.
const NO_FACTS: [(&str, &str); 4] = [(" align 16", ""), (" % 8", ""), (" % 4", ""), ("in 1..", "in 1..")];

#[test]
fn rows_of_any_length_without_facts() {
    for name in ["softmax", "rms_norm", "layer_norm", "softmax_long"] {
        let (k, m) = text(name, &NO_FACTS);
        let m = mapped(&m, &[("BN", 1024)], 4);
        for n in [1, 63, 64, 65, 1000] {
            check(name, &k, &m, &[("m", 3), ("n", n)], 4e-3);
        }
    }
}

#[test]
fn rows_of_other_types() {
    for (elem, multiple, tolerance) in [("bf16", "% 8", 4e-2), ("f32", "% 4", 1e-5)] {
        for name in ["softmax", "rms_norm", "layer_norm", "softmax_long"] {
            let (k, m) = text(name, &[("f16", elem), ("% 8", multiple)]);
            let m = mapped(&m, &[("BN", 1024)], 4);
            check(name, &k, &m, &[("m", 5), ("n", 1000)], tolerance);
        }
    }
}

#[test]
fn one_warp_a_row_or_several_and_no_powers_of_two() {
    let (k, m) = text("softmax", &[]);
    for (bm, bn, warps) in
        [(4, 256, 4), (8, 64, 4), (2, 1024, 8), (1, 192, 1), (1, 96, 4), (3, 768, 3), (1, 8192, 16)]
    {
        let m = mapped(&m, &[("BM", bm), ("BN", bn)], warps);
        check(&format!("{bm} x {bn} on {warps}"), &k, &m, &[("m", 9), ("n", (bn - 8).min(4000))], 4e-3);
    }
}

/// The longest row that a mapping of the library has tiles for.
#[test]
fn a_row_may_fill_its_tile() {
    for name in ["softmax", "rms_norm", "layer_norm"] {
        let module = find(name).expect("a kernel").parse().expect("it parses");
        let longest = module.mappings.iter().filter_map(|m| Some((m.tunable("BN")?, m)));
        let (columns, m) = longest.max_by_key(|l| l.0).expect("mappings");
        assert_eq!(columns, 65536, "{name}");
        check(&format!("{name} {m}"), &module.kernels[0], m, &[("m", 2), ("n", columns)], 4e-3);
    }
}

#[test]
fn a_row_longer_than_its_tile_is_refused_at_launch() {
    let (k, m) = text("softmax", &[]);
    let compiled =
        compile(&k, &m, &SM90A, &Options { verify: true, ..Options::default() }).expect("compiles");
    let facts = format!("{:?}", compiled.manifest.facts);
    assert!(facts.contains("max: 4096"), "{facts}");
}

#[test]
fn tiles_are_transposed_by_wide_accesses() {
    for (elem, multiple, tile, warps) in [
        ("f16", "% 8", (128, 64), 4),
        ("f16", "% 8", (64, 64), 2),
        ("f32", "% 4", (64, 64), 4),
        ("f32", "% 4", (96, 64), 4),
        ("f16", "% 8", (96, 192), 3),
        ("bf16", "% 8", (64, 128), 8),
    ] {
        let (k, m) = text("transpose", &[("f16", elem), ("% 8", multiple)]);
        let m = mapped(&m, &[("BM", tile.0), ("BN", tile.1)], warps);
        check(&format!("{elem} {tile:?} on {warps}"), &k, &m, &[("m", 136), ("n", 200)], 0.0);
        let compiled =
            compile(&k, &m, &SM90A, &Options { verify: true, ..Options::default() }).expect("compiles");
        // What the search finds for three times two to the n needs no shared memory.
        let way = if tile == (96, 64) { "shfl.sync" } else { "st.shared.v4" };
        assert!(compiled.ptx.contains(way), "{elem} {tile:?}: no {way}\n{}", compiled.ptx);
        assert!(compiled.ptx.contains("st.global.v4"), "{elem} {tile:?}: narrow stores\n{}", compiled.ptx);
    }
    let (k, m) = text("transpose", &[]);
    let odd = mapped(&m, &[("BM", 96), ("BN", 192)], 4);
    check("three times two to the n on four warps", &k, &odd, &[("m", 104), ("n", 200)], 0.0);
    let (k, m) = text("transpose", &NO_FACTS);
    check("ragged", &k, &mapped(&m, &[("BM", 64), ("BN", 64)], 4), &[("m", 65), ("n", 63)], 0.0);
}

#[test]
fn prefixes_are_the_same_however_threads_share_a_row() {
    for (bm, bn, warps) in [(1, 2048, 4), (4, 128, 4), (2, 512, 8), (1, 64, 1), (8, 32, 2), (1, 1536, 4)] {
        for (op, low) in [("scan_sum", "reduce_sum"), ("scan_max", "reduce_max")] {
            let plus = if op == "scan_sum" {
                "before + reduce_sum(tile, 1)"
            } else {
                "max(before, reduce_max(tile, 1))"
            };
            let join = if op == "scan_sum" {
                "scan_sum(tile, 1) + expand_dims(before, 1)"
            } else {
                "max(scan_max(tile, 1), expand_dims(before, 1))"
            };
            let change = [
                ("before + reduce_sum(tile, 1)", plus),
                ("scan_sum(tile, 1) + expand_dims(before, 1)", join),
            ];
            let (k, m) = text("cumsum", &change);
            let m = mapped(&m, &[("BM", bm), ("BN", bn)], warps);
            check(&format!("{op} after {low} {bm} x {bn} on {warps}"), &k, &m, &[("m", 5), ("n", 1004)], 0.0);
        }
    }
    let (k, m) = text("cumsum", &NO_FACTS);
    for n in [1, 63, 64, 65] {
        check("cumsum", &k, &mapped(&m, &[("BM", 2), ("BN", 64)], 4), &[("m", 3), ("n", n)], 0.0);
    }
}

#[test]
fn products_with_a_vector_and_in_parts() {
    for (bm, bn, warps) in [(4, 1024, 4), (1, 2048, 8), (16, 128, 4), (8, 96, 4)] {
        let (k, m) = text("gemv", &[]);
        check(
            &format!("gemv {bm} x {bn}"),
            &k,
            &mapped(&m, &[("BM", bm), ("BN", bn)], warps),
            &[("m", 37), ("n", 1032)],
            0.0,
        );
    }
    let (k, m) = text("gemv", &NO_FACTS);
    check("gemv", &k, &mapped(&m, &[("BM", 4), ("BN", 64)], 4), &[("m", 5), ("n", 63)], 0.0);
    let (k, m) = text("gemm_split_k", &[]);
    for parts in [1, 3, 8] {
        let mut m = m.clone();
        m.tunables.iter_mut().filter(|t| t.0 == "S").for_each(|t| t.1 = parts);
        check(&format!("{parts} parts"), &k, &m, &[("m", 65), ("n", 136), ("k", 200)], 0.0);
    }
}

#[test]
fn elements_are_gathered() {
    for (elem, multiple) in [("f16", "% 8"), ("f32", "% 4"), ("bf16", "% 8")] {
        let (k, m) = text("gather_rows", &[("f16", elem), ("% 8", multiple)]);
        for (bm, bn, bp, warps) in [(1, 1024, 256, 4), (4, 256, 64, 4), (2, 96, 192, 3)] {
            let m = mapped(&m, &[("BM", bm), ("BN", bn), ("BP", bp)], warps);
            check(&format!("{elem} {bm} x {bn}"), &k, &m, &[("m", 5), ("n", 88), ("p", 264)], 0.0);
        }
    }
}

/// A mapping under which so many blocks hold a tile together.
fn spread(mapping: &Mapping, tunables: &[(&str, i64)], warps: u32, blocks: u32, persistent: bool) -> Mapping {
    let mut m = mapped(mapping, tunables, warps);
    (m.whole.blocks, m.whole.persistent) = (blocks, persistent);
    m
}

#[test]
fn rows_held_by_the_blocks_of_a_cluster() {
    for name in ["softmax", "rms_norm", "layer_norm", "softmax_long"] {
        let (k, m) = text(name, &[]);
        for (warps, blocks, persistent, n) in [(2, 2, false, 2000), (1, 8, true, 2048), (4, 4, true, 8)] {
            let m = spread(&m, &[("BN", 2048)], warps, blocks, persistent);
            check(&format!("{name} {m}"), &k, &m, &[("m", 7), ("n", n)], 4e-3);
        }
    }
}

type Numbers = &'static [(&'static str, i64)];

/// Whatever goes through scratch memory: scans, conversions, gathers, sums in a loop.
#[test]
fn tiles_exchanged_between_the_blocks_of_a_cluster() {
    let all: [(&str, Numbers, Numbers); 5] = [
        ("cumsum", &[("BM", 2), ("BN", 512)], &[("m", 3), ("n", 1300)]),
        ("transpose", &[("BM", 64), ("BN", 64)], &[("m", 136), ("n", 72)]),
        ("gather_rows", &[("BM", 1), ("BN", 512), ("BP", 256)], &[("m", 3), ("n", 400), ("p", 600)]),
        ("row_max", &[("BM", 4), ("BN", 256)], &[("m", 9), ("n", 1028)]),
        ("gemv", &[("BM", 2), ("BN", 1024)], &[("m", 5), ("n", 3000)]),
    ];
    for (name, tunables, size) in all {
        let (k, m) = text(name, &[]);
        for (blocks, persistent) in [(2, false), (4, true)] {
            let m = spread(&m, tunables, 2, blocks, persistent);
            check(&format!("{name} {m}"), &k, &m, size, 1e-3);
        }
    }
}

#[test]
fn what_several_blocks_cannot_hold_is_refused() {
    let refused = |name: &str, change: &dyn Fn(&mut Mapping)| {
        let (k, mut m) = text(name, &[]);
        change(&mut m);
        let made = compile(&k, &m, &SM90A, &Options::default());
        made.expect_err("compiles").to_string()
    };
    let products = refused("gemm", &|m| m.whole.blocks = 2);
    assert!(products.contains("products of tiles that several blocks hold"), "{products}");
    let odd = refused("softmax", &|m| m.whole.blocks = 3);
    assert!(odd.contains("1, 2, 4 or 8"), "{odd}");
    let both = refused("softmax", &|m| (m.whole.blocks, m.whole.cluster) = (2, 2));
    assert!(both.contains("beside clusters of neighbours"), "{both}");
    let copies = refused("row_sum", &|m| {
        m.whole.blocks = 2;
        m.arrays.push(("x".to_owned(), ArrayMapping { way: Way::Staged, ..Default::default() }));
    });
    assert!(copies.contains("several blocks hold a tile together"), "{copies}");
}

/// What a thread may hold decides: blocks so many beside each other that a row as f32 does not fit.
fn narrow(mapping: &Mapping, columns: i64, resident: u32, persistent: bool) -> Mapping {
    let mut m = mapped(mapping, &[("BN", columns)], 1);
    (m.whole.resident, m.whole.persistent) = (resident, persistent);
    m
}

/// Instructions that stand somewhere.
fn live(k: &Kernel) -> Vec<Inst> {
    let mut all = Vec::new();
    k.walk(|_, i| all.push(i));
    all
}

#[test]
fn wide_rows_are_worked_on_in_strips() {
    for (name, resident, facts) in [
        ("softmax", 32, &[][..]),
        ("rms_norm", 24, &[][..]),
        ("layer_norm", 24, &[][..]),
        ("softmax", 32, &NO_FACTS[..]),
        ("layer_norm", 24, &NO_FACTS[..]),
    ] {
        let (k, m) = text(name, facts);
        let m = narrow(&m, 2048, resident, false);
        let n = if facts.is_empty() { 1960 } else { 1957 };
        check(name, &k, &m, &[("m", 3), ("n", n)], 4e-3);
        check(name, &k, &m, &[("m", 3), ("n", 8)], 4e-3);
        let mapped = in_rules_form(&k, &m).unwrap_or_else(|e| panic!("{name}: {e}"));
        let count = |op: &Op| live(&mapped).iter().filter(|i| mapped.insts[**i].op == *op).count();
        assert!(count(&Op::Store) > 1, "{name}: stored as a whole\n{mapped}");
        let all = live(&mapped).into_iter().filter(|i| mapped.insts[*i].op == Op::Load);
        let elements = |i: Inst| mapped.ty(mapped.result(i)).shape().and_then(|s| s.elements());
        let whole = all.filter(|&i| elements(i) == Some(2048));
        assert_eq!(whole.count(), 1, "{name}: only x is held as a whole\n{mapped}");
    }
}

#[test]
fn an_array_that_is_written_is_loaded_before() {
    // y is both: what is read of it must not be read again behind the store of another strip.
    let change = [("scale = load gw[0] : f16[BN]", "scale = load gy[i*BM, 0] : f16[BM, BN]")];
    let (k, m) = text("rms_norm", &change);
    check("rms_norm", &k, &narrow(&m, 2048, 24, false), &[("m", 3), ("n", 1960)], 4e-3);
    check("rms_norm", &k, &narrow(&m, 1024, 24, true), &[("m", 5), ("n", 1000)], 4e-3);
}

#[test]
fn the_next_tile_is_loaded_under_this_one() {
    for (name, columns, resident) in
        [("softmax", 1024, 16), ("rms_norm", 1024, 16), ("layer_norm", 1024, 16), ("softmax", 2048, 16)]
    {
        let (k, m) = text(name, &[]);
        let m = narrow(&m, columns, resident, true);
        for rows in [0, 1, 2, 7, 70] {
            check(&format!("{name} {m}"), &k, &m, &[("m", rows), ("n", columns - 88)], 4e-3);
        }
        let mapped = in_rules_form(&k, &m).unwrap_or_else(|e| panic!("{name}: {e}"));
        let carried =
            mapped.insts.iter().filter(|(_, d)| d.op == Op::For).map(|(i, _)| mapped.results(i).len());
        assert_eq!(carried.collect::<Vec<_>>(), [1], "{name}\n{mapped}");
    }
    // Of an array that is written nothing is loaded ahead.
    let (k, m) = text("softmax", &[("gx = view x", "gx = view y")]);
    let m = narrow(&m, 1024, 16, true);
    check("in place", &k, &m, &[("m", 7), ("n", 1000)], 4e-3);
    let mapped = in_rules_form(&k, &m).expect("maps");
    assert!(mapped.insts.iter().all(|(i, d)| d.op != Op::For || mapped.results(i).is_empty()), "{mapped}");
}

/// A mapping with arrays by way of shared memory.
fn staged(mut m: Mapping, names: &[&str]) -> Mapping {
    let way = ArrayMapping { way: Way::Staged, ..Default::default() };
    m.arrays.extend(names.iter().map(|n| ((*n).to_owned(), way)));
    m
}

/// Loads of a mapped kernel that stand somewhere.
fn loads(k: &Kernel) -> Vec<Inst> {
    live(k).into_iter().filter(|i| k.insts[*i].op == Op::Load).collect()
}

#[test]
fn rows_that_registers_do_not_hold_stay_in_shared_memory() {
    for (name, resident) in [("softmax", 32), ("rms_norm", 32), ("layer_norm", 32)] {
        let (k, m) = text(name, &[]);
        let m = staged(narrow(&m, 2048, resident, false), &["x"]);
        for n in [2048, 1960, 8] {
            check(&format!("{name} {m}"), &k, &m, &[("m", 3), ("n", n)], 4e-3);
        }
        let mapped = in_rules_form(&k, &m).unwrap_or_else(|e| panic!("{name}: {e}"));
        let stay: Vec<Inst> = loads(&mapped).into_iter().filter(|&i| mapped.attrs[i].in_parts).collect();
        assert_eq!(stay.len(), 1, "{name}\n{mapped}");
        let x = mapped.result(stay[0]);
        let users = live(&mapped).into_iter().filter(|i| mapped.args(*i).contains(&x));
        assert!(users.clone().count() > 4, "{name}: read again for every pass\n{mapped}");
        assert!(users.into_iter().all(|i| matches!(mapped.insts[i].op, Op::Slice(_))), "{name}\n{mapped}");
    }
}

#[test]
fn what_shared_memory_has_no_room_for_is_held_in_registers() {
    for (name, rows) in [("softmax", 1), ("softmax", 2), ("rms_norm", 1)] {
        let (k, m) = text(name, &[]);
        let m = mapped(&narrow(&m, 4096, 32, false), &[("BM", rows), ("BN", 4096 / rows)], 1);
        let m = staged(m, &["x"]);
        for n in [4096 / rows, 4096 / rows - 40, 2000, 8] {
            check(&format!("{name} {m}"), &k, &m, &[("m", 3), ("n", n)], 4e-3);
        }
        let mapped = in_rules_form(&k, &m).unwrap_or_else(|e| panic!("{name}: {e}"));
        let elements = |i: &Inst| mapped.ty(mapped.result(*i)).shape().and_then(|s| s.elements());
        let most = |stays: bool| {
            let all = loads(&mapped).into_iter().filter(|&i| mapped.attrs[i].in_parts == stays);
            all.filter_map(|i| elements(&i)).max().unwrap_or(0)
        };
        assert!(most(true) > 0 && most(true) < 4096, "{name}: a part stays\n{mapped}");
        assert!(most(false) >= 4096 - most(true), "{name}: the rest is loaded by the threads\n{mapped}");
    }
}

#[test]
fn what_all_tiles_read_is_brought_once() {
    for (resident, columns) in [(16, 1024), (32, 1024), (1, 256)] {
        let (k, m) = text("layer_norm", &[]);
        let m = staged(narrow(&m, columns, resident, true), &["w", "b"]);
        for rows in [0, 1, 2, 7, 70] {
            check(&format!("layer_norm {m}"), &k, &m, &[("m", rows), ("n", columns - 88)], 4e-3);
        }
        let mapped = in_rules_form(&k, &m).expect("maps");
        let own = &mapped.blocks[mapped.entry].insts;
        let kept = loads(&mapped).into_iter().filter(|i| mapped.attrs[*i].in_parts && own.contains(i));
        assert_eq!(kept.count(), 2, "w and b\n{mapped}");
    }
    // What the kernel writes is read again for every tile.
    let (k, m) = text("rms_norm", &[("gw = view w : f16[n]", "gw = view y : f16[n]")]);
    let m = staged(narrow(&m, 1024, 16, true), &["y"]);
    let mapped = in_rules_form(&k, &m).expect("maps");
    assert!(loads(&mapped).iter().all(|i| !mapped.attrs[*i].in_parts), "{mapped}");
}

#[test]
fn staged_tiles_have_their_views_fill_outside() {
    let (k, m) = text("softmax", &[]);
    for (columns, persistent) in [(256, false), (512, true)] {
        let m = staged(narrow(&m, columns, 1, persistent), &["x"]);
        for n in [columns, columns - 56, 8] {
            check(&format!("softmax {m}"), &k, &m, &[("m", 5), ("n", n)], 4e-3);
        }
    }
}

/// A kernel of two branches, one of which each row takes, in a mapping that keeps w in shared memory.
fn branches(body: &str, words: &str) -> (Kernel, Mapping) {
    let text = format!(
        "kernel c(x: ptr<f16> align 16, w: ptr<f16> align 16, y: ptr<f16> align 16, m: i32, n: i32 % 8) {{
            grid m
            gx = view x : f16[m, n]
            gw = view w : f16[n]
            gy = view y : f16[m, n]
            i = block_index
            t = cast(load gx[i, 0] : f16[1, 1024], f32)
            ww = load gw[0] : f16[1024]
            {body}
        }}
        mapping c {{ kernel: warps 4, {words} array w: staged }}"
    );
    let mut module = parse_file(&text, "text").unwrap_or_else(|e| panic!("{e:?}"));
    (module.kernels.remove(0), module.mappings.remove(0))
}

#[test]
fn what_stays_is_awaited_on_every_way_to_it() {
    let both = "r = if i < 1 { yield t * cast(ww, f32) } else { yield t - cast(ww, f32) }
        store gy[i, 0], cast(r, f16)";
    let one = "r = if i > 0 { yield t * cast(ww, f32) } else { yield t }
        store gy[i, 0], cast(r, f16)";
    let sum = "store gy[i, 0], cast(t * reduce_sum(cast(ww, f32), 0), f16)";
    let staged_too = "store gy[i, 0], cast(t + cast(ww, f32), f16)";
    for (body, words) in [
        (both, "persistent"),
        (one, "persistent"),
        (both, "resident 2"),
        (one, "persistent, resident 2"),
        (sum, "persistent"),
        (staged_too, "persistent array x: staged"),
        (staged_too, "persistent, resident 16"),
    ] {
        let (k, m) = branches(body, words);
        for rows in [0, 1, 2, 5] {
            check(&format!("{body} {words}"), &k, &m, &[("m", rows), ("n", 1000)], 4e-3);
        }
    }
}

#[test]
fn what_has_no_room_at_all_is_loaded_by_the_threads() {
    let (k, m) = text("layer_norm", &[]);
    let m = staged(narrow(&m, 2048, 32, false), &["x", "w", "b"]);
    check("layer_norm", &k, &m, &[("m", 3), ("n", 2000)], 4e-3);
    // A scan needs all of its row, which is no strips that could be read apart.
    let (k, m) = text("softmax", &[("top = reduce_max(t, 1)", "top = reduce_max(scan_max(t, 1), 1)")]);
    let m = staged(narrow(&m, 4096, 32, false), &["x"]);
    let refused = compile(&k, &m, &SM90A, &Options { verify: true, ..Options::default() });
    let refused = refused.expect_err("compiles").to_string();
    assert!(refused.contains("6272 are there for each of 32 resident blocks"), "{refused}");
}
