//! Scratch buffers: fragments are stored and loaded in vectors as wide as the access allows.
//!
//! ```text
//!  fragment ─► st.shared.v4 [thread part ⊕ register part] ─ (barrier) ─ ld.shared.v4 ─► fragment in another layout
//! ```
//!
//! The address of an element is `(thread ⊕ register) + thread + register`: exclusive or where digits of a swizzle
//! combine, addition elsewhere. Bits that the thread's part never sets go to the constant offset.

use super::Lower;
use super::half::PAIR_LOW;
use crate::Result;
use crate::plan::cell_bits;
use crate::tiles::layout_error;
use rustc_hash::FxHashMap;
use warplift_ir::layout::access::vector_width;
use warplift_ir::layout::{Axis, Layout, Step};
use warplift_ir::machine::{self, Attr, Buffer, BufferData, BufferKind, Guard, IndexMap, NewInst, Place, Ty};
use warplift_ir::target::Opcode;
use warplift_ir::types::Elem;

/// Limit on the bytes of one access.
const ACCESS_BYTES: u64 = 16;

/// An access `(reg, lane, ..) -> m` of a fragment to a buffer.
pub(super) struct SharedAccess {
    buffer: Buffer,
    /// Bytes of an element.
    bytes: u64,
    /// Weights on the register axis of the bits of a vector's position.
    vector: Vec<u64>,
    /// First register of each vector, and its place.
    starts: Vec<(u64, machine::Value, u32)>,
}

/// The store of one or two bytes.
fn narrow_store(bytes: u64) -> Opcode {
    if bytes == 1 { Opcode::StShared8 } else { Opcode::StShared16 }
}

impl SharedAccess {
    /// Elements of one vector.
    fn elements(&self) -> u64 {
        1 << self.vector.len()
    }

    /// Elements of one vector whose registers lie below a power of two.
    pub(super) fn vector_below(&self, register: u64) -> u64 {
        1 << self.vector.iter().filter(|w| **w < register).count()
    }

    /// The registers of the vector that starts at a given one.
    fn registers(&self, start: u64) -> Vec<u16> {
        let at = |e: u64| {
            let moved = self.vector.iter().enumerate().filter(|(bit, _)| e >> bit & 1 == 1).map(|(_, w)| w);
            (start + moved.sum::<u64>()) as u16
        };
        (0..self.elements()).map(at).collect()
    }
}

impl Lower<'_, '_> {
    /// Creates a scratch buffer.
    pub(super) fn scratch(&mut self, name: String, elements: u64, elem: Elem) -> Buffer {
        let bytes = (elements * cell_bits(elem) / 8).next_multiple_of(ACCESS_BYTES) as u32;
        self.buffers.push(BufferData { name, bytes, align: 128, kind: BufferKind::Scratch })
    }

    /// Prepares an access: the addresses of all vectors of a thread. A store leaves out repeated registers.
    pub(super) fn shared_access(
        &mut self,
        access: &Layout,
        buffer: Buffer,
        elem: Elem,
        store: bool,
    ) -> Result<SharedAccess> {
        let bytes = cell_bits(elem) / 8;
        let error = layout_error(self.k, self.inst);
        let vector = vector_width(access, ACCESS_BYTES / bytes.max(1), ACCESS_BYTES).map_err(error)?;
        if bytes == 0 {
            return self.error(format!("elements of {elem} that do not lie together in shared memory"));
        }
        let mem = access.outs().iter().position(|a| a.0 == Axis::Mem).unwrap_or(0);
        let parts = self.thread_parts(access, mem)?;
        let repeats = if store { access.replicated(Axis::Reg) } else { Vec::new() };
        let inside = |r: &u64| vector.registers.iter().any(|w| r / w % 2 == 1);
        let repeated = |r: &u64| repeats.iter().any(|b| !(r / b.weight).is_multiple_of(b.extent));
        let first: Vec<u64> =
            (0..access.in_extent(Axis::Reg)).filter(|r| !inside(r) && !repeated(r)).collect();
        let mut bases: FxHashMap<u64, machine::Value> = FxHashMap::default();
        let mut starts = Vec::new();
        for r in first {
            let (mut swizzled, mut moved) = (0, 0);
            for b in access.basis(Axis::Reg) {
                let value = r / b.weight % b.extent;
                match b.step {
                    Step::Xor if value != 0 => swizzled ^= b.out[mem],
                    _ => moved += value * b.out[mem],
                }
            }
            let meets = swizzled & parts.mask;
            let base = match bases.get(&meets) {
                Some(&base) => base,
                None => {
                    let base = self.shared_base_of(&parts, meets, bytes);
                    bases.insert(meets, base);
                    base
                }
            };
            starts.push((r, base, ((swizzled ^ meets) + moved) as u32 * bytes as u32));
        }
        Ok(SharedAccess { buffer, bytes, vector: vector.registers, starts })
    }

