//! Expressions, reports and pictures.

use crate::layout::notation::expr::parse;
use crate::layout::report::layout;
use crate::layout::*;

/// Text of a notation in the report.
fn notation<'a>(report: &'a report::Report, name: &str) -> Option<&'a str> {
    report.notations.iter().find(|n| n.0 == name).map(|n| n.1.as_str())
}

#[test]
fn one_tile_in_all_notations() {
    let report = layout("mma.a k8 f16").unwrap();
    assert_eq!(notation(&report, "Tilus"), Some("local(2, 1).spatial(8, 4).local(1, 2)"));
    assert_eq!(notation(&report, "thread-value"), Some("((4,8),(2,2)):((32,1),(16,8)) over 16x8"));
    assert_eq!(notation(&report, "Axe"), Some("(2,32,2):(2@reg,1@lane,1@reg) over 16x8"));
    assert_eq!(notation(&report, "CuTe"), None);
    assert!(report.table.starts_with(" 0:0  0:1  1:0  1:1"));
    // Every notation means the same layout.
    let axes = [Axis::Reg, Axis::Lane];
    for text in [
        "local(2, 1).spatial(8, 4).local(1, 2)",
        "tv ((4,8),(2,2)):((32,1),(16,8)) over 16x8",
        notation(&report, "layout").unwrap(),
    ] {
        assert_eq!(parse(text).unwrap().layout.with_ins(&axes).unwrap(), report.layout, "{text}");
    }
    let memory = layout("smem 64x64 f16 swizzle 128").unwrap();
    assert_eq!(notation(&memory, "CuTe"), Some("Sw<3,3,3> o (64,64):(64,1)"));
    assert_eq!(parse("Sw<3,3,3> o (64,64):(64,1)").unwrap().layout, memory.layout);
    assert!(memory.facts.contains(&("TMA", "box 64 x 64, swizzle 128 bytes, 1 boxes".into())));
}

#[test]
fn operations_in_expressions() {
    let access = layout("then(wgmma.a m64k64 f16, smem 64x64 f16 swizzle 128)").unwrap();
    assert!(access.facts.contains(&("matrix copy", "x4, 4 wavefronts, 4 at best".into())));
    assert!(!access.table.contains('*'));
    let worst = layout("then(blocked 32x32 reg 1x1 lane 32x1 warp 1x1 order 0,1, smem 32x32 f32)").unwrap();
    assert!(worst.facts.contains(&("wavefronts", "32, 4 at best".into())));
    assert!(worst.table.contains("0*") && worst.svg.contains("#f88"));
    let fixed =
        layout("then(blocked 32x32 reg 1x1 lane 32x1 warp 1x1 order 0,1, smem 32x32 f32 pad 1)").unwrap();
    assert!(fixed.facts.contains(&("wavefronts", "1, 1 at best".into())));
    let plan = layout("convert(wgmma.acc m64n64 f16, wgmma.a m64k64 f16)").unwrap();
    assert_eq!(plan.facts[0], ("conversion", "registers, 0 of 32 move".into()));
    let sliced = parse("slice(wgmma.acc m64n192 f32, 1)").unwrap().layout;
    assert_eq!(sliced.outs(), [(Axis::Dim(0), 64)]);
    assert_eq!(parse("trans(mma.acc)").unwrap().layout.outs(), [(Axis::Dim(0), 8), (Axis::Dim(1), 16)]);
    assert_eq!(parse("divide(product(mma.acc, mma.acc), mma.acc)").unwrap().layout.size(), 128);
    assert_eq!(parse("reshape(wgmma.acc m64n24 f32, 16x4x24)").unwrap().layout.outs().len(), 3);
    assert!(parse("inverse(ldmatrix.x4.trans)").is_ok());
    assert!(parse("(2,32,2,64):(1@gpuid,128@m,2@gpuid,1@m)").is_ok());
    for bad in [
        "",
        "wgmma",
        "wgmma.acc m64",
        "wgmma.acc m63n8 f32",
        "mma.c",
        "product(mma.acc)",
        "product(mma.acc, mma.acc, mma.acc)",
        "foo(2)",
        "smem 64 f16",
        "then(mma.acc, mma.acc) x",
        "Sw<9,1,1> o 4:1",
        "swizzle(mma.acc, mma.acc",
        "blocked 8x8 reg 1 lane 1 warp 1 order 0",
    ] {
        assert!(layout(bad).is_err(), "{bad}");
    }
    assert!(layout(&"inverse(".repeat(10_000)).is_err());
}

#[test]
fn pictures_are_well_formed() {
    for text in [
        "mma.acc",
        "smem 8x64 f16 swizzle 128",
        "slice(mma.acc, 1)",
        "then(mma.acc, smem 16x8 f32)",
        "wgmma.acc m64n256 f32",
        "(reg: 1) -> ()",
        "16:1",
    ] {
        let svg = layout(text).unwrap().svg;
        assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"), "{text}");
        assert_eq!(svg.matches("<text").count(), svg.matches("</text>").count());
    }
    // A copy of an element is marked.
    assert!(layout("slice(mma.acc, 1)").unwrap().table.contains('*'));
}

