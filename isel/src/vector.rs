//! Vector width: how many elements one access of a load or store may move.
//!
//! ```text
//!  f16, pointer align 16, stride % 8, index % 4   ─►  4 elements: the facts say no more of the index
//! ```

use crate::facts::{divisor, gcd};
use crate::tiles::{accessed, extents};
use crate::window::Window;
use warplift_ir::tile::{Inst, Kernel, Op, Type, Value};

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
    if !is_equal_along(k, inst, dim) {
        return 1;
    }
    let most = 1i64 << (ACCESS_BITS / bits).max(1).ilog2();
    // An address is always a multiple of one element.
    let mut d = gcd(most, (divisor(k, window.pointer(k)).saturating_mul(8) / bits).max(1));
    d = gcd(d, divisor(k, args[1 + dim]));
    d = gcd(d, divisor(k, window.extent(k, whole)));
    let others = window.kept.iter().chain(window.fixed.iter().map(|f| &f.0));
    let others = others.filter(|&&o| o != whole && !window.is_single(k, o));
    d = others.fold(d, |d, &o| gcd(d, window.stride_divisor(k, o)));
    let extent = extents(k, tile).get(dim).copied().unwrap_or(1);
    let d = gcd(d, i64::from(extent)).max(1);
    1 << d.trailing_zeros()
}

/// Whether the tiles of indices and the mask of an access are equal along a dimension, whose own index is a scalar: what
/// lies side by side in memory is accessed together, or not at all.
pub fn is_equal_along(k: &Kernel, inst: Inst, dim: usize) -> bool {
    let op = &k.insts[inst].op;
    let args = k.args(inst);
    let end = op.indices(args.len()).end;
    let mask = args.last().filter(|_| op.is_masked());
    let own = args.get(1 + dim).filter(|_| 1 + dim < end);
    let rank = extents(k, accessed(k, inst)).len();
    let equal = |&v: &Value| is_equal_tile(k, v, (rank - 1).saturating_sub(dim), &mut { EQUAL_FUEL });
    own.is_none_or(|&v| !matches!(k.ty(v), Type::Tile(..))) && args[1..end].iter().chain(mask).all(equal)
}

/// Values among which equal elements are looked for.
const EQUAL_FUEL: u32 = 64;

/// Whether a tile is equal along a dimension, which is counted from the last one; a scalar is.
fn is_equal_tile(k: &Kernel, v: Value, back: usize, fuel: &mut u32) -> bool {
    *fuel = fuel.saturating_sub(1);
    let shape = extents(k, v);
    let Some(dim) = shape.len().checked_sub(1 + back) else { return true };
    let Some(def) = k.def(v).filter(|_| *fuel > 0 && shape[dim] != 1) else { return shape[dim] == 1 };
    let mut all = |back: usize| k.args(def).iter().all(|&a| is_equal_tile(k, a, back, fuel));
    match k.insts[def].op {
        Op::Full => true,
        Op::Iota(d) => usize::from(d) != dim,
        Op::ExpandDims(d) => all(back - usize::from(usize::from(d) > dim)),
        Op::Broadcast => all(back),
        ref op if op.is_elementwise() => all(back),
        _ => false,
    }
}
