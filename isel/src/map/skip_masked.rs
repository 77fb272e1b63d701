//! Iterations whose mask leaves nothing are not run: the loop begins behind the last of them, or ends before the first one.
//!
//! ```text
//!  for t in 0..cdiv(keys, BN) carry m0, l0, acc0 {               for t in 0..min(cdiv(keys, BN), cdiv(i*BM + BM, BN)) ..
//!      s = select(t*BN + column <= i*BM + row, .., -inf)   ─►        the same
//!
//!  column + t*BN <= row + i*BM is false everywhere   =   t*BN - i*BM - (BM - 1) > 0   =   t >= cdiv(i*BM + BM, BN)
//! ```
//!
//! Each comparison of indices in the body is asked when it has one result for the whole tile: its least element is a sum of
//! products of scalars, in which the counter has one factor (`edge`). An [`Iteration`](iteration::Iteration) under that result
//! tells whether all carried values stay as they are. What it could not know is asked in front of the loop: that factors of
//! scores are positive, that indices do not wrap around, and, where maxima start at -inf, that each row sees something in the
//! first iteration. If not, the loop runs as it is written.
//!
//! A mask's number that is finite leaves nothing either where maxima turn out to be far above it: `far`.
//!
//! Sides of comparisons that are extremes or magnitudes are taken apart (`spread`).
//!
//! A branch whose other side only hands the carried values on is asked in the same way.
//!
//! The product of a mask's zeros and what is loaded counts as zero, also where an infinity or a NaN is loaded.

mod bounds;
mod edge;
mod far;
mod iteration;
mod known;
mod least;
mod level;
mod rescaled;
mod spread;

use super::drop_unused::do_drop_unused;
use super::loops::{body, carried};
use crate::feature::Ways;
use crate::tiles::{constant, program_order, written};
use edge::{Asked, Case, Edge, Side};
use far::shorten_if_far;
use iteration::Iteration;
use level::Far;
use rustc_hash::FxHashSet;
use warplift_ir::tile::{Inst, Kernel, Op, Value};
use warplift_ir::types::Elem;

/// A comparison, its result, and where it has it.
type Held = (Inst, bool, Case);

/// Shortens the loops of a kernel. Returns whether there were any. Tunables may be open.
pub fn do_skip_masked(k: &mut Kernel, ways: Ways) -> bool {
    let loops: Vec<Inst> =
        program_order(k).into_iter().filter(|&i| ways.skip_masked && is_asked(k, i)).collect();
    let mut changed = false;
    for looped in loops {
        let skips = skips(k, looped);
        changed |= !skips.is_empty();
        let (sure, far): (Vec<Skip>, Vec<Skip>) = skips.into_iter().partition(|s| s.far.is_empty());
        sure.iter().for_each(|skip| bounds::shorten(k, looped, skip));
        if !far.is_empty() {
            shorten_if_far(k, looped, &far);
        }
    }
    if changed {
        do_drop_unused(k);
    }
    changed
}

/// Iterations that a loop need not run.
struct Skip {
    side: Side,
    /// All of them hold in these iterations.
    edges: Vec<Edge>,
    /// Sums whose parts must not wrap around.
    narrow: Vec<Edge>,
    /// Scalars that must be greater than zero for it.
    positive: Vec<Value>,
    /// What each row must see in the first iteration, if anything.
    seen: Vec<Edge>,
    /// What must turn out to hold of maxima.
    far: Vec<Far>,
}

/// Whether a loop may be shorter: it only computes what it carries.
fn is_asked(k: &Kernel, looped: Inst) -> bool {
    if !matches!(k.insts[looped].op, Op::For) || carried(k, looped) == 0 {
        return false;
    }
    // Programs share out iterations whose number arguments alone decide.
    if k.attrs[looped].looped.as_ref().is_some_and(|l| l.stream_k) {
        return false;
    }
    let floats = k.blocks[body(k, looped)].params[1..].iter().all(|&p| k.ty(p).elem().is_float());
    floats && !comparisons(k, looped).is_empty() && !k.any_inside(looped, |i| k.insts[i].op.has_effect())
}

