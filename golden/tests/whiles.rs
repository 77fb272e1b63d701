//! Loops that end where data says: searches, lists, trees, work without a known count. Against the interpreter, under eight
//! orders of events, with adversarial data.

use warplift::Options;
use warplift::sim::{self, SimError};
use warplift::toolchain::{Fetch, PtxasOptions, Toolchain};
use warplift_golden::given::{Given, check, has_producer, made, parsed, problem};
use warplift_golden::orders::{MANY_ORDERS, right};
use warplift_lab::validate::ValidationError;

/// The place of each key in a sorted array, by halves.
const SEARCH: &str = "kernel search(x: ptr<i32>, key: ptr<i32>, y: ptr<i32> align 16, n: i32, m: i32) {
        grid m
        gx = view x : i32[n]
        gk = view key : i32[m]
        gy = view y : i32[m, 32]
        i = block_index
        k = load gk[i] : i32
        low, high, steps = while carry low = 0, high = n, steps = 0 {
            some = low < high
            mid = (low + high) / 2
            v = load gx[mid] : i32
            below = (v < k) & some
            next = select(below, mid + 1, low)
            end = select(below | !some, high, mid)
            yield next < end, next, end, steps + 1
        }
        store gy[i, 0], full low * 64 + steps : i32[1, 32]
    }
    mapping search { kernel: warps 1 }";

#[test]
fn a_search_ends_where_it_has_found() {
    for x in
        [vec![], vec![5], vec![7; 33], (0..100).map(|v| 3 * v).collect(), vec![i32::MIN, -1, 0, 1, i32::MAX]]
    {
        let key = [0, 5, 7, 8, -1, i32::MIN, i32::MAX, 150, 296, 297];
        let sizes = [("n", x.len() as i64), ("m", key.len() as i64)];
        check(SEARCH, &sizes, &[("x", Given::I32(&x)), ("key", Given::I32(&key))]);
    }
}

/// A B-tree: a node has 15 keys and 16 children. A child below zero is a place in the values.
const TREE: &str = "kernel tree(keys: ptr<i32> align 16, children: ptr<i32>, query: ptr<i32>, y: ptr<i32>, nodes: i32, m: i32) {
        grid m
        gk = view keys : i32[nodes, 16] fill 2147483647
        gc = view children : i32[nodes, 16] fill -1
        gq = view query : i32[m]
        gy = view y : i32[m, 1]
        i = block_index
        q = load gq[i] : i32
        found, depth = while carry at = 0, depth = 0 {
            all = load gk[at, 0] : i32[1, 16]
            rank = reduce_sum(reshape select(all <= q, 1, 0) : i32[16], 0)
            child = load gc[at, min(rank, 15)] : i32
            yield (child >= 0) & (depth < 8), child, depth + 1
        }
        store gy[i, 0], full found * 16 + depth : i32[1, 1]
    }
    mapping tree { kernel: warps 1 }";

#[test]
fn a_tree_is_searched_from_its_root() {
    const MOST: i32 = i32::MAX;
    // The root has 10, 20, .., 40; each child has ten numbers of its own.
    let mut keys = vec![MOST; 6 * 16];
    let mut children = vec![-99; 6 * 16];
    for child in 0..5 {
        children[child] = child as i32 + 1;
        if child < 4 {
            keys[child] = 10 * (child as i32 + 1);
        }
        for at in 0..10 {
            keys[16 * (child + 1) + at] = (10 * child + at) as i32;
            children[16 * (child + 1) + at + 1] = -(10 * child as i32 + at as i32) - 1;
        }
    }
    let query = [0, 9, 10, 25, 39, 40, 49, 1000, -5];
    let sizes = [("nodes", 6), ("m", query.len() as i64)];
    let given =
        |children| [("keys", Given::I32(&keys)), ("children", children), ("query", Given::I32(&query))];
    check(TREE, &sizes, &given(Given::I32(&children)));
    // Children that lead around, and out of the tree.
    let around: Vec<i32> = (0..96).map(|v| [0, 3, 7, MOST, 1][v % 5]).collect();
    check(TREE, &sizes, &given(Given::I32(&around)));
}

/// Lists of rows, whose products with a matrix are added up.
const LISTS: &str = "kernel lists(a: ptr<f16> align 16, b: ptr<f16> align 16, c: ptr<f32> align 16, first: ptr<i32>, next: ptr<i32>,
        groups: i32, lists: i32, n: i32 % 8) {
        tunable BM = 64, BN = 64, BK = 64
        grid lists, cdiv(n, BN)
        i, j = block_index
        all_a = view a : f16[groups, BM, BK]
        all_b = view b : f16[groups, n, BK]
        all_c = view c : f32[lists, BM, n]
        gc = subview all_c[i, _, _]
        gf = view first : i32[lists]
        gn = view next : i32[groups] fill -1
        zero = full 0.0 : f32[BM, BN]
        start = load gf[i] : i32
        last, steps, acc = while carry at = start, steps = 0, x = zero {
            ga = subview all_a[at, _, _]
            gb = subview all_b[at, _, _]
            ta = load ga[0, 0] : f16[BM, BK]
            tb = load gb[j*BN, 0] : f16[BN, BK]
            y = mma x, ta, trans(tb)
            after = load gn[at] : i32
            yield (after >= 0) & (steps < 9), after, steps + 1, y
        }
        store gc[0, j*BN], acc
    }
    mapping lists { WORDS }";

