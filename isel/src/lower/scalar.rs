//! Scalars: each value is one register.
//!
//! ```text
//!  q = cdiv(m, 128)     ─►     add.s32 t, m, 127     div.s32 q, t, 128
//! ```

use super::quotient::is_signed_division;
use super::{Low, Lower};
use crate::Result;
use crate::facts::{at_most, is_never_negative};
use crate::rows::{Kind, binary_row, compare_row, float_bits, fma_row, kind, natural, small_bits, unary_row};
use crate::takes::is_long;
use warplift_ir::machine::{self, Attr, NewInst, Ty};
use warplift_ir::target::Opcode;
use warplift_ir::tile::{Assumption, BinOp, CmpOp, Inst, MOST_INDEX, Op, Type, UnOp, Value};
use warplift_ir::types::Elem;

impl Lower<'_, '_> {
    /// A scalar instruction.
    pub(super) fn lower_scalar(&mut self, inst: Inst) -> Result<()> {
        let k = self.k;
        let Some(&result) = k.results(inst).first() else {
            return self.interpreted_only();
        };
        let args = k.args(inst).to_vec();
        let elem = k.ty(result).elem();
        let r = match &k.insts[inst].op {
            Op::Int(v) => self.scalar_int(elem, *v),
            Op::Float(v) => match float_bits(elem, *v).or_else(|| small_bits(elem, *v)) {
                Some(bits) => self.at().imm(bits),
                None => {
                    return self.error(format!("constants of {elem} ({} bits) do not compile", elem.bits()));
                }
            },
            Op::Dim(d) => self.at().imm(i64::from(d.constant().unwrap_or(0))),
            Op::BlockIndex(d) => {
                self.special([self.block_index(), Opcode::CtaidY, Opcode::CtaidZ][usize::from(*d).min(2)])
            }
            Op::GridDim(d) => {
                self.special([self.block_count(), Opcode::NctaidY, Opcode::NctaidZ][usize::from(*d).min(2)])
            }
            Op::Unbounded => self.at().imm(MOST_INDEX),
            Op::ProgramId => self.program(self.block_index(), true),
            Op::ProgramCount => self.program(self.block_count(), false),
            Op::Binary(op) => return self.scalar_binary(inst, *op),
            Op::Unary(op) => {
                let x = self.scalar(args[0])?;
                self.unary(*op, elem, x)?
            }
            Op::Compare(cmp) => self.scalar_compare(*cmp, &args)?,
            Op::Select => self.scalar_select(self.ty(result)?, &args)?,
            Op::Fma => {
                let xyz = [self.scalar(args[0])?, self.scalar(args[1])?, self.scalar(args[2])?];
                match kind(elem, false).and_then(fma_row) {
                    Some(row) => self.at().op(row, &xyz, Ty::B32),
                    None => return self.refuse_scalars(elem),
                }
            }
            Op::Cast => {
                let x = self.scalar(args[0])?;
                self.scalar_cast(k.ty(args[0]), elem, x)?
            }
            Op::Assume(promise) => self.scalar_assume(inst, *promise)?,
            _ => return self.interpreted_only(),
        };
        self.set(result, r);
        Ok(())
    }

    /// A constant in a register of its element's width.
    fn scalar_int(&mut self, elem: Elem, value: i64) -> machine::Value {
        match elem {
            Elem::Bool => self.at().imm_of(Ty::Pred, value),
            _ if elem.bits() == 64 => self.at().imm_of(Ty::B64, value),
            _ => self.at().imm(value),
        }
    }

    /// The same number, with what is promised of it: the launch checks that of arguments, the simulator each.
    fn scalar_assume(&mut self, inst: Inst, promise: Assumption) -> Result<machine::Value> {
        let (arg, ty) = (self.k.args(inst)[0], self.ty(self.k.result(inst))?);
        let x = self.scalar(arg)?;
        self.promise_at_launch(inst, promise);
        let op = if ty == Ty::B64 { Opcode::Assume64 } else { Opcode::Assume };
        let attr = Attr::Assume { promise, signed: self.k.ty(arg).elem().is_signed() };
        Ok(self.at().value(NewInst::new(op, &[x], &[ty]).attr(attr)))
    }

