//! Contents of the buffers before a launch.

use super::given::{Given, drawn, seed_of};
use super::{Operand, ProblemError};
use crate::reference::{Array, Element};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rand_distr::StandardNormal;
use warplift_ir::interp::{Memory, Number, from_bits, round};
use warplift_ir::types::Elem;

/// How inputs are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Standard normal.
    Normal,
    /// Integers from -2 to 2: sums of their products are exact, so results must agree bit by bit.
    Integers,
}

/// Greatest magnitude of [`Style::Integers`].
pub(super) const MAX_INTEGER: u8 = 2;

/// The buffers of one launch. Buffers that are only written hold bytes of 0xff, a NaN in every float.
#[derive(Clone, Debug)]
pub struct Data {
    /// One a pointer argument, in order.
    pub buffers: Vec<Vec<u8>>,
}

impl Data {
    /// Draws the inputs and poisons the outputs.
    pub fn new(operands: &[Operand], style: Style, seed: u64) -> Self {
        let each = operands.iter().enumerate().map(|(i, operand)| match operand.read {
            true => draw(operand, style, seed_of(seed, i)),
            false => vec![0xff; operand.bytes() as usize],
        });
        Self { buffers: each.collect() }
    }

    /// The same, with contents that are given.
    ///
    /// # Errors
    /// Contents that an array cannot hold, a file that cannot be read.
    pub fn given(operands: &[Operand], given: &Given, style: Style, seed: u64) -> Result<Self, ProblemError> {
        let mut data = Self::new(operands, style, seed);
        for (i, (operand, buffer)) in operands.iter().zip(&mut data.buffers).enumerate() {
            if let Some(contents) = given.of(&operand.name) {
                *buffer = drawn(operand, contents, seed_of(seed, i))?;
            }
        }
        Ok(data)
    }
}

fn draw(operand: &Operand, style: Style, seed: u64) -> Vec<u8> {
    let count = operand.elements as usize;
    if let Some(element) = Element::named(&operand.elem.to_string()) {
        let array = match style {
            Style::Normal => Array::normal(element, count, seed),
            Style::Integers => Array::small_integers(element, count, seed, MAX_INTEGER),
        };
        return array.bytes().to_vec();
    }
    let mut rng = StdRng::seed_from_u64(seed);
    let signed = operand.elem.is_signed();
    let max = f64::from(MAX_INTEGER);
    // Integers of 8 bits and fewer (weights) take all their values.
    let bits = operand.elem.bits();
    let narrow = operand.elem.is_int() && bits <= 8;
    let least = if signed { -(1i32 << (bits.min(8) - 1)) } else { 0 };
    let most = least + (1 << bits.min(8));
    let values: Vec<f64> = (0..count)
        .map(|_| match style {
            Style::Normal if narrow => f64::from(rng.random_range(least..most)),
            Style::Normal if operand.elem.is_float() => rng.sample(StandardNormal),
            _ if signed => rng.random_range(-max..=max).round(),
            _ => rng.random_range(0.0..=max).round(),
        })
        .collect();
    let mut memory = Memory::new();
    let id = memory.add_values("", operand.elem, &values);
    memory.bytes(id).to_vec()
}

/// A buffer that holds one number everywhere.
pub(super) fn filled(operand: &Operand, value: f64) -> Vec<u8> {
    let mut memory = Memory::new();
    let values = vec![round(operand.elem, value); operand.elements as usize];
    let id = memory.add_values("", operand.elem, &values);
    memory.bytes(id).to_vec()
}

/// The element at an index of a packed buffer; `None` behind its end.
pub(super) fn element(bytes: &[u8], index: usize, elem: Elem) -> Option<Number> {
    let width = elem.bits() as usize;
    let (first, last) = (index * width, (index + 1) * width - 1);
    let slot = bytes.get(first / 8..=last / 8)?;
    let all = slot.iter().rev().fold(0u128, |all, &b| all << 8 | u128::from(b));
    let mask = u64::MAX >> (64 - width);
    Some(from_bits(elem, (all >> (first % 8)) as u64 & mask))
}

/// Whether two elements are the same: zeros of two signs are not, NaNs of any payload are.
pub(super) fn is_same(a: Number, b: Number) -> bool {
    match (a, b) {
        (Number::Float(a), Number::Float(b)) => a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan(),
        _ => a == b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_drawn_and_outputs_poisoned() {
        let operand = |elem, read| Operand { elements: 11, read, written: !read, ..Operand::new("x", elem) };
        let six = Elem::Int(6);
        let operands = [operand(Elem::F16, true), operand(six, true), operand(Elem::F32, false)];
        let data = Data::new(&operands, Style::Integers, 3);
        assert_eq!(data.buffers.iter().map(Vec::len).collect::<Vec<_>>(), [22, 9, 44]);
        let sixes: Vec<i64> =
            (0..11).filter_map(|i| element(&data.buffers[1], i, six)).map(Number::as_i64).collect();
        assert!(
            sixes.len() == 11 && sixes.iter().all(|v| v.abs() <= 2) && sixes.iter().any(|v| *v < 0),
            "{sixes:?}"
        );
        assert!(element(&data.buffers[2], 10, Elem::F32).is_some_and(|v| v.as_f64().is_nan()));
        assert!(element(&data.buffers[2], 11, Elem::F32).is_none());
        assert_ne!(Data::new(&operands, Style::Integers, 4).buffers[0], data.buffers[0]);
    }
}
