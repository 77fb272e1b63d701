//! Fragments of one warp: `mma.sync`, `ldmatrix` and `stmatrix` (PTX ISA, "Matrix Fragments for mma.m16n8k16" and
//! its neighbours, "Warp-level matrix load instruction: ldmatrix").

use super::{multiple, refuse, tile};
use crate::layout::{Axis, Builder, Layout, LayoutError};

/// Elements of a 32-bit register.
fn packed(form: &'static str, bits: u64) -> Result<u64, LayoutError> {
    match bits {
        1 | 4 | 8 | 16 | 32 => Ok(32 / bits),
        64 => Ok(1),
        _ => Err(refuse(form, "bits", bits, "it is 1, 4, 8, 16, 32 or 64")),
    }
}

/// Steps of 128 bits (of a row) in `k`: one register of a quad of lanes each.
fn quads(form: &'static str, k: u64, packed: u64) -> Result<u64, LayoutError> {
    multiple(form, "k", k, 4 * packed, "it is a multiple of 128 / bits")
}

/// The A operand of `mma.sync.m8n8kK`, `8 x k` elements of `bits` bits (f64 k4, s8 k16, s4 k32, b1 k128): [`mma_b`] with
/// rows and columns exchanged.
pub fn mma8_a(k: u64, bits: u64) -> Result<Layout, LayoutError> {
    let exchange = |axis| match axis {
        Axis::Dim(d) => Axis::Dim(1 - d),
        other => other,
    };
    mma_b(k, bits)?.renamed(exchange)?.with_outs(&[Axis::Dim(0), Axis::Dim(1)])
}

/// The accumulator of `mma.sync.m8n8kK` (f64, s32): `(reg, lane)` to `(row, column)`.
pub fn mma8_acc() -> Result<Layout, LayoutError> {
    ldmatrix(1, false)
}

/// Operands of `mma.sync.m8n8k4` with f16 inputs, where four quad pairs of lanes compute four products.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QuadPair {
    /// A stored by rows, or B by columns: a thread holds four along `k`.
    AlongK,
    /// A stored by columns, or B by rows: a thread holds four across `k`.
    AcrossK,
    /// Accumulator of f16: a thread holds a row.
    AccF16,
    /// Accumulator of f32.
    AccF32,
}

/// Operands of `mma.sync.m8n8k4` with f16 inputs: `(reg, lane)` to `(d0 product, d1 row, d2 column)`, where an operand's row is its
/// index in `m` or `n` and its column is `k` (PTX ISA, "Matrix Fragments for mma.m8n8k4 with .f16").
pub fn mma_quad_pair(operand: QuadPair) -> Result<Layout, LayoutError> {
    let cols = if matches!(operand, QuadPair::AlongK | QuadPair::AcrossK) { 4 } else { 8 };
    let [row, col] = tile(8, cols);
    let layout = Builder::new(&[(Axis::Dim(0), 4), (Axis::Dim(1), row.1), (Axis::Dim(2), col.1)]);
    let layout = match operand {
        QuadPair::AlongK => layout.add(Axis::Reg, 4, &[0, 0, 1]).add(Axis::Lane, 4, &[0, 1, 0]),
        QuadPair::AcrossK => layout.add(Axis::Reg, 4, &[0, 1, 0]).add(Axis::Lane, 4, &[0, 0, 1]),
        QuadPair::AccF16 => layout.add(Axis::Reg, 8, &[0, 0, 1]).add(Axis::Lane, 4, &[0, 1, 0]),
        QuadPair::AccF32 => layout
            .add(Axis::Reg, 2, &[0, 0, 1])
            .add(Axis::Reg, 2, &[0, 2, 0])
            .add(Axis::Reg, 2, &[0, 0, 4])
            .add(Axis::Lane, 2, &[0, 1, 0])
            .add(Axis::Lane, 2, &[0, 0, 2]),
    };
    layout.add(Axis::Lane, 4, &[1, 0, 0]).add(Axis::Lane, 2, &[0, 4, 0]).build()
}

/// The A operand of `mma.sync.m16n8kK`, `16 x k` elements of `bits` bits; `(reg, lane)` to `(row, k)`.
///
/// One register of a quad of lanes is `128 / bits` columns; a `k` longer than one instruction's continues the pattern.
pub fn mma_a(k: u64, bits: u64) -> Result<Layout, LayoutError> {
    let p = packed("mma.a", bits)?;
    Builder::new(&tile(16, k))
        .add(Axis::Reg, p, &[0, 1])
        .add(Axis::Reg, 2, &[8, 0])
        .add(Axis::Reg, quads("mma.a", k, p)?, &[0, 4 * p])
        .add(Axis::Lane, 4, &[0, p])
        .add(Axis::Lane, 8, &[1, 0])
        .build()
}

