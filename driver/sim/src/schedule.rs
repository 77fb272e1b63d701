//! The scheduler runs warps and asynchronous operations in the order that the adversary chooses.

use super::SimError;
use super::global_shadow::GlobalShadow;
use super::hazard::Report;
use super::launch::{Adversary, Launch, Options};
use super::machine::{Machine, Reason, State, Stop};
use super::memory::Memory;
use super::random::Random;
use std::collections::VecDeque;

/// Polls without any progress after which a run counts as stuck.
const IDLE: u32 = 100_000;
/// Instructions of a warp that nothing stops, after which others get their turn.
const TURN: u64 = 1_000;
/// Warp instructions after which another cluster gets its turn.
const SLICE: u64 = 1_000_000;

/// Runs a grid.
///
/// # Errors
/// A launch that does not fit, a hazard under [`super::Hazards::Deny`], too many steps.
pub fn run(launch: &Launch<'_>, memory: &mut Memory, options: &Options) -> Result<Report, SimError> {
    run_observed(launch, memory, options, &mut |_, _| {})
}

/// Runs a grid and calls `observe` with the blocks done and the blocks in all after each cluster,
/// for a progress bar.
///
/// # Errors
/// As [`run`].
pub fn run_observed(
    launch: &Launch<'_>,
    memory: &mut Memory,
    options: &Options,
    observe: &mut dyn FnMut(u64, u64),
) -> Result<Report, SimError> {
    let mut prepared = launch.prepare(memory)?;
    if !launch.module.globals.is_empty() {
        let id = memory.alloc("the module's variables", launch.module.globals.clone());
        prepared.variables = memory.address(id);
    }
    let mut random = Random::new(options.seed);
    let mut waiting = clusters(launch);
    let size = u64::from(launch.cluster.iter().product::<u32>());
    let blocks = waiting.len() as u64 * size;
    let most = (u64::from(launch.sm_count) / size).max(1) as usize;
    memory.races = GlobalShadow::default();
    let mut started = 0;
    let mut resident: VecDeque<Machine<'_>> = VecDeque::new();
    let mut report = Report::default();
    loop {
        // Clusters run one after another. The next one starts early only if the current one cannot end alone, for
        // example because it waits for another through global memory.
        if resident.len() < most && !waiting.is_empty() {
            let i = next_cluster(options.order, waiting.len(), &mut random);
            let id = match i {
                0 => waiting.pop_front(),
                _ => waiting.swap_remove_back(i),
            };
            let id = id.unwrap_or_default();
            let own = Random::new(random.next());
            resident.push_front(Machine::new(&prepared, *options, (started, id), own));
            started += 1;
        }
        let Some(mut machine) = resident.pop_front() else {
            return Ok(report);
        };
        machine.memory = std::mem::take(memory);
        let done = machine.run_slice();
        *memory = std::mem::take(&mut machine.memory);
        if done? {
            machine.count_lines();
            report.add(machine.report);
            observe(report.blocks, blocks);
        } else {
            resident.push_back(machine);
        }
    }
}

fn next_cluster(order: Adversary, n: usize, random: &mut Random) -> usize {
    match order {
        Adversary::Earliest => 0,
        Adversary::Latest => n - 1,
        Adversary::Random | Adversary::Classes => random.below(n),
    }
}

fn clusters(launch: &Launch<'_>) -> VecDeque<[u32; 3]> {
    let n: [u32; 3] = std::array::from_fn(|i| launch.grid[i] / launch.cluster[i]);
    let mut all = VecDeque::new();
    for z in 0..n[2] {
        for y in 0..n[1] {
            all.extend((0..n[0]).map(|x| [x, y, z]));
        }
    }
    all
}

impl Report {
    fn add(&mut self, other: Self) {
        for h in other.hazards {
            let known = |k: &super::Hazard| k.kind == h.kind && k.site == h.site && k.other == h.other;
            if !self.hazards.iter().any(known) {
                self.hazards.push(h);
            }
        }
        self.warp_instructions += other.warp_instructions;
        self.thread_instructions += other.thread_instructions;
        self.asynchronous += other.asynchronous;
        self.printed += &other.printed;
        self.blocks += other.blocks;
        for (line, n) in other.lines {
            *self.lines.entry(line).or_default() += n;
        }
        for (line, n) in other.parities {
            *self.parities.entry(line).or_default() |= n;
        }
    }
}

/// The scheduler's next event.
enum Choice {
    Warp(usize),
    Operation(usize),
    None,
}

