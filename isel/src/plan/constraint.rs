//! Layout constraints: one for each operation on tiles, as data (Hexcute, section 4 and Fig. 12).
//!
//! ```text
//!  y = a + b        Equal      {a used, b used, y made}
//!  for carry x      Equal      {x carried, result made, yielded used, start used}
//!  y = reduce a, d  Reduced    a used ─► y made       y's layout is a's without the dimension
//!  y = trans a      Permuted   a used ─► y made
//!  y = broadcast a  Broadcast  y made ─► a used
//!  y = reshape a    Reshaped   whichever is known ─► the other
//!  y = join a, b    Joined     y made ─► a used, b used; else a used ─► y made
//! ```
//!
//! A constraint relates slots. A slot is a place where an instruction uses or defines a tile. Two slots of one tile
//! may have different layouts; a conversion stands between them.

use super::types::Plan;
use crate::boxes::only_products;
use crate::operand::is_in_any_order;
use crate::tiles::extents;
use smallvec::SmallVec;
use warplift_ir::layout::Layout;
use warplift_ir::tile::{Block, Inst, Kernel, Op, Type, Value};

/// A place where an instruction uses or defines a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    /// Operand number of an instruction.
    Use(Inst, usize),
    /// A result, as the instruction defines it.
    Made(Value),
    /// A loop's carried value.
    Carried(Value),
}

impl Slot {
    pub fn value(self, k: &Kernel) -> Value {
        match self {
            Self::Use(inst, n) => k.args(inst)[n],
            Self::Made(v) | Self::Carried(v) => v,
        }
    }

    /// The layout of the tile in this slot, if it is known.
    pub fn layout<'p>(self, k: &Kernel, plan: &'p Plan) -> Option<&'p Layout> {
        let other = match self {
            Self::Use(inst, n) => plan.uses.get(&(inst, n)),
            Self::Made(v) => plan.made.get(&v),
            Self::Carried(_) => None,
        };
        other.or(plan.layouts[self.value(k)].as_ref())
    }

    /// Whether any layout is free here.
    pub fn is_free(self, k: &Kernel) -> bool {
        matches!(self, Self::Use(..)) && adapts(k, self.value(k))
    }
}

/// Whether a value can be made in any layout for free, so that each use may have its own.
pub(super) fn adapts(k: &Kernel, v: Value) -> bool {
    k.def(v).is_some_and(|d| matches!(k.insts[d].op, Op::Full | Op::Iota(_)))
}

/// How the layouts of the slots follow from one another. All relations but the first have two slots: operand and
/// result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Relation {
    /// All slots have one layout.
    Equal,
    /// The result lacks a dimension of the operand.
    Reduced(u8),
    /// The operand lacks a dimension of the result.
    Expanded(u8),
    /// The operand is one half of the result, whose last dimension has extent 2.
    Joined,
    /// The result is a slice of the operand at an offset.
    Sliced(Vec<u32>),
    /// The operand is repeated along its dimensions of extent 1 and along those that it lacks.
    Broadcast,
    /// The same bits, read as elements of another width.
    Reinterpreted,
    /// The dimensions in another order.
    Permuted(Box<[u8]>),
    /// Another shape with the same row-major order.
    Reshaped,
    /// A cast of packed elements. Their registers have an order of their own.
    Unpacked,
}

/// A constraint of one instruction.
#[derive(Clone, Debug)]
pub(super) struct Constraint {
    /// The instruction.
    pub inst: Inst,
    /// The slots that it relates.
    pub slots: SmallVec<[Slot; 4]>,
    /// How their layouts follow from one another.
    pub relation: Relation,
}

/// All constraints of a kernel, in program order.
pub(super) fn constraints(k: &Kernel, order: &[Inst]) -> Vec<Constraint> {
    let speaks = |c: &Constraint| c.slots.len() >= if c.relation == Relation::Equal { 1 } else { 2 };
    order.iter().flat_map(|&inst| of_inst(k, inst)).filter(speaks).collect()
}

