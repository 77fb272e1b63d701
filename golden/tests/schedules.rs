//! What a schedule may choose, chosen by mappings and executed by the simulator as emitted: products in
//! flight over an iteration, operands multicast over a cluster. No hazard, and the interpreter's numbers.

use warplift::ir::target::SM90A;
use warplift::ir::tile::{Kernel, Mapping, parse_file};
use warplift::problem::{Data, Problem};
use warplift::sim::{self, Adversary};
use warplift::{Options, compile};
use warplift_golden::library::{difference, load, sizes};

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
    let options = Options { verify: true, dump: Vec::new() };
    let compiled =
        compile(&kernel, &mapped, &SM90A, &options).unwrap_or_else(|e| panic!("{name} {mapping}: {e}"));
    let problem = Problem::new(&kernel, &sizes(size), Data::Small, 5).unwrap_or_else(|e| panic!("{e}"));
    let want = problem.interpret(&kernel).unwrap_or_else(|e| panic!("{e}"));
    for (seed, order) in ORDERS {
        let options = sim::Options { seed, order, ..sim::Options::default() };
        let run = problem.simulate(&compiled.ptx, &compiled.manifest, &options, sms);
        let (have, report) = run.unwrap_or_else(|e| panic!("{name} {mapping} {size:?} {order:?}: {e}"));
        assert!(report.hazards.is_empty(), "{name} {mapping} {size:?}: {:?}", report.hazards);
        assert_eq!(difference(&want, &have), 0.0, "{name} {mapping} {size:?} {order:?}");
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
