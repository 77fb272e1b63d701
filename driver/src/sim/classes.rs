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

use super::machine::{Machine, Reason, State};
use super::ops::{Operation, Task};
use super::random::Random;

/// When the operations of a class complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
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

    fn of(self, op: &Operation) -> Rule {
        self.0[match op.task {
            Task::Load(_) => 0,
            Task::Store(_) => 1,
            Task::Copy(_) | Task::Arrive(_) => 2,
            Task::Wgmma(..) => 3,
        }]
    }
}

/// One in so many turns is an operation's whose class completes by lot.
const RARITY: usize = 8;

impl Machine<'_> {
    /// The place in the queue of an operation that completes before any warp goes on.
    pub fn hasty(&mut self) -> Option<usize> {
        let lot = self.random.below(RARITY) == 0;
        self.queue.iter().position(|id| {
            self.operations.get(id).is_some_and(|op| match self.rules.of(op) {
                Rule::AtOnce => true,
                Rule::ByLot => lot,
                Rule::Awaited => false,
            })
        })
    }

    /// The place in the queue of the operation that completes where no warp goes on.
    pub fn awaited(&self) -> usize {
        let waited = |id| self.operations.get(id).is_some_and(|op| self.is_awaited(op));
        self.queue.iter().position(waited).unwrap_or(0)
    }

    /// Whether some warp cannot go on without an operation.
    fn is_awaited(&self, op: &Operation) -> bool {
        self.warps.iter().enumerate().any(|(w, warp)| match (&warp.state, &op.task) {
            (State::Blocked(_, Reason::Mbarrier { block, offset, .. }), Task::Load(load)) => {
                load.completes_on(*block, *offset)
            }
            (State::Blocked(_, Reason::Mbarrier { .. }), Task::Arrive(_)) => true,
            (State::Blocked(_, Reason::Wgmma), Task::Wgmma(first, _)) => (*first..first + 4).contains(&w),
            (State::Blocked(_, Reason::Bulk), Task::Store(_))
            | (State::Blocked(_, Reason::Copy), Task::Copy(_)) => op.warp == w,
            _ => false,
        })
    }
}
