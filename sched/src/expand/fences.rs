//! Drops every `wgmma.fence` that no wgmma needs.
//!
//! A fence orders accesses of registers before the wgmma that use them; accumulators that one wgmma after
//! another of the same shape adds to need none between (PTX ISA, `wgmma.fence`). ptxas writes the same code
//! with and without the others. A forward analysis knows the fragments touched since the last fence:
//!
//! ```text
//!  fence ─► {}      any access ─► + its fragments      block ─► + its parameters      join ─► union
//! ```

use rustc_hash::{FxHashMap, FxHashSet};
use warplift_ir::machine::{Attr, Block, Func, Inst, Value};
use warplift_ir::target::Opcode;

/// Fragments touched since the last fence; `None`: there was none yet.
type Touched = Option<FxHashSet<Value>>;

/// Drops fences that are followed only by wgmma that need none.
pub fn do_fences(func: &mut Func<'_>) {
    let uses = uses(func);
    let before = touched_before(func);
    for block in func.order.clone() {
        let Some(mut state) = before.get(&block).cloned() else { continue };
        let insts = std::mem::take(&mut func.blocks[block].insts);
        let mut kept = Vec::with_capacity(insts.len());
        for (at, &inst) in insts.iter().enumerate() {
            let idle =
                func.insts[inst].op == Opcode::WgmmaFence && is_idle(func, &insts[at..], &state, &uses);
            if !idle {
                step(func, inst, &mut state);
                kept.push(inst);
            }
        }
        func.blocks[block].insts = kept;
    }
}

/// Whether the wgmma behind a fence is ordered without it.
fn is_idle(func: &Func<'_>, rest: &[Inst], state: &Touched, uses: &FxHashMap<Value, u32>) -> bool {
    let Some(touched) = state else { return false };
    let orders = |i: &&Inst| matches!(func.insts[**i].op, Opcode::Wgmma | Opcode::WgmmaFence);
    let next = rest[1..].iter().find(orders).map(|&i| &func.insts[i]);
    let Some(next) = next.filter(|d| d.op == Opcode::Wgmma) else { return false };
    let Attr::Wgmma(attr) = &next.attr else { return false };
    let acc = next.args[0];
    // A register that something else reads later, or that was never a product's, may be copied.
    let alone = uses.get(&acc) == Some(&1) && !touched.contains(&acc);
    let same = match func.def(acc).map(|i| &func.insts[i]) {
        None => true,
        Some(d) => matches!(&d.attr, Attr::Wgmma(w) if (w.n, w.acc) == (attr.n, attr.acc)),
    };
    // Nothing may touch registers between here and there.
    let quiet = rest[1..].iter().take_while(|i| !orders(i)).all(|&i| !touches(func, i));
    alone && same && quiet && attr.a.is_some()
}

fn uses(func: &Func<'_>) -> FxHashMap<Value, u32> {
    let mut count = FxHashMap::default();
    for inst in func.order.iter().flat_map(|&b| &func.blocks[b].insts) {
        let d = &func.insts[*inst];
        let passed = d.targets.iter().flat_map(|t| t.args);
        for &v in d.args.iter().chain(passed).filter(|v| func.ty(**v).is_frag()) {
            *count.entry(v).or_insert(0) += 1;
        }
    }
    count
}

fn fragments<'f>(func: &'f Func<'_>, inst: Inst) -> impl Iterator<Item = Value> + 'f {
    let d = &func.insts[inst];
    d.args.iter().chain(d.results).copied().filter(|&v| func.ty(v).is_frag())
}

fn touches(func: &Func<'_>, inst: Inst) -> bool {
    func.insts[inst].op != Opcode::Undef && fragments(func, inst).next().is_some()
}

fn step(func: &Func<'_>, inst: Inst, state: &mut Touched) {
    match func.insts[inst].op {
        Opcode::WgmmaFence => *state = Some(FxHashSet::default()),
        Opcode::Wgmma | Opcode::Undef => {}
        _ => {
            if let Some(touched) = state {
                touched.extend(fragments(func, inst));
            }
        }
    }
}

