//! One litmus for each elementwise instruction: PTX in the simulator against the same thing
//! computed here. With `WARPLIFT_LITMUS_OUT` set to a folder, each PTX text is written there.

use warplift_sim::{Launch, Memory, Options, ParamValue, parse, run};

/// Runs a body on 32 lanes: inputs in `%a %b %c` (b64 registers `%la %lb %lc` hold them whole),
/// result in `%d` (b64).
fn body(name: &str, body: &str, inputs: [&[u64]; 3]) -> Vec<u64> {
    let ptx = format!(
        ".version 8.4\n.target sm_90a\n.address_size 64\n\
         .visible .entry k(.param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u64 pd)\n\
         .reqntid 32\n{{\n\
         .reg .pred %p<8>;\n.reg .b16 %h<8>;\n.reg .b32 %r<16>, %a, %b, %c;\n\
         .reg .b64 %rd<16>, %la, %lb, %lc, %d;\n.reg .f32 %f<8>;\n.reg .f64 %fd<8>;\n\
         mov.u32 %r0, %tid.x;\nmul.wide.u32 %rd0, %r0, 8;\n\
         ld.param.u64 %rd1, [pa];\nadd.s64 %rd1, %rd1, %rd0;\nld.global.b64 %la, [%rd1];\n\
         ld.param.u64 %rd1, [pb];\nadd.s64 %rd1, %rd1, %rd0;\nld.global.b64 %lb, [%rd1];\n\
         ld.param.u64 %rd1, [pc];\nadd.s64 %rd1, %rd1, %rd0;\nld.global.b64 %lc, [%rd1];\n\
         cvt.u32.u64 %a, %la;\ncvt.u32.u64 %b, %lb;\ncvt.u32.u64 %c, %lc;\nmov.b64 %d, 0;\n\
         {body}\n\
         ld.param.u64 %rd1, [pd];\nadd.s64 %rd1, %rd1, %rd0;\nst.global.b64 [%rd1], %d;\nret;\n}}\n"
    );
    if let Ok(folder) = std::env::var("WARPLIFT_LITMUS_OUT") {
        let file = format!("{folder}/{}.ptx", name.replace(['.', ':', ' '], "_"));
        std::fs::write(file, &ptx).expect("the folder is there");
    }
    let module = parse(&ptx).unwrap_or_else(|e| panic!("{name}: {e}"));
    let mut memory = Memory::new();
    let bytes = |v: &[u64]| -> Vec<u8> {
        let all = v.iter().copied().chain(std::iter::repeat(0)).take(32);
        all.flat_map(u64::to_le_bytes).collect()
    };
    let mut ids: Vec<_> = inputs.iter().map(|v| memory.alloc("in", bytes(v))).collect();
    ids.push(memory.alloc_poisoned("out", 256));
    let mut launch = Launch::new(&module, "k");
    launch.params = ids.iter().map(|i| ParamValue::Pointer(*i, 0)).collect();
    run(&launch, &mut memory, &Options::default()).unwrap_or_else(|e| panic!("{name}: {e}"));
    let out = memory.bytes(ids[3]).chunks(8);
    out.map(|c| u64::from_le_bytes(c.try_into().expect("8 bytes"))).collect()
}

/// Values that find mistakes: ends of ranges, signs, single bits.
fn interesting(seed: u64) -> Vec<u64> {
    let mut v = vec![
        0,
        1,
        2,
        31,
        32,
        33,
        0x7fff_ffff,
        0x8000_0000,
        0xffff_ffff,
        0x1_0000_0000,
        u64::MAX,
        1 << 63,
        0x0123_4567_89ab_cdef,
        0xaaaa_5555,
        0xffff_0000,
        0x8080_8080,
    ];
    let mut x = seed | 1;
    while v.len() < 32 {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        v.push(x);
    }
    let turn = seed as usize % 32;
    v.rotate_left(turn);
    v
}

type Model = fn(u64, u64, u64) -> u64;

fn check(cases: &[(&str, &str, Model)]) {
    let (a, b, c) = (interesting(3), interesting(8), interesting(17));
    for (name, text, model) in cases {
        let got = body(name, text, [&a, &b, &c]);
        for l in 0..32 {
            let want = model(a[l], b[l], c[l]);
            assert_eq!(
                got[l], want,
                "{name}({:#x}, {:#x}, {:#x}) = {:#x}, not {want:#x}",
                a[l], b[l], c[l], got[l]
            );
        }
    }
}

