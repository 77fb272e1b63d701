//! The walk of a block: each warpgroup of each role by one of its warps, the one furthest behind goes on.
//! `execute` says what one instruction does.

mod execute;

use super::accesses::Accesses;
use super::barriers::Barriers;
use super::boxes::Boxes;
use super::facts::{Facts, read_facts};
use super::guesses::Guesses;
use super::launched::{Contents, Launch};
use super::memory::{Memory, Scene};
use super::patterns::{Number, Patterns};
use super::phases::{Phase, Trips};
use super::traffic::{Copied, Requests};
use super::unequal::Unequal;
use super::units::Units;
use super::updates::{Arrival, Lines, Updates};
use super::warp::Warp;
use super::{PredictError, STEPS};
use crate::problem::Sizes;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use warplift_ir::entity::SecondaryMap;
use warplift_ir::machine::{Func, Inst, Role, RoleKind, Scheduled};
use warplift_ir::manifest::Param;
use warplift_ir::target::{Opcode, Target, Unit};
use warplift_ir::tile::Loc;

/// Cycles that a warp waits for operands before others that are behind it go on.
const YIELD_CYCLES: f64 = 2.0;
/// Instructions of all roles after which a walk is cut short; the rest is estimated.
const CUT: u64 = 36_000;
/// What a number that is computed lane by lane costs, in instructions whose numbers all lanes share.
const LANE_BY_LANE: u64 = 4;
/// Instructions of a warp's rest that are counted, without their times. A longer rest goes on as what was walked, which is
/// too short where inner loops grow: a triangle of 80 rows was given a third of its time with 160,000.
const SKIMMED: u64 = 284_000;
/// Copies of a block that are compared with those of the block before it.
const COMPARED: u64 = 64;

/// A scheduled program whose blocks are walked, with the sizes, the data and the grid of a launch.
pub struct Program<'s, 'a> {
    scheduled: &'s Scheduled<'a>,
    target: &'s Target,
    sizes: &'s Sizes,
    contents: Contents<'s>,
    boxes: Boxes,
    grid: [i64; 3],
    /// What tells its blocks apart beyond what a warp computes.
    unequal: Option<&'s Unequal<'s>>,
    setup: SecondaryMap<Inst, Facts>,
    /// In the order of the roles.
    roles: Vec<SecondaryMap<Inst, Facts>>,
}

impl<'s, 'a> Program<'s, 'a> {
    /// Reads what its instructions cost.
    pub fn new(scheduled: &'s Scheduled<'a>, target: &'s Target, launch: Launch<'s>, grid: [i64; 3]) -> Self {
        let setup = read_facts(&scheduled.setup, target);
        let roles = scheduled.roles.iter().map(|r| read_facts(&r.func, target)).collect();
        let names = scheduled.launch.params.iter().map(argument);
        let contents = Contents::new(names, launch.arrays);
        let boxes = Boxes::new(&scheduled.launch.params, launch.sizes, target);
        Self { scheduled, target, sizes: launch.sizes, contents, boxes, grid, unequal: None, setup, roles }
    }

    /// With what tells its blocks apart.
    pub fn told(self, unequal: &'s Unequal<'s>) -> Self {
        Self { unequal: Some(unequal), ..self }
    }

    /// The argument of a parameter that a walk found to decide something; 0 and what is no argument have no name.
    pub fn argument(&self, source: u32) -> Option<&str> {
        argument(self.scheduled.launch.params.get(source.checked_sub(1)? as usize)?)
    }

    /// The arrays of the parameters, in order; `None` for a workspace.
    pub fn arrays(&self) -> impl Iterator<Item = Option<&str>> {
        self.scheduled.launch.params.iter().map(|param| match param {
            Param::Argument { name } => Some(name.as_str()),
            Param::TensorMap(map) => Some(map.base.as_str()),
            Param::Workspace { .. } => None,
        })
    }

    /// Whether a parameter is the address of a workspace.
    fn is_workspace(&self, parameter: u32) -> bool {
        matches!(self.scheduled.launch.params.get(parameter as usize), Some(Param::Workspace { .. }))
    }

    /// The block at a place of the grid, all roles to their end.
    ///
    /// # Errors
    /// All roles wait, or more than [`STEPS`] instructions were walked.
    pub fn walk(
        &self,
        place: [i64; 3],
        arrival: Arrival,
        scene: &Scene,
        units: &mut Units,
    ) -> Result<Walked, PredictError> {
        Walk::new(self, place, arrival, scene).run(units)
    }
}

