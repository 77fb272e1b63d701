//! The paired raster: a program takes tiles of the grid's first dimension in pairs, one from either end.
//!
//! ```text
//!  first dimension     0   1   2   3   4        work of a tile of causal attention: x + 1
//!  pairs              (0,4) (1,3)               each 6, so programs finish together
//!  middles                      2               handed out from the last program down
//! ```
//!
//! The steps of a program: two for each of its pairs, then its share of the middles of odd rows.

use super::cursor::Cursor;
use warplift_ir::tile::{BinOp, Block, CmpOp, Kernel, Value};

/// Scalars before the loop over tiles.
pub struct PairedRaster {
    /// Number of this program, and the number of programs.
    id: Value,
    count: Value,
    /// Pairs of a row (at least 1), and the steps of this program that take pairs.
    half: Value,
    paired: Value,
    /// Upper bound of the loop `id .. end step count`.
    pub end: Value,
}

impl PairedRaster {
    /// Counts the steps of a program.
    pub fn new(k: &mut Kernel, block: Block, grid: &[Value], id: Value, count: Value) -> Self {
        let mut s = Cursor::at_end(k, block);
        let mut rows = s.int(1);
        for &extent in &grid[1..] {
            rows = s.op(BinOp::Mul, rows, extent);
        }
        let half = s.with(BinOp::Div, grid[0], 2);
        let pairs = s.op(BinOp::Mul, half, rows);
        let odd = s.with(BinOp::Rem, grid[0], 2);
        let middles = s.op(BinOp::Mul, odd, rows);
        let own = s.beyond(pairs, id);
        let own = s.op(BinOp::CeilDiv, own, count);
        let paired = s.with(BinOp::Mul, own, 2);
        let back = back(&mut s, id, count);
        let single = s.beyond(middles, back);
        let single = s.op(BinOp::CeilDiv, single, count);
        let visits = s.op(BinOp::Add, paired, single);
        let length = s.op(BinOp::Mul, visits, count);
        let end = s.op(BinOp::Add, id, length);
        let half = s.with(BinOp::Max, half, 1);
        Self { id, count, half, paired, end }
    }

    /// Block indices of the loop's counter.
    pub fn decode(&self, k: &mut Kernel, block: Block, grid: &[Value], counter: Value) -> Vec<Value> {
        let mut s = Cursor::at_end(k, block);
        let turn = s.op(BinOp::Div, counter, self.count);
        let side = s.with(BinOp::Rem, turn, 2);
        let pair = s.with(BinOp::Div, turn, 2);
        let pair = s.op(BinOp::Mul, pair, self.count);
        let pair = s.op(BinOp::Add, pair, self.id);
        let near = s.op(BinOp::Rem, pair, self.half);
        let pair_row = s.op(BinOp::Div, pair, self.half);
        let far = s.with(BinOp::Sub, grid[0], 1);
        let far = s.op(BinOp::Sub, far, near);
        let one = s.int(1);
        let is_near = s.compare(CmpOp::Lt, side, one);
        let end = s.select(is_near, near, far);

        let single = s.op(BinOp::Sub, turn, self.paired);
        let single = s.op(BinOp::Mul, single, self.count);
        let back = back(&mut s, self.id, self.count);
        let single_row = s.op(BinOp::Add, single, back);
        let middle = s.with(BinOp::Div, grid[0], 2);

        let is_pair = s.compare(CmpOp::Lt, turn, self.paired);
        let mut index = vec![s.select(is_pair, end, middle)];
        let mut row = s.select(is_pair, pair_row, single_row);
        for &extent in grid.get(1..grid.len() - 1).unwrap_or_default() {
            index.push(s.op(BinOp::Rem, row, extent));
            row = s.op(BinOp::Div, row, extent);
        }
        index.extend((grid.len() > 1).then_some(row));
        index
    }
}

/// The program's number, counted from the last one down.
fn back(s: &mut Cursor<'_>, id: Value, count: Value) -> Value {
    let last = s.with(BinOp::Sub, count, 1);
    s.op(BinOp::Sub, last, id)
}
