//! The graph of one iteration: nodes with a resource and a duration, edges with a latency and a distance.

use crate::analysis::{Graph, helper_insts, issues, reads_fixed, unit_cycles};
use rustc_hash::{FxHashMap, FxHashSet};
use warplift_ir::Deadline;
use warplift_ir::machine::{Attr, Block, Buffer, Func, Inst, Program, Span, Value};
use warplift_ir::target::{Opcode, Row, Target, Unit};
use warplift_ir::tile::CmpOp;

/// From this many registers on, a product's result is kept only once, because a second copy would not fit.
pub(super) const LARGE_REGISTERS: u32 = 16;
/// The most nodes that the search places in milliseconds. Its time grows with the third power.
const MOST_NODES: usize = 160;
/// A resource that a warpgroup has once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Resource {
    /// Tensor cores.
    Tensor,
    /// The warps themselves, which run one instruction after the other.
    Threads,
    /// No resource.
    #[default]
    None,
}

/// A node: an instruction, small instructions in sequence, or a product with the loads and waits for its operands.
#[derive(Clone, Debug, Default)]
pub(super) struct Node {
    /// Instructions in order. The last one determines the node.
    pub insts: Vec<Inst>,
    pub resource: Resource,
    /// Cycles for which the resource is occupied.
    pub busy: u32,
    /// Cycles from the end of the occupation to the result.
    pub latency: u32,
    /// Cycles of each unit that all warpgroups share. Issue slots count as [`Unit::None`].
    pub usage: Usage,
    /// Number of instructions of a product.
    pub atoms: u32,
    /// Whether a product reads a fragment. Then its warps issue it piece by piece.
    pub reads_fragment: bool,
    /// Whether the result is available only at the end. Then a reader waits for all of it.
    pub whole: bool,
}

impl Node {
    /// Adds the following node to this one.
    pub(super) fn join(&mut self, other: Self) {
        self.insts.extend(other.insts);
        self.busy += other.busy;
        add(&mut self.usage, other.usage);
    }
}

/// A place to which threads store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Stored {
    /// A buffer in which threads leave each other values, or an operand that they computed.
    Scratch(Buffer),
    /// Global memory.
    Global,
}

/// Cycles by unit.
pub(super) type Usage = FxHashMap<Unit, u32>;

/// The time that an edge waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Wait {
    /// The start.
    Start,
    /// The end of the occupation.
    End,
    /// The result.
    Result,
    /// A copy that takes this many cycles.
    Copy(u32),
}

/// `to` starts at least `latency` cycles after `from`, which belongs to the iteration `distance` iterations before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Edge {
    pub from: usize,
    pub to: usize,
    pub wait: Wait,
    pub latency: i64,
    pub distance: u32,
}

/// A fragment that an iteration computes.
#[derive(Clone, Debug)]
pub(super) struct Life {
    pub registers: u32,
    /// The node that starts to write it.
    pub from: usize,
    /// Nodes at whose start a use has ended, each with the distance in iterations.
    pub uses: Vec<(usize, u32)>,
}

/// Tensor copies that one wait names. They are one stage of a ring.
#[derive(Clone, Debug)]
pub(super) struct Copy {
    /// The search sets its time.
    pub span: Span,
    /// Cycles beyond the occupation until the data can be read.
    pub latency: u32,
    /// The first node that reads the data.
    pub reader: usize,
    /// Stages of the ring, if they are known.
    pub depth: Option<u32>,
}

/// An operand that threads compute in an iteration, of tensor copies and invariants alone.
#[derive(Clone, Debug, Default)]
pub(super) struct Computed {
    /// The nodes with its stores, and the nodes that only these need.
    pub nodes: Vec<usize>,
    /// The products that read it.
    pub readers: Vec<usize>,
    /// Stages of its ring.
    pub depth: u32,
}

/// The speed of the chip's tensor cores beside threads. Numbers are cycles, unless stated otherwise.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    /// Cycles to issue one instruction of a product.
    pub issue: f64,
    /// Instructions with a fragment that wait while one runs.
    pub ahead: usize,
    /// Cycles from the end of a product to the end of the wait for it.
    pub latency: f64,
    /// Cycles until another warpgroup is woken.
    pub wake: f64,
    /// Speed of threads' work while products run, relative to its speed alone.
    pub beside: f64,
}

