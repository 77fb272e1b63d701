//! Launches of a product one behind the other on one memory, to see what each leaves for the next one.

use warplift::Compiled;
use warplift::sim::{self, Options as SimOptions};

/// Runs a product of matrices of ones, m x n x k with k = 200, once for each number of multiprocessors, and checks the result
/// of each launch. `left` sees the workspace behind each.
///
/// # Panics
/// Where a launch is refused, has a hazard or a wrong result.
pub fn relaunch(
    made: &Compiled,
    (m, n): (usize, usize),
    multiprocessors: &[u32],
    mut left: impl FnMut(usize, &[u8]),
) {
    const K: usize = 200;
    let module = sim::parse(&made.ptx).unwrap_or_else(|e| panic!("{e}"));
    let mut memory = sim::Memory::new();
    // Ones in f16: every sum is K.
    let ones = |count: usize| [0x00_u8, 0x3c].repeat(count);
    let [a, b] = [("a", m * K), ("b", n * K)].map(|(name, count)| memory.alloc(name, ones(count)));
    let c = memory.alloc("c", vec![0; 2 * m * n]);
    let sizes = [("m", m), ("n", n), ("k", K)].map(|(name, v)| (name, sim::Arg::Int(v as i64)));
    let pointers = [("a", a), ("b", b), ("c", c)].map(|(name, id)| (name, sim::Arg::Pointer(id, 0)));
    let args: Vec<_> = pointers.into_iter().chain(sizes).collect();
    let name = sim::workspace_of(&made.manifest.entry);
    for (launch, &multiprocessors) in multiprocessors.iter().enumerate() {
        memory.bytes_mut(c).fill(0);
        let options = SimOptions { seed: launch as u64, ..SimOptions::default() };
        let prepared =
            sim::launch_from_manifest(&module, &made.manifest, &args, &mut memory, multiprocessors);
        let prepared = prepared.unwrap_or_else(|e| panic!("{e}"));
        let report = sim::run_observed(&prepared, &mut memory, &options, &mut |_, _| {});
        let report = report.unwrap_or_else(|e| panic!("launch {launch}: {e}"));
        assert!(report.hazards.is_empty(), "launch {launch}: {:?}", report.hazards);
        // 200 in f16.
        assert!(memory.bytes(c).chunks(2).all(|x| x == [0x40, 0x5a]), "launch {launch}");
        let workspace = memory.named(&name, 0).map(|id| memory.bytes(id));
        left(launch, workspace.unwrap_or_else(|| panic!("no {name}")));
    }
}
