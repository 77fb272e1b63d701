//! Staged loads: asynchronous copies fill a stage of a ring, and threads read the full stage into registers.
//!
//! ```text
//!  tensor copy or bulk copy ─► stage in shared memory ─ (await) ─► wide reads ─► fragment
//! ```

use super::narrow::AND_OR;
use super::plain::Access;
use super::{Low, Lower};
use crate::Result;
use crate::plan::{Staged, StagedFill};
use crate::tiles::{array, extents, layout_error};
use crate::vector::vector_elements;
use crate::window::{Window, is_zero};
use rustc_hash::FxHashMap;
use warplift_ir::layout::{Axis, Layout};
use warplift_ir::machine::{
    self, Attr, Buffer, BufferData, BufferKind, CacheHint, IndexMap, NewInst, Place, TmaAttr, Ty,
};
use warplift_ir::target::Opcode;
use warplift_ir::tile::{Inst, Op, Value};
use warplift_ir::types::Elem;

/// Alignment of a stage that no swizzle constrains.
const ALIGN: u32 = 128;
/// Alignment of a stage that one does.
const SWIZZLE_ALIGN: u32 = 1024;

/// Elements outside a view whose fill differs from what a copy writes.
struct Outside {
    access: Access,
    fill: f64,
    /// Elements that share one bounds check.
    together: u64,
}

/// How a thread makes words of elements of a few bits that it reads with their bytes.
struct Singly {
    bits: u32,
    /// By how much a word of such bytes is turned to the right, so that elements begin at bit 0 of each, or at the next ones.
    turns: Vec<machine::Value>,
    /// The selector of two bytes of two registers: the thread's, where it reads them with others.
    bytes: machine::Value,
}

/// A register with the byte of an element, and the bit there at which it begins, beyond that of the thread's first one.
#[derive(Clone)]
struct Byte {
    register: machine::Value,
    map: IndexMap,
    bit: u32,
}

/// The low bytes of two registers as a halfword, and two halfwords as a word: selectors of `prmt`.
const BYTES_TOGETHER: i64 = 0x1140;
const HALVES_TOGETHER: u32 = 0x5410;
/// Bits of a wide read of bytes.
const WIDE: u64 = 64;

/// Whether a thread's elements of so many bits lie in aligned runs of 8 bytes, and at the same byte of words there.
fn is_in_wide_runs(to: &Layout, bits: u32) -> bool {
    let Some(mem) = to.outs().iter().position(|o| o.0 == Axis::Mem) else { return false };
    let below = |axis: Axis| {
        let steps = to.basis(axis).into_iter().map(move |d| (d.out[mem] * u64::from(bits), d.extent));
        steps.filter(|(step, _)| !step.is_multiple_of(WIDE))
    };
    let threads = to.ins().iter().filter(|a| a.0 != Axis::Reg).flat_map(|a| below(a.0));
    let within = threads.map(|(step, extent)| step * (extent - 1)).sum::<u64>() < WIDE / 2;
    within && below(Axis::Reg).all(|(step, extent)| step == WIDE / 2 && extent == 2)
}

/// The length of the aligned runs that the numbers consist of: a power of two.
fn following(all: &[u64]) -> u64 {
    let runs = |n: usize| {
        let run = |c: &[u64]| c[0].is_multiple_of(n as u64) && c.iter().zip(c[0]..).all(|(a, b)| *a == b);
        all.len().is_multiple_of(n) && all.chunks(n).all(run)
    };
    (0..=7).rev().map(|p| 1 << p).find(|&n| runs(n)).unwrap_or(1) as u64
}

