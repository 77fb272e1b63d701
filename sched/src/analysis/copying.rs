//! Who can issue the copies: one thread alone, or only the computing threads together.
//!
//! ```text
//!  copy ◄─ coordinates ◄─ counters, arguments, sums of them      one thread computes them alone: a producer copies
//!       ◄─ coordinates ◄─ scalars in memory that nothing writes  one thread loads them too
//!       ◄─ coordinates ◄─ a reduced tile, memory that is written threads compute them together, and copy themselves
//! ```
//!
//! A loaded scalar may be a coordinate, a bound of a loop or the condition of a branch: the role's slice holds its load.

use super::access::reads_fixed;
use super::graph::{Graph, Node};
use rustc_hash::FxHashSet;
use warplift_ir::machine::{Attr, Func, Inst, Program};
use warplift_ir::target::Opcode;

/// Who can issue a program's asynchronous loads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Copying {
    /// A producer, ahead of time. These are its loads.
    Producer(Vec<Inst>),
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
    match work_of_threads(func, graph.slice(loads.iter().copied())) {
        Some(inst) => Copying::ByThreads(inst),
        None => Copying::Producer(loads),
    }
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