/// The work of a program that draws tiles, counted without times: copies, and one for each tile, of a role that copies;
/// else instructions.
#[derive(Clone, Copy, Debug)]
pub struct Skimmed {
    /// Of its first tile.
    pub tile: u64,
    /// Of all its tiles, if it was counted to the end.
    pub all: u64,
    /// Instructions that were counted for it.
    pub effort: u64,
    /// Tiles of the launch.
    pub tiles: u64,
}

impl<'s, 'a> Program<'s, 'a> {
    /// The role that draws tiles, from the tile of this number on: to the program's end, or through that tile alone. `None`
    /// if no role draws, or if there is too much to count.
    pub fn skim_tiles(&self, tile: i64, whole: bool) -> Option<Skimmed> {
        // Nothing is timed, so nothing waits for memory.
        let scene = Scene::new(1, true);
        let mut walk = Walk::new(self, [tile, 0, 0], Arrival::Last, &scene);
        let roles = self.scheduled.roles.iter().zip(&self.roles);
        let mut warp = roles.flat_map(|(role, facts)| Warp::of(role, facts)).find(|w| draws(w.func))?;
        // A producer draws behind a tile's copies, threads ahead of a tile's work.
        let ahead = u32::from(!copies(warp.func));
        walk.skim_until(&mut warp, |w| w.drawn == ahead)?;
        let issued = walk.skim_until(&mut warp, |w| w.drawn == ahead + 1)?;
        let copied = walk.copied;
        let rest = if whole { walk.skim(&mut warp)? } else { 0 };
        let tiles = walk.most.filter(|&most| most >= 0 && walk.drawn > 0)? as u64 + 1;
        let turns = u64::from(walk.drawn);
        Some(match copies(warp.func) {
            true => Skimmed { tile: copied + 1, all: walk.copied + turns, effort: issued + rest, tiles },
            false => Skimmed { tile: issued, all: issued + rest, effort: issued + rest, tiles },
        })
    }
}

impl Program<'_, '_> {
    /// The first copies of a block, of the first role that issues any. Nothing is timed.
    pub fn first_copies(&self, place: [i64; 3]) -> Vec<Copied> {
        let scene = Scene::new(1, true);
        let mut walk = Walk::new(self, place, Arrival::Last, &scene);
        let roles = self.scheduled.roles.iter().zip(&self.roles);
        let role = roles.flat_map(|(role, facts)| Warp::of(role, facts)).find(|w| copies(w.func));
        if let Some(mut warp) = role {
            // However far it came: what is not known counts as nobody else's.
            let _ = walk.skim_until(&mut warp, |w| w.copied >= COMPARED);
        }
        walk.first
    }
}

/// What a warp had issued, and when.
type Pace = (u64, f64);

/// A block being walked.
struct Walk<'l, 's, 'a> {
    program: &'l Program<'s, 'a>,
    target: &'s Target,
    /// Which block of the grid.
    place: [i64; 3],
    barriers: Barriers,
    updates: Updates,
    guesses: Guesses,
    /// Sums that all warps of the block make together.
    sums: FxHashMap<Loc, i64>,
    requests: Requests,
    scene: &'l Scene,
    memory: Memory<'l>,
    /// Bytes from the L2 in a cycle.
    cache_rate: f64,
    assumed: BTreeSet<u32>,
    patterns: Patterns,
    accesses: Accesses,
    trips: Trips,
    /// When the first warp waited for the launch before.
    before_wait: Option<f64>,
    steps: u64,
    /// Whether a warp has just begun with the next trip of its outermost loop, behind one in which it counted the block at a
    /// counter.
    is_behind: bool,
    /// Tiles that were drawn from a counter, and the number to which it counts, where that is known.
    drawn: u32,
    most: Option<i64>,
    /// Copies that were counted, and the first of them.
    copied: u64,
    first: Vec<Copied>,
    /// Whether the producer has told the other roles numbers of a tile.
    told: bool,
}

