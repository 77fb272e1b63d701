//! What threads do beside the products of a loop, from the shapes of its tiles: issue slots of a trip, and registers.
//!
//! ```text
//!  x = mma x0, ta, tb         products and operands that copies bring     nothing
//!  ta = load ga[..]           operands that threads bring                 18 slots an access, 2 without registers
//!  s = load gs[..]            read by threads                             a slot for 32 bits
//!  p = exp2(cast(ta, f32))    64 x 128 elements                           8 slots (special function unit), 1
//!  w = cast(q, f16)           from narrow elements                        5 slots, 2.5 of packed ones
//!  y = x * s                  128 x 128                                   1
//! ```
//!
//! It orders forms of a product, as their estimates do, and is no bound.

use super::propose::{Anchor, begins, is_loaded, is_operand, is_view};
use crate::problem::behind;
use rustc_hash::FxHashSet;
use warplift_ir::tile::{BinOp, Inst, Kernel, Op, Shape, Tunable, UnOp, Value};

/// Slots of an element that the special function unit computes, or that several instructions do.
const SPECIAL: f64 = 8.0;
/// Slots in which an element of less than 16 bits is converted, as it lies and packed: 27 and 50.5 elements in a cycle
/// (walks of `a16w4` at 1 x 4096 x 14336).
const NARROW: [f64; 2] = [4.7, 2.5];

/// Slots of an access that brings a part of an operand through registers to shared memory, from walks of 64 trips that bring
/// 16384 elements of 16 bits one by one (`gemm_any`, 128 x 128 x 64), and of one that `cp.async` makes.
const ACCESS: [f64; 2] = [18.0, 2.0];

/// The tiles that threads compute in a trip.
pub(super) struct Beside {
    tiles: Vec<Tile>,
    brought: Vec<Brought>,
    /// Whether they make operands on both sides.
    pub both: bool,
}

/// An operand that threads bring.
struct Brought {
    shape: Shape,
    /// Slots of an element that products hide, and slots that they do not.
    slots: [f64; 2],
    /// Registers of an element on its way.
    held: f64,
}

/// What a tile takes.
struct Tile {
    shape: Shape,
    /// Slots of an element.
    slots: f64,
    /// Registers of an element as sums, beside them, and in an operand of a product.
    held: [f64; 3],
}

/// What a trip takes of a block.
#[derive(Clone, Copy, Default)]
pub(super) struct Work {
    /// Issue slots of lanes.
    pub slots: f64,
    /// Issue slots that nothing hides: threads that wait for what they load do not issue products.
    pub alone: f64,
    /// Words of all sums, of the largest tile that threads hold beside them, and of all operands that they make.
    pub words: [f64; 3],
    /// Registers of operands on their way through threads.
    pub brought: f64,
}

impl Beside {
    /// What threads do in the loop of a product. `resolved` is the kernel with some values of its tunables.
    pub fn of(kernel: &Kernel, resolved: &Kernel, anchor: &Anchor<'_>) -> Self {
        let blocks = anchor.holder.map_or(&[][..], |h| &kernel.insts[h].blocks);
        let all: Vec<Inst> = blocks.iter().flat_map(|&b| kernel.inside(b)).collect();
        let products: Vec<Inst> =
            all.iter().copied().filter(|&i| matches!(kernel.insts[i].op, Op::Mma { .. })).collect();
        let sums = products
            .iter()
            .filter(|&&i| begins(kernel, &products, i))
            .map(|&i| (kernel.result(i), 0.0, [1.0, 0.0, 0.0]));
        let operands: Vec<Value> = products.iter().flat_map(|&i| kernel.args(i)[1..].to_vec()).collect();
        let parts: FxHashSet<Inst> = behind(kernel, operands).into_iter().collect();
        // Of operands made on both sides, products read the right ones in shared memory.
        let [left, right] = [1, 2].map(|side| made(kernel, &products, side));
        let both = !left.is_empty() && !right.is_empty();
        let made = if left.is_empty() { right } else { left };
        let made = made.into_iter().map(|v| (v, 0.0, [0.0, 0.0, 1.0]));
        let computed = all.iter().filter_map(|inst| {
            let (v, slots) = slots(kernel, *inst, anchor.packed)?;
            let held = if parts.contains(inst) { 0.0 } else { 1.0 };
            Some((v, slots, [0.0, held, 0.0]))
        });
        let tiles = sums.chain(made).chain(computed);
        let tiles = tiles.filter_map(|(v, slots, held)| Tile::new(kernel, v, slots, held)).collect();
        let brought = all.iter().filter_map(|&i| brought(kernel, resolved, i)).collect();
        Self { tiles, brought, both }
    }

