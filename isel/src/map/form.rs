//! Forms of a kernel: who makes its products, and how they share them. Which one a kernel takes changes its text (the
//! chunks of its results), so that each form is mapped and planned on its own.
//!
//! ```text
//!  wgmma            warpgroups, one below the other
//!  mma.sync 8 x 1   warps: rows and columns of them ─┬─ atoms of 16 rows apart   chunks of rows for all warps
//!           4 x 2                                    └─ rows together            chunks of columns for all warps
//!           ..
//! ```
//!
//! Only what divides is a form; what is worth it says the plan.

use crate::operand::{WARP_ATOM, loaded_whole, swizzle_span};
use crate::tiles::{extents, unit_dim};
use crate::{IselError, Result};
use std::fmt;
use warplift_ir::tile::{Inst, Kernel, Mapping, Op, Products, Team, WarpShare};
use warplift_ir::types::Elem;

/// Rows of a `wgmma`; what no multiple of them covers becomes `mma.sync`.
const WGMMA_M: u32 = 64;
/// Elements of a tile from which eight warps are worth their registers.
const LARGE: u32 = 128 * 128;

/// Who executes a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// Warpgroups, whose products are `wgmma`, or warps of a kernel without products.
    Team(Team),
    /// Warps that share products by `mma.sync`.
    Shared(WarpShare),
}

impl Form {
    /// Who executes the kernel.
    pub fn team(self) -> Team {
        match self {
            Self::Team(team) => team,
            Self::Shared(share) => Team::Warps(share.warps()),
        }
    }

    /// How warps share products, if they do.
    pub fn share(self) -> Option<WarpShare> {
        match self {
            Self::Team(_) => None,
            Self::Shared(share) => Some(share),
        }
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Team(Team::Warpgroups(n)) => write!(f, "wgmma by {n} warpgroups"),
            Self::Team(team) => write!(f, "{} warps", team.warps()),
            Self::Shared(WarpShare { rows, columns, together }) => {
                let apart = if together { "rows together" } else { "rows apart" };
                write!(f, "mma.sync by {rows} x {columns} warps, {apart}")
            }
        }
    }
}

/// All forms that a kernel may take under a mapping, the rule's first: `wgmma` where its shapes fit, else the warps that
/// read the least from shared memory.
///
/// # Errors
/// Loops that ask for different numbers of warpgroups, warps that cannot share the products.
pub(super) fn forms(k: &Kernel, mapping: &Mapping) -> Result<Vec<Form>> {
    let groups = consumers(mapping)?;
    let all = products(k);
    let tall = all.iter().all(|&i| shape(k, i)[0].is_multiple_of(WGMMA_M));
    let whole = Form::Team(match (all.is_empty(), groups, mapping.whole.warps) {
        (false, groups, _) => Team::Warpgroups(groups.unwrap_or(1)),
        (true, _, Some(warps)) => Team::Warps(warps),
        (true, groups, None) => Team::Warps(groups.unwrap_or(1).saturating_mul(4)),
    });
    let forms = match mapping.whole.products {
        _ if all.is_empty() => vec![whole],
        Products::Wgmma => vec![whole],
        Products::MmaSync => by_warps(k, mapping, groups)?,
        Products::Fit if !tall => by_warps(k, mapping, groups)?,
        Products::Fit if names_warpgroups(mapping) => vec![whole],
        Products::Fit => {
            let others = by_warps(k, mapping, groups).unwrap_or_default();
            std::iter::once(whole).chain(others).collect()
        }
    };
    match forms.iter().map(|f| f.team().warps()).find(|w| !(1..=32).contains(w)) {
        Some(warps) => {
            Err(IselError::whole(format!("a block has 1 to 32 warps, the mapping asks for {warps}")))
        }
        None => {
            forms.into_iter().map(|f| held_together(f, mapping.whole.blocks.max(1), all.is_empty())).collect()
        }
    }
}

/// A form whose tiles the warps of several blocks hold together; `plain` without products.
fn held_together(form: Form, blocks: u32, plain: bool) -> Result<Form> {
    match (blocks, form) {
        (1, _) => Ok(form),
        (2 | 4 | 8, Form::Team(Team::Warps(each))) if plain => Ok(Form::Team(Team::Warps(each * blocks))),
        (2 | 4 | 8, _) => {
            Err(IselError::whole("products of tiles that several blocks hold together".to_owned()))
        }
        _ => Err(IselError::whole(format!("{blocks} blocks for a tile: 1, 2, 4 or 8 hold one together"))),
    }
}

