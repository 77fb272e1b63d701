//! `plan`: the side table between map and lower.
//!
//! ```text
//!  products ─► anchors (wgmma fragments, shared operands)      tensor.rs
//!              or those of warps (mma.sync)                    mma_sync.rs
//!  loads, stores ─► anchors where no product reaches            blocked.rs
//!  anchors ─► layouts of everything around them                 constraint.rs, solve.rs, follow.rs
//!  two anchors disagree ─► a conversion between two versions    convert.rs, or the tile made again: again.rs
//!  several ways ─► the plan that costs the least                choices.rs, cost.rs, search.rs
//! ```
//!
//! A tile may have two versions, one in registers and one in shared memory; each use takes one.
//! Layout propagation: Linear Layouts, section 4.4; anchors: Hexcute, section 4.

mod again;
mod blocked;
mod choices;
mod coalesce;
mod constraint;
mod convert;
mod cost;
mod follow;
pub(crate) mod mma_sync;
mod order;
mod search;
mod solve;
mod staged;
mod tensor;
#[cfg(test)]
mod tests;

use crate::feature::{Feature, Ways};
use crate::{IselError, Result};
use rustc_hash::FxHashMap;
use warplift_ir::entity::SecondaryMap;
use warplift_ir::layout::{Axis, Layout, LayoutError};
use warplift_ir::machine::SharedOperand;
use warplift_ir::tile::{Inst, Kernel, Op, Team, Type, Value};

use cost::Model;
use solve::Solver;

pub use again::Remade;
pub use blocked::{blocked, vector_elements};
pub use choices::{Choices, Point, Way};
pub use convert::{cell_bits, choose};
pub use cost::{Cost, Touched, touched};
pub use follow::slice_layout;
pub use mma_sync::WarpProduct;
pub use search::{Found, Outcome, Tried};
pub(crate) use staged::array;
pub use staged::{Staged, StagedFill};
pub use tensor::unit_dim;

/// How a tile comes to shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// Tensor copies, one for each slab of a swizzle span.
    Tma,
    /// Asynchronous copies of so many bytes by all threads.
    CpAsync(u32),
    /// Plain loads by all threads, then stores to shared memory.
    Threads,
}

/// The shared-memory version of a loaded tile.
#[derive(Clone, Debug)]
pub struct SharedTile {
    /// `(outer, inner)` coordinates to elements; inner is the contiguous dimension.
    pub layout: Layout,
    /// Extents `[outer, inner]`.
    pub extents: [u32; 2],
    /// Which dimension of the tile is contiguous in memory.
    pub inner_dim: usize,
    /// Swizzle span in bytes; 0: none, core matrices one below the other.
    pub swizzle: u32,
    /// Elements of a slab along the inner dimension.
    pub slab: u32,
    /// Bytes of a slab's row.
    pub row_bytes: u32,
    /// How it is filled.
    pub fill: Fill,
    /// Why tensor copies were declined.
    pub declined: Option<String>,
}

impl SharedTile {
    /// Bytes after which the swizzle repeats: offsets inside combine by exclusive or, multiples of it are added.
    pub fn period(&self) -> u32 {
        if self.swizzle == 0 { 1 } else { 8 * self.swizzle }
    }

    /// A register layout of the tile as places in its memory.
    ///
    /// # Errors
    /// A layout of another tile.
    pub fn from_register_layout(&self, layout: &Layout) -> std::result::Result<Layout, LayoutError> {
        let renamed = layout.renamed(|a| match a {
            Axis::Dim(d) => Axis::Dim(u8::from(usize::from(d) == self.inner_dim)),
            other => other,
        })?;
        renamed.with_outs(&[Axis::Dim(0), Axis::Dim(1)])?.then(&self.layout)
    }
}

