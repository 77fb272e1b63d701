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
//! What is computed for the sums that a product begins with goes right before it: another product may run meanwhile, and
//! the scheduler finds the same places whatever the text's order was.

use crate::tiles::{memory, program_order, written};
use rustc_hash::{FxHashMap, FxHashSet};
use warplift_ir::tile::{Block, Inst, Kernel, Op, Type, Value};

/// Reorders the bodies of loops of products.
pub fn do_hoist_above_products(k: &mut Kernel) {
    let written = written(k);
    let loops = program_order(k).into_iter().filter(|&i| matches!(k.insts[i].op, Op::For));
    for block in loops.map(|l| k.insts[l].blocks[0]).collect::<Vec<_>>() {
        let product = |i: &Inst| matches!(k.insts[*i].op, Op::Mma);
        let insts = &k.blocks[block].insts;
        let products: Vec<Inst> = insts.iter().copied().filter(product).collect();
        if let Some(first) = insts.iter().position(product) {
            hoist(k, block, first, &written);
            products.into_iter().for_each(|p| lower_sums(k, block, p));
        }
    }
}

/// Moves what only the accumulator of a product needs right before the product.
fn lower_sums(k: &mut Kernel, block: Block, product: Inst) {
    let sums = k.args(product)[0];
    let mut users: FxHashMap<Value, Vec<Inst>> = FxHashMap::default();
    k.walk(|_, inst| k.args(inst).iter().for_each(|&v| users.entry(v).or_default().push(inst)));
    let mut moved: FxHashSet<Inst> = FxHashSet::default();
    let at = k.blocks[block].insts.iter().position(|&i| i == product).unwrap_or(0);
    for &inst in k.blocks[block].insts[..at].iter().rev() {
        let op = &k.insts[inst].op;
        let plain = op.is_elementwise() || matches!(op, Op::Broadcast | Op::ExpandDims(_));
        let inside = |u: &Inst| moved.contains(u) || (*u == product && k.results(inst).contains(&sums));
        let only = |v: &Value| users.get(v).is_some_and(|all| all.iter().all(inside));
        let tile = |v: &Value| matches!(k.ty(*v), Type::Tile(..));
        if plain && k.results(inst).iter().all(|v| tile(v) && only(v)) {
            moved.insert(inst);
        }
    }
    let (low, rest): (Vec<Inst>, Vec<Inst>) =
        k.blocks[block].insts[..at].iter().partition(|&&i| moved.contains(&i));
    let behind = k.blocks[block].insts.split_off(at);
    k.blocks[block].insts = [rest, low, behind].concat();
}

fn hoist(k: &mut Kernel, block: Block, first: usize, written: &FxHashSet<Value>) {
    let behind = k.blocks[block].insts.split_off(first);
    let mut late: FxHashSet<Value> = FxHashSet::default();
    let (mut above, mut below) = (Vec::new(), Vec::new());
    for inst in behind {
        let needs = k.args(inst).iter().any(|a| late.contains(a));
        if !needs && is_small(k, inst) && is_free(k, inst, written) {
            above.push(inst);
        } else {
            late.extend(k.results(inst));
            below.push(inst);
        }
    }
    k.blocks[block].insts.extend(above.into_iter().chain(below));
}

/// Whether an instruction may run anywhere: it has no effect, and reads nothing that the kernel writes.
fn is_free(k: &Kernel, inst: Inst, written: &FxHashSet<Value>) -> bool {
    let data = &k.insts[inst];
    let fixed = || memory(k, k.args(inst)[0]).is_some_and(|m| !written.contains(&m));
    let plain = data.blocks.is_empty() && !data.op.has_effect() && !matches!(data.op, Op::Yield | Op::Mma);
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
