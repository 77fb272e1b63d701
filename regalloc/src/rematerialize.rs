//! Rematerialization: what is cheap to make again holds no register over a distance.
//!
//! ```text
//!  z = const 0                            add y, 0                a literal where PTX takes one
//!  add y, z                               c = const 0
//!  br b1(z, s)      (s = mov z, splat) => s' = mov 0, splat       else written right before the use
//!                                         br b1(c, s')
//! ```
//!
//! - Constants: literals where the row's PTX takes one, written before any other use.
//! - Undefined values that are passed to blocks or accumulated onto: each use its own.
//! - Splats (one scalar in every register of a fragment) that are passed to blocks or accumulated onto: a
//!   tile of zeros that starts every tile of a persistent kernel would else hold its registers for ever,
//!   beside the accumulator. Before a product they go before the `wgmma.fence` that orders register writes.

use crate::literals::takes_literal;
use crate::table::per_value;
use rustc_hash::FxHashMap;
use warplift_ir::entity::SecondaryMap;
use warplift_ir::machine::{Block, Func, Guard, IndexMap, Inst, NewInst, Value};
use warplift_ir::target::{Opcode, Rows};

/// Where new instructions go and which there are already for the instruction at hand.
struct Here {
    block: Block,
    inst: Inst,
    made: FxHashMap<Value, Value>,
}

/// Makes cheap values anew before their uses; which constants are written into registers.
pub(crate) fn rematerialize(func: &mut Func<'_>, rows: &Rows) -> SecondaryMap<Value, bool> {
    let mut replaced: Vec<Value> = Vec::new();
    for block in func.order.clone() {
        for inst in func.take(block) {
            let mut here = Here { block, inst, made: FxHashMap::default() };
            replace_args(func, rows, &mut here, &mut replaced);
            replace_passed(func, &mut here, &mut replaced);
            replace_guard(func, &mut here, &mut replaced);
            func.append(block, inst);
        }
    }
    drop_unused(func, replaced);
    written(func, rows)
}

fn op(func: &Func<'_>, v: Value) -> Option<Opcode> {
    func.def(v).map(|i| func.insts[i].op)
}

/// Whether all registers of a fragment are one scalar.
fn is_splat(func: &Func<'_>, v: Value) -> bool {
    let Some(data) = func.def(v).map(|i| &func.insts[i]) else { return false };
    let whole = !data.maps.is_empty() && data.maps.iter().all(|m| *m == IndexMap::Whole);
    data.op == Opcode::Mov
        && data.guard.is_none()
        && whole
        && !data.args.iter().any(|&a| func.ty(a).is_frag())
}

/// Whether a value is made anew where it is needed in registers.
fn is_cheap(func: &Func<'_>, v: Value) -> bool {
    match op(func, v) {
        Some(Opcode::Undef) => true,
        Some(Opcode::Const) => !func.ty(v).is_frag(),
        _ => false,
    }
}

fn replace_args(func: &mut Func<'_>, rows: &Rows, here: &mut Here, replaced: &mut Vec<Value>) {
    let old = func.insts[here.inst].args;
    let product = func.insts[here.inst].op == Opcode::Wgmma;
    let needs = |func: &Func<'_>, k: usize| {
        is_cheap(func, old[k]) && !takes_literal(rows, &func.insts[here.inst], k)
            || product && k == 0 && is_splat(func, old[k])
    };
    if !(0..old.len()).any(|k| needs(func, k)) {
        return;
    }
    let which: Vec<bool> = (0..old.len()).map(|k| needs(func, k)).collect();
    let mut args = old.to_vec();
    for (arg, _) in args.iter_mut().zip(which).filter(|(_, needs)| *needs) {
        let splat = is_splat(func, *arg);
        *arg = renew(func, here, *arg, replaced);
        if splat {
            before_fence(func, here.block);
        }
    }
    func.set_args(here.inst, &args);
}

fn replace_passed(func: &mut Func<'_>, here: &mut Here, replaced: &mut Vec<Value>) {
    let cheap = |func: &Func<'_>, v| is_cheap(func, v) || is_splat(func, v);
    for t in 0..func.insts[here.inst].targets.len() {
        let old = func.insts[here.inst].targets[t].args;
        if old.iter().any(|&v| cheap(func, v)) {
            let mut args = old.to_vec();
            for arg in &mut args {
                if cheap(func, *arg) {
                    *arg = renew(func, here, *arg, replaced);
                }
            }
            let block = func.insts[here.inst].targets[t].block;
            func.set_target(here.inst, t, block, &args);
        }
    }
}

