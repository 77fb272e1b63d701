//! Scalars of a tile that come from memory: the producer finds them for all roles.
//!
//! ```text
//!  every role   g = load group[i] ─ end = load offsets[g + 1] ─ work on the tile      two latencies before each tile
//!
//!  producer     g = load group[i] ─ end = load offsets[g + 1] ─► ring ─ copies        a tile ahead
//!  others                                                        ring ─ work on the tile
//! ```
//!
//! A maker is an instruction at the start of a tile's work, before the first copy: a load of a scalar that nothing writes, or
//! a loop or branch of such loads, as a search. One thread can compute it. Its results are words of 32 bits.

use super::access::{acts, reads_fixed};
use super::copying::work_of_threads;
use super::graph::{Graph, Node, node_of};
use super::structure::{inside, tile_loop};
use rustc_hash::FxHashSet;
use warplift_ir::machine::{BufferKind, Func, Inst, Program, Ring, RingFill, Schedule, Ty, Value};
use warplift_ir::target::Opcode;

/// What the producer finds for all roles at the start of a tile's work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TileScalars {
    /// The instructions that make them, in order. Other roles leave them out.
    pub makers: Vec<Inst>,
    /// The scalars, in the order of their makers.
    pub values: Vec<Value>,
}

impl TileScalars {
    /// Those of a program that has a buffer for them.
    pub(crate) fn of(program: &Program<'_>, graph: &Graph) -> Self {
        match program.buffers_of(BufferKind::TileScalars).next() {
            Some(_) => Self::found(&program.func, graph),
            None => Self::default(),
        }
    }

    /// Those that a program could have.
    pub(crate) fn found(func: &Func<'_>, graph: &Graph) -> Self {
        let mut makers = makers(func, graph);
        loop {
            let needed = others(func, graph, &makers);
            let results = |i: &Inst| func.insts[*i].results.to_vec();
            let needs = |v: &Value| needed.contains(&node_of(func, *v));
            let is_word = |v: &Value| func.ty(*v) == Ty::B32 && func.values[*v].uniform;
            let before = makers.len();
            makers.retain(|i| results(i).iter().filter(|v| needs(v)).all(is_word));
            if makers.len() == before {
                let all = makers.clone();
                makers.retain(|i| results(i).iter().any(needs));
                let chained = makers.iter().any(|&i| is_chain(func, graph, i, &all));
                let values: Vec<Value> = makers.iter().flat_map(results).filter(needs).collect();
                return if chained { Self { makers, values } } else { Self::default() };
            }
        }
    }

    /// The nodes that stand for them.
    pub(crate) fn nodes(&self, func: &Func<'_>) -> FxHashSet<Node> {
        self.values.iter().map(|&v| node_of(func, v)).collect()
    }

    /// The ring that hands them on.
    pub(crate) fn ring(s: &Schedule) -> Option<Ring> {
        s.rings.iter().find(|(_, r)| r.fill == RingFill::TileScalars).map(|(ring, _)| ring)
    }
}

/// Instructions before the first copy of a tile that make scalars from memory, and that one thread can compute.
fn makers(func: &Func<'_>, graph: &Graph) -> Vec<Inst> {
    let Some(looped) = tile_loop(func) else { return Vec::new() };
    let body = &func.blocks[func.insts[looped].blocks[0]].insts;
    let early = body.iter().copied().take_while(|&i| inside(func, &[i]).iter().all(|&i| is_early(func, i)));
    let alone = |i: &Inst| {
        let needed = graph.slice_up_to(nodes_of(func, *i), &FxHashSet::default());
        work_of_threads(func, needed).is_none()
    };
    let loads = |i: &Inst| inside(func, &[*i]).iter().any(|&i| reads_fixed(&func.insts[i]));
    early.filter(loads).filter(alone).collect()
}

/// Whether a maker waits for another one, or searches in a loop. One latency is not worth the producer's registers.
fn is_chain(func: &Func<'_>, graph: &Graph, maker: Inst, makers: &[Inst]) -> bool {
    let needed = graph.slice_up_to(nodes_of(func, maker), &FxHashSet::default());
    let others = makers.iter().filter(|&&o| o != maker).flat_map(|&o| nodes_of(func, o));
    func.insts[maker].op == Opcode::For || others.into_iter().any(|n| needed.contains(&n))
}

/// The nodes of an instruction and of its results.
fn nodes_of(func: &Func<'_>, inst: Inst) -> impl Iterator<Item = Node> {
    let results: Vec<Node> = func.insts[inst].results.iter().map(|&v| node_of(func, v)).collect();
    results.into_iter().chain([Node::Inst(inst)])
}

/// Whether an instruction may stand before the loads of a tile's scalars: it has no effect in a role.
fn is_early(func: &Func<'_>, inst: Inst) -> bool {
    let d = &func.insts[inst];
    d.op.is_pure() || matches!(d.op, Opcode::For | Opcode::If | Opcode::Yield) || reads_fixed(d)
}

/// What roles that do not copy need.
pub(crate) fn needed_beside_copies(func: &Func<'_>, graph: &Graph) -> FxHashSet<Node> {
    others(func, graph, &[])
}

/// What the roles without copies need, if they are told what the makers make.
fn others(func: &Func<'_>, graph: &Graph, makers: &[Inst]) -> FxHashSet<Node> {
    let is_root = |&i: &Inst| acts(&func.insts[i]) && !func.insts[i].op.is_async_load();
    let mut roots = Vec::new();
    func.walk(|_, inst| roots.extend(Some(inst).filter(is_root).map(Node::Inst)));
    let known =
        makers.iter().flat_map(|&i| func.insts[i].results.iter().map(|&v| node_of(func, v))).collect();
    graph.slice_up_to(roots.into_iter(), &known)
}
