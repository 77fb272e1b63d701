//! Numbers so large that they only stand for infinity: `-1.0e30` where a mask means "none".
//!
//! ```text
//!  s = select(c, r, -1.0e30) ──► reduce_max ──► max(m, ..) = top        s and top are both -1.0e30 in a row without keys:
//!  exp(s - top)  is 1 there;  exp2(fma(s, log2 e, -(top * log2 e)))     the fma gives what the product was rounded by, 1e22
//! ```
//!
//! Such a number goes through selections, extremes, sums, products and loops.

use rustc_hash::FxHashSet;
use warplift_ir::tile::{BinOp, Block, Inst, Kernel, Op, ReduceOp, UnOp, Value, ValueDef};

/// The least magnitude of a number that counts: f32 has no halves there, so its products are rounded by more than an exponent
/// bears.
const LEAST: f64 = (1_u64 << 22) as f64;
/// By how much a factor may make the number smaller on its way.
const SCALED: f64 = 64.0;

/// If two values may both be such a number: the magnitude above which a value is one.
pub(super) fn cancelling(k: &Kernel, [x, y]: [Value; 2]) -> Option<f64> {
    let [x, y] = [x, y].map(|v| least(k, v, &mut FxHashSet::default()));
    x.zip(y).map(|(x, y)| (x.min(y) / SCALED).max(LEAST))
}

/// The least such number that a value may be.
fn least(k: &Kernel, v: Value, seen: &mut FxHashSet<Value>) -> Option<f64> {
    if !seen.insert(v) {
        return None;
    }
    sources(k, v).into_iter().filter_map(|source| least(k, source, seen)).chain(own(k, v)).reduce(f64::min)
}

/// The number that a constant is.
fn own(k: &Kernel, v: Value) -> Option<f64> {
    match k.insts[k.def(v)?].op {
        Op::Float(x) if x.is_finite() && x.abs() >= LEAST => Some(x.abs()),
        _ => None,
    }
}

/// Values whose magnitude a value may have.
fn sources(k: &Kernel, v: Value) -> Vec<Value> {
    match k.values[v].def {
        ValueDef::Result(inst, n) => of_result(k, inst, n as usize),
        ValueDef::Param(block, n) => of_param(k, block, n as usize),
    }
}

fn of_result(k: &Kernel, inst: Inst, n: usize) -> Vec<Value> {
    let (data, args) = (&k.insts[inst], k.args(inst));
    match data.op {
        Op::Select => args[1..].to_vec(),
        Op::Binary(BinOp::Add | BinOp::Sub | BinOp::Mul | BinOp::Min | BinOp::Max)
        | Op::Unary(UnOp::Neg | UnOp::Abs)
        | Op::Fma
        | Op::Cast
        | Op::Full
        | Op::Broadcast
        | Op::ExpandDims(_)
        | Op::Reshape
        | Op::Trans(_)
        | Op::Join
        | Op::Split
        | Op::Rearrange => args.to_vec(),
        Op::Slice(_) | Op::Gather(_) | Op::Reduce(ReduceOp::Min | ReduceOp::Max, _) => args[..1].to_vec(),
        Op::For => {
            [args.get(3 + n), k.yields(data.blocks[0]).get(n)].into_iter().flatten().copied().collect()
        }
        Op::While => {
            [args.get(n), k.yields(data.blocks[0]).get(1 + n)].into_iter().flatten().copied().collect()
        }
        Op::If => data.blocks.iter().filter_map(|&b| k.yields(b).get(n)).copied().collect(),
        _ => Vec::new(),
    }
}

/// What a loop hands to its parameters.
fn of_param(k: &Kernel, block: Block, n: usize) -> Vec<Value> {
    let looped = k.insts.iter().find(|(_, d)| d.blocks.contains(&block)).map(|(i, d)| (i, &d.op));
    match looped {
        Some((inst, Op::For)) if n > 0 => of_result(k, inst, n - 1),
        Some((inst, Op::While)) => of_result(k, inst, n),
        _ => Vec::new(),
    }
}
