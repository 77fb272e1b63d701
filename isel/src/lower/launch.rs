//! Launch information: the grid, the arguments, and the facts that the launch checks.
//!
//! ```text
//!  grid cdiv(m, BM), cdiv(n, BN)   ─►   blocks = min(tiles, programs), or as many as keep waves even
//!  assert n % 8 == 0               ─►   fact: n is a multiple of 8
//! ```

use super::Lower;
use crate::tiles::{has_unequal_tiles, shared_trips};
use crate::{IselError, Result, facts};
use rustc_hash::FxHashSet;
use warplift_ir::manifest::{Argument, Expr, ExprOp, Fact, Packing};
use warplift_ir::tile::{Assumption, BinOp, CmpOp, Facts, Inst, Kernel, Mapping, Op, ParamData, Type, Value};
use warplift_ir::types::Elem;

/// More multiprocessors than any chip has.
const MOST_MULTIPROCESSORS: i64 = 1024;

impl Lower<'_, '_> {
    /// An assertion about an argument and a constant becomes a fact that the launch checks.
    pub(super) fn lower_assert(&mut self, inst: Inst) -> Result<()> {
        let k = self.k;
        let refuse = || {
            IselError::at(
                k,
                inst,
                "an assert compiles if it compares an argument, or its remainder and 0, with constants: the launch checks it",
            )
        };
        if !self.always_runs(inst) {
            return self
                .error("an assert inside a branch or a loop does not compile: no launch can check it");
        }
        let compare = k.def(k.args(inst)[0]).ok_or_else(refuse)?;
        let (Op::Compare(cmp), &[a, b]) = (&k.insts[compare].op, k.args(compare)) else {
            return Err(refuse());
        };
        let (cmp, a, b) = if k.int_const(a).is_some() { (mirrored(*cmp), b, a) } else { (*cmp, a, b) };
        if let Some(fact) = self.multiple(cmp, a, b) {
            self.extra_facts.push(fact);
            return Ok(());
        }
        let param = k.params.iter().find(|p| p.value == a).ok_or_else(refuse)?;
        let bound = k.int_const(b).ok_or_else(refuse)?;
        let (min, max) = match cmp {
            CmpOp::Le => (param.facts.min, bound),
            CmpOp::Lt => (param.facts.min, bound.saturating_sub(1)),
            CmpOp::Ge => (bound, param.facts.max),
            CmpOp::Gt => (bound.saturating_add(1), param.facts.max),
            CmpOp::Eq => (bound, bound),
            CmpOp::Ne => return Err(refuse()),
        };
        let max = max.min(most(k.ty(a).elem()));
        self.extra_facts.push(Fact::Range { name: param.name.clone(), min, max });
        Ok(())
    }

    /// What is promised of a number that follows from arguments becomes facts, wherever every block meets the promise.
    pub(super) fn promise_at_launch(&mut self, inst: Inst, promise: Assumption) {
        let k = self.k;
        let Some(value) = facts::launch_expr(k, k.result(inst)).filter(|_| self.always_runs(inst)) else {
            return;
        };
        let what = k.condition_text(k.args(inst)[0]);
        let mut limit = |value: Expr, what: String, min, max| {
            self.extra_facts.push(Fact::Limit { what, value, min, max });
        };
        if promise.multiple > 1 {
            let rest = Expr::op(ExprOp::Mod, value.clone(), Expr::Const(promise.multiple));
            limit(rest, format!("{what} % {}", promise.multiple), 0, 0);
        }
        if (promise.min, promise.max) != (i64::MIN, i64::MAX) {
            limit(value, what, promise.min, promise.max);
        }
    }

    /// The fact behind `argument % constant == 0`.
    fn multiple(&self, cmp: CmpOp, rest: Value, zero: Value) -> Option<Fact> {
        let k = self.k;
        let rem = k.def(rest).filter(|&d| matches!(k.insts[d].op, Op::Binary(BinOp::Rem)))?;
        let (of, by) = (k.args(rem)[0], k.int_const(k.args(rem)[1])?);
        let param = k.params.iter().find(|p| p.value == of)?;
        let holds = cmp == CmpOp::Eq && k.int_const(zero) == Some(0) && by > 0;
        holds.then(|| Fact::Multiple { name: param.name.clone(), of: by })
    }

