//! What plain addresses need of the arguments: an address is `base + index * step` with a step of 32 bits, and only
//! the product has 64. So every step in bytes that any index is multiplied by must fit, which is known at
//! compile time, checked at launch, or not needed where the step itself is computed in 64 bits.

use super::Lower;
use crate::facts::launch_expr;
use crate::window::Window;
use crate::{IselError, Result};
use warplift_ir::machine::{self, Ty};
use warplift_ir::manifest::{Expr, ExprOp, Fact};
use warplift_ir::target::Opcode;
use warplift_ir::tile::Value;

/// Greatest step.
const MOST: i64 = i32::MAX as i64;

impl Lower<'_, '_> {
    /// What the launch must check where a view's elements are addressed by threads.
    pub(super) fn limit_steps(&mut self, view: Value) -> Result<()> {
        let k = self.k;
        let Some(window) = Window::of(k, view) else { return Ok(()) };
        let bits = k.ty(view).elem().bits();
        let name = k.params.iter().find(|p| p.value == window.pointer(k)).map_or("?", |p| &p.name);
        let all = window.kept.iter().copied().chain(window.fixed.iter().map(|f| f.0));
        for d in all {
            let extent = launch_expr(k, window.extent(k, d));
            let (steps, value) = match (window.stride_expr(k, d), extent) {
                // Along the contiguous dimension the product has 64 bits, but for widths that cross bytes.
                (Some(Expr::Const(1)), Some(extent)) if bits < 8 => (extent, "extent"),
                (Some(Expr::Const(1)) | None, _) => continue,
                // Where only one index lies inside no step is made.
                (Some(stride), Some(extent)) => (Expr::op(ExprOp::Mul, stride, moves(extent)), "stride"),
                (Some(stride), None) => (stride, "stride"),
            };
            let what = format!("the {value} of dimension {d} of `{name}` times {}", factor(bits));
            self.limit(Expr::op(ExprOp::Mul, steps, Expr::Const(factor(bits))), what)?;
        }
        Ok(())
    }

    /// The launch checks that a value fits a step, unless the facts say so already.
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

    /// Values that an argument may have.
    fn argument_range(&self, name: &str) -> Option<(i64, i64)> {
        let p = self.k.params.iter().find(|p| p.name == name)?;
        let bits = self.k.ty(p.value).elem().bits();
        let most = if bits < 64 { (1i64 << bits) - 1 } else { i64::MAX };
        Some((p.facts.min, p.facts.max.min(most)))
    }

    /// `pointer + index * step`, where the step is so many elements (1 for none) of 32 bits, or bytes of 64.
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
        self.at().op(Opcode::MadWideS32, &[index, scale, pointer], Ty::B64)
    }

    /// A stride that is not known at launch, in bytes of 64 bits: its factors may be anything.
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

/// 1 where an extent has more than one index, else 0.
fn moves(extent: Expr) -> Expr {
    let further = Expr::op(ExprOp::Max, Expr::op(ExprOp::Sub, extent, Expr::Const(1)), Expr::Const(0));
    Expr::op(ExprOp::Min, further, Expr::Const(1))
}

/// What a number of elements is multiplied by on its way to bytes (see `bytes_of`).
fn factor(bits: u32) -> i64 {
    i64::from(if bits.is_multiple_of(8) { bits / 8 } else { bits >> bits.trailing_zeros() })
}
