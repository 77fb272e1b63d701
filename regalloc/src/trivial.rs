//! One name per value, no reuse: a stand-in until the planner.

use crate::Budget;
use crate::normalize::Normalized;
use crate::parallel::sequence;
use warplift_ir::entity::SecondaryMap;
use warplift_ir::machine::{Allocation, Operand, Reg, Ty, Value};
use warplift_ir::target::Opcode;

/// A name for each value.
pub(crate) fn assign(normal: &Normalized<'_>, _budget: &Budget<'_>) -> Allocation {
    let func = &normal.func;
    let mut places: SecondaryMap<Value, Option<Operand>> = SecondaryMap::new();
    // The first name of each class is the temporary of parallel moves.
    let [mut r, mut d, mut p] = [1u16; 3];
    for (v, data) in func.values.iter() {
        let constant = func.constant(v).filter(|_| !normal.written[v]);
        let bump = |n: &mut u16, by: u16| {
            *n += by;
            *n - by
        };
        places[v] = Some(match (constant, data.ty) {
            (Some(c), _) => Operand::Literal(c),
            (_, Ty::Pred) => Operand::Scalar(Reg::Pred(bump(&mut p, 1))),
            (_, Ty::B64) => Operand::Scalar(Reg::D(bump(&mut d, 1))),
            (_, Ty::B16 | Ty::B32) => Operand::Scalar(Reg::R(bump(&mut r, 1))),
            (_, Ty::Frag { regs, .. }) => Operand::Fragment(bump(&mut r, regs), regs),
            (_, Ty::Event) => Operand::None,
        });
    }
    for inst in func.order.iter().flat_map(|&b| &func.blocks[b].insts) {
        let data = &func.insts[*inst];
        if data.op == Opcode::Wgmma {
            places[data.results[0]] = places[data.args[0]].clone();
        }
    }
    let place = |v: Value| places[v].clone().unwrap_or(Operand::None);
    let mut alloc = Allocation { names: [r.into(), d.into(), p.into()], ..Allocation::default() };
    for inst in func.order.iter().flat_map(|&b| &func.blocks[b].insts).copied() {
        let data = &func.insts[inst];
        let values = data.args.iter().chain(data.results).copied().chain(data.guard.map(|g| g.pred));
        alloc.insts[inst] = values.map(place).collect();
        let mut pairs = Vec::new();
        for call in &data.targets {
            for (&from, &to) in call.args.iter().zip(&func.blocks[call.block].params) {
                match (place(from), place(to)) {
                    (Operand::Scalar(a), Operand::Scalar(b)) => pairs.push((a, b)),
                    (Operand::Fragment(a, n), Operand::Fragment(b, _)) => {
                        pairs.extend((0..n).map(|i| (Reg::R(a + i), Reg::R(b + i))));
                    }
                    _ => {}
                }
            }
        }
        alloc.before[inst] = sequence(&pairs, |r| match r {
            Reg::R(_) => Reg::R(0),
            Reg::D(_) => Reg::D(0),
            Reg::Pred(_) => Reg::Pred(0),
        });
    }
    alloc
}
