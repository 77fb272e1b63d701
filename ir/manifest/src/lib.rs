//! The launch manifest holds everything that a launcher must know besides the PTX.
//!
//! ```text
//!  kernel signature ──┐
//!  mapping ───────────┼─► manifest (JSON, versioned) ─► launcher: checks facts, encodes tensor maps,
//!  schedule ──────────┘                                 evaluates grid and workspace, launches
//! ```
//!
//! Sizes that depend on arguments are [`Expr`]essions over the scalar arguments and the launcher's
//! variable `sm_count`. They are written as text, `cdiv(m, 128) * cdiv(n, 256)`, in a subset that
//! Python evaluates too (with `cdiv`, `div`, `mod`, `min`, `max` defined), so a launcher in another
//! language needs no library of ours. Arithmetic is on i64 and every operation is checked.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The version that [`Manifest::version`] carries. A launcher must obey every field, so it reads exactly one version.
///
/// The first change of a field, a variant or a name after a release raises it. Changes before the next release belong to
/// the raised version. `format/N.txt` records the declarations of version N, and whether it was released; a test holds
/// them to this file. Version 1 was not released yet, so its fields may still change.
pub const MANIFEST_VERSION: u32 = 1;

/// The launch manifest of one compiled kernel. See the module documentation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Format version, [`MANIFEST_VERSION`].
    pub version: u32,
    /// Name of the kernel in its source.
    pub kernel: String,
    /// Name of the `.entry` in the PTX.
    pub entry: String,
    /// `.target` of the PTX, `sm_90a`.
    pub target: String,
    /// Arguments that the caller passes, in the order of the kernel's signature.
    pub arguments: Vec<Argument>,
    /// Parameters of the entry, in order.
    pub params: Vec<Param>,
    /// Blocks in x, y, z.
    pub grid: [Expr; 3],
    /// Blocks of a cluster in x, y, z; all 1 where there is none.
    pub cluster: [u32; 3],
    /// Threads of a block (one-dimensional).
    pub block: u32,
    /// Whether the launch may start it before its predecessor in the stream has ended (programmatic dependent launch).
    /// The kernel itself waits before it touches memory that the predecessor may write.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pdl: bool,
    /// Bytes of dynamic shared memory.
    pub dynamic_shared: u32,
    /// Bytes of global workspace, `0` where none is needed. It is zero before the first launch. A launch leaves it as the next
    /// one with the same scalar arguments needs it; other arguments, and launches at the same time, need one each.
    pub workspace: Expr,
    /// Registers that each role may use.
    pub roles: Vec<RoleInfo>,
    /// Requirements on the arguments. The launcher refuses a launch that breaks one.
    pub facts: Vec<Fact>,
}

/// An argument of the kernel as its caller sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Argument {
    /// Name in the signature.
    pub name: String,
    /// Type as written in tile IR: `ptr<f16>`, `i32`, `f32`.
    #[serde(rename = "type")]
    pub ty: String,
    /// Whether the kernel writes through this pointer.
    #[serde(default)]
    pub written: bool,
    /// Whether the kernel may read it before the preceding grid has ended (see [`Manifest::pdl`]). That grid must not
    /// write it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub before_wait: bool,
    /// How the array must be packed before the launch, if it must.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packing: Option<Packing>,
}

/// The packed form of an array: whole tiles of its last two dimensions one after the other, along the last dimension
/// first. Incomplete tiles are filled with zeros. Each tile has its elements in the order of the digits.
///
/// ```text
///  outer 0: tile 0,0 | tile 0,1 | .. | tile 1,0 | ..     outer 1: tile 0,0 | ..     zeros, if anything reads outside
/// ```
///
/// Element `p` of a tile is the one whose coordinates inside the tile are the sums of `digit * step` over
/// the digits of `p` (mixed radix, the fastest first). Elements are packed with no gaps.
/// (Tilus, section 7 and Fig. 9: weight layout transformation.)
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Packing {
    /// Extents of the dimensions before the last two. Each index of these has tiles of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outer: Vec<Expr>,
    /// Extents of the last two dimensions in elements.
    pub extents: [Expr; 2],
    /// Extents of a tile.
    pub tile: [u32; 2],
    /// Bits of an element.
    pub bits: u32,
    /// Digits of an element's place in its tile.
    pub digits: Vec<PackingDigit>,
    /// Whether a tile of zeros follows the last one. Reads outside of the array are directed to it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub zeros: bool,
}

