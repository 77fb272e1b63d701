//! The dependence graph of a structured program.
//!
//! ```text
//!  for t carry x = z {            x ──1──► y         one iteration before
//!    a = load A[t]                x ──0──► z         at the start
//!    await a                      y ──0──► x, a      values
//!    y = add x, a                 await ──► load     events
//!    store B, y ; b = load B      load B ──0──► store B, store B ──1──► load B      memory
//!    yield y }                    all ──► for        control
//! ```
//!
//! A node is an instruction, or a value that structure passes on (a block's parameter, a result of a loop or branch).
//! An edge leads from a user to the node it needs, with a distance in iterations of the loop around both. A role's code
//! is everything that its effects reach over values and control. Roles are cut at events and memory (Task-Based Tensor
//! Computations on Modern GPUs, section 4.2.1). Accesses to memory are collected at the first request.

use super::access::touched;
use super::structure::yields;
use petgraph::Direction;
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::{Dfs, EdgeFiltered, EdgeRef};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cell::OnceCell;
use std::ops::Range;
use warplift_ir::entity::SecondaryMap;
use warplift_ir::machine::{Block, Buffer, Func, Inst, Ty, Value};
use warplift_ir::target::Opcode;

/// A node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Node {
    /// An instruction.
    Inst(Inst),
    /// A block's parameter, or a result of a loop or branch.
    Value(Value),
}

/// Why a user needs a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Edge {
    /// The user reads this value, made this many iterations before.
    Value(Value, u32),
    /// The user waits for the event.
    Event(Value),
    /// The user stands inside the node.
    Control,
}

/// An access to a buffer of shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    pub inst: Inst,
    pub buffer: Buffer,
    pub writes: bool,
}

/// Accesses of a program in program order, and the pairs that may not change places.
#[derive(Default)]
struct Memory {
    all: Vec<Access>,
    /// The range of that list with the accesses inside each loop and branch.
    inside: FxHashMap<Inst, Range<usize>>,
    of_buffer: SecondaryMap<Buffer, Vec<Access>>,
    /// Edges from an access to one that it must follow, with a distance in iterations.
    order: DiGraph<Inst, u32>,
    index: SecondaryMap<Inst, Option<NodeIndex>>,
}

/// The dependence graph.
pub(crate) struct Graph {
    graph: DiGraph<Node, Edge>,
    insts: SecondaryMap<Inst, Option<NodeIndex>>,
    values: SecondaryMap<Value, Option<NodeIndex>>,
    memory: OnceCell<Memory>,
}

impl Graph {
    /// Builds the graph of a structured function.
    pub(crate) fn of(func: &Func<'_>) -> Self {
        let graph = DiGraph::with_capacity(func.insts.len(), 3 * func.insts.len());
        let (insts, values) = (SecondaryMap::new(), SecondaryMap::new());
        let mut g = Self { graph, insts, values, memory: OnceCell::new() };
        g.block(func, func.entry, None);
        g
    }

    fn node(&mut self, n: Node) -> NodeIndex {
        let index = match n {
            Node::Inst(i) => &mut self.insts[i],
            Node::Value(v) => &mut self.values[v],
        };
        *index.get_or_insert_with(|| self.graph.add_node(n))
    }

    fn edge(&mut self, from: Node, to: Node, e: Edge) {
        let (a, b) = (self.node(from), self.node(to));
        self.graph.add_edge(a, b, e);
    }

    /// The node that stands for a value.
    fn of_value(func: &Func<'_>, v: Value) -> Node {
        match func.def(v) {
            Some(i) if !matches!(func.insts[i].op, Opcode::For | Opcode::If) => Node::Inst(i),
            _ => Node::Value(v),
        }
    }

    fn uses(&mut self, func: &Func<'_>, from: Node, v: Value, distance: u32) {
        let kind = if func.ty(v) == Ty::Event { Edge::Event(v) } else { Edge::Value(v, distance) };
        self.edge(from, Self::of_value(func, v), kind);
    }

    fn block(&mut self, func: &Func<'_>, block: Block, holder: Option<Inst>) {
        for &inst in &func.blocks[block].insts {
            let data = &func.insts[inst];
            let node = Node::Inst(inst);
            self.node(node);
            if let Some(h) = holder {
                self.edge(node, Node::Inst(h), Edge::Control);
            }
            match data.op {
                Opcode::For => self.looped(func, inst),
                Opcode::If => self.branch(func, inst),
                // A yield's operands are needed only if the block's results are needed.
                Opcode::Yield => {}
                _ => {
                    for &v in data.args.iter().chain(data.guard.as_ref().map(|g| &g.pred)) {
                        self.uses(func, node, v, 0);
                    }
                }
            }
            for &b in &data.blocks {
                self.block(func, b, Some(inst));
            }
        }
    }

