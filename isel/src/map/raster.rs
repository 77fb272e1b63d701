//! The raster: the order in which programs walk over tiles. Bands let the tiles in flight share operands in the L2
//! cache.
//!
//! ```text
//!  band of 2 rows      0 2 4 6       a wave of 8 programs covers 2 x 4 tiles instead of 1 x 8
//!                      1 3 5 7
//! ```
//!
//! The footprint of a wave of programs should be square in bytes: bands of G tiles along the first grid dimension
//! with G * extent0 = (programs / G) * extent1.

use super::scalar_ops::scalar;
use warplift_ir::tile::{BinOp, Block, Kernel, Op, Raster, Value};

/// The tiles of a grid and the order in which they are walked.
pub struct Tiles<'a> {
    /// The block that the decoding is appended to.
    pub block: Block,
    /// Extents of the grid.
    pub grid: &'a [Value],
    /// Elements of one step along each dimension.
    pub footprint: [i64; 3],
    /// The order.
    pub raster: Raster,
    /// Tiles of one step of `grid` along the first dimension.
    pub cluster: u32,
    /// Programs that run at the same time.
    pub programs: u32,
}

impl Tiles<'_> {
    /// Block indices of a tile number.
    pub fn decode(&self, k: &mut Kernel, tile: Value) -> Vec<Value> {
        if self.cluster == 1 {
            return self.walk(k, tile);
        }
        let size = self.int(k, self.cluster.into());
        let group = self.op(k, BinOp::Div, tile, size);
        let rank = self.op(k, BinOp::Rem, tile, size);
        let mut index = self.walk(k, group);
        if let Some(first) = index.first_mut() {
            let start = self.op(k, BinOp::Mul, *first, size);
            *first = self.op(k, BinOp::Add, start, rank);
        }
        index
    }

    fn walk(&self, k: &mut Kernel, tile: Value) -> Vec<Value> {
        match (self.grid.len(), self.band()) {
            (2, Some((0, g))) => self.banded(k, tile, g, 0),
            (2, Some((_, g))) => self.banded(k, tile, g, 1),
            _ => self.linear(k, tile),
        }
    }

    fn op(&self, k: &mut Kernel, op: BinOp, a: Value, b: Value) -> Value {
        scalar(k, self.block, Op::Binary(op), &[a, b])
    }

    fn int(&self, k: &mut Kernel, v: i64) -> Value {
        scalar(k, self.block, Op::Int(v), &[])
    }

    /// Dimension and width of the bands.
    fn band(&self) -> Option<(usize, i64)> {
        match self.raster {
            Raster::Linear | Raster::Paired => None,
            Raster::BandM(g) => Some((0, i64::from((g / self.cluster).max(1)))),
            Raster::BandN(g) => Some((1, i64::from(g))),
            Raster::Square => {
                let [h, w, _] = self.footprint;
                let programs = f64::from(self.programs);
                let g = (programs * w as f64 / h as f64).sqrt() / f64::from(self.cluster);
                // A power of two divides common grids evenly.
                Some((0, 1 << (g.max(1.0).log2().round() as u32)))
            }
        }
    }

    /// The first dimension runs fastest, as blocks of a launch do.
    fn linear(&self, k: &mut Kernel, tile: Value) -> Vec<Value> {
        let mut rest = tile;
        let mut index = Vec::new();
        for &extent in &self.grid[..self.grid.len() - 1] {
            index.push(self.op(k, BinOp::Rem, rest, extent));
            rest = self.op(k, BinOp::Div, rest, extent);
        }
        index.push(rest);
        index
    }

    /// Bands of `g` along dimension `d`, walked across; the last band may be narrower.
    fn banded(&self, k: &mut Kernel, tile: Value, g: i64, d: usize) -> Vec<Value> {
        let (along, across) = (self.grid[d], self.grid[1 - d]);
        let g = self.int(k, g);
        let area = self.op(k, BinOp::Mul, across, g);
        let band = self.op(k, BinOp::Div, tile, area);
        let skipped = self.op(k, BinOp::Mul, band, area);
        let rest = self.op(k, BinOp::Sub, tile, skipped);
        let start = self.op(k, BinOp::Mul, band, g);
        let left = self.op(k, BinOp::Sub, along, start);
        let width = self.op(k, BinOp::Min, left, g);
        let column = self.op(k, BinOp::Div, rest, width);
        let used = self.op(k, BinOp::Mul, column, width);
        let inner = self.op(k, BinOp::Sub, rest, used);
        let row = self.op(k, BinOp::Add, start, inner);
        if d == 0 { vec![row, column] } else { vec![column, row] }
    }
}
