//! Facts about scalar values at compile time: divisors, signs and bounds. They start at the signature, and at each
//! `assume` in the body, and follow arithmetic. A fast path is legal only where a fact allows it.
//!
//! ```text
//!  k : i32 % 8      i = t * 64 + k     ─►   8 divides i
//! ```

use warplift_ir::manifest::{Expr, ExprOp};
use warplift_ir::tile::{BinOp, Block, Inst, InstData, Kernel, MOST_INDEX, Op, Type, UnOp, Value, ValueDef};

/// Limit on the instructions that one query visits. Values form a graph, and a query walks it as a tree.
const FUEL: u32 = 4096;

/// Bytes to whose multiples a launch aligns every workspace.
pub const WORKSPACE_ALIGN: i64 = 256;

/// Bytes to whose multiples arrays in shared memory are aligned.
pub const SHARED_ALIGN: i64 = 128;

/// Spends one unit; false if none is left.
fn spend(fuel: &mut u32) -> bool {
    let left = *fuel > 0;
    *fuel = fuel.saturating_sub(1);
    left
}

/// A number that certainly divides the value (0 for the constant zero: everything divides it).
pub fn divisor(kernel: &Kernel, value: Value) -> i64 {
    divisor_of(kernel, value, &mut { FUEL })
}

fn divisor_of(kernel: &Kernel, value: Value, fuel: &mut u32) -> i64 {
    if !spend(fuel) {
        return 1;
    }
    if let Some(v) = kernel.int_const(value) {
        return v.abs();
    }
    match kernel.values[value].def {
        ValueDef::Param(..) => param_divisor(kernel, value, fuel),
        ValueDef::Result(inst, _) => {
            let args = kernel.args(inst);
            let mut of = |n: usize| divisor_of(kernel, args[n], fuel);
            match kernel.insts[inst].op {
                Op::Binary(BinOp::Mul) => of(0).saturating_mul(of(1)),
                Op::Binary(BinOp::Add | BinOp::Sub | BinOp::Min | BinOp::Max) => gcd(of(0), of(1)),
                Op::Binary(BinOp::Div | BinOp::CeilDiv) => {
                    let (all, by) = (of(0), kernel.int_const(args[1]).unwrap_or(0));
                    if by > 0 && all % by == 0 { all / by } else { 1 }
                }
                Op::Cast if is_integer(kernel, args[0]) => {
                    let all = of(0);
                    // What is cut off is a power of two.
                    if keeps_number(kernel, value, args[0], fuel) { all } else { all & all.wrapping_neg() }
                }
                Op::Assume(promise) => lcm(of(0), promise.multiple),
                // No boundary cuts a vector.
                Op::Unbounded => MOST_INDEX,
                Op::Workspace => WORKSPACE_ALIGN,
                Op::Shared { .. } => SHARED_ALIGN,
                Op::Select => gcd(of(1), of(2)),
                _ => 1,
            }
        }
    }
}

/// A kernel parameter by its facts; a loop's counter by its start and step.
fn param_divisor(kernel: &Kernel, value: Value, fuel: &mut u32) -> i64 {
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
        gcd(divisor_of(kernel, args[0], fuel), divisor_of(kernel, args[2], fuel))
    })
}

/// Least common multiple of positive numbers; the first of them where it is too large.
pub fn lcm(a: i64, b: i64) -> i64 {
    (a / gcd(a, b)).checked_mul(b).unwrap_or(a)
}

/// The number of a constant, or of quotients and other arithmetic of constants, as tunables leave behind.
pub fn number(kernel: &Kernel, value: Value) -> Option<i64> {
    number_within(kernel, value, &mut { FUEL })
}

fn number_within(kernel: &Kernel, value: Value, fuel: &mut u32) -> Option<i64> {
    if let Some(constant) = kernel.int_const(value) {
        return Some(constant);
    }
    let def = kernel.def(value).filter(|_| spend(fuel))?;
    let (Op::Binary(op), &[x, y]) = (&kernel.insts[def].op, kernel.args(def)) else { return None };
    let (x, y) = (number_within(kernel, x, fuel)?, number_within(kernel, y, fuel)?);
    let number = match op {
        BinOp::Add => x.checked_add(y),
        BinOp::Sub => x.checked_sub(y),
        BinOp::Mul => x.checked_mul(y),
        BinOp::Div => x.checked_div(y),
        _ => None,
    };
    number.filter(|&c| i32::try_from(c).is_ok())
}

