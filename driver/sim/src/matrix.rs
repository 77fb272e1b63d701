//! `ldmatrix`, `stmatrix`, `movmatrix` and `mma.sync`.
//!
//! ```text
//!  8x8 matrix of b16 in a warp: lane l holds row l/4, columns 2(l%4) and 2(l%4)+1
//!  addresses: lanes 8i to 8i+7 give the 8 rows of matrix i
//! ```
//! Source: PTX ISA, "Warp-level matrix instructions".

use super::access::{Blame, Target};
use super::data::number;
use super::exec::Flow;
use super::float::{F16, F32, Format, Round, fma_odd};
use super::inst::{Acc, Addr, Dst, Elem, Lanes, Mma, Space, Src};
use super::machine::{Machine, Stop};
use super::mask::lanes;
use super::shadow::Kind;

type Tile = [[u16; 8]; 8];

impl Machine<'_> {
    pub fn ldmatrix(
        &mut self,
        w: usize,
        d: &[Dst],
        addr: Addr,
        trans: bool,
        mask: u32,
    ) -> Result<Flow, Stop> {
        self.aligned(w, mask)?;
        let addresses = self.addresses(w, addr, mask)?;
        for (i, d) in d.iter().enumerate() {
            let mut tile: Tile = [[0; 8]; 8];
            for (r, row) in tile.iter_mut().enumerate() {
                let lane = 8 * i + r;
                let mut bytes = [0; 16];
                self.row(w, lane, addresses[lane], &mut bytes, false)?;
                for (c, v) in row.iter_mut().enumerate() {
                    *v = number(&bytes[2 * c..2 * c + 2]) as u16;
                }
            }
            let out: Lanes = std::array::from_fn(|l| fragment(&tile, l, trans));
            self.put(w, *d, &out, mask)?;
        }
        Ok(Flow::Next)
    }

    pub fn stmatrix(
        &mut self,
        w: usize,
        s: &[Src],
        addr: Addr,
        trans: bool,
        mask: u32,
    ) -> Result<Flow, Stop> {
        self.aligned(w, mask)?;
        let addresses = self.addresses(w, addr, mask)?;
        let mut rows = [[0; 16]; 32];
        for (i, s) in s.iter().enumerate() {
            let v = self.get(w, *s, mask)?;
            for (bytes, row) in rows[8 * i..].iter_mut().zip(collect(&v, trans)) {
                for (part, v) in bytes.chunks_mut(2).zip(row) {
                    part.copy_from_slice(&v.to_le_bytes());
                }
            }
        }
        let written = u32::MAX >> (32 - 8 * s.len());
        self.same_word(w, Space::Shared, &addresses, &rows, written)?;
        for lane in lanes(written) {
            self.row(w, lane, addresses[lane], &mut rows[lane], true)?;
        }
        Ok(Flow::Next)
    }

    /// Reads or writes a row of 16 bytes in shared memory. Every lane may hold part of it.
    fn row(
        &mut self,
        w: usize,
        lane: usize,
        address: u64,
        bytes: &mut [u8; 16],
        write: bool,
    ) -> Result<(), Stop> {
        let blame = Blame { warp: w, lane: lane as u8, pc: self.pc(w) };
        let space = if address >= super::space::GENERIC_SHARED { Space::Generic } else { Space::Shared };
        let Some(Target::Shared { block, offset }) = self.resolve(blame, space, address, 16)? else {
            return Ok(());
        };
        let access = self.access(w, super::shadow::MANY, Kind::Generic);
        self.note_shared(w, block, offset, 16, access, write)?;
        let at = offset as usize;
        let shared = &mut self.blocks[block].shared[at..at + 16];
        if write {
            shared.copy_from_slice(bytes);
        } else {
            bytes.copy_from_slice(shared);
        }
        Ok(())
    }

    pub fn movmatrix(&mut self, w: usize, d: Dst, s: Src, mask: u32) -> Result<Flow, Stop> {
        self.aligned(w, mask)?;
        let v = self.get(w, s, mask)?;
        let tile = collect(&v, false);
        let out: Lanes = std::array::from_fn(|l| fragment(&tile, l, true));
        self.put(w, d, &out, mask)?;
        Ok(Flow::Next)
    }

    pub fn mma(&mut self, w: usize, m: &Mma, mask: u32) -> Result<Flow, Stop> {
        self.aligned(w, mask)?;
        let a = self.gather(w, &m.ra, mask)?;
        let b = self.gather(w, &m.rb, mask)?;
        let c = self.gather(w, &m.rc, mask)?;
        let k = m.k as usize;
        let a = operand_a(&a, m.a, k);
        let b = operand_b(&b, m.b, k);
        let mut out = vec![[0u64; 32]; m.d.len()];
        for row in 0..16 {
            for col in 0..8 {
                let place = accumulator(row, col, m.acc);
                let old = c[place.0][place.1] >> place.2;
                let v = dot(&a[row * k..(row + 1) * k], &b[col * k..(col + 1) * k], old, m.acc, m.satfinite);
                out[place.0][place.1] |= v << place.2;
            }
        }
        for (d, v) in m.d.iter().zip(&out) {
            self.put(w, *d, v, mask)?;
        }
        Ok(Flow::Next)
    }

    fn gather(&mut self, w: usize, regs: &[Src], mask: u32) -> Result<Vec<Lanes>, Stop> {
        regs.iter().map(|r| self.get(w, *r, mask)).collect()
    }
}

