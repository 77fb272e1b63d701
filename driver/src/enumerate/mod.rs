//! Mappings for a kernel that has none, chosen for the sizes of its launch. Complete mappings are proposed, the best of
//! them are compiled, and the one with the best prediction is kept. No stage of the compiler feeds anything back into the
//! choice.
//!
//! ```text
//!  kernel, sizes ─► plain product? ─ yes ─► all tiles x warpgroups x .., by estimate ─┐              forms.rs
//!                        └────────── no ──► tiles of computed operands, extents ──────┤              propose.rs
//!                                                                                     v
//!        floor not below the best prediction: dropped ─ else compile and walk the whole launch ─► best
//!                                               (roughly, where it cannot be walked; power: rough.rs)
//! ```
//!
//! The choice does not change the kernel's results: see `tiling`. It depends on nothing but its arguments, unless the
//! limit of time ends it.

mod forms;
mod propose;
mod rough;
mod tiling;

use crate::predict::{Arrays, Prediction, compile_and_predict, floor};
use crate::problem::{Problem, Sizes};
use crate::{CompileError, Compiled, Limits, Options};
use forms::{Key, forms};
use std::fmt;
use std::time::{Duration, Instant};
use warplift_ir::plural;
use warplift_ir::target::Target;
use warplift_ir::tile::{Kernel, Mapping, Way, verify_mapping};

pub use propose::mappings;

/// Time after which no further candidate is compiled.
const TIME: Duration = Duration::from_secs(30);
/// After this many candidates without a prediction, no further one is predicted. The candidates are of the same kernel,
/// and a walk that is given up takes the longest.
const GIVEN_UP: usize = 2;
/// Forms of a product that are compiled at most, and forms of one tile among them.
const COMPILED: usize = 10;
const OF_TILE: usize = 3;
/// Forms whose loop blocks share out that are compiled at most. They come last: where another form reaches what device
/// memory allows, none of them is.
const SHARED_OUT: usize = 4;
/// What blocks that share out a loop must take less, of the best other form's cycles. A walk sees no contention at
/// the counters; a semaphore was measured to cost a decode kernel 4.4 us at 60 MB of weights, 7% of its time.
const GAIN: f64 = 0.03;
/// Refusals without a success after which no further form is compiled: the kernel then has no such forms.
const REFUSED: usize = 4;

/// Attempts at each proposal: all features, and once without one. Most refusals stay what they are, and other proposals
/// ask for less.
const ATTEMPTS: usize = 2;

/// How to choose.
#[derive(Clone, Debug, Default)]
pub struct Search {
    /// Values that tunables must have.
    pub defines: Vec<(String, i64)>,
    /// Compile and predict everything legal, for tests of the choice.
    pub exhaustive: bool,
}

/// A mapping, its compiled kernel, and the cycles expected of it.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The mapping.
    pub mapping: Mapping,
    /// The compiled kernel.
    pub compiled: Compiled,
    /// The prediction, slowed down by power, or a rough estimate. Of candidates within two hundredths the better one by
    /// its bytes and by its margin to device memory comes first.
    pub cycles: f64,
    /// The prediction; `None` where the walk was too long.
    pub prediction: Option<Prediction>,
}

/// The chosen mapping, and the cost of the choice.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// The candidate with the best prediction.
    pub best: Candidate,
    /// The others that compiled, the better ones first.
    pub others: Vec<Candidate>,
    /// The sizes it was chosen for.
    pub sizes: Sizes,
    /// The number of candidates that compiled, and the number of all that were tried.
    pub tried: (usize, usize),
    /// Candidates that were not compiled because their floor is not below the best prediction, or because enough with
    /// better estimates were.
    pub passed_over: usize,
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
        write!(f, "for {}: {tried} of {all} proposed mappings compile, in {millis:.1} ms", self.sizes)?;
        if self.passed_over > 0 {
            write!(
                f,
                "; {} passed over by their floors and estimates",
                plural(self.passed_over as u64, "other")
            )?;
        }
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

/// A mapping that may be compiled.
struct Proposal {
    mapping: Mapping,
    /// Cycles that its prediction is not below.
    floor: f64,
    /// Tile and registers of a form of a plain product; the number of forms is limited.
    form: Option<Key>,
}

/// The sizes for which a mapping is chosen where none are given: those of real work, or smaller ones if tensors may not
/// span those.
pub fn usual_sizes(kernel: &Kernel) -> Sizes {
    let own = Mapping { kernel: kernel.name.clone(), ..Mapping::default() };
    Problem::usual_sizes(kernel, &own).unwrap_or_else(|| Sizes::nominal(kernel))
}

