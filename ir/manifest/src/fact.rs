//! What requirements on arguments say of integers.

use crate::Fact;
use std::fmt;

impl Fact {
    /// Whether the values of integer arguments break the requirement. What is not known, and all that is required of
    /// pointers, breaks nothing.
    pub fn excludes(&self, vars: &dyn Fn(&str) -> Option<i64>) -> bool {
        match self {
            Self::Range { name, min, max } => vars(name).is_some_and(|v| !(*min..=*max).contains(&v)),
            Self::Multiple { name, of } => vars(name).is_some_and(|v| v.checked_rem(*of) != Some(0)),
            Self::Limit { value, min, max, .. } => {
                value.eval(vars).is_ok_and(|v| !(*min..=*max).contains(&v))
            }
            Self::Aligned { .. } | Self::Disjoint { .. } => false,
        }
    }
}

/// The requirement, as a sentence that a message may end with.
impl fmt::Display for Fact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Aligned { name, align } => write!(f, "`{name}` must be aligned to {align} bytes"),
            Self::Multiple { name, of } => write!(f, "`{name}` must be a multiple of {of}"),
            Self::Range { name, min, max } => write!(f, "`{name}` must be in {min}..={max}"),
            Self::Limit { what, value, min, max } => {
                write!(f, "{what} (`{value}`) must be in {min}..={max}")
            }
            Self::Disjoint { written, other } => {
                write!(f, "`{other}` must lie apart from `{written}`, which is written")
            }
        }
    }
}