fn lo(v: u64) -> u32 {
    v as u32
}

fn int(v: u64) -> i32 {
    v as i32
}

fn z(v: i32) -> u64 {
    u64::from(v as u32)
}

const W: &str = "cvt.u64.u32 %d, %r1;";

/// The texts of cases with the last line, which stores the 32-bit result in `%r1`.
fn with_store<M>(cases: &[(&str, &str, M)]) -> Vec<String> {
    cases.iter().map(|(_, text, _)| format!("{text}\n{W}")).collect()
}

/// Checks cases without their last line.
fn check_words(cases: &[(&str, &str, Model)]) {
    let texts = with_store(cases);
    let cases: Vec<_> = cases.iter().zip(&texts).map(|((n, _, m), text)| (*n, text.as_str(), *m)).collect();
    check(&cases);
}

#[test]
fn integer_arithmetic() {
    check_words(&[
        ("add.u32", "add.u32 %r1, %a, %b;", |a, b, _| u64::from(lo(a).wrapping_add(lo(b)))),
        ("add.sat.s32", "add.sat.s32 %r1, %a, %b;", |a, b, _| z(int(a).saturating_add(int(b)))),
        ("sub.s32", "sub.s32 %r1, %a, %b;", |a, b, _| z(int(a).wrapping_sub(int(b)))),
        ("mul.lo.s32", "mul.lo.s32 %r1, %a, %b;", |a, b, _| z(int(a).wrapping_mul(int(b)))),
        ("mul.hi.s32", "mul.hi.s32 %r1, %a, %b;", |a, b, _| {
            z(((i64::from(int(a)) * i64::from(int(b))) >> 32) as i32)
        }),
        ("mul.hi.u32", "mul.hi.u32 %r1, %a, %b;", |a, b, _| (u64::from(lo(a)) * u64::from(lo(b))) >> 32),
        ("mad.lo.u32", "mad.lo.u32 %r1, %a, %b, %c;", |a, b, c| {
            u64::from(lo(a).wrapping_mul(lo(b)).wrapping_add(lo(c)))
        }),
        (
            "div.s32",
            "or.b32 %r2, %b, 1;\ndiv.s32 %r1, %a, %r2;",
            |a, b, _| z(int(a).wrapping_div(int(b | 1))),
        ),
        ("div.u32", "or.b32 %r2, %b, 1;\ndiv.u32 %r1, %a, %r2;", |a, b, _| u64::from(lo(a) / lo(b | 1))),
    ]);
}

#[test]
fn integer_choices_and_fields() {
    check_words(&[
        ("min.s32", "min.s32 %r1, %a, %b;", |a, b, _| z(int(a).min(int(b)))),
        ("max.u32", "max.u32 %r1, %a, %b;", |a, b, _| u64::from(lo(a).max(lo(b)))),
        ("neg.s32", "neg.s32 %r1, %a;", |a, _, _| z(int(a).wrapping_neg())),
        ("abs.s32", "abs.s32 %r1, %a;", |a, _, _| z(int(a).wrapping_abs())),
        ("sad.s32", "sad.s32 %r1, %a, %b, %c;", |a, b, c| {
            u64::from(int(a).abs_diff(int(b)).wrapping_add(lo(c)))
        }),
        ("shl.b32", "shl.b32 %r1, %a, %b;", |a, b, _| u64::from(lo(a).checked_shl(lo(b)).unwrap_or(0))),
        ("shr.s32", "shr.s32 %r1, %a, %b;", |a, b, _| z(int(a) >> lo(b).min(31))),
        ("popc.b64", "popc.b64 %r1, %la;", |a, _, _| u64::from(a.count_ones())),
        ("clz.b32", "clz.b32 %r1, %a;", |a, _, _| u64::from(lo(a).leading_zeros())),
        ("bfind.u32", "bfind.u32 %r1, %a;", |a, _, _| u64::from(lo(a).checked_ilog2().unwrap_or(u32::MAX))),
        ("bfe.s32", "bfe.s32 %r1, %a, 5, 9;", |a, _, _| z(int(a) << 18 >> 23)),
        ("bfi.b32", "bfi.b32 %r1, %a, %b, 7, 11;", |a, b, _| {
            u64::from((lo(b) & !(0x7ff << 7)) | ((lo(a) & 0x7ff) << 7))
        }),
        ("dp4a", "dp4a.s32.s32 %r1, %a, %b, %c;", |a, b, c| {
            let dot: i32 = lo(a)
                .to_le_bytes()
                .iter()
                .zip(lo(b).to_le_bytes())
                .map(|(x, y)| i32::from(*x as i8) * i32::from(y as i8))
                .sum();
            z(dot.wrapping_add(int(c)))
        }),
    ]);
}

