//! Plain stores and atomic updates: each thread writes its own elements, by the widest row that facts and layout allow.
//!
//! ```text
//!  x: frag[8] ─► st.global.v4 [base + 0] ─ st.global.v4 [base + 512]      red.global.add.v4, add.f16x2 for updates
//! ```

use super::Lower;
use super::coords::register_coord;
use crate::Result;
use warplift_ir::layout::Axis;
use warplift_ir::machine::{self, Attr, GlobalAccess, NewInst, Ty};
use warplift_ir::target::Opcode;
use warplift_ir::tile::{AtomicOp, CmpOp, Inst, MemorySync, Op, Type, Value};
use warplift_ir::types::Elem;

impl Lower<'_, '_> {
    /// Atomic updates of global memory; a row that updates several neighbours is used if there is one.
    pub(super) fn lower_atomic(&mut self, inst: Inst, op: AtomicOp) -> Result<()> {
        let value = self.written(inst);
        let elem = self.k.ty(value).elem();
        if matches!(self.k.insts[inst].op, Op::AtomicScatter { old: true, .. }) {
            return self.lower_fetch(inst, op, value);
        }
        if op == AtomicOp::Exchange {
            let what = "`atomic_exchange` without a result does not compile";
            return self.error(format!("{what}: write `old = atomic_exchange v[..], x : type`"));
        }
        match Write::of(op, elem) {
            Some(write) => self.store_by(inst, value, write),
            None => self.refuse_tiles(elem),
        }
    }

    /// Predicated stores from registers.
    pub(super) fn store_plain(&mut self, inst: Inst, value: Value) -> Result<()> {
        self.store_by(inst, value, Write::Store)
    }

    /// Writes each thread's elements by stores, or by rows that update one or several at once.
    fn store_by(&mut self, inst: Inst, value: Value, write: Write) -> Result<()> {
        let layout = match (&self.plan.layouts[value], self.k.ty(value)) {
            (Some(l), Type::Tile(..)) => l.clone(),
            _ => return self.error("the stored tile is in no registers: put `rearrange` around it"),
        };
        let x = self.materialize(value, value)?;
        let elem = self.k.ty(value).elem();
        if elem.bits() < 8 {
            return self.refuse_tiles(elem);
        }
        let mut a = self.access(inst, &layout, elem)?;
        a.owned_by(self.owner(&layout));
        let access = self.global_access(inst, &layout);
        let vector = self.vector(inst, value, &layout, a.run).min(write.widest(a.is_shared(&self.func)));
        let replicated = layout.replicated(Axis::Reg);
        let bytes = self.whole_bytes(elem, vector)?;
        for e in (0..layout.in_extent(Axis::Reg)).step_by(vector as usize) {
            if replicated.iter().any(|b| e / b.weight % b.extent != 0) {
                continue;
            }
            let at = register_coord(&layout, e);
            let address = self.address(&mut a, &at);
            let inside = self.inside(&mut a, &at);
            let first = e as u32 * a.bits / 32;
            let count = (bytes / 4).max(1);
            let mut part = self.pick(x, (first..first + count).map(|r| r as u16).collect());
            let inner = e as u32 * a.bits % 32;
            if bytes < 4 && inner > 0 {
                let by = self.at().imm(inner.into());
                let shifted = [(part, machine::IndexMap::EACH), (by, machine::IndexMap::Whole)];
                part = self.repeat(Opcode::ShrU32, Attr::None, &shifted, 1);
            }
            let attr = self.global_attr(inst, a.offset(&at), count as u8, access);
            for (op, part, inside) in self.writes(write, bytes, part, inside) {
                let guard = self.guard(inside);
                let op = self.in_space(op, address)?;
                self.at().push(NewInst::new(op, &[address, part], &[]).attr(attr.clone()).guard(guard));
            }
        }
        Ok(())
    }

    /// A write or an update with its scope and order.
    pub(super) fn global_attr(&self, inst: Inst, offset: i32, count: u8, access: GlobalAccess) -> Attr {
        match self.k.insts[inst].op.sync() {
            sync if sync == MemorySync::default() => Attr::GlobalMem { offset, count, access },
            sync => Attr::Sync { offset, count, access: Some(access), sync },
        }
    }

