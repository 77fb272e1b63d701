//! Tensor copies of a view whose number of rows comes from memory. The launch encodes a tensor map before anybody knows
//! the number, so the map has two dimensions for the rows. Both have the stride of a row, and their sum gives the address.
//!
//! ```text
//!  rows known at launch: 8        map: extents (8, 9), address = array - 8 rows
//!  rows by memory:       5        row 3 of the view is (3 + 8 - 5, 5):  6 + 5 - 8 = 3    inside, since 6 < 8
//!                                 row 5 of the view is (5 + 8 - 5, 5):  8 + 5 - 8 = 5    outside, since 8 >= 8
//! ```
//!
//! So the copy engine itself fills with zeros what a load takes of other rows, and leaves out what a store would write to
//! them. A row below 0 would be inside: the plan asks for a proof that there is none but by overflow, and a minimum of
//! unsigned numbers brings those past the end.
//! (Triton, `triton/tools/ragged_tma.py`, has the same idea with three dimensions and addresses that wrap around.)

use super::Lower;
use crate::facts::{LaunchBound, launch_bound, launch_bounds};
use crate::window::Window;
use crate::{IselError, Result};
use warplift_ir::machine;
use warplift_ir::manifest::{Expr, ExprOp, TensorMap};
use warplift_ir::target::Opcode;
use warplift_ir::tile::Value;

impl Lower<'_, '_> {
    /// The coordinates of a box of a view behind the contiguous one: its first row, then those of the dimensions that the
    /// view fixes.
    pub(super) fn outer_coordinates(
        &mut self,
        view: Value,
        row: machine::Value,
    ) -> Result<(machine::Value, Vec<machine::Value>)> {
        let mut others = self.fixed_indices(view)?;
        let window = Window::of(self.k, view);
        let Some((dim, window)) = window.and_then(|w| Some((w.ragged(self.k)?, w))) else {
            return Ok((row, others));
        };
        let rows = self.view(self.k.result(window.whole))?.extents[dim];
        let most = self.most_rows(window.extent(self.k, dim))?;
        let outside = self.at().int(Opcode::SubS32, most, rows);
        // Numbers from memory may add up to more than an i32 holds. Such a row counts as one past the end.
        let row = self.at().int(Opcode::MinU32, row, most);
        others.push(rows);
        Ok((self.at().add(row, outside), others))
    }

    /// What bounds an extent at launch.
    fn most_rows(&mut self, extent: Value) -> Result<machine::Value> {
        let bounds = launch_bounds(self.k, extent).unwrap_or_default();
        let mut most = None;
        for bound in bounds {
            let bound = match bound {
                LaunchBound::Value(v) => self.scalar(v)?,
                LaunchBound::Number(n) => self.at().imm(n),
            };
            most = Some(match most {
                Some(m) => self.at().int(Opcode::MaxS32, m, bound),
                None => bound,
            });
        }
        most.ok_or_else(|| IselError::at(self.k, self.inst, "nothing bounds an extent from memory"))
    }

    /// Adds the second dimension of the rows to a tensor map. The first one stands behind the contiguous dimension.
    pub(super) fn make_ragged(&self, map: &mut TensorMap, view: Value) {
        let bound =
            Window::of(self.k, view).and_then(|w| launch_bound(self.k, w.extent(self.k, w.ragged(self.k)?)));
        let (Some(bound), Some(stride)) = (bound, map.strides.first().cloned()) else { return };
        let all = Expr::op(ExprOp::Mul, bound.clone(), stride.clone());
        map.offset = Expr::op(ExprOp::Sub, Expr::zero(), all);
        map.dims.push(Expr::op(ExprOp::Add, bound, Expr::Const(1)));
        map.strides.push(stride);
        map.box_dims.push(1);
    }
}
