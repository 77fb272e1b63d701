//! The places that tiles of indices name, in all blocks and trips, where given arrays say them.
//!
//! ```text
//!  at  = load table[b, spot / page]      block by block, trip by trip: 7, 7, 3, 9 ..
//!  row = at * page + spot % page         the rows of these pages, and no others
//!  load k[row, 0]
//! ```

use super::value_sets::Numbers;
use super::{BlockNumbers, Blocks, Costed, Problem};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cell::RefCell;
use std::collections::BTreeMap;
use warplift_ir::tile::{Inst, Kernel, Op, Value};

/// Tiles of indices, and the numbers in them.
pub(super) type Places = FxHashMap<Value, Numbers>;
/// Numbers in tiles that are gone through at most, by their cost.
const STEPS: u32 = 1 << 20;

/// Tiles of indices of an access, and the mask that says which count.
type Asked = (Vec<Value>, Option<Value>);

/// The numbers of all tiles of indices that accesses take; none where data do not give all of them, or where they are too
/// many to go through.
pub(super) fn gathered(problem: &Problem, arrays: &BTreeMap<String, Vec<u8>>, grid: [u64; 3]) -> Places {
    let kernel = &problem.resolved;
    let asked = if arrays.is_empty() { FxHashMap::default() } else { asked(kernel) };
    if asked.is_empty() {
        return Places::default();
    }
    let looks_at: Vec<Value> =
        asked.values().flat_map(|(tiles, mask)| tiles.iter().chain(mask)).copied().collect();
    let found: RefCell<FxHashMap<Value, FxHashSet<i64>>> = RefCell::default();
    let cost = |numbers: &mut BlockNumbers<'_>, inst: Inst| {
        let Some((tiles, mask)) = asked.get(&inst) else { return Some(0.0) };
        let mask = mask.and_then(|m| numbers.tile(m));
        for &tile in tiles {
            let places = numbers.tile(tile)?;
            let kept = mask.as_ref().filter(|m| m.len() == places.len());
            let kept = |k: &usize| kept.is_none_or(|m| m[*k] != 0);
            let all = (0..places.len()).filter(kept).map(|k| places[k]);
            found.borrow_mut().entry(tile).or_default().extend(all);
        }
        Some(0.0)
    };
    let (sizes, blocks) = (&problem.sizes, Blocks::of(grid));
    let whole = Costed { kernel, sizes, arrays, blocks, cost, looks_at: &looks_at, least: false }
        .by_block_within(STEPS);
    let found = whole.map_or_else(FxHashMap::default, |_| found.into_inner());
    found.into_iter().map(|(tile, places)| (tile, Numbers::within(places.into_iter().collect()))).collect()
}

/// Accesses by tiles of indices.
fn asked(kernel: &Kernel) -> FxHashMap<Inst, Asked> {
    let mut all = FxHashMap::default();
    kernel.walk(|_, inst| {
        let (op, args) = (&kernel.insts[inst].op, kernel.args(inst));
        if !matches!(op, Op::LoadGather { .. } | Op::StoreScatter { .. } | Op::AtomicScatter { .. }) {
            return;
        }
        let tiles = args[op.indices(args.len())].iter().filter(|&&v| kernel.ty(v).shape().is_some());
        let tiles: Vec<Value> = tiles.map(|&v| plain(kernel, v)).collect();
        all.insert(inst, (tiles, op.is_masked().then(|| plain(kernel, args[args.len() - 1]))));
    });
    all
}

/// The numbers of a tile that repeats them along other dimensions.
pub(super) fn plain(kernel: &Kernel, value: Value) -> Value {
    match kernel.def(value) {
        Some(def) if matches!(kernel.insts[def].op, Op::Broadcast | Op::ExpandDims(_)) => {
            plain(kernel, kernel.args(def)[0])
        }
        _ => value,
    }
}
