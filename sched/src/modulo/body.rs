//! One iteration as a graph: nodes with a resource and a duration, edges with latency and distance.

use crate::graph::{touched, yields};
use rustc_hash::{FxHashMap, FxHashSet};
use warplift_ir::machine::{Attr, Block, Buffer, BufferKind, Func, Inst, Program, Ty, Value};
use warplift_ir::target::{Opcode, Unit};
use warplift_ir::tile::CmpOp;

/// Registers from which on a fragment is kept once: a second copy would not fit.
const LARGE_REGISTERS: u32 = 16;
/// Columns of wgmma that the tensor cores take in a cycle.
const TENSOR_COLUMNS: u32 = 2;

/// What a node occupies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Resource {
    /// Tensor cores.
    Tensor,
    /// Issue slots of the warps.
    Threads,
    /// Nothing.
    None,
}

/// An instruction, small ones that follow each other, or a product together with the loads and waits of what it reads.
#[derive(Clone, Debug)]
pub(super) struct Node {
    /// Instructions in order; the last one is the node's own.
    pub insts: Vec<Inst>,
    pub resource: Resource,
    /// Cycles that the resource is taken.
    pub busy: u32,
    /// Cycles from the end of the occupation to the result.
    pub latency: u32,
}

/// `to` starts at least `latency` cycles after `from`, which is of `distance` iterations before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Edge {
    pub from: usize,
    pub to: usize,
    pub latency: i64,
    pub distance: u32,
}

/// A fragment that an iteration makes.
#[derive(Clone, Debug)]
pub(super) struct Life {
    pub registers: u32,
    /// The node that begins to write it.
    pub from: usize,
    /// Nodes at whose start a use has ended, with the distance in iterations.
    pub uses: Vec<(usize, u32)>,
}

/// The graph.
#[derive(Debug, Default)]
pub(super) struct Body {
    /// Fragments.
    pub lives: Vec<Life>,
    /// Registers that fragments may take.
    pub registers: u32,
    pub nodes: Vec<Node>,
    pub edges: Vec<Edge>,
    /// Nodes that end in the same iteration of the rotated loop as they begin: product and its wait.
    pub closed: Vec<(usize, usize)>,
    /// Nodes that read the same stage of a ring.
    pub together: Vec<(usize, usize)>,
}

/// Whether an instruction is computed anew wherever it is needed: scalars of the counter and of what the
/// loop does not change.
pub(super) fn free(func: &Func<'_>, body: Block) -> FxHashSet<Inst> {
    let params = &func.blocks[body].params;
    let mut bound: FxHashSet<Value> = params.iter().skip(1).copied().collect();
    let mut free = FxHashSet::default();
    for &inst in &func.blocks[body].insts {
        let d = &func.insts[inst];
        let scalar = d.op == Opcode::Undef || d.results.iter().all(|&r| !func.ty(r).is_frag());
        let plain = d.op.is_pure() && d.blocks.is_empty() && d.guard.is_none();
        if scalar && plain && !d.args.iter().any(|a| bound.contains(a)) {
            free.insert(inst);
        } else {
            bound.extend(d.results);
        }
    }
    free
}

/// Whether a branch is taken in the first iteration of a loop and in no other.
pub(super) fn on_first(func: &Func<'_>, looped: Inst, branch: Inst) -> bool {
    let (l, d) = (&func.insts[looped], &func.insts[branch]);
    let Some(cond) = d.args.first().and_then(|&c| func.def(c)).map(|c| &func.insts[c]) else { return false };
    let [low, step] = [l.args[0], l.args[2]];
    let counter = func.blocks[l.blocks[0]].params[0];
    let [x, y] = cond.args[..] else { return false };
    let is_low = |v: Value| v == low || func.constant(v).is_some_and(|c| func.constant(low) == Some(c));
    let once = match cond.attr {
        Attr::Cmp(CmpOp::Eq) => (x == counter && is_low(y)) || (y == counter && is_low(x)),
        // Above the first value and not above the second.
        Attr::Cmp(CmpOp::Lt) => {
            let [first, step, bound] = [low, step, y].map(|v| func.constant(v));
            let within = first.zip(step).zip(bound).is_some_and(|((f, s), b)| (f + 1..=f + s).contains(&b));
            x == counter && within
        }
        _ => false,
    };
    d.op == Opcode::If && cond.op == Opcode::SetpS32 && once
}

