//! Selection decides from facts, and refuses with limit and number.

use warplift_ir::Bump;
use warplift_ir::machine::{BufferKind, Program, verify_structured};
use warplift_ir::target::Opcode;
use warplift_ir::tile::{Kernel, Mapping, parse_file};
use warplift_isel::{lower::do_lower, map::do_map, plan::do_plan};

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
    let mapped = do_map(k, m).map_err(|e| e.to_string())?;
    let plan = do_plan(&mapped).map_err(|e| e.to_string())?;
    let program = do_lower(&mapped, &plan, m, bump).map_err(|e| e.to_string())?;
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
    assert!(refused(&tile(0, 96)).contains("multiple of 128"));
    assert!(refused(&tile(1, 20)).contains("multiple of 8"));
    assert!(refused(&tile(2, 24)).contains("multiple of 16"));
    assert!(refused(&tile(0, 512)).contains("at most"));
    assert!(refused(&tile(0, 0)).contains("no positive whole number"));
    assert!(refused(&|m| m.tunables[0].0 = "XX".into()).contains("`XX`"));
    assert!(refused(&|m| m.loops[0].0 = "zz".into()).contains("`zz`"));
}
