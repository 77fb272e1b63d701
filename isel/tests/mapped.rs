//! After `map` a kernel verifies, reads back from its text, and computes the same: every kernel of
//! the library under its own mapping and under one with small tiles, by one program and by three, in
//! every form.

use std::path::Path;
use warplift_ir::interp::{Arg, Memory, Options, run};
use warplift_ir::target::SM90A;
use warplift_ir::tile::{Kernel, Mapping, Module, Op, Type, parse_file, verify};
use warplift_isel::map::{MapContext, Variant, do_map};

/// Value of every size: not a multiple of a tile, and of 8 as the facts ask for.
const SIZE: i64 = 40;
/// Elements of every buffer: more than any view spans.
const ELEMENTS: usize = 136 * 512;

fn library() -> Vec<Module> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../driver/kernels");
    let files = std::fs::read_dir(folder).unwrap().map(|f| f.unwrap().path());
    let all = files.map(|path| parse_file(&std::fs::read_to_string(path).unwrap(), "library").unwrap());
    // Arrays of more dimensions have too many elements at these sizes.
    let flat = |m: &Module| {
        let k = &m.kernels[0];
        let large = |v| matches!(k.ty(v), Type::View(_, rank) if rank > 3);
        !k.insts
            .keys()
            .any(|i| matches!(k.insts[i].op, Op::SubView(_)) || k.results(i).iter().any(|&v| large(v)))
    };
    let modules: Vec<Module> = all.filter(flat).collect();
    assert!(modules.len() > 20);
    modules
}

/// The mapping with tiles of 16 to 64; a kernel that asserts that a row fits gets one that does.
fn shrunk(kernel: &Kernel, mapping: &Mapping) -> Mapping {
    let whole_rows = kernel.insts.values().any(|d| matches!(d.op, Op::Assert(_)));
    let mut mapping = mapping.clone();
    for (name, value) in &mut mapping.tunables {
        *value = match name.as_str() {
            "B" => 64,
            "BN" if whole_rows => 64,
            "S" => 2,
            "BN" | "BP" => 32,
            _ => 16,
        };
    }
    mapping
}

/// Small integers, so that every sum is exact and its order does not matter.
fn data(seed: usize) -> Vec<f64> {
    (0..ELEMENTS).map(|i| ((i * 7 + seed * 3 + i / 13) % 5) as f64 - 2.0).collect()
}

/// All buffers after a run.
fn outcome(kernel: &Kernel, tunables: &[(String, i64)], programs: u32) -> Vec<Vec<u8>> {
    let mut memory = Memory::new();
    let mut ids = Vec::new();
    let args: Vec<Arg> = kernel
        .params
        .iter()
        .map(|p| match kernel.ty(p.value) {
            Type::Ptr(elem) => {
                ids.push(memory.add_values(&p.name, elem, &data(ids.len())));
                Arg::Ptr(ids[ids.len() - 1], 0)
            }
            Type::Scalar(elem) if elem.is_float() => Arg::Float(0.5),
            _ => Arg::Int((SIZE as u64).next_multiple_of(p.facts.multiple.max(1) as u64) as i64),
        })
        .collect();
    let options = Options { programs, tunables: tunables.to_vec(), ..Options::default() };
    run(kernel, &args, &mut memory, &options).unwrap();
    ids.iter().map(|&id| memory.bytes(id).to_vec()).collect()
}

/// Every form that the kernel may take.
fn check(kernel: &Kernel, mapping: &Mapping) {
    let variants = do_map(kernel, &MapContext::new(mapping, &SM90A, &[])).unwrap();
    let expected = outcome(kernel, &mapping.tunables, 1);
    for Variant { mma, kernel: mapped } in variants {
        assert_eq!(verify(&mapped), Ok(()), "{mapped}");
        let printed = mapped.to_string();
        let again = parse_file(&printed, "printed").unwrap_or_else(|e| panic!("{e:?}\n{printed}"));
        assert!(mapped.same_as(&again.kernels[0]), "{printed}\n{}", again.kernels[0]);
        for programs in [1, 3] {
            let have = outcome(&mapped, &[], programs);
            assert!(have == expected, "{} as {mma} by {programs} programs", kernel.name);
        }
    }
}

#[test]
fn own_mappings_keep_the_meaning() {
    for module in library() {
        let kernel = &module.kernels[0];
        check(kernel, module.mapping(&kernel.name).unwrap());
    }
}

#[test]
fn small_tiles_keep_the_meaning() {
    for module in library() {
        let kernel = &module.kernels[0];
        let small = shrunk(kernel, module.mapping(&kernel.name).unwrap());
        match do_map(kernel, &MapContext::new(&small, &SM90A, &[])) {
            Ok(_) => check(kernel, &small),
            // Many warps cannot share so small a product.
            Err(e) => assert!(e.message.contains("product") && e.message.contains(" warps: "), "{e}"),
        }
    }
}