impl Body {
    /// The graph of a loop's body.
    ///
    /// # Errors
    /// What stands in the body that cannot move over an iteration.
    pub fn of(program: &Program<'_>, inst: Inst, registers: u32) -> Result<Self, String> {
        let func = &program.func;
        let block = func.insts[inst].blocks[0];
        let mut b = Build {
            inst,
            program,
            func,
            block,
            free: free(func, block),
            body: Self::default(),
            node_of: FxHashMap::default(),
        };
        b.nodes()?;
        b.value_edges();
        b.carried_edges();
        b.lifetime_edges();
        b.lives();
        b.body.registers = registers.saturating_sub(b.invariant_registers());
        Ok(b.body)
    }

    fn edge(&mut self, from: usize, to: usize, latency: i64, distance: u32) {
        self.edges.push(Edge { from, to, latency, distance });
    }
}

/// Tensor loads and the wait for them; it stands with the first that reads what they bring.
struct Fill {
    insts: Vec<Inst>,
    buffers: Vec<Buffer>,
}

struct Build<'p, 'a> {
    inst: Inst,
    program: &'p Program<'a>,
    func: &'p Func<'a>,
    block: Block,
    free: FxHashSet<Inst>,
    body: Body,
    /// The node that gives each value: for a product's result the node of its wait.
    node_of: FxHashMap<Value, usize>,
}

impl Build<'_, '_> {
    fn nodes(&mut self) -> Result<(), String> {
        let func = self.func;
        let mut loads: Vec<Inst> = Vec::new();
        let mut fills: Vec<Fill> = Vec::new();
        let mut readers: FxHashMap<Buffer, usize> = FxHashMap::default();
        // Buffers that are awaited together are one stage of one ring: it goes by the first of them.
        let mut stage: FxHashMap<Buffer, Buffer> = FxHashMap::default();
        for &inst in &func.blocks[self.block].insts {
            let d = &func.insts[inst];
            match d.op {
                _ if self.free.contains(&inst) => {}
                Opcode::Yield => {}
                op if op.is_async_load() => loads.push(inst),
                Opcode::Await if d.args.iter().all(|&e| self.is_load(e)) => {
                    let fill = self.fill(inst, &mut loads);
                    stage.extend(fill.buffers.iter().map(|&b| (b, fill.buffers[0])));
                    fills.push(fill);
                }
                Opcode::Await => self.wait(inst)?,
                _ if self.is_small(inst) && self.extends_last(inst) => {}
                _ if self.is_pure(inst) || d.op == Opcode::Wgmma || self.reads_ring(inst) => {
                    let n = self.body.nodes.len();
                    let read = touched(&d.attr, d.op).into_iter().map(|(b, _)| *stage.get(&b).unwrap_or(&b));
                    let read: Vec<Buffer> = read.collect();
                    let first = |f: &mut Fill| f.buffers.iter().any(|b| read.contains(b));
                    let mut insts: Vec<Inst> = fills.extract_if(.., first).flat_map(|f| f.insts).collect();
                    insts.push(inst);
                    let node = self.node(inst, insts);
                    self.body.nodes.push(node);
                    for buffer in read {
                        let first = *readers.entry(buffer).or_insert(n);
                        self.body.together.extend((first != n).then_some((first, n)));
                        self.body.edge(first, n, 0, 0);
                    }
                    self.node_of.extend(d.results.iter().map(|&r| (r, n)));
                }
                op => return Err(format!("`{}` stands in it", op.row().name)),
            }
        }
        let read = loads.is_empty() && fills.is_empty();
        if read { Ok(()) } else { Err("a tensor load is read by nothing".to_owned()) }
    }

