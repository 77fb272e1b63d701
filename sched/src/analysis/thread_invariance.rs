//! The threads among which a value is the same, given by the bits of the thread's number that the value depends on.
//!
//! ```text
//!  bit   8 7   6 5      4 3 2 1 0
//!        group warp     lane             none: the same in the whole block
//!                                        lane alone: the same in every warp
//!  tid & 31         lane                 warp and group alone: the same in every lane of a warp
//!  (tid >> 5) & 3   warp of its group
//! ```
//!
//! Lanes exchange values in products, shuffles and matrix loads, so the results of these depend on the lane. The result
//! of a load from memory depends on more than the address only if threads write that memory.

use super::access::{reads_fixed, touched};
use super::graph::Graph;
use super::structure::{goes_on, yields};
use warplift_ir::entity::SecondaryMap;
use warplift_ir::machine::{Func, Inst, Value};
use warplift_ir::target::{Effect, Opcode};

/// Bits of a thread's number that are the lane.
pub(crate) const LANE: u32 = 31;
/// All bits, and anything else that may differ between threads.
const ANYTHING: u32 = u32::MAX;

/// The bits on which each value depends.
pub(crate) struct ThreadInvariance<'f, 'a> {
    func: &'f Func<'a>,
    graph: &'f Graph,
    of: SecondaryMap<Value, u32>,
    changed: bool,
}

impl<'f, 'a> ThreadInvariance<'f, 'a> {
    /// Computes the bits for the values of a structured function.
    pub(crate) fn of(func: &'f Func<'a>, graph: &'f Graph) -> Self {
        let mut this = Self { func, graph, of: SecondaryMap::new(), changed: true };
        // A carried value depends on the value that the loop passes on.
        while std::mem::take(&mut this.changed) {
            func.walk(|_, inst| this.inst(inst));
        }
        this
    }

    /// The bits of a thread's number on which a value depends.
    #[cfg(test)]
    fn bits(&self, v: Value) -> u32 {
        self.of[v]
    }

    /// Whether a value is the same in all threads of the block.
    pub(crate) fn in_block(&self, v: Value) -> bool {
        self.of[v] == 0
    }

    /// Whether a value is the same in all threads with the same lane, whatever their warp.
    pub(crate) fn in_warps(&self, v: Value) -> bool {
        self.of[v] & !LANE == 0
    }

    fn put(&mut self, v: Value, bits: u32) {
        self.changed |= bits & !self.of[v] != 0;
        self.of[v] |= bits;
    }

    fn all(&self, values: impl IntoIterator<Item = Value>) -> u32 {
        values.into_iter().fold(0, |all, v| all | self.of[v])
    }

    fn inst(&mut self, inst: Inst) {
        let func = self.func;
        let d = &func.insts[inst];
        let read = self.all(func.named(inst).chain(goes_on(func, inst)));
        for &b in &d.blocks {
            let given = if d.op == Opcode::For { &d.args[2..] } else { &[] };
            for (&p, &v) in func.blocks[b].params.iter().zip(given) {
                // The counter depends on all three bounds, which are the first operands.
                let decide = d.args[..3.min(d.args.len())].iter().copied();
                let bounds = self.all(decide.chain(goes_on(func, inst)));
                self.put(p, bounds | self.of[v]);
            }
            for (n, &y) in yields(func, b).iter().enumerate() {
                self.put(d.results[n], read | self.of[y]);
                if d.op == Opcode::For {
                    self.put(func.blocks[b].params[1 + n], self.of[y]);
                }
            }
        }
        let bits = match d.op {
            Opcode::For | Opcode::If => return,
            Opcode::Tid | Opcode::Elect => ANYTHING,
            Opcode::Laneid => LANE,
            // A warp takes the value of one lane.
            Opcode::Uniform => read & !LANE,
            op if exchanges_lanes(op) => read | LANE,
            op if op.is_pure() || reads_fixed(d) => read,
            _ if self.reads_copies(inst) => read | if d.op == Opcode::Ldmatrix { LANE } else { 0 },
            _ => ANYTHING,
        };
        for &r in d.results {
            let field = field(func, r).map(|(down, mask)| mask << down);
            self.put(r, field.unwrap_or(bits));
        }
    }

    /// Whether an instruction reads only shared memory that copies alone fill.
    fn reads_copies(&self, inst: Inst) -> bool {
        let d = &self.func.insts[inst];
        let from = touched(&d.attr, d.op);
        let copied = |b| {
            let mut writers = self.graph.accesses(self.func, b).iter().filter(|a| a.writes);
            writers.all(|a| self.func.insts[a.inst].op.is_async_load())
        };
        let reads = d.op.effect() == Effect::Read && !from.is_empty();
        reads && from.iter().all(|&(b, writes)| !writes && copied(b))
    }
}

/// Whether lanes of a warp exchange operands in an instruction.
fn exchanges_lanes(op: Opcode) -> bool {
    let shuffles = matches!(op, Opcode::ShflBfly | Opcode::ShflIdx);
    shuffles || matches!(op, Opcode::MmaSync | Opcode::ReduxAddS32 | Opcode::ReduxMaxS32 | Opcode::ReduxOr)
}

/// A value that is a field of the thread's number: the shift down, and the mask after it.
fn field(func: &Func<'_>, v: Value) -> Option<(u32, u32)> {
    let d = &func.insts[func.def(v)?];
    if d.op == Opcode::Tid {
        return Some((0, u32::MAX));
    }
    let by = u32::try_from(func.constant(*d.args.get(1)?)?).ok()?;
    let (down, mask) = field(func, d.args[0])?;
    match d.op {
        Opcode::And => Some((down, mask & by)),
        Opcode::ShrU32 if by < 32 => Some((down + by, mask >> by)),
        Opcode::DivU32 if by.is_power_of_two() => Some((down + by.ilog2(), mask >> by.ilog2())),
        Opcode::RemU32 if by.is_power_of_two() => Some((down, mask & (by - 1))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warplift_ir::Bump;
    use warplift_ir::machine::{Cursor, Ty};
    use warplift_ir::tile::Loc;

    #[test]
    fn fields_of_the_number_tell_which_threads_are_the_same() {
        let bump = Bump::new();
        let mut func = Func::new(&bump);
        let entry = func.entry;
        let mut c = Cursor::new(&mut func, entry, Loc::default());
        let block = c.op(Opcode::CtaidX, &[], Ty::B32);
        let tid = c.op(Opcode::Tid, &[], Ty::B32);
        let lane = c.and_imm(tid, 31);
        let five = c.imm(5);
        let warp = c.int(Opcode::ShrU32, tid, five);
        let of_group = c.and_imm(warp, 3);
        let both = c.add(lane, of_group);
        let shuffled = c.op(Opcode::ShflIdx, &[of_group, block], Ty::B32);
        let graph = Graph::built(&func);
        let t = ThreadInvariance::of(&func, &graph);
        let bits = [block, tid, lane, of_group, both, shuffled].map(|v| t.bits(v));
        assert_eq!(bits, [0, u32::MAX, 31, 3 << 5, 31 | 3 << 5, 31 | 3 << 5]);
        assert!(t.in_block(block) && t.in_warps(lane) && !t.in_warps(of_group));
    }
}