/// Chooses a mapping for one launch of these sizes: of all that are proposed the one with the best prediction.
/// Compilation stops after a time limit. Where a walk is too long, a rough estimate stands for the prediction.
///
/// # Errors
/// No proposal compiles. The error is their one reason, or lists the reasons with their numbers.
pub fn choose(
    kernel: &Kernel,
    sizes: &Sizes,
    target: &Target,
    options: &Options,
    search: &Search,
) -> Result<Chosen, CompileError> {
    let start = Instant::now();
    let (proposals, passed_over) = proposals(kernel, sizes, target, search);
    let bounds = if search.exhaustive { Bounds::NONE } else { Bounds::USUAL };
    let mut chosen = among(kernel, &proposals, sizes, target, options, bounds)?;
    chosen.passed_over += passed_over;
    chosen.elapsed = start.elapsed();
    Ok(chosen)
}

/// Proposals in the order in which they are tried, and how many forms were left out.
fn proposals(kernel: &Kernel, sizes: &Sizes, target: &Target, search: &Search) -> (Vec<Proposal>, usize) {
    let obeys = |m: &Mapping| verify_mapping(kernel, m, target).is_ok();
    let anchor = propose::anchor(kernel);
    let all = anchor.as_ref().map_or(Vec::new(), |a| forms(kernel, a, sizes, target, &search.defines));
    let mut found: Vec<Proposal> = Vec::new();
    let mut of_tile = rustc_hash::FxHashMap::default();
    let number = all.len();
    let mut of_kind = [0; 2];
    for form in all {
        let alike: &mut usize = of_tile.entry(form.key().0).or_default();
        let kind: &mut usize = &mut of_kind[usize::from(form.is_shared_out())];
        let most = if form.is_shared_out() { SHARED_OUT } else { COMPILED };
        if !search.exhaustive && (*alike >= OF_TILE || *kind >= 2 * most) {
            continue;
        }
        let Some(anchor) = &anchor else { break };
        let mut mapping = form.mapping(kernel, anchor);
        forms::set(&mut mapping, &search.defines);
        if obeys(&mapping) {
            *alike += 1;
            *kind += 1;
            found.push(Proposal { mapping, floor: form.floor, form: Some(form.key()) });
        }
    }
    let left_out = number - found.len();
    let mut others = mappings(kernel, target);
    others.sort_by_key(|m| !is_packed(m));
    for mut mapping in others {
        forms::set(&mut mapping, &search.defines);
        if found.iter().all(|p| p.mapping != mapping) {
            let problem = Problem::new(kernel, &mapping, sizes.clone());
            let floor = problem.map_or(0.0, |p| floor(&p, &Arrays::new(), target).cycles);
            found.push(Proposal { mapping, floor, form: None });
        }
    }
    (found, left_out)
}

/// Compiles proposals and keeps the one with the best prediction for usual sizes, whatever their floors.
///
/// # Errors
/// As [`choose`].
pub fn best(
    kernel: &Kernel,
    proposals: &[Mapping],
    target: &Target,
    options: &Options,
) -> Result<Chosen, CompileError> {
    best_within(kernel, proposals, target, options, Bounds::NONE)
}

fn best_within(
    kernel: &Kernel,
    proposals: &[Mapping],
    target: &Target,
    options: &Options,
    bounds: Bounds,
) -> Result<Chosen, CompileError> {
    let usual = proposals.iter().find_map(|m| Problem::usual_sizes(kernel, m));
    let sizes = usual.unwrap_or_else(|| Sizes::nominal(kernel));
    let given = |m: &Mapping| Proposal { mapping: m.clone(), floor: 0.0, form: None };
    let proposals: Vec<Proposal> = proposals.iter().map(given).collect();
    among(kernel, &proposals, &sizes, target, options, bounds)
}

/// What ends a search.
#[derive(Clone, Copy)]
struct Bounds {
    /// Time after which nothing is compiled.
    time: Duration,
    /// Walks that are given up.
    walks: usize,
    /// Whether floors and numbers count.
    pruned: bool,
}

impl Bounds {
    const USUAL: Self = Self { time: TIME, walks: GIVEN_UP, pruned: true };
    const NONE: Self = Self { pruned: false, ..Self::USUAL };
}