    /// A wait for loads, with the loads.
    fn fill(&self, wait: Inst, loads: &mut Vec<Inst>) -> Fill {
        let events = self.func.insts[wait].args;
        let buffer = |&l: &Inst| touched(&self.func.insts[l].attr, Opcode::TmaLoad).first().map(|t| t.0);
        let awaited = |e: &Value| self.func.def(*e).and_then(|l| buffer(&l));
        let buffers: Vec<Buffer> = events.iter().filter_map(awaited).collect();
        let mut insts: Vec<Inst> =
            loads.extract_if(.., |l| buffer(l).is_some_and(|b| buffers.contains(&b))).collect();
        insts.push(wait);
        Fill { insts, buffers }
    }

    /// Whether an instruction works on so little that it is placed with its neighbours.
    fn is_small(&self, inst: Inst) -> bool {
        let d = &self.func.insts[inst];
        let regs = d.results.iter().map(|&r| self.func.ty(r).regs()).sum::<u32>();
        d.op != Opcode::If && self.is_pure(inst) && regs < LARGE_REGISTERS
    }

    /// Adds a small instruction to the node before it, if that is small too.
    fn extends_last(&mut self, inst: Inst) -> bool {
        let n = self.body.nodes.len().wrapping_sub(1);
        let Some(last) = self.body.nodes.last() else { return false };
        if !last.insts.iter().all(|&i| self.is_small(i)) {
            return false;
        }
        let (busy, latency) = (self.busy(inst), self.func.insts[inst].op.row().latency);
        self.node_of.extend(self.func.insts[inst].results.iter().map(|&r| (r, n)));
        let node = &mut self.body.nodes[n];
        node.insts.push(inst);
        node.busy += busy;
        node.latency = latency.into();
        node.resource = if node.busy == 0 { Resource::None } else { Resource::Threads };
        true
    }

    fn is_pure(&self, inst: Inst) -> bool {
        let d = &self.func.insts[inst];
        let blocks = || d.blocks.iter().flat_map(|&b| &self.func.blocks[b].insts);
        match d.op {
            Opcode::If => blocks().all(|&i| self.func.insts[i].op == Opcode::Yield || self.is_pure(i)),
            op => op.is_pure() && d.guard.is_none(),
        }
    }

    fn is_load(&self, event: Value) -> bool {
        self.func.def(event).is_some_and(|d| self.func.insts[d].op.is_async_load())
    }

    fn reads_ring(&self, inst: Inst) -> bool {
        let d = &self.func.insts[inst];
        let touched = touched(&d.attr, d.op);
        let ring = |b: Buffer| self.program.buffers[b].kind == BufferKind::Ring;
        !touched.is_empty() && touched.iter().all(|&(b, writes)| !writes && ring(b))
    }

    /// The wait of a product is a node of its own: what uses the result follows it.
    fn wait(&mut self, inst: Inst) -> Result<(), String> {
        let n = self.body.nodes.len();
        for &event in self.func.insts[inst].args {
            let product = *self.node_of.get(&event).ok_or("it awaits what it did not start")?;
            let Some(def) = self.func.def(event) else { continue };
            self.node_of.insert(self.func.insts[def].results[0], n);
            self.body.edge(product, n, self.body.nodes[product].busy.into(), 0);
            self.body.closed.push((product, n));
        }
        self.body.nodes.push(Node { insts: vec![inst], resource: Resource::None, busy: 0, latency: 0 });
        Ok(())
    }