/// A digit of [`Packing::digits`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackingDigit {
    /// Number of values.
    pub extent: u32,
    /// Rows and columns of the tile that one step moves.
    pub step: [u32; 2],
}

impl Packing {
    /// Indices of the outer dimensions together, for values of the scalar arguments.
    ///
    /// # Errors
    /// An extent that has no value.
    pub fn outer_count(&self, value: &dyn Fn(&str) -> Option<i64>) -> Result<i64, ExprError> {
        self.outer.iter().try_fold(1i64, |all, e| Ok(all.saturating_mul(e.eval(value)?.max(0))))
    }

    /// Bytes of the packed array for values of the scalar arguments.
    ///
    /// # Errors
    /// An extent that has no value.
    pub fn bytes(&self, value: &dyn Fn(&str) -> Option<i64>) -> Result<i64, ExprError> {
        let mut tiles = self.outer_count(value)?;
        for (extent, &tile) in self.extents.iter().zip(&self.tile) {
            let tile = i64::from(tile).max(1);
            tiles = tiles.saturating_mul(extent.eval(value)?.max(0).saturating_add(tile - 1) / tile);
        }
        let [rows, columns] = self.tile.map(i64::from);
        let tiles = tiles.saturating_add(self.zeros.into());
        Ok(tiles.saturating_mul(rows * columns * i64::from(self.bits) / 8))
    }
}

/// A parameter of the PTX entry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Param {
    /// An argument passed by value: 8 bytes for a pointer, else the type's size.
    Argument {
        /// Name of the argument.
        name: String,
    },
    /// A 128-byte `CUtensorMap`, 64-byte aligned, `.param` space (`__grid_constant__`).
    TensorMap(TensorMap),
    /// Address in the workspace, 8 bytes.
    Workspace {
        /// Bytes from its start.
        #[serde(default = "Expr::zero", skip_serializing_if = "Expr::is_zero")]
        offset: Expr,
    },
}

/// The arguments of `cuTensorMapEncodeTiled`. Index 0 is the innermost dimension.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TensorMap {
    /// Pointer argument that holds the global address.
    pub base: String,
    /// Bytes added to the base address.
    #[serde(default = "Expr::zero")]
    pub offset: Expr,
    /// Element type as `CUtensorMapDataType` sees it: `u8 u16 u32 i32 u64 i64 f16 f32 f64 bf16`.
    pub element: String,
    /// Extents in elements.
    pub dims: Vec<Expr>,
    /// Strides in bytes of dimensions 1 and up (one less than `dims`).
    pub strides: Vec<Expr>,
    /// Box in elements, each 1 to 256.
    #[serde(rename = "box")]
    pub box_dims: Vec<u32>,
    /// Swizzle span in bytes: 0 (none), 32, 64 or 128.
    pub swizzle: u32,
    /// L2 promotion in bytes: 0, 64, 128 or 256.
    pub l2_promotion: u32,
}

/// One role's registers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoleInfo {
    /// Name in the schedule, `producer`, `consumer`.
    pub name: String,
    /// First warp and number of warps.
    pub warps: [u32; 2],
    /// Registers per thread after `setmaxnreg` (the entry's count where there is none).
    pub registers: u32,
}

