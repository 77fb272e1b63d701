//! What a warp knows of its values.

use super::patterns::{Number, Pattern, Patterns};
use super::scalars::{Lanes, evaluate};
use rustc_hash::FxHashMap;
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

/// What the registers of fragments hold, of those of which all are known.
#[derive(Default)]
pub struct Fragments(FxHashMap<Value, Box<[Number]>>);

impl Fragments {
    /// The registers of a fragment.
    pub fn of(&self, value: Value) -> Option<&[Number]> {
        self.0.get(&value).map(Box::as_ref)
    }

    /// Notes the registers of a fragment, or that they are not known.
    pub fn put(&mut self, value: Value, registers: Option<Box<[Number]>>) {
        match registers {
            Some(registers) => drop(self.0.insert(value, registers)),
            None => drop(self.0.remove(&value)),
        }
    }

    /// Block parameters take what was passed.
    pub fn pass(&mut self, params: &[Value], args: &[Value]) {
        if self.0.is_empty() {
            return;
        }
        let passed: Vec<Option<Box<[Number]>>> = args.iter().map(|v| self.0.get(v).cloned()).collect();
        params.iter().zip(passed).for_each(|(&param, registers)| self.put(param, registers));
    }
}

/// All values of a warp.
pub struct Values {
    all: SecondaryMap<Value, Known>,
    /// Registers of fragments.
    pub fragments: Fragments,
    /// The same of what stands for them in addresses.
    pub guessed: Fragments,
}

impl std::ops::Index<Value> for Values {
    type Output = Known;

    fn index(&self, value: Value) -> &Known {
        &self.all[value]
    }
}

impl Values {
    /// Of a function with so many values, none of which is known.
    pub fn new(count: usize) -> Self {
        Self {
            all: SecondaryMap::with_capacity(count),
            fragments: Fragments::default(),
            guessed: Fragments::default(),
        }
    }

    /// The number of a value.
    pub fn number(&self, value: Value) -> Option<Number> {
        self.all[value].number()
    }

    /// The number of a value, or what stands for it in addresses.
    pub fn guess(&self, value: Value) -> Option<Number> {
        self.number(value).or(self.all[value].guess)
    }

    /// Notes what a value is, and when; where it comes from stays.
    pub fn set(&mut self, value: Value, number: Option<Number>, ready: f64) {
        let Known { loaded, source, .. } = self.all[value];
        self.put(value, Known { first: ready, ready, loaded, source, ..Known::of(number) });
    }

    /// Notes all that is known of a value.
    pub fn put(&mut self, value: Value, known: Known) {
        self.all[value] = known;
    }

    /// Block parameters take what was passed. One may be another's argument: all are read before the first is written.
    pub fn pass(&mut self, params: &[Value], args: &[Value]) {
        let passed: smallvec::SmallVec<[Known; 16]> = args.iter().map(|&v| self.all[v]).collect();
        for (&param, known) in params.iter().zip(passed) {
            self.all[param] = known;
        }
        self.fragments.pass(params, args);
        self.guessed.pass(params, args);
    }

    /// What an instruction without effect computes.
    pub fn compute(&self, data: &InstData<'_>, patterns: &mut Patterns) -> Option<Number> {
        if data.args.iter().any(|&v| self.all[v].pattern != Pattern::SAME) {
            return patterns.compute(data, |k| data.args.get(k).and_then(|&v| self.number(v)));
        }
        evaluate(data, |k| data.args.get(k).and_then(|&v| self.all[v].value)).map(Number::same)
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
        guard.is_some_and(|g| self.all[g.pred].value.is_some()) && self.active(guard, patterns) == 0
    }
}