    /// The rows that write so many bytes, each with what it writes and its condition.
    fn writes(
        &mut self,
        write: Write,
        bytes: u32,
        part: machine::Value,
        inside: machine::Value,
    ) -> Vec<(Opcode, machine::Value, machine::Value)> {
        match write {
            Write::Store if bytes == 1 => vec![(Opcode::StGlobal8, part, inside)],
            Write::Store if bytes == 2 => vec![(Opcode::StGlobal16, part, inside)],
            Write::Store => vec![(Opcode::StGlobal, part, inside)],
            Write::Update(row, _) => vec![(row, part, inside)],
            Write::Sum { one, .. } if bytes == 2 => {
                vec![(one, self.at().op(Opcode::Low16, &[part], Ty::B16), inside)]
            }
            Write::Sum { pairs, .. } => vec![(pairs, part, inside)],
            Write::Extreme { positive, negative } => {
                let zero = self.at().imm(0);
                let compare = |l: &mut Self, row, x, y, cmp| {
                    l.at().value(NewInst::new(row, &[x, y], &[Ty::Pred]).attr(Attr::Cmp(cmp)))
                };
                let number = compare(self, Opcode::SetpF32, part, part, CmpOp::Eq);
                let number = self.at().op(Opcode::AndPred, &[inside, number], Ty::Pred);
                let signs = [(positive, CmpOp::Ge), (negative, CmpOp::Lt)];
                signs
                    .map(|(row, cmp)| {
                        let sign = compare(self, Opcode::SetpS32, part, zero, cmp);
                        (row, part, self.at().op(Opcode::AndPred, &[number, sign], Ty::Pred))
                    })
                    .into()
            }
        }
    }
}

/// How elements are written to global memory.
#[derive(Clone, Copy)]
enum Write {
    /// By stores, as wide as they go.
    Store,
    /// By a row that updates so many neighbours at most.
    Update(Opcode, u64),
    /// Sums of 16-bit floats: a row for one, and one for words of two.
    Sum { one: Opcode, pairs: Opcode },
    /// The greatest or least f32. Floats of one sign are ordered as their bits are, those below zero the other way round:
    /// the rows of a number that is positive and of one that is negative.
    Extreme { positive: Opcode, negative: Opcode },
}

impl Write {
    /// The rows of an atomic update without a result; `None` if there are none.
    fn of(op: AtomicOp, elem: Elem) -> Option<Self> {
        use Opcode::*;
        Some(match (op, elem) {
            (AtomicOp::Add, Elem::F32) => Self::Update(RedGlobalAddF32, 4),
            (AtomicOp::Add, Elem::F16) => Self::Sum { one: RedGlobalAddF16, pairs: RedGlobalAddF16x2 },
            (AtomicOp::Add, Elem::Bf16) => Self::Sum { one: RedGlobalAddBf16, pairs: RedGlobalAddBf16x2 },
            (AtomicOp::Add, Elem::Int(32) | Elem::Uint(32)) => Self::Update(RedGlobalAddS32, 1),
            (AtomicOp::Min, Elem::Int(32)) => Self::Update(RedGlobalMinS32, 1),
            (AtomicOp::Max, Elem::Int(32)) => Self::Update(RedGlobalMaxS32, 1),
            (AtomicOp::Min, Elem::Uint(32)) => Self::Update(RedGlobalMinU32, 1),
            (AtomicOp::Max, Elem::Uint(32)) => Self::Update(RedGlobalMaxU32, 1),
            (AtomicOp::Min, Elem::F32) => {
                Self::Extreme { positive: RedGlobalMinS32, negative: RedGlobalMaxU32 }
            }
            (AtomicOp::Max, Elem::F32) => {
                Self::Extreme { positive: RedGlobalMaxS32, negative: RedGlobalMinU32 }
            }
            _ => return None,
        })
    }

    /// Elements that one row writes at most. Updates of several sums at once are of global memory only.
    fn widest(self, shared: bool) -> u64 {
        match self {
            Self::Store => u64::MAX,
            Self::Update(..) if shared => 1,
            Self::Update(_, most) => most,
            Self::Sum { .. } if shared => 2,
            Self::Sum { .. } => 8,
            Self::Extreme { .. } => 1,
        }
    }
}
