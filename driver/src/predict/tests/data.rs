//! Predictions of programs whose trips, coordinates and extents come from memory.

use super::*;

/// Rows of `x` are summed; the statement `NUMBER` says how far, or from where.
fn summed(number: &str, signature: &str, from: &str, to: &str) -> String {
    format!(
        "kernel sums(x: ptr<f32> align 16, given: ptr<i32> align 4, y: ptr<f32> align 16, m: i32, n: i32 % 64{signature}) {{
            tunable B = 64
            grid cdiv(m, B)
            gx = view x : f32[m, n]
            gg = view given : i32[m]
            gy = view y : f32[m]
            i = block_index
            {number}
            zero = full 0.0 : f32[B, B]
            s = for t in {from}..{to} carry c = zero {{
                v = load gx[i*B, t*B] : f32[B, B]
                d = c + v
                yield d
            }}
            store gy[i*B], reduce_sum(s, 1)
        }}
        mapping sums {{ B = 64 kernel: warps 4 }}"
    )
}

fn assert_near(memory: &Prediction, argument: &Prediction) {
    let ratio = memory.block / argument.block;
    assert!((0.9..1.1).contains(&ratio), "{ratio}: {memory} {argument}");
}

#[test]
fn trips_from_memory_count_as_trips_from_arguments() {
    let sizes = "m=8448,n=65536";
    let read = summed("k = reduce_max(load gg[i] : i32[1], 0)", "", "0", "k");
    let passed = summed("", ", k: i32", "0", "k");
    let of = |k: i32| predicted_with(&read, sizes, Some(k));
    for k in [16, 64, 1024] {
        assert_near(&of(k), &predicted_with(&passed, &format!("{sizes},k={k}"), None));
    }
    let ratio = of(1024).block / of(64).block;
    assert!(ratio > 12.0, "65536 columns take longer than 4096: {ratio}");
    let lanes = summed("k = reduce_max(load gg[i] : i32[32], 0)", "", "0", "k");
    assert_near(&predicted_with(&lanes, sizes, Some(64)), &of(64));
}

#[test]
fn without_data_the_assumption_is_told() {
    let read = summed("k = reduce_max(load gg[i] : i32[1], 0)", "", "0", "k");
    let assumed = predicted_with(&read, "m=8448,n=65536", None);
    assert_eq!(assumed.assumed, ["given"]);
    assert!(
        assumed.to_string().contains("assumed: 16 trips of loops that depend on the contents of `given`")
    );
    let known = predicted_with(&read, "m=8448,n=65536", Some(16));
    assert!(known.assumed.is_empty() && !known.to_string().contains("assumed"));
    assert_near(&known, &assumed);
}

/// As `summed`, until a number of the array says that it is enough.
fn summed_until() -> String {
    let goes_on = "most = load gg[t] : i32 yield t + 1 < most, t + 1, d";
    let text = summed("", "", "0", "k").replace("yield d", goes_on);
    text.replace("s = for t in 0..k carry c = zero", "n1, s = while carry t = 0, c = zero")
}

#[test]
fn trips_of_a_while_are_followed_with_data() {
    let (sizes, until) = ("m=8448,n=65536", summed_until());
    let passed = summed("", ", k: i32", "0", "k");
    for k in [16, 64, 512] {
        let known = predicted_with(&until, sizes, Some(k));
        let ratio = known.block / predicted_with(&passed, &format!("{sizes},k={k}"), None).block;
        assert!((0.95..1.5).contains(&ratio), "a number is loaded in each trip, {k}: {ratio}");
    }
    let assumed = predicted_with(&until, sizes, None);
    assert_eq!(assumed.assumed, ["given"]);
    let ratio = assumed.block / predicted_with(&until, sizes, Some(16)).block;
    assert!((0.9..1.1).contains(&ratio), "16 trips: {ratio}");
}

