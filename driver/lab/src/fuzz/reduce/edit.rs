//! Edits of a kernel. They keep it well formed, or the verifier refuses the result.

use rustc_hash::FxHashSet;
use warplift_ir::tile::{Block, Dim, Inst, Kernel, Loc, MAX_RANK, Op, Shape, Type, Value, ValueList};
use warplift_ir::types::Elem;

/// Puts one value in place of another everywhere.
pub fn do_replace(k: &mut Kernel, from: Value, to: Value) {
    let all: Vec<Inst> = k.insts.keys().collect();
    for inst in all {
        let mut list = k.insts[inst].args;
        for arg in list.as_mut_slice(&mut k.pool).iter_mut().filter(|a| **a == from) {
            *arg = to;
        }
        k.insts[inst].args = list;
    }
    for g in k.grid.iter_mut().filter(|g| **g == from) {
        *g = to;
    }
}

/// The block and place of an instruction.
pub fn place(k: &Kernel, inst: Inst) -> Option<(Block, usize)> {
    k.blocks.iter().find_map(|(b, d)| Some((b, d.insts.iter().position(|&i| i == inst)?)))
}

/// Removes an instruction without results from its block.
pub fn do_drop(k: &mut Kernel, inst: Inst) -> Option<()> {
    let (block, at) = place(k, inst)?;
    k.blocks[block].insts.remove(at);
    Some(())
}

/// A constant of a scalar or tile type before an instruction.
pub fn constant_before(k: &mut Kernel, inst: Inst, ty: Type) -> Option<Value> {
    let (block, at) = place(k, inst)?;
    let scalar = Type::Scalar(ty.elem());
    let op = if ty.elem().is_float() { Op::Float(1.0) } else { Op::Int(1) };
    let one = k.make_inst(op, &[], &[scalar], &[], Loc::default());
    k.blocks[block].insts.insert(at, one);
    let one = k.result(one);
    if ty.shape().is_none() {
        return Some(one);
    }
    let full = k.make_inst(Op::Full, &[one], &[ty], &[], Loc::default());
    k.blocks[block].insts.insert(at + 1, full);
    Some(k.result(full))
}

/// Puts a nested block in place of the instruction that holds it; `params` stand for the block's parameters.
pub fn do_inline(k: &mut Kernel, inst: Inst, nested: Block, params: &[Value]) -> Option<()> {
    let (block, at) = place(k, inst)?;
    let from = k.blocks[nested].params.clone();
    for (&p, &v) in from.iter().zip(params) {
        do_replace(k, p, v);
    }
    let yields = k.yields(nested).to_vec();
    let mut body = std::mem::take(&mut k.blocks[nested].insts);
    body.pop();
    k.blocks[block].insts.splice(at..=at, body);
    let skipped = yields.len() - k.results(inst).len();
    let results = k.results(inst).to_vec();
    for (result, y) in results.into_iter().zip(yields.into_iter().skip(skipped)) {
        do_replace(k, result, y);
    }
    Some(())
}

/// Removes one result from a loop (with its carried value) or from an `if`.
pub fn do_narrow(k: &mut Kernel, inst: Inst, at: usize) -> Option<()> {
    let result = *k.results(inst).get(at)?;
    let ty = k.ty(result);
    // Where the carried value begins, enters the body, and is yielded.
    let places = match k.insts[inst].op {
        Op::For => Some([3 + at, 1 + at, at]),
        Op::While => Some([at, at, 1 + at]),
        _ => None,
    };
    let stand_in = match places {
        Some([start, ..]) => *k.args(inst).get(start)?,
        None => constant_before(k, inst, ty)?,
    };
    for nested in k.insts[inst].blocks.clone() {
        let last = *k.blocks[nested].insts.last()?;
        remove(k, last, places.map_or(at, |p| p[2]), |d| &mut d.args);
        if let Some([_, param, _]) = places {
            let p = k.blocks[nested].params.remove(param);
            do_replace(k, p, stand_in);
        }
    }
    if let Some([start, ..]) = places {
        remove(k, inst, start, |d| &mut d.args);
    }
    remove(k, inst, at, |d| &mut d.results);
    do_replace(k, result, stand_in);
    Some(())
}

