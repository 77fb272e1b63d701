//! Mappings for a kernel that has none, chosen for the sizes of its launch. Complete mappings are proposed, the best of
//! them are compiled, and the one with the best prediction is kept. No stage of the compiler feeds anything back into the
//! choice.
//!
//! ```text
//!  kernel, sizes ─► what sizes say of rows                                                            assumed.rs
//!                        │
//!                        ├─ product of loaded or computed operands ─► tiles x warpgroups x .., by estimate   forms.rs, beside.rs
//!                        ├─ narrow weights ─────────────────────────► tiles x warpgroups x slices of a loop  converting.rs
//!                        └─ else ───────────────────────────────────► chained products, extents of tiles     propose.rs, fitted.rs
//!                                                                            │
//!  floor not below the best, or known (told.rs): dropped ─ else compile and walk the launch ─► neighbours ─► order? ─► pdl?
//!                                           (roughly, where it cannot be walked: rough.rs)     climb.rs,     mma_order.rs, pdl.rs
//!                                                                                              whole_rows.rs
//! ```
//!
//! The choice does not change the kernel's results: see `tiling`. It depends on nothing but its arguments, unless the
//! limit of time ends it.

mod assumed;
mod beside;
mod candidates;
mod climb;
mod converting;
mod extents;
mod fitted;
mod forms;
mod grants;
mod lines;
mod mma_order;
mod pdl;
mod promises;
mod propose;
mod rough;
mod sharing;
mod tiling;
mod told;
mod whole_rows;

use crate::features::of_isel;
use crate::predict::{Arrays, Launch, Prediction, floor};
use crate::problem::{Problem, Sizes};
use crate::tuning::Tunings;
use crate::{CompileError, Compiled, Options};
use candidates::{AsForm, Bounds, GAIN, Proposal, TIME, among};
use converting::Converting;
use forms::{Form, Kind, Space};
use propose::Anchor;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use warplift_ir::plural;
use warplift_ir::target::Target;
use warplift_ir::tile::{Kernel, Mapping, Way, verify_mapping};
use warplift_isel::Ways;

pub use grants::Grants;
pub use propose::mappings;
#[cfg(feature = "bundle")]
pub(crate) use rough::predict as predict_roughly;

/// So many times as many forms are compiled, of a tile and in all, where blocks do unequal work.
const UNEQUAL: usize = 3;

/// How to choose.
#[derive(Clone, Debug, Default)]
pub struct Search {
    /// Values that tunables must have.
    pub defines: Vec<(String, i64)>,
    /// What a mapping may ask of the caller.
    pub grants: Grants,
    /// Compile and predict everything legal, for tests of the choice.
    pub exhaustive: bool,
    /// Compile so many times as many forms as usual; 0 counts as 1.
    pub wider: usize,
    /// Time after which nothing more is compiled; none: 30 s.
    pub time: Option<Duration>,
    /// Set from elsewhere to end the search: what is known is chosen from.
    pub stop: Option<Arc<AtomicBool>>,
    /// Contents of arrays, which predictions follow.
    pub arrays: Arc<Arrays>,
    /// Earlier results, which know of no contents: where they have the kernel and its sizes, nothing else is tried.
    pub tuned: Option<Arc<Tunings>>,
}

