//! Tiles joined in a last dimension and split again: in any layout, of any element type. Against the interpreter, under
//! several orders of events.

use warplift_golden::given::check;

/// Complex numbers: pairs in memory, multiplied with each other.
const COMPLEX: &str = "kernel complex(x: ptr<TYPE> align 16, w: ptr<TYPE> align 16, y: ptr<TYPE> align 16, m: i32, n: i32 % 8) {
        tunable BM = 4, BN = 32
        grid cdiv(m, BM), cdiv(n, BN)
        gx = view x : TYPE[m, n, 2]
        gw = view w : TYPE[m, n, 2]
        gy = view y : TYPE[m, n, 2]
        i, j = block_index
        a, b = split(load gx[i*BM, j*BN, 0] : TYPE[BM, BN, 2])
        c, d = split(load gw[i*BM, j*BN, 0] : TYPE[BM, BN, 2])
        store gy[i*BM, j*BN, 0], join(a*c - b*d, a*d + b*c)
    }
    mapping complex { kernel: warps 2 }";

#[test]
fn complex_numbers_are_split_and_joined() {
    for ty in ["f32", "f16", "bf16", "i32", "u32"] {
        check(&COMPLEX.replace("TYPE", ty), &[("m", 5), ("n", 40)], &[]);
    }
}

/// Rows of one tile beside those of another, interleaved in one dimension.
const INTERLEAVED: &str = "kernel interleaved(x: ptr<TYPE> align 16, y: ptr<TYPE> align 16, n: i32 % 16) {
        tunable B = 256
        grid cdiv(n, B)
        gx = view x : TYPE[2, n]
        gy = view y : TYPE[2*n]
        i = block_index
        a = load gx[0, i*B] : TYPE[1, B]
        b = load gx[1, i*B] : TYPE[1, B]
        both = join(reshape a : TYPE[B], reshape b : TYPE[B])
        store gy[i*2*B], reshape both : TYPE[2*B]
    }
    mapping interleaved { kernel: warps WARPS WORDS }";

#[test]
fn elements_of_all_widths_are_interleaved() {
    for ty in ["f32", "f16", "u8", "f8e4m3", "i16"] {
        for warps in ["1", "4"] {
            let text = INTERLEAVED.replace("TYPE", ty).replace("WARPS", warps).replace("WORDS", "");
            check(&text, &[("n", 400)], &[]);
        }
    }
}

/// The last dimension lies in lanes, in warps, and in registers.
#[test]
fn the_place_of_the_last_dimension_does_not_matter() {
    for layout in [
        "local(4, 1).spatial(16, 2).spatial(1, 1)",
        "local(2, 2).spatial(32, 1)",
        "local(1, 2).spatial(32, 1).local(2, 1)",
    ] {
        for ty in ["f32", "f16", "u8", "bool"] {
            let from = if ty == "bool" { "i32" } else { ty };
            let [made, stored] = match ty {
                "bool" => ["(load gx[0, 0] : i32[1, 64]) > 0", "select(r, 3, 4)"],
                _ => [&*format!("load gx[0, 0] : {ty}[1, 64]"), "r"]
                    .map(|s| Box::leak(s.to_owned().into_boxed_str()) as &str),
            };
            let text = format!(
                "kernel placed(x: ptr<{from}> align 16, y: ptr<{from}> align 16) {{
                    grid 1
                    gx = view x : {from}[2, 64]
                    gy = view y : {from}[64, 2]
                    a = {made}
                    b = {}
                    both = join(reshape a : {ty}[64], reshape b : {ty}[64])
                    r = rearrange(both)
                    store gy[0, 0], {stored}
                }}
                mapping placed {{ tile both: layout \"{layout}\" kernel: warps 1 }}",
                made.replace("gx[0", "gx[1"),
            );
            check(&text, &[], &[]);
        }
    }
}

/// Results of products, side by side and apart again; one of them is a constant.
#[test]
fn results_of_products_are_joined() {
    let text = "kernel beside(a: ptr<f16> align 16, b: ptr<f16> align 16, y: ptr<f32> align 16, m: i32, n: i32 % 8, k: i32 % 8) {
        tunable BM = 64, BN = 64, BK = 64
        grid cdiv(m, BM), cdiv(n, BN)
        ga = view a : f16[m, k]
        gb = view b : f16[n, k]
        gy = view y : f32[m, 2*n]
        i, j = block_index
        zero = full 0.0 : f32[BM, BN]
        acc = for t in 0..cdiv(k, BK) carry x = zero {
            yield mma x, load ga[i*BM, t*BK] : f16[BM, BK], trans(load gb[j*BN, t*BK] : f16[BN, BK])
        }
        half = acc * 0.5
        both = join(acc, half)
        ones = join(both, full 1.0 : f32[BM, BN, 2])
        first, second = split(ones)
        store gy[i*BM, j*BN*2], reshape(first + second) : f32[BM, 2*BN]
    }
    mapping beside { for t: pipeline 2, consumers 1 kernel: persistent }";
    let text = text.replace("reshape(first + second) :", "reshape (first + second) :");
    check(&text, &[("m", 72), ("n", 72), ("k", 72)], &[]);
}
