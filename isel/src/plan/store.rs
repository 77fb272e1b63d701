//! How tiles are stored: by tensor copies, each warp its own stripes of an accumulator, or by plain stores.
//!
//! ```text
//!  accumulator of warpgroups or warps ─► 16 rows, one swizzle span ─► staging buffer ─► tensor copy
//!  other layouts, other facts         ─► vectors of each thread    ─► st.global
//! ```

use super::tensor::{ATOM_M, lacks};
use super::types::{Plan, STRIPE, StorePlan, Stripes};
use crate::boxes::{box_of_rows, flat};
use crate::facts::is_never_negative;
use crate::operand::WARP_ATOM;
use crate::tensor_copies::{start_refused, tensor_refused};
use crate::tiles::{extents, layout_error, unit_dim};
use crate::vector::vector_elements;
use crate::window::Window;
use crate::{IselError, Result};
use warplift_ir::layout::{Layout, fragment, shared};
use warplift_ir::target::{Opcode, Target};
use warplift_ir::tile::{Inst, Kernel, Team, WarpGrid};
use warplift_ir::types::Elem;

/// Why a tensor copy cannot perform a store. A store below the first row or column ends the kernel with an illegal
/// instruction (measured; loads there are correct).
fn below_refused(k: &Kernel, store: Inst) -> Option<String> {
    let args = k.args(store);
    let window = Window::of(k, args[0])?;
    let fixed = window.fixed.iter().map(|f| f.1);
    let mut indices = args[1..args.len() - 1].iter().copied().chain(fixed);
    indices
        .any(|v| !is_never_negative(k, v))
        .then(|| "it may begin at a negative index, where tensor copies cannot store".to_owned())
}

/// Plans a store: tensor copies or plain stores.
pub fn plan_store(k: &Kernel, inst: Inst, target: &Target, plan: &Plan) -> Result<StorePlan> {
    let args = k.args(inst);
    let (view, Some(&value)) = (args[0], args.last()) else {
        return Err(IselError::at(k, inst, "store without a value"));
    };
    let plain = |declined| StorePlan::Plain { vector: vector_elements(k, inst, value), declined };
    let tile = flat(k, value);
    let shape = extents(k, tile);
    let layout = plan.layout(k, tile)?;
    let [rows, cols] = shape[..] else { return Ok(plain(None)) };
    if k.attrs[inst].by_threads {
        return Ok(plain(Some("the mapping says `no bulk_store`".to_owned())));
    }
    let warp_grid = plan.warp_products.values().map(|p| p.warp_grid).next();
    let held = match (k.attrs[inst].team, warp_grid) {
        (_, Some(warp_grid)) => warp_stripes(warp_grid, [rows, cols], layout),
        (Team::Warpgroups(groups), _) if !plan.products.is_empty() => {
            warpgroup_stripes([rows, cols], groups, layout)
        }
        _ => return Ok(plain(None)),
    };
    let Some(held) = held else {
        return Ok(plain(Some("not an accumulator's layout".to_owned())));
    };
    let leading = &extents(k, value)[..extents(k, value).len() - 1];
    if tile != value && box_of_rows(leading, STRIPE as u32).is_none() {
        return Ok(plain(Some(format!("{STRIPE} rows of the result are no box of the tile"))));
    }
    let refused = lacks(target, Opcode::TmaStore)
        .or_else(|| tensor_refused(k, view, plan.ways))
        .or_else(|| start_refused(k, inst))
        .or_else(|| below_refused(k, inst));
    if let Some(reason) = refused.or_else(|| super::order::ordered(k, inst)) {
        return Ok(plain(Some(reason)));
    }
    stripes(k, inst, held, plan).map(|stripes| match stripes {
        Ok(stripes) => StorePlan::Bulk(Box::new(stripes)),
        Err(declined) => plain(Some(declined)),
    })
}