/// Greatest common divisor; `gcd(0, n) = n`.
pub fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Whether the value is certainly a multiple of `n`.
pub fn is_multiple(kernel: &Kernel, value: Value, n: i64) -> bool {
    divisor(kernel, value) % n == 0
}

/// Whether the value is certainly not negative. Sizes and grid indices are not negative, and arithmetic that does not
/// overflow keeps that.
pub fn is_never_negative(kernel: &Kernel, value: Value) -> bool {
    never_negative(kernel, value, &mut { FUEL })
}

fn never_negative(kernel: &Kernel, value: Value, fuel: &mut u32) -> bool {
    if !spend(fuel) {
        return false;
    }
    if let Some(v) = kernel.int_const(value) {
        return v >= 0;
    }
    let Some(inst) = kernel.def(value) else { return param_never_negative(kernel, value, fuel) };
    let args = kernel.args(inst);
    let mut known = |v: &Value| never_negative(kernel, *v, fuel);
    match kernel.insts[inst].op {
        _ if kernel.attrs[inst].index => true,
        Op::BlockIndex(_)
        | Op::GridDim(_)
        | Op::ProgramId
        | Op::ProgramCount
        | Op::Dim(_)
        | Op::Unbounded => true,
        Op::Binary(BinOp::Add | BinOp::Mul | BinOp::Div | BinOp::CeilDiv | BinOp::Min) => {
            args.iter().all(known)
        }
        Op::Binary(BinOp::Max) => args.iter().any(known),
        Op::Binary(BinOp::Rem) => known(&args[0]),
        Op::Cast => {
            is_integer(kernel, args[0]) && known(&args[0]) && keeps_number(kernel, value, args[0], fuel)
        }
        Op::Assume(promise) => promise.min >= 0 || known(&args[0]),
        Op::Select => args[1..].iter().all(known),
        Op::Binary(BinOp::Sub) => counts_down(kernel, value, fuel),
        _ => false,
    }
}

/// Whether a cast of integers certainly gives the number that it takes.
fn keeps_number(kernel: &Kernel, value: Value, arg: Value, fuel: &mut u32) -> bool {
    let [from, to] = [arg, value].map(|v| kernel.ty(v).elem());
    let bits = if to.is_signed() { to.bits() - 1 } else { to.bits() };
    let widens = match (from.is_signed(), to.is_signed()) {
        (true, false) => false,
        (false, true) => from.bits() < to.bits(),
        _ => from.bits() <= to.bits(),
    };
    let fits = |most: i64| bits >= 63 || most < 1 << bits;
    widens
        || never_negative(kernel, arg, fuel)
            && (from.bits() <= bits || at_most_of(kernel, arg, fuel).is_some_and(fits))
}

/// Whether a difference is `extent - 1 - index` along one dimension of the grid, perhaps plus a constant.
fn counts_down(kernel: &Kernel, value: Value, fuel: &mut u32) -> bool {
    let (mut added, mut taken, mut constant) = (Vec::new(), Vec::new(), 0);
    let mut fuel_of_terms = FUEL;
    terms(kernel, value, false, &mut fuel_of_terms, &mut |v, minus| match kernel.int_const(v) {
        Some(c) => constant += if minus { -c } else { c },
        None if minus => taken.push(v),
        None => added.push(v),
    });
    let [index] = taken[..] else { return false };
    let dim = kernel.def(index).and_then(|d| kernel.attrs[d].below);
    let Some(&extent) = dim.and_then(|d| kernel.grid.get(d as usize)) else { return false };
    let extent = launch_expr(kernel, extent);
    let is_extent = |v: &Value| extent.is_some() && launch_expr(kernel, *v) == extent;
    let Some(at) = added.iter().position(is_extent) else { return false };
    added.swap_remove(at);
    constant >= -1 && added.iter().all(|&v| never_negative(kernel, v, fuel))
}

/// The terms of the sums and differences below a value, and whether each one is subtracted.
pub fn terms(kernel: &Kernel, value: Value, minus: bool, fuel: &mut u32, term: &mut impl FnMut(Value, bool)) {
    let Some(inst) = kernel.def(value).filter(|_| spend(fuel)) else { return term(value, minus) };
    let args = kernel.args(inst);
    let Op::Binary(op @ (BinOp::Add | BinOp::Sub)) = kernel.insts[inst].op else { return term(value, minus) };
    terms(kernel, args[0], minus, fuel, term);
    terms(kernel, args[1], minus != (op == BinOp::Sub), fuel, term);
}

