//! Anchors for tiles that no MMA decides: blocked layouts in which each thread moves as many bytes at once as the
//! facts allow.
//!
//! ```text
//!  t = load x   ─►   16-byte vectors, lanes along the contiguous dimension   ─►   spread to the users of t
//! ```

use super::blocked::{LANES, Spread, blocked_by};
use super::choices::{Options, Point, Way};
use super::coalesce;
use super::constraint::adapts;
use super::convert::cell_bits;
use super::cost::Model;
use super::propagate;
use super::solve::Solver;
use super::types::{Plan, Product};
use crate::Result;
use crate::boxes::{is_box, only_products};
use crate::tiles::{accessed, extents, layout_error, unit_dim, warps};
use crate::vector::vector_elements;
use warplift_ir::layout::{Axis, Layout, fragment};
use warplift_ir::target::Target;
use warplift_ir::tile::{Inst, Kernel, Op, Team, Type, Value};

/// Gives the tile of a load, or any tile without a layout, a blocked layout and propagates it. A tile that can be made
/// in any layout gets the one of its use, where nothing else gives it one.
///
/// # Errors
/// As propagation.
pub(super) fn anchor(
    k: &Kernel,
    inst: Inst,
    solver: &Solver<'_>,
    model: &Model<'_>,
    plan: &mut Plan,
) -> Result<()> {
    if takes_as_made(k, inst) {
        for &v in k.args(inst).iter().filter(|&&v| adapts(k, v)) {
            anchor_at_use(k, inst, v, solver, plan)?;
        }
    }
    let tiles: Vec<Value> =
        k.results(inst).iter().copied().filter(|&v| matches!(k.ty(v), Type::Tile(..))).collect();
    for v in tiles {
        let shared_only = plan.shared.contains_key(&inst) && only_products(k, v);
        let moves = match k.insts[inst].op {
            Op::Trans(_) | Op::Slice(_) => true,
            Op::Reshape => is_box(k, inst),
            _ => false,
        };
        let moved = moves && only_products(k, v);
        if plan.layouts[v].is_some() || shared_only || moved || adapts(k, v) {
            continue;
        }
        let (dim, vector) = match k.insts[inst].op {
            Op::Load | Op::LoadGather { .. } => {
                (unit_dim(k, k.args(inst)[0]).unwrap_or(extents(k, v).len() - 1), vector_elements(k, inst, v))
            }
            _ => (extents(k, v).len().saturating_sub(1), 1),
        };
        let same = as_made(k, inst, plan);
        let layout = match same {
            Some(layout) => layout,
            None => {
                let mut block = vec![1; extents(k, v).len()];
                block[dim] = vector;
                coalesce::widen(k, inst, v, dim, &mut block);
                let mut all = candidates(k, inst, v, dim, block, model.target)?;
                let load = k.insts[inst].op.is_read();
                all.truncate(if load { all.len() } else { 1 });
                all.extend(result_rows(k, inst, plan).map(|l| (Way::ResultRows, l)));
                let excess = |l: &Layout| {
                    let [own, least] = model.reads(plan, inst, l);
                    model.trips(inst) * (own - least)
                };
                let cycles = |l: &Layout| if load { excess(l) } else { 0.0 };
                let options: Options = all.iter().map(|(way, l)| (*way, cycles(l))).collect();
                let way = plan.choices.pick(Point::Layout(v), options);
                let at = all.iter().position(|c| c.0 == way).unwrap_or(0);
                all.swap_remove(at).1
            }
        };
        plan.layouts[v] = Some(layout);
        solver.spread([v], plan)?;
    }
    Ok(())
}

/// The layout of an operand that a result takes over where nothing asked for another one: `rearrange` only allows layouts to
/// differ, and a dimension of extent 1 moves nothing.
fn as_made(k: &Kernel, inst: Inst, plan: &Plan) -> Option<Layout> {
    let layout = plan.layouts[*k.args(inst).first()?].clone()?;
    match k.insts[inst].op {
        Op::Rearrange => Some(layout),
        Op::ExpandDims(_) => {
            let [from, to] = [k.args(inst)[0], k.result(inst)].map(|v| extents(k, v));
            propagate::reshaped(k, inst, &layout, [&from, &to]).ok()
        }
        _ => None,
    }
}

/// The layout in which each thread holds the rows of a loaded operand that it holds of a product's results, if threads read
/// the left operand of a product. What they compute of its rows then meets those results without a conversion.
fn result_rows(k: &Kernel, load: Inst, plan: &Plan) -> Option<Layout> {
    let reads = |(&product, p): (&Inst, &Product)| match &p.a {
        Some((from, _)) if *from == load => Some(product),
        _ => None,
    };
    let mut products: Vec<Inst> = plan.products.iter().filter_map(reads).collect();
    products.sort_unstable();
    let Team::Warpgroups(groups) = k.attrs[*products.first()?].team else { return None };
    let (left, tile) = (k.args(products[0])[1], k.result(load));
    let [rows, depth] = extents(k, tile)[..] else { return None };
    (left == tile).then(|| fragment::wgmma_acc(rows.into(), depth.into(), groups.into()).ok())?
}

