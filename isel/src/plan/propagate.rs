//! Layouts spread from anchors through everything that must agree with them. Where two anchors disagree a
//! tile gets a second version: the use (or the result) that wants the other layout is noted, and a conversion
//! stands between (Linear Layouts, section 4.4; Hexcute, section 4).

use super::{Plan, extents, layout_error};
use crate::{IselError, Result};
use warplift_ir::layout::{Axis, Builder, Layout, fragment, shape};
use warplift_ir::tile::{Inst, Kernel, Op, Type, Value};

/// Spreads layouts until nothing changes.
///
/// # Errors
/// Layouts that an operation cannot follow.
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

/// A place where an instruction sees a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    /// Operand number of an instruction.
    Use(Inst, usize),
    /// A result of the instruction, as it is made.
    Made(Value),
    /// A loop's carried value.
    Carried(Value),
}

impl Slot {
    fn value(self, k: &Kernel) -> Value {
        match self {
            Self::Use(inst, n) => k.args(inst)[n],
            Self::Made(v) | Self::Carried(v) => v,
        }
    }

    fn layout(self, k: &Kernel, plan: &Plan) -> Option<Layout> {
        let other = match self {
            Self::Use(inst, n) => plan.uses.get(&(inst, n)),
            Self::Made(v) => plan.made.get(&v),
            Self::Carried(_) => None,
        };
        other.or(plan.layouts[self.value(k)].as_ref()).cloned()
    }
}

/// One instruction: `true` if a layout became known.
fn step(k: &Kernel, inst: Inst, plan: &mut Plan) -> Result<bool> {
    let results = k.results(inst);
    let made = |n: usize| Slot::Made(results[n]);
    let arg = |n: usize| Slot::Use(inst, n);
    match &k.insts[inst].op {
        Op::Cast if super::staged::is_packed(k, k.args(inst)[0]) => {
            let bits = k.ty(k.args(inst)[0]).elem().bits();
            match (arg(0).layout(k, plan), made(0).layout(k, plan)) {
                (None, _) => derive(k, inst, plan, made(0), arg(0), |l| {
                    super::staged::register_order(k, inst, l, bits)
                }),
                // Its registers have an order of their own; the cast puts them right.
                (Some(_), Some(_)) => Ok(false),
                (Some(_), None) => same(k, inst, &[arg(0), made(0)], plan),
            }
        }
        Op::Unary(_) | Op::Binary(_) | Op::Compare(_) | Op::Select | Op::Fma | Op::Cast => {
            let uses = (0..k.args(inst).len()).map(arg);
            let all: Vec<Slot> = uses.chain((0..results.len()).map(made)).collect();
            same(k, inst, &all, plan)
        }
        // Registers stay as they are: the same elements under another shape or type of the same width.
        Op::ViewAs(to) if to.bits() == k.ty(k.args(inst)[0]).elem().bits() => {
            same(k, inst, &[arg(0), made(0)], plan)
        }
        Op::Reshape => reshaped(k, inst, plan),
        Op::Gather(_) => same(k, inst, &[arg(1), made(0)], plan),
        Op::Scan(..) => same(k, inst, &[arg(0), made(0)], plan),
        // A hint that layouts may differ: the operand's spreads where nothing else gives one (`blocked::anchor`).
        Op::Rearrange => Ok(false),
        Op::For => {
            let body = k.insts[inst].blocks[0];
            let mut changed = false;
            for (i, &result) in results.iter().enumerate() {
                let carried = Slot::Carried(k.blocks[body].params[1 + i]);
                let all = [carried, Slot::Made(result), yielded(k, body, i), arg(3 + i)];
                changed |= same(k, inst, &all, plan)?;
            }
            Ok(changed)
        }
        Op::If => {
            let mut changed = false;
            for (i, &result) in results.iter().enumerate() {
                let yields = k.insts[inst].blocks.iter().map(|&b| yielded(k, b, i));
                let all: Vec<Slot> = [Slot::Made(result)].into_iter().chain(yields).collect();
                changed |= same(k, inst, &all, plan)?;
            }
            Ok(changed)
        }
        Op::Reduce(_, axis) if is_tile(k, results[0]) => derive(k, inst, plan, arg(0), made(0), |l| {
            fragment::row_slice(l, *axis).map_err(layout_error(k, inst))
        }),
        Op::Slice(offsets) => {
            let from: Vec<u32> = offsets.iter().map(|d| d.constant().unwrap_or(0)).collect();
            let shape = extents(k, results[0]);
            let whole = k.args(inst)[0];
            if arg(0).layout(k, plan).is_none() && !adapts(k, whole) {
                let whole = extents(k, whole);
                return derive(k, inst, plan, made(0), arg(0), |l| unsliced(k, inst, l, &shape, &whole));
            }
            derive(k, inst, plan, arg(0), made(0), |l| slice_layout(k, inst, l, &from, &shape))
        }
        Op::ExpandDims(d) => derive(k, inst, plan, made(0), arg(0), |l| {
            fragment::row_slice(l, *d).map_err(layout_error(k, inst))
        }),
        Op::Broadcast if is_tile(k, k.args(inst)[0]) => {
            let small = extents(k, k.args(inst)[0]);
            derive(k, inst, plan, made(0), arg(0), |l| collapse(k, inst, l, &small))
        }
        Op::ViewAs(_) => {
            let bits = |v| k.ty(v).elem().bits();
            let (a, b) = (bits(k.args(inst)[0]), bits(results[0]));
            let forth = derive(k, inst, plan, arg(0), made(0), |l| reinterpreted(k, inst, l, a, b))?;
            Ok(forth || derive(k, inst, plan, made(0), arg(0), |l| reinterpreted(k, inst, l, b, a))?)
        }
        Op::Trans(perm) => {
            let perm = perm.clone();
            derive(k, inst, plan, arg(0), made(0), |l| permute(l, &perm).map_err(layout_error(k, inst)))
        }
        _ => Ok(false),
    }
}

