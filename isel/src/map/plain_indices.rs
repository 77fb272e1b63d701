//! Tiles of indices that count up from a scalar: the access names its first element, as one without tiles of indices does.
//!
//! ```text
//!  at = (iota 0 : i32[B]) + i*B
//!  load x[at] where at < n       ─►     load x[i*B] where at < n     vectors and tensor copies may bring it, and
//!                                                                    each thread stays with its own elements
//! ```
//!
//! Many texts write all their accesses so. A tile of indices qualifies along a dimension if it is the place along it plus what is
//! the same for all elements. Sums of 32 bits, with a sign or without, wrap around in both forms alike where a view
//! has a known end: both lie outside of it. Wide ones are compared before they are narrowed.

use super::cursor::Cursor;
use super::elements::operand_dims;
use super::implied_masks::unmasked;
use super::narrow_indices::narrowed;
use super::row_runs::is_reached_alone;
use crate::boxes::only_products;
use crate::tiles::accessed;
use crate::window::Window;
use warplift_ir::tile::{BinOp, Inst, Kernel, Op, Type, Value};
use warplift_ir::types::Elem;

/// Indices without a sign.
const U32: Elem = Elem::Uint(32);

/// Operations that an index is taken apart into at most: values form a graph, and it is walked as a tree.
const FUEL: u32 = 256;

/// Puts scalars in the place of tiles of indices that count up from them. Tunables may be open.
pub fn plain_indices(k: &mut Kernel) {
    Cursor::rewrite(k, |mut c, inst| {
        rewrite(&mut c, inst);
        c.keep(inst);
    });
}

fn rewrite(c: &mut Cursor<'_>, inst: Inst) {
    let op = &c.k.insts[inst].op;
    if !matches!(op, Op::LoadGather { .. } | Op::StoreScatter { .. } | Op::AtomicScatter { .. }) {
        return;
    }
    // An operand of products would come by tensor copies, but no producer knows when.
    let operand = op.is_read() && c.k.results(inst).iter().any(|&r| only_products(c.k, r));
    if operand && !is_reached_alone(c.k, c.block) {
        return;
    }
    let mut args = c.k.args(inst).to_vec();
    let indices = op.indices(args.len());
    let mut changed = false;
    for (d, arg) in args[indices].iter_mut().enumerate() {
        if counts_up(c.k, inst, *arg, d) {
            let index = widest(c.k, *arg);
            let first = first(c, index).unwrap_or_else(|| c.int(0));
            *arg = match c.k.ty(first).elem() {
                Elem::I32 | U32 => c.cast(first, Elem::I32),
                _ => narrowed(c, first),
            };
            changed = true;
        }
    }
    if !changed {
        return;
    }
    if !c.k.insts[inst].op.is_masked() {
        c.k.insts[inst].op = unmasked(c.k, inst, &args);
    }
    c.k.set_args(inst, &args);
}

/// An index as it was before it was narrowed to 32 bits.
fn widest(k: &Kernel, index: Value) -> Value {
    let wide = k.def(index).filter(|&d| matches!(k.insts[d].op, Op::ToIndex));
    wide.map_or(index, |d| k.args(d)[0])
}

/// Whether an index is a tile that counts up along this dimension of the accessed tile.
fn counts_up(k: &Kernel, inst: Inst, index: Value, d: usize) -> bool {
    let index = widest(k, index);
    let Type::Tile(elem @ (Elem::I32 | Elem::I64 | U32), shape) = k.ty(index) else { return false };
    let dims: Vec<usize> = (0..shape.rank()).collect();
    let one = k.ty(accessed(k, inst)).shape().is_some_and(|s| s.dims()[d].is_one());
    // Without an extent nothing is compared, so a wide index has no narrow one, nor one from 2^31 on a signed one.
    let open = || {
        let window = Window::of(k, k.args(inst)[0]);
        window.is_none_or(|w| k.is_unbounded(w.extent(k, w.kept[d])))
    };
    let steps = steps(k, index, &dims, d, &mut { FUEL });
    (steps == Some(1) || one && steps == Some(0)) && (elem == Elem::I32 || !open())
}

/// How many places along a dimension an element is a sum of, beside what all elements have; `None` if it is no such sum.
/// `dims`: the dimensions of the accessed tile that its own are.
fn steps(k: &Kernel, v: Value, dims: &[usize], d: usize, fuel: &mut u32) -> Option<u8> {
    *fuel = fuel.checked_sub(1)?;
    if matches!(k.ty(v), Type::Scalar(_)) {
        return Some(0);
    }
    let def = k.def(v)?;
    let args = k.args(def);
    match k.insts[def].op {
        Op::Full => Some(0),
        Op::Iota(own) if k.ty(v).shape()?.dims()[usize::from(own)].is_one() => Some(0),
        Op::Iota(own) => (dims[usize::from(own)] == d).then_some(1),
        Op::Cast => steps(k, args[0], dims, d, fuel).filter(|&n| is_exact(k, v, args[0], n)),
        Op::Binary(op @ (BinOp::Add | BinOp::Sub | BinOp::Mul | BinOp::Min | BinOp::Max)) => {
            let (x, y) = (steps(k, args[0], dims, d, fuel)?, steps(k, args[1], dims, d, fuel)?);
            match op {
                BinOp::Add => Some(x + y).filter(|&n| n <= 1),
                BinOp::Sub => (y == 0).then_some(x),
                _ => (x + y == 0).then_some(0),
            }
        }
        _ => steps(k, args[0], &operand_dims(k, def, dims)?, d, fuel),
    }
}

/// Whether a tile of so many places is the same sum in another type: a narrow sum that is widened would wrap around.
fn is_exact(k: &Kernel, to: Value, v: Value, places: u8) -> bool {
    let [to, from] = [to, v].map(|v| k.ty(v).elem());
    let words = [to, from].into_iter().all(|e| matches!(e, Elem::I32 | U32));
    words || matches!(from, Elem::I32 | U32) && (places == 0 || is_place(k, v))
}

fn is_place(k: &Kernel, v: Value) -> bool {
    k.def(v).is_some_and(|def| match k.insts[def].op {
        Op::Iota(_) => true,
        Op::Broadcast | Op::ExpandDims(_) | Op::Reshape => is_place(k, k.args(def)[0]),
        _ => false,
    })
}

/// The first element of a tile that counts up; `None` for 0.
fn first(c: &mut Cursor<'_>, v: Value) -> Option<Value> {
    if matches!(c.k.ty(v), Type::Scalar(_)) {
        return Some(v);
    }
    let def = c.k.def(v)?;
    let args = c.k.args(def).to_vec();
    match c.k.insts[def].op {
        Op::Iota(_) => None,
        Op::Cast => first(c, args[0]).map(|x| c.cast(x, c.k.ty(v).elem())),
        Op::Binary(op) => match (op, first(c, args[0]), first(c, args[1])) {
            (BinOp::Add, None, x) | (BinOp::Add | BinOp::Sub, x, None) => x,
            (_, x, y) => {
                let elem = c.k.ty(v).elem();
                let [x, y] = [x, y].map(|x| x.unwrap_or_else(|| c.constant(Op::Int(0), Type::Scalar(elem))));
                Some(c.op(op, x, y))
            }
        },
        _ => first(c, args[0]),
    }
}
