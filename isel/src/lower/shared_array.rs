//! Arrays that the text keeps in shared memory. Threads access them as they access arrays in global memory, with
//! addresses of 32 bits, and `sched` orders the accesses in the same way: by array and footprint.
//!
//! ```text
//!  s = shared f16[64, 64]                      base + row * 64 + column              as a row-major view
//!  s = shared f16[64, 64] layout ".. -> m"     base + (bits of row ⊕ bits of column) + digits     once a vector
//! ```
//!
//! A layout gives the place of an element from its indices: exclusive or of the bits that a swizzle combines, and sums of
//! the other digits (Linear Layouts, section 4.1; Hexcute, section 4, `shared_tensor`).

use super::coords::{Shifts, add_shifts};
use super::view::{Placed, View};
use super::{Low, Lower};
use crate::Result;
use crate::facts::{SHARED_ALIGN, number};
use crate::takes::is_long;
use smallvec::SmallVec;
use std::rc::Rc;
use warplift_ir::layout::{Axis, Layout, Step};
use warplift_ir::machine::{self, Attr, BufferData, BufferKind, NewInst, Place, Ty};
use warplift_ir::target::Opcode;
use warplift_ir::tile::{Inst, Value};
use warplift_ir::types::Elem;

impl Lower<'_, '_> {
    /// An array of the block: its buffer, and a view of it.
    pub(super) fn lower_shared_array(&mut self, inst: Inst, layout: Option<&Layout>) -> Result<()> {
        if self.blocks > 1 {
            let what = "`blocks` does not go with an array in shared memory: each block would have its own";
            return self.error(what);
        }
        let view = self.k.result(inst);
        let extents = self.array_extents(inst)?;
        let bytes = self.array_bytes(self.k.ty(view).elem(), layout, &extents)?;
        let (name, align) = (self.name_of(view), SHARED_ALIGN as u32);
        let buffer = self.buffers.push(BufferData { name, bytes, align, kind: BufferKind::Array });
        let new = NewInst::new(Opcode::ArrayBase, &[], &[Ty::B32]);
        let base = self.at_entry().value(new.attr(Attr::Place(Place { buffer, offset: 0 })));
        let number = self.known.shared_arrays.len() as u32;
        self.known.shared_arrays.insert(view, number);
        let placed = layout.map(|l| Rc::new(Placed { layout: l.clone(), fixed: vec![None; extents.len()] }));
        let mut strides: SmallVec<[Option<machine::Value>; 2]> = SmallVec::new();
        for d in 1..=extents.len() {
            let stride: u64 = extents[d..].iter().product();
            strides.push((d < extents.len()).then(|| self.at().imm(stride as i64)));
        }
        let extents = extents.iter().map(|&e| self.at().imm(e as i64)).collect();
        self.env.insert(view, Low::View(View { base, placed, extents, strides, fill: 0.0 }));
        Ok(())
    }

    /// The extents of an array, which the text knows.
    fn array_extents(&self, inst: Inst) -> Result<Vec<u64>> {
        let k = self.k;
        let known = |&v: &Value| number(k, v).and_then(|e| u64::try_from(e).ok());
        match k.args(inst).iter().map(known).collect() {
            Some(extents) => Ok(extents),
            None => {
                self.error("the extents of an array in shared memory are numbers, constants and tunables, and sums and products of them")
            }
        }
    }

    /// The bytes of an array.
    fn array_bytes(&self, elem: Elem, layout: Option<&Layout>, extents: &[u64]) -> Result<u32> {
        if !matches!(elem.bits(), 8 | 16 | 32) && !is_long(elem) {
            let what = "in shared memory does not compile: elements of whole bytes do";
            return self.error(format!("an array of {elem} {what}"));
        }
        let elements = match layout {
            Some(layout) => self.checked_layout(layout, extents)?,
            None => extents.iter().try_fold(1u64, |n, &e| n.checked_mul(e)).unwrap_or(u64::MAX),
        };
        let bytes = elements.saturating_mul(u64::from(elem.bits() / 8));
        match u32::try_from(bytes) {
            Ok(bytes) => Ok(bytes),
            Err(_) => self.error(format!("an array of {bytes} bytes in shared memory")),
        }
    }

