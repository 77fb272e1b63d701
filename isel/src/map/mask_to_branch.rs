//! Loop unswitching for masks: many tiles of a masked loop need no mask. A select beside MMAs whose condition
//! compares indices moves into a branch. One scalar comparison decides for the whole tile whether the branch is
//! needed.
//!
//! ```text
//!  c = column + first < keys              ─►   masked = if keys - first - (BN - 1) > 0 { yield s }
//!  masked = select(c, s, -inf)                          else { c = ..  yield select(c, s, -inf) }
//!
//!  select(a & b, s, -inf)                 ─►   select(a, select(b, s, -inf), -inf)          a branch each
//!  select(a | b, s, -inf)                 ─►   if all of a or all of b { yield s } else { .. }
//!  column < min(max(row, p), n)            =   (column < row | column < p) & column < n
//! ```
//!
//! A tile that needs one of two conditions does not compute the other. Under a branch a mask of two conditions becomes two
//! selects: each folds its comparison, and no mask is kept.
//!
//! Indices are sums and differences of `iota`s and scalars. The scalars are summed in 64 bits.

use super::cursor::Cursor;
use super::drop_unused::do_drop_unused;
use super::sink_indices::sink_indices_into;
use crate::tiles::{has_products, users};
use rustc_hash::FxHashSet;
use warplift_ir::tile::{BinOp, Block, CmpOp, Inst, Kernel, Op, Type, UnOp, Value, ValueList};
use warplift_ir::types::Elem;

/// Moves the masks of all blocks with MMAs into branches.
pub fn do_mask_to_branch(k: &mut Kernel) {
    let mut changed = false;
    for block in k.blocks.keys().collect::<Vec<_>>() {
        if !has_products(k, block) {
            continue;
        }
        split_all(k, block);
        let selects: Vec<Inst> = selects(k, block).collect();
        for select in selects {
            if let Some((kept, guard)) =
                kept(k, select).and_then(|kept| Some((kept, guard(k, select, kept)?)))
            {
                branch(k, block, select, kept, &guard);
                changed = true;
            }
        }
    }
    if changed {
        do_drop_unused(k);
    }
}

fn selects(k: &Kernel, block: Block) -> impl Iterator<Item = Inst> + '_ {
    k.blocks[block].insts.iter().copied().filter(|&i| matches!(k.insts[i].op, Op::Select))
}

/// What proves that a condition is the same for a whole tile.
enum Guard {
    /// The sum is greater than zero.
    Positive(Sum),
    /// All of them hold.
    All(Vec<Guard>),
    /// One of them holds.
    Any(Vec<Guard>),
}

/// The least value of an index: signed scalars, the lesser or greater of two sums each, and an offset.
#[derive(Default)]
struct Sum {
    scalars: Vec<(Value, bool)>,
    extremes: Vec<(CmpOp, [Sum; 2])>,
    offset: i64,
}

/// The operand of a mask that is the select's value where nothing is masked; `None` for other selects.
fn kept(k: &Kernel, select: Inst) -> Option<Value> {
    let &[_, x, y] = k.args(select) else { return None };
    let is_matrix = |v: Value| matches!(k.ty(v), Type::Tile(_, s) if s.rank() == 2);
    let is_full = |v: Value| !is_matrix(v) || k.def(v).is_some_and(|d| matches!(k.insts[d].op, Op::Full));
    let kept = if is_full(x) { y } else { x };
    (is_matrix(k.result(select)) && !is_full(kept)).then_some(kept)
}

/// The guard that proves a select to be what it keeps.
fn guard(k: &Kernel, select: Inst, kept: Value) -> Option<Guard> {
    let &[condition, x, _] = k.args(select) else { return None };
    holds(k, condition, kept == x)
}

/// Whether one comparison of scalars may decide a condition for a whole tile.
pub(super) fn may_be_guarded(k: &Kernel, condition: Value) -> bool {
    [true, false].iter().any(|&wanted| holds(k, condition, wanted).is_some())
}