fn lists(words: &str) -> String {
    LISTS.replace("WORDS", words)
}

/// Chains, lists of one, lists that lead around and out of the array.
const CHAINS: [([i32; 3], [i32; 6]); 4] = [
    ([0, 1, 5], [2, 3, 4, -1, -1, -1]),
    ([3, 3, 3], [-1; 6]),
    ([0, 6, -1], [1, 0, 2, 3, 4, 5]),
    ([i32::MIN, i32::MAX, 2], [i32::MAX, i32::MIN, 5, 7, 9, 3]),
];

#[test]
fn a_producer_follows_a_list() {
    for words in [
        "kernel: persistent, warps 4",
        "kernel: warps 4",
        "kernel: persistent, warps 4, epilogue deferred",
        "kernel: persistent, warps 4, products mma_sync",
        "BN = 128 kernel: persistent, warps 8",
        "kernel: persistent, warps 4, pingpong 2",
        "kernel: persistent, warps 4, cluster 2",
        "kernel: persistent, warps 4, raster counter",
    ] {
        let text = lists(words);
        for (first, next) in CHAINS {
            let sizes = [("groups", 6), ("lists", 3), ("n", 136)];
            let compiled =
                check(&text, &sizes, &[("first", Given::I32(&first)), ("next", Given::I32(&next))]);
            assert!(has_producer(&compiled), "{words}: {:?}", compiled.explained.schedule.remarks);
        }
    }
}

/// The assembler sees that all threads of a warp agree on the end: it serializes no products, and spills nothing.
#[test]
fn products_of_a_list_are_not_serialized() {
    let tools = Toolchain::find_or_install(None, Fetch::default()).expect("the tools");
    for words in ["kernel: persistent, warps 4", "BN = 128 kernel: persistent, warps 8", "kernel: warps 4"] {
        let (kernel, mapping) = parsed(&lists(words));
        let compiled = made(&kernel, &mapping);
        let assembled =
            tools.ptxas(&compiled.ptx, &PtxasOptions::default()).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(assembled.slowdown(), None, "{words}: {}", assembled.log);
    }
}

/// The condition depends on what the kernel writes: one thread cannot know it, and a remark says so.
#[test]
fn a_condition_on_written_memory_takes_the_producer_away() {
    let text = lists("kernel: persistent, warps 4")
        .replace("store gc[0, j*BN], acc", "store gc[0, j*BN], acc store gn[0], full 3 : i32[1]");
    let (kernel, mapping) = parsed(&text.replace("next: ptr<i32>", "next: ptr<i32> align 4"));
    let compiled = made(&kernel, &mapping);
    assert!(!has_producer(&compiled));
    let remarks = &compiled.explained.schedule.remarks;
    assert!(
        remarks.iter().any(|r| r.contains("`load v[i] : i32` of an array that it only reads mends it")),
        "{remarks:?}"
    );
}

/// Halves a tile until its greatest element is small: the condition is a reduced tile.
const CONVERGES: &str =
    "kernel converges(x: ptr<f32> align 16, y: ptr<f32> align 16, s: ptr<f32> align 16, m: i32, n: i32 % 4) {
        tunable B = 128
        grid cdiv(m, 4), cdiv(n, B)
        gx = view x : f32[m, n]
        gy = view y : f32[m, n]
        gs = view s : f32[4]
        i, j = block_index
        t = load gx[i*4, j*B] : f32[4, B]
        steps, r = while carry steps = 0, a = t {
            w = load gs[0] : f32[4]
            half = a * 0.5 + 0.0 * expand_dims(w, 1)
            most = reduce_max(reduce_max(abs(half), 1), 0)
            yield (most > 1.0) & (steps < 40), steps + 1, half
        }
        store gy[i*4, j*B], r * 1024.0 + cast(steps, f32)
    }
    mapping converges { kernel: warps WARPS }";

#[test]
fn a_reduced_tile_ends_a_loop() {
    for warps in ["1", "4", "8"] {
        check(&CONVERGES.replace("WARPS", warps), &[("m", 7), ("n", 260)], &[]);
    }
}

/// Blocks that hold a tile together agree on the end.
#[test]
fn blocks_of_a_cluster_end_together() {
    check(&CONVERGES.replace("warps WARPS", "warps 2, blocks 2"), &[("m", 7), ("n", 260)], &[]);
}

