//! Accesses to memory: vector width, bank conflicts, and whether a copy is one of the hardware's matrix or bulk copies.
//!
//! An access is a layout `(reg, lane, warp) -> m`: a fragment composed with a memory layout.

use super::linear::labels;
use super::space::{dimension, sum};
use super::{Axis, Basis, Builder, Layout, LayoutError, OutVec, Step};
use std::collections::BTreeSet;

/// Banks of shared memory, each four bytes wide.
const BANKS: u64 = 32;

/// A vector access: which register bits make up one vector.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Vector {
    /// Elements of a vector, a power of two.
    pub elements: u64,
    /// Weight on `reg` of each bit of the position in the vector, low bit first. `[1, 2, ..]` when registers are already
    /// in order; else they are permuted (Linear Layouts, section 5.3, generalized vectorization).
    pub registers: Vec<u64>,
}

/// The widest vector of an access with at most `max_elements` elements that `base_align` (alignment in elements of the base
/// address, a power of two) allows. Registers may be permuted.
pub fn vector_width(access: &Layout, max_elements: u64, base_align: u64) -> Result<Vector, LayoutError> {
    let mem = position_of_mem(access)?;
    let limit = max_elements.max(1).min(1 << base_align.trailing_zeros().min(62));
    let mut digits = all_digits(access);
    digits.retain(|(axis, _)| *axis != Axis::Reg);
    digits.extend(bits(access, Axis::Reg).into_iter().map(|b| (Axis::Reg, b)));
    let mut registers = Vec::new();
    let mut width = 1;
    while width * 2 <= limit {
        let steps = |(axis, b): &&(Axis, Basis)| *axis == Axis::Reg && b.extent == 2 && b.out[mem] == width;
        match digits.iter().find(steps) {
            Some((_, b)) => registers.push(b.weight),
            None => break,
        }
        width *= 2;
    }
    while width > 1 && !aligned(&digits, &registers, mem, width) {
        registers.pop();
        width /= 2;
    }
    Ok(Vector { elements: width, registers })
}

/// Whether every digit outside the vector moves by multiples of its width.
fn aligned(digits: &[(Axis, Basis)], registers: &[u64], mem: usize, width: u64) -> bool {
    let inside = |axis: Axis, b: &Basis| axis == Axis::Reg && registers.contains(&b.weight);
    digits.iter().all(|(axis, b)| inside(*axis, b) || b.out[mem].is_multiple_of(width))
}

/// All digits with their axes.
pub(crate) fn all_digits(layout: &Layout) -> Vec<(Axis, Basis)> {
    let of = |axis: Axis| layout.basis(axis).into_iter().map(move |b| (axis, b));
    labels(layout.ins()).into_iter().flat_map(of).collect()
}

/// Index of the output `m`.
fn position_of_mem(access: &Layout) -> Result<usize, LayoutError> {
    let mem = access.outs().iter().position(|a| a.0 == Axis::Mem);
    mem.ok_or(LayoutError::MissingAxis(Axis::Mem))
}

/// Wavefronts of one shared memory instruction by all lanes of a warp, each moving `vector` neighbouring elements of `elem_bits`
/// bits. 1 is the least for up to 4 bytes a lane, 2 for 8, 4 for 16: hardware splits wide accesses by lanes.
///
/// By Lemma 9.4 of Linear Layouts where lanes act linearly: the lanes of one part conflict `2^k`-fold where `k` is the dimension
/// of what they reach without changing the bank. Else by evaluation.
pub fn wavefronts(access: &Layout, elem_bits: u64, vector: u64) -> Result<u64, LayoutError> {
    let mem = position_of_mem(access)?;
    let lanes = access.basis(Axis::Lane);
    let bits_per_lane = elem_bits.saturating_mul(vector);
    let regular = lanes.iter().all(|b| b.step == Step::Xor)
        && elem_bits.is_power_of_two()
        && elem_bits >= 8
        && vector.is_power_of_two()
        && bits_per_lane <= 128
        && lanes.len() == 5
        && lanes.iter().all(|b| b.out[mem].is_multiple_of(vector));
    if !regular {
        return wavefronts_by_evaluation(access, elem_bits, vector, &[]);
    }
    let parts = (bits_per_lane / 32).max(1);
    let part_bits = 5 - parts.trailing_zeros() as usize;
    let words: Vec<u64> = lanes[..part_bits].iter().map(|b| b.out[mem] * (elem_bits / 8) / 4).collect();
    Ok(parts << inside_banks(&words, 5))
}

