//! Deferred scale: fields in an MMA are integers as subnormal halves, so the result lacks a power of two. The factor
//! moves to the place where it costs the least.
//!
//! ```text
//!  for t .. carry sum = 0                    for t .. carry sum = 0
//!      group = 2^24 (fields × x)        ─►       group = fields × x
//!      yield sum + group · scale                 yield sum + group · scale
//!                                            2^24 sum
//! ```
//!
//! Multiplying by a power of two does not round, so the factor may go anywhere. There are three places:
//! - behind the loop, if the accumulators are only multiplied and added to a value that starts at zero;
//! - the other factor of a multiplication, if it has fewer registers;
//! - the accumulators themselves.
//!
//! The smaller accumulators lose no precision if they come from halves, which are at least 2^-24, and are multiplied
//! by at most two halves.

use super::zero_point::{Chain, half_of};
use super::{Low, Lower};
use crate::Result;
use crate::tiles::constant;
use warplift_ir::machine::{self, Attr, IndexMap, NewInst, Ty};
use warplift_ir::target::Opcode;
use warplift_ir::tile::{BinOp, Inst, Kernel, Op, Value};
use warplift_ir::types::Elem;

/// Limit on the halves that an accumulator is multiplied by. With the fields, `x` and these, no product is below
/// 2^-96, so rounding leaves a normal number.
const MOST_FACTORS: usize = 2;

impl Lower<'_, '_> {
    /// A loop's result, multiplied by the factor that accumulators inside lack.
    pub(super) fn carried_scale(&mut self, result: Value, v: machine::Value) -> machine::Value {
        let of = |c: &&Chain| self.carried_by(c) == Some(result);
        match self.zero_points.iter().find(of).map(Chain::powers) {
            Some(factors) => self.scaled(v, factors),
            None => v,
        }
    }

    /// The loop result that is the only use of a chain's accumulators. They are only multiplied by other values and
    /// added to a carried value that starts at zero, all in the registers of the accumulators.
    fn carried_by(&self, chain: &Chain) -> Option<Value> {
        let k = self.k;
        let mut sums = k.result(chain.last());
        let place = self.plan.layouts[sums].as_ref()?;
        let stays = |v: Value| self.plan.layouts[v].as_ref() == Some(place);
        let mut factors = Vec::new();
        let (before, after) = loop {
            let user = only_user(k, sums)?;
            let (args, result) = (k.args(user), k.result(user));
            if !stays(result) {
                return None;
            }
            match k.insts[user].op {
                Op::Binary(BinOp::Mul) => factors.push(other(args, sums)?),
                Op::Binary(BinOp::Add) => break (other(args, sums)?, result),
                Op::Fma if args[2] != sums => {
                    factors.push(other(&args[..2], sums)?);
                    break (args[2], result);
                }
                _ => return None,
            }
            sums = result;
        };
        if factors.len() > MOST_FACTORS || !factors.iter().all(|&f| is_of_halves(k, f)) {
            return None;
        }
        let end = only_user(k, after).filter(|&i| matches!(k.insts[i].op, Op::Yield))?;
        let number = k.args(end).iter().position(|&v| v == after)?;
        let around = k.insts.keys().find(|&i| {
            let body = k.insts[i].blocks.first().filter(|_| matches!(k.insts[i].op, Op::For));
            body.is_some_and(|&b| {
                k.blocks[b].insts.last() == Some(&end) && k.blocks[b].params[1 + number] == before
            })
        })?;
        let begins = constant(k, k.args(around)[3 + number]) == Some(0.0);
        let result = k.results(around)[number];
        (begins && only_user(k, before).is_some() && stays(before) && stays(result)).then_some(result)
    }

    /// The accumulators of a chain's last MMA. They are marked as unscaled if every use multiplies them. They stay
    /// plain if the loop result is scaled instead. Otherwise they are scaled here.
    pub(super) fn end_zero_point(&mut self, inst: Inst, sums: machine::Value) -> Low {
        let (k, result) = (self.k, self.k.result(inst));
        let Some(chain) = self.zero_points.iter().find(|c| c.last() == inst) else {
            return Low::Reg(sums);
        };
        if self.carried_by(chain).is_some() {
            return Low::Reg(sums);
        }
        let factors = chain.powers();
        let mut users = k.insts.keys().filter(|&i| k.args(i).contains(&result));
        let multiplies = |i: Inst| matches!(k.insts[i].op, Op::Fma) && !k.args(i)[2..].contains(&result);
        match users.all(multiplies) {
            true => Low::Scaled(sums, factors),
            false => Low::Reg(self.scaled(sums, factors)),
        }
    }

