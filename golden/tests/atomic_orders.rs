//! Scope and order of atomic updates: what a block did before it releases is seen by the one that acquires. Against the
//! interpreter, under eight orders; weaker ones are races.

use warplift::Compiled;
use warplift::ir::manifest::Param;
use warplift::ir::tile::parse_file;
use warplift::sim::{HazardKind, Hazards, Options};
use warplift_golden::given::{Given, check, made, parsed, problem};

/// Blocks write a part each and draw a ticket; the last one adds up all parts.
const LAST: &str = "kernel last(x: ptr<f32> align 16, part: ptr<f32> align 16, count: ptr<i32>, y: ptr<f32> align 16, m: i32) {
    grid m
    gx = view x : f32[m, 256]
    gp = view part : f32[m, 256]
    gc = view count : i32[1]
    gy = view y : f32[256]
    i = block_index
    store gp[i, 0], (load gx[i, 0] : f32[1, 256]) * 2.0
    ticket = atomic_add gc[0], full 1 : i32[1] : i32[1] ORDER
    if reduce_max(ticket, 0) == m - 1 {
        zero = full 0.0 : f32[256]
        sum = for k in 0..m carry s = zero {
            yield s + reshape load gp[k, 0] : f32[1, 256] : f32[256]
        }
        store gy[0], sum
    }
}
mapping last { kernel: WORDS }";

#[test]
fn who_acquires_sees_what_was_released() {
    for words in ["warps 4", "persistent, warps 2", "warps 1"] {
        let text = LAST.replace("WORDS", words).replace("ORDER", "order acq_rel");
        let compiled = check(&text, &[("m", 5)], &[("count", Given::I32(&[0]))]);
        assert!(compiled.ptx.contains("atom.acq_rel.gpu.global.add.u32"), "{}", compiled.ptx);
        let far = text.replace("order acq_rel", "scope sys order acq_rel");
        assert!(made(&parsed(&far).0, &parsed(&far).1).ptx.contains("atom.acq_rel.sys.global.add.u32"));
    }
}

/// The hazards of a text.
fn hazards(text: &str, sms: u32) -> Vec<HazardKind> {
    let (kernel, mapping) = parsed(text);
    let compiled = made(&kernel, &mapping);
    let problem = problem(&kernel, &mapping, &[("m", 5)], &[("count", Given::I32(&[0]))]);
    let options = Options { hazards: Hazards::Warn, ..Options::default() };
    let (_, report) = problem.simulate(&compiled.ptx, &compiled.manifest, &options, sms).unwrap();
    report.hazards.iter().map(|h| h.kind).collect()
}

#[test]
fn less_is_a_race() {
    for order in
        ["", "order relaxed", "order acquire", "scope cta order acq_rel", "scope cluster order acq_rel"]
    {
        let text = LAST.replace("WORDS", "warps 4").replace("ORDER", order);
        assert!(hazards(&text, 2).contains(&HazardKind::GlobalRace), "{order}");
    }
}

/// Updates without a result release; one with a result acquires.
#[test]
fn a_flag_is_released_and_acquired() {
    let text = "kernel flags(x: ptr<i32> align 16, flag: ptr<i32>, y: ptr<i32> align 16, z: ptr<i32> align 16, m: i32) {
        grid m
        gx = view x : i32[m, 128]
        gf = view flag : i32[m]
        gy = view y : i32[m, 128]
        gz = view z : i32[m, 128]
        i = block_index
        one = full 1 : i32[1]
        store gy[i, 0], load gx[i, 0] : i32[1, 128]
        atomic_max gf[i], one order release
        seen = atomic_add gf[i - 1], full 0 : i32[1] : i32[1] order acquire
        before = if reduce_max(seen, 0) == 1 {
            yield load gy[i - 1, 0] : i32[1, 128]
        } else {
            yield load gx[i - 1, 0] : i32[1, 128]
        }
        store gz[i, 0], before
    }
    mapping flags { kernel: warps 4 }";
    let compiled = check(text, &[("m", 6)], &[("flag", Given::I32(&[0; 6]))]);
    assert!(compiled.ptx.contains("red.release.gpu.global.max.s32"), "{}", compiled.ptx);
    assert!(compiled.ptx.contains("atom.acquire.gpu.global.add.u32"), "{}", compiled.ptx);
}

