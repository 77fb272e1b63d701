//! Optimal swizzling: a shared memory layout for one write and one read (Linear Layouts, sections 5.4 and 9.2).
//!
//! ```text
//!   offset bits    │ Idx ........ │ Bank │ Vec ......│
//!                    rows of banks  which  ...│ Word │   inside one lane's vector; inside a bank's word
//!   conflict-free  ⇔  no two lanes of a part differ by something in span(Vec ∪ Word ∪ Idx) outside span(Vec ∪ Word)
//! ```
//!
//! `Idx` is chosen in the largest space that meets neither `span(Vec ∪ Word ∪ lanes of the write)` nor the same span of the
//! read. Only the lanes that hardware serves together count: 32, 16 or 8 for vectors of 4, 8 or 16 bytes.
//!
//! Section 9.2 takes one `Vec` for both sides, and leaves vectors below a word open ("not enough vectorization"). A bank's
//! word holds several elements then, so `Word` takes part whatever a lane moves at once: with it the largest space of lemma
//! 9.5 again has room for all of `Idx`, and no instruction conflicts. The low offset bits need not be registers on both sides
//! either. The common registers come first, then registers of one side, whose vectors are whole words so; the side and their
//! number are those for which both cost least. Such a vector is aligned only if no other column of its side has a part in the
//! low bits, so `Bank` and `Idx` are looked for in the span of those columns first (`rest`), then anywhere.

use super::space::{Coordinates, Vectors, avoiding, dimension, extension, independent, intersection, units};
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
    /// Bits that one lane moves together, low first.
    vec: Vectors,
    /// Lanes that are served together.
    lanes: Vectors,
}

