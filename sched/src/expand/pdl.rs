//! The wait for the grids before this one, and the stages that are partly filled before the wait.
//!
//! ```text
//!  for the first `depth` iterations:  expect all bytes ─ early loads
//!  wait for the grids before
//!  for the same iterations:           the other loads, into the same stages
//!  for the rest:                      wait empty ─ expect ─ all loads
//! ```
//!
//! Epilogue warps issue their hoisted loads before the wait, if the mapping allows it for every hoisted array.

use super::role::Expand;
use super::state::WaitPhase;
use crate::analysis::{global_access, hoisted_before_wait, is_tile_loop};
use crate::error::Result;
use warplift_ir::machine::{Attr, Inst, InstData, NewInst, Ring, RoleKind};
use warplift_ir::target::Opcode;

impl Expand<'_, '_> {
    /// Whether this role accesses global memory. A role that only reads stages does not wait for other grids, since the
    /// role that fills the stages waits.
    pub fn touches_global(&self) -> bool {
        let touches = |d: &InstData<'_>| {
            let copies = d.op == Opcode::CpAsync || matches!(d.attr, Attr::Tma(_));
            copies || global_access(d).is_some_and(|(access, _)| !access.is_in_block())
        };
        let func = &self.given.program.func;
        let mut all = self.given.graph.memory_insts(func);
        all.any(|i| touches(&func.insts[i]) && self.keeps(i))
    }

    /// Whether this role reads global memory before it waits for other grids.
    pub fn reads_before_wait(&self) -> bool {
        self.who.role == RoleKind::Epilogue && !hoisted_before_wait(self.given.program).is_empty()
    }

    /// Waits for other grids before the loop over tiles, after the early reads.
    pub fn wait_after_early(&mut self, looped: Inst) {
        if is_tile_loop(&self.given.program.func, looped) && self.reads_before_wait() {
            self.wait_for_grids();
        }
    }

    /// Waits until the grids that this one depends on have ended, if this grid may start before that.
    pub fn wait_for_grids(&mut self) {
        if self.given.program.launch.pdl {
            self.at().push(NewInst::new(Opcode::GriddepWait, &[], &[]));
        }
    }

    /// Expands the producer's loop whose first stages are filled before the wait.
    pub fn expand_before_wait(&mut self, inst: Inst) -> Result<()> {
        let d = self.data(inst);
        let mut rings = self.rings_inside(inst);
        rings.retain(|&r| !self.given.schedule.rings[r].fill.is_stored());
        let [low, high, step] = [self.value(d.args[0]), self.value(d.args[1]), self.value(d.args[2])];
        let kept = self.kept_carries(inst);
        let inits = kept.iter().map(|&n| self.value(d.args[3 + n])).collect::<Vec<_>>();
        // Nothing has filled these rings before the loop, so every stage is free.
        let stages = rings.iter().map(|&r| self.given.schedule.rings[r].depth).min().unwrap_or(1);
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

    /// Before a load: whether it belongs to the part of the stage that is filled now. The first load of a stage opens
    /// it.
    pub fn fills_now(&mut self, ring: Ring, before_wait: bool) -> bool {
        if !self.ring(ring).filled {
            let guard = self.filler();
            match self.ahead.phase {
                WaitPhase::All if self.given.schedule.producer => self.wait_stage(ring),
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
