//! Operands of a wgmma out of shared memory, and the product.
//!
//! Addresses of an operand's 16-byte rows, from the descriptor's start, LBO and SBO (PTX ISA,
//! "Shared memory matrix layout", "Matrix descriptor format"):
//!
//! ```text
//!  K-major   none     start + r/8*SBO + r%8*16   + chunk*LBO
//!            swizzled start + r/8*SBO + r%8*span + chunk*16
//!  MN-major  none     start + g*SBO   + k%8*16   + k/8*LBO        g: group of 8 rows or columns
//!            swizzled start + g/(span/16)*LBO + g%(span/16)*16 + k%8*span + k/8*SBO
//!  then bits 4.. of a swizzled address ^= bits 7..
//! ```

use super::access::Blame;
use super::clock::Clocks;
use super::data::number;
use super::float::{F16, F32, Round};
use super::hazard::HazardKind;
use super::inst::{Acc, Elem, Wgmma, WgmmaA};
use super::machine::{Found, Machine, Stop};
use super::matrix::element;
use super::shadow::{Kind, Who};
use super::state::{Operation, WarpOperands};
use super::tensormap::swizzle;

/// A matrix descriptor's fields in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Descriptor {
    start: u32,
    leading: u32,
    stride: u32,
    base_offset: u32,
    /// Swizzle span, 0 for none.
    span: u32,
}

impl Descriptor {
    fn of(bits: u64) -> Self {
        let field = |at: u32, width: u32| (bits >> at & ((1 << width) - 1)) as u32;
        Self {
            start: field(0, 14) << 4,
            leading: field(16, 14) << 4,
            stride: field(32, 14) << 4,
            base_offset: field(49, 3),
            span: [0, 128, 64, 32][field(62, 2) as usize],
        }
    }

    /// Offset of a 16-byte row: row or column group and K step as the layout counts them.
    fn k_major(self, row: u32, chunk: u32) -> u32 {
        let (pitch, step) = match self.span {
            0 => (16, self.leading),
            span => (span, 16),
        };
        self.place(row / 8 * self.stride + row % 8 * pitch + chunk * step)
    }

    fn mn_major(self, group: u32, k: u32) -> u32 {
        if self.span == 0 {
            return self.place(group * self.stride + k % 8 * 16 + k / 8 * self.leading);
        }
        let wide = self.span / 16;
        self.place(group / wide * self.leading + group % wide * 16 + k % 8 * self.span + k / 8 * self.stride)
    }

    /// Addresses have 18 bits.
    fn place(self, offset: u32) -> u32 {
        swizzle(self.start.wrapping_add(offset) & 0x3_ffff, self.span)
    }
}

/// Where an operand is read from and who answers for it.
struct Source<'a> {
    op: &'a Operation,
    block: usize,
    descriptor: Descriptor,
    transposed: bool,
    element: Elem,
    clocks: &'a Clocks,
}

