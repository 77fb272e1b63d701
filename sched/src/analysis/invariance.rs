//! The loops in which a value changes, and the values that can be recomputed outside of them.
//!
//! ```text
//!  for tile ..               tile     changes in `tile`
//!    for u in 0..4           u        changes in `u`
//!      a = u * 16            a        changes in `u` alone: the same for every tile
//!      b = a + tile          b        changes in both
//!      w = load w[a]         w        as a, if nothing writes w
//! ```

use super::access::global_access;
use super::structure::yields;
use rustc_hash::{FxHashMap, FxHashSet};
use warplift_ir::entity::SecondaryMap;
use warplift_ir::machine::{Block, Func, Inst, InstData, Value};
use warplift_ir::target::{Effect, Opcode};

/// A set of loops as bits. The last bit stands for all further loops.
type Loops = u64;

/// The loops in which each value changes.
pub(crate) struct Invariance {
    bits: FxHashMap<Inst, Loops>,
    of: SecondaryMap<Value, Loops>,
    /// Pointers to memory that the program writes.
    written: FxHashSet<u32>,
    changed: bool,
}

impl Invariance {
    /// Computes the invariance of a structured function's values.
    pub(crate) fn of(func: &Func<'_>) -> Self {
        let written = func.insts.values().filter_map(global_access).filter(|a| a.1).map(|a| a.0.pointer);
        let (written, of) = (written.collect(), SecondaryMap::new());
        let mut this = Self { bits: FxHashMap::default(), of, written, changed: true };
        func.walk(|_, inst| {
            if func.insts[inst].op == Opcode::For {
                let number = this.bits.len().min(Loops::BITS as usize - 1);
                this.bits.insert(inst, 1 << number);
            }
        });
        while std::mem::take(&mut this.changed) {
            this.block(func, func.entry, 0);
        }
        this
    }

    /// Whether a value is the same in all iterations of a loop.
    pub(crate) fn is_invariant(&self, v: Value, looped: Inst) -> bool {
        self.of[v] & self.bit(looped) == 0
    }

    /// Whether an instruction does the same in all iterations of a loop. Its operands and its guard must be invariant,
    /// and nothing may write the memory that it reads.
    pub(crate) fn repeats_itself(&self, func: &Func<'_>, inst: Inst, looped: Inst) -> bool {
        let d = &func.insts[inst];
        self.is_fixed(d) && func.named(inst).all(|v| self.is_invariant(v, looped))
    }

    fn bit(&self, looped: Inst) -> Loops {
        self.bits.get(&looped).copied().unwrap_or_default()
    }

    fn put(&mut self, v: Value, loops: Loops) {
        self.changed |= loops & !self.of[v] != 0;
        self.of[v] |= loops;
    }

    fn all(&self, values: impl IntoIterator<Item = Value>) -> Loops {
        values.into_iter().fold(0, |all, v| all | self.of[v])
    }

    /// Whether an instruction gives the same results for the same operands, whenever it runs.
    fn is_fixed(&self, d: &InstData<'_>) -> bool {
        let reads_fixed = d.op.effect() == Effect::Read
            && global_access(d).is_some_and(|(access, _)| !self.written.contains(&access.pointer));
        d.blocks.is_empty() && (d.op.is_pure() || reads_fixed)
    }

    fn block(&mut self, func: &Func<'_>, block: Block, around: Loops) {
        for &inst in &func.blocks[block].insts {
            let d = &func.insts[inst];
            match d.op {
                Opcode::For => self.looped(func, inst, around),
                Opcode::If => self.branch(func, d, around),
                _ => {
                    let own = if self.is_fixed(d) { 0 } else { around };
                    let loops = own | self.all(func.named(inst));
                    d.results.iter().for_each(|&r| self.put(r, loops));
                }
            }
        }
    }

    fn looped(&mut self, func: &Func<'_>, inst: Inst, around: Loops) {
        let (d, own) = (&func.insts[inst], self.bit(inst));
        let body = d.blocks[0];
        let bounds = self.all(d.args[..3].iter().copied());
        self.put(func.blocks[body].params[0], own | bounds);
        for (n, &param) in func.blocks[body].params[1..].iter().enumerate() {
            let given = [Some(&d.args[3 + n]), yields(func, body).get(n)];
            let loops = own | self.all(given.into_iter().flatten().copied());
            self.put(param, loops);
            // Behind the loop the last value does not change any more.
            self.put(d.results[n], bounds | loops & !own);
        }
        self.block(func, body, around | own);
    }

