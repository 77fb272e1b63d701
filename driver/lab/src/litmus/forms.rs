//! Elementwise instructions beyond the rows of the opcode table: every rounding and modifier that
//! they can be written with.

use super::case::Case;
use super::lanes::{Form, case};

/// Name of the case, classes (see [`Form::new`]), opcodes.
const LISTS: &[(&str, &str, &[&str])] = &[
    ("int/add", "r=rr", &["add.u32", "add.s32", "add.sat.s32", "sub.u32", "sub.s32", "sub.sat.s32"]),
    (
        "int/add16",
        "h=hh",
        &["add.u16", "sub.s16", "mul.lo.s16", "mul.hi.u16", "mul.hi.s16", "min.s16", "max.u16"],
    ),
    ("int/mul", "r=rr", &["mul.lo.u32", "mul.hi.u32", "mul.hi.s32", "mul24.lo.u32", "mul24.lo.s32"]),
    ("int/wide", "d=rr", &["mul.wide.u32", "mul.wide.s32"]),
    ("int/mul64", "d=dd", &["add.u64", "sub.s64", "mul.lo.u64", "mul.hi.u64", "mul.hi.s64"]),
    (
        "int/mad",
        "r=rrr",
        &["mad.lo.u32", "mad.hi.u32", "mad.hi.s32", "mad.hi.sat.s32", "mad24.lo.u32", "sad.u32", "sad.s32"],
    ),
    ("int/mad.wide", "d=rrd", &["mad.wide.u32", "mad.wide.s32"]),
    ("int/mad64", "d=ddd", &["mad.lo.u64", "mad.hi.s64"]),
    ("int/div", "r=rr", &["div.u32", "div.s32", "rem.u32", "rem.s32"]),
    ("int/div64", "d=dd", &["div.u64", "div.s64", "rem.u64", "rem.s64"]),
    ("int/minmax64", "d=dd", &["min.s64", "max.s64", "min.u64", "max.u64"]),
    (
        "int/one",
        "r=r",
        &[
            "neg.s32",
            "abs.s32",
            "popc.b32",
            "clz.b32",
            "brev.b32",
            "bfind.u32",
            "bfind.s32",
            "bfind.shiftamt.u32",
            "cnot.b32",
        ],
    ),
    ("int/one64", "d=d", &["neg.s64", "abs.s64", "brev.b64", "not.b64"]),
    ("int/count64", "r=d", &["popc.b64", "clz.b64", "bfind.u64", "bfind.s64"]),
    ("int/shift64", "d=dr", &["shl.b64", "shr.u64", "shr.s64", "shr.b64"]),
    ("int/logic64", "d=dd", &["and.b64", "or.b64", "xor.b64"]),
    (
        "int/bits",
        "r=rrr",
        &[
            "lop3.b32 $d, $0, $1, $2, 0xd8",
            "lop3.b32 $d, $0, $1, $2, 0x96",
            "prmt.b32",
            "prmt.b32.f4e",
            "prmt.b32.b4e",
            "prmt.b32.rc8",
            "prmt.b32.ecl",
            "prmt.b32.ecr",
            "prmt.b32.rc16",
            "prmt.b32 $d, $0, $1, 0xd471",
            "shf.l.wrap.b32",
            "shf.r.wrap.b32",
            "shf.l.clamp.b32",
            "shf.r.clamp.b32",
            "bfe.u32",
            "bfe.s32",
            "bfe.s32 $d, $0, 5, 9",
            "bfi.b32 $d, $0, $1, 7, 11",
            "bfi.b32 $d, $0, $1, $2, $1",
            "slct.b32.s32",
            "dp4a.u32.u32",
            "dp4a.s32.u32",
            "dp4a.u32.s32",
            "dp4a.s32.s32",
        ],
    ),
    (
        "int/bits64",
        "d=drr",
        &[
            // Place and length are restricted to 0 to 255.
            "{ .reg .b32 x, y; and.b32 x, $1, 255; and.b32 y, $2, 255; bfe.u64 $d, $0, x, y; }",
            "{ .reg .b32 x, y; and.b32 x, $1, 255; and.b32 y, $2, 255; bfe.s64 $d, $0, x, y; }",
            "{ .reg .b32 x, y; and.b32 x, $1, 255; and.b32 y, $2, 255; bfi.b64 $d, $0, $0, x, y; }",
        ],
    ),
    (
        "int/carry",
        "d=rrr",
        &[
            "{ .reg .b32 x, y; add.cc.u32 x, $0, $1; addc.u32 y, $2, 0; mov.b64 $d, {x, y}; }",
            "{ .reg .b32 x, y; sub.cc.u32 x, $0, $1; subc.u32 y, $2, 0; mov.b64 $d, {x, y}; }",
            "{ .reg .b32 x, y; mad.lo.cc.u32 x, $0, $1, $2; madc.hi.u32 y, $0, $1, $2; mov.b64 $d, {x, y}; }",
        ],
    ),
    (
        "int/set",
        "r=rr",
        &["set.lt.u32.s32", "set.ge.f32.u32", "set.ne.u32.u32", "set.hi.u32.u32", "set.ls.u32.u32"],
    ),
    (
        "int/setp",
        "p=rr",
        &["setp.lo.u32", "setp.ls.u32", "setp.hi.u32", "setp.hs.u32", "setp.eq.b32", "setp.lt.s32"],
    ),
    ("int/setp64", "p=dd", &["setp.lt.u64", "setp.ge.s64", "setp.ne.b64"]),
    ("int/setp16", "p=hh", &["setp.lt.u16", "setp.gt.s16"]),
    ("int/setp.bool", "p=rrp", &["setp.lt.and.s32", "setp.ge.or.u32", "setp.eq.xor.s32"]),
    (
        "int/cvt.pack",
        "r=rrr",
        &[
            "cvt.pack.sat.s16.s32 $d, $0, $1",
            "cvt.pack.sat.u16.s32 $d, $0, $1",
            "cvt.pack.sat.s8.s32.b32",
            "cvt.pack.sat.u8.s32.b32",
        ],
    ),
    (
        "f32/min",
        "r=rr",
        &["min.f32", "min.ftz.f32", "min.NaN.f32", "max.f32", "max.ftz.f32", "max.NaN.f32", "copysign.f32"],
    ),
    ("f32/one", "r=r", &["neg.ftz.f32", "abs.ftz.f32"]),
    (
        "f32/testp",
        "p=r",
        &[
            "testp.finite.f32",
            "testp.infinite.f32",
            "testp.number.f32",
            "testp.notanumber.f32",
            "testp.normal.f32",
            "testp.subnormal.f32",
        ],
    ),
    (
        "f32/setp",
        "p=rr",
        &[
            "setp.eq.f32",
            "setp.ne.f32",
            "setp.lt.f32",
            "setp.le.f32",
            "setp.gt.f32",
            "setp.ge.f32",
            "setp.equ.f32",
            "setp.neu.f32",
            "setp.ltu.f32",
            "setp.leu.f32",
            "setp.gtu.f32",
            "setp.geu.f32",
            "setp.num.f32",
            "setp.nan.f32",
            "setp.lt.ftz.f32",
        ],
    ),
    ("f32/set", "r=rr", &["set.lt.u32.f32", "set.nan.f32.f32", "set.geu.s32.f32"]),
    ("f32/slct", "r=rrr", &["slct.b32.f32"]),
    ("f64/min", "d=dd", &["min.f64", "max.f64", "copysign.f64"]),
    ("f64/one", "d=d", &["neg.f64", "abs.f64"]),
    ("f64/setp", "p=dd", &["setp.lt.f64", "setp.geu.f64", "setp.nan.f64"]),
    ("f16/one", "h=h", &["neg.f16", "abs.f16", "neg.ftz.f16", "abs.ftz.f16"]),
    ("bf16/one", "h=h", &["neg.bf16", "abs.bf16"]),
    ("f16/setp", "p=hh", &["setp.lt.f16", "setp.geu.f16", "setp.ne.ftz.f16"]),
    ("bf16/setp", "p=hh", &["setp.lt.bf16", "setp.geu.bf16"]),
    (
        "approx/f32",
        "r=r",
        &[
            "ex2.approx.f32",
            "ex2.approx.ftz.f32",
            "lg2.approx.f32",
            "lg2.approx.ftz.f32",
            "sin.approx.f32",
            "sin.approx.ftz.f32",
            "cos.approx.f32",
            "cos.approx.ftz.f32",
            "tanh.approx.f32",
            "rcp.approx.f32",
            "rcp.approx.ftz.f32",
            "sqrt.approx.f32",
            "sqrt.approx.ftz.f32",
            "rsqrt.approx.f32",
            "rsqrt.approx.ftz.f32",
        ],
    ),
    ("approx/div", "r=rr", &["div.approx.f32", "div.approx.ftz.f32", "div.full.f32", "div.full.ftz.f32"]),
    ("approx/f16", "h=h", &["ex2.approx.f16", "tanh.approx.f16"]),
    ("approx/f16x2", "r=r", &["ex2.approx.f16x2", "tanh.approx.f16x2"]),
    ("approx/bf16", "h=h", &["ex2.approx.ftz.bf16", "tanh.approx.bf16"]),
    ("approx/bf16x2", "r=r", &["ex2.approx.ftz.bf16x2", "tanh.approx.bf16x2"]),
    (
        "lanes/shfl",
        "r=rr",
        &[
            "shfl.sync.up.b32 $d, $0, $1, 0, -1",
            "shfl.sync.down.b32 $d, $0, $1, 31, -1",
            "shfl.sync.bfly.b32 $d, $0, $1, 31, -1",
            "shfl.sync.idx.b32 $d, $0, $1, 31, -1",
            "shfl.sync.down.b32 $d, $0, 3, 0x81f, -1",
            "shfl.sync.idx.b32 $d, $0, 9, 0x181f, -1",
            "shfl.sync.up.b32 $d, $0, 5, 0x1000, -1",
            "{ .reg .pred q; .reg .b32 x; shfl.sync.up.b32 x|q, $0, $1, 0, -1; selp.b32 $d, x, 77, q; }",
            "{ .reg .pred q; .reg .b32 x; shfl.sync.down.b32 x|q, $0, $1, 0x71f, -1; selp.b32 $d, x, 77, q; }",
            "{ .reg .pred q; .reg .b32 x; shfl.sync.bfly.b32 x|q, $0, 21, 0x1807, -1; selp.b32 $d, x, 77, q; }",
            "{ .reg .pred q; .reg .b32 x; shfl.sync.idx.b32 x|q, $0, $1, 0x101f, -1; selp.b32 $d, x, 77, q; }",
        ],
    ),
    (
        "lanes/vote",
        "r=p",
        &[
            "vote.sync.ballot.b32 $d, $0, -1",
            "{ .reg .pred q; vote.sync.any.pred q, $0, -1; selp.b32 $d, 1, 0, q; }",
            "{ .reg .pred q; vote.sync.all.pred q, $0, -1; selp.b32 $d, 1, 0, q; }",
            "{ .reg .pred q; vote.sync.uni.pred q, !$0, -1; selp.b32 $d, 1, 0, q; }",
            "{ .reg .pred q; vote.sync.all.pred q, 1, -1; selp.b32 $d, 1, 0, q; }",
            "activemask.b32 $d",
        ],
    ),
    (
        "lanes/redux",
        "r=r",
        &[
            "redux.sync.add.s32 $d, $0, -1",
            "redux.sync.min.s32 $d, $0, -1",
            "redux.sync.max.s32 $d, $0, -1",
            "redux.sync.add.u32 $d, $0, -1",
            "redux.sync.min.u32 $d, $0, -1",
            "redux.sync.max.u32 $d, $0, -1",
            "redux.sync.and.b32 $d, $0, -1",
            "redux.sync.or.b32 $d, $0, -1",
            "redux.sync.xor.b32 $d, $0, -1",
        ],
    ),
    (
        "lanes/match",
        "r=r",
        &[
            "match.any.sync.b32 $d, $0, -1",
            "{ .reg .b32 x; and.b32 x, $0, 3; match.any.sync.b32 $d, x, -1; }",
            "{ .reg .pred q; .reg .b32 x; match.all.sync.b32 x|q, $0, -1; selp.b32 $d, x, 7, q; }",
            "{ .reg .pred q; .reg .b32 x; match.all.sync.b32 x|q, 5, -1; selp.b32 $d, x, 7, q; }",
        ],
    ),
    ("lanes/match64", "r=d", &["match.any.sync.b64 $d, $0, -1"]),
    (
        "lanes/elect",
        "r=r",
        &[
            // Which lane is elected is the machine's choice; that there is one, and that it knows, is not.
            "{ .reg .pred q; .reg .b32 x; elect.sync _|q, -1; vote.sync.ballot.b32 x, q, -1; popc.b32 $d, x; }",
            "{ .reg .pred q, e; .reg .b32 x; elect.sync x|q, -1; mov.u32 $d, %laneid; setp.eq.u32 e, x, $d; xor.pred q, q, e; selp.b32 $d, 1, 0, q; }",
        ],
    ),
    (
        "lanes/special",
        "r=r",
        &[
            "mov.u32 $d, %ntid.x",
            "mov.u32 $d, %tid.y",
            "mov.u32 $d, %lanemask_eq",
            "mov.u32 $d, %lanemask_lt",
            "mov.u32 $d, %lanemask_le",
            "mov.u32 $d, %lanemask_gt",
            "mov.u32 $d, %lanemask_ge",
            "mov.u32 $d, %clusterid.y",
            "mov.u32 $d, %clusterid.z",
            "mov.u32 $d, %nclusterid.y",
            "mov.u32 $d, %cluster_ctaid.x",
            "mov.u32 $d, %cluster_nctaid.x",
            "mov.u32 $d, %cluster_nctarank",
            "mov.u32 $d, %dynamic_smem_size",
        ],
    ),
    (
        "lanes/moves",
        "d=d",
        &[
            "{ .reg .b32 x, y; .reg .b16 l, h; mov.b64 {x, y}, $0; mov.b32 {l, h}, x; mov.b32 x, {h, l}; mov.b64 $d, {y, x}; }",
            "{ .reg .b16 i, j, k, l; mov.b64 {i, j, k, l}, $0; mov.b64 $d, {l, k, i, j}; }",
        ],
    ),
];

