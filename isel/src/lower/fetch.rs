//! Atomic updates that give what they found. An element that several threads hold is updated by one of them, which
//! hands the answer to the others through shared memory.
//!
//! ```text
//!  place = atomic_add count[bin], one : i32[64]       atom.global.add.u32 for each element of a thread
//!  ticket = atomic_add next[0], one : i32[1]          thread 0 ─► scratch ─► all threads
//! ```

use super::Lower;
use super::coords::register_coord;
use crate::Result;
use crate::tiles::layout_error;
use warplift_ir::layout::{Axis, Builder, Layout};
use warplift_ir::machine::{self, Attr, NewInst, Place, Ty};
use warplift_ir::target::Opcode;
use warplift_ir::tile::{AtomicOp, Inst, Value};
use warplift_ir::types::Elem;

/// The row that updates an element and gives what it was.
fn row_of(op: AtomicOp, elem: Elem) -> Option<Opcode> {
    Some(match (op, elem) {
        (AtomicOp::Add, Elem::F32) => Opcode::AtomAddF32,
        (AtomicOp::Add, Elem::Int(32) | Elem::Uint(32)) => Opcode::AtomAddU32,
        (AtomicOp::Min, Elem::Int(32)) => Opcode::AtomMinS32,
        (AtomicOp::Max, Elem::Int(32)) => Opcode::AtomMaxS32,
        (AtomicOp::Min, Elem::Uint(32)) => Opcode::AtomMinU32,
        (AtomicOp::Max, Elem::Uint(32)) => Opcode::AtomMaxU32,
        (AtomicOp::Exchange, Elem::F32 | Elem::Int(32) | Elem::Uint(32)) => Opcode::AtomExchB32,
        (AtomicOp::CompareAndSwap, Elem::Int(32) | Elem::Uint(32)) => Opcode::AtomCasB32,
        _ => return None,
    })
}

impl Lower<'_, '_> {
    /// An update of each element, whose result is what was there.
    pub(super) fn lower_fetch(&mut self, inst: Inst, op: AtomicOp, value: Value) -> Result<()> {
        let (k, elem) = (self.k, self.k.ty(value).elem());
        let result = k.result(inst);
        let Some(row) = row_of(op, elem) else { return self.refuse_tiles(elem) };
        let layout = self.plan.layout(k, result)?.clone();
        let expected = k.insts[inst].op.expected_operand(k.args(inst).len()).map(|n| k.args(inst)[n]);
        let given: Vec<Value> = expected.into_iter().chain([value]).collect();
        let given = given.into_iter().map(|v| self.materialize(v, result)).collect::<Result<Vec<_>>>()?;
        let mut a = self.access(inst, &layout, elem)?;
        let owner = self.owner(&layout);
        a.owned_by(owner);
        let access = self.global_access(inst, &layout);
        let replicated = layout.replicated(Axis::Reg);
        let registers = layout.in_extent(Axis::Reg);
        let mut parts: Vec<machine::Value> = Vec::new();
        for e in 0..registers {
            if let Some(b) = replicated.iter().find(|b| e / b.weight % b.extent != 0) {
                parts.push(parts[(e - e / b.weight % b.extent * b.weight) as usize]);
                continue;
            }
            let at = register_coord(&layout, e);
            let address = self.address(&mut a, &at);
            let inside = self.inside(&mut a, &at);
            let operands = given.iter().map(|&x| self.pick(x, vec![e as u16])).collect::<Vec<_>>();
            let guard = self.guard(inside);
            let attr = self.global_attr(inst, a.offset(&at), 1, access);
            let args = [&[address], &operands[..]].concat();
            let new = NewInst::new(self.in_space(row, address)?, &args, &[Ty::B32]).attr(attr).guard(guard);
            parts.push(self.at().value(new));
        }
        let joined = NewInst::new(Opcode::Join, &parts, &[Ty::frag(registers as u16)]);
        let mut r = self.at().value(joined);
        if owner.is_some() {
            r = self.handed_out(inst, r, elem, &layout, owner)?;
        }
        self.set(result, r);
        Ok(())
    }

    /// Elements that one thread has, for all that hold them.
    fn handed_out(
        &mut self,
        inst: Inst,
        x: machine::Value,
        elem: Elem,
        layout: &Layout,
        owner: Option<machine::Value>,
    ) -> Result<machine::Value> {
        let error = layout_error(self.k, inst);
        let size: u64 = layout.outs().iter().map(|o| o.1).product();
        let (mut memory, mut stride) = (Builder::new(&[(Axis::Mem, size)]), size);
        for &(axis, extent) in layout.outs() {
            stride /= extent;
            memory = memory.add(axis, extent, &[stride]);
        }
        let to = layout.then(&memory.build().map_err(&error)?).map_err(&error)?;
        let buffer = self.scratch("handed out".to_owned(), size, elem);
        let write = self.shared_access(&to, buffer, elem, true)?;
        self.store_fragment(x, elem, &write, owner)?;
        let own = self.thread_coord(&to, 0)?;
        let own = self.at_entry().mul_imm(own, 4);
        let mut parts = Vec::new();
        for r in 0..layout.in_extent(Axis::Reg) {
            let place = Place { buffer, offset: (register_coord(&to, r)[0] * 4) as u32 };
            let new = NewInst::new(Opcode::LdShared, &[own], &[Ty::B32]);
            parts.push(self.at().value(new.attr(Attr::PlaceMem { place, count: 1 })));
        }
        let regs = parts.len() as u16;
        Ok(self.at().value(NewInst::new(Opcode::Join, &parts, &[Ty::frag(regs)])))
    }
}
