//! Scalars of a walk: what the lanes of a warp compute, where it depends on sizes, places and given data alone.
//!
//! ```text
//!  uniform    one number for all lanes                        ctaid.x, parameters, counters of loops
//!  lanes      a number for each of the 32 lanes                tid.x and what is made of it: addresses, masks, data
//! ```
//!
//! The rules are the same for both. A number of 32 bits is kept signed.

use warplift_ir::machine::{Attr, InstData, fold};
use warplift_ir::target::Opcode;

/// Lanes of a warp.
pub const WARP: usize = 32;
/// What each lane holds.
pub type Lanes = [i64; WARP];

/// A number, or one of each lane.
pub trait Word: Copy {
    /// A number that all lanes have.
    fn every(number: i64) -> Self;
    /// Of each number.
    fn map(self, f: impl Fn(i64) -> i64) -> Self;
    /// Of each pair; `None` where one has no result.
    fn with(self, other: Self, f: impl Fn(i64, i64) -> Option<i64>) -> Option<Self>;
    /// Whether all are this number.
    fn all(self, number: i64) -> bool;
    /// Of lanes, those of another order; a number stays.
    fn permuted(self, of: impl Fn(usize) -> usize) -> Self;
    /// All lanes to one number, which all hold.
    fn joined(self, f: impl Fn(i64, i64) -> i64) -> Option<Self>;

    /// Of each pair.
    fn pair(self, other: Self, f: impl Fn(i64, i64) -> i64) -> Self {
        self.with(other, |a, b| Some(f(a, b))).unwrap_or(self)
    }
}

impl Word for i64 {
    fn every(number: i64) -> Self {
        number
    }

    fn map(self, f: impl Fn(i64) -> i64) -> Self {
        f(self)
    }

    fn with(self, other: Self, f: impl Fn(i64, i64) -> Option<i64>) -> Option<Self> {
        f(self, other)
    }

    fn all(self, number: i64) -> bool {
        self == number
    }

    fn permuted(self, _: impl Fn(usize) -> usize) -> Self {
        self
    }

    fn joined(self, f: impl Fn(i64, i64) -> i64) -> Option<Self> {
        Some((1..WARP).fold(self, |sum, _| f(sum, self)))
    }
}

impl Word for Lanes {
    fn every(number: i64) -> Self {
        [number; WARP]
    }

    fn map(self, f: impl Fn(i64) -> i64) -> Self {
        std::array::from_fn(|l| f(self[l]))
    }

    fn with(self, other: Self, f: impl Fn(i64, i64) -> Option<i64>) -> Option<Self> {
        let mut all = self;
        for (a, b) in all.iter_mut().zip(other) {
            *a = f(*a, b)?;
        }
        Some(all)
    }

    fn all(self, number: i64) -> bool {
        self.iter().all(|&v| v == number)
    }

    fn permuted(self, of: impl Fn(usize) -> usize) -> Self {
        std::array::from_fn(|l| self[of(l) % WARP])
    }

    fn joined(self, f: impl Fn(i64, i64) -> i64) -> Option<Self> {
        Some([self.into_iter().reduce(f)?; WARP])
    }
}

/// The value of a pure row, of its operands by number; `None` where one that matters is unknown, or the row has no
/// meaning here.
pub fn evaluate<W: Word>(data: &InstData<'_>, arg: impl Fn(usize) -> Option<W>) -> Option<W> {
    use Opcode::*;
    let both = || arg(0).zip(arg(1));
    match data.op {
        Mov | MovPred | Mov64 | Assume | Assume64 | Uniform | WidenS32 | Mapa | ToGlobal => arg(0),
        // What the text expects of data.
        LikelyPred => arg(0).or(Some(W::every(1))),
        UnlikelyPred => arg(0).or(Some(W::every(0))),
        // A fragment of one register is that register.
        Join if data.args.len() == 1 => arg(0),
        Narrow64 => arg(0).map(|v| v.map(word)),
        WidenU32 => arg(0).map(|v| v.map(|v| i64::from(v as u32))),
        MadS32 => both().zip(arg(2)).map(|((a, b), c)| a.pair(b, i64::wrapping_mul).pair(c, add_words)),
        MadWideS32 => {
            both().zip(arg(2)).map(|((a, b), c)| a.pair(b, i64::wrapping_mul).pair(c, i64::wrapping_add))
        }
        NegS32 => arg(0).map(|v| v.map(|v| word(v.wrapping_neg()))),
        AbsS32 => arg(0).map(|v| v.map(|v| word(v.wrapping_abs()))),
        Not => arg(0).map(|v| v.map(|v| !v)),
        Selp | Selp64 => match arg(2) {
            Some(condition) => select(condition, arg),
            // What the data decides is taken to be the greater: the bound of a loop that has work, an extent that is there.
            None => both().map(|(a, b)| a.pair(b, i64::max)),
        },
        SelectMask | SelectS32 | SelectU32 | SelectSumS32 | SelectDiffS32 => select(chosen(data, &arg)?, arg),
        Lop3 => {
            let (a, b) = both()?;
            Some(by_table(data, a, b, arg(2)?))
        }
        SetpS32 | SetpS64 => compare(&data.attr, both()?),
        SetS32 => both().and_then(|v| compare(&data.attr, v)).map(every_bit),
        SetU32 => {
            both().and_then(|(a, b)| compare(&data.attr, (a.map(unsigned), b.map(unsigned)))).map(every_bit)
        }
        SetpU32 => both().and_then(|(a, b)| compare(&data.attr, (a.map(unsigned), b.map(unsigned)))),
        AndPred | OrPred => logic(data.op == OrPred, arg(0), arg(1)),
        XorPred => both().map(|(a, b)| a.pair(b, |a, b| i64::from((a != 0) != (b != 0)))),
        NotPred => arg(0).map(|v| v.map(|v| i64::from(v == 0))),
        MinU32 => both().map(|(a, b)| a.pair(b, |a, b| unsigned(a).min(unsigned(b)))),
        MaxU32 => both().map(|(a, b)| a.pair(b, |a, b| unsigned(a).max(unsigned(b)))),
        MulHiU32 => both()
            .map(|(a, b)| a.pair(b, |a, b| word(((a as u32 as u64 * u64::from(b as u32)) >> 32) as i64))),
        AddS64 => both().map(|(a, b)| a.pair(b, i64::wrapping_add)),
        SubS64 => both().map(|(a, b)| a.pair(b, i64::wrapping_sub)),
        MulS64 | MulWideS32 => both().map(|(a, b)| a.pair(b, i64::wrapping_mul)),
        ShflBfly | ShflIdx | ReduxAddS32 | ReduxMaxS32 | ReduxOr => between_lanes(data, arg(0)?, arg(1)),
        op => both().and_then(|(a, b)| a.with(b, |a, b| fold(op, a as i32, b as i32).map(i64::from))),
    }
}

