//! Measures the two regimes, round by round.

use super::contender::{BenchError, Contender};
use super::nvml::{Reading, Sensor};
use super::report::{Measurement, Regime, Report, Work};
use super::statistics::median;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use warplift::cuda::{Device, Event, Graph, Stream};

/// Durations in seconds. The defaults are the project's conditions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Rounds, each with every contender once.
    pub rounds: usize,
    /// Idle time before a burst.
    pub idle: f64,
    /// Longest burst.
    pub burst: f64,
    /// Launches before a sustained window.
    pub settle: f64,
    /// A sustained window.
    pub window: f64,
    /// Least sustained time of each contender over all rounds.
    pub sustained: f64,
    /// Work shorter than this is replayed as a graph.
    pub graph_under: f64,
    /// Seed of the order.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            rounds: 7,
            idle: 0.02,
            burst: 0.003,
            settle: 0.3,
            window: 0.6,
            sustained: 2.0,
            graph_under: 100e-6,
            seed: 1,
        }
    }
}

impl Settings {
    /// Rounds of a regime. They give enough windows for the least sustained time.
    fn rounds(&self, regime: Regime) -> usize {
        let windows = (self.sustained / self.window.max(1e-3)).ceil() as usize;
        match regime {
            Regime::Burst => self.rounds,
            Regime::Sustained => self.rounds.max(windows),
        }
    }
}

/// Launches that fit into a time, at least 1.
fn launches_in(seconds: f64, each: f64) -> usize {
    ((seconds / each) as usize).max(1)
}

/// Measures contenders against each other. Ratios compare the first one with the others.
///
/// # Errors
/// A contender that fails or takes no time.
pub fn measure(
    device: &Device,
    work: &Work,
    contenders: &[&dyn Contender],
    regime: Regime,
    settings: &Settings,
) -> Result<Report, BenchError> {
    let bench = Bench::new(device, settings)?;
    let lanes = contenders.iter().map(|&c| bench.lane(c));
    let mut lanes = lanes.collect::<Result<Vec<_>, _>>()?;
    let mut rng = StdRng::seed_from_u64(settings.seed);
    let mut order: Vec<usize> = (0..lanes.len()).collect();
    for _ in 0..settings.rounds(regime) {
        order.shuffle(&mut rng);
        for &i in &order {
            let time = match regime {
                Regime::Burst => bench.burst(&mut lanes[i])?,
                Regime::Sustained => bench.sustained(&mut lanes[i])?,
            };
            lanes[i].times.push(time);
        }
    }
    let work = work.on(device.info());
    let rows = lanes.into_iter().map(|lane| lane.measurement(&work, regime));
    Ok(Report::new(device.info(), &work, rows.collect()))
}

/// Median seconds of a launch in a quick look: a few launches, then some 20 ms of them.
///
/// # Errors
/// The contender fails or takes no time.
pub(super) fn quick(device: &Device, contender: &dyn Contender) -> Result<f64, BenchError> {
    let settings = Settings::default();
    let bench = Bench::new(device, &settings)?;
    let mut lane = bench.lane(contender)?;
    let mut times = Vec::new();
    for _ in 0..5 {
        let count = launches_in(0.004, lane.estimate);
        times.push(bench.timed(&mut lane, count)?);
    }
    Ok(median(&times))
}

/// A contender being measured.
struct Lane<'a> {
    contender: &'a dyn Contender,
    /// Seconds of a launch, roughly.
    estimate: f64,
    /// Launches captured together, with their number; for short work only.
    graph: Option<(Graph, usize)>,
    rotation: usize,
    times: Vec<f64>,
    readings: Vec<Reading>,
}

impl Lane<'_> {
    /// Enqueues about `count` launches (whole graphs); returns how many.
    fn enqueue(&mut self, stream: &Stream, count: usize) -> Result<usize, BenchError> {
        if let Some((graph, size)) = &self.graph {
            let replays = (count / size).max(1);
            for _ in 0..replays {
                graph.launch(stream)?;
            }
            return Ok(replays * size);
        }
        for _ in 0..count {
            self.contender.enqueue(stream, self.rotation)?;
            self.rotation += 1;
        }
        Ok(count)
    }

    fn measurement(self, work: &Work, regime: Regime) -> Measurement {
        let typical = |f: fn(&Reading) -> f64| {
            let values: Vec<f64> = self.readings.iter().map(f).collect();
            median(&values)
        };
        let reading = (!self.readings.is_empty()).then(|| Reading {
            sm_mhz: typical(|r| r.sm_mhz.into()) as u32,
            memory_mhz: typical(|r| r.memory_mhz.into()) as u32,
            watts: typical(|r| r.watts),
        });
        let graph = self.graph.is_some();
        Measurement::new(self.contender.name(), regime, work, self.times, reading, graph)
    }
}