#[test]
fn extents_from_memory_count_as_extents_from_arguments() {
    let sizes = "m=8448,n=65536";
    let read = summed("k = reduce_max(load gg[i] : i32[1], 0)", "", "k/2", "cdiv(k, 4)*3");
    let passed = summed("", ", k: i32", "k/2", "cdiv(k, 4)*3");
    assert_near(
        &predicted_with(&read, sizes, Some(400)),
        &predicted_with(&passed, &format!("{sizes},k=400"), None),
    );
    let branch = |condition: &str, signature: &str| {
        summed(
            &format!("{condition}\n k = if chosen < 3 {{ yield 8 }} else {{ yield 200 }}"),
            signature,
            "0",
            "k",
        )
    };
    let read = branch("chosen = reduce_max(load gg[i] : i32[1], 0)", "");
    let passed = branch("", ", chosen: i32");
    for c in [1, 5] {
        let argument = predicted_with(&passed, &format!("{sizes},chosen={c}"), None);
        assert_near(&predicted_with(&read, sizes, Some(c)), &argument);
    }
}

/// The product of each block's rows with the weights of one expert.
fn experts(expert: &str, signature: &str) -> String {
    format!(
        "kernel moe(x: ptr<f16> align 16, w: ptr<f16> align 16, given: ptr<i32> align 4, y: ptr<f16> align 16,
                    m: i32, n: i32 % 8, k: i32 % 8, e: i32{signature}) {{
            tunable BM = 128, BN = 128, BK = 64
            grid cdiv(m, BM), cdiv(n, BN)
            gx = view x : f16[m, k]
            experts = view w : f16[e, n, k]
            gg = view given : i32[m]
            gy = view y : f16[m, n]
            i, j = block_index
            {expert}
            gw = subview experts[expert, _, _]
            zero = full 0.0 : f32[BM, BN]
            acc = for t in 0..cdiv(k, BK) carry a = zero {{
                tx = load gx[i*BM, t*BK] : f16[BM, BK]
                tw = load gw[j*BN, t*BK] : f16[BN, BK]
                b = mma a, tx, trans(tw)
                yield b
            }}
            store gy[i*BM, j*BN], cast(acc, f16)
        }}
        mapping moe {{ BM = 128, BN = 128, BK = 64 for t: pipeline 4, producers 1, consumers 2 }}"
    )
}

#[test]
fn coordinates_from_memory_count_as_coordinates_from_arguments() {
    let read = experts("expert = load gg[i] : i32", "");
    let passed = experts("", ", expert: i32");
    let sizes = "m=4096,n=4096,k=1024,e=4";
    let (memory, argument) =
        (predicted_with(&read, sizes, Some(3)), predicted_with(&passed, &format!("{sizes},expert=3"), None));
    let ratio = memory.cycles / argument.cycles;
    assert!((0.9..1.1).contains(&ratio), "{ratio}: {memory} {argument}");
}

/// What reading the number costs, its load and its reduction, comes once: trips cost the same, few of them too.
#[test]
fn few_trips_from_memory_cost_a_load_more_than_from_arguments() {
    let sizes = "m=8448,n=65536";
    let passed = summed("", ", k: i32", "0", "k");
    for count in [1, 32] {
        let read = summed(&format!("k = reduce_max(load gg[i] : i32[{count}], 0)"), "", "0", "k");
        let both = [1, 2, 3, 5, 8, 13].map(|k| {
            let argument = predicted_with(&passed, &format!("{sizes},k={k}"), None);
            (predicted_with(&read, sizes, Some(k)), argument)
        });
        let load = both[0].0.block - both[0].1.block;
        let latencies = load / SM90A.rates.memory_latency;
        assert!((0.5..1.5).contains(&latencies), "{count}: {load}");
        for (memory, argument) in both {
            let ratio = (memory.block - load) / argument.block;
            assert!((0.9..1.1).contains(&ratio), "{ratio}: {memory} {argument}");
            let numbers = memory.floor.memory - argument.floor.memory;
            assert!((0.0..8.0).contains(&numbers), "both touch the same columns, one the numbers: {numbers}");
        }
    }
}