/// Whether a multiple of a tile is certainly below an extent: a constant, or as many tiles as a block index or a loop
/// counter counts, which ends with the extent. Blocks past the end of the grid are not looked at.
pub fn stays_inside(kernel: &Kernel, index: Value, extent: Value, tile: i64) -> bool {
    if kernel.is_unbounded(extent) {
        return true;
    }
    if let Some(outer) = outer_counter(kernel, index, tile) {
        let (_, step) = factor(kernel, outer);
        return stays_inside(kernel, outer, extent, step);
    }
    let (extent, times) = factor(kernel, extent);
    let (all, parts) = divided(kernel, extent);
    let Some(all) = launch_expr(kernel, all) else { return false };
    if let (Some(at), Expr::Const(all)) = (kernel.int_const(index), &all) {
        return at * parts < *all * times;
    }
    let (counted, step) = factor(kernel, index);
    let ends = |end: Expr| match &end {
        Expr::Op(ExprOp::CeilDiv, both) => match (&both.0, &both.1) {
            (whole, Expr::Const(by)) => *whole == all && step * parts <= *by * times,
            _ => false,
        },
        Expr::Const(end) => matches!(all, Expr::Const(all) if (end - 1) * step * parts < all * times),
        end => *end == all && step * parts <= times,
    };
    step <= tile && end_of(kernel, counted).and_then(|end| launch_expr(kernel, end)).is_some_and(ends)
}

/// The counter of an outer loop in the sum of two, if the inner one's tiles stay inside a step of it.
fn outer_counter(kernel: &Kernel, index: Value, tile: i64) -> Option<Value> {
    let sum = kernel.def(index).filter(|&d| matches!(kernel.insts[d].op, Op::Binary(BinOp::Add)))?;
    let (a, b) = (kernel.args(sum)[0], kernel.args(sum)[1]);
    let inside = |&(outer, inner): &(Value, Value)| {
        let ((_, whole), (counted, step)) = (factor(kernel, outer), factor(kernel, inner));
        let end = end_of(kernel, counted).and_then(|end| launch_expr(kernel, end));
        matches!(end, Some(Expr::Const(end)) if step <= tile && (end - 1) * step + tile <= whole)
    };
    [(a, b), (b, a)].into_iter().find(inside).map(|(outer, _)| outer)
}

/// The number of which an `assume` promises something; itself if none does.
fn promised(kernel: &Kernel, value: Value) -> Value {
    match kernel.def(value) {
        Some(def) if matches!(kernel.insts[def].op, Op::Assume(_)) => promised(kernel, kernel.args(def)[0]),
        _ => value,
    }
}

/// A value as another one that a constant divides without a rest.
fn divided(kernel: &Kernel, value: Value) -> (Value, i64) {
    let value = promised(kernel, value);
    let quotient = kernel.def(value).filter(|&d| matches!(kernel.insts[d].op, Op::Binary(BinOp::Div)));
    let parts = quotient.and_then(|d| Some((kernel.args(d)[0], kernel.int_const(kernel.args(d)[1])?)));
    parts.filter(|&(whole, by)| by > 0 && is_multiple(kernel, whole, by)).unwrap_or((value, 1))
}

/// A value as a constant multiple of another.
fn factor(kernel: &Kernel, value: Value) -> (Value, i64) {
    let value = promised(kernel, value);
    let product = kernel.def(value).filter(|&d| matches!(kernel.insts[d].op, Op::Binary(BinOp::Mul)));
    let parts = product.map(|d| (kernel.args(d)[0], kernel.args(d)[1]));
    let times = |(v, by): (Value, Value)| match launch_expr(kernel, by)? {
        Expr::Const(by) => Some((v, by)),
        _ => None,
    };
    parts.and_then(|(a, b)| times((a, b)).or_else(|| times((b, a)))).unwrap_or((value, 1))
}

