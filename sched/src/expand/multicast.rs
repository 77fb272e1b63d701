//! Stages that all blocks of a cluster fill together.
//!
//! ```text
//!  block 0   A0 ─► stage of 0          upper half of B ─► stages of 0 and 1
//!  block 1   A1 ─► stage of 1          lower half of B ─► stages of 0 and 1
//!  each expects all bytes of its own stage; its consumers release it to both producers
//! ```
//!
//! The release is a plain remote arrive. An arrive with release semantics at cluster scope costs two memory barriers. A
//! stage that only the asynchronous proxy has written and read needs none.

use super::role::Expand;
use crate::schedule::{box_rows, row_pitch};
use rustc_hash::{FxHashMap, FxHashSet};
use warplift_ir::machine::{
    Attr, Cursor, Guard, Inst, LaunchInfo, NewInst, Program, Ring, Schedule, Ty, Value,
};
use warplift_ir::manifest::Param;
use warplift_ir::target::Opcode;

/// The launch with tensor maps for parts of boxes, and the map for the part of each shared load.
pub(super) fn part_maps(program: &Program<'_>, s: &Schedule) -> (LaunchInfo, FxHashMap<u32, u32>) {
    let mut launch = program.launch.clone();
    let maps = |shared: bool| -> FxHashSet<u32> {
        let insts = program.func.insts.iter().filter(|(i, _)| s.multicast[*i] == shared);
        let map = |d: &Attr| if let Attr::Tma(t) = d { Some(t.map) } else { None };
        insts.filter_map(|(_, d)| map(&d.attr)).collect()
    };
    let whole = maps(false);
    let mut parts: Vec<u32> = maps(true).into_iter().collect();
    parts.sort_unstable();
    let mut to = FxHashMap::default();
    for map in parts {
        let Some(Param::TensorMap(m)) = program.launch.params.get(map as usize) else { continue };
        let mut part = m.clone();
        if let Some(rows) = part.box_dims.get_mut(1) {
            *rows /= launch.cluster;
        }
        let number = if whole.contains(&map) {
            launch.params.push(Param::TensorMap(part));
            launch.params.len() as u32 - 1
        } else {
            launch.params[map as usize] = Param::TensorMap(part);
            map
        };
        to.insert(map, number);
    }
    (launch, to)
}

impl Expand<'_, '_> {
    /// This block's number in the cluster, read once at entry.
    fn rank(&mut self) -> Value {
        if let Some(r) = self.own.rank {
            return r;
        }
        let entry = self.code.func.entry;
        let r = self.before_end(entry, |c| {
            let rank = c.op(Opcode::ClusterRank, &[], Ty::B32);
            c.op(Opcode::Uniform, &[rank], Ty::B32)
        });
        self.own.rank = Some(r);
        r
    }

    /// First address of shared memory of the cluster's other block.
    fn peer_base(&mut self) -> Value {
        if let Some(b) = self.own.peer {
            return b;
        }
        let (rank, base) = (self.rank(), self.shared_base());
        let entry = self.code.func.entry;
        let b = self.before_end(entry, |c| {
            let one = c.imm(1);
            let other = c.int(Opcode::Xor, rank, one);
            c.op(Opcode::Mapa, &[base, other], Ty::B32)
        });
        self.own.peer = Some(b);
        b
    }

    /// Adds code at the end of a block, before its terminator if there is one.
    pub fn before_end(
        &mut self,
        block: warplift_ir::machine::Block,
        make: impl FnOnce(&mut Cursor<'_, '_>) -> Value,
    ) -> Value {
        let ended = self.code.func.terminator(block).filter(|&t| !self.code.func.insts[t].targets.is_empty());
        let at = self.code.func.blocks[block].insts.len() - usize::from(ended.is_some());
        let loc = self.code.loc;
        self.code.func.insert_at(block, at, |func| make(&mut Cursor::new(func, block, loc)))
    }

    /// Tells the other block's producer that this warp has released a stage.
    pub fn release_remote(&mut self, ring: Ring, slot: Value, guard: Option<Guard>) {
        let base = self.peer_base();
        let address = self.barrier_from(base, slot);
        let offset = i64::from(self.barrier_offset(ring, true));
        let address = self.at().add_imm(address, offset);
        self.at().push(NewInst::new(Opcode::MbarArriveRemote, &[address], &[]).guard(guard));
    }

    /// Issues this block's part of a load, which goes to all blocks.
    pub fn fill_part(&mut self, inst: Inst, to: Value, barrier: Value) {
        let d = self.data(inst);
        let (Attr::Tma(t), Some(rows)) = (&d.attr, box_rows(self.given.program, inst)) else { return };
        let blocks = self.given.program.launch.cluster;
        let pitch = row_pitch(self.given.program, t, rows);
        let (rows, bytes) = (rows / blocks, t.bytes / blocks);
        let rank = self.rank();
        let moved = self.at().mul_imm(rank, (rows * pitch).into());
        let to = self.at().add(to, moved);
        let mut args = vec![to, barrier];
        args.extend(self.values(d.args));
        let down = self.at().mul_imm(rank, rows.into());
        args[3] = self.at().add(args[3], down);
        let map = self.given.parts.get(&t.map).copied().unwrap_or(t.map);
        let multicast = ((1u32 << blocks) - 1) as u16;
        let attr = warplift_ir::machine::TmaAttr { place: None, map, bytes, multicast, ..*t };
        self.at().push(NewInst::new(Opcode::TmaLoad, &args, &[]).attr(Attr::Tma(attr)));
    }

    /// Waits at the end of a block: it must not end while another block may still send to it.
    pub fn leave_together(&mut self) {
        if self.given.schedule.rings.values().any(|r| r.cluster) {
            self.at().push(NewInst::new(Opcode::ClusterArrive, &[], &[]));
            self.at().push(NewInst::new(Opcode::ClusterWait, &[], &[]));
        }
    }
}
