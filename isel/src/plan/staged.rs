//! Staged loads: asynchronous copies fill a ring in shared memory ahead of time, and threads read it into registers.
//!
//! ```text
//!  staged   a tensor copy brings the tile as it lies in memory, or swizzled where threads that read their elements
//!           would meet in banks; elements of 1, 2 and 4 bits as the bytes that they share; rows of fewer than 16 bytes,
//!           such as one scale of each row, with the others of their 16 bytes
//!  packed   a bulk copy brings the tile as it was packed before the launch (`packed.rs`)
//! ```

use super::Ways;
use super::cost::Model;
use super::packed::packed_tile;
use super::propagate::crosses_words;
use super::types::{ACCESS_WORDS, COPY_BYTES, Plan, Staged, StagedFill, WORD, in_memory};
use crate::facts::is_multiple;
use crate::tensor_copies::{COPY_BITS, row_around, start_refused};
use crate::tiles::{
    acquired, array, extents, has_products, layout_error, loads_tile, memory, unit_dim, written,
};
use crate::window::Window;
use crate::{IselError, Result};
use warplift_ir::layout::{Axis, Basis, Builder, Layout, LayoutError, access, shared};
use warplift_ir::target::{Opcode, Target};
use warplift_ir::tile::{ArrayMapping, Inst, Kernel, Value, Way};

/// Alignment of a tensor copy in shared memory, in bytes.
const COPY_ALIGN: u32 = 128;
/// Elements below a byte of a thread at most that are read one by one: those of two tiles of 64 rows and 128 columns.
const MOST_SINGLE: u64 = 128;
/// The same where several lie in a byte.
const MOST_IN_BYTES: u64 = 8;
/// Widest element of a tensor copy, in bytes.
const MAX_UNIT_BITS: u32 = 64;

/// The order of narrow elements that are converted: as they lie in memory if a copy brings the bytes around each row, so that a
/// thread reads its elements of a row at once; else by pairs.
///
/// # Errors
/// As the layout's construction.
pub(super) fn narrow_order(k: &Kernel, inst: Inst, v: Value, layout: &Layout) -> Result<Layout> {
    let load = k.def(v).filter(|&d| loads_tile(k, d) && array(k, d).way != Way::Packed);
    let along = load.filter(|&d| row_around(k, d).is_some()).and_then(|d| unit_dim(k, k.args(d)[0]));
    match along {
        Some(along) => memory_order(k, inst, layout, along),
        None => register_order(k, inst, layout, k.ty(v).elem().bits()),
    }
}

/// The order in which elements along a dimension follow each other first.
fn memory_order(k: &Kernel, inst: Inst, layout: &Layout, along: usize) -> Result<Layout> {
    let Some(at) = layout.outs().iter().position(|o| o.0 == Axis::Dim(along as u8)) else {
        return Ok(layout.clone());
    };
    let mut digits = layout.basis(Axis::Reg);
    digits.sort_by_key(|d| (d.out[at] == 0, d.out[at]));
    with_registers(k, inst, layout, digits.iter())
}

/// The order of narrow elements in which two that become one register of halves stand whole halfwords apart, so one mask
/// extracts both. The first digit goes behind as many elements as fill 16 bits; elements that cross words fill them only
/// in large numbers, so there it goes behind all others, also behind those of further parts ([`propagate::unsliced`]).
///
/// # Errors
/// As the layout's construction.
pub(super) fn register_order(k: &Kernel, inst: Inst, layout: &Layout, bits: u32) -> Result<Layout> {
    let digits = layout.basis(Axis::Reg);
    let apart = match bits {
        _ if crosses_words(bits) => u64::MAX,
        1..8 => u64::from(16 / bits),
        _ => 1,
    };
    let Some((first, rest)) = digits.split_first().filter(|(f, _)| f.extent == 2) else {
        return Ok(layout.clone());
    };
    let mut before = 1;
    let behind = rest.iter().take_while(|d| {
        let fits = before < apart;
        before *= d.extent;
        fits
    });
    let behind = behind.count();
    let order = rest[..behind].iter().chain([first]).chain(&rest[behind..]);
    with_registers(k, inst, layout, order)
}

/// A layout with other digits of the register axis.
fn with_registers<'d>(
    k: &Kernel,
    inst: Inst,
    layout: &Layout,
    digits: impl Iterator<Item = &'d Basis>,
) -> Result<Layout> {
    let mut b = Builder::new(layout.outs()).axis(Axis::Reg);
    for d in digits {
        b = b.add(Axis::Reg, d.extent, &d.out);
    }
    for &(axis, _) in layout.ins().iter().filter(|a| a.0 != Axis::Reg) {
        b = b.axis(axis);
        for d in layout.basis(axis) {
            b = b.add(axis, d.extent, &d.out);
        }
    }
    let made = b.build().map_err(layout_error(k, inst))?;
    let axes: Vec<Axis> = layout.ins().iter().map(|a| a.0).collect();
    made.with_ins(&axes).map_err(layout_error(k, inst))
}