    fn node(&self, inst: Inst, insts: Vec<Inst>) -> Node {
        let d = &self.func.insts[inst];
        if let (Opcode::Wgmma, Attr::Wgmma(w)) = (d.op, &d.attr) {
            let atoms = u32::from(w.m_atoms) * u32::from(w.n_atoms) * u32::from(w.k_steps);
            let busy = u32::from(w.n) / TENSOR_COLUMNS * atoms;
            return Node { insts, resource: Resource::Tensor, busy, latency: 0 };
        }
        let busy = self.busy(inst);
        let resource = if busy == 0 { Resource::None } else { Resource::Threads };
        Node { insts, resource, busy, latency: d.op.row().latency.into() }
    }

    /// Issue slots of an instruction, its blocks included: the longer of two.
    fn busy(&self, inst: Inst) -> u32 {
        let d = &self.func.insts[inst];
        let row = d.op.row();
        let times = d.results.iter().map(|&r| self.func.ty(r).regs()).max().unwrap_or(1).max(1);
        let own = if row.unit == Unit::None { 0 } else { times * u32::from(row.interval) };
        let inside = |&b: &Block| self.func.blocks[b].insts.iter().map(|&i| self.busy(i)).sum::<u32>();
        let steady = if on_first(self.func, self.inst, inst) { 1 } else { 0 };
        own + d.blocks.iter().skip(steady).map(inside).max().unwrap_or(0)
    }

    /// Values that an instruction reads, its blocks included.
    fn reads(&self, inst: Inst, found: &mut Vec<Value>) {
        let d = &self.func.insts[inst];
        found.extend(d.args.iter().chain(d.guard.as_ref().map(|g| &g.pred)));
        for &b in &d.blocks {
            self.func.blocks[b].insts.iter().for_each(|&i| self.reads(i, found));
        }
    }

    fn reads_of(&self, n: usize) -> Vec<Value> {
        let mut found = Vec::new();
        self.body.nodes[n].insts.iter().for_each(|&i| self.reads(i, &mut found));
        found.retain(|&v| self.func.ty(v) != Ty::Event);
        found
    }

    /// Cycles from the start of a node to that of one which reads its result: element by element, where the
    /// reader is no faster.
    fn latency(&self, from: usize, to: usize) -> i64 {
        let (a, b) = (&self.body.nodes[from], &self.body.nodes[to]);
        let (own, other) = (i64::from(a.busy), i64::from(b.busy));
        let through = i64::from(a.latency);
        match b.resource {
            Resource::Threads => through.max(own + through - other),
            _ => own + through,
        }
    }

    /// A product that goes on with another's accumulator needs no wait between them.
    fn source(&self, v: Value, to: usize) -> Option<(usize, i64)> {
        let product = self.func.def(v).filter(|&d| self.func.insts[d].op == Opcode::Wgmma);
        let last = *self.body.nodes[to].insts.last()?;
        let reader = &self.func.insts[last];
        if let Some(def) = product.filter(|_| reader.op == Opcode::Wgmma && reader.args.first() == Some(&v)) {
            let from = *self.node_of.get(&self.func.insts[def].results[1])?;
            return Some((from, self.body.nodes[from].busy.into()));
        }
        let from = *self.node_of.get(&v)?;
        Some((from, self.latency(from, to)))
    }

    fn value_edges(&mut self) {
        for to in 0..self.body.nodes.len() {
            for v in self.reads_of(to) {
                if let Some((from, latency)) = self.source(v, to).filter(|s| s.0 != to) {
                    self.body.edge(from, to, latency, 0);
                }
            }
        }
    }

    fn carried_edges(&mut self) {
        let params = self.func.blocks[self.block].params.clone();
        for to in 0..self.body.nodes.len() {
            for v in self.reads_of(to) {
                let mut at = v;
                // A parameter that another parameter is passed to is one iteration older each time.
                for distance in 1..=params.len() as u32 {
                    let Some(n) = params.iter().skip(1).position(|&p| p == at) else { break };
                    at = yields(self.func, self.block)[n];
                    if let Some((from, latency)) = self.source(at, to) {
                        self.body.edge(from, to, latency, distance);
                    }
                }
            }
        }
    }

