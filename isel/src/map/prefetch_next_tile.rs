//! Prefetch of the next tile (double buffering in registers): in a persistent kernel without MMAs, the loads of the
//! next tile are issued before the work on this one. Memory is then busy during the work. Registers hold both tiles.
//!
//! ```text
//!                                      h = load x[id]
//!  for tile in id .. step count        for tile in id .. step count carrying h
//!    h = load x[tile]             ─►     next = load x[tile + count]
//!    work on h                           work on h
//!                                        yield next
//! ```
//!
//! Past the last tile the load is outside its view and gives the view's fill. So views without a known end are left alone.

use super::cursor::Cursor;
use super::persist::rename;
use crate::tiles::{loads_tile, memory, written};
use rustc_hash::{FxHashMap, FxHashSet};
use warplift_ir::tile::{BinOp, Block, Inst, Kernel, Op, Type, Value};
use warplift_ir::types::Elem;

/// Bits of an element of a tile that a loop carries at most.
const CARRIED_BITS: u32 = 32;

/// Loads of the kernel's own block that read another place for each tile, from arrays that the kernel never writes.
/// Their indices are plain arithmetic, which is safe for any tile number: no loads, loops or branches, and no
/// division by a value that may be 0.
pub fn loads(k: &Kernel) -> Vec<Inst> {
    let own = &k.blocks[k.entry].insts;
    let (moving, written) = (moving(k), written(k));
    let fits = |i: &&Inst| {
        let view = k.args(**i)[0];
        let plain = k.def(k.whole_view(view)).is_some_and(|v| k.attrs[v].array.way.is_plain());
        let moves = k.args(**i).iter().any(|a| moving.contains(a));
        let read = memory(k, view).is_some_and(|p| !written.contains(&p));
        let narrow = k.ty(k.result(**i)).elem().bits() <= CARRIED_BITS;
        narrow
            && plain
            && moves
            && read
            && !k.is_open(view)
            && k.args(**i).iter().all(|&a| is_arithmetic(k, a, &mut FxHashSet::default()))
    };
    own.iter().filter(|&&i| loads_tile(k, i)).filter(fits).copied().collect()
}

/// Scalars of the kernel's own block that depend on the tile.
pub fn moving(k: &Kernel) -> FxHashSet<Value> {
    let mut moving: FxHashSet<Value> = FxHashSet::default();
    for &inst in &k.blocks[k.entry].insts {
        let index = matches!(k.insts[inst].op, Op::BlockIndex(_));
        if index || k.args(inst).iter().any(|a| moving.contains(a)) {
            moving.extend(k.results(inst).iter().filter(|&&r| !matches!(k.ty(r), Type::Tile(..))));
        }
    }
    moving
}

/// Whether a value consists of scalar arithmetic and views of pointers only.
pub(super) fn is_arithmetic(k: &Kernel, v: Value, seen: &mut FxHashSet<Value>) -> bool {
    let Some(def) = k.def(v).filter(|_| seen.insert(v)) else { return true };
    let scalar = !matches!(k.ty(v), Type::Tile(..));
    scalar && never_fails(k, def) && k.args(def).iter().all(|&a| is_arithmetic(k, a, seen))
}

/// Whether an instruction may be executed with any operands: it reads and changes no memory, and divides by no 0.
pub(super) fn never_fails(k: &Kernel, inst: Inst) -> bool {
    let op = &k.insts[inst].op;
    let divides = matches!(op, Op::Binary(BinOp::Div | BinOp::CeilDiv | BinOp::Rem));
    let harmless = !divides || k.int_const(k.args(inst)[1]).is_some_and(|d| d != 0);
    harmless && k.insts[inst].blocks.is_empty() && !op.has_effect() && !op.is_read()
}

/// Moves the marked loads one tile ahead in the loop over tiles.
pub fn do_prefetch_next_tile(k: &mut Kernel) {
    let tiles = k.insts.keys().find(|&i| k.attrs[i].persistent);
    let Some((tiles, &body)) = tiles.and_then(|t| Some((t, k.insts[t].blocks.first()?))) else { return };
    let (first, tile) = (k.args(tiles)[0], k.blocks[body].params[0]);
    let inside: FxHashSet<Inst> = k.blocks[body].insts.iter().copied().collect();
    let loads: Vec<Inst> = k.blocks[body].insts.iter().copied().filter(|&i| k.attrs[i].ahead).collect();
    if loads.is_empty() {
        return;
    }

    let entry = k.entry;
    let behind = k.blocks[entry].insts.iter().position(|&i| i == tiles).unwrap_or(0);
    let after = k.blocks[entry].insts.split_off(behind);
    let start = copies(k, entry, &loads, &inside, (tile, first));
    // Operands that do not depend on the tile are needed last.
    let (kept, others): (Vec<Inst>, Vec<Inst>) =
        k.blocks[entry].insts.iter().partition(|&&i| k.attrs[i].in_parts);
    k.blocks[entry].insts = [others, kept].concat();
    k.blocks[entry].insts.extend(after);

    carry_next(k, tiles, &loads, &start);
}

