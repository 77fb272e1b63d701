//! Access patterns, swizzles, conversions and gathers, executed on arrays.

use crate::layout::access::*;
use crate::layout::convert::shuffle::shared_lanes;
use crate::layout::convert::*;
use crate::layout::fragment::*;
use crate::layout::gather::gather;
use crate::layout::shape::Shape;
use crate::layout::shared::*;
use crate::layout::swizzle::*;
use crate::layout::*;

const ROW: Axis = Axis::Dim(0);
const COL: Axis = Axis::Dim(1);

/// A thread's coordinates without the register.
type Thread = Vec<u64>;

/// What each thread holds in each register under a layout, elements numbered row-major.
fn registers(layout: &Layout) -> std::collections::BTreeMap<Thread, Vec<u64>> {
    let mut held = std::collections::BTreeMap::<Thread, Vec<u64>>::new();
    for x in layout.inputs() {
        let at = layout.apply(&x);
        let element = layout.outs().iter().zip(&at).fold(0, |n, (o, c)| n * o.1 + c);
        held.entry(x[1..].to_vec()).or_default().push(element);
    }
    held
}

/// Executes a conversion and checks every register of every thread.
pub(super) fn executes(from: &Layout, to: &Layout, bits: u64) -> Conversion {
    let plan = convert(from, to, bits).unwrap();
    let mut axes = vec![Axis::Reg, Axis::Lane];
    axes.extend(
        from.ins().iter().chain(to.ins()).map(|a| a.0).filter(|a| !matches!(a, Axis::Reg | Axis::Lane)),
    );
    axes.dedup();
    axes = axes.iter().enumerate().filter(|(k, a)| !axes[..*k].contains(a)).map(|(_, a)| *a).collect();
    let (from, to) = (from.with_ins(&axes).unwrap(), to.with_ins(&axes).unwrap());
    let (source, target) = (registers(&from), registers(&to));
    match &plan {
        Conversion::Registers { source: moves } => {
            for (thread, want) in &target {
                let got: Vec<u64> = moves.iter().map(|&r| source[thread][r as usize]).collect();
                assert_eq!(got, *want, "thread {thread:?}");
            }
        }
        Conversion::Shuffle(shuffle) => {
            for (thread, want) in &target {
                assert_eq!(
                    shuffled(shuffle, thread, &source, want.len()),
                    *want,
                    "thread {thread:?} {shuffle:?}"
                );
            }
        }
        Conversion::Shared(pass) => {
            let mut memory = std::collections::BTreeMap::new();
            let write = from.then(&pass.memory).unwrap();
            for x in from.inputs() {
                let old = memory.insert(write.apply(&x)[0], source[&x[1..].to_vec()][x[0] as usize]);
                assert!(old.is_none_or(|o| o == source[&x[1..].to_vec()][x[0] as usize]));
            }
            let read = to.then(&pass.memory).unwrap();
            for x in to.inputs() {
                assert_eq!(memory[&read.apply(&x)[0]], target[&x[1..].to_vec()][x[0] as usize]);
            }
        }
        Conversion::Cells(cells, inner) => {
            let per_cell = if cells.widened { 1 } else { (cells.bits / bits) as usize };
            // A cell is the same elements wherever it lies.
            let mut elements = std::collections::BTreeMap::new();
            for (layout, held) in [(&cells.from, &source), (&cells.to, &target)] {
                for (thread, cell) in registers(&layout.with_ins(&axes).unwrap()) {
                    for (number, run) in cell.iter().zip(held[&thread].chunks(per_cell)) {
                        assert_eq!(elements.entry(*number).or_insert(run.to_vec()), run);
                    }
                }
            }
            assert_eq!(executes(&cells.from, &cells.to, cells.bits), **inner);
        }
    }
    plan
}