/// Dimension of the part of a span that is zero on the low `bits`: lanes that meet in a bank.
fn inside_banks(words: &[u64], bits: u32) -> usize {
    let banks: Vec<u64> = words.iter().map(|w| w & ((1 << bits) - 1)).collect();
    dimension(words) - dimension(&banks)
}

/// The same by looking at every address: for each part of the warp the largest number of different words in one bank. `at` gives the
/// other input coordinates in the order of [`Layout::ins`] (its entry for `lane` is ignored; missing ones are 0).
pub fn wavefronts_by_evaluation(
    access: &Layout,
    elem_bits: u64,
    vector: u64,
    at: &[u64],
) -> Result<u64, LayoutError> {
    let mem = position_of_mem(access)?;
    let lane_axis = access.ins().iter().position(|a| a.0 == Axis::Lane);
    let lane_axis = lane_axis.ok_or(LayoutError::MissingAxis(Axis::Lane))?;
    let parts = (elem_bits.saturating_mul(vector) / 32).clamp(1, 32);
    let lanes = access.in_extent(Axis::Lane).min(32);
    let mut total = 0;
    for part in 0..parts {
        let mut words: Vec<BTreeSet<u64>> = vec![BTreeSet::new(); BANKS as usize];
        for lane in (0..lanes).filter(|l| l * parts / 32 == part) {
            let mut x = OutVec::from_slice(at);
            x.resize(access.ins().len(), 0);
            x[lane_axis] = lane;
            let start = access.apply(&x)[mem].saturating_mul(elem_bits);
            let end = start.saturating_add(elem_bits.saturating_mul(vector).clamp(1, 1024) - 1);
            for word in start / 32..=end / 32 {
                words[(word % BANKS) as usize].insert(word);
            }
        }
        total += words.iter().map(|w| w.len() as u64).max().unwrap_or(0);
    }
    Ok(total)
}

/// A copy between registers and shared memory that `ldmatrix` or `stmatrix` performs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MatrixCopy {
    /// 8 x 8 (16-bit) matrices of one instruction: 1, 2 or 4.
    pub count: u64,
    /// Whether it is the `.trans` form (16-bit elements only).
    pub trans: bool,
    /// Weights on `reg` of the bits inside one 32-bit register, low first.
    pub packed: Vec<u64>,
    /// Weights on `reg` of the bits that number the matrices.
    pub matrices: Vec<u64>,
    /// Address in elements that each lane gives, `lane -> m`: lanes `8 i + r` name row `r` of matrix `i`. For fewer than four matrices
    /// the remaining lane bits are zero columns.
    pub address: Layout,
    /// The digits of `reg` over which the instruction is repeated, with their offsets.
    pub repeat: Vec<Basis>,
}

/// Recognizes `ldmatrix` / `stmatrix` in an access `(reg, lane, ..) -> m` of elements with `elem_bits` bits (Linear Layouts,
/// section 5.3: division by the tile `id(reg) x id_2(lane)`, with permuted registers). None where a row of 16 bytes is not
/// contiguous or not aligned.
pub fn matrix_copy(access: &Layout, elem_bits: u64) -> Option<MatrixCopy> {
    if !matches!(elem_bits, 8 | 16 | 32) {
        return None;
    }
    straight(access, elem_bits).or_else(|| transposed(access, elem_bits))
}

/// The digits of an axis with every even extent cut into bits, low first; odd factors stay whole.
pub(crate) fn bits(layout: &Layout, axis: Axis) -> Vec<Basis> {
    let mut bits = Vec::new();
    for mut digit in layout.basis(axis) {
        while digit.extent.is_multiple_of(2) {
            bits.push(Basis { extent: 2, ..digit.clone() });
            digit.extent /= 2;
            digit.weight *= 2;
            digit.out.iter_mut().for_each(|o| *o *= 2);
        }
        if digit.extent > 1 {
            bits.push(digit);
        }
    }
    bits
}