/// As many blocks of `summed` as there are lengths, in trips, under a mapping's words.
fn predicted_of_lengths(lengths: &[i32], words: &str) -> Prediction {
    let text = summed("k = load gg[i] : i32", "", "0", "k").replace("grid cdiv(m, B)", "grid m");
    let text = text.replace("f32[m, n]", "f32[m * 64, n]").replace("f32[m]", "f32[m * 64]");
    let text = text.replace("kernel: warps 4", &format!("kernel: warps 4{words}"));
    let module = parse_file(&text, "lengths.tile").unwrap_or_else(|e| panic!("{e}"));
    let (kernel, mapping) = (&module.kernels[0], &module.mappings[0]);
    let sizes = Sizes::parse(kernel, &format!("m={},n=65536", lengths.len())).unwrap();
    let bytes = lengths.iter().flat_map(|v| v.to_le_bytes()).collect();
    let arrays = Arrays::from([("given".to_owned(), bytes)]);
    let launch = Launch { sizes: &sizes, arrays: &arrays };
    predict(kernel, mapping, &SM90A, launch, &Default::default()).unwrap_or_else(|e| panic!("{e}"))
}

/// A block that is 50 times as long as the others ends as late wherever it stands among the first ones.
#[test]
fn unequal_blocks_are_placed_by_what_the_data_say() {
    let lengths = |at: usize, n: usize| (0..n).map(|i| if i == at { 1000 } else { 20 }).collect::<Vec<i32>>();
    for words in ["", ", persistent", ", persistent, raster counter"] {
        let of = |at| predicted_of_lengths(&lengths(at, 132), words);
        let (first, equal) = (of(0), predicted_of_lengths(&[20; 132], words));
        for at in [7, 100, 131] {
            let p = of(at);
            assert!((0.95..1.05).contains(&(p.cycles / first.cycles)), "{words} {at}: {p} {first}");
            assert!(p.even.is_some_and(|even| even < 0.2 * p.cycles), "{p}");
        }
        assert!(equal.cycles < 0.1 * first.cycles, "{words}: {equal} {first}");
    }
    // A program's tiles are the one it begins with, and those so many programs behind it.
    let strided = predicted_of_lengths(
        &(0..264).map(|i| if i % 132 == 5 { 500 } else { 20 }).collect::<Vec<_>>(),
        ", persistent",
    );
    let both = predicted_of_lengths(&[500; 264], ", persistent");
    assert!((0.9..1.1).contains(&(strided.cycles / both.cycles)), "{strided} {both}");
}

/// The greatest of 64 ends lies in parts in four warps: its trips are known all the same.
#[test]
fn sums_over_all_warps_are_told() {
    let read = summed("k = reduce_max(load gg[0] : i32[64], 0)", "", "0", "k");
    let passed = summed("", ", k: i32", "0", "k");
    for k in [20, 80] {
        let known = predicted_with(&read, "m=8448,n=65536", Some(k));
        assert!(known.assumed.is_empty(), "{known}");
        assert_near(&known, &predicted_with(&passed, &format!("m=8448,n=65536,k={k}"), None));
    }
}

/// The floor of a grouped product counts its rows: those of 100 groups of 20 rows are 32 each, whatever the tiles are.
#[test]
fn the_floor_counts_rows_that_groups_have() {
    let module = find("gemm_grouped").unwrap().parse().unwrap();
    let (kernel, mapping) = (&module.kernels[0], &module.mappings[0]);
    let sizes = Sizes::parse(kernel, "tiles=100,groups=100,rows=2000,n=4096,k=4096").unwrap();
    let problem = Problem::new(kernel, mapping, sizes).unwrap();
    let array = |f: fn(i32) -> i32, n: i32| (0..n).flat_map(|i| f(i).to_le_bytes()).collect::<Vec<u8>>();
    let arrays = [
        ("group", array(|i| i, 100)),
        ("first", array(|i| 20 * i, 100)),
        ("offsets", array(|i| 20 * i, 101)),
    ];
    let arrays: Arrays = arrays.map(|(name, bytes)| (name.to_owned(), bytes)).into();
    let (whole, unknown) = (floor(&problem, &arrays, &SM90A), floor(&problem, &Arrays::new(), &SM90A));
    let cycles = |rows: f64| rows * 4096.0 * 4096.0 / (132.0 * SM90A.estimates.product_rate);
    assert!((whole.products / cycles(12_800.0) - 1.0).abs() < 1e-9, "{whole:?}");
    assert!((whole.needed.unwrap() / cycles(3200.0) - 1.0).abs() < 1e-9, "{whole:?}");
    assert_eq!((unknown.products, unknown.needed), (0.0, None));
}

