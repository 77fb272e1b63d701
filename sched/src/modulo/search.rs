//! Iterative modulo scheduling: times within the least interval at which all constraints hold.

use super::body::{Body, Resource};
use warplift_ir::machine::LoopSchedule;

/// Stages at most: the rotated loop holds work of two iterations.
const MAX_STAGES: u32 = 2;
/// Placements tried for each node before an interval is given up.
const TRIES: usize = 12;
/// Steps between intervals tried, as a fraction of the least.
const STEPS: u32 = 64;

/// Cycles that one resource is taken in an iteration.
fn occupied(b: &Body, r: Resource) -> u32 {
    b.nodes.iter().filter(|n| n.resource == r).map(|n| n.busy).sum()
}

/// The schedule of least interval; its name and instruction are the caller's to set.
///
/// # Errors
/// If no interval up to the length of a whole iteration works.
pub(super) fn schedule(b: &Body) -> Result<LoopSchedule, String> {
    let resource = occupied(b, Resource::Tensor).max(occupied(b, Resource::Threads)).max(1);
    let recurrence = least_recurrence(b, resource);
    let serial: u32 = b.nodes.iter().map(|n| n.busy + n.latency).sum::<u32>().max(recurrence) + 1;
    let mut interval = resource.max(recurrence);
    let step = (interval / STEPS).max(1);
    while interval <= serial + step {
        if let Some(times) = place(b, interval) {
            return Ok(finish(b, interval, resource, recurrence, &times));
        }
        interval += step;
    }
    Err(format!("no schedule of at most {MAX_STAGES} stages within {serial} cycles"))
}

fn finish(b: &Body, interval: u32, resource: u32, recurrence: u32, times: &[i64]) -> LoopSchedule {
    let keys = issue_order(b, interval, times);
    let ii = i64::from(interval);
    let order = body_order(b, ii, times, &keys);
    let slots = order.iter().map(|&n| (b.nodes[n].insts.clone(), (times[n] / ii) as u32, times[n]));
    let slots: Vec<_> =
        slots.map(|(insts, stage, time)| warplift_ir::machine::Slot { insts, stage, time }).collect();
    LoopSchedule {
        inst: warplift_ir::machine::Inst::from_u32(0),
        name: String::new(),
        interval,
        resource,
        recurrence,
        stages: slots.iter().map(|s| s.stage + 1).max().unwrap_or(1),
        slots,
    }
}

