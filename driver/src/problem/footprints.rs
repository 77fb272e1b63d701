//! What the tiles of a launch ask of each array, tile after tile in the order in which they run.
//!
//! ```text
//!  tile   i  j    a: rows i*BM, all of k      b: rows j*BN, all of k
//!  0      0  0    a[0..128, 0..4096]          b[0..256, 0..4096]
//!  1      1  0    a[128..256, 0..4096]        b[0..256, 0..4096]       the same footprint of b
//! ```
//!
//! A footprint is all that the loops of a tile touch, from their first iteration to the last one. An index that depends on data which
//! are not given is another one for each place of the grid that it follows from, and so are rows that a tile of indices gathers.
//! Where the dimension has fewer, indices are taken to ascend, as groups of rows do.

use super::block_numbers::{Data, VISITS_WITH_DATA};
use super::placed::controls_of;
use super::touched::whole_indices;
use super::{BlockNumbers, Blocks, Sizes, behind, extents};
use rustc_hash::{FxHashMap, FxHasher};
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use warplift_ir::tile::{Block, Inst, Kernel, Op, Type, Value};

/// Contents of arrays by name, as they lie in memory.
type Arrays = BTreeMap<String, Vec<u8>>;

/// A part of an array that a tile reads or writes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Footprint {
    /// The argument's number.
    pub array: usize,
    /// Tells it from other parts of the array.
    pub place: u64,
    /// How much it is.
    pub bytes: f64,
    /// Whether it is written, else it is read.
    pub written: bool,
}

/// A load or a store, and where its indices come from.
struct Access {
    array: usize,
    dims: Vec<Dim>,
    element: f64,
    written: bool,
}

/// An index along a dimension of an array.
struct Dim {
    index: Value,
    length: i64,
    extent: i64,
}

/// Indices of the grid that a scalar follows from, and whether memory says it.
struct Origin {
    from: Vec<Value>,
    loaded: bool,
}

/// Numbers of the grid's indices.
type Indices = SmallVec<[i64; 3]>;

/// What is touched along a dimension.
#[derive(Clone, Debug, PartialEq)]
enum Span {
    /// From, to.
    Known(i64, i64),
    /// So much of it, anywhere, for these indices of the grid.
    By(Indices, i64),
}

/// What is touched along each dimension.
type Spans = SmallVec<[Span; 4]>;

/// What a tile touches of an array.
enum Touched {
    /// A footprint.
    Known(Footprint),
    /// One whose place follows from indices that nobody knows.
    Open(Box<(Inst, Spans)>),
}

/// The tiles of a launch.
#[derive(Clone, Debug)]
pub struct Tiles {
    /// How many there are.
    pub all: u64,
    /// What each of the first ones asks for.
    pub each: Vec<Vec<Footprint>>,
}

/// Whether memory says where a load or a store of a mapped kernel lies, or whether there is one.
pub fn follow_from_memory(kernel: &Kernel, sizes: &Sizes) -> bool {
    Read::of(kernel, sizes).origins.values().any(|origin| origin.loaded)
}

/// What the first tiles of a mapped kernel ask for, so many at most, in order: those that its programs take one after the
/// other, or those of its blocks. `None` where that is not known.
pub fn footprints(kernel: &Kernel, given: (&Sizes, &Arrays), blocks: Blocks, most: u64) -> Option<Tiles> {
    let Read { accesses, origins, steps } = Read::of(kernel, given.0);
    let looped = kernel.insts.keys().find(|&i| kernel.attrs[i].persistent);
    let indices = accesses.values().flat_map(|a| a.dims.iter().map(|d| d.index));
    let values = origins.keys().copied().chain(indices).collect();
    let mut data = Data::new(kernel, given.1, values, VISITS_WITH_DATA);
    let count = match looped {
        Some(inst) => {
            let mut numbers = BlockNumbers::new(kernel, given.0, blocks, &mut data);
            numbers.stand([0; 3], 0);
            u64::try_from(numbers.number(kernel.args(inst)[1])?).ok()?
        }
        None => blocks.count()? / blocks.cluster,
    };
    let of = looped.map_or(blocks, |_| Blocks::of([count, 1, 1]));
    let numbers = BlockNumbers::new(kernel, given.0, of, &mut data);
    let mut visit = Visit {
        numbers,
        accesses: &accesses,
        steps: &steps,
        origins,
        memo: FxHashMap::default(),
        found: Vec::new(),
        open: false,
    };
    let [x, y, _] = of.grid.map(|n| n as i64);
    let place = |n: i64| [n % x, n / x % y, n / (x * y)];
    let tiles = (0..count.min(most)).map(|n| visit.tile(place(n as i64 * of.cluster as i64)));
    let tiles: Vec<Vec<Touched>> = tiles.map_while(|tile| tile).collect();
    Some(Tiles { all: count, each: placed(&accesses, &tiles) })
}

