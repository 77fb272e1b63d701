mod data;

use super::*;
use crate::kernels::find;
use warplift_ir::plural;
use warplift_ir::target::{H100, SM90A};
use warplift_ir::tile::parse_file;

/// Under the library's first mapping.
fn predicted(name: &str, sizes: &str) -> Prediction {
    mapped(name, &find(name).unwrap().parse().unwrap().mappings[0], sizes)
}

fn mapped(name: &str, mapping: &Mapping, sizes: &str) -> Prediction {
    let module = find(name).unwrap().parse().unwrap();
    let kernel = &module.kernels[0];
    predict(kernel, mapping, &SM90A, &Sizes::parse(kernel, sizes).unwrap(), &Default::default()).unwrap()
}

/// A launch of the only kernel of a text, whose array `given` holds a number everywhere, or is not given.
fn predicted_with(text: &str, sizes: &str, held: Option<i32>) -> Prediction {
    let module = parse_file(text, "given.tile").unwrap_or_else(|e| panic!("{e}"));
    let (kernel, mapping) = (&module.kernels[0], &module.mappings[0]);
    let sizes = Sizes::parse(kernel, sizes).unwrap();
    let bytes = |v: i32| std::iter::repeat_n(v.to_le_bytes(), 1 << 16).flatten().collect();
    let arrays: Arrays = held.map(|v| ("given".to_owned(), bytes(v))).into_iter().collect();
    let launch = Launch { sizes: &sizes, arrays: &arrays };
    predict(kernel, mapping, &SM90A, launch, &Default::default()).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn memory_that_far_blocks_share_is_read_again() {
    let text = "mapping gather_rows { BM = 1, BN = 4096, BP = 1024 kernel: warps 4 }";
    let mapping = parse_file(text, "parts.tile").unwrap().mappings.remove(0);
    let of = |rows| mapped("gather_rows", &mapping, &format!("m={rows},n=4096,p=4096"));
    let (few, many) = (of(1024), of(8192));
    assert!(many.memory > 12.0 * few.memory, "x is larger than the L2 only in the second: {few} {many}");
}

/// Grouped products in linear order read all rows once more for each column of tiles, and so do programs that draw them; bands do
/// not. Measured on an H100: 944 us for 759, and 805 for 519 with 64 groups (docs/lab-book/2026-11-26.md).
#[test]
fn orders_of_tiles_decide_what_is_read_again() {
    let module = find("gemm_grouped").unwrap().parse().unwrap();
    let kernel = &module.kernels[0];
    let of = |order: &str, sizes: &str| {
        let text = format!(
            "mapping gemm_grouped {{ for t: pipeline fit, producers 1, consumers 2, wait 0 kernel: persistent{order} }}"
        );
        let mapping = parse_file(&text, "order.tile").unwrap().mappings.remove(0);
        let sizes = Sizes::parse(kernel, sizes).unwrap();
        let tiles = 128 / i32::try_from(sizes.int("groups").unwrap()).unwrap();
        let held = |of: &dyn Fn(i32) -> i32| (0..129).flat_map(|n| of(n).to_le_bytes()).collect::<Vec<u8>>();
        let arrays = Arrays::from([
            ("group".to_owned(), held(&|n| n / tiles)),
            ("first".to_owned(), held(&|n| n * 128)),
            ("offsets".to_owned(), held(&|n| n * 128 * tiles)),
        ]);
        let launch = Launch { sizes: &sizes, arrays: &arrays };
        predict(kernel, &mapping, &H100, launch, &Default::default()).unwrap()
    };
    for groups in ["groups=8,n=4096", "groups=64,n=2048"] {
        let sizes = format!("{groups},tiles=128,rows=16384,k=4096");
        let [linear, drawn, bands] = ["", ", raster counter", ", raster band_m 8"].map(|o| of(o, &sizes));
        assert!(linear.cycles > 1.15 * bands.cycles, "{linear} {bands}");
        assert!((0.9..1.1).contains(&(drawn.cycles / linear.cycles)), "{drawn} {linear}");
    }
}

/// A row that is read twice comes from device memory again if all blocks together read more in between than the L2 holds.
#[test]
fn rows_that_do_not_stay_are_read_again() {
    let of = |columns: i64| {
        let text = format!(
            "kernel twice(x: ptr<f32> align 16, y: ptr<f32> align 16, m: i32) {{
            grid m
            i = block_index
            gx = view x : f32[m, {columns}]
            gy = view y : f32[m, {columns}]
            zero = full 0.0 : f32[1, 4096]
            s = for t in 0..{columns} / 4096 carry c = zero {{
                d = c + load gx[i, t*4096] : f32[1, 4096]
                yield d
            }}
            sum = reduce_sum(s, 1)
            for t in 0..{columns} / 4096 {{ store gy[i, t*4096], (load gx[i, t*4096] : f32[1, 4096]) * sum }} }}
            mapping twice {{ kernel: warps 16 }}"
        );
        predicted_with(&text, "m=1056", None)
    };
    let (near, far) = (of(2 * 4096), of(64 * 4096));
    let floors = |p: &Prediction| p.memory / p.floor.memory;
    assert!(floors(&near) < 1.02, "{near}");
    assert!((1.4..1.6).contains(&floors(&far)), "{far}");
}

