//! Axe's notation: `(8,2,4,2):(4@lane,1@warp,1@lane,1@reg) + [2:4@warp] + 5@warp`; without an axis a stride is in memory, `@m`.

use super::{Cursor, joined};
use crate::layout::axe::{Axe, Iter};
use crate::layout::{Axis, LayoutError};
use std::fmt;

impl fmt::Display for Axe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let axe = self.canonical();
        let stride = |i: &Iter| format!("{}@{}", i.stride, i.axis);
        let extents = joined(axe.shard().iter().map(|i| i.extent), ",");
        write!(f, "({extents}):({})", joined(axe.shard().iter().map(stride), ","))?;
        for iter in axe.replica() {
            write!(f, " + [{}:{}]", iter.extent, stride(iter))?;
        }
        for (axis, by) in axe.offset() {
            write!(f, " + {by}@{axis}")?;
        }
        Ok(())
    }
}

/// Reads Axe's notation.
pub fn parse_axe(text: &str) -> Result<Axe, LayoutError> {
    let mut cursor = Cursor::new(text);
    let axe = axe(&mut cursor)?;
    cursor.end()?;
    Ok(axe)
}

/// `D + R + O`.
pub(super) fn axe(cursor: &mut Cursor<'_>) -> Result<Axe, LayoutError> {
    let extents = cursor.list("(", ")", Cursor::number)?;
    cursor.expect(":")?;
    let strides = cursor.list("(", ")", stride)?;
    if extents.len() != strides.len() {
        return Err(cursor.error("as many strides as extents"));
    }
    let iter = |(&extent, &(stride, axis)): (&u64, &(i64, Axis))| Iter::new(extent, stride, axis);
    let shard: Vec<Iter> = extents.iter().zip(&strides).map(iter).collect();
    let (mut replica, mut offset) = (Vec::new(), Vec::new());
    while cursor.eat("+") {
        if !cursor.eat("[") {
            let (by, axis) = stride(cursor)?;
            offset.push((axis, by));
            continue;
        }
        let extent = cursor.number()?;
        cursor.expect(":")?;
        replica.push(iter((&extent, &stride(cursor)?)));
        cursor.expect("]")?;
    }
    Axe::new(&shard, &replica, &offset)
}

/// `stride@axis` or `stride`.
fn stride(cursor: &mut Cursor<'_>) -> Result<(i64, Axis), LayoutError> {
    let stride = cursor.integer()?;
    let axis = if cursor.eat("@") { Axis::parse(cursor.word()?)? } else { Axis::Mem };
    Ok((stride, axis))
}
