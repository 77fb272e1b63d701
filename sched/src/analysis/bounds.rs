//! Bounds of an index over all threads of a block.
//!
//! ```text
//!  index = ctaid * 128 + (tid >> 4) + 16      terms ctaid * 128      low 16      high 16 + 63
//!          same in all threads   0 ..= 63
//! ```
//!
//! A comparison with an extent then has the same answer in all threads if it has it at both ends.

use super::thread_invariance::ThreadInvariance;
use smallvec::SmallVec;
use warplift_ir::machine::{Attr, Func, Guard, Inst, Value};
use warplift_ir::target::{Opcode, Target};
use warplift_ir::tile::CmpOp;

/// Summands that are looked at for one index, and values for one range: operands can be shared, so their paths are more.
const SPREAD_FUEL: u32 = 32;
const RANGE_FUEL: u32 = 256;

/// A 32-bit index: the sum of values that are the same in all threads, and of a number that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spread {
    /// Values that are the same in all threads, in order.
    pub terms: SmallVec<[Value; 2]>,
    /// The least number of a thread.
    pub low: i64,
    /// The greatest.
    pub high: i64,
}

/// A conjunct of a guard that compares an index with an extent: `index < extent`, unsigned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bound {
    /// The index.
    pub index: Spread,
    /// The extent, the same in all threads.
    pub extent: Value,
}

impl Bound {
    /// Every value that it names.
    pub fn values(&self) -> impl Iterator<Item = Value> {
        self.index.terms.iter().chain([&self.extent]).copied()
    }
}

/// The bounds of an access whose guard is a conjunction of them; `None` if any of its conjuncts is none, or if it has
/// no guard.
pub(crate) fn bounds_of(
    func: &Func<'_>,
    threads: &ThreadInvariance<'_, '_>,
    guard: Option<Guard>,
    target: &Target,
) -> Option<Vec<Bound>> {
    let most = i64::from(target.block_threads);
    let mut all = Vec::new();
    let guard = guard.filter(|g| !g.negated)?;
    conjuncts(func, guard.pred, &mut |inst| {
        let found = bound(func, threads, inst, most);
        let is_bound = found.is_some();
        all.extend(found);
        is_bound
    })
    .then_some(all)
}

/// Visits the conjuncts of a predicate until one does not please.
fn conjuncts(func: &Func<'_>, pred: Value, visit: &mut impl FnMut(Inst) -> bool) -> bool {
    func.def(pred).is_some_and(|def| match func.insts[def].op {
        Opcode::AndPred => func.insts[def].args.iter().all(|&p| conjuncts(func, p, visit)),
        _ => visit(def),
    })
}

fn bound(func: &Func<'_>, threads: &ThreadInvariance<'_, '_>, inst: Inst, most: i64) -> Option<Bound> {
    let d = &func.insts[inst];
    let &[index, extent] = d.args else { return None };
    let compares = d.op == Opcode::SetpU32 && d.attr == Attr::Cmp(CmpOp::Lt) && threads.in_block(extent);
    let index = spread(func, threads, index, most).filter(|_| compares)?;
    Some(Bound { index, extent })
}

/// An index as a sum, if its part that differs between threads is bounded.
fn spread(func: &Func<'_>, threads: &ThreadInvariance<'_, '_>, v: Value, most: i64) -> Option<Spread> {
    spread_within(func, threads, v, (most, &mut { SPREAD_FUEL }))
}

/// The same, after so many summands at most.
fn spread_within(
    func: &Func<'_>,
    threads: &ThreadInvariance<'_, '_>,
    v: Value,
    (most, fuel): (i64, &mut u32),
) -> Option<Spread> {
    *fuel = fuel.checked_sub(1)?;
    if let Some((low, high)) = range(func, v, most) {
        return Some(Spread { terms: SmallVec::new(), low, high });
    }
    if threads.in_block(v) {
        return sum_of_constant(func, v);
    }
    let d = &func.insts[func.def(v)?];
    let &[a, b] = d.args else { return None };
    let a = spread_within(func, threads, a, (most, &mut *fuel))?;
    let b = spread_within(func, threads, b, (most, fuel))?;
    let mut terms: SmallVec<[Value; 2]> = a.terms.iter().chain(&b.terms).copied().collect();
    terms.sort_unstable();
    let sum = Spread { terms, low: a.low + b.low, high: a.high + b.high };
    // Ends that are further apart might have the extent's complement between them.
    (d.op == Opcode::AddS32 && sum.high - sum.low < 1 << 31).then_some(sum)
}

/// A value that is the same in all threads. A constant summand is no term, so that indices beside each other have the
/// same terms.
fn sum_of_constant(func: &Func<'_>, v: Value) -> Option<Spread> {
    let own = |v: Value, by: i64| Some(Spread { terms: [v].into_iter().collect(), low: by, high: by });
    let Some(d) = func.def(v).map(|def| &func.insts[def]) else { return own(v, 0) };
    match (d.op, d.args) {
        (Opcode::AddS32, &[a, b]) => match func.constant(b) {
            Some(by) => own(a, by),
            None => own(v, 0),
        },
        _ => own(v, 0),
    }
}

