//! Blocks of rows: products that start anew in every iteration are computed the rows of one instruction of each warpgroup at
//! a time.
//!
//! ```text
//!  x: f32[256, 128], two warpgroups               x, y: f32[128, 128]
//!  p = mma 0, a[256, K], b              ─►        p = mma 0, a[0..128], b       x' = x + p * s[0..128]
//!  x' = x + p * s                                 q = mma 0, a[128..256], b     y' = y + q * s[128..256]
//!  store c[i], x                                  store c[i], x    store c[i + 128], y
//! ```
//!
//! What they are added to takes the registers of all rows, and a product those of one instruction: 64 registers less for each
//! thread here. It is done only where sums and product do not fit beside each other. A product that the tensor cores add to its sum needs
//! no registers of its own, and stays whole. So do tiles whose rows meet: a part of them would hold what belongs to the whole.

use super::cursor::Cursor;
use super::drop_unused::do_drop_unused;
use super::loops::block_of;
use super::mma_variant::WGMMA_M;
use super::sink::{Stops, TilePart};
use super::strip_mine::thread_registers;
use crate::tiles::{WARPGROUP_THREADS, ancestors, constant, extents, memory, program_order, written};
use rustc_hash::{FxHashMap, FxHashSet};
use warplift_ir::target::Target;
use warplift_ir::tile::{Block, Dim, Inst, Kernel, Op, Shape, Type, Value};

/// Registers of a thread beside these tiles: addresses, scales, what ptxas takes.
const OTHERS: u64 = 48;
/// Operands of a loop before what it carries.
const BOUNDS: usize = 3;
/// The rows of a tile of two dimensions, counted from the last one.
const BACK: usize = 1;

/// A loop whose tiles of so many rows are cut.
struct Cut {
    looped: Inst,
    body: Block,
    extent: u32,
    width: u32,
    /// What it carries of these tiles, by number.
    carried: Vec<usize>,
}

/// Cuts the tiles of every loop that has such products.
pub fn do_row_blocks(k: &mut Kernel, target: &Target) {
    for cut in program_order(k).into_iter().filter_map(|i| cut(k, i, target)).collect::<Vec<_>>() {
        let whole = k.clone();
        if !cut.apply(k) {
            *k = whole;
        }
    }
}

/// The cut of a loop that adds up products which several instructions of each warpgroup make anew, if both do not fit.
fn cut(k: &Kernel, looped: Inst, target: &Target) -> Option<Cut> {
    let data = &k.insts[looped];
    let body = *data.blocks.first().filter(|_| matches!(data.op, Op::For))?;
    let consumers = k.attrs[looped].looped?.consumers?;
    let width = WGMMA_M * consumers;
    let product = k.blocks[body].insts.iter().find(|&&i| begins_anew(k, i))?;
    let extent = rows(k, k.result(*product))?;
    if extent <= width
        || !extent.is_multiple_of(width)
        || k.any_inside(looped, |i| k.insts[i].op.has_effect())
    {
        return None;
    }
    let results = k.results(looped);
    let carried: Vec<usize> = (0..results.len()).filter(|&n| rows(k, results[n]) == Some(extent)).collect();
    let threads = consumers * WARPGROUP_THREADS;
    let registers = |v: Value| {
        let ty = k.ty(v);
        thread_registers(ty.elem(), ty.shape().and_then(|s| s.elements()).unwrap_or(0), threads.into())
    };
    let held: u64 = carried.iter().map(|&n| results[n]).chain([k.result(*product)]).map(registers).sum();
    let room = (target.registers / threads).min(target.thread_registers);
    let fits = held + OTHERS <= room.into();
    (!carried.is_empty() && !fits).then_some(Cut { looped, body, extent, width, carried })
}

/// Whether a product is added to nothing.
fn begins_anew(k: &Kernel, inst: Inst) -> bool {
    matches!(k.insts[inst].op, Op::Mma { .. }) && constant(k, k.args(inst)[0]) == Some(0.0)
}

/// The rows of a tile of two dimensions.
fn rows(k: &Kernel, v: Value) -> Option<u32> {
    let shape = extents(k, v);
    shape.first().copied().filter(|_| shape.len() == 2)
}

impl Cut {
    /// Cuts; `false` if something needs whole tiles, and what is left is of no use.
    fn apply(&self, k: &mut Kernel) -> bool {
        let old = k.insts.len();
        let results = self.results(k);
        if !self.stores(k, &results) {
            return false;
        }
        self.enter(k);
        self.iterate(k);
        let narrow = results.iter().map(|of| of[0]).chain(self.params(k));
        let narrow: FxHashSet<Value> = narrow.collect();
        narrow.iter().for_each(|&v| k.values[v].ty = self.narrow(k.ty(v)));
        do_drop_unused(k);
        let end = k.blocks[self.body].insts.last().copied();
        program_order(k).into_iter().all(|i| {
            let is_new = (i.as_u32() as usize) >= old;
            let whole = match k.insts[i].op {
                Op::Slice(_) => is_new,
                Op::Mma { .. } => !is_new && k.blocks[self.body].insts.contains(&i),
                _ => false,
            };
            let uses = k.args(i).iter().any(|v| narrow.contains(v));
            !whole && (is_new || !uses || Some(i) == end)
        })
    }

    fn parts(&self) -> u32 {
        self.extent / self.width
    }

    fn narrow(&self, ty: Type) -> Type {
        let Type::Tile(elem, shape) = ty else { return ty };
        let dims = [Dim::new(self.width), shape.dims()[1]];
        Shape::new(&dims).map_or(ty, |shape| Type::Tile(elem, shape))
    }

