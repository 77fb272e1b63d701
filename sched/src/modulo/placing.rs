//! Nodes being placed one after the other, each in the first gap that its resource has.
//!
//! ```text
//!  order      a  b  c  d         the first of the order without a time is next
//!  interval   ..aaaa..ccc...     c is placed; d needs all of it and has no gap: c loses its time, and is next again
//! ```
//!
//! The times of one resource within the interval are kept beside the times, so a gap is found without a division.

use super::body::{Body, Edge, Resource};

/// The graph of a loop at one interval.
pub(super) struct AtInterval<'b> {
    pub b: &'b Body,
    /// The initiation interval.
    pub ii: i64,
    /// Edges that lead to each node, and from it.
    pub to: Vec<Vec<&'b Edge>>,
    pub from: Vec<Vec<&'b Edge>>,
}

impl<'b> AtInterval<'b> {
    pub fn of(b: &'b Body, ii: i64) -> Self {
        let (mut to, mut from) = (vec![Vec::new(); b.nodes.len()], vec![Vec::new(); b.nodes.len()]);
        for e in &b.edges {
            to[e.to].push(e);
            from[e.from].push(e);
        }
        Self { b, ii, to, from }
    }

    /// Cycles from the start of an edge's first node to that of its second one, in the same iteration.
    pub fn gap(&self, e: &Edge) -> i64 {
        e.latency - self.ii * i64::from(e.distance)
    }
}

/// The times so far.
pub(super) struct Placing<'s> {
    at: &'s AtInterval<'s>,
    order: &'s [usize],
    /// The place of each node in the order.
    rank: Vec<usize>,
    times: Vec<Option<i64>>,
    /// Each time within the interval; of nodes without a time it means nothing.
    within: Vec<i64>,
    /// The time that each node had last.
    last: Vec<i64>,
    /// Nodes by the resource that a warpgroup has once, and the list of each node.
    alike: [Vec<usize>; 2],
    list: Vec<Option<usize>>,
    /// All nodes of the order before this one have times.
    next: usize,
}

impl<'s> Placing<'s> {
    /// No node has a time.
    pub fn new(at: &'s AtInterval<'s>, order: &'s [usize]) -> Self {
        let nodes = &at.b.nodes;
        let mut rank = vec![0; order.len()];
        order.iter().enumerate().for_each(|(at, &n)| rank[n] = at);
        let of = |resource| (0..nodes.len()).filter(|&n| nodes[n].resource == resource).collect();
        let list = |n: usize| match nodes[n].resource {
            Resource::Tensor => Some(0),
            Resource::Threads => Some(1),
            Resource::None => None,
        };
        Self {
            at,
            order,
            rank,
            times: vec![None; order.len()],
            within: vec![0; order.len()],
            last: vec![-1; order.len()],
            alike: [of(Resource::Tensor), of(Resource::Threads)],
            list: (0..nodes.len()).map(list).collect(),
            next: 0,
        }
    }

    /// Goes to the first node without a time; `false` if there is none.
    pub fn next(&mut self) -> bool {
        while self.order.get(self.next).is_some_and(|&n| self.times[n].is_some()) {
            self.next += 1;
        }
        self.next < self.order.len()
    }

    /// Gives that node a time, and takes it from those that are in its way.
    pub fn place(&mut self) {
        let n = self.order[self.next];
        let earliest = self.earliest(n).max(0);
        let t = self.first_fit(n, earliest).unwrap_or(earliest.max(self.last[n] + 1));
        self.last[n] = t;
        self.evict(n, t);
        self.times[n] = Some(t);
        self.within[n] = t.rem_euclid(self.at.ii);
    }

    /// All times, if each node has one.
    pub fn times(self) -> Option<Vec<i64>> {
        self.times.into_iter().collect()
    }

    fn earliest(&self, n: usize) -> i64 {
        let into = self.at.to[n].iter().filter(|e| e.from != n);
        into.filter_map(|e| Some(self.times[e.from]? + self.at.gap(e))).max().unwrap_or(0)
    }

    /// The placed nodes that want the resource of one.
    fn rivals(&self, n: usize) -> impl Iterator<Item = usize> + '_ {
        let alike = self.list[n].map_or(&[][..], |list| &self.alike[list]);
        alike.iter().copied().filter(move |&o| o != n && self.times[o].is_some())
    }

    /// Cycles until an occupation that begins at `t` within the interval is past another node's; 0 if they do not overlap.
    fn overlap(&self, n: usize, t: i64, other: usize) -> i64 {
        let (nodes, ii) = (&self.at.b.nodes, self.at.ii);
        let [own, its] = [n, other].map(|n| i64::from(nodes[n].busy));
        let gap = self.within[other] - t;
        let gap = if gap < 0 { gap + ii } else { gap };
        if gap >= own && ii - gap >= its {
            return 0;
        }
        // No resource is taken for more than the interval.
        let past = gap + its;
        (if past >= ii { past - ii } else { past }).max(1)
    }

    /// The first time within an interval at which the resource is free.
    fn first_fit(&self, n: usize, earliest: i64) -> Option<i64> {
        let (ii, mut t) = (self.at.ii, earliest);
        let mut within = t.rem_euclid(ii);
        while t < earliest + ii {
            match self.rivals(n).map(|o| self.overlap(n, within, o)).max().unwrap_or(0) {
                past @ 1.. => {
                    t += past;
                    within = (within + past) % ii;
                }
                // A product ends in the interval in which it begins.
                _ => {
                    let begins = self.at.b.closed.iter().filter(|c| c.1 == n);
                    let mut begins = begins.filter_map(|c| self.times[c.0]);
                    let stage = t.div_euclid(ii);
                    return begins.all(|p| p.div_euclid(ii) == stage).then_some(t);
                }
            }
        }
        None
    }

    /// Takes the times of the nodes that prevent a forced placement.
    fn evict(&mut self, n: usize, t: i64) {
        let within = t.rem_euclid(self.at.ii);
        let late = self.at.from[n].iter().filter(|e| e.to != n);
        let late = late.filter(|e| self.times[e.to].is_some_and(|at| at < t + self.at.gap(e)));
        let rivals = self.rivals(n).filter(|&o| self.overlap(n, within, o) > 0);
        let gone: Vec<usize> = late.map(|e| e.to).chain(rivals).collect();
        for o in gone {
            self.times[o] = None;
            self.next = self.next.min(self.rank[o]);
        }
    }
}
