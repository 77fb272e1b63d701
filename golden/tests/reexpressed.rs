//! The probes written otherwise, as another author would: operands swapped, loops split or walked the other way,
//! masks as selects, results transposed, other heads. Each is compiled, simulated without hazard, compared with the
//! interpreter, and must be predicted to take about as long as the library's text.

use warplift::enumerate::Grants;
use warplift::ir::target::SM90A;
use warplift::ir::tile::{Kernel, Mapping, parse_file};
use warplift::predict::predict;
use warplift::{Compiled, Options, compile, enumerate};
use warplift_golden::orders::{FEW_ORDERS, right};
use warplift_lab::validate::{Sizes, Style, Validation};

const ATTENTION: &str = include_str!("../../driver/kernels/attention.tile");
const CAUSAL: &str = include_str!("../../driver/kernels/attention_causal.tile");
const A16W4: &str = include_str!("../../driver/kernels/a16w4.tile");
const A16W4_LARGE: &str = include_str!("../../driver/kernels/a16w4_large.tile");
const GEMM: &str = include_str!("../../driver/kernels/gemm.tile");
const TRANSPOSE: &str = include_str!("../../driver/kernels/transpose.tile");

/// Parts of a text and what stands there instead.
type Words = &'static [(&'static str, &'static str)];

/// A re-expression of a kernel.
struct Case {
    name: &'static str,
    text: &'static str,
    words: &'static [Words],
    /// Problems for the simulator.
    sizes: &'static [&'static str],
    /// A problem to predict, and the most that its cycles may be of the text's own.
    large: (&'static str, f64),
    /// Greatest difference from the interpreter.
    tolerance: f64,
}

