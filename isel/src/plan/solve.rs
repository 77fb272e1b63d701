//! The constraint solver: a queue of the constraints that are ready, because a layout of theirs is known (Hexcute,
//! Algorithm 1).
//!
//! ```text
//!  anchor ─► layout of a tile ─► its constraints are ready ─► solve the next one in program order
//!                   ▲                                                     │
//!                   └─────────── a layout became known, or a conflict ◄───┘
//! ```
//!
//! The queue is in program order and is processed round after round, so the result depends on the program alone. If a
//! constraint finds two layouts where it demands one, it notes the conflict in the plan: the use or result with the
//! other layout gets a version of its own (Linear Layouts, section 4.4).

use super::blocked::blocked;
use super::constraint::{Constraint, Relation, Slot, adapts, constraints, shapes};
use super::types::Plan;
use super::{propagate, staged};
use crate::takes::{refusal, takes};
use crate::tiles::{layout_error, warps};
use crate::{IselError, Result};
use smallvec::SmallVec;
use std::collections::BTreeSet;
use warplift_ir::entity::SecondaryMap;
use warplift_ir::layout::{Axis, Layout, fragment};
use warplift_ir::tile::{Inst, Kernel, Op, Value};
use warplift_ir::types::Elem;

/// How often each constraint may be solved, on average, before the solver gives up: the layouts form a cycle.
const ROUNDS: usize = 64;

/// The constraints of a kernel, indexed by tile.
pub(super) struct Solver<'k> {
    k: &'k Kernel,
    constraints: Vec<Constraint>,
    of: SecondaryMap<Value, SmallVec<[u32; 4]>>,
}

impl<'k> Solver<'k> {
    /// The constraints of a kernel.
    pub fn new(k: &'k Kernel, order: &[Inst]) -> Self {
        let constraints = constraints(k, order);
        let mut of: SecondaryMap<Value, SmallVec<[u32; 4]>> = SecondaryMap::new();
        for (n, c) in (0u32..).zip(&constraints) {
            for slot in &c.slots {
                let list = &mut of[slot.value(k)];
                if list.last() != Some(&n) {
                    list.push(n);
                }
            }
        }
        Self { k, constraints, of }
    }

    /// Propagates the layouts of some tiles until every constraint holds.
    ///
    /// # Errors
    /// An operation has no result layout for an operand's layout.
    pub fn spread(&self, known: impl IntoIterator<Item = Value>, plan: &mut Plan) -> Result<()> {
        let mut ready: BTreeSet<u32> = known.into_iter().flat_map(|v| self.of[v].iter().copied()).collect();
        let (mut at, mut fuel) = (0, ROUNDS * (self.constraints.len() + 1));
        while let Some(next) = ready.range(at..).next().or(ready.first()).copied() {
            ready.remove(&next);
            at = next + 1;
            let c = &self.constraints[next as usize];
            for slot in self.solve(c, plan)? {
                ready.extend(&self.of[slot.value(self.k)]);
            }
            fuel -= 1;
            if fuel == 0 {
                return Err(IselError::at(
                    self.k,
                    c.inst,
                    "the layouts of this instruction do not settle: each choice changes the other; pin one of its tiles in the mapping",
                ));
            }
        }
        Ok(())
    }

    /// The constraints that a plan violates; empty for every plan of this solver.
    #[cfg(test)]
    pub fn broken(&self, plan: &Plan) -> Vec<&Constraint> {
        let stays = |c: &&Constraint| {
            let mut again = plan.clone();
            self.solve(c, &mut again).is_ok_and(|changed| changed.is_empty())
        };
        self.constraints.iter().filter(|c| !stays(c)).collect()
    }

