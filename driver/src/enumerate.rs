//! Mappings for a kernel that has none: complete ones are enumerated, each is compiled, and the best
//! prediction is kept. Nothing flows back from the stages to the choice.
//!
//! ```text
//!  kernel ─► products? ─ yes ─► tiles x raster x epilogue ─┐
//!                └────── no ──► extents x warps ───────────┴─► compile each ─► predict ─► best
//! ```
//!
//! The prediction counts waves of tiles, cycles of tensor cores in a tile, what the epilogue adds,
//! and the operands that a wave of tiles reads, each with a factor measured by hand 2026-11 on an
//! H200. It orders candidates; it promises no time.

use crate::pipeline::{CompileError, Compiled, Options, compile};
use crate::trial::{Sizes, block_work, grid_of};
use std::time::{Duration, Instant};
use warplift_ir::manifest::Param;
use warplift_ir::target::Target;
use warplift_ir::tile::{
    Depth, Dim, Epilogue, Inst, Kernel, KernelMapping, LoopMapping, Mapping, Op, Raster,
};

/// What was chosen, and what choosing cost.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// The mapping.
    pub mapping: Mapping,
    /// What it compiles to.
    pub compiled: Compiled,
    /// Predicted cycles of a multiprocessor for a launch of the nominal sizes.
    pub cycles: f64,
    /// Candidates that compiled, and candidates there were.
    pub tried: (usize, usize),
    /// Time of all compilations.
    pub elapsed: Duration,
}

/// A tile of a product: rows, columns, depth, warpgroups that compute.
type Tile = (i64, i64, i64, u32);

/// Tiles worth trying, with the rasters tried for each; deferred and direct epilogues double them.
const TILES: [(Tile, &[Raster]); 5] = [
    ((128, 256, 64, 2), &[Raster::BandM(16), Raster::BandM(8), Raster::BandN(8), Raster::Linear]),
    ((256, 128, 64, 2), &[Raster::BandM(8), Raster::BandM(16)]),
    ((128, 128, 64, 2), &[Raster::BandM(16), Raster::Linear]),
    ((128, 192, 64, 2), &[Raster::BandM(16)]),
    ((256, 192, 64, 2), &[Raster::BandM(8)]),
];

/// Tiles for operands that no tensor copy brings: threads load them, so they are small.
const PLAIN_TILES: [Tile; 3] = [(128, 128, 32, 2), (128, 64, 32, 2), (64, 64, 32, 1)];

/// Registers of a thread that accumulators may take, deferred results beside them included.
const ACCUMULATORS: i64 = 208;

/// The product that decides about tiles, and the loop around it.
struct Anchor<'a> {
    /// Counter of the loop.
    counter: Option<&'a str>,
    /// Tunables of rows, columns and depth.
    names: [Option<&'a str>; 3],
    /// Extents where no tunable decides.
    fixed: [Option<i64>; 3],
    /// Products that accumulate side by side.
    count: i64,
}

/// Complete mappings of a kernel, about 20 where it multiplies.
pub fn mappings(kernel: &Kernel, target: &Target) -> Vec<Mapping> {
    match anchor(kernel) {
        Some(anchor) => products(kernel, &anchor, target),
        None => elementwise(kernel),
    }
}

