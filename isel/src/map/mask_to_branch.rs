//! Loop unswitching for masks: many tiles of a masked loop need no mask. A select beside MMAs whose condition
//! compares indices moves into a branch. One scalar comparison decides for the whole tile whether the branch is
//! needed.
//!
//! ```text
//!  c = column + first < keys              ─►   masked = if keys - first - (BN - 1) > 0 { yield s }
//!  masked = select(c, s, -inf)                          else { c = ..  yield select(c, s, -inf) }
//! ```
//!
//! Under the branch a mask of two conditions becomes two selects: each folds its comparison, and no mask is kept.
//!
//! Indices are sums and differences of `iota`s and scalars. The scalars are summed in 64 bits.

use crate::tiles::users;
use rustc_hash::FxHashSet;
use warplift_ir::tile::{
    BinOp, Block, CmpOp, Inst, Kernel, Loc, Op, Type, Value, ValueData, ValueDef, ValueList,
};
use warplift_ir::types::Elem;

/// Moves the masks of all blocks with MMAs into branches.
pub fn do_mask_to_branch(k: &mut Kernel) {
    for block in k.blocks.keys().collect::<Vec<_>>() {
        let insts = &k.blocks[block].insts;
        if !insts.iter().any(|&i| matches!(k.insts[i].op, Op::Mma { .. })) {
            continue;
        }
        let selects: Vec<Inst> =
            insts.iter().copied().filter(|&i| matches!(k.insts[i].op, Op::Select)).collect();
        for select in selects {
            if let Some(bounds) = bounds(k, select) {
                branch(k, block, select, &bounds);
            }
        }
    }
}

/// A guard: the signed sum of these scalars plus the offset must be greater than zero.
#[derive(Default)]
struct MaskBound {
    scalars: Vec<(Value, bool)>,
    offset: i64,
}

/// The value of the select if the condition is the same for the whole tile, and the guards that prove it.
struct MaskBounds {
    kept: Value,
    all: Vec<MaskBound>,
}

fn bounds(k: &Kernel, select: Inst) -> Option<MaskBounds> {
    let &[condition, x, y] = k.args(select) else { return None };
    let is_matrix = |v: Value| matches!(k.ty(v), Type::Tile(_, s) if s.rank() == 2);
    let is_full = |v: Value| !is_matrix(v) || k.def(v).is_some_and(|d| matches!(k.insts[d].op, Op::Full));
    let kept = if is_full(x) { y } else { x };
    if !is_matrix(k.result(select)) || is_full(kept) {
        return None;
    }
    let mut all = Vec::new();
    hold(k, condition, kept == x, &mut all)?;
    Some(MaskBounds { kept, all })
}

/// The guards that prove a condition to be `wanted` for all elements.
fn hold(k: &Kernel, v: Value, wanted: bool, all: &mut Vec<MaskBound>) -> Option<()> {
    let def = k.def(v)?;
    let args = k.args(def);
    match (&k.insts[def].op, wanted) {
        (Op::Binary(BinOp::And), true) | (Op::Binary(BinOp::Or), false) => {
            args.iter().try_for_each(|&a| hold(k, a, wanted, all))
        }
        (Op::Broadcast | Op::ExpandDims(_) | Op::Trans(_), _) => hold(k, args[0], wanted, all),
        (Op::Compare(cmp), _) => {
            // The comparison in the form `greater > less` or `greater >= less`.
            let (greater, less, strict) = match (cmp, wanted) {
                (CmpOp::Lt, true) => (args[1], args[0], true),
                (CmpOp::Ge, false) => (args[1], args[0], true),
                (CmpOp::Le, true) => (args[1], args[0], false),
                (CmpOp::Gt, false) => (args[1], args[0], false),
                (CmpOp::Gt, true) | (CmpOp::Le, false) => (args[0], args[1], true),
                (CmpOp::Ge, true) | (CmpOp::Lt, false) => (args[0], args[1], false),
                _ => return None,
            };
            let mut bound = MaskBound { scalars: Vec::new(), offset: i64::from(!strict) };
            sum(k, greater, false, &mut bound)?;
            sum(k, less, true, &mut bound)?;
            all.push(bound);
            Some(())
        }
        _ => None,
    }
}

/// Adds the least value of an index, or of its negative.
fn sum(k: &Kernel, v: Value, negative: bool, bound: &mut MaskBound) -> Option<()> {
    let elem = k.ty(v).elem();
    if elem != Elem::I32 {
        return None;
    }
    if let Type::Scalar(_) = k.ty(v) {
        bound.scalars.push((v, negative));
        return Some(());
    }
    let def = k.def(v)?;
    let args = k.args(def);
    match k.insts[def].op {
        Op::Iota(d) => {
            let extent = k.ty(v).shape()?.extents()?.get(usize::from(d)).copied()?;
            bound.offset -= if negative { i64::from(extent) - 1 } else { 0 };
            Some(())
        }
        Op::Full | Op::Broadcast | Op::ExpandDims(_) | Op::Trans(_) => sum(k, args[0], negative, bound),
        Op::Binary(BinOp::Add) => args.iter().try_for_each(|&a| sum(k, a, negative, bound)),
        Op::Binary(BinOp::Sub) => {
            sum(k, args[0], negative, bound)?;
            sum(k, args[1], !negative, bound)
        }
        _ => None,
    }
}

