//! Whole allocations: small programs with known answers, then random ones under the checker.

use crate::{Budget, RegallocError, allocate, check, pool_check};
use smallvec::smallvec;
use warplift_ir::Bump;
use warplift_ir::machine::*;
use warplift_ir::manifest::Expr;
use warplift_ir::target::{Opcode, SM90A};
use warplift_ir::tile::{CmpOp, Loc};
use warplift_ir::types::Elem;

mod random;

const WIDE: Budget<'_> = Budget { registers: 4000, role: "all", target: &SM90A };

fn cursor<'f, 'a>(func: &'f mut Func<'a>) -> Cursor<'f, 'a> {
    let entry = func.entry;
    Cursor::new(func, entry, Loc::default())
}

/// Ends the cursor's block with a branch and goes on at another.
fn go(c: &mut Cursor<'_, '_>, op: Opcode, args: &[Value], targets: &[(Block, &[Value])], next: Block) {
    let inst = c.push(NewInst::new(op, args, &[]));
    for (block, args) in targets {
        c.func.add_target(inst, *block, args);
    }
    c.block = next;
}

fn block(c: &mut Cursor<'_, '_>) -> Block {
    let b = c.func.new_block();
    c.func.order.push(b);
    b
}

/// A product of one atom of `n` columns with one k-step.
pub(super) fn product(c: &mut Cursor<'_, '_>, acc: Value, a: Option<Value>, n: u16) -> Value {
    let desc = c.imm_of(Ty::B64, 1 << 62);
    product_of(c, acc, a.is_none(), &[a.unwrap_or(desc), desc], n)
}

/// A product with these operands; `in_memory`: both matrices are.
fn product_of(c: &mut Cursor<'_, '_>, acc: Value, in_memory: bool, operands: &[Value], n: u16) -> Value {
    let shared = SharedOperand {
        place: Place { buffer: Buffer::from_u32(0), offset: 0 },
        warpgroup_stride: 0,
        atom_stride: 0,
        steps: smallvec![0],
        leading: 16,
        stride: 1024,
        swizzle: 128,
        mn_major: false,
    };
    let on = c.imm_of(Ty::Pred, 1);
    let args = [&[acc, on], operands].concat();
    let in_memory = in_memory.then(|| shared.clone());
    let attr = WgmmaAttr {
        n,
        elem: Elem::F16,
        right: Elem::F16,
        acc: Elem::F32,
        m_atoms: 1,
        n_atoms: 1,
        k_steps: 1,
        negated: false,
        a: in_memory,
        b: shared,
    };
    let ty = c.func.ty(acc);
    c.value(NewInst::new(Opcode::Wgmma, &args, &[ty]).attr(Attr::Wgmma(Box::new(attr))))
}

pub(super) fn sync(c: &mut Cursor<'_, '_>, op: Opcode, attr: Attr) {
    c.push(NewInst::new(op, &[], &[]).attr(attr));
}

fn each(c: &mut Cursor<'_, '_>, op: Opcode, a: Value, scale: u16) -> Value {
    let regs = c.func.ty(a).regs() as u16 / scale;
    let maps = (0..scale).map(|offset| IndexMap::Affine { scale, offset }).collect();
    let args = vec![a; usize::from(scale)];
    c.value(NewInst::new(op, &args, &[Ty::frag(regs)]).maps(maps))
}

fn store(c: &mut Cursor<'_, '_>, v: Value, at: u16) {
    let part = c.value(NewInst::new(Opcode::Slice, &[v], &[Ty::frag(4)]).attr(Attr::Imm(at.into())));
    let base = c.op(Opcode::SharedBase, &[], Ty::B32);
    let attr = Attr::Matrix { count: 4, trans: false, offset: 0, buffer: None };
    c.push(NewInst::new(Opcode::Stmatrix, &[base, part], &[]).attr(attr));
}

