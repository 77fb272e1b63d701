//! Tunables of the library's kernels that are proved to tile, and kernels in which a tunable says more than that.

use super::tiles;
use crate::kernels::LIBRARY;
use warplift_ir::tile::{Kernel, parse_file};

/// Tunables of a kernel that provably tile, separated by blanks.
fn proved(kernel: &Kernel) -> String {
    let names = kernel.tunables.iter().filter(|(t, _)| tiles(kernel, *t)).map(|(_, t)| t.name.as_str());
    names.collect::<Vec<_>>().join(" ")
}

fn of(body: &str) -> String {
    let text = format!(
        "kernel k(x: ptr<f32>, y: ptr<f32>, m: i32, n: i32) {{
            tunable BM = 16, BN = 32
            gx = view x : f32[m, n] gy = view y : f32[m, n] gr = view y : f32[m]
            none = full 0.0 : f32[BM]
            {body} }}"
    );
    proved(&parse_file(&text, "").unwrap_or_else(|e| panic!("{e}")).kernels[0])
}

/// The tunables that are missing here have one of these obstacles:
///
/// - D and S say what is computed. So does GROUP, and with it the BK that divides it.
/// - A row must fit one tile.
/// - Sums are rescaled from tile to tile (attention, softmax).
/// - Tiles are reshaped (gemv, attention_gqa, convolution).
/// - A tile has the scale of the block of its first column (gemm_e4m3_blocks).
/// - The result is a prefix sum (cumsum).
/// - Rows and trips come from memory (gemm_grouped, gemm_ragged).
const LIBRARY_PROVED: &str = "\
    a16e4m3: BN BM
    a16w4: BN BM
    a16w4_large: BN BM
    a16w8: BN BM
    attention: BM
    attention_causal:
    attention_causal_max_free:
    attention_decode:
    attention_decode_paged:
    attention_f16: BM
    attention_gqa:
    attention_max_free:
    attention_paged: BM
    attention_varlen:
    axpy: B
    compaction:
    convert: BM BN
    convolution:
    cumsum: BM
    embedding: BM BN
    gather_rows: BM BP
    gemm: BM BN BK
    gemm_alpha_beta: BM BN BK
    gemm_any: BM BN BK
    gemm_batched: BM BN BK
    gemm_bf16: BM BN BK
    gemm_bias_relu_residual: BM BN BK
    gemm_chain: BM BP BK
    gemm_dual: BM BN BK
    gemm_e4m3: BM BN BK
    gemm_e4m3_blocks: BM
    gemm_f32out: BM BN BK
    gemm_grouped: BN
    gemm_i8_scaled: BM BN BK
    gemm_nn: BM BN BK
    gemm_parts: BM BN
    gemm_ragged: BN
    gemm_rowsum: BM BK
    gemm_silu: BM BN BK
    gemm_split_k: BM BN
    gemm_tn: BM BN BK
    gemm_tt: BM BN BK
    gemm_two_outputs: BM BN BK
    gemv: BM
    histogram:
    layer_norm: BM
    layer_norm_warp_specialized: BM
    moe_a16w4:
    moe_e4m3:
    moe_gemm:
    moe_route:
    rms_norm: BM
    row_max: BM BN
    row_sum: BM BN
    softmax: BM
    softmax_long: BM
    softmax_warp_specialized: BM
    spmv:
    sum_parts: B
    swiglu: BM BN BK
    transpose: BM BN";

#[test]
fn tunables_of_the_library() {
    let wanted: Vec<&str> = LIBRARY_PROVED.lines().map(str::trim).collect();
    let found = LIBRARY.iter().map(|k| format!("{}: {}", k.name, proved(&k.parse().unwrap().kernels[0])));
    let found: Vec<String> = found.map(|line| line.trim_end().to_owned()).collect();
    assert_eq!(found, wanted);
}

const BLOCKS: &str = "grid cdiv(m, BM), cdiv(n, BN) i, j = block_index ";
const ROWS: &str = "grid cdiv(m, BM) i = block_index ";

#[test]
fn tiles_side_by_side_are_proved() {
    let both = "t = load gx[i*BM, j*BN] : f32[BM, BN] ";
    assert_eq!(of(&format!("{BLOCKS}{both}store gy[i*BM, j*BN], t * 2.0")), "BM BN");
    let sums = "s = for t in 0..cdiv(n, BN) carry s0 = none {
        x1 = load gx[i*BM, t*BN] : f32[BM, BN] yield s0 + reduce_sum(x1 * x1, 1) } store gr[i*BM], s";
    assert_eq!(of(&format!("{ROWS}{sums}")), "BM BN");
    let stepped = sums.replace("0..cdiv(n, BN)", "0..n step BN").replace("t*BN", "t");
    assert_eq!(of(&format!("{ROWS}{stepped}")), "BM BN");
    let columns = "c = iota 1 : i32[BM, BN] store gy[i*BM, j*BN], select(c + j*BN < m, t, 0.0)";
    assert_eq!(of(&format!("{BLOCKS}{both}{columns}")), "BM BN");
    let ruled = "assert BM % 16 == 0 assert BN <= 4 * BM store gy[i*BM, j*BN], t";
    assert_eq!(of(&format!("{BLOCKS}{both}{ruled}")), "BM BN", "asserts that tunables decide");
}

