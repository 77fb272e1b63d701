//! Bounds masks are decided once for a tile: tiles inside their array, at each of its edges, and outside of it. Every text
//! is compiled with and without the feature, simulated without hazard, and compared with the interpreter.

use warplift::ir::target::SM90A;
use warplift::ir::tile::parse_file;
use warplift::predict::predict;
use warplift::{Feature, Options, compile};
use warplift_golden::orders::{FEW_ORDERS, right};
use warplift_lab::validate::{Sizes, Style, Validation};

/// The texts of the pass's file tests, each with problems: whole tiles, one element over and under, a single element.
const CASES: &[(&str, &str, &[&str])] = &[
    (
        "maxima",
        include_str!("../filetests/bounds_masks/maxima_of_rows.tile"),
        &["m=128,n=512", "m=65,n=257", "m=63,n=255", "m=1,n=1"],
    ),
    (
        "clipped",
        include_str!("../filetests/bounds_masks/clipped_sums.tile"),
        &["m=64,n=512", "m=65,n=255", "m=63,n=257", "m=1,n=1"],
    ),
    (
        "gemm",
        include_str!("../filetests/bounds_masks/beside_products.tile"),
        &["m=256,n=128,k=192", "m=129,n=63,k=72", "m=127,n=65,k=56", "m=1,n=1,k=8"],
    ),
];

fn options(disable: Vec<Feature>) -> Options {
    Options { verify: true, disable, ..Options::default() }
}

#[test]
fn a_decided_tile_gives_what_masks_give() {
    let masks: Feature = "bounds-masks".parse().expect("a feature");
    for &(name, text, problems) in CASES {
        let module = parse_file(text, name).expect("a text");
        let (kernel, mapping) = (&module.kernels[0], &module.mappings[0]);
        let [with, without] =
            [vec![], vec![masks]].map(|d| compile(kernel, mapping, &SM90A, &options(d)).expect("code"));
        assert!(with.ptx != without.ptx, "{name}: no run is decided");
        for sizes in problems {
            let sizes = Sizes::parse(kernel, sizes).expect("sizes");
            let validation = Validation::new(kernel, mapping, sizes).expect("a trial");
            let problem = validation.reference(Style::Normal, 5).expect("a reference");
            right(&problem, &with, &FEW_ORDERS, (2, 1e-3), name);
        }
    }
}

/// Whole tiles are predicted to take less time where the integer unit is the limit.
#[test]
fn a_decided_tile_is_faster() {
    let masks: Feature = "bounds-masks".parse().expect("a feature");
    for &(name, text, problems) in CASES {
        let module = parse_file(text, name).expect("a text");
        let (kernel, mapping) = (&module.kernels[0], &module.mappings[0]);
        let sizes = Sizes::parse(kernel, problems[0]).expect("sizes");
        let [with, without] = [vec![], vec![masks]]
            .map(|d| predict(kernel, mapping, &SM90A, &sizes, &options(d)).expect("a prediction").cycles);
        assert!(with < without, "{name}: {with} cycles, with masks {without}");
    }
}
