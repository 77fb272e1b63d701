//! Notations: what the papers write, and that printing and reading undo each other.

use crate::layout::fragment::*;
use crate::layout::notation::cute::{Cute, Swizzle};
use crate::layout::notation::tilus::{self, Tilus, Unified, view_compatible};
use crate::layout::notation::{parse_axe, parse_layout, thread_value};
use crate::layout::shared::*;
use crate::layout::*;

fn cute(text: &str) -> Cute {
    Cute::parse(text).unwrap()
}

#[test]
fn full_text() {
    for layout in [
        wgmma_acc(64, 24, 1).unwrap(),
        wgmma_acc(192, 192, 3).unwrap(),
        swizzled(96, 128, 16, 128).unwrap(),
        padded(24, 20, 28).unwrap(),
        row_slice(&mma_acc().unwrap(), 1).unwrap(),
        mma_quad_pair(QuadPair::AccF32).unwrap(),
        Layout::empty(),
    ] {
        let text = layout.to_string();
        assert_eq!(parse_layout(&text).unwrap(), layout, "{text}");
        assert_eq!(text.parse::<Layout>().unwrap().to_string(), text);
    }
    let text =
        "(reg: 2:1@d1 2:8@d0 3:8@d1, lane: 4:2@d1 8:1@d0, warp: 4:16@d0, warpgroup: 1) -> (d0: 64, d1: 24)";
    assert_eq!(wgmma_acc(64, 24, 1).unwrap().to_string(), text);
    for bad in [
        "",
        "(reg: 2:1@d1) -> ()",
        "(reg: 2:1@d1) -> (d1: 1)",
        "(reg: 0) -> ()",
        "(reg 2)",
        "(reg: 3^1@d0) -> (d0: 2",
        "(reg: ^1@d0 ^1@d0) -> (d0: 99999999999999999999)",
    ] {
        assert!(parse_layout(bad).is_err(), "{bad}");
    }
    assert!(parse_layout(&"(".repeat(100_000)).is_err());
}

#[test]
fn cute_reads_and_computes() {
    // Hexcute, figure 5: A = ((2,2),8):((1,8),16)? evaluated at 6 = ((0,1),1): 0 + 8 + 16.
    let a = cute("((2, 2), 8):((1, 8), 16)");
    assert_eq!(a.to_string(), "((2,2),8):((1,8),16)");
    assert_eq!(a.apply(6), 24);
    // Hexcute, section 2.3: the packed int4 layout, rows of 32 in groups.
    let packed = cute("((2, 2, 2, 4), (8,)):((1, 8, 128, 2), (16,))");
    assert_eq!((packed.size(), packed.cosize()), (256, 256));
    for (row, col) in [(0, 0), (1, 0), (2, 0), (4, 0), (8, 0), (31, 7), (13, 5)] {
        let want = row % 2 + row / 2 % 2 * 8 + row / 4 % 2 * 128 + row / 8 * 2 + col * 16;
        assert_eq!(packed.to_layout().unwrap().apply(&[row, col])[0], want);
    }
    assert!(packed.to_layout().unwrap().invert().is_ok());
    assert_eq!(cute("(4,(3,1)):(1,(4,7))").coalesce().to_string(), "12:1");
    for bad in [
        "",
        "4",
        "4:(1)",
        "(4,2):(1)",
        "():()",
        "(0):(1)",
        "4:99999999999999999999",
        "(4,4):(1,4611686018427387904)",
    ] {
        assert!(Cute::parse(bad).is_err(), "{bad}");
    }
}

