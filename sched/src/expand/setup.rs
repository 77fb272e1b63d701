//! What all threads do before the roles part: one of them initialises the barriers, then all meet.

use crate::shared::BARRIER;
use warplift_ir::machine::{
    Attr, Cursor, Func, Guard, Handed, LaunchInfo, NewInst, Program, RingData, RingFill, Schedule, SharedMap,
    Ty,
};
use warplift_ir::manifest::Param;
use warplift_ir::target::Opcode;
use warplift_ir::tile::{CmpOp, Loc};

/// The setup function.
pub fn do_setup<'a>(
    program: &Program<'a>,
    launch: &LaunchInfo,
    s: &Schedule,
    shared: &SharedMap,
) -> Func<'a> {
    let mut func = Func::new(program.func.bump);
    let entry = func.entry;
    let mut c = Cursor::new(&mut func, entry, Loc::default());
    if launch.programmatic {
        // The next grid may start as soon as there is room: what it must wait for, it waits for itself.
        c.push(NewInst::new(Opcode::GriddepLaunch, &[], &[]));
    }
    let handed = |r: &RingData| r.fill == RingFill::Tensor;
    if s.rings.values().any(handed) {
        let thread = c.op(Opcode::Tid, &[], Ty::B32);
        let zero = c.imm(0);
        let pred = c.compare(CmpOp::Eq, thread, zero);
        let guard = Some(Guard { pred, negated: false });
        let base = c.op(Opcode::SharedBase, &[], Ty::B32);
        let rings = || s.rings.iter().filter(|(_, r)| handed(r));
        let each = |team: u32| rings().map(move |(ring, data)| (team, ring, data));
        for (team, ring, data) in (0..program.teams).flat_map(each) {
            let both = if data.handed == Handed::Alone { 2 } else { 1 };
            for i in 0..both * data.depth {
                // Full: the producer's one arrival. Empty: one a warp of all blocks that fill the stage.
                let blocks = if data.cluster { launch.cluster } else { 1 };
                let count = if i < data.depth { 1 } else { program.warps * blocks };
                let at = c.add_imm(base, i64::from(team * shared.team + shared.barriers[ring] + i * BARRIER));
                let new = NewInst::new(Opcode::MbarInit, &[at], &[]).attr(Attr::Imm(count.into()));
                c.push(new.guard(guard));
            }
        }
        for (n, _) in launch.params.iter().enumerate().filter(|(_, p)| matches!(p, Param::TensorMap(_))) {
            let map = c.value(NewInst::new(Opcode::ParamAddr, &[], &[Ty::B64]).attr(Attr::Param(n as u32)));
            c.push(NewInst::new(Opcode::PrefetchMap, &[map], &[]).guard(guard));
        }
        c.push(NewInst::new(Opcode::FenceMbarInit, &[], &[]).guard(guard));
        if s.rings.values().any(|r| r.cluster) {
            // No block may send to another whose barriers are not there yet.
            c.push(NewInst::new(Opcode::ClusterArrive, &[], &[]));
            c.push(NewInst::new(Opcode::ClusterWait, &[], &[]));
        } else {
            let producers = if s.producer { super::PRODUCER_WARPS } else { 0 };
            let threads = 32 * (program.warps * program.teams + producers);
            c.push(NewInst::new(Opcode::BarSync, &[], &[]).attr(Attr::Imm2(0, threads.into())));
        }
    }
    c.push(NewInst::new(Opcode::Ret, &[], &[]));
    func
}
