//! The kernel that packs an array, made from the plan's order: in the simulator it leaves what the host's
//! packing leaves, for every width of elements.

use warplift::ir::manifest::Packing;
use warplift::ir::target::SM90A;
use warplift::ir::tile::{Kernel, Mapping, parse_file};
use warplift::packing::{PackingKernelError, kernel_text, pack};
use warplift::{Options, compile, sim};
use warplift_golden::library::reference;

/// How the text of the library wants its weights, of another type.
fn packing(ty: &str, mapping: &str) -> Packing {
    packing_of(include_str!("../../driver/kernels/a16w4.tile"), ty, mapping)
}

/// The same for one of several arrays of weights, whose number comes from memory.
fn packing_of_one(ty: &str, mapping: &str) -> Packing {
    let text = include_str!("../../driver/kernels/a16w4.tile")
        .replace("m: i32,", "which: ptr<i32>, all: i32, m: i32,")
        .replace("gw = view w : u4[n, k]", "whole = view w : u4[all, n, k] gi = view which : i32[1]")
        .replace(
            "i, j = block_index",
            "i, j = block_index at = load gi[0] : i32 gw = subview whole[at, _, _]",
        );
    packing_of(&text, ty, mapping)
}

fn packing_of(text: &str, ty: &str, mapping: &str) -> Packing {
    let text = text.replace("ptr<u4>", &format!("ptr<{ty}>")).replace(": u4[", &format!(": {ty}["));
    let kernel = parse_file(&text, ty).unwrap_or_else(|e| panic!("{ty}: {e:?}")).kernels.remove(0);
    let text = format!("mapping a16w4 {{ {mapping} array w: packed array s: staged }}");
    let mapping = parse_file(&text, ty).unwrap_or_else(|e| panic!("{text}: {e:?}")).mappings.remove(0);
    let compiled = built(&kernel, &mapping, ty);
    let wanted = compiled.manifest.arguments.iter().find_map(|a| a.packing.clone());
    wanted.unwrap_or_else(|| panic!("{ty}: no array is packed"))
}

fn built(kernel: &Kernel, mapping: &Mapping, what: &str) -> warplift::Compiled {
    let options = Options { verify: true, ..Options::default() };
    compile(kernel, mapping, &SM90A, &options).unwrap_or_else(|e| panic!("{what}: {e}"))
}

/// Packs an array of random bits on the host and in the simulator.
fn check(ty: &str, packing: &Packing, [outer, rows, columns]: [i64; 3]) {
    let text = kernel_text(packing).unwrap_or_else(|e| panic!("{ty}: {e}"));
    let mut module = parse_file(&text, "pack").unwrap_or_else(|e| panic!("{ty}: {e:?}\n{text}"));
    let (kernel, mapping) = (module.kernels.remove(0), module.mappings.remove(0));
    let compiled = built(&kernel, &mapping, &text);
    let mut problem =
        reference(&kernel, &mapping, &[("outer", outer), ("rows", rows), ("columns", columns)], 1);
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for byte in &mut problem.data.buffers[0] {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *byte = (state >> 56) as u8;
    }
    let run = problem.simulate(&compiled.ptx, &compiled.manifest, &sim::Options::default(), 2);
    let (have, report) = run.unwrap_or_else(|e| panic!("{ty}: {e}"));
    assert!(report.hazards.is_empty(), "{ty}: {:?}", report.hazards);
    let value = |name: &str| match name {
        "n" => Some(rows),
        "k" => Some(columns),
        "all" => Some(outer),
        _ => None,
    };
    let want = pack(packing, &problem.data.buffers[0], &value).unwrap_or_else(|e| panic!("{ty}: {e}"));
    assert_eq!(have[1].len(), want.len(), "{ty}");
    let wrong = have[1].iter().zip(&want).position(|(a, b)| a != b);
    assert_eq!(wrong, None, "{ty}: the first byte that differs\n{text}");
}

#[test]
fn a_kernel_packs_as_the_host_does() {
    let narrow = "BN = 64, BM = 16 for t: pipeline fit, producers 1, consumers 1";
    let wide = "BN = 448, BM = 16 for t: pipeline fit, producers 1, consumers 7, chunk 32";
    for (ty, mapping, size) in [
        ("u4", narrow, [72, 256]),
        ("u4", wide, [456, 160]),
        ("u8", narrow, [72, 256]),
        ("u2", narrow, [64, 128]),
        ("u6", narrow, [72, 160]),
        ("i5", narrow, [65, 128]),
        ("u3", narrow, [72, 256]),
    ] {
        let [rows, columns] = size;
        check(ty, &packing(ty, mapping), [1, rows, columns]);
        let one = packing_of_one(ty, mapping);
        assert!(one.zeros && one.outer.len() == 1, "{one:?}");
        check(ty, &one, [3, rows, columns]);
    }
}

#[test]
fn what_a_kernel_cannot_pack_is_said() {
    let plan = packing("u4", "BN = 64, BM = 16 for t: pipeline fit, producers 1, consumers 1");
    let odd = Packing { tile: [64, 4], ..plan.clone() };
    assert_eq!(kernel_text(&odd), Err(PackingKernelError::Rows { columns: 4, bits: 4 }));
    let wide = Packing { bits: 64, ..plan };
    assert_eq!(kernel_text(&wide), Err(PackingKernelError::Wide { bits: 64 }));
}
