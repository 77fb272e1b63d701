//! The block's pool of registers, which `setmaxnreg` takes from and gives back to.
//!
//! ```text
//!  warpgroup: setmaxnreg by all four warps ─ synchronise ─ setmaxnreg by all four ─ ..
//! ```
//! Source: PTX ISA, "Miscellaneous instructions: setmaxnreg".

use super::exec::Flow;
use super::hazard::HazardKind;
use super::machine::{Found, Machine, Reason, Stop};
use std::ops::Range;

impl Machine<'_> {
    pub fn setmaxnreg(&mut self, w: usize, inc: bool, count: u32, mask: u32) -> Result<Flow, Stop> {
        self.aligned(w, mask)?;
        let pc = self.pc(w);
        let (block, have) = (self.warps[w].block, self.warps[w].nreg);
        if (inc && count < have) || (!inc && count > have) {
            let (verb, way) = if inc { ("inc", "more") } else { ("dec", "fewer") };
            let what = format!("setmaxnreg.{verb} to {count}, the warp has {have}, which is not {way}");
            self.hazard(Found::new(HazardKind::RegisterPool, w, pc, what))?;
            return Ok(Flow::Next);
        }
        let pool = &mut self.blocks[block].pool;
        if inc && (count - have) * 32 > *pool {
            return Ok(Flow::Wait(Reason::Registers(count)));
        }
        if inc {
            *pool -= (count - have) * 32;
        } else {
            *pool += (have - count) * 32;
            self.progress += 1;
        }
        self.warps[w].nreg = count;
        self.note_change(w, pc)?;
        Ok(Flow::Next)
    }

    /// The warps of a warp's warpgroup.
    fn warpgroup(&self, w: usize) -> Range<usize> {
        let index = self.warps[w].index as usize;
        let (block, first) = (w - index, w - index % 4);
        first..(first + 4).min(block + self.launch.block.div_ceil(32) as usize)
    }

    /// The warps of a warpgroup execute the same `setmaxnreg`, and synchronise before the next.
    fn note_change(&mut self, w: usize, pc: u32) -> Result<(), Stop> {
        let nth = self.warps[w].register_changes.len();
        let clock = self.warps[w].clock;
        self.warps[w].register_changes.push((pc, clock));
        let (mut differs, mut early) = (None, None);
        for other in self.warpgroup(w).filter(|v| *v != w) {
            let changes = &self.warps[other].register_changes;
            differs = differs.or(changes.get(nth).map(|c| c.0).filter(|at| *at != pc));
            let Some(before) = nth.checked_sub(1) else { continue };
            let known = |c: &(u32, u32)| self.warps[w].clocks.seen.get(other) >= c.1;
            if !changes.get(before).is_some_and(known) {
                early = Some(self.warps[w].register_changes[before].0);
            }
        }
        self.tick(w);
        let what = match (differs, early) {
            (Some(_), _) => "the warps of a warpgroup execute different setmaxnreg",
            (_, Some(_)) => "setmaxnreg while a warp of the warpgroup may not have executed the one before",
            _ => return Ok(()),
        };
        self.hazard(Found::new(HazardKind::RegisterPool, w, pc, what).other(differs.or(early)))
    }

    /// At the end of a block: all warps of each warpgroup have executed the same number.
    pub fn check_changes(&mut self, block: usize) -> Result<(), Stop> {
        let warps = (0..self.warps.len()).filter(|w| self.warps[*w].block == block);
        for w in warps.collect::<Vec<_>>() {
            let count = |v: usize| self.warps[v].register_changes.len();
            let Some(less) = self.warpgroup(w).find(|v| count(*v) < count(w)) else { continue };
            let pc = self.warps[w].register_changes[count(less)].0;
            let what = format!(
                "warp {} executes this setmaxnreg, warp {} of the same warpgroup does not",
                self.warps[w].index, self.warps[less].index
            );
            self.hazard(Found::new(HazardKind::RegisterPool, w, pc, what))?;
        }
        Ok(())
    }
}
