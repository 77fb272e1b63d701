//! What epilogue warps run, and what they hold for all tiles.

use super::access::{global_access, touched};
use super::structure::{inside, tiles};
use crate::error::Result;
use rustc_hash::FxHashSet;
use warplift_ir::machine::{EpilogueRole, Func, Inst, Program};
use warplift_ir::target::Opcode;

/// What epilogue warps run: in the loop over tiles all from the first load of what they are handed, nested instructions
/// included.
pub(crate) fn epilogue_insts(program: &Program<'_>, epilogue_role: &EpilogueRole) -> Result<FxHashSet<Inst>> {
    let func = &program.func;
    let insts = &func.blocks[tiles(func)?].insts;
    let loads =
        |&i: &Inst| touched(&func.insts[i].attr, func.insts[i].op).contains(&(epilogue_role.handoff, false));
    // `do_epilogue_roles` has put it there.
    let at =
        insts.iter().position(loads).unwrap_or_else(|| panic!("nothing loads {}", epilogue_role.handoff));
    Ok(inside(func, &insts[at..]))
}

/// Loads of what the second half holds for all tiles.
pub(crate) fn hoisted_loads(func: &Func<'_>, epilogue_insts: &FxHashSet<Inst>) -> Vec<Inst> {
    let picks = epilogue_insts.iter().map(|&i| &func.insts[i]).filter(|d| d.op == Opcode::Pick);
    picks.flat_map(|d| &d.args[1..]).filter_map(|&v| func.def(v)).collect()
}

/// Numbers of the arrays that epilogue warps read before they wait: all that the kernel's own block reads, if all may be early.
pub(crate) fn hoisted_before_wait(program: &Program<'_>) -> FxHashSet<u32> {
    let func = &program.func;
    if !program.launch.pdl || program.epilogue_role.as_ref().is_none_or(|r| r.hoisted_registers == 0) {
        return FxHashSet::default();
    }
    let own = func.blocks[func.entry].insts.iter();
    let reads = own.filter_map(|&i| global_access(&func.insts[i])).map(|(access, _)| access.pointer);
    // Arguments are the first parameters, in order.
    let before_wait = |p: &u32| program.launch.arguments.get(*p as usize).is_some_and(|a| a.before_wait);
    let all: Option<FxHashSet<u32>> = reads.map(|p| Some(p).filter(before_wait)).collect();
    all.unwrap_or_default()
}
