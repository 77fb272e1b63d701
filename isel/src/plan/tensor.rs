//! Warpgroup MMAs and tensor copies: which operands are in shared memory, how wgmma reads them, and whether the facts
//! allow the tensor memory accelerator (Axe, section 3.4; PTX ISA, chapters "Asynchronous Warpgroup Level Matrix
//! Instructions" and "Tensors").
//!
//! ```text
//!  y = mma x, a, trans(b)    a, b ─► tensor copies ─► slabs of a swizzle span ─► descriptors ─► wgmma m64nNk16
//!                            x, y ─► accumulator fragment in registers
//! ```

use super::choices::{Options, Point, Way};
use super::cost::Model;
use super::order::follows_acquires;
use super::types::{Fill, Plan, Product, SharedTile};
use crate::boxes::rows_and_columns;
use crate::feature::Ways;
use crate::operand::inner_dim;
use crate::operand::{CORE_BYTES, Loaded, is_plain, loaded, swizzle_span, takes_narrow_slabs};
use crate::rows::is_half;
use crate::tensor_copies::load_refused;
use crate::tiles::{WARPGROUP_THREADS, acquired, extents, layout_error, runs, warps};
use crate::vector::vector_elements;
use crate::window::Window;
use crate::{IselError, Result};
use smallvec::SmallVec;
use warplift_ir::layout::{Axis, Layout, fragment, shared};
use warplift_ir::machine::{Buffer, Place, SharedOperand};
use warplift_ir::plural;
use warplift_ir::target::{Opcode, Target};
use warplift_ir::tile::{Inst, Kernel, Op, Team, Value};
use warplift_ir::types::Elem;

/// Rows of one wgmma.
pub(super) const ATOM_M: u32 = 64;
/// Bits of one wgmma's depth: 16 halves, 32 bytes, 8 words.
const ATOM_BITS: u32 = 256;
/// Limit on the k-steps of one MMA.
pub(super) const MAX_STEPS: u32 = 255;
/// Limit on the columns of one wgmma.
const ATOM_N: u32 = 256;
/// Number of ways to cut the columns of an MMA that are tried.
const CUTS: usize = 3;

/// Elements of one wgmma's depth.
pub(super) fn atom_k(elem: Elem) -> u32 {
    ATOM_BITS / elem.bits()
}

/// Plans one warpgroup MMA: accumulator layout, operands, instruction shape.
///
/// # Errors
/// wgmma lacks the shape or type, or no version of an operand is in shared memory.
pub(super) fn plan_product(k: &Kernel, inst: Inst, model: &Model<'_>, plan: &mut Plan) -> Result<()> {
    let [acc, a, b] = k.args(inst) else { return Err(IselError::at(k, inst, "mma takes three operands")) };
    let (acc, a, b) = (*acc, *a, *b);
    let Team::Warpgroups(groups) = k.attrs[inst].team else {
        return Err(IselError::at(k, inst, "mma needs a team of warpgroups"));
    };
    model.target.require(Opcode::Wgmma).map_err(|lacks| IselError::lacks(k.insts[inst].loc, lacks))?;
    let (m, n) = (extents(k, acc)[0], extents(k, acc)[1]);
    let depth = extents(k, a)[1];
    check_types(k, inst, acc, [a, b])?;
    let step = atom_k(k.ty(a).elem());
    check_shape(k, inst, [m, n, depth], step, groups, model.target)?;
    let layout = |m, n| {
        fragment::wgmma_acc(u64::from(m), u64::from(n), u64::from(groups)).map_err(layout_error(k, inst))
    };
    let whole = layout(m, n)?;
    plan.layouts[acc].get_or_insert_with(|| whole.clone());
    plan.layouts[k.result(inst)] = Some(whole);
    let n_atoms = pick_columns(k, inst, [m, n, depth], groups, model, plan);
    let n_one = n / n_atoms;
    let left = match loaded(k, a) {
        Some(l) => {
            (place_of_a(k, inst, l, &layout(m, depth)?, n_one, model, plan)? == Way::InShared).then_some(l)
        }
        None => None,
    };
    let a = match left {
        Some(l) => {
            place(k, l.load, model, plan)?;
            Some((l.load, operand(k, inst, plan, l, (1, depth), [m / groups, ATOM_M])?))
        }
        None => {
            let fragment = layout(m, depth)?;
            plan.layouts[a].get_or_insert(fragment);
            None
        }
    };
    let load = loaded(k, b).ok_or_else(|| {
        IselError::at(
            k,
            inst,
            "the right operand of mma is not in shared memory: load it, or stage it with `rearrange`",
        )
    })?;
    place(k, load.load, model, plan)?;
    let b = (load.load, operand(k, inst, plan, load, (0, depth), [0, n_one])?);
    let product = Product { a, b, n: n_one, n_atoms, m_atoms: m / groups / ATOM_M, k_steps: depth / step };
    plan.products.insert(inst, product);
    Ok(())
}