impl Pace {
    pub fn of(target: &Target) -> Self {
        let estimates = &target.estimates;
        Self {
            issue: estimates.product_issue_cycles,
            ahead: estimates.products_ahead,
            latency: target.rates.product_latency,
            wake: target.row(Opcode::BarSync).latency.into(),
            beside: estimates.beside_products,
        }
    }
}

/// The graph.
#[derive(Clone, Debug, Default)]
pub(super) struct Body {
    pub pace: Pace,
    /// Warpgroups that share the units.
    pub groups: u32,
    /// Lives of the fragments.
    pub lives: Vec<Life>,
    /// Registers available for fragments.
    pub registers: u32,
    pub nodes: Vec<Node>,
    pub edges: Vec<Edge>,
    pub copies: Vec<Copy>,
    /// Nodes that end in the iteration of the rotated loop in which they begin: a product and its wait.
    pub closed: Vec<(usize, usize)>,
    /// Pairs of nodes that read the same stage of a ring.
    pub same_stage: Vec<(usize, usize)>,
    /// Operands that threads compute into a ring.
    pub computed: Vec<Computed>,
    /// Whether of equally urgent nodes the one that frees most registers comes first.
    pub frees_first: bool,
    /// The time at which the search must stop.
    pub deadline: Deadline,
}

/// The limits that the block sets for a loop.
#[derive(Clone, Debug)]
pub(super) struct Limits<'t> {
    /// The target chip.
    pub target: &'t Target,
    /// Warpgroups that share the units.
    pub groups: u32,
    /// Number of teams. Each has copies of its own.
    pub teams: u32,
    /// Registers available for fragments.
    pub registers: u32,
    /// Stages of each buffer's ring.
    pub depths: FxHashMap<Buffer, u32>,
    /// The time at which the search must stop.
    pub deadline: Deadline,
}

/// The inputs of a loop's graph.
#[derive(Clone, Copy)]
pub(super) struct Given<'p, 'a> {
    pub program: &'p Program<'a>,
    pub graph: &'p Graph,
    pub limits: &'p Limits<'p>,
}

/// Instructions that are recomputed wherever they are needed: scalars that depend on the counter and on invariants of
/// the loop. So are loads of scalars that only copies need: who copies runs ahead anyway. A scalar that threads compute
/// with is loaded once, as early as the schedule says.
pub(super) fn free(func: &Func<'_>, body: Block) -> FxHashSet<Inst> {
    let params = &func.blocks[body].params;
    let mut bound: FxHashSet<Value> = params.iter().skip(1).copied().collect();
    let mut free = FxHashSet::default();
    let of_copies = loaded_for_copies(func, body);
    for &inst in &func.blocks[body].insts {
        let d = &func.insts[inst];
        let scalar = d.op == Opcode::Undef || d.results.iter().all(|&r| !func.ty(r).is_frag());
        let plain = d.op.is_pure() && d.blocks.is_empty() && d.guard.is_none() || of_copies.contains(&inst);
        if scalar && plain && !func.named(inst).any(|a| bound.contains(&a)) {
            free.insert(inst);
        } else {
            bound.extend(d.results);
        }
    }
    free
}

/// Loads of fixed scalars in a body that only the coordinates of its copies depend on.
fn loaded_for_copies(func: &Func<'_>, body: Block) -> FxHashSet<Inst> {
    let mut by_threads: FxHashSet<Value> = FxHashSet::default();
    let mut found = FxHashSet::default();
    for &inst in func.blocks[body].insts.iter().rev() {
        let d = &func.insts[inst];
        let scalar = d.blocks.is_empty() && (d.op.is_pure() || reads_fixed(d));
        let of_copies = d.op.is_async_load() || scalar && !d.results.iter().any(|r| by_threads.contains(r));
        if !of_copies {
            named_inside(func, inst, &mut by_threads);
        } else if reads_fixed(d) {
            found.insert(inst);
        }
    }
    found
}