/// Plans a staged load. The mapping of its array asks for it, or says nothing and the load would wait beside MMAs.
///
/// # Errors
/// Facts forbid what the mapping asks for, a layout holds an element twice, or tiles are not units of the packed
/// array.
pub(super) fn plan_load(k: &Kernel, load: Inst, model: &Model<'_>, plan: &Plan) -> Result<Option<Staged>> {
    if !loads_tile(k, load) || plan.shared.contains_key(&load) {
        return Ok(None);
    }
    let Some(layout) = &plan.layouts[k.result(load)] else { return Ok(None) };
    let ArrayMapping { way, stream, .. } = array(k, load);
    // Threads read such elements by one or two bytes, from wherever they lie.
    let is_narrow = k.ty(k.result(load)).elem().bits() < 16;
    let staged = match way {
        Way::Plain => return Ok(None),
        Way::Fit => match from_rows(k, load, layout, model.target, plan.ways) {
            Ok(staged) if (is_narrow || staged.is_read_wide()) && is_worth(k, load, &staged, model, plan) => {
                staged
            }
            _ => return Ok(None),
        },
        Way::Staged => from_rows(k, load, layout, model.target, plan.ways)?,
        Way::Packed => packed_tile(k, load, layout, model.target)?,
    };
    Ok(Some(Staged { stream, ..staged }))
}

/// Whether a load should be staged although the mapping does not ask for it.
fn is_worth(k: &Kernel, load: Inst, staged: &Staged, model: &Model<'_>, plan: &Plan) -> bool {
    let used = k.insts.keys().any(|i| k.args(i).contains(&k.result(load)));
    let wanted = stands_beside_products(k, load) || stands_behind_products(k, load);
    plan.ways.smem_staging && used && wanted && model.has_room(plan, load, staged.bytes)
}

/// Whether the loop of a load has MMAs and a producer that could copy for them. Loads by the loop's own threads would
/// arrive late in every iteration. What the kernel writes is not read ahead of the iterations that write it.
fn stands_beside_products(k: &Kernel, load: Inst) -> bool {
    let inside = |&i: &Inst| k.insts[i].blocks.iter().any(|&b| k.blocks[b].insts.contains(&load));
    let read = || memory(k, k.args(load)[0]).is_some_and(|p| !written(k).contains(&p));
    k.insts.keys().find(inside).is_some_and(|i| multiplies_copies(k, i)) && read()
}

/// Whether a load stands behind a loop of MMAs that has a producer. The producer copies for it during the loop; threads
/// would load while the tensor cores wait. The order with stores of the same array is checked when the plan is lowered.
fn stands_behind_products(k: &Kernel, load: Inst) -> bool {
    let Some(block) = k.blocks.values().find(|d| d.insts.contains(&load)) else { return false };
    block.insts.iter().take_while(|&&i| i != load).any(|&i| multiplies_copies(k, i))
}

/// Whether an instruction is a loop with MMAs in its body and a producer, and not the loop over tiles.
fn multiplies_copies(k: &Kernel, inst: Inst) -> bool {
    let produced = k.attrs[inst].looped.is_some_and(|l| l.producers == Some(1)) && !k.attrs[inst].persistent;
    produced && k.insts[inst].blocks.iter().any(|&b| has_products(k, b))
}

/// A tile filled by tensor copies, with the swizzle whose reads take the fewest wavefronts.
fn from_rows(k: &Kernel, load: Inst, layout: &Layout, target: &Target, ways: Ways) -> Result<Staged> {
    let mut best = as_it_lies(k, load, layout, (target, 0), ways)?;
    // A span that does not fit this layout is skipped; the tile is not refused.
    let waves = |s: &Staged| wavefronts(k, load, s).ok();
    let mut others: Vec<Staged> = spans(k, load, &best, ways)
        .iter()
        .filter_map(|&s| swizzled(k, load, layout, &best, s).ok())
        .collect();
    if best.bits < 8 {
        let piece = COPY_BITS / best.bits;
        others.extend(as_it_lies(k, load, layout, (target, piece), ways).ok());
    }
    for other in others {
        if waves(&other).zip(waves(&best)).is_some_and(|(new, old)| new < old) {
            best = other;
        }
    }
    Ok(best)
}