    /// A large fragment is overwritten by the next iteration's only after its last use.
    fn lifetime_edges(&mut self) {
        let large = |v: &Value| self.func.ty(*v).is_frag() && self.func.ty(*v).regs() >= LARGE_REGISTERS;
        let mut edges = Vec::new();
        for user in 0..self.body.nodes.len() {
            for v in self.reads_of(user).into_iter().filter(large) {
                let Some(def) = self.func.def(v).and_then(|d| self.begin(d)) else { continue };
                let (end, latency) = self.end_of_use(user);
                edges.push((end, def, latency));
            }
        }
        for (from, to, latency) in edges {
            self.body.edge(from, to, latency, 1);
        }
    }

    /// Fragments and their uses, those through carried parameters included.
    fn lives(&mut self) {
        let mut lives: FxHashMap<Value, Life> = FxHashMap::default();
        for user in 0..self.body.nodes.len() {
            for v in self.reads_of(user) {
                let (at, distance) = self.origin(v);
                let ty = self.func.ty(at);
                let Some(from) = self.func.def(at).and_then(|d| self.begin(d)).filter(|_| ty.is_frag())
                else {
                    continue;
                };
                let end = self.end_of_read(user, v);
                let life = Life { registers: ty.regs(), from, uses: Vec::new() };
                lives.entry(at).or_insert(life).uses.push((end, distance));
            }
        }
        let mut all: Vec<(Value, Life)> = lives.into_iter().collect();
        all.sort_by_key(|l| l.0);
        self.body.lives = all.into_iter().map(|l| l.1).collect();
    }

    /// The value behind a carried parameter, and how many iterations before it was made.
    fn origin(&self, mut v: Value) -> (Value, u32) {
        let params = &self.func.blocks[self.block].params;
        for distance in 0..params.len() as u32 {
            let Some(n) = params.iter().skip(1).position(|&p| p == v) else { return (v, distance) };
            v = yields(self.func, self.block)[n];
        }
        (v, 0)
    }

    /// The node at whose start an operand's registers are free: elementwise work overwrites them as it goes, a
    /// product its accumulator, and holds its other operand until it is complete.
    fn end_of_read(&self, user: usize, v: Value) -> usize {
        let own = self.body.nodes[user].insts.last().map(|&i| &self.func.insts[i]);
        if own.is_some_and(|d| d.op == Opcode::Wgmma && d.args.first() == Some(&v)) {
            return user;
        }
        self.body.closed.iter().find(|c| c.0 == user).map_or(user, |c| c.1)
    }

    /// Registers of fragments that the body reads and does not make.
    fn invariant_registers(&self) -> u32 {
        let mut seen = FxHashSet::default();
        for n in 0..self.body.nodes.len() {
            seen.extend(self.reads_of(n));
        }
        let params = &self.func.blocks[self.block].params;
        let outside = |v: &&Value| {
            let inside = self.func.def(**v).is_some_and(|d| self.stands_inside(d, self.block));
            self.func.ty(**v).is_frag() && !params.contains(v) && !inside
        };
        seen.iter().filter(outside).map(|&v| self.func.ty(v).regs()).sum()
    }

    fn stands_inside(&self, inst: Inst, block: Block) -> bool {
        let insts = &self.func.blocks[block].insts;
        insts.contains(&inst)
            || insts.iter().flat_map(|&i| &self.func.insts[i].blocks).any(|&b| self.stands_inside(inst, b))
    }

    /// The node in which an instruction stands.
    fn begin(&self, inst: Inst) -> Option<usize> {
        self.body.nodes.iter().position(|n| n.insts.contains(&inst))
    }

    /// When a node has read its operands: a product when it is complete.
    fn end_of_use(&self, user: usize) -> (usize, i64) {
        match self.body.closed.iter().find(|c| c.0 == user) {
            Some(&(_, wait)) => (wait, 0),
            None => (user, self.body.nodes[user].busy.into()),
        }
    }
}
