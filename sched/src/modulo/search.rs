//! Iterative modulo scheduling: finds times within the least interval at which all constraints hold.

use super::body::{Body, Life, Resource};
use super::placing::{AtInterval, Placing};
use super::pressure::fullest;
use super::reorder::{Part, rises};
use std::cmp::Reverse;
use std::ops::RangeInclusive;

/// Placements tried for each node before an interval is given up. The number is generous: a longer interval costs
/// cycles in every iteration, a longer search only costs compile time.
const TRIES: usize = 12;
/// Steps between the intervals tried, as a fraction of the least one. Finer steps would distinguish more than the model
/// can.
const STEPS: u32 = 64;

/// Part of an interval that each stage beyond the second must save. A stage adds code before and behind the loop, and
/// makes fragments live longer.
const STAGE: f64 = 0.03;

/// A schedule: times and order of the nodes.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub interval: u32,
    /// The least interval that recurrences allow.
    pub recurrence: u32,
    /// Start of each node, in cycles after the iteration's start.
    pub times: Vec<i64>,
    /// Nodes in the order in which a warp reaches them.
    pub order: Vec<usize>,
    /// The graph at this interval.
    pub body: Body,
}

impl Found {
    /// The stage of a node: the number of whole intervals before its start.
    pub fn stage(&self, node: usize) -> u32 {
        (self.times[node] / i64::from(self.interval)) as u32
    }

    /// Registers of its fragments at the fullest cycle.
    pub fn registers(&self) -> u32 {
        pressure(&self.body, &self.times, self.interval.into())
    }

    /// Whether products of a body of one stage rise above work that the text has before them.
    pub fn rises(&self) -> bool {
        let part = |&n: &usize| {
            let node = &self.body.nodes[n];
            (node.resource == Resource::Tensor, n, node.busy)
        };
        let parts: Vec<Part> = self.order.iter().map(part).collect();
        (0..self.times.len()).all(|n| self.stage(n) == 0) && rises(&parts, self.interval)
    }

    /// Gives up the order in which products rise.
    pub fn keep_text_order(&mut self) {
        if self.rises() {
            self.order.sort_unstable();
        }
    }
}

/// The schedule with at most `stages` stages whose stages all pay. One more stage holds more fragments, and runs more
/// code before the loop and behind it.
///
/// # Errors
/// No interval up to the length of a whole iteration works, or the deadline has passed.
pub(super) fn best(b: &Body, stages: u32) -> Result<Found, String> {
    let tried = first_intervals(b, stages.min(2)..=stages)?;
    let refusal = tried.refusal(b, stages.min(2));
    let mut found = tried.found.into_iter();
    let mut best = found.next().flatten();
    for more in found.flatten() {
        let bound = best.as_ref().map_or(u32::MAX, |s| (f64::from(s.interval) * (1.0 - STAGE)) as u32);
        if more.interval < bound {
            best = Some(more);
        }
    }
    best.ok_or(refusal)
}

/// The schedule of the least interval, with at most `stages` stages.
///
/// # Errors
/// As [`best`].
pub(super) fn schedule(b: &Body, stages: u32) -> Result<Found, String> {
    let mut tried = first_intervals(b, stages..=stages)?;
    let found = tried.found.pop().flatten();
    found.ok_or_else(|| tried.refusal(b, stages))
}

/// The intervals that were gone through.
struct Tried {
    /// For each most number of stages the schedule of the least interval.
    found: Vec<Option<Found>>,
    /// The longest that was tried, in cycles.
    longest: u32,
    /// The fewest registers of schedules that only registers forbid to the fewest stages.
    registers: Option<u32>,
}

impl Tried {
    /// Why `stages`, the fewest, have no schedule.
    fn refusal(&self, b: &Body, stages: u32) -> String {
        let longest = self.longest;
        match self.registers {
            Some(needed) => format!(
                "{stages} stages of up to {longest} cycles need {needed} registers for fragments, and there are {} registers",
                b.registers
            ),
            None => format!("no order of the work holds in {stages} stages of up to {longest} cycles"),
        }
    }
}

/// The least interval that units and recurrences allow, and what recurrences allow.
fn least(b: &Body) -> (u32, u32) {
    let resource = b.taken().first().map_or(1, |t| t.1).max(1);
    let recurrence = least_recurrence(b, resource);
    (resource.max(recurrence), recurrence)
}