/// The number of instructions along the columns of an MMA: the fewest, unless another option is taken.
fn pick_columns(
    k: &Kernel,
    inst: Inst,
    [m, n, depth]: [u32; 3],
    groups: u32,
    model: &Model<'_>,
    plan: &mut Plan,
) -> u32 {
    // Consumers and one warpgroup of producers start with equal shares of the registers. A share that the widest
    // accumulator fills leaves nothing else.
    let share = model.target.entry_registers((groups + 1) * WARPGROUP_THREADS);
    let limit = if share > ATOM_M * ATOM_N / WARPGROUP_THREADS { ATOM_N } else { ATOM_N / 2 };
    let elem = k.ty(k.args(inst)[1]).elem();
    let fits = (n.div_ceil(limit)..=n / 8).filter(|c| n.is_multiple_of(8 * c) && has_columns(elem, n / c));
    let shared = loaded(k, k.args(inst)[1]).is_some();
    let steps = depth / atom_k(elem);
    let repeats = |c: u32| model.trips(inst) * f64::from(c * (m / ATOM_M) * steps);
    let cycles = |c: u32| repeats(c) * model.target.rates.product(n / c, shared);
    let mut options: Options = fits.take(CUTS).map(|c| (Way::Columns(c), cycles(c))).collect();
    if options.is_empty() {
        options.push((Way::Columns(1), cycles(1)));
    }
    match plan.choices.pick(Point::Columns(inst), options) {
        Way::Columns(count) => count,
        _ => 1,
    }
}

/// Whether wgmma has an instruction with `n` columns. For integers, columns above 32 must be a multiple of 16.
fn has_columns(elem: Elem, n: u32) -> bool {
    n <= 32 || !elem.is_int() || n.is_multiple_of(16)
}

/// Where an MMA reads a loaded A: in shared memory, or in registers. Registers need three things: nothing else reads
/// A in shared memory; threads load it less often than it is read, because loads inside the loop must be issued
/// ahead; and there is room.
fn place_of_a(
    k: &Kernel,
    inst: Inst,
    l: Loaded,
    fragment: &Layout,
    n: u32,
    model: &Model<'_>,
    plan: &mut Plan,
) -> Result<Way> {
    let (a, load) = (k.args(inst)[1], l.load);
    let elem = k.ty(a).elem();
    let users = k.insts.keys().filter(|&i| k.args(i).contains(&a)).count();
    let registers = |l: &Layout, elem: Elem| l.in_extent(Axis::Reg) * u64::from(elem.bits()) / 32;
    let sums = plan.layouts[k.result(inst)].as_ref().map_or(0, |l| registers(l, Elem::F32));
    let room = sums + registers(fragment, elem) <= u64::from(model.target.operand_registers);
    let stays = model.trips(load) < model.trips(inst);
    let by_threads = k.insts[load].op.is_read() && is_plain(k, load);
    let own = k.def(a) == Some(load) && by_threads && users == 1 && stays;
    let mut options: Options = SmallVec::new();
    let steps = fragment.in_extent(Axis::Reg) as f64 * 128.0 / f64::from(ATOM_M * atom_k(elem));
    let groups = f64::from(warps(k, inst)) / 4.0;
    let product = |shared: bool| model.trips(inst) * groups * steps * model.target.rates.product(n, shared);
    let tile = shared_tile(k, load, model, plan);
    let shared = tile.as_ref().map_or(0.0, |t| model.fill(load, t).unwrap_or(0.0));
    options.push((Way::InShared, product(true) + model.trips(load) * shared));
    // Fragments exist for 16-bit elements only; wgmma reads others from registers too, in layouts that are not
    // implemented.
    if own && room && is_half(elem) {
        let loads = model.trips(load) * model.access(load, a, fragment);
        options.push((Way::InRegisters, product(false) + loads));
    }
    Ok(plan.choices.pick(Point::Operand(inst), options))
}

