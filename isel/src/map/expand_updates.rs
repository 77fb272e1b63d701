//! Updates that no instruction makes become loops of compare-and-swap: greatest and least halves, and exchanges of them.
//!
//! ```text
//!  old = atomic_max v[at], x : f16[B]   ─►   old = while carry seen = 0, open = true {
//!                                              new = select(x > seen, x, seen)
//!                                              was = atomic_cas v[at], seen, new where open
//!                                              again = open & (was != seen)               bit by bit
//!                                              yield any(again), select(open, was, seen), again
//!                                            }
//! ```
//!
//! Elements take part until what they swapped was what they had seen. A block goes on until none is open: each turn in which one
//! fails, another has succeeded. Outside of the view a swap finds 0, which is what was expected.

use super::cursor::Cursor;
use super::persist::rename;
use crate::rows::is_swapped;
use crate::tiles::{extents, with_elem};
use warplift_ir::tile::{AtomicOp, BinOp, CmpOp, Dim, Inst, Kernel, Op, ReduceOp, Shape, Type, Value};
use warplift_ir::types::Elem;

/// Elements of the row that stands for a single one.
const ROW: u32 = 64;

/// Rewrites all updates without instructions.
pub fn do_expand_updates(k: &mut Kernel) {
    Cursor::rewrite(k, |mut c, inst| match update_of(&c, inst) {
        Some(update) => expand(&mut c, inst, update),
        None => c.keep(inst),
    });
}

/// An update of 16-bit floats: its operands without what is written and the mask, and these.
struct Update {
    op: AtomicOp,
    place: Vec<Value>,
    x: Value,
    mask: Option<Value>,
}

/// An update that has no instruction.
fn update_of(c: &Cursor<'_>, inst: Inst) -> Option<Update> {
    let (op, args) = (&c.k.insts[inst].op, c.k.args(inst));
    let written = op.written_operand(args.len())?;
    let (kind, x) = (op.atomic()?, args[written]);
    is_swapped(kind, c.k.ty(x).elem()).then(|| Update {
        op: kind,
        place: args[..written].to_vec(),
        x,
        mask: op.is_masked().then(|| args[written + 1]),
    })
}

fn expand(c: &mut Cursor<'_>, inst: Inst, update: Update) {
    let (one, own) = (extents(c.k, update.x).last() == Some(&1), c.k.ty(update.x));
    let update = if one { widened(c, &update) } else { update };
    let ty = c.k.ty(update.x);
    let sync = c.k.insts[inst].op.sync();
    let seen = c.constant(Op::Float(0.0), ty);
    let truth = with_elem(ty, Elem::Bool);
    let open = update.mask.unwrap_or_else(|| c.constant(Op::Int(1), truth));
    let body = c.k.blocks.push(Default::default());
    let types = [ty, truth];
    let [before, still] = types.map(|ty| c.k.append_param(body, ty));
    let mut inside = Cursor { k: c.k, block: body, loc: c.loc };
    let next = changed(&mut inside, &update, before);
    let args = [&update.place[..], &[before, next, still]].concat();
    let swap = Op::AtomicScatter { op: AtomicOp::CompareAndSwap, old: true, masked: true, sync };
    let was = inside.inst(swap, &args, ty);
    let differs = unequal(&mut inside, was, before);
    let again = inside.op(BinOp::And, still, differs);
    let (found, goes_on) = (inside.select(still, was, before), any(&mut inside, again));
    inside.effect(Op::Yield, &[goes_on, found, again]);
    let made = c.k.append_inst(c.block, Op::While, &[seen, open], &types, &[body], c.loc);
    if let &[old] = c.k.results(inst) {
        let mut found = c.k.results(made)[0];
        if one {
            let first = extents(c.k, found).iter().map(|_| Dim::new(0)).collect();
            found = c.inst(Op::Slice(first), &[found], own);
        }
        rename(c.k, &[(old, found)]);
    }
}

