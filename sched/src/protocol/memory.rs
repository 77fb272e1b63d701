//! Barriers and stages of a cluster's blocks.

use super::{ProtocolError, Report, Run};
use crate::analysis::{BARRIER, handoff, touched};
use crate::schedule::{filled_bytes, keeps_last};
use std::collections::BTreeMap;
use std::ops::Range;
use warplift_ir::machine::{Buffer, Inst, RingData, RingFill, RoleKind, StageRelease};

/// The bits of an address that lie inside its block.
const LOCAL_BITS: u32 = 24;

/// An address of the block with this rank, as other blocks of the cluster name it.
pub(super) fn remote(address: i64, rank: i64) -> i64 {
    address | ((rank + 1) << LOCAL_BITS)
}

#[derive(Clone, Debug)]
struct Barrier {
    count: i64,
    pending: i64,
    bytes: i64,
    /// Completed phases.
    completed: u64,
}

/// One stage of a buffer.
#[derive(Clone, Debug, Default)]
struct Stage {
    /// Number of fills begun.
    fill: u32,
    /// Byte ranges that the copies of this fill write.
    issued: Vec<(u32, u32)>,
    landed: u32,
    /// The last fill that each warp has read.
    read: BTreeMap<u32, u32>,
    /// The last fill to which each warp has stored.
    stored_by: BTreeMap<u32, u32>,
    /// The last fill that each warp has waited for. A loop without iterations reads nothing of it.
    awaited: BTreeMap<u32, u32>,
}

struct BlockState {
    barriers: BTreeMap<i64, Barrier>,
    stages: BTreeMap<(u32, Buffer, u32), Stage>,
    /// Agents that have not ended.
    running: u32,
}

/// A copy whose bytes are on their way.
struct Copy {
    block: usize,
    stage: (u32, Buffer, u32),
    bytes: u32,
    barrier: i64,
}

/// The place of a buffer's stages.
struct Region {
    buffer: Buffer,
    start: u32,
    stage: u32,
    bytes: u32,
    /// Those of them that copies fill.
    filled: u32,
    depth: u32,
    /// Address of the full barriers of its stages.
    full: u32,
    /// Whether threads store them.
    stored: bool,
    /// Warps of a team that read it: consumers, epilogue warps, or both.
    readers: Range<u32>,
}

impl Region {
    /// Whether a full barrier of its stages stands at a place.
    fn is_full_barrier(&self, at: u32) -> bool {
        (self.full..self.full + self.depth * BARRIER).contains(&at)
    }
}

/// All blocks of a cluster.
pub(super) struct Cluster {
    blocks: Vec<BlockState>,
    copies: Vec<Copy>,
    regions: Vec<Region>,
    /// Bytes of one team's part of shared memory.
    team: u32,
    teams: u32,
    /// Warps of one team.
    warps: u32,
    /// Reads in flight: (block, stage, agent).
    reading: Vec<(usize, (u32, Buffer, u32), u32)>,
    /// Agents that have arrived at the cluster's barrier, and the number of its openings.
    arrived: u32,
    pub(super) opened: u64,
    agents: u32,
    /// Named barriers by block and number: the warps that have arrived, and the number of openings.
    named: BTreeMap<(usize, i64), (u32, u64)>,
    /// Known words of shared memory by block and address.
    words: BTreeMap<(usize, i64), i64>,
    /// Draws from the counter of tiles.
    drawn: i64,
    /// Blocks that counted themselves.
    counted: u32,
    report: Report,
}

