//! The deferred epilogue: the loop over tiles is pipelined by one stage. The stores of a tile are spread over the first
//! iterations of the next tile's main loop.
//!
//! ```text
//!  main loop has at least P iterations?
//!   yes: for each tile { P peeled iterations, part p of the last tile's stores before wait p; the rest; results }
//!        then the last tile's stores
//!   no:  for each tile { main loop, of P - 1 iterations at most; stores }
//! ```
//!
//! If the number of iterations is another one for each tile, each tile decides: with too few of them, all of the last
//! tile's stores come before its main loop.

use super::role::Expand;
use crate::analysis::plain;
use crate::error::Result;
use crate::schedule::{pending, stores_plainly, trips_vary};
use warplift_ir::machine::{Attr, Guard, IndexMap, Inst, NewInst, Ty, Value};
use warplift_ir::target::Opcode;
use warplift_ir::tile::CmpOp;

impl Expand<'_, '_> {
    fn parts(&self) -> usize {
        self.given.schedule.deferral.as_ref().map_or(0, |d| d.parts.len())
    }

    /// Expands the loop over tiles in both forms, behind a uniform branch.
    pub fn expand_deferred(&mut self, outer: Inst) -> Result<()> {
        if self.trips_vary() {
            return self.pipelined(outer);
        }
        let enough = self.enough_iterations();
        let rings = self.rings_inside(outer);
        let [long, short, join] =
            [self.code.func.new_block(), self.code.func.new_block(), self.code.func.new_block()];
        self.branch(enough, (long, &[]), (short, &[]));
        let before = self.rings.clone();
        let deferred = std::mem::take(&mut self.deferred.insts);

        self.code.func.order.push(short);
        self.code.block = short;
        // The main loop has fewer iterations than parts here.
        self.ahead.most = self.given.schedule.deferral.as_ref().map(|d| (d.inner, d.parts.len() - 1));
        self.expand_for(outer)?;
        self.ahead.most = None;
        let out = self.ring_values(&rings);
        self.jump(join, &out);

        self.rings = before;
        self.deferred.insts = deferred;
        self.code.func.order.push(long);
        self.code.block = long;
        self.pipelined(outer)?;
        let out = self.ring_values(&rings);
        self.jump(join, &out);

        self.code.func.order.push(join);
        self.code.block = join;
        self.ring_params(join, &rings);
        self.forget_scratch();
        Ok(())
    }

    fn trips_vary(&self) -> bool {
        let deferral = self.given.schedule.deferral.as_ref();
        deferral.is_some_and(|d| trips_vary(&self.given.program.func, d))
    }

    /// Whether the main loop runs at least as often as there are parts.
    fn enough_iterations(&mut self) -> Value {
        let inner = self.given.schedule.deferral.as_ref().map(|d| d.inner);
        let args = inner.map_or(&[][..], |i| self.data(i).args);
        let bounds: Vec<Value> = args[..3].iter().map(|&v| self.outside(v)).collect();
        let last = self.parts() as i64 - 1;
        let moved = self.at().mul_imm(bounds[2], last);
        let at = self.at().add(bounds[0], moved);
        self.at().compare(CmpOp::Lt, at, bounds[1])
    }

    /// A value defined outside the loop over tiles, or a constant.
    fn outside(&mut self, v: Value) -> Value {
        match self.given.program.func.constant(v) {
            Some(c) => self.at().imm(c),
            None => self.value(v),
        }
    }

    fn nothing_of(&mut self, ty: Ty) -> Value {
        let zero = self.at().imm(0);
        match ty {
            Ty::Frag { .. } => {
                let new = NewInst::new(Opcode::Mov, &[zero], &[ty]);
                self.at().value(new.maps([IndexMap::Whole].into_iter().collect()))
            }
            Ty::B32 => zero,
            other => self.at().imm_of(other, 0),
        }
    }

