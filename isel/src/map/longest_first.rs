//! Which end of a grid dimension holds the longest tiles. Programs that draw tiles from a counter begin with these, so that
//! short ones are left for the end (longest processing time first, Graham 1969).
//!
//! ```text
//!  for t in 0..cdiv(min(n, i*BM + BM), BN)     more trips as i grows: tiles are taken from the last i down
//!  for t in i..n                               fewer trips: from the first i up
//! ```
//!
//! All of the longest tiles first would read all of the other dimensions at once. So these are cut in sections of about
//! one tile for each program, which share what they read in the L2 cache:
//!
//! ```text
//!  i, heads      section of heads 0, 1       section of heads 2, 3
//!                3,0 3,1 2,0 2,1 1,0 ..      3,2 3,3 2,2 2,3 ..
//! ```

use super::cursor::Cursor;
use crate::facts::expected;
use crate::tiles::program_order;
use smallvec::SmallVec;
use warplift_ir::entity::SecondaryMap;
use warplift_ir::tile::{BinOp, Block, Kernel, Op, Value};

/// How a scalar changes as a block index grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trend {
    Flat,
    Up,
    Down,
    Unknown,
}

impl Trend {
    /// Of a sum.
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Flat, x) | (x, Self::Flat) => x,
            (x, y) if x == y => x,
            _ => Self::Unknown,
        }
    }

    /// Of the negative.
    fn turned(self) -> Self {
        match self {
            Self::Up => Self::Down,
            Self::Down => Self::Up,
            other => other,
        }
    }
}

/// Tiles of a section for each program. Of 1, 2 and 4 (measured on an H100, causal attention without a running maximum) one
/// is best for heads of 128, 153, 157 and 163 us with 1024 keys, and 1.5% behind four for heads of 64 with 16384 keys.
const SECTION: i64 = 1;

/// Block indices of a tile number in sections, each from the longest tiles of one dimension on. `count`: programs.
pub(super) fn longest_first(
    k: &mut Kernel,
    (entry, body): (Block, Block),
    (grid, dimension, longest): (&[Value], usize, Longest),
    (tile, count): (Value, Value),
) -> Vec<Value> {
    let others: Vec<Value> =
        grid.iter().enumerate().filter(|&(d, _)| d != dimension).map(|(_, &e)| e).collect();
    let mut s = Cursor::at_end(k, entry);
    let last = s.with(BinOp::Sub, grid[dimension], 1);
    let (&first, rest) = match others.split_first() {
        Some(found) => found,
        None => {
            s.block = body;
            return vec![if longest == Longest::Last { s.op(BinOp::Sub, last, tile) } else { tile }];
        }
    };
    let mut rows = first;
    for &extent in rest {
        rows = s.op(BinOp::Mul, rows, extent);
    }
    let wide = s.with(BinOp::Mul, count, SECTION);
    // A grid without tiles has programs in the interpreter too, which come here.
    let along = s.with(BinOp::Max, grid[dimension], 1);
    let wide = s.op(BinOp::Div, wide, along);
    let wide = s.with(BinOp::Max, wide, 1);
    let area = s.op(BinOp::Mul, wide, grid[dimension]);
    s.block = body;
    let section = s.op(BinOp::Div, tile, area);
    let before = s.op(BinOp::Mul, section, area);
    let rest = s.op(BinOp::Sub, tile, before);
    let start = s.op(BinOp::Mul, section, wide);
    let left = s.op(BinOp::Sub, rows, start);
    let width = s.op(BinOp::Min, left, wide);
    let place = s.op(BinOp::Div, rest, width);
    let used = s.op(BinOp::Mul, place, width);
    let inner = s.op(BinOp::Sub, rest, used);
    let mut row = s.op(BinOp::Add, start, inner);
    let mut index = match longest {
        Longest::Last => vec![s.op(BinOp::Sub, last, place)],
        Longest::First => vec![place],
    };
    for &extent in others.split_last().map_or(&[][..], |(_, some)| some) {
        index.push(s.op(BinOp::Rem, row, extent));
        row = s.op(BinOp::Div, row, extent);
    }
    index.push(row);
    // The dimension takes its place among the others.
    index[..=dimension].rotate_left(1);
    index
}

/// Where a dimension's longest tiles are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Longest {
    /// The loops make more trips as the block index grows, and none of them fewer.
    Last,
    /// They make fewer, and none of them more.
    First,
}

/// Which tiles along a dimension are the longest, if the text tells.
pub(super) fn longest_along(k: &Kernel, dimension: u8) -> Option<Longest> {
    let known = trends(k, dimension);
    let loops = k.insts.iter().filter(|(_, d)| matches!(d.op, Op::For)).map(|(i, _)| k.args(i));
    let trips = loops.map(|args| {
        let [low, high, step] = [0, 1, 2].map(|n| known[expected(k, args[n])]);
        let upwards = k.int_const(args[2]).is_some_and(|step| step > 0);
        if upwards && step == Trend::Flat { high.and(low.turned()) } else { Trend::Unknown }
    });
    match trips.fold(Trend::Flat, Trend::and) {
        Trend::Up => Some(Longest::Last),
        Trend::Down => Some(Longest::First),
        Trend::Flat | Trend::Unknown => None,
    }
}

/// How each value changes. Definitions come before uses, so one look at each is enough.
fn trends(k: &Kernel, dimension: u8) -> SecondaryMap<Value, Trend> {
    let mut known = SecondaryMap::with_default(Trend::Unknown);
    k.params.iter().for_each(|p| known[p.value] = Trend::Flat);
    for inst in program_order(k) {
        let of: SmallVec<[Trend; 4]> = k.args(inst).iter().map(|&a| known[a]).collect();
        let found = of_op(k, &k.insts[inst].op, (k.args(inst), &of), dimension);
        let chosen = |r: Value| Some(expected(k, r)).filter(|&e| e != r);
        k.results(inst).iter().for_each(|&r| known[r] = chosen(r).map_or(found, |e| known[e]));
    }
    known
}

fn of_op(k: &Kernel, op: &Op, (args, of): (&[Value], &[Trend]), dimension: u8) -> Trend {
    let is_extent = |v: Value| k.def(v).is_some_and(|d| matches!(k.insts[d].op, Op::Dim(_)));
    let positive = |n: usize| is_extent(args[n]) || k.int_const(args[n]).is_some_and(|c| c > 0);
    match op {
        Op::BlockIndex(d) if *d == dimension => Trend::Up,
        // What a loop or a branch yields is not followed.
        Op::For | Op::While | Op::If => Trend::Unknown,
        _ if of.iter().all(|&t| t == Trend::Flat) => Trend::Flat,
        Op::Binary(BinOp::Add | BinOp::Min | BinOp::Max) => of[0].and(of[1]),
        Op::Binary(BinOp::Sub) => of[0].and(of[1].turned()),
        Op::Binary(BinOp::Mul) if positive(1) => of[0],
        Op::Binary(BinOp::Mul) if positive(0) => of[1],
        Op::Binary(BinOp::Div | BinOp::CeilDiv) if positive(1) => of[0],
        _ => Trend::Unknown,
    }
}
