//! Touched memory: the instructions, sectors and lines of an access of a whole tile in a layout.
//!
//! ```text
//!  f32[32, 32] by rows of 32 lanes, vectors of 1     32 instructions a warp, each 4 sectors, 1 line
//! ```

use super::blocked::pieces;
use crate::tiles::{unit_dim, warps};
use crate::vector::vector_elements;
use warplift_ir::layout::{Axis, Layout};
use warplift_ir::target::Target;
use warplift_ir::tile::{Inst, Kernel, Value};

/// The memory that an access of a whole tile touches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Touched {
    /// Instructions of a warp.
    pub instructions: u64,
    /// Sectors that one of them touches.
    pub sectors: u64,
    /// Lines that one of them touches.
    pub lines: u64,
    /// Warps that hold elements of their own.
    pub warps: u64,
}

/// The memory that an access of a tile in a layout touches.
pub fn touched(k: &Kernel, inst: Inst, tile: Value, layout: &Layout, target: &Target) -> Touched {
    let bits = u64::from(k.ty(tile).elem().bits());
    let unit = unit_dim(k, k.args(inst)[0]);
    let facts = u64::from(vector_elements(k, inst, tile));
    let vector = unit.map_or(1, |u| layout.contiguous(Axis::Reg, Axis::Dim(u as u8)).min(facts));
    let repeats = |axis| layout.replicated(axis).iter().map(|b| b.extent).product::<u64>();
    let all = u64::from(warps(k, inst));
    Touched {
        instructions: layout.in_extent(Axis::Reg) / repeats(Axis::Reg).max(1) / vector.max(1),
        sectors: pieces(layout, unit, bits, target.sector_bytes.into()),
        lines: pieces(layout, unit, bits, target.line_bytes.into()),
        warps: all / (repeats(Axis::Warp) * repeats(Axis::Warpgroup)).clamp(1, all),
    }
}