    /// The elements that an array with a layout takes.
    fn checked_layout(&self, layout: &Layout, extents: &[u64]) -> Result<u64> {
        let own = |d: usize| layout.in_extent(Axis::Dim(d as u8));
        let dims = layout.ins().iter().all(|a| matches!(a.0, Axis::Dim(d) if usize::from(d) < extents.len()));
        let fits = dims && (0..extents.len()).all(|d| own(d) == extents[d]);
        let memory = layout.outs().len() == 1 && layout.outs()[0].0 == Axis::Mem;
        match (fits && memory, fits && memory && layout.is_injective()) {
            (false, _) => self.error(format!(
                "the layout of an array in shared memory maps its indices {} to `m`, not `{layout}`",
                (0..extents.len()).map(|d| format!("d{d} {}", extents[d])).collect::<Vec<_>>().join(", ")
            )),
            (_, false) => self.error(format!("the layout `{layout}` puts two elements at one place")),
            _ => Ok(layout.out_extent(Axis::Mem)),
        }
    }

    /// Address of the element with these indices along the open dimensions.
    pub(super) fn placed_address(
        &mut self,
        view: &View,
        placed: &Placed,
        at: &[machine::Value],
        bits: u32,
    ) -> machine::Value {
        let mut open = at.iter().copied();
        let all: Vec<machine::Value> =
            placed.fixed.iter().filter_map(|f| f.or_else(|| open.next())).collect();
        let (mut swizzled, mut moved) = (None, None);
        for (d, &index) in all.iter().enumerate() {
            self.add_digits(&placed.layout, d, index, (&mut swizzled, &mut moved));
        }
        let elements = match (swizzled, moved) {
            (Some(x), Some(y)) => self.at().add(x, y),
            (one, other) => one.or(other).unwrap_or_else(|| self.at().imm(0)),
        };
        self.step(view.base, elements, None, bits)
    }

    /// Adds what an index contributes to the place of an element.
    fn add_digits(
        &mut self,
        layout: &Layout,
        d: usize,
        index: machine::Value,
        (swizzled, moved): (&mut Option<machine::Value>, &mut Option<machine::Value>),
    ) {
        let mut shifts = Shifts::new();
        for b in layout.basis(Axis::Dim(d as u8)) {
            if b.step == Step::Add {
                let digit = self.digit(index, b.weight, b.extent);
                let part = self.at().mul_imm(digit, b.out[0] as i64);
                *moved = Some(moved.map_or(part, |sum| self.at().add(sum, part)));
                continue;
            }
            add_shifts(&mut shifts, b.weight, b.out[0]);
        }
        for (shift, mask) in shifts {
            let part = self.at().and_imm(index, mask as i64);
            let by = self.at().imm(i64::from(shift.abs()));
            let part = match shift {
                0 => part,
                1.. => self.at().int(Opcode::Shl, part, by),
                _ => self.at().int(Opcode::ShrU32, part, by),
            };
            *swizzled = Some(swizzled.map_or(part, |all| self.at().int(Opcode::Xor, all, part)));
        }
    }

    /// `index / weight % extent`. What lies outside of the array is not accessed, so it may wrap around anywhere.
    fn digit(&mut self, index: machine::Value, weight: u64, extent: u64) -> machine::Value {
        let [w, e] = [weight, extent].map(|n| self.at().imm(n as i64));
        let index = if weight == 1 { index } else { self.at().int(Opcode::DivU32, index, w) };
        self.at().int(Opcode::RemU32, index, e)
    }

    /// The row for an access at an address: one of shared memory for an address of 32 bits.
    pub(super) fn in_space(&self, op: Opcode, address: machine::Value) -> Result<Opcode> {
        match (self.func.ty(address), op.in_shared()) {
            (Ty::B64, _) => Ok(op),
            (_, Some(shared)) => Ok(shared),
            _ => self.error(format!("`{}` of an array in shared memory does not compile", op.name())),
        }
    }
}
