//! `map`: applies a mapping to a kernel. The result is still tile IR, still sequential, and still runs in the
//! interpreter.
//!
//! ```text
//!  tunables ─► constants           tunables.rs
//!  wide indices ─► i32             narrow_indices.rs
//!  functions ─► arithmetic         expand_functions.rs
//!  equal reductions ─► one          merge_reductions.rs
//!  updates of rows ─► of sums       merge_updates.rs: neighbours with one index
//!  updates ─► compare-and-swap     expand_updates.rs: those that no instruction makes
//!  truth values ─► bytes           bool_memory.rs
//!  numbers counted up ─► counters  derive_counters.rs, circular_counters.rs
//!  arrays in shared memory ─► values  forward_shared.rs, reaching.rs: those that hand tiles to products
//!  steps along a depth ─► products  join_depths.rs
//!  hand-made pipelines ─► loops    reroll.rs
//!  tiles summed up ─► sums         reduce_carried.rs
//!  equal texts ─► one text         canonicalize.rs, sink_indices.rs, hoist_above_products.rs, sink_transposes.rs
//!  odd depths, columns ─► padded   pad_depth.rs, pad_columns.rs, common_dim.rs
//!  MMA and addition fused          fuse_accumulator.rs
//!  A and B swapped                 swap_ab.rs
//!  products ─► blocks of rows      row_blocks.rs
//!  masks moved into branches       mask_to_branch.rs
//!  narrow elements widened         widen.rs
//!  groups of weights ─► joined     join_groups.rs: several to an iteration
//!  computed operands staged        stage_computed_operands.rs: operands that MMAs read in shared memory
//!  sums of operands                rearrange_sums.rs: those of right operands lie as threads read them
//!  iterations ─► blocks            split_k.rs, work_items.rs
//!  scales ─► ahead                 group_scales.rs, prefetch_scales.rs
//!  loops ─► iterations at once     unroll_loads.rs
//!  indices ─► ahead                prefetch_indices.rs
//!  clusters                        cluster.rs: refuses stores past the grid
//!  grid ─► loop over tiles         persist.rs, raster.rs, paired_raster.rs
//!  loads ─► a tile ahead           prefetch_next_tile.rs
//!  wide stores ─► chunks           chunk.rs
//!  wide work ─► strips             strip_mine.rs, smem_rows.rs, redundant_store_mask.rs
//!  deep MMAs ─► blocks of k        k_blocks.rs
//!  instruction, warps ─► variants  mma_variant.rs: all that fit; the plan chooses
//!  teams, loop attributes       here
//! ```
//!
//! Logic and mapping are separate: Task-Based Tensor Computations on Modern GPUs, section 3.3.

mod bool_memory;
mod canonicalize;
mod chunk;
mod circular_counters;
mod cluster;
mod common_dim;
mod cursor;
mod decided_branches;
mod derive_counters;
mod drop_unused;
mod elements;
mod expand_functions;
mod expand_long;
mod expand_updates;
mod fixed_loads;
mod fold_grid;
mod forward_shared;
mod fuse_accumulator;
mod group_scales;
mod hoist_above_products;
mod implied_masks;
mod join_depths;
mod join_groups;
mod k_blocks;
mod longest_first;
mod loops;
mod mask_to_branch;
mod merge_reductions;
mod merge_updates;
mod mma_variant;
mod narrow_indices;
mod pad_columns;
mod pad_depth;
mod paired_raster;
mod passes;
mod peeled_end;
mod persist;
mod plain_accesses;
mod plain_indices;
mod prefetch_indices;
mod prefetch_next_tile;
mod prefetch_scales;
mod raster;
mod reaching;
mod rearrange_sums;
mod reduce_carried;
mod redundant_store_mask;
mod reroll;
mod row_blocks;
mod row_runs;
mod sentinels;
mod sink;
mod sink_indices;
mod sink_transposes;
mod skip_masked;
mod smem_rows;
mod split_k;
mod stage_computed_operands;
mod strip_mine;
mod swap_ab;
mod terms;
mod tunables;
mod unroll_loads;
mod widen;
mod work_items;

use crate::Result;
use crate::feature::{Feature, Ways};
use crate::tiles::loop_name;
use crate::variant::MmaVariant;
use warplift_ir::target::Target;
use warplift_ir::tile::{Kernel, Mapping, Op, Team, Type};

pub use bool_memory::do_bool_memory;
pub use canonicalize::do_canonicalize;
pub use chunk::do_chunk;
pub use cluster::do_cluster_bounds;
pub use decided_branches::inline_decided_branches;
pub use derive_counters::do_derive_counters;
pub use drop_unused::do_drop_unused;
pub use expand_functions::do_expand_functions;
pub use expand_long::do_expand_long;
pub use expand_updates::do_expand_updates;
pub(crate) use forward_shared::kept_arrays;
pub use forward_shared::{do_forward_shared, forward_shared_by_defaults};
pub use fuse_accumulator::do_fuse_accumulator;
pub use group_scales::do_group_scales;
pub use hoist_above_products::do_hoist_above_products;
pub use implied_masks::drop_implied_masks;
pub use join_depths::do_join_depths;
pub use join_groups::do_join_groups;
pub use k_blocks::do_k_blocks;
pub use mask_to_branch::do_mask_to_branch;
pub use merge_reductions::do_merge_reductions;
pub use merge_updates::do_merge_updates;
pub use mma_variant::do_mma_variant;
pub use narrow_indices::do_narrow_indices;
pub use pad_columns::do_pad_columns;
pub use pad_depth::do_pad_depth;
pub use passes::{MapPass, PASSES, do_map};
pub use persist::do_persist;
pub use plain_accesses::do_plain_accesses;
pub use plain_indices::plain_indices;
pub use prefetch_indices::do_prefetch_indices;
pub use prefetch_next_tile::do_prefetch_next_tile;
pub use prefetch_scales::do_prefetch_scales;
pub use rearrange_sums::do_rearrange_sums;
pub use reduce_carried::do_reduce_carried;
pub use reroll::do_reroll;
pub use row_blocks::do_row_blocks;
pub use row_runs::do_row_runs;
pub use sink_indices::do_sink_indices;
pub use sink_transposes::do_sink_transposes;
pub use skip_masked::do_skip_masked;
pub use split_k::{can_split_k, can_stream_k, do_split_k};
pub use stage_computed_operands::do_stage_computed_operands;
pub use strip_mine::do_strip_mine;
pub use swap_ab::do_swap_ab;
pub(crate) use terms::Terms;
pub use tunables::do_tunables;
pub use unroll_loads::do_unroll_loads;
pub use widen::do_widen;

