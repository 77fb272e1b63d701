//! Numbers that depend on data which is not given: which lanes hold the same, and which are far apart.
//!
//! ```text
//!  load table[row]       lanes of one address find one number, other lanes another one, at random
//!  row * n + column      the arithmetic of known numbers: the columns of a row stay neighbours
//! ```
//!
//! They serve one question, how many sectors or banks an access touches. What decides a branch, a bound or a guard is a known
//! number or none.

use super::lanes::Values;
use super::patterns::{Number, Pattern, Patterns};
use super::scalars::WARP;
use rustc_hash::{FxHashMap, FxHasher};
use std::hash::{Hash, Hasher};
use warplift_ir::machine::{Attr, Func, InstData, Value};
use warplift_ir::target::Opcode;

/// Numbers lie below this power of two: times the stride of a row they stay within 32 bits.
const BITS: u32 = 16;

/// Numbers that stand for what was not given: one for each pattern of addresses, and register.
#[derive(Default)]
pub struct Guesses(FxHashMap<(Pattern, u32), Number>);

impl Guesses {
    /// What a register holds that was loaded from such addresses.
    pub fn found(&mut self, at: Number, register: u32, patterns: &mut Patterns) -> Number {
        *self.0.entry((at.pattern, register)).or_insert_with(|| {
            let offsets = patterns.lanes(Number { first: 0, ..at });
            patterns.number(std::array::from_fn(|l| somewhere(offsets[l], register)))
        })
    }

    /// What a load finds at addresses of which nothing is known: another number in each lane.
    pub fn found_anywhere(&mut self, patterns: &mut Patterns) -> Number {
        let apart = patterns.number(std::array::from_fn(|l| 4 * l as i64));
        self.found(apart, 0, patterns)
    }

    /// What an instruction computes of numbers that data decides, given or not. A fragment is known by where it came from, and
    /// each register that is taken from it is another number; one that is made of columns too has no guess.
    pub fn computed(
        &mut self,
        func: &Func<'_>,
        data: &InstData<'_>,
        known: &Values,
        patterns: &mut Patterns,
    ) -> Option<Number> {
        // Which lanes a condition holds for has no guess: what it chooses is taken to be the greater (`scalars.rs`).
        if matches!(data.attr, Attr::Cmp(_)) {
            return None;
        }
        let by_data = |&&v: &&Value| known[v].guess.is_some() || known[v].source > 0;
        let origin = known.guess(*data.args.iter().find(by_data)?)?;
        let result = *data.results.first()?;
        let is_large = |&v: &Value| func.ty(v).is_frag() && func.ty(v).regs() > 1;
        if !data.args.iter().chain([&result]).any(is_large) {
            return patterns.compute(data, |k| data.args.get(k).and_then(|&v| known.guess(v)));
        }
        let moves = matches!(data.op, Opcode::Join | Opcode::Slice | Opcode::Mov);
        let is_plain = |&v: &Value| known.guess(v).is_some_and(|n| n == origin || n.is_same());
        if !moves && !data.args.iter().all(is_plain) {
            return None;
        }
        let is_whole = func.ty(result).is_frag();
        Some(if is_whole { origin } else { self.found(origin, result.as_u32() + 1, patterns) })
    }
}

/// A number that depends on nothing but these.
fn somewhere(offset: i64, register: u32) -> i64 {
    let mut hasher = FxHasher::default();
    (offset, register, WARP).hash(&mut hasher);
    // The high bits of a product depend on all of its factor's.
    (hasher.finish() >> (u64::BITS - BITS)) as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predict::accesses::{Access, Accesses};

    #[test]
    fn lanes_of_one_address_find_one_number() {
        let (mut guesses, mut patterns) = (Guesses::default(), Patterns::default());
        let rows = patterns.number(std::array::from_fn(|l| 4096 + 4 * (l as i64 / 8)));
        let found = guesses.found(rows, 0, &mut patterns);
        let lanes = patterns.lanes(found);
        assert!((1..WARP).all(|l| (lanes[l] == lanes[l - 1]) == (l % 8 != 0)), "{lanes:?}");
        assert_eq!(guesses.found(rows.shifted(64), 0, &mut patterns), found, "the next ones look alike");
        assert_ne!(guesses.found(rows, 1, &mut patterns), found);
    }

    /// 32 bits anywhere take a sector each; four rows of eight lanes with 16 bytes take four sectors each.
    #[test]
    fn sectors_follow() {
        let (mut guesses, mut patterns) = (Guesses::default(), Patterns::default());
        let mut moved = |at: [i64; WARP], by: i64, column: fn(i64) -> i64, bytes| {
            let at = patterns.number(at);
            let found = guesses.found(at, 0, &mut patterns);
            let row = patterns.lanes(found);
            let places = patterns.number(std::array::from_fn(|l| by * row[l] + column(l as i64)));
            Accesses::default().cost(Access::Global(bytes), places, u32::MAX, &patterns)
        };
        assert_eq!(moved(std::array::from_fn(|l| 4 * l as i64), 4, |_| 0, 4), 32.0 * 32.0);
        assert_eq!(moved(std::array::from_fn(|l| l as i64 / 8), 4096, |l| 16 * (l % 8), 16), 512.0);
    }
}
