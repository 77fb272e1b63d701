//! Optimal swizzling: a shared memory layout for one write and one read (Linear Layouts, sections 5.4 and 9.2).
//!
//! ```text
//!   offset bits    │ Idx ........ │ Bank │ Vec │
//!                    rows of banks  which  inside one lane's vector
//!   conflict-free  ⇔  no two lanes of a part differ by something in span(Vec ∪ Idx)
//! ```
//!
//! `Idx` is chosen in the largest space that meets neither `span(Vec ∪ lanes of the write)` nor `span(Vec ∪ lanes of
//! the read)`. Only the lanes that hardware serves together count: 32, 16 or 8 for vectors of 4, 8 or 16 bytes.

use super::space::{Coordinates, Vectors, avoiding, dimension, extension, independent, units};
use super::{Axis, Builder, Layout, LayoutError};

/// How registers are moved to or from shared memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Method {
    /// `ld.shared` / `st.shared`, as wide as possible.
    Vector,
    /// `ldmatrix` / `stmatrix` (16-bit elements or pairs of them).
    Matrix,
}

/// An access as a problem of linear algebra: columns over the bits of the tile.
struct Pattern {
    /// Bits that must be neighbours, low first.
    vec: Vectors,
    /// Lanes that are served together.
    lanes: Vectors,
}

/// The columns of an axis over the bits of the tile; refuses what is not linear.
fn columns(layout: &Layout, axis: Axis) -> Vectors {
    let basis = layout.basis(axis);
    basis.iter().map(|b| layout.pack_outs(&b.out)).collect()
}

/// The registers that both layouts have in common, at most `limit` of them, in the order of the first.
fn common_registers(a: &Layout, b: &Layout, limit: u32) -> Vectors {
    let (a, b) = (columns(a, Axis::Reg), columns(b, Axis::Reg));
    let shared = a.into_iter().filter(|c| *c != 0 && b.contains(c));
    independent(&shared.collect::<Vectors>()).into_iter().take(limit as usize).collect()
}

/// Elements (up to 16 bytes) that are vectors of registers on both sides.
pub(crate) fn common_vector(a: &Layout, b: &Layout, elem_bits: u64) -> u64 {
    let limit = (128 / elem_bits.clamp(1, 128)).ilog2();
    1 << common_registers(a, b, limit).len()
}

impl Pattern {
    /// A vector access of `vec`.
    fn vector(layout: &Layout, vec: Vectors, elem_bits: u64) -> Pattern {
        let parts = ((elem_bits << vec.len()) / 32).max(1);
        let served = 5usize.saturating_sub(parts.trailing_zeros() as usize);
        let lanes = columns(layout, Axis::Lane).into_iter().take(served).collect();
        Pattern { vec, lanes }
    }

    /// A matrix access: 16 bytes over registers and two lane bits, eight rows over three.
    fn matrix(layout: &Layout, elem_bits: u64) -> Option<Pattern> {
        let (regs, lanes) = (columns(layout, Axis::Reg), columns(layout, Axis::Lane));
        let packed = (32 / elem_bits).trailing_zeros() as usize;
        if regs.len() < packed || lanes.len() != 5 {
            return None;
        }
        let vec: Vectors = regs[..packed].iter().chain(&lanes[..2]).copied().collect();
        (dimension(&vec) == vec.len()).then(|| Pattern { vec, lanes: lanes[2..].to_vec() })
    }
}

/// The layout `(dims) -> m` of shared memory that serves `write` and `read` (`(reg, lane, ..)` to the same dimensions, linear) with the
/// widest common vectors and the fewest bank conflicts. With [`Method::Matrix`] on a side the 16-byte rows of `ldmatrix` /
/// `stmatrix` are contiguous.
///
/// Refuses layouts with an outer part or that do not cover the tile, and matrix access that the other side's vectors cannot join.
pub fn optimal_swizzle(
    write: (&Layout, Method),
    read: (&Layout, Method),
    elem_bits: u64,
) -> Result<Layout, LayoutError> {
    let reader = read.0.reordered(read.0.ins(), write.0.outs())?;
    for layout in [write.0, &reader] {
        layout.require_linear()?;
        require_cover(layout)?;
    }
    let bits = write.0.outs().iter().map(|a| a.1.trailing_zeros()).sum();
    let (a, b) = patterns((write.0, write.1), (&reader, read.1), elem_bits)?;
    let columns = basis(&a, &b, bits, elem_bits);
    memory(write.0, &columns)
}

/// Every axis a power of two, all of it reached.
fn require_cover(layout: &Layout) -> Result<(), LayoutError> {
    let bits: u32 = layout.outs().iter().map(|a| super::linear::bits_of(a.1)).sum();
    match layout.outs().iter().find(|a| !a.1.is_power_of_two()) {
        Some(&(axis, extent)) => Err(LayoutError::NotDivisible { axis, extent, by: 2 }),
        None if layout.rank() == bits => Ok(()),
        // The inverse names what is not reached.
        None => layout.right_inverse().map(|_| ()),
    }
}

