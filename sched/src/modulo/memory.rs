//! Accesses of threads to memory, as nodes of an iteration's graph.
//!
//! ```text
//!  st.shared x 8, addresses between     one node, at whose end a barrier follows     "what threads leave each other"
//!  ld.shared x 8                        one node
//!  st.global x 16, red x 4              one node, behind the global stores before it
//! ```
//!
//! Accesses to one place that stand side by side are issued one after the other, so they are one node. What order they
//! keep is an edge: see `edges`.

use super::body::{Build, Node, Stored};
use crate::analysis::{Access, global_access};
use warplift_ir::machine::{Attr, Buffer, BufferKind, Inst};
use warplift_ir::target::{Effect, Opcode};

impl Build<'_, '_> {
    /// Accesses of an instruction to shared memory.
    pub(super) fn accesses(&self, inst: Inst) -> &[Access] {
        self.graph.accesses_by(self.func, inst)
    }

    /// Whether an instruction reads a ring, what threads leave each other in shared memory, or global memory. Loops that
    /// read global memory that the kernel writes are not rewritten.
    pub(super) fn reads(&self, inst: Inst) -> bool {
        if self.loads_globally(inst) {
            return true;
        }
        let accesses = self.accesses(inst);
        let ordered = |b: Buffer| self.program.buffers[b].kind.is_ring() || self.is_scratch(b);
        !accesses.is_empty() && accesses.iter().all(|a| !a.writes && ordered(a.buffer))
    }

    fn is_scratch(&self, buffer: Buffer) -> bool {
        matches!(self.program.buffers[buffer].kind, BufferKind::Scratch | BufferKind::Operand)
    }

    /// Whether an instruction is a thread's load from global memory.
    fn loads_globally(&self, inst: Inst) -> bool {
        let d = &self.func.insts[inst];
        d.op.effect() == Effect::Read && global_access(d).is_some_and(|(_, writes)| !writes)
    }

    /// Adds a load to preceding loads from the same place, because they are issued one after the other.
    pub(super) fn joins_loads(&mut self, inst: Inst) -> bool {
        let before = self.body.nodes.last().and_then(|n| n.insts.last()).copied();
        if !before.is_some_and(|b| self.loads_as(b, inst)) {
            return false;
        }
        let (n, node) = (self.body.nodes.len() - 1, self.node(inst, vec![inst]));
        self.join(n, node);
        true
    }

    /// Whether both instructions are threads' loads, from global memory or from the same buffer.
    fn loads_as(&self, one: Inst, other: Inst) -> bool {
        let of = |i: Inst| {
            let d = &self.func.insts[i];
            let loads = d.op != Opcode::Wgmma && self.reads(i);
            loads.then(|| self.accesses(i).first().map(|a| a.buffer))
        };
        of(one).is_some_and(|from| of(other) == Some(from))
    }

    /// The place to which an instruction stores and from which it takes nothing. What orders other accesses, such as an
    /// atomic update with a scope of its own, is none.
    pub(super) fn stored_to(&self, inst: Inst) -> Option<Stored> {
        let d = &self.func.insts[inst];
        match *self.accesses(inst) {
            _ if !d.blocks.is_empty() || !d.results.is_empty() => None,
            [Access { buffer, writes: true, .. }] if self.is_scratch(buffer) => Some(Stored::Scratch(buffer)),
            [] if matches!(d.attr, Attr::GlobalMem { .. }) => Some(Stored::Global),
            _ => None,
        }
    }

    /// Adds a store. It joins the node of earlier stores to the same place, if only small work stands between them.
    pub(super) fn store(&mut self, inst: Inst, to: Stored) {
        let mut node = self.node(inst, vec![inst]);
        if let Stored::Scratch(_) = to {
            node.latency += u32::from(self.limits.target.row(Opcode::BarSync).latency);
        }
        let small = |n: &Node| n.insts.iter().all(|&i| self.is_small(i));
        let before = self.stores.get(&to).and_then(|all| all.last()).copied();
        let before = before.filter(|&n| self.body.nodes[n + 1..].iter().all(small));
        let Some(n) = before else {
            self.stores.entry(to).or_default().push(self.body.nodes.len());
            return self.body.nodes.push(node);
        };
        let between: Vec<Node> = self.body.nodes.drain(n + 1..).collect();
        between.into_iter().chain([node]).for_each(|part| self.join(n, part));
    }

    /// Adds a node's instructions to another one.
    fn join(&mut self, n: usize, part: Node) {
        let results = part.insts.iter().flat_map(|&i| self.func.insts[i].results);
        self.node_of.extend(results.map(|&r| (r, n)));
        self.body.nodes[n].join(part);
    }
}
