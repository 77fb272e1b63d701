//! The examples of the language's page and of the README are kernels that compile: they are read from the pages themselves.

use warplift::ir::target::SM90A;
use warplift::ir::tile::{Module, parse_file};
use warplift::{Options, compile};

/// All blocks of a page that are marked as tile text, as one file.
fn examples(page: &str) -> Module {
    let mut blocks = page.split("```tile\n").skip(1).map(|rest| rest.split("```").next().unwrap_or_default());
    let text = blocks.by_ref().collect::<Vec<_>>().join("\n");
    parse_file(&text, "page.tile").unwrap_or_else(|errors| panic!("{errors:?}\n{text}"))
}

/// Compiles every mapping of a page with its kernel; names of the kernels, once for each mapping.
fn compiled(page: &str) -> Vec<String> {
    let module = examples(page);
    let options = Options { verify: true, ..Options::default() };
    let compile_one = |mapping: &warplift::ir::tile::Mapping| {
        let kernel =
            module.kernel(&mapping.kernel).unwrap_or_else(|| panic!("no kernel `{}`", mapping.kernel));
        compile(kernel, mapping, &SM90A, &options).unwrap_or_else(|e| panic!("{}: {e}", mapping.kernel));
        mapping.kernel.clone()
    };
    module.mappings.iter().map(compile_one).collect()
}

#[test]
fn examples_of_the_language_compile() {
    assert_eq!(compiled(include_str!("../../docs/language.md")), ["scale_rows", "online"]);
}

#[test]
fn examples_of_the_readme_compile() {
    assert_eq!(compiled(include_str!("../../README.md")), ["gemm", "gemm"]);
}
