//! Asynchronous copies: their data may be read only after a wait that covers them.
//!
//! A forward analysis. The state maps each value that a copy may still be writing to its AGE: the
//! number of groups committed after its own; -1 before its own is committed. `async_wait n`
//! finishes the ages of `n` and more. Where paths meet the younger age counts; loops are repeated until
//! nothing changes. Passing such a value on (carry, yield) is no read.

use super::{Block, Inst, Kernel, Op, Value, Verifier};
use rustc_hash::FxHashMap;

type State = FxHashMap<Value, i64>;

/// Limit on the instructions that the analysis visits, because nested loops multiply.
const BUDGET: u32 = 1 << 20;

struct Analysis<'a> {
    kernel: &'a Kernel,
    budget: u32,
    /// Instructions that read too early, with the operand.
    early: Vec<(Inst, Value)>,
}

pub(super) fn check(verifier: &mut Verifier<'_>) {
    let kernel = verifier.kernel;
    let copies = |i: &Inst| matches!(kernel.insts[*i].op, Op::AsyncCopy);
    if !verifier.insts.iter().any(copies) {
        return;
    }
    let mut analysis = Analysis { kernel, budget: BUDGET, early: Vec::new() };
    analysis.block(kernel.entry, &mut State::default());
    let mut early = std::mem::take(&mut analysis.early);
    early.sort_unstable();
    early.dedup();
    for (inst, value) in early {
        let name = match kernel.names[value].as_str() {
            "" => value.to_string(),
            name => format!("`{name}`"),
        };
        let message = format!("reads {name}, which an asynchronous copy may still be writing: wait for it");
        verifier.error_at(inst, message);
    }
    if analysis.budget == 0 {
        verifier.error("loops around asynchronous copies are nested too deep to check".to_owned());
    }
}

impl Analysis<'_> {
    fn block(&mut self, block: Block, state: &mut State) {
        for &inst in &self.kernel.blocks[block].insts {
            self.budget = self.budget.saturating_sub(1);
            if self.budget == 0 {
                return;
            }
            self.inst(inst, state);
        }
    }

    fn inst(&mut self, inst: Inst, state: &mut State) {
        let kernel = self.kernel;
        let args = kernel.args(inst);
        match kernel.insts[inst].op {
            Op::AsyncCopy => {
                self.reads(inst, args, state);
                state.insert(kernel.result(inst), -1);
            }
            Op::AsyncCommit => state.values_mut().for_each(|age| *age += 1),
            Op::AsyncWait(left) => state.retain(|_, age| *age < i64::from(left)),
            Op::Yield => {}
            Op::For => {
                let (range, init) = args.split_at(3);
                self.reads(inst, range, state);
                self.repeat(inst, init, 1, 0, state);
            }
            Op::While => self.repeat(inst, args, 0, 1, state),
            Op::If => self.branch(inst, state),
            _ => self.reads(inst, args, state),
        }
    }

    fn reads(&mut self, inst: Inst, args: &[Value], state: &State) {
        let early = args.iter().filter(|v| state.contains_key(v));
        self.early.extend(early.map(|&v| (inst, v)));
    }

    /// A loop: parameters from `param` on are carried, yields from `first` on.
    fn repeat(&mut self, inst: Inst, init: &[Value], param: usize, first: usize, state: &mut State) {
        let kernel = self.kernel;
        let body = kernel.insts[inst].blocks[0];
        let params = kernel.blocks[body].params.get(param..).unwrap_or_default();
        let yields = kernel.yields(body).get(first..).unwrap_or_default();
        let mut head = state.clone();
        pass(init, params, state, &mut head);
        loop {
            let mut end = head.clone();
            self.block(body, &mut end);
            let mut next = head.clone();
            merge(&mut next, &end);
            pass(yields, params, &end, &mut next);
            if next == head || self.budget == 0 {
                break;
            }
            head = next;
        }
        // The parameters hold the values at the start of any iteration, including those that the last one yielded.
        pass(params, kernel.results(inst), &head.clone(), &mut head);
        *state = head;
    }

    fn branch(&mut self, inst: Inst, state: &mut State) {
        let kernel = self.kernel;
        self.reads(inst, kernel.args(inst), state);
        let mut merged = None;
        for &block in &kernel.insts[inst].blocks {
            let mut end = state.clone();
            self.block(block, &mut end);
            let at_end = end.clone();
            pass(kernel.yields(block), kernel.results(inst), &at_end, &mut end);
            merge(merged.get_or_insert_with(|| end.clone()), &end);
        }
        *state = merged.unwrap_or_default();
    }
}

/// What is unfinished on either path, at its younger age.
fn merge(into: &mut State, other: &State) {
    for (&v, &age) in other {
        let own = into.entry(v).or_insert(age);
        *own = age.min(*own);
    }
}

/// Values that take over the state of others.
fn pass(from: &[Value], to: &[Value], state: &State, into: &mut State) {
    for (f, &t) in from.iter().zip(to) {
        if let Some(&age) = state.get(f) {
            let own = into.entry(t).or_insert(age);
            *own = age.min(*own);
        }
    }
}