    /// A comparison gives a predicate.
    fn scalar_compare(&mut self, cmp: CmpOp, args: &[Value]) -> Result<machine::Value> {
        let (mut x, mut y) = (self.scalar(args[0])?, self.scalar(args[1])?);
        let mut from = self.k.ty(args[0]).elem();
        if from == Elem::Uint(64) {
            [x, y] = [x, y].map(|v| self.other_sign(v));
            from = Elem::Int(64);
        }
        let Some(row) = kind(from, false).and_then(compare_row) else {
            return self.refuse_scalars(from);
        };
        Ok(self.at().value(NewInst::new(row, &[x, y], &[Ty::Pred]).attr(Attr::Cmp(cmp))))
    }

    /// A choice between two scalars. PTX selects no predicates: these are chosen by logic.
    fn scalar_select(&mut self, ty: Ty, args: &[Value]) -> Result<machine::Value> {
        let [c, x, y] = [self.scalar(args[0])?, self.scalar(args[1])?, self.scalar(args[2])?];
        Ok(match ty {
            Ty::Pred => {
                let other = self.at().op(Opcode::NotPred, &[c], Ty::Pred);
                let first = self.at().op(Opcode::AndPred, &[c, x], Ty::Pred);
                let second = self.at().op(Opcode::AndPred, &[other, y], Ty::Pred);
                self.at().op(Opcode::OrPred, &[first, second], Ty::Pred)
            }
            Ty::B64 => self.at().op(Opcode::Selp64, &[x, y, c], Ty::B64),
            _ => self.at().op(Opcode::Selp, &[x, y, c], Ty::B32),
        })
    }

    /// Index or number of programs: blocks, or teams of blocks.
    fn program(&mut self, op: Opcode, index: bool) -> machine::Value {
        let teams = i64::from(self.teams);
        let blocks = self.special(op);
        if teams == 1 {
            return blocks;
        }
        let all = self.at_entry().mul_imm(blocks, teams);
        if !index {
            return all;
        }
        let team = self.at_entry().op(Opcode::TeamIndex, &[], Ty::B32);
        self.at_entry().add(all, team)
    }

    /// The number of a tile along the first dimension of the grid: that of the block, or of the cluster whose blocks
    /// share a tile.
    fn block_index(&self) -> Opcode {
        if self.blocks > 1 { Opcode::ClusterId } else { Opcode::CtaidX }
    }

    /// The count of these.
    fn block_count(&self) -> Opcode {
        if self.blocks > 1 { Opcode::ClusterCount } else { Opcode::NctaidX }
    }

    /// A special register, read once at entry.
    fn special(&mut self, op: Opcode) -> machine::Value {
        let r = self.at_entry().op(op, &[], Ty::B32);
        self.func.values[r].uniform = true;
        r
    }

    fn scalar_binary(&mut self, inst: Inst, op: BinOp) -> Result<()> {
        let k = self.k;
        let (result, args) = (k.result(inst), k.args(inst).to_vec());
        let elem = k.ty(result).elem();
        let (x, y) = (self.scalar(args[0])?, self.scalar(args[1])?);
        if is_long(elem)
            && let Some(r) = self.long_scalar(op, elem, (x, y), k.int_const(args[1]))
        {
            self.set(result, r);
            return Ok(());
        }
        if op == BinOp::CeilDiv && matches!(elem, Elem::Int(32) | Elem::Uint(32)) {
            let r = self.divided_up(inst, elem, x, y);
            self.set(result, r);
            return Ok(());
        }
        let Some((kind, row)) = kind(elem, false).and_then(|kd| Some((kd, binary_row(op, kd)?))) else {
            return self.refuse_scalars(elem);
        };
        let r = match kind {
            Kind::Pred => self.at().op(row, &[x, y], Ty::Pred),
            Kind::Wide => self.at().op(row, &[x, y], Ty::B64),
            Kind::Signed | Kind::Unsigned => self.integer_binary(inst, row, x, y),
            _ => self.at().op(row, &[x, y], Ty::B32),
        };
        self.set(result, r);
        Ok(())
    }

