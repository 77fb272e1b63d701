//! Registers that nobody wrote: arithmetic on them gives what nobody knows, and only its use is a mistake.
//!
//! ```text
//!  %r6 never written ─ add %r5, %r6, 1 ─► %r5 unknown ─ st [..], %r5 ─► reported, with the add
//!                                                     ─ nothing       ─► nothing
//! ```

use super::inst::{Bool, Dst, Lanes, Src};
use super::machine::{Machine, Stop};

/// A predicate's lanes, and which of them are known; the others' bits mean nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Truth {
    pub bits: u32,
    pub known: u32,
}

impl Machine<'_> {
    /// The lanes in which a source is known.
    pub fn known(&self, w: usize, src: Src) -> u32 {
        match src {
            Src::Reg(r) => self.warps[w].defined[r as usize],
            Src::Pred(p) => self.warps[w].predicates_defined[p.id as usize],
            _ => u32::MAX,
        }
    }

    /// The lanes in which the result of elementwise arithmetic is known: all sources are, or the chosen one of a
    /// selection by a predicate.
    pub fn known_result(&self, w: usize, s: &[Src]) -> u32 {
        let known = |s: &Src| self.known(w, *s);
        if let [a, b, Src::Pred(p)] = s {
            let chosen = self.truth(w, Bool::Reg(*p));
            return chosen.known & (chosen.bits & known(a) | !chosen.bits & known(b));
        }
        s.iter().fold(u32::MAX, |all, s| all & known(s))
    }

    /// A predicate operand, known or not.
    pub fn truth(&self, w: usize, b: Bool) -> Truth {
        let p = match b {
            Bool::Reg(p) => p,
            Bool::Const(value) => return Truth { bits: if value { u32::MAX } else { 0 }, known: u32::MAX },
        };
        let bits = self.warps[w].predicates[p.id as usize];
        let known = self.warps[w].predicates_defined[p.id as usize];
        Truth { bits: if p.neg { !bits } else { bits }, known }
    }

    /// Writes a result of which some lanes are known.
    pub fn put_known(&mut self, w: usize, d: Dst, v: &Lanes, (mask, known): (u32, u32)) -> Result<(), Stop> {
        self.put(w, d, v, mask)?;
        if mask & !known != 0 {
            let pc = self.pc(w);
            let warp = &mut self.warps[w];
            warp.defined[d.reg as usize] &= !(mask & !known);
            warp.made_unknown.insert(d.reg, pc);
        }
        Ok(())
    }

    /// The same of a predicate.
    pub fn put_truth(&mut self, w: usize, d: u32, v: Truth, mask: u32) {
        self.put_predicate(w, d, v.bits, mask);
        self.warps[w].predicates_defined[d as usize] &= !(mask & !v.known);
    }
}
