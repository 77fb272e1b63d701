//! Predicted cycles of a kernel: its scheduled machine IR walked with real sizes against the table's cycles.
//!
//! ```text
//!  one warp of each warpgroup walks its role's control-flow graph: scalars are computed, branches taken
//!    issue      in order, after the operands; resident blocks share units in lockstep
//!    units      queues, each a time until which one is taken, common to all roles     steady state: the fullest decides
//!    tensor     products queue; a wait holds the warp until its group is done
//!    copies     end after engine and latency, and complete a phase of their mbarrier
//!    barriers   phases by address, arrivals and bytes; a wait ends with the phase  latency: recurrences decide
//! ```
//!
//! The role that is furthest behind goes on; all that waits for each other is thus seen in order. Nothing
//! here knows of kernels: whatever is scheduled can be walked.
//!
//! ```text
//!  blocks          the first is walked, and others of the grid; what lies between costs what lies between (`launch`)
//!  first blocks    start together, in lockstep: the time of the walk with all residents
//!  later blocks    start when one ends, so they are spread: each place costs a block's time alone, and all
//!                  of them the time that the fullest unit is taken, whichever is more
//!  device memory   each byte once, and again what comes back after more bytes than the L2 holds; where that takes a
//!                  good part of the time, blocks are walked again as they wait for it (`memory`)
//!  launch          a constant, measured; less of it where short launches follow each other
//! ```
//!
//! What the block has not asked for before comes from device memory (`memory`). What waits for a load of it lets
//! independent instructions behind it pass, up to the next store, meeting or branch: ptxas orders them so.

mod accesses;
mod barriers;
mod boxes;
mod drawn;
mod facts;
mod floor;
mod fragments;
mod guesses;
mod lanes;
mod launch;
mod launched;
mod memory;
pub(crate) mod neighbours;
mod order;
mod patterns;
mod phases;
mod progress;
mod reuse;
mod scalars;
mod shown;
mod traffic;
mod unequal;
mod units;
mod updates;
mod walk;
mod warp;

use crate::problem::{Problem, ProblemError, Sizes, depends_on_place};
use crate::state::State;
use crate::{CompileError, Compiled, Context};
pub use floor::{Floor, floor};
use floor::{Reads, floor_and_reads};
use launch::{Cost, Costs, Places};
pub use launched::{Arrays, Launch};
use memory::Scene;
use neighbours::overlapped;
pub use phases::Phase;
use std::collections::BTreeSet;
use traffic::Requests;
use unequal::Unequal;
use units::Units;
use updates::{Arrival, busiest};
use walk::{Program, Walked};
use warplift_ir::machine::{Attr, Scheduled};
use warplift_ir::manifest::Manifest;
use warplift_ir::target::{Clock, Target, Unit};
use warplift_ir::tile::{Kernel, Mapping};

/// Instructions of all roles after which a walk is given up.
const STEPS: u64 = 2_000_000;

/// Registers that the assembler may spare of those that were estimated (`golden/registers.txt`: an estimate is within so
/// many of what is live): blocks that they alone keep apart count as resident.
const SPARED: u32 = 8;

/// The part of a launch's time that device memory takes below which it is of no account: waiting for its rate adds a
/// hundredth there, and most is in the L2 before it is asked for again ([`memory`]).
const WAITED: f64 = 0.3;

/// Instructions of all roles after which no further block is walked.
const SAMPLED: u64 = 36_000;

