//! The deadline of a compile. A long search checks it between steps and stops with its best result so far. The pipeline
//! then refuses the compile after the pass.

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
