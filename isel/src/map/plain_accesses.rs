//! Accesses that later passes know in another form.
//!
//! ```text
//!  c = async_copy x[i] : f16[64]     ─►     c = load x[i] : f16[64]          copies are scheduled anew
//!  async_commit     async_wait 1     ─►     (nothing)
//!  load x[[a, b], j] : f16[64, N]    ─►     load x[rows, j] : f16[64, N]     rows = a .. a + 31, b .. b + 31
//!  atomic_exchange y[i], t           ─►     old = atomic_exchange y[i], t    nobody takes `old`; the same for i64
//!  for .. carry at = iota { .. at + B }   at is iota + t*B   `derive_counters`
//!  load x[i + iota] where c          ─►     load x[i] where c                `plain_indices`
//!  load x[i] where i + iota < n      ─►     load x[i]                        `implied_masks`, if x has n elements
//! ```
//!
//! A copy may read its array anywhere between its start and its wait, so also where it starts. The verifier has checked
//! that nothing takes its data before a wait. Where products read them, `row_runs` finds the runs of rows again.

use super::cursor::Cursor;
use super::derive_counters::derive_tiles;
use super::implied_masks::drop_implied_masks;
use super::plain_indices::plain_indices;
use crate::takes::is_long;
use crate::tiles::extents;
use warplift_ir::tile::{AtomicOp, BinOp, CmpOp, Inst, Kernel, Op, Shape, Type, Value};
use warplift_ir::types::Elem;

/// Writes asynchronous copies as loads, runs as tiles of indices, exchanges with the result that their instructions have, and
/// accesses without tiles of indices that count up and without masks that their views imply.
pub fn do_plain_accesses(k: &mut Kernel) {
    derive_tiles(k);
    plain_indices(k);
    drop_implied_masks(k);
    Cursor::rewrite(k, |mut c, inst| {
        rewrite(&mut c, inst);
        if !matches!(c.k.insts[inst].op, Op::AsyncCommit | Op::AsyncWait(_)) {
            c.keep(inst);
        }
    });
}

fn rewrite(c: &mut Cursor<'_>, inst: Inst) {
    if let Op::LoadRuns(dim) = c.k.insts[inst].op {
        return gather(c, inst, dim.into());
    }
    let k = &mut *c.k;
    let sync = k.insts[inst].op.sync();
    match k.insts[inst].op {
        Op::AsyncCopy => k.insts[inst].op = Op::Load,
        Op::Atomic(op) if has_result(k, inst, op, 1) => {
            k.insts[inst].op = Op::AtomicScatter { op, old: true, masked: false, sync };
            add_result(k, inst, 1);
        }
        Op::AtomicScatter { op, old: false, masked, sync }
            if has_result(k, inst, op, 1 + usize::from(masked)) =>
        {
            k.insts[inst].op = Op::AtomicScatter { op, old: true, masked, sync };
            add_result(k, inst, 1 + usize::from(masked));
        }
        _ => {}
    }
}

/// Whether the instruction that updates with an operand, counted from the last one, gives what was there: every exchange, and
/// updates of 64 bits.
fn has_result(k: &Kernel, inst: Inst, op: AtomicOp, from_end: usize) -> bool {
    let args = k.args(inst);
    op == AtomicOp::Exchange || is_long(k.ty(args[args.len() - from_end]).elem())
}

/// Gives an instruction a result of the type of an operand, counted from the last one.
fn add_result(k: &mut Kernel, inst: Inst, from_end: usize) {
    let args = k.args(inst);
    k.append_result(inst, k.ty(args[args.len() - from_end]));
}

/// A load of runs becomes one by a tile of indices.
fn gather(c: &mut Cursor<'_>, load: Inst, dim: usize) {
    let (shape, args) = (extents(c.k, c.k.result(load)), c.k.args(load).to_vec());
    let Some(at) = c.k.insts[load].op.run_starts(shape.len(), args.len()) else { return };
    let rows = rows(c, shape[dim], &args[at.clone()]);
    let column: Vec<u32> = (0..shape.len()).map(|d| if d == dim { shape[d] } else { 1 }).collect();
    let column = c.inst(Op::Reshape, &[rows], indices(&column));
    let index = c.broadcast(column, indices(&shape));
    c.k.set_args(load, &[&args[..at.start], &[index], &args[at.end..]].concat());
    c.k.insts[load].op = Op::LoadGather { masked: false };
}

/// The index of each row.
fn rows(c: &mut Cursor<'_>, extent: u32, starts: &[Value]) -> Value {
    let ty = indices(&[extent]);
    let place = c.inst(Op::Iota(0), &[], ty);
    let length = i64::from(extent) / starts.len() as i64;
    let run = c.with(BinOp::Div, place, length);
    let within = c.with(BinOp::Rem, place, length);
    let mut first = c.inst(Op::Full, &starts[..1], ty);
    for (n, &start) in (1..).zip(&starts[1..]) {
        let n = c.int(n);
        let own = c.compare(CmpOp::Eq, run, n);
        first = c.select(own, start, first);
    }
    c.op(BinOp::Add, first, within)
}

fn indices(extents: &[u32]) -> Type {
    Type::Tile(Elem::I32, Shape::of(extents).expect("the rank of a tile that is there"))
}