impl Lower<'_, '_> {
    /// Starts the copies of a staged tile.
    pub(super) fn lower_staged_load(&mut self, inst: Inst, staged: &Staged) -> Result<()> {
        let name = self.name_of(self.k.result(inst));
        let align = if staged.is_swizzled() { SWIZZLE_ALIGN } else { ALIGN };
        let data = BufferData { name, bytes: staged.bytes, align, kind: BufferKind::Ring };
        let buffer = self.buffers.push(data);
        let hint = if staged.stream { CacheHint::First } else { CacheHint::Normal };
        let event = match &staged.fill {
            StagedFill::Tensor { inner_dim, slab, rows, unit, swizzle, around } => {
                self.stage_rows(inst, (*inner_dim, *around), [*slab, *rows, *unit, *swizzle], buffer, hint)?
            }
            StagedFill::Packed { tile, digits } => {
                Some(self.stage_packed(inst, *tile, digits, buffer, hint)?)
            }
        };
        self.has_tma = true;
        self.filled.insert(inst, (buffer, event));
        Ok(())
    }

    fn stage_rows(
        &mut self,
        inst: Inst,
        (inner_dim, around): (usize, u32),
        [slab, rows, unit, swizzle]: [u32; 4],
        buffer: Buffer,
        hint: CacheHint,
    ) -> Result<Option<machine::Value>> {
        let k = self.k;
        let args = k.args(inst).to_vec();
        let shape = extents(k, k.result(inst));
        let (inner, outer) = (shape[inner_dim], shape.iter().product::<u32>() / shape[inner_dim]);
        let map = self.tensor_map_of(args[0], inner_dim, &[slab / unit, rows], swizzle, unit)?;
        let bytes = slab * rows * k.ty(args[0]).elem().bits() / 8;
        let start = self.scalar(args[1 + inner_dim])?;
        let start = if around > 1 { self.at().and_imm(start, -i64::from(around)) } else { start };
        let shift = self.at().imm(unit.ilog2().into());
        let start = self.at().int(Opcode::ShrS32, start, shift);
        let mut across = Vec::new();
        for from in (0..outer).step_by(rows as usize) {
            across.push(match shape.len() {
                2 => self.row_coordinates(args[0], args[2 - inner_dim], from)?,
                _ => self.fixed_indices(args[0])?,
            });
        }
        let before_wait = array(k, inst).before_wait;
        let mut event = None;
        let boxes =
            (0..inner.div_ceil(slab)).flat_map(|part| across.iter().map(move |across| (part, across)));
        for ((part, across), number) in boxes.zip(0..) {
            let column = self.at().add_imm(start, i64::from(part * slab / unit));
            let place = Some(Place { buffer, offset: number * bytes });
            let at: Vec<_> = [&[column], &across[..]].concat();
            let attr = TmaAttr { map, rank: at.len() as u8, bytes, place, multicast: 0, hint, before_wait };
            let new = NewInst::new(Opcode::TmaLoad, &at, &[Ty::Event]).attr(Attr::Tma(attr));
            event = Some(self.at().value(new));
        }
        Ok(event)
    }

    /// Whether a load stays in shared memory and each use reads its part.
    pub(super) fn is_kept(&self, load: Inst) -> bool {
        let tensor = self.plan.staged.get(&load).is_some_and(|s| matches!(s.fill, StagedFill::Tensor { .. }));
        tensor && self.k.attrs[load].in_parts && self.k.blocks[self.k.entry].insts.contains(&load)
    }

    /// Awaits the kept loads, each by its own await, since others may await it again.
    pub(super) fn await_kept(&mut self, loads: &[Inst]) {
        let kept = loads.iter().filter(|&&load| self.is_kept(load));
        let events: Vec<machine::Value> = kept.filter_map(|load| self.filled.get(load)?.1).collect();
        for event in events {
            self.at().push(NewInst::new(Opcode::Await, &[event], &[]));
        }
    }

    /// Reads a full stage into registers, unless each use reads its part.
    pub(super) fn read_stage(&mut self, inst: Inst) -> Result<()> {
        let (k, result) = (self.k, self.k.result(inst));
        let Some(staged) = self.plan.staged.get(&inst) else { return Ok(()) };
        if k.attrs[inst].in_parts && matches!(staged.fill, StagedFill::Tensor { .. }) {
            self.env.insert(result, Low::Stage(inst));
            return Ok(());
        }
        self.read_whole(inst)
    }

