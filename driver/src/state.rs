//! The state between two passes. It holds everything that later passes need.
//!
//! ```text
//!  kernel, mapping, target ─ tile ─► variants ─ plan ─► one variant, its plan ─ machine ─► program, loops
//!      ─ schedule ─► schedule, shared memory ─ role ─► roles, registers, PTX
//! ```
//!
//! A pass changes the state. If a pass does not find its input, the pass table has a bug, and the accessors panic.

mod text;

pub use text::StateError;
pub(crate) use text::read;

use crate::features::{Feature, of_isel, of_sched};
use text::Text;
use warplift_emit::{Allocations, Output};
use warplift_ir::machine::{Func, LoopSchedule, Program, Schedule, Scheduled, SharedMap};
use warplift_ir::target::Target;
use warplift_ir::tile::{Epilogue, Kernel, Mapping, Remark};
use warplift_ir::{Bump, Deadline};
use warplift_isel::map::Variant;
use warplift_isel::plan::Plan;
use warplift_sched::{Feature as Sched, Graph};

/// The state between two passes.
pub struct State<'a> {
    /// The chip.
    pub target: &'a Target,
    /// The arena of machine IR.
    pub bump: &'a Bump,
    /// The time at which searches stop. It is not part of the text.
    pub deadline: Deadline,
    /// Whether roles may need more registers than they have. It is not part of the text.
    pub unbounded_registers: bool,
    /// The features that this attempt turns off.
    pub disable: Vec<Feature>,
    /// The kernel before the first pass.
    pub written: Kernel,
    /// The mapping.
    pub mapping: Mapping,
    /// The kernel under its mapping, in every variant that is still possible. After `plan` there is one.
    pub variants: Vec<Variant>,
    /// Layouts and instructions.
    pub plan: Option<Plan>,
    /// Words of the mapping that have no effect.
    pub lints: Vec<Remark>,
    /// Structured machine IR.
    pub program: Option<Program<'a>>,
    /// Its dependence graph. It is not part of the text, because it follows from the program.
    pub graph: Option<Graph>,
    /// Modulo schedules of the program's loops.
    pub loops: Vec<LoopSchedule>,
    /// Declined optimizations with their reasons, for `explain`.
    pub remarks: Vec<String>,
    /// Roles, rings, depths.
    pub schedule: Option<Schedule>,
    /// Addresses in shared memory.
    pub smem: SharedMap,
    /// The roles.
    pub scheduled: Option<Scheduled<'a>>,
    /// Their registers.
    pub allocations: Option<Allocations>,
    /// PTX and manifest.
    pub output: Option<Output>,
}

/// The mapping of an attempt. Results that are not held for a tile are computed and stored chunk by chunk, as if nothing had
/// asked to hold them.
fn without_features(mapping: &Mapping, off: &[Feature]) -> Mapping {
    let mut mapping = mapping.clone();
    if mapping.whole.epilogue == Epilogue::Deferred && off.contains(&Feature::Sched(Sched::Deferral)) {
        mapping.whole.epilogue = Epilogue::Direct;
    }
    mapping
}

impl<'a> State<'a> {
    /// Before the first pass.
    pub fn new(
        kernel: &Kernel,
        mapping: &Mapping,
        target: &'a Target,
        disable: Vec<Feature>,
        bump: &'a Bump,
    ) -> Self {
        Self {
            target,
            bump,
            deadline: Deadline::default(),
            unbounded_registers: false,
            written: kernel.clone(),
            mapping: without_features(mapping, &disable),
            disable,
            variants: vec![Variant::new(kernel.clone())],
            plan: None,
            lints: Vec::new(),
            program: None,
            graph: None,
            loops: Vec::new(),
            remarks: Vec::new(),
            schedule: None,
            smem: SharedMap::default(),
            scheduled: None,
            allocations: None,
            output: None,
        }
    }

    /// Features of selection that this attempt turns off.
    pub(crate) fn isel_off(&self) -> Vec<warplift_isel::Feature> {
        of_isel(&self.disable)
    }

    /// Features of scheduling that this attempt turns off.
    pub(crate) fn sched_off(&self) -> Vec<warplift_sched::Feature> {
        of_sched(&self.disable)
    }

    /// The mapped kernel: the first of its variants.
    pub fn kernel(&self) -> &Kernel {
        &self.variants.first().expect("a kernel has a variant").kernel
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        self.plan.as_ref().expect("`plan` has run")
    }

    /// The structured program.
    pub fn program(&self) -> &Program<'a> {
        self.program.as_ref().expect("`lower` has run")
    }

    /// The program's dependence graph.
    pub(crate) fn graph(&self) -> &Graph {
        self.graph.as_ref().expect("`lower` has run")
    }

    /// The structured program and its graph, for a pass that rewrites the one and keeps the other true.
    pub(crate) fn take_program(&mut self) -> (Program<'a>, Graph) {
        self.program.take().zip(self.graph.take()).expect("`lower` has run")
    }

    /// Gives back a program that a pass has rewritten, with its graph.
    pub(crate) fn keep(&mut self, program: Program<'a>, graph: Graph) {
        (self.program, self.graph) = (Some(program), Some(graph));
    }

    /// The schedule.
    pub fn schedule(&self) -> &Schedule {
        self.schedule.as_ref().expect("`schedule` has run")
    }

    /// The schedule, for a pass that changes it.
    pub(crate) fn take_schedule(&mut self) -> Schedule {
        self.schedule.take().expect("`schedule` has run")
    }

    /// The roles.
    pub fn scheduled(&self) -> &Scheduled<'a> {
        self.scheduled.as_ref().expect("`expand_roles` has run")
    }

    /// The roles, for a pass that rewrites them.
    pub(crate) fn scheduled_mut(&mut self) -> &mut Scheduled<'a> {
        self.scheduled.as_mut().expect("`expand_roles` has run")
    }

    /// Runs a pass over the code of every role.
    pub(crate) fn each_role(&mut self, pass: impl Fn(&mut Func<'a>)) {
        self.scheduled_mut().roles.iter_mut().for_each(|r| pass(&mut r.func));
    }

    /// The roles' registers.
    pub fn allocations(&self) -> &Allocations {
        self.allocations.as_ref().expect("`allocate` has run")
    }

    /// PTX and manifest.
    pub fn output(&self) -> &Output {
        self.output.as_ref().expect("`emit` has run")
    }
}

impl State<'_> {
    /// The state after a pass as text for [`crate::Context::resume`].
    pub fn text(&self, pass: &str) -> String {
        Text { state: self, pass }.to_string()
    }
}