    /// Whether an instruction is at the top level, or directly in the loop over tiles.
    fn always_runs(&self, inst: Inst) -> bool {
        let k = self.k;
        let top = &k.blocks[k.entry].insts;
        let tiles = top.iter().filter(|&&i| k.attrs[i].persistent).flat_map(|&i| &k.insts[i].blocks);
        top.contains(&inst) || tiles.into_iter().any(|&b| k.blocks[b].insts.contains(&inst))
    }

    /// Refuses what clusters do not support.
    pub(super) fn check_cluster(&self, cluster: u32) -> Result<()> {
        let sized = self.k.insts.iter().find(|(_, d)| matches!(d.op, Op::GridDim(0)));
        match sized.filter(|_| cluster > 1 && !self.persistent) {
            Some((inst, _)) => {
                let message = "the grid's extent in a kernel whose grid is made whole clusters";
                Err(IselError::at(self.k, inst, message))
            }
            None => Ok(()),
        }
    }

    /// Makes the launch check that the iterations which programs share out are counted in 32 bits: those of two tiles for
    /// each program at most.
    pub(super) fn limit_shared_out(&mut self) -> Result<()> {
        let k = self.k;
        let Some(inst) = shared_trips(k) else { return Ok(()) };
        let Some(trips) = facts::launch_expr(k, k.result(inst)) else {
            return Err(IselError::at(k, inst, "iterations that programs share out must be known at launch"));
        };
        let row = 2 * MOST_MULTIPROCESSORS * i64::from(self.teams * self.resident);
        let what = format!("the iterations of a tile times {row}");
        self.limit(Expr::op(ExprOp::Mul, trips, Expr::Const(row)), what)
    }

    /// Blocks to launch: the logical grid, or the number of programs that keeps the waves even. There are no waves where tiles
    /// take unequal time: then as many programs as run at once. Pairs of tiles are made equal, so they keep even waves. Bands
    /// do too: programs that begin each band together share its operands in the L2. (Measured on an H100, ragged and
    /// gathered products in bands: even waves take 0.93 to 0.98 of the time.)
    pub(super) fn grid(&self) -> Result<[Expr; 3]> {
        let (cluster, resident) = (self.neighbours, self.resident);
        let mut extents = Vec::new();
        for &g in &self.k.grid {
            let Some(e) = facts::launch_expr(self.k, g) else {
                let message = "the grid depends on more than integer arguments";
                return Err(self
                    .k
                    .def(g)
                    .map_or_else(|| IselError::whole(message), |i| IselError::at(self.k, i, message)));
            };
            extents.push(e);
        }
        let one = || Expr::Const(1);
        // Whole clusters. `map` has checked that blocks past the end of the grid store nothing.
        let size = Expr::Const(cluster.into());
        let whole = |e| Expr::op(ExprOp::Mul, Expr::op(ExprOp::CeilDiv, e, size.clone()), size.clone());
        if let Some(first) = extents.first_mut() {
            *first = whole(first.clone());
        }
        let spread = |e| Expr::op(ExprOp::Mul, e, Expr::Const(self.blocks.into()));
        if self.persistent {
            let tiles = extents.into_iter().reduce(|a, b| Expr::op(ExprOp::Mul, a, b)).unwrap_or_else(one);
            let teams = Expr::Const(self.teams.into());
            let places = Expr::op(ExprOp::CeilDiv, Expr::var("sm_count"), Expr::Const(self.blocks.into()));
            let each = Expr::Const((self.teams * resident).into());
            let programs = Expr::op(ExprOp::Mul, places, each);
            let programs = self.programs(tiles, programs);
            return Ok([spread(whole(Expr::op(ExprOp::CeilDiv, programs, teams))), one(), one()]);
        }
        extents.resize(3, one());
        let [x, y, z] =
            extents.try_into().map_err(|_| IselError::whole("a grid has at most 3 dimensions"))?;
        Ok([spread(x), y, z])
    }