/// Values that an instruction and those inside it name.
fn named_inside(func: &Func<'_>, inst: Inst, found: &mut FxHashSet<Value>) {
    found.extend(func.named(inst));
    let inside = func.insts[inst].blocks.iter().flat_map(|&b| &func.blocks[b].insts);
    inside.for_each(|&i| named_inside(func, i, found));
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
        // The bound is above the first value of the counter, and not above the second.
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
    /// The body contains something that cannot move over an iteration.
    pub fn of(given: Given<'_, '_>, inst: Inst) -> Result<Self, String> {
        let Given { program, graph, limits } = given;
        let func = &program.func;
        let block = func.insts[inst].blocks[0];
        let mut b = Build {
            inst,
            program,
            graph,
            func,
            block,
            limits,
            home: FxHashMap::default(),
            reads: Vec::new(),
            free: free(func, block),
            helped: helper_insts(program, graph),
            body: Self { pace: Pace::of(limits.target), groups: limits.groups, ..Self::default() },
            node_of: FxHashMap::default(),
            stores: FxHashMap::default(),
        };
        b.nodes()?;
        b.homes();
        b.wholes();
        b.store_edges();
        b.global_edges();
        b.value_edges();
        b.lifetime_edges();
        b.in_place_edges();
        b.ring_edges();
        b.lives();
        b.body.computed = b.computed();
        b.body.registers = limits.registers.saturating_sub(b.invariant_registers());
        b.body.deadline = limits.deadline;
        b.body.settle();
        Ok(b.body)
    }

    pub fn edge(&mut self, from: usize, to: usize, wait: Wait, distance: u32) {
        self.edges.push(Edge { from, to, wait, latency: 0, distance });
    }

    /// Sets the latencies of all edges from the nodes' cycles.
    pub fn settle(&mut self) {
        for e in &mut self.edges {
            let (a, b) = (&self.nodes[e.from], &self.nodes[e.to]);
            let own = i64::from(a.busy);
            e.latency = match e.wait {
                Wait::Start => 0,
                Wait::End => own,
                Wait::Result => result_after(a, b),
                Wait::Copy(cycles) => own + i64::from(cycles),
            };
        }
    }

    /// Cycles of each unit in an interval, for all warpgroups together. The fullest unit comes first.
    pub fn taken(&self) -> Vec<(Unit, u32)> {
        let mut all = Usage::default();
        for (&unit, &cycles) in self.nodes.iter().flat_map(|n| &n.usage) {
            *all.entry(unit).or_default() += cycles * self.groups;
        }
        let copies = self.copies.iter().map(|c| c.span.busy).sum::<u32>();
        *all.entry(Unit::Tma).or_default() += copies;
        let mut taken: Vec<(Unit, u32)> = all.into_iter().filter(|t| t.1 > 0).collect();
        taken.sort_by_key(|&(unit, cycles)| (std::cmp::Reverse(cycles), unit as u8));
        taken
    }

    /// The graph at an interval. Threads' work is slower for the share of the interval in which products run.
    pub fn beside_products(&self, interval: u32) -> Self {
        let mut slower = self.clone();
        self.slow_beside_products(interval, &mut slower);
        slower
    }

    /// The same in a copy of the graph, whatever interval it was at.
    pub fn slow_beside_products(&self, interval: u32, slower: &mut Self) {
        let tensor = self.taken().iter().find(|t| t.0 == Unit::Tensor).map_or(0, |t| t.1);
        let share = (f64::from(tensor) / f64::from(interval)).min(1.0);
        let factor = 1.0 + share * (1.0 / self.pace.beside - 1.0);
        let all = slower.nodes.iter_mut().zip(&self.nodes);
        for (node, own) in all.filter(|(_, own)| own.resource == Resource::Threads) {
            node.busy = (f64::from(own.busy) * factor).round() as u32;
        }
        slower.settle();
    }
}

/// Cycles from the start of a node to the start of a reader of its result. Threads read element by element, so they may
/// start before the node ends, unless they are faster.
fn result_after(a: &Node, b: &Node) -> i64 {
    let (own, other, through) = (i64::from(a.busy), i64::from(b.busy), i64::from(a.latency));
    match b.resource {
        Resource::Threads => through.max(own + through - other),
        _ => own + through,
    }
}