/// The update of a column, or of one element, as one of rows of which the first element alone takes part: both halves of a word are
/// then one thread's.
fn widened(c: &mut Cursor<'_>, update: &Update) -> Update {
    let (elem, mut dims) = (c.k.ty(update.x).elem(), extents(c.k, update.x));
    let last = dims.len() - 1;
    let rows: u32 = dims.iter().product();
    dims[last] = (ROW / rows).next_power_of_two().max(2);
    let of = |elem| Type::Tile(elem, Shape::of(&dims).expect("the rank of a tile that is there"));
    let grown = |c: &mut Cursor<'_>, v: Value| match c.k.ty(v) {
        Type::Tile(elem, _) => c.broadcast(v, of(elem)),
        _ => v,
    };
    let place = update.place.iter().map(|&v| grown(c, v)).collect();
    let (x, mask) = (c.broadcast(update.x, of(elem)), update.mask.map(|m| grown(c, m)));
    let along = c.inst(Op::Iota(last as u8), &[], of(Elem::I32));
    let zero = c.constant(Op::Int(0), of(Elem::I32));
    let first = c.compare(CmpOp::Eq, along, zero);
    let mask = mask.map_or(first, |m| c.op(BinOp::And, m, first));
    Update { op: update.op, place, x, mask: Some(mask) }
}

/// What stands in memory after the update.
fn changed(c: &mut Cursor<'_>, update: &Update, old: Value) -> Value {
    let cmp = match update.op {
        AtomicOp::Max => CmpOp::Gt,
        AtomicOp::Min => CmpOp::Lt,
        _ => return update.x,
    };
    let [x, y] = [update.x, old].map(|v| order(c, v));
    let better = c.compare(cmp, x, y);
    let number = c.compare(CmpOp::Eq, update.x, update.x);
    let takes = c.op(BinOp::And, better, number);
    c.select(takes, update.x, old)
}

/// The bits of a half, twice in a word: in the order of those of one.
fn bits(c: &mut Cursor<'_>, v: Value) -> Value {
    let (elem, dims) = (c.k.ty(v).elem(), extents(c.k, v));
    let of = |elem, last| Shape::of(&[&dims[..], &[last]].concat()).map(|shape| Type::Tile(elem, shape));
    let flat = |elem, last| {
        let all = dims.iter().product();
        Shape::of(&[all, last]).map(|shape| Type::Tile(elem, shape)).expect("two dimensions")
    };
    let both = of(elem, 2).unwrap_or_else(|| flat(elem, 2));
    let twice = c.inst(Op::Join, &[v, v], both);
    let words = of(Elem::I32, 1).unwrap_or_else(|| flat(Elem::I32, 1));
    let words = c.inst(Op::ViewAs(Elem::I32), &[twice], words);
    c.inst(Op::Reshape, &[words], with_elem(c.k.ty(v), Elem::I32))
}

/// Integers in the order of floats: the bits of negative ones but for the sign are turned.
fn order(c: &mut Cursor<'_>, v: Value) -> Value {
    let bits = bits(c, v);
    let ty = c.k.ty(bits);
    let [sign, most] = [31, i64::from(i32::MAX)].map(|n| c.constant(Op::Int(n), ty));
    let negative = c.op(BinOp::Shr, bits, sign);
    let turned = c.op(BinOp::And, negative, most);
    c.op(BinOp::Xor, bits, turned)
}

/// Whether two halves differ in a bit.
fn unequal(c: &mut Cursor<'_>, a: Value, b: Value) -> Value {
    let [a, b] = [a, b].map(|v| bits(c, v));
    c.compare(CmpOp::Ne, a, b)
}

/// Whether any element is true.
fn any(c: &mut Cursor<'_>, tile: Value) -> Value {
    let all = extents(c.k, tile).iter().product();
    let flat = Shape::of(&[all]).map(|shape| Type::Tile(Elem::Bool, shape)).expect("one dimension");
    let flat = if c.k.ty(tile) == flat { tile } else { c.inst(Op::Reshape, &[tile], flat) };
    c.inst(Op::Reduce(ReduceOp::Or, 0), &[flat], Type::Scalar(Elem::Bool))
}