/// The five bits of a full warp.
fn lane_bits(access: &Layout) -> Option<Vec<Basis>> {
    let lanes = bits(access, Axis::Lane);
    (lanes.len() == 5 && lanes.iter().all(|b| b.extent == 2)).then_some(lanes)
}

/// Rows along registers and the low two lane bits.
fn straight(access: &Layout, elem_bits: u64) -> Option<MatrixCopy> {
    let mem = position_of_mem(access).ok()?;
    let (lanes, regs) = (lane_bits(access)?, bits(access, Axis::Reg));
    let per_word = 32 / elem_bits;
    let mut packed = Vec::new();
    for b in 0..per_word.trailing_zeros() {
        let bit = regs.iter().find(|r| r.extent == 2 && r.out[mem] == 1 << b)?;
        packed.push(bit.weight);
    }
    let row = lanes[0].out[mem] == per_word && lanes[1].out[mem] == 2 * per_word;
    row.then(|| finish(access, false, packed, &lanes[2..], 4 * per_word))?
}

/// Columns along the high three lane bits, rows along one register bit and the low two lane bits.
fn transposed(access: &Layout, elem_bits: u64) -> Option<MatrixCopy> {
    let mem = position_of_mem(access).ok()?;
    let (lanes, regs) = (lane_bits(access)?, bits(access, Axis::Reg));
    let columns = lanes[2..].iter().map(|b| b.out[mem]).eq([1, 2, 4]);
    if elem_bits != 16 || !columns {
        return None;
    }
    let pair = regs.into_iter().find(|r| r.weight == 1 && r.extent == 2)?;
    let packed = vec![pair.weight];
    finish(access, true, packed, &[pair, lanes[0].clone(), lanes[1].clone()], 8)
}

/// Checks alignment of rows of `row` elements, and finds the bits that number the matrices.
fn finish(access: &Layout, trans: bool, packed: Vec<u64>, rows: &[Basis], row: u64) -> Option<MatrixCopy> {
    let mem = position_of_mem(access).ok()?;
    let regs: Vec<Basis> =
        bits(access, Axis::Reg).into_iter().filter(|b| !packed.contains(&b.weight)).collect();
    let others = labels(access.ins()).into_iter().filter(|a| !matches!(a, Axis::Reg | Axis::Lane));
    let mut apart = others.flat_map(|a| access.basis(a)).chain(regs.iter().chain(rows).cloned());
    if !apart.all(|b| b.out[mem].is_multiple_of(row)) {
        return None;
    }
    let numbering: Vec<&Basis> = regs.iter().filter(|b| b.extent == 2).take(2).collect();
    let matrices: Vec<u64> = numbering.iter().map(|b| b.weight).collect();
    let mut address = Builder::new(&[access.outs()[mem]]);
    for digit in rows.iter().chain(numbering) {
        let column = &[digit.out[mem]];
        address = match digit.step {
            Step::Xor => address.xor(Axis::Lane, column),
            Step::Add => address.add(Axis::Lane, 2, column),
        };
    }
    Some(MatrixCopy {
        count: 1 << matrices.len(),
        trans,
        repeat: regs.iter().filter(|b| !matrices.contains(&b.weight)).cloned().collect(),
        address: address.add(Axis::Lane, 4 >> matrices.len(), &[0]).build().ok()?,
        packed,
        matrices,
    })
}

impl MatrixCopy {
    /// Wavefronts of one instruction: a matrix is moved by eight row addresses of 16 bytes, which conflict in eight groups
    /// of four banks.
    pub fn wavefronts(&self, elem_bits: u64) -> u64 {
        let chunk = |lane| self.address.apply(&[lane])[0] * elem_bits / 128;
        let of_matrix = |matrix: u64| {
            let chunks: [u64; 8] = std::array::from_fn(|row| chunk(8 * matrix + row as u64));
            let first = |k: &usize| !chunks[..*k].contains(&chunks[*k]);
            let meeting =
                |k: usize| (k..8).filter(first).filter(|&l| chunks[l] % 8 == chunks[k] % 8).count() as u64;
            (0..8).filter(first).map(meeting).max().unwrap_or(0)
        };
        (0..self.count).map(of_matrix).sum()
    }

