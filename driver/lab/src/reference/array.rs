//! Arrays of the element types that kernels take, as bytes, and random ones.

use half::{bf16, f16};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rand_distr::StandardNormal;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// A floating-point element type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Element {
    /// IEEE binary16.
    F16,
    /// bfloat16.
    Bf16,
    /// IEEE binary32.
    F32,
    /// IEEE binary64.
    F64,
}

/// Type, name, bytes, significand bits (with the hidden one), least exponent of a normal number.
const ELEMENTS: [(Element, &str, usize, i32, i32); 4] = [
    (Element::F16, "f16", 2, 11, -14),
    (Element::Bf16, "bf16", 2, 8, -126),
    (Element::F32, "f32", 4, 24, -126),
    (Element::F64, "f64", 8, 53, -1022),
];

impl Element {
    /// The type of that name, `f16`.
    pub fn named(name: &str) -> Option<Self> {
        ELEMENTS.iter().find(|row| row.1 == name).map(|row| row.0)
    }

    fn row(self) -> &'static (Self, &'static str, usize, i32, i32) {
        &ELEMENTS[self as usize]
    }

    /// Name in tile IR.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// Bytes of an element.
    pub fn bytes(self) -> usize {
        self.row().2
    }

    /// Largest relative error of rounding to nearest, 2^-11 for `f16`.
    pub fn unit_roundoff(self) -> f64 {
        f64::exp2(-f64::from(self.row().3))
    }

    /// Largest absolute error of rounding to nearest below the normal numbers.
    pub fn underflow_error(self) -> f64 {
        let (_, _, _, bits, least) = *self.row();
        f64::exp2(f64::from(least - bits))
    }

    /// The value rounded to nearest, and back.
    pub fn round(self, value: f64) -> f64 {
        let mut bytes = [0; 8];
        self.store(value, &mut bytes);
        self.load(&bytes)
    }

    fn store(self, value: f64, to: &mut [u8]) {
        let n = self.bytes();
        match self {
            Self::F16 => to[..n].copy_from_slice(&f16::from_f64(value).to_le_bytes()),
            Self::Bf16 => to[..n].copy_from_slice(&bf16::from_f64(value).to_le_bytes()),
            Self::F32 => to[..n].copy_from_slice(&(value as f32).to_le_bytes()),
            Self::F64 => to[..n].copy_from_slice(&value.to_le_bytes()),
        }
    }

    fn load(self, from: &[u8]) -> f64 {
        match self {
            Self::F16 => f16::from_le_bytes(prefix(from)).to_f64(),
            Self::Bf16 => bf16::from_le_bytes(prefix(from)).to_f64(),
            Self::F32 => f32::from_le_bytes(prefix(from)).into(),
            Self::F64 => f64::from_le_bytes(prefix(from)),
        }
    }
}

/// The first `N` bytes; zeros where there are fewer.
fn prefix<const N: usize>(from: &[u8]) -> [u8; N] {
    let mut out = [0; N];
    out.iter_mut().zip(from).for_each(|(o, f)| *o = *f);
    out
}

/// A host array of elements, as the bytes that the device sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Array {
    element: Element,
    bytes: Vec<u8>,
}

/// Elements drawn by one generator; the result does not depend on the number of threads.
const CHUNK: usize = 1 << 16;

impl Array {
    /// Draws from the standard normal distribution, rounded to the element type.
    pub fn normal(element: Element, len: usize, seed: u64) -> Self {
        Self::draw(element, len, seed, |rng| rng.sample::<f64, _>(StandardNormal))
    }

    /// Draws integers from `-max..=max`: sums of their products are exact in f32 up to 2^24.
    pub fn small_integers(element: Element, len: usize, seed: u64, max: u8) -> Self {
        let max = i32::from(max);
        Self::draw(element, len, seed, move |rng| rng.random_range(-max..=max).into())
    }

