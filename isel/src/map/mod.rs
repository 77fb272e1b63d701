//! `map`: a kernel under its mapping, still tile IR, still sequential.
//!
//! ```text
//!  tunables ─► constants           tunables.rs
//!  products into their sums        fuse_accumulator.rs
//!  A and B change places           swap_ab.rs
//!  masks under branches            mask_to_branch.rs
//!  narrow elements widened         widen.rs
//!  computed operands ─► copies     stage_computed_operands.rs: those that products read in shared memory
//!  clusters                        cluster.rs: refused where they would store too much
//!  grid ─► loop over tiles         persist.rs, raster.rs, paired_raster.rs
//!  loads ─► a tile ahead           prefetch_next_tile.rs
//!  wide stores ─► chunks           chunk.rs
//!  wide work ─► strips             strip_mine.rs, smem_rows.rs, redundant_store_mask.rs
//!  deep products ─► blocks of k    k_blocks.rs
//!  instruction, warps ─► variants  mma_variant.rs: what divides; the plan chooses
//!  teams, loop attributes       here
//! ```
//!
//! Logic apart from mapping: Task-Based Tensor Computations on Modern GPUs, section 3.3.

mod chunk;
mod cluster;
mod fuse_accumulator;
mod k_blocks;
mod mask_to_branch;
mod mma_variant;
mod paired_raster;
mod persist;
mod prefetch_next_tile;
mod raster;
mod redundant_store_mask;
mod sink;
mod smem_rows;
mod stage_computed_operands;
mod strip_mine;
mod swap_ab;
mod tunables;
mod widen;

use crate::feature::{Feature, Ways};
use crate::tiles::loop_name;
use crate::{IselError, Result};
use warplift_ir::tile::{Kernel, Mapping, Op, Origin, Type, VerifyError, verify_mapping};

pub use tunables::do_tunables;
pub(crate) use widen::constant;

pub use mma_variant::MmaVariant;

/// A kernel under its mapping, in every form that it may take.
pub struct MmaVariants<'m> {
    /// What all forms have in common.
    common: Kernel,
    mapping: &'m Mapping,
    all: Vec<MmaVariant>,
}

impl MmaVariants<'_> {
    /// All forms, the rule's first.
    pub fn all(&self) -> &[MmaVariant] {
        &self.all
    }

    /// The kernel in one of them.
    pub fn build(&self, variant: MmaVariant) -> Kernel {
        let mut k = self.common.clone();
        chunk::do_chunks(&mut k, self.mapping, variant);
        let ahead = strip_mine::do_strip_mine(&mut k, self.mapping, variant);
        bound_indices(&mut k, self.mapping.whole.cluster);
        if self.mapping.whole.persistent {
            persist::do_persist(&mut k, self.mapping);
            prefetch_next_tile::do_prefetch_next_tile(&mut k, &ahead);
        }
        assign_teams(&mut k, variant);
        k
    }
}

/// Applies a mapping, and takes the rule's form.
///
/// # Errors
/// As [`do_map_variants`].
pub fn do_map(kernel: &Kernel, mapping: &Mapping) -> Result<Kernel> {
    let variants = do_map_variants(kernel, mapping)?;
    let first = variants.all.first().ok_or_else(|| IselError::whole("a kernel without a form"))?;
    Ok(variants.build(*first))
}

/// Applies a mapping as far as it is the same for all forms.
///
/// # Errors
/// What [`verify_mapping`] finds, an impossible number of warps, an extent that a tunable's value makes
/// fractional or zero.
pub fn do_map_variants<'m>(kernel: &Kernel, mapping: &'m Mapping) -> Result<MmaVariants<'m>> {
    do_map_variants_without(kernel, mapping, &[])
}

/// The same without some features.
///
/// # Errors
/// As [`do_map_variants`].
pub fn do_map_variants_without<'m>(
    kernel: &Kernel,
    mapping: &'m Mapping,
    disabled: &[Feature],
) -> Result<MmaVariants<'m>> {
    check(kernel, mapping)?;
    let mut k = do_tunables(kernel, mapping)?;
    assign_loops(&mut k, mapping);
    assign_arrays(&mut k, mapping);
    assign_tiles(&mut k, mapping);
    assign_stores(&mut k, mapping);
    cluster::check_ends(&k, mapping)?;
    fuse_accumulator::do_fuse_accumulator(&mut k);
    swap_ab::do_swap_ab(&mut k, mapping, mma_variant::consumers(mapping));
    mask_to_branch::do_mask_to_branch(&mut k);
    widen::do_widen(&mut k);
    stage_computed_operands::do_stage_computed_operands(&mut k, Ways::without(disabled));
    let all = mma_variant::variants(&k, mapping)?;
    k_blocks::do_k_blocks(&mut k);
    Ok(MmaVariants { common: k, mapping, all })
}

/// The verifier's rules, for whoever comes here without it.
fn check(kernel: &Kernel, mapping: &Mapping) -> Result<()> {
    let first = |errors: Vec<VerifyError>| errors.into_iter().next();
    match verify_mapping(kernel, mapping).map_err(first) {
        Err(Some(e)) => Err(IselError { loc: e.loc, origin: Origin::Mapping, ..IselError::whole(e.message) }),
        _ => Ok(()),
    }
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

/// Indices of the grid stay below its extents, but where whole clusters reach past the first one's.
fn bound_indices(k: &mut Kernel, cluster: u32) {
    for inst in k.insts.keys().collect::<Vec<_>>() {
        if let Op::BlockIndex(d) = k.insts[inst].op {
            k.attrs[inst].below = (cluster <= 1 || d > 0).then_some(d.into());
        }
    }
}

/// Every view says how its array is read.
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

/// Whether an instruction gives a tile of that name.
fn named(k: &Kernel, inst: warplift_ir::tile::Inst, name: &str) -> bool {
    k.results(inst).iter().any(|&r| k.names[r] == name && matches!(k.ty(r), Type::Tile(..)))
}

/// What gives a tile says how threads hold it.
fn assign_tiles(k: &mut Kernel, mapping: &Mapping) {
    for (name, layout) in &mapping.tiles {
        let makers: Vec<_> = k.insts.keys().filter(|&i| named(k, i, name)).collect();
        for inst in makers {
            k.attrs[inst].layout = Some(layout.clone());
        }
    }
}

/// Every store says who makes it.
fn assign_stores(k: &mut Kernel, mapping: &Mapping) {
    for inst in k.insts.keys().collect::<Vec<_>>() {
        k.attrs[inst].by_threads = !mapping.whole.bulk_store && matches!(k.insts[inst].op, Op::Store);
    }
}

fn assign_teams(k: &mut Kernel, variant: MmaVariant) {
    let insts: Vec<_> = k.insts.keys().collect();
    for inst in insts {
        k.attrs[inst].team = variant.team();
        if matches!(k.insts[inst].op, Op::Mma) {
            k.attrs[inst].warp_grid = variant.warp_grid();
        }
    }
}
