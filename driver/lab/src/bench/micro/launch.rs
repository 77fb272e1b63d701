//! Launches in a graph of many: a kernel that does nothing, by blocks, threads, shared memory, cluster; and one that works,
//! which the next launch waits for, or overlaps up to `griddepcontrol.wait`.
//!
//! ```text
//!  time of a launch = turns x time of a turn + what the launch itself costs        two numbers of turns give both
//! ```

use super::frame::Blocks;
use super::{Case, Frame, Reading, builder};
use warplift_ir::machine::Ty;
use warplift_ir::target::Opcode;

fn empty(name: &str, frame: Frame) -> Case {
    let build = builder(move |bump, name| {
        frame.build(bump, name, |_, env| vec![env.lane_zero], |_, _, carried| carried.to_vec())
    });
    Case::new(format!("launch.{name}"), "launch", Reading::Launch, build).turns([1, 1])
}

/// Links of the chain in a turn.
const LENGTH: u32 = 32;

/// A chain of so many turns in every warp; `place` tells apart frames that are not full.
fn working(turns: u32, place: &str, pdl: bool, frame: Frame) -> Case {
    let frame = Frame { pdl, ..frame };
    let build = builder(move |bump, name| {
        frame.build(
            bump,
            name,
            |_, env| vec![env.lane_zero],
            |c, env, carried| {
                let next = |x, k| {
                    // Two operations in turn, so that none can be folded into the one before.
                    let (op, by) =
                        [(Opcode::AddS32, env.thread), (Opcode::Xor, env.lane_zero)][k as usize % 2];
                    c.op(op, &[x, by], Ty::B32)
                };
                vec![(0..LENGTH).fold(carried[0], next)]
            },
        )
    });
    let name = format!("launch.turns{turns}{place}{}", if pdl { ".pdl" } else { "" });
    Case::new(name, "launch", Reading::Launch, build).turns([turns, turns])
}

/// Launches that leave room for the next one's blocks, on other multiprocessors or beside their own, and such that do not.
fn placed(whole: &Frame) -> Vec<Case> {
    let mut list = Vec::new();
    for blocks in [10, 66, 132] {
        for kilobytes in [64, 200] {
            let frame = Frame { blocks: Blocks::Count(blocks), shared: kilobytes << 10, ..whole.clone() };
            let place = format!(".blocks{blocks}.{kilobytes}k");
            list.extend(
                [20, 50]
                    .into_iter()
                    .flat_map(|turns| [false, true].map(|pdl| working(turns, &place, pdl, frame.clone()))),
            );
        }
    }
    list
}

/// All of it.
pub fn cases() -> Vec<Case> {
    let whole = Frame { warps: 12, blocks: Blocks::Each(1), ..Frame::default() };
    let full = Frame { shared: 200 << 10, ..whole.clone() };
    let work = [100, 200].map(|turns| [false, true].map(|pdl| working(turns, "", pdl, full.clone())));
    let placed = placed(&whole);
    let mut list = vec![
        empty("one_warp", Frame::default()),
        empty("each_384_threads", whole.clone()),
        empty("each_384_threads_200k", full.clone()),
        empty("each_384_threads_200k_cluster2", Frame { cluster: 2, ..full.clone() }),
        empty("each_384_threads_200k_cluster4", Frame { cluster: 4, ..full }),
        empty("four_each_384_threads", Frame { blocks: Blocks::Each(4), ..whole }),
    ];
    list.extend(work.into_iter().flatten());
    list.extend(placed);
    list
}