/// Bits by a table of what three bits give.
fn by_table<W: Word>(data: &InstData<'_>, a: W, b: W, c: W) -> W {
    let Attr::Imm(table) = data.attr else { return a };
    let term = |n: i64| {
        let own = |w: W, bit: i64| w.map(|v| if n & bit != 0 { v } else { !v });
        own(a, 4).pair(own(b, 2), |a, b| a & b).pair(own(c, 1), |ab, c| ab & c)
    };
    let terms = (0..8).filter(|n| table >> n & 1 == 1).map(term);
    terms.fold(W::every(0), |all, term| all.pair(term, |a, b| a | b))
}

/// Whether a row that compares and selects takes its first operand.
fn chosen<W: Word>(data: &InstData<'_>, arg: &impl Fn(usize) -> Option<W>) -> Option<W> {
    let (x, next) = (arg(2)?, arg(3));
    match data.op {
        Opcode::SelectMask => Some(x.map(|v| i64::from(v != 0))),
        Opcode::SelectS32 => compare(&data.attr, (x, next?)),
        Opcode::SelectU32 => compare(&data.attr, (x.map(unsigned), next?.map(unsigned))),
        Opcode::SelectSumS32 => compare(&data.attr, (x.pair(next?, add_words), arg(4)?)),
        Opcode::SelectDiffS32 => {
            compare(&data.attr, (x.pair(next?, |a, b| word(a.wrapping_sub(b))), arg(4)?))
        }
        _ => None,
    }
}

/// What lanes tell each other.
fn between_lanes<W: Word>(data: &InstData<'_>, value: W, lane: Option<W>) -> Option<W> {
    match (data.op, &data.attr) {
        (Opcode::ShflBfly, Attr::Imm(mask)) => Some(value.permuted(|l| l ^ *mask as usize)),
        (Opcode::ShflIdx, _) => {
            (0..WARP as i64).find(|&l| lane.is_some_and(|w| w.all(l))).map(|l| value.permuted(|_| l as usize))
        }
        (Opcode::ReduxAddS32, _) => value.joined(add_words),
        (Opcode::ReduxMaxS32, _) => value.joined(i64::max),
        (Opcode::ReduxOr, _) => value.joined(|a, b| a | b),
        _ => None,
    }
}

fn select<W: Word>(condition: W, arg: impl Fn(usize) -> Option<W>) -> Option<W> {
    if condition.all(0) {
        return arg(1);
    }
    if condition.map(|c| i64::from(c != 0)).all(1) {
        return arg(0);
    }
    // 1 where the first is taken: the chosen number is among both.
    let (first, second) = arg(0).zip(arg(1))?;
    let kept = condition.pair(first, |c, a| if c != 0 { a } else { 0 });
    let other = condition.pair(second, |c, b| if c != 0 { 0 } else { b });
    Some(kept.pair(other, |a, b| a | b))
}

/// `and` and `or` of predicates: one operand may decide alone.
fn logic<W: Word>(or: bool, a: Option<W>, b: Option<W>) -> Option<W> {
    let truth = |w: W| w.map(|v| i64::from(v != 0));
    match (a.map(truth), b.map(truth)) {
        (Some(a), Some(b)) => Some(a.pair(b, |a, b| if or { a | b } else { a & b })),
        (Some(known), None) | (None, Some(known)) if known.all(or.into()) => Some(known),
        _ => None,
    }
}

fn add_words(a: i64, b: i64) -> i64 {
    word(a.wrapping_add(b))
}

/// The low 32 bits, signed.
fn word(v: i64) -> i64 {
    i64::from(v as i32)
}

/// The low 32 bits, unsigned.
fn unsigned(v: i64) -> i64 {
    i64::from(v as u32)
}

/// A mask's word: all bits where it holds.
fn every_bit<W: Word>(holds: W) -> W {
    holds.map(|v| -v)
}

fn compare<W: Word>(attr: &Attr, (a, b): (W, W)) -> Option<W> {
    let Attr::Cmp(cmp) = attr else { return None };
    Some(a.pair(b, |a, b| cmp.holds(&a, &b).into()))
}
