//! Every kernel of the library, compiled and executed by the simulator exactly as emitted, against the
//! interpreter's reading of the same text: no hazard under any order, and the same numbers.

use warplift::ir::target::SM90A;
use warplift::ir::tile::{Depth, Epilogue, Mapping};
use warplift::sim::{self, Adversary};
use warplift::{Options, compile};
use warplift_golden::library::{CASES, Case, load, reference, reference_on};
use warplift_golden::orders::{MANY_ORDERS, right};

fn run_case(case: &Case, orders: &[(u64, Adversary)]) {
    let Case { name, sizes: size, data, sms, tolerance } = *case;
    let (kernel, mapping) = load(name);
    let options = Options { verify: true, ..Options::default() };
    let compiled = compile(&kernel, &mapping, &SM90A, &options).unwrap_or_else(|e| panic!("{name}: {e}"));
    let problem = reference_on(&kernel, &mapping, (size, data), 7);
    right(&problem, &compiled, orders, (sms, tolerance), &format!("{name} {size:?}"));
}

#[test]
fn every_kernel_means_what_its_text_says() {
    for case in CASES {
        run_case(case, &MANY_ORDERS);
    }
}

/// Tile, warpgroups, epilogue, persistent, pipeline depth.
type Variant = ([i64; 3], u32, Epilogue, bool, Option<u32>);

const MAPPINGS: &[Variant] = &[
    ([128, 128, 64], 1, Epilogue::Direct, true, None),
    ([64, 256, 64], 1, Epilogue::Deferred, true, None),
    ([256, 128, 64], 2, Epilogue::Deferred, true, None),
    ([128, 192, 64], 2, Epilogue::Direct, true, Some(3)),
    ([256, 192, 64], 2, Epilogue::Direct, true, None),
    ([192, 128, 64], 3, Epilogue::Direct, true, None),
    ([128, 96, 32], 2, Epilogue::Deferred, true, None),
    ([128, 24, 64], 2, Epilogue::Direct, false, None),
    ([64, 64, 16], 1, Epilogue::Direct, false, Some(2)),
    ([128, 64, 128], 1, Epilogue::Direct, false, Some(1)),
    ([128, 256, 64], 2, Epilogue::Direct, false, None),
];

fn vary(mapping: &Mapping, (tile, consumers, epilogue, persistent, depth): &Variant) -> Mapping {
    let mut m = mapping.clone();
    for (t, value) in m.tunables.iter_mut().zip(tile) {
        t.1 = *value;
    }
    for l in &mut m.loops {
        l.1.consumers = Some(*consumers);
        l.1.pipeline = depth.map_or(Depth::Fit, Depth::Stages);
        l.1.wait = None;
    }
    m.whole.epilogue = *epilogue;
    m.whole.persistent = *persistent;
    m
}

#[test]
fn any_mapping_computes_the_same() {
    let mut computed = 0;
    for name in ["gemm", "gemm_tn", "gemm_nn"] {
        let (kernel, mapping) = load(name);
        let size = [("m", 264), ("n", 272), ("k", 208)];
        let problem = reference(&kernel, &mapping, &size, 11);
        for variant in MAPPINGS {
            let mapping = vary(&mapping, variant);
            let options = Options { verify: true, ..Options::default() };
            let compiled = match compile(&kernel, &mapping, &SM90A, &options) {
                Ok(c) => c,
                // A transposed operand needs whole swizzle spans along N.
                Err(e) if name != "gemm" && e.to_string().contains("a multiple of") => continue,
                Err(e) => panic!("{name} {variant:?}: {e}"),
            };
            let run = problem.simulate(&compiled.ptx, &compiled.manifest, &sim::Options::default(), 3);
            let (have, _) = run.unwrap_or_else(|e| panic!("{name} {variant:?}: {e}"));
            assert_eq!(problem.difference(&have), None, "{name} {variant:?}");
            computed += 1;
        }
    }
    assert!(computed > 2 * MAPPINGS.len(), "most mappings suit every storage order, {computed} did");
}

#[test]
fn teams_take_tiles_in_turn() {
    let (kernel, mapping) = load("gemm");
    let problem = reference(&kernel, &mapping, &[("m", 264), ("n", 272), ("k", 328)], 13);
    for (tile, teams, epilogue) in [
        ([64, 256, 64], 2, Epilogue::Deferred),
        ([64, 128, 64], 2, Epilogue::Direct),
        ([64, 64, 64], 3, Epilogue::Direct),
    ] {
        let mut mapping = vary(&mapping, &(tile, 1, epilogue, true, None));
        mapping.whole.pingpong = teams;
        let options = Options { verify: true, ..Options::default() };
        let compiled =
            compile(&kernel, &mapping, &SM90A, &options).unwrap_or_else(|e| panic!("{tile:?}: {e}"));
        for sms in [1, 3] {
            let run = problem.simulate(&compiled.ptx, &compiled.manifest, &sim::Options::default(), sms);
            let (have, _) = run.unwrap_or_else(|e| panic!("{tile:?} {teams} teams: {e}"));
            assert_eq!(problem.difference(&have), None, "{tile:?} {teams} teams on {sms}");
        }
    }
}

#[test]
fn an_epilogue_of_several_operands_can_wait() {
    let (kernel, mapping) = load("gemm_bias_relu_residual");
    let mapping = vary(&mapping, &([128, 128, 64], 2, Epilogue::Deferred, true, None));
    let options = Options { verify: true, ..Options::default() };
    let compiled = compile(&kernel, &mapping, &SM90A, &options).unwrap_or_else(|e| panic!("{e}"));
    assert!(compiled.explained.schedule.deferral.is_some(), "{:?}", compiled.explained.schedule.remarks);
    let problem = reference(&kernel, &mapping, &[("m", 136), ("n", 264), ("k", 328)], 3);
    let run = problem.simulate(&compiled.ptx, &compiled.manifest, &sim::Options::default(), 2);
    let (have, _) = run.unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(problem.difference(&have), None);
}

#[test]
fn blocks_of_a_cluster_share_their_loads() {
    for (name, size) in [("gemm", [264, 272, 328]), ("gemm", [129, 264, 136]), ("gemm_nn", [136, 264, 328])] {
        let (kernel, mut mapping) = load(name);
        mapping.whole.cluster = 2;
        let options = Options { verify: true, ..Options::default() };
        let compiled = compile(&kernel, &mapping, &SM90A, &options).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(compiled.ptx.contains(".multicast::cluster"), "{name}: nothing is shared");
        let [m, n, k] = size;
        let problem = reference(&kernel, &mapping, &[("m", m), ("n", n), ("k", k)], 17);
        for (sms, (seed, order)) in [2, 4].into_iter().zip(MANY_ORDERS) {
            let options = sim::Options { seed, order, ..sim::Options::default() };
            let run = problem.simulate(&compiled.ptx, &compiled.manifest, &options, sms);
            let (have, _) = run.unwrap_or_else(|e| panic!("{name} {size:?} on {sms}: {e}"));
            assert_eq!(problem.difference(&have), None, "{name} {size:?} on {sms}");
        }
    }
}