fn moves(func: &Func<'_>, alloc: &Allocation) -> usize {
    func.insts.keys().map(|i| alloc.before[i].len()).sum()
}

/// A product in a loop, packed and stored after it: the shape of every GEMM.
fn gemm(bump: &Bump) -> Func<'_> {
    let mut func = Func::new(bump);
    let mut c = cursor(&mut func);
    let (body, exit) = (block(&mut c), block(&mut c));
    let frag = Ty::frag(128);
    let acc = c.func.append_param(body, frag, false);
    let t = c.func.append_param(body, Ty::B32, true);
    let (undef, zero) = (c.op(Opcode::Undef, &[], frag), c.imm(0));
    let last = c.value(NewInst::new(Opcode::LdParam32, &[], &[Ty::B32]).attr(Attr::Param(2)));
    go(&mut c, Opcode::Br, &[], &[(body, &[undef, zero])], body);
    sync(&mut c, Opcode::WgmmaFence, Attr::None);
    let y = product(&mut c, acc, None, 256);
    sync(&mut c, Opcode::WgmmaCommit, Attr::None);
    sync(&mut c, Opcode::WgmmaWait, Attr::Imm(0));
    let next = c.add_imm(t, 1);
    let more = c.compare(CmpOp::Lt, next, last);
    go(&mut c, Opcode::BrIf, &[more], &[(body, &[y, next]), (exit, &[])], exit);
    let packed = each(&mut c, Opcode::PackF16, y, 2);
    (0..16).for_each(|i| store(&mut c, packed, 4 * i));
    sync(&mut c, Opcode::Ret, Attr::None);
    func
}

#[test]
fn an_accumulator_keeps_its_registers() {
    let bump = Bump::new();
    let (func, alloc) = allocate(&gemm(&bump), &WIDE).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(check(&func, &alloc), Ok(()));
    assert_eq!(moves(&func, &alloc), 0, "{func}");
    let mut packs = func.insts.iter().filter(|(_, d)| d.op == Opcode::PackF16);
    let pack = packs.next().map(|(i, _)| alloc.insts[i].clone());
    let [a, b, d] = [Operand::Fragment(0, 128), Operand::Fragment(0, 128), Operand::Fragment(0, 64)];
    assert_eq!(pack, Some(vec![a, b, d]));
    assert!((128..136).contains(&alloc.pressure), "{}", alloc.pressure);
}

#[test]
fn what_does_not_fit_names_the_values() {
    let bump = Bump::new();
    let error = allocate(&gemm(&bump), &Budget { registers: 120, role: "consumer", target: &SM90A })
        .map(|(_, a)| a.pressure);
    let said = error.as_ref().map_err(ToString::to_string).err().unwrap_or_default();
    assert!(said.starts_with("a thread of role `consumer` needs "), "{said}");
    assert!(
        said.contains(" registers, 120 are possible: take smaller tiles")
            && said.contains(" for what loops and branches carry"),
        "{said}"
    );
    let Err(RegallocError::Budget { role, limit: 120, needed, values, .. }) = error else {
        panic!("{error:?}");
    };
    assert_eq!((role.as_str(), values.0[0].registers), ("consumer", 128));
    assert!(needed >= 128);
}

#[test]
fn a_start_that_two_products_share_is_copied_before_the_fence() {
    let bump = Bump::new();
    let mut func = Func::new(&bump);
    let mut c = cursor(&mut func);
    let tid = c.op(Opcode::Tid, &[], Ty::B32);
    let splat = c.value(NewInst::new(Opcode::Mov, &[tid], &[Ty::frag(16)]).maps(smallvec![IndexMap::Whole]));
    let start = each(&mut c, Opcode::NegF32, splat, 1);
    sync(&mut c, Opcode::WgmmaFence, Attr::None);
    let (x, y) = (product(&mut c, start, None, 32), product(&mut c, start, None, 32));
    sync(&mut c, Opcode::WgmmaCommit, Attr::None);
    sync(&mut c, Opcode::WgmmaWait, Attr::Imm(0));
    store(&mut c, x, 0);
    store(&mut c, y, 0);
    sync(&mut c, Opcode::Ret, Attr::None);
    let (func, alloc) = allocate(&func, &WIDE).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(check(&func, &alloc), Ok(()));
    let ops: Vec<Opcode> = func.blocks[func.entry].insts.iter().map(|&i| func.insts[i].op).collect();
    let find = |op| ops.iter().position(|&o| o == op);
    assert!(find(Opcode::Join).is_some() && find(Opcode::Join) < find(Opcode::WgmmaFence), "{func}");
}

