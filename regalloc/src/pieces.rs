//! Live registers of fragments, register by register, in the order in which the assembler makes them.
//!
//! ```text
//!  p = pack acc        64 registers -> 32, acc stays       for each slice:   pack 4 registers of acc
//!  slice p, 0 ─ store                                 =>                     store them
//!  slice p, 4 ─ store
//!  y = max acc         the first registers of acc die before the last ones
//! ```
//!
//! An instruction over a fragment is many instructions of the assembler, and it orders them by itself:
//!
//! - A register dies with the last instruction that reads it, not with the last that reads its fragment.
//! - A pure instruction runs as soon as its operands are there, if one of them dies: a softmax adds each of its values to
//!   the row's sum, packs it, and has its register back.
//! - A pure instruction waits for its first reader if its operands live that long anyway: 4 registers of `p` exist at a
//!   time, not 32.
//!
//! Slices and joins make nothing: their registers are those of other values ([`Planned::content`]).

use crate::liveness::Liveness;
use crate::normalize::Normalized;
use crate::planned::{ANY, Planned};
use crate::ranges::{Ranges, releases_before_wait};
use crate::table::per_value;
use std::ops::Range;
use warplift_ir::entity::SecondaryMap;
use warplift_ir::machine::{IndexMap, InstData, Value};
use warplift_ir::target::Opcode;

/// A position behind all instructions of a block.
const OUT: u32 = u32::MAX;

/// What makes one register, or an instruction that is not taken apart.
struct Step {
    /// Number of the instruction in its block.
    at: u32,
    /// Registers whose place a result may take, and those that are read until the end.
    reads: Range<u32>,
    late: Range<u32>,
    writes: Range<u32>,
    /// Whether the assembler may move it.
    pure: bool,
    /// The first position at which it may stand: behind what makes its scalars.
    from: u32,
    state: State,
}

/// When a step runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// In its turn, or earlier if that frees a register.
    Open,
    /// With its first reader.
    Waits,
    Done,
}

/// The uses of a register in a block.
#[derive(Clone, Copy)]
struct Register {
    /// Reads that are still to come.
    left: u32,
    first: u32,
    /// Position and step of the last read, and the position of the last read by another step.
    last: (u32, u32),
    other: u32,
    maker: Option<u32>,
    /// The newest of its readers in `readers`, and the position of the first one.
    reader: u32,
    readable: u32,
    /// Whether a product may still write it before `readable`.
    flies: bool,
    live: bool,
}

const UNUSED: Register = Register {
    left: 0,
    first: OUT,
    last: (0, OUT),
    other: 0,
    maker: None,
    reader: OUT,
    readable: OUT,
    flies: false,
    live: false,
};

/// The steps of one block, and its registers.
struct Pieces<'p, 'a> {
    normal: &'p Normalized<'a>,
    planned: &'p Planned,
    steps: Vec<Step>,
    /// Registers of all steps' reads and writes.
    list: Vec<u32>,
    /// By content; `touched` names those that are not [`UNUSED`].
    registers: Vec<Register>,
    touched: Vec<u32>,
    /// Steps that read a register, each with the one before it.
    readers: Vec<(u32, u32)>,
    /// The position behind what makes a scalar of the block, or less than `first`.
    scalars: SecondaryMap<Value, u32>,
    /// Position of the block's first instruction in the function, plus one.
    first: u32,
    /// Whether products are awaited in the block.
    awaits: bool,
    /// Whether steps run early.
    early: bool,
    /// Live registers now.
    live: u32,
}

/// Shows `see` the live registers of the planner's values before and after everything that happens. A point is twice
/// the position of an instruction, plus 1 for its results.
pub(crate) fn walk(
    normal: &Normalized<'_>,
    live: &Liveness,
    planned: &Planned,
    ranges: &Ranges,
    early: bool,
    mut see: impl FnMut(usize, u32),
) {
    let registers = vec![UNUSED; planned.registers()];
    let mut pieces = Pieces {
        normal,
        planned,
        steps: Vec::new(),
        list: Vec::new(),
        registers,
        touched: Vec::new(),
        readers: Vec::new(),
        scalars: per_value(&normal.func),
        first: 0,
        awaits: false,
        early,
        live: 0,
    };
    for (block, held) in segments(ranges, live).iter().enumerate() {
        pieces.begin(live.start[block] + 1);
        pieces.take_apart(live, block, held);
        pieces.leave(live, block, held);
        pieces.enter(live, block, held);
        see(2 * live.start[block] as usize + 1, pieces.live);
        pieces.run(live.start[block] + 1, &mut see);
    }
}

