//! Any text through the simulator's parser: `cargo +nightly fuzz run ptx golden/ptx`.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    // An error names line and column; only a panic is a bug.
    let _ = warplift::sim::parse(text);
});
