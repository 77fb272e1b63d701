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
use crate::rows::{fetch_row, is_fetched};
use crate::tiles::layout_error;
use warplift_ir::layout::{Axis, Builder, Layout};
use warplift_ir::machine::{self, Attr, NewInst, Ty};
use warplift_ir::target::Opcode;
use warplift_ir::tile::{AtomicOp, CmpOp, Inst, Value};
use warplift_ir::types::Elem;

/// Half of an element of 64 bits.
const WORD: Elem = Elem::Uint(32);

/// A row, what it takes, and where it runs.
type Update = (Opcode, Vec<machine::Value>, machine::Value);

impl Lower<'_, '_> {
    /// An update of each element, whose result is what was there.
    pub(super) fn lower_fetch(&mut self, inst: Inst, op: AtomicOp, value: Value) -> Result<()> {
        let (k, elem) = (self.k, self.k.ty(value).elem());
        let result = k.result(inst);
        if !is_fetched(op, elem) {
            return self.refuse_tiles(elem);
        }
        let layout = self.plan.layout(k, result)?.clone();
        let expected = k.insts[inst].op.expected_operand(k.args(inst).len()).map(|n| k.args(inst)[n]);
        let given: Vec<Value> = expected.into_iter().chain([value]).collect();
        let given = given.into_iter().map(|v| self.materialize(v, result)).collect::<Result<Vec<_>>>()?;
        let mut a = self.access(inst, &layout, elem)?;
        let owner = self.owner(&layout);
        a.owned_by(owner);
        let access = self.global_access(inst, &layout);
        let replicated = layout.replicated(Axis::Reg);
        let mut parts: Vec<machine::Value> = Vec::new();
        for e in 0..layout.in_extent(Axis::Reg) {
            if let Some(b) = replicated.iter().find(|b| e / b.weight % b.extent != 0) {
                parts.push(parts[(e - e / b.weight % b.extent * b.weight) as usize]);
                continue;
            }
            let at = register_coord(&layout, e);
            let address = self.address(&mut a, &at);
            let inside = self.inside(&mut a, &at);
            let operands: Vec<_> = given.iter().map(|&x| self.unpacked(x, elem, e as u16)).collect();
            let attr = self.global_attr(inst, a.offset(&at), 1, access);
            let updates = match fetch_row(op, elem) {
                Some(row) => vec![(row, operands, inside)],
                None => self.by_sign(op, operands[0], inside).into(),
            };
            parts.push(self.fetched(address, updates, &attr)?);
        }
        let mut r = self.packed_up(&parts, elem);
        if owner.is_some() {
            r = match elem.bits() {
                64 => {
                    let n = parts.len() as u16;
                    let words = [0, 1].map(|high| self.pick(r, (0..n).map(|e| 2 * e + high).collect()));
                    let [low, high] = words.map(|w| self.handed_out(inst, w, WORD, &layout, owner));
                    self.interleaved(low?, high?)
                }
                _ => self.handed_out(inst, r, elem, &layout, owner)?,
            };
        }
        self.set(result, r);
        Ok(())
    }

    /// What updates found, of which at most one runs: a guarded one that does not run gives 0.
    fn fetched(
        &mut self,
        address: machine::Value,
        updates: Vec<Update>,
        attr: &Attr,
    ) -> Result<machine::Value> {
        let mut found = None;
        for (row, operands, inside) in updates {
            let row = self.in_space(row, address)?;
            let args = [&[address], &operands[..]].concat();
            let ty = self.func.ty(*operands.last().unwrap_or(&address));
            let ty = if matches!(ty, Ty::B16 | Ty::B64) { ty } else { Ty::B32 };
            let guard = self.guard(inside);
            let one = self.at().value(NewInst::new(row, &args, &[ty]).attr(attr.clone()).guard(guard));
            found = Some(match found {
                None => one,
                Some(other) => self.at().op(Opcode::Or, &[other, one], Ty::B32),
            });
        }
        found.map_or_else(|| self.error("an update without a row"), Ok)
    }

    /// The greatest or least f32 with what was there. Floats of one sign are ordered as their bits are, those below zero the
    /// other way round. A NaN becomes the integer that changes nothing.
    fn by_sign(&mut self, op: AtomicOp, x: machine::Value, inside: machine::Value) -> [Update; 2] {
        let [zero, none] =
            [0, i64::from(if op == AtomicOp::Max { i32::MIN } else { i32::MAX })].map(|n| self.at().imm(n));
        let (positive, negative) = match op {
            AtomicOp::Max => (Opcode::AtomMaxS32, Opcode::AtomMinU32),
            _ => (Opcode::AtomMinS32, Opcode::AtomMaxU32),
        };
        let number = NewInst::new(Opcode::SetpF32, &[x, x], &[Ty::Pred]).attr(Attr::Cmp(CmpOp::Eq));
        let number = self.at().value(number);
        let below = NewInst::new(Opcode::SetpS32, &[x, zero], &[Ty::Pred]).attr(Attr::Cmp(CmpOp::Lt));
        let below = self.at().value(below);
        let below = self.at().op(Opcode::AndPred, &[below, number], Ty::Pred);
        let above = self.at().op(Opcode::NotPred, &[below], Ty::Pred);
        let x = self.at().op(Opcode::Selp, &[x, none, number], Ty::B32);
        [(positive, above), (negative, below)]
            .map(|(row, sign)| (row, vec![x], self.at().op(Opcode::AndPred, &[inside, sign], Ty::Pred)))
    }

    /// An element of a fragment as its row takes it: a word, half of one, or two.
    fn unpacked(&mut self, x: machine::Value, elem: Elem, e: u16) -> machine::Value {
        match elem.bits() {
            16 => {
                let half = self.half(x, e);
                self.at().op(Opcode::Low16, &[half], Ty::B16)
            }
            64 => {
                let words = [2 * e, 2 * e + 1].map(|r| self.pick(x, vec![r]));
                self.at().op(Opcode::Pack64, &words, Ty::B64)
            }
            _ => self.pick(x, vec![e]),
        }
    }

    /// A fragment of elements as rows give them.
    fn packed_up(&mut self, parts: &[machine::Value], elem: Elem) -> machine::Value {
        let words: Vec<machine::Value> = match elem.bits() {
            16 => {
                let pair =
                    |p: &[machine::Value]| self.at().op(Opcode::Pack16, &[p[0], p[p.len() - 1]], Ty::B32);
                parts.chunks(2).map(pair).collect()
            }
            64 => {
                let halves =
                    |&p| [Opcode::Narrow64, Opcode::High64].map(|op| self.at().op(op, &[p], Ty::B32));
                parts.iter().flat_map(halves).collect()
            }
            _ => parts.to_vec(),
        };
        let regs = words.len() as u16;
        self.at().value(NewInst::new(Opcode::Join, &words, &[Ty::frag(regs)]))
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
        let read = self.shared_access(&to, buffer, elem, false)?;
        self.load_fragment(elem, &read)
    }
}