/// Another shape of the same elements in row-major order: forward where the operand is known, else backward.
fn reshaped(k: &Kernel, inst: Inst, plan: &mut Plan) -> Result<bool> {
    let dims = |v: Value| shape::dims(&extents(k, v).iter().map(|&e| u64::from(e)).collect::<Vec<_>>());
    let (arg, result) = (dims(k.args(inst)[0]), dims(k.result(inst)));
    let (used, made) = (Slot::Use(inst, 0), Slot::Made(k.result(inst)));
    let (from, to, source, target) = match used.layout(k, plan) {
        Some(_) => (arg, result, used, made),
        None => (result, arg, made, used),
    };
    derive(k, inst, plan, source, target, |l| {
        let map = shape::reshape(&from, &to).map_err(layout_error(k, inst))?;
        l.then(&map).map_err(layout_error(k, inst))
    })
}

/// What a block yields, as an operand of its last instruction.
fn yielded(k: &Kernel, block: warplift_ir::tile::Block, n: usize) -> Slot {
    match k.blocks[block].insts.last() {
        Some(&last) => Slot::Use(last, n),
        None => Slot::Carried(k.blocks[block].params[1 + n]),
    }
}

/// All tiles of a list have one layout: the one that leaves the fewest bits to convert, the first among equals.
fn same(k: &Kernel, inst: Inst, slots: &[Slot], plan: &mut Plan) -> Result<bool> {
    let tiles: Vec<Slot> = slots.iter().copied().filter(|s| is_tile(k, s.value(k))).collect();
    let known: Vec<(Slot, Layout)> =
        tiles.iter().filter_map(|&s| Some((s, s.layout(k, plan)?))).filter(|(s, _)| !free(k, *s)).collect();
    let to_convert = |layout: &Layout| -> u64 {
        let others = known.iter().filter(|(_, l)| l != layout && !l.equivalent(layout));
        others.map(|(s, l)| l.in_extent(Axis::Reg) * u64::from(k.ty(s.value(k)).elem().bits())).sum()
    };
    let carried = known.iter().find(|(s, _)| matches!(s, Slot::Carried(_)));
    let best = match known.iter().all(|(_, l)| *l == known[0].1) {
        true => known.first(),
        false => carried.or_else(|| known.iter().min_by_key(|(_, l)| to_convert(l))),
    };
    let Some(layout) = best.map(|(_, l)| l.clone()).or_else(|| tiles.iter().find_map(|s| s.layout(k, plan)))
    else {
        return Ok(false);
    };
    let mut changed = false;
    for slot in tiles {
        changed |= give(k, inst, slot, layout.clone(), plan)?;
    }
    Ok(changed)
}

/// Whether a slot's value has any layout for nothing.
fn free(k: &Kernel, slot: Slot) -> bool {
    matches!(slot, Slot::Use(..)) && adapts(k, slot.value(k))
}

/// Whether a value fits any layout for free, so that each use may see its own.
pub(super) fn adapts(k: &Kernel, v: Value) -> bool {
    k.def(v).is_some_and(|d| matches!(k.insts[d].op, Op::Full | Op::Iota(_)))
}

fn give(k: &Kernel, inst: Inst, slot: Slot, layout: Layout, plan: &mut Plan) -> Result<bool> {
    let v = slot.value(k);
    let full = k.def(v).is_some_and(|d| matches!(k.insts[d].op, Op::Full));
    match (slot.layout(k, plan), slot) {
        (None, _) => {
            plan.layouts[v] = Some(layout);
            Ok(true)
        }
        (Some(old), _) if old == layout || full || old.equivalent(&layout) => Ok(false),
        (Some(_), Slot::Use(inst, n)) => {
            plan.uses.insert((inst, n), layout);
            Ok(true)
        }
        (Some(_), Slot::Made(v)) => {
            plan.made.insert(v, layout);
            Ok(true)
        }
        (Some(_), Slot::Carried(_)) => {
            Err(IselError::at(k, inst, format!("tile {v} is carried in two register layouts")))
        }
    }
}

/// `to` takes a layout made from that of `from`.
fn derive(
    k: &Kernel,
    inst: Inst,
    plan: &mut Plan,
    from: Slot,
    to: Slot,
    make: impl Fn(&Layout) -> Result<Layout>,
) -> Result<bool> {
    let Some(from) = from.layout(k, plan) else { return Ok(false) };
    let layout = make(&from)?;
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
