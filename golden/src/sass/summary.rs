//! The summary of a listing: what each role and each of its loops is made of.

use super::flow::{Flow, Loop};
use super::groups::groups;
use super::instruction::{Instruction, Registers, SassError, parse};
use super::roles::{Role, roles};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display};

/// Opcodes counted by name, in the order of the summary.
pub const WATCHED: &[&str] = &[
    "HGMMA",
    "QGMMA",
    "IGMMA",
    "HMMA",
    "WARPGROUP",
    "UTMALDG",
    "UTMASTG",
    "SYNCS",
    "BAR",
    "MUFU",
    "F2FP",
    "STSM",
    "LDSM",
    "LDS",
    "STS",
    "LDG",
    "LDGSTS",
    "STG",
    "SHFL",
    "MEMBAR",
    "STL",
    "LDL",
];

/// Registers of a warp product's sums.
const WARP_SUMS: u32 = 4;

/// How many instructions, in total and of the watched opcodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All, without NOP.
    pub total: u32,
    by_name: BTreeMap<String, u32>,
}

impl Counts {
    fn of<'a>(code: impl Iterator<Item = &'a Instruction>) -> Self {
        let mut counts = Self::default();
        for i in code.filter(|i| i.name() != "NOP") {
            counts.total += 1;
            *counts.by_name.entry(i.name().to_owned()).or_default() += 1;
        }
        counts
    }

    /// Instructions with this opcode.
    pub fn get(&self, name: &str) -> u32 {
        self.by_name.get(name).copied().unwrap_or(0)
    }

    /// Loads and stores of local memory: spills.
    pub fn spills(&self) -> u32 {
        self.get("STL") + self.get("LDL")
    }
}

impl Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} instructions", self.total)?;
        for (name, n) in WATCHED.iter().map(|n| (n, self.get(n))).filter(|(_, n)| *n > 0) {
            write!(f, ", {name} {n}")?;
        }
        Ok(())
    }
}

/// A loop of a role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopSummary {
    /// Loops of the kernel around it.
    pub depth: usize,
    /// Its instructions, with those of inner loops.
    pub counts: Counts,
    /// Whether it holds products and no loop inside it does.
    pub multiplies: bool,
    /// Registers that products in it write, without repetition; those of neighbouring warp products as one.
    pub accumulators: Vec<Registers>,
    /// Copies from register to register into or out of accumulators.
    pub copies: Vec<String>,
    /// Other writes of accumulators, but by products.
    pub writes: u32,
}

/// A role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleSummary {
    /// Its name, see [`Role::name`].
    pub name: &'static str,
    /// What its `USETMAXREG` asks for.
    pub set: Option<u32>,
    /// Registers of a thread: the highest number that any instruction names, plus 1.
    pub registers: u32,
    /// Its instructions.
    pub counts: Counts,
    /// Its loops, in the order of the listing; those that only wait for a barrier are in `waits`.
    pub loops: Vec<LoopSummary>,
    /// Loops that only wait for a barrier.
    pub waits: u32,
    /// What stands between the last product of a group and the wait that ends it, and how many such groups.
    pub groups: BTreeMap<String, u32>,
}

/// What is told of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Instructions before the roles part.
    pub setup: Counts,
    /// Registers used there.
    pub setup_registers: u32,
    /// Roles in the order of the listing.
    pub roles: Vec<RoleSummary>,
}

impl Summary {
    /// Instructions of all roles and the setup with this opcode.
    pub fn count(&self, name: &str) -> u32 {
        self.setup.get(name) + self.roles.iter().map(|r| r.counts.get(name)).sum::<u32>()
    }
}

/// Reads the listing of one kernel (`nvdisasm -c`).
///
/// # Errors
/// The text is no listing, or jumps to where it cannot be followed.
pub fn summarize(text: &str) -> Result<Summary, SassError> {
    let flow = Flow::new(parse(text)?)?;
    let roles = roles(&flow);
    let live = flow.reachable(0);
    let setup: Vec<usize> =
        live.into_iter().filter(|b| !roles.iter().any(|r| r.blocks.contains(b))).collect();
    let setup = || setup.iter().flat_map(|b| flow.of(*b));
    Ok(Summary {
        setup: Counts::of(setup()),
        setup_registers: registers(setup()),
        roles: roles.iter().map(|r| summarize_role(&flow, r)).collect(),
    })
}

