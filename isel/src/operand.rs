//! MMA operands in shared memory: the load or copy behind an operand, and the shape of its slabs.
//!
//! ```text
//!  y = mma x, slice(a)[0, 64], trans(b)      a: load, offset (0, 64)     b: load, transposed
//! ```

use crate::boxes::{is_box, is_copied, only_products};
use crate::tensor_copies::row_around;
use crate::tiles::{array, unit_dim};
use warplift_ir::tile::{Inst, Kernel, Op, Value, Way};
use warplift_ir::types::Elem;

/// Rows, columns and depth of one `mma.sync` on 16-bit elements.
pub(crate) const WARP_ATOM: [u32; 3] = [16, 8, 16];

/// The load behind an operand, whether the operand is its transpose, and which part of it.
#[derive(Clone, Copy)]
pub(crate) struct Loaded {
    /// The load, or the copy of a computed tile.
    pub load: Inst,
    /// Whether the operand is its transpose.
    pub flipped: bool,
    /// Offset of the operand in the loaded tile, by dimension.
    pub from: [u32; 2],
}

/// The load whose whole tile is the operand, and whether the operand is its transpose.
pub(crate) fn loaded_whole(k: &Kernel, v: Value) -> Option<(Inst, bool)> {
    loaded(k, v).filter(|l| l.from == [0, 0] && !is_part(k, v)).map(|l| (l.load, l.flipped))
}

fn is_part(k: &Kernel, v: Value) -> bool {
    k.def(v).is_some_and(|d| match k.insts[d].op {
        Op::Slice(_) => true,
        Op::Trans(_) => is_part(k, k.args(d)[0]),
        _ => false,
    })
}

/// The load behind an operand, or the copy of a computed tile. Looks through transpositions, slices, and the reshapes of
/// boxes.
pub(crate) fn loaded(k: &Kernel, v: Value) -> Option<Loaded> {
    let def = k.def(v)?;
    let below = || loaded(k, k.args(def)[0]);
    match &k.insts[def].op {
        op if op.is_read() => Some(Loaded { load: def, flipped: false, from: [0, 0] }),
        Op::Rearrange if k.attrs[def].operand => Some(Loaded { load: def, flipped: false, from: [0, 0] }),
        Op::Trans(perm) if perm[..] == [1, 0] => {
            below().map(|l| Loaded { flipped: !l.flipped, from: [l.from[1], l.from[0]], ..l })
        }
        Op::Trans(_) => below(),
        Op::Reshape if is_box(k, def) => below(),
        Op::Slice(offsets) => {
            let at = |d: usize| offsets.get(d).and_then(|o| o.constant());
            let (rows, columns) = (at(0)?, at(1)?);
            below().map(|l| Loaded { from: [l.from[0] + rows, l.from[1] + columns], ..l })
        }
        _ => None,
    }
}

/// The widest swizzle span that divides a contiguous extent of `bytes` bytes.
pub(crate) fn swizzle_span(bytes: u32) -> Option<u32> {
    [128, 64, 32].into_iter().find(|s| bytes.is_multiple_of(*s))
}

/// The bytes to which rows that no swizzle divides are padded: the widest span that adds a quarter at most, or the narrowest.
/// Such rows begin anywhere within lines of memory, where each narrow box takes a line of its own.
pub(crate) fn padded_row(bytes: u32) -> u32 {
    let wide = [128, 64].map(|s| bytes.next_multiple_of(s)).into_iter().find(|to| to - bytes <= bytes / 4);
    wide.unwrap_or_else(|| bytes.next_multiple_of(32))
}

/// Bytes of a core matrix's row: tensor copies bring whole ones, and products of warpgroups read whole ones.
pub(crate) const CORE_BYTES: u32 = 16;

/// Whether a loaded tile may have a last slab that is narrower than the span of its swizzle: tensor copies bring it, and nothing
/// but products reads it.
pub(crate) fn takes_narrow_slabs(k: &Kernel, load: Inst) -> bool {
    let flat = k.ty(k.result(load)).shape().is_some_and(|s| s.rank() == 2);
    matches!(k.insts[load].op, Op::Load) && flat && only_products(k, k.result(load)) && is_copied(k, load)
}

/// Whether the mapping asks for plain loads: threads load the tile from global memory themselves, unless the plan
/// finds a better way.
pub(crate) fn is_plain(k: &Kernel, load: Inst) -> bool {
    array(k, load).way.is_plain()
}

/// Whether threads may hold the elements of a loaded tile in any order, or of a slice or the transpose of one. That of a packed
/// array is the plan's. Of elements below a byte whose rows follow each other in memory, threads read the byte of each. Of rows
/// that a copy brings with what lies around them, they read their elements at once, if nothing but a conversion reads these.
pub(crate) fn is_in_any_order(k: &Kernel, v: Value) -> bool {
    in_any_order(k, v, 0) || k.def(v).is_some_and(|d| is_row_around(k, d))
}

/// Whether a load brings narrow elements with those around each row, and only a conversion to floats reads them.
fn is_row_around(k: &Kernel, load: Inst) -> bool {
    let mut users = k.insts.keys().filter(|&i| k.args(i).contains(&k.result(load)));
    let only = users.next().filter(|_| users.next().is_none());
    let floats = |e: Elem| matches!(e, Elem::F16 | Elem::Bf16 | Elem::F32);
    let read = |i: Inst| matches!(k.insts[i].op, Op::Cast) && floats(k.ty(k.result(i)).elem());
    let narrow = matches!(k.insts[load].op, Op::Load) && k.ty(k.result(load)).elem().bits() <= 8;
    let asked = narrow && matches!(array(k, load).way, Way::Fit | Way::Staged) && only.is_some_and(read);
    asked && row_around(k, load).is_some()
}

/// The same, where a dimension of the tile is that of the rows.
fn in_any_order(k: &Kernel, v: Value, rows: usize) -> bool {
    k.def(v).is_some_and(|d| match &k.insts[d].op {
        Op::Load => array(k, d).way == Way::Packed || is_read_by_bytes(k, d, rows),
        Op::Slice(_) => in_any_order(k, k.args(d)[0], rows),
        Op::Trans(perm) => in_any_order(k, k.args(d)[0], perm.get(rows).map_or(rows, |&p| p.into())),
        _ => false,
    })
}

/// Whether a copy may bring a tile of elements below a byte that are contiguous along a dimension.
fn is_read_by_bytes(k: &Kernel, load: Inst, along: usize) -> bool {
    let (view, bits) = (k.args(load)[0], k.ty(k.result(load)).elem().bits());
    let small = bits < 8 && bits.is_power_of_two();
    small && unit_dim(k, view) == Some(along) && is_copied(k, load)
}

/// Which dimension of a tile is contiguous in shared memory. For a loaded tile it is the dimension that is contiguous
/// in global memory. A computed tile follows its operands, because threads then hold neighbours along it. If nothing
/// is known, rows are contiguous.
pub(crate) fn inner_dim(k: &Kernel, inst: Inst) -> usize {
    let op = &k.insts[inst].op;
    if op.is_read() {
        // Of a box, the leading dimensions are one.
        return unit_dim(k, k.args(inst)[0]).unwrap_or(1).min(1);
    }
    let follows = matches!(op, Op::Rearrange) || op.is_elementwise();
    let like = |&d: &Inst| k.results(d).iter().any(|&r| k.ty(r).shape() == k.ty(k.result(inst)).shape());
    let from = k.args(inst).iter().filter(|_| follows).find_map(|&v| k.def(v).filter(like));
    from.map_or(1, |d| inner_dim(k, d))
}