/// Cycles of an iteration whose nodes follow each other.
fn serial(b: &Body, least: u32) -> u32 {
    let slowest = b.beside_products(least);
    slowest.nodes.iter().map(|n| n.busy + n.latency).sum::<u32>().max(least) + 1
}

/// For each most number of stages the schedule of the least interval. Times do not depend on that number, so the intervals
/// are gone through once, up to the first that the fewest stages hold.
///
/// # Errors
/// The deadline has passed.
fn first_intervals(b: &Body, stages: RangeInclusive<u32>) -> Result<Tried, String> {
    let (least, recurrence) = least(b);
    let step = (least / STEPS).max(1);
    let found: Vec<Option<Found>> = stages.clone().map(|_| None).collect();
    let mut tried = Tried { found, longest: least, registers: None };
    let mut body = b.clone();
    for interval in (least..=serial(b, least) + step).step_by(step as usize) {
        if b.deadline.has_passed() {
            return Err("the time limit ended the search".to_owned());
        }
        b.slow_beside_products(interval, &mut body);
        let search = AtInterval::of(&body, interval.into());
        let placed = search.place();
        tried.longest = interval;
        let fit = placed.iter().flatten().filter(|times| search.fits(times, *stages.start()));
        tried.registers = fit.map(|times| search.pressure(times)).chain(tried.registers).min();
        for (most, found) in stages.clone().zip(&mut tried.found).filter(|(_, found)| found.is_none()) {
            let times = placed.iter().flatten().find(|times| search.holds(times, most));
            *found = times.map(|times| {
                let order = search.body_order(times);
                Found { interval, recurrence, times: times.clone(), order, body: body.clone() }
            });
        }
        // Where nothing but registers is in the way, longer intervals place all alike.
        let lacks = |times: &Option<Vec<i64>>| times.as_ref().is_some_and(|t| search.lacks_registers(t));
        if tried.found[0].is_some() || (!placed.is_empty() && placed.iter().all(lacks)) {
            break;
        }
    }
    Ok(tried)
}

/// The least interval that the cycles of the graph allow. No cycle may have a positive weight, where an edge weighs
/// `latency - interval * distance`.
fn least_recurrence(b: &Body, from: u32) -> u32 {
    let longest: i64 = b.edges.iter().map(|e| e.latency.max(0)).sum();
    let (mut low, mut high) = (1i64, longest.max(i64::from(from)).max(1));
    let mut search = AtInterval::of(b, low);
    while low < high {
        let middle = (low + high) / 2;
        search.ii = middle;
        let possible = search.starts().is_some();
        if possible { high = middle } else { low = middle + 1 }
    }
    low as u32
}