/// Whether an instruction takes a tile in the layout that it has: none follows from the result's.
fn takes_as_made(k: &Kernel, inst: Inst) -> bool {
    matches!(
        k.insts[inst].op,
        Op::Store
            | Op::Atomic(_)
            | Op::StoreScatter { .. }
            | Op::AtomicScatter { .. }
            | Op::Reduce(..)
            | Op::Gather(_)
            | Op::Trans(_)
            | Op::ViewAs(_)
            | Op::Rearrange
    )
}

/// Gives a tile without a layout the one of the wide accesses by which it is stored.
///
/// # Errors
/// As propagation.
pub(super) fn anchor_stored(k: &Kernel, store: Inst, solver: &Solver<'_>, plan: &mut Plan) -> Result<()> {
    let stored = accessed(k, store);
    let tile = matches!(k.ty(stored), Type::Tile(..)) && !adapts(k, stored);
    if tile { anchor_at_use(k, store, stored, solver, plan) } else { Ok(()) }
}

/// Gives a constant tile without a layout a blocked one: that of the accesses where it is stored.
fn anchor_at_use(k: &Kernel, inst: Inst, v: Value, solver: &Solver<'_>, plan: &mut Plan) -> Result<()> {
    if plan.layouts[v].is_some() {
        return Ok(());
    }
    let last = extents(k, v).len().saturating_sub(1);
    let (dim, vector) = match k.insts[inst].op {
        Op::Store | Op::StoreScatter { .. } => {
            (unit_dim(k, k.args(inst)[0]).unwrap_or(last), vector_elements(k, inst, v))
        }
        _ => (last, 1),
    };
    let mut block = vec![1; extents(k, v).len()];
    block[dim] = vector;
    plan.layouts[v] = Some(whole_registers(k, inst, v, dim, block, Spread::default())?);
    solver.spread([v], plan)
}

/// Candidate blocked layouts of a tile, the default first:
/// - all threads of a warp along the contiguous dimension;
/// - as many threads as fill a line, or two sectors: a reduction along the dimension then takes fewer shuffles;
/// - vectors half as wide;
/// - warps along the dimension too.
///
/// A candidate in which a thread holds more than in the default is left out.
fn candidates(
    k: &Kernel,
    inst: Inst,
    v: Value,
    dim: usize,
    block: Vec<u32>,
    target: &Target,
) -> Result<Vec<(Way, Layout)>> {
    let bits = u64::from(block[dim] * k.ty(v).elem().bits()).max(1);
    let filling = |bytes: u32| (8 * u64::from(bytes) / bits).clamp(1, LANES);
    let plain = Spread::default();
    let mut half = block.clone();
    half[dim] = (half[dim] / 2).max(1);
    let variants = [
        (&block, plain),
        (&block, Spread { lanes: filling(target.line_bytes), ..plain }),
        (&block, Spread { lanes: filling(2 * target.sector_bytes), ..plain }),
        (&half, plain),
        (&block, Spread { warps_along: true, ..plain }),
    ];
    let mut all: Vec<(Way, Layout)> = Vec::new();
    for (block, spread) in variants {
        let made = whole_registers(k, inst, v, dim, block.clone(), spread);
        let way =
            Way::Blocked { vector: block[dim], lanes: spread.lanes as u32, warps_along: spread.warps_along };
        match (made, all.first()) {
            (made, None) => all.push((way, made?)),
            (Ok(l), Some((_, rule))) => {
                let more = l.in_extent(Axis::Reg) > rule.in_extent(Axis::Reg);
                if !more && all.iter().all(|(_, a)| *a != l) {
                    all.push((way, l));
                }
            }
            (Err(_), Some(_)) => {}
        }
    }
    Ok(all)
}

/// A blocked layout in which the elements of a thread fill whole registers.
fn whole_registers(
    k: &Kernel,
    inst: Inst,
    v: Value,
    dim: usize,
    mut block: Vec<u32>,
    spread: Spread,
) -> Result<Layout> {
    let shape = extents(k, v);
    let packed = (32 / cell_bits(k.ty(v).elem()).clamp(8, 32)) as u32;
    loop {
        let layout =
            blocked_by(&shape, dim, &block, spread, warps(k, inst)).map_err(layout_error(k, inst))?;
        let wider = block[dim] * 2;
        let odd = !layout.in_extent(Axis::Reg).is_multiple_of(packed.into());
        if !odd || wider > packed || !shape[dim].is_multiple_of(wider) {
            return Ok(layout);
        }
        block[dim] = wider;
    }
}