fn check_types(k: &Kernel, inst: Inst, acc: Value, [a, b]: [Value; 2]) -> Result<()> {
    let [sum, elem, right] = [acc, a, b].map(|v| k.ty(v).elem());
    let selected = matches!(
        (elem, right, sum),
        (Elem::F16, Elem::F16, Elem::F32)
            | (Elem::Bf16, Elem::Bf16, Elem::F32)
            | (Elem::Tf32, Elem::Tf32, Elem::F32)
            | (Elem::E4M3 | Elem::E5M2, Elem::E4M3 | Elem::E5M2, Elem::F32)
            | (Elem::Int(8) | Elem::Uint(8), Elem::Int(8) | Elem::Uint(8), Elem::Int(32))
    );
    if selected {
        return check_loaded(k, inst, a);
    }
    let message = format!(
        "no product of {elem} and {right} into {sum}: operands of f16, of bf16, of tf32, or each of f8e4m3 or f8e5m2 into f32 \
         have one, and of i8 or u8 into i32; `cast` to one of these"
    );
    Err(IselError::at(k, inst, message))
}

/// A computed left operand is read from registers, whose fragments exist for 16-bit elements only.
fn check_loaded(k: &Kernel, inst: Inst, a: Value) -> Result<()> {
    let elem = k.ty(a).elem();
    if loaded(k, a).is_some() || is_half(elem) {
        return Ok(());
    }
    let message = format!(
        "no product of {elem} with a computed operand: only f16 and bf16 are multiplied from registers; `cast` to one of \
         these, or load the operand"
    );
    Err(IselError::at(k, inst, message))
}

fn check_shape(
    k: &Kernel,
    inst: Inst,
    [m, n, depth]: [u32; 3],
    step: u32,
    groups: u32,
    target: &Target,
) -> Result<()> {
    let rows = ATOM_M * groups;
    if !m.is_multiple_of(rows) || !n.is_multiple_of(8) {
        return Err(IselError::at(
            k,
            inst,
            format!(
                "a product of {m} x {n}: one extent is a multiple of {rows} ({} of {ATOM_M} rows), the other of 8; \
                 `products mma_sync` takes multiples of 16 and 8",
                plural(groups, "warpgroup")
            ),
        ));
    }
    if !depth.is_multiple_of(step) {
        let elem = k.ty(k.args(inst)[1]).elem();
        let message = format!("a product of depth {depth}: with {elem} it is a multiple of {step}");
        return Err(IselError::at(k, inst, message));
    }
    if depth > MAX_STEPS * step {
        let most = MAX_STEPS * step;
        let message =
            format!("a product of depth {depth}: at most {most} at once; add shorter ones in a loop");
        return Err(IselError::at(k, inst, message));
    }
    let (registers, most) = (m / groups * n / WARPGROUP_THREADS, target.warpgroup_accumulator);
    if registers > most {
        return Err(IselError::at(
            k,
            inst,
            format!(
                "a product of {m} x {n} on {} takes {registers} registers a thread; at most {most} leave room for the \
                 rest: take smaller tiles or more `consumers`",
                plural(groups, "warpgroup")
            ),
        ));
    }
    Ok(())
}

