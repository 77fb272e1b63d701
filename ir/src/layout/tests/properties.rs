//! Properties over random layouts.

use super::algorithms::executes;
use super::swizzle::counted_wavefronts;
use crate::layout::axe::*;
use crate::layout::convert::Conversion;
use crate::layout::convert::shuffle::shared_lanes;
use crate::layout::notation::{expr, parse_axe, parse_layout};
use crate::layout::swizzle::*;
use crate::layout::*;
use proptest::prelude::*;

/// Extents of random digits: at most 2^13 elements.
fn extents() -> impl Strategy<Value = Vec<u64>> {
    let extent =
        prop_oneof![6 => Just(2u64), 2 => Just(4), 1 => Just(8), 2 => Just(3), 1 => Just(5), 1 => Just(6)];
    prop::collection::vec(extent, 1..8).prop_filter("small", |e| e.iter().product::<u64>() <= 1 << 13)
}

/// A one-to-one layout `(reg, lane, warp) -> (d0, d1)`: digits of the inputs in one order, of the outputs in another, and swizzled low bits.
#[derive(Clone, Debug)]
struct Bijection {
    extents: Vec<u64>,
    axes: Vec<u8>,
    dims: Vec<u8>,
    order: Vec<usize>,
    swizzle: Vec<(u8, u8)>,
}

const INS: [Axis; 3] = [Axis::Reg, Axis::Lane, Axis::Warp];
const OUTS: [Axis; 2] = [Axis::Dim(0), Axis::Dim(1)];

impl Bijection {
    fn layout(&self) -> Layout {
        let mut stride = vec![[0u64; 2]; self.extents.len()];
        let mut total = [1u64; 2];
        for &k in &self.order {
            let dim = self.dims[k] as usize;
            stride[k][dim] = total[dim];
            total[dim] *= self.extents[k];
        }
        let outs = [(OUTS[0], total[0]), (OUTS[1], total[1])];
        let mut plain = Builder::new(&outs).axis(INS[0]).axis(INS[1]).axis(INS[2]);
        for (k, &extent) in self.extents.iter().enumerate() {
            plain = plain.add(INS[self.axes[k] as usize], extent, &stride[k]);
        }
        let plain = plain.build().unwrap();
        plain.then(&self.shear(total)).unwrap_or(plain)
    }

    /// Adds bits of one dimension to bits of the other, where both are low factors of two.
    fn shear(&self, total: [u64; 2]) -> Layout {
        let bits = total.map(|t| t.trailing_zeros());
        let mut layout = Builder::new(&[(OUTS[0], total[0]), (OUTS[1], total[1])]);
        for dim in 0..2 {
            for bit in 0..bits[dim] {
                let mut column = [0; 2];
                column[dim] = 1 << bit;
                for &(from, to) in &self.swizzle {
                    if dim == 0 && u32::from(from) == bit && u32::from(to) < bits[1] {
                        column[1] ^= 1 << to;
                    }
                }
                layout = layout.xor(OUTS[dim], &column);
            }
            let mut column = [0; 2];
            column[dim] = 1 << bits[dim];
            layout = layout.add(OUTS[dim], total[dim] >> bits[dim], &column);
        }
        layout.build().unwrap()
    }
}

fn bijection() -> impl Strategy<Value = Bijection> {
    extents().prop_flat_map(|extents| {
        let n = extents.len();
        let swizzle = prop::collection::vec((0u8..6, 0u8..6), 0..4);
        let order = Just((0..n).collect::<Vec<_>>()).prop_shuffle();
        (Just(extents), prop::collection::vec(0u8..3, n), prop::collection::vec(0u8..2, n), order, swizzle)
            .prop_map(|(extents, axes, dims, order, swizzle)| Bijection {
                extents,
                axes,
                dims,
                order,
                swizzle,
            })
    })
}