/// A tile of updates has a scope too, by tiles of indices and under a mask.
#[test]
fn tiles_of_updates_have_a_scope() {
    let text = "kernel bins(x: ptr<i32> align 16, y: ptr<i32>, m: i32) {
        grid m
        gx = view x : i32[m, 128]
        gy = view y : i32[m, 16]
        i = block_index
        own = subview gy[i, _]
        v = reshape load gx[i, 0] : i32[1, 128] : i32[128]
        atomic_add own[v & 15], full 1 : i32[128] scope cta where v != 2
    }
    mapping bins { kernel: warps 2 }";
    let compiled = check(text, &[("m", 3)], &[]);
    assert!(compiled.ptx.contains("red.relaxed.cta.global.add.s32"), "{}", compiled.ptx);
}

/// Each block multiplies what the block before it left, once its flag says so.
const CHAIN: &str =
    "kernel chain(y: ptr<f16> align 16, b: ptr<f16> align 16, flag: ptr<i32>, m: i32, k: i32 % 64) {
    grid m
    i = block_index
    gy = view y : f16[m + 1, 64, k]
    gb = view b : f16[64, k]
    gf = view flag : i32[m]
    zero = full 0.0 : f32[64, 64]
    one = full 1 : i32[1]
    prev = subview gy[i, _, _]
    next = subview gy[i + 1, _, _]
    w, c = while carry d = 0, e = 0 {
        seen = atomic_max gf[i - 1], full 0 : i32[1] : i32[1] order acquire
        s = reduce_max(seen, 0)
        yield s + select(i == 0, 1, 0) == 0, d, e + 1
    }
    acc = for t in 0..cdiv(k, 64) carry s = zero {
        ta = load prev[0, t*64] : f16[64, 64]
        tb = load gb[0, t*64] : f16[64, 64]
        yield mma s, ta, trans(tb)
    }
    store next[0, 0], cast(acc, f16)
    atomic_max gf[i], one order release
}
mapping chain { for t: pipeline 3, producers 1, consumers 1, wait 0 }";

/// An acquire orders threads, and the copies that they make. A producer would copy before it, and tensor copies would need a
/// fence behind it: only what no block writes is copied so.
#[test]
fn what_other_blocks_release_is_copied_by_threads() {
    let (kernel, mapping) = parsed(CHAIN);
    let copied = |compiled: &Compiled| {
        let map = |p: &Param| match p {
            Param::TensorMap(map) => Some(map.base.clone()),
            _ => None,
        };
        compiled.manifest.params.iter().filter_map(map).collect::<Vec<_>>()
    };
    let compiled = made(&kernel, &mapping);
    assert_eq!(copied(&compiled), ["b"]);
    assert!(compiled.ptx.contains("cp.async.cg"), "{}", compiled.ptx);
    // As many blocks as run at once: others may start in any order.
    check(CHAIN, &[("m", 2), ("k", 128)], &[("flag", Given::I32(&[0; 2]))]);
}

