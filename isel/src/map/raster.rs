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

use super::cursor::Cursor;
use warplift_ir::tile::{BinOp, Raster, Value};

/// The tiles of a grid and the order in which they are walked.
pub struct Tiles<'a> {
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
    pub fn decode(&self, c: &mut Cursor<'_>, tile: Value) -> Vec<Value> {
        if self.cluster == 1 {
            return self.walk(c, tile);
        }
        let size = c.int(self.cluster.into());
        let group = c.op(BinOp::Div, tile, size);
        let rank = c.op(BinOp::Rem, tile, size);
        let mut index = self.walk(c, group);
        if let Some(first) = index.first_mut() {
            let start = c.op(BinOp::Mul, *first, size);
            *first = c.op(BinOp::Add, start, rank);
        }
        index
    }

    fn walk(&self, c: &mut Cursor<'_>, tile: Value) -> Vec<Value> {
        match (self.grid.len(), self.band()) {
            (2, Some((0, g))) => self.banded(c, tile, g, 0),
            (2, Some((_, g))) => self.banded(c, tile, g, 1),
            _ => self.linear(c, tile),
        }
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
    fn linear(&self, c: &mut Cursor<'_>, tile: Value) -> Vec<Value> {
        let mut rest = tile;
        let mut index = Vec::new();
        for &extent in &self.grid[..self.grid.len() - 1] {
            index.push(c.op(BinOp::Rem, rest, extent));
            rest = c.op(BinOp::Div, rest, extent);
        }
        index.push(rest);
        index
    }

    /// Bands of `g` along dimension `d`, walked across; the last band may be narrower.
    fn banded(&self, c: &mut Cursor<'_>, tile: Value, g: i64, d: usize) -> Vec<Value> {
        let (along, across) = (self.grid[d], self.grid[1 - d]);
        let g = c.int(g);
        let area = c.op(BinOp::Mul, across, g);
        let band = c.op(BinOp::Div, tile, area);
        let skipped = c.op(BinOp::Mul, band, area);
        let rest = c.op(BinOp::Sub, tile, skipped);
        let start = c.op(BinOp::Mul, band, g);
        let left = c.op(BinOp::Sub, along, start);
        let width = c.op(BinOp::Min, left, g);
        let column = c.op(BinOp::Div, rest, width);
        let used = c.op(BinOp::Mul, column, width);
        let inner = c.op(BinOp::Sub, rest, used);
        let row = c.op(BinOp::Add, start, inner);
        if d == 0 { vec![row, column] } else { vec![column, row] }
    }
}
