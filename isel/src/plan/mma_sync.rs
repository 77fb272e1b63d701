//! Products of warps: `mma.sync` on fragments that `ldmatrix` brings from shared memory.
//!
//! ```text
//!  warps 2 x 4 over a tile           a warp's rows: atoms of 16, 16 * rows of warps apart
//!   w0 w1 w2 w3                      (a part of 16 * rows rows belongs to all warps alike)
//!   w4 w5 w6 w7                      its columns: together
//!   w0 w1 w2 w3
//!   w4 w5 w6 w7
//! ```
//!
//! PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type" and "ldmatrix". The layouts are
//! those of `ir::layout::fragment`, the swizzled tiles those of `wgmma`: eight rows at one 16-byte column
//! lie in eight different bank groups, so that `ldmatrix` meets no conflict in either storage order.

use super::cost::Model;
use super::tensor::{loaded_whole, place, swizzle_span, unit_dim};
use super::{Plan, extents, layout_error};
use crate::{IselError, Result};
use warplift_ir::layout::fragment;
use warplift_ir::tile::{Inst, Kernel, Mapping, Op, Products, Team};
use warplift_ir::types::Elem;

/// Rows of one instruction, and of a warp's atom.
pub(crate) const ATOM_M: u32 = 16;
/// Columns of one instruction.
pub(crate) const ATOM_N: u32 = 8;
/// Depth of one instruction on 16-bit elements.
pub(crate) const ATOM_K: u32 = 16;
/// Rows of a `wgmma`; what no multiple of them covers becomes `mma.sync`.
const WGMMA_M: u32 = 64;
/// Elements of a tile from which eight warps are worth their registers.
const LARGE: u32 = 128 * 128;
/// Accumulator registers of a thread that leave room for two steps of fragments and their addresses.
const ACCUMULATORS: u32 = 160;

/// A product by `mma.sync`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WarpProduct {
    /// Rows and columns of warps.
    pub warps: [u32; 2],
    /// Load of A, and whether the product sees it transposed; `None`: A is in registers.
    pub a: Option<(Inst, bool)>,
    /// Load of B, likewise.
    pub b: (Inst, bool),
    /// Instructions of a warp along M.
    pub m_atoms: u32,
    /// Instructions of a warp along N.
    pub n_atoms: u32,
    /// Instructions along K.
    pub k_steps: u32,
}

impl WarpProduct {
    /// Columns of a warp.
    pub fn columns(&self) -> u32 {
        self.n_atoms * ATOM_N
    }
}

/// Rows, columns and depth of a product.
fn shape(k: &Kernel, mma: Inst) -> [u32; 3] {
    let (sum, left) = (extents(k, k.args(mma)[0]), extents(k, k.args(mma)[1]));
    let at = |list: &[u32], n: usize| list.get(n).copied().unwrap_or(0);
    [at(&sum, 0), at(&sum, 1), at(&left, 1)]
}

fn products(k: &Kernel) -> Vec<Inst> {
    k.insts.iter().filter(|(_, d)| matches!(d.op, Op::Mma)).map(|(i, _)| i).collect()
}

/// The warps of a kernel's products under its mapping, `None` if they become `wgmma`. `groups`: warpgroups
/// that the mapping asks for.
///
/// # Errors
/// A number of warps that cannot share the tiles.
pub(crate) fn warps_of_products(k: &Kernel, mapping: &Mapping, groups: Option<u32>) -> Result<Option<u32>> {
    let all = products(k);
    let narrow = all.iter().any(|&i| !shape(k, i)[0].is_multiple_of(WGMMA_M));
    let wanted = match mapping.whole.products {
        Products::MmaSync => true,
        Products::Wgmma => false,
        Products::Fit => narrow,
    };
    if all.is_empty() || !wanted {
        return Ok(None);
    }
    if let Some(warps) = mapping.whole.warps.or(groups.map(|g| g.saturating_mul(4))) {
        return arrangement(k, warps).map(|_| Some(warps));
    }
    let large = all.iter().any(|&i| shape(k, i)[0].saturating_mul(shape(k, i)[1]) >= LARGE);
    let fits = [8, 4, 2, 1].into_iter().skip(usize::from(!large)).find(|&w| arrangement(k, w).is_ok());
    Ok(Some(fits.unwrap_or(1)))
}