#[test]
fn cute_algebra() {
    // NVIDIA CuTe, Layout Algebra: composition, complement, division, product.
    let compose = |a: &str, b: &str| cute(a).compose(&cute(b)).unwrap().to_string();
    assert_eq!(compose("(6,2):(8,2)", "(4,3):(3,1)"), "((2,2),3):((24,2),8)");
    assert_eq!(compose("20:2", "(5,4):(4,1)"), "(5,4):(8,2)");
    assert_eq!(compose("(10,2):(16,4)", "(5,4):(1,5)"), "(5,(2,2)):(16,(80,4))");
    for (a, b) in
        [("(6,2):(8,2)", "(4,3):(3,1)"), ("(4,8):(8,1)", "(2,8):(2,4)"), ("(3,4):(4,1)", "(3,2):(1,3)")]
    {
        let both = cute(a).compose(&cute(b)).unwrap();
        assert!((0..both.size()).all(|i| both.apply(i) == cute(a).apply(cute(b).apply(i))));
    }
    let complement = |a: &str, n| cute(a).complement(n).unwrap().to_string();
    assert_eq!(complement("4:1", 24), "6:4");
    assert_eq!(complement("6:4", 24), "4:1");
    assert_eq!(complement("(4,6):(1,4)", 24), "1:0");
    assert_eq!(complement("4:2", 24), "(2,3):(1,8)");
    assert_eq!(complement("(2,4):(1,6)", 24), "3:2");
    assert_eq!(complement("(2,2):(1,6)", 24), "(3,2):(2,12)");
    assert_eq!(
        cute("(4,2,3):(2,1,8)").logical_divide(&cute("4:2")).unwrap().to_string(),
        "((2,2),(2,3)):((4,1),(2,8))"
    );
    assert_eq!(
        cute("(2,2):(4,1)").logical_product(&cute("6:1")).unwrap().to_string(),
        "((2,2),(2,3)):((4,1),(2,8))"
    );
    for text in ["(4,2,3):(2,1,8)", "(8,4):(4,1)", "(3,5):(5,1)", "(2,3,4):(12,4,1)"] {
        let (a, right, left) = (cute(text), cute(text).right_inverse(), cute(text).left_inverse().unwrap());
        assert!((0..right.size()).all(|i| a.apply(right.apply(i)) == i), "{text}");
        assert!((0..a.size()).all(|i| left.apply(a.apply(i)) == i), "{text}");
    }
    assert!(cute("(6,2):(8,2)").compose(&cute("4:5")).is_err());
}

#[test]
fn swizzle_functors() {
    // Hexcute, figure 15; TMA's 128-byte swizzle of f16 is Sw<3,3,3> of 64-element rows.
    let plain = row_major(64, 64).unwrap();
    let (swizzle, under) = Swizzle::find(&swizzled(64, 64, 16, 128).unwrap()).unwrap();
    assert_eq!((swizzle.to_string().as_str(), under), ("Sw<3,3,3>", plain.clone()));
    assert_eq!(swizzle.after(&plain).unwrap(), swizzled(64, 64, 16, 128).unwrap());
    for (span, bits) in [(64, 2), (32, 1)] {
        let tile = swizzled(96, span / 2, 16, span).unwrap();
        let (found, under) = Swizzle::find(&tile).unwrap();
        assert_eq!((found.parts()[0], found.after(&under).unwrap()), (bits, tile));
    }
    assert!(swizzle.after(&padded(64, 64, 72).unwrap()).is_err());
    assert!(Swizzle::find(&plain).is_none());
}

#[test]
fn thread_values() {
    // Hexcute, section 4.2: the output of ldmatrix.x2... q, over 32 x 8: four 8 x 8 matrices side by side in columns of 32.
    let q = cute("((4, 8), (2, 4)):((64, 1), (32, 8))");
    let layout = thread_value::to_layout(&q, &[32, 8]).unwrap();
    assert_eq!(layout.with_ins(&[Axis::Reg, Axis::Lane]).unwrap(), ldmatrix(4, false).unwrap());
    assert_eq!(thread_value::of_layout(&layout).unwrap(), q.clone());
    // g: two warps hold a 16 x 32 tile; g ∘ q⁻¹ sends the four matrices to four places.
    let g = cute("((4, 8, 2), (2, 2, 2)):((32, 1, 128), (16, 8, 256))");
    let tile = thread_value::to_layout(&g, &[16, 32]).unwrap();
    assert_eq!(tile.in_extent(Axis::Warp), 2);
    let warp = tile.without_digit(Axis::Warp, 1).unwrap().with_ins(&[Axis::Reg, Axis::Lane]).unwrap();
    let moved = ldmatrix(4, false).unwrap().invert().unwrap().then(&warp).unwrap();
    for x in moved.inputs() {
        let (matrix, row, col) = (x[0] / 8, x[0] % 8, x[1]);
        assert_eq!(moved.apply(&x)[..], [matrix % 2 * 8 + row, matrix / 2 * 16 + col]);
    }
    assert_eq!(thread_value::of_layout(&tile).unwrap(), g);
    assert!(thread_value::to_layout(&cute("(3,3,3):(1,3,9)"), &[27]).is_err());
}