impl Cluster {
    /// Shared memory after the setup. `barriers`: addresses with the arrivals of a phase. `each`: agents of a block.
    pub(super) fn new(r: &Run<'_, '_>, barriers: &[(i64, i64)], each: u32) -> Self {
        let size = r.scheduled.launch.cluster.max(1);
        let mut regions = Vec::new();
        let followed = |r: &RingData| matches!(r.fill, RingFill::Tma | RingFill::Operand);
        for (name, ring) in r.schedule.rings.iter().filter(|(_, r)| followed(r)) {
            for &b in &ring.buffers {
                let d = &r.program.buffers[b];
                regions.push(Region {
                    buffer: b,
                    start: r.scheduled.shared.buffers[b],
                    stage: d.stride(),
                    bytes: d.bytes,
                    filled: filled_bytes(r.program, b),
                    depth: ring.depth,
                    full: r.scheduled.shared.barriers[name],
                    stored: ring.fill == RingFill::Operand,
                    readers: readers(r, ring),
                });
            }
        }
        let barrier = |&(at, count)| (at, Barrier { count, pending: count, bytes: 0, completed: 0 });
        let barriers: BTreeMap<i64, Barrier> = barriers.iter().map(barrier).collect();
        let block = || BlockState { barriers: barriers.clone(), stages: BTreeMap::new(), running: each };
        Self {
            blocks: (0..size).map(|_| block()).collect(),
            copies: Vec::new(),
            regions,
            team: r.scheduled.shared.team,
            teams: r.program.teams.max(1),
            warps: r.program.warps,
            reading: Vec::new(),
            arrived: 0,
            opened: 0,
            agents: size * each,
            named: BTreeMap::new(),
            words: BTreeMap::new(),
            drawn: 0,
            counted: 0,
            report: Report::default(),
        }
    }

    /// The team in whose part of shared memory an address lies, and the place there.
    fn in_team(&self, address: u32) -> (u32, u32) {
        let team = if self.teams > 1 && self.team > 0 { address / self.team } else { 0 };
        (team, address - team * self.team)
    }

    /// The ring stage that contains an address, and the offset in it.
    fn locate(&self, address: i64) -> Option<((u32, Buffer, u32), u32)> {
        let address = u32::try_from(address).ok()?;
        let (team, inside) = self.in_team(address);
        let found = self.regions.iter().find(|g| (g.start..g.start + g.stage * g.depth).contains(&inside));
        found.map(|g| {
            let at = inside - g.start;
            ((team, g.buffer, at / g.stage), at % g.stage)
        })
    }

    /// The number in a word of shared memory, if it is known.
    pub(super) fn word(&self, block: usize, address: i64) -> Option<i64> {
        self.words.get(&(block, address)).copied()
    }

    /// Stores a number in a word of shared memory, or one that is not known.
    pub(super) fn put_word(&mut self, block: usize, address: i64, number: Option<i64>) {
        match number {
            Some(number) => drop(self.words.insert((block, address), number)),
            None => drop(self.words.remove(&(block, address))),
        }
    }

    /// What the cluster draws next from the counter of tiles: the blocks of the launch draw in turn.
    pub(super) fn draw(&mut self, r: &Run<'_, '_>) -> i64 {
        self.drawn += 1;
        i64::from(r.cluster) + (self.drawn - 1) * i64::from(r.blocks)
    }

    /// Whether a block that counts itself at a counter finds all others there: blocks of other clusters are not run, so every
    /// second time.
    pub(super) fn is_last(&mut self) -> bool {
        self.counted += 1;
        self.counted.is_multiple_of(2)
    }

    fn readers_of(&self, buffer: Buffer) -> Range<u32> {
        self.regions.iter().find(|g| g.buffer == buffer).map_or(0..0, |g| g.readers.clone())
    }

    /// Bytes of a stage, and those that copies fill.
    fn bytes_of(&self, buffer: Buffer) -> (u32, u32) {
        self.regions.iter().find(|g| g.buffer == buffer).map_or((0, 0), |g| (g.bytes, g.filled))
    }

    fn barrier(&mut self, block: usize, address: i64) -> Result<&mut Barrier, ProtocolError> {
        let found = self.blocks[block].barriers.get_mut(&address);
        found.ok_or_else(|| ProtocolError::Barrier(format!("no barrier at {address} of block {block}")))
    }

    /// Whether the phase of a parity is over.
    pub(super) fn passed(&self, block: usize, address: i64, parity: i64) -> Result<bool, ProtocolError> {
        let found = self.blocks[block].barriers.get(&address);
        let b = found
            .ok_or_else(|| ProtocolError::Barrier(format!("no barrier at {address} of block {block}")))?;
        Ok((b.completed & 1) as i64 != parity)
    }

