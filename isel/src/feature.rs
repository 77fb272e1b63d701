//! What selection does by itself and can be told to leave, to see what it is worth.

/// A part of selection that can be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Feature {
    /// The search over plans; without it the first way is taken wherever there are several.
    Synthesis,
    /// Swizzled shared memory; without it tiles of products are core matrices, staged stores and conversions rows
    /// one behind the other.
    Swizzle,
    /// Conversions by warp shuffles; without them everything that changes threads goes through shared memory.
    Shuffles,
}

impl Feature {
    /// All of them, by name.
    pub const ALL: [(&'static str, Self); 3] =
        [("synthesis", Self::Synthesis), ("swizzle", Self::Swizzle), ("shuffles", Self::Shuffles)];
}

/// What elements that change threads, and tiles in shared memory, may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ways {
    /// Warp shuffles.
    pub shuffles: bool,
    /// Swizzles.
    pub swizzles: bool,
}

impl Ways {
    /// What is left without some features.
    pub fn without(disabled: &[Feature]) -> Self {
        let has = |f| !disabled.contains(&f);
        Self { shuffles: has(Feature::Shuffles), swizzles: has(Feature::Swizzle) }
    }
}

impl Default for Ways {
    fn default() -> Self {
        Self::without(&[])
    }
}