    /// Solves one constraint. Returns the slots whose layout became known or changed.
    fn solve(&self, c: &Constraint, plan: &mut Plan) -> Result<SmallVec<[Slot; 4]>> {
        if c.relation == Relation::Equal {
            return self.equal(c, plan);
        }
        let [operand, result] = [c.slots[0], c.slots[1]];
        let known = |s: Slot| s.layout(self.k, plan).is_some();
        let forward = match c.relation {
            Relation::Expanded(_) | Relation::Broadcast => false,
            Relation::Reshaped | Relation::Permuted(_) => known(operand),
            Relation::Joined => !known(result),
            Relation::Sliced(_) => known(operand) || adapts(self.k, operand.value(self.k)),
            Relation::Unpacked if known(operand) && known(result) => return Ok(SmallVec::new()),
            Relation::Unpacked => known(operand),
            _ => true,
        };
        let changed = self.follow(c, forward, plan)?;
        match changed.is_empty() && c.relation == Relation::Reinterpreted {
            true => self.follow(c, false, plan),
            false => Ok(changed),
        }
    }

    /// The other slot gets the layout that follows from the known one.
    fn follow(&self, c: &Constraint, forward: bool, plan: &mut Plan) -> Result<SmallVec<[Slot; 4]>> {
        let [from, to] = if forward { [c.slots[0], c.slots[1]] } else { [c.slots[1], c.slots[0]] };
        let Some(layout) = from.layout(self.k, plan) else { return Ok(SmallVec::new()) };
        let layout = match self.derived(c, layout, forward) {
            Err(_) if forward && matches!(c.relation, Relation::Sliced(_)) => self.convert(c, plan)?,
            derived => derived?,
        };
        let changed = self.give(c.inst, to, &layout, plan)?;
        Ok(changed.then_some(to).into_iter().collect())
    }

    /// Gives the operand of a slice a layout of its own, whose registers the slice does not cut. Returns the result's.
    fn convert(&self, c: &Constraint, plan: &mut Plan) -> Result<Layout> {
        let k = self.k;
        let [whole, part] = shapes(k, c);
        let dim = part.len().saturating_sub(1);
        let elem = k.ty(c.slots[0].value(k)).elem();
        let packed = if elem == Elem::Bool { 1 } else { 32 / elem.bits().clamp(1, 32) };
        let whole_registers = part[dim].is_multiple_of(packed);
        if !takes(&k.insts[c.inst].op, elem) || elem.bits() < 8 && !whole_registers {
            return Err(IselError::at(k, c.inst, refusal(&k.insts[c.inst].op, elem)));
        }
        let vector = if whole_registers { packed } else { 1 };
        let layout = match c.slots[1].layout(k, plan) {
            Some(known) => known.clone(),
            None => blocked(&part, dim, vector, warps(k, c.inst)).map_err(layout_error(k, c.inst))?,
        };
        let whole = propagate::unsliced(k, c.inst, &layout, &part, &whole)?;
        if let Relation::Sliced(from) = &c.relation {
            propagate::slice_layout(k, c.inst, &whole, from, &part)?;
        }
        if let Slot::Use(inst, n) = c.slots[0] {
            plan.uses.insert((inst, n), whole);
        }
        Ok(layout)
    }

    /// The constraint of an instruction; the instruction has one.
    pub fn of_inst(&self, inst: Inst) -> Option<&Constraint> {
        self.constraints.iter().find(|c| c.inst == inst)
    }

