//! The dependence graph of a structured program.
//!
//! ```text
//!  for t carry x = z {            x ──1──► y         one iteration before
//!    a = load A[t]                x ──0──► z         at the start
//!    await a                      y ──0──► x, a      values
//!    y = add x, a                 await ──► load     events
//!    store B, y ; b = load B      load B ──0──► store B, store B ──1──► load B      memory
//!    yield y }                    all ──► for        control
//!
//!  lower ─► Graph::of ─► rewrite ─► Graph::update ─► rewrite ─► .. ─► schedule, expand_roles
//!                           └── the function notes the instructions that it edits ──┘
//! ```
//!
//! A node is an instruction, or a value that structure passes on (a block's parameter, a result of a loop or branch).
//! An edge leads from a user to the node it needs, with a distance in iterations of the loop around both. A role's code
//! is everything that its effects reach over values and control. Roles are cut at events and memory (Task-Based Tensor
//! Computations on Modern GPUs, section 4.2.1).
//!
//! The graph is built once, after `lower`, and stands beside the program from then on. The function notes every
//! instruction that a pass edits, and [`Graph::update`] makes the edges of these anew. A pass that writes a whole new
//! function hands on a new graph. Accesses to memory are collected at the first request, and again after an edit of an
//! access: their lists are in program order, which a single edge does not hold. [`Graph::verify`] compares the kept
//! graph with a new one.

use super::memory::{Access, Accesses, Global, Order};
use super::structure::{goes_on, is_product, tile_loop, yields};
use petgraph::Direction;
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::{Dfs, EdgeFiltered, EdgeRef};
use rustc_hash::FxHashSet;
use smallvec::SmallVec;
use std::cell::OnceCell;
use std::collections::VecDeque;
use warplift_ir::entity::SecondaryMap;
use warplift_ir::machine::{Buffer, Func, GlobalAccess, Inst, InstData, Ty, Value, ValueDef};
use warplift_ir::target::{Effect, Opcode};

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

/// What a node needs, in order.
type Needs = SmallVec<[(Node, Edge); 6]>;

/// The dependence graph of a structured program.
#[derive(Clone)]
pub struct Graph {
    graph: DiGraph<Node, Edge>,
    insts: SecondaryMap<Inst, Option<NodeIndex>>,
    values: SecondaryMap<Value, Option<NodeIndex>>,
    accesses: OnceCell<Accesses>,
    order: OnceCell<Order>,
}

impl Graph {
    /// Builds the graph of a structured function, which notes its edits from then on for `Graph::update`.
    pub fn of(func: &mut Func<'_>) -> Self {
        func.follow_edits();
        Self::built(func)
    }

    /// Builds the graph of a function that nobody will edit.
    pub(crate) fn built(func: &Func<'_>) -> Self {
        let graph = DiGraph::with_capacity(func.insts.len(), 3 * func.insts.len());
        let (insts, values) = (SecondaryMap::new(), SecondaryMap::new());
        let mut g = Self { graph, insts, values, accesses: OnceCell::new(), order: OnceCell::new() };
        func.walk(|_, inst| owned(func, inst, |node| g.link(func, node)));
        g
    }

    /// Makes the edges of all edited instructions anew.
    ///
    /// # Panics
    /// The graph was not built by [`Graph::of`] for this function: a bug of the caller.
    pub(crate) fn update(&mut self, func: &mut Func<'_>) {
        let edited = func.take_edits().expect("the function notes its edits");
        for inst in edited {
            if self.accesses.get().is_some_and(|a| a.depend_on(func, inst)) {
                (self.accesses, self.order) = (OnceCell::new(), OnceCell::new());
            }
            self.refresh(func, inst);
        }
    }

