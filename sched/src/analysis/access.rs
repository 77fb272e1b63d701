//! The effects of an instruction on memory: buffers of shared memory, and arrays in global memory.

use smallvec::{SmallVec, smallvec};
use warplift_ir::machine::{Attr, Buffer, Func, GlobalAccess, Inst, InstData, Place, Value};
use warplift_ir::target::{Effect, Opcode};
use warplift_ir::tile::MemoryOrder;

/// Buffers that an instruction accesses; `true` for a write.
pub fn touched(attr: &Attr, op: Opcode) -> SmallVec<[(Buffer, bool); 2]> {
    match attr {
        Attr::Wgmma(w) => {
            let a = w.a.as_ref().map(|a| (a.place.buffer, false));
            a.into_iter().chain([(w.b.place.buffer, false)]).collect()
        }
        Attr::Tma(t) => t.place.map(|p| (p.buffer, op.is_async_load())).into_iter().collect(),
        Attr::Copy(c) => c.place.map(|p| (p.buffer, true)).into_iter().collect(),
        Attr::PlaceMem { place, .. } => {
            smallvec![(place.buffer, matches!(op, Opcode::StShared | Opcode::StShared16 | Opcode::StShared8))]
        }
        Attr::Matrix { buffer: Some(b), .. } => smallvec![(*b, op == Opcode::Stmatrix)],
        _ => SmallVec::new(),
    }
}

/// Accesses to shared memory in the nested blocks of an instruction, each with the instruction that makes it.
pub fn touched_inside(func: &Func<'_>, inst: Inst) -> Vec<(Inst, Buffer, bool)> {
    let insts = func.insts[inst].blocks.iter().flat_map(|&b| &func.blocks[b].insts);
    insts
        .flat_map(|&i| {
            let own = touched(&func.insts[i].attr, func.insts[i].op);
            let own = own.into_iter().map(|(b, writes)| (i, b, writes));
            own.chain(touched_inside(func, i)).collect::<Vec<_>>()
        })
        .collect()
}

/// The plain access to global memory that an instruction makes, if any; `true` for a write.
pub(crate) fn global_access(data: &InstData<'_>) -> Option<(GlobalAccess, bool)> {
    match data.attr {
        Attr::GlobalMem { access, .. } | Attr::Sync { access: Some(access), .. } => {
            Some((access, data.op.effect() != Effect::Read))
        }
        _ => None,
    }
}

/// What an access orders beside itself.
pub(crate) fn order_of(data: &InstData<'_>) -> MemoryOrder {
    match data.attr {
        Attr::Sync { sync, .. } => sync.order,
        _ if data.op == Opcode::AtomIncU32 => MemoryOrder::AcqRel,
        _ => MemoryOrder::Relaxed,
    }
}

/// Whether an instruction reads the same number in every thread of the block, at any time: a uniform read of memory
/// that the program writes nowhere. Each role repeats it by itself.
pub(crate) fn reads_fixed(data: &InstData<'_>) -> bool {
    global_access(data).is_some_and(|(a, writes)| !writes && a.footprint == GlobalAccess::FIXED)
}

/// Whether an instruction has an effect of its own, for which a role keeps it: it is no structure, and no number that each role
/// reads where it needs it.
pub(crate) fn acts(data: &InstData<'_>) -> bool {
    let structure = matches!(data.op, Opcode::For | Opcode::If | Opcode::Yield | Opcode::Await);
    data.op.effect() != Effect::Pure && !structure && !reads_fixed(data)
}

/// All plain accesses to global memory in the nested blocks of an instruction.
pub(crate) fn global_accesses_inside(func: &Func<'_>, inst: Inst) -> Vec<(GlobalAccess, bool)> {
    let insts = func.insts[inst].blocks.iter().flat_map(|&b| &func.blocks[b].insts);
    insts
        .flat_map(|&i| {
            let own = global_access(&func.insts[i]);
            own.into_iter().chain(global_accesses_inside(func, i)).collect::<Vec<_>>()
        })
        .collect()
}

/// The destination of a thread's asynchronous copy; `None` for any other instruction.
pub(crate) fn copy_place(data: &InstData<'_>) -> Option<Place> {
    match data.attr {
        Attr::Copy(c) => c.place,
        _ => None,
    }
}

/// The buffer that a load's event stands for.
pub(crate) fn buffer_of(func: &Func<'_>, event: Value) -> Option<Buffer> {
    let data = &func.insts[func.def(event)?];
    match (data.op, &data.attr) {
        (Opcode::TmaLoad | Opcode::BulkLoad, Attr::Tma(t)) => t.place.map(|p| p.buffer),
        _ => copy_place(data).map(|p| p.buffer),
    }
}

/// The attribute of an access with another buffer in the place of `from`.
pub(crate) fn renamed(attr: &Attr, from: Buffer, to: Buffer) -> Attr {
    let mut attr = attr.clone();
    let buffers: SmallVec<[&mut Buffer; 2]> = match &mut attr {
        Attr::Wgmma(w) => w.a.iter_mut().chain([&mut w.b]).map(|o| &mut o.place.buffer).collect(),
        Attr::Tma(t) => t.place.iter_mut().map(|p| &mut p.buffer).collect(),
        Attr::Copy(c) => c.place.iter_mut().map(|p| &mut p.buffer).collect(),
        Attr::PlaceMem { place, .. } | Attr::Place(place) => smallvec![&mut place.buffer],
        Attr::Matrix { buffer, .. } => buffer.iter_mut().collect(),
        _ => SmallVec::new(),
    };
    buffers.into_iter().filter(|b| **b == from).for_each(|b| *b = to);
    attr
}

/// The attribute of an access for emission: the order of accesses is settled, so the footprint is dropped.
pub(crate) fn plain(attr: &Attr) -> Attr {
    match *attr {
        Attr::GlobalMem { offset, count, .. } => Attr::Mem { offset, count },
        Attr::Sync { offset, count, sync, access: _ } => Attr::Sync { offset, count, sync, access: None },
        ref other => other.clone(),
    }
}
