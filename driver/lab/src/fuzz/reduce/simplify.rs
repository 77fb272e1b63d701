//! The simplifications of a case.

use super::super::Case;
use super::edit;
use std::mem::take;
use warplift_ir::tile::{
    BinOp, Block, Facts, Inst, KernelMapping, LoopMapping, Mapping, Op, Type, Value, ValueDef,
};
use warplift_ir::types::Elem;

/// One simplification.
#[derive(Clone, Debug)]
pub enum Simplification {
    /// Tunables become constants.
    Tunables,
    /// A tunable takes this value.
    Tunable(usize, i64),
    /// A mapping without one of its decisions.
    Mapping(Mapping),
    /// So many multiprocessors.
    Multiprocessors(u32),
    /// A size takes this value.
    Size(String, i64),
    /// A parameter loses its facts.
    Facts(usize),
    /// An instruction without results goes.
    Drop(Inst),
    /// A loop's results are what it carries in.
    Skip(Inst),
    /// A nested block in place of what holds it.
    Inline(Inst, Block),
    /// A loop or branch gives one value less.
    Narrow(Inst, usize),
    /// An operand in place of a result.
    Operand(Value, Value),
    /// A constant in place of a result.
    Constant(Value),
    /// An extent in place of another.
    Extent(u32, u32),
    /// An element type in place of another.
    Elem(Elem, Elem),
}

/// The possible simplifications, the boldest first.
pub fn simplifications(case: &Case) -> Vec<Simplification> {
    let k = &case.kernel;
    let mut all = Vec::new();
    let mut plain = Vec::new();
    k.walk(|_, inst| {
        let data = &k.insts[inst];
        if data.op.has_effect() {
            all.push(Simplification::Drop(inst));
        }
        match data.op {
            Op::For | Op::While => all.push(Simplification::Skip(inst)),
            Op::If => {}
            _ => plain.push(inst),
        }
        all.extend(data.blocks.iter().map(|&b| Simplification::Inline(inst, b)));
        let narrow = |at| Simplification::Narrow(inst, at);
        all.extend((0..k.results(inst).len()).filter(|_| !data.blocks.is_empty()).map(narrow));
    });
    for &inst in plain.iter().rev() {
        for &r in k.results(inst) {
            // A size instead of a number of tiles would only enlarge the grid.
            let shrinks = k.insts[inst].op != Op::Binary(BinOp::CeilDiv);
            let like = |a: &&Value| shrinks && k.ty(**a) == k.ty(r);
            all.extend(k.args(inst).iter().filter(like).map(|&a| Simplification::Operand(r, a)));
            let constant = matches!(k.insts[inst].op, Op::Int(_) | Op::Float(_) | Op::Full | Op::Dim(_));
            if !constant && matches!(k.ty(r), Type::Tile(..) | Type::Scalar(_)) {
                all.push(Simplification::Constant(r));
            }
        }
    }
    all.extend(mappings(&case.mapping).into_iter().map(Simplification::Mapping));
    numbers(case, &mut all);
    all
}

/// Smaller numbers: extents, sizes, facts, types.
fn numbers(case: &Case, all: &mut Vec<Simplification>) {
    let k = &case.kernel;
    if !k.tunables.is_empty() {
        all.push(Simplification::Tunables);
    }
    for (i, (_, v)) in case.mapping.tunables.iter().enumerate() {
        all.extend([v / 2, v / 4].into_iter().filter(|v| *v > 0).map(|v| Simplification::Tunable(i, v)));
    }
    for e in edit::extents(k) {
        all.extend([e / 4, e / 2].into_iter().filter(|t| *t > 0).map(|t| Simplification::Extent(e, t)));
    }
    if case.sms > 1 {
        all.push(Simplification::Multiprocessors(1));
    }
    for (name, &v) in &case.sizes {
        let Some(facts) = k.params.iter().find(|p| p.name == *name).map(|p| p.facts) else { continue };
        let fits = |n: &i64| *n < v && n % facts.multiple == 0 && (facts.min..=facts.max).contains(n);
        let smaller =
            [0, 1, facts.multiple, v / 2, v / 2 / facts.multiple * facts.multiple, v - facts.multiple];
        all.extend(smaller.into_iter().filter(fits).map(|n| Simplification::Size(name.clone(), n)));
    }
    for (i, p) in k.params.iter().enumerate() {
        if p.facts != Facts::default() {
            all.push(Simplification::Facts(i));
        }
    }
    for e in [Elem::Bf16, Elem::F16, Elem::Uint(32), Elem::F64, Elem::Tf32] {
        let to = if e.is_float() { Elem::F32 } else { Elem::I32 };
        all.push(Simplification::Elem(e, to));
    }
}