/// A value, and the points of a block at which it holds its registers.
type Segment = (usize, Range<u32>);

/// The segments of each block.
fn segments(ranges: &Ranges, live: &Liveness) -> Vec<Vec<Segment>> {
    let mut found = vec![Vec::new(); live.blocks.len()];
    for (i, range) in ranges.of.iter().enumerate() {
        for &(from, to) in range.segments() {
            let first = live.start.partition_point(|&s| 2 * s <= from) - 1;
            let end = live.start.partition_point(|&s| 2 * s < to);
            for (block, list) in found.iter_mut().enumerate().take(end).skip(first) {
                let (start, end) = (2 * live.start[block], 2 * live.start[block + 1]);
                list.push((i, from.max(start)..to.min(end)));
            }
        }
    }
    found
}

impl Pieces<'_, '_> {
    fn begin(&mut self, first: u32) {
        for c in self.touched.drain(..) {
            self.registers[c as usize] = UNUSED;
        }
        self.steps.clear();
        self.readers.clear();
        self.first = first;
        self.awaits = false;
        self.list.clear();
        self.live = 0;
    }

    fn touch(&mut self, c: u32) -> &mut Register {
        self.touched.push(c);
        &mut self.registers[c as usize]
    }

    /// The steps of a block.
    fn take_apart(&mut self, live: &Liveness, block: usize, held: &[Segment]) {
        let normal = self.normal;
        for (at, &inst) in normal.func.blocks[live.blocks[block]].insts.iter().enumerate() {
            let data = &normal.func.insts[inst];
            let result = data.results.first().and_then(|&r| self.planned.get(r));
            for &r in data.results.iter().filter(|&&r| self.planned.get(r).is_none()) {
                self.scalars[r] = self.first + at as u32 + 1;
            }
            match result {
                Some(i) if is_view(normal, data) => self.literals(at as u32, i),
                Some(i) if data.results.len() == 1 && !data.maps.is_empty() => {
                    self.repeat(at as u32, data, i);
                }
                _ if data.op == Opcode::WgmmaWait => {
                    let point = 2 * live.position(block, at);
                    let ended = held.iter().filter(|(_, points)| points.end == point);
                    self.whole(at as u32, data, ended.map(|(i, _)| *i).collect());
                    self.awaits = true;
                }
                _ => self.whole(at as u32, data, Vec::new()),
            }
        }
    }

    /// Whether an instruction makes a scalar of another one and constants: it costs nothing to do so at each reader.
    fn is_increment(&self, data: &InstData<'_>) -> bool {
        let func = &self.normal.func;
        let others = data.args.iter().filter(|&&a| func.constant(a).is_none()).count();
        data.op.is_pure()
            && data.guard.is_none()
            && data.results.iter().all(|&r| !func.ty(r).is_frag())
            && others <= 1
    }

    /// The position behind what makes the scalars that an instruction reads.
    fn scalars_of(&self, data: &InstData<'_>) -> u32 {
        data.args.iter().map(|&a| self.scalars[a].saturating_sub(self.first)).max().unwrap_or(0)
    }

    /// The registers of a join that are literals.
    fn literals(&mut self, at: u32, result: usize) {
        for r in 0..self.planned.regs[result] {
            let c = self.planned.content(result)[usize::from(r)];
            if c == self.planned.own(result, r) {
                let writes = self.push(&[c]);
                self.add(Step {
                    at,
                    reads: 0..0,
                    late: 0..0,
                    writes,
                    pure: true,
                    from: 0,
                    state: State::Open,
                });
            }
        }
    }

    /// A row that is repeated: a step for each register of its result.
    fn repeat(&mut self, at: u32, data: &InstData<'_>, result: usize) {
        let planned = self.planned;
        let mut read = Vec::new();
        for r in 0..planned.regs[result] {
            read.clear();
            for (k, &a) in data.args.iter().enumerate() {
                let Some(i) = planned.get(a) else { continue };
                match data.maps.get(k).and_then(|m| m.at(r)) {
                    Some(n) => read.extend(planned.content(i).get(usize::from(n))),
                    None => read.extend(planned.content(i)),
                }
            }
            let (reads, writes) = (self.push(&read), self.push(&[planned.content(result)[usize::from(r)]]));
            let pure = data.op.is_pure() && data.guard.is_none();
            // Zeros are written before a guarded instruction reads.
            let (reads, late) = if data.guard.is_none() { (reads, 0..0) } else { (0..0, reads) };
            let from = self.scalars_of(data);
            self.add(Step { at, reads, late, writes, pure, from, state: State::Open });
        }
    }

