//! Sizes that are classes: `m=1..64,n=4096,k=14336`.

use super::BundleError;
use crate::problem::Sizes;
use std::fmt;
use warplift_ir::tile::{Kernel, Type};

/// Sizes of a kernel's launches: each integer argument has one value, and at most one has a range.
#[derive(Clone, Debug, PartialEq)]
pub struct SizeClass {
    /// Integer arguments, in the order of the signature.
    names: Vec<String>,
    /// Least and greatest value of each.
    ranges: Vec<[i64; 2]>,
    /// Values of the range are multiples of this.
    step: i64,
    /// Values of float arguments.
    base: Sizes,
}

/// Names of the integer arguments, in the order of the signature.
pub(super) fn integers(kernel: &Kernel) -> Vec<String> {
    let integer = |ty| matches!(ty, Type::Scalar(e) if !e.is_float());
    kernel.params.iter().filter(|p| integer(kernel.ty(p.value))).map(|p| p.name.clone()).collect()
}

impl SizeClass {
    /// Reads `m=1..64,n=4096,k=14336`: every integer argument, once.
    ///
    /// # Errors
    /// A name that is none or is missing, no number, an empty range, a second range, a value that a fact excludes.
    pub fn parse(kernel: &Kernel, text: &str) -> Result<Self, BundleError> {
        let wrong = |why: String| BundleError::Sizes { text: text.to_owned(), why };
        let names = integers(kernel);
        let mut ranges = vec![None; names.len()];
        for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            let (name, value) = item
                .split_once('=')
                .ok_or_else(|| wrong(format!("`{item}` is no NAME=VALUE or NAME=A..B")))?;
            let at = names
                .iter()
                .position(|n| n == name.trim())
                .ok_or_else(|| wrong(format!("`{name}` is none of {}", names.join(", "))))?;
            if ranges[at].replace(range(value).map_err(wrong)?).is_some() {
                return Err(wrong(format!("`{name}` is given twice")));
            }
        }
        let missing = names.iter().zip(&ranges).find(|(_, range)| range.is_none());
        if let Some((name, _)) = missing {
            return Err(wrong(format!("`{name}` is missing: a class gives every integer argument")));
        }
        let ranges: Vec<[i64; 2]> = ranges.into_iter().flatten().collect();
        if ranges.iter().filter(|[a, b]| a != b).count() > 1 {
            return Err(wrong(
                "two arguments have ranges: one can; repeat the option for the other".to_owned(),
            ));
        }
        obeyed(kernel, &names, &ranges).map_err(wrong)?;
        let axis = ranges.iter().position(|[a, b]| a != b);
        let multiple =
            |name: &String| kernel.params.iter().find(|p| p.name == *name).map(|p| p.facts.multiple);
        let step = axis.and_then(|axis| multiple(&names[axis])).unwrap_or(1).max(1);
        let class = Self { names, ranges, step, base: Sizes::nominal(kernel) };
        match axis.is_some_and(|axis| class.down(class.ranges[axis][1]) < class.ranges[axis][0]) {
            true => Err(wrong(format!("the range holds no multiple of {step}"))),
            false => Ok(class),
        }
    }

    /// The greatest sizes of the class.
    pub fn greatest(&self) -> Sizes {
        self.at(self.samples().last().copied().unwrap_or(0))
    }

    /// The argument that has a range, by its place.
    pub(super) fn axis(&self) -> Option<usize> {
        self.ranges.iter().position(|[a, b]| a != b)
    }

    /// The arguments that have one value.
    pub fn fixed(&self) -> impl Iterator<Item = &str> {
        self.names.iter().zip(&self.ranges).filter(|(_, [a, b])| a == b).map(|(name, _)| name.as_str())
    }

    /// Least and greatest value of each argument.
    pub(super) fn ranges(&self) -> &[[i64; 2]] {
        &self.ranges
    }

    /// The sizes where the argument with a range has this value.
    pub(super) fn at(&self, value: i64) -> Sizes {
        let axis = self.axis();
        let of = |n: usize| if axis == Some(n) { value } else { self.ranges[n][0] };
        let each = self.names.iter().enumerate().map(|(n, name)| (name.as_str(), of(n)));
        self.base.clone().with_integers(each)
    }

    /// Values of the range at which mappings are chosen: its ends, and between them powers of two and half as much more.
    pub(super) fn samples(&self) -> Vec<i64> {
        let Some(axis) = self.axis() else { return vec![self.ranges.first().map_or(0, |r| r[0])] };
        let [least, most] = self.ranges[axis];
        let ends = [self.down(least.saturating_add(self.step - 1)), self.down(most)];
        let powers = (0..62)
            .flat_map(|p| [1_i64 << p, 3 << p])
            .filter(|v| (ends[0]..ends[1].max(ends[0])).contains(v));
        let mut all: Vec<i64> = powers.filter(|v| v % self.step == 0).chain(ends).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The greatest value up to this one that the argument's facts allow.
    pub(super) fn down(&self, value: i64) -> i64 {
        value - value.rem_euclid(self.step)
    }
}

