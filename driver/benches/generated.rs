//! Texts of any size, for what grows faster than they do.

use std::fmt::Write;

/// A loop of `n` products in a row, each with two tiles of its own: as many rings.
pub fn products(n: usize) -> String {
    let mut text = format!(
        "kernel products(a: ptr<f16> align 16, b: ptr<f16> align 16, c: ptr<f16> align 16, m: i32, n: i32 % 8, k: i32 % 8) {{
            tunable BM = 64, BN = 32, BK = 16
            grid cdiv(m, BM), cdiv(n, BN)
            ga = view a : f16[m, k]
            gb = view b : f16[n, k]
            gc = view c : f16[m, n]
            i, j = block_index
            zero = full 0.0 : f32[BM, BN]
            acc = for t in 0..cdiv(k, {n} * BK) carry x0 = zero {{\n"
    );
    for q in 0..n {
        let next = q + 1;
        let _ = write!(
            text,
            "ta{q} = load ga[i*BM, (t*{n} + {q})*BK] : f16[BM, BK]
             tb{q} = load gb[j*BN, (t*{n} + {q})*BK] : f16[BN, BK]
             x{next} = mma x{q}, ta{q}, trans(tb{q})\n"
        );
    }
    let words = "BM = 64, BN = 32, BK = 16\nfor t: pipeline fit, producers 1, consumers 1";
    text + &format!(
        "yield x{n}\n}}\nstore gc[i*BM, j*BN], cast(acc, f16)\n}}\nmapping products {{\n{words}\n}}"
    )
}

/// `n` elementwise operations, each on the result of the one before.
pub fn elementwise(n: usize) -> String {
    let mut text = "kernel elementwise(x: ptr<f32> align 16, y: ptr<f32> align 16, n: i32 % 4) {
        grid cdiv(n, 1024)
        gx = view x : f32[n]
        gy = view y : f32[n]
        i = block_index
        v0 = load gx[i*1024] : f32[1024]\n"
        .to_owned();
    for q in 0..n {
        let (next, op, by) = (q + 1, ["+", "*"][q % 2], 1 + q % 7);
        let _ = writeln!(text, "v{next} = v{q} {op} {by}.5");
    }
    text + &format!("store gy[i*1024], v{n}\n}}\nmapping elementwise {{\nkernel: warps 4\n}}")
}
