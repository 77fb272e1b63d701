//! Who can issue the copies: one thread alone, or only the computing threads together.
//!
//! ```text
//!  copy ◄─ coordinates ◄─ counters, arguments, sums of them      one thread computes them alone: a producer copies
//!       ◄─ coordinates ◄─ scalars in memory that nothing writes  one thread loads them too
//!       ◄─ coordinates ◄─ a reduced tile                         threads find a scalar together, and tell the producer,
//!                                                                where loops of copies behind it make the wait short
//!       ◄─ coordinates ◄─ memory that is written                 threads compute them together, and copy themselves
//! ```
//!
//! A loaded scalar may be a coordinate, a bound of a loop or the condition of a branch: the role's slice holds its load.

use super::access::reads_fixed;
use super::epilogue::handoff;
use super::graph::{Graph, Node, node_of};
use rustc_hash::FxHashSet;
use warplift_ir::machine::{Attr, Block, BufferKind, Func, Inst, Program, Ty, Value};
use warplift_ir::target::Opcode;

/// Who can issue a program's asynchronous loads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Copying {
    /// A producer, ahead of time.
    Producer {
        /// Its loads.
        loads: Vec<Inst>,
        /// What the computing threads find together and tell it.
        decisions: Vec<Value>,
    },
    /// The computing threads: a load's coordinates depend on this instruction, which one thread cannot execute alone.
    ByThreads(Inst),
    /// No stage is filled twice, so nobody could fill one ahead of time.
    Once,
}

/// Who can issue the program's asynchronous loads.
pub(crate) fn copying(program: &Program<'_>, graph: &Graph) -> Copying {
    let func = &program.func;
    let mut loads: Vec<Inst> = Vec::new();
    let mut repeated = program.teams > 1;
    func.walk(|block, inst| {
        if func.insts[inst].op.is_async_load() {
            loads.push(inst);
            repeated |= func.repeats(block);
        }
    });
    if !repeated {
        return Copying::Once;
    }
    let needed = graph.slice(loads.iter().copied());
    let Some(inst) = work_of_threads(func, needed.clone()) else {
        return Copying::Producer { loads, decisions: Vec::new() };
    };
    match decisions(program, graph, &loads, &needed) {
        Some(decisions) => Copying::Producer { loads, decisions },
        None => Copying::ByThreads(inst),
    }
}

/// The scalars that threads find together, of what loads need, if it pays to tell them to a producer and nothing else keeps it
/// away. Each stands before a loop of loads, or behind one: told in every iteration, it would leave nothing to copy ahead.
fn decisions(
    program: &Program<'_>,
    graph: &Graph,
    loads: &[Inst],
    needed: &FxHashSet<Node>,
) -> Option<Vec<Value>> {
    let func = &program.func;
    let alone = program.launch.cluster == 1 && program.blocks == 1 && program.teams == 1;
    if !alone || handoff(program).is_some() || program.buffers_of(BufferKind::Helper).next().is_some() {
        return None;
    }
    let mut found: Vec<Value> = needed.iter().filter_map(|&n| shared_scalar(func, n)).collect();
    found.sort_unstable();
    let told: FxHashSet<Node> = found.iter().map(|&v| node_of(func, v)).collect();
    let mut own = graph.slice_up_to(loads.iter().map(|&i| Node::Inst(i)), &told);
    found.retain(|&v| own.contains(&node_of(func, v)));
    own.retain(|n| !told.contains(n));
    let pays =
        |&v: &Value| func.def(v).and_then(|i| func.block_of(i)).is_some_and(|b| holds_loads(func, loads, b));
    (work_of_threads(func, own).is_none() && found.iter().all(pays)).then_some(found)
}

/// The scalar that an instruction makes of what threads compute together. It is the same in all of them.
fn shared_scalar(func: &Func<'_>, node: Node) -> Option<Value> {
    let Node::Inst(inst) = node else { return None };
    let d = &func.insts[shared_work(func, node)?];
    let [result] = d.results[..] else { return None };
    let fragments = d.args.iter().any(|&v| func.ty(v).is_frag());
    let word = matches!(func.ty(result), Ty::B32 | Ty::Pred);
    (fragments && word && func.insts[inst].op.is_pure()).then_some(result)
}

/// Whether a block has a loop with loads, also under branches.
fn holds_loads(func: &Func<'_>, loads: &[Inst], block: Block) -> bool {
    let around = |&i: &Inst| func.block_of(func.loop_around(func.block_of(i)?)?);
    loads.iter().filter_map(around).any(|b| func.is_within(b, block))
}

/// The first of these nodes that the threads of a block execute together: one thread alone cannot compute them.
pub(crate) fn work_of_threads(func: &Func<'_>, nodes: FxHashSet<Node>) -> Option<Inst> {
    nodes.into_iter().filter_map(|n| shared_work(func, n)).min()
}

/// The instruction, if the threads of a block execute it together, or if its result depends on their order.
fn shared_work(func: &Func<'_>, node: Node) -> Option<Inst> {
    let Node::Inst(inst) = node else { return None };
    let d = &func.insts[inst];
    let structure = matches!(d.op, Opcode::For | Opcode::If | Opcode::Yield | Opcode::Await);
    let lanes = matches!(
        d.op,
        Opcode::ShflBfly | Opcode::ShflIdx | Opcode::ReduxAddS32 | Opcode::ReduxMaxS32 | Opcode::ReduxOr
    );
    if reads_fixed(d) {
        return None;
    }
    let has_fragments = d.args.iter().any(|&v| func.ty(v).is_frag());
    let whole_warps = lanes || has_fragments || !d.op.is_pure();
    (whole_warps && !structure && !d.op.is_async_load()).then_some(inst)
}

/// The copies that need not wait for the grids before.
pub(crate) fn early_copies(func: &Func<'_>, graph: &Graph) -> Vec<Inst> {
    let copies = graph.shared_accesses(func).iter().map(|a| a.inst);
    copies.filter(|&i| is_before_wait(func, i)).collect()
}

/// Whether an instruction is a load that need not wait for other grids.
fn is_before_wait(func: &Func<'_>, inst: Inst) -> bool {
    matches!(&func.insts[inst].attr, Attr::Tma(t) if t.before_wait)
}