    fn read_whole(&mut self, load: Inst) -> Result<()> {
        let Some(staged) = self.plan.staged.get(&load) else { return Ok(()) };
        if staged.is_swizzled() {
            return self.read_swizzled(load, staged);
        }
        let all = staged.to_memory.in_extent(Axis::Reg);
        self.read_elements(load, self.k.result(load), &(0..all).collect::<Vec<_>>())
    }

    fn read_swizzled(&mut self, load: Inst, staged: &Staged) -> Result<()> {
        let Some(&(buffer, _)) = self.filled.get(&load) else { return Ok(()) };
        let result = self.k.result(load);
        let elem = match self.k.ty(result).elem() {
            elem if elem.bits() < staged.bits => Elem::Uint(8),
            elem => elem,
        };
        let access = self.shared_access(&staged.to_memory, buffer, elem, false)?;
        let x = self.load_fragment(elem, &access)?;
        self.set(result, x);
        Ok(())
    }

    /// Reads an operand of products into registers.
    pub(super) fn read_tile(&mut self, load: Inst) -> Result<()> {
        let (k, plan) = (self.k, self.plan);
        let (Some((tile, layout)), Some(&(buffer, _))) = (plan.filled_tile(k, load), self.filled.get(&load))
        else {
            return Ok(());
        };
        let elem = k.ty(k.result(load)).elem();
        let to = tile.from_register_layout(layout).map_err(layout_error(k, load))?;
        let access = self.shared_access(&to, buffer, elem, false)?;
        let x = self.load_fragment(elem, &access)?;
        self.set(k.result(load), x);
        Ok(())
    }

    /// Reads the parts of stages that an instruction needs. Returns the values that it read.
    pub(super) fn read_used(&mut self, inst: Inst) -> Result<Vec<Inst>> {
        let k = self.k;
        if matches!(k.insts[inst].op, Op::Slice(_)) {
            return Ok(Vec::new());
        }
        let loads = k.args(inst).iter().filter_map(|a| match self.env.get(a) {
            Some(&Low::Stage(load)) => Some(load),
            _ => None,
        });
        let loads: Vec<Inst> = loads.collect();
        loads.iter().try_for_each(|&load| self.read_whole(load))?;
        Ok(loads)
    }

    /// Reads the part of a full stage that starts at `from`.
    pub(super) fn read_part_of(&mut self, load: Inst, part: Value, from: &[u64]) -> Result<()> {
        let (k, plan) = (self.k, self.plan);
        let (whole, own) = (plan.layout(k, k.result(load))?, plan.layout(k, part)?);
        let table = self.element_table(whole, own, |at| at.iter().zip(from).map(|(a, f)| a + f).collect())?;
        let bits = plan.staged.get(&load).map_or(0, |s| s.bits);
        let together = (bits / k.ty(part).elem().bits()).max(1) as usize;
        let units = table.into_iter().step_by(together).map(|e| u64::from(e) / together as u64);
        self.read_elements(load, part, &units.collect::<Vec<_>>())
    }

