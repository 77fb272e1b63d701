//! Mappings for a kernel that has none. Complete mappings are proposed, each one is compiled, and the one with the best
//! prediction is kept. No stage of the compiler feeds anything back into the choice.
//!
//! ```text
//!  kernel ─► products? ─ yes ─► tiles x raster x epilogue, arrays ─┐                       propose.rs
//!                └────── no ──► extents x warps ───────────────────┴─► compile and walk each ─► best
//!                                                        (roughly, where it cannot be walked; power: rough.rs)
//! ```
//!
//! The choice does not change the kernel's results: see `tiling`.

mod propose;
mod rough;
mod tiling;

use crate::predict::{Prediction, compile_and_predict};
use crate::problem::{Problem, Sizes};
use crate::{CompileError, Compiled, Options};
use std::fmt;
use std::time::{Duration, Instant};
use warplift_ir::target::Target;
use warplift_ir::tile::{Kernel, Mapping};

pub use propose::mappings;

/// Time after which no further candidate is compiled.
const TIME: Duration = Duration::from_secs(30);
/// After this many candidates without a prediction, no further one is predicted. The candidates are of the same kernel,
/// and a walk that is given up takes the longest.
const GIVEN_UP: usize = 2;

/// A mapping, its compiled kernel, and the cycles expected of it.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The mapping.
    pub mapping: Mapping,
    /// The compiled kernel.
    pub compiled: Compiled,
    /// Predicted cycles of a multiprocessor for a launch of the nominal sizes.
    pub cycles: f64,
}

/// The chosen mapping, and the cost of the choice.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// The candidate with the best prediction.
    pub best: Candidate,
    /// The others that compiled, better predictions first.
    pub others: Vec<Candidate>,
    /// The number of candidates that compiled, and the number of all candidates.
    pub tried: (usize, usize),
    /// Candidates that were not compiled because time ran out.
    pub skipped: usize,
    /// Candidates that have only a rough estimate, because the walk was too long.
    pub rough: usize,
    /// Time that all compilations and predictions took.
    pub elapsed: Duration,
}

impl Chosen {
    /// All candidates, best first.
    pub fn candidates(self) -> impl Iterator<Item = Candidate> {
        std::iter::once(self.best).chain(self.others)
    }
}

/// How the choice went, and which candidates it left out.
impl fmt::Display for Chosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (tried, all) = self.tried;
        let millis = self.elapsed.as_secs_f64() * 1e3;
        write!(f, "{tried} of {all} proposed mappings compile, in {millis:.1} ms")?;
        if self.skipped > 0 {
            write!(f, "; {} more were not tried: {} s were over", self.skipped, TIME.as_secs())?;
        }
        match self.rough {
            0 => write!(f, "; the best prediction:"),
            n if n == tried => write!(
                f,
                "; none of them has a prediction, since a block has too many instructions; the best rough estimate:"
            ),
            n => write!(f, "; {n} of them have rough estimates alone; the best:"),
        }
    }
}

/// Compiles every proposal and keeps the one with the best prediction for nominal sizes. Compilation stops after a time
/// limit. Where a walk is too long, a rough estimate stands for the prediction.
///
/// # Errors
/// No proposal compiles. The error is their one reason, or lists the reasons with their numbers.
pub fn best(
    kernel: &Kernel,
    proposals: &[Mapping],
    target: &Target,
    options: &Options,
) -> Result<Chosen, CompileError> {
    best_within(kernel, proposals, target, options, (TIME, GIVEN_UP))
}

