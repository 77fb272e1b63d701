//! The operations against evaluation.

use crate::layout::fragment::*;
use crate::layout::shared::*;
use crate::layout::*;

const ROW: Axis = Axis::Dim(0);
const COL: Axis = Axis::Dim(1);

/// `a` then `b`, point by point.
fn composes(a: &Layout, b: &Layout) {
    let both = a.then(b).unwrap();
    for x in a.inputs() {
        assert_eq!(both.apply(&x), b.apply(&a.apply(&x)), "at {x:?}");
    }
}

#[test]
fn composition_of_fragments_and_memory() {
    for (m, n) in [(64, 64), (64, 192), (192, 96), (64, 24)] {
        let acc = wgmma_acc(m, n, 1).unwrap();
        composes(&acc, &row_major(m, n).unwrap());
        composes(&acc, &padded(m, n, n + 8).unwrap());
        if n % 64 == 0 {
            composes(&acc, &swizzled(m, n, 16, 128).unwrap());
            let copy = swizzled(m, n, 16, 128).unwrap().invert().unwrap();
            composes(&row_major(m, n).unwrap().invert().unwrap(), &copy.invert().unwrap());
        }
    }
}

#[test]
fn composition_refuses_carries() {
    let three = Layout::strided(Axis::Reg, ROW, 4, 3, 16).unwrap();
    let bits = Builder::new(&[(Axis::Mem, 16)])
        .xor(ROW, &[1])
        .xor(ROW, &[3])
        .xor(ROW, &[4])
        .xor(ROW, &[8])
        .build()
        .unwrap();
    assert!(matches!(three.then(&bits), Err(LayoutError::Carry { .. } | LayoutError::Misaligned { .. })));
    let wide = Layout::identity(Axis::Reg, ROW, 32).unwrap();
    assert!(matches!(wide.then(&bits), Err(LayoutError::OutOfRange { .. })));
    let other = Layout::identity(Axis::Reg, COL, 4).unwrap();
    assert!(matches!(other.then(&bits), Err(LayoutError::MissingAxis(ROW))));
}

#[test]
fn the_form_is_canonical() {
    // 24 columns as 8 x 3, 2 x 12 and at once.
    let whole = Layout::identity(Axis::Reg, COL, 24).unwrap();
    let out = [(COL, 24)];
    let a = Builder::new(&out).add(Axis::Reg, 3, &[1]).add(Axis::Reg, 8, &[3]).build().unwrap();
    let b = Builder::new(&out).xor(Axis::Reg, &[1]).add(Axis::Reg, 12, &[2]).build().unwrap();
    assert_eq!(whole, a);
    assert_eq!(whole, b);
    assert!(!whole.is_linear());
    assert!(Layout::identity(Axis::Reg, COL, 32).unwrap().is_linear());
    let basis = whole.basis(Axis::Reg);
    assert_eq!(basis.len(), 4);
    assert_eq!((basis[3].weight, basis[3].extent, basis[3].step, basis[3].out[0]), (8, 3, Step::Add, 8));
}

#[test]
fn products_and_divisions() {
    let outs = [(ROW, 8), (COL, 8)];
    let tile = ldmatrix(1, false).unwrap();
    let more = Builder::new(&[(ROW, 3), (COL, 2)])
        .add(Axis::Reg, 3, &[1, 0])
        .add(Axis::Reg, 2, &[0, 1])
        .build()
        .unwrap();
    let product = tile.product(&more).unwrap();
    assert_eq!(product.outs(), [(ROW, 24), (COL, 16)]);
    for x in product.inputs() {
        let (low, high) = (tile.apply(&[x[0] % 2, x[1]]), more.apply(&[x[0] / 2]));
        assert_eq!(product.apply(&x)[..], [low[0] + 8 * high[0], low[1] + 8 * high[1]]);
    }
    let quotient = product.left_divide(&tile).unwrap();
    assert_eq!(tile.product(&quotient).unwrap(), product);
    assert_eq!(quotient.in_extent(Axis::Reg), 6);
    assert!(product.left_divide(&ldmatrix(1, true).unwrap()).is_err());
    assert!(Layout::zeros(Axis::Lane, 4, &outs).unwrap().product(&tile).unwrap().free_mask(Axis::Lane) == 3);
}

