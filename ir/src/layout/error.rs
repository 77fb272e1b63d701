//! Errors of layouts and of operations on layouts.

use super::Axis;

/// Why a layout or an operation on layouts does not exist. Every variant names the axis or iter at fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// An axis of extent zero.
    #[error("axis {0} has extent 0")]
    ZeroExtent(Axis),
    /// A number above the limit of 2^62.
    #[error("{what} on axis {axis} does not fit in 62 bits")]
    Overflow {
        /// The computed quantity.
        what: &'static str,
        /// On which axis.
        axis: Axis,
    },
    /// The same label twice among inputs or among outputs.
    #[error("axis {0} occurs twice")]
    DuplicateAxis(Axis),
    /// An operation needs an axis that the layout lacks.
    #[error("the layout has no axis {0}")]
    MissingAxis(Axis),
    /// A coordinate would leave its axis.
    #[error("axis {axis}: extent {extent} is exceeded, {needed} is needed")]
    OutOfRange {
        /// The axis.
        axis: Axis,
        /// Its extent.
        extent: u64,
        /// The required extent.
        needed: u64,
    },
    /// An F2 step must be a digit of extent two.
    #[error("axis {axis}: an exclusive-or step has extent {extent}, it must be 2")]
    NotABit {
        /// The axis.
        axis: Axis,
        /// Extent of the step.
        extent: u64,
    },
    /// A swizzle meets integer addition in the same bits.
    #[error("axis {axis}: bits {bits:#x} are both swizzled and carried by addition")]
    Entangled {
        /// Output axis.
        axis: Axis,
        /// The bits at fault.
        bits: u64,
    },
    /// An iter does not fall on the digits of the axis it indexes.
    #[error("iter {extent}:{stride} does not line up with the digits of axis {axis} (extent {digit})")]
    Misaligned {
        /// The axis that is indexed.
        axis: Axis,
        /// Extent of the iter.
        extent: u64,
        /// Its stride on that axis.
        stride: u64,
        /// Extent of the digit in the way.
        digit: u64,
    },
    /// Two iters add up past the digit that both index.
    #[error("axis {axis}: iters carry out of a digit of extent {digit} (they reach {reach})")]
    Carry {
        /// The axis.
        axis: Axis,
        /// Extent of the digit.
        digit: u64,
        /// Largest sum.
        reach: u64,
    },
    /// Not every coordinate of the output is reached.
    #[error("axis {axis}: coordinate {weight} is reached by no input")]
    NotSurjective {
        /// Output axis.
        axis: Axis,
        /// First unreachable step.
        weight: u64,
    },
    /// Two inputs reach the same output.
    #[error("axis {axis}: the iter {extent} at step {weight} repeats elements")]
    NotInjective {
        /// Input axis.
        axis: Axis,
        /// Step of the iter on that axis.
        weight: u64,
        /// Its extent.
        extent: u64,
    },
    /// An iter that does not move.
    #[error("axis {axis}: an iter of extent {extent} has stride 0")]
    ZeroStride {
        /// The axis.
        axis: Axis,
        /// Extent of the iter.
        extent: u64,
    },
    /// An offset or a negative stride where a function from zero upwards is needed.
    #[error("axis {axis}: {by} is an offset or a negative stride, which this operation does not have")]
    Offset {
        /// The axis.
        axis: Axis,
        /// Offset or stride.
        by: i64,
    },
    /// A region that no layout covers in the sufficient forms.
    #[error(
        "dimension {dim}: the region from {start} of {extent} elements wraps inside the iter {iter_extent}:{stride}@{axis}"
    )]
    Slice {
        /// Dimension of the shape.
        dim: usize,
        /// First element.
        start: u64,
        /// Number of elements.
        extent: u64,
        /// Extent of the iter in the way.
        iter_extent: u64,
        /// Its stride.
        stride: i64,
        /// Its axis.
        axis: Axis,
    },
    /// Text that is no layout.
    #[error("at byte {at}: expected {expected}, found {found:?}")]
    Parse {
        /// Byte offset.
        at: usize,
        /// The possible tokens.
        expected: &'static str,
        /// The text found there (up to 20 characters).
        found: String,
    },
    /// A layout that a notation cannot express.
    #[error("{notation} cannot express it: {reason}")]
    Notation {
        /// Name of the notation.
        notation: &'static str,
        /// The missing part.
        reason: &'static str,
    },
    /// A gather that shuffles cannot do.
    #[error("gather along d{dim}: axis {axis} moves along it, only registers and lanes of their own may")]
    Gather {
        /// Input axis in the way.
        axis: Axis,
        /// Dimension gathered along.
        dim: u8,
    },
    /// An operation on bits meets an outer digit.
    #[error(
        "axis {axis}: the outer iter {extent} at step {weight} is no power of two, the operation works on bits"
    )]
    Outer {
        /// Input axis.
        axis: Axis,
        /// Step of the iter on that axis.
        weight: u64,
        /// Its extent.
        extent: u64,
    },
    /// A division with a remainder.
    #[error("axis {axis}: {extent} is not divided by {by}")]
    NotDivisible {
        /// The axis.
        axis: Axis,
        /// Dividend.
        extent: u64,
        /// Divisor.
        by: u64,
    },
    /// A layout is not the product of the tile and anything.
    #[error("the layout does not begin with the tile on axis {0}")]
    NotATile(Axis),
    /// A hardware form with an impossible parameter.
    #[error("{form}: {parameter} = {value} is not possible, {rule}")]
    Form {
        /// Name of the form.
        form: &'static str,
        /// Parameter.
        parameter: &'static str,
        /// Its value.
        value: u64,
        /// The possible values.
        rule: &'static str,
    },
    /// A dimension above the limit.
    #[error(
        "{0} is no dimension: they are d0 to d255; a user's axis has a name that is no number behind a d"
    )]
    Dimension(String),
    /// A name that cannot be a symbol.
    #[error("{0:?} is no axis name (1 to 14 letters, digits, underscores)")]
    Name(String),
}