    fn looped(&mut self, func: &Func<'_>, inst: Inst) {
        let data = &func.insts[inst];
        for &v in &data.args[..3] {
            self.uses(func, Node::Inst(inst), v, 0);
        }
        let body = data.blocks[0];
        let params = &func.blocks[body].params;
        self.edge(Node::Value(params[0]), Node::Inst(inst), Edge::Control);
        for (n, &result) in data.results.iter().enumerate() {
            let carried = Node::Value(params[1 + n]);
            self.edge(carried, Node::Inst(inst), Edge::Control);
            self.uses(func, carried, data.args[3 + n], 0);
            if let Some(&y) = yields(func, body).get(n) {
                self.uses(func, carried, y, 1);
            }
            self.edge(Node::Value(result), carried, Edge::Value(params[1 + n], 0));
        }
    }

    fn branch(&mut self, func: &Func<'_>, inst: Inst) {
        let data = &func.insts[inst];
        self.uses(func, Node::Inst(inst), data.args[0], 0);
        for (n, &result) in data.results.iter().enumerate() {
            self.edge(Node::Value(result), Node::Inst(inst), Edge::Control);
            for &b in &data.blocks {
                if let Some(&y) = yields(func, b).get(n) {
                    self.uses(func, Node::Value(result), y, 0);
                }
            }
        }
    }

    /// Everything that these instructions need inside their role: all that they reach by values and control.
    pub(crate) fn slice(&self, roots: impl Iterator<Item = Inst>) -> FxHashSet<Node> {
        let kept = EdgeFiltered::from_fn(&self.graph, |e| !matches!(e.weight(), Edge::Event(_)));
        let mut dfs = Dfs::empty(&kept);
        let mut seen = FxHashSet::default();
        for root in roots.filter_map(|i| self.insts[i]) {
            dfs.move_to(root);
            while let Some(n) = dfs.next(&kept) {
                seen.insert(self.graph[n]);
            }
        }
        seen
    }

    /// The value that the loop's body passes on for a parameter: the parameter's value in the next iteration.
    pub(crate) fn carried(&self, param: Value) -> Option<Value> {
        let edges = self.graph.edges(self.values[param]?);
        edges.into_iter().find_map(|e| match *e.weight() {
            Edge::Value(v, 1) => Some(v),
            _ => None,
        })
    }

    /// The instructions whose events an await waits for, in the order of its operands.
    pub(crate) fn awaited(&self, inst: Inst) -> Vec<Inst> {
        let edges = self.insts[inst].into_iter().flat_map(|n| self.graph.edges(n));
        let events = edges.filter(|e| matches!(e.weight(), Edge::Event(_)));
        let mut awaited: Vec<Inst> = events
            .filter_map(|e| match self.graph[e.target()] {
                Node::Inst(i) => Some(i),
                Node::Value(_) => None,
            })
            .collect();
        // petgraph returns the last edge first.
        awaited.reverse();
        awaited
    }

    /// Accesses to a buffer, in program order.
    pub(crate) fn accesses(&self, func: &Func<'_>, buffer: Buffer) -> &[Access] {
        &self.memory(func).of_buffer[buffer]
    }

    /// Accesses in the nested blocks of an instruction, in program order.
    pub(crate) fn accesses_inside(&self, func: &Func<'_>, inst: Inst) -> &[Access] {
        let m = self.memory(func);
        m.inside.get(&inst).map_or(&[], |range| &m.all[range.clone()])
    }

    /// Accesses that an access must follow, each with the distance in iterations. At least one of the two writes.
    pub(crate) fn follows(&self, func: &Func<'_>, inst: Inst) -> impl Iterator<Item = (Inst, u32)> + '_ {
        let m = self.memory(func);
        let edges = m.index[inst].into_iter().flat_map(|n| m.order.edges_directed(n, Direction::Outgoing));
        edges.map(|e| (m.order[e.target()], *e.weight()))
    }

    fn memory(&self, func: &Func<'_>) -> &Memory {
        self.memory.get_or_init(|| Memory::of(func))
    }
}

impl Memory {
    fn of(func: &Func<'_>) -> Self {
        let mut m = Self::default();
        m.block(func, func.entry);
        let mut buffers: Vec<Buffer> = m.all.iter().map(|a| a.buffer).collect();
        buffers.sort_unstable();
        buffers.dedup();
        buffers.into_iter().for_each(|b| m.orders(func, b));
        m
    }