/// The comparisons of indices in a loop's body: of tiles, and of the scalars that a branch asks.
fn comparisons(k: &Kernel, looped: Inst) -> Vec<Inst> {
    let indices =
        |&i: &Inst| matches!(k.insts[i].op, Op::Compare(_)) && k.ty(k.args(i)[0]).elem() == Elem::I32;
    k.blocks[body(k, looped)].insts.iter().copied().filter(indices).collect()
}

/// The iterations that a loop need not run.
fn skips(k: &Kernel, looped: Inst) -> Vec<Skip> {
    let written = written(k);
    let mut asked = Asked::new(k, &written, looped);
    let mut found = Vec::new();
    let mut left: Vec<Held> = Vec::new();
    for inst in comparisons(k, looped) {
        for truth in [false, true] {
            for case in asked.cases(inst, truth) {
                match skip(k, looped, &mut asked, &[(inst, truth, case.clone())]) {
                    Some(skip) => found.push(skip),
                    None => left.push((inst, truth, case)),
                }
            }
        }
    }
    // A mask of `or` leaves nothing where no condition holds.
    for side in [Side::Front, Side::Back] {
        let all: Vec<_> = left.iter().filter(|(_, _, c)| c.side == side).cloned().collect();
        let once: FxHashSet<Inst> = all.iter().map(|(inst, ..)| *inst).collect();
        if all.len() > 1 && once.len() == all.len() {
            found.extend(skip(k, looped, &mut asked, &all));
        }
    }
    found
}

/// The iterations in which these comparisons have one result, if the loop need not run them.
fn skip(k: &Kernel, looped: Inst, asked: &mut Asked<'_>, held: &[Held]) -> Option<Skip> {
    exact(k, looped, asked, held).or_else(|| far(k, looped, held))
}

/// A skip that depends on nothing that the loop finds. A large negative number is no minus infinity: it leaves something where rows
/// see nothing else, or where factors are small, unless the powers are zeroed too.
fn exact(k: &Kernel, looped: Inst, asked: &mut Asked<'_>, held: &[Held]) -> Option<Skip> {
    let results = results(k, held);
    let side = held.first()?.2.side;
    let own = body(k, looped);
    let starts = &k.args(looped)[3..];
    let endless = starts.iter().any(|&s| constant(k, s) == Some(f64::NEG_INFINITY));
    let mut first = Iteration::new(k, own, &results);
    let first_stays = first.changes_nothing(Some(starts));
    let (iteration, seen) = match side {
        Side::Front => (first_stays.then_some(first)?, Vec::new()),
        Side::Back => {
            let later = Iteration::new(k, own, &results);
            let mut later = if endless && first_stays { later.beside(first) } else { later };
            let stays = later.changes_nothing(None) && (endless || first_stays);
            let seen = if stays && !first_stays { asked.seen()? } else { Vec::new() };
            (stays.then_some(later)?, seen)
        }
    };
    Some(Skip { seen, ..left_out(held, iteration) })
}

/// A skip in a loop whose maxima turn out to be far above the mask's number.
fn far(k: &Kernel, looped: Inst, held: &[Held]) -> Option<Skip> {
    let under = |results: &[(Value, bool)]| Iteration::new(k, body(k, looped), results).with_far_masks();
    let mut later = under(&results(k, held));
    let stays = later.changes_nothing(None);
    let far = later.take_far();
    if !stays || far.is_empty() || held.first()?.2.side == Side::Front && !under(&[]).rescales(&far) {
        return None;
    }
    Some(Skip { far, ..left_out(held, later) })
}

fn results(k: &Kernel, held: &[Held]) -> Vec<(Value, bool)> {
    held.iter().map(|&(i, truth, _)| (k.result(i), truth)).collect()
}

/// What an iteration under these results asks for.
fn left_out(held: &[Held], iteration: Iteration<'_>) -> Skip {
    let all = |of: fn(&Case) -> &Vec<Edge>| held.iter().flat_map(|(_, _, c)| of(c)).cloned().collect();
    let side = held.first().map_or(Side::Back, |h| h.2.side);
    let (edges, narrow) = (all(|c| &c.edges), all(|c| &c.narrow));
    Skip { side, edges, narrow, positive: iteration.into_positive(), seen: Vec::new(), far: Vec::new() }
}
