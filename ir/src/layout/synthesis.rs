//! Shared memory layouts from alignment (Hexcute, section 5.2 and appendix C).
//!
//! Every copy demands that the first `elements` values of a thread are neighbours in memory:
//! `m ∘ f = ((..), (elements, ..)) : ((..), (1, ..))`. With `f⁻¹` that fixes some strides of `m`; the others stay free.
//! All copies of a buffer must agree. Then the free strides are filled, and [`swizzle`](super::swizzle) removes conflicts.

use super::canonical::Run;
use super::{Axis, Builder, Layout, LayoutError};
use std::fmt;

/// A copy: a fragment `(reg, lane, ..)` to dimensions whose vectors of `elements` values are to be contiguous.
#[derive(Clone, Copy, Debug)]
pub struct Demand<'a> {
    /// Layout of the registers.
    pub fragment: &'a Layout,
    /// Elements of a vector.
    pub elements: u64,
}

/// A digit of a dimension and its stride in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stride {
    /// Dimension.
    pub axis: Axis,
    /// Step of the digit on the dimension.
    pub weight: u64,
    /// Values of the digit.
    pub extent: u64,
    /// Stride in elements; none where it is free.
    pub stride: Option<u64>,
}

impl fmt::Display for Stride {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stride = self.stride.map_or("?".into(), |s| s.to_string());
        write!(f, "{} {}:{stride}", self.axis, self.extent)
    }
}

/// Digits that are contiguous, the fastest first: (dimension, step, values).
type Chain = Vec<(usize, u64, u64)>;

/// The strides that the demands fix and leave free, dimension by dimension, the fastest digit first. Refuses demands that want different
/// elements next to each other.
pub fn free_strides(demands: &[Demand<'_>]) -> Result<Vec<Stride>, LayoutError> {
    let Some(first) = demands.first() else {
        return Ok(Vec::new());
    };
    let mut longest = Chain::new();
    for demand in demands {
        let outs = first.fragment.outs();
        let mine = chain(&demand.fragment.reordered(demand.fragment.ins(), outs)?, demand.elements)?;
        let (short, long) = if mine.len() > longest.len() { (&longest, &mine) } else { (&mine, &longest) };
        let agrees = short.iter().zip(long).all(|(a, b)| a.0 == b.0 && a.1 == b.1 && b.2 % a.2 == 0);
        if !agrees {
            let dim = mine.first().map_or(0, |m| m.0);
            return Err(LayoutError::NotATile(outs[dim].0));
        }
        longest = if size(&mine) > size(&longest) { mine } else { longest };
    }
    Ok(with_free(first.fragment, &longest))
}

/// Elements of a chain.
fn size(chain: &Chain) -> u64 {
    chain.iter().map(|c| c.2).product()
}

/// The digits of the tile that the first `elements` registers run through.
fn chain(fragment: &Layout, elements: u64) -> Result<Chain, LayoutError> {
    let reg = fragment.ins().iter().position(|a| a.0 == Axis::Reg);
    let runs = fragment.open().into_iter().filter(|r| Some(r.axis as usize) == reg);
    let (mut chain, mut left) = (Chain::new(), elements);
    for run in runs {
        if left <= 1 {
            break;
        }
        let extent = super::algebra::gcd(run.extent, left);
        chain.push(link(&run, extent).ok_or(LayoutError::NotDivisible {
            axis: Axis::Reg,
            extent: left,
            by: run.extent,
        })?);
        left /= extent;
    }
    match left {
        0 | 1 => Ok(chain),
        by => Err(LayoutError::NotDivisible { axis: Axis::Reg, extent: elements, by }),
    }
}

/// A digit that moves one dimension.
fn link(run: &Run, extent: u64) -> Option<(usize, u64, u64)> {
    let moves: Vec<usize> = (0..run.add.len()).filter(|&d| run.add[d] != 0).collect();
    match (run.swizzles(), &moves[..]) {
        (false, [dim]) if extent > 1 => Some((*dim, run.add[*dim], extent)),
        _ => None,
    }
}

/// The chain's strides, and free digits between them.
fn with_free(fragment: &Layout, chain: &Chain) -> Vec<Stride> {
    let mut strides = Vec::new();
    for (dim, &(axis, total)) in fragment.outs().iter().enumerate() {
        let mut fixed: Vec<(u64, u64, u64)> = Vec::new();
        let mut stride = 1;
        for &(d, weight, extent) in chain {
            if d == dim {
                fixed.push((weight, extent, stride));
            }
            stride *= extent;
        }
        fixed.sort_unstable();
        let mut weight = 1;
        for (at, extent, stride) in fixed {
            if at > weight {
                strides.push(Stride { axis, weight, extent: at / weight, stride: None });
            }
            strides.push(Stride { axis, weight: at, extent, stride: Some(stride) });
            weight = at * extent;
        }
        if total > weight {
            strides.push(Stride { axis, weight, extent: total / weight, stride: None });
        }
    }
    strides
}

/// The memory layout with the free strides filled in: the last dimension first, compact.
pub fn synthesize(demands: &[Demand<'_>]) -> Result<Layout, LayoutError> {
    let mut strides = free_strides(demands)?;
    let fixed = strides.iter().filter(|s| s.stride.is_some()).map(|s| s.extent);
    let mut next: u64 = fixed.product();
    let dims: Vec<Axis> =
        demands.first().map_or(Vec::new(), |d| d.fragment.outs().iter().map(|o| o.0).collect());
    for axis in dims.iter().rev() {
        for stride in strides.iter_mut().filter(|s| s.axis == *axis && s.stride.is_none()) {
            stride.stride = Some(next);
            next = super::canonical::times(next, stride.extent, "stride", *axis)?;
        }
    }
    let mut memory = Builder::new(&[(Axis::Mem, next)]);
    for axis in dims {
        memory = memory.axis(axis);
        for s in strides.iter().filter(|s| s.axis == axis) {
            memory = memory.add(axis, s.extent, &[s.stride.unwrap_or(0)]);
        }
    }
    memory.build()
}