const ROUNDINGS: [&str; 4] = ["rn", "rz", "rm", "rp"];
const INTEGRAL: [&str; 4] = ["rni", "rzi", "rmi", "rpi"];
const INTEGERS: [(&str, u32, bool); 8] = [
    ("u8", 8, false),
    ("s8", 8, true),
    ("u16", 16, false),
    ("s16", 16, true),
    ("u32", 32, false),
    ("s32", 32, true),
    ("u64", 64, false),
    ("s64", 64, true),
];
const FLOATS: [(&str, char); 4] = [("f16", 'h'), ("bf16", 'h'), ("f32", 'r'), ("f64", 'd')];

/// Register class of an integer; narrow ones lie in 32 bits, sign-extended.
fn class(bits: u32) -> char {
    if bits == 64 { 'd' } else { 'r' }
}

fn forms(classes: &str, opcodes: impl IntoIterator<Item = String>) -> Vec<Form> {
    opcodes.into_iter().map(|o| Form::new(classes, &o)).collect()
}

/// Add to square root in every rounding, with flushing and saturation.
fn rounded(out: &mut Vec<Case>) {
    let operations = [("add", 2), ("sub", 2), ("mul", 2), ("fma", 3), ("div", 2), ("rcp", 1), ("sqrt", 1)];
    for ((name, n), (ty, c, modifiers)) in operations.iter().flat_map(|op| {
        [("f32", 'r', &["", ".ftz", ".sat", ".ftz.sat"][..]), ("f64", 'd', &[""][..])].map(|t| (*op, t))
    }) {
        let saturates = n > 1 && name != "div";
        let used = modifiers.iter().filter(|m| saturates || !m.contains("sat"));
        let opcodes = used.flat_map(|m| ROUNDINGS.map(|r| format!("{name}.{r}{m}.{ty}")));
        let classes = format!("{c}={}", String::from(c).repeat(n));
        out.push(case(&format!("{ty}/{name}"), &forms(&classes, opcodes)));
    }
}

