//! What must agree: one constraint for each operation on tiles, as data (Hexcute, section 4 and Fig. 12).
//!
//! ```text
//!  y = a + b        Equal      {a used, b used, y made}
//!  for carry x      Equal      {x carried, result made, yielded used, start used}
//!  y = reduce a, d  Reduced    a used ─► y made       y's layout is a's without the dimension
//!  y = trans a      Permuted   a used ─► y made
//!  y = broadcast a  Broadcast  y made ─► a used
//!  y = reshape a    Reshaped   whichever is known ─► the other
//! ```
//!
//! A constraint speaks of slots: places where an instruction sees a tile. The same tile may be seen in several
//! layouts; what stands between is a conversion.

use super::types::Plan;
use crate::operand::is_packed;
use crate::tiles::extents;
use smallvec::SmallVec;
use warplift_ir::layout::Layout;
use warplift_ir::tile::{Block, Inst, Kernel, Op, Type, Value};

/// A place where an instruction sees a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    /// Operand number of an instruction.
    Use(Inst, usize),
    /// A result of the instruction, as it is made.
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

    /// The layout in which the tile is seen here, if one is known.
    pub fn layout<'p>(self, k: &Kernel, plan: &'p Plan) -> Option<&'p Layout> {
        let other = match self {
            Self::Use(inst, n) => plan.uses.get(&(inst, n)),
            Self::Made(v) => plan.made.get(&v),
            Self::Carried(_) => None,
        };
        other.or(plan.layouts[self.value(k)].as_ref())
    }

    /// Whether any layout fits for nothing.
    pub fn is_free(self, k: &Kernel) -> bool {
        matches!(self, Self::Use(..)) && adapts(k, self.value(k))
    }
}

/// Whether a value fits any layout for free, so that each use may see its own.
pub(super) fn adapts(k: &Kernel, v: Value) -> bool {
    k.def(v).is_some_and(|d| matches!(k.insts[d].op, Op::Full | Op::Iota(_)))
}

/// How the layouts of a constraint's slots follow from one another. All but the first speak of two slots, operand
/// and result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Relation {
    /// One layout.
    Equal,
    /// The result lacks a dimension of the operand.
    Reduced(u8),
    /// The operand lacks a dimension of the result.
    Expanded(u8),
    /// The result is the part from an offset on.
    Sliced(Vec<u32>),
    /// The operand's dimensions of extent 1, and those it lacks, are repeated.
    Broadcast,
    /// The same bits as elements of other widths.
    Reinterpreted,
    /// Dimensions in another order.
    Permuted(Box<[u8]>),
    /// Another shape in row-major order.
    Reshaped,
    /// A cast of packed elements, whose registers have an order of their own.
    Unpacked,
}

/// A constraint of one instruction.
#[derive(Clone, Debug)]
pub(super) struct Constraint {
    /// The instruction.
    pub inst: Inst,
    /// The places of which it speaks.
    pub slots: SmallVec<[Slot; 4]>,
    /// What it demands of them.
    pub relation: Relation,
}

/// All constraints of a kernel, in the order of the program.
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
        Op::Cast if is_packed(k, k.args(inst)[0]) => pair(Relation::Unpacked),
        Op::Unary(_) | Op::Binary(_) | Op::Compare(_) | Op::Select | Op::Fma | Op::Cast => {
            let uses = (0..k.args(inst).len()).map(arg);
            one(Relation::Equal, &uses.chain((0..results.len()).map(made)).collect::<Vec<_>>())
        }
        // Registers stay as they are: the same elements under another type of the same width.
        Op::ViewAs(to) if to.bits() == bits(k.args(inst)[0]) => pair(Relation::Equal),
        Op::ViewAs(_) => pair(Relation::Reinterpreted),
        Op::Scan(..) => pair(Relation::Equal),
        Op::Gather(_) => one(Relation::Equal, &[arg(1), made(0)]),
        Op::For => (0..results.len()).flat_map(|i| one(Relation::Equal, &carried(k, inst, i))).collect(),
        Op::If => (0..results.len()).flat_map(|i| one(Relation::Equal, &branches(k, inst, i))).collect(),
        Op::Reduce(_, axis) if is_tile(k, results[0]) => pair(Relation::Reduced(*axis)),
        Op::ExpandDims(d) => pair(Relation::Expanded(*d)),
        Op::Slice(offsets) => {
            pair(Relation::Sliced(offsets.iter().map(|d| d.constant().unwrap_or(0)).collect()))
        }
        Op::Broadcast if is_tile(k, k.args(inst)[0]) => pair(Relation::Broadcast),
        Op::Trans(perm) => pair(Relation::Permuted(perm.iter().copied().collect())),
        Op::Reshape => pair(Relation::Reshaped),
        // `rearrange` is a hint that layouts may differ: the operand's spreads where nothing else gives one.
        _ => SmallVec::new(),
    }
}

/// What a loop carries: inside, as its result, what is yielded, and where it starts.
fn carried(k: &Kernel, inst: Inst, n: usize) -> [Slot; 4] {
    let body = k.insts[inst].blocks[0];
    let inside = Slot::Carried(k.blocks[body].params[1 + n]);
    [inside, Slot::Made(k.results(inst)[n]), yielded(k, body, n), Slot::Use(inst, 3 + n)]
}

/// What a branch gives: as its result, and what each side yields.
fn branches(k: &Kernel, inst: Inst, n: usize) -> SmallVec<[Slot; 4]> {
    let yields = k.insts[inst].blocks.iter().map(|&b| yielded(k, b, n));
    std::iter::once(Slot::Made(k.results(inst)[n])).chain(yields).collect()
}

/// What a block yields, as an operand of its last instruction.
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
