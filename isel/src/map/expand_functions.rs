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

use super::persist::rename;
use crate::takes::takes;
use crate::tiles::{extents, with_elem};
use warplift_ir::tile::{BinOp, Block, CmpOp, Dim, Inst, Kernel, Op, Shape, Type, UnOp, Value, ValueList};
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
    for block in k.blocks.keys().collect::<Vec<_>>() {
        if !k.blocks[block].insts.iter().any(|&i| expands(k, i)) {
            continue;
        }
        for inst in std::mem::take(&mut k.blocks[block].insts) {
            match k.insts[inst].op {
                _ if !expands(k, inst) => k.blocks[block].insts.push(inst),
                Op::Split => split(k, block, inst),
                Op::Slice(_) => slice(k, block, inst),
                Op::Print(_) => print(k, block, inst),
                Op::Cast => Steps { k, block, inst }.expand_truth(),
                _ => Steps { k, block, inst }.expand_erf(),
            }
        }
    }
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
fn split(k: &mut Kernel, block: Block, inst: Inst) {
    let (x, loc) = (k.args(inst)[0], k.insts[inst].loc);
    for (n, old) in k.results(inst).to_vec().into_iter().enumerate() {
        let Some(half) = k.ty(old).shape() else { continue };
        let part = Shape::new(&half.dims().iter().copied().chain([Dim::new(1)]).collect::<Vec<_>>());
        let Some(part) = part else { continue };
        let offsets = half.dims().iter().map(|_| Dim::new(0)).chain([Dim::new(n as u32)]).collect();
        let elem = k.ty(old).elem();
        let part = k.append_inst(block, Op::Slice(offsets), &[x], &[Type::Tile(elem, part)], &[], loc);
        let part = k.result(part);
        let made = k.append_inst(block, Op::Reshape, &[part], &[k.ty(old)], &[], loc);
        let new = k.result(made);
        k.names[new] = k.names[old].clone();
        rename(k, &[(old, new)]);
    }
}

/// Whether a slice begins or ends between the parts of its extent along a dimension, inside what a thread may hold.
fn is_across(k: &Kernel, inst: Inst, d: usize) -> bool {
    let Op::Slice(from) = &k.insts[inst].op else { return false };
    let (part, whole) = (extents(k, k.result(inst))[d], extents(k, k.args(inst)[0])[d]);
    from[d].constant().is_some_and(|from| !from.is_multiple_of(part) || !whole.is_multiple_of(part))
}

/// Appends a slice whose elements are gathered along the dimensions in which it lies across parts.
fn slice(k: &mut Kernel, block: Block, inst: Inst) {
    let Op::Slice(mut from) = k.insts[inst].op.clone() else { return };
    let (old, mut tile) = (k.result(inst), k.args(inst)[0]);
    let part = extents(k, old);
    for d in (0..part.len()).filter(|&d| is_across(k, inst, d)).collect::<Vec<_>>() {
        tile = gathered(k, (block, inst), tile, d, (from[d], part[d]));
        from[d] = Dim::new(0);
    }
    let ty = k.ty(old);
    let new = append(k, (block, inst), Op::Slice(from), &[tile], ty);
    k.names[new] = k.names[old].clone();
    rename(k, &[(old, new)]);
}

/// Appends a gather of so many elements along a dimension, from one on.
fn gathered(k: &mut Kernel, at: (Block, Inst), tile: Value, d: usize, (from, part): (Dim, u32)) -> Value {
    let mut dims: Vec<Dim> = extents(k, tile).into_iter().map(Dim::new).collect();
    dims[d] = Dim::new(part);
    let shape = Shape::new(&dims).expect("the rank of a tile that is there");
    let (elem, index) = (k.ty(tile).elem(), Type::Tile(Elem::I32, shape));
    let place = append(k, at, Op::Iota(d as u8), &[], index);
    let first = append(k, at, Op::Dim(from), &[], Type::Scalar(Elem::I32));
    let first = append(k, at, Op::Full, &[first], index);
    let index = append(k, at, Op::Binary(BinOp::Add), &[place, first], index);
    append(k, at, Op::Gather(d as u8), &[tile, index], Type::Tile(elem, shape))
}

/// Appends an instruction at the place of another one.
fn append(k: &mut Kernel, (block, inst): (Block, Inst), op: Op, args: &[Value], ty: Type) -> Value {
    let made = k.append_inst(block, op, args, &[ty], &[], k.insts[inst].loc);
    k.result(made)
}

