//! Loops that a mask leaves nothing of at one end, in several wordings, and others that only look like them: as emitted, in the
//! simulator against the interpreter. The first are shorter, the others as they are without the feature.

use warplift::ir::target::SM90A;
use warplift::ir::tile::{Kernel, Mapping};
use warplift::sim::{self, Adversary};
use warplift::{Compiled, Feature, Options, compile};
use warplift_golden::described::check;
use warplift_golden::given::parsed;
use warplift_golden::library::reference;

/// Results are rounded to 16 bits, probabilities too.
const TOLERANCE: f64 = 2e-2;

/// What differs among texts of attention.
#[derive(Clone, Copy)]
struct Text {
    looped: &'static str,
    first: &'static str,
    low: &'static str,
    scores: &'static str,
    base: &'static str,
}

const PLAIN: Text = Text {
    looped: "for t in 0..cdiv(keys, 64)",
    first: "t*64",
    low: "-1.0e30",
    scores: "select(column <= row, s * scale, -inf)",
    base: "m1",
};

fn text(t: Text) -> String {
    let Text { looped, first, low, scores, base } = t;
    let counter = looped.split(' ').nth(1).expect("a loop has a counter");
    format!(
        "kernel causal(q: ptr<f16> align 16, k: ptr<f16> align 16, v: ptr<f16> align 16, o: ptr<f16> align 16,
                       queries: i32, keys: i32, width: i32, scale: f32) {{
            grid cdiv(queries, 64)
            gq = view q : f16[queries, 64]  gk = view k : f16[keys, 64]
            gv = view v : f16[keys, 64]     go = view o : f16[queries, 64]
            i = block_index
            tq = load gq[i*64, 0] : f16[64, 64]
            low = full {low} : f32[64]
            none = full 0.0 : f32[64]
            zero = full 0.0 : f32[64, 64]
            row = (iota 0 : i32[64, 64]) + i*64
            m, l, acc = {looped} carry m0 = low, l0 = none, acc0 = zero {{
                first = {first}
                s = mma zero, tq, trans(load gk[first, 0] : f16[64, 64])
                column = (iota 1 : i32[64, 64]) + first
                x = {scores}
                m1 = max(m0, reduce_max(x, 1))
                base = {base}
                p = exp2(x - expand_dims(base, 1))
                alpha = exp2(m0 - base)
                tv = load gv[first, 0] : f16[64, 64]
                yield m1, l0 * alpha + reduce_sum(p, 1), mma acc0 * expand_dims(alpha, 1), cast(p, f16), tv
            }}
            store go[i*64, 0], cast(acc / expand_dims(max(l, 1.0e-30), 1), f16)
        }}
        mapping causal {{ for {counter}: pipeline 2, producers 1, consumers 1  kernel: persistent }}"
    )
}

fn made((kernel, mapping): &(Kernel, Mapping), disable: &[Feature]) -> Compiled {
    let options = Options { verify: true, disable: disable.to_vec(), ..Options::default() };
    compile(kernel, mapping, &SM90A, &options).unwrap_or_else(|e| panic!("{e}"))
}

/// Whether the loop of a text is shorter with the feature. Its results are checked with it.
fn is_shorter(t: Text) -> bool {
    is_shorter_text(&text(t))
}

fn is_shorter_text(text: &str) -> bool {
    let case = parsed(text);
    let made_short = made(&case, &[]);
    for (queries, keys, width) in [(130, 200, 70), (200, 130, 10), (1, 300, 1), (65, 64, 64)] {
        let sizes = [("queries", queries), ("keys", keys), ("width", width)];
        let problem = reference(&case.0, &case.1, &sizes, 3);
        for order in [Adversary::Latest, Adversary::Random] {
            let options = sim::Options { order, ..sim::Options::default() };
            let run = problem.simulate(&made_short.ptx, &made_short.manifest, &options, 2);
            let (have, report) = run.unwrap_or_else(|e| panic!("{sizes:?} {order:?}: {e}"));
            assert!(report.hazards.is_empty(), "{sizes:?} {order:?}: {:?}", report.hazards);
            let off = problem.difference_beyond(&have, TOLERANCE);
            assert_eq!(off, None, "{sizes:?} {order:?}: {text}");
        }
    }
    is_changed(&case)
}

/// Whether the feature changes what is emitted.
fn is_changed(case: &(Kernel, Mapping)) -> bool {
    let feature: Feature = "skip-masked".parse().expect("a feature");
    made(case, &[]).ptx != made(case, &[feature]).ptx
}

