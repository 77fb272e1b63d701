//! One operation on values in sight.

use super::super::range::Range;
use super::{Generator, Result, is_narrow, shape};
use warplift_ir::tile::{BinOp, CmpOp, Dim, Op, ReduceOp, Shape, Type, UnOp, Value};
use warplift_ir::types::Elem;

/// Kinds of operations, with weights for tame and wild kernels.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Unary,
    Function,
    Binary,
    Division,
    Select,
    Cast,
    Reduce,
    Spread,
    Slice,
    Iota,
    Trans,
    Rearrange,
    Scalar,
    Scan,
    Reshape,
    Join,
    Split,
    Gather,
    ViewAs,
    Shared,
    Long,
}

const TAME: &[(usize, Kind)] = &[
    (6, Kind::Binary),
    (3, Kind::Unary),
    (2, Kind::Function),
    (1, Kind::Division),
    (3, Kind::Select),
    (4, Kind::Cast),
    (2, Kind::Reduce),
    (3, Kind::Spread),
    (1, Kind::Slice),
    (1, Kind::Iota),
    (1, Kind::Rearrange),
    (1, Kind::Join),
    (1, Kind::Scalar),
    (1, Kind::Shared),
    (1, Kind::Long),
];

const WILD: &[(usize, Kind)] = &[
    (4, Kind::Binary),
    (2, Kind::Cast),
    (2, Kind::Reduce),
    (2, Kind::Spread),
    (1, Kind::Slice),
    (2, Kind::Trans),
    (1, Kind::Scan),
    (1, Kind::Reshape),
    (1, Kind::Join),
    (1, Kind::Split),
    (1, Kind::Gather),
    (1, Kind::ViewAs),
    (1, Kind::Shared),
];

/// What is computed of 64-bit integers and a constant that is not 0.
const LONG_OPS: [BinOp; 9] = [
    BinOp::Add,
    BinOp::Sub,
    BinOp::Mul,
    BinOp::MulHi,
    BinOp::Div,
    BinOp::Rem,
    BinOp::Xor,
    BinOp::Min,
    BinOp::Max,
];
/// Prefixes of 64-bit integers.
const ALONG: [ReduceOp; 5] = [ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Min, ReduceOp::Max, ReduceOp::Xor];
const COMPARISONS: [CmpOp; 6] = [CmpOp::Lt, CmpOp::Le, CmpOp::Gt, CmpOp::Ge, CmpOp::Eq, CmpOp::Ne];

