//! Which mapping serves which part of a class, by prediction.
//!
//! ```text
//!  samples of the range ─► choose at each ─► pool of mappings ─► groups with equal packed arrays ─► the best group
//!  its mappings at each sample ─► winners ── differ between neighbours? ─► halve until the border is found
//! ```
//!
//! An array is packed once, so all entries of a bundle must want it packed alike. A winner is kept as long as no other
//! mapping is better by more than [`WORTH`]: few entries are better than many that are equal.

use super::class::{SizeClass, integers};
use super::table::Class;
use super::{BundleError, Making};
use crate::enumerate::{Candidate, Search, choose, predict_roughly, slowed};
use crate::predict::{Prediction, compile_and_predict};
use crate::{Compiled, Options};
use rustc_hash::FxHashMap;
use warplift_ir::manifest::Packing;
use warplift_ir::target::Target;
use warplift_ir::tile::{Kernel, Mapping, Promise};

/// Candidates of a sample that are assembled at most, until one is not slowed down by that.
const ASSEMBLED: usize = 8;
/// What another mapping must save to be an entry of its own.
const WORTH: f64 = 0.03;
/// Candidates of a sample that may become entries, where arrays are packed: another sample may need their packing.
const OF_SAMPLE: usize = 3;

/// A mapping that may become an entry.
pub(super) struct Member {
    pub mapping: Mapping,
    pub compiled: Compiled,
}

impl Making<'_> {
    /// The first candidate that the assembler does not slow down; the first of all if it does so to each.
    fn first_clean<'c>(&self, mut candidates: impl Iterator<Item = &'c Compiled>) -> usize {
        candidates.by_ref().take(ASSEMBLED).position(|c| !(self.is_slow)(c)).unwrap_or(0)
    }
}

impl Member {
    fn packing(&self) -> Vec<Option<Packing>> {
        self.compiled.manifest.arguments.iter().map(|a| a.packing.clone()).collect()
    }
}

/// Mappings of several classes, and what each is predicted to take.
pub(super) struct Pool<'k> {
    kernel: &'k Kernel,
    target: &'k Target,
    options: &'k Options,
    pub members: Vec<Member>,
    /// By class, value of its range, and member.
    predicted: FxHashMap<(usize, i64, usize), f64>,
}

impl<'k> Pool<'k> {
    /// The mappings that are best at some sample of some class.
    ///
    /// # Errors
    /// No mapping compiles for a sample.
    pub fn new(
        kernel: &'k Kernel,
        classes: &[SizeClass],
        target: &'k Target,
        options: &'k Options,
        making: &mut Making<'_>,
    ) -> Result<Self, BundleError> {
        let searches: Vec<Search> = classes.iter().map(|class| search(making, class.fixed())).collect();
        let mut pool = Self { kernel, target, options, members: Vec::new(), predicted: FxHashMap::default() };
        let samples: Vec<(usize, i64)> = classes
            .iter()
            .enumerate()
            .flat_map(|(c, class)| class.samples().into_iter().map(move |v| (c, v)))
            .collect();
        for (done, &(c, value)) in samples.iter().enumerate() {
            let chosen = choose(kernel, &classes[c].at(value), target, options, &searches[c])?;
            let packs = chosen.best.compiled.manifest.arguments.iter().any(|a| a.packing.is_some());
            let all: Vec<Candidate> = chosen.candidates().collect();
            let clean = making.first_clean(all.iter().map(|c| &c.compiled));
            for candidate in all.into_iter().skip(clean).take(if packs { OF_SAMPLE } else { 1 }) {
                let at = pool.member(candidate.mapping, candidate.compiled);
                pool.predicted.insert((c, value, at), candidate.cycles);
            }
            (making.progress)(done + 1, samples.len());
        }
        Ok(pool)
    }

