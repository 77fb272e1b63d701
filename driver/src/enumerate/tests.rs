//! Proposals, choices, and how far they are from everything legal.

use super::*;
use crate::enumerate::forms::COMPILED;
use crate::kernels::{LIBRARY, find};
use crate::predict::compile_and_predict;
use warplift_ir::target::SM90A;
use warplift_ir::tile::{Epilogue, Op, parse_file};

fn kernel(name: &str) -> Kernel {
    find(name).unwrap().parse().unwrap().kernels.remove(0)
}

#[test]
fn proposals_are_complete_and_fit_their_kernel() {
    for (name, least) in [("gemm", 18), ("gemm_chain", 4), ("gemm_dual", 4), ("axpy", 6), ("row_max", 18)] {
        let kernel = kernel(name);
        let all = mappings(&kernel, &SM90A, &Grants::default());
        assert!((least..=28).contains(&all.len()), "{name}: {}", all.len());
        for m in &all {
            assert_eq!(verify_mapping(&kernel, m, &SM90A), Ok(()), "{m}");
            assert!(
                kernel.tunables.values().all(|t| m.tunable(&t.name).is_some() || name == "gemm_chain"),
                "{m}"
            );
        }
    }
}

#[test]
fn large_products_get_a_large_tile_and_a_spread_epilogue() {
    let kernel = kernel("gemm");
    let sizes = Sizes::nominal(&kernel);
    let chosen = choose(&kernel, &sizes, &SM90A, &Options::default(), &Search::default()).unwrap();
    let m = &chosen.best.mapping;
    assert_eq!((m.tunable("BM"), m.tunable("BN")), (Some(128), Some(256)), "{m}");
    assert_eq!((m.whole.epilogue, m.whole.persistent), (Epilogue::Deferred, true), "{m}");
    assert!(chosen.tried.0 >= COMPILED && chosen.best.cycles.is_finite(), "{:?}", chosen.tried);
}

/// Measured on 8192 x 8192 x 8192: instructions of 112 to 160 columns cost 4 to 8% by power, boxes with rows of 32 bytes 60%
/// by requests to the L2.
#[test]
fn large_products_take_wide_instructions_whatever_the_order_of_their_operands() {
    for name in ["gemm", "gemm_nn", "gemm_tn", "gemm_tt", "gemm_e4m3"] {
        let kernel = kernel(name);
        let sizes = Sizes::nominal(&kernel).overridden(&kernel, "8192x8192x8192").unwrap();
        let chosen = choose(&kernel, &sizes, &SM90A, &Options::default(), &Search::default()).unwrap();
        let m = &chosen.best.mapping;
        assert_eq!((m.tunable("BM"), m.tunable("BN")), (Some(128), Some(256)), "{name}: {m}");
    }
}

/// Heads of 64: four warpgroups on 256 queries were measured 5 to 20% faster than three on 192.
#[test]
fn narrow_heads_take_four_warpgroups() {
    let kernel = kernel("attention");
    let sizes = "batch=4,heads=32,queries=4096,keys=4096,scale=0.1";
    let sizes = Sizes::nominal(&kernel).overridden(&kernel, sizes).unwrap();
    let search = Search { defines: vec![("D".into(), 64)], ..Search::default() };
    let chosen = choose(&kernel, &sizes, &SM90A, &Options::default(), &search).unwrap();
    assert_eq!(chosen.best.mapping.tunable("BM"), Some(256), "{}", chosen.best.mapping);
}

#[test]
fn power_costs_only_what_it_takes_from_the_clock() {
    let of = |work, power| rough::slowed(1000.0, work, power, &SM90A);
    assert_eq!(of(0.0, 1.5), 1000.0, "the clock is at its top");
    let full = SM90A.clocks.top / SM90A.clocks.products.burst;
    assert!((of(1.0, 1.5) / (1500.0 * full) - 1.0).abs() < 1e-9, "{}", of(1.0, 1.5));
    assert!(of(0.9, 1.0) / of(1.0, 1.0) < 0.97, "multiprocessors that wait leave power to the others");
    assert_eq!(rough::oriented([112, 256], 2), [256, 112], "112 rows are no warpgroup's: transposed");
    assert_eq!(rough::oriented([128, 224], 2), [128, 224]);
}

#[test]
fn what_says_what_is_computed_stays() {
    for (name, tunable, value) in [("attention", "D", 128), ("a16w4", "GROUP", 128), ("softmax", "BN", 4096)]
    {
        let kernel = kernel(name);
        let all = mappings(&kernel, &SM90A, &Grants::default());
        let kept = |m: &Mapping| m.tunable(tunable).is_none_or(|v| v == value);
        assert!(!all.is_empty() && all.iter().all(kept), "{name}: {all:?}");
    }
}