/// What a warp holds of an accumulator, as stripes of 16 rows and a swizzle span of columns.
#[derive(Clone, Debug)]
pub struct Stripes {
    /// `(row, column)` of one stripe to elements.
    pub layout: Layout,
    /// Swizzle span in bytes; 0: none.
    pub swizzle: u32,
    /// Bytes of a row.
    pub row_bytes: u32,
    /// Columns of a stripe.
    pub columns: u32,
    /// Stripes one below the other.
    pub atoms: u32,
    /// Rows from one to the next.
    pub step: u32,
    /// Stripes side by side.
    pub slabs: u32,
    /// Whether rows are contiguous in memory instead of columns: the layout takes `(column, row)` then.
    pub transposed: bool,
}

/// How a tile leaves.
#[derive(Clone, Debug)]
pub enum StorePlan {
    /// Through a staging buffer and tensor copies, each warp its own rows and columns.
    Bulk(Box<Stripes>),
    /// Predicated stores of so many elements.
    Plain {
        /// Elements of one store.
        vector: u32,
        /// Why tensor copies were declined.
        declined: Option<String>,
    },
}

impl StorePlan {
    /// Bytes of the staging buffer for so many warps, if there is one.
    fn staging(&self, warps: u32) -> Option<u32> {
        let Self::Bulk(s) = self else { return None };
        let rows = if s.transposed { s.columns } else { tensor::STRIPE as u32 };
        Some(warps * s.atoms * s.slabs * rows * s.row_bytes)
    }
}

/// A product on tensor cores.
#[derive(Clone, Debug)]
pub struct Product {
    /// Load that holds A, if it comes from shared memory.
    pub a: Option<(Inst, SharedOperand)>,
    /// Load that holds B.
    pub b: (Inst, SharedOperand),
    /// Columns of one instruction.
    pub n: u32,
    /// Instructions along N.
    pub n_atoms: u32,
    /// Instructions along M for one warpgroup.
    pub m_atoms: u32,
    /// Instructions along K.
    pub k_steps: u32,
}

/// The side table.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Register version of tiles.
    pub layouts: SecondaryMap<Value, Option<Layout>>,
    /// Uses, by operand number, that see a tile in another layout than its own.
    pub uses: FxHashMap<(Inst, usize), Layout>,
    /// Uses whose tile is made again in their layout: what is, operands first. All other ones are converted.
    pub again: FxHashMap<(Inst, usize), Vec<Remade>>,
    /// Results that are made in another layout than that in which they are used.
    pub made: FxHashMap<Value, Layout>,
    /// Shared version of loaded tiles.
    pub shared: FxHashMap<Inst, SharedTile>,
    /// Loads that come to registers by way of a ring in shared memory.
    pub staged: FxHashMap<Inst, Staged>,
    /// Stores.
    pub stores: FxHashMap<Inst, StorePlan>,
    /// Products of warpgroups.
    pub products: FxHashMap<Inst, Product>,
    /// Products of warps.
    pub warp_products: FxHashMap<Inst, WarpProduct>,
    /// What conversions and shared memory may use.
    pub ways: Ways,
    /// Where the plan could have gone other ways.
    pub choices: Choices,
    /// What the search found.
    pub found: Option<Found>,
}

impl Plan {
    /// The register layout of a tile.
    ///
    /// # Errors
    /// If it has none: nothing that uses it could give it one.
    pub fn layout(&self, k: &Kernel, value: Value) -> Result<&Layout> {
        self.layouts[value].as_ref().ok_or_else(|| match k.def(value) {
            Some(inst) => IselError::at(k, inst, "no layout found for this tile in registers"),
            None => IselError::whole(format!("no layout found for tile {value}")),
        })
    }
}

/// Chooses a version of every tile and an instruction for every access.
///
/// # Errors
/// What no instruction yet selected can do; the message names it.
pub fn do_plan(k: &Kernel) -> Result<Plan> {
    do_plan_without(k, &[])
}

