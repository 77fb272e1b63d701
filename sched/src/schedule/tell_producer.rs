//! Scalars that the computing threads find together, as the least of a tile's rows, and that the producer's copies follow from:
//! each gets a ring of one word, by which the consumers tell it.
//!
//! ```text
//!  consumers   main loop ─ reduce ─ st.shared word ─ arrive full ─ if word .. { loop }
//!  producer    copies ─ wait full ─ ld.shared word ─ arrive empty ─ if word .. { copies } ─ copies of the next tile
//! ```
//!
//! Without that the threads that compute would copy too, also in all loops that do not depend on the word. The producer waits for
//! it once, and copies ahead before and behind it. What consumers need for a word is copied before the producer waits for it, so
//! nobody waits in a circle.

use super::rings::told_ring;
use warplift_ir::machine::{BufferData, BufferKind, Program, Schedule};

/// Gives each scalar that consumers tell the producer its ring.
pub fn do_tell_producer(program: &mut Program<'_>, s: &mut Schedule) {
    for &value in &s.decisions {
        let Some(inst) = program.func.def(value) else { continue };
        let (name, kind) = ("decision".to_owned(), BufferKind::Decision);
        let buffer = program.buffers.push(BufferData { name, bytes: 4, align: 4, kind });
        s.rings.push(told_ring(program, buffer, inst));
        let line = program.func.insts[inst].loc.line;
        s.remarks
            .push(format!("line {line}: the producer waits for what the computing threads find together"));
    }
}
