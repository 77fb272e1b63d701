//! The table of `map`'s passes. Only the table names their functions.
//!
//! ```text
//!  name │ what it does │ function over the variants │ features that disable parts of it
//! ```

use super::*;
use crate::IselError;
use warplift_ir::tile::{Origin, VerifyError, verify_mapping};

/// A pass of `map`: over the variants of a kernel.
#[derive(Clone, Copy)]
pub struct MapPass {
    /// Its name.
    pub name: &'static str,
    /// What it does, in one line.
    pub does: &'static str,
    /// The function.
    pub run: fn(&mut Vec<Variant>, &MapContext<'_>) -> Result<()>,
    /// The features that turn parts of it off.
    pub parts: &'static [Feature],
}

/// A pass that rewrites each variant by itself.
macro_rules! each {
    ($name:literal, $does:literal, |$v:ident, $c:pat_param| $body:expr) => {
        MapPass {
            name: $name,
            does: $does,
            run: |variants, $c| {
                variants.iter_mut().for_each(|$v| $body);
                Ok(())
            },
            parts: &[],
        }
    };
}

/// The passes, in order.
pub const PASSES: &[MapPass] = &[
    MapPass {
        name: "tunables",
        does: "puts constants in the place of tunables",
        run: |variants, c| resolve_tunables(variants, c),
        parts: &[],
    },
    each!("narrow_indices", "makes indices, extents and bounds of other types i32", |v, _| {
        do_narrow_indices(&mut v.kernel)
    }),
    each!(
        "plain_accesses",
        "writes asynchronous copies as loads, exchanges with their result, and drops masks that views imply",
        |v, _| { do_plain_accesses(&mut v.kernel) }
    ),
    each!("drop_unused", "drops what nothing uses", |v, _| do_drop_unused(&mut v.kernel)),
    each!("annotate", "writes what the mapping says to loops, views, tiles and stores", |v, c| {
        do_annotate(&mut v.kernel, c.mapping)
    }),
    MapPass {
        name: "cluster_bounds",
        does: "refuses stores that a block past the end of the grid would make",
        run: |variants, c| variants.iter().try_for_each(|v| do_cluster_bounds(&v.kernel, c.mapping)),
        parts: &[],
    },
    each!("expand_functions", "writes functions that have no instruction as arithmetic", |v, _| {
        do_expand_functions(&mut v.kernel)
    }),
    each!("merge_reductions", "computes equal reductions of one tile once", |v, c| {
        do_merge_reductions(&mut v.kernel, c.mapping)
    }),
    each!("merge_updates", "sums neighbours with one index before the update", |v, c| {
        do_merge_updates(&mut v.kernel, c.mapping)
    }),
    each!(
        "expand_updates",
        "writes updates that have no instruction as loops of compare-and-swap",
        |v, _| { do_expand_updates(&mut v.kernel) }
    ),
    each!("bool_memory", "loads and stores truth values as bytes", |v, _| do_bool_memory(&mut v.kernel)),
    each!("derive_counters", "computes numbers that loops only count up from their counters", |v, _| {
        do_derive_counters(&mut v.kernel)
    }),
    each!("forward_shared", "makes values of arrays in shared memory that hand tiles to products", |v, _| {
        do_forward_shared(&mut v.kernel)
    }),
    each!("join_depths", "makes one of products that go on along their depth", |v, _| {
        do_join_depths(&mut v.kernel);
    }),
    each!("reroll", "makes loops that were pipelined, peeled or split by hand plain again", |v, _| {
        do_reroll(&mut v.kernel)
    }),
    each!("reduce_carried", "carries sums of rows, not tiles that are summed up behind the loop", |v, _| {
        do_reduce_carried(&mut v.kernel)
    }),
    MapPass {
        parts: &[Feature::SkipMasked],
        ..each!("skip_masked", "leaves iterations out whose mask leaves nothing", |v, c| {
            do_skip_masked(&mut v.kernel, c.ways);
        })
    },
    each!("canonicalize", "writes arithmetic in the one way that costs least", |v, _| {
        do_canonicalize(&mut v.kernel)
    }),
    each!("sink_indices", "computes tiles of indices where they are used", |v, _| {
        do_sink_indices(&mut v.kernel)
    }),
    each!("hoist_above_products", "moves small work above the products of its iteration", |v, _| {
        do_hoist_above_products(&mut v.kernel)
    }),
    each!("sink_transposes", "moves transposes of loads to their first use", |v, _| {
        do_sink_transposes(&mut v.kernel)
    }),
    each!("pad_depth", "pads depths that tensor cores have no step for with zeros", |v, c| {
        do_pad_depth(&mut v.kernel, c.mapping)
    }),
    each!("pad_columns", "pads right operands' columns that no swizzle divides", |v, c| {
        do_pad_columns(&mut v.kernel, c.mapping)
    }),
    each!("fuse_accumulator", "moves sums into the products that feed them", |v, _| {
        do_fuse_accumulator(&mut v.kernel)
    }),
    each!("swap_ab", "transposes products where operands or reductions want it", |v, c| {
        do_swap_ab(&mut v.kernel, c.mapping)
    }),
    each!("row_blocks", "computes products that start anew the rows of one instruction at a time", |v, c| {
        do_row_blocks(&mut v.kernel, c.target)
    }),
    each!("mask_to_branch", "puts a mask under a branch that is rarely taken", |v, _| {
        do_mask_to_branch(&mut v.kernel)
    }),
    each!("expand_long", "writes arithmetic of 64-bit integers with words of 32 bits", |v, _| {
        do_expand_long(&mut v.kernel)
    }),
    each!("widen", "converts narrow elements before arithmetic on them", |v, _| { do_widen(&mut v.kernel) }),
    MapPass {
        parts: &[Feature::JoinedGroups],
        ..each!("join_groups", "lets iterations of shallow products work on several groups", |v, c| {
            do_join_groups(&mut v.kernel, c)
        })
    },
    MapPass {
        parts: &[Feature::SmemStaging],
        ..each!("stage_computed_operands", "gives computed operands a copy in shared memory", |v, c| {
            do_stage_computed_operands(&mut v.kernel, c.ways)
        })
    },
    MapPass {
        parts: &[Feature::PartialSums],
        ..each!("rearrange_sums", "gives sums of right operands' rows a layout of their own", |v, c| {
            do_rearrange_sums(&mut v.kernel, c.ways)
        })
    },
    MapPass {
        name: "split_k",
        does: "shares out the iterations of a loop that only adds up among blocks",
        run: |variants, c| variants.iter_mut().try_for_each(|v| do_split_k(&mut v.kernel, c)),
        parts: &[],
    },
    MapPass {
        parts: &[Feature::SmemStaging],
        ..each!("group_scales", "loads scales by tensor copies, for several iterations at once", |v, c| {
            do_group_scales(&mut v.kernel, c)
        })
    },
    each!("prefetch_scales", "loads scales of later iterations ahead", |v, c| {
        do_prefetch_scales(&mut v.kernel, c.ways)
    }),
    MapPass {
        parts: &[Feature::UnrolledLoads],
        ..each!("unroll_loads", "runs iterations of loops that memory ends several at once", |v, c| {
            do_unroll_loads(&mut v.kernel, c.mapping, c.ways)
        })
    },
    MapPass {
        parts: &[Feature::PrefetchIndices],
        ..each!("prefetch_indices", "loads indices of later iterations ahead", |v, c| {
            do_prefetch_indices(&mut v.kernel, c.mapping, c.ways)
        })
    },
    MapPass {
        name: "mma_variant",
        does: "makes a variant for each instruction and warp arrangement that fits",
        run: split_variants,
        parts: &[],
    },
    each!("k_blocks", "cuts deep products along their depth", |v, _| { do_k_blocks(&mut v.kernel) }),
    each!("chunk", "cuts wide results of products into chunks", |v, c| {
        do_chunk(&mut v.kernel, c.mapping, v.mma)
    }),
    each!("strip_mine", "works on wide rows in strips", |v, c| { do_strip_mine(&mut v.kernel, c, v.mma) }),
    each!(
        "row_runs",
        "loads rows whose indices follow each other in runs by the first index of each",
        |v, c| { do_row_runs(&mut v.kernel, c.ways) }
    ),
    each!("grid_bounds", "notes which indices stay below the extents of the grid", |v, c| {
        do_grid_bounds(&mut v.kernel, c.mapping)
    }),
    each!("persist", "wraps a persistent kernel in the loop over its tiles", |v, c| {
        if c.mapping.whole.persistent {
            do_persist(&mut v.kernel, c.mapping, c.target);
        }
    }),
    each!("prefetch_next_tile", "moves loads of the next tile before the work on this one", |v, _| {
        do_prefetch_next_tile(&mut v.kernel)
    }),
    each!("teams", "gives every operation the team that executes it", |v, _| {
        do_teams(&mut v.kernel, v.mma)
    }),
];

/// Resolves the tunables of every variant.
fn resolve_tunables(variants: &mut [Variant], c: &MapContext<'_>) -> Result<()> {
    variants.iter_mut().try_for_each(|v| do_tunables(&v.kernel, c.mapping).map(|k| v.kernel = k))
}

/// Replaces the kernel by its variants.
fn split_variants(variants: &mut Vec<Variant>, c: &MapContext<'_>) -> Result<()> {
    let mut split = Vec::new();
    for Variant { kernel, .. } in variants.drain(..) {
        let mut ways = do_mma_variant(&kernel, c.mapping)?;
        let last = ways.pop();
        split.extend(ways.into_iter().map(|mma| Variant { mma, kernel: kernel.clone() }));
        split.extend(last.map(|mma| Variant { mma, kernel }));
    }
    *variants = split;
    Ok(())
}

/// Runs all passes over a kernel. Returns its variants, the default first.
///
/// # Errors
/// The mapping asks for something impossible; the error names its place.
pub fn do_map(kernel: &Kernel, context: &MapContext<'_>) -> Result<Vec<Variant>> {
    check(kernel, context)?;
    let mut variants = vec![Variant::new(kernel.clone())];
    PASSES.iter().try_for_each(|p| (p.run)(&mut variants, context))?;
    Ok(variants)
}

/// The verifier's rules, for a caller that has not verified the mapping.
fn check(kernel: &Kernel, context: &MapContext<'_>) -> Result<()> {
    let first = |errors: Vec<VerifyError>| errors.into_iter().next();
    match verify_mapping(kernel, context.mapping, context.target).map_err(first) {
        Err(Some(e)) => Err(IselError { loc: e.loc, origin: Origin::Mapping, ..IselError::whole(e.message) }),
        _ => Ok(()),
    }
}