impl Generator<'_> {
    /// Makes one operation, or none if none fits.
    pub(super) fn operation(&mut self) -> Result<()> {
        let kind = match self.wild && self.choices.chance(1, 3) {
            true => self.choices.weighted(WILD),
            false => self.choices.weighted(TAME),
        };
        let Some(x) = self.pick_tile() else { return Ok(()) };
        match kind {
            Kind::Unary => self.unary(x),
            Kind::Function => self.function(x)?,
            Kind::Binary => self.binary(x)?,
            Kind::Division => self.division(x)?,
            Kind::Select => self.select(x)?,
            Kind::Cast => self.cast(x),
            Kind::Reduce => self.reduce(x),
            Kind::Spread => self.spread(x),
            Kind::Slice => self.slice(x),
            Kind::Iota => self.iota(x),
            Kind::Scalar => self.scalar()?,
            Kind::Shared => self.through_shared(x)?,
            Kind::Long => self.long(x)?,
            other => self.moved(other, x),
        }
        Ok(())
    }

    fn unary(&mut self, x: Value) {
        let op = match self.ty(x).elem() {
            Elem::Bool => UnOp::Not,
            Elem::Uint(_) if !self.wild => UnOp::Not,
            e if e.is_int() => self.choices.of(&[UnOp::Neg, UnOp::Abs, UnOp::Not]),
            _ => self.choices.of(&[UnOp::Neg, UnOp::Abs]),
        };
        self.apply(Op::Unary(op), &[x], None);
    }

    /// A function of floats, where it is defined: of `|x| + 1`, or of `x` where everything is in its domain.
    pub(super) fn function(&mut self, x: Value) -> Result<()> {
        let elem = self.ty(x).elem();
        let direct = elem == Elem::F32 || elem.is_float() && self.wild;
        let Some(x) = (if direct { Some(x) } else { self.widened(x) }) else { return Ok(()) };
        let x = self.near_zero(x)?;
        let everywhere = [UnOp::Exp, UnOp::Exp2, UnOp::Tanh, UnOp::Erf, UnOp::Sin, UnOp::Cos];
        let positive = [UnOp::Sqrt, UnOp::Log, UnOp::Log2, UnOp::Rsqrt, UnOp::Rcp];
        if self.choices.chance(1, 2) {
            let op = self.choices.of(&everywhere);
            self.apply(Op::Unary(op), &[x], None);
            return Ok(());
        }
        let op = self.choices.of(&positive);
        let Some(y) = self.positive(x)? else { return Ok(()) };
        self.apply(Op::Unary(op), &[y], None);
        Ok(())
    }

    fn widened(&mut self, x: Value) -> Option<Value> {
        let ty = self.ty(x);
        let shape = ty.shape().filter(|_| ty.elem() != Elem::Bool)?;
        self.apply(Op::Cast, &[x], Some(Type::Tile(Elem::F32, shape)))
    }

    /// `x`, in f32 times a power of two so small that functions of it are neither large nor uncertain.
    fn near_zero(&mut self, x: Value) -> Result<Value> {
        const NEAR: f64 = 4.0;
        let (elem, most) = (self.ty(x).elem(), self.range(x).magnitude());
        if elem != Elem::F32 || most <= NEAR {
            return Ok(x);
        }
        let factor = (NEAR / most).log2().floor().exp2();
        let scale = self.b.float(factor, elem)?;
        self.known.insert(scale, Range { low: factor, high: factor, error: 0.0, whole: false });
        Ok(self.apply(Op::Binary(BinOp::Mul), &[x, scale], None).unwrap_or(x))
    }

    /// `|x| + 1`.
    fn positive(&mut self, x: Value) -> Result<Option<Value>> {
        let elem = self.ty(x).elem();
        let one = self.number(1, elem)?;
        let Some(y) = self.apply(Op::Unary(UnOp::Abs), &[x], None) else { return Ok(None) };
        Ok(self.apply(Op::Binary(BinOp::Add), &[y, one], None))
    }

    /// A second operand for `x`: a tile of its shape and type, made so if need be, or a scalar.
    pub(super) fn partner(&mut self, x: Value) -> Result<Value> {
        let ty = self.ty(x);
        let elem = ty.elem();
        let same = |g: &Self, v: Value| match (g.ty(v), ty) {
            (Type::Tile(e, s), Type::Tile(_, t)) => e == elem && s.same(&t),
            (a, b) => a == b,
        };
        let near = |g: &Self, v: Value| match (g.ty(v).shape(), ty.shape()) {
            (Some(s), Some(t)) => s.same(&t) || s.common(&t).is_some_and(|c| c.same(&t)),
            _ => false,
        };
        let found = match self.choices.below(6) {
            0 | 1 => self.pick(same),
            2 | 3 => self.pick(near).and_then(|v| self.converted(v, ty)),
            4 => self.pick(|g, v| g.ty(v) == Type::Scalar(elem)),
            _ => None,
        };
        match found {
            Some(v) => Ok(v),
            None => self.constant(elem),
        }
    }

    /// `v` as a tile of another type whose shape it grows to.
    pub(super) fn converted(&mut self, v: Value, ty: Type) -> Option<Value> {
        let shape = ty.shape()?;
        let mut v = v;
        if self.ty(v).elem() != ty.elem() {
            let own = Type::Tile(ty.elem(), self.ty(v).shape()?);
            v = self.apply(Op::Cast, &[v], Some(own))?;
        }
        match self.ty(v).shape()?.same(&shape) {
            true => Some(v),
            false => self.apply(Op::Broadcast, &[v], Some(ty)),
        }
    }

    fn binary(&mut self, x: Value) -> Result<()> {
        let y = self.partner(x)?;
        let op = match self.ty(x).elem() {
            Elem::Bool => self.choices.of(&[BinOp::And, BinOp::Or, BinOp::Xor]),
            e if e.is_int() => self.choices.of(&[
                BinOp::Add,
                BinOp::Sub,
                BinOp::Mul,
                BinOp::MulHi,
                BinOp::Min,
                BinOp::Max,
                BinOp::And,
                BinOp::Or,
                BinOp::Xor,
            ]),
            _ => self.choices.of(&[BinOp::Add, BinOp::Mul, BinOp::Sub, BinOp::Max, BinOp::Min]),
        };
        let args = if self.choices.chance(1, 3) { [y, x] } else { [x, y] };
        self.apply(Op::Binary(op), &args, None);
        Ok(())
    }

    /// Arithmetic of 64 bits on integers of 32, and 32 of its bits. Nothing else sees what lies between.
    fn long(&mut self, x: Value) -> Result<()> {
        let Type::Tile(elem @ (Elem::Int(32) | Elem::Uint(32)), shape) = self.ty(x) else { return Ok(()) };
        if self.range(x).error > 0.0 {
            return Ok(());
        }
        let long = self.choices.of(&[Elem::I64, Elem::Uint(64)]);
        let cast = self.b.inst(Op::Cast, &[x], Some(Type::Tile(long, shape)))?;
        let mut v = self.b.results(cast)[0];
        v = self.long_steps(v)?;
        if self.choices.chance(1, 4) {
            let op = self.choices.of(&ALONG);
            let d = self.choices.below(shape.rank()) as u8;
            let scan = self.b.inst(Op::Scan(op, d), &[v], None)?;
            v = self.b.results(scan)[0];
        }
        let by = self.choices.of(&[0, 7, 31, 32, 40]);
        let by = self.b.int(by, long)?;
        let v = self.b.binary(BinOp::Shr, v, by)?;
        let cast = self.b.inst(Op::Cast, &[v], Some(Type::Tile(elem, shape)))?;
        let bits = self.b.results(cast)[0];
        self.keep(bits, Range::whole(f64::from(i32::MIN), f64::from(u32::MAX)));
        Ok(())
    }

    /// Arithmetic of 64 bits on a tile or a scalar.
    pub(super) fn long_steps(&mut self, mut v: Value) -> Result<Value> {
        let long = self.ty(v).elem();
        for _ in 0..1 + self.choices.below(3) {
            let by = self.choices.of(&[3, 0x1_0000_0001, 5_000_000_019, i64::MAX, i64::MIN + 1]);
            let by = self.b.int(by, long)?;
            let op = self.choices.of(&LONG_OPS);
            v = self.b.binary(op, v, by)?;
        }
        Ok(v)
    }

    /// Quotients, remainders and shifts by what they are defined for.
    fn division(&mut self, x: Value) -> Result<()> {
        let elem = self.ty(x).elem();
        if elem == Elem::Bool || (elem.bits() != 32 && !self.wild) {
            return Ok(());
        }
        if elem.is_int() && self.choices.chance(1, 2) {
            let by = self.choices.of(&[1, 3, 4, 31, 32, 40]);
            let by = self.b.int(if elem.bits() > 8 { by } else { 1 }, elem)?;
            let op = self.choices.of(&[BinOp::Shl, BinOp::Shr]);
            self.apply(Op::Binary(op), &[x, by], None);
            return Ok(());
        }
        let by = match self.choices.chance(1, 2) && elem.is_float() {
            true => {
                let y = self.partner(x)?;
                self.positive(y)?
            }
            false => {
                let v = self.choices.of(&[3i64, 1, 2, 7]);
                Some(self.number(if is_narrow(elem) { 1 } else { v }, elem)?)
            }
        };
        let op = if elem.is_int() { self.choices.of(&[BinOp::Div, BinOp::Rem]) } else { BinOp::Div };
        if let Some(by) = by {
            self.apply(Op::Binary(op), &[x, by], None);
        }
        Ok(())
    }

    fn select(&mut self, x: Value) -> Result<()> {
        if !self.wild && self.ty(x).elem().bits() != 32 {
            return Ok(());
        }
        let y = self.partner(x)?;
        let op = self.choices.of(&COMPARISONS);
        let Some(c) = self.apply(Op::Compare(op), &[x, y], None) else { return Ok(()) };
        let of = self.ty(x).shape();
        let z = self.pick(|g, v| {
            g.ty(v).elem() != Elem::Bool && g.ty(v).shape().zip(of).is_some_and(|(s, t)| s.same(&t))
        });
        let z = z.unwrap_or(x);
        let w = self.partner(z)?;
        self.apply(Op::Select, &[c, z, w], None);
        Ok(())
    }

    fn cast(&mut self, x: Value) {
        let (from, mut elem) = (self.ty(x).elem(), self.elem());
        let Some(shape) = self.ty(x).shape() else { return };
        let half = |e: Elem| matches!(e, Elem::F16 | Elem::Bf16);
        if !self.wild && (from == Elem::Bool || half(from) && elem.is_int() || from.is_int() && half(elem)) {
            elem = if from == Elem::Bool { return } else { Elem::F32 };
        }
        self.apply(Op::Cast, &[x], Some(Type::Tile(elem, shape)));
    }

    fn reduce(&mut self, x: Value) {
        let Some(shape) = self.ty(x).shape() else { return };
        let elem = self.ty(x).elem();
        if !self.wild && (elem.bits() != 32 || shape.rank() == 1 && !self.choices.chance(1, 6)) {
            return;
        }
        let dim = (shape.rank() - 1 - self.choices.weighted(&[(3, 0), (1, 1)]).min(shape.rank() - 1)) as u8;
        let op = match elem {
            Elem::Bool => self.choices.of(&[ReduceOp::And, ReduceOp::Or]),
            e if e.is_float() => self.choices.of(&[ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min]),
            _ => {
                self.choices.of(&[ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min, ReduceOp::Xor, ReduceOp::And])
            }
        };
        let Some(r) = self.apply(Op::Reduce(op, dim), &[x], None) else { return };
        // Often every element wants the result of its row.
        if self.choices.chance(1, 2) && self.ty(r).shape().is_some() {
            let one = self.apply(Op::ExpandDims(dim), &[r], None);
            if let Some(one) = one {
                let ty = Type::Tile(self.ty(one).elem(), shape);
                self.apply(Op::Broadcast, &[one], Some(ty));
            }
        }
    }

    /// A smaller tile grown to the shape of a larger one.
    fn spread(&mut self, x: Value) {
        let Some(shape) = self.ty(x).shape() else { return };
        let small = self.pick(|g, v| {
            g.ty(v).shape().is_some_and(|s| {
                let row = s.rank() == 1 && shape.rank() == 2;
                row && shape.dims().iter().any(|d| d.same(s.dims()[0]))
            })
        });
        let Some(mut small) = small else { return };
        let column = shape.dims()[0].same(self.ty(small).shape().map_or(Dim::new(0), |s| s.dims()[0]));
        if column && let Some(c) = self.apply(Op::ExpandDims(1), &[small], None) {
            small = c;
        }
        let ty = Type::Tile(self.ty(small).elem(), shape);
        self.apply(Op::Broadcast, &[small], Some(ty));
    }

    /// A half or a quarter of a constant extent.
    fn slice(&mut self, x: Value) {
        let Some(s) = self.ty(x).shape() else { return };
        if !self.wild && !self.choices.chance(1, 3) {
            return;
        }
        let at = self.choices.below(s.rank());
        let parts = self.choices.of(&[2, 4]);
        let Some(extent) = s.dims()[at].constant().filter(|e| e % parts == 0 && *e > parts) else { return };
        let width = extent / parts;
        let from = width * self.choices.below(parts as usize) as u32;
        let dims: Vec<Dim> =
            s.dims().iter().enumerate().map(|(i, &d)| if i == at { Dim::new(width) } else { d }).collect();
        let offsets = (0..s.rank()).map(|i| Dim::new(if i == at { from } else { 0 })).collect();
        if let Some(to) = shape(&dims) {
            let ty = Type::Tile(self.ty(x).elem(), to);
            self.apply(Op::Slice(offsets), &[x], Some(ty));
        }
    }

    fn iota(&mut self, x: Value) {
        let Some(shape) = self.ty(x).shape() else { return };
        let dim = self.choices.below(shape.rank()) as u8;
        self.apply(Op::Iota(dim), &[], Some(Type::Tile(Elem::I32, shape)));
    }

    /// Arithmetic on scalars.
    fn scalar(&mut self) -> Result<()> {
        let is = |e: Elem| move |g: &Self, v: Value| g.ty(v) == Type::Scalar(e);
        let elem = self.choices.of(&[Elem::I32, Elem::F32]);
        let Some(x) = self.pick(is(elem)) else { return Ok(()) };
        let y = match self.pick(is(elem)).filter(|_| self.choices.chance(1, 2)) {
            Some(y) => y,
            None => self.constant(elem)?,
        };
        let op = self.choices.of(&[BinOp::Add, BinOp::Mul, BinOp::Sub, BinOp::Min, BinOp::Max]);
        let Some(z) = self.apply(Op::Binary(op), &[x, y], None) else { return Ok(()) };
        match self.choices.below(4) {
            0 if elem == Elem::I32 => {
                self.apply(Op::Cast, &[z], Some(Type::Scalar(Elem::F32)));
            }
            1 => {
                let c = self.apply(Op::Compare(CmpOp::Lt), &[x, y], None);
                if let Some(c) = c {
                    self.apply(Op::Select, &[c, z, x], None);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Two tiles beside each other, often side by side in one dimension or apart again afterwards.
    fn joined(&mut self, x: Value) {
        let ty = self.ty(x);
        let y = self.pick(|g, v| g.ty(v) == ty).unwrap_or(x);
        let Some(both) = self.apply(Op::Join, &[x, y], None) else { return };
        let Type::Tile(elem, s) = ty else { return };
        match self.choices.below(4) {
            0 => {
                self.apply(Op::Split, &[both], None);
            }
            1 => {}
            _ => {
                let Some((last, rest)) = s.dims().split_last() else { return };
                let wide = last.scaled(2, 1).and_then(|last| Shape::new(&[rest, &[last]].concat()));
                self.apply(Op::Reshape, &[both], wide.map(|s| Type::Tile(elem, s)));
            }
        }
    }

    /// Operations that move elements.
    fn moved(&mut self, kind: Kind, x: Value) {
        let Type::Tile(elem, s) = self.ty(x) else { return };
        let last = (s.rank() - 1) as u8;
        let dim = self.choices.below(s.rank()) as u8;
        let flat = s.dims().iter().map(|d| d.constant()).product::<Option<u32>>();
        match (kind, flat) {
            (Kind::Trans, _) => {
                let perm = (0..=last).rev().collect();
                self.apply(Op::Trans(perm), &[x], None);
            }
            (Kind::Rearrange, _) => {
                self.apply(Op::Rearrange, &[x], None);
            }
            (Kind::Scan, _) if elem != Elem::Bool => {
                let op = self.choices.of(&[ReduceOp::Sum, ReduceOp::Max]);
                self.apply(Op::Scan(op, dim), &[x], None);
            }
            (Kind::Reshape, Some(n)) => {
                let to = if s.rank() > 1 { Shape::of(&[n]) } else { Shape::of(&[n / 4, 4]) };
                self.apply(Op::Reshape, &[x], to.map(|s| Type::Tile(elem, s)));
            }
            (Kind::Join, _) => self.joined(x),
            (Kind::Split, _) => {
                self.apply(Op::Split, &[x], None);
            }
            (Kind::Gather, _) => {
                // The reversal of a dimension: `extent - 1 - iota`.
                let extent = self.extent(s.dims()[usize::from(dim)]);
                let Some(iota) = self.apply(Op::Iota(dim), &[], Some(Type::Tile(Elem::I32, s))) else {
                    return;
                };
                let Ok(top) = self.int(i64::from(extent) - 1) else { return };
                let index = self.apply(Op::Binary(BinOp::Sub), &[top, iota], None);
                if let Some(index) = index {
                    self.apply(Op::Gather(dim), &[x, index], None);
                }
            }
            (Kind::ViewAs, Some(_)) => {
                let to = self.choices.of(&[Elem::Uint(32), Elem::Uint(16), Elem::Uint(8), Elem::I32]);
                self.apply(Op::ViewAs(to), &[x], None);
            }
            _ => {}
        }
    }
}