/// Loads of an iteration are made in the one before: the loop carries what they give. The loads of the next iteration.
pub(super) fn load_ahead(k: &mut Kernel, looped: Inst, loads: &[Inst]) -> Vec<Inst> {
    let body = k.insts[looped].blocks[0];
    let (low, counter) = (k.args(looped)[0], k.blocks[body].params[0]);
    let inside: FxHashSet<Inst> = k.blocks[body].insts.iter().copied().collect();
    let start = Cursor::before(k, looped, |c| copies(c.k, c.block, loads, &inside, (counter, low)));
    carry_next(k, looped, loads, &start)
}

/// Puts the loads of the next iteration in the place of those of this one, which the iteration before has made, or which are given
/// for the first one.
fn carry_next(k: &mut Kernel, looped: Inst, loads: &[Inst], start: &[Value]) -> Vec<Inst> {
    let body = k.insts[looped].blocks[0];
    let (step, counter) = (k.args(looped)[2], k.blocks[body].params[0]);
    let inside: FxHashSet<Inst> = k.blocks[body].insts.iter().copied().collect();
    k.blocks[body].insts.retain(|i| !loads.contains(i));
    let next = Cursor::at_start(k, body, |c| {
        let following = c.op(BinOp::Add, counter, step);
        copies(c.k, body, loads, &inside, (counter, following))
    });
    carry(k, looped, loads, start, &next);
    next.into_iter().filter_map(|v| k.def(v)).collect()
}

/// Copies loads and their scalars for another tile number.
fn copies(
    k: &mut Kernel,
    to: Block,
    loads: &[Inst],
    inside: &FxHashSet<Inst>,
    tile: (Value, Value),
) -> Vec<Value> {
    let mut known: FxHashMap<Value, Value> = [tile].into_iter().collect();
    loads.iter().map(|&load| copy(k, to, k.result(load), inside, &mut known)).collect()
}

/// Copies a value and what it is computed of inside, with some values replaced: those that are `known`.
pub(super) fn copy(
    k: &mut Kernel,
    to: Block,
    v: Value,
    inside: &FxHashSet<Inst>,
    known: &mut FxHashMap<Value, Value>,
) -> Value {
    if let Some(&made) = known.get(&v) {
        return made;
    }
    let Some(def) = k.def(v).filter(|d| inside.contains(d)) else { return v };
    let args: Vec<Value> = k.args(def).to_vec();
    let mut args: Vec<Value> = args.into_iter().map(|a| copy(k, to, a, inside, known)).collect();
    if matches!(k.insts[def].op, Op::Binary(BinOp::Div | BinOp::Rem | BinOp::CeilDiv)) {
        args[1] = at_least_one(k, to, args[1]);
    }
    let made = Cursor::at_end(k, to).copy(def, &args);
    // The tile number may be one past the last one.
    k.attrs[made].below = None;
    let made = k.result(made);
    known.insert(v, made);
    made
}

/// A divisor that is never 0. The position of a tile is also computed for numbers past the last one, and for empty
/// grids.
fn at_least_one(k: &mut Kernel, to: Block, divisor: Value) -> Value {
    let known = k.def(divisor).is_some_and(|d| matches!(k.insts[d].op, Op::Int(n) if n > 0));
    if known || k.ty(divisor) != Type::Scalar(Elem::I32) {
        return divisor;
    }
    Cursor::at_end(k, to).with(BinOp::Max, divisor, 1)
}

/// Makes the loop carry what was loaded: the start values, and the yield of each iteration.
fn carry(k: &mut Kernel, tiles: Inst, loads: &[Inst], start: &[Value], next: &[Value]) {
    let body = k.insts[tiles].blocks[0];
    for &load in loads {
        let old = k.result(load);
        let held = k.append_param(body, k.ty(old));
        k.names[held] = std::mem::take(&mut k.names[old]);
        rename(k, &[(old, held)]);
        k.append_result(tiles, k.ty(old));
    }
    extend_args(k, tiles, start);
    if let Some(&end) = k.blocks[body].insts.last() {
        extend_args(k, end, next);
    }
}

fn extend_args(k: &mut Kernel, inst: Inst, more: &[Value]) {
    let all = [k.args(inst), more].concat();
    k.set_args(inst, &all);
}