/// What is expected of a launch.
#[derive(Clone, Debug, Default)]
pub struct Prediction {
    /// Cycles of a multiprocessor from the first block's start to the last one's end, and of the launch.
    pub cycles: f64,
    /// Cycles of these that overlap the launch before, in a stream of such launches: with `pdl` those of the launch, and what
    /// comes before `griddepcontrol.wait`; else a part of the launch's own, where its blocks are short.
    pub overlap: f64,
    /// The launch may begin while the one before it ends (programmatic dependent launch).
    pub pdl: bool,
    /// The clock of such work, GHz.
    pub clock: Clock,
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
    /// Cycles in which the L2 gives a multiprocessor what its blocks copy, where that may decide.
    pub copying: Option<f64>,
    /// What no schedule beats.
    pub floor: Floor,
    /// Arrays whose contents bound loops or choose branches and were not given; such a loop counts 16 trips. A name is
    /// empty where the walk does not know which array it is.
    pub assumed: Vec<String>,
    /// Blocks of the grid.
    pub blocks: u64,
    /// Of these the ones that were walked; the others are taken to lie between them.
    pub walked: u32,
    /// What the walks cost, in instructions whose numbers all lanes of a warp share.
    pub effort: u64,
    /// The part of the first block's time that was walked; the rest is taken to go on like it.
    pub part: f64,
    /// Cycles that the blocks would take if all multiprocessors shared their work evenly; `None` where blocks cost the same.
    pub even: Option<f64>,
    /// The part of the places that the last wave of blocks fills.
    pub filled: f64,
    /// Phases of the first block, and what bounds each.
    pub phases: Vec<Phase>,
    /// Cycles of the first block before `griddepcontrol.wait`: they overlap the launch before. `None` without one.
    pub before_wait: Option<f64>,
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

/// Predicts one launch: of sizes, or of sizes and data.
///
/// # Errors
/// The kernel does not compile, the sizes are refused, or the block cannot be walked.
pub fn predict<'d>(
    kernel: &Kernel,
    mapping: &Mapping,
    target: &Target,
    launch: impl Into<Launch<'d>>,
    options: &crate::Options,
) -> Result<Prediction, PredictError> {
    let launch = launch.into();
    let problem = Problem::new(kernel, mapping, launch.sizes.clone())?;
    let known = Known::of(&problem, launch.arrays, target);
    Context::default().compile_and(kernel, mapping, target, options, |state, compiled| {
        walk_blocks(state, &compiled, launch, known)
    })?
}

/// Compiles, and predicts one launch in the same go; `None` where it cannot be walked.
///
/// # Errors
/// The kernel does not compile.
pub fn compile_and_predict<'d>(
    kernel: &Kernel,
    mapping: &Mapping,
    target: &Target,
    launch: impl Into<Launch<'d>>,
    options: &crate::Options,
) -> Result<(Compiled, Option<Prediction>), CompileError> {
    let launch = launch.into();
    let problem = Problem::new(kernel, mapping, launch.sizes.clone()).ok();
    let known = problem.map(|problem| Known::of(&problem, launch.arrays, target));
    Context::default().compile_and(kernel, mapping, target, options, |state, compiled| {
        let prediction = known.and_then(|known| walk_blocks(state, &compiled, launch, known).ok());
        (compiled, prediction)
    })
}

/// Cycles of a block of a scheduled program that stands alone, such as a measuring kernel, beside so many others on
/// multiprocessors of their own. `cold`: all that is read comes from device memory, and else nothing.
///
/// # Errors
/// The block cannot be walked.
pub fn walk_alone(
    scheduled: &Scheduled<'_>,
    target: &Target,
    sizes: &Sizes,
    blocks: u32,
    cold: bool,
) -> Result<f64, PredictError> {
    let grid = [i64::from(blocks), 1, 1];
    let program = Program::new(scheduled, target, Launch::from(sizes), grid);
    let shares = if cold { vec![1.0; scheduled.launch.params.len()] } else { Vec::new() };
    let multiprocessors = blocks.min(target.multiprocessors);
    let scene = Scene { shares, ..Scene::new(multiprocessors, true) };
    let mut walks = Walks::new(program, target, 1, 1, scene);
    let (cost, _, walked) = walks.cost([0; 3])?;
    Ok(cost.together.max(walks.updating(grid, &walked)?))
}

/// What is known of a launch without a walk.
struct Known {
    floor: Floor,
    reads: Reads,
    /// Blocks may do unequal work, as the text or the data say.
    unequal: bool,
}

impl Known {
    fn of(problem: &Problem, arrays: &Arrays, target: &Target) -> Self {
        let problem = &problem.shortened();
        let (floor, reads) = floor_and_reads(problem, arrays, target);
        Self { floor, reads, unequal: depends_on_place(&problem.resolved) }
    }
}