/// A list of blocks counts them in the unit that the text says.
#[test]
fn what_numbers_from_memory_count_in_stays() {
    let text = |of: &str| {
        format!(
            "kernel k(x: ptr<f16> align 16, y: ptr<f16> align 16, list: ptr<i32>, z: ptr<f32> align 16, m: i32, n: i32) {{
                tunable BM in {{64, 128}} = 64, BN in {{64, 128}} = 64
                grid cdiv(m, BM)
                gx = view x : f16[m, n]  gy = view y : f16[n, 64]
                gl = view list : i32[n]  gz = view z : f32[m, 64]
                i = block_index
                acc = for t in 0..cdiv(n, BN) carry a = full 0.0 : f32[BM, 64] {{
                    at = {of}
                    yield mma a, load gx[i*BM, at] : f16[BM, BN], load gy[at, 0] : f16[BN, 64]
                }}
                store gz[i*BM, 0], acc
            }}"
        )
    };
    let settable = |of: &str| {
        let kernel = parse_file(&text(of), "k.tile").unwrap().kernels.remove(0);
        let may = propose::settable(&kernel);
        may.into_iter().map(|t| kernel.tunables[t].name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(settable("t*BN"), ["BM", "BN"]);
    assert_eq!(settable("(load gl[t] : i32) * BN"), ["BM"]);
}

#[test]
fn narrow_weights_are_packed_where_that_is_granted_and_the_planner_decides_on_their_scales() {
    let kernel = kernel("a16w4");
    let unasked = mappings(&kernel, &SM90A, &Grants::default());
    assert!(unasked.len() >= 4 && !unasked.iter().any(is_packed), "{unasked:?}");
    let all = mappings(&kernel, &SM90A, &Grants::packing(&kernel));
    let way = |m: &Mapping, array: &str| m.arrays.iter().find(|a| a.0 == array).map(|a| a.1.way);
    let both = |m: &&Mapping| (way(m, "w"), way(m, "s")) == (Some(Way::Packed), None);
    assert!(all.iter().any(|m| m.arrays.is_empty()) && all.iter().filter(both).count() >= 4, "{all:?}");
}

/// Threads hold no whole register of a zero point for each row: it comes as it lies, and nobody is asked to pack it.
#[test]
fn columns_are_not_packed() {
    let text = include_str!("../../kernels/a16w4.tile")
        .replace("s: ptr<f16> align 16,", "s: ptr<f16> align 16, z: ptr<u4> align 16,")
        .replace("gy =", "gz = view z : u4[n, cdiv(k, GROUP)] strides [1, n] gy =")
        .replace("tx =", "zero_point = load gz[i*BN, t] : u4[BN, 1] tx =")
        .replace("- 8.0", "- cast(zero_point, f16)");
    let kernel = parse_file(&text, "zeros.tile").unwrap().kernels.remove(0);
    assert_eq!(propose::packable_arrays(&kernel), ["w"]);
    let mut grants = Grants::packing(&kernel);
    grants.add("z", true, false);
    let all = mappings(&kernel, &SM90A, &grants);
    let way = |m: &Mapping, array: &str| m.arrays.iter().find(|a| a.0 == array).map(|a| a.1.way);
    assert!(all.iter().any(|m| way(m, "w") == Some(Way::Packed)), "{all:?}");
    assert!(all.iter().all(|m| way(m, "z") != Some(Way::Packed)), "{all:?}");
}

/// A mask chooses among products of operands, it is no operand: tiles are those of the kernel without it.
#[test]
fn masks_of_bytes_are_no_weights() {
    let text = |mask: &str| {
        format!(
            "kernel k(a: ptr<f16> align 16, b: ptr<f16> align 16, mask: ptr<u8> align 16, c: ptr<f16> align 16, n: i32 % 16) {{
                grid 1
                ga = view a : f16[64, 64]  gb = view b : f16[n, 64]  gm = view mask : u8[n]  gc = view c : f16[64, 64]
                zero = full 0.0 : f32[64, 64]
                ta = load ga[0, 0] : f16[64, 64]
                acc = for t in 0..cdiv(n, 64) carry x = zero {{
                    tb = load gb[t*64, 0] : f16[64, 64]
                    tm = expand_dims(load gm[t*64] : u8[64], {mask}
                }}
                store gc[0, 0], cast(acc, f16)
            }}"
        )
    };
    let narrow = |mask: &str| {
        let kernel = parse_file(&text(mask), "masks.tile").unwrap().kernels.remove(0);
        propose::packable_arrays(&kernel)
    };
    let scores = "0)
        s = mma zero, ta, trans(tb)
        yield mma x, cast(select(tm != 0, s, 0.0), f16), tb";
    assert_eq!(narrow(scores), Vec::<String>::new());
    assert_eq!(narrow("1)\n yield mma x, ta, trans(tb * cast(tm, f16))"), ["mask"]);
}