#[test]
fn wide_integers_and_carries() {
    check(&[
        ("mul.wide.s32", "mul.wide.s32 %d, %a, %b;", |a, b, _| {
            (i64::from(int(a)) * i64::from(int(b))) as u64
        }),
        ("mul.hi.u64", "mul.hi.u64 %d, %la, %lb;", |a, b, _| ((u128::from(a) * u128::from(b)) >> 64) as u64),
        ("mul.hi.s64", "mul.hi.s64 %d, %la, %lb;", |a, b, _| {
            ((i128::from(a as i64) * i128::from(b as i64)) >> 64) as u64
        }),
        ("mad.wide.u32", "mad.wide.u32 %d, %a, %b, %lc;", |a, b, c| {
            (u64::from(lo(a)) * u64::from(lo(b))).wrapping_add(c)
        }),
        ("rem.u64", "or.b64 %rd2, %lb, 1;\nrem.u64 %d, %la, %rd2;", |a, b, _| a % (b | 1)),
        ("shr.u64", "shr.u64 %d, %la, %b;", |a, b, _| a.checked_shr(lo(b)).unwrap_or(0)),
        ("brev.b64", "brev.b64 %d, %la;", |a, _, _| a.reverse_bits()),
        ("bfe.u64", "bfe.u64 %d, %la, 12, 40;", |a, _, _| (a >> 12) & ((1 << 40) - 1)),
        ("addc", "add.cc.u32 %r1, %a, %b;\naddc.u32 %r2, %c, 0;\nmov.b64 %d, {%r1, %r2};", |a, b, c| {
            let s = u64::from(lo(a)) + u64::from(lo(b));
            (s & 0xffff_ffff) | u64::from(lo(c).wrapping_add((s >> 32) as u32)) << 32
        }),
        ("subc", "sub.cc.u32 %r1, %a, %b;\nsubc.u32 %r2, %c, 0;\nmov.b64 %d, {%r1, %r2};", |a, b, c| {
            let (v, borrow) = lo(a).overflowing_sub(lo(b));
            u64::from(v) | u64::from(lo(c).wrapping_sub(u32::from(borrow))) << 32
        }),
    ]);
}

/// What ptxas 13.0 makes of a carry of the other kind.
#[test]
fn carries_of_sums_and_differences_meet() {
    check(&[
        ("sub addc", "sub.cc.u32 %r1, %a, %b;\naddc.u32 %r2, %c, 0;\nmov.b64 %d, {%r1, %r2};", |a, b, c| {
            let (v, borrow) = lo(a).overflowing_sub(lo(b));
            u64::from(v) | u64::from(lo(c).wrapping_add(u32::from(!borrow))) << 32
        }),
        ("add subc", "add.cc.u32 %r1, %a, %b;\nsubc.u32 %r2, %c, 0;\nmov.b64 %d, {%r1, %r2};", |a, b, c| {
            let (v, carry) = lo(a).overflowing_add(lo(b));
            u64::from(v) | u64::from(lo(c).wrapping_sub(u32::from(!carry))) << 32
        }),
    ]);
}

