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
use super::graph::{Edge, Flow, Graph, Node};
use rustc_hash::{FxHashMap, FxHashSet};
use warplift_ir::machine::{Block, Func, Inst, Value, ValueDef};
use warplift_ir::target::{Effect, Opcode};

/// A set of loops as bits. The last bit stands for all further loops.
type Loops = u64;

/// The loops in which each value changes.
pub(crate) struct Invariance<'g> {
    loops: Numbered,
    flow: Flow<'g>,
}

/// The loops of a program as bits, and what tells whether memory changes.
struct Numbered {
    bits: FxHashMap<Inst, Loops>,
    /// Pointers to memory that the program writes.
    written: FxHashSet<u32>,
}

impl<'g> Invariance<'g> {
    /// Computes the invariance of a structured function's values, along the edges of its graph.
    pub(crate) fn of(func: &Func<'_>, graph: &'g Graph) -> Self {
        let bit = |n: usize| 1 << n.min(Loops::BITS as usize - 1);
        let bits = graph.loops(func).into_iter().enumerate().map(|(n, l)| (l, bit(n)));
        let loops = Numbered { bits: bits.collect(), written: written(func, graph) };
        let flow = graph.flow(|node, needs| loops.of(func, node, needs));
        Self { loops, flow }
    }

    /// Whether a value is the same in all iterations of a loop.
    pub(crate) fn is_invariant(&self, func: &Func<'_>, v: Value, looped: Inst) -> bool {
        self.flow.of(func, v) & self.loops.bit(looped) == 0
    }

    /// Whether an instruction does the same in all iterations of a loop. Its operands and its guard must be invariant,
    /// and nothing may write the memory that it reads.
    pub(crate) fn repeats_itself(&self, func: &Func<'_>, inst: Inst, looped: Inst) -> bool {
        self.loops.is_fixed(func, inst) && func.named(inst).all(|v| self.is_invariant(func, v, looped))
    }
}

impl Numbered {
    fn bit(&self, looped: Inst) -> Loops {
        self.bits.get(&looped).copied().unwrap_or_default()
    }

    /// Whether an instruction gives the same results for the same operands, whenever it runs.
    fn is_fixed(&self, func: &Func<'_>, inst: Inst) -> bool {
        let d = &func.insts[inst];
        d.blocks.is_empty() && (d.op.is_pure() || reads_fixed(func, inst, &self.written))
    }

    /// The loops in which a node changes, from those of what it needs.
    fn of(&self, func: &Func<'_>, node: Node, needs: &[(Node, Edge, Loops)]) -> Loops {
        // An instruction changes with its operands, whether it runs or not.
        let all = |control: bool| {
            let needs = needs.iter().filter(|n| control || n.1 != Edge::Control);
            needs.fold(0, |all, n| all | n.2)
        };
        match node {
            Node::Inst(i) if is_structure(func, i) || self.is_fixed(func, i) => all(false),
            Node::Inst(i) => all(false) | func.block_of(i).map_or(0, |b| self.around(func, b)),
            Node::Value(v) => match func.values[v].def {
                // The counter changes with the bounds, and a carried value with its first and its next value.
                ValueDef::Param(b, _) => all(true) | func.loop_of(b).map_or(0, |l| self.bit(l)),
                // Behind the loop the last value does not change any more.
                ValueDef::Result(i, _) => all(true) & !self.bit(i),
            },
        }
    }

    fn around(&self, func: &Func<'_>, block: Block) -> Loops {
        func.around(block).filter_map(|b| func.loop_of(b)).fold(0, |all, l| all | self.bit(l))
    }
}

/// Pointers to memory that a program writes.
fn written(func: &Func<'_>, graph: &Graph) -> FxHashSet<u32> {
    graph.global_accesses(func).iter().filter(|g| g.writes).map(|g| g.access.pointer).collect()
}

/// Whether an instruction reads memory that is not among the written.
fn reads_fixed(func: &Func<'_>, inst: Inst, written: &FxHashSet<u32>) -> bool {
    let d = &func.insts[inst];
    d.op.effect() == Effect::Read
        && global_access(d).is_some_and(|(access, _)| !written.contains(&access.pointer))
}

fn is_structure(func: &Func<'_>, inst: Inst) -> bool {
    matches!(func.insts[inst].op, Opcode::For | Opcode::If)
}

/// Finds values that pure instructions can recompute from values outside of a block and from one given value.
pub(crate) struct Remaking<'f, 'a> {
    func: &'f Func<'a>,
    block: Block,
    given: Option<Value>,
    /// Pointers to memory that the program writes, if scalars of other memory may be loaded again.
    written: Option<FxHashSet<u32>>,
    /// Whether the threads that use a value recompute it: then each may load a number of its own.
    own: bool,
    /// Answers so far.
    known: FxHashMap<Value, bool>,
}

impl<'f, 'a> Remaking<'f, 'a> {
    /// Starts a search for values that can be recomputed outside of a block, where one of the block's values may be
    /// given.
    pub(crate) fn outside(func: &'f Func<'a>, block: Block, given: Option<Value>) -> Self {
        Self { func, block, given, written: None, own: false, known: FxHashMap::default() }
    }

    /// Counts scalars that are loaded from memory which nothing writes as recomputed: who needs one loads it again.
    pub(crate) fn loading_again(self, graph: &Graph) -> Self {
        Self { written: Some(written(self.func, graph)), ..self }
    }

    /// Counts numbers of each thread as recomputed too, since the threads that use them do it.
    pub(crate) fn by_the_same_threads(self) -> Self {
        Self { own: true, ..self }
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
            (d.op.is_pure() || self.loads_again(def)) && d.blocks.is_empty() && self.operands(def)
        });
        self.known.insert(v, made);
        made
    }

    fn loads_again(&self, inst: Inst) -> bool {
        let scalar = self.own || self.func.insts[inst].results.iter().all(|&r| self.func.values[r].uniform);
        scalar && self.written.as_ref().is_some_and(|written| reads_fixed(self.func, inst, written))
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
        let graph = Graph::built(&func);
        let i = Invariance::of(&func, &graph);
        let of = |v| (i.is_invariant(&func, v, loop_t), i.is_invariant(&func, v, loop_u));
        assert_eq!([of(z), of(a), of(b)], [(true, true), (true, false), (false, false)]);
        assert!(i.repeats_itself(&func, own, loop_t) && !i.repeats_itself(&func, own, loop_u));
        assert!(!i.repeats_itself(&func, shared, loop_t), "another instruction writes it");
        let mut again = Remaking::outside(&func, tiles, Some(u));
        assert!(!again.value(b) && again.value(a) && again.operands(own) && !again.value(b));
    }
}
