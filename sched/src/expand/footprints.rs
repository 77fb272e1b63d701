//! What happened to the memory of a pointer argument since the last barrier: by which footprints.

use warplift_ir::machine::GlobalAccess;

/// The footprints of accesses since the last barrier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Footprints {
    #[default]
    None,
    One(u32),
    Several,
}

/// What happened to the memory of a pointer argument.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Accesses {
    pub(super) written: Footprints,
    pub(super) read: Footprints,
}

impl Footprints {
    fn join(self, other: Self) -> Self {
        match (self, other) {
            (Self::None, x) | (x, Self::None) => x,
            (a, b) if a == b => a,
            _ => Self::Several,
        }
    }

    /// Whether each thread meets only accesses of its own.
    pub(super) fn admits(self, footprint: u32) -> bool {
        match self {
            Self::None => true,
            Self::One(f) => f == footprint && f != GlobalAccess::SHARED,
            Self::Several => false,
        }
    }
}

impl Accesses {
    /// Adds what happened on another way, or before.
    pub fn join(&mut self, other: Self) {
        self.written = self.written.join(other.written);
        self.read = self.read.join(other.read);
    }

    pub(super) fn of(footprint: u32, writes: bool) -> Self {
        let (one, none) = (Footprints::One(footprint), Footprints::None);
        if writes { Self { written: one, read: none } } else { Self { written: none, read: one } }
    }

    /// What an earlier iteration may have done: the indices of a footprint were others there. Stores by one
    /// footprint alone go to tiles of their own.
    pub(super) fn of_earlier_iteration(self) -> Self {
        match (self.written, self.read) {
            (Footprints::None, _) | (_, Footprints::None) => self,
            _ => Self { written: Footprints::Several, read: Footprints::Several },
        }
    }
}