/// Half-precision arithmetic, one and packed.
fn halves(out: &mut Vec<Case>) {
    for (ty, c) in [("f16", 'h'), ("f16x2", 'r'), ("bf16", 'h'), ("bf16x2", 'r')] {
        let plain = ty.starts_with('f');
        let two = format!("{c}={c}{c}");
        let modifiers: &[&str] = if plain { &["", ".ftz", ".sat", ".ftz.sat"] } else { &[""] };
        let sums = ["add", "sub", "mul"].iter().flat_map(|o| {
            modifiers.iter().flat_map(move |m| [format!("{o}.rn{m}.{ty}"), format!("{o}{m}.{ty}")])
        });
        out.push(case(&format!("{ty}/add"), &forms(&two, sums)));
        let fused: &[&str] =
            if plain { &["", ".ftz", ".sat", ".ftz.sat", ".relu", ".ftz.relu"] } else { &["", ".relu"] };
        let fma = fused.iter().map(|m| format!("fma.rn{m}.{ty}"));
        out.push(case(&format!("{ty}/fma"), &forms(&format!("{c}={c}{c}{c}"), fma)));
        let extremes: &[&str] = if plain { &["", ".ftz", ".NaN", ".ftz.NaN"] } else { &["", ".NaN"] };
        let extreme =
            ["min", "max"].iter().flat_map(|o| extremes.iter().map(move |m| format!("{o}{m}.{ty}")));
        out.push(case(&format!("{ty}/min"), &forms(&two, extreme)));
    }
}

