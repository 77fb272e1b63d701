//! Loads, stores and atomics of registers.

use super::access::{Blame, Target};
use super::exec::Flow;
use super::float::{F32, F64, Round, add_odd};
use super::hazard::HazardKind;
use super::inst::{Atom, AtomOp, Lanes, Load, MemoryOrder, Space, Store, Strength, Ty};
use super::machine::{Found, Machine, Stop};
use super::mask::lanes;
use super::shadow::Kind;

fn kind(s: Strength, sync: MemoryOrder) -> Kind {
    match s {
        Strength::Weak => Kind::Generic,
        Strength::Strong => Kind::Strong(sync.scope),
    }
}

/// Little-endian bytes as a number.
pub(crate) fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |v, b| v << 8 | u64::from(*b))
}

impl Machine<'_> {
    pub fn load(&mut self, w: usize, l: &Load, mask: u32) -> Result<Flow, Stop> {
        let addresses = self.addresses(w, l.addr, mask)?;
        let size = l.ty.bytes();
        let mut out = vec![[0u64; 32]; l.d.len()];
        for lane in lanes(mask) {
            let total = size * l.d.len() as u32;
            let mut bytes = [0; 16];
            let bytes = &mut bytes[..total as usize];
            let kind = if l.read_only { Kind::ReadOnly } else { kind(l.strength, l.sync) };
            self.read(w, lane, l.space, addresses[lane], kind, bytes)?;
            if l.strength == Strength::Strong {
                self.acquire_at(w, lane, addresses[lane], l.sync);
            }
            for (i, part) in bytes.chunks(size as usize).enumerate() {
                out[i][lane] = extend(number(part), l.ty);
            }
        }
        for (d, v) in l.d.iter().zip(&out) {
            if let Some(d) = d {
                self.put(w, *d, v, mask)?;
            }
        }
        Ok(Flow::Next)
    }

    pub fn store(&mut self, w: usize, s: &Store, mask: u32) -> Result<Flow, Stop> {
        let addresses = self.addresses(w, s.addr, mask)?;
        let values: Vec<Lanes> = s.s.iter().map(|v| self.get(w, *v, mask)).collect::<Result<_, _>>()?;
        let size = s.ty.bytes() as usize;
        let mut stored = [[0; 16]; 32];
        for lane in lanes(mask) {
            for (i, v) in values.iter().enumerate() {
                stored[lane][i * size..(i + 1) * size].copy_from_slice(&v[lane].to_le_bytes()[..size]);
            }
        }
        if s.strength == Strength::Weak {
            self.same_word(w, s.space, &addresses, &stored, mask)?;
        }
        for lane in lanes(mask) {
            let bytes = &stored[lane][..size * values.len()];
            self.write(w, lane, s.space, addresses[lane], kind(s.strength, s.sync), bytes)?;
            if s.strength == Strength::Strong {
                self.release_at(w, lane, addresses[lane], s.sync, false);
            }
        }
        Ok(Flow::Next)
    }

    /// Reads bytes for one lane, with every check.
    pub fn read(
        &mut self,
        w: usize,
        lane: usize,
        space: Space,
        address: u64,
        kind: Kind,
        out: &mut [u8],
    ) -> Result<(), Stop> {
        let pc = self.pc(w);
        let blame = Blame { warp: w, lane: lane as u8, pc };
        let Some(target) = self.resolve(blame, space, address, out.len() as u32)? else {
            return Ok(());
        };
        match target {
            Target::Global(a) => {
                self.read_global(blame, a, out)?;
                let access = self.access(w, lane as u8, kind);
                self.note_global(blame, (a, out.len() as u32), access, None, false)
            }
            Target::Shared { block, offset } => {
                let access = self.access(w, lane as u8, kind);
                self.note_shared(w, block, offset, out.len() as u32, access, false)?;
                let at = offset as usize;
                out.copy_from_slice(&self.blocks[block].shared[at..at + out.len()]);
                Ok(())
            }
            Target::Param(at) => {
                let at = at as usize;
                out.copy_from_slice(&self.launch.params[at..at + out.len()]);
                Ok(())
            }
            Target::Const(at) => {
                let at = at as usize;
                out.copy_from_slice(&self.launch.module.constants[at..at + out.len()]);
                Ok(())
            }
            Target::Local(at) => {
                let at = self.local_index(lane, at);
                out.copy_from_slice(&self.warps[w].local[at..at + out.len()]);
                Ok(())
            }
        }
    }

    fn local_index(&self, lane: usize, at: u32) -> usize {
        lane * self.launch.entry.local_bytes as usize + at as usize
    }

    /// Reads global bytes; poison is a hazard.
    pub fn read_global(&mut self, blame: Blame, address: u64, out: &mut [u8]) -> Result<(), Stop> {
        let Some((bytes, defined)) = self.memory.load(address, out.len()) else {
            return self.outside(blame, address, out.len() as u32);
        };
        out.copy_from_slice(bytes);
        if defined {
            return Ok(());
        }
        let what = "read of global memory that nobody wrote";
        let found = Found::new(HazardKind::UninitialisedMemory, blame.warp, blame.pc, what);
        self.hazard(found.lane(u32::from(blame.lane)).at(address))
    }

    /// Writes bytes for one lane, with every check.
    pub fn write(
        &mut self,
        w: usize,
        lane: usize,
        space: Space,
        address: u64,
        kind: Kind,
        bytes: &[u8],
    ) -> Result<(), Stop> {
        let blame = Blame { warp: w, lane: lane as u8, pc: self.pc(w) };
        let Some(target) = self.resolve(blame, space, address, bytes.len() as u32)? else {
            return Ok(());
        };
        match target {
            Target::Global(a) => {
                self.memory.store(a, bytes);
                let access = self.access(w, lane as u8, kind);
                self.note_global(blame, (a, bytes.len() as u32), access, None, true)?;
            }
            Target::Shared { block, offset } => {
                let access = self.access(w, lane as u8, kind);
                self.note_shared(w, block, offset, bytes.len() as u32, access, true)?;
                let at = offset as usize;
                self.blocks[block].shared[at..at + bytes.len()].copy_from_slice(bytes);
            }
            Target::Param(_) | Target::Const(_) => self.outside(blame, address, bytes.len() as u32)?,
            Target::Local(at) => {
                let at = self.local_index(lane, at);
                self.warps[w].local[at..at + bytes.len()].copy_from_slice(bytes);
            }
        }
        Ok(())
    }

    pub fn atomic(&mut self, w: usize, a: &Atom, mask: u32) -> Result<Flow, Stop> {
        let addresses = self.addresses(w, a.addr, mask)?;
        let (x, y) = (self.get(w, a.s[0], mask)?, self.get(w, a.s[1], mask)?);
        let more = a.more.iter().map(|&s| self.get(w, s, mask)).collect::<Result<Vec<_>, _>>()?;
        let size = a.ty.bytes() as usize;
        let whole = size * (1 + more.len());
        let flushes = a.space == Space::Global && a.op == AtomOp::Add && a.ty == Ty::F(F32);
        let mut out = [0; 32];
        for lane in lanes(mask) {
            let mut bytes = [0; 16];
            let kind = Kind::Strong(a.sync.scope);
            self.read(w, lane, a.space, addresses[lane], kind, &mut bytes[..whole])?;
            for (n, part) in bytes[..whole].chunks_mut(size).enumerate() {
                let mut old = [0; 8];
                old[..size].copy_from_slice(part);
                let old = u64::from_le_bytes(old);
                let x = if n == 0 { x[lane] } else { more[n - 1][lane] };
                let new = if flushes { flushing_add(old, x) } else { atom(a.op, a.ty, old, x, y[lane]) };
                part.copy_from_slice(&new.to_le_bytes()[..size]);
                out[lane] = old;
            }
            self.write(w, lane, a.space, addresses[lane], kind, &bytes[..whole])?;
            self.acquire_at(w, lane, addresses[lane], a.sync);
            self.release_at(w, lane, addresses[lane], a.sync, true);
        }
        if let Some(d) = a.d {
            self.put(w, d, &out, mask)?;
        }
        Ok(Flow::Next)
    }
}

