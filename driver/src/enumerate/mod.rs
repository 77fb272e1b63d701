//! Mappings for a kernel that has none: complete ones are proposed, each is compiled, and the best
//! prediction is kept. Nothing flows back from the stages to the choice.
//!
//! ```text
//!  kernel ─► products? ─ yes ─► tiles x raster x epilogue, arrays ─┐                       propose.rs
//!                └────── no ──► extents x warps ───────────────────┴─► compile and walk each ─► best
//!                                                        (roughly, where it cannot be walked; power: rough.rs)
//! ```
//!
//! A choice changes nothing that is computed: see `tiling`.

mod propose;
mod rough;
mod tiling;

use crate::predict::compile_and_predict;
use crate::problem::{Problem, Sizes};
use crate::{CompileError, Compiled, Options};
use std::time::{Duration, Instant};
use warplift_ir::target::Target;
use warplift_ir::tile::{Kernel, Mapping};

pub use propose::mappings;

/// What was chosen, and what choosing cost.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// The mapping.
    pub mapping: Mapping,
    /// What it compiles to.
    pub compiled: Compiled,
    /// Predicted cycles of a multiprocessor for a launch of the nominal sizes.
    pub cycles: f64,
    /// Candidates that compiled, and candidates there were.
    pub tried: (usize, usize),
    /// Time of all compilations.
    pub elapsed: Duration,
}

/// Compiles every proposal and keeps the one with the best prediction for nominal sizes.
///
/// # Errors
/// None compiles; the error is that of the first.
pub fn best(
    kernel: &Kernel,
    proposals: &[Mapping],
    target: &Target,
    options: &Options,
) -> Result<Chosen, CompileError> {
    let start = Instant::now();
    let usual = proposals.iter().find_map(|m| Problem::usual_sizes(kernel, m));
    let sizes = usual.unwrap_or_else(|| Sizes::nominal(kernel));
    let options = &Options { observer: None, ..options.clone() };
    let mut chosen: Option<(f64, Mapping, Compiled)> = None;
    let (mut refused, mut tried) = (None, 0);
    for mapping in proposals {
        match compile_and_predict(kernel, mapping, target, &sizes, options) {
            Ok((compiled, walked)) => {
                tried += 1;
                let rough = || rough::predict(kernel, mapping, &compiled, target, &sizes);
                let cycles =
                    walked.map_or_else(rough, |p| p.cycles * rough::power(kernel, mapping, target, &sizes));
                if chosen.as_ref().is_none_or(|(least, ..)| cycles < *least) {
                    chosen = Some((cycles, mapping.clone(), compiled));
                }
            }
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    let tried = (tried, proposals.len());
    match (chosen, refused) {
        (Some((cycles, mapping, compiled)), _) => {
            Ok(Chosen { mapping, compiled, cycles, tried, elapsed: start.elapsed() })
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
    use warplift_ir::tile::{Epilogue, Way};

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
        let m = &chosen.mapping;
        assert_eq!((m.tunable("BM"), m.tunable("BN")), (Some(128), Some(256)), "{m}");
        assert_eq!((m.whole.epilogue, m.whole.persistent), (Epilogue::Deferred, true), "{m}");
        assert!(chosen.tried.0 > 10 && chosen.cycles.is_finite(), "{:?}", chosen.tried);
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

    /// Predicted cycles of the proposed mapping over those of the file's own one, both for nominal sizes.
    fn against_own(kernel: &Kernel, own: &Mapping) -> f64 {
        let options = Options::default();
        let sizes = Sizes::nominal(kernel);
        let auto = best(kernel, &mappings(kernel, &SM90A), &SM90A, &options);
        let auto = auto.unwrap_or_else(|e| panic!("{}: {e}", kernel.name));
        let (compiled, walked) = compile_and_predict(kernel, own, &SM90A, &sizes, &options).unwrap();
        let rough = || rough::predict(kernel, own, &compiled, &SM90A, &sizes);
        let own = walked.map_or_else(rough, |p| p.cycles * rough::power(kernel, own, &SM90A, &sizes));
        let (tried, proposed) = auto.tried;
        println!("{:<26} {:.2} {tried}/{proposed} {:?}", kernel.name, auto.cycles / own, auto.elapsed);
        auto.cycles / own
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
        assert_eq!((chosen.mapping, chosen.tried), (good, (1, 2)));
        assert!(best(&kernel, &[bad], &SM90A, &Options::default()).is_err());
        assert!(best(&kernel, &[], &SM90A, &Options::default()).is_err());
    }
}
