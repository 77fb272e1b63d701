//! Expressions: named fragments, every notation, and operations on them.
//!
//! ```text
//!   wgmma.acc m128n192 f32 [x2]    wgmma.a m128k64 f16 [x2]    mma.acc    mma.a k16 f16    mma.b k16 f16
//!   ldmatrix.x4    stmatrix.x2.trans    blocked 64x64 reg 1x8 lane 4x8 warp 4x1 order 1,0
//!   smem 64x64 f16 [swizzle 128 | pad 8 | core | phase 8,1,8]
//!   ((2,2),8):((1,8),16)    Sw<3,3,3> o (64,64):(64,1)    ((4,8),(2,2)):((32,1),(16,8)) over 16x8
//!   local(2, 1).spatial(8, 4).local(1, 2)    shape [16, 8] mode_shape [2, 8, 4, 2] spatial_modes [1, 2] local_modes [0, 3]
//!   (2,32,2):(2@reg,1@lane,1@reg) over 16x8    (8,2,4,2):(4@lane,1@warp,1@lane,1@reg)    (reg: 2:1@d1) -> (d1: 2)
//!   product(a, b)  then(a, b)  divide(a, b)  inverse(a)  slice(a, 1)  trans(a)  reshape(a, 16x4x24)  swizzle(write, read)
//! ```
//!
//! `over` a tile makes a fragment. Without it, the text is a memory layout (CuTe, whose modes become threads and
//! values) or places (Axe).

use super::cute::Swizzle;
use super::{Cursor, axe, cute, text, thread_value, tilus};
use crate::layout::fragment::*;
use crate::layout::shape::Shape;
use crate::layout::swizzle::{Method, optimal_swizzle};
use crate::layout::{Axis, Layout, LayoutError, shared};
use crate::types::Elem;

/// Bits of an element where the expression names no type.
const DEFAULT_BITS: u64 = 16;

/// The meaning of an expression.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Parsed {
    /// The layout.
    pub layout: Layout,
    /// Bits of an element, when a type was named.
    pub bits: Option<u64>,
}

/// Reads an expression. Errors name the byte, or the operation that does not exist.
pub fn parse(text: &str) -> Result<Parsed, LayoutError> {
    let mut cursor = Cursor::new(text);
    let parsed = expr(&mut cursor)?;
    cursor.end()?;
    Ok(parsed)
}

/// Two expressions in parentheses: the operands of `convert(a, b)` and its like.
pub(crate) fn pair(cursor: &mut Cursor<'_>) -> Result<(Parsed, Parsed), LayoutError> {
    let mut items = cursor.list("(", ")", expr)?;
    match (items.pop(), items.pop(), items.pop()) {
        (Some(b), Some(a), None) => Ok((a, b)),
        _ => Err(cursor.error("two layouts")),
    }
}

/// An expression, nested to a limit.
fn expr(cursor: &mut Cursor<'_>) -> Result<Parsed, LayoutError> {
    cursor.deeper()?;
    let parsed = operand(cursor);
    cursor.depth -= 1;
    parsed
}

/// A notation, a named layout or an operation.
fn operand(cursor: &mut Cursor<'_>) -> Result<Parsed, LayoutError> {
    let rest = cursor.rest();
    let plain = |layout| Parsed { layout, bits: None };
    if rest.starts_with('(') {
        return tuple(cursor).map(plain);
    }
    if rest.starts_with(|c: char| c.is_ascii_digit()) {
        return cute::cute(cursor)?.to_layout().map(plain);
    }
    if rest.starts_with("Sw<") {
        let swizzle = Swizzle::parse(cursor)?;
        cursor.expect("o")?;
        let under = expr(cursor)?;
        return Ok(Parsed { layout: swizzle.after(&under.layout)?, ..under });
    }
    if ["local", "spatial", "column_"].iter().any(|p| rest.starts_with(p)) {
        return tilus::tilus(cursor)?.to_fragment().map(plain);
    }
    if rest.starts_with("shape") {
        return tilus::split_threads(&tilus::unified(cursor)?.to_layout()?).map(plain);
    }
    let word = cursor.word()?;
    match word {
        "wgmma" | "mma" => matrix(cursor, word),
        "ldmatrix" | "stmatrix" => rows(cursor).map(plain),
        "smem" => memory(cursor),
        "blocked" => blocks(cursor).map(plain),
        "tv" => {
            let layout = cute::cute(cursor)?;
            let tile = over(cursor)?.ok_or_else(|| cursor.error("over"))?;
            thread_value::to_layout(&layout, &tile).map(plain)
        }
        _ => operation(cursor, word),
    }
}

