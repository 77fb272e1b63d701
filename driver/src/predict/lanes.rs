//! What a warp knows of its values.

use super::patterns::{Number, Pattern, Patterns};
use super::scalars::{Lanes, evaluate};
use warplift_ir::entity::SecondaryMap;
use warplift_ir::machine::{Guard, InstData, Value};

/// What is known of a value.
#[derive(Clone, Copy, Default)]
pub struct Known {
    /// What the warp's first lane holds, if that depends on sizes, places and given data alone.
    pub value: Option<i64>,
    /// How the other lanes differ from it.
    pub pattern: Pattern,
    /// What stands for it in addresses, if it depends on data that is not given.
    pub guess: Option<Number>,
    /// When its first register can be used.
    pub first: f64,
    /// When all of it can be used.
    pub ready: f64,
    /// It comes from global memory, or is made of what does.
    pub loaded: bool,
    /// The parameter, from 1, whose array it comes from; 0 for none.
    pub source: u32,
}

impl Known {
    /// A number that is there from the start.
    pub fn of(number: Option<Number>) -> Self {
        let pattern = number.map_or(Pattern::SAME, |n| n.pattern);
        Self { value: number.map(|n| n.first), pattern, ..Self::default() }
    }

    /// When a part of its registers can be used: they become ready one after another.
    pub fn ready_part(&self, part: f64) -> f64 {
        self.first + part.min(1.0) * (self.ready - self.first)
    }

    fn number(&self) -> Option<Number> {
        self.value.map(|first| Number { first, pattern: self.pattern })
    }
}

/// All values of a warp.
pub struct Values(SecondaryMap<Value, Known>);

impl std::ops::Index<Value> for Values {
    type Output = Known;

    fn index(&self, value: Value) -> &Known {
        &self.0[value]
    }
}

impl Values {
    /// Of a function with so many values, none of which is known.
    pub fn new(count: usize) -> Self {
        Self(SecondaryMap::with_capacity(count))
    }

    /// The number of a value.
    pub fn number(&self, value: Value) -> Option<Number> {
        self.0[value].number()
    }

    /// The number of a value, or what stands for it in addresses.
    pub fn guess(&self, value: Value) -> Option<Number> {
        self.number(value).or(self.0[value].guess)
    }

    /// Notes what a value is, and when; where it comes from stays.
    pub fn set(&mut self, value: Value, number: Option<Number>, ready: f64) {
        let Known { loaded, source, .. } = self.0[value];
        self.put(value, Known { first: ready, ready, loaded, source, ..Known::of(number) });
    }

    /// Notes all that is known of a value.
    pub fn put(&mut self, value: Value, known: Known) {
        self.0[value] = known;
    }

    /// Block parameters take what was passed. One may be another's argument: all are read before the first is written.
    pub fn pass(&mut self, params: &[Value], args: &[Value]) {
        let passed: smallvec::SmallVec<[Known; 16]> = args.iter().map(|&v| self.0[v]).collect();
        for (&param, known) in params.iter().zip(passed) {
            self.0[param] = known;
        }
    }

    /// What an instruction without effect computes.
    pub fn compute(&self, data: &InstData<'_>, patterns: &mut Patterns) -> Option<Number> {
        if data.args.iter().any(|&v| self.0[v].pattern != Pattern::SAME) {
            return patterns.compute(data, |k| data.args.get(k).and_then(|&v| self.number(v)));
        }
        evaluate(data, |k| data.args.get(k).and_then(|&v| self.0[v].value)).map(Number::same)
    }

    /// The lanes that a guard lets through, as bits; all where that is not known.
    pub fn active(&self, guard: Option<Guard>, patterns: &Patterns) -> u32 {
        let Some((guard, number)) = guard.and_then(|g| Some((g, self.number(g.pred)?))) else {
            return u32::MAX;
        };
        let bits = |lanes: Lanes| {
            lanes.iter().enumerate().fold(0, |bits, (l, &v)| bits | u32::from((v != 0) != guard.negated) << l)
        };
        match number.is_same() {
            true if (number.first != 0) != guard.negated => u32::MAX,
            true => 0,
            false => bits(patterns.lanes(number)),
        }
    }

    /// Whether a guard is known to hold all lanes back.
    pub fn skips(&self, guard: Option<Guard>, patterns: &Patterns) -> bool {
        guard.is_some_and(|g| self.0[g.pred].value.is_some()) && self.active(guard, patterns) == 0
    }
}