/// The guard that proves a condition to be `wanted` for all elements.
fn holds(k: &Kernel, v: Value, wanted: bool) -> Option<Guard> {
    let def = k.def(v)?;
    let args = k.args(def);
    match (&k.insts[def].op, wanted) {
        (Op::Binary(BinOp::And), true) | (Op::Binary(BinOp::Or), false) => {
            all(args.iter().map(|&a| holds(k, a, wanted)))
        }
        (Op::Binary(BinOp::And), false) | (Op::Binary(BinOp::Or), true) => {
            any(args.iter().map(|&a| holds(k, a, wanted)))
        }
        (Op::Broadcast | Op::ExpandDims(_) | Op::Trans(_), _) => holds(k, args[0], wanted),
        (Op::Unary(UnOp::Not), _) => holds(k, args[0], !wanted),
        (&Op::Compare(cmp), _) => {
            let (greater, less, strict) = ordered(cmp, [args[0], args[1]], wanted)?;
            greater_than(k, greater, less, strict)
        }
        _ => None,
    }
}

/// A comparison, or its opposite, in the form `greater > less`, or `greater >= less` if it is not strict.
pub(super) fn ordered(cmp: CmpOp, [x, y]: [Value; 2], wanted: bool) -> Option<(Value, Value, bool)> {
    match (cmp, wanted) {
        (CmpOp::Lt, true) | (CmpOp::Ge, false) => Some((y, x, true)),
        (CmpOp::Le, true) | (CmpOp::Gt, false) => Some((y, x, false)),
        (CmpOp::Gt, true) | (CmpOp::Le, false) => Some((x, y, true)),
        (CmpOp::Ge, true) | (CmpOp::Lt, false) => Some((x, y, false)),
        (CmpOp::Eq | CmpOp::Ne, _) => None,
    }
}

/// All of them, if each is known.
fn all(guards: impl Iterator<Item = Option<Guard>>) -> Option<Guard> {
    guards.collect::<Option<Vec<_>>>().map(Guard::All)
}

/// Those of them that are known.
fn any(guards: impl Iterator<Item = Option<Guard>>) -> Option<Guard> {
    let known: Vec<Guard> = guards.flatten().collect();
    (!known.is_empty()).then_some(Guard::Any(known))
}

/// The guard that proves one index to be greater than another, or equal where that is enough.
fn greater_than(k: &Kernel, greater: Value, less: Value, strict: bool) -> Option<Guard> {
    let mut sum = Sum { offset: i64::from(!strict), ..Sum::default() };
    add(k, greater, false, &mut sum)?;
    add(k, less, true, &mut sum)?;
    Some(Guard::Positive(sum))
}

/// Adds the least value of an index, or of its negative.
fn add(k: &Kernel, v: Value, negative: bool, sum: &mut Sum) -> Option<()> {
    let elem = k.ty(v).elem();
    if elem != Elem::I32 {
        return None;
    }
    if let Type::Scalar(_) = k.ty(v) {
        sum.scalars.push((v, negative));
        return Some(());
    }
    let def = k.def(v)?;
    let args = k.args(def);
    match k.insts[def].op {
        Op::Iota(d) => {
            let extent = k.ty(v).shape()?.extents()?.get(usize::from(d)).copied()?;
            sum.offset -= if negative { i64::from(extent) - 1 } else { 0 };
        }
        Op::Full | Op::Broadcast | Op::ExpandDims(_) | Op::Trans(_) => add(k, args[0], negative, sum)?,
        Op::Binary(BinOp::Add) => args.iter().try_for_each(|&a| add(k, a, negative, sum))?,
        Op::Binary(BinOp::Sub) => {
            add(k, args[0], negative, sum)?;
            add(k, args[1], !negative, sum)?;
        }
        Op::Binary(op @ (BinOp::Min | BinOp::Max)) => {
            // The negative of the greater one is the lesser of the negatives.
            let lesser = (op == BinOp::Min) != negative;
            let mut of = [Sum::default(), Sum::default()];
            for (sum, &a) in of.iter_mut().zip(args) {
                add(k, a, negative, sum)?;
            }
            sum.extremes.push((if lesser { CmpOp::Lt } else { CmpOp::Gt }, of));
        }
        _ => return None,
    }
    Some(())
}

/// Makes one select each of the conditions of a mask that are known to prove something by themselves.
fn split_all(k: &mut Kernel, block: Block) {
    let mut todo: Vec<Inst> = selects(k, block).collect();
    while let Some(select) = todo.pop() {
        let Some(kept) = kept(k, select) else { continue };
        let &[condition, x, _] = k.args(select) else { continue };
        let wanted = if kept == x { BinOp::And } else { BinOp::Or };
        let alone = |d: &Inst| users(k).get(&k.result(*d)).is_some_and(|u| u.len() == 1);
        let both = k.def(condition).filter(|&d| k.insts[d].op == Op::Binary(wanted)).filter(alone);
        let known = both.is_some_and(|d| k.args(d).iter().any(|&a| holds(k, a, kept == x).is_some()));
        if let Some(inner) = both.filter(|_| known).and_then(|both| split(k, select, both)) {
            let at = k.blocks[block].insts.iter().position(|&i| i == select).unwrap_or(0);
            k.blocks[block].insts.insert(at, inner);
            todo.extend([inner, select]);
        }
    }
}

