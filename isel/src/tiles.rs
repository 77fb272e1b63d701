//! Queries on tiles, views and loops that every stage of selection shares.
//!
//! ```text
//!  map ─┐
//!  plan ─┼─► warps, extents, unit_dim, program_order, ..
//!  lower ┘
//! ```

use crate::IselError;
use crate::window::Window;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use warplift_ir::layout::Axis;
use warplift_ir::tile::{ArrayMapping, Block, CmpOp, Inst, Kernel, Op, Type, Value};
use warplift_ir::types::Elem;

/// Warps of the team that executes an instruction.
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

/// Whether an axis of a layout stands above the lanes.
pub(crate) fn above_lanes(axis: Axis) -> bool {
    matches!(axis, Axis::Warp | Axis::Warpgroup)
}

/// Turns a layout error into an error at an instruction.
pub(crate) fn layout_error<E: std::fmt::Display>(k: &Kernel, inst: Inst) -> impl Fn(E) -> IselError + '_ {
    move |e| IselError::at(k, inst, format!("layout: {e}"))
}

/// The tile that an access loads, stores or updates by.
pub(crate) fn accessed(k: &Kernel, inst: Inst) -> Value {
    let args = k.args(inst);
    match k.insts[inst].op.written_operand(args.len()) {
        Some(at) => args[at],
        None => k.result(inst),
    }
}

/// What makes the iterations of a tile that programs share out, if they do (`stream_k`).
pub(crate) fn shared_trips(k: &Kernel) -> Option<Inst> {
    k.insts.keys().find(|&i| k.attrs[i].trips)
}

/// Whether the programs of a persistent kernel take tiles of unequal work: a loop makes as many iterations as the tile, or
/// data, says.
pub(crate) fn has_unequal_tiles(k: &Kernel) -> bool {
    let top = &k.blocks[k.entry].insts;
    let Some(&tiles) = top.iter().find(|&&i| k.attrs[i].persistent) else { return false };
    let body = k.insts[tiles].blocks[0];
    let own: FxHashSet<Value> = k.blocks[body]
        .insts
        .iter()
        .flat_map(|&i| k.results(i))
        .copied()
        .chain(k.blocks[body].params.iter().copied())
        .collect();
    let varies = |v: &Value| own.contains(v) && k.int_const(*v).is_none();
    k.inside(body).into_iter().any(|i| matches!(k.insts[i].op, Op::For) && k.args(i)[..3].iter().any(varies))
}

/// The dimension of a view whose stride is known to be 1.
pub fn unit_dim(k: &Kernel, view: Value) -> Option<usize> {
    Window::of(k, view)?.unit(k)
}

/// The name of a loop's counter.
pub fn loop_name(kernel: &Kernel, inst: Inst) -> Option<&str> {
    let data = &kernel.insts[inst];
    let body = data.blocks.first().filter(|_| matches!(data.op, Op::For))?;
    let counter = kernel.blocks[*body].params.first()?;
    Some(kernel.names[*counter].as_str())
}

/// Threads of a warp, and of a warpgroup.
pub(crate) const WARP: u32 = 32;
pub(crate) const WARPGROUP_THREADS: u32 = 4 * WARP;

/// All instructions; an outer one precedes its body.
pub(crate) fn program_order(k: &Kernel) -> Vec<Inst> {
    k.inside(k.entry)
}

/// The instructions that use each value, in program order.
pub(crate) type Users = FxHashMap<Value, SmallVec<[Inst; 2]>>;

/// The users of all values.
pub(crate) fn users(k: &Kernel) -> Users {
    let mut users = Users::default();
    k.walk(|_, inst| k.args(inst).iter().for_each(|&v| users.entry(v).or_default().push(inst)));
    users
}

