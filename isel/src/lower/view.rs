//! Views: a base address, extents and strides in registers.
//!
//! ```text
//!  v = view p : f16[m, k]          base p     extents m, k     strides k, -
//!  w = subview v[i, _]             base p + i * k * 2     extents (i < m ? k : 0)     strides -
//! ```

use super::{Low, Lower};
use crate::Result;
use crate::facts::{is_never_negative, launch_expr};
use crate::window::Window;
use smallvec::SmallVec;
use warplift_ir::machine::{self, Attr, NewInst, Ty};
use warplift_ir::target::Opcode;
use warplift_ir::tile::{CmpOp, Inst, Value};

/// A bounded window on global memory.
#[derive(Clone, Debug)]
pub(super) struct View {
    /// Address of the first element.
    pub base: machine::Value,
    /// Extents in elements.
    pub extents: SmallVec<[machine::Value; 2]>,
    /// Strides in elements, or as bytes in 64 bits; the contiguous dimension has none.
    pub strides: SmallVec<[Option<machine::Value>; 2]>,
    /// The value of a load outside.
    pub fill: f64,
}

impl Lower<'_, '_> {
    /// A view of an argument. A stride that is not known at launch becomes bytes in 64 bits.
    pub(super) fn lower_view(&mut self, inst: Inst, strided: bool, fill: f64) -> Result<()> {
        let args = self.k.args(inst).to_vec();
        let rank = if strided { (args.len() - 1) / 2 } else { args.len() - 1 };
        let base = self.scalar(args[0])?;
        let extents: SmallVec<[_; 2]> =
            args[1..=rank].iter().map(|&v| self.extent(v)).collect::<Result<_>>()?;
        let mut strides: SmallVec<[Option<machine::Value>; 2]> = SmallVec::new();
        let bits = self.k.ty(self.k.result(inst)).elem().bits();
        let window = Window::of(self.k, self.k.result(inst));
        for d in 0..rank {
            let known = window.as_ref().is_some_and(|w| w.stride_expr(self.k, d).is_some());
            strides.push(match strided {
                true if self.k.int_const(args[1 + rank + d]) == Some(1) => None,
                true if known => Some(self.scalar(args[1 + rank + d])?),
                true => {
                    let stride = self.scalar(args[1 + rank + d])?;
                    Some(self.wide_stride(&[stride], bits)?)
                }
                false if d + 1 == rank => None,
                false if !known => Some(self.wide_stride(&extents[d + 1..], bits)?),
                false => {
                    let mut s = extents[d + 1];
                    for &e in &extents[d + 2..] {
                        s = self.at().int(Opcode::MulS32, s, e);
                    }
                    Some(s)
                }
            });
        }
        self.env.insert(self.k.result(inst), Low::View(View { base, extents, strides, fill }));
        Ok(())
    }

    /// An extent. Bounds are compared without a sign, so a negative number from memory becomes 0.
    fn extent(&mut self, v: Value) -> Result<machine::Value> {
        let extent = self.scalar(v)?;
        // Arithmetic on what comes from memory may wrap around.
        if is_never_negative(self.k, v) && launch_expr(self.k, v).is_some() {
            return Ok(extent);
        }
        let zero = self.at().imm(0);
        Ok(self.at().int(Opcode::MaxS32, extent, zero))
    }

    /// A view of fewer dimensions: the base moves. If a fixed index is outside, all elements are outside.
    pub(super) fn lower_sub_view(&mut self, inst: Inst, kept: &[u8]) -> Result<()> {
        let args = self.k.args(inst).to_vec();
        let whole = self.view(args[0])?;
        let mut part = View { extents: SmallVec::new(), strides: SmallVec::new(), ..whole.clone() };
        let bits = self.k.ty(args[0]).elem().bits();
        let window = Window::of(self.k, args[0]);
        let mut index = args[1..].iter();
        let mut inside: Vec<machine::Value> = Vec::new();
        for (d, (&extent, &stride)) in whole.extents.iter().zip(&whole.strides).enumerate() {
            if kept.contains(&(d as u8)) {
                part.extents.push(extent);
                part.strides.push(stride);
                continue;
            }
            let Some(&v) = index.next() else { return self.error("an index is missing") };
            let at = self.scalar(v)?;
            let step = window.as_ref().map_or(1, |w| w.stride_divisor(self.k, w.kept[d]));
            if step.wrapping_mul(i64::from(bits)) % 8 != 0 {
                let what = "an index fixed where its stride is not known to be whole bytes";
                return self.error(format!("{what}: {step} elements of {bits} bits"));
            }
            let one = self.at().imm(1);
            part.base = self.step(part.base, at, Some(stride.unwrap_or(one)), bits);
            // The comparison is unsigned, so a negative index is outside too.
            let compared = NewInst::new(Opcode::SetpU32, &[at, extent], &[Ty::Pred]);
            inside.push(self.at().value(compared.attr(Attr::Cmp(CmpOp::Lt))));
        }
        let zero = self.at().imm(0);
        for extent in &mut part.extents {
            for &p in &inside {
                *extent = self.at().op(Opcode::Selp, &[*extent, zero, p], Ty::B32);
            }
        }
        self.env.insert(self.k.result(inst), Low::View(part));
        Ok(())
    }
}
