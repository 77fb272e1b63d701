//! Options of a compile: verification, disabled features, observers, limits.

use crate::error::CompileError;
use crate::features::Feature;
use crate::passes::all;
use crate::state::State;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};
use warplift_ir::Bump;

/// Options of a compile.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Run the verifiers after every pass. Debug builds always do.
    pub verify: bool,
    /// Optimizations to turn off.
    pub disable: Vec<Feature>,
    /// A function that sees the state after every pass at once, even if a later pass refuses the kernel.
    pub observer: Option<Observer>,
    /// Emit roles that need more registers than they have. ptxas then spills or serializes: for measuring where the
    /// limit lies.
    pub unbounded_registers: bool,
    /// Limits of time and memory.
    pub limits: Limits,
}

impl Options {
    /// Whether verifiers run.
    pub(crate) fn verifies(&self) -> bool {
        self.verify || cfg!(debug_assertions)
    }

    /// Shows the state after a pass to the observer.
    pub(crate) fn show(&self, seen: &Seen<'_, '_>) {
        if let Some(Observer(see)) = &self.observer {
            see(seen);
        }
    }
}

/// The state after a pass.
pub struct Seen<'s, 'a> {
    /// Number of the attempt, from 0.
    pub attempt: usize,
    /// Number of the pass among all, from 0.
    pub at: usize,
    /// Its name.
    pub pass: &'static str,
    /// The state after it.
    pub state: &'s State<'a>,
}

impl Seen<'_, '_> {
    /// The IR of the pass's level alone.
    pub fn ir(&self) -> String {
        all().nth(self.at).map_or_else(String::new, |(level, _)| (level.print)(self.state))
    }

    /// The state as text.
    pub fn text(&self) -> String {
        self.state.text(self.pass)
    }
}

/// A function that sees the state after every pass.
#[derive(Clone)]
pub struct Observer(Arc<dyn Fn(&Seen<'_, '_>) + Send + Sync>);

impl Observer {
    /// An observer of a function.
    pub fn new(see: impl Fn(&Seen<'_, '_>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(see))
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Observer")
    }
}

/// Limits of a compile. Both are checked after every pass. The searches for a plan and for a modulo schedule take the
/// longest, so they also stop when the time is over. Every other pass ends before the limits count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Time of all attempts.
    pub time: Option<Duration>,
    /// Bytes of machine IR.
    pub memory: Option<usize>,
}

impl Limits {
    /// Whether a compile that began at `started` may continue after a pass.
    pub(crate) fn check(
        &self,
        pass: &'static str,
        started: Instant,
        bump: &Bump,
    ) -> Result<(), CompileError> {
        let used = bump.allocated_bytes();
        match (self.time, self.memory) {
            (Some(limit), _) if started.elapsed() > limit => Err(CompileError::Time { limit, pass }),
            (_, Some(limit)) if used > limit => Err(CompileError::Memory { limit, used, pass }),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::find;
    use warplift_ir::target::SM90A;

    #[test]
    fn limits_of_time_and_memory_are_refusals_with_the_pass() {
        let module = find("gemm").unwrap().parse().unwrap();
        let refused = |limits| {
            let options = Options { limits, ..Options::default() };
            crate::compile(&module.kernels[0], &module.mappings[0], &SM90A, &options)
                .map(|c| c.ptx)
                .unwrap_err()
        };
        let late = refused(Limits { time: Some(Duration::ZERO), memory: None });
        assert!(matches!(late, CompileError::Time { pass: "verify", limit: Duration::ZERO }), "{late}");
        let large = refused(Limits { time: None, memory: Some(1) });
        assert!(matches!(large, CompileError::Memory { limit: 1, used: 2.., .. }), "{large}");
    }
}
