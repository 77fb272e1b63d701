//! Registers of a whole program. The setup and each role get registers within their budget, ptxas keeps some registers
//! free, and a checker proves the result.
//!
//! ```text
//!  Scheduled: setup, role 0, role 1, .. ─ allocate, each alone ─► Scheduled, edges split + Allocations
//!                                                                         │
//!                        each function run symbolically, the block's pool ◄─ check
//! ```

use crate::error::{CompileError, lines};
use crate::features::Feature;
use crate::state::State;
use warplift_emit::Allocations;
use warplift_ir::machine::{Allocation, Func, LoopSchedule, Role, Scheduled, verify_scheduled};
use warplift_ir::target::Target;
use warplift_regalloc::{Budget, RegallocError, reserve};
use warplift_sched::{Feature as Sched, LEFT_TO_PTXAS};

/// Allocates registers for the setup and for every role.
///
/// # Errors
/// A role does not fit its budget. The error is that of the first such role.
pub fn allocate(s: &mut Scheduled<'_>, target: &Target) -> Result<Allocations, RegallocError> {
    allocate_within(s, target, |role| role.registers)
}

/// The same with `limit` registers for each role.
fn allocate_within(
    s: &mut Scheduled<'_>,
    target: &Target,
    limit: impl Fn(&Role<'_>) -> u32,
) -> Result<Allocations, RegallocError> {
    let entry = s.roles.iter().map(|r| r.registers).max().unwrap_or(target.thread_registers);
    let (setup, setup_alloc) =
        warplift_regalloc::allocate(&s.setup, &Budget { registers: entry, role: "setup", target })?;
    s.setup = setup;
    let mut roles = Vec::new();
    for role in &mut s.roles {
        let budget = Budget { registers: limit(role), role: role.name, target };
        let (func, alloc) = warplift_regalloc::allocate(&role.func, &budget)?;
        role.func = func;
        roles.push(alloc);
    }
    Ok(Allocations { setup: setup_alloc, roles })
}

/// Allocates, and declines what leaves roles too few registers. Without a bound, what is left of a refusal is emitted.
pub(crate) fn do_allocate(s: &mut State<'_>) -> Result<(), CompileError> {
    let target = s.target;
    let mut allocated = allocate(s.scheduled_mut(), target);
    leaves_room(s, allocated.as_ref().ok())?;
    holds_results(s, allocated.as_ref().err())?;
    if s.unbounded_registers && allocated.is_err() {
        allocated = allocate_within(s.scheduled_mut(), target, |_| u32::MAX);
    }
    s.allocations = Some(allocated?);
    Ok(())
}

/// Declines unrolled loops, and loops that overlap with few registers to spare, if they leave ptxas too few registers or
/// the allocation failed. What a role has is known for certain once `setmaxnreg` has divided the registers.
pub(crate) fn leaves_room(s: &State<'_>, allocs: Option<&Allocations>) -> Result<(), CompileError> {
    let cramped = |a: &Allocations| {
        let mut roles = s.scheduled().roles.iter().zip(&a.roles);
        roles.any(|(r, a)| r.name == "consumer" && a.pressure + LEFT_TO_PTXAS > r.registers)
    };
    let costly = |l: &LoopSchedule| match (l.tight, l.unrolls) {
        (true, _) => Some((Sched::TightOverlap, "overlapped iterations")),
        (_, true) => Some((Sched::Unroll, "unrolled bodies")),
        _ => None,
    };
    match s.loops.iter().find_map(costly).filter(|_| allocs.is_none_or(cramped)) {
        Some((feature, bodies)) => Err(CompileError::Declined {
            feature: Feature::Sched(feature),
            why: format!("{bodies} leave ptxas fewer than {LEFT_TO_PTXAS} registers"),
        }),
        None => Ok(()),
    }
}

/// Declines the deferred epilogue if consumers do not fit: its results are live beside the next tile's accumulators.
pub(crate) fn holds_results(s: &State<'_>, failed: Option<&RegallocError>) -> Result<(), CompileError> {
    use RegallocError::{Budget as Registers, Names};
    match failed.filter(|_| s.schedule().deferral.is_some()) {
        Some(error @ (Registers { role, .. } | Names { role, .. })) if role == "consumer" => {
            Err(CompileError::Declined {
                feature: Feature::Sched(Sched::Deferral),
                why: format!("with results held for a tile, {error}"),
            })
        }
        _ => Ok(()),
    }
}

/// Divides the registers among the roles. Declines hoisted loads if the roles need too many; without such loads that is a limit.
pub(crate) fn do_setmaxnreg(s: &mut State<'_>) -> Result<(), CompileError> {
    let within = |registers: u32| if s.unbounded_registers { registers } else { u32::MAX };
    let pairs = s.allocations().roles.iter().zip(&s.scheduled().roles);
    let needed: Vec<u32> =
        pairs.map(|(a, r)| (a.pressure + reserve(&r.func, a.pressure)).min(within(r.registers))).collect();
    let target = s.target;
    if warplift_sched::do_setmaxnreg(s.scheduled_mut(), &needed, target) {
        return leaves_room(s, Some(s.allocations()));
    }
    if warplift_sched::hoisted_registers(s.program()) > 0 {
        return Err(CompileError::Declined {
            feature: Feature::Sched(Sched::HoistLoads),
            why: format!("the roles need {needed:?} registers, more than a block has for them"),
        });
    }
    let (scheduled, step) = (s.scheduled(), target.register_step);
    let least = |n: &u32| n.next_multiple_of(step).max(target.least_registers);
    let asked = scheduled.roles.iter().zip(&needed).map(|(r, n)| 32 * r.warps * least(n)).sum();
    let (threads, entry) = (scheduled.threads, target.entry_registers(scheduled.threads));
    Err(RegallocError::Pool { asked, pool: entry * threads, threads, entry }.into())
}

/// The verifier of the role level. It checks the roles' code, and their registers once they are allocated.
pub(crate) fn verified(s: &State<'_>) -> Result<(), String> {
    let scheduled = s.scheduled();
    for role in &scheduled.roles {
        verify_scheduled(&role.func).map_err(|e| format!("role {}: {}", role.name, lines(&e)))?;
    }
    if let Some(allocations) = &s.allocations {
        check(scheduled, allocations).map_err(|wrong| lines(&wrong))?;
    }
    // Before `setmaxnreg` divides the block's registers, the roles together may ask for more.
    match s.output {
        Some(_) => warplift_regalloc::pool_check(scheduled, s.target).map_err(|e| e.to_string()),
        None => Ok(()),
    }
}

/// Checks the result of [`allocate`]: every read finds its value. The checker shares no code with the allocator.
///
/// # Errors
/// Every mistake with its role. Each is a bug of the compiler.
pub fn check(s: &Scheduled<'_>, allocations: &Allocations) -> Result<(), Vec<String>> {
    let of_role = |name: &str, func: &Func<'_>, alloc: &Allocation| {
        warplift_regalloc::check(func, alloc).err().map(|e| format!("role {name}: {e}"))
    };
    let setup = of_role("setup", &s.setup, &allocations.setup);
    let roles = s.roles.iter().zip(&allocations.roles).map(|(r, a)| of_role(r.name, &r.func, a));
    let wrong: Vec<String> = setup.into_iter().chain(roles.flatten()).collect();
    if wrong.is_empty() { Ok(()) } else { Err(wrong) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Context;
    use crate::kernels::find;
    use warplift_ir::target::SM90A;

    /// Runs `act` on the library's GEMM with its allocation.
    fn allocated(act: impl FnOnce(&mut Scheduled<'_>, &mut Allocations)) {
        let module = find("gemm").unwrap().parse().unwrap();
        let (kernel, mapping) = (&module.kernels[0], &module.mappings[0]);
        let mut context = Context::default();
        let made = context.compile_and(kernel, mapping, &SM90A, &Default::default(), |state, _| {
            let scheduled = state.scheduled();
            let mut program = scheduled.clone();
            let mut allocations = allocate(&mut program, &SM90A).unwrap();
            act(&mut program, &mut allocations);
        });
        made.unwrap();
    }

    #[test]
    fn every_wrong_role_is_named() {
        allocated(|program, allocations| {
            assert_eq!(check(program, allocations), Ok(()));
            let names: Vec<&str> = program.roles.iter().map(|r| r.name).collect();
            assert!(names.len() > 1, "{names:?}");
            allocations.roles.iter_mut().for_each(|a| a.insts.clear());
            let wrong = check(program, allocations).unwrap_err();
            assert_eq!(wrong.len(), names.len(), "{wrong:?}");
            assert!(
                wrong.iter().zip(names).all(|(w, name)| w.starts_with(&format!("role {name}: "))),
                "{wrong:?}"
            );
        });
    }

    #[test]
    fn roles_that_ask_for_more_than_the_block_has_are_found() {
        let module = find("gemm").unwrap().parse().unwrap();
        let (kernel, mapping) = (&module.kernels[0], &module.mappings[0]);
        let last = crate::passes::all().count() - 1;
        let mut wrong = None;
        let mut context = Context::default();
        let options = Default::default();
        let made = context.inspect((kernel, mapping), &SM90A, &options, last, |state| {
            assert_eq!(verified(state), Ok(()));
            let mut greedy = State::new(kernel, mapping, state.target, Vec::new(), state.bump);
            let mut program = state.scheduled().clone();
            program.roles.iter_mut().for_each(|r| r.registers = 248);
            (greedy.scheduled, greedy.output) = (Some(program), state.output.clone());
            wrong = verified(&greedy).err();
        });
        made.unwrap();
        assert!(wrong.as_ref().is_some_and(|w| w.contains("the roles ask for")), "{wrong:?}");
    }
}
