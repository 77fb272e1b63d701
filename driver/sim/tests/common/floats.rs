//! Buffers of f32 for kernels that are not ours.

use warplift_sim::{BufferId, Memory};

/// Integers from -50 to 50.
pub fn floats(n: usize) -> Vec<f32> {
    (0..n).map(|i| (i * 37 % 101) as f32 - 50.0).collect()
}

/// Integers from -5 to 5, the first so many left out.
pub fn small(n: usize, skip: usize) -> Vec<f32> {
    floats(n + skip)[skip..].iter().map(|x| (x / 10.0).trunc()).collect()
}

pub fn bytes(v: &[f32]) -> Vec<u8> {
    v.iter().flat_map(|x| x.to_le_bytes()).collect()
}

/// As f16.
pub fn halves(v: &[f32]) -> Vec<u8> {
    v.iter().flat_map(|x| half::f16::from_f32(*x).to_le_bytes()).collect()
}

pub fn read(memory: &Memory, id: BufferId) -> Vec<f32> {
    let all = memory.bytes(id).chunks(4);
    all.map(|c| f32::from_le_bytes(c.try_into().expect("4 bytes"))).collect()
}