/// Keys and values of 8 bits: tiles are those of products that follow each other, not those of weights and few tokens, and
/// both operands of the second keep their sides. The same arrays of 16 bits take a part of it.
#[test]
fn narrow_operands_of_products_that_follow_each_other_have_their_tiles() {
    let text = |ty: &str, tile: fn(&str, &str) -> String| {
        let [k, v] = ["k", "v"].map(|of| tile(&format!("load g{of}[t*BN, 0] : {ty}[BN, 128]"), "bf16"));
        let text = format!(
            "kernel k(q: ptr<bf16> align 16, k: ptr<{ty}> align 16, v: ptr<{ty}> align 16, o: ptr<bf16> align 16, n: i32) {{
                tunable BM in 16..=256 step 8 = 128, BN in 16..=256 step 8 = 128
                grid cdiv(n, BM), 64
                i, head = block_index
                aq = view q : bf16[n, 64, 128]  ak = view k : {ty}[n, 64, 128]
                av = view v : {ty}[n, 64, 128]  ao = view o : bf16[n, 64, 128]
                gq = subview aq[_, head, _]  gk = subview ak[_, head, _]
                gv = subview av[_, head, _]  go = subview ao[_, head, _]
                tq = load gq[i*BM, 0] : bf16[BM, 128]
                zero = full 0.0 : f32[BM, BN]
                acc = for t in 0..cdiv(n, BN) carry x = (full 0.0 : f32[BM, 128]) {{
                    s = mma zero, tq, trans({k})
                    yield mma x, cast(max(s, 0.0), bf16), {v}
                }}
                store go[i*BM, 0], cast(acc, bf16)
            }}"
        );
        parse_file(&text, "k.tile").unwrap().kernels.remove(0)
    };
    let cycles = |kernel: &Kernel| {
        let sizes = Sizes::nominal(kernel).overridden(kernel, "n=4096").unwrap();
        let found = choose(kernel, &sizes, &SM90A, &Options::default(), &Search::default()).unwrap();
        (found.best.cycles, found.best.mapping)
    };
    let plain = cycles(&text("bf16", |load, _| load.to_owned())).0;
    for ty in ["f8e4m3", "i8"] {
        let (narrow, mapping) = cycles(&text(ty, |load, to| format!("cast(({load}), {to})")));
        assert!(mapping.tunable("BM") >= Some(128), "{mapping}");
        assert!(narrow < 2.8 * plain, "{ty}: {narrow} of {plain}, {mapping}");
    }
}

#[test]
fn what_asks_something_of_the_caller_is_chosen_only_where_granted() {
    let module = find("a16w4").unwrap().parse().unwrap();
    let kernel = &module.kernels[0];
    let text = "m=16,n=6144,k=4096";
    let sizes = Sizes::nominal(kernel).overridden(kernel, text).unwrap();
    let with = |grants: Grants, tuned| {
        let search = Search { grants, tuned, ..Search::default() };
        choose(kernel, &sizes, &SM90A, &Options::default(), &search).unwrap()
    };
    let own = Grants::of(&module.mappings);
    let granted = with(own.clone(), None);
    let found = &granted.best.mapping;
    let w = found.arrays.iter().find(|a| a.0 == "w").unwrap().1;
    assert!(w.way == Way::Packed && w.before_wait && found.whole.pdl, "{found}");
    assert!(own.allow(found) && !Grants::default().allow(found));
    let unasked = with(Grants::default(), None);
    assert!(Grants::default().allow(&unasked.best.mapping), "{}", unasked.best.mapping);
    assert!(unasked.to_string().contains("w as it lies, since `packed` is not granted"), "{unasked}");
    assert!(unasked.best.cycles < 1.25 * granted.best.cycles, "{unasked}");
    let mut tuned = Tunings::default();
    tuned.add(kernel, &SM90A, text, found, crate::tuning::Took::Predicted(1.0));
    let tuned = with(Grants::default(), Some(Arc::new(tuned)));
    assert!(Grants::default().allow(&tuned.best.mapping), "{}", tuned.best.mapping);
}

/// Short launches begin under the one before, and those that device memory bounds do not.
#[test]
fn launches_begin_early_where_a_stream_gains() {
    let kernel = kernel("gemm");
    let early = |text: &str| {
        let sizes = Sizes::nominal(&kernel).overridden(&kernel, text).unwrap();
        let search = Search::default();
        choose(&kernel, &sizes, &SM90A, &Options::default(), &search).unwrap().best.mapping.whole.pdl
    };
    assert!(early("m=1024,n=1024,k=1024"));
    assert!(!early("m=64,n=4096,k=7168") && !early("m=4096,n=4096,k=4096"));
}