/// Swizzle spans that divide the rows of a tile, the widest first. Empty if parts of the tile are read, or if the
/// reads fill in the elements outside the view.
fn spans(k: &Kernel, load: Inst, plain: &Staged, ways: Ways) -> Vec<u32> {
    let view = k.args(load)[0];
    let shape = extents(k, k.result(load));
    let StagedFill::Tensor { inner_dim, rows, unit, around: 1, .. } = plain.fill else { return Vec::new() };
    let bits = k.ty(view).elem().bits();
    let whole = !k.attrs[load].in_parts && Window::of(k, view).is_none_or(|w| w.fill(k) == 0.0);
    let inner = shape.get(inner_dim).copied().unwrap_or(1);
    let held = plain.to_memory.in_extent(Axis::Reg) * u64::from(plain.bits);
    let single = unit * bits == plain.bits;
    let fits = whole && single && shape.len() == 2 && rows.is_multiple_of(8) && held.is_multiple_of(WORD);
    if !fits || !ways.swizzles || plain.bits > WORD as u32 {
        return Vec::new();
    }
    [128, 64, 32].into_iter().filter(|span| (inner * bits / 8).is_multiple_of(*span)).collect()
}

/// A tile whose rows are one swizzle span wide.
fn swizzled(k: &Kernel, load: Inst, layout: &Layout, plain: &Staged, span: u32) -> Result<Staged> {
    let StagedFill::Tensor { inner_dim, rows, unit, .. } = plain.fill else { return Ok(plain.clone()) };
    let error = layout_error(k, load);
    let shape = extents(k, k.result(load)).into_iter().map(u64::from).collect::<Vec<u64>>();
    let bits = k.ty(k.args(load)[0]).elem().bits();
    let to_mem =
        shared::swizzled(shape[1 - inner_dim], shape[inner_dim], bits.into(), span.into()).map_err(&error)?;
    let to_memory = in_memory(layout, inner_dim, &to_mem).map_err(&error)?;
    let to_memory = in_units(&to_memory, plain.bits / bits).map_err(&error)?;
    let fill = StagedFill::Tensor { inner_dim, slab: span * 8 / bits, rows, unit, swizzle: span, around: 1 };
    Ok(Staged { to_memory, fill, ..plain.clone() })
}

/// Wavefronts of a warp's reads of its part of a tile.
fn wavefronts(k: &Kernel, load: Inst, staged: &Staged) -> Result<u64> {
    let (error, bits) = (layout_error(k, load), u64::from(staged.bits));
    let most = ACCESS_WORDS * WORD / bits;
    let vector = access::vector_width(&staged.to_memory, most, most).map_err(&error)?.elements;
    let each = access::wavefronts(&staged.to_memory, bits, vector).map_err(&error)?;
    Ok(staged.to_memory.in_extent(Axis::Reg) / vector * each)
}

/// A tile without swizzle: slabs along the contiguous dimension, each the box of one tensor copy; or one slab, whose rows are longer
/// than those of the tile by some elements, so that they begin at other banks.
fn as_it_lies(
    k: &Kernel,
    load: Inst,
    layout: &Layout,
    (target, longer): (&Target, u32),
    ways: Ways,
) -> Result<Staged> {
    target.require(Opcode::TmaLoad).map_err(|lacks| IselError::lacks(k.insts[load].loc, lacks))?;
    let view = k.args(load)[0];
    let refused = match Window::of(k, view) {
        Some(window) => acquired(k, view).or_else(|| window.rows_refused(k, ways)),
        None => Some("not a view".to_owned()),
    };
    let around = row_around(k, load);
    if let Some(why) = refused.or_else(|| start_refused(k, load).filter(|_| around.is_none())) {
        return Err(IselError::at(k, load, format!("a staged array needs tensor copies: {why}")));
    }
    let shape = extents(k, k.result(load));
    let inner_dim = unit_dim(k, view).unwrap_or(shape.len() - 1);
    let (own, outer) = (shape[inner_dim], shape.iter().product::<u32>() / shape[inner_dim]);
    let inner = around.unwrap_or(own + longer);
    let bits = k.ty(view).elem().bits();
    let within = around.is_some() || longer > 0;
    let found = copies(k, load, inner_dim, [inner, outer], bits, target.box_extent);
    let Some([slab, rows, unit]) = found.filter(|f| !within || f[0] == inner) else {
        let what = format!(
            "a staged tile of {outer} x {inner} elements of {bits} bits: at most {} rows a copy, of parts of whole {COPY_ALIGN} bytes (or one of whole {COPY_BYTES}) of elements of 1, 2, 4, 8, 16, 32 or 64 bits, are possible",
            target.box_extent
        );
        return Err(IselError::at(k, load, what));
    };
    let (slab64, outer64) = (u64::from(slab), u64::from(outer));
    let mut to_mem = Builder::new(&[(Axis::Mem, u64::from(inner) * outer64)]);
    for dim in 0..shape.len() {
        let axis = Axis::Dim(dim as u8);
        to_mem = to_mem.axis(axis);
        to_mem = match dim == inner_dim {
            true if within => to_mem.add(axis, own.into(), &[1]),
            true => to_mem.add(axis, slab64, &[1]).add(axis, u64::from(inner / slab), &[slab64 * outer64]),
            false => to_mem.add(axis, outer64, &[slab64]),
        };
    }
    let to_mem = to_mem.build().map_err(layout_error(k, load))?;
    let dims: Vec<Axis> = (0..shape.len()).map(|d| Axis::Dim(d as u8)).collect();
    let to_memory = layout.with_outs(&dims).and_then(|l| l.then(&to_mem)).map_err(layout_error(k, load))?;
    let bytes = inner * outer * bits / 8;
    let fill = StagedFill::Tensor { inner_dim, slab, rows, unit, swizzle: 0, around: around.unwrap_or(1) };
    let (to_memory, bits) = match in_units(&to_memory, (8 / bits).max(1)) {
        Ok(units) => (units, bits.max(8)),
        Err(_) if is_read_singly(k, load, &to_memory, bits) => (to_memory, bits),
        Err(_) => {
            let what = format!(
                "a staged tile of elements of {bits} bits whose threads do not hold whole bytes of it: say `packed` or `plain` of the array"
            );
            return Err(IselError::at(k, load, what));
        }
    };
    Ok(Staged { to_memory, bits, bytes, stream: false, fill })
}