/// Registers of a thread after the rounds.
fn shuffled(
    plan: &Shuffle,
    thread: &Thread,
    source: &std::collections::BTreeMap<Thread, Vec<u64>>,
    count: usize,
) -> Vec<u64> {
    let mut got = vec![u64::MAX; count];
    for round in &plan.rounds {
        let mut peer = thread.clone();
        peer[0] = round.from.at(thread[0]);
        for (from, to) in plan.vector_from.iter().zip(&plan.vector_to) {
            let sent = source[&peer][(round.send.at(peer[0]) + from + round.repeat.0) as usize];
            got[(round.receive.at(thread[0]) + to + round.repeat.1) as usize] = sent;
        }
    }
    for &(register, of) in &plan.copies {
        got[register as usize] = got[of as usize];
    }
    got
}

#[test]
fn vectors() {
    // Linear Layouts, table 2: a [512, 2] tile of 8-bit elements is read 16 bytes at a time, over both dimensions.
    let narrow = blocked(&[512, 2], &[8, 2], &[32, 1], &[2, 1], &[1, 0]).unwrap();
    let access = narrow.then(&row_major(512, 2).unwrap()).unwrap();
    assert_eq!(vector_width(&access, 16, 16).unwrap().elements, 16);
    assert_eq!(vector_width(&access, 16, 4).unwrap().elements, 4);
    // Generalized vectorization (section 5.3): the vector runs over the second register bit first.
    let tile = [(ROW, 8), (COL, 64)];
    let swapped = Builder::new(&tile)
        .add(Axis::Reg, 2, &[1, 0])
        .add(Axis::Reg, 4, &[0, 1])
        .add(Axis::Lane, 16, &[0, 4])
        .add(Axis::Lane, 2, &[2, 0])
        .build()
        .unwrap();
    let access = swapped.then(&row_major(8, 64).unwrap()).unwrap();
    assert_eq!(vector_width(&access, 8, 8).unwrap(), Vector { elements: 4, registers: vec![2, 4] });
    assert_eq!(access.contiguous(Axis::Reg, Axis::Mem), 1);
    // An odd pitch allows none.
    let access = swapped.then(&padded(8, 64, 65).unwrap()).unwrap();
    assert_eq!(vector_width(&access, 8, 8).unwrap().elements, 1);
}

/// Executes ldmatrix as the PTX ISA defines it and compares with the access.
fn loads(access: &Layout, bits: u64) -> MatrixCopy {
    let copy = matrix_copy(access, bits).unwrap();
    let per_word = 32 / bits;
    for lane in 0..32 {
        for matrix in 0..copy.count {
            for e in 0..per_word {
                let (row, col) = match copy.trans {
                    false => (lane / 4, lane % 4 * per_word + e),
                    true => (lane % 4 * 2 + e, lane / 4),
                };
                let address = copy.address.apply(&[matrix * 8 + row])[0] + col;
                let mut x = vec![0; access.ins().len()];
                x[0] = copy.register(matrix, e);
                x[1] = lane;
                assert_eq!(access.apply(&x)[0], address, "lane {lane} matrix {matrix}");
            }
        }
    }
    copy
}

#[test]
fn matrix_copies() {
    let swizzle = swizzled(64, 64, 16, 128).unwrap();
    let a = wgmma_a(64, 64, 16, 1).unwrap().then(&swizzle).unwrap();
    let copy = loads(&a, 16);
    assert_eq!((copy.count, copy.trans, copy.wavefronts(16)), (4, false, 4));
    assert_eq!(copy.repeat.len(), 2);
    // An accumulator stored as f16: stmatrix, x4; n24 and n192 repeat over an outer three.
    for n in [24, 64, 192] {
        let acc = wgmma_acc(64, n, 1).unwrap().then(&padded(64, n, n + 8).unwrap()).unwrap();
        let copy = loads(&acc, 16);
        assert_eq!((copy.count, copy.trans), (if n == 24 { 2 } else { 4 }, false));
    }
    // The transpose in memory: ldmatrix.trans.
    let b = mma_b(16, 16).unwrap().then(&swizzled(16, 64, 16, 128).unwrap());
    assert!(
        b.is_ok_and(|b| matrix_copy(&b, 16).is_some_and(|c| c.trans)) || {
            let wide = mma_b(16, 16).unwrap().product(&Layout::identity(Axis::Reg, COL, 8).unwrap()).unwrap();
            loads(&wide.then(&swizzled(16, 64, 16, 128).unwrap()).unwrap(), 16).trans
        }
    );
    let eight = wgmma_a(64, 128, 8, 1).unwrap().then(&swizzled(64, 128, 8, 128).unwrap()).unwrap();
    assert_eq!(loads(&eight, 8).count, 4);
    // Rows of 12 elements are not 16-byte aligned.
    assert!(matrix_copy(&mma_acc().unwrap().then(&padded(16, 8, 12).unwrap()).unwrap(), 16).is_none());
    // Without a swizzle the eight rows of a matrix meet in the same banks.
    let plain = wgmma_a(64, 64, 16, 1).unwrap().then(&row_major(64, 64).unwrap()).unwrap();
    assert_eq!(loads(&plain, 16).wavefronts(16), 32);
}