/// What is touched at the start of each block that is reached.
fn touched_before(func: &Func<'_>) -> FxHashMap<Block, Touched> {
    let mut before: FxHashMap<Block, Touched> = FxHashMap::default();
    before.insert(func.entry, None);
    let mut work = vec![func.entry];
    while let Some(block) = work.pop() {
        let mut state = before.get(&block).cloned().flatten();
        func.blocks[block].insts.iter().for_each(|&i| step(func, i, &mut state));
        for call in func.successors(block) {
            let mut into = state.clone();
            if let Some(touched) = &mut into {
                touched.extend(func.blocks[call.block].params.iter().filter(|p| func.ty(**p).is_frag()));
            }
            if merge(&mut before, call.block, into) {
                work.push(call.block);
            }
        }
    }
    before
}

/// Joins what comes from one predecessor; whether that is news.
fn merge(before: &mut FxHashMap<Block, Touched>, block: Block, into: Touched) -> bool {
    let Some(known) = before.get_mut(&block) else {
        before.insert(block, into);
        return true;
    };
    match (known, into) {
        (None, _) => false,
        (known, None) => {
            *known = None;
            true
        }
        (Some(known), Some(into)) => {
            let old = known.len();
            known.extend(into);
            known.len() > old
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warplift_ir::Bump;
    use warplift_ir::machine::{BlockCall, Buffer, NewInst, Place, SharedOperand, Ty, WgmmaAttr};
    use warplift_ir::types::Elem;

    /// A loop of two products on a carried fragment, something between them.
    fn body<'a>(bump: &'a Bump, between: Option<Opcode>) -> (Func<'a>, Block) {
        let mut f = Func::new(bump);
        let entry = f.entry;
        let (looped, exit) = (f.new_block(), f.new_block());
        f.order.extend([looped, exit]);
        let ty = Ty::frag(32);
        let push = |f: &mut Func<'a>, b, op, args: &[Value], results: &[Ty]| {
            f.push(b, NewInst::new(op, args, results))
        };
        let start = push(&mut f, entry, Opcode::Undef, &[], &[ty]);
        let start = f.result(start);
        let jump = push(&mut f, entry, Opcode::Br, &[], &[]);
        let into = f.list(&[start]);
        f.insts[jump].targets.push(BlockCall { block: looped, args: into });
        let mut acc = f.append_param(looped, ty, false);
        let on = push(&mut f, looped, Opcode::Const, &[], &[Ty::Pred]);
        let on = f.result(on);
        for i in 0..2 {
            push(&mut f, looped, Opcode::WgmmaFence, &[], &[]);
            let new = NewInst::new(Opcode::Wgmma, &[acc, on], &[ty]).attr(Attr::Wgmma(Box::new(attr())));
            let inst = f.push(looped, new);
            acc = f.result(inst);
            if let Some(op) = between.filter(|_| i == 0) {
                push(&mut f, looped, op, &[acc], &[]);
            }
        }
        let branch = push(&mut f, looped, Opcode::Br, &[], &[]);
        let out = f.list(&[acc]);
        f.insts[branch].targets.push(BlockCall { block: looped, args: out });
        let none = f.list(&[]);
        f.insts[branch].targets.push(BlockCall { block: exit, args: none });
        push(&mut f, exit, Opcode::Ret, &[], &[]);
        (f, looped)
    }

    fn attr() -> WgmmaAttr {
        let operand = SharedOperand {
            place: Place { buffer: Buffer::from_u32(0), offset: 0 },
            warpgroup_stride: 0,
            atom_stride: 0,
            steps: [0].into_iter().collect(),
            leading: 16,
            stride: 1024,
            swizzle: 128,
            mn_major: false,
        };
        let (elem, acc) = (Elem::F16, Elem::F32);
        WgmmaAttr {
            n: 64,
            elem,
            acc,
            m_atoms: 1,
            n_atoms: 1,
            k_steps: 1,
            a: Some(operand.clone()),
            b: operand,
        }
    }

    fn fences(between: Option<Opcode>) -> usize {
        let bump = Bump::new();
        let (mut f, looped) = body(&bump, between);
        do_fences(&mut f);
        f.blocks[looped].insts.iter().filter(|&&i| f.insts[i].op == Opcode::WgmmaFence).count()
    }

    #[test]
    fn only_the_first_product_of_a_sequence_needs_its_fence() {
        assert_eq!(fences(None), 1);
        assert_eq!(fences(Some(Opcode::StGlobal)), 2, "an accumulator was read between");
    }
}