/// A mapping, its compiled kernel, and the cycles expected of it.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The mapping.
    pub mapping: Mapping,
    /// The compiled kernel.
    pub compiled: Compiled,
    /// What it takes in cycles of the top clock, slowed down by power: its prediction, or a rough estimate. It compares
    /// candidates, and is no prediction itself ([`Self::prediction`]). Of candidates within two hundredths the better one
    /// by its bytes and by its margin to device memory comes first.
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
    /// better estimates were, or because it is known from others what would become of them.
    pub passed_over: usize,
    /// Candidates that were not compiled because time ran out.
    pub skipped: usize,
    /// Candidates that have only a rough estimate, because the walk was too long.
    pub rough: usize,
    /// Arrays of narrow elements that would be packed, were it granted.
    pub unpacked: Vec<String>,
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
                "; {} passed over by floors, estimates and what became of others",
                plural(self.passed_over as u64, "other")
            )?;
        }
        if self.skipped > 0 {
            write!(f, "; {} more were not tried: the time was over", self.skipped)?;
        }
        if !self.unpacked.is_empty() {
            write!(f, "; {} as it lies, since `packed` is not granted", self.unpacked.join(", "))?;
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
    if let Some(chosen) = tuned(kernel, sizes, target, options, search) {
        return Ok(chosen);
    }
    // Proposals follow from what is loaded and multiplied, however the text guards it.
    let mut plain = kernel.clone();
    // Proposals lie around the defaults: those of given tunables are what they are given.
    for data in plain.tunables.values_mut() {
        data.default = given(&search.defines, &data.name).unwrap_or(data.default);
    }
    let own = Mapping { promises: assumed::assumed(&plain, sizes, &search.grants), ..Mapping::default() };
    plain.assume(&own);
    warplift_isel::map::plain_indices(&mut plain);
    warplift_isel::map::drop_implied_masks(&mut plain);
    warplift_isel::map::forward_shared_by_defaults(&mut plain);
    warplift_isel::map::do_join_depths(&mut plain);
    if warplift_isel::map::inline_decided_branches(&mut plain) {
        warplift_isel::map::do_drop_unused(&mut plain);
    }
    warplift_isel::map::do_skip_masked(&mut plain, Ways::without(&of_isel(&options.disable)));
    let launch = Launch { sizes, arrays: &search.arrays };
    let (mut proposals, passed_over) = proposals(&plain, launch, target, search);
    proposals.iter_mut().for_each(|p| p.mapping.promises.clone_from(&own.promises));
    let anchor = propose::anchor(&plain, &search.grants);
    let climbs = !search.exhaustive && anchor.is_none_or(|a| !a.chained);
    let bounds = if search.exhaustive { Bounds::NONE } else { Bounds::USUAL };
    let time = search.time.unwrap_or(TIME);
    let bounds = Bounds { time, stop: search.stop.as_deref(), climbs, defines: &search.defines, ..bounds };
    let mut chosen = among(kernel, &proposals, launch, target, options, bounds)?;
    chosen.passed_over += passed_over;
    chosen.unpacked = propose::packable_arrays(kernel);
    chosen.unpacked.retain(|name| !search.grants.packs(name));
    if !search.exhaustive {
        mma_order::answer_otherwise(kernel, &mut chosen, launch, target, options);
        pdl::overlap_launches(kernel, &mut chosen, launch, target, options, search);
    }
    chosen.elapsed = start.elapsed();
    Ok(chosen)
}

/// The mapping that an earlier search found for these sizes, if it has the given values of tunables, asks for nothing but
/// what is granted, and compiles.
fn tuned(
    kernel: &Kernel,
    sizes: &Sizes,
    target: &Target,
    options: &Options,
    search: &Search,
) -> Option<Chosen> {
    let (mapping, _) =
        search.tuned.as_ref().filter(|_| search.arrays.is_empty())?.find(kernel, target, sizes)?;
    let agrees = has(&mapping, &search.defines);
    let found = [Proposal { mapping, floor: 0.0, form: None }];
    let usable = agrees
        && search.grants.allow(&found[0].mapping)
        && verify_mapping(kernel, &found[0].mapping, target).is_ok()
        && found[0].mapping.admits(|name| sizes.int(name));
    usable.then(|| among(kernel, &found, sizes.into(), target, options, Bounds::NONE).ok())?
}

/// Proposals in the order in which they are tried, and how many forms were left out.
fn proposals(
    kernel: &Kernel,
    launch: Launch<'_>,
    target: &Target,
    search: &Search,
) -> (Vec<Proposal>, usize) {
    let sizes = launch.sizes;
    let obeys = |m: &Mapping| promises::is_legal(kernel, m, sizes, target);
    let anchor = propose::anchor(kernel, &search.grants);
    let all = anchor.as_ref().map_or(Vec::new(), |a| forms(kernel, a, launch, target, &search.defines));
    let mut found: Vec<Proposal> = Vec::new();
    let mut tried = rustc_hash::FxHashMap::default();
    let number = all.len();
    let mut of_kind = [0; 2];
    // How unequal blocks share out the multiprocessors is for the walk to say.
    let unequal = anchor.as_ref().is_some_and(|a| a.unequal);
    let wider = search.wider.max(1) * if unequal { UNEQUAL } else { 1 };
    let whole = all.iter().filter(|f| !f.is_shared_out()).map(|f| f.estimate);
    let worth = (1.0 - GAIN) * whole.fold(f64::INFINITY, f64::min);
    for form in all {
        let mixed = form.kind == Kind::Mixed;
        let alike: &mut usize = tried.entry((form.key().0, mixed && form.key().1)).or_default();
        let kind: &mut usize = &mut of_kind[usize::from(form.is_shared_out())];
        let most = form.most() * wider;
        // Programs cut tiles only where that is expected to be worth it.
        let needless = form.streams && form.estimate >= worth;
        if !search.exhaustive
            && (*alike >= form.kind.of_tile() * wider || *kind >= form.kind.proposed() * most || needless)
        {
            continue;
        }
        let Some(anchor) = &anchor else { break };
        let mut mapping = form.mapping(kernel, anchor);
        propose::set(&mut mapping, &search.defines);
        if obeys(&mapping) {
            *alike += 1;
            *kind += 1;
            let spare = mixed.then_some(form.spare);
            let as_form = AsForm { key: form.key(), most, kind: form.kind, spare };
            found.push(Proposal { mapping, floor: form.floor, form: Some(as_form) });
        }
    }
    let left_out = number - found.len();
    for mapping in others(kernel, sizes, target, search, anchor.is_none()) {
        if found.iter().all(|p| p.mapping != mapping) {
            let problem = Problem::new(kernel, &mapping, sizes.clone());
            let floor = problem.map_or(0.0, |p| floor(&p, launch.arrays, target).cycles);
            found.push(Proposal { mapping, floor, form: None });
        }
    }
    if found.iter().any(|p| obeys(&p.mapping)) {
        found.retain(|p| obeys(&p.mapping));
    }
    (found, left_out)
}

