//! The texts of a module's prints, as strings in global memory.
//!
//! ```text
//!  printf r4, print "n %d\n"     ─►     .global .align 1 .b8 _print0[6] = {110, 32, 37, 100, 10, 0};
//! ```

use std::fmt::Write as _;
use warplift_ir::machine::{Attr, Func, Scheduled};

/// The functions of a program, in the order of the text.
pub(crate) fn funcs<'p, 'a>(program: &'p Scheduled<'a>) -> impl Iterator<Item = &'p Func<'a>> {
    std::iter::once(&program.setup).chain(program.roles.iter().map(|r| &r.func))
}

/// The texts of a program's prints, each once, in the order of their first use.
pub(crate) fn texts<'p>(program: &'p Scheduled<'_>) -> Vec<&'p str> {
    let mut all: Vec<&str> = Vec::new();
    for func in funcs(program) {
        for &inst in func.order.iter().flat_map(|&b| &func.blocks[b].insts) {
            if let Attr::Print(text) = &func.insts[inst].attr
                && !all.contains(&text.as_str())
            {
                all.push(text);
            }
        }
    }
    all
}

/// The declarations that prints of these texts need.
pub(crate) fn declare(out: &mut String, texts: &[&str]) {
    if !texts.is_empty() {
        out.push_str(".extern .func (.param .b32 printed) vprintf (.param .b64 text, .param .b64 values);\n");
    }
    for (n, text) in texts.iter().enumerate() {
        let bytes: Vec<String> = text.bytes().chain([0]).map(|b| b.to_string()).collect();
        let _ = writeln!(out, ".global .align 1 .b8 _print{n}[{}] = {{{}}};", bytes.len(), bytes.join(", "));
    }
}
