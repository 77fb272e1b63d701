//! Named barriers of a block: who meets at which.
//!
//! ```text
//!  0   all threads of the block, once, behind the initialisation
//!  1   those that compute, where a producer does not        ┐
//!  2   epilogue warps, where a tile's work is cut           ├ only what a kernel has: numbers follow each other
//!  2.. turns of warpgroups at the tensor cores, one each    ┘
//! ```

use crate::analysis::{WARPGROUP, handoff};
use warplift_ir::machine::{Program, RoleKind};
use warplift_ir::target::Target;

/// Who meets at a named barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NamedBarrier {
    /// All threads of the block.
    Block,
    /// The warps of a role that compute.
    Role(RoleKind),
    /// A warpgroup that waits for its turn, and the one that wakes it.
    MmaOrder(u32),
}

/// The numbers of a kernel's named barriers.
#[derive(Clone, Debug)]
pub(crate) struct NamedBarriers(Vec<NamedBarrier>);

impl NamedBarriers {
    /// Numbers for a program; `producer`: whether threads of its own copy.
    pub(crate) fn of(program: &Program<'_>, producer: bool) -> Self {
        let roles =
            [(RoleKind::Consumer, producer), (RoleKind::Epilogue, producer && handoff(program).is_some())];
        let roles = roles.into_iter().filter(|r| r.1).map(|r| NamedBarrier::Role(r.0));
        let turns = (0..program.warps / WARPGROUP).map(NamedBarrier::MmaOrder);
        Self(std::iter::once(NamedBarrier::Block).chain(roles).chain(turns).collect())
    }

    /// Whether a block has as many as that.
    pub(crate) fn suffice(&self, target: &Target) -> bool {
        self.0.len() as u32 <= target.named_barriers
    }

    /// The number of one. Where no producer is, those that compute are all threads.
    pub(crate) fn id(&self, which: NamedBarrier) -> i64 {
        self.0.iter().position(|b| *b == which).unwrap_or_default() as i64
    }
}
