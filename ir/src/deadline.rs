//! When a compile must end. A long search asks between its steps, and stops with what it has; the pipeline refuses the
//! compile behind the pass.

use std::time::{Duration, Instant};

/// When a compile must end; by default never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deadline(Option<Instant>);

impl Deadline {
    /// So long after `started`; `None`: never.
    pub fn after(started: Instant, time: Option<Duration>) -> Self {
        Self(time.and_then(|t| started.checked_add(t)))
    }

    /// Whether it has passed.
    pub fn has_passed(self) -> bool {
        self.0.is_some_and(|end| Instant::now() > end)
    }
}
