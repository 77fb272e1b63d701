//! Address ranges: what plain addresses require of the arguments. An address is `base + index * step`: the step has
//! 32 bits, and only the product has 64. Every byte step that an index multiplies must therefore fit in 32 bits. That
//! is known at compile time, checked at launch, or not needed because the step is computed in 64 bits.
//!
//! ```text
//!  view x : f32[m, n]     step of a row = n * 4 bytes     launch checks: n <= MOST / 4
//! ```

use super::Lower;
use crate::facts::launch_expr;
use crate::window::Window;
use crate::{IselError, Result};
use warplift_ir::machine::{self, Ty};
use warplift_ir::manifest::{Expr, ExprOp, Fact};
use warplift_ir::target::Opcode;
use warplift_ir::tile::Value;

/// The greatest step.
const MOST: i64 = i32::MAX as i64;

impl Lower<'_, '_> {
    /// The facts that the launch must check if threads address a view's elements.
    pub(super) fn limit_steps(&mut self, view: Value) -> Result<()> {
        let k = self.k;
        let Some(window) = Window::of(k, view).filter(|w| !w.is_shared(k)) else { return Ok(()) };
        let bits = k.ty(view).elem().bits();
        let name = k.params.iter().find(|p| p.value == window.pointer(k)).map_or("?", |p| &p.name);
        let all = window.kept.iter().copied().chain(window.fixed.iter().map(|f| f.0));
        for d in all {
            let extent = launch_expr(k, window.extent(k, d));
            let (steps, value) = match (window.stride_expr(k, d), extent) {
                // Along the contiguous dimension the product has 64 bits, except for widths that cross bytes.
                (Some(Expr::Const(1)), Some(extent)) if bits < 8 => (extent, "extent"),
                (Some(Expr::Const(1)) | None, _) => continue,
                // An extent of 1 needs no step.
                (Some(stride), Some(extent)) => (Expr::op(ExprOp::Mul, stride, moves(extent)), "stride"),
                (Some(stride), None) => (stride, "stride"),
            };
            let what = format!("the {value} of dimension {d} of `{name}` times {}", factor(bits));
            self.limit(Expr::op(ExprOp::Mul, steps, Expr::Const(factor(bits))), what)?;
        }
        Ok(())
    }

    /// Makes the launch check that a value fits a step, unless the facts already say so.
    pub(super) fn limit(&mut self, value: Expr, what: String) -> Result<()> {
        let range = value.range(&|name| self.argument_range(name));
        if range.is_some_and(|(least, most)| least >= -MOST && most <= MOST) {
            return Ok(());
        }
        if let Expr::Const(v) = value {
            let what = format!("{what}: {v}; at most {MOST} is possible");
            return Err(IselError::at(self.k, self.inst, what));
        }
        let fact = Fact::Limit { what, value, min: -MOST, max: MOST };
        if !self.extra_facts.contains(&fact) {
            self.extra_facts.push(fact);
        }
        Ok(())
    }

    /// The range of an argument.
    fn argument_range(&self, name: &str) -> Option<(i64, i64)> {
        let p = self.k.params.iter().find(|p| p.name == name)?;
        let bits = self.k.ty(p.value).elem().bits();
        let most = if bits < 64 { (1i64 << bits) - 1 } else { i64::MAX };
        Some((p.facts.min, p.facts.max.min(most)))
    }

    /// `pointer + index * step`, of 32 bits in shared memory. The step is a number of elements in 32 bits (`None`: 1),
    /// or of bytes in 64 bits.
    pub(super) fn step(
        &mut self,
        pointer: machine::Value,
        index: machine::Value,
        stride: Option<machine::Value>,
        bits: u32,
    ) -> machine::Value {
        if let Some(bytes) = stride.filter(|&s| self.func.ty(s) == Ty::B64) {
            let index = self.at().op(Opcode::WidenS32, &[index], Ty::B64);
            let moved = self.at().op(Opcode::MulS64, &[index, bytes], Ty::B64);
            return self.at().op(Opcode::AddS64, &[pointer, moved], Ty::B64);
        }
        let (index, scale) = match stride {
            None if bits < 8 => (self.bytes_of(index, bits), self.at().imm(1)),
            None => (index, self.at().imm(i64::from(bits / 8))),
            Some(s) => (index, self.bytes_of(s, bits)),
        };
        let near = self.func.ty(pointer) == Ty::B32;
        let (row, ty) = if near { (Opcode::MadS32, Ty::B32) } else { (Opcode::MadWideS32, Ty::B64) };
        self.at().op(row, &[index, scale, pointer], ty)
    }

    /// A stride that is not known at launch, as bytes in 64 bits: its factors are not bounded.
    pub(super) fn wide_stride(&mut self, factors: &[machine::Value], bits: u32) -> Result<machine::Value> {
        if !bits.is_multiple_of(8) {
            return self.error(format!("strides of elements of {bits} bits that are not known at launch"));
        }
        let mut bytes = self.at().imm_of(Ty::B64, i64::from(bits / 8));
        for &factor in factors {
            let factor = self.at().op(Opcode::WidenS32, &[factor], Ty::B64);
            bytes = self.at().op(Opcode::MulS64, &[bytes, factor], Ty::B64);
        }
        Ok(bytes)
    }
}

/// 1 if an extent has more than one index, else 0.
fn moves(extent: Expr) -> Expr {
    let further = Expr::op(ExprOp::Max, Expr::op(ExprOp::Sub, extent, Expr::Const(1)), Expr::Const(0));
    Expr::op(ExprOp::Min, further, Expr::Const(1))
}

/// The factor from elements to bytes (see `bytes_of`).
fn factor(bits: u32) -> i64 {
    i64::from(if bits.is_multiple_of(8) { bits / 8 } else { bits >> bits.trailing_zeros() })
}