/// A persistent kernel: every tile starts from the same zeros.
#[test]
fn zeros_are_made_anew_for_every_tile() {
    let bump = Bump::new();
    let mut func = Func::new(&bump);
    let mut c = cursor(&mut func);
    let (tile, body, end, exit) = (block(&mut c), block(&mut c), block(&mut c), block(&mut c));
    let (zero, tid) = (c.imm(0), c.op(Opcode::Tid, &[], Ty::B32));
    let zeros = NewInst::new(Opcode::Mov, &[zero], &[Ty::frag(128)]).maps(smallvec![IndexMap::Whole]);
    let zeros = c.value(zeros);
    go(&mut c, Opcode::Br, &[], &[(tile, &[])], tile);
    go(&mut c, Opcode::Br, &[], &[(body, &[zeros])], body);
    let acc = c.func.append_param(body, Ty::frag(128), false);
    sync(&mut c, Opcode::WgmmaFence, Attr::None);
    let y = product(&mut c, acc, None, 256);
    sync(&mut c, Opcode::WgmmaCommit, Attr::None);
    sync(&mut c, Opcode::WgmmaWait, Attr::Imm(0));
    let more = c.compare(CmpOp::Lt, tid, tid);
    go(&mut c, Opcode::BrIf, &[more], &[(body, &[y]), (end, &[])], end);
    store(&mut c, y, 0);
    go(&mut c, Opcode::BrIf, &[more], &[(tile, &[]), (exit, &[])], exit);
    sync(&mut c, Opcode::Ret, Attr::None);
    let (func, alloc) = allocate(&func, &WIDE).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(check(&func, &alloc), Ok(()));
    assert_eq!(moves(&func, &alloc), 0, "{func}");
    assert!(alloc.pressure < 136, "{}", alloc.pressure);
    assert!(func.blocks[tile].insts.iter().any(|&i| func.insts[i].op == Opcode::Mov), "{func}");
}

#[test]
fn an_operand_in_registers_stays_until_the_wait() {
    let bump = Bump::new();
    let mut func = Func::new(&bump);
    let mut c = cursor(&mut func);
    let word = c.op(Opcode::Tid, &[], Ty::B32);
    let whole: smallvec::SmallVec<[IndexMap; 3]> = smallvec![IndexMap::Whole];
    let a = c.value(NewInst::new(Opcode::Mov, &[word], &[Ty::frag(4)]).maps(whole.clone()));
    let acc = c.op(Opcode::Undef, &[], Ty::frag(16));
    sync(&mut c, Opcode::WgmmaFence, Attr::None);
    let x = product(&mut c, acc, Some(a), 32);
    sync(&mut c, Opcode::WgmmaCommit, Attr::None);
    let other = c.value(NewInst::new(Opcode::Mov, &[word], &[Ty::frag(4)]).maps(whole));
    sync(&mut c, Opcode::WgmmaWait, Attr::Imm(0));
    store(&mut c, other, 0);
    store(&mut c, x, 0);
    sync(&mut c, Opcode::Ret, Attr::None);
    let (func, mut alloc) = allocate(&func, &WIDE).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(check(&func, &alloc), Ok(()));
    let defs: Vec<Inst> = func.insts.iter().filter(|(_, d)| d.op == Opcode::Mov).map(|(i, _)| i).collect();
    let (early, late) = (alloc.insts[defs[0]][1].clone(), alloc.insts[defs[1]][1].clone());
    assert_ne!(early, late);
    for inst in func.insts.keys() {
        alloc.insts[inst].iter_mut().filter(|o| **o == late).for_each(|o| *o = early.clone());
    }
    let error = check(&func, &alloc).map_err(|e| e.message);
    assert!(error.as_ref().is_err_and(|m| m.contains("in flight")), "{error:?}");
}

