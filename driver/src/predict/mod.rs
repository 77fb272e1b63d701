//! Predicted cycles of a kernel: its scheduled machine IR walked with real sizes against the table's cycles.
//!
//! ```text
//!  one warp of each warpgroup walks its role's control-flow graph: scalars are computed, branches taken
//!    issue      in order, after the operands; resident blocks share units in lockstep
//!    units      a time until which each is taken, common to all roles       steady state: the fullest decides
//!    tensor     products queue; a wait holds the warp until its group is done
//!    copies     end after engine and latency, and complete a phase of their mbarrier
//!    barriers   phases by address, arrivals and bytes; a wait ends with the phase  latency: recurrences decide
//! ```
//!
//! The role that is furthest behind goes on; all that waits for each other is thus seen in order. Nothing
//! here knows of kernels: whatever is scheduled can be walked.
//!
//! ```text
//!  first blocks    start together, in lockstep: the time of the walk with all residents
//!  later blocks    start when one ends, so they are spread: each place costs a block's time alone, and all
//!                  of them the time that the fullest unit is taken, whichever is more
//!  device memory   each byte once, and again what comes back after more bytes than the L2 holds
//! ```
//!
//! A load of what the block has not asked for before takes the latency of device memory. What waits for it lets
//! independent instructions behind it pass, up to the next store, meeting or branch: ptxas orders them so.

mod barriers;
mod facts;
mod scalars;
mod traffic;
mod units;
mod walk;
mod warp;

use crate::chart::unit_name;
use crate::problem::{Problem, ProblemError, Sizes, traffic};
use crate::{CompileError, Compiled, Context};
use std::fmt;
use units::Units;
use walk::Launch;
use warplift_ir::machine::Scheduled;
use warplift_ir::manifest::Manifest;
use warplift_ir::plural;
use warplift_ir::target::{Target, Unit};
use warplift_ir::tile::{Kernel, Mapping};

/// Instructions of all roles after which a walk is given up.
const STEPS: u64 = 20_000_000;

/// What is expected of a launch.
#[derive(Clone, Debug, Default)]
pub struct Prediction {
    /// Cycles of a multiprocessor from the first block's start to the last one's end.
    pub cycles: f64,
    /// Cycles of the block that was walked, alone or with those beside it.
    pub block: f64,
    /// Blocks beside each other on a multiprocessor.
    pub resident: u32,
    /// Such groups of blocks one after the other.
    pub waves: u32,
    /// Cycles of a block that has a multiprocessor to itself: what a place of a block costs at least, however
    /// the blocks beside it overlap.
    pub alone: f64,
    /// Cycles that device memory needs at least.
    pub memory: f64,
    /// Share of the block's time in which a unit is taken, those above a twentieth, fullest first.
    pub taken: Vec<(Unit, f64)>,
    /// Role, and when it ends.
    pub roles: Vec<(String, f64)>,
}