    /// An instruction that is not taken apart; `ended` are the values that it waits for.
    fn whole(&mut self, at: u32, data: &InstData<'_>, ended: Vec<usize>) {
        let planned = self.planned;
        let args = |early: bool| {
            let args =
                data.args.iter().enumerate().filter(move |(k, _)| releases_before_wait(data, *k) == early);
            args.filter_map(|(_, &a)| planned.get(a))
        };
        let passed = data.targets.iter().flat_map(|t| t.args).filter_map(|&v| planned.get(v));
        let reads = self.push_all(args(true).chain(passed).chain(ended));
        let late = self.push_all(args(false));
        let writes = self.push_all(data.results.iter().filter_map(|&v| planned.get(v)));
        if data.op == Opcode::Wgmma {
            writes.clone().for_each(|n| self.touch(self.list[n as usize]).flies = true);
        }
        let (pure, from) = (writes.len() == 1 && self.is_increment(data), self.scalars_of(data));
        self.add(Step { at, reads, late, writes, pure, from, state: State::Open });
    }

    /// The registers of values.
    fn push_all(&mut self, values: impl Iterator<Item = usize>) -> Range<u32> {
        let start = self.list.len() as u32;
        for i in values {
            self.push(self.planned.content(i));
        }
        start..self.list.len() as u32
    }

    fn push(&mut self, contents: &[u32]) -> Range<u32> {
        let start = self.list.len() as u32;
        self.list.extend(contents.iter().filter(|&&c| c != ANY));
        start..self.list.len() as u32
    }

    fn add(&mut self, step: Step) {
        let number = self.steps.len() as u32;
        for n in step.reads.clone().chain(step.late.clone()) {
            let c = self.list[n as usize];
            self.read(c, step.at, number);
            if step.pure {
                self.readers.push((number, self.registers[c as usize].reader));
                let register = &mut self.registers[c as usize];
                register.reader = self.readers.len() as u32 - 1;
                register.readable = register.readable.min(step.at);
            }
        }
        for n in step.writes.clone() {
            self.touch(self.list[n as usize]).maker = Some(number);
        }
        self.steps.push(step);
    }

    /// Notes a read of a register.
    fn read(&mut self, c: u32, at: u32, step: u32) {
        let r = self.touch(c);
        r.left += 1;
        r.first = r.first.min(at);
        if step == OUT || r.last.1 != step {
            r.other = r.other.max(if r.last.1 == OUT { r.other } else { r.last.0 });
        }
        if at >= r.last.0 {
            r.last = (at, step);
        }
    }

    /// What is live after the block is read there.
    fn leave(&mut self, live: &Liveness, block: usize, held: &[Segment]) {
        let end = 2 * live.start[block + 1];
        for (i, _) in held.iter().filter(|(_, points)| points.end == end) {
            for &c in self.planned.content(*i).iter().filter(|&&c| c != ANY) {
                self.read(c, OUT, OUT);
            }
        }
    }

    /// What is live where the block begins.
    fn enter(&mut self, live: &Liveness, block: usize, held: &[Segment]) {
        let start = 2 * live.start[block];
        for (i, _) in held.iter().filter(|(_, points)| points.start <= start + 1) {
            for &c in self.planned.content(*i).iter().filter(|&&c| c != ANY) {
                let register = &mut self.registers[c as usize];
                if register.left > 0 && register.maker.is_none() && !register.live {
                    register.live = true;
                    register.flies = self.awaits;
                    self.live += 1;
                }
            }
        }
    }

    fn run(&mut self, first: u32, see: &mut impl FnMut(usize, u32)) {
        for number in 0..self.steps.len() {
            if self.may_wait(number as u32) {
                self.steps[number].state = State::Waits;
            }
        }
        for number in 0..self.steps.len() as u32 {
            let (at, state) = (self.steps[number as usize].at, self.steps[number as usize].state);
            if state == State::Open {
                let point = 2 * (first + at) as usize;
                self.make(number, point, see);
                if self.early {
                    self.pull(number, at, point, see);
                }
            }
        }
    }