/// The layout of a warp's stripes in shared memory, or why there is none.
fn stripes(
    k: &Kernel,
    inst: Inst,
    AccumulatorSpan { columns, atoms, step, wide }: AccumulatorSpan,
    plan: &Plan,
) -> Result<std::result::Result<Stripes, String>> {
    let bits = k.ty(k.args(inst)[0]).elem().bits();
    let span = |row: u32| if plan.ways.swizzles { row } else { 0 };
    // Of a box, the leading dimensions are one.
    let unit = unit_dim(k, k.args(inst)[0]).map(|u| u.min(1));
    if unit == Some(0) && bits == 16 && !wide {
        // Columns of a stripe become rows: each warp stores 16 elements of each.
        let row_bytes = STRIPE as u32 * bits / 8;
        let swizzle = span(row_bytes);
        let layout = shared::swizzled(columns.into(), STRIPE, bits.into(), swizzle.into())
            .map_err(layout_error(k, inst))?;
        return Ok(Ok(Stripes {
            layout,
            swizzle,
            row_bytes,
            columns,
            atoms,
            step,
            slabs: 1,
            transposed: true,
        }));
    }
    if unit != Some(1) {
        return Ok(Err("columns of the result are not contiguous".to_owned()));
    }
    let bytes = columns * bits / 8;
    let fits = |s: &u32| if wide { bytes.is_multiple_of(*s) } else { bytes == *s };
    // Truth values have registers of their own.
    let staged = matches!(bits, 8 | 16 | 32) && k.ty(k.args(inst)[0]).elem() != Elem::Bool;
    let Some(row_bytes) = [128, 64, 32].into_iter().find(fits).filter(|_| staged) else {
        return Ok(Err(format!("rows of {bytes} bytes of {bits}-bit elements")));
    };
    let (columns, slabs, swizzle) = (row_bytes * 8 / bits, bytes / row_bytes, span(row_bytes));
    let layout = shared::swizzled(STRIPE, columns.into(), bits.into(), swizzle.into())
        .map_err(layout_error(k, inst))?;
    Ok(Ok(Stripes { layout, swizzle, row_bytes, columns, atoms, step, slabs, transposed: false }))
}

/// A warp's part of an accumulator: its columns, its stripes of 16 rows, and the rows from one stripe to the next.
/// `wide`: its columns may be several swizzle spans. Stores of warpgroups come in chunks of one span.
struct AccumulatorSpan {
    columns: u32,
    atoms: u32,
    step: u32,
    wide: bool,
}

fn warpgroup_stripes([rows, cols]: [u32; 2], groups: u32, layout: &Layout) -> Option<AccumulatorSpan> {
    let accumulator = fragment::wgmma_acc(rows.into(), cols.into(), groups.into()).ok()?;
    let held = AccumulatorSpan { columns: cols, atoms: rows / (ATOM_M * groups), step: ATOM_M, wide: false };
    (accumulator == *layout).then_some(held)
}

/// If the atoms of a warp are spread, they are stored one after the other in chunks of rows; a tile that was not
/// chunked is stored plainly. If they are contiguous, they are stored in chunks of columns, as for warpgroups.
fn warp_stripes(warp_grid: WarpGrid, [rows, cols]: [u32; 2], layout: &Layout) -> Option<AccumulatorSpan> {
    let shape = [warp_grid.rows.into(), warp_grid.columns.into()];
    let accumulator = fragment::mma_tile_acc(rows.into(), cols.into(), shape, warp_grid.contiguous).ok()?;
    let (all, atom) = (warp_grid.rows * WARP_ATOM[0], WARP_ATOM[0]);
    let step = if warp_grid.contiguous { atom } else { all };
    let held = AccumulatorSpan {
        columns: cols / warp_grid.columns,
        atoms: rows / all,
        step,
        wide: !warp_grid.contiguous,
    };
    (accumulator == *layout && (warp_grid.contiguous || held.atoms == 1)).then_some(held)
}
