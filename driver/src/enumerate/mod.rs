//! Mappings for a kernel that has none, chosen for the sizes of its launch. Complete mappings are proposed, the best of
//! them are compiled, and the one with the best prediction is kept. No stage of the compiler feeds anything back into the
//! choice.
//!
//! ```text
//!  kernel, sizes ─► product of loaded or ─ yes ─► all tiles x warpgroups x .., by estimate ─┐         forms.rs, beside.rs
//!                   computed operands?                                                       │
//!                   narrow weights? ────── yes ─► tiles x warpgroups x slices of the loop ───┤         converting.rs
//!                        └─────────────── no ──► tiles of chained products, extents ────────┤         propose.rs, fitted.rs
//!                                                                                            v
//!        floor not below the best prediction: dropped ─ else compile and walk the whole launch ─► neighbours ─► pdl?
//!                                               (roughly, where it cannot be walked; power: rough.rs)   climb.rs   pdl.rs
//! ```
//!
//! The choice does not change the kernel's results: see `tiling`. It depends on nothing but its arguments, unless the
//! limit of time ends it.

mod beside;
mod climb;
mod converting;
mod extents;
mod fitted;
mod forms;
mod grants;
mod pdl;
mod promises;
mod propose;
mod rough;
mod tiling;

use crate::predict::{Arrays, Launch, Prediction, compile_and_predict, floor};
use crate::problem::{Problem, Sizes};
use crate::tuning::Tunings;
use crate::{CompileError, Compiled, Limits, Options};
use converting::Converting;
use forms::{Form, Key, Kind, Space};
use propose::Anchor;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use warplift_ir::plural;
use warplift_ir::target::Target;
use warplift_ir::tile::{Kernel, Mapping, Way, verify_mapping};

pub use grants::Grants;
pub use propose::mappings;
#[cfg(feature = "bundle")]
pub(crate) use rough::predict as predict_roughly;

/// Time after which no further candidate is compiled.
const TIME: Duration = Duration::from_secs(30);
/// After this many candidates without a prediction, no further one is predicted. The candidates are of the same kernel,
/// and a walk that is given up takes the longest.
const GIVEN_UP: usize = 2;
/// So many times as many forms are compiled, of a tile and in all, where blocks do unequal work.
const UNEQUAL: usize = 3;
/// What blocks that share out a loop must take less, of the best other form's cycles. A walk sees the time of
/// updates, but not what blocks wait for each other's counts: a semaphore was measured to cost a decode kernel 4.4 us at 60 MB of weights, 7% of its time.
const GAIN: f64 = 0.03;
/// Attempts at each proposal: all features, and once without one. Most refusals stay what they are, and other proposals
/// ask for less.
const ATTEMPTS: usize = 2;

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
    /// better estimates were.
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
                "; {} passed over by their floors and estimates",
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

/// A mapping that may be compiled.
struct Proposal {
    mapping: Mapping,
    /// Cycles that its prediction is not below.
    floor: f64,
    /// What it is as a form of a product.
    form: Option<AsForm>,
}

/// A form among others.
#[derive(Clone, Copy)]
struct AsForm {
    key: Key,
    /// How many like it are compiled at most.
    most: usize,
    kind: Kind,
    /// Registers that a thread is expected to have left; `None` where that says nothing.
    spare: Option<i64>,
}

impl AsForm {
    /// Whether it lacks what another form lacked: the same tile, or fewer registers.
    fn lacks_what(&self, refused: &Self) -> bool {
        let fewer = self.spare.is_some() && self.spare <= refused.spare;
        self.key == refused.key || fewer
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
    warplift_isel::map::drop_implied_masks(&mut plain);
    if warplift_isel::map::inline_decided_branches(&mut plain) {
        warplift_isel::map::do_drop_unused(&mut plain);
    }
    let launch = Launch { sizes, arrays: &search.arrays };
    let (proposals, passed_over) = proposals(&plain, launch, target, search);
    let anchor = propose::anchor(&plain, &search.grants);
    let climbs = !search.exhaustive && anchor.is_none_or(|a| !a.chained);
    let bounds = if search.exhaustive { Bounds::NONE } else { Bounds::USUAL };
    let time = search.time.unwrap_or(TIME);
    let bounds = Bounds { time, stop: search.stop.as_deref(), climbs, defines: &search.defines, ..bounds };
    let mut chosen = among(kernel, &proposals, launch, target, options, bounds)?;
    chosen.passed_over += passed_over;
    chosen.unpacked = propose::narrow_arrays(kernel);
    chosen.unpacked.retain(|name| !search.grants.packs(name));
    if !search.exhaustive {
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
        && verify_mapping(kernel, &found[0].mapping, target).is_ok();
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

/// What ends a search.
#[derive(Clone, Copy)]
struct Bounds<'s> {
    /// Set to end the search.
    stop: Option<&'s AtomicBool>,
    /// Time after which nothing is compiled.
    time: Duration,
    /// Walks that are given up.
    walks: usize,
    /// Whether floors and numbers count.
    pruned: bool,
    /// Whether the search goes on from the best proposal.
    climbs: bool,
    /// Values that tunables must have.
    defines: &'s [(String, i64)],
}

impl Bounds<'_> {
    const USUAL: Self =
        Self { stop: None, time: TIME, walks: GIVEN_UP, pruned: true, climbs: false, defines: &[] };
    const NONE: Self = Self { pruned: false, ..Self::USUAL };

    /// Whether nothing more is compiled.
    fn are_over(&self, start: Instant) -> bool {
        start.elapsed() >= self.time || self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed))
    }
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
    refused_forms: Vec<AsForm>,
    rough: usize,
    skipped: usize,
    passed_over: usize,
}

