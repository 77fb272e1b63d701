//! Optimizations of instruction selection that can be disabled, to measure what each one is worth.
//!
//! ```text
//!  --disable swizzle    ─►   Ways { swizzles: false, .. }    read by plan and lower
//! ```

use serde::{Deserialize, Serialize};

/// An optimization that can be disabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Feature {
    /// The search over plans. Without it the plan takes the first option at every choice point.
    Synthesis,
    /// Swizzled shared memory. Without it MMA operands are core matrices, and the rows of staged stores and
    /// conversions follow one another.
    Swizzle,
    /// Layout conversions by warp shuffles. Without them every conversion between threads goes through shared memory.
    Shuffles,
    /// Staging in shared memory that neither text nor mapping asks for: left operands that a loop does not change,
    /// and loads of a loop beside its MMA operands. Without it both stay in registers.
    SmemStaging,
    /// Zero points factored out of the MMA of dequantized operands. They become an MMA of their own, identical in
    /// every warp. Without it threads subtract the zero point from each element.
    ZeroPoint,
    /// Sums that a loop only adds up stay each thread's part. Without it the threads of a row meet in every iteration.
    PartialSums,
    /// Tensor copies of views whose number of rows comes from memory. Without it threads copy.
    RaggedCopies,
    /// Quotients and remainders by constants as shifts and high products. Without it they are divisions, but for
    /// unsigned numbers by powers of two.
    Quotients,
    /// Elements of 3, 5, 6 and 7 bits taken in pairs from two halfwords. Without it each is shifted down alone.
    Halfwords,
    /// Iterations whose mask leaves nothing are left out. Without it loops run as they are written.
    SkipMasked,
    /// Iterations of shallow products work on several groups of weights. Without it each works on one.
    JoinedGroups,
    /// Indices of later iterations are loaded ahead. Without it a load waits for its indices in each iteration.
    PrefetchIndices,
    /// Iterations of loops that memory ends run several at once. Without it they run one after the other.
    UnrolledLoads,
}

impl Feature {
    /// All of them, by name.
    pub const ALL: [(&'static str, Self); 13] = [
        ("synthesis", Self::Synthesis),
        ("swizzle", Self::Swizzle),
        ("shuffles", Self::Shuffles),
        ("smem-staging", Self::SmemStaging),
        ("zero-point", Self::ZeroPoint),
        ("partial-sums", Self::PartialSums),
        ("ragged-copies", Self::RaggedCopies),
        ("quotients", Self::Quotients),
        ("halfwords", Self::Halfwords),
        ("skip-masked", Self::SkipMasked),
        ("joined-groups", Self::JoinedGroups),
        ("prefetch-indices", Self::PrefetchIndices),
        ("unrolled-loads", Self::UnrolledLoads),
    ];
}

/// The means that layout conversions and shared-memory tiles may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ways {
    /// Warp shuffles.
    pub shuffles: bool,
    /// Swizzles.
    pub swizzles: bool,
    /// Staging in shared memory that neither text nor mapping asks for.
    pub smem_staging: bool,
    /// Zero points factored out of MMAs.
    pub zero_point: bool,
    /// Sums of a loop that stay each thread's part.
    pub partial_sums: bool,
    /// Tensor copies of views whose number of rows comes from memory.
    pub ragged_copies: bool,
    /// Quotients by constants as shifts and high products.
    pub quotients: bool,
    /// Elements taken in pairs from two halfwords.
    pub halfwords: bool,
    /// Iterations left out whose mask leaves nothing.
    pub skip_masked: bool,
    /// Several groups of weights in an iteration.
    pub joined_groups: bool,
    /// Indices of later iterations loaded ahead.
    pub prefetch_indices: bool,
    /// Iterations of loops that memory ends, several at once.
    pub unrolled_loads: bool,
}

impl Ways {
    /// The optimizations that remain when some features are disabled.
    pub fn without(disabled: &[Feature]) -> Self {
        let has = |f| !disabled.contains(&f);
        Self {
            shuffles: has(Feature::Shuffles),
            swizzles: has(Feature::Swizzle),
            smem_staging: has(Feature::SmemStaging),
            zero_point: has(Feature::ZeroPoint),
            partial_sums: has(Feature::PartialSums),
            ragged_copies: has(Feature::RaggedCopies),
            quotients: has(Feature::Quotients),
            halfwords: has(Feature::Halfwords),
            skip_masked: has(Feature::SkipMasked),
            joined_groups: has(Feature::JoinedGroups),
            prefetch_indices: has(Feature::PrefetchIndices),
            unrolled_loads: has(Feature::UnrolledLoads),
        }
    }
}

impl Default for Ways {
    fn default() -> Self {
        Self::without(&[])
    }
}