    /// Programs for so many tiles, of which so many run at once.
    fn programs(&self, tiles: Expr, most: Expr) -> Expr {
        // Programs that share out tiles have work wherever a tile ends.
        if shared_trips(self.k).is_some() {
            return most;
        }
        if !self.in_waves && has_unequal_tiles(self.k) {
            return Expr::op(ExprOp::Min, tiles, most);
        }
        // ceil(tiles / waves), so the last wave is as full as the others.
        let waves = Expr::op(ExprOp::CeilDiv, tiles.clone(), most);
        Expr::op(ExprOp::CeilDiv, tiles, Expr::op(ExprOp::Max, waves, Expr::Const(1)))
    }
}

/// Whether a kernel writes through a pointer.
fn is_written(k: &Kernel, pointer: Value) -> bool {
    let views = k.insts.iter().filter(|(i, d)| matches!(d.op, Op::View { .. }) && k.args(*i)[0] == pointer);
    let views: Vec<Value> = views.map(|(i, _)| k.result(i)).collect();
    k.insts.iter().any(|(i, d)| d.op.is_write() && views.contains(&k.whole_view(k.args(i)[0])))
}

pub(super) fn arguments(k: &Kernel, mapping: &Mapping, packings: &[(String, Packing)]) -> Vec<Argument> {
    let name = |ty: Type| match ty {
        Type::Ptr(e) => format!("ptr<{e}>"),
        other => other.elem().to_string(),
    };
    let of = |p: &ParamData| Argument {
        name: p.name.clone(),
        ty: name(k.ty(p.value)),
        written: is_written(k, p.value),
        before_wait: mapping.arrays.iter().any(|(name, array)| *name == p.name && array.before_wait),
        packing: packings.iter().find(|(name, _)| *name == p.name).map(|(_, packing)| packing.clone()),
    };
    k.params.iter().map(of).collect()
}

/// The greatest number of an integer type that a fact can hold.
fn most(elem: Elem) -> i64 {
    let bits = elem.bits() - u32::from(elem.is_signed());
    if bits >= 63 { i64::MAX } else { (1 << bits) - 1 }
}

/// The comparison with its operands exchanged.
fn mirrored(cmp: CmpOp) -> CmpOp {
    match cmp {
        CmpOp::Lt => CmpOp::Gt,
        CmpOp::Le => CmpOp::Ge,
        CmpOp::Gt => CmpOp::Lt,
        CmpOp::Ge => CmpOp::Le,
        CmpOp::Eq | CmpOp::Ne => cmp,
    }
}

pub(super) fn argument_facts(k: &Kernel) -> Vec<Fact> {
    let mut facts = Vec::new();
    for p in &k.params {
        let Facts { align, multiple, min, max, may_alias: _ } = p.facts;
        let pointer = matches!(k.ty(p.value), Type::Ptr(_));
        if pointer && align > 1 {
            facts.push(Fact::Aligned { name: p.name.clone(), align });
        }
        let integer = matches!(k.ty(p.value), Type::Scalar(e) if e.is_int());
        if integer && multiple > 1 {
            facts.push(Fact::Multiple { name: p.name.clone(), of: multiple });
        }
        if integer {
            let max = max.min(most(k.ty(p.value).elem()));
            facts.push(Fact::Range { name: p.name.clone(), min, max });
        }
    }
    facts.extend(disjoint(k));
    facts
}

/// The pairs of arguments whose memory is taken to lie apart: what is written, and what else is accessed.
fn disjoint(k: &Kernel) -> Vec<Fact> {
    let views = k.insts.iter().filter(|(_, d)| matches!(d.op, Op::View { .. })).map(|(i, _)| k.args(i)[0]);
    let viewed: FxHashSet<Value> = views.collect();
    let all: Vec<(&ParamData, bool)> =
        k.params.iter().filter(|p| viewed.contains(&p.value)).map(|p| (p, is_written(k, p.value))).collect();
    let mut found = Vec::new();
    for (at, &(p, _)) in all.iter().enumerate().filter(|(_, p)| p.1) {
        for (to, &(q, also)) in all.iter().enumerate() {
            // Of two that are written, the pair is listed once.
            let again = also && to < at;
            if k.memory_of(p.value) != k.memory_of(q.value) && !again {
                found.push(Fact::Disjoint { written: p.name.clone(), other: q.name.clone() });
            }
        }
    }
    found
}