    /// An arrival, with the bytes to expect.
    pub(super) fn arrive(&mut self, from: usize, address: i64, bytes: i64) -> Result<(), ProtocolError> {
        let rank = (address >> LOCAL_BITS) as usize;
        let (block, local) =
            if rank > 0 { (rank - 1, address & ((1 << LOCAL_BITS) - 1)) } else { (from, address) };
        if block >= self.blocks.len() {
            return Err(ProtocolError::Barrier(format!("no block {block} in the cluster")));
        }
        if self.blocks[block].running == 0 {
            return Err(ProtocolError::End(format!(
                "block {from} arrives in block {block}, which has ended"
            )));
        }
        let b = self.barrier(block, local)?;
        if b.pending == 0 {
            let count = b.count;
            let what = format!("more than {count} arrivals in one phase at {local} of block {block}");
            return Err(ProtocolError::Barrier(what));
        }
        b.pending -= 1;
        b.bytes += bytes;
        if complete(b) {
            self.land_stored(block, local);
        }
        self.report.releases += u64::from(bytes == 0);
        Ok(())
    }

    /// The stages of operands whose full barrier has completed a phase are whole.
    fn land_stored(&mut self, block: usize, barrier: i64) {
        let (team, at) = self.in_team(barrier as u32);
        for g in self.regions.iter().filter(|g| g.stored && g.is_full_barrier(at)) {
            let stage = (team, g.buffer, (at - g.full) / BARRIER);
            self.blocks[block].stages.entry(stage).or_default().landed = g.filled;
        }
    }

    /// A warp stores to an address. In the stage of an operand that begins a fill, if the one before is whole.
    pub(super) fn store(&mut self, block: usize, warp: u32, address: i64) -> Result<(), ProtocolError> {
        let Some((stage, _)) = self.locate(address) else { return Ok(()) };
        if !self.regions.iter().any(|g| g.buffer == stage.1 && g.stored) {
            return Ok(());
        }
        let (_, total) = self.bytes_of(stage.1);
        let s = self.blocks[block].stages.entry(stage).or_default();
        if s.stored_by.get(&warp) == Some(&s.fill) && s.landed < total {
            return Ok(());
        }
        if s.fill == 0 || s.landed == total {
            self.begin_fill(block, stage)?;
        }
        let s = self.blocks[block].stages.entry(stage).or_default();
        s.stored_by.insert(warp, s.fill);
        Ok(())
    }

    /// Issues a copy into one block.
    pub(super) fn issue(
        &mut self,
        block: usize,
        to: i64,
        bytes: u32,
        barrier: i64,
    ) -> Result<(), ProtocolError> {
        let Some((stage, offset)) = self.locate(to) else {
            return Err(ProtocolError::Stage(format!("a copy to {to}, which is in no ring")));
        };
        let (whole, total) = self.bytes_of(stage.1);
        let s = self.blocks[block].stages.entry(stage).or_default();
        let issued: u32 = s.issued.iter().map(|r| r.1).sum();
        if s.fill == 0 || issued == total {
            self.begin_fill(block, stage)?;
        }
        let name = name_of(block, stage);
        let s = self.blocks[block].stages.entry(stage).or_default();
        let over = s.issued.iter().any(|&(o, n)| offset < o + n && o < offset + bytes);
        if over || offset + bytes > whole {
            return Err(ProtocolError::Stage(format!("{name}: bytes {offset}.. are copied twice")));
        }
        s.issued.push((offset, bytes));
        self.copies.push(Copy { block, stage, bytes, barrier });
        Ok(())
    }