    /// Reads elements of a full stage, numbered by the registers of the whole tile.
    fn read_elements(&mut self, inst: Inst, result: Value, registers: &[u64]) -> Result<()> {
        let (k, plan) = (self.k, self.plan);
        let (Some(staged), Some(&(buffer, _))) = (plan.staged.get(&inst), self.filled.get(&inst)) else {
            return Ok(());
        };
        if staged.bits < 8 {
            return self.read_singly(inst, staged, buffer, (result, registers));
        }
        let layout = plan.layout(k, k.result(inst))?;
        let elem = k.ty(result).elem();
        let (to, bits) = (&staged.to_memory, staged.bits);
        let own = self.thread_coord(to, 0)?;
        let own = self.at_entry().mul_imm(own, i64::from(bits / 8));
        let own = match self.first_bit(inst, staged)? {
            Some(bit) => {
                let three = self.at_entry().imm(3);
                let byte = self.at().int(Opcode::ShrU32, bit, three);
                self.at().add(own, byte)
            }
            None => own,
        };
        let mut outside = self.outside(inst, staged, layout)?;
        let most = u64::from(128 / bits).min(outside.as_ref().map_or(u64::MAX, |o| o.together));
        let run = to.contiguous(Axis::Reg, Axis::Mem);
        let vector = (1 << run.trailing_zeros()).min(following(registers)).min(most);
        let mut parts = Vec::new();
        for &e in registers.iter().step_by(vector as usize) {
            let moved = super::coords::register_coord(to, e)[0] as u32 * bits / 8;
            let part = self.read_part(own, Place { buffer, offset: moved }, vector as u32 * bits / 8);
            parts.push(match &mut outside {
                Some(o) => {
                    let inside = self.inside(&mut o.access, &super::coords::register_coord(layout, e));
                    self.fill_outside(elem, o.fill, part, inside, vector == 1 && elem.bits() == 16)?
                }
                None => part,
            });
        }
        parts = self.pack_parts(parts, vector as u32 * bits / 8);
        let regs = self.registers(elem, plan.layout(k, result)?)? as u16;
        let joined = self.at().value(NewInst::new(Opcode::Join, &parts, &[Ty::frag(regs)]));
        self.env.insert(result, Low::Reg(joined));
        Ok(())
    }

    /// Reads elements of a few bits, each from its byte. None crosses bytes: a thread's own place and that of its element in
    /// the tile are different bits of an address.
    fn read_singly(
        &mut self,
        load: Inst,
        staged: &Staged,
        buffer: Buffer,
        (result, registers): (Value, &[u64]),
    ) -> Result<()> {
        let (k, bits, to) = (self.k, staged.bits, &staged.to_memory);
        let own = self.thread_coord(to, 0)?;
        let own = self.at_entry().mul_imm(own, bits.into());
        let first = self.first_bit(load, staged)?;
        let wide = first.is_none() && is_in_wide_runs(to, bits);
        let own = first.map_or(own, |first| self.at().add(own, first));
        let (from, single) = self.singly(own, bits, wide, first.is_some());
        let regs = self.registers(k.ty(result).elem(), self.plan.layout(k, result)?)? as usize;
        let (mut words, mut runs) = (Vec::new(), FxHashMap::default());
        for elements in registers.chunks((32 / bits) as usize) {
            let mut bytes = Vec::new();
            for &e in elements {
                let bit = super::coords::register_coord(to, e)[0] as u32 * bits;
                let run = if wide { bit / WIDE as u32 * 8 } else { bit / 8 };
                let place = Place { buffer, offset: run };
                let all = if wide { 8 } else { 1 };
                let register = *runs.entry(run).or_insert_with(|| self.read_part(from, place, all));
                let word = bit % WIDE as u32 / 32;
                let map = if wide { IndexMap::Table([word as u16].into()) } else { IndexMap::Whole };
                bytes.push(Byte { register, map, bit: bit % 8 });
            }
            words.push(self.word_of_bytes(&single, &bytes));
        }
        words.resize(regs, self.at_entry().imm(0));
        let joined = self.at().value(NewInst::new(Opcode::Join, &words, &[Ty::frag(regs as u16)]));
        self.env.insert(result, Low::Reg(joined));
        Ok(())
    }

    /// The byte at which a thread reads from its first bit on, and how it takes its elements. `moves`: whether the bit is another
    /// one in each iteration.
    fn singly(
        &mut self,
        own: machine::Value,
        bits: u32,
        wide: bool,
        moves: bool,
    ) -> (machine::Value, Singly) {
        let three = self.at_entry().imm(3);
        let mut c = if moves { self.at() } else { self.at_entry() };
        let (byte, bit) = (c.int(Opcode::ShrU32, own, three), c.and_imm(own, 7));
        let mut turn = |begin: u32| {
            let by = c.add_imm(bit, -i64::from(begin));
            c.and_imm(by, 31)
        };
        let turns = (0..8).step_by(bits as usize).map(&mut turn).collect();
        if !wide {
            let bytes = c.imm(BYTES_TOGETHER);
            return (byte, Singly { bits, turns, bytes });
        }
        let (from, within) = (c.and_imm(byte, -8), c.and_imm(byte, 3));
        let both = c.mul_imm(within, 0x11);
        let bytes = c.add_imm(both, 0x40);
        (from, Singly { bits, turns, bytes })
    }

