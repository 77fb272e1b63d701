//! Attempts: a table of the features to give up before a kernel is refused, and the loop over it.
//!
//! ```text
//!  all features ─ refused: registers ─┬─ without hoist-loads ─ refused
//!                                     ├─ without zero-point ─── compiles: taken, and the remark says why
//!                                     └─ ..
//!  a pass declines a feature ─ the same attempt again, without that feature
//! ```
//!
//! An attempt never gives up anything that the text or the mapping asks for. A feature is an optimization that the
//! compiler applies by itself. If no attempt compiles, the user sees the first refusal.

use crate::error::CompileError;
use crate::features::Feature;
use std::fmt;
use warplift_isel::Feature as Isel;
use warplift_sched::Feature as Sched;

/// The subject of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A role needs more registers than it may use.
    Registers,
    /// The kernel exceeds any other limit, or no stage selects an operation.
    Other,
}

const ZERO_POINT: Feature = Feature::Isel(Isel::ZeroPoint);
const STAGING: Feature = Feature::Isel(Isel::SmemStaging);
const SUBTILES: Feature = Feature::Sched(Sched::ElementwiseSubtiles);
const MODULO: Feature = Feature::Sched(Sched::Modulo);
const HOIST: Feature = Feature::Sched(Sched::HoistLoads);

/// A refusal, and the features to give up after it.
pub type Row = (Refusal, &'static [Feature]);

/// The features to give up after each refusal, in this order. Elementwise subtiles affect registers only.
const TABLE: &[Row] = &[
    (Refusal::Registers, &[HOIST]),
    (Refusal::Registers, &[ZERO_POINT]),
    (Refusal::Registers, &[SUBTILES]),
    (Refusal::Registers, &[ZERO_POINT, SUBTILES]),
    (Refusal::Registers, &[STAGING, SUBTILES]),
    (Refusal::Registers, &[ZERO_POINT, STAGING, SUBTILES]),
    (Refusal::Registers, &[MODULO]),
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

/// The table, for the documentation.
pub fn rows() -> &'static [Row] {
    TABLE
}

/// One attempt at a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// Features given up in addition to those that the caller disabled.
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

/// The row that an error selects in the table; `None` for user mistakes and bugs.
fn refusal(error: &CompileError) -> Option<Refusal> {
    match error {
        CompileError::Registers(_) => Some(Refusal::Registers),
        e => e.is_refusal().then_some(Refusal::Other),
    }
}

/// Makes attempts until one compiles, the table ends, or `most` were refused, and records their outcomes in `made`. `once` compiles without
/// some features; it gets the number of the attempt.
///
/// # Errors
/// The first refusal, or an error that is no refusal.
pub(crate) fn attempt<T>(
    disabled: &[Feature],
    most: Option<usize>,
    made: &mut Vec<Attempt>,
    mut once: impl FnMut(&[Feature], usize) -> Result<T, CompileError>,
) -> Result<T, CompileError> {
    let (mut rows, mut without, mut refusals) = (TABLE.iter(), Vec::new(), 0);
    let mut first: Option<CompileError> = None;
    let last = loop {
        let result = once(&[disabled, &without].concat(), made.len());
        // The features of the next attempt say which one was declined.
        let refused = result.as_ref().err().map(|e| match e {
            CompileError::Declined { why, .. } => why.clone(),
            other => other.to_string(),
        });
        made.push(Attempt { without: without.clone(), refused });
        let error = match result {
            Ok(done) => return Ok(done),
            // The next attempt runs without a declined feature.
            Err(CompileError::Declined { feature, .. }) => {
                without.push(feature);
                continue;
            }
            Err(error) if refusal(&error).is_none() => return Err(error),
            Err(error) => error,
        };
        let about = refusal(first.get_or_insert(error));
        refusals += 1;
        if most.is_some_and(|most| refusals >= most) {
            break first;
        }
        let gives = |row: &&Row| Some(row.0) == about && row.1.iter().any(|f| !disabled.contains(f));
        match rows.find(gives) {
            Some((_, given)) => without = given.to_vec(),
            None => break first,
        }
    };
    // The loop ends only after a refusal.
    last.map_or_else(|| unreachable!("no attempt was made"), Err)
}
