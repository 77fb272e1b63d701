//! The words of the text form: operations by name, operators with their precedence, reserved words.
//! Printer and parser read the same tables.

use super::{AtomicOp, BinOp, CmpOp, MAX_RANK, MemoryOrder, MemoryScope, Op, ReduceOp, UnOp};

/// Functions of one operand.
pub(crate) const UNARY: [(&str, UnOp); 16] = [
    ("neg", UnOp::Neg),
    ("abs", UnOp::Abs),
    ("not", UnOp::Not),
    ("exp", UnOp::Exp),
    ("exp2", UnOp::Exp2),
    ("log", UnOp::Log),
    ("log2", UnOp::Log2),
    ("sqrt", UnOp::Sqrt),
    ("rsqrt", UnOp::Rsqrt),
    ("rcp", UnOp::Rcp),
    ("sin", UnOp::Sin),
    ("cos", UnOp::Cos),
    ("tanh", UnOp::Tanh),
    ("erf", UnOp::Erf),
    ("likely", UnOp::Likely),
    ("unlikely", UnOp::Unlikely),
];

/// Functions of two operands that have no operator.
pub(crate) const BINARY: [(&str, BinOp); 4] =
    [("cdiv", BinOp::CeilDiv), ("min", BinOp::Min), ("max", BinOp::Max), ("mulhi", BinOp::MulHi)];

/// What an infix operator stands for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Infix {
    /// Arithmetic or bits.
    Binary(BinOp),
    /// A comparison.
    Compare(CmpOp),
}

/// Infix operators with their precedence, loosest 1; the order is that of Rust.
pub(crate) const INFIX: [(&str, u8, Infix); 16] = [
    ("==", 1, Infix::Compare(CmpOp::Eq)),
    ("!=", 1, Infix::Compare(CmpOp::Ne)),
    ("<", 1, Infix::Compare(CmpOp::Lt)),
    ("<=", 1, Infix::Compare(CmpOp::Le)),
    (">", 1, Infix::Compare(CmpOp::Gt)),
    (">=", 1, Infix::Compare(CmpOp::Ge)),
    ("|", 2, Infix::Binary(BinOp::Or)),
    ("^", 3, Infix::Binary(BinOp::Xor)),
    ("&", 4, Infix::Binary(BinOp::And)),
    ("<<", 5, Infix::Binary(BinOp::Shl)),
    (">>", 5, Infix::Binary(BinOp::Shr)),
    ("+", 6, Infix::Binary(BinOp::Add)),
    ("-", 6, Infix::Binary(BinOp::Sub)),
    ("*", 7, Infix::Binary(BinOp::Mul)),
    ("/", 7, Infix::Binary(BinOp::Div)),
    ("%", 7, Infix::Binary(BinOp::Rem)),
];

/// Reductions, after `reduce_`.
pub(crate) const REDUCE: [(&str, ReduceOp); 7] = [
    ("reduce_sum", ReduceOp::Sum),
    ("reduce_prod", ReduceOp::Prod),
    ("reduce_min", ReduceOp::Min),
    ("reduce_max", ReduceOp::Max),
    ("reduce_and", ReduceOp::And),
    ("reduce_or", ReduceOp::Or),
    ("reduce_xor", ReduceOp::Xor),
];

/// Scans.
pub(crate) const SCAN: [(&str, ReduceOp); 7] = [
    ("scan_sum", ReduceOp::Sum),
    ("scan_prod", ReduceOp::Prod),
    ("scan_min", ReduceOp::Min),
    ("scan_max", ReduceOp::Max),
    ("scan_and", ReduceOp::And),
    ("scan_or", ReduceOp::Or),
    ("scan_xor", ReduceOp::Xor),
];

/// Reductions that give an index. They stand for other operations: see [`super::KernelBuilder::arg_reduce`].
pub(crate) const ARG_REDUCE: [(&str, ReduceOp); 2] = [("argmax", ReduceOp::Max), ("argmin", ReduceOp::Min)];

/// Atomic updates.
pub(crate) const ATOMIC: [(&str, AtomicOp); 5] = [
    ("atomic_add", AtomicOp::Add),
    ("atomic_min", AtomicOp::Min),
    ("atomic_max", AtomicOp::Max),
    ("atomic_exchange", AtomicOp::Exchange),
    ("atomic_cas", AtomicOp::CompareAndSwap),
];

/// Scopes of atomic updates, behind `scope`.
pub(crate) const SCOPES: [(&str, MemoryScope); 4] = [
    ("cta", MemoryScope::Cta),
    ("cluster", MemoryScope::Cluster),
    ("gpu", MemoryScope::Gpu),
    ("sys", MemoryScope::Sys),
];

/// Orders of atomic updates, behind `order`.
pub(crate) const ORDERS: [(&str, MemoryOrder); 4] = [
    ("relaxed", MemoryOrder::Relaxed),
    ("acquire", MemoryOrder::Acquire),
    ("release", MemoryOrder::Release),
    ("acq_rel", MemoryOrder::AcqRel),
];