/// Few rows take narrow tiles and blocks that share out the loop, whatever threads do beside the products: a sum of each row,
/// scales of each 128 columns, an operand that they compute.
#[test]
fn products_beside_other_work_have_all_forms() {
    let relu = "kernel relu(a: ptr<f16> align 16, b: ptr<f16> align 16, c: ptr<f16> align 16,
        m: i32, n: i32 % 8, k: i32 % 8) {
        tunable BM in 16..=256 step 8 = 128, BN in 16..=256 step 8 = 128, BK in {64, 128} = 64
        grid cdiv(m, BM), cdiv(n, BN)
        ga = view a : f16[m, k]  gb = view b : f16[n, k]  gc = view c : f16[m, n]
        i, j = block_index
        acc = for t in 0..cdiv(k, BK) carry x = full 0.0 : f32[BM, BN] {
            yield mma x, max(load ga[i*BM, t*BK] : f16[BM, BK], 0.0), trans(load gb[j*BN, t*BK] : f16[BN, BK])
        }
        store gc[i*BM, j*BN], cast(acc, f16)
    }";
    let relu = parse_file(relu, "").unwrap().kernels.remove(0);
    for (kernel, text, over) in [
        (kernel("gemm_rowsum"), "m=16,n=4096,k=4096", 1.5),
        (kernel("gemm_e4m3_blocks"), "m=16,n=4096,k=7168", 1.3),
        (relu.clone(), "m=16,n=4096,k=4096", 1.3),
        (relu, "m=4096,n=4096,k=4096", 1.2),
        (kernel("a16w8"), "m=2048,n=4096,k=4096", 1.9),
    ] {
        let sizes = Sizes::nominal(&kernel).overridden(&kernel, text).unwrap();
        let chosen = choose(&kernel, &sizes, &SM90A, &Options::default(), &Search::default()).unwrap();
        let best = chosen.best.prediction.as_ref().unwrap();
        assert!(best.cycles < over * best.floor.cycles, "{text}: {best} {chosen} {}", chosen.best.mapping);
        assert!(chosen.tried.1 <= 30, "{chosen}");
    }
}

/// A product whose depth is loaded is chosen for the trips that its prediction assumes.
#[test]
fn trips_that_memory_decides_count() {
    let text = "kernel ragged(a: ptr<f16> align 16, b: ptr<f16> align 16, depth: ptr<i32>, c: ptr<f16> align 16,
        batch: i32, m: i32 % 8, n: i32 % 8, k: i32 % 8) {
        tunable BM = 128, BN = 128, BK = 64
        grid cdiv(m, BM), cdiv(n, BN), batch
        all_a = view a : f16[batch, m, k]  all_b = view b : f16[batch, n, k]  all_c = view c : f16[batch, m, n]
        gd = view depth : i32[batch]
        i, j, z = block_index
        ga = subview all_a[z, _, _]  gb = subview all_b[z, _, _]  gc = subview all_c[z, _, _]
        own = load gd[z] : i32
        acc = for t in 0..cdiv(min(own, k), BK) carry x = full 0.0 : f32[BM, BN] {
            yield mma x, load ga[i*BM, t*BK] : f16[BM, BK], trans(load gb[j*BN, t*BK] : f16[BN, BK])
        }
        store gc[i*BM, j*BN], cast(acc, f16)
    }";
    let kernel = parse_file(text, "").unwrap().kernels.remove(0);
    let sizes = Sizes::parse(&kernel, "batch=16,m=2048,n=2048,k=2048").unwrap();
    let best = choose(&kernel, &sizes, &SM90A, &Options::default(), &Search::default()).unwrap().best;
    let extent = |name| best.mapping.tunable(name).unwrap();
    assert!(extent("BM") * extent("BN") >= 128 * 128, "{}", best.mapping);
    assert!(best.prediction.is_some());
}

/// Blocks of 64 elements take longer to launch than to compute: the way to larger ones goes from proposal to proposal.
#[test]
fn a_choice_without_products_goes_on_from_its_proposals() {
    let text = "kernel twice(x: ptr<f16> align 16, y: ptr<f16> align 16, n: i32 % 8) {
        tunable B = 64
        grid cdiv(n, B)
        gx = view x : f16[n]  gy = view y : f16[n]  i = block_index
        store gy[i*B], (load gx[i*B] : f16[B]) * 2.0 }";
    let kernel = parse_file(text, "").unwrap().kernels.remove(0);
    let sizes = Sizes::parse(&kernel, "n=16777216").unwrap();
    let chosen = choose(&kernel, &sizes, &SM90A, &Options::default(), &Search::default()).unwrap();
    assert!(chosen.best.mapping.tunable("B") >= Some(512), "{chosen}");
    let first = chosen.others.iter().find(|c| c.mapping.tunable("B") == Some(64)).unwrap();
    assert!(first.cycles > 1.5 * chosen.best.cycles, "{}", first.cycles);
    let kernel = find("row_sum").unwrap().parse().unwrap().kernels.remove(0);
    let defines = vec![("BN".into(), 64), ("BM".into(), 2)];
    let sizes = Sizes::nominal(&kernel);
    let search = Search { defines, ..Search::default() };
    let given = choose(&kernel, &sizes, &SM90A, &Options::default(), &search).unwrap().best.mapping;
    assert_eq!((given.tunable("BN"), given.tunable("BM")), (Some(64), Some(2)), "{given}");
    let first = &mappings(&kernel, &SM90A, &Grants::default())[0];
    let steps = climb::neighbours(&kernel, first, (&sizes, &SM90A));
    let differ = |m: &Mapping| steps.iter().filter(|other| *other == m).count() == 1;
    assert!(steps.len() >= 4 && steps.iter().all(differ), "{steps:?}");
}