/// The notations that begin with a parenthesis.
fn tuple(cursor: &mut Cursor<'_>) -> Result<Layout, LayoutError> {
    let rest = cursor.rest();
    let end = rest.find(')').unwrap_or(rest.len());
    let colon = rest[..end].find(':');
    if colon.is_some() || rest[end..].trim_start_matches(')').trim_start().starts_with("->") {
        return text::layout(cursor);
    }
    match rest
        .split_once(':')
        .is_some_and(|(_, strides)| strides[..strides.find(')').unwrap_or(0)].contains('@'))
    {
        true => {
            let axe = axe::axe(cursor)?;
            match over(cursor)? {
                Some(tile) => axe.to_fragment(&tile),
                None => axe.to_layout(&axe.shard().iter().map(|i| i.extent).collect::<Vec<u64>>()),
            }
        }
        false => {
            let cute = cute::cute(cursor)?;
            match over(cursor)? {
                Some(tile) => thread_value::to_layout(&cute, &tile),
                None => cute.to_layout(),
            }
        }
    }
}

/// `over 16x8`, the tile of a fragment, where it stands.
fn over(cursor: &mut Cursor<'_>) -> Result<Option<Vec<u64>>, LayoutError> {
    cursor.eat("over").then(|| extents(cursor)).transpose()
}

/// Bits of an element type's name.
fn bits(cursor: &mut Cursor<'_>) -> Result<u64, LayoutError> {
    let mut probe = cursor.clone();
    let word = probe.word().map_err(|_| cursor.error("a type"))?;
    let elem = Elem::from_name(word).ok_or_else(|| cursor.error("a type"))?;
    *cursor = probe;
    Ok(elem.bits().into())
}

/// A letter with a number, `m64`.
fn lettered(cursor: &mut Cursor<'_>, letter: &'static str) -> Result<u64, LayoutError> {
    cursor.expect(letter)?;
    cursor.number()
}

/// `64x64x2`.
fn extents(cursor: &mut Cursor<'_>) -> Result<Vec<u64>, LayoutError> {
    let mut extents = vec![cursor.number()?];
    while cursor.eat("x") {
        extents.push(cursor.number()?);
    }
    Ok(extents)
}

/// Operands of `wgmma` and `mma`.
fn matrix(cursor: &mut Cursor<'_>, family: &str) -> Result<Parsed, LayoutError> {
    cursor.expect(".")?;
    let operand = cursor.word()?;
    let typed = |layout, bits| Ok(Parsed { layout, bits: Some(bits) });
    match (family, operand) {
        ("wgmma", "acc" | "a") => {
            let m = lettered(cursor, "m")?;
            let inner = lettered(cursor, if operand == "a" { "k" } else { "n" })?;
            let bits = bits(cursor)?;
            let groups = if cursor.eat("x") { cursor.number()? } else { 1 };
            typed(
                if operand == "a" { wgmma_a(m, inner, bits, groups)? } else { wgmma_acc(m, inner, groups)? },
                bits,
            )
        }
        ("mma", "acc") => typed(mma_acc()?, 32),
        ("mma", "a" | "b") => {
            let k = lettered(cursor, "k")?;
            let bits = bits(cursor)?;
            typed(if operand == "a" { mma_a(k, bits)? } else { mma_b(k, bits)? }, bits)
        }
        _ => Err(cursor.error("acc, a or b (mma only)")),
    }
}

