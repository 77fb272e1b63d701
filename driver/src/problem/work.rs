//! The work of one block of a kernel: multiplications and bytes, from a walk over its loops with real sizes.

use super::{Sizes, evaluate};
use warplift_ir::tile::{Block, Inst, Kernel, Op, Value};
use warplift_isel::facts::{expected, expected_condition, launch_bound};

/// Trips assumed for a loop whose range is only known inside the kernel.
const UNKNOWN_TRIPS: f64 = 16.0;

/// Bits of the widest operands that a kernel multiplies on tensor cores; 16 for a kernel without products.
pub fn operand_bits(kernel: &Kernel) -> u32 {
    let products = kernel.insts.keys().filter(|&i| matches!(kernel.insts[i].op, Op::Mma { .. }));
    products.map(|i| kernel.ty(kernel.args(i)[1]).elem().bits()).max().unwrap_or(16)
}

/// Multiplications of one block of a kernel without tunables, and bytes that it loads and stores.
pub fn block_work(kernel: &Kernel, sizes: &Sizes) -> (f64, f64) {
    let bytes = |k: &Kernel, i: Inst| {
        let tile = match k.insts[i].op {
            Op::Load | Op::AsyncCopy | Op::LoadGather { .. } | Op::LoadRuns(_) => k.results(i).first(),
            ref op => op.written_operand(k.args(i).len()).map(|at| &k.args(i)[at]),
        };
        let of =
            |v: &Value| Some(k.ty(*v).shape()?.elements()? as f64 * f64::from(k.ty(*v).elem().bits()) / 8.0);
        tile.and_then(of).unwrap_or(0.0)
    };
    (total(kernel, sizes, multiplications), total(kernel, sizes, bytes))
}

/// Multiplications of an instruction. A product counts its whole sum; other arithmetic counts half per element.
pub fn multiplications(kernel: &Kernel, inst: Inst) -> f64 {
    let data = &kernel.insts[inst];
    match data.op {
        Op::Mma { .. } => {
            let depth = kernel.ty(kernel.args(inst)[1]).shape().and_then(|s| s.extents()?.get(1).copied());
            elements(kernel, inst) * f64::from(depth.unwrap_or(1))
        }
        Op::Binary(_) | Op::Unary(_) => elements(kernel, inst) / 2.0,
        _ => 0.0,
    }
}

/// Multiplications of an instruction, if tensor cores make them.
pub fn products(kernel: &Kernel, inst: Inst) -> f64 {
    if matches!(kernel.insts[inst].op, Op::Mma { .. }) { multiplications(kernel, inst) } else { 0.0 }
}

/// Elements of the tiles that an instruction makes.
pub fn elements(kernel: &Kernel, inst: Inst) -> f64 {
    let each = kernel.results(inst).iter().filter_map(|&r| kernel.ty(r).shape()?.elements());
    each.sum::<u64>() as f64
}

/// The sum of a cost over all instructions of a block, each multiplied by its number of executions.
pub fn total(kernel: &Kernel, sizes: &Sizes, cost: impl Fn(&Kernel, Inst) -> f64) -> f64 {
    let mut sum = 0.0;
    visit(kernel, sizes, &mut |inst, trips| sum += trips * cost(kernel, inst));
    sum
}

/// Visits every instruction of a kernel's block with the number of times it runs.
pub fn visit(kernel: &Kernel, sizes: &Sizes, act: &mut dyn FnMut(Inst, f64)) {
    visit_block(kernel, sizes, kernel.entry, 1.0, act);
}

fn visit_block(kernel: &Kernel, sizes: &Sizes, block: Block, trips: f64, act: &mut dyn FnMut(Inst, f64)) {
    for &inst in &kernel.blocks[block].insts {
        act(inst, trips);
        let data = &kernel.insts[inst];
        let times = |side: usize| match data.op {
            Op::For => range(kernel, inst, sizes).unwrap_or(UNKNOWN_TRIPS),
            Op::While => UNKNOWN_TRIPS,
            Op::If if expected_condition(kernel, kernel.args(inst)[0]) == Some(side == 1) => 0.0,
            _ => 1.0,
        };
        for (side, &nested) in data.blocks.iter().enumerate() {
            visit_block(kernel, sizes, nested, trips * times(side), act);
        }
    }
}

fn range(kernel: &Kernel, inst: Inst, sizes: &Sizes) -> Option<f64> {
    let args = kernel.args(inst);
    let value = |i: usize| evaluate(kernel, expected(kernel, *args.get(i)?), sizes).map(|v| v as f64);
    // An end from memory counts as what arguments bound it by.
    let end = || launch_bound(kernel, expected(kernel, *args.get(1)?))?.eval(&|name| sizes.int(name)).ok();
    Some(((end()? as f64 - value(0)?) / value(2)?.max(1.0)).ceil().max(0.0))
}
