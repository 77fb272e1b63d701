//! `cache`: the results of ptxas and the disassemblers that are kept on disk.

use super::failure::{Outcome, user};
use warplift::ir::plural;
use warplift::toolchain::{CACHE_SIZE_VARIABLE, CACHE_VARIABLE, Cache, CacheStats};

/// `cache stats`, `cache clear`.
#[derive(clap::Subcommand)]
pub enum CacheCommand {
    /// Print where the cache is, how many results it holds, their size and its limit.
    Stats,
    /// Remove all results.
    Clear,
}

/// Runs `cache`.
///
/// # Errors
/// The cache is off, or its files cannot be read or removed.
pub fn cache(command: &CacheCommand) -> Outcome<()> {
    let off = || {
        user(format!(
            "there is no cache: {CACHE_SIZE_VARIABLE} is 0, or none of {CACHE_VARIABLE}, XDG_CACHE_HOME and HOME is set"
        ))
    };
    let cache = Cache::usual()?.ok_or_else(off)?;
    match command {
        CacheCommand::Stats => {
            println!("{}", cache.directory().display());
            println!("{} of {}", held(cache.stats()?), megabytes(cache.limit()));
        }
        CacheCommand::Clear => println!("removed {}", held(cache.clear()?)),
    }
    Ok(())
}

fn held(stats: CacheStats) -> String {
    format!("{}, {}", plural(stats.entries, "result"), megabytes(stats.bytes))
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / f64::from(1 << 20))
}