/// The same without some features.
///
/// # Errors
/// As [`do_plan`].
pub fn do_plan_without(k: &Kernel, disabled: &[Feature]) -> Result<Plan> {
    let order = program_order(k);
    let ways = Ways::without(disabled);
    let maker =
        Maker { k, order: &order, solver: Solver::new(k, &order), model: Model::new(k, &order, ways), ways };
    match disabled.contains(&Feature::Synthesis) {
        true => maker.make(Choices::default()).1.map(|p| p.0),
        false => search::do_search(&maker),
    }
}

/// Makes plans of one kernel.
struct Maker<'k> {
    k: &'k Kernel,
    order: &'k [Inst],
    solver: Solver<'k>,
    model: Model<'k>,
    ways: Ways,
}

impl Maker<'_> {
    /// The plan that some choices lead to and what it costs, and the choices that there were.
    fn make(&self, choices: Choices) -> (Choices, Result<(Plan, Cost)>) {
        let mut plan = Plan { ways: self.ways, choices, ..Plan::default() };
        let cost = self.fill(&mut plan).and_then(|()| self.model.cost(&plan));
        (plan.choices.clone(), cost.map(|c| (plan, c)))
    }

    fn fill(&self, plan: &mut Plan) -> Result<()> {
        let (k, order) = (self.k, self.order);
        for &inst in order.iter().filter(|&&i| matches!(k.insts[i].op, Op::Mma)) {
            match k.attrs[inst].team {
                Team::Warps(_) => mma_sync::plan_product(k, inst, &self.model, plan)?,
                _ => tensor::plan_product(k, inst, &self.model, plan)?,
            }
        }
        pin(k, order, plan)?;
        let known: Vec<Value> = k.values.keys().filter(|&v| plan.layouts[v].is_some()).collect();
        self.solver.spread(known, plan)?;
        // Loads first: what memory gives in wide accesses decides the layout of what is made of it.
        let (mut loads, others): (Vec<Inst>, Vec<Inst>) =
            order.iter().partition(|&&i| matches!(k.insts[i].op, Op::Load));
        let size = |i: &Inst| extents(k, k.result(*i)).iter().map(|&e| u64::from(e)).product::<u64>();
        loads.sort_by_key(|i| std::cmp::Reverse(size(i)));
        for inst in loads.into_iter().chain(others) {
            blocked::anchor(k, inst, self, plan)?;
        }
        for &inst in order {
            if let Some(staged) = staged::plan_load(k, inst, plan)? {
                plan.staged.insert(inst, staged);
            }
        }
        for &inst in order {
            if matches!(k.insts[inst].op, Op::Store) {
                let store = tensor::plan_store(k, inst, plan)?;
                plan.stores.insert(inst, store);
            }
            coalesce::do_coalesce(k, inst, &self.model, plan)?;
        }
        again::do_again(self, plan)
    }
}

/// Tiles whose layout the mapping says.
fn pin(k: &Kernel, order: &[Inst], plan: &mut Plan) -> Result<()> {
    for &inst in order {
        let Some(layout) = &k.attrs[inst].layout else { continue };
        let tile = k.result(inst);
        if let Some(why) = not_held(layout, &extents(k, tile), warps(k, inst)) {
            return Err(IselError::at(k, inst, format!("the mapping's layout `{layout}`: {why}")));
        }
        if plan.layouts[tile].as_ref().is_some_and(|own| own != layout) {
            return Err(IselError::at(k, inst, "a product decides the layout of this tile".to_owned()));
        }
        plan.layouts[tile] = Some(layout.clone());
    }
    Ok(())
}

