//! Tiles no wider than what they are tiles of.
//!
//! ```text
//!  view x : f16[v, 32]    load x[rows, j*BN] : f16[BM, BN]      BM = 8, BN = 1024: 32 of 1024 columns are there
//!                                                               BM = 8, BN = 32, and as many elements: BM = 256, BN = 32
//! ```

use super::propose::{set, settable};
use super::tiling::extent_of;
use crate::problem::{Sizes, evaluate};
use warplift_ir::tile::{Kernel, Mapping, Op, Tunable, Type, Value};

/// The mapping with tunables that are no greater than the extents of all views along which they are extents of tiles: alone, and with another
/// tunable so much greater. Empty where each tile is filled.
pub(super) fn fitted(kernel: &Kernel, mapping: &Mapping, sizes: &Sizes) -> Vec<Mapping> {
    let all = settable(kernel);
    let value = |m: &Mapping, t: Tunable| m.value_of(&kernel.tunables[t]);
    let with = |m: &Mapping, t: Tunable, wish: i64| {
        let (mut other, t) = (m.clone(), &kernel.tunables[t]);
        set(&mut other, &[(t.name.clone(), t.domain.nearest(wish))]);
        other
    };
    let mut narrow = mapping.clone();
    let (mut fewer, mut kept) = (1, Vec::new());
    for &t in &all {
        let (own, extent) = (value(mapping, t), widest(kernel, t, sizes));
        match extent.and_then(|e| u64::try_from(e).ok()).map(|e| e.next_power_of_two() as i64) {
            Some(fit) if fit < own => {
                narrow = with(&narrow, t, fit);
                fewer *= own / fit;
            }
            _ => kept.push(t),
        }
    }
    if fewer == 1 {
        return Vec::new();
    }
    let grown = kept.first().map(|&t| with(&narrow, t, value(&narrow, t).saturating_mul(fewer)));
    [narrow].into_iter().chain(grown).collect()
}

/// The greatest extent of a view along a dimension whose tiles a tunable gives; `None` where one is not known.
fn widest(kernel: &Kernel, tunable: Tunable, sizes: &Sizes) -> Option<i64> {
    let mut widest = Some(0);
    kernel.walk(|_, inst| {
        let tile = match kernel.insts[inst].op {
            Op::Load | Op::LoadGather { .. } => kernel.result(inst),
            Op::Store | Op::StoreScatter { .. } | Op::Atomic(_) | Op::AtomicScatter { .. } => {
                let tiles = |v: &&Value| matches!(kernel.ty(**v), Type::Tile(..));
                let Some(&tile) = kernel.args(inst).iter().rev().find(tiles) else { return };
                tile
            }
            _ => return,
        };
        let dims = kernel.ty(tile).shape().map_or(Vec::new(), |s| s.dims().to_vec());
        for (d, _) in dims.iter().enumerate().filter(|(_, dim)| dim.alone() == Some(tunable)) {
            let extent = extent_of(kernel, kernel.args(inst)[0], d).and_then(|v| evaluate(kernel, v, sizes));
            widest = widest.zip(extent).map(|(a, b)| a.max(b));
        }
    });
    widest.filter(|&e| e > 0)
}
