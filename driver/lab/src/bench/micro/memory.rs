//! Device memory and the L2 by how many multiprocessors ask, and by the bytes that each has in flight.
//!
//! ```text
//!  block 0   rows   0 ..  63   ■■■■■■■■ ─►      each block goes along its own rows, as a product goes along K
//!  block 1   rows  64 .. 127   ■■■■■■■■ ─►      at the end of a row it takes the next rows that no block has
//!                              └ in flight ┘    all data are read once, and the L2 is emptied before
//! ```
//!
//! Tensor copies fill a ring of boxes (`tma`); plain loads are those of `global`.

use super::frame::Blocks;
use super::tma::{Ground, Shape, loads, shape, small_boxes};
use super::{Case, Reading, global};
use warplift_ir::target::SM90A;

/// Multiprocessors that ask, one block on each.
const BLOCKS: [u32; 11] = [1, 2, 4, 8, 16, 32, 43, 64, 79, 96, 132];
/// Rows of a box of 128 bytes each, and the depths of its ring, which divide a turn.
const RINGS: [(u32, &[u32]); 3] = [(64, &[2, 4, 8]), (128, &[2, 4, 8]), (256, &[2, 4])];
/// Multiprocessors whose copies go where a word in memory says.
const LISTED: [u32; 3] = [1, 43, 132];
/// Multiprocessors whose copies go to both blocks of a cluster.
const CLUSTERS: [u32; 3] = [2, 44, 132];
/// Loads of 16 bytes that a thread has in flight, and warps.
const LOADS: [(u32, u32); 3] = [(4, 4), (4, 16), (8, 24)];
/// Rows of the boxes whose latency is measured.
const LATENCIES: [u32; 3] = [8, 64, 256];

fn box_of(rows: u32, ground: Ground) -> Shape {
    Shape { ground, ..shape(rows, 128, 128) }
}

/// All of it.
pub fn cases() -> Vec<Case> {
    let mut list: Vec<Case> = LATENCIES.map(|rows| latency(rows).cold()).into();
    for blocks in BLOCKS {
        for (rows, depths) in RINGS {
            let memory = |&stages: &u32| copies(box_of(rows, Ground::Memory), stages, blocks).cold();
            list.extend(depths.iter().map(memory));
            let deepest = depths.iter().max().copied().unwrap_or(1);
            list.push(copies(box_of(rows, Ground::Cache), deepest, blocks));
        }
        if blocks == SM90A.multiprocessors {
            let ground = Ground::Memory;
            list.extend(small_boxes().map(|s| copies(Shape { ground, ..s }, 4, blocks).cold()));
        }
        if LISTED.contains(&blocks) {
            let listed = Shape { listed: true, ..box_of(128, Ground::Memory) };
            list.extend([1, 2, 4, 8].map(|stages| copies(listed, stages, blocks).cold()));
        }
        list.extend(LOADS.map(|(loads, warps)| global::rate(loads, warps, blocks).cold()));
    }
    for blocks in CLUSTERS {
        let of = |ground| Shape { multicast: 2, ..box_of(64, ground) };
        list.extend([1, 2, 4, 8].map(|stages| copies(of(Ground::Memory), stages, blocks).cold()));
        list.extend([1, 4, 8].map(|stages| copies(of(Ground::Cache), stages, blocks)));
    }
    list
}

fn latency(rows: u32) -> Case {
    let reading = Reading::Cycles { per: super::tma::LENGTH.into() };
    let case = loads(box_of(rows, Ground::Memory), 1, Blocks::Count(1), reading);
    Case { name: format!("memory.copies.rows{rows}.latency"), group: "memory", ..case }
}

fn copies(shape: Shape, stages: u32, blocks: u32) -> Case {
    let turn = super::tma::LENGTH * shape.stage();
    let case = loads(shape, stages, Blocks::Count(blocks), Reading::BytesPerCycle { bytes: turn.into() });
    let from = if shape.ground == Ground::Memory { "memory" } else { "cache" };
    let (rows, stage) = (shape.rows, shape.stage_name());
    let name = format!("{from}.copies.rows{rows}{stage}.stages{stages}.blocks{blocks}");
    let turns = (Ground::BYTES / (i64::from(turn) * i64::from(blocks))) as u32;
    let axes = [("blocks", blocks.into()), ("in_flight", f64::from(stages * shape.stage()))];
    Case { name, group: "memory", ..case }.axes(&axes).turns([turns / 4, turns])
}