/// Sign-extends a loaded value where its type is signed.
fn extend(v: u64, ty: Ty) -> u64 {
    match ty {
        Ty::S(b) if b < 64 => {
            let up = 64 - u32::from(b);
            ((v << up) as i64 >> up) as u64
        }
        _ => v,
    }
}

/// The new value that an atomic leaves.
pub(crate) fn atom(op: AtomOp, ty: Ty, old: u64, x: u64, y: u64) -> u64 {
    match ty {
        Ty::F(f) => float_atom(op, f, old, x),
        Ty::F2(f) => {
            let w = f.width();
            let low = (1 << w) - 1;
            let high = float_atom(op, f, old >> w & low, x >> w & low);
            high << w | float_atom(op, f, old & low, x & low)
        }
        _ => int_atom(op, ty, old, x, y),
    }
}

/// f32 in global memory: subnormal operands and sums are zeros of their sign (PTX ISA, `atom`).
fn flushing_add(old: u64, x: u64) -> u64 {
    let flush = |v: u64| if f32::from_bits(v as u32).is_subnormal() { v & 1 << 31 } else { v };
    flush(float_atom(AtomOp::Add, F32, flush(old), flush(x)))
}

fn float_atom(op: AtomOp, f: super::float::Format, old: u64, x: u64) -> u64 {
    let (a, b) = (f.decode(old), f.decode(x));
    let r = match op {
        AtomOp::Add if f == F64 => a + b,
        AtomOp::Add => add_odd(a, b),
        AtomOp::Min if a.is_nan() || b < a => b,
        AtomOp::Max if a.is_nan() || b > a => b,
        AtomOp::Min | AtomOp::Max => a,
        _ => return x,
    };
    f.encode(r, Round::Even)
}

fn int_atom(op: AtomOp, ty: Ty, old: u64, x: u64, y: u64) -> u64 {
    let bits = ty.bits();
    let low = u64::MAX >> (64 - bits);
    let (old, x, y) = (old & low, x & low, y & low);
    let signed = |v: u64| ((v << (64 - bits)) as i64) >> (64 - bits);
    let less = |a: u64, b: u64| {
        if ty.signed() { signed(a) < signed(b) } else { a < b }
    };
    let r = match op {
        AtomOp::Add => old.wrapping_add(x),
        AtomOp::Min => {
            if less(x, old) {
                x
            } else {
                old
            }
        }
        AtomOp::Max => {
            if less(old, x) {
                x
            } else {
                old
            }
        }
        AtomOp::Inc => {
            if old >= x {
                0
            } else {
                old + 1
            }
        }
        AtomOp::Dec => {
            if old == 0 || old > x {
                x
            } else {
                old - 1
            }
        }
        AtomOp::And => old & x,
        AtomOp::Or => old | x,
        AtomOp::Xor => old ^ x,
        AtomOp::Exch => x,
        AtomOp::Cas => {
            if old == x {
                y
            } else {
                old
            }
        }
    };
    r & low
}