/// What a walk saw.
pub struct Walked {
    /// Names of the roles, and when each ends.
    pub roles: Vec<(String, f64)>,
    /// What the block asks of global memory.
    pub requests: Requests,
    /// What it cost, in instructions whose numbers all lanes share.
    pub effort: u64,
    /// The part of the block that was walked, in time.
    pub part: f64,
    /// Parameters, from 1, whose unknown contents bound a loop or chose a branch; 0 where the array is not known.
    pub assumed: BTreeSet<u32>,
    /// Its phases, and what bounds each.
    pub phases: Vec<Phase>,
    /// Cycles before the first `griddepcontrol.wait`; `None` without one.
    pub before_wait: Option<f64>,
    /// Blocks that count themselves at a counter, of which the last one does what is left; 1 without one.
    pub sharers: i64,
    /// Whether it drew tiles from a counter.
    pub draws: bool,
    /// Cycles of its updates by line of global memory.
    pub lines: Lines,
}

impl<'l, 's, 'a> Walk<'l, 's, 'a> {
    fn new(program: &'l Program<'s, 'a>, place: [i64; 3], arrival: Arrival, scene: &'l Scene) -> Self {
        let target = program.target;
        let (barriers, requests, assumed, patterns, accesses, trips) = Default::default();
        let updates = Updates::new(place, program.grid, arrival);
        let (before_wait, steps, is_behind) = (None, 0, false);
        let memory = Memory::new(scene, target.rates);
        let cache_rate = target.rates.cache_share(scene.multiprocessors);
        Self {
            program,
            target,
            place,
            barriers,
            updates,
            guesses: Guesses::default(),
            sums: program.unequal.map(|unequal| unequal.sums(place)).unwrap_or_default(),
            requests,
            scene,
            memory,
            cache_rate,
            assumed,
            patterns,
            accesses,
            trips,
            before_wait,
            steps,
            is_behind,
            drawn: 0,
            most: None,
            copied: 0,
            first: Vec::new(),
            told: false,
        }
    }

    /// What the walk has cost so far, in instructions whose numbers all lanes share.
    fn effort(&self) -> u64 {
        self.steps + LANE_BY_LANE * self.patterns.by_lanes()
    }

    fn run(mut self, units: &mut Units) -> Result<Walked, PredictError> {
        let (program, scheduled) = (self.program, self.program.scheduled);
        let mut setup = Warp::new("setup", &scheduled.setup, &program.setup, 0, scheduled.threads / 32);
        setup.share = units.share(setup.warps);
        if scheduled.launch.cluster > 1 {
            setup.now = self.target.estimates.cluster_start_cycles;
        }
        while !setup.ended {
            self.step(&mut setup, units)?;
        }
        let roles = scheduled.roles.iter().zip(&program.roles);
        let mut warps: Vec<Warp<'l, 'a>> = roles.flat_map(|(role, facts)| Warp::of(role, facts)).collect();
        warps.iter_mut().for_each(|w| (w.now, w.share) = (setup.now, units.share(w.warps)));
        // Of each warp what it had issued, and when, as half was walked of what is walked at most.
        let mut half: Vec<Pace> = Vec::new();
        // The same behind what was done at a counter.
        let mut behind = None;
        while let Some((i, next)) = furthest_behind(&warps) {
            // Nothing but a phase that ends changes who is behind, until this warp passes the next one.
            let mut goes_on = true;
            while goes_on {
                self.step(&mut warps[i], units)?;
                let warp = &warps[i];
                goes_on = !warp.ended && !warp.blocked && next.is_none_or(|n| is_behind(&warps, i, n));
                if self.barriers.phase_ended() {
                    warps.iter_mut().for_each(|w| w.blocked = false);
                    goes_on = false;
                }
                if self.steps.is_multiple_of(CUT / 64) && self.effort() >= CUT && may_be_cut(&warps) {
                    return Ok(self.cut(warps, (&half, behind.as_deref()), units));
                }
                if half.is_empty() && self.effort() >= CUT / 2 {
                    half = warps.iter().map(|w| (w.issued, w.now)).collect();
                }
                if std::mem::take(&mut self.is_behind) {
                    // A producer waits for those that add, and its time with it.
                    let now = warps[i].now;
                    behind = Some(warps.iter().map(|w| (w.issued, now.max(w.now))).collect::<Vec<_>>());
                }
            }
        }
        if warps.iter().any(|w| !w.ended) {
            let names: Vec<&str> = warps.iter().filter(|w| !w.ended).map(|w| w.name).collect();
            return Err(PredictError::Stuck(names.join(", ")));
        }
        Ok(self.seen(&warps, units, 1.0))
    }

