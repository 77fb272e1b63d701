//! The results of some blocks of a grid, by the interpreter of tile IR.
//!
//! Small launches run completely. For large launches, the corners of the grid and random blocks run, each alone: the
//! block's indices become constants, and the grid becomes a single block.

use super::data::element;
use super::work::block_cost;
use super::{Data, Operand, Scalar, Sizes, ValidationError};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use warplift::problem::{ProblemError, grid_of};
use warplift_ir::interp::{Additions, Arg, BufferId, InterpError, Log, Memory, Number, Options, run};
use warplift_ir::tile::{Kernel, Loc, Op, Type};
use warplift_ir::types::Elem;

/// Elements written: place of the operand, index, value.
pub(super) type Written = FxHashMap<(usize, usize), Number>;

/// The interpreter's result.
pub(super) struct Meaning {
    /// The written elements.
    pub written: Written,
    /// Floats added by atomics: place of the operand, index.
    pub additions: Added,
    /// Blocks that ran, and blocks of the grid.
    pub blocks: (usize, u64),
}

/// What atomics added to each element: place of the operand, index.
pub(super) type Added = FxHashMap<(usize, usize), Additions>;

/// Multiplications that the interpreter may do for one trial: a few seconds on two cores.
const BUDGET: f64 = 4e8;
/// Bytes that copies of the memory may take.
const COPIES: u64 = 8 << 30;

/// Runs blocks of a kernel without tunables.
pub(super) fn meaning(
    kernel: &Kernel,
    sizes: &Sizes,
    operands: &[Operand],
    data: &Data,
    seed: u64,
) -> Result<Meaning, ValidationError> {
    let none = || ProblemError::Operands("the grid has no size for these arguments".into());
    let grid = grid_of(kernel, sizes).ok_or_else(none)?;
    let total: u64 = grid.iter().product();
    let together = work_together(kernel);
    let chosen = match together || total <= affordable(kernel, sizes) {
        true => (0..total).collect(),
        false => sample(grid, affordable(kernel, sizes), seed),
    };
    let bytes: u64 = operands.iter().map(Operand::bytes).sum();
    let copies = (COPIES / bytes.max(1)).clamp(1, rayon::current_num_threads() as u64);
    let lanes = if together { 1 } else { copies as usize };
    let share = chosen.len().div_ceil(lanes).max(1);
    let parts = chosen.par_chunks(share).map(|part| run_blocks(kernel, sizes, operands, data, grid, part));
    let (mut written, mut additions) = (Written::default(), Added::default());
    for part in parts.collect::<Vec<_>>() {
        let (more, added) = part?;
        written.extend(more);
        additions.extend(added);
    }
    Ok(Meaning { written, additions, blocks: (chosen.len(), total) })
}

/// Blocks that the interpreter may run for one trial.
fn affordable(kernel: &Kernel, sizes: &Sizes) -> u64 {
    ((BUDGET / block_cost(kernel, sizes).max(1.0)) as u64).max(4)
}

/// Whether blocks see what other blocks did: they update the same elements, or the last of them to arrive goes on.
fn work_together(kernel: &Kernel) -> bool {
    kernel.insts.values().any(|d| d.op.atomic().is_some() || matches!(d.op, Op::Arrive))
}

/// Whether [`meaning`] runs every block.
pub(super) fn runs_whole(kernel: &Kernel, sizes: &Sizes) -> bool {
    let total = grid_of(kernel, sizes).map(|grid| grid.iter().product::<u64>());
    total.is_some_and(|total| work_together(kernel) || total <= affordable(kernel, sizes))
}

/// Corners of the grid and random blocks, each once.
fn sample(grid: [u64; 3], count: u64, seed: u64) -> Vec<u64> {
    let [x, y, z] = grid;
    let at = |i: u64, j: u64, k: u64| (i * y + j) * z + k;
    let mut chosen = vec![0, at(x - 1, y - 1, z - 1), at(0, y - 1, 0), at(x - 1, 0, z - 1)];
    let mut rng = StdRng::seed_from_u64(seed);
    chosen.extend((4..count).map(|_| rng.random_range(0..x * y * z)));
    chosen.sort_unstable();
    chosen.dedup();
    chosen
}

/// The interpreter's memory with these data, its buffers in order, and the arguments.
pub(super) fn prepared(
    kernel: &Kernel,
    sizes: &Sizes,
    operands: &[Operand],
    data: &Data,
) -> (Memory, Vec<BufferId>, Vec<Arg>) {
    let mut memory = Memory::new();
    let ids: Vec<_> =
        operands.iter().zip(&data.buffers).map(|(o, b)| memory.add(&o.name, b.clone())).collect();
    let mut pointers = ids.iter();
    let args = kernel.params.iter().filter_map(|p| match sizes.get(&p.name) {
        Some(Scalar::Int(v)) => Some(Arg::Int(v)),
        Some(Scalar::Float(v)) => Some(Arg::Float(v)),
        None => pointers.next().map(|&id| Arg::Ptr(id, 0)),
    });
    let args = args.collect();
    (memory, ids, args)
}

