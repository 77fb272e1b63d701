//! No text makes the compiler panic: a second of edited library texts from a fixed seed, a second from a
//! fresh one, and every text that once did.

use rand::SeedableRng;
use rand::rngs::StdRng;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use warplift_golden::fuzz::{Reached, mutate, try_text};
use warplift_golden::kernels::texts;
use warplift_lab::fresh_seed;

/// How many texts came how far.
fn fuzz(seed: u64, time: Duration) -> BTreeMap<Reached, u32> {
    let (mut random, texts) = (StdRng::seed_from_u64(seed), texts().expect("the library"));
    let texts: Vec<String> = texts.into_values().collect();
    let (start, mut reached) = (Instant::now(), BTreeMap::new());
    for n in 0.. {
        if start.elapsed() > time {
            break;
        }
        let text = mutate(&texts[n % texts.len()], &mut random);
        let outcome = try_text(&text).unwrap_or_else(|crash| panic!("seed {seed}, text {n}: {crash}"));
        *reached.entry(outcome).or_default() += 1;
    }
    reached
}

#[test]
fn a_fixed_seed() {
    let reached = fuzz(0x5eed, Duration::from_secs(1));
    assert!(reached.len() >= 3, "the edits reach too little: {reached:?}");
}

#[test]
fn a_fresh_seed() {
    let seed = fresh_seed();
    let reached = fuzz(seed, Duration::from_secs(1));
    assert!(reached.values().sum::<u32>() > 10, "seed {seed}: only {reached:?}");
}

/// Every number of a kernel's tunables at values that once made a stage run without end, or make what its
/// verifier refuses.
#[test]
fn huge_tunables_are_refused() {
    let texts = texts().expect("the library");
    for huge in ["65536", "2147483647", "2147483648", "4294967295", "9223372036854775807"] {
        for text in texts.values() {
            let (kernel, own) = text.split_once("\nmapping ").expect("a mapping");
            let mapping = own.replacen("= 128", &format!("= {huge}"), 1);
            let reached = try_text(&format!("{kernel}\nmapping {mapping}")).unwrap_or_else(|c| panic!("{c}"));
            assert!(mapping == own || reached < Reached::Compiled, "{huge} compiles:\n{mapping}");
        }
    }
}

/// A band whose width is no i32 once became a constant that the verifier refuses.
#[test]
fn bands_are_refused_where_arithmetic_would_overflow() {
    let texts = texts().expect("the library");
    for (width, reached) in
        [("32768", Reached::Compiled), ("32769", Reached::Verify), ("2147483648", Reached::Verify)]
    {
        let text = texts["gemm"].replace("band_m 16", &format!("band_m {width}"));
        assert_ne!(text, texts["gemm"], "nothing changed");
        assert_eq!(try_text(&text), Ok(reached), "{width}");
    }
}

/// A conversion whose threads would exchange two bytes at once once became an index map that leaves its registers.
#[test]
fn exchanges_of_less_than_a_register_are_refused() {
    let texts = texts().expect("the library");
    let (kernel, _) = texts["a16w8"].split_once("\nmapping ").expect("a mapping");
    let text = format!("{kernel}\nmapping a16w8 {{ BN = 448, BM = 16, GROUP = 128 }}\n");
    let reached = try_text(&text).unwrap_or_else(|c| panic!("{c}"));
    assert!(reached < Reached::Compiled, "{reached:?}");
}
