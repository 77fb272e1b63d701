//! The instructions at which a ring's stage begins and ends in a block, and the release that tells of its end.
//!
//! ```text
//!  producer   wait empty A ─ fill A ─ fill B                  B is released with A: one barrier speaks for both
//!  consumer   read B ─ read A ─ wait ─ release A
//! ```
//!
//! A stage that is never filled again needs no release. The first fill of a ring needs no wait.

use crate::analysis::{buffer_of, touched};
use warplift_ir::machine::{
    Attr, Block, Buffer, Func, Inst, Program, Ring, RingData, RingFill, RoleKind, Schedule, StageRelease, Ty,
    Value,
};
use warplift_ir::target::Opcode;

/// From this depth on, a ring hides its copies even if one stage is released late: one stage is read, one is full, and
/// one is being filled.
const SPARE: u32 = 3;

/// The instruction of a block at which a ring's stage ends. For a producer, it is the last load; for a consumer, the
/// last use or its completion.
pub(crate) fn stage_end(func: &Func<'_>, ring: &RingData, block: Block, role: RoleKind) -> Option<Inst> {
    let insts = &func.blocks[block].insts;
    let last = insts.iter().rposition(|&i| match (role, ring.fill) {
        (RoleKind::Producer | RoleKind::EpilogueLoad, _) => fills(func, i, &ring.buffers),
        (RoleKind::Consumer, RingFill::Handoff) | (RoleKind::Helper, RingFill::Helper) => {
            stores(func, i, &ring.buffers)
        }
        _ => reads(func, i, ring),
    })?;
    // The completion is the await of what the reader started.
    let done = match role {
        RoleKind::Producer | RoleKind::EpilogueLoad => last,
        RoleKind::Consumer | RoleKind::Epilogue | RoleKind::Helper => {
            settled(func, ring, block, completion(func, ring, block, last))
        }
    };
    Some(insts[done])
}

/// The index at which the values that threads read of a stage have arrived in their registers, because they are used
/// there. A fence after it does not wait. A ring with spare stages is released there, if the next effect would follow.
fn settled(func: &Func<'_>, ring: &RingData, block: Block, at: usize) -> usize {
    let insts = &func.blocks[block].insts;
    let innermost = insts.iter().all(|&i| func.insts[i].blocks.is_empty());
    if !ring.threads_read || ring.fill != RingFill::Tma || !innermost {
        return at;
    }
    let uses = |i: Inst, v: Value| func.insts[i].args.contains(&v);
    let first_use = |&v: &Value| insts.iter().position(|&i| uses(i, v));
    let read = insts.iter().filter(|&&i| reads(func, i, ring)).flat_map(|&i| func.insts[i].results);
    let used = read.filter_map(first_use).max().map_or(at, |u| u.max(at));
    if ring.depth < SPARE {
        return used;
    }
    let free = |&&i: &&Inst| func.insts[i].op.is_pure() && func.insts[i].op != Opcode::Yield;
    used + insts[used + 1..].iter().take_while(free).count()
}

/// The instruction of a block behind which threads have filled a stage of a ring.
pub(crate) fn last_store(func: &Func<'_>, ring: &RingData, block: Block) -> Option<Inst> {
    func.blocks[block].insts.iter().rfind(|&&i| stores(func, i, &ring.buffers)).copied()
}

/// The most stages that a warp has filled and not yet read at the end of a run through a block, and on the way, if it has
/// `now` before it.
pub(crate) fn most_filled(func: &Func<'_>, ring: &RingData, block: Block, now: u32) -> (u32, u32) {
    let insts = &func.blocks[block].insts;
    let first = insts.iter().find(|&&i| stores(func, i, &ring.buffers)).copied();
    let end = stage_end(func, ring, block, RoleKind::Consumer);
    insts.iter().fold((now, now), |(now, most), &inst| {
        let now = now + u32::from(first == Some(inst));
        let inside = func.insts[inst].blocks.iter().map(|&b| most_filled(func, ring, b, now).1);
        let most = inside.chain([most, now]).max().unwrap_or(now);
        (now.saturating_sub(u32::from(end == Some(inst))), most)
    })
}

fn stores(func: &Func<'_>, inst: Inst, buffers: &[Buffer]) -> bool {
    touched(&func.insts[inst].attr, func.insts[inst].op)
        .iter()
        .any(|(b, writes)| *writes && buffers.contains(b))
}

fn fills(func: &Func<'_>, inst: Inst, buffers: &[Buffer]) -> bool {
    let d = &func.insts[inst];
    d.op.is_async_load()
        && matches!(&d.attr, Attr::Tma(t) if t.place.is_some_and(|p| buffers.contains(&p.buffer)))
}

/// Whether an instruction reads the stage that is filled in its block.
fn reads(func: &Func<'_>, inst: Inst, ring: &RingData) -> bool {
    let (d, buffers) = (&func.insts[inst], &ring.buffers);
    let read = touched(&d.attr, d.op).iter().any(|(b, w)| !w && buffers.contains(b));
    let nested = d
        .blocks
        .iter()
        .filter(|b| !ring.blocks.contains(b))
        .any(|&b| func.blocks[b].insts.iter().any(|&i| reads(func, i, ring)));
    let awaited = d.op == Opcode::Await
        && d.args.iter().any(|&e| buffer_of(func, e).is_some_and(|b| buffers.contains(&b)));
    read || nested || awaited
}

