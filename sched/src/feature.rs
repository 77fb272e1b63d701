//! What can be turned off, to see what it is worth.

use serde::{Deserialize, Serialize};

/// What a schedule does by itself and can be told to leave, to see what it is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Feature {
    /// A warp of its own that copies; without it, one thread of those that compute copies stage by stage.
    WarpSpecialization,
    /// Copies to all blocks of a cluster.
    Multicast,
    /// Results stored under the next tile.
    Deferral,
    /// Products left in flight over an iteration.
    InFlight,
    /// Loops overlapped with themselves.
    Modulo,
    /// Warpgroups that take turns at the tensor cores.
    MmaOrder,
    /// Waits for products kept where the schedule has them.
    Pins,
    /// Elementwise chains cut, so that a loop's fragments fit twice.
    ElementwiseSubtiles,
    /// Loops whose body stands there once for each slot.
    Unroll,
    /// What is the same for all tiles, held in registers of those that end a tile's work.
    HoistLoads,
}

impl Feature {
    /// All of them, by the names that [`std::str::FromStr`] takes.
    pub const ALL: [(&'static str, Self); 10] = [
        ("warp-specialization", Self::WarpSpecialization),
        ("multicast", Self::Multicast),
        ("deferral", Self::Deferral),
        ("wgmma-pipelining", Self::InFlight),
        ("modulo", Self::Modulo),
        ("mma-order", Self::MmaOrder),
        ("pins", Self::Pins),
        ("elementwise-subtiles", Self::ElementwiseSubtiles),
        ("unroll", Self::Unroll),
        ("hoist-loads", Self::HoistLoads),
    ];
}
