//! The pipeline: one loop over the pass table for each attempt.
//!
//! ```text
//!  Context::compile ─ attempt ─┬─ pass ─ verify ─ show ─ pass ─ verify ─ show ─ .. ─► PTX + manifest
//!                              └─ refused: the same passes without a feature ([`crate::attempts`])
//! ```

use crate::error::CompileError;
use crate::options::{Options, Seen};
use crate::passes::{Level, Pass, all};
use crate::state::State;
use std::ops::Range;
use std::time::{Duration, Instant};
use warplift_ir::Deadline;

/// One attempt, which runs the passes.
pub(crate) struct Road<'r> {
    /// How to compile.
    pub options: &'r Options,
    /// Number of the attempt.
    pub number: usize,
    /// Receives the time of every pass.
    pub timings: &'r mut Vec<(&'static str, Duration)>,
    /// When the compile began.
    pub started: Instant,
}

impl Road<'_> {
    /// Runs a range of passes, by their numbers.
    pub fn run(&mut self, state: &mut State<'_>, passes: Range<usize>) -> Result<(), CompileError> {
        state.deadline = Deadline::after(self.started, self.options.limits.time);
        state.bump.set_limit(self.options.limits.memory);
        state.unbounded_registers = self.options.unbounded_registers;
        for (at, (level, pass)) in all().enumerate().take(passes.end).skip(passes.start) {
            if pass.feature.is_some_and(|f| state.disable.contains(&f)) {
                continue;
            }
            let start = Instant::now();
            let done = pass.run(state);
            state.bump.set_held(state.variants.iter().map(|v| v.kernel.bytes()).sum());
            self.timings.push((pass.name, start.elapsed()));
            // At a limit a pass stops early, and a refusal may be due to that. The limit is then the reason.
            done.or_else(|e| self.options.limits.check(pass.name, self.started, state.bump).and(Err(e)))?;
            self.verify(level, pass, state)?;
            self.options.show(&Seen { attempt: self.number, at, pass: pass.name, state });
            self.options.limits.check(pass.name, self.started, state.bump)?;
        }
        Ok(())
    }

    /// Runs the level's verifier. Every mistake is a bug of the pass.
    fn verify(&self, level: &Level, pass: &Pass, state: &State<'_>) -> Result<(), CompileError> {
        if !self.options.verifies() {
            return Ok(());
        }
        let bug = |errors| CompileError::Bug { pass: pass.name, errors, dump: state.text(pass.name) };
        (level.verify)(state).map_err(bug)
    }
}
