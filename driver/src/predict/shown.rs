//! A prediction as `explain` prints it.

use super::Prediction;
use super::warp::UNKNOWN_TRIPS;
use crate::chart::unit_name;
use std::fmt;
use warplift_ir::plural;
use warplift_ir::target::Clock;

impl Prediction {
    fn write_phases(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for phase in &self.phases {
            let fullest = phase.fullest.map(|(unit, share)| (unit_name(unit), 100.0 * share));
            write!(f, "  {}: {:.0} cycles, bound by ", phase.name, phase.cycles)?;
            match (phase.bound(), fullest) {
                (Some(_), Some((unit, share))) => writeln!(f, "{unit} ({share:.0}% taken)")?,
                (_, Some((unit, share))) => writeln!(f, "latency ({unit}: {share:.0}% taken)")?,
                (_, None) => writeln!(f, "latency")?,
            }
        }
        if let Some(cycles) = self.before_wait {
            writeln!(f, "  before griddepcontrol.wait: {cycles:.0} cycles")?;
        }
        if self.overlap > 0.0 {
            let what = if self.pdl { "overlap the launch before" } else { "of the launch itself are hidden" };
            writeln!(f, "  in a stream of such launches {:.0} cycles {what}", self.overlap)?;
        }
        writeln!(f, "  tail: the last wave fills {:.0}% of the places", 100.0 * self.filled)
    }

    /// What the schedule makes of rows that the data need, whatever its tiles are.
    fn write_needed(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(needed) = self.floor.needed else { return Ok(()) };
        let start = self.floor.cycles - self.floor.products.max(self.floor.memory);
        let (cycles, what) = match needed > self.floor.memory {
            true => (needed, "tensor cores, rows in use rounded up to 16"),
            false => (self.floor.memory, "device memory"),
        };
        let least = start + cycles;
        writeln!(f, "  {:.3} of what the data need ({least:.0} cycles: {what})", self.cycles / least)
    }
}

impl fmt::Display for Prediction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "predicted: {:.0} cycles, {:.2} of the floor ({:.0} cycles: {})",
            self.cycles,
            self.cycles / self.floor.cycles,
            self.floor.cycles,
            if self.floor.products > self.floor.memory { "tensor cores" } else { "device memory" }
        )?;
        self.write_needed(f)?;
        let Clock { burst, sustained } = self.clock;
        writeln!(
            f,
            "  {:.1} us in bursts ({burst:.2} GHz), {:.1} us sustained ({sustained:.2} GHz)",
            self.microseconds(burst),
            self.microseconds(sustained)
        )?;
        writeln!(
            f,
            "  {} of {} on a multiprocessor, {:.0} cycles each, a block alone {:.0}",
            plural(self.waves as u64, "wave"),
            plural(self.resident as u64, "block"),
            self.block,
            self.alone
        )?;
        write!(f, "  {} of {} walked", self.walked, plural(self.blocks, "block"))?;
        let sampled = self.part < 1.0;
        writeln!(
            f,
            "{}",
            if sampled { format!(", {:.0}% of it", 100.0 * self.part) } else { String::new() }
        )?;
        if let Some(even) = self.even {
            let over = self.cycles / even;
            writeln!(
                f,
                "  blocks are unequal: shared out evenly over all multiprocessors {even:.0} cycles ({over:.3})"
            )?;
        }
        self.write_phases(f)?;
        writeln!(f, "  device memory: {:.0} cycles at least", self.memory)?;
        if let Some(cycles) = self.copying {
            writeln!(f, "  L2: {cycles:.0} cycles at least for copies that neighbours do not share")?;
        }
        for (unit, share) in &self.taken {
            writeln!(f, "  {}: {:.0}% taken", unit_name(*unit), 100.0 * share)?;
        }
        for array in &self.assumed {
            let (of, way) = match array.as_str() {
                "" => ("what the kernel computes".to_owned(), String::new()),
                name => (format!("the contents of `{name}`"), format!("; `--data {name}=..` gives them")),
            };
            writeln!(f, "  assumed: {UNKNOWN_TRIPS} trips of loops that depend on {of}{way}")?;
        }
        for (role, end) in &self.roles {
            writeln!(f, "  role {role}: ends after {end:.0} cycles")?;
        }
        Ok(())
    }
}
