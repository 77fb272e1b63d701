//! Boxes of tensor copies: their rows, and how many of them lie outside the array.
//!
//! ```text
//!  array  ───────────┐
//!  box       [■■■■■■■│□□□]      rows outside are filled with zeros, which all multiprocessors together get at a low rate
//! ```

use crate::problem::Sizes;
use warplift_ir::manifest::{Param, TensorMap};

/// The boxes of a launch's tensor maps, by parameter.
pub struct Boxes(Vec<Option<TensorBox>>);

struct TensorBox {
    /// Elements of the box, the contiguous dimension first.
    extents: Vec<i64>,
    /// Elements of the array; `None` where the sizes do not say them.
    array: Option<Vec<i64>>,
}

impl Boxes {
    /// Of a launch's parameters at these sizes.
    pub fn new(params: &[Param], sizes: &Sizes) -> Self {
        let of = |map: &TensorMap| TensorBox {
            extents: map.box_dims.iter().map(|&n| n.into()).collect(),
            array: map.dims.iter().map(|d| d.eval(&|name: &str| sizes.int(name)).ok()).collect(),
        };
        Self(
            params.iter().map(|p| if let Param::TensorMap(map) = p { Some(of(map)) } else { None }).collect(),
        )
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

    fn of(&self, map: u32) -> Option<&TensorBox> {
        self.0.get(map as usize)?.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warplift_ir::manifest::Expr;

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
        let boxes = Boxes::new(&[Param::TensorMap(map)], &Sizes::nominal(&kernel));
        let outside = |column: i64, row: i64| boxes.outside(0, [Some(column), Some(row)].into_iter());
        assert_eq!(boxes.rows(0), 32.0);
        assert_eq!(boxes.rows(1), 1.0);
        assert_eq!(
            [outside(0, 0), outside(0, 96), outside(0, -8), outside(0, 200)],
            [0.0, 0.875 / 4.0, 0.25 / 4.0, 0.0]
        );
        assert_eq!(outside(32, 0), 0.0);
        assert_eq!(boxes.outside(0, [Some(0), None].into_iter()), 0.0);
    }
}
