//! Iterative modulo scheduling: finds times within the least interval at which all constraints hold.

use super::body::{Body, Edge, Life, Resource};
use super::reorder::{Part, rises};
use std::cmp::Reverse;

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
/// No interval up to the length of a whole iteration works.
pub(super) fn best(b: &Body, stages: u32) -> Result<Found, String> {
    let mut best = schedule(b, stages.min(2));
    for more in 3..=stages {
        let bound = best.as_ref().map_or(u32::MAX, |s| (f64::from(s.interval) * (1.0 - STAGE)) as u32);
        if let Ok(found) = schedule(b, more)
            && found.interval < bound
        {
            best = Ok(found);
        }
    }
    best
}

/// The schedule of the least interval, with at most `stages` stages.
///
/// # Errors
/// No interval up to the length of a whole iteration works, or the deadline has passed.
pub(super) fn schedule(b: &Body, stages: u32) -> Result<Found, String> {
    let resource = b.taken().first().map_or(1, |t| t.1).max(1);
    let recurrence = least_recurrence(b, resource);
    let least = resource.max(recurrence);
    let slowest = b.beside_products(least);
    let serial: u32 = slowest.nodes.iter().map(|n| n.busy + n.latency).sum::<u32>().max(least) + 1;
    let step = (least / STEPS).max(1);
    for interval in (least..=serial + step).step_by(step as usize) {
        if b.deadline.has_passed() {
            return Err("the time limit ended the search".to_owned());
        }
        let body = b.beside_products(interval);
        let search = Search::of(&body, interval.into(), stages);
        if let Some(times) = search.place() {
            let order = search.body_order(&times);
            return Ok(Found { interval, recurrence, times, order, body });
        }
    }
    let registers = b.registers;
    Err(format!("no {stages} stages within {serial} cycles keep fragments within {registers} registers"))
}

/// The least interval that the cycles of the graph allow. No cycle may have a positive weight, where an edge weighs
/// `latency - interval * distance`.
fn least_recurrence(b: &Body, from: u32) -> u32 {
    let longest: i64 = b.edges.iter().map(|e| e.latency.max(0)).sum();
    let (mut low, mut high) = (1i64, longest.max(i64::from(from)).max(1));
    while low < high {
        let middle = (low + high) / 2;
        let possible = Search::of(b, middle, 1).starts().is_some();
        if possible { high = middle } else { low = middle + 1 }
    }
    low as u32
}

/// The search at one interval.
struct Search<'b> {
    b: &'b Body,
    /// The initiation interval.
    ii: i64,
    /// The most stages.
    stages: u32,
    /// Edges that lead to each node, and from it.
    to: Vec<Vec<&'b Edge>>,
    from: Vec<Vec<&'b Edge>>,
}

impl<'b> Search<'b> {
    fn of(b: &'b Body, ii: i64, stages: u32) -> Self {
        let (mut to, mut from) = (vec![Vec::new(); b.nodes.len()], vec![Vec::new(); b.nodes.len()]);
        for e in &b.edges {
            to[e.to].push(e);
            from[e.from].push(e);
        }
        Self { b, ii, stages, to, from }
    }

