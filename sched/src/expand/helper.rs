//! Helpers: warps of the producer's warpgroup that compute products for all warps. The helpers take the slots in turn.
//!
//! ```text
//!  slot      0    1    2    3    4    5    0     each slot of the ring belongs to one helper
//!  helper 0  make ·    ·    make ·    ·    make  · only goes on to the next slot
//!  helper 1  ·    make ·    ·    make ·    ·
//! ```
//!
//! One helper alone would be too slow: it waits for each result before it starts the next, while consumers overlap
//! several.

use super::copying_warps;
use super::role::Expand;
use crate::error::Result;
use warplift_ir::machine::{Block, Ring, RingData, RingFill, RoleKind, Value};
use warplift_ir::target::Opcode;
use warplift_ir::tile::CmpOp;

impl<'a> Expand<'_, 'a> {
    /// Expands a loop's body. A helper runs it only in its turn.
    pub fn walk_round_robin(&mut self, block: Block) -> Result<&'a [Value]> {
        let Some((ring, number)) = self.handoff_in(block).zip(self.own.helper) else {
            return self.walk(block);
        };
        let [work, on] = [self.code.func.new_block(), self.code.func.new_block()];
        let slot = self.ring(ring).slot;
        let helpers = copying_warps(self.given.program, RoleKind::Helper);
        let helpers = self.at().imm(i64::from(helpers));
        let slot_owner = self.at().int(Opcode::RemU32, slot, helpers);
        let mine = self.at().compare(CmpOp::Eq, slot_owner, number);
        self.branch(mine, (work, &[]), (on, &[]));
        self.code.func.order.push(work);
        self.code.block = work;
        self.own.in_slot = true;
        let yields = self.walk(block)?;
        self.own.in_slot = false;
        self.jump(on, &[]);
        self.code.func.order.push(on);
        self.code.block = on;
        // The next tile's number is heard at the end of the tile by all, whose turn it was or not.
        let moves = |r: &RingData| self.moves_in(r, block) && !r.fill.is_next_tile();
        let moved: Vec<Ring> =
            self.given.schedule.rings.iter().filter(|(_, r)| moves(r)).map(|r| r.0).collect();
        moved.into_iter().for_each(|r| self.advance(r));
        Ok(yields)
    }

    /// The ring into which helpers store the values that they compute in a block.
    fn handoff_in(&self, block: Block) -> Option<Ring> {
        let here = |r: &RingData| r.fill == RingFill::Helper && r.blocks.contains(&block);
        self.given
            .schedule
            .rings
            .iter()
            .find(|(_, r)| self.who.role == RoleKind::Helper && here(r))
            .map(|(r, _)| r)
    }
}
