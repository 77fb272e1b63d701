//! Variants of the library's product with weights of few bits: other types, groups, zero points and mappings.

use crate::library::reference;
use crate::orders::{ORDERS, right};
use warplift::ir::machine::{RingFill, StageRelease};
use warplift::ir::target::SM90A;
use warplift::ir::tile::{Kernel, Mapping, parse_file};
use warplift::{Feature, Options, compile};

/// The text of the library with some words replaced, everywhere.
///
/// # Panics
/// The text lacks a word, or is none with the others.
pub fn variant(words: &[(&str, &str)]) -> (Kernel, Mapping) {
    let mut text = include_str!("../../driver/kernels/a16w4.tile").to_owned();
    for (from, to) in words {
        assert!(text.contains(from), "the text has no `{from}`");
        text = text.replace(from, to);
    }
    let module = parse_file(&text, "a16w4").unwrap_or_else(|e| panic!("{words:?}: {e:?}"));
    (module.kernels[0].clone(), module.mappings[0].clone())
}

/// The same under a mapping of one warpgroup, which the simulator runs faster.
///
/// # Panics
/// As [`variant`].
pub fn narrow(words: &[(&str, &str)]) -> (Kernel, Mapping) {
    let (kernel, _) = variant(words);
    let mapping = mapped(&kernel, [64, 16], 1, "", "array w: packed, stream array s: staged");
    (kernel, mapping)
}

/// Runs a variant under several orders; small whole numbers, so that every sum is exact.
///
/// # Panics
/// It does not compile, has a hazard, or computes something else. `what` tells which.
pub fn check(what: &str, (kernel, mapping): &(Kernel, Mapping), [m, n, k]: [i64; 3]) {
    let options = Options { verify: true, ..Options::default() };
    let compiled = compile(kernel, mapping, &SM90A, &options).unwrap_or_else(|e| panic!("{what}: {e}"));
    let size = [("m", m), ("n", n), ("k", k)];
    let problem = reference(kernel, mapping, &size, 5);
    right(&problem, &compiled, &ORDERS, (2, 0.0), what);
}

/// A mapping of the text: tile, consumer warpgroups, and more.
///
/// # Panics
/// The words are none of a mapping.
pub fn mapped(kernel: &Kernel, [bn, bm]: [i64; 2], consumers: u32, chunk: &str, rest: &str) -> Mapping {
    let text = format!(
        "mapping {} {{ BN = {bn}, BM = {bm} for t: pipeline fit, producers 1, consumers {consumers}{chunk} {rest} }}",
        kernel.name
    );
    parse_file(&text, "mapping").unwrap_or_else(|e| panic!("{text}: {e:?}")).mappings[0].clone()
}

/// What a compiled load says of itself in the plan.
///
/// # Panics
/// The variant does not compile, or its plan has no such line.
pub fn way((kernel, mapping): &(Kernel, Mapping), load: &str) -> String {
    let compiled = compile(kernel, mapping, &SM90A, &Options::default()).unwrap();
    let plan = &compiled.explained.plan;
    plan.iter().find(|line| line.contains(load)).unwrap_or_else(|| panic!("{plan:#?}")).clone()
}

/// The words that make the text one with zero points for each group.
pub fn zeros(ty: &str) -> [(&'static str, &'static str); 4] {
    let point = if ty == "f16" { "- zero_point" } else { "- cast(zero_point, f16)" };
    [
        ("s: ptr<f16> align 16,", format!("s: ptr<f16> align 16, z: ptr<{ty}> align 16,").leak()),
        ("gy =", format!("gz = view z : {ty}[n, cdiv(k, GROUP)] strides [1, n] gy =").leak()),
        ("tx =", format!("zero_point = load gz[i*BN, t] : {ty}[BN, 1] tx =").leak()),
        ("- 8.0", point),
    ]
}

/// Whether a helper makes sums of x for all warps. It hands them on by a ring of as many stages as that of x, and multiplies
/// them where the producer's code is.
///
/// # Panics
/// It does not compile, has no producer, or another ring than that.
pub fn is_helped((kernel, mapping): &(Kernel, Mapping), disable: &[Feature]) -> bool {
    let options = Options { verify: true, disable: disable.to_vec(), ..Options::default() };
    let compiled = compile(kernel, mapping, &SM90A, &options).unwrap_or_else(|e| panic!("{e}"));
    let rings = &compiled.explained.schedule.rings;
    let handoff: Vec<_> = rings.values().filter(|r| r.fill == RingFill::Helper).collect();
    let (consumer, producer) = compiled.ptx.split_once("$producer:").expect("a producer");
    assert!(!consumer.contains("mma.sync"), "each warp would multiply by itself");
    assert_eq!(producer.contains("mma.sync"), !handoff.is_empty());
    for ring in &handoff {
        let StageRelease::With(leader) = ring.release else { panic!("{ring:?} follows none") };
        assert!(rings[leader].helped && rings[leader].fill == RingFill::Tma, "{:?}", rings[leader]);
        assert_eq!((ring.depth, &ring.blocks), (rings[leader].depth, &rings[leader].blocks));
    }
    !handoff.is_empty()
}

/// The consumers' code and the producer's.
///
/// # Panics
/// It does not compile, or has no producer.
pub fn roles((kernel, mapping): &(Kernel, Mapping)) -> [String; 2] {
    let options = Options { verify: true, ..Options::default() };
    let compiled = compile(kernel, mapping, &SM90A, &options).unwrap_or_else(|e| panic!("{e}"));
    let (consumer, producer) = compiled.ptx.split_once("$producer:").expect("a producer");
    [consumer, producer].map(str::to_owned)
}