/// The B operand of `mma.sync.m16n8kK`, `k x 8` elements of `bits` bits; `(reg, lane)` to `(k, column)`.
pub fn mma_b(k: u64, bits: u64) -> Result<Layout, LayoutError> {
    let p = packed("mma.b", bits)?;
    Builder::new(&tile(k, 8))
        .add(Axis::Reg, p, &[1, 0])
        .add(Axis::Reg, quads("mma.b", k, p)?, &[4 * p, 0])
        .add(Axis::Lane, 4, &[p, 0])
        .add(Axis::Lane, 8, &[0, 1])
        .build()
}

/// The accumulator of `mma.sync.m16n8kK` (f32, f16 and s32): `(reg, lane)` to `(row, column)`.
pub fn mma_acc() -> Result<Layout, LayoutError> {
    Builder::new(&tile(16, 8))
        .add(Axis::Reg, 2, &[0, 1])
        .add(Axis::Reg, 2, &[8, 0])
        .add(Axis::Lane, 4, &[0, 2])
        .add(Axis::Lane, 8, &[1, 0])
        .build()
}

/// The accumulator of an `m` by `n` tile over `rows` x `cols` warps: axes `reg`, `lane`, `warp` to `(d0, d1)`.
///
/// A warp's atoms of 16 rows lie `16 * rows` apart, so that a part of `16 * rows` rows belongs to all warps alike, or `together`; its
/// columns lie together. Warps run along the columns first. Registers: an m16n8 atom, then the atoms of `n`, then those of `m`.
pub fn mma_tile_acc(m: u64, n: u64, [rows, cols]: [u64; 2], together: bool) -> Result<Layout, LayoutError> {
    let (m_atoms, own) = warp_tile(m, n, [rows, cols])?;
    let (atom, warp) = if together { (16, 16 * m_atoms) } else { (16 * rows, 16) };
    Builder::new(&tile(m, n))
        .add(Axis::Reg, 2, &[0, 1])
        .add(Axis::Reg, 2, &[8, 0])
        .add(Axis::Reg, own / 8, &[0, 8])
        .add(Axis::Reg, m_atoms, &[atom, 0])
        .add(Axis::Lane, 4, &[0, 2])
        .add(Axis::Lane, 8, &[1, 0])
        .add(Axis::Warp, cols, &[0, own])
        .add(Axis::Warp, rows, &[warp, 0])
        .build()
}

/// Atoms of 16 rows, and columns, of one warp of `rows` x `cols`.
fn warp_tile(m: u64, n: u64, [rows, cols]: [u64; 2]) -> Result<(u64, u64), LayoutError> {
    let rows = multiple("mma.tile", "rows", rows, 1, "it is at least 1")?;
    let cols = multiple("mma.tile", "cols", cols, 1, "it is at least 1")?;
    let m_atoms = multiple("mma.tile", "m", m, 16 * rows, "it is a multiple of 16 for each row of warps")?;
    let n_atoms = multiple("mma.tile", "n", n, 8 * cols, "it is a multiple of 8 for each column of warps")?;
    Ok((m_atoms, 8 * n_atoms))
}

/// What `ldmatrix.xCOUNT` (with `.trans`) of `count` 8 x 8 matrices of 16-bit elements leaves in registers: `(reg, lane)` to `(d0, d1)`,
/// the matrices stacked along `d0` in the order of their registers.
pub fn ldmatrix(count: u64, trans: bool) -> Result<Layout, LayoutError> {
    matrices("ldmatrix", count, trans)
}

/// The registers that `stmatrix.xCOUNT` (with `.trans`) stores: the same map as [`ldmatrix`].
pub fn stmatrix(count: u64, trans: bool) -> Result<Layout, LayoutError> {
    matrices("stmatrix", count, trans)
}

/// Stacked 8 x 8 matrices.
fn matrices(form: &'static str, count: u64, trans: bool) -> Result<Layout, LayoutError> {
    if ![1, 2, 4].contains(&count) {
        return Err(refuse(form, "count", count, "it is 1, 2 or 4"));
    }
    let (slow, fast) = if trans { ([0, 1], [1, 0]) } else { ([1, 0], [0, 1]) };
    Builder::new(&tile(8 * count, 8))
        .add(Axis::Reg, 2, &fast)
        .add(Axis::Reg, count, &[8, 0])
        .add(Axis::Lane, 4, &[2 * fast[0], 2 * fast[1]])
        .add(Axis::Lane, 8, &slow)
        .build()
}