/// Footprints with their places: ranks stand for indices that are not known.
fn placed(accesses: &FxHashMap<Inst, Access>, tiles: &[Vec<Touched>]) -> Vec<Vec<Footprint>> {
    let mut unknown: FxHashMap<(Inst, usize), BTreeSet<&[i64]>> = FxHashMap::default();
    for touched in tiles.iter().flatten() {
        let Touched::Open(open) = touched else { continue };
        for (d, span) in open.1.iter().enumerate() {
            if let Span::By(from, _) = span {
                unknown.entry((open.0, d)).or_default().insert(from);
            }
        }
    }
    let ranks: FxHashMap<(Inst, usize), FxHashMap<&[i64], i64>> = unknown
        .into_iter()
        .map(|(at, all)| {
            let (count, extent) = (all.len() as i64, accesses[&at.0].dims[at.1].extent);
            let rank = |k: i64| if count > extent { k * extent / count } else { k };
            (at, all.into_iter().zip((0..).map(rank)).collect())
        })
        .collect();
    let rank = |at: (Inst, usize), from: &[i64]| ranks[&at][from];
    let footprint = |touched: &Touched| match touched {
        Touched::Known(footprint) => Some(*footprint),
        Touched::Open(open) => accesses[&open.0].footprint(open.0, &open.1, rank),
    };
    tiles.iter().map(|tile| tile.iter().filter_map(footprint).collect()).collect()
}

impl Access {
    fn footprint(
        &self,
        inst: Inst,
        spans: &[Span],
        rank: impl Fn((Inst, usize), &[i64]) -> i64,
    ) -> Option<Footprint> {
        let (mut hasher, mut bytes) = (FxHasher::default(), self.element);
        for (d, (span, dim)) in spans.iter().zip(&self.dims).enumerate() {
            let (start, length) = match span {
                Span::Known(from, to) => ((*from).max(0), (*to).min(dim.extent) - (*from).max(0)),
                Span::By(from, length) => (rank((inst, d), from), (*length).min(dim.extent)),
            };
            start.hash(&mut hasher);
            bytes *= length.max(0) as f64;
        }
        let place = hasher.finish();
        (bytes > 0.0).then_some(Footprint { array: self.array, place, bytes, written: self.written })
    }
}

/// The loads and stores of tiles, as far as indices tell what they touch, and where what decides them comes from.
#[derive(Default)]
struct Read {
    accesses: FxHashMap<Inst, Access>,
    /// Of what follows from no loop's counter.
    origins: FxHashMap<Value, Origin>,
    /// Of each block the loads and stores, and the loops and branches that have some.
    steps: FxHashMap<Block, Vec<Inst>>,
}

impl Read {
    fn of(kernel: &Kernel, sizes: &Sizes) -> Self {
        let mut all = Self::default();
        all.block((kernel, sizes), kernel.entry, &mut Vec::new());
        all
    }

    /// Those of a block inside of loops with these counters.
    fn block(&mut self, of: (&Kernel, &Sizes), block: Block, counters: &mut Vec<Value>) {
        let kernel = of.0;
        let mut steps = Vec::new();
        for &inst in &kernel.blocks[block].insts {
            let counted = matches!(kernel.insts[inst].op, Op::For) && !kernel.attrs[inst].persistent;
            for &inner in &kernel.insts[inst].blocks {
                counters.extend(kernel.blocks[inner].params.first().filter(|_| counted));
                self.block(of, inner, counters);
                counters.truncate(counters.len() - usize::from(counted));
            }
            let found = access(of, inst);
            let holds = |b: &Block| self.steps.contains_key(b);
            steps.extend((found.is_some() || kernel.insts[inst].blocks.iter().any(holds)).then_some(inst));
            let indices = found.iter().flat_map(|a| a.dims.iter().map(|d| &d.index));
            for &value in controls_of(kernel, inst).iter().chain(indices) {
                self.origins.extend(Origin::of(kernel, value, counters).map(|o| (value, o)));
            }
            self.accesses.extend(found.map(|found| (inst, found)));
        }
        if !steps.is_empty() {
            self.steps.insert(block, steps);
        }
    }
}

