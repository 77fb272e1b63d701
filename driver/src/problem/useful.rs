//! Rows and columns of a product that anyone needs: inside of what is loaded, and of what is stored.
//!
//! ```text
//!  view c : f16[ends[g], n]   store c[first, j*BN], cast(acc)     of the tile's 128 rows ends[g] - first are stored:
//!  ├──── rows of group g ────┤                                    the others are multiplied for nothing
//!                 ├ first ── 128 ──┤
//! ```
//!
//! The schedule chooses the height of a tile, so what no schedule beats are these rows, in multiples of 16.

use super::BlockNumbers;
use super::gathered::plain;
use rustc_hash::{FxHashMap, FxHashSet};
use warplift_ir::tile::{Inst, Kernel, Op, Value};

/// Rows of the smallest product.
const ROWS: i64 = 16;
/// Columns of the smallest product.
const COLUMNS: i64 = 8;

/// A dimension of an access: so many elements from an index on, or at each of a tile of indices, of an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Window {
    index: Value,
    extent: Value,
    length: i64,
    /// Where only elements count that a mask lets through.
    mask: Option<Value>,
}

/// Windows of a product's rows and columns. Of loads each one bounds them; of stores the widest does.
#[derive(Clone, Debug, Default)]
struct Windows {
    loaded: [Vec<Window>; 2],
    stored: [Vec<Window>; 2],
}

/// What bounds the products of a kernel.
pub struct Useful(FxHashMap<Inst, Windows>);

impl Useful {
    /// Of a kernel without tunables.
    pub fn new(kernel: &Kernel) -> Self {
        let mut found: FxHashMap<Inst, Windows> = FxHashMap::default();
        let all = |want: fn(&Op) -> bool| {
            let mut insts = Vec::new();
            kernel.walk(|_, i| insts.extend(want(&kernel.insts[i].op).then_some(i)));
            insts
        };
        for product in all(|op| matches!(op, Op::Mma { .. })) {
            let windows = found.entry(product).or_default();
            for (axis, operand) in [(0, 1), (1, 2)] {
                let (load, turned) = loaded(kernel, kernel.args(product)[operand]);
                let dims = load.map(|l| windows_of(kernel, l, kernel.results(l)[0])).unwrap_or_default();
                windows.loaded[axis].extend(dims.get(usize::from((axis == 1) != turned)).copied().flatten());
            }
        }
        for store in all(|op| matches!(op, Op::Store | Op::StoreScatter { .. })) {
            let args = kernel.args(store);
            let Some(tile) = kernel.insts[store].op.written_operand(args.len()).map(|at| args[at]) else {
                continue;
            };
            let dims = windows_of(kernel, store, tile);
            for (product, turned) in made_by(kernel, tile) {
                let windows = found.entry(product).or_default();
                for axis in [0, 1] {
                    windows.stored[axis]
                        .extend(dims.get(usize::from((axis == 1) != turned)).copied().flatten());
                }
            }
        }
        inherit(kernel, &mut found);
        Self(found)
    }

    /// Values that decide.
    pub fn values(&self) -> Vec<Value> {
        let windows = self.0.values().flat_map(|w| w.loaded.iter().chain(&w.stored).flatten());
        windows.flat_map(|w| [Some(w.index), Some(w.extent), w.mask]).flatten().collect()
    }

    /// The part of a product that is needed in the block whose numbers these are.
    pub fn part(&self, numbers: &mut BlockNumbers<'_>, product: Inst) -> f64 {
        let Some(windows) = self.0.get(&product) else { return 1.0 };
        let kernel = numbers.kernel;
        let shape = kernel.ty(kernel.results(product)[0]).shape().and_then(|s| s.extents());
        let [rows, columns] = shape.as_deref().unwrap_or_default()[..] else { return 1.0 };
        let parts =
            [(0, i64::from(rows), ROWS), (1, i64::from(columns), COLUMNS)].map(|(axis, all, step)| {
                let loaded = windows.loaded[axis].iter().filter_map(|w| w.inside(numbers)).min();
                let stored: Option<Vec<i64>> =
                    windows.stored[axis].iter().map(|w| w.inside(numbers)).collect();
                let stored = stored.and_then(|all| all.into_iter().max());
                let inside = [loaded, stored].into_iter().flatten().fold(all, i64::min);
                (inside.max(0) as u64).next_multiple_of(step as u64).min(all as u64) as f64 / all as f64
            });
        parts[0] * parts[1]
    }
}

