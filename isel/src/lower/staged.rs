//! Tiles that come to registers through a ring: asynchronous copies, and the threads' reads of a full stage.

use super::{Low, Lower};
use crate::Result;
use crate::facts::launch_expr;
use crate::operand::array;
use crate::plan::{Staged, StagedFill};
use crate::tiles::extents;
use crate::window::Window;
use warplift_ir::layout::Axis;
use warplift_ir::machine::{
    self, Attr, Buffer, BufferData, BufferKind, CacheHint, NewInst, Place, TmaAttr, Ty,
};
use warplift_ir::manifest::{Expr, ExprOp, Packing, PackingDigit};
use warplift_ir::target::Opcode;
use warplift_ir::tile::{Inst, Op, Value};

/// Alignment of a stage that no swizzle constrains.
const ALIGN: u32 = 128;

impl Lower<'_, '_> {
    /// Starts the copies of a staged tile.
    pub(super) fn lower_staged_load(&mut self, inst: Inst, staged: &Staged) -> Result<()> {
        let name = self.name_of(self.k.result(inst));
        let data = BufferData { name, bytes: staged.bytes, align: ALIGN, kind: BufferKind::Ring };
        let buffer = self.buffers.push(data);
        let hint = if staged.stream { CacheHint::First } else { CacheHint::Normal };
        let event = match &staged.fill {
            StagedFill::Tensor { inner_dim, slab, unit } => {
                self.stage_rows(inst, *inner_dim, [*slab, *unit], buffer, hint)?
            }
            StagedFill::Packed { tile, digits } => self.stage_unit(inst, *tile, digits, buffer, hint)?,
        };
        self.has_tma = true;
        self.filled.insert(inst, (buffer, event));
        Ok(())
    }

    fn stage_rows(
        &mut self,
        inst: Inst,
        inner_dim: usize,
        [slab, unit]: [u32; 2],
        buffer: Buffer,
        hint: CacheHint,
    ) -> Result<Option<machine::Value>> {
        let k = self.k;
        let args = k.args(inst).to_vec();
        let shape = extents(k, k.result(inst));
        let (inner, outer) = (shape[inner_dim], shape[1 - inner_dim]);
        let map = self.tensor_map_of(args[0], inner_dim, [slab / unit, outer], 0, unit)?;
        let bytes = slab * outer * k.ty(args[0]).elem().bits() / 8;
        let start = self.scalar(args[1 + inner_dim])?;
        let shift = self.at().imm(unit.ilog2().into());
        let start = self.at().int(Opcode::ShrS32, start, shift);
        let row = self.scalar(args[2 - inner_dim])?;
        let fixed = self.fixed_indices(args[0])?;
        let early = array(k, inst).early;
        let mut event = None;
        for part in 0..inner / slab {
            let column = self.at().add_imm(start, i64::from(part * slab / unit));
            let place = Some(Place { buffer, offset: part * bytes });
            let at = [&[column, row][..], &fixed].concat();
            let attr = TmaAttr { map, rank: at.len() as u8, bytes, place, multicast: 0, hint, early };
            let new = NewInst::new(Opcode::TmaLoad, &at, &[Ty::Event]).attr(Attr::Tma(attr));
            event = Some(self.at().value(new));
        }
        Ok(event)
    }

    /// A unit of a packed array: units of a row of tiles follow each other, then the next row's.
    fn stage_unit(
        &mut self,
        inst: Inst,
        tile: [u32; 2],
        digits: &[PackingDigit],
        buffer: Buffer,
        hint: CacheHint,
    ) -> Result<Option<machine::Value>> {
        let k = self.k;
        let args = k.args(inst).to_vec();
        let bits = k.ty(args[0]).elem().bits();
        self.packed_argument(args[0], tile, digits)?;
        self.limit_row(args[0], tile[1])?;
        let view = self.view(args[0])?;
        let [rows, columns] = tile.map(i64::from);
        let (row, column) = (self.scalar(args[1])?, self.scalar(args[2])?);
        let up = self.at().add_imm(view.extents[1], columns - 1);
        let wide = self.at().imm(columns);
        let across = self.at().int(Opcode::DivU32, up, wide);
        // Indices are multiples of the tile: a row's share of a row of tiles is a whole number of bytes.
        let row_bytes = self.at().mul_imm(across, columns * i64::from(bits) / 8);
        let column_bytes = self.at().imm(rows * i64::from(bits) / 8);
        let at = self.at().op(Opcode::MadWideS32, &[row, row_bytes, view.base], Ty::B64);
        let at = self.at().op(Opcode::MadWideS32, &[column, column_bytes, at], Ty::B64);
        let bytes = tile[0] * tile[1] * bits / 8;
        let place = Some(Place { buffer, offset: 0 });
        let early = array(k, inst).early;
        let attr = TmaAttr { map: 0, rank: 0, bytes, place, multicast: 0, hint, early };
        let new = NewInst::new(Opcode::BulkLoad, &[at], &[Ty::Event]).attr(Attr::Tma(attr));
        Ok(Some(self.at().value(new)))
    }