    /// What every class that assumes how sizes divide stands before: a class of the same sizes with a member of the group that
    /// assumes nothing of them.
    ///
    /// # Errors
    /// No mapping compiles.
    pub fn general(
        &mut self,
        class: &SizeClass,
        group: &[usize],
        making: &Making<'_>,
    ) -> Result<Option<Class>, BundleError> {
        let packing = group.first().map(|&m| self.members[m].packing());
        let chosen = choose(self.kernel, &class.greatest(), self.target, self.options, &search(making, []))?;
        let all =
            chosen.candidates().map(|c| (c.cycles, Member { mapping: c.mapping, compiled: c.compiled }));
        let mut alike: Vec<_> = all.filter(|(_, member)| Some(member.packing()) == packing).collect();
        let clean = making.first_clean(alike.iter().map(|(_, m)| &m.compiled));
        let found = (clean < alike.len()).then(|| alike.swap_remove(clean));
        Ok(found.map(|(cycles, Member { mapping, compiled })| {
            let entry = self.member(mapping, compiled) as u32;
            Class { ranges: class.ranges().to_vec(), entry, cycles, multiples: Vec::new() }
        }))
    }

    fn member(&mut self, mapping: Mapping, compiled: Compiled) -> usize {
        let known = self.members.iter().position(|m| m.mapping == mapping);
        known.unwrap_or_else(|| {
            self.members.push(Member { mapping, compiled });
            self.members.len() - 1
        })
    }

    /// Cycles of a member, as candidates are compared ([`slowed`]), roughly where a block has too many instructions to
    /// walk; infinite where the member does not serve the sizes.
    fn cycles(&mut self, (c, class): (usize, &SizeClass), value: i64, member: usize) -> f64 {
        let key = (c, value, member);
        if let Some(&known) = self.predicted.get(&key) {
            return known;
        }
        let mapping = &self.members[member].mapping;
        let (kernel, target, sizes) = (self.kernel, self.target, class.at(value));
        if !mapping.admits(|name| sizes.int(name)) {
            return f64::INFINITY;
        }
        let made = compile_and_predict(kernel, mapping, target, &sizes, self.options);
        let roughly = |compiled: &Compiled| predict_roughly(kernel, mapping, compiled, target, &sizes);
        let compared = |p: &Prediction| slowed(p, kernel, mapping, target, &sizes);
        let cycles = made.map_or(f64::INFINITY, |(c, p)| p.map_or_else(|| roughly(&c), |p| compared(&p)));
        self.predicted.insert(key, cycles);
        cycles
    }

    /// Members that want all arrays packed alike: of all such groups the one with the best winners.
    pub fn group(&mut self, classes: &[SizeClass]) -> Vec<usize> {
        let mut groups: Vec<(Vec<Option<Packing>>, Vec<usize>)> = Vec::new();
        for (at, member) in self.members.iter().enumerate() {
            let packing = member.packing();
            match groups.iter_mut().find(|g| g.0 == packing) {
                Some(group) => group.1.push(at),
                None => groups.push((packing, vec![at])),
            }
        }
        if groups.len() == 1 {
            return groups.swap_remove(0).1;
        }
        let weighed: Vec<(f64, Vec<usize>)> =
            groups.into_iter().map(|(_, group)| (self.weight(classes, &group), group)).collect();
        weighed.into_iter().min_by(|a, b| a.0.total_cmp(&b.0)).map_or(Vec::new(), |best| best.1)
    }

    /// The sum over all samples of a group's best cycles over those of anyone known there.
    fn weight(&mut self, classes: &[SizeClass], group: &[usize]) -> f64 {
        let mut sum = 0.0;
        for (c, class) in classes.iter().enumerate() {
            for value in class.samples() {
                let own =
                    group.iter().map(|&m| self.cycles((c, class), value, m)).fold(f64::INFINITY, f64::min);
                let known = self.predicted.iter().filter(|(key, _)| (key.0, key.1) == (c, value));
                let best = known.map(|(_, &cycles)| cycles).fold(f64::INFINITY, f64::min);
                sum += own / best;
            }
        }
        sum
    }