/// Two accesses to one memory.
struct Pair {
    /// The lowest bits of an offset; the vector of each side begins them.
    low: Vectors,
    /// A complement of `low`, where `Bank` and `Idx` are looked for.
    rest: Vectors,
    /// The two sides.
    sides: [Pattern; 2],
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
/// fewest wavefronts, then the fewest instructions. With [`Method::Matrix`] on a side the 16-byte rows of `ldmatrix` / `stmatrix` are
/// contiguous.
///
/// Refuses layouts with an outer part or that do not cover the tile, matrix access that the other side's vectors cannot join, and
/// elements below a byte of which the two sides have no whole byte in common ([`convert`](super::convert::convert) widens those).
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
    let candidates = pairs((write.0, write.1), (&reader, read.1), elem_bits, bits)?;
    let mut best: Option<((u64, u64), Layout)> = None;
    for pair in &candidates {
        let memory = memory(write.0, &basis(pair, bits, elem_bits))?;
        if candidates.len() == 1 {
            return Ok(memory);
        }
        let sides = [cost(&write.0.then(&memory)?, elem_bits)?, cost(&reader.then(&memory)?, elem_bits)?];
        let both = (sides[0].wavefronts + sides[1].wavefronts, sides[0].instructions + sides[1].instructions);
        if best.as_ref().is_none_or(|b| both < b.0) {
            best = Some((both, memory));
        }
    }
    best.map(|b| b.1).ok_or_else(|| no_rows(elem_bits))
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

/// No rows of 16 bytes.
fn no_rows(elem_bits: u64) -> LayoutError {
    super::fragment::refuse("swizzle", "elem_bits", elem_bits, "the fragment has no matrix rows of 16 bytes")
}

/// The pairs of accesses to choose from: those of vectors with the common registers, then with those of one side behind them.
fn pairs(
    (a, by_a): (&Layout, Method),
    (b, by_b): (&Layout, Method),
    elem_bits: u64,
    bits: u32,
) -> Result<Vec<Pair>, LayoutError> {
    if !elem_bits.is_power_of_two() || elem_bits > 128 {
        let rule = "it is a power of two up to 128";
        return Err(super::fragment::refuse("swizzle", "elem_bits", elem_bits, rule));
    }
    let matrix = |l: &Layout| Pattern::matrix(l, elem_bits).ok_or_else(|| no_rows(elem_bits));
    let join = |low: &[u64], l: &Layout| Pattern::vector(l, prefix(low, l), elem_bits);
    let (low, sides) = match (by_a, by_b) {
        (Method::Vector, Method::Vector) => return vector_pairs(a, b, elem_bits, bits),
        (Method::Matrix, Method::Vector) => {
            let a = matrix(a)?;
            let b = join(&a.vec, b);
            (a.vec.clone(), [a, b])
        }
        (Method::Vector, Method::Matrix) => {
            let b = matrix(b)?;
            let a = join(&b.vec, a);
            (b.vec.clone(), [a, b])
        }
        (Method::Matrix, Method::Matrix) => {
            let (a, b) = (matrix(a)?, matrix(b)?);
            if a.vec != b.vec {
                return Err(no_rows(elem_bits));
            }
            (a.vec.clone(), [a, b])
        }
    };
    Ok(vec![Pair { low, rest: units(bits), sides }])
}

/// Vectors on both sides: the common registers, then a word or more of one side's registers that begin with them.
fn vector_pairs(a: &Layout, b: &Layout, elem_bits: u64, bits: u32) -> Result<Vec<Pair>, LayoutError> {
    let limit = (128 / elem_bits).trailing_zeros() as usize;
    let common = common_registers(a, b, limit as u32);
    if elem_bits << common.len() < 8 {
        let rule = "both sides hold whole bytes of the same elements";
        return Err(super::fragment::refuse("swizzle", "elem_bits", elem_bits, rule));
    }
    let sides = |low: &[u64]| [a, b].map(|l| Pattern::vector(l, prefix(low, l), elem_bits));
    let anywhere = |low: Vectors| Pair { rest: units(bits), sides: sides(&low), low };
    let aligned = |low: Vectors, to: &Layout| {
        let all: Vectors = to.ins().iter().flat_map(|i| columns(to, i.0)).collect();
        let rest = extension(&low, &all);
        Pair { rest, sides: sides(&low), low }
    };
    let word = (32 / elem_bits.min(32)).trailing_zeros() as usize;
    let mut all = vec![anywhere(common.clone()), aligned(common.clone(), a)];
    for side in [a, b] {
        let more = extension(&common, &columns(side, Axis::Reg));
        let longest: Vectors = common.iter().copied().chain(more).take(limit).collect();
        let lengths = (word.max(common.len() + 1)..=longest.len()).rev();
        all.extend(lengths.map(|length| aligned(longest[..length].to_vec(), side)));
    }
    Ok(all)
}

/// The first of `vec` that are registers of the layout.
fn prefix(vec: &[u64], layout: &Layout) -> Vectors {
    let regs = columns(layout, Axis::Reg);
    vec.iter().copied().take_while(|v| regs.contains(v)).collect()
}

/// The columns of the offset bits: `Vec` with `Word`, `Bank`, `Idx`.
fn basis(pair: &Pair, bits: u32, elem_bits: u64) -> Vectors {
    let [a, b] = &pair.sides;
    let fallback: Vectors = a.lanes.iter().rev().chain(&b.lanes).chain(&pair.rest).copied().collect();
    let word = (32 / elem_bits.min(32)).trailing_zeros() as usize;
    let missing = word.saturating_sub(pair.low.len());
    let mut low = pair.low.clone();
    low.extend(extension(&pair.low, &fallback).into_iter().take(missing));
    let per_row = (1024 / elem_bits).trailing_zeros() as usize;
    let index = (bits as usize).saturating_sub(per_row.max(low.len()));
    let inside = &low[..word.min(low.len())];
    let span = |p: &Pattern| -> Vectors {
        let all: Vectors = p.vec.iter().chain(inside).chain(&p.lanes).copied().collect();
        intersection(&all, &pair.rest)
    };
    let mut free = extension(&low, &avoiding(&span(a), &span(b), &pair.rest));
    free.truncate(index);
    let taken: Vectors = low.iter().chain(&free).copied().collect();
    let more = extension(&taken, &fallback);
    free.extend(more.into_iter().take(index - free.len()));
    let taken: Vectors = low.iter().chain(&free).copied().collect();
    let bank = extension(&taken, &pair.rest);
    low.iter().chain(&bank).chain(&free).copied().collect()
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

/// The cost of an access for a warp with all of its registers.
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