/// Why the threads of so many warps do not hold a tile in a layout.
fn not_held(layout: &Layout, shape: &[u32], warps: u32) -> Option<String> {
    let dims = shape.iter().enumerate().map(|(d, &e)| (Axis::Dim(d as u8), u64::from(e)));
    if !layout.outs().iter().copied().eq(dims) {
        return Some(format!("the tile is {shape:?}"));
    }
    let threads = [Axis::Warp, Axis::Warpgroup].map(|a| layout.in_extent(a)).iter().product::<u64>();
    if layout.in_extent(Axis::Lane) != 32 || threads != u64::from(warps) {
        return Some(format!("the block has {warps} warps of 32 lanes"));
    }
    let ins = [Axis::Reg, Axis::Lane, Axis::Warp, Axis::Warpgroup];
    if layout.ins().iter().any(|a| !ins.contains(&a.0)) {
        return Some("threads are named by reg, lane, warp and warpgroup".to_owned());
    }
    let held = layout.image_size();
    let all: u64 = shape.iter().map(|&e| u64::from(e)).product();
    (held != all).then(|| format!("{held} of {all} elements are held"))
}

fn program_order(k: &Kernel) -> Vec<Inst> {
    let mut order = Vec::new();
    k.walk(|_, inst| order.push(inst));
    order
}

/// Warps and warpgroups of the block.
pub(crate) fn warps(k: &Kernel, inst: Inst) -> u32 {
    k.attrs[inst].team.warps()
}

/// Extents of a tile.
pub(crate) fn extents(k: &Kernel, value: Value) -> Vec<u32> {
    match k.ty(value) {
        Type::Tile(_, s) => s.extents().map_or_else(Vec::new, |e| e.to_vec()),
        _ => Vec::new(),
    }
}

/// Translates a layout's refusal.
pub(crate) fn layout_error<E: std::fmt::Display>(k: &Kernel, inst: Inst) -> impl Fn(E) -> IselError + '_ {
    move |e| IselError::at(k, inst, format!("layout: {e}"))
}

impl Plan {
    /// What was decided, a line each, for `explain`.
    pub fn describe(&self, k: &Kernel) -> Vec<String> {
        let mut lines = Vec::new();
        for inst in program_order(k) {
            let at = k.insts[inst].loc;
            lines.extend(self.describe_conversions(k, inst));
            if let Some(t) = self.shared.get(&inst) {
                let why = t.declined.as_ref().map_or(String::new(), |d| format!(" (no tensor copy: {d})"));
                lines.push(format!(
                    "{}:{} load: shared, {} x {} swizzle {} by {:?}{why}",
                    at.line, at.column, t.extents[0], t.extents[1], t.swizzle, t.fill
                ));
            }
            if let Some(s) = self.staged.get(&inst) {
                lines.push(format!("{}:{} load: {}", at.line, at.column, s.describe()));
            }
            if let Some(p) = self.products.get(&inst) {
                lines.push(format!(
                    "{}:{} mma: m64n{}k16, {} x {} atoms, {} steps, A in {}",
                    at.line,
                    at.column,
                    p.n,
                    p.m_atoms,
                    p.n_atoms,
                    p.k_steps,
                    if p.a.is_some() { "shared memory" } else { "registers" }
                ));
            }
            if let Some(p) = self.warp_products.get(&inst) {
                let source = if p.a.is_some() { "shared memory" } else { "registers" };
                let [rows, cols] = p.warps;
                lines.push(format!(
                    "{}:{} mma: m16n8k16, {rows} x {cols} warps of {} x {} atoms, {} steps, A in {source}",
                    at.line, at.column, p.m_atoms, p.n_atoms, p.k_steps,
                ));
            }
            lines.extend(self.stores.get(&inst).map(|s| match s {
                StorePlan::Bulk(s) => {
                    format!("{}:{} store: staged, tensor copy, swizzle {}", at.line, at.column, s.swizzle)
                }
                StorePlan::Plain { vector, declined } => {
                    let why = declined.as_ref().map_or(String::new(), |d| format!(" (no tensor copy: {d})"));
                    format!("{}:{} store: plain, {vector} elements{why}", at.line, at.column)
                }
            }));
        }
        lines.extend(self.found.iter().flat_map(|f| f.describe(k)));
        lines
    }
}