fn anchor(kernel: &Kernel) -> Option<Anchor<'_>> {
    let inside = |holder: Inst, mma: Inst| {
        let blocks = &kernel.insts[holder].blocks;
        matches!(kernel.insts[holder].op, Op::For)
            && blocks.iter().any(|&b| kernel.blocks[b].insts.contains(&mma))
    };
    let all: Vec<Inst> =
        kernel.insts.iter().filter(|(_, d)| matches!(d.op, Op::Mma)).map(|(i, _)| i).collect();
    let looped = |mma: Inst| kernel.insts.keys().find(|&h| inside(h, mma));
    let mma = all.iter().copied().find(|&m| looped(m).is_some()).or(all.first().copied())?;
    let shape = |v| kernel.ty(v).shape();
    let (sum, left) = (shape(kernel.args(mma)[0])?, shape(kernel.args(mma)[1])?);
    let dims = [*sum.dims().first()?, *sum.dims().get(1)?, *left.dims().get(1)?];
    let holder = looped(mma);
    let counter = holder.and_then(|h| warplift_isel::loop_name(kernel, h));
    let beside = all.iter().filter(|&&m| holder.is_some() && looped(m) == holder).count();
    let name = |d: Dim| Some(kernel.tunables[d.tunable.filter(|_| (d.mul, d.div) == (1, 1))?].name.as_str());
    Some(Anchor {
        counter,
        names: dims.map(name),
        fixed: dims.map(|d| d.constant().map(i64::from)),
        count: beside.max(1) as i64,
    })
}

fn products(kernel: &Kernel, anchor: &Anchor<'_>, target: &Target) -> Vec<Mapping> {
    let mut found: Vec<Mapping> = Vec::new();
    let mut push = |m: Option<Mapping>| {
        if let Some(m) = m.filter(|m| !found.contains(m)) {
            found.push(m);
        }
    };
    for (tile, rasters) in TILES {
        for &raster in rasters {
            for epilogue in [Epilogue::Deferred, Epilogue::Direct] {
                let whole = KernelMapping { persistent: true, raster, epilogue, ..Default::default() };
                push(product(kernel, anchor, tile, whole, Some(1), target));
            }
        }
    }
    for tile in PLAIN_TILES {
        push(product(kernel, anchor, tile, KernelMapping::default(), Some(0), target));
    }
    found
}

/// One mapping, unless its sums need more registers than there are.
fn product(
    kernel: &Kernel,
    anchor: &Anchor<'_>,
    (m, n, k, consumers): Tile,
    whole: KernelMapping,
    producers: Option<u32>,
    target: &Target,
) -> Option<Mapping> {
    let wish = [m, n, k];
    let extent = |i: usize| anchor.fixed[i].unwrap_or(wish[i]);
    let sums = extent(0) * extent(1) * anchor.count / (128 * i64::from(consumers));
    let held = if whole.epilogue == Epilogue::Deferred { sums / 2 } else { 0 };
    if sums + held > ACCUMULATORS.min(i64::from(target.thread_registers))
        || extent(0) % (64 * i64::from(consumers)) != 0
    {
        return None;
    }
    let tunables = (0..3).filter_map(|i| Some((anchor.names[i]?.to_owned(), wish[i])));
    let pipeline = if producers == Some(0) { Depth::Stages(3) } else { Depth::Fit };
    let looped =
        LoopMapping { pipeline, producers, consumers: Some(consumers), wait: Some(0), ..Default::default() };
    Some(Mapping {
        kernel: kernel.name.clone(),
        tunables: tunables.collect(),
        loops: anchor.counter.map(|c| (c.to_owned(), looped)).into_iter().collect(),
        arrays: Vec::new(),
        tiles: Vec::new(),
        whole,
        locs: Vec::new(),
    })
}

/// Extents around the defaults, and numbers of warps.
fn elementwise(kernel: &Kernel) -> Vec<Mapping> {
    let mut choices: Vec<Vec<(String, i64)>> = vec![Vec::new()];
    for t in kernel.tunables.values().take(2) {
        let extents = [t.default, t.default / 2, t.default * 2].into_iter().filter(|&e| e > 0);
        let extended = extents.flat_map(|e| {
            choices.iter().map(move |c| c.iter().cloned().chain([(t.name.clone(), e)]).collect())
        });
        choices = extended.collect();
    }
    let each = choices.into_iter().flat_map(|tunables| {
        [4, 8].map(|warps| Mapping {
            kernel: kernel.name.clone(),
            tunables: tunables.clone(),
            whole: KernelMapping { warps: Some(warps), ..Default::default() },
            ..Default::default()
        })
    });
    each.collect()
}

