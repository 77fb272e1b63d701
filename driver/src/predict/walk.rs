//! The walk of a block: each warpgroup of each role by one of its warps, the one furthest behind goes on.

use super::accesses::{Access, Accesses};
use super::barriers::Barriers;
use super::facts::{Facts, LANES, interval, read_facts};
use super::lanes::Known;
use super::launched::{Contents, Launch, parameter_at, pointer};
use super::patterns::{Number, Patterns};
use super::phases::{Phase, Trips};
use super::traffic::Requests;
use super::units::Units;
use super::updates::{Arrival, Updates};
use super::warp::{Warp, offset};
use super::{PredictError, STEPS};
use crate::problem::Sizes;
use std::collections::BTreeSet;
use warplift_ir::entity::SecondaryMap;
use warplift_ir::machine::{Attr, Inst, InstData, Role, Scheduled};
use warplift_ir::manifest::Param;
use warplift_ir::target::{Opcode, Rates, Target, Unit};

/// Instructions of all roles after which a walk is cut short; the rest is estimated.
const CUT: u64 = 36_000;
/// What a number that is computed lane by lane costs, in instructions whose numbers all lanes share.
const LANE_BY_LANE: u64 = 4;
/// Bytes that a multiprocessor has asked of global memory, or sent there, before its warps are held up: so many were in
/// flight in docs/microbenchmarks.md (`global.bandwidth.memory.loads8.warps24`).
const IN_FLIGHT: f64 = 8.0 * 24.0 * 512.0;
/// Instructions of a warp's rest that are counted, without their times. A longer rest goes on as what was walked.
const SKIMMED: u64 = 160_000;

/// A scheduled program whose blocks are walked, with the sizes, the data and the grid of a launch.
pub struct Program<'s, 'a> {
    scheduled: &'s Scheduled<'a>,
    target: &'s Target,
    sizes: &'s Sizes,
    contents: Contents<'s>,
    grid: [i64; 3],
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
        Self { scheduled, target, sizes: launch.sizes, contents, grid, setup, roles }
    }

    /// The argument of a parameter that a walk found to decide something; 0 and what is no argument have no name.
    pub fn argument(&self, source: u32) -> Option<&str> {
        argument(self.scheduled.launch.params.get(source.checked_sub(1)? as usize)?)
    }

    /// Whether a parameter is the address of a workspace.
    fn is_workspace(&self, parameter: u32) -> bool {
        matches!(self.scheduled.launch.params.get(parameter as usize), Some(Param::Workspace { .. }))
    }

    /// The block at a place of the grid, all roles to their end.
    ///
    /// # Errors
    /// All roles wait, or more than [`STEPS`] instructions were walked.
    pub fn walk(&self, place: [i64; 3], arrival: Arrival, units: &mut Units) -> Result<Walked, PredictError> {
        Walk::new(self, place, arrival).run(units)
    }
}

/// A block being walked.
struct Walk<'l, 's, 'a> {
    program: &'l Program<'s, 'a>,
    target: &'s Target,
    /// Which block of the grid.
    place: [i64; 3],
    barriers: Barriers,
    updates: Updates,
    requests: Requests,
    assumed: BTreeSet<u32>,
    patterns: Patterns,
    accesses: Accesses,
    trips: Trips,
    /// When the first warp waited for the launch before.
    before_wait: Option<f64>,
    steps: u64,
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
}

impl<'l, 's, 'a> Walk<'l, 's, 'a> {
    fn new(program: &'l Program<'s, 'a>, place: [i64; 3], arrival: Arrival) -> Self {
        let target = program.target;
        let (barriers, requests, assumed, patterns, accesses, trips) = Default::default();
        let updates = Updates::new(place, program.grid, arrival);
        let (before_wait, steps) = (None, 0);
        Self {
            program,
            target,
            place,
            barriers,
            updates,
            requests,
            assumed,
            patterns,
            accesses,
            trips,
            before_wait,
            steps,
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
        while !setup.ended {
            self.step(&mut setup, units)?;
        }
        let roles = scheduled.roles.iter().zip(&program.roles);
        let mut warps: Vec<Warp<'l, 'a>> = roles.flat_map(|(role, facts)| Warp::of(role, facts)).collect();
        warps.iter_mut().for_each(|w| (w.now, w.share) = (setup.now, units.share(w.warps)));
        // Of each warp what it had issued, and when, as half was walked of what is walked at most.
        let mut half: Vec<(u64, f64)> = Vec::new();
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
                    return Ok(self.cut(warps, &half, units));
                }
                if half.is_empty() && self.effort() >= CUT / 2 {
                    half = warps.iter().map(|w| (w.issued, w.now)).collect();
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
        }
    }

