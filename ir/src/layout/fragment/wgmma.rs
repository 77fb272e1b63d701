//! Fragments of `wgmma.mma_async` (PTX ISA, "Register Fragments for wgmma.mma_async.m64nNkK").

use super::{multiple, refuse, tile};
use crate::layout::{Axis, Builder, Layout, LayoutError};

/// Rows of one `wgmma` instruction.
const ATOM_ROWS: u64 = 64;

/// The accumulator of an `m` by `n` tile, `m = 64 * warpgroups * atoms`, `n` a multiple of 8.
///
/// Axes `reg` (elements), `lane`, `warp` (4), `warpgroup` to `(d0, d1)`. Register order: inside an m64 atom `d[0..n/2)` of the
/// PTX ISA (an `n` over 256 is several instructions side by side, whose registers follow on), then the atoms of `m`.
/// Warpgroup `w` owns rows `[w * m / warpgroups, (w + 1) * m / warpgroups)`.
pub fn wgmma_acc(m: u64, n: u64, warpgroups: u64) -> Result<Layout, LayoutError> {
    let groups = multiple("wgmma.acc", "n", n, 8, "it is a multiple of 8")?;
    let atoms = atoms("wgmma.acc", m, warpgroups)?;
    let rows = Builder::new(&tile(m, n))
        .add(Axis::Reg, 2, &[0, 1])
        .add(Axis::Reg, 2, &[8, 0])
        .add(Axis::Reg, groups, &[0, 8])
        .add(Axis::Reg, atoms, &[ATOM_ROWS, 0])
        .add(Axis::Lane, 4, &[0, 2]);
    threads(rows, m, warpgroups)
}

/// The A operand from registers of an `m` by `k` tile with elements of `bits` bits (8, 16 or 32).
///
/// Axes as in [`wgmma_acc`]. One instruction takes `256 / bits` columns, which are four 32-bit registers of a thread;
/// registers run inside an instruction, then over `k`, then over the m64 atoms.
pub fn wgmma_a(m: u64, k: u64, bits: u64, warpgroups: u64) -> Result<Layout, LayoutError> {
    if ![8, 16, 32].contains(&bits) {
        return Err(refuse("wgmma.a", "bits", bits, "it is 8, 16 or 32"));
    }
    let steps = multiple("wgmma.a", "k", k, 256 / bits, "it is a multiple of 256 / bits")?;
    let atoms = atoms("wgmma.a", m, warpgroups)?;
    let packed = 32 / bits;
    let rows = Builder::new(&tile(m, k))
        .add(Axis::Reg, packed, &[0, 1])
        .add(Axis::Reg, 2, &[8, 0])
        .add(Axis::Reg, 2, &[0, 4 * packed])
        .add(Axis::Reg, steps, &[0, 8 * packed])
        .add(Axis::Reg, atoms, &[ATOM_ROWS, 0])
        .add(Axis::Lane, 4, &[0, packed]);
    threads(rows, m, warpgroups)
}

/// Number of m64 atoms of one warpgroup.
fn atoms(form: &'static str, m: u64, warpgroups: u64) -> Result<u64, LayoutError> {
    let warpgroups = multiple(form, "warpgroups", warpgroups, 1, "it is at least 1")?;
    multiple(form, "m", m, ATOM_ROWS * warpgroups, "it is a multiple of 64 for each warpgroup")
}

/// The rows of lanes, warps and warpgroups.
fn threads(fragment: Builder, m: u64, warpgroups: u64) -> Result<Layout, LayoutError> {
    fragment
        .add(Axis::Lane, 8, &[1, 0])
        .add(Axis::Warp, 4, &[16, 0])
        .add(Axis::Warpgroup, warpgroups, &[m / warpgroups, 0])
        .build()
}