#[test]
fn bits_and_choices() {
    check(&[
        ("and.b64", "and.b64 %d, %la, %lb;", |a, b, _| a & b),
        ("not.b32", "not.b32 %r1, %a;\ncvt.u64.u32 %d, %r1;", |a, _, _| u64::from(!lo(a))),
        ("xor.b64", "xor.b64 %d, %la, %lb;", |a, b, _| a ^ b),
        ("lop3", "lop3.b32 %r1, %a, %b, %c, 0xd8;\ncvt.u64.u32 %d, %r1;", |a, b, c| {
            // 0xd8 = (a & b) | (c' ...): bit i of the table for a*4 + b*2 + c.
            (0..32).fold(0, |o, i| {
                let t = (a >> i & 1) * 4 + (b >> i & 1) * 2 + (c >> i & 1);
                o | (0xd8u64 >> t & 1) << i
            })
        }),
        ("prmt", "prmt.b32 %r1, %a, %b, 0xd471;\ncvt.u64.u32 %d, %r1;", |a, b, _| {
            let bytes = [lo(a).to_le_bytes(), lo(b).to_le_bytes()].concat();
            let sign = if bytes[5] & 0x80 != 0 { 0xff } else { 0 };
            u64::from(u32::from_le_bytes([bytes[1], bytes[7], bytes[4], sign]))
        }),
        ("shf.l.wrap", "shf.l.wrap.b32 %r1, %a, %b, %c;\ncvt.u64.u32 %d, %r1;", |a, b, c| {
            let v = u64::from(lo(b)) << 32 | u64::from(lo(a));
            v << (c & 31) >> 32
        }),
        ("shf.r.clamp", "shf.r.clamp.b32 %r1, %a, %b, %c;\ncvt.u64.u32 %d, %r1;", |a, b, c| {
            let v = u64::from(lo(b)) << 32 | u64::from(lo(a));
            v >> lo(c).min(32) & 0xffff_ffff
        }),
        ("selp", "setp.lt.s64 %p1, %la, %lb;\nselp.b64 %d, %la, %lc, %p1;", |a, b, c| {
            if (a as i64) < b as i64 { a } else { c }
        }),
        (
            "setp.and",
            "setp.gt.u32 %p2, %c, 5;\nsetp.le.and.s32 %p1|%p3, %a, %b, %p2;\nselp.u64 %d, 1, 0, %p1;\n@%p3 add.u64 %d, %d, 2;",
            |a, b, c| {
                let (p, q) = (int(a) <= int(b), lo(c) > 5);
                u64::from(p && q) + 2 * u64::from(!p && q)
            },
        ),
        (
            "predicates",
            "setp.eq.b64 %p1, %la, %lb;\nsetp.ge.u64 %p2, %la, %lc;\nxor.pred %p3, %p1, %p2;\nnot.pred %p4, %p3;\n@!%p4 mov.b64 %d, %la;",
            |a, b, c| if (a == b) ^ (a >= c) { a } else { 0 },
        ),
        (
            "pack",
            "mov.b64 {%r1, %r2}, %la;\nmov.b32 {%h1, %h2}, %r1;\nmov.b32 %r1, {%h2, %h1};\nmov.b64 %d, {%r2, %r1};",
            |a, _, _| u64::from(lo(a).rotate_left(16)) << 32 | a >> 32,
        ),
        ("slct", "slct.b32.s32 %r1, %a, %b, %c;\ncvt.u64.u32 %d, %r1;", |a, b, c| {
            u64::from(if int(c) >= 0 { lo(a) } else { lo(b) })
        }),
        ("set", "set.lt.u32.s32 %r1, %a, %b;\ncvt.u64.u32 %d, %r1;", |a, b, _| {
            if int(a) < int(b) { 0xffff_ffff } else { 0 }
        }),
    ]);
}

#[test]
fn integer_conversions() {
    check(&[
        ("cvt.s64.s8", "cvt.s64.s8 %d, %a;", |a, _, _| i64::from(a as i8) as u64),
        ("cvt.sat.u8", "cvt.sat.u8.s32 %r1, %a;\ncvt.u64.u32 %d, %r1;", |a, _, _| {
            int(a).clamp(0, 255) as u64
        }),
        ("cvt.pack", "cvt.pack.sat.s16.s32 %r1, %a, %b;\ncvt.u64.u32 %d, %r1;", |a, b, _| {
            let h = |v: u64| u64::from(int(v).clamp(-32768, 32767) as u16);
            h(a) << 16 | h(b)
        }),
    ]);
}

