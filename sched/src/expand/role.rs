//! The expansion of one role: the walk over the program's blocks, and the functions that every part of it uses.

use super::state::{
    Code, Deferred, Flight, Given, Leading, Memory, Own, RingState, Seen, Site, Staged, Walk, Who,
};
use crate::analysis::{Node, led_ahead, plain, touched, yields};
use crate::error::Result;
use crate::schedule::{NamedBarrier, NamedBarriers, stage_end, staging_sites};
use rustc_hash::FxHashMap;
use warplift_ir::entity::SecondaryMap;
use warplift_ir::machine::{
    Attr, Block, Buffer, BufferKind, Cursor, Func, Guard, IndexMap, Inst, InstData, NewInst, Program, Ring,
    RingData, RingFill, RoleKind, Schedule, Ty, Value,
};
use warplift_ir::target::Opcode;
use warplift_ir::tile::Loc;

/// Expansion of one role.
pub(super) struct Expand<'p, 'a> {
    pub given: Given<'p, 'a>,
    pub who: Who,
    pub code: Code<'a>,
    pub from: Walk,
    /// This role's position in each ring.
    pub rings: SecondaryMap<Ring, Option<RingState>>,
    pub own: Own,
    pub flight: Flight,
    pub deferred: Deferred,
    pub ahead: Leading,
    pub memory: Memory,
}

impl<'p, 'a> Expand<'p, 'a> {
    pub fn new(given: Given<'p, 'a>, who: Who) -> Self {
        let func = Func::as_large_as(&given.program.func);
        let block = func.entry;
        let deferred = given.schedule.deferral.iter().flat_map(|d| d.parts.iter().flatten().copied());
        let staged =
            Staged { sites: all_sites(given.program, given.schedule), slot_now: SecondaryMap::new() };
        Self {
            given,
            who,
            code: Code { func, block, loc: Loc::default() },
            from: Walk { source: given.program.func.entry, env: FxHashMap::default() },
            rings: SecondaryMap::new(),
            own: Own::default(),
            flight: Flight::default(),
            deferred: Deferred { insts: deferred.collect(), ..Deferred::default() },
            ahead: Leading { led: led_ahead(&given.program.func, given.schedule), ..Leading::default() },
            memory: Memory { seen: Seen::default(), staged, begun: true },
        }
    }

    /// A cursor at the end of the current block.
    pub fn at(&mut self) -> Cursor<'_, 'a> {
        self.code.at()
    }

    /// The instruction of the program.
    pub fn data(&self, inst: Inst) -> &'p InstData<'a> {
        &self.given.program.func.insts[inst]
    }

    /// Whether this role keeps an instruction.
    pub fn keeps(&self, inst: Inst) -> bool {
        self.who.needed.contains(&Node::Inst(inst))
    }

    /// Whether this role keeps a value that structure passes on.
    pub fn keeps_value(&self, v: Value) -> bool {
        self.who.needed.contains(&Node::Value(v))
    }

