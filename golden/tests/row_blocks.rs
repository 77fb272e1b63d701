//! Sums of products that begin anew in every iteration, of more rows than an instruction of each warpgroup has, in many wordings: as emitted, in the simulator against
//! the interpreter. Where rows do not meet, products have the rows of one instruction.

use warplift_golden::described::check;

const SIZES: [(&str, i64); 3] = [("m", 264), ("n", 72), ("k", 136)];

const LOAD: &str = "ta = load ga[i*256, t*64] : f16[256, 64]";
const SUM: &str = "yield x + p * trans(row)";
const STORE: &str = "store gc[i*256, j*104], cast(acc, f16)";

/// A product of 264 x 72 by 136 in blocks of 256 rows, whose partial products are scaled by row.
fn text(changes: &[(&str, &str)]) -> String {
    let plain = format!(
        "kernel scaled(a: ptr<f16> align 16, b: ptr<f16> align 16, s: ptr<f32> align 16, c: ptr<f16> align 16,
                       d: ptr<f32> align 16, m: i32 % 8, n: i32 % 8, k: i32 % 8) {{
            grid cdiv(m, 256), cdiv(n, 104)
            ga = view a : f16[m, k]
            gb = view b : f16[n, k]
            gs = view s : f32[cdiv(k, 64), m]
            gc = view c : f16[m, n]
            gd = view d : f32[m, n]
            i, j = block_index
            zero = full 0.0 : f32[256, 104]
            acc = for t in 0..cdiv(k, 64) carry x = zero {{
                {LOAD}
                tb = load gb[j*104, t*64] : f16[104, 64]
                row = load gs[t, i*256] : f32[1, 256]
                p = mma zero, ta, trans(tb)
                {SUM}
            }}
            {STORE}
        }}
        mapping scaled {{ for t: pipeline 2, producers 1, consumers 2 }}"
    );
    changes.iter().fold(plain, |text, (from, to)| {
        assert!(text.contains(from), "{from}");
        text.replace(from, to)
    })
}

/// Instructions of tensor cores in a group, in PTX that is right in all orders.
fn together(changes: &[(&str, &str)]) -> usize {
    let ptx = check(&text(changes), &SIZES, &[""]);
    let of = |what: &str| ptx.lines().filter(|l| l.contains(what)).count();
    of("wgmma.mma_async") / of("wgmma.commit_group")
}

/// Steps of 64 columns of K: one instruction each for every 64 rows of a warpgroup.
const STEPS: usize = 4;

#[test]
fn sums_are_cut_whatever_is_made_of_them() {
    let stored = format!("{STORE} store gd[i*256, j*104], acc");
    let columns = [("ga = view a : f16[m, k]", "ga = view a : f16[k, m]")];
    let turned = [(LOAD, "ta = trans(load ga[t*64, i*256] : f16[64, 256])")];
    for changes in [
        vec![],
        vec![(SUM, "yield max(x, p)")],
        vec![(SUM, "yield select(p > 0.0, x + p, x)")],
        vec![(STORE, "store gc[i*256, j*104], cast(max(acc, 0.0), f16)")],
        vec![(STORE, "store gc[i*256, j*104], cast(acc + cast(iota 0 : i32[256, 104], f32), f16)")],
        vec![(STORE, "store gc[i*256, j*104], cast(acc * trans(load gs[0, i*256] : f32[1, 256]), f16)")],
        vec![(STORE, stored.as_str())],
        vec![(STORE, "atomic_add gd[i*256, j*104], acc")],
        [columns, turned].concat(),
    ] {
        assert_eq!(together(&changes), STEPS, "{changes:?}");
    }
    assert_eq!(together(&[("consumers 2", "consumers 2, split_k 2")]), STEPS);
}

/// Sums and products of 64 columns fit beside each other.
#[test]
fn what_fits_stays_whole() {
    let narrow = [
        ("[256, 104]", "[256, 64]"),
        ("[104, 64]", "[64, 64]"),
        ("j*104", "j*64"),
        ("cdiv(n, 104)", "cdiv(n, 64)"),
    ];
    assert_eq!(together(&narrow), 2 * STEPS);
}

#[test]
fn sums_whose_rows_meet_stay_whole_and_right() {
    let sums = "yield x + p + expand_dims(reduce_sum(p, 0), 0)";
    let branch = "y = if t % 2 == 0 { yield x + p } else { yield x }  yield y";
    let twice =
        format!("acc2 = for u in 0..2 carry y = acc {{ yield y * 2.0 }} {}", STORE.replace("acc", "acc2"));
    let place = "store gc[i*256, j*104], cast(acc, f16) + load gc[i*256, j*104] : f16[256, 104]";
    let either = format!("if i > 0 {{ {STORE} }} else {{ {} }}", STORE.replace("acc", "acc * 2.0"));
    let reduced = "store gc[i*256, j*104], cast(acc - expand_dims(reduce_sum(acc, 0), 0), f16)";
    for change in
        [(SUM, sums), (SUM, branch), (STORE, &twice), (STORE, place), (STORE, &either), (STORE, reduced)]
    {
        assert_eq!(together(&[change]), 2 * STEPS, "{change:?}");
    }
}

/// A loop whose results leave another block whole stays whole.
#[test]
fn a_loop_in_a_branch_is_right() {
    let plain = text(&[]);
    let (from, to) = (plain.find("acc = for").expect("the loop"), plain.find(STORE).expect("the store"));
    let looped = plain[from..to].trim_end().trim_start_matches("acc = ");
    let nest = format!("acc = if m > 3 {{ r = {looped}  yield r }} else {{ yield zero }} ");
    check(&format!("{}{nest}{}", &plain[..from], &plain[to..]), &SIZES, &[""]);
}

/// Two stores as far apart as the first is high need no order, however their places are written.
#[test]
fn parts_of_a_tile_are_stored_by_tensor_copies() {
    let halves = |second: &str| {
        let text = format!(
            "kernel halves(a: ptr<f16> align 16, b: ptr<f16> align 16, c: ptr<f16> align 16, m: i32, n: i32 % 8, k: i32 % 8) {{
                grid cdiv(m, 128), cdiv(n, 64)
                ga = view a : f16[m, k]  gb = view b : f16[n, k]  gc = view c : f16[m, n]
                i, j = block_index
                zero = full 0.0 : f32[64, 64]
                x, y = for t in 0..cdiv(k, 64) carry x = zero, y = zero {{
                    tb = trans(load gb[j*64, t*64] : f16[64, 64])
                    yield mma x, load ga[i*2*64, t*64] : f16[64, 64], tb,
                          mma y, load ga[i*2*64 + 64, t*64] : f16[64, 64], tb
                }}
                store gc[i*2*64, j*64], cast(x, f16)
                store gc[{second}, j*64], cast(y, f16)
            }}
            mapping halves {{ for t: pipeline 2, producers 1, consumers 1 }}"
        );
        let ptx = check(&text, &[("m", 200), ("n", 72), ("k", 72)], &[""]);
        ptx.lines().filter(|l| l.contains("cp.async.bulk.tensor") && l.contains("global.shared::cta")).count()
    };
    assert_eq!(halves("i*2*64 + 64"), 2);
    assert_eq!(halves("64*(2*i + 1)"), 2);
    assert_eq!(halves("i*128 + 32 + 32"), 2);
    assert_eq!(halves("i*2*64 + 63"), 0, "a row that both write");
}