/// How wgmma reads a loaded tile. `k_dim` is the depth's dimension of the operand as the MMA reads it. `[group,
/// atom]` are the steps along the other dimension, from warpgroup to warpgroup and from atom to atom. `depth` is that
/// of the MMA.
fn operand(
    k: &Kernel,
    inst: Inst,
    plan: &Plan,
    Loaded { load, flipped, from }: Loaded,
    (k_dim, depth): (usize, u32),
    [group, atom]: [u32; 2],
) -> Result<SharedOperand> {
    let elem = k.ty(k.result(load)).elem();
    let step = atom_k(elem);
    if from[1 - k_dim] != 0 || !from[k_dim].is_multiple_of(step) {
        return Err(IselError::at(k, inst, "an operand that is part of a tile is a part of its depth"));
    }
    let first = from[k_dim];
    let tile = &plan.shared[&load];
    let k_dim = if flipped { 1 - k_dim } else { k_dim };
    let mn_major = tile.inner_dim != k_dim;
    if mn_major {
        check_mn_major(k, inst, load, tile, atom)?;
    }
    let bytes = elem.bits() / 8;
    // (along M or N, along K) to bytes; addition is exact because every step is a whole swizzle pattern.
    let at = |mn: u32, depth: u32| {
        let (outer, inner) = if mn_major { (depth, mn) } else { (mn, depth) };
        let inside = outer < tile.extents[0] && inner < tile.extents[1];
        if inside { tile.layout.apply(&[outer.into(), inner.into()])[0] as u32 * bytes } else { 0 }
    };
    let steps: SmallVec<[u32; 8]> = (0..depth / step).map(|s| at(0, first + s * step)).collect();
    let span = tile.swizzle;
    let slab_bytes = at(if mn_major { tile.slab } else { 0 }, if mn_major { 0 } else { tile.slab });
    // From one core matrix, or swizzle pattern, to the next: along the contiguous dimension, and across.
    let (along, across) = (if slab_bytes > 0 { slab_bytes } else { 16 }, 8 * tile.row_bytes);
    let (leading, stride) = match (span, mn_major) {
        (0, true) => (across, along),
        (0, false) | (_, true) => (along, across),
        (_, false) => (16, across),
    };
    Ok(SharedOperand {
        place: Place { buffer: Buffer::from_u32(0), offset: 0 },
        warpgroup_stride: at(group, 0),
        atom_stride: at(atom, 0),
        steps,
        leading,
        stride,
        swizzle: span,
        mn_major,
    })
}

/// An operand that is contiguous across the depth is transposed by wgmma, slab by slab.
fn check_mn_major(k: &Kernel, inst: Inst, load: Inst, tile: &SharedTile, atom: u32) -> Result<()> {
    let elem = k.ty(k.result(load)).elem();
    if !is_half(elem) {
        let message = format!(
            "an operand of {elem} must be contiguous along the depth: wgmma transposes only 16-bit elements"
        );
        return Err(IselError::at(k, load, message));
    }
    let whole = atom >= tile.inner_extent(&extents(k, k.result(load)));
    if !whole && !atom.is_multiple_of(tile.slab) && !tile.slab.is_multiple_of(atom) {
        let message = format!(
            "{atom} columns of an operand that is contiguous along them: a multiple of {} is needed",
            tile.slab
        );
        return Err(IselError::at(k, inst, message));
    }
    Ok(())
}

/// Row sizes of slabs for a contiguous extent of `bytes` bytes: swizzle spans, the widest first, then 0 for core
/// matrices without swizzle.
fn spans(bytes: u32, ways: Ways) -> SmallVec<[u32; 4]> {
    let swizzled = [128, 64, 32].into_iter().filter(|s| ways.swizzles && bytes.is_multiple_of(*s));
    swizzled.chain(bytes.is_multiple_of(CORE_BYTES).then_some(0)).collect()
}

