//! Copies by threads: `cp.async` moves a tile from global to shared memory without registers.
//!
//! ```text
//!  thread t: cp.async 16 bytes from x + .. to smem + ..      all copies of a tile form one group, one await
//! ```
//!
//! Each thread copies 4, 8 or 16 bytes at a time, as the facts allow. Bytes outside the view are not read and arrive
//! as zeros. All copies of a tile are awaited together.

use super::Lower;
use super::coords::{register_coord, register_parts};
use super::plain::Access;
use crate::Result;
use crate::plan::{SharedTile, fill_layout};
use crate::tiles::{extents, layout_error};
use warplift_ir::layout::Axis;
use warplift_ir::machine::{Attr, BufferData, BufferKind, CopyAttr, Guard, NewInst, Place, Ty};
use warplift_ir::target::Opcode;
use warplift_ir::tile::Inst;

impl Lower<'_, '_> {
    /// A load by copies of its threads.
    pub(super) fn lower_cp_async(&mut self, inst: Inst, tile: &SharedTile) -> Result<()> {
        let k = self.k;
        let result = k.result(inst);
        let elem = k.ty(result).elem();
        let (shape, size) = (extents(k, result), elem.bits() / 8);
        let (layout, most) = fill_layout(k, inst, tile)?;
        // If the extent is not a power of two, a thread may have fewer neighbours than asked for.
        let place = |e: u32| register_coord(&layout, e.into())[tile.inner_dim];
        let vector = (1..=most).rev().find(|v| (0..*v).all(|e| place(e) == place(0) + u64::from(e)));
        let vector = vector.filter(|v| [4, 8, 16].contains(&(v * size)) && most.is_multiple_of(*v));
        let Some(vector) = vector else {
            return self.error("copies by threads of fewer than 4 bytes in a row");
        };
        let bytes = vector * size;
        let to = tile.from_register_layout(&layout).map_err(layout_error(k, inst))?;
        let buffer = self.buffers.push(BufferData {
            name: self.name_of(result),
            bytes: shape.iter().product::<u32>() * size,
            align: 1024,
            kind: BufferKind::Ring,
        });
        let parts = self.thread_parts(&to, 0)?;
        let own = match parts.xor {
            Some(own) => self.at_entry().mul_imm(own, size.into()),
            None => self.at_entry().imm(0),
        };
        let carrying = parts.add.map(|c| self.at_entry().mul_imm(c, size.into()));
        let mut access = self.access(inst, &layout, elem)?;
        let owner = self.owner(&layout).map(|pred| Guard { pred, negated: false });
        let replicated = layout.replicated(Axis::Reg);
        let mut event = None;
        for e in (0..layout.in_extent(Axis::Reg)).step_by(vector as usize) {
            if replicated.iter().any(|b| e / b.weight % b.extent != 0) {
                continue;
            }
            // Offsets below the swizzle's period combine by exclusive or; multiples of it are constants. Digits that
            // are not bits may carry, so they are added.
            let (bits, sum) = register_parts(&to, e, 0);
            let [moved, added] = [bits, sum].map(|n| n as u32 * size);
            let low = moved % tile.period();
            let c = self.at_entry().imm(low.into());
            let mut at = self.at_entry().int(Opcode::Xor, own, c);
            if let Some(carrying) = carrying {
                at = self.at_entry().add(at, carrying);
            }
            let place = Place { buffer, offset: moved - low + added };
            event = Some(self.copy_vector(&mut access, &register_coord(&layout, e), at, place, bytes, owner));
        }
        self.filled.insert(inst, (buffer, event));
        Ok(())
    }

    fn copy_vector(
        &mut self,
        access: &mut Access,
        from: &[u64],
        to: warplift_ir::machine::Value,
        place: Place,
        bytes: u32,
        guard: Option<Guard>,
    ) -> warplift_ir::machine::Value {
        let address = self.address(access, from);
        let inside = self.inside(access, from);
        let (all, none) = (self.at().imm(bytes.into()), self.at().imm(0));
        let read = self.at().op(Opcode::Selp, &[all, none, inside], Ty::B32);
        let attr =
            CopyAttr { bytes: bytes as u8, source: access.offset(from), place: Some(place), offset: 0 };
        let new = NewInst::new(Opcode::CpAsync, &[to, address, read], &[Ty::Event]);
        self.at().value(new.attr(Attr::Copy(attr)).guard(guard))
    }
}
