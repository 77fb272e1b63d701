//! Contents that the user gives to arrays, as `--data NAME=CONTENTS` says them.
//!
//! ```text
//!  normal           standard normal numbers        zeros           nothing but 0
//!  ints:LO..HI      integers, each as likely       sorted:LO..HI   the same, in ascending order
//!  perm             0, 1, 2 .. once each, mixed    zipf:S:LO..HI   LO most often, by Zipf's law with exponent S
//!  list:0,0,1,-1    these integers                 FILE.npy        an array that NumPy saved
//!                                                  `..=` includes the end
//! ```
//!
//! What is not given is drawn by its use ([`super::usual`]) or at random. Contents that an array's type cannot hold are refused.

use super::npy::{self, Stored};
use super::{Operand, ProblemError};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_distr::{StandardNormal, Zipf};
use std::path::PathBuf;
use std::str::FromStr;
use warplift::predict::Arrays;
use warplift_ir::interp::{Memory, Number};
use warplift_ir::types::Elem;

/// What an array holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Contents {
    /// Standard normal numbers.
    Normal,
    /// Nothing but zeros.
    Zeros,
    /// Integers of a range, both ends included, each as likely.
    Integers(i64, i64),
    /// The numbers from 0 up, once each, in random order.
    Permutation,
    /// Integers of a range in ascending order.
    Sorted(i64, i64),
    /// Integers of a range by Zipf's law: the exponent, and both ends.
    Zipf(f64, i64, i64),
    /// These integers, one for each element.
    List(Vec<i64>),
    /// A file of NumPy.
    File(PathBuf),
}

/// Contents of arrays, by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Given(Vec<(String, Contents)>);

impl Given {
    /// Reads `NAME=CONTENTS` each.
    ///
    /// # Errors
    /// Contents that are none of those known, a name given twice.
    pub fn parse<'t>(texts: impl IntoIterator<Item = &'t str>) -> Result<Self, ProblemError> {
        let mut all: Vec<(String, Contents)> = Vec::new();
        for text in texts {
            let (name, contents) = text
                .split_once('=')
                .ok_or_else(|| wrong(format!("`{text}`: expected NAME=CONTENTS, as in x=ints:0..8")))?;
            if all.iter().any(|(n, _)| n == name) {
                return Err(wrong(format!("the data of `{name}` are given twice")));
            }
            all.push((name.to_owned(), contents.parse()?));
        }
        Ok(Self(all))
    }

    /// The same and these, where the arrays are not given.
    pub(super) fn completed(mut self, others: Vec<(String, Contents)>) -> Self {
        let more = others.into_iter().filter(|(name, _)| self.of(name).is_none());
        let more: Vec<_> = more.collect();
        self.0.extend(more);
        self
    }

    /// Whether nothing is given.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The contents of an array, where they are given.
    pub fn of(&self, name: &str) -> Option<&Contents> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, c)| c)
    }

    /// Whether every name is that of an array that is read.
    ///
    /// # Errors
    /// The first that is not.
    pub fn check(&self, operands: &[Operand]) -> Result<(), ProblemError> {
        let read = |name: &str| operands.iter().any(|o| o.read && o.name == name);
        let Some((name, _)) = self.0.iter().find(|(n, _)| !read(n)) else { return Ok(()) };
        let names: Vec<&str> = operands.iter().filter(|o| o.read).map(|o| o.name.as_str()).collect();
        Err(wrong(format!("data of `{name}`: the arrays that the kernel reads are {}", names.join(", "))))
    }

    /// The bytes of the arrays that are given, as a run with this seed has them.
    ///
    /// # Errors
    /// A name that is no array that is read, contents that an array cannot hold, a file that cannot be read.
    pub fn arrays(&self, operands: &[Operand], seed: u64) -> Result<Arrays, ProblemError> {
        self.check(operands)?;
        let given = operands.iter().enumerate().filter_map(|(i, o)| Some((i, o, self.of(&o.name)?)));
        given.map(|(i, o, contents)| Ok((o.name.clone(), drawn(o, contents, seed_of(seed, i))?))).collect()
    }

    /// Whether results that are exact on small integers are exact on these: floats are then such integers.
    pub fn keeps_exact(&self, operands: &[Operand], most: i64) -> bool {
        let small = |(name, contents): &(String, Contents)| {
            let float = operands.iter().any(|o| o.name == *name && o.elem.is_float());
            match contents {
                Contents::Zeros => true,
                Contents::Normal | Contents::File(_) => false,
                Contents::Integers(lo, hi) | Contents::Sorted(lo, hi) | Contents::Zipf(_, lo, hi) => {
                    !float || (-most..=most).contains(lo) && (-most..=most).contains(hi)
                }
                Contents::List(all) => !float || all.iter().all(|v| (-most..=most).contains(v)),
                Contents::Permutation => !float,
            }
        };
        self.0.iter().all(small)
    }
}

impl FromStr for Contents {
    type Err = ProblemError;