#[test]
fn iterations_that_a_mask_leaves_nothing_of_are_left_out() {
    let safe = Text { low: "-inf", base: "select(m1 == -inf, 0.0, m1)", ..PLAIN };
    let scores = |scores| Text { scores, ..PLAIN };
    for t in [
        PLAIN,
        Text { low: "-inf", ..PLAIN },
        Text { first: "(cdiv(keys, 64) - 1 - t)*64", ..PLAIN },
        Text { looped: "for f in 0..keys step 64", first: "f", ..PLAIN },
        Text { scores: "select((column <= row) & (column > row - width), s, -inf)", ..safe },
        Text { scores: "select(column > row + (keys - queries), -inf, s)", ..safe },
        scores("select((column <= row) | (column < width), s, -inf)"),
        scores("select(!(row - column < 0), select(column < keys, s, -inf), -inf)"),
        scores("s * scale + select(column <= row, 0.0, -inf)"),
        scores(
            "select(expand_dims((iota 0 : i32[64]) + i*64, 1) >= column, s + cast(column - row, f32) * 0.1, -inf)",
        ),
        scores("select(column <= row, 20.0 * tanh(s * 0.05), -inf)"),
    ] {
        assert!(is_shorter(t), "{}", text(t));
    }
}

#[test]
fn other_masks_and_loops_stay() {
    for scores in [
        // A number of this size is no mask's.
        "select(column <= row, s, -100.0)",
        // Scores are added to the number.
        "s + select(column <= row, 0.0, -1.0e9)",
        // Both sides may wrap around.
        "select(column + width <= row + width, s, -inf)",
        "select(column % 3 != 1, s, -inf)",
        "select(column + row >= 0, s, -inf)",
        "s * scale",
    ] {
        assert!(!is_shorter(Text { scores, ..PLAIN }), "{scores}");
    }
    // A row without keys in the first block stays NaN in this text.
    let window = Text { scores: "select(column > row - width, s, -inf)", low: "-inf", ..PLAIN };
    assert!(!is_changed(&parsed(&text(window))));
}

#[test]
fn magnitudes_extremes_and_equality_bound_masks() {
    for mask in [
        "abs(row - column) <= width",
        "width >= abs(column - row)",
        "column <= min(row, keys - 3)",
        "column < max(row - width, 5)",
        "(column >= min(max(row - width, 0), keys - 2*width - 1)) & (column <= min(max(row - width, 0), keys - 2*width - 1) + 2*width)",
        "column == row",
        "!(column != row + 3)",
        // Both sides are large: the loop runs as it is written.
        "abs(column + 2147483000) <= 2147483100",
        "row / 32 == column / 32",
        "(row >> 5) >= (column >> 5)",
        "expand_dims(((iota 0 : i32[64]) + i*64) / 48, 1) == column / 48",
    ] {
        let scores: &str = Box::leak(format!("select({mask}, s, -inf)").into_boxed_str());
        assert!(is_shorter(Text { scores, ..PLAIN }), "{mask}");
    }
    for mask in [
        "abs(row - column) > width",
        "column != row",
        "abs(row - column) % 7 < 3",
        "abs(column) >= 0",
        "(row - 100) / 32 == column / 32",
        "row / 32 == column / 16",
    ] {
        let scores: &str = Box::leak(format!("select({mask}, s, -inf)").into_boxed_str());
        assert!(!is_shorter(Text { scores, ..PLAIN }), "{mask}");
    }
}

/// A finite mask leaves nothing where the powers are zeroed too, and maxima never fall below it.
#[test]
fn zeroed_powers_leave_nothing_where_maxima_start_at_the_mask() {
    let plain = "p = exp2(x - expand_dims(base, 1))";
    let (times, select) = (
        "p = exp2(x - expand_dims(base, 1)) * cast(column <= row, f32)",
        "p = select(column <= row, exp2(x - expand_dims(base, 1)), 0.0)",
    );
    let scores = "select(column <= row, s * 0.5, -1.0e30)";
    for (powers, scores, low, shorter) in [
        (times, scores, "-1.0e30", true),
        (select, scores, "-1.0e30", true),
        (select, scores, "-1.0e20", true),
        (select, "select(column <= row, s * 0.5, -1.0e4)", "-1.0e30", true),
        (select, "select(column <= row, s * 0.5, -1.0e4)", "-10.0", true),
        (plain, scores, "-1.0e30", true),
    ] {
        let text = text(Text { scores, low, ..PLAIN }).replace(plain, powers);
        assert_eq!(is_shorter_text(&text), shorter, "{text}");
    }
}

