//! Brings a role's control-flow graph into the form that allocation works on.
//!
//! ```text
//!  br_if p, b1(x), b2()           br_if p, e1(), b2()
//!                          =>     e1: c = const 7; br b1(x, c)
//!  add y, 7                       add y, 7            (7 stays a literal: no register)
//! ```
//!
//! 1. Conditional branches carry no values and lead to blocks with one predecessor (what regalloc2 asks
//!    of edges), the entry has no predecessor, blocks that nothing reaches are gone.
//! 2. A constant is a literal where the row's PTX takes one. Where a register is needed it is written
//!    right before the use: a constant never holds a register over a distance. Undefined values that are
//!    passed to blocks or accumulated onto likewise begin right there, each use its own.

use rustc_hash::FxHashMap;
use std::sync::LazyLock;
use warplift_ir::entity::SecondaryMap;
use warplift_ir::machine::{Attr, Block, BlockCall, Func, Guard, Inst, InstData, NewInst, Ty, Value};
use warplift_ir::target::{Opcode, ROWS, Row};

/// The function in that form.
pub(crate) struct Normalized<'a> {
    /// The function.
    pub(crate) func: Func<'a>,
    /// Constants that are written into a register; all others are literals.
    pub(crate) written: SecondaryMap<Value, bool>,
}

/// Brings `func` into normal form.
pub(crate) fn normalize<'a>(func: &Func<'a>) -> Normalized<'a> {
    let mut func = func.clone();
    split_entry(&mut func);
    drop_unreachable(&mut func);
    split_edges(&mut func);
    let written = write_constants(&mut func);
    Normalized { func, written }
}

/// Whether operand `k` may be a literal in PTX: everywhere but in addresses and packed halves (tried, row
/// by row, with the assembler).
pub(crate) fn takes_literal(data: &InstData<'_>, k: usize) -> bool {
    match data.op {
        Opcode::Join => true,
        Opcode::Wgmma | Opcode::MbarWait => k == 1,
        Opcode::TmaLoad => k >= 2,
        Opcode::TmaStore => k >= 1,
        op => LITERALS[op as usize] >> k.min(31) & 1 == 1,
    }
}

/// For each row, which operands of its syntax may be literals, as bits.
static LITERALS: LazyLock<Vec<u32>> = LazyLock::new(|| ROWS.iter().map(literals).collect());

fn literals(row: &Row) -> u32 {
    let packed = row.syntax.split(' ').next().is_some_and(|op| op.ends_with("f16x2"));
    let address = |k: usize| row.syntax.split('[').skip(1).any(|s| s.starts_with(&format!("${k}")));
    let takes = |k: &usize| !row.syntax.is_empty() && !packed && !address(*k);
    (0..row.args.len()).filter(takes).fold(0, |bits, k| bits | 1 << k)
}

fn jump<'a>(func: &mut Func<'a>, at: Block, to: Block, args: &'a [Value], like: Inst) {
    let loc = func.insts[like].loc;
    let inst = func.push(at, NewInst::new(Opcode::Br, &[], &[]).loc(loc));
    func.insts[inst].targets.push(BlockCall { block: to, args });
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

/// A loop may start at the entry: then a new block goes before it.
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
                func.insts[last].targets[t] = BlockCall { block: edge, args: &[] };
                order.push(edge);
            }
        }
    }
    func.order = order;
}

/// Writes constants before uses that need a register.
fn write_constants(func: &mut Func<'_>) -> SecondaryMap<Value, bool> {
    let mut written = SecondaryMap::new();
    let mut fresh: FxHashMap<Value, Value> = FxHashMap::default();
    for block in func.order.clone() {
        let old = std::mem::take(&mut func.blocks[block].insts);
        for inst in old {
            fresh.clear();
            replace_constants(func, block, inst, &mut fresh);
            func.blocks[block].insts.push(inst);
        }
        for &inst in &func.blocks[block].insts {
            if func.insts[inst].op == Opcode::Const {
                let value = func.result(inst);
                written[value] |= func.ty(value).is_frag();
            }
        }
        // Fresh constants stand right before their use and are nowhere literals.
        mark_written(func, block, &mut written);
    }
    written
}

fn mark_written(func: &Func<'_>, block: Block, written: &mut SecondaryMap<Value, bool>) {
    for &inst in &func.blocks[block].insts {
        let data = &func.insts[inst];
        let in_register = |k: &usize| !takes_literal(data, *k);
        let args = (0..data.args.len()).filter(in_register).map(|k| data.args[k]);
        let passed = data.targets.iter().flat_map(|t| t.args).copied();
        for v in args.chain(passed).chain(data.guard.map(|g| g.pred)) {
            written[v] |= func.constant(v).is_some();
        }
    }
}

/// Whether a use in a register gets a value of its own.
fn is_fresh(func: &Func<'_>, v: Value) -> bool {
    let op = func.def(v).map(|i| func.insts[i].op);
    op == Some(Opcode::Undef) || (op == Some(Opcode::Const) && !func.ty(v).is_frag())
}

/// Gives an instruction fresh constants, at the end of `block` as it grows, where it needs registers.
fn replace_constants(func: &mut Func<'_>, block: Block, inst: Inst, fresh: &mut FxHashMap<Value, Value>) {
    let data = &func.insts[inst];
    let old = data.args;
    let needs = |func: &Func<'_>, k: usize| is_fresh(func, old[k]) && !takes_literal(&func.insts[inst], k);
    if (0..old.len()).any(|k| needs(func, k)) {
        let mut args = old.to_vec();
        for (k, arg) in args.iter_mut().enumerate() {
            if needs(func, k) {
                *arg = renew(func, block, inst, *arg, fresh);
            }
        }
        func.insts[inst].args = func.list(&args);
    }
    for t in 0..func.insts[inst].targets.len() {
        let mut args = func.insts[inst].targets[t].args.to_vec();
        if args.iter().any(|&v| is_fresh(func, v)) {
            for arg in &mut args {
                if is_fresh(func, *arg) {
                    *arg = renew(func, block, inst, *arg, fresh);
                }
            }
            func.insts[inst].targets[t].args = func.list(&args);
        }
    }
    if let Some(guard) = func.insts[inst].guard.filter(|g| is_fresh(func, g.pred)) {
        let pred = renew(func, block, inst, guard.pred, fresh);
        func.insts[inst].guard = Some(Guard { pred, ..guard });
    }
}

/// The same constant again, or another undefined value, right here.
fn renew(
    func: &mut Func<'_>,
    block: Block,
    before: Inst,
    value: Value,
    fresh: &mut FxHashMap<Value, Value>,
) -> Value {
    if let Some(&v) = fresh.get(&value) {
        return v;
    }
    let types: [Ty; 1] = [func.ty(value)];
    let loc = func.insts[before].loc;
    let bits = func.constant(value);
    let new = match bits {
        Some(bits) => NewInst::new(Opcode::Const, &[], &types).attr(Attr::Imm(bits)),
        None => NewInst::new(Opcode::Undef, &[], &types),
    };
    let inst = func.push(block, new.loc(loc));
    let new = func.result(inst);
    if bits.is_some() {
        fresh.insert(value, new);
    }
    new
}