    fn branch(&mut self, func: &Func<'_>, d: &InstData<'_>, around: Loops) {
        let cond = self.all([d.args[0]]);
        for &b in &d.blocks {
            self.block(func, b, around);
            for (&result, &y) in d.results.iter().zip(yields(func, b)) {
                self.put(result, cond | self.of[y]);
            }
        }
    }
}

/// Finds values that pure instructions can recompute from values outside of a block and from one given value.
pub(crate) struct Remaking<'f, 'a> {
    func: &'f Func<'a>,
    block: Block,
    given: Option<Value>,
    /// Answers so far.
    known: FxHashMap<Value, bool>,
}

impl<'f, 'a> Remaking<'f, 'a> {
    /// Starts a search for values that can be recomputed outside of a block, where one of the block's values may be
    /// given.
    pub(crate) fn outside(func: &'f Func<'a>, block: Block, given: Option<Value>) -> Self {
        Self { func, block, given, known: FxHashMap::default() }
    }

    /// Whether a value can be recomputed there.
    pub(crate) fn value(&mut self, v: Value) -> bool {
        if Some(v) == self.given || !self.func.is_defined_in(v, self.block) {
            return true;
        }
        if let Some(&known) = self.known.get(&v) {
            return known;
        }
        let made = self.func.def(v).is_some_and(|def| {
            let d = &self.func.insts[def];
            d.op.is_pure() && d.blocks.is_empty() && self.operands(def)
        });
        self.known.insert(v, made);
        made
    }

    /// Whether all operands of an instruction can be recomputed there.
    pub(crate) fn operands(&mut self, inst: Inst) -> bool {
        let func = self.func;
        func.named(inst).all(|v| self.value(v))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warplift_ir::Bump;
    use warplift_ir::machine::{Attr, GlobalAccess, NewInst, Ty};

    #[test]
    fn a_value_changes_where_what_it_is_made_of_does() {
        let bump = Bump::new();
        let mut func = Func::new(&bump);
        let (entry, tiles, inner) = (func.entry, func.new_block(), func.new_block());
        let [tile, u] = [tiles, inner].map(|b| func.append_param(b, Ty::B32, true));
        let zero = func.push(entry, NewInst::new(Opcode::Const, &[], &[Ty::B32]).attr(Attr::Imm(0)));
        let z = func.result(zero);
        let add = |func: &mut Func<'_>, a, b| {
            let made = func.push(inner, NewInst::new(Opcode::AddS32, &[a, b], &[Ty::B32]));
            func.result(made)
        };
        let (a, b) = (add(&mut func, u, z), add(&mut func, u, tile));
        let load = |func: &mut Func<'_>, pointer, op, args: &[Value], results: &[Ty]| {
            let access = GlobalAccess { pointer, footprint: 1 };
            let attr = Attr::GlobalMem { offset: 0, count: 1, access };
            func.push(inner, NewInst::new(op, args, results).attr(attr))
        };
        let own = load(&mut func, 0, Opcode::LdGlobal, &[a], &[Ty::frag(1)]);
        let shared = load(&mut func, 1, Opcode::LdGlobal, &[a], &[Ty::frag(1)]);
        let w = func.result(own);
        load(&mut func, 1, Opcode::StGlobal, &[a, w], &[]);
        func.push(inner, NewInst::new(Opcode::Yield, &[], &[]));
        let loop_u = func.push(tiles, NewInst::new(Opcode::For, &[z, z, z], &[]).blocks(&[inner]));
        func.push(tiles, NewInst::new(Opcode::Yield, &[], &[]));
        let loop_t = func.push(entry, NewInst::new(Opcode::For, &[z, z, z], &[]).blocks(&[tiles]));
        let i = Invariance::of(&func);
        let of = |v| (i.is_invariant(v, loop_t), i.is_invariant(v, loop_u));
        assert_eq!([of(z), of(a), of(b)], [(true, true), (true, false), (false, false)]);
        assert!(i.repeats_itself(&func, own, loop_t) && !i.repeats_itself(&func, own, loop_u));
        assert!(!i.repeats_itself(&func, shared, loop_t), "another instruction writes it");
        let mut again = Remaking::outside(&func, tiles, Some(u));
        assert!(!again.value(b) && again.value(a) && again.operands(own) && !again.value(b));
    }
}