/// A distributed layout of 2^bits elements over five lane bits and one warp bit; zero columns repeat elements.
fn distributed(bits: usize) -> impl Strategy<Value = Layout> {
    let order = Just((0..bits).collect::<Vec<_>>()).prop_shuffle();
    let zeros = prop::collection::vec(prop::bool::weighted(0.15), 6);
    let sheared = prop::collection::vec((0..bits, 0..bits), 0..3);
    (order, zeros, sheared).prop_map(move |(order, zeros, sheared)| {
        let column = |bit: usize| {
            let extra = sheared.iter().filter(|s| s.0 == bit && s.1 < bit).fold(0, |m, s| m ^ 1 << s.1);
            1u64 << bit ^ extra
        };
        let mut next = order.iter().copied();
        let mut layout = Builder::new(&[(OUTS[0], 1 << bits)]).axis(Axis::Reg);
        for (k, zero) in zeros.iter().enumerate() {
            let axis = if k < 5 { Axis::Lane } else { Axis::Warp };
            let bit = if *zero { None } else { next.next() };
            layout = layout.xor(axis, &[bit.map_or(0, column)]);
        }
        for bit in next {
            layout = layout.xor(Axis::Reg, &[column(bit)]);
        }
        layout.build().unwrap()
    })
}

/// A random Axe layout of up to 2^10 elements.
fn axe() -> impl Strategy<Value = Axe> {
    let iter = || (1u64..6, prop_oneof![1i64..40, -20i64..0], 0usize..2);
    let axes = [Axis::Mem, Axis::Lane];
    let offset = (-9i64..9, 0usize..2);
    (prop::collection::vec(iter(), 1..5), prop::collection::vec(iter(), 0..3), offset).prop_map(
        move |(d, r, o)| {
            let iters = |l: Vec<(u64, i64, usize)>| -> Vec<Iter> {
                l.iter().map(|&(e, s, a)| Iter::new(e, s, axes[a])).collect()
            };
            Axe::new(&iters(d), &iters(r), &[(axes[o.1], o.0)]).unwrap()
        },
    )
}

/// Extents of the iters as a shape.
fn shape_of(axe: &Axe) -> Vec<u64> {
    axe.shard().iter().map(|i| i.extent).collect()
}