/// `.x4[.trans]`
fn rows(cursor: &mut Cursor<'_>) -> Result<Layout, LayoutError> {
    cursor.expect(".x")?;
    let count = cursor.number()?;
    ldmatrix(count, cursor.eat(".trans"))
}

/// Shared memory tiles.
fn memory(cursor: &mut Cursor<'_>) -> Result<Parsed, LayoutError> {
    let shape = extents(cursor)?;
    let [rows, cols] = shape[..] else {
        return Err(cursor.error("rows x columns"));
    };
    let bits = bits(cursor)?;
    let layout = if cursor.eat("swizzle") {
        shared::swizzled(rows, cols, bits, cursor.number()?)?
    } else if cursor.eat("pad") {
        shared::padded(rows, cols, cols.saturating_add(cursor.number()?))?
    } else if cursor.eat("core") {
        shared::core_matrices(rows, cols, bits)?
    } else if cursor.eat("phase") {
        let vec = cursor.number()?;
        cursor.expect(",")?;
        let per_phase = cursor.number()?;
        cursor.expect(",")?;
        shared::mma_swizzled(rows, cols, vec, per_phase, cursor.number()?)?
    } else {
        shared::row_major(rows, cols)?
    };
    Ok(Parsed { layout, bits: Some(bits) })
}

/// Blocked fragments.
fn blocks(cursor: &mut Cursor<'_>) -> Result<Layout, LayoutError> {
    let shape = extents(cursor)?;
    let mut parts = Vec::new();
    for name in ["reg", "lane", "warp"] {
        cursor.expect(name)?;
        parts.push(extents(cursor)?);
    }
    cursor.expect("order")?;
    let mut order = vec![cursor.number()? as usize];
    while cursor.clone().eat(",") && order.len() < shape.len() {
        cursor.expect(",")?;
        order.push(cursor.number()? as usize);
    }
    blocked(&shape, &parts[0], &parts[1], &parts[2], &order)
}

/// Operations.
fn operation(cursor: &mut Cursor<'_>, name: &str) -> Result<Parsed, LayoutError> {
    match name {
        "product" | "then" | "divide" | "swizzle" => {
            let (a, b) = pair(cursor)?;
            let bits = a.bits.or(b.bits);
            let layout = match name {
                "product" => a.layout.product(&b.layout)?,
                "then" => a.layout.then(&b.layout)?,
                "divide" => a.layout.left_divide(&b.layout)?,
                _ => {
                    let each = bits.unwrap_or(DEFAULT_BITS);
                    optimal_swizzle((&a.layout, Method::Vector), (&b.layout, Method::Vector), each)?
                }
            };
            Ok(Parsed { layout, bits })
        }
        "inverse" | "trans" | "slice" | "reshape" => {
            cursor.expect("(")?;
            let a = expr(cursor)?;
            let shape: Vec<u64> = a.layout.outs().iter().map(|o| o.1).collect();
            let layout = match name {
                "inverse" => a.layout.right_inverse()?,
                "trans" => {
                    let order = (0..shape.len()).rev().collect();
                    Shape::Trans(shape, order).forward(&a.layout)?
                }
                "slice" => {
                    cursor.expect(",")?;
                    let dim = cursor.number()?;
                    let dim = u8::try_from(dim).map_err(|_| LayoutError::Dimension(format!("d{dim}")))?;
                    row_slice(&a.layout, dim)?
                }
                _ => {
                    cursor.expect(",")?;
                    Shape::Reshape(shape, extents(cursor)?).forward(&a.layout)?
                }
            };
            cursor.expect(")")?;
            Ok(Parsed { layout, ..a })
        }
        _ => Err(cursor.error("a fragment, a notation or an operation before this")),
    }
}

/// Axis over which pictures lay out registers when a layout has no dimensions.
pub(crate) fn is_fragment(layout: &Layout) -> bool {
    !layout.outs().is_empty() && layout.outs().iter().all(|o| matches!(o.0, Axis::Dim(_)))
}