    /// A row's share of a row of tiles must be a step.
    fn limit_row(&mut self, view: Value, columns: u32) -> Result<()> {
        let (k, bits) = (self.k, self.k.ty(view).elem().bits());
        let extent = Window::of(k, view).and_then(|w| launch_expr(k, w.extent(k, *w.kept.get(1)?)));
        let Some(extent) = extent else { return Ok(()) };
        let columns = i64::from(columns);
        let across = Expr::op(ExprOp::CeilDiv, extent, Expr::Const(columns));
        let bytes = Expr::op(ExprOp::Mul, across, Expr::Const(columns * i64::from(bits) / 8));
        let name = self.name_of(view);
        self.limit(bytes, format!("a packed row of `{name}` in bytes"))
    }

    /// The manifest says how the argument is packed.
    fn packed_argument(&mut self, view: Value, tile: [u32; 2], digits: &[PackingDigit]) -> Result<()> {
        let k = self.k;
        let def = k.def(view).filter(|&d| matches!(k.insts[d].op, Op::View { strided: false, .. }));
        let Some(args) = def.map(|d| k.args(d)) else {
            return self.error("a packed array is a view with neither strides nor a loop around it");
        };
        let Some(pointer) = k.params.iter().find(|p| p.value == args[0]) else {
            return self.error("a packed array at an address that is no argument");
        };
        let (Some(rows), Some(columns)) = (launch_expr(k, args[1]), launch_expr(k, args[2])) else {
            return self.error("a packed array whose extents are not known at launch");
        };
        let bits = k.ty(view).elem().bits();
        let packing = Packing { extents: [rows, columns], tile, bits, digits: digits.to_vec() };
        self.packings.push((pointer.name.clone(), packing));
        Ok(())
    }

    /// Reads a full stage into registers.
    pub(super) fn read_stage(&mut self, inst: Inst) -> Result<()> {
        let (k, plan) = (self.k, self.plan);
        let (Some(staged), Some(&(buffer, _))) = (plan.staged.get(&inst), self.filled.get(&inst)) else {
            return Ok(());
        };
        let result = k.result(inst);
        let elem = k.ty(result).elem();
        let (to, bits) = (&staged.to_memory, staged.bits);
        let own = self.thread_coord(to, 0)?;
        let own = self.at_entry().mul_imm(own, i64::from(bits / 8));
        let most = u64::from(128 / bits);
        let run = to.contiguous(Axis::Reg, Axis::Mem);
        let vector = (1 << run.trailing_zeros()).min(most);
        let mut parts = Vec::new();
        for e in (0..to.in_extent(Axis::Reg)).step_by(vector as usize) {
            let moved = super::coords::register_coord(to, e)[0] as u32 * bits / 8;
            parts.push(self.read_part(own, Place { buffer, offset: moved }, vector as u32 * bits / 8));
        }
        parts = self.pack_parts(parts, vector as u32 * bits / 8);
        let regs = self.registers(elem, self.plan.layout(k, result)?)? as u16;
        let joined = self.at().value(NewInst::new(Opcode::Join, &parts, &[Ty::frag(regs)]));
        self.env.insert(result, Low::Reg(joined));
        Ok(())
    }

    fn read_part(&mut self, own: machine::Value, place: Place, bytes: u32) -> machine::Value {
        let (op, count) = match bytes {
            1 => (Opcode::LdShared8, 1),
            2 => (Opcode::LdShared16, 1),
            _ => (Opcode::LdShared, (bytes / 4) as u8),
        };
        let ty = if count == 1 { Ty::B32 } else { Ty::frag(count.into()) };
        self.at().value(NewInst::new(op, &[own], &[ty]).attr(Attr::PlaceMem { place, count }))
    }
}
