//! The parsed form of an entry: statements with resolved registers. Opcodes are still text.

use super::lex::Pos;
use std::collections::HashMap;

/// Width class of a register; PTX's signedness does not matter to a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Pred,
    Bits(u8),
}

/// A register: a dense number in its bank (predicates apart from the rest).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Register {
    pub id: u32,
    pub class: Class,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Operand {
    Reg(Register),
    /// `!p`
    Not(Register),
    /// `p|q`; either may be the sink.
    Pair(Box<(Operand, Operand)>),
    /// A name that is no register: special register, variable or label, with an offset.
    Name(String, i64),
    Int(u64),
    F32(u32),
    F64(u64),
    /// Decimal float, typed by its instruction.
    Decimal(f64),
    /// `{a, b}`
    Vector(Vec<Operand>),
    /// `[base + offset]` or `[base, {coordinates}]`
    Address {
        base: Box<Operand>,
        offset: i64,
        coordinates: Option<Vec<Operand>>,
    },
    /// `_`
    Sink,
}

#[derive(Clone, Debug)]
pub(crate) struct Statement {
    pub pos: Pos,
    /// Guard predicate and whether it is negated.
    pub guard: Option<(Register, bool)>,
    pub opcode: String,
    pub operands: Vec<Operand>,
    /// File number, line, column of the last `.loc`.
    pub loc: Option<(u32, u32, u32)>,
}

#[derive(Clone, Debug)]
pub(crate) struct Param {
    pub name: String,
    pub offset: u32,
    pub bytes: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct Variable {
    pub name: String,
    pub align: u32,
    /// `None` for an `.extern` array without size.
    pub bytes: Option<u32>,
    /// Initial bytes; missing bytes are zero.
    pub init: Vec<u8>,
}

/// One `.entry` as written.
#[derive(Clone, Debug, Default)]
pub(crate) struct EntryAst {
    pub name: String,
    pub pos: Pos,
    pub params: Vec<Param>,
    pub reqntid: Option<[u32; 3]>,
    pub maxntid: Option<[u32; 3]>,
    pub cluster: Option<[u32; 3]>,
    pub maxnreg: Option<u32>,
    pub shared: Vec<Variable>,
    pub local: Vec<Variable>,
    pub statements: Vec<Statement>,
    /// Label to statement number.
    pub labels: HashMap<String, u32>,
    pub registers: u32,
    pub predicates: u32,
    /// Printed name of each register and each predicate.
    pub register_names: Vec<String>,
    pub predicate_names: Vec<String>,
}
