//! Loops and branches.

use super::super::range::Range;
use super::{Generator, Result};
use warplift_ir::tile::{BinOp, CmpOp, Op, Type, UnOp, Value};
use warplift_ir::types::Elem;

/// Assumed growth of carried values. The check computes its bound from the finished kernel.
const GROWTH: f64 = 128.0;

impl Generator<'_> {
    /// A loop over the depth or a few numbers: counted, or with a condition.
    pub(super) fn looped(&mut self, depth: u32) -> Result<()> {
        let deep = self.depth.filter(|_| self.choices.chance(3, 4));
        let (low, step) = match deep {
            Some(_) => (self.int(0)?, self.int(1)?),
            None => {
                let (low, step) = (self.choices.of(&[0, 1, 2]), self.choices.of(&[1, 1, 2, 3]));
                (self.int(low)?, self.int(step)?)
            }
        };
        let high = match deep {
            Some(axis) => axis.tiles,
            None => self.bound()?,
        };
        let init = self.initial()?;
        let repeats = self.choices.chance(1, 5);
        let (counter, carried) = match repeats {
            true => self.begin_while(low, &init)?,
            false => self.b.begin_for(low, high, step, &init)?,
        };
        match repeats {
            true => self.in_sight(counter, &carried, &init),
            false => self.enter(counter, &carried, &init),
        }
        if let Some(axis) = deep {
            let width = self.b.dim(axis.extent)?;
            let start = self.index(BinOp::Mul, counter, width)?;
            self.load_inputs(Some(start))?;
        }
        self.statements(depth + 1, 4)?;
        let mut yields = carried.iter().map(|&c| self.update(c)).collect::<Result<Vec<Value>>>()?;
        let next: Vec<Range> = yields.iter().map(|&v| self.range(v)).collect();
        if repeats {
            let at = self.index(BinOp::Add, counter, step)?;
            yields.splice(0..0, [self.goes_on(at, high)?, at]);
        }
        let made = self.b.end(&yields)?;
        let results = self.b.results(made)[usize::from(repeats)..].to_vec();
        for ((&v, &c), next) in results.iter().zip(&carried).zip(next) {
            let grown = self.range(c);
            self.keep(
                v,
                Range { error: grown.error.max(next.error), whole: grown.whole && next.whole, ..grown },
            );
        }
        Ok(())
    }

    /// Opens a `while` that carries a counter before the other values.
    fn begin_while(&mut self, low: Value, init: &[Value]) -> Result<(Value, Vec<Value>)> {
        let carried = self.b.begin_while(&[&[low], init].concat())?;
        Ok((carried[0], carried[1..].to_vec()))
    }

    /// The condition of a `while`: the counter is below its end, and perhaps a scalar pleases.
    fn goes_on(&mut self, at: Value, high: Value) -> Result<Value> {
        let below = self.b.compare(CmpOp::Lt, at, high)?;
        let whole = |g: &Self, v: Value| g.ty(v) == Type::Scalar(Elem::I32);
        let Some(x) = self.pick(whole).filter(|_| self.choices.chance(1, 2)) else { return Ok(below) };
        let pleases = self.pleases(x)?;
        self.b.binary(BinOp::And, below, pleases)
    }

    /// A comparison of a number with a small one.
    fn pleases(&mut self, x: Value) -> Result<Value> {
        let limit = self.choices.of(&[0, 1, 2, 5]);
        let limit = self.int(limit)?;
        let op = self.choices.of(&[CmpOp::Eq, CmpOp::Lt, CmpOp::Gt, CmpOp::Ne]);
        let pleases = self.b.compare(op, x, limit)?;
        match self.choices.of(&[None, None, Some(UnOp::Likely), Some(UnOp::Unlikely)]) {
            Some(expected) => self.b.unary(expected, pleases),
            None => Ok(pleases),
        }
    }

    /// The end of a loop over numbers: a constant, or a small argument.
    fn bound(&mut self) -> Result<Value> {
        let small = |g: &Self, v: Value| {
            g.ty(v) == Type::Scalar(Elem::I32) && g.range(v).low >= 0.0 && g.range(v).high < 8.0
        };
        match self.pick(small).filter(|_| self.choices.chance(1, 2)) {
            Some(v) => Ok(v),
            None => {
                let n = self.choices.between(0, 5);
                self.int(n)
            }
        }
    }

    /// Up to three values to carry.
    fn initial(&mut self) -> Result<Vec<Value>> {
        let mut init = Vec::new();
        for _ in 0..self.choices.weighted(&[(3, 1), (2, 2), (1, 0), (1, 3)]) {
            let Some(v) = self.pick(|g, v| g.ty(v).elem() != Elem::Bool) else { break };
            init.push(match self.choices.chance(1, 2) {
                true => v,
                false => self.constant_of(self.ty(v))?,
            });
        }
        Ok(init)
    }

    /// Names a loop's counter, and adds its values to the values in sight.
    pub(super) fn enter(&mut self, counter: Value, carried: &[Value], init: &[Value]) {
        let name = format!("t{}", self.loops.len());
        self.b.set_name(counter, &name);
        self.loops.push(name);
        self.in_sight(counter, carried, init);
    }

    fn in_sight(&mut self, counter: Value, carried: &[Value], init: &[Value]) {
        self.keep(counter, Range::whole(0.0, 32.0));
        for (&c, &i) in carried.iter().zip(init) {
            let start = self.range(i);
            let range = Range { low: start.low.min(-GROWTH), high: start.high.max(GROWTH), ..start };
            self.keep(c, range);
        }
    }

    /// The next value of a carried one.
    fn update(&mut self, c: Value) -> Result<Value> {
        let ty = self.ty(c);
        let other = match self.choices.below(5) {
            0 => {
                let same = self.pick(|g, v| v != c && g.ty(v) == ty);
                return Ok(same.unwrap_or(c));
            }
            1 => return Ok(c),
            _ => self.partner(c)?,
        };
        let ops = if ty.elem().is_float() || ty.elem().is_int() {
            &[BinOp::Add, BinOp::Max, BinOp::Min, BinOp::Sub][..]
        } else {
            &[BinOp::Xor][..]
        };
        let op = self.choices.of(ops);
        let args = if self.choices.chance(1, 4) { [other, c] } else { [c, other] };
        Ok(self.apply(Op::Binary(op), &args, None).filter(|&v| self.ty(v) == ty).unwrap_or(c))
    }

    /// A branch on a scalar that all threads agree on.
    pub(super) fn branch(&mut self, depth: u32) -> Result<()> {
        let whole = |g: &Self, v: Value| g.ty(v) == Type::Scalar(Elem::I32);
        let flag = self.pick(|g, v| g.ty(v) == Type::Scalar(Elem::Bool));
        let Some(mut x) = self.pick(whole) else { return Ok(()) };
        if self.choices.chance(1, 2) {
            let one = self.int(1)?;
            x = self.index(BinOp::And, x, one)?;
        }
        let condition = match flag.filter(|_| self.choices.chance(1, 2)) {
            Some(flag) => flag,
            None => self.pleases(x)?,
        };
        self.b.begin_if(condition)?;
        self.statements(depth + 1, 3)?;
        if self.choices.chance(1, 4) {
            self.stores(1)?;
        }
        let mut first = Vec::new();
        for _ in 0..self.choices.below(3) {
            first.extend(self.pick(|g, v| g.ty(v).elem() != Elem::Bool));
        }
        let mut ranges: Vec<Range> = first.iter().map(|&v| self.range(v)).collect();
        self.b.begin_else(&first)?;
        self.statements(depth + 1, 2)?;
        let mut second = Vec::new();
        for (&v, range) in first.iter().zip(&mut ranges) {
            let ty = self.ty(v);
            let like = match self.pick(|g, w| g.ty(w) == ty) {
                Some(w) => w,
                None => self.constant_of(ty)?,
            };
            *range = range.join(self.range(like));
            second.push(like);
        }
        let made = self.b.end(&second)?;
        for (v, range) in self.b.results(made).to_vec().into_iter().zip(ranges) {
            self.keep(v, range);
        }
        Ok(())
    }
}
