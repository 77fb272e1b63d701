//! Proposals compiled one after the other, and the best of them.
//!
//! ```text
//!  proposals, in order ─► needless? ─ no ─► compile, predict ─► candidates ─► climb ─► the best, the others, refusals
//!                             └ yes: its floor is not below the best, or enough like it were compiled
//! ```

use super::forms::{Key, Kind};
use super::told::Told;
use super::{Candidate, Chosen, climb, has, is_packed, promises, rough, slowed};
use crate::predict::{Launch, compile_and_predict};
use crate::problem::Sizes;
use crate::{CompileError, Compiled, Limits, Options};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use warplift_ir::target::Target;
use warplift_ir::tile::{Kernel, Mapping};

/// Time after which no further candidate is compiled.
pub(super) const TIME: Duration = Duration::from_secs(30);
/// After this many candidates without a prediction, no further one is predicted. The candidates are of the same kernel,
/// and a walk that is given up takes the longest.
const GIVEN_UP: usize = 2;
/// Attempts at each proposal: all features, and once without one. Most refusals stay what they are, and other proposals
/// ask for less.
const ATTEMPTS: usize = 2;
/// What blocks that share out a loop must take less, of the best other form's cycles. A walk sees the time of
/// updates, but not what blocks wait for each other's counts: a semaphore was measured to cost a decode kernel 4.4 us at
/// 60 MB of weights, 7% of its time.
pub(super) const GAIN: f64 = 0.03;

/// What spilling costs: a product of 208 accumulators was measured to take so many times as long.
const SPILLING: f64 = 7.8;

/// Whether the blocks that a mapping wants beside each other have fewer registers than they need. ptxas keeps to the share, and
/// spills.
fn shares_too_few(compiled: &Compiled, mapping: &Mapping, target: &Target) -> bool {
    let threads = compiled.manifest.block * mapping.whole.resident.max(1);
    let needed = compiled.explained.registers.iter().map(|r| r.needed).max().unwrap_or_default();
    mapping.whole.resident > 1 && needed > target.entry_registers(threads)
}

/// A mapping that may be compiled.
pub(super) struct Proposal {
    pub mapping: Mapping,
    /// Cycles that its prediction is not below.
    pub floor: f64,
    /// What it is as a form of a product.
    pub form: Option<AsForm>,
}

/// A form among others.
#[derive(Clone, Copy)]
pub(super) struct AsForm {
    pub key: Key,
    /// How many like it are compiled at most.
    pub most: usize,
    pub kind: Kind,
    /// Registers that a thread is expected to have left; `None` where that says nothing.
    pub spare: Option<i64>,
}

impl AsForm {
    /// Whether it lacks what another form lacked: the same tile, or fewer registers.
    fn lacks_what(&self, refused: &Self) -> bool {
        let fewer = self.spare.is_some() && self.spare <= refused.spare;
        self.key == refused.key || fewer
    }
}

/// What ends a search.
#[derive(Clone, Copy)]
pub(super) struct Bounds<'s> {
    /// Set to end the search.
    pub stop: Option<&'s AtomicBool>,
    /// Time after which nothing is compiled.
    pub time: Duration,
    /// Walks that are given up.
    pub walks: usize,
    /// Whether floors and numbers count.
    pub pruned: bool,
    /// Whether the search goes on from the best proposal.
    pub climbs: bool,
    /// Values that tunables must have.
    pub defines: &'s [(String, i64)],
}

impl Bounds<'_> {
    pub const USUAL: Self =
        Self { stop: None, time: TIME, walks: GIVEN_UP, pruned: true, climbs: false, defines: &[] };
    pub const NONE: Self = Self { pruned: false, ..Self::USUAL };

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
    /// What became of all of them.
    told: Told,
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
            None => {
                let as_packed = !is_packed(&proposal.mapping) && self.has_packed(&proposal.mapping);
                self.forms > 0 || as_packed || self.told.knows(&proposal.mapping)
            }
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
        self.told.add(kernel, mapping, made.as_ref().map(|made| &made.0));
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
        let cycles = if shares_too_few(&compiled, mapping, target) { SPILLING * cycles } else { cycles };
        self.ranks.push(cycles + rough::second(busy, rough::moved(kernel, mapping, target, sizes), target));
        self.candidates.push(Candidate { mapping: mapping.clone(), compiled, cycles, prediction });
    }

    /// The place of the best one.
    fn first(&self) -> Option<usize> {
        (0..self.ranks.len()).min_by(|&a, &b| self.ranks[a].total_cmp(&self.ranks[b]))
    }

    /// Where nothing compiles: halves what the first proposal's tunables say, until something does.
    fn shrink(
        &mut self,
        kernel: &Kernel,
        proposals: &[Proposal],
        (launch, target): (Launch<'_>, &Target),
        options: &Options,
        bounds: Bounds<'_>,
        start: Instant,
    ) {
        let Some(mut mapping) = proposals.first().map(|p| p.mapping.clone()) else { return };
        while self.candidates.is_empty() && !bounds.are_over(start) {
            let smaller = climb::halved(kernel, &mapping);
            if smaller == mapping {
                return;
            }
            mapping = smaller;
            let legal =
                has(&mapping, bounds.defines) && promises::is_legal(kernel, &mapping, launch.sizes, target);
            if legal && proposals.iter().all(|p| p.mapping != mapping) {
                let proposal = Proposal { mapping: mapping.clone(), floor: 0.0, form: None };
                self.add(kernel, &proposal, (launch, target), options, bounds.walks);
            }
        }
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
            if !climb::may_gain(kernel, &from) {
                return;
            }
            for mapping in climb::neighbours(kernel, &from.mapping, (launch.sizes, target)) {
                let legal = has(&mapping, bounds.defines)
                    && promises::is_legal(kernel, &mapping, launch.sizes, target);
                if !legal || tried.contains(&mapping) || self.told.knows(&mapping) || bounds.are_over(start) {
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

/// Compiles the proposals that may be better than those before, goes on from the best, and keeps that.
///
/// # Errors
/// No proposal compiles.
pub(super) fn among(
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
    if found.candidates.is_empty() && bounds.pruned {
        found.shrink(kernel, proposals, (launch, target), options, bounds, start);
    }
    if bounds.climbs {
        found.climb(kernel, (launch, target), options, bounds, start);
    }
    found.chosen(launch.sizes, start)
}
