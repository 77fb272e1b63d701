//! Loops whose iterations blocks share out: the interpreter and the simulator give the same as the kernel as it is written,
//! in any order of blocks.

use crate::library::{compiled, in_rules_form, reference};
use crate::orders::right;
use warplift::ir::interp::{self, Order};
use warplift::ir::tile::{Kernel, Mapping, Op};
use warplift::sim::Adversary;

/// Seeds and orders of events; the seed also decides in which order blocks run.
pub const EIGHT: [(u64, Adversary); 8] = [
    (1, Adversary::Earliest),
    (2, Adversary::Latest),
    (3, Adversary::Random),
    (4, Adversary::Earliest),
    (5, Adversary::Latest),
    (6, Adversary::Random),
    (7, Adversary::Latest),
    (8, Adversary::Random),
];

/// A loop that adds up without products.
pub const SUMS: &str = "kernel sums(x: ptr<f32> align 16, y: ptr<f32> align 16, m: i32, n: i32 % 4) {
            tunable BM = 4, BN = 128
            grid cdiv(m, BM)
            gx = view x : f32[m, n]
            gy = view y : f32[m, BN]
            i = block_index
            zero = full 0.0 : f32[BM, BN]
            acc = for t in 0..cdiv(n, BN) carry s = zero { yield s + load gx[i*BM, t*BN] : f32[BM, BN] }
            store gy[i*BM, 0], acc * 2.0
        }";

/// The mapped kernel in the interpreter and its PTX in the simulator on so many multiprocessors, against the kernel as it is
/// written.
///
/// # Panics
/// Nothing is shared out, or a result differs.
pub fn check(
    kernel: &Kernel,
    mapping: &Mapping,
    size: &[(&str, i64)],
    orders: &[(u64, Adversary)],
    multiprocessors: u32,
) {
    let problem = reference(kernel, mapping, size, 5);
    let mapped = in_rules_form(kernel, mapping).unwrap_or_else(|e| panic!("{mapping}: {e}"));
    assert!(mapped.insts.values().any(|d| d.op == Op::Arrive), "nothing is shared out: {mapping}");
    for order in [Order::Forward, Order::Reverse, Order::Shuffled(7)] {
        let options = interp::Options { programs: 3, order, ..interp::Options::default() };
        let have =
            problem.interpret(&mapped, &options).unwrap_or_else(|e| panic!("{mapping}: {e}\n{mapped}"));
        assert_eq!(problem.difference(&have), None, "{mapping} {order:?}");
    }
    let made = compiled(kernel, mapping);
    right(&problem, &made, orders, (multiprocessors, 0.0), &format!("{mapping} {size:?}"));
}