/// A requirement on the arguments.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "fact", rename_all = "snake_case")]
pub enum Fact {
    /// The pointer argument is a multiple of so many bytes.
    Aligned {
        /// Argument.
        name: String,
        /// Bytes, a power of two.
        align: u64,
    },
    /// The integer argument is a multiple.
    Multiple {
        /// Argument.
        name: String,
        /// Divisor.
        of: i64,
    },
    /// The integer argument lies in a closed range.
    Range {
        /// Argument.
        name: String,
        /// Least value.
        min: i64,
        /// Greatest value.
        max: i64,
    },
    /// A number made of integer arguments lies in a closed range.
    Limit {
        /// The meaning of the number.
        what: String,
        /// The number.
        value: Expr,
        /// Least value.
        min: i64,
        /// Greatest value.
        max: i64,
    },
    /// What is written through one pointer argument lies apart from the memory behind another: the kernel's loads and
    /// stores are ordered as if no byte were both.
    Disjoint {
        /// The argument that is written through.
        written: String,
        /// The other argument.
        other: String,
    },
}

/// An integer expression over arguments. Division rounds toward negative infinity.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Expr {
    /// A constant.
    Const(i64),
    /// An integer argument by name, or `sm_count`.
    Var(String),
    /// A binary operation.
    Op(ExprOp, Box<(Expr, Expr)>),
}

/// Operations of [`Expr`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ExprOp {
    /// Sum, `a + b`.
    Add,
    /// Difference, `a - b`.
    Sub,
    /// Product, `a * b`.
    Mul,
    /// `div(a, b)`, rounding down.
    Div,
    /// `cdiv(a, b)`, rounding up.
    CeilDiv,
    /// `mod(a, b)`, sign of the divisor.
    Mod,
    /// `min(a, b)`.
    Min,
    /// `max(a, b)`.
    Max,
}

/// Why an [`Expr`] could not be read or evaluated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExprError {
    /// The text is not an expression.
    #[error("expression `{text}`: {what} at column {column}")]
    Syntax {
        /// Whole text.
        text: String,
        /// The mistake.
        what: &'static str,
        /// Column, from 1.
        column: usize,
    },
    /// A variable has no value.
    #[error("expression names `{0}`, which is no integer argument")]
    Unknown(String),
    /// Overflow, or division by zero.
    #[error("expression `{0}` overflows or divides by zero")]
    Arithmetic(String),
}

impl Expr {
    /// The constant 0.
    pub fn zero() -> Self {
        Self::Const(0)
    }

    /// Whether it is the constant 0.
    pub fn is_zero(&self) -> bool {
        matches!(self, Self::Const(0))
    }

    /// A variable.
    pub fn var(name: &str) -> Self {
        Self::Var(name.to_owned())
    }

    /// `op(a, b)`, with constants folded.
    pub fn op(op: ExprOp, a: Self, b: Self) -> Self {
        match (op, &a, &b) {
            (_, Self::Const(x), Self::Const(y)) => match op.apply(*x, *y) {
                Some(v) => Self::Const(v),
                None => Self::Op(op, Box::new((a, b))),
            },
            (ExprOp::Mul | ExprOp::Div | ExprOp::CeilDiv, _, Self::Const(1))
            | (ExprOp::Add | ExprOp::Sub, _, Self::Const(0)) => a,
            (ExprOp::Mul, Self::Const(1), _) | (ExprOp::Add, Self::Const(0), _) => b,
            _ => Self::Op(op, Box::new((a, b))),
        }
    }

    /// Least and greatest value that it may have where variables lie in these closed ranges (not the tightest
    /// ones); `None` where one is unknown or may overflow.
    pub fn range(&self, vars: &dyn Fn(&str) -> Option<(i64, i64)>) -> Option<(i64, i64)> {
        match self {
            Self::Const(v) => Some((*v, *v)),
            Self::Var(name) => vars(name),
            Self::Op(op, ab) => {
                let (a, b) = (ab.0.range(vars)?, ab.1.range(vars)?);
                let ends = |op: ExprOp| -> Option<(i64, i64)> {
                    let all = [(a.0, b.0), (a.0, b.1), (a.1, b.0), (a.1, b.1)].map(|(x, y)| op.apply(x, y));
                    let all = all.into_iter().collect::<Option<Vec<_>>>()?;
                    Some((*all.iter().min()?, *all.iter().max()?))
                };
                match op {
                    // Over divisors of one sign each is monotonous in both.
                    ExprOp::Div | ExprOp::CeilDiv if b.0 <= 0 => None,
                    ExprOp::Mod => (b.0 > 0).then_some((0, b.1 - 1)),
                    op => ends(*op),
                }
            }
        }
    }