#[test]
fn inverses_of_layouts_that_repeat() {
    let layout = blocked(&[8, 6], &[1, 2], &[8, 4], &[2, 1], &[1, 0]);
    assert!(matches!(layout, Err(LayoutError::NotDivisible { .. })));
    let layout = blocked(&[24, 16], &[1, 2], &[8, 4], &[2, 1], &[1, 0]);
    assert!(layout.is_err());
    let layout = blocked(&[48, 4], &[1, 2], &[8, 4], &[2, 1], &[1, 0]).unwrap();
    assert!(matches!(layout.invert(), Err(LayoutError::NotInjective { axis: Axis::Lane, .. })));
    let back = layout.right_inverse().unwrap();
    for y in back.inputs() {
        assert_eq!(layout.apply(&back.apply(&y)), y);
    }
    assert_eq!(layout.replicated(Axis::Lane).len(), 1);
}

#[test]
fn replicated_digits_select_each_element_once() {
    let dependent = Builder::new(&[(ROW, 4)])
        .xor(Axis::Reg, &[1])
        .xor(Axis::Reg, &[2])
        .xor(Axis::Lane, &[3])
        .build()
        .unwrap();
    let again = dependent.replicated(Axis::Lane);
    assert_eq!(again.len(), 1);
    assert_eq!(dependent.free_mask(Axis::Lane), 0);
    let row = row_slice(&wgmma_acc(64, 24, 1).unwrap(), 0).unwrap();
    let free: Vec<_> = row.ins().iter().map(|a| row.replicated(a.0)).collect();
    let owner = |x: &OutVec| free.iter().zip(x).all(|(f, v)| f.iter().all(|b| v / b.weight % b.extent == 0));
    let mut owned: Vec<u64> = row.inputs().filter(owner).map(|x| row.apply(&x)[0]).collect();
    owned.sort();
    assert_eq!(owned, (0..24).collect::<Vec<_>>());
}

#[test]
fn bad_layouts_are_refused() {
    assert!(matches!(Layout::identity(Axis::Reg, ROW, 0), Err(LayoutError::ZeroExtent(Axis::Reg))));
    assert!(matches!(Layout::identity(Axis::Reg, ROW, u64::MAX), Err(LayoutError::Overflow { .. })));
    let twice = Builder::new(&[(ROW, 2), (ROW, 2)]).build();
    assert!(matches!(twice, Err(LayoutError::DuplicateAxis(ROW))));
    let far = Builder::new(&[(ROW, 4)]).add(Axis::Reg, 4, &[2]).build();
    assert!(matches!(far, Err(LayoutError::OutOfRange { needed: 7, .. })));
    let huge = Builder::new(&[(ROW, 4)]).add(Axis::Reg, 1 << 40, &[1 << 40]).build();
    assert!(huge.is_err());
    assert!(Symbol::new("a name").is_err());
    assert_eq!(Axis::parse("d7"), Ok(Axis::Dim(7)));
    assert_eq!(Axis::parse("warpgroup").map(|a| a.to_string()), Ok("warpgroup".into()));
}

#[test]
fn rank_kernel_image_transpose() {
    // Linear Layouts, section 4.1: layout A of figure 1, 2 x 2 registers, 4 x 8 threads, 2 x 1 warps of a 16 x 16 tile, with j fastest.
    let a = Builder::new(&[(COL, 16), (ROW, 16)])
        .add(Axis::Reg, 2, &[1, 0])
        .add(Axis::Reg, 2, &[0, 1])
        .add(Axis::Lane, 8, &[2, 0])
        .add(Axis::Lane, 4, &[0, 2])
        .add(Axis::Warp, 2, &[0, 8])
        .build()
        .unwrap();
    let columns: Vec<u64> = [Axis::Reg, Axis::Lane, Axis::Warp]
        .iter()
        .flat_map(|&x| a.basis(x))
        .map(|b| b.out[0] | b.out[1] << 4)
        .collect();
    // The columns of the paper's matrix A: j0, i0; j1, j2, j3, i1, i2; i3.
    assert_eq!(columns, [1, 16, 2, 4, 8, 32, 64, 128]);
    assert_eq!(a.rank(), 8);
    assert!(a.kernel().is_empty());
    assert_eq!(a.transpose().unwrap(), a.invert().unwrap());
    // r1 of t9 is at (2, 3), r0 of t10 at (2, 4).
    assert_eq!(a.apply(&[1, 9, 0])[..], [3, 2]);
    assert_eq!(a.apply(&[0, 10, 0])[..], [4, 2]);
    let sliced = row_slice(&mma_acc().unwrap(), 1).unwrap();
    assert_eq!(sliced.rank(), 4);
    for x in sliced.kernel() {
        assert_eq!(sliced.apply(&x)[..], [0]);
        assert_ne!(x[..], [0, 0]);
    }
    assert_eq!(sliced.image().len(), 4);
    assert!(wgmma_acc(64, 24, 1).unwrap().transpose().is_err());
}