/// Proposals that are no forms, those with packed arrays first, and `narrow` ones too: legal where the sizes allow that.
fn others(kernel: &Kernel, sizes: &Sizes, target: &Target, search: &Search, narrow: bool) -> Vec<Mapping> {
    let mut all = mappings(kernel, target, &search.grants);
    all.sort_by_key(|m| !is_packed(m));
    if narrow {
        let fitted: Vec<Mapping> = all.iter().flat_map(|m| fitted::fitted(kernel, m, sizes)).collect();
        let new: Vec<Mapping> = fitted.into_iter().filter(|m| !all.contains(m)).collect();
        all.extend(new);
    }
    let legal = |mut m: Mapping| {
        propose::set(&mut m, &search.defines);
        let kept = promises::kept(kernel, m.clone(), sizes, target);
        // What no mapping keeps is for the launch to refuse.
        kept.filter(|kept| has(kept, &search.defines)).unwrap_or(m)
    };
    all.into_iter().map(legal).collect()
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
    bounds: Bounds<'_>,
) -> Result<Chosen, CompileError> {
    let usual = proposals.iter().find_map(|m| Problem::usual_sizes(kernel, m));
    let sizes = usual.unwrap_or_else(|| Sizes::nominal(kernel));
    let given = |m: &Mapping| Proposal { mapping: m.clone(), floor: 0.0, form: None };
    let proposals: Vec<Proposal> = proposals.iter().map(given).collect();
    among(kernel, &proposals, Launch::from(&sizes), target, options, bounds)
}

/// The cycles by which a prediction is compared with others: slowed down by power, at the top clock.
pub(crate) fn slowed(
    p: &Prediction,
    kernel: &Kernel,
    mapping: &Mapping,
    target: &Target,
    sizes: &Sizes,
) -> f64 {
    let work = p.floor.products / p.cycles.max(1.0);
    rough::slowed(p.cycles, work, rough::power(kernel, mapping, target, sizes), target)
}

/// The value that a tunable is given.
fn given(defines: &[(String, i64)], name: &str) -> Option<i64> {
    defines.iter().find(|own| own.0 == name).map(|own| own.1)
}

/// Whether a mapping's tunables have these values.
fn has(mapping: &Mapping, defines: &[(String, i64)]) -> bool {
    defines.iter().all(|(name, value)| mapping.tunable(name) == Some(*value))
}

fn is_packed(mapping: &Mapping) -> bool {
    mapping.arrays.iter().any(|a| a.1.way == Way::Packed)
}

/// All forms of the kernel's product, those with the best estimates first; none where there is no space of forms. Of plain
/// products, those whose loop blocks share out come last.
fn forms(
    kernel: &Kernel,
    anchor: &Anchor<'_>,
    launch: Launch<'_>,
    target: &Target,
    defines: &[(String, i64)],
) -> Vec<Form> {
    let Some(space) = Space::new(kernel, anchor, launch, target, defines) else { return Vec::new() };
    let order = |a: &Form, b: &Form| a.estimate.total_cmp(&b.estimate).then(a.busy.total_cmp(&b.busy));
    let few = anchor.narrow_bits.map_or(Vec::new(), |bits| {
        Converting { space: &space, bits, side: usize::from(anchor.turned), packed: anchor.packed }.forms()
    });
    let mut all = if few.is_empty() { space.forms() } else { few };
    let late = |f: &Form| f.kind != Kind::Converting && f.is_shared_out();
    all.sort_by(|a, b| late(a).cmp(&late(b)).then(order(a, b)));
    all
}

#[cfg(test)]
mod tests;
