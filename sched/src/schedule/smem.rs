//! The layout of shared memory, and the depths of the rings. Rings are as deep as the memory allows.
//!
//! ```text
//!  0 ─ ring stages (aligned for their swizzle) ─ staging slots ─ scratch ─ barriers ─ end
//! ```

use super::copies::slots_of;
use super::stage::{do_stage_release, is_filled_once};
use crate::analysis::{BARRIER, LEAST_STAGES, MOST_STAGES};
use crate::error::{Result, SchedError};
use warplift_ir::machine::{
    Attr, Block, Func, Program, Ring, RingData, RingFill, Schedule, SharedMap, StageRelease,
};
use warplift_ir::plural;
use warplift_ir::target::{Opcode, Target};

/// The most stages of a ring that threads fill. Each stage adds code before the loop.
const COPY_DEPTH: u32 = 4;
/// The most stages of an operand that threads compute: one that products read, one that is full, and one that is stored.
const OPERAND_DEPTH: u32 = 3;
/// Stages with which threads that copy meet for the next stage under the products on this one.
pub(crate) const OPENED_AHEAD: u32 = 3;
/// Stages of a ring that is filled once for each tile: the next tile's copy runs during this tile's work.
const OUTER_DEPTH: u32 = 2;
/// Alignment of swizzled stages.
const STAGE_ALIGN: u32 = 1024;
/// Alignment of a team's part.
const TEAM_ALIGN: u32 = 1024;

/// Chooses depths and addresses.
///
/// # Errors
/// Even single stages do not fit.
pub fn do_smem(program: &Program<'_>, s: &mut Schedule, target: &Target) -> Result<SharedMap> {
    let rings: Vec<Ring> = s.rings.keys().collect();
    s.rings.values_mut().for_each(|r| r.depth = r.least);
    if bytes(program, s) > limit(program, target) {
        for b in program.buffers.keys() {
            s.slots[b] = 1;
        }
    }
    if bytes(program, s) > limit(program, target) {
        return Err(overflow(program, bytes(program, s), target));
    }
    prefer_stages(program, s, target);
    for &r in &rings {
        if let Some(wish) = s.rings[r].wish {
            let least = s.rings[r].least;
            set_depth(s, r, wish.max(least));
            if wish < least {
                s.remarks.push(format!(
                    "a ring has {least} stages, not {wish}: a tile fills as many before it ends"
                ));
            }
            if bytes(program, s) > limit(program, target) {
                return Err(overflow(program, bytes(program, s), target));
            }
        }
    }
    // The loads of a loop are hidden first, then those of the next tile.
    let own = |r: &Ring| s.rings[*r].fill != RingFill::Helper;
    let rings: Vec<Ring> = rings.into_iter().filter(own).collect();
    let inner: Vec<Ring> = rings.iter().copied().filter(|&r| innermost(program, s, r)).collect();
    grow(program, s, target, &inner, 2);
    let (handoffs, loaded): (Vec<Ring>, Vec<Ring>) =
        rings.iter().partition(|&&r| s.rings[r].fill.is_stored());
    grow(program, s, target, &loaded, u32::MAX);
    // The handoff gets what the loads leave. A second stage hides little if the next tile's loads have no room for a
    // whole tile.
    grow(program, s, target, &handoffs, u32::MAX);
    settle_flight(program, s);
    do_stage_release(program, s);
    settle_copies(program, s);
    let mut map = layout(program, s);
    map.bytes = map.team * program.teams;
    Ok(map)
}

/// Drops unrolling for loops whose body cannot be written once for each slot.
fn settle_copies(program: &Program<'_>, s: &mut Schedule) {
    let possible: Vec<bool> = s.loops.iter().map(|l| slots_of(program, s, l.inst).is_some()).collect();
    s.loops.iter_mut().zip(possible).for_each(|(l, possible)| l.unrolls &= possible);
}

/// Adds stages to rings in turn, up to `most`, as long as there is room.
fn grow(program: &Program<'_>, s: &mut Schedule, target: &Target, rings: &[Ring], most: u32) {
    let mut grew = true;
    while grew {
        grew = false;
        for &r in rings {
            if s.rings[r].wish.is_some() || s.rings[r].depth >= most.min(cap(program, s, r)) {
                continue;
            }
            let depth = s.rings[r].depth;
            set_depth(s, r, depth + 1);
            let fits = bytes(program, s) <= limit(program, target);
            if !fits {
                set_depth(s, r, depth);
            }
            grew |= fits;
        }
    }
}

/// Sets the depth of a ring, and of the helper's rings that follow it.
fn set_depth(s: &mut Schedule, r: Ring, depth: u32) {
    let follows = |f: &RingData| f.fill == RingFill::Helper && f.release == StageRelease::With(r);
    s.rings[r].depth = depth;
    s.rings.values_mut().filter(|f| follows(f)).for_each(|f| f.depth = depth);
}

/// The most stages that are useful for a ring.
fn cap(program: &Program<'_>, s: &Schedule, r: Ring) -> u32 {
    match (innermost(program, s, r), s.rings[r].fill) {
        // A tile's stages stay occupied until the tile ends. Only the stages beyond them let loads run ahead.
        _ if !s.rings[r].rereads.is_empty() => u32::MAX,
        (true, RingFill::Tma) => MOST_STAGES,
        (true, RingFill::Operand) => OPERAND_DEPTH,
        (true, _) => COPY_DEPTH,
        (false, _) if is_filled_once(&program.func, &s.rings[r]) => 1,
        (false, _) => OUTER_DEPTH,
    }
}

