//! Device memory as one multiprocessor sees it: a latency while little is in flight, a rate while much is.
//!
//! ```text
//!  rate      ╭──────────  least of: what the L2 gives a multiprocessor, its part of what device memory gives
//!           ╱
//!          ╱   bytes in flight / latency
//!         ┴──────────────► bytes in flight
//! ```
//!
//! Between both, `rate = (a^-3 + b^-3)^(-1/3)`: over the 121 figures of docs/microbenchmarks.md's `memory` the median error
//! is 2%, the worst 12%. Blocks ask for much that others have asked for: only a share comes from device memory. Where device
//! memory takes a small part of a launch's time, there are no shares, and each request takes the latency of one alone.

use warplift_ir::target::Rates;

/// Bytes in flight up to which an access has the latency of one alone (`memory.copies.rows8.latency`).
const ALONE: f64 = 1024.0;

/// What the blocks of a launch share.
#[derive(Clone, Debug)]
pub struct Scene {
    /// Multiprocessors that have blocks.
    pub multiprocessors: u32,
    /// Each has one block at a time, whose warps wait for the last of their loads; of several blocks some have theirs, and
    /// no load waits for the rate. Copies do, of however many blocks.
    pub single: bool,
    /// The part that device memory moves of what blocks ask for first, by parameter: others ask for the rest. Empty where
    /// device memory is of no account.
    pub shares: Vec<f64>,
    /// How many times as long device memory takes to answer them.
    pub slowdown: f64,
    /// Bytes of a block's own after which the L2 has lost what the block asked for before.
    pub lost: f64,
}

impl Scene {
    /// So many multiprocessors with blocks, and no account of device memory.
    pub fn new(multiprocessors: u32, single: bool) -> Self {
        Self { multiprocessors, single, shares: Vec::new(), slowdown: 1.0, lost: f64::INFINITY }
    }
}

/// How something is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// By loads of the threads.
    Loads,
    /// By a copy of one row.
    Bulk,
    /// By a copy of the rows of a box.
    Box,
}

/// What a block has asked of device memory.
pub struct Memory<'l> {
    scene: &'l Scene,
    rates: Rates,
    /// Bytes in a cycle of one multiprocessor.
    rate: f64,
    flight: Vec<Request>,
}

/// A request in flight.
struct Request {
    end: f64,
    bytes: f64,
    /// Of the threads. Such a load does not stand behind copies (docs/microbenchmarks.md,
    /// `memory.copies.rows128.listed`: 735 cycles alone, 800 beside a ring of 128 KB).
    load: bool,
}

impl<'l> Memory<'l> {
    /// Nothing is in flight.
    pub fn new(scene: &'l Scene, rates: Rates) -> Self {
        Self { scene, rates, rate: rates.memory_share(scene.multiprocessors), flight: Vec::new() }
    }

    /// How long a request of a parameter's array takes that is made at a time, of so many bytes with those of the blocks
    /// beside it.
    pub fn ask(&mut self, way: Way, parameter: u32, at: f64, bytes: f64) -> f64 {
        self.flight.retain(|r| r.end > at);
        let load = way == Way::Loads;
        // The bytes of a request arrive one behind the other at its end.
        let missing = |r: &Request| r.bytes.min((r.end - at) * self.rate);
        let before = self.flight.iter().filter(|r| r.load || !load);
        let share = self.scene.shares.get(parameter as usize).copied().unwrap_or(0.0);
        let in_flight: f64 = share * bytes + before.map(missing).sum::<f64>();
        let latency = self.latency(way, in_flight.max(bytes));
        let slower = (1.0 + (in_flight / latency / self.rate).powi(3)).cbrt();
        // Of several blocks that ask for the same all wait if they ask at once, and the first if they are far apart: taken
        // is the geometric mean.
        let waiting = if self.scene.single || !load { share.sqrt() * (slower - 1.0) } else { 0.0 };
        let slowdown = if share > 0.0 { self.scene.slowdown } else { 1.0 };
        let answer = latency * (1.0 + waiting) * slowdown;
        if share > 0.0 {
            self.flight.push(Request { end: at + answer, bytes: share * bytes, load });
        }
        answer
    }

    /// The latency of a request where so many bytes are in flight. Where device memory takes a good part of the time, those
    /// who ask for the same ask at once, and wait alike; else most is there before it is asked for again, and nothing stands
    /// before a request.
    fn latency(&self, way: Way, in_flight: f64) -> f64 {
        let Rates { copy_latency, cache_latency, memory_latency, .. } = self.rates;
        let (alone, beside) = match way {
            Way::Loads if !self.scene.single => (memory_latency, memory_latency),
            Way::Loads => (memory_latency, self.rates.memory_load_latency),
            Way::Bulk => (copy_latency + memory_latency - cache_latency, self.rates.memory_load_latency),
            Way::Box => (copy_latency + memory_latency - cache_latency, self.rates.memory_copy_latency),
        };
        if in_flight <= ALONE || self.scene.shares.is_empty() { alone } else { beside }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warplift_ir::target::SM90A;

    /// Bytes in a cycle of a ring of so many copies of so many bytes each.
    fn ring(multiprocessors: u32, copies: usize, bytes: f64) -> f64 {
        let scene = Scene { shares: vec![1.0], ..Scene::new(multiprocessors, true) };
        let mut memory = Memory::new(&scene, SM90A.rates);
        let mut ends = vec![0.0; copies];
        let mut link = 0.0_f64;
        let turns = 400;
        for k in 0..turns * copies {
            let at = link.max(ends[k % copies]);
            link = at + bytes / SM90A.rates.copy_bytes_per_cycle;
            ends[k % copies] = link + memory.ask(Way::Box, 0, at, bytes);
        }
        (turns * copies) as f64 * bytes / ends.into_iter().fold(0.0, f64::max)
    }

    /// Figures of docs/microbenchmarks.md: boxes of 64 and 128 rows of 128 bytes in rings of two to eight.
    #[test]
    fn rates_are_those_that_were_measured() {
        let measured = [
            (1, 2, 64, 12.88),
            (1, 8, 64, 50.71),
            (1, 8, 128, 89.16),
            (16, 8, 64, 49.72),
            (43, 4, 64, 24.57),
            (43, 8, 64, 40.54),
            (43, 8, 128, 47.79),
            (64, 8, 64, 32.88),
            (132, 2, 64, 11.44),
            (132, 4, 64, 16.21),
            (132, 8, 128, 17.22),
        ];
        for (multiprocessors, copies, rows, rate) in measured {
            let ratio = ring(multiprocessors, copies, f64::from(128 * rows)) / rate;
            assert!((0.85..1.15).contains(&ratio), "{multiprocessors} {copies} {rows}: {ratio}");
        }
    }

    #[test]
    fn what_others_have_asked_for_waits_for_no_rate() {
        let of = |share| {
            let scene = Scene { shares: vec![share], ..Scene::new(132, true) };
            let mut memory = Memory::new(&scene, SM90A.rates);
            (0..100).map(|k| memory.ask(Way::Box, 0, f64::from(k), 16384.0)).fold(0.0, f64::max)
        };
        assert_eq!(of(0.0), SM90A.rates.memory_copy_latency);
        assert!(of(1.0) > 2.5 * of(0.5) && of(0.5) > 20_000.0, "{} {}", of(1.0), of(0.5));
    }
}
