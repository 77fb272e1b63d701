//! What is known of scalar values at compile time: divisors, from the signature's facts through
//! arithmetic. Fast paths are legal only from facts.

use warplift_ir::manifest::{Expr, ExprOp};
use warplift_ir::tile::{BinOp, InstData, Kernel, Op, Type, Value, ValueDef};

/// A number that certainly divides the value (0 for the constant zero: everything divides it).
pub fn divisor(kernel: &Kernel, value: Value) -> i64 {
    if let Some(v) = kernel.int_const(value) {
        return v.abs();
    }
    match kernel.values[value].def {
        ValueDef::Param(..) => param_divisor(kernel, value),
        ValueDef::Result(inst, _) => {
            let args = kernel.args(inst);
            match kernel.insts[inst].op {
                Op::Binary(BinOp::Mul) => divisor(kernel, args[0]).saturating_mul(divisor(kernel, args[1])),
                Op::Binary(BinOp::Add | BinOp::Sub | BinOp::Min | BinOp::Max) => {
                    gcd(divisor(kernel, args[0]), divisor(kernel, args[1]))
                }
                Op::Binary(BinOp::Div) => {
                    let (all, by) = (divisor(kernel, args[0]), kernel.int_const(args[1]).unwrap_or(0));
                    if by > 0 && all % by == 0 { all / by } else { 1 }
                }
                Op::Cast => divisor(kernel, args[0]),
                _ => 1,
            }
        }
    }
}

/// A kernel parameter by its facts; a loop's counter by its start and step.
fn param_divisor(kernel: &Kernel, value: Value) -> i64 {
    if let Some(p) = kernel.params.iter().find(|p| p.value == value) {
        return match kernel.ty(value) {
            Type::Ptr(_) => p.facts.align as i64,
            _ => p.facts.multiple,
        };
    }
    let ValueDef::Param(block, 0) = kernel.values[value].def else { return 1 };
    let holder =
        kernel.insts.iter().find(|(_, d)| matches!(d.op, Op::For) && d.blocks.first() == Some(&block));
    holder.map_or(1, |(inst, _)| {
        let args = kernel.args(inst);
        gcd(divisor(kernel, args[0]), divisor(kernel, args[2]))
    })
}

/// Greatest common divisor; `gcd(0, n) = n`.
pub fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Whether the value is certainly a multiple of `n`.
pub fn is_multiple(kernel: &Kernel, value: Value, n: i64) -> bool {
    divisor(kernel, value) % n == 0
}

/// Whether the value is certainly not negative: sizes are not, nor are indices of the grid, and arithmetic that
/// does not overflow keeps that.
pub fn is_never_negative(kernel: &Kernel, value: Value) -> bool {
    let known = |v: &Value| is_never_negative(kernel, *v);
    if let Some(v) = kernel.int_const(value) {
        return v >= 0;
    }
    let Some(inst) = kernel.def(value) else { return param_never_negative(kernel, value) };
    let args = kernel.args(inst);
    match kernel.insts[inst].op {
        _ if kernel.attrs[inst].index => true,
        Op::BlockIndex(_) | Op::GridDim(_) | Op::ProgramId | Op::ProgramCount => true,
        Op::Binary(BinOp::Add | BinOp::Mul | BinOp::Div | BinOp::CeilDiv | BinOp::Min) => {
            args.iter().all(known)
        }
        Op::Binary(BinOp::Max) => args.iter().any(known),
        Op::Binary(BinOp::Rem) | Op::Cast => known(&args[0]),
        Op::Select => args[1..].iter().all(known),
        _ => false,
    }
}

/// A kernel parameter by its facts; a loop's counter by its start, for it goes up.
fn param_never_negative(kernel: &Kernel, value: Value) -> bool {
    if let Some(p) = kernel.params.iter().find(|p| p.value == value) {
        return p.facts.min >= 0;
    }
    let ValueDef::Param(block, 0) = kernel.values[value].def else { return false };
    let holds = |d: &InstData| matches!(d.op, Op::For) && d.blocks.first() == Some(&block);
    let holder = kernel.insts.iter().find(|(_, d)| holds(d));
    holder.is_some_and(|(inst, _)| is_never_negative(kernel, kernel.args(inst)[0]))
}

/// The value as a launch expression over arguments, if it depends on nothing else.
pub fn launch_expr(kernel: &Kernel, value: Value) -> Option<Expr> {
    if let Some(v) = kernel.int_const(value) {
        return Some(Expr::Const(v));
    }
    if let Some(p) = kernel.params.iter().find(|p| p.value == value) {
        return matches!(kernel.ty(value), Type::Scalar(e) if e.is_int()).then(|| Expr::var(&p.name));
    }
    let inst = kernel.def(value)?;
    let args = kernel.args(inst);
    let op = match kernel.insts[inst].op {
        Op::Cast => return launch_expr(kernel, args[0]),
        Op::Binary(b) => match b {
            BinOp::Add => ExprOp::Add,
            BinOp::Sub => ExprOp::Sub,
            BinOp::Mul => ExprOp::Mul,
            BinOp::Div => ExprOp::Div,
            BinOp::CeilDiv => ExprOp::CeilDiv,
            BinOp::Rem => ExprOp::Mod,
            BinOp::Min => ExprOp::Min,
            BinOp::Max => ExprOp::Max,
            _ => return None,
        },
        _ => return None,
    };
    Some(Expr::op(op, launch_expr(kernel, args[0])?, launch_expr(kernel, args[1])?))
}