/// The candidates so far, and why others are none.
#[derive(Default)]
struct Found {
    candidates: Vec<Candidate>,
    /// What each is compared by: its cycles and the second objectives.
    ranks: Vec<f64>,
    /// Candidates that are forms of a plain product, and of these the ones whose loop blocks share out.
    forms: usize,
    shared_out: usize,
    refused: Vec<CompileError>,
    /// Forms that were refused.
    refused_tiles: Vec<Key>,
    rough: usize,
    skipped: usize,
    passed_over: usize,
}

impl Found {
    /// Whether a proposal need not be compiled.
    fn is_needless(&self, proposal: &Proposal) -> bool {
        let best = self.candidates.iter().map(|c| c.cycles).fold(f64::INFINITY, f64::min);
        let enough = match proposal.form {
            // What one form of a tile lacks, the others lack.
            Some(key) if self.refused_tiles.contains(&key) => true,
            Some(_) if proposal.mapping.is_shared_out() => self.shared_out >= SHARED_OUT,
            Some(_) => self.forms >= COMPILED || (self.forms == 0 && self.refused.len() >= REFUSED),
            // Where forms compile, the other proposals of a plain product are among them.
            None => self.forms > 0 || (!is_packed(&proposal.mapping) && self.has_packed(&proposal.mapping)),
        };
        let gain = if proposal.mapping.is_shared_out() { GAIN } else { 0.0 };
        enough || proposal.floor >= (1.0 - gain) * best
    }

    /// Whether the same tile compiled with packed arrays, which threads read in fewer and wider loads.
    fn has_packed(&self, mapping: &Mapping) -> bool {
        let consumers = |m: &Mapping| m.loops.iter().map(|l| l.1.consumers).collect::<Vec<_>>();
        let all = self.candidates.iter().map(|c| &c.mapping).filter(|m| is_packed(m));
        all.into_iter().any(|m| {
            (&m.tunables, m.whole, consumers(m)) == (&mapping.tunables, mapping.whole, consumers(mapping))
        })
    }

    /// Compiles and predicts.
    fn add(
        &mut self,
        kernel: &Kernel,
        proposal: &Proposal,
        launch: (&Sizes, &Target),
        options: &Options,
        walks: usize,
    ) {
        let ((sizes, target), mapping) = (launch, &proposal.mapping);
        let made = match self.rough < walks {
            true => compile_and_predict(kernel, mapping, target, sizes, options),
            false => crate::compile(kernel, mapping, target, options).map(|compiled| (compiled, None)),
        };
        let (compiled, prediction) = match made {
            Ok(made) => made,
            Err(error) => {
                self.refused_tiles.extend(proposal.form);
                return self.refused.push(error);
            }
        };
        self.rough += usize::from(prediction.is_none());
        self.forms += usize::from(proposal.form.is_some());
        self.shared_out += usize::from(proposal.form.is_some() && mapping.is_shared_out());
        let (cycles, busy) = match &prediction {
            Some(p) => (slowed(p, kernel, mapping, target, sizes), p.block * f64::from(p.waves)),
            None => (rough::predict(kernel, mapping, &compiled, target, sizes), 0.0),
        };
        self.ranks.push(cycles + rough::second(busy, rough::moved(kernel, mapping, target, sizes), target));
        self.candidates.push(Candidate { mapping: mapping.clone(), compiled, cycles, prediction });
    }

    /// The best of them; equal ones in the order in which they were tried.
    fn chosen(self, sizes: &Sizes, start: Instant) -> Result<Chosen, CompileError> {
        let tried = (self.candidates.len(), self.candidates.len() + self.refused.len());
        let mut all: Vec<(f64, Candidate)> = self.ranks.into_iter().zip(self.candidates).collect();
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        let whole = all.iter().position(|c| !c.1.mapping.is_shared_out());
        // Of candidates that share out a loop, the first must be worth it.
        if let Some(at) = whole.filter(|&at| all[0].1.cycles > (1.0 - GAIN) * all[at].1.cycles) {
            let first = all.remove(at);
            all.insert(0, first);
        }
        let mut all = all.into_iter().map(|(_, candidate)| candidate);
        match (all.next(), CompileError::of_proposals(self.refused)) {
            (Some(best), _) => Ok(Chosen {
                best,
                others: all.collect(),
                sizes: sizes.clone(),
                tried,
                passed_over: self.passed_over,
                skipped: self.skipped,
                rough: self.rough,
                elapsed: start.elapsed(),
            }),
            (None, Some(error)) => Err(error),
            (None, None) => Err(warplift_isel::IselError::whole("no mapping was proposed").into()),
        }
    }
}