/// Moves the select into a branch, with the instructions that only it needs.
fn branch(k: &mut Kernel, block: Block, select: Inst, bounds: &MaskBounds) {
    let loc = k.insts[select].loc;
    let moved = needed_by(k, block, select, bounds.kept);
    let old = std::mem::take(&mut k.blocks[block].insts);
    let (then, other) = (k.blocks.push(Default::default()), k.blocks.push(Default::default()));
    for inst in old {
        if moved.contains(&inst) {
            k.blocks[other].insts.push(inst);
            continue;
        }
        if inst != select {
            k.blocks[block].insts.push(inst);
            continue;
        }
        let holds = condition(k, block, &bounds.all, loc);
        let result = k.result(select);
        let masked = k.values.push(ValueData { ty: k.ty(result), def: ValueDef::Result(select, 0) });
        k.insts[select].results = ValueList::from_slice(&[masked], &mut k.pool);
        push_selects(k, other, select);
        k.append_inst(then, Op::Yield, &[bounds.kept], &[], &[], loc);
        k.append_inst(other, Op::Yield, &[masked], &[], &[], loc);
        let branch = k.append_inst(block, Op::If, &[holds], &[], &[then, other], loc);
        k.insts[branch].results = ValueList::from_slice(&[result], &mut k.pool);
        k.values[result].def = ValueDef::Result(branch, 0);
    }
}

/// Appends a select to a block. A mask of two conditions that nothing else uses becomes two selects.
fn push_selects(k: &mut Kernel, block: Block, select: Inst) {
    let &[condition, x, y] = k.args(select) else { return };
    let here = k.def(condition).filter(|d| k.blocks[block].insts.contains(d));
    let both = here.filter(|&d| matches!(k.insts[d].op, Op::Binary(BinOp::And | BinOp::Or)));
    if let Some(both) = both.filter(|&d| k.args(d).iter().all(|&a| matches!(k.ty(a), Type::Tile(..)))) {
        let (&[a, b], ty, loc) = (k.args(both), k.ty(k.result(select)), k.insts[select].loc) else { return };
        let inner = k.append_inst(block, Op::Select, &[b, x, y], &[ty], &[], loc);
        let inner = k.result(inner);
        let [yes, no] =
            if matches!(k.insts[both].op, Op::Binary(BinOp::And)) { [inner, y] } else { [x, inner] };
        k.insts[select].args = ValueList::from_slice(&[a, yes, no], &mut k.pool);
        k.blocks[block].insts.retain(|&i| i != both);
        k.insts[both].args = ValueList::new();
    }
    k.blocks[block].insts.push(select);
}

/// Instructions of a block whose results only one instruction needs, without those behind the operand that it keeps.
fn needed_by(k: &Kernel, block: Block, select: Inst, kept: Value) -> FxHashSet<Inst> {
    let users = users(k);
    let mut moved = FxHashSet::default();
    for &inst in k.blocks[block].insts.iter().rev() {
        let data = &k.insts[inst];
        let pure = !data.op.has_effect()
            && data.blocks.is_empty()
            && !data.op.is_read()
            && !matches!(data.op, Op::Yield | Op::Mma { .. });
        let inside = |u: &Inst| moved.contains(u) || (*u == select && !k.results(inst).contains(&kept));
        // The guard needs scalars too.
        let tile = |v: &Value| matches!(k.ty(*v), Type::Tile(..));
        let only = |v: &Value| tile(v) && users.get(v).is_some_and(|u| u.iter().all(inside));
        if pure && !k.results(inst).is_empty() && k.results(inst).iter().all(only) {
            moved.insert(inst);
        }
    }
    moved
}

/// Whether all guards hold, as a scalar.
fn condition(k: &mut Kernel, block: Block, all: &[MaskBound], loc: Loc) -> Value {
    let (wide, truth) = (Type::Scalar(Elem::Int(64)), Type::Scalar(Elem::Bool));
    let push = |k: &mut Kernel, op: Op, args: &[Value], ty: Type| {
        let inst = k.append_inst(block, op, args, &[ty], &[], loc);
        k.result(inst)
    };
    let mut holds: Option<Value> = None;
    for bound in all {
        let mut total = push(k, Op::Int(bound.offset), &[], wide);
        for &(v, negative) in &bound.scalars {
            let v = push(k, Op::Cast, &[v], wide);
            let op = if negative { BinOp::Sub } else { BinOp::Add };
            total = push(k, Op::Binary(op), &[total, v], wide);
        }
        let zero = push(k, Op::Int(0), &[], wide);
        let one = push(k, Op::Compare(CmpOp::Gt), &[total, zero], truth);
        holds = Some(match holds {
            Some(before) => push(k, Op::Binary(BinOp::And), &[before, one], truth),
            None => one,
        });
    }
    holds.unwrap_or_else(|| push(k, Op::Int(1), &[], truth))
}