#[test]
fn the_fullest_unit_of_a_large_product_is_the_tensor_cores() {
    let p = predicted("gemm", "m=4096,n=4096,k=4096");
    assert_eq!(p.taken[0].0, Unit::Tensor, "{p}");
    assert!(p.taken[0].1 > 0.95 && p.waves == 1 && p.resident == 1, "{p}");
    let p = predicted("axpy", "n=33554432");
    assert!(p.cycles > p.memory && p.memory > p.block, "{p}");
}

/// A causal tile costs more the further down it stands, so the last blocks are walked too.
#[test]
fn blocks_that_differ_are_walked_one_by_one() {
    let text = "kernel sums(x: ptr<f32> align 16, y: ptr<f32> align 16, n: i32 in 1..=65536 % 64) {
            tunable B = 64
            grid cdiv(n, B)
            gx = view x : f32[n, n]
            gy = view y : f32[n]
            i = block_index
            zero = full 0.0 : f32[B, B]
            s = for t in 0..i+1 carry c = zero {
                v = load gx[i*B, t*B] : f32[B, B]
                d = c + v
                yield d
            }
            r = reduce_sum(s, 1)
            store gy[i*B], r
        }
        mapping sums { B = 64 kernel: warps 4 }";
    let module = parse_file(text, "sums.tile").unwrap_or_else(|e| panic!("{e}"));
    let (kernel, mapping) = (&module.kernels[0], &module.mappings[0]);
    let of = |n: i64| {
        let sizes = Sizes::parse(kernel, &format!("n={n}")).unwrap();
        predict(kernel, mapping, &SM90A, &sizes, &Default::default()).unwrap_or_else(|e| panic!("{e}"))
    };
    let (one, many) = (of(64), of(4096));
    assert_eq!(one.walked, 1);
    assert!(many.walked > 2, "{many}");
    assert!(many.cycles > 4.0 * one.cycles, "the last block has 64 trips, the first one: {one} {many}");
}

/// Each trip of the outer loop has one more of the inner loop than the trip before.
const TRIANGLE: &str = "
kernel triangle(x: ptr<f32> align 16, y: ptr<f32> align 16, rows: i32, n: i32 % 64) {
    tunable B = 64
    grid 1
    gx = view x : f32[64, n]
    gy = view y : f32[64]
    zero = full 0.0 : f32[B, B]
    s = for r in 0..rows carry all = zero {
        row = for t in 0..r carry c = all {
            v = load gx[0, t*B] : f32[B, B]
            d = c + v
            yield d
        }
        yield row
    }
    store gy[0], reduce_sum(s, 1)
}
mapping triangle { B = 64 kernel: warps 4 }";