/// Both accesses with vectors of which one begins with the other.
fn patterns(
    (a, by_a): (&Layout, Method),
    (b, by_b): (&Layout, Method),
    elem_bits: u64,
) -> Result<(Pattern, Pattern), LayoutError> {
    if !elem_bits.is_power_of_two() || !(8..=128).contains(&elem_bits) {
        return Err(super::fragment::refuse(
            "swizzle",
            "elem_bits",
            elem_bits,
            "it is a power of two from 8 to 128",
        ));
    }
    let refused = || {
        super::fragment::refuse(
            "swizzle",
            "elem_bits",
            elem_bits,
            "the fragment has no matrix rows of 16 bytes",
        )
    };
    let common = common_registers(a, b, (128 / elem_bits).trailing_zeros());
    match (by_a, by_b) {
        (Method::Vector, Method::Vector) => {
            Ok((Pattern::vector(a, common.clone(), elem_bits), Pattern::vector(b, common, elem_bits)))
        }
        (Method::Matrix, Method::Vector) => {
            let matrix = Pattern::matrix(a, elem_bits).ok_or_else(refused)?;
            let vec = prefix(&matrix.vec, b);
            Ok((matrix, Pattern::vector(b, vec, elem_bits)))
        }
        (Method::Vector, Method::Matrix) => {
            let matrix = Pattern::matrix(b, elem_bits).ok_or_else(refused)?;
            let vec = prefix(&matrix.vec, a);
            Ok((Pattern::vector(a, vec, elem_bits), matrix))
        }
        (Method::Matrix, Method::Matrix) => {
            let (x, y) = (Pattern::matrix(a, elem_bits), Pattern::matrix(b, elem_bits));
            let (x, y) = (x.ok_or_else(refused)?, y.ok_or_else(refused)?);
            if x.vec == y.vec { Ok((x, y)) } else { Err(refused()) }
        }
    }
}

/// The first of `vec` that are registers of the layout.
fn prefix(vec: &[u64], layout: &Layout) -> Vectors {
    let regs = columns(layout, Axis::Reg);
    vec.iter().copied().take_while(|v| regs.contains(v)).collect()
}

/// The columns of the offset bits: `Vec`, `Bank`, `Idx`.
fn basis(a: &Pattern, b: &Pattern, bits: u32, elem_bits: u64) -> Vectors {
    let vec = if a.vec.len() >= b.vec.len() { &a.vec } else { &b.vec };
    let per_row = (1024 / elem_bits).trailing_zeros() as usize;
    let index = (bits as usize).saturating_sub(per_row.max(vec.len()));
    let span = |p: &Pattern| -> Vectors { p.vec.iter().chain(&p.lanes).copied().collect() };
    let whole = units(bits);
    let mut free = avoiding(&span(a), &span(b), &whole);
    let inside: Vectors = vec.clone();
    free = extension(&inside, &free);
    free.truncate(index);
    let taken: Vectors = inside.iter().chain(&free).copied().collect();
    let fallback: Vectors = a.lanes.iter().rev().chain(&b.lanes).chain(&whole).copied().collect();
    let more = extension(&taken, &fallback);
    free.extend(more.into_iter().take(index - free.len()));
    let taken: Vectors = vec.iter().chain(&free).copied().collect();
    let bank = extension(&taken, &whole);
    vec.iter().chain(&bank).chain(&free).copied().collect()
}

/// The memory layout whose inverse has these columns.
fn memory(tile: &Layout, columns: &[u64]) -> Result<Layout, LayoutError> {
    let coordinates = Coordinates::new(columns);
    let size: u64 = tile.outs().iter().map(|a| a.1).product();
    let mut layout = Builder::new(&[(Axis::Mem, size)]);
    let mut shift = 0;
    for &(axis, extent) in tile.outs() {
        layout = layout.axis(axis);
        for bit in shift..shift + extent.trailing_zeros() {
            layout = layout.xor(axis, &[coordinates.of(1 << bit).unwrap_or(0)]);
        }
        shift += extent.trailing_zeros();
    }
    layout.build()
}

/// The TMA swizzle (0, 32, 64 or 128 bytes) of a `rows x cols` tile with the fewest wavefronts summed over the given fragments' widest
/// vector accesses, and that sum. The widest swizzle wins among equals.
pub fn best_tma_swizzle(
    rows: u64,
    cols: u64,
    elem_bits: u64,
    fragments: &[&Layout],
) -> Result<(u64, u64), LayoutError> {
    let mut best: Option<(u64, u64)> = None;
    for span in [128, 64, 32, 0] {
        let Ok(memory) = super::shared::swizzled(rows, cols, elem_bits, span) else {
            continue;
        };
        let mut sum = 0;
        for fragment in fragments {
            sum += cost(&fragment.then(&memory)?, elem_bits)?.wavefronts;
        }
        if best.is_none_or(|b| sum < b.1) {
            best = Some((span, sum));
        }
    }
    best.ok_or_else(|| super::fragment::refuse("swizzle", "cols", cols, "some swizzle fits the tile"))
}

/// What an access costs a warp with all of its registers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Cost {
    /// Passes through shared memory of 128 bytes each at best.
    pub wavefronts: u64,
    /// Instructions.
    pub instructions: u64,
    /// How: by matrix copies where the access is one.
    pub method: Method,
}

/// Cost of an access `(reg, lane, ..) -> m` to shared memory.
pub fn cost(access: &Layout, elem_bits: u64) -> Result<Cost, LayoutError> {
    let regs = access.in_extent(Axis::Reg);
    if let Some(copy) = super::access::matrix_copy(access, elem_bits) {
        let instructions = regs / (copy.count << copy.packed.len());
        let wavefronts = instructions * copy.wavefronts(elem_bits);
        return Ok(Cost { wavefronts, instructions, method: Method::Matrix });
    }
    let vector = super::access::vector_width(access, (128 / elem_bits.max(1)).max(1), 1 << 32)?;
    let instructions = regs / vector.elements;
    let wavefronts = instructions * super::access::wavefronts(access, elem_bits, vector.elements)?;
    Ok(Cost { wavefronts, instructions, method: Method::Vector })
}
