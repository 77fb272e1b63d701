//! One generator measures every pure row of the opcode table with one result.
//!
//! ```text
//!  x[n+1] = row x[n], x[n-1], x[n-2]      the next two or three use each value: ptxas can neither drop one
//!                                         nor merge two (as it merges a + b + c into IADD3)
//!  x[n+1] = back(row x[n], ...)           where result and operand differ in class: rows that lead back,
//!                                         measured themselves, are subtracted
//!  x[n+1] = prmt(row x[n], ...)           rows of one operand, which would cancel or fold into the next
//! ```
//!
//! Latency: one warp, one chain. Interval: sixteen warps, four chains each.

use super::{Case, Frame, Reading, builder};
use warplift_ir::machine::{Attr, Cursor, NewInst, Ty, Value};
use warplift_ir::target::{Class, Effect, Opcode, Row, SM90A, Unit};
use warplift_ir::tile::CmpOp;

/// Rows in a turn of the loop.
const LENGTH: u32 = 128;
/// For intervals: chains of a warp, and warps.
const STREAMS: u32 = 4;
const WARPS: u32 = 16;

/// Rows that ptxas does not turn into an instruction: names or modifiers of registers, inputs of a comparison.
pub const FREE: &[Opcode] = &[
    Opcode::ToGlobal,
    Opcode::Mov,
    Opcode::Mov64,
    Opcode::MovPred,
    Opcode::LikelyPred,
    Opcode::UnlikelyPred,
    Opcode::Narrow64,
    Opcode::WidenU32,
    Opcode::Pack64,
    Opcode::AndPred,
    Opcode::OrPred,
    Opcode::XorPred,
    Opcode::NotPred,
];

/// Rows whose chains ptxas makes chains of words: a word that was widened is converted as a word.
const NARROWED: &[Opcode] = &[Opcode::F32FromS64, Opcode::F32FromU64];

/// Whether the generator measures a row.
pub fn is_measured(row: &Row) -> bool {
    let scalar = |c: &Class| matches!(c, Class::Pred | Class::B32 | Class::B64);
    row.opcode.effect() == Effect::Pure
        && row.opcode.results().len() == 1
        // Rows of four operands are two instructions that are measured by themselves.
        && (1..=3).contains(&row.opcode.args().len())
        && row.opcode.args().iter().chain(row.opcode.results()).all(scalar)
        && !row.syntax.is_empty()
        && !FREE.contains(&row.opcode)
        && !NARROWED.contains(&row.opcode)
}

/// The class that a chain runs through: that of the first operand.
fn through(row: &Row) -> Class {
    row.opcode.args()[0]
}

/// Rows that lead from the result back to the operand.
fn back(row: &Row) -> &'static [Opcode] {
    match (row.opcode.results()[0], through(row)) {
        (Class::B32, Class::B32) if is_folded(row) => &[Opcode::Prmt],
        (Class::B64, Class::B64) if is_folded(row) => &[Opcode::SetpS64, Opcode::Selp64],
        (a, b) if a == b => &[],
        (Class::Pred, Class::B32) => &[Opcode::Selp],
        (Class::Pred, _) => &[Opcode::Selp64],
        (Class::B64, _) => &[Opcode::SetpS64, Opcode::Selp],
        _ => &[Opcode::WidenS32],
    }
}

/// Whether ptxas merges or cancels two of them in a row: logic, differences, and most rows of one operand.
fn is_folded(row: &Row) -> bool {
    use Opcode::*;
    let unary = row.opcode.args().len() == 1 && !matches!(row.unit, Unit::Sfu | Unit::Lsu);
    let logic = [And, Or, Xor, SubS32, And64, Or64, SubS64, Uniform, ReduxOr, ReduxMaxS32];
    unary || logic.contains(&row.opcode)
}

fn ty(class: Class) -> Ty {
    match class {
        Class::Pred => Ty::Pred,
        Class::B64 => Ty::B64,
        _ => Ty::B32,
    }
}

/// Immediates that a row needs: a comparison, a lane mask, a table of three inputs without symmetry.
fn attr(op: Opcode) -> Attr {
    match op {
        Opcode::Lop3 => Attr::Imm(0x96 ^ 0x1c),
        op if SM90A.row(op).syntax.contains("$c") => Attr::Cmp(CmpOp::Lt),
        op if SM90A.row(op).syntax.contains("$i") => Attr::Imm(1),
        _ => Attr::None,
    }
}

/// Values that are never computed in the loop.
#[derive(Clone, Copy)]
struct Fixed {
    words: [Value; 3],
    longs: [Value; 2],
    preds: [Value; 2],
}

