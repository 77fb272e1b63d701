//! Tensor copies, warpgroup MMAs, and stores that are staged through shared memory.
//!
//! ```text
//!  load  ─► cp.async.bulk.tensor, one for each slab ─► smem
//!  mma   ─► wgmma over atoms and k-steps, one event
//!  store ─► stmatrix ─► staging buffer ─► cp.async.bulk.tensor
//! ```

use super::{Low, Lower};
use crate::boxes::{box_of_rows, flat};
use crate::facts::launch_bound;
use crate::plan::{SharedTile, StorePlan, Stripes};
use crate::tiles::{array, extents, indices_along, layout_error, runs, subtracts};
use crate::window::Window;
use crate::{IselError, Result};
use warplift_ir::layout::{Axis, Builder, Layout};
use warplift_ir::machine::{
    self, Attr, Buffer, BufferData, BufferKind, CacheHint, NewInst, Place, SharedOperand, TmaAttr, Ty,
    WgmmaAttr,
};
use warplift_ir::manifest::{Expr, ExprOp, Param, TensorMap};
use warplift_ir::target::Opcode;
use warplift_ir::tile::{Inst, Value};
use warplift_ir::types::Elem;

/// Rows of a warp's stripe of an accumulator.
const STRIPE: u32 = 16;

impl Lower<'_, '_> {
    /// The tensor map of a view, box and swizzle: its parameter number. Equal maps are shared.
    pub(super) fn tensor_map(
        &mut self,
        view: Value,
        inner_dim: usize,
        box_dims: &[u32],
        swizzle: u32,
    ) -> Result<u32> {
        self.tensor_map_of(view, inner_dim, box_dims, swizzle, 1)
    }

    /// The same with `unit` elements counted as one; they fill an unsigned integer of 8 to 64 bits.
    pub(super) fn tensor_map_of(
        &mut self,
        view: Value,
        inner_dim: usize,
        box_dims: &[u32],
        swizzle: u32,
        unit: u32,
    ) -> Result<u32> {
        let k = self.k;
        let refuse = || IselError::at(k, self.inst, "a view that a tensor map cannot describe");
        let window = Window::of(k, view).ok_or_else(refuse)?;
        let pointer = window.pointer(k);
        let Some(base) = k.params.iter().find(|p| p.value == pointer) else {
            return self.error("a tensor copy starts at an argument: this view's address is computed; say `plain` of the array");
        };
        let elem = k.ty(view).elem();
        let element = match unit {
            1 => tma_type(elem)
                .ok_or_else(|| IselError::at(k, window.whole, format!("tensor copies of {elem}")))?
                .to_owned(),
            _ => format!("u{}", unit * elem.bits()),
        };
        let row_bytes = box_dims[0] * unit * elem.bits() / 8;
        let promotion = self.target.l2_promotion;
        let outer = window.outer(k).ok_or_else(refuse)?;
        let dims = std::iter::once(window.kept[inner_dim]).chain(outer.iter().copied());
        let dims = dims.map(|d| launch_bound(k, window.extent(k, d)).ok_or_else(refuse));
        let mut dims: Vec<Expr> = dims.collect::<Result<_>>()?;
        if unit > 1 {
            let elements = std::mem::replace(&mut dims[0], Expr::zero());
            dims[0] = Expr::op(ExprOp::Div, elements, Expr::Const(unit.into()));
        }
        let strides = outer.iter().map(|&d| {
            let elements = window.map_stride(k, d).ok_or_else(refuse)?;
            Ok(match elem.bits() {
                bits @ 0..8 => Expr::op(ExprOp::Div, elements, Expr::Const(i64::from(8 / bits))),
                bits => Expr::op(ExprOp::Mul, elements, Expr::Const(i64::from(bits / 8))),
            })
        });
        let mut map = TensorMap {
            base: base.name.clone(),
            offset: Expr::zero(),
            element,
            dims,
            strides: strides.collect::<Result<_>>()?,
            box_dims: box_dims
                .iter()
                .copied()
                .take(window.kept.len())
                .chain(window.fixed.iter().map(|_| 1))
                .collect(),
            swizzle,
            // Rows of whole L2 lines gain nothing by fetching more: a copy of long rows is one percent slower.
            l2_promotion: if row_bytes < promotion { promotion } else { 0 },
        };
        self.make_ragged(&mut map, view);
        Ok(self.shared_param(Param::TensorMap(map)))
    }

    /// The number of a parameter. Equal ones are shared.
    fn shared_param(&mut self, param: Param) -> u32 {
        let found = self.params.iter().position(|p| *p == param);
        found.unwrap_or_else(|| {
            self.params.push(param);
            self.params.len() - 1
        }) as u32
    }