#[test]
fn tilus_layouts() {
    // Tilus, figure 4.
    let local = Tilus::parse("local(2, 3)").unwrap().to_layout().unwrap();
    assert!((0..6).all(|i| local.apply(&[i, 0])[..] == [i / 3, i % 3]));
    let spatial = Tilus::parse("spatial(2, 3)").unwrap().to_layout().unwrap();
    assert!((0..6).all(|t| spatial.apply(&[0, t])[..] == [t / 3, t % 3]));
    // Figure 3: operand A of m16n8k8 in f16, f(t, i) = (t/4 + i/2*8, t%4*2 + i%2).
    let text = "local(2, 1).spatial(8, 4).local(1, 2)";
    let figure3 = Tilus::parse(text).unwrap();
    let layout = figure3.to_layout().unwrap();
    for x in layout.inputs() {
        assert_eq!(layout.apply(&x)[..], [x[1] / 4 + x[0] / 2 * 8, x[1] % 4 * 2 + x[0] % 2]);
    }
    assert_eq!(
        figure3.to_fragment().unwrap().with_ins(&[Axis::Reg, Axis::Lane]).unwrap(),
        mma_a(8, 16).unwrap()
    );
    assert_eq!(Tilus::of_layout(&mma_a(8, 16).unwrap()).unwrap().to_string(), text);
    // Figure 2: the other layouts of the example.
    let a = Tilus::parse("column_local(2, 2).spatial(8, 4).local(1, 2)").unwrap();
    assert_eq!(a.to_fragment().unwrap().with_ins(&[Axis::Reg, Axis::Lane]).unwrap(), mma_a(16, 16).unwrap());
    let b = Tilus::parse("local(2, 1).column_spatial(4, 8).local(2, 1)").unwrap();
    assert_eq!(b.to_fragment().unwrap().with_ins(&[Axis::Reg, Axis::Lane]).unwrap(), mma_b(16, 16).unwrap());
    for t in [&a, &b] {
        assert_eq!(Tilus::of_layout(&t.to_layout().unwrap()).unwrap(), *t);
    }
    // Figure 5: c = a x b with c(t, i) = a(t/6, i/2) * (2, 3)' + b(t%6, i%2), and column_spatial(3, 2) among its factors.
    let (f, g) = (Tilus::parse("local(2, 1)").unwrap(), Tilus::parse("spatial(2, 3).local(1, 2)").unwrap());
    let c = Tilus::parse("local(2, 1).spatial(2, 3).local(1, 2)").unwrap().to_layout().unwrap();
    let (fl, gl) = (f.to_layout().unwrap(), g.to_layout().unwrap());
    assert_eq!(c.outs(), [(Axis::Dim(0), 4), (Axis::Dim(1), 6)]);
    for x in c.inputs() {
        let (slow, fast) = (fl.apply(&[x[0] / 2, x[1] / 6]), gl.apply(&[x[0] % 2, x[1] % 6]));
        assert_eq!(c.apply(&x)[..], [slow[0] * 2 + fast[0], slow[1] * 6 + fast[1]]);
    }
    // Both divisions undo the product; local(2, 4) / local(1, 2) is local(2, 2).
    assert_eq!(tilus::divide_right(&c, &gl).unwrap(), fl.reordered(c.ins(), c.outs()).unwrap());
    assert_eq!(tilus::divide_left(&c, &fl).unwrap(), gl.reordered(c.ins(), c.outs()).unwrap());
    let quotient = tilus::divide_right(
        &Tilus::parse("local(2, 4)").unwrap().to_layout().unwrap(),
        &Tilus::parse("local(1, 2)").unwrap().to_layout().unwrap(),
    );
    assert_eq!(Tilus::of_layout(&quotient.unwrap()).unwrap().to_string(), "local(2, 2)");
    // Associative, not commutative.
    let parse = |t: &str| Tilus::parse(t).unwrap().to_layout().unwrap();
    assert_ne!(parse("local(2, 1).spatial(8, 4)"), parse("spatial(8, 4).local(2, 1)"));
    for bad in ["", "local()", "local(2).spatial(2, 2)", "global(2)", "local(0, 2)", "local(2, 2)."] {
        assert!(Tilus::parse(bad).and_then(|t| t.to_layout()).is_err(), "{bad}");
    }
}

