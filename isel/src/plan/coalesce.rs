//! Coalescing: an access to global memory whose layout came from its users may touch many more sectors than it needs.
//! It then gets a blocked layout of its own, and a conversion follows.
//!
//! ```text
//!  t = load x [row, column]     lanes along columns      a thread's block: 8 rows x 8 columns, so that both
//!  store y, trans(t)            lanes along rows         sides move 16 bytes, to shared memory too
//! ```
//!
//! Linear Layouts, section 5.4: the conversion moves vectors of the registers that both layouts have in common.

use super::blocked::{Spread, blocked_by, fit, pieces, run};
use super::choices::{Options, Point, Way};
use super::cost::Model;
use super::types::{Plan, StorePlan};
use crate::Result;
use crate::tiles::{accessed, extents, layout_error, unit_dim, warps};
use crate::vector::vector_elements;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use warplift_ir::layout::{Axis, Layout};
use warplift_ir::tile::{Inst, Kernel, Op, Type, Value};

/// Bytes of the widest access.
const WIDE: u64 = 16;
/// An access may touch this many times the sectors that it needs before it is converted. A conversion costs two
/// passes through shared memory and a block barrier.
const WASTE: u64 = 4;

/// Gives a plain store or a plain load a layout of its own, if that pays. The load has taken its layout from its
/// users.
///
/// # Errors
/// As a layout's construction.
pub(super) fn do_coalesce(k: &Kernel, inst: Inst, model: &Model<'_>, plan: &mut Plan) -> Result<()> {
    let copied = plan.shared.contains_key(&inst) || plan.staged.contains_key(&inst);
    let (tile, load) = match (&k.insts[inst].op, plan.stores.get(&inst)) {
        // A thread of an access by tiles of indices, or under a mask, has those of its elements: the layout is theirs.
        (Op::Load, _) if !copied => (k.result(inst), true),
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
    let spread = Spread::default();
    let own = blocked_by(&shape, unit, &block, spread, warps(k, inst)).map_err(layout_error(k, inst))?;
    let cost = |l: &Layout, piece: u32| {
        let moved = l.contiguous(Axis::Reg, Axis::Dim(unit as u8)).min(vector);
        (pieces(l, Some(unit), 8 * bytes, piece.into()), moved)
    };
    let more = |piece: u32, factor: u64| {
        let ((now, moved), (then, own_moved)) = (cost(&layout, piece), cost(&own, piece));
        now * own_moved > factor * then * moved
    };
    let (sector, line) = (model.target.sector_bytes, model.target.line_bytes);
    let pays = more(sector, WASTE) || (!load && vector * bytes == WIDE && more(line, 1));
    let excess =
        |l: &Layout| model.trips(inst) * (model.access(inst, tile, l) - model.least_access(inst, tile));
    let mut options = Options::from_iter([(Way::Shared, excess(&layout)), (Way::Own, excess(&own))]);
    if own == layout {
        return Ok(());
    }
    if pays {
        options.reverse();
    }
    if plan.choices.pick(Point::Access(same_access(k, inst)), options) == Way::Own {
        match load {
            true => plan.made.insert(tile, own),
            false => plan.uses.insert((inst, k.args(inst).len() - 1), own),
        };
    }
    Ok(())
}

/// The first instruction with the same tile type at the same place of the text. Parts of one access take the same
/// option.
fn same_access(k: &Kernel, inst: Inst) -> Inst {
    let shape = |i: Inst| extents(k, accessed(k, i));
    let (data, own) = (&k.insts[inst], shape(inst));
    let same = |i: &Inst| k.insts[*i].loc == data.loc && k.insts[*i].op == data.op && shape(*i) == own;
    k.insts.keys().find(same).unwrap_or(inst)
}

/// Widens the block of a load along the dimensions in which its dependent stores are contiguous.
pub fn widen(k: &Kernel, inst: Inst, tile: Value, dim: usize, block: &mut [u32]) {
    if !matches!(k.insts[inst].op, Op::Load) {
        return;
    }
    for (d, vector) in stores(k, tile) {
        if d != dim {
            block[d] = block[d].max(vector);
        }
    }
    fit(block, dim, &extents(k, tile), warps(k, inst));
}

/// How far away from a load its stores are looked for.
const REACH: usize = 8;

/// The dimensions of a loaded tile, in the order of one that is made of it.
type Dims = SmallVec<[usize; 4]>;

/// The contiguous dimension and vector width of every store of a tile or of one made of it element by element. Values
/// are followed a step of all of them at a time, and none twice: chains that part and meet again cost no more than others.
fn stores(k: &Kernel, v: Value) -> Vec<(usize, u32)> {
    let mut found = Vec::new();
    let mut front: FxHashMap<Value, Vec<Dims>> = FxHashMap::default();
    front.insert(v, vec![(0..extents(k, v).len()).collect()]);
    let mut seen = front.clone();
    for _ in 0..REACH {
        let mut next: FxHashMap<Value, Vec<Dims>> = FxHashMap::default();
        for inst in k.insts.keys() {
            let all = k.args(inst).iter().enumerate().filter_map(|(at, a)| Some((at, front.get(a)?)));
            for (dims, at) in all.flat_map(|(at, all)| all.iter().map(move |d| (d, at))) {
                let Some(above) = follow(k, inst, at, dims, &mut found) else { continue };
                let known = seen.entry(k.result(inst)).or_default();
                if !known.contains(&above) {
                    known.push(above.clone());
                    next.entry(k.result(inst)).or_default().push(above);
                }
            }
        }
        if next.is_empty() {
            break;
        }
        front = next;
    }
    found
}

/// Notes a store of a tile, or says in which order the result of an operation on it has its dimensions.
fn follow(k: &Kernel, inst: Inst, at: usize, dims: &Dims, found: &mut Vec<(usize, u32)>) -> Option<Dims> {
    let args = k.args(inst);
    match &k.insts[inst].op {
        Op::Store if at + 1 == args.len() => {
            found.extend(unit_dim(k, args[0]).map(|d| (dims[d], vector_elements(k, inst, args[at]))));
            None
        }
        Op::Unary(_) | Op::Binary(_) | Op::Select | Op::Fma | Op::Cast => Some(dims.clone()),
        Op::Trans(perm) => Some(perm.iter().map(|&p| dims[usize::from(p)]).collect()),
        _ => None,
    }
}