    /// One tensor copy for each slab of a tile, or of each of its runs of rows.
    pub(super) fn lower_tma_load(&mut self, inst: Inst, tile: &SharedTile) -> Result<()> {
        let k = self.k;
        let args = k.args(inst).to_vec();
        let result = k.result(inst);
        let [outer, inner] = tile.extents;
        let shape = extents(k, result);
        let last = shape.len() - 1;
        let runs = runs(k, inst);
        let (inner_dim, box_rows) = match last {
            1 => (tile.inner_dim, vec![outer / runs]),
            _ => (last, shape[..last].iter().rev().copied().collect()),
        };
        let (bytes, run_bytes) = (outer * tile.row_bytes, outer / runs * tile.row_bytes);
        let name = self.name_of(result);
        let total = bytes * (inner / tile.slab);
        let buffer =
            self.buffers.push(BufferData { name, bytes: total, align: 1024, kind: BufferKind::Ring });
        let start = self.scalar(indices_along(k, inst, inner_dim)[0])?;
        let across = match last {
            1 => {
                let rows = indices_along(k, inst, 1 - inner_dim).iter();
                rows.map(|&row| self.row_coordinates(args[0], row, 0)).collect::<Result<Vec<_>>>()?
            }
            _ => {
                let own = args[1..=last].iter().rev().map(|&v| self.scalar(v));
                vec![[own.collect::<Result<Vec<_>>>()?, self.fixed_indices(args[0])?].concat()]
            }
        };
        let before_wait = array(k, inst).before_wait;
        let mut event = None;
        for slab in 0..inner / tile.slab {
            let first = slab * tile.slab;
            // A box that is narrower than the span keeps its pitch.
            let columns = tile.slab.min(shape[inner_dim] - first);
            let map =
                self.tensor_map(args[0], inner_dim, &[&[columns], &box_rows[..]].concat(), tile.swizzle)?;
            let column = self.at().add_imm(start, first.into());
            let bytes_each = run_bytes / tile.slab * columns;
            for (run, across) in (0..).zip(&across) {
                let place = Some(Place { buffer, offset: slab * bytes + run * run_bytes });
                let at = [&[column], &across[..]].concat();
                let (rank, hint) = (at.len() as u8, CacheHint::Normal);
                let attr = TmaAttr { map, rank, bytes: bytes_each, place, multicast: 0, hint, before_wait };
                let new = NewInst::new(Opcode::TmaLoad, &at, &[Ty::Event]).attr(Attr::Tma(attr));
                event = Some(self.at().value(new));
            }
        }
        self.has_tma = true;
        self.filled.insert(inst, (buffer, event));
        Ok(())
    }

    /// The coordinates of the row so many rows behind one of a view of rows.
    pub(super) fn row_coordinates(
        &mut self,
        view: Value,
        row: Value,
        behind: u32,
    ) -> Result<Vec<machine::Value>> {
        let row = self.scalar(row)?;
        let row = if behind > 0 { self.at().add_imm(row, behind.into()) } else { row };
        let (row, others) = self.outer_coordinates(view, row)?;
        Ok([vec![row], others].concat())
    }

    /// Indices of the dimensions that a view fixes, in the order of its tensor map.
    pub(super) fn fixed_indices(&self, view: Value) -> Result<Vec<machine::Value>> {
        let fixed = Window::of(self.k, view).map(|w| w.fixed).unwrap_or_default();
        fixed.iter().map(|&(_, v)| self.scalar(v)).collect()
    }

