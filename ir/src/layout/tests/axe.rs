//! Axe layouts: the paper's examples, and operations against evaluation.

use crate::layout::axe::*;
use crate::layout::fragment::*;
use crate::layout::*;

/// Iters from `(extent, stride, axis)`.
fn iters(list: &[(u64, i64, &str)]) -> Vec<Iter> {
    list.iter().map(|&(e, s, a)| Iter::new(e, s, Axis::parse(a).unwrap())).collect()
}

fn place(list: &[(&str, i64)]) -> Place {
    list.iter().filter(|p| p.1 != 0).map(|&(a, v)| (Axis::parse(a).unwrap(), v)).collect()
}

#[test]
fn tensor_core_tile_over_warps() {
    // Axe, section 2.2: 8 x 16 over 2 warps, replicated 4 warps apart, from warp 5.
    let shard = iters(&[(8, 4, "lane"), (2, 1, "warp"), (4, 1, "lane"), (2, 1, "reg")]);
    let tile = Axe::new(&shard, &iters(&[(2, 4, "warp")]), &[(Axis::Warp, 5)]).unwrap();
    assert!(tile.admits(&[8, 16]) && !tile.admits(&[8, 15]));
    for i in 0..8i64 {
        for j in 0..16i64 {
            let at = |w| place(&[("lane", 4 * i + j / 2 % 4), ("warp", j / 8 + w), ("reg", j % 2)]);
            let places = tile.places(Axe::flat(&[8, 16], &[i as u64, j as u64]));
            assert_eq!(places, [at(5), at(9)].into_iter().collect());
        }
    }
    assert_eq!(tile.span(Axis::Warp), 6);
    // Without copies and offset it is the inverse of the fragment of two warps side by side.
    let fragment =
        ldmatrix(1, false).unwrap().product(&Layout::identity(Axis::Warp, Axis::Dim(1), 2).unwrap()).unwrap();
    let plain = Axe::new(&shard, &[], &[]).unwrap();
    assert!(Axe::of_fragment(&fragment).unwrap().equivalent(&plain));
    let axes = [Axis::Reg, Axis::Lane, Axis::Warp];
    assert_eq!(plain.to_layout(&[8, 16]).unwrap().with_outs(&axes).unwrap(), fragment.invert().unwrap());
    assert!(matches!(tile.to_layout(&[8, 16]), Err(LayoutError::Offset { axis: Axis::Warp, by: 5 })));
}

#[test]
fn distributed_and_two_dimensional_memories() {
    // Axe, section 2.2: 64 x 128 on a 2 x 2 mesh.
    let full = Axe::new(&iters(&[(2, 1, "gpuid"), (32, 128, "m"), (2, 2, "gpuid"), (64, 1, "m")]), &[], &[])
        .unwrap();
    let rows =
        Axe::new(&iters(&[(2, 1, "gpuid"), (32, 128, "m"), (128, 1, "m")]), &iters(&[(2, 2, "gpuid")]), &[])
            .unwrap();
    for (i, j) in [(0, 0), (31, 127), (32, 63), (63, 64), (40, 5)] {
        let x = Axe::flat(&[64, 128], &[i, j]);
        let (i, j) = (i as i64, j as i64);
        let at = place(&[("gpuid", i / 32 + 2 * (j / 64)), ("m", 128 * (i % 32) + j % 64)]);
        assert_eq!(full.places(x), [at].into_iter().collect());
        let at = |copy: i64| place(&[("gpuid", i / 32 + 2 * copy), ("m", 128 * (i % 32) + j)]);
        assert_eq!(rows.places(x), [at(0), at(1)].into_iter().collect());
    }
    // The scratchpad and Blackwell's tensor memory.
    let pad = Axe::new(&iters(&[(2, 512, "F"), (128, 1, "P"), (512, 1, "F")]), &[], &[]).unwrap();
    assert_eq!(pad.base(Axe::flat(&[256, 512], &[129, 7])), place(&[("F", 519), ("P", 1)]));
    let tmem = Axe::new(&iters(&[(2, 112, "Col"), (128, 1, "Lane"), (112, 1, "Col")]), &[], &[]).unwrap();
    assert_eq!(tmem.span(Axis::parse("Col").unwrap()), 224);
}

