//! Accesses to global memory whose layout came from elsewhere: where a warp would touch many more pieces of
//! memory than it moves, the access gets a blocked layout of its own and a conversion stands between.
//!
//! ```text
//!  t = load x [row, column]     lanes along columns      a thread's block: 8 rows x 8 columns, so that both
//!  store y, trans(t)            lanes along rows         sides move 16 bytes, to shared memory too
//! ```
//!
//! Linear Layouts, section 5.4: the registers that both sides have in common are the conversion's vectors.

use super::blocked::{blocked_by, vector_elements};
use super::tensor::unit_dim;
use super::{Plan, StorePlan, extents, layout_error, staged, warps};
use crate::Result;
use rustc_hash::FxHashSet;
use warplift_ir::layout::{Axis, Layout};
use warplift_ir::tile::{Inst, Kernel, Op, Type, Value};

/// Bytes that memory moves at least.
const SECTOR: u64 = 32;
/// Bytes that caches look up together.
const LINE: u64 = 128;
/// Bytes of the widest access.
const WIDE: u64 = 16;
/// How many times more sectors than needed an access may touch before it is converted: a conversion is two
/// passes through shared memory and a meeting.
const WASTE: u64 = 4;

/// Gives a plain store, or a load that took its layout from its users, a layout of its own where that pays.
///
/// # Errors
/// As a layout's construction.
pub fn do_coalesce(k: &Kernel, inst: Inst, plan: &mut Plan) -> Result<()> {
    let (tile, load) = match (&k.insts[inst].op, plan.stores.get(&inst)) {
        (Op::Load, _) if !plan.shared.contains_key(&inst) && staged::is_plain(k, inst) => {
            (k.result(inst), true)
        }
        (Op::Store, Some(StorePlan::Plain { .. })) => (k.args(inst)[k.args(inst).len() - 1], false),
        _ => return Ok(()),
    };
    let (Type::Tile(elem, _), Some(unit)) = (k.ty(tile), unit_dim(k, k.args(inst)[0])) else { return Ok(()) };
    let Some(layout) = plan.layouts[tile].clone() else { return Ok(()) };
    let (bytes, shape) = (u64::from(elem.bits() / 8), extents(k, tile));
    let threads = u64::from(32 * warps(k, inst));
    let whole = shape.iter().map(|&e| u64::from(e)).product::<u64>() * bytes;
    if bytes == 0 || shape.len() < 2 || whole < threads * WIDE {
        return Ok(());
    }
    let vector = u64::from(vector_elements(k, inst, tile));
    let mut block: Vec<u32> =
        (0..shape.len()).map(|d| (run(&layout, d) as u32).min((WIDE / bytes) as u32)).collect();
    block[unit] = vector as u32;
    fit(&mut block, unit, &shape, warps(k, inst));
    let own = blocked_by(&shape, unit, &block, warps(k, inst)).map_err(layout_error(k, inst))?;
    let cost = |l: &Layout, piece: u64| {
        let moved = l.contiguous(Axis::Reg, Axis::Dim(unit as u8)).min(vector);
        (pieces(l, unit, bytes, piece), moved)
    };
    let more = |piece: u64, factor: u64| {
        let ((now, moved), (then, own_moved)) = (cost(&layout, piece), cost(&own, piece));
        now * own_moved > factor * then * moved
    };
    if more(SECTOR, WASTE) || (!load && vector * bytes == WIDE && more(LINE, 1)) {
        match load {
            true => plan.made.insert(tile, own),
            false => plan.uses.insert((inst, k.args(inst).len() - 1), own),
        };
    }
    Ok(())
}

/// Pieces of memory that a warp's access touches.
fn pieces(layout: &Layout, unit: usize, bytes: u64, piece: u64) -> u64 {
    let lane = layout.ins().iter().position(|a| a.0 == Axis::Lane);
    let mut touched = FxHashSet::default();
    for l in 0..layout.in_extent(Axis::Lane) {
        let at: Vec<u64> = (0..layout.ins().len()).map(|i| if Some(i) == lane { l } else { 0 }).collect();
        let mut at = layout.apply(&at);
        at[unit] = at[unit] * bytes / piece;
        touched.insert(at);
    }
    touched.len() as u64
}

/// Neighbours along a dimension that a thread holds.
fn run(layout: &Layout, dim: usize) -> u64 {
    let basis = layout.basis(Axis::Reg);
    let mut run = 1;
    loop {
        let step = basis.iter().find(|b| {
            b.extent == 2 && b.out.iter().enumerate().all(|(d, &c)| c == if d == dim { run } else { 0 })
        });
        match step {
            Some(_) => run *= 2,
            None => return run,
        }
    }
}

/// Shrinks a thread's block across the access's dimension until all threads have one of their own.
fn fit(block: &mut [u32], unit: usize, shape: &[u32], warps: u32) {
    let threads = u64::from(32 * warps);
    let elements = shape.iter().map(|&e| u64::from(e)).product::<u64>();
    let repeated = |block: &[u32]| {
        let layout = blocked_by(shape, unit, block, warps).ok();
        layout.is_some_and(|l| l.in_extent(Axis::Reg) * threads > elements)
    };
    for d in (0..block.len()).filter(|&d| d != unit) {
        while block[d] > 1 && (!shape[d].is_multiple_of(block[d]) || repeated(block)) {
            block[d] /= 2;
        }
    }
}

/// Widens a loaded block along the dimensions in which stores of what is made of it are contiguous.
pub fn widen(k: &Kernel, inst: Inst, tile: Value, dim: usize, block: &mut [u32]) {
    if !matches!(k.insts[inst].op, Op::Load) {
        return;
    }
    for (d, vector) in stores(k, tile, 8) {
        if d != dim {
            block[d] = block[d].max(vector);
        }
    }
    fit(block, dim, &extents(k, tile), warps(k, inst));
}

/// Dimensions in which stores of a tile, or of what has its layout, are contiguous, with their vectors.
fn stores(k: &Kernel, v: Value, fuel: u32) -> Vec<(usize, u32)> {
    let mut found = Vec::new();
    for (inst, data) in k.insts.iter().filter(|_| fuel > 0) {
        let args = k.args(inst);
        let Some(at) = args.iter().position(|&a| a == v) else { continue };
        match &data.op {
            Op::Store if at + 1 == args.len() => {
                found.extend(unit_dim(k, args[0]).map(|d| (d, vector_elements(k, inst, v))));
            }
            Op::Unary(_) | Op::Binary(_) | Op::Select | Op::Fma | Op::Cast => {
                found.extend(stores(k, k.result(inst), fuel - 1));
            }
            Op::Trans(perm) => {
                let above = stores(k, k.result(inst), fuel - 1);
                found.extend(above.into_iter().map(|(d, n)| (usize::from(perm[d]), n)));
            }
            _ => {}
        }
    }
    found
}
