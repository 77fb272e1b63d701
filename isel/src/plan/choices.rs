//! Choice points: where a plan has several options, which one it took, and which ones it had.
//!
//! ```text
//!  point          options, the default first
//!  variant        wgmma │ mma.sync by 2 x 4 warps │ 8 x 1 │ ..     (chosen by `select`, before all others)
//!  layout of      16-byte vectors, 32 threads along rows │ 8 threads along rows │ 8-byte vectors │ ..
//!  access of      as its users want it │ a layout of its own and a conversion
//!  span of        swizzle 128 │ 64 │ 32 │ none
//!  columns of     one wide product │ two of half
//!  operand of     A in shared memory │ A in registers
//! ```

use super::sorted::sorted;
use crate::variant::MmaVariant;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::fmt;
use warplift_ir::tile::{Inst, Kernel, Value};

/// A choice point: what is chosen, and where.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize, PartialOrd, Ord)]
pub enum Point {
    /// Who executes the MMAs, and how warps share them.
    MmaVariant,
    /// The blocked layout of a tile that no MMA decides.
    Layout(Value),
    /// Whether an access has a layout of its own.
    Access(Inst),
    /// The swizzle span of a loaded tile.
    Span(Inst),
    /// The instructions along N of a warpgroup MMA.
    Columns(Inst),
    /// Where an MMA reads A.
    Operand(Inst),
}

/// An option at a choice point.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Way {
    /// Who executes the MMAs, and how warps share them.
    MmaVariant(MmaVariant),
    /// Threads go along the contiguous dimension, each with a vector of neighbours; warps go along it first or last.
    Blocked {
        /// Neighbours that a thread holds.
        vector: u32,
        /// Limit on the threads of a warp along the contiguous dimension.
        lanes: u32,
        /// Whether warps go along the contiguous dimension first.
        warps_along: bool,
    },
    /// Threads hold the rows of an operand that they hold of the product's results.
    ResultRows,
    /// The access takes the layout of its users.
    Shared,
    /// The access has a layout of its own, and a conversion follows.
    Own,
    /// A swizzle span in bytes, 0 for none.
    Span(u32),
    /// Instructions along N.
    Columns(u32),
    /// A stands in shared memory.
    InShared,
    /// A stands in registers.
    InRegisters,
}

/// The options at a point with the cycles of each. If the choice touches no register layout, the cycles are all that
/// it changes. Otherwise they are the cycles of the access above the least.
pub(super) type Options = SmallVec<[(Way, f64); 4]>;

/// The choice points that a plan met, and the options that it took.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Choices {
    /// The option to take at these points; the first one is taken elsewhere.
    #[serde(serialize_with = "sorted")]
    taken: FxHashMap<Point, Way>,
    /// Points in the order in which they were met.
    met: Vec<(Point, Options)>,
}

impl Choices {
    /// Takes the given options at some points, and the first option at all others.
    pub(super) fn of(taken: FxHashMap<Point, Way>) -> Self {
        Self { taken, met: Vec::new() }
    }

    /// The same options and one more.
    pub(super) fn with(&self, point: Point, way: Way) -> FxHashMap<Point, Way> {
        let mut taken = self.taken.clone();
        taken.insert(point, way);
        taken
    }

    /// The option to take at a point. There is at least one.
    pub(super) fn pick(&mut self, point: Point, options: Options) -> Way {
        let way = options[self.index(point, &options)].0;
        if options.len() > 1 && !self.met.iter().any(|m| m.0 == point) {
            self.met.push((point, options));
        }
        way
    }

    fn index(&self, point: Point, options: &[(Way, f64)]) -> usize {
        let taken = self.taken.get(&point);
        taken.and_then(|t| options.iter().position(|o| o.0 == *t)).unwrap_or(0)
    }

    /// Index of the option taken at a point.
    pub(super) fn at(&self, point: Point) -> usize {
        self.index(point, self.options(point))
    }

    /// Points with more than one option.
    pub fn met(&self) -> impl Iterator<Item = Point> {
        self.met.iter().map(|m| m.0)
    }

    /// The options at a point.
    pub(super) fn options(&self, point: Point) -> &[(Way, f64)] {
        self.met.iter().find(|m| m.0 == point).map_or(&[], |m| &m.1)
    }
}

impl Point {
    /// Whether the choice changes the register layouts of other tiles.
    pub(super) fn spreads(self) -> bool {
        matches!(self, Self::Layout(_) | Self::Access(_))
    }

    /// The choice, by its place in the text.
    pub fn describe(self, k: &Kernel) -> String {
        let at = |inst: Inst| format!("{}:{}", k.insts[inst].loc.line, k.insts[inst].loc.column);
        match self {
            Self::MmaVariant => "products".to_owned(),
            Self::Layout(v) => {
                format!("{} layout", k.def(v).map_or_else(|| v.to_string(), at))
            }
            Self::Access(i) => format!("{} access", at(i)),
            Self::Span(i) => format!("{} swizzle", at(i)),
            Self::Columns(i) => format!("{} instructions along N", at(i)),
            Self::Operand(i) => format!("{} operand A", at(i)),
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MmaVariant(variant) => write!(f, "{variant}"),
            Self::Blocked { vector, lanes, warps_along } => {
                let warps = if *warps_along { ", warps along it too" } else { "" };
                write!(f, "{lanes} threads of {vector} elements along the contiguous dimension{warps}")
            }
            Self::ResultRows => write!(f, "rows as the product's results have them"),
            Self::Shared => write!(f, "as its users have it"),
            Self::Own => write!(f, "its own, and a conversion"),
            Self::Span(0) => write!(f, "none"),
            Self::Span(span) => write!(f, "{span}"),
            Self::Columns(n) => write!(f, "{n}"),
            Self::InShared => write!(f, "in shared memory"),
            Self::InRegisters => write!(f, "in registers"),
        }
    }
}