/// Appends a print of the scalars, and one of each tile with the tiles of its indices.
fn print(k: &mut Kernel, block: Block, inst: Inst) {
    let Op::Print(text) = k.insts[inst].op.clone() else { return };
    let loc = k.insts[inst].loc;
    let (tiles, scalars): (Vec<Value>, Vec<Value>) =
        k.args(inst).to_vec().into_iter().partition(|&v| matches!(k.ty(v), Type::Tile(..)));
    if !scalars.is_empty() {
        k.append_inst(block, Op::Print(text.clone()), &scalars, &[], &[], loc);
    }
    for tile in tiles {
        let Type::Tile(elem, shape) = k.ty(tile) else { continue };
        let mut args = vec![tile];
        if matches!(elem, Elem::F16 | Elem::Bf16) {
            let wide = Type::Tile(Elem::F32, shape);
            let cast = k.append_inst(block, Op::Cast, &[tile], &[wide], &[], loc);
            args[0] = k.result(cast);
        }
        for d in 0..shape.rank() {
            let index = Type::Tile(Elem::I32, shape);
            let iota = k.append_inst(block, Op::Iota(d as u8), &[], &[index], &[], loc);
            args.push(k.result(iota));
        }
        k.append_inst(block, Op::Print(text.clone()), &args, &[], &[], loc);
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

/// An instruction that becomes several, at the end of a block.
struct Steps<'k> {
    k: &'k mut Kernel,
    block: Block,
    inst: Inst,
}

impl Steps<'_> {
    /// Appends a selection, and the cast of its numbers; or a comparison.
    fn expand_truth(&mut self) {
        let (x, given) = (self.k.args(self.inst)[0], self.k.ty(self.k.result(self.inst)));
        if given.elem() == Elem::Bool {
            let zero = match self.k.ty(x).elem() {
                elem if elem.is_float() => self.push(Op::Float(0.0), &[], Type::Scalar(elem)),
                elem => self.push(Op::Int(0), &[], Type::Scalar(elem)),
            };
            return self.finish(Op::Compare(CmpOp::Ne), &[x, zero]);
        }
        let wide = if given.elem().is_float() { Elem::F32 } else { Elem::I32 };
        let number = |n: f64| if wide == Elem::F32 { Op::Float(n) } else { Op::Int(n as i64) };
        let [one, zero] = [1.0, 0.0].map(|n| self.push(number(n), &[], Type::Scalar(wide)));
        let ones = self.push(Op::Full, &[one], with_elem(given, wide));
        if given.elem() == wide {
            return self.finish(Op::Select, &[x, ones, zero]);
        }
        let numbers = self.push(Op::Select, &[x, ones, zero], with_elem(given, wide));
        self.finish(Op::Cast, &[numbers]);
    }

    /// Appends the arithmetic. The instruction itself becomes its last step, so names and attributes stay.
    fn expand_erf(&mut self) {
        let arg = self.k.args(self.inst)[0];
        let given = self.k.ty(self.k.result(self.inst));
        let ty = with_elem(given, Elem::F32);
        let x = if given == ty { arg } else { self.push(Op::Cast, &[arg], ty) };
        let magnitude = self.push(Op::Unary(UnOp::Abs), &[x], ty);
        let power = self.polynomial(magnitude, ty);
        let rest = self.push(Op::Unary(UnOp::Exp2), &[power], ty);
        let one = self.number(1.0);
        let positive = self.push(Op::Binary(BinOp::Sub), &[one, rest], ty);
        let negative = self.push(Op::Unary(UnOp::Neg), &[positive], ty);
        let zero = self.number(0.0);
        let below = self.push(Op::Compare(CmpOp::Lt), &[x, zero], with_elem(given, Elem::Bool));
        if given == ty {
            self.finish(Op::Select, &[below, negative, positive]);
        } else {
            let wide = self.push(Op::Select, &[below, negative, positive], ty);
            self.finish(Op::Cast, &[wide]);
        }
    }

    /// The polynomial of `LOG2_ERFC` times the argument, by Horner's rule.
    fn polynomial(&mut self, a: Value, ty: Type) -> Value {
        let mut sum = self.number(LOG2_ERFC[0]);
        for &c in &LOG2_ERFC[1..] {
            let c = self.number(c);
            sum = self.push(Op::Fma, &[sum, a, c], ty);
        }
        self.push(Op::Binary(BinOp::Mul), &[sum, a], ty)
    }

    fn number(&mut self, x: f64) -> Value {
        self.push(Op::Float(x), &[], Type::Scalar(Elem::F32))
    }

    fn push(&mut self, op: Op, args: &[Value], ty: Type) -> Value {
        let loc = self.k.insts[self.inst].loc;
        let made = self.k.append_inst(self.block, op, args, &[ty], &[], loc);
        self.k.result(made)
    }

    fn finish(&mut self, op: Op, args: &[Value]) {
        self.k.insts[self.inst].op = op;
        self.k.insts[self.inst].args = ValueList::from_slice(args, &mut self.k.pool);
        self.k.blocks[self.block].insts.push(self.inst);
    }
}
