//! MMA variants: who executes the MMAs of a kernel, and how warps share them. The variant changes the kernel's text
//! (the chunks of its results), so each variant is mapped and planned on its own.
//!
//! ```text
//!  wgmma            warpgroups, one below the other
//!  mma.sync 8 x 1   warps: rows and columns of them ─┬─ atoms of 16 rows spread  chunks of rows for all warps
//!           4 x 2                                    └─ rows contiguous          chunks of columns for all warps
//!           ..
//! ```
//!
//! A variant exists if the shapes divide. The plan decides which variant is best.

use crate::operand::{WARP_ATOM, inner_dim, loaded_whole, swizzle_span};
use crate::tiles::extents;
use crate::variant::MmaVariant;
use crate::{IselError, Result};
use warplift_ir::plural;
use warplift_ir::tile::{Inst, Item, Kernel, Mapping, Op, Products, Team, Value, WarpGrid};
use warplift_ir::types::Elem;

/// Warps of a warpgroup.
const WARPGROUP: u32 = 4;
/// Rows of a `wgmma`. A tile that is not a multiple of them is executed by `mma.sync`.
pub(super) const WGMMA_M: u32 = 64;
/// From this number of elements on, a tile is large enough for eight warps.
const LARGE: u32 = 128 * 128;

/// All variants of a kernel under a mapping, the default first: `wgmma` if its shapes fit, else the warps that read
/// the least from shared memory.
///
/// # Errors
/// The warps do not form warpgroups, or cannot share the MMAs.
pub fn do_mma_variant(k: &Kernel, mapping: &Mapping) -> Result<Vec<MmaVariant>> {
    let (groups, warps) = (consumers(mapping), mapping.whole.warps);
    let all = products(k);
    let tall = all.iter().all(|&i| shape(k, i)[0].is_multiple_of(WGMMA_M));
    // The verifier has checked that consumers and warps agree.
    let whole_groups = groups.or(warps.map(|w| w / WARPGROUP)).unwrap_or(1);
    let odd = warps.filter(|w| !w.is_multiple_of(WARPGROUP));
    let whole = MmaVariant::Team(match all.is_empty() {
        false => Team::Warpgroups(whole_groups),
        true => Team::Warps(warps.unwrap_or(whole_groups * WARPGROUP)),
    });
    let variants = match mapping.whole.products {
        _ if all.is_empty() => vec![whole],
        Products::Wgmma => match odd {
            Some(warps) => {
                let message = format!("`warps {warps}` beside `products wgmma`: a warpgroup has {WARPGROUP}");
                return Err(IselError::said(mapping, Item::Kernel, "warps", message));
            }
            None => vec![whole],
        },
        Products::MmaSync => by_warps(k, mapping, groups)?,
        Products::Fit if !tall || odd.is_some() => by_warps(k, mapping, groups)?,
        Products::Fit if names_warpgroups(mapping) => vec![whole],
        Products::Fit => {
            let others = by_warps(k, mapping, groups).unwrap_or_default();
            std::iter::once(whole).chain(others).collect()
        }
    };
    variants.into_iter().map(|f| spread_over_blocks(f, mapping, all.is_empty())).collect()
}

/// Whether warpgroups execute the products in the first variant, as far as shapes and mapping tell before variants are made. Where
/// the mapping leaves the choice, variants by warps get the same tiles, which suit them less.
pub(super) fn by_warpgroups(k: &Kernel, mapping: &Mapping) -> bool {
    let first = do_mma_variant(k, mapping).ok().and_then(|all| all.first().copied());
    matches!(first, Some(MmaVariant::Team(Team::Warpgroups(_))))
}

/// A variant whose tiles span the warps of several blocks; `plain`: the kernel has no MMAs.
fn spread_over_blocks(variant: MmaVariant, mapping: &Mapping, plain: bool) -> Result<MmaVariant> {
    match (mapping.whole.blocks, variant) {
        (1, _) => Ok(variant),
        (blocks, MmaVariant::Team(Team::Warps(each))) if plain => {
            Ok(MmaVariant::Team(Team::Warps(each * blocks)))
        }
        (blocks, _) => {
            let message = format!("`blocks {blocks}`: products of tiles that several blocks hold together");
            Err(IselError::said(mapping, Item::Kernel, "blocks", message))
        }
    }
}

/// Whether a mapping names warpgroups: how many compute, their groups in flight, their order.
fn names_warpgroups(mapping: &Mapping) -> bool {
    mapping.loops.iter().any(|(_, l)| l.consumers.is_some() || l.wait.is_some() || l.mma_order.is_some())
}

/// Warpgroups that the mapping's loops ask for. The verifier has checked that all agree.
pub(super) fn consumers(mapping: &Mapping) -> Option<u32> {
    mapping.loops.iter().find_map(|(_, l)| l.consumers)
}

fn products(k: &Kernel) -> Vec<Inst> {
    k.insts.iter().filter(|(_, d)| matches!(d.op, Op::Mma { .. })).map(|(i, _)| i).collect()
}

