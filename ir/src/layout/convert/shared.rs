//! A pass through shared memory.

use crate::layout::swizzle::{Cost, Method, common_vector, cost, optimal_swizzle};
use crate::layout::{Axis, Builder, Layout, LayoutError};

/// A pass through shared memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SharedPass {
    /// `(dims) -> m`.
    pub memory: Layout,
    /// The write by a warp.
    pub write: Cost,
    /// The read by a warp.
    pub read: Cost,
}

impl SharedPass {
    /// Wavefronts, then instructions of both sides: what is minimized.
    pub fn cost(&self) -> (u64, u64) {
        let (w, r) = (self.write, self.read);
        (w.wavefronts + r.wavefronts, w.instructions + r.instructions)
    }
}

/// Plans a pass through shared memory: the best swizzle over vector and matrix accesses, or rows padded by 16 bytes where the layouts are not
/// linear.
pub fn through_shared(from: &Layout, to: &Layout, elem_bits: u64) -> Result<SharedPass, LayoutError> {
    let (v, m) = (Method::Vector, Method::Matrix);
    let mut order = [(v, m), (m, v), (v, v), (m, m)];
    if common_vector(from, to, elem_bits) * elem_bits >= 128 {
        order.swap(0, 2);
    }
    let least = least_cost(from, elem_bits, least_cost(to, elem_bits, (0, 0)));
    let mut best: Option<SharedPass> = None;
    for (write, read) in order {
        let Ok(memory) = optimal_swizzle((from, write), (to, read), elem_bits) else {
            continue;
        };
        let pass = pass_through(memory, from, to, elem_bits)?;
        if best.as_ref().is_none_or(|b| pass.cost() < b.cost()) {
            best = Some(pass);
        }
        if best.as_ref().is_some_and(|b| b.cost() <= least) {
            break;
        }
    }
    match best {
        Some(pass) => Ok(pass),
        None => padded(from, to, elem_bits),
    }
}

/// Wavefronts of 128 bytes and instructions of 16 bytes a lane that a warp needs at least, added to `more`.
fn least_cost(fragment: &Layout, elem_bits: u64, more: (u64, u64)) -> (u64, u64) {
    let bits = fragment.in_extent(Axis::Reg).saturating_mul(elem_bits);
    (more.0 + bits / 32, more.1 + bits / 128)
}

/// Row-major memory, each row 16 bytes longer.
fn padded(from: &Layout, to: &Layout, elem_bits: u64) -> Result<SharedPass, LayoutError> {
    rows(from, to, elem_bits, (128 / elem_bits.max(1)).max(1))
}

/// Plans a pass through rows one behind the other, with the conflicts that they bring.
pub fn through_rows(from: &Layout, to: &Layout, elem_bits: u64) -> Result<SharedPass, LayoutError> {
    rows(from, to, elem_bits, 0)
}

/// Row-major memory, each row so many elements longer.
fn rows(from: &Layout, to: &Layout, elem_bits: u64, pad: u64) -> Result<SharedPass, LayoutError> {
    let dims = from.outs();
    let last = dims.last().map_or(1, |d| d.1);
    let pitch = last + pad;
    let rows: u64 = dims[..dims.len().saturating_sub(1)].iter().map(|d| d.1).product();
    let mut memory = Builder::new(&[(Axis::Mem, pitch.saturating_mul(rows))]);
    let mut stride = pitch.saturating_mul(rows);
    for (k, &(axis, extent)) in dims.iter().enumerate() {
        stride = if k + 1 == dims.len() { 1 } else { stride / extent };
        memory = memory.add(axis, extent, &[stride]);
    }
    pass_through(memory.build()?, from, to, elem_bits)
}

/// The pass through a given memory layout `(dims) -> m`.
pub fn pass_through(
    memory: Layout,
    from: &Layout,
    to: &Layout,
    elem_bits: u64,
) -> Result<SharedPass, LayoutError> {
    let write = cost(&from.then(&memory)?, elem_bits)?;
    let read = cost(&to.then(&memory)?, elem_bits)?;
    Ok(SharedPass { memory, write, read })
}
