//! The road through the compiler: one loop over the pass table, once for each attempt.
//!
//! ```text
//!  Context::compile ─ attempt ─┬─ pass ─ verify ─ show ─ pass ─ verify ─ show ─ .. ─► PTX + manifest
//!                              └─ refused: the same road without a feature ([`crate::attempts`])
//! ```

use crate::attempts::{Attempt, attempt};
use crate::error::CompileError;
use crate::explain::Explained;
use crate::features::Feature;
use crate::options::{Options, Seen};
use crate::passes::{Level, Pass, all};
use crate::state::State;
use std::ops::Range;
use std::time::{Duration, Instant};
use warplift_ir::Bump;
use warplift_ir::machine::Scheduled;
use warplift_ir::manifest::Manifest;
use warplift_ir::target::Target;
use warplift_ir::tile::{Kernel, Mapping};

/// A compiled kernel.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// PTX text.
    pub ptx: String,
    /// What it takes to launch it.
    pub manifest: Manifest,
    /// What was decided, for `explain`.
    pub explained: Explained,
    /// Time of each pass, of all attempts in order.
    pub timings: Vec<(&'static str, Duration)>,
}

/// The memory of a compile, used again by the next one.
#[derive(Default)]
pub struct Context {
    bump: Bump,
    attempts: Vec<Attempt>,
    timings: Vec<(&'static str, Duration)>,
}

/// Compiles a kernel under a complete mapping.
///
/// # Errors
/// What is wrong with the kernel or impossible in the mapping, with limit and number.
pub fn compile(
    kernel: &Kernel,
    mapping: &Mapping,
    target: &Target,
    options: &Options,
) -> Result<Compiled, CompileError> {
    Context::default().compile(kernel, mapping, target, options)
}

impl Context {
    /// Compiles a kernel under a complete mapping.
    ///
    /// # Errors
    /// As [`compile`].
    pub fn compile(
        &mut self,
        kernel: &Kernel,
        mapping: &Mapping,
        target: &Target,
        options: &Options,
    ) -> Result<Compiled, CompileError> {
        self.compile_and(kernel, mapping, target, options, |_, compiled| compiled)
    }

    /// Compiles, and hands the scheduled program, which does not outlive the compile, to `then`.
    ///
    /// # Errors
    /// As [`compile`].
    pub(crate) fn compile_and<T>(
        &mut self,
        kernel: &Kernel,
        mapping: &Mapping,
        target: &Target,
        options: &Options,
        then: impl FnOnce(&Scheduled<'_>, Compiled) -> T,
    ) -> Result<T, CompileError> {
        self.clear();
        let (bump, timings, started) = (&self.bump, &mut self.timings, Instant::now());
        let once = |off: &[Feature], number: usize| {
            let mut state = State::new(kernel, mapping, target, off.to_vec(), bump);
            let mut road = Road { options, number, timings: &mut *timings, started };
            road.run(&mut state, 0..all().count()).map(|()| state)
        };
        let state = attempt(&options.disable, &mut self.attempts, once)?;
        let compiled = finish(&state, self.attempts.clone(), std::mem::take(&mut self.timings));
        Ok(then(state.scheduled(), compiled))
    }

    /// Runs the passes up to the one of number `last` once, gives nothing up, and hands the state behind it to `then`.
    ///
    /// # Errors
    /// What a pass up to that one refuses.
    pub fn inspect<T>(
        &mut self,
        (kernel, mapping): (&Kernel, &Mapping),
        target: &Target,
        options: &Options,
        last: usize,
        then: impl FnOnce(&State<'_>) -> T,
    ) -> Result<T, CompileError> {
        self.clear();
        let mut state = State::new(kernel, mapping, target, options.disable.clone(), &self.bump);
        let mut road = Road { options, number: 0, timings: &mut self.timings, started: Instant::now() };
        road.run(&mut state, 0..last + 1)?;
        Ok(then(&state))
    }

    /// What became of each attempt of the last compile, refused ones included.
    pub fn attempts(&self) -> &[Attempt] {
        &self.attempts
    }

    /// Forgets the last compile and keeps its memory.
    fn clear(&mut self) {
        self.bump.reset();
        self.attempts.clear();
        self.timings.clear();
    }
}

/// One attempt on its way through the passes.
struct Road<'r> {
    options: &'r Options,
    /// Number of the attempt.
    number: usize,
    timings: &'r mut Vec<(&'static str, Duration)>,
    started: Instant,
}

impl Road<'_> {
    /// Runs some of the passes, by their numbers.
    fn run(&mut self, state: &mut State<'_>, passes: Range<usize>) -> Result<(), CompileError> {
        for (at, (level, pass)) in all().enumerate().take(passes.end).skip(passes.start) {
            if pass.feature.is_some_and(|f| state.disable.contains(&f)) {
                continue;
            }
            let start = Instant::now();
            let done = pass.run(state);
            self.timings.push((pass.name, start.elapsed()));
            done?;
            self.verify(level, pass, state)?;
            self.options.show(&Seen { attempt: self.number, at, pass: pass.name, state });
            self.options.limits.check(pass.name, self.started, state.bump)?;
        }
        Ok(())
    }

    /// The level's verifier: what it finds is a bug of the pass.
    fn verify(&self, level: &Level, pass: &Pass, state: &State<'_>) -> Result<(), CompileError> {
        if !self.options.verifies() {
            return Ok(());
        }
        let bug = |errors| CompileError::Bug { pass: pass.name, errors, dump: state.text(pass.name) };
        (level.verify)(state).map_err(bug)
    }
}

/// What a state behind the last pass is to the caller.
fn finish(state: &State<'_>, attempts: Vec<Attempt>, timings: Vec<(&'static str, Duration)>) -> Compiled {
    let (output, explained) = (state.output(), Explained::of(state, attempts));
    Compiled { ptx: output.ptx.clone(), manifest: output.manifest.clone(), explained, timings }
}
