//! Failure classes that an outside fuzzer found in TileLang (numbers are its issues): each one, written in the tile
//! language or compiled from the library, is right here, or refused. Those written as PTX stand with the simulator.

use warplift::ir::manifest::Param;
use warplift::ir::target::SM90A;
use warplift_lab::litmus;
use warplift_lab::mutation::{CASES, Subject, source};
use warplift_lab::validate::{Sizes, Style, Validation};
use warplift_sim::mutate::{Mutation, adversaries};

/// Tensor copies place the chunks of a swizzle by the address, whose pattern repeats every 256, 512 or 1024 bytes: a
/// box that begins elsewhere is another arrangement, which shows in what is read from its beginning.
#[test]
fn boxes_off_the_pattern_of_their_swizzle_2379_2391() {
    for swizzle in [32, 64, 128] {
        let name = format!("tma/load.2d.u8.swizzle{swizzle}.at.0.0");
        let case = litmus::select(&[name]).expect("a litmus of that name").remove(0);
        for off in [128, 256, 512, 1024] {
            let mut moved = case.clone();
            moved.ptx = case.ptx.replacen(
                "add.u32 %r3, %r1",
                &format!("add.u32 %r1, %r1, {off};\nadd.u32 %r3, %r1"),
                1,
            );
            moved.manifest.dynamic_shared += off;
            let said = litmus::simulate(&moved);
            assert_eq!(said.is_ok(), off % (8 * swizzle) == 0, "{swizzle}, {off} bytes off: {said:?}");
        }
    }
    // Buffers of other sizes stand before those of tensor copies in what is compiled.
    for (tile, swizzle) in [("BK = 16", 32), ("BK = 32", 64), ("BK = 64", 128)] {
        let mapping = format!("BM = 64, BN = 24, {tile}\nfor t: pipeline 3, consumers 1\nkernel: persistent");
        let text = remapped("gemm", &mapping);
        let maps = made(&text).expect("it compiles").manifest.params;
        let spans = maps.iter().filter_map(|p| match p {
            Param::TensorMap(m) => Some(m.swizzle),
            _ => None,
        });
        assert!(spans.take(2).all(|s| s == swizzle), "{tile}: {maps:?}");
        compiled(&text, "136x40x72");
    }
    compiled(
        &remapped("a16w4", "BN = 64, BM = 16, GROUP = 128\nfor t: pipeline 3, consumers 1\narray s: staged"),
        "20x72x512",
    );
}

/// A fence between the proxies stands only where the asynchronous one follows: none in kernels of ordinary accesses,
/// and each of the others is missed, which the mutation proof says of all of them.
#[test]
fn no_fence_between_the_proxies_is_useless_1002() {
    let mut ordinary = 0;
    for case in CASES {
        let (kernel, mapping) = source(case).unwrap_or_else(|e| panic!("{e}"));
        let ptx = warplift::compile(&kernel, &mapping, &SM90A, &Default::default())
            .unwrap_or_else(|e| panic!("{}: {e}", case.name()))
            .ptx;
        let asynchronous = ["wgmma.mma_async", "cp.async.bulk", "cp.reduce"].iter().any(|o| ptx.contains(o));
        ordinary += u32::from(!asynchronous);
        assert!(asynchronous || !ptx.contains("fence.proxy"), "{}", case.name());
    }
    assert!(ordinary >= 10, "{ordinary} kernels of ordinary accesses");

    let case =
        CASES.iter().find(|c| c.kernel == "gemm" && c.mapping.ends_with("consumers 1, wait 0")).unwrap();
    let (kernel, mapping) = source(case).unwrap_or_else(|e| panic!("{e}"));
    let subject = Subject::new(&kernel, &mapping, case).unwrap_or_else(|e| panic!("{e}"));
    let mut fences = subject.mutants().unwrap_or_else(|e| panic!("{e}"));
    fences.retain(|m| m.mutation == Mutation::Remove && m.description.contains("`fence.proxy.async"));
    assert!(!fences.is_empty());
    let report = subject.prove(&fences, &|| ()).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(report.caught.get("MissingProxyFence"), Some(&fences.len()), "{report:?}");
}

