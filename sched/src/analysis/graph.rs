//! The dependence graph of a structured program.
//!
//! Nodes are instructions and the values that structure passes on (block parameters, results of loops
//! and branches); an edge leads from a user to what it needs. A role's code is what its effects reach
//! over `Value` and `Control` edges; `Event` and `Memory` edges are where roles are cut.

use super::access::touched;
use super::structure::yields;
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::{Dfs, EdgeFiltered};
use rustc_hash::{FxHashMap, FxHashSet};
use warplift_ir::machine::{Block, Buffer, Func, Inst, Ty, Value};
use warplift_ir::target::Opcode;

/// A node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Node {
    /// An instruction.
    Inst(Inst),
    /// A block's parameter, or a result of a loop or branch.
    Value(Value),
}

/// Why a user needs something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Edge {
    /// It reads the value.
    Value,
    /// It waits for the event.
    Event,
    /// It reads what the other wrote to the buffer, or overwrites what it read.
    Memory,
    /// It stands inside it.
    Control,
}

/// The graph.
pub struct Graph {
    /// Nodes and edges.
    pub graph: DiGraph<Node, Edge>,
    index: FxHashMap<Node, NodeIndex>,
}

impl Graph {
    /// The graph of a structured function.
    pub fn of(func: &Func<'_>) -> Self {
        let mut g = Self { graph: DiGraph::new(), index: FxHashMap::default() };
        g.block(func, func.entry, None);
        g.memory(func);
        g
    }

    fn node(&mut self, n: Node) -> NodeIndex {
        let graph = &mut self.graph;
        *self.index.entry(n).or_insert_with(|| graph.add_node(n))
    }

    fn edge(&mut self, from: Node, to: Node, e: Edge) {
        let (a, b) = (self.node(from), self.node(to));
        self.graph.add_edge(a, b, e);
    }

    /// The node that stands for a value.
    pub fn of_value(func: &Func<'_>, v: Value) -> Node {
        match func.def(v) {
            Some(i) if !matches!(func.insts[i].op, Opcode::For | Opcode::If) => Node::Inst(i),
            _ => Node::Value(v),
        }
    }

    fn uses(&mut self, func: &Func<'_>, from: Node, v: Value) {
        let kind = if func.ty(v) == Ty::Event { Edge::Event } else { Edge::Value };
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
                // A yield's operands are needed only as far as its block's results are.
                Opcode::Yield => {}
                _ => {
                    for &v in data.args.iter().chain(data.guard.as_ref().map(|g| &g.pred)) {
                        self.uses(func, node, v);
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
            self.uses(func, Node::Inst(inst), v);
        }
        let body = data.blocks[0];
        let params = &func.blocks[body].params;
        self.edge(Node::Value(params[0]), Node::Inst(inst), Edge::Control);
        for (n, &result) in data.results.iter().enumerate() {
            let carried = Node::Value(params[1 + n]);
            self.edge(carried, Node::Inst(inst), Edge::Control);
            self.uses(func, carried, data.args[3 + n]);
            if let Some(&y) = yields(func, body).get(n) {
                self.uses(func, carried, y);
            }
            self.edge(Node::Value(result), carried, Edge::Value);
        }
    }

    fn branch(&mut self, func: &Func<'_>, inst: Inst) {
        let data = &func.insts[inst];
        self.uses(func, Node::Inst(inst), data.args[0]);
        for (n, &result) in data.results.iter().enumerate() {
            self.edge(Node::Value(result), Node::Inst(inst), Edge::Control);
            for &b in &data.blocks {
                if let Some(&y) = yields(func, b).get(n) {
                    self.uses(func, Node::Value(result), y);
                }
            }
        }
    }

    /// Readers of a buffer depend on its writers.
    fn memory(&mut self, func: &Func<'_>) {
        let mut writers: FxHashMap<Buffer, Vec<Inst>> = FxHashMap::default();
        let mut readers: Vec<(Inst, Buffer)> = Vec::new();
        for (inst, data) in func.insts.iter() {
            for (buffer, writes) in touched(&data.attr, data.op) {
                match writes {
                    true => writers.entry(buffer).or_default().push(inst),
                    false => readers.push((inst, buffer)),
                }
            }
        }
        for (reader, buffer) in readers {
            for &w in writers.get(&buffer).into_iter().flatten() {
                self.edge(Node::Inst(reader), Node::Inst(w), Edge::Memory);
            }
        }
    }

    /// What is needed for these instructions inside their role: everything reached by values and control.
    pub fn slice(&self, roots: impl Iterator<Item = Inst>) -> FxHashSet<Node> {
        use petgraph::visit::EdgeRef;
        let kept = EdgeFiltered::from_fn(&self.graph, |e| {
            matches!(*EdgeRef::weight(&e), Edge::Value | Edge::Control)
        });
        let mut dfs = Dfs::empty(&kept);
        let mut seen = FxHashSet::default();
        for root in roots {
            if let Some(&n) = self.index.get(&Node::Inst(root)) {
                dfs.move_to(n);
                while let Some(n) = dfs.next(&kept) {
                    seen.insert(self.graph[n]);
                }
            }
        }
        seen
    }
}