/// The constraints of one instruction.
fn of_inst(k: &Kernel, inst: Inst) -> SmallVec<[Constraint; 1]> {
    let results = k.results(inst);
    let made = |n: usize| Slot::Made(results[n]);
    let arg = |n: usize| Slot::Use(inst, n);
    let one = |relation: Relation, slots: &[Slot]| -> SmallVec<[Constraint; 1]> {
        let tiles = slots.iter().copied().filter(|s| is_tile(k, s.value(k)));
        SmallVec::from_iter([Constraint { inst, slots: tiles.collect(), relation }])
    };
    let pair = |relation: Relation| one(relation, &[arg(0), made(0)]);
    let bits = |v: Value| k.ty(v).elem().bits();
    match &k.insts[inst].op {
        Op::Cast if is_in_any_order(k, k.args(inst)[0]) => pair(Relation::Unpacked),
        Op::Unary(_) | Op::Binary(_) | Op::Compare(_) | Op::Select | Op::Fma | Op::Cast | Op::ToIndex => {
            let uses = (0..k.args(inst).len()).map(arg);
            one(Relation::Equal, &uses.chain((0..results.len()).map(made)).collect::<Vec<_>>())
        }
        // The registers do not change: a type of the same width.
        Op::ViewAs(to) if to.bits() == bits(k.args(inst)[0]) => pair(Relation::Equal),
        Op::ViewAs(_) => pair(Relation::Reinterpreted),
        // A thread holds the indices and the mask of its elements.
        Op::LoadGather { .. } => {
            // Those of an operand of products are held as its copies are made.
            let own = Some(made(0)).filter(|_| !only_products(k, results[0]));
            let uses = (1..k.args(inst).len()).map(arg);
            one(Relation::Equal, &uses.chain(own).collect::<Vec<_>>())
        }
        Op::StoreScatter { .. } | Op::AtomicScatter { .. } => {
            let uses = (1..k.args(inst).len()).map(arg);
            one(Relation::Equal, &uses.chain((0..results.len()).map(made)).collect::<Vec<_>>())
        }
        // A thread holds the indices of what it prints.
        Op::Print(_) => one(Relation::Equal, &(0..k.args(inst).len()).map(arg).collect::<Vec<_>>()),
        Op::Scan(..) => pair(Relation::Equal),
        Op::Gather(_) => one(Relation::Equal, &[arg(1), made(0)]),
        Op::For | Op::While => {
            (0..results.len()).flat_map(|i| one(Relation::Equal, &carried(k, inst, i))).collect()
        }
        Op::If => (0..results.len()).flat_map(|i| one(Relation::Equal, &branches(k, inst, i))).collect(),
        Op::Reduce(_, axis) if is_tile(k, results[0]) => pair(Relation::Reduced(*axis)),
        Op::ExpandDims(d) => pair(Relation::Expanded(*d)),
        Op::Join => [0, 1].into_iter().flat_map(|n| one(Relation::Joined, &[arg(n), made(0)])).collect(),
        Op::Slice(offsets) => {
            pair(Relation::Sliced(offsets.iter().map(|d| d.constant().unwrap_or(0)).collect()))
        }
        Op::Broadcast if is_tile(k, k.args(inst)[0]) => pair(Relation::Broadcast),
        Op::Trans(perm) => pair(Relation::Permuted(perm.iter().copied().collect())),
        Op::Reshape => pair(Relation::Reshaped),
        // `rearrange` allows layouts to differ. The operand's layout is propagated only if nothing else gives one.
        _ => SmallVec::new(),
    }
}

/// The slots of a carried value: inside the loop, its result, its yield, its start.
fn carried(k: &Kernel, inst: Inst, n: usize) -> [Slot; 4] {
    let body = k.insts[inst].blocks[0];
    // A `for` has a counter and bounds before what it carries, a `while` yields its condition first.
    let [param, next, start] = match k.insts[inst].op {
        Op::While => [n, 1 + n, n],
        _ => [1 + n, n, 3 + n],
    };
    let inside = Slot::Carried(k.blocks[body].params[param]);
    [inside, Slot::Made(k.results(inst)[n]), yielded(k, body, next), Slot::Use(inst, start)]
}

/// The slots of a branch result: the result, and the yield of each side.
fn branches(k: &Kernel, inst: Inst, n: usize) -> SmallVec<[Slot; 4]> {
    let yields = k.insts[inst].blocks.iter().map(|&b| yielded(k, b, n));
    std::iter::once(Slot::Made(k.results(inst)[n])).chain(yields).collect()
}

/// The slot of a yielded value: an operand of the block's last instruction.
fn yielded(k: &Kernel, block: Block, n: usize) -> Slot {
    match k.blocks[block].insts.last() {
        Some(&last) => Slot::Use(last, n),
        None => Slot::Carried(k.blocks[block].params[1 + n]),
    }
}

fn is_tile(k: &Kernel, v: Value) -> bool {
    matches!(k.ty(v), Type::Tile(..))
}

/// Shapes of a constraint's operand and result.
pub(super) fn shapes(k: &Kernel, c: &Constraint) -> [Vec<u32>; 2] {
    [extents(k, c.slots[0].value(k)), extents(k, c.slots[1].value(k))]
}