#[test]
fn whatever_else_depends_on_a_tunable_refutes_it() {
    let both = "t = load gx[i*BM, j*BN] : f32[BM, BN] ";
    for (body, left) in [
        ("store gy[i*BM, j*BN], t * cast(BN, f32)", "BM"),
        ("store gy[i*BM, j*BN], t * cast(j, f32)", "BM"),
        ("store gy[i*BM, j*BN], t * cast(j*BN, f32)", "BM"),
        ("store gy[i*BM, j*BN], t / expand_dims(reduce_max(t, 1), 1)", "BM"),
        ("store gy[i*BM, j*BN], scan_sum(t, 1)", "BM"),
        ("store gy[i*BM, j*BN], t + cast(iota 1 : i32[BM, BN], f32)", "BM"),
        ("store gy[i*BM, j*BN], t * cast(grid_dim(1), f32)", "BM"),
        ("store gy[i*BM, (j+1)*BN], t", "BM"),
        ("atomic_add gr[i*BM], none", "BM"),
        ("store gy[i*BM, 0], t", "BM"),
        ("store gr[i*BM], reduce_sum(t, 1)", "BM"),
        ("u = load gy[i*BM, j*BN] : f32[BM, BN] store gy[j*BM, i*BN], u", ""),
        ("for u in 0..cdiv(m, BM) { store gr[i*BM], load gr[u*BM] : f32[BM] }", ""),
        (
            "for u in 0..cdiv(m, BM) { v = load gx[u*BM, j*BN] : f32[BM, BN] store gy[i*BM, j*BN], t + v }",
            "BN",
        ),
    ] {
        assert_eq!(of(&format!("{BLOCKS}{both}{body}")), left, "{body}");
    }
    assert_eq!(of("grid BN i = block_index atomic_add gr[0], full 1.0 : f32[4]"), "", "so many blocks add");
    let looped = |fill: &str, next: &str| {
        let body = format!(
            "gf = view x : f32[m, n] fill {fill} {ROWS} s = for t in 0..cdiv(n, BN) carry s0 = none {{
             x1 = load gf[i*BM, t*BN] : f32[BM, BN] yield {next} }} store gr[i*BM], s"
        );
        of(&body)
    };
    assert_eq!(looped("0.0", "s0 + reduce_sum(x1, 1)"), "BM BN");
    assert_eq!(looped("1.0", "s0 + reduce_sum(x1, 1)"), "BM", "what lies outside is added");
    assert_eq!(looped("0.0", "s0 + reduce_sum(exp(x1), 1)"), "BM", "exp(0) is added");
    assert_eq!(looped("0.0", "max(s0, reduce_max(x1, 1))"), "BM", "0 is a maximum");
    assert_eq!(looped("-inf", "max(s0, reduce_max(x1, 1))"), "BM BN");
    assert_eq!(looped("0.0", "s0 * 0.5 + reduce_sum(x1, 1)"), "BM", "older tiles weigh less");
    assert_eq!(looped("0.0", "s0 + 1.0"), "BM", "tiles are counted");
    assert_eq!(looped("0.0", "max(s0, reduce_sum(x1, 1))"), "BM", "the greatest sum of a tile");
}

/// A histogram whose tile of counts is as long as the number of experts, and a product with one scale for each 128
/// columns.
#[test]
fn what_says_what_is_computed_is_no_tile() {
    let counts = "kernel counts(x: ptr<i32>, y: ptr<i32>, n: i32, experts: i32 in 1..=16) {
        tunable E = 16, B = 64 grid cdiv(n, B)
        gx = view x : i32[n] fill -1.0 gy = view y : i32[experts] i = block_index
        t = broadcast(expand_dims(load gx[i*B] : i32[B], 1)) : i32[B, E]
        same = t == (broadcast(iota 0 : i32[E]) : i32[B, E])
        atomic_add gy[0], reduce_sum(select(same, 1, 0), 0) }";
    let scaled = "kernel scaled(a: ptr<f16>, b: ptr<f16>, s: ptr<f32>, c: ptr<f32>, m: i32, n: i32, k: i32) {
        tunable BM = 128, BN = 128, BK = 64 grid cdiv(m, BM), cdiv(n, BN)
        ga = view a : f16[m, k] gb = view b : f16[n, k] gs = view s : f32[m, cdiv(n, 128)]
        gc = view c : f32[m, n] i, j = block_index zero = full 0.0 : f32[BM, BN]
        acc = for t in 0..cdiv(k, BK) carry x = zero {
            ta = load ga[i*BM, t*BK] : f16[BM, BK] tb = load gb[j*BN, t*BK] : f16[BN, BK]
            y = mma x, ta, trans(tb) yield y }
        scale = load gs[i*BM, j] : f32[BM, 1]
        store gc[i*BM, j*BN], acc * scale }";
    for (text, tunables) in [(counts, ""), (scaled, "BM BK")] {
        assert_eq!(proved(&parse_file(text, "").unwrap_or_else(|e| panic!("{e}")).kernels[0]), tunables);
    }
}