/// Whether threads read elements of a few bits one by one, each from its byte: they are few, or lie whole bytes apart, as those of a
/// row do where columns are contiguous.
fn is_read_singly(k: &Kernel, load: Inst, to_memory: &Layout, bits: u32) -> bool {
    let Some(mem) = to_memory.outs().iter().position(|o| o.0 == Axis::Mem) else { return false };
    let held = to_memory.in_extent(Axis::Reg);
    let in_bytes = |b: &Basis| (b.out[mem] * u64::from(bits)).is_multiple_of(8);
    let zeros = Window::of(k, k.args(load)[0]).is_none_or(|w| w.fill(k) == 0.0);
    zeros && (held <= MOST_IN_BYTES || held <= MOST_SINGLE && to_memory.basis(Axis::Reg).iter().all(in_bytes))
}

/// A layout of elements as one of units of so many elements, which threads hold and memory has together.
fn in_units(layout: &Layout, elements: u32) -> std::result::Result<Layout, LayoutError> {
    match elements {
        1 => Ok(layout.clone()),
        n => layout.left_divide(&Layout::identity(Axis::Reg, Axis::Mem, n.into())?),
    }
}

/// Elements of one copy along the contiguous dimension, its rows, and how many elements count as one unit: the fewest
/// copies, then the smallest units.
fn copies(
    k: &Kernel,
    load: Inst,
    inner_dim: usize,
    [inner, outer]: [u32; 2],
    bits: u32,
    box_extent: u32,
) -> Option<[u32; 3]> {
    let view = k.args(load)[0];
    let window = Window::of(k, view)?;
    let extent = window.extent(k, window.kept[inner_dim]);
    let index = k.args(load)[1 + inner_dim];
    let begins = |by: i64| is_multiple(k, index, by) || row_around(k, load).is_some();
    let counts = |unit: &u32| {
        let by = i64::from(*unit);
        (8..=MAX_UNIT_BITS).contains(&(unit * bits)) && is_multiple(k, extent, by) && begins(by)
    };
    let rows = (1..=outer.min(box_extent)).rev().find(|&r| outer.is_multiple_of(r))?;
    let fits = |slab: u32, unit: u32| {
        let bytes = slab * rows * bits / 8;
        let single = slab == inner && rows == outer;
        let aligned = bytes.is_multiple_of(if single { COPY_BYTES } else { COPY_ALIGN });
        let rows = (slab * bits / 8).is_multiple_of(COPY_BYTES);
        aligned && rows && slab.is_multiple_of(unit) && slab / unit <= box_extent
    };
    if !bits.is_power_of_two() {
        return None;
    }
    let units: Vec<u32> = [1, 2, 4, 8].into_iter().filter(counts).collect();
    let slabs = (1..=inner).rev().filter(|s| inner.is_multiple_of(*s));
    slabs
        .flat_map(|s| units.iter().map(move |&u| (s, u)))
        .find(|&(s, u)| fits(s, u))
        .map(|(s, u)| [s, rows, u])
}