/// Floats that find mistakes, as bits.
fn floats() -> Vec<u32> {
    let mut v: Vec<u32> = [
        0.0f32,
        -0.0,
        1.0,
        -1.5,
        0.1,
        3.0,
        1e-40,
        -1e-40,
        1e38,
        -3e38,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        65504.0,
        65520.0,
        448.0,
        464.0,
        480.0,
        57344.0,
        61440.0,
        2.5,
        3.5,
        -2.5,
        1e-8,
        6e-8,
        0.5,
        16777217.0,
        2147483648.0,
    ]
    .iter()
    .map(|f| f.to_bits())
    .collect();
    v.extend([0x3f80_1000, 0x3f80_0fff, 0x3f80_8000, 0x3f81_8000]);
    v
}

type FloatModel = fn(f32, f32, f32) -> u32;

fn check_f32(cases: &[(&str, &str, FloatModel)]) {
    let a = floats();
    let (mut b, mut c) = (a.clone(), a.clone());
    b.rotate_left(5);
    c.rotate_left(11);
    let wide = |v: &[u32]| v.iter().map(|x| u64::from(*x)).collect::<Vec<_>>();
    for (name, text, model) in cases {
        let text = format!("mov.b32 %f1, %a;\nmov.b32 %f2, %b;\nmov.b32 %f3, %c;\n{text}");
        let got = body(name, &text, [&wide(&a), &wide(&b), &wide(&c)]);
        for l in 0..32 {
            let [x, y, w] = [a[l], b[l], c[l]].map(f32::from_bits);
            let want = model(x, y, w);
            assert_eq!(got[l] as u32, want, "{name}({x:e}, {y:e}, {w:e})");
        }
    }
}

/// The instruction set's NaN.
fn n(x: f32) -> u32 {
    if x.is_nan() { 0x7fff_ffff } else { x.to_bits() }
}

fn flush(x: f32) -> f32 {
    if x.is_subnormal() { 0.0f32.copysign(x) } else { x }
}

const F: &str = "mov.b32 %r1, %f4;\ncvt.u64.u32 %d, %r1;";

#[test]
fn float_arithmetic() {
    let w = |s: &str| format!("{s}\n{F}");
    let cases: Vec<(&str, String, FloatModel)> = vec![
        ("add.f32", w("add.f32 %f4, %f1, %f2;"), |a, b, _| n(a + b)),
        ("add.rz.f32", w("add.rz.f32 %f4, %f1, %f2;"), |a, b, _| n(sum_toward_zero(a, b))),
        ("mul.rp.f32", w("mul.rp.f32 %f4, %f1, %f2;"), |a, b, _| n(toward(f64::from(a) * f64::from(b), 1))),
        ("mul.rm.f32", w("mul.rm.f32 %f4, %f1, %f2;"), |a, b, _| n(toward(f64::from(a) * f64::from(b), -1))),
        ("mul.ftz.f32", w("mul.ftz.f32 %f4, %f1, %f2;"), |a, b, _| n(flush(flush(a) * flush(b)))),
        ("add.sat.f32", w("add.sat.f32 %f4, %f1, %f2;"), |a, b, _| if (a + b).is_nan() { 0 } else { ((a + b).clamp(0.0, 1.0) + 0.0).to_bits() }),
        ("fma.rn.f32", w("fma.rn.f32 %f4, %f1, %f2, %f3;"), |a, b, c| n(a.mul_add(b, c))),
        ("div.rn.f32", w("div.rn.f32 %f4, %f1, %f2;"), |a, b, _| n(a / b)),
        ("sqrt.rn.f32", w("sqrt.rn.f32 %f4, %f1;"), |a, _, _| n(a.sqrt())),
        ("rcp.rn.f32", w("rcp.rn.f32 %f4, %f1;"), |a, _, _| n(1.0 / a)),
        ("min.f32", w("min.f32 %f4, %f1, %f2;"), |a, b, _| n(if a == b && a == 0.0 { if a.is_sign_negative() { a } else { b } } else { a.min(b) })),
        ("max.NaN.f32", w("max.NaN.f32 %f4, %f1, %f2;"), |a, b, _| n(if a.is_nan() || b.is_nan() { f32::NAN } else if a == b && a == 0.0 { if a.is_sign_negative() { b } else { a } } else { a.max(b) })),
        ("neg.f32", w("neg.f32 %f4, %f1;"), |a, _, _| n(-a)),
        ("abs.f32", w("abs.f32 %f4, %f1;"), |a, _, _| n(a.abs())),
        ("ex2.approx.f32", w("ex2.approx.f32 %f4, %f1;"), |a, _, _| n(f64::from(a).exp2() as f32)),
        ("setp.f32", "setp.lt.f32 %p1, %f1, %f2;\nsetp.geu.f32 %p2, %f1, %f2;\nselp.u64 %d, 1, 0, %p1;\n@%p2 add.u64 %d, %d, 2;".into(), |a, b, _| {
            let lt = a < b;
            u32::from(lt) + 2 * u32::from(!lt)
        }),
        ("copysign", w("copysign.f32 %f4, %f1, %f2;"), |a, b, _| b.copysign(a).to_bits()),
    ];
    let cases: Vec<_> = cases.iter().map(|(n, t, m)| (*n, t.as_str(), *m)).collect();
    check_f32(&cases);
}

