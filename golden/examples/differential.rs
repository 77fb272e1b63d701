//! Differential fuzzing for as long as wanted: `cargo run -p warplift-golden --example differential SECONDS [SEED
//! [FOLDER]]`. Failures are counted by what they say; with a folder, the first of each kind is reduced and written
//! there as a case file. For 0 seconds the seed's case is printed, and what becomes of it.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};
use warplift_lab::fuzz::{Case, Failure, Outcome, check, generate_from_seed};

/// Time to reduce one failure.
const REDUCTION: Duration = Duration::from_secs(40);

#[derive(Default)]
struct Found {
    refused: BTreeMap<String, u64>,
    failures: Vec<(Failure, u64, u64)>,
    same: u64,
    cases: u64,
    epilogue_roles: u64,
    clusters: u64,
    packed: u64,
    shared_out: u64,
}

impl Found {
    fn count(&mut self, seed: u64, case: &Case, folder: Option<&Path>) {
        self.cases += 1;
        let failure = match check(case) {
            Ok(Outcome::Same { made, .. }) => {
                self.epilogue_roles += u64::from(made.epilogue_role);
                self.clusters += u64::from(made.cluster);
                self.packed += u64::from(made.packed);
                self.shared_out += u64::from(made.shared_out);
                return self.same += 1;
            }
            Ok(Outcome::Refused { stage, reason }) => {
                return *self.refused.entry(format!("{stage}: {reason}")).or_default() += 1;
            }
            Err(failure) => failure,
        };
        if let Some(known) = self.failures.iter_mut().find(|(f, ..)| f.is_like(&failure)) {
            return known.2 += 1;
        }
        if let Some(folder) = folder {
            let small = case.reduced(&failure, REDUCTION);
            std::fs::write(folder.join(format!("seed_{seed}.tile")), small.to_string()).expect("writing");
        }
        self.failures.push((failure, seed, 1));
    }

    fn print(&self) {
        for (reason, n) in &self.refused {
            println!("{n:6} {reason}");
        }
        for (failure, seed, n) in &self.failures {
            println!("FAILURE {n} times, first seed {seed}: {failure}");
        }
        let refused: u64 = self.refused.values().sum();
        let failed: u64 = self.failures.iter().map(|f| f.2).sum();
        println!("{} cases: {} agree, {refused} refused, {failed} fail", self.cases, self.same);
        let Self { epilogue_roles, clusters, packed, shared_out, .. } = self;
        println!(
            "{epilogue_roles} with epilogue warps, {clusters} with clusters, {packed} with packed arrays, {shared_out} whose loop blocks share out"
        );
    }
}

fn main() {
    let number = |n| std::env::args().nth(n).and_then(|a| a.parse().ok());
    let (seconds, first): (u64, u64) = (number(1).unwrap_or(10), number(2).unwrap_or(1));
    let folder = std::env::args().nth(3);
    if seconds == 0 {
        let case = generate_from_seed(first);
        println!("{case}\n{:?}", check(&case));
        return;
    }
    std::panic::set_hook(Box::new(|_| {}));
    let (start, mut found) = (Instant::now(), Found::default());
    for seed in first.. {
        if start.elapsed() > Duration::from_secs(seconds) {
            break;
        }
        let one = Instant::now();
        let Ok(case) = std::panic::catch_unwind(|| generate_from_seed(seed)) else {
            println!("seed {seed}: the generator panics");
            continue;
        };
        found.count(seed, &case, folder.as_deref().map(Path::new));
        if one.elapsed() > Duration::from_secs(2) && folder.is_none() {
            println!("seed {seed} took {:?}", one.elapsed());
        }
    }
    found.print();
}
