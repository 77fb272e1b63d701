//! Layouts spread from anchors through everything that must agree with them.

use super::{Plan, extents, layout_error};
use crate::{IselError, Result};
use warplift_ir::layout::{Axis, Builder, Layout, fragment};
use warplift_ir::tile::{Inst, Kernel, Op, Type, Value};

/// Spreads layouts until nothing changes.
///
/// # Errors
/// Two anchors that disagree about a tile (conversions between distributed layouts are not selected).
pub fn do_propagate(k: &Kernel, order: &[Inst], plan: &mut Plan) -> Result<()> {
    loop {
        let mut changed = false;
        for &inst in order {
            changed |= step(k, inst, plan)?;
        }
        if !changed {
            return Ok(());
        }
    }
}

fn is_tile(k: &Kernel, v: Value) -> bool {
    matches!(k.ty(v), Type::Tile(..))
}

/// One instruction: `true` if a layout became known.
fn step(k: &Kernel, inst: Inst, plan: &mut Plan) -> Result<bool> {
    let args = k.args(inst);
    let results = k.results(inst);
    match &k.insts[inst].op {
        Op::Cast if super::staged::is_packed(k, args[0]) => {
            let bits = k.ty(args[0]).elem().bits();
            match plan.layouts[args[0]] {
                None => derive(k, inst, plan, results[0], args[0], |l| {
                    super::staged::register_order(k, inst, l, bits)
                }),
                // Its registers have an order of their own; the cast puts them right.
                Some(_) if plan.layouts[results[0]].is_some() => Ok(false),
                Some(_) => same(k, inst, &[args[0], results[0]], plan),
            }
        }
        Op::Unary(_) | Op::Binary(_) | Op::Compare(_) | Op::Select | Op::Fma | Op::Cast | Op::Rearrange => {
            let all: Vec<Value> = args.iter().chain(results).copied().collect();
            same(k, inst, &all, plan)
        }
        Op::For => {
            let body = k.insts[inst].blocks[0];
            let mut changed = false;
            for (i, &result) in results.iter().enumerate() {
                let all = [args[3 + i], k.blocks[body].params[1 + i], k.yields(body)[i], result];
                changed |= same(k, inst, &all, plan)?;
            }
            Ok(changed)
        }
        Op::If => {
            let mut changed = false;
            for (i, &result) in results.iter().enumerate() {
                let all: Vec<Value> =
                    k.insts[inst].blocks.iter().map(|&b| k.yields(b)[i]).chain([result]).collect();
                changed |= same(k, inst, &all, plan)?;
            }
            Ok(changed)
        }
        Op::Reduce(_, axis) if is_tile(k, results[0]) => derive(k, inst, plan, args[0], results[0], |l| {
            fragment::row_slice(l, *axis).map_err(layout_error(k, inst))
        }),
        Op::Scan(..) => same(k, inst, &[args[0], results[0]], plan),
        Op::Slice(offsets) => {
            let from: Vec<u32> = offsets.iter().map(|d| d.constant().unwrap_or(0)).collect();
            let shape = extents(k, results[0]);
            if plan.layouts[args[0]].is_none() && !adapts(k, args[0]) {
                let whole = extents(k, args[0]);
                return derive(k, inst, plan, results[0], args[0], |l| unsliced(k, inst, l, &shape, &whole));
            }
            derive(k, inst, plan, args[0], results[0], |l| slice_layout(k, inst, l, &from, &shape))
        }
        Op::ExpandDims(d) => derive(k, inst, plan, results[0], args[0], |l| {
            fragment::row_slice(l, *d).map_err(layout_error(k, inst))
        }),
        Op::Broadcast if is_tile(k, args[0]) => {
            let small = extents(k, args[0]);
            derive(k, inst, plan, results[0], args[0], |l| collapse(k, inst, l, &small))
        }
        Op::ViewAs(_) => {
            let bits = |v| k.ty(v).elem().bits();
            let (a, b) = (bits(args[0]), bits(results[0]));
            let forth = derive(k, inst, plan, args[0], results[0], |l| reinterpreted(k, inst, l, a, b))?;
            Ok(forth || derive(k, inst, plan, results[0], args[0], |l| reinterpreted(k, inst, l, b, a))?)
        }
        Op::Trans(perm) => {
            let perm = perm.clone();
            derive(k, inst, plan, args[0], results[0], |l| permute(l, &perm).map_err(layout_error(k, inst)))
        }
        _ => Ok(false),
    }
}

