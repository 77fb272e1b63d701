//! Accesses that later passes know in another form.
//!
//! ```text
//!  c = async_copy x[i] : f16[64]     ─►     c = load x[i] : f16[64]          copies are scheduled anew
//!  async_commit     async_wait 1     ─►     (nothing)
//!  load x[[a, b], j] : f16[64, N]    ─►     load x[rows, j] : f16[64, N]     rows = a .. a + 31, b .. b + 31
//!  atomic_exchange y[i], t           ─►     old = atomic_exchange y[i], t    nobody takes `old`; the same for i64
//!  load x[i] where i + iota < n      ─►     load x[i]                        `implied_masks`, if x has n elements
//! ```
//!
//! A copy may read its array anywhere between its start and its wait, so also where it starts. The verifier has checked
//! that nothing takes its data before a wait. Where products read them, `row_runs` finds the runs of rows again.

use super::implied_masks::drop_implied_masks;
use crate::takes::is_long;
use crate::tiles::extents;
use warplift_ir::tile::{
    AtomicOp, BinOp, Block, CmpOp, Dim, Inst, Kernel, Loc, Op, Shape, Type, Value, ValueData, ValueDef,
    ValueList,
};
use warplift_ir::types::Elem;

/// Writes asynchronous copies as loads, runs as tiles of indices, exchanges with the result that their instructions have, and
/// accesses without masks that their views imply.
pub fn do_plain_accesses(k: &mut Kernel) {
    drop_implied_masks(k);
    for block in k.blocks.keys().collect::<Vec<_>>() {
        for inst in std::mem::take(&mut k.blocks[block].insts) {
            rewrite(k, block, inst);
            if !matches!(k.insts[inst].op, Op::AsyncCommit | Op::AsyncWait(_)) {
                k.blocks[block].insts.push(inst);
            }
        }
    }
}

fn rewrite(k: &mut Kernel, block: Block, inst: Inst) {
    let (sync, loc) = (k.insts[inst].op.sync(), k.insts[inst].loc);
    match k.insts[inst].op {
        Op::AsyncCopy => k.insts[inst].op = Op::Load,
        Op::LoadRuns(dim) => Tiles { k, block, loc }.gather(inst, dim.into()),
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
    let ty = k.ty(args[args.len() - from_end]);
    let result = k.values.push(ValueData { ty, def: ValueDef::Result(inst, 0) });
    k.insts[inst].results = ValueList::from_slice(&[result], &mut k.pool);
}

/// Appends tiles of integers to a block.
struct Tiles<'k> {
    k: &'k mut Kernel,
    block: Block,
    loc: Loc,
}

impl Tiles<'_> {
    /// A load of runs becomes one by a tile of indices.
    fn gather(&mut self, load: Inst, dim: usize) {
        let (k, result) = (&*self.k, self.k.result(load));
        let (shape, args) = (extents(k, result), k.args(load).to_vec());
        let Some(at) = k.insts[load].op.run_starts(shape.len(), args.len()) else { return };
        let rows = self.rows(shape[dim], &args[at.clone()]);
        let column: Vec<u32> = (0..shape.len()).map(|d| if d == dim { shape[d] } else { 1 }).collect();
        let column = self.tile(Op::Reshape, &[rows], Elem::I32, &column);
        let index = self.tile(Op::Broadcast, &[column], Elem::I32, &shape);
        let all = [&args[..at.start], &[index], &args[at.end..]].concat();
        let k = &mut *self.k;
        k.insts[load].args = ValueList::from_slice(&all, &mut k.pool);
        k.insts[load].op = Op::LoadGather { masked: false };
    }

    /// The index of each row.
    fn rows(&mut self, extent: u32, starts: &[Value]) -> Value {
        let rows = [extent];
        let place = self.tile(Op::Iota(0), &[], Elem::I32, &rows);
        let length = self.number(i64::from(extent) / starts.len() as i64, &rows);
        let run = self.tile(Op::Binary(BinOp::Div), &[place, length], Elem::I32, &rows);
        let within = self.tile(Op::Binary(BinOp::Rem), &[place, length], Elem::I32, &rows);
        let mut first = self.tile(Op::Full, &starts[..1], Elem::I32, &rows);
        for (n, &start) in (1..).zip(&starts[1..]) {
            let (number, start) = (self.number(n, &rows), self.tile(Op::Full, &[start], Elem::I32, &rows));
            let own = self.tile(Op::Compare(CmpOp::Eq), &[run, number], Elem::Bool, &rows);
            first = self.tile(Op::Select, &[own, start, first], Elem::I32, &rows);
        }
        self.tile(Op::Binary(BinOp::Add), &[first, within], Elem::I32, &rows)
    }

    fn number(&mut self, n: i64, extents: &[u32]) -> Value {
        let made = self.k.append_inst(self.block, Op::Int(n), &[], &[Type::Scalar(Elem::I32)], &[], self.loc);
        let n = self.k.result(made);
        self.tile(Op::Full, &[n], Elem::I32, extents)
    }

    fn tile(&mut self, op: Op, args: &[Value], elem: Elem, extents: &[u32]) -> Value {
        let dims: Vec<Dim> = extents.iter().map(|&e| Dim::new(e)).collect();
        let shape = Shape::new(&dims).expect("the rank of a tile that is there");
        let made = self.k.append_inst(self.block, op, args, &[Type::Tile(elem, shape)], &[], self.loc);
        self.k.result(made)
    }
}
