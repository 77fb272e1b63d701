//! The pipeline, a line a pass.
//!
//! ```text
//!  Kernel + Mapping ─ map ─ plan ─ lower ─ schedule ─ smem ─ expand_roles ─ allocate ─ emit ─► PTX + manifest
//! ```
//!
//! After every pass that level's verifier runs if [`Options::verify`] is set; a failure there is a bug of
//! the compiler, reported with the dump to reproduce it.

use crate::allocation::allocate;
use crate::chart::Chart;
use crate::features::{Feature, of_isel, of_sched};
use std::fmt::{self, Display};
use std::time::{Duration, Instant};
use warplift_emit::{Allocations, EmitError};
use warplift_ir::entity::EntityRef;
use warplift_ir::machine::{
    MachineError, RingFill, Schedule, Scheduled, SharedMap, verify_scheduled, verify_structured,
};
use warplift_ir::manifest::Manifest;
use warplift_ir::target::Target;
use warplift_ir::tile::{
    Depth, Item, Kernel, Loc, LoopMapping, Mapping, Origin, Remark, VerifyError, verify, verify_mapping,
};
use warplift_ir::{Bump, plural};
use warplift_isel::IselError;
use warplift_regalloc::RegallocError;
use warplift_sched::{Overlap, SchedError};

/// How to compile.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Run the verifiers after every pass.
    pub verify: bool,
    /// Show the IR after these passes, by name; `all` shows every one.
    pub dump: Vec<String>,
    /// Who is shown it, as soon as it is there: what a later pass refuses was seen before.
    pub shown: Option<Shown>,
    /// What the stages are to leave, to see what it is worth.
    pub disable: Vec<Feature>,
}

