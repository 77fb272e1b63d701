//! Scalars of a tile that the producer finds for all roles.
//!
//! ```text
//!  producer   makers ─ wait empty ─ st.shared words ─ arrive full ─ copies of this tile
//!  others              wait full  ─ ld.shared words ─ arrive empty ─ work on this tile
//! ```
//!
//! The producer is as far ahead as its copies, so the words of a tile are there when the others begin it. It waits for a
//! stage that the others release at the start of their tile, before they need any copy of it: nobody waits in a circle.

use super::role::Expand;
use crate::analysis::TileScalars;
use warplift_ir::machine::{Inst, RoleKind};

impl Expand<'_, '_> {
    /// Takes what an instruction makes from the producer, which finds it for this role. The first one takes all.
    pub fn hears_scalars(&mut self, inst: Inst) -> bool {
        let scalars = self.given.scalars;
        if self.who.role == RoleKind::Producer || !scalars.makers.contains(&inst) {
            return false;
        }
        if scalars.makers.first() == Some(&inst)
            && let Some(ring) = TileScalars::ring(self.given.schedule)
        {
            self.spin(ring);
            for (n, &v) in (0..).zip(&scalars.values) {
                let word = self.word(ring, n);
                self.from.env.insert(v, word);
            }
            self.leave_words(ring);
            self.advance(ring);
        }
        true
    }

    /// Hands the scalars on behind the last instruction that makes one.
    pub fn tell_scalars(&mut self, inst: Inst) {
        let scalars = self.given.scalars;
        let last = self.who.role == RoleKind::Producer && scalars.makers.last() == Some(&inst);
        let Some(ring) = TileScalars::ring(self.given.schedule).filter(|_| last) else { return };
        self.spin(ring);
        for (n, &v) in (0..).zip(&scalars.values) {
            let value = self.value(v);
            self.put_word(ring, (n, value), None);
        }
        self.release(ring, self.ring(ring).slot, None);
        self.advance(ring);
    }
}
