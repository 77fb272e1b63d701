//! What is refused is refused with its place and its reason: kernels that are right and that no stage compiles, and
//! mappings whose numbers are impossible.

use warplift::ir::target::SM90A;
use warplift::ir::tile::parse_file;
use warplift::{CompileError, Options, compile};

/// Kernel and mapping of a text with one argument `x` and what stands in its body, and the message.
fn message(params: &str, body: &str, mapping: &str) -> String {
    let text = format!(
        "kernel f(x: ptr<f32>, y: ptr<f32>, {params}) {{\n tunable B = 256\n grid 3\n {body}\n}}\nmapping f {{ {mapping} }}"
    );
    let module = parse_file(&text, "f.tile").unwrap_or_else(|e| panic!("{e:?}\n{text}"));
    match compile(&module.kernels[0], &module.mappings[0], &SM90A, &Options::default()) {
        Ok(c) => panic!("it compiles:\n{text}\n{}", c.ptx),
        Err(CompileError::Isel(e)) => format!("f.tile:{}:{}: {e}", e.loc.line, e.loc.column),
        Err(e) => e.to_string(),
    }
}

const COPY: &str = "gx = view x : f32[n]\n gy = view y : f32[n]\n z = load gx[0] : f32[B]";

#[test]
fn blocks_past_the_grid_may_store_nothing() {
    let said = message("n: i32", &format!("{COPY}\n atomic_add gy[0], z"), "kernel: warps 4, cluster 2");
    assert!(said.contains("past the grid's end") && said.contains("f.tile:7:"), "{said}");
}

#[test]
fn an_assert_in_a_branch_is_no_fact() {
    let body = format!("{COPY}\n if m > 3 {{ assert n <= 64, \"small\" }}\n store gy[0], z");
    let said = message("n: i32, m: i32", &body, "kernel: warps 4");
    assert!(said.contains("inside a branch") && said.contains("f.tile:7:"), "{said}");
}

#[test]
fn indices_are_words() {
    let body = "gx = view x : f32[n]\n z = load gx[0] : f32[B]\n store gx[0], z";
    let said = message("n: i64", body, "kernel: warps 4");
    assert!(said.contains("of type i64") && said.contains("f.tile:4:"), "{said}");
}

#[test]
fn wide_quotients_are_not_rounded_up() {
    let body = format!("{COPY}\n a = cast(cdiv(m, cast(64, i64)), i32)\n store gy[a], z");
    let said = message("n: i32, m: i64", &body, "kernel: warps 4");
    assert!(said.contains("i64") && said.contains("f.tile:7:"), "{said}");
}

#[test]
fn a_pipeline_has_stages_that_can_be() {
    let body = format!("{COPY}\n w = for t in 0..m carry a = z {{ b = a + 1.0 yield b }}\n store gy[0], w");
    for stages in ["0", "257", "268435456"] {
        let said = message("n: i32, m: i32", &body, &format!("for t: pipeline {stages}"));
        assert!(said.contains(stages) && said.contains("1 to 256"), "{said}");
    }
}
