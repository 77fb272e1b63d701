//! Two grouped products of a mixture of experts in one launch: tiles of the second wait for the tiles of the first whose rows
//! they read. In the simulator, against the interpreter.

use warplift::Options;
use warplift::ir::target::SM90A;
use warplift::predict::predict;
use warplift_golden::described::{compiled, reference};
use warplift_golden::orders::{ORDERS, right};
use warplift_lab::validate::Sizes;

/// Items are all tiles of the first product, then all of the second. Tile `i` of the rows is ready when all its columns have
/// counted themselves. Nobody waits forever: an item waits for items with lower numbers only, programs take theirs in the
/// order of the numbers, and all programs run at once. So the lowest item that is not done never waits. The last item
/// that reads a tile of rows sets its counter back for the next launch.
const LAYER: &str = "kernel layer(
    x: ptr<f16> align 16, w: ptr<f16> align 16, v: ptr<f16> align 16, h: ptr<f16> align 16, y: ptr<f16> align 16,
    order: ptr<i32>, group: ptr<i32>, first: ptr<i32>, offsets: ptr<i32>,
    tiles: i32, experts: i32, tokens: i32, top: i32 in 1..=64, n: i32 % 64, k: i32 % 64, d: i32 % 64
) {
    tunable BM = 128, BN = 128, BD = 128, BK = 64
    grid tiles * cdiv(n, BN) + tiles * cdiv(d, 2*BD)

    item = block_index
    columns = cdiv(n, BN)
    firsts = tiles * columns
    is_first = item < firsts
    rest = select(is_first, item, item - firsts)
    across = select(is_first, columns, cdiv(d, 2*BD))
    i = rest / across
    j = rest % across
    gg = view group : i32[tiles] fill -1
    gf = view first : i32[tiles]
    go = view offsets : i32[experts + 1]
    gr = view order : i32[tokens * top] fill -1
    gx = view x : f16[tokens, k]
    gw = view w : f16[experts, 2, n, k]
    gv = view v : f16[experts, d, n]
    ready = workspace tiles : i32
    used = workspace tiles : u32
    gready = view ready : i32[tiles]
    gused = view used : u32[tiles]
    e = load gg[i] : i32
    begin = max(load gf[i] : i32, 0)
    end = min(load go[e + 1] : i32, tokens * top)
    rows = select(e < 0, 0, end)
    if is_first {
        gh = view h : f16[rows, n]
        at = (iota 0 : i32[BM]) + begin
        place = load gr[at] : i32[BM] where at < end
        token = select(place < 0, -1, place / top)
        gate_w = subview gw[e, 0, _, _]
        up_w = subview gw[e, 1, _, _]
        zero = full 0.0 : f32[BM, BN]
        steps = select(e < 0, 0, cdiv(k, BK))
        gate, up = for t in 0..steps carry p = zero, q = zero {
            tx = load gx[token, t*BK] : f16[BM, BK]
            tg = load gate_w[j*BN, t*BK] : f16[BN, BK]
            tu = load up_w[j*BN, t*BK] : f16[BN, BK]
            p2 = mma p, tx, trans(tg)
            q2 = mma q, tx, trans(tu)
            yield p2, q2
        }
        silu = gate / (1.0 + exp(neg(gate)))
        store gh[begin, j*BN], cast(silu * up, f16)
        atomic_add gready[i], full 1 : i32[1] order release
    } else {
        gh = view h : f16[rows, n]
        polls = while carry polls = 0 {
            seen = atomic_add gready[i], full 0 : i32[1] : i32[1] order acquire
            yield reduce_max(seen, 0) < columns, polls + 1
        }
        gy = view y : f16[rows, d]
        wv = subview gv[e, _, _]
        zero = full 0.0 : f32[BM, BD]
        steps = select(e < 0, 0, cdiv(n, BK))
        left, right = for s in 0..steps carry p = zero, q = zero {
            th = load gh[begin, s*BK] : f16[BM, BK]
            tl = load wv[j*2*BD, s*BK] : f16[BD, BK]
            tr = load wv[j*2*BD + BD, s*BK] : f16[BD, BK]
            p2 = mma p, th, trans(tl)
            q2 = mma q, th, trans(tr)
            yield p2, q2
        }
        store gy[begin, j*2*BD], cast(left, f16)
        store gy[begin, j*2*BD + BD], cast(right, f16)
        last = arrive gused[i], across
        if last {
            old = atomic_exchange gready[i], full 0 : i32[1] : i32[1]
        }
    }
}
mapping layer {
    for t: pipeline fit, producers 1, consumers 2, wait 0
    for s: pipeline fit, producers 1, consumers 2, wait 0
    kernel: WORDS
}";

/// Experts of 100, 128 and 70 rows, one without any, and a tile of no expert.
const SIZES: [(&str, i64); 7] =
    [("tiles", 4), ("experts", 4), ("tokens", 150), ("top", 2), ("n", 192), ("k", 128), ("d", 320)];
const DATA: [&str; 4] =
    ["order=perm", "group=list:0,1,3,-1", "first=list:0,100,228,0", "offsets=list:0,100,228,228,298"];

#[test]
fn the_second_product_waits_for_the_first() {
    for words in ["persistent", "persistent, raster counter", "persistent, raster paired"] {
        let (kernel, mapping, made) = compiled(&LAYER.replace("WORDS", words));
        right(&reference(&kernel, &mapping, &SIZES, &DATA), &made, &ORDERS, (2, 2e-2), words);
        assert!(made.ptx.contains("atom.acquire.gpu.global.add.u32"), "{words}");
        assert!(made.ptx.contains("red.release.gpu.global.add.s32"), "{words}");
        let taken = made.explained.lints.iter().any(|r| r.message.contains("in the order of their numbers"));
        assert_eq!(taken, words.contains("paired"), "{words}: {:?}", made.explained.lints);
    }
}

/// Without the acquire, what the first product stores is read too early.
#[test]
fn a_wait_that_does_not_acquire_is_a_race() {
    use warplift::sim::{self, HazardKind, Hazards};
    let text = LAYER.replace("WORDS", "persistent").replace("order release", "").replace("order acquire", "");
    let (kernel, mapping, made) = compiled(&text);
    let problem = reference(&kernel, &mapping, &SIZES, &DATA);
    let options = sim::Options { hazards: Hazards::Warn, ..sim::Options::default() };
    let (_, report) = problem.simulate(&made.ptx, &made.manifest, &options, 2).unwrap();
    assert!(report.hazards.iter().any(|h| h.kind == HazardKind::GlobalRace), "{:?}", report.hazards);
}

/// A look at a counter finds that all others have come: a prediction does not wait for what it does not walk.
#[test]
fn predictions_do_not_wait() {
    let (kernel, mapping, _) = compiled(&LAYER.replace("WORDS", "persistent"));
    let sizes = Sizes::of(&kernel, &SIZES).unwrap();
    let predicted = predict(&kernel, &mapping, &SM90A, &sizes, &Options::default()).expect("a prediction");
    assert!((1.0e3..1.0e5).contains(&predicted.cycles), "{}", predicted.cycles);
}
