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
use warplift_ir::entity::SecondaryMap;
use warplift_ir::machine::{Func, Inst, RoleKind, TileInfo, Ty, Value};
use warplift_ir::target::Opcode;

/// Who executes each instruction.
type Roles = SecondaryMap<Inst, RoleKind>;

/// What the producer of a program could find for the other roles. Nothing, if no chain of loads stands among it.
pub(crate) fn find_tile_info(func: &Func<'_>, graph: &Graph, roles: &Roles) -> TileInfo {
    let mut makers = makers(func, graph);
    loop {
        let needed = others(func, graph, roles, &makers);
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
            return if chained { TileInfo { makers, values } } else { TileInfo::default() };
        }
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

/// What roles beside the producer need.
pub(crate) fn needed_beside_copies(func: &Func<'_>, graph: &Graph, roles: &Roles) -> FxHashSet<Node> {
    others(func, graph, roles, &[])
}

/// What the roles beside the producer need, if they are told what the makers make.
fn others(func: &Func<'_>, graph: &Graph, roles: &Roles, makers: &[Inst]) -> FxHashSet<Node> {
    let roots = effects_of(func, roles, |role| role != RoleKind::Producer).map(Node::Inst);
    let results = makers.iter().flat_map(|&i| func.insts[i].results.iter());
    graph.slice_up_to(roots, &results.map(|&v| node_of(func, v)).collect())
}

/// The effects of roles: what they keep of the program is all that these reach. A fixed scalar is loaded where it is needed.
pub(crate) fn effects_of<'f>(
    func: &'f Func<'_>,
    roles: &'f Roles,
    of: impl Fn(RoleKind) -> bool + 'f,
) -> impl Iterator<Item = Inst> + 'f {
    func.insts.iter().filter(move |(i, d)| acts(d) && of(roles[*i])).map(|(i, _)| i)
}
