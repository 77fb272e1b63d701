//! Verifiers of both levels of machine IR. A failure is a bug of the compiler. The driver prints the dump.

use super::*;
use crate::target::{Class, Opcode};
use rustc_hash::FxHashSet;

/// A mistake in a function.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{inst}: {message}")]
pub struct MachineError {
    /// Where.
    pub inst: Inst,
    /// What.
    pub message: String,
}

struct Verifier<'f, 'a> {
    func: &'f Func<'a>,
    errors: Vec<MachineError>,
}

impl Verifier<'_, '_> {
    fn check(&mut self, inst: Inst, ok: bool, message: impl FnOnce() -> String) {
        if !ok {
            self.errors.push(MachineError { inst, message: message() });
        }
    }

    /// The function's tables match its code.
    fn tables(&mut self) {
        let wrong = self.func.wrong_tables();
        self.errors.extend(wrong.into_iter().map(|(inst, message)| MachineError { inst, message }));
    }

    /// Numbers and classes of operands and results match the row.
    fn row(&mut self, inst: Inst) {
        let func = self.func;
        let data = &func.insts[inst];
        let op = data.op;
        let variadic = |c: &[Class]| c.contains(&Class::Any);
        if !variadic(op.args()) {
            let same = data.args.len() == op.args().len();
            self.check(inst, same, || {
                format!("{} takes {} operands, has {}", op.name(), op.args().len(), data.args.len())
            });
        }
        for (&v, &class) in data.args.iter().zip(op.args()).take_while(|(_, c)| **c != Class::Any) {
            let ty = func.ty(v);
            self.check(inst, fits(ty, class), || {
                format!("operand {v} of {} is {ty}, it wants {class:?}", op.name())
            });
        }
        for (&v, &class) in data.results.iter().zip(op.results()).take_while(|(_, c)| **c != Class::Any) {
            let ty = func.ty(v);
            self.check(inst, fits(ty, class), || {
                format!("result {v} of {} is {ty}, it gives {class:?}", op.name())
            });
        }
        self.maps(inst);
        if data.op == Opcode::Pick {
            self.picked(inst);
        }
    }

    /// All operands of a pick have the result's type.
    fn picked(&mut self, inst: Inst) {
        let func = self.func;
        let data = &func.insts[inst];
        let types = |vs: &[Value]| vs.iter().map(|&v| func.ty(v).whole()).collect::<Vec<_>>();
        let (of, want) = (types(data.args.get(1..).unwrap_or_default()), types(data.results));
        let same = !of.is_empty() && of.iter().all(|t| want == [*t]);
        self.check(inst, same, || format!("picks {want:?} of {of:?}"));
    }

    /// Every repetition stays inside its operands.
    fn maps(&mut self, inst: Inst) {
        let func = self.func;
        let data = &func.insts[inst];
        let Some(&result) = data.results.first().filter(|_| !data.maps.is_empty()) else { return };
        let times = func.ty(result).regs() as u16;
        for (map, &arg) in data.maps.iter().zip(data.args) {
            let regs = func.ty(arg).regs();
            let inside = (0..times).all(|i| map.at(i).is_none_or(|r| u32::from(r) < regs));
            self.check(inst, inside, || format!("index map of {arg} leaves its {regs} registers"));
        }
    }

    fn defined(&mut self, inst: Inst, known: &FxHashSet<Value>) {
        let data = &self.func.insts[inst];
        let guard = data.guard.map(|g| g.pred);
        let passed = data.targets.iter().flat_map(|t| t.args.iter());
        for &v in data.args.iter().chain(guard.iter()).chain(passed) {
            self.check(inst, known.contains(&v), || format!("{v} is used before its definition"));
        }
    }

    /// Structured form: definitions precede uses, in the same block or in a block around it.
    fn structured(&mut self, block: Block, known: &mut FxHashSet<Value>) {
        let data = &self.func.blocks[block];
        known.extend(&data.params);
        let mut local = data.params.clone();
        for &inst in &data.insts {
            self.row(inst);
            self.defined(inst, known);
            self.passed(inst);
            let nested = self.func.insts[inst].blocks.clone();
            for b in nested {
                self.structured(b, known);
            }
            known.extend(self.func.insts[inst].results);
            local.extend(self.func.insts[inst].results);
        }
        let ended = self
            .func
            .terminator(block)
            .is_some_and(|t| matches!(self.func.insts[t].op, Opcode::Yield | Opcode::Ret));
        if let Some(&last) = data.insts.last() {
            self.check(last, ended, || "block has no end".to_owned());
        }
        for v in local {
            known.remove(&v);
        }
    }

    /// The yielded values have the types of the results, and in loops also those of the initial values and parameters.
    fn passed(&mut self, inst: Inst) {
        let func = self.func;
        let data = &func.insts[inst];
        let types = |vs: &[Value]| vs.iter().map(|&v| func.ty(v).whole()).collect::<Vec<_>>();
        let want = types(data.results);
        for &b in &data.blocks {
            let yielded = func.terminator(b).map_or(Vec::new(), |t| types(func.insts[t].args));
            self.check(inst, yielded == want, || format!("{b} yields {yielded:?} for {want:?}"));
            if data.op == Opcode::For {
                let carried = types(func.blocks[b].params.get(1..).unwrap_or(&[]));
                let given = types(data.args.get(3..).unwrap_or(&[]));
                let same = carried == want && given == want;
                self.check(inst, same, || format!("{b} carries {carried:?} from {given:?} for {want:?}"));
                let decides = !data.is_conditional_loop() || want.first() == Some(&Ty::Pred);
                self.check(inst, decides, || format!("{b} yields no predicate that ends the loop"));
            }
        }
    }

