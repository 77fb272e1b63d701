//! Every family against the formula of the PTX ISA, element by element.

use crate::layout::fragment::*;
use crate::layout::shared::*;
use crate::layout::*;

/// Checks `(reg, lane, warp, warpgroup)` against a formula.
fn check(layout: &Layout, name: &str, formula: impl Fn(u64, u64, u64, u64) -> (u64, u64)) {
    let axes = [Axis::Reg, Axis::Lane, Axis::Warp, Axis::Warpgroup];
    let layout = layout.with_ins(&axes).unwrap();
    assert_eq!(layout.in_extent(Axis::Lane), 32);
    for x in layout.inputs() {
        let (row, col) = formula(x[0], x[1], x[2], x[3]);
        assert_eq!(layout.apply(&x)[..], [row, col], "{name} at {x:?}");
    }
}

#[test]
fn wgmma_accumulators_of_all_n() {
    let shapes = (8..=256).step_by(8).map(|n| (64, n, 1));
    let large = [(128, 24, 2), (128, 96, 1), (192, 192, 3), (256, 384, 2), (384, 40, 3)];
    for (m, n, groups) in shapes.chain(large) {
        let layout = wgmma_acc(m, n, groups).unwrap();
        let per_group = m / groups;
        assert_eq!(layout.in_extent(Axis::Reg), n / 2 * per_group / 64);
        check(&layout, &format!("wgmma.acc m{m}n{n}x{groups}"), |r, lane, warp, group| {
            let (atom, i) = (r / (n / 2), r % (n / 2));
            let row = 16 * warp + lane / 4 + if (i / 2) % 2 == 1 { 8 } else { 0 };
            let col = 8 * (i / 4) + (lane % 4) * 2 + i % 2;
            (group * per_group + 64 * atom + row, col)
        });
        assert!(layout.invert().is_ok());
    }
}

#[test]
fn wgmma_a_operands() {
    for (m, k, bits, groups) in
        [(64, 16, 16, 1), (64, 8, 32, 1), (64, 32, 8, 1), (128, 64, 16, 2), (192, 96, 8, 1), (384, 24, 32, 3)]
    {
        let layout = wgmma_a(m, k, bits, groups).unwrap();
        let (p, per_group, step) = (32 / bits, m / groups, 256 / bits);
        let regs = step / 2;
        check(&layout, &format!("wgmma.a m{m}k{k} b{bits}"), |r, lane, warp, group| {
            let i = r % regs;
            let instruction = r / regs % (k / step);
            let atom = r / regs / (k / step);
            // f16: row is group id for i in 0..2 and 4..6; column gains 8 from i = 4.
            let row = lane / 4 + if (i / p).is_multiple_of(2) { 0 } else { 8 };
            let col = (lane % 4) * p + i % p + if i / p < 2 { 0 } else { step / 2 };
            (group * per_group + 64 * atom + 16 * warp + row, instruction * step + col)
        });
    }
}

#[test]
fn mma_operands() {
    check(&mma_acc().unwrap(), "mma.acc", |i, lane, _, _| {
        (lane / 4 + if i < 2 { 0 } else { 8 }, (lane % 4) * 2 + (i & 1))
    });
    check(&mma_a(16, 16).unwrap(), "m16n8k16 A f16", |i, lane, _, _| {
        let row = if i < 2 || (4..6).contains(&i) { lane / 4 } else { lane / 4 + 8 };
        (row, (lane % 4) * 2 + (i & 1) + if i < 4 { 0 } else { 8 })
    });
    check(&mma_b(16, 16).unwrap(), "m16n8k16 B f16", |i, lane, _, _| {
        ((lane % 4) * 2 + (i & 1) + if i < 2 { 0 } else { 8 }, lane / 4)
    });
    check(&mma_a(8, 32).unwrap(), "m16n8k8 A tf32", |i, lane, _, _| {
        let row = if i == 0 || i == 2 { lane / 4 } else { lane / 4 + 8 };
        (row, lane % 4 + if i < 2 { 0 } else { 4 })
    });
    check(&mma_b(32, 8).unwrap(), "m16n8k32 B s8", |i, lane, _, _| {
        ((lane % 4) * 4 + (i & 3) + if i < 4 { 0 } else { 16 }, lane / 4)
    });
    check(&mma_a(64, 4).unwrap(), "m16n8k64 A s4", |i, lane, _, _| {
        let row = if i < 8 || (16..24).contains(&i) { lane / 4 } else { lane / 4 + 8 };
        (row, (lane % 4) * 8 + (i & 7) + if i < 16 { 0 } else { 32 })
    });
}