/// Predicted cycles of the proposed mapping, divided by those of the file's own mapping. Both are for nominal
/// sizes.
fn against_own(kernel: &Kernel, own: &Mapping) -> f64 {
    let options = Options::default();
    let sizes = Sizes::nominal(kernel);
    let search = Search { grants: Grants::packing(kernel), ..Search::default() };
    let auto = choose(kernel, &sizes, &SM90A, &options, &search);
    let auto = auto.unwrap_or_else(|e| panic!("{}: {e}", kernel.name));
    let (compiled, walked) = compile_and_predict(kernel, own, &SM90A, &sizes, &options).unwrap();
    let rough = || rough::predict(kernel, own, &compiled, &SM90A, &sizes);
    let own = walked.map_or_else(rough, |p| slowed(&p, kernel, own, &SM90A, &sizes));
    let (tried, proposed) = auto.tried;
    println!("{:<26} {:.2} {tried}/{proposed} {:?}", kernel.name, auto.best.cycles / own, auto.elapsed);
    auto.best.cycles / own
}

#[test]
fn proposed_mappings_are_near_the_best_known_by_the_model() {
    let far = LIBRARY.iter().filter_map(|k| {
        let module = k.parse().unwrap();
        let kernel = &module.kernels[0];
        let ratio = against_own(kernel, module.mapping(&kernel.name).unwrap());
        (ratio > 1.15).then(|| format!("{}: {ratio:.2}", kernel.name))
    });
    let far: Vec<String> = far.collect();
    assert!(far.is_empty(), "{far:?}");
}

/// A product whose tunables have few values, so that everything legal can be tried.
const SMALL: &str = "kernel g(a: ptr<f16> align 16, b: ptr<f16> align 16, c: ptr<f16> align 16,
    m: i32, n: i32 % 8, k: i32 % 8) {
    tunable BM in {16, 64, 128} = 128, BN in {32, 64, 128, 256} = 128, BK in {64, 128} = 64
    grid cdiv(m, BM), cdiv(n, BN)
    ga = view a : f16[m, k]
    gb = view b : f16[n, k]
    gc = view c : f16[m, n]
    i, j = block_index
    acc = for t in 0..cdiv(k, BK) carry x = full 0.0 : f32[BM, BN] {
        yield mma x, load ga[i*BM, t*BK] : f16[BM, BK], trans(load gb[j*BN, t*BK] : f16[BN, BK])
    }
    store gc[i*BM, j*BN], cast(acc, f16)
}";

#[test]
fn the_choice_is_near_the_best_of_everything_legal() {
    let kernel = parse_file(SMALL, "").unwrap().kernels.remove(0);
    let sizes = |text| Sizes::nominal(&kernel).overridden(&kernel, text).unwrap();
    let search = |exhaustive| Search { exhaustive, ..Search::default() };
    for text in ["1x2048x512", "200x520x1024", "1024x1024x256", "2048x2048x512"] {
        let by = |exhaustive| {
            choose(&kernel, &sizes(text), &SM90A, &Options::default(), &search(exhaustive)).unwrap()
        };
        let (chosen, all) = (by(false), by(true));
        assert!(all.tried.0 > 3 * chosen.tried.0 && all.passed_over == 0, "{text}: {all} {chosen}");
        let (a, b) = (&chosen.best, &all.best);
        println!("{text} {:.3} {chosen}", a.cycles / b.cycles);
        assert!(
            a.cycles <= 1.1 * b.cycles,
            "{text}: {:.0} of {:.0}, {} {}",
            a.cycles,
            b.cycles,
            a.mapping,
            b.mapping
        );
    }
}

#[test]
fn a_choice_sees_the_sizes() {
    let kernel = kernel("gemm");
    let tile = |text| {
        let sizes = Sizes::nominal(&kernel).overridden(&kernel, text).unwrap();
        let chosen = choose(&kernel, &sizes, &SM90A, &Options::default(), &Search::default()).unwrap();
        let extent = |name| chosen.best.mapping.tunable(name).unwrap();
        (extent("BM"), extent("BM") * extent("BN"), chosen.best.prediction.unwrap())
    };
    let (rows, _, one) = tile("1x8192x8192");
    assert!(rows <= 16 && one.cycles <= 1.05 * one.floor.cycles, "{rows}: {one}");
    let (_, elements, large) = tile("8192x8192x4096");
    assert!(elements >= 128 * 128 && large.cycles <= 1.1 * large.floor.cycles, "{elements}: {large}");
}