    /// Makes the edges of an instruction anew, with those of the instructions inside it.
    fn refresh(&mut self, func: &Func<'_>, inst: Inst) {
        let stands = func.block_of(inst);
        let is_reachable = stands.is_some_and(|b| func.is_within(b, func.entry));
        if is_reachable
            && func.insts[inst].op == Opcode::Yield
            && let Some(holder) = stands.and_then(|b| func.holder(b))
        {
            owned(func, holder, |node| self.relink(func, node));
        }
        owned(func, inst, |node| if is_reachable { self.relink(func, node) } else { self.unlink(node) });
        for &i in func.insts[inst].blocks.iter().flat_map(|&b| &func.blocks[b].insts) {
            self.refresh(func, i);
        }
    }

    fn node(&mut self, n: Node) -> NodeIndex {
        let index = match n {
            Node::Inst(i) => &mut self.insts[i],
            Node::Value(v) => &mut self.values[v],
        };
        *index.get_or_insert_with(|| self.graph.add_node(n))
    }

    fn index(&self, n: Node) -> Option<NodeIndex> {
        match n {
            Node::Inst(i) => self.insts[i],
            Node::Value(v) => self.values[v],
        }
    }

    fn link(&mut self, func: &Func<'_>, node: Node) {
        let from = self.node(node);
        for (needed, edge) in needs(func, node) {
            let to = self.node(needed);
            self.graph.add_edge(from, to, edge);
        }
    }

    /// Links a node anew if its edges are not those that it needs.
    fn relink(&mut self, func: &Func<'_>, node: Node) {
        if self.index(node).is_none() || self.needs(node) != needs(func, node) {
            self.unlink(node);
            self.link(func, node);
        }
    }

    fn unlink(&mut self, node: Node) {
        let Some(n) = self.index(node) else { return };
        while let Some(edge) = self.graph.first_edge(n, Direction::Outgoing) {
            self.graph.remove_edge(edge);
        }
    }

    /// The edges of a node.
    fn needs(&self, node: Node) -> Needs {
        let edges = self.index(node).into_iter().flat_map(|n| self.graph.edges(n));
        let mut needs: Needs = edges.map(|e| (self.graph[e.target()], *e.weight())).collect();
        // petgraph returns the last edge first.
        needs.reverse();
        needs
    }

