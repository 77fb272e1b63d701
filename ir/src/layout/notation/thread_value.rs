//! Thread-value layouts (Hexcute, sections 2.3 and 4): `(threads, values) -> position in a tile`, counted by columns.
//!
//! ```text
//!   ((4,8),(2,2)):((32,1),(16,8)) over 16 x 8      thread t = (t%4, t/4), value v = (v%2, v/2)
//!                                                  position = 32·(t%4) + t/4 + 16·(v%2) + 8·(v/2)  = row + 16·column
//! ```

use super::cute::Cute;
use crate::layout::shape::{dims, flatten};
use crate::layout::{Axis, Builder, Layout, LayoutError};

/// Lanes of a warp.
const LANES: u64 = 32;

/// The tile's position by columns, `dims -> m`.
fn by_columns(tile: &[u64]) -> Result<Layout, LayoutError> {
    let mut axes = dims(tile);
    axes.reverse();
    flatten(&axes, Axis::Mem)
}

/// The fragment `(reg, lane, warp)` of a thread-value layout over a tile. More than 32 threads must be whole warps.
pub fn to_layout(layout: &Cute, tile: &[u64]) -> Result<Layout, LayoutError> {
    let lacks = |reason| LayoutError::Notation { notation: "thread-value", reason };
    let [threads, values] = &layout.top()[..] else {
        return Err(lacks("it has other than two modes"));
    };
    let count = threads.size();
    if count > LANES && !count.is_multiple_of(LANES) {
        return Err(lacks("its threads are no whole warps"));
    }
    let position = by_columns(tile)?;
    let size = position.out_extent(Axis::Mem);
    let thread = Axis::parse("thread")?;
    let mut map = Builder::new(&[(Axis::Mem, size)]).axis(Axis::Reg);
    map = values.leaves().into_iter().fold(map, |m, (e, s)| m.add(Axis::Reg, e, &[s]));
    map = map.axis(thread);
    map = threads.leaves().into_iter().fold(map, |m, (e, s)| m.add(thread, e, &[s]));
    let warps = Builder::new(&[(Axis::Reg, values.size()), (thread, count)])
        .add(Axis::Reg, values.size(), &[1, 0])
        .add(Axis::Lane, count.min(LANES), &[0, 1])
        .add(Axis::Warp, count.div_ceil(LANES), &[0, LANES]);
    let order: Vec<Axis> = dims(tile).iter().map(|d| d.0).collect();
    let from_position = position.invert()?.with_outs(&order)?;
    warps.build()?.then(&map.build()?)?.then(&from_position)
}

/// The thread-value layout of a fragment over its own tile: threads are all inputs but `reg`, in order. Refuses swizzles.
pub fn of_layout(fragment: &Layout) -> Result<Cute, LayoutError> {
    let axes: Vec<(Axis, u64)> = fragment.outs().iter().rev().copied().collect();
    let flat = fragment.then(&flatten(&axes, Axis::Mem)?)?;
    let (mut threads, mut values) = (Vec::new(), Vec::new());
    for (index, &(axis, _)) in flat.ins().iter().enumerate() {
        let one = Cute::of_layout(&flat.with_in_only(axis)?)?;
        let leaves = one.leaves().into_iter().filter(|l| l.0 > 1);
        let modes = if flat.ins()[index].0 == Axis::Reg { &mut values } else { &mut threads };
        modes.extend(leaves);
    }
    let mode = |leaves: &[(u64, u64)]| Cute::flat(leaves).coalesce();
    Ok(Cute::modes(vec![mode(&threads), mode(&values)]))
}
