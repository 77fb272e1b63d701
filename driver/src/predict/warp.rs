//! One warp of a walk: where it stands, what it knows of its values, and what it has in flight.

use super::facts::Facts;
use super::lanes::Values;
use super::patterns::Number;
use super::progress::Progress;
use warplift_ir::entity::SecondaryMap;
use warplift_ir::machine::{Attr, Block, Func, Inst, InstData, Role, Value};
use warplift_ir::target::Opcode;

/// Warps of a warpgroup.
const GROUP: u32 = 4;
/// Visits of a branch whose condition depends on data after which it is taken to end.
pub const UNKNOWN_TRIPS: u32 = 16;

/// One warp that stands for all of its role's warps, or warpgroup's.
pub struct Warp<'s, 'a> {
    /// Its role's name.
    pub name: &'s str,
    /// What it runs.
    pub func: &'s Func<'a>,
    /// What its instructions cost.
    pub facts: &'s SecondaryMap<Inst, Facts>,
    /// Warps that it stands for.
    pub warps: u32,
    /// Its first thread in the block.
    pub thread: i64,
    /// The block of its next instruction.
    pub block: Block,
    /// The place of that in the block.
    pub at: usize,
    /// Pieces of that which are done, and when its first register is ready.
    pub piece: (u32, f64),
    /// Its time.
    pub now: f64,
    /// Instructions that it has issued, those that its guards hold back included.
    pub issued: u64,
    /// It has returned.
    pub ended: bool,
    /// It waits for a phase that is not over, and no phase has ended since.
    pub blocked: bool,
    /// The phase of a barrier that it has come to and waits for.
    pub meets: Option<u64>,
    /// What it knows of its values.
    pub known: Values,
    /// When the last instruction begins that waits for global memory: those behind it in straight code that touch no
    /// memory and meet nobody do not wait with it, ptxas moves them before it.
    pub waiting: f64,
    /// Visits of branches that depend on data.
    visits: SecondaryMap<Inst, u32>,
    /// How far its loops have come.
    pub progress: Progress,
    /// Its last branch ended a trip of a loop.
    pub over: bool,
    /// It has counted the block at a counter in this trip of its outermost loop.
    pub arrived: bool,
    /// Warps of all resident blocks' roles like it that share a scheduler.
    pub share: f64,
    /// Groups of products, and the end of the open one.
    pub products: Groups,
    /// Groups of bulk stores, and the end of the open one.
    pub stores: Groups,
}

impl<'s, 'a> Warp<'s, 'a> {
    /// At the entry of a function.
    pub fn new(
        name: &'s str,
        func: &'s Func<'a>,
        facts: &'s SecondaryMap<Inst, Facts>,
        first_warp: u32,
        warps: u32,
    ) -> Self {
        Self {
            name,
            func,
            facts,
            warps,
            thread: 32 * i64::from(first_warp),
            block: func.entry,
            at: 0,
            piece: (0, 0.0),
            now: 0.0,
            issued: 0,
            ended: false,
            blocked: false,
            meets: None,
            known: Values::new(func.values.len()),
            waiting: 0.0,
            visits: SecondaryMap::new(),
            progress: Progress::default(),
            over: false,
            arrived: false,
            share: 1.0,
            products: Groups::default(),
            stores: Groups::default(),
        }
    }

    /// The warpgroups of a role, of which the last may have fewer warps; and all warps that copy, each for itself.
    pub fn of(role: &'s Role<'a>, facts: &'s SecondaryMap<Inst, Facts>) -> impl Iterator<Item = Self> {
        let starts = (0..role.warps).step_by(GROUP as usize);
        let groups = starts.map(|at| (at, GROUP.min(role.warps - at)));
        let all = groups.chain((1..role.copiers).map(|at| (at, 1)));
        all.map(|(at, warps)| Self::new(role.name, &role.func, facts, role.first_warp + at, warps))
    }

    /// Its next instruction.
    pub fn next(&self) -> Inst {
        self.func.blocks[self.block].insts[self.at]
    }

    /// Waits for whatever was passed by: behind it, or at the end of straight code.
    pub fn catch_up(&mut self) {
        self.now = self.now.max(self.waiting);
    }

    /// Whether an instruction waits for global memory.
    pub fn waits_for_memory(&self, data: &InstData<'_>) -> bool {
        data.args.iter().any(|&v| self.known[v].loaded && self.known[v].ready > self.now)
    }

    /// When what a piece of an instruction needs of its operands is there, of so many pieces: registers become ready one
    /// after another.
    pub fn operands_of(&self, data: &InstData<'_>, piece: u32, pieces: u32) -> f64 {
        let part = f64::from(piece) / f64::from((pieces - 1).max(1));
        let ready = |v: &Value| {
            let known = &self.known[*v];
            if pieces == 1 { known.ready } else { known.ready_part(part) }
        };
        data.args.iter().map(ready).fold(self.now, f64::max)
    }

    /// When the first registers of all operands are there.
    pub fn firsts(&self, data: &InstData<'_>) -> f64 {
        data.args.iter().map(|&v| self.known[v].first).fold(self.now, f64::max)
    }

    /// When the first and all registers are there of what only gives registers other names: a slice's are some of its operand's,
    /// which become ready one after another.
    pub fn moved(&self, data: &InstData<'_>) -> (f64, f64) {
        let (Opcode::Slice, Attr::Imm(from), [whole]) = (data.op, &data.attr, data.args) else {
            return (self.firsts(data), self.operands(data));
        };
        let known = &self.known[*whole];
        let regs = |v: Value| f64::from(self.func.ty(v).regs().max(1) - 1);
        let (from, last) = (*from as f64, regs(*whole).max(1.0));
        (known.ready_part(from / last), known.ready_part((from + regs(data.results[0])) / last))
    }