/// How an operation that is no operator is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Form {
    /// Least number of operands.
    pub least: usize,
    /// Greatest number of operands.
    pub most: usize,
    /// Whether the operands may stand without parentheses, as in `mma x, a, b`.
    pub bare: bool,
    /// Whether `: type` follows.
    pub typed: bool,
}

const fn form(least: usize, most: usize, bare: bool, typed: bool) -> Form {
    Form { least, most, bare, typed }
}

/// Operations that are written by name and have no table of their own.
const FORMS: [(&str, Form); 39] = [
    ("block_index", form(0, 1, true, false)),
    ("grid_dim", form(1, 1, false, false)),
    ("program_id", form(0, 0, true, false)),
    ("program_count", form(0, 0, true, false)),
    ("unbounded", form(0, 0, true, false)),
    ("dim", form(1, 1, false, false)),
    ("select", form(3, 3, false, false)),
    ("fma", form(3, 3, false, false)),
    ("cast", form(2, 2, false, false)),
    ("view_as", form(2, 2, false, false)),
    ("to_index", form(1, 1, false, false)),
    ("full", form(1, 1, true, true)),
    ("iota", form(1, 1, true, true)),
    ("broadcast", form(1, 1, true, true)),
    ("reshape", form(1, 1, true, true)),
    ("trans", form(1, 2, false, false)),
    ("join", form(2, 2, false, false)),
    ("split", form(1, 1, false, false)),
    ("slice", form(2, 2, false, true)),
    ("rearrange", form(1, 1, false, false)),
    ("expand_dims", form(2, 2, false, false)),
    ("view", form(1, 1, true, true)),
    ("subview", form(1, 1, true, false)),
    ("load", form(1, 1, true, true)),
    ("store", form(2, 2, true, false)),
    ("workspace", form(1, MAX_RANK, true, true)),
    ("shared", form(0, 0, true, false)),
    ("arrive", form(2, 2, true, false)),
    ("mma", form(3, 3, true, false)),
    ("gather", form(3, 3, false, false)),
    ("async_copy", form(1, 1, true, true)),
    ("async_commit", form(0, 0, true, false)),
    ("async_wait", form(1, 1, true, false)),
    ("print", form(1, usize::MAX, true, false)),
    ("assert", form(1, 2, true, false)),
    ("assume", form(1, 1, true, false)),
    ("for", form(0, 0, false, false)),
    ("while", form(0, 0, false, false)),
    ("if", form(0, 0, false, false)),
];

/// Reserved words that are not operations.
const KEYWORDS: [&str; 21] = [
    "kernel",
    "fn",
    "mapping",
    "const",
    "tunable",
    "grid",
    "in",
    "step",
    "carry",
    "yield",
    "else",
    "strides",
    "fill",
    "where",
    "align",
    "may_alias",
    "true",
    "false",
    "inf",
    "nan",
    "ptr",
];

/// Every operation of the language, by its name or operator.
pub fn operations() -> Vec<&'static str> {
    let plain = FORMS.iter().map(|r| r.0).chain(UNARY.iter().map(|r| r.0)).chain(BINARY.iter().map(|r| r.0));
    let folded = REDUCE.iter().map(|r| r.0).chain(SCAN.iter().map(|r| r.0)).chain(ATOMIC.iter().map(|r| r.0));
    plain.chain(folded).chain(INFIX.iter().map(|r| r.0)).collect()
}

/// Every word of the language: operations and keywords.
pub(crate) fn words() -> impl Iterator<Item = &'static str> {
    operations().into_iter().chain(ARG_REDUCE.iter().map(|r| r.0)).chain(KEYWORDS)
}

/// The entry of a table that has this name.
pub(crate) fn find<T: Copy>(table: &[(&str, T)], name: &str) -> Option<T> {
    table.iter().find(|(n, _)| *n == name).map(|(_, t)| *t)
}