fn walk_blocks(
    state: &State<'_>,
    compiled: &Compiled,
    given: Launch<'_>,
    Known { floor, reads, unequal }: Known,
) -> Result<Prediction, PredictError> {
    let (scheduled, manifest, target) = (state.scheduled(), &compiled.manifest, state.target);
    let registers = compiled.explained.registers.iter().map(|r| r.needed).max().unwrap_or(0);
    let multiprocessors = target.multiprocessors;
    let grid = grid(manifest, multiprocessors, given.sizes).ok_or(PredictError::Grid)?;
    let blocks = blocks_of(grid).ok_or(PredictError::Grid)?;
    if blocks == 0 {
        return Ok(nothing(floor, target));
    }
    let places = room(scheduled, manifest, registers, target);
    let resident = blocks.div_ceil(multiprocessors).clamp(1, places);
    let waves = blocks.div_ceil(multiprocessors * resident);
    let alone = Unequal::new(state, grid, given, unequal);
    let program = Program::new(scheduled, target, given, grid).told(&alone);
    let slowdown = if multicasts(scheduled) { target.estimates.multicast_slowdown } else { 1.0 };
    let scene = Scene { slowdown, ..Scene::new(blocks.min(multiprocessors), resident == 1) };
    let mut walks = Walks {
        mean: alone.mean(),
        unequal: alone.work.is_some(),
        ..Walks::new(program, target, resident, waves, scene)
    };
    let (first, units, walked) = walks.first(blocks, floor.memory, (&reads, &alone))?;
    let (end, even) = walks.end(grid, blocks, first, &walked, &alone);
    let memory = floor.memory * slowdown + walks.read_again(grid, blocks, &walked, (end, slowdown))?;
    let (end, copying) = walks.latest(grid, blocks, (&walked, &alone), (end, manifest.dynamic_shared))?;
    let slowest = end.max(overlapped(end * units.share_of(Unit::Tensor, first.together), memory));
    // The next launch's blocks take places beside running ones while other multiprocessors are idle, unless there are none.
    let apart = places == 1 || 2 * blocks <= multiprocessors;
    let overlap = overlapping(scheduled, manifest, &walked, (end, memory, apart), target);
    let prediction = Prediction {
        clock: Clock::default(),
        cycles: target.estimates.start_cycles + slowest,
        overlap,
        pdl: scheduled.launch.pdl,
        block: first.together,
        resident,
        waves,
        alone: first.alone,
        memory,
        copying,
        floor,
        blocks: blocks.into(),
        assumed: walks.assumed(),
        walked: walks.walked,
        effort: walks.steps,
        part: walked.part,
        even,
        filled: last_wave(blocks, waves, multiprocessors * resident),
        phases: walked.phases,
        before_wait: walked.before_wait,
        taken: units.taken(first.together),
        roles: walked.roles,
    };
    Ok(prediction.clocked(target))
}

/// Cycles that overlap the launch before in a stream of such launches, whose blocks and device memory take so long. Device
/// memory is idle from the end of one launch to the wait's end in the next, so its own time overlaps only as far as copies
/// before the wait fill shared memory. A launch that copies nothing before the wait only begins earlier, and gains
/// nothing unless its blocks stay `apart` from those of the launch before.
fn overlapping(
    scheduled: &Scheduled<'_>,
    manifest: &Manifest,
    walked: &Walked,
    (end, memory, apart): (f64, f64, bool),
    target: &Target,
) -> f64 {
    let estimates = &target.estimates;
    let streamed = estimates.start_cycles - estimates.streamed_start(end);
    let waits = walked.before_wait.filter(|_| scheduled.launch.pdl);
    let early = scheduled.launch.arguments.iter().any(|a| a.before_wait);
    let (Some(cycles), true) = (waits, early) else {
        let saved = if waits.is_some() && apart { estimates.pdl_saved_cycles } else { 0.0 };
        return if memory < end { streamed + saved } else { 0.0 };
    };
    let hides = cycles + estimates.start_cycles - estimates.overlapped_start_cycles;
    let early =
        f64::from(manifest.dynamic_shared * target.multiprocessors) / target.rates.memory_bytes_per_cycle;
    end.max(memory) - (end - hides).max(memory - early.min(hides))
}