fn replace_guard(func: &mut Func<'_>, here: &mut Here, replaced: &mut Vec<Value>) {
    if let Some(guard) = func.insts[here.inst].guard.filter(|g| is_cheap(func, g.pred)) {
        let pred = renew(func, here, guard.pred, replaced);
        func.set_guard(here.inst, Some(Guard { pred, ..guard }));
    }
}

/// The same value again, at the end of the block as it grows. Only constants serve twice.
fn renew(func: &mut Func<'_>, here: &mut Here, value: Value, replaced: &mut Vec<Value>) -> Value {
    if let Some(&v) = here.made.get(&value) {
        return v;
    }
    let Some(old) = func.def(value) else { return value };
    let (ty, data) = (func.ty(value), &func.insts[old]);
    let new = NewInst::new(data.op, data.args, &[ty]).attr(data.attr.clone()).maps(data.maps.clone());
    let constant = data.op == Opcode::Const;
    let loc = func.insts[here.inst].loc;
    let inst = func.push(here.block, new.loc(loc));
    let new = func.result(inst);
    if constant {
        here.made.insert(value, new);
    }
    replaced.push(value);
    new
}

/// Moves a block's last instruction before its last `wgmma.fence`, if its operand stands before that.
pub(crate) fn before_fence(func: &mut Func<'_>, block: Block) {
    let Some(last) = func.pop(block) else { return };
    let at = fence_before(func, block, func.blocks[block].insts.len(), func.insts[last].args);
    func.insert(block, at, last);
}

/// The last `wgmma.fence` before place `at` of a block with all of `values` defined before it, or `at`.
pub(crate) fn fence_before(func: &Func<'_>, block: Block, at: usize, values: &[Value]) -> usize {
    let insts = &func.blocks[block].insts[..at];
    let defines = |&i: &Inst| func.insts[i].results.iter().any(|r| values.contains(r));
    let after = insts.iter().rposition(defines).map_or(0, |p| p + 1);
    let fence = |&i: &Inst| func.insts[i].op == Opcode::WgmmaFence;
    insts[after..].iter().rposition(fence).map_or(at, |p| after + p)
}

/// Drops what was made anew for all of its uses.
fn drop_unused(func: &mut Func<'_>, replaced: Vec<Value>) {
    let mut used: SecondaryMap<Value, bool> = per_value(func);
    for inst in func.order.iter().flat_map(|&b| &func.blocks[b].insts) {
        let data = &func.insts[*inst];
        let passed = data.targets.iter().flat_map(|t| t.args);
        let values = data.args.iter().chain(passed).copied().chain(data.guard.map(|g| g.pred));
        values.for_each(|v| used[v] = true);
    }
    let mut dead: SecondaryMap<Inst, bool> = SecondaryMap::new();
    let mut any = false;
    for inst in replaced.into_iter().filter(|&v| !used[v]).filter_map(|v| func.def(v)) {
        dead[inst] = true;
        any = true;
    }
    for block in func.order.clone().into_iter().filter(|_| any) {
        func.retain(block, |_, i| !dead[i]);
    }
}

/// Constants that some use needs in a register. These stand right before that use and are nowhere else.
fn written(func: &Func<'_>, rows: &Rows) -> SecondaryMap<Value, bool> {
    let mut written = per_value(func);
    for inst in func.order.iter().flat_map(|&b| &func.blocks[b].insts) {
        let data = &func.insts[*inst];
        if data.op == Opcode::Const {
            written[data.results[0]] |= func.ty(data.results[0]).is_frag();
        }
        let args = (0..data.args.len()).filter(|&k| !takes_literal(rows, data, k)).map(|k| data.args[k]);
        let passed = data.targets.iter().flat_map(|t| t.args).copied();
        for v in args.chain(passed).chain(data.guard.map(|g| g.pred)) {
            written[v] |= func.constant(v).is_some();
        }
    }
    written
}