/// Tensor loads and the wait for them. The wait stands with the first reader of their data.
struct Fill {
    insts: Vec<Inst>,
    buffers: Vec<Buffer>,
}

pub(super) struct Build<'p, 'a> {
    inst: Inst,
    pub program: &'p Program<'a>,
    pub graph: &'p Graph,
    pub func: &'p Func<'a>,
    pub block: Block,
    pub limits: &'p Limits<'p>,
    free: FxHashSet<Inst>,
    /// Instructions of the helper.
    helped: FxHashSet<Inst>,
    pub body: Body,
    /// The node that gives each value. For a product's result it is the node of its wait.
    pub node_of: FxHashMap<Value, usize>,
    /// The node in which each instruction stands.
    pub home: FxHashMap<Inst, usize>,
    /// Values that each node reads, by the dependence graph.
    reads: Vec<Vec<Value>>,
    /// The nodes with the stores of threads to each place.
    pub stores: FxHashMap<Stored, Vec<usize>>,
}

impl Build<'_, '_> {
    fn nodes(&mut self) -> Result<(), String> {
        let func = self.func;
        let mut loads: Vec<Inst> = Vec::new();
        let mut fills: Vec<Fill> = Vec::new();
        let mut readers: FxHashMap<Buffer, usize> = FxHashMap::default();
        // Buffers that are awaited together are one stage of one ring. The first of them names the stage.
        let mut stage: FxHashMap<Buffer, Buffer> = FxHashMap::default();
        for &inst in &func.blocks[self.block].insts {
            let d = &func.insts[inst];
            match d.op {
                _ if self.free.contains(&inst) || self.helped.contains(&inst) => {}
                Opcode::Yield => {}
                op if op.is_async_load() => loads.push(inst),
                Opcode::Await if self.awaits_loads(inst) => {
                    let fill = self.fill(inst, &mut loads);
                    stage.extend(fill.buffers.iter().map(|&b| (b, fill.buffers[0])));
                    fills.push(fill);
                }
                Opcode::Await => self.wait(inst)?,
                _ if self.is_small(inst) && self.extends_last(inst) => {}
                _ if self.joins_loads(inst) => {}
                _ if let Some(to) = self.stored_to(inst) => self.store(inst, to),
                _ if self.is_pure(inst) || d.op == Opcode::Wgmma || self.reads(inst) => {
                    let n = self.body.nodes.len();
                    let read = self.accesses(inst).iter().map(|a| *stage.get(&a.buffer).unwrap_or(&a.buffer));
                    let read: Vec<Buffer> = read.collect();
                    let first = |f: &mut Fill| f.buffers.iter().any(|b| read.contains(b));
                    let filled: Vec<Fill> = fills.extract_if(.., first).collect();
                    let copies = filled.iter().map(|f| self.copy(f, n));
                    let copies: Vec<Copy> = copies.collect();
                    self.body.copies.extend(copies);
                    let mut insts: Vec<Inst> = filled.into_iter().flat_map(|f| f.insts).collect();
                    insts.push(inst);
                    let node = self.node(inst, insts);
                    self.body.nodes.push(node);
                    for buffer in read {
                        let first = *readers.entry(buffer).or_insert(n);
                        self.body.same_stage.extend((first != n).then_some((first, n)));
                        self.body.edge(first, n, Wait::Start, 0);
                    }
                    self.node_of.extend(d.results.iter().map(|&r| (r, n)));
                }
                op => return Err(format!("`{}` stands in it", op.name())),
            }
        }
        let read = loads.is_empty() && fills.is_empty();
        match self.body.nodes.len() {
            _ if !read => Err("a tensor load is read by nothing".to_owned()),
            n if n > MOST_NODES => Err(format!("it has {n} parts, at most {MOST_NODES} are placed")),
            _ => Ok(()),
        }
    }

