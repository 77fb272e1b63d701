//! The mutation proof over what Warplift emits: each synchronisation of a kernel's PTX removed, corrupted or
//! moved is reported by the simulator as a hazard or shows in the result.
//!
//! `cargo test` takes samples by a fixed seed, and one by a fresh seed; all mutants of all kernels:
//! `warplift mutate`, or `cargo test -p warplift-lab --release --test emitted -- --ignored --nocapture`.

use warplift::ir::target::SM90A;
use warplift::{Options, compile};
use warplift_lab::fresh_seed;
use warplift_lab::mutation::{
    CASES, Case, EQUIVALENT, Known, MutationError, MutationReport, Subject, equivalent, source,
};
use warplift_sim::mutate::{Mutant, Mutation, mutants};

/// Judges the mutants that are chosen of a case.
fn prove(case: &Case, choose: impl Fn(&Subject<'_>) -> Result<Vec<Mutant>, MutationError>) -> MutationReport {
    let name = case.name();
    let (kernel, mapping) = source(case).unwrap_or_else(|e| panic!("{e}"));
    let subject = Subject::new(&kernel, &mapping, case).unwrap_or_else(|e| panic!("{name}: {e}"));
    let chosen = choose(&subject).unwrap_or_else(|e| panic!("{name}: {e}"));
    subject.prove(&chosen, &|| ()).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// Mutants of a sample.
const SAMPLE: usize = 16;

fn sample(case: &Case, seed: u64) {
    let report = prove(case, |subject| subject.sample(SAMPLE, seed));
    assert_eq!(report.escaped, Vec::<String>::new(), "seed {seed} of {}", report.name);
    assert_eq!(report.unexecuted, Vec::<String>::new(), "seed {seed} of {}", report.name);
    assert_eq!(report.contradicted, Vec::<String>::new(), "seed {seed} of {}", report.name);
    assert!((1..=SAMPLE).contains(&report.mutants), "{report}");
    let caught: usize = report.caught.values().sum();
    assert!(2 * caught > report.mutants, "more rules than hazards: {report}");
}

#[test]
fn a_product_in_place_needs_what_it_waits_for() {
    let case = CASES.iter().find(|c| c.name == "in place").expect("a case");
    sample(case, 5);
}

#[test]
fn a_sample_of_mutants_is_caught() {
    sample(&CASES[0], 7);
}

#[test]
fn a_fresh_sample_of_mutants_is_caught() {
    let seed = fresh_seed();
    let small: Vec<&Case> = CASES.iter().filter(|c| c.mapping.contains("BM = 64")).collect();
    sample(small[seed as usize % small.len()], seed);
}

#[test]
fn a_sample_of_mutants_of_warps_is_caught() {
    for case in CASES.iter().filter(|c| c.mapping.contains("mma_sync")) {
        sample(case, 7);
    }
}

/// A loop whose end the data decides, in every role.
#[test]
fn a_sample_of_mutants_of_a_search_is_caught() {
    let case = CASES.iter().find(|c| c.kernel == "gemm_ragged").expect("a case");
    sample(case, 7);
}

/// The counter of the blocks that share out a loop must release and acquire, and stand between barriers.
#[test]
fn parts_of_a_sum_need_the_order_of_their_counter() {
    for (words, least) in [("split_k 3", 6), ("split_k 2", 6), ("stream_k", 6)] {
        let case = CASES.iter().find(|c| c.mapping.contains(words)).expect("a case");
        let weak = |m: &Mutant| m.description.contains(": weakened to ");
        let orders = |m: &Mutant| weak(m) || m.description.contains("bar.sync");
        let report = prove(case, |subject| Ok(subject.mutants()?.into_iter().filter(orders).collect()));
        assert!(report.mutants >= least && report.is_sound(), "{report}: {:?}", report.escaped);
        let weak = prove(case, |subject| Ok(subject.mutants()?.into_iter().filter(weak).collect()));
        assert_eq!(weak.mutants, 3, "{weak}");
        assert!(weak.is_sound() && weak.equivalent.is_empty(), "{weak}: {:?}", weak.escaped);
    }
}

/// The arithmetic of rings, operands and copies is edited too, and all of it is noticed where the sizes let every wait
/// meet both parities.
#[test]
fn the_arithmetic_of_a_ring_is_needed() {
    use Mutation::{Coordinate, Descriptor, Parity, Phase, Slot, Stride};
    let of_a_ring = |m: &Mutant| [Coordinate, Descriptor, Parity, Phase, Slot, Stride].contains(&m.mutation);
    let case = CASES.iter().find(|c| c.mapping.contains("consumers 1, wait 1")).expect("a case");
    let report = prove(case, |subject| Ok(subject.mutants()?.into_iter().filter(of_a_ring).collect()));
    assert_eq!(report.made.len(), 6, "{:?}", report.made);
    assert!(report.is_sound() && report.equivalent.is_empty(), "{report}: {:?}", report.escaped);
}

/// Whether a mutant initialises a barrier behind the meeting of all threads.
fn is_initialised_late(mutant: &Mutant) -> bool {
    let moved = mutant.description.rsplit('`').nth(1).is_some_and(|own| own.contains("mbarrier.init"));
    mutant.mutation == Mutation::Move && moved
}

/// Where warps fill a ring, the last stage's barrier is first used at the ring's depth: in longer loops another stage
/// was handed back before, and that orders a late initialisation. A loop of just the depth has nothing else.
#[test]
fn barriers_that_are_initialised_late_are_caught() {
    let two_rings = |c: &&Case| c.kernel == "a16w4" && c.mapping.contains("array s: staged");
    let case = CASES.iter().find(two_rings).expect("two rings");
    let all =
        |subject: &Subject<'_>| Ok(subject.mutants()?.into_iter().filter(is_initialised_late).collect());
    let report = prove(case, all);
    assert_eq!((report.mutants, report.caught.values().sum()), (12, 12), "{:?}", report.escaped);
    let shorter = Case { problems: &[("20x72x1920", 2)], ..*case };
    let report = prove(&shorter, all);
    assert!(!report.escaped.is_empty(), "the loop of the ring's depth is not needed");
}

/// What the rules and the case's own list excuse stays below the case's cap, and each entry of the list names as many mutants as it says.
fn capped(case: &Case, ptx: &str, all: &[Mutant]) -> Option<String> {
    let mut report = MutationReport { caps: case.caps, ..MutationReport::default() };
    for m in all {
        let known = case.known.iter().any(|k| k.names(&m.description));
        *report.made.entry(m.mutation).or_default() += 1;
        if known || equivalent(ptx, m).is_some() {
            *report.excused.entry(m.mutation).or_default() += 1;
        }
    }
    for k in case.known {
        let named = all.iter().filter(|m| k.names(&m.description)).count();
        assert_eq!(named, k.mutants, "{}: {k:?}", case.name());
    }
    let many = || format!("{}: {:?} of {:?}", case.name(), report.excused, report.made);
    (!report.few_in_case()).then(many)
}

/// A sample is too small for a share, but the rules read nothing but text: over all mutants of all cases, noticed
/// or not, they say of few that they are the same program.
#[test]
fn the_rules_cover_few_mutants_of_all() {
    let (mut all, mut same, mut many) = (0, Vec::new(), Vec::new());
    for case in CASES {
        let (kernel, mapping) = source(case).unwrap_or_else(|e| panic!("{e}"));
        let made = compile(&kernel, &mapping, &SM90A, &Options::default());
        let ptx = made.unwrap_or_else(|e| panic!("{}: {e}", case.name())).ptx;
        let of_case = mutants(&ptx).unwrap_or_else(|e| panic!("{}: {e}", case.name()));
        all += of_case.len();
        let said =
            |m: &Mutant| equivalent(&ptx, m).map(|why| format!("{}: {}: {why}", case.name(), m.description));
        same.extend(of_case.iter().filter_map(said));
        many.extend(capped(case, &ptx, &of_case));
    }
    println!("{} of {all}", same.len());
    same.iter().for_each(|s| println!("{s}"));
    assert_eq!(many, [] as [String; 0]);
    assert!(all > 4000 && !same.is_empty(), "{all}");
    assert!(same.len() as f64 <= EQUIVALENT * all as f64, "{same:#?}");
}

#[test]
#[ignore = "minutes; the whole proof"]
fn every_mutant_is_caught() {
    let mut all = MutationReport { name: "all".into(), ..MutationReport::default() };
    for case in CASES {
        let report = prove(case, |subject| subject.mutants());
        println!("{report}");
        let used = |k: &&Known| report.equivalent.iter().filter(|e| k.names(&e.0)).count() == k.mutants;
        assert_eq!(case.known.iter().filter(used).count(), case.known.len(), "{:?}", report.equivalent);
        all.add(report);
    }
    println!("{all}: {:?}", all.caught);
    assert_eq!(all.escaped, Vec::<String>::new());
    assert_eq!(all.unexecuted, Vec::<String>::new());
    assert_eq!(all.contradicted, Vec::<String>::new());
    assert_eq!(all.one_sided, Vec::<String>::new());
    assert!(all.few_equivalent(), "{:?}", all.equivalent);
}