/// Tiles of 128 x 256 for 1.1 waves, in long loops: programs share out their iterations. In whole waves they do not, and
/// neither where another tile fills its waves.
#[test]
fn a_part_of_a_wave_is_shared_out() {
    let kernel = kernel("gemm");
    let large = [("BM", 128), ("BN", 256)].map(|(name, value)| (name.to_owned(), value)).to_vec();
    for (text, defines, streams) in [
        ("2048x2176x4096", large.clone(), true),
        ("4096x4096x4096", large, false),
        ("2048x2176x4096", Vec::new(), false),
    ] {
        let sizes = Sizes::nominal(&kernel).overridden(&kernel, text).unwrap();
        let search = Search { defines, ..Search::default() };
        let chosen = choose(&kernel, &sizes, &SM90A, &Options::default(), &search).unwrap();
        assert_eq!(chosen.best.mapping.is_streamed(), streams, "{text} {}", chosen.best.mapping);
    }
}

/// Nothing promises where rows begin: threads bring the operands, one element at a time, by two or without registers.
#[test]
fn operands_that_threads_bring_take_registers_and_time() {
    let text = find("gemm_any").unwrap().text;
    let with = |facts: [&str; 2]| {
        let text = text.replace("ptr<f16>", &format!("ptr<f16>{}", facts[0]));
        let text = text.replace("k: i32", &format!("k: i32{}", facts[1]));
        parse_file(&text, "t.tile").unwrap().kernels.remove(0)
    };
    let loads = |k: &Kernel| {
        let own = Mapping { kernel: k.name.clone(), ..Mapping::default() };
        let resolved = warplift_isel::map::do_tunables(k, &own).unwrap();
        let loads = resolved.insts.keys().filter(|&i| matches!(resolved.insts[i].op, Op::Load));
        let all: Vec<_> = loads.map(|i| warplift_isel::thread_loads(&resolved, i)).collect();
        all.iter().map(|l| l.map(|l| (l.elements, l.through_registers))).collect::<Vec<_>>()
    };
    assert_eq!(loads(&with(["", ""])), [Some((1, true)); 2]);
    assert_eq!(loads(&with([" align 4", " % 2"])), [Some((2, false)); 2]);
    assert_eq!(loads(&with([" align 16", " % 8"])), [None; 2]);
    let chosen = chosen(&with(["", ""]), "4096x4096x4096");
    let m = &chosen.best.mapping;
    assert_eq!((m.tunable("BM"), m.tunable("BN"), m.tunable("BK")), (Some(128), Some(128), Some(64)), "{m}");
    // Tiles whose operands do not fit the registers on their way are not compiled.
    assert!(chosen.tried.1 <= 8, "{:?}", chosen.tried);
}

fn chosen(kernel: &Kernel, sizes: &str) -> Chosen {
    let sizes = Sizes::nominal(kernel).overridden(kernel, sizes).unwrap();
    choose(kernel, &sizes, &SM90A, &Options::default(), &Search::default()).unwrap()
}

/// Also without products, and where the grid has three dimensions already.
#[test]
fn few_blocks_share_out_what_only_adds_up() {
    for (name, sizes, gain) in [("row_sum", "m=1,n=10000000", 5.0), ("gemm_batched", "3x16x16x65536", 4.0)] {
        let all = chosen(&kernel(name), sizes);
        assert!(all.best.mapping.is_shared_out(), "{name}: {}", all.best.mapping);
        let whole = all.others.iter().filter(|c| !c.mapping.is_shared_out()).map(|c| c.cycles);
        assert!(whole.fold(f64::INFINITY, f64::min) > gain * all.best.cycles, "{name}");
    }
}

/// Of 1024 columns 32 are there: tiles become as narrow, and as many rows higher.
#[test]
fn tiles_are_no_wider_than_their_arrays() {
    let best = chosen(&kernel("embedding"), "m=1000000,v=1000000,n=32").best.mapping;
    assert!(best.tunable("BN") == Some(32) && best.tunable("BM") > Some(32), "{best}");
}

