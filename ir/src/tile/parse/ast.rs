//! The syntax tree of a text, before names and types are resolved.

use super::lex::Span;
use crate::layout::Layout;
use crate::tile::{Assumption, Attrs, Domain, Facts, MemorySync, Type};
use crate::types::Elem;

/// A word and its place.
#[derive(Clone, Debug)]
pub(crate) struct Name {
    pub text: String,
    pub span: Span,
}

/// An expression.
#[derive(Clone, Debug)]
pub(super) struct Expr {
    pub kind: Kind,
    pub span: Span,
    /// Levels of expressions within, itself included.
    pub depth: u32,
}

/// The kind of an expression.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    /// Integer literal with its sign; -2^63 to 2^64 - 1.
    Int(i128),
    Float(f64),
    Bool(bool),
    Str(String),
    /// A value, tunable, or the element type in `cast(x, f16)`.
    Name(String),
    /// `[a, b]`
    List(Vec<Expr>),
    /// `view[a, b]`
    Index(Box<Expr>, Vec<Expr>),
    /// An operator or operation by name, its operands and its tail.
    Call(Box<Call>),
    /// A word with operands that is no operation: a function, or a mistake.
    Unknown(String, Vec<Expr>),
    /// A loop or branch.
    Region(Box<Region>),
}

/// An operation: its name is the operator's or function's.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub name: &'static str,
    pub args: Vec<Expr>,
    /// `: type`
    pub ty: Option<TypeText>,
    /// `layout ".."` of an array in shared memory
    pub layout: Option<Box<Layout>>,
    /// `strides [..]` of a view
    pub strides: Option<Vec<Expr>>,
    /// `fill 0.0` of a view
    pub fill: f64,
    /// `where c` of an access
    pub mask: Option<Expr>,
    /// `scope gpu order relaxed` of an atomic update
    pub sync: MemorySync,
    /// `% 8 in 0..64` of an `assume`
    pub promise: Assumption,
}

/// `f32` or `f32[BM, 2]`.
#[derive(Clone, Debug)]
pub(super) struct TypeText {
    pub elem: Elem,
    pub dims: Option<Vec<Expr>>,
    pub span: Span,
}

/// A loop or branch.
#[derive(Clone, Debug)]
pub(super) enum Region {
    For { counter: Name, lo: Expr, hi: Expr, step: Option<Expr>, carried: Vec<(Name, Expr)>, body: Body },
    While { carried: Vec<(Name, Expr)>, body: Body },
    If { condition: Expr, then: Body, other: Option<Body> },
}

/// Statements in braces.
#[derive(Clone, Debug, Default)]
pub(super) struct Body {
    pub statements: Vec<Statement>,
    /// The closing brace.
    pub end: Span,
}

/// A statement.
#[derive(Clone, Debug)]
pub(super) struct Statement {
    pub span: Span,
    pub kind: StatementKind,
}

/// The kind of a statement.
#[derive(Clone, Debug)]
pub(super) enum StatementKind {
    /// `a, b = expr`, or an expression alone.
    Let {
        names: Vec<Name>,
        attrs: Option<Box<Attrs>>,
        expr: Expr,
        /// `: type` of a literal.
        ty: Option<TypeText>,
    },
    /// `const NAME = expr`; a number once it is evaluated.
    Const(Vec<(Name, Expr)>),
    Tunable(Vec<TunableText>),
    Grid(Vec<Expr>),
    Yield(Vec<Expr>),
    /// A wrong statement, with the names that it would have defined.
    Wrong {
        names: Vec<Name>,
        yields: bool,
    },
}

/// `NAME in domain = default`
#[derive(Clone, Debug)]
pub(super) struct TunableText {
    pub name: Name,
    pub domain: Domain,
    pub default: i64,
}

/// `fn name(a, b) { .. yield x }`
#[derive(Clone, Debug)]
pub(super) struct FunctionText {
    pub name: Name,
    pub params: Vec<Name>,
    pub body: Body,
}

/// A parameter in the signature.
#[derive(Clone, Debug)]
pub(super) struct ParamText {
    pub name: Name,
    pub ty: Type,
    pub facts: Facts,
}

/// A kernel.
#[derive(Clone, Debug)]
pub(super) struct KernelText {
    pub name: Name,
    pub params: Vec<ParamText>,
    /// Parameters that could not be read.
    pub wrong: Vec<Name>,
    pub body: Body,
}
