//! Why a kernel was not compiled.

use crate::features::Feature;
use std::fmt::Display;
use std::time::Duration;
use warplift_emit::EmitError;
use warplift_ir::target::Lacks;
use warplift_ir::tile::{Depth, Item, Loc, LoopMapping, Mapping, Origin, VerifyError};
use warplift_isel::IselError;
use warplift_regalloc::RegallocError;
use warplift_sched::SchedError;

/// Why a kernel was not compiled.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// The kernel is wrong. It holds all errors.
    #[error("{}", lines(.0))]
    Verify(Vec<VerifyError>),
    /// The mapping is wrong. It holds all errors with their places in its text.
    #[error("{}", lines(.0))]
    Mapping(Vec<VerifyError>),
    /// Selection refused it.
    #[error(transparent)]
    Isel(#[from] IselError),
    /// Scheduling refused it.
    #[error(transparent)]
    Sched(#[from] SchedError),
    /// It needs more registers than there are.
    #[error(transparent)]
    Registers(#[from] RegallocError),
    /// It cannot be written as PTX.
    #[error(transparent)]
    Emit(#[from] EmitError),
    /// An optimization does not pay for this kernel. The next attempt runs without it.
    #[error("`{feature}` was turned off: {why}")]
    Declined {
        /// The feature.
        feature: Feature,
        /// Its cost, with the number.
        why: String,
    },
    /// No proposed mapping compiles.
    #[error(
        "none of the {tried} mappings that were proposed compiles; write one, or ask less of a tile.{}", groups(.reasons)
    )]
    NoMapping {
        /// How many were tried.
        tried: usize,
        /// Refusals that say the same but for numbers: how many, and the first of them. The most frequent comes first.
        reasons: Vec<(usize, String)>,
    },
    /// The compile took longer than [`crate::Limits::time`] allows.
    #[error("the time limit of {limit:?} ended after pass `{pass}`; raise it, or choose smaller tiles")]
    Time {
        /// The limit.
        limit: Duration,
        /// The pass that was running.
        pass: &'static str,
    },
    /// The compile took more memory than [`crate::Limits::memory`] allows.
    #[error(
        "{used} bytes of IR after pass `{pass}`: the limit is {limit}; raise it, or choose smaller tiles"
    )]
    Memory {
        /// The limit, bytes.
        limit: usize,
        /// The memory used, bytes.
        used: usize,
        /// The pass that had run.
        pass: &'static str,
    },
    /// A verifier found a mistake of a pass: a bug of the compiler.
    #[error("compiler bug after pass `{pass}`:\n{errors}\n{dump}")]
    Bug {
        /// Pass.
        pass: &'static str,
        /// The verifier's messages.
        errors: String,
        /// The state after the pass.
        dump: String,
    },
}

/// Errors, a line each.
pub(crate) fn lines<T: Display>(all: &[T]) -> String {
    all.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// Reasons, a line each with the number of mappings that it refused.
fn groups(reasons: &[(usize, String)]) -> String {
    reasons.iter().map(|(n, why)| format!("\n  {n} of them: {why}")).collect()
}

impl CompileError {
    /// Why no mapping compiles: the one refusal if all say the same, else the reasons by their number.
    pub(crate) fn of_proposals(refusals: Vec<Self>) -> Option<Self> {
        let tried = refusals.len();
        let mut reasons: Vec<(usize, String, String)> = Vec::new();
        for refusal in &refusals {
            let text = refusal.to_string();
            let words: String = text.chars().filter(|c| !c.is_ascii_digit()).collect();
            match reasons.iter_mut().find(|r| r.2 == words) {
                Some(known) => known.0 += 1,
                None => reasons.push((1, text, words)),
            }
        }
        if reasons.len() < 2 {
            return refusals.into_iter().next();
        }
        reasons.sort_by_key(|r| std::cmp::Reverse(r.0));
        Some(Self::NoMapping { tried, reasons: reasons.into_iter().map(|(n, text, _)| (n, text)).collect() })
    }

    /// Whether a stage refused the kernel. Wrong input and bugs of the compiler are no refusals.
    pub(crate) fn is_refusal(&self) -> bool {
        match self {
            Self::Isel(_) | Self::Sched(_) | Self::Registers(_) | Self::Emit(_) => true,
            Self::Verify(_) | Self::Mapping(_) | Self::Declined { .. } | Self::NoMapping { .. } => false,
            Self::Time { .. } | Self::Memory { .. } | Self::Bug { .. } => false,
        }
    }

    /// The instruction that the target lacks, if that is the reason.
    pub fn lacks(&self) -> Option<Lacks> {
        match self {
            Self::Isel(e) => e.lacks,
            Self::Emit(EmitError::Lacks { lacks, .. }) | Self::Sched(SchedError::Lacks { lacks, .. }) => {
                Some(*lacks)
            }
            _ => None,
        }
    }

    /// The place of a refusal's reason, and its text: an instruction of the kernel, or the word of the mapping that
    /// decides about the exceeded limit. `None` for lists of errors, which have their own places, and for bugs.
    pub fn place(&self, mapping: &Mapping) -> Option<(Origin, Loc)> {
        let said = |item, word| Some((Origin::Mapping, mapping.places.of(item, word)));
        let looped = |wish: fn(&LoopMapping) -> bool| {
            mapping.loops.iter().position(|(_, l)| wish(l)).map_or(Item::Kernel, Item::Loop)
        };
        match self {
            Self::Isel(e) => Some((e.origin, e.loc)),
            Self::Sched(SchedError::Lacks { loc, .. }) => Some((Origin::Kernel, *loc)),
            Self::Sched(SchedError::Word { word, .. }) => said(Item::Kernel, word),
            Self::Sched(SchedError::Cluster { .. }) => said(Item::Kernel, "cluster"),
            Self::Sched(SchedError::Threads { .. }) | Self::Registers(_) => {
                match looped(|l| l.consumers.is_some()) {
                    Item::Kernel => said(Item::Kernel, "warps"),
                    item => said(item, "consumers"),
                }
            }
            Self::Sched(SchedError::SharedMemory { resident: 2.., .. }) => said(Item::Kernel, "resident"),
            Self::Sched(SchedError::SharedMemory { .. }) => {
                said(looped(|l| matches!(l.pipeline, Depth::Stages(_))), "pipeline")
            }
            Self::Sched(_) | Self::Emit(_) => said(Item::Mapping, ""),
            Self::Verify(_) | Self::Mapping(_) | Self::Declined { .. } | Self::NoMapping { .. } => None,
            Self::Time { .. } | Self::Memory { .. } | Self::Bug { .. } => None,
        }
    }
}