/// A finite mask leaves nothing where maxima are far above it, and all of it where they are not: the loop runs again then.
#[test]
fn numbers_of_masks_are_compared_with_the_maxima() {
    let powers = |base: &str, p: &str, alpha: &str| {
        text(Text { scores: "SCORES", low: "LOW", base: "BASE", ..PLAIN })
            .replace("BASE", base)
            .replace("p = exp2(x - expand_dims(base, 1))", p)
            .replace("alpha = exp2(m0 - base)", alpha)
    };
    let plain = powers("m1", "p = exp2(x - expand_dims(base, 1))", "alpha = exp2(m0 - base)");
    let scaled = powers(
        "select(m1 == -inf, 0.0, m1 * scale)",
        "p = exp2(fma(x, scale, broadcast(expand_dims(neg(base), 1)) : f32[64, 64]))",
        "alpha = exp2(fma(m0, scale, neg(base)))",
    );
    let natural =
        powers("m1", "p = exp((x - expand_dims(base, 1)) * scale)", "alpha = exp((m0 - m1) * scale)");
    let grouped = plain.replace(
        "m1 = max(m0, reduce_max(x, 1))",
        "m1 = max(m0, reduce_max(reduce_max(reshape x : f32[64, 8, 8], 2), 1))",
    );
    for (text, scores, low) in [
        (&plain, "select(column <= row, s * scale, -1.0e9)", "-inf"),
        (&plain, "select(column <= row, s * scale, -1.0e4)", "-1.0e30"),
        // Scores are below the number, or near to it, in some rows.
        (&plain, "select(column <= row, s * 100.0 - 1.0e4, -1.0e4)", "-inf"),
        (&plain, "select(column <= row, s - 1.0e4, -1.0e4)", "-inf"),
        (&plain, "select(column <= row, s * 30.0 - 3000.0, -2900.0)", "-inf"),
        (&plain, "select(column + 40 <= row, s, -65504.0)", "-65504.0"),
        (&plain, "select(column > row, -3.4028234e38, s)", "-inf"),
        (&scaled, "select(column <= row, s, -1.0e9)", "-inf"),
        (&scaled, "select(column <= row, s * 0.01 - 1.0e3, -1.0e3)", "-inf"),
        (&natural, "select(column <= row, s, -1.0e9)", "-inf"),
        (&natural, "select((column <= row) & (column < keys), s, -1.0e4)", "-inf"),
        (&grouped, "select(column <= row, s, -1.0e4)", "-inf"),
        // First iterations, of which the number is all that is left.
        (&plain, "select(column > row - width, s, -1.0e30)", "-1.0e30"),
        (&plain, "select((column > row - width) & (column <= row), s * scale, -1.0e9)", "-inf"),
        (&plain, "select((column > row - width) & (column <= row), s * 30.0 - 3000.0, -2900.0)", "-inf"),
        (&plain, "select((column > row - width) & (column <= row), s - 5000.0, -4990.0)", "-1.0e30"),
        (&scaled, "select((column > row - width) & (column <= row), s, -1.0e9)", "-inf"),
        (&natural, "select(row - column < width, s, -1.0e4)", "-inf"),
    ] {
        let text = text.replace("SCORES", scores).replace("LOW", low);
        assert!(is_shorter_text(&text), "{text}");
    }
    // The number counts once more, or a power is of another maximum, and may be large: first iterations stay.
    let others = ["l0 + reduce_sum(p, 1)", "l0 * alpha + reduce_sum(exp2(x - expand_dims(m0, 1)), 1)"];
    for (other, low) in others.into_iter().zip(["-inf", "-1.0e30"]) {
        let text = plain.replace("l0 * alpha + reduce_sum(p, 1)", other);
        let text = text.replace("SCORES", "select(column > row - width, s, -1.0e9)").replace("LOW", low);
        assert!(!is_shorter_text(&text), "{text}");
    }
}

/// What is added to an extreme and taken away again is in no difference, and makes what the extreme compares wrap around.
#[test]
fn numbers_that_cancel_around_an_extreme_may_wrap_around() {
    let text = "kernel masked(q: ptr<f16> align 16, k: ptr<f16> align 16, o: ptr<f16> align 16, queries: i32, keys: i32, w: i32) {
            grid cdiv(queries, 64)
            gq = view q : f16[queries, 64]  gk = view k : f16[keys, 64]  go = view o : f16[queries, 64]
            i = block_index
            tq = load gq[i*64, 0] : f16[64, 64]
            zero = full 0.0 : f32[64, 64]
            row = (iota 0 : i32[64, 64]) + i*64
            m, l, acc = for t in 0..cdiv(keys, 64) carry m0 = full -1.0e30 : f32[64], l0 = full 0.0 : f32[64], x = zero {
                tk = load gk[t*64, 0] : f16[64, 64]
                column = (iota 1 : i32[64, 64]) + t*64
                seen = max(column*16384 + w, column) - w <= row*16384
                s = select(seen, (mma zero, tq, trans(tk)) * 0.25, -inf)
                m1 = max(m0, reduce_max(s, 1))
                p = exp2(s - expand_dims(m1, 1))
                by = exp2(m0 - m1)
                yield m1, l0 * by + reduce_sum(p, 1), mma x * expand_dims(by, 1), cast(p, f16), tk
            }
            store go[i*64, 0], cast(acc / expand_dims(l, 1), f16)
        }
        mapping masked { for t: pipeline 2, producers 1, consumers 1 }";
    for w in [7, 2_145_000_000] {
        check(text, &[("queries", 64), ("keys", 256), ("w", w)], &[""]);
    }
}
