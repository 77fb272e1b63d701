//! The passes, with one table for each level. Only these tables name the functions of a stage.
//!
//! Everything about passes follows from them: the loop that runs them, `--dump`, `--timings`, `--disable`, `--verify`,
//! `--stop-after`, `--start-after`, and the list in `docs/architecture/passes.md`.

use crate::allocation;
use crate::error::{CompileError, lines};
use crate::features::{Feature, of_isel};
use crate::state::State;
use warplift_ir::machine::verify_structured;
use warplift_ir::tile;
use warplift_isel::Feature as Isel;
use warplift_isel::map::{self, MapContext, MapPass, Variant};
use warplift_isel::{lower, mapping_lints, select};
use warplift_sched::{self as sched, Feature as Sched, Graph, Overlap};

/// The result of a pass.
pub(crate) type Done = Result<(), CompileError>;

/// The function of a pass.
#[derive(Clone, Copy)]
pub(crate) enum Run {
    /// From state to state.
    State(fn(&mut State<'_>) -> Done),
    /// Over the variants of the kernel.
    Map(fn(&mut Vec<Variant>, &MapContext<'_>) -> warplift_isel::Result<()>),
}

/// A pass.
#[derive(Clone, Copy)]
pub struct Pass {
    /// Its name.
    pub name: &'static str,
    /// What it does, in a line.
    pub does: &'static str,
    pub(crate) run: Run,
    /// The feature that turns it off; `None`: it always runs.
    pub feature: Option<Feature>,
    /// Features of selection that turn off parts of it.
    isel: &'static [Isel],
    /// Features of scheduling that turn off parts of it.
    sched: &'static [Sched],
}

/// The passes between two forms of a kernel.
pub struct Level {
    /// Its name.
    pub name: &'static str,
    /// Its passes, in order.
    pub passes: &'static [Pass],
    /// The verifier after each pass.
    pub(crate) verify: fn(&State<'_>) -> Result<(), String>,
    /// The level's IR.
    pub print: fn(&State<'_>) -> String,
}

const fn pass(name: &'static str, does: &'static str, run: fn(&mut State<'_>) -> Done) -> Pass {
    Pass { name, does, run: Run::State(run), feature: None, isel: &[], sched: &[] }
}

impl Pass {
    const fn of_map(p: &MapPass) -> Self {
        Self { name: p.name, does: p.does, run: Run::Map(p.run), feature: None, isel: p.parts, sched: &[] }
    }

    const fn when(self, feature: Sched) -> Self {
        Self { feature: Some(Feature::Sched(feature)), ..self }
    }

    const fn isel(self, isel: &'static [Isel]) -> Self {
        Self { isel, ..self }
    }

    const fn sched(self, sched: &'static [Sched]) -> Self {
        Self { sched, ..self }
    }

    /// Runs it.
    pub(crate) fn run(&self, s: &mut State<'_>) -> Done {
        match self.run {
            Run::State(run) => run(s),
            Run::Map(run) => {
                let off = of_isel(&s.disable);
                Ok(run(&mut s.variants, &MapContext::new(&s.mapping, s.target, &off))?)
            }
        }
    }

    /// Features that turn off the pass or parts of it.
    pub fn features(&self) -> impl Iterator<Item = Feature> {
        let (isel, sched) = (self.isel.iter(), self.sched.iter());
        let parts = isel.map(|&f| Feature::Isel(f)).chain(sched.map(|&f| Feature::Sched(f)));
        self.feature.into_iter().chain(parts)
    }
}

/// Tile IR: the kernel under its mapping, still sequential.
const TILE: [Pass; 1 + map::PASSES.len()] = {
    let mut all =
        [pass("verify", "refuses what is wrong with the kernel or impossible in the mapping", |s| {
            tile::verify(&s.written).map_err(CompileError::Verify)?;
            tile::verify_mapping(&s.written, &s.mapping, s.target).map_err(CompileError::Mapping)
        }); 1 + map::PASSES.len()];
    let mut n = 0;
    while n < map::PASSES.len() {
        all[n + 1] = Pass::of_map(&map::PASSES[n]);
        n += 1;
    }
    all
};

/// The side table: layouts and instructions.
const PLAN: &[Pass] = &[
    pass(
        "plan",
        "a layout for every tile, an instruction for every access; the cheapest variant stays",
        |s| {
            let (variant, plan) =
                select::do_select(std::mem::take(&mut s.variants), s.target, &s.isel_off(), s.deadline)?;
            (s.variants, s.plan) = (vec![variant], Some(plan));
            Ok(())
        },
    )
    .isel(&[
        Isel::Synthesis,
        Isel::Swizzle,
        Isel::Shuffles,
        Isel::SmemStaging,
        Isel::PartialSums,
        Isel::RaggedCopies,
    ]),
    pass("mapping_lints", "words of the mapping that have no effect", |s| {
        s.lints = mapping_lints::do_mapping_lints(&s.written, s.kernel(), s.plan(), &s.mapping)?;
        Ok(())
    }),
];

/// Structured machine IR: one program for the block.
const MACHINE: &[Pass] = &[
    pass("lower", "tile operations become instructions over registers and fragments", |s| {
        let mut program = lower::do_lower(s.kernel(), s.plan(), &s.mapping, s.target, s.bump)?;
        let graph = Graph::of(&mut program.func);
        s.keep(program, graph);
        Ok(())
    })
    .isel(&[Isel::ZeroPoint, Isel::Quotients, Isel::Halfwords]),
    pass("epilogue_roles", "the end of a tile's work goes to warps of its own", |s| {
        let (program, mut graph) = s.take_program();
        let (program, remarks) = sched::do_epilogue_roles(program, &mut graph, s.target, &s.sched_off())?;
        s.keep(program, graph);
        s.remarks.extend(remarks);
        Ok(())
    })
    .when(Sched::WarpSpecialization),
    pass("hoist_loads", "loads that do not depend on the tile are hoisted and kept in registers", |s| {
        let (program, mut graph) = s.take_program();
        let (program, remarks) = sched::do_hoist_loads(program, &mut graph, s.target, &s.sched_off());
        s.keep(program, graph);
        s.remarks.extend(remarks);
        Ok(())
    })
    .when(Sched::HoistLoads),
    pass("merge_waits", "loads that are awaited one behind the other share a ring", |s| {
        let (program, mut graph) = s.take_program();
        let program = sched::do_merge_waits(program, &mut graph, s.target, &s.sched_off())?;
        s.keep(program, graph);
        Ok(())
    }),
    pass("dedup_mma", "a product that is identical in every warp is computed by one helper warp", |s| {
        let (program, mut graph) = s.take_program();
        let program = sched::do_dedup_mma(program, &mut graph, &s.sched_off());
        let left = sched::is_mma_duplicated(&program, &graph);
        s.keep(program, graph);
        match left {
            true => Err(CompileError::Declined {
                feature: Feature::Isel(Isel::ZeroPoint),
                why: "every warp would compute the product of the zero points".to_owned(),
            }),
            false => Ok(()),
        }
    }),
    pass("share_rings", "loops that run one behind the other fill the same ring", |s| {
        let (program, mut graph) = s.take_program();
        let program = sched::do_share_rings(program, &mut graph, &s.sched_off());
        s.keep(program, graph);
        Ok(())
    })
    .when(Sched::SharedRings),
    pass("operand_rings", "operands that threads compute in a loop get a ring", |s| {
        let (program, mut graph) = s.take_program();
        let program = sched::do_operand_rings(program, &mut graph, s.target, &s.sched_off());
        s.keep(program, graph);
        Ok(())
    })
    .when(Sched::OperandRings),
    pass("share_scratch", "buffers that are not in use at the same time share their bytes", |s| {
        let (program, mut graph) = s.take_program();
        let program = sched::do_share_scratch(program, &mut graph, s.target);
        s.keep(program, graph);
        Ok(())
    }),
];

/// Structured machine IR, with the schedule beside it.
const SCHEDULE: &[Pass] = &[
    pass("modulo", "iterations of a loop overlap: times by iterative modulo scheduling", |s| {
        let (program, mut graph) = s.take_program();
        let made = sched::do_modulo(program, &mut graph, s.target, &s.sched_off(), s.deadline)?;
        if let Some(why) = sched::declines_operand_rings(&made, &graph) {
            return Err(CompileError::Declined { feature: Feature::Sched(Sched::OperandRings), why });
        }
        let Overlap { program, loops, remarks } = made;
        s.keep(program, graph);
        s.loops = loops;
        s.remarks.extend(remarks);
        Ok(())
    })
    .sched(&[
        Sched::Modulo,
        Sched::MmaOrder,
        Sched::Pins,
        Sched::ElementwiseSubtiles,
        Sched::TightOverlap,
        Sched::Unroll,
    ]),
    pass("modulo_expand", "prologue, kernel and epilogue of overlapped loops", |s| {
        let (program, mut graph) = s.take_program();
        let program = sched::do_modulo_expand(program, &mut graph, &s.loops)?;
        s.keep(program, graph);
        Ok(())
    }),
    pass("bounds_masks", "masks of accesses at the edges of arrays are decided once for a tile", |s| {
        let (program, mut graph) = s.take_program();
        let program = sched::do_bounds_masks(program, &mut graph, s.target, &s.sched_off())?;
        s.keep(program, graph);
        Ok(())
    })
    .when(Sched::BoundsMasks),
    pass("schedule", "roles, rings and waits", |s| {
        let off = s.sched_off();
        let mut schedule = sched::do_schedule_without(s.program(), s.graph(), s.target, &off)?;
        let declined = || sched::declines_deferral(s.program(), s.graph(), s.target, &off);
        // Results that are not held are computed and stored chunk by chunk.
        if let Some(why) = schedule.deferral.is_none().then(declined).flatten() {
            return Err(CompileError::Declined { feature: Feature::Sched(Sched::Deferral), why });
        }
        schedule.remarks.append(&mut s.remarks);
        schedule.loops.clone_from(&s.loops);
        s.schedule = Some(schedule);
        Ok(())
    })
    .sched(&[
        Sched::WarpSpecialization,
        Sched::Multicast,
        Sched::Deferral,
        Sched::InFlight,
        Sched::BesideProducts,
        Sched::MmaOrder,
    ]),
    pass(
        "broadcast_tile_info",
        "scalars of a tile from memory: the producer finds them for all roles",
        |s| {
            let mut schedule = s.take_schedule();
            let (mut program, graph) = s.take_program();
            sched::do_broadcast_tile_info(&mut program, &graph, &mut schedule);
            s.keep(program, graph);
            s.schedule = Some(schedule);
            Ok(())
        },
    )
    .when(Sched::BroadcastTileInfo),
    pass("tell_producer", "scalars that threads find together: the consumers tell the producer", |s| {
        let mut schedule = s.take_schedule();
        let (mut program, graph) = s.take_program();
        sched::do_tell_producer(&mut program, &mut schedule);
        s.keep(program, graph);
        s.schedule = Some(schedule);
        Ok(())
    }),
    pass("smem", "depths of rings, and where buffers and barriers lie", |s| {
        let mut schedule = s.take_schedule();
        s.smem = sched::do_smem(s.program(), &mut schedule, s.target)?;
        s.schedule = Some(schedule);
        Ok(())
    }),
];

/// A control-flow graph for each role.
const ROLE: &[Pass] = &[
    pass("expand_roles", "slots, phases, barriers, descriptors and addresses, role by role", |s| {
        let roles = sched::do_expand_roles(s.program(), s.graph(), s.schedule(), s.smem.clone(), s.target)?;
        s.scheduled = Some(roles);
        Ok(())
    }),
    pass("value_numbering", "equal scalars are computed once", |s| {
        s.each_role(sched::do_value_numbering);
        Ok(())
    }),
    pass("dead_code", "what nothing reads goes", |s| {
        s.each_role(sched::do_dead_code);
        Ok(())
    }),
    pass("allocate", "fragments by a planner, scalars by regalloc2", allocation::do_allocate),
    pass("setmaxnreg", "roles give up the registers that others need", allocation::do_setmaxnreg),
    pass("emit", "PTX and manifest", |s| {
        s.output = Some(warplift_emit::emit(s.scheduled(), s.allocations(), s.target)?);
        Ok(())
    }),
];

/// The levels, in order.
pub const LEVELS: &[Level] = &[
    Level {
        name: "tile",
        passes: &TILE,
        verify: |s| s.variants.iter().try_for_each(|v| kernel_verified(&v.kernel)),
        print: |s| s.variants.iter().map(|v| v.kernel.to_string()).collect(),
    },
    Level {
        name: "plan",
        passes: PLAN,
        verify: |s| kernel_verified(s.kernel()),
        print: |s| lines(&s.plan().describe(s.kernel())),
    },
    Level { name: "machine", passes: MACHINE, verify: program_verified, print: |s| s.program().to_string() },
    Level {
        name: "schedule",
        passes: SCHEDULE,
        verify: program_verified,
        print: |s| s.program().to_string(),
    },
    Level { name: "role", passes: ROLE, verify: allocation::verified, print: |s| s.scheduled().to_string() },
];

fn kernel_verified(kernel: &tile::Kernel) -> Result<(), String> {
    tile::verify(kernel).map_err(|e| lines(&e))
}

fn program_verified(s: &State<'_>) -> Result<(), String> {
    verify_structured(&s.program().func).map_err(|e| lines(&e))?;
    s.graph().verify(&s.program().func)
}

/// All passes with their levels, in order.
pub fn all() -> impl Iterator<Item = (&'static Level, &'static Pass)> {
    LEVELS.iter().flat_map(|l| l.passes.iter().map(move |p| (l, p)))
}

/// The number of a pass among all.
///
/// # Errors
/// No pass has this name: the nearest one is named.
pub fn find(name: &str) -> Result<usize, UnknownPass> {
    all().position(|(_, p)| p.name == name).ok_or_else(|| UnknownPass { name: name.to_owned() })
}

/// An unknown name of a pass.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no pass `{name}`: there are {}", names().join(", "))]
pub struct UnknownPass {
    /// The name.
    pub name: String,
}

/// The names of all passes, in order.
pub fn names() -> Vec<&'static str> {
    all().map(|(_, p)| p.name).collect()
}