/// Two grouped products in one launch: tiles of the second wait until all columns of their rows are there. All programs of a
/// persistent kernel run, and each has its tiles in order; the first product's stand before the second's. So the first tile
/// that is not finished waits for none, and none waits for ever. The last one sets the counter back.
const PAIR: &str = "kernel pair(a: ptr<f16> align 16, b1: ptr<f16> align 16, b2: ptr<f16> align 16, h: ptr<f16> align 16,
    c: ptr<f16> align 16, group: ptr<i32>, first: ptr<i32>, offsets: ptr<i32>, tiles: i32, groups: i32, rows: i32,
    n: i32 % 8, k: i32 % 8) {
    nb = cdiv(n, 64)
    kb = cdiv(k, 64)
    grid tiles * (nb + kb)
    done = workspace tiles : u32
    read = workspace tiles : u32
    gd = view done : u32[tiles]
    gr = view read : u32[tiles]
    gg = view group : i32[tiles] fill -1
    gf = view first : i32[tiles]
    go = view offsets : i32[groups + 1]
    all1 = view b1 : f16[groups, n, k]
    all2 = view b2 : f16[groups, k, n]
    p = block_index
    zero = full 0.0 : f32[64, 64]
    if p < tiles * nb {
        i = p / nb
        j = p % nb
        g = load gg[i] : i32
        row = max(load gf[i] : i32, 0)
        end = min(load go[g + 1] : i32, rows)
        ga = view a : f16[rows, k]
        gb = subview all1[g, _, _]
        gc = view h : f16[select(g < 0, 0, end), n]
        acc = for t in 0..select(g < 0, 0, cdiv(k, 64)) carry x = zero {
            ta = load ga[row, t*64] : f16[64, 64]
            tb = load gb[j*64, t*64] : f16[64, 64]
            yield mma x, ta, trans(tb)
        }
        store gc[row, j*64], cast(max(acc, 0.0), f16)
        atomic_add gd[i], full 1 : u32[1] order release
    } else {
        i = (p - tiles * nb) / kb
        j = (p - tiles * nb) % kb
        g = load gg[i] : i32
        row = max(load gf[i] : i32, 0)
        end = min(load go[g + 1] : i32, rows)
        ga = view h : f16[select(g < 0, 0, end), n]
        gb = subview all2[g, _, _]
        gc = view c : f16[select(g < 0, 0, end), k]
        seen = while carry s = 0 {
            old = atomic_add gd[i], full 0 : u32[1] : u32[1] order acquire
            count = cast(reduce_sum(old, 0), i32)
            yield count < nb, count
        }
        acc = for t in 0..select(g < 0, 0, cdiv(n, 64)) carry x = zero {
            ta = load ga[row, t*64] : f16[64, 64]
            tb = load gb[j*64, t*64] : f16[64, 64]
            yield mma x, ta, trans(tb)
        }
        store gc[row, j*64], cast(acc, f16)
        last = arrive gr[i], kb
        if last {
            back = atomic_exchange gd[i], full 0 : u32[1] : u32[1]
        }
    }
}
mapping pair { for t: pipeline fit, producers 1, consumers 1, wait 0 kernel: WORDS }";

#[test]
fn a_product_waits_for_the_tiles_of_the_one_before() {
    let sizes = [("tiles", 4), ("groups", 2), ("rows", 130), ("n", 136), ("k", 72)];
    let given = [
        ("group", Given::I32(&[0, 0, -1, 1])),
        ("first", Given::I32(&[0, 64, 0, 90])),
        ("offsets", Given::I32(&[0, 90, 130])),
    ];
    for (words, producers) in [("persistent", 1), ("persistent, raster counter", 1), ("persistent", 0)] {
        let producers = format!("producers {producers}");
        let text = PAIR.replace("WORDS", words).replace("producers 1", &producers);
        let compiled = check(&text, &sizes, &given);
        assert!(compiled.ptx.contains("cp.async.cg"), "{words}: {}", compiled.ptx);
    }
}

#[test]
fn what_has_no_meaning_is_refused() {
    for (statement, why) in [
        ("atomic_add gy[0], t order acquire", "what it found, to acquire by it"),
        ("atomic_min gy[0], t order acq_rel", "what it found, to acquire by it"),
        (
            "atomic_add gy[0], t order seq_cst",
            "`seq_cst` is no order: `relaxed`, `acquire`, `release`, `acq_rel`",
        ),
        ("atomic_add gy[0], t scope block", "`block` is no scope: `cta`, `cluster`, `gpu`, `sys`"),
        ("store gy[0], t order release", "`store` has no scope and no order"),
        ("u = load gy[0] : i32[4] order acquire", "`load` has no scope and no order"),
    ] {
        let text = format!(
            "kernel f(y: ptr<i32>) {{ grid 1 gy = view y : i32[4] t = full 1 : i32[4] {statement} }}"
        );
        let error = parse_file(&text, "f.tile").expect_err(&text).to_string();
        assert!(error.contains(why), "{statement}: {error}");
    }
    let text = "kernel f(y: ptr<i32>) {
        grid 1
        gy = view y : i32[4]
        t = full 1 : i32[4]
        o = atomic_exchange gy[0], t : i32[4] scope cluster order acq_rel where t == 1
        atomic_add gy[0], o order release
        order = t + o
        store gy[0], order
    }";
    let printed = parse_file(text, "f.tile").unwrap().kernels[0].to_string();
    assert!(printed.contains(" : i32[4] scope cluster order acq_rel where "), "{printed}");
    assert_eq!(parse_file(&printed, "f.tile").unwrap().kernels[0].to_string(), printed);
}