    fn from_str(text: &str) -> Result<Self, ProblemError> {
        let parts: Vec<&str> = text.split(':').collect();
        Ok(match parts[..] {
            ["normal"] => Self::Normal,
            ["zeros"] => Self::Zeros,
            ["perm"] => Self::Permutation,
            ["ints", range] => ends(range).map(|(lo, hi)| Self::Integers(lo, hi))?,
            ["sorted", range] => ends(range).map(|(lo, hi)| Self::Sorted(lo, hi))?,
            ["zipf", exponent, range] => {
                let read = exponent.parse().ok().filter(|s: &f64| s.is_finite() && *s >= 0.0);
                let exponent = read.ok_or_else(|| {
                    wrong(format!("`{text}`: the exponent `{exponent}` is no number from 0"))
                })?;
                ends(range).map(|(lo, hi)| Self::Zipf(exponent, lo, hi))?
            }
            ["list", numbers] => {
                let all: Option<Vec<i64>> = numbers.split(',').map(|n| n.trim().parse().ok()).collect();
                Self::List(
                    all.ok_or_else(|| wrong(format!("`{text}`: expected integers, as in list:0,0,1")))?,
                )
            }
            _ if text.ends_with(".npy") => Self::File(text.into()),
            _ => {
                return Err(wrong(format!(
                    "`{text}`: arrays hold normal, zeros, perm, ints:LO..HI, sorted:LO..HI, zipf:S:LO..HI, list:A,B,.. or FILE.npy"
                )));
            }
        })
    }
}

/// Both ends of `LO..HI` or `LO..=HI`.
fn ends(text: &str) -> Result<(i64, i64), ProblemError> {
    let (lo, hi, open) = match text.split_once("..=") {
        Some((lo, hi)) => (lo, hi, 0),
        None => text.split_once("..").map_or(("", "", 1), |(lo, hi)| (lo, hi, 1)),
    };
    let read = lo.trim().parse().ok().zip(hi.trim().parse::<i64>().ok());
    let read = read.and_then(|(lo, hi): (i64, i64)| Some((lo, hi.checked_sub(open)?)));
    let (lo, hi) = read.ok_or_else(|| wrong(format!("`{text}`: expected LO..HI, as in 0..8 or -2..=2")))?;
    match lo <= hi && lo.abs().max(hi.abs()) <= EXACT {
        true => Ok((lo, hi)),
        false => Err(wrong(format!("`{text}` holds no number, or numbers beyond 2^53"))),
    }
}

/// Integers up to here are exact in an f64.
const EXACT: i64 = 1 << 53;

/// The bytes of an array with these contents.
///
/// # Errors
/// Numbers that the array's type cannot hold; a file that cannot be read or has another length.
pub(super) fn drawn(operand: &Operand, contents: &Contents, seed: u64) -> Result<Vec<u8>, ProblemError> {
    let values = values(operand, contents, &mut StdRng::seed_from_u64(seed))?;
    let (name, elem) = (&operand.name, operand.elem);
    let number = |v: &Stored| {
        stored(elem, *v).ok_or_else(|| {
            let value = match v {
                Stored::Whole(v) => v.to_string(),
                Stored::Real(v) => v.to_string(),
            };
            wrong(format!("data of `{name}`: {value} does not fit {elem}"))
        })
    };
    let numbers = values.iter().map(number).collect::<Result<Vec<_>, _>>()?;
    let mut memory = Memory::new();
    let id = memory.add_numbers("", elem, &numbers);
    Ok(memory.bytes(id).to_vec())
}

/// A number as elements of a type hold it: floats the nearest one, integers its whole part.
fn stored(elem: Elem, value: Stored) -> Option<Number> {
    if elem.is_float() {
        return Some(Number::Float(value.as_f64()));
    }
    let whole = match value {
        Stored::Whole(v) => v,
        Stored::Real(v) if v.is_nan() => return None,
        Stored::Real(v) => v.trunc() as i128,
    };
    let (bits, signed) = (elem.bits(), elem.is_signed());
    let (least, end) = if signed { (-(1i128 << (bits - 1)), 1 << (bits - 1)) } else { (0, 1i128 << bits) };
    (least..end).contains(&whole).then_some(Number::Int(whole as i64))
}

/// The seed of one array.
pub(super) fn seed_of(seed: u64, array: usize) -> u64 {
    seed.wrapping_mul(1000).wrapping_add(array as u64)
}