/// The exact sum, which f64 may miss by what the smaller addend holds beyond 53 bits.
fn sum_toward_zero(a: f32, b: f32) -> f32 {
    let (a, b) = (f64::from(a), f64::from(b));
    let s = a + b;
    if !s.is_finite() {
        return s as f32;
    }
    let lost = if a.abs() > b.abs() { b - (s - a) } else { a - (s - b) };
    let inward = lost != 0.0 && (lost > 0.0) != (s > 0.0);
    let s = match (inward, s > 0.0) {
        (false, _) => s,
        (true, true) => s.next_down(),
        (true, false) => s.next_up(),
    };
    toward(s, 0)
}

/// An exact f64 result to f32: toward zero (0), up (1) or down (-1).
fn toward(x: f64, way: i32) -> f32 {
    let near = x as f32;
    let d = f64::from(near);
    let over = match way {
        0 => d.abs() > x.abs(),
        1 => d < x,
        _ => d > x,
    };
    if !over || x.is_nan() || x.is_infinite() {
        return near;
    }
    match way {
        0 if x > 0.0 => near.next_down(),
        0 => near.next_up(),
        1 => near.next_up(),
        _ => near.next_down(),
    }
}

fn h(x: f32) -> u32 {
    if x.is_nan() { 0x7fff } else { u32::from(half::f16::from_f32(x).to_bits()) }
}

fn bf(x: f32) -> u32 {
    if x.is_nan() { 0x7fff } else { u32::from(half::bf16::from_f32(x).to_bits()) }
}

/// Checks cases without their last line.
fn check_f32_words(cases: &[(&str, &str, FloatModel)]) {
    let texts = with_store(cases);
    let cases: Vec<_> = cases.iter().zip(&texts).map(|((n, _, m), text)| (*n, text.as_str(), *m)).collect();
    check_f32(&cases);
}

#[test]
fn conversions_between_floats() {
    check_f32_words(&[
        ("cvt.rn.f16x2.f32", "cvt.rn.f16x2.f32 %r1, %f1, %f2;", |a, b, _| h(a) << 16 | h(b)),
        ("cvt.rn.bf16x2.f32", "cvt.rn.bf16x2.f32 %r1, %f1, %f2;", |a, b, _| bf(a) << 16 | bf(b)),
        ("cvt.rn.relu.bf16x2.f32", "cvt.rn.relu.bf16x2.f32 %r1, %f1, %f2;", |a, b, _| {
            let r = |x: f32| {
                if x < 0.0 || x.to_bits() == 1 << 31 { 0.0 } else { x }
            };
            bf(r(a)) << 16 | bf(r(b))
        }),
        ("cvt.rna.tf32.f32", "cvt.rna.tf32.f32 %r1, %f1;", |a, _, _| {
            if a.is_nan() {
                return a.to_bits() & !0x1fff;
            }
            if a.is_infinite() {
                return a.to_bits();
            }
            (a.to_bits() + 0x1000) & !0x1fff
        }),
        ("cvt.f32.f16", "cvt.rn.f16.f32 %h1, %f1;\ncvt.f32.f16 %f4, %h1;\nmov.b32 %r1, %f4;", |a, _, _| {
            n(half::f16::from_f32(a).to_f32())
        }),
        (
            "cvt.rn.satfinite.e4m3x2.f32",
            "cvt.rn.satfinite.e4m3x2.f32 %h1, %f1, %f2;\ncvt.u32.u16 %r1, %h1;",
            |a, b, _| {
                u32::from(
                    float8::F8E4M3::from_f32(a.clamp(-448.0, 448.0)).to_bits()
                        & if a.is_nan() { 0x7f } else { 0xff },
                ) << 8
                    | u32::from(
                        float8::F8E4M3::from_f32(b.clamp(-448.0, 448.0)).to_bits()
                            & if b.is_nan() { 0x7f } else { 0xff },
                    )
            },
        ),
        (
            "cvt.f64",
            "cvt.f64.f32 %fd1, %f1;\nadd.rn.f64 %fd1, %fd1, 0d3FF0000000000000;\ncvt.rn.f32.f64 %f4, %fd1;\nmov.b32 %r1, %f4;",
            |a, _, _| n((f64::from(a) + 1.0) as f32),
        ),
    ]);
}