/// What a load or a store of a tile touches.
fn access((kernel, sizes): (&Kernel, &Sizes), inst: Inst) -> Option<Access> {
    let args = kernel.args(inst);
    let op = &kernel.insts[inst].op;
    let gathers = matches!(op, Op::LoadGather { .. } | Op::StoreScatter { .. });
    if !(gathers || matches!(op, Op::Load | Op::AsyncCopy | Op::Store)) {
        return None;
    }
    let (written, end) = (op.is_write(), op.indices(args.len()).end);
    let tile = if written { args.get(end) } else { kernel.results(inst).first() }?;
    let shape = kernel.ty(*tile).shape()?.extents()?;
    let lead = (end - 1).checked_sub(shape.len())?;
    let length = |k: usize| k.checked_sub(lead).map_or(1, |k| i64::from(shape[k]));
    let own = args[1..end].iter().enumerate().map(|(k, &v)| (v, length(k))).collect();
    let (view, indices) = whole_indices(kernel, args[0], own, &|v| (v, 1))?;
    let Op::View { strided, .. } = kernel.insts[view].op else { return None };
    let (bounds, _) = extents(kernel, view, strided, sizes).ok()?;
    let pointer = kernel.args(view)[0];
    let array = kernel.params.iter().position(|p| p.value == pointer)?;
    let dim = |((index, length), extent)| Dim { index, length, extent };
    let dims = indices.into_iter().zip(bounds).map(dim).collect();
    Some(Access { array, dims, element: f64::from(kernel.ty(pointer).elem().bits()) / 8.0, written })
}

impl Origin {
    /// `None` if a value depends on one of these counters too.
    fn of(kernel: &Kernel, value: Value, counters: &[Value]) -> Option<Self> {
        let found = behind(kernel, vec![value]);
        let counted = |&i: &Inst| kernel.args(i).iter().any(|v| counters.contains(v));
        if counters.contains(&value) || found.iter().any(counted) {
            return None;
        }
        let loaded = found.iter().any(|&i| matches!(kernel.insts[i].op, Op::Load | Op::While));
        let is_index = |i: &Inst| kernel.attrs[*i].index || matches!(kernel.insts[*i].op, Op::BlockIndex(_));
        let mut from: Vec<Value> = found.into_iter().filter(is_index).map(|i| kernel.result(i)).collect();
        from.sort_unstable();
        Some(Self { from, loaded })
    }
}

/// A tile whose accesses are looked at.
struct Visit<'k, 'a> {
    numbers: BlockNumbers<'k>,
    accesses: &'a FxHashMap<Inst, Access>,
    steps: &'a FxHashMap<Block, Vec<Inst>>,
    origins: FxHashMap<Value, Origin>,
    /// What memory says at these indices of the grid.
    memo: FxHashMap<(Value, Indices), Option<i64>>,
    found: Vec<(Inst, Spans)>,
    /// Whether the end of a loop around is not known.
    open: bool,
}

impl Visit<'_, '_> {
    /// What the tile at a place touches; `None` if too much was looked at.
    fn tile(&mut self, place: [i64; 3]) -> Option<Vec<Touched>> {
        self.numbers.stand(place, 0);
        self.block(self.numbers.kernel.entry);
        let accesses = self.accesses;
        let touched = |(inst, spans): (Inst, Spans)| match spans.iter().all(|s| matches!(s, Span::Known(..)))
        {
            true => accesses[&inst].footprint(inst, &spans, |_, _| 0).map(Touched::Known),
            false => Some(Touched::Open(Box::new((inst, spans)))),
        };
        let found = self.found.drain(..).filter_map(touched).collect();
        (!self.numbers.is_over()).then_some(found)
    }

    fn block(&mut self, block: Block) {
        let (kernel, steps) = (self.numbers.kernel, self.steps);
        for &inst in steps.get(&block).into_iter().flatten() {
            match kernel.insts[inst].op {
                Op::For => self.looped(inst),
                Op::If => self.branch(inst),
                _ => _ = self.note(inst),
            }
        }
    }

    fn branch(&mut self, inst: Inst) {
        let kernel = self.numbers.kernel;
        let (taken, blocks) = (self.number(kernel.args(inst)[0]), &kernel.insts[inst].blocks);
        let side = taken.map(|t| usize::from(t == 0));
        let is_taken = |k: usize| side.is_none_or(|side| side == k);
        (0..blocks.len()).filter(|&k| is_taken(k)).for_each(|k| self.block(blocks[k]));
    }

