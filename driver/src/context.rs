//! Compiling: a context keeps the memory of a compile for the next one.

use crate::attempts::{Attempt, attempt};
use crate::error::CompileError;
use crate::explain::Explained;
use crate::features::Feature;
use crate::options::Options;
use crate::passes::{UnknownPass, all, find};
use crate::pipeline::Road;
use crate::state::{State, StateError, read};
use std::time::{Duration, Instant};
use warplift_ir::Bump;
use warplift_ir::machine::Scheduled;
use warplift_ir::manifest::Manifest;
use warplift_ir::target::Target;
use warplift_ir::tile::{Kernel, Mapping};

/// Why a compile did not go on from a text.
#[derive(Debug, thiserror::Error)]
pub enum ResumeError {
    /// The text is no state.
    #[error(transparent)]
    State(#[from] StateError),
    /// A pass that this compiler does not have.
    #[error(transparent)]
    Pass(#[from] UnknownPass),
    /// A pass refused it.
    #[error(transparent)]
    Compile(#[from] CompileError),
}

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

    /// Goes on from the state between two passes, as [`State::text`] writes it; `after` names the pass that it must stand
    /// behind. Nothing is given up: the text is of one attempt.
    ///
    /// # Errors
    /// What is wrong with the text; what the passes behind it refuse.
    pub fn resume(
        &mut self,
        text: &str,
        after: Option<&str>,
        target: &Target,
        options: &Options,
    ) -> Result<Compiled, ResumeError> {
        self.clear();
        after.map(find).transpose()?;
        let (mut state, behind) = read(text, after, target, &self.bump)?;
        let at = find(&behind)?;
        let mut road = Road { options, number: 0, timings: &mut self.timings, started: Instant::now() };
        // What `emit` writes is not in the text: it is written again.
        let passes = all().count();
        road.run(&mut state, (at + 1).min(passes - 1)..passes)?;
        Ok(finish(&state, Vec::new(), std::mem::take(&mut self.timings)))
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

/// What a state behind the last pass is to the caller.
fn finish(state: &State<'_>, attempts: Vec<Attempt>, timings: Vec<(&'static str, Duration)>) -> Compiled {
    let (output, explained) = (state.output(), Explained::of(state, attempts));
    Compiled { ptx: output.ptx.clone(), manifest: output.manifest.clone(), explained, timings }
}
