//! Scalars that the computing threads find together, and that copies follow from: the consumers tell the producer, which copies
//! ahead in the loops before and behind them.

use warplift::ir::machine::RingFill;
use warplift::ir::target::SM90A;
use warplift::{Compiled, Feature, Options, compile};
use warplift_golden::described::{compiled, reference};
use warplift_golden::given::parsed;
use warplift_golden::orders::{ORDERS, right};

/// The number of scalars that a kernel's producer is told.
fn told(made: &Compiled) -> usize {
    made.explained.schedule.rings.values().filter(|r| r.fill == RingFill::Decision).count()
}

/// Right for several numbers of programs, on data of both kinds.
fn right_on(text: &str, sizes: &[(&str, i64)], data: &[&str]) -> Compiled {
    let (kernel, mapping, made) = compiled(text);
    for given in data {
        let given: Vec<&str> = given.split_whitespace().collect();
        let problem = reference(&kernel, &mapping, sizes, &given);
        for programs in [1, 3] {
            right(&problem, &made, &ORDERS, (programs, 0.0), &format!("{given:?} {}", mapping.kernel));
        }
    }
    made
}

/// A product, and another one behind it where the least of its sums says so.
fn again(mapping: &str) -> String {
    format!(
        "kernel again(a: ptr<f16> align 16, b: ptr<f16> align 16, c: ptr<f32> align 16, m: i32, n: i32 % 8, k: i32 % 8) {{
            grid cdiv(m, 64), cdiv(n, 64)
            i, j = block_index
            ga = view a : f16[m, k]
            gb = view b : f16[n, k]
            gc = view c : f32[m, n]
            zero = full 0.0 : f32[64, 64]
            acc = for t in 0..cdiv(k, 64) carry x = zero {{
                ta = load ga[i*64, t*64] : f16[64, 64]
                yield mma x, ta, trans(load gb[j*64, t*64] : f16[64, 64])
            }}
            least = reduce_min(reduce_min(acc, 1), 0)
            most = reduce_max(reduce_max(acc, 1), 0)
            y = if least < -2.0 {{
                more = for u in 0..cdiv(k, 64) carry x = acc {{
                    ta = load ga[i*64, u*64] : f16[64, 64]
                    yield mma x, ta, trans(load gb[j*64, u*64] : f16[64, 64])
                }}
                yield more
            }} else {{
                yield acc
            }}
            z = for u in 0..select(most > 3.0, cdiv(k, 128), 0) carry x = y {{
                ta = load ga[i*64, u*64] : f16[64, 64]
                yield mma x, ta, trans(load gb[j*64, u*64] : f16[64, 64])
            }}
            store gc[i*64, j*64], z
        }}
        mapping again {{ for t: pipeline fit, producers 1, consumers 1 {mapping} }}"
    )
}

const DATA: [&str; 4] = ["", "a=zeros", "a=ints:0..3", "a=ints:-2..0 b=ints:0..2"];

#[test]
fn the_producer_waits_for_what_threads_find_behind_a_loop() {
    for (words, scalars) in [
        ("kernel: persistent", 2),
        ("kernel: persistent, raster counter", 2),
        ("kernel: persistent, epilogue deferred", 2),
        ("", 2),
        // Other blocks or roles would have to be told too.
        ("kernel: cluster 2", 0),
        ("kernel: persistent, pdl array b: before_wait", 2),
    ] {
        let made = right_on(&again(words), &[("m", 130), ("n", 72), ("k", 200)], &DATA);
        assert_eq!(told(&made), scalars, "{words}");
        assert_eq!(made.ptx.contains("$producer:"), scalars > 0, "{words}");
    }
}

#[test]
fn without_warps_of_its_own_nobody_is_told() {
    let (kernel, mapping) = parsed(&again("kernel: persistent"));
    let off: Feature = "warp-specialization".parse().expect("a feature");
    let made = compile(&kernel, &mapping, &SM90A, &Options { disable: vec![off], ..Options::default() });
    assert_eq!(told(&made.unwrap_or_else(|e| panic!("{e}"))), 0);
}

/// The greatest of a tile of lengths bounds a loop: it is found before the loop's copies.
#[test]
fn a_bound_that_threads_find_together_is_told() {
    let text = "kernel longest(lengths: ptr<i32>, a: ptr<f16> align 16, b: ptr<f16> align 16, c: ptr<f32> align 16, m: i32, k: i32 % 8) {
        grid cdiv(m, 64)
        i = block_index
        gl = view lengths : i32[m]
        ga = view a : f16[m, k]
        gb = view b : f16[64, k]
        gc = view c : f32[m, 64]
        zero = full 0.0 : f32[64, 64]
        longest = min(reduce_max(load gl[i*64] : i32[64], 0), k)
        acc = for t in 0..cdiv(longest, 64) carry x = zero {
            ta = load ga[i*64, t*64] : f16[64, 64]
            yield mma x, ta, trans(load gb[0, t*64] : f16[64, 64])
        }
        store gc[i*64, 0], acc
    }
    mapping longest { for t: pipeline fit, producers 1, consumers 1 kernel: persistent }";
    let data = ["lengths=ints:0..300", "lengths=zeros", "lengths=ints:-9..70"];
    assert_eq!(told(&right_on(text, &[("m", 200), ("k", 264)], &data)), 1);
}

/// What threads find in every iteration leaves nothing to copy ahead, and what they find in other threads' stores orders these
/// before it.
#[test]
fn threads_copy_where_they_decide_in_every_iteration() {
    let text =
        "kernel each(a: ptr<f16> align 16, b: ptr<f16> align 16, c: ptr<f32> align 16, m: i32, k: i32 % 8) {
        grid cdiv(m, 64)
        i = block_index
        ga = view a : f16[m, k]
        gb = view b : f16[64, k]
        gc = view c : f32[m, 64]
        zero = full 0.0 : f32[64, 64]
        acc = for t in 0..cdiv(k, 64) carry x = zero {
            ta = load ga[i*64, t*64] : f16[64, 64]
            s = mma x, ta, trans(load gb[0, t*64] : f16[64, 64])
            y = if reduce_max(reduce_max(s, 1), 0) > 4.0 {
                yield mma s, ta, trans(load gb[0, 0] : f16[64, 64])
            } else {
                yield s
            }
            yield y
        }
        store gc[i*64, 0], acc
    }
    mapping each { for t: pipeline fit, producers 1, consumers 1 kernel: persistent }";
    let made = right_on(text, &[("m", 130), ("k", 200)], &["", "a=zeros"]);
    assert_eq!(told(&made), 0);
    assert!(made.explained.schedule.remarks.iter().any(|r| r.contains("the threads that compute copy too")));
}
