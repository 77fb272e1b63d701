//! The kernel library is text; every kernel of it must read, have a mapping, and print so that it
//! reads back.

use std::path::Path;
use warplift_ir::target::SM90A;
use warplift_ir::tile::{Module, parse_file, verify, verify_mapping};

fn library() -> Vec<(String, Module)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../driver/kernels");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|f| f.unwrap().path()).collect();
    files.sort();
    files
        .iter()
        .map(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let text = std::fs::read_to_string(path).unwrap();
            let module = parse_file(&text, &name);
            (name, module.unwrap_or_else(|e| panic!("{path:?}: {e:?}")))
        })
        .collect()
}

#[test]
fn every_kernel_has_a_mapping() {
    let library = library();
    assert!(library.len() >= 13, "{} files", library.len());
    for (file, module) in &library {
        assert!(!module.kernels.is_empty(), "{file}");
        for kernel in &module.kernels {
            let mapping = module.mapping(&kernel.name).unwrap();
            assert_eq!(verify(kernel), Ok(()), "{file}");
            assert_eq!(verify_mapping(kernel, mapping, &SM90A), Ok(()), "{file}");
        }
    }
}

#[test]
fn every_kernel_reads_back() {
    for (file, module) in library() {
        for kernel in &module.kernels {
            let printed = kernel.to_string();
            let again = parse_file(&printed, &file).unwrap();
            assert!(kernel.same_as(&again.kernels[0]), "{file}: {printed}");
        }
        for mapping in &module.mappings {
            let again = parse_file(&mapping.to_string(), &file).unwrap();
            assert_eq!(again.mappings[0].to_string(), mapping.to_string());
            assert_eq!(again.mappings[0].loops, mapping.loops);
        }
    }
}