impl Found {
    /// Whether a proposal need not be compiled.
    fn is_needless(&self, proposal: &Proposal) -> bool {
        let best = self.candidates.iter().map(|c| c.cycles).fold(f64::INFINITY, f64::min);
        let enough = match proposal.form {
            Some(form) if self.refused_forms.iter().any(|refused| form.lacks_what(refused)) => true,
            Some(form) if proposal.mapping.is_shared_out() => self.shared_out >= form.most,
            Some(form) => {
                let whole = self.forms - self.shared_out;
                whole >= form.most || (self.forms == 0 && self.refused.len() >= form.kind.refusals())
            }
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
        (launch, target): (Launch<'_>, &Target),
        options: &Options,
        walks: usize,
    ) {
        let (sizes, mapping) = (launch.sizes, &proposal.mapping);
        let made = match self.rough < walks {
            true => compile_and_predict(kernel, mapping, target, launch, options),
            false => crate::compile(kernel, mapping, target, options).map(|compiled| (compiled, None)),
        };
        let (compiled, prediction) = match made {
            Ok(made) => made,
            Err(error) => {
                let spare = |form: AsForm| form.spare.filter(|_| matches!(error, CompileError::Registers(_)));
                self.refused_forms.extend(proposal.form.map(|form| AsForm { spare: spare(form), ..form }));
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

    /// The place of the best one.
    fn first(&self) -> Option<usize> {
        (0..self.ranks.len()).min_by(|&a, &b| self.ranks[a].total_cmp(&self.ranks[b]))
    }

    /// Goes on from the best one, as long as a neighbour is better.
    fn climb(
        &mut self,
        kernel: &Kernel,
        (launch, target): (Launch<'_>, &Target),
        options: &Options,
        bounds: Bounds<'_>,
        start: Instant,
    ) {
        let mut tried: Vec<Mapping> = self.candidates.iter().map(|c| c.mapping.clone()).collect();
        for _ in 0..climb::STEPS {
            let Some(best) = self.first() else { return };
            let (rank, from) = (self.ranks[best], self.candidates[best].clone());
            for mapping in climb::neighbours(kernel, &from.mapping, (launch.sizes, target)) {
                let legal = has(&mapping, bounds.defines)
                    && promises::is_legal(kernel, &mapping, launch.sizes, target);
                if !legal || tried.contains(&mapping) || bounds.are_over(start) {
                    continue;
                }
                tried.push(mapping.clone());
                self.add(
                    kernel,
                    &Proposal { mapping, floor: 0.0, form: None },
                    (launch, target),
                    options,
                    bounds.walks,
                );
            }
            // What is about as good is not known to be better.
            for (own, candidate) in self.ranks.iter_mut().zip(&self.candidates) {
                if *own < rank && candidate.cycles > (1.0 - climb::gain(kernel)) * from.cycles {
                    *own = rank.next_up();
                }
            }
            if self.first() == Some(best) {
                return;
            }
        }
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
                unpacked: Vec::new(),
                elapsed: start.elapsed(),
            }),
            (None, Some(error)) => Err(error),
            (None, None) => Err(warplift_isel::IselError::whole("no mapping was proposed").into()),
        }
    }
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

/// Whether a mapping's tunables have these values.
fn has(mapping: &Mapping, defines: &[(String, i64)]) -> bool {
    defines.iter().all(|(name, value)| mapping.tunable(name) == Some(*value))
}

fn is_packed(mapping: &Mapping) -> bool {
    mapping.arrays.iter().any(|a| a.1.way == Way::Packed)
}

fn among(
    kernel: &Kernel,
    proposals: &[Proposal],
    launch: Launch<'_>,
    target: &Target,
    options: &Options,
    bounds: Bounds<'_>,
) -> Result<Chosen, CompileError> {
    let start = Instant::now();
    let limits =
        Limits { attempts: options.limits.attempts.or(bounds.pruned.then_some(ATTEMPTS)), ..options.limits };
    let options = &Options { observer: None, limits, ..options.clone() };
    let mut found = Found::default();
    for proposal in proposals {
        // At least one candidate is compiled, however long it takes.
        if !found.candidates.is_empty() && bounds.are_over(start) {
            found.skipped += 1;
        } else if bounds.pruned && found.is_needless(proposal) {
            found.passed_over += 1;
        } else {
            found.add(kernel, proposal, (launch, target), options, bounds.walks);
        }
    }
    if bounds.climbs {
        found.climb(kernel, (launch, target), options, bounds, start);
    }
    found.chosen(launch.sizes, start)
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
