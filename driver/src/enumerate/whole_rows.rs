//! Other ways to tiles that a block loads once, outside of loops.
//!
//! ```text
//!  registers of the threads ──► shared memory, and as many blocks beside each other as have space there: one row comes
//!                               while the one beside it is worked on
//!  block by block           ──► programs that take block after block, and keep what all blocks load
//! ```
//!
//! A row of 65,536 columns takes most registers of a multiprocessor, and nothing is loaded while it is worked on.

use super::forms::LANES;
use crate::problem::behind;
use warplift_ir::target::Target;
use warplift_ir::tile::{ArrayMapping, Inst, Kernel, KernelMapping, Mapping, Op, Way};

/// Blocks beside each other that are proposed at most: each step is a compile.
const RESIDENT: u32 = 4;

/// A tile that is loaded outside of loops.
struct Once {
    array: String,
    bytes: u64,
    /// Whether all blocks load the same.
    shared: bool,
}

/// Mappings that load these tiles in another way. `resolved` is the kernel with the mapping's values of tunables.
pub(super) fn other_ways(resolved: &Kernel, mapping: &Mapping, target: &Target) -> Vec<Mapping> {
    let tiles: Vec<Once> = loads_outside(resolved).filter_map(|i| once(resolved, i)).collect();
    let beside = (mapping.whole.resident < RESIDENT).then(|| {
        let mut other = mapping.clone();
        other.whole.resident = mapping.whole.resident.max(1) + 1;
        other
    });
    held(&tiles, mapping, target).into_iter().chain(persistent(&tiles, mapping)).chain(beside).collect()
}

/// What differs from block to block in shared memory, with the warps of the mapping or half of them, which have twice the registers.
fn held(tiles: &[Once], mapping: &Mapping, target: &Target) -> Vec<Mapping> {
    let own = || tiles.iter().filter(|t| !t.shared);
    let bytes: u64 = own().map(|t| t.bytes).sum();
    let (Some(warps), Some(arrays)) = (mapping.whole.warps, staged(own(), mapping)) else {
        return Vec::new();
    };
    let Some(space) = u64::from(target.shared_bytes).checked_div(bytes) else { return Vec::new() };
    // What of a row has no space there stays in registers.
    let space = space.clamp(2, RESIDENT.into()) as u32;
    let with = |warps: u32| {
        let resident = space.min(target.resident_threads / (warps * LANES)).max(1);
        let whole = KernelMapping { resident, warps: Some(warps), ..mapping.whole };
        Mapping { arrays: arrays.clone(), whole, ..mapping.clone() }
    };
    [warps, warps / 2].into_iter().filter(|&w| w > 0).map(with).collect()
}

/// Programs that take block after block, with what all of them load in shared memory.
fn persistent(tiles: &[Once], mapping: &Mapping) -> Option<Mapping> {
    let mut other = mapping.clone();
    other.whole.persistent = true;
    if let Some(arrays) = staged(tiles.iter().filter(|t| t.shared), mapping) {
        other.arrays = arrays;
    }
    (!mapping.whole.persistent).then_some(other)
}

/// A mapping's arrays with these staged; `None` if it says something of one of them.
fn staged<'t>(
    tiles: impl Iterator<Item = &'t Once>,
    mapping: &Mapping,
) -> Option<Vec<(String, ArrayMapping)>> {
    let mut all = mapping.arrays.clone();
    for tile in tiles {
        let known = mapping.arrays.iter().any(|own| own.0 == tile.array);
        let new = all.iter().all(|own| own.0 != tile.array);
        if known {
            return None;
        }
        if new {
            all.push((tile.array.clone(), ArrayMapping { way: Way::Staged, ..ArrayMapping::default() }));
        }
    }
    (all.len() > mapping.arrays.len()).then_some(all)
}

/// Loads outside of loops.
fn loads_outside(kernel: &Kernel) -> impl Iterator<Item = Inst> + '_ {
    let blocks = |i: Inst| kernel.insts[i].blocks.iter().copied();
    let loops = kernel
        .insts
        .iter()
        .filter(|(_, d)| matches!(d.op, Op::For | Op::While))
        .flat_map(move |(i, _)| blocks(i));
    let inside: Vec<Inst> = loops.flat_map(|b| kernel.inside(b)).collect();
    kernel
        .insts
        .iter()
        .filter(|(_, d)| matches!(d.op, Op::Load))
        .map(|(i, _)| i)
        .filter(move |i| !inside.contains(i))
}

fn once(kernel: &Kernel, load: Inst) -> Option<Once> {
    let ty = kernel.ty(kernel.result(load));
    let array = kernel.argument_of(kernel.args(load)[0])?.name.clone();
    let bytes = ty.shape()?.elements()? * u64::from(ty.elem().bits()) / 8;
    let at = behind(kernel, kernel.args(load).to_vec());
    let shared = at.into_iter().all(|i| !matches!(kernel.insts[i].op, Op::BlockIndex(_) | Op::ProgramId));
    Some(Once { array, bytes, shared })
}
