//! What a schedule may choose, chosen by mappings and executed by the simulator as emitted: products in
//! flight over an iteration, operands multicast over a cluster. No hazard, and the interpreter's numbers.

use warplift::ir::target::SM90A;
use warplift::ir::tile::{Kernel, Mapping, parse_file};
use warplift::sim::{self, Adversary};
use warplift::{Options, compile};
use warplift_golden::library::{load, reference};

const ORDERS: [(u64, Adversary); 4] =
    [(1, Adversary::Earliest), (2, Adversary::Latest), (3, Adversary::Random), (4, Adversary::Random)];

/// A kernel of the library under a mapping written as text.
fn remapped(name: &str, mapping: &str) -> (Kernel, Mapping) {
    let (kernel, _) = load(name);
    let text = format!("{kernel}\nmapping {name} {{\n{mapping}\n}}\n");
    let mut m = parse_file(&text, "test.tile").unwrap_or_else(|e| panic!("{e:?}\n{text}"));
    (kernel, m.mappings.remove(0))
}

fn check(name: &str, mapping: &str, size: &[(&str, i64)], sms: u32) {
    let (kernel, mapped) = remapped(name, mapping);
    let options = Options { verify: true, ..Options::default() };
    let compiled =
        compile(&kernel, &mapped, &SM90A, &options).unwrap_or_else(|e| panic!("{name} {mapping}: {e}"));
    let problem = reference(&kernel, &mapped, size, 5);
    for (seed, order) in ORDERS {
        let options = sim::Options { seed, order, ..sim::Options::default() };
        let run = problem.simulate(&compiled.ptx, &compiled.manifest, &options, sms);
        let (have, report) = run.unwrap_or_else(|e| panic!("{name} {mapping} {size:?} {order:?}: {e}"));
        assert!(report.hazards.is_empty(), "{name} {mapping} {size:?}: {:?}", report.hazards);
        assert_eq!(problem.difference(&have), None, "{name} {mapping} {size:?} {order:?}");
    }
}

#[test]
fn products_in_flight_over_an_iteration() {
    let one = "BM = 64, BN = 64, BK = 32\nfor t: pipeline 2, consumers 1\nkernel: persistent";
    for k in [8, 40, 96, 200] {
        check("gemm", one, &[("m", 136), ("n", 136), ("k", k)], 2);
    }
    let two = "BM = 128, BN = 64, BK = 32\nfor t: pipeline 3, consumers 2, wait 1\nkernel: persistent, epilogue deferred";
    check("gemm", two, &[("m", 264), ("n", 136), ("k", 104)], 2);
    let deferred = "BM = 64, BN = 256, BK = 32\nfor t: consumers 1\nkernel: persistent, epilogue deferred";
    check("gemm", deferred, &[("m", 136), ("n", 264), ("k", 168)], 2);
    let dual = "BM = 64, BN = 64, BK = 32\nfor t: pipeline 3, consumers 1\nkernel: persistent";
    check("gemm_dual", dual, &[("m", 136), ("n", 72), ("k", 104)], 2);
}

#[test]
fn operands_multicast_over_a_cluster() {
    let persistent =
        "BM = 64, BN = 64, BK = 32\nfor t: pipeline 3, consumers 1\nkernel: persistent, cluster 2";
    // One tile and a padding block; an odd number of tiles along m; more tiles than programs.
    for size in [[8, 8, 40], [136, 72, 104], [328, 136, 72]] {
        let size: Vec<(&str, i64)> = ["m", "n", "k"].into_iter().zip(size).collect();
        check("gemm", persistent, &size, 4);
    }
    let plain = "BM = 64, BN = 64, BK = 32\nfor t: pipeline 2, consumers 1, wait 0\nkernel: cluster 2";
    check("gemm", plain, &[("m", 136), ("n", 136), ("k", 72)], 4);
    let deferred = "BM = 128, BN = 128, BK = 32\nfor t: consumers 2\nkernel: persistent, cluster 2, raster band_m 2, epilogue deferred";
    check("gemm", deferred, &[("m", 392), ("n", 264), ("k", 168)], 2);
    check("gemm_nn", deferred, &[("m", 392), ("n", 264), ("k", 168)], 2);
    let chain = "BM = 64, BP = 64, BK = 32\nfor t: pipeline 2, consumers 1\nkernel: persistent, cluster 2";
    check("gemm_chain", chain, &[("m", 136), ("n", 72), ("k", 72), ("p", 72)], 2);
}

