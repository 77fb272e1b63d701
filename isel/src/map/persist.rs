//! Persistent kernels: a fixed number of programs loops over all tiles.
//!
//! ```text
//!  body using block_index d      hoisted scalars and views
//!                           ─►   for tile in program_id .. tiles step program_count { i, j = raster(tile); body }
//! ```

use super::cursor::{Cursor, I32};
use super::longest_first::{Longest, longest_along, longest_first};
use super::paired_raster::PairedRaster;
use super::raster::Tiles;
use super::work_items::Deal;
use crate::tiles::{loads_tile, memory, waits_for_blocks, written};
use rustc_hash::FxHashSet;
use warplift_ir::target::Target;
use warplift_ir::tile::{BinOp, Block, Inst, Kernel, Loc, LoopMapping, Mapping, Op, Raster, Type, Value};

/// Wraps the body of a kernel in the loop over its tiles. The verifier has refused a paired raster with clusters or
/// with `pingpong`: their programs take other tiles than the raster counts with.
pub fn do_persist(k: &mut Kernel, mapping: &Mapping, target: &Target) {
    name_grid(k);
    let entry = k.entry;
    let written = written(k);
    // While the body is in its place: the order of its definitions decides.
    let waits = waits_for_blocks(k);
    let raster = if waits { Raster::Linear } else { mapping.whole.raster };
    let longest = if waits { None } else { longest(k, mapping) };
    let old = std::mem::take(&mut k.blocks[entry].insts);
    let footprint = footprint(k);
    let (outside, inside) = split(k, old, &written);
    k.blocks[entry].insts = outside;
    let cluster = mapping.whole.cluster.max(1);
    let grid = neighbours(k, cluster);
    let (taken, bounds) = Taken::new(k, mapping, raster, &grid, cluster);
    let count = bounds[2];
    let body = k.blocks.push(Default::default());
    let tile = k.append_param(body, I32);
    k.names[tile] = fresh_name(k, "tile");
    let programs = target.multiprocessors;
    let walk = |k: &mut Kernel, grid: &[Value], tile| match longest.filter(|l| l.0 < grid.len()) {
        Some((d, end)) => longest_first(k, (entry, body), (grid, d, end), (tile, count)),
        None => {
            Tiles { grid, footprint, raster, cluster, programs }.decode(&mut Cursor::at_end(k, body), tile)
        }
    };
    let index = match (&taken, grid.split_last().filter(|_| mapping.is_shared_out())) {
        (Taken::Paired(pairs), _) => pairs.decode(k, body, &grid, tile),
        (Taken::Dealt(deal), Some((_, tiles))) => {
            let (tile, item) = deal.decode(k, body, tile);
            [walk(k, tiles, tile), vec![item]].concat()
        }
        (_, Some((_, tiles))) => slice_by_slice(k, (entry, body), (tiles, cluster), tile, walk),
        (_, None) => walk(k, &grid, tile),
    };
    for (d, inst) in (0..).zip(index.iter().filter_map(|&v| k.def(v)).collect::<Vec<_>>()) {
        k.attrs[inst].index = true;
        // Clusters are whole, so their blocks may lie past the end of the first dimension. The number of an item has no
        // bound.
        let item = matches!(taken, Taken::Dealt(_)) && d as usize + 1 == index.len();
        k.attrs[inst].below = (!item && (cluster == 1 || d > 0)).then_some(d);
    }
    move_body(k, body, inside, &index);
    let looped = k.append_inst(entry, Op::For, &bounds, &[], &[body], Loc::default());
    k.attrs[looped].persistent = true;
    k.attrs[looped].looped = Some(LoopMapping::default());
    Cursor::at_end(k, entry).effect(Op::Yield, &[]);
}

/// Which tiles a program takes one after the other.
enum Taken {
    /// Those of its number, and of every number so many programs behind it.
    Strided,
    /// From both ends of the first dimension.
    Paired(PairedRaster),
    /// What it is dealt of tiles that programs share out.
    Dealt(Deal),
}