fn between_integers(out: &mut Vec<Case>) {
    for (from, bits, signed) in INTEGERS {
        let each = INTEGERS.iter().flat_map(|(to, width, sign)| {
            // Saturation must be able to change something.
            let narrows = *width < bits || (*width == bits && *sign != signed) || (signed && !sign);
            let classes = format!("{}={}", class(*width), class(bits));
            let one = |sat: &str| Form::new(&classes, &format!("cvt{sat}.{to}.{from}"));
            [Some(one("")), narrows.then(|| one(".sat"))]
        });
        let each: Vec<Form> = each.flatten().collect();
        out.push(case(&format!("cvt/int.{from}"), &each));
    }
}

fn floats_and_integers(out: &mut Vec<Case>) {
    for (float, c) in FLOATS {
        // ptxas 13.0 knows no conversion between bf16 and 8 bits.
        for (int, bits, _) in INTEGERS.into_iter().filter(|i| float != "bf16" || i.1 > 8) {
            let down = INTEGRAL.map(|r| format!("cvt.{r}.{int}.{float}"));
            let flushed = (float == "f32").then(|| format!("cvt.rni.ftz.{int}.{float}"));
            // Only bf16 asks for registers of the integer's own width.
            let i = if float == "bf16" && bits < 32 { 'h' } else { class(bits) };
            let down = forms(&format!("{i}={c}"), down.into_iter().chain(flushed));
            out.push(case(&format!("cvt/{int}.{float}"), &down));
            let up = ROUNDINGS.map(|r| format!("cvt.{r}.{float}.{int}"));
            out.push(case(&format!("cvt/{float}.{int}"), &forms(&format!("{c}={i}"), up)));
        }
    }
}

