//! Warp-level MMAs: `mma.sync` on fragments that `ldmatrix` reads from shared memory.
//!
//! ```text
//!  warps 2 x 4 over a tile           a warp's rows: atoms of 16, spread by 16 * rows of warps, or contiguous
//!   w0 w1 w2 w3                      (spread: a chunk of 16 * rows rows involves every warp)
//!   w4 w5 w6 w7                      its columns: contiguous
//!   w0 w1 w2 w3
//!   w4 w5 w6 w7
//! ```
//!
//! The MMA variant says how warps share the work. The cost of its plan decides whether it is chosen.
//!
//! PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type" and "ldmatrix". The layouts come from
//! `ir::layout::fragment`. The swizzled tiles are those of `wgmma`: eight rows at one 16-byte column lie in eight
//! different bank groups, so `ldmatrix` has no conflict in either storage order.

use super::cost::Model;
use super::tensor::{MAX_STEPS, place};
use super::types::{Plan, WarpProduct};
use crate::operand::{WARP_ATOM, loaded_whole};
use crate::tiles::{extents, layout_error};
use crate::{IselError, Result};
use warplift_ir::layout::fragment;
use warplift_ir::plural;
use warplift_ir::target::{Opcode, Target};
use warplift_ir::tile::{Inst, Kernel, Op, Team, Value};
use warplift_ir::types::Elem;

/// Rows, columns and depth of a product.
fn shape(k: &Kernel, mma: Inst) -> [u32; 3] {
    let (sum, left) = (extents(k, k.args(mma)[0]), extents(k, k.args(mma)[1]));
    let at = |list: &[u32], n: usize| list.get(n).copied().unwrap_or(0);
    [at(&sum, 0), at(&sum, 1), at(&left, 1)]
}

/// Plans one warp-level MMA.
///
/// # Errors
/// `mma.sync` lacks the shape or type, or no version of an operand is in shared memory.
pub(super) fn plan_product(k: &Kernel, inst: Inst, model: &Model<'_>, plan: &mut Plan) -> Result<()> {
    let [acc, a, b] = k.args(inst) else { return Err(IselError::at(k, inst, "mma takes three operands")) };
    let (acc, a, b) = (*acc, *a, *b);
    for op in [Opcode::MmaSync, Opcode::Ldmatrix] {
        model.target.require(op).map_err(|lacks| IselError::lacks(k.insts[inst].loc, lacks))?;
    }
    let [m, n, depth] = shape(k, inst);
    check(k, inst, [m, n, depth], model.target)?;
    let what = "how warps share this product is not said";
    let warp_grid = k.attrs[inst].warp_grid.ok_or_else(|| IselError::at(k, inst, what))?;
    let layout = |n: u32, columns: u32| {
        let shape = [warp_grid.rows.into(), columns.into()];
        fragment::mma_tile_acc(m.into(), n.into(), shape, warp_grid.contiguous).map_err(layout_error(k, inst))
    };
    let whole = layout(n, warp_grid.columns)?;
    plan.layouts[acc].get_or_insert_with(|| whole.clone());
    plan.layouts[k.result(inst)] = Some(whole);
    let left = loaded_whole(k, a);
    match left {
        Some((load, _)) => place(k, load, model, plan)?,
        None => {
            let fragment = layout(depth, 1)?;
            plan.layouts[a].get_or_insert(fragment);
        }
    }
    let right = loaded_whole(k, b).ok_or_else(|| {
        let what = match is_part(k, b) {
            true => "products by `mma.sync` read a right operand whole: leave out `chunk`, or load the part",
            false => {
                "the right operand of mma is not in shared memory: load it, or stage it with `rearrange`"
            }
        };
        IselError::at(k, inst, what)
    })?;
    place(k, right.0, model, plan)?;
    let product = WarpProduct {
        warp_grid,
        a: left,
        b: right,
        m_atoms: m / (WARP_ATOM[0] * warp_grid.rows),
        n_atoms: n / (WARP_ATOM[1] * warp_grid.columns),
        k_steps: depth / WARP_ATOM[2],
    };
    plan.warp_products.insert(inst, product);
    Ok(())
}

fn check(k: &Kernel, inst: Inst, [m, n, depth]: [u32; 3], target: &Target) -> Result<()> {
    let [sum, elem, right] = [0, 1, 2].map(|n| k.ty(k.args(inst)[n]).elem());
    let refuse = |message: String| Err(IselError::at(k, inst, message));
    if !matches!((elem, sum), (Elem::F16 | Elem::Bf16, Elem::F32)) || elem != right {
        return refuse(format!(
            "no product of {elem} and {right} into {sum} by `mma_sync`: f16 and bf16 into f32 have one, both operands of one type"
        ));
    }
    if !depth.is_multiple_of(WARP_ATOM[2]) {
        return refuse(format!(
            "a product of depth {depth}: by `mma_sync` it is a multiple of {}",
            WARP_ATOM[2]
        ));
    }
    if depth > MAX_STEPS * WARP_ATOM[2] {
        let most = MAX_STEPS * WARP_ATOM[2];
        return refuse(format!(
            "a product of depth {depth}: at most {most} at once; add shorter ones in a loop"
        ));
    }
    let Team::Warps(warps) = k.attrs[inst].team else {
        return refuse("mma.sync needs a team of warps".to_owned());
    };
    let (registers, most) = (m.saturating_mul(n) / (32 * warps), target.warp_accumulator);
    if registers > most {
        return refuse(format!(
            "a product of {m} x {n} on {} takes {registers} registers a thread; at most {most} leave room for the \
             rest: take smaller tiles or more `warps`",
            plural(warps, "warp")
        ));
    }
    Ok(())
}

/// Whether a tile is a part of another one, transposed or not.
fn is_part(k: &Kernel, v: Value) -> bool {
    k.def(v).is_some_and(|def| match k.insts[def].op {
        Op::Slice(_) => true,
        Op::Trans(_) => is_part(k, k.args(def)[0]),
        _ => false,
    })
}
