//! Scalars of a tile that come from memory are found once, by the producer, and broadcast to the other roles through a ring.
//!
//! ```text
//!  each role searches for its tile ─►  the producer searches, a tile ahead ─ tile info, 2 stages ─► all others read words
//! ```
//!
//! Without that each computing warp waits for its own chain of loads before it begins a tile. CUTLASS's persistent tile
//! schedulers broadcast a tile's coordinates so (`WorkTileInfo`, ours are any scalars that the text loads). The pass runs
//! when roles are known: the makers stand in the schedule, and the expansion leaves them out in the other roles.

use super::rings::tile_ring;
use crate::analysis::{Graph, Node, find_tile_info, inside, node_of, reads_fixed, tile_loop};
use rustc_hash::FxHashSet;
use warplift_ir::machine::{BufferData, BufferKind, Func, Program, RingFill, RoleKind, Schedule, TileInfo};

/// Lets the producer find a tile's scalars for all roles, where it searches for them anyway.
pub fn do_broadcast_tile_info(program: &mut Program<'_>, graph: &Graph, s: &mut Schedule) {
    if !s.producer {
        return;
    }
    let info = find_tile_info(&program.func, graph, &s.roles);
    if info.values.is_empty() {
        return;
    }
    match declined(&program.func, graph, s, &info) {
        Some(why) => s.remarks.push(format!("each role finds the scalars of its tile by itself: {why}")),
        None => broadcast(program, s, info),
    }
}

fn broadcast(program: &mut Program<'_>, s: &mut Schedule, info: TileInfo) {
    let (name, bytes) = ("tile info".to_owned(), 4 * info.values.len() as u32);
    let buffer = program.buffers.push(BufferData { name, bytes, align: 4, kind: BufferKind::TileInfo });
    let ring = tile_ring(program, buffer, RingFill::TileInfo);
    s.rings.push(ring);
    s.tile_info = info;
}

/// Why the producer does not find the scalars for others.
fn declined(func: &Func<'_>, graph: &Graph, s: &Schedule, info: &TileInfo) -> Option<&'static str> {
    if s.before_wait.is_some() {
        return Some("the producer begins to copy before the grids before this one have ended");
    }
    (!searches_for_copies(func, graph, s, info)).then_some("the producer's copies do not depend on them")
}

/// Whether the producer loads some of what the scalars follow from for its own copies. A search of others alone would delay it.
/// Bounds of the loop over tiles do not count: each role has them.
fn searches_for_copies(func: &Func<'_>, graph: &Graph, s: &Schedule, info: &TileInfo) -> bool {
    let copies = s.roles.iter().filter(|(_, role)| **role == RoleKind::Producer).map(|(inst, _)| inst);
    let own = graph.slice(copies);
    let values = info.values.iter().map(|&v| node_of(func, v));
    let makers = info.makers.iter().map(|&inst| Node::Inst(inst));
    let searched = graph.slice_up_to(values.chain(makers), &FxHashSet::default());
    let tile = inside(func, tile_loop(func).as_slice());
    let loads = |n: &Node| matches!(n, Node::Inst(i) if tile.contains(i) && reads_fixed(&func.insts[*i]));
    searched.iter().any(|n| loads(n) && own.contains(n))
}