/// All tiles of a list have one layout.
fn same(k: &Kernel, inst: Inst, values: &[Value], plan: &mut Plan) -> Result<bool> {
    let tiles: Vec<Value> = values.iter().copied().filter(|&v| is_tile(k, v)).collect();
    let Some(layout) = tiles.iter().find_map(|&v| plan.layouts[v].clone()) else { return Ok(false) };
    let mut changed = false;
    for v in tiles {
        changed |= give(k, inst, v, layout.clone(), plan)?;
    }
    Ok(changed)
}

/// Whether a value fits any layout for free, so that each use may see its own.
pub(super) fn adapts(k: &Kernel, v: Value) -> bool {
    k.def(v).is_some_and(|d| matches!(k.insts[d].op, Op::Full | Op::Iota(_)))
}

fn give(k: &Kernel, inst: Inst, v: Value, layout: Layout, plan: &mut Plan) -> Result<bool> {
    match &plan.layouts[v] {
        None => {
            plan.layouts[v] = Some(layout);
            Ok(true)
        }
        Some(old) if *old == layout || adapts(k, v) || old.equivalent(&layout) => Ok(false),
        Some(_) => Err(IselError::at(
            k,
            inst,
            format!("tile {v} is wanted in two register layouts; a conversion between them is not selected"),
        )),
    }
}

/// `to` takes a layout made from that of `from`.
fn derive(
    k: &Kernel,
    inst: Inst,
    plan: &mut Plan,
    from: Value,
    to: Value,
    make: impl Fn(&Layout) -> Result<Layout>,
) -> Result<bool> {
    let Some(from) = &plan.layouts[from] else { return Ok(false) };
    let layout = make(from)?;
    give(k, inst, to, layout, plan)
}

/// The layout of a part: register digits that would leave the part are dropped.
///
/// # Errors
/// If the part does not end where a digit does, or threads hold elements outside it.
pub fn slice_layout(k: &Kernel, inst: Inst, layout: &Layout, from: &[u32], shape: &[u32]) -> Result<Layout> {
    let refuse = || IselError::at(k, inst, "a part that cuts through the layout's registers");
    let aligned = from.iter().zip(shape).all(|(f, s)| f.is_multiple_of(*s));
    if !aligned {
        return Err(refuse());
    }
    rebuild(layout, shape, |axis, out| {
        let inside = out.iter().zip(shape).all(|(&o, &s)| o < u64::from(s));
        (inside || axis != Axis::Reg).then(|| out.to_vec())
    })
    .filter(|l| l.outs().iter().zip(shape).all(|(o, &s)| o.1 == u64::from(s)))
    .ok_or_else(refuse)
}

/// The layout of a whole whose part has the given one: further parts stand in further registers.
fn unsliced(k: &Kernel, inst: Inst, layout: &Layout, part: &[u32], whole: &[u32]) -> Result<Layout> {
    if part.iter().zip(whole).any(|(p, w)| !w.is_multiple_of(*p)) {
        return Err(IselError::at(k, inst, "a part that is no whole fraction of its tile"));
    }
    let outs: Vec<(Axis, u64)> =
        whole.iter().enumerate().map(|(d, &e)| (Axis::Dim(d as u8), u64::from(e))).collect();
    let mut b = Builder::new(&outs);
    for &(axis, _) in layout.ins() {
        b = b.axis(axis);
        for digit in layout.basis(axis) {
            b = b.add(axis, digit.extent, &digit.out);
        }
        for (d, (&p, &w)) in part.iter().zip(whole).enumerate().filter(|_| axis == Axis::Reg) {
            let mut column = vec![0; whole.len()];
            column[d] = u64::from(p);
            b = b.add(axis, u64::from(w / p), &column);
        }
    }
    b.build().map_err(layout_error(k, inst))
}

