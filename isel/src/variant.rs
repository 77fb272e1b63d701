//! The MMA variant of a kernel: who executes its products, and how warps share them.
//!
//! ```text
//!  wgmma by 2 warpgroups               one below the other
//!  mma.sync by 4 x 2 warps             4 warps along the rows, 2 along the columns
//! ```
//!
//! `map` makes the variants, `select` chooses one, `plan` and `lower` read it from the attributes.

use serde::{Deserialize, Serialize};
use std::fmt;
use warplift_ir::tile::{Team, WarpGrid};

/// The threads that execute a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, PartialOrd, Ord)]
pub enum MmaVariant {
    /// Warpgroups, whose products are `wgmma`, or warps of a kernel without products.
    Team(Team),
    /// Warps that share products by `mma.sync`.
    Shared(WarpGrid),
}

impl MmaVariant {
    /// The threads that execute the kernel.
    pub fn team(self) -> Team {
        match self {
            Self::Team(team) => team,
            Self::Shared(warp_grid) => Team::Warps(warp_grid.warps()),
        }
    }

    /// How warps share products, if they do.
    pub fn warp_grid(self) -> Option<WarpGrid> {
        match self {
            Self::Team(_) => None,
            Self::Shared(warp_grid) => Some(warp_grid),
        }
    }
}

impl fmt::Display for MmaVariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Team(Team::Warpgroups(n)) => write!(f, "wgmma by {n} warpgroups"),
            Self::Team(team) => write!(f, "{} warps", team.warps()),
            Self::Shared(WarpGrid { rows, columns, contiguous }) => {
                let apart = if contiguous { "rows together" } else { "rows apart" };
                write!(f, "mma.sync by {rows} x {columns} warps, {apart}")
            }
        }
    }
}