    /// Operations of 64 bits beyond the rows of signed numbers: a word's shift to the right, and those without a sign.
    fn long_scalar(
        &mut self,
        op: BinOp,
        elem: Elem,
        (x, y): (machine::Value, machine::Value),
        by: Option<i64>,
    ) -> Option<machine::Value> {
        let signed = elem.is_signed();
        match op {
            BinOp::Shr if by == Some(32) => {
                let high = self.at().op(Opcode::High64, &[x], Ty::B32);
                let widen = if signed { Opcode::WidenS32 } else { Opcode::WidenU32 };
                Some(self.at().op(widen, &[high], Ty::B64))
            }
            BinOp::Min | BinOp::Max if !signed => {
                let [x, y] = [x, y].map(|v| self.other_sign(v));
                let r = self.at().op(binary_row(op, Kind::Wide)?, &[x, y], Ty::B64);
                Some(self.other_sign(r))
            }
            BinOp::Add | BinOp::Sub | BinOp::Mul if !signed => {
                Some(self.at().op(binary_row(op, Kind::Wide)?, &[x, y], Ty::B64))
            }
            _ => None,
        }
    }

    /// A number of 64 bits with its highest bit turned: the order of those without a sign becomes that of signed ones.
    fn other_sign(&mut self, x: machine::Value) -> machine::Value {
        let least = self.at().imm_of(Ty::B64, i64::MIN);
        self.at().op(Opcode::AddS64, &[x, least], Ty::B64)
    }

    /// A row of integers. A division by an argument in a loop goes by a reciprocal, one by a constant without a division.
    fn integer_binary(
        &mut self,
        inst: Inst,
        row: Opcode,
        x: machine::Value,
        y: machine::Value,
    ) -> machine::Value {
        let signed = is_signed_division(row);
        let below_half = signed && is_never_negative(self.k, self.k.args(inst)[0]);
        match self.nonnegative(inst, row) {
            row @ (Opcode::DivU32 | Opcode::RemU32) if signed && self.divides_often(self.k.args(inst)[1]) => {
                self.divided_by_argument(row, x, y)
            }
            row => self.quotient(row, x, y, below_half),
        }
    }

    /// A quotient rounded up, of numbers of any size. The quotient of a negative dividend is rounded toward zero, which is
    /// already up.
    fn divided_up(&mut self, inst: Inst, elem: Elem, x: machine::Value, y: machine::Value) -> machine::Value {
        let one = self.at().imm(1);
        if elem == Elem::Uint(32) {
            // All but one of `x`, if there is any: `x + y - 1` could need a bit more.
            let some = self.at().int(Opcode::MinU32, x, one);
            let rest = self.at().int(Opcode::SubS32, x, some);
            let quotient = self.quotient(Opcode::DivU32, rest, y, false);
            return self.at().add(quotient, some);
        }
        let less = self.at().int(Opcode::SubS32, y, one);
        let sum = self.at().add(x, less);
        if self.k.args(inst).iter().all(|&v| is_never_negative(self.k, v)) {
            return self.quotient(Opcode::DivU32, sum, y, false);
        }
        if let Some(by) = self.k.int_const(self.k.args(inst)[1]).filter(|&by| by > 0) {
            return self.divided_up_by(inst, x, by);
        }
        let zero = self.at().imm(0);
        let above = |l: &mut Self, v| {
            let new = NewInst::new(Opcode::SetpS32, &[v, zero], &[Ty::Pred]).attr(Attr::Cmp(CmpOp::Gt));
            l.at().value(new)
        };
        let positive = above(self, x);
        // Of two positive numbers the sum could need a bit more, so the quotient of `x - 1` gets one more.
        let by_positive = above(self, y);
        let rest = self.at().int(Opcode::SubS32, x, one);
        let rounded = self.at().op(Opcode::Selp, &[rest, sum, by_positive], Ty::B32);
        let from = self.at().op(Opcode::Selp, &[rounded, x, positive], Ty::B32);
        let quotient = self.quotient(Opcode::DivS32, from, y, false);
        let both = self.at().op(Opcode::AndPred, &[positive, by_positive], Ty::Pred);
        let more = self.at().op(Opcode::Selp, &[one, zero, both], Ty::B32);
        self.at().add(quotient, more)
    }

