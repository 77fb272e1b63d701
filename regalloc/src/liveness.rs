//! Liveness by backward dataflow over bit rows, one row per block.
//!
//! Points are numbered through the blocks in order. Block `b` begins with a point for its parameters;
//! every instruction has two:
//!
//! ```text
//!  2p    operands are read
//!  2p+1  results are written
//! ```

use crate::literals::takes_literal;
use crate::normalize::Normalized;
use warplift_ir::entity::{EntityRef, EntitySet, SecondaryMap};
use warplift_ir::machine::{Block, Func, Inst, Ty, Value};

/// A set of values as bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bits(Vec<u64>);

impl Bits {
    pub(crate) fn new(values: usize) -> Self {
        Self(vec![0; values.div_ceil(64)])
    }

    pub(crate) fn insert(&mut self, v: Value) -> bool {
        let (word, bit) = (v.index() / 64, 1 << (v.index() % 64));
        let new = self.0[word] & bit == 0;
        self.0[word] |= bit;
        new
    }

    pub(crate) fn remove(&mut self, v: Value) -> bool {
        let (word, bit) = (v.index() / 64, 1 << (v.index() % 64));
        let old = self.0[word] & bit != 0;
        self.0[word] &= !bit;
        old
    }

    fn union(&mut self, other: &Self) -> bool {
        let mut changed = false;
        for (a, b) in self.0.iter_mut().zip(&other.0) {
            changed |= *b & !*a != 0;
            *a |= b;
        }
        changed
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Value> + '_ {
        self.0.iter().enumerate().flat_map(|(i, &word)| {
            let mut left = word;
            std::iter::from_fn(move || {
                let bit = (left != 0).then(|| left.trailing_zeros() as usize)?;
                left &= left - 1;
                Some(Value::new(i * 64 + bit))
            })
        })
    }
}

/// Blocks in order with their points, and the live values at their ends.
pub(crate) struct Liveness {
    /// Blocks in an order in which definitions precede uses (regalloc2 requires it too).
    pub(crate) blocks: Vec<Block>,
    /// Number of each block.
    pub(crate) number: SecondaryMap<Block, u32>,
    /// First position of each block (its parameters); one more than the last stands at the end.
    pub(crate) start: Vec<u32>,
    /// Live at the end of each block.
    pub(crate) live_out: Vec<Bits>,
}

/// Blocks in an order in which definitions precede uses.
fn reverse_postorder(func: &Func<'_>) -> Vec<Block> {
    let mut seen = EntitySet::new();
    let mut post = Vec::with_capacity(func.order.len());
    let mut stack = vec![(func.entry, 0)];
    seen.insert(func.entry);
    while let Some((block, next)) = stack.pop() {
        match func.successors(block).get(next) {
            Some(call) => {
                stack.push((block, next + 1));
                if seen.insert(call.block) {
                    stack.push((call.block, 0));
                }
            }
            None => post.push(block),
        }
    }
    post.reverse();
    post
}

/// Whether a value holds registers at all.
pub(crate) fn occupies(normal: &Normalized<'_>, v: Value) -> bool {
    let constant = normal.func.constant(v).is_some() && !normal.written[v];
    !constant && normal.func.ty(v) != Ty::Event
}

/// Visits the values whose registers an instruction reads, those passed to blocks included.
pub(crate) fn uses(normal: &Normalized<'_>, inst: Inst, mut visit: impl FnMut(Value)) {
    let (func, data) = (&normal.func, &normal.func.insts[inst]);
    for (k, &v) in data.args.iter().enumerate() {
        let read = match func.constant(v) {
            Some(_) => normal.written[v] && (!takes_literal(normal.rows, data, k) || func.ty(v).is_frag()),
            None => true,
        };
        if read && func.ty(v) != Ty::Event {
            visit(v);
        }
    }
    let passed = data.targets.iter().flat_map(|t| t.args).copied();
    data.guard.map(|g| g.pred).into_iter().chain(passed).filter(|&v| occupies(normal, v)).for_each(visit);
}

impl Liveness {
    pub(crate) fn compute(normal: &Normalized<'_>) -> Self {
        let func = &normal.func;
        let blocks = reverse_postorder(func);
        let mut number = SecondaryMap::new();
        let mut start = Vec::with_capacity(blocks.len() + 1);
        let mut at = 0;
        for (i, &b) in blocks.iter().enumerate() {
            number[b] = i as u32;
            start.push(at);
            at += 1 + func.blocks[b].insts.len() as u32;
        }
        start.push(at);
        let live_out = vec![Bits::new(func.values.len()); blocks.len()];
        let mut this = Self { blocks, number, start, live_out };
        this.solve(normal);
        this
    }

    /// Position of an instruction by its block's number and its place in it.
    pub(crate) fn position(&self, block: usize, at: usize) -> u32 {
        self.start[block] + 1 + at as u32
    }

    fn solve(&mut self, normal: &Normalized<'_>) {
        let local: Vec<(Bits, Bits)> = self.blocks.iter().map(|&b| local(normal, b)).collect();
        let mut changed = true;
        while changed {
            changed = false;
            for i in (0..self.blocks.len()).rev() {
                let mut out = std::mem::replace(&mut self.live_out[i], Bits(Vec::new()));
                for call in normal.func.successors(self.blocks[i]) {
                    let s = self.number[call.block] as usize;
                    let (read, written) = &local[s];
                    let inner = if s == i { &out.clone() } else { &self.live_out[s] };
                    let live_in = Bits(live_in(&read.0, &written.0, &inner.0));
                    changed |= out.union(&live_in);
                }
                self.live_out[i] = out;
            }
        }
    }
}

fn live_in(read: &[u64], written: &[u64], out: &[u64]) -> Vec<u64> {
    read.iter().zip(written).zip(out).map(|((r, w), o)| r | (o & !w)).collect()
}

/// The values that a block reads before it writes them, and the values that it writes.
fn local(normal: &Normalized<'_>, block: Block) -> (Bits, Bits) {
    let func: &Func<'_> = &normal.func;
    let (mut read, mut written) = (Bits::new(func.values.len()), Bits::new(func.values.len()));
    for &inst in func.blocks[block].insts.iter().rev() {
        for &r in func.insts[inst].results {
            read.remove(r);
            written.insert(r);
        }
        uses(normal, inst, |v| {
            read.insert(v);
        });
    }
    for &p in &func.blocks[block].params {
        read.remove(p);
        written.insert(p);
    }
    (read, written)
}
