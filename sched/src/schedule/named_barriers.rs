//! Named barriers of a block, and the threads that meet at each.
//!
//! ```text
//!  0   all threads of the block, once, after the initialisation
//!  1   the consumers, if there is a producer                ┐
//!  2   epilogue warps, if a tile's work is cut              ├ only those that the kernel has, numbered in sequence
//!  2.. order of warpgroups at the tensor cores, one each    ┘
//! ```

use crate::analysis::{WARPGROUP, handoff};
use warplift_ir::machine::{Program, RoleKind};
use warplift_ir::target::Target;

/// The threads that meet at a named barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NamedBarrier {
    /// All threads of the block.
    Block,
    /// The warps of a computing role.
    Role(RoleKind),
    /// A warpgroup that waits for its turn, and the warpgroup that wakes it.
    MmaOrder(u32),
}

/// The numbers of a kernel's named barriers.
#[derive(Clone, Debug)]
pub(crate) struct NamedBarriers(Vec<NamedBarrier>);

impl NamedBarriers {
    /// Assigns numbers for a program. `producer`: whether there is a producer.
    pub(crate) fn of(program: &Program<'_>, producer: bool) -> Self {
        let roles =
            [(RoleKind::Consumer, producer), (RoleKind::Epilogue, producer && handoff(program).is_some())];
        let roles = roles.into_iter().filter(|r| r.1).map(|r| NamedBarrier::Role(r.0));
        let turns = (0..program.warps / WARPGROUP).map(NamedBarrier::MmaOrder);
        Self(std::iter::once(NamedBarrier::Block).chain(roles).chain(turns).collect())
    }

    /// Whether the target's blocks have enough named barriers.
    pub(crate) fn suffice(&self, target: &Target) -> bool {
        self.0.len() as u32 <= target.named_barriers
    }

    /// The number of a named barrier. Without a producer, all threads of the block compute.
    pub(crate) fn id(&self, which: NamedBarrier) -> i64 {
        self.0.iter().position(|b| *b == which).unwrap_or_default() as i64
    }
}