/// The index at which everything started on a stage has ended, not only the last part.
fn completion(func: &Func<'_>, ring: &RingData, block: Block, at: usize) -> usize {
    let insts = &func.blocks[block].insts;
    let readers = insts.iter().filter(|&&i| reads(func, i, ring));
    let results = readers.flat_map(|&i| func.insts[i].results.iter().copied());
    let events: Vec<Value> = results.filter(|&r| func.ty(r) == Ty::Event).collect();
    let waits = |i: &Inst| {
        func.insts[*i].op == Opcode::Await && func.insts[*i].args.iter().any(|a| events.contains(a))
    };
    insts.iter().rposition(waits).map_or(at, |w| w.max(at))
}

/// Decides how the stages of each ring are released. The depths are already known.
pub(crate) fn do_stage_release(program: &Program<'_>, s: &mut Schedule) {
    let func = &program.func;
    let alone = |r: &RingData| r.fill == RingFill::Tma && r.rereads.is_empty();
    let rings: Vec<Ring> = s.rings.keys().filter(|&r| alone(&s.rings[r])).collect();
    let spans: Vec<Span<'_>> = rings.iter().map(|&r| Span::of(func, &s.rings[r])).collect();
    let led = |n: usize| spans.iter().any(|a| a.leads(&spans[n]));
    // If A leads B and B leads C, then A leads C. So every ring that is led has a leader that is not led.
    let first: Vec<usize> = (0..rings.len()).filter(|&n| !led(n)).collect();
    let release = (0..rings.len()).map(|n| match first.iter().find(|&&a| spans[a].leads(&spans[n])) {
        _ if is_filled_once(func, spans[n].ring) => StageRelease::Never,
        Some(&leader) => StageRelease::With(rings[leader]),
        None => StageRelease::Alone,
    });
    let release: Vec<StageRelease> = release.collect();
    for (&ring, release) in rings.iter().zip(release) {
        s.rings[ring].release = release;
    }
}

/// A ring, and the places in each of its blocks at which a stage begins to be filled and ends.
struct Span<'s> {
    ring: &'s RingData,
    places: Vec<[Option<usize>; 2]>,
}

impl<'s> Span<'s> {
    fn of(func: &Func<'_>, ring: &'s RingData) -> Self {
        let places = ring.blocks.iter().map(|&block| {
            let insts = &func.blocks[block].insts;
            let end = stage_end(func, ring, block, RoleKind::Consumer);
            let begin = insts.iter().position(|&i| fills(func, i, &ring.buffers));
            [begin, end.and_then(|end| insts.iter().position(|&i| i == end))]
        });
        Self { ring, places: places.collect() }
    }

    /// Whether this ring's stages are filled before the other ring's, and end with them or behind them. Then one
    /// barrier speaks for both rings.
    fn leads(&self, other: &Self) -> bool {
        let (first, second) = (self.ring, other.ring);
        let equal =
            (&first.blocks, first.depth, first.cluster) == (&second.blocks, second.depth, second.cluster);
        let mut places = self.places.iter().zip(&other.places);
        let around = |([begin, end], [other, last]): (&[_; 2], &[_; 2])| end >= last && begin < other;
        equal && first.threads_read >= second.threads_read && places.all(around)
    }
}

/// Whether a ring is filled only once.
pub(crate) fn is_filled_once(func: &Func<'_>, ring: &RingData) -> bool {
    ring.blocks.len() == 1 && !func.repeats(ring.blocks[0])
}

/// Whether nothing fills a ring after the loop that fills it.
pub(crate) fn ends_with_its_loop(func: &Func<'_>, ring: &RingData) -> bool {
    let around = func.loop_of(ring.blocks[0]).and_then(|inst| func.block_of(inst));
    ring.blocks.len() == 1 && around.is_some_and(|b| !func.repeats(b))
}

/// Whether a block holds the first fill of a ring. Such a block runs once, before all others.
pub(crate) fn fills_first(func: &Func<'_>, ring: &RingData, block: Block) -> bool {
    in_order(func, ring).first() == Some(&block) && !func.repeats(block)
}

/// Whether a block holds the last fill of a ring. Such a block runs once, after all others.
pub(crate) fn fills_last(func: &Func<'_>, ring: &RingData, block: Block) -> bool {
    in_order(func, ring).last() == Some(&block) && !func.repeats(block)
}

/// Whether the last stage of a ring is never released.
pub(crate) fn keeps_last(func: &Func<'_>, ring: &RingData) -> bool {
    ends_with_its_loop(func, ring) || ring.blocks.iter().any(|&b| fills_last(func, ring, b))
}

/// The block of each fill of a ring, in program order.
fn in_order(func: &Func<'_>, ring: &RingData) -> Vec<Block> {
    let mut order: Vec<Block> = Vec::new();
    func.walk(|block, inst| {
        if fills(func, inst, &ring.buffers) {
            order.push(block);
        }
    });
    order
}
