//! Tiles drawn from a counter: every tile is computed once, in any order of programs, and each launch leaves the counter at
//! zero for the next.

use warplift::ir::interp;
use warplift::ir::machine::RingFill;
use warplift::ir::target::SM90A;
use warplift::ir::tile::parse_file;
use warplift::predict::predict;
use warplift::problem::Sizes;
use warplift::{Options, compile};
use warplift_golden::library::{compiled, in_rules_form, reference, reference_on, remapped};
use warplift_golden::orders::{MANY_ORDERS, right};
use warplift_golden::relaunch::relaunch;

/// The PTX draws tiles, and gives on so many multiprocessors what the kernel does as it is written.
fn check(name: &str, mapping: &str, size: &[(&str, i64)], (multiprocessors, error): (u32, f64)) {
    let (kernel, mapping) = remapped(name, mapping);
    let made = compiled(&kernel, &mapping);
    assert!(made.ptx.contains("atom.global.inc.u32"), "{mapping} draws nothing");
    let problem = reference(&kernel, &mapping, size, 5);
    right(&problem, &made, &MANY_ORDERS, (multiprocessors, error), &format!("{name} {mapping} {size:?}"));
}

const PRODUCT: &str =
    "BM = 64, BN = 64, BK = 32\nfor t: pipeline 3, producers 1, consumers 1\nkernel: persistent, ";

#[test]
fn a_producer_draws_for_all_roles() {
    // More tiles than programs, as many, fewer; one program alone.
    for (m, n, k, programs) in [(264, 200, 104, 3), (264, 72, 8, 2), (72, 136, 328, 7), (136, 136, 40, 1)] {
        let size = [("m", m), ("n", n), ("k", k)];
        for words in ["raster counter", "raster counter band_m 2", "raster counter square, epilogue deferred"]
        {
            check("gemm", &format!("{PRODUCT}{words}"), &size, (programs, 0.0));
        }
    }
}

#[test]
fn teams_and_slices_draw_too() {
    let size = [("m", 264), ("n", 136), ("k", 200)];
    check("gemm", &format!("{PRODUCT}raster counter, pingpong 2"), &size, (2, 0.0));
    let sliced = PRODUCT.replace("consumers 1", "consumers 1, split_k 3");
    check("gemm", &format!("{sliced}raster counter"), &size, (4, 0.0));
    check("gemm", &format!("{PRODUCT}raster counter, pdl"), &size, (2, 0.0));
}

#[test]
fn epilogue_warps_and_their_copies_hear_of_the_next_tile() {
    let softmax = "BM = 1, BN = 1024\nfor t: pipeline 3\nkernel: persistent, warps 4, epilogue warps, raster counter\narray x: staged";
    check("softmax_warp_specialized", softmax, &[("m", 11), ("n", 5000)], (2, 1e-4));
    let norm = "BM = 1, BN = 1024\nfor t: pipeline 5\nfor u: pipeline 2\nkernel: persistent, warps 4, epilogue warps, raster counter\narray x: staged array w: staged array b: staged";
    check("layer_norm_warp_specialized", norm, &[("m", 11), ("n", 4000)], (2, 1e-3));
}

/// What the weights are less is multiplied by a helper for all warps, a tile without a loop at a time.
#[test]
fn helpers_hear_of_the_next_tile() {
    let text = "kernel weights(
        x: ptr<f16> align 16, w: ptr<u4> align 16, s: ptr<f16> align 16, y: ptr<f16> align 16, m: i32, n: i32 % 8
    ) {
        grid cdiv(n, 64), cdiv(m, 16)
        gx = view x : f16[m, 128]
        gw = view w : u4[n, 128]
        gs = view s : f16[n, 1] strides [1, n]
        gy = view y : f16[n, m] strides [1, n]
        i, j = block_index
        zero = full 0.0 : f32[64, 16]
        q = load gw[i*64, 0] : u4[64, 128]
        scale = load gs[i*64, 0] : f16[64, 1]
        tx = load gx[j*16, 0] : f16[16, 128]
        group = mma zero, cast(q, f16) - 8.0, trans(tx)
        store gy[i*64, j*16], cast(group * cast(scale, f32), f16)
    }
    mapping weights { kernel: persistent, raster counter array w: packed array s: staged }";
    let mut file = parse_file(text, "weights.tile").unwrap_or_else(|e| panic!("{e:?}"));
    let (kernel, mapping) = (file.kernels.remove(0), file.mappings.remove(0));
    let made = compiled(&kernel, &mapping);
    assert!(made.explained.schedule.rings.values().any(|r| r.fill == RingFill::Helper), "no helper");
    let problem = reference(&kernel, &mapping, &[("m", 40), ("n", 200)], 5);
    right(&problem, &made, &MANY_ORDERS, (3, 0.0), text);
}

