//! Small work that needs no product of its iteration goes above them. Threads then read scales and positions while they
//! would wait for the product anyway, and release the stages early.
//!
//! ```text
//!  d = mma zero, a, b                  s = cast(load scale[t])
//!  s = cast(load scale[t])      ─►     d = mma zero, a, b
//!  yield x + d * s                     yield x + d * s
//! ```
//!
//! A row of scales takes few registers. Wide tiles stay where they are: they would live beside the sums.
//!
//! Where threads compute an operand of the first product (they convert weights), they do not wait before it, the tensor
//! cores do: only the loads go above it, with what their places are computed from, and arithmetic stays behind.
//!
//! What is computed for the sums that a product begins with goes right before the conversion of its operands: another
//! product may run meanwhile, and the scheduler finds the same places whatever the text's order was.

use crate::tiles::{Users, memory, program_order, users, written};
use rustc_hash::FxHashSet;
use warplift_ir::tile::{Block, Inst, Kernel, Op, Type, Value};

/// Reorders the bodies of loops of products.
pub fn do_hoist_above_products(k: &mut Kernel) {
    let written = written(k);
    let loops = program_order(k).into_iter().filter(|&i| matches!(k.insts[i].op, Op::For));
    for block in loops.map(|l| k.insts[l].blocks[0]).collect::<Vec<_>>() {
        let product = |i: &Inst| matches!(k.insts[*i].op, Op::Mma { .. });
        let insts = &k.blocks[block].insts;
        let products: Vec<Inst> = insts.iter().copied().filter(product).collect();
        if let Some(first) = insts.iter().position(product) {
            hoist(k, block, first, &written);
            products.into_iter().for_each(|p| lower_sums(k, block, p));
        }
    }
}

/// Moves what only the accumulator of a product needs right before the conversions of its operands; what else its
/// operands need goes before that.
fn lower_sums(k: &mut Kernel, block: Block, product: Inst) {
    let users = users(k);
    let at = k.blocks[block].insts.iter().position(|&i| i == product).unwrap_or(0);
    let above = &k.blocks[block].insts[..at];
    let args = k.args(product);
    let sums = only_for(k, above, product, &args[..1], &users);
    if sums.is_empty() {
        return;
    }
    let mut operands = only_for(k, above, product, &args[1..], &users);
    let last = |r: &Value| users.get(r).is_some_and(|all| all.iter().all(|&u| u == product));
    operands.retain(|&i| matches!(k.insts[i].op, Op::Cast) && k.results(i).iter().all(last));
    let place = |i: &Inst| u8::from(sums.contains(i)) + 2 * u8::from(operands.contains(i));
    k.blocks[block].insts[..at].sort_by_key(place);
}

/// Arithmetic on tiles that serves only some operands of a product.
fn only_for(k: &Kernel, above: &[Inst], product: Inst, operands: &[Value], users: &Users) -> FxHashSet<Inst> {
    let mut found: FxHashSet<Inst> = FxHashSet::default();
    for &inst in above.iter().rev() {
        let op = &k.insts[inst].op;
        let plain = op.is_elementwise() || matches!(op, Op::Broadcast | Op::ExpandDims(_));
        let tile = |v: &Value| matches!(k.ty(*v), Type::Tile(..));
        let inside = |v: &Value, u: &Inst| found.contains(u) || (*u == product && operands.contains(v));
        let only = |v: &Value| users.get(v).is_some_and(|all| all.iter().all(|u| inside(v, u)));
        if plain && k.results(inst).iter().all(|v| tile(v) && only(v)) {
            found.insert(inst);
        }
    }
    found
}

fn hoist(k: &mut Kernel, block: Block, first: usize, written: &FxHashSet<Value>) {
    let behind = k.blocks[block].insts.split_off(first);
    let mut free = free(k, &behind, written);
    if computes_operands(k, block, behind[0]) {
        free = loads(k, &free);
    }
    let (above, below): (Vec<Inst>, Vec<Inst>) = behind.into_iter().partition(|i| free.contains(i));
    k.blocks[block].insts.extend(above.into_iter().chain(below));
}

/// Whether threads compute an operand of a product in the body.
fn computes_operands(k: &Kernel, block: Block, product: Inst) -> bool {
    let computed = |v: Value| {
        let mut def = k.def(v);
        while let Some(i) = def.filter(|&i| matches!(k.insts[i].op, Op::Trans(_))) {
            def = k.def(k.args(i)[0]);
        }
        def.is_some_and(|i| k.insts[i].op.is_elementwise() && k.blocks[block].insts.contains(&i))
    };
    k.args(product)[1..].iter().any(|&v| computed(v))
}

/// Small instructions that need no product, in order.
fn free(k: &Kernel, behind: &[Inst], written: &FxHashSet<Value>) -> Vec<Inst> {
    let mut late: FxHashSet<Value> = FxHashSet::default();
    let mut free = Vec::new();
    for &inst in behind {
        let needs = k.args(inst).iter().any(|a| late.contains(a));
        if !needs && is_small(k, inst) && is_free(k, inst, written) {
            free.push(inst);
        } else {
            late.extend(k.results(inst));
        }
    }
    free
}

/// The loads among them, and what these need.
fn loads(k: &Kernel, free: &[Inst]) -> Vec<Inst> {
    let mut needed: FxHashSet<Value> = FxHashSet::default();
    let mut loads = Vec::new();
    for &inst in free.iter().rev() {
        if k.insts[inst].op.is_read() || k.results(inst).iter().any(|r| needed.contains(r)) {
            needed.extend(k.args(inst));
            loads.push(inst);
        }
    }
    loads
}

/// Whether an instruction may run anywhere: it has no effect, and reads nothing that the kernel writes.
fn is_free(k: &Kernel, inst: Inst, written: &FxHashSet<Value>) -> bool {
    let data = &k.insts[inst];
    let fixed = || memory(k, k.args(inst)[0]).is_some_and(|m| !written.contains(&m));
    let plain =
        data.blocks.is_empty() && !data.op.has_effect() && !matches!(data.op, Op::Yield | Op::Mma { .. });
    plain && (!data.op.is_read() || fixed())
}

/// Whether its operands and results are scalars or rows.
fn is_small(k: &Kernel, inst: Inst) -> bool {
    let few = |&v: &Value| match k.ty(v) {
        Type::Tile(_, s) => s.dims().iter().filter(|d| d.constant() != Some(1)).count() <= 1,
        _ => true,
    };
    !k.results(inst).is_empty() && k.results(inst).iter().all(few) && k.args(inst).iter().all(few)
}
