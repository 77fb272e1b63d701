//! The same packing as a kernel: tile IR generated from the plan's order.
//!
//! ```text
//!  a block: one tile of W in scratch memory, as words
//!  word of the packed tile ─► places of the elements in it ─► digits: row, column ─► word and bit in the tile
//!                             gathered, shifted down, masked, shifted to their bits and summed
//! ```
//!
//! Elements that cross words are gathered from both words. Each packed word takes its parts of its first and last
//! element. (Tilus, section 7 and Fig. 9: the transformation of a weight's layout is generated.)

use std::fmt::Write;
use warplift_ir::manifest::Packing;

/// Bits of a word.
const WORD: u32 = 32;
/// Elements that a block works on at once.
const AT_ONCE: u32 = 8192;

/// Why a packing has no kernel.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PackingKernelError {
    /// The rows of a tile are not whole words.
    #[error("rows of {columns} elements of {bits} bits are no whole words of {WORD} bits")]
    Rows {
        /// Elements of a row of the tile.
        columns: u32,
        /// Bits of one.
        bits: u32,
    },
    /// Elements wider than a word.
    #[error("elements of {bits} bits: at most {WORD} are packed by a kernel")]
    Wide {
        /// Bits of one.
        bits: u32,
    },
}

/// The text of a kernel `pack(w, packed, outer, rows, columns)` with a mapping: `w` is the array of so many rows and
/// columns for each outer index (1 where the array has two dimensions), row by row with no gaps, a row a whole number
/// of words; both arrays are seen as words.
///
/// # Errors
/// A packing that the kernel cannot do.
pub fn kernel_text(packing: &Packing) -> Result<String, PackingKernelError> {
    let ([height, width], bits) = (packing.tile, packing.bits);
    if bits > WORD {
        return Err(PackingKernelError::Wide { bits });
    }
    if !(width * bits).is_multiple_of(WORD) {
        return Err(PackingKernelError::Rows { columns: width, bits });
    }
    let across = width * bits / WORD;
    let words = height * across;
    let crosses = !WORD.is_multiple_of(bits);
    // Elements of a word, or more than it can have parts of.
    let each = if crosses { (WORD / bits + 2).next_power_of_two() } else { WORD / bits };
    let chunk = (AT_ONCE / each).min(words.next_power_of_two());
    let multiple = WORD >> bits.trailing_zeros().min(5);
    let [row, column] = [0, 1].map(|d| coordinate(packing, d));
    let first = if crosses { format!("word * {WORD} / {bits}") } else { format!("word * {each}") };
    let element = element(bits, words, crosses);
    // One more outer index reads outside of `w`, so its first tile is the zeros. The others are outside of `packed`.
    let zeros = u8::from(packing.zeros);
    Ok(format!(
        "# Packs w[outer, rows, columns], elements of {bits} bits, in tiles of {height} x {width}.
kernel pack(w: ptr<u32> align 16, packed: ptr<u32> align 16, outer: i32, rows: i32, columns: i32 % {multiple}) {{
    grid cdiv(rows, {height}), cdiv(columns, {width}), outer + {zeros}
    i, j = block_index
    o = block_index(2)
    all = view w : u32[outer, rows, columns / {multiple} * {step}]
    gw = subview all[o, _, _]
    gp = view packed : u32[outer * cdiv(rows, {height}) * cdiv(columns, {width}) + {zeros}, {words}]
    tile = reshape(load gw[i*{height}, j*{across}] : u32[{height}, {across}]) : u32[1, {words}]
    for c in 0..{chunks} {{
        at = iota 1 : i32[1, {both}]
        word = at / {each} + c * {chunk}
        of = {first} + at % {each}
        place = min(of, {last})
        row = {row}
        column = {column}
        bit = (row * {width} + column) * {bits}
{element}
        whole = reduce_sum(reshape(part) : u32[1, {chunk}, {each}], 2)
        store gp[(o * cdiv(rows, {height}) + i) * cdiv(columns, {width}) + j, c * {chunk}], whole
    }}
}}
mapping pack {{ kernel: warps 8 }}
",
        step = multiple * bits / WORD,
        chunks = words.div_ceil(chunk),
        both = chunk * each,
        last = height * width - 1,
    ))
}

/// A coordinate inside the tile as a sum over digits of `place`.
fn coordinate(packing: &Packing, dim: usize) -> String {
    let (mut sum, mut weight) = (String::new(), 1);
    for digit in &packing.digits {
        if digit.step[dim] > 0 {
            let plus = if sum.is_empty() { "" } else { " + " };
            let _ = write!(sum, "{plus}place / {weight} % {} * {}", digit.extent, digit.step[dim]);
        }
        weight *= digit.extent;
    }
    if sum.is_empty() { "place * 0".to_owned() } else { sum }
}

/// The contribution of the element at `bit` of the tile to `word`.
fn element(bits: u32, words: u32, crosses: bool) -> String {
    let mask = u64::from(u32::MAX) >> (WORD - bits);
    let low = format!(
        "        by = cast(bit % {WORD}, u32)
        low = gather(tile, bit / {WORD}, 1) >> by"
    );
    if !crosses {
        let part = format!("part = (low & {mask}) << cast(place * {bits} % {WORD}, u32)");
        return format!("{low}\n        {part}");
    }
    format!(
        "{low}
        high = gather(tile, min(bit / {WORD} + 1, {top}), 1) << (({WORD} - by) % {WORD})
        e = (low | select(by == 0, 0, high)) & {mask}
        up = of * {bits} - word * {WORD}
        kept = select(up < 0, e >> cast(max(neg(up), 0), u32), e << cast(min(max(up, 0), 31), u32))
        part = select(up < {WORD}, kept, 0)",
        top = words - 1,
    )
}