#[test]
fn threads_draw_without_a_producer() {
    check(
        "softmax",
        "BM = 1, BN = 1024\nkernel: persistent, warps 4, raster counter",
        &[("m", 9), ("n", 1000)],
        (2, 1e-4),
    );
    let copies = "BM = 64, BN = 64, BK = 32\nfor t: pipeline 3, producers 0\nkernel: persistent, warps 4, products mma_sync, raster counter";
    check("gemm", copies, &[("m", 200), ("n", 136), ("k", 136)], (3, 0.0));
}

/// Tiles of unequal length, in sections: along each dimension of a grid, growing and falling, and of a rank of one to three.
#[test]
fn the_longest_tiles_come_first() {
    let size = [("batch", 1), ("heads", 3), ("length", 700)];
    let causal = "BM = 64, BN = 64, D = 64\nfor t: pipeline 2, producers 1, consumers 1\nkernel: persistent, raster counter";
    check("attention_causal", causal, &size, (3, 2e-2));
    let grids = [
        ("b", "d", "i = block_index(2)"),
        ("b", "i", "d = block_index(2)"),
        ("i", "b", "d = block_index(2)"),
    ];
    for (trips, (x, y, z)) in ["0..i + 1", "i..cdiv(n, 8)"].into_iter().flat_map(|t| grids.map(|g| (t, g))) {
        let extent = |name: &str| if name == "i" { "cdiv(n, 8)" } else { "3" };
        let last = &z[..1];
        let grid = [x, y, last].map(extent).join(", ");
        let text = format!(
            "kernel triangle(x: ptr<f32> align 16, y: ptr<f32> align 16, n: i32 % 4) {{
                grid {grid}
                gx = view x : f32[n, n]
                gy = view y : f32[3, 3, n, 8]
                {x} = block_index(0)
                {y} = block_index(1)
                {z}
                zero = full 0.0 : f32[8, 8]
                s = for t in {trips} carry s0 = zero {{ yield s0 + load gx[i*8, t*8] : f32[8, 8] }}
                store gy[b, d, i*8, 0], reshape s : f32[1, 1, 8, 8]
            }}
            mapping triangle {{ kernel: warps 1, persistent, raster counter }}"
        );
        let mut file = parse_file(&text, "triangle.tile").unwrap_or_else(|e| panic!("{e:?}\n{text}"));
        let (kernel, mapping) = (file.kernels.remove(0), file.mappings.remove(0));
        let problem = reference(&kernel, &mapping, &[("n", 100)], 5);
        right(&problem, &compiled(&kernel, &mapping), &MANY_ORDERS, (5, 0.0), &text);
        // No tiles: the mapped kernel does nothing, as the written one.
        let mapped = in_rules_form(&kernel, &mapping).unwrap_or_else(|e| panic!("{e}"));
        let nothing = reference(&kernel, &mapping, &[("n", 0)], 5);
        let have = nothing.interpret(&mapped, &interp::Options::default()).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(nothing.difference(&have), None);
    }
}

/// Programs that draw end together wherever the longest tiles stand: as those that take tiles in pairs from both ends, and where
/// tiles are walked from the shortest on. Products decide their time, of few tiles and of many, of which the L2 holds all keys and
/// values: the longest tiles of all heads come first, so a head's keys come again far behind.
#[test]
fn programs_end_together() {
    let prediction = |raster: &str, size: &str| {
        let words = format!(
            "BM = 128, BN = 128, D = 128\nfor t: pipeline fit, producers 1, consumers 2\nkernel: persistent, raster {raster}"
        );
        let (kernel, mapping) = remapped("attention_causal", &words);
        let sizes = Sizes::parse(&kernel, size).expect("sizes");
        predict(&kernel, &mapping, &SM90A, &sizes, &Options::default()).expect("a prediction")
    };
    let cycles = |raster: &str, size: &str| prediction(raster, size).cycles;
    for size in ["batch=8,heads=16,length=512,scale=1", "batch=4,heads=16,length=4096,scale=1"] {
        let ratio = cycles("counter", size) / cycles("paired", size);
        assert!((0.9..1.06).contains(&ratio), "{size}: {ratio}");
    }
    // Of more heads than the L2 holds only device memory takes longer.
    let many = "batch=32,heads=16,length=512,scale=1";
    let [drawn, paired] = ["counter", "paired"].map(|raster| prediction(raster, many));
    assert!(drawn.memory > 1.5 * paired.memory, "{drawn} {paired}");
    assert!(drawn.cycles < 1.06 * paired.cycles.max(drawn.memory), "{drawn} {paired}");
}

