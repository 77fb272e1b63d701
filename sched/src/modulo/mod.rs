//! Modulo scheduling of a loop's body: iterations overlap, so that tensor cores and threads work at once.
//!
//! ```text
//!  one iteration      S ═══════ softmax ─────────── P V ═══════        ═ tensor cores   ─ threads
//!
//!  II apart           S ═══════ softmax ───────────
//!                               P V ═══════          S ═══════ softmax ───────────
//!                                                              P V ═══════            S ..
//! ```
//!
//! `body` makes the dependence graph of one iteration, with distances in iterations; `search` finds the
//! least initiation interval at which every instruction has a time (Rau, "Iterative Modulo Scheduling":
//! resources and recurrences give the minimum, then one interval after the other is tried); `rotate`
//! rewrites the structured program: a first part, a loop whose body holds two stages of two iterations, a
//! last part. What comes out is again a program in order, which the rest of `sched` cuts into roles as any
//! other (Task-Based Tensor Computations on Modern GPUs, section 4.2.5).
//!
//! The model is one warpgroup by itself: its wgmma occupy the tensor cores in the order of issue, all other
//! instructions share the issue slots of its warps. A fragment is one set of registers, so no large value
//! lives longer than an interval; nothing is in flight where an iteration ends (ptxas would serialize it).

mod body;
mod rotate;
mod search;

use crate::graph::yields;
use crate::schedule::{Feature, budgets};
use warplift_ir::machine::{Attr, Func, Inst, LoopSchedule, Program};
use warplift_ir::target::{Opcode, Target};

pub use rotate::do_rotate;

/// Registers that a rotated body needs beside the fragments that live by the schedule: scalars, and what
/// ptxas holds on the way (measured on attention: with 36 it spills).
const WORK_REGISTERS: u32 = 48;

/// Schedules every loop whose products depend on threads' work in the same iteration; the others, and the
/// reasons why one of these is left as it is, come as remarks.
pub fn do_modulo(
    program: &Program<'_>,
    target: &Target,
    disabled: &[Feature],
) -> (Vec<LoopSchedule>, Vec<String>) {
    let (mut found, mut remarks) = (Vec::new(), Vec::new());
    if disabled.contains(&Feature::Modulo) {
        return (found, remarks);
    }
    let func = &program.func;
    let (budget, ..) = budgets(program.warps * program.teams, true, target);
    let registers = budget.saturating_sub(WORK_REGISTERS);
    let mut loops = Vec::new();
    func.walk(|_, inst| loops.extend((func.insts[inst].op == Opcode::For).then_some(inst)));
    for inst in loops {
        let Attr::Loop(attr) = &func.insts[inst].attr else { continue };
        if !mixes(func, inst) {
            continue;
        }
        let scheduled = body::Body::of(program, inst, registers).and_then(|b| search::schedule(&b));
        match scheduled {
            Ok(s) if s.stages > 1 => found.push(LoopSchedule { inst, name: attr.name.clone(), ..s }),
            Ok(s) => {
                remarks.push(format!("loop `{}`: one stage of {} cycles is best", attr.name, s.interval))
            }
            Err(why) => remarks.push(format!("loop `{}` is not overlapped with itself: {why}", attr.name)),
        }
    }
    (found, remarks)
}

/// Whether a loop's body holds products and work of threads on fragments.
fn mixes(func: &Func<'_>, inst: Inst) -> bool {
    let insts = &func.blocks[func.insts[inst].blocks[0]].insts;
    let products = insts.iter().any(|&i| func.insts[i].op == Opcode::Wgmma);
    let work = |i: &Inst| {
        let d = &func.insts[*i];
        d.op.is_pure() && d.op != Opcode::Undef && d.results.iter().any(|&r| func.ty(r).is_frag())
    };
    products && insts.iter().any(work) && !yields(func, func.insts[inst].blocks[0]).is_empty()
}