    fn pipelined(&mut self, outer: Inst) -> Result<()> {
        let Some(deferral) = self.given.schedule.deferral.as_ref() else { return Ok(()) };
        let d = self.data(outer);
        let deferred_values = pending(&self.given.program.func, deferral);
        let types: Vec<Ty> = deferred_values.iter().map(|&v| self.given.program.func.ty(v)).collect();
        let rings = self.rings_inside(outer);
        let [low, high] = [self.value(d.args[0]), self.value(d.args[1])];
        let body = self.code.func.new_block();
        let exit = self.code.func.new_block();
        let nothing: Vec<Value> = types.iter().map(|&t| self.nothing_of(t)).collect();
        let none = self.at().imm_of(Ty::Pred, 0);
        let into = [nothing, vec![none], self.ring_values(&rings)].concat();
        let some = self.at().compare(CmpOp::Lt, low, high);
        self.branch(some, (body, &[&[low], &into[..]].concat()), (exit, &into));

        self.code.func.order.push(body);
        self.code.block = body;
        let counter = self.code.func.append_param(body, Ty::B32, true);
        let source = self.given.program.func.blocks[d.blocks[0]].params[0];
        self.from.env.insert(source, counter);
        self.kept_params(body, &deferred_values, &types, &rings);
        self.forget_scratch();
        self.draw_ahead(outer);
        self.walk(d.blocks[0])?;
        self.deferred.overlay.clear();
        let next: Vec<Value> = deferred_values.iter().map(|&v| self.value(v)).collect();
        let have = self.at().imm_of(Ty::Pred, 1);
        let counter = self.next_counter(outer, counter);
        let out = [next, vec![have], self.ring_values(&rings)].concat();
        let more = self.at().compare(CmpOp::Lt, counter, high);
        self.branch(more, (body, &[&[counter], &out[..]].concat()), (exit, &out));

        self.code.func.order.push(exit);
        self.code.block = exit;
        self.kept_params(exit, &deferred_values, &types, &rings);
        self.last_tile();
        Ok(())
    }

    /// Parameters for held results, for the condition that there are any, and for rings.
    fn kept_params(
        &mut self,
        block: warplift_ir::machine::Block,
        deferred_values: &[Value],
        types: &[Ty],
        rings: &[warplift_ir::machine::Ring],
    ) {
        for (&v, &ty) in deferred_values.iter().zip(types) {
            let uniform = self.given.program.func.values[v].uniform;
            let p = self.code.func.append_param(block, ty, uniform);
            self.deferred.overlay.insert(v, p);
        }
        self.deferred.have = Some(self.code.func.append_param(block, Ty::Pred, true));
        self.ring_params(block, rings);
    }

    /// Stores the last tile.
    fn last_tile(&mut self) {
        let [drain, done] = [self.code.func.new_block(), self.code.func.new_block()];
        if let Some(have) = self.deferred.have.take() {
            self.branch(have, (drain, &[]), (done, &[]));
        }
        self.code.func.order.push(drain);
        self.code.block = drain;
        for part in 0..self.parts() {
            self.deferred_part(part);
        }
        self.deferred.overlay.clear();
        self.jump(done, &[]);
        self.code.func.order.push(done);
        self.code.block = done;
    }

    /// Stores one part of the held results.
    pub fn deferred_part(&mut self, part: usize) {
        let Some(deferral) = self.given.schedule.deferral.as_ref() else { return };
        self.deferred.inside = true;
        for &inst in &deferral.parts[part] {
            self.constants(inst);
            let d = self.data(inst);
            match d.op {
                Opcode::Stmatrix | Opcode::StShared | Opcode::StShared16 => self.shared_access(inst),
                Opcode::TmaStore => self.staged_copy(inst),
                _ if stores_plainly(d) => self.deferred_store(inst),
                _ => {
                    let made = self.copy(inst);
                    self.deferred.overlay.extend(d.results.iter().copied().zip(made));
                }
            }
        }
        self.deferred.inside = false;
    }

    /// A plain store or update of held results. It is skipped while there are none.
    fn deferred_store(&mut self, inst: Inst) {
        let d = self.data(inst);
        let args = self.values(d.args);
        let own = d.guard.map(|g| Guard { pred: self.value(g.pred), ..g });
        let guard = match (self.deferred.have, own) {
            (None, own) => own,
            (Some(have), None) => Some(Guard { pred: have, negated: false }),
            (Some(have), Some(own)) => {
                let wanted = match own.negated {
                    true => self.at().op(Opcode::NotPred, &[own.pred], Ty::Pred),
                    false => own.pred,
                };
                let pred = self.at().op(Opcode::AndPred, &[wanted, have], Ty::Pred);
                Some(Guard { pred, negated: false })
            }
        };
        self.at().push(NewInst::new(d.op, &args, &[]).attr(plain(&d.attr)).guard(guard));
    }