impl Taken {
    /// With start, end and step of the loop over them.
    fn new(
        k: &mut Kernel,
        mapping: &Mapping,
        raster: Raster,
        grid: &[Value],
        cluster: u32,
    ) -> (Self, [Value; 3]) {
        let entry = k.entry;
        let paired = raster == Raster::Paired;
        let tiles = (!paired).then(|| tile_count(k, grid, cluster));
        let id = Cursor::at_end(k, entry).index(Op::ProgramId, &[]);
        let count = Cursor::at_end(k, entry).index(Op::ProgramCount, &[]);
        if let Some(deal) = mapping.is_streamed().then(|| Deal::new(k, id, count)).flatten() {
            let [zero, one] = [0, 1].map(|n| Cursor::at_end(k, entry).int(n));
            let bounds = [zero, deal.visits, one];
            return (Self::Dealt(deal), bounds);
        }
        match tiles {
            Some(end) => (Self::Strided, [id, end, count]),
            None => {
                let paired = PairedRaster::new(k, entry, grid, id, count);
                let bounds = [id, paired.end, count];
                (Self::Paired(paired), bounds)
            }
        }
    }
}

/// The dimension along which tiles get longer or shorter: programs that draw tiles begin with the longest. Bands keep their
/// order, for the L2 cache.
fn longest(k: &Kernel, mapping: &Mapping) -> Option<(usize, Longest)> {
    if !mapping.whole.counter || mapping.whole.raster != Raster::Linear {
        return None;
    }
    (0..k.grid.len()).find_map(|d| Some((d, longest_along(k, d as u8)?)))
}

/// Where blocks share out a loop: all tiles of a slice in the raster's order, then those of the next one. Tiles that run
/// together read the same part of their operands.
fn slice_by_slice(
    k: &mut Kernel,
    (entry, body): (Block, Block),
    (tiles, cluster): (&[Value], u32),
    number: Value,
    walk: impl Fn(&mut Kernel, &[Value], Value) -> Vec<Value>,
) -> Vec<Value> {
    let size = Cursor::at_end(k, entry).int(cluster.into());
    let mut all = size;
    for &extent in tiles {
        all = Cursor::at_end(k, entry).op(BinOp::Mul, all, extent);
    }
    let tile = Cursor::at_end(k, body).op(BinOp::Rem, number, all);
    let slice = Cursor::at_end(k, body).op(BinOp::Div, number, all);
    let mut index = walk(k, tiles, tile);
    index.push(slice);
    index
}

/// `grid_dim` means the tiles, not the programs that take them.
pub(super) fn name_grid(k: &mut Kernel) {
    let extent = |(inst, d): (Inst, &warplift_ir::tile::InstData)| match d.op {
        Op::GridDim(d) => Some((inst, *k.grid.get(usize::from(d))?)),
        _ => None,
    };
    let named: Vec<(Inst, Value)> = k.insts.iter().filter_map(extent).collect();
    let renamed: Vec<(Value, Value)> = named.iter().map(|&(inst, to)| (k.result(inst), to)).collect();
    rename(k, &renamed);
    for block in k.blocks.values_mut() {
        block.insts.retain(|i| named.iter().all(|n| n.0 != *i));
    }
}

/// The number of tiles, over all blocks of all clusters.
fn tile_count(k: &mut Kernel, grid: &[Value], cluster: u32) -> Value {
    let (tiles, entry) = (product(k, grid), k.entry);
    if cluster == 1 {
        return tiles;
    }
    let size = Cursor::at_end(k, entry).int(cluster.into());
    Cursor::at_end(k, entry).op(BinOp::Mul, tiles, size)
}

