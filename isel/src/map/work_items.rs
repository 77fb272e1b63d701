//! Work items: which iterations of a tile's loop a block or program does, and where its part of the sum stands.
//!
//! ```text
//!  split_k 3     block (i, j, s)     tile (i, j), the s-th part of its iterations         parts [i, j, 0..3]
//!
//!  stream_k      program 0           program 1           program 2          4 tiles of 6 iterations, 3 programs:
//!                │ 0 0 0 0 0 0 1 1 │ 1 1 1 1 2 2 2 2 │ 2 2 3 3 3 3 3 3 │  8 each; tiles 1 and 2 are cut
//! ```
//!
//! `stream_k` gives each program whole tiles, and then counts the iterations of the remaining tiles in one row, of
//! which each program has a section of `each`. The remaining tiles are more than the programs but fewer than twice as many,
//! where there are so many tiles; a cut tile then has two parts. (Stream-K, Osama et al. 2023, section 4.4, calls this
//! the two-tile form of data-parallel Stream-K.) Its first iteration in the row names an item: its tile, program and
//! parts follow from that number.
//!
//! `split_k` runs before the loop over tiles exists. There the third index of the grid is the item, and its extent is 1:
//! item 0 is a whole tile. [`Deal`] makes the other numbers when the loop over tiles is made.

use super::cursor::Cursor;
use crate::tiles::shared_trips;
use warplift_ir::tile::{BinOp, Block, CmpOp, Kernel, Op, Value};

/// Parts of a tile at most that `stream_k` makes.
pub(super) const MAX_PARTS: u32 = 4;

/// What a block does of a tile, in values of the entry block.
pub(super) struct WorkItem {
    /// The iterations, from the loop's first one.
    pub first: Value,
    pub end: Value,
    /// Extents of the array of parts before those of a part, and of the counters.
    pub slots: Vec<Value>,
    pub counters: Vec<Value>,
    /// The place of the own part, and of the tile's counter.
    pub own: Vec<Value>,
    pub counter: Vec<Value>,
    /// Parts of the tile.
    pub parts: Value,
    /// Places of the tile's parts.
    pub places: Places,
    /// For `stream_k`: whether the tile has more parts than this one.
    pub is_cut: Option<Value>,
}

/// Where the parts of a tile stand.
#[derive(Clone, Copy)]
pub(super) enum Places {
    /// So many beside each other, at the place of the tile.
    OfTile([Value; 2]),
    /// At the programs from the first one that works on the tile. Its part stands apart: it may have one of the tile before
    /// too.
    Programs { first: Value, parts: Value, programs: Value },
}

impl Places {
    /// The place of a part, in a block behind the entry. One that the tile lacks is outside the array.
    pub fn of(self, k: &mut Kernel, block: Block, n: Value) -> Vec<Value> {
        let (first, parts, programs) = match self {
            Self::OfTile([second, first]) => return vec![second, first, n],
            Self::Programs { first, parts, programs } => (first, parts, programs),
        };
        let number = k.int_const(n);
        let mut s = Cursor::at_end(k, block);
        let starts = s.int(i64::from(number == Some(0)));
        let program = s.op(BinOp::Add, first, n);
        // Every cut tile has two parts.
        if number.is_some_and(|n| n < 2) {
            return vec![program, starts];
        }
        let is_there = s.compare(CmpOp::Lt, n, parts);
        vec![s.select(is_there, program, programs), starts]
    }
}

/// The iterations of one slice of `slices`. The first slices have one more where the number does not divide.
pub(super) fn slice_of_tile(k: &mut Kernel, trips: Value, slice: Value, slices: (Value, u32)) -> WorkItem {
    let entry = k.entry;
    let (rows, columns) = (k.grid[0], k.grid.get(1).copied());
    let mut s = Cursor::at_end(k, entry);
    let each = s.with(BinOp::Div, trips, slices.1.into());
    let rest = s.with(BinOp::Rem, trips, slices.1.into());
    let mut start = |slice: Value| {
        let whole = s.op(BinOp::Mul, slice, each);
        let more = s.op(BinOp::Min, slice, rest);
        (s.op(BinOp::Add, whole, more), s.with(BinOp::Add, slice, 1))
    };
    let (first, next) = start(slice);
    let (end, _) = start(next);
    let row = Cursor::at_end(k, entry).index(Op::BlockIndex(0), &[]);
    let (column, columns) = match columns {
        Some(extent) => (Cursor::at_end(k, entry).index(Op::BlockIndex(1), &[]), extent),
        None => (Cursor::at_end(k, entry).int(0), Cursor::at_end(k, entry).int(1)),
    };
    WorkItem {
        first,
        end,
        slots: vec![columns, rows, slices.0],
        counters: vec![columns, rows],
        own: vec![column, row, slice],
        counter: vec![column, row],
        parts: slices.0,
        places: Places::OfTile([column, row]),
        is_cut: None,
    }
}