/// The first iteration's product under a branch.
const FIRST: Words = &[(
    "y = mma x, ta, trans(tb)",
    "y = if t == 0 {
            yield mma zero, ta, trans(tb)
        } else {
            yield mma x, ta, trans(tb)
        }",
)];
/// Columns guarded by what the views say, and rows of the result.
const MASKED: Words = &[
    ("f16[BM, BK]\n", "f16[BM, BK] where t*BK + iota 1 : i32[BM, BK] < k\n"),
    ("f16[BN, BK]\n", "f16[BN, BK] where iota 1 : i32[BN, BK] < k - t*BK\n"),
    ("cast(acc, f16)", "cast(acc, f16) where i*BM + iota 0 : i32[BM, BN] < m"),
];
/// A product only where there is depth, as there always is.
const GUARDED: Words = &[(
    "y = mma x, ta, trans(tb)",
    "y = if t*BK < k {
            yield mma x, ta, trans(tb)
        } else {
            yield x
        }",
)];
/// Scores as `K Q^T`, with sums and maxima over the other dimension.
const SCORES: Words = &[
    ("zero = full 0.0 : f32[BM, BN]", "zero = full 0.0 : f32[BN, BM]"),
    ("mma zero, tq, trans(tk)", "mma zero, tk, trans(tq)"),
    ("column = iota 1 : i32[BM, BN]", "column = iota 0 : i32[BN, BM]"),
    ("reduce_max(masked, 1)", "reduce_max(masked, 0)"),
    (
        "broadcast(expand_dims(neg(base), 1)) : f32[BM, BN]",
        "broadcast(expand_dims(neg(base), 0)) : f32[BN, BM]",
    ),
    ("reduce_sum(p, 1)", "reduce_sum(p, 0)"),
];
/// The second product of those.
const OF_SCORES: Words = &[("cast(p, bf16), tv", "trans(cast(p, bf16)), tv")];
/// The second product as `V^T P^T`.
const RESULT: Words = &[
    ("none = full 0.0 : f32[BM, D]", "none = full 0.0 : f32[D, BM]"),
    ("broadcast(expand_dims(alpha, 1)) : f32[BM, D]", "broadcast(expand_dims(alpha, 0)) : f32[D, BM]"),
    (
        "cast(acc * (broadcast(expand_dims(norm, 1)) : f32[BM, D]), bf16)",
        "trans(cast(acc * (broadcast(expand_dims(norm, 0)) : f32[D, BM]), bf16))",
    ),
];
const OF_ROWS: Words = &[("cast(p, bf16), tv", "trans(tv), trans(cast(p, bf16))")];
const OF_COLUMNS: Words = &[("cast(p, bf16), tv", "trans(tv), cast(p, bf16)")];
/// Every block of keys is masked.
const SELECTED: Words = &[
    ("masked = if t == 0 {\n            column", "column"),
    (
        "            yield select(column < keys - first, s, -inf)\n",
        "        masked = select(column < keys - first, s, -inf)\n",
    ),
    ("        } else {\n            yield s\n        }\n", ""),
];
const SELECTED_CAUSAL: Words = &[
    ("masked = if t < cdiv(BM, BN) + min(BM % BN, 1) {\n            row", "row"),
    ("            yield select(column + first", "        masked = select(column + first"),
    ("        } else {\n            yield s\n        }\n", ""),
];
/// Keys from the first to the last.
const ASCENDING: Words = &[("(blocks - 1 - t) * BN", "t * BN"), ("t == 0", "t == blocks - 1")];
const ASCENDING_CAUSAL: Words = &[("(blocks - 1 - t) * BN", "t * BN")];
/// Keys and values of a group of heads, scaled scores, values loaded first, the logarithm of the sums kept.
const GROUPED: Words = &[
    ("queries: i32, keys: i32, scale", "queries: i32, keys: i32, group: i32 in 1..64, scale"),
    ("view k : bf16[batch, keys, heads, D]", "view k : bf16[batch, keys, heads / group, D]"),
    ("view v : bf16[batch, keys, heads, D]", "view v : bf16[batch, keys, heads / group, D]"),
    ("subview all_k[b, _, head, _]", "subview all_k[b, _, head / group, _]"),
    ("subview all_v[b, _, head, _]", "subview all_v[b, _, head / group, _]"),
];
const EARLY_VALUES: Words = &[
    ("        tv = load gv[first, 0] : bf16[BN, D]\n", ""),
    ("        s = mma", "        tv = load gv[first, 0] : bf16[BN, D]\n        s = mma"),
];
const LOGARITHM: Words = &[
    ("o: ptr<bf16> align 16,", "o: ptr<bf16> align 16, sums: ptr<f32>,"),
    (
        "    norm =",
        "    all_s = view sums : f32[batch, heads, queries]\n    gs = subview all_s[b, head, _]\n    store gs[i*BM], fma(m, scale, log2(l))\n    norm =",
    ),
];
/// The product is added to the scaled sums, not made onto them.
const ADDED: Words = &[
    (
        "scaled = acc0 * (broadcast(expand_dims(alpha, 1)) : f32[BM, D])\n",
        "pv = mma none, cast(p, bf16), tv\n",
    ),
    ("        acc1 = mma scaled, cast(p, bf16), tv\n", "        acc1 = acc0 * expand_dims(alpha, 1) + pv\n"),
];
/// Maxima and sums of rows are matrices of one column.
const COLUMNS: Words = &[
    ("low = full -inf : f32[BM]", "low = full -inf : f32[BM, 1]"),
    ("nothing = full 0.0 : f32[BM]", "nothing = full 0.0 : f32[BM, 1]"),
    ("reduce_max(masked, 1))", "expand_dims(reduce_max(masked, 1), 1))"),
    ("broadcast(expand_dims(neg(base), 1))", "broadcast(neg(base))"),
    ("reduce_sum(p, 1)", "expand_dims(reduce_sum(p, 1), 1)"),
    ("broadcast(expand_dims(alpha, 1))", "broadcast(alpha)"),
    ("broadcast(expand_dims(norm, 1))", "broadcast(norm)"),
];
/// Scores are scaled as soon as they are made; powers of e.
const SCALED: Words = &[
    ("s = mma zero, tq, trans(tk)", "raw = mma zero, tq, trans(tk)\n        s = raw * scale"),
    ("base = select(m1 == -inf, 0.0, m1 * scale)", "base = select(m1 == -inf, 0.0, m1)"),
    (
        "exp2(fma(masked, scale, broadcast(expand_dims(neg(base), 1)) : f32[BM, BN]))",
        "exp(masked - expand_dims(base, 1))",
    ),
    ("exp2(fma(m0, scale, neg(base)))", "exp(m0 - base)"),
];
/// Keys lie contiguous, and so do heads before positions.
const KEYS_CONTIGUOUS: Words = &[
    ("keys: i32,", "keys: i32 % 8,"),
    ("view k : bf16[batch, keys, heads, D]", "view k : bf16[batch, heads, D, keys]"),
    ("subview all_k[b, _, head, _]", "subview all_k[b, head, _, _]"),
    ("tk = load gk[first, 0] : bf16[BN, D]", "tk = load gk[0, first] : bf16[D, BN]"),
    ("trans(tk)", "tk"),
];
/// A window of 100 keys, by two selects that compare the same indices.
const WINDOW: Words = &[
    ("masked = if t < cdiv(BM, BN) + min(BM % BN, 1) {\n            row", "row"),
    (
        "            yield select(column + first <= row + i*BM, s, -inf)\n        } else {\n            yield s\n        }\n",
        "        below = select(column + first <= row + i*BM, s, -inf)
        masked = select(row + i*BM - column - first < 100, below, -inf)\n",
    ),
];
/// The same by one select of both conditions, or of a difference's bounds.
const WINDOW_AT_ONCE: Words = &[
    WINDOW[0],
    (
        WINDOW[1].0,
        "        inside = (column + first <= row + i*BM) & (row + i*BM - column - first < 100)
        masked = select(inside, s, -inf)\n",
    ),
];
const WINDOW_OF_DIFFERENCES: Words = &[
    WINDOW[0],
    (
        WINDOW[1].0,
        "        behind = (row + i*BM) - (column + first)
        masked = select((behind >= 0) & (behind < 100), s, -inf)\n",
    ),
];
/// Queries are scaled before the loop; the scale is in the scores.
const QUERIES_SCALED: Words = &[
    (
        "tq = load gq[i*BM, 0] : bf16[BM, D]",
        "raw = load gq[i*BM, 0] : bf16[BM, D]\n    tq = cast(cast(raw, f32) * scale, bf16)",
    ),
    ("base = select(m1 == -inf, 0.0, m1 * scale)", "base = select(m1 == -inf, 0.0, m1)"),
    (
        "fma(masked, scale, broadcast(expand_dims(neg(base), 1)) : f32[BM, BN])",
        "masked - expand_dims(base, 1)",
    ),
    ("fma(m0, scale, neg(base))", "m0 - base"),
];
/// The scores are scaled when they are made, and something is added to them.
const fn added(made: &'static str) -> [(&'static str, &'static str); 4] {
    [
        ("s = mma zero, tq, trans(tk)", made),
        ("base = select(m1 == -inf, 0.0, m1 * scale)", "base = select(m1 == -inf, 0.0, m1)"),
        (
            "fma(masked, scale, broadcast(expand_dims(neg(base), 1)) : f32[BM, BN])",
            "masked - expand_dims(base, 1)",
        ),
        ("fma(m0, scale, neg(base))", "m0 - base"),
    ]
}
/// A bias of every query and key.
const BIAS_OF_ALL: Words = &[
    ("o: ptr<bf16> align 16,", "o: ptr<bf16> align 16, bias: ptr<bf16> align 16,"),
    ("keys: i32,", "keys: i32 % 8,"),
    (
        "    gq = subview",
        "    all_b = view bias : bf16[heads, queries, keys]\n    gb = subview all_b[head, _, _]\n    gq = subview",
    ),
];
const BIASED: Words = &added(
    "raw = mma zero, tq, trans(tk)
        tb = load gb[i*BM, first] : bf16[BM, BN]
        s = fma(raw, scale, cast(tb, f32))",
);
/// A bias of every key.
const BIAS_OF_KEYS: Words = &[
    ("o: ptr<bf16> align 16,", "o: ptr<bf16> align 16, bias: ptr<f32> align 16,"),
    (
        "    gq = subview",
        "    all_b = view bias : f32[batch, keys]\n    gb = subview all_b[b, _]\n    gq = subview",
    ),
];
const BIASED_BY_KEYS: Words = &added(
    "raw = mma zero, tq, trans(tk)
        tb = load gb[first] : f32[BN]
        s = fma(raw, scale, broadcast(expand_dims(tb, 0)) : f32[BM, BN])",
);
/// Positions of keys, and distances from queries to them, scaled.
const POSITIONS: Words = &added(
    "raw = mma zero, tq, trans(tk)
        at = cast((iota 0 : i32[BN]) + first, f32) * 0.0625
        s = fma(raw, scale, broadcast(expand_dims(at, 0)) : f32[BM, BN])",
);
const DISTANCES: Words = &added(
    "raw = mma zero, tq, trans(tk)
        far = cast((iota 1 : i32[BM, BN]) - (iota 0 : i32[BM, BN]) + first - i*BM, f32)
        s = fma(raw, scale, far * 0.0625)",
);
/// Values that are computed on: the right operand of the second product.
const VALUES_CLIPPED: Words =
    &[("tv = load gv[first, 0] : bf16[BN, D]", "tv = max(load gv[first, 0] : bf16[BN, D], -4.0)")];