/// The values that a value follows from by instructions that a test admits, itself among them.
pub(crate) fn ancestors(k: &Kernel, v: Value, through: impl Fn(Inst) -> bool) -> FxHashSet<Value> {
    let (mut seen, mut open) = (FxHashSet::default(), vec![v]);
    while let Some(v) = open.pop() {
        if seen.insert(v)
            && let Some(def) = k.def(v).filter(|&d| through(d))
        {
            open.extend(k.args(def));
        }
    }
    seen
}

/// Whether a value follows from another one, or is it, by instructions that a test admits.
pub(crate) fn depends(k: &Kernel, v: Value, on: Value, through: impl Fn(Inst) -> bool) -> bool {
    ancestors(k, v, through).contains(&on)
}

/// Whether an MMA subtracts its product.
pub(crate) fn subtracts(k: &Kernel, inst: Inst) -> bool {
    matches!(k.insts[inst].op, Op::Mma { negated: true })
}

/// Whether an instruction loads a tile by scalar indices. A load of one element is a scalar.
pub(crate) fn loads_tile(k: &Kernel, inst: Inst) -> bool {
    matches!(k.insts[inst].op, Op::Load) && matches!(k.ty(k.result(inst)), Type::Tile(..))
}

/// Whether an instruction loads a tile, by scalar indices or by tiles of them.
pub(crate) fn reads_tile(k: &Kernel, inst: Inst) -> bool {
    loads_tile(k, inst) || matches!(k.insts[inst].op, Op::LoadGather { .. } | Op::LoadRuns(_))
}

/// Whether an access is to an array in shared memory.
pub(crate) fn in_shared(k: &Kernel, access: Inst) -> bool {
    Window::of(k, k.args(access)[0]).is_some_and(|w| w.is_shared(k))
}

/// The operands of an instruction that are places or counts.
pub(crate) fn index_operands(k: &Kernel, inst: Inst) -> std::ops::Range<usize> {
    let all = k.args(inst).len();
    match k.insts[inst].op {
        Op::View { .. } | Op::SubView(_) | Op::Load | Op::LoadRuns(_) | Op::AsyncCopy => 1..all,
        Op::Shared { .. } => 0..all,
        Op::LoadGather { masked } => 1..all - usize::from(masked),
        ref op if op.is_write() => op.indices(all),
        Op::For => 0..3,
        _ => 0..0,
    }
}

/// The runs of rows that a load brings one by one: one, if its rows follow each other.
pub(crate) fn runs(k: &Kernel, load: Inst) -> u32 {
    match k.insts[load].op {
        Op::LoadRuns(dim) => indices_along(k, load, dim.into()).len() as u32,
        _ => 1,
    }
}

/// The indices of a load along a dimension of its view: one, or the starts of its runs.
pub(crate) fn indices_along(k: &Kernel, load: Inst, dim: usize) -> &[Value] {
    let args = k.args(load);
    let rank = match k.ty(args[0]) {
        Type::View(_, rank) => usize::from(rank),
        _ => 0,
    };
    let more = |s: std::ops::Range<usize>| (s.start - 1, s.len() - 1);
    let (runs, more) = k.insts[load].op.run_starts(rank, args.len()).map_or((rank, 0), more);
    let first = 1 + dim + if dim > runs { more } else { 0 };
    args.get(first..=first + if dim == runs { more } else { 0 }).unwrap_or_default()
}

/// Memory that a kernel writes: the pointers that stand for it.
pub(crate) fn written(k: &Kernel) -> FxHashSet<Value> {
    let writes = |i: &Inst| k.insts[*i].op.is_write();
    program_order(k).into_iter().filter(writes).filter_map(|i| memory(k, k.args(i)[0])).collect()
}

/// Whether blocks wait for others: a `while` ends by what an acquire finds. Its programs take tiles in the order of their
/// numbers, so that all tiles that one may wait for are begun before it.
pub(crate) fn waits_for_blocks(k: &Kernel) -> bool {
    let mut waits = false;
    let acquires = |i: Inst| k.insts[i].op.sync().order.acquires();
    for data in k.insts.values().filter(|d| matches!(d.op, Op::While)) {
        data.blocks.iter().for_each(|&b| k.walk_block(b, |_, i| waits |= acquires(i)));
    }
    waits
}