    /// An MMA of tiles. By warpgroups: one `wgmma` row repeated over atoms and k-steps, with one await.
    pub(super) fn lower_product(&mut self, inst: Inst) -> Result<()> {
        let (k, plan) = (self.k, self.plan);
        if let Some(p) = plan.warp_products.get(&inst) {
            return self.lower_warp_product(inst, p);
        }
        let p = plan.products[&inst].clone();
        let args = k.args(inst).to_vec();
        let result = k.result(inst);
        let ty = self.ty(result)?;
        let frag = Ty::Frag { regs: ty.regs() as u16, atom: (p.n / 2) as u16 };
        let begun = self.begin_zero_point(inst)?;
        let zeros =
            matches!(self.env.get(&args[0]), Some(Low::Splat(s)) if self.func.constant(*s) == Some(0));
        let zero = zeros && begun.is_none();
        let acc = match begun {
            Some(sums) => sums,
            None if zero => self.at().op(Opcode::Undef, &[], frag),
            None => self.materialize(args[0], result)?,
        };
        let keep = self.at().imm_of(Ty::Pred, i64::from(!zero));
        let mut operands = vec![acc, keep];
        let placed = |l: &Self, load: Inst, operand: &SharedOperand| {
            let buffer = l.filled.get(&load).map(|f| f.0);
            let buffer = buffer.ok_or_else(|| {
                IselError::at(k, inst, "an operand loaded where this product cannot see it")
            })?;
            Ok(SharedOperand { place: Place { buffer, offset: operand.place.offset }, ..operand.clone() })
        };
        let a = match &p.a {
            Some((load, operand)) => Some(placed(self, *load, operand)?),
            None => {
                operands.push(self.materialize(args[1], args[1])?);
                None
            }
        };
        let attr = WgmmaAttr {
            n: p.n as u16,
            elem: k.ty(args[1]).elem(),
            right: k.ty(args[2]).elem(),
            acc: k.ty(result).elem(),
            m_atoms: p.m_atoms as u8,
            n_atoms: p.n_atoms as u8,
            k_steps: p.k_steps as u8,
            negated: subtracts(k, inst),
            a,
            b: placed(self, p.b.0, &p.b.1)?,
        };
        let new = NewInst::new(Opcode::Wgmma, &operands, &[]).attr(Attr::Wgmma(Box::new(attr)));
        let results = [frag, Ty::Event].into_iter().collect();
        let made = self.at().push(NewInst { results, ..new });
        let [sum, event] = [self.func.insts[made].results[0], self.func.insts[made].results[1]];
        self.at().push(NewInst::new(Opcode::Await, &[event], &[]));
        let low = self.end_zero_point(inst, sum);
        self.env.insert(result, low);
        Ok(())
    }

    /// A store, as planned.
    pub(super) fn lower_store(&mut self, inst: Inst) -> Result<()> {
        let Some(&value) = self.k.args(inst).last() else { return self.error("store without a value") };
        match self.plan.stores.get(&inst).cloned() {
            Some(StorePlan::Bulk(stripes)) => self.store_bulk(inst, value, &stripes),
            _ => self.store_plain(inst, value),
        }
    }

    /// Each warp writes its stripes to its part of a staging buffer, then stores them by tensor copies.
    fn store_bulk(&mut self, inst: Inst, value: Value, s: &Stripes) -> Result<()> {
        let k = self.k;
        let x = self.materialize(value, value)?;
        let stripe_bytes = if s.transposed { s.columns } else { STRIPE } * s.row_bytes;
        let own_bytes = s.atoms * s.slabs * stripe_bytes;
        let buffer = self.staging_buffer(k.attrs[inst].team.warps() * own_bytes);
        let args = k.args(inst).to_vec();
        let shape = extents(k, value);
        let last = shape.len() - 1;
        let map = self.stripe_map(args[0], s, &shape[..last])?;
        let layout = self.plan.layout(k, flat(k, value))?.clone();
        let warp = self.warp();
        let part = self.at_entry().mul_imm(warp, i64::from(own_bytes));
        let elem = k.ty(value).elem();
        let place = |atom: u32, slab: u32| Place { buffer, offset: (atom * s.slabs + slab) * stripe_bytes };
        let all = || (0..s.atoms).flat_map(|atom| (0..s.slabs).map(move |slab| (atom, slab)));
        for (atom, slab) in all() {
            let first = (atom * s.slabs + slab) * s.columns / 2;
            match s.transposed {
                true => self.write_transposed(x, s, first, part, place(atom, slab))?,
                false => self.write_stripe(x, elem, s, first, part, place(atom, slab))?,
            }
        }
        let own = [self.warp_coord(&layout, 0)?, self.warp_coord(&layout, 1)?];
        let first = match last {
            1 => Some(self.first_of_stripes(&args, s, own)?),
            _ => None,
        };
        for (atom, slab) in all() {
            let moved = [atom * s.step, slab * s.columns].map(i64::from);
            let inside = match &first {
                Some(([row, column], others)) => {
                    let row = self.at().add_imm(*row, moved[0]);
                    let column = self.at().add_imm(*column, moved[1]);
                    let inside = if s.transposed { [row, column] } else { [column, row] };
                    [&inside[..], others].concat()
                }
                None => self.box_of_stripe(&args, own, moved, &shape[..last])?,
            };
            let place = Some(place(atom, slab));
            let at = [&[part], &inside[..]].concat();
            let (rank, bytes) = (at.len() as u8 - 1, stripe_bytes);
            let attr = TmaAttr {
                map,
                rank,
                bytes,
                place,
                multicast: 0,
                hint: CacheHint::Normal,
                before_wait: false,
            };
            let new = NewInst::new(Opcode::TmaStore, &at, &[]).attr(Attr::Tma(attr));
            self.at().push(new);
        }
        Ok(())
    }

