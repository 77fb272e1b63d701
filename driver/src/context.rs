//! Compiling. A context keeps the memory of one compile for the next one.

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
use warplift_ir::manifest::Manifest;
use warplift_ir::target::Target;
use warplift_ir::tile::{Kernel, Mapping};

/// Why a compile could not resume from a text.
#[derive(Debug, thiserror::Error)]
pub enum ResumeError {
    /// The text is not a state.
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
    /// The launch manifest.
    pub manifest: Manifest,
    /// The decisions, for `explain`.
    pub explained: Explained,
    /// Time of each pass, over all attempts in order.
    pub timings: Vec<(&'static str, Duration)>,
}

/// The memory of a compile. The next compile reuses it.
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

    /// Compiles and passes the last state to `then`. The state does not outlive the compile.
    ///
    /// # Errors
    /// As [`compile`].
    pub(crate) fn compile_and<T>(
        &mut self,
        kernel: &Kernel,
        mapping: &Mapping,
        target: &Target,
        options: &Options,
        then: impl FnOnce(&State<'_>, Compiled) -> T,
    ) -> Result<T, CompileError> {
        self.clear();
        let (bump, timings, started) = (&self.bump, &mut self.timings, Instant::now());
        let once = |off: &[Feature], number: usize| {
            let mut state = State::new(kernel, mapping, target, off.to_vec(), bump);
            let mut road = Road { options, number, timings: &mut *timings, started };
            road.run(&mut state, 0..all().count()).map(|()| state)
        };
        let state = attempt(&options.disable, options.limits.attempts, &mut self.attempts, once)?;
        let compiled = finish(&state, self.attempts.clone(), std::mem::take(&mut self.timings));
        Ok(then(&state, compiled))
    }

    /// Runs the passes up to number `last` once, without further attempts, and passes the state after it to `then`.
    ///
    /// # Errors
    /// One of these passes refuses the kernel.
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

    /// Resumes from the state between two passes, as [`State::text`] writes it. `after` names the pass that must have
    /// written it. There is one attempt, because the text belongs to one.
    ///
    /// # Errors
    /// The text is wrong, or a later pass refuses the kernel.
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
        // The text does not contain the output of `emit`, so `emit` runs again.
        let passes = all().count();
        road.run(&mut state, (at + 1).min(passes - 1)..passes)?;
        Ok(finish(&state, Vec::new(), std::mem::take(&mut self.timings)))
    }

    /// The outcome of each attempt of the last compile, including refused ones.
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

/// The result for the caller, from the state after the last pass.
fn finish(state: &State<'_>, attempts: Vec<Attempt>, timings: Vec<(&'static str, Duration)>) -> Compiled {
    let (output, explained) = (state.output(), Explained::of(state, attempts));
    Compiled { ptx: output.ptx.clone(), manifest: output.manifest.clone(), explained, timings }
}