/// Whether a mapping speaks of warpgroups: how many compute, their groups in flight, their turns.
fn names_warpgroups(mapping: &Mapping) -> bool {
    mapping.loops.iter().any(|(_, l)| l.consumers.is_some() || l.wait.is_some() || l.turns.is_some())
}

/// Warpgroups that the mapping's loops ask for; all must agree.
pub(super) fn consumers(mapping: &Mapping) -> Result<Option<u32>> {
    let mut all = mapping.loops.iter().filter_map(|(_, l)| l.consumers);
    let first = all.next();
    match (first, all.find(|&c| Some(c) != first)) {
        (Some(a), Some(b)) => Err(IselError::whole(format!(
            "loops ask for {a} and {b} consumer warpgroups; a block has one number"
        ))),
        _ => Ok(first),
    }
}

fn products(k: &Kernel) -> Vec<Inst> {
    k.insts.iter().filter(|(_, d)| matches!(d.op, Op::Mma)).map(|(i, _)| i).collect()
}

/// Rows and columns of a product.
fn shape(k: &Kernel, mma: Inst) -> [u32; 2] {
    let sum = extents(k, k.args(mma)[0]);
    [0, 1].map(|n| sum.get(n).copied().unwrap_or(0))
}

/// Forms by `mma.sync`, of as many warps as the mapping asks for or the tile is worth.
fn by_warps(k: &Kernel, mapping: &Mapping, groups: Option<u32>) -> Result<Vec<Form>> {
    if let Some(warps) = mapping.whole.warps.or(groups.map(|g| g.saturating_mul(4))) {
        return shares(k, warps);
    }
    let large =
        products(k).iter().any(|&i| shape(k, i).iter().fold(1, |a: u32, &e| a.saturating_mul(e)) >= LARGE);
    let fits = [8, 4, 2, 1].into_iter().skip(usize::from(!large)).find_map(|w| shares(k, w).ok());
    fits.map_or_else(|| shares(k, 1), Ok)
}

/// Ways in which so many warps share all products of a kernel: what reads the least from shared memory first, a warp's
/// rows apart before together.
///
/// # Errors
/// If there is none.
fn shares(k: &Kernel, warps: u32) -> Result<Vec<Form>> {
    let all = products(k);
    let Some(&first) = all.first() else { return Err(IselError::whole("a kernel without products")) };
    if !warps.is_power_of_two() || warps > 32 {
        let message = format!("products by mma.sync on {warps} warps: 1, 2, 4, 8, 16 or 32 can share a tile");
        return Err(IselError::at(k, first, message));
    }
    // What a warp computes of A stays its own: then it has all columns.
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
    // Parts of columns belong to all warps alike where each has all columns; a single atom has no order.
    let several = |rows: u32| all.iter().any(|&i| shape(k, i)[0] > rows_of_atom * rows);
    let both = |[rows, columns]: [u32; 2]| {
        let together = columns == 1 && several(rows);
        let form = move |together| Form::Shared(WarpShare { rows, columns, together });
        std::iter::once(form(false)).chain(together.then(|| form(true)))
    };
    if !fit.is_empty() {
        return Ok(fit.into_iter().flat_map(both).collect());
    }
    let [m, n] = shape(k, first);
    let one = if computed { ", all columns for each since they compute A" } else { "" };
    let message = format!(
        "{warps} warps cannot share a product of {m} x {n}: each takes a multiple of {rows_of_atom} rows and {columns_of_atom} columns (where B is contiguous along them, a power of two or whole swizzle spans){one}"
    );
    Err(IselError::at(k, first, message))
}

/// Whether so many columns of a warp lie in B as `ldmatrix` can read them: where B is contiguous along
/// its columns, those of a warp must not straddle slabs of the swizzle.
fn columns_fit(k: &Kernel, mma: Inst, columns: u32) -> bool {
    let Some((load, flipped)) = loaded_whole(k, k.args(mma)[2]) else { return true };
    let across = unit_dim(k, k.args(load)[0]).unwrap_or(1) == usize::from(!flipped);
    let slab = |inner: u32, elem: Elem| {
        swizzle_span(inner.saturating_mul(elem.bits()) / 8).map(|s| s * 8 / elem.bits())
    };
    let slab = slab(shape(k, mma)[1], k.ty(k.result(load)).elem()).unwrap_or(1);
    !across || columns.is_power_of_two() || columns.is_multiple_of(slab)
}
