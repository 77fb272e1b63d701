//! The accesses to an array since the last barrier, by footprint.

use warplift_ir::machine::GlobalAccess;

/// The footprints of accesses since the last barrier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Footprints {
    #[default]
    None,
    One(u32),
    Several,
}

/// The accesses to an array.
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

    fn admits_all(self, others: Self) -> bool {
        match others {
            Self::None => true,
            Self::One(footprint) => self.admits(footprint),
            Self::Several => self == Self::None,
        }
    }

    /// Whether a thread's accesses by this footprint conflict only with its own earlier accesses.
    pub(super) fn admits(self, footprint: u32) -> bool {
        match self {
            Self::None => true,
            Self::One(f) => f == footprint && f != GlobalAccess::SHARED,
            Self::Several => false,
        }
    }
}

impl Accesses {
    /// Whether no two of them, of one iteration or of several, conflict: all have one footprint, whose indices move by whole
    /// tiles. Where they may move by less, the footprint counts as scattered.
    pub(super) fn is_settled(self) -> bool {
        match self.written {
            Footprints::None => true,
            Footprints::One(f) => {
                let read = matches!(self.read, Footprints::None) || self.read == self.written;
                read && f != GlobalAccess::SHARED && f & GlobalAccess::SCATTERED == 0
            }
            Footprints::Several => false,
        }
    }

    /// Whether others conflict with none of these, except in their own thread.
    pub(super) fn admits(self, others: Self) -> bool {
        let writes = self.written.admits_all(others.written) && self.read.admits_all(others.written);
        writes && self.written.admits_all(others.read)
    }

    /// Joins the accesses on another path, or before.
    pub fn join(&mut self, other: Self) {
        self.written = self.written.join(other.written);
        self.read = self.read.join(other.read);
    }

    pub(super) fn of(footprint: u32, writes: bool) -> Self {
        let (one, none) = (Footprints::One(footprint), Footprints::None);
        if writes { Self { written: one, read: none } } else { Self { written: none, read: one } }
    }

    /// The accesses that an earlier iteration may have made. The indices of a footprint may have been others there, by whole
    /// tiles: each element stays with its thread, unless the footprint is scattered.
    pub(super) fn of_earlier_iteration(self) -> Self {
        let several = Self { written: Footprints::Several, read: Footprints::Several };
        match (self.written, self.read) {
            (Footprints::One(f), _) if f & GlobalAccess::SCATTERED != 0 => several,
            (Footprints::None, _) | (_, Footprints::None) => self,
            (Footprints::One(f), Footprints::One(g)) if f == g && f != GlobalAccess::SHARED => self,
            _ => several,
        }
    }
}
