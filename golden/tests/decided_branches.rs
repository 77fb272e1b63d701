//! Branches in loops whose sides look decided: those that are, and those that are not, as emitted, in the simulator against the
//! interpreter.

use warplift_golden::described::check;

/// A loop over `count` iterations from `low` by `step` that adds under a branch.
fn text(params: &str, before: &str, [low, high, step]: [&str; 3], branch: &str) -> String {
    format!(
        "kernel b(x: ptr<f32>, y: ptr<f32>, {params}) {{
            grid 1
            gx = view x : f32[64]  gy = view y : f32[64]
            {before}
            z = full 0.0 : f32[64]
            s = for t in {low}..{high} step {step} carry q = z {{
                v = load gx[0] : f32[64]
                r = {branch}
                yield r
            }}
            store gy[0], s
        }}
        mapping b {{ kernel: warps 2 }}"
    )
}

const SIGNS: &str = "if t * b < n { yield q + v } else { yield q - v }";

/// A quotient of two negative numbers is positive, and no number of iterations follows from it.
#[test]
fn a_guard_of_negative_numbers_is_no_end() {
    let text = text("n: i32 in -1000..1000, b: i32 in -16..17", "", ["0", "cdiv(n, b)", "1"], SIGNS);
    check(&text, &[("n", 20), ("b", 4)], &[""]);
    check(&text, &[("n", -16), ("b", -4)], &[""]);
}

/// Products of more factors than a term holds are not known to be equal.
#[test]
fn long_numbers_are_not_taken_for_equal() {
    let params =
        "a: i32 in 1..8, b: i32 in 1..8, c: i32 in 1..8, d: i32 in 1..8, e: i32 in 1..8, f: i32 in 0..8";
    let before = "n = a * b * c * d * e  m = f * b * c * d * e";
    let guard = "if t * 4 < m { yield q + v } else { yield q - v }";
    let text = text(params, before, ["0", "cdiv(n, 4)", "1"], guard);
    check(
        &text,
        &["a", "b", "c", "d", "e"].map(|n| (n, 2)).into_iter().chain([("f", 1)]).collect::<Vec<_>>(),
        &[""],
    );
}

/// The first iteration is where the loop starts, by whatever steps it goes on.
#[test]
fn a_first_side_is_right_wherever_the_loop_starts() {
    for (low, step) in [("0", "1"), ("3", "2"), ("m", "1")] {
        for (test, one, other) in
            [("==", "z + v", "q + v"), ("!=", "q + v", "z + v"), (">", "q + v", "z + v")]
        {
            let branch = format!("if t {test} {low} {{ yield {one} }} else {{ yield {other} }}");
            let text = text("n: i32, m: i32 in 0..9", "", [low, "n", step], &branch);
            [0, 1, 3, 4, 9].into_iter().for_each(|n| drop(check(&text, &[("n", n), ("m", 2)], &[""])));
        }
    }
    let text = text("n: i32", "", ["0", "n", "1"], "if t == 0 { yield z + v * 2.0 } else { yield q + v }");
    [0, 1, 5].into_iter().for_each(|n| drop(check(&text, &[("n", n)], &[""])));
}