/// Swizzle spans that do not divide a contiguous extent and at least halve its copies: the last slab is narrower. Copies of it
/// keep the pitch of the span and leave the gap behind each row as it is. `wgmma` never reads the gap: it takes whole rows of 16
/// bytes, as many as it has columns.
fn wider_spans(k: &Kernel, load: Inst, bytes: u32, ways: Ways) -> SmallVec<[u32; 4]> {
    let by_warpgroups = |i: Inst| matches!(k.attrs[i].team, Team::Warpgroups(_));
    let mut products = k.insts.keys().filter(|&i| matches!(k.insts[i].op, Op::Mma { .. }));
    let narrow = ways.swizzles && takes_narrow_slabs(k, load) && products.all(by_warpgroups);
    let widest = swizzle_span(bytes).unwrap_or(CORE_BYTES);
    let wider = |s: &u32| bytes > s / 2 && bytes.div_ceil(*s) * 2 <= bytes / widest;
    let narrow = narrow && bytes.is_multiple_of(CORE_BYTES);
    [128, 64, 32].into_iter().filter(|s| narrow && wider(s)).collect()
}

/// Gives a loaded operand its place in shared memory.
pub(super) fn place(k: &Kernel, load: Inst, model: &Model<'_>, plan: &mut Plan) -> Result<()> {
    if !plan.shared.contains_key(&load) {
        let tile = shared_tile(k, load, model, plan)?;
        plan.shared.insert(load, tile);
    }
    Ok(())
}

/// The shared-memory version of a loaded tile: slabs along the contiguous dimension, with one of the swizzles that
/// fit.
fn shared_tile(k: &Kernel, load: Inst, model: &Model<'_>, plan: &mut Plan) -> Result<SharedTile> {
    let tile = k.result(load);
    let shape = rows_and_columns(&extents(k, tile)).unwrap_or([1, 1]);
    let inner = shape[inner_dim(k, load).min(1)];
    let bytes = inner * k.ty(tile).elem().bits() / 8;
    let mut tiles: Vec<SharedTile> = Vec::new();
    for span in wider_spans(k, load, bytes, plan.ways) {
        let tile = tile_of(k, load, span, model.target, plan.ways)?;
        tiles.extend((tile.fill == Fill::Tma).then_some(tile));
    }
    for span in spans(bytes, plan.ways) {
        tiles.push(tile_of(k, load, span, model.target, plan.ways)?);
    }
    if tiles.is_empty() {
        let what = format!(
            "a contiguous extent of {inner} ({bytes} bytes): a multiple of {CORE_BYTES} bytes is needed"
        );
        return Err(IselError::at(k, load, what));
    }
    let cycles = |t: &SharedTile| Ok((Way::Span(t.swizzle), model.fill(load, t)?));
    let options = tiles.iter().map(cycles).collect::<Result<Options>>()?;
    let way = plan.choices.pick(Point::Span(load), options);
    let at = tiles.iter().position(|t| Way::Span(t.swizzle) == way).unwrap_or(0);
    Ok(tiles.swap_remove(at))
}

