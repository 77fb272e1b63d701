//! Anchors where no product reaches: blocked layouts whose threads move as many bytes at once as the
//! facts allow.

use super::constraint::adapts;
use super::solve::Solver;
use super::{Plan, coalesce, extents, layout_error, tensor::unit_dim, warps};
use crate::Result;
use crate::facts::{divisor, gcd};
use crate::window::Window;
use warplift_ir::layout::{Axis, Builder, Layout, LayoutError};
use warplift_ir::tile::{Inst, Kernel, Op, Type, Value};

/// Bits that one access moves at most.
const ACCESS_BITS: i64 = 128;

/// Gives the tile of a load (or whatever has no layout yet) a blocked layout and spreads it.
///
/// # Errors
/// As propagation.
pub(super) fn anchor(k: &Kernel, inst: Inst, solver: &Solver<'_>, plan: &mut Plan) -> Result<()> {
    let tiles: Vec<Value> =
        k.results(inst).iter().copied().filter(|&v| matches!(k.ty(v), Type::Tile(..))).collect();
    for v in tiles {
        let shared_only = plan.shared.contains_key(&inst) && only_products(k, v);
        let moved = matches!(k.insts[inst].op, Op::Trans(_) | Op::Slice(_)) && only_products(k, v);
        if plan.layouts[v].is_some() || shared_only || moved || adapts(k, v) {
            continue;
        }
        let (dim, vector) = match k.insts[inst].op {
            Op::Load => {
                (unit_dim(k, k.args(inst)[0]).unwrap_or(extents(k, v).len() - 1), vector_elements(k, inst, v))
            }
            _ => (extents(k, v).len().saturating_sub(1), 1),
        };
        // A hint that layouts may differ, where nothing asked for another one.
        let same = matches!(k.insts[inst].op, Op::Rearrange).then(|| plan.layouts[k.args(inst)[0]].clone());
        let layout = match same.flatten() {
            Some(layout) => layout,
            None => {
                let mut block = vec![1; extents(k, v).len()];
                block[dim] = vector;
                coalesce::widen(k, inst, v, dim, &mut block);
                whole_registers(k, inst, v, dim, block)?
            }
        };
        plan.layouts[v] = Some(layout);
        solver.spread([v], plan)?;
    }
    Ok(())
}

/// A blocked layout in which a thread's elements fill whole registers.
fn whole_registers(k: &Kernel, inst: Inst, v: Value, dim: usize, mut block: Vec<u32>) -> Result<Layout> {
    let shape = extents(k, v);
    let packed = (32 / super::cell_bits(k.ty(v).elem()).clamp(8, 32)) as u32;
    loop {
        let layout = blocked_by(&shape, dim, &block, warps(k, inst)).map_err(layout_error(k, inst))?;
        let wider = block[dim] * 2;
        let odd = !layout.in_extent(Axis::Reg).is_multiple_of(packed.into());
        if !odd || wider > packed || !shape[dim].is_multiple_of(wider) {
            return Ok(layout);
        }
        block[dim] = wider;
    }
}

/// Whether a value is used by products alone, through transpositions and parts.
pub(super) fn only_products(k: &Kernel, v: Value) -> bool {
    let mut used = false;
    let fine = k.insts.iter().all(|(inst, data)| {
        if !k.args(inst).contains(&v) {
            return true;
        }
        used = true;
        match data.op {
            Op::Mma => k.args(inst)[0] != v,
            Op::Trans(_) | Op::Slice(_) => only_products(k, k.result(inst)),
            _ => false,
        }
    });
    used && fine
}