/// The last loop of a tile's work is a `while` of other warps than the product's.
#[test]
fn epilogue_warps_follow_a_list() {
    let text = "kernel ends(a: ptr<f16> align 16, b: ptr<f16> align 16, bias: ptr<f32> align 16, next: ptr<i32>, y: ptr<f32> align 16,
            m: i32, n: i32 % 8, k: i32 % 8, rows: i32) {
        tunable BM = 64, BN = 64, BK = 64
        grid cdiv(m, BM), cdiv(n, BN)
        ga = view a : f16[m, k]
        gb = view b : f16[n, k]
        gbias = view bias : f32[rows, n]
        gn = view next : i32[rows] fill -1
        gy = view y : f32[m, n]
        i, j = block_index
        zero = full 0.0 : f32[BM, BN]
        acc = for t in 0..cdiv(k, BK) carry x = zero {
            yield mma x, load ga[i*BM, t*BK] : f16[BM, BK], trans(load gb[j*BN, t*BK] : f16[BN, BK])
        }
        at, steps, sum = while carry at = i, steps = 0, s = acc {
            row = load gbias[at, j*BN] : f32[1, BN]
            after = load gn[at] : i32
            yield (after >= 0) & (steps < 5), after, steps + 1, s + row
        }
        store gy[i*BM, j*BN], sum
    }
    mapping ends { for t: pipeline 2, consumers 1 kernel: persistent, epilogue WORD }";
    for word in ["warps", "deferred", "direct"] {
        for next in [[1, 2, -1, -1], [0, 0, 0, 0], [3, -1, 1, 7]] {
            let sizes = [("m", 136), ("n", 72), ("k", 136), ("rows", 4)];
            check(&text.replace("WORD", word), &sizes, &[("next", Given::I32(&next))]);
        }
    }
}

/// Loops and branches around and inside.
const NESTED: &str =
    "kernel nested(x: ptr<f32> align 16, given: ptr<i32>, y: ptr<f32> align 16, m: i32, n: i32 % 4) {
        tunable B = 64
        grid m
        gx = view x : f32[m, n]
        gg = view given : i32[m]
        gy = view y : f32[m, B]
        i = block_index
        g = load gg[i] : i32
        zero = full 0.0 : f32[1, B]
        sum = for t in 0..min(max(g, 0), 3) carry s = zero {
            k, all = while carry k = t, a = s {
                part = if k % 2 == 0 {
                    v = load gx[i, k*B] : f32[1, B]
                    yield a + v
                } else {
                    inner = for u in 0..k carry b = a {
                        yield b + load gx[i, u*B] : f32[1, B]
                    }
                    yield inner * 0.5
                }
                yield k < g, k + 1, part
            }
            yield all + cast(k, f32)
        }
        r = if g > 1 {
            once = while carry o = sum { yield false, o + 1.0 }
            yield once
        } else {
            yield sum
        }
        store gy[i, 0], r
    }
    mapping nested { kernel: WORDS }";

#[test]
fn loops_and_branches_nest() {
    for words in ["warps 2", "warps 1, persistent", "warps 4, persistent, raster counter"] {
        for given in [[0, 1, 2, 3, 4], [-3, 7, 6, 5, 0], [1; 5]] {
            let text = NESTED.replace("WORDS", words);
            check(&text, &[("m", 5), ("n", 200)], &[("given", Given::I32(&given))]);
        }
    }
}

/// A list without an end: the interpreter and the simulator stop with an error that says so.
#[test]
fn a_loop_without_an_end_is_an_error() {
    let text = "kernel endless(next: ptr<i32>, y: ptr<i32>, n: i32) {
        grid 1
        gn = view next : i32[n]
        gy = view y : i32[1]
        at = while carry at = 0 {
            after = load gn[at] : i32
            yield after >= 0, after
        }
        store gy[0], full at : i32[1]
    }
    mapping endless { kernel: warps 1 }";
    let (kernel, mapping) = parsed(text);
    let compiled = warplift::compile(&kernel, &mapping, &warplift::ir::target::SM90A, &Options::default());
    let compiled = compiled.unwrap_or_else(|e| panic!("{e}"));
    let ends = problem(&kernel, &mapping, &[("n", 4)], &[("next", Given::I32(&[2, -1, 3, 1]))]);
    right(&ends, &compiled, &MANY_ORDERS, (1, 0.0), "with an end");
    let limited = sim::Options { max_steps: 10_000, ..sim::Options::default() };
    let mut around = ends;
    around.data.buffers[0] = [1i32, 2, 3, 0].iter().flat_map(|v| v.to_le_bytes()).collect();
    let run = around.simulate(&compiled.ptx, &compiled.manifest, &limited, 1);
    let error = run.map(|r| r.1.hazards).expect_err("it does not end");
    assert!(matches!(error, ValidationError::Simulation(SimError::Steps(10_000, _))), "{error}");
}
