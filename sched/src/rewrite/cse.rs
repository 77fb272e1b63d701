//! Value numbering inside each block: a pure scalar is computed once and used again. A uniform scalar is loaded once: it
//! comes from memory that the program writes nowhere.
//!
//! A value is kept over a short distance only. Over a longer one its register would cost more than the instruction that
//! computes it again. In the entry block the distance is unlimited: its values live until their loops anyway.

use rustc_hash::FxHashMap;
use warplift_ir::machine::{Attr, Block, Func, Inst, Ty, Value};
use warplift_ir::target::Opcode;

/// A value is kept over at most this many instructions for a second use. That is about the length of a stage's work,
/// whose addresses have common parts.
const REACH: usize = 96;

/// The key by which two scalars are equal: row, type (none for constants), attributes, operands, guard.
type Key<'a> = (Opcode, Ty, Attr, &'a [Value], Option<(Value, bool)>);

/// Merges equal pure scalars of each block.
pub fn do_cse(func: &mut Func<'_>) {
    let mut same: FxHashMap<Value, Value> = FxHashMap::default();
    for block in func.order.clone() {
        number(func, block, &mut same);
    }
    if same.is_empty() {
        return;
    }
    for block in func.order.clone() {
        for inst in func.blocks[block].insts.clone() {
            renamed(func, inst, &same);
        }
    }
}

/// Finds repeated values of a block. Operands are renamed on the way, so that repeated chains are found too.
fn number(func: &mut Func<'_>, block: Block, same: &mut FxHashMap<Value, Value>) {
    let reach = if block == func.entry { usize::MAX } else { REACH };
    let mut known: FxHashMap<Key<'_>, (Value, usize)> = FxHashMap::default();
    for (at, inst) in func.blocks[block].insts.clone().into_iter().enumerate() {
        renamed(func, inst, same);
        if !is_pure_scalar(func, inst) && !is_fixed_load(func, inst) {
            continue;
        }
        let d = &func.insts[inst];
        let result = d.results[0];
        let key = (d.op, func.ty(result), d.attr.clone(), d.args, d.guard.map(|g| (g.pred, g.negated)));
        match known.get(&key) {
            Some(&(v, from)) if at - from <= reach => {
                same.insert(result, v);
            }
            _ => {
                known.insert(key, (result, at));
            }
        }
    }
}

fn is_pure_scalar(func: &Func<'_>, inst: Inst) -> bool {
    let d = &func.insts[inst];
    let scalars = d.results.iter().chain(d.args).all(|&v| !func.ty(v).is_frag());
    let plain = d.guard.is_none() && d.maps.is_empty() && d.results.len() == 1;
    d.op.is_pure() && d.op != Opcode::Undef && scalars && plain
}

/// Whether an instruction loads a scalar that no thread writes: only such loads have uniform results.
fn is_fixed_load(func: &Func<'_>, inst: Inst) -> bool {
    let d = &func.insts[inst];
    d.op.is_global_load() && d.results.iter().all(|&r| func.values[r].uniform)
}

fn renamed(func: &mut Func<'_>, inst: Inst, same: &FxHashMap<Value, Value>) {
    if !same.is_empty() {
        func.rename(inst, |v| same.get(&v).copied().unwrap_or(v));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warplift_ir::Bump;
    use warplift_ir::machine::{Cursor, Guard, NewInst};
    use warplift_ir::tile::Loc;

    #[test]
    fn chains_of_repeated_scalars_become_one() {
        let bump = Bump::new();
        let mut func = Func::new(&bump);
        let entry = func.entry;
        let mut c = Cursor::new(&mut func, entry, Loc::default());
        let thread = c.op(Opcode::Tid, &[], Ty::B32);
        let addresses = [0, 1].map(|_| {
            let scaled = c.mul_imm(thread, 8);
            c.add_imm(scaled, 64)
        });
        let other = c.add_imm(thread, 64);
        for at in addresses.into_iter().chain([other]) {
            c.push(NewInst::new(Opcode::MbarArrive, &[at], &[]));
        }
        c.push(NewInst::new(Opcode::Ret, &[], &[]));
        do_cse(&mut func);
        super::super::dce::do_dce(&mut func);
        let insts = &func.blocks[entry].insts;
        let arrive: Vec<Value> = insts
            .iter()
            .filter(|&&i| func.insts[i].op == Opcode::MbarArrive)
            .map(|&i| func.insts[i].args[0])
            .collect();
        assert!(arrive[0] == arrive[1] && arrive[1] != arrive[2], "{arrive:?}");
        let adds = insts.iter().filter(|&&i| func.insts[i].op == Opcode::AddS32).count();
        assert_eq!(adds, 2);
    }

    #[test]
    fn a_uniform_scalar_is_loaded_once_under_one_guard() {
        let bump = Bump::new();
        let mut func = Func::new(&bump);
        let entry = func.entry;
        let mut c = Cursor::new(&mut func, entry, Loc::default());
        let from = c.imm_of(Ty::B64, 64);
        let guards = [0, 1].map(|v| c.imm_of(Ty::Pred, v));
        let load = |c: &mut Cursor<'_, '_>, pred| {
            let guard = Some(Guard { pred, negated: false });
            let attr = Attr::Mem { offset: 0, count: 1 };
            c.value(NewInst::new(Opcode::LdGlobal, &[from], &[Ty::B32]).attr(attr).guard(guard))
        };
        let loaded = [0, 0, 1, 0].map(|g| load(&mut c, guards[g]));
        for at in loaded {
            c.push(NewInst::new(Opcode::MbarArrive, &[at], &[]));
        }
        c.push(NewInst::new(Opcode::Ret, &[], &[]));
        loaded[..3].iter().for_each(|&v| func.values[v].uniform = true);
        do_cse(&mut func);
        let arrive = |&&i: &&Inst| func.insts[i].op == Opcode::MbarArrive;
        let of: Vec<Value> =
            func.blocks[entry].insts.iter().filter(arrive).map(|&i| func.insts[i].args[0]).collect();
        assert_eq!(of, [loaded[0], loaded[0], loaded[2], loaded[3]], "another guard, memory that is written");
    }
}