/// Nodes by the time at which a warp comes to them; what needs another of the same body follows it, also where
/// both have one time.
fn body_order(b: &Body, ii: i64, times: &[i64], keys: &[i64]) -> Vec<usize> {
    let stage = |n: usize| times[n].div_euclid(ii);
    let needs: Vec<(usize, usize)> = b
        .edges
        .iter()
        .filter(|e| e.from != e.to && stage(e.from) == stage(e.to) + i64::from(e.distance))
        .map(|e| (e.from, e.to))
        .collect();
    // At one time products come first, in the order of their turns.
    let rank = |n: &usize| match b.nodes[*n].resource {
        Resource::Tensor => (keys[*n], 0, times[*n].rem_euclid(ii), *n),
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

/// When a warp comes to each node within the rotated body. A product is issued as soon as its operands are
/// there, after the products before it: the tensor cores keep the queue.
fn issue_order(b: &Body, interval: u32, times: &[i64]) -> Vec<i64> {
    let ii = i64::from(interval);
    let mut keys: Vec<i64> = times.iter().map(|t| t.rem_euclid(ii)).collect();
    let mut products: Vec<usize> =
        (0..keys.len()).filter(|&n| b.nodes[n].resource == Resource::Tensor).collect();
    products.sort_by_key(|&n| keys[n]);
    let mut before = 0;
    for n in products {
        let ready = b.edges.iter().filter(|e| e.to == n && b.nodes[e.from].resource != Resource::Tensor);
        let ready = ready.map(|e| times[e.from] + e.latency - ii * i64::from(e.distance));
        // An operand of the iteration before is there from the start.
        let begin = times[n].div_euclid(ii) * ii;
        let ready = ready.max().unwrap_or(begin).max(begin) - begin;
        keys[n] = ready.max(before).min(keys[n]);
        before = keys[n];
    }
    keys
}

/// The least interval that the cycles of the graph allow: no path of positive weight
/// `latency - interval * distance` may close.
fn least_recurrence(b: &Body, from: u32) -> u32 {
    let longest: i64 = b.edges.iter().map(|e| e.latency.max(0)).sum();
    let (mut low, mut high) = (1i64, longest.max(i64::from(from)).max(1));
    while low < high {
        let middle = (low + high) / 2;
        if starts(b, middle).is_some() { high = middle } else { low = middle + 1 }
    }
    low as u32
}

/// Earliest starts under the dependences alone; `None` where they grow without end.
fn starts(b: &Body, interval: i64) -> Option<Vec<i64>> {
    let mut at = vec![0i64; b.nodes.len()];
    for _ in 0..=b.nodes.len() {
        let mut changed = false;
        for e in &b.edges {
            let least = at[e.from] + e.latency - interval * i64::from(e.distance);
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

/// Nodes by the length of the path that follows them: the longest first.
fn priority(b: &Body, interval: i64) -> Vec<usize> {
    let mut height = vec![0i64; b.nodes.len()];
    for _ in 0..b.nodes.len() {
        for e in &b.edges {
            height[e.from] = height[e.from].max(height[e.to] + e.latency - interval * i64::from(e.distance));
        }
    }
    let mut order: Vec<usize> = (0..b.nodes.len()).collect();
    order.sort_by_key(|&n| (std::cmp::Reverse(height[n]), n));
    order
}

/// A time for every node, or `None` at this interval.
fn place(b: &Body, interval: u32) -> Option<Vec<i64>> {
    let ii = i64::from(interval);
    starts(b, ii)?;
    let order = priority(b, ii);
    let mut times: Vec<Option<i64>> = vec![None; b.nodes.len()];
    let mut last = vec![-1i64; b.nodes.len()];
    let mut budget = TRIES * b.nodes.len();
    while let Some(&n) = order.iter().find(|&&n| times[n].is_none()) {
        budget = budget.checked_sub(1)?;
        let early = earliest(b, ii, n, &times).max(0);
        let found = first_fit(b, ii, n, early, &times);
        let t = found.unwrap_or(early.max(last[n] + 1));
        last[n] = t;
        evict(b, ii, n, t, &mut times);
        times[n] = Some(t);
    }
    let times: Vec<i64> = times.into_iter().collect::<Option<_>>()?;
    acceptable(b, ii, &times).then_some(times)
}

fn earliest(b: &Body, ii: i64, n: usize, times: &[Option<i64>]) -> i64 {
    let into = b.edges.iter().filter(|e| e.to == n && e.from != n);
    into.filter_map(|e| Some(times[e.from]? + e.latency - ii * i64::from(e.distance))).max().unwrap_or(0)
}

/// Cycles until an occupation that overlaps with another modulo the interval is past it; 0 if none does.
fn overlap(b: &Body, ii: i64, n: usize, t: i64, other: usize, at: i64) -> i64 {
    let (a, o) = (&b.nodes[n], &b.nodes[other]);
    if a.resource != o.resource || a.resource == Resource::None {
        return 0;
    }
    let gap = (at - t).rem_euclid(ii);
    let overlaps = gap < i64::from(a.busy) || ii - gap < i64::from(o.busy);
    if overlaps { (gap + i64::from(o.busy)).rem_euclid(ii).max(1) } else { 0 }
}

/// The first time within an interval at which the resource is free.
fn first_fit(b: &Body, ii: i64, n: usize, early: i64, times: &[Option<i64>]) -> Option<i64> {
    let mut t = early;
    while t < early + ii {
        let open = b.closed.iter().filter(|c| c.1 == n).filter_map(|c| times[c.0]);
        let blocked = times.iter().enumerate().filter(|(o, _)| *o != n);
        let past = blocked.filter_map(|(o, at)| at.map(|at| overlap(b, ii, n, t, o, at))).find(|&p| p > 0);
        match past {
            Some(p) => t += p,
            // A product ends in the interval in which it begins.
            None => return open.into_iter().all(|p| p.div_euclid(ii) == t.div_euclid(ii)).then_some(t),
        }
    }
    None
}

/// Takes back what stands in the way of a forced placement.
fn evict(b: &Body, ii: i64, n: usize, t: i64, times: &mut [Option<i64>]) {
    for (o, time) in times.iter_mut().enumerate() {
        let Some(at) = time.filter(|_| o != n) else { continue };
        let late = b.edges.iter().filter(|e| e.from == n && e.to == o);
        let mut broken = late.map(|e| t + e.latency - ii * i64::from(e.distance)).any(|least| at < least);
        broken |= overlap(b, ii, n, t, o, at) > 0;
        if broken {
            *time = None;
        }
    }
}

/// What the rotated loop can hold: two stages, products that end in their iteration, stages of rings that
/// are read in one.
fn acceptable(b: &Body, ii: i64, times: &[i64]) -> bool {
    let stage = |n: usize| times[n].div_euclid(ii);
    let met = |e: &super::body::Edge| times[e.to] >= times[e.from] + e.latency - ii * i64::from(e.distance);
    times.iter().all(|t| (0..ii * i64::from(MAX_STAGES)).contains(t))
        && b.edges.iter().all(met)
        && pressure(b, ii, times) <= b.registers
        && b.closed.iter().chain(&b.together).all(|&(a, o)| stage(a) == stage(o))
}

/// Registers of fragments at the fullest point of the interval.
fn pressure(b: &Body, ii: i64, times: &[i64]) -> u32 {
    let spans = b.lives.iter().map(|l| {
        let ends = l.uses.iter().map(|&(n, distance)| times[n] + ii * i64::from(distance));
        (times[l.from], ends.max().unwrap_or(0), l.registers)
    });
    let spans: Vec<(i64, i64, u32)> = spans.collect();
    let at = |t: i64| {
        let copies = |&(from, to, registers): &(i64, i64, u32)| {
            let past = (t - from).rem_euclid(ii);
            let held = (to - from - past).max(0) as u64;
            registers * held.div_ceil(ii as u64) as u32
        };
        spans.iter().map(copies).sum::<u32>()
    };
    times.iter().map(|&t| at(t.rem_euclid(ii))).max().unwrap_or(0)
}
