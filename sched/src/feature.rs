//! Optimizations of scheduling that can be disabled, to measure what each one is worth.

use serde::{Deserialize, Serialize};

/// An optimization that can be disabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Feature {
    /// A warp that only copies. Without it, one of the computing threads issues the copies, stage by stage.
    WarpSpecialization,
    /// Tensor copies that send one box to all blocks of a cluster.
    Multicast,
    /// Results stored under the main loop of the next tile.
    Deferral,
    /// Products that stay in flight over an iteration.
    InFlight,
    /// Threads' work under products that read both operands in shared memory. Without it that work stands behind the wait.
    BesideProducts,
    /// Loops one behind the other that fill one ring.
    SharedRings,
    /// Rings for operands that threads compute, whose stages barriers in shared memory hand over.
    OperandRings,
    /// Loops whose iterations overlap.
    Modulo,
    /// Named barriers that order the products of warpgroups.
    MmaOrder,
    /// Waits for products that ptxas is kept from moving.
    Pins,
    /// Elementwise chains cut into slices, so that the fragments of two iterations fit the registers.
    ElementwiseSubtiles,
    /// Loops whose iterations overlap although their fragments leave other work few registers.
    TightOverlap,
    /// Loop bodies written once for each slot of a ring.
    Unroll,
    /// Loads that do not depend on the tile, kept in registers.
    HoistLoads,
    /// Bounds masks that a branch decides for a whole tile.
    BoundsMasks,
    /// Scalars of a tile from memory that the producer finds for all roles.
    BroadcastTileInfo,
}

impl Feature {
    /// All of them, by name.
    pub const ALL: [(&'static str, Self); 16] = [
        ("warp-specialization", Self::WarpSpecialization),
        ("multicast", Self::Multicast),
        ("deferral", Self::Deferral),
        ("wgmma-pipelining", Self::InFlight),
        ("beside-products", Self::BesideProducts),
        ("shared-rings", Self::SharedRings),
        ("operand-rings", Self::OperandRings),
        ("modulo", Self::Modulo),
        ("mma-order", Self::MmaOrder),
        ("pins", Self::Pins),
        ("elementwise-subtiles", Self::ElementwiseSubtiles),
        ("tight-overlap", Self::TightOverlap),
        ("unroll", Self::Unroll),
        ("hoist-loads", Self::HoistLoads),
        ("bounds-masks", Self::BoundsMasks),
        ("broadcast-tile-info", Self::BroadcastTileInfo),
    ];
}
