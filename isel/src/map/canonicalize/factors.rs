//! Factors that many elements share are multiplied with each other before they meet the tile: rows with rows, columns with
//! columns, and scalars with either.
//!
//! ```text
//!  (p * s) * row            ─►   p * (row * s)
//!  fma(p * s, row, x)       ─►   fma(p, row * s, x)
//!  (p * row) * col * row'   ─►   p * (row * row') * col
//! ```
//!
//! A tile then costs one multiplication for its rows and one for its columns, in whatever order a text has them.

use super::Rewrite;
use crate::tiles::equal_elements;
use warplift_ir::tile::{BinOp, Inst, Op, Type, Value};
use warplift_ir::types::Elem;

/// The factors of a product of tiles.
#[derive(Default)]
struct Factors {
    /// Those with elements of their own.
    tiles: Vec<Value>,
    /// Those that repeat fewer elements, without the repetition: one product for each shape.
    rows: Vec<Value>,
    /// The product of those whose elements are all equal.
    scalar: Option<Value>,
}

/// A product of f32 tiles, or the product in an `fma`, with the factors merged that can be.
pub(super) fn rule(r: &mut Rewrite<'_>, inst: Inst) -> Option<(Op, Vec<Value>)> {
    let ty = r.k.ty(*r.k.results(inst).first()?);
    let args = r.k.args(inst).to_vec();
    let multiplies = matches!(r.k.insts[inst].op, Op::Fma | Op::Binary(BinOp::Mul));
    if !multiplies || ty.elem() != Elem::F32 || ty.shape().is_none() {
        return None;
    }
    let mut leaves = Vec::new();
    args[..2].iter().for_each(|&v| collect(r, v, ty, &mut leaves));
    if !mergeable(r, &leaves, ty) {
        return None;
    }
    let mut factors = Factors::default();
    leaves.into_iter().for_each(|v| factors.add(r, v, ty));
    let [x, y] = factors.product(r, ty)?;
    Some((r.k.insts[inst].op.clone(), [x, y].into_iter().chain(args.get(2).copied()).collect()))
}

/// The factors of a value: it, or those of the product that it is. A product that something else uses, or that was made
/// before a loop, is a factor.
fn collect(r: &Rewrite<'_>, v: Value, ty: Type, leaves: &mut Vec<Value>) {
    match r.once(v) {
        Some((Op::Binary(BinOp::Mul), args)) if r.k.ty(v) == ty && r.is_here(v) => {
            args.iter().for_each(|&v| collect(r, v, ty, leaves));
        }
        _ => leaves.push(v),
    }
}

/// Whether two factors share their elements among the same ones, or one of several that do is a scalar.
fn mergeable(r: &Rewrite<'_>, leaves: &[Value], ty: Type) -> bool {
    let mut groups = Vec::new();
    let mut few = 0;
    for &v in leaves {
        let group = match equal_elements(r.k, v) {
            Some(_) => None,
            None => match r.row(v).filter(|_| r.k.ty(v) == ty) {
                Some(row) => Some(r.k.ty(row)),
                None => continue,
            },
        };
        few += 1;
        if !groups.contains(&group) {
            groups.push(group);
        }
    }
    // A row takes the scalar along.
    let kept = groups.len() - usize::from(groups.len() > 1 && groups.contains(&None));
    few > kept
}

impl Factors {
    fn add(&mut self, r: &mut Rewrite<'_>, v: Value, ty: Type) {
        if let Some(scalar) = equal_elements(r.k, v) {
            self.scalar = Some(self.scalar.map_or(scalar, |s| r.product(s, scalar)));
            return;
        }
        let Some(row) = r.row(v).filter(|_| r.k.ty(v) == ty) else { return self.tiles.push(v) };
        match self.rows.iter().position(|&other| r.k.ty(other) == r.k.ty(row)) {
            Some(n) => self.rows[n] = r.op(BinOp::Mul, self.rows[n], row),
            None => self.rows.push(row),
        }
    }

    /// The two factors of the whole product; none if one factor is all there is.
    fn product(mut self, r: &mut Rewrite<'_>, ty: Type) -> Option<[Value; 2]> {
        if let (Some(row), Some(scalar)) = (self.rows.first_mut(), self.scalar) {
            *row = r.op(BinOp::Mul, *row, scalar);
            self.scalar = None;
        }
        let rows = self.rows.iter().map(|&row| r.inst(Op::Broadcast, &[row], ty));
        let mut all: Vec<Value> = self.tiles.into_iter().chain(rows).chain(self.scalar).collect();
        let last = all.pop()?;
        let first = all.into_iter().reduce(|x, y| r.op(BinOp::Mul, x, y))?;
        Some([first, last])
    }
}