/// A grouped product over a work list: a program finds the group of its tile by search in the prefix sums of the groups'
/// tiles. A tile behind the last one has no work.
const WORK_LIST: &str = "kernel work_list(
    a: ptr<f16> align 16, b: ptr<f16> align 16, c: ptr<f16> align 16, offsets: ptr<i32>, prefix: ptr<i32>,
    tiles: i32, groups: i32, rows: i32, n: i32 % 8, k: i32 % 8
) {
    grid tiles, cdiv(n, 64)
    i, j = block_index
    gp = view prefix : i32[groups + 1]
    go = view offsets : i32[groups + 1]
    g, end_of_search = for s in 0..31 carry l = 0, h = groups {
        l1, h1 = if h - l > 1 {
            mid = (l + h) / 2
            before = load gp[mid] : i32
            yield select(before <= i, mid, l), select(before <= i, h, mid)
        } else {
            yield l, h
        }
        yield l1, h1
    }
    first = load go[g] : i32
    before = load gp[g] : i32
    row = max(first + (i - before) * 64, 0)
    end = min(load go[g + 1] : i32, rows)
    all_b = view b : f16[groups, n, k]
    ga = view a : f16[rows, k]
    gb = subview all_b[g, _, _]
    gc = view c : f16[end, n]
    zero = full 0.0 : f32[64, 64]
    acc = for t in 0..select(row < end, cdiv(k, 32), 0) carry x = zero {
        ta = load ga[row, t*32] : f16[64, 32]
        tb = load gb[j*64, t*32] : f16[64, 32]
        yield mma x, ta, trans(tb)
    }
    store gc[row, j*64], cast(acc, f16)
}
mapping work_list { for t: pipeline 3, producers 1, consumers 1, wait 0 kernel: persistent, WORDS }";

#[test]
fn a_work_list_is_searched_by_the_producer() {
    let list = |name: &str, of: &[usize]| {
        let all: Vec<String> = of.iter().map(usize::to_string).collect();
        format!("{name}=list:{}", all.join(","))
    };
    // Equal groups, one huge, empty ones at either end, all empty; more launched tiles than there are.
    for lengths in [[70, 70, 70, 70], [0, 290, 0, 0], [0, 3, 0, 131], [0; 4]] {
        let sums = |each: fn(usize) -> usize| {
            lengths.iter().fold(vec![0], |mut all, &l| {
                all.push(all[all.len() - 1] + each(l));
                all
            })
        };
        let (offsets, prefix) = (sums(|l| l), sums(|l| l.div_ceil(64)));
        let data = [list("offsets", &offsets), list("prefix", &prefix)];
        let data: Vec<&str> = data.iter().map(String::as_str).collect();
        let sizes = [("tiles", 9), ("groups", 4), ("rows", 290), ("n", 136), ("k", 104)];
        for words in ["raster counter", "epilogue deferred"] {
            let text = WORK_LIST.replace("WORDS", words);
            let mut file = parse_file(&text, "work_list.tile").unwrap_or_else(|e| panic!("{e:?}"));
            let (kernel, mapping) = (file.kernels.remove(0), file.mappings.remove(0));
            let made = compiled(&kernel, &mapping);
            assert!(made.manifest.roles.iter().any(|r| r.name == "producer"), "{words}: threads copy");
            let problem = reference_on(&kernel, &mapping, (&sizes, &data), 5);
            right(&problem, &made, &MANY_ORDERS, (3, 0.0), &format!("{words} {data:?}"));
        }
    }
}

/// Three launches on one memory: each finds the counter as the first one did.
#[test]
fn the_counter_ends_at_zero() {
    let threads = "BM = 64, BN = 64, BK = 32\nfor t: pipeline 3, producers 0\nkernel: persistent, warps 4, products mma_sync, raster counter";
    let by_producer = ["raster counter", "raster counter, pingpong 2", "raster counter, epilogue deferred"];
    let mappings = by_producer.map(|words| format!("{PRODUCT}{words}"));
    for mapping in mappings.iter().map(String::as_str).chain([threads]) {
        let (kernel, mapping) = remapped("gemm", mapping);
        // Of 12 tiles: several for each program, one for each, and programs without any.
        relaunch(&compiled(&kernel, &mapping), (200, 136), &[5, 12, 132], |launch, workspace| {
            assert!(!workspace.is_empty() && workspace.iter().all(|&b| b == 0), "launch {launch}");
        });
    }
}

#[test]
fn what_cannot_draw_is_refused() {
    for (words, why) in [
        ("raster counter, cluster 2", "its blocks take neighbours, and each draws alone"),
        ("raster counter paired", "use one of the two"),
        ("raster counter, blocks 2", "they hold a tile together"),
    ] {
        let (kernel, mapping) = remapped("gemm", &format!("{PRODUCT}{words}"));
        let error = compile(&kernel, &mapping, &SM90A, &Options::default());
        let message = error.map_or_else(|e| e.to_string(), |_| "it compiles".to_owned());
        assert!(message.contains(why), "{words}: {message}");
    }
}