    /// A word of elements, each from a register with its byte.
    fn word_of_bytes(&mut self, single: &Singly, bytes: &[Byte]) -> machine::Value {
        let mut word = None;
        for (at, &turn) in single.turns.iter().enumerate().take(bytes.len()) {
            let column: Vec<&Byte> = bytes.iter().skip(at).step_by(single.turns.len()).collect();
            let mut bits: Vec<u32> = column.iter().map(|b| b.bit).collect();
            bits.sort_unstable();
            bits.dedup();
            for bit in bits {
                let fields = self.fields_of_bytes(single, &column, bit, turn);
                let own = column.iter().enumerate().filter(|(_, b)| b.bit == bit);
                let one = ((1u32 << single.bits) - 1) << (at as u32 * single.bits);
                let mask = own.fold(0, |mask, (n, _)| mask | one << (8 * n));
                let mask = self.at_entry().imm(i64::from(mask as i32));
                word = Some(match word {
                    None => self.single(Opcode::And, Attr::None, &[fields, mask]),
                    Some(others) => self.single(Opcode::Lop3, Attr::Imm(AND_OR), &[fields, mask, others]),
                });
            }
        }
        word.unwrap_or_else(|| self.at_entry().imm(0))
    }

    /// The bytes of up to four elements in one register, turned so that those which begin at a bit come to their place. What else
    /// it holds is anything.
    fn fields_of_bytes(
        &mut self,
        single: &Singly,
        bytes: &[&Byte],
        bit: u32,
        turn: machine::Value,
    ) -> machine::Value {
        let first = bytes.iter().copied().find(|b| b.bit == bit);
        let own = |b: &Byte| if b.bit == bit { Some(b.clone()) } else { first.cloned() };
        let own: Vec<Byte> = bytes.iter().filter_map(|b| own(b)).collect();
        let selector = (single.bytes, IndexMap::Whole);
        let pairs = own.chunks(2).map(|pair| {
            let [low, high] = [&pair[0], &pair[pair.len() - 1]].map(|b| (b.register, b.map.clone()));
            self.repeat(Opcode::Prmt, Attr::None, &[low, high, selector.clone()], 1)
        });
        let halves: Vec<machine::Value> = pairs.collect();
        let together = match halves[..] {
            [low, high] => self.permute(low, high, HALVES_TOGETHER),
            _ => halves[0],
        };
        let turn = match bit {
            0 => turn,
            bit => {
                let further = self.at().add_imm(turn, bit.into());
                self.at().and_imm(further, 31)
            }
        };
        self.single(Opcode::FunnelR, Attr::None, &[together, together, turn])
    }

    /// The bit of a row at which the tile begins that a copy brought with what lies around it.
    fn first_bit(&mut self, load: Inst, staged: &Staged) -> Result<Option<machine::Value>> {
        let StagedFill::Tensor { inner_dim, around: around @ 2.., .. } = staged.fill else { return Ok(None) };
        let start = self.scalar(self.k.args(load)[1 + inner_dim])?;
        let within = self.at().and_imm(start, i64::from(around) - 1);
        let bits = self.k.ty(self.k.result(load)).elem().bits();
        Ok(Some(self.at().mul_imm(within, bits.into())))
    }

    /// The elements outside a view whose fill differs from what copies write.
    fn outside(&mut self, inst: Inst, staged: &Staged, layout: &Layout) -> Result<Option<Outside>> {
        let view = self.k.args(inst)[0];
        let fill = Window::of(self.k, view).map_or(0.0, |w| w.fill(self.k));
        if is_zero(fill) || !matches!(staged.fill, StagedFill::Tensor { .. }) {
            return Ok(None);
        }
        let access = self.access(inst, layout, self.k.ty(view).elem())?;
        let together = vector_elements(self.k, inst, self.k.result(inst)).into();
        Ok(Some(Outside { access, fill, together }))
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
