//! Scalars that the consumers find together, and that the producer waits for.
//!
//! ```text
//!  consumers   find it ─ wait empty ─ st.shared word ─ arrive full
//!  producer              wait full  ─ ld.shared word ─ arrive empty ─ copies that follow from it
//! ```
//!
//! One thread of a team stores the word. Every warp arrives, so that no warp falls two words behind: it would wait for a phase
//! that is over.

use super::role::Expand;
use warplift_ir::machine::{Guard, Inst, NewInst, Ring, RingFill, RoleKind, Ty, Value};
use warplift_ir::target::Opcode;
use warplift_ir::tile::CmpOp;

impl Expand<'_, '_> {
    /// Tells the producer what an instruction made, if it waits for that.
    pub fn tells_decision(&mut self, inst: Inst) {
        let told = self.decision(inst).filter(|_| self.who.role == RoleKind::Consumer);
        let Some((ring, value)) = told else { return };
        self.spin(ring);
        let made = self.value(value);
        let word = self.as_word(made);
        let first = self.first_thread();
        self.put_word(ring, (0, word), Some(first));
        // Another lane may arrive than the one that stores.
        self.at().push(NewInst::new(Opcode::BarWarpSync, &[], &[]));
        let guard = self.own.elected.map(|pred| Guard { pred, negated: false });
        self.release(ring, self.ring(ring).slot, guard);
        self.advance(ring);
    }

    /// Takes what an instruction makes from the consumers, if they find it for the producer.
    pub fn hears_decision(&mut self, inst: Inst) -> bool {
        let Some((ring, value)) = self.decision(inst) else { return false };
        self.spin(ring);
        let word = self.word(ring, 0);
        self.leave_words(ring);
        self.advance(ring);
        let heard = match self.given.program.func.ty(value) {
            Ty::Pred => {
                let zero = self.at().imm(0);
                self.at().compare(CmpOp::Ne, word, zero)
            }
            _ => word,
        };
        self.from.env.insert(value, heard);
        true
    }

    /// The ring and the scalar of an instruction that the producer waits for.
    fn decision(&self, inst: Inst) -> Option<(Ring, Value)> {
        let made = self.data(inst).results;
        let schedule = &self.given.schedule;
        let at = schedule.decisions.iter().position(|v| made.contains(v))?;
        let rings = schedule.rings.iter().filter(|(_, r)| r.fill == RingFill::Decision);
        Some((rings.map(|(ring, _)| ring).nth(at)?, schedule.decisions[at]))
    }

    /// A scalar as a word of 32 bits.
    fn as_word(&mut self, value: Value) -> Value {
        if self.code.func.ty(value) != Ty::Pred {
            return value;
        }
        let (one, zero) = (self.at().imm(1), self.at().imm(0));
        self.at().op(Opcode::Selp, &[one, zero, value], Ty::B32)
    }
}
