//! What requirements on arguments say of integers.

use crate::Fact;

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
