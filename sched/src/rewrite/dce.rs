//! Dead code elimination: drops pure instructions and block parameters that nothing reads. A promise about a number stays:
//! the simulator checks it.

use rustc_hash::FxHashSet;
use warplift_ir::machine::{Func, Value};

/// Drops dead instructions and block parameters.
pub fn do_dce(func: &mut Func<'_>) {
    let live = live_values(func);
    let blocks = func.order.clone();
    for &block in &blocks {
        func.retain(block, |func, i| {
            let d = &func.insts[i];
            d.op.stays() || d.results.iter().any(|r| live.contains(r))
        });
    }
    for &block in &blocks {
        drop_params(func, block, &live);
    }
}

/// Values that effects depend on.
fn live_values(func: &Func<'_>) -> FxHashSet<Value> {
    let mut live: FxHashSet<Value> = FxHashSet::default();
    let mut work: Vec<Value> = Vec::new();
    let effects =
        func.order.iter().flat_map(|&b| &func.blocks[b].insts).filter(|i| func.insts[**i].op.stays());
    for &i in effects {
        let d = &func.insts[i];
        work.extend(d.args.iter().chain(d.guard.as_ref().map(|g| &g.pred)));
    }
    // Arguments of a parameter, by (block, number).
    let calls: Vec<_> = func.order.iter().flat_map(|&b| func.successors(b).to_vec()).collect();
    while let Some(v) = work.pop() {
        if !live.insert(v) {
            continue;
        }
        match func.values[v].def {
            warplift_ir::machine::ValueDef::Result(i, _) => {
                let d = &func.insts[i];
                work.extend(d.args.iter().chain(d.guard.as_ref().map(|g| &g.pred)));
            }
            warplift_ir::machine::ValueDef::Param(b, n) => {
                let passed = calls.iter().filter(|c| c.block == b).filter_map(|c| c.args.get(n as usize));
                work.extend(passed);
            }
        }
    }
    live
}

fn drop_params(func: &mut Func<'_>, block: warplift_ir::machine::Block, live: &FxHashSet<Value>) {
    let kept: Vec<usize> = (0..func.blocks[block].params.len())
        .filter(|&n| live.contains(&func.blocks[block].params[n]))
        .collect();
    if kept.len() == func.blocks[block].params.len() {
        return;
    }
    let params: Vec<Value> = kept.iter().map(|&n| func.blocks[block].params[n]).collect();
    for (n, &p) in params.iter().enumerate() {
        func.values[p].def = warplift_ir::machine::ValueDef::Param(block, n as u32);
    }
    func.blocks[block].params = params;
    for b in func.order.clone() {
        let Some(t) = func.terminator(b) else { continue };
        for i in 0..func.insts[t].targets.len() {
            if func.insts[t].targets[i].block == block {
                let args: Vec<Value> = kept.iter().map(|&n| func.insts[t].targets[i].args[n]).collect();
                func.set_target(t, i, block, &args);
            }
        }
    }
}