/// A prediction slowed down by power. Power slows a launch down only while its tensor cores are at work: the clock
/// of a kernel that waits for memory is another one ([`Target::clocks`]).
fn slowed(p: &Prediction, kernel: &Kernel, mapping: &Mapping, target: &Target, sizes: &Sizes) -> f64 {
    let work = (p.floor.products / p.cycles.max(1.0)).min(1.0);
    p.cycles * (1.0 + work * (rough::power(kernel, mapping, target, sizes) - 1.0))
}

fn is_packed(mapping: &Mapping) -> bool {
    mapping.arrays.iter().any(|a| a.1.way == Way::Packed)
}

fn among(
    kernel: &Kernel,
    proposals: &[Proposal],
    sizes: &Sizes,
    target: &Target,
    options: &Options,
    bounds: Bounds,
) -> Result<Chosen, CompileError> {
    let start = Instant::now();
    let limits =
        Limits { attempts: options.limits.attempts.or(bounds.pruned.then_some(ATTEMPTS)), ..options.limits };
    let options = &Options { observer: None, limits, ..options.clone() };
    let mut found = Found::default();
    for proposal in proposals {
        // At least one candidate is compiled, however long it takes.
        if !found.candidates.is_empty() && start.elapsed() >= bounds.time {
            found.skipped += 1;
        } else if bounds.pruned && found.is_needless(proposal) {
            found.passed_over += 1;
        } else {
            found.add(kernel, proposal, (sizes, target), options, bounds.walks);
        }
    }
    found.chosen(sizes, start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::{LIBRARY, find};
    use warplift_ir::target::SM90A;
    use warplift_ir::tile::{Epilogue, parse_file};

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
        let sizes = Sizes::nominal(&kernel);
        let chosen = choose(&kernel, &sizes, &SM90A, &Options::default(), &Search::default()).unwrap();
        let m = &chosen.best.mapping;
        assert_eq!((m.tunable("BM"), m.tunable("BN")), (Some(128), Some(256)), "{m}");
        assert_eq!((m.whole.epilogue, m.whole.persistent), (Epilogue::Deferred, true), "{m}");
        assert!(chosen.tried.0 >= COMPILED && chosen.best.cycles.is_finite(), "{:?}", chosen.tried);
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
        let auto = choose(kernel, &sizes, &SM90A, &options, &Search::default());
        let auto = auto.unwrap_or_else(|e| panic!("{}: {e}", kernel.name));
        let (compiled, walked) = compile_and_predict(kernel, own, &SM90A, &sizes, &options).unwrap();
        let rough = || rough::predict(kernel, own, &compiled, &SM90A, &sizes);
        let own = walked.map_or_else(rough, |p| slowed(&p, kernel, own, &SM90A, &sizes));
        let (tried, proposed) = auto.tried;
        println!("{:<26} {:.2} {tried}/{proposed} {:?}", kernel.name, auto.best.cycles / own, auto.elapsed);
        auto.best.cycles / own
    }

    /// Results before an `arrive` need `no bulk_store`, which is not proposed.
    const FAR: [&str; 1] = ["attention_decode"];

    #[test]
    fn proposed_mappings_are_near_the_best_known_by_the_model() {
        let far = LIBRARY.iter().filter(|k| !FAR.contains(&k.name)).filter_map(|k| {
            let module = k.parse().unwrap();
            let kernel = &module.kernels[0];
            let ratio = against_own(kernel, module.mapping(&kernel.name).unwrap());
            (ratio > 1.15).then(|| format!("{}: {ratio:.2}", kernel.name))
        });
        let far: Vec<String> = far.collect();
        assert!(far.is_empty(), "{far:?}");
    }

    /// A product whose tunables have few values, so that everything legal can be tried.
    const SMALL: &str = "kernel g(a: ptr<f16> align 16, b: ptr<f16> align 16, c: ptr<f16> align 16,
        m: i32, n: i32 % 8, k: i32 % 8) {
        tunable BM in {16, 64, 128} = 128, BN in {32, 64, 128, 256} = 128, BK in {64, 128} = 64
        grid cdiv(m, BM), cdiv(n, BN)
        ga = view a : f16[m, k]
        gb = view b : f16[n, k]
        gc = view c : f16[m, n]
        i, j = block_index
        acc = for t in 0..cdiv(k, BK) carry x = full 0.0 : f32[BM, BN] {
            yield mma x, load ga[i*BM, t*BK] : f16[BM, BK], trans(load gb[j*BN, t*BK] : f16[BN, BK])
        }
        store gc[i*BM, j*BN], cast(acc, f16)
    }";

    #[test]
    fn the_choice_is_near_the_best_of_everything_legal() {
        let kernel = parse_file(SMALL, "").unwrap().kernels.remove(0);
        let sizes = |text| Sizes::nominal(&kernel).overridden(&kernel, text).unwrap();
        let search = |exhaustive| Search { exhaustive, ..Search::default() };
        for text in ["1x2048x512", "200x520x1024", "1024x1024x256", "2048x2048x512"] {
            let by = |exhaustive| {
                choose(&kernel, &sizes(text), &SM90A, &Options::default(), &search(exhaustive)).unwrap()
            };
            let (chosen, all) = (by(false), by(true));
            assert!(all.tried.0 > 3 * chosen.tried.0 && all.passed_over == 0, "{text}: {all} {chosen}");
            let (a, b) = (&chosen.best, &all.best);
            println!("{text} {:.3} {chosen}", a.cycles / b.cycles);
            assert!(
                a.cycles <= 1.1 * b.cycles,
                "{text}: {:.0} of {:.0}, {} {}",
                a.cycles,
                b.cycles,
                a.mapping,
                b.mapping
            );
        }
    }

    #[test]
    fn a_choice_sees_the_sizes() {
        let kernel = kernel("gemm");
        let tile = |text| {
            let sizes = Sizes::nominal(&kernel).overridden(&kernel, text).unwrap();
            let chosen = choose(&kernel, &sizes, &SM90A, &Options::default(), &Search::default()).unwrap();
            let extent = |name| chosen.best.mapping.tunable(name).unwrap();
            (extent("BM"), extent("BM") * extent("BN"), chosen.best.prediction.unwrap())
        };
        let (rows, _, one) = tile("1x8192x8192");
        assert!(rows <= 16 && one.cycles <= 1.05 * one.floor.cycles, "{rows}: {one}");
        let (_, elements, large) = tile("8192x8192x4096");
        assert!(elements >= 128 * 128 && large.cycles <= 1.1 * large.floor.cycles, "{elements}: {large}");
    }

    #[test]
    fn floors_are_below_predictions() {
        let kernel = kernel("gemm");
        for text in ["8x4096x4096", "512x512x512", "3000x3000x1000"] {
            let sizes = Sizes::nominal(&kernel).overridden(&kernel, text).unwrap();
            let (proposals, left_out) = proposals(&kernel, &sizes, &SM90A, &Search::default());
            assert!(left_out > 1000, "{left_out}");
            for p in proposals.iter().filter(|p| p.form.is_some()) {
                let made = compile_and_predict(&kernel, &p.mapping, &SM90A, &sizes, &Options::default());
                let Ok((_, Some(walked))) = made else { continue };
                assert!(p.floor <= 1.001 * walked.cycles, "{text}: {:.0} {walked}{}", p.floor, p.mapping);
            }
        }
    }

    #[test]
    fn values_that_are_given_stay() {
        let kernel = kernel("gemm");
        let search = Search { defines: vec![("BM".into(), 128), ("BK".into(), 32)], ..Search::default() };
        let sizes = Sizes::nominal(&kernel).overridden(&kernel, "1x4096x4096").unwrap();
        let (proposals, _) = proposals(&kernel, &sizes, &SM90A, &search);
        let given = |m: &Mapping| (m.tunable("BM"), m.tunable("BK")) == (Some(128), Some(32));
        assert!(proposals.len() > COMPILED && proposals.iter().all(|p| given(&p.mapping)));
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
        let late = within(Bounds { time: Duration::ZERO, ..Bounds::NONE });
        assert_eq!((late.tried.0, late.skipped), (1, all.len() - 1));
        assert!(late.to_string().contains(&format!("{} more were not tried", all.len() - 1)), "{late}");
        let short = within(Bounds { walks: 0, ..Bounds::NONE });
        assert_eq!(short.rough, short.tried.0);
        assert!(short.to_string().contains("none of them has a prediction"), "{short}");
        let whole = within(Bounds::NONE);
        assert_eq!((whole.rough, whole.skipped), (0, 0), "{whole}");
        let near = |a: &Candidate, b: &Candidate| a.cycles <= 1.1 * b.cycles;
        assert!(whole.others.is_sorted_by(near) && near(&whole.best, &whole.others[0]));
    }
}
