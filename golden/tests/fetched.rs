//! Atomic updates with what was there: halves, integers of 64 bits, and floats in the order of their bits. Against the
//! interpreter, under many orders of events.

use warplift_golden::given::{Given, check};

/// Each element with a place of its own, under a mask, by warps whose threads hold elements once or together.
fn each(ty: &str, update: &str, elements: u32) -> String {
    format!(
        "kernel each(g: ptr<{ty}>, x: ptr<{ty}> align 16, old: ptr<{ty}> align 16, n: i32, m: i32) {{
        grid cdiv(m, {elements})
        gg = view g : {ty}[n]
        gx = view x : {ty}[m]
        go = view old : {ty}[m]
        i = block_index
        at = i*{elements} + (iota 0 : i32[{elements}])
        place = select(at < m, at * 7 % 150, -1)
        new = load gx[i*{elements}] : {ty}[{elements}]
        {update}
    }}
    mapping each {{ kernel: warps 2 }}"
    )
}

const SIZES: [(&str, i64); 2] = [("n", 140), ("m", 150)];
const ATOMICS: [&str; 4] = ["add", "min", "max", "exchange"];

/// An update whose result is stored.
fn fetching(ty: &str, op: &str, elements: u32) -> String {
    let update = format!(
        "was = atomic_{op} gg[place], new : {ty}[{elements}] where place % 5 != 3 store go[i*{elements}], was"
    );
    each(ty, &update, elements)
}

#[test]
fn long_integers() {
    let wide = |by: i64| (0..150).map(|i| (i * 0x0123_4567_89ab % 997 - 498) * by).collect::<Vec<i64>>();
    let (g, x) = (wide(0x10_0000_0001), wide(0xf_ffff_fff7));
    for ty in ["i64", "u64"] {
        for (op, elements) in ATOMICS.into_iter().zip([64, 16, 64, 16]) {
            let given = || [("g", Given::I64(&g[..140])), ("x", Given::I64(&x))];
            let made = check(&fetching(ty, op, elements), &SIZES, &given());
            let suffix = if matches!(op, "min" | "max") && ty == "i64" { "s64" } else { "64" };
            assert!(
                made.ptx.contains("atom.global.") && made.ptx.contains(suffix),
                "{ty} {op}: {}",
                made.ptx
            );
            let plain = format!("atomic_{op} gg[place], new");
            check(&each(ty, &plain, 64), &SIZES, &given());
        }
        let swap =
            format!("was = atomic_cas gg[place], new, new + 5000000000 : {ty}[16] store go[i*16], was");
        let same: Vec<i64> =
            (0..140).map(|p| if p % 3 == 0 { p } else { x[(p * 43 % 150) as usize] }).collect();
        check(&each(ty, &swap, 16), &SIZES, &[("g", Given::I64(&same)), ("x", Given::I64(&x))]);
    }
}

#[test]
fn sums_of_halves() {
    let half = |n: u16| n.wrapping_mul(0x1357) & 0x83ff | 0x3c00;
    let [g, x] = [3, 5].map(|by| (0..150).map(|i| half(i * by)).collect::<Vec<u16>>());
    for (ty, row) in [("f16", "atom.global.add.noftz.f16"), ("bf16", "atom.global.add.noftz.bf16")] {
        for elements in [64, 16] {
            let given = [("g", Given::F16(&g[..140])), ("x", Given::F16(&x))];
            let made = check(&fetching(ty, "add", elements), &SIZES, &given);
            assert!(made.ptx.contains(row), "{}", made.ptx);
        }
    }
}

/// Signs, zeros, infinities and NaN of both signs.
#[test]
fn greatest_and_least_floats() {
    let edges = [
        0.0f32,
        -0.0,
        1.5,
        -1.5,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        -f32::NAN,
        1e-40,
        -1e-40,
        3.0,
        -3.0,
    ];
    let bytes = |by: usize| {
        let all = (0..150).map(|i| edges[i / by % edges.len()]);
        all.flat_map(f32::to_le_bytes).collect::<Vec<u8>>()
    };
    let (g, x) = (bytes(1), bytes(12));
    // Bits are compared, so that zeros and NaN count.
    for op in ["min", "max"] {
        for elements in [64, 16] {
            let text = fetching("f32", op, elements)
                .replace("old: ptr<f32>", "old: ptr<i32>")
                .replace("view old : f32", "view old : i32")
                .replace(", was", ", view_as(was, i32)");
            check(&text, &SIZES, &[("g", Given::Bytes(&g[..560])), ("x", Given::Bytes(&x))]);
        }
    }
}

