//! Brings a role's control-flow graph into the form that allocation works on.
//!
//! ```text
//!  br_if p, b1(x), b2()           br_if p, e1(), b2()
//!                          =>     e1: c = const 7; br b1(x, c)
//!  add y, 7                       add y, 7            (7 stays a literal: no register)
//! ```
//!
//! 1. Conditional branches carry no values and lead to blocks with one predecessor, as regalloc2 requires. The entry
//!    has no predecessor. Unreachable blocks are removed.
//! 2. Cheap values are recomputed where they are used: [`crate::rematerialize`].

use crate::rematerialize::rematerialize;
use warplift_ir::entity::SecondaryMap;
use warplift_ir::machine::{Block, Func, Inst, NewInst, Value};
use warplift_ir::target::{Opcode, Rows};

/// The function in that form.
pub(crate) struct Normalized<'a> {
    /// The chip's rows.
    pub(crate) rows: &'static Rows,
    /// The function.
    pub(crate) func: Func<'a>,
    /// Constants that are written into a register; all others are literals.
    pub(crate) written: SecondaryMap<Value, bool>,
}

/// Brings `func` into normal form.
pub(crate) fn normalize<'a>(func: &Func<'a>, rows: &'static Rows) -> Normalized<'a> {
    let mut func = func.clone();
    // Constants are made anew, and edges get blocks.
    func.reserve(func.insts.len() / 4, func.values.len() / 4);
    split_entry(&mut func);
    drop_unreachable(&mut func);
    split_edges(&mut func);
    let written = rematerialize(&mut func, rows);
    Normalized { rows, func, written }
}

fn jump<'a>(func: &mut Func<'a>, at: Block, to: Block, args: &'a [Value], like: Inst) {
    let loc = func.insts[like].loc;
    let inst = func.push(at, NewInst::new(Opcode::Br, &[], &[]).loc(loc));
    func.add_target(inst, to, args);
}

fn predecessors(func: &Func<'_>) -> SecondaryMap<Block, u32> {
    let mut count = SecondaryMap::new();
    for &block in &func.order {
        for call in func.successors(block) {
            count[call.block] += 1;
        }
    }
    count
}

/// If a loop starts at the entry, a new block goes before it.
fn split_entry(func: &mut Func<'_>) {
    let old = func.entry;
    if predecessors(func)[old] == 0 {
        return;
    }
    let Some(first) = func.blocks[old].insts.first().copied() else { return };
    let new = func.new_block();
    jump(func, new, old, &[], first);
    func.entry = new;
    func.order.insert(0, new);
}

fn drop_unreachable(func: &mut Func<'_>) {
    let mut reached: SecondaryMap<Block, bool> = SecondaryMap::new();
    let mut stack = vec![func.entry];
    while let Some(block) = stack.pop() {
        if !std::mem::replace(&mut reached[block], true) {
            stack.extend(func.successors(block).iter().map(|c| c.block));
        }
    }
    func.order.retain(|&b| reached[b]);
}

/// Puts a block on every edge of a conditional branch that carries values or is critical.
fn split_edges(func: &mut Func<'_>) {
    let preds = predecessors(func);
    let mut order = Vec::with_capacity(func.order.len() + 8);
    for block in std::mem::take(&mut func.order) {
        order.push(block);
        let Some(last) = func.terminator(block).filter(|&i| func.insts[i].targets.len() > 1) else {
            continue;
        };
        for t in 0..func.insts[last].targets.len() {
            let call = func.insts[last].targets[t];
            if !call.args.is_empty() || preds[call.block] > 1 {
                let edge = func.new_block();
                jump(func, edge, call.block, call.args, last);
                func.set_target(last, t, edge, &[]);
                order.push(edge);
            }
        }
    }
    func.order = order;
}
