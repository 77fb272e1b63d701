//! Tensor copies that the simulator refuses, because the driver or the hardware does; those that are
//! made are litmus tests.

use warplift::ir::manifest::{Expr, Param, TensorMap};
use warplift_lab::litmus::{self, Case, simulate};

fn case(name: &str) -> Case {
    litmus::select(&[name.to_owned()]).expect("a litmus of that name").remove(0)
}

fn map(case: &mut Case) -> &mut TensorMap {
    match &mut case.manifest.params[0] {
        Param::TensorMap(map) => map,
        other => panic!("{other:?} is no tensor map"),
    }
}

const LOAD: &str = "tma/load.2d.f16.swizzle128.at.0.0";
const STORE: &str = "tma/store.2d.f16.swizzle128.at.0.0";

/// What the simulator says of a case after a change to its tensor map.
fn with(name: &str, change: impl Fn(&mut TensorMap)) -> String {
    let mut case = case(name);
    change(map(&mut case));
    simulate(&case).map_or_else(|e| e.0, |_| "it ran".to_owned())
}

/// What it says with a box at other coordinates.
fn at(name: &str, coordinates: &str) -> String {
    let mut case = case(name);
    let moved = case.ptx.replace("{0, 0}", coordinates);
    assert_ne!(moved, case.ptx);
    case.ptx = moved;
    case.expected = None;
    simulate(&case).map_or_else(|e| e.0, |_| "it ran".to_owned())
}

#[test]
fn what_the_driver_would_refuse_is_refused_2630_2567() {
    for (expected, said) in [
        ("it ran", with(LOAD, |_| {})),
        ("wider than the swizzle span of 128", with(LOAD, |m| m.box_dims[0] = 72)),
        ("257", with(LOAD, |m| m.box_dims[1] = 257)),
        ("24 bytes is no multiple of 16", with(LOAD, |m| (m.box_dims[0], m.swizzle) = (12, 0))),
        ("stride 136 is no multiple of 16", with(LOAD, |m| m.strides[0] = Expr::Const(136))),
    ] {
        assert!(said.contains(expected), "{said} instead of {expected}");
    }
}

#[test]
fn what_ends_a_kernel_on_hardware_is_refused() {
    for (expected, said) in [
        ("it ran", at(LOAD, "{-8, -3}")),
        ("begins at byte 14 of its rows, which is no multiple of 16", at(LOAD, "{7, 0}")),
        ("it ran", at(STORE, "{8, 1}")),
        ("begins at byte 2 of its rows", at(STORE, "{1, 1}")),
        ("a store to a box that begins at coordinate -8", at(STORE, "{-8, 0}")),
        ("a store to a box that begins at coordinate -1", at(STORE, "{0, -1}")),
    ] {
        assert!(said.contains(expected), "{said} instead of {expected}");
    }
}

#[test]
fn a_reduction_of_halves_that_cuts_16_bytes_is_refused() {
    let name = "tma/reduce.add.2d.f16.swizzle32.at.32.3";
    let said = with(name, |m| m.dims[0] = Expr::Const(36));
    assert!(said.contains("cut at byte 72 of its rows"), "{said}");
    assert_eq!(with(name, |_| {}), "it ran");
}