/// Whether blocks of a cluster copy to each other.
fn multicasts(scheduled: &Scheduled<'_>) -> bool {
    let mut insts = scheduled.roles.iter().flat_map(|role| role.func.insts.values());
    insts.any(|data| matches!(&data.attr, Attr::Tma(tma) if tma.multicast != 0))
}

/// A launch without blocks.
fn nothing(floor: Floor, target: &Target) -> Prediction {
    Prediction { cycles: target.estimates.start_cycles, floor, ..Prediction::default() }.clocked(target)
}

/// All blocks of a grid, if their number has 32 bits.
fn blocks_of(grid: [i64; 3]) -> Option<u32> {
    let all = grid.iter().try_fold(1_i64, |all, &n| all.checked_mul(n));
    u32::try_from(all?).ok()
}

/// The part of the places that the last of so many waves fills.
fn last_wave(blocks: u32, waves: u32, places: u32) -> f64 {
    f64::from(blocks - (waves - 1) * places) / f64::from(places)
}

/// The blocks of a launch along each dimension.
fn grid(manifest: &Manifest, multiprocessors: u32, sizes: &Sizes) -> Option<[i64; 3]> {
    let vars = |name: &str| match name {
        "sm_count" => Some(i64::from(multiprocessors)),
        _ => sizes.int(name),
    };
    let mut grid = [1; 3];
    for (extent, expr) in grid.iter_mut().zip(&manifest.grid) {
        *extent = expr.eval(&vars).ok().filter(|&v| v >= 0)?;
    }
    Some(grid)
}

/// Blocks that fit beside each other on a multiprocessor: threads, shared memory and registers limit them, and their number.
fn room(scheduled: &Scheduled<'_>, manifest: &Manifest, registers: u32, target: &Target) -> u32 {
    let threads = manifest.block.max(1);
    let beside = scheduled.launch.resident * threads;
    let registers = registers.min(target.registers / beside.max(1));
    let registers =
        if warplift_sched::divides_registers(scheduled) || warplift_sched::takes_its_share(scheduled) {
            target.entry_registers(beside)
        } else {
            registers.saturating_sub(SPARED)
        };
    let most = [
        target.resident_blocks,
        target.resident_threads / threads,
        (target.shared_bytes + target.reserved_shared_bytes)
            / (manifest.dynamic_shared + target.reserved_shared_bytes),
        target.registers / (registers.max(16).next_multiple_of(target.register_step) * threads),
    ];
    most.into_iter().min().unwrap_or(1).max(1)
}

/// Walks of a launch's blocks, of which there may be so many steps.
struct Walks<'p, 's, 'a> {
    program: Program<'s, 'a>,
    target: &'p Target,
    resident: u32,
    waves: u32,
    /// What blocks share.
    scene: Scene,
    /// Instructions that were walked, and those of a walk that another replaced.
    steps: u64,
    replaced: u64,
    /// Blocks that were walked.
    walked: u32,
    /// What blocks do in the mean, as a multiple of what the first one does.
    mean: f64,
    /// Blocks are known to do unequal work: long ones stay when those beside them have ended.
    unequal: bool,
    /// Cycles by which the last one of the blocks that share a counter is longer than all of them in the mean.
    last: f64,
    /// Bytes that device memory moves again, and whether the order of tiles tells all of them.
    again: (f64, bool),
    /// Parameters, from 1, whose unknown contents decided these walks; 0 where the array is not known.
    assumed: BTreeSet<u32>,
}

impl<'p, 's, 'a> Walks<'p, 's, 'a> {
    fn new(program: Program<'s, 'a>, target: &'p Target, resident: u32, waves: u32, scene: Scene) -> Self {
        let (steps, replaced, walked, last, assumed) = Default::default();
        Self {
            program,
            target,
            resident,
            waves,
            scene,
            steps,
            replaced,
            walked,
            mean: 1.0,
            unequal: false,
            last,
            again: (0.0, false),
            assumed,
        }
    }

