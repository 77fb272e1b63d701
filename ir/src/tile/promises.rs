//! What a mapping assumes of arguments beyond the facts of the kernel's text.
//!
//! ```text
//!  kernel f(a: ptr<f16>, k: i32)      mapping f { assume a align 16 }      f(a: ptr<f16> align 16, k: i32 % 8)
//!                                                 assume k % 8         ─►
//! ```
//!
//! A text for all sizes has few facts, so it gets narrow loads. A mapping for sizes that are known may assume more, and every
//! stage reads that as facts of the text. The manifest lists them, and a launch that breaks one is refused.

use super::{Assumption, Facts, Kernel, Mapping, ParamData, Type};
use serde::{Deserialize, Serialize};
use std::fmt;

/// What is assumed of one argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Promise {
    /// A pointer is a multiple of so many bytes, a power of two.
    Align(u64),
    /// An integer is a multiple, or in a range.
    Number(Assumption),
}

impl Promise {
    /// Whether an integer is as assumed; what is assumed of pointers says nothing of it.
    pub fn holds(&self, number: i64) -> bool {
        match self {
            Self::Align(_) => true,
            Self::Number(assumed) => assumed.holds(number.into()),
        }
    }

    /// Whether it is of an argument of this type.
    pub(super) fn suits(&self, ty: Type) -> bool {
        match self {
            Self::Align(_) => matches!(ty, Type::Ptr(_)),
            Self::Number(_) => matches!(ty, Type::Scalar(e) if e.is_int()),
        }
    }

    /// Facts and the promise together; `None` if no argument obeys both, or nothing can be a multiple of it.
    pub(super) fn with(&self, facts: Facts) -> Option<Facts> {
        match *self {
            Self::Align(align) => {
                align.is_power_of_two().then_some(Facts { align: facts.align.max(align), ..facts })
            }
            Self::Number(Assumption { multiple, min, max }) => {
                let (min, max) = (min.max(facts.min), max.min(facts.max));
                let multiple =
                    Some(multiple).filter(|&m| m > 0).and_then(|m| least_multiple(facts.multiple, m))?;
                let wide = [min, max, multiple].map(i128::from);
                let first = wide[0] + (-wide[0]).rem_euclid(wide[2]);
                (first <= wide[1]).then_some(Facts { multiple, min, max, ..facts })
            }
        }
    }
}

/// ` align 16`, ` % 8 in 0..=64`
impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Align(align) => write!(f, " align {align}"),
            Self::Number(assumed) => assumed.fmt(f),
        }
    }
}

/// The least number that both divide.
fn least_multiple(a: i64, b: i64) -> Option<i64> {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    a.checked_div(x)?.checked_mul(b)
}

impl Kernel {
    /// Makes facts of what a mapping assumes. What contradicts the text's facts is for the verifier, and stays out.
    pub fn assume(&mut self, mapping: &Mapping) {
        for (name, promise) in &mapping.promises {
            let of = |p: &&mut ParamData| p.name == *name;
            if let Some(param) = self.params.iter_mut().find(of) {
                param.facts = promise.with(param.facts).unwrap_or(param.facts);
            }
        }
    }

    /// A copy of which what a mapping assumes are facts, as for sizes that obey it.
    pub fn assuming(&self, mapping: &Mapping) -> Self {
        let mut kernel = self.clone();
        kernel.assume(mapping);
        kernel
    }
}

impl Mapping {
    /// Whether sizes are as the mapping assumes; of what has no size nothing is known.
    pub fn admits(&self, size: impl Fn(&str) -> Option<i64>) -> bool {
        self.promises.iter().all(|(name, promise)| size(name).is_none_or(|v| promise.holds(v)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{parse_file, verify_mapping};
    use crate::target::SM90A;

    const KERNEL: &str = "kernel f(a: ptr<f16> align 4, s: f32, k: i32 % 6, n: i32 in 1..=64) {
    grid k
    ga = view a : f16[k]
}
";

    fn verified(items: &str) -> Result<crate::tile::Kernel, String> {
        let module =
            parse_file(&format!("{KERNEL}mapping f {{ {items} }}"), "").map_err(|e| e.to_string())?;
        let (mut kernel, mapping) = (module.kernels[0].clone(), &module.mappings[0]);
        verify_mapping(&kernel, mapping, &SM90A).map_err(|all| all[0].message.clone())?;
        kernel.assume(mapping);
        Ok(kernel)
    }

    #[test]
    fn promises_join_the_facts_of_the_text() {
        let kernel = verified("assume a align 16, assume k % 4 in 0..=300, assume n in 8..").unwrap();
        let [a, _, k, n] = [0, 1, 2, 3].map(|i| kernel.params[i].facts);
        assert_eq!((a.align, k.multiple, k.min, k.max), (16, 12, 0, 300));
        assert_eq!((n.multiple, n.min, n.max), (1, 8, 64));
        let weaker = verified("assume a align 2, assume n % 1 in 0..100").unwrap();
        assert_eq!((weaker.params[0].facts.align, weaker.params[3].facts.max), (4, 64));
    }

    /// A frontend builds mappings without the parser.
    #[test]
    fn numbers_that_nothing_is_a_multiple_of_are_refused() {
        use crate::tile::{Assumption, Promise};
        let module = parse_file(&format!("{KERNEL}mapping f {{ assume k % 6 }}"), "").unwrap();
        for multiple in [0, -8] {
            let mut mapping = module.mappings[0].clone();
            mapping.promises[0].1 = Promise::Number(Assumption { multiple, ..Assumption::default() });
            assert!(verify_mapping(&module.kernels[0], &mapping, &SM90A).is_err(), "{multiple}");
        }
        let mut mapping = module.mappings[0].clone();
        mapping.promises[0] = ("a".to_owned(), Promise::Align(12));
        assert!(verify_mapping(&module.kernels[0], &mapping, &SM90A).is_err());
    }

    #[test]
    fn what_cannot_be_assumed_is_refused_with_the_reason() {
        for (items, why) in [
            ("assume b align 16", "kernel `f` has no argument `b`"),
            ("assume a % 8", "`a` is ptr<f16>; a pointer has `align`, an integer `%` and `in`"),
            ("assume k align 8", "`k` is i32; a pointer has `align`"),
            ("assume s % 8", "`s` is f32"),
            ("assume n in 65..80", "contradicts the facts of `n`"),
            ("assume k % 9223372036854775807", "contradicts the facts of `k`"),
            ("assume k % 48 in 1..=47", "contradicts the facts of `k`"),
            ("assume n % 128", "contradicts the facts of `n`"),
            ("assume a align 12", "12 is no power of two"),
            ("assume k", "expected `% 8` or `in 0..64`"),
            ("assume k % 8, assume k in 0..9", "`k` is mapped already"),
            ("assume k % 0", "0 must be at least 1"),
        ] {
            let error = verified(items).unwrap_err();
            assert!(error.contains(why), "{items}: {error}");
        }
    }

    #[test]
    fn a_mapping_admits_the_sizes_that_it_assumes() {
        let module =
            parse_file(&format!("{KERNEL}mapping f {{ assume a align 16, assume k % 8 }}"), "").unwrap();
        let admits = |k| module.mappings[0].admits(|name| (name == "k").then_some(k));
        assert_eq!([8, 24, 12, 0].map(admits), [true, true, false, true]);
    }
}
