//! Products of computed operands: right operands, which stand in shared memory, and left operands that a loop does not
//! change. Compiled for both kinds of tensor cores, simulated without hazard under two orders, compared with the
//! interpreter.

use warplift::ir::machine::RingFill;
use warplift::ir::target::SM90A;
use warplift::ir::tile::{Kernel, Mapping, parse_file};
use warplift::{Compiled, Options, compile};
use warplift_golden::library::reference;
use warplift_golden::orders::{FEW_ORDERS, right};

/// Linear attention in chunks: a state that grows by `K^T V` is the right operand of the next chunk's queries.
const LINEAR: &str = "
    kernel linear(
        q: ptr<bf16> align 16, k: ptr<bf16> align 16, v: ptr<bf16> align 16, o: ptr<bf16> align 16,
        heads: i32, length: i32
    ) {
        tunable C = 64, D = 64
        grid heads
        head = block_index
        all_q = view q : bf16[heads, length, D]
        all_k = view k : bf16[heads, length, D]
        all_v = view v : bf16[heads, length, D]
        all_o = view o : bf16[heads, length, D]
        gq = subview all_q[head, _, _]
        gk = subview all_k[head, _, _]
        gv = subview all_v[head, _, _]
        go = subview all_o[head, _, _]
        empty = full 0.0 : f32[D, D]
        zero = full 0.0 : f32[C, C]
        none = full 0.0 : f32[C, D]
        last = for t in 0..cdiv(length, C) carry state = empty {
            tq = load gq[t*C, 0] : bf16[C, D]
            tk = load gk[t*C, 0] : bf16[C, D]
            tv = load gv[t*C, 0] : bf16[C, D]
            scores = mma zero, tq, trans(tk)
            past = (iota 1 : i32[C, C]) <= (iota 0 : i32[C, C])
            before = mma none, tq, cast(state, bf16)
            all = mma before, cast(select(past, scores, 0.0), bf16), tv
            store go[t*C, 0], cast(all, bf16)
            next = mma state, trans(tk), tv
            yield next
        }
    }";

/// `dS^T Q` where `dS = P (dP - 1/4)`, and a product of two computed operands, of which the right one is also stored.
const BOTH: &str = "
    kernel both(
        p: ptr<bf16> align 16, d: ptr<bf16> align 16, q: ptr<bf16> align 16, o: ptr<bf16> align 16,
        r: ptr<bf16> align 16, m: i32 % 8, n: i32 % 8
    ) {
        tunable BM = 64, BN = 128, D = 64
        grid cdiv(n, BN)
        j = block_index
        gp = view p : bf16[m, n]
        gd = view d : bf16[m, n]
        gq = view q : bf16[m, D]
        go = view o : bf16[n, D]
        gr = view r : bf16[m, D]
        none = full 0.0 : f32[BN, D]
        acc = for t in 0..cdiv(m, BM) carry x = none {
            tp = cast(load gp[t*BM, j*BN] : bf16[BM, BN], f32)
            td = cast(load gd[t*BM, j*BN] : bf16[BM, BN], f32)
            tq = max(load gq[t*BM, 0] : bf16[BM, D], 0.0)
            if j == 0 {
                store gr[t*BM, 0], tq
            }
            y = mma x, trans(cast(tp * (td - 0.25), bf16)), tq
            yield y
        }
        store go[j*BN, 0], cast(acc, bf16)
    }";

/// `C = A (B s)`, B contiguous along columns or along its depth.
const SCALED: &str = "
    kernel scaled(
        a: ptr<f16> align 16, b: ptr<f16> align 16, s: ptr<f16> align 16, c: ptr<f16> align 16,
        m: i32 % 8, n: i32 % 8, k: i32 % 8
    ) {
        tunable BM = 64, BN = 64, BK = 32
        grid cdiv(m, BM), cdiv(n, BN)
        i, j = block_index
        ga = view a : f16[m, k]
        gb = view b : f16[k, n]
        gs = view s : f16[n]
        gc = view c : f16[m, n]
        none = full 0.0 : f32[BM, BN]
        ts = load gs[j*BN] : f16[BN]
        acc = for t in 0..cdiv(k, BK) carry x = none {
            ta = load ga[i*BM, t*BK] : f16[BM, BK]
            tb = (load gb[t*BK, j*BN] : f16[BK, BN]) * expand_dims(ts, 0)
            y = mma x, ta, tb
            yield y
        }
        store gc[i*BM, j*BN], cast(acc, f16)
    }";