    fn block(&mut self, func: &Func<'_>, block: Block) {
        for &inst in &func.blocks[block].insts {
            let d = &func.insts[inst];
            for (buffer, writes) in touched(&d.attr, d.op) {
                self.all.push(Access { inst, buffer, writes });
                self.of_buffer[buffer].push(Access { inst, buffer, writes });
            }
            let from = self.all.len();
            d.blocks.iter().for_each(|&b| self.block(func, b));
            if self.all.len() > from {
                self.inside.insert(inst, from..self.all.len());
            }
        }
    }

    /// Two accesses keep their order if one of them writes. In a loop the first also follows the second of the
    /// iteration before.
    fn orders(&mut self, func: &Func<'_>, buffer: Buffer) {
        let all = std::mem::take(&mut self.of_buffer[buffer]);
        for (n, second) in all.iter().enumerate() {
            let before = all[..n].iter().filter(|first| first.writes || second.writes);
            for first in before.filter(|f| f.inst != second.inst) {
                self.order(second.inst, first.inst, 0);
                if repeat_together(func, first.inst, second.inst) {
                    self.order(first.inst, second.inst, 1);
                }
            }
        }
        self.of_buffer[buffer] = all;
    }

    fn order(&mut self, from: Inst, to: Inst, distance: u32) {
        let [from, to] = [from, to].map(|i| *self.index[i].get_or_insert_with(|| self.order.add_node(i)));
        self.order.add_edge(from, to, distance);
    }
}

/// Whether one loop contains both instructions.
fn repeat_together(func: &Func<'_>, one: Inst, other: Inst) -> bool {
    let [Some(a), Some(b)] = [one, other].map(|i| func.block_of(i)) else { return false };
    func.around(a).any(|block| func.loop_of(block).is_some() && func.is_within(b, block))
}

#[cfg(test)]
mod tests {
    use super::*;
    use warplift_ir::Bump;
    use warplift_ir::entity::EntityRef;
    use warplift_ir::machine::{Attr, NewInst, Place};

    /// A loop that adds to a carried value, and stores to and loads from a buffer.
    #[test]
    fn distances_of_values_and_memory_are_those_of_the_loop() {
        let bump = Bump::new();
        let mut func = Func::new(&bump);
        let (entry, body) = (func.entry, func.new_block());
        let [t, x] = [0, 1].map(|_| func.append_param(body, Ty::B32, false));
        let zero = func.push(entry, NewInst::new(Opcode::Const, &[], &[Ty::B32]).attr(Attr::Imm(0)));
        let z = func.result(zero);
        let add = func.push(body, NewInst::new(Opcode::AddS32, &[x, t], &[Ty::B32]));
        let y = func.result(add);
        let place = Place { buffer: Buffer::new(0), offset: 0 };
        let mem = Attr::PlaceMem { place, count: 1 };
        let store = func.push(body, NewInst::new(Opcode::StShared, &[t, y], &[]).attr(mem.clone()));
        let load = func.push(body, NewInst::new(Opcode::LdShared, &[t], &[Ty::frag(1)]).attr(mem));
        func.push(body, NewInst::new(Opcode::Yield, &[y], &[]));
        let looped = func.push(entry, NewInst::new(Opcode::For, &[z, z, z, z], &[Ty::B32]).blocks(&[body]));
        let graph = Graph::of(&func);
        assert_eq!((graph.carried(x), graph.carried(t)), (Some(y), None));
        let order = |i| graph.follows(&func, i).collect::<Vec<_>>();
        assert_eq!((order(load), order(store)), (vec![(store, 0)], vec![(load, 1)]));
        assert_eq!(graph.accesses_inside(&func, looped).len(), 2);
        assert_eq!(graph.accesses_inside(&func, load), []);
        let writes: Vec<bool> = graph.accesses(&func, place.buffer).iter().map(|a| a.writes).collect();
        assert_eq!(writes, [true, false]);
        let kept = graph.slice([store].into_iter());
        let needs = |n| kept.contains(&n);
        assert!(needs(Node::Inst(add)) && needs(Node::Inst(looped)) && needs(Node::Value(x)));
        assert!(!needs(Node::Inst(load)), "memory is where roles are cut");
    }
}
