//! wgmma in every operand layout, type and shape family, against a plain product.
//!
//! The host builds the shared memory image from the canonical layouts of the PTX ISA ("Shared
//! memory matrix layout"), a bulk copy brings it in, one warpgroup multiplies and stores its raw
//! accumulators.

use warplift::sim::{Adversary, Launch, Memory, Options, ParamValue, parse, run};

/// An element type: name, bytes, and code of a small integer.
#[derive(Clone, Copy)]
struct Type {
    name: &'static str,
    bytes: usize,
    code: fn(i32) -> u32,
}

const F16: Type =
    Type { name: "f16", bytes: 2, code: |v| u32::from(half::f16::from_f32(v as f32).to_bits()) };
const BF16: Type =
    Type { name: "bf16", bytes: 2, code: |v| u32::from(half::bf16::from_f32(v as f32).to_bits()) };
const TF32: Type = Type { name: "tf32", bytes: 4, code: |v| (v as f32).to_bits() };
const E4M3: Type =
    Type { name: "e4m3", bytes: 1, code: |v| u32::from(float8::F8E4M3::from_f32(v as f32).to_bits()) };
const E5M2: Type =
    Type { name: "e5m2", bytes: 1, code: |v| u32::from(float8::F8E5M2::from_f32(v as f32).to_bits()) };
const S8: Type = Type { name: "s8", bytes: 1, code: |v| v as u8 as u32 };
const U8: Type = Type { name: "u8", bytes: 1, code: |v| v as u32 };

/// How an operand lies in shared memory.
#[derive(Clone, Copy, Debug)]
struct Layout {
    /// Swizzle span in bytes, 0 for none.
    span: usize,
    /// Contiguous along M or N instead of K.
    transposed: bool,
}

/// Byte offset of an element, and the descriptor's LBO and SBO, for an operand of `rows` (M or N)
/// by `k`. Written with core matrices (8 rows of 16 bytes) and atoms (8 rows of the span).
fn place(l: Layout, bytes: usize, rows: usize, k: usize, r: usize, c: usize) -> (usize, usize, usize) {
    let (major, minor, majors) = if l.transposed { (r, c, rows) } else { (c, r, k) };
    let along = major * bytes;
    if l.span == 0 {
        // Core matrices of 128 bytes; along the contiguous direction first.
        let per_line = majors * bytes / 16;
        let at = (minor / 8 * per_line + along / 16) * 128 + minor % 8 * 16 + along % 16;
        let (step_minor, step_major) = (per_line * 128, 128);
        return if l.transposed { (at, step_minor, step_major) } else { (at, step_major, step_minor) };
    }
    // Atoms: 8 lines of the span; atoms along `minor` first, then along `major`.
    let minors = if l.transposed { k } else { rows };
    let atom = 8 * l.span;
    let column = minors / 8 * atom;
    let (line, chunk) = (minor % 8, along % l.span / 16);
    let pattern = l.span / 16;
    // Every 128 bytes of address advance the pattern by one.
    let turn = (line * l.span / 128) % pattern;
    let at = along / l.span * column + minor / 8 * atom + line * l.span + (chunk ^ turn) * 16 + along % 16;
    (at, column, atom)
}

fn descriptor(l: Layout, start: usize, lbo: usize, sbo: usize) -> u64 {
    let mode = match l.span {
        128 => 1u64,
        64 => 2,
        32 => 3,
        _ => 0,
    };
    ((start & 0x3ffff) >> 4) as u64 | ((lbo >> 4) as u64) << 16 | ((sbo >> 4) as u64) << 32 | mode << 62
}

struct Case {
    a: Type,
    b: Type,
    acc: &'static str,
    n: usize,
    layout_a: Option<Layout>,
    layout_b: Layout,
    negate: (bool, bool),
    scale_d: bool,
}

fn value(i: usize, signed: bool) -> i32 {
    let v = (i * 7 + i / 5 + 3) % 9;
    v as i32 - if signed { 4 } else { 0 }
}

const START: usize = 0x400;