#[test]
fn more_scalars_than_names_go_to_the_planner() {
    let bump = Bump::new();
    let mut func = Func::new(&bump);
    let mut c = cursor(&mut func);
    let base = c.op(Opcode::Tid, &[], Ty::B32);
    let many: Vec<Value> = (0..150).map(|i| c.mul_imm(base, 3 + i)).collect();
    let sum = many.iter().fold(base, |sum, &v| c.int(Opcode::Xor, sum, v));
    let shared = c.op(Opcode::SharedBase, &[], Ty::B32);
    let mem = Attr::Mem { offset: 0, count: 1 };
    c.push(NewInst::new(Opcode::StShared, &[shared, sum], &[]).attr(mem));
    sync(&mut c, Opcode::Ret, Attr::None);
    let (func, alloc) = allocate(&func, &WIDE).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(check(&func, &alloc), Ok(()));
    assert!((150..156).contains(&alloc.pressure), "{}", alloc.pressure);
    let tight =
        allocate(&func, &Budget { registers: 100, role: "all", target: &SM90A }).map(|(_, a)| a.pressure);
    assert!(matches!(tight, Err(RegallocError::Budget { .. })), "{tight:?}");
}

#[test]
fn more_addresses_than_names_are_refused() {
    let bump = Bump::new();
    let mut func = Func::new(&bump);
    let mut c = cursor(&mut func);
    let base = c.op(Opcode::Tid, &[], Ty::B32);
    let many: Vec<Value> = (0..80)
        .map(|i| {
            let v = c.mul_imm(base, 3 + i);
            c.op(Opcode::WidenU32, &[v], Ty::B64)
        })
        .collect();
    for &v in &many {
        c.push(NewInst::new(Opcode::StGlobal16, &[v, base], &[]).attr(Attr::Mem { offset: 0, count: 1 }));
    }
    sync(&mut c, Opcode::Ret, Attr::None);
    let error = allocate(&func, &WIDE).map(|(_, a)| a.names);
    assert!(matches!(error, Err(RegallocError::Names { class: "64-bit", limit: 64, .. })), "{error:?}");
}

#[test]
fn loops_that_swap_get_parallel_moves() {
    let bump = Bump::new();
    let mut func = Func::new(&bump);
    let mut c = cursor(&mut func);
    let body = block(&mut c);
    let exit = block(&mut c);
    let [x, y] = [0, 1].map(|_| c.func.append_param(body, Ty::frag(4), false));
    let tid = c.op(Opcode::Tid, &[], Ty::B32);
    let start = [1, 2].map(|i| {
        let v = c.add_imm(tid, i);
        c.value(NewInst::new(Opcode::Mov, &[v], &[Ty::frag(4)]).maps(smallvec![IndexMap::Whole]))
    });
    go(&mut c, Opcode::Br, &[], &[(body, &start)], body);
    store(&mut c, x, 0);
    let more = c.compare(CmpOp::Lt, tid, tid);
    go(&mut c, Opcode::BrIf, &[more], &[(body, &[y, x]), (exit, &[])], exit);
    store(&mut c, y, 0);
    sync(&mut c, Opcode::Ret, Attr::None);
    let (func, mut alloc) = allocate(&func, &WIDE).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(check(&func, &alloc), Ok(()));
    assert_eq!(moves(&func, &alloc), 12, "three moves for each of four pairs");
    let edge = func.insts.keys().find(|&i| !alloc.before[i].is_empty());
    alloc.before[edge.unwrap_or_else(|| panic!("no moves"))].pop();
    assert!(check(&func, &alloc).is_err());
}