/// Why no copies that run beside the threads may load a view's memory; `None` if they may. Other blocks may write it before
/// an acquire. Its barrier is one of threads: a producer would not wait for it, and tensor copies need a fence besides.
pub(crate) fn acquired(k: &Kernel, view: Value) -> Option<String> {
    let acquire = k.insts.values().find(|d| d.op.acquires())?;
    let shared = memory(k, view).is_some_and(|m| written(k).contains(&m));
    shared.then(|| {
        format!("other blocks may write it before the `{}`, for which only threads wait", acquire.op.name())
    })
}

/// The mapping of the array behind a load; the default for a computed tile.
pub(crate) fn array(k: &Kernel, load: Inst) -> ArrayMapping {
    Window::of(k, k.args(load)[0]).map_or_else(ArrayMapping::default, |w| k.attrs[w.whole].array)
}

/// The memory behind a view: its pointer, or the first of those that may alias it.
pub(crate) fn memory(k: &Kernel, view: Value) -> Option<Value> {
    Some(k.memory_of(Window::of(k, view)?.pointer(k)))
}

/// The scalar that every element of a tile equals, if there is one.
pub(crate) fn equal_elements(k: &Kernel, v: Value) -> Option<Value> {
    match k.ty(v) {
        Type::Scalar(_) => Some(v),
        _ => match k.insts[k.def(v)?].op {
            Op::Full | Op::Broadcast => equal_elements(k, k.args(k.def(v)?)[0]),
            _ => None,
        },
    }
}

/// The number of a constant, or of a tile whose elements are one constant.
pub(crate) fn constant(k: &Kernel, v: Value) -> Option<f64> {
    let def = k.def(v)?;
    match k.insts[def].op {
        Op::Int(v) => Some(v as f64),
        Op::Float(v) => Some(v),
        Op::Full => constant(k, k.args(def)[0]),
        _ => None,
    }
}

/// Whether a block has products of its own.
pub(crate) fn has_products(k: &Kernel, block: Block) -> bool {
    k.blocks[block].insts.iter().any(|&i| matches!(k.insts[i].op, Op::Mma { .. }))
}

/// A comparison of the bytes of a tile with a constant, for equality: the tile, the constant's byte, and whether equal bytes
/// are asked for. It costs no conversion: see `lower/byte_tests.rs`.
pub(crate) fn byte_test(k: &Kernel, inst: Inst) -> Option<(Value, u8, bool)> {
    let Op::Compare(cmp @ (CmpOp::Eq | CmpOp::Ne)) = k.insts[inst].op else { return None };
    let &[a, b] = k.args(inst) else { return None };
    let (x, c) = match (constant(k, a), constant(k, b)) {
        (None, Some(c)) => (a, c),
        (Some(c), None) => (b, c),
        _ => return None,
    };
    let byte = byte_of(c, k.ty(x).elem())?;
    let repeats = k.def(x).is_some_and(|d| k.insts[d].op == Op::Full);
    (matches!(k.ty(x), Type::Tile(..)) && !repeats).then_some((x, byte, cmp == CmpOp::Eq))
}

/// The byte of a number as an 8-bit integer of a type, if it is one.
pub(crate) fn byte_of(c: f64, elem: Elem) -> Option<u8> {
    match elem {
        Elem::Uint(8) if c.fract() == 0.0 && (0.0..256.0).contains(&c) => Some(c as u8),
        Elem::Int(8) if c.fract() == 0.0 && (-128.0..128.0).contains(&c) => Some(c as i8 as u8),
        _ => None,
    }
}

/// The type with other elements: of a tile, or else of a scalar.
pub(crate) fn with_elem(ty: Type, elem: Elem) -> Type {
    match ty {
        Type::Tile(_, shape) => Type::Tile(elem, shape),
        _ => Type::Scalar(elem),
    }
}