    /// The layout of one slot of a constraint, from the layout of the other.
    pub fn derived(&self, c: &Constraint, l: &Layout, forward: bool) -> Result<Layout> {
        let (k, inst) = (self.k, c.inst);
        if c.relation == Relation::Equal {
            return Ok(l.clone());
        }
        let shapes = shapes(k, c);
        let [from, to] = if forward { [&shapes[0], &shapes[1]] } else { [&shapes[1], &shapes[0]] };
        match &c.relation {
            Relation::Reduced(d) | Relation::Expanded(d) => {
                fragment::row_slice(l, *d).map_err(layout_error(k, inst))
            }
            Relation::Joined if forward => propagate::joined(k, inst, l, to),
            Relation::Joined => fragment::row_slice(l, to.len() as u8).map_err(layout_error(k, inst)),
            Relation::Sliced(offsets) if forward => propagate::slice_layout(k, inst, l, offsets, to),
            Relation::Sliced(_) => propagate::unsliced(k, inst, l, from, to),
            Relation::Broadcast => propagate::collapse(k, inst, l, to),
            Relation::Permuted(perm) if forward => propagate::permute(l, perm).map_err(layout_error(k, inst)),
            Relation::Permuted(perm) => propagate::permute(l, &inverse(perm)).map_err(layout_error(k, inst)),
            Relation::Reshaped => propagate::reshaped(k, inst, l, [from, to]),
            Relation::Reinterpreted => {
                let [from, to] = if forward { [0, 1] } else { [1, 0] };
                let bits = |n: usize| k.ty(c.slots[n].value(k)).elem().bits();
                propagate::reinterpreted(k, inst, l, bits(from), bits(to))
            }
            // The operand's registers have an order of their own; the cast reorders them.
            Relation::Unpacked if !forward => staged::narrow_order(k, inst, c.slots[0].value(k), l),
            Relation::Unpacked | Relation::Equal => Ok(l.clone()),
        }
    }

    /// All slots get one layout: the one of a loop-carried value if there is one, else the one that leaves the fewest
    /// bits to convert, the first among equals.
    fn equal(&self, c: &Constraint, plan: &mut Plan) -> Result<SmallVec<[Slot; 4]>> {
        let Some(layout) = self.agreed(c, plan).cloned() else { return Ok(SmallVec::new()) };
        let mut changed = SmallVec::new();
        for &slot in &c.slots {
            if self.give(c.inst, slot, &layout, plan)? {
                changed.push(slot);
            }
        }
        Ok(changed)
    }

    /// The common layout of the slots of a constraint.
    fn agreed<'p>(&self, c: &Constraint, plan: &'p Plan) -> Option<&'p Layout> {
        let k = self.k;
        let fixed = c.slots.iter().filter(|s| !s.is_free(k));
        let known: SmallVec<[(Slot, &Layout); 4]> =
            fixed.filter_map(|&s| Some((s, s.layout(k, plan)?))).collect();
        let to_convert = |layout: &Layout| -> u64 {
            let others = known.iter().filter(|(_, l)| *l != layout && !l.equivalent(layout));
            others.map(|(s, l)| l.in_extent(Axis::Reg) * u64::from(k.ty(s.value(k)).elem().bits())).sum()
        };
        let carried = known.iter().find(|(s, _)| matches!(s, Slot::Carried(_)));
        let best = match known.iter().all(|(_, l)| *l == known[0].1) {
            true => known.first(),
            false => carried.or_else(|| known.iter().min_by_key(|(_, l)| to_convert(l))),
        };
        best.map(|b| b.1).or_else(|| c.slots.iter().find_map(|s| s.layout(k, plan)))
    }

    /// Gives a slot a layout; `true` if it had none or another one.
    fn give(&self, inst: Inst, slot: Slot, layout: &Layout, plan: &mut Plan) -> Result<bool> {
        let v = slot.value(self.k);
        let full = self.k.def(v).is_some_and(|d| matches!(self.k.insts[d].op, Op::Full));
        match (slot.layout(self.k, plan), slot) {
            (None, _) => {
                plan.layouts[v] = Some(layout.clone());
            }
            (Some(old), _) if old == layout || full || old.equivalent(layout) => return Ok(false),
            (Some(_), Slot::Use(inst, n)) => {
                plan.uses.insert((inst, n), layout.clone());
            }
            (Some(_), Slot::Made(v)) => {
                plan.made.insert(v, layout.clone());
            }
            (Some(_), Slot::Carried(_)) => {
                return Err(IselError::at(
                    self.k,
                    inst,
                    format!("tile {v} is carried in two register layouts"),
                ));
            }
        }
        Ok(true)
    }
}

/// The permutation that undoes one.
fn inverse(perm: &[u8]) -> SmallVec<[u8; 4]> {
    let place = |d: usize| perm.iter().position(|&p| usize::from(p) == d).unwrap_or(d) as u8;
    (0..perm.len()).map(place).collect()
}
