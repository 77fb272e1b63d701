//! Compares found values with expected ones. Each value has its own bound.

use serde::{Deserialize, Serialize};
use std::fmt;

/// How far a value may be off: `absolute + relative * |expected|`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tolerance {
    /// Part that grows with the value.
    pub relative: f64,
    /// Part that does not.
    pub absolute: f64,
}

impl Tolerance {
    /// No difference is allowed.
    pub const EXACT: Self = Self { relative: 0.0, absolute: 0.0 };

    /// Only the difference of correct rounding to an element type is allowed.
    pub fn rounding(element: super::Element) -> Self {
        Self { relative: element.unit_roundoff(), absolute: element.underflow_error() }
    }
}

/// An element that is off.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mismatch {
    /// Where: one index, or row and column.
    pub index: Vec<usize>,
    /// Value found.
    pub found: f64,
    /// Value expected.
    pub expected: f64,
    /// Bound on the difference.
    pub bound: f64,
}

/// The outcome of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Elements compared.
    pub checked: u64,
    /// Elements over their bound, NaN included.
    pub failed: u64,
    /// norm(found - expected) / norm(expected), in the 2-norm.
    pub relative_norm: f64,
    /// Greatest relative norm that passes.
    pub norm_limit: f64,
    /// Greatest difference over its bound; at most 1 where every element passes.
    pub worst_ratio: f64,
    /// The element with that ratio.
    pub worst: Option<Mismatch>,
}

impl Comparison {
    /// Whether every element and the norm pass. Comparing nothing passes.
    pub fn passed(&self) -> bool {
        self.failed == 0 && self.relative_norm <= self.norm_limit
    }

    fn limit_text(&self) -> String {
        match self.norm_limit {
            f64::INFINITY => String::new(),
            limit => format!(" (limit {limit:.1e})"),
        }
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.passed() { "correct" } else { "WRONG" };
        write!(
            f,
            "{verdict}: relative error {:.3e}{}, {} of {} elements over their bound",
            self.relative_norm,
            self.limit_text(),
            self.failed,
            self.checked
        )?;
        match &self.worst {
            Some(w) if self.failed > 0 => write!(
                f,
                "; worst at {:?}: {:e} instead of {:e}, bound {:.1e}",
                w.index, w.found, w.expected, w.bound
            ),
            _ => write!(f, "; worst at {:.2} of its bound", self.worst_ratio),
        }
    }
}

/// Elements of which a norm says something.
const MANY: u64 = 64;
/// Four standard deviations of the mean square of a rounding error, in parts of it, for one element: a uniform error
/// has a mean square of 1/3 and a deviation of sqrt(4/45).
const SCATTER: f64 = 3.6;

/// A running comparison, element by element. Parallel parts are merged.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    checked: u64,
    failed: u64,
    error_squared: f64,
    norm_squared: f64,
    worst_ratio: f64,
    worst: Option<Mismatch>,
}

impl Tally {
    /// Counts one element. Equal values pass whatever the bound, infinities too; NaN never does. Under a bound of 0 zeros of two
    /// signs differ.
    pub fn add(&mut self, index: &[usize], found: f64, expected: f64, bound: f64) {
        let error = if found == expected { 0.0 } else { (found - expected).abs() };
        let same = bound > 0.0 || found.to_bits() == expected.to_bits();
        // Written so that NaN fails.
        self.count(index, (found, expected), (error, bound), error <= bound && same);
    }

    /// Counts a whole number, which must be the one expected: 64-bit ones may be equal as floats and differ.
    pub fn add_integer(&mut self, index: &[usize], found: i64, expected: i64) {
        let error = found.abs_diff(expected) as f64;
        self.count(index, (found as f64, expected as f64), (error, 0.0), found == expected);
    }

    fn count(
        &mut self,
        index: &[usize],
        (found, expected): (f64, f64),
        (error, bound): (f64, f64),
        passes: bool,
    ) {
        self.checked += 1;
        self.failed += u64::from(!passes);
        self.error_squared += error * error;
        self.norm_squared += expected * expected;
        // What fails without an error in its value is worse than what passes.
        let least = if passes { 0.0 } else { f64::MIN_POSITIVE };
        let ratio = ratio_of(error, bound).max(least);
        if ratio > self.worst_ratio || self.worst.is_none() {
            self.worst_ratio = ratio;
            let index = index.to_vec();
            self.worst = Some(Mismatch { index, found, expected, bound });
        }
    }

    /// Joins two parts.
    pub fn merge(self, other: Self) -> Self {
        let other_is_worse = other.worst_ratio > self.worst_ratio || self.worst.is_none();
        let (worst_ratio, worst) =
            if other_is_worse { (other.worst_ratio, other.worst) } else { (self.worst_ratio, self.worst) };
        Self {
            checked: self.checked + other.checked,
            failed: self.failed + other.failed,
            error_squared: self.error_squared + other.error_squared,
            norm_squared: self.norm_squared + other.norm_squared,
            worst_ratio,
            worst,
        }
    }

