//! State of the expansion of one role, and the walk over blocks.

use super::cp_async::Ahead;
use super::global::{Accesses, plain};
use super::pdl::WaitPhase;
use super::ring::RingState;
use super::wgmma_pipelining::{Flown, Unreleased};
use crate::Result;
use crate::graph::{Node, touched};
use crate::schedule::{repeats, staging_sites};
use crate::stage::stage_end;
use rustc_hash::{FxHashMap, FxHashSet};
use warplift_ir::entity::SecondaryMap;
use warplift_ir::machine::{
    Attr, Block, Buffer, BufferKind, Cursor, Func, Guard, IndexMap, Inst, InstData, NewInst, Program, Ring,
    RingData, RoleKind, Schedule, SharedMap, Ty, Value,
};
use warplift_ir::target::Opcode;
use warplift_ir::tile::Loc;

/// What happened to a buffer that threads write: since the last barrier of the role, and since the last fence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Touched {
    pub written: bool,
    pub read: bool,
    /// Written, and no fence has yet shown it to asynchronous reads: a barrier does not.
    pub unfenced: bool,
}

impl Touched {
    /// What may have happened where two ways meet.
    pub fn join(self, other: Self) -> Self {
        Self {
            written: self.written || other.written,
            read: self.read || other.read,
            unfenced: self.unfenced || other.unfenced,
        }
    }

    /// What is left of it behind a barrier.
    pub fn after_barrier(self) -> Self {
        Self { unfenced: self.unfenced, ..Self::default() }
    }

    /// Whatever may have happened.
    pub fn anything() -> Self {
        Self { written: true, read: true, unfenced: true }
    }
}

/// What happened to memory since the last barrier of the role.
#[derive(Clone, Default)]
pub(super) struct Seen {
    /// Scratch buffers.
    pub scratch: SecondaryMap<Buffer, Touched>,
    /// Global memory, by the number of the pointer argument.
    pub global: FxHashMap<u32, Accesses>,
}

/// A staged store: where it goes, and how many groups of copies may be pending before; `None`: there are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Site {
    pub buffer: Buffer,
    pub slot: u32,
    pub pending: Option<u32>,
}

/// What the threads of a role know of themselves, each made once at entry where it is first asked for.
#[derive(Default)]
pub(super) struct Own {
    /// The elected lane of each warp.
    pub elected: Option<Value>,
    /// First address of this team's shared memory.
    pub base: Option<Value>,
    /// This block's number in its cluster.
    pub rank: Option<Value>,
    /// Where the other block's shared memory begins.
    pub peer: Option<Value>,
    /// Whether this is the thread that copies, where there is no producer.
    pub first: Option<Value>,
    /// Number of this role's team in the block, where there are several.
    pub team: Option<Value>,
    /// Number of this warp among the helpers.
    pub helper: Option<Value>,
    /// Whether what is expanded is its turn.
    pub in_slot: bool,
    /// Whether this is a warpgroup, for each of them, where they take turns.
    pub group: Vec<Value>,
    /// First addresses by offset, and whether a loop is expanded whose body stands there for each slot.
    pub addresses: FxHashMap<Value, Value>,
    pub in_copies: bool,
    /// The iteration whose body is written, of a loop that stands there once for each.
    pub iteration: u32,
    /// Descriptor bases by operand.
    pub descriptors: FxHashMap<(Buffer, [u32; 3], bool), Value>,
}

/// Products in flight.
#[derive(Default)]
pub(super) struct Flight {
    /// There is one whose wait is yet to come.
    pub flying: bool,
    /// Groups committed since the last wait.
    pub groups: u32,
    /// Them, in order.
    pub flown: Vec<Flown>,
    /// Whether awaits say when they have landed, as in the body of a rotated loop.
    pub exact: bool,
    /// Their events there.
    pub events: Vec<Value>,
    /// Stages whose products stay in flight over an iteration.
    pub unreleased: Option<Unreleased>,
}