const DOWN: [(&str, &str); 2] =
    [("view b : f16[k, n]", "view b : f16[k, n] strides [1, k]"), ("BK = 32", "BK = 64")];

/// A left operand that the loop over columns leaves alone, in parts of its depth.
const STAYS: &str = "
    kernel stays(
        a: ptr<f16> align 16, b: ptr<f16> align 16, c: ptr<f16> align 16, m: i32 % 8, n: i32 % 8
    ) {
        tunable BM = 64, BN = 64, K = 128
        grid cdiv(m, BM)
        i = block_index
        ga = view a : f16[m, K]
        gb = view b : f16[n, K]
        gc = view c : f16[m, n]
        none = full 0.0 : f32[BM, BN]
        ta = cast(cast(load ga[i*BM, 0] : f16[BM, K], f32) * 0.5, f16)
        left = slice(ta, [0, 0]) : f16[BM, K/2]
        right = slice(ta, [0, K/2]) : f16[BM, K/2]
        for t in 0..cdiv(n, BN) {
            tb = load gb[t*BN, 0] : f16[BN, K]
            low = mma none, left, trans(slice(tb, [0, 0]) : f16[BN, K/2])
            all = mma low, trans(right, [0, 1]), trans(slice(tb, [0, K/2]) : f16[BN, K/2])
            store gc[i*BM, t*BN], cast(all, f16)
        }
    }";

/// What stays is made of indices, of one number, or transposed by no more than its name.
const MADE: &str = "
    kernel made(b: ptr<f16> align 16, c: ptr<f16> align 16, m: i32 % 8, n: i32 % 8) {
        tunable BM = 64, BN = 64, K = 64
        grid cdiv(m, BM)
        i = block_index
        gb = view b : f16[n, K]
        gc = view c : f16[m, n]
        none = full 0.0 : f32[BM, BN]
        lower = select((iota 0 : i32[BM, K]) + i >= (iota 1 : i32[BM, K]), 1.0, 0.0)
        ta = LEFT
        for t in 0..cdiv(n, BN) {
            tb = load gb[t*BN, 0] : f16[BN, K]
            s = mma none, trans(ta, [0, 1]), trans(tb)
            store gc[i*BM, t*BN], cast(s, f16)
        }
    }";

/// Both parts of a complex product, and what a product leaves of the sums.
const SIGNED: &str = "
    kernel signed(
        a: ptr<f16> align 16, b: ptr<f16> align 16, c: ptr<f32> align 16, d: ptr<f32> align 16,
        m: i32, n: i32 % 16, k: i32 % 16
    ) {
        tunable BM = 64, BN = 64, BK = 64
        grid cdiv(m, BM), cdiv(n, BN)
        i, j = block_index
        ga = view a : f16[2, m, k]
        gb = view b : f16[2, n, k]
        gc = view c : f32[m, n]
        gd = view d : f32[m, n]
        are = subview ga[0, _, _]
        aim = subview ga[1, _, _]
        bre = subview gb[0, _, _]
        bim = subview gb[1, _, _]
        zero = full 0.0 : f32[BM, BN]
        re, im = for t in 0..cdiv(k, BK) carry x = zero, y = zero {
            tar = load are[i*BM, t*BK] : f16[BM, BK]
            tai = load aim[i*BM, t*BK] : f16[BM, BK]
            tbr = load bre[j*BN, t*BK] : f16[BN, BK]
            tbi = load bim[j*BN, t*BK] : f16[BN, BK]
            x1 = mma x, tar, trans(tbr)
            x2 = mma x1, tai, trans(-tbi)
            y1 = mma y, tar, trans(tbi)
            y2 = y1 - mma(zero, -tai, trans(tbr))
            yield x2, y2
        }
        store gc[i*BM, j*BN], re
        store gd[i*BM, j*BN], im
    }";

