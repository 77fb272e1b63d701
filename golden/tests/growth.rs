//! Compile time grows with the length of a text, not faster: long texts of simple shapes stay under a limit that a search
//! along all their paths would exceed by far.

use std::fmt::Write;
use std::time::Duration;
use warplift::ir::target::SM90A;
use warplift::ir::tile::parse_file;
use warplift::options::Limits;
use warplift::{Options, compile};

/// A debug build takes about a tenth of it.
const LIMIT: Duration = Duration::from_secs(15);

fn compiles_in_time(text: &str) {
    let module = parse_file(text, "long").unwrap_or_else(|e| panic!("{e}"));
    let options = Options { limits: Limits { time: Some(LIMIT), ..Limits::default() }, ..Options::default() };
    let made = compile(&module.kernels[0], &module.mappings[0], &SM90A, &options);
    assert!(made.is_ok(), "{}", made.err().map(|e| e.to_string()).unwrap_or_default());
}

/// Each value has two users and the first one a third of all, so that paths from the load to the store are many.
#[test]
fn chains_that_part_and_meet() {
    let mut text = "kernel long(a: ptr<f32> align 16, c: ptr<f32> align 16, m: i32 % 4) {
    grid cdiv(m, 1024)
    i = block_index
    ga = view a : f32[m]
    gc = view c : f32[m]
    x0 = load ga[i*1024] : f32[1024]
    x1 = x0 + 1.0
"
    .to_owned();
    for n in 2..9000 {
        let other = if n % 3 == 0 { 0 } else { n - 2 };
        let _ = writeln!(text, "    x{n} = max(x{} * 1.5, x{other})", n - 1);
    }
    compiles_in_time(&(text + "    store gc[i*1024], x8999\n}\nmapping long { kernel: warps 4 }\n"));
}

#[test]
fn products_in_a_row() {
    let mut text =
        "kernel long(a: ptr<f16> align 16, b: ptr<f16> align 16, c: ptr<f16> align 16, m: i32 % 64) {
    grid m / 64
    i = block_index
    ga = view a : f16[m, 512]
    gb = view b : f16[64, 512]
    gc = view c : f16[m, 64]
    x0 = full 0.0 : f32[64, 64]
"
        .to_owned();
    for n in 0..32 {
        let _ = writeln!(text, "    a{n} = load ga[i*64, {n}*16] : f16[64, 16]");
        let _ = writeln!(text, "    b{n} = load gb[0, {n}*16] : f16[64, 16]");
        let _ = writeln!(text, "    x{} = mma x{n}, a{n}, trans(b{n})", n + 1);
    }
    let end = "    store gc[i*64, 0], cast(x32, f16)\n}\nmapping long { kernel: warps 4 }\n";
    compiles_in_time(&(text + end));
}