#[test]
fn shapes_carry_layouts() {
    use crate::layout::shape::*;
    let acc = wgmma_acc(64, 24, 1).unwrap();
    let check = |shape: &Shape, place: &dyn Fn(u64, u64) -> Vec<u64>| {
        let out = shape.forward(&acc).unwrap();
        for x in acc.inputs() {
            let from = acc.apply(&x);
            assert_eq!(out.apply(&x)[..], place(from[0], from[1])[..], "{shape:?}");
        }
        assert_eq!(shape.backward(&out).unwrap(), acc);
    };
    check(&Shape::Reshape(vec![64, 24], vec![16, 4, 3, 8]), &|r, c| vec![r / 4, r % 4, c / 8, c % 8]);
    check(&Shape::Reshape(vec![64, 24], vec![1536]), &|r, c| vec![r * 24 + c]);
    check(&Shape::Trans(vec![64, 24], vec![1, 0]), &|r, c| vec![c, r]);
    check(&Shape::Expand(vec![64, 24], 1), &|r, c| vec![r, 0, c]);
    assert!(Shape::Reshape(vec![64, 24], vec![64, 25]).map().is_err());
    let joined = acc.join().unwrap();
    assert_eq!(joined.outs()[2], (Axis::Dim(2), 2));
    for x in joined.inputs() {
        let from = acc.apply(&[x[0] / 2, x[1], x[2], x[3]]);
        assert_eq!(joined.apply(&x)[..], [from[0], from[1], x[0] % 2]);
    }
    assert_eq!(joined.split().unwrap(), (acc.clone(), 1));
    let rows = row_slice(&acc, 1).unwrap();
    let wide = Shape::Expand(vec![64], 1).forward(&rows).unwrap().broadcast(1, 6).unwrap();
    for x in wide.inputs() {
        assert_eq!(wide.apply(&x)[..], [rows.apply(&[x[0] % 2, x[1], x[2], x[3]])[0], x[0] / 2]);
    }
    assert_eq!(wide.broadcast_backward(1).unwrap().outs(), [(ROW, 64), (COL, 1)]);
}

#[test]
fn sums_and_concatenations() {
    // Axe, appendix F.4: A + B is contiguous after exchanging digits, and no tiling is.
    let m = [(Axis::Mem, 16)];
    let a = Builder::new(&m).add(Axis::Dim(1), 2, &[2]).add(Axis::Dim(0), 2, &[8]).build().unwrap();
    let b = Builder::new(&m).add(Axis::Dim(1), 2, &[1]).add(Axis::Dim(0), 2, &[4]).build().unwrap();
    let sum = b.direct_sum(&a).unwrap();
    assert_eq!(sum, row_major(4, 4).unwrap().with_ins(&[COL, ROW]).unwrap());
    let both = a.concat_outs(&b.renamed(|x| if x == Axis::Mem { Axis::Lane } else { x }).unwrap()).unwrap();
    assert!(both.inputs().all(|x| both.apply(&x)[..] == [a.apply(&x)[0], b.apply(&x)[0]]));
    let sixteen = Layout::identity(Axis::Reg, COL, 48).unwrap();
    assert_eq!(sixteen.truncated(Axis::Reg, 12).unwrap().in_extent(Axis::Reg), 12);
    let slice = row_slice(&mma_acc().unwrap(), 1).unwrap();
    let wider = slice.product(&Layout::zeros(Axis::Warp, 4, &[]).unwrap()).unwrap();
    assert!(slice.equal_up_to_broadcast(&wider));
    assert!(!slice.equal_up_to_broadcast(&mma_acc().unwrap()));
}

