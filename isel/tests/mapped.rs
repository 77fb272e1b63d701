//! After `map` a kernel of the library verifies, reads back, and computes the same, whatever the number
//! of programs that share its tiles.

use std::path::Path;
use warplift_ir::interp::{Arg, Memory, Options, run};
use warplift_ir::tile::{Kernel, Mapping, Module, Type, parse_file, verify};
use warplift_isel::map::do_map;

/// Elements of every array: the sizes are all [`SIZE`], and a row more.
const ELEMENTS: usize = 48 * 56;

/// Every integer argument.
const SIZE: i64 = 40;

/// The kernels of the library.
fn library() -> Vec<Module> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../driver/kernels");
    let files = std::fs::read_dir(folder).expect("the library's folder");
    let paths = files.map(|f| f.expect("an entry").path()).filter(|p| p.extension().is_some_and(|e| e == "tile"));
    let texts = paths.map(|p| std::fs::read_to_string(p).expect("a text"));
    texts.map(|t| parse_file(&t, "library").expect("it parses")).collect()
}

/// Small tiles, so that every kernel takes several.
fn shrink(mapping: &mut Mapping) {
    for (name, value) in &mut mapping.tunables {
        *value = match name.as_str() {
            "B" => 64,
            "BN" | "BP" => 32,
            _ => 16,
        };
    }
}

/// Small integers, different in every array.
fn value(array: usize, i: usize) -> f64 {
    ((i * 7 + array * 3 + i / 13) % 5) as f64 - 2.0
}

/// The bytes of all arrays after a run.
fn outcome(kernel: &Kernel, mapping: &Mapping, programs: u32) -> Vec<Vec<u8>> {
    let (mut memory, mut args, mut arrays) = (Memory::new(), Vec::new(), Vec::new());
    for p in &kernel.params {
        args.push(match kernel.ty(p.value) {
            Type::Ptr(elem) => {
                let values: Vec<f64> = (0..ELEMENTS).map(|i| value(arrays.len(), i)).collect();
                arrays.push(memory.add_values(&p.name, elem, &values));
                Arg::Ptr(arrays[arrays.len() - 1], 0)
            }
            Type::Scalar(elem) if elem.is_float() => Arg::Float(0.5),
            _ => Arg::Int(SIZE),
        });
    }
    // Mapped kernels have no tunables left.
    let tunables = if kernel.tunables.is_empty() { Vec::new() } else { mapping.tunables.clone() };
    let options = Options { programs, tunables, ..Options::default() };
    run(kernel, &args, &mut memory, &options).unwrap_or_else(|e| panic!("{}: {e}", kernel.name));
    arrays.iter().map(|&a| memory.bytes(a).to_vec()).collect()
}

fn check(kernel: &Kernel, mapping: &Mapping) {
    let name = &kernel.name;
    let mapped = do_map(kernel, mapping).unwrap_or_else(|e| panic!("{name}: {e}"));
    verify(&mapped).unwrap_or_else(|e| panic!("{name}: {e:?}\n{mapped}"));
    let again = parse_file(&mapped.to_string(), "mapped").unwrap_or_else(|e| panic!("{e:?}\n{mapped}"));
    assert!(mapped.same_as(&again.kernels[0]), "{mapped}\n{}", again.kernels[0]);
    let want = outcome(kernel, mapping, 1);
    for programs in [1, 3] {
        assert!(outcome(&mapped, mapping, programs) == want, "{name} by {programs} programs");
    }
}

fn check_all(change: fn(&mut Mapping)) {
    let mut checked = 0;
    for module in library() {
        for kernel in &module.kernels {
            let mut mapping = module.mapping(&kernel.name).expect("a mapping").clone();
            change(&mut mapping);
            check(kernel, &mapping);
            checked += 1;
        }
    }
    assert!(checked >= 12, "only {checked} kernels");
}

#[test]
fn small_tiles_compute_the_same() {
    check_all(shrink);
}

#[test]
fn the_mappings_of_the_library_compute_the_same() {
    check_all(|_| ());
}

#[test]
fn a_tile_that_a_tunable_makes_too_large_is_refused() {
    let module = &library()[0];
    for kernel in &module.kernels {
        let tunables = kernel.tunables.values().map(|t| (t.name.clone(), 1 << 30)).collect();
        let mapping = Mapping { tunables, ..Mapping::default() };
        let refused = do_map(kernel, &mapping).map(|_| ()).map_err(|e| e.to_string());
        assert!(refused.is_err_and(|e| e.contains("elements")), "{}", kernel.name);
    }
}
