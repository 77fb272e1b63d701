//! `map`: a kernel under its mapping, still tile IR, still sequential.
//!
//! ```text
//!  tunables ─► constants        tunables.rs
//!  products turned              orient.rs
//!  masks under branches         guard.rs
//!  narrow elements widened      widen.rs
//!  grid ─► loop over tiles      persist.rs, raster.rs, fold.rs
//!  wide stores ─► chunks        chunk.rs
//!  deep products ─► parts       split.rs
//!  teams, loop attributes       here
//! ```
//!
//! Logic apart from mapping: Task-Based Tensor Computations on Modern GPUs, section 3.3.

mod chunk;
mod fold;
mod guard;
mod orient;
mod persist;
mod raster;
mod sink;
mod split;
mod tunables;
mod widen;

use crate::plan::mma_sync::warps_of_products;
use crate::{IselError, Result};
use warplift_ir::tile::{Kernel, Mapping, Op, Team, Type};

pub use tunables::do_tunables;

/// Applies a mapping.
///
/// # Errors
/// A name that the kernel lacks, an impossible number of warps, an extent that a tunable's value makes
/// fractional or zero.
pub fn do_map(kernel: &Kernel, mapping: &Mapping) -> Result<Kernel> {
    check_names(kernel, mapping)?;
    let mut k = do_tunables(kernel, mapping)?;
    assign_loops(&mut k, mapping);
    assign_arrays(&mut k, mapping);
    assign_tiles(&mut k, mapping);
    orient::do_orient(&mut k, mapping, consumers(mapping)?);
    guard::do_guard(&mut k);
    widen::do_widen(&mut k);
    let team = choose_team(&k, mapping)?;
    split::do_split(&mut k);
    chunk::do_chunks(&mut k, mapping, team)?;
    bound_indices(&mut k, mapping.whole.cluster);
    if mapping.whole.persistent {
        persist::do_persist(&mut k, mapping)?;
    }
    assign_teams(&mut k, team);
    Ok(k)
}

fn check_names(kernel: &Kernel, mapping: &Mapping) -> Result<()> {
    let unknown = |what: &str, name: &str| {
        Err(IselError::whole(format!(
            "mapping of `{}` names {what} `{name}`, which the kernel lacks",
            kernel.name
        )))
    };
    if !mapping.kernel.is_empty() && mapping.kernel != kernel.name {
        let message = format!("mapping of `{}` given for kernel `{}`", mapping.kernel, kernel.name);
        return Err(IselError::whole(message));
    }
    for (name, _) in &mapping.tunables {
        if !kernel.tunables.values().any(|t| t.name == *name) {
            return unknown("tunable", name);
        }
    }
    for (name, _) in &mapping.arrays {
        if !kernel.params.iter().any(|p| p.name == *name && matches!(kernel.ty(p.value), Type::Ptr(_))) {
            return unknown("array", name);
        }
    }
    for (name, _) in &mapping.tiles {
        if !kernel.insts.keys().any(|i| named(kernel, i, name)) {
            return unknown("tile", name);
        }
    }
    for (name, _) in &mapping.loops {
        if !kernel.insts.keys().any(|i| loop_name(kernel, i) == Some(name)) {
            return unknown("loop", name);
        }
    }
    Ok(())
}

/// The name of a loop's counter.
pub fn loop_name(kernel: &Kernel, inst: warplift_ir::tile::Inst) -> Option<&str> {
    let data = &kernel.insts[inst];
    let body = data.blocks.first().filter(|_| matches!(data.op, Op::For))?;
    let counter = kernel.blocks[*body].params.first()?;
    Some(kernel.names[*counter].as_str())
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

/// Warpgroups that the mapping's loops ask for; all must agree.
fn consumers(mapping: &Mapping) -> Result<Option<u32>> {
    let mut all = mapping.loops.iter().filter_map(|(_, l)| l.consumers);
    let first = all.next();
    match (first, all.find(|&c| Some(c) != first)) {
        (Some(a), Some(b)) => Err(IselError::whole(format!(
            "loops ask for {a} and {b} consumer warpgroups; a block has one number"
        ))),
        _ => Ok(first),
    }
}

/// Who executes a kernel: warpgroups where products become `wgmma`, else warps.
fn choose_team(k: &Kernel, mapping: &Mapping) -> Result<Team> {
    let has_mma = k.insts.values().any(|d| matches!(d.op, Op::Mma));
    let groups = consumers(mapping)?;
    let of_products = warps_of_products(k, mapping, groups)?;
    let team = match (has_mma, groups, of_products.or(mapping.whole.warps)) {
        (true, _, Some(w)) if of_products.is_some() => Team::Warps(w),
        (true, g, _) => Team::Warpgroups(g.unwrap_or(1)),
        (false, _, Some(w)) => Team::Warps(w),
        (false, Some(g), None) => Team::Warps(4 * g),
        (false, None, None) => Team::Warps(4),
    };
    let warps = team.warps();
    if !(1..=32).contains(&warps) {
        return Err(IselError::whole(format!("a block has 1 to 32 warps, the mapping asks for {warps}")));
    }
    Ok(team)
}

fn assign_teams(k: &mut Kernel, team: Team) {
    let insts: Vec<_> = k.insts.keys().collect();
    for inst in insts {
        k.attrs[inst].team = team;
    }
}
