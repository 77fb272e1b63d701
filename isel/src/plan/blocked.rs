//! Anchors where no product reaches: blocked layouts whose threads move as many bytes at once as the
//! facts allow.

use super::choices::{Options, Point, Way};
use super::constraint::adapts;
use super::cost::{LINE, SECTOR};
use super::{Maker, Plan, coalesce, extents, layout_error, tensor::unit_dim, warps};
use crate::Result;
use crate::facts::{divisor, gcd};
use crate::window::Window;
use warplift_ir::layout::{Axis, Builder, Layout, LayoutError};
use warplift_ir::tile::{Inst, Kernel, Op, Type, Value};

/// Threads of a warp.
const LANES: u64 = 32;
/// Bits that one access moves at most.
const ACCESS_BITS: i64 = 128;

/// Gives the tile of a load (or whatever has no layout yet) a blocked layout and spreads it.
///
/// # Errors
/// As propagation.
pub(super) fn anchor(k: &Kernel, inst: Inst, maker: &Maker<'_>, plan: &mut Plan) -> Result<()> {
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
                let mut all = candidates(k, inst, v, dim, block)?;
                let load = matches!(k.insts[inst].op, Op::Load);
                all.truncate(if load { all.len() } else { 1 });
                let excess = |l: &Layout| {
                    maker.model.trips(inst)
                        * (maker.model.access(inst, v, l) - maker.model.least_access(inst, v))
                };
                let cycles = |l: &Layout| if load { excess(l) } else { 0.0 };
                let options: Options = all.iter().map(|(way, l)| (*way, cycles(l))).collect();
                let way = plan.choices.pick(Point::Layout(v), options);
                let at = all.iter().position(|c| c.0 == way).unwrap_or(0);
                all.swap_remove(at).1
            }
        };
        plan.layouts[v] = Some(layout);
        maker.solver.spread([v], plan)?;
    }
    Ok(())
}

/// How the threads of a block spread over a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spread {
    /// Threads of a warp along the contiguous dimension at most.
    pub lanes: u64,
    /// Whether warps go along the contiguous dimension first, instead of last.
    pub warps_along: bool,
}

impl Default for Spread {
    fn default() -> Self {
        Self { lanes: LANES, warps_along: false }
    }
}

/// Blocked layouts of a tile, the rule's first: all threads of a warp along the contiguous dimension, or as many as fill
/// a line, or two sectors (what is reduced along it takes fewer shuffles then); vectors half as wide; warps along it
/// too. What holds more than the rule's in a thread is left out.
fn candidates(k: &Kernel, inst: Inst, v: Value, dim: usize, block: Vec<u32>) -> Result<Vec<(Way, Layout)>> {
    let row = u64::from(block[dim] * k.ty(v).elem().bits()).max(1);
    let plain = Spread::default();
    let mut half = block.clone();
    half[dim] = (half[dim] / 2).max(1);
    let forms = [
        (&block, plain),
        (&block, Spread { lanes: (8 * LINE / row).clamp(1, LANES), ..plain }),
        (&block, Spread { lanes: (16 * SECTOR / row).clamp(1, LANES), ..plain }),
        (&half, plain),
        (&block, Spread { warps_along: true, ..plain }),
    ];
    let mut all: Vec<(Way, Layout)> = Vec::new();
    for (block, spread) in forms {
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

/// A blocked layout in which a thread's elements fill whole registers.
fn whole_registers(
    k: &Kernel,
    inst: Inst,
    v: Value,
    dim: usize,
    mut block: Vec<u32>,
    spread: Spread,
) -> Result<Layout> {
    let shape = extents(k, v);
    let packed = (32 / super::cell_bits(k.ty(v).elem()).clamp(8, 32)) as u32;
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
    // An address is a whole element's at least, whatever is known of it.
    let mut d = gcd(most, (divisor(k, window.pointer(k)).saturating_mul(8) / bits).max(1));
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
    blocked_by(extents, dim, &block, Spread::default(), warps)
}

/// The same with a block of neighbours for each thread.
///
/// # Errors
/// As the layout's construction.
pub(super) fn blocked_by(
    extents: &[u32],
    dim: usize,
    block: &[u32],
    spread: Spread,
    warps: u32,
) -> std::result::Result<Layout, LayoutError> {
    let shape: Vec<u64> = extents.iter().map(|&e| u64::from(e)).collect();
    let order: Vec<usize> =
        std::iter::once(dim).chain((0..shape.len()).rev().filter(|&d| d != dim)).collect();
    let mut own: Vec<u64> = block.iter().map(|&b| u64::from(b)).collect();
    let most = |d: usize| if d == dim { spread.lanes } else { LANES };
    let (mut lanes, mut left) = spread_lanes(&shape, &own, &order, most);
    // Narrower vectors keep more lanes busy where the extent is no power of two.
    while left > 1 && own[dim] > 2 && !(shape[dim] / own[dim]).is_power_of_two() {
        own[dim] /= 2;
        (lanes, left) = spread_lanes(&shape, &own, &order, most);
    }
    let mut warp = vec![1; shape.len()];
    let mut surplus = u64::from(warps);
    let along = if spread.warps_along { order.clone() } else { order.iter().rev().copied().collect() };
    for d in along {
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
fn spread_lanes(shape: &[u64], own: &[u64], order: &[usize], most: impl Fn(usize) -> u64) -> (Vec<u64>, u64) {
    let mut lanes = vec![1; shape.len()];
    let mut left = LANES;
    for &d in order {
        lanes[d] = (1u64 << (shape[d] / own[d]).trailing_zeros().min(5)).min(left).min(most(d));
        left /= lanes[d];
    }
    (lanes, left)
}

/// The greatest divisor of `n` that divides `room`.
fn largest_divisor(n: u64, room: u64) -> u64 {
    (1..=n).rev().find(|d| n.is_multiple_of(*d) && room.is_multiple_of(*d)).unwrap_or(1)
}
