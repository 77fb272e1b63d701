//! What no schedule beats: the launch, and the larger of the arithmetic and of the bytes that must move.
//!
//! ```text
//!  cycles = launch + max( multiplications / (multiprocessors x rate),  bytes / rate of device memory )
//! ```

use super::Arrays;
use crate::problem::{
    BlockNumbers, BlockWork, Blocks, Costed, Problem, Useful, grid_of, operand_bits, products, touched,
};
use std::collections::BTreeMap;
use warplift_ir::target::Target;
use warplift_ir::tile::{Inst, Kernel, Value};

/// Least cycles of a launch.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Floor {
    /// Of everything.
    pub cycles: f64,
    /// Of the tensor cores, all busy: whole tiles of each block, and nothing for what depends on data that are not given.
    pub products: f64,
    /// Of the tensor cores where they multiply what is loaded and stored alone, in multiples of 16 rows: whatever the tiles
    /// are. `None` where no data are given.
    pub needed: Option<f64>,
    /// Of device memory: the sectors that all blocks touch, each read or written once.
    pub memory: f64,
}

/// Bytes that a launch reads of each array, by name, each sector once.
pub type Reads = BTreeMap<String, f64>;

/// The floor of a launch, where some arrays' contents may be known.
pub fn floor(problem: &Problem, arrays: &Arrays, target: &Target) -> Floor {
    floor_and_reads(&problem.shortened(), arrays, target).0
}

/// The floor of a problem without iterations that masks leave nothing of, and what of it is read.
pub(super) fn floor_and_reads(problem: &Problem, arrays: &Arrays, target: &Target) -> (Floor, Reads) {
    let kernel = &problem.resolved;
    let blocks = grid_of(kernel, &problem.sizes).map_or(0.0, |grid| grid.iter().map(|&n| n as f64).product());
    let rate = target.estimates.product_rate * 16.0 / f64::from(operand_bits(kernel));
    let made = |looks_at: &[Value], cost: &Cost<'_>| {
        let (sizes, grid) = (&problem.sizes, grid_of(kernel, &problem.sizes)?);
        let blocks = Blocks::of(grid);
        Costed { kernel, sizes, arrays, blocks, cost, looks_at, least: true }.by_block()
    };
    let cycles = |work: Option<BlockWork>| {
        work.map_or(0.0, |w| w.sum(blocks)) / (f64::from(target.multiprocessors) * rate)
    };
    let products = cycles(made(&[], &|numbers, inst| Some(products(numbers.kernel, inst))));
    let needed = if arrays.is_empty() { None } else { Some(cycles(needed(kernel, made))) };
    let touched = touched(problem, arrays);
    let bytes: f64 = touched.iter().flatten().sum();
    let reads = problem.operands.iter().zip(&touched).map(|(o, [read, _])| (o.name.clone(), *read)).collect();
    let memory = bytes / target.rates.memory_bytes_per_cycle;
    let cycles = target.estimates.start_cycles + products.max(memory);
    (Floor { cycles, products, memory, needed }, reads)
}

/// What an instruction costs in a block.
type Cost<'c> = dyn Fn(&mut BlockNumbers<'_>, Inst) -> Option<f64> + 'c;

/// Multiplications of the parts of products that are needed.
fn needed(kernel: &Kernel, made: impl Fn(&[Value], &Cost<'_>) -> Option<BlockWork>) -> Option<BlockWork> {
    let useful = Useful::new(kernel);
    made(&useful.values(), &|numbers, inst| match products(numbers.kernel, inst) {
        0.0 => Some(0.0),
        all => Some(all * useful.part(numbers, inst)),
    })
}
