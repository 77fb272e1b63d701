//! Whether tensor copies may perform a store, and whether copies of threads may load what other blocks release. Copies
//! complete in any order and run ahead, so nothing else in the block may touch the same place.
//!
//! ```text
//!  for t { store c[i, j], x }             every iteration writes the same place    declined
//!  store c[i, j], x   store c[i, j], y    the second must win                      declined
//!  store c[i, j + 0], x   store c[i, j + 64], y     chunks of one tile             fine
//!  store c[i * 256, j], x   store c[i * 256 + 128, j], y     as far apart, however written     fine
//!  if p { store c[i, j], x } else { store c[i, j], y }     one of the two          fine
//!  store p[i], x   last = arrive n[i], k  another block reads what was stored    declined
//!  acquire   for t { load p[t] }          copies begin behind the acquire        fine
//!  for t { acquire   load p[t] }          the next copy would run ahead of it    declined
//! ```

use crate::map::Terms;
use crate::tiles::{extents, memory, program_order, written};
use rustc_hash::FxHashMap;
use warplift_ir::tile::{Block, Inst, Kernel, Op};

/// Why a store must be ordered; `None` if it need not be.
pub fn ordered(k: &Kernel, store: Inst) -> Option<String> {
    if repeats(k, store) {
        return Some("it repeats in a loop, and tensor copies have no order".to_owned());
    }
    let mut behind = program_order(k).into_iter().skip_while(|&i| i != store);
    if let Some(release) = behind.find(|&i| k.insts[i].op.releases()) {
        let name = k.insts[release].op.name();
        return Some(format!("the `{name}` behind it does not wait for tensor copies"));
    }
    let touched = |i: Inst| memory(k, *k.args(i).first()?);
    let own = touched(store);
    let written = written(k);
    let (mut terms, mut nests) = (Terms::new(k, &written), None);
    let mut clash = false;
    k.walk(|_, i| {
        let writes = k.insts[i].op.is_write();
        clash = clash
            || writes
                && i != store
                && touched(i) == own
                && !are_chunks(k, [store, i], &mut terms)
                && !nests.get_or_insert_with(|| Nests::of(k)).exclude(store, i);
    });
    clash.then(|| "another store may write the same place, and tensor copies have no order".to_owned())
}

/// Whether copies of threads may load a tile of an array that other blocks write before an acquire. They run ahead of the
/// iterations of the innermost loop, so none of these may acquire anew; and they are not ordered with what this block
/// itself stores there before.
pub fn follows_acquires(k: &Kernel, load: Inst) -> bool {
    let order = program_order(k);
    let around = order.iter().rev().find(|&&i| is_loop(k, i) && holds(k, i, load));
    let acquires = |&i: &Inst| k.insts[i].op.acquires();
    if around.is_some_and(|&l| order.iter().filter(|i| acquires(i)).any(|&i| holds(k, l, i))) {
        return false;
    }
    let (nests, at) = (Nests::of(k), |inst: Inst| order.iter().position(|&i| i == inst));
    let own = memory(k, k.args(load)[0]);
    let mut stores = order.iter().filter(|&&i| k.insts[i].op.is_write() && memory(k, k.args(i)[0]) == own);
    let together = |s: Inst| {
        order.iter().any(|&l| is_loop(k, l) && !k.attrs[l].persistent && holds(k, l, s) && holds(k, l, load))
    };
    stores.all(|&s| !together(s) && (nests.exclude(s, load) || at(s) > at(load)))
}

fn is_loop(k: &Kernel, inst: Inst) -> bool {
    matches!(k.insts[inst].op, Op::For | Op::While)
}

/// Whether an instruction stands inside another one's blocks.
fn holds(k: &Kernel, outer: Inst, inner: Inst) -> bool {
    let within = |b: &Block| k.blocks[*b].insts.iter().any(|&i| i == inner || holds(k, i, inner));
    k.insts[outer].blocks.iter().any(within)
}

/// Whether an instruction is inside a loop, other than the loop over tiles of a persistent kernel.
fn repeats(k: &Kernel, inst: Inst) -> bool {
    let holder = |b: Block| k.insts.keys().find(|&i| k.insts[i].blocks.contains(&b) && stands(k, i));
    let mut block = k.blocks.iter().find(|(_, d)| d.insts.contains(&inst)).map(|(b, _)| b);
    while let Some(holder) = block.and_then(holder) {
        let looped = matches!(k.insts[holder].op, Op::For | Op::While);
        if looped && !k.attrs[holder].persistent {
            return true;
        }
        block = k.blocks.iter().find(|(_, d)| d.insts.contains(&holder)).map(|(b, _)| b);
    }
    false
}

/// Whether an instruction has a place in the program.
fn stands(k: &Kernel, inst: Inst) -> bool {
    k.blocks.values().any(|d| d.insts.contains(&inst))
}

/// The instruction that holds each block, and the block of each instruction.
pub(crate) struct Nests<'k> {
    k: &'k Kernel,
    holder: FxHashMap<Block, Inst>,
    block: FxHashMap<Inst, Block>,
}

impl<'k> Nests<'k> {
    pub(crate) fn of(k: &'k Kernel) -> Self {
        let mut this = Self { k, holder: FxHashMap::default(), block: FxHashMap::default() };
        k.walk(|block, inst| {
            this.block.insert(inst, block);
            this.holder.extend(k.insts[inst].blocks.iter().map(|&b| (b, inst)));
        });
        this
    }

    /// The branches around an instruction, each with the side on which it stands.
    fn sides(&self, inst: Inst) -> Vec<(Inst, Block)> {
        let out = |&inst: &Inst| self.block.get(&inst).and_then(|b| self.holder.get(b)).copied();
        let chain = std::iter::successors(Some(inst), out);
        let held = chain.filter_map(|i| self.block.get(&i).and_then(|&b| Some((*self.holder.get(&b)?, b))));
        held.filter(|&(i, _)| matches!(self.k.insts[i].op, Op::If)).collect()
    }

    /// Whether two instructions stand on different sides of a branch.
    pub(crate) fn exclude(&self, a: Inst, b: Inst) -> bool {
        let others = self.sides(b);
        let other = |branch, side| others.iter().any(|&(i, other)| i == branch && other != side);
        self.sides(a).into_iter().any(|(branch, side)| other(branch, side))
    }
}

/// Whether constant offsets make two stores disjoint along some dimension.
fn are_chunks(k: &Kernel, stores: [Inst; 2], terms: &mut Terms<'_>) -> bool {
    let [a, b] = stores;
    if stores.iter().any(|&i| !matches!(k.insts[i].op, Op::Store | Op::Atomic(_))) {
        return false;
    }
    let same_view = k.args(a).first() == k.args(b).first();
    let [x, y] = stores.map(|i| k.args(i).last().map_or_else(Vec::new, |&v| extents(k, v)));
    let mut distance = |d: usize| {
        let [from, to] = stores.map(|i| k.args(i)[1 + d]);
        if from == to {
            return Some(0);
        }
        let [from, to] = [terms.of(from)?, terms.of(to)?];
        to.plus(&from, -1).constant().map(i64::from)
    };
    let mut dims = x.iter().zip(&y).enumerate();
    same_view
        && dims.any(|(d, (&x, &y))| distance(d).is_some_and(|by| by >= i64::from(x) || -by >= i64::from(y)))
}