    /// A wait for loads, together with the loads.
    fn fill(&self, wait: Inst, loads: &mut Vec<Inst>) -> Fill {
        let buffer = |&l: &Inst| self.accesses(l).first().map(|a| a.buffer);
        let buffers: Vec<Buffer> = self.graph.awaited(wait).iter().filter_map(buffer).collect();
        let mut insts: Vec<Inst> =
            loads.extract_if(.., |l| buffer(l).is_some_and(|b| buffers.contains(&b))).collect();
        insts.push(wait);
        Fill { insts, buffers }
    }

    /// The copy of a fill in the model.
    fn copy(&self, fill: &Fill, reader: usize) -> Copy {
        let target = self.limits.target;
        let bytes = fill.insts.iter().filter_map(|&i| match &self.func.insts[i].attr {
            Attr::Tma(t) => Some(f64::from(t.bytes)),
            _ => None,
        });
        let cycles = bytes.sum::<f64>() * f64::from(self.limits.teams) / target.rates.copy_bytes_per_cycle;
        let names: Vec<&str> = fill.buffers.iter().map(|&b| self.program.buffers[b].name.as_str()).collect();
        let name = format!("copy {}", names.join(", "));
        Copy {
            span: Span { name, unit: Unit::Tma, time: 0, busy: cycles.ceil() as u32 },
            // The stage is handed over twice, by one barrier each time.
            latency: target.rates.copy_latency as u32 + 2 * u32::from(target.row(Opcode::MbarWait).latency),
            reader,
            depth: fill.buffers.first().and_then(|b| self.limits.depths.get(b)).copied(),
        }
    }

    /// Whether an instruction works on so little data that it is placed with its neighbours.
    pub(super) fn is_small(&self, inst: Inst) -> bool {
        let d = &self.func.insts[inst];
        let regs = d.results.iter().map(|&r| self.func.ty(r).regs()).sum::<u32>();
        d.op != Opcode::If && self.is_pure(inst) && regs < LARGE_REGISTERS
    }

    /// Adds a small instruction to the node before it, if that one is small too.
    fn extends_last(&mut self, inst: Inst) -> bool {
        let n = self.body.nodes.len().wrapping_sub(1);
        let Some(last) = self.body.nodes.last() else { return false };
        if !last.insts.iter().all(|&i| self.is_small(i)) {
            return false;
        }
        let (busy, latency) = (self.busy(inst), self.row(inst).latency);
        let usage = self.usage(inst);
        self.node_of.extend(self.func.insts[inst].results.iter().map(|&r| (r, n)));
        let node = &mut self.body.nodes[n];
        node.insts.push(inst);
        add(&mut node.usage, usage);
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

    /// Whether an await waits only for tensor loads.
    fn awaits_loads(&self, inst: Inst) -> bool {
        let awaited = self.graph.awaited(inst);
        let all = awaited.len() == self.func.insts[inst].args.len();
        all && awaited.into_iter().all(|i| self.func.insts[i].op.is_async_load())
    }

    /// The wait of a product is a node of its own. Users of the result follow it.
    fn wait(&mut self, inst: Inst) -> Result<(), String> {
        let n = self.body.nodes.len();
        let awaited = self.graph.awaited(inst);
        if awaited.len() < self.func.insts[inst].args.len() {
            return Err("it awaits what it did not start".to_owned());
        }
        for def in awaited {
            let [sums, event] = self.func.insts[def].results else {
                return Err("it awaits what is no product".to_owned());
            };
            let product = *self.node_of.get(event).ok_or("it awaits what it did not start")?;
            self.node_of.insert(*sums, n);
            self.body.edge(product, n, Wait::Result, 0);
            self.body.closed.push((product, n));
        }
        self.body.nodes.push(Node { insts: vec![inst], ..Node::default() });
        Ok(())
    }

    /// The target's row of an instruction.
    pub(super) fn row(&self, inst: Inst) -> &'static Row {
        self.limits.target.row(self.func.insts[inst].op)
    }

