//! Tiles drawn from a counter in memory: a program takes the next tile when it has done the one before.
//!
//! ```text
//!  producer   copies of this tile ─ draw = atom.inc counter ─ wait empty ─ st.shared draw + programs ─ arrive full
//!  others     work on this tile                                            ─ wait full  ─ ld.shared ─ arrive empty
//! ```
//!
//! The first tile of a program is its own number, so nothing waits for the counter at the start. The producer draws when it
//! has issued a tile's copies: the latency is hidden under the stages that are not computed yet, and nobody holds a long
//! tile while it works on another. Each tile is drawn for once, so `tiles` draws bring the counter, which counts to
//! `tiles - 1` and wraps, back to zero: the next launch finds it as this one did. No program waits for another one.
//!
//! Without a producer one computing thread draws, when it begins a tile, which hides the latency. It stores in one of two
//! slots, and all threads meet once: a slot is stored to again only behind the next meeting, which tells that all have
//! read it.
//!
//! (FlashAttention-3, Shah et al. 2024, draws causal tiles so: `DynamicPersistentTileScheduler` of its code.)

use super::role::Expand;
use crate::analysis::{draws_tiles, tile_counter};
use warplift_ir::machine::{Attr, Guard, Inst, NewInst, Ring, RingFill, RoleKind, Ty, Value};
use warplift_ir::target::Opcode;

impl Expand<'_, '_> {
    /// At the start of a tile's work: draws the tile after it, if computing threads draw.
    pub fn draw_ahead(&mut self, looped: Inst) {
        let ahead = !self.given.schedule.producer;
        // The loops inside a tile come here too, and draw nothing.
        if let Some(drawn) = ahead.then(|| self.draw_tile(looped)).flatten() {
            self.own.drawn = Some(drawn);
        }
    }

    /// Draws the next tile, if this role draws.
    fn draw_tile(&mut self, looped: Inst) -> Option<Value> {
        let parameter = tile_counter(&self.given.program.func, looped).filter(|_| self.draws())?;
        let address = self.counter_address(parameter);
        let high = self.value(self.data(looped).args[1]);
        let most = self.at().add_imm(high, -1);
        let guard = self.filler();
        let attr = Attr::Mem { offset: 0, count: 1 };
        let new =
            NewInst::new(Opcode::AtomIncRelaxedU32, &[address, most], &[Ty::B32]).attr(attr).guard(guard);
        Some(self.at().value(new))
    }

    /// At the end of an iteration: the loop's counter in the next one.
    pub fn next_counter(&mut self, looped: Inst, counter: Value) -> Value {
        let step = self.value(self.data(looped).args[2]);
        let Some(ring) = self.next_tiles().filter(|_| draws_tiles(&self.given.program.func, looped)) else {
            return self.at().add(counter, step);
        };
        let by_threads = self.given.schedule.rings[ring].fill == RingFill::NextTileByThreads;
        let drawn = self.own.drawn.take().filter(|_| self.draws()).or_else(|| self.draw_tile(looped));
        let next = drawn.map(|drawn| self.at().add(drawn, step));
        let next = match next {
            Some(next) if by_threads => self.tell_threads(ring, next),
            Some(next) => self.tell_roles(ring, next),
            None => self.hear(ring),
        };
        self.advance(ring);
        next
    }

    /// The ring by which the next tile's number is handed on.
    fn next_tiles(&self) -> Option<Ring> {
        self.given.schedule.rings.iter().find(|(_, r)| r.fill.is_next_tile()).map(|(ring, _)| ring)
    }

    /// Whether this role draws: the producer, or the computing threads without one.
    fn draws(&self) -> bool {
        let drawing = if self.given.schedule.producer { RoleKind::Producer } else { RoleKind::Consumer };
        self.who.role == drawing
    }

    /// The counter's address, found once at entry.
    fn counter_address(&mut self, parameter: u32) -> Value {
        if let Some(known) = self.own.counter {
            return known;
        }
        let entry = self.code.func.entry;
        let found = self.before_end(entry, |c| {
            let address =
                c.value(NewInst::new(Opcode::LdParam64, &[], &[Ty::B64]).attr(Attr::Param(parameter)));
            c.op(Opcode::ToGlobal, &[address], Ty::B64)
        });
        self.own.counter = Some(found);
        found
    }

    /// The producer hands the number on to all other roles.
    fn tell_roles(&mut self, ring: Ring, next: Value) -> Value {
        self.spin(ring);
        self.put_word(ring, (0, next), None);
        self.release(ring, self.ring(ring).slot, None);
        next
    }

    /// One computing thread hands the number on to all.
    fn tell_threads(&mut self, ring: Ring, next: Value) -> Value {
        let guard = self.filler();
        self.put_word(ring, (0, next), guard);
        self.block_barrier();
        self.word(ring, 0)
    }

    /// A role that does not draw waits for the number, and releases its stage.
    fn hear(&mut self, ring: Ring) -> Value {
        self.spin(ring);
        let next = self.word(ring, 0);
        self.leave_words(ring);
        next
    }

    /// Releases a stage of words that this role has read.
    pub fn leave_words(&mut self, ring: Ring) {
        let alone = self.who.role.copies();
        if !alone {
            // The elected lane arrives for all lanes, so all of them must have read.
            self.at().push(NewInst::new(Opcode::BarWarpSync, &[], &[]));
        }
        let guard = self.own.elected.filter(|_| !alone).map(|pred| Guard { pred, negated: false });
        self.release(ring, self.ring(ring).slot, guard);
    }

    /// Stores a word of a stage, by its number.
    pub fn put_word(&mut self, ring: Ring, (n, word): (u32, Value), guard: Option<Guard>) {
        let address = self.words_address(ring);
        let attr = Attr::Mem { offset: 4 * n as i32, count: 1 };
        let new = NewInst::new(Opcode::StShared, &[address, word], &[]).attr(attr);
        self.at().push(new.guard(guard));
    }

    /// Loads a word of a stage, by its number.
    pub fn word(&mut self, ring: Ring, n: u32) -> Value {
        let address = self.words_address(ring);
        let new = NewInst::new(Opcode::LdShared, &[address], &[Ty::B32]);
        let word = self.at().value(new.attr(Attr::Mem { offset: 4 * n as i32, count: 1 }));
        self.code.func.values[word].uniform = true;
        word
    }

    fn words_address(&mut self, ring: Ring) -> Value {
        let buffer = self.given.schedule.rings[ring].buffers[0];
        self.stage_address(ring, buffer, 0)
    }
}
