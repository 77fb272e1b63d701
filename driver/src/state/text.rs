//! The whole state between two passes as one text. The text reads back.
//!
//! ```text
//!  == state ==        the pass, the target, and all side tables, as one RON value
//!  == written ==      the kernel as it was written             tile IR with its numbers (`ir::tile::print_exact`)
//!  == variant ==      the kernel in each variant               the same
//!  == program ==      the structured program                   machine IR (docs/machine-ir.md)
//!  == scheduled ==    the roles                                machine IR
//! ```
//!
//! Passes visit entities by number, so the texts carry numbers. [`Context::resume`](crate::Context::resume) continues
//! from such a text and gives the same PTX as the whole compile.

use super::State;
use crate::features::Feature;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;
use warplift_emit::Allocations;
use warplift_ir::machine::{LoopSchedule, Schedule, SharedMap, parse_program, parse_scheduled};
use warplift_ir::target::{Arch, Target};
use warplift_ir::tile::{Mapping, ParseError, Remark, parse_exact, print_exact};
use warplift_ir::{Bump, Deadline};
use warplift_isel::MmaVariant;
use warplift_isel::map::Variant;
use warplift_isel::plan::Plan;
use warplift_sched::Graph;

/// Why a text is not a state.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// A required section is missing.
    #[error("no section `== {section} ==`: `compile --stop-after` and `--dump-dir` write such a file")]
    Missing {
        /// Its name.
        section: &'static str,
    },
    /// The side tables cannot be read.
    #[error("section `state`: {0}")]
    Tables(#[from] ron::error::SpannedError),
    /// IR that cannot be read. Its place counts from the section's first line.
    #[error("section `{section}`: {error}")]
    Ir {
        /// The section.
        section: &'static str,
        /// The mistake.
        error: ParseError,
    },
    /// The state is that of another pass.
    #[error("the state after `{found}`, not after `{wanted}`")]
    OtherPass {
        /// The pass of the text.
        found: String,
        /// The pass that was asked for.
        wanted: String,
    },
    /// A chip that this compiler does not know.
    #[error("target `{found}`: the one given is `{given}`")]
    OtherTarget {
        /// The target of the text.
        found: String,
        /// The target that was given.
        given: Arch,
    },
    /// The numbers of kernels and variants differ.
    #[error("{found} sections `variant` for {expected} variants")]
    Variants {
        /// Sections found.
        found: usize,
        /// Variants in the side tables.
        expected: usize,
    },
}

/// All parts of a state except the IR.
#[derive(Serialize, Deserialize)]
struct Tables<'s> {
    after: Cow<'s, str>,
    target: Cow<'s, str>,
    disable: Cow<'s, [Feature]>,
    mapping: Cow<'s, Mapping>,
    variants: Vec<MmaVariant>,
    plan: Option<Cow<'s, Plan>>,
    lints: Cow<'s, [Remark]>,
    loops: Cow<'s, [LoopSchedule]>,
    remarks: Cow<'s, [String]>,
    schedule: Option<Cow<'s, Schedule>>,
    smem: Cow<'s, SharedMap>,
    allocations: Option<Cow<'s, Allocations>>,
}

/// The state after a pass as text.
pub(super) struct Text<'s, 'a> {
    pub state: &'s State<'a>,
    pub pass: &'s str,
}

impl Text<'_, '_> {
    fn tables(&self) -> Tables<'_> {
        let s = self.state;
        Tables {
            after: self.pass.into(),
            target: s.target.arch.to_string().into(),
            disable: (&s.disable).into(),
            mapping: Cow::Borrowed(&s.mapping),
            variants: s.variants.iter().map(|v| v.mma).collect(),
            plan: s.plan.as_ref().map(Cow::Borrowed),
            lints: (&s.lints).into(),
            loops: (&s.loops).into(),
            remarks: (&s.remarks).into(),
            schedule: s.schedule.as_ref().map(Cow::Borrowed),
            smem: Cow::Borrowed(&s.smem),
            allocations: s.allocations.as_ref().map(Cow::Borrowed),
        }
    }
}