    /// The two factors of a multiplication. If one is an unscaled accumulator and each register of the other serves
    /// several of its registers, all in rows of one half of their atoms, the other factor is scaled instead.
    pub(super) fn factors(&mut self, x: Value, y: Value) -> Result<[(machine::Value, IndexMap); 2]> {
        for (sums, other, swapped) in [(x, y, false), (y, x, true)] {
            let low = [sums, other].map(|v| self.env.get(&v).cloned());
            let [Some(Low::Scaled(sums, factors)), Some(Low::Picked(few, table))] = low else { continue };
            let Some(halves) = halves_of(&table) else { continue };
            let regs = halves.len() as u16;
            let by = self.by_half(factors, halves);
            let few = self.repeat(Opcode::MulF32, Attr::None, &[(few, IndexMap::EACH), by], regs);
            let (sums, few) = ((sums, IndexMap::EACH), (few, IndexMap::Table(table)));
            return Ok(if swapped { [few, sums] } else { [sums, few] });
        }
        Ok([self.operand(x)?, self.operand(y)?])
    }

    /// Scales every accumulator register.
    pub(super) fn scaled(&mut self, sums: machine::Value, factors: [f32; 2]) -> machine::Value {
        let regs = self.func.ty(sums).regs() as u16;
        let by = self.by_half(factors, (0..regs).map(half_of).collect());
        self.repeat(Opcode::MulF32, Attr::None, &[(sums, IndexMap::EACH), by], regs)
    }

    /// The factor of each register, by the half of the atom that its rows belong to.
    fn by_half(&mut self, [upper, lower]: [f32; 2], halves: Vec<u16>) -> (machine::Value, IndexMap) {
        let [upper, lower] = [upper, lower].map(|f| self.at_entry().imm(i64::from(f.to_bits())));
        if upper == lower {
            return (upper, IndexMap::Whole);
        }
        let both = self.at_entry().value(NewInst::new(Opcode::Join, &[upper, lower], &[Ty::frag(2)]));
        (both, IndexMap::Table(halves.into()))
    }
}

/// The only use of a value, if there is exactly one.
fn only_user(k: &Kernel, v: Value) -> Option<Inst> {
    let reads = |i: Inst| k.args(i).iter().filter(|&&a| a == v).count();
    let mut users = k.insts.keys().filter(|&i| reads(i) > 0);
    users.next().filter(|&i| reads(i) == 1 && users.next().is_none())
}

/// Whether a value's elements have the range of halves: zero, or neither smaller nor larger than a half can be.
fn is_of_halves(k: &Kernel, v: Value) -> bool {
    if let Some(c) = constant(k, v) {
        let [least, most] = [half::f16::MIN_POSITIVE_SUBNORMAL, half::f16::MAX].map(f64::from);
        return c == 0.0 || (least..=most).contains(&c.abs());
    }
    k.def(v).is_some_and(|i| match k.insts[i].op {
        Op::Cast => k.ty(k.args(i)[0]).elem() == Elem::F16,
        Op::Broadcast | Op::Reshape | Op::ExpandDims(_) => is_of_halves(k, k.args(i)[0]),
        _ => false,
    })
}

/// The other of two operands.
fn other(args: &[Value], v: Value) -> Option<Value> {
    args.iter().copied().find(|&a| a != v)
}

/// The half of each register of a table, if it belongs to only one.
fn halves_of(table: &[u16]) -> Option<Vec<u16>> {
    let most = *table.iter().max()?;
    (0..=most)
        .map(|r| {
            let mut uses = table.iter().zip(0u16..).filter(|t| *t.0 == r).map(|t| half_of(t.1));
            let first = uses.next()?;
            uses.all(|h| h == first).then_some(first)
        })
        .collect()
}
