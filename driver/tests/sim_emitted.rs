//! The mutation proof over what Warplift emits: each synchronisation of a kernel's PTX removed,
//! corrupted or moved is reported by the simulator as a hazard or shows in the result.
//!
//! `cargo test` takes a sample by a fixed seed; all mutants of all kernels:
//! `cargo test -p warplift --release --test sim_emitted -- --ignored --nocapture`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use warplift::ir::target::SM90A;
use warplift::ir::tile::{Kernel, Mapping, parse_file};
use warplift::problem::{Array, Data, Problem};
use warplift::sim::mutate::{Mutant, Mutation, adversaries, mutants};
use warplift::{Compiled, compile};

/// Kernel, values of its tunables in order (none: as the file says), sizes. The loops are deep enough
/// that a ring's slot is used more often than its barrier has arrivals, and a block takes two tiles; a short
/// loop reaches the other ways through the program.
type Case = (&'static str, &'static [i64], &'static [&'static [(&'static str, i64)]]);

const SMALL: &[&[(&str, i64)]] =
    &[&[("m", 264), ("n", 64), ("k", 64 * 45 + 8)], &[("m", 264), ("n", 64), ("k", 64)]];

const CASES: &[Case] = &[
    ("gemm", &[128, 64, 64], SMALL),
    ("gemm", &[], &[&[("m", 136), ("n", 264), ("k", 64 * 40)]]),
    ("gemm_tn", &[128, 64, 64], SMALL),
    ("gemm_two_outputs", &[], &[&[("m", 136), ("n", 136), ("k", 64 * 20)]]),
    (
        "gemm_chain",
        &[],
        &[
            &[("m", 136), ("n", 128), ("k", 64 * 9), ("p", 72)],
            &[("m", 128 * 40), ("n", 64), ("k", 64), ("p", 72)],
        ],
    ),
];

/// Products of warps, fed by tensor copies, by copies of the threads ahead and in place: kernel, mapping.
const OF_WARPS: &[(&str, &str)] = &[
    ("gemm", "BM = 64, BN = 64, BK = 32 for t: pipeline 3 kernel: persistent, warps 4, products mma_sync"),
    (
        "gemm",
        "BM = 64, BN = 64, BK = 32 for t: pipeline 3, producers 0 kernel: persistent, warps 4, products mma_sync",
    ),
    ("gemm_nn", "BM = 32, BN = 64, BK = 32 for t: pipeline 1, producers 0 kernel: persistent, warps 2"),
];

/// A compiled kernel with problems and their right results.
struct Subject {
    compiled: Compiled,
    problems: Vec<(Problem, Vec<Array>)>,
    /// Lines of the PTX that some problem executes.
    lines: BTreeSet<u32>,
    /// Lines of wgmma fences that some wgmma needs.
    fences: BTreeSet<u32>,
}

fn load(name: &str) -> (Kernel, Mapping) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("kernels/{name}.tile"));
    let text = std::fs::read_to_string(&path).expect("a kernel of the library");
    let module = parse_file(&text, name).expect("it parses");
    (module.kernels[0].clone(), module.mappings[0].clone())
}

fn subject((name, tunables, sizes): &Case) -> Subject {
    let (kernel, mut mapping) = load(name);
    for (t, v) in mapping.tunables.iter_mut().zip(*tunables) {
        t.1 = *v;
    }
    subject_of(name, &kernel, &mapping, sizes)
}

fn subject_of_warps((name, mapping): &(&str, &str)) -> Subject {
    let text = format!("mapping {name} {{ {mapping} }}");
    let mapping = parse_file(&text, name).expect("it parses").mappings.remove(0);
    let sizes: &[&[(&str, i64)]] =
        &[&[("m", 136), ("n", 64), ("k", 32 * 14 + 8)], &[("m", 136), ("n", 64), ("k", 32)]];
    subject_of(name, &load(name).0, &mapping, sizes)
}

fn subject_of(name: &str, kernel: &Kernel, mapping: &Mapping, sizes: &[&[(&str, i64)]]) -> Subject {
    let options = warplift::Options { verify: true, dump: Vec::new() };
    let compiled = compile(kernel, mapping, &SM90A, &options).unwrap_or_else(|e| panic!("{name}: {e}"));
    let mut s = Subject { compiled, problems: Vec::new(), lines: BTreeSet::new(), fences: BTreeSet::new() };
    for sizes in sizes {
        let sizes: BTreeMap<String, i64> = sizes.iter().map(|(n, v)| ((*n).to_owned(), *v)).collect();
        let problem = Problem::new(kernel, &sizes, Data::Small, 5).expect("a problem");
        let want = problem.interpret(kernel).expect("the interpreter runs");
        s.problems.push((problem, want));
    }
    s.run_original(name);
    s
}

impl Subject {
    /// The kernel itself is right and clean; its lines are noted.
    fn run_original(&mut self, name: &str) {
        for (problem, want) in &self.problems {
            for o in adversaries(2, STEPS) {
                let run = problem.simulate(&self.compiled.ptx, &self.compiled.manifest, &o, 1);
                let (have, report) = run.unwrap_or_else(|e| panic!("{name}: {e}"));
                assert!(!differs(want, &have), "{name}");
                self.lines.extend(report.lines.keys());
                self.fences.extend(report.needed_fences);
            }
        }
    }

    /// Nothing, or how a text shows on some problem under some adversary.
    fn shows(&self, ptx: &str) -> Option<String> {
        let manifest = &self.compiled.manifest;
        let all = self.problems.iter().flat_map(|p| adversaries(4, STEPS).into_iter().map(move |o| (p, o)));
        all.into_iter().find_map(|((problem, want), o)| match problem.simulate(ptx, manifest, &o, 1) {
            Err(e) => Some(e.to_string()),
            Ok((have, _)) => differs(want, &have).then(|| "wrong result".to_owned()),
        })
    }

    /// Mutants of lines that are executed. The only equivalent ones are those of a `wgmma.fence` that no
    /// wgmma needs: the PTX ISA orders wgmma of one shape on the same accumulators without it, and the
    /// simulator saw no other access between.
    fn mutants(&self) -> Vec<Mutant> {
        let all = mutants(&self.compiled.ptx).expect("PTX");
        let idle = |m: &Mutant| m.description.contains("`wgmma.fence") && !self.fences.contains(&m.line);
        all.into_iter().filter(|m| self.lines.contains(&m.line) && !idle(m)).collect()
    }

    /// Descriptions of the mutants that nobody noticed and that no proof covers.
    fn escaped(&self, all: &[Mutant]) -> Vec<String> {
        let (mut out, mut equivalent) = (Vec::new(), 0);
        for m in all {
            match self.shows(&m.ptx) {
                None if joins_the_next_group(m) => equivalent += 1,
                None => out.push(m.description.clone()),
                Some(e) => assert!(!e.contains("is not simulated"), "{}: {e}", m.description),
            }
        }
        assert!(equivalent * 50 <= all.len(), "{equivalent} of {} mutants declared equivalent", all.len());
        out
    }
}

/// A commit before its bulk store instead of after it: the store joins the next group. Where that group
/// is waited for before the store's buffer is written again, as at the end of a program (its last wait is
/// for all groups), the two programs are the same; elsewhere the simulator reports the overwrite.
fn joins_the_next_group(m: &Mutant) -> bool {
    m.mutation == Mutation::Move
        && m.description.contains("moved before")
        && m.description.contains("cp.async.bulk.commit_group")
}

/// Warp instructions after which a run is given up.
const STEPS: u64 = 20_000_000;

fn differs(want: &[Array], have: &[Array]) -> bool {
    let pairs = want.iter().zip(have).filter(|(w, _)| w.written);
    pairs.flat_map(|(w, h)| w.values.iter().zip(&h.values)).any(|(w, h)| w != h)
}

#[test]
fn a_sample_of_mutants_is_caught() {
    let s = subject(&CASES[0]);
    let all = s.mutants();
    assert!(all.len() > 30, "{} mutants", all.len());
    // Every seventh, from a fixed place.
    let sample: Vec<Mutant> = all.into_iter().skip(3).step_by(7).collect();
    assert_eq!(s.escaped(&sample), Vec::<String>::new());
}

#[test]
fn a_sample_of_mutants_of_warps_is_caught() {
    for case in OF_WARPS {
        let s = subject_of_warps(case);
        let all = s.mutants();
        assert!(all.len() > 10, "{} mutants", all.len());
        let sample: Vec<Mutant> = all.into_iter().skip(1).step_by(4).collect();
        assert_eq!(s.escaped(&sample), Vec::<String>::new(), "{case:?}");
    }
}

#[test]
#[ignore = "minutes; the whole proof"]
fn every_mutant_is_caught() {
    let mut escaped = Vec::new();
    let named = CASES.iter().map(|c| (format!("{} {:?}", c.0, c.1), subject(c)));
    let warps = OF_WARPS.iter().map(|c| (format!("{c:?}"), subject_of_warps(c)));
    for (name, s) in named.chain(warps) {
        let (all, live) = (mutants(&s.compiled.ptx).expect("PTX").len(), s.mutants());
        let out = s.escaped(&live);
        let idle = all - live.len();
        println!("{name}: {all} mutants, {idle} that never run or are idle fences, {} escaped", out.len());
        escaped.extend(out.into_iter().map(|d| format!("{name}: {d}")));
    }
    assert_eq!(escaped, Vec::<String>::new());
}