#[test]
fn tiling_and_slicing_examples() {
    // Axe, section 3.3.
    let (a, b) = (Axe::strided(&[2, 3], &[3, 1]).unwrap(), Axe::strided(&[8, 8], &[8, 1]).unwrap());
    let tiled = a.tile(&[2, 3], &b, &[8, 8]).unwrap();
    assert_eq!(tiled, Axe::strided(&[2, 8, 3, 8], &[192, 8, 64, 1]).unwrap());
    assert_eq!(tiled.tile_of(&[16, 24], &b, &[8, 8]).unwrap(), (a, vec![2, 3]));
    let slice = tiled.slice(&[16, 24], &[0..8, 8..24]).unwrap();
    let expect =
        Axe::new(&iters(&[(1, 192, "m"), (8, 8, "m"), (2, 64, "m"), (8, 1, "m")]), &[], &[(Axis::Mem, 64)])
            .unwrap();
    assert_eq!(slice.canonical(), expect.canonical());
    // Appendix F.4: no outer layout makes (2, 2) : (4, 1) contiguous, the direct sum does.
    let (inner, outer) = (Axe::strided(&[2, 2], &[4, 1]).unwrap(), Axe::strided(&[2, 2], &[8, 2]).unwrap());
    let line = Axe::strided(&[16], &[1]).unwrap();
    let sum = outer.direct_sum(&[2, 2], &inner, &[2, 2]).unwrap();
    assert_eq!(sum.canonical(), line.canonical());
    assert!(line.tile_of(&[4, 4], &inner, &[2, 2]).is_err());
    assert_eq!(inner.span(Axis::Mem), 6);
    // Appendix G: 24 x 24 by columns is not linear over bits, and a plain layout here.
    let columns = Axe::strided(&[24, 24], &[1, 24]).unwrap().to_layout(&[24, 24]).unwrap();
    assert!(!columns.is_linear());
    assert_eq!(columns.apply(&[3, 0])[0], 3);
    let flat = shape::flatten(columns.ins(), Axis::Reg).unwrap().invert().unwrap().then(&columns).unwrap();
    let f = |i| flat.apply(&[i])[0];
    assert_eq!((f(1), f(2), f(3)), (24, 48, 72));
    assert_ne!(f(1) ^ f(2), f(3));
}

#[test]
fn canonical_forms() {
    let a = Axe::new(&iters(&[(2, 32, "m"), (4, 8, "m"), (1, 5, "m"), (8, 1, "m")]), &[], &[]).unwrap();
    assert_eq!(a.canonical().shard(), &iters(&[(64, 1, "m")])[..]);
    // C1 and C2: a negative replica, and one that fills up.
    let b = Axe::new(&iters(&[(2, 100, "m")]), &iters(&[(4, -2, "m"), (3, 6, "m")]), &[]).unwrap();
    let c = b.canonical();
    assert_eq!((c.replica(), c.offset().get(&Axis::Mem)), (&iters(&[(10, 2, "m")])[..], Some(&-6)));
    assert!((0..2).all(|x| b.places(x) == c.places(x)));
    assert!(c.separated());
    let dense = Axe::new(&iters(&[(2, 100, "m")]), &iters(&[(4, 2, "m"), (2, 7, "m")]), &[]).unwrap();
    assert!(!dense.separated());
    assert!(dense.equivalent(&dense.canonical()));
}

#[test]
fn bad_iters_are_refused() {
    assert!(matches!(Axe::strided(&[0], &[1]), Err(LayoutError::ZeroExtent(Axis::Mem))));
    assert!(matches!(Axe::strided(&[2], &[0]), Err(LayoutError::ZeroStride { extent: 2, .. })));
    assert!(matches!(Axe::strided(&[1 << 40, 1 << 40], &[1, 1]), Err(LayoutError::Overflow { .. })));
    assert!(matches!(Axe::strided(&[3], &[i64::MIN]), Err(LayoutError::Overflow { .. })));
    let a = Axe::strided(&[6, 4], &[4, 1]).unwrap();
    assert!(a.group(&[5, 5]).is_err());
    assert!(matches!(
        Axe::strided(&[3, 2], &[7, 1]).unwrap().group(&[2, 3]),
        Err(LayoutError::NotDivisible { extent: 3, by: 2, .. })
    ));
    assert!(matches!(a.slice(&[24], std::slice::from_ref(&(3..30))), Err(LayoutError::OutOfRange { .. })));
    let gaps = Axe::strided(&[4, 6], &[10, 1]).unwrap();
    assert!(matches!(
        gaps.slice(&[24], std::slice::from_ref(&(4..10))),
        Err(LayoutError::Slice { start: 4, extent: 6, .. })
    ));
    // Symmetric one-wrap: 2 before and 2 behind the border.
    let wrapped = gaps.slice(&[24], std::slice::from_ref(&(4..8))).unwrap();
    assert!((0..4).all(|x| wrapped.places(x) == gaps.places(x + 4)));
}
