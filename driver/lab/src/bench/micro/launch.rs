//! Launches: a kernel that does nothing, in a graph of many, by blocks, threads, shared memory, cluster.

use super::frame::Blocks;
use super::{Case, Frame, Reading, builder};

fn empty(name: &str, frame: Frame) -> Case {
    let build = builder(move |bump, name| {
        frame.build(bump, name, |_, env| vec![env.lane_zero], |_, _, carried| carried.to_vec())
    });
    Case::new(format!("launch.{name}"), "launch", Reading::Launch, build).turns([1, 1])
}

/// All of it.
pub fn cases() -> Vec<Case> {
    let whole = Frame { warps: 12, blocks: Blocks::Each(1), ..Frame::default() };
    let full = Frame { shared: 200 << 10, ..whole.clone() };
    vec![
        empty("one_warp", Frame::default()),
        empty("each_384_threads", whole.clone()),
        empty("each_384_threads_200k", full.clone()),
        empty("each_384_threads_200k_cluster2", Frame { cluster: 2, ..full.clone() }),
        empty("each_384_threads_200k_cluster4", Frame { cluster: 4, ..full }),
        empty("four_each_384_threads", Frame { blocks: Blocks::Each(4), ..whole }),
    ]
}
