//! The work of all threads before the roles part: one thread initialises the barriers, then all meet.

use crate::analysis::BARRIER;
use crate::schedule::{NamedBarrier, NamedBarriers};
use warplift_ir::machine::{
    Attr, Block, Cursor, Func, Guard, LaunchInfo, NewInst, Program, RingData, RingFill, RoleKind, Schedule,
    SharedMap, StageRelease, Ty, Value,
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
    if launch.pdl {
        // The next grid may start as soon as there is room. It waits by itself where it must.
        c.push(NewInst::new(Opcode::GriddepLaunch, &[], &[]));
    }
    if s.rings.values().any(|r| r.fill.has_barriers()) {
        let thread = c.op(Opcode::Tid, &[], Ty::B32);
        let zero = c.imm(0);
        let first = c.compare(CmpOp::Eq, thread, zero);
        if s.producer {
            // The initialisation of a barrier takes one or two cycles behind a branch. With a guard of its own it takes
            // a hundred (measured).
            c.block = by_one(c.func, entry, first, |c| initialise(program, launch, s, shared, c, None));
        } else {
            // Blocks whose threads copy for themselves use the guard: they are slower if they begin as early (rows of
            // 32768: by 4%).
            let guard = Some(Guard { pred: first, negated: false });
            initialise(program, launch, s, shared, &mut c, guard);
        }
        block_barrier(program, s, &mut c);
    }
    c.push(NewInst::new(Opcode::Ret, &[], &[]));
    func
}

/// A branch around the work of one thread. Returns the block after it.
fn by_one(func: &mut Func<'_>, entry: Block, one: Value, work: impl FnOnce(&mut Cursor<'_, '_>)) -> Block {
    let [inside, behind] = [func.new_block(), func.new_block()];
    func.order.extend([inside, behind]);
    work(&mut Cursor::new(func, inside, Loc::default()));
    let branch = func.push(entry, NewInst::new(Opcode::BrIf, &[one], &[]));
    let back = func.push(inside, NewInst::new(Opcode::Br, &[], &[]));
    for (from, block) in [(branch, inside), (branch, behind), (back, behind)] {
        func.add_target(from, block, &[]);
    }
    behind
}

/// Initialises the barriers of all rings, and prefetches the tensor maps.
fn initialise(
    program: &Program<'_>,
    launch: &LaunchInfo,
    s: &Schedule,
    shared: &SharedMap,
    c: &mut Cursor<'_, '_>,
    guard: Option<Guard>,
) {
    let base = c.op(Opcode::SharedBase, &[], Ty::B32);
    let rings = || s.rings.iter().filter(|(_, r)| r.fill.has_barriers());
    let each = |team: u32| rings().map(move |(ring, data)| (team, ring, data));
    for (team, ring, data) in (0..program.teams).flat_map(each) {
        let both = if data.release == StageRelease::Alone { 2 } else { 1 };
        for i in 0..both * data.depth {
            let at = c.add_imm(base, i64::from(team * shared.team + shared.barriers[ring] + i * BARRIER));
            let count = arrivals(program, launch, s, data, i < data.depth);
            c.push(NewInst::new(Opcode::MbarInit, &[at], &[]).attr(Attr::Imm(count.into())).guard(guard));
        }
    }
    for (n, _) in launch.params.iter().enumerate().filter(|(_, p)| matches!(p, Param::TensorMap(_))) {
        let map = c.value(NewInst::new(Opcode::ParamAddr, &[], &[Ty::B64]).attr(Attr::Param(n as u32)));
        c.push(NewInst::new(Opcode::PrefetchMap, &[map], &[]).guard(guard));
    }
    c.push(NewInst::new(Opcode::FenceMbarInit, &[], &[]).guard(guard));
}

/// Arrivals that complete a phase. A full barrier has one arrival of the producer or the helper, or one for each warp
/// of the consumers. An empty barrier has one for each reading warp, in all blocks that fill the stage.
fn arrivals(program: &Program<'_>, launch: &LaunchInfo, s: &Schedule, ring: &RingData, full: bool) -> u32 {
    match (full, ring.fill) {
        (true, RingFill::Tma | RingFill::Helper | RingFill::NextTile | RingFill::TileInfo) => 1,
        // Every warp of a team hears of a tile, whatever its role, but for the producer.
        (false, RingFill::NextTile | RingFill::TileInfo) => {
            let has = |role: RoleKind| s.roles.values().any(|&r| r == role);
            let others = [RoleKind::EpilogueLoad, RoleKind::Helper].into_iter().filter(|&r| has(r));
            let others: u32 = others.map(|r| super::copying_warps(program, r)).sum();
            program.computing_warps() / program.teams + others
        }
        // One thread reads what all consumers have found.
        (false, RingFill::Decision) => 1,
        _ => program.warps * if ring.cluster { launch.cluster } else { 1 },
    }
}

/// All threads meet after the initialisation.
fn block_barrier(program: &Program<'_>, s: &Schedule, c: &mut Cursor<'_, '_>) {
    if s.rings.values().any(|r| r.cluster) {
        // A block may send to another one only after that one's barriers are initialised.
        c.push(NewInst::new(Opcode::ClusterArrive, &[], &[]));
        c.push(NewInst::new(Opcode::ClusterWait, &[], &[]));
        return;
    }
    let producers = if s.producer { super::PRODUCER_WARPS } else { 0 };
    let threads = 32 * (program.computing_warps() + producers);
    let id = NamedBarriers::of(program, s.producer).id(NamedBarrier::Block);
    c.push(NewInst::new(Opcode::BarSync, &[], &[]).attr(Attr::Imm2(id, threads.into())));
}