#[test]
fn a_walk_that_is_cut_short_counts_the_trips_that_are_left() {
    let of = |rows: i64| predicted_with(TRIANGLE, &format!("rows={rows},n=65536"), None);
    let (small, whole, cut) = (of(12), of(20), of(80));
    assert!(!whole.to_string().contains("% of it") && cut.to_string().contains("% of it"), "{whole} {cut}");
    // A row's last trip reads what no row before has read, and waits for device memory; all others cost the same.
    let trips = |rows: f64| rows * (rows - 1.0) / 2.0;
    let a = (whole.block / 20.0 - small.block / 12.0) / (trips(20.0) / 20.0 - trips(12.0) / 12.0);
    let b = (whole.block - a * trips(20.0)) / 20.0;
    let ratio = cut.block / (a * trips(80.0) + b * 80.0);
    assert!((0.97..1.03).contains(&ratio), "{ratio}: {a} a trip, {b} a row");
}

#[test]
fn phases_are_named_with_what_bounds_them() {
    let p = predicted("gemm", "m=4096,n=4096,k=4096");
    let of = |name| p.phases.iter().find(|phase| phase.name == name).unwrap();
    assert_eq!(of("main loop").bound(), Some(Unit::Tensor), "{p}");
    assert_eq!(of("prologue").bound(), None, "{p}");
    let sum: f64 = p.phases.iter().map(|phase| phase.cycles).sum();
    assert!((sum / p.block - 1.0).abs() < 0.02, "{sum} {p}");
    assert!(p.to_string().contains("main loop") && p.to_string().contains("bound by tensor"), "{p}");
    assert!(p.before_wait.is_none() && p.filled > 0.9 && p.filled <= 1.0, "{p}");
}

#[test]
fn what_overlaps_the_launch_before_is_told() {
    let p = predicted("a16w4", "m=16,n=57344,k=8192");
    let before = p.before_wait.unwrap_or_else(|| panic!("{p}"));
    assert!(before > 0.0 && before < 0.5 * p.block, "{p}");
    assert!(p.to_string().contains("before griddepcontrol.wait"), "{p}");
}

/// In a stream the launch itself is hidden where blocks are the limit, and not where device memory is.
#[test]
fn a_launch_that_may_begin_early_overlaps_the_one_before() {
    let few = predicted("a16w4", "m=16,n=4096,k=4096");
    assert!(few.overlap > 0.8 * SM90A.estimates.start_cycles && few.overlap < 0.5 * few.cycles, "{few}");
    assert!(few.to_string().contains("overlap the launch before"), "{few}");
    let bound = predicted("softmax", "m=8192,n=4096");
    assert!(bound.memory > bound.block && bound.overlap == 0.0, "{bound}");
    let plain = predicted("gemm", "m=4096,n=4096,k=4096");
    assert_eq!((plain.overlap, plain.to_string().contains("overlap")), (0.0, false));
}

/// What is left of a launch's own time in a stream is little where it does little.
#[test]
fn short_launches_of_a_stream_overlap() {
    let text =
        "mapping gemm { BM = 32, BN = 64, BK = 128 for t: pipeline fit, producers 1, consumers 1, wait 1 }";
    let mapping = parse_file(text, "short.tile").unwrap().mappings.remove(0);
    let short = mapped("gemm", &mapping, "m=512,n=512,k=128");
    assert!(short.overlap > 0.4 * SM90A.estimates.start_cycles, "{short}");
    assert!(short.overlap < SM90A.estimates.start_cycles - SM90A.estimates.streamed_start_cycles, "{short}");
    let longer = mapped("gemm", &mapping, "m=512,n=512,k=1024");
    assert!(longer.overlap > 0.0 && longer.overlap < 0.9 * short.overlap, "{longer}");
}

/// `pdl` without loads before the wait saves what was measured, and nothing where the next launch's blocks stand beside running ones.
#[test]
fn launches_that_wait_first_gain_little() {
    let of = |stages: &str, words: &str| {
        let text = format!(
            "mapping gemm {{ BM = 64, BN = 128, BK = 64 for t: pipeline {stages}, producers 1, consumers 1, wait 1 {words} }}"
        );
        let mapping = parse_file(&text, "waits.tile").unwrap().mappings.remove(0);
        mapped("gemm", &mapping, "m=1024,n=1024,k=1024")
    };
    for (stages, saved) in [("fit", SM90A.estimates.pdl_saved_cycles), ("3", 0.0)] {
        let (plain, early) = (of(stages, ""), of(stages, "kernel: pdl"));
        assert!((early.overlap - plain.overlap - saved).abs() < 10.0, "{stages}: {plain} {early}");
    }
}