#[test]
fn bulk_copies() {
    for (rows, cols, bits, span) in
        [(64, 64, 16, 128), (192, 128, 16, 128), (96, 32, 16, 64), (64, 48, 16, 32), (128, 128, 8, 128)]
    {
        let tile = swizzled(rows, cols, bits, span).unwrap();
        let copy = tma_copy(&tile, bits).unwrap();
        assert_eq!((copy.swizzle, copy.box_shape[1]), (span, span * 8 / bits));
        // Executing the boxes fills the tile.
        let unit = copy.box_shape[0] * copy.box_shape[1];
        let one = swizzled(copy.box_shape[0], copy.box_shape[1], bits, span).unwrap();
        for x in tile.inputs() {
            let index = [x[0] / copy.box_shape[0], x[1] / copy.box_shape[1]];
            let inside = [x[0] % copy.box_shape[0], x[1] % copy.box_shape[1]];
            assert_eq!(tile.apply(&x)[0], copy.boxes.apply(&index)[0] * unit + one.apply(&inside)[0]);
        }
    }
    assert_eq!(tma_copy(&swizzled(512, 64, 16, 128).unwrap(), 16).unwrap().box_shape, [256, 64]);
    let plain = tma_copy(&row_major(64, 64).unwrap(), 16).unwrap();
    assert_eq!((plain.swizzle, plain.box_shape), (0, [64, 64]));
    assert!(tma_copy(&mma_swizzled(64, 64, 4, 1, 8).unwrap(), 16).is_none());
    let copies = blocked(&[32, 64], &[1, 8], &[4, 8], &[4, 1], &[1, 0]).unwrap();
    let global = copies.then(&row_major(32, 64).unwrap()).unwrap();
    let shared = copies.then(&swizzled(32, 64, 16, 128).unwrap()).unwrap();
    assert_eq!(cp_async_bytes(&global, &shared, 16, 16), Some(16));
    assert_eq!(cp_async_bytes(&global, &shared, 16, 4), Some(4));
}

#[test]
fn bank_conflicts_by_algebra_and_by_counting() {
    let fragments = [
        blocked(&[64, 64], &[1, 8], &[4, 8], &[1, 1], &[1, 0]).unwrap(),
        blocked(&[64, 64], &[1, 2], &[32, 1], &[1, 2], &[0, 1]).unwrap(),
        blocked(&[64, 64], &[4, 1], &[8, 4], &[2, 1], &[1, 0]).unwrap(),
        wgmma_acc(64, 64, 1).unwrap(),
        wgmma_a(64, 64, 16, 1).unwrap(),
    ];
    let mut conflicts = Vec::new();
    for fragment in &fragments {
        for span in [0, 32, 64, 128] {
            for bits in [8u64, 16, 32] {
                let Ok(memory) = swizzled(64, 64, bits, span) else {
                    continue;
                };
                let access = fragment.then(&memory).unwrap();
                let widest = vector_width(&access, 128 / bits, 64).unwrap().elements;
                for vector in [1, 2, 4, 8, 16].into_iter().filter(|v| *v <= widest) {
                    let fast = wavefronts(&access, bits, vector).unwrap();
                    for at in [[0, 0, 0], [widest % access.in_extent(Axis::Reg), 0, 0]] {
                        assert_eq!(
                            fast,
                            wavefronts_by_evaluation(&access, bits, vector, &at).unwrap(),
                            "{bits} {span} {vector}"
                        );
                    }
                    conflicts.push(fast);
                }
            }
        }
    }
    assert!(conflicts.contains(&1) && conflicts.contains(&32) && conflicts.contains(&8));
}