    /// The tensor map of a warp's stripe, in a tile with these leading dimensions.
    fn stripe_map(&mut self, view: Value, s: &Stripes, leading: &[u32]) -> Result<u32> {
        if s.transposed {
            return self.tensor_map(view, 0, &[STRIPE, s.columns], s.swizzle);
        }
        let mut rows = box_of_rows(leading, STRIPE).unwrap_or_else(|| vec![STRIPE]);
        rows.reverse();
        self.tensor_map(view, leading.len(), &[&[s.columns], &rows[..]].concat(), s.swizzle)
    }

    /// Row and column of a warp's first stripe of a tile of two dimensions, and the coordinates that the view fixes. `own`:
    /// the warp's place in the tile.
    fn first_of_stripes(
        &mut self,
        args: &[Value],
        s: &Stripes,
        own: [machine::Value; 2],
    ) -> Result<([machine::Value; 2], Vec<machine::Value>)> {
        let (row, column) = (self.scalar(args[1])?, self.scalar(args[2])?);
        let (row, column) = (self.at().add(row, own[0]), self.at().add(column, own[1]));
        // Of a transposed stripe, rows are contiguous; another dimension may be counted from its end.
        let outer = if s.transposed { column } else { row };
        let (outer, others) = self.outer_coordinates(args[0], outer)?;
        Ok((if s.transposed { [row, outer] } else { [outer, column] }, others))
    }

    /// The coordinates of a warp's stripe of a tile with more dimensions, `moved` from its first one.
    fn box_of_stripe(
        &mut self,
        args: &[Value],
        own: [machine::Value; 2],
        moved: [i64; 2],
        leading: &[u32],
    ) -> Result<Vec<machine::Value>> {
        let start = self.scalar(args[1 + leading.len()])?;
        let column = self.at().add(start, own[1]);
        let column = self.at().add_imm(column, moved[1]);
        let row = self.at().add_imm(own[0], moved[0]);
        let mut across = Vec::new();
        for (place, &first) in self.places_of_row(row, leading).into_iter().zip(&args[1..]) {
            let first = self.scalar(first)?;
            across.push(self.at().add(first, place));
        }
        across.reverse();
        Ok([vec![column], across, self.fixed_indices(args[0])?].concat())
    }

    /// The places of a tile's row in its leading dimensions, from the outside in.
    fn places_of_row(&mut self, row: machine::Value, leading: &[u32]) -> Vec<machine::Value> {
        let mut left = row;
        let mut places = Vec::new();
        for &extent in leading.iter().rev() {
            let extent = self.at().imm(extent.into());
            places.push(self.at().int(Opcode::RemU32, left, extent));
            left = self.at().int(Opcode::DivU32, left, extent);
        }
        places.reverse();
        places
    }

    fn staging_buffer(&mut self, bytes: u32) -> Buffer {
        if let Some(&b) = self.staging.get(&bytes) {
            return b;
        }
        let name = "staging".to_owned();
        let b = self.buffers.push(BufferData { name, bytes, align: 1024, kind: BufferKind::Staging });
        self.staging.insert(bytes, b);
        b
    }

    /// One 16-row stripe of the warp with its columns as rows, by `stmatrix.trans`.
    fn write_transposed(
        &mut self,
        x: machine::Value,
        s: &Stripes,
        start: u32,
        part: machine::Value,
        place: Place,
    ) -> Result<()> {
        let step: u32 = if s.columns.is_multiple_of(16) { 16 } else { 8 };
        let lanes = transposed_lanes(step.into());
        let to = lanes.and_then(|l| l.then(&s.layout)).map_err(layout_error(self.k, self.inst))?;
        let own = self.thread_coord(&to, 0)?;
        let own = self.at_entry().mul_imm(own, 2);
        for column in (0..s.columns).step_by(step as usize) {
            let moved = s.layout.apply(&[column.into(), 0])[0] as i64 * 2;
            let c = self.at_entry().imm(moved);
            let inside = self.at_entry().int(Opcode::Xor, own, c);
            let offset = self.at_entry().add(part, inside);
            let first = ((start + column / 2) / 2) as u16;
            let count = step as u16 / 4;
            let regs = self.pick(x, (first..first + count).collect());
            let attr = Attr::Matrix {
                count: count as u8,
                trans: true,
                offset: place.offset as i32,
                buffer: Some(place.buffer),
            };
            self.at().push(NewInst::new(Opcode::Stmatrix, &[offset, regs], &[]).attr(attr));
        }
        Ok(())
    }