/// Updates of one kind commute. Others, and those whose result somebody takes, come behind what other threads updated before.
#[test]
fn updates_of_several_kinds_keep_their_order() {
    let text =
        "kernel ordered(x: ptr<i32> align 16, y: ptr<i32> align 16, z: ptr<i32>, w: ptr<i32>, n: i32) {
        grid 2
        gx = view x : i32[n] fill -1
        gy = view y : i32[2, 64]
        gz = view z : i32[2, 64]
        gw = view w : i32[2, 64]
        i = block_index
        own = subview gy[i, _]
        at = load gx[i*256] : i32[256]
        one = full 1 : i32[256]
        atomic_add own[at], one
        line = iota 0 : i32[64]
        atomic_max own[line], full 5 : i32[64]
        atomic_max own[0], full 6 : i32[64] where line < 64
        atomic_add own[line], line order release where line < 64
        store gz[i, 0], expand_dims(atomic_add own[63 - line], line : i32[64], 0)
        store gw[i, 0], expand_dims(load own[0] : i32[64], 0)
    }
    mapping ordered { kernel: warps 4 }";
    let x: Vec<i32> = (0..512).map(|i| i * 37 % 73 - 3).collect();
    check(text, &[("n", 512)], &[("x", Given::I32(&x))]);
}

/// Copies run ahead of iterations. Where each iteration acquires anew, threads load what was released; so they do where the
/// block stored some of it before.
#[test]
fn copies_run_ahead_of_no_acquire() {
    let each = "kernel each(a: ptr<f16> align 16, b: ptr<f16> align 16, flag: ptr<i32>, c: ptr<f16> align 16, y: ptr<f16> align 16, m: i32) {
    grid 2
    half = block_index
    ga = view a : f16[m, 64]
    gb = view b : f16[64, 64]
    gf = view flag : i32[cdiv(m,64)]
    gc = view c : f16[m, 64]
    gy = view y : f16[64, 64]
    zero = full 0.0 : f32[64, 64]
    one = full 1 : i32[1]
    if half == 0 {
        for i in 0..cdiv(m, 64) {
            store gc[i*64, 0], (load ga[i*64, 0] : f16[64, 64]) * 2.0
            atomic_max gf[i], one order release
        }
    } else {
        s2 = for u in 0..cdiv(m, 64) carry s = zero {
            w = while carry d = 0 {
                seen = atomic_max gf[u], full 0 : i32[1] : i32[1] order acquire
                s0 = reduce_max(seen, 0)
                yield (s0 == 0), d
            }
            ta = load gc[u*64, 0] : f16[64, 64]
            tb = load gb[0, 0] : f16[64, 64]
            yield mma s, ta, trans(tb)
        }
        store gy[0, 0], cast(s2, f16)
    }
}
mapping each { for u: pipeline 3, producers 1, consumers 1 }";
    let compiled = check(each, &[("m", 128)], &[("flag", Given::I32(&[0, 0]))]);
    assert!(!compiled.ptx.contains("cp.async.c"), "{}", compiled.ptx);
    let own = "kernel own_part(b: ptr<f16> align 16, flag: ptr<i32>, c: ptr<f16> align 16, y: ptr<f16> align 16, m: i32) {
    grid 2
    i = block_index
    gb = view b : f16[64, 64]
    gf = view flag : i32[2]
    gc = view c : f16[2, 64, 64]
    gy = view y : f16[2, 64, 64]
    own = subview gc[i, _, _]
    oy = subview gy[i, _, _]
    zero = full 0.0 : f32[64, 64]
    z = full 1 : i32[1]
    store own[0, 0], (load gb[0, 0] : f16[64, 64]) * 2.0
    x = atomic_add gf[i], z : i32[1] order acq_rel
    s2 = for u in 0..2 carry s = zero {
        ta = load own[0, u*32] : f16[64, 32]
        tb = load gb[0, u*32] : f16[64, 32]
        yield mma s, ta, trans(tb)
    }
    store oy[0, 0], cast(s2, f16)
}
mapping own_part { for u: pipeline 2, producers 1, consumers 1 }";
    check(own, &[("m", 128)], &[("flag", Given::I32(&[0, 0]))]);
}
