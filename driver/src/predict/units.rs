//! Units of a multiprocessor as times until which they are taken.

use warplift_ir::target::Unit;

/// Units that are told apart: each value of [`Unit`].
const UNITS: usize = 10;

/// Units that were taken, and for how many cycles.
pub type Busy = [Option<(Unit, f64)>; UNITS];

/// One scheduler's units, and those that all schedulers share.
pub struct Units {
    /// Blocks beside each other.
    resident: u32,
    /// Schedulers of a multiprocessor.
    schedulers: u32,
    /// When each is free.
    free: [f64; UNITS],
    /// Each one that was taken, and for how many cycles.
    busy: Busy,
    /// When the last product ends, and the share of its time in which it moves registers.
    products: (f64, f64),
}

impl Units {
    pub fn new(resident: u32, schedulers: u32) -> Self {
        Self { resident, schedulers, free: [0.0; UNITS], busy: [None; UNITS], products: (0.0, 0.0) }
    }

    /// Warps of all resident blocks' roles of `warps` that share a scheduler.
    pub fn share(&self, warps: u32) -> f64 {
        f64::from((warps * self.resident).div_ceil(self.schedulers))
    }

    /// Blocks that share what a whole multiprocessor has once.
    pub fn blocks(&self) -> f64 {
        self.resident.into()
    }

    /// Products of a warpgroup run until then, and move their accumulators and fragments for a share of that time.
    pub fn moves_registers(&mut self, until: f64, share: f64) {
        if until > self.products.0 {
            self.products = (until, share);
        }
    }

    /// How many times the cycles that a unit takes for an instruction: while products move registers no other instruction
    /// reads any. Special functions read theirs once in many cycles and lose half as much; other units wait for no registers.
    pub fn slower(&self, unit: Unit, at: f64) -> f64 {
        let (until, share) = self.products;
        let lost = match unit {
            _ if until <= at => 0.0,
            Unit::None | Unit::Alu | Unit::Fma => share,
            Unit::Sfu => share / 2.0,
            _ => 0.0,
        };
        1.0 / (1.0 - lost)
    }

    /// Of two units the one that was taken for less time.
    pub fn lesser(&self, one: Unit, other: Unit) -> Unit {
        let taken = |unit: Unit| self.busy[unit as usize].map_or(0.0, |b| b.1);
        if taken(other) < taken(one) { other } else { one }
    }

    /// Takes a unit for so many cycles, from `at` or when it is free; returns when that begins.
    pub fn take(&mut self, unit: Unit, at: f64, cycles: f64) -> f64 {
        let start = self.free[unit as usize].max(at);
        self.free[unit as usize] = start + cycles;
        self.busy[unit as usize].get_or_insert((unit, 0.0)).1 += cycles;
        start
    }

    /// As many times the cycles that each was taken: what a walk that was cut short did not see.
    pub fn grow(&mut self, times: f64) {
        self.busy.iter_mut().flatten().for_each(|b| b.1 *= times);
    }

    /// Each one that was taken, and for how many cycles until now.
    pub fn busy(&self) -> Busy {
        self.busy
    }

    /// Cycles that the fullest unit was taken.
    pub fn fullest(&self) -> f64 {
        self.busy.iter().flatten().map(|b| b.1).fold(0.0, f64::max)
    }

    /// The part of so many cycles in which a unit was taken.
    pub fn share_of(&self, unit: Unit, time: f64) -> f64 {
        self.busy[unit as usize].map_or(0.0, |b| b.1 / time.max(1.0)).min(1.0)
    }

    /// Units by the share of `time` that they were taken, fullest first.
    pub fn taken(&self, time: f64) -> Vec<(Unit, f64)> {
        let shares = self.busy.iter().flatten().map(|&(unit, busy)| (unit, busy / time.max(1.0)));
        let mut shares: Vec<_> = shares.filter(|s| s.1 > 0.05 && s.0 != Unit::None).collect();
        shares.sort_by(|a, b| b.1.total_cmp(&a.1));
        shares
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lesser_of_two_units_is_the_one_with_less_to_do() {
        let mut units = Units::new(1, 4);
        assert_eq!(units.lesser(Unit::Alu, Unit::Fma), Unit::Alu);
        units.take(Unit::Alu, 0.0, 2.0);
        assert_eq!(units.lesser(Unit::Alu, Unit::Fma), Unit::Fma);
        units.take(Unit::Fma, 0.0, 4.0);
        assert_eq!(units.lesser(Unit::Alu, Unit::Fma), Unit::Alu);
    }
}