/// The name under which a table lists this entry.
pub(super) fn name_of<T: PartialEq>(table: &[(&'static str, T)], entry: T) -> &'static str {
    table.iter().find(|(_, t)| *t == entry).map_or("?", |r| r.0)
}

/// How the operation of this name is written.
pub(crate) fn form_of(name: &str) -> Option<Form> {
    if find(&UNARY, name).is_some() {
        return Some(form(1, 1, false, false));
    }
    let reduces = find(&REDUCE, name).or(find(&SCAN, name)).or(find(&ARG_REDUCE, name));
    if find(&BINARY, name).is_some() || reduces.is_some() {
        return Some(form(2, 2, false, false));
    }
    if let Some(op) = find(&ATOMIC, name) {
        let operands = if op == AtomicOp::CompareAndSwap { 3 } else { 2 };
        return Some(form(operands, operands, true, false));
    }
    find(&FORMS, name)
}

/// The table's own copy of an operation's name; empty if there is no such operation.
pub(crate) fn known(name: &str) -> &'static str {
    fn own<T>(table: &[(&'static str, T)], name: &str) -> Option<&'static str> {
        table.iter().find(|(n, _)| *n == name).map(|r| r.0)
    }
    own(&UNARY, name)
        .or_else(|| own(&BINARY, name))
        .or_else(|| own(&REDUCE, name))
        .or_else(|| own(&SCAN, name))
        .or_else(|| own(&ARG_REDUCE, name))
        .or_else(|| own(&ATOMIC, name))
        .or_else(|| own(&FORMS, name))
        .unwrap_or_default()
}

/// The operator of a two-operand operation, if it is written as one.
pub(crate) fn infix(what: Infix) -> Option<&'static str> {
    INFIX.iter().find(|r| r.2 == what).map(|r| r.0)
}

/// Whether text may name a value so that it reads back: an identifier, not reserved, not `v12`.
pub(crate) fn is_free_name(name: &str) -> bool {
    is_ident(name) && !is_reserved(name) && !is_numbered(name)
}

/// Whether the text is a word of letters, digits and underscores that starts with no digit.
pub(crate) fn is_ident(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Whether the word is the language's: a keyword, an operation or an element type.
pub(crate) fn is_reserved(name: &str) -> bool {
    KEYWORDS.contains(&name) || form_of(name).is_some() || crate::types::Elem::from_name(name).is_some()
}

/// Whether the name is one that the printer makes up: `v` and digits.
pub(crate) fn is_numbered(name: &str) -> bool {
    name.strip_prefix('v').is_some_and(|d| !d.is_empty() && d.bytes().all(|b| b.is_ascii_digit()))
}

impl Op {
    /// The name of the operation in text and messages.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Int(_) | Self::Float(_) => "constant",
            Self::Dim(_) => "dim",
            Self::BlockIndex(_) => "block_index",
            Self::GridDim(_) => "grid_dim",
            Self::ProgramId => "program_id",
            Self::ProgramCount => "program_count",
            Self::Unbounded => "unbounded",
            Self::Unary(op) => name_of(&UNARY, *op),
            Self::Binary(op) => infix(Infix::Binary(*op)).unwrap_or_else(|| name_of(&BINARY, *op)),
            Self::Compare(op) => infix(Infix::Compare(*op)).unwrap_or("?"),
            Self::Reduce(op, _) => name_of(&REDUCE, *op),
            Self::Scan(op, _) => name_of(&SCAN, *op),
            Self::Atomic(op) | Self::AtomicScatter { op, .. } => name_of(&ATOMIC, *op),
            _ => self.plain_name(),
        }
    }

    fn plain_name(&self) -> &'static str {
        match self {
            Self::Select => "select",
            Self::Fma => "fma",
            Self::Cast => "cast",
            Self::ViewAs(_) => "view_as",
            Self::ToIndex => "to_index",
            Self::Full => "full",
            Self::Iota(_) => "iota",
            Self::Broadcast => "broadcast",
            Self::Reshape => "reshape",
            Self::Trans(_) => "trans",
            Self::Join => "join",
            Self::Split => "split",
            Self::Slice(_) => "slice",
            Self::Rearrange => "rearrange",
            Self::ExpandDims(_) => "expand_dims",
            Self::View { .. } => "view",
            Self::SubView(_) => "subview",
            Self::Load | Self::LoadGather { .. } | Self::LoadRuns(_) => "load",
            Self::Store | Self::StoreScatter { .. } => "store",
            Self::Workspace => "workspace",
            Self::Shared { .. } => "shared",
            Self::Arrive => "arrive",
            Self::Mma { .. } => "mma",
            Self::Gather(_) => "gather",
            Self::AsyncCopy => "async_copy",
            Self::AsyncCommit => "async_commit",
            Self::AsyncWait(_) => "async_wait",
            Self::Print(_) => "print",
            Self::Assert(_) => "assert",
            Self::Assume(_) => "assume",
            Self::For => "for",
            Self::While => "while",
            Self::If => "if",
            _ => "yield",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_written_as_they_are_named() {
        for op in [Op::Mma { negated: false }, Op::Select, Op::Reduce(ReduceOp::Max, 0), Op::For] {
            assert!(form_of(op.name()).is_some(), "{}", op.name());
        }
        assert_eq!(Op::Binary(BinOp::Shl).name(), "<<");
        assert_eq!(Op::Binary(BinOp::CeilDiv).name(), "cdiv");
    }

    #[test]
    fn the_page_of_the_language_names_every_operation() {
        let page = include_str!("../../../docs/language.md");
        let mut names: Vec<&str> = operations();
        names.extend(ARG_REDUCE.iter().map(|r| r.0));
        names.extend(KEYWORDS);
        let written =
            |name: &&&str| !page.contains(&format!("`{name}")) && !page.contains(&format!(" {name} "));
        let missing: Vec<&&str> = names.iter().filter(written).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }

    #[test]
    fn free_names_are_not_the_languages() {
        assert!(is_free_name("acc") && is_free_name("v") && is_free_name("_v1"));
        for bad in ["v12", "load", "f16", "carry", "1a", "a-b", ""] {
            assert!(!is_free_name(bad), "{bad}");
        }
    }
}