/// A text under a mapping.
fn parsed(text: &str, change: &[(&str, &str)], mapping: &str) -> (Kernel, Mapping) {
    let text = change.iter().fold(text.to_owned(), |t, (from, to)| {
        assert!(t.contains(from), "no `{from}`");
        t.replace(from, to)
    });
    let name = &text[text.find("kernel ").expect("a kernel") + 7..];
    let name = name.split('(').next().expect("a name");
    let text = format!("{text} mapping {name} {{ {mapping} }}");
    let module = parse_file(&text, "operands").unwrap_or_else(|e| panic!("{e:?}\n{text}"));
    (module.kernels[0].clone(), module.mappings[0].clone())
}

fn compiled((kernel, mapping): &(Kernel, Mapping)) -> Compiled {
    let options = Options { verify: true, ..Options::default() };
    compile(kernel, mapping, &SM90A, &options).unwrap_or_else(|e| panic!("{mapping}: {e}"))
}

fn check(kernel: &(Kernel, Mapping), sizes: &[&[(&str, i64)]], tolerance: f64) {
    let made = compiled(kernel);
    for size in sizes {
        let problem = reference(&kernel.0, &kernel.1, size, 5);
        right(&problem, &made, &FEW_ORDERS, (2, tolerance), &format!("{size:?}"));
    }
}

const GROUP: &str = "for t: pipeline fit, producers 1, consumers 1";
const GROUPS: &str = "for t: pipeline fit, producers 1, consumers 2";
const WARPS: &str = "kernel: warps 4, products mma_sync";

#[test]
fn a_carried_state() {
    let sizes: [&[(&str, i64)]; 2] = [&[("heads", 2), ("length", 200)], &[("heads", 1), ("length", 1)]];
    for mapping in [GROUP, WARPS, "for t: producers 0, consumers 1"] {
        check(&parsed(LINEAR, &[], mapping), &sizes, 4e-2);
    }
}

#[test]
fn two_computed_operands() {
    let sizes: [&[(&str, i64)]; 2] = [&[("m", 200), ("n", 136)], &[("m", 8), ("n", 8)]];
    for mapping in [GROUPS, WARPS, "kernel: persistent"] {
        check(&parsed(BOTH, &[], mapping), &sizes, 4e-2);
    }
}

#[test]
fn right_operands_that_are_scaled() {
    let sizes: [&[(&str, i64)]; 2] = [&[("m", 72), ("n", 136), ("k", 200)], &[("m", 8), ("n", 8), ("k", 8)]];
    for mapping in [GROUP, WARPS] {
        check(&parsed(SCALED, &[], mapping), &sizes, 1e-3);
        check(&parsed(SCALED, &DOWN, mapping), &sizes, 1e-3);
    }
}

#[test]
fn left_operands_that_stay() {
    let sizes: [&[(&str, i64)]; 2] = [&[("m", 200), ("n", 264)], &[("m", 8), ("n", 8)]];
    for mapping in [GROUP, "for t: pipeline fit, producers 1, consumers 1 kernel: persistent"] {
        check(&parsed(STAYS, &[], mapping), &sizes, 1e-3);
    }
}

/// Products of loaded tiles take signs in the instruction: no thread touches an operand.
#[test]
fn signs_of_operands() {
    let sizes: [&[(&str, i64)]; 2] = [&[("m", 72), ("n", 80), ("k", 208)], &[("m", 1), ("n", 16), ("k", 16)]];
    for elem in ["f16", "bf16", "tf32", "f8e4m3", "f8e5m2"] {
        let case = parsed(&SIGNED.replace("f16", elem), &[], GROUP);
        let ptx = compiled(&case).ptx;
        assert!(ptx.contains(", -1, 1") && !ptx.contains("neg."), "{ptx}");
        check(&case, &sizes, 1e-3);
    }
    check(&parsed(SIGNED, &[], WARPS), &sizes, 1e-3);
    check(&parsed(&SIGNED.replace("f16", "bf16"), &[], WARPS), &sizes, 1e-3);
}