/// Shortest total of wavefronts over all memory layouts with the vector `vec` (offset bits of one element): every choice of the index space.
fn brute_force(write: &Layout, read: &Layout, bits: u32) -> u64 {
    let all: Vec<u64> = (1..1 << bits).collect();
    let mut best = u64::MAX;
    for (i, &x) in all.iter().enumerate() {
        for &y in &all[i + 1..] {
            let index = [x, y];
            let conflicts = |l: &Layout| {
                let lanes: Vec<u64> = l.basis(Axis::Lane).iter().map(|b| b.out[0]).collect();
                l.in_extent(Axis::Reg) << space::dimension(&space::intersection(&lanes, &index))
            };
            best = best.min(conflicts(write) + conflicts(read));
        }
    }
    best
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn inverses_invert(b in bijection()) {
        let layout = b.layout();
        // Swizzled steps that share bits, such as 6 and 12, have no inverse in this form; the error names them.
        let back = match layout.invert() {
            Err(LayoutError::Entangled { bits, .. }) => {
                prop_assert!(!bits.is_power_of_two() || !layout.is_linear());
                return Ok(());
            }
            other => other.unwrap(),
        };
        for x in layout.inputs() {
            prop_assert_eq!(back.apply(&layout.apply(&x)), x);
        }
        prop_assert_eq!(back.invert().unwrap(), layout.clone());
        let round = layout.then(&back).unwrap();
        prop_assert!(round.inputs().all(|x| round.apply(&x) == x));
        prop_assert!(layout.is_injective());
    }

    #[test]
    fn composition_is_function_composition(a in bijection(), b in bijection()) {
        let a = a.layout();
        // Through memory, by rows and by columns, padded and not.
        let (rows, cols) = (a.outs()[0].1, a.outs()[1].1);
        let memory = shared::padded(rows, cols, cols + 3).unwrap();
        if let Ok(both) = a.then(&memory) {
            prop_assert!(both.inputs().all(|x| both.apply(&x) == memory.apply(&a.apply(&x))));
        }
        let flat = shape::flatten(&[(OUTS[1], cols), (OUTS[0], rows)], Axis::Mem).unwrap().with_ins(&OUTS).unwrap();
        if let Ok(both) = a.then(&flat) {
            prop_assert!(both.inputs().all(|x| both.apply(&x) == flat.apply(&a.apply(&x))));
        }
        // Through the inverse of another layout, cut to the same shape.
        let b = b.layout().renamed(|x| match x { Axis::Reg => Axis::Dim(0), Axis::Lane => Axis::Dim(1), Axis::Dim(d) => Axis::Dim(d + 2), x => x }).unwrap();
        if let Ok(both) = a.then(&b) {
            prop_assert!(both.inputs().all(|x| both.apply(&x) == b.apply(&a.apply(&x))));
        }
    }

    /// What is decided by bits is what evaluation says, also where elements are held twice or not at all.
    #[test]
    fn bits_decide_what_every_input_does(a in distributed(7), b in distributed(7), wide in bijection()) {
        let (lost, other) = (a.then(&a.right_inverse().unwrap_or_else(|_| a.clone())).unwrap_or(a.clone()), b);
        for layout in [&a, &lost, &other, &wide.layout()] {
            let reached: std::collections::HashSet<_> = layout.inputs().map(|x| layout.apply(&x)).collect();
            prop_assert_eq!(layout.image_size(), reached.len() as u64, "{}", layout);
        }
        let alike = |x: &Layout, y: &Layout| x.inputs().all(|i| x.apply(&i) == y.apply(&i));
        let same_axes = a.ins() == other.ins() && a.outs().len() == other.outs().len();
        prop_assert_eq!(a.equivalent(&other), same_axes && alike(&a, &other));
        prop_assert!(a.equivalent(&a.clone()));
    }

    #[test]
    fn bit_matrices_compose_to_the_canonical_form(a in distributed(9), b in distributed(9)) {
        // The short ways for linear layouts give what the canonical form of the same digits is.
        let canonical = |l: &Layout| parse_layout(&l.to_string()).unwrap();
        let back = b.right_inverse();
        if let Ok(back) = &back {
            prop_assert_eq!(&canonical(back), back);
            let both = a.then(back).unwrap();
            prop_assert_eq!(&canonical(&both), &both);
            prop_assert!(both.inputs().all(|x| both.apply(&x) == back.apply(&a.apply(&x))));
        }
    }

    #[test]
    fn products_divide(a in bijection(), b in bijection()) {
        let (a, b) = (a.layout(), b.layout());
        if let Ok(product) = a.product(&b) {
            let at = |x: &[u64]| {
                let low: Vec<u64> = x.iter().zip(a.ins()).map(|(v, i)| v % i.1).collect();
                let high: Vec<u64> = x.iter().zip(a.ins()).map(|(v, i)| v / i.1).collect();
                let (low, high) = (a.apply(&low), b.apply(&high));
                [low[0] + high[0] * a.outs()[0].1, low[1] + high[1] * a.outs()[1].1]
            };
            let step = (product.size() / 4096).max(1) as usize;
            prop_assert!(product.inputs().step_by(step).all(|x| product.apply(&x)[..] == at(&x)));
            prop_assert_eq!(product.left_divide(&a).unwrap(), b);
        }
    }

    #[test]
    fn digits_that_are_cut_fuse_again(b in bijection()) {
        let mut cut = b.clone();
        let even = b.extents.iter().position(|e| e % 2 == 0 && *e > 2);
        if let Some(k) = even {
            // The digit as two: the low bit first, directly followed by the rest in both orders.
            cut.extents[k] = 2;
            cut.extents.insert(k + 1, b.extents[k] / 2);
            cut.axes.insert(k + 1, b.axes[k]);
            cut.dims.insert(k + 1, b.dims[k]);
            cut.order = b.order.iter().flat_map(|&o| match o.cmp(&k) {
                std::cmp::Ordering::Less => vec![o],
                std::cmp::Ordering::Equal => vec![k, k + 1],
                std::cmp::Ordering::Greater => vec![o + 1],
            }).collect();
        }
        prop_assert_eq!(cut.layout(), b.layout());
        prop_assert_eq!(parse_layout(&b.layout().to_string()).unwrap(), b.layout());
    }

    #[test]
    fn conversions_move_every_element(a in distributed(9), b in distributed(9), bits in prop_oneof![Just(8u64), Just(16), Just(32)]) {
        let plan = executes(&a, &b, bits);
        if let Conversion::Shuffle(s) = plan {
            // Linear Layouts, section 5.4: at most 2^(d - |V| - |I| - |G|) rounds, |I| + |G| the smaller number of lane bits on the two sides.
            let lanes = |l: &Layout| space::dimension(&l.basis(Axis::Lane).iter().map(|b| b.out[0]).collect::<Vec<_>>());
            let warp = |l: &Layout| {
                let all = l.basis(Axis::Lane).into_iter().chain(l.basis(Axis::Reg));
                space::dimension(&all.map(|b| b.out[0]).collect::<Vec<_>>())
            };
            let vector = s.vector_from.len().ilog2() as usize;
            prop_assert!(shared_lanes(&a, &b) <= lanes(&a).min(lanes(&b)));
            prop_assert!(s.rounds.len() <= 1 << (warp(&a) - vector - lanes(&a).min(lanes(&b))));
        }
    }

    #[test]
    fn conversions_inside_a_warp(a in distributed(8), lanes in Just([0usize, 1, 2, 3, 4, 5, 6]).prop_shuffle()) {
        // The same warps, lanes and registers exchanged: always shuffles or register moves.
        let columns: Vec<u64> = a.basis(Axis::Lane).into_iter().chain(a.basis(Axis::Reg)).map(|b| b.out[0]).collect();
        let mut b = Builder::new(a.outs()).axis(Axis::Reg);
        for (k, &from) in lanes.iter().enumerate().filter(|(_, f)| **f < columns.len()) {
            b = b.xor(if k < 5 { Axis::Lane } else { Axis::Reg }, &[columns[from]]);
        }
        for column in columns.iter().skip(7) {
            b = b.xor(Axis::Reg, &[*column]);
        }
        b = a.basis(Axis::Warp).iter().fold(b.axis(Axis::Warp), |b, w| b.xor(Axis::Warp, &[w.out[0]]));
        let b = b.build().unwrap();
        if b.in_extent(Axis::Lane) == 32 {
            prop_assert!(!matches!(executes(&a, &b, 32), Conversion::Shared(_)) || !a.kernel().is_empty());
        }
    }

    #[test]
    fn axe_canonical_forms_keep_the_map(a in axe()) {
        let canonical = a.canonical();
        prop_assert!((0..a.size()).all(|x| canonical.places(x) == a.places(x)));
        prop_assert_eq!(canonical.canonical(), canonical.clone());
        prop_assert_eq!(parse_axe(&a.to_string()).unwrap(), canonical);
        if let (Ok(layout), true) = (a.to_layout(&shape_of(&a)), a.replica().is_empty()) {
            let back = Axe::of_layout(&layout).unwrap();
            prop_assert!((0..a.size()).all(|x| back.places(x) == a.places(x)));
        }
    }

    #[test]
    fn axe_tiles_are_recovered(a in axe(), b in axe()) {
        let rank = a.shard().len().max(b.shard().len());
        let padded = |l: &Axe| { let mut s = shape_of(l); s.resize(rank, 1); s };
        let (sa, sb) = (padded(&a), padded(&b));
        let tiled = a.tile(&sa, &b, &sb).unwrap();
        let st: Vec<u64> = sa.iter().zip(&sb).map(|(x, y)| x * y).collect();
        // The definition, point by point.
        for x in (0..a.size()).step_by(3) {
            for y in (0..b.size()).step_by(5) {
                let (cx, cy) = (coords(&sa, x), coords(&sb, y));
                let joint: Vec<u64> = cx.iter().zip(&cy).zip(&sb).map(|((p, q), s)| p * s + q).collect();
                let mut want = b.base(y);
                for (axis, at) in a.base(x) {
                    let sum = want.remove(&axis).unwrap_or(0) + at * b.span(axis) as i64;
                    if sum != 0 { want.insert(axis, sum); }
                }
                prop_assert_eq!(tiled.base(Axe::flat(&st, &joint)), want);
            }
        }
        if let Ok((outer, shape)) = tiled.tile_of(&st, &b, &sb) {
            prop_assert_eq!(&shape, &sa);
            prop_assert!(outer.tile(&sa, &b, &sb).unwrap().equivalent(&tiled));
        } else {
            // Only copies may hide the tile: without them it is always found.
            prop_assert!(!a.replica().is_empty() || !b.replica().is_empty());
        }
    }

    #[test]
    fn axe_slices_agree(a in axe(), cut in prop::collection::vec((0.0f64..1.0, 0.0f64..1.0), 4)) {
        let shape = shape_of(&a);
        let region: Vec<std::ops::Range<u64>> = shape.iter().zip(&cut).map(|(&s, &(from, len))| {
            let start = (from * s as f64) as u64;
            start..start + 1 + (len * (s - start) as f64).min((s - start - 1) as f64) as u64
        }).collect();
        if let Ok(slice) = a.slice(&shape, &region) {
            let sizes: Vec<u64> = region.iter().map(|r| r.end - r.start).collect();
            for x in 0..slice.size() {
                let at: Vec<u64> = coords(&sizes, x).iter().zip(&region).map(|(c, r)| c + r.start).collect();
                prop_assert_eq!(slice.places(x), a.places(Axe::flat(&shape, &at)));
            }
        }
    }

    #[test]
    fn text_never_panics(text in "[-(){}:,.@^+>0-9a-z <]{0,40}") {
        let _ = expr::parse(&text);
        let _ = parse_axe(&text);
        let _ = parse_layout(&text);
    }

    #[test]
    fn numbers_never_panic(digits in prop::collection::vec((any::<u64>(), any::<u64>(), any::<u64>(), any::<bool>()), 0..6), outs in (any::<u64>(), any::<u64>())) {
        let mut builder = Builder::new(&[(OUTS[0], outs.0), (OUTS[1], outs.1)]);
        let mut small = Builder::new(&[(OUTS[0], 1 << 40), (OUTS[1], 1 << 20)]);
        for (k, &(extent, a, b, xor)) in digits.iter().enumerate() {
            let (axis, shift) = (INS[k % 3], k as u32 * 7);
            builder = if xor { builder.xor(axis, &[a, b]) } else { builder.add(axis, extent, &[a, b]) };
            small = if xor { small.xor(axis, &[a >> 30, b >> 50]) } else { small.add(axis, extent >> 58, &[a >> (shift + 26), b >> 54]) };
        }
        let _ = builder.build().map(|l| (l.invert(), l.rank(), l.to_string()));
        if let Ok(l) = small.build() {
            let _ = (l.invert(), l.right_inverse(), l.kernel(), l.transpose(), l.product(&l), l.direct_sum(&l), l.left_divide(&l));
            prop_assert_eq!(parse_layout(&l.to_string()).unwrap(), l);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn swizzles_are_as_good_as_brute_force(a in distributed(7), b in distributed(7)) {
        // 128 elements of 4 bytes, no common register: one element vectors, five bank bits, two index bits.
        let covers = |l: &Layout| l.right_inverse().is_ok();
        let regs = |l: &Layout| -> Vec<u64> { l.basis(Axis::Reg).iter().map(|b| b.out[0]).collect() };
        if covers(&a) && covers(&b) && !regs(&a).iter().any(|r| regs(&b).contains(r)) {
            let memory = optimal_swizzle((&a, Method::Vector), (&b, Method::Vector), 32).unwrap();
            let of = |l: &Layout| cost(&l.then(&memory).unwrap(), 32).unwrap().wavefronts;
            prop_assert!(of(&a) + of(&b) <= brute_force(&a, &b, 7));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn narrow_swizzles_have_no_conflicts(a in distributed(11), b in distributed(11), bits in prop_oneof![Just(8u64), Just(16)]) {
        let regs = |l: &Layout| -> Vec<u64> { l.basis(Axis::Reg).iter().map(|b| b.out[0]).collect() };
        // Neither copies nor shears: every vector is aligned on both sides.
        let plain = |l: &Layout| l.columns.iter().all(|c| c.is_power_of_two());
        if plain(&a) && plain(&b) {
            let memory = optimal_swizzle((&a, Method::Vector), (&b, Method::Vector), bits).unwrap();
            let (mine, word) = (regs(&a), (32 / bits).ilog2() as usize);
            let common = regs(&b).iter().filter(|r| mine.contains(r)).count().min(word);
            // All registers by vectors of the common ones, or of a word where one side has it.
            let elements = 1u64 << mine.len();
            let extended = mine.len().min(word);
            let best = (elements >> extended) + (elements >> common);
            let of = |l: &Layout| counted_wavefronts(&l.then(&memory).unwrap(), bits);
            prop_assert_eq!(of(&a) + of(&b), best, "{} {} {}", a, b, memory);
        }
    }
}

/// Row-major coordinates.
fn coords(shape: &[u64], mut index: u64) -> Vec<u64> {
    let mut out: Vec<u64> = shape
        .iter()
        .rev()
        .map(|s| {
            let c = index % s;
            index /= s;
            c
        })
        .collect();
    out.reverse();
    out
}
