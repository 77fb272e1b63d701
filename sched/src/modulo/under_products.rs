//! Operands that threads compute are computed under the products of the iteration before.
//!
//! ```text
//!  found    compute K[t]   S[t]   wait    softmax      S[t] reads K[t], and nothing runs while threads compute it
//!  moved    S[t]   compute K[t+1]   wait    softmax    one stage ahead, behind the last product that is begun
//! ```
//!
//! A schedule of units and latencies sees no difference: it counts threads' work alike wherever it stands. But warps wait
//! for their products in order, and what stands before a product that needs it leaves the tensor cores idle. It also gives
//! the other warpgroups an iteration's time to store their parts. The work may move if it depends on tensor copies and
//! invariants alone, and if the ring has a stage for it.

use super::body::{Body, Computed, Resource};
use super::search::Found;
use rustc_hash::FxHashSet;

/// The operand that these nodes store and these products read. `None` if it depends on a product, or on threads' work that
/// others need too.
pub(super) fn computed(body: &Body, stores: &[usize], readers: Vec<usize>, depth: u32) -> Option<Computed> {
    let nodes = needed(body, stores);
    let inner = |n: usize| nodes.contains(&n);
    let read = |n: usize| readers.contains(&n) || is_end(body, n, &readers);
    let alone = |from: usize, to: usize| match (inner(from), inner(to)) {
        (true, false) => readers.contains(&to),
        (false, true) => read(from),
        _ => true,
    };
    let threads = nodes.iter().all(|&n| body.nodes[n].resource != Resource::Tensor);
    let alone = body.edges.iter().all(|e| alone(e.from, e.to));
    (alone && threads && !readers.is_empty()).then_some(Computed { nodes, readers, depth })
}

/// These nodes, and those that they need in their iteration.
fn needed(body: &Body, stores: &[usize]) -> Vec<usize> {
    let mut nodes: Vec<usize> = stores.to_vec();
    let mut at = 0;
    while at < nodes.len() {
        let before = body.edges.iter().filter(|e| e.to == nodes[at] && e.distance == 0).map(|e| e.from);
        let before: Vec<usize> = before.filter(|n| !nodes.contains(n)).collect();
        nodes.extend(before);
        at += 1;
    }
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}

/// Whether an operand may move under products, for its ring holds what is read beside what is stored. `true` if it then is
/// computed an iteration earlier.
fn moves(operand: &Computed, found: &Found) -> Option<bool> {
    let one = |all: &[usize]| {
        let first = found.stage(*all.first()?);
        all.iter().all(|&n| found.stage(n) == first).then_some(first)
    };
    let ahead = one(&operand.readers)?.checked_sub(one(&operand.nodes)?)?;
    (ahead.max(1) < operand.depth).then_some(ahead == 0)
}

/// Whether a node is the wait for one of these products.
fn is_end(body: &Body, node: usize, products: &[usize]) -> bool {
    body.closed.iter().any(|c| c.1 == node && products.contains(&c.0))
}

/// Moves the work on computed operands behind the last product that an iteration begins, unless readers of one stage of a ring come
/// apart (a wait for two operands, of which a product reads one) or registers run short.
pub(super) fn do_under_products(found: &mut Found) {
    let before = found.clone();
    move_under(found);
    let together = |&(a, b): &(usize, usize)| found.stage(a) == found.stage(b);
    let whole = found.body.closed.iter().chain(&found.body.same_stage).all(together);
    if !whole || found.registers() > before.registers().max(found.body.registers) {
        *found = before;
    }
}

fn move_under(found: &mut Found) {
    let all = found.body.computed.iter().filter_map(|c| Some((&c.nodes, moves(c, found)?)));
    let all: Vec<(Vec<usize>, bool)> = all.map(|(nodes, earlier)| (nodes.clone(), earlier)).collect();
    let moved: FxHashSet<usize> = all.iter().flat_map(|a| &a.0).copied().collect();
    let earlier: FxHashSet<usize> = all.iter().filter(|a| a.1).flat_map(|a| &a.0).copied().collect();
    let tensor = |n: &&usize| found.body.nodes[**n].resource == Resource::Tensor;
    let Some(&last) = found.order.iter().rev().find(tensor).filter(|_| !moved.is_empty()) else { return };
    retime(found, last, &moved, &earlier);
    let (under, rest): (Vec<usize>, Vec<usize>) = found.order.iter().partition(|n| moved.contains(n));
    let at = rest.iter().position(|&n| n == last).map_or(rest.len(), |n| n + 1);
    found.order = [&rest[..at], &under, &rest[at..]].concat();
}

/// Gives moved nodes the time of the last product, and all but those that are to be earlier one more interval.
fn retime(found: &mut Found, last: usize, moved: &FxHashSet<usize>, earlier: &FxHashSet<usize>) {
    let interval = i64::from(found.interval);
    let place = found.times[last] % interval;
    for (n, time) in found.times.iter_mut().enumerate() {
        if moved.contains(&n) {
            *time += place - *time % interval;
        }
        if !earlier.is_empty() && !earlier.contains(&n) {
            *time += interval;
        }
    }
    let first = found.times.iter().map(|t| t / interval).min().unwrap_or(0);
    found.times.iter_mut().for_each(|t| *t -= first * interval);
}