    /// Bytes of `(own ⊕ meets) + own`, made once at entry.
    fn shared_base_of(
        &mut self,
        parts: &super::coords::ThreadParts,
        meets: u64,
        bytes: u64,
    ) -> machine::Value {
        let c = self.at_entry().imm(meets as i64);
        let base = match parts.xor {
            Some(own) => self.at_entry().int(Opcode::Xor, own, c),
            None => c,
        };
        let base = match parts.add {
            Some(own) => self.at_entry().add(base, own),
            None => base,
        };
        self.at_entry().mul_imm(base, bytes as i64)
    }

    /// Stores a fragment; `guard` selects the storing threads.
    pub(super) fn store_fragment(
        &mut self,
        x: machine::Value,
        elem: Elem,
        a: &SharedAccess,
        guard: Option<machine::Value>,
    ) -> Result<()> {
        let guard = guard.map(|pred| Guard { pred, negated: false });
        let bytes = self.access_bytes(elem, a)?;
        for &(start, base, offset) in &a.starts {
            let place = Place { buffer: a.buffer, offset };
            let (op, part) = match bytes {
                2 if a.bytes == 2 => (Opcode::StShared16, self.half(x, start as u16)),
                1 | 2 => (narrow_store(bytes), self.low_bytes(x, elem, &a.registers(start))?),
                _ => (Opcode::StShared, self.pick_elements(x, elem, &a.registers(start))?),
            };
            let count = (bytes / 4).max(1) as u8;
            let new = NewInst::new(op, &[base, part], &[]).attr(Attr::PlaceMem { place, count });
            self.at().push(new.guard(guard));
        }
        Ok(())
    }

    /// Loads a fragment.
    pub(super) fn load_fragment(&mut self, elem: Elem, a: &SharedAccess) -> Result<machine::Value> {
        let registers = a.starts.len() as u64 * a.elements();
        self.load_some(elem, a, &(0..registers as u16).collect::<Vec<u16>>())
    }

    /// Loads some registers of a fragment, in the given order.
    pub(super) fn load_some(
        &mut self,
        elem: Elem,
        a: &SharedAccess,
        wanted: &[u16],
    ) -> Result<machine::Value> {
        let bytes = self.access_bytes(elem, a)?;
        let count = (bytes / 4).max(1) as u8;
        let mut parts = Vec::new();
        let mut place_of: FxHashMap<u16, u16> = FxHashMap::default();
        for &(start, base, offset) in &a.starts {
            let registers = a.registers(start);
            if !registers.iter().any(|r| wanted.contains(r)) {
                continue;
            }
            let place = Place { buffer: a.buffer, offset };
            let op = match bytes {
                1 => Opcode::LdShared8,
                2 => Opcode::LdShared16,
                _ => Opcode::LdShared,
            };
            let ty = if count == 1 { Ty::B32 } else { Ty::frag(count.into()) };
            let new = NewInst::new(op, &[base], &[ty]).attr(Attr::PlaceMem { place, count });
            // The remaining bytes of a partly filled register are undefined.
            let filled = if a.bytes == 1 { a.elements().max(4) } else { a.elements() };
            let first = parts.len() as u16 * filled as u16;
            place_of.extend(registers.into_iter().zip(first..));
            parts.push(self.at().value(new));
        }
        let regs = parts.len() as u16 * u16::from(count);
        let all = self.at().value(NewInst::new(Opcode::Join, &parts, &[Ty::frag(regs)]));
        let table: Vec<u16> = wanted.iter().map(|r| place_of[r]).collect();
        match bytes {
            2 if a.bytes == 2 => Ok(self.pair_cells(all, &table)),
            _ => self.pick_elements(all, elem, &table),
        }
    }