#[test]
fn optimal_swizzles() {
    // Rows in, columns out, 32 x 32 of 4 bytes: one wavefront each.
    let rows = blocked(&[32, 32], &[1, 1], &[1, 32], &[1, 1], &[1, 0]).unwrap();
    let cols = blocked(&[32, 32], &[1, 1], &[32, 1], &[1, 1], &[0, 1]).unwrap();
    let memory = optimal_swizzle((&rows, Method::Vector), (&cols, Method::Vector), 32).unwrap();
    for fragment in [&rows, &cols] {
        let access = fragment.then(&memory).unwrap();
        let common = vector_width(&access, 4, 4).unwrap().elements;
        assert_eq!(wavefronts(&access, 32, common).unwrap(), (common).max(1));
    }
    // An f16 accumulator through stmatrix to rows of 16 bytes.
    let acc = wgmma_acc(64, 64, 1).unwrap();
    let out = blocked(&[64, 64], &[1, 8], &[4, 8], &[4, 1], &[1, 0]).unwrap();
    let memory = optimal_swizzle((&acc, Method::Matrix), (&out, Method::Vector), 16).unwrap();
    let (store, load) = (acc.then(&memory).unwrap(), out.then(&memory).unwrap());
    assert_eq!(matrix_copy(&store, 16).unwrap().wavefronts(16), 4);
    assert_eq!(vector_width(&load, 8, 8).unwrap().elements, 8);
    assert_eq!(wavefronts(&load, 16, 8).unwrap(), 4);
    assert_eq!(best_tma_swizzle(64, 64, 16, &[&acc, &out]).unwrap().0, 128);
    assert!(
        optimal_swizzle(
            (&wgmma_acc(64, 24, 1).unwrap(), Method::Vector),
            (&wgmma_acc(64, 24, 1).unwrap(), Method::Vector),
            16
        )
        .is_err()
    );
}

#[test]
fn conversions_by_registers() {
    let acc = wgmma_acc(64, 64, 1).unwrap();
    assert_eq!(executes(&acc, &acc, 16), Conversion::Registers { source: (0..32).collect() });
    // The accumulator of one product is the A operand of the next (f16): a permutation of registers.
    for k in [64, 192] {
        let plan = executes(&wgmma_acc(64, k, 1).unwrap(), &wgmma_a(64, k, 16, 1).unwrap(), 16);
        assert_eq!(plan, Conversion::Registers { source: (0..k / 2).collect() });
    }
    let split = wgmma_acc(128, 96, 2).unwrap();
    let reversed = split.then(&Shape::Reshape(vec![128, 96], vec![128, 96]).map().unwrap()).unwrap();
    assert!(matches!(executes(&split, &reversed, 16), Conversion::Registers { .. }));
}