/// The input of a pass of `map` besides the kernel.
#[derive(Clone, Copy)]
pub struct MapContext<'m> {
    /// The mapping.
    pub mapping: &'m Mapping,
    /// The chip.
    pub target: &'m Target,
    /// The optimizations that are enabled.
    pub ways: Ways,
}

impl<'m> MapContext<'m> {
    /// The context of a mapping, with the features in `disabled` turned off.
    pub fn new(mapping: &'m Mapping, target: &'m Target, disabled: &[Feature]) -> Self {
        Self { mapping, target, ways: Ways::without(disabled) }
    }
}

/// A kernel on its way through `map`, in one MMA variant.
#[derive(Clone)]
pub struct Variant {
    /// The threads that execute it; undecided before [`do_mma_variant`].
    pub mma: MmaVariant,
    /// The kernel.
    pub kernel: Kernel,
}

impl Variant {
    /// A kernel without a variant yet.
    pub fn new(kernel: Kernel) -> Self {
        Self { mma: MmaVariant::Team(Team::None), kernel }
    }
}

/// Writes the mapping of loops, arrays, tiles and stores to their attributes.
pub fn do_annotate(k: &mut Kernel, mapping: &Mapping) {
    assign_loops(k, mapping);
    assign_arrays(k, mapping);
    assign_tiles(k, mapping);
    assign_stores(k, mapping);
}

fn assign_loops(k: &mut Kernel, mapping: &Mapping) {
    let insts: Vec<_> = k.insts.keys().collect();
    for inst in insts {
        let found =
            loop_name(k, inst).and_then(|n| mapping.loops.iter().find(|(l, _)| l == n)).map(|(_, m)| *m);
        if matches!(k.insts[inst].op, Op::For) {
            k.attrs[inst].looped = Some(found.unwrap_or_default());
        }
    }
}

/// Notes the bounds of grid indices. With clusters, the first index has none: the last cluster may reach past the
/// grid.
pub fn do_grid_bounds(k: &mut Kernel, mapping: &Mapping) {
    let cluster = mapping.whole.cluster;
    for inst in k.insts.keys().collect::<Vec<_>>() {
        if let Op::BlockIndex(d) = k.insts[inst].op {
            k.attrs[inst].below = (cluster <= 1 || d > 0).then_some(d.into());
        }
    }
}

/// Writes the mapping of each array to its views.
fn assign_arrays(k: &mut Kernel, mapping: &Mapping) {
    for (name, array) in &mapping.arrays {
        let Some(pointer) = k.params.iter().find(|p| p.name == *name).map(|p| p.value) else { continue };
        let views: Vec<_> = k.insts.iter().filter(|(_, d)| matches!(d.op, Op::View { .. })).collect();
        let views: Vec<_> =
            views.into_iter().map(|(i, _)| i).filter(|&i| k.args(i).first() == Some(&pointer)).collect();
        for view in views {
            k.attrs[view].array = *array;
        }
    }
}

/// Whether an instruction defines a tile of that name.
fn named(k: &Kernel, inst: warplift_ir::tile::Inst, name: &str) -> bool {
    k.results(inst).iter().any(|&r| k.names[r] == name && matches!(k.ty(r), Type::Tile(..)))
}

/// Writes the layout of each tile to the instruction that defines it.
fn assign_tiles(k: &mut Kernel, mapping: &Mapping) {
    for (name, layout) in &mapping.tiles {
        let makers: Vec<_> = k.insts.keys().filter(|&i| named(k, i, name)).collect();
        for inst in makers {
            k.attrs[inst].layout = Some(Box::new(layout.clone()));
        }
    }
}

/// Notes for every store whether threads or bulk copies perform it.
fn assign_stores(k: &mut Kernel, mapping: &Mapping) {
    for inst in k.insts.keys().collect::<Vec<_>>() {
        k.attrs[inst].by_threads = !mapping.whole.bulk_store && matches!(k.insts[inst].op, Op::Store);
    }
}

/// Gives every operation the team that executes it.
pub fn do_teams(k: &mut Kernel, variant: MmaVariant) {
    let insts: Vec<_> = k.insts.keys().collect();
    for inst in insts {
        k.attrs[inst].team = variant.team();
        if matches!(k.insts[inst].op, Op::Mma { .. }) {
            k.attrs[inst].warp_grid = variant.warp_grid();
        }
    }
}
