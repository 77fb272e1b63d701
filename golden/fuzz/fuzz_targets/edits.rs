//! Library texts with edits that the input chooses: `cargo +nightly fuzz run edits`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rand::{SeedableRng, rngs::StdRng};
use std::sync::LazyLock;
use warplift_golden::fuzz::{mutate, pipeline};
use warplift_golden::kernels::texts;

static TEXTS: LazyLock<Vec<String>> = LazyLock::new(|| texts().expect("the library").into_values().collect());

fuzz_target!(|input: (u8, u64)| {
    let (kernel, seed) = input;
    let text = &TEXTS[usize::from(kernel) % TEXTS.len()];
    let text = mutate(text, &mut StdRng::seed_from_u64(seed));
    if let Err(bug) = pipeline(&text) {
        panic!("{bug}\n{text}");
    }
});
