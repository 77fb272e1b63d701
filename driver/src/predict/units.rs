//! Units of a multiprocessor as times until which they are taken.

use std::collections::BTreeMap;
use warplift_ir::target::{Row, Unit};

/// One scheduler's units, and those that all schedulers share.
pub struct Units {
    /// Blocks beside each other.
    resident: u32,
    /// Schedulers of a multiprocessor.
    schedulers: u32,
    free: BTreeMap<u8, f64>,
    busy: BTreeMap<u8, (Unit, f64)>,
}

impl Units {
    pub fn new(resident: u32, schedulers: u32) -> Self {
        Self { resident, schedulers, free: BTreeMap::new(), busy: BTreeMap::new() }
    }

    /// Warps of all resident blocks' roles of `warps` that share a scheduler.
    pub fn share(&self, warps: u32) -> f64 {
        f64::from((warps * self.resident).div_ceil(self.schedulers))
    }

    /// Blocks that share what a whole multiprocessor has once.
    pub fn blocks(&self) -> f64 {
        self.resident.into()
    }

    /// Takes a unit for so many cycles, from `at` or when it is free; returns when that begins.
    pub fn take(&mut self, unit: Unit, at: f64, cycles: f64) -> f64 {
        let key = unit as u8;
        let free = self.free.entry(key).or_insert(0.0);
        let start = free.max(at);
        *free = start + cycles;
        self.busy.entry(key).or_insert((unit, 0.0)).1 += cycles;
        start
    }

    /// Cycles that the fullest unit was taken.
    pub fn fullest(&self) -> f64 {
        self.busy.values().map(|b| b.1).fold(0.0, f64::max)
    }

    /// Units by the share of `time` that they were taken, fullest first.
    pub fn taken(&self, time: f64) -> Vec<(Unit, f64)> {
        let shares = self.busy.values().map(|&(unit, busy)| (unit, busy / time.max(1.0)));
        let mut shares: Vec<_> = shares.filter(|s| s.1 > 0.05 && s.0 != Unit::None).collect();
        shares.sort_by(|a, b| b.1.total_cmp(&a.1));
        shares
    }
}

/// Cycles between two repetitions of a row on a scheduler's unit.
pub fn interval(row: &Row) -> f64 {
    f64::from(row.interval).max(1.0)
}
