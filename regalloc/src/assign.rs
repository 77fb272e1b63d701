//! The steps of an allocation in order, and the assembly of its result.

use crate::descriptors::Names;
use crate::hazards::Hazards;
use crate::liveness::{Liveness, occupies};
use crate::normalize::Normalized;
use crate::parallel::sequence;
use crate::planned::Planned;
use crate::pressure::{self, LiveScalars};
use crate::ranges::{Ranges, flies, flies_before};
use crate::rematerialize::fence_before;
use crate::scalars::{Assigned, slots};
use crate::webs::{Facts, build};
use crate::{Budget, RegallocError, place, scalars};
use std::cell::OnceCell;
use warplift_ir::machine::{Allocation, Block, Func, Inst, NewInst, Operand, Reg, Ty, Value};
use warplift_ir::target::Opcode;

/// Limit on the rounds that add copies before products. The new copies have one use each, so one round is enough unless
/// there is a bug.
const ROUNDS: usize = 4;

/// Limit on the 32-bit scalars for regalloc2: its names less some room for its moves.
const WORDS: u32 = 58;

/// The part of the live registers that the assembler needs beside them where accumulators must not move. With 11 more than
/// 149 and with 13 more than 227 it spilled (two results of a product, two products), with 16 more than 144 and with 12
/// more than 52 it did not (causal attention, weights of 4 bits).
const RESERVED_PART: u32 = 12;

/// Registers that the assembler needs beside `live` ones: none but in roles with products of warpgroups.
pub fn reserve(func: &Func<'_>, live: u32) -> u32 {
    if has_products(func) { live.div_ceil(RESERVED_PART) } else { 0 }
}

fn has_products(func: &Func<'_>) -> bool {
    func.insts.values().any(|d| d.op == Opcode::Wgmma)
}

/// Facts that are known before the allocation.
struct Analysis {
    live: Liveness,
    planned: Planned,
    ranges: Ranges,
    hazards: Hazards,
    scalars: LiveScalars,
}

/// Allocates registers for all values of a function.
pub(crate) fn assign(normal: &mut Normalized<'_>, budget: &Budget<'_>) -> Result<Allocation, RegallocError> {
    let mut last = None;
    for _ in 0..ROUNDS {
        let analysis = analyse(normal, budget)?;
        match plan(normal, &analysis, budget)? {
            Ok(alloc) => return Ok(alloc),
            Err(products) => {
                last = products.first().copied();
                for inst in products {
                    copy_accumulator(normal, inst, &analysis, budget)?;
                }
            }
        }
    }
    let inst = last.unwrap_or_else(|| Inst::from_u32(0));
    Err(malformed(budget, inst, "its accumulator cannot be tied to its result"))
}

fn malformed(budget: &Budget<'_>, inst: Inst, what: &'static str) -> RegallocError {
    RegallocError::Malformed { role: budget.role.to_owned(), inst, what }
}

fn analyse(normal: &Normalized<'_>, budget: &Budget<'_>) -> Result<Analysis, RegallocError> {
    let live = Liveness::compute(normal);
    let mut demoted: Vec<Value> = Vec::new();
    loop {
        let mut planned = Planned::choose(normal, &demoted);
        let insts = live.blocks.iter().flat_map(|&b| &normal.func.blocks[b].insts).copied();
        planned
            .trace(normal, insts)
            .map_err(|i| malformed(budget, i, "a view leaves its fragment, or has no start"))?;
        let scalars = LiveScalars::count(normal, &live, &planned);
        let (words, point) = scalars.most_words();
        let more = match words.checked_sub(WORDS) {
            Some(over @ 1..) => pressure::longest(normal, &live, &planned, point, over as usize + 8),
            _ => Vec::new(),
        };
        if more.is_empty() {
            let ranges = Ranges::compute(normal, &live, &planned);
            let hazards = Hazards::collect(normal, &planned);
            return Ok(Analysis { live, planned, ranges, hazards, scalars });
        }
        demoted.extend(more);
    }
}