impl Machine<'_> {
    pub fn multiply(
        &mut self,
        op: &Operation,
        first: usize,
        g: &Wgmma,
        parts: &[Option<WarpOperands>; 4],
    ) -> Result<(), Stop> {
        let Some(lead) = &parts[0] else {
            return Ok(());
        };
        let block = self.warps[first].block;
        let (n, k) = (g.n as usize, g.k as usize);
        let source = Source {
            op,
            block,
            descriptor: Descriptor::of(lead.b),
            transposed: g.transpose.1,
            element: g.b,
            clocks: &op.start,
        };
        let mut b = vec![0f32; n * k];
        self.operand(&source, 0, g.n, g.k, |row, kk, v| b[kk * n + row] = v)?;
        for (i, part) in parts.iter().enumerate() {
            let Some(part) = part else { continue };
            let w = first + i;
            let mut a = vec![0f32; 16 * k];
            match (&g.a_from, part.a) {
                (WgmmaA::Registers(r), _) => self.registers_a(w, r, g, &mut a),
                (WgmmaA::Descriptor(_), bits) => {
                    let source = Source {
                        descriptor: Descriptor::of(bits.unwrap_or(0)),
                        transposed: g.transpose.0,
                        element: g.a,
                        clocks: &part.clocks,
                        ..source
                    };
                    let top = 16 * i;
                    self.operand(&source, top as u32, 16, g.k, |row, kk, v| {
                        a[(row - top) * k + kk] = v;
                    })?;
                }
            }
            if g.negate.0 != g.negate.1 {
                a.iter_mut().for_each(|v| *v = -*v);
            }
            self.accumulate(w, g, part.scale_d, &a, &b);
        }
        Ok(())
    }

    /// Reads `rows` rows from `top` of an operand of `k` columns, 16 bytes at a time.
    fn operand(
        &mut self,
        s: &Source<'_>,
        top: u32,
        rows: u32,
        k: u32,
        mut put: impl FnMut(usize, usize, f32),
    ) -> Result<(), Stop> {
        if s.descriptor.base_offset != 0 {
            return self.unsupported(s.op.warp, "a matrix descriptor with a base offset");
        }
        self.on_boundary(s)?;
        let bits = s.element.bits();
        let per = 128 / bits;
        let at = |i: u32, e: usize| (i as usize) * per as usize + e;
        if s.transposed {
            for group in top / per..(top + rows) / per {
                for kk in 0..k {
                    let row = self.row_of(s, s.descriptor.mn_major(group, kk))?;
                    each(&row, s.element, |e, v| put(at(group, e), kk as usize, v));
                }
            }
            return Ok(());
        }
        for row in top..top + rows {
            for chunk in 0..k / per {
                let bytes = self.row_of(s, s.descriptor.k_major(row, chunk))?;
                each(&bytes, s.element, |e, v| put(row as usize, at(chunk, e), v));
            }
        }
        Ok(())
    }

    /// Without a base offset the swizzle pattern must begin on its own boundary.
    fn on_boundary(&mut self, s: &Source<'_>) -> Result<(), Stop> {
        let d = s.descriptor;
        let over = d.start & (8 * d.span).saturating_sub(1) & !127;
        if d.span == 0 || over == 0 {
            return Ok(());
        }
        let what = format!(
            "a matrix descriptor starts at {:#x}, {over} bytes off the boundary of its swizzle pattern, \
             and has base offset 0",
            d.start
        );
        self.hazard(Found::new(HazardKind::BadOperand, s.op.warp, s.op.pc, what))
    }

    fn row_of(&mut self, s: &Source<'_>, offset: u32) -> Result<[u8; 16], Stop> {
        let mut out = [0; 16];
        let at = offset as usize;
        let inside = offset >= super::space::SHARED_BASE;
        let Some(bytes) = self.blocks[s.block].shared.get(at..at + 16).filter(|_| inside) else {
            let blame = Blame { warp: s.op.warp, lane: 0, pc: s.op.pc };
            let what =
                format!("a wgmma reads its operand at shared offset {offset:#x}, outside the block's memory");
            let found = Found::new(HazardKind::OutOfBounds, blame.warp, blame.pc, what);
            self.hazard(found.at(u64::from(offset)))?;
            return Ok(out);
        };
        out.copy_from_slice(bytes);
        let access = s.op.access(Kind::Async);
        let who = Who { clocks: s.clocks, ..self.who_issued(s.op, access) };
        if let Some(c) = self.blocks[s.block].shadow.read(offset, 16, who) {
            self.conflict(s.op.warp, s.block, access, c, false)?;
        }
        Ok(out)
    }

    /// A from registers: row `l/4 + 8(r%2)`, column `(l%4)*per + part + 4*per*(r/2)`.
    fn registers_a(&self, w: usize, regs: &[u32; 4], g: &Wgmma, a: &mut [f32]) {
        let (k, bits) = (g.k as usize, g.a.bits());
        let per = (32 / bits) as usize;
        for (r, reg) in regs.iter().enumerate() {
            for (l, v) in self.warps[w].registers[*reg as usize].iter().enumerate() {
                for p in 0..per {
                    let row = l / 4 + 8 * (r % 2);
                    let col = l % 4 * per + p + 4 * per * (r / 2);
                    a[row * k + col] = decode(*v >> (p as u32 * bits), g.a);
                }
            }
        }
    }

    /// Adds `a * b` to the accumulators of one warp.
    fn accumulate(&mut self, w: usize, g: &Wgmma, keep: bool, a: &[f32], b: &[f32]) {
        let n = g.n as usize;
        let registers = &mut self.warps[w].registers;
        if g.acc == Acc::S32 {
            let mut d = vec![0i64; 16 * n];
            each_accumulator(g, |row, col, r, lane, _| {
                if keep {
                    d[row * n + col] = i64::from(registers[r][lane] as u32 as i32);
                }
            });
            for (row, out) in d.chunks_mut(n).enumerate() {
                for (kk, b) in b.chunks(n).enumerate() {
                    let x = a[row * g.k as usize + kk] as i64;
                    out.iter_mut().zip(b).for_each(|(o, b)| *o += x * *b as i64);
                }
            }
            each_accumulator(g, |row, col, r, lane, _| {
                let v = d[row * n + col];
                let v = if g.satfinite { v.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) } else { v };
                registers[r][lane] = u64::from(v as u32);
            });
            return;
        }
        let mut d = vec![0f32; 16 * n];
        each_accumulator(g, |row, col, r, lane, half| {
            if keep {
                d[row * n + col] = match half {
                    None => f32::from_bits(registers[r][lane] as u32),
                    Some(h) => F16.decode(registers[r][lane] >> (16 * h) & 0xffff) as f32,
                };
            }
        });
        for (row, out) in d.chunks_mut(n).enumerate() {
            for (kk, b) in b.chunks(n).enumerate() {
                let x = a[row * g.k as usize + kk];
                out.iter_mut().zip(b).for_each(|(o, b)| *o += x * *b);
            }
        }
        each_accumulator(g, |row, col, r, lane, half| {
            let v = d[row * n + col];
            match half {
                None => registers[r][lane] = F32.encode(f64::from(v), Round::Even),
                Some(h) => {
                    let bits = F16.encode(f64::from(v), Round::Even) << (16 * h);
                    let slot = &mut registers[r][lane];
                    *slot = (*slot & !(0xffff << (16 * h))) | bits;
                }
            }
        });
    }
}

