//! What a warp knows of its values: a number for all lanes, or one of each.

use super::scalars::{Lanes, WARP, Word, evaluate};
use warplift_ir::entity::SecondaryMap;
use warplift_ir::machine::{Guard, InstData, Value};

/// A known value.
#[expect(clippy::large_enum_variant, reason = "lanes stay on the stack: a walk makes millions of them")]
#[derive(Clone, Copy, Debug)]
pub enum Number {
    /// The same in all lanes.
    Same(i64),
    /// Of each lane.
    Each(Lanes),
}

impl Number {
    /// Of lanes that may all hold the same.
    pub fn of(lanes: Lanes) -> Self {
        if lanes.all(lanes[0]) { Self::Same(lanes[0]) } else { Self::Each(lanes) }
    }

    /// What the first lane holds.
    pub fn first(&self) -> i64 {
        match self {
            Self::Same(v) => *v,
            Self::Each(lanes) => lanes[0],
        }
    }

    /// Of each lane.
    pub fn lanes(&self) -> Lanes {
        match self {
            Self::Same(v) => [*v; WARP],
            Self::Each(lanes) => *lanes,
        }
    }
}

/// What is known of a value.
#[derive(Clone, Copy, Default)]
pub struct Known {
    /// What the warp's first lane holds, if that depends on sizes, places and given data alone.
    pub value: Option<i64>,
    /// The lanes hold different numbers.
    spread: bool,
    /// When it can be used.
    pub ready: f64,
    /// It comes from global memory, or is made of what does.
    pub loaded: bool,
    /// The parameter, from 1, whose array it comes from; 0 for none.
    pub source: u32,
}

/// All values of a warp.
pub struct Values {
    known: SecondaryMap<Value, Known>,
    /// The lanes of values that have different ones, by the places in `rows`, from 1.
    places: SecondaryMap<Value, u32>,
    rows: Vec<Lanes>,
}

impl std::ops::Index<Value> for Values {
    type Output = Known;

    fn index(&self, value: Value) -> &Known {
        &self.known[value]
    }
}

impl Values {
    /// Of a function with so many values, none of which is known.
    pub fn new(count: usize) -> Self {
        Self { known: SecondaryMap::with_capacity(count), places: SecondaryMap::new(), rows: Vec::new() }
    }

    /// The number of a value.
    pub fn number(&self, value: Value) -> Option<Number> {
        let known = &self.known[value];
        let first = known.value?;
        Some(if known.spread { Number::Each(self.row(value)) } else { Number::Same(first) })
    }

    fn lanes(&self, value: Value) -> Option<Lanes> {
        self.number(value).map(|n| n.lanes())
    }

    /// The lanes of a value that has different ones.
    fn row(&self, value: Value) -> Lanes {
        self.rows[self.places[value] as usize - 1]
    }

    /// Notes what a value is, and when.
    pub fn set(&mut self, value: Value, number: Option<Number>, ready: f64) {
        let known = &mut self.known[value];
        known.value = number.as_ref().map(Number::first);
        known.ready = ready;
        known.spread = false;
        if let Some(Number::Each(lanes)) = number {
            known.spread = true;
            self.put(value, lanes);
        }
    }

    fn put(&mut self, value: Value, lanes: Lanes) {
        let place = &mut self.places[value];
        if *place == 0 {
            self.rows.push(lanes);
            *place = self.rows.len() as u32;
        } else {
            self.rows[*place as usize - 1] = lanes;
        }
    }

    /// Notes where a value comes from.
    pub fn trace(&mut self, value: Value, loaded: bool, source: u32) {
        let known = &mut self.known[value];
        (known.loaded, known.source) = (loaded, source);
    }

    /// Block parameters take what was passed. One may be another's argument: all are read before the first is written.
    pub fn pass(&mut self, params: &[Value], args: &[Value]) {
        let passed: smallvec::SmallVec<[Known; 16]> = args.iter().map(|&v| self.known[v]).collect();
        let spread = |(i, known): (usize, &Known)| known.spread.then(|| (i, self.row(args[i])));
        let rows: smallvec::SmallVec<[(usize, Lanes); 2]> =
            passed.iter().enumerate().filter_map(spread).collect();
        for (&param, known) in params.iter().zip(passed) {
            self.known[param] = known;
        }
        for (i, lanes) in rows {
            if let Some(&param) = params.get(i) {
                self.put(param, lanes);
            }
        }
    }

    /// What an instruction without effect computes.
    pub fn compute(&self, data: &InstData<'_>) -> Option<Number> {
        if data.args.iter().any(|&v| self.known[v].spread) {
            return evaluate(data, |k| data.args.get(k).and_then(|&v| self.lanes(v))).map(Number::of);
        }
        evaluate(data, |k| data.args.get(k).and_then(|&v| self.known[v].value)).map(Number::Same)
    }

    /// The lanes that a guard lets through, as bits; all where that is not known.
    pub fn active(&self, guard: Option<Guard>) -> u32 {
        let Some((guard, lanes)) = guard.and_then(|g| Some((g, self.lanes(g.pred)?))) else {
            return u32::MAX;
        };
        lanes.iter().enumerate().fold(0, |bits, (l, &v)| bits | u32::from((v != 0) != guard.negated) << l)
    }

    /// Whether a guard is known to hold all lanes back.
    pub fn skips(&self, guard: Option<Guard>) -> bool {
        let Some(g) = guard else { return false };
        let known = &self.known[g.pred];
        match known.value {
            None => false,
            Some(_) if known.spread => self.active(guard) == 0,
            Some(v) => (v != 0) == g.negated,
        }
    }
}
