//! Selection decides from facts, and refuses with limit and number.

use warplift_ir::machine::{Attr, BufferKind, Program, verify_structured};
use warplift_ir::target::{Opcode, SM90A};
use warplift_ir::tile::{Kernel, Mapping, Products, parse_file};
use warplift_ir::{Bump, Deadline};
use warplift_isel::map::{MapContext, do_map};
use warplift_isel::{lower::do_lower, select::do_select};

const GEMM: &str = "
kernel g(x: ptr<f16> ALIGN, y: ptr<f16> ALIGN, z: ptr<f16> ALIGN, rows: i32, cols: i32 MULT, depth: i32 MULT) {
    tunable TM = 128, TN = 256, TK = 64
    grid cdiv(rows, TM), cdiv(cols, TN)
    gx = view x : f16[rows, depth]
    gy = view y : f16[cols, depth]
    gz = view z : f16[rows, cols]
    p, q = block_index
    zero = full 0.0 : f32[TM, TN]
    sum = for s in 0..cdiv(depth, TK) carry old = zero {
        tx = load gx[p*TM, s*TK] : f16[TM, TK]
        ty = load gy[q*TN, s*TK] : f16[TN, TK]
        new = mma old, tx, trans(ty)
        yield new
    }
    store gz[p*TM, q*TN], cast(sum, f16)
}
mapping g { TM = 128, TN = 256, TK = 64  for s: consumers 2  kernel: persistent, raster square }
";

fn parse(text: &str) -> (Kernel, Mapping) {
    let m = parse_file(text, "g.tile").unwrap_or_else(|e| panic!("{e:?}"));
    (m.kernels[0].clone(), m.mappings[0].clone())
}

fn with_facts() -> (Kernel, Mapping) {
    parse(&GEMM.replace("ALIGN", "align 16").replace("MULT", "% 8"))
}

fn lower<'a>(k: &Kernel, m: &Mapping, bump: &'a Bump) -> Result<Program<'a>, String> {
    let variants = do_map(k, &MapContext::new(m, &SM90A, &[])).map_err(|e| e.to_string())?;
    let (mapped, plan) = do_select(variants, &SM90A, &[], Deadline::default()).map_err(|e| e.to_string())?;
    let program = do_lower(&mapped.kernel, &plan, m, &SM90A, bump).map_err(|e| e.to_string())?;
    verify_structured(&program.func).unwrap_or_else(|e| panic!("{e:?}\n{program}"));
    Ok(program)
}

fn count(p: &Program<'_>, op: Opcode) -> usize {
    p.func.insts.values().filter(|d| d.op == op).count()
}

#[test]
fn facts_allow_tensor_copies() {
    let bump = Bump::new();
    let (k, m) = with_facts();
    let p = lower(&k, &m, &bump).unwrap();
    assert_eq!(count(&p, Opcode::TmaLoad), 2);
    assert_eq!(count(&p, Opcode::TmaStore), 4, "256 columns of f16 leave in four spans of 128 bytes");
    assert_eq!(count(&p, Opcode::Wgmma), 1, "a tile product is one instruction");
    assert_eq!(count(&p, Opcode::LdGlobal) + count(&p, Opcode::LdGlobal16), 0);
}

/// Nothing orders a tensor copy with the stores of its block; other pointers are other memory.
#[test]
fn a_tensor_copy_of_what_the_block_stored_is_refused() {
    let bump = Bump::new();
    let stored = |array: &str| {
        let store = format!(
            "    was = load gz[p*TM, 0] : f16[TM, TK]\n    store {array}[p*TM, 0], was\n    sum = for s"
        );
        let (k, m) = parse(
            &GEMM.replace("    sum = for s", &store).replace("ALIGN", "align 16").replace("MULT", "% 8"),
        );
        lower(&k, &m, &bump).map(|p| count(&p, Opcode::TmaLoad))
    };
    assert_eq!(stored("gz"), Ok(2));
    let refused = stored("gx").unwrap_err();
    assert!(refused.contains("is an asynchronous copy, is not ordered"), "{refused}");
}

