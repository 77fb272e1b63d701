//! The simulator's 64-bit generic address space.
//!
//! ```text
//!  generic      0x1_0000_0000 + shared address          shared window
//!               0x2_0000_0000 + offset                  parameters
//!               0x3_0000_0000 + offset                  local memory of the thread
//!               0x4_0000_0000 + offset                  constant variables of the module
//!               0x7_0000_0000 and up                    global buffers, gaps between them
//!  shared       rank of the block << 24 | offset        also what `mapa` makes
//! ```
//! The low half of a generic shared address is the shared address, as on the hardware.

/// Start of the shared window in generic addresses.
pub(crate) const GENERIC_SHARED: u64 = 0x1_0000_0000;
/// Start of the parameter window.
pub(crate) const GENERIC_PARAM: u64 = 0x2_0000_0000;
/// Start of the local window.
pub(crate) const GENERIC_LOCAL: u64 = 0x3_0000_0000;
/// Start of the constant window.
pub(crate) const GENERIC_CONST: u64 = 0x4_0000_0000;
/// First address of global buffers.
pub(crate) const GLOBAL: u64 = 0x7_0000_0000;
/// Shared memory of a block begins here; the hardware keeps the first KiB.
pub(crate) const SHARED_BASE: u32 = 0x400;
/// Shared memory of a block with the reserved KiB (CUDA C++ Programming Guide, compute
/// capability 9.0).
pub(crate) const SHARED_LIMIT: u32 = 228 * 1024;

/// An address in shared memory: the block's rank in its cluster and the offset.
pub(crate) fn split_shared(address: u64) -> (usize, u32) {
    ((address >> 24 & 0xff) as usize, (address & 0xff_ffff) as u32)
}

/// The shared address of an offset in a block.
pub(crate) fn shared_address(rank: usize, offset: u32) -> u64 {
    (rank as u64) << 24 | u64::from(offset)
}