impl Window {
    /// The elements inside; `None` where that is not known.
    fn inside(&self, numbers: &mut BlockNumbers<'_>) -> Option<i64> {
        let extent = numbers.number(self.extent)?;
        if numbers.kernel.ty(self.index).shape().is_none() {
            let index = numbers.number(self.index)?;
            let end = index.saturating_add(self.length).min(extent);
            return Some((end - index.max(0)).max(0));
        }
        let places = numbers.tile(self.index)?;
        let mask = self.mask.and_then(|m| numbers.tile(m)).filter(|m| m.len() == places.len());
        let kept = |k: usize| mask.as_ref().is_none_or(|m| m[k] != 0);
        let inside =
            (0..places.len()).filter(|&k| kept(k) && (0..extent).contains(&places[k])).count() as i64;
        // A tile of indices has one for each element: those along the other dimension are alike.
        Some(inside.saturating_mul(self.length) / places.len().max(1) as i64)
    }
}

/// The windows of the last two dimensions of an access.
fn windows_of(kernel: &Kernel, access: Inst, tile: Value) -> Vec<Option<Window>> {
    let sizes = kernel.ty(tile).shape().and_then(|s| s.extents()).unwrap_or_default();
    let args = kernel.args(access);
    let op = &kernel.insts[access].op;
    let indices = &args[op.indices(args.len())];
    let Some(lead) = indices.len().checked_sub(sizes.len()) else { return Vec::new() };
    let mask = op.is_masked().then(|| plain(kernel, args[args.len() - 1]));
    let window = |(k, &size): (usize, &u32)| {
        let (index, extent) = (plain(kernel, indices[lead + k]), extent_of(kernel, args[0], lead + k)?);
        Some(Window { index, extent, length: size.into(), mask })
    };
    let all: Vec<_> = sizes.iter().enumerate().map(window).collect();
    if sizes.len() < 2 || matches!(op, Op::LoadRuns(_)) {
        Vec::new()
    } else {
        all[sizes.len() - 2..].to_vec()
    }
}

/// The extent of a view along a dimension.
fn extent_of(kernel: &Kernel, view: Value, dim: usize) -> Option<Value> {
    let def = kernel.def(view)?;
    match &kernel.insts[def].op {
        Op::View { .. } => kernel.args(def).get(1 + dim).copied(),
        Op::SubView(kept) => extent_of(kernel, kernel.args(def)[0], usize::from(*kept.get(dim)?)),
        _ => None,
    }
}

/// The load behind an operand, and whether its dimensions have changed places.
fn loaded(kernel: &Kernel, mut value: Value) -> (Option<Inst>, bool) {
    let mut turned = false;
    while let Some(def) = kernel.def(value) {
        match &kernel.insts[def].op {
            Op::Load | Op::AsyncCopy | Op::LoadGather { .. } => return (Some(def), turned),
            Op::Cast | Op::Unary(_) | Op::Rearrange => {}
            Op::Trans(perm) if perm[..] == [1, 0] => turned = !turned,
            _ => break,
        }
        value = kernel.args(def)[0];
    }
    (None, turned)
}

/// The products whose elements become those of a tile at the same places, and whether dimensions have changed places.
fn made_by(kernel: &Kernel, tile: Value) -> Vec<(Inst, bool)> {
    let (mut left, mut seen, mut found) = (vec![(tile, false)], FxHashSet::default(), Vec::new());
    while let Some((value, turned)) = left.pop() {
        let Some(def) = kernel.def(value).filter(|_| seen.insert(value)) else { continue };
        let args = kernel.args(def);
        let same = |v: &&Value| kernel.ty(**v).shape() == kernel.ty(value).shape();
        match &kernel.insts[def].op {
            Op::Mma { .. } => found.push((def, turned)),
            Op::For | Op::If | Op::While => {
                let at = kernel.results(def).iter().position(|&r| r == value).unwrap_or(0);
                let from = at + usize::from(matches!(kernel.insts[def].op, Op::While));
                let blocks = kernel.insts[def].blocks.iter();
                left.extend(blocks.filter_map(|&b| Some((*kernel.yields(b).get(from)?, turned))));
            }
            Op::Trans(perm) if perm[..] == [1, 0] => left.push((args[0], !turned)),
            op if op.is_elementwise() || matches!(op, Op::Rearrange) => {
                left.extend(args.iter().filter(same).map(|&v| (v, turned)));
            }
            _ => {}
        }
    }
    found
}