    /// When the registers of an operand are there that a row reads: of a fragment that is larger than the result only those
    /// that its map names.
    fn read(&self, data: &InstData<'_>, k: usize) -> f64 {
        let known = &self.known[data.args[k]];
        if known.ready <= self.now || data.maps.is_empty() {
            return known.ready;
        }
        let all = self.func.ty(data.args[k]).regs() as u16;
        let times = data.results.first().map_or(1, |&r| self.func.ty(r).regs().max(1)) as u16;
        let last = data.maps.get(k).and_then(|map| (0..times).filter_map(|i| map.at(i)).max());
        match last.filter(|_| times < all) {
            Some(last) => known.ready_part(f64::from(last) / f64::from(all - 1)),
            None => known.ready,
        }
    }

    /// Whether an instruction holds up its warp until its operands are there. What waits for memory lets others pass. Others do
    /// not wait at a block's barrier for a number that is put into a word for them, so it is put there at once.
    fn holds(&self, data: &InstData<'_>, facts: &Facts) -> bool {
        !(facts.free || data.op == Opcode::StShared || facts.passes && self.waits_for_memory(data))
    }

    /// When its next instruction can begin.
    pub fn due(&self, data: &InstData<'_>, facts: &Facts) -> f64 {
        match facts.pieces {
            _ if !self.holds(data, facts) => self.now,
            0 | 1 => self.operands(data),
            pieces => self.operands_of(data, self.piece.0, pieces),
        }
    }

    /// When all operands are there.
    pub fn operands(&self, data: &InstData<'_>) -> f64 {
        (0..data.args.len()).map(|k| self.read(data, k)).fold(self.now, f64::max)
    }

    /// The value of an operand, if there is one and it is known.
    pub fn value(&self, data: &InstData<'_>, k: usize) -> Option<i64> {
        data.args.get(k).and_then(|&v| self.known[v].value)
    }

    /// The value of an operand; 0 where it is not known.
    pub fn arg(&self, data: &InstData<'_>, k: usize) -> i64 {
        self.value(data, k).unwrap_or(0)
    }

    /// The addresses of an access, if they do not depend on data that is not known.
    pub fn addresses(&self, data: &InstData<'_>, operand: usize) -> Option<Number> {
        Some(self.known.number(*data.args.get(operand)?)?.shifted(offset(&data.attr)))
    }

    /// The same, or what stands for them.
    pub fn guessed_addresses(&self, data: &InstData<'_>, operand: usize) -> Option<Number> {
        Some(self.known.guess(*data.args.get(operand)?)?.shifted(offset(&data.attr)))
    }

    /// Results of an instruction. They come from where its operands come from.
    pub fn results(&mut self, data: &InstData<'_>, number: Option<Number>, ready: f64) {
        for &r in data.results {
            self.known.set(r, number, ready);
        }
    }

    /// The parameter whose array the operands come from; 0 for none.
    pub fn source(&self, data: &InstData<'_>) -> u32 {
        data.args.iter().map(|&v| self.known[v].source).find(|&s| s > 0).unwrap_or(0)
    }

    /// Goes to a block with its parameters.
    pub fn jump(&mut self, inst: Inst, target: usize) {
        let func = self.func;
        let call = func.insts[inst].targets[target];
        self.known.pass(&func.blocks[call.block].params, call.args);
        (self.block, self.at) = (call.block, 0);
    }

    /// Where a condition compares two known numbers, they may be a loop's counter and its bound.
    fn count(&mut self, condition: Value) {
        let Some(inst) = self.func.def(condition) else { return };
        let data = &self.func.insts[inst];
        if data.op == Opcode::SetpS32
            && let (Some(counter), Some(end)) = (self.value(data, 0), self.value(data, 1))
        {
            self.over = self.progress.compare(data.args[1], counter, end, self.now);
        }
    }

    /// When it would end if the rest of its loops went on as they have.
    pub fn expected_end(&self) -> f64 {
        match self.progress.part().filter(|_| !self.ended) {
            Some((since, part)) => since + (self.now - since) / part,
            None => self.now,
        }
    }

    /// Takes the first target where the condition holds. Where that depends on data that is not known, a loop goes on for
    /// a while, and the parameter of the data is returned.
    pub fn branch(&mut self, inst: Inst, data: &InstData<'_>) -> Option<u32> {
        self.over = false;
        let taken = match self.known[data.args[0]].value {
            Some(v) => {
                self.count(data.args[0]);
                v != 0
            }
            None => {
                self.visits[inst] += 1;
                !self.visits[inst].is_multiple_of(UNKNOWN_TRIPS)
            }
        };
        let known = &self.known[data.args[0]];
        let assumed = known.value.is_none().then_some(known.source);
        self.now += 2.0;
        self.jump(inst, usize::from(!taken));
        assumed
    }
}

/// Asynchronous work of a warp: groups that are not waited for yet, in order, and what the next one has so far.
#[derive(Default)]
pub struct Groups {
    ends: Vec<f64>,
    /// When the open group ends.
    pub open: f64,
}

impl Groups {
    /// Closes the open group.
    pub fn commit(&mut self) {
        self.ends.push(self.open);
    }

    /// Goes on when at most `left` groups are in flight.
    pub fn hold(&mut self, now: &mut f64, left: i64) {
        let done = self.ends.len().saturating_sub(usize::try_from(left).unwrap_or(0));
        *now = self.ends.drain(..done).fold(*now + 1.0, f64::max);
    }
}

/// What an attribute adds to an address.
pub fn offset(attr: &Attr) -> i64 {
    match attr {
        Attr::Mem { offset, .. } | Attr::Sync { offset, .. } | Attr::Matrix { offset, .. } => {
            i64::from(*offset)
        }
        _ => 0,
    }
}
