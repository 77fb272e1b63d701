//! Any text through the pipeline: `cargo +nightly fuzz run text CORPUS`, where the kernel library is a
//! good corpus to start from.
#![no_main]

use libfuzzer_sys::fuzz_target;
use warplift_golden::fuzz::pipeline;

fuzz_target!(|text: &str| {
    if let Err(bug) = pipeline(text) {
        panic!("{bug}");
    }
});
