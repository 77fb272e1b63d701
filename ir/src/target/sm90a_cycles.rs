//! Cycles of rows as measured: none yet.

use super::Measured;

/// Where the figures are from.
pub const MEASURED_ON: &str = "";

/// The figures: row, latency, interval.
pub const MEASURED: &[Measured] = &[];