    /// Runs later steps early whose operands are there, and of which at least one dies.
    fn pull(&mut self, number: u32, at: u32, point: usize, see: &mut impl FnMut(usize, u32)) {
        let mut todo = vec![number];
        while let Some(number) = todo.pop() {
            let Step { reads, writes, .. } = &self.steps[number as usize];
            for n in reads.clone().chain(writes.clone()) {
                let mut link = self.registers[self.list[n as usize] as usize].reader;
                while let Some(&(reader, next)) = self.readers.get(link as usize) {
                    link = next;
                    if self.frees(reader, at) {
                        self.make(reader, point, see);
                        todo.push(reader);
                    }
                }
            }
        }
    }

    /// Whether a step may run now and costs no register.
    fn frees(&self, number: u32, at: u32) -> bool {
        let step = &self.steps[number as usize];
        if step.state != State::Open || step.from > at {
            return false;
        }
        let reads = &self.list[step.reads.start as usize..step.reads.end as usize];
        let register = |c: &u32| &self.registers[*c as usize];
        let dies = |c: &u32| register(c).left as usize == reads.iter().filter(|&o| o == c).count();
        let ready = |c: &u32| register(c).live && (!register(c).flies || register(c).readable <= at);
        reads.iter().all(ready) && reads.iter().any(dies)
    }

    /// Whether a step waits for the first reader of its register: no operand lives longer for that.
    fn may_wait(&self, number: u32) -> bool {
        let step = &self.steps[number as usize];
        let [c] = self.list[step.writes.start as usize..step.writes.end as usize] else { return false };
        let made = &self.registers[c as usize];
        if !step.pure || made.left == 0 || made.last.0 == OUT || made.first <= step.at {
            return false;
        }
        !self.reads(number).iter().any(|&o| self.lengthens(o, number, made.first))
    }

    fn reads(&self, number: u32) -> &[u32] {
        let reads = &self.steps[number as usize].reads;
        &self.list[reads.start as usize..reads.end as usize]
    }

    /// Whether a register lives longer if a step reads it at a later position. What waits itself only moves along.
    fn lengthens(&self, c: u32, number: u32, until: u32) -> bool {
        let r = &self.registers[c as usize];
        let others = if r.last.1 == number { r.other } else { r.last.0 };
        if others >= until {
            return false;
        }
        match r.maker.filter(|&m| r.left == 1 && self.steps[m as usize].state == State::Waits) {
            Some(maker) => self.reads(maker).iter().any(|&o| self.lengthens(o, maker, until)),
            None => true,
        }
    }

    /// Runs a step, after the steps that wait for it.
    fn make(&mut self, number: u32, point: usize, see: &mut impl FnMut(usize, u32)) {
        let step = &mut self.steps[number as usize];
        step.state = State::Done;
        let (reads, late, writes) = (step.reads.clone(), step.late.clone(), step.writes.clone());
        for n in reads.clone().chain(late.clone()) {
            let maker = self.registers[self.list[n as usize] as usize].maker;
            if let Some(maker) = maker.filter(|&m| self.steps[m as usize].state == State::Waits) {
                self.make(maker, point, see);
            }
        }
        see(point, self.live);
        self.release(reads);
        self.write(writes, point, see);
        self.release(late);
    }

    fn release(&mut self, reads: Range<u32>) {
        for n in reads {
            let r = &mut self.registers[self.list[n as usize] as usize];
            r.left -= 1;
            if r.left == 0 && r.live {
                r.live = false;
                self.live -= 1;
            }
        }
    }

    fn write(&mut self, writes: Range<u32>, point: usize, see: &mut impl FnMut(usize, u32)) {
        let mut unread = 0;
        for n in writes {
            let r = &mut self.registers[self.list[n as usize] as usize];
            unread += u32::from(r.left == 0);
            if r.left > 0 && !r.live {
                r.live = true;
                self.live += 1;
            }
        }
        see(point + 1, self.live + unread);
    }
}

/// Whether an instruction names registers of other values.
fn is_view(normal: &Normalized<'_>, data: &InstData<'_>) -> bool {
    match data.op {
        Opcode::Slice | Opcode::Join | Opcode::Undef => true,
        Opcode::Mov => {
            let fragment = data.args.iter().any(|&a| normal.func.ty(a).is_frag());
            fragment && !data.maps.is_empty() && data.maps.iter().all(|m| *m != IndexMap::Whole)
        }
        _ => false,
    }
}