    pub(super) fn node(&self, inst: Inst, insts: Vec<Inst>) -> Node {
        let d = &self.func.insts[inst];
        if let (Opcode::Wgmma, Attr::Wgmma(w)) = (d.op, &d.attr) {
            let rates = &self.limits.target.rates;
            let (busy, latency) = (w.cycles(rates) as u32, rates.product_latency as u32);
            let usage = Usage::from_iter([(Unit::Tensor, busy)]);
            let atoms = u32::from(w.m_atoms) * u32::from(w.n_atoms) * u32::from(w.k_steps);
            let (resource, reads_fragment) = (Resource::Tensor, w.a.is_none());
            return Node { insts, resource, busy, latency, usage, atoms, reads_fragment, whole: false };
        }
        let (busy, usage) = (self.busy(inst), self.usage(inst));
        let resource = if busy == 0 { Resource::None } else { Resource::Threads };
        Node { insts, resource, busy, latency: self.row(inst).latency.into(), usage, ..Node::default() }
    }

    /// The node of each instruction, and the values that each node reads.
    fn homes(&mut self) {
        let nodes = self.body.nodes.iter().enumerate();
        self.home = nodes.flat_map(|(n, node)| node.insts.iter().map(move |&i| (i, n))).collect();
        let reads = self.body.nodes.iter().map(|node| {
            let mut found = Vec::new();
            node.insts.iter().for_each(|&i| self.graph.reads(self.func, i, &mut found));
            found
        });
        self.reads = reads.collect();
    }

    /// Marks nodes that read large fragments and compute little from them.
    fn wholes(&mut self) {
        for n in 0..self.body.nodes.len() {
            let insts = &self.body.nodes[n].insts;
            self.body.nodes[n].whole = insts.iter().any(|&i| self.is_reduction(i));
        }
    }

    fn is_reduction(&self, inst: Inst) -> bool {
        let large = |v: &Value| self.func.ty(*v).is_frag() && self.func.ty(*v).regs() >= LARGE_REGISTERS;
        let mut read = Vec::new();
        self.graph.reads(self.func, inst, &mut read);
        let results = self.func.insts[inst].results;
        let makes = self.func.insts[inst].op != Opcode::Slice && !results.is_empty();
        makes && read.iter().any(large) && !results.iter().any(large)
    }

    /// Blocks of an instruction that run in a steady iteration. If one side of a branch leaves work out, this side is
    /// assumed to be the usual one: otherwise there would be no branch.
    fn steady_blocks(&self, inst: Inst) -> &[Block] {
        let blocks = &self.func.insts[inst].blocks;
        if on_first(self.func, self.inst, inst) {
            return &blocks[1.min(blocks.len())..];
        }
        let empty = |b: &Block| self.func.blocks[*b].insts.len() <= 1;
        let at = blocks.iter().position(empty).filter(|_| self.func.insts[inst].op == Opcode::If);
        at.map_or(blocks, |at| &blocks[at..=at])
    }

    /// Whether allocation makes an instruction disappear.
    fn is_free(&self, inst: Inst) -> bool {
        self.func.is_view(&self.func.insts[inst])
    }

    /// Cycles of a warp for an instruction with its nested blocks. Of two blocks the longer one counts.
    fn busy(&self, inst: Inst) -> u32 {
        let own = if self.is_free(inst) { 0 } else { unit_cycles(self.func, self.limits.target, inst) };
        let inside = |&b: &Block| self.func.blocks[b].insts.iter().map(|&i| self.busy(i)).sum::<u32>();
        own + self.steady_blocks(inst).iter().map(inside).max().unwrap_or(0)
    }

    /// Cycles of units and issue slots for an instruction with its nested blocks. All blocks count.
    fn usage(&self, inst: Inst) -> Usage {
        let row = self.row(inst);
        let times = if self.is_free(inst) { 0 } else { issues(self.func, self.limits.target, inst) };
        let mut usage = Usage::default();
        if times > 0 {
            usage.extend([(row.unit, times * u32::from(row.interval)), (Unit::None, times)]);
        }
        for &b in self.steady_blocks(inst) {
            self.func.blocks[b].insts.iter().for_each(|&i| add(&mut usage, self.usage(i)));
        }
        usage
    }

    /// Values that a node reads.
    pub(super) fn reads_of(&self, n: usize) -> &[Value] {
        &self.reads[n]
    }
}

fn add(usage: &mut Usage, other: Usage) {
    for (unit, cycles) in other {
        *usage.entry(unit).or_default() += cycles;
    }
}
