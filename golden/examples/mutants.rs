//! Judges every mutant of the library's kernels: `cargo run --release -p warplift-golden --example mutants [KERNEL]`.

use warplift::sim::mutate::Verdict;
use warplift_golden::library::CASES;
use warplift_golden::mutation::Subject;

fn main() {
    let only = std::env::args().nth(1);
    let (mut all, mut escaped) = (0, 0);
    let mut names: Vec<&str> = CASES.iter().map(|c| c.name).collect();
    names.dedup();
    for name in names.into_iter().filter(|n| only.as_deref().is_none_or(|o| o == *n)) {
        let subject = Subject::new(name);
        let mutants = subject.mutants();
        let mut missed = 0;
        for mutant in &mutants {
            if subject.judge(mutant, 6) == Verdict::Escaped {
                missed += 1;
                println!("  escaped: {name}: {}", mutant.description);
            }
        }
        println!("{name}: {missed} of {} escaped", mutants.len());
        all += mutants.len();
        escaped += missed;
    }
    println!("{escaped} of {all} mutants escaped");
}
