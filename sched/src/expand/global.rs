//! The order of a block's plain accesses to arrays: in global memory, and those of the text in shared memory.
//!
//! ```text
//!  store y (footprint 1) ─ load y (footprint 1): each thread reads its own stores
//!  store y (footprint 1) ─ barrier ─ load y (footprint 2): other threads stored it
//! store y ─ barrier ─ arrive at x: one thread releases what all threads wrote
//! ```
//!
//! Views of one pointer argument may overlap; different arguments are different memory. Tiles of a persistent kernel
//! are not ordered among each other, like blocks, except in arrays of the block's shared memory.

use super::footprints::Accesses;
use super::role::Expand;
use crate::analysis::{global_access, global_accesses_inside, is_tile_loop, order_of};
use rustc_hash::FxHashMap;
use warplift_ir::machine::Inst;
use warplift_ir::target::Opcode;

impl Expand<'_, '_> {
    /// Adds a barrier before an access to memory that other threads may have accessed.
    pub fn order_global(&mut self, inst: Inst) {
        let Some((access, writes)) = global_access(self.data(inst)) else { return };
        let before = self.memory.seen.global.get(&access.pointer).copied().unwrap_or_default();
        let read = !writes || before.read.admits(access.footprint);
        // Who releases does so for the block, behind the accesses of all its threads.
        let releases = order_of(self.data(inst)).releases() && !self.memory.seen.global.is_empty();
        if releases || !read || !before.written.admits(access.footprint) {
            self.block_barrier();
        }
        self.see_global(access.pointer, Accesses::of(access.footprint, writes));
    }

    /// Behind an access that acquires: what other threads of the block do next comes after it too. What it found reaches
    /// them behind a barrier anyway where one thread arrives for all.
    pub fn acquired(&mut self, inst: Inst) {
        let data = self.data(inst);
        if order_of(data).acquires() && data.op != Opcode::AtomIncU32 {
            self.block_barrier();
        }
    }

    fn see_global(&mut self, pointer: u32, accesses: Accesses) {
        self.memory.seen.global.entry(pointer).or_default().join(accesses);
    }

    /// Before a loop: threads meet once where the accesses inside would make them meet in every iteration, though only those
    /// before the loop conflict with them.
    pub fn order_global_before(&mut self, looped: Inst) {
        let before = &self.memory.seen.global;
        let inside = self.global_inside(looped);
        let meet = |(pointer, accesses): (&u32, &Accesses)| {
            accesses.is_settled() && before.get(pointer).is_some_and(|b| !b.admits(*accesses))
        };
        if inside.iter().any(meet) {
            self.block_barrier();
        }
    }

    /// The accesses of a loop that another of its iterations may have made, by array.
    fn global_inside(&self, looped: Inst) -> FxHashMap<u32, Accesses> {
        let func = &self.given.program.func;
        let tiles = is_tile_loop(func, looped);
        let mut inside = FxHashMap::<u32, Accesses>::default();
        let accesses = global_accesses_inside(func, looped).into_iter();
        for (access, writes) in accesses.filter(|(a, _)| !tiles || a.is_in_block()) {
            inside.entry(access.pointer).or_default().join(Accesses::of(access.footprint, writes));
        }
        inside
    }

    /// At the start of a loop's body: another iteration may have run before.
    pub fn forget_global_inside(&mut self, inst: Inst) {
        for (pointer, accesses) in self.global_inside(inst) {
            self.see_global(pointer, accesses.of_earlier_iteration());
        }
    }
}
