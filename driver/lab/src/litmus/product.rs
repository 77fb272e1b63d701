//! Matrix products of a warp, `mma.sync`, on integers small enough that every sum is exact.

use super::case::{Case, Kernel, words};

/// An element type: name, bytes, and the code of a small integer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Element {
    pub name: &'static str,
    pub bytes: usize,
    pub code: fn(i32) -> u32,
}

pub(super) const F16: Element =
    Element { name: "f16", bytes: 2, code: |v| half::f16::from_f32(v as f32).to_bits().into() };
pub(super) const BF16: Element =
    Element { name: "bf16", bytes: 2, code: |v| half::bf16::from_f32(v as f32).to_bits().into() };
pub(super) const TF32: Element = Element { name: "tf32", bytes: 4, code: |v| (v as f32).to_bits() };
pub(super) const E4M3: Element =
    Element { name: "e4m3", bytes: 1, code: |v| float8::F8E4M3::from_f32(v as f32).to_bits().into() };
pub(super) const E5M2: Element =
    Element { name: "e5m2", bytes: 1, code: |v| float8::F8E5M2::from_f32(v as f32).to_bits().into() };
pub(super) const S8: Element = Element { name: "s8", bytes: 1, code: |v| u32::from(v as u8) };
pub(super) const U8: Element = Element { name: "u8", bytes: 1, code: |v| u32::from(v as u8) };

impl Element {
    /// An operand's value by its place.
    pub fn value(&self, i: usize) -> i32 {
        let v = ((i * 7 + i / 5 + 3) % 9) as i32;
        if self.name == "u8" { v } else { v - 4 }
    }

    /// Bytes of the code of a value.
    pub fn bytes_of(&self, v: i32) -> Vec<u8> {
        (self.code)(v).to_le_bytes()[..self.bytes].to_vec()
    }

    /// Elements in a 32-bit register.
    pub fn per_register(&self) -> usize {
        4 / self.bytes
    }
}

/// Bytes of an accumulator's word or half.
pub(super) fn accumulator(ty: &str, v: i32) -> Vec<u8> {
    match ty {
        "f16" => F16.bytes_of(v),
        "f32" => (v as f32).to_le_bytes().to_vec(),
        _ => v.to_le_bytes().to_vec(),
    }
}

/// Operands of a fragment of 16 rows: row and first column of register `r` in a lane.
pub(super) fn fragment(lane: usize, r: usize, per: usize) -> (usize, usize) {
    (lane / 4 + 8 * (r % 2), lane % 4 * per + 4 * per * (r / 2))
}

/// The sum that every product starts from.
const START: i32 = 1;

fn case(k: usize, acc: &str, a: Element, b: Element) -> Case {
    let per = a.per_register();
    let (ra, rb) = (16 * k * a.bytes / 128, 8 * k * b.bytes / 128);
    let (va, vb) =
        (|row: usize, at: usize| a.value(row * k + at), |col: usize, at: usize| b.value(col * k + at + 11));
    let mut input = Vec::new();
    for lane in 0..32 {
        for r in 0..ra {
            let (row, at) = fragment(lane, r, per);
            (0..per).for_each(|p| input.extend(a.bytes_of(va(row, at + p))));
        }
        for r in 0..rb {
            let at = lane % 4 * per + 4 * per * r;
            (0..per).for_each(|p| input.extend(b.bytes_of(vb(lane / 4, at + p))));
        }
    }
    let registers = if acc == "f16" { 2 } else { 4 };
    let mut expected = vec![0; 128 * registers];
    for (row, col) in (0..16).flat_map(|r| (0..8).map(move |c| (r, c))) {
        let sum = START + (0..k).map(|i| va(row, i) * vb(col, i)).sum::<i32>();
        let bytes = accumulator(acc, sum);
        let place =
            (row % 8 * 4 + col / 2) * registers * 4 + row / 8 * 2 * bytes.len() + col % 2 * bytes.len();
        expected[place..place + bytes.len()].copy_from_slice(&bytes);
    }
    let types = format!("{acc}.{}.{}.{acc}", a.name, b.name);
    let kernel = Kernel {
        name: format!("mma.sync/m16n8k{k}.{types}"),
        body: body(k, &types, [registers, ra, rb]),
        input,
        output: vec![0xaa; expected.len()],
        ..Kernel::default()
    };
    kernel.expecting(expected.len() / 32 / registers, expected)
}

fn list(from: usize, n: usize) -> String {
    let names: Vec<String> = (from..from + n).map(|i| format!("%x{i}")).collect();
    format!("{{{}}}", names.join(", "))
}

fn body(k: usize, types: &str, [registers, ra, rb]: [usize; 3]) -> String {
    let start = match &types[..3] {
        "f32" => (START as f32).to_bits(),
        "f16" => (F16.code)(START) * 0x1_0001,
        _ => START as u32,
    };
    let zero: String = (0..registers).map(|i| format!("mov.b32 %x{i}, {start};\n")).collect();
    let load = |i: usize| format!("ld.global.b32 %x{}, [%rd4+{}];\n", 10 + i, 4 * i);
    let store = |i: usize| format!("st.global.b32 [%rd5+{}], %x{i};\n", 4 * i);
    format!(
        "mad.wide.u32 %rd4, %r2, {}, %rd1;\nmad.wide.u32 %rd5, %r2, {}, %rd2;\n{zero}{}\
         mma.sync.aligned.m16n8k{k}.row.col.{types} {acc}, {}, {}, {acc};\n{}",
        4 * (ra + rb),
        4 * registers,
        (0..ra + rb).map(load).collect::<String>(),
        list(10, ra),
        list(10 + ra, rb),
        (0..registers).map(store).collect::<String>(),
        acc = list(0, registers),
    )
}

/// A tf32 operand keeps the upper 19 bits: what lies below does not count.
fn truncation() -> Case {
    let mut case = case(8, "f32", TF32, TF32);
    case.name = "mma.sync/tf32.truncates".to_owned();
    let spoiled = case.input.chunks(4).map(|c| u32::from_le_bytes([c[0], c[1], c[2], c[3]]));
    case.input =
        words(spoiled.map(|v| if v & 0x7fff_ffff == 0 { v } else { v | 0x1fff }).collect::<Vec<_>>());
    case
}

/// Every shape and type that a Hopper has besides f64 and those below 8 bits.
pub(super) fn cases() -> Vec<Case> {
    let mut out = Vec::new();
    for k in [8, 16] {
        out.extend([case(k, "f32", F16, F16), case(k, "f16", F16, F16), case(k, "f32", BF16, BF16)]);
    }
    out.extend([4, 8].map(|k| case(k, "f32", TF32, TF32)));
    for k in [16, 32] {
        for (a, b) in [(S8, S8), (U8, U8), (S8, U8), (U8, S8)] {
            out.push(case(k, "s32", a, b));
        }
    }
    for (a, b) in [(E4M3, E4M3), (E4M3, E5M2), (E5M2, E4M3), (E5M2, E5M2)] {
        out.push(case(32, "f32", a, b));
    }
    out.push(truncation());
    out
}
