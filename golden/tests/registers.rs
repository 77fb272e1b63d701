//! The limit of registers: mappings on both sides of it, assembled. A mapping is refused only where ptxas spills or
//! serializes, and what is accepted does neither.

use warplift::ir::target::SM90A;
use warplift::ir::tile::{Module, parse_file};
use warplift::kernels::find;
use warplift::toolchain::{Fetch, PtxasOptions, Toolchain};
use warplift::{Compiled, Options, compile};

/// A kernel of the library under another mapping.
fn remapped(kernel: &str, rows: u32, columns: u32, consumers: u32, depth: &str) -> Module {
    let text = find(kernel).expect("a kernel of the library").text;
    let text = text.split("\nmapping ").next().unwrap_or_default();
    under(text, &format!("BM = {rows}, BN = {columns}, {depth} {}", teams(consumers)))
}

fn teams(consumers: u32) -> String {
    format!("for t: pipeline fit, producers 1, consumers {consumers} kernel: persistent")
}

/// A text's kernel under a mapping.
fn under(text: &str, mapping: &str) -> Module {
    let (_, rest) = text.split_once("\nkernel ").expect("a kernel behind a comment");
    let name = rest.split('(').next().unwrap_or_default();
    let text = format!("{text}\nmapping {name} {{ {mapping} }}");
    parse_file(&text, "f.tile").unwrap_or_else(|e| panic!("{e:?}\n{text}"))
}

fn made(module: &Module, unbounded_registers: bool) -> Result<Compiled, String> {
    let options = Options { unbounded_registers, ..Options::default() };
    compile(&module.kernels[0], &module.mappings[0], &SM90A, &options).map_err(|e| e.to_string())
}

/// Whether a mapping is accepted. What ptxas does to it must agree.
fn accepted(module: &Module) -> bool {
    let tools = Toolchain::find_or_install(None, Fetch::default()).expect("the tools");
    let slowdown =
        |c: &Compiled| tools.ptxas(&c.ptx, &PtxasOptions::default()).expect("right PTX").slowdown();
    match made(module, false) {
        Ok(compiled) => {
            assert_eq!(slowdown(&compiled), None, "accepted: {}", module.mappings[0]);
            true
        }
        Err(why) => {
            assert!(why.contains("registers"), "{why}");
            let free = made(module, true).unwrap_or_else(|e| panic!("{e}"));
            assert!(slowdown(&free).is_some(), "refused, and ptxas takes it: {why}\n{}", module.mappings[0]);
            false
        }
    }
}

#[test]
fn the_limit_of_gemms_is_that_of_the_assembler() {
    let gemm =
        |kernel, rows, columns, consumers| accepted(&remapped(kernel, rows, columns, consumers, "BK = 64"));
    assert!(gemm("gemm_dual", 128, 192, 2));
    assert!(!gemm("gemm_dual", 128, 224, 2));
    assert!(!gemm("gemm_dual", 192, 160, 3));
    assert!(gemm("gemm_two_outputs", 192, 192, 3));
    assert!(!gemm("gemm_two_outputs", 192, 256, 3));
    assert!(gemm("gemm_bias_relu_residual", 192, 192, 3));
    assert!(!gemm("gemm_bias_relu_residual", 192, 256, 3));
}

#[test]
fn the_limit_of_attention_is_that_of_the_assembler() {
    let attention =
        |rows, columns, consumers| accepted(&remapped("attention", rows, columns, consumers, "D = 128"));
    assert!(attention(128, 256, 2));
    assert!(attention(192, 128, 3));
    assert!(!attention(192, 208, 3));
}

/// A fused epilogue whose intermediate values are many, in place, at the widest tile.
#[test]
fn chains_of_arithmetic_hold_few_registers() {
    let text = find("gemm_bias_relu_residual").expect("a kernel of the library").text;
    let text = text.split("\nmapping ").next().unwrap_or_default();
    let gelu = "x = acc + cast(row, f32)\n    \
                sum = x * (0.5 + 0.5 * tanh(x * 0.79788 + x * x * x * 0.0356774)) + cast(old, f32)";
    let text = text.replace("sum = max(acc + cast(row, f32), 0.0) + cast(old, f32)", gelu);
    assert!(text.contains("tanh"), "{text}");
    assert!(accepted(&under(&text, &format!("BM = 128, BN = 256, BK = 64 {}", teams(2)))));
}

/// 36 K-steps in one iteration: 72 descriptors, which are a base and constants.
#[test]
fn deep_products_compile() {
    let text = find("gemm").expect("a kernel of the library").text;
    let text = text.split("\nmapping ").next().unwrap_or_default();
    let module = under(text, &format!("BM = 64, BN = 64, BK = 576 {}", teams(1)));
    assert!(accepted(&module));
    let ptx = made(&module, false).unwrap_or_else(|e| panic!("{e}")).ptx;
    assert_eq!(ptx.matches("wgmma.mma_async").count() % 36, 0, "{ptx}");
}

/// Where blocks stand beside each other, ptxas is held to an equal share of the registers: it must take that.
#[test]
fn blocks_beside_each_other_assemble() {
    let text = find("gemm").expect("a kernel of the library").text;
    let text = text.split("\nmapping ").next().unwrap_or_default();
    let mut beside = 0;
    for (columns, depth) in [(8, 1), (16, 1), (16, 2), (32, 2), (48, 1), (64, 1), (64, 2), (120, 1)] {
        for consumers in [2, 3] {
            let teams = format!("for t: pipeline {depth}, producers 1, consumers {consumers}");
            let tile = format!("BM = {}, BN = {columns}, BK = 64", 64 * consumers);
            let module = under(text, &format!("{tile} {teams}"));
            let compiled = made(&module, false).unwrap_or_else(|e| panic!("{e}"));
            beside += u32::from(!compiled.ptx.contains("setmaxnreg"));
            assert!(accepted(&module), "{}", module.mappings[0]);
        }
    }
    assert!(beside >= 8, "{beside} of 16 divide no registers");
}