/// What one iteration stores behind what it loads, the next one loads.
#[test]
fn a_distance_within_an_iteration_keeps_nothing_apart_from_the_next() {
    let (k, m) = parse(
        "kernel g(x: ptr<f16> align 16, y: ptr<f16> align 16, n: i32 % 64, m: i32) {
            tunable B = 64
            grid 1
            gx = view x : f16[m, n]
            gy = view y : f16[n, n]
            zero = full 0.0 : f32[B, B]
            sum = for t in 0..cdiv(m, B) carry acc = zero {
                row = t * B
                a = load gx[row, 0] : f16[B, B]
                b = load gy[0, 0] : f16[B, B]
                next = mma acc, a, trans(b)
                store gx[row + 64, 0], cast(next, f16)
                yield next
            }
            store gy[0, 0], cast(sum, f16)
        }
        mapping g { B = 64
            for t: pipeline 3, producers 1, consumers 1 }",
    );
    let refused = lower(&k, &m, &Bump::new()).map(|p| count(&p, Opcode::TmaLoad)).unwrap_err();
    assert!(refused.contains("is an asynchronous copy, is not ordered"), "{refused}");
}

#[test]
fn without_facts_threads_fill_the_tiles() {
    let bump = Bump::new();
    let (k, mut m) = parse(&GEMM.replace("ALIGN", "").replace("MULT", ""));
    m.tunables = vec![("TM".into(), 64), ("TN".into(), 64), ("TK".into(), 32)];
    m.loops[0].1.consumers = Some(1);
    let p = lower(&k, &m, &bump).unwrap();
    assert_eq!(count(&p, Opcode::TmaLoad) + count(&p, Opcode::TmaStore), 0);
    assert!(count(&p, Opcode::StShared) > 0);
    assert!(p.buffers.values().all(|b| b.kind == BufferKind::Scratch));
}

#[test]
fn an_address_of_which_nothing_is_known_is_no_vectors() {
    let bump = Bump::new();
    let (k, m) = parse(&GEMM.replace("ALIGN", "").replace("MULT", "% 8"));
    let p = lower(&k, &m, &bump).unwrap();
    let wide = |op| p.func.insts.values().any(|d| d.op == op);
    assert!(
        wide(Opcode::LdGlobal16) && !wide(Opcode::LdGlobal),
        "elements of 2 bytes at any of their addresses"
    );
    assert!(wide(Opcode::StGlobal16) && !wide(Opcode::StGlobal));
}

#[test]
fn a_swizzle_span_follows_the_depth() {
    let bump = Bump::new();
    let (k, mut m) = with_facts();
    for (depth, copies) in [(16, 2), (32, 2), (64, 2), (128, 4)] {
        m.tunables[2].1 = depth;
        let p = lower(&k, &m, &bump).unwrap();
        assert_eq!(count(&p, Opcode::TmaLoad), copies, "depth {depth}: a copy for each slab of each operand");
    }
}

#[test]
fn the_impossible_is_refused_with_its_number() {
    let bump = Bump::new();
    let (k, m) = with_facts();
    let refused = |change: &dyn Fn(&mut Mapping)| {
        let mut m = m.clone();
        change(&mut m);
        lower(&k, &m, &bump).err().unwrap_or_else(|| panic!("not refused"))
    };
    let tile = |at: usize, v: i64| move |m: &mut Mapping| m.tunables[at].1 = v;
    // Neither side is rows for two warpgroups: turning the product does not help.
    let uneven = |m: &mut Mapping| (m.tunables[0].1, m.tunables[1].1) = (192, 192);
    assert!(refused(&uneven).contains("multiple of 128"));
    let said = refused(&tile(1, 20));
    assert!(said.contains("a multiple of 128 (2 warpgroups of 64 rows), the other of 8"), "{said}");
    assert!(refused(&tile(2, 24)).contains("multiple of 16"));
    assert!(refused(&tile(0, 512)).contains("at most"));
    assert!(refused(&tile(0, 0)).contains("must be 1 or more"));
    assert!(refused(&|m| m.tunables[0].0 = "XX".into()).contains("`XX`"));
    assert!(refused(&|m| m.loops[0].0 = "zz".into()).contains("`zz`"));
}