/// `n % BN == 0` is asked of whoever launches it, so sizes decide which values of BN may be chosen.
#[test]
fn what_is_promised_of_sizes_holds_for_the_choice() {
    let text = "kernel rows(x: ptr<f32> align 16, y: ptr<f32> align 16, m: i32, n: i32 % 64) {
        tunable BM in {1, 2, 4} = 4, BN in {64, 128, 256, 512, 1024} = 1024
        grid cdiv(m, BM)
        assert n % BN == 0
        gx = view x : f32[m, n]  gy = view y : f32[m]  i = block_index
        s = for t in 0..n / BN carry s0 = full 0.0 : f32[BM] {
            yield s0 + reduce_sum(load gx[i*BM, t*BN] : f32[BM, BN], 1)
        }
        store gy[i*BM], s }";
    let kernel = parse_file(text, "").unwrap().kernels.remove(0);
    for n in [192, 512, 1024] {
        let all = chosen(&kernel, &format!("m=65536,n={n}"));
        let holds = |m: &Mapping| n % m.tunable("BN").unwrap_or(1024) == 0;
        assert!(all.candidates().all(|c| holds(&c.mapping)), "{n}");
    }
    // What no value keeps is for the launch to refuse.
    assert!(!chosen(&kernel, "m=64,n=100").others.is_empty());
}

#[test]
fn floors_are_below_predictions() {
    for (name, sizes, least) in [
        ("gemm", &["8x4096x4096", "512x512x512", "3000x3000x1000"][..], 1000),
        ("a16w4", &["1x4096x4096", "48x3584x5120"], 10),
    ] {
        let kernel = kernel(name);
        for text in sizes {
            let sizes = Sizes::nominal(&kernel).overridden(&kernel, text).unwrap();
            let (proposals, left_out) = proposals(&kernel, Launch::from(&sizes), &SM90A, &Search::default());
            assert!(left_out > least, "{name} {text}: {left_out}");
            for p in proposals.iter().filter(|p| p.form.is_some()) {
                let made = compile_and_predict(&kernel, &p.mapping, &SM90A, &sizes, &Options::default());
                let Ok((_, Some(walked))) = made else { continue };
                assert!(p.floor <= 1.001 * walked.cycles, "{text}: {:.0} {walked}{}", p.floor, p.mapping);
            }
        }
    }
}

#[test]
fn what_was_tuned_is_taken_and_a_search_that_is_stopped_takes_what_it_has() {
    let kernel = kernel("gemm");
    let sizes = Sizes::nominal(&kernel).overridden(&kernel, "64x4096x7168").unwrap();
    let text = "mapping gemm { BM = 64, BN = 64, BK = 64 for t: pipeline 3, consumers 1 }";
    let mapping = parse_file(text, "").unwrap().mappings.remove(0);
    let mut tuned = Tunings::default();
    tuned.add(&kernel, &SM90A, "m=1..64,n=4096,k=7168", &mapping, crate::tuning::Took::Predicted(1.0));
    let tuned = Some(Arc::new(tuned));
    let with = |search: &Search| choose(&kernel, &sizes, &SM90A, &Options::default(), search).unwrap();
    let found = with(&Search { tuned: tuned.clone(), ..Search::default() });
    assert_eq!((found.best.mapping.to_string(), found.tried), (mapping.to_string(), (1, 1)));
    // Another value of a tunable is asked for.
    let defines = vec![("BM".to_owned(), 128)];
    let stop = Some(Arc::new(AtomicBool::new(true)));
    let other = with(&Search { tuned, defines, stop, ..Search::default() });
    assert_eq!((other.best.mapping.tunable("BM"), other.tried.0), (Some(128), 1));
    assert!(other.skipped > 0, "{other}");
}

#[test]
fn values_that_are_given_stay() {
    let kernel = kernel("gemm");
    let search = Search { defines: vec![("BM".into(), 128), ("BK".into(), 32)], ..Search::default() };
    let sizes = Sizes::nominal(&kernel).overridden(&kernel, "1x4096x4096").unwrap();
    let (proposals, _) = proposals(&kernel, Launch::from(&sizes), &SM90A, &search);
    let given = |m: &Mapping| (m.tunable("BM"), m.tunable("BK")) == (Some(128), Some(32));
    assert!(proposals.len() > COMPILED && proposals.iter().all(|p| given(&p.mapping)));
}

#[test]
fn what_does_not_compile_is_passed_over() {
    let kernel = kernel("axpy");
    let bad = Mapping { kernel: "other".into(), ..Default::default() };
    let good = Mapping { kernel: "axpy".into(), ..Default::default() };
    let chosen = best(&kernel, &[bad.clone(), good.clone()], &SM90A, &Options::default()).unwrap();
    assert_eq!((chosen.best.mapping, chosen.tried), (good, (1, 2)));
    assert!(best(&kernel, &[bad], &SM90A, &Options::default()).is_err());
    let words = ["kernel: warps 33", "B = 0", "kernel: warps 34"];
    let wrong = words.map(|w| parse_file(&format!("mapping axpy {{ {w} }}"), "").unwrap().mappings.remove(0));
    let error = best(&kernel, &wrong, &SM90A, &Options::default()).err().unwrap().to_string();
    assert!(error.starts_with("none of the 3 mappings that were proposed compiles"), "{error}");
    assert!(error.contains("\n  2 of them: 1:24: `warps 33`: 1 to 32"), "{error}");
    assert!(error.contains("\n  1 of them: 1:16: "), "{error}");
    assert!(best(&kernel, &[], &SM90A, &Options::default()).is_err());
}

