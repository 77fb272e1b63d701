//! Scalars of a tile that come from memory are found once, by the producer, and handed on through a small ring.
//!
//! ```text
//!  each role searches for its tile ─►  the producer searches, a tile ahead ─ tile_scalars, 2 stages ─► all others read words
//! ```
//!
//! Without that each computing warp waits for its own chain of loads before it begins a tile. The pass only makes the
//! buffer: which scalars it holds follows from the program, and the expansion leaves out in other roles what makes them.

use crate::analysis::{Copying, Graph, TileScalars, copying, early_copies};
use warplift_ir::machine::{BufferData, BufferKind, Program};

/// Makes the buffer, where a producer copies and nobody but the computing warps needs the scalars.
pub fn do_hand_on_scalars<'a>(mut program: Program<'a>, graph: &Graph) -> Program<'a> {
    let produced = matches!(copying(&program, graph), Copying::Producer(loads) if !loads.is_empty());
    let halves = |kind| program.buffers_of(kind).next().is_some();
    let early = program.launch.pdl && !early_copies(&program.func, graph).is_empty();
    if !produced || early || halves(BufferKind::Handoff) || halves(BufferKind::Helper) {
        return program;
    }
    let words = TileScalars::found(&program.func, graph).values.len() as u32;
    if words > 0 {
        let (name, kind) = ("tile scalars".to_owned(), BufferKind::TileScalars);
        program.buffers.push(BufferData { name, bytes: 4 * words, align: 4, kind });
    }
    program
}
