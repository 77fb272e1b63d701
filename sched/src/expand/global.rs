//! The order of a block's plain accesses to global memory.
//!
//! ```text
//!  store y (footprint 1) ─ load y (footprint 1): each thread reads what it wrote itself
//!  store y (footprint 1) ─ barrier ─ load y (footprint 2): others wrote it
//! ```
//!
//! Views of one pointer argument may overlap; other arguments are other memory. Tiles of a persistent kernel have
//! no order among each other, as blocks have none.

use super::role::Expand;
use warplift_ir::machine::{Attr, GlobalAccess, Inst};

/// The footprints of accesses since the last barrier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Footprints {
    #[default]
    None,
    One(u32),
    Several,
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
    fn admits(self, footprint: u32) -> bool {
        match self {
            Self::None => true,
            Self::One(f) => f == footprint && f != GlobalAccess::SHARED,
            Self::Several => false,
        }
    }
}

/// What happened to the memory of a pointer argument.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Accesses {
    written: Footprints,
    read: Footprints,
}

impl Accesses {
    /// Adds what happened on another way, or before.
    pub fn join(&mut self, other: Self) {
        self.written = self.written.join(other.written);
        self.read = self.read.join(other.read);
    }

    fn of(footprint: u32, writes: bool) -> Self {
        let (one, none) = (Footprints::One(footprint), Footprints::None);
        if writes { Self { written: one, read: none } } else { Self { written: none, read: one } }
    }

    /// What an earlier iteration may have done: the indices of a footprint were others there. Stores by one
    /// footprint alone go to tiles of their own.
    fn of_earlier_iteration(self) -> Self {
        match (self.written, self.read) {
            (Footprints::None, _) | (_, Footprints::None) => self,
            _ => Self { written: Footprints::Several, read: Footprints::Several },
        }
    }
}

/// An access as it is emitted: the order is made.
pub(super) fn plain(attr: &Attr) -> Attr {
    match *attr {
        Attr::GlobalMem { offset, count, .. } => Attr::Mem { offset, count },
        ref other => other.clone(),
    }
}

impl Expand<'_, '_> {
    /// Meets before an access to what other threads may have touched.
    pub fn order_global(&mut self, inst: Inst) {
        let Some((access, writes)) = crate::graph::global_access(self.data(inst)) else { return };
        let before = self.seen.global.get(&access.pointer).copied().unwrap_or_default();
        let read = !writes || before.read.admits(access.footprint);
        if !read || !before.written.admits(access.footprint) {
            self.block_barrier();
        }
        self.see_global(access.pointer, Accesses::of(access.footprint, writes));
    }

    fn see_global(&mut self, pointer: u32, accesses: Accesses) {
        self.seen.global.entry(pointer).or_default().join(accesses);
    }

    /// At the start of a loop's body an iteration may precede.
    pub fn forget_global_inside(&mut self, inst: Inst) {
        if matches!(&self.data(inst).attr, Attr::Loop(l) if l.persistent) {
            return;
        }
        let mut inside = rustc_hash::FxHashMap::<u32, Accesses>::default();
        for (access, writes) in crate::graph::global_accesses_inside(&self.program.func, inst) {
            inside.entry(access.pointer).or_default().join(Accesses::of(access.footprint, writes));
        }
        for (pointer, accesses) in inside {
            self.see_global(pointer, accesses.of_earlier_iteration());
        }
    }
}
