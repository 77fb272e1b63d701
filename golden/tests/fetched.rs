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
}