/// The same kernel by `mma.sync`.
fn by_warps(m: &Mapping, warps: Option<u32>) -> Mapping {
    let mut m = m.clone();
    m.whole.products = Products::MmaSync;
    m.whole.warps = warps;
    m.loops[0].1.consumers = None;
    m
}

#[test]
fn products_of_warps_take_their_operands_from_matrices() {
    let bump = Bump::new();
    let (k, m) = with_facts();
    let p = lower(&k, &by_warps(&m, None), &bump).unwrap();
    assert_eq!(p.warps, 8);
    assert_eq!(count(&p, Opcode::MmaSync), 4, "one for each step of 16 in a depth of 64");
    assert_eq!(count(&p, Opcode::Ldmatrix), 4 * (4 + 4), "64 x 64 of each of 2 x 4 warps");
    assert_eq!(count(&p, Opcode::Wgmma), 0);
    assert_eq!(count(&p, Opcode::TmaLoad), 2);
    assert_eq!(count(&p, Opcode::TmaStore), 4, "128 rows leave in four times 2 warps of 16");
    let one = lower(&k, &by_warps(&m, Some(16)), &bump).unwrap();
    assert_eq!(count(&one, Opcode::Ldmatrix), 4 * (2 + 4), "32 x 64 of each of 4 x 4 warps");
}

#[test]
fn low_tiles_become_products_of_warps_by_themselves() {
    let bump = Bump::new();
    let (k, mut m) = with_facts();
    for (rows, columns, warps) in [(16, 256, 4), (32, 64, 4), (48, 32, 4), (16, 8, 1)] {
        m.tunables = vec![("TM".into(), rows), ("TN".into(), columns), ("TK".into(), 64)];
        m.loops[0].1.consumers = None;
        let p = lower(&k, &m, &bump).unwrap_or_else(|e| panic!("{rows} x {columns}: {e}"));
        assert_eq!((p.warps, count(&p, Opcode::Wgmma)), (warps, 0), "{rows} x {columns}");
    }
    m.whole.products = Products::Wgmma;
    let refused = lower(&k, &m, &bump).err().expect("16 rows are no warpgroup's");
    assert!(refused.contains("multiple of 64"), "{refused}");
}

#[test]
fn without_producers_threads_copy_as_wide_as_the_facts_allow() {
    let bump = Bump::new();
    for (mult, bytes) in [("% 8", 16), ("% 4", 8), ("% 2", 4)] {
        let (k, m) = parse(&GEMM.replace("ALIGN", "align 16").replace("MULT", mult));
        let mut m = by_warps(&m, None);
        m.loops[0].1.producers = Some(0);
        let p = lower(&k, &m, &bump).unwrap();
        assert_eq!(count(&p, Opcode::TmaLoad), 0);
        let copies: Vec<_> = p
            .func
            .insts
            .values()
            .filter_map(|d| if let Attr::Copy(c) = d.attr { Some(c) } else { None })
            .collect();
        assert!(copies.iter().all(|c| c.bytes == bytes), "{mult}");
        assert_eq!(copies.len() * usize::from(bytes) * 256, (128 + 256) * 64 * 2, "{mult}: each byte once");
        assert!(p.buffers.values().filter(|b| b.kind == BufferKind::Ring).count() == 2);
    }
}

