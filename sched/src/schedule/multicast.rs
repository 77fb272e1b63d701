//! Loads that all blocks of a cluster share. Each block fetches a part of the box and sends it to all.

use crate::analysis::loads_of_cluster;
use warplift_ir::machine::{Attr, Buffer, Func, Inst, Program, RingFill, Schedule, TmaAttr};
use warplift_ir::target::Opcode;

/// Marks the loads that the blocks of a cluster share.
pub(crate) fn do_multicast(program: &Program<'_>, s: &mut Schedule) {
    let size = program.launch.cluster;
    if size < 2 {
        return;
    }
    let func = &program.func;
    let loads = loads_of_cluster(program);
    let rings = s.rings.iter().filter(|(_, r)| r.fill == RingFill::Tma);
    let (local, shared): (Vec<_>, Vec<_>) = rings.map(|(r, d)| (r, d.threads_read)).partition(|r| r.1);
    if !local.is_empty() {
        // Only a release at cluster scope orders the reads of threads, and it costs two memory barriers.
        s.remarks.push("tiles that threads read are not multicast".to_owned());
    }
    for (ring, _) in shared {
        for &buffer in &s.rings[ring].buffers.clone() {
            let own: Vec<&(Inst, bool)> =
                loads.iter().filter(|(i, _)| fills(func, *i) == Some(buffer)).collect();
            let name = &program.buffers[buffer].name;
            let equal = own.iter().all(|(_, equal)| *equal);
            let even = own.iter().all(|(i, _)| divisible(program, *i, size));
            match (equal, even) {
                (true, true) => {
                    own.iter().for_each(|(i, _)| s.multicast[*i] = true);
                    s.rings[ring].cluster = true;
                }
                (true, false) => s.remarks.push(format!(
                    "`{name}` is not multicast: its box is not {size} times a multiple of {PATTERN_ROWS} rows"
                )),
                (false, _) => {}
            }
        }
    }
    if !s.rings.values().any(|r| r.cluster) {
        s.remarks.push(format!("no load is the same in the {size} blocks of a cluster"));
    }
}

fn fills(func: &Func<'_>, inst: Inst) -> Option<Buffer> {
    match (&func.insts[inst].op, &func.insts[inst].attr) {
        (Opcode::TmaLoad | Opcode::BulkLoad, Attr::Tma(t)) => t.place.map(|p| p.buffer),
        _ => None,
    }
}

/// Rows of a load's box, from the tensor map. `None` for a box of more than two dimensions: its parts are no rows that follow
/// each other in one of them.
pub(crate) fn box_rows(program: &Program<'_>, inst: Inst) -> Option<u32> {
    let Attr::Tma(t) = &program.func.insts[inst].attr else { return None };
    if t.rank == 0 {
        return None;
    }
    match program.launch.params.get(t.map as usize)? {
        warplift_ir::manifest::Param::TensorMap(m) => {
            let flat = m.box_dims.iter().skip(2).all(|&extent| extent == 1);
            m.box_dims.get(1).copied().filter(|_| flat)
        }
        _ => None,
    }
}

/// Bytes from a row of a box to the next in shared memory: a swizzle's span, also where the box is narrower.
pub(crate) fn row_pitch(program: &Program<'_>, t: &TmaAttr, rows: u32) -> u32 {
    match program.launch.params.get(t.map as usize) {
        Some(warplift_ir::manifest::Param::TensorMap(m)) if m.swizzle > 0 => m.swizzle,
        _ => t.bytes / rows.max(1),
    }
}

fn divisible(program: &Program<'_>, inst: Inst, size: u32) -> bool {
    box_rows(program, inst).is_some_and(|rows| rows.is_multiple_of(size * PATTERN_ROWS))
}

/// Rows of the 8 x 16 byte pattern. Parts of a box begin at multiples of it.
const PATTERN_ROWS: u32 = 8;