/// Webs, places and scalars; the inner error lists products that need a copy of their accumulator.
fn plan(
    normal: &Normalized<'_>,
    analysis: &Analysis,
    budget: &Budget<'_>,
) -> Result<Result<Allocation, Vec<Inst>>, RegallocError> {
    let Analysis { live, planned, ranges, hazards, scalars } = analysis;
    let facts = Facts { normal, live, planned, ranges, hazards, near: OnceCell::new() };
    let webs = match build(&facts) {
        Ok(webs) => webs,
        Err(products) => return Ok(Err(products)),
    };
    let layout = place::place(&webs);
    let operands: Vec<Operand> = (0..planned.values.len()).map(|i| layout.operand(&webs, i)).collect();
    let peak_of = |early| pressure::peak(normal, live, planned, ranges, scalars, early, budget.target);
    let products = has_products(&normal.func);
    let mut peak = peak_of(products);
    if peak.registers > budget.registers && !products {
        peak = peak_of(true);
    }
    let reserve = reserve(&normal.func, peak.registers);
    if peak.registers.saturating_add(reserve) > budget.registers || layout.registers > u32::from(u16::MAX) / 2
    {
        let at = peak.inst(&normal.func, live);
        return Err(RegallocError::Budget {
            role: budget.role.to_owned(),
            limit: budget.registers,
            needed: peak.registers + reserve,
            at: at.unwrap_or_else(|| Inst::from_u32(0)),
            loc: at.map(|i| normal.func.insts[i].loc).unwrap_or_default(),
            values: peak.heaviest(normal, live, planned, ranges),
        });
    }
    let names = planned.descriptors.names(normal, live, scalars.most_longs());
    let assigned = scalars::assign(normal, live, planned, &names, budget)?;
    let result =
        Assembly { normal, planned, names: &names, operands: &operands, shift: layout.registers as u16 };
    result.write(&assigned, ranges, live, peak.registers, budget).map(Ok)
}

/// Puts places of fragments and registers of scalars together.
struct Assembly<'r, 'a> {
    normal: &'r Normalized<'a>,
    planned: &'r Planned,
    names: &'r Names,
    operands: &'r [Operand],
    /// First 32-bit name of scalars.
    shift: u16,
}

impl Assembly<'_, '_> {
    fn write(
        &self,
        assigned: &Assigned,
        ranges: &Ranges,
        live: &Liveness,
        pressure: u32,
        budget: &Budget<'_>,
    ) -> Result<Allocation, RegallocError> {
        let func = &self.normal.func;
        let mut alloc = Allocation { pressure, names: [self.shift.into(), 0, 0], ..Allocation::default() };
        for (inst, m) in assigned.moves(self.shift) {
            alloc.before[inst].push(m);
            [m.from, m.to].into_iter().for_each(|r| count(&mut alloc.names, r));
        }
        for (number, &block) in live.blocks.iter().enumerate() {
            for &inst in &func.blocks[block].insts {
                let operands = self.operands_of(inst, assigned);
                let scalars = operands.iter().filter_map(|o| match o {
                    Operand::Scalar(r) => Some(*r),
                    _ => None,
                });
                scalars.for_each(|r| count(&mut alloc.names, r));
                alloc.insts[inst] = operands;
            }
            self.pass(number, block, ranges, &mut alloc, budget)?;
        }
        Ok(alloc)
    }

    fn operands_of(&self, inst: Inst, assigned: &Assigned) -> Vec<Operand> {
        let mut scalars = assigned.operands(inst, self.shift);
        let data = &self.normal.func.insts[inst];
        let literal = |v: Value| self.normal.func.constant(v).map_or(Operand::None, Operand::Literal);
        let mut operands = Vec::with_capacity(data.args.len() + data.results.len() + 1);
        for (k, (v, _)) in slots(self.normal, inst).enumerate() {
            operands.push(match v {
                None => literal(data.args[k]),
                Some(v) if !occupies(self.normal, v) => literal(v),
                Some(v) => match self.planned.get(v) {
                    Some(i) => self.operands[i].clone(),
                    None => self
                        .names
                        .get(v)
                        .or_else(|| scalars.next().flatten())
                        .map_or(Operand::None, Operand::Scalar),
                },
            });
        }
        operands
    }

