//! Reconvergence: lanes that diverge at a branch meet again at its immediate post-dominator.
//!
//! Post-dominators are dominators of the reversed control-flow graph (Cooper, Harvey and Kennedy,
//! "A Simple, Fast Dominance Algorithm").

use super::inst::{Inst, Op};

/// Fills in [`Op::meet`] of every branch; `u32::MAX` where the lanes meet only by exiting.
pub(crate) fn set_meeting_points(code: &mut [Op]) {
    let graph = Graph::of(code);
    let meet = graph.post_dominators();
    for (block, &pd) in meet.iter().enumerate() {
        let last = graph.ends[block];
        if pd != NONE && pd != graph.exit() {
            code[last].meet = graph.starts[pd] as u32;
        }
    }
}

const NONE: usize = usize::MAX;

/// Basic blocks as ranges of instructions; the exit is one block more.
struct Graph {
    starts: Vec<usize>,
    /// Last instruction of each block.
    ends: Vec<usize>,
    successors: Vec<Vec<usize>>,
}

impl Graph {
    fn exit(&self) -> usize {
        self.starts.len()
    }

    fn of(code: &[Op]) -> Self {
        let mut leader = vec![false; code.len() + 1];
        if !code.is_empty() {
            leader[0] = true;
        }
        for (i, op) in code.iter().enumerate() {
            match op.inst {
                Inst::Bra { target, .. } => {
                    leader[target as usize] = true;
                    leader[i + 1] = true;
                }
                Inst::Exit | Inst::Trap => leader[i + 1] = true,
                _ => {}
            }
        }
        let starts: Vec<_> = (0..code.len()).filter(|i| leader[*i]).collect();
        let ends: Vec<_> =
            (0..starts.len()).map(|b| starts.get(b + 1).map_or(code.len(), |s| *s) - 1).collect();
        let mut block_of = vec![starts.len(); code.len() + 1];
        for (b, (s, e)) in starts.iter().zip(&ends).enumerate() {
            block_of[*s..=*e].fill(b);
        }
        let successors = ends.iter().map(|e| successors(code, *e, &block_of)).collect();
        Self { starts, ends, successors }
    }

    /// Immediate post-dominator of each block.
    fn post_dominators(&self) -> Vec<usize> {
        let n = self.starts.len();
        let mut predecessors = vec![Vec::new(); n + 1];
        for (b, ss) in self.successors.iter().enumerate() {
            ss.iter().for_each(|s| predecessors[*s].push(b));
        }
        let order = post_order(n, &predecessors);
        let mut number = vec![NONE; n + 1];
        for (i, b) in order.iter().enumerate() {
            number[*b] = i;
        }
        let mut idom = vec![NONE; n + 1];
        idom[n] = n;
        let mut changed = true;
        while changed {
            changed = false;
            for &b in order.iter().rev().filter(|b| **b != n) {
                let new = self.successors[b]
                    .iter()
                    .copied()
                    .filter(|s| idom[*s] != NONE)
                    .reduce(|a, c| intersect(a, c, &idom, &number));
                let new = new.unwrap_or(NONE);
                changed |= idom[b] != new;
                idom[b] = new;
            }
        }
        idom.truncate(n);
        idom
    }
}

fn successors(code: &[Op], end: usize, block_of: &[usize]) -> Vec<usize> {
    let op = &code[end];
    let exit = block_of[code.len()];
    let mut out = Vec::with_capacity(2);
    match op.inst {
        Inst::Bra { target, .. } => out.push(block_of[target as usize]),
        Inst::Exit | Inst::Trap => out.push(exit),
        _ => out.push(block_of[end + 1]),
    }
    let falls = matches!(op.inst, Inst::Bra { .. } | Inst::Exit | Inst::Trap) && op.guard.is_some();
    if falls {
        out.push(block_of[end + 1]);
    }
    out
}

/// Post-order of the reversed graph from the exit, without recursion.
fn post_order(exit: usize, predecessors: &[Vec<usize>]) -> Vec<usize> {
    let mut seen = vec![false; exit + 1];
    let mut order = Vec::new();
    let mut stack = vec![(exit, 0)];
    seen[exit] = true;
    while let Some((b, next)) = stack.pop() {
        let Some(&p) = predecessors[b].get(next) else {
            order.push(b);
            continue;
        };
        stack.push((b, next + 1));
        if !seen[p] {
            seen[p] = true;
            stack.push((p, 0));
        }
    }
    order
}

fn intersect(mut a: usize, mut b: usize, idom: &[usize], number: &[usize]) -> usize {
    while a != b {
        while number[a] < number[b] {
            a = idom[a];
        }
        while number[b] < number[a] {
            b = idom[b];
        }
    }
    a
}
