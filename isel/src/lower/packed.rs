//! Loads of packed arrays: one bulk copy brings a tile. Tiles of a row of tiles are contiguous, then those of the next
//! row, then those of the next outer index.
//!
//! ```text
//!  outer index o, row r, column c ─► base + o * (bytes of an outer index) + r * (bytes of a row) + c * (bytes of a column)
//!  an index outside               ─► the tile of zeros behind the last: o = all of them, r = c = 0
//! ```

use super::Lower;
use super::view::View;
use crate::Result;
use crate::facts::launch_expr;
use crate::plan::packed::maybe_outside;
use crate::tiles::array;
use crate::window::Window;
use warplift_ir::machine::{self, Attr, Buffer, CacheHint, NewInst, Place, TmaAttr, Ty};
use warplift_ir::manifest::{Expr, ExprOp, Packing, PackingDigit};
use warplift_ir::target::Opcode;
use warplift_ir::tile::{CmpOp, Inst, Op, Value};

/// A packed array, and the extents of the tiles that are read.
struct Packed {
    window: Window,
    whole: View,
    tile: [i64; 2],
    bits: i64,
}

impl Packed {
    fn rank(&self) -> usize {
        self.whole.extents.len()
    }

    /// Extents of the last two dimensions.
    fn extents(&self) -> [machine::Value; 2] {
        [self.rank() - 2, self.rank() - 1].map(|d| self.whole.extents[d])
    }
}

/// Where a tile starts.
struct Start {
    /// The outer indices as one; none if it is 0.
    outer: Option<machine::Value>,
    row: machine::Value,
    column: machine::Value,
}

impl Lower<'_, '_> {
    /// Starts the copy of a tile, and gives its event.
    pub(super) fn stage_packed(
        &mut self,
        inst: Inst,
        tile: [u32; 2],
        digits: &[PackingDigit],
        buffer: Buffer,
        hint: CacheHint,
    ) -> Result<machine::Value> {
        let (k, view) = (self.k, self.k.args(inst)[0]);
        let packed = self.packed(view, tile)?;
        let mut outside = maybe_outside(k, inst, tile);
        if self.neighbours > 1 {
            // Blocks past the end of the grid may have any outer index.
            let known: Vec<usize> = outside.iter().map(|o| o.0).collect();
            outside.extend(packed.window.fixed.iter().filter(|f| !known.contains(&f.0)).copied());
        }
        self.packed_argument(&packed, tile, digits, !outside.is_empty())?;
        let mut start = self.start_of(inst, &packed)?;
        if !outside.is_empty() {
            start = self.or_zeros(&packed, start, &outside)?;
        }
        let address = self.address_of(&packed, start);
        let bytes = tile[0] * tile[1] * k.ty(view).elem().bits() / 8;
        let place = Some(Place { buffer, offset: 0 });
        let before_wait = array(k, inst).before_wait;
        let attr = TmaAttr { map: 0, rank: 0, bytes, place, multicast: 0, hint, before_wait };
        let new = NewInst::new(Opcode::BulkLoad, &[address], &[Ty::Event]).attr(Attr::Tma(attr));
        Ok(self.at().value(new))
    }

    fn packed(&self, view: Value, tile: [u32; 2]) -> Result<Packed> {
        let k = self.k;
        let plain = |w: &Window| matches!(k.insts[w.whole].op, Op::View { strided: false, .. });
        let Some(window) = Window::of(k, view).filter(plain) else {
            return self.error("a packed array is a view with neither strides nor a loop around it");
        };
        let whole = self.view(k.result(window.whole))?;
        let rank = whole.extents.len();
        if rank < 2 || window.kept[..] != [rank - 2, rank - 1] {
            return self.error("a packed array is read in tiles of its last two dimensions");
        }
        let bits = k.ty(view).elem().bits().into();
        Ok(Packed { window, whole, tile: tile.map(i64::from), bits })
    }

    fn start_of(&mut self, inst: Inst, packed: &Packed) -> Result<Start> {
        let args = self.k.args(inst);
        let mut fixed = packed.window.fixed.clone();
        fixed.sort_unstable_by_key(|f| f.0);
        let mut outer = None;
        for (d, index) in fixed {
            let index = self.scalar(index)?;
            outer = Some(match outer {
                None => index,
                Some(o) => self.at().op(Opcode::MadS32, &[o, packed.whole.extents[d], index], Ty::B32),
            });
        }
        let [rows, columns] = packed.extents();
        let (row, column) = (self.scalar(args[1])?, self.scalar(args[2])?);
        let row = self.of_a_tile(row, rows, packed.tile[0]);
        Ok(Start { outer, row, column: self.of_a_tile(column, columns, packed.tile[1]) })
    }

    /// An index that lies in the array. Blocks past the end of the grid read the last tile instead: they store nothing.
    fn of_a_tile(&mut self, index: machine::Value, extent: machine::Value, tile: i64) -> machine::Value {
        if self.neighbours <= 1 {
            return index;
        }
        let last = self.at().add_imm(extent, -1);
        let wide = self.at().imm(tile);
        let number = self.at().int(Opcode::DivU32, last, wide);
        let last = self.at().mul_imm(number, tile);
        self.at().int(Opcode::MinS32, index, last)
    }