    /// Elements of a fragment in the low bytes of a register.
    fn low_bytes(&mut self, x: machine::Value, elem: Elem, elements: &[u16]) -> Result<machine::Value> {
        let packed = (32 / cell_bits(elem)) as usize;
        let filled: Vec<u16> = (0..packed).map(|i| elements[i.min(elements.len() - 1)]).collect();
        self.pick_elements(x, elem, &filled)
    }

    /// Bytes of one access: whole registers, one element of 16 bits, or one or two of 8.
    fn access_bytes(&self, elem: Elem, a: &SharedAccess) -> Result<u64> {
        match a.elements() * a.bytes {
            bytes if bytes >= 4 || (bytes == 2 && a.elements() == 1) || a.bytes == 1 => Ok(bytes),
            bytes => self.error(format!(
                "accesses of {} elements of {elem} in shared memory: {bytes} bytes fill no register",
                a.elements()
            )),
        }
    }

    /// The element of a 16-bit fragment in the low half of a register.
    pub(super) fn half(&mut self, x: machine::Value, element: u16) -> machine::Value {
        let register = (x, IndexMap::Table([element / 2].into()));
        if element.is_multiple_of(2) {
            return self.repeat(Opcode::Mov, Attr::None, &[register], 1);
        }
        let by = self.at().imm(16);
        self.repeat(Opcode::ShrU32, Attr::None, &[register, (by, IndexMap::Whole)], 1)
    }

    /// Packs 16-bit elements, each in its own register, in pairs in the table's order.
    pub(super) fn pair_cells(&mut self, x: machine::Value, table: &[u16]) -> machine::Value {
        let side = |odd: usize| IndexMap::Table(table.chunks(2).map(|p| p[odd.min(p.len() - 1)]).collect());
        let both = self.at().imm(PAIR_LOW);
        let args = [(x, side(0)), (x, side(1)), (both, IndexMap::Whole)];
        self.repeat(Opcode::Prmt, Attr::None, &args, table.len().div_ceil(2) as u16)
    }

    /// Elements of a fragment in another order. The last register may be partly full.
    pub(super) fn pick_elements(
        &mut self,
        x: machine::Value,
        elem: Elem,
        table: &[u16],
    ) -> Result<machine::Value> {
        let packed = (32 / cell_bits(elem)).max(1) as u16;
        if packed == 1 {
            return Ok(self.pick(x, table.to_vec()));
        }
        let whole = |p: &[u16]| p[0].is_multiple_of(packed) && p.windows(2).all(|w| w[1] == w[0] + 1);
        if table.chunks(packed.into()).all(whole) {
            return Ok(self.pick(x, table.chunks(packed.into()).map(|p| p[0] / packed).collect()));
        }
        let mut table = table.to_vec();
        let last = table.last().copied().unwrap_or_default();
        table.resize(table.len().next_multiple_of(packed.into()), last);
        let parts: Vec<machine::Value> =
            table.chunks(packed.into()).map(|p| self.gather_bytes(x, p, packed)).collect();
        let regs = parts.len() as u16;
        Ok(self.at().value(NewInst::new(Opcode::Join, &parts, &[Ty::frag(regs)])))
    }

    /// One register from elements in several: permutes the bytes of the result so far and of the next register.
    fn gather_bytes(&mut self, x: machine::Value, elements: &[u16], packed: u16) -> machine::Value {
        let width = 4 / packed;
        let mut sources: Vec<u16> = elements.iter().map(|e| e / packed).collect();
        sources.sort_unstable();
        sources.dedup();
        let first = sources[0];
        let rest = if sources.len() == 1 { &sources[..] } else { &sources[1..] };
        let mut have = (x, IndexMap::Table([first].into()));
        for (step, &source) in rest.iter().enumerate() {
            let nibble = |byte: u16| {
                let e = elements[usize::from(byte / width)];
                let within = e % packed * width + byte % width;
                match e / packed {
                    r if r == first && step == 0 => within,
                    r if r == source => within + 4,
                    r if r < source => byte,
                    _ => 0,
                }
            };
            let selector = (0..4).map(|b| i64::from(nibble(b)) << (4 * b)).sum();
            let c = self.at().imm(selector);
            let next = (x, IndexMap::Table([source].into()));
            have = (
                self.repeat(Opcode::Prmt, Attr::None, &[have, next, (c, IndexMap::Whole)], 1),
                IndexMap::EACH,
            );
        }
        have.0
    }
}