#[test]
fn conversions_to_and_from_integers() {
    check_f32_words(&[
        ("cvt.rni.s32.f32", "cvt.rni.s32.f32 %r1, %f1;", |a, _, _| {
            if a.is_nan() { 0 } else { a.round_ties_even() as i32 as u32 }
        }),
        ("cvt.rzi.u32.f32", "cvt.rzi.u32.f32 %r1, %f1;", |a, _, _| if a.is_nan() { 0 } else { a as u32 }),
        (
            "cvt.rpi.s32.f32",
            "cvt.rpi.s32.f32 %r1, %f1;",
            |a, _, _| {
                if a.is_nan() { 0 } else { a.ceil() as i32 as u32 }
            },
        ),
        ("cvt.rmi.f32.f32", "cvt.rmi.f32.f32 %f4, %f1;\nmov.b32 %r1, %f4;", |a, _, _| n(a.floor())),
        ("cvt.rn.f32.s32", "cvt.rn.f32.s32 %f4, %a;\nmov.b32 %r1, %f4;", |a, _, _| {
            (a.to_bits() as i32 as f32).to_bits()
        }),
        ("cvt.rz.f32.u32", "cvt.rz.f32.u32 %f4, %a;\nmov.b32 %r1, %f4;", |a, _, _| {
            toward(f64::from(a.to_bits()), 0).to_bits()
        }),
    ]);
}

#[test]
fn every_fp8_code_unpacks_2702_2944() {
    for base in (0..256u64).step_by(32) {
        let codes: Vec<u64> = (base..base + 32).collect();
        let text = "cvt.u16.u32 %h1, %a;\ncvt.rn.f16x2.e4m3x2 %r1, %h1;\ncvt.rn.f16x2.e5m2x2 %r2, %h1;\nmov.b64 %d, {%r1, %r2};";
        let got = body("cvt.f16x2.e4m3x2", text, [&codes, &[], &[]]);
        for (l, code) in codes.iter().enumerate() {
            let e4 = float8::F8E4M3::from_bits(*code as u8).to_f32();
            let e5 = float8::F8E5M2::from_bits(*code as u8).to_f32();
            assert_eq!(got[l] as u32 & 0xffff, h(e4), "e4m3 {code:#x}");
            assert_eq!((got[l] >> 32) as u32 & 0xffff, h(e5), "e5m2 {code:#x}");
        }
    }
}

type Scalar = fn(f32, f32, f32) -> f32;

#[test]
fn half_arithmetic() {
    let pairs = |f: Scalar, a: u64, b: u64, c: u64| -> u64 {
        let half = |i: u32| {
            let [x, y, w] = [a, b, c].map(|v| half::f16::from_bits((v >> (16 * i)) as u16).to_f32());
            u64::from(h(f(x, y, w))) << (16 * i)
        };
        half(0) | half(1)
    };
    let (a, b, c) = (interesting(5), interesting(6), interesting(7));
    let cases: [(&str, &str, Scalar); 3] = [
        ("add.f16x2", "add.rn.f16x2 %r1, %a, %b;", |x, y, _| x + y),
        ("mul.f16x2", "mul.rn.f16x2 %r1, %a, %b;", |x, y, _| x * y),
        // Exact: products of f16 fit f32, and the sum is rounded once from f64 below.
        ("sub.f16x2", "sub.rn.f16x2 %r1, %a, %b;", |x, y, _| x - y),
    ];
    for (name, text, f) in cases {
        let got = body(name, &format!("{text}\n{W}"), [&a, &b, &c]);
        for l in 0..32 {
            assert_eq!(got[l], pairs(f, a[l], b[l], c[l]), "{name} lane {l} {:#x} {:#x}", a[l], b[l]);
        }
    }
}