fn check(c: &Case) {
    let k = 32 / c.a.bytes;
    let (m, n) = (64, c.n);
    let signed = |t: Type| t.name != "u8";
    let a: Vec<i32> = (0..m * k).map(|i| value(i, signed(c.a))).collect();
    let b: Vec<i32> = (0..n * k).map(|i| value(i + 11, signed(c.b))).collect();
    let start_b = 32768;
    let mut image = vec![0xeeu8; 65536];
    let mut put = |start: usize, at: usize, t: Type, v: i32| {
        let code = (t.code)(v).to_le_bytes();
        image[start + at..start + at + t.bytes].copy_from_slice(&code[..t.bytes]);
    };
    let mut desc_a = 0;
    if let Some(l) = c.layout_a {
        for (i, v) in a.iter().enumerate() {
            let (at, lbo, sbo) = place(l, c.a.bytes, m, k, i / k, i % k);
            put(0, at, c.a, *v);
            desc_a = descriptor(l, START, lbo, sbo);
        }
    }
    let mut desc_b = 0;
    for (i, v) in b.iter().enumerate() {
        let (at, lbo, sbo) = place(c.layout_b, c.b.bytes, n, k, i / k, i % k);
        put(start_b, at, c.b, *v);
        desc_b = descriptor(c.layout_b, START + start_b, lbo, sbo);
    }
    let regs = if c.acc == "f16" { n / 4 } else { n / 2 };
    let ptx = text(c, k, regs, desc_a, desc_b);
    if let Ok(folder) = std::env::var("WARPLIFT_LITMUS_OUT") {
        let file =
            format!("{folder}/wgmma_{}_{}_{}_{n}_{desc_b:x}_{desc_a:x}.ptx", c.acc, c.a.name, c.b.name);
        std::fs::write(file, &ptx).expect("the folder is there");
    }
    let module = parse(&ptx).unwrap_or_else(|e| panic!("{e}\n{ptx}"));
    for order in [Adversary::Earliest, Adversary::Latest] {
        let mut memory = Memory::new();
        let input = memory.alloc("image", image.clone());
        let fragments = memory.alloc("a", fragments(c, &a, k));
        let out = memory.alloc_poisoned("out", 128 * regs * 4);
        let mut launch = Launch::new(&module, "k");
        launch.block = 128;
        launch.dynamic_shared = 65536 + 1024;
        launch.params = [input, fragments, out].iter().map(|i| ParamValue::Pointer(*i, 0)).collect();
        let options = Options { order, ..Options::default() };
        run(&launch, &mut memory, &options).unwrap_or_else(|e| panic!("{e}"));
        compare(c, k, regs, &a, &b, memory.bytes(out));
    }
}

/// A in registers, four words a thread, by the fragment figure of the ISA.
fn fragments(c: &Case, a: &[i32], k: usize) -> Vec<u8> {
    let per = 4 / c.a.bytes;
    let mut out = Vec::new();
    for t in 0..128 {
        let (warp, lane) = (t / 32, t % 32);
        for reg in 0..4 {
            let row = 16 * warp + lane / 4 + if reg % 2 == 1 { 8 } else { 0 };
            let col = lane % 4 * per + if reg >= 2 { 4 * per } else { 0 };
            for p in 0..per {
                let code = (c.a.code)(a[row * k + col + p]).to_le_bytes();
                out.extend_from_slice(&code[..c.a.bytes]);
            }
        }
    }
    out
}

fn text(c: &Case, k: usize, regs: usize, desc_a: u64, desc_b: u64) -> String {
    let acc = if c.acc == "f32" { "f" } else { "x" };
    let list: Vec<String> = (0..regs).map(|i| format!("%{acc}{i}")).collect();
    let list = list.join(", ");
    let float = !matches!(c.acc, "s32");
    let sign = |n: bool| if n { -1 } else { 1 };
    let mut tail = format!(
        "%p2{}",
        if float { format!(", {}, {}", sign(c.negate.0), sign(c.negate.1)) } else { String::new() }
    );
    if c.a.bytes == 2 {
        let t = |l: Layout| u8::from(l.transposed);
        if let Some(l) = c.layout_a {
            tail += &format!(", {}", t(l));
        }
        tail += &format!(", {}", t(c.layout_b));
    }
    let first = if c.layout_a.is_some() { "%rd4".to_owned() } else { "{%r4, %r5, %r6, %r7}".to_owned() };
    let zero: String = (0..regs)
        .map(|i| {
            if acc == "f" {
                format!("mov.f32 %f{i}, 0f41200000;\n")
            } else {
                format!("mov.b32 %x{i}, {};\n", if c.acc == "f16" { 0x4900_4900 } else { 10 })
            }
        })
        .collect();
    let store: String = (0..regs).map(|i| format!("st.global.b32 [%rd7+{}], %{acc}{i};\n", 4 * i)).collect();
    format!(
        ".version 8.4\n.target sm_90a\n.address_size 64\n.extern .shared .align 1024 .b8 smem[];\n\
         .visible .entry k(.param .u64 image, .param .u64 frags, .param .u64 out)\n.reqntid 128\n{{\n\
         .reg .pred %p<4>;\n.reg .b32 %r<16>, %x<128>;\n.reg .f32 %f<128>;\n.reg .b64 %rd<16>;\n\
         mov.u32 %r1, smem;\nmov.u32 %r2, %tid.x;\nadd.u32 %r3, %r1, 65536;\n\
         ld.param.u64 %rd1, [image];\nsetp.ne.u32 %p1, %r2, 0;\n@%p1 bra READY;\n\
         mbarrier.init.shared::cta.b64 [%r3], 1;\nfence.mbarrier_init.release.cluster;\n\
         mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 65536;\n\
         cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], 65536, [%r3];\n\
         READY:\nbar.sync 0;\n\
         WAIT:\nmbarrier.try_wait.parity.shared::cta.b64 %p3, [%r3], 0;\n@!%p3 bra WAIT;\n\
         ld.param.u64 %rd2, [frags];\nmul.wide.u32 %rd3, %r2, 16;\nadd.s64 %rd2, %rd2, %rd3;\n\
         ld.global.v4.b32 {{%r4, %r5, %r6, %r7}}, [%rd2];\n\
         mov.b64 %rd4, 0x{desc_a:x};\nmov.b64 %rd5, 0x{desc_b:x};\n\
         {zero}setp.eq.u32 %p2, 1, {};\n\
         wgmma.fence.sync.aligned;\n\
         wgmma.mma_async.sync.aligned.m64n{}k{k}.{}.{}.{} {{{list}}}, {first}, %rd5, {tail};\n\
         wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n\
         ld.param.u64 %rd6, [out];\nmul.wide.u32 %rd7, %r2, {};\nadd.s64 %rd7, %rd6, %rd7;\n{store}ret;\n}}\n",
        u8::from(c.scale_d),
        c.n,
        c.acc,
        c.a.name,
        c.b.name,
        4 * regs,
    )
}

