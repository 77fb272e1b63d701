//! Gathers by warp shuffles (Linear Layouts, section 5.5).

use super::{Axis, Layout, LayoutError};

/// A gather along one dimension by shuffles.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Gather {
    /// The dimension.
    pub dim: u8,
    /// Index along the dimension to what it changes in `(reg, lane)`: the source of an element is its own register and lane with the digits of the
    /// dimension replaced by those of the index.
    pub source: Layout,
    /// Registers that lie along the dimension, as weights: a round for each of their combinations.
    pub registers: Vec<u64>,
    /// Lane bits that lie along the dimension, as a mask.
    pub lanes: u64,
}

impl Gather {
    /// Shuffles for each gathered register: `2^|registers along the dimension|` (Linear Layouts, section 5.5).
    pub fn rounds(&self) -> u64 {
        1 << self.registers.len()
    }

    /// Register and lane that hold the element at index `index` along the dimension, for a target in `(reg, lane)`.
    pub fn source(&self, reg: u64, lane: u64, index: u64) -> (u64, u64) {
        let at = self.source.apply(&[index]);
        let along: u64 = self.registers.iter().sum();
        ((reg & !along) | at[0], (lane & !self.lanes) | at[1])
    }
}

/// Plans a gather along `dim` of a tile with layout `layout` (Linear Layouts, section 5.5): possible by shuffles when no warp and nothing above
/// moves along the dimension. The layout must be linear, with columns that move one dimension each.
pub fn gather(layout: &Layout, dim: u8) -> Result<Gather, LayoutError> {
    layout.require_linear()?;
    let axis = Axis::Dim(dim);
    let out = layout.outs().iter().position(|a| a.0 == axis).ok_or(LayoutError::MissingAxis(axis))?;
    let mut parts = [Vec::new(), Vec::new()];
    for &(input, _) in layout.ins() {
        for b in layout.basis(input).into_iter().filter(|b| b.out[out] != 0) {
            let alone = b.out.iter().filter(|&&o| o != 0).count() == 1;
            match input {
                Axis::Reg if alone => parts[0].push(b.weight),
                Axis::Lane if alone => parts[1].push(b.weight),
                _ => return Err(LayoutError::Gather { axis: input, dim }),
            }
        }
    }
    let [registers, lanes] = parts;
    let inverse = layout.right_inverse()?.with_outs(&[Axis::Reg, Axis::Lane])?;
    let index = inverse.with_in_only(axis)?;
    Ok(Gather { dim, source: index, registers, lanes: lanes.iter().sum() })
}