#[test]
fn a_choice_is_bounded_and_says_what_it_left_out() {
    let kernel = kernel("gemm");
    let all = mappings(&kernel, &SM90A, &Grants::default());
    let within = |bounds| best_within(&kernel, &all, &SM90A, &Options::default(), bounds).unwrap();
    let late = within(Bounds { time: Duration::ZERO, ..Bounds::NONE });
    assert_eq!((late.tried.0, late.skipped), (1, all.len() - 1));
    assert!(late.to_string().contains(&format!("{} more were not tried", all.len() - 1)), "{late}");
    let short = within(Bounds { walks: 0, ..Bounds::NONE });
    assert_eq!(short.rough, short.tried.0);
    assert!(short.to_string().contains("none of them has a prediction"), "{short}");
    let whole = within(Bounds::NONE);
    assert_eq!((whole.rough, whole.skipped), (0, 0), "{whole}");
    let near = |a: &Candidate, b: &Candidate| a.cycles <= 1.1 * b.cycles;
    assert!(whole.others.is_sorted_by(near) && near(&whole.best, &whole.others[0]));
}

/// A mapping is chosen for the trips that an array gives: rows of 40 elements do not want the threads of long ones.
#[test]
fn the_choice_follows_given_arrays() {
    let text = "kernel jagged(x: ptr<f32> align 16, ends: ptr<i32>, y: ptr<f32>, m: i32, n: i32 % 64) {
        tunable B in {64, 256, 1024} = 256
        grid m
        gx = view x : f32[m, n]
        ge = view ends : i32[m]
        gy = view y : f32[m]
        i = block_index
        s = for t in 0..cdiv(load ge[i] : i32, B) carry c = full 0.0 : f32[1, B] { yield c + load gx[i, t*B] : f32[1, B] }
        store gy[i], reduce_sum(s, 1)
    }";
    let kernel = parse_file(text, "").unwrap().kernels.remove(0);
    let sizes = Sizes::parse(&kernel, "m=4096,n=65536").unwrap();
    let of = |end: Option<i32>| {
        let bytes = |end: i32| std::iter::repeat_n(end.to_le_bytes(), 4096).flatten().collect();
        let arrays: Arrays = end.map(|end| ("ends".to_owned(), bytes(end))).into_iter().collect();
        let search = Search { arrays: Arc::new(arrays), ..Search::default() };
        choose(&kernel, &sizes, &SM90A, &Options::default(), &search).unwrap().best
    };
    let [unknown, short, long] = [None, Some(40), Some(65536)].map(of);
    let assumed = |c: &Candidate| c.prediction.as_ref().is_some_and(|p| !p.assumed.is_empty());
    assert_eq!([&unknown, &short, &long].map(assumed), [true, false, false]);
    assert!(long.cycles > 20.0 * short.cycles, "{} {}", long.cycles, short.cycles);
    assert!(short.mapping != long.mapping, "{}", short.mapping);
}

/// Where memory decides the work on a tile, programs that draw their tiles are among the proposals.
#[test]
fn tiles_are_drawn_where_memory_decides_their_work() {
    let drawn = |name: &str| {
        let all = mappings(&kernel(name), &SM90A, &Grants::default());
        all.iter().filter(|m| m.whole.counter).count()
    };
    assert!(drawn("attention_varlen") > 0);
    assert_eq!(drawn("attention") + drawn("gemm"), 0);
}

/// Rows of 32,768 and 65,536 columns take most registers of a multiprocessor where they stay there: other ways are found. The
/// library's own mappings are at 1.00 to 1.21 of the floor, the greatest of them layer norm's of 65,536 columns.
#[test]
fn long_rows_are_chosen_other_ways() {
    let far = ["softmax", "rms_norm", "layer_norm"].iter().flat_map(|name| {
        [16384, 32768, 65536].map(|columns| {
            let module = find(name).unwrap().parse().unwrap();
            let kernel = &module.kernels[0];
            let rows = (1 << 25) / columns;
            let sizes = Sizes::parse(kernel, &format!("m={rows},n={columns}")).unwrap();
            let search = Search { defines: vec![("BN".into(), columns)], ..Search::default() };
            let chosen = choose(kernel, &sizes, &SM90A, &Options::default(), &search).unwrap();
            let floor = chosen.best.prediction.as_ref().unwrap().floor.cycles;
            (chosen.best.cycles / floor, format!("{name} {columns}: {}", chosen.best.mapping))
        })
    });
    let far: Vec<(f64, String)> = far.filter(|(ratio, _)| *ratio > 1.22).collect();
    assert!(far.is_empty(), "{far:?}");
}