/// Storage orders of the operands.
const ORDERS_OF_STORAGE: [&str; 4] = ["gemm", "gemm_nn", "gemm_tn", "gemm_tt"];

#[test]
fn products_of_warps_in_every_storage_order() {
    for name in ORDERS_OF_STORAGE {
        for (tile, rest) in [
            (
                "BM = 128, BN = 64, BK = 32",
                "for t: pipeline 3 kernel: persistent, warps 8, products mma_sync",
            ),
            (
                "BM = 64, BN = 64, BK = 64",
                "for t: pipeline 3, producers 0 kernel: persistent, warps 4, products mma_sync",
            ),
            (
                "BM = 64, BN = 192, BK = 16",
                "for t: pipeline 2, producers 0 kernel: warps 4, products mma_sync",
            ),
            ("BM = 32, BN = 64, BK = 32", "for t: pipeline 1, producers 0 kernel: persistent"),
            ("BM = 16, BN = 32, BK = 64", "kernel: warps 1"),
        ] {
            check(name, &format!("{tile} {rest}"), &[("m", 72), ("n", 200), ("k", 104)], 2);
        }
    }
}

#[test]
fn products_of_warps_with_more_around_them() {
    let warps = "kernel: persistent, products mma_sync";
    for (name, size) in [
        ("gemm_dual", [72, 136, 72].as_slice()),
        ("gemm_two_outputs", &[72, 136, 72]),
        ("gemm_bias_relu_residual", &[136, 136, 72]),
        ("gemm_f32out", &[72, 136, 72]),
        ("gemm_any", &[65, 67, 69]),
        ("gemm_chain", &[136, 72, 72, 72]),
    ] {
        let size: Vec<(&str, i64)> = ["m", "n", "k", "p"].into_iter().zip(size.iter().copied()).collect();
        let tile = if name == "gemm_bias_relu_residual" { "BM = 128, BN = 64" } else { "" };
        for producers in ["", "for t: producers 0"] {
            check(name, &format!("{tile} {producers} {warps}"), &size, 2);
        }
    }
    let deferred = "BM = 64, BN = 64, BK = 32 for t: producers 0 kernel: persistent, warps 4, products mma_sync, epilogue deferred";
    for k in [0, 8, 40, 168] {
        check("gemm", deferred, &[("m", 136), ("n", 136), ("k", k)], 2);
        check(
            "gemm",
            &deferred.replace("producers 0", "pipeline 3"),
            &[("m", 136), ("n", 136), ("k", k.max(8))],
            2,
        );
    }
}

#[test]
fn warps_of_a_cluster_load_for_themselves() {
    for rest in ["for t: pipeline 3", "for t: pipeline 3, producers 0"] {
        let mapping = format!(
            "BM = 64, BN = 64, BK = 64 {rest} kernel: persistent, cluster 2, warps 4, products mma_sync"
        );
        check("gemm", &mapping, &[("m", 136), ("n", 136), ("k", 328)], 4);
    }
    let turns = "BM = 64, BN = 64, BK = 64 for t: pipeline 3 kernel: persistent, alternate 2, warps 4, products mma_sync";
    check("gemm", turns, &[("m", 136), ("n", 200), ("k", 200)], 2);
}

#[test]
fn warpgroups_read_what_threads_copied_ahead() {
    for depth in 1..=4 {
        let mapping = format!(
            "BM = 64, BN = 64, BK = 32 for t: pipeline {depth}, producers 0, consumers 1 kernel: persistent"
        );
        for name in ["gemm", "gemm_tn"] {
            check(name, &mapping, &[("m", 136), ("n", 72), ("k", 168)], 2);
        }
    }
}