    /// A quotient by a constant, rounded up. The sum with the divisor less 1 may need a bit more, unless facts bound the dividend.
    fn divided_up_by(&mut self, inst: Inst, x: machine::Value, by: i64) -> machine::Value {
        let most = at_most(self.k, self.k.args(inst)[0]);
        let fits = most.is_some_and(|most| most.saturating_add(by - 1) <= i32::MAX.into());
        if by.unsigned_abs().is_power_of_two() && self.plan.ways.quotients {
            let shift = self.at().imm(by.ilog2().into());
            let from = if fits { x } else { self.at().and_imm(x, by - 1) };
            let sum = self.at().add_imm(from, by - 1);
            let up = self.at().int(Opcode::ShrS32, sum, shift);
            if fits {
                return up;
            }
            let down = self.at().int(Opcode::ShrS32, x, shift);
            return self.at().add(down, up);
        }
        let [zero, one, y] = [0, 1, by].map(|n| self.at().imm(n));
        let new = NewInst::new(Opcode::SetpS32, &[x, zero], &[Ty::Pred]).attr(Attr::Cmp(CmpOp::Gt));
        let positive = self.at().value(new);
        // All but one of what is positive, if the sum does not fit.
        let from = if fits { self.at().add_imm(x, by - 1) } else { self.at().add_imm(x, -1) };
        let from = self.at().op(Opcode::Selp, &[from, x, positive], Ty::B32);
        let quotient = self.quotient(Opcode::DivS32, from, y, false);
        if fits {
            return quotient;
        }
        let more = self.at().op(Opcode::Selp, &[one, zero, positive], Ty::B32);
        self.at().add(quotient, more)
    }

    /// Whether a loop inside the loop over tiles divides by an argument. A thread that copies computes addresses between two
    /// waits: there a division of 80 cycles is time of the loop.
    fn divides_often(&self, divisor: Value) -> bool {
        let argument = self.k.params.iter().any(|p| p.value == divisor);
        argument && self.looped.len() > usize::from(self.persistent)
    }

    /// `x / y` or `x % y` of numbers below 2^31 by the reciprocal of an argument, which is computed once. With
    /// `r = floor((2^32 - 1) / y)`, `2^32 / y - r < 2`, so `x r / 2^32` is less than 1 below `x / y`: its floor is the
    /// quotient or one less (after Granlund and Montgomery, "Division by Invariant Integers using Multiplication").
    fn divided_by_argument(&mut self, row: Opcode, x: machine::Value, y: machine::Value) -> machine::Value {
        let all = self.at_entry().imm(-1);
        let reciprocal = self.at_entry().int(Opcode::DivU32, all, y);
        let low = self.at().int(Opcode::MulHiU32, x, reciprocal);
        let whole = self.at().int(Opcode::MulS32, low, y);
        let rest = self.at().int(Opcode::SubS32, x, whole);
        let new = NewInst::new(Opcode::SetpU32, &[rest, y], &[Ty::Pred]).attr(Attr::Cmp(CmpOp::Ge));
        let short = self.at().value(new);
        let (found, next) = match row {
            Opcode::DivU32 => (low, self.at().add_imm(low, 1)),
            _ => (rest, self.at().int(Opcode::SubS32, rest, y)),
        };
        self.at().op(Opcode::Selp, &[next, found, short], Ty::B32)
    }

    /// Unsigned division is cheaper, and correct for values that cannot be negative, as tile numbers and sizes.
    fn nonnegative(&self, inst: Inst, row: Opcode) -> Opcode {
        let known = |v| is_never_negative(self.k, v);
        match row {
            Opcode::DivS32 if self.k.args(inst).iter().all(|&v| known(v)) => Opcode::DivU32,
            Opcode::RemS32 if self.k.args(inst).iter().all(|&v| known(v)) => Opcode::RemU32,
            other => other,
        }
    }

