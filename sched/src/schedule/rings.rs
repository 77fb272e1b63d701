//! Rings: the buffers that are filled and awaited together, who fills them, and the number of stages that the mapping
//! asks for.
//!
//! ```text
//!  await a, b   ─►  a ring of two buffers       a stage: both buffers, a full barrier and an empty barrier
//!  await a      ─►  the same ring in another block: it goes on where the first block left it
//!  await c      ─►  a ring of its own; threads' copies of one block share a ring
//! ```

use super::stage::most_filled;
use crate::analysis::{
    Graph, buffer_of, copy_place, draws_tiles, handoff, rereads, threads_can_lead, tile_loop,
};
use crate::error::{Result, SchedError};
use rustc_hash::{FxHashMap, FxHashSet};
use warplift_ir::machine::{
    Attr, Block, Buffer, BufferKind, Func, Inst, Program, RingData, RingFill, Schedule, StageRelease,
};
use warplift_ir::target::Opcode;

/// Buffers named by one `await` are filled together. All buffers that threads fill in one block form one ring, since
/// their groups complete in order.
pub(crate) fn find_rings(program: &Program<'_>, graph: &Graph, s: &mut Schedule) -> Result<()> {
    let func = &program.func;
    let places = load_places(func);
    let mut seen: FxHashSet<Buffer> = FxHashSet::default();
    let mut awaits = Vec::new();
    func.walk(|block, inst| {
        if func.insts[inst].op == Opcode::Await {
            awaits.push((block, inst));
        }
    });
    for (block, inst) in awaits {
        let buffers: Vec<Buffer> = func.insts[inst].args.iter().filter_map(|e| buffer_of(func, *e)).collect();
        let block = home(func, &places, &buffers, block)?;
        let known = s.rings.values_mut().find(|r| buffers.iter().any(|b| r.buffers.contains(b)));
        if let Some(known) = known {
            if !known.blocks.contains(&block) {
                known.blocks.push(block);
            }
            continue;
        }
        let buffers: Vec<Buffer> = buffers.into_iter().filter(|b| seen.insert(*b)).collect();
        for fill in [RingFill::Tma, RingFill::CpAsync] {
            let buffers: Vec<Buffer> = buffers.iter().copied().filter(|b| places[b].1 == fill).collect();
            // The first block of a rotated loop's ring stands before the loop.
            let looped = buffers.first().and_then(|b| {
                let mut blocks = places[b].0.iter();
                let own = blocks.clone().find_map(|&b| func.loop_of(b));
                own.or_else(|| blocks.find_map(|&b| func.loop_around(b)))
            });
            let threads_read = graph.is_read_by_threads(func, &buffers);
            push_ring(program, s, (block, looped), (buffers, threads_read), fill);
        }
    }
    match places.keys().find(|b| !seen.contains(b)) {
        Some(b) => Err(SchedError::Unsupported(format!("{b} is loaded and never awaited"))),
        None => Ok(()),
    }
}

/// The block of the loads that an await waits for. It is the await's own block, or the block of loads that others only
/// read.
fn home(func: &Func<'_>, places: &Places, buffers: &[Buffer], block: Block) -> Result<Block> {
    let within = |block: &Block| buffers.iter().all(|b| places.get(b).is_some_and(|p| p.0.contains(block)));
    let first = buffers.first().and_then(|b| places.get(b)?.0.first());
    let once = first.filter(|&&b| !func.repeats(b));
    let found = [Some(&block), once].into_iter().flatten().find(|b| within(b));
    found.copied().ok_or_else(|| SchedError::Unsupported("a load awaited outside its own block".to_owned()))
}

fn push_ring(
    program: &Program<'_>,
    s: &mut Schedule,
    (block, looped): (Block, Option<Inst>),
    (buffers, threads_read): (Vec<Buffer>, bool),
    fill: RingFill,
) {
    let func = &program.func;
    let bytes = |list: &[Buffer]| list.iter().map(|&b| filled_bytes(program, b)).sum();
    if buffers.is_empty() {
        return;
    }
    let open = s.rings.values_mut().find(|r| r.blocks.contains(&block) && r.fill == fill);
    if let Some(ring) = open.filter(|_| fill == RingFill::CpAsync) {
        ring.buffers.extend(buffers);
        ring.bytes = bytes(&ring.buffers);
        ring.threads_read |= threads_read;
        return;
    }
    let wish = looped.and_then(|l| match &func.insts[l].attr {
        Attr::Loop(a) => a.depth,
        _ => None,
    });
    let bytes = bytes(&buffers);
    s.rings.push(RingData {
        buffers,
        bytes,
        fill,
        release: StageRelease::Alone,
        depth: 1,
        blocks: vec![block],
        rereads: Vec::new(),
        helped: false,
        least: 1,
        wish,
        cluster: false,
        threads_read,
    });
}

/// Makes the ring of the handoff, and marks the blocks that only read again the stages that others filled.
pub(crate) fn epilogue_rings(
    program: &Program<'_>,
    graph: &Graph,
    epilogue_insts: &FxHashSet<Inst>,
    s: &mut Schedule,
) {
    let (func, Some(handoff)) = (&program.func, handoff(program)) else { return };
    for (buffer, least) in rereads(program, graph, epilogue_insts) {
        for ring in s.rings.values_mut().filter(|r| r.buffers.contains(&buffer)) {
            let finishing = |b: &Block| func.blocks[*b].insts.iter().all(|i| epilogue_insts.contains(i));
            let (rereads, blocks): (Vec<Block>, _) = ring.blocks.iter().partition(|b| finishing(b));
            ring.rereads.extend(rereads);
            (ring.blocks, ring.least) = (blocks, ring.least.max(least));
        }
    }
    s.rings.push(handoff_ring(program, graph, handoff, RingFill::Handoff));
}

