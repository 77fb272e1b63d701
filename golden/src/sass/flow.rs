//! Basic blocks, the edges between them, dominators and natural loops (Aho, Lam, Sethi, Ullman,
//! Compilers, section 9.6).
//!
//! `BSSY B0, (L)` announces where diverged threads meet and `BSYNC B0` goes there; the meeting point of a
//! `BSYNC` is that of the `BSSY` before it in the listing with the same number.

use super::instruction::{Instruction, Listing, SassError};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// A straight run of instructions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Its instructions, by number.
    pub range: Range<usize>,
    /// Blocks that may follow.
    pub next: Vec<usize>,
}

/// A natural loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loop {
    /// Block at which it is entered.
    pub header: usize,
    /// Its blocks, those of inner loops too.
    pub blocks: BTreeSet<usize>,
    /// Loops around it.
    pub depth: usize,
}

/// Instructions with their flow.
#[derive(Clone, Debug)]
pub struct Flow {
    /// Instructions in the order of the listing.
    pub instructions: Vec<Instruction>,
    /// Blocks in the order of the listing.
    pub blocks: Vec<Block>,
    /// Loops by header.
    pub loops: Vec<Loop>,
}

/// Where control goes after an instruction.
#[derive(Clone, Debug, Default)]
struct Exit {
    targets: Vec<usize>,
    falls: bool,
    ends: bool,
}

impl Flow {
    /// Finds blocks and loops.
    ///
    /// # Errors
    /// A branch to a label that is nowhere, or through a register.
    pub fn new((instructions, labels): Listing) -> Result<Self, SassError> {
        let exits = exits(&instructions, &labels)?;
        let blocks = blocks(&exits);
        let loops = loops(&blocks);
        Ok(Self { instructions, blocks, loops })
    }

    /// The instructions of a block.
    pub fn of(&self, block: usize) -> &[Instruction] {
        &self.instructions[self.blocks[block].range.clone()]
    }

    /// All blocks that can be reached from one.
    pub fn reachable(&self, from: usize) -> BTreeSet<usize> {
        reachable(&self.blocks, from, None)
    }

    /// The blocks of a loop that lie in no inner loop.
    pub fn own(&self, l: &Loop) -> BTreeSet<usize> {
        let inner = self.loops.iter().filter(|i| i.header != l.header && l.blocks.contains(&i.header));
        let inner: BTreeSet<usize> = inner.flat_map(|i| i.blocks.iter().copied()).collect();
        l.blocks.difference(&inner).copied().collect()
    }
}

fn exits(code: &[Instruction], labels: &BTreeMap<String, usize>) -> Result<Vec<Exit>, SassError> {
    let mut meeting: BTreeMap<&str, usize> = BTreeMap::new();
    let mut exits = Vec::with_capacity(code.len());
    for i in code {
        let target = target(i, labels, code.len())?;
        let barrier = i.operands.first().map_or("", String::as_str);
        let exit = match i.name() {
            "BSSY" => {
                meeting.extend(target.map(|t| (barrier, t)));
                Exit { falls: true, ..Exit::default() }
            }
            "BSYNC" => {
                Exit { targets: meeting.get(barrier).copied().into_iter().collect(), falls: true, ends: true }
            }
            "BRA" | "JMP" => {
                Exit { targets: target.into_iter().collect(), falls: conditional(i), ends: true }
            }
            "EXIT" | "KILL" | "RET" => Exit { falls: i.guard.is_some(), ends: true, ..Exit::default() },
            "BRX" | "JMX" => {
                return Err(SassError::Indirect { address: i.address, opcode: i.opcode.clone() });
            }
            _ => Exit { ends: target.is_some(), targets: target.into_iter().collect(), falls: true },
        };
        exits.push(exit);
    }
    Ok(exits)
}

/// The instruction that a label operand names, if there is such an operand.
fn target(i: &Instruction, labels: &BTreeMap<String, usize>, end: usize) -> Result<Option<usize>, SassError> {
    let Some(label) = i.label().filter(|_| i.name() != "RET") else { return Ok(None) };
    match labels.get(label) {
        Some(&at) if at < end => Ok(Some(at)),
        // A register is loaded with an address: no jump.
        _ if !matches!(i.name(), "BRA" | "JMP" | "BSSY") => Ok(None),
        _ => Err(SassError::Label { address: i.address, label: label.to_owned() }),
    }
}

/// A branch that may not be taken: guarded, with a condition among its operands, or on divergence.
fn conditional(i: &Instruction) -> bool {
    i.guard.is_some() || i.operands.len() > 1 || i.has("DIV") || i.has("CONV")
}

fn blocks(exits: &[Exit]) -> Vec<Block> {
    let mut starts: BTreeSet<usize> = exits.iter().flat_map(|e| e.targets.iter().copied()).collect();
    starts.insert(0);
    starts.extend(exits.iter().enumerate().filter(|(_, e)| e.ends).map(|(i, _)| i + 1));
    let starts: Vec<usize> = starts.into_iter().filter(|s| *s < exits.len()).collect();
    let at: BTreeMap<usize, usize> = starts.iter().enumerate().map(|(b, s)| (*s, b)).collect();
    let block = |b: usize| {
        let end = starts.get(b + 1).copied().unwrap_or(exits.len());
        let last = &exits[end - 1];
        let falls = last.falls.then_some(end);
        let next: BTreeSet<usize> =
            last.targets.iter().chain(&falls).filter_map(|t| at.get(t).copied()).collect();
        Block { range: starts[b]..end, next: next.into_iter().collect() }
    };
    (0..starts.len()).map(block).collect()
}

fn reachable(blocks: &[Block], from: usize, without: Option<usize>) -> BTreeSet<usize> {
    let (mut seen, mut work) = (BTreeSet::new(), vec![from]);
    while let Some(b) = work.pop() {
        if Some(b) != without && seen.insert(b) {
            work.extend(&blocks[b].next);
        }
    }
    seen
}

/// Natural loops: an edge to a block that dominates its source closes one. A block dominates what cannot
/// be reached without it; listings are short enough to ask that directly.
fn loops(blocks: &[Block]) -> Vec<Loop> {
    let live = reachable(blocks, 0, None);
    let before = |b: usize| live.iter().copied().filter(move |p| blocks[*p].next.contains(&b));
    let mut loops = Vec::new();
    for &header in &live {
        let around = reachable(blocks, 0, Some(header));
        let mut work: Vec<usize> = before(header).filter(|e| !around.contains(e)).collect();
        if work.is_empty() {
            continue;
        }
        let mut body = BTreeSet::from([header]);
        while let Some(b) = work.pop() {
            if body.insert(b) {
                work.extend(before(b));
            }
        }
        loops.push(Loop { header, blocks: body, depth: 0 });
    }
    let depth =
        |l: &Loop| loops.iter().filter(|o| o.header != l.header && o.blocks.contains(&l.header)).count();
    let depths: Vec<usize> = loops.iter().map(depth).collect();
    for (l, depth) in loops.iter_mut().zip(depths) {
        l.depth = depth;
    }
    loops
}