/// As it is read: `m=1..64,n=4096,k=14336`.
impl fmt::Display for SizeClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&named(&self.names, &self.ranges))
    }
}

/// Ranges of arguments, those of one value as that value.
pub(super) fn named(names: &[String], ranges: &[[i64; 2]]) -> String {
    let range = |(name, &[least, most]): (&String, &[i64; 2])| match least == most {
        true => format!("{name}={least}"),
        false => format!("{name}={least}..{most}"),
    };
    names.iter().zip(ranges).map(range).collect::<Vec<_>>().join(",")
}

/// `4096`, or `1..64` with both ends.
fn range(text: &str) -> Result<[i64; 2], String> {
    let number = |t: &str| t.trim().parse::<i64>().map_err(|_| format!("`{}` is no whole number", t.trim()));
    let [least, most] = match text.split_once("..") {
        Some((a, b)) => [number(a)?, number(b.trim_start_matches('='))?],
        None => [number(text)?; 2],
    };
    match least <= most {
        true => Ok([least, most]),
        false => Err(format!("the range `{}` is empty", text.trim())),
    }
}

/// Whether both ends of each range obey the facts that say how large an argument may be, and single values all facts.
fn obeyed(kernel: &Kernel, names: &[String], ranges: &[[i64; 2]]) -> Result<(), String> {
    for (name, &[least, most]) in names.iter().zip(ranges) {
        let Some(facts) = kernel.params.iter().find(|p| p.name == *name).map(|p| p.facts) else { continue };
        if least < facts.min || most > facts.max {
            return Err(format!("`{name}` lies in {}..{} by its fact", facts.min, facts.max));
        }
        if least == most && least % facts.multiple.max(1) != 0 {
            return Err(format!("`{name}` is a multiple of {} by its fact, {least} is none", facts.multiple));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::find;

    fn kernel(name: &str) -> Kernel {
        find(name).unwrap().parse().unwrap().kernels.remove(0)
    }

    #[test]
    fn a_class_names_every_argument_and_at_most_one_range() {
        let gemm = kernel("gemm");
        let class = SizeClass::parse(&gemm, "m=1..100, n=4096, k=512").unwrap();
        assert_eq!(class.samples(), [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 100]);
        assert_eq!(class.at(7).to_string(), "m=7,n=4096,k=512");
        assert_eq!(
            (class.to_string().as_str(), class.greatest().int("m")),
            ("m=1..100,n=4096,k=512", Some(100))
        );
        assert_eq!(SizeClass::parse(&gemm, "m=1,n=8,k=8").unwrap().samples(), [1]);
        assert_eq!(SizeClass::parse(&gemm, "m=1,n=9..60,k=8").unwrap().samples(), [16, 24, 32, 48, 56]);
        for (text, why) in [
            ("m=1,n=8", "`k` is missing"),
            ("m=1,n=8,k=8,q=1", "`q` is none of m, n, k"),
            ("m=1,m=2,n=8,k=8", "`m` is given twice"),
            ("m=1..2,n=8..16,k=8", "two arguments have ranges"),
            ("m=9..8,n=8,k=8", "the range `9..8` is empty"),
            ("m=x,n=8,k=8", "`x` is no whole number"),
            ("m,n=8,k=8", "`m` is no NAME=VALUE"),
            ("m=1,n=9,k=8", "`n` is a multiple of 8 by its fact, 9 is none"),
            ("m=1,n=9..15,k=8", "the range holds no multiple of 8"),
            ("m=-1..4,n=8,k=8", "`m` lies in 0.."),
        ] {
            let error = SizeClass::parse(&gemm, text).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