/// Halves of all kinds: signs, zeros, infinities, small ones, NaN of both signs and several payloads.
fn halves(ty: &str) -> [Vec<u16>; 2] {
    let edges: [u16; 12] = match ty {
        "f16" => [0, 0x8000, 0x3e00, 0xbe00, 0x7c00, 0xfc00, 0x7e00, 0xfe01, 0x0001, 0x8001, 0x7bff, 0xfd00],
        _ => [0, 0x8000, 0x3fc0, 0xbfc0, 0x7f80, 0xff80, 0x7fc0, 0xffc1, 0x0001, 0x8001, 0x7f7f, 0xffa0],
    };
    [1, 12].map(|by| (0..150).map(|i| edges[i / by % edges.len()]).collect())
}

/// No instruction makes these: they are loops of compare-and-swap.
#[test]
fn greatest_least_and_exchanged_halves() {
    for ty in ["f16", "bf16"] {
        let [g, x] = halves(ty);
        let given = || [("g", Given::F16(&g[..140])), ("x", Given::F16(&x))];
        for (op, elements) in [("min", 64), ("max", 16), ("exchange", 64)] {
            let made = check(&fetching(ty, op, elements), &SIZES, &given());
            assert!(made.ptx.contains("atom.global.cas.b16"), "{}", made.ptx);
            check(&each(ty, &format!("atomic_{op} gg[place], new"), 64), &SIZES, &given());
        }
        let swap = "was = atomic_cas gg[place], new, -new : TY[16] store go[i*16], was".replace("TY", ty);
        let same: Vec<u16> =
            (0..140).map(|p| if p % 3 == 0 { p } else { x[p as usize * 43 % 150] }).collect();
        check(&each(ty, &swap, 16), &SIZES, &[("g", Given::F16(&same)), ("x", Given::F16(&x))]);
    }
}

/// Scalars update one element, with and without what was there.
#[test]
fn single_halves() {
    let update = "v = load gx[i] : bf16
        w = load gx[i + 9] : bf16
        atomic_max gg[3], v
        was = atomic_min gg[i + 5], w : bf16
        atomic_exchange gg[i + 40], was
        atomic_max gg[-1], v
        store go[i], was";
    let [g, x] = halves("bf16");
    check(&each("bf16", update, 64), &SIZES, &[("g", Given::F16(&g[..140])), ("x", Given::F16(&x))]);
}

/// A column: the other half of each word is nobody's.
#[test]
fn columns_of_halves() {
    for (ty, warps) in [("f16", 1), ("bf16", 4)] {
        let text = "kernel f(x: ptr<TY>, y: ptr<TY>, n: i32) {
            grid cdiv(n, 4)
            gx = view x : TY[n, 2]
            gy = view y : TY[n, 2]
            i = block_index
            atomic_max gy[i*4, 1], load gx[i*4, 0] : TY[4, 1]
        }
        mapping f { kernel: warps WARPS }";
        let text = text.replace("TY", ty).replace("WARPS", &warps.to_string());
        let [g, x] = halves(ty);
        check(&text, &[("n", 9)], &[("y", Given::F16(&g[..18])), ("x", Given::F16(&x[..18]))]);
    }
}

/// All blocks and all elements of a tile want a few places; the result is the same in every order.
#[test]
fn halves_that_many_want() {
    for (op, words) in [("max", "warps 1"), ("min", "warps 4"), ("max", "persistent, warps 2")] {
        let text = each("f16", &format!("atomic_{op} gg[place % 5], new where place % 7 != 2"), 16)
            .replace("warps 2", words);
        let x: Vec<u16> = (0..150u16).map(|i| i.wrapping_mul(0x1357) & 0xfbff).collect();
        check(&text, &SIZES, &[("g", Given::F16(&[0x2c00; 140])), ("x", Given::F16(&x))]);
    }
}

#[test]
fn in_shared_memory() {
    let text = |ty: &str| {
        let body = format!(
            "s = shared {ty}[64]
            store s[0], new
            was = atomic_add s[place % 64], new : {ty}[64] where place % 7 == 0
            store go[i*64], was + load s[0] : {ty}[64]"
        );
        each(ty, &body, 64)
    };
    let (g, x) = ([0i64; 140], (0..150).map(|i| i * 0x2_0000_0001).collect::<Vec<i64>>());
    check(
        &text("i64").replace("% 7 == 0", "% 150 == 7"),
        &SIZES,
        &[("g", Given::I64(&g)), ("x", Given::I64(&x))],
    );
    let (g, x) = ([0u16; 140], [0x3c00u16; 150]);
    check(
        &text("f16").replace("% 7 == 0", "% 150 == 7"),
        &SIZES,
        &[("g", Given::F16(&g)), ("x", Given::F16(&x))],
    );
    let most = text("f16").replace("atomic_add", "atomic_max");
    check(&most, &SIZES, &[("g", Given::F16(&g)), ("x", Given::F16(&x))]);
}