/// The deferred epilogue.
#[derive(Default)]
pub(super) struct Deferred {
    /// Its part that goes before the next wait.
    pub part: Option<usize>,
    /// Its instructions.
    pub insts: FxHashSet<Inst>,
    /// Whether they are being expanded.
    pub inside: bool,
    /// Their operands meanwhile.
    pub overlay: FxHashMap<Value, Value>,
    /// Whether deferred results exist: guards their copies.
    pub have: Option<Value>,
}

/// Loads before their turn.
#[derive(Default)]
pub(super) struct Leading {
    /// Which loads of a stage are filled now.
    pub phase: WaitPhase,
    /// Copies of later iterations that are yet to be issued.
    pub copies: Vec<Ahead>,
    /// A loop whose iterations are so few at most.
    pub most: Option<(Inst, usize)>,
}

/// Staged stores.
pub(super) struct Staged {
    /// The first write of each.
    pub sites: FxHashMap<Inst, Site>,
    /// Slot that the staging buffer's current site uses.
    pub slot_now: SecondaryMap<Buffer, u32>,
}

/// Expansion of one role.
pub(super) struct Expand<'p, 'a> {
    pub program: &'p Program<'a>,
    pub s: &'p Schedule,
    pub shared: &'p SharedMap,
    /// Tensor maps of parts, by the map of the whole.
    pub parts: &'p FxHashMap<u32, u32>,
    pub role: RoleKind,
    pub needed: FxHashSet<Node>,
    pub func: Func<'a>,
    pub block: Block,
    /// The program's block that is walked.
    pub source: Block,
    pub loc: Loc,
    /// The structured program's values here.
    pub env: FxHashMap<Value, Value>,
    pub rings: SecondaryMap<Ring, Option<RingState>>,
    pub own: Own,
    pub flight: Flight,
    pub deferred: Deferred,
    pub ahead: Leading,
    pub staged: Staged,
    pub seen: Seen,
    /// Whether all blocks that hold a tile together are known to have begun.
    pub begun: bool,
}

impl<'p, 'a> Expand<'p, 'a> {
    pub fn new(
        program: &'p Program<'a>,
        s: &'p Schedule,
        shared: &'p SharedMap,
        role: RoleKind,
        needed: FxHashSet<Node>,
        parts: &'p FxHashMap<u32, u32>,
    ) -> Self {
        let func = Func::new(program.func.bump);
        let block = func.entry;
        let deferred = s.deferral.iter().flat_map(|d| d.parts.iter().flatten().copied());
        Self {
            program,
            s,
            shared,
            parts,
            role,
            needed,
            func,
            block,
            source: program.func.entry,
            loc: Loc::default(),
            env: FxHashMap::default(),
            rings: SecondaryMap::new(),
            own: Own::default(),
            flight: Flight::default(),
            deferred: Deferred { insts: deferred.collect(), ..Deferred::default() },
            ahead: Leading::default(),
            staged: Staged { sites: all_sites(program, s), slot_now: SecondaryMap::new() },
            seen: Seen::default(),
            begun: true,
        }
    }

    /// A cursor at the end of the block that grows.
    pub fn at(&mut self) -> Cursor<'_, 'a> {
        Cursor::new(&mut self.func, self.block, self.loc)
    }

    /// The program's instruction.
    pub fn data(&self, inst: Inst) -> &'p InstData<'a> {
        &self.program.func.insts[inst]
    }

    /// Whether this role keeps an instruction.
    pub fn keeps(&self, inst: Inst) -> bool {
        self.needed.contains(&Node::Inst(inst))
    }

    /// Whether this role keeps a value that structure passes on.
    pub fn keeps_value(&self, v: Value) -> bool {
        self.needed.contains(&Node::Value(v))
    }

    /// The value here of one of the program's.
    pub fn value(&self, v: Value) -> Value {
        // A value that is not here was not kept: a slice that forgot it is a bug of `graph`.
        *self
            .deferred
            .overlay
            .get(&v)
            .filter(|_| self.deferred.inside)
            .or_else(|| self.env.get(&v))
            .unwrap_or_else(|| panic!("{v} is not in this role"))
    }