impl fmt::Display for Text<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = self.state;
        // Every table is plain data: nothing in it refuses to be written.
        let pretty = ron::ser::PrettyConfig::new().indentor("  ");
        let tables = ron::ser::to_string_pretty(&self.tables(), pretty).map_err(|_| fmt::Error)?;
        writeln!(f, "== state ==\n{tables}")?;
        writeln!(f, "== written ==\n{}", print_exact(&s.written))?;
        for v in &s.variants {
            writeln!(f, "== variant ==\n{}", print_exact(&v.kernel))?;
        }
        if let Some(program) = &s.program {
            writeln!(f, "== program ==\n{program}")?;
        }
        s.scheduled.as_ref().map_or(Ok(()), |scheduled| writeln!(f, "== scheduled ==\n{scheduled}"))
    }
}

/// The sections of a text, by name.
struct Sections<'t>(Vec<(&'t str, &'t str)>);

impl<'t> Sections<'t> {
    fn of(text: &'t str) -> Self {
        let mut all = Vec::new();
        let mut rest = text;
        while let Some((name, body)) = opened(rest) {
            let end = body.find("\n== ").map_or(body.len(), |at| at + 1);
            all.push((name, &body[..end]));
            rest = &body[end..];
        }
        Self(all)
    }

    fn all(&self, name: &'static str) -> impl Iterator<Item = &'t str> {
        self.0.iter().filter(move |s| s.0 == name).map(|s| s.1)
    }

    fn one(&self, name: &'static str) -> Result<&'t str, StateError> {
        self.all(name).next().ok_or(StateError::Missing { section: name })
    }

    /// The IR of a section, if it is there.
    fn ir<T>(
        &self,
        section: &'static str,
        read: impl Fn(&str) -> Result<T, ParseError>,
    ) -> Result<Option<T>, StateError> {
        self.all(section).next().map(read).transpose().map_err(|error| StateError::Ir { section, error })
    }
}

/// The name and the rest of a text that opens with a section's line.
fn opened(text: &str) -> Option<(&str, &str)> {
    let (line, body) = text.strip_prefix("== ")?.split_once('\n')?;
    Some((line.strip_suffix(" ==")?, body))
}

/// Reads a state and the name of the pass that wrote it.
///
/// # Errors
/// A part is missing or cannot be read; or the state belongs to another pass or target.
pub(crate) fn read<'a>(
    text: &str,
    after: Option<&str>,
    target: &'a Target,
    bump: &'a Bump,
) -> Result<(State<'a>, String), StateError> {
    let sections = Sections::of(text);
    let t: Tables<'_> = ron::from_str(sections.one("state")?)?;
    check(&t, after, target)?;
    let kernel = |section, text| parse_exact(text).map_err(|error| StateError::Ir { section, error });
    let written = kernel("written", sections.one("written")?)?;
    let kernels: Vec<_> =
        sections.all("variant").map(|text| kernel("variant", text)).collect::<Result<_, _>>()?;
    if kernels.len() != t.variants.len() {
        return Err(StateError::Variants { found: kernels.len(), expected: t.variants.len() });
    }
    let variants = t.variants.into_iter().zip(kernels).map(|(mma, kernel)| Variant { mma, kernel });
    let mut program = sections.ir("program", |text| parse_program(text, bump))?;
    let graph = program.as_mut().map(|p| Graph::of(&mut p.func));
    let state = State {
        target,
        bump,
        deadline: Deadline::default(),
        unbounded_registers: false,
        disable: t.disable.into_owned(),
        written,
        mapping: t.mapping.into_owned(),
        variants: variants.collect(),
        plan: t.plan.map(Cow::into_owned),
        lints: t.lints.into_owned(),
        program,
        graph,
        loops: t.loops.into_owned(),
        remarks: t.remarks.into_owned(),
        schedule: t.schedule.map(Cow::into_owned),
        smem: t.smem.into_owned(),
        scheduled: sections.ir("scheduled", |text| parse_scheduled(text, bump))?,
        allocations: t.allocations.map(Cow::into_owned),
        output: None,
    };
    Ok((state, t.after.into_owned()))
}

/// Checks that a text belongs to the requested pass and target.
fn check(t: &Tables<'_>, after: Option<&str>, target: &Target) -> Result<(), StateError> {
    if let Some(wanted) = after.filter(|&wanted| wanted != t.after) {
        let (found, wanted) = (t.after.clone().into_owned(), wanted.to_owned());
        return Err(StateError::OtherPass { found, wanted });
    }
    match Arch::from_name(&t.target) == Some(target.arch) {
        true => Ok(()),
        false => Err(StateError::OtherTarget { found: t.target.clone().into_owned(), given: target.arch }),
    }
}