/// Takes the IR after a pass.
pub type Shown = fn(pass: &'static str, ir: &dyn Display);

/// Names of the passes, in order.
pub const PASSES: &[&str] = &[
    "verify",
    "map",
    "plan",
    "lower",
    "epilogue_roles",
    "hoist_loads",
    "merge_waits",
    "dedup_mma",
    "modulo",
    "modulo_expand",
    "schedule",
    "smem",
    "expand_roles",
    "allocate",
    "setmaxnreg",
    "emit",
];

/// A compiled kernel.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// PTX text.
    pub ptx: String,
    /// What it takes to launch it.
    pub manifest: Manifest,
    /// What was decided, for `explain`.
    pub explained: Explained,
    /// Time of each pass.
    pub timings: Vec<(&'static str, Duration)>,
}

/// What the stages decided.
#[derive(Clone, Debug)]
pub struct Explained {
    /// Words of the mapping that have no effect on this kernel.
    pub remarks: Vec<Remark>,
    /// Versions of tiles and the instruction of each access, a line each.
    pub plan: Vec<String>,
    /// What the search over plans tried, a line each.
    pub search: Vec<String>,
    /// Roles, rings, deferral.
    pub schedule: Schedule,
    /// Shared memory.
    pub shared: SharedMap,
    /// Buffers: name, bytes of a stage, stages, address.
    pub buffers: Vec<(String, u32, u32, u32)>,
    /// Registers of each thread of the epilogue role that hold hoisted loads.
    pub hoisted_registers: u32,
    /// Role, budget in registers, registers that allocation needed.
    pub registers: Vec<(String, u32, u32)>,
}

/// Why a kernel was not compiled.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// The kernel is wrong; all errors.
    #[error("{}", lines(.0))]
    Verify(Vec<VerifyError>),
    /// The mapping is wrong; all errors, placed in its text.
    #[error("{}", lines(.0))]
    Mapping(Vec<VerifyError>),
    /// Selection refused it.
    #[error(transparent)]
    Isel(#[from] IselError),
    /// Scheduling refused it.
    #[error(transparent)]
    Sched(#[from] SchedError),
    /// It needs more registers than there are.
    #[error(transparent)]
    Registers(#[from] RegallocError),
    /// It cannot be written as PTX.
    #[error(transparent)]
    Emit(#[from] EmitError),
    /// A verifier found what a pass should not have made: a bug of the compiler.
    #[error("compiler bug after pass `{pass}`:\n{errors}\n{dump}")]
    Bug {
        /// Pass.
        pass: &'static str,
        /// What the verifier said.
        errors: String,
        /// The IR.
        dump: String,
    },
}

fn lines<T: Display>(all: &[T]) -> String {
    all.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

impl CompileError {
    /// Whether a stage lacks something, rather than that the input is wrong or the compiler has a bug.
    fn is_refusal(&self) -> bool {
        match self {
            Self::Isel(_) | Self::Sched(_) | Self::Registers(_) | Self::Emit(_) => true,
            Self::Verify(_) | Self::Mapping(_) | Self::Bug { .. } => false,
        }
    }

    /// Where a refusal has its reason, and in which text: at an instruction of the kernel, or at the word of the mapping
    /// that decides about what is short. `None` for lists of errors, which have their own places, and for bugs.
    pub fn place(&self, mapping: &Mapping) -> Option<(Origin, Loc)> {
        let said = |item, word| Some((Origin::Mapping, mapping.places.of(item, word)));
        let looped = |wish: fn(&LoopMapping) -> bool| {
            mapping.loops.iter().position(|(_, l)| wish(l)).map_or(Item::Kernel, Item::Loop)
        };
        match self {
            Self::Isel(e) => Some((e.origin, e.loc)),
            Self::Sched(SchedError::Word { word, .. }) => said(Item::Kernel, word),
            Self::Sched(SchedError::Cluster { .. }) => said(Item::Kernel, "cluster"),
            Self::Sched(SchedError::Threads { .. }) | Self::Registers(_) => {
                match looped(|l| l.consumers.is_some()) {
                    Item::Kernel => said(Item::Kernel, "warps"),
                    item => said(item, "consumers"),
                }
            }
            Self::Sched(SchedError::SharedMemory { resident: 2.., .. }) => said(Item::Kernel, "resident"),
            Self::Sched(SchedError::SharedMemory { .. }) => {
                said(looped(|l| matches!(l.pipeline, Depth::Stages(_))), "pipeline")
            }
            Self::Sched(_) | Self::Emit(_) => said(Item::Mapping, ""),
            Self::Verify(_) | Self::Mapping(_) | Self::Bug { .. } => None,
        }
    }
}

/// Collects times of passes and shows what they gave.
struct Recorder<'o> {
    options: &'o Options,
    timings: Vec<(&'static str, Duration)>,
}

impl Recorder<'_> {
    fn pass<T, E: Into<CompileError>>(
        &mut self,
        name: &'static str,
        run: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, CompileError> {
        let start = Instant::now();
        let result = run().map_err(Into::into);
        self.timings.push((name, start.elapsed()));
        result
    }

    fn dump(&self, name: &'static str, what: &dyn Display) {
        let wanted = self.options.dump.iter().any(|d| d == name || d == "all");
        if let Some(shown) = self.options.shown.filter(|_| wanted) {
            shown(name, what);
        }
    }

    fn check(
        &self,
        pass: &'static str,
        verified: impl FnOnce() -> Result<(), Vec<MachineError>>,
        what: &dyn Display,
    ) -> Result<(), CompileError> {
        if !self.options.verify {
            return Ok(());
        }
        verified().map_err(|e| CompileError::Bug { pass, errors: lines(&e), dump: what.to_string() })
    }
}

/// Compiles a kernel under a complete mapping.
///
/// # Errors
/// What is wrong with the kernel or impossible in the mapping, with limit and number.
pub fn compile(
    kernel: &Kernel,
    mapping: &Mapping,
    target: &Target,
    options: &Options,
) -> Result<Compiled, CompileError> {
    compile_and(kernel, mapping, target, options, |_, compiled| compiled)
}

/// Compiles, and hands the scheduled program, which does not outlive the compile, to `then`.
///
/// # Errors
/// As [`compile`].
pub(crate) fn compile_and<T>(
    kernel: &Kernel,
    mapping: &Mapping,
    target: &Target,
    options: &Options,
    then: impl FnOnce(&Scheduled<'_>, Compiled) -> T,
) -> Result<T, CompileError> {
    let bump = Bump::new();
    let mut r = Recorder { options, timings: Vec::new() };
    r.pass("verify", || {
        verify(kernel).map_err(CompileError::Verify)?;
        verify_mapping(kernel, mapping).map_err(CompileError::Mapping)
    })?;
    let (scheduled, compiled) = stages_that_yield(kernel, mapping, target, &mut r, &bump)?;
    Ok(then(&scheduled, Compiled { timings: r.timings, ..compiled }))
}

/// Detours through shared memory that nobody asks for.
const SMEM_STAGING: Feature = Feature::Isel(warplift_isel::Feature::SmemStaging);
/// Products of what operands are less by, which nobody asks for.
const ZERO_POINT: Feature = Feature::Isel(warplift_isel::Feature::ZeroPoint);
/// Chains that are cut though nobody says so.
const ELEMENTWISE_SUBTILES: Feature = Feature::Sched(warplift_sched::Feature::ElementwiseSubtiles);
/// What epilogue warps hold for all tiles.
const HOIST_LOADS: Feature = Feature::Sched(warplift_sched::Feature::HoistLoads);
/// Bodies that stand there for each slot, where registers are short.
const UNROLL: Feature = Feature::Sched(warplift_sched::Feature::Unroll);
/// Registers that ptxas is left for what it moves out of such bodies: with 3 it serialised products, with 10 it spilled, with
/// 11 it did neither.
const LEFT_TO_PTXAS: u32 = 11;

/// What is given up of what nobody asked for, in turn, before a kernel is refused: chains matter to registers alone.
fn given_up(e: &CompileError) -> &'static [&'static [Feature]] {
    match e {
        CompileError::Registers(_) => &[
            &[HOIST_LOADS],
            &[ZERO_POINT],
            &[ELEMENTWISE_SUBTILES],
            &[ZERO_POINT, ELEMENTWISE_SUBTILES],
            &[SMEM_STAGING, ELEMENTWISE_SUBTILES],
            &[ZERO_POINT, SMEM_STAGING, ELEMENTWISE_SUBTILES],
        ],
        e if e.is_refusal() => &[&[SMEM_STAGING], &[ZERO_POINT]],
        _ => &[],
    }
}

/// All stages, again without what nobody asked for where that is a reason to refuse the kernel.
fn stages_that_yield<'b>(
    kernel: &Kernel,
    mapping: &Mapping,
    target: &Target,
    r: &mut Recorder<'_>,
    bump: &'b Bump,
) -> Result<(Scheduled<'b>, Compiled), CompileError> {
    let own = &r.options.disable;
    let refused = match stages(kernel, mapping, target, own, r, bump) {
        Ok(made) => return Ok(made),
        Err(e) => e,
    };
    for features in given_up(&refused).iter().filter(|f| f.iter().any(|f| !own.contains(f))) {
        let disable: Vec<Feature> = own.iter().chain(*features).copied().collect();
        match stages(kernel, mapping, target, &disable, r, bump) {
            Ok((scheduled, mut compiled)) => {
                let names: Vec<String> = features.iter().map(ToString::to_string).collect();
                let why =
                    format!("compiled without {}, which are impossible: {refused}", names.join(" and "));
                compiled.explained.schedule.remarks.push(why);
                return Ok((scheduled, compiled));
            }
            Err(again) if again.is_refusal() => {}
            Err(bug) => return Err(bug),
        }
    }
    Err(refused)
}

/// All stages behind the verifier.
fn stages<'b>(
    kernel: &Kernel,
    mapping: &Mapping,
    target: &Target,
    disable: &[Feature],
    r: &mut Recorder<'_>,
    bump: &'b Bump,
) -> Result<(Scheduled<'b>, Compiled), CompileError> {
    let of = of_isel(disable);
    let variants = r.pass("map", || warplift_isel::map::do_map_variants_without(kernel, mapping, &of))?;
    let (mapped, plan) = r.pass("plan", || warplift_isel::select::do_select(&variants, &of))?;
    r.dump("map", &mapped);
    let lints = warplift_isel::mapping_lints::do_mapping_lints(kernel, &mapped, &plan, mapping)?;
    if r.options.verify {
        verify(&mapped).map_err(|e| bug("map", &e, &mapped))?;
    }
    let program = r.pass("lower", || warplift_isel::lower::do_lower(&mapped, &plan, mapping, bump))?;
    r.dump("lower", &program);
    r.check("lower", || verify_structured(&program.func), &program)?;
    let without = of_sched(disable);
    let (program, left) =
        r.pass("epilogue_roles", || warplift_sched::do_epilogue_roles(program, target, &without))?;
    r.dump("epilogue_roles", &program);
    r.check("epilogue_roles", || verify_structured(&program.func), &program)?;
    let (program, not_hoisted) = r.pass("hoist_loads", || {
        Ok::<_, CompileError>(warplift_sched::do_hoist_loads(program, target, &without))
    })?;
    r.dump("hoist_loads", &program);
    r.check("hoist_loads", || verify_structured(&program.func), &program)?;
    let program = r.pass("merge_waits", || Ok::<_, CompileError>(warplift_sched::do_merge_waits(program)))?;
    r.dump("merge_waits", &program);
    r.check("merge_waits", || verify_structured(&program.func), &program)?;
    let program =
        r.pass("dedup_mma", || Ok::<_, CompileError>(warplift_sched::do_dedup_mma(program, &without)))?;
    r.dump("dedup_mma", &program);
    r.check("dedup_mma", || verify_structured(&program.func), &program)?;
    if !disable.contains(&ZERO_POINT) && warplift_sched::is_mma_duplicated(&program) {
        return stages(kernel, mapping, target, &[disable, &[ZERO_POINT]].concat(), r, bump);
    }
    let Overlap { program, loops, remarks } =
        r.pass("modulo", || Ok::<_, CompileError>(warplift_sched::do_modulo(program, target, &without)))?;
    let program =
        r.pass("modulo_expand", || Ok::<_, CompileError>(warplift_sched::do_modulo_expand(program, &loops)))?;
    r.dump("modulo_expand", &program);
    r.check("modulo_expand", || verify_structured(&program.func), &program)?;
    let mut schedule =
        r.pass("schedule", || warplift_sched::do_schedule_without(&program, target, &without))?;
    schedule.remarks.extend(left.into_iter().chain(not_hoisted).chain(remarks));
    schedule.loops = loops;
    let shared = r.pass("smem", || warplift_sched::do_smem(&program, &mut schedule, target))?;
    let mut scheduled = r.pass("expand_roles", || {
        warplift_sched::do_expand_roles(&program, &schedule, shared.clone(), target)
    })?;
    r.dump("expand_roles", &scheduled);
    for role in &scheduled.roles {
        r.check("expand_roles", || verify_scheduled(&role.func), &scheduled)?;
    }
    let allocs = r.pass("allocate", || allocate(&mut scheduled));
    if schedule.loops.iter().any(|l| l.unrolls) && is_tight(&scheduled, allocs.as_ref().ok()) {
        return stages(kernel, mapping, target, &[disable, &[UNROLL]].concat(), r, bump);
    }
    let allocs = allocs?;
    let needed: Vec<u32> = allocs.roles.iter().map(|a| a.pressure).collect();
    let shared_out = r.pass("setmaxnreg", || {
        Ok::<_, CompileError>(warplift_sched::do_setmaxnreg(&mut scheduled, &needed, target))
    });
    if !shared_out? {
        let (scheduled, mut compiled) =
            stages(kernel, mapping, target, &[disable, &[HOIST_LOADS]].concat(), r, bump)?;
        let why = format!("compiled without {HOIST_LOADS}: the roles need {needed:?} registers");
        compiled.explained.schedule.remarks.push(why);
        return Ok((scheduled, compiled));
    }
    let registers = scheduled.roles.iter().zip(&allocs.roles);
    let registers = registers.map(|(r, a)| (r.name.to_owned(), r.registers, a.pressure)).collect();
    let out = r.pass("emit", || warplift_emit::emit(&scheduled, &allocs))?;
    let buffers = program
        .buffers
        .iter()
        .map(|(b, d)| {
            let ring = schedule.rings.values().find(|r| r.buffers.contains(&b));
            let stages = ring.map_or(schedule.slots[b].max(1), |r| r.depth);
            (d.name.clone(), d.bytes, stages, shared.buffers[b])
        })
        .collect();
    let explained = Explained {
        remarks: lints,
        plan: plan.describe(&mapped),
        search: plan.describe_search(&mapped),
        schedule,
        shared,
        buffers,
        hoisted_registers: program.epilogue_role.as_ref().map_or(0, |r| r.hoisted_registers),
        registers,
    };
    let (ptx, manifest) = (out.ptx, out.manifest);
    Ok((scheduled, Compiled { ptx, manifest, explained, timings: Vec::new() }))
}

/// Whether a role has few registers left, or none.
fn is_tight(scheduled: &Scheduled<'_>, allocs: Option<&Allocations>) -> bool {
    let tight = |a: &Allocations| {
        let mut roles = scheduled.roles.iter().zip(&a.roles);
        roles.any(|(r, a)| r.name == "consumer" && a.pressure + LEFT_TO_PTXAS > r.registers)
    };
    allocs.is_none_or(tight)
}

fn bug<E: Display>(pass: &'static str, errors: &[E], dump: &dyn Display) -> CompileError {
    CompileError::Bug { pass, errors: lines(errors), dump: dump.to_string() }
}

impl Display for Explained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (title, lines) in [("plan", &self.plan), ("search", &self.search)] {
            if !lines.is_empty() {
                writeln!(f, "{title}\n  {}", lines.join("\n  "))?;
            }
        }
        if !self.schedule.rings.is_empty() {
            writeln!(f, "rings")?;
        }
        for (r, d) in self.schedule.rings.iter() {
            let release = match d.fill {
                RingFill::Tma => format!("barriers at {}", self.shared.barriers[r]),
                RingFill::CpAsync => "copies of the threads".to_owned(),
                RingFill::Handoff | RingFill::Helper => {
                    format!("handed on, barriers at {}", self.shared.barriers[r])
                }
            };
            let names: Vec<&str> = d.buffers.iter().map(|b| self.buffers[b.index()].0.as_str()).collect();
            writeln!(
                f,
                "  {r}: {} depth {} ({} bytes a stage), {release}",
                names.join(", "),
                d.depth,
                d.bytes
            )?;
        }
        writeln!(f, "shared memory: {} bytes", self.shared.bytes)?;
        for (name, bytes, stages, at) in self.buffers.iter().filter(|b| b.1 > 0) {
            writeln!(f, "  {at:>7} {name}: {stages} x {bytes}")?;
        }
        if let Some(d) = &self.schedule.deferral {
            let parts = plural(d.parts.len() as u64, "part");
            writeln!(f, "deferred: {parts} under the first iterations of the next tile's main loop")?;
        }
        for l in &self.schedule.loops {
            write!(f, "{}", Chart(l))?;
        }
        for remark in &self.remarks {
            writeln!(f, "remark: {remark}")?;
        }
        for remark in &self.schedule.remarks {
            writeln!(f, "remark: {remark}")?;
        }
        if self.hoisted_registers > 0 {
            writeln!(
                f,
                "hoisted loads: {} registers of each thread of the epilogue role",
                self.hoisted_registers
            )?;
        }
        writeln!(f, "registers")?;
        for (role, budget, used) in &self.registers {
            writeln!(f, "  {role}: {used} of {budget}")?;
        }
        Ok(())
    }
}