/// Blocks of a cluster that copy to each other wait longer for device memory, beyond what all clusters begin later.
#[test]
fn clusters_that_share_copies_wait_longer_for_memory() {
    let of = |words: &str| {
        let text = format!(
            "mapping gemm {{ BM = 64, BN = 96, BK = 128 for t: pipeline fit, producers 1, consumers 1, wait 1 {words} }}"
        );
        let mapping = parse_file(&text, "clusters.tile").unwrap().mappings.remove(0);
        mapped("gemm", &mapping, "m=64,n=12672,k=7168")
    };
    let (alone, together) = (of(""), of("kernel: cluster 2"));
    assert_eq!(alone.floor, together.floor);
    let ratio = together.memory / alone.memory;
    assert!((ratio - SM90A.estimates.multicast_slowdown).abs() < 0.01, "{ratio} {alone} {together}");
}

/// Tilings of 8192^3 that were measured on an H100 (us, in bursts): neighbours that share the large operand take half as long
/// as those that share the small one.
#[test]
fn neighbours_share_what_the_cache_gives() {
    let measured = [
        (256, 64, 2, "band_m 16", 2743.0),
        (256, 64, 2, "band_n 16", 1558.0),
        (64, 128, 1, "band_m 16", 2007.0),
        (192, 128, 3, "band_m 16", 1559.0),
        (192, 128, 3, "band_n 16", 1523.0),
        (128, 256, 2, "band_m 16", 1383.0),
    ];
    for (m, n, consumers, raster, us) in measured {
        let p = tiled([m, n], consumers, raster);
        let ratio = p.microseconds(p.clock.burst) / us;
        assert!((0.8..1.1).contains(&ratio), "{m} x {n}, {raster}: {ratio} {p}");
    }
}

/// `gemm` of 8192^3 in such tiles, on an H100.
fn tiled([m, n]: [i64; 2], consumers: u32, raster: &str) -> Prediction {
    let text = format!(
        "mapping gemm {{ BM = {m}, BN = {n}, BK = 64 for t: pipeline fit, producers 1, consumers {consumers}, wait 0 \
         kernel: persistent, raster {raster}, epilogue deferred }}"
    );
    let mapping = parse_file(&text, "tiled.tile").unwrap().mappings.remove(0);
    let kernel = &find("gemm").unwrap().parse().unwrap().kernels[0];
    let sizes = Sizes::parse(kernel, "m=8192,n=8192,k=8192").unwrap();
    predict(kernel, &mapping, &H100, &sizes, &Default::default()).unwrap()
}

/// A bulk copy has an address and no map: which array's bytes it brings follows from the address.
#[test]
fn packed_weights_wait_for_device_memory() {
    let text = "mapping a16w4 { BN = 448, BM = 8, GROUP = 128
        for t: pipeline fit, producers 1, consumers 7, chunk 32, split_k 2
        array w: packed, stream
        array s: staged }";
    let mapping = parse_file(text, "packed.tile").unwrap().mappings.remove(0);
    let p = mapped("a16w4", &mapping, "m=1,n=28672,k=4096");
    assert!(p.block > p.memory && p.assumed.is_empty(), "{p}");
}

/// What device memory bounds takes its time at any clock; what products bound runs at theirs.
#[test]
fn device_memory_takes_its_time_at_any_clock() {
    let p = predicted("axpy", "n=33554432");
    let bytes = 3.0 * 4.0 * 33_554_432.0;
    let least = bytes / SM90A.rates.memory_bytes_per_cycle / SM90A.clocks.memory.burst / 1000.0;
    assert!(p.microseconds(p.clock.burst) >= least, "{p}");
    assert!((p.clock.burst - SM90A.clocks.memory.burst).abs() < 0.02, "{p}");
    let p = predicted("gemm", "m=8192,n=8192,k=8192");
    assert!(p.clock.sustained < p.clock.burst && p.clock.burst < SM90A.clocks.memory.burst, "{p}");
}