fn fragment(t: &Tile, lane: usize, trans: bool) -> u64 {
    let (r, c) = (lane / 4, 2 * (lane % 4));
    let (lo, hi) = if trans { (t[c][r], t[c + 1][r]) } else { (t[r][c], t[r][c + 1]) };
    u64::from(lo) | u64::from(hi) << 16
}

fn collect(v: &Lanes, trans: bool) -> Tile {
    let mut t = [[0; 8]; 8];
    for (lane, v) in v.iter().enumerate() {
        let (r, c) = (lane / 4, 2 * (lane % 4));
        let (lo, hi) = (*v as u16, (*v >> 16) as u16);
        if trans {
            (t[c][r], t[c + 1][r]) = (lo, hi);
        } else {
            (t[r][c], t[r][c + 1]) = (lo, hi);
        }
    }
    t
}

/// A matrix element as a number; exact for every type here.
pub(crate) fn element(bits: u64, e: Elem) -> f64 {
    match e {
        Elem::Float(f) => f.decode(drop_low(bits, f)),
        Elem::S8 => f64::from(bits as u8 as i8),
        Elem::U8 => f64::from(bits as u8),
        Elem::S4 => f64::from((bits as u8) as i8 as i32 & 15),
        Elem::U4 => (bits & 15) as f64,
        Elem::B1 => (bits & 1) as f64,
    }
}

/// tf32 ignores the low bits of its register.
fn drop_low(bits: u64, f: Format) -> u64 {
    bits >> f.shift << f.shift
}

/// Elements of A, row by row: register r, lane l and part p of a 32-bit register hold row
/// `l/4 + 8(r%2)` and column `(l%4)*n + p + 4n*(r/2)`, with n elements a register.
fn operand_a(regs: &[Lanes], e: Elem, k: usize) -> Vec<f64> {
    let n = (32 / e.bits()) as usize;
    let mut out = vec![0.0; 16 * k];
    for (r, v) in regs.iter().enumerate() {
        for (l, v) in v.iter().enumerate() {
            let row = l / 4 + 8 * (r % 2);
            for p in 0..n {
                let col = (l % 4) * n + p + 4 * n * (r / 2);
                out[row * k + col] = element(*v >> (p as u32 * e.bits()), e);
            }
        }
    }
    out
}

/// Elements of B, column by column.
fn operand_b(regs: &[Lanes], e: Elem, k: usize) -> Vec<f64> {
    let n = (32 / e.bits()) as usize;
    let mut out = vec![0.0; 8 * k];
    for (r, v) in regs.iter().enumerate() {
        for (l, v) in v.iter().enumerate() {
            for p in 0..n {
                let row = (l % 4) * n + p + 4 * n * r;
                out[l / 4 * k + row] = element(*v >> (p as u32 * e.bits()), e);
            }
        }
    }
    out
}

/// Register, lane and shift of an accumulator element of m16n8.
fn accumulator(row: usize, col: usize, acc: Acc) -> (usize, usize, u32) {
    let lane = row % 8 * 4 + col / 2;
    let (high, odd) = (row / 8, col % 2);
    if acc == Acc::F16 { (high, lane, 16 * odd as u32) } else { (2 * high + odd, lane, 0) }
}

/// `a . b + c`: products exact, one rounding an addition.
fn dot(a: &[f64], b: &[f64], c: u64, acc: Acc, satfinite: bool) -> u64 {
    if acc == Acc::S32 {
        let sum: i64 = a.iter().zip(b).map(|(a, b)| (*a as i64) * (*b as i64)).sum();
        let sum = sum + i64::from(c as u32 as i32);
        let v = if satfinite { sum.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) } else { sum };
        return u64::from(v as u32);
    }
    let f = if acc == Acc::F16 { F16 } else { F32 };
    let mut sum = f.decode(c & (u64::MAX >> (64 - f.width())));
    for (a, b) in a.iter().zip(b) {
        sum = F32.decode(F32.encode(fma_odd(*a, *b, sum), Round::Even));
    }
    f.encode(sum, Round::Even)
}
