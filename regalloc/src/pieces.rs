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
//! - A pure instruction waits for its first reader if its operands live that long anyway: 4 registers of `p` exist at a
//!   time, not 32.
//!
//! Slices and joins make nothing: their registers are those of other values ([`Planned::content`]).

use crate::liveness::Liveness;
use crate::normalize::Normalized;
use crate::planned::{ANY, Planned};
use crate::ranges::{Ranges, releases_before_wait};
use std::ops::Range;
use warplift_ir::machine::{IndexMap, InstData};
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
    /// Whether it may wait for the first reader.
    pure: bool,
    waits: bool,
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
    live: bool,
}

const UNUSED: Register = Register { left: 0, first: OUT, last: (0, OUT), other: 0, maker: None, live: false };

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
    mut see: impl FnMut(usize, u32),
) {
    let registers = vec![UNUSED; planned.registers()];
    let (steps, list, touched) = (Vec::new(), Vec::new(), Vec::new());
    let mut pieces = Pieces { normal, planned, steps, list, registers, touched, live: 0 };
    for (block, held) in segments(ranges, live).iter().enumerate() {
        pieces.begin();
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
            for block in first..end {
                let (start, end) = (2 * live.start[block], 2 * live.start[block + 1]);
                found[block].push((i, from.max(start)..to.min(end)));
            }
        }
    }
    found
}

impl Pieces<'_, '_> {
    fn begin(&mut self) {
        for c in self.touched.drain(..) {
            self.registers[c as usize] = UNUSED;
        }
        self.steps.clear();
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
            match result {
                Some(i) if is_view(normal, data) => self.literals(at as u32, i),
                Some(i) if data.results.len() == 1 && !data.maps.is_empty() => {
                    self.repeat(at as u32, data, i);
                }
                _ if data.op == Opcode::WgmmaWait => {
                    let point = 2 * live.position(block, at);
                    let ended = held.iter().filter(|(_, points)| points.end == point);
                    self.whole(at as u32, data, ended.map(|(i, _)| *i).collect());
                }
                _ => self.whole(at as u32, data, Vec::new()),
            }
        }
    }

    /// The registers of a join that are literals.
    fn literals(&mut self, at: u32, result: usize) {
        for r in 0..self.planned.regs[result] {
            let c = self.planned.content(result)[usize::from(r)];
            if c == self.planned.own(result, r) {
                let writes = self.push(&[c]);
                self.add(Step { at, reads: 0..0, late: 0..0, writes, pure: true, waits: false });
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
            self.add(Step { at, reads, late, writes, pure, waits: false });
        }
    }

    /// An instruction that is not taken apart; `ended` are the values that it waits for.
    fn whole(&mut self, at: u32, data: &InstData<'_>, ended: Vec<usize>) {
        let planned = self.planned;
        let contents = |i: usize| planned.content(i).iter().copied();
        let args = |early: bool| {
            let args =
                data.args.iter().enumerate().filter(move |(k, _)| releases_before_wait(data, *k) == early);
            args.filter_map(|(_, &a)| planned.get(a)).flat_map(contents)
        };
        let passed = data.targets.iter().flat_map(|t| t.args).filter_map(|&v| planned.get(v));
        let early: Vec<u32> = args(true).chain(passed.chain(ended).flat_map(contents)).collect();
        let late: Vec<u32> = args(false).collect();
        let written = data.results.iter().filter_map(|&v| planned.get(v)).flat_map(contents);
        let written: Vec<u32> = written.collect();
        let (reads, late, writes) = (self.push(&early), self.push(&late), self.push(&written));
        self.add(Step { at, reads, late, writes, pure: false, waits: false });
    }

    fn push(&mut self, contents: &[u32]) -> Range<u32> {
        let start = self.list.len() as u32;
        self.list.extend(contents.iter().filter(|&&c| c != ANY));
        start..self.list.len() as u32
    }

    fn add(&mut self, step: Step) {
        let number = self.steps.len() as u32;
        for n in step.reads.clone().chain(step.late.clone()) {
            self.read(self.list[n as usize], step.at, number);
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
                    self.live += 1;
                }
            }
        }
    }

    fn run(&mut self, first: u32, see: &mut impl FnMut(usize, u32)) {
        for number in 0..self.steps.len() {
            self.steps[number].waits = self.may_wait(number as u32);
        }
        for number in 0..self.steps.len() as u32 {
            if !self.steps[number as usize].waits {
                let point = 2 * (first + self.steps[number as usize].at) as usize;
                self.make(number, point, see);
            }
        }
    }

    /// Whether a step waits for the first reader of its register: no operand lives longer for that.
    fn may_wait(&self, number: u32) -> bool {
        let step = &self.steps[number as usize];
        let [c] = self.list[step.writes.start as usize..step.writes.end as usize] else { return false };
        let made = &self.registers[c as usize];
        if !step.pure || made.left == 0 || made.last.0 == OUT || made.first <= step.at {
            return false;
        }
        let longer = |&o: &u32| {
            let r = &self.registers[o as usize];
            let others = if r.last.1 == number { r.other } else { r.last.0 };
            others < made.first
        };
        !self.list[step.reads.start as usize..step.reads.end as usize].iter().any(longer)
    }

    /// Runs a step, after the steps that wait for it.
    fn make(&mut self, number: u32, point: usize, see: &mut impl FnMut(usize, u32)) {
        let step = &mut self.steps[number as usize];
        step.waits = false;
        let (reads, late, writes) = (step.reads.clone(), step.late.clone(), step.writes.clone());
        for n in reads.clone().chain(late.clone()) {
            let maker = self.registers[self.list[n as usize] as usize].maker;
            if let Some(maker) = maker.filter(|&m| self.steps[m as usize].waits) {
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