impl Machine<'_> {
    /// Runs until the cluster ends (true) or its slice is over.
    fn run_slice(&mut self) -> Result<bool, Stop> {
        let end = self.report.warp_instructions + SLICE;
        loop {
            match self.choose() {
                Choice::Warp(w) => self.run_warp(w)?,
                Choice::Operation(i) => self.advance_operation(i)?,
                Choice::None => {
                    if self.warps.iter().all(|w| w.state == State::Done) {
                        return Ok(true);
                    }
                    if !self.force() {
                        self.deadlock()?;
                        return Ok(true);
                    }
                }
            }
            if self.report.warp_instructions > end {
                return Ok(false);
            }
        }
    }

    fn count_lines(&mut self) {
        let places = &self.launch.entry.places;
        for (place, n) in places.iter().zip(&self.executed).filter(|(_, n)| **n > 0) {
            *self.report.lines.entry(place.pos.line).or_default() += n;
        }
        for (place, n) in places.iter().zip(&self.parities).filter(|(_, n)| **n > 0) {
            *self.report.parities.entry(place.pos.line).or_default() |= n;
        }
    }

    fn choose(&mut self) -> Choice {
        let queue = self.queue.len();
        let order = self.options.order;
        if order == Adversary::Earliest && queue > 0 {
            return Choice::Operation(0);
        }
        if order == Adversary::Classes
            && let Some(i) = self.hasty()
        {
            return Choice::Operation(i);
        }
        // By every second seed little happens before nothing else can go on.
        let rarity = if self.options.seed.is_multiple_of(2) { 512 } else { 8 };
        if order == Adversary::Random && queue > 0 && self.random.below(rarity) == 0 {
            return Choice::Operation(self.random.below(queue));
        }
        let fresh = |m: &Self, w: usize| m.runnable(w) && m.warps[w].yielded != Some(m.progress);
        if let Some(w) = self.pick(fresh) {
            return Choice::Warp(w);
        }
        if queue > 0 {
            return Choice::Operation(match order {
                Adversary::Random => self.random.below(queue),
                Adversary::Classes => self.awaited(),
                _ => queue - 1,
            });
        }
        match self.pick(Self::runnable) {
            Some(w) => {
                self.idle += 1;
                if self.idle > IDLE { Choice::None } else { Choice::Warp(w) }
            }
            None => Choice::None,
        }
    }

    fn pick(&mut self, ready: impl Fn(&Self, usize) -> bool) -> Option<usize> {
        let n = self.warps.len();
        match self.options.order {
            Adversary::Earliest => {
                let from = self.last + 1;
                let w = (0..n).map(|i| (from + i) % n).find(|w| ready(self, *w))?;
                self.last = w;
                Some(w)
            }
            Adversary::Latest => (0..n).rev().find(|w| ready(self, *w)),
            Adversary::Random | Adversary::Classes => {
                let start = self.random.below(n);
                (0..n).map(|i| (start + i) % n).find(|w| ready(self, *w))
            }
        }
    }

    fn run_warp(&mut self, w: usize) -> Result<(), Stop> {
        self.warps[w].state = State::Ready;
        let quantum = match self.options.order {
            Adversary::Earliest => 64,
            Adversary::Latest => TURN,
            Adversary::Random | Adversary::Classes => 1 + self.random.below(64) as u64,
        };
        let (progress, known) = (self.progress, self.next_operation);
        let mut left = quantum;
        while left > 0 {
            left -= 1;
            let more = self.step(w)?;
            // Issued operations come first.
            let issued = match self.options.order {
                Adversary::Earliest => !self.queue.is_empty(),
                Adversary::Classes => self.next_operation != known,
                _ => false,
            };
            if !more || issued {
                break;
            }
        }
        if left == 0 && self.options.order == Adversary::Latest {
            // It may poll what only others can change.
            self.warps[w].yielded = Some(self.progress);
        }
        if self.progress != progress {
            self.idle = 0;
        }
        Ok(())
    }

    /// Lets a wait that only could have held its warp give up; false where there is none.
    fn force(&mut self) -> bool {
        if self.idle > IDLE {
            return false;
        }
        let progress = self.progress;
        for warp in &mut self.warps {
            let pc = warp.stack.last().map_or(0, |f| f.pc);
            let State::Blocked(_, Reason::Mbarrier { offset, phase, .. }) = warp.state else {
                continue;
            };
            if warp.refused != Some(((pc, offset, phase), progress)) {
                warp.forced = true;
                warp.state = State::Ready;
                return true;
            }
        }
        false
    }
}
