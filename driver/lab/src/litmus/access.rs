//! Rows of the opcode table that touch memory at one address: `NAME [$0$o]`, with the vector widths
//! that `$v` stands for.
//!
//! Each thread has a window of 64 bytes, in `out` or in shared memory, and reads or writes at byte 16 of it. The window
//! and the results are stored to `out`.

use super::case::{Case, Check, How, Kernel};
use super::values::Domain;
use std::fmt::Write as _;
use std::ops::Range;
use warplift_ir::target::{Class, Row, Unit};

const THREADS: usize = 64;
/// Bytes of a thread's window, and of what it has in `out`: window and results.
const WINDOW: usize = 64;
const STRIDE: usize = 128;

/// Suffix and registers.
const VECTORS: [(&str, usize); 3] = [("", 1), (".v2", 2), (".v4", 4)];

/// Number of the operand that is the address, and whether it is one of shared memory.
fn address(row: &Row) -> Option<(usize, bool)> {
    let mut brackets = row.syntax.match_indices('[');
    let (at, _) = brackets.next()?;
    if brackets.next().is_some() || row.unit != Unit::Lsu || !row.syntax.contains("$o]") {
        return None;
    }
    let operand = row.syntax[at..].strip_prefix("[$")?.chars().next()?.to_digit(10)? as usize;
    Some((operand, row.opcode.args().get(operand) == Some(&Class::B32)))
}

/// The case of a row that is a plain access; `None` for any other row.
pub(super) fn of_row(row: &Row) -> Option<Case> {
    let (operand, shared) = address(row)?;
    let vectors = if row.syntax.contains("$v") { &VECTORS[..] } else { &VECTORS[..1] };
    let mut checks = Vec::new();
    let mut body = prologue();
    for (i, (suffix, n)) in vectors.iter().enumerate() {
        let bytes = THREADS * STRIDE * i..THREADS * STRIDE * (i + 1);
        body += &one(row, operand, shared, suffix, *n, &bytes);
        checks.push(Check { what: format!("{}{suffix}", row.opcode.name()), bytes, how: How::Bits(4) });
    }
    let all = THREADS * STRIDE * vectors.len();
    let domain = Domain::of(row.syntax.split(' ').next().unwrap_or(""));
    let fill = |operand: usize, bytes: usize| -> Vec<u8> {
        domain.values(operand, 5).iter().flat_map(|v| (*v as u32).to_le_bytes()).cycle().take(bytes).collect()
    };
    let kernel = Kernel {
        name: format!("row/{}", row.opcode.name()),
        body,
        block: THREADS as u32,
        shared: (THREADS * WINDOW) as u32,
        input: fill(0, THREADS * STRIDE),
        output: fill(1, all),
        ..Kernel::default()
    };
    Some(kernel.with(checks))
}

/// `%rd3` = the thread's part of `in`, `%rd4` of `out`, `%r3` its window in shared memory, `%x0` to
/// `%x3` data.
fn prologue() -> String {
    format!(
        "mul.wide.u32 %rd5, %r2, {STRIDE};\nadd.s64 %rd3, %rd1, %rd5;\nadd.s64 %rd4, %rd2, %rd5;\n\
         mad.lo.u32 %r3, %r2, {WINDOW}, %r1;\nld.global.v4.b32 {{%x0, %x1, %x2, %x3}}, [%rd3+{WINDOW}];\n"
    )
}

fn list(prefix: &str, n: usize) -> String {
    let names: Vec<String> =
        (0..n).map(|i| format!("%x{}", i + if prefix == "result" { 4 } else { 0 })).collect();
    if n == 1 { names.concat() } else { format!("{{{}}}", names.join(", ")) }
}

fn one(row: &Row, operand: usize, shared: bool, suffix: &str, n: usize, out: &Range<usize>) -> String {
    let mut text = String::new();
    let at = out.start;
    if shared {
        text += &copy_window("%rd3", "%r3", "ld.global", "st.shared", 0);
    }
    let _ = writeln!(text, "add.s64 %rd6, %rd4, {at};");
    let mut access = row.syntax.replace("$v", suffix).replace("$o", "+16");
    for i in 0..row.opcode.args().len() {
        let name = match (i == operand, shared) {
            (true, true) => "%r3".to_owned(),
            (true, false) => "%rd6".to_owned(),
            (false, _) => match row.opcode.args()[i] {
                Class::B16 => {
                    text += "cvt.u16.u32 %h1, %x0;\n";
                    "%h1".to_owned()
                }
                Class::B64 => {
                    text += "mov.b64 %rd8, {%x0, %x1};\n";
                    "%rd8".to_owned()
                }
                _ => list("data", n),
            },
        };
        access = access.replace(&format!("${i}"), &name);
    }
    let (result, put) = results(row, n);
    access = access.replace("$d", &result);
    let end = if access.starts_with('{') { "" } else { ";" };
    let _ = writeln!(text, "{access}{end}");
    text += &put;
    if shared {
        text += &copy_window("%r3", "%rd6", "ld.shared", "st.global", 8);
    }
    text
}

/// The registers that take what an access returns, and the instructions that store them behind the window.
///
/// A register may be wider than what is loaded, but not narrower (PTX ISA, Operand Size Exceeding Instruction-Type Size); what
/// an update returns has its width.
fn results(row: &Row, n: usize) -> (String, String) {
    let loads = row.opcode.name().starts_with("ld");
    match row.opcode.results().first() {
        None => (String::new(), String::new()),
        Some(Class::B64) => ("%rd7".to_owned(), format!("st.global.b64 [%rd6+{WINDOW}], %rd7;\n")),
        Some(Class::B16) if !loads => ("%h2".to_owned(), format!("st.global.b16 [%rd6+{WINDOW}], %h2;\n")),
        Some(_) => {
            let put = |i| format!("st.global.b32 [%rd6+{}], %x{};\n", WINDOW + 4 * i, 4 + i);
            (list("result", n), (0..n).map(put).collect())
        }
    }
}

fn copy_window(from: &str, to: &str, load: &str, store: &str, register: usize) -> String {
    let one = |i: usize| {
        let list = (0..4).map(|k| format!("%x{}", register + 8 + k)).collect::<Vec<_>>().join(", ");
        format!(
            "{load}.v4.b32 {{{list}}}, [{from}+{}];\n{store}.v4.b32 [{to}+{}], {{{list}}};\n",
            16 * i,
            16 * i
        )
    };
    (0..WINDOW / 16).map(one).collect()
}
