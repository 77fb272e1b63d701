//! Warp-level MMAs: `ldmatrix` reads fragments, `mma.sync` multiplies them step by step.
//!
//! ```text
//!  load fragments 0
//!  step s:  load fragments s + 1 ─ products of step s       the loads fly under the products
//! ```
//!
//! The rows of an 8 x 8 matrix that `ldmatrix` reads are along the contiguous dimension in memory. If that is M or N
//! instead of K, `.trans` transposes it. The address of a lane is its part of the layout plus the offset of the
//! warp's atom and the step of K. Offsets below the period of the swizzle combine by exclusive or; multiples of it
//! are constants.

use super::Lower;
use crate::operand::{WARP_ATOM, loaded};
use crate::plan::{SharedTile, WarpProduct};
use crate::tiles::{layout_error, subtracts, warps};
use crate::{IselError, Result};
use std::ops::Range;
use warplift_ir::layout::{Axis, Builder, Layout, LayoutError};
use warplift_ir::machine::{self, Attr, IndexMap, MmaAttr, NewInst, Ty};
use warplift_ir::target::Opcode;
use warplift_ir::tile::{Inst, WarpGrid};
use warplift_ir::types::Elem;

/// Rows of an atom, columns of a pair of atoms of B, depth of an instruction.
const ATOM: u32 = 16;
/// Registers of an atom of A, and of a pair of atoms of B.
const ATOM_REGS: u16 = 4;

/// Which operand of an MMA.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    A,
    B,
    /// B, whose matrices come in A's order: 16 columns, then the other half of the depth.
    BAsRows,
}

/// An operand in shared memory as the lanes of a warp read it.
pub(super) struct Matrices<'p> {
    tile: &'p SharedTile,
    buffer: machine::Buffer,
    /// Bytes of an element.
    bytes: u32,
    /// Whether the contiguous dimension is M or N.
    mn_major: bool,
    /// Byte offset of this lane's row of the first matrices.
    own: machine::Value,
    /// Step along M or N, from atom to atom (A), or from pair to pair (B).
    step: u32,
    /// Instructions along M or N, in halves of 16: a last odd half is one matrix wide.
    halves: u32,
}

/// The place of the left operand.
enum Left<'p> {
    Shared(Matrices<'p>),
    /// All of it, in the register layout of the operand.
    Registers(machine::Value),
}