impl AtInterval<'_> {
    /// Nodes by the time at which a warp reaches them. A node follows the nodes of the same body that it needs, even if
    /// both have the same time.
    fn body_order(&self, times: &[i64]) -> Vec<usize> {
        let (b, keys) = (self.b, self.issue_order(times));
        let stage = |n: usize| times[n].div_euclid(self.ii);
        let needs: Vec<(usize, usize)> = b
            .edges
            .iter()
            .filter(|e| e.from != e.to && stage(e.from) == stage(e.to) + i64::from(e.distance))
            .map(|e| (e.from, e.to))
            .collect();
        // At the same time products come first, in the order of their turns.
        let rank = |n: &usize| match b.nodes[*n].resource {
            Resource::Tensor => (keys[*n], 0, times[*n].rem_euclid(self.ii), *n),
            _ => (keys[*n], 1, 0, *n),
        };
        let mut left: Vec<usize> = (0..keys.len()).collect();
        left.sort_by_key(rank);
        in_order_of_needs(left, &needs)
    }

    /// The time at which a warp reaches each node within the rotated body. A product is issued as soon as its operands
    /// are ready, after earlier products. The tensor cores keep the queue.
    fn issue_order(&self, times: &[i64]) -> Vec<i64> {
        let (b, ii) = (self.b, self.ii);
        let mut keys: Vec<i64> = times.iter().map(|t| t.rem_euclid(ii)).collect();
        let mut products: Vec<usize> =
            (0..keys.len()).filter(|&n| b.nodes[n].resource == Resource::Tensor).collect();
        products.sort_by_key(|&n| keys[n]);
        let mut before = 0;
        for n in products {
            let ready = self.to[n].iter().filter(|e| b.nodes[e.from].resource != Resource::Tensor);
            let ready = ready.map(|e| times[e.from] + self.gap(e));
            // An operand of the iteration before is ready from the start.
            let begin = times[n].div_euclid(ii) * ii;
            let ready = ready.max().unwrap_or(begin).max(begin) - begin;
            keys[n] = ready.max(before).min(keys[n]);
            before = keys[n];
        }
        keys
    }

    /// Earliest starts under the dependences alone. `None` if they grow without end.
    fn starts(&self) -> Option<Vec<i64>> {
        let mut at = vec![0i64; self.b.nodes.len()];
        for _ in 0..=self.b.nodes.len() {
            let mut changed = false;
            for e in &self.b.edges {
                let least = at[e.from] + self.gap(e);
                if at[e.to] < least {
                    at[e.to] = least;
                    changed = true;
                }
            }
            if !changed {
                return Some(at);
            }
        }
        None
    }

    /// Registers of the fragments that a node reads, less those that it writes.
    fn relief(&self, n: usize) -> i64 {
        let lives = &self.b.lives;
        let read = lives.iter().filter(|l| l.uses.iter().any(|u| u.0 == n));
        let written = lives.iter().filter(|l| l.from == n);
        let registers = |l: &Life| i64::from(l.registers);
        read.map(registers).sum::<i64>() - written.map(registers).sum::<i64>()
    }

    /// Orders of the nodes, by the length of the path that follows them, longest first. Of paths of one length, the one that
    /// the text has first comes first; where registers are few, first the one whose node frees most.
    fn priorities(&self) -> Vec<Vec<usize>> {
        let mut height = vec![0i64; self.b.nodes.len()];
        for _ in 0..self.b.nodes.len() {
            let mut grows = false;
            for e in &self.b.edges {
                let above = height[e.to] + self.gap(e);
                grows |= above > height[e.from];
                height[e.from] = height[e.from].max(above);
            }
            if !grows {
                break;
            }
        }
        let mut by_text: Vec<usize> = (0..self.b.nodes.len()).collect();
        by_text.sort_by_key(|&n| (Reverse(height[n]), n));
        if !self.b.frees_first {
            return vec![by_text];
        }
        let mut by_relief = by_text.clone();
        let relief: Vec<i64> = (0..height.len()).map(|n| self.relief(n)).collect();
        by_relief.sort_by_key(|&n| (Reverse(height[n]), Reverse(relief[n])));
        if by_relief == by_text { vec![by_text] } else { vec![by_relief, by_text] }
    }

    /// A time for every node, by each order of the nodes that is worth trying; `None` for one by which it takes too many
    /// tries. None at all where the interval is too short.
    fn place(&self) -> Vec<Option<Vec<i64>>> {
        let short = [Resource::Tensor, Resource::Threads].into_iter().any(|r| self.taken(r) > self.ii);
        if short || self.starts().is_none() {
            return Vec::new();
        }
        self.priorities().iter().map(|order| self.place_in(order)).collect()
    }

    /// The same, with nodes in an order.
    fn place_in(&self, order: &[usize]) -> Option<Vec<i64>> {
        let mut placing = Placing::new(self, order);
        let mut budget = TRIES * order.len();
        while placing.next() {
            budget = budget.checked_sub(1)?;
            placing.place();
        }
        placing.times()
    }

    /// Whether only registers are lacking, in an iteration that ends before the next begins: no node is then in the way of
    /// one of another iteration.
    fn lacks_registers(&self, times: &[i64]) -> bool {
        let serial = times.iter().zip(&self.b.nodes).all(|(t, n)| t + i64::from(n.busy) <= self.ii);
        serial && self.fits(times, 1) && self.pressure(times) > self.b.registers
    }

    /// Cycles of an interval for which a warpgroup's own resource is taken.
    fn taken(&self, resource: Resource) -> i64 {
        self.b.nodes.iter().filter(|n| n.resource == resource).map(|n| i64::from(n.busy)).sum()
    }

    /// Whether a loop of so many stages can hold the schedule, and its registers fit.
    fn holds(&self, times: &[i64], stages: u32) -> bool {
        self.fits(times, stages) && self.pressure(times) <= self.b.registers
    }

    /// Whether all edges hold in so many stages. A product must end in the iteration in which it begins, and nodes that read
    /// one stage of a ring must be in the same iteration.
    fn fits(&self, times: &[i64], stages: u32) -> bool {
        let b = self.b;
        let stage = |n: usize| times[n].div_euclid(self.ii);
        times.iter().all(|t| (0..self.ii * i64::from(stages)).contains(t))
            && b.edges.iter().all(|e| times[e.to] >= times[e.from] + self.gap(e))
            && b.closed.iter().chain(&b.same_stage).all(|&(a, o)| stage(a) == stage(o))
    }

    fn pressure(&self, times: &[i64]) -> u32 {
        pressure(self.b, times, self.ii)
    }
}

