//! CuTe's algebra against its definitions, by evaluation over all indices of small layouts.

use crate::layout::notation::cute::Cute;
use proptest::prelude::*;

fn cute(text: &str) -> Cute {
    Cute::parse(text).unwrap()
}

/// `shape:stride` of flat modes.
fn flat(modes: &[(u64, u64)]) -> Cute {
    let list = |part: fn(&(u64, u64)) -> u64| {
        let texts: Vec<String> = modes.iter().map(|m| part(m).to_string()).collect();
        format!("({})", texts.join(","))
    };
    cute(&format!("{}:{}", list(|m| m.0), list(|m| m.1)))
}

fn image(layout: &Cute) -> Vec<u64> {
    (0..layout.size()).map(|i| layout.apply(i)).collect()
}

fn is_injective(layout: &Cute) -> bool {
    let mut image = image(layout);
    image.sort_unstable();
    image.windows(2).all(|w| w[0] < w[1])
}

/// A second statement of the complement of CuTe's Python reference (NVIDIA CuTe, "Layout Algebra", complement): modes by
/// stride, each gap a mode of as many whole copies as it has room for. `None` where modes overlap.
fn complement_by_gaps(layout: &Cute, size: u64) -> Option<Vec<u64>> {
    let mut modes = layout.leaves();
    modes.retain(|m| m.0 > 1 && m.1 > 0);
    modes.sort_by_key(|m| (m.1, m.0));
    let (mut covered, mut gaps) = (1, Vec::new());
    for (extent, stride) in modes {
        gaps.push((stride / covered, covered));
        covered = extent * stride;
    }
    gaps.push((size.div_ceil(covered), covered));
    gaps.iter().all(|g| g.0 > 0).then(|| image(&flat(&gaps)))
}

#[test]
fn complements_whose_strides_do_not_divide() {
    let complement = |a: &str, n| cute(a).complement(n).unwrap().to_string();
    assert_eq!(complement("(4,10):(1,10)", 94), "2:4");
    assert_eq!(complement("3:2", 7), "(2,2):(1,6)");
    assert_eq!(complement("(2,3):(2,7)", 40), "(2,2):(1,21)");
    // Modes that overlap have no complement.
    assert!(cute("(2,2):(1,1)").complement(8).is_err());
    assert!(cute("(3,2):(2,3)").complement(8).is_err());
}

#[test]
fn compositions_that_carry_are_refused() {
    // 4·1 + 3·3 = 13 carries out of the mode of twelve: no strides give 38, 1 of it.
    assert!(cute("(12,3):(3,1)").compose(&cute("(2,8):(4,3)")).is_err());
    assert!(cute("(4,4):(1,8)").compose(&cute("(2,2):(2,2)")).is_err());
    assert!(cute("(4,4):(4,1)").compose(&cute("(3,2):(1,2)")).is_err());
    // What stays below the mode needs no division.
    assert_eq!(cute("(6,2):(8,2)").compose(&cute("2:4")).unwrap().to_string(), "2:32");
    assert_eq!(cute("(12,3):(3,1)").compose(&cute("(2,4):(4,1)")).unwrap().to_string(), "(2,4):(12,3)");
}

#[test]
fn left_inverses_exist_or_are_refused() {
    for text in ["(4,2):(1,0)", "(2,2):(1,1)", "(4,3):(2,3)"] {
        assert!(cute(text).left_inverse().is_err(), "{text}");
    }
    assert_eq!(cute("(4,10):(1,10)").left_inverse().unwrap().to_string(), "(10,10):(1,4)");
}

/// Up to four modes.
fn layouts() -> impl Strategy<Value = Cute> {
    prop::collection::vec((1u64..7, 0u64..25), 1..4).prop_map(|modes| flat(&modes))
}

/// Modes of which each begins behind the ones before, in any order.
fn injective() -> impl Strategy<Value = Cute> {
    let modes = prop::collection::vec((2u64..6, 0u64..5, any::<bool>()), 1..4);
    modes.prop_map(|modes| {
        let mut next = 1;
        let mut flat_modes = Vec::new();
        for (extent, gap, divides) in modes {
            let stride = if divides { next * (gap + 1) } else { next + gap };
            flat_modes.push((extent, stride));
            next = stride * extent;
        }
        let turned = next as usize % flat_modes.len();
        flat_modes.rotate_left(turned);
        flat(&flat_modes)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, ..ProptestConfig::default() })]

    #[test]
    fn compositions_compose(a in layouts(), b in layouts()) {
        // Beyond its size a layout goes on in its last mode: that is CuTe's rule, and no function to compare with.
        if b.cosize() <= a.size() && let Ok(both) = a.compose(&b) {
            for i in 0..b.size() {
                prop_assert_eq!(both.apply(i), a.apply(b.apply(i)), "{} o {} = {} at {}", a, b, both, i);
            }
        }
    }

    #[test]
    fn complements_fill_gaps(a in layouts(), more in 0u64..50) {
        let size = a.cosize() + more;
        match (a.complement(size), complement_by_gaps(&a, size)) {
            (Ok(c), Some(want)) => prop_assert_eq!(image(&c), want, "{}", a),
            (Ok(c), None) => prop_assert!(false, "{a} has {c}"),
            (Err(e), Some(_)) => {
                // Only layouts that reach an offset twice, or whose modes are woven.
                let moving: Vec<(u64, u64)> = a.leaves().into_iter().filter(|m| m.0 > 1 && m.1 > 0).collect();
                prop_assert!(!is_injective(&flat(&moving)), "{a}: {e}");
            }
            (Err(_), None) => {}
        }
    }

    #[test]
    fn complements_are_disjoint(a in injective(), more in 0u64..50) {
        let c = a.complement(a.cosize() + more).unwrap();
        let all = Cute::modes(vec![a.clone(), c.clone()]);
        prop_assert!(is_injective(&all), "{} and {}", a, c);
        let of_c = image(&c);
        prop_assert!(of_c.windows(2).all(|w| w[0] < w[1]), "{} is in order", c);
    }

    #[test]
    fn inverses_invert(a in layouts(), b in injective()) {
        for l in [a, b] {
            let right = l.right_inverse();
            for i in 0..right.size() {
                prop_assert_eq!(l.apply(right.apply(i)), i, "{} right {}", l, right);
            }
            match l.left_inverse() {
                Ok(left) => for i in 0..l.size() {
                    prop_assert_eq!(left.apply(l.apply(i)), i, "{} left {}", l, left);
                },
                Err(_) => {
                    let strides: Vec<u64> = l.leaves().iter().filter(|m| m.0 > 1).map(|m| m.1).collect();
                    let divides = |a: u64, b: u64| b.is_multiple_of(a.max(1));
                    let chain = |a: &u64| strides.iter().all(|b| divides(*a, *b) || divides(*b, *a));
                    prop_assert!(!is_injective(&l) || !strides.iter().all(chain), "{l}");
                }
            }
        }
    }
}