/// Each of 32 lanes waits for a line of its own (docs/microbenchmarks.md, `global.apart`), also where the indices are loaded from places
/// that data decides, under a mask.
#[test]
fn words_anywhere_take_a_line_each() {
    let text = |indices: &str| {
        format!(
            "kernel words(i: ptr<i32> align 16, x: ptr<f32> align 16, y: ptr<f32> align 16, n: i32 % 4096, m: i32) {{
                tunable B = 4096
                grid cdiv(n, B)
                gi = view i : i32[n] fill -1
                gx = view x : f32[m]
                gy = view y : f32[n]
                at = iota 0 : i32[B]
                first = block_index * B
                c = {indices}
                store gy[first], load gx[c] : f32[B]
            }}
            mapping words {{ kernel: warps 4 }}"
        )
    };
    let gathers = f64::from(1 << 23) / 32.0 / 132.0;
    for indices in [
        "load gi[first] : i32[B]",
        "load gi[at + load gi[block_index] : i32] : i32[B] where at < n - load gi[block_index] : i32",
    ] {
        let p = predicted_with(&text(indices), &format!("n={},m=262144", 1 << 23), None);
        let each = p.cycles / gathers;
        assert!((56.0..80.0).contains(&each), "{indices}: {each:.1} {p}");
    }
}

/// A gathered row is a row however many rows a thread loads, and rows that a mask leaves out take no time: a fragment of
/// several indices is followed as one is.
#[test]
fn rows_of_several_indices_are_rows() {
    let text = |rows: u32, kept: &str| {
        format!(
            "kernel rows(i: ptr<i32>, s: ptr<i32>, x: ptr<f16> align 16, y: ptr<f32> align 16, n: i32, m: i32) {{
                grid n / {rows}
                gi = view i : i32[n + 64] fill -1
                gs = view s : i32[1]
                gx = view x : f16[m, 128]
                gy = view y : f32[n, 128]
                first = block_index * {rows} + load gs[0] : i32
                zero = full 0.0 : f32[128]
                sum = for t in 0..16 carry a = zero {{
                    at = (iota 0 : i32[{rows}]) + first
                    c = load gi[at] : i32[{rows}] where at < first + {kept}
                    yield a + reduce_sum(cast(load gx[c, 0] : f16[{rows}, 128] where expand_dims(at < first + {kept}, 1), f32), 0)
                }}
                store gy[block_index, 0], expand_dims(sum, 0)
            }}
            mapping rows {{ kernel: warps 4 }}"
        )
    };
    let copies = |rows: u32, kept: &str| {
        let p = predicted_with(&text(rows, kept), &format!("n={},m=262144", 1 << 20), None);
        p.cycles / f64::from((1 << 20) * 16 / 132)
    };
    // Of a row's two lines each takes at most the time of one that stands alone.
    for rows in [16, 32, 64] {
        let each = copies(rows, &rows.to_string());
        assert!((2.0..16.0).contains(&each), "{rows}: {each:.1} cycles a row");
    }
}

/// Weights that no block chooses are not read, so a launch that waits for memory takes the time of those that are.
#[test]
fn weights_that_are_not_chosen_take_no_time() {
    let read = experts("expert = reduce_max(load gg[i*BM] : i32[1], 0)", "");
    let of = |e: u32, held| predicted_with(&read, &format!("m=256,n=4096,k=4096,e={e}"), held);
    let (few, many) = (of(8, Some(3)), of(256, Some(3)));
    assert!((many.cycles / few.cycles - 1.0).abs() < 0.01, "{few} {many}");
    let any = of(256, None).memory / many.memory;
    assert!(
        (1.5..2.5).contains(&any),
        "without data each of two rows of blocks may choose another: {any} {many}"
    );
}
