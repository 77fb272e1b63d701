//! What a kernel's text fixes before a mapping is chosen: constants, and the values that a tunable may have.
//!
//! ```text
//!  const GROUP = 128                     what is computed: no mapping sets it
//!  tunable BN in {64, 128, 256} = 128    how it is computed: a mapping takes one of these
//!  tunable BM in 16..=256 step 16 = 128
//! ```

use std::fmt::{self, Display, Formatter};

/// A tunable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TunableData {
    /// Name.
    pub name: String,
    /// Value where the mapping gives none.
    pub default: i64,
    /// The values that it may have.
    pub domain: Domain,
}

/// The values that a tunable may have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Domain {
    /// Every whole number from 1.
    #[default]
    Any,
    /// One of these.
    OneOf(Vec<i64>),
    /// `min`, `min + step`, .. up to `max`.
    Range {
        /// The least value.
        min: i64,
        /// The greatest value, unless steps pass over it.
        max: i64,
        /// Distance of neighbours.
        step: i64,
    },
}

impl Domain {
    /// Whether it holds a value.
    pub fn contains(&self, value: i64) -> bool {
        match self {
            Self::Any => value >= 1,
            Self::OneOf(all) => all.contains(&value),
            Self::Range { min, max, step } => {
                (*min..=*max).contains(&value) && value.abs_diff(*min).is_multiple_of(step.unsigned_abs())
            }
        }
    }

    /// The value that is nearest to a wish: the greatest that is not above it, else the least of all.
    pub fn nearest(&self, wish: i64) -> i64 {
        match self {
            Self::Any => wish.max(1),
            Self::OneOf(all) => {
                let below = all.iter().copied().filter(|&v| v <= wish).max();
                below.or(all.iter().copied().min()).unwrap_or(wish)
            }
            Self::Range { min, max, step } => {
                let wish = wish.clamp(*min, *max);
                wish - (wish - min) % step
            }
        }
    }

    /// Why no tunable can have it; `None` if one can.
    fn fault(&self) -> Option<String> {
        let least = match self {
            Self::Any => 1,
            Self::OneOf(all) => match all.iter().min() {
                Some(&least) => least,
                None => return Some("has no value to choose from".to_owned()),
            },
            Self::Range { min, max, step } if *step < 1 || min > max => {
                return Some(format!("has no value from {min} to {max} by steps of {step}"));
            }
            Self::Range { min, .. } => *min,
        };
        (least < 1).then(|| format!("may be {least}, must be 1 or more"))
    }
}

/// As a sentence ends: `64, 128 or 256`, `16 to 256 by steps of 16`.
impl Display for Domain {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("1 or more"),
            Self::OneOf(all) => {
                let all: Vec<String> = all.iter().map(ToString::to_string).collect();
                match all.split_last() {
                    Some((last, [])) => f.write_str(last),
                    Some((last, others)) => write!(f, "{} or {last}", others.join(", ")),
                    None => f.write_str("nothing"),
                }
            }
            Self::Range { min, max, step: 1 } => write!(f, "{min} to {max}"),
            Self::Range { min, max, step } => write!(f, "{min} to {max} by steps of {step}"),
        }
    }
}

impl TunableData {
    /// Why it cannot have a value; `None` if it can.
    pub fn refuses(&self, value: i64) -> Option<String> {
        let refused = !self.domain.contains(value);
        refused.then(|| format!("tunable `{}` is {value}, must be {}", self.name, self.domain))
    }

    /// What contradicts itself; `None` if nothing does.
    pub fn fault(&self) -> Option<String> {
        let empty = self.domain.fault().map(|why| format!("tunable `{}` {why}", self.name));
        empty.or_else(|| self.refuses(self.default))
    }
}

/// A named number of what is computed. Its uses are the number itself.
#[derive(Clone, Debug, PartialEq)]
pub struct ConstantData {
    /// Name.
    pub name: String,
    /// Value.
    pub value: Constant,
}

/// The value of a constant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Constant {
    /// A whole number.
    Int(i64),
    /// A float; no NaN.
    Float(f64),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domains_hold_their_values_alone() {
        let some = Domain::OneOf(vec![64, 128, 256]);
        let range = Domain::Range { min: 16, max: 250, step: 16 };
        let held = |d: &Domain| (0..=300).filter(|&v| d.contains(v)).count();
        assert_eq!((held(&Domain::Any), held(&some), held(&range)), (300, 3, 15));
        assert_eq!([1, 100, 999].map(|v| some.nearest(v)), [64, 64, 256]);
        assert_eq!([1, 100, 999].map(|v| range.nearest(v)), [16, 96, 240]);
        assert_eq!(some.to_string(), "64, 128 or 256");
        assert_eq!(range.to_string(), "16 to 250 by steps of 16");
    }

    #[test]
    fn contradictions_are_told() {
        let of = |domain, default| TunableData { name: "B".into(), default, domain }.fault();
        assert_eq!(of(Domain::Any, 1), None);
        assert_eq!(of(Domain::OneOf(vec![]), 1).unwrap(), "tunable `B` has no value to choose from");
        assert_eq!(of(Domain::OneOf(vec![0, 1]), 1).unwrap(), "tunable `B` may be 0, must be 1 or more");
        assert_eq!(of(Domain::OneOf(vec![2, 4]), 3).unwrap(), "tunable `B` is 3, must be 2 or 4");
        assert!(of(Domain::Range { min: 4, max: 8, step: 0 }, 4).is_some());
    }
}
