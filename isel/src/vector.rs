//! Vector width: how many elements one access of a load or store may move.
//!
//! ```text
//!  f16, pointer align 16, stride % 8, index % 4   ─►  4 elements: the facts say no more of the index
//! ```

use crate::facts::{divisor, gcd};
use crate::tiles::extents;
use crate::window::Window;
use warplift_ir::tile::{Inst, Kernel, Value};

/// Bits that one access moves at most.
const ACCESS_BITS: i64 = 128;

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
    // An address is always a multiple of one element.
    let mut d = gcd(most, (divisor(k, window.pointer(k)).saturating_mul(8) / bits).max(1));
    d = gcd(d, divisor(k, args[1 + dim]));
    d = gcd(d, divisor(k, window.extent(k, whole)));
    let others = window.kept.iter().chain(window.fixed.iter().map(|f| &f.0)).filter(|&&o| o != whole);
    d = others.fold(d, |d, &o| gcd(d, window.stride_divisor(k, o)));
    let extent = extents(k, tile).get(dim).copied().unwrap_or(1);
    let d = gcd(d, i64::from(extent)).max(1);
    1 << d.trailing_zeros()
}