fn compare(c: &Case, k: usize, regs: usize, a: &[i32], b: &[i32], out: &[u8]) {
    let word = |t: usize, i: usize| {
        let at = (t * regs + i) * 4;
        u32::from_le_bytes(out[at..at + 4].try_into().expect("4 bytes"))
    };
    let sign = if c.negate.0 ^ c.negate.1 { -1 } else { 1 };
    for row in 0..64 {
        for col in 0..c.n {
            let dot: i32 = (0..k).map(|i| a[row * k + i] * b[col * k + i]).sum();
            let want = sign * dot + if c.scale_d { 10 } else { 0 };
            let thread = row / 16 * 32 + row % 8 * 4 + col % 8 / 2;
            let high = row % 16 / 8;
            let got = match c.acc {
                "f16" => {
                    let w = word(thread, col / 8 * 2 + high) >> (16 * (col % 2));
                    half::f16::from_bits(w as u16).to_f32() as i32
                }
                "f32" => f32::from_bits(word(thread, col / 8 * 4 + 2 * high + col % 2)) as i32,
                _ => word(thread, col / 8 * 4 + 2 * high + col % 2) as i32,
            };
            assert_eq!(
                got, want,
                "row {row} column {col} of {} {} n{} {:?} {:?}",
                c.a.name, c.acc, c.n, c.layout_a, c.layout_b
            );
        }
    }
}

const fn k_major(span: usize) -> Layout {
    Layout { span, transposed: false }
}

const fn mn_major(span: usize) -> Layout {
    Layout { span, transposed: true }
}

const PLAIN: Case = Case {
    a: F16,
    b: F16,
    acc: "f32",
    n: 64,
    layout_a: Some(k_major(128)),
    layout_b: k_major(128),
    negate: (false, false),
    scale_d: true,
};

#[test]
fn every_layout_of_16_bit_operands() {
    for span in [0, 32, 64, 128] {
        for (la, lb) in [
            (k_major(span), k_major(span)),
            (mn_major(span), k_major(span)),
            (k_major(span), mn_major(span)),
            (mn_major(span), mn_major(span)),
        ] {
            check(&Case { layout_a: Some(la), layout_b: lb, ..PLAIN });
        }
    }
}

#[test]
fn every_type() {
    for (a, b, acc) in [
        (BF16, BF16, "f32"),
        (F16, F16, "f16"),
        (TF32, TF32, "f32"),
        (E4M3, E5M2, "f32"),
        (E5M2, E4M3, "f16"),
        (E4M3, E4M3, "f32"),
        (S8, S8, "s32"),
        (U8, U8, "s32"),
        (S8, U8, "s32"),
        (U8, S8, "s32"),
    ] {
        for span in [0, 32, 64, 128] {
            check(&Case { a, b, acc, layout_a: Some(k_major(span)), layout_b: k_major(span), ..PLAIN });
        }
        check(&Case { a, b, acc, layout_a: None, ..PLAIN });
    }
}

#[test]
fn every_width() {
    for n in (8..=256).step_by(8) {
        check(&Case { n, ..PLAIN });
    }
    for n in [8, 16, 24, 32, 48, 96, 224, 256] {
        check(&Case { n, a: S8, b: S8, acc: "s32", ..PLAIN });
    }
}

#[test]
fn scales_and_registers() {
    for negate in [(true, false), (false, true), (true, true)] {
        check(&Case { negate, ..PLAIN });
    }
    check(&Case { scale_d: false, ..PLAIN });
    check(&Case { layout_a: None, layout_b: mn_major(128), ..PLAIN });
}