    /// A unary operation on one register of the element's kind (scalars; fragments go through maps).
    fn unary(&mut self, op: UnOp, elem: Elem, x: machine::Value) -> Result<machine::Value> {
        if let Some((base, factor, before)) = natural(op) {
            let c = self.at().imm(i64::from(factor.to_bits()));
            let x = if before { self.at().op(Opcode::MulF32, &[x, c], Ty::B32) } else { x };
            let y = self.unary(base, elem, x)?;
            return Ok(if before { y } else { self.at().op(Opcode::MulF32, &[y, c], Ty::B32) });
        }
        match kind(elem, false).and_then(|kd| unary_row(op, kd)) {
            Some(row) => {
                let ty = if elem == Elem::Bool { Ty::Pred } else { Ty::B32 };
                Ok(self.at().op(row, &[x], ty))
            }
            None => self.refuse_scalars(elem),
        }
    }

    fn scalar_cast(&mut self, from: Type, to: Elem, x: machine::Value) -> Result<machine::Value> {
        let from = from.elem();
        let word = |e: Elem| matches!(e, Elem::Int(32) | Elem::Uint(32));
        Ok(match (from, to) {
            (a, b) if a == b || (word(a) && word(b)) || (is_long(a) && is_long(b)) => x,
            // A loaded byte fills its register with zeros.
            (Elem::Uint(8), b) if word(b) => x,
            (Elem::Int(32), Elem::Int(64) | Elem::Uint(64)) => self.at().op(Opcode::WidenS32, &[x], Ty::B64),
            (Elem::Uint(32), Elem::Int(64) | Elem::Uint(64)) => self.at().op(Opcode::WidenU32, &[x], Ty::B64),
            (Elem::Int(64) | Elem::Uint(64), b) if word(b) => self.at().op(Opcode::Narrow64, &[x], Ty::B32),
            (Elem::Int(32), Elem::F32) => self.at().op(Opcode::F32FromS32, &[x], Ty::B32),
            (Elem::Uint(32), Elem::F32) => self.at().op(Opcode::F32FromU32, &[x], Ty::B32),
            (Elem::Int(64), Elem::F32) => self.at().op(Opcode::F32FromS64, &[x], Ty::B32),
            (Elem::Uint(64), Elem::F32) => self.at().op(Opcode::F32FromU64, &[x], Ty::B32),
            (Elem::F32, Elem::F16) => self.at().op(Opcode::PackF16, &[x, x], Ty::B32),
            (Elem::F32, Elem::Bf16) => self.at().op(Opcode::PackBf16, &[x, x], Ty::B32),
            (Elem::F16, Elem::F32) => self.at().op(Opcode::LowF16, &[x], Ty::B32),
            (Elem::Bf16, Elem::F32) => self.at().op(Opcode::LowBf16, &[x], Ty::B32),
            (Elem::F32, Elem::Int(32)) => self.at().op(Opcode::S32FromF32, &[x], Ty::B32),
            (Elem::F32, Elem::Uint(32)) => self.at().op(Opcode::U32FromF32, &[x], Ty::B32),
            _ => return self.error(format!(
                "a cast of scalars from {from} to {to} does not compile: go through i32 or f32, or cast a tile"
            )),
        })
    }

    /// Turns a predicate into the mask of a bool tile's element; any other register stays.
    pub(super) fn masked(&mut self, r: machine::Value) -> machine::Value {
        if self.func.ty(r) != Ty::Pred {
            return r;
        }
        let [ones, none] = [-1, 0].map(|v| self.at().imm(v));
        self.at().op(Opcode::Selp, &[ones, none, r], Ty::B32)
    }

    /// The register of a scalar used as an element of a tile of that type.
    pub(super) fn splat(&mut self, v: Value) -> Result<machine::Value> {
        match self.env.get(&v) {
            Some(Low::Reg(r) | Low::Splat(r)) => {
                let r = *r;
                Ok(self.masked(r))
            }
            _ => self.error(format!("operand {v} is no scalar")),
        }
    }
}