/// The iterations of an item of `stream_k`.
pub(super) fn section_of_tile(k: &mut Kernel, trips: Value, item: Value) -> WorkItem {
    let entry = k.entry;
    let programs = Cursor::at_end(k, entry).index(Op::ProgramCount, &[]);
    let row = Row::new(k, entry, programs, trips);
    let mut s = Cursor::at_end(k, entry);
    let zero = s.int(0);
    let is_cut = s.compare(CmpOp::Lt, zero, item);
    let at = s.with(BinOp::Sub, item, 1);
    let at = s.with(BinOp::Max, at, 0);
    let tile = s.op(BinOp::Div, at, row.trips);
    let program = s.op(BinOp::Div, at, row.each);
    let start = s.op(BinOp::Mul, tile, row.trips);
    let first = s.op(BinOp::Sub, at, start);
    // Facts follow a maximum with 0.
    let first = s.with(BinOp::Max, first, 0);
    let stop = s.op(BinOp::Add, start, row.trips);
    let next = s.with(BinOp::Add, program, 1);
    let own_end = s.op(BinOp::Mul, next, row.each);
    let own_end = s.op(BinOp::Sub, own_end, start);
    let own_end = s.op(BinOp::Min, own_end, row.trips);
    let end = s.select(is_cut, own_end, row.trips);
    let first_program = s.op(BinOp::Div, start, row.each);
    let last = s.with(BinOp::Sub, stop, 1);
    let last = s.op(BinOp::Div, last, row.each);
    let parts = s.op(BinOp::Sub, last, first_program);
    let parts = s.with(BinOp::Add, parts, 1);
    let one = s.int(1);
    let starts = s.compare(CmpOp::Lt, first, one);
    let starts = s.select(starts, one, zero);
    let two = s.int(2);
    WorkItem {
        first,
        end,
        slots: vec![programs, two],
        counters: vec![programs],
        own: vec![program, starts],
        counter: vec![first_program],
        parts,
        places: Places::Programs { first: first_program, parts, programs },
        is_cut: Some(is_cut),
    }
}

/// The row of iterations that programs share out.
struct Row {
    /// Iterations of a tile, at least 1.
    trips: Value,
    /// Tiles of the row, and waves of whole tiles beside it.
    tiles: Value,
    waves: Value,
    /// Iterations of a program's section, and of the row.
    each: Value,
    all: Value,
}

impl Row {
    /// From the grid of tiles alone.
    fn new(k: &mut Kernel, block: Block, programs: Value, trips: Value) -> Self {
        let grid = k.grid.clone();
        let mut s = Cursor::at_end(k, block);
        // A negative extent counts as 0.
        let grid: Vec<Value> = grid.into_iter().map(|extent| s.with(BinOp::Max, extent, 0)).collect();
        let tiles = grid.into_iter().reduce(|all, extent| s.op(BinOp::Mul, all, extent));
        let tiles = tiles.unwrap_or(programs);
        // A tile without iterations still has its end.
        let trips = s.with(BinOp::Max, trips, 1);
        let waves = s.op(BinOp::Div, tiles, programs);
        let filled = s.op(BinOp::Mul, waves, programs);
        let rest = s.op(BinOp::Sub, tiles, filled);
        let less = s.with(BinOp::Min, rest, 1);
        let waves = s.beyond(waves, less);
        let whole = s.op(BinOp::Mul, waves, programs);
        let tiles = s.op(BinOp::Sub, tiles, whole);
        let all = s.op(BinOp::Mul, tiles, trips);
        let each = s.op(BinOp::CeilDiv, all, programs);
        let least = s.with(BinOp::CeilDiv, trips, i64::from(MAX_PARTS) - 1);
        let each = s.op(BinOp::Max, each, least);
        Self { trips, tiles, waves, each, all }
    }
}

/// How `stream_k` deals the items to the programs, in values before the loop over tiles.
pub(super) struct Deal {
    row: Row,
    programs: Value,
    id: Value,
    /// The section of this program, the first tile of it, and its tiles.
    start: Value,
    stop: Value,
    first: Value,
    streamed: Value,
    /// All items of this program: the tiles of its section, and the whole ones.
    pub visits: Value,
}

impl Deal {
    /// Counts the items of a program. The last dimension of the grid is that of items.
    pub fn new(k: &mut Kernel, id: Value, programs: Value) -> Option<Self> {
        let trips = k.result(shared_trips(k)?);
        let entry = k.entry;
        let items = k.grid.pop();
        let row = Row::new(k, entry, programs, trips);
        k.grid.extend(items);
        let mut s = Cursor::at_end(k, entry);
        let start = s.op(BinOp::Mul, id, row.each);
        let start = s.op(BinOp::Min, start, row.all);
        let stop = s.op(BinOp::Add, start, row.each);
        let stop = s.op(BinOp::Min, stop, row.all);
        let first = s.op(BinOp::Div, start, row.trips);
        let behind = s.op(BinOp::CeilDiv, stop, row.trips);
        let streamed = s.op(BinOp::Sub, behind, first);
        let visits = s.op(BinOp::Add, streamed, row.waves);
        Some(Self { row, programs, id, start, stop, first, streamed, visits })
    }

    /// The tile and the item of a visit. The cut tiles come first, so that their parts are added while the next
    /// tile's operands are loaded.
    pub fn decode(&self, k: &mut Kernel, block: Block, visit: Value) -> (Value, Value) {
        let mut s = Cursor::at_end(k, block);
        let is_streamed = s.compare(CmpOp::Lt, visit, self.streamed);
        let tile = s.op(BinOp::Add, self.first, visit);
        let begin = s.op(BinOp::Mul, tile, self.row.trips);
        let end = s.op(BinOp::Add, begin, self.row.trips);
        let begin = s.op(BinOp::Max, begin, self.start);
        let end = s.op(BinOp::Min, end, self.stop);
        let own = s.op(BinOp::Sub, end, begin);
        let is_cut = s.compare(CmpOp::Lt, own, self.row.trips);
        let zero = s.int(0);
        let number = s.with(BinOp::Add, begin, 1);
        let item = s.select(is_cut, number, zero);
        let item = s.select(is_streamed, item, zero);
        let wave = s.op(BinOp::Sub, visit, self.streamed);
        let whole = s.op(BinOp::Mul, wave, self.programs);
        let whole = s.op(BinOp::Add, whole, self.id);
        let whole = s.op(BinOp::Add, whole, self.row.tiles);
        (s.select(is_streamed, tile, whole), item)
    }
}
