//! The order `Classes`: each class of asynchronous operations completes by a rule of its own.
//!
//! ```text
//!             at once   awaited   by lot
//!  loads                   x                 seed 0: every product is over before any load that nobody waits for
//!  products      x
//! ```
//!
//! What completes awaited completes when nothing else can go on, what some warp waits for before all else and the
//! oldest of it first: everything that nobody waits for is as late as it can be. So a wait that another wait
//! shadows in every order of arrival is still seen to be missing.

use super::random::Random;
use super::state::{Operation, Task};

/// When the operations of a class complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    AtOnce,
    Awaited,
    ByLot,
}

/// Rules of loads, stores, copies of threads and products, in this order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules([Rule; 4]);

impl Rules {
    /// The rules that a seed means; the first two are the extremes.
    pub fn new(seed: u64) -> Self {
        use Rule::{AtOnce, Awaited, ByLot};
        let mut random = Random::new(seed);
        Self(match seed {
            0 => [Awaited, Awaited, Awaited, AtOnce],
            1 => [AtOnce, Awaited, AtOnce, Awaited],
            _ => std::array::from_fn(|_| [AtOnce, Awaited, ByLot][random.below(3)]),
        })
    }

    pub fn of(self, op: &Operation) -> Rule {
        self.0[match op.task {
            Task::Load(_) => 0,
            Task::Store(_) => 1,
            Task::Copy(_) | Task::Arrive(_) => 2,
            Task::Wgmma(..) => 3,
        }]
    }
}