    /// A stage is filled again: all warps must have read its fill, and none may still read.
    fn begin_fill(&mut self, block: usize, stage: (u32, Buffer, u32)) -> Result<(), ProtocolError> {
        let (warps, readers) = (self.warps, self.readers_of(stage.1));
        let flying = self.reading.iter().find(|(b, s, _)| (*b, *s) == (block, stage)).map(|f| f.2);
        let s = self.blocks[block].stages.entry(stage).or_default();
        let name = name_of(block, stage);
        if let Some(warp) = flying {
            return Err(ProtocolError::Stage(format!("{name} is overwritten while warp {warp} reads it")));
        }
        let knows = |fills: &BTreeMap<u32, u32>, warp: u32| fills.get(&warp).is_some_and(|&f| f >= s.fill);
        let done = |w: u32| knows(&s.read, stage.0 * warps + w) || knows(&s.awaited, stage.0 * warps + w);
        let fresh = readers.into_iter().find(|&w| s.fill > 0 && !done(w));
        if let Some(w) = fresh {
            return Err(ProtocolError::Stage(format!("{name} is overwritten before warp {w} read it")));
        }
        s.fill += 1;
        s.issued.clear();
        s.landed = 0;
        self.report.fills += 1;
        Ok(())
    }

    pub(super) fn in_flight(&self) -> usize {
        self.copies.len()
    }

    /// One copy lands.
    pub(super) fn complete_copy(&mut self, i: usize) -> Result<(), ProtocolError> {
        let c = self.copies.remove(i);
        if self.blocks[c.block].running == 0 {
            return Err(ProtocolError::End(format!("bytes land in block {}, which has ended", c.block)));
        }
        if let Some(s) = self.blocks[c.block].stages.get_mut(&c.stage) {
            s.landed += c.bytes;
        }
        let b = self.barrier(c.block, c.barrier)?;
        b.bytes -= i64::from(c.bytes);
        let _ = complete(b);
        Ok(())
    }

    pub(super) fn complete_copies(&mut self) -> Result<(), ProtocolError> {
        while !self.copies.is_empty() {
            self.complete_copy(0)?;
        }
        Ok(())
    }

    /// A warp has waited for a barrier. If it is a full barrier, the warp has waited for the stage's fill.
    pub(super) fn awaited(&mut self, block: usize, warp: u32, barrier: i64) {
        let (team, at) = self.in_team(barrier as u32);
        for g in self.regions.iter().filter(|g| g.is_full_barrier(at)) {
            let stage = (team, g.buffer, (at - g.full) / BARRIER);
            if let Some(s) = self.blocks[block].stages.get_mut(&stage) {
                s.awaited.insert(warp, s.fill);
            }
        }
    }

    /// A product of a warp begins to read. Returns the ring stage that it reads, if any.
    pub(super) fn read(
        &mut self,
        block: usize,
        warp: u32,
        address: i64,
    ) -> Result<Option<(u32, Buffer, u32)>, ProtocolError> {
        let Some((stage, _)) = self.locate(address) else { return Ok(None) };
        let (_, total) = self.bytes_of(stage.1);
        let s = self.blocks[block].stages.entry(stage).or_default();
        let name = name_of(block, stage);
        if s.fill == 0 || s.landed < total {
            let (landed, fill) = (s.landed, s.fill);
            let what = format!("warp {warp} reads {name}, fill {fill}, with {landed} of {total} bytes there");
            return Err(ProtocolError::Stage(what));
        }
        let last = s.read.insert(warp, s.fill).unwrap_or(0);
        if last != s.fill && last + 1 != s.fill {
            return Err(ProtocolError::Stage(format!("warp {warp} missed a fill of {name}")));
        }
        self.report.reads += u64::from(last != s.fill);
        self.reading.push((block, stage, warp));
        Ok(Some(stage))
    }

    /// A warp has waited for one of its products.
    pub(super) fn read_done(&mut self, block: usize, warp: u32, stage: (u32, Buffer, u32)) {
        if let Some(i) = self.reading.iter().position(|r| *r == (block, stage, warp)) {
            self.reading.swap_remove(i);
        }
    }

    /// An agent arrives at the cluster's barrier.
    pub(super) fn arrive_cluster(&mut self) {
        self.arrived += 1;
        if self.arrived == self.agents {
            self.arrived = 0;
            self.opened += 1;
        }
    }

