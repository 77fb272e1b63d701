//! Decisions drawn from bytes. When the bytes run out, every decision is the first alternative. Short inputs therefore
//! give small kernels.

use arbitrary::Unstructured;

/// A stream of decisions.
#[derive(Debug)]
pub struct Choices<'b>(Unstructured<'b>);

impl<'b> Choices<'b> {
    /// Decisions from these bytes.
    pub fn new(bytes: &'b [u8]) -> Self {
        Self(Unstructured::new(bytes))
    }

    /// A number below `n`; 0 if `n` is.
    pub fn below(&mut self, n: usize) -> usize {
        self.0.int_in_range(0..=n.saturating_sub(1)).unwrap_or(0)
    }

    /// A number from `least` to `most`.
    pub fn between(&mut self, least: i64, most: i64) -> i64 {
        self.0.int_in_range(least..=most.max(least)).unwrap_or(least)
    }

    /// True `of` times in `n`; never after the bytes ran out.
    pub fn chance(&mut self, of: usize, n: usize) -> bool {
        self.below(n) >= n - of
    }

    /// One of several.
    ///
    /// # Panics
    /// If there is none: a bug of the caller.
    pub fn of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())].clone()
    }

    /// One of several, by weight.
    ///
    /// # Panics
    /// If there is none: a bug of the caller.
    pub fn weighted<T: Clone>(&mut self, all: &[(usize, T)]) -> T {
        let mut at = self.below(all.iter().map(|w| w.0).sum());
        for (weight, what) in all {
            match at.checked_sub(*weight) {
                Some(left) => at = left,
                None => return what.clone(),
            }
        }
        all[0].1.clone()
    }
}
