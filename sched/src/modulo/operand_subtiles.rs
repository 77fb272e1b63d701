//! Operands that threads compute in a loop are computed store by store, so that they never exist as a whole in registers.
//!
//! ```text
//!  x = join (ld, ld, ..)     16        x0 = ld             4
//!  y = convert x             32   ─►   y0 = convert x0     4      st y0
//!  st y[0..4]; st y[4..8]; ..          y1 = convert x0     4      st y1      x1 = ld  ..
//! ```
//!
//! Such parts fit beside the fragments of products in flight, so the schedule can place them under these.

use super::elementwise_subtiles::{Cut, is_step, is_view, reads_by_map};
use crate::analysis::{Graph, touched};
use rustc_hash::{FxHashMap, FxHashSet};
use warplift_ir::machine::{Attr, Block, Buffer, BufferKind, Func, IndexMap, Inst, NewInst, Program, Value};
use warplift_ir::target::Opcode;

/// Stores whose work alternates, so that one hides the latency of the other.
const SIDE_BY_SIDE: usize = 2;

/// Cuts the work on the operands that a program's threads compute in loops.
pub(super) fn do_operand_subtiles(program: &mut Program<'_>, graph: &mut Graph) {
    let operands: Vec<Buffer> = program.buffers_of(BufferKind::Operand).collect();
    for buffer in operands {
        let first = graph.accesses(&program.func, buffer).first();
        if let Some(block) = first.and_then(|a| program.func.block_of(a.inst)) {
            let sunk = |b: Buffer| program.buffers[b].kind == BufferKind::Ring;
            cut(&mut program.func, block, buffer, sunk);
            graph.update(&mut program.func);
        }
    }
}

/// Cuts the work on one operand. Loads of buffers that are `sunk` go with the first part that needs them.
fn cut(func: &mut Func<'_>, block: Block, buffer: Buffer, sunk: impl Fn(Buffer) -> bool) {
    let stores: Vec<Inst> =
        func.blocks[block].insts.iter().copied().filter(|&i| stores_to(func, i, buffer)).collect();
    let members = members(func, block, &stores);
    let Some(&last) = stores.last().filter(|_| !members.is_empty()) else { return };
    let list = func.take(block);
    let mut cut = Cut::new(func, block, &members);
    let parts: Vec<Vec<Inst>> = stores.iter().map(|&s| part(&mut cut, s)).collect();
    let parts: Vec<Vec<Inst>> = parts.chunks(SIDE_BY_SIDE).map(|p| by_level(func, &p.concat())).collect();
    let (until, behind) = list.split_at(list.iter().position(|&i| i == last).map_or(list.len(), |n| n + 1));
    let kept = until.iter().filter(|i| !members.contains(i) && !stores.contains(i));
    let moves = |i: &&Inst| loads_from(func, **i).is_some_and(&sunk) && is_read_only_in(func, **i, &parts);
    let (loads, kept): (Vec<Inst>, Vec<Inst>) = kept.partition(moves);
    let mut order = kept;
    // What the next part loads is on its way while this one is computed.
    for n in 0..parts.len() {
        let soon = &parts[n..(n + 2).min(parts.len())];
        let first = |l: &&Inst| !order.contains(l) && is_read_in(func, **l, soon);
        let needed: Vec<Inst> = loads.iter().filter(first).copied().collect();
        order.extend(needed.iter().chain(&parts[n]));
    }
    order.extend(behind);
    order.into_iter().for_each(|i| func.append(block, i));
}

/// Instructions by the longest chain of them that leads to each, so that what does not depend on each other alternates.
fn by_level(func: &Func<'_>, insts: &[Inst]) -> Vec<Inst> {
    let mut level: FxHashMap<Inst, usize> = FxHashMap::default();
    for &inst in insts {
        let before = func.insts[inst].args.iter().filter_map(|&v| level.get(&func.def(v)?));
        let own = before.max().map_or(0, |l| l + 1);
        level.insert(inst, own);
    }
    let mut order = insts.to_vec();
    order.sort_by_key(|i| level[i]);
    order
}

/// The work on what a store stores, and the store.
fn part(cut: &mut Cut<'_, '_>, store: Inst) -> Vec<Inst> {
    let args = cut.func.insts[store].args.to_vec();
    let picked = args[1];
    if cut.chain.contains(&cut.func.def(picked).unwrap_or(store)) {
        let regs = cut.func.ty(picked).regs().max(1) as u16;
        let sources = (0..regs).map(|r| cut.source(picked, r)).collect();
        let (value, map) = cut.operand(sources);
        let ty = cut.func.ty(picked);
        let value = match map {
            IndexMap::EACH | IndexMap::Whole if cut.func.ty(value) == ty => value,
            IndexMap::Whole => cut.push(NewInst::new(Opcode::Join, &[value], &[ty])),
            map => cut.push(NewInst::new(Opcode::Slice, &[value], &[ty]).maps([map].into_iter().collect())),
        };
        let args: Vec<Value> = args.iter().map(|&v| if v == picked { value } else { v }).collect();
        cut.func.set_args(store, &args);
    }
    let mut made = cut.func.take(cut.block);
    made.push(store);
    made
}

/// The elementwise work of a block that only these stores use, through views of it.
fn members(func: &Func<'_>, block: Block, stores: &[Inst]) -> FxHashSet<Inst> {
    let mut members: FxHashSet<Inst> = FxHashSet::default();
    for &inst in func.blocks[block].insts.iter().rev() {
        let view = is_view(func, inst);
        let stored = |i: Inst| view && stores.contains(&i);
        let own = |i: Inst, v: Value| members.contains(&i) && reads_by_map(func, (block, v), i);
        let inner = |&v: &Value| {
            let mut users = func.users(v).peekable();
            users.peek().is_some() && users.all(|i| stored(i) || own(i, v))
        };
        if (view || is_step(func, inst)) && func.insts[inst].results.iter().all(inner) {
            members.insert(inst);
        }
    }
    members
}

fn stores_to(func: &Func<'_>, inst: Inst, buffer: Buffer) -> bool {
    let d = &func.insts[inst];
    touched(&d.attr, d.op).iter().any(|&(b, writes)| writes && b == buffer)
}

/// The buffer that a thread's load from shared memory reads.
fn loads_from(func: &Func<'_>, inst: Inst) -> Option<Buffer> {
    match (func.insts[inst].op, &func.insts[inst].attr) {
        (Opcode::LdShared, Attr::PlaceMem { place, .. }) => Some(place.buffer),
        _ => None,
    }
}

/// Whether one of these parts reads an instruction's results.
fn is_read_in(func: &Func<'_>, inst: Inst, parts: &[Vec<Inst>]) -> bool {
    users(func, inst).any(|i| parts.iter().any(|p| p.contains(&i)))
}

/// Whether these parts alone read an instruction's results, and one of them does.
fn is_read_only_in(func: &Func<'_>, inst: Inst, parts: &[Vec<Inst>]) -> bool {
    is_read_in(func, inst, parts) && users(func, inst).all(|i| parts.iter().any(|p| p.contains(&i)))
}

fn users<'f>(func: &'f Func<'_>, inst: Inst) -> impl Iterator<Item = Inst> + 'f {
    func.insts[inst].results.iter().flat_map(|&r| func.users(r))
}