    /// The first and the last iteration; the first two where the last one is not known.
    fn looped(&mut self, inst: Inst) {
        let kernel = self.numbers.kernel;
        let body = kernel.insts[inst].blocks[0];
        let [low, high, step] = [0, 1, 2].map(|n| self.number(kernel.args(inst)[n]));
        let (first, step) = (low.unwrap_or(0), step.filter(|&s| s > 0).unwrap_or(1));
        let last = high.filter(|_| low.is_some()).map(|high| high.saturating_sub(1));
        if last.is_some_and(|last| last < first) {
            return;
        }
        self.iteration(body, first);
        let last = last.map(|last| first + (last - first) / step * step);
        if kernel.attrs[inst].persistent || last == Some(first) {
            return;
        }
        let open = self.open;
        self.open |= last.is_none();
        self.iteration(body, last.unwrap_or(first + step));
        self.open = open;
    }

    fn iteration(&mut self, body: Block, number: i64) {
        let counter = self.numbers.kernel.blocks[body].params[0];
        self.numbers.count(counter, Some(number));
        self.block(body);
        self.numbers.count(counter, None);
    }

    /// A scalar, if it is known.
    fn number(&mut self, value: Value) -> Option<i64> {
        let loaded = self.origins.get(&value).is_some_and(|origin| origin.loaded);
        let Some(at) = loaded.then(|| self.indices(value)).flatten() else {
            return self.numbers.number(value);
        };
        let known = (value, at);
        match self.memo.get(&known) {
            Some(&number) => number,
            None => *self.memo.entry(known).or_insert_with(|| self.numbers.number(value)),
        }
    }

    /// The indices of the grid that a scalar follows from alone.
    fn indices(&mut self, value: Value) -> Option<Indices> {
        self.origins.get(&value)?.from.iter().map(|&v| self.numbers.number(v)).collect()
    }

    /// What an access touches along a dimension.
    fn span(&mut self, dim: &Dim) -> Option<Span> {
        let gathered = matches!(self.numbers.kernel.ty(dim.index), Type::Tile(..));
        let first = if gathered { None } else { self.number(dim.index) };
        Some(match first {
            Some(at) => Span::Known(at, at.saturating_add(dim.length)),
            None => Span::By(self.indices(dim.index)?, dim.length),
        })
    }

    /// Notes what an access touches, and what it touched before.
    fn note(&mut self, inst: Inst) -> Option<()> {
        let accesses = self.accesses;
        let spans: Option<Spans> = accesses.get(&inst)?.dims.iter().map(|dim| self.span(dim)).collect();
        let spans = spans?;
        let open = self.open;
        match self.found.iter_mut().find(|f| f.0 == inst) {
            Some((_, before)) => before.iter_mut().zip(spans).for_each(|(a, b)| a.join(&b, open)),
            None => self.found.push((inst, spans)),
        }
        Some(())
    }
}