    /// What was seen of the whole block, if this is so much of it.
    fn seen(self, warps: &[Warp<'_, '_>], units: &Units, part: f64) -> Walked {
        let end = |role: &Role<'_>| {
            let own = warps.iter().filter(|w| w.name == role.name);
            (role.name.to_owned(), own.map(Warp::expected_end).fold(0.0, f64::max))
        };
        let roles = self.program.scheduled.roles.iter().map(end).collect();
        // Only what was walked counts as a phase.
        let walked = warps.iter().map(|w| w.now).fold(0.0, f64::max);
        let phases = self.trips.phases(walked, units, part == 1.0);
        let effort = self.effort();
        Walked {
            roles,
            requests: self.requests,
            effort,
            part,
            assumed: self.assumed,
            phases,
            before_wait: self.before_wait,
            sharers: self.updates.sharers(),
            draws: self.drawn > 0,
            lines: self.updates.lines(),
        }
    }

    /// A walk that stops here: its end and its requests grow to those of the whole block.
    fn cut(
        mut self,
        mut warps: Vec<Warp<'l, 'a>>,
        since: (&[Pace], Option<&[Pace]>),
        units: &Units,
    ) -> Walked {
        let latest = |f: fn(&Warp<'_, '_>) -> f64| warps.iter().map(f).fold(0.0, f64::max);
        let (now, even) = (latest(|w| w.now), latest(|w| w.expected_end()));
        let end = self.counted_end(&mut warps, since).map_or(even, |end| end.max(now));
        self.requests.grow(end / now);
        self.updates.grow(end / now);
        let mut seen = self.seen(&warps, units, now / end);
        seen.roles.iter_mut().for_each(|(_, role)| *role *= end / even);
        seen
    }

    /// The end by what is left to issue, at the pace of the second half of what was walked: a producer begins with as many
    /// stages as its ring has. Loops whose trips are all alike would let the end be found by their counters, but trips of
    /// an outer loop can hold more and more of an inner one, or fewer and fewer. Of those that do not copy, or of all, the
    /// warp that issues least counts its own: a producer is a ring ahead. Tiles that are drawn are known to the role alone
    /// that draws them, and what a producer tells of a tile to the producer. What a block does at a counter is no part of the
    /// pace, if it comes to none again.
    fn counted_end(
        &mut self,
        warps: &mut [Warp<'l, 'a>],
        (half, behind): (&[Pace], Option<&[Pace]>),
    ) -> Option<f64> {
        let open = warps.iter().enumerate().filter(|(_, w)| !w.ended);
        let is_told = |w: &Warp<'_, '_>| match self.drawn {
            0 => self.told && w.name != RoleKind::Producer.name(),
            _ => !draws(w.func),
        };
        let (k, _) = open.min_by_key(|(_, w)| (is_told(w), copies(w.func), w.issued))?;
        let (now, issued) = (warps[k].now, warps[k].issued);
        let arrivals = self.updates.arrivals();
        let rest = self.rest(&mut warps[k]);
        let others = warps.iter_mut().enumerate().filter(|(i, w)| *i != k && !w.ended);
        let once = behind.is_some()
            && others.map(|(_, w)| self.rest(w)).all(|rest| rest.is_some())
            && self.updates.arrivals() == arrivals;
        let since = behind.filter(|_| once).unwrap_or(half);
        let (before, since) = since.get(k).copied().filter(|h| h.0 < issued).unwrap_or((0, 0.0));
        Some(now + rest? as f64 * (now - since) / (issued - before) as f64)
    }

    /// What a warp has still to issue; it only keeps its place in time.
    fn rest(&mut self, warp: &mut Warp<'l, 'a>) -> Option<u64> {
        let (now, progress) = (warp.now, warp.progress.clone());
        let rest = self.skim(warp);
        (warp.now, warp.ended, warp.progress) = (now, false, progress);
        rest
    }

    /// Instructions that a warp has still to issue: its branches are followed, and nothing is waited for. `None` if they
    /// are too many to count.
    fn skim(&mut self, warp: &mut Warp<'l, 'a>) -> Option<u64> {
        self.skim_until(warp, |_| false)
    }

    /// The same up to a point.
    fn skim_until(&mut self, warp: &mut Warp<'l, 'a>, at: impl Fn(&Self) -> bool) -> Option<u64> {
        (0..SKIMMED).find(|_| {
            let over = warp.ended || at(self);
            if !over {
                self.pass(warp);
            }
            over
        })
    }

    /// An instruction by its result alone.
    fn pass(&mut self, warp: &mut Warp<'l, 'a>) {
        let inst = warp.next();
        let (data, facts) = (&warp.func.insts[inst], &warp.facts[inst]);
        warp.at += 1;
        match data.op {
            _ if warp.known.skips(data.guard, &self.patterns) => {
                warp.results(data, Some(Number::same(0)), 0.0)
            }
            Opcode::Ret | Opcode::Trap => warp.ended = true,
            Opcode::Br => warp.jump(inst, 0),
            Opcode::BrIf => drop(warp.branch(inst, data)),
            Opcode::StShared if self.drawn > 0 => self.note(warp, data),
            op if op.is_async_load() => {
                self.copied += 1;
                if self.copied <= COMPARED {
                    self.first.extend(Self::copied(warp, data));
                }
            }
            _ => {
                let number = self.number(warp, data, facts);
                warp.results(data, number, 0.0);
            }
        }
    }

    /// One instruction, or none if it waits for what has not come.
    fn step(&mut self, warp: &mut Warp<'l, 'a>, units: &mut Units) -> Result<(), PredictError> {
        let (func, inst) = (warp.func, warp.next());
        let (data, facts) = (&func.insts[inst], &warp.facts[inst]);
        // Whoever comes first takes a unit first.
        let waits = warp.due(data, facts) - warp.now;
        warp.now += waits;
        if waits > YIELD_CYCLES {
            return Ok(());
        }
        self.steps += 1;
        if self.effort() > STEPS {
            return Err(PredictError::Long);
        }
        if warp.known.skips(data.guard, &self.patterns) {
            warp.issued += 1;
            warp.results(data, Some(Number::same(0)), warp.now);
            warp.at += 1;
            return Ok(());
        }
        let at = warp.now;
        let waits = match data.op {
            Opcode::MbarWait => !self.wait(warp, data),
            Opcode::BarSync => !self.meets(warp, data),
            _ => false,
        };
        if waits {
            warp.blocked = true;
            return Ok(());
        }
        if self.piece(warp, data, facts, units) {
            return Ok(());
        }
        warp.at += 1;
        warp.issued += 1;
        if !facts.passes {
            warp.catch_up();
        }
        if facts.slots > 0.0 {
            units.take(Unit::None, at, facts.slots * warp.share);
        }
        match data.op {
            Opcode::Ret | Opcode::Trap => warp.ended = true,
            Opcode::Br => warp.jump(inst, 0),
            Opcode::BrIf => {
                self.assumed.extend(warp.branch(inst, data));
                if warp.over {
                    self.trips.over(warp.now, units);
                    self.is_behind = warp.progress.is_outermost() && std::mem::take(&mut warp.arrived);
                }
            }
            _ => {
                let arrivals = self.updates.arrivals();
                self.execute(warp, data, facts, units);
                warp.arrived |= self.updates.arrivals() != arrivals;
            }
        }
        Ok(())
    }
}

