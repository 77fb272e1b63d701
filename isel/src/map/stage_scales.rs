//! Scales of blocks come by tensor copies where facts allow it: four neighbours at once, of which each iteration takes
//! one. The ring of the operands then brings them, and no thread waits for memory.
//!
//! ```text
//!  s = load scale[j, t] : f32     ─►     q = load scale[j, (t >> 2) * 4] : f32[1, 4]
//!  x * s                                 s = one of four slices of q, by t & 3
//!                                        x * broadcast(s)
//! ```

use super::MapContext;
use super::prefetch_scales::scales;
use crate::feature::Ways;
use crate::tiles::{acquired, program_order, unit_dim};
use crate::window::Window;
use warplift_ir::tile::{BinOp, Block, CmpOp, Dim, Inst, Kernel, LoopMapping, Op, Shape, Type, Value};
use warplift_ir::types::Elem;

/// Scales of a copy: 16 bytes, the least of a tensor copy.
const SCALES: u32 = 4;

/// Stages the scales of the loops of products that have a producer.
pub fn do_stage_scales(k: &mut Kernel, c: &MapContext<'_>) {
    if !c.ways.smem_staging {
        return;
    }
    let produced = |l: LoopMapping| l.producers.is_some_and(|p| p > 0);
    let loops = program_order(k).into_iter().filter(|&i| k.attrs[i].looped.is_some_and(produced));
    for body in loops.map(|l| k.insts[l].blocks[0]).collect::<Vec<_>>() {
        for load in
            scales(k, body).into_iter().filter(|&l| is_reached(k, body, l, c.ways)).collect::<Vec<_>>()
        {
            stage(k, body, load);
        }
    }
}

/// Whether a tensor copy can bring a scalar's neighbours along the last dimension, and only tiles use the scalar.
fn is_reached(k: &Kernel, body: Block, load: Inst, ways: Ways) -> bool {
    let (view, scale) = (k.args(load)[0], k.result(load));
    let reached = Window::of(k, view).is_some_and(|w| w.tensor_refused(k, ways).is_none());
    let copies = reached && acquired(k, view).is_none();
    let of_tile = |i: Inst| {
        let op = &k.insts[i].op;
        let fits = |&r: &Value| k.ty(r).shape().is_some_and(|s| s.rank() == 2);
        // A tile of equal scales would be a broadcast of a broadcast.
        op.is_elementwise() && k.results(i).iter().all(fits) && k.blocks[body].insts.contains(&i)
    };
    let mut users = program_order(k).into_iter().filter(|&i| k.args(i).contains(&scale));
    k.ty(scale) == Type::Scalar(Elem::F32) && copies && unit_dim(k, view) == Some(1) && users.all(of_tile)
}

/// Appends to a block.
struct Append<'k> {
    k: &'k mut Kernel,
    block: Block,
    load: Inst,
}

impl Append<'_> {
    fn push(&mut self, op: Op, args: &[Value], ty: Type) -> Value {
        let loc = self.k.insts[self.load].loc;
        let made = self.k.append_inst(self.block, op, args, &[ty], &[], loc);
        self.k.result(made)
    }

    /// An operation on an index and a constant.
    fn with(&mut self, op: BinOp, index: Value, c: i64) -> Value {
        let ty = Type::Scalar(Elem::I32);
        let c = self.push(Op::Int(c), &[], ty);
        self.push(Op::Binary(op), &[index, c], ty)
    }

    /// Whether a bit of an index is clear.
    fn is_clear(&mut self, index: Value, bit: i64) -> Value {
        let masked = self.with(BinOp::And, index, bit);
        let zero = self.push(Op::Int(0), &[], Type::Scalar(Elem::I32));
        self.push(Op::Compare(CmpOp::Eq), &[masked, zero], Type::Scalar(Elem::Bool))
    }

    /// The scale as a tile of one element.
    fn scale(&mut self) -> Option<Value> {
        let mut args = self.k.args(self.load).to_vec();
        let index = args[2];
        let quarter = self.with(BinOp::Shr, index, SCALES.ilog2().into());
        args[2] = self.with(BinOp::Mul, quarter, SCALES.into());
        let tile = |columns| Some(Type::Tile(Elem::F32, Shape::of(&[1, columns])?));
        let (all, one) = (tile(SCALES)?, tile(1)?);
        let all = self.push(Op::Load, &args, all);
        let part = |n| Op::Slice([Dim::new(0), Dim::new(n)].into_iter().collect());
        let parts: Vec<Value> = (0..SCALES).map(|n| self.push(part(n), &[all], one)).collect();
        let [even, low] = [1, 2].map(|bit| self.is_clear(index, bit));
        let first = self.push(Op::Select, &[even, parts[0], parts[1]], one);
        let second = self.push(Op::Select, &[even, parts[2], parts[3]], one);
        Some(self.push(Op::Select, &[low, first, second], one))
    }
}

/// Replaces a load of a scalar.
fn stage(k: &mut Kernel, block: Block, load: Inst) {
    let scale = k.result(load);
    let mut staged = None;
    for inst in std::mem::take(&mut k.blocks[block].insts) {
        let mut append = Append { k, block, load };
        if inst == load {
            staged = append.scale();
            continue;
        }
        let shape = append.k.results(inst).first().and_then(|&r| append.k.ty(r).shape());
        let reads = append.k.args(inst).contains(&scale);
        if let (Some(one), Some(shape), true) = (staged, shape, reads) {
            let wide = append.push(Op::Broadcast, &[one], Type::Tile(Elem::F32, shape));
            let args: Vec<Value> =
                append.k.args(inst).iter().map(|&a| if a == scale { wide } else { a }).collect();
            append.k.set_args(inst, &args);
        }
        k.blocks[block].insts.push(inst);
    }
}