impl Span {
    /// With what a later iteration touches; `open`: others follow, nobody knows how many.
    fn join(&mut self, other: &Self, open: bool) {
        if let (Self::Known(from, to), Self::Known(low, high)) = (self, other) {
            let further = *high > *to;
            (*from, *to) = ((*from).min(*low), (*to).max(*high));
            if open && further {
                *to = i64::MAX;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::grid_of;
    use warplift_ir::tile::parse_file;

    /// Bytes of the footprints of each tile by array, and their places as numbers in the order in which they come.
    fn of(text: &str, sizes: &str, given: &[(&str, &[i32])]) -> Vec<Vec<(usize, f64, usize)>> {
        let kernel = parse_file(text, "").unwrap_or_else(|e| panic!("{e:?}")).kernels.remove(0);
        let sizes = Sizes::parse(&kernel, sizes).unwrap();
        let bytes = |v: &[i32]| v.iter().flat_map(|v| v.to_le_bytes()).collect();
        let arrays = given.iter().map(|(name, v)| ((*name).to_owned(), bytes(v))).collect();
        let blocks = Blocks::of(grid_of(&kernel, &sizes).unwrap());
        let tiles = footprints(&kernel, (&sizes, &arrays), blocks, 100).unwrap();
        assert_eq!(Some(tiles.all), blocks.count());
        let mut places: Vec<(usize, u64)> = Vec::new();
        let mut number = |s: &Footprint| {
            let place = (s.array, s.place);
            let at = places.iter().position(|p| *p == place).unwrap_or(places.len());
            places.extend((at == places.len()).then_some(place));
            (s.array, s.bytes, places[..at].iter().filter(|p| p.0 == s.array).count())
        };
        tiles.each.iter().map(|tile| tile.iter().map(&mut number).collect()).collect()
    }

    /// Rows of groups times matrices of theirs.
    const GROUPED: &str =
        "kernel k(a: ptr<f16>, b: ptr<f16>, c: ptr<f32>, group: ptr<i32>, m: i32, groups: i32, k: i32) {
        grid cdiv(m, 64), 2
        i, j = block_index
        ga = view a : f16[m, k]
        all = view b : f16[groups, 64, k]
        gc = view c : f32[m, 64]
        gg = view group : i32[cdiv(m, 64)]
        g = load gg[i] : i32
        gb = subview all[g, _, _]
        zero = full 0.0 : f32[64, 32]
        acc = for t in 0..cdiv(k, 32) carry x = zero {
            ta = load ga[i*64, t*32] : f16[64, 32]
            tb = load gb[j*32, t*32] : f16[32, 32]
            y = mma x, ta, trans(tb)
            yield y
        }
        store gc[i*64, j*32], acc
    }";

    #[test]
    fn footprints_are_what_all_iterations_touch() {
        let found = of(GROUPED, "m=128,groups=2,k=100", &[("group", &[1, 1])]);
        let tile = |a, b, c| vec![(0, 12800.0, a), (1, 6400.0, b), (2, 8192.0, c)];
        assert_eq!(found, [tile(0, 0, 0), tile(1, 0, 1), tile(0, 1, 2), tile(1, 1, 3)]);
    }

    #[test]
    fn groups_that_are_not_given_ascend() {
        let matrices = |sizes, given: &[(&str, &[i32])]| -> Vec<usize> {
            of(GROUPED, sizes, given).iter().take(4).map(|tile| tile[1].2).collect()
        };
        assert_eq!(matrices("m=256,groups=2,k=64", &[]), [0, 0, 1, 1]);
        assert_eq!(matrices("m=256,groups=9,k=64", &[]), [0, 1, 2, 3]);
        assert_eq!(matrices("m=256,groups=2,k=64", &[("group", &[1, 0, 1, 0])]), [0, 1, 0, 1]);
    }

    /// Rows that a tile of indices gathers are the same for all columns of tiles, and others for each row of tiles.
    #[test]
    fn gathered_rows_follow_from_the_place_of_their_indices() {
        let text = "kernel k(a: ptr<f16>, rows: ptr<i32>, c: ptr<f16>, m: i32, n: i32, k: i32) {
            grid cdiv(n, 64), 2
            i, j = block_index
            ga = view a : f16[m, k]
            gr = view rows : i32[n]
            gc = view c : f16[m, k]
            row = load gr[i*64] : i32[64]
            v = load ga[row, j*32] : f16[64, 32]
            store gc[row, j*32], v
        }";
        let found = of(text, "m=1000,n=128,k=64", &[]);
        let gathered = |tile: &[(usize, f64, usize)], array| {
            let own: Vec<_> = tile.iter().filter(|f| f.0 == array).map(|f| (f.1, f.2)).collect();
            own
        };
        for array in [0, 2] {
            let each: Vec<_> = found.iter().map(|tile| gathered(tile, array)).collect();
            assert_eq!(each, [0, 1, 2, 3].map(|place| vec![(4096.0, place)]), "{array}");
        }
        let rows: Vec<_> = found.iter().map(|tile| gathered(tile, 1)).collect();
        assert_eq!(rows, [0, 1, 0, 1].map(|place| vec![(256.0, place)]));
    }

    /// A loop whose end memory decides goes to the end of the array.
    #[test]
    fn what_has_no_known_end_is_whole() {
        let text = "kernel k(x: ptr<f32>, y: ptr<f32>, n: ptr<i32>, m: i32) {
            grid 2
            i = block_index
            gx = view x : f32[2, m]
            gy = view y : f32[2, 64]
            gn = view n : i32[2]
            end = load gn[i] : i32
            zero = full 0.0 : f32[1, 64]
            s = for t in 0..end carry c = zero {
                d = c + load gx[i, t*64] : f32[1, 64]
                yield d
            }
            store gy[i, 0], s
        }";
        let of = |given: &[(&str, &[i32])]| -> Vec<f64> {
            of(text, "m=6400", given).iter().map(|tile| tile[0].1).collect()
        };
        assert_eq!(of(&[]), [25600.0; 2]);
        assert_eq!(of(&[("n", &[3, 2])]), [768.0, 512.0]);
    }
}