    /// A warp arrives at a named barrier of `warps` warps. Returns the opening that it waits for.
    pub(super) fn arrive_named(&mut self, block: usize, id: i64, warps: u32) -> u64 {
        let (arrived, opened) = self.named.entry((block, id)).or_default();
        let goal = *opened + 1;
        *arrived += 1;
        if *arrived >= warps {
            *arrived = 0;
            *opened = goal;
        }
        goal
    }

    /// The number of openings of a named barrier.
    pub(super) fn named(&self, block: usize, id: i64) -> u64 {
        self.named.get(&(block, id)).map_or(0, |n| n.1)
    }

    /// An agent of a block has ended.
    pub(super) fn leave(&mut self, block: usize) {
        self.blocks[block].running -= 1;
    }

    pub(super) fn describe(&self) -> String {
        let mut out = Vec::new();
        for (n, b) in self.blocks.iter().enumerate() {
            for (at, b) in b.barriers.iter().filter(|(_, b)| b.pending != b.count || b.bytes != 0) {
                out.push(format!(
                    "barrier {at} of block {n}: {} arrivals and {} bytes to come",
                    b.pending, b.bytes
                ));
            }
        }
        if out.is_empty() { "all barriers at rest".to_owned() } else { out.join(", ") }
    }

    /// At the end every phase must be complete, and every fill released.
    pub(super) fn finish(self, r: &Run<'_, '_>) -> Result<Report, ProtocolError> {
        for (n, state) in self.blocks.iter().enumerate() {
            let open = state.barriers.values().any(|b| b.pending != b.count || b.bytes != 0);
            if open {
                return Err(ProtocolError::Barrier(format!("at the end: {}", self.describe())));
            }
            for (team, (ring, data)) in (0..self.teams)
                .flat_map(|t| r.schedule.rings.iter().map(move |x| (t, x)))
                .filter(|(_, (_, data))| data.fill == RingFill::Tma)
            {
                let first = i64::from(team * self.team + r.scheduled.shared.barriers[ring]);
                for slot in 0..data.depth {
                    let at =
                        |i: u32| state.barriers.get(&(first + i64::from(i * BARRIER))).map(|b| b.completed);
                    let (full, empty) = (at(slot), at(data.depth + slot));
                    // Without a producer, a barrier among all threads replaces the releases. The last fill may have no
                    // release.
                    let spare = empty.map(|n| n + 1).filter(|_| keeps_last(&r.program.func, data));
                    let released = data.release != StageRelease::Alone || full == empty || full == spare;
                    if r.schedule.producer && !released {
                        let what =
                            format!("{ring} slot {slot} of block {n}: {full:?} fills, {empty:?} releases");
                        return Err(ProtocolError::Barrier(what));
                    }
                }
            }
        }
        Ok(self.report)
    }
}

/// The warps of a team that read a ring's stages. Epilogue warps are numbered after the consumers.
fn readers(r: &Run<'_, '_>, ring: &RingData) -> Range<u32> {
    let (func, warps) = (&r.program.func, r.program.warps);
    let reads = |&i: &Inst| {
        touched(&func.insts[i].attr, func.insts[i].op).iter().any(|t| !t.1 && ring.buffers.contains(&t.0))
    };
    let by = |role: RoleKind| func.insts.keys().filter(reads).any(|i| r.schedule.roles[i] == role);
    let first = if by(RoleKind::Consumer) { 0 } else { warps };
    let end = if by(RoleKind::Epilogue) { 2 * warps } else { warps };
    if handoff(r.program).is_some() { first..end } else { 0..warps }
}

fn name_of(block: usize, (_, buffer, number): (u32, Buffer, u32)) -> String {
    format!("stage {number} of {buffer} in block {block}")
}

/// Ends a phase that misses nothing. Returns whether it did.
fn complete(b: &mut Barrier) -> bool {
    let over = b.pending == 0 && b.bytes == 0;
    if over {
        b.pending = b.count;
        b.completed += 1;
    }
    over
}