impl Fixed {
    /// Values that differ by lane, so that they stay out of the uniform registers.
    fn new(c: &mut Cursor<'_, '_>, env: &super::frame::Env) -> Self {
        let word = |c: &mut Cursor<'_, '_>, factor: i64, plus: i64| {
            let factor = c.imm(factor);
            let plus = c.imm(plus);
            c.op(Opcode::MadS32, &[env.thread, factor, plus], Ty::B32)
        };
        // As floats these lie around 1, so division and roots take their usual path.
        let words = [word(c, 3, 0x3f80_1234), word(c, 0x1_0007, 0x3f90_4321), word(c, 5, 0x7531)];
        let longs = [0, 1].map(|i| c.op(Opcode::Pack64, &[words[i], words[i + 1]], Ty::B64));
        let preds = [7, 20].map(|v| {
            let bound = c.imm(v);
            c.compare(CmpOp::Lt, env.thread, bound)
        });
        Self { words, longs, preds }
    }

    /// Seed `i` of a chain.
    fn seed(&self, c: &mut Cursor<'_, '_>, class: Class, i: u32) -> Value {
        let plus = c.imm(i64::from(i) * 0x101 + 1);
        let word = c.op(Opcode::AddS32, &[self.words[i as usize % 3], plus], Ty::B32);
        match class {
            Class::Pred => c.compare(CmpOp::Lt, word, self.words[(i as usize + 1) % 3]),
            Class::B64 => c.op(Opcode::Pack64, &[word, self.words[0]], Ty::B64),
            _ => word,
        }
    }

    fn of(&self, class: Class, i: usize) -> Value {
        match class {
            Class::Pred => self.preds[i % 2],
            Class::B64 => self.longs[i % 2],
            _ => self.words[i % 3],
        }
    }
}

/// One step of a chain whose last three values are `last`, newest first.
fn step(c: &mut Cursor<'_, '_>, row: &Row, fixed: &Fixed, last: [Value; 3], n: usize) -> Value {
    let class = through(row);
    // Multiply-adds cannot merge; three operands that all change would measure the register file's banks.
    let changing = if row.unit == Unit::Fma && row.opcode.args().len() == 3 { 1 } else { 3 };
    let mut recent = last.into_iter().take(changing);
    let args: Vec<Value> = row
        .opcode
        .args()
        .iter()
        .enumerate()
        .map(|(k, &a)| if a == class { recent.next() } else { None }.unwrap_or_else(|| fixed.of(a, n + k)))
        .collect();
    let row_of = |c: &mut Cursor<'_, '_>, op: Opcode, args: &[Value]| {
        let result = ty(op.results()[0]);
        c.value(NewInst::new(op, args, &[result]).attr(attr(op)))
    };
    let mut value = row_of(c, row.opcode, &args);
    for &op in back(row) {
        let args: Vec<Value> = match op {
            Opcode::Selp | Opcode::Selp64 => {
                let class = op.args()[0];
                vec![fixed.of(class, n), fixed.of(class, n + 1), value]
            }
            Opcode::SetpS64 => vec![value, fixed.longs[n % 2]],
            Opcode::Prmt => vec![value, last[1], fixed.words[n % 3]],
            _ => vec![value],
        };
        value = row_of(c, op, &args);
    }
    value
}

/// The chains of a kernel: `streams` of them, each with three values carried.
fn case(row: &'static Row, warps: u32, streams: u32, kind: &'static str, per: f64) -> Case {
    let frame = Frame { warps, ..Frame::default() };
    let class = through(row);
    let build = builder(move |bump, name| {
        let fixed = std::cell::Cell::new(None);
        frame.build(
            bump,
            name,
            |c, env| {
                let f = Fixed::new(c, env);
                fixed.set(Some(f));
                (0..3 * streams).map(|i| f.seed(c, class, i)).collect()
            },
            |c, _, carried| {
                let Some(f) = fixed.get() else { return carried.to_vec() };
                let mut rings: Vec<[Value; 3]> =
                    carried.chunks_exact(3).map(|r| [r[0], r[1], r[2]]).collect();
                for n in 0..LENGTH / streams {
                    for ring in &mut rings {
                        let next = step(c, row, &f, *ring, n as usize);
                        *ring = [next, ring[0], ring[1]];
                    }
                }
                rings.concat()
            },
        )
    });
    let name = format!("row.{}.{kind}", row.opcode.name());
    let less = back(row).iter().map(|op| format!("row.{}.{kind}", op.name())).collect();
    let sass = (row.sass, if row.sass.is_empty() { 0 } else { LENGTH });
    Case::new(name, "rows", Reading::Cycles { per }, build).less(less).sass(sass.0, sass.1)
}

/// Latency and interval of every row; rows that lead back come first.
pub fn cases() -> Vec<Case> {
    let mut rows: Vec<&'static Row> = SM90A.rows().filter(|r| is_measured(r)).collect();
    use Opcode::*;
    let first = [Prmt, Selp, Selp64, SetpS64, WidenS32];
    rows.sort_by_key(|r| first.iter().position(|&op| op == r.opcode).unwrap_or(first.len()));
    let interval = f64::from(LENGTH * WARPS / SM90A.schedulers);
    rows.iter()
        .flat_map(|row| {
            [case(row, 1, 1, "latency", LENGTH.into()), case(row, WARPS, STREAMS, "interval", interval)]
        })
        .collect()
}
