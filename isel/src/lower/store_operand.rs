//! Operands that threads write to shared memory: loaded tiles whose facts forbid tensor copies, and computed tiles.
//!
//! ```text
//!  load ─► registers ─┐
//!                     ├─► st.shared, where the swizzle puts it ─ (fence, barrier: the scheduler) ─► wgmma
//!  elementwise work ──┘
//! ```

use super::coords::register_parts;
use super::{Low, Lower};
use crate::Result;
use crate::plan::{STORE_BITS, SharedTile, blocked, fill_layout};
use crate::tiles::{extents, layout_error, warps};
use warplift_ir::layout::{Axis, Layout};
use warplift_ir::machine::{self, Attr, Buffer, BufferData, BufferKind, Guard, IndexMap, NewInst, Place};
use warplift_ir::target::Opcode;
use warplift_ir::tile::Inst;

impl Lower<'_, '_> {
    /// A load whose facts forbid tensor copies: it goes through registers.
    pub(super) fn lower_thread_fill(&mut self, inst: Inst, tile: &SharedTile) -> Result<()> {
        let (layout, vector) = fill_layout(self.k, inst, tile)?;
        let x = self.load_registers(inst, &layout)?;
        self.fill_shared(inst, tile, x, &layout, vector)
    }

    /// The copy of a computed tile.
    pub(super) fn lower_computed_fill(&mut self, inst: Inst, tile: &SharedTile) -> Result<()> {
        let v = self.k.args(inst)[0];
        let most = STORE_BITS / self.k.ty(v).elem().bits();
        if let Some(&Low::Splat(one)) = self.env.get(&v) {
            let layout = blocked(&extents(self.k, v), tile.inner_dim, most, warps(self.k, inst))
                .map_err(layout_error(self.k, inst))?;
            let registers = self.registers(self.k.ty(v).elem(), &layout)?;
            let x = self.repeat(Opcode::Mov, Attr::None, &[(one, IndexMap::Whole)], registers as u16);
            return self.fill_shared(inst, tile, x, &layout, most);
        }
        let layout = self.plan.layout(self.k, v)?.clone();
        let x = self.materialize(v, v)?;
        self.fill_shared(inst, tile, x, &layout, most)
    }

    /// Fills a tile's buffer from a fragment, by stores of at most `most` elements.
    fn fill_shared(
        &mut self,
        inst: Inst,
        tile: &SharedTile,
        x: machine::Value,
        layout: &Layout,
        vector: u32,
    ) -> Result<()> {
        let result = self.k.result(inst);
        let bytes = self.k.ty(result).elem().bits() / 8;
        let buffer = self.buffers.push(BufferData {
            name: self.name_of(result),
            bytes: extents(self.k, result).iter().product::<u32>() * bytes,
            align: 1024,
            kind: BufferKind::Scratch,
        });
        self.filled.insert(inst, (buffer, None));
        let to = tile.from_register_layout(layout).map_err(layout_error(self.k, inst))?;
        self.store_shared(x, &to, buffer, bytes, vector)
    }

    /// Stores a fragment to a scratch buffer. An address is `(thread xor register) + thread + register`, the
    /// parts of the layout's bits and of its digits that carry.
    fn store_shared(
        &mut self,
        x: machine::Value,
        to: &Layout,
        buffer: Buffer,
        bytes: u32,
        vector: u32,
    ) -> Result<()> {
        let parts = self.thread_parts(to, 0)?;
        let own = match parts.xor {
            Some(own) => own,
            None => self.at_entry().imm(0),
        };
        let own = self.at_entry().mul_imm(own, bytes.into());
        let carrying = parts.add.map(|c| self.at_entry().mul_imm(c, bytes.into()));
        let vector = u64::from(vector).min(to.contiguous(Axis::Reg, Axis::Mem));
        let count = (vector as u32 * bytes / 4).max(1) as u8;
        let half_register = vector as u32 * bytes == 2;
        if vector as u32 * bytes < 4 && !half_register {
            return self.error("elements narrower than a register do not lie together in shared memory");
        }
        // An element that several threads or registers hold is stored once: two writers of one place would race.
        let guard = self.owner(to).map(|pred| Guard { pred, negated: false });
        let replicated = to.replicated(Axis::Reg);
        for (i, e) in (0..to.in_extent(Axis::Reg)).step_by(vector as usize).enumerate() {
            if replicated.iter().any(|b| e / b.weight % b.extent != 0) {
                continue;
            }
            let (bits, sum) = register_parts(to, e, 0);
            let c = self.at_entry().imm(bits as i64 * i64::from(bytes));
            let mut offset = self.at_entry().int(Opcode::Xor, own, c);
            if let Some(carrying) = carrying {
                offset = self.at_entry().add(offset, carrying);
            }
            if sum > 0 {
                offset = self.at_entry().add_imm(offset, sum as i64 * i64::from(bytes));
            }
            let first = i as u16 * u16::from(count);
            let (op, part) = match half_register {
                true => (Opcode::StShared16, self.half(x, (e as u32 * bytes / 2) as u16)),
                false => (Opcode::StShared, self.pick(x, (first..first + u16::from(count)).collect())),
            };
            let place = Place { buffer, offset: 0 };
            let new = NewInst::new(op, &[offset, part], &[]).attr(Attr::PlaceMem { place, count });
            self.at().push(new.guard(guard));
        }
        Ok(())
    }
}