/// If a stage is held over an iteration, the next stage must be free to be filled. So such a ring needs at least two
/// stages, and three where threads meet for the next stage under the products on this one.
fn settle_flight(program: &Program<'_>, s: &mut Schedule) {
    let flying: Vec<_> = program.func.insts.keys().filter(|&i| s.in_flight[i] > 0).collect();
    for inst in flying {
        let body = &program.func.insts[inst].blocks;
        let least = |r: &RingData| if r.fill == RingFill::CpAsync { OPENED_AHEAD } else { 2 };
        let here = s.rings.values().filter(|r| r.blocks.iter().any(|b| body.contains(b)));
        if let Some(ring) = here.clone().find(|r| r.depth < least(r)) {
            let (depth, least) = (plural(ring.depth, "stage"), least(ring));
            s.in_flight[inst] = 0;
            s.remarks.push(format!("products are not left in flight: a ring has {depth} only, not {least}"));
        }
    }
}

/// A second staging slot hides a store. A third stage hides every load. If both do not fit, the stage is worth more.
fn prefer_stages(program: &Program<'_>, s: &mut Schedule, target: &Target) {
    let slots = s.slots.clone();
    let loaded = |r: &Ring| s.rings[*r].fill != RingFill::Operand;
    let rings: Vec<Ring> = s.rings.keys().filter(|&r| innermost(program, s, r)).filter(loaded).collect();
    let depths: Vec<u32> = rings.iter().map(|&r| s.rings[r].depth).collect();
    for &r in &rings {
        s.rings[r].depth = s.rings[r].wish.unwrap_or(0).max(s.rings[r].least).max(LEAST_STAGES);
    }
    let wanted = bytes(program, s) > limit(program, target);
    for b in program.buffers.keys().filter(|_| wanted) {
        s.slots[b] = s.slots[b].min(1);
    }
    if bytes(program, s) > limit(program, target) {
        s.slots = slots;
    }
    for (&r, depth) in rings.iter().zip(depths) {
        s.rings[r].depth = depth;
    }
}

/// Bytes of one team: an equal share of the block's memory, in steps of the widest swizzle pattern.
fn limit(program: &Program<'_>, target: &Target) -> u32 {
    let block = target.shared_of_resident(program.launch.resident);
    match program.teams {
        1 => block,
        n => block / n / TEAM_ALIGN * TEAM_ALIGN,
    }
}

/// Whether a ring is filled in a loop that contains no other loop.
fn innermost(program: &Program<'_>, s: &Schedule, r: Ring) -> bool {
    let func = &program.func;
    let persistent = |l| matches!(&func.insts[l].attr, Attr::Loop(a) if a.persistent);
    let holds_none = |l| !func.insts[l].blocks.iter().any(|&b| holds_loop(func, b));
    s.rings[r].blocks.iter().any(|&b| func.loop_around(b).is_some_and(|l| !persistent(l) && holds_none(l)))
}

/// Whether a loop stands in a block, also under branches.
fn holds_loop(func: &Func<'_>, block: Block) -> bool {
    func.blocks[block].insts.iter().any(|&i| {
        let d = &func.insts[i];
        d.op == Opcode::For || d.blocks.iter().any(|&b| holds_loop(func, b))
    })
}

fn overflow(program: &Program<'_>, needed: u32, target: &Target) -> SchedError {
    let parts: Vec<String> =
        program.buffers.values().filter(|b| b.bytes > 0).map(|b| format!("{} {}", b.name, b.bytes)).collect();
    let (resident, limit) = (program.launch.resident, limit(program, target));
    SchedError::SharedMemory { needed, limit, resident, parts: parts.join(", ") }
}

fn bytes(program: &Program<'_>, s: &Schedule) -> u32 {
    layout(program, s).bytes
}

fn layout(program: &Program<'_>, s: &Schedule) -> SharedMap {
    let mut map = SharedMap::default();
    let mut at = 0u32;
    let mut place = |bytes: u32, align: u32| {
        let start = at.next_multiple_of(align);
        at = start.saturating_add(bytes);
        start
    };
    // Rings of few bytes stand last: between swizzled stages each would cost their alignment.
    let mut filled: Vec<_> = s.rings.values().flat_map(|r| r.buffers.iter().map(|&b| (b, r.depth))).collect();
    filled.sort_by_key(|&(b, depth)| program.buffers[b].stride().saturating_mul(depth) < STAGE_ALIGN);
    for (b, depth) in filled {
        let d = &program.buffers[b];
        map.buffers[b] = place(d.stride().saturating_mul(depth), d.align);
    }
    for (b, d) in program.buffers.iter().filter(|(_, d)| !d.kind.is_ring()) {
        map.buffers[b] = place(d.stride().saturating_mul(s.slots[b].max(1)), d.align);
    }
    for (r, ring) in s.rings.iter().filter(|(_, r)| r.fill.has_barriers()) {
        map.barriers[r] = place(2 * BARRIER * ring.depth, BARRIER);
    }
    map.bytes = at;
    map.team = if program.teams > 1 { at.next_multiple_of(TEAM_ALIGN) } else { at };
    map
}