    pub fn values(&self, vs: &[Value]) -> Vec<Value> {
        vs.iter().map(|&v| self.value(v)).collect()
    }

    /// First address of shared memory.
    pub fn shared_base(&mut self) -> Value {
        match self.own.base {
            Some(b) => b,
            None => {
                let entry = self.func.entry;
                let b = self.team_base(entry);
                self.own.base = Some(b);
                b
            }
        }
    }

    fn team_base(&mut self, entry: Block) -> Value {
        let team = self.own.team.filter(|_| self.program.teams > 1);
        let mut c = Cursor::new(&mut self.func, entry, self.loc);
        let base = c.op(Opcode::SharedBase, &[], Ty::B32);
        match team {
            Some(team) => {
                let part = c.mul_imm(team, i64::from(self.shared.team));
                c.add(base, part)
            }
            None => base,
        }
    }

    /// A copy of an instruction with this role's operands.
    pub fn copy(&mut self, inst: Inst) -> Vec<Value> {
        let d = self.data(inst);
        let args = self.values(d.args);
        let types: Vec<Ty> = d.results.iter().map(|&r| self.program.func.ty(r)).collect();
        let guard = d.guard.map(|g| Guard { pred: self.value(g.pred), ..g });
        let new = NewInst::new(d.op, &args, &types).attr(plain(&d.attr)).maps(d.maps.clone()).guard(guard);
        let made = self.at().push(new);
        self.func.insts[made].results.to_vec()
    }

    /// A copy whose results are this role's values of the originals.
    pub fn clone_inst(&mut self, inst: Inst) {
        if let (Opcode::TeamIndex, Some(team)) = (self.data(inst).op, self.own.team) {
            self.env.insert(self.data(inst).results[0], team);
            return;
        }
        if (self.data(inst).op, self.role) == (Opcode::Tid, RoleKind::Epilogue) {
            // Its number among the epilogue warps.
            let before = 32 * i64::from(self.program.warps);
            let thread = self.at().op(Opcode::Tid, &[], Ty::B32);
            let own = self.at().add_imm(thread, -before);
            self.env.insert(self.data(inst).results[0], own);
            return;
        }
        let made = self.copy(inst);
        for (&old, new) in self.data(inst).results.iter().zip(made) {
            self.func.values[new].uniform = self.program.func.values[old].uniform;
            self.env.insert(old, new);
        }
    }