#[test]
fn unified_form_and_views() {
    // Tilus, section 5: unravel, distribute, ravel gives thread and element.
    let a = Tilus::parse("column_local(2, 2).spatial(8, 4).local(1, 2)").unwrap();
    let unified: Unified = a.unified().unwrap();
    assert_eq!(unified.shape, [16, 16]);
    assert_eq!(unified.mode_shape, [2, 8, 2, 4, 2]);
    assert_eq!((&unified.spatial_modes[..], &unified.local_modes[..]), (&[1, 3][..], &[2, 0, 4][..]));
    let layout = a.to_layout().unwrap();
    for x in layout.inputs() {
        let at = layout.apply(&x);
        assert_eq!(unified.place(&at), (x[1], x[0]));
    }
    // Figure 6 and its formulas: unravel(i, [4, 2, 8]) = [i / 16, i / 8 % 2, i % 8], threads from [i2, j1] over [8, 4], elements from
    // [i0, j0, i1, j2].
    let figure6 = Tilus::parse("local(4, 2).local(2, 1).spatial(8, 4).local(1, 2)").unwrap();
    let unified = figure6.unified().unwrap();
    assert_eq!((&unified.shape[..], &unified.mode_shape[..]), (&[64, 16][..], &[4, 2, 8, 2, 4, 2][..]));
    assert_eq!((&unified.spatial_modes[..], &unified.local_modes[..]), (&[2, 4][..], &[0, 3, 1, 5][..]));
    let layout = figure6.to_layout().unwrap();
    for (i, j) in [(0, 0), (63, 15), (17, 9), (40, 6), (8, 1)] {
        let (i0, i1, i2, j0, j1, j2) = (i / 16, i / 8 % 2, i % 8, j / 8, j / 2 % 4, j % 2);
        let (thread, local) = (i2 * 4 + j1, ((i0 * 2 + j0) * 2 + i1) * 2 + j2);
        assert_eq!(unified.place(&[i, j]), (thread, local));
        assert_eq!(layout.apply(&[local, thread])[..], [i, j]);
    }
    // Figure 9: int6 in local(2,1).column_spatial(4,8).local(2,1) is u8 in local(3).spatial(32): 24 bits in each of 32 threads.
    let i6 = Tilus::parse("local(2, 1).column_spatial(4, 8).local(2, 1)").unwrap().to_layout().unwrap();
    let u8s = Tilus::parse("local(3).spatial(32)").unwrap().to_layout().unwrap();
    assert!(view_compatible((&i6, 6), (&u8s, 8)));
    assert!(!view_compatible((&i6, 4), (&u8s, 8)));
    assert_eq!(tilus::byte_view(24, 32).to_string(), "local(3).spatial(32).local(8)");
    assert_eq!(tilus::byte_view(3, 32).to_layout().unwrap(), u8s);
}

#[test]
fn axe_text() {
    let text = "(8,2,4,2):(4@lane,1@warp,1@lane,1@reg) + [2:4@warp] + 5@warp";
    let axe = parse_axe(text).unwrap();
    assert_eq!(axe.to_string(), text);
    assert_eq!(parse_axe("(2,3):(3,1) + -4@m").unwrap().to_string(), "(6):(1@m) + -4@m");
    for bad in ["", "(2):(1", "(2,3):(1)", "(2):(0)", "(2):(1) + [2]", "(2):(1) 3"] {
        assert!(parse_axe(bad).is_err(), "{bad}");
    }
}

#[test]
fn shared_memory_from_alignment() {
    // Hexcute, section 5.2 and appendix C: f16, 4 x 64, ld of 16 bytes: f = ((8,),(8,4)):((32,),(4,1)), m = (4,8,8):(d2,1,d1).
    use crate::layout::synthesis::{Demand, free_strides, synthesize};
    let f = thread_value::to_layout(&cute("((8,), (8, 4)):((32,), (4, 1))"), &[4, 64]).unwrap();
    let demand = Demand { fragment: &f, elements: 8 };
    let strides = free_strides(&[demand]).unwrap();
    let text: Vec<String> = strides.iter().map(|s| s.to_string()).collect();
    assert_eq!(text, ["d0 4:?", "d1 8:1", "d1 8:?"]);
    let memory = synthesize(&[demand]).unwrap();
    let access = f.then(&memory).unwrap();
    assert_eq!(access::vector_width(&access, 8, 8).unwrap().elements, 8);
    // A second copy that wants rows contiguous contradicts it (figure 14, top right).
    let rows = blocked(&[4, 64], &[4, 1], &[1, 32], &[1, 1], &[0, 1]).unwrap();
    assert!(free_strides(&[demand, Demand { fragment: &rows, elements: 4 }]).is_err());
    // One that wants four of the eight agrees (bottom right).
    let half = blocked(&[4, 64], &[1, 4], &[4, 8], &[1, 1], &[1, 0]).unwrap();
    assert!(free_strides(&[demand, Demand { fragment: &half, elements: 4 }]).is_ok());
}