/// Rows and columns of an MMA.
fn shape(k: &Kernel, mma: Inst) -> [u32; 2] {
    let sum = extents(k, k.args(mma)[0]);
    [0, 1].map(|n| sum.get(n).copied().unwrap_or(0))
}

/// Variants by `mma.sync`, with the warps that the mapping asks for or that suit the size of the tile.
fn by_warps(k: &Kernel, mapping: &Mapping, groups: Option<u32>) -> Result<Vec<MmaVariant>> {
    if let Some(warps) = mapping.whole.warps.or(groups.map(|g| g * WARPGROUP)) {
        return shares(k, warps);
    }
    let large =
        products(k).iter().any(|&i| shape(k, i).iter().fold(1, |a: u32, &e| a.saturating_mul(e)) >= LARGE);
    let fits = [8, 4, 2, 1].into_iter().skip(usize::from(!large)).find_map(|w| shares(k, w).ok());
    fits.map_or_else(|| shares(k, 1), Ok)
}

/// The ways in which `warps` warps can share all MMAs of a kernel: the one that reads the least from shared memory
/// first, spread rows before contiguous ones.
///
/// # Errors
/// There is none.
fn shares(k: &Kernel, warps: u32) -> Result<Vec<MmaVariant>> {
    let all = products(k);
    let Some(&first) = all.first() else { return Err(IselError::whole("a kernel without products")) };
    if !warps.is_power_of_two() || warps > 32 {
        let message = format!("products by mma.sync on {warps} warps: 1, 2, 4, 8, 16 or 32 can share a tile");
        return Err(IselError::at(k, first, message));
    }
    // A warp keeps its computed part of A to itself, so it needs all columns.
    let computed = all.iter().any(|&i| loaded_whole(k, k.args(i)[1]).is_none());
    let [rows_of_atom, columns_of_atom, _] = WARP_ATOM;
    let divides = |&[rows, columns]: &[u32; 2]| {
        all.iter().all(|&i| {
            let [m, n] = shape(k, i);
            m.is_multiple_of(rows_of_atom * rows)
                && n.is_multiple_of(columns_of_atom * columns)
                && columns_fit(k, i, n / columns)
        })
    };
    let read = |[rows, columns]: [u32; 2]| -> u32 {
        all.iter().map(|&i| shape(k, i)).map(|[m, n]| m / rows + n / columns).sum()
    };
    let all_shapes = (0..=warps.trailing_zeros()).map(|bits| [warps >> bits, 1 << bits]);
    let mut fit: Vec<[u32; 2]> = all_shapes.filter(|s| divides(s) && !(computed && s[1] > 1)).collect();
    fit.sort_by_key(|&s| read(s));
    // Contiguous rows need warps that have all columns: a chunk of columns then involves every warp. A single atom
    // has no order.
    let several = |rows: u32| all.iter().any(|&i| shape(k, i)[0] > rows_of_atom * rows);
    let both = |[rows, columns]: [u32; 2]| {
        let contiguous = columns == 1 && several(rows);
        let variant = move |contiguous| MmaVariant::Shared(WarpGrid { rows, columns, contiguous });
        std::iter::once(variant(false)).chain(contiguous.then(|| variant(true)))
    };
    if !fit.is_empty() {
        return Ok(fit.into_iter().flat_map(both).collect());
    }
    let [m, n] = shape(k, first);
    let one = if computed { ", all columns for each since they compute A" } else { "" };
    let message = format!(
        "a product of {m} x {n} on {}: each warp takes a multiple of {rows_of_atom} rows and {columns_of_atom} columns (where B is contiguous along them, a power of two or whole swizzle spans){one}",
        plural(warps, "warp")
    );
    Err(IselError::at(k, first, message))
}

/// Whether `ldmatrix` can read a warp's columns of B. If B is contiguous along its columns, those of a warp must not
/// straddle slabs of the swizzle.
fn columns_fit(k: &Kernel, mma: Inst, columns: u32) -> bool {
    let operand = k.args(mma)[2];
    let slab = |inner: u32, elem: Elem| {
        swizzle_span(inner.saturating_mul(elem.bits()) / 8).map(|s| s * 8 / elem.bits())
    };
    let slab = slab(shape(k, mma)[1], k.ty(operand).elem()).unwrap_or(1);
    !is_across(k, operand, false) || columns.is_power_of_two() || columns.is_multiple_of(slab)
}

/// Whether a right operand may be contiguous along its columns in shared memory: loaded, computed, or a slice of
/// these.
fn is_across(k: &Kernel, v: Value, flipped: bool) -> bool {
    let Some(def) = k.def(v) else { return true };
    match &k.insts[def].op {
        Op::Trans(perm) => is_across(k, k.args(def)[0], flipped != (perm[..] == [1, 0])),
        Op::Slice(_) => is_across(k, k.args(def)[0], flipped),
        _ => inner_dim(k, def) == usize::from(!flipped),
    }
}
