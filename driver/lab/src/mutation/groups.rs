//! Static analysis of groups of asynchronous operations, as their issuing thread sees them.
//!
//! ```text
//!  the text ─ operations in flight at the changed line, with their ages in groups ┐
//!    on the only path from there: the text ── in flight ──► O                     │
//!                                the mutant ── in flight ──► M ◄──────────────────┘
//!    While some of M is not in O, no line may conflict with it. As soon as M = O, the mutant is equivalent.
//! ```
//!
//! Source: PTX ISA, "wgmma.commit_group", "wgmma.wait_group", "cp.async.bulk.commit_group",
//! "cp.async.bulk.wait_group": a wait for `n` leaves at most the `n` most recent groups in flight.

use super::text::{Text, guard, opcodes, registers, statements, writes};
use std::collections::{BTreeMap, BTreeSet};
use warplift_sim::mutate::Mutant;

/// The kind of operations in groups.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// `wgmma.mma_async`, of a warpgroup.
    Products,
    /// Bulk copies out of shared memory, of one thread.
    Stores,
}

/// The effect of a line on groups.
enum Step {
    Issue,
    Commit,
    Wait(u32),
}

/// Limit on ages. No wait leaves so many groups.
const OLD: u32 = 15;

impl Kind {
    fn step(self, line: &str) -> Option<Step> {
        let (issue, commit, wait) = match self {
            Self::Products => ("wgmma.mma_async", "wgmma.commit_group", "wgmma.wait_group"),
            Self::Stores => (".bulk_group", "cp.async.bulk.commit_group", "cp.async.bulk.wait_group"),
        };
        let opcode = opcodes(line).next()?;
        if opcode.starts_with(commit) {
            return Some(Step::Commit);
        }
        if opcode.starts_with(wait) {
            let depth = statements(line).next()?.trim_end().rsplit(' ').next()?;
            return depth.parse().ok().map(Step::Wait);
        }
        opcode.contains(issue).then_some(Step::Issue)
    }

    /// Whether the statement belongs to these groups.
    pub fn counts(self, line: &str) -> bool {
        matches!(self.step(line), Some(Step::Commit | Step::Wait(_)))
    }
}

/// Lines whose operation may be in flight, each with its possible ages in commits, as bits.
type State = BTreeMap<usize, u32>;

fn advance(state: &mut State, kind: Kind, at: usize, line: &str) {
    match kind.step(line) {
        Some(Step::Issue) => *state.entry(at).or_default() |= 1,
        Some(Step::Commit) => state.values_mut().for_each(|ages| *ages = *ages << 1 | *ages & 1 << OLD),
        Some(Step::Wait(left)) => state.retain(|_, ages| {
            *ages &= if left < OLD { (1 << (left + 1)) - 1 } else { u32::MAX };
            *ages != 0
        }),
        None => {}
    }
    state.values_mut().for_each(|ages| *ages &= (1 << (OLD + 1)) - 1);
}

/// The operations that may be in flight before a line, on any path to it.
fn before(text: &Text<'_>, kind: Kind, line: usize) -> State {
    let mut states: Vec<Option<State>> = vec![None; text.len()];
    states[0] = Some(State::new());
    let mut work = vec![0];
    while let Some(at) = work.pop() {
        let mut state = states[at].clone().unwrap_or_default();
        advance(&mut state, kind, at, text.line(at));
        for next in text.next(at) {
            let known = states[*next].get_or_insert_with(|| {
                work.push(*next);
                State::new()
            });
            let grows = state.iter().any(|(l, ages)| ages & !known.get(l).copied().unwrap_or(0) != 0);
            if grows {
                state.iter().for_each(|(l, ages)| *known.entry(*l).or_default() |= ages);
                work.push(*next);
            }
        }
    }
    states[line].take().unwrap_or_default()
}

/// One operation: its line, and its age in commits at the changed line; age 0 and behind the change: as issued.
type Operations = BTreeMap<(usize, u32), u32>;

/// Each operation by itself, so that two texts can be compared operation by operation.
fn single(state: &State) -> Operations {
    let ages = |ages: u32| (0..=OLD).filter(move |a| ages >> a & 1 == 1);
    state.iter().flat_map(|(l, bits)| ages(*bits).map(|a| ((*l, a), a))).collect()
}