    /// One 16-row stripe of the warp, from element `start` of its registers on: `stmatrix` for 16-bit elements; else a store of
    /// each pair of elements.
    fn write_stripe(
        &mut self,
        x: machine::Value,
        elem: Elem,
        s: &Stripes,
        start: u32,
        part: machine::Value,
        place: Place,
    ) -> Result<()> {
        let bytes = elem.bits() / 8;
        let matrices = elem.bits() == 16;
        let lanes = if matrices { matrix_lanes() } else { pair_lanes() };
        let to = lanes.and_then(|l| l.then(&s.layout)).map_err(layout_error(self.k, self.inst))?;
        let own = self.thread_coord(&to, 0)?;
        let own = self.at_entry().mul_imm(own, bytes.into());
        let (step, halves) = if matrices { (16, 1) } else { (8, 2) };
        for column in (0..s.columns).step_by(step) {
            for half in 0..halves {
                let moved =
                    s.layout.apply(&[u64::from(half) * 8, column.into()])[0] as i64 * i64::from(bytes);
                let c = self.at_entry().imm(moved);
                let inside = self.at_entry().int(Opcode::Xor, own, c);
                let offset = self.at_entry().add(part, inside);
                // Elements of the atom in order: (rows 0..8, 8..16) within 8 columns, then the next 8 columns.
                let first = start + column / 2 + 2 * half;
                self.write_part(x, bytes, first, offset, place);
            }
        }
        Ok(())
    }

    /// What a thread writes of a stripe at once, from an element of its registers on: four matrices of 16-bit elements, or a
    /// pair of others.
    fn write_part(
        &mut self,
        x: machine::Value,
        bytes: u32,
        first: u32,
        offset: machine::Value,
        place: Place,
    ) {
        let r = (first * bytes / 4) as u16;
        let (op, stored, attr) = match bytes {
            1 => (Opcode::StShared16, self.half(x, (first / 2) as u16), Attr::PlaceMem { place, count: 1 }),
            2 => {
                let (offset, buffer) = (place.offset as i32, Some(place.buffer));
                let matrices = self.pick(x, (r..r + 4).collect());
                (Opcode::Stmatrix, matrices, Attr::Matrix { count: 4, trans: false, offset, buffer })
            }
            _ => (Opcode::StShared, self.pick(x, (r..r + 2).collect()), Attr::PlaceMem { place, count: 2 }),
        };
        self.at().push(NewInst::new(op, &[offset, stored], &[]).attr(attr));
    }
}

/// Row addresses that the lanes of `stmatrix.x4.trans` give: 16 columns, two halves of 8 rows each.
fn transposed_lanes(columns: u64) -> std::result::Result<Layout, warplift_ir::layout::LayoutError> {
    Builder::new(&[(Axis::Dim(0), columns), (Axis::Dim(1), 16)])
        .axis(Axis::Lane)
        .add(Axis::Lane, 8, &[1, 0])
        .add(Axis::Lane, 2, &[0, 8])
        .add(Axis::Lane, 2, &[if columns > 8 { 8 } else { 0 }, 0])
        .build()
}

/// Row addresses that the lanes of `stmatrix.x4` give: 16 rows, two halves of 8 columns.
fn matrix_lanes() -> std::result::Result<Layout, warplift_ir::layout::LayoutError> {
    Builder::new(&[(Axis::Dim(0), 16), (Axis::Dim(1), 16)])
        .axis(Axis::Lane)
        .add(Axis::Lane, 16, &[1, 0])
        .add(Axis::Lane, 2, &[0, 8])
        .build()
}

/// Elements that the lanes hold of an accumulator's 8 rows and 8 columns, in pairs.
fn pair_lanes() -> std::result::Result<Layout, warplift_ir::layout::LayoutError> {
    Builder::new(&[(Axis::Dim(0), 8), (Axis::Dim(1), 8)])
        .axis(Axis::Lane)
        .add(Axis::Lane, 4, &[0, 2])
        .add(Axis::Lane, 8, &[1, 0])
        .build()
}

/// Name of an element type as a tensor map has it.
fn tma_type(elem: Elem) -> Option<&'static str> {
    Some(match elem {
        Elem::F16 => "f16",
        Elem::Bf16 => "bf16",
        Elem::F32 | Elem::Tf32 => "f32",
        Elem::F64 => "f64",
        Elem::Int(32) => "i32",
        Elem::Uint(32) => "u32",
        Elem::Int(64) => "i64",
        Elem::Uint(64) => "u64",
        _ if elem.bits() == 8 => "u8",
        _ => return None,
    })
}