#[test]
fn lanes_exchange() {
    let lanes: Vec<u64> = (0..32).map(|l| 100 + l).collect();
    let run1 = |name: &str, text: &str| body(name, &format!("{text}\n{W}"), [&lanes, &[], &[]]);
    let up = run1("shfl.up", "shfl.sync.up.b32 %r1|%p1, %a, 3, 0, -1;\n@!%p1 mov.b32 %r1, 7;");
    let down = run1("shfl.down", "shfl.sync.down.b32 %r1|%p1, %a, 3, 0x81f, -1;\n@!%p1 mov.b32 %r1, 7;");
    let bfly = run1("shfl.bfly", "shfl.sync.bfly.b32 %r1, %a, 5, 31, -1;");
    let idx = run1("shfl.idx", "shfl.sync.idx.b32 %r1, %a, 9, 0x181f, -1;");
    for l in 0..32u64 {
        assert_eq!(up[l as usize], if l < 3 { 7 } else { 97 + l });
        // Segments of 24 lanes would need a mask; 0x8 segments by bit 3 of the lane.
        let max = (l & 8) | (31 & !8);
        assert_eq!(down[l as usize], if l + 3 <= max && l + 3 < 32 { 103 + l } else { 7 }, "lane {l}");
        assert_eq!(bfly[l as usize], 100 + (l ^ 5));
        assert_eq!(idx[l as usize], 100 + ((l & 24) | 1));
    }
    let votes = run1(
        "vote",
        "and.b32 %r2, %a, 3;\nsetp.eq.u32 %p1, %r2, 0;\nvote.sync.ballot.b32 %r1, %p1, -1;\nvote.sync.any.pred %p2, %p1, -1;\nvote.sync.all.pred %p3, %p1, -1;\n@!%p2 mov.b32 %r1, 0;\n@%p3 mov.b32 %r1, 0;",
    );
    assert!(votes.iter().all(|v| *v == 0x1111_1111));
    let sum = run1("redux", "redux.sync.add.s32 %r1, %a, -1;");
    assert!(sum.iter().all(|v| *v == 100 * 32 + 496));
    let same = run1("match", "and.b32 %r2, %a, 1;\nmatch.any.sync.b32 %r1, %r2, -1;");
    assert_eq!((same[0], same[1]), (0x5555_5555, 0xaaaa_aaaa));
    let leader = run1(
        "elect",
        "elect.sync %r1|%p1, -1;\nmov.u32 %r2, %laneid;\nsetp.eq.u32 %p2, %r1, %r2;\nxor.pred %p3, %p1, %p2;\n@%p3 mov.b32 %r1, 99;",
    );
    assert!(leader.iter().all(|v| *v == leader[0] && *v < 32));
}

#[test]
fn divergence_meets_again() {
    let lanes: Vec<u64> = (0..32).collect();
    // Each lane loops as often as its number says, some leave early, all vote at the end.
    let text = "mov.b32 %r1, 0;\nmov.b32 %r2, 0;\n\
        LOOP:\nsetp.ge.u32 %p1, %r2, %a;\n@%p1 bra DONE;\nadd.u32 %r1, %r1, %r2;\nadd.u32 %r2, %r2, 1;\n\
        setp.eq.u32 %p2, %r1, 10;\n@%p2 bra DONE;\nbra LOOP;\n\
        DONE:\nvote.sync.ballot.b32 %r3, 1, -1;\nmov.b64 %d, {%r1, %r3};";
    let got = body("diverge", text, [&lanes, &[], &[]]);
    for l in 0..32u64 {
        let sum = (0..l)
            .scan(0, |s, i| {
                *s += i;
                Some(*s)
            })
            .find(|s| *s == 10)
            .unwrap_or_else(|| (0..l).sum());
        assert_eq!(got[l as usize], 0xffff_ffff_0000_0000 | sum, "lane {l}");
    }
}