/// A loaded tile in shared memory under one swizzle span.
fn tile_of(k: &Kernel, load: Inst, swizzle: u32, target: &Target, ways: Ways) -> Result<SharedTile> {
    let tile = k.result(load);
    let shape = extents(k, tile);
    let Some([rows, cols]) = rows_and_columns(&shape) else {
        return Err(IselError::at(k, load, "an operand of mma has rank 2"));
    };
    let inner_dim = inner_dim(k, load);
    let (outer, inner) = if inner_dim == 1 { (rows, cols) } else { (cols, rows) };
    let bits = k.ty(tile).elem().bits();
    if !outer.is_multiple_of(8) {
        return Err(IselError::at(k, load, format!("an outer extent of {outer}: a multiple of 8 is needed")));
    }
    let row_bytes = if swizzle == 0 { CORE_BYTES } else { swizzle };
    let slab = row_bytes * 8 / bits;
    let inner = inner.next_multiple_of(slab);
    let layout = match swizzle {
        0 => shared::core_matrices(outer.into(), inner.into(), bits.into()),
        span => shared::swizzled(outer.into(), inner.into(), bits.into(), span.into()),
    };
    let layout = layout.map_err(layout_error(k, load))?;
    let (fill, declined) = match k.insts[load].op {
        Op::Load | Op::LoadGather { .. } | Op::LoadRuns(_) => {
            let across = if shape.len() > 2 { shape[..shape.len() - 1].iter().copied().max() } else { None };
            fill_of(k, load, across.unwrap_or(outer), target, ways)?
        }
        _ => (Fill::Computed, None),
    };
    Ok(SharedTile { layout, extents: [outer, inner], inner_dim, swizzle, slab, row_bytes, fill, declined })
}

/// How a loaded tile is filled, and why tensor copies were declined.
fn fill_of(
    k: &Kernel,
    load: Inst,
    outer: u32,
    target: &Target,
    ways: Ways,
) -> Result<(Fill, Option<String>)> {
    let view = k.args(load)[0];
    let declined =
        gathers(k, load).or_else(|| lacks(target, Opcode::TmaLoad)).or_else(|| load_refused(k, load, ways));
    let rows = outer / runs(k, load);
    if declined.is_none() && rows > target.box_extent {
        return Err(IselError::at(
            k,
            load,
            format!("a tensor copy's box of {rows} rows: at most {} are possible", target.box_extent),
        ));
    }
    if let Some(why) = declined.as_ref().filter(|_| extents(k, k.result(load)).len() > 2) {
        let message = format!("a tile of more than two dimensions comes by tensor copies only: {why}");
        return Err(IselError::at(k, load, message));
    }
    if let Some(why) = declined.as_ref().filter(|_| matches!(k.insts[load].op, Op::LoadRuns(_))) {
        return Err(IselError::at(k, load, format!("rows in runs come by tensor copies only: {why}")));
    }
    let fill = match (&declined, cp_async_bytes(k, load)) {
        (None, _) => Fill::Tma,
        (Some(_), Some(bytes)) if acquired(k, view).is_none() || follows_acquires(k, load) => {
            Fill::CpAsync(bytes)
        }
        (Some(_), _) => Fill::Threads,
    };
    Ok((fill, declined))
}

/// Why tensor copies cannot perform a load by tiles of indices.
fn gathers(k: &Kernel, load: Inst) -> Option<String> {
    let gathers = matches!(k.insts[load].op, Op::LoadGather { .. });
    gathers.then(|| "its elements have indices or a mask of their own".to_owned())
}

/// Why a target does not have an instruction, if it does not.
pub(super) fn lacks(target: &Target, op: Opcode) -> Option<String> {
    target.require(op).err().map(|e| e.to_string())
}

/// Bytes of one `cp.async` of a load, if the facts make them contiguous in both memories.
pub(crate) fn cp_async_bytes(k: &Kernel, load: Inst) -> Option<u32> {
    let view = k.args(load)[0];
    let window = Window::of(k, view).filter(|w| !w.is_shared(k))?;
    let elements = vector_elements(k, load, k.result(load));
    let bytes = elements * k.ty(view).elem().bits() / 8;
    // Also a copy that reads nothing, past a dimension of one element, has an aligned address.
    let mut all = window.kept.iter().chain(window.fixed.iter().map(|f| &f.0));
    let aligned =
        all.all(|&d| !window.is_single(k, d) || window.stride_divisor(k, d) % i64::from(elements) == 0);
    ([4, 8, 16].contains(&bytes) && window.fill(k) == 0.0 && aligned).then_some(bytes)
}