/// Instructions that a prediction may take: they stand for its time, which a busy machine hides.
#[test]
fn predictions_are_bounded() {
    for (name, sizes, most) in [
        ("gemm", "m=4096,n=4096,k=4096", 80_000),
        ("gemm", "m=16384,n=16384,k=16384", 45_000),
        ("gemm_any", "m=4096,n=4096,k=4096", 130_000),
        ("attention_causal", "batch=1,heads=16,length=16384,scale=0.1", 80_000),
    ] {
        let p = predicted(name, sizes);
        assert!(p.effort <= most, "{name}: {}", p.effort);
        assert!(p.part == 1.0 || p.to_string().contains("% of it"), "{p}");
    }
}

/// Boxes of maps with four dimensions are places of their own, so a block that reads each of its keys once waits for device
/// memory.
#[test]
fn boxes_of_four_coordinates_are_told_apart() {
    let p = predicted("attention_decode", "batch=1,kv_heads=8,group=8,keys=32768,splits=16");
    assert!(p.block > p.memory, "{p}");
}

/// Words that data decides lie in a sector each: an update of 32 lanes takes 32 of them.
#[test]
fn updates_anywhere_take_a_sector_a_lane() {
    let n = 1 << 20;
    let p = predicted("histogram", &format!("n={n},bins=65536"));
    let updates = f64::from(n / SM90A.multiprocessors) * SM90A.rates.shared_update_cycles;
    assert!(p.block > 0.9 * updates, "{updates} {p}");
}

/// Rows of a triangle by the number of the block, and what one block in so many does beside.
fn triangle(number: &str, beside: &str) -> String {
    format!(
        "kernel triangle(x: ptr<f32> align 16, next: ptr<i32> align 4, y: ptr<f32> align 16, n: i32 % 64, all: i32) {{
            tunable B = 64
            grid cdiv(n, B)
            gx = view x : f32[n, n]
            gn = view next : i32[1]
            gy = view y : f32[n]
            one = full 1 : i32[1]
            zero = full 0.0 : f32[B, B]
            i = {number}
            s = for t in 0..i+1 carry c = zero {{
                v = load gx[i*B, t*B] : f32[B, B]
                d = c + v
                yield d
            }}
            store gy[i*B], reduce_sum(s, 1)
            {beside}
        }}
        mapping triangle {{ B = 64 kernel: warps 4 }}"
    )
}

/// Blocks that draw their number at a counter share out the numbers, so they take as long as blocks with a number of
/// their own; the number reaches all warps through shared memory.
#[test]
fn numbers_from_a_counter_count_as_those_of_blocks() {
    let drawn = triangle("reduce_max(atomic_add gn[0], one : i32[1], 0)", "");
    let own = triangle("block_index", "");
    for n in [2048, 16384] {
        let of = |text: &str| predicted_with(text, &format!("n={n},all=1"), None);
        let (drawn, own) = (of(&drawn), of(&own));
        assert!(drawn.assumed.is_empty() && drawn.walked > 2, "{drawn}");
        let ratio = drawn.cycles / own.cycles;
        assert!((0.95..1.1).contains(&ratio), "{ratio}: {drawn} {own}");
    }
}

/// What the last of the blocks does that share a counter is done once for all of them.
#[test]
fn the_last_block_alone_does_what_is_left() {
    let rest = "cells = workspace 1 : u32
            counter = view cells : u32[1]
            last = arrive counter[0], all
            if last {
                r = for u in 0..200 carry e = zero {
                    w = load gx[0, u*B] : f32[B, B]
                    f = e + w
                    yield f
                }
                store gy[0], reduce_sum(r, 1)
            }";
    let text = triangle("block_index - block_index + 1", rest);
    let plain = predicted_with(&triangle("block_index - block_index + 1", ""), "n=67584,all=1", None);
    let of = |all: u32| predicted_with(&text, &format!("n=67584,all={all}"), None);
    let (each, few, one) = (of(1), of(2), of(1056));
    let beyond = |p: &Prediction| p.cycles - plain.cycles;
    assert!(beyond(&one) > 0.0 && beyond(&one) < 0.3 * beyond(&each), "{plain} {one} {each}");
    assert!((0.4..0.7).contains(&(beyond(&few) / beyond(&each))), "{plain} {few} {each}");
}