impl<'p> Lower<'p, '_> {
    /// A warp-level MMA of tiles.
    pub(super) fn lower_warp_product(&mut self, inst: Inst, p: &'p WarpProduct) -> Result<()> {
        let k = self.k;
        let args = k.args(inst).to_vec();
        let result = k.result(inst);
        let ty = self.ty(result)?;
        let mut acc = self.materialize(args[0], result)?;
        let attr = MmaAttr {
            elem: k.ty(args[1]).elem(),
            acc: k.ty(result).elem(),
            m_atoms: p.m_atoms as u8,
            n_atoms: p.n_atoms as u8,
        };
        let a = p.a.map(|(load, flipped)| self.matrices(inst, p, Side::A, load, flipped)).transpose()?;
        let b = self.matrices(inst, p, Side::B, p.b.0, p.b.1)?;
        let a = match a {
            Some(matrices) => Left::Shared(matrices),
            None => Left::Registers(self.materialize(args[1], args[1])?),
        };
        let step = |l: &mut Self, s: u32| {
            let left = match &a {
                Left::Shared(a) => l.fragment(a, s),
                Left::Registers(x) => l.step_of(*x, p, s),
            };
            let left = if subtracts(k, inst) { l.negative(left, attr.elem) } else { left };
            (left, l.fragment(&b, s))
        };
        let mut next = step(self, 0);
        for s in 1..=p.k_steps {
            let (left, right) = next;
            if s < p.k_steps {
                next = step(self, s);
            }
            let new = NewInst::new(Opcode::MmaSync, &[acc, left, right], &[ty]).attr(Attr::Mma(attr));
            acc = self.at().value(new);
        }
        self.set(result, acc);
        Ok(())
    }

    /// The negative of a fragment: `mma.sync` has no sign of its own.
    fn negative(&mut self, x: machine::Value, elem: Elem) -> machine::Value {
        let row = if elem == Elem::Bf16 { Opcode::NegBf16x2 } else { Opcode::NegF16x2 };
        let regs = self.func.ty(x).regs() as u16;
        self.repeat(row, Attr::None, &[(x, IndexMap::EACH)], regs)
    }

    /// The right operand of a warpgroup MMA with all of its columns, as every warp can read it, and its number of
    /// steps of K. Sixteen columns are read as the rows of a left operand would be, which they may become
    /// (`sched::transpose_helper_mma`).
    pub(super) fn right_matrices(&mut self, inst: Inst) -> Result<(Matrices<'p>, Range<u32>)> {
        let k = self.k;
        let p = &self.plan.products[&inst];
        let missing = || IselError::at(k, inst, "a right operand that no load brings");
        let from = loaded(k, k.args(inst)[2]).ok_or_else(missing)?;
        let warp_grid = WarpGrid { rows: warps(k, inst), columns: 1, contiguous: false };
        let (b, first) = ((from.load, from.flipped), from.from[0] / WARP_ATOM[2]);
        let (n_atoms, k_steps) = (p.n / WARP_ATOM[1], p.k_steps);
        let whole = WarpProduct { warp_grid, a: None, b, m_atoms: 1, n_atoms, k_steps };
        let side = if n_atoms == 2 { Side::BAsRows } else { Side::B };
        Ok((self.matrices(inst, &whole, side, b.0, b.1)?, first..first + k_steps))
    }

    /// The fragment of such a right operand for a step of K.
    pub(super) fn right_fragment(&mut self, m: &Matrices<'_>, step: u32) -> machine::Value {
        let rows = self.fragment(m, step);
        if m.halves != 2 {
            return rows;
        }
        let maps = [IndexMap::Table(IndexMap::READ_AS_ROWS.into())].into_iter().collect();
        let ty = self.func.ty(rows);
        self.at().value(NewInst::new(Opcode::Mov, &[rows], &[ty]).maps(maps))
    }

    /// How the lanes read an operand.
    fn matrices(
        &mut self,
        inst: Inst,
        p: &WarpProduct,
        side: Side,
        load: Inst,
        flipped: bool,
    ) -> Result<Matrices<'p>> {
        let plan = self.plan;
        let tile = &plan.shared[&load];
        let buffer = self.filled.get(&load).map(|f| f.0);
        let buffer = buffer.ok_or_else(|| {
            IselError::at(self.k, inst, "an operand loaded where this product cannot see it")
        })?;
        // The MMA reads A as [m, k] and B as [k, n].
        let mn_dim = usize::from((side != Side::A) != flipped);
        let mn_major = tile.inner_dim == mn_dim;
        let elem = self.k.ty(self.k.result(load)).elem();
        let lanes = lanes(p, side, mn_major, tile.extents)
            .and_then(|l| l.then(&tile.layout))
            .map_err(layout_error(self.k, inst))?;
        let bytes = elem.bits() / 8;
        let own = self.thread_coord(&lanes, 0)?;
        let own = self.at_entry().mul_imm(own, bytes.into());
        let (step, halves) = match side {
            Side::A => (if p.warp_grid.contiguous { ATOM } else { ATOM * p.warp_grid.rows }, 2 * p.m_atoms),
            Side::B | Side::BAsRows => (ATOM, p.n_atoms),
        };
        Ok(Matrices { tile, buffer, bytes, mn_major, own, step, halves })
    }

    /// The fragment of an operand for a step of K.
    pub(super) fn fragment(&mut self, m: &Matrices<'_>, step: u32) -> machine::Value {
        let parts: Vec<machine::Value> =
            (0..m.halves.div_ceil(2)).map(|atom| self.load_matrices(m, atom, step)).collect();
        let regs = parts.iter().map(|&p| self.func.ty(p).regs() as u16).sum();
        self.at().value(NewInst::new(Opcode::Join, &parts, &[Ty::frag(regs)]))
    }

    /// One `ldmatrix`: an atom of A, or a pair of atoms of B (or the last single one).
    fn load_matrices(&mut self, m: &Matrices<'_>, atom: u32, step: u32) -> machine::Value {
        let count = if 2 * atom + 2 > m.halves { 2 } else { 4 };
        let moved = m.moved(atom * m.step, step * ATOM);
        let low = moved % m.tile.period();
        let c = self.at_entry().imm(low.into());
        let own = self.at_entry().int(Opcode::Xor, m.own, c);
        let attr =
            Attr::Matrix { count, trans: m.mn_major, offset: (moved - low) as i32, buffer: Some(m.buffer) };
        let regs = ATOM_REGS / 4 * u16::from(count);
        self.at().value(NewInst::new(Opcode::Ldmatrix, &[own], &[Ty::frag(regs)]).attr(attr))
    }

    /// A step of K of an A operand in registers: of each atom of M its own four.
    fn step_of(&mut self, x: machine::Value, p: &WarpProduct, step: u32) -> machine::Value {
        let row = p.k_steps as u16 * ATOM_REGS;
        let first = |m: u16| m * row + step as u16 * ATOM_REGS;
        let table = (0..p.m_atoms as u16).flat_map(|m| first(m)..first(m) + ATOM_REGS).collect();
        self.pick(x, table)
    }
}

impl Matrices<'_> {
    /// Byte offset of a place along (M or N, K).
    fn moved(&self, mn: u32, depth: u32) -> u32 {
        let (outer, inner) = if self.mn_major { (depth, mn) } else { (mn, depth) };
        self.tile.layout.apply(&[outer.into(), inner.into()])[0] as u32 * self.bytes
    }
}

/// The matrix row whose address each lane of each warp provides: `(lane, warp)` to `(outer, inner)`.
fn lanes(
    p: &WarpProduct,
    side: Side,
    mn_major: bool,
    [outer, inner]: [u32; 2],
) -> std::result::Result<Layout, LayoutError> {
    let at = |mn: u64, depth: u64| if mn_major { [depth, mn] } else { [mn, depth] };
    let row = if mn_major { at(0, 1) } else { at(1, 0) };
    let [rows, cols] = [p.warp_grid.rows, p.warp_grid.columns].map(u64::from);
    let apart = if p.warp_grid.contiguous { ATOM * p.m_atoms } else { ATOM };
    // Matrices of A go down first, those of B along K first.
    let (first, second) = match side {
        Side::A | Side::BAsRows => (at(8, 0), at(0, 8)),
        Side::B if p.n_atoms == 1 => (at(0, 8), at(0, 0)),
        Side::B => (at(0, 8), at(8, 0)),
    };
    let (across, down) = match side {
        Side::A => (at(0, 0), at(apart.into(), 0)),
        Side::B | Side::BAsRows => (at(p.columns().into(), 0), at(0, 0)),
    };
    Builder::new(&[(Axis::Dim(0), outer.into()), (Axis::Dim(1), inner.into())])
        .axis(Axis::Lane)
        .axis(Axis::Warp)
        .add(Axis::Lane, 8, &row)
        .add(Axis::Lane, 2, &first)
        .add(Axis::Lane, 2, &second)
        .add(Axis::Warp, cols, &across)
        .add(Axis::Warp, rows, &down)
        .build()
}
