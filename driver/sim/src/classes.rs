//! The order `Classes`: each class of asynchronous operations completes by a rule of its own.
//!
//! ```text
//!             at once   awaited   random
//!  loads                   x                 seed 0: every product is over before any load that nobody waits for
//!  products      x
//! ```
//!
//! An `awaited` operation completes only when nothing else can continue. Operations that some warp waits for complete
//! first, the oldest before the others. Operations without a waiter complete as late as possible. This reveals a
//! missing wait even if another wait covers it in every order of arrival.

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
    /// The rules of a seed. The first two seeds are the extremes.
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
