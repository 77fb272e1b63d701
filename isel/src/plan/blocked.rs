//! Anchors where no product reaches: blocked layouts whose threads move as many bytes at once as the
//! facts allow.

use super::{Plan, extents, layout_error, propagate, tensor::unit_dim, warps};
use crate::Result;
use crate::facts::{divisor, gcd};
use crate::window::Window;
use warplift_ir::layout::{Layout, LayoutError, fragment};
use warplift_ir::tile::{Inst, Kernel, Op, Type, Value};

/// Bits that one access moves at most.
const ACCESS_BITS: i64 = 128;

/// Gives the tile of a load (or whatever has no layout yet) a blocked layout and spreads it.
///
/// # Errors
/// As propagation.
pub fn anchor(k: &Kernel, inst: Inst, order: &[Inst], plan: &mut Plan) -> Result<()> {
    let tiles: Vec<Value> =
        k.results(inst).iter().copied().filter(|&v| matches!(k.ty(v), Type::Tile(..))).collect();
    for v in tiles {
        let shared_only = plan.shared.contains_key(&inst) && only_products(k, v);
        let moved = matches!(k.insts[inst].op, Op::Trans(_) | Op::Slice(_)) && only_products(k, v);
        if plan.layouts[v].is_some() || shared_only || moved || propagate::adapts(k, v) {
            continue;
        }
        let (dim, vector) = match k.insts[inst].op {
            Op::Load => {
                (unit_dim(k, k.args(inst)[0]).unwrap_or(extents(k, v).len() - 1), vector_elements(k, inst, v))
            }
            _ => (extents(k, v).len().saturating_sub(1), 1),
        };
        let layout = blocked(&extents(k, v), dim, vector, warps(k, inst));
        plan.layouts[v] = Some(layout.map_err(layout_error(k, inst))?);
        propagate::do_propagate(k, order, plan)?;
    }
    Ok(())
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
    let shape: Vec<u64> = extents.iter().map(|&e| u64::from(e)).collect();
    let rank = shape.len();
    let mut per_thread = vec![1; rank];
    let mut lanes = vec![1; rank];
    let mut warp = vec![1; rank];
    per_thread[dim] = u64::from(vector);
    let order: Vec<usize> = std::iter::once(dim).chain((0..rank).rev().filter(|&d| d != dim)).collect();
    let mut left = 32;
    for &d in &order {
        lanes[d] = (1u64 << (shape[d] / per_thread[d]).trailing_zeros().min(5)).min(left);
        left /= lanes[d];
    }
    lanes[dim] *= left;
    let mut left = u64::from(warps);
    for &d in order.iter().rev() {
        let room = shape[d] / (per_thread[d] * lanes[d]).min(shape[d]);
        warp[d] = largest_divisor(left, room);
        left /= warp[d];
    }
    warp[dim] *= left;
    fragment::blocked(&shape, &per_thread, &lanes, &warp, &order)
}

/// The greatest divisor of `n` that divides `room`.
fn largest_divisor(n: u64, room: u64) -> u64 {
    (1..=n).rev().find(|d| n.is_multiple_of(*d) && room.is_multiple_of(*d)).unwrap_or(1)
}
