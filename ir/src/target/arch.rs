//! Architectures by their PTX names, and the refusal of instructions that a target lacks.

use super::Opcode;
use std::fmt;

/// A chip's architecture: the operand of `.target`.
///
/// An architecture runs the instructions of lower numbers. A name that ends in `a` has instructions that no other
/// architecture runs, not even later ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Arch {
    /// `90` of `sm_90a`.
    pub number: u16,
    /// Whether the name ends in `a`.
    pub specific: bool,
}

impl Arch {
    /// Reads `sm_90` or `sm_90a`; `None` for any other form.
    pub const fn from_name(name: &str) -> Option<Self> {
        let b = name.as_bytes();
        if b.len() < 4 || b.len() > 8 || b[0] != b's' || b[1] != b'm' || b[2] != b'_' {
            return None;
        }
        let specific = b[b.len() - 1] == b'a';
        let end = b.len() - specific as usize;
        let (mut number, mut i) = (0, 3);
        while i < end {
            if !b[i].is_ascii_digit() {
                return None;
            }
            number = 10 * number + (b[i] - b'0') as u16;
            i += 1;
        }
        if end == 3 { None } else { Some(Self { number, specific }) }
    }

    /// [`Arch::from_name`] for a name in a table.
    ///
    /// # Panics
    /// The name is invalid: a bug of the table, found at compile time.
    pub(super) const fn new(name: &str) -> Self {
        match Self::from_name(name) {
            Some(arch) => arch,
            None => panic!("no architecture of this name"),
        }
    }

    /// Whether it runs instructions that need `least`.
    pub fn runs(self, least: Self) -> bool {
        if least.specific { self == least } else { self.number >= least.number }
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sm_{}{}", self.number, if self.specific { "a" } else { "" })
    }
}

/// An instruction that a target lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("`{}` needs {}: the target is {target}", .opcode.name(), .opcode.least())]
pub struct Lacks {
    /// The instruction.
    pub opcode: Opcode,
    /// The target.
    pub target: Arch,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_printed() {
        for name in ["sm_80", "sm_90", "sm_90a", "sm_100a", "sm_120"] {
            assert_eq!(Arch::from_name(name).map(|a| a.to_string()).as_deref(), Some(name));
        }
        for name in ["", "sm_", "sm_a", "sm90", "compute_90", "sm_9x", "sm_90b", "sm_123456"] {
            assert_eq!(Arch::from_name(name), None, "{name}");
        }
    }

    #[test]
    fn a_specific_architecture_runs_what_no_other_runs() {
        let [ampere, hopper, specific, later] = ["sm_80", "sm_90", "sm_90a", "sm_100a"].map(Arch::new);
        assert!(specific.runs(ampere) && specific.runs(hopper) && specific.runs(specific));
        assert!(hopper.runs(ampere) && !hopper.runs(specific) && !ampere.runs(hopper));
        assert!(later.runs(hopper) && !later.runs(specific));
    }
}