#[test]
fn conversions_by_shuffles() {
    // 8-bit operands: the accumulator's pairs become quadruples of neighbours.
    let plan = executes(&wgmma_acc(64, 64, 1).unwrap(), &wgmma_a(64, 64, 8, 1).unwrap(), 8);
    let Conversion::Shuffle(shuffle) = plan else { panic!("{plan:?}") };
    assert_eq!((shuffle.vector_from.len(), shuffle.rounds.len()), (4, 8));
    let (from, to) = (wgmma_acc(64, 64, 1).unwrap(), wgmma_a(64, 64, 8, 1).unwrap());
    let (shared, lanes) = (shared_lanes(&from, &to), 5);
    // At most 2^(d - |V| - |I| - |G|), where |I| + |G| is the number of lane bits: d = 10 bits of a warp.
    assert!(shared < lanes && shuffle.rounds.len() <= 1 << (10 - 2 - lanes));
    // With an outer three.
    let plan = executes(&wgmma_acc(64, 96, 1).unwrap(), &wgmma_a(64, 96, 8, 1).unwrap(), 8);
    assert!(matches!(plan, Conversion::Shuffle(_)));
    // Register weights 48 and 96 share bits: registers where that is enough, and shuffles, which repeat for them.
    let wide = wgmma_acc(256, 96, 1).unwrap();
    assert!(matches!(executes(&wide, &wgmma_a(256, 96, 16, 1).unwrap(), 16), Conversion::Registers { .. }));
    assert!(matches!(executes(&wide, &wgmma_a(256, 96, 8, 1).unwrap(), 8), Conversion::Shuffle(_)));
    let two = wgmma_acc(128, 96, 1).unwrap();
    assert!(matches!(executes(&two, &wgmma_a(128, 96, 8, 1).unwrap(), 8), Conversion::Shuffle(_)));
    // A warp's transpose.
    let a = blocked(&[32, 32], &[1, 1], &[1, 32], &[1, 1], &[1, 0]).unwrap();
    let b = blocked(&[32, 32], &[1, 1], &[32, 1], &[1, 1], &[0, 1]).unwrap();
    let Conversion::Shuffle(shuffle) = executes(&a, &b, 32) else { panic!() };
    assert_eq!(shuffle.rounds.len(), 32);
    // Copies on both sides: a row statistic of an accumulator to one row for each lane, and back.
    let rows = row_slice(&mma_acc().unwrap(), 1).unwrap();
    let lanes = blocked(&[16], &[1], &[32], &[1], &[0]).unwrap();
    let one = |l: &Layout| l.with_ins(&[Axis::Reg, Axis::Lane]).unwrap();
    assert!(matches!(executes(&rows, &one(&lanes), 32), Conversion::Shuffle(_)));
    assert!(matches!(executes(&one(&lanes), &rows, 32), Conversion::Shuffle(_)));
}

#[test]
fn conversions_by_memory() {
    let rows = blocked(&[64, 64], &[1, 8], &[4, 8], &[4, 1], &[1, 0]).unwrap();
    let acc = wgmma_acc(64, 64, 1).unwrap();
    let Conversion::Shared(pass) = executes(&acc, &rows, 16) else { panic!() };
    // One side by matrices, the other by vectors of 16 bytes.
    assert_ne!(pass.write.method, pass.read.method);
    // Four instructions of 512 bytes on each side, each with the least number of wavefronts.
    assert_eq!(pass.cost(), (4 * 4 + 4 * 4, 4 + 4));
    let odd = blocked(&[64, 96], &[1, 8], &[8, 4], &[4, 1], &[1, 0]).unwrap();
    assert!(matches!(executes(&wgmma_acc(64, 96, 1).unwrap(), &odd, 16), Conversion::Shared(_)));
    assert!(convert(&acc, &odd, 16).is_err());
}

#[test]
fn sizes_no_thread_has() {
    let huge = Builder::new(&[(ROW, 1 << 50)])
        .add(Axis::Reg, 1 << 45, &[1])
        .add(Axis::Lane, 32, &[1 << 45])
        .build()
        .unwrap();
    assert!(matches!(convert(&huge, &huge, 16), Err(LayoutError::Form { parameter: "registers", .. })));
    let tall = swizzled(1 << 31, 64, 16, 128).unwrap();
    assert_eq!(tma_copy(&tall, 16).unwrap().box_shape, [256, 64]);
    assert_eq!(through_shared(&mma_acc().unwrap(), &mma_acc().unwrap(), 16).unwrap().cost().1, 2);
}

#[test]
fn gathers() {
    // Eight columns over a register bit and two lane bits.
    let layout = blocked(&[16, 8], &[1, 2], &[8, 4], &[1, 1], &[1, 0])
        .unwrap()
        .with_ins(&[Axis::Reg, Axis::Lane])
        .unwrap();
    let plan = gather(&layout, 1).unwrap();
    assert_eq!(plan.rounds(), 2);
    for x in layout.inputs() {
        let here = layout.apply(&x);
        for index in 0..8 {
            let (reg, lane) = plan.source(x[0], x[1], index);
            assert_eq!(layout.apply(&[reg, lane])[..], [here[0], index]);
        }
    }
    let across = blocked(&[16, 8], &[1, 1], &[8, 4], &[1, 2], &[1, 0]).unwrap();
    assert!(matches!(gather(&across, 1), Err(LayoutError::Gather { axis: Axis::Warp, dim: 1 })));
}
