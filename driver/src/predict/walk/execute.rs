//! What one instruction of a walk does: the units it takes and how long, the values it gives, the memory it touches.
//!
//! ```text
//!  instruction ─► piece (a row over a large fragment) ─► execute ─► units: from, for how many cycles
//!                                                                  warp: its time, its results
//!                                                                  walk: memory, barriers, counters
//! ```

use super::Walk;
use crate::predict::accesses::{Access, SECTOR, meetings};
use crate::predict::facts::{Facts, LANES, interval, is_atomic, is_shared_atomic};
use crate::predict::fragments::{self, Operands};
use crate::predict::lanes::Known;
use crate::predict::launched::{parameter_at, pointer};
use crate::predict::memory::Way;
use crate::predict::patterns::Number;
use crate::predict::traffic::Copied;
use crate::predict::units::Units;
use crate::predict::warp::{Warp, offset};
use warplift_ir::machine::{Attr, InstData, RoleKind, Value};
use warplift_ir::manifest::Param;
use warplift_ir::target::{Opcode, Target, Unit};

/// Bytes that a multiprocessor has asked of global memory, or sent there, before its warps are held up: so many were in
/// flight in docs/microbenchmarks.md (`global.bandwidth.memory.loads8.warps24`).
const IN_FLIGHT: f64 = 8.0 * 24.0 * 512.0;

/// An odd number whose powers spread the coordinates of a box over 64 bits.
const SPREAD: i64 = 0x5851_F42D_4C95_7F2D;

impl<'a> Walk<'_, '_, 'a> {
    /// A piece of an instruction that is repeated over a large fragment; `false` where the last one is left, or where it is
    /// walked at once.
    pub(super) fn piece(
        &self,
        warp: &mut Warp<'_, 'a>,
        data: &InstData<'a>,
        facts: &Facts,
        units: &mut Units,
    ) -> bool {
        let (done, pieces) = (warp.piece.0, facts.pieces);
        let Some(unit) = facts.unit.filter(|_| done + 1 < pieces && !facts.free) else { return false };
        if done == 0 && warp.waits_for_memory(data) {
            return false;
        }
        let start = warp.operands_of(data, done, pieces);
        let issued = facts.issued / f64::from(pieces) * units.slower(Unit::None, start);
        let own = facts.busy / f64::from(pieces) * units.slower(unit, start);
        let slot = units.take(Unit::None, start, issued * warp.share);
        let begins = units.take(unit, slot, own * warp.share);
        let end = begins + own.max(issued);
        // Other rows go on meanwhile: the assembler mixes them.
        warp.now = slot + issued;
        let first = if done == 0 { end + facts.latency } else { warp.piece.1 };
        warp.piece = (done + 1, first);
        true
    }

    pub(super) fn wait(&self, warp: &mut Warp<'_, 'a>, data: &InstData<'a>) -> bool {
        let at = warp.arg(data, 0) + offset(&data.attr);
        let Some(over) = self.barriers.over(at, warp.arg(data, 1)) else { return false };
        // What is over when the warp comes costs a try; what it waited for, the way back.
        let row = self.target.row(data.op);
        warp.now = (warp.now + interval(row)).max(over + f64::from(row.latency) / 2.0);
        true
    }

    /// Comes to a barrier of several warps; `false` until all have come.
    pub(super) fn meets(&mut self, warp: &mut Warp<'_, 'a>, data: &InstData<'a>) -> bool {
        let Attr::Imm2(number, _) = data.attr else { return true };
        let phase = match warp.meets {
            Some(phase) => phase,
            None => self.come(warp, data),
        };
        let over = self.barriers.met(number, phase);
        warp.meets = over.is_none().then_some(phase);
        warp.now = over.map_or(warp.now, |over| warp.now.max(over));
        over.is_some()
    }

    fn come(&mut self, warp: &Warp<'_, 'a>, data: &InstData<'a>) -> u64 {
        let Attr::Imm2(number, meets) = data.attr else { return 0 };
        let threads = LANES as i64 * i64::from(warp.warps);
        self.barriers.come(number, threads, meets, warp.operands(data))
    }