/// Makes the ring in which the next tile's number is handed on, if tiles are drawn from a counter.
pub(crate) fn next_tile_ring(program: &Program<'_>, s: &mut Schedule) {
    let fill = if s.producer { RingFill::NextTile } else { RingFill::NextTileByThreads };
    s.rings.extend(program.buffers_of(BufferKind::NextTile).next().map(|b| tile_ring(program, b, fill)));
}

/// A ring that is filled once for each tile. Two stages spare the threads a second meeting, and let the producer go on to the
/// next tile.
pub(crate) fn tile_ring(program: &Program<'_>, buffer: Buffer, fill: RingFill) -> RingData {
    let body = tile_loop(&program.func).map(|looped| program.func.insts[looped].blocks[0]);
    RingData { least: 2, wish: Some(2), ..handed_on(program, buffer, fill, body) }
}

/// The ring by which consumers tell the producer a scalar, where it is found.
pub(crate) fn told_ring(program: &Program<'_>, buffer: Buffer, found: Inst) -> RingData {
    let home = program.func.block_of(found);
    RingData { wish: Some(1), threads_read: false, ..handed_on(program, buffer, RingFill::Decision, home) }
}

/// The ring by which one role hands values over to another, in the block that loads them.
pub(crate) fn handoff_ring(
    program: &Program<'_>,
    graph: &Graph,
    handoff: Buffer,
    fill: RingFill,
) -> RingData {
    let func = &program.func;
    let read = graph.accesses(func, handoff).iter().find(|a| !a.writes);
    let home = read.and_then(|a| func.block_of(a.inst));
    handed_on(program, handoff, fill, home)
}

/// Makes a ring of each operand that threads compute in a loop. Overlapped iterations need as many stages as are filled
/// before the first of them is read.
pub(crate) fn operand_rings(program: &Program<'_>, graph: &Graph, s: &mut Schedule) {
    let func = &program.func;
    for buffer in program.buffers_of(BufferKind::Operand) {
        let mut blocks: Vec<Block> =
            graph.accesses(func, buffer).iter().filter_map(|a| func.block_of(a.inst)).collect();
        blocks.sort_unstable();
        blocks.dedup();
        let ring = handed_on(program, buffer, RingFill::Operand, None);
        let mut ring = RingData { blocks, threads_read: false, ..ring };
        ring.least = most_filled(func, &ring, func.entry, 0).1.max(1);
        s.rings.push(ring);
    }
}

/// A ring that threads fill and read in a block, with barriers of its own.
fn handed_on(program: &Program<'_>, buffer: Buffer, fill: RingFill, home: Option<Block>) -> RingData {
    RingData {
        buffers: vec![buffer],
        bytes: program.buffers[buffer].bytes,
        fill,
        release: StageRelease::Alone,
        depth: 1,
        blocks: home.into_iter().collect(),
        rereads: Vec::new(),
        helped: false,
        least: 1,
        wish: None,
        cluster: false,
        threads_read: true,
    }
}

/// Gives one stage to rings that threads fill, if their copies cannot be issued ahead.
pub(crate) fn hold_back(program: &Program<'_>, graph: &Graph, s: &mut Schedule) {
    let func = &program.func;
    for ring in s.rings.values_mut().filter(|r| r.fill == RingFill::CpAsync) {
        let why = match func.loop_of(ring.blocks[0]) {
            Some(l) if draws_tiles(func, l) => "the next tile is known when this one ends",
            Some(l) if func.insts[l].is_conditional_loop() => "an iteration decides if another follows",
            Some(_) if threads_can_lead(func, graph, ring.blocks[0], &ring.buffers) => continue,
            Some(_) => {
                "their addresses depend on what an iteration hands on, or on what threads make together or write"
            }
            None => "they stand in no loop",
        };
        ring.wish = Some(1);
        s.remarks.push(format!("copies of {:?} are awaited where they stand: {why}", ring.buffers));
    }
}

/// The blocks in which each buffer is loaded, and who fills it.
type Places = FxHashMap<Buffer, (Vec<Block>, RingFill)>;

fn load_places(func: &Func<'_>) -> Places {
    let mut places = Places::default();
    func.walk(|block, inst| {
        let d = &func.insts[inst];
        let tensor = match (d.op, &d.attr) {
            (Opcode::TmaLoad | Opcode::BulkLoad, Attr::Tma(t)) => t.place,
            _ => None,
        };
        let fills = [(tensor, RingFill::Tma), (copy_place(d), RingFill::CpAsync)];
        for (place, fill) in fills.into_iter().filter_map(|(p, f)| Some((p?, f))) {
            places.entry(place.buffer).or_insert_with(|| (Vec::new(), fill)).0.push(block);
        }
    });
    places
}

/// Bytes that copies bring to a stage of a buffer. Boxes that are narrower than the span of their swizzle leave gaps.
pub(crate) fn filled_bytes(program: &Program<'_>, buffer: Buffer) -> u32 {
    let mut parts: FxHashMap<u32, u32> = FxHashMap::default();
    program.func.walk(|_, inst| {
        let d = &program.func.insts[inst];
        if let (Opcode::TmaLoad | Opcode::BulkLoad, Attr::Tma(t)) = (d.op, &d.attr) {
            let place = t.place.filter(|p| p.buffer == buffer);
            parts.extend(place.map(|p| (p.offset, t.bytes)));
        }
    });
    if parts.is_empty() { program.buffers[buffer].bytes } else { parts.values().sum() }
}