    /// A walk that stops here: its end and its requests grow to those of the whole block.
    fn cut(mut self, mut warps: Vec<Warp<'l, 'a>>, half: &[(u64, f64)], units: &Units) -> Walked {
        let latest = |f: fn(&Warp<'_, '_>) -> f64| warps.iter().map(f).fold(0.0, f64::max);
        let (now, even) = (latest(|w| w.now), latest(|w| w.expected_end()));
        let end = self.counted_end(&mut warps, half).map_or(even, |end| end.max(now));
        self.requests.grow(end / now);
        let mut seen = self.seen(&warps, units, now / end);
        seen.roles.iter_mut().for_each(|(_, role)| *role *= end / even);
        seen
    }

    /// The end by what is left to issue, at the pace of the second half of what was walked: a producer begins with as many
    /// stages as its ring has. Loops whose trips are all alike would let the end be found by their counters, but trips of
    /// an outer loop can hold more and more of an inner one, or fewer and fewer. The warp that issues least counts its own.
    fn counted_end(&mut self, warps: &mut [Warp<'l, 'a>], half: &[(u64, f64)]) -> Option<f64> {
        let open = warps.iter().enumerate().filter(|(_, w)| !w.ended);
        let (k, _) = open.min_by_key(|(_, w)| w.issued)?;
        let warp = &mut warps[k];
        let (now, issued) = (warp.now, warp.issued);
        let progress = warp.progress.clone();
        let rest = self.skim(warp);
        (warp.now, warp.ended, warp.progress) = (now, false, progress);
        let (before, since) = half.get(k).copied().filter(|h| h.0 < issued).unwrap_or((0, 0.0));
        Some(now + rest? as f64 * (now - since) / (issued - before) as f64)
    }