    /// Compares the graph with a new one.
    ///
    /// # Errors
    /// The first node whose edges differ, or the accesses to memory that do.
    pub fn verify(&self, func: &Func<'_>) -> Result<(), String> {
        let new = Self::built(func);
        for &node in new.graph.node_weights() {
            let [kept, needed] = [self.needs(node), new.needs(node)];
            if kept != needed {
                return Err(format!(
                    "the dependence graph is out of date: {node:?} needs {needed:?}, kept are {kept:?}"
                ));
            }
        }
        let [kept, all] = [self.graph.edge_count(), new.graph.edge_count()];
        if kept != all {
            return Err(format!("the dependence graph is out of date: it has {kept} edges instead of {all}"));
        }
        match self.accesses.get() {
            Some(kept) if *kept != Accesses::of(func) => {
                Err("the dependence graph is out of date: accesses to memory differ".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// Everything that these instructions need inside their role: all that they reach by values and control.
    pub(crate) fn slice(&self, roots: impl Iterator<Item = Inst>) -> FxHashSet<Node> {
        self.slice_up_to(roots.map(Node::Inst), &FxHashSet::default())
    }

    /// Everything that these nodes need inside their role, which is told the values of `known`: what only these need is
    /// left out.
    pub(crate) fn slice_up_to(
        &self,
        roots: impl Iterator<Item = Node>,
        known: &FxHashSet<Node>,
    ) -> FxHashSet<Node> {
        let followed = |from: NodeIndex| !known.contains(&self.graph[from]);
        let kept = EdgeFiltered::from_fn(&self.graph, |e| {
            !matches!(e.weight(), Edge::Event(_)) && followed(e.source())
        });
        let mut dfs = Dfs::empty(&kept);
        let mut seen = FxHashSet::default();
        for root in roots.filter_map(|n| self.index(n)) {
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
    pub(crate) fn awaited(&self, inst: Inst) -> SmallVec<[Inst; 4]> {
        let needs = self.needs(Node::Inst(inst)).into_iter();
        needs
            .filter_map(|need| match need {
                (Node::Inst(i), Edge::Event(_)) => Some(i),
                _ => None,
            })
            .collect()
    }

    /// Values that an instruction and all instructions inside it read, without events.
    pub(crate) fn reads(&self, func: &Func<'_>, inst: Inst, found: &mut Vec<Value>) {
        let d = &func.insts[inst];
        self.reads_of(Node::Inst(inst), found);
        for &b in &d.blocks {
            func.blocks[b].insts.iter().for_each(|&i| self.reads(func, i, found));
        }
        // A yield's operands are needed by the values that the structure passes on.
        let passed = if d.op == Opcode::For { &func.blocks[d.blocks[0]].params[..] } else { d.results };
        if !d.blocks.is_empty() {
            passed.iter().for_each(|&v| self.reads_of(Node::Value(v), found));
        }
    }

    fn reads_of(&self, node: Node, found: &mut Vec<Value>) {
        let edges = self.index(node).into_iter().flat_map(|n| self.graph.edges(n));
        let from = found.len();
        found.extend(edges.filter_map(|e| match *e.weight() {
            Edge::Value(v, _) => Some(v),
            _ => None,
        }));
        found[from..].reverse();
    }

    /// Accesses to a buffer, in program order.
    pub(crate) fn accesses(&self, func: &Func<'_>, buffer: Buffer) -> &[Access] {
        self.all_accesses(func).to(buffer)
    }

    /// Accesses in the nested blocks of an instruction, in program order.
    pub(crate) fn accesses_inside(&self, func: &Func<'_>, inst: Inst) -> &[Access] {
        self.all_accesses(func).inside(inst)
    }

    /// Accesses of one instruction to shared memory, without those of the instructions inside it.
    pub(crate) fn accesses_by(&self, func: &Func<'_>, inst: Inst) -> &[Access] {
        self.all_accesses(func).by(inst)
    }

    /// All accesses to shared memory, in program order.
    pub(crate) fn shared_accesses(&self, func: &Func<'_>) -> &[Access] {
        self.all_accesses(func).all()
    }

    /// All plain accesses to global memory, in program order.
    pub(crate) fn global_accesses(&self, func: &Func<'_>) -> &[Global] {
        self.all_accesses(func).global()
    }

    /// The instructions that access memory, those of shared memory first.
    pub(crate) fn memory_insts(&self, func: &Func<'_>) -> impl Iterator<Item = Inst> + '_ {
        let accesses = self.all_accesses(func);
        accesses.all().iter().map(|a| a.inst).chain(accesses.global().iter().map(|g| g.inst))
    }

    /// Whether a function's threads may need a barrier between accesses to one pointer's memory. They do if the memory
    /// is written, and read or written by another footprint as well, or by a scattered one in the next iteration. Tiles are
    /// programs of their own: nothing orders their writes.
    pub(crate) fn conflicts_in_global(&self, func: &Func<'_>) -> bool {
        let all = self.global_accesses(func);
        let distinct: FxHashSet<_> = all.iter().map(|g| (g.access, g.writes)).collect();
        let tiles = tile_loop(func);
        let repeats = |i: Inst| {
            let around = func.block_of(i).into_iter().flat_map(|b| func.around(b));
            around.filter_map(|b| func.loop_of(b)).any(|l| Some(l) != tiles)
        };
        let again = |a: &GlobalAccess| {
            a.is_scattered() && all.iter().any(|g| g.access == *a && g.writes && repeats(g.inst))
        };
        let conflict = |a: &(GlobalAccess, bool), b: &(GlobalAccess, bool)| {
            a.0.pointer == b.0.pointer && (!b.1 || a.0.footprint != b.0.footprint || again(&a.0))
        };
        distinct.iter().filter(|a| a.1).any(|a| distinct.iter().any(|b| conflict(a, b)))
    }

    /// Whether products read one of these buffers.
    pub(crate) fn is_read_by_products(&self, func: &Func<'_>, buffers: &[Buffer]) -> bool {
        let reads = |a: &Access| is_product(func.insts[a.inst].op);
        buffers.iter().any(|&b| self.accesses(func, b).iter().any(reads))
    }

    /// An instruction and all instructions that its operands depend on, without those of other iterations: values that
    /// a loop passes on end the slice.
    pub(crate) fn operand_slice(&self, inst: Inst) -> Vec<Inst> {
        let (mut all, mut at) = (vec![inst], 0);
        let mut seen: FxHashSet<Inst> = all.iter().copied().collect();
        while at < all.len() {
            for need in self.needs(Node::Inst(all[at])) {
                if let (Node::Inst(def), Edge::Value(..) | Edge::Event(_)) = need
                    && seen.insert(def)
                {
                    all.push(def);
                }
            }
            at += 1;
        }
        all
    }

    /// Solves a flow of bits: the bits of each node follow from those of the nodes that it needs. `transfer` gets the
    /// node and these needs with their bits. It must be monotonic.
    pub(crate) fn flow(&self, transfer: impl Fn(Node, &[(Node, Edge, u64)]) -> u64) -> Flow<'_> {
        let mut of = vec![0; self.graph.node_count()];
        let mut queue: VecDeque<NodeIndex> = self.graph.node_indices().collect();
        let mut queued = vec![true; of.len()];
        let mut needs: Vec<(Node, Edge, u64)> = Vec::new();
        while let Some(n) = queue.pop_front() {
            queued[n.index()] = false;
            needs.clear();
            let edges = self.graph.edges(n);
            needs.extend(edges.map(|e| (self.graph[e.target()], *e.weight(), of[e.target().index()])));
            let bits = of[n.index()] | transfer(self.graph[n], &needs);
            if bits != of[n.index()] {
                of[n.index()] = bits;
                for user in self.graph.neighbors_directed(n, Direction::Incoming) {
                    if !std::mem::replace(&mut queued[user.index()], true) {
                        queue.push_back(user);
                    }
                }
            }
        }
        Flow { graph: self, of }
    }

    /// The loops of the program.
    pub(crate) fn loops(&self, func: &Func<'_>) -> Vec<Inst> {
        let of = |&n: &Node| match n {
            Node::Inst(i) => {
                Some(i).filter(|&i| func.insts[i].op == Opcode::For && func.block_of(i).is_some())
            }
            Node::Value(_) => None,
        };
        self.graph.node_weights().filter_map(of).collect()
    }

    /// Accesses that an access must follow, each with the distance in iterations. At least one of the two writes.
    pub(crate) fn follows(&self, func: &Func<'_>, inst: Inst) -> impl Iterator<Item = (Inst, u32)> + '_ {
        self.order.get_or_init(|| Order::of(func, self.all_accesses(func))).follows(inst)
    }

    /// Whether threads read one of these buffers. Reads by tensor cores do not count.
    pub(crate) fn is_read_by_threads(&self, func: &Func<'_>, buffers: &[Buffer]) -> bool {
        let reads = |a: &Access| !a.writes && func.insts[a.inst].op.effect() == Effect::Read;
        buffers.iter().any(|&b| self.accesses(func, b).iter().any(reads))
    }

    fn all_accesses(&self, func: &Func<'_>) -> &Accesses {
        self.accesses.get_or_init(|| Accesses::of(func))
    }
}

/// The bits of each node that [`Graph::flow`] found.
pub(crate) struct Flow<'g> {
    graph: &'g Graph,
    of: Vec<u64>,
}

impl Flow<'_> {
    /// The bits of a value.
    pub(crate) fn of(&self, func: &Func<'_>, v: Value) -> u64 {
        self.graph.index(node_of(func, v)).map_or(0, |n| self.of[n.index()])
    }
}

/// Visits the nodes whose edges follow from an instruction: its own, and those of the values that it passes on.
fn owned(func: &Func<'_>, inst: Inst, mut visit: impl FnMut(Node)) {
    let d = &func.insts[inst];
    visit(Node::Inst(inst));
    if is_structure(d.op) {
        let params = d.blocks.iter().flat_map(|&b| &func.blocks[b].params);
        params.chain(d.results).for_each(|&v| visit(Node::Value(v)));
    }
}

fn is_structure(op: Opcode) -> bool {
    matches!(op, Opcode::For | Opcode::If)
}

/// What a node of a function needs, in order.
fn needs(func: &Func<'_>, node: Node) -> Needs {
    let mut needs = Needs::new();
    match node {
        Node::Inst(inst) => of_inst(func, inst, &mut needs),
        Node::Value(v) => match func.values[v].def {
            ValueDef::Param(block, n) => {
                if let Some(holder) = func.holder(block) {
                    of_param(func, holder, n as usize, &mut needs);
                }
            }
            ValueDef::Result(inst, n) => of_result(func, inst, n as usize, &mut needs),
        },
    }
    needs
}

fn of_inst(func: &Func<'_>, inst: Inst, needs: &mut Needs) {
    if let Some(holder) = func.block_of(inst).and_then(|b| func.holder(b)) {
        needs.push((Node::Inst(holder), Edge::Control));
    }
    let d = &func.insts[inst];
    needs.extend(own_operands(d).map(|v| need(func, v, 0)));
    needs.extend(goes_on(func, inst).map(|v| need(func, v, 0)));
}

/// Operands that an instruction needs itself. Those that a loop or a yield passes on are needed only by their readers.
fn own_operands<'d>(d: &'d InstData<'_>) -> impl Iterator<Item = Value> + 'd {
    let (args, guard) = match d.op {
        Opcode::For => (&d.args[..3], None),
        Opcode::If => (&d.args[..1], None),
        Opcode::Yield => (&[][..], None),
        _ => (d.args, d.guard.as_ref()),
    };
    args.iter().copied().chain(guard.map(|g| g.pred))
}

/// Parameter number `n` of a loop's body: the counter, or a carried value.
fn of_param(func: &Func<'_>, looped: Inst, n: usize, needs: &mut Needs) {
    needs.push((Node::Inst(looped), Edge::Control));
    if let Some(carried) = n.checked_sub(1) {
        let d = &func.insts[looped];
        needs.push(need(func, d.args[3 + carried], 0));
        needs.extend(yields(func, d.blocks[0]).get(carried).map(|&y| need(func, y, 1)));
    }
}

/// Result number `n` of a loop or branch.
fn of_result(func: &Func<'_>, inst: Inst, n: usize, needs: &mut Needs) {
    let d = &func.insts[inst];
    if d.op == Opcode::For {
        let carried = func.blocks[d.blocks[0]].params[1 + n];
        return needs.push((Node::Value(carried), Edge::Value(carried, 0)));
    }
    needs.push((Node::Inst(inst), Edge::Control));
    let yielded = d.blocks.iter().filter_map(|&b| yields(func, b).get(n));
    needs.extend(yielded.map(|&y| need(func, y, 0)));
}

/// The node that stands for a value.
pub(crate) fn node_of(func: &Func<'_>, v: Value) -> Node {
    need(func, v, 0).0
}

/// The node that stands for a value, and the edge to it.
fn need(func: &Func<'_>, v: Value, distance: u32) -> (Node, Edge) {
    let node = match func.def(v) {
        Some(i) if !is_structure(func.insts[i].op) => Node::Inst(i),
        _ => Node::Value(v),
    };
    (node, if func.ty(v) == Ty::Event { Edge::Event(v) } else { Edge::Value(v, distance) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use warplift_ir::Bump;
    use warplift_ir::entity::EntityRef;
    use warplift_ir::machine::{Attr, Block, NewInst, Place};

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
        let graph = Graph::built(&func);
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

    /// A loop that carries a sum, with a branch inside, and instructions of it by name.
    fn summed<'a>(bump: &'a Bump) -> (Func<'a>, Block, [Inst; 4]) {
        let mut func = Func::new(bump);
        let (entry, body, then) = (func.entry, func.new_block(), func.new_block());
        let [t, x] = [0, 1].map(|_| func.append_param(body, Ty::B32, false));
        let zero = func.push(entry, NewInst::new(Opcode::Const, &[], &[Ty::B32]).attr(Attr::Imm(0)));
        let z = func.result(zero);
        let add = func.push(body, NewInst::new(Opcode::AddS32, &[x, t], &[Ty::B32]));
        let y = func.result(add);
        let place = Place { buffer: Buffer::new(0), offset: 0 };
        let mem = Attr::PlaceMem { place, count: 1 };
        let store = func.push(then, NewInst::new(Opcode::StShared, &[t, y], &[]).attr(mem));
        func.push(then, NewInst::new(Opcode::Yield, &[], &[]));
        func.push(body, NewInst::new(Opcode::If, &[y], &[]).blocks(&[then]));
        let yielded = func.push(body, NewInst::new(Opcode::Yield, &[y], &[]));
        func.push(entry, NewInst::new(Opcode::For, &[z, z, z, z], &[Ty::B32]).blocks(&[body]));
        (func, body, [zero, add, store, yielded])
    }

    #[test]
    fn an_edit_is_a_difference_until_the_graph_is_updated() {
        type Edit = fn(&mut Func<'_>, Block, [Inst; 4]);
        let edits: [(&str, Edit); 6] = [
            ("operands", |f, body, [_, add, ..]| f.set_args(add, &[f.blocks[body].params[0]; 2])),
            ("a yield", |f, body, [.., end]| f.set_args(end, &[f.blocks[body].params[0]])),
            ("a store is removed", |f, _, [_, _, store, _]| f.remove(store)),
            ("a move", |f, body, [_, _, store, _]| {
                f.remove(store);
                f.insert(body, 1, store);
            }),
            ("a new instruction", |f, body, [zero, ..]| {
                let z = f.result(zero);
                f.insert_at(body, 0, |f| f.push(body, NewInst::new(Opcode::AddS32, &[z, z], &[Ty::B32])));
            }),
            ("a branch with its body is removed", |f, body, _| {
                f.retain(body, |f, i| f.insts[i].op != Opcode::If);
            }),
        ];
        for (what, edit) in edits {
            let bump = Bump::new();
            let (mut func, body, named) = summed(&bump);
            let mut graph = Graph::of(&mut func);
            assert_eq!(graph.accesses(&func, Buffer::new(0)).len(), 1);
            assert_eq!(graph.verify(&func), Ok(()));
            edit(&mut func, body, named);
            let error = graph.verify(&func).expect_err(what);
            assert!(error.contains("out of date"), "{what}: {error}");
            graph.update(&mut func);
            assert_eq!(graph.verify(&func), Ok(()), "{what}");
        }
    }

    #[test]
    fn another_buffer_of_an_access_is_a_difference_in_memory() {
        let bump = Bump::new();
        let (mut func, _, [_, _, store, _]) = summed(&bump);
        let mut graph = Graph::of(&mut func);
        assert_eq!(graph.accesses(&func, Buffer::new(1)), []);
        let place = Place { buffer: Buffer::new(1), offset: 0 };
        func.set_op(store, Opcode::StShared, Attr::PlaceMem { place, count: 1 });
        assert!(graph.verify(&func).is_err_and(|e| e.contains("memory")));
        graph.update(&mut func);
        assert_eq!((graph.verify(&func), graph.accesses(&func, Buffer::new(1)).len()), (Ok(()), 1));
    }

    #[test]
    fn a_branch_reads_what_its_instructions_read() {
        let bump = Bump::new();
        let (mut func, body, [_, add, ..]) = summed(&bump);
        let graph = Graph::of(&mut func);
        let branch = func.blocks[body].insts[1];
        let mut read = Vec::new();
        graph.reads(&func, branch, &mut read);
        let (t, y) = (func.blocks[body].params[0], func.result(add));
        assert_eq!(read, [y, t, y]);
    }
}
