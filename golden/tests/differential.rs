//! Random kernels give the same results in every way of execution, and so does every case that once did not.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use warplift_lab::fresh_seed;
use warplift_lab::fuzz::{Case, Outcome, check, generate, generate_from_seed};

/// Cases of the fixed run: the same every time.
const FIXED: u64 = 120;
/// Where the fixed run starts.
const FIRST_SEED: u64 = 0x5eed;
/// Of the generated kernels, in percent, so many at least compile.
const COMPILE_FLOOR: u64 = 40;
/// Of the fixed run, so many outputs at least hold what a function or an order of sums has rounded.
const ROUNDED_FLOOR: usize = 6;
/// Time to reduce a failure of the fresh run.
const REDUCTION: Duration = Duration::from_secs(60);

#[derive(Default, Debug)]
struct Tally {
    cases: u64,
    agree: u64,
    exact: usize,
    bounded: usize,
    open: usize,
    epilogue_roles: u64,
    clusters: u64,
    packed: u64,
    shared_out: u64,
    refused: BTreeMap<String, u64>,
}

impl Tally {
    /// Runs a seed's case. Its failure is reported with a reduced case, to be kept beside the others.
    fn add(&mut self, seed: u64) {
        let case = generate_from_seed(seed);
        self.cases += 1;
        match check(&case) {
            Ok(Outcome::Same { exact, bounded, open, made }) => {
                self.epilogue_roles += u64::from(made.epilogue_role);
                self.clusters += u64::from(made.cluster);
                self.packed += u64::from(made.packed);
                self.shared_out += u64::from(made.shared_out);
                self.agree += 1;
                self.exact += exact;
                self.bounded += bounded;
                self.open += open;
            }
            Ok(Outcome::Refused { stage, reason }) => {
                *self.refused.entry(format!("{stage}: {reason}")).or_default() += 1;
            }
            Err(failure) => {
                let small = case.reduced(&failure, REDUCTION);
                panic!("seed {seed}: {failure}\nA case for golden/fuzz_cases:\n{small}");
            }
        }
    }

    fn print(&self) {
        for (reason, n) in &self.refused {
            println!("{n:5} {reason}");
        }
        let Self { agree, cases, exact, bounded, open, epilogue_roles, clusters, packed, shared_out, .. } =
            self;
        println!(
            "{agree} of {cases} kernels compile and agree; outputs: {exact} exact, {bounded} bounded, {open} open"
        );
        println!(
            "{epilogue_roles} with epilogue warps, {clusters} with clusters, {packed} with packed arrays, {shared_out} whose loop blocks share out"
        );
    }
}

#[test]
fn a_fixed_run_agrees() {
    let mut tally = Tally::default();
    (FIRST_SEED..FIRST_SEED + FIXED).for_each(|seed| tally.add(seed));
    tally.print();
    assert!(100 * tally.agree >= COMPILE_FLOOR * tally.cases, "too much is refused: {tally:?}");
    assert!(tally.exact > tally.bounded && tally.exact > 10 * tally.open, "too little is exact: {tally:?}");
    let rare = [tally.epilogue_roles, tally.clusters, tally.packed, tally.shared_out];
    assert!(
        rare.iter().all(|n| *n > 0),
        "no kernel with epilogue warps, clusters, packed arrays or a shared loop: {tally:?}"
    );
    assert!(tally.bounded >= ROUNDED_FLOOR, "few functions that round: {tally:?}");
}

#[test]
fn a_fresh_run_agrees() {
    let fresh = fresh_seed();
    let seconds = std::env::var("WARPLIFT_FUZZ_SECONDS").ok().and_then(|s| s.parse().ok()).unwrap_or(2.0);
    let (start, mut tally) = (Instant::now(), Tally::default());
    for seed in fresh.. {
        if start.elapsed().as_secs_f64() > seconds {
            break;
        }
        tally.add(seed);
    }
    tally.print();
    assert!(tally.cases > 0, "seed {fresh}: {tally:?}");
}

/// The generator itself, on more seeds than there is time to run, and on those whose kernels it once made wrong.
#[test]
fn generated_kernels_verify() {
    /// A divisor 7 of u2.
    const ONCE_WRONG: &[u64] = &[25550];
    let seeds = ONCE_WRONG.iter().copied().chain(FIRST_SEED..FIRST_SEED + 2000);
    let shortest = seeds.map(|s| generate_from_seed(s).to_string().len()).min();
    assert!(shortest.is_some_and(|bytes| bytes > 200), "{shortest:?}");
}

/// Short inputs are what a fuzzer starts from, and where it shrinks to.
#[test]
fn any_bytes_make_a_case() {
    for bytes in [&[][..], &[0], &[255; 7], &[128; 64], &[255; 4096]] {
        let case = generate(bytes);
        assert!(check(&case).is_ok(), "{bytes:?}: {:?}\n{case}", check(&case));
    }
}

fn files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut files: Vec<PathBuf> = entries.map(|e| e.expect("an entry").path()).collect();
    files.retain(|f| f.is_file());
    files.sort();
    files
}

#[test]
fn what_once_failed_agrees() {
    let files = files("fuzz_cases");
    assert!(files.len() >= 5, "cases are missing: {files:?}");
    let mut agree = 0;
    for file in files {
        let name = file.display();
        let text = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{name}: {e}"));
        let case: Case = text.parse().unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(!case.note.is_empty(), "{name}: the first line says what was wrong");
        let outcome = check(&case).unwrap_or_else(|failure| panic!("{name}: {failure}"));
        agree += u32::from(matches!(outcome, Outcome::Same { .. }));
    }
    assert!(agree >= 4, "only {agree} cases compile");
}