fn values(operand: &Operand, contents: &Contents, rng: &mut StdRng) -> Result<Vec<Stored>, ProblemError> {
    let count = operand.elements as usize;
    let whole = |v: i64| Stored::Whole(v.into());
    let mut uniform = |lo: i64, hi: i64| (0..count).map(|_| rng.random_range(lo..=hi)).collect::<Vec<_>>();
    Ok(match contents {
        Contents::Zeros => vec![Stored::Whole(0); count],
        Contents::Integers(lo, hi) => uniform(*lo, *hi).into_iter().map(whole).collect(),
        Contents::Sorted(lo, hi) => {
            let mut all = uniform(*lo, *hi);
            all.sort_unstable();
            all.into_iter().map(whole).collect()
        }
        Contents::Normal if !operand.elem.is_float() => {
            return Err(wrong(format!(
                "data of `{}`: {} holds no normal numbers",
                operand.name, operand.elem
            )));
        }
        Contents::Normal => (0..count).map(|_| Stored::Real(rng.sample(StandardNormal))).collect(),
        Contents::Permutation => {
            let mut all: Vec<Stored> = (0..count).map(|i| Stored::Whole(i as i128)).collect();
            all.shuffle(rng);
            all
        }
        Contents::Zipf(exponent, lo, hi) => {
            let law = Zipf::new((hi - lo + 1) as f64, *exponent).map_err(|e| wrong(e.to_string()))?;
            (0..count).map(|_| Stored::Real(*lo as f64 + rng.sample(law) - 1.0)).collect()
        }
        Contents::List(all) if all.len() != count => {
            let (name, found) = (&operand.name, all.len());
            return Err(wrong(format!("a list of {found} elements; `{name}` has {count} at these sizes")));
        }
        Contents::List(all) => all.iter().copied().map(whole).collect(),
        Contents::File(path) => {
            let all = npy::read(path).map_err(wrong)?;
            if all.len() != count {
                let (name, path, found) = (&operand.name, path.display(), all.len());
                return Err(wrong(format!(
                    "{path} holds {found} elements; `{name}` has {count} at these sizes"
                )));
            }
            all
        }
    })
}

fn wrong(message: String) -> ProblemError {
    ProblemError::Sizes(message)
}

#[cfg(test)]
mod tests {
    use super::super::data::element;
    use super::*;

    fn operand(elem: Elem, elements: u64) -> Operand {
        Operand { elements, read: true, ..Operand::new("x", elem) }
    }

    fn made(elem: Elem, contents: &str) -> Result<Vec<f64>, String> {
        let operand = operand(elem, 1000);
        let contents = contents.parse().map_err(|e: ProblemError| e.to_string())?;
        let bytes = drawn(&operand, &contents, 7).map_err(|e| e.to_string())?;
        Ok((0..1000).filter_map(|i| element(&bytes, i, elem)).map(|n| n.as_f64()).collect())
    }

    #[test]
    fn contents_are_what_they_say() {
        let ints = made(Elem::Int(4), "ints:-8..8").unwrap();
        assert!(ints.contains(&-8.0) && ints.contains(&7.0), "{ints:?}");
        let sorted = made(Elem::I32, "sorted:0..=50").unwrap();
        assert!(sorted.is_sorted() && sorted[0] < 5.0 && sorted[999] > 45.0 && sorted[999] <= 50.0);
        let mut perm = made(Elem::I32, "perm").unwrap();
        assert!(!perm.is_sorted());
        perm.sort_by(f64::total_cmp);
        assert!(perm.iter().enumerate().all(|(i, v)| *v == i as f64));
        let zipf = made(Elem::I32, "zipf:1.5:10..100").unwrap();
        let count = |v: f64| zipf.iter().filter(|z| **z == v).count();
        assert!(count(10.0) > 2 * count(11.0) && zipf.iter().all(|z| (10.0..100.0).contains(z)));
        assert_eq!(made(Elem::F16, "zeros").unwrap(), [0.0; 1000]);
        let normal = made(Elem::F32, "normal").unwrap();
        assert!(normal.iter().any(|v| *v < -1.0) && normal.iter().any(|v| v.fract() != 0.0));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for (elem, contents, message) in [
            (Elem::Int(4), "ints:0..9", "8 does not fit i4"),
            (Elem::I32, "normal", "holds no normal numbers"),
            (Elem::I32, "ints:3..3", "`3..3` holds no number"),
            (Elem::I32, "ints:3", "expected LO..HI"),
            (Elem::I32, "zipf:x:0..3", "the exponent `x`"),
            (Elem::I32, "uniform", "arrays hold normal, zeros, perm"),
            (Elem::I32, "no.npy", "reading no.npy"),
        ] {
            let error = made(elem, contents).unwrap_err();
            assert!(error.contains(message), "{error}");
        }
        for (texts, message) in
            [(&["x"][..], "expected NAME=CONTENTS"), (&["x=perm", "x=zeros"], "given twice")]
        {
            let error = Given::parse(texts.iter().copied()).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
        let given = Given::parse(["y=perm"]).unwrap();
        let error = given.check(&[operand(Elem::I32, 3)]).unwrap_err().to_string();
        assert!(error.contains("data of `y`: the arrays that the kernel reads are x"), "{error}");
    }

    #[test]
    fn floats_stay_exact_on_small_integers_alone() {
        let exact = |elem, contents: &str| {
            Given::parse([format!("x={contents}").as_str()]).unwrap().keeps_exact(&[operand(elem, 3)], 2)
        };
        assert!(
            exact(Elem::F16, "ints:-2..=2") && exact(Elem::I32, "ints:0..999") && exact(Elem::I32, "perm")
        );
        assert!(!exact(Elem::F16, "ints:0..9") && !exact(Elem::F16, "normal") && !exact(Elem::F16, "perm"));
    }
}
