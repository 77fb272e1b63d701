//! Accesses of a program to memory in program order, and the pairs to shared memory that may not change places.
//!
//! ```text
//!  for { store B ; load B }      accesses: store B, load B        inside(for) = both
//!                                load ──0──► store      store ──1──► load
//! ```

use super::access::{global_access, touched};
use petgraph::Direction;
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::EdgeRef;
use rustc_hash::FxHashMap;
use std::ops::Range;
use warplift_ir::entity::SecondaryMap;
use warplift_ir::machine::{Block, Buffer, Func, GlobalAccess, Inst};

/// An access to a buffer of shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    pub inst: Inst,
    pub buffer: Buffer,
    pub writes: bool,
}

/// A plain access to global memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Global {
    pub inst: Inst,
    pub access: GlobalAccess,
    pub writes: bool,
}

/// Accesses of a program in program order.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub(super) struct Accesses {
    all: Vec<Access>,
    /// The range of that list with the accesses inside each loop and branch.
    inside: FxHashMap<Inst, Range<usize>>,
    of_buffer: SecondaryMap<Buffer, Vec<Access>>,
    /// The range of that list with the accesses of each instruction, without those inside it.
    of_inst: FxHashMap<Inst, Range<usize>>,
    /// Plain accesses to global memory.
    global: Vec<Global>,
    /// Whether an instruction stands in one of the lists.
    known: SecondaryMap<Inst, bool>,
}

impl Accesses {
    pub(super) fn of(func: &Func<'_>) -> Self {
        let mut this = Self::default();
        this.block(func, func.entry);
        this
    }

    fn block(&mut self, func: &Func<'_>, block: Block) {
        for &inst in &func.blocks[block].insts {
            let d = &func.insts[inst];
            let own = self.all.len();
            for (buffer, writes) in touched(&d.attr, d.op) {
                self.all.push(Access { inst, buffer, writes });
                self.of_buffer[buffer].push(Access { inst, buffer, writes });
            }
            let from = self.all.len();
            if from > own {
                self.of_inst.insert(inst, own..from);
            }
            self.global.extend(global_access(d).map(|(access, writes)| Global { inst, access, writes }));
            self.known[inst] = from > own || global_access(d).is_some();
            d.blocks.iter().for_each(|&b| self.block(func, b));
            if self.all.len() > from {
                self.inside.insert(inst, from..self.all.len());
            }
        }
    }

    /// Accesses to a buffer.
    pub(super) fn to(&self, buffer: Buffer) -> &[Access] {
        &self.of_buffer[buffer]
    }

    /// Accesses that an instruction makes itself.
    pub(super) fn by(&self, inst: Inst) -> &[Access] {
        self.of_inst.get(&inst).map_or(&[], |range| &self.all[range.clone()])
    }

    /// All accesses to shared memory.
    pub(super) fn all(&self) -> &[Access] {
        &self.all
    }

    /// All plain accesses to global memory.
    pub(super) fn global(&self) -> &[Global] {
        &self.global
    }

    /// Accesses in the nested blocks of an instruction.
    pub(super) fn inside(&self, inst: Inst) -> &[Access] {
        self.inside.get(&inst).map_or(&[], |range| &self.all[range.clone()])
    }

    /// Whether the lists may be wrong after an edit of this instruction.
    pub(super) fn depend_on(&self, func: &Func<'_>, inst: Inst) -> bool {
        let d = &func.insts[inst];
        let accesses = !touched(&d.attr, d.op).is_empty() || global_access(d).is_some();
        self.known[inst] || !d.blocks.is_empty() || accesses
    }
}

/// The order of accesses. An edge leads from an access to one that it must follow, with a distance in iterations.
#[derive(Clone, Default, Debug)]
pub(super) struct Order {
    edges: DiGraph<Inst, u32>,
    index: SecondaryMap<Inst, Option<NodeIndex>>,
}

impl Order {
    pub(super) fn of(func: &Func<'_>, accesses: &Accesses) -> Self {
        let mut this = Self::default();
        let mut buffers: Vec<Buffer> = accesses.all.iter().map(|a| a.buffer).collect();
        buffers.sort_unstable();
        buffers.dedup();
        buffers.into_iter().for_each(|b| this.buffer(func, accesses.to(b)));
        this
    }

    /// Two accesses keep their order if one of them writes. In a loop the first also follows the second of the
    /// iteration before.
    fn buffer(&mut self, func: &Func<'_>, all: &[Access]) {
        for (n, second) in all.iter().enumerate() {
            let before = all[..n].iter().filter(|first| first.writes || second.writes);
            for first in before.filter(|f| f.inst != second.inst) {
                self.edge(second.inst, first.inst, 0);
                if repeat_together(func, first.inst, second.inst) {
                    self.edge(first.inst, second.inst, 1);
                }
            }
        }
    }

    fn edge(&mut self, from: Inst, to: Inst, distance: u32) {
        let [from, to] = [from, to].map(|i| *self.index[i].get_or_insert_with(|| self.edges.add_node(i)));
        self.edges.add_edge(from, to, distance);
    }

    /// Accesses that an access must follow, each with the distance in iterations.
    pub(super) fn follows(&self, inst: Inst) -> impl Iterator<Item = (Inst, u32)> + '_ {
        let edges = self.index[inst].into_iter();
        let edges = edges.flat_map(|n| self.edges.edges_directed(n, Direction::Outgoing));
        edges.map(|e| (self.edges[e.target()], *e.weight()))
    }
}

/// Whether one loop contains both instructions.
fn repeat_together(func: &Func<'_>, one: Inst, other: Inst) -> bool {
    let [Some(a), Some(b)] = [one, other].map(|i| func.block_of(i)) else { return false };
    func.around(a).any(|block| func.loop_of(block).is_some() && func.is_within(b, block))
}