/// The parts of the device that a measurement needs.
struct Bench<'a> {
    device: &'a Device,
    settings: &'a Settings,
    stream: Stream,
    start: Event,
    end: Event,
    sensor: Option<Sensor>,
}

impl<'a> Bench<'a> {
    fn new(device: &'a Device, settings: &'a Settings) -> Result<Self, BenchError> {
        Ok(Self {
            device,
            settings,
            stream: Stream::new(device)?,
            start: Event::new(device)?,
            end: Event::new(device)?,
            sensor: Sensor::open(device.info()),
        })
    }

    /// Warms a contender up, estimates its time and captures its graph.
    fn lane<'c>(&self, contender: &'c dyn Contender) -> Result<Lane<'c>, BenchError> {
        let mut lane = Lane {
            contender,
            estimate: 0.0,
            graph: None,
            rotation: 0,
            times: Vec::new(),
            readings: Vec::new(),
        };
        for count in [3, 5] {
            lane.estimate = self.timed(&mut lane, count)?;
        }
        let some = launches_in(0.002, lane.estimate).min(100);
        lane.estimate = self.timed(&mut lane, some)?;
        if lane.estimate < self.settings.graph_under {
            let count = launches_in(self.settings.burst, lane.estimate).min(512);
            let graph = Graph::capture(self.device, |stream| {
                (0..count).try_for_each(|i| contender.enqueue(stream, i))
            })?;
            lane.graph = Some((graph, count));
            // Once to upload it, once for the estimate.
            for _ in 0..2 {
                lane.estimate = self.timed(&mut lane, count)?;
            }
        }
        Ok(lane)
    }

    /// Seconds of a launch, over about `count` of them.
    fn timed(&self, lane: &mut Lane<'_>, count: usize) -> Result<f64, BenchError> {
        let count = self.marked(lane, count)?;
        self.finish(lane, count)
    }

    /// Enqueues about `count` launches between the two events; returns how many.
    fn marked(&self, lane: &mut Lane<'_>, count: usize) -> Result<usize, BenchError> {
        self.start.record(&self.stream)?;
        let count = lane.enqueue(&self.stream, count)?;
        self.end.record(&self.stream)?;
        Ok(count)
    }

    /// Clocks and power now; called while launches run.
    fn read(&self, lane: &mut Lane<'_>) {
        lane.readings.extend(self.sensor.as_ref().map(Sensor::read));
    }

    fn finish(&self, lane: &Lane<'_>, count: usize) -> Result<f64, BenchError> {
        self.end.synchronize()?;
        let seconds = self.end.seconds_since(&self.start)? / count as f64;
        if seconds > 1e-9 {
            return Ok(seconds);
        }
        Err(BenchError::NoTime(lane.contender.name().to_owned()))
    }

    fn burst(&self, lane: &mut Lane<'_>) -> Result<f64, BenchError> {
        self.stream.synchronize()?;
        std::thread::sleep(Duration::from_secs_f64(self.settings.idle));
        let count = self.marked(lane, launches_in(self.settings.burst, lane.estimate))?;
        self.read(lane);
        self.finish(lane, count)
    }

    /// The queue is never empty between settling and the end of the window.
    fn sustained(&self, lane: &mut Lane<'_>) -> Result<f64, BenchError> {
        let in_time = |seconds, lane: &Lane<'_>| launches_in(seconds, lane.estimate);
        let (settle, window) = (in_time(self.settings.settle, lane), in_time(self.settings.window, lane));
        lane.enqueue(&self.stream, settle)?;
        self.start.record(&self.stream)?;
        let mut count = lane.enqueue(&self.stream, window.div_ceil(2))?;
        // The driver queues about a thousand launches. Most earlier ones have run by now, or run while the sensors are
        // read.
        self.read(lane);
        count += lane.enqueue(&self.stream, window / 2 + 1)?;
        self.end.record(&self.stream)?;
        self.finish(lane, count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_the_stated_conditions() {
        let settings = Settings::default();
        assert_eq!(settings.rounds(Regime::Burst), 7);
        assert!(settings.rounds(Regime::Sustained) as f64 * settings.window >= 2.0);
        let few = Settings { rounds: 1, ..settings };
        assert_eq!(few.rounds(Regime::Sustained), 4);
        assert_eq!(launches_in(settings.burst, 200e-6), 15);
        assert_eq!(launches_in(settings.burst, 13e-3), 1);
    }
}