    pub(super) fn execute(
        &mut self,
        warp: &mut Warp<'_, 'a>,
        data: &InstData<'a>,
        facts: &Facts,
        units: &mut Units,
    ) {
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
            Opcode::BarArrive => {
                self.come(warp, data);
                self.plain(warp, data, facts, units, start);
            }
            Opcode::Wgmma => multiply(warp, data, self.target, units, start),
            Opcode::WgmmaCommit => warp.products.commit(),
            Opcode::WgmmaWait => warp.products.hold(&mut warp.now, immediate(data)),
            Opcode::TmaLoad | Opcode::BulkLoad | Opcode::TmaStore => self.copy(warp, data, units, start),
            Opcode::BulkCommit => warp.stores.commit(),
            Opcode::BulkWait | Opcode::BulkWaitRead => warp.stores.hold(&mut warp.now, immediate(data)),
            _ => self.plain(warp, data, facts, units, start),
        }
    }

    /// What a tensor copy or a bulk copy moves.
    pub(super) fn copied(warp: &Warp<'_, 'a>, data: &InstData<'a>) -> Option<Copied> {
        let Attr::Tma(tma) = data.attr else { return None };
        let mut coordinates = coordinates(warp, data);
        let place = coordinates.try_fold(0, |at: i64, v| Some(at.wrapping_mul(SPREAD) ^ v?));
        // A bulk copy has an address, and no map.
        let address = warp.guessed_addresses(data, 2).filter(|_| data.op == Opcode::BulkLoad);
        let parameter =
            address.and_then(|at| parameter_at(at.first)).map_or(tma.map, |(parameter, _)| parameter);
        Some(Copied { parameter, place: place.map(|at| pointer(parameter) ^ at), bytes: tma.bytes.into() })
    }

    fn copy(&mut self, warp: &mut Warp<'_, 'a>, data: &InstData<'a>, units: &mut Units, start: f64) {
        let Attr::Tma(tma) = data.attr else { return };
        let Some(Copied { parameter, place, bytes }) = Self::copied(warp, data) else { return };
        let bulk = data.op == Opcode::BulkLoad;
        let boxes = Some(&self.program.boxes).filter(|_| !bulk);
        let outside = boxes.map_or(0.0, |b| b.outside(tma.map, coordinates(warp, data))) * bytes;
        let fresh = match place {
            Some(place) => self.requests.add(parameter, place, bytes, self.scene.lost),
            None => {
                self.requests.add_elsewhere(parameter, bytes);
                true
            }
        };
        warp.now = start + 2.0;
        let rates = &self.target.rates;
        if data.op == Opcode::TmaStore {
            let cycles = bytes * units.blocks() / rates.store_bytes_per_cycle;
            // Each warp of the role copies its own part.
            let cycles = cycles * if warp.warps > 1 { f64::from(warp.warps) } else { 1.0 };
            warp.stores.open = units.take(Unit::Tma, start, cycles) + cycles + rates.copy_latency / 2.0;
            return;
        }
        self.requests.add_copied(parameter, bytes);
        let (rows, beside) = (boxes.map_or(1.0, |b| b.rows(tma.map)), self.scene.multiprocessors);
        let lines = boxes.and_then(|b| b.lines(tma.map)).map_or(0.0, |n| self.target.lines_beside(n, beside));
        let cycles = self.target.copy_beside(bytes, rows, beside).max(lines);
        let cut = boxes.map_or(0.0, |b| b.cut(tma.map, coordinates(warp, data)));
        let zeros = self.target.zeros_beside(outside, beside) + self.target.cut_beside(cut, beside);
        let cycles = (cycles + zeros) * units.blocks();
        let begins = units.take(Unit::Tma, start, cycles);
        // What the block asks for the first time comes from device memory.
        let latency = if fresh {
            let way = if bulk { Way::Bulk } else { Way::Box };
            self.memory.ask(way, parameter, begins, bytes * units.blocks())
        } else {
            rates.copy_latency
        };
        let end = begins + cycles + latency;
        let received = u32::max(tma.multicast.count_ones(), 1) * tma.bytes;
        self.barriers.update(warp.arg(data, 1), 0, -i64::from(received), end);
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
        let followed = self.follow(warp, data, facts, false);
        let number = self.number(warp, data, facts).or(followed);
        let guess = match number {
            None => self.follow(warp, data, facts, true).or_else(|| self.guess(warp, data, facts)),
            Some(_) => None,
        };
        let source = warp.source(data);
        if facts.free {
            let (first, ready) = warp.moved(data);
            let known = Known { first, ready, source, guess, ..Known::of(number) };
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
        let cycles = cycles * part * units.slower(unit, issue);
        let issued = facts.issued * part * units.slower(Unit::None, issue);
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
        let known = Known { first, ready, loaded: late || facts.loads, source, guess, ..Known::of(number) };
        data.results.iter().for_each(|&r| warp.known.put(r, known));
    }

    /// What an instruction computes or reads, if that is known.
    pub(super) fn number(
        &mut self,
        warp: &Warp<'_, 'a>,
        data: &InstData<'a>,
        facts: &Facts,
    ) -> Option<Number> {
        match data.op {
            _ if facts.loads => return self.read(warp, data),
            Opcode::LdShared => {
                let at = warp.addresses(data, 0).filter(|at| at.is_same())?;
                return self.updates.word(at.first, &data.attr).map(Number::same);
            }
            Opcode::AtomAddU32 | Opcode::AtomIncU32 => return self.draw(warp, data),
            Opcode::AtomIncRelaxedU32 => return self.draw_tile(warp, data),
            _ => {}
        }
        let number = warp.known.compute(data, &mut self.patterns).or_else(|| self.given(warp, data));
        number.or_else(|| self.sum(warp, data))
    }

    /// Notes what the registers of a fragment hold, or what stands for that. What a single one holds is the number of its value.
    fn follow(
        &mut self,
        warp: &mut Warp<'_, 'a>,
        data: &InstData<'a>,
        facts: &Facts,
        guesses: bool,
    ) -> Option<Number> {
        let (true, [result]) = (facts.follows, data.results) else { return None };
        // Which lanes a condition holds for has no guess.
        let registers = if guesses && (!facts.for_addresses || matches!(data.attr, Attr::Cmp(_))) {
            None
        } else {
            let operands = Operands { known: &warp.known, guesses };
            fragments::computed(warp.func, data, operands, &mut self.patterns)
        };
        let single = registers.as_ref().filter(|r| r.len() == 1).map(|r| r[0]);
        if guesses {
            warp.known.guessed.put(*result, registers);
        } else {
            warp.known.fragments.put(*result, registers);
            warp.known.guessed.put(*result, None);
        }
        single
    }

    /// A register of a sum that all warps of the block made together becomes a scalar.
    fn sum(&self, warp: &Warp<'_, 'a>, data: &InstData<'a>) -> Option<Number> {
        let (Opcode::Mov, [from], [to]) = (data.op, data.args, data.results) else { return None };
        let becomes_scalar = warp.func.ty(*from).is_frag() && !warp.func.ty(*to).is_frag();
        self.sums.get(&data.loc).copied().filter(|_| becomes_scalar).map(Number::same)
    }

    /// What stands for a number that is not known.
    fn guess(&mut self, warp: &Warp<'_, 'a>, data: &InstData<'a>, facts: &Facts) -> Option<Number> {
        if !facts.for_addresses {
            return None;
        }
        if facts.loads || data.op == Opcode::LdShared {
            let each = |&v: &Value| facts.loads && !warp.func.values[v].uniform;
            return match warp.guessed_addresses(data, 0) {
                Some(at) => Some(self.guesses.found(at, 0, &mut self.patterns)),
                None if data.results.iter().any(each) => {
                    Some(self.guesses.found_anywhere(&mut self.patterns))
                }
                None => None,
            };
        }
        self.guesses.computed(warp.func, data, &warp.known, &mut self.patterns)
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
            _ if by == 0 => self.updates.look(at)?,
            _ => self.updates.draw(at, first, by),
        }))
    }

    /// The tile that a program draws next: in a walk programs draw in turn (`drawn.rs` lets each take what is next).
    /// Without a guard the lane that copies is alone behind a branch.
    fn draw_tile(&mut self, warp: &Warp<'_, 'a>, data: &InstData<'a>) -> Option<Number> {
        let at = warp.addresses(data, 0)?.first;
        self.drawn += 1;
        self.most = warp.value(data, 1);
        Some(Number::same(self.updates.draw(at, 0, 1)))
    }

    /// What one lane alone, or all together, put into a word of shared memory.
    pub(super) fn note(&mut self, warp: &Warp<'_, 'a>, data: &InstData<'a>) {
        let by_producer = warp.name == RoleKind::Producer.name();
        if data.guard.is_none() && self.updates.has_nothing_to_tell() && !by_producer {
            return;
        }
        let value = data.args.get(1).and_then(|&v| warp.known.number(v));
        self.told |= by_producer && value.is_some();
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
            let unit = match facts.unit.unwrap_or(Unit::None) {
                own if facts.shifts => units.lesser(own, Unit::Fma),
                own => own,
            };
            // The assembler moves others between what waits for a unit.
            let queued = facts.passes.then_some(f64::INFINITY);
            return Occupies { unit, cycles: share * facts.busy, latency: facts.latency, queued };
        };
        let addresses = warp.addresses(data, usize::from(data.op == Opcode::CpAsync));
        let guessed = warp.guessed_addresses(data, usize::from(data.op == Opcode::CpAsync));
        let moved = self.moved(warp, data, (unit, bytes), guessed);
        if unit != Unit::Tma {
            // Loads are issued as far ahead as their registers allow.
            let queued = facts.passes.then_some(f64::INFINITY);
            return Occupies { unit, cycles: share * 4.0 * moved, latency: facts.latency, queued };
        }
        // Global memory: what all warps move, over the multiprocessor's part of the L2.
        let all = moved * f64::from(warp.warps);
        // What the block asks for the first time comes from device memory.
        let fresh = self.fresh(addresses, guessed, all);
        if is_atomic(data.op) {
            let update = self.target.rates.update(self.scene.multiprocessors, self.target.multiprocessors);
            self.meet(warp, data, addresses);
            let cycles = all / SECTOR as f64 * update * units.blocks();
            return Occupies {
                unit,
                cycles,
                latency: facts.latency,
                queued: Some(IN_FLIGHT / self.cache_rate),
            };
        }
        let least = match fresh {
            None => 0.0,
            Some(array) if facts.loads => self.memory.ask(Way::Loads, array, warp.now, all * units.blocks()),
            Some(_) => self.target.rates.memory_latency,
        };
        // That few multiprocessors get more of the L2 was measured of whole lines.
        let whole = moved <= bytes;
        let rate = if whole { self.cache_rate } else { self.target.rates.cache_bytes_per_cycle };
        // Lanes whose sectors are not all theirs hold the warp up: line after line is looked up.
        let queued = Some(if whole { IN_FLIGHT / rate } else { 0.0 });
        // Lines were measured of loads.
        let lines = if whole || !facts.loads { 0.0 } else { self.lines(warp, data, bytes, guessed) };
        let cycles = (all / rate).max(lines);
        Occupies { unit, cycles: cycles * units.blocks(), latency: facts.latency.max(least), queued }
    }

    /// Cycles in which the L2 answers for the lines that an access of all warps touches, however little of each it wants.
    fn lines(&mut self, warp: &Warp<'_, 'a>, data: &InstData<'a>, bytes: f64, at: Option<Number>) -> f64 {
        let access = Access::Lines((bytes / LANES) as u32);
        let active = warp.known.active(data.guard, &self.patterns);
        let lines = at.map_or(access.anywhere(), |at| self.accesses.cost(access, at, active, &self.patterns));
        lines * f64::from(warp.warps) * self.target.estimates.cache_line_cycles
    }

    /// The parameter whose array an access asks for what the block has not asked for before.
    fn fresh(&mut self, addresses: Option<Number>, guessed: Option<Number>, bytes: f64) -> Option<u32> {
        let (parameter, _) = parameter_at(addresses.or(guessed)?.first)?;
        // What blocks leave for each other in a workspace is in the L2.
        if self.program.is_workspace(parameter) {
            return None;
        }
        let Some(place) = addresses else {
            self.requests.add_elsewhere(parameter, bytes);
            return Some(parameter);
        };
        self.requests.add(parameter, place.first, bytes, self.scene.lost).then_some(parameter)
    }

    /// An update at known addresses takes its part of the time of the lines that it touches.
    fn meet(&mut self, warp: &Warp<'_, 'a>, data: &InstData<'a>, addresses: Option<Number>) {
        let Some(at) = addresses else { return };
        let float = matches!(data.op, Opcode::RedGlobalAddF32 | Opcode::AtomAddF32);
        // One lane draws a tile: the elected one, or the one that copies.
        let draws = data.op == Opcode::AtomIncRelaxedU32;
        let active = if draws { 1 } else { warp.known.active(data.guard, &self.patterns) };
        // Warps whose lanes share an address share it with each other. One lane alone is one thread of the block.
        let warps = if at.is_same() && active.count_ones() > 1 { f64::from(warp.warps) } else { 1.0 };
        for (line, lanes) in meetings(&self.patterns.lanes(at), active) {
            self.updates.meet(line, warps * self.target.rates.meeting(lanes, float));
        }
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
            op if is_shared_atomic(op) => Access::Updates,
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

/// The coordinates of a tensor copy, or the address of a bulk one, where they are known.
fn coordinates<'w>(warp: &'w Warp<'_, '_>, data: &'w InstData<'_>) -> impl Iterator<Item = Option<i64>> + 'w {
    let args = data.args.iter().skip(1 + usize::from(data.op != Opcode::TmaStore));
    args.map(|&v| warp.known[v].value)
}

fn multiply(warp: &mut Warp<'_, '_>, data: &InstData<'_>, target: &Target, units: &mut Units, start: f64) {
    let Attr::Wgmma(attr) = &data.attr else { return };
    let groups = f64::from(warp.warps.div_ceil(4)) * units.blocks();
    let (n, shared) = (attr.n.into(), attr.a.is_some());
    let cycles = attr.cycles(&target.rates) * groups;
    let begins = units.take(Unit::Tensor, start, cycles);
    let share = target.estimates.product_port_cycles(n, shared) / target.rates.product(n, shared);
    units.moves_registers(begins + cycles, share);
    warp.products.open = begins + cycles + target.rates.product_latency;
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