/// Conversions between floats: classes and opcodes.
const FLOAT_TO_FLOAT: &[(&str, &str, &[&str])] = &[
    (
        "f16.f32",
        "h=r",
        &[
            "cvt.rn.f16.f32",
            "cvt.rz.f16.f32",
            "cvt.rm.f16.f32",
            "cvt.rp.f16.f32",
            "cvt.rn.ftz.f16.f32",
            "cvt.rn.sat.f16.f32",
            "cvt.rn.relu.f16.f32",
            "cvt.rz.relu.f16.f32",
        ],
    ),
    (
        "bf16.f32",
        "h=r",
        &[
            "cvt.rn.bf16.f32",
            "cvt.rz.bf16.f32",
            "cvt.rm.bf16.f32",
            "cvt.rp.bf16.f32",
            "cvt.rn.relu.bf16.f32",
            "cvt.rz.relu.bf16.f32",
        ],
    ),
    (
        "tf32.f32",
        "r=r",
        &[
            "cvt.rna.tf32.f32",
            "cvt.rn.tf32.f32",
            "cvt.rz.tf32.f32",
            "cvt.rn.relu.tf32.f32",
            "cvt.rz.relu.tf32.f32",
        ],
    ),
    ("f32.f16", "r=h", &["cvt.f32.f16", "cvt.ftz.f32.f16", "cvt.sat.f32.f16"]),
    ("f32.bf16", "r=h", &["cvt.f32.bf16"]),
    (
        "f32.f64",
        "r=d",
        &[
            "cvt.rn.f32.f64",
            "cvt.rz.f32.f64",
            "cvt.rm.f32.f64",
            "cvt.rp.f32.f64",
            "cvt.rn.ftz.f32.f64",
            "cvt.rn.sat.f32.f64",
        ],
    ),
    ("f16.f64", "h=d", &["cvt.rn.f16.f64", "cvt.rz.f16.f64", "cvt.rm.f16.f64", "cvt.rp.f16.f64"]),
    ("f64.f32", "d=r", &["cvt.f64.f32", "cvt.ftz.f64.f32", "cvt.sat.f64.f32"]),
    ("f64.f16", "d=h", &["cvt.f64.f16"]),
    (
        "f32.f32",
        "r=r",
        &[
            "cvt.rni.f32.f32",
            "cvt.rzi.f32.f32",
            "cvt.rmi.f32.f32",
            "cvt.rpi.f32.f32",
            "cvt.rni.ftz.f32.f32",
            "cvt.sat.f32.f32",
        ],
    ),
    ("f64.f64", "d=d", &["cvt.rni.f64.f64", "cvt.rzi.f64.f64", "cvt.rmi.f64.f64", "cvt.rpi.f64.f64"]),
    ("f16.f16", "h=h", &["cvt.rni.f16.f16", "cvt.rzi.f16.f16", "cvt.rmi.f16.f16", "cvt.rpi.f16.f16"]),
    (
        "f16x2.f32",
        "r=rr",
        &["cvt.rn.f16x2.f32", "cvt.rz.f16x2.f32", "cvt.rn.relu.f16x2.f32", "cvt.rz.relu.f16x2.f32"],
    ),
    (
        "bf16x2.f32",
        "r=rr",
        &["cvt.rn.bf16x2.f32", "cvt.rz.bf16x2.f32", "cvt.rn.relu.bf16x2.f32", "cvt.rz.relu.bf16x2.f32"],
    ),
    ("e4m3x2.f32", "h=rr", &["cvt.rn.satfinite.e4m3x2.f32", "cvt.rn.satfinite.relu.e4m3x2.f32"]),
    ("e5m2x2.f32", "h=rr", &["cvt.rn.satfinite.e5m2x2.f32", "cvt.rn.satfinite.relu.e5m2x2.f32"]),
    ("e4m3x2.f16x2", "h=r", &["cvt.rn.satfinite.e4m3x2.f16x2", "cvt.rn.satfinite.relu.e4m3x2.f16x2"]),
    ("e5m2x2.f16x2", "h=r", &["cvt.rn.satfinite.e5m2x2.f16x2", "cvt.rn.satfinite.relu.e5m2x2.f16x2"]),
    ("f16x2.e4m3x2", "r=h", &["cvt.rn.f16x2.e4m3x2", "cvt.rn.relu.f16x2.e4m3x2"]),
    ("f16x2.e5m2x2", "r=h", &["cvt.rn.f16x2.e5m2x2", "cvt.rn.relu.f16x2.e5m2x2"]),
];

/// All of them.
pub(super) fn cases() -> Vec<Case> {
    let listed = |(name, classes, opcodes): &(&str, &str, &[&str])| {
        case(name, &forms(classes, opcodes.iter().map(|o| (*o).to_owned())))
    };
    let mut out: Vec<Case> = LISTS.iter().map(listed).collect();
    rounded(&mut out);
    halves(&mut out);
    between_integers(&mut out);
    floats_and_integers(&mut out);
    out.extend(FLOAT_TO_FLOAT.iter().map(|(name, c, o)| listed(&(format!("cvt/{name}").as_str(), *c, *o))));
    out
}