/// What a block index or a loop counter stays below.
fn end_of(kernel: &Kernel, value: Value) -> Option<Value> {
    let along = |d: usize| kernel.grid.get(d).copied();
    match kernel.values[promised(kernel, value)].def {
        ValueDef::Result(inst, _) => match kernel.insts[inst].op {
            Op::BlockIndex(d) => along(d.into()),
            _ => kernel.attrs[inst].below.and_then(|d| along(d as usize)),
        },
        ValueDef::Param(block, 0) => {
            let [low, high, ..] = kernel.args(loop_of(kernel, block)?)[..] else { return None };
            is_never_negative(kernel, low).then(|| known_bound(kernel, high))
        }
        ValueDef::Param(..) => None,
    }
}

/// What a loop's counter, or an index of tiles that ends with the grid, stays below where it is used at all.
fn counted_to(kernel: &Kernel, value: Value) -> Option<Value> {
    match kernel.values[value].def {
        ValueDef::Result(inst, _) => {
            kernel.attrs[inst].below.and_then(|d| kernel.grid.get(d as usize).copied())
        }
        ValueDef::Param(..) => end_of(kernel, value),
    }
}

/// Of two bounds that both hold, the one that is known at launch. A loop that may be left out, whose bound is
/// `select(c, 0, n)`, ends with `n` where it runs.
fn known_bound(kernel: &Kernel, bound: Value) -> Value {
    let bound = promised(kernel, bound);
    if let Some(runs) = bound_where_it_runs(kernel, bound) {
        return known_bound(kernel, runs);
    }
    let least = kernel.def(bound).filter(|&d| matches!(kernel.insts[d].op, Op::Binary(BinOp::Min)));
    let both = least.map_or(&[][..], |d| kernel.args(d));
    match launch_expr(kernel, bound) {
        Some(_) => bound,
        None => both.iter().copied().find(|&v| launch_expr(kernel, v).is_some()).unwrap_or(bound),
    }
}

/// The other choice of a selection of which one is zero or less.
fn bound_where_it_runs(kernel: &Kernel, bound: Value) -> Option<Value> {
    let choice = kernel.def(bound).filter(|&d| matches!(kernel.insts[d].op, Op::Select))?;
    let [_, yes, no] = *kernel.args(choice).first_chunk()?;
    let never = |v: Value| kernel.int_const(v).is_some_and(|n| n <= 0);
    [(yes, no), (no, yes)].into_iter().find(|p| never(p.0)).map(|p| p.1)
}

/// A kernel parameter by its facts; a loop counter by its start, since it only grows.
fn param_never_negative(kernel: &Kernel, value: Value, fuel: &mut u32) -> bool {
    if let Some(p) = kernel.params.iter().find(|p| p.value == value) {
        return p.facts.min >= 0;
    }
    let ValueDef::Param(block, 0) = kernel.values[value].def else { return false };
    loop_of(kernel, block).is_some_and(|inst| never_negative(kernel, kernel.args(inst)[0], fuel))
}

/// The loop with this body.
fn loop_of(kernel: &Kernel, body: Block) -> Option<Inst> {
    let holds = |d: &InstData| matches!(d.op, Op::For) && d.blocks.first() == Some(&body);
    kernel.insts.iter().find(|(_, d)| holds(d)).map(|(inst, _)| inst)
}

/// The value that remains where conditions are as the text expects: `y` of `select(unlikely(c), x, y)`.
pub fn expected(kernel: &Kernel, value: Value) -> Value {
    let choice = kernel.def(value).filter(|&i| matches!(kernel.insts[i].op, Op::Select));
    let Some(args) = choice.map(|i| kernel.args(i)) else { return value };
    match expected_condition(kernel, args[0]) {
        Some(true) => expected(kernel, args[1]),
        Some(false) => expected(kernel, args[2]),
        None => value,
    }
}

/// What the text expects of a condition, if anything.
pub fn expected_condition(kernel: &Kernel, condition: Value) -> Option<bool> {
    let inst = kernel.def(condition)?;
    match kernel.insts[inst].op {
        Op::Unary(UnOp::Likely) => Some(true),
        Op::Unary(UnOp::Unlikely) => Some(false),
        Op::Unary(UnOp::Not) => expected_condition(kernel, kernel.args(inst)[0]).map(|c| !c),
        _ => None,
    }
}