/// Why there is no prediction.
#[derive(Debug, thiserror::Error)]
pub enum PredictError {
    /// The kernel does not compile.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// Sizes that the kernel does not take.
    #[error(transparent)]
    Problem(#[from] ProblemError),
    /// All roles wait.
    #[error("prediction: every role waits at a barrier ({0})")]
    Stuck(String),
    /// Too long to walk.
    #[error("prediction: more than {STEPS} instructions for a block")]
    Long,
    /// The grid has no size, or one beyond all limits.
    #[error("prediction: the grid has no size for these arguments, or 2^32 blocks and more")]
    Grid,
}

/// Predicts one launch of these sizes.
///
/// # Errors
/// The kernel does not compile, the sizes are refused, or the block cannot be walked.
pub fn predict(
    kernel: &Kernel,
    mapping: &Mapping,
    target: &Target,
    sizes: &Sizes,
    options: &crate::Options,
) -> Result<Prediction, PredictError> {
    let bytes = traffic(&Problem::new(kernel, mapping, sizes.clone())?.operands);
    Context::default().compile_and(kernel, mapping, target, options, |scheduled, compiled| {
        let registers = compiled.explained.registers.iter().map(|r| r.needed).max().unwrap_or(0);
        walk_blocks(scheduled, &compiled.manifest, registers, target, sizes, bytes)
    })?
}

/// Compiles, and predicts one launch of these sizes in the same go; `None` where it cannot be walked.
///
/// # Errors
/// The kernel does not compile.
pub fn compile_and_predict(
    kernel: &Kernel,
    mapping: &Mapping,
    target: &Target,
    sizes: &Sizes,
    options: &crate::Options,
) -> Result<(Compiled, Option<Prediction>), CompileError> {
    let bytes = Problem::new(kernel, mapping, sizes.clone()).ok().map(|problem| traffic(&problem.operands));
    Context::default().compile_and(kernel, mapping, target, options, |scheduled, compiled| {
        let registers = compiled.explained.registers.iter().map(|r| r.needed).max().unwrap_or(0);
        let walked = |bytes| walk_blocks(scheduled, &compiled.manifest, registers, target, sizes, bytes).ok();
        let prediction = bytes.and_then(walked);
        (compiled, prediction)
    })
}

fn walk_blocks(
    scheduled: &Scheduled<'_>,
    manifest: &Manifest,
    registers: u32,
    target: &Target,
    sizes: &Sizes,
    bytes: f64,
) -> Result<Prediction, PredictError> {
    let multiprocessors = target.multiprocessors;
    let vars = |name: &str| match name {
        "sm_count" => Some(i64::from(multiprocessors)),
        _ => sizes.int(name),
    };
    let each = manifest.grid.iter().map(|e| e.eval(&vars).ok().filter(|&v| v >= 0));
    let grid: Vec<i64> = each.collect::<Option<_>>().ok_or(PredictError::Grid)?;
    let blocks = grid.iter().try_fold(1_i64, |all, &n| all.checked_mul(n));
    let blocks = blocks.and_then(|n| u32::try_from(n).ok()).ok_or(PredictError::Grid)?;
    if blocks == 0 {
        return Ok(Prediction { cycles: target.estimates.start_cycles, ..Prediction::default() });
    }
    let registers = registers.min(target.registers / (scheduled.launch.resident * manifest.block).max(1));
    let most = [
        target.resident_threads / manifest.block.max(1),
        (target.shared_bytes + target.reserved_shared_bytes)
            / (manifest.dynamic_shared + target.reserved_shared_bytes),
        target.registers / (registers.max(16).next_multiple_of(target.register_step) * manifest.block.max(1)),
    ];
    let most = most.into_iter().min().unwrap_or(1).max(1);
    let resident = blocks.div_ceil(multiprocessors).clamp(1, most);
    let waves = blocks.div_ceil(multiprocessors * resident);
    let grid = [grid[0], grid[1], grid[2]];
    let launch = Launch::new(scheduled, target, sizes, grid);
    let walk = |place, resident| {
        let mut units = Units::new(resident, target.schedulers);
        let walked = launch.walk(place, &mut units)?;
        let end = walked.roles.iter().map(|e| e.1).fold(0.0, f64::max);
        Ok::<_, PredictError>((end.max(units.fullest()), units, walked))
    };
    let (block, units, walked) = walk([0; 3], resident)?;
    let alone = if waves > 1 && resident > 1 { walk([0; 3], 1)?.0 } else { block };
    let rounds = f64::from(blocks.div_ceil(multiprocessors)) / f64::from(resident);
    let later = (f64::from(waves - 1) * alone).max((rounds - 1.0) * units.fullest());
    let mut again = 0.0;
    if grid[1] * grid[2] > 1 && f64::from(blocks) * walked.requests.bytes() > f64::from(target.l2_bytes) {
        let mut next = [None, None, None];
        for d in (0..3).filter(|&d| grid[d] > 1) {
            next[d] = Some(walk(std::array::from_fn(|e| i64::from(e == d)), resident)?.2.requests);
        }
        again = traffic::refetched(&walked.requests, &next, grid, target.l2_bytes.into());
    }
    let memory = (bytes + again) / target.rates.memory_bytes_per_cycle;
    let cycles = target.estimates.start_cycles + (block + later).max(memory);
    let taken = units.taken(block);
    Ok(Prediction { cycles, block, resident, waves, alone, memory, taken, roles: walked.roles })
}

impl fmt::Display for Prediction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "predicted: {:.0} cycles", self.cycles)?;
        writeln!(
            f,
            "  {} of {} on a multiprocessor, {:.0} cycles each, a block alone {:.0}",
            plural(self.waves as u64, "wave"),
            plural(self.resident as u64, "block"),
            self.block,
            self.alone
        )?;
        writeln!(f, "  device memory: {:.0} cycles at least", self.memory)?;
        for (unit, share) in &self.taken {
            writeln!(f, "  {}: {:.0}% taken", unit_name(*unit), 100.0 * share)?;
        }
        for (role, end) in &self.roles {
            writeln!(f, "  role {role}: ends after {end:.0} cycles")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
