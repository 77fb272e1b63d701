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
use warplift_ir::machine::{Inst, Ring, RingFill, RoleKind};

impl Expand<'_, '_> {
    /// Takes what an instruction makes from the producer, which finds it for this role. The first one takes all.
    pub fn hears_tile_info(&mut self, inst: Inst) -> bool {
        let info = &self.given.schedule.tile_info;
        if self.who.role == RoleKind::Producer || !info.makers.contains(&inst) {
            return false;
        }
        if info.makers.first() == Some(&inst)
            && let Some(ring) = self.tile_info_ring()
        {
            self.spin(ring);
            for (n, &v) in (0..).zip(&info.values) {
                let word = self.word(ring, n);
                self.from.env.insert(v, word);
            }
            self.leave_words(ring);
            self.advance(ring);
        }
        true
    }

    /// Hands the scalars on behind the last instruction that makes one.
    pub fn tells_tile_info(&mut self, inst: Inst) {
        let info = &self.given.schedule.tile_info;
        let last = self.who.role == RoleKind::Producer && info.makers.last() == Some(&inst);
        let Some(ring) = self.tile_info_ring().filter(|_| last) else { return };
        self.spin(ring);
        for (n, &v) in (0..).zip(&info.values) {
            let value = self.value(v);
            self.put_word(ring, (n, value), None);
        }
        self.release(ring, self.ring(ring).slot, None);
        self.advance(ring);
    }

    fn tile_info_ring(&self) -> Option<Ring> {
        self.given.schedule.rings.iter().find(|(_, r)| r.fill == RingFill::TileInfo).map(|(ring, _)| ring)
    }
}