/// Rows and columns of warps over all products of a kernel: what reads the least from shared memory.
///
/// # Errors
/// If so many warps cannot share some product.
pub(crate) fn arrangement(k: &Kernel, warps: u32) -> Result<[u32; 2]> {
    let all = products(k);
    let Some(&first) = all.first() else { return Err(IselError::whole("a kernel without products")) };
    if !warps.is_power_of_two() || warps > 32 {
        let message = format!("products by mma.sync on {warps} warps: 1, 2, 4, 8, 16 or 32 can share a tile");
        return Err(IselError::at(k, first, message));
    }
    // What a warp computes of A stays its own: then it has all columns.
    let computed = all.iter().any(|&i| loaded_whole(k, k.args(i)[1]).is_none());
    let divides = |rows: u32, cols: u32| {
        all.iter().all(|&i| {
            let [m, n, _] = shape(k, i);
            m.is_multiple_of(ATOM_M * rows) && n.is_multiple_of(ATOM_N * cols) && columns_fit(k, i, n / cols)
        })
    };
    let read = |[rows, cols]: [u32; 2]| -> u32 {
        all.iter().map(|&i| shape(k, i)).map(|[m, n, _]| m / rows + n / cols).sum()
    };
    let choices = (0..=warps.trailing_zeros()).map(|bits| [warps >> bits, 1 << bits]);
    let choices = choices.filter(|&[r, c]| divides(r, c) && !(computed && c > 1));
    choices.min_by_key(|&c| read(c)).ok_or_else(|| {
        let [m, n, _] = shape(k, first);
        let one = if computed { ", all columns for each since they compute A" } else { "" };
        let message = format!(
            "{warps} warps cannot share a product of {m} x {n}: each takes a multiple of {ATOM_M} rows and {ATOM_N} columns (where B is contiguous along them, a power of two or whole swizzle spans){one}"
        );
        IselError::at(k, first, message)
    })
}

/// Plans one product of warps.
///
/// # Errors
/// Shapes and types that `mma.sync` lacks, operands that no version yet selected provides.
pub(super) fn plan_product(k: &Kernel, inst: Inst, model: &Model<'_>, plan: &mut Plan) -> Result<()> {
    let [acc, a, b] = k.args(inst) else { return Err(IselError::at(k, inst, "mma takes three operands")) };
    let (acc, a, b) = (*acc, *a, *b);
    let [m, n, depth] = shape(k, inst);
    check(k, inst, [m, n, depth])?;
    let [rows, cols] = arrangement(k, k.attrs[inst].team.warps())?;
    let layout = |m: u32, n: u32, cols: u32| {
        fragment::mma_tile_acc(m.into(), n.into(), [rows.into(), cols.into()]).map_err(layout_error(k, inst))
    };
    let whole = layout(m, n, cols)?;
    plan.layouts[acc].get_or_insert_with(|| whole.clone());
    plan.layouts[k.result(inst)] = Some(whole);
    let left = loaded_whole(k, a);
    match left {
        Some((load, _)) => place(k, load, model, plan)?,
        None => {
            let fragment = layout(m, depth, 1)?;
            plan.layouts[a].get_or_insert(fragment);
        }
    }
    let right = loaded_whole(k, b).ok_or_else(|| {
        let what = "the right operand of mma must be loaded from memory; a computed one is not selected";
        IselError::at(k, inst, what)
    })?;
    place(k, right.0, model, plan)?;
    let product = WarpProduct {
        warps: [rows, cols],
        a: left,
        b: right,
        m_atoms: m / (ATOM_M * rows),
        n_atoms: n / (ATOM_N * cols),
        k_steps: depth / ATOM_K,
    };
    plan.warp_products.insert(inst, product);
    Ok(())
}

fn check(k: &Kernel, inst: Inst, [m, n, depth]: [u32; 3]) -> Result<()> {
    let (sum, elem) = (k.ty(k.args(inst)[0]).elem(), k.ty(k.args(inst)[1]).elem());
    let refuse = |message: String| Err(IselError::at(k, inst, message));
    if !matches!((elem, sum), (Elem::F16 | Elem::Bf16, Elem::F32)) {
        return refuse(format!("mma of {elem} into {sum} is not selected; f16 and bf16 into f32 are"));
    }
    if !depth.is_multiple_of(ATOM_K) {
        return refuse(format!("mma of depth {depth}: a multiple of {ATOM_K} is needed"));
    }
    let Team::Warps(warps) = k.attrs[inst].team else {
        return refuse("mma.sync needs a team of warps".to_owned());
    };
    let registers = m.saturating_mul(n) / (32 * warps);
    if registers > ACCUMULATORS {
        return refuse(format!(
            "accumulator of {m} x {n} on {warps} warps takes {registers} registers a thread; at most {ACCUMULATORS} leave room for the rest"
        ));
    }
    Ok(())
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
