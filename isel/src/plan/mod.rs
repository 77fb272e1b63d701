//! `plan`: the side table between map and lower.
//!
//! ```text
//!  products ─► anchors (wgmma fragments, shared operands)      tensor.rs
//!  loads, stores ─► anchors where no product reaches            blocked.rs
//!  anchors ─► layouts of everything elementwise around them     propagate.rs
//! ```
//!
//! A tile may have two versions, one in registers and one in shared memory; each use takes one.
//! Layout propagation: Linear Layouts, section 4.4; anchors: Hexcute, section 4.

mod blocked;
mod propagate;
mod staged;
mod tensor;

use crate::{IselError, Result};
use rustc_hash::FxHashMap;
use warplift_ir::entity::SecondaryMap;
use warplift_ir::layout::Layout;
use warplift_ir::machine::SharedOperand;
use warplift_ir::tile::{Inst, Kernel, Op, Type, Value};

pub use blocked::{blocked, vector_elements};
pub use propagate::slice_layout;
pub use staged::{Staged, StagedFill};
pub use tensor::unit_dim;

/// How a tile comes to shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// Tensor copies, one for each slab of a swizzle span.
    Tma,
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
    /// Swizzle span in bytes.
    pub swizzle: u32,
    /// Elements of a slab along the inner dimension.
    pub slab: u32,
    /// How it is filled.
    pub fill: Fill,
    /// Why tensor copies were declined.
    pub declined: Option<String>,
}

/// How a tile leaves.
#[derive(Clone, Debug)]
pub enum StorePlan {
    /// Through a staging buffer and tensor copies, each warp its own rows.
    Bulk {
        /// `(row, column)` of one warp's 16-row stripe to elements; `(column, row)` if transposed.
        stripe: Box<Layout>,
        /// Swizzle span in bytes.
        swizzle: u32,
        /// Whether rows are contiguous in memory instead of columns.
        transposed: bool,
    },
    /// Predicated stores of so many elements.
    Plain {
        /// Elements of one store.
        vector: u32,
        /// Why tensor copies were declined.
        declined: Option<String>,
    },
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
    /// Shared version of loaded tiles.
    pub shared: FxHashMap<Inst, SharedTile>,
    /// Loads that come to registers by way of a ring in shared memory.
    pub staged: FxHashMap<Inst, Staged>,
    /// Stores.
    pub stores: FxHashMap<Inst, StorePlan>,
    /// Products.
    pub products: FxHashMap<Inst, Product>,
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
    let mut plan = Plan::default();
    let order = program_order(k);
    for &inst in &order {
        if matches!(k.insts[inst].op, Op::Mma) {
            tensor::plan_product(k, inst, &mut plan)?;
        }
    }
    propagate::do_propagate(k, &order, &mut plan)?;
    // Loads first: what memory gives in wide accesses decides the layout of what is made of it.
    let (loads, others): (Vec<Inst>, Vec<Inst>) =
        order.iter().partition(|&&i| matches!(k.insts[i].op, Op::Load));
    for inst in loads.into_iter().chain(others) {
        blocked::anchor(k, inst, &order, &mut plan)?;
    }
    for &inst in &order {
        if let Some(staged) = staged::plan_load(k, inst, &plan)? {
            plan.staged.insert(inst, staged);
        }
    }
    for &inst in &order {
        if matches!(k.insts[inst].op, Op::Store) {
            let store = tensor::plan_store(k, inst, &plan)?;
            plan.stores.insert(inst, store);
        }
    }
    Ok(plan)
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
            lines.extend(self.stores.get(&inst).map(|s| match s {
                StorePlan::Bulk { swizzle, .. } => {
                    format!("{}:{} store: staged, tensor copy, swizzle {swizzle}", at.line, at.column)
                }
                StorePlan::Plain { vector, declined } => {
                    let why = declined.as_ref().map_or(String::new(), |d| format!(" (no tensor copy: {d})"));
                    format!("{}:{} store: plain, {vector} elements{why}", at.line, at.column)
                }
            }));
        }
        lines
    }
}