#[test]
fn warps_that_cannot_share_a_tile_are_refused() {
    let bump = Bump::new();
    let (k, m) = with_facts();
    let refused = |warps: u32, tile: [i64; 3]| {
        let mut m = by_warps(&m, Some(warps));
        for (t, v) in m.tunables.iter_mut().zip(tile) {
            t.1 = v;
        }
        lower(&k, &m, &bump).err().unwrap_or_else(|| panic!("{warps} warps, {tile:?}: not refused"))
    };
    assert!(refused(3, [128, 256, 64]).contains("1, 2, 4, 8, 16 or 32"));
    assert!(refused(8, [16, 24, 64]).contains("multiple of 16 rows and 8 columns"));
    assert!(refused(4, [128, 256, 64]).contains("256 registers a thread; at most 160"));
    assert!(refused(8, [128, 256, 24]).contains("multiple of 16"));
}

/// Tensor loads and stores of the product with some words changed.
fn copies(words: &[(&str, &str)]) -> (usize, usize) {
    let text = GEMM.replace("ALIGN", "align 16").replace("MULT", "% 8");
    let text = words.iter().fold(text, |t, (from, to)| {
        assert!(t.contains(from), "{from}");
        t.replace(from, to)
    });
    let bump = Bump::new();
    let (k, m) = parse(&text);
    let p = lower(&k, &m, &bump).unwrap_or_else(|e| panic!("{e}"));
    (count(&p, Opcode::TmaLoad), count(&p, Opcode::TmaStore))
}

#[test]
fn tensor_copies_begin_at_whole_16_bytes() {
    assert_eq!(copies(&[("gz[p*TM, q*TN]", "gz[p*TM, q*TN + 8]")]), (2, 4));
    assert_eq!(copies(&[("gz[p*TM, q*TN]", "gz[p*TM, q*TN + 4]")]), (2, 0));
    assert_eq!(copies(&[("gz[p*TM, q*TN]", "gz[p*TM + 1, q*TN]")]), (2, 4), "rows begin anywhere");
    assert_eq!(copies(&[("gx[p*TM, s*TK]", "gx[p*TM, s*TK + 4]")]), (1, 4));
}

#[test]
fn tensor_stores_do_not_begin_below_the_first_element() {
    for at in ["p*TM - 8, q*TN", "p*TM, q*TN - 8", "p*TM - rows, q*TN", "p*TM, (q - 1)*TN"] {
        assert_eq!(copies(&[("gz[p*TM, q*TN]", &format!("gz[{at}]"))]), (2, 0), "{at}");
    }
    assert_eq!(copies(&[("gx[p*TM, s*TK]", "gx[p*TM - 8, s*TK]")]), (2, 4), "loads may");
    assert_eq!(copies(&[("gz[p*TM, q*TN]", "gz[max(p*TM - 8, 0), q*TN]")]), (2, 4));
    for raster in ["linear", "band_m 4", "band_n 4", "paired"] {
        assert_eq!(copies(&[("raster square", &format!("raster {raster}"))]), (2, 4), "{raster}");
    }
    for whole in ["cluster 2, persistent", "warps 8"] {
        assert_eq!(copies(&[("persistent, raster square", whole)]).1, 4, "{whole}");
    }
}

#[test]
fn tiles_counted_from_the_last_one_are_not_negative() {
    let back = |less: u32, whole: &str| {
        let at = format!("gz[(cdiv(rows, TM) - {less} - p)*TM, q*TN]");
        copies(&[("gz[p*TM, q*TN]", &at), ("persistent, raster square", whole)])
    };
    for whole in ["persistent", "persistent, raster paired", "chunk 64"] {
        assert_eq!((back(1, whole), back(2, whole)), ((2, 4), (2, 0)), "{whole}");
    }
    let text = GEMM.replace("ALIGN", "align 16").replace("MULT", "% 8");
    let text = text.replace("gz[p*TM, q*TN]", "gz[(cdiv(rows, TM) - 1 - p)*TM, q*TN]");
    let (k, m) = parse(&text.replace("persistent, raster square", "persistent, cluster 2"));
    let refused = lower(&k, &m, &Bump::new()).err().expect("the last cluster's blocks lie past the end");
    assert!(refused.contains("blocks past the grid's end"), "{refused}");
}