/// Updates of one line are done one behind the other (docs/microbenchmarks.md, `atomics`); of different lines they are not.
#[test]
fn blocks_wait_for_each_other_where_they_update_one_line() {
    let text = |at: &str| {
        format!(
            "kernel sums(x: ptr<f32> align 16, y: ptr<f32> align 16, n: i32 % 64) {{
                grid n / 64
                gx = view x : f32[1, n]
                gy = view y : f32[n]
                i = block_index
                t = reduce_sum(load gx[0, i*64] : f32[1, 64], 1)
                atomic_add gy[{at}], t
            }}
            mapping sums {{ kernel: warps 1 }}"
        )
    };
    let blocks = 1 << 16;
    let of = |at| predicted_with(&text(at), &format!("n={}", 64 * blocks), None);
    let (one, apart, beside) = (of("0"), of("i*64"), of("i"));
    let serial = f64::from(blocks) * SM90A.rates.line_update_cycles;
    assert!((1.0..1.1).contains(&((one.cycles - SM90A.estimates.start_cycles) / serial)), "{one}");
    assert!(apart.cycles < 0.5 * one.cycles, "{apart} {one}");
    // 32 blocks share a line, not all.
    assert!(beside.cycles < 0.5 * one.cycles, "{beside} {one}");
}

/// 43 multiprocessors do not get all of device memory: they have too few bytes in flight. Measured on an H200: 21.7 us.
#[test]
fn few_multiprocessors_wait_for_their_bytes_in_flight() {
    let text =
        "mapping gemm { BM = 64, BN = 96, BK = 128 for t: pipeline fit, producers 1, consumers 1, wait 1 }";
    let mapping = parse_file(text, "few.tile").unwrap().mappings.remove(0);
    let p = mapped("gemm", &mapping, "m=64,n=4096,k=7168");
    assert_eq!(p.blocks, 43);
    assert!(p.block > 1.15 * p.memory, "{p}");
    let all = mapped("gemm", &mapping, "m=64,n=12672,k=7168");
    assert!(all.block < 1.1 * all.memory, "132 of them do: {all}");
}

/// Work of a prediction at most, in instructions whose numbers all lanes share: of a product whose operands tensor copies
/// bring, and of anything.
const GEMM_EFFORT: u64 = 80_000;
const MOST_EFFORT: u64 = 160_000;

/// Every kernel of the library under all of its mappings. The work stands for the time, which a busy machine hides. Where a
/// part was walked the text says so.
#[test]
fn predictions_of_all_kernels_are_bounded() {
    let mut seen = 0;
    for text in crate::kernels::LIBRARY {
        let module = text.parse().unwrap();
        let kernel = &module.kernels[0];
        let sizes = Sizes::nominal(kernel);
        for mapping in &module.mappings {
            let Ok(p) = predict(kernel, mapping, &SM90A, &sizes, &Default::default()) else { continue };
            // The programs of these two are not alike: bounds of threads' copies, and a search for each tile.
            let is_plain = text.name.starts_with("gemm") && !["gemm_any", "gemm_ragged"].contains(&text.name);
            let most = if is_plain { GEMM_EFFORT } else { MOST_EFFORT };
            assert!(p.effort <= most, "{}: {} {p}", text.name, p.effort);
            assert_eq!(p.part < 1.0, p.to_string().contains("% of it"), "{p}");
            assert!(p.to_string().contains(&format!("{} of {}", p.walked, plural(p.blocks, "block"))), "{p}");
            seen += 1;
        }
    }
    assert!(seen >= crate::kernels::LIBRARY.len(), "{seen} predictions");
}