#[test]
fn clusters_beyond_the_limit_are_refused() {
    let (kernel, mapping) = remapped("gemm", "for t: consumers 2\nkernel: persistent, cluster 4");
    let refused = compile(&kernel, &mapping, &SM90A, &Options::default());
    let message = refused.map(|_| ()).expect_err("no cluster of 4").to_string();
    assert!(message.contains("cluster of 4") && message.contains("at most 2"), "{message}");
}

/// A kernel of the library with words of its mapping replaced.
fn reworded(name: &str, from: &str, to: &str) -> (Kernel, Mapping) {
    let (kernel, mapping) = load(name);
    let text = format!("{kernel}\n{mapping}");
    assert!(text.contains(from), "{text}");
    let mut m = parse_file(&text.replace(from, to), "test.tile").unwrap_or_else(|e| panic!("{e:?}"));
    (kernel, m.mappings.remove(0))
}

#[test]
fn warpgroups_take_turns_where_they_are_asked_to() {
    let orders = [(1, Adversary::Earliest), (2, Adversary::Latest), (3, Adversary::Random)];
    let sizes: [&[(&str, i64)]; 3] = [
        &[("batch", 1), ("heads", 3), ("queries", 130), ("keys", 100)],
        &[("batch", 1), ("heads", 1), ("queries", 260), ("keys", 330)],
        &[("batch", 1), ("heads", 2), ("queries", 64), ("keys", 1)],
    ];
    let (kernel, mapped) = reworded("attention", "consumers 2", "consumers 2, turns 1");
    let compile_as = |disable| {
        let options = Options { verify: true, disable, ..Options::default() };
        compile(&kernel, &mapped, &SM90A, &options).unwrap_or_else(|e| panic!("{e}"))
    };
    let made = compile_as(Vec::new());
    assert_eq!(made.explained.schedule.turns.len(), 1);
    assert!(made.ptx.contains("bar.arrive 3, 256") && made.ptx.contains("bar.sync 2, 256"));
    let without = compile_as(vec!["turns".parse().unwrap_or_else(|e| panic!("{e}"))]);
    assert!(!without.ptx.contains("bar.arrive"));
    for size in sizes {
        let problem = reference(&kernel, &mapped, size, 5);
        for (seed, order) in orders {
            let options = sim::Options { seed, order, ..sim::Options::default() };
            let run = problem.simulate(&made.ptx, &made.manifest, &options, 2);
            let (have, report) = run.unwrap_or_else(|e| panic!("{size:?} {order:?}: {e}"));
            assert!(report.hazards.is_empty(), "{size:?}: {:?}", report.hazards);
            assert_eq!(problem.difference_beyond(&have, 2e-2), None, "{size:?} {order:?}");
        }
    }
    let plain = "BM = 128, BN = 64, BK = 32\nfor t: pipeline 3, consumers 2, turns 1\nkernel: persistent";
    for k in [0, 24, 136] {
        check("gemm", plain, &[("m", 264), ("n", 136), ("k", k)], 2);
    }
}

#[test]
fn turns_are_declined_with_a_reason() {
    let deferred = "consumers 2, turns 1";
    let (kernel, mapped) = reworded("gemm", "consumers 2", deferred);
    let made = compile(&kernel, &mapped, &SM90A, &Options::default()).unwrap_or_else(|e| panic!("{e}"));
    let remarks = made.explained.schedule.remarks.join("\n");
    assert!(remarks.contains("take no turns: deferred results stand in it"), "{remarks}");
    let text = mapped.to_string().replace("turns 1", "turns 2");
    let wrong = parse_file(&text, "test.tile").unwrap_or_else(|e| panic!("{e:?}"));
    let errors = warplift::ir::tile::verify_mapping(&kernel, &wrong.mappings[0]);
    assert!(errors.is_err_and(|e| e[0].message.contains("turns are 0 or 1")));
}