    /// Whether they do anything.
    pub fn is_nothing(&self) -> bool {
        self.brought.is_empty() && self.tiles.iter().all(|t| t.held[0] > 0.0)
    }

    /// The work of a trip where tunables have these values; nothing where they give no shape.
    pub fn at(&self, value: impl Fn(Tunable) -> i64) -> Work {
        let mut work = Work::default();
        let elements = |shape: &Shape| -> f64 {
            let extents = shape.dims().iter().map(|d| d.resolve(&value).map(f64::from));
            extents.map(Option::unwrap_or_default).product()
        };
        for Brought { shape, slots, held } in &self.brought {
            work.slots += elements(shape) * slots[0];
            work.alone += elements(shape) * slots[1];
            work.brought += elements(shape) * held;
        }
        for tile in &self.tiles {
            let elements = elements(&tile.shape);
            work.slots += elements * tile.slots;
            let [sums, beside, operands] = tile.held.map(|held| held * elements);
            work.words = [work.words[0] + sums, work.words[1].max(beside), work.words[2] + operands];
        }
        work
    }
}

impl Tile {
    fn new(kernel: &Kernel, v: Value, slots: f64, held: [f64; 3]) -> Option<Self> {
        let words = f64::from(kernel.ty(v).elem().bits().max(16)) / 32.0;
        let held = held.map(|h| h * words);
        Some(Self { shape: kernel.ty(v).shape()?, slots: slots * words, held })
    }
}

/// The operand that a load brings, if threads make it.
fn brought(kernel: &Kernel, resolved: &Kernel, inst: Inst) -> Option<Brought> {
    if !matches!(kernel.insts[inst].op, Op::Load) || !is_operand(kernel, kernel.result(inst)) {
        return None;
    }
    let how = warplift_isel::thread_loads(resolved, inst)?;
    let ty = kernel.ty(kernel.result(inst));
    let each = 1.0 / f64::from(how.elements);
    let registers = (f64::from(how.elements * ty.elem().bits()) / 32.0).max(1.0);
    let (slots, held) = match how.through_registers {
        true => ([0.0, ACCESS[0] * each], registers * each),
        false => ([ACCESS[1] * each, 0.0], 0.0),
    };
    Some(Brought { shape: ty.shape()?, slots, held })
}

/// The operands on one side of products that threads make.
fn made(kernel: &Kernel, products: &[Inst], side: usize) -> FxHashSet<Value> {
    products.iter().map(|&i| kernel.args(i)[side]).filter(|&v| !is_loaded(kernel, v)).collect()
}

/// The tile whose elements an instruction takes issue slots for, and how many for 32 bits; `None` for what costs nothing.
fn slots(kernel: &Kernel, inst: Inst, packed: bool) -> Option<(Value, f64)> {
    use UnOp::{Abs, Neg, Not};
    let (result, first) = (kernel.results(inst).first().copied(), kernel.args(inst).first().copied());
    let narrow = first.is_some_and(|v| kernel.ty(v).elem().bits() < 16);
    // A product that is only added up is fused.
    let added = match kernel.insts[inst].op {
        Op::Binary(BinOp::Add | BinOp::Sub) => kernel.args(inst),
        Op::Fma => &kernel.args(inst)[2..],
        _ => &[],
    };
    let product = |&v: &Value| kernel.def(v).is_some_and(|d| matches!(kernel.insts[d].op, Op::Mma { .. }));
    let fused = added.iter().any(product);
    let slots = match kernel.insts[inst].op {
        _ if fused || is_view(kernel, inst) => return None,
        Op::Load | Op::LoadGather { .. } if is_operand(kernel, result?) => return None,
        Op::Reduce(..) | Op::Scan(..) => return Some((first?, 1.0)),
        Op::Unary(Neg | Abs | Not) => 1.0,
        Op::Unary(_) | Op::Binary(BinOp::Div | BinOp::Rem) => SPECIAL,
        Op::Cast if narrow => 2.0 * NARROW[usize::from(packed)],
        Op::Load | Op::LoadGather { .. } => 1.0,
        Op::Binary(_) | Op::Compare(_) | Op::Select | Op::Fma | Op::Cast => 1.0,
        _ => return None,
    };
    Some((result?, slots))
}
