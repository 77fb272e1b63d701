//! Litmus tests: one small kernel for each row of the opcode table and for each hard feature of the
//! hardware, run in the simulator and on a GPU, and compared.
//!
//! ```text
//!  opcode table: syntax of a row ─ lanes, access ─┐
//!  lists of opcodes, modifiers, roundings ─ forms ┼─► Case: PTX, launch, input, checks
//!  bodies by hand ─ exchange, product, wgmma, tma ┘        │
//!                       ┌───────────────────────────────┬──┴─────────────────┐
//!                       ▼                               ▼                    ▼
//!      simulator, several orders of events             GPU        the definition, on the host
//!                       └─────── bit by bit, or within the error that the ISA states
//! ```
//!
//! The GPU's answers are recorded beside the cases (`recorded.txt`). They let the simulator be compared with the
//! hardware on machines without a GPU.

mod access;
mod approx;
mod case;
mod coverage;
mod exchange;
mod forms;
mod judge;
mod lanes;
mod product;
mod record;
mod run;
mod tma;
mod values;
mod wgmma;

pub use approx::{BOUNDS, Bound, Error, Format, Sample};
pub use case::{Case, Check, How, Near};
pub use coverage::{covering, instructions};
pub use judge::Difference;
pub use record::{Entry, Record};
pub use run::{judge, simulate};

use warplift_ir::target::SM90A;

/// All cases; names are unique.
pub fn cases() -> Vec<Case> {
    let mut out = Vec::new();
    for row in SM90A.rows() {
        let forms = lanes::Form::of_row(row);
        match forms.is_empty() {
            true => out.extend(access::of_row(row)),
            false => out.push(lanes::case(&format!("row/{}", row.opcode.name()), &forms)),
        }
    }
    out.extend(forms::cases());
    out.extend(exchange::cases());
    out.extend(product::cases());
    out.extend(wgmma::cases());
    out.extend(tma::cases());
    out
}

/// Cases by name, or by the family before a `/`.
///
/// # Errors
/// A name that is of no case.
pub fn select(names: &[String]) -> Result<Vec<Case>, String> {
    let all = cases();
    if names.is_empty() {
        return Ok(all);
    }
    let hit = |case: &Case, name: &str| {
        case.name == name || case.name.strip_prefix(name).is_some_and(|rest| rest.starts_with('/'))
    };
    if let Some(name) = names.iter().find(|n| !all.iter().any(|c| hit(c, n))) {
        return Err(format!("no litmus and no family of them is called `{name}`"));
    }
    Ok(all.into_iter().filter(|c| names.iter().any(|n| hit(c, n))).collect())
}