/// The layout of an operand that is broadcast to the given one: dimensions of extent 1 move nothing.
fn collapse(k: &Kernel, inst: Inst, layout: &Layout, small: &[u32]) -> Result<Layout> {
    let missing = layout.outs().len().saturating_sub(small.len());
    let mut l = layout.clone();
    for _ in 0..missing {
        l = fragment::row_slice(&l, 0).map_err(layout_error(k, inst))?;
    }
    let kept = rebuild(&l, small, |axis, out| {
        let out: Vec<u64> = out.iter().zip(small).map(|(&o, &s)| if s == 1 { 0 } else { o }).collect();
        (axis != Axis::Reg || out.iter().any(|&o| o != 0)).then_some(out)
    });
    kept.ok_or_else(|| IselError::at(k, inst, "a broadcast that the layout cannot follow"))
}

/// The layout of the same registers seen as elements of other bits: the last dimension scales, and what
/// one element becomes (or several make) is what stands in one place of a register.
fn reinterpreted(k: &Kernel, inst: Inst, layout: &Layout, from: u32, to: u32) -> Result<Layout> {
    let refuse = || IselError::at(k, inst, "bits seen as elements that a thread does not hold whole");
    let last = layout.outs().len().checked_sub(1).ok_or_else(refuse)?;
    let (finer, ratio) = (from > to, u64::from(from.max(to) / from.min(to)));
    let whole = finer || layout.contiguous(Axis::Reg, layout.outs()[last].0) >= ratio;
    if !from.max(to).is_multiple_of(from.min(to)) || !whole {
        return Err(refuse());
    }
    let scale = |x: u64| if finer { x * ratio } else { x / ratio };
    let mut outs: Vec<(Axis, u64)> = layout.outs().to_vec();
    outs[last].1 = scale(outs[last].1);
    let mut b = Builder::new(&outs);
    for &(axis, _) in layout.ins() {
        b = b.axis(axis);
        if finer && axis == Axis::Reg {
            let mut column = vec![0; outs.len()];
            column[last] = 1;
            b = b.add(axis, ratio, &column);
        }
        for digit in layout.basis(axis) {
            let inside = !finer && axis == Axis::Reg && digit.weight < ratio;
            let extent = if inside { (digit.extent * digit.weight / ratio).max(1) } else { digit.extent };
            let mut column = digit.out.to_vec();
            column[last] = if inside { 1 } else { scale(column[last]) };
            b = b.add(axis, extent, &column);
        }
    }
    b.build().map_err(layout_error(k, inst))
}

/// The same digits under other extents; `keep` gives a digit's new column, or drops it.
fn rebuild(
    layout: &Layout,
    shape: &[u32],
    keep: impl Fn(Axis, &[u64]) -> Option<Vec<u64>>,
) -> Option<Layout> {
    let outs: Vec<(Axis, u64)> =
        shape.iter().enumerate().map(|(d, &e)| (Axis::Dim(d as u8), u64::from(e))).collect();
    let mut b = Builder::new(&outs);
    for &(axis, _) in layout.ins() {
        b = b.axis(axis);
        for digit in layout.basis(axis) {
            if let Some(column) = keep(axis, &digit.out) {
                b = b.add(axis, digit.extent, &column);
            }
        }
    }
    b.build().ok()
}

fn permute(layout: &Layout, perm: &[u8]) -> std::result::Result<Layout, warplift_ir::layout::LayoutError> {
    let to = |d: u8| perm.iter().position(|&p| p == d).unwrap_or(0) as u8;
    let renamed = layout.renamed(|a| match a {
        Axis::Dim(d) => Axis::Dim(to(d)),
        other => other,
    })?;
    let mut outs: Vec<(Axis, u64)> = renamed.outs().to_vec();
    outs.sort();
    renamed.reordered(renamed.ins(), &outs)
}
