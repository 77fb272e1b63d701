//! Two waits that follow each other become one: their loads fill one ring, which needs one wait and one release.
//!
//! ```text
//!  s = load w          s = load w
//!  h = load b          h = load b
//!  await s       ─►    await s, h
//!  .. read s ..        .. read s ..
//!  await h             .. read h ..
//!  .. read h ..
//! ```
//!
//! Only pure instructions and loads may stand between the waits: these start later than they could, by the time that the
//! second load takes. A kernel with products is left alone, since lowering has grouped its loads by the product that starts
//! first. A tile that another loop reads again is left alone too: its stages end there.

use crate::analysis::{buffer_of, is_product};
use rustc_hash::FxHashSet;
use warplift_ir::machine::{Block, Buffer, Func, Inst, InstData, Program};
use warplift_ir::target::{Effect, Opcode};

/// Joins the awaits of every block.
pub fn do_merge_waits<'a>(mut program: Program<'a>) -> Program<'a> {
    let rereads = program.epilogue_role.iter().flat_map(|r| &r.rereads).map(|a| a.0).collect();
    let func = &mut program.func;
    if func.insts.values().any(|d| is_product(d.op)) {
        return program;
    }
    for block in func.blocks.keys().collect::<Vec<_>>() {
        while let Some((first, second)) = neighbours(func, block, &rereads) {
            let both: Vec<_> = [first, second].iter().flat_map(|&i| func.insts[i].args).copied().collect();
            func.set_args(first, &both);
            func.remove(second);
            func.set_args(second, &[]);
        }
    }
    program
}

/// Two awaits of loads of this block with no effect between, the loads before both.
fn neighbours(func: &Func<'_>, block: Block, rereads: &FxHashSet<Buffer>) -> Option<(Inst, Inst)> {
    let insts = &func.blocks[block].insts;
    let mut last: Option<usize> = None;
    for (at, &inst) in insts.iter().enumerate() {
        let d = &func.insts[inst];
        match d.op {
            Opcode::Await if is_own(func, block, inst, rereads) => {
                let before =
                    |l: usize| d.args.iter().all(|&e| insts[..l].iter().any(|&i| func.def(e) == Some(i)));
                match last {
                    Some(l) if before(l) => return Some((insts[l], inst)),
                    _ => last = Some(at),
                }
            }
            _ if d.op.is_async_load() || matches!(d.op.effect(), Effect::Pure | Effect::Read) => {}
            _ => last = None,
        }
    }
    None
}

/// Whether an await waits for tensor copies of its own block, whose tiles nothing else waits for.
fn is_own(func: &Func<'_>, block: Block, inst: Inst, rereads: &FxHashSet<Buffer>) -> bool {
    let own = |e| {
        let here = func
            .def(e)
            .is_some_and(|def| func.block_of(def) == Some(block) && func.insts[def].op.is_async_load());
        let alone = |b: Buffer| {
            let waits = |d: &InstData<'_>| {
                d.op == Opcode::Await && d.args.iter().any(|&v| buffer_of(func, v) == Some(b))
            };
            func.insts.values().filter(|d| waits(d)).count() == 1
        };
        here && buffer_of(func, e).is_some_and(|b| !rereads.contains(&b) && alone(b))
    };
    func.insts[inst].args.iter().all(|&e| own(e))
}