/// 3 ms and 50 ms with a wide margin, for builds that are not optimized and machines that run other tests beside it: the work
/// itself is bounded by the test above. What compiling takes is not counted.
#[test]
fn predictions_take_little_time() {
    for (name, sizes, milliseconds) in [
        ("gemm", "m=4096,n=4096,k=4096", 300),
        ("gemm_e4m3", "m=64,n=4096,k=7168", 300),
        ("attention_causal", "batch=1,heads=16,length=16384,scale=0.1", 2000),
        ("a16w4", "m=16,n=57344,k=8192", 2000),
    ] {
        let module = find(name).unwrap().parse().unwrap();
        let (kernel, mapping) = (&module.kernels[0], &module.mappings[0]);
        let sizes = Sizes::parse(kernel, sizes).unwrap();
        let time = |work: &dyn Fn()| {
            let runs = (0..3).map(|_| {
                let begin = std::time::Instant::now();
                work();
                begin.elapsed()
            });
            runs.min().unwrap()
        };
        let options = crate::Options::default();
        let compiled = time(&|| drop(crate::compile(kernel, mapping, &SM90A, &options).unwrap()));
        let both = time(&|| drop(predict(kernel, mapping, &SM90A, &sizes, &options).unwrap()));
        let own = both.saturating_sub(compiled);
        println!("{name}: {own:?}");
        assert!(own.as_millis() <= milliseconds, "{name}: {own:?}");
    }
}

/// Blocks start one after the other, however little they do.
#[test]
fn many_small_blocks_take_as_long_as_they_start() {
    let text = "kernel zeros(y: ptr<f32>, n: i32) { grid n  gy = view y : f32[n]  i = block_index
        store gy[i], full 0.0 : f32[1] }  mapping zeros { kernel: warps 1 }";
    let module = parse_file(text, "").unwrap();
    let of = |blocks: i64| {
        let sizes = Sizes::of_integers(&[("n", blocks)]);
        predict(&module.kernels[0], &module.mappings[0], &SM90A, &sizes, &Default::default()).unwrap().cycles
    };
    let each = (of(4_000_000) - of(2_000_000)) / 2e6;
    assert!((each / SM90A.estimates.block_start_cycles - 1.0).abs() < 0.01, "{each}");
}

/// Four warpgroups that store one operand in one buffer meet twice in each trip, so none is at work while another
/// multiplies. Measured on an H100: 238.8 us, 419,000 cycles of the clock of such work; two warpgroups that hold theirs in
/// registers take 181.2 us.
#[test]
fn warpgroups_wait_for_each_other_at_barriers() {
    let text = |groups: u32| {
        let text = "kernel relu(a: ptr<f16> align 16, b: ptr<f16> align 16, c: ptr<f16> align 16,
            m: i32, n: i32 % 8, k: i32 % 8) {
            grid cdiv(m, 128), cdiv(n, 256)
            ga = view a : f16[m, k]  gb = view b : f16[n, k]  gc = view c : f16[m, n]
            i, j = block_index
            acc = for t in 0..cdiv(k, 64) carry x = full 0.0 : f32[128, 256] {
                yield mma x, max(load ga[i*128, t*64] : f16[128, 64], 0.0), trans(load gb[j*256, t*64] : f16[256, 64])
            }
            store gc[i*128, j*256], cast(acc, f16)
        }";
        format!("{text} mapping relu {{ for t: pipeline fit, producers 1, consumers {groups} }}")
    };
    let of = |groups| {
        let module = parse_file(&text(groups), "").unwrap();
        let (kernel, mapping) = (&module.kernels[0], &module.mappings[0]);
        let sizes = Sizes::parse(kernel, "m=4096,n=4096,k=4096").unwrap();
        let disable = vec!["operand-rings".parse().unwrap()];
        let options = crate::Options { disable, ..crate::Options::default() };
        predict(kernel, mapping, &SM90A, &sizes, &options).unwrap().cycles
    };
    assert!((0.9..1.1).contains(&(of(4) / 419_000.0)), "{}", of(4));
    assert!(of(4) > 1.25 * of(2), "{} {}", of(4), of(2));
    // On an H200 238.0 us without rings, 221.0 with.
    let with_rings = predicted_with(&text(4), "m=4096,n=4096,k=4096", None).cycles;
    assert!(with_rings < 0.93 * of(4), "{with_rings}");
}
