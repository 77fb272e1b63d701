//! Where random tests start.

use std::time::{SystemTime, UNIX_EPOCH};

/// Where a fresh run of random cases starts: the clock, or `WARPLIFT_FUZZ_SEED`, by which a run that decides about a
/// change can be repeated.
pub fn fresh_seed() -> u64 {
    let given = std::env::var("WARPLIFT_FUZZ_SEED").ok().and_then(|s| s.parse().ok());
    given.unwrap_or_else(|| SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |d| d.as_nanos() as u64))
}
