//! Loops and branches: operands, block parameters, yields and results agree.

use super::*;
use crate::tile::typing::{for_counter, if_condition};

impl Verifier<'_> {
    /// Checks a loop or branch whose blocks are sound.
    pub(super) fn region(&mut self, inst: Inst) {
        let kernel = self.kernel;
        let data = &kernel.insts[inst];
        let expected = match data.op {
            Op::For | Op::While => 1,
            Op::If => 2,
            _ => 0,
        };
        if data.blocks.len() != expected {
            return self.error_at(inst, format!("has {} blocks, not {expected}", data.blocks.len()));
        }
        let types = |values: &[Value]| -> Vec<Type> { values.iter().map(|&v| kernel.ty(v)).collect() };
        let args = types(kernel.args(inst));
        let results = types(kernel.results(inst));
        match data.op {
            Op::For => self.plural(inst, &args, &results),
            Op::While => {
                let mut yields = vec![Type::Scalar(Elem::Bool)];
                yields.extend(&args);
                self.body(inst, data.blocks[0], &args, &yields);
                self.results(inst, &results, &args);
            }
            Op::If => {
                if let Err(e) = if_condition(&kernel.tunables, &args) {
                    self.error_at(inst, e);
                }
                for &block in &data.blocks {
                    self.body(inst, block, &[], &results);
                }
            }
            _ => {}
        }
    }

    fn plural(&mut self, inst: Inst, args: &[Type], results: &[Type]) {
        let kernel = self.kernel;
        let counter = match for_counter(&kernel.tunables, args) {
            Ok(counter) => counter,
            Err(e) => return self.error_at(inst, e),
        };
        let step = kernel.args(inst).get(2).and_then(|&s| kernel.int_const(s));
        if step.is_some_and(|s| s < 1) {
            self.error_at(inst, "the step must be 1 or more");
        }
        let mut params = vec![counter];
        params.extend(&args[3..]);
        self.body(inst, kernel.insts[inst].blocks[0], &params, &params[1..]);
        self.results(inst, results, &args[3..]);
    }

    fn results(&mut self, inst: Inst, results: &[Type], carried: &[Type]) {
        // What an address stands for must be known where it is used.
        if carried.iter().any(|t| matches!(t, Type::Ptr(_))) {
            self.error_at(inst, "a loop carries no pointers: carry an index of a view");
        }
        if !same_types(results, carried) {
            let [carried, results] = [carried, results].map(|t| self.list(t));
            self.error_at(inst, format!("carries {carried} but gives {results}"));
        }
    }

    fn body(&mut self, inst: Inst, block: Block, params: &[Type], yields: &[Type]) {
        let kernel = self.kernel;
        let Some(data) = kernel.blocks.get(block) else {
            return;
        };
        let types = |values: &[Value]| -> Vec<Type> { values.iter().map(|&v| kernel.ty(v)).collect() };
        let found = types(&data.params);
        if !same_types(&found, params) {
            let [found, params] = [&found, params].map(|t| self.list(t));
            self.error_at(inst, format!("the block takes {found}, not {params}"));
        }
        let found = types(kernel.yields(block));
        if !same_types(&found, yields) {
            let [found, yields] = [&found, yields].map(|t| self.list(t));
            self.error_at(inst, format!("the block yields {found}, not {yields}"));
        }
    }
}
