//! Errors: functions that do not fit their budget, and requests that no allocation can fulfil.

use std::fmt;
use warplift_ir::machine::{Inst, Ty};
use warplift_ir::tile::Loc;

/// A value that is live at the point of highest pressure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heavy {
    /// Its name in the function, `r12` or the name that a frontend gave.
    pub name: String,
    /// Its type.
    pub ty: Ty,
    /// 32-bit registers that it takes.
    pub registers: u32,
    /// The place in the kernel's text of what makes it; line 0 if it has none.
    pub loc: Loc,
}

/// The largest values at the point of highest pressure, largest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heaviest(pub Vec<Heavy>);

impl fmt::Display for Heaviest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut places: Vec<(Loc, u32)> = Vec::new();
        for h in &self.0 {
            match places.iter_mut().find(|p| p.0 == h.loc) {
                Some(place) => place.1 += h.registers,
                None => places.push((h.loc, h.registers)),
            }
        }
        for (i, (loc, registers)) in places.iter().enumerate() {
            write!(f, "{}{registers} for ", if i == 0 { "" } else { ", " })?;
            match loc.line {
                0 => f.write_str("what loops and branches carry")?,
                line => write!(f, "the result of {line}:{}", loc.column)?,
            }
        }
        Ok(())
    }
}

/// A place in the text, or the instruction where there is none.
fn spot(loc: Loc, inst: Inst) -> String {
    match loc.line {
        0 => format!("at {inst}"),
        line => format!("at {line}:{}", loc.column),
    }
}

/// Why an allocation failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegallocError {
    /// More registers are live at once than the role may use. The mapping asks for too much.
    #[error(
        "a thread of role `{role}` needs {needed} registers, {limit} are possible: take smaller tiles, extents that are \
         powers of two, or more warps. Most are needed {}: {values}", spot(*.loc, *.at)
    )]
    Budget {
        /// Role.
        role: String,
        /// Registers that it may use.
        limit: u32,
        /// Registers that it needs.
        needed: u32,
        /// The point of highest pressure.
        at: Inst,
        /// Its place in the kernel's text; line 0 if it has none.
        loc: Loc,
        /// The largest values there.
        values: Heaviest,
    },
    /// More scalars of one class are live than the class has names.
    #[error(
        "a thread of role `{role}` needs more than the {limit} {class} registers there are: take smaller tiles or more warps, \
         so that it accesses fewer rows"
    )]
    Names {
        /// Role.
        role: String,
        /// `32-bit`, `64-bit`, `predicate`.
        class: &'static str,
        /// Names of that class.
        limit: u32,
    },
    /// An accumulator would have to move while its product is in flight.
    #[error("role `{role}`, {inst}: {value} would have to move while `wgmma` still writes it")]
    InFlight {
        /// Role.
        role: String,
        /// The branch or product that would move it.
        inst: Inst,
        /// Value.
        value: String,
    },
    /// The function is not valid input of the allocation: a bug of an earlier stage.
    #[error("role `{role}`, {inst}: {what}")]
    Malformed {
        /// Role.
        role: String,
        /// Instruction.
        inst: Inst,
        /// The mistake.
        what: &'static str,
    },
    /// The scalar allocator gave up or its result is wrong: a bug of this crate.
    #[error("role `{role}`: scalars: {what}")]
    Scalars {
        /// Role.
        role: String,
        /// Its message.
        what: String,
    },
    /// The roles' `setmaxnreg` ask for more registers than the block has at entry. The launch would hang.
    #[error(
        "the roles ask for {asked} registers, the block has {pool} ({threads} threads with {entry} at entry)"
    )]
    Pool {
        /// Registers of all roles times their threads.
        asked: u32,
        /// Registers at entry times threads.
        pool: u32,
        /// Threads of a block.
        threads: u32,
        /// Registers of a thread at entry.
        entry: u32,
    },
    /// A register count that `setmaxnreg` does not accept.
    #[error(
        "role `{role}` asks for {registers} registers; possible are multiples of {step} from {least} to {most}"
    )]
    Count {
        /// Role.
        role: String,
        /// The requested count.
        registers: u32,
        /// The count must be a multiple of this.
        step: u32,
        /// Least count.
        least: u32,
        /// Greatest count.
        most: u32,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_are_told_by_places_in_the_text() {
        let heavy = |registers, line| Heavy {
            name: "r456".to_owned(),
            ty: Ty::B32,
            registers,
            loc: Loc { line, column: 14 },
        };
        let carried = Heavy { loc: Loc::default(), ..heavy(124, 0) };
        let all = Heaviest(vec![carried.clone(), carried, heavy(64, 19), heavy(2, 7), heavy(2, 19)]);
        let said =
            "248 for what loops and branches carry, 66 for the result of 19:14, 2 for the result of 7:14";
        assert_eq!(all.to_string(), said);
    }
}