    fn draw(element: Element, len: usize, seed: u64, next: impl Fn(&mut StdRng) -> f64 + Sync) -> Self {
        let size = element.bytes();
        let mut bytes = vec![0; len * size];
        let chunks = bytes.par_chunks_mut(CHUNK * size).enumerate();
        chunks.for_each(|(i, chunk)| {
            let mut rng = StdRng::seed_from_u64(seed.wrapping_add((i as u64) << 32));
            let each = chunk.chunks_exact_mut(size);
            each.for_each(|slot| element.store(next(&mut rng), slot));
        });
        Self { element, bytes }
    }

    /// Rounds values to the element type.
    pub fn from_f64(element: Element, values: &[f64]) -> Self {
        let mut bytes = vec![0; values.len() * element.bytes()];
        let slots = bytes.chunks_exact_mut(element.bytes());
        slots.zip(values).for_each(|(slot, &v)| element.store(v, slot));
        Self { element, bytes }
    }

    /// All NaN: the contents of outputs before a checked launch (every byte is 0xff).
    pub fn poison(element: Element, len: usize) -> Self {
        let bytes = vec![0xff; len * element.bytes()];
        Self { element, bytes }
    }

    /// Bytes read back from a device; a trailing part of an element is dropped.
    pub fn from_bytes(element: Element, mut bytes: Vec<u8>) -> Self {
        bytes.truncate(bytes.len() / element.bytes() * element.bytes());
        Self { element, bytes }
    }

    /// Element type.
    pub fn element(&self) -> Element {
        self.element
    }

    /// The bytes, little-endian.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.bytes.len() / self.element.bytes()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The value at an index; NaN outside the array.
    pub fn get(&self, index: usize) -> f64 {
        let size = self.element.bytes();
        let slot = self.bytes.get(index * size..(index + 1) * size);
        slot.map_or(f64::NAN, |slot| self.element.load(slot))
    }

    /// All values.
    pub fn to_f64(&self) -> Vec<f64> {
        let slots = self.bytes.par_chunks_exact(self.element.bytes());
        slots.map(|slot| self.element.load(slot)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_enum() {
        for row in &ELEMENTS {
            assert_eq!(row.0.row(), row);
            assert_eq!(Element::named(row.1), Some(row.0));
        }
    }

    #[test]
    fn rounding_errors_are_as_stated() {
        for &(element, ..) in &ELEMENTS[..3] {
            let u = element.unit_roundoff();
            assert_eq!(element.round(1.0 + 2.0 * u), 1.0 + 2.0 * u, "{element:?}");
            assert_eq!(element.round(1.0 + u), 1.0, "{element:?}");
            let tiny = element.underflow_error();
            assert_eq!(element.round(2.0 * tiny), 2.0 * tiny, "{element:?}");
            assert_eq!(element.round(tiny), 0.0, "{element:?}");
        }
    }

    #[test]
    fn draws_are_seeded_and_look_normal() {
        let n = 3 * CHUNK / 2;
        let values = Array::normal(Element::F32, n, 7);
        assert_eq!(values, Array::normal(Element::F32, n, 7));
        assert_ne!(values, Array::normal(Element::F32, n, 8));
        let v = values.to_f64();
        let mean = v.iter().sum::<f64>() / n as f64;
        let variance = v.iter().map(|x| x * x).sum::<f64>() / n as f64;
        assert!(mean.abs() < 0.02 && (variance - 1.0).abs() < 0.03, "{mean} {variance}");
        assert_ne!(v[..100], v[CHUNK..CHUNK + 100]);
        let small = Array::small_integers(Element::Bf16, 1000, 1, 2).to_f64();
        assert!(small.iter().all(|x| x.fract() == 0.0 && x.abs() <= 2.0));
        assert!(small.contains(&-2.0) && small.contains(&2.0));
    }

    #[test]
    fn poison_is_never_a_number() {
        for &(element, ..) in &ELEMENTS {
            assert!(Array::poison(element, 3).to_f64().iter().all(|v| v.is_nan()));
        }
        assert!(Array::poison(Element::F16, 3).get(3).is_nan());
    }
}