fn run_blocks(
    kernel: &Kernel,
    sizes: &Sizes,
    operands: &[Operand],
    data: &Data,
    [x, y, z]: [u64; 3],
    blocks: &[u64],
) -> Result<(Written, Added), ValidationError> {
    let (mut memory, ids, args) = prepared(kernel, sizes, operands, data);
    memory.log = work_together(kernel).then(Box::default);
    let options = Options::default();
    for &block in blocks {
        let index = [block / (y * z), block / z % y, block % z];
        run(&alone(kernel, index, [x, y, z]), &args, &mut memory, &options)
            .map_err(|e| located(kernel, e))?;
    }
    let mut written = Written::default();
    let outputs = operands.iter().enumerate().filter(|(_, o)| o.written);
    for (place, operand) in outputs {
        let after = memory.bytes(ids[place]);
        let before = &data.buffers[place];
        for index in changed(before, after, operand.elem) {
            if let Some(value) = element(after, index, operand.elem) {
                written.insert((place, index), value);
            }
        }
    }
    let added = memory.log.map_or_else(Added::default, |log| by_place(&log, &ids, operands));
    Ok((written, added))
}

/// Additions by place and index instead of buffer and bit.
fn by_place(log: &Log, ids: &[BufferId], operands: &[Operand]) -> Added {
    let each = log.additions.iter().filter_map(|(&(id, bit), &added)| {
        let place = ids.iter().position(|i| *i == id)?;
        let index = usize::try_from(bit).ok()? / operands[place].elem.bits() as usize;
        Some(((place, index), added))
    });
    each.collect()
}

fn located(kernel: &Kernel, mut error: InterpError) -> ValidationError {
    if error.loc == Loc::default() {
        error.loc = kernel.insts.values().map(|d| d.loc).find(|l| l.line > 0).unwrap_or_default();
    }
    ValidationError::Meaning(error)
}

/// Indices of elements whose bytes differ.
fn changed(before: &[u8], after: &[u8], elem: Elem) -> Vec<usize> {
    let width = elem.bits() as usize;
    let bytes = before.iter().zip(after).enumerate().filter(|(_, (b, a))| b != a).map(|(i, _)| i);
    let mut indices: Vec<usize> = bytes.flat_map(|i| i * 8 / width..(i * 8 + 8).div_ceil(width)).collect();
    indices.dedup();
    indices
}

/// The kernel as one block of its grid, with nothing else launched.
fn alone(kernel: &Kernel, index: [u64; 3], grid: [u64; 3]) -> Kernel {
    let mut k = kernel.clone();
    for data in k.insts.values_mut() {
        match data.op {
            Op::BlockIndex(d) => data.op = Op::Int(index[usize::from(d).min(2)] as i64),
            Op::GridDim(d) => data.op = Op::Int(grid[usize::from(d).min(2)] as i64),
            _ => {}
        }
    }
    let one = k.make_inst(Op::Int(1), &[], &[Type::Scalar(Elem::I32)], &[], Loc::default());
    k.blocks[k.entry].insts.insert(0, one);
    k.grid = vec![k.result(one)];
    k
}

#[cfg(test)]
mod tests {
    use super::super::Style;
    use super::*;
    use warplift::kernels::find;
    use warplift::problem::operands;

    fn parts(name: &str, sizes: &str) -> (Kernel, Sizes, Vec<Operand>, Data) {
        let module = find(name).unwrap().parse().unwrap();
        let kernel = &module.kernels[0];
        let sizes = Sizes::parse(kernel, sizes).unwrap();
        let mut mapping = module.mapping(name).unwrap().clone();
        mapping.tunables = mapping.tunables.into_iter().map(|(n, _)| (n, 16)).collect();
        let kernel = warplift_isel::map::do_tunables(kernel, &mapping).unwrap();
        let operands = operands(&kernel, &sizes).unwrap();
        let data = Data::new(&operands, Style::Integers, 1);
        (kernel, sizes, operands, data)
    }

    #[test]
    fn blocks_alone_make_up_the_whole() {
        let (kernel, sizes, operands, data) = parts("gemm", "40x24x32");
        let whole = meaning(&kernel, &sizes, &operands, &data, 1).unwrap();
        assert_eq!((whole.blocks, whole.written.len()), ((6, 6), 40 * 24));
        let (some, _) = run_blocks(&kernel, &sizes, &operands, &data, [3, 2, 1], &[0, 5]).unwrap();
        assert_eq!(some.len(), 16 * 16 + 8 * 8);
        assert!(some.iter().all(|(at, v)| whole.written[at] == *v));
    }

    #[test]
    fn samples_hold_the_corners_once() {
        let chosen = sample([10, 20, 1], 30, 5);
        assert!(chosen.len() > 20 && [0, 19, 180, 199].iter().all(|c| chosen.contains(c)), "{chosen:?}");
        assert_eq!(sample([1, 1, 1], 4, 0), [0]);
    }

    #[test]
    fn changes_are_found_in_packed_elements() {
        assert_eq!(changed(&[0, 0, 0], &[0, 1, 0], Elem::Int(6)), [1, 2]);
        assert_eq!(changed(&[0; 4], &[1, 0, 0, 1], Elem::F16), [0, 1]);
    }
}