#[test]
fn matrix_loads() {
    for count in [1, 2, 4] {
        let at = |i: u64, lane: u64| (lane / 4, 2 * (lane % 4) + i % 2);
        check(&ldmatrix(count, false).unwrap(), "ldmatrix", |i, lane, _, _| {
            (8 * (i / 2) + at(i, lane).0, at(i, lane).1)
        });
        check(&stmatrix(count, true).unwrap(), "stmatrix.trans", |i, lane, _, _| {
            (8 * (i / 2) + at(i, lane).1, at(i, lane).0)
        });
    }
    assert!(matches!(ldmatrix(3, false), Err(LayoutError::Form { value: 3, .. })));
}

#[test]
fn swizzled_tiles_are_what_tma_writes() {
    for (rows, cols, bits, span) in [
        (64, 64, 16, 128),
        (96, 64, 16, 128),
        (192, 128, 16, 128),
        (8, 32, 32, 128),
        (128, 256, 8, 128),
        (4, 128, 16, 128),
        (96, 32, 16, 64),
        (24, 96, 16, 64),
        (64, 16, 16, 32),
        (40, 48, 16, 32),
        (16, 256, 4, 128),
        (1, 64, 16, 128),
    ] {
        let layout = swizzled(rows, cols, bits, span).unwrap();
        let pitch = span * 8 / bits;
        for x in layout.inputs() {
            let (row, col) = (x[0], x[1]);
            let bit = ((col / pitch) * rows * pitch + row * pitch + col % pitch) * bits;
            let byte = bit / 8;
            let mask = match span {
                128 => 7,
                64 => 3,
                _ => 1,
            };
            let byte = byte ^ ((byte >> 7 & mask) << 4);
            let want = (byte * 8 + bit % 8) / bits;
            assert_eq!(layout.apply(&x)[..], [want], "{rows}x{cols} b{bits} swizzle {span} at {x:?}");
        }
        let back = layout.invert().unwrap();
        assert_eq!(back.invert().unwrap(), layout);
        let swizzles = rows > 1;
        let width = if swizzles { 128 / bits } else { 64 };
        assert_eq!(layout.contiguous(Axis::Dim(1), Axis::Mem), width);
    }
    assert!(swizzled(12, 64, 16, 128).is_err());
    assert!(swizzled(64, 48, 16, 128).is_err());
}

#[test]
fn plain_tiles() {
    let layout = padded(24, 20, 28).unwrap();
    assert!(layout.inputs().all(|x| layout.apply(&x)[0] == x[0] * 28 + x[1]));
    assert_eq!(layout.contiguous(Axis::Dim(1), Axis::Mem), 4);
    let layout = row_major(24, 20).unwrap();
    assert_eq!(layout, swizzled(24, 20, 16, 0).unwrap());
    assert!(padded(4, 8, 7).is_err());
}

#[test]
fn blocked_layouts() {
    // 96 x 64: a thread holds 1 x 8, 8 x 4 lanes, 4 x 1 warps; rows repeat 3 times, columns twice.
    let layout = blocked(&[96, 64], &[1, 8], &[8, 4], &[4, 1], &[1, 0]).unwrap();
    check(&layout, "blocked", |r, lane, warp, _| {
        let (i, rep) = (r % 8, r / 8);
        (8 * warp + lane / 4 + 32 * (rep / 2), (lane % 4) * 8 + i + 32 * (rep % 2))
    });
    // A short dimension: lanes 8 to 31 repeat.
    let layout = blocked(&[8], &[1], &[32], &[2], &[0]).unwrap();
    check(
        &layout.product(&Layout::zeros(Axis::Reg, 1, &[(Axis::Dim(1), 1)]).unwrap()).unwrap(),
        "short",
        |_, lane, _, _| (lane % 8, 0),
    );
    assert_eq!(layout.free_mask(Axis::Lane), 24);
    assert_eq!(layout.free_mask(Axis::Warp), 1);
    assert!(blocked(&[7], &[2], &[32], &[1], &[0]).is_err());
}