/// Iterations of a loop at most, where the signature's ranges bound them.
pub fn trips(kernel: &Kernel, inst: Inst) -> Option<u32> {
    let [low, high, step] = *kernel.args(inst).first_chunk()?;
    let low = kernel.int_const(low).filter(|&n| n >= 0)?;
    let step = kernel.int_const(step).filter(|&n| n > 0)?;
    let high = at_most(kernel, high)?;
    u32::try_from((high - low).max(0).saturating_add(step - 1) / step).ok()
}

/// Whether a tile of so many elements from an index on certainly lies inside an extent.
pub fn lies_inside(kernel: &Kernel, index: Value, tile: u32, extent: Value) -> bool {
    if kernel.is_unbounded(extent) {
        return true;
    }
    let last = at_most(kernel, index).map(|at| at.saturating_add(tile.into()));
    let fits = || Some(last? <= kernel.int_const(extent)?);
    is_never_negative(kernel, index) && fits() == Some(true) && never_wraps(kernel, index, &mut { FUEL })
}

/// Whether no arithmetic of an i32 below a value may wrap around, by the bounds of its numbers.
fn never_wraps(kernel: &Kernel, value: Value, fuel: &mut u32) -> bool {
    if !spend(fuel) {
        return false;
    }
    let inst = match kernel.values[value].def {
        ValueDef::Result(inst, _) => inst,
        // A counter grows from its start to a bound of i32.
        ValueDef::Param(block, 0) => {
            let start = loop_of(kernel, block).map(|l| kernel.args(l)[0]);
            return start.is_none_or(|start| never_wraps(kernel, start, fuel));
        }
        ValueDef::Param(..) => return true,
    };
    let small = |v: Value| at_most(kernel, v).is_some_and(|most| most <= i32::MAX.into());
    match kernel.insts[inst].op {
        _ if kernel.attrs[inst].index => true,
        Op::Binary(op) => {
            let grows = matches!(op, BinOp::Add | BinOp::Mul | BinOp::Shl);
            (!grows || small(value)) && kernel.args(inst).iter().all(|&v| never_wraps(kernel, v, fuel))
        }
        Op::Assume(_) | Op::Cast => never_wraps(kernel, kernel.args(inst)[0], fuel),
        Op::Select => kernel.args(inst)[1..].iter().all(|&v| never_wraps(kernel, v, fuel)),
        _ => true,
    }
}

/// A bound that the value certainly does not exceed.
pub fn at_most(kernel: &Kernel, value: Value) -> Option<i64> {
    at_most_of(kernel, value, &mut { FUEL })
}

fn at_most_of(kernel: &Kernel, value: Value, fuel: &mut u32) -> Option<i64> {
    if !spend(fuel) {
        return None;
    }
    if let Some(v) = kernel.int_const(value) {
        return Some(v);
    }
    if let Some(p) = kernel.params.iter().find(|p| p.value == value) {
        return Some(p.facts.max).filter(|&max| is_integer(kernel, value) && max < i64::MAX);
    }
    if let Some(end) = counted_to(kernel, value) {
        return at_most_of(kernel, end, fuel).map(|end| end.max(1) - 1);
    }
    let inst = kernel.def(value)?;
    let args = kernel.args(inst);
    let op = match kernel.insts[inst].op {
        Op::Binary(op) => op,
        Op::Assume(promise) => {
            let most = at_most_of(kernel, args[0], fuel).unwrap_or(i64::MAX).min(promise.max);
            return Some(most).filter(|&most| most < i64::MAX);
        }
        _ => return None,
    };
    let by = kernel.int_const(args[1]).filter(|&n| n > 0);
    let mut of = |n: usize| at_most_of(kernel, args[n], fuel);
    match op {
        BinOp::Add if args.iter().all(|&v| is_never_negative(kernel, v)) => {
            Some(of(0)?.saturating_add(of(1)?))
        }
        BinOp::Mul if args.iter().all(|&v| is_never_negative(kernel, v)) => {
            Some(of(0)?.saturating_mul(of(1)?))
        }
        // Both give 0 or less for a negative number.
        BinOp::Div => Some(of(0)?.max(0) / by?),
        BinOp::Rem => Some(by? - 1),
        BinOp::CeilDiv => Some(of(0)?.max(0).saturating_add(by? - 1) / by?),
        // A subtraction from a negative number may wrap around.
        BinOp::Sub if args.iter().all(|&v| is_never_negative(kernel, v)) => of(0),
        BinOp::Min => match (of(0), of(1)) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        },
        BinOp::Max => Some(of(0)?.max(of(1)?)),
        _ => None,
    }
}