    fn gap(&self, e: &Edge) -> i64 {
        e.latency - self.ii * i64::from(e.distance)
    }

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
        let mut order = Vec::with_capacity(left.len());
        while !left.is_empty() {
            let free = |n: &usize| !needs.iter().any(|&(from, to)| to == *n && left.contains(&from));
            let at = left.iter().position(free).unwrap_or(0);
            order.push(left.remove(at));
        }
        order
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
            for e in &self.b.edges {
                height[e.from] = height[e.from].max(height[e.to] + self.gap(e));
            }
        }
        let mut by_text: Vec<usize> = (0..self.b.nodes.len()).collect();
        by_text.sort_by_key(|&n| (Reverse(height[n]), n));
        if !self.b.frees_first {
            return vec![by_text];
        }
        let mut by_relief = by_text.clone();
        by_relief.sort_by_key(|&n| (Reverse(height[n]), Reverse(self.relief(n))));
        if by_relief == by_text { vec![by_text] } else { vec![by_relief, by_text] }
    }

    /// A time for every node, or `None` at this interval.
    fn place(&self) -> Option<Vec<i64>> {
        if [Resource::Tensor, Resource::Threads].into_iter().any(|r| self.taken(r) > self.ii) {
            return None;
        }
        self.starts()?;
        self.priorities().iter().find_map(|order| self.place_in(order))
    }

    /// The same, with nodes in an order.
    fn place_in(&self, order: &[usize]) -> Option<Vec<i64>> {
        let mut times: Vec<Option<i64>> = vec![None; order.len()];
        let mut last = vec![-1i64; order.len()];
        let mut budget = TRIES * order.len();
        while let Some(&n) = order.iter().find(|&&n| times[n].is_none()) {
            budget = budget.checked_sub(1)?;
            let before_wait = self.earliest(n, &times).max(0);
            let found = self.first_fit(n, before_wait, &times);
            let t = found.unwrap_or(before_wait.max(last[n] + 1));
            last[n] = t;
            self.evict(n, t, &mut times);
            times[n] = Some(t);
        }
        let times: Vec<i64> = times.into_iter().collect::<Option<_>>()?;
        self.acceptable(&times).then_some(times)
    }

    /// Cycles of an interval for which a warpgroup's own resource is taken.
    fn taken(&self, resource: Resource) -> i64 {
        self.b.nodes.iter().filter(|n| n.resource == resource).map(|n| i64::from(n.busy)).sum()
    }

    fn earliest(&self, n: usize, times: &[Option<i64>]) -> i64 {
        let into = self.to[n].iter().filter(|e| e.from != n);
        into.filter_map(|e| Some(times[e.from]? + self.gap(e))).max().unwrap_or(0)
    }

    /// Cycles until an occupation is past another one that it overlaps; 0 if they do not overlap.
    fn overlap(&self, n: usize, t: i64, other: usize, at: i64) -> i64 {
        let (a, o) = (&self.b.nodes[n], &self.b.nodes[other]);
        if a.resource != o.resource || a.resource == Resource::None {
            return 0;
        }
        let gap = (at - t).rem_euclid(self.ii);
        let overlaps = gap < i64::from(a.busy) || self.ii - gap < i64::from(o.busy);
        if overlaps { (gap + i64::from(o.busy)).rem_euclid(self.ii).max(1) } else { 0 }
    }

    /// The first time within an interval at which the resource is free.
    fn first_fit(&self, n: usize, before_wait: i64, times: &[Option<i64>]) -> Option<i64> {
        let mut t = before_wait;
        while t < before_wait + self.ii {
            let open = self.b.closed.iter().filter(|c| c.1 == n).filter_map(|c| times[c.0]);
            let blocked = times.iter().enumerate().filter(|(o, _)| *o != n);
            let past =
                blocked.filter_map(|(o, at)| at.map(|at| self.overlap(n, t, o, at))).max().unwrap_or(0);
            match past {
                1.. => t += past,
                // A product ends in the interval in which it begins.
                _ => {
                    let stage = t.div_euclid(self.ii);
                    return open.into_iter().all(|p| p.div_euclid(self.ii) == stage).then_some(t);
                }
            }
        }
        None
    }

    /// Removes the nodes that prevent a forced placement.
    fn evict(&self, n: usize, t: i64, times: &mut [Option<i64>]) {
        let late =
            self.from[n].iter().filter(|e| e.to != n && times[e.to].is_some_and(|at| at < t + self.gap(e)));
        let late: Vec<usize> = late.map(|e| e.to).collect();
        for (o, time) in times.iter_mut().enumerate().filter(|(o, _)| *o != n) {
            if time.is_some_and(|at| late.contains(&o) || self.overlap(n, t, o, at) > 0) {
                *time = None;
            }
        }
    }

    /// Whether the loop can hold the schedule: the number of stages, all edges, and registers must fit. A product must
    /// end in the iteration in which it begins, and nodes that read one stage of a ring must be in the same iteration.
    fn acceptable(&self, times: &[i64]) -> bool {
        let b = self.b;
        let stage = |n: usize| times[n].div_euclid(self.ii);
        times.iter().all(|t| (0..self.ii * i64::from(self.stages)).contains(t))
            && b.edges.iter().all(|e| times[e.to] >= times[e.from] + self.gap(e))
            && self.pressure(times) <= b.registers
            && b.closed.iter().chain(&b.same_stage).all(|&(a, o)| stage(a) == stage(o))
    }

    /// Registers of fragments at the fullest point of the interval.
    fn pressure(&self, times: &[i64]) -> u32 {
        let ii = self.ii;
        let spans = self.b.lives.iter().map(|l| {
            let ends = l.uses.iter().map(|&(n, distance)| times[n] + ii * i64::from(distance));
            (times[l.from], ends.max().unwrap_or(0), l.registers)
        });
        let spans: Vec<(i64, i64, u32)> = spans.collect();
        let at = |t: i64| {
            let copies = |&(from, to, registers): &(i64, i64, u32)| {
                let past = (t - from).rem_euclid(ii);
                let lifetime = (to - from - past).max(0) as u64;
                registers * lifetime.div_ceil(ii as u64) as u32
            };
            spans.iter().map(copies).sum::<u32>()
        };
        times.iter().map(|&t| at(t.rem_euclid(ii))).max().unwrap_or(0)
    }
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