/// The grid in groups of `cluster` tiles along its first dimension. Consecutive tile numbers, and so the blocks of
/// one cluster, are neighbours there. Tiles past the end are out of bounds.
fn neighbours(k: &mut Kernel, cluster: u32) -> Vec<Value> {
    let mut grid = k.grid.clone();
    if let Some(first) = grid.first_mut().filter(|_| cluster > 1) {
        let entry = k.entry;
        let size = Cursor::at_end(k, entry).int(cluster.into());
        *first = Cursor::at_end(k, entry).op(BinOp::CeilDiv, *first, size);
    }
    grid
}

fn product(k: &mut Kernel, grid: &[Value]) -> Value {
    let entry = k.entry;
    let mut all = grid[0];
    for &g in &grid[1..] {
        all = Cursor::at_end(k, entry).op(BinOp::Mul, all, g);
    }
    all
}

pub(super) fn fresh_name(k: &Kernel, wish: &str) -> String {
    let mut name = wish.to_owned();
    while k.names.values().any(|n| *n == name) {
        name.push('_');
    }
    name
}

/// Elements that one step along each grid dimension covers: the constant factor of its index.
fn footprint(k: &Kernel) -> [i64; 3] {
    let mut found = [1; 3];
    for (inst, data) in k.insts.iter() {
        if !matches!(data.op, Op::Binary(BinOp::Mul)) {
            continue;
        }
        let [x, y] = k.args(inst) else { continue };
        for (index, constant) in [(x, y), (y, x)] {
            let dim = k.def(*index).map(|d| &k.insts[d].op);
            if let (Some(Op::BlockIndex(d)), Some(c)) = (dim, k.int_const(*constant)) {
                found[usize::from(*d).min(2)] = c.max(1);
            }
        }
    }
    found
}

/// Splits the body: pure scalars and views that do not depend on the block index stay outside the loop. So do loads
/// of scalars that nothing writes, and of tiles that stay in shared memory for all tiles.
fn split(k: &Kernel, insts: Vec<Inst>, written: &FxHashSet<Value>) -> (Vec<Inst>, Vec<Inst>) {
    let mut inner: FxHashSet<Value> = FxHashSet::default();
    let kept = |i: Inst| {
        let read = |v: Value| memory(k, v).is_some_and(|p| !written.contains(&p));
        let stays = k.attrs[i].in_parts || !loads_tile(k, i);
        matches!(k.insts[i].op, Op::Load) && stays && read(k.args(i)[0])
    };
    insts.into_iter().partition(|&inst| {
        let data = &k.insts[inst];
        let tile = k.results(inst).iter().any(|&r| matches!(k.ty(r), Type::Tile(..)));
        let bound = matches!(data.op, Op::BlockIndex(_) | Op::Yield)
            || !data.blocks.is_empty()
            || data.op.has_effect();
        let depends = k.args(inst).iter().any(|a| inner.contains(a));
        let tile = tile || k.args(inst).iter().any(|&a| matches!(k.ty(a), Type::Tile(..)));
        let outside = !(bound || depends) && (kept(inst) || !(tile || data.op.is_read()));
        if !outside {
            inner.extend(k.results(inst));
        }
        outside
    })
}

/// Moves the rest into the loop and replaces block indices by decoded ones.
fn move_body(k: &mut Kernel, body: Block, insts: Vec<Inst>, index: &[Value]) {
    let mut renamed = Vec::new();
    for inst in insts {
        match k.insts[inst].op {
            Op::BlockIndex(d) => {
                let to = index[usize::from(d).min(index.len() - 1)];
                renamed.push((k.result(inst), to));
            }
            _ => k.blocks[body].insts.push(inst),
        }
    }
    rename(k, &renamed);
}

/// Replaces every use of some values by others.
pub(super) fn rename(k: &mut Kernel, renamed: &[(Value, Value)]) {
    let all: Vec<Inst> = k.insts.keys().collect();
    for inst in all {
        let mut list = k.insts[inst].args;
        for arg in list.as_mut_slice(&mut k.pool) {
            if let Some((_, to)) = renamed.iter().find(|(from, _)| from == arg) {
                *arg = *to;
            }
        }
        k.insts[inst].args = list;
    }
}