/// Keys that are computed on: the right operand of the first product, in narrower tiles.
const KEYS_SCALED: Words = &[
    ("tk = load gk[first, 0] : bf16[BN, D]", "tk = (load gk[first, 0] : bf16[BN, D]) * 0.5"),
    ("BN = 128, D = 128\n    for", "BN = 96, D = 128\n    for"),
];
/// What is below the diagonal's tiles in a loop without masks, they in another.
const SPLIT: Words = &[
    (
        "    m, l, acc = for t in 0..blocks carry m0 = low, l0 = nothing, acc0 = none {
        first = (blocks - 1 - t) * BN\n",
        "    whole = i * BM / BN
    ma, la, acca = for u in 0..whole carry m8 = low, l8 = nothing, acc8 = none {
        sk = load gk[u * BN, 0] : bf16[BN, D]
        s8 = mma zero, tq, trans(sk)
        m9 = max(m8, reduce_max(s8, 1))
        p8 = exp2(fma(s8, scale, broadcast(expand_dims(neg(m9 * scale), 1)) : f32[BM, BN]))
        alpha8 = exp2(fma(m8, scale, neg(m9 * scale)))
        l9 = fma(l8, alpha8, reduce_sum(p8, 1))
        sv = load gv[u * BN, 0] : bf16[BN, D]
        acc9 = mma acc8 * expand_dims(alpha8, 1), cast(p8, bf16), sv
        yield m9, l9, acc9
    }
    m, l, acc = for t in whole..blocks carry m0 = ma, l0 = la, acc0 = acca {
        first = t * BN\n",
    ),
    ("masked = if t < cdiv(BM, BN) + min(BM % BN, 1) {\n            row", "row"),
    (
        "            yield select(column + first <= row + i*BM, s, -inf)\n        } else {\n            yield s\n        }\n",
        "        masked = select(column + first <= row + i*BM, s, -inf)\n",
    ),
    (
        "    for t: pipeline fit, producers 1, consumers 2\n",
        "    for t: pipeline fit, producers 1, consumers 2\n    for u: pipeline fit, producers 1, consumers 2\n",
    ),
];
const HEAD_40: Words = &[("D = 128\n    for", "D = 40\n    for")];
const HEAD_72: Words = &[("D = 128\n    for", "D = 72\n    for")];
const HEAD_80: Words = &[("D = 128\n    for", "D = 80\n    for")];
const HEAD_256: Words = &[("BN = 128, D = 128\n    for", "BN = 48, D = 256\n    for")];
const HEAD_96: Words = &[("D = 128\n    for", "D = 96\n    for")];
const HEAD_192: Words = &[("BN = 128, D = 128\n    for", "BN = 96, D = 192\n    for")];
/// Y = X W^T with X on the left.
const DIRECT: Words = &[
    ("view y : f16[n, m] strides [1, n]", "view y : f16[m, n]"),
    ("zero = full 0.0 : f32[BN, BM]", "zero = full 0.0 : f32[BM, BN]"),
    ("store gy[i*BN, j*BM]", "store gy[j*BM, i*BN]"),
];
const DIRECT_SUMS: Words = &[
    ("mma zero, cast(q, f16) - 8.0, trans(tx)", "mma zero, tx, trans(cast(q, f16) - 8.0)"),
    ("cast(scale, f32)", "trans(cast(scale, f32))"),
];
const DIRECT_WEIGHTS: Words = &[(
    "mma sum, (cast(q, f16) - 8.0) * scale, trans(tx)",
    "mma sum, tx, trans((cast(q, f16) - 8.0) * scale)",
)];
/// A bias in the epilogue.
const BIAS: Words = &[
    ("y: ptr<f16> align 16,", "y: ptr<f16> align 16, bias: ptr<f16> align 16,"),
    ("    store", "    gb = view bias : f16[n]\n    tb = cast(load gb[i*BN] : f16[BN], f32)\n    store"),
    ("cast(acc, f16)", "cast(acc + expand_dims(tb, 0), f16)"),
];
/// Groups in parts, a loop in a loop.
const NESTED: Words = &[
    ("BM = 16, GROUP = 128\n    grid", "BM = 16, GROUP = 128, BK = 64\n    grid"),
    ("        q = load gw[i*BN, t*GROUP] : u4[BN, GROUP]\n", ""),
    ("        tx = load gx[j*BM, t*GROUP] : f16[BM, GROUP]\n", ""),
    (
        "group = mma zero, cast(q, f16) - 8.0, trans(tx)\n",
        "group = for u in 0..GROUP/BK carry part = zero {
            q = load gw[i*BN, t*GROUP + u*BK] : u4[BN, BK]
            tx = load gx[j*BM, t*GROUP + u*BK] : f16[BM, BK]
            more = mma part, cast(q, f16) - 8.0, trans(tx)
            yield more
        }\n",
    ),
    (
        "mapping a16w4 {\n    BN = 448, BM = 16, GROUP = 128\n    for t",
        "mapping a16w4 {\n    BN = 448, BM = 16, GROUP = 128, BK = 64\n    for u",
    ),
];
/// Groups of 64 in the same text.
const GROUPS_64: Words = &[("GROUP = 128\n    for", "GROUP = 64\n    for"), ("k: i32 % 128", "k: i32 % 64")];
/// bf16 activations and scales.
const BRAIN: Words = &[("f16", "bf16")];
/// The scale is applied before the zero point is taken away.
const SCALED_FIRST: Words = &[
    ("cast(q, f16) - 8.0", "cast(q, f16) * scale - scale * 8.0"),
    ("yield fma(group, cast(scale, f32), sum)", "yield sum + group"),
];
/// Sums grow by products.
const SUMMED: Words = &[("y = mma x, ta, trans(tb)", "d = mma zero, ta, trans(tb)\n        y = x + d")];
const BYTES: Words = &[("f16", "u8"), ("% 8", "% 16")];