    /// The parameters of the body that are cut.
    fn params(&self, k: &Kernel) -> Vec<Value> {
        self.carried.iter().map(|&n| k.blocks[self.body].params[1 + n]).collect()
    }

    /// The results of the loop by part, of which the first is the old one.
    fn results(&self, k: &mut Kernel) -> Vec<Vec<Value>> {
        let of = |&n: &usize| {
            let first = k.results(self.looped)[n];
            let ty = self.narrow(k.ty(first));
            let more = (1..self.parts()).map(|_| k.append_result(self.looped, ty));
            std::iter::once(first).chain(more).collect()
        };
        self.carried.iter().map(of).collect()
    }

    /// A part of whatever follows from tiles whose parts are known.
    fn part<'k>(&self, at: Cursor<'k>, number: u32, known: &[(Value, Value)]) -> TilePart<'k> {
        let done = known.iter().map(|&(whole, part)| ((whole, BACK), part)).collect::<FxHashMap<_, _>>();
        let from = number * self.width;
        TilePart {
            at,
            extent: self.extent,
            from,
            width: self.width,
            done,
            stops: Stops::ThroughProducts,
            holds: &[],
        }
    }

    /// The loop begins with parts.
    fn enter(&self, k: &mut Kernel) {
        let mut args = k.args(self.looped).to_vec();
        for &n in &self.carried {
            let whole = args[BOUNDS + n];
            let part = |c: &mut Cursor<'_>, number: u32| {
                let at = Cursor::at_end(c.k, c.block).like(self.looped);
                self.part(at, number, &[]).of(whole, BACK)
            };
            let parts: Vec<Value> =
                Cursor::before(k, self.looped, |c| (0..self.parts()).map(|number| part(c, number)).collect());
            args[BOUNDS + n] = parts[0];
            args.extend(&parts[1..]);
        }
        k.set_args(self.looped, &args);
    }

    /// An iteration computes the first part, then the others.
    fn iterate(&self, k: &mut Kernel) {
        let whole = self.params(k);
        let more = |&v: &Value| {
            let ty = self.narrow(k.ty(v));
            let others = (1..self.parts()).map(|_| k.append_param(self.body, ty));
            std::iter::once(v).chain(others.collect::<Vec<_>>()).collect::<Vec<_>>()
        };
        let parts: Vec<Vec<Value>> = whole.iter().map(more).collect();
        let Some(end) = k.blocks[self.body].insts.pop() else { return };
        let mut yields = k.args(end).to_vec();
        let old = k.blocks[self.body].insts.len();
        let mut made = Vec::new();
        for number in 0..self.parts() {
            let known = known(&whole, &parts, number);
            let mut part = self.part(Cursor::at_end(k, self.body).like(end), number, &known);
            made.push(self.carried.iter().map(|&n| part.of(yields[n], BACK)).collect::<Vec<_>>());
        }
        for (at, &n) in self.carried.iter().enumerate() {
            yields[n] = made[0][at];
            yields.extend(made[1..].iter().map(|of| of[at]));
        }
        k.set_args(end, &yields);
        // Loads stand together, so that one ring brings them.
        let new = k.blocks[self.body].insts.split_off(old);
        let is_load = |&i: &Inst| k.insts[i].op.is_read() || matches!(k.ty(k.result(i)), Type::Scalar(_));
        let (loads, others): (Vec<Inst>, Vec<Inst>) = new.into_iter().partition(is_load);
        k.blocks[self.body].insts.extend(loads.into_iter().chain(others).chain([end]));
    }

    /// What is stored behind the loop is stored in parts. `false` if a part would load what another one has stored.
    fn stores(&self, k: &mut Kernel, results: &[Vec<Value>]) -> bool {
        let whole: Vec<Value> = results.iter().map(|of| of[0]).collect();
        let written = written(k);
        let block = block_of(k, self.looped);
        let Some(at) = k.blocks[block].insts.iter().position(|&i| i == self.looped) else { return false };
        for inst in k.blocks[block].insts.split_off(at + 1) {
            let Some(value) = self.stored(k, inst) else {
                k.blocks[block].insts.push(inst);
                continue;
            };
            // Of loops, branches and what they hold only the results.
            let ancestors = ancestors(k, k.args(inst)[value], |d| k.insts[d].blocks.is_empty());
            let reads = |&v: &Value| k.def(v).filter(|&d| k.insts[d].op.is_read());
            let loads = ancestors.iter().filter_map(reads);
            if loads.into_iter().any(|d| memory(k, k.args(d)[0]).is_none_or(|m| written.contains(&m))) {
                return false;
            }
            if !whole.iter().any(|v| ancestors.contains(v)) {
                k.blocks[block].insts.push(inst);
                continue;
            }
            for number in 0..self.parts() {
                let known = known(&whole, results, number);
                let mut part = self.part(Cursor::at_end(k, block).like(inst), number, &known);
                part.store(inst, value);
            }
        }
        true
    }

    /// The operand that a store of such a tile writes.
    fn stored(&self, k: &Kernel, inst: Inst) -> Option<usize> {
        let op = &k.insts[inst].op;
        let value =
            op.written_operand(k.args(inst).len()).filter(|_| matches!(op, Op::Store | Op::Atomic(_)))?;
        let shape = extents(k, k.args(inst)[value]);
        (shape.len() > BACK && shape[shape.len() - 1 - BACK] == self.extent).then_some(value)
    }
}

/// One part of each whole tile.
fn known(whole: &[Value], parts: &[Vec<Value>], number: u32) -> Vec<(Value, Value)> {
    whole.iter().zip(parts).map(|(&v, of)| (v, of[number as usize])).collect()
}