    /// Copies constants that a deferred instruction reads, next to it.
    fn constants(&mut self, inst: Inst) {
        let d = self.data(inst);
        for &v in d.args {
            if let Some(c) = self.given.program.func.constant(v) {
                let ty = self.given.program.func.ty(v);
                let made = self.at().value(NewInst::new(Opcode::Const, &[], &[ty]).attr(Attr::Imm(c)));
                self.deferred.overlay.insert(v, made);
            }
        }
    }

    /// Expands the main loop, with the held stores under its first iterations if there are enough.
    pub fn expand_main(&mut self, inner: Inst) -> Result<()> {
        if !self.trips_vary() {
            return self.expand_peeled(inner);
        }
        let (kept, rings) = (self.kept_carries(inner), self.rings_inside(inner));
        let enough = self.enough_iterations();
        let [long, short, join] =
            [self.code.func.new_block(), self.code.func.new_block(), self.code.func.new_block()];
        self.branch(enough, (long, &[]), (short, &[]));
        let (before, seen) = (self.rings.clone(), self.memory.seen.clone());
        let overlay = self.deferred.overlay.clone();

        self.code.func.order.push(short);
        self.code.block = short;
        let have = self.expand_short(inner)?;
        self.leave_to(join, inner, &kept, &rings);

        (self.rings, self.deferred.overlay, self.deferred.have) = (before, overlay, have);
        let other = std::mem::replace(&mut self.memory.seen, seen);
        self.code.func.order.push(long);
        self.code.block = long;
        self.expand_peeled(inner)?;
        self.leave_to(join, inner, &kept, &rings);
        self.join_seen(&other);

        self.code.func.order.push(join);
        self.code.block = join;
        for n in kept {
            let result = self.data(inner).results[n];
            let p = self.code.func.append_param(join, self.given.program.func.ty(result), false);
            self.from.env.insert(result, p);
        }
        self.ring_params(join, &rings);
        Ok(())
    }

    /// The held stores, then a main loop that has fewer iterations than they have parts. Returns the condition of the
    /// stores.
    fn expand_short(&mut self, inner: Inst) -> Result<Option<Value>> {
        for part in 0..self.parts() {
            self.deferred_part(part);
        }
        let have = self.deferred.have.take();
        self.ahead.most = Some((inner, self.parts() - 1));
        self.expand_for(inner)?;
        self.ahead.most = None;
        Ok(have)
    }

    /// Goes on behind both forms of the main loop with its results.
    fn leave_to(
        &mut self,
        join: warplift_ir::machine::Block,
        inner: Inst,
        kept: &[usize],
        rings: &[warplift_ir::machine::Ring],
    ) {
        let results = self.data(inner).results;
        let out: Vec<Value> = kept.iter().map(|&n| self.value(results[n])).collect();
        let out = [out, self.ring_values(rings)].concat();
        self.jump(join, &out);
    }

    /// Expands the main loop with its first iterations peeled. Each peeled iteration has one part of the held stores.
    fn expand_peeled(&mut self, inner: Inst) -> Result<()> {
        let d = self.data(inner);
        let kept = self.kept_carries(inner);
        self.show_read_inside(inner);
        self.lead_in(inner);
        let source = self.given.program.func.blocks[d.blocks[0]].params.clone();
        let (low, step) = (self.value(d.args[0]), self.value(d.args[2]));
        let mut carried: Vec<Value> = kept.iter().map(|&n| self.value(d.args[3 + n])).collect();
        let mut counter = low;
        for part in 0..self.parts() {
            self.from.env.insert(source[0], counter);
            for (&n, &v) in kept.iter().zip(&carried) {
                self.from.env.insert(source[1 + n], v);
            }
            self.deferred.part = Some(part);
            let yields = self.walk(d.blocks[0])?;
            if let Some(part) = self.deferred.part.take() {
                self.deferred_part(part);
            }
            carried = kept.iter().map(|&n| self.value(yields[n])).collect();
            counter = self.at().add(counter, step);
        }
        self.expand_rest(inner, counter, &carried)
    }
}