    /// Instructions that a warp has still to issue: its branches are followed, and nothing is waited for. `None` if they
    /// are too many to count.
    fn skim(&mut self, warp: &mut Warp<'l, 'a>) -> Option<u64> {
        (0..SKIMMED).find(|_| {
            let over = warp.ended;
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
            _ => {
                let number = self.number(warp, data, facts);
                warp.results(data, number, 0.0);
            }
        }
    }

    /// One instruction, or none if it waits for what has not come.
    fn step(&mut self, warp: &mut Warp<'l, 'a>, units: &mut Units) -> Result<(), PredictError> {
        self.steps += 1;
        if self.effort() > STEPS {
            return Err(PredictError::Long);
        }
        let (func, inst) = (warp.func, warp.next());
        let (data, facts) = (&func.insts[inst], &warp.facts[inst]);
        if warp.known.skips(data.guard, &self.patterns) {
            warp.issued += 1;
            warp.results(data, Some(Number::same(0)), warp.now);
            warp.at += 1;
            return Ok(());
        }
        if data.op == Opcode::MbarWait && !self.wait(warp, data) {
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
        match data.op {
            Opcode::Ret | Opcode::Trap => warp.ended = true,
            Opcode::Br => warp.jump(inst, 0),
            Opcode::BrIf => {
                self.assumed.extend(warp.branch(inst, data));
                if warp.over {
                    self.trips.over(warp.now, units);
                }
            }
            _ => self.execute(warp, data, facts, units),
        }
        Ok(())
    }

    /// A piece of an instruction that is repeated over a large fragment; `false` where the last one is left, or where it is
    /// walked at once.
    fn piece(&self, warp: &mut Warp<'_, 'a>, data: &InstData<'a>, facts: &Facts, units: &mut Units) -> bool {
        let (done, pieces) = (warp.piece.0, facts.pieces);
        let Some(unit) = facts.unit.filter(|_| done + 1 < pieces && !facts.free) else { return false };
        if done == 0 && warp.waits_for_memory(data) {
            return false;
        }
        let start = warp.operands_of(data, done, pieces);
        let issued = facts.issued / f64::from(pieces) * self.slower(units, start);
        let own = facts.busy / f64::from(pieces);
        let slot = units.take(Unit::None, start, issued * warp.share);
        let begins = units.take(unit, slot, own * warp.share);
        warp.now = begins + own.max(issued);
        let first = if done == 0 { warp.now + facts.latency } else { warp.piece.1 };
        warp.piece = (done + 1, first);
        true
    }

    /// How many times the cycles an instruction takes to issue: beside products that read registers it shares their ports.
    fn slower(&self, units: &Units, at: f64) -> f64 {
        if units.is_reading_registers(at) { 1.0 / self.target.estimates.beside_products } else { 1.0 }
    }

    fn wait(&self, warp: &mut Warp<'_, 'a>, data: &InstData<'a>) -> bool {
        let at = warp.arg(data, 0) + offset(&data.attr);
        let Some(over) = self.barriers.over(at, warp.arg(data, 1)) else { return false };
        // What is over when the warp comes costs a try; what it waited for, the way back.
        let row = self.target.row(data.op);
        warp.now = (warp.now + interval(row)).max(over + f64::from(row.latency) / 2.0);
        true
    }

    fn execute(&mut self, warp: &mut Warp<'_, 'a>, data: &InstData<'a>, facts: &Facts, units: &mut Units) {
        let start = warp.operands(data);
        match data.op {
            Opcode::MbarWait => {}
            Opcode::GriddepWait => {
                self.before_wait.get_or_insert(start);
                self.plain(warp, data, facts, units, start);
            }
            Opcode::StShared => {
                self.note(warp, data);
                self.plain(warp, data, facts, units, start);
            }
            Opcode::MbarInit => self.barriers.init(warp.arg(data, 0), immediate(data)),
            Opcode::MbarExpectTx => {
                self.barriers.update(warp.arg(data, 0), 1, immediate(data), start);
                warp.now = start + 1.0;
            }
            Opcode::MbarArrive | Opcode::MbarArriveRemote => {
                let lanes = if data.guard.is_some() { 1 } else { LANES as i64 };
                let at = warp.arg(data, 0) + offset(&data.attr);
                let time = start + interval(self.target.row(data.op));
                self.barriers.update(at, lanes * i64::from(warp.warps), 0, time);
                warp.now = start + 1.0;
            }
            Opcode::Wgmma => multiply(warp, data, &self.target.rates, units, start),
            Opcode::WgmmaCommit => warp.products.commit(),
            Opcode::WgmmaWait => warp.products.hold(&mut warp.now, immediate(data)),
            Opcode::TmaLoad | Opcode::BulkLoad | Opcode::TmaStore => self.copy(warp, data, units, start),
            Opcode::BulkCommit => warp.stores.commit(),
            Opcode::BulkWait | Opcode::BulkWaitRead => warp.stores.hold(&mut warp.now, immediate(data)),
            _ => self.plain(warp, data, facts, units, start),
        }
    }

    fn copy(&mut self, warp: &mut Warp<'_, 'a>, data: &InstData<'a>, units: &mut Units, start: f64) {
        let Attr::Tma(tma) = data.attr else { return };
        let mut coordinates = data.args.iter().skip(1 + usize::from(data.op != Opcode::TmaStore));
        let place = coordinates.try_fold(0, |at: i64, &v| Some((at << 20) ^ warp.known[v].value?));
        let fresh = place.is_some_and(|place| self.requests.add(pointer(tma.map) ^ place, tma.bytes.into()));
        warp.now = start + 2.0;
        let rates = &self.target.rates;
        if data.op == Opcode::TmaStore {
            let cycles = f64::from(tma.bytes) * units.blocks() / rates.store_bytes_per_cycle;
            // Each warp of the role copies its own part.
            let cycles = cycles * if warp.warps > 1 { f64::from(warp.warps) } else { 1.0 };
            warp.stores.open = units.take(Unit::Tma, start, cycles) + cycles + rates.copy_latency / 2.0;
            return;
        }
        let cycles = rates.copy(tma.bytes.into(), self.rows(tma.map)) * units.blocks();
        // What the block asks for the first time comes from device memory.
        let late = if fresh { rates.memory_latency - rates.cache_latency } else { 0.0 };
        let end = units.take(Unit::Tma, start, cycles) + cycles + rates.copy_latency + late;
        let received = u32::max(tma.multicast.count_ones(), 1) * tma.bytes;
        self.barriers.update(warp.arg(data, 1), 0, -i64::from(received), end);
    }

    /// Rows of the box of a tensor map; a bulk copy is one row.
    fn rows(&self, map: u32) -> f64 {
        match self.program.scheduled.launch.params.get(map as usize) {
            Some(Param::TensorMap(map)) => map.box_dims.iter().skip(1).map(|&n| f64::from(n)).product(),
            _ => 1.0,
        }
    }

    /// Everything that is issued, repeated over a fragment, and ready after its latency.
    fn plain(
        &mut self,
        warp: &mut Warp<'_, 'a>,
        data: &InstData<'a>,
        facts: &Facts,
        units: &mut Units,
        start: f64,
    ) {
        let number = self.number(warp, data, facts);
        let source = warp.source(data);
        if facts.free {
            let first = if data.op == Opcode::Slice { start } else { warp.firsts(data) };
            let known = Known { first, ready: start, source, ..Known::of(number) };
            return data
                .results
                .iter()
                .for_each(|&r| warp.known.put(r, Known { loaded: warp.known[r].loaded, ..known }));
        }
        let share = warp.share;
        let Occupies { unit, cycles, latency, queued } = self.occupies(warp, data, facts, units);
        let part = if warp.piece.0 > 0 { 1.0 / f64::from(facts.pieces) } else { 1.0 };
        // What waits for memory lets others pass.
        let late = facts.passes && warp.waits_for_memory(data);
        let issue = if late { warp.now } else { start };
        let (cycles, issued) = (cycles * part, facts.issued * part * self.slower(units, issue));
        let slot = units.take(Unit::None, issue, issued * share);
        let begins = units.take(unit, slot, cycles);
        // Warps of other blocks on this scheduler go on while this one waits.
        let own = (cycles / share).max(issued);
        warp.now = queued.map_or(begins + own, |cycles| slot.max(begins - cycles) + issued);
        let ready = begins.max(start) + own + latency;
        if late {
            warp.waiting = warp.waiting.max(start);
        }
        let array = || warp.value(data, 0).and_then(parameter_at).map_or(source, |(p, _)| p + 1);
        let source = if facts.loads { array() } else { source };
        let first = if warp.piece.0 > 0 { warp.piece.1 } else { ready };
        warp.piece = (0, 0.0);
        let known = Known { first, ready, loaded: late || facts.loads, source, ..Known::of(number) };
        data.results.iter().for_each(|&r| warp.known.put(r, known));
    }

    /// What an instruction computes or reads, if that is known.
    fn number(&mut self, warp: &Warp<'_, 'a>, data: &InstData<'a>, facts: &Facts) -> Option<Number> {
        match data.op {
            _ if facts.loads => return self.read(warp, data),
            Opcode::LdShared => {
                let at = warp.addresses(data, 0).filter(|at| at.is_same())?;
                return self.updates.word(at.first, &data.attr).map(Number::same);
            }
            Opcode::AtomAddU32 | Opcode::AtomIncU32 => return self.draw(warp, data),
            _ => {}
        }
        warp.known.compute(data, &mut self.patterns).or_else(|| self.given(warp, data))
    }

    /// The lane that an access is of, if one alone takes part, and its address.
    fn only_lane(&self, warp: &Warp<'_, 'a>, data: &InstData<'a>) -> Option<(usize, i64)> {
        let active = warp.known.active(data.guard, &self.patterns);
        let lane = active.trailing_zeros() as usize;
        (active.count_ones() == 1)
            .then(|| Some((lane, self.patterns.lanes(warp.addresses(data, 0)?)[lane])))
            .flatten()
    }

    /// What one lane alone draws at a counter.
    fn draw(&mut self, warp: &Warp<'_, 'a>, data: &InstData<'a>) -> Option<Number> {
        let (lane, at) = self.only_lane(warp, data)?;
        let by = self.patterns.lanes(warp.known.number(*data.args.get(1)?)?)[lane];
        let first = self.program.contents.read(at, 4).unwrap_or(0);
        Some(Number::same(match data.op {
            Opcode::AtomIncU32 => self.updates.arrive(by),
            _ => self.updates.draw(at, first, by),
        }))
    }

    /// What one lane alone, or all together, put into a word of shared memory.
    fn note(&mut self, warp: &Warp<'_, 'a>, data: &InstData<'a>) {
        if data.guard.is_none() && self.updates.knows_no_word() {
            return;
        }
        let value = data.args.get(1).and_then(|&v| warp.known.number(v));
        if let Some((lane, at)) = self.only_lane(warp, data) {
            let value = value.map(|v| self.patterns.lanes(v)[lane]);
            return self.updates.put(at, &data.attr, value);
        }
        match warp.addresses(data, 0) {
            Some(at) if at.is_same() => {
                let value = value.filter(|v| v.is_same()).map(|v| v.first);
                self.updates.put(at.first, &data.attr, value);
            }
            Some(at) => self.patterns.lanes(at).iter().for_each(|&at| self.updates.put(at, &data.attr, None)),
            None => self.updates.forget(),
        }
    }

    /// What a load of one register finds in given contents; lanes that a guard holds back find zero.
    fn read(&mut self, warp: &Warp<'_, 'a>, data: &InstData<'a>) -> Option<Number> {
        let bytes = match (data.op, &data.attr) {
            (Opcode::LdGlobal8, _) => 1,
            (Opcode::LdGlobal16, _) => 2,
            (Opcode::LdGlobal64, _) => 8,
            (_, Attr::Mem { count: 1, .. }) => 4,
            _ => return None,
        };
        let addresses = warp.addresses(data, 0)?;
        let (parameter, _) = parameter_at(addresses.first)?;
        if !self.program.contents.has(parameter) {
            return None;
        }
        let active = warp.known.active(data.guard, &self.patterns);
        if addresses.is_same() && active == u32::MAX {
            return self.program.contents.read(addresses.first, bytes).map(Number::same);
        }
        let mut lanes = self.patterns.lanes(addresses);
        for (l, at) in lanes.iter_mut().enumerate() {
            *at = if active >> l & 1 == 1 { self.program.contents.read(*at, bytes)? } else { 0 };
        }
        Some(self.patterns.number(lanes))
    }

    /// What an instruction takes.
    fn occupies(
        &mut self,
        warp: &Warp<'_, 'a>,
        data: &InstData<'a>,
        facts: &Facts,
        units: &Units,
    ) -> Occupies {
        let share = warp.share;
        let Some((unit, bytes)) = facts.access else {
            let unit = facts.unit.unwrap_or(Unit::None);
            return Occupies { unit, cycles: share * facts.busy, latency: facts.latency, queued: None };
        };
        let addresses = warp.addresses(data, usize::from(data.op == Opcode::CpAsync));
        let moved = self.moved(warp, data, (unit, bytes), addresses);
        if unit != Unit::Tma {
            // Loads are issued as far ahead as their registers allow.
            let queued = facts.passes.then_some(f64::INFINITY);
            return Occupies { unit, cycles: share * 4.0 * moved, latency: facts.latency, queued };
        }
        // Global memory: what all warps move, over the multiprocessor's part of the L2.
        let all = moved * f64::from(warp.warps);
        // What the block asks for the first time comes from device memory.
        let fresh = addresses.is_some_and(|place| {
            // What blocks leave for each other in a workspace is in the L2.
            let shared = parameter_at(place.first).is_some_and(|(p, _)| self.program.is_workspace(p));
            !shared && self.requests.add(place.first, all)
        });
        let least = if fresh { self.target.rates.memory_latency } else { 0.0 };
        let rate = self.target.rates.cache_bytes_per_cycle;
        // Lanes whose sectors are not all theirs hold the warp up: line after line is looked up.
        let queued = Some(if moved <= bytes { IN_FLIGHT / rate } else { 0.0 });
        Occupies { unit, cycles: all * units.blocks() / rate, latency: facts.latency.max(least), queued }
    }

    /// Cycles of shared memory or bytes of global memory, by the addresses of the lanes that take part.
    fn moved(
        &mut self,
        warp: &Warp<'_, 'a>,
        data: &InstData<'a>,
        (unit, bytes): (Unit, f64),
        addresses: Option<Number>,
    ) -> f64 {
        let access = match data.op {
            Opcode::Ldmatrix | Opcode::Stmatrix => Access::Matrices((bytes / 128.0) as u32),
            _ if unit == Unit::Tma => Access::Global((bytes / LANES) as u32),
            _ => Access::Shared((bytes / LANES) as u32),
        };
        let Some(at) = addresses else { return access.anywhere() };
        let active = warp.known.active(data.guard, &self.patterns);
        self.accesses.cost(access, at, active, &self.patterns)
    }

    /// Values that come from outside: parameters and places.
    fn given(&mut self, warp: &Warp<'_, 'a>, data: &InstData<'a>) -> Option<Number> {
        let (grid, launch) = (self.program.grid, &self.program.scheduled.launch);
        let cluster = i64::from(launch.cluster.max(1));
        let value = match (data.op, &data.attr) {
            (Opcode::Tid, _) => {
                return Some(self.patterns.number(std::array::from_fn(|l| warp.thread + l as i64)));
            }
            (Opcode::Laneid, _) => return Some(self.patterns.number(std::array::from_fn(|l| l as i64))),
            (Opcode::Const, Attr::Imm(v)) => Some(*v),
            (Opcode::SharedBase | Opcode::ClusterRank | Opcode::TeamIndex, _) => Some(0),
            (Opcode::CtaidX, _) => Some(self.place[0]),
            (Opcode::CtaidY, _) => Some(self.place[1]),
            (Opcode::CtaidZ, _) => Some(self.place[2]),
            (Opcode::ClusterId, _) => Some(self.place[0] / cluster),
            (Opcode::NctaidX, _) => Some(grid[0]),
            (Opcode::NctaidY, _) => Some(grid[1]),
            (Opcode::NctaidZ, _) => Some(grid[2]),
            (Opcode::ClusterCount, _) => Some(grid[0] / cluster),
            (Opcode::Elect, _) => Some(1),
            (op @ (Opcode::LdParam32 | Opcode::LdParam64), Attr::Param(n)) => {
                let size = match launch.params.get(*n as usize) {
                    Some(Param::Argument { name }) => self.program.sizes.int(name),
                    _ => None,
                };
                size.or_else(|| (op == Opcode::LdParam64).then(|| pointer(*n)))
            }
            _ => None,
        };
        value.map(Number::same)
    }
}

/// The unit that an instruction takes, for how many cycles, and its latency.
struct Occupies {
    unit: Unit,
    cycles: f64,
    latency: f64,
    /// Cycles of the unit's work that may wait in a queue while the warp goes on; `None` where it holds the warp until it
    /// is done.
    queued: Option<f64>,
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

fn multiply(warp: &mut Warp<'_, '_>, data: &InstData<'_>, rates: &Rates, units: &mut Units, start: f64) {
    let Attr::Wgmma(attr) = &data.attr else { return };
    // Fragments hold the warp until the group before is done.
    let start =
        if attr.a.is_none() { warp.products.last().map_or(start, |end| end.max(start)) } else { start };
    let groups = f64::from(warp.warps.div_ceil(4)) * units.blocks();
    let cycles = attr.cycles(rates) * groups;
    let begins = units.take(Unit::Tensor, start, cycles);
    if attr.a.is_none() {
        let reads = rates.product_register_cycles / rates.product(attr.n.into(), false);
        units.reads_registers(begins + reads * cycles);
    }
    warp.products.open = begins + cycles + rates.product_latency;
    warp.now = start + 4.0 * f64::from(attr.k_steps);
    let ready = warp.now;
    warp.results(data, None, ready);
}

fn immediate(data: &InstData<'_>) -> i64 {
    match data.attr {
        Attr::Imm(v) => v,
        _ => 0,
    }
}