const FULL: &[&str] =
    &["batch=1,heads=2,queries=1,keys=1,scale=0.15", "batch=1,heads=1,queries=130,keys=330,scale=0.15"];
const DIAGONAL: &[&str] = &["batch=1,heads=2,length=65,scale=0.15", "batch=1,heads=1,length=300,scale=0.15"];
const FULL_LARGE: &str = "batch=4,heads=16,queries=2048,keys=2048,scale=0.15";
const WEIGHTS: &[&str] = &["m=1,n=448,k=128", "m=13,n=456,k=384"];

const fn attention(name: &'static str, words: &'static [Words], most: f64) -> Case {
    Case { name, text: ATTENTION, words, sizes: FULL, large: (FULL_LARGE, most), tolerance: 2e-2 }
}

const fn causal(name: &'static str, words: &'static [Words]) -> Case {
    let large = ("batch=4,heads=16,length=2048,scale=0.15", 1.15);
    Case { name, text: CAUSAL, words, sizes: DIAGONAL, large, tolerance: 2e-2 }
}

const fn weights(name: &'static str, words: &'static [Words], most: f64) -> Case {
    let large = ("m=16,n=28672,k=4096", most);
    Case { name, text: A16W4, words, sizes: WEIGHTS, large, tolerance: 0.0 }
}