/// A kernel of the tile language, compiled and run in the simulator: right and clean.
fn compiled(text: &str, sizes: &str) {
    let module = warplift::ir::tile::parse_file(text, "test.tile").unwrap_or_else(|e| panic!("{e:?}"));
    let (kernel, mapping) = (&module.kernels[0], &module.mappings[0]);
    let made = made(text).unwrap_or_else(|e| panic!("{e}"));
    let sizes = Sizes::parse(kernel, sizes).unwrap_or_else(|e| panic!("{e}"));
    let validation = Validation::new(kernel, mapping, sizes).unwrap_or_else(|e| panic!("{e}"));
    let reference = validation.reference(Style::Integers, 1).unwrap_or_else(|e| panic!("{e}"));
    for o in adversaries(2, 3_000_000) {
        let run = reference.simulate(&made.ptx, &made.manifest, &o, 2);
        let (found, report) = run.unwrap_or_else(|e| panic!("{e}"));
        assert_eq!((reference.difference(&found), report.hazards), (None, vec![]));
    }
}

#[test]
fn columns_that_are_8_modulo_16_2593_2603() {
    for (tile, consumers) in [("BM = 64, BN = 24", 1), ("BM = 64, BN = 72", 1), ("BM = 128, BN = 136", 2)] {
        let mapping = format!("{tile}, BK = 32\nfor t: pipeline 2, consumers {consumers}");
        compiled(&remapped("gemm", &mapping), "136x280x72");
    }
}

#[test]
fn nested_modulo_2955() {
    let text = "kernel modulo(x: ptr<i32> align 16, n: i32) {\n grid cdiv(n, 64)\n gx = view x : i32[n]\n\
        i = block_index\n t = iota 0 : i32[64]\n v = ((t + i * 64) % 37 % 11) * 5 % 7\n store gx[i*64], v\n}\n\
        mapping modulo { kernel: warps 1 }";
    compiled(text, "n=200");
}

/// The first kernel of a text under its first mapping.
fn made(text: &str) -> Result<warplift::Compiled, warplift::CompileError> {
    let module = warplift::ir::tile::parse_file(text, "test.tile").unwrap_or_else(|e| panic!("{e:?}"));
    let target = &SM90A;
    warplift::compile(&module.kernels[0], &module.mappings[0], target, &Default::default())
}

/// A kernel of the library under another mapping, as text.
fn remapped(name: &str, mapping: &str) -> String {
    let text = warplift::kernels::find(name).expect("a kernel of the library").text;
    let (kernel, _) = text.split_once(&format!("mapping {name}")).expect("a mapping");
    format!("{kernel}mapping {name} {{\n{mapping}\n}}")
}

/// Tensor copies know no elements of 4 bits: such weights are packed, come as the bytes that two share, or the mapping is refused.
#[test]
fn tensor_copies_of_4_bit_elements_2563() {
    let tile = "BN = 64, BM = 16, GROUP = 128\nfor t: pipeline 2, consumers 1\narray s: staged";
    compiled(&remapped("a16w4", tile), "20x72x256");
    let staged = remapped("a16w4", &format!("{tile} array w: staged"));
    compiled(&staged, "20x72x256");
    let of_two_bits = staged.replace("u4", "u2");
    let refused = made(&of_two_bits).map(|_| ()).unwrap_err();
    assert!(refused.to_string().contains("threads do not hold whole bytes"), "{refused}");
}

#[test]
fn threads_of_roles_of_every_size_2548_2643_2209() {
    for (rows, consumers, producers) in [(64, 1, 1), (128, 2, 1), (192, 3, 1), (128, 2, 0), (64, 1, 0)] {
        let roles = format!("for t: pipeline 2, consumers {consumers}, producers {producers}");
        let mapping = format!("BM = {rows}, BN = 64, BK = 32\n{roles}\nkernel: persistent");
        compiled(&remapped("gemm", &mapping), "200x72x104");
    }
}
