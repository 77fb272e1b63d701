//! Gathers: the tile goes to shared memory, and each thread reads the elements that its indices name.
//!
//! ```text
//!  y[i, j] = x[index[i, j], j]      x ─► scratch buffer ─► one read for each element of y
//! ```

use super::coords::register_coord;
use super::{Low, Lower};
use crate::Result;
use crate::plan::cell_bits;
use crate::tiles::layout_error;
use warplift_ir::layout::{Axis, Builder};
use warplift_ir::machine::{self, Attr, IndexMap, NewInst, Place, Ty};
use warplift_ir::target::Opcode;
use warplift_ir::tile::Inst;
use warplift_ir::types::Elem;

impl Lower<'_, '_> {
    /// `x[.., index[..], ..]` along a dimension.
    pub(super) fn lower_gather(&mut self, inst: Inst, dim: usize) -> Result<()> {
        let k = self.k;
        let (arg, index, result) = (k.args(inst)[0], k.args(inst)[1], k.result(inst));
        let elem = k.ty(arg).elem();
        let bytes = cell_bits(elem) / 8;
        if ![2, 4].contains(&bytes) || k.ty(index).elem().bits() != 32 {
            return match k.ty(index).elem() {
                Elem::Int(32) | Elem::Uint(32) => self.refuse_tiles(elem),
                by => self.error(format!("`gather` by indices of {by} does not compile: `cast` them to i32")),
            };
        }
        if let Some(Low::Splat(_)) = self.env.get(&arg) {
            return self.alias(result, arg);
        }
        let error = layout_error(k, inst);
        let from = self.plan.layout(k, arg)?.clone();
        let to = self.plan.layout(k, result)?.clone();
        let size: u64 = from.outs().iter().map(|o| o.1).product();
        let mut memory = Builder::new(&[(Axis::Mem, size)]);
        let mut beside = Builder::new(&[(Axis::Mem, size)]);
        let (mut stride, mut along) = (size, 1);
        for (d, &(axis, extent)) in from.outs().iter().enumerate() {
            stride /= extent;
            memory = memory.add(axis, extent, &[stride]);
            beside = beside.add(axis, to.outs()[d].1, &[if d == dim { 0 } else { stride }]);
            along = if d == dim { stride } else { along };
        }
        let write = from.then(&memory.build().map_err(&error)?).map_err(&error)?;
        let read = to.then(&beside.build().map_err(&error)?).map_err(&error)?;
        let buffer = self.scratch("gathered".to_owned(), size, elem);
        let x = self.materialize(arg, arg)?;
        let owner = self.owner(&from);
        let write = self.shared_access(&write, buffer, elem, true)?;
        self.store_fragment(x, elem, &write, owner)?;
        let own = self.thread_coord(&read, 0)?;
        let own = self.at_entry().mul_imm(own, bytes as i64);
        let scale = self.at_entry().imm((along * bytes) as i64);
        let index = self.materialize(index, result)?;
        let op = if bytes == 2 { Opcode::LdShared16 } else { Opcode::LdShared };
        let mut parts = Vec::new();
        for r in 0..to.in_extent(Axis::Reg) {
            let maps = [IndexMap::Table([r as u16].into()), IndexMap::Whole, IndexMap::Whole];
            let new = NewInst::new(Opcode::MadS32, &[index, scale, own], &[Ty::B32]);
            let address = self.at().value(new.maps(maps.into_iter().collect()));
            let place = Place { buffer, offset: (register_coord(&read, r)[0] * bytes) as u32 };
            let new = NewInst::new(op, &[address], &[Ty::B32]).attr(Attr::PlaceMem { place, count: 1 });
            parts.push(self.at().value(new));
        }
        let regs = parts.len() as u16;
        let all: machine::Value = self.at().value(NewInst::new(Opcode::Join, &parts, &[Ty::frag(regs)]));
        let r = match bytes {
            2 => self.pair_cells(all, &(0..regs).collect::<Vec<u16>>()),
            _ => all,
        };
        self.set(result, r);
        Ok(())
    }
}