/// The value as a launch expression over arguments, if it depends on nothing else.
pub fn launch_expr(kernel: &Kernel, value: Value) -> Option<Expr> {
    launch_expr_of(kernel, value, &mut { FUEL })
}

/// A launch expression that the value certainly does not exceed: the greatest of its [`launch_bounds`].
pub fn launch_bound(kernel: &Kernel, value: Value) -> Option<Expr> {
    let each = launch_bounds(kernel, value)?;
    let mut each = each.into_iter().map(|bound| match bound {
        LaunchBound::Value(v) => launch_expr(kernel, v),
        LaunchBound::Number(n) => Some(Expr::Const(n)),
    });
    let first = each.next()??;
    each.try_fold(first, |most, e| Some(Expr::op(ExprOp::Max, most, e?)))
}

/// A number that is known at launch.
#[derive(Clone, Copy, Debug)]
pub enum LaunchBound {
    /// A value that follows from arguments.
    Value(Value),
    /// What an `assume` promises.
    Number(i64),
}

/// Numbers that are known at launch, of which the value certainly does not exceed the greatest: the value itself, the
/// known one of a minimum whose other number comes from memory, or what an `assume` promises.
pub fn launch_bounds(kernel: &Kernel, value: Value) -> Option<Vec<LaunchBound>> {
    launch_bounds_of(kernel, value, &mut { FUEL })
}

fn launch_bounds_of(kernel: &Kernel, value: Value, fuel: &mut u32) -> Option<Vec<LaunchBound>> {
    if launch_expr_of(kernel, value, fuel).is_some() {
        return Some(vec![LaunchBound::Value(value)]);
    }
    let inst = kernel.def(value).filter(|_| spend(fuel))?;
    let args = kernel.args(inst);
    let mut of = |n: usize| launch_bounds_of(kernel, args[n], fuel);
    match kernel.insts[inst].op {
        Op::Binary(BinOp::Min) => {
            let [a, b] = [0, 1].map(of);
            a.or(b)
        }
        Op::Binary(BinOp::Max) => Some([of(0)?, of(1)?].concat()),
        Op::Select => Some([of(1)?, of(2)?].concat()),
        Op::Assume(promise) => {
            let number = (0..=i32::MAX.into()).contains(&promise.max).then_some(promise.max);
            of(0).or(number.map(|n| vec![LaunchBound::Number(n)]))
        }
        _ => None,
    }
}

fn is_integer(kernel: &Kernel, value: Value) -> bool {
    matches!(kernel.ty(value), Type::Scalar(e) if e.is_int())
}

fn launch_expr_of(kernel: &Kernel, value: Value, fuel: &mut u32) -> Option<Expr> {
    if !spend(fuel) {
        return None;
    }
    if let Some(v) = kernel.int_const(value) {
        return Some(Expr::Const(v));
    }
    if let Some(p) = kernel.params.iter().find(|p| p.value == value) {
        return is_integer(kernel, value).then(|| Expr::var(&p.name));
    }
    let inst = kernel.def(value)?;
    let args = kernel.args(inst);
    let op = match kernel.insts[inst].op {
        Op::Cast | Op::Assume(_) => return launch_expr_of(kernel, args[0], fuel),
        // A tensor map ends somewhere.
        Op::Unbounded => return Some(Expr::Const(MOST_INDEX)),
        Op::Binary(b) => match b {
            BinOp::Add => ExprOp::Add,
            BinOp::Sub => ExprOp::Sub,
            BinOp::Mul => ExprOp::Mul,
            // A launch expression rounds down; a kernel rounds toward zero.
            BinOp::Div | BinOp::Rem if !args.iter().all(|&v| never_negative(kernel, v, fuel)) => return None,
            BinOp::Div => ExprOp::Div,
            BinOp::CeilDiv => ExprOp::CeilDiv,
            BinOp::Rem => ExprOp::Mod,
            BinOp::Min => ExprOp::Min,
            BinOp::Max => ExprOp::Max,
            _ => return None,
        },
        _ => return None,
    };
    let first = launch_expr_of(kernel, args[0], fuel)?;
    Some(Expr::op(op, first, launch_expr_of(kernel, args[1], fuel)?))
}