/// The highest register named, plus 1.
fn registers<'a>(code: impl Iterator<Item = &'a Instruction>) -> u32 {
    code.flat_map(Instruction::registers).map(|r| r.last() + 1).max().unwrap_or(0)
}

fn summarize_role(flow: &Flow, role: &Role) -> RoleSummary {
    let code = || role.blocks.iter().flat_map(|b| flow.of(*b));
    let loops: Vec<&Loop> = flow.loops.iter().filter(|l| role.blocks.contains(&l.header)).collect();
    let (waits, loops): (Vec<_>, Vec<_>) = loops.into_iter().partition(|l| waits(flow, l));
    RoleSummary {
        name: role.name,
        set: role.set,
        registers: registers(code()),
        counts: Counts::of(code()),
        loops: loops.into_iter().map(|l| summarize_loop(flow, l)).collect(),
        waits: waits.len() as u32,
        groups: groups(flow, &role.blocks),
    }
}

/// A loop of a few instructions around a test of a barrier, or around the request for registers.
fn waits(flow: &Flow, l: &Loop) -> bool {
    let counts = Counts::of(l.blocks.iter().flat_map(|b| flow.of(*b)));
    counts.total <= 6 && counts.get("SYNCS") + counts.get("USETMAXREG") > 0
}

fn summarize_loop(flow: &Flow, l: &Loop) -> LoopSummary {
    let code = || l.blocks.iter().flat_map(|b| flow.of(*b));
    let products =
        |blocks: &BTreeSet<usize>| blocks.iter().any(|b| flow.of(*b).iter().any(Instruction::is_product));
    let inner = flow.loops.iter().filter(|i| i.header != l.header && l.blocks.contains(&i.header));
    let accumulators = accumulators(code());
    let touches = |r: Registers| accumulators.iter().any(|a| a.overlaps(r));
    let single = |first| Registers { first, count: 1 };
    let copy = |i: &&Instruction| {
        let ends = i.copied().zip(i.written());
        ends.is_some_and(|(from, to)| touches(single(from)) || touches(to))
    };
    let write =
        |i: &&Instruction| !i.is_product() && i.copied().is_none() && i.written().is_some_and(touches);
    LoopSummary {
        depth: l.depth,
        counts: Counts::of(code()),
        multiplies: products(&l.blocks) && !inner.map(|i| &i.blocks).any(products),
        copies: code().filter(copy).map(|i| format!("{} {}", i.opcode, i.operands.join(", "))).collect(),
        writes: code().filter(write).count() as u32,
        accumulators,
    }
}

/// What products write, each tuple once, in order.
fn accumulators<'a>(code: impl Iterator<Item = &'a Instruction>) -> Vec<Registers> {
    let tuples = code.filter(|i| i.is_product()).filter_map(Instruction::written);
    let set: BTreeSet<(u32, u32)> = tuples.map(|r| (r.first, r.count)).collect();
    let mut runs: Vec<Registers> = Vec::new();
    for (first, count) in set {
        match runs.last_mut() {
            Some(run) if run.last() + 1 == first && count <= WARP_SUMS => run.count += count,
            _ => runs.push(Registers { first, count }),
        }
    }
    runs
}

impl Display for Registers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.count {
            1 => write!(f, "R{}", self.first),
            _ => write!(f, "R{}..R{}", self.first, self.last()),
        }
    }
}

impl Display for LoopSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "loop, depth {}: {}", self.depth, self.counts)?;
        if self.accumulators.is_empty() {
            return Ok(());
        }
        let tuples: Vec<String> = self.accumulators.iter().map(ToString::to_string).collect();
        write!(f, "; accumulators {}: ", tuples.join(" and "))?;
        write!(f, "{} copies, {} other writes", self.copies.len(), self.writes)
    }
}

impl Display for RoleSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "role {}: {} registers", self.name, self.registers)?;
        if let Some(set) = self.set {
            write!(f, " of {set}")?;
        }
        writeln!(f, "\n  {}\n  {} loops that wait", self.counts, self.waits)?;
        for l in &self.loops {
            writeln!(f, "  {l}")?;
        }
        for (text, n) in &self.groups {
            writeln!(f, "  {n} groups, {text}")?;
        }
        Ok(())
    }
}

impl Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "setup: {} registers\n  {}", self.setup_registers, self.setup)?;
        self.roles.iter().try_for_each(|r| write!(f, "{r}"))
    }
}