    /// The classes of the table for one class of sizes, whose entries are members of a group.
    ///
    /// # Errors
    /// No member of the group serves all sizes of a range.
    pub fn classes(
        &mut self,
        c: usize,
        class: &SizeClass,
        group: &[usize],
    ) -> Result<Vec<Class>, BundleError> {
        let samples = class.samples();
        let mut runs: Vec<(i64, usize)> = Vec::new();
        let mut before: Option<(i64, usize)> = None;
        for &value in &samples {
            let winner = self.winner((c, class), value, group, before.map(|b| b.1));
            if let Some((at, old)) = before.filter(|b| b.1 != winner) {
                runs.push((self.border((c, class), [at, value], [old, winner]), old));
            }
            before = Some((value, winner));
        }
        let last = class.axis().map_or(0, |axis| class.ranges()[axis][1]);
        runs.extend(before.map(|(_, winner)| (last, winner)));
        let found = self.ranged((c, class), &runs);
        match found.iter().all(|class| class.cycles.is_finite()) {
            true => Ok(found),
            false => Err(BundleError::Unserved { class: class.to_string() }),
        }
    }

    /// The member with the least cycles; the one before stays unless another one is worth it.
    fn winner(
        &mut self,
        class: (usize, &SizeClass),
        value: i64,
        group: &[usize],
        before: Option<usize>,
    ) -> usize {
        let all: Vec<(usize, f64)> = group.iter().map(|&m| (m, self.cycles(class, value, m))).collect();
        let best = all.iter().copied().min_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or((0, f64::INFINITY));
        let stays = all.into_iter().find(|m| Some(m.0) == before && (1.0 - WORTH) * m.1 <= best.1);
        stays.map_or(best.0, |m| m.0)
    }

    /// The greatest value from `low` on, and below `high`, for which the first of two members is not worse.
    fn border(&mut self, class: (usize, &SizeClass), [mut low, mut high]: [i64; 2], both: [usize; 2]) -> i64 {
        loop {
            let middle = class.1.down(between(low, high));
            if middle <= low {
                return low;
            }
            let [first, second] = both.map(|m| self.cycles(class, middle, m));
            if first <= second { low = middle } else { high = middle }
        }
    }

    /// What a member assumes each integer argument to be a multiple of; none if it assumes nothing.
    fn multiples(&self, member: usize) -> Vec<i64> {
        let of = |name: &String| {
            let promises = &self.members[member].mapping.promises;
            promises.iter().find_map(|(n, promise)| match promise {
                Promise::Number(assumed) if n == name => Some(assumed.multiple),
                _ => None,
            })
        };
        let all: Vec<Option<i64>> = integers(self.kernel).iter().map(of).collect();
        let all = if all.iter().all(Option::is_none) { Vec::new() } else { all };
        all.into_iter().map(|multiple| multiple.unwrap_or(1)).collect()
    }

    /// Ranges that end at these values.
    fn ranged(&mut self, (c, class): (usize, &SizeClass), runs: &[(i64, usize)]) -> Vec<Class> {
        let mut from = class.axis().map(|axis| class.ranges()[axis][0]);
        let mut made = Vec::new();
        for &(to, member) in runs {
            let mut ranges = class.ranges().to_vec();
            if let (Some(axis), Some(from)) = (class.axis(), &mut from) {
                ranges[axis] = [*from, to];
                *from = to + 1;
            }
            let value = if class.axis().is_some() { class.down(to) } else { class.samples()[0] };
            let cycles = self.cycles((c, class), value, member);
            let multiples = self.multiples(member);
            made.push(Class { ranges, entry: member as u32, cycles, multiples });
        }
        made
    }
}

/// A search for a class, the values of these integers being those of all its launches.
fn search<'n>(making: &Making<'_>, told: impl IntoIterator<Item = &'n str>) -> Search {
    let mut grants = making.grants.clone();
    grants.tell(told);
    Search { tuned: making.tuned.clone(), grants, ..Search::default() }
}

/// The middle of two numbers, rounded down: below the greater one, for negative numbers too.
fn between(low: i64, high: i64) -> i64 {
    (i128::from(low) + i128::from(high)).div_euclid(2) as i64
}

#[cfg(test)]
mod tests {
    use super::between;

    #[test]
    fn a_middle_is_below_the_greater_number() {
        for (low, high) in [(1, 2), (-2, -1), (-1, 0), (i64::MIN, i64::MAX), (i64::MAX - 1, i64::MAX)] {
            assert!((low..high).contains(&between(low, high)), "{low} {high}");
        }
    }
}