    /// Moves fragments to block parameters that could not share their registers.
    fn pass(
        &self,
        number: usize,
        block: Block,
        ranges: &Ranges,
        alloc: &mut Allocation,
        budget: &Budget<'_>,
    ) -> Result<(), RegallocError> {
        let func = &self.normal.func;
        let Some(last) = func.terminator(block) else { return Ok(()) };
        let mut pairs = Vec::new();
        for call in &func.insts[last].targets {
            for (&arg, &param) in call.args.iter().zip(&func.blocks[call.block].params) {
                let Some((a, p)) = self.planned.get(arg).zip(self.planned.get(param)) else { continue };
                if self.operands[a] == self.operands[p] {
                    continue;
                }
                if flies(ranges, number, a) {
                    let (role, value) = (budget.role.to_owned(), pressure::name(func, arg));
                    return Err(RegallocError::InFlight { role, inst: last, value });
                }
                pairs.extend(registers(&self.operands[a]).zip(registers(&self.operands[p])));
            }
        }
        let mut spare = None;
        let moves = sequence(&pairs, |_| {
            let n = *spare.get_or_insert(alloc.names[0]);
            Reg::R(n as u16)
        });
        alloc.names[0] += u32::from(spare.is_some());
        alloc.before[last].extend(moves);
        Ok(())
    }
}

/// The 32-bit registers of a place.
pub(crate) fn registers(operand: &Operand) -> impl Iterator<Item = Reg> + '_ {
    let (first, n, list, one) = match operand {
        Operand::Fragment(first, n) => (*first, *n, &[][..], None),
        Operand::Scattered(list) => (0, 0, &list[..], None),
        Operand::Scalar(r) => (0, 0, &[][..], Some(*r)),
        Operand::Literal(_) | Operand::None => (0, 0, &[][..], None),
    };
    (first..first + n).chain(list.iter().copied()).map(Reg::R).chain(one)
}

fn count(names: &mut [u32; 3], reg: Reg) {
    let (class, n) = match reg {
        Reg::R(n) => (0, n),
        Reg::D(n) => (1, n),
        Reg::Pred(n) => (2, n),
    };
    names[class] = names[class].max(u32::from(n) + 1);
}

/// Copies a product's accumulator before the product, and before the `wgmma.fence` that orders register writes before
/// the product.
fn copy_accumulator(
    normal: &mut Normalized<'_>,
    product: Inst,
    analysis: &Analysis,
    budget: &Budget<'_>,
) -> Result<(), RegallocError> {
    let func = &mut normal.func;
    let holds = |func: &Func<'_>, b: Block| func.blocks[b].insts.iter().position(|&i| i == product);
    let found = analysis.live.blocks.iter().enumerate().find_map(|(n, &b)| Some((n, b, holds(func, b)?)));
    let (Some((number, block, at)), Some(&acc)) = (found, func.insts[product].args.first()) else {
        return Err(malformed(budget, product, "a product stands in no block, or has no accumulator"));
    };
    let flying = analysis.planned.get(acc).is_some_and(|i| {
        flies_before(normal, &analysis.live, &analysis.planned, &analysis.ranges, (number, at), i)
    });
    if flying {
        let (role, value) = (budget.role.to_owned(), pressure::name(&normal.func, acc));
        return Err(RegallocError::InFlight { role, inst: product, value });
    }
    let func = &mut normal.func;
    let place = fence_before(func, block, at, &[acc]);
    let types: [Ty; 1] = [func.ty(acc)];
    let loc = func.insts[product].loc;
    let copy = func.push(block, NewInst::new(Opcode::Join, &[acc], &types).loc(loc));
    func.pop(block);
    func.insert(block, place, copy);
    let mut args = func.insts[product].args.to_vec();
    args[0] = func.result(copy);
    func.set_args(product, &args);
    Ok(())
}