const CASES: &[Case] = &[
    attention("scores transposed", &[SCORES, OF_SCORES], 1.1),
    attention("result transposed", &[RESULT, OF_ROWS], 1.1),
    attention("both transposed", &[SCORES, RESULT, OF_COLUMNS], 1.1),
    attention("every block masked", &[SELECTED], 1.1),
    attention("ascending", &[ASCENDING], 1.1),
    // Rows of 80, 144 and 160 bytes begin within lines of memory. Measured on an H100: head 72 1.55 in bursts and 1.34 sustained, head
    // 80 0.99 and 0.89.
    attention("head 40", &[HEAD_40], 1.12),
    attention("head 72", &[HEAD_72], 1.5),
    attention("head 80", &[HEAD_80], 1.0),
    attention("head 256, tile 48", &[HEAD_256], 2.17),
    attention("head 96", &[HEAD_96], 1.1),
    attention("head 192, tile 96", &[HEAD_192], 1.7),
    attention("all at once", &[SCORES, RESULT, OF_COLUMNS, ASCENDING, EARLY_VALUES, LOGARITHM, HEAD_96], 1.2),
    attention("products added", &[ADDED], 1.05),
    attention("rows as columns", &[COLUMNS], 1.05),
    attention("scores scaled, powers of e", &[SCALED], 1.15),
    attention("queries scaled", &[QUERIES_SCALED], 1.12),
    attention("values clipped", &[VALUES_CLIPPED], 1.7),
    // Warpgroups meet twice in a trip around an operand that they store in shared memory.
    attention("keys scaled", &[KEYS_SCALED], 1.5),
    Case {
        name: "a bias of all",
        text: ATTENTION,
        words: &[BIAS_OF_ALL, BIASED],
        sizes: &[
            "batch=1,heads=2,queries=1,keys=8,scale=0.15",
            "batch=2,heads=1,queries=130,keys=328,scale=0.15",
        ],
        // Measured: 1.38 and 1.41.
        large: (FULL_LARGE, 1.4),
        tolerance: 2e-2,
    },
    attention("a bias of keys", &[BIAS_OF_KEYS, BIASED_BY_KEYS], 1.4),
    attention("positions", &[POSITIONS], 1.35),
    attention("distances", &[DISTANCES], 1.56),
    Case {
        name: "keys contiguous",
        text: ATTENTION,
        words: &[KEYS_CONTIGUOUS],
        sizes: &["batch=1,heads=2,queries=70,keys=200,scale=0.15"],
        large: (FULL_LARGE, 1.05),
        tolerance: 2e-2,
    },
    causal("causal, every block masked", &[SELECTED_CAUSAL]),
    Case {
        large: ("batch=4,heads=16,length=2048,scale=0.15", 1.05),
        ..causal("causal, loop split", &[SPLIT])
    },
    Case {
        name: "window",
        text: CAUSAL,
        words: &[WINDOW],
        sizes: &["batch=1,heads=1,length=300,scale=0.15"],
        large: ("batch=4,heads=16,length=2048,scale=0.15", 1.6),
        tolerance: 2e-2,
    },
    // Measured on an H100, over the causal text: two selects 1.15, both forms of one 1.28 in bursts (1.10, 1.19 and 1.18 sustained).
    // The prediction of one select is 1.20 of its time, that of the causal text 0.94.
    Case {
        name: "window at once",
        text: CAUSAL,
        words: &[WINDOW_AT_ONCE],
        sizes: &["batch=1,heads=1,length=300,scale=0.15"],
        large: ("batch=4,heads=16,length=2048,scale=0.15", 1.91),
        tolerance: 2e-2,
    },
    Case {
        name: "window of differences",
        text: CAUSAL,
        words: &[WINDOW_OF_DIFFERENCES],
        sizes: &["batch=1,heads=1,length=300,scale=0.15"],
        large: ("batch=4,heads=16,length=2048,scale=0.15", 1.88),
        tolerance: 2e-2,
    },
    causal("causal, every block masked, ascending", &[SELECTED_CAUSAL, ASCENDING_CAUSAL]),
    Case {
        name: "groups of heads",
        text: ATTENTION,
        words: &[GROUPED],
        sizes: &["batch=1,heads=4,queries=65,keys=200,group=2,scale=0.15"],
        large: ("batch=4,heads=16,queries=2048,keys=2048,group=4,scale=0.15", 1.1),
        tolerance: 2e-2,
    },
    weights("weights on the right", &[DIRECT, DIRECT_SUMS], 1.05),
    weights("weights on the right, bias", &[DIRECT, DIRECT_SUMS, BIAS], 1.1),
    weights("groups in parts", &[NESTED], 1.5),
    weights("groups of 64", &[GROUPS_64], 1.5),
    Case {
        name: "scale before zero point",
        text: A16W4,
        words: &[SCALED_FIRST],
        sizes: &["m=13,n=456,k=384"],
        large: ("m=16,n=28672,k=4096", 1.43),
        tolerance: 2e-2,
    },
    Case {
        name: "bf16 activations",
        text: A16W4,
        words: &[BRAIN],
        sizes: &["m=13,n=456,k=384"],
        large: ("m=16,n=28672,k=4096", 1.2),
        tolerance: 0.0,
    },
    Case {
        name: "sums grow by products",
        text: GEMM,
        words: &[SUMMED],
        sizes: &["m=130,n=264,k=136"],
        large: ("m=4096,n=4096,k=4096", 1.05),
        tolerance: 0.0,
    },
    Case {
        name: "the first product under a branch of its own, masks that say what views say",
        text: GEMM,
        words: &[FIRST, MASKED],
        sizes: &["m=130,n=264,k=136", "m=1,n=8,k=0"],
        large: ("m=4096,n=4096,k=4096", 1.01),
        tolerance: 0.0,
    },
    Case {
        name: "a guard of each iteration",
        text: GEMM,
        words: &[GUARDED],
        sizes: &["m=130,n=264,k=136"],
        large: ("m=4096,n=4096,k=4096", 1.01),
        tolerance: 0.0,
    },
    Case {
        name: "large, weights on the right",
        text: A16W4_LARGE,
        words: &[DIRECT, DIRECT_WEIGHTS],
        sizes: &["m=129,n=264,k=256"],
        large: ("m=4096,n=8192,k=4096", 1.05),
        tolerance: 2e-2,
    },
    Case {
        name: "transposition of bytes",
        text: TRANSPOSE,
        words: &[BYTES],
        sizes: &["m=144,n=208"],
        large: ("m=4096,n=8192", 0.6),
        tolerance: 0.0,
    },
];