/// Elements that one access of a load or store may move: contiguous, aligned and in bounds together.
pub fn vector_elements(k: &Kernel, inst: Inst, tile: Value) -> u32 {
    let args = k.args(inst);
    let view = args[0];
    let elem = k.ty(tile).elem();
    let bits = i64::from(elem.bits());
    let Some(window) = Window::of(k, view) else { return 1 };
    let Some(dim) = window.unit(k) else { return 1 };
    let whole = window.kept[dim];
    let most = 1i64 << (ACCESS_BITS / bits).max(1).ilog2();
    let mut d = gcd(most, divisor(k, window.pointer(k)).saturating_mul(8) / bits);
    d = gcd(d, divisor(k, args[1 + dim]));
    d = gcd(d, divisor(k, window.extent(k, whole)));
    let others = window.kept.iter().chain(window.fixed.iter().map(|f| &f.0)).filter(|&&o| o != whole);
    d = others.fold(d, |d, &o| gcd(d, window.stride_divisor(k, o)));
    let extent = extents(k, tile).get(dim).copied().unwrap_or(1);
    let d = gcd(d, i64::from(extent)).max(1);
    1 << d.trailing_zeros()
}

/// A blocked layout of a tile over so many warps: lanes along the contiguous dimension first, warps along
/// the others first.
///
/// # Errors
/// As the layout's construction.
pub fn blocked(
    extents: &[u32],
    dim: usize,
    vector: u32,
    warps: u32,
) -> std::result::Result<Layout, LayoutError> {
    let mut block = vec![1; extents.len()];
    block[dim] = vector;
    blocked_by(extents, dim, &block, warps)
}

/// The same with a block of neighbours for each thread.
///
/// # Errors
/// As the layout's construction.
pub(super) fn blocked_by(
    extents: &[u32],
    dim: usize,
    block: &[u32],
    warps: u32,
) -> std::result::Result<Layout, LayoutError> {
    let shape: Vec<u64> = extents.iter().map(|&e| u64::from(e)).collect();
    let order: Vec<usize> =
        std::iter::once(dim).chain((0..shape.len()).rev().filter(|&d| d != dim)).collect();
    let mut own: Vec<u64> = block.iter().map(|&b| u64::from(b)).collect();
    let (mut lanes, mut left) = spread_lanes(&shape, &own, &order);
    // Narrower vectors keep more lanes busy where the extent is no power of two.
    while left > 1 && own[dim] > 2 && !(shape[dim] / own[dim]).is_power_of_two() {
        own[dim] /= 2;
        (lanes, left) = spread_lanes(&shape, &own, &order);
    }
    let mut warp = vec![1; shape.len()];
    let mut surplus = u64::from(warps);
    for &d in order.iter().rev() {
        let room = shape[d] / (own[d] * lanes[d]).min(shape[d]);
        warp[d] = largest_divisor(surplus, room);
        surplus /= warp[d];
    }
    let dims: Vec<(Axis, u64)> = (0..shape.len()).map(|d| (Axis::Dim(d as u8), shape[d])).collect();
    let mut at = vec![1; shape.len()];
    let mut layout = Builder::new(&dims);
    for (axis, parts, repeats) in
        [(Axis::Reg, &own, 1), (Axis::Lane, &lanes, left), (Axis::Warp, &warp, surplus)]
    {
        layout = layout.axis(axis);
        for &d in &order {
            layout = layout.add(axis, parts[d], &column(shape.len(), d, at[d]));
            at[d] *= parts[d];
            if d == dim {
                // Threads for which nothing is left hold what others hold.
                layout = layout.add(axis, repeats, &vec![0; shape.len()]);
            }
        }
    }
    for &d in &order {
        layout = layout.add(Axis::Reg, shape[d] / at[d], &column(shape.len(), d, at[d]));
    }
    layout.build()
}

fn column(rank: usize, dim: usize, step: u64) -> Vec<u64> {
    (0..rank).map(|d| if d == dim { step } else { 0 }).collect()
}

/// Lanes along each dimension, and how many times over what is left repeats them.
fn spread_lanes(shape: &[u64], own: &[u64], order: &[usize]) -> (Vec<u64>, u64) {
    let mut lanes = vec![1; shape.len()];
    let mut left = 32;
    for &d in order {
        lanes[d] = (1u64 << (shape[d] / own[d]).trailing_zeros().min(5)).min(left);
        left /= lanes[d];
    }
    (lanes, left)
}

/// The greatest divisor of `n` that divides `room`.
fn largest_divisor(n: u64, room: u64) -> u64 {
    (1..=n).rev().find(|d| n.is_multiple_of(*d) && room.is_multiple_of(*d)).unwrap_or(1)
}