fn remove(k: &mut Kernel, inst: Inst, at: usize, of: fn(&mut warplift_ir::tile::InstData) -> &mut ValueList) {
    let list = of(&mut k.insts[inst]);
    list.remove(at, &mut k.pool);
}

/// Replaces a constant extent everywhere, and numbers that are equal to it.
pub fn do_extent(k: &mut Kernel, from: u32, to: u32) {
    let dim = |d: Dim| if d.constant() == Some(from) { Dim::new(to) } else { d };
    do_types(k, |ty| match ty {
        Type::Tile(e, s) => {
            let dims: Vec<Dim> = s.dims().iter().map(|&d| dim(d)).collect();
            Shape::new(&dims).map_or(ty, |s| Type::Tile(e, s))
        }
        other => other,
    });
    for data in k.insts.values_mut() {
        match &mut data.op {
            Op::Dim(d) => *d = dim(*d),
            Op::Int(v) if *v == i64::from(from) => *v = to.into(),
            Op::Slice(offsets) => offsets.iter_mut().for_each(|d| *d = dim(*d)),
            _ => {}
        }
    }
}

/// Replaces an element type everywhere.
pub fn do_elem(k: &mut Kernel, from: Elem, to: Elem) {
    let elem = |e: Elem| if e == from { to } else { e };
    do_types(k, |ty| match ty {
        Type::Scalar(e) => Type::Scalar(elem(e)),
        Type::Ptr(e) => Type::Ptr(elem(e)),
        Type::Tile(e, s) => Type::Tile(elem(e), s),
        Type::View(e, rank) => Type::View(elem(e), rank),
    });
}

fn do_types(k: &mut Kernel, change: impl Fn(Type) -> Type) {
    for data in k.values.values_mut() {
        data.ty = change(data.ty);
    }
}

/// Constant extents of tiles, the greatest first.
pub fn extents(k: &Kernel) -> Vec<u32> {
    let mut all: Vec<u32> = Vec::with_capacity(MAX_RANK);
    k.walk(|_, i| {
        for &v in k.results(i) {
            let shape = k.ty(v).shape();
            all.extend(shape.iter().flat_map(|s| s.dims()).filter_map(|d| d.constant()).filter(|&e| e > 1));
        }
    });
    all.sort_unstable_by(|a, b| b.cmp(a));
    all.dedup();
    all
}

/// Drops instructions without effect whose results nobody uses, and parameters that nobody uses.
pub fn do_dead(k: &mut Kernel) {
    loop {
        let mut used: FxHashSet<Value> = k.grid.iter().copied().collect();
        k.walk(|_, inst| used.extend(k.args(inst)));
        let dead = |i: Inst| {
            let keeps = matches!(k.insts[i].op, Op::Yield) || effects(k, i);
            !keeps && !k.results(i).iter().any(|r| used.contains(r))
        };
        let doomed: Vec<Inst> =
            k.blocks.values().flat_map(|d| d.insts.iter().copied()).filter(|&i| dead(i)).collect();
        let unused: Vec<Value> = k.params.iter().map(|p| p.value).filter(|v| !used.contains(v)).collect();
        if doomed.is_empty() && unused.is_empty() {
            return;
        }
        for data in k.blocks.values_mut() {
            data.insts.retain(|i| !doomed.contains(i));
        }
        k.params.retain(|p| !unused.contains(&p.value));
        let entry = k.entry;
        k.blocks[entry].params.retain(|v| !unused.contains(v));
    }
}

/// Whether an instruction, or one nested in it, has an effect.
fn effects(k: &Kernel, inst: Inst) -> bool {
    let data = &k.insts[inst];
    let mut nested = data.blocks.iter().flat_map(|&b| &k.blocks[b].insts);
    data.op.has_effect() || nested.any(|&i| effects(k, i))
}
