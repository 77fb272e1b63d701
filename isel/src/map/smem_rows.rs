//! Rows in shared memory: a wide tile stays in shared memory and threads hold one strip at a time. Columns for which
//! there is no room are held in registers as loaded. A tile that is the same for all tiles of a persistent kernel is
//! loaded once.
//!
//! ```text
//!  h = load x  (staged)     ─►   a = load x[.. S]  (staged, in parts)      b = load x[S ..]  (plain)
//!  slice(h, from)                slice(a, from)  where from < S,  else     slice(b, from - S)
//! ```

use super::cursor::Cursor;
use super::prefetch_next_tile::moving;
use super::sink::{Stops, TilePart};
use crate::tiles::{array, extents, memory, program_order, written};
use rustc_hash::FxHashMap;
use warplift_ir::target::Target;
use warplift_ir::tile::{Block, Dim, Inst, Kernel, Mapping, Op, Value, Way};

/// Bytes of shared memory reserved for barriers and for exchanges between threads.
const KEPT_BYTES: u32 = 1024;

/// Keeps loads that do not depend on the tile in shared memory for all tiles of a program.
pub fn do_smem_once(k: &mut Kernel) {
    let (moving, written) = (moving(k), written(k));
    let kept = |&i: &Inst| {
        let read = |v: Value| memory(k, v).is_some_and(|p| !written.contains(&p));
        is_staged(k, i) && read(k.args(i)[0]) && !k.args(i).iter().any(|a| moving.contains(a))
    };
    let kept: Vec<Inst> = k.blocks[k.entry].insts.iter().copied().filter(kept).collect();
    for load in kept {
        k.attrs[load].in_parts = true;
    }
}

/// Keeps staged tiles in shared memory. Returns whether there are any.
pub fn do_smem_rows(k: &mut Kernel) -> bool {
    let staged: Vec<Inst> = program_order(k).into_iter().filter(|&i| is_staged(k, i)).collect();
    for &load in &staged {
        k.attrs[load].in_parts = true;
    }
    !staged.is_empty()
}

fn is_staged(k: &Kernel, inst: Inst) -> bool {
    matches!(k.insts[inst].op, Op::Load) && array(k, inst).way == Way::Staged
}

/// Whether a tile stays in shared memory.
pub fn is_smem_row(k: &Kernel, v: Value) -> bool {
    k.def(v).is_some_and(|d| k.attrs[d].in_parts)
}

/// Splits the tiles that stay, if the resident blocks that the mapping asks for have no room for all of them. The
/// split is at a whole strip.
pub fn do_smem_room(k: &mut Kernel, mapping: &Mapping, strips: u32, target: &Target) {
    let block = target.shared_of_resident(mapping.whole.resident) / mapping.whole.pingpong.max(1);
    let mut room = block.saturating_sub(KEPT_BYTES);
    for block in k.blocks.keys().collect::<Vec<_>>() {
        for load in k.blocks[block].insts.clone() {
            if k.attrs[load].in_parts {
                room = room.saturating_sub(fit(k, (block, load), strips, room));
            }
        }
    }
}

/// Keeps as many strips of a load as there is room for. Returns their bytes.
fn fit(k: &mut Kernel, (block, load): (Block, Inst), strips: u32, room: u32) -> u32 {
    let shape = extents(k, k.result(load));
    let Some(&columns) = shape.last() else { return 0 };
    let bits = shape.iter().product::<u32>().saturating_mul(k.ty(k.result(load)).elem().bits());
    let strip = (bits / 8).div_ceil(strips).max(1);
    let kept = (room / strip).min(strips);
    let from = columns / strips * kept;
    let whole = k.whole_view(k.args(load)[0]) == k.args(load)[0];
    if kept == strips || !whole || !columns.is_multiple_of(strips) || !is_split(k, load, from) {
        return strip * kept;
    }
    match kept {
        0 => read_plainly(k, (block, load)),
        _ => split(k, (block, load), columns, from),
    }
    strip * kept
}

/// Whether every use of a load is a slice on one side of a column.
fn is_split(k: &Kernel, load: Inst, from: u32) -> bool {
    let whole = k.result(load);
    program_order(k).into_iter().filter(|&i| k.args(i).contains(&whole)).all(|i| {
        let Op::Slice(offsets) = &k.insts[i].op else { return false };
        let first = offsets.last().and_then(|d| d.constant());
        let width = extents(k, k.result(i)).last().copied();
        first.zip(width).is_some_and(|(first, width)| first >= from || first + width <= from)
    })
}

/// Makes the threads load the whole tile.
fn read_plainly(k: &mut Kernel, (block, load): (Block, Inst)) {
    let place = k.blocks[block].insts.iter().position(|&i| i == load).unwrap_or(0);
    let after = k.blocks[block].insts.split_off(place);
    let plain = plain_view(k, block, load);
    k.blocks[block].insts.extend(after);
    from_view(k, load, plain);
}

/// A load by the threads, through another view.
fn from_view(k: &mut Kernel, load: Inst, view: Value) {
    k.attrs[load].in_parts = false;
    let args = [&[view], &k.args(load)[1..]].concat();
    k.set_args(load, &args);
}

/// Splits a load at column `from`: the columns before it stay in shared memory, the threads load the rest.
fn split(k: &mut Kernel, (block, load): (Block, Inst), columns: u32, from: u32) {
    let place = k.blocks[block].insts.iter().position(|&i| i == load).unwrap_or(0);
    let after = k.blocks[block].insts.split_off(place);
    let plain = plain_view(k, block, load);
    let near = part(k, (block, load), columns, [0, from]);
    let far = part(k, (block, load), columns, [from, columns - from]);
    if let Some(far) = k.def(far) {
        from_view(k, far, plain);
    }
    k.blocks[block].insts.extend(after.into_iter().filter(|&i| i != load));
    let whole = k.result(load);
    let slices = program_order(k).into_iter().filter(|&i| k.args(i).first() == Some(&whole));
    for slice in slices.collect::<Vec<_>>() {
        let Op::Slice(mut offsets) = k.insts[slice].op.clone() else { continue };
        let first = offsets.last().and_then(|d| d.constant()).unwrap_or(0);
        let (source, moved) = if first < from { (near, first) } else { (far, first - from) };
        if let Some(last) = offsets.last_mut() {
            *last = Dim::new(moved);
        }
        k.insts[slice].op = Op::Slice(offsets);
        k.set_args(slice, &[source]);
    }
}

/// A copy of a load's view for reads by the threads.
fn plain_view(k: &mut Kernel, block: Block, load: Inst) -> Value {
    let view = k.whole_view(k.args(load)[0]);
    let Some(def) = k.def(view) else { return view };
    let args = k.args(def).to_vec();
    let made = Cursor::at_end(k, block).copy(def, &args);
    k.attrs[made].array.way = Way::Plain;
    k.result(made)
}

/// A load of some of the columns.
fn part(k: &mut Kernel, (block, load): (Block, Inst), extent: u32, [from, width]: [u32; 2]) -> Value {
    let (attrs, whole) = (k.attrs[load].clone(), k.result(load));
    let (done, stops) = (FxHashMap::default(), Stops::Nowhere);
    let mut part =
        TilePart { at: Cursor::at_end(k, block).like(load), extent, from, width, done, stops, holds: &[] };
    let made = part.of(whole, 0);
    if let Some(def) = k.def(made) {
        k.attrs[def] = attrs;
    }
    made
}
