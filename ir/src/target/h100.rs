//! The rates of an H100 SXM: those of an H200, but for its L2 and its device memory.
//!
//! ```text
//!  bytes in a cycle of all multiprocessors       H200 2,324        H100 1,600
//! ```
//!
//! From `warplift bench micro memory global cache tma.store`, by the rules that make the table of an H200.

use super::Rates;
use super::sm90a_cycles::RATES as H200;

/// Device and day.
pub(super) const MEASURED_ON: &str = "NVIDIA H100 80GB HBM3, 2026-11-27";

/// The rates of units.
pub(super) const RATES: Rates = Rates {
    store_bytes_per_cycle: 16.5,
    cache_bytes_per_cycle: 32.1,
    memory_bytes_per_cycle: 1599.5,
    cache_latency: 292.0,
    memory_latency: 693.3,
    memory_load_latency: 929.6,
    memory_copy_latency: 1079.0,
    memory_shared_rate: 1604.9,
    cache_shares: [
        (1, 108.0),
        (2, 108.1),
        (4, 108.0),
        (8, 68.0),
        (16, 59.6),
        (32, 63.3),
        (43, 61.4),
        (64, 66.4),
        (79, 55.1),
        (96, 44.7),
        (132, 33.1),
    ],
    ..H200
};
