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
use std::rc::Rc;
use warplift_ir::layout::{Axis, Layout};
use warplift_ir::machine::{self, Attr, NewInst, Ty};
use warplift_ir::target::Opcode;
use warplift_ir::tile::{CmpOp, Inst, Value};

/// A bounded window on an array.
#[derive(Clone, Debug)]
pub(super) struct View {
    /// Address of the first element, with 32 bits in shared memory.
    pub base: machine::Value,
    /// Where the elements lie, if the strides do not say it.
    pub placed: Option<Rc<Placed>>,
    /// Extents in elements.
    pub extents: SmallVec<[machine::Value; 2]>,
    /// Strides in elements, or as bytes in 64 bits; the contiguous dimension has none.
    pub strides: SmallVec<[Option<machine::Value>; 2]>,
    /// The value of a load outside.
    pub fill: f64,
}

/// Where the elements of an array lie, and the indices that a part of it fixes.
#[derive(Clone, Debug)]
pub(super) struct Placed {
    /// `(d0, d1, ..)` to `m`, in elements.
    pub layout: Layout,
    /// By dimension of the array.
    pub fixed: Vec<Option<machine::Value>>,
}

impl Placed {
    /// The dimensions of the array that no index is fixed for.
    pub fn open(&self) -> Vec<usize> {
        (0..self.fixed.len()).filter(|&d| self.fixed[d].is_none()).collect()
    }

    /// Elements that lie side by side at most along the last dimension, and its place among those that are open; `None` if it
    /// is fixed.
    pub fn run(&self) -> Option<(usize, u64)> {
        let last = self.fixed.len() - 1;
        let open = self.open();
        let run = self.layout.contiguous(Axis::Dim(last as u8), Axis::Mem);
        (open.last() == Some(&last)).then(|| (open.len() - 1, run))
    }
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
        self.env.insert(self.k.result(inst), Low::View(View { base, placed: None, extents, strides, fill }));
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
        let open = whole.placed.as_ref().map_or_else(Vec::new, |p| p.open());
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
            match &mut part.placed {
                Some(placed) => Rc::make_mut(placed).fixed[open[d]] = Some(at),
                None => {
                    let one = self.at().imm(1);
                    part.base = self.step(part.base, at, Some(stride.unwrap_or(one)), bits);
                }
            }
            if window.as_ref().is_some_and(|w| self.k.is_unbounded(w.extent(self.k, w.kept[d]))) {
                continue;
            }
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
