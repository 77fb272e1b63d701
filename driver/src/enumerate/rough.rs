//! A rough prediction for kernels that cannot be walked. It counts waves of tiles, cycles of tensor cores in a tile,
//! cycles of the epilogue, and the operands that a wave of tiles reads. Each term has a factor from the target's
//! estimates. The prediction orders candidates. It does not promise a time.

use super::grants::Grants;
use super::propose::{Anchor, anchor};
use crate::Compiled;
use crate::problem::{Sizes, block_work, grid_of, operand_bits};
use warplift_ir::manifest::Param;
use warplift_ir::target::{Estimates, Target};
use warplift_ir::tile::{Kernel, Mapping, Products, Raster};

/// Rows of a warpgroup's product.
pub const ROWS: i64 = 64;

/// Predicted cycles of a multiprocessor for one launch.
pub fn predict(
    kernel: &Kernel,
    mapping: &Mapping,
    compiled: &Compiled,
    target: &Target,
    sizes: &Sizes,
) -> f64 {
    let Ok(resolved) = warplift_isel::map::do_tunables(kernel, mapping) else { return f64::INFINITY };
    let Some(grid) = grid_of(&resolved, sizes) else { return f64::INFINITY };
    let blocks: f64 = grid.iter().map(|&g| g as f64).product();
    let (multiplications, bytes) = block_work(&resolved, sizes);
    let (multiprocessors, estimates) = (f64::from(target.multiprocessors), &target.estimates);
    match anchor(kernel, &Grants::default()) {
        Some(anchor) => {
            let [height, width] = extents(&anchor, mapping);
            let waves = (blocks / multiprocessors).ceil();
            let rate = estimates.product_rate * 16.0 / f64::from(operand_bits(&resolved));
            let steady = multiplications / rate * feeding(compiled, estimates);
            let stored = epilogue(mapping, compiled, estimates) * height * width / 32768.0;
            let cycles = waves * (steady + stored);
            let work = blocks * multiplications / rate / multiprocessors / cycles;
            slowed(cycles, work, power_of(&anchor, mapping, grid[1], target), target)
        }
        None => {
            let threads = f64::from(compiled.manifest.block.max(32));
            let resident = (f64::from(target.resident_threads) / threads).floor();
            let resident = resident.clamp(1.0, target.resident_blocks.into());
            let waves = (blocks / (multiprocessors * resident)).ceil();
            waves * (bytes * resident / estimates.plain_bytes_per_cycle + estimates.plain_latency)
        }
    }
}

fn epilogue(mapping: &Mapping, compiled: &Compiled, estimates: &Estimates) -> f64 {
    let deferred = compiled.explained.schedule.deferral.is_some();
    let bulk = mapping.whole.bulk_store && copies_tensors(compiled);
    estimates.epilogue_cycles[if deferred {
        0
    } else if bulk {
        1
    } else {
        2
    }]
}

fn copies_tensors(compiled: &Compiled) -> bool {
    compiled.manifest.params.iter().any(|p| matches!(p, Param::TensorMap(_)))
}

/// Slowdown by power, which no walk sees. Two things cause it: the operands that a wave of tiles reads, and narrow
/// instructions, which read the left operand more often. The slowdown is 1 for a kernel without products.
pub fn power(kernel: &Kernel, mapping: &Mapping, target: &Target, sizes: &Sizes) -> f64 {
    let Some(anchor) = anchor(kernel, &Grants::default()) else { return 1.0 };
    let resolved = warplift_isel::map::do_tunables(kernel, mapping).ok();
    let grid = resolved.and_then(|k| grid_of(&k, sizes));
    grid.map_or(1.0, |grid| power_of(&anchor, mapping, grid[1], target))
}

/// What a launch takes at the top clock, if power slows it down so much; `work` is the share of its cycles in which the
/// tensor cores are at work. The more they are, the lower the clock ([`Target::clocks`]): multiprocessors that wait at the
/// end leave power to the others. Operands cost power only as far as the clock is below its top.
pub fn slowed(cycles: f64, work: f64, power: f64, target: &Target) -> f64 {
    let clocks = &target.clocks;
    let (clock, full) = (clocks.of_products(work.min(1.0)).burst, clocks.products.burst);
    let below = (clocks.top - clock) / (clocks.top - full);
    cycles * clocks.top / clock * (1.0 + below * (power - 1.0))
}