/// Whether a role issues copies: its other instructions take no time of those that compute.
fn copies(func: &Func<'_>) -> bool {
    func.insts.values().any(|d| d.op.is_async_load())
}

/// Whether a role draws tiles from a counter.
fn draws(func: &Func<'_>) -> bool {
    func.insts.values().any(|d| d.op == Opcode::AtomIncRelaxedU32)
}

/// Whether enough is known of the loops of those that have not ended.
fn may_be_cut(warps: &[Warp<'_, '_>]) -> bool {
    let mut open = warps.iter().filter(|w| !w.ended).peekable();
    open.peek().is_some() && open.all(|w| w.progress.part().is_some())
}

/// Whether the first of two warps goes on before the second: its time is less, or it comes first.
fn is_behind(warps: &[Warp<'_, '_>], first: usize, second: usize) -> bool {
    (warps[first].now, first) < (warps[second].now, second)
}

/// The warp that goes on, of those that may, and the one after it.
fn furthest_behind(warps: &[Warp<'_, '_>]) -> Option<(usize, Option<usize>)> {
    let (mut least, mut next) = (None, None);
    for i in (0..warps.len()).filter(|&i| !warps[i].ended && !warps[i].blocked) {
        if least.is_none_or(|l| is_behind(warps, i, l)) {
            (least, next) = (Some(i), least);
        } else if next.is_none_or(|n| is_behind(warps, i, n)) {
            next = Some(i);
        }
    }
    Some((least?, next))
}

/// The argument that a parameter passes.
fn argument(param: &Param) -> Option<&str> {
    match param {
        Param::Argument { name } => Some(name),
        Param::TensorMap(_) | Param::Workspace { .. } => None,
    }
}