    /// Register (in elements) that holds element `position` (0 to 32 / bits - 1) of matrix `matrix`.
    pub fn register(&self, matrix: u64, position: u64) -> u64 {
        sum(&self.matrices, matrix) + sum(&self.packed, position)
    }
}

/// Bytes of the widest `cp.async` (16, 8 or 4) that moves from `global` to `shared`, both `(reg, lane, ..) -> m` of the same elements;
/// none where neighbouring registers are not neighbours in both or `global_align` (bytes) is too small.
pub fn cp_async_bytes(global: &Layout, shared: &Layout, elem_bits: u64, global_align: u64) -> Option<u64> {
    [16u64, 8, 4].into_iter().find(|bytes| {
        let elements = bytes * 8 / elem_bits.max(1);
        let width = |l: &Layout| vector_width(l, elements, elements).ok();
        let (Some(g), Some(s)) = (width(global), width(shared)) else {
            return false;
        };
        global_align.is_multiple_of(*bytes) && elements > 0 && g.elements == elements && g == s
    })
}

/// A TMA copy of a whole shared memory tile.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TmaCopy {
    /// Swizzle span in bytes: 0, 32, 64 or 128.
    pub swizzle: u64,
    /// Rows and columns of the box, each up to 256.
    pub box_shape: [u64; 2],
    /// Box number to offset in boxes: `(d0, d1)` count boxes, `m` counts boxes.
    pub boxes: Layout,
}

/// Recognizes a tile `(d0, d1) -> m` as TMA boxes (Axe, section 3.4): the tile must be a product of a swizzle atom and an outer layout. The
/// widest swizzle and the largest box win.
pub fn tma_copy(tile: &Layout, elem_bits: u64) -> Option<TmaCopy> {
    [128, 64, 32, 0].into_iter().find_map(|span| tma_with(tile, elem_bits, span))
}

/// With one swizzle.
fn tma_with(tile: &Layout, elem_bits: u64, swizzle: u64) -> Option<TmaCopy> {
    let (rows, cols) = (tile.in_extent(Axis::Dim(0)), tile.in_extent(Axis::Dim(1)));
    let atom_cols = match swizzle {
        0 => plain_cols(tile, cols, elem_bits)?,
        span => span * 8 / elem_bits.max(1),
    };
    let atom_rows = if swizzle == 0 { 1 } else { 8 };
    let atom = super::shared::swizzled(atom_rows, atom_cols, elem_bits, swizzle).ok()?;
    let outer = tile.left_divide(&atom).ok()?;
    let repeat = first_run(&outer);
    let most = repeat.min(256 / atom_rows);
    let repeat = (1..=most).rev().find(|r| repeat.is_multiple_of(*r))?;
    let column = Layout::identity(Axis::Dim(0), Axis::Mem, repeat).ok()?;
    let boxes = outer.left_divide(&column).ok()?;
    let fits = rows.is_multiple_of(atom_rows * repeat) && cols.is_multiple_of(atom_cols);
    fits.then_some(TmaCopy { swizzle, box_shape: [atom_rows * repeat, atom_cols], boxes })
}

/// Columns of an unswizzled box: contiguous ones, a multiple of 16 bytes.
fn plain_cols(tile: &Layout, cols: u64, elem_bits: u64) -> Option<u64> {
    let run = tile
        .open()
        .into_iter()
        .find(|r| tile.ins()[r.axis as usize].0 == Axis::Dim(1) && !r.swizzles() && r.add[..] == [1])?;
    let fits = |c: &u64| {
        cols.is_multiple_of(*c) && run.extent.is_multiple_of(*c) && (c * elem_bits).is_multiple_of(128)
    };
    (1..=run.extent.min(256)).rev().find(fits)
}

/// Extent of the fastest run of `d0` when it moves `m` by one.
fn first_run(outer: &Layout) -> u64 {
    let axis = outer.ins().iter().position(|a| a.0 == Axis::Dim(0));
    let run = outer.open().into_iter().find(|r| Some(r.axis as usize) == axis);
    run.filter(|r| r.add[..] == [1]).map_or(1, |r| r.extent)
}