#[test]
fn division_by_a_tile_with_permuted_registers() {
    // Linear Layouts, section 5.3: a column-major fragment has no vector in register order, but one after a permutation of registers.
    let tile = [(ROW, 4), (COL, 64)];
    let fragment = Builder::new(&tile)
        .add(Axis::Reg, 4, &[1, 0])
        .add(Axis::Reg, 8, &[0, 1])
        .add(Axis::Lane, 8, &[0, 8])
        .build()
        .unwrap();
    let vector = Layout::identity(Axis::Reg, COL, 8).unwrap();
    assert!(fragment.left_divide(&vector).is_err());
    let (permutation, quotient) = fragment.left_divide_permuted(&vector, Axis::Reg).unwrap();
    let back = vector.product(&quotient).unwrap().reordered(fragment.ins(), fragment.outs()).unwrap();
    for x in fragment.inputs() {
        assert_eq!(back.apply(&x), fragment.apply(&[permutation.apply(&x[..1])[0], x[1]]));
    }
    assert_eq!(permutation.apply(&[1])[0], 4);
    assert!(
        fragment.left_divide_permuted(&Layout::identity(Axis::Reg, COL, 16).unwrap(), Axis::Reg).is_err()
    );
    // ldmatrix's tile: id(reg, 2) x id(lane, 4) to offsets.
    let access = wgmma_a(64, 64, 16, 1).unwrap().then(&row_major(64, 64).unwrap()).unwrap();
    let tile = Layout::identity(Axis::Reg, Axis::Mem, 2)
        .unwrap()
        .product(&Layout::identity(Axis::Lane, Axis::Mem, 4).unwrap())
        .unwrap();
    assert!(access.left_divide(&tile).is_ok());
    assert_eq!(
        wgmma_acc(64, 24, 1)
            .unwrap()
            .right_divide(&Layout::identity(Axis::Warp, ROW, 4).unwrap())
            .unwrap()
            .in_extent(Axis::Warp),
        1
    );
}

#[test]
fn tiles_of_the_appendix() {
    // Linear Layouts, proposition 9.2: operands of mma as products of identities, for b-bit elements.
    let id = |from, to, bits: u32| Layout::identity(from, to, 1 << bits).unwrap();
    let chain = |parts: &[Layout]| parts.iter().skip(1).fold(parts[0].clone(), |p, q| p.product(q).unwrap());
    for bits in [8, 16, 32] {
        let packed = (32 / bits as u32).trailing_zeros();
        let lhs = chain(&[
            id(Axis::Reg, COL, packed),
            id(Axis::Lane, COL, 2),
            id(Axis::Lane, ROW, 3),
            id(Axis::Reg, ROW, 1),
            id(Axis::Reg, COL, 1),
        ]);
        let mma = mma_a(256 / bits, bits).unwrap();
        assert_eq!(lhs.reordered(mma.ins(), mma.outs()).unwrap(), mma);
        // wgmma: times id_2 from warps to rows.
        let wide = lhs.product(&id(Axis::Warp, ROW, 2)).unwrap();
        let wgmma = wgmma_a(64, 256 / bits, bits, 1).unwrap();
        assert_eq!(wide.reordered(wgmma.ins(), wgmma.outs()).unwrap(), wgmma);
        let rhs = chain(&[
            id(Axis::Reg, ROW, packed),
            id(Axis::Lane, ROW, 2),
            id(Axis::Lane, COL, 3),
            id(Axis::Reg, ROW, 1),
        ]);
        let mma = mma_b(256 / bits, bits).unwrap();
        assert_eq!(rhs.reordered(mma.ins(), mma.outs()).unwrap(), mma);
    }
    // Proposition 4.12: the inverse of mma swizzling is [I C; 0 I] with rows c_i = vec * (2^i / per_phase mod max_phase) mod 2^n.
    let (rows, cols, vec, per_phase, max_phase) = (16u64, 64u64, 8u64, 2u64, 8u64);
    let inverse = mma_swizzled(rows, cols, vec, per_phase, max_phase).unwrap().invert().unwrap();
    for bit in 0..cols.trailing_zeros() {
        assert_eq!(inverse.apply(&[1 << bit])[..], [0, 1 << bit]);
    }
    for bit in 0..rows.trailing_zeros() {
        let c = vec * ((1 << bit) / per_phase % max_phase) % cols;
        assert_eq!(inverse.apply(&[cols << bit])[..], [1 << bit, c]);
    }
}
