//! Random kernels in every way there is: `cargo +nightly fuzz run kernels`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use warplift_lab::fuzz::{check, generate};

fuzz_target!(|bytes: &[u8]| {
    let case = generate(bytes);
    if let Err(failure) = check(&case) {
        panic!("{failure}\n{case}");
    }
});