/// Each with one decision less.
fn mappings(m: &Mapping) -> Vec<Mapping> {
    let mut all = Vec::new();
    let mut whole = |change: fn(&mut KernelMapping, KernelMapping)| {
        let mut new = m.clone();
        change(&mut new.whole, KernelMapping::default());
        all.push(new);
    };
    whole(|w, d| *w = d);
    whole(|w, d| w.pdl = d.pdl);
    whole(|w, d| w.persistent = d.persistent);
    whole(|w, d| w.raster = d.raster);
    whole(|w, d| w.counter = d.counter);
    whole(|w, d| w.epilogue = d.epilogue);
    whole(|w, d| w.cluster = d.cluster);
    whole(|w, d| w.pingpong = d.pingpong);
    whole(|w, d| w.blocks = d.blocks);
    whole(|w, d| w.warps = d.warps);
    whole(|w, _| w.warps = w.warps.map(|_| 1));
    whole(|w, d| w.chunk = d.chunk);
    whole(|w, d| w.bulk_store = d.bulk_store);
    whole(|w, d| w.products = d.products);
    for i in 0..m.loops.len() {
        let mut looped = |change: fn(&mut LoopMapping, LoopMapping)| {
            let mut new = m.clone();
            change(&mut new.loops[i].1, LoopMapping::default());
            all.push(new);
        };
        looped(|l, d| l.pipeline = d.pipeline);
        looped(|l, d| l.producers = d.producers);
        looped(|l, d| l.consumers = d.consumers);
        looped(|l, d| l.wait = d.wait);
        let mut new = m.clone();
        new.loops.remove(i);
        all.push(new);
    }
    for i in 0..m.promises.len() {
        let mut new = m.clone();
        new.promises.remove(i);
        all.push(new);
    }
    all.retain(|new| new != m);
    all
}

/// Applies a simplification, where it applies.
pub fn apply(case: &mut Case, step: &Simplification) -> Option<()> {
    let k = &mut case.kernel;
    match step {
        Simplification::Tunables => {
            *k = warplift_isel::map::do_tunables(k, &case.mapping).ok()?;
            k.tunables.clear();
            take(&mut case.mapping.tunables);
        }
        Simplification::Tunable(i, v) => case.mapping.tunables.get_mut(*i)?.1 = *v,
        Simplification::Mapping(m) => case.mapping.clone_from(m),
        Simplification::Multiprocessors(n) => case.sms = *n,
        Simplification::Size(name, v) => *case.sizes.get_mut(name)? = *v,
        Simplification::Facts(i) => k.params.get_mut(*i)?.facts = Facts::default(),
        Simplification::Drop(inst) => edit::do_drop(k, *inst)?,
        Simplification::Skip(inst) => {
            let results = k.results(*inst).to_vec();
            let init = k.args(*inst).get(k.args(*inst).len() - results.len()..)?.to_vec();
            for (r, v) in results.into_iter().zip(init) {
                edit::do_replace(k, r, v);
            }
            edit::do_drop(k, *inst)?;
        }
        Simplification::Inline(inst, block) => {
            let params = match k.insts[*inst].op {
                Op::For => {
                    let args = k.args(*inst);
                    args[..1].iter().chain(&args[3..]).copied().collect()
                }
                _ => k.args(*inst).to_vec(),
            };
            edit::do_inline(k, *inst, *block, &params)?;
        }
        Simplification::Narrow(inst, at) => edit::do_narrow(k, *inst, *at)?,
        Simplification::Operand(result, operand) => edit::do_replace(k, *result, *operand),
        Simplification::Constant(result) => {
            let ValueDef::Result(inst, _) = k.values[*result].def else { return None };
            let ty = k.ty(*result);
            let constant = edit::constant_before(k, inst, ty)?;
            edit::do_replace(k, *result, constant);
        }
        Simplification::Extent(from, to) => edit::do_extent(k, *from, *to),
        Simplification::Elem(from, to) => edit::do_elem(k, *from, *to),
    }
    Some(())
}