/// Operands of 8 bits may differ in type.
#[test]
fn operands_of_two_types() {
    let sizes: [&[(&str, i64)]; 2] = [&[("m", 72), ("n", 80), ("k", 208)], &[("m", 1), ("n", 16), ("k", 16)]];
    let right = |elem: &str| SIGNED.replace("b: ptr<f16>", &format!("b: ptr<{elem}>"));
    let right = |elem: &str| right(elem).replace("view b : f16", &format!("view b : {elem}"));
    let right = |elem: &str| right(elem).replace("f16[BN", &format!("{elem}[BN"));
    for (left, other) in [("f8e4m3", "f8e5m2"), ("f8e5m2", "f8e4m3")] {
        let case = parsed(&right(other).replace("f16", left), &[], GROUP);
        let ptx = compiled(&case).ptx;
        assert!(ptx.contains(&format!(".f32.{}.{} ", &left[2..], &other[2..])), "{ptx}");
        check(&case, &sizes, 1e-3);
    }
    for (left, other) in [("i8", "u8"), ("u8", "i8")] {
        let integers = right(other).replace("f16", left).replace("f32", "i32").replace("0.0", "0");
        let integers = integers.replace("-t", "t");
        check(&parsed(&integers, &[], GROUP), &sizes, 0.0);
    }
}

#[test]
fn operands_that_nothing_loads() {
    for left in ["cast(lower, f16)", "full 1.0 : f16[BM, K]", "cast(lower * 2.0, f16)"] {
        for mapping in [GROUP, WARPS] {
            let case = parsed(MADE, &[("LEFT", left)], mapping);
            check(&case, &[&[("m", 136), ("n", 136)], &[("m", 8), ("n", 8)]], 1e-3);
        }
    }
}

/// What nobody asks for does not make a kernel impossible: deep rings leave no room for it, teams in turn no meeting.
#[test]
fn detours_give_way() {
    let text = SCALED.replace("y = mma x, ta, tb", "y = mma x, ta * 2.0, tb");
    let text = text.replace(" * expand_dims(ts, 0)", "").replace("BK = 32", "BK = 128");
    let deep = "for t: pipeline 6, producers 1, consumers 1";
    check(&parsed(&text, &[], deep), &[&[("m", 72), ("n", 136), ("k", 400)]], 1e-3);
    let wide = [
        (
            "cast(cast(load ga[i*BM, 0] : f16[BM, K], f32) * 0.5, f16)",
            "(load ga[i*BM, 0] : f16[BM, K]) * 0.5",
        ),
        ("K = 128", "K = 512"),
    ];
    let deep = "for t: pipeline 3, producers 1, consumers 1";
    let remarks = compiled(&parsed(STAYS, &wide, deep)).explained.schedule.remarks;
    assert!(remarks.iter().any(|r| r.starts_with("`smem-staging` turned off: ")), "{remarks:?}");
    check(&parsed(STAYS, &wide, deep), &[&[("m", 72), ("n", 136)]], 1e-2);
}

/// Keys are computed on in every iteration, which its softmax and both products overlap.
#[test]
fn a_loop_that_fills_an_operand_is_overlapped() {
    let text = include_str!("../../driver/kernels/attention.tile");
    let (text, _) = text.split_once("mapping attention").expect("a mapping");
    let change = [("tk = load gk[first, 0] : bf16[BN, D]", "tk = (load gk[first, 0] : bf16[BN, D]) * 0.5")];
    for (width, kernel) in [(96, ""), (64, "kernel: persistent")] {
        let mapping = format!("BM = 128, BN = {width}, D = 64 {GROUPS} {kernel}");
        let case = parsed(text, &change, &mapping);
        let made = compiled(&case);
        assert!(made.explained.schedule.loops[0].pipelined, "{:?}", made.explained.schedule.remarks);
        let sizes = |keys: i64| [("batch", 1), ("heads", 3), ("queries", 130), ("keys", keys)];
        let keys = [1, width, 2 * width, 3 * width - 1, 5 * width + 7];
        let all: Vec<_> = keys.iter().map(|&k| sizes(k)).collect();
        check(&case, &all.iter().map(|s| &s[..]).collect::<Vec<_>>(), 2e-2);
    }
}