    /// All of a block; returns what its yield passes on.
    pub fn walk(&mut self, block: Block) -> Result<&'a [Value]> {
        let insts = self.program.func.blocks[block].insts.clone();
        let around = std::mem::replace(&mut self.source, block);
        let unreleased = self.unreleased_rings(block);
        let ends = if unreleased.is_empty() { self.ring_ends(block) } else { Vec::new() };
        for inst in insts {
            if self.deferred.insts.contains(&inst) {
                continue;
            }
            self.loc = self.data(inst).loc;
            match self.role {
                RoleKind::Producer | RoleKind::EpilogueLoad => self.produce(block, inst)?,
                RoleKind::Consumer | RoleKind::Epilogue | RoleKind::Helper => self.consume(block, inst)?,
            }
            for &ring in ends.iter().filter(|(at, _)| *at == inst).map(|(_, r)| r) {
                self.end_stage(ring);
            }
        }
        if !unreleased.is_empty() {
            self.defer_release(&unreleased);
        } else if !self.role.copies() {
            self.wait_wgmma();
        }
        self.source = around;
        Ok(crate::graph::yields(&self.program.func, block))
    }

    /// After which instruction of a block each ring's stage ends.
    fn ring_ends(&self, block: Block) -> Vec<(Inst, Ring)> {
        let here = self.s.rings.iter().filter(|(_, r)| self.moves_in(r, block));
        let func = &self.program.func;
        here.filter_map(|(ring, data)| Some((stage_end(func, data, block, self.role)?, ring))).collect()
    }

    /// Whether a stage of a ring is filled, read, or read again by this role in a block.
    pub fn moves_in(&self, ring: &RingData, block: Block) -> bool {
        ring.blocks.contains(&block) || (self.role == RoleKind::Epilogue && ring.rereads.contains(&block))
    }

    /// Rings that move inside an instruction's blocks.
    pub fn rings_inside(&self, inst: Inst) -> Vec<Ring> {
        let inside = |b: Block| block_inside(&self.program.func, inst, b);
        let blocks = |r: &RingData| r.blocks.iter().chain(&r.rereads).any(|&b| inside(b));
        self.s.rings.iter().filter(|(_, r)| blocks(r)).map(|(r, _)| r).collect()
    }

    /// Whether a fragment is all zeros by construction.
    pub fn is_zero_fragment(&self, v: Value) -> bool {
        let Some(def) = self.func.def(v) else { return false };
        let d = &self.func.insts[def];
        d.op == Opcode::Mov
            && d.maps.first() == Some(&IndexMap::Whole)
            && self.func.constant(d.args[0]) == Some(0)
    }

    /// Barrier among the warps that compute.
    pub fn block_barrier(&mut self) {
        let threads = i64::from(32 * self.program.warps);
        let id = match self.role {
            RoleKind::Epilogue => 2,
            _ => i64::from(self.s.producer),
        };
        match self.program.blocks {
            1 => drop(self.at().push(NewInst::new(Opcode::BarSync, &[], &[]).attr(Attr::Imm2(id, threads)))),
            _ => self.cluster_barrier(),
        }
        let buffers: Vec<Buffer> = self.program.buffers.keys().collect();
        self.seen.global.clear();
        for b in buffers {
            self.seen.scratch[b] = self.seen.scratch[b].after_barrier();
        }
        // Products in flight go on reading.
        for &event in &self.flight.events {
            let product = self.program.func.def(event).map(|d| self.data(d));
            for (b, _) in product.into_iter().flat_map(|d| touched(&d.attr, d.op)) {
                self.seen.scratch[b].read = true;
            }
        }
    }

    pub fn kind(&self, buffer: Buffer) -> BufferKind {
        self.program.buffers[buffer].kind
    }
}

pub(super) fn block_inside(func: &Func<'_>, inst: Inst, block: Block) -> bool {
    func.around(block).any(|b| func.holder(b) == Some(inst))
}

/// For the first write of every staged store: buffer, slot, and how many groups committed since the slot
/// was last used may still be pending; none for the first use of a slot. Stores of a block repeat in order, so
/// the distance is cyclic, unless it stands in no loop.
fn all_sites(program: &Program<'_>, s: &Schedule) -> FxHashMap<Inst, Site> {
    let func = &program.func;
    let blocks: Vec<Block> = func.blocks.keys().filter(|&b| !staging_sites(program, b).is_empty()).collect();
    let alone = blocks.len() == 1;
    let mut all = FxHashMap::default();
    for block in blocks {
        let sites = staging_sites(program, block);
        let mut count: FxHashMap<Buffer, u32> = FxHashMap::default();
        let slots: Vec<(Buffer, u32)> = sites
            .iter()
            .map(|&(_, b)| {
                let n = count.entry(b).or_default();
                *n += 1;
                (b, (*n - 1) % s.slots[b].max(1))
            })
            .collect();
        let n = sites.len();
        for (i, &(inst, buffer)) in sites.iter().enumerate() {
            let since = (1..=n).find(|d| slots[(i + n - d) % n] == slots[i]).unwrap_or(n);
            let first = since > i && !repeats(func, block);
            let pending = match alone {
                true if first => None,
                true => Some(since as u32 - 1),
                false => Some(0),
            };
            all.insert(inst, Site { buffer, slot: slots[i].1, pending });
        }
    }
    all
}
