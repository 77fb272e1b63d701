//! Runs emitted code in the simulator under several orders of events: no hazard, and the interpreter's results.

use warplift::Compiled;
use warplift::sim::{Adversary, Options};
use warplift_lab::validate::Reference;

/// The usual seeds and orders: copies complete as early as possible, as late as possible, and at random times.
pub const ORDERS: [(u64, Adversary); 3] =
    [(1, Adversary::Earliest), (2, Adversary::Latest), (3, Adversary::Random)];

/// The same without the first, for long runs.
pub const FEW_ORDERS: [(u64, Adversary); 2] = [(1, Adversary::Latest), (2, Adversary::Random)];

/// Eight seeds and orders, for what must hold under any.
pub const MANY_ORDERS: [(u64, Adversary); 8] = [
    (1, Adversary::Earliest),
    (2, Adversary::Latest),
    (3, Adversary::Random),
    (0, Adversary::Classes),
    (5, Adversary::Random),
    (6, Adversary::Random),
    (7, Adversary::Random),
    (1, Adversary::Classes),
];

/// Runs what was compiled under all orders on so many multiprocessors.
///
/// # Panics
/// It stops, has a hazard, or a result is farther away than the tolerance. `what` tells which.
pub fn right(
    problem: &Reference<'_>,
    made: &Compiled,
    orders: &[(u64, Adversary)],
    (sms, tolerance): (u32, f64),
    what: &str,
) {
    for &(seed, order) in orders {
        let options = Options { seed, order, ..Options::default() };
        let run = problem.simulate(&made.ptx, &made.manifest, &options, sms);
        let (have, report) = run.unwrap_or_else(|e| panic!("{what}, seed {seed}, {order:?}: {e}"));
        assert!(report.hazards.is_empty(), "{what}, seed {seed}, {order:?}: {:?}", report.hazards);
        let off = problem.difference_beyond(&have, tolerance);
        assert_eq!(off, None, "{what}, seed {seed}, {order:?}");
    }
}