/// Compiles every proposal and keeps the one with the best prediction for nominal sizes.
///
/// # Errors
/// None compiles; the error is that of the first.
pub fn best(
    kernel: &Kernel,
    proposals: &[Mapping],
    target: &Target,
    options: &Options,
) -> Result<Chosen, CompileError> {
    let (start, sizes) = (Instant::now(), Sizes::nominal(kernel));
    let mut chosen: Option<(f64, Mapping, Compiled)> = None;
    let (mut refused, mut tried) = (None, 0);
    for mapping in proposals {
        match compile(kernel, mapping, target, options) {
            Ok(compiled) => {
                tried += 1;
                let cycles = predict(kernel, mapping, &compiled, target, &sizes);
                if chosen.as_ref().is_none_or(|(least, ..)| cycles < *least) {
                    chosen = Some((cycles, mapping.clone(), compiled));
                }
            }
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    let tried = (tried, proposals.len());
    match (chosen, refused) {
        (Some((cycles, mapping, compiled)), _) => {
            Ok(Chosen { mapping, compiled, cycles, tried, elapsed: start.elapsed() })
        }
        (None, Some(error)) => Err(error),
        (None, None) => Err(warplift_isel::IselError::whole("no mapping was proposed").into()),
    }
}

/// Multiply-adds of a multiprocessor in a cycle, 16-bit operands.
const TENSOR_RATE: f64 = 2048.0;
/// Cycles that storing a tile of 128 x 256 adds: spread under the next tile, at once through shared
/// memory, by plain stores.
const EPILOGUE: [f64; 3] = [600.0, 2050.0, 8700.0];
/// Slowdown for each 1000 rows and columns that a wave of tiles reads: power, not stalls.
const FOOTPRINT: f64 = 0.0023;
/// Slowdown of tiles of 128 columns against 256: narrower instructions read the left operand more often.
const NARROW: f64 = 0.06;
/// Slowdown of a ring of two stages, and of operands loaded by threads.
const SHALLOW: f64 = 1.16;
const THREADS_LOAD: f64 = 3.0;
/// Bytes of device memory for one multiprocessor in a cycle.
const MEMORY_RATE: f64 = 20.0;
/// Cycles until a load answers.
const LATENCY: f64 = 1000.0;
/// Threads of a multiprocessor.
const THREADS: f64 = 2048.0;

/// Predicted cycles of a multiprocessor for one launch. See the module's head.
pub fn predict(
    kernel: &Kernel,
    mapping: &Mapping,
    compiled: &Compiled,
    target: &Target,
    sizes: &Sizes,
) -> f64 {
    let Ok(resolved) = warplift_isel::map::do_tunables(kernel, mapping) else { return f64::INFINITY };
    let Some(grid) = grid_of(&resolved, sizes) else { return f64::INFINITY };
    let blocks: f64 = grid.iter().map(|&g| g as f64).product();
    let (multiplications, bytes) = block_work(&resolved, sizes);
    let multiprocessors = f64::from(target.multiprocessors);
    match anchor(kernel) {
        Some(anchor) => {
            let extent = |i: usize| {
                let tuned = anchor.names[i].and_then(|n| mapping.tunable(n));
                anchor.fixed[i].or(tuned).unwrap_or(128) as f64
            };
            let waves = (blocks / multiprocessors).ceil();
            let steady =
                multiplications / TENSOR_RATE * slowdown(mapping, compiled, [extent(0), extent(1)], grid);
            waves * (steady + epilogue(mapping, compiled) * extent(0) * extent(1) / 32768.0)
        }
        None => {
            let threads = f64::from(compiled.manifest.block.max(32));
            let resident = (THREADS / threads).floor().clamp(1.0, 32.0);
            let waves = (blocks / (multiprocessors * resident)).ceil();
            waves * (bytes * resident / MEMORY_RATE + LATENCY)
        }
    }
}

fn epilogue(mapping: &Mapping, compiled: &Compiled) -> f64 {
    let deferred = compiled.explained.schedule.deferral.is_some();
    let bulk = mapping.whole.bulk_store && copies_tensors(compiled);
    EPILOGUE[if deferred {
        0
    } else if bulk {
        1
    } else {
        2
    }]
}

fn copies_tensors(compiled: &Compiled) -> bool {
    compiled.manifest.params.iter().any(|p| matches!(p, Param::TensorMap(_)))
}

fn slowdown(mapping: &Mapping, compiled: &Compiled, [height, width]: [f64; 2], grid: [u64; 3]) -> f64 {
    let depth = compiled.explained.schedule.rings.values().map(|r| r.depth).max();
    let ring = match depth {
        Some(depth) if copies_tensors(compiled) => {
            if depth < 3 {
                SHALLOW
            } else {
                1.0
            }
        }
        _ => THREADS_LOAD,
    };
    // A wave of tiles is `along` tiles high and as wide as it takes.
    let wave = 132.0;
    let along = match mapping.whole.raster {
        Raster::Linear | Raster::Folded => wave / (grid[1] as f64).clamp(1.0, wave),
        Raster::BandM(g) => f64::from(g),
        Raster::BandN(g) => wave / f64::from(g.max(1)),
        Raster::Square => (wave * width / height).sqrt(),
    };
    let read = (along * height + wave / along * width) * 32768.0 / (height * width);
    let narrow = 1.0 + NARROW * (256.0 / width - 1.0).max(0.0);
    ring * narrow * (1.0 + FOOTPRINT * read / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::find;
    use warplift_ir::target::SM90A;
    use warplift_ir::tile::verify_mapping;

    fn kernel(name: &str) -> Kernel {
        find(name).unwrap().parse().unwrap().kernels.remove(0)
    }

    #[test]
    fn proposals_are_complete_and_fit_their_kernel() {
        for (name, least) in [("gemm", 18), ("gemm_chain", 4), ("gemm_dual", 4), ("axpy", 6), ("row_max", 18)]
        {
            let kernel = kernel(name);
            let all = mappings(&kernel, &SM90A);
            assert!((least..=24).contains(&all.len()), "{name}: {}", all.len());
            for m in &all {
                assert_eq!(verify_mapping(&kernel, m), Ok(()), "{m}");
                assert!(
                    kernel.tunables.values().all(|t| m.tunable(&t.name).is_some() || name == "gemm_chain"),
                    "{m}"
                );
            }
        }
    }

    #[test]
    fn large_products_get_a_large_tile_and_a_spread_epilogue() {
        let kernel = kernel("gemm");
        let chosen = best(&kernel, &mappings(&kernel, &SM90A), &SM90A, &Options::default()).unwrap();
        let m = &chosen.mapping;
        assert_eq!((m.tunable("BM"), m.tunable("BN")), (Some(128), Some(256)), "{m}");
        assert_eq!((m.whole.epilogue, m.whole.persistent), (Epilogue::Deferred, true), "{m}");
        assert!(chosen.tried.0 > 10 && chosen.cycles.is_finite(), "{:?}", chosen.tried);
    }

    #[test]
    fn what_does_not_compile_is_passed_over() {
        let kernel = kernel("axpy");
        let bad = Mapping { kernel: "other".into(), ..Default::default() };
        let good = Mapping { kernel: "axpy".into(), ..Default::default() };
        let chosen = best(&kernel, &[bad.clone(), good.clone()], &SM90A, &Options::default()).unwrap();
        assert_eq!((chosen.mapping, chosen.tried), (good, (1, 2)));
        assert!(best(&kernel, &[bad], &SM90A, &Options::default()).is_err());
        assert!(best(&kernel, &[], &SM90A, &Options::default()).is_err());
    }
}
