//! The decisions of the stages, for `explain`.

use crate::attempts::{Attempt, names};
use crate::chart::Chart;
use crate::state::State;
use std::fmt;
use warplift_ir::entity::EntityRef;
use warplift_ir::machine::{RingFill, Schedule, SharedMap};
use warplift_ir::plural;
use warplift_ir::tile::{Inst, InstData, Kernel, Op, ParamData, Remark};

/// A buffer of shared memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BufferUse {
    /// Name, from the tile that it holds.
    pub name: String,
    /// Bytes of a stage.
    pub bytes: u32,
    /// Stages.
    pub stages: u32,
    /// First byte.
    pub address: u32,
}

/// Registers of a role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisterUse {
    /// The role.
    pub role: String,
    /// Registers of a thread that it may use.
    pub budget: u32,
    /// Registers that allocation needed.
    pub needed: u32,
}

/// The decisions of the stages.
#[derive(Clone, Debug)]
pub struct Explained {
    /// Words of the mapping that have no effect on this kernel.
    pub lints: Vec<Remark>,
    /// Versions of tiles and the instruction of each access, a line each.
    pub plan: Vec<String>,
    /// Arrays whose tiles in loops all come through shared memory to registers.
    pub staged: Vec<String>,
    /// The trials of the search over plans, a line each.
    pub search: Vec<String>,
    /// Roles, rings, deferral.
    pub schedule: Schedule,
    /// Shared memory.
    pub smem: SharedMap,
    /// Buffers in order.
    pub buffers: Vec<BufferUse>,
    /// Registers of each thread of the epilogue role for values that are the same for all tiles.
    pub hoisted_registers: u32,
    /// Registers of the roles.
    pub registers: Vec<RegisterUse>,
    /// The attempts, including the last one, which compiled.
    pub attempts: Vec<Attempt>,
}

impl Explained {
    /// The decisions of a finished compile with its `attempts`.
    ///
    /// # Panics
    /// Passes have not run yet: a bug of the caller.
    pub(crate) fn of(s: &State<'_>, attempts: Vec<Attempt>) -> Self {
        let (program, schedule, scheduled) = (s.program(), s.schedule(), s.scheduled());
        let buffers = program.buffers.iter().map(|(b, d)| {
            let ring = schedule.rings.values().find(|r| r.buffers.contains(&b));
            let stages = ring.map_or(schedule.slots[b].max(1), |r| r.depth);
            BufferUse { name: d.name.clone(), bytes: d.bytes, stages, address: s.smem.buffers[b] }
        });
        let needed = s.allocations().roles.iter().map(|a| a.pressure);
        let registers = scheduled.roles.iter().zip(needed);
        let registers =
            registers.map(|(r, needed)| RegisterUse { role: r.name.to_owned(), budget: r.registers, needed });
        Self {
            lints: s.lints.clone(),
            plan: s.plan().describe(s.kernel()),
            staged: staged(s),
            search: s.plan().describe_search(s.kernel()),
            schedule: Schedule { remarks: remarks(&schedule.remarks, &attempts), ..schedule.clone() },
            smem: s.smem.clone(),
            buffers: buffers.collect(),
            hoisted_registers: warplift_sched::hoisted_registers(program),
            registers: registers.collect(),
            attempts,
        }
    }

    fn rings(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.schedule.rings.is_empty() {
            writeln!(f, "rings")?;
        }
        for (r, d) in self.schedule.rings.iter() {
            let handed = match d.fill {
                RingFill::Tma => format!("barriers at {}", self.smem.barriers[r]),
                RingFill::CpAsync => "copies of the threads".to_owned(),
                RingFill::NextTileByThreads => "drawn from a counter by a thread".to_owned(),
                RingFill::NextTile => format!("drawn from a counter, barriers at {}", self.smem.barriers[r]),
                RingFill::Operand => {
                    format!("computed by the threads, barriers at {}", self.smem.barriers[r])
                }
                RingFill::Handoff | RingFill::Helper | RingFill::TileInfo | RingFill::Decision => {
                    format!("handed on, barriers at {}", self.smem.barriers[r])
                }
            };
            let names: Vec<&str> = d.buffers.iter().map(|b| self.buffers[b.index()].name.as_str()).collect();
            let (names, depth, bytes) = (names.join(", "), d.depth, d.bytes);
            writeln!(f, "  {r}: {names} depth {depth} ({bytes} bytes a stage), {handed}")?;
        }
        Ok(())
    }

    fn memory(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "shared memory: {} bytes", self.smem.bytes)?;
        for b in self.buffers.iter().filter(|b| b.bytes > 0) {
            writeln!(f, "  {:>7} {}: {} x {}", b.address, b.name, b.stages, b.bytes)?;
        }
        Ok(())
    }

    fn remarks(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lints = self.lints.iter().map(ToString::to_string);
        for remark in lints.chain(self.schedule.remarks.iter().cloned()) {
            writeln!(f, "remark: {remark}")?;
        }
        if self.attempts.len() > 1 {
            writeln!(f, "attempts")?;
            self.attempts.iter().try_for_each(|a| writeln!(f, "  {a}"))?;
        }
        Ok(())
    }
}

/// Arrays that are read in loops alone, and whose loads are all staged.
fn staged(s: &State<'_>) -> Vec<String> {
    let loads = |k: &Kernel, pointer| {
        let of = move |&(i, d): &(Inst, &InstData)| {
            matches!(d.op, Op::Load) && k.argument_of(k.args(i)[0]).is_some_and(|p| p.value == pointer)
        };
        k.insts.iter().filter(of).map(|(i, _)| i).collect::<Vec<_>>()
    };
    let (written, mapped) = (&s.written, s.kernel());
    let entry = &written.blocks[written.entry].insts;
    let are_staged = |p: &&ParamData| {
        let staged = loads(mapped, p.value);
        !staged.is_empty()
            && staged.iter().all(|load| s.plan().staged.contains_key(load))
            && !loads(written, p.value).iter().any(|load| entry.contains(load))
    };
    written.params.iter().filter(are_staged).map(|p| p.name.clone()).collect()
}

impl fmt::Display for Explained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (title, lines) in [("plan", &self.plan), ("search", &self.search)] {
            if !lines.is_empty() {
                writeln!(f, "{title}\n  {}", lines.join("\n  "))?;
            }
        }
        self.rings(f)?;
        self.memory(f)?;
        if let Some(d) = &self.schedule.deferral {
            let parts = plural(d.parts.len() as u64, "part");
            writeln!(f, "deferred: {parts} under the first iterations of the next tile's main loop")?;
        }
        self.schedule.loops.iter().try_for_each(|l| write!(f, "{}", Chart(l)))?;
        self.remarks(f)?;
        if self.hoisted_registers > 0 {
            writeln!(
                f,
                "hoisted for all tiles: {} registers of each thread that reads them",
                self.hoisted_registers
            )?;
        }
        writeln!(f, "registers")?;
        self.registers.iter().try_for_each(|r| writeln!(f, "  {}: {} of {}", r.role, r.needed, r.budget))
    }
}

/// Remarks of the schedule, and the features that were given up. The first refusal is the reason.
fn remarks(of_schedule: &[String], attempts: &[Attempt]) -> Vec<String> {
    let given_up = attempts.last().filter(|a| !a.without.is_empty()).map(|a| names(&a.without));
    let why = attempts.first().and_then(|a| a.refused.as_deref()).unwrap_or_default();
    let turned_off = given_up.map(|names| format!("{names} turned off: {why}"));
    of_schedule.iter().cloned().chain(turned_off).collect()
}
