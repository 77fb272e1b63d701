//! Boxes of tensor copies: their rows, how many of them lie outside the array, and the lines of memory that they touch.
//!
//! ```text
//!  array  ───────────┐
//!  box       [■■■■■■■│□□□]      rows outside are filled with zeros, which all multiprocessors together get at a low rate
//!
//!  array  ──────┐
//!  box       [■■■│□□]           rows that the end cuts take longer, each
//!
//!  lines  │       │       │
//!  rows   │[■■■■■■■]      │     begin where lines do: a line each
//!         │   [■■■■■■■]   │     begin anywhere, where a row of the array is no whole number of lines: up to two each
//! ```

use crate::problem::Sizes;
use warplift_ir::manifest::{Expr, Param, TensorMap};
use warplift_ir::target::Target;
use warplift_ir::types::Elem;
use warplift_isel::facts::gcd;

/// The boxes of a launch's tensor maps, by parameter.
pub struct Boxes(Vec<Option<TensorBox>>);

struct TensorBox {
    /// Elements of the box, the contiguous dimension first.
    extents: Vec<i64>,
    /// Elements of the array; `None` where the sizes do not say them.
    array: Option<Vec<i64>>,
    /// Lines that its rows touch, if they do not begin where lines do: as a mean over all places that they may begin at.
    lines: Option<f64>,
}

impl TensorBox {
    fn new(map: &TensorMap, sizes: &Sizes, target: &Target) -> Self {
        let line = i64::from(target.line_bytes);
        let of = |e: &Expr| e.eval(&|name: &str| sizes.int(name)).ok();
        let extents: Vec<i64> = map.box_dims.iter().map(|&n| n.into()).collect();
        let lines =
            std::iter::once(&map.offset).chain(&map.strides).try_fold(line, |g, e| Some(gcd(g, of(e)?)));
        let lines = lines.filter(|&begins| begins < line).and_then(|begins| {
            let [columns, rows @ ..] = extents.as_slice() else { return None };
            let bytes = Elem::from_name(&map.element)?.bits().div_ceil(8);
            let row = (columns * i64::from(bytes)) as f64;
            Some(rows.iter().product::<i64>() as f64 * target.row_lines(row, begins))
        });
        Self { extents, array: map.dims.iter().map(of).collect(), lines }
    }
}

impl Boxes {
    /// Of a launch's parameters at these sizes.
    pub fn new(params: &[Param], sizes: &Sizes, target: &Target) -> Self {
        let of = |p: &Param| match p {
            Param::TensorMap(map) => Some(TensorBox::new(map, sizes, target)),
            _ => None,
        };
        Self(params.iter().map(of).collect())
    }

    /// Lines that a box touches, if its rows do not begin where lines do.
    pub fn lines(&self, map: u32) -> Option<f64> {
        self.of(map)?.lines
    }

    /// Rows of a box; a bulk copy, which has no map, is one row.
    pub fn rows(&self, map: u32) -> f64 {
        self.of(map).map_or(1.0, |b| b.extents.iter().skip(1).product::<i64>() as f64)
    }

    /// The part of a box's rows at these coordinates that lie outside the array, as a mean over the boxes of all blocks: where an
    /// array has many boxes only the last one is partly outside. None where a coordinate is not known, and of a box that is
    /// wholly outside: blocks that had nothing but such boxes were measured not to take longer.
    pub fn outside(&self, map: u32, coordinates: impl Iterator<Item = Option<i64>>) -> f64 {
        let Some((tile, array)) = self.of(map).and_then(|b| Some((b, b.array.as_ref()?))) else { return 0.0 };
        let (mut inside, mut all, mut share) = (1, 1, 0.0_f64);
        for ((at, &extent), &end) in coordinates.zip(&tile.extents).zip(array).skip(1) {
            let Some(at) = at else { return 0.0 };
            // A coordinate is a number of 32 bits.
            let at = i64::from(at as i32);
            let here = (end.min(at + extent) - at.max(0)).clamp(0, extent);
            if here < extent {
                share = share.max(1.0 / (end.max(1) as f64 / extent as f64).ceil());
            }
            (inside, all) = (inside * here, all * extent);
        }
        if inside == 0 { 0.0 } else { share * (1.0 - inside as f64 / all as f64) }
    }

    /// Rows of a box at these coordinates of which the array's end cuts off a part.
    pub fn cut(&self, map: u32, coordinates: impl Iterator<Item = Option<i64>>) -> f64 {
        let Some((tile, array)) = self.of(map).and_then(|b| Some((b, b.array.as_ref()?))) else { return 0.0 };
        let (Some(&extent), Some(&end), Some(Some(at))) =
            (tile.extents.first(), array.first(), coordinates.into_iter().next())
        else {
            return 0.0;
        };
        let at = i64::from(at as i32);
        if at < end && end < at + extent { self.rows(map) } else { 0.0 }
    }

    fn of(&self, map: u32) -> Option<&TensorBox> {
        self.0.get(map as usize)?.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warplift_ir::manifest::Expr;
    use warplift_ir::target::SM90A;

    /// Cycles of a row of 128 bytes, measured on an H100 (`tma.load.rows128.*.skew*`): one multiprocessor alone, and all, of which 16
    /// load the same.
    #[test]
    fn rows_that_begin_within_lines_take_longer() {
        for (skew, alone, beside) in [(16, 2.625, 4.52), (32, 1.75, 3.29), (64, 1.5, 2.60), (96, 1.75, 3.17)]
        {
            let lines = SM90A.row_lines(128.0, gcd(128, 2048 + skew));
            let ratios = [SM90A.lines_beside(lines, 1) / alone, SM90A.lines_beside(lines, 132) / beside];
            assert!(ratios.iter().all(|r| (0.95..1.1).contains(r)), "{skew}: {ratios:?}");
        }
    }

    #[test]
    fn a_box_past_the_end_or_before_the_start_is_partly_outside() {
        let map = TensorMap {
            base: "x".into(),
            offset: Expr::zero(),
            element: "f16".into(),
            dims: [64, 100].map(Expr::Const).into(),
            strides: vec![Expr::Const(128)],
            box_dims: vec![64, 32],
            swizzle: 128,
            l2_promotion: 256,
        };
        let kernel = crate::kernels::find("gemm").unwrap().parse().unwrap().kernels.remove(0);
        let boxes = Boxes::new(&[Param::TensorMap(map)], &Sizes::nominal(&kernel), &SM90A);
        let outside = |column: i64, row: i64| boxes.outside(0, [Some(column), Some(row)].into_iter());
        assert_eq!(boxes.rows(0), 32.0);
        assert_eq!(boxes.rows(1), 1.0);
        assert_eq!(
            [outside(0, 0), outside(0, 96), outside(0, -8), outside(0, 200)],
            [0.0, 0.875 / 4.0, 0.25 / 4.0, 0.0]
        );
        assert_eq!(outside(32, 0), 0.0);
        let cut = |column: Option<i64>| boxes.cut(0, [column, Some(0)].into_iter());
        assert_eq!([cut(Some(0)), cut(Some(24)), cut(Some(64)), cut(None)], [0.0, 32.0, 0.0, 0.0]);
        assert_eq!(boxes.outside(0, [Some(0), None].into_iter()), 0.0);
    }
}