    /// Whether a variable is named.
    pub fn names(&self, variable: &str) -> bool {
        match self {
            Self::Const(_) => false,
            Self::Var(n) => n == variable,
            Self::Op(_, ab) => ab.0.names(variable) || ab.1.names(variable),
        }
    }

    /// The value under `vars`.
    ///
    /// # Errors
    /// An unknown variable, overflow, division by zero.
    pub fn eval(&self, vars: &dyn Fn(&str) -> Option<i64>) -> Result<i64, ExprError> {
        match self {
            Self::Const(v) => Ok(*v),
            Self::Var(n) => vars(n).ok_or_else(|| ExprError::Unknown(n.clone())),
            Self::Op(op, ab) => {
                let (a, b) = (ab.0.eval(vars)?, ab.1.eval(vars)?);
                op.apply(a, b).ok_or_else(|| ExprError::Arithmetic(self.to_string()))
            }
        }
    }
}

impl ExprOp {
    /// The result, or `None` on overflow or division by zero.
    pub fn apply(self, a: i64, b: i64) -> Option<i64> {
        let floor = |a: i64, b: i64| {
            let q = a.checked_div(b)?;
            Some(q - i64::from(a % b != 0 && (a < 0) != (b < 0)))
        };
        match self {
            Self::Add => a.checked_add(b),
            Self::Sub => a.checked_sub(b),
            Self::Mul => a.checked_mul(b),
            Self::Div => floor(a, b),
            Self::CeilDiv => floor(a.checked_neg()?, b)?.checked_neg(),
            Self::Mod => a.checked_sub(floor(a, b)?.checked_mul(b)?),
            Self::Min => Some(a.min(b)),
            Self::Max => Some(a.max(b)),
        }
    }

    const CALLS: [(&'static str, Self); 5] = [
        ("cdiv", Self::CeilDiv),
        ("div", Self::Div),
        ("mod", Self::Mod),
        ("min", Self::Min),
        ("max", Self::Max),
    ];
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Const(v) => write!(f, "{v}"),
            Self::Var(n) => f.write_str(n),
            Self::Op(op, ab) => {
                let (a, b) = &**ab;
                match op {
                    ExprOp::Add => write!(f, "({a} + {b})"),
                    ExprOp::Sub => write!(f, "({a} - {b})"),
                    ExprOp::Mul => write!(f, "({a} * {b})"),
                    _ => {
                        let name = ExprOp::CALLS.iter().find(|(_, o)| o == op);
                        write!(f, "{}({a}, {b})", name.map_or("?", |(n, _)| n))
                    }
                }
            }
        }
    }
}

impl std::str::FromStr for Expr {
    type Err = ExprError;

    fn from_str(text: &str) -> Result<Self, ExprError> {
        let mut p = Parser { text, at: 0, depth: 0 };
        let e = p.sum()?;
        p.skip();
        if p.at < text.len() {
            return Err(p.error("text after the end"));
        }
        Ok(e)
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: u32,
}

impl Parser<'_> {
    fn error(&self, what: &'static str) -> ExprError {
        ExprError::Syntax { text: self.text.to_owned(), what, column: self.at + 1 }
    }

    fn skip(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
    }

    fn eat(&mut self, token: char) -> bool {
        self.skip();
        let hit = self.text[self.at..].starts_with(token);
        if hit {
            self.at += token.len_utf8();
        }
        hit
    }

    fn need(&mut self, token: char, what: &'static str) -> Result<(), ExprError> {
        if self.eat(token) { Ok(()) } else { Err(self.error(what)) }
    }

    fn sum(&mut self) -> Result<Expr, ExprError> {
        self.depth += 1;
        if self.depth > 64 {
            return Err(self.error("nesting over 64"));
        }
        let mut e = self.product()?;
        loop {
            let op = if self.eat('+') {
                ExprOp::Add
            } else if self.eat('-') {
                ExprOp::Sub
            } else {
                self.depth -= 1;
                return Ok(e);
            };
            e = Expr::op(op, e, self.product()?);
        }
    }

