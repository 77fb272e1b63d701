//! Functions without an instruction become arithmetic, and other operations.
//!
//! ```text
//!  y = erf(x)        ─►     e = exp2(|x| (c0 + c1 |x| + .. + c4 |x|^4))       erfc(|x|), to 2^-20
//!                           y = select(x < 0, -(1 - e), 1 - e)
//!  a, b = split(x)   ─►     a = reshape slice(x, [.., 0]), b = reshape slice(x, [.., 1])
//!  y = slice(x, [0, 3]) : f32[16, 8]  ─►  y = gather(x, iota + 3, 1)          it lies across the parts that threads hold
//!  y = cast(c, f16), c truth  ─►  y = cast(select(c, full 1.0, 0.0), f16)       c = cast(x, bool)  ─►  c = x != 0
//!  print "t", n, x    ─►     print "t", n      print "t", x, iota 0, iota 1        what a thread holds, with its indices
//! ```
//!
//! The polynomial was fitted to `log2(erfc(a)) / a`, weighted by the error that it makes in `erf`, for the least greatest
//! error (Lawson's algorithm: Rice, The Approximation of Functions, volume 2, chapter 13). It falls without end, so
//! large arguments give 1, and NaN stays NaN. It takes one special function an element; a rational approximation takes
//! one too, and twice the multiplications.

use super::cursor::Cursor;
use super::persist::rename;
use crate::takes::takes;
use crate::tiles::{extents, with_elem};
use warplift_ir::tile::{BinOp, CmpOp, Dim, Inst, Kernel, Op, Shape, Type, UnOp, Value};
use warplift_ir::types::Elem;

/// `log2(erfc(a)) / a`, the highest power first. Absolute error of `erf`: 6e-7 in f32, at 0.76.
const LOG2_ERFC: [f64; 5] = [
    -0.002_944_114_152_342_081,
    0.029_589_897_021_651_268,
    -0.148_665_472_865_104_68,
    -0.918_509_423_732_757_6,
    -1.627_889_037_132_263_2,
];

/// Expands the functions of all blocks.
pub fn do_expand_functions(k: &mut Kernel) {
    Cursor::rewrite(k, |mut c, inst| match c.k.insts[inst].op {
        _ if !expands(c.k, inst) => c.keep(inst),
        Op::Split => split(&mut c, inst),
        Op::Slice(_) => slice(&mut c, inst),
        Op::Print(_) => print(&mut c, inst),
        Op::Cast => truth(&mut c, inst),
        _ => erf(&mut c, inst),
    });
}

fn expands(k: &Kernel, inst: Inst) -> bool {
    match k.insts[inst].op {
        Op::Split => takes(&Op::Split, k.ty(k.args(inst)[0]).elem()),
        Op::Slice(_) => {
            let gathered = takes(&Op::Gather(0), k.ty(k.result(inst)).elem());
            gathered && (0..).zip(extents(k, k.result(inst))).any(|(d, _)| is_across(k, inst, d))
        }
        Op::Unary(UnOp::Erf) => compiles(k, inst),
        Op::Cast => is_truth(k, inst),
        Op::Print(_) => k.args(inst).iter().any(|&v| matches!(k.ty(v), Type::Tile(..))),
        _ => false,
    }
}

/// Appends the two slices of a tile. The values of the text are then the results of their reshapes.
fn split(c: &mut Cursor<'_>, inst: Inst) {
    let x = c.k.args(inst)[0];
    for (n, old) in c.k.results(inst).to_vec().into_iter().enumerate() {
        let Type::Tile(elem, half) = c.k.ty(old) else { continue };
        let part = Shape::new(&half.dims().iter().copied().chain([Dim::new(1)]).collect::<Vec<_>>());
        let Some(part) = part else { continue };
        let offsets = half.dims().iter().map(|_| Dim::new(0)).chain([Dim::new(n as u32)]).collect();
        let part = c.inst(Op::Slice(offsets), &[x], Type::Tile(elem, part));
        let new = c.inst(Op::Reshape, &[part], c.k.ty(old));
        takes_place(c.k, old, new);
    }
}

/// Lets a value have the name and the users of another one.
fn takes_place(k: &mut Kernel, old: Value, new: Value) {
    k.names[new] = k.names[old].clone();
    rename(k, &[(old, new)]);
}

/// Whether a slice begins or ends between the parts of its extent along a dimension, inside what a thread may hold.
fn is_across(k: &Kernel, inst: Inst, d: usize) -> bool {
    let Op::Slice(from) = &k.insts[inst].op else { return false };
    let (part, whole) = (extents(k, k.result(inst))[d], extents(k, k.args(inst)[0])[d]);
    from[d].constant().is_some_and(|from| !from.is_multiple_of(part) || !whole.is_multiple_of(part))
}

/// Appends a slice whose elements are gathered along the dimensions in which it lies across parts.
fn slice(c: &mut Cursor<'_>, inst: Inst) {
    let Op::Slice(mut from) = c.k.insts[inst].op.clone() else { return };
    let (old, mut tile) = (c.k.result(inst), c.k.args(inst)[0]);
    let part = extents(c.k, old);
    for d in (0..part.len()).filter(|&d| is_across(c.k, inst, d)).collect::<Vec<_>>() {
        tile = gathered(c, tile, d, (from[d], part[d]));
        from[d] = Dim::new(0);
    }
    let new = c.inst(Op::Slice(from), &[tile], c.k.ty(old));
    takes_place(c.k, old, new);
}

