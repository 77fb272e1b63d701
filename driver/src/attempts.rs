//! What is given up before a kernel is refused: a table, and the loop over it.
//!
//! ```text
//!  all features ─ refused: registers ─┬─ without hoist-loads ─ refused
//!                                     ├─ without zero-point ─── compiles: taken, and the remark says why
//!                                     └─ ..
//!  a pass declines a feature ─ the same attempt again, without that feature
//! ```
//!
//! Nothing that the text or the mapping asks for is given up: a feature is what the compiler does by itself.
//! The first refusal is the one that a user sees where no attempt compiles.

use crate::error::CompileError;
use crate::features::Feature;
use std::fmt;
use warplift_isel::Feature as Isel;
use warplift_sched::Feature as Sched;

/// What a refusal is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A role needs more registers than it may use.
    Registers,
    /// Any other limit, or something that no stage selects.
    Other,
}

const ZERO_POINT: Feature = Feature::Isel(Isel::ZeroPoint);
const STAGING: Feature = Feature::Isel(Isel::SmemStaging);
const SUBTILES: Feature = Feature::Sched(Sched::ElementwiseSubtiles);
const HOIST: Feature = Feature::Sched(Sched::HoistLoads);

/// A refusal, and what is given up after it.
pub type Row = (Refusal, &'static [Feature]);

/// After which refusal, what is given up, in this order. Elementwise subtiles matter to registers alone.
const TABLE: &[Row] = &[
    (Refusal::Registers, &[HOIST]),
    (Refusal::Registers, &[ZERO_POINT]),
    (Refusal::Registers, &[SUBTILES]),
    (Refusal::Registers, &[ZERO_POINT, SUBTILES]),
    (Refusal::Registers, &[STAGING, SUBTILES]),
    (Refusal::Registers, &[ZERO_POINT, STAGING, SUBTILES]),
    (Refusal::Other, &[STAGING]),
    (Refusal::Other, &[ZERO_POINT]),
];

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Registers => "registers",
            Self::Other => "another limit",
        })
    }
}

/// The table, for documents.
pub fn rows() -> &'static [Row] {
    TABLE
}

/// One try at a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// Features given up, beside those that the caller disabled.
    pub without: Vec<Feature>,
    /// Why it was refused or declined; `None`: it compiled.
    pub refused: Option<String>,
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.without[..] {
            [] => f.write_str("with all features: ")?,
            given => write!(f, "without {}: ", names(given))?,
        }
        f.write_str(self.refused.as_deref().unwrap_or("compiles"))
    }
}

/// Features by their names.
pub(crate) fn names(features: &[Feature]) -> String {
    let names: Vec<String> = features.iter().map(|f| format!("`{f}`")).collect();
    names.join(" and ")
}

/// What an error lets be given up; `None` for user mistakes and bugs.
fn refusal(error: &CompileError) -> Option<Refusal> {
    match error {
        CompileError::Registers(_) => Some(Refusal::Registers),
        e => e.is_refusal().then_some(Refusal::Other),
    }
}

/// Makes attempts until one compiles or the table ends; `made` takes what became of each. `once` compiles without some
/// features, as the attempt of a number.
///
/// # Errors
/// The first refusal, or the first error that is none.
pub(crate) fn attempt<T>(
    disabled: &[Feature],
    made: &mut Vec<Attempt>,
    mut once: impl FnMut(&[Feature], usize) -> Result<T, CompileError>,
) -> Result<T, CompileError> {
    let (mut rows, mut without) = (TABLE.iter(), Vec::new());
    let mut first: Option<CompileError> = None;
    let last = loop {
        let result = once(&[disabled, &without].concat(), made.len());
        let refused = result.as_ref().err().map(ToString::to_string);
        made.push(Attempt { without: without.clone(), refused });
        let error = match result {
            Ok(done) => return Ok(done),
            // A pass that declines a feature does not see it again.
            Err(CompileError::Declined { feature, .. }) => {
                without.push(feature);
                continue;
            }
            Err(error) if refusal(&error).is_none() => return Err(error),
            Err(error) => error,
        };
        let about = refusal(first.get_or_insert(error));
        let gives = |row: &&Row| Some(row.0) == about && row.1.iter().any(|f| !disabled.contains(f));
        match rows.find(gives) {
            Some((_, given)) => without = given.to_vec(),
            None => break first,
        }
    };
    // The loop ends behind a refusal alone.
    last.map_or_else(|| unreachable!("no attempt was made"), Err)
}
