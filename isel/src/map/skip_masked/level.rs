//! Levels of masks, and what maxima must be so that masks of finite numbers leave nothing.

use super::known::ROUNDED;
use warplift_ir::tile::Value;

/// A product of a number and of scalars before the loop.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Level {
    pub number: f64,
    pub scalars: Vec<Value>,
}

impl Level {
    /// Whether both are the same product, as far as f32 tells.
    pub fn is(&self, other: &Self) -> bool {
        (self.number - other.number).abs() <= ROUNDED * self.number.abs() && self.scalars == other.scalars
    }
}

/// What a maximum that the loop carries must be, so that a mask's number leaves nothing.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Far {
    /// The mask's number, times scalars.
    pub mask: Level,
    /// The maximum, as the loop's parameter.
    pub maximum: Value,
    /// Its factor in an exponent from which the mask's level is far. `None`: it is only greater.
    pub factor: Option<Level>,
}

impl Far {
    /// Whether its exponent, if any, has a factor.
    pub fn has(&self, factor: &Level) -> bool {
        self.factor.as_ref().is_none_or(|own| own.is(factor))
    }
}
