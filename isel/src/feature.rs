//! What selection does by itself and can be told to leave, to see what it is worth.

use serde::{Deserialize, Serialize};

/// A part of selection that can be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Feature {
    /// The search over plans; without it the first way is taken wherever there are several.
    Synthesis,
    /// Swizzled shared memory; without it tiles of products are core matrices, staged stores and conversions rows
    /// one behind the other.
    Swizzle,
    /// Conversions by warp shuffles; without them everything that changes threads goes through shared memory.
    Shuffles,
    /// What goes through shared memory though neither text nor mapping asks for it: left operands that a loop leaves alone,
    /// and what a loop loads beside its products. Without it both stay in registers.
    SmemStaging,
    /// Zero points factored out of the products of dequantized operands, as a product of their own that is the same in every
    /// warp; without it threads subtract them element by element.
    ZeroPoint,
}

impl Feature {
    /// All of them, by name.
    pub const ALL: [(&'static str, Self); 5] = [
        ("synthesis", Self::Synthesis),
        ("swizzle", Self::Swizzle),
        ("shuffles", Self::Shuffles),
        ("smem-staging", Self::SmemStaging),
        ("zero-point", Self::ZeroPoint),
    ];
}

/// What elements that change threads, and tiles in shared memory, may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ways {
    /// Warp shuffles.
    pub shuffles: bool,
    /// Swizzles.
    pub swizzles: bool,
    /// Staging in shared memory that neither text nor mapping asks for.
    pub smem_staging: bool,
    /// Zero points factored out of products.
    pub zero_point: bool,
}

impl Ways {
    /// What is left without some features.
    pub fn without(disabled: &[Feature]) -> Self {
        let has = |f| !disabled.contains(&f);
        Self {
            shuffles: has(Feature::Shuffles),
            swizzles: has(Feature::Swizzle),
            smem_staging: has(Feature::SmemStaging),
            zero_point: has(Feature::ZeroPoint),
        }
    }
}

impl Default for Ways {
    fn default() -> Self {
        Self::without(&[])
    }
}