    /// This role's value for a value of the program.
    pub fn value(&self, v: Value) -> Value {
        // A missing value was not kept. A slice that forgot it is a bug of `graph`.
        *self
            .deferred
            .overlay
            .get(&v)
            .filter(|_| self.deferred.inside)
            .or_else(|| self.from.env.get(&v))
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
                let entry = self.code.func.entry;
                let b = self.team_base(entry);
                self.own.base = Some(b);
                b
            }
        }
    }

    fn team_base(&mut self, entry: Block) -> Value {
        let team = self.own.team.filter(|_| self.given.program.teams > 1);
        let mut c = Cursor::new(&mut self.code.func, entry, self.code.loc);
        let base = c.op(Opcode::SharedBase, &[], Ty::B32);
        match team {
            Some(team) => {
                let part = c.mul_imm(team, i64::from(self.given.smem.team));
                c.add(base, part)
            }
            None => base,
        }
    }

    /// Copies an instruction, with this role's operands.
    pub fn copy(&mut self, inst: Inst) -> Vec<Value> {
        let d = self.data(inst);
        let args = self.values(d.args);
        let types: Vec<Ty> = d.results.iter().map(|&r| self.given.program.func.ty(r)).collect();
        let guard = d.guard.map(|g| Guard { pred: self.value(g.pred), ..g });
        let new = NewInst::new(d.op, &args, &types).attr(plain(&d.attr)).maps(d.maps.clone()).guard(guard);
        let made = self.at().push(new);
        self.code.func.insts[made].results.to_vec()
    }

    /// Copies an instruction; the results become this role's values of the originals.
    pub fn clone_inst(&mut self, inst: Inst) {
        if let (Opcode::TeamIndex, Some(team)) = (self.data(inst).op, self.own.team) {
            self.from.env.insert(self.data(inst).results[0], team);
            return;
        }
        if (self.data(inst).op, self.who.role) == (Opcode::Tid, RoleKind::Epilogue) {
            // The thread's number among the epilogue warps.
            let before = 32 * i64::from(self.given.program.warps);
            let thread = self.at().op(Opcode::Tid, &[], Ty::B32);
            let own = self.at().add_imm(thread, -before);
            self.from.env.insert(self.data(inst).results[0], own);
            return;
        }
        let made = self.copy(inst);
        for (&old, new) in self.data(inst).results.iter().zip(made) {
            self.code.func.values[new].uniform = self.given.program.func.values[old].uniform;
            self.from.env.insert(old, new);
        }
    }

    /// Expands all instructions of a block. Returns the operands of its yield.
    pub fn walk(&mut self, block: Block) -> Result<&'a [Value]> {
        let insts = self.given.program.func.blocks[block].insts.clone();
        let around = std::mem::replace(&mut self.from.source, block);
        let unreleased = self.unreleased_rings(block);
        let ends = if unreleased.is_empty() { self.ring_ends(block) } else { Vec::new() };
        let stored = self.store_ends(block);
        for inst in insts {
            if self.deferred.insts.contains(&inst) {
                continue;
            }
            self.code.loc = self.data(inst).loc;
            self.code.func.bump.check()?;
            match self.who.role {
                RoleKind::Producer | RoleKind::EpilogueLoad => self.produce(block, inst)?,
                RoleKind::Consumer | RoleKind::Epilogue | RoleKind::Helper => self.consume(block, inst)?,
            }
            self.tells_decision(inst);
            for &ring in stored.iter().filter(|(at, _)| *at == inst).map(|(_, r)| r) {
                self.hand_over(ring);
            }
            for &ring in ends.iter().filter(|(at, _)| *at == inst).map(|(_, r)| r) {
                self.end_stage(ring);
            }
        }
        if !unreleased.is_empty() {
            self.defer_release(&unreleased);
        } else if !self.who.role.copies() {
            self.wait_wgmma();
        }
        self.from.source = around;
        Ok(yields(&self.given.program.func, block))
    }

    /// The instruction of a block at which each ring's stage ends. Rings that threads fill come first: the others' ends
    /// wait for products, and threads copy while these run.
    fn ring_ends(&self, block: Block) -> Vec<(Inst, Ring)> {
        let rings = &self.given.schedule.rings;
        let func = &self.given.program.func;
        let here = rings.iter().filter(|(_, r)| self.moves_in(r, block));
        let end = |(ring, data)| Some((stage_end(func, data, block, self.who.role)?, ring));
        let mut ends: Vec<(Inst, Ring)> = here.filter_map(end).collect();
        ends.sort_by_key(|&(_, ring)| rings[ring].fill != RingFill::CpAsync);
        ends
    }

    /// Whether this role fills, reads, or reads again a stage of a ring in a block.
    pub fn moves_in(&self, ring: &RingData, block: Block) -> bool {
        ring.blocks.contains(&block) || (self.who.role == RoleKind::Epilogue && ring.rereads.contains(&block))
    }

    /// Rings that advance inside an instruction's blocks.
    pub fn rings_inside(&self, inst: Inst) -> Vec<Ring> {
        let inside = |b: Block| self.given.program.func.is_inside(b, inst);
        let own = |r: &RingData| r.fill != RingFill::Operand || !self.who.role.copies();
        let blocks = |r: &RingData| r.blocks.iter().chain(&r.rereads).any(|&b| inside(b));
        self.given.schedule.rings.iter().filter(|(_, r)| own(r) && blocks(r)).map(|(r, _)| r).collect()
    }

    /// Whether a fragment is all zeros by construction.
    pub fn is_zero_fragment(&self, v: Value) -> bool {
        let Some(def) = self.code.func.def(v) else { return false };
        let d = &self.code.func.insts[def];
        d.op == Opcode::Mov
            && d.maps.first() == Some(&IndexMap::Whole)
            && self.code.func.constant(d.args[0]) == Some(0)
    }

    /// A barrier of the role's computing warps.
    pub fn block_barrier(&mut self) {
        let threads = i64::from(32 * self.given.program.warps);
        let barriers = NamedBarriers::of(self.given.program, self.given.schedule.producer);
        let id = barriers.id(NamedBarrier::Role(self.who.role));
        match self.given.program.blocks {
            1 => drop(self.at().push(NewInst::new(Opcode::BarSync, &[], &[]).attr(Attr::Imm2(id, threads)))),
            _ => self.cluster_barrier(),
        }
        let buffers: Vec<Buffer> = self.given.program.buffers.keys().collect();
        self.memory.seen.global.clear();
        for b in buffers {
            self.memory.seen.scratch[b] = self.memory.seen.scratch[b].after_barrier();
        }
        let flown = self.flight.flown.iter().map(|f| f.sum);
        let sums: Vec<Value> = flown.chain(self.flight.events.iter().copied()).collect();
        self.still_read(&sums);
    }

    /// Products in flight, given by one of their results each, continue to read their operands behind a barrier.
    pub fn still_read(&mut self, products: &[Value]) {
        let func = &self.given.program.func;
        let products = products.iter().filter_map(|&v| func.def(v)).map(|d| &func.insts[d]);
        for (b, _) in products.flat_map(|d| touched(&d.attr, d.op)) {
            self.memory.seen.scratch[b].read = true;
        }
    }

    pub fn kind(&self, buffer: Buffer) -> BufferKind {
        self.given.program.buffers[buffer].kind
    }
}

/// For the first write of every staged store: buffer, slot, and the number of groups, committed since the slot's last
/// use, that may still be pending. The number is `None` for the first use of a slot. Stores of a block in a loop repeat
/// in order, so the distance is cyclic.
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
            let first = since > i && !func.repeats(block);
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