    /// The start of the zeros where an index is outside.
    fn or_zeros(&mut self, packed: &Packed, start: Start, outside: &[(usize, Value)]) -> Result<Start> {
        let (one, zero) = (self.at().imm(1), self.at().imm(0));
        let outer = &packed.whole.extents[..packed.rank() - 2];
        let behind = outer.iter().fold(one, |all, &e| self.at().int(Opcode::MulS32, all, e));
        let mut at = [(start.outer.unwrap_or(zero), behind), (start.row, zero), (start.column, zero)];
        for &(d, index) in outside {
            let index = self.scalar(index)?;
            // The comparison is unsigned, so a negative index is outside too.
            let compared = NewInst::new(Opcode::SetpU32, &[index, packed.whole.extents[d]], &[Ty::Pred]);
            let inside = self.at().value(compared.attr(Attr::Cmp(CmpOp::Lt)));
            for (x, otherwise) in &mut at {
                *x = self.at().op(Opcode::Selp, &[*x, *otherwise, inside], Ty::B32);
            }
        }
        Ok(Start { outer: Some(at[0].0), row: at[1].0, column: at[2].0 })
    }

    fn address_of(&mut self, packed: &Packed, start: Start) -> machine::Value {
        let ([rows, columns], [tall, wide]) = (packed.extents(), packed.tile);
        let across = self.tiles_of(columns, wide);
        // Indices are multiples of the tile, so one row's share of a row of tiles is a whole number of bytes.
        let row_bytes = self.at().mul_imm(across, wide * packed.bits / 8);
        let column_bytes = self.at().imm(tall * packed.bits / 8);
        let mut at = packed.whole.base;
        if let Some(outer) = start.outer {
            let down = self.tiles_of(rows, tall);
            let all_rows = self.at().mul_imm(down, tall);
            let outer_bytes = self.at().int(Opcode::MulS32, all_rows, row_bytes);
            at = self.at().op(Opcode::MadWideS32, &[outer, outer_bytes, at], Ty::B64);
        }
        at = self.at().op(Opcode::MadWideS32, &[start.row, row_bytes, at], Ty::B64);
        self.at().op(Opcode::MadWideS32, &[start.column, column_bytes, at], Ty::B64)
    }

    /// Tiles along an extent, the last one filled with zeros.
    fn tiles_of(&mut self, extent: machine::Value, tile: i64) -> machine::Value {
        let up = self.at().add_imm(extent, tile - 1);
        let wide = self.at().imm(tile);
        self.at().int(Opcode::DivU32, up, wide)
    }

    /// Writes the packing of the argument to the manifest. All loads of an argument want the same one.
    fn packed_argument(
        &mut self,
        packed: &Packed,
        tile: [u32; 2],
        digits: &[PackingDigit],
        zeros: bool,
    ) -> Result<()> {
        let (k, pointer) = (self.k, packed.window.pointer(self.k));
        let Some(name) = k.params.iter().find(|p| p.value == pointer).map(|p| p.name.clone()) else {
            return self.error("a packed array at an address that is no argument");
        };
        let extents = (0..packed.rank()).map(|d| launch_expr(k, packed.window.extent(k, d)));
        let Some(mut outer) = extents.collect::<Option<Vec<Expr>>>() else {
            return self.error("a packed array whose extents are not known at launch");
        };
        self.limit_bytes(&name, packed, &outer)?;
        let last = outer.split_off(packed.rank() - 2);
        let Ok(extents) = <[Expr; 2]>::try_from(last) else {
            return self.error("a packed array has two dimensions or more");
        };
        let new = Packing { outer, extents, tile, bits: packed.bits as u32, digits: digits.to_vec(), zeros };
        self.add_packing(name, new)
    }

    fn add_packing(&mut self, name: String, new: Packing) -> Result<()> {
        let Some((_, found)) = self.packings.iter_mut().find(|p| p.0 == name) else {
            self.packings.push((name, new));
            return Ok(());
        };
        found.zeros |= new.zeros;
        if *found == (Packing { zeros: found.zeros, ..new }) {
            return Ok(());
        }
        self.error(format!("`{name}` is packed once, and two loads hold it in different orders"))
    }

    /// The bytes of one row's share of a row of tiles, and of an outer index, must fit in a step.
    fn limit_bytes(&mut self, name: &str, packed: &Packed, extents: &[Expr]) -> Result<()> {
        let tiles = |d: usize, tile: i64| {
            let extent = extents[packed.rank() - 2 + d].clone();
            Expr::op(ExprOp::CeilDiv, extent, Expr::Const(tile))
        };
        let [tall, wide] = packed.tile;
        let row = Expr::op(ExprOp::Mul, tiles(1, wide), Expr::Const(wide * packed.bits / 8));
        self.limit(row.clone(), format!("a packed row of `{name}` in bytes"))?;
        if packed.window.fixed.is_empty() {
            return Ok(());
        }
        let rows = Expr::op(ExprOp::Mul, tiles(0, tall), Expr::Const(tall));
        let all = Expr::op(ExprOp::Mul, rows, row);
        self.limit(all, format!("a packed array of `{name}` in bytes, for one outer index"))
    }
}