    /// One block beside so many like it: when it ends, and the units it took.
    fn walk(
        &mut self,
        place: [i64; 3],
        resident: u32,
        arrival: Arrival,
    ) -> Result<(f64, Units, Walked), PredictError> {
        let mut units = Units::new(resident, self.target.schedulers);
        let walked = self.program.walk(place, arrival, &self.scene, &mut units)?;
        self.steps += walked.effort;
        self.assumed.extend(&walked.assumed);
        units.grow(1.0 / walked.part);
        let end = walked.roles.iter().map(|e| e.1).fold(0.0, f64::max);
        Ok((end.max(units.fullest()), units, walked))
    }

    /// The first block. Where device memory takes a good part of the launch's time, it is walked again, as it waits for that.
    fn first(
        &mut self,
        blocks: u32,
        memory: f64,
        (reads, work): (&Reads, &Unequal<'_>),
    ) -> Result<(Cost, Units, Walked), PredictError> {
        let seen = self.cost([0; 3])?;
        let end = f64::from(self.waves) * self.mean * seen.0.together;
        let once: f64 = reads.values().sum();
        let reads = self.moved(blocks, end, &seen.2.requests, (reads, work));
        let within = (reads.values().sum::<f64>() - once) / self.target.rates.memory_bytes_per_cycle;
        if memory + within < WAITED * end {
            self.scene.lost = f64::INFINITY;
            return Ok(seen);
        }
        (self.walked, self.last, self.replaced) = (0, 0.0, self.steps);
        self.scene.shares = self.shares(self.mean * f64::from(blocks), &seen.2.requests, &reads);
        self.cost([0; 3])
    }

    /// When the last of all blocks ends, and when all would if unequal ones were shared out evenly.
    fn end(
        &mut self,
        grid: [i64; 3],
        blocks: u32,
        first: Cost,
        walked: &Walked,
        unequal: &Unequal<'_>,
    ) -> (f64, Option<f64>) {
        let last = self.last;
        let places = Places { multiprocessors: self.target.multiprocessors, resident: self.resident };
        let drawn =
            walked.draws.then(|| drawn::end(&self.program, first.together, blocks, unequal)).flatten();
        if let Some((end, all)) = drawn {
            return (last + end, Some(all / places.all()));
        }
        let costs = Costs::new(grid, first, unequal.work.clone(), self);
        (last + launch::end(&costs, blocks, places), costs.shared_evenly(blocks, places))
    }

    /// Of each parameter the part that device memory moves of what all blocks ask for.
    fn shares(&self, blocks: f64, requests: &Requests, reads: &Reads) -> Vec<f64> {
        let arrays: Vec<Option<&str>> = self.program.arrays().collect();
        let asked = |parameter| requests.of(parameter) + requests.rereads(parameter, self.scene.lost);
        let share = |array: &Option<&str>| {
            let Some(read) = array.and_then(|name| reads.get(name)) else { return 0.0 };
            let same = arrays.iter().zip(0..).filter(|(other, _)| *other == array);
            let asked = blocks * same.map(|(_, parameter)| asked(parameter)).sum::<f64>();
            (read / asked.max(1.0)).min(1.0)
        };
        arrays.iter().map(share).collect()
    }

    /// What a block costs, and what was seen of it. Of blocks that share a counter it is the last one.
    fn cost(&mut self, place: [i64; 3]) -> Result<(Cost, Units, Walked), PredictError> {
        self.walked += 1;
        let (last, units, walked) = self.cost_of(place, Arrival::Last)?;
        if walked.sharers <= 1 {
            return Ok((last, units, walked));
        }
        let early = self.cost_of(place, Arrival::Other)?.0;
        let mean = early.toward(last, 1.0 / walked.sharers as f64);
        // It is alone in that: the blocks beside it are done.
        let alone = self.walk(place, 1, Arrival::Last)?.0 - self.walk(place, 1, Arrival::Other)?.0;
        self.last = self.last.max(alone * (1.0 - 1.0 / walked.sharers as f64));
        Ok((mean, units, walked))
    }

    fn cost_of(&mut self, place: [i64; 3], arrival: Arrival) -> Result<(Cost, Units, Walked), PredictError> {
        let (together, units, walked) = self.walk(place, self.resident, arrival)?;
        let is_alone = self.resident <= 1 || self.waves <= 1 && !self.unequal;
        let alone = if is_alone { together } else { self.walk(place, 1, arrival)?.0 };
        let unit = units.fullest() / f64::from(self.resident);
        Ok((Cost { together, alone, unit }, units, walked))
    }

    /// Names of the arrays whose unknown contents decided something.
    fn assumed(&self) -> Vec<String> {
        let names = self.assumed.iter().map(|&source| self.program.argument(source).unwrap_or_default());
        names.map(str::to_owned).collect()
    }

    /// What another block costs; `None` where it cannot be walked, or too much was walked already.
    fn another(&mut self, place: [i64; 3]) -> Option<Cost> {
        (self.steps - self.replaced < SAMPLED).then(|| self.cost(place).ok()).flatten().map(|seen| seen.0)
    }

    /// What one of the blocks costs that do most and least, however much was walked: without them nothing is known of
    /// the others. `None` where it cannot be walked.
    fn extreme(&mut self, place: [i64; 3]) -> Option<Cost> {
        self.cost(place).ok().map(|seen| seen.0)
    }

    /// When a launch ends whose blocks, of so much shared memory, end then, by what they share: the L2, of which the cycles are given
    /// too where it may decide, a line of global memory, their start.
    fn latest(
        &mut self,
        grid: [i64; 3],
        blocks: u32,
        (walked, unequal): (&Walked, &Unequal<'_>),
        (end, shared): (f64, u32),
    ) -> Result<(f64, Option<f64>), PredictError> {
        let started = f64::from(blocks) * self.target.estimates.block_start_cycles;
        let copying = self.copying(grid, blocks, (walked, unequal), (end, shared));
        let end = copying.map_or(end, |cycles| overlapped(end, cycles));
        Ok((end.max(self.updating(grid, walked)?).max(started), copying))
    }

    /// A block along each dimension that has several, at the place that is told by their number.
    fn others(
        &mut self,
        grid: [i64; 3],
        at: impl Fn(i64) -> i64,
    ) -> Result<[Option<Walked>; 3], PredictError> {
        let mut next = [None, None, None];
        for d in (0..3).filter(|&d| grid[d] > 1) {
            let place = std::array::from_fn(|e| if e == d { at(grid[d]) } else { 0 });
            next[d] = Some(self.walk(place, self.resident, Arrival::Last)?.2);
        }
        Ok(next)
    }

    /// Cycles of the line of global memory at which blocks wait longest for each other's updates.
    fn updating(&mut self, grid: [i64; 3], first: &Walked) -> Result<f64, PredictError> {
        if first.lines.is_empty() {
            return Ok(0.0);
        }
        let last = self.others(grid, |blocks| blocks - 1)?.map(|walked| walked.map(|walked| walked.lines));
        Ok(busiest(&first.lines, &last, grid))
    }
}

impl Prediction {
    /// With the clock of such work: power decides it.
    fn clocked(self, target: &Target) -> Self {
        Self { clock: self.clock_on(target), ..self }
    }

    /// Device memory and the L2 take their time whatever the clock of the multiprocessors is.
    fn clock_on(&self, target: &Target) -> Clock {
        let share = self.taken.iter().find(|t| t.0 == Unit::Tensor).map_or(0.0, |t| t.1);
        let products = target.clocks.of_products(share * self.occupied(target));
        let beyond = self.memory.max(self.copying.unwrap_or(0.0));
        let (blocks, memory) = (self.cycles - self.overlap, target.estimates.start_cycles + beyond);
        let of = |clock: f64, least: f64| blocks / (blocks / clock).max(memory / least.min(clock));
        Clock {
            burst: of(products.burst, target.clocks.memory.burst),
            sustained: of(products.sustained, target.clocks.memory.sustained),
        }
    }

    /// The share of the launch in which a multiprocessor has blocks, as a mean over all.
    fn occupied(&self, target: &Target) -> f64 {
        let groups = self.blocks as f64 / f64::from(self.resident);
        (groups * self.block / (f64::from(target.multiprocessors) * self.cycles)).min(1.0)
    }

    /// Time at a clock in GHz, from launch to launch in a stream of such launches.
    pub fn microseconds(&self, clock: f64) -> f64 {
        (self.cycles - self.overlap) / clock / 1000.0
    }
}

#[cfg(test)]
mod tests;