/// The weight of the second objectives. The median error of predictions is larger (docs/microbenchmarks.md).
const SECOND: f64 = 0.02;

/// What decides between mappings whose predictions are about equal, in cycles to add: how long the multiprocessors are
/// busy, where device memory takes longer than they do, and the bytes that one of them moves from and to the L2. These
/// cost power, and few blocks with many bytes each were never measured to reach the rate of device memory.
pub fn second(busy: f64, bytes: f64, target: &Target) -> f64 {
    SECOND * (busy + bytes / target.rates.cache_bytes_per_cycle)
}

/// Bytes that the busiest multiprocessor moves in a launch.
pub fn moved(kernel: &Kernel, mapping: &Mapping, target: &Target, sizes: &Sizes) -> f64 {
    let Ok(resolved) = warplift_isel::map::do_tunables(kernel, mapping) else { return 0.0 };
    let blocks: f64 = grid_of(&resolved, sizes).map_or(0.0, |grid| grid.iter().map(|&g| g as f64).product());
    let slices = f64::from(mapping.loops.iter().find_map(|(_, l)| l.split_k).unwrap_or(1));
    let each = block_work(&resolved, sizes).1 / slices;
    let tiles = blocks * slices / f64::from(target.multiprocessors);
    each * if mapping.is_streamed() { tiles } else { tiles.ceil() }
}

/// Rows and columns of a product.
fn extents(anchor: &Anchor<'_>, mapping: &Mapping) -> [f64; 2] {
    [0, 1].map(|i| {
        let tuned = anchor.free[i].map(|t| mapping.value_of(t));
        anchor.fixed[i].or(tuned).unwrap_or(128) as f64
    })
}

/// The same in a grid of so many columns of tiles.
fn power_of(anchor: &Anchor<'_>, mapping: &Mapping, columns: u64, target: &Target) -> f64 {
    let groups = match mapping.whole.products {
        Products::MmaSync => 0,
        _ => mapping.loops.iter().filter_map(|l| l.1.consumers).max().unwrap_or(1),
    };
    let [height, width] = extents(anchor, mapping);
    let [_, of_instructions] = match anchor.turned {
        true => [width as i64, height as i64],
        false => oriented([height as i64, width as i64], groups),
    };
    slowdown(mapping.whole.raster, [height, width], of_instructions, columns, target)
}

/// Rows and columns of the instructions of a product of so many rows and columns that warpgroups share, 0 for warps: where
/// its rows are no multiple of what warpgroups take, it is transposed.
pub fn oriented([m, n]: [i64; 2], groups: u32) -> [i64; 2] {
    let own = groups == 0 || m % (ROWS * i64::from(groups)) == 0;
    if own { [m, n] } else { [n, m] }
}

/// Slowdown if a ring has only two stages, or if threads load the operands.
fn feeding(compiled: &Compiled, estimates: &Estimates) -> f64 {
    let depth = compiled.explained.schedule.rings.values().map(|r| r.depth).max();
    match depth {
        Some(depth) if copies_tensors(compiled) && depth < 3 => estimates.shallow_slowdown,
        Some(_) if copies_tensors(compiled) => 1.0,
        _ => estimates.thread_copy_slowdown,
    }
}

/// The same for tiles of this height and width, whose instructions have so many columns, in a grid of so many columns of
/// tiles.
pub fn slowdown(
    raster: Raster,
    [height, width]: [f64; 2],
    of_instructions: i64,
    columns: u64,
    target: &Target,
) -> f64 {
    // A wave of tiles is `along` tiles high. Its width follows from the number of multiprocessors.
    let wave = f64::from(target.multiprocessors);
    let along = match raster {
        Raster::Linear | Raster::Paired => wave / (columns as f64).clamp(1.0, wave),
        Raster::BandM(g) => f64::from(g),
        Raster::BandN(g) => wave / f64::from(g.max(1)),
        Raster::Square => (wave * width / height).sqrt(),
    };
    let read = (along * height + wave / along * width) * 32768.0 / (height * width);
    let narrow = target.estimates.narrow_slowdown * (256.0 / of_instructions as f64 - 1.0).max(0.0);
    (1.0 + narrow) * (1.0 + target.estimates.footprint_slowdown * read / 1000.0)
}