#[test]
fn sliced_accumulator() {
    let acc = wgmma_acc(64, 24, 1).unwrap();
    let rows = row_slice(&acc, 1).unwrap();
    assert_eq!(rows.outs(), [(Axis::Dim(0), 64)]);
    assert_eq!(rows.in_extent(Axis::Reg), 2);
    for x in rows.inputs() {
        assert_eq!(rows.apply(&x)[..], [16 * x[2] + x[1] / 4 + 8 * x[0]]);
    }
    assert_eq!(rows.free_mask(Axis::Lane), 3);
    let cols = row_slice(&acc, 0).unwrap();
    assert_eq!(cols.outs(), [(Axis::Dim(0), 24)]);
    assert_eq!(cols.in_extent(Axis::Reg), 6);
}

#[test]
fn mma_sync_of_all_shapes_and_types() {
    // m16n8k4/8 tf32, k4/8/16 f64, k8/16 f16, k16/32 s8 and e4m3, k32/64 s4, k128/256 b1: rows g and g + 8, k in registers of four lanes.
    for (k, bits) in [
        (4, 32),
        (8, 32),
        (4, 64),
        (8, 64),
        (16, 64),
        (8, 16),
        (16, 16),
        (16, 8),
        (32, 8),
        (32, 4),
        (64, 4),
        (128, 1),
        (256, 1),
    ] {
        let p = if bits == 64 { 1 } else { 32 / bits };
        check(&mma_a(k, bits).unwrap(), &format!("mma.a k{k} b{bits}"), |i, lane, _, _| {
            let (g, t) = (lane >> 2, lane & 3);
            let (word, sub) = (i / p, i % p);
            (if word & 1 == 0 { g } else { g + 8 }, t * p + sub + 4 * p * (word >> 1))
        });
        check(&mma_b(k, bits).unwrap(), &format!("mma.b k{k} b{bits}"), |i, lane, _, _| {
            let (g, t) = (lane >> 2, lane & 3);
            (t * p + i % p + 4 * p * (i / p), g)
        });
    }
    for (k, bits, p) in [(4, 64, 1), (16, 8, 4), (32, 4, 8), (128, 1, 32)] {
        check(&mma8_a(k, bits).unwrap(), "mma.m8n8 A", |i, lane, _, _| (lane >> 2, (lane % 4) * p + i));
    }
    check(&mma8_acc().unwrap(), "mma.m8n8 C", |i, lane, _, _| (lane >> 2, (lane % 4) * 2 + (i & 1)));
}

#[test]
fn quad_pairs_of_m8n8k4() {
    let formula = |operand, i: u64, lane: u64| {
        let high = if lane < 16 { 0 } else { 4 };
        match operand {
            QuadPair::AlongK => (lane % 4 + high, i),
            QuadPair::AcrossK => (i + high, lane % 4),
            QuadPair::AccF16 => (lane % 4 + high, i),
            QuadPair::AccF32 => ((lane & 1) + (i & 2) + high, (i & 4) + (lane & 2) + (i & 1)),
        }
    };
    for operand in [QuadPair::AlongK, QuadPair::AcrossK, QuadPair::AccF16, QuadPair::AccF32] {
        let layout = mma_quad_pair(operand).unwrap();
        for x in layout.inputs() {
            let (row, col) = formula(operand, x[0], x[1]);
            assert_eq!(layout.apply(&x)[..], [x[1] / 4 % 4, row, col], "{operand:?} at {x:?}");
        }
    }
}

#[test]
fn mma_swizzling() {
    // Linear Layouts, definition 4.11.
    for (rows, cols, vec, per_phase, max_phase) in
        [(16, 64, 8, 1, 8), (32, 32, 8, 2, 4), (8, 16, 4, 4, 2), (64, 64, 1, 1, 64)]
    {
        let layout = mma_swizzled(rows, cols, vec, per_phase, max_phase).unwrap();
        for x in layout.inputs() {
            let (i, j) = (x[0], x[1]);
            let offset = ((((i / per_phase) % max_phase) ^ (j / vec)) * vec) ^ (j % vec);
            assert_eq!(layout.apply(&x)[0], i * cols + offset);
        }
        assert!(layout.invert().is_ok());
    }
    assert!(mma_swizzled(16, 64, 8, 1, 16).is_err());
    let core = core_matrices(24, 32, 16).unwrap();
    assert!(core.inputs().all(|x| core.apply(&x)[0] == x[1] / 8 * 24 * 8 + x[0] * 8 + x[1] % 8));
}