/// What a loop only reads is shown to all before it: no barrier of all threads stands in the loop.
#[test]
fn what_stays_is_shown_once() {
    let made = compiled(&parsed(STAYS, &[], GROUP));
    let product = made.ptx.find("wgmma.mma_async").expect("a product");
    let head = made.ptx[..product].rfind(".pragma \"nounroll\"").expect("a loop around it");
    let meets = |text: &str| ["fence.proxy.async", "bar.sync"].map(|what| text.contains(what));
    assert_eq!(meets(&made.ptx[..head]), [true; 2], "before the loop");
    assert_eq!(meets(&made.ptx[head..product]), [false; 2], "in it, before its first product");
}

/// A product whose right operand threads convert.
const CONVERTED: &str = "
    kernel product(a: ptr<f16> align 16, b: ptr<i8> align 16, c: ptr<f16> align 16, m: i32, n: i32 % 16, k: i32 % 16) {
        tunable BM = 64, BN = 96, BK = 64
        grid cdiv(m, BM), cdiv(n, BN)
        ga = view a : f16[m, k]
        gb = view b : i8[n, k]
        gc = view c : f16[m, n]
        i, j = block_index
        zero = full 0.0 : f32[BM, BN]
        acc = for t in 0..cdiv(k, BK) carry x = zero {
            ta = load ga[i*BM, t*BK] : f16[BM, BK]
            tb = cast(load gb[j*BN, t*BK] : i8[BN, BK], f16)
            yield mma x, ta, trans(tb)
        }
        store gc[i*BM, j*BN], cast(acc * 0.25, f16)
    }";

/// A right operand that threads convert has a ring, and is converted for the next iteration while products run.
#[test]
fn operands_that_threads_compute_have_a_ring() {
    let both = [
        ("a: ptr<f16>", "a: ptr<i8>"),
        ("view a : f16", "view a : i8"),
        ("load ga[i*BM, t*BK] : f16[BM, BK]", "cast(load ga[i*BM, t*BK] : i8[BM, BK], f16)"),
    ];
    let words = "BM = 128, BN = 256 for t: pipeline fit, producers 1, consumers 4 kernel: persistent";
    let kernel = parsed(CONVERTED, &both, words);
    let explained = compiled(&kernel).explained;
    let ring = explained.schedule.rings.values().find(|r| r.fill == RingFill::Operand);
    assert_eq!(ring.map(|r| r.least), Some(2), "it is not filled an iteration ahead");
    let sizes = [[128, 128, 64], [200, 272, 208], [130, 16, 16], [64, 64, 0], [128, 144, 1040]];
    let sizes = sizes.map(|[m, n, k]| [("m", m), ("n", n), ("k", k)]);
    check(&kernel, &sizes.each_ref().map(|s| &s[..]), 1e-3);
}

/// A product reads its left operand as it lies and the right one converted, and both have come by one copy's barrier: the work on one
/// may not move ahead without the other.
#[test]
fn operands_of_one_wait_stay_together() {
    let sizes = [[64, 96, 64], [100, 112, 400], [70, 16, 0], [64, 96, 1040]];
    let sizes = sizes.map(|[m, n, k]| [("m", m), ("n", n), ("k", k)]);
    for consumers in 1..=2 {
        let words =
            format!("BM = {} for t: pipeline fit, producers 1, consumers {consumers}", 64 * consumers);
        check(&parsed(CONVERTED, &[], &words), &sizes.each_ref().map(|s| &s[..]), 1e-3);
    }
}
