//! A sample of the mutation proof, a fresh one each run: the seed is printed if it fails.

use std::time::{SystemTime, UNIX_EPOCH};
use warplift::sim::mutate::Verdict;
use warplift_golden::mutation::Subject;

/// Mutants judged of each kernel.
const SAMPLE: usize = 6;

#[test]
fn mutants_are_caught() {
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |d| d.as_secs());
    for name in ["gemm", "gemm_nn", "gemm_dual"] {
        let subject = Subject::new(name);
        let mutants = subject.mutants();
        assert!(mutants.len() > 30, "{}: {} mutants", name, mutants.len());
        for n in 0..SAMPLE {
            let at = (seed as usize).wrapping_mul(31).wrapping_add(n * 97) % mutants.len();
            let verdict = subject.judge(&mutants[at], 4);
            assert_ne!(verdict, Verdict::Escaped, "{} seed {seed}: {}", name, mutants[at].description);
        }
    }
}