/// Calls `f(row, column, register, lane, half)` for each accumulator element of a warp.
fn each_accumulator(g: &Wgmma, mut f: impl FnMut(usize, usize, usize, usize, Option<u32>)) {
    for (i, r) in g.d.iter().enumerate() {
        for lane in 0..32 {
            let (row, col) = (lane / 4, 2 * (lane % 4));
            let r = *r as usize;
            if g.acc == Acc::F16 {
                for h in 0..2 {
                    f(row + 8 * (i % 2), 8 * (i / 2) + col + h, r, lane, Some(h as u32));
                }
            } else {
                f(row + 8 * (i % 4 / 2), 8 * (i / 4) + col + i % 2, r, lane, None);
            }
        }
    }
}

fn decode(bits: u64, e: Elem) -> f32 {
    match e {
        Elem::Float(f) if f == F16 => half::f16::from_bits(bits as u16).to_f32(),
        Elem::Float(f) if f == super::float::BF16 => f32::from_bits((bits as u32 & 0xffff) << 16),
        Elem::Float(f) if f.shift == 13 => f32::from_bits(bits as u32 & !0x1fff),
        _ => element(bits & (u64::MAX >> (64 - e.bits())), e) as f32,
    }
}

fn each(row: &[u8; 16], e: Elem, mut f: impl FnMut(usize, f32)) {
    let size = (e.bits() / 8) as usize;
    for (i, bytes) in row.chunks(size).enumerate() {
        f(i, decode(number(bytes), e));
    }
}