/// Registers of fragments at the fullest point of the interval.
fn pressure(b: &Body, times: &[i64], ii: i64) -> u32 {
    let spans = b.lives.iter().map(|l| {
        let ends = l.uses.iter().map(|&(n, distance)| times[n] + ii * i64::from(distance));
        (times[l.from], ends.max().unwrap_or(0), l.registers)
    });
    fullest(spans, ii)
}

/// Nodes in their order, each behind those of the order that it needs. Of nodes that need each other the first comes first.
fn in_order_of_needs(mut left: Vec<usize>, needs: &[(usize, usize)]) -> Vec<usize> {
    let mut waits = vec![0usize; left.len()];
    let mut before = vec![Vec::new(); left.len()];
    for &(from, to) in needs {
        waits[to] += 1;
        before[from].push(to);
    }
    let mut order = Vec::with_capacity(left.len());
    while !left.is_empty() {
        let at = left.iter().position(|&n| waits[n] == 0).unwrap_or(0);
        let node = left.remove(at);
        before[node].iter().for_each(|&n| waits[n] -= 1);
        order.push(node);
    }
    order
}

#[cfg(test)]
mod tests {
    use super::super::body::{Copy, Node, Pace, Usage, Wait};
    use super::*;
    use std::time::{Duration, Instant};
    use warplift_ir::Deadline;
    use warplift_ir::machine::Span;
    use warplift_ir::target::{SM90A, Unit};

    fn node(resource: Resource, unit: Unit, busy: u32) -> Node {
        Node { resource, busy, usage: Usage::from_iter([(unit, busy)]), atoms: 8, ..Node::default() }
    }

    /// A product, threads' work on its result, and a product of the work's result.
    fn chain(groups: u32) -> Body {
        let mut b = Body { groups, registers: 200, pace: Pace::of(&SM90A), ..Body::default() };
        b.nodes = vec![
            node(Resource::Tensor, Unit::Tensor, 500),
            node(Resource::Threads, Unit::Sfu, 300),
            node(Resource::Tensor, Unit::Tensor, 500),
        ];
        b.edge(0, 1, Wait::End, 0);
        b.edge(1, 2, Wait::End, 0);
        b.settle();
        b
    }

    #[test]
    fn one_warpgroup_overlaps_with_itself_and_two_fill_each_others_gaps() {
        let alone = schedule(&chain(1), 2).unwrap();
        assert_eq!((alone.interval, alone.stage(2)), (1000, 1), "{:?}", alone.times);
        assert!(schedule(&chain(1), 1).unwrap().interval >= 1300);
        let two = schedule(&chain(2), 2).unwrap();
        assert_eq!((two.interval, two.stage(2)), (2000, 0), "{:?}", two.times);
    }

    /// Two equally urgent nodes before a product: one rescales a fragment, one packs one into half its registers.
    fn equally_urgent(packs_first: bool) -> Body {
        let mut b =
            Body { groups: 1, registers: 160, frees_first: true, pace: Pace::of(&SM90A), ..Body::default() };
        let work = |busy| node(Resource::Threads, Unit::Fma, busy);
        b.nodes = vec![node(Resource::Tensor, Unit::Tensor, 500), work(300), work(50), work(50)];
        b.nodes.push(node(Resource::Tensor, Unit::Tensor, 500));
        let [packs, scales] = if packs_first { [2, 3] } else { [3, 2] };
        for (from, to) in [(0, 1), (1, 2), (1, 3), (2, 4), (3, 4)] {
            b.edge(from, to, Wait::End, 0);
        }
        b.edge(4, scales, Wait::End, 1);
        for (registers, from, to) in [(64, 0, 1), (64, 1, packs), (32, packs, 4), (64, scales, 4)] {
            b.lives.push(Life { registers, from, uses: vec![(to, 0)] });
        }
        b.settle();
        b
    }

