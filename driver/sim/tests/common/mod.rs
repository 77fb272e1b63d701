//! The hand-written GEMM: data, launch, comparison.
#![allow(dead_code, reason = "each test uses its part")]

pub mod floats;
pub mod kernel;

use warplift_sim::{
    BufferId, Launch, Memory, Module, Options, ParamValue, Report, SimError, TensorMapDesc, parse, run,
};

/// Small integers, so that every sum is exact.
pub fn data(n: usize, seed: u64) -> Vec<f32> {
    let mut x = seed | 1;
    (0..n)
        .map(|_| {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            (x % 9) as f32 - 4.0
        })
        .collect()
}

pub fn f16_bytes(v: &[f32]) -> Vec<u8> {
    v.iter().flat_map(|x| half::f16::from_f32(*x).to_le_bytes()).collect()
}

pub fn map(address: u64, rows: u64, cols: u64, box_rows: u32) -> ParamValue {
    ParamValue::TensorMap(TensorMapDesc {
        address,
        element: "f16".to_owned(),
        dims: vec![cols, rows],
        strides: vec![cols * 2],
        box_dims: vec![64, box_rows],
        swizzle: 128,
    })
}

/// Sizes and the number of blocks.
pub struct Problem {
    pub m: usize,
    pub n: usize,
    pub k: usize,
    pub blocks: u32,
    /// Blocks of a cluster, along M.
    pub cluster: u32,
}

/// The same for the cluster's PTX.
pub const CLUSTER: Problem = Problem { m: 512, n: 64, k: 64 * 15, blocks: 2, cluster: 2 };

/// Runs the GEMM of a PTX text and compares; the number of wrong elements.
pub fn gemm(ptx: &str, p: &Problem, options: &Options) -> Result<(Report, usize), SimError> {
    gemm_of(&parse(ptx).expect("the test's PTX parses"), p, options)
}

/// The same of a parsed module.
pub fn gemm_of(module: &Module, p: &Problem, options: &Options) -> Result<(Report, usize), SimError> {
    let (a, b) = (data(p.m * p.k, 1), data(p.n * p.k, 2));
    let mut memory = Memory::new();
    let buffers: Vec<BufferId> = vec![
        memory.alloc("a", f16_bytes(&a)),
        memory.alloc("b", f16_bytes(&b)),
        memory.alloc_poisoned("c", p.m * p.n * 2),
    ];
    let at = |i: usize| memory.address(buffers[i]);
    let tiles_m = p.m.div_ceil(128 * p.cluster as usize) as u32;
    let mut launch = Launch::new(module, "gemm");
    launch.grid = [p.blocks, 1, 1];
    launch.cluster = [p.cluster, 1, 1];
    launch.block = 384;
    launch.dynamic_shared = 90160;
    launch.params = vec![
        map(at(0), p.m as u64, p.k as u64, 128),
        map(at(1), p.n as u64, p.k as u64, 64 / p.cluster),
        map(at(2), p.m as u64, p.n as u64, 64),
        ParamValue::u32(tiles_m),
        ParamValue::u32(tiles_m * p.n.div_ceil(64) as u32),
        ParamValue::u32(p.k.div_ceil(64) as u32),
    ];
    let report = run(&launch, &mut memory, options)?;
    let c = memory.bytes(buffers[2]);
    let mut wrong = memory.poisoned(buffers[2]);
    for i in 0..p.m {
        for j in 0..p.n {
            let sum: f32 = (0..p.k).map(|k| a[i * p.k + k] * b[j * p.k + k]).sum();
            let at = 2 * (i * p.n + j);
            let got = half::f16::from_le_bytes([c[at], c[at + 1]]);
            wrong += usize::from(got != half::f16::from_f32(sum));
        }
    }
    Ok((report, wrong))
}

/// Ragged in every direction, two tiles for each of two blocks.
pub const SMALL: Problem = Problem { m: 200, n: 120, k: 264, blocks: 2, cluster: 1 };

/// Many wraps of the ring and two tiles a block: what is off by one arrival shows.
pub const LONG: Problem = Problem { m: 256, n: 64, k: 64 * 30, blocks: 1, cluster: 1 };