fn follow(operations: &mut Operations, kind: Kind, at: usize, line: &str) {
    match kind.step(line) {
        // The path is walked once, so operations issued on it have no earlier age.
        Some(Step::Issue) => drop(operations.insert((at, OLD + 1), 0)),
        Some(Step::Commit) => operations.values_mut().for_each(|a| *a = (*a + 1).min(OLD)),
        Some(Step::Wait(left)) => operations.retain(|_, a| *a <= left),
        None => {}
    }
}

/// Whether no line conflicts with the operations that a changed commit or wait leaves in flight, until the same
/// operations are in flight as without the change.
pub(super) fn same_groups(text: &Text<'_>, mutant: &Mutant, kind: Kind) -> bool {
    if kind == Kind::Stores && waits_differ(text) {
        return false;
    }
    let changed = Text::new(&mutant.ptx);
    let place = mutant.line as usize - 1;
    let past = mutant.past.map_or(place, |p| p as usize - 1);
    // A moved statement stands on a line of its own, before the one that it passed or behind it.
    let shift = if past < place { past } else { past + 1 };
    let there = |at: usize| at + usize::from(mutant.past.is_some() && at >= shift);
    let own = guard(text.line(place));
    let first = place.min(past);
    let mut original = single(&before(text, kind, first));
    let mut mutated = original.clone();
    let mut at = first;
    for _ in 0..text.len() {
        let line = text.line(at);
        let other_threads = kind.counts(line) && guard(line) != own;
        if other_threads || own.is_some_and(|g| writes(line, g.trim_start_matches(['@', '!']))) {
            return false;
        }
        let more: BTreeSet<usize> =
            mutated.keys().filter(|k| !original.contains_key(k)).map(|(l, _)| *l).collect();
        if !more.is_empty() && minds(text, at, &more) {
            return false;
        }
        follow(&mut original, kind, at, line);
        let from = if at == first { at } else { there(at - 1) + 1 };
        (from..=there(at)).for_each(|m| follow(&mut mutated, kind, at, changed.line(m)));
        if at >= place.max(past) && original == mutated {
            return true;
        }
        match text.only_next(at) {
            Some(next) => at = next,
            None => return false,
        }
    }
    false
}

/// Whether some waits wait for the end of stores and others for the reads of their source. A wait of one kind does not
/// see the completions of the other kind.
fn waits_differ(text: &Text<'_>) -> bool {
    let of = |read: bool| {
        let reads = |l: usize| text.line(l).contains("wait_group.read") == read;
        text.all("cp.async.bulk.wait_group").any(reads)
    };
    of(true) && of(false)
}

/// Opcodes that signal other threads, hand memory on, or write it.
const TELLS: [&str; 19] = [
    "bar.",
    "barrier.",
    "mbarrier.arrive",
    "mbarrier.expect",
    "mbarrier.complete",
    "mbarrier.inval",
    "mbarrier.init",
    "tensormap.",
    "call",
    "st.",
    "stmatrix",
    "cp.",
    "red.",
    "atom.",
    "multimem.",
    "fence.acq_rel",
    "setmaxnreg",
    "ret",
    "exit",
];

/// Whether a line may not stand where these operations are in flight.
fn minds(text: &Text<'_>, at: usize, in_flight: &BTreeSet<usize>) -> bool {
    let line = text.line(at);
    let of_groups = [Kind::Products, Kind::Stores].iter().any(|k| k.counts(line));
    if !of_groups && opcodes(line).any(|o| TELLS.iter().any(|t| o.starts_with(t))) {
        return true;
    }
    let product = opcodes(line).any(|o| o.starts_with("wgmma.mma_async"));
    in_flight.iter().map(|l| text.line(*l)).any(|other| match product {
        true => collide(line, other),
        false => registers(line).any(|r| registers(other).any(|o| o == r)),
    })
}

/// Whether two products may not be in flight together: only on other registers, or adding to just the same.
fn collide(a: &str, b: &str) -> bool {
    let lists = |line| -> Option<[BTreeSet<String>; 2]> {
        let text = statements(line).next()?;
        let mut parts = text.split('{').skip(1).map(|p| p.split('}').next().unwrap_or_default());
        let mut list = || registers(parts.next().unwrap_or_default()).map(str::to_owned).collect();
        let [to, from]: [BTreeSet<String>; 2] = [list(), list()];
        // A product whose operands are not found collides with everything.
        (!to.is_empty()).then_some([to, from])
    };
    let (Some([to, from]), Some([other_to, other_from])) = (lists(a), lists(b)) else { return true };
    let same = to == other_to && opcodes(a).eq(opcodes(b));
    !(same || to.is_disjoint(&other_to)) || !to.is_disjoint(&other_from) || !from.is_disjoint(&other_to)
}