    /// The limit of a norm over so many elements. A norm is a mean: over few elements it scatters, and each of them
    /// has a bound of its own anyway.
    fn norm_limit(&self, limit: f64) -> f64 {
        match self.checked {
            _ if limit == 0.0 => 0.0,
            n if n < MANY => f64::INFINITY,
            n => limit * (1.0 + SCATTER / (n as f64).sqrt()).sqrt(),
        }
    }

    /// Ends the comparison.
    pub fn finish(self, norm_limit: f64) -> Comparison {
        let relative_norm = match self.error_squared {
            0.0 => 0.0,
            error => (error / self.norm_squared).sqrt(),
        };
        Comparison {
            checked: self.checked,
            failed: self.failed,
            relative_norm,
            norm_limit: self.norm_limit(norm_limit),
            worst_ratio: self.worst_ratio,
            worst: self.worst,
        }
    }
}

fn ratio_of(error: f64, bound: f64) -> f64 {
    if error == 0.0 {
        0.0
    } else if error.is_nan() {
        f64::INFINITY
    } else {
        error / bound
    }
}

/// Compares whole arrays under one tolerance. A length that differs counts as missing elements,
/// which are NaN.
pub fn compare(found: &[f64], expected: &[f64], tolerance: Tolerance) -> Comparison {
    let mut tally = Tally::default();
    for i in 0..found.len().max(expected.len()) {
        let at = |list: &[f64]| list.get(i).copied().unwrap_or(f64::NAN);
        let (found, expected) = (at(found), at(expected));
        let bound = tolerance.absolute + tolerance.relative * expected.abs();
        tally.add(&[i], found, expected, bound);
    }
    tally.finish(f64::INFINITY)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `gemm_any` of 1x1x1: the only element is off by half an ulp, which the norm of many would not be.
    #[test]
    fn the_norm_of_a_handful_says_nothing() {
        let off = |count: usize| {
            let mut tally = Tally::default();
            (0..count).for_each(|i| tally.add(&[i], 1.0 + 4.8e-4, 1.0, 4.9e-4));
            tally.finish(3e-4)
        };
        assert!(off(1).passed() && off(16).passed(), "{}", off(16));
        assert!(!off(256).passed() && !off(100_000).passed(), "{}", off(256));
        let limit = off(100_000).norm_limit;
        assert!((3e-4..3.03e-4).contains(&limit), "{limit}");
        assert_eq!(Tally::default().finish(0.0).norm_limit, 0.0);
    }

    #[test]
    fn bounds_decide() {
        let tolerance = Tolerance { relative: 0.1, absolute: 0.5 };
        let good = compare(&[10.0, -1.0, f64::INFINITY], &[11.0, -1.5, f64::INFINITY], tolerance);
        assert!(good.passed() && good.worst_ratio <= 1.0, "{good}");
        let bad = compare(&[10.0, 20.0], &[10.0, 23.0], tolerance);
        assert_eq!((bad.failed, bad.checked), (1, 2));
        assert_eq!(bad.worst.as_ref().map(|w| w.index.as_slice()), Some(&[1][..]));
        assert!(bad.to_string().starts_with("WRONG"), "{bad}");
    }

    #[test]
    fn what_is_no_number_or_missing_fails() {
        let loose = Tolerance { relative: 1e9, absolute: 1e9 };
        assert!(!compare(&[f64::NAN], &[0.0], loose).passed());
        assert!(!compare(&[f64::NAN], &[f64::NAN], loose).passed());
        assert!(!compare(&[1.0], &[1.0, 2.0], loose).passed());
        assert!(!compare(&[f64::INFINITY], &[1.0], loose).passed());
        assert!(compare(&[], &[], Tolerance::EXACT).passed());
    }

    #[test]
    fn under_a_bound_of_zero_nothing_is_alike() {
        let zeros = |tolerance| compare(&[0.0, -0.0], &[-0.0, -0.0], tolerance);
        let (exact, loose) = (zeros(Tolerance::EXACT), zeros(Tolerance { relative: 0.0, absolute: 1e-9 }));
        assert_eq!((exact.failed, loose.failed), (1, 0));
        assert!(exact.to_string().contains("worst at [0]: 0e0 instead of -0e0"), "{exact}");
        let mut tally = Tally::default();
        tally.add_integer(&[0], (1 << 53) + 1, 1 << 53);
        tally.add_integer(&[1], i64::MIN, i64::MIN);
        assert_eq!(tally.finish(1.0).failed, 1);
    }

    #[test]
    fn merged_parts_equal_the_whole() {
        let pairs = [(1.0, 1.5), (2.0, 2.0), (3.0, 9.0), (4.0, 4.5)];
        let part = |range: std::ops::Range<usize>| {
            let mut tally = Tally::default();
            range.for_each(|i| tally.add(&[i], pairs[i].0, pairs[i].1, 1.0));
            tally
        };
        let whole = part(0..4).finish(1.0);
        assert_eq!(part(0..2).merge(part(2..4)).finish(1.0), whole);
        assert_eq!((whole.failed, whole.worst_ratio), (1, 6.0));
    }
}