fn parsed(text: &str, words: &[Words]) -> (Kernel, Mapping) {
    let mut text = text.to_owned();
    for (from, to) in words.iter().copied().flatten() {
        assert!(text.contains(from), "the text has no `{from}`:\n{text}");
        text = text.replace(from, to);
    }
    let module = parse_file(&text, "again").unwrap_or_else(|e| panic!("{e:?}\n{text}"));
    (module.kernels[0].clone(), module.mappings[0].clone())
}

fn compiled(name: &str, (kernel, mapping): &(Kernel, Mapping)) -> Compiled {
    let options = Options { verify: true, ..Options::default() };
    compile(kernel, mapping, &SM90A, &options).unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn simulated(case: &Case, made: &Compiled, (kernel, mapping): &(Kernel, Mapping)) {
    let style = if case.tolerance > 0.0 { Style::Normal } else { Style::Integers };
    for text in case.sizes {
        let sizes = Sizes::parse(kernel, text).expect("sizes");
        let validation = Validation::new(kernel, mapping, sizes).expect("a trial");
        let problem = validation.reference(style, 7).expect("a reference");
        right(&problem, made, &FEW_ORDERS, (2, case.tolerance), &format!("{} {text}", case.name));
    }
}

fn cycles((kernel, mapping): &(Kernel, Mapping), sizes: &str) -> f64 {
    let sizes = Sizes::parse(kernel, sizes).expect("sizes");
    predict(kernel, mapping, &SM90A, &sizes, &Options::default()).expect("a prediction").cycles
}

#[test]
fn results_and_speed_do_not_depend_on_the_wording() {
    let mut slow = Vec::new();
    for case in CASES {
        let again = parsed(case.text, case.words);
        simulated(case, &compiled(case.name, &again), &again);
        let own = case.large.0.replace("group=4,", "");
        let (own, here) = (cycles(&parsed(case.text, &[]), &own), cycles(&again, case.large.0));
        let (ratio, most) = (here / own, case.large.1);
        slow.extend((ratio > most).then(|| format!("{}: {ratio:.3} of the text, at most {most}", case.name)));
    }
    assert!(slow.is_empty(), "{slow:#?}");
}

#[test]
fn proposed_mappings_leave_what_the_arrays_are() {
    for (text, words, tunable, value) in
        [(ATTENTION, &[][..], "D", 128), (A16W4, &[DIRECT, DIRECT_SUMS][..], "GROUP", 128)]
    {
        let (kernel, _) = parsed(text, words);
        let proposals = enumerate::mappings(&kernel, &SM90A, &Grants::packing(&kernel));
        assert!(!proposals.is_empty());
        for m in proposals {
            assert!(m.tunable(tunable).is_none_or(|v| v == value), "{m}");
        }
    }
}

#[test]
fn attention_by_a_proposed_mapping_is_as_good_as_by_ours() {
    let (kernel, mapping) = parsed(ATTENTION, &[SELECTED]);
    let proposals = enumerate::mappings(&kernel, &SM90A, &Grants::packing(&kernel));
    let chosen = enumerate::best(&kernel, &proposals, &SM90A, &Options::default()).expect("one compiles");
    let (auto, own) = (
        cycles(&(kernel.clone(), chosen.best.mapping.clone()), FULL_LARGE),
        cycles(&(kernel, mapping), FULL_LARGE),
    );
    assert!(auto <= 1.05 * own, "{auto:.0} cycles, ours {own:.0}\n{}", chosen.best.mapping);
}