    fn product(&mut self) -> Result<Expr, ExprError> {
        let mut e = self.atom()?;
        while self.eat('*') {
            e = Expr::op(ExprOp::Mul, e, self.atom()?);
        }
        Ok(e)
    }

    fn word(&mut self) -> &str {
        self.skip();
        let rest = &self.text[self.at..];
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    fn atom(&mut self) -> Result<Expr, ExprError> {
        if self.eat('(') {
            let e = self.sum()?;
            self.need(')', "expected `)`")?;
            return Ok(e);
        }
        let negative = self.eat('-');
        let start = self.at;
        let word = self.word().to_owned();
        if word.is_empty() {
            return Err(self.error("expected a number, a name or `(`"));
        }
        if word.as_bytes()[0].is_ascii_digit() {
            let v: i64 = word.parse().map_err(|_| self.error("number out of range"))?;
            return Ok(Expr::Const(if negative { -v } else { v }));
        }
        if negative {
            self.at = start;
            return Err(self.error("`-` before a name"));
        }
        if !self.eat('(') {
            return Ok(Expr::Var(word));
        }
        let call = ExprOp::CALLS.iter().find(|(n, _)| *n == word);
        let (_, op) = *call.ok_or_else(|| self.error("unknown function"))?;
        let a = self.sum()?;
        self.need(',', "expected `,`")?;
        let b = self.sum()?;
        self.need(')', "expected `)`")?;
        Ok(Expr::op(op, a, b))
    }
}

impl Serialize for Expr {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Expr {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vars(n: &str) -> Option<i64> {
        match n {
            "m" => Some(1000),
            "sm_count" => Some(132),
            _ => None,
        }
    }

    #[test]
    fn text_and_value_agree() {
        for (text, value) in [
            ("cdiv(m, 128)", 8),
            ("min(cdiv(m, 8) * 2, sm_count)", 132),
            ("mod(0 - 3, 8)", 5),
            ("(m + -1) * 2 - 4", 1994),
            ("div(m, 3)", 333),
        ] {
            let e: Expr = text.parse().unwrap();
            assert_eq!(e.eval(&vars), Ok(value), "{text}");
            let again: Expr = e.to_string().parse().unwrap();
            assert_eq!(again, e, "{text} printed as {e}");
        }
    }

    #[test]
    fn ranges_hold_every_value() {
        let within = |n: &str| (n == "m").then_some((-3, 7));
        for text in
            ["m * m", "2 - m * 3", "cdiv(m, 2) + m", "div(m, 3)", "mod(m, 4)", "min(max(m - 1, 0), 1)"]
        {
            let e: Expr = text.parse().unwrap();
            let (least, most) = e.range(&within).unwrap();
            for m in -3..=7 {
                let v = e.eval(&|_| Some(m)).unwrap();
                assert!((least..=most).contains(&v), "{text} is {v} at {m}, not in {least}..={most}");
            }
        }
        let unknown = |text: &str| text.parse::<Expr>().unwrap().range(&within);
        assert_eq!(unknown("min(max(m - 1, 0), 1)"), Some((0, 1)));
        assert_eq!(
            (unknown("div(8, m)"), unknown("k"), unknown("m * 9223372036854775807")),
            (None, None, None)
        );
    }

    #[test]
    fn mistakes_are_errors() {
        for text in ["", "m m", "cdiv(m)", "9999999999999999999", "frob(1, 2)", "é"] {
            assert!(text.parse::<Expr>().is_err(), "{text}");
        }
        let deep = "(".repeat(100_000);
        assert!(deep.parse::<Expr>().is_err());
        assert!("div(m, 0)".parse::<Expr>().unwrap().eval(&vars).is_err());
        assert_eq!("q".parse::<Expr>().unwrap().eval(&vars), Err(ExprError::Unknown("q".into())));
    }
}