/// A product whose rows are the rows of another product's left operand is needed as far as that one.
fn inherit(kernel: &Kernel, found: &mut FxHashMap<Inst, Windows>) {
    let mut products: Vec<Inst> = found.keys().copied().collect();
    products.sort_unstable();
    for &product in products.iter().rev() {
        for (before, turned) in made_by(kernel, kernel.args(product)[1]) {
            let rows = found.get(&product).map(|w| [w.loaded[0].clone(), w.stored[0].clone()]);
            if let (Some([loaded, stored]), false, Some(own)) = (rows, turned, found.get_mut(&before)) {
                own.loaded[0].extend(loaded);
                own.stored[0].extend(stored);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::{BlockWork, Blocks, Costed, Sizes, products};
    use std::collections::BTreeMap;
    use warplift_ir::tile::parse_file;

    /// The part of all multiplications that is needed, of three tiles of 64 rows; `p` holds these numbers.
    fn needed(body: &str, held: &[i32]) -> [f64; 3] {
        let text = format!(
            "kernel k(a: ptr<f16>, b: ptr<f16>, c: ptr<f16>, p: ptr<i32>, m: i32, n: i32) {{ grid 3 gp = view p : i32[192]
            ga = view a : f16[m, 64] gb = view b : f16[n, 64] gc = view c : f16[m, n] i = block_index
            z = full 0.0 : f32[64, 64] {body} }}"
        );
        let kernel = parse_file(&text, "").unwrap_or_else(|e| panic!("{e:?}")).kernels.remove(0);
        let sizes = Sizes::parse(&kernel, "m=180,n=64").unwrap();
        let arrays = BTreeMap::from([("p".to_owned(), held.iter().flat_map(|v| v.to_le_bytes()).collect())]);
        let useful = Useful::new(&kernel);
        let cost = |numbers: &mut BlockNumbers<'_>, inst: Inst| match products(numbers.kernel, inst) {
            0.0 => Some(0.0),
            all => Some(useful.part(numbers, inst)).filter(|_| all > 0.0),
        };
        let (kernel, sizes, arrays, blocks) = (&kernel, &sizes, &arrays, Blocks::of([3, 1, 1]));
        let looks_at = &useful.values()[..];
        match (Costed { kernel, sizes, arrays, blocks, cost, looks_at, least: true }).by_block() {
            Some(BlockWork::Each(all)) => all.try_into().unwrap(),
            other => panic!("{other:?}"),
        }
    }

    const ENDS: [i32; 3] = [64, 80, 180];

    #[test]
    fn rows_count_as_far_as_they_are_stored() {
        let product = "y = mma z, load ga[i*64, 0] : f16[64, 64], trans(load gb[0, 0] : f16[64, 64])";
        let held: Vec<i32> = ENDS.into_iter().chain([0; 189]).collect();
        let all = format!("{product} store gc[i*64, 0], cast(y, f16)");
        assert_eq!(needed(&all, &held), [1.0, 1.0, 1.0], "52 rows are 64 in multiples of 16");
        let ends = format!(
            "{product} own = view c : f16[load gp[i] : i32, n] store own[i*64, 0], cast(y * 2.0, f16)"
        );
        assert_eq!(needed(&ends, &held), [1.0, 0.25, 1.0], "16 rows of the second tile");
        let loop_ = "acc = for t in 0..2 carry x = z {
                yield mma x, load ga[i*64, t*32] : f16[64, 32], trans(load gb[0, t*32] : f16[64, 32])
            }
            own = view c : f16[load gp[i] : i32, n] store own[i*64, 0], cast(acc, f16)";
        assert_eq!(needed(loop_, &held), [2.0, 0.5, 2.0], "two trips each");
        let columns =
            format!("{product} own = view c : f16[m, load gp[i] : i32] store own[0, i*64], cast(y, f16)");
        assert_eq!(needed(&columns, &held), [1.0, 0.25, 0.875], "52 columns are 56");
    }

    #[test]
    fn rows_count_as_far_as_they_are_loaded() {
        let loaded = "own = view a : f16[load gp[i] : i32, 64]
            y = mma z, load own[i*64, 0] : f16[64, 64], trans(load gb[0, 0] : f16[64, 64])
            w = mma z, cast(y, f16), trans(load gb[0, 0] : f16[64, 64]) store gc[i*64, 0], cast(w, f16)";
        let held: Vec<i32> = ENDS.into_iter().chain([0; 189]).collect();
        assert_eq!(
            needed(loaded, &held),
            [2.0, 1.25, 2.0],
            "the second product has no rows of its own that are loaded"
        );
        let gathered = "at = load gp[i*64] : i32[64]
            y = mma z, load ga[at, 0] : f16[64, 64], trans(load gb[0, 0] : f16[64, 64])
            store gc[at, 0], cast(y, f16)";
        let places: Vec<i32> = (0..192).map(|k| if k < 70 { k } else { -1 }).collect();
        assert_eq!(needed(gathered, &places), [1.0, 0.25, 0.0]);
    }
}
