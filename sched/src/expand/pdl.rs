//! The wait for the grids before this one, and the stages that are filled in part before it.
//!
//! ```text
//!  for the first `depth` iterations:  expect all bytes ─ early loads
//!  wait for the grids before
//!  for the same iterations:           the other loads, into the same stages
//!  for the rest:                      wait empty ─ expect ─ all loads
//! ```
//!
//! Epilogue warps load what they hold for all tiles before they wait, where the mapping lets all of it be read early.

use super::role::Expand;
use crate::Result;
use crate::graph::global_access;
use rustc_hash::FxHashSet;
use warplift_ir::machine::{Attr, Inst, InstData, NewInst, Program, Ring, RoleKind};
use warplift_ir::target::Opcode;

/// Which loads of a stage are filled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum WaitPhase {
    /// All of them.
    #[default]
    All,
    /// Those that need not wait for other grids; the stage is fresh.
    BeforeWait,
    /// The others, into a stage whose bytes are expected already.
    AfterWait,
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

impl Expand<'_, '_> {
    /// Whether this role has anything to do with global memory: what only reads stages waits for no grid, as whoever fills
    /// them does.
    pub fn touches_global(&self) -> bool {
        let touches = |d: &InstData<'_>| {
            let copies = d.op == Opcode::CpAsync || matches!(d.attr, Attr::Tma(_));
            copies || global_access(d).is_some()
        };
        self.program.func.insts.iter().any(|(i, d)| touches(d) && self.keeps(i))
    }

    /// Whether this role reads global memory before it waits for other grids.
    pub fn reads_before_wait(&self) -> bool {
        self.role == RoleKind::Epilogue && !hoisted_before_wait(self.program).is_empty()
    }

    /// Behind what is read early, before the loop over tiles: waits for other grids.
    pub fn wait_after_early(&mut self, looped: Inst) {
        if matches!(&self.data(looped).attr, Attr::Loop(l) if l.persistent) && self.reads_before_wait() {
            self.wait_for_grids();
        }
    }

    /// Waits until the grids that this one depends on have ended, where it may start before.
    pub fn wait_for_grids(&mut self) {
        if self.program.launch.pdl {
            self.at().push(NewInst::new(Opcode::GriddepWait, &[], &[]));
        }
    }

    /// The producer's loop whose first stages are filled before the wait.
    pub fn expand_before_wait(&mut self, inst: Inst) -> Result<()> {
        let d = self.data(inst);
        let mut rings = self.rings_inside(inst);
        rings.retain(|&r| !self.s.rings[r].fill.is_stored());
        let [low, high, step] = [self.value(d.args[0]), self.value(d.args[1]), self.value(d.args[2])];
        let kept = self.kept_carries(inst);
        let inits = kept.iter().map(|&n| self.value(d.args[3 + n])).collect::<Vec<_>>();
        // Rings of one loop that nothing filled before: every stage is free.
        let stages = rings.iter().map(|&r| self.s.rings[r].depth).min().unwrap_or(1);
        let stages = self.at().imm(stages.into());
        let ahead = self.at().int(Opcode::MulS32, step, stages);
        let ahead = self.at().add(low, ahead);
        let ahead = self.at().int(Opcode::MinS32, ahead, high);
        let fresh: Vec<_> = rings.iter().map(|&r| self.ring(r)).collect();
        self.part_of_loop(inst, [low, ahead], &inits, WaitPhase::BeforeWait)?;
        self.wait_for_grids();
        for (&ring, state) in rings.iter().zip(fresh) {
            self.rings[ring] = Some(state);
        }
        self.part_of_loop(inst, [low, ahead], &inits, WaitPhase::AfterWait)?;
        let inits = kept.iter().map(|&n| self.value(d.results[n])).collect::<Vec<_>>();
        self.part_of_loop(inst, [ahead, high], &inits, WaitPhase::All)
    }

    fn part_of_loop(
        &mut self,
        inst: Inst,
        [low, high]: [warplift_ir::machine::Value; 2],
        inits: &[warplift_ir::machine::Value],
        phase: WaitPhase,
    ) -> Result<()> {
        self.ahead.phase = phase;
        let done = self.expand_between(inst, [low, high], inits);
        self.ahead.phase = WaitPhase::All;
        done
    }

    /// Before a load: whether it belongs to the part that is filled. The first of a stage opens it.
    pub fn fills_now(&mut self, ring: Ring, before_wait: bool) -> bool {
        if !self.ring(ring).filled {
            let guard = self.filler();
            match self.ahead.phase {
                WaitPhase::All if self.s.producer => self.wait_stage(ring),
                _ => {}
            }
            if self.ahead.phase != WaitPhase::AfterWait {
                self.expect(ring, guard);
            }
            if let Some(state) = &mut self.rings[ring] {
                state.filled = true;
                state.open |= self.ahead.phase != WaitPhase::All;
            }
        }
        match self.ahead.phase {
            WaitPhase::All => true,
            WaitPhase::BeforeWait => before_wait,
            WaitPhase::AfterWait => !before_wait,
        }
    }
}