/// The least and the greatest number of a value that is made of thread numbers, of which a block has at most so many, and
/// constants. All are at least 0 and
/// fit 31 bits.
fn range(func: &Func<'_>, v: Value, most: i64) -> Option<(i64, i64)> {
    range_within(func, v, most, &mut { RANGE_FUEL })
}

/// The same, after so many values at most.
fn range_within(func: &Func<'_>, v: Value, most: i64, fuel: &mut u32) -> Option<(i64, i64)> {
    *fuel = fuel.checked_sub(1)?;
    if let Some(c) = func.constant(v) {
        return (c >= 0).then_some((c, c));
    }
    let d = &func.insts[func.def(v)?];
    let mut of = |n: usize| range_within(func, *d.args.get(n)?, most, fuel);
    let found = match d.op {
        Opcode::Tid => (0, most - 1),
        Opcode::Laneid => (0, 31),
        Opcode::Uniform => of(0)?,
        Opcode::AddS32 => both(of(0)?, of(1)?, |a, b| a + b),
        Opcode::MulS32 => both(of(0)?, of(1)?, |a, b| a * b),
        // A mask bounds a number of any kind.
        Opcode::And => (0, of(0).into_iter().chain(of(1)).map(|r| r.1).min()?),
        Opcode::Or | Opcode::Xor => {
            let most = of(0)?.1.max(of(1)?.1) as u64;
            (0, (most + 1).next_power_of_two() as i64 - 1)
        }
        Opcode::Shl => by_constant(func, d.args[1], of(0)?, |x, by| x.checked_shl(by))?,
        Opcode::ShrU32 => by_constant(func, d.args[1], of(0)?, |x, by| x.checked_shr(by))?,
        Opcode::DivU32 => by_constant(func, d.args[1], of(0)?, |x, by| x.checked_div(by.into()))?,
        Opcode::RemU32 => (0, func.constant(d.args[1]).filter(|&c| c > 0)? - 1),
        _ => return None,
    };
    (found.1 < 1 << 31).then_some(found)
}

/// The ends of two intervals, joined.
fn both(a: (i64, i64), b: (i64, i64), join: impl Fn(i64, i64) -> i64) -> (i64, i64) {
    (join(a.0, b.0), join(a.1, b.1))
}

/// Both ends of an interval, each changed by the same constant below 32 or, for a division, above 0.
fn by_constant(
    func: &Func<'_>,
    by: Value,
    (low, high): (i64, i64),
    change: impl Fn(i64, u32) -> Option<i64>,
) -> Option<(i64, i64)> {
    let by = u32::try_from(func.constant(by)?).ok()?;
    Some((change(low, by)?, change(high, by)?)).filter(|r| r.0 >= 0 && r.1 >= r.0)
}

#[cfg(test)]
mod tests {
    use super::super::graph::Graph;
    use super::*;
    use warplift_ir::Bump;
    use warplift_ir::machine::{Cursor, NewInst, Ty};
    use warplift_ir::target::SM90A;
    use warplift_ir::tile::Loc;

    /// The bounds of `index < extent` where `make` computes the index from the block's number and the thread's.
    fn bounds(make: impl Fn(&mut Cursor<'_, '_>, [Value; 2]) -> Value) -> (Value, Option<Vec<Bound>>) {
        let bump = Bump::new();
        let mut func = Func::new(&bump);
        let entry = func.entry;
        let mut c = Cursor::new(&mut func, entry, Loc::default());
        let [block, tid, extent] =
            [Opcode::CtaidX, Opcode::Tid, Opcode::CtaidY].map(|op| c.op(op, &[], Ty::B32));
        let index = make(&mut c, [block, tid]);
        let less = NewInst::new(Opcode::SetpU32, &[index, extent], &[Ty::Pred]).attr(Attr::Cmp(CmpOp::Lt));
        let pred = c.value(less);
        let both = c.op(Opcode::AndPred, &[pred, pred], Ty::Pred);
        let graph = Graph::built(&func);
        let threads = ThreadInvariance::of(&func, &graph);
        (block, bounds_of(&func, &threads, Some(Guard { pred: both, negated: false }), &SM90A))
    }

    #[test]
    fn an_index_is_a_sum_of_what_threads_share_and_of_their_own() {
        let (block, found) = bounds(|c, [block, tid]| {
            let four = c.imm(4);
            let masked = c.and_imm(tid, 240);
            let row = c.int(Opcode::ShrU32, masked, four);
            let own = c.add(block, row);
            c.add_imm(own, 16)
        });
        let found = found.expect("both conjuncts are bounds");
        assert_eq!(found.len(), 2);
        let Spread { terms, low, high } = &found[0].index;
        assert_eq!((&terms[..], *low, *high), (&[block][..], 16, 16 + 15));
    }

    #[test]
    fn a_product_of_block_and_thread_has_no_bounds() {
        let (_, found) = bounds(|c, [block, tid]| c.int(Opcode::MulS32, block, tid));
        assert_eq!(found, None);
    }

    #[test]
    fn numbers_beyond_31_bits_have_no_bounds() {
        let (_, found) = bounds(|c, [_, tid]| c.mul_imm(tid, 1 << 22));
        assert_eq!(found, None);
    }
}