/// Appends a gather of so many elements along a dimension, from one on.
fn gathered(c: &mut Cursor<'_>, tile: Value, d: usize, (from, part): (Dim, u32)) -> Value {
    let mut dims = extents(c.k, tile);
    dims[d] = part;
    let shape = Shape::of(&dims).expect("the rank of a tile that is there");
    let (elem, index) = (c.k.ty(tile).elem(), Type::Tile(Elem::I32, shape));
    let place = c.inst(Op::Iota(d as u8), &[], index);
    let first = c.index(Op::Dim(from), &[]);
    let index = c.op(BinOp::Add, place, first);
    c.inst(Op::Gather(d as u8), &[tile, index], Type::Tile(elem, shape))
}

/// Appends a print of the scalars, and one of each tile with the tiles of its indices.
fn print(c: &mut Cursor<'_>, inst: Inst) {
    let op = c.k.insts[inst].op.clone();
    let (tiles, scalars): (Vec<Value>, Vec<Value>) =
        c.k.args(inst).to_vec().into_iter().partition(|&v| matches!(c.k.ty(v), Type::Tile(..)));
    if !scalars.is_empty() {
        c.effect(op.clone(), &scalars);
    }
    for tile in tiles {
        let Type::Tile(elem, shape) = c.k.ty(tile) else { continue };
        let half = matches!(elem, Elem::F16 | Elem::Bf16);
        let mut args = vec![if half { c.cast(tile, Elem::F32) } else { tile }];
        let index = Type::Tile(Elem::I32, shape);
        args.extend((0..shape.rank()).map(|d| c.inst(Op::Iota(d as u8), &[], index)));
        c.effect(op.clone(), &args);
    }
}

/// Whether its element type has arithmetic in f32.
fn compiles(k: &Kernel, inst: Inst) -> bool {
    matches!(k.ty(k.result(inst)).elem(), Elem::F32 | Elem::F16 | Elem::Bf16)
}

/// Whether a tile of truth values becomes numbers, or one of numbers truth values.
fn is_truth(k: &Kernel, inst: Inst) -> bool {
    let [from, to] = [k.args(inst)[0], k.result(inst)].map(|v| k.ty(v));
    from.shape().is_some() && (from.elem() == Elem::Bool) != (to.elem() == Elem::Bool)
}

/// Appends a selection, and the cast of its numbers; or a comparison.
fn truth(c: &mut Cursor<'_>, inst: Inst) {
    let (x, given) = (c.k.args(inst)[0], c.k.ty(c.k.result(inst)));
    let number = |elem: Elem, n: i64| if elem.is_float() { Op::Float(n as f64) } else { Op::Int(n) };
    if given.elem() == Elem::Bool {
        let elem = c.k.ty(x).elem();
        let zero = c.inst(number(elem, 0), &[], Type::Scalar(elem));
        return finish(c, inst, Op::Compare(CmpOp::Ne), &[x, zero]);
    }
    let wide = if given.elem().is_float() { Elem::F32 } else { Elem::I32 };
    let ones = c.constant(number(wide, 1), with_elem(given, wide));
    let zero = c.inst(number(wide, 0), &[], Type::Scalar(wide));
    if given.elem() == wide {
        return finish(c, inst, Op::Select, &[x, ones, zero]);
    }
    let numbers = c.select(x, ones, zero);
    finish(c, inst, Op::Cast, &[numbers]);
}

/// Appends the arithmetic of an `erf`.
fn erf(c: &mut Cursor<'_>, inst: Inst) {
    let given = c.k.ty(c.k.result(inst)).elem();
    let x = c.cast(c.k.args(inst)[0], Elem::F32);
    let ty = c.k.ty(x);
    let magnitude = c.inst(Op::Unary(UnOp::Abs), &[x], ty);
    let power = polynomial(c, magnitude);
    let rest = c.inst(Op::Unary(UnOp::Exp2), &[power], ty);
    let one = c.float(Elem::F32, 1.0);
    let positive = c.op(BinOp::Sub, one, rest);
    let negative = c.inst(Op::Unary(UnOp::Neg), &[positive], ty);
    let zero = c.float(Elem::F32, 0.0);
    let below = c.compare(CmpOp::Lt, x, zero);
    if given == Elem::F32 {
        return finish(c, inst, Op::Select, &[below, negative, positive]);
    }
    let wide = c.select(below, negative, positive);
    finish(c, inst, Op::Cast, &[wide]);
}

/// The polynomial of `LOG2_ERFC` times the argument, by Horner's rule.
fn polynomial(c: &mut Cursor<'_>, a: Value) -> Value {
    let ty = c.k.ty(a);
    let mut sum = c.float(Elem::F32, LOG2_ERFC[0]);
    for &x in &LOG2_ERFC[1..] {
        let x = c.float(Elem::F32, x);
        sum = c.inst(Op::Fma, &[sum, a, x], ty);
    }
    c.op(BinOp::Mul, sum, a)
}

/// The instruction itself becomes the last step, so names and attributes stay.
fn finish(c: &mut Cursor<'_>, inst: Inst, op: Op, args: &[Value]) {
    c.k.insts[inst].op = op;
    c.k.set_args(inst, args);
    c.keep(inst);
}
