//! Medians, and ratios as geometric means.

use serde::{Deserialize, Serialize};

/// The median; the mean of the two middle values for an even count, NaN for none.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let half = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[half],
        _ => f64::midpoint(sorted[half - 1], sorted[half]),
    }
}

/// A ratio of speeds over interleaved rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// Geometric mean of the rounds' ratios.
    pub mean: f64,
    /// Least ratio of a round.
    pub low: f64,
    /// Greatest ratio of a round.
    pub high: f64,
    /// Geometric standard deviation, as a factor: 1 is no spread.
    pub deviation: f64,
    /// Rounds.
    pub rounds: usize,
}

impl Ratio {
    /// How much faster `own` is than `other`, from the times of the same rounds. `None` without
    /// rounds, or with a time that is not positive.
    pub fn of_times(own: &[f64], other: &[f64]) -> Option<Self> {
        let positive = |t: &f64| t.is_finite() && *t > 0.0;
        if own.is_empty() || own.len() != other.len() || !own.iter().chain(other).all(positive) {
            return None;
        }
        let logs: Vec<f64> = own.iter().zip(other).map(|(t, o)| (o / t).ln()).collect();
        let n = logs.len() as f64;
        let mean = logs.iter().sum::<f64>() / n;
        let squares: f64 = logs.iter().map(|l| (l - mean).powi(2)).sum();
        let variance = squares / (n - 1.0).max(1.0);
        let least = logs.iter().copied().fold(f64::INFINITY, f64::min);
        let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Some(Self {
            mean: mean.exp(),
            low: least.exp(),
            high: most.exp(),
            deviation: variance.sqrt().exp(),
            rounds: logs.len(),
        })
    }

    /// Whether the mean reaches a bar, within 0.01.
    pub fn passes(&self, bar: f64) -> bool {
        self.mean >= bar - 0.01
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn a_ratio_is_the_geometric_mean() {
        let ratio = Ratio::of_times(&[1.0, 1.0], &[2.0, 0.5]).unwrap();
        assert!((ratio.mean - 1.0).abs() < 1e-12);
        assert_eq!((ratio.low, ratio.high, ratio.rounds), (0.5, 2.0, 2));
        assert!((ratio.deviation.ln() - 2f64.sqrt() * 2f64.ln()).abs() < 1e-12);
        let even = Ratio::of_times(&[1.0; 7], &[0.995; 7]).unwrap();
        assert!(even.passes(1.0) && !even.passes(1.01) && (even.deviation - 1.0).abs() < 1e-12);
        assert_eq!(Ratio::of_times(&[], &[]), None);
        assert_eq!(Ratio::of_times(&[1.0], &[0.0]), None);
    }
}