/// Makes two selects of one whose condition is an `and` or an `or`, which nothing else may use. The first one has no place
/// yet.
fn split(k: &mut Kernel, select: Inst, both: Inst) -> Option<Inst> {
    let &[_, x, y] = k.args(select) else { return None };
    let &[a, b] = k.args(both) else { return None };
    let tiles = [a, b].iter().all(|&v| matches!(k.ty(v), Type::Tile(..)));
    if !tiles {
        return None;
    }
    let (ty, loc) = (k.ty(k.result(select)), k.insts[select].loc);
    let inner = k.make_inst(Op::Select, &[b, x, y], &[ty], &[], loc);
    let first = k.result(inner);
    let [yes, no] = if k.insts[both].op == Op::Binary(BinOp::And) { [first, y] } else { [x, first] };
    k.set_args(select, &[a, yes, no]);
    k.insts[both].args = ValueList::new();
    let all = k.blocks.values_mut().find(|b| b.insts.contains(&both))?;
    all.insts.retain(|&i| i != both);
    Some(inner)
}

/// Moves the select into a branch, with the instructions that only it needs.
fn branch(k: &mut Kernel, block: Block, select: Inst, kept: Value, guard: &Guard) {
    let loc = k.insts[select].loc;
    let moved = needed_by(k, block, select, kept);
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
        let holds = holding(&mut Cursor::at_end(k, block).like(select), guard);
        let result = k.result(select);
        let masked = k.renew_result(select, k.ty(result));
        push_selects(k, other, select);
        k.append_inst(then, Op::Yield, &[kept], &[], &[], loc);
        k.append_inst(other, Op::Yield, &[masked], &[], &[], loc);
        let branch = k.append_inst(block, Op::If, &[holds], &[], &[then, other], loc);
        k.set_result(branch, result);
        // Of indices that other masks use too, each branch has its own.
        sink_indices_into(k, other);
    }
}

/// Appends a select to a block, into which moved what only it needs. A mask of two conditions becomes two selects.
fn push_selects(k: &mut Kernel, block: Block, select: Inst) {
    let here = k.def(k.args(select)[0]).filter(|d| k.blocks[block].insts.contains(d));
    let both = here.filter(|&d| matches!(k.insts[d].op, Op::Binary(BinOp::And | BinOp::Or)));
    let inner = both.and_then(|both| split(k, select, both));
    k.blocks[block].insts.extend(inner.into_iter().chain([select]));
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

const WIDE: Type = Type::Scalar(Elem::Int(64));
const TRUTH: Type = Type::Scalar(Elem::Bool);

/// Whether a guard holds.
fn holding(c: &mut Cursor<'_>, guard: &Guard) -> Value {
    match guard {
        Guard::Positive(sum) => {
            let sum = total(c, sum);
            let zero = c.inst(Op::Int(0), &[], WIDE);
            c.compare(CmpOp::Gt, sum, zero)
        }
        Guard::All(of) => joined(c, BinOp::And, of),
        Guard::Any(of) => joined(c, BinOp::Or, of),
    }
}

fn joined(c: &mut Cursor<'_>, op: BinOp, of: &[Guard]) -> Value {
    let all: Vec<Value> = of.iter().map(|g| holding(c, g)).collect();
    let joined = all.into_iter().reduce(|a, b| c.op(op, a, b));
    joined.unwrap_or_else(|| c.inst(Op::Int(i64::from(op == BinOp::And)), &[], TRUTH))
}

fn total(c: &mut Cursor<'_>, sum: &Sum) -> Value {
    let mut total = c.inst(Op::Int(sum.offset), &[], WIDE);
    for &(v, negative) in &sum.scalars {
        let v = c.inst(Op::Cast, &[v], WIDE);
        total = c.op(if negative { BinOp::Sub } else { BinOp::Add }, total, v);
    }
    for (cmp, of) in &sum.extremes {
        let [a, b] = [&of[0], &of[1]].map(|s| self::total(c, s));
        let first = c.compare(*cmp, a, b);
        let one = c.select(first, a, b);
        total = c.op(BinOp::Add, total, one);
    }
    total
}