/// Owner and register of every element: threads counted by lane, warp and warpgroup.
fn owners(layout: &Layout) -> Vec<(u64, u64, Vec<u64>)> {
    let weight = |axis: Axis| match axis {
        Axis::Lane => 1,
        Axis::Warp => 32,
        Axis::Warpgroup => 128,
        _ => 0,
    };
    let index = |x: &[u64]| -> (u64, u64) {
        let at = layout.ins().iter().zip(x);
        at.fold((0, 0), |(t, r), (&(axis, _), &v)| match axis {
            Axis::Reg => (t, v),
            _ => (t + v * weight(axis), r),
        })
    };
    let mut all: Vec<_> = layout
        .inputs()
        .map(|x| {
            let (thread, register) = index(&x);
            (thread, register, layout.apply(&x).to_vec())
        })
        .collect();
    all.sort_unstable();
    all
}

#[test]
fn every_printed_notation_is_read() {
    for text in [
        "mma.a k8 f16",
        "mma.acc",
        "mma.b k16 f16",
        "wgmma.acc m64n24 f32",
        "wgmma.acc m128n64 f32 x2",
        "wgmma.a m64k64 f16",
        "slice(mma.acc, 1)",
        "slice(mma.acc, 0)",
        "slice(wgmma.acc m64n192 f32, 1)",
        "ldmatrix.x4",
        "stmatrix.x2.trans",
        "blocked 64x64 reg 1x8 lane 4x8 warp 4x1 order 1,0",
        "blocked 16x8 reg 1x1 lane 4x8 warp 4x1 order 0,1",
        "blocked 24x32 reg 1x4 lane 4x8 warp 2x1 order 1,0",
        "blocked 8x8x8 reg 1x1x2 lane 4x2x4 warp 2x1x1 order 2,0,1",
        "blocked 4x64 reg 1x2 lane 1x32 warp 1x1 order 1,0",
    ] {
        let shown = layout(text).unwrap();
        for (name, notation_text) in &shown.notations {
            let read =
                layout(notation_text).unwrap_or_else(|e| panic!("{text}: {name} {notation_text}: {e}"));
            let same = owners(&read.layout) == owners(&shown.layout);
            assert!(same, "{text}: {name} {notation_text} reads as {}", read.layout);
            assert_eq!(notation(&read, name), Some(notation_text.as_str()), "{text}");
        }
    }
    for text in [
        "smem 64x64 f16 swizzle 128",
        "smem 24x20 f16 pad 4",
        "then(wgmma.a m64k64 f16, smem 64x64 f16 swizzle 128)",
    ] {
        for (name, notation_text) in &layout(text).unwrap().notations {
            let read =
                layout(notation_text).unwrap_or_else(|e| panic!("{text}: {name} {notation_text}: {e}"));
            assert_eq!(notation(&read, name), Some(notation_text.as_str()), "{text}");
        }
    }
}

#[test]
fn notations_that_mean_nothing() {
    for bad in [
        "shape [16, 8] mode_shape [2, 8, 4, 2] spatial_modes [1, 2] local_modes [0]",
        "shape [16, 8] mode_shape [2, 8, 4, 2] spatial_modes [1, 2] local_modes [0, 3, 3]",
        "shape [16, 8] mode_shape [2, 8, 4, 2] spatial_modes [1, 2] local_modes [0, 4]",
        "shape [16, 8] mode_shape [2, 4, 4, 2] spatial_modes [1, 2] local_modes [0, 3]",
        "shape [16, 8] mode_shape [2, 8, 4, 0] spatial_modes [1, 2] local_modes [0, 3]",
        "shape [16, 8] mode_shape [2, 8, 4, 2] spatial_modes [1, 2]",
        "((4,8),(2,2)):((32,1),(16,8)) over 8x8",
        "(2,32,2):(2@reg,1@lane,1@reg) over 16x9",
        "(2,32,2):(4@reg,1@lane,1@reg) over 16x8",
        "(2,32,2):(2@reg,1@lane,1@m) over 16x8",
        "(2,32,2):(2@reg,-1@lane,1@reg) over 16x8",
        "(2,32,2):(2@reg,1@lane,1@reg) + 3@reg over 16x8",
        "slice(mma.acc, 256)",
    ] {
        assert!(layout(bad).is_err(), "{bad}");
    }
}

#[test]
fn dimensions_have_a_limit() {
    assert_eq!(Axis::parse("d255"), Ok(Axis::Dim(255)));
    for name in ["d256", "d300", "d99999999999999999999"] {
        let message = Axis::parse(name).unwrap_err().to_string();
        assert!(message.contains(name) && message.contains("d255"), "{message}");
    }
    let message = parse("(reg: 2:1@d256) -> (d256: 2)").unwrap_err().to_string();
    assert!(message.contains("d255"), "{message}");
    // A name of letters stays a user's axis.
    assert!(matches!(Axis::parse("dx"), Ok(Axis::User(_))) && matches!(Axis::parse("d"), Ok(Axis::User(_))));
}