    /// Fragments stay untouched while their instruction is in flight. Between a wgmma and the `await` of its event,
    /// only another wgmma may name its accumulator.
    fn in_flight(&mut self, block: Block) {
        let mut flying: Vec<(Value, Value)> = Vec::new();
        for &inst in &self.func.blocks[block].insts {
            let data = &self.func.insts[inst];
            match data.op {
                Opcode::Await => flying.retain(|(_, e)| !data.args.contains(e)),
                Opcode::Wgmma => flying.push((data.results[0], data.results[1])),
                Opcode::Yield => {
                    let free = flying.is_empty();
                    self.check(inst, free, || format!("{flying:?} in flight at the end of the block"));
                }
                _ => {
                    let touched = flying.iter().find(|(v, _)| data.args.contains(v)).copied();
                    self.check(inst, touched.is_none(), || format!("{touched:?} touched in flight"));
                }
            }
            for &b in &self.func.insts[inst].blocks {
                self.in_flight(b);
            }
        }
    }

    fn cfg(&mut self) {
        let func = self.func;
        for &block in &func.order {
            for (at, &inst) in func.blocks[block].insts.iter().enumerate() {
                self.row(inst);
                let data = &func.insts[inst];
                let last = at + 1 == func.blocks[block].insts.len();
                let ends = matches!(data.op, Opcode::Br | Opcode::BrIf | Opcode::Ret | Opcode::Trap);
                self.check(inst, last == ends, || {
                    format!("{} at the wrong place of {block}", data.op.name())
                });
                let structure =
                    [Opcode::For, Opcode::If, Opcode::Yield, Opcode::Await, Opcode::Pick].contains(&data.op);
                self.check(inst, !structure, || format!("{} is left after expansion", data.op.name()));
                let event = data.results.iter().any(|&r| func.ty(r) == Ty::Event);
                self.check(inst, !event, || "an event is left after expansion".to_owned());
                for t in &data.targets {
                    let types = |vs: &[Value]| vs.iter().map(|&v| func.ty(v).whole()).collect::<Vec<_>>();
                    let (want, have) = (types(&func.blocks[t.block].params), types(t.args));
                    self.check(inst, want == have, || format!("{} takes {want:?}, gets {have:?}", t.block));
                }
            }
        }
        self.dominance();
    }

    /// On every path, a definition precedes each use. This is a forward must-analysis over the blocks.
    fn dominance(&mut self) {
        let func = self.func;
        let mut at_entry: Vec<Option<FxHashSet<Value>>> = vec![None; func.blocks.len()];
        let index = |b: Block| b.as_u32() as usize;
        at_entry[index(func.entry)] = Some(FxHashSet::default());
        let mut changed = true;
        while changed {
            changed = false;
            for &block in &func.order {
                let Some(mut known) = at_entry[index(block)].clone() else { continue };
                let data = &func.blocks[block];
                known.extend(&data.params);
                known.extend(data.insts.iter().flat_map(|&i| func.insts[i].results));
                for t in func.successors(block) {
                    let slot = &mut at_entry[index(t.block)];
                    let before = slot.as_ref().map(FxHashSet::len);
                    match slot {
                        Some(s) => s.retain(|v| known.contains(v)),
                        None => *slot = Some(known.clone()),
                    }
                    changed |= slot.as_ref().map(FxHashSet::len) != before;
                }
            }
        }
        for &block in &func.order {
            let Some(mut known) = at_entry[index(block)].take() else { continue };
            known.extend(&func.blocks[block].params);
            for &inst in &func.blocks[block].insts {
                self.defined(inst, &known);
                known.extend(func.insts[inst].results);
            }
        }
    }
}

fn fits(ty: Ty, class: Class) -> bool {
    match class {
        Class::Any => true,
        Class::Pred => ty == Ty::Pred,
        Class::B16 => ty == Ty::B16,
        Class::B32 => ty == Ty::B32 || ty.is_frag(),
        Class::B64 => ty == Ty::B64,
    }
}

/// Checks a structured function.
///
/// # Errors
/// All that is wrong with it.
pub fn verify_structured(func: &Func<'_>) -> Result<(), Vec<MachineError>> {
    let mut v = Verifier { func, errors: Vec::new() };
    v.tables();
    v.structured(func.entry, &mut FxHashSet::default());
    v.in_flight(func.entry);
    if v.errors.is_empty() { Ok(()) } else { Err(v.errors) }
}

/// Checks a role after expansion.
///
/// # Errors
/// All that is wrong with it.
pub fn verify_scheduled(func: &Func<'_>) -> Result<(), Vec<MachineError>> {
    let mut v = Verifier { func, errors: Vec::new() };
    v.tables();
    v.cfg();
    if v.errors.is_empty() { Ok(()) } else { Err(v.errors) }
}