    #[test]
    fn what_frees_registers_comes_first_wherever_the_text_has_it() {
        let [first, last] = [true, false].map(|packs_first| {
            let body = equally_urgent(packs_first);
            let packs = if packs_first { 2 } else { 3 };
            let found = schedule(&body, 3).unwrap();
            (found.interval, found.times[packs], found.times[5 - packs])
        });
        assert_eq!(first, last);
        assert!(first.1 < first.2, "packed first: {first:?}");
    }

    /// Going through the intervals once finds what going through them for each number of stages does.
    #[test]
    fn each_number_of_stages_gets_its_own_least_interval() {
        let mut narrow = chain(1);
        narrow.lives.push(Life { registers: 90, from: 0, uses: vec![(2, 0)] });
        narrow.lives.push(Life { registers: 60, from: 1, uses: vec![(2, 0)] });
        for b in [chain(1), chain(2), narrow, equally_urgent(true), equally_urgent(false)] {
            let together = first_intervals(&b, 1..=4).unwrap().found;
            for (found, stages) in together.into_iter().zip(1..) {
                let alone = schedule(&b, stages).ok();
                let [found, alone] =
                    [found, alone].map(|f| f.map(|f| (f.interval, f.recurrence, f.times, f.order)));
                assert_eq!(found, alone, "{stages} stages");
            }
        }
    }

    /// Registers that no interval has: the search ends where iterations follow each other, not behind the last latency.
    #[test]
    fn longer_intervals_are_not_tried_once_iterations_follow_each_other() {
        let deadline = Deadline::after(Instant::now(), Some(Duration::from_secs(60)));
        let mut b = Body { deadline, ..chain(1) };
        b.nodes[2].latency = u32::MAX / 2;
        b.lives.push(Life { registers: 201, from: 0, uses: vec![(1, 0)] });
        let refused = best(&b, 4).unwrap_err();
        assert!(
            refused.contains("need 201 registers for fragments, and there are 200 registers"),
            "{refused}"
        );
        // Two products of 500 cycles and threads' work of 300, beside products 517.
        let tried: u32 =
            refused.split("up to ").nth(1).and_then(|r| r.split(' ').next()).unwrap().parse().unwrap();
        assert!((1300..2000).contains(&tried), "{refused}");
    }

    #[test]
    fn no_interval_is_tried_behind_the_deadline() {
        let late = Body { deadline: Deadline::after(Instant::now(), Some(Duration::ZERO)), ..chain(1) };
        assert_eq!(schedule(&late, 2).map(|s| s.interval), Err("the time limit ended the search".to_owned()));
    }

    #[test]
    fn no_interval_is_shorter_than_a_warps_own_work() {
        let mut alone = Body { groups: 1, registers: 200, pace: Pace::of(&SM90A), ..Body::default() };
        alone.nodes = vec![Node { busy: 300, ..node(Resource::Threads, Unit::Sfu, 100) }];
        assert!(schedule(&alone, 2).unwrap().interval >= 300);
    }

    #[test]
    fn work_beside_products_is_slower() {
        let alone = schedule(&chain(1), 2).unwrap();
        assert_eq!(alone.body.nodes[1].busy, (300.0 / 0.58f64).round() as u32);
        assert!(alone.times[1] + i64::from(alone.body.nodes[1].busy) <= alone.times[2]);
    }

    #[test]
    fn registers_and_stages_of_rings_are_limits() {
        let mut narrow = chain(1);
        narrow.lives.push(Life { registers: 201, from: 0, uses: vec![(1, 0)] });
        assert!(schedule(&narrow, 2).unwrap_err().contains("200 registers"));
        let mut ring = chain(1);
        let span = Span { name: "copy".to_owned(), unit: Unit::Tma, time: 0, busy: 400 };
        ring.copies.push(Copy { span, latency: 600, reader: 0, depth: Some(1) });
        ring.edge(0, 0, Wait::Copy(1000), 1);
        ring.settle();
        let found = schedule(&ring, 2).unwrap();
        assert_eq!(
            (found.recurrence, found.interval),
            (1500, 1500),
            "one stage: the copy waits for its reader"
        );
    }
}