#[test]
fn the_pool_is_what_the_block_has_at_entry() {
    let bump = Bump::new();
    let launch = LaunchInfo {
        kernel: "k".into(),
        file: String::new(),
        arguments: vec![],
        params: vec![],
        grid: [0; 3].map(Expr::Const),
        cluster: 1,
        resident: 1,
        pdl: false,
        facts: vec![],
        workspace: Expr::zero(),
    };
    let role = |first_warp, warps, registers| Role {
        name: "role",
        first_warp,
        warps,
        copiers: 0,
        registers,
        func: Func::new(&bump),
    };
    let block = |producer, consumer| Scheduled {
        launch: launch.clone(),
        threads: 384,
        shared: SharedMap::default(),
        setup: Func::new(&bump),
        roles: vec![role(0, 4, producer), role(4, 8, consumer)],
    };
    assert_eq!(pool_check(&block(40, 232), &SM90A), Ok(()));
    let over = pool_check(&block(32, 240), &SM90A);
    assert_eq!(over, Err(RegallocError::Pool { asked: 65_536, pool: 64_512, threads: 384, entry: 168 }));
    assert!(matches!(pool_check(&block(36, 232), &SM90A), Err(RegallocError::Count { registers: 36, .. })));
}

/// Two products in a chain: the first one's sum, packed, is the second one's left operand.
#[test]
fn operands_of_products_share_all_names_in_order_or_none() {
    let bump = Bump::new();
    let mut func = Func::new(&bump);
    let mut c = cursor(&mut func);
    let group = |c: &mut Cursor<'_, '_>, a, n: u16| {
        let acc = c.op(Opcode::Undef, &[], Ty::frag(n / 2));
        sync(c, Opcode::WgmmaFence, Attr::None);
        let sum = product(c, acc, a, n);
        sync(c, Opcode::WgmmaCommit, Attr::None);
        sync(c, Opcode::WgmmaWait, Attr::Imm(0));
        sum
    };
    let first = group(&mut c, None, 128);
    let left = each(&mut c, Opcode::PackF16, first, 2);
    let left = c.value(NewInst::new(Opcode::Slice, &[left], &[Ty::frag(4)]).attr(Attr::Imm(0)));
    let second = group(&mut c, Some(left), 64);
    let third = group(&mut c, None, 128);
    (0..8).for_each(|i| store(&mut c, second, 4 * i));
    (0..8).for_each(|i| store(&mut c, third, 4 * i));
    sync(&mut c, Opcode::Ret, Attr::None);
    let (func, alloc) = allocate(&func, &WIDE).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(check(&func, &alloc), Ok(()));
    let products = func.insts.iter().filter(|(_, d)| d.op == Opcode::Wgmma);
    let runs: Vec<(u16, u16)> = products
        .flat_map(|(i, _)| alloc.insts[i].clone())
        .filter_map(|o| match o {
            Operand::Fragment(first, n) => Some((first, first + n)),
            _ => None,
        })
        .collect();
    assert_eq!(runs.len(), 7, "{runs:?}");
    for (a, b) in runs.iter().flat_map(|a| runs.iter().map(move |b| (a, b))) {
        assert!(a == b || a.1 <= b.0 || b.1 <= a.0, "{runs:?}");
    }
}

