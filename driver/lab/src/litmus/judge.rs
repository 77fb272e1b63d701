//! Compares the contents of `out` from two machines, or from a machine and a definition.

use super::approx::Sample;
use super::case::{Case, Check, How, Near};

/// A difference: the first place, and the number of places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference(pub String);

fn word(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |v, b| v << 8 | u64::from(*b))
}

impl Case {
    /// The three b64 operands of a thread, where the instruction takes such.
    fn operands(&self, at: usize, count: usize) -> String {
        let whole = 8 * count;
        if self.input.len() != 3 * whole {
            return String::new();
        }
        let one = |i: usize| format!("{:#x}", word(&self.input[i * whole + 8 * at..][..8]));
        format!("({}, {}, {})", one(0), one(1), one(2))
    }

    /// Compares results that are defined bit by bit.
    ///
    /// # Errors
    /// The first difference.
    pub fn same(&self, names: [&str; 2], found: &[u8], wanted: &[u8]) -> Result<(), Difference> {
        if found.len() != wanted.len() {
            return Err(Difference(format!("{} bytes came back of {}", found.len(), wanted.len())));
        }
        self.checks.iter().try_for_each(|check| self.same_part(check, names, found, wanted))
    }

    fn same_part(
        &self,
        check: &Check,
        names: [&str; 2],
        found: &[u8],
        wanted: &[u8],
    ) -> Result<(), Difference> {
        let (found, wanted) = (check.exact(found), check.exact(wanted));
        let wrong: Vec<usize> = (0..found.len()).filter(|i| found[*i] != wanted[*i]).collect();
        let Some(&at) = wrong.first() else { return Ok(()) };
        Err(Difference(format!(
            "{}{}: word {at} is {:#x} ({}), {:#x} ({}); {} of {} differ",
            check.what,
            self.operands(at, found.len()),
            found[at],
            names[0],
            wanted[at],
            names[1],
            wrong.len(),
            found.len(),
        )))
    }

    /// Checks approximate results against their stated errors. Returns the largest error as a fraction of the allowed
    /// one.
    ///
    /// # Errors
    /// The first result outside of it.
    pub fn near(&self, name: &str, found: &[u8]) -> Result<f64, Difference> {
        let mut largest = 0.0f64;
        for check in &self.checks {
            let How::Near(near) = &check.how else { continue };
            for (at, bits) in found[check.bytes.clone()].chunks(8).enumerate() {
                let share = near.share(at, word(bits));
                if share > 1.0 {
                    let operands = self.operands(at, near.operands[0].len());
                    return Err(Difference(format!(
                        "{}{operands}: {:#x} ({name}) is {share:.2} times the stated error away",
                        check.what,
                        word(bits),
                    )));
                }
                largest = largest.max(share);
            }
        }
        Ok(largest)
    }
}

impl Near {
    /// The largest share of the elements of one word; 0 where nothing is stated.
    fn share(&self, at: usize, found: u64) -> f64 {
        let part = |v: u64, i: u32| if self.packed == 2 { v >> (16 * i) & 0xffff } else { v };
        let operand = |k: usize| self.operands[k].get(at).copied().unwrap_or(0);
        let shares = (0..self.packed).filter_map(|i| {
            let operands = [part(operand(0), i), part(operand(1), i)];
            self.bound.share(&Sample { flush: self.flush, operands, found: part(found, i) })
        });
        shares.fold(0.0, f64::max)
    }
}
