//! Constants: where a name of one stands, its number is put before names get their meaning. So a constant may stand
//! wherever a number may: in extents, offsets, attributes, and as a literal that takes the other operand's type.

use super::ParseError;
use super::ast::*;
use crate::tile::Constant;
use rustc_hash::FxHashMap;

/// Constants so far, by name.
type Known = FxHashMap<String, Kind>;

/// Evaluates the constants of a kernel's body and puts them in the place of their names behind them.
pub(super) fn resolve(body: &mut Body, errors: &mut Vec<ParseError>) {
    let mut known = Known::default();
    for s in &mut body.statements {
        statement(s, &known);
        if let StatementKind::Const(all) = &mut s.kind {
            all.iter_mut().for_each(|(name, expr)| define(name, expr, &mut known, errors));
        }
    }
}

/// Puts numbers in the place of the parameters of a function that stand for them.
pub(super) fn substitute(inside: &mut Body, numbers: &[(String, Kind)]) {
    let known: Known = numbers.iter().cloned().collect();
    body(inside, &known);
}

/// The number of a constant that is evaluated.
pub(super) fn number(expr: &Expr) -> Option<Constant> {
    match expr.kind {
        Kind::Int(v) => i64::try_from(v).ok().map(Constant::Int),
        Kind::Float(v) => (!v.is_nan()).then_some(Constant::Float(v)),
        _ => None,
    }
}

fn define(name: &Name, expr: &mut Expr, known: &mut Known, errors: &mut Vec<ParseError>) {
    expression(expr, known);
    expr.kind = evaluated(expr).unwrap_or(Kind::Bool(false));
    if number(expr).is_none() {
        let message = format!("constant `{}` is a number made of numbers and constants before it", name.text);
        return errors.push(ParseError::at(expr.span, message));
    }
    known.entry(name.text.clone()).or_insert_with(|| expr.kind.clone());
}

/// What an expression of numbers gives.
fn evaluated(expr: &Expr) -> Option<Kind> {
    let call = match &expr.kind {
        Kind::Int(_) | Kind::Float(_) => return Some(expr.kind.clone()),
        Kind::Call(call) => call,
        _ => return None,
    };
    let args = call.args.iter().map(evaluated).collect::<Option<Vec<Kind>>>()?;
    match args[..] {
        [Kind::Int(x)] => integer(call.name, x, None),
        [Kind::Int(x), Kind::Int(y)] => integer(call.name, x, Some(y)),
        [Kind::Float(x)] => (call.name == "neg").then_some(Kind::Float(-x)),
        [Kind::Float(x), Kind::Float(y)] => float(call.name, x, y),
        _ => None,
    }
}

fn integer(name: &str, x: i128, y: Option<i128>) -> Option<Kind> {
    let made = match (name, y) {
        ("neg", None) => x.checked_neg(),
        ("+", Some(y)) => x.checked_add(y),
        ("-", Some(y)) => x.checked_sub(y),
        ("*", Some(y)) => x.checked_mul(y),
        ("/", Some(y)) => x.checked_div(y),
        ("%", Some(y)) => x.checked_rem(y),
        ("cdiv", Some(y)) if x >= 0 && y > 0 => x.checked_add(y - 1).map(|sum| sum / y),
        ("min", Some(y)) => Some(x.min(y)),
        ("max", Some(y)) => Some(x.max(y)),
        _ => None,
    };
    made.map(Kind::Int)
}

fn float(name: &str, x: f64, y: f64) -> Option<Kind> {
    let made = match name {
        "+" => x + y,
        "-" => x - y,
        "*" => x * y,
        "/" => x / y,
        _ => return None,
    };
    Some(Kind::Float(made))
}

fn statement(s: &mut Statement, known: &Known) {
    match &mut s.kind {
        StatementKind::Let { expr, ty, .. } => {
            expression(expr, known);
            ty.iter_mut().for_each(|t| type_text(t, known));
        }
        StatementKind::Grid(all) | StatementKind::Yield(all) => expressions(all, known),
        StatementKind::Const(_) | StatementKind::Tunable(_) | StatementKind::Wrong { .. } => {}
    }
}

fn body(body: &mut Body, known: &Known) {
    body.statements.iter_mut().for_each(|s| statement(s, known));
}

fn expressions(all: &mut [Expr], known: &Known) {
    all.iter_mut().for_each(|e| expression(e, known));
}

fn type_text(ty: &mut TypeText, known: &Known) {
    ty.dims.iter_mut().for_each(|d| expressions(d, known));
}

fn expression(expr: &mut Expr, known: &Known) {
    match &mut expr.kind {
        Kind::Name(name) => {
            if let Some(kind) = known.get(name) {
                expr.kind = kind.clone();
            }
        }
        Kind::List(all) => expressions(all, known),
        Kind::Index(of, all) => {
            expression(of, known);
            expressions(all, known);
        }
        Kind::Call(call) => {
            expressions(&mut call.args, known);
            call.ty.iter_mut().for_each(|t| type_text(t, known));
            call.strides.iter_mut().for_each(|s| expressions(s, known));
            call.mask.iter_mut().for_each(|m| expression(m, known));
        }
        Kind::Region(of) => region(of, known),
        Kind::Unknown(_, all) => expressions(all, known),
        Kind::Int(_) | Kind::Float(_) | Kind::Bool(_) | Kind::Str(_) => {}
    }
}

fn region(region: &mut Region, known: &Known) {
    match region {
        Region::For { lo, hi, step, carried, body: inner, .. } => {
            [Some(lo), Some(hi), step.as_mut()].into_iter().flatten().for_each(|e| expression(e, known));
            carried.iter_mut().for_each(|(_, e)| expression(e, known));
            body(inner, known);
        }
        Region::While { carried, body: inner } => {
            carried.iter_mut().for_each(|(_, e)| expression(e, known));
            body(inner, known);
        }
        Region::If { condition, then, other } => {
            expression(condition, known);
            body(then, known);
            other.iter_mut().for_each(|o| body(o, known));
        }
    }
}