/// A product whose operands have 36 K-steps each: 72 descriptors, which are a base and constants.
#[test]
fn descriptors_of_many_steps_hold_no_registers() {
    let bump = Bump::new();
    let mut func = Func::new(&bump);
    let mut c = cursor(&mut func);
    let (base, high) = (c.op(Opcode::SharedBase, &[], Ty::B32), c.imm(1 << 30));
    let acc = c.op(Opcode::Undef, &[], Ty::frag(32));
    let mut step = |i: i64| {
        let low = c.add_imm(base, 2 * i);
        c.op(Opcode::Pack64, &[low, high], Ty::B64)
    };
    let descriptors: Vec<Value> = (0..72i64).map(&mut step).collect();
    sync(&mut c, Opcode::WgmmaFence, Attr::None);
    let sum = product_of(&mut c, acc, true, &descriptors, 64);
    sync(&mut c, Opcode::WgmmaCommit, Attr::None);
    sync(&mut c, Opcode::WgmmaWait, Attr::Imm(0));
    (0..8).for_each(|i| store(&mut c, sum, 4 * i));
    sync(&mut c, Opcode::Ret, Attr::None);
    let (func, alloc) = allocate(&func, &WIDE).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(check(&func, &alloc), Ok(()));
    assert!((32..36).contains(&alloc.pressure), "{}", alloc.pressure);
    assert_eq!(alloc.names[1], 64 + 72, "{:?}", alloc.names);
}

/// A sum that is packed and stored in pieces, and then stored again: the packed value never exists as a whole.
#[test]
fn what_is_stored_in_pieces_is_made_in_pieces() {
    let bump = Bump::new();
    let mut func = Func::new(&bump);
    let mut c = cursor(&mut func);
    let acc = c.op(Opcode::Undef, &[], Ty::frag(64));
    let desc = c.imm_of(Ty::B64, 1 << 62);
    sync(&mut c, Opcode::WgmmaFence, Attr::None);
    let sum = product_of(&mut c, acc, true, &[desc, desc], 128);
    sync(&mut c, Opcode::WgmmaCommit, Attr::None);
    sync(&mut c, Opcode::WgmmaWait, Attr::Imm(0));
    let packed = each(&mut c, Opcode::PackF16, sum, 2);
    (0..8).for_each(|i| store(&mut c, packed, 4 * i));
    (0..16).for_each(|i| store(&mut c, sum, 4 * i));
    sync(&mut c, Opcode::Ret, Attr::None);
    let (func, alloc) = allocate(&func, &WIDE).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(check(&func, &alloc), Ok(()));
    // 64 of the sum, 4 of a piece, an address, the stack pointer.
    assert!((69..73).contains(&alloc.pressure), "{}", alloc.pressure);
}

/// An operand in registers is held until its product is awaited, whatever is read before.
#[test]
fn operands_in_flight_count_until_the_wait() {
    let bump = Bump::new();
    let mut func = Func::new(&bump);
    let mut c = cursor(&mut func);
    let word = c.op(Opcode::Tid, &[], Ty::B32);
    let whole: smallvec::SmallVec<[IndexMap; 3]> = smallvec![IndexMap::Whole];
    let splat = |c: &mut Cursor<'_, '_>, n| {
        let made = c.value(NewInst::new(Opcode::Mov, &[word], &[Ty::frag(n)]).maps(whole.clone()));
        each(c, Opcode::NegF32, made, 1)
    };
    let left = splat(&mut c, 4);
    let acc = c.op(Opcode::Undef, &[], Ty::frag(32));
    sync(&mut c, Opcode::WgmmaFence, Attr::None);
    let sum = product(&mut c, acc, Some(left), 64);
    sync(&mut c, Opcode::WgmmaCommit, Attr::None);
    let beside = splat(&mut c, 16);
    (0..4).for_each(|i| store(&mut c, beside, 4 * i));
    sync(&mut c, Opcode::WgmmaWait, Attr::Imm(0));
    (0..8).for_each(|i| store(&mut c, sum, 4 * i));
    sync(&mut c, Opcode::Ret, Attr::None);
    let (_, alloc) = allocate(&func, &WIDE).unwrap_or_else(|e| panic!("{e}"));
    // 32 of the sum, 4 of its operand, 4 of a piece of what is beside, the stack pointer.
    assert!((41..43).contains(&alloc.pressure), "{}", alloc.pressure);
}
