//! PTX that Triton 3.4 made, as it stands: vector add, a sum of rows, and a product of 64 x 64 tiles for an older
//! GPU (three stages of `cp.async`, `ldmatrix`, `mma.sync`) and for Hopper (`wgmma`).

mod common;

use common::floats::{bytes, floats, halves, read, small};
use std::collections::BTreeSet;
use warplift_sim::{Adversary, HazardKind, Hazards, Launch, Memory, Options, ParamValue, parse, run};

/// A launch by blocks, bytes of dynamic shared memory and parameters; all have 128 threads. The parameter that
/// Triton adds is its empty scratch memory.
struct Foreign<'a> {
    ptx: &'a str,
    entry: &'a str,
    grid: [u32; 3],
    shared: u32,
    params: Vec<ParamValue>,
}

impl Foreign<'_> {
    /// Runs under several orders; the hazards that were met.
    fn run(&self, memory: &mut Memory) -> BTreeSet<HazardKind> {
        let module = parse(self.ptx).unwrap_or_else(|e| panic!("{}: {e}", self.entry));
        let mut launch = Launch::new(&module, self.entry);
        (launch.grid, launch.block, launch.dynamic_shared) = (self.grid, 128, self.shared);
        launch.params = [&self.params[..], &[ParamValue::u64(0)]].concat();
        let mut kinds = BTreeSet::new();
        for (order, seed) in [(Adversary::Earliest, 0), (Adversary::Latest, 0), (Adversary::Classes, 0)] {
            let options = Options { order, seed, hazards: Hazards::Warn, ..Options::default() };
            let report = run(&launch, memory, &options).unwrap_or_else(|e| panic!("{}: {e}", self.entry));
            kinds.extend(report.hazards.iter().map(|h| h.kind));
        }
        kinds
    }
}

#[test]
fn vector_add() {
    let n = 3000;
    let (a, b) = (floats(n), floats(n + 3)[3..].to_vec());
    let mut m = Memory::new();
    let (ia, ib, ic) = (m.alloc("a", bytes(&a)), m.alloc("b", bytes(&b)), m.alloc_poisoned("c", 4 * n));
    let p = |i| ParamValue::Pointer(i, 0);
    let params = vec![p(ia), p(ib), p(ic), ParamValue::u32(n as u32)];
    let ptx = include_str!("ptx/triton_add.ptx");
    let found = Foreign { ptx, entry: "vector_add", grid: [3, 1, 1], shared: 0, params }.run(&mut m);
    assert_eq!(found, BTreeSet::new());
    assert!(read(&m, ic).iter().zip(a.iter().zip(&b)).all(|(c, (a, b))| *c == a + b));
}

/// The lanes behind the fourth exchange a register that a guarded load left as it was; nobody uses it.
#[test]
fn sum_of_rows() {
    let (rows, columns) = (3, 700);
    let x = floats(rows * columns);
    let mut m = Memory::new();
    let (ix, iy) = (m.alloc("x", bytes(&x)), m.alloc_poisoned("y", 4 * rows));
    let p = |i| ParamValue::Pointer(i, 0);
    let params = vec![p(ix), p(iy), ParamValue::u32(columns as u32)];
    let ptx = include_str!("ptx/triton_sum.ptx");
    let found = Foreign { ptx, entry: "row_sum", grid: [3, 1, 1], shared: 16, params }.run(&mut m);
    assert_eq!(found, BTreeSet::from([HazardKind::UninitialisedRegister]));
    let want: Vec<f32> = x.chunks(columns).map(|r| r.iter().sum()).collect();
    assert_eq!(read(&m, iy), want);
}

/// A ragged product on small integers; the hazards that were met.
fn product(ptx: &str, shared: u32) -> BTreeSet<HazardKind> {
    let (rows, columns, depth) = (80, 72, 208);
    let (a, b) = (small(rows * depth, 0), small(depth * columns, 5));
    let mut m = Memory::new();
    let (ia, ib) = (m.alloc("a", halves(&a)), m.alloc("b", halves(&b)));
    let ic = m.alloc_poisoned("c", 4 * rows * columns);
    let p = |i| ParamValue::Pointer(i, 0);
    let sizes = [rows, columns, depth].map(|n| ParamValue::u32(n as u32));
    let params = [&[p(ia), p(ib), p(ic)][..], &sizes].concat();
    let found = Foreign { ptx, entry: "matmul", grid: [2, 2, 1], shared, params }.run(&mut m);
    let c = read(&m, ic);
    for i in 0..rows {
        for j in 0..columns {
            let want: f32 = (0..depth).map(|x| a[i * depth + x] * b[x * columns + j]).sum();
            assert_eq!(c[columns * i + j], want, "{i} {j}");
        }
    }
    found
}

#[test]
fn product_of_warps() {
    assert_eq!(product(include_str!("ptx/triton_matmul.ptx"), 16384), BTreeSet::new());
}

/// `cp.async` fills operands of `wgmma` with no proxy fence between.
#[test]
fn product_of_warpgroups() {
    let found = product(include_str!("ptx/triton_wgmma.ptx"), 24576);
    assert_eq!(found, BTreeSet::from([HazardKind::MissingProxyFence]));
}