fn best_within(
    kernel: &Kernel,
    proposals: &[Mapping],
    target: &Target,
    options: &Options,
    (time, walks): (Duration, usize),
) -> Result<Chosen, CompileError> {
    let start = Instant::now();
    let usual = proposals.iter().find_map(|m| Problem::usual_sizes(kernel, m));
    let sizes = usual.unwrap_or_else(|| Sizes::nominal(kernel));
    let options = &Options { observer: None, ..options.clone() };
    let mut found: Vec<Candidate> = Vec::new();
    let (mut refused, mut rough, mut skipped) = (Vec::new(), 0, 0);
    for mapping in proposals {
        // At least one candidate is compiled, however long it takes.
        if !found.is_empty() && start.elapsed() >= time {
            skipped += 1;
            continue;
        }
        let made = match rough < walks {
            true => compile_and_predict(kernel, mapping, target, &sizes, options),
            false => crate::compile(kernel, mapping, target, options).map(|compiled| (compiled, None)),
        };
        match made {
            Ok((compiled, walked)) => {
                rough += usize::from(walked.is_none());
                let estimate = || rough::predict(kernel, mapping, &compiled, target, &sizes);
                let exact = |p: Prediction| p.cycles * rough::power(kernel, mapping, target, &sizes);
                let cycles = walked.map_or_else(estimate, exact);
                found.push(Candidate { mapping: mapping.clone(), compiled, cycles });
            }
            Err(error) => refused.push(error),
        }
    }
    let tried = (found.len(), proposals.len());
    found.sort_by(|a, b| a.cycles.total_cmp(&b.cycles));
    let mut found = found.into_iter();
    match (found.next(), CompileError::of_proposals(refused)) {
        (Some(best), _) => {
            let (others, elapsed) = (found.collect(), start.elapsed());
            Ok(Chosen { best, others, tried, skipped, rough, elapsed })
        }
        (None, Some(error)) => Err(error),
        (None, None) => Err(warplift_isel::IselError::whole("no mapping was proposed").into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::{LIBRARY, find};
    use warplift_ir::target::SM90A;
    use warplift_ir::tile::verify_mapping;
    use warplift_ir::tile::{Epilogue, Way, parse_file};

    fn kernel(name: &str) -> Kernel {
        find(name).unwrap().parse().unwrap().kernels.remove(0)
    }

    #[test]
    fn proposals_are_complete_and_fit_their_kernel() {
        for (name, least) in [("gemm", 18), ("gemm_chain", 4), ("gemm_dual", 4), ("axpy", 6), ("row_max", 18)]
        {
            let kernel = kernel(name);
            let all = mappings(&kernel, &SM90A);
            assert!((least..=28).contains(&all.len()), "{name}: {}", all.len());
            for m in &all {
                assert_eq!(verify_mapping(&kernel, m, &SM90A), Ok(()), "{m}");
                assert!(
                    kernel.tunables.values().all(|t| m.tunable(&t.name).is_some() || name == "gemm_chain"),
                    "{m}"
                );
            }
        }
    }

    #[test]
    fn large_products_get_a_large_tile_and_a_spread_epilogue() {
        let kernel = kernel("gemm");
        let chosen = best(&kernel, &mappings(&kernel, &SM90A), &SM90A, &Options::default()).unwrap();
        let m = &chosen.best.mapping;
        assert_eq!((m.tunable("BM"), m.tunable("BN")), (Some(128), Some(256)), "{m}");
        assert_eq!((m.whole.epilogue, m.whole.persistent), (Epilogue::Deferred, true), "{m}");
        assert!(chosen.tried.0 > 10 && chosen.best.cycles.is_finite(), "{:?}", chosen.tried);
    }

    #[test]
    fn what_says_what_is_computed_stays() {
        for (name, tunable, value) in
            [("attention", "D", 128), ("a16w4", "GROUP", 128), ("softmax", "BN", 4096)]
        {
            let kernel = kernel(name);
            let all = mappings(&kernel, &SM90A);
            let kept = |m: &Mapping| m.tunable(tunable).is_none_or(|v| v == value);
            assert!(!all.is_empty() && all.iter().all(kept), "{name}: {all:?}");
        }
    }

    #[test]
    fn narrow_weights_are_packed_and_their_scales_staged() {
        let all = mappings(&kernel("a16w4"), &SM90A);
        let way = |m: &Mapping, array: &str| m.arrays.iter().find(|a| a.0 == array).map(|a| a.1.way);
        let both = |m: &&Mapping| (way(m, "w"), way(m, "s")) == (Some(Way::Packed), Some(Way::Staged));
        assert!(all.iter().any(|m| m.arrays.is_empty()) && all.iter().filter(both).count() >= 4, "{all:?}");
    }

    /// Predicted cycles of the proposed mapping, divided by those of the file's own mapping. Both are for nominal
    /// sizes.
    fn against_own(kernel: &Kernel, own: &Mapping) -> f64 {
        let options = Options::default();
        let sizes = Sizes::nominal(kernel);
        let auto = best(kernel, &mappings(kernel, &SM90A), &SM90A, &options);
        let auto = auto.unwrap_or_else(|e| panic!("{}: {e}", kernel.name));
        let (compiled, walked) = compile_and_predict(kernel, own, &SM90A, &sizes, &options).unwrap();
        let rough = || rough::predict(kernel, own, &compiled, &SM90A, &sizes);
        let own = walked.map_or_else(rough, |p| p.cycles * rough::power(kernel, own, &SM90A, &sizes));
        let (tried, proposed) = auto.tried;
        println!("{:<26} {:.2} {tried}/{proposed} {:?}", kernel.name, auto.best.cycles / own, auto.elapsed);
        auto.best.cycles / own
    }

    #[test]
    fn proposed_mappings_are_near_the_best_known_by_the_model() {
        let far = LIBRARY.iter().filter_map(|k| {
            let module = k.parse().unwrap();
            let kernel = &module.kernels[0];
            let ratio = against_own(kernel, module.mapping(&kernel.name).unwrap());
            (ratio > 1.15).then(|| format!("{}: {ratio:.2}", kernel.name))
        });
        let far: Vec<String> = far.collect();
        assert!(far.is_empty(), "{far:?}");
    }

    #[test]
    fn what_does_not_compile_is_passed_over() {
        let kernel = kernel("axpy");
        let bad = Mapping { kernel: "other".into(), ..Default::default() };
        let good = Mapping { kernel: "axpy".into(), ..Default::default() };
        let chosen = best(&kernel, &[bad.clone(), good.clone()], &SM90A, &Options::default()).unwrap();
        assert_eq!((chosen.best.mapping, chosen.tried), (good, (1, 2)));
        assert!(best(&kernel, &[bad], &SM90A, &Options::default()).is_err());
        let words = ["kernel: warps 33", "B = 0", "kernel: warps 34"];
        let wrong =
            words.map(|w| parse_file(&format!("mapping axpy {{ {w} }}"), "").unwrap().mappings.remove(0));
        let error = best(&kernel, &wrong, &SM90A, &Options::default()).err().unwrap().to_string();
        assert!(error.starts_with("none of the 3 mappings that were proposed compiles"), "{error}");
        assert!(error.contains("\n  2 of them: 1:24: `warps 33`: 1 to 32"), "{error}");
        assert!(error.contains("\n  1 of them: 1:16: "), "{error}");
        assert!(best(&kernel, &[], &SM90A, &Options::default()).is_err());
    }

    #[test]
    fn a_choice_is_bounded_and_says_what_it_left_out() {
        let kernel = kernel("gemm");
        let all = mappings(&kernel, &SM90A);
        let within = |bounds| best_within(&kernel, &all, &SM90A, &Options::default(), bounds).unwrap();
        let late = within((Duration::ZERO, GIVEN_UP));
        assert_eq!((late.tried.0, late.skipped), (1, all.len() - 1));
        assert!(late.to_string().contains(&format!("{} more were not tried", all.len() - 1)), "{late}");
        let short = within((TIME, 0));
        assert_eq!(short.rough, short.tried.0);
        assert!(short.to_string().contains("none of them has a prediction"), "{short}");
        let whole = within((TIME, GIVEN_UP));
        assert_eq!((whole.rough, whole.skipped), (0, 0), "{whole}");
        assert!(
            whole.others.is_sorted_by(|a, b| a.cycles <= b.cycles)
                && whole.others[0].cycles >= whole.best.cycles
        );
    }
}
