//! Why tensor copies cannot make an access: the facts about its view, the place at which it begins, and who copies.
//!
//! ```text
//!  load a[i, k] : f16[64, 64]      a: align 16, rows of k % 8 elements, k a multiple of 8     ─►  a tensor copy
//!  load a[i, k + 1] : ..           "its first column is not known to be a multiple of 8"      ─►  threads
//! ```

use crate::facts::{is_multiple, is_never_negative};
use crate::feature::Ways;
use crate::tiles::{acquired, extents, indices_along, unit_dim};
use crate::window::Window;
use warplift_ir::tile::{Inst, Kernel, Op, Value};

/// The least bits of a row of a tensor copy's box.
pub(crate) const COPY_BITS: u32 = 128;

/// Why tensor copies cannot make a load of an operand; `None` if they can.
pub(crate) fn load_refused(k: &Kernel, load: Inst, ways: Ways) -> Option<String> {
    let view = k.args(load)[0];
    own_copies(k, load)
        .or_else(|| acquired(k, view))
        .or_else(|| tensor_refused(k, view, ways))
        .or_else(|| start_refused(k, load))
}

/// Why the computing threads make the copies: the loop around the load has no producer.
fn own_copies(k: &Kernel, load: Inst) -> Option<String> {
    let holds = |i: Inst| k.insts[i].blocks.iter().any(|&b| k.blocks[b].insts.contains(&load));
    let around = k.insts.keys().find(|&i| matches!(k.insts[i].op, Op::For) && holds(i))?;
    let none = k.attrs[around].looped.is_some_and(|l| l.producers == Some(0));
    none.then(|| "the mapping has no producers".to_owned())
}

/// Why tensor copies cannot reach a view; `None` if the facts allow them.
pub(crate) fn tensor_refused(k: &Kernel, view: Value, ways: Ways) -> Option<String> {
    match Window::of(k, view) {
        Some(window) if window.kept.len() > 2 => window.boxes_refused(k),
        Some(window) => window.tensor_refused(k, ways),
        None => Some("not a view".to_owned()),
    }
}

/// Why a tensor copy cannot begin at the start of a load or store. A box whose rows do not begin at a multiple of 16
/// bytes ends the kernel with an illegal instruction (measured).
pub(crate) fn start_refused(k: &Kernel, access: Inst) -> Option<String> {
    let view = *k.args(access).first()?;
    let unit = unit_dim(k, view)?;
    let bits = i64::from(k.ty(view).elem().bits());
    let elements = (128 / bits).max(1);
    let aligned = indices_along(k, access, unit).iter().all(|&v| is_multiple(k, v, elements));
    ragged_start_refused(k, access).map(str::to_owned).or_else(|| {
        (!aligned).then(|| format!("its first column is not known to be a multiple of {elements} elements"))
    })
}

/// The elements of 16 bytes, if each row of a loaded tile of two dimensions is fewer elements and lies in 16 bytes that begin at a
/// multiple of 16. A tensor copy can bring all of these.
pub(crate) fn row_around(k: &Kernel, load: Inst) -> Option<u32> {
    let view = *k.args(load).first()?;
    let (unit, bits) = (unit_dim(k, view)?, k.ty(view).elem().bits());
    let &[rows, columns] = &extents(k, k.result(load))[..] else { return None };
    let own = [rows, columns][unit];
    let all = (COPY_BITS / bits).max(1);
    let divides = bits.is_power_of_two() && own > 0 && own < all && all.is_multiple_of(own);
    let within = divides && indices_along(k, load, unit).iter().all(|&v| is_multiple(k, v, own.into()));
    (within && ragged_start_refused(k, load).is_none()).then_some(all)
}

/// Rows of a view whose extent comes from memory are counted from its end: no tensor map knows where it begins.
fn ragged_start_refused(k: &Kernel, access: Inst) -> Option<&'static str> {
    let args = k.args(access);
    let window = Window::of(k, *args.first()?)?;
    let ragged = window.ragged(k)?;
    let at = window.kept.iter().position(|&d| d == ragged)?;
    indices_along(k, access, at).iter().any(|&v| !is_never_negative(k, v)).then_some(
        "its number of rows comes from memory, and it may begin at a negative one: `max(row, 0)` mends that",
    )
}
