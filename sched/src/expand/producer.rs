//! The producer: one elected thread that keeps the rings full.
//!
//! Other warps of its warpgroup may have work too. If a tile's work is cut in two, one thread copies the tiles that
//! only the second half reads. Helper warps compute the products that are the same in every warp.

use super::role::Expand;
use crate::analysis::Node;
use crate::error::Result;
use rustc_hash::FxHashSet;
use warplift_ir::machine::{Attr, Block, Func, Guard, Inst, NewInst, RoleKind, TmaAttr, Ty};
use warplift_ir::target::Opcode;
use warplift_ir::tile::CmpOp;

impl<'a> Expand<'_, 'a> {
    /// Expands the producer's role, and the other roles of its warpgroup. `registers`: the number that `setmaxnreg`
    /// leaves them. `others`: each role with the nodes that it needs, and its number of warps.
    pub fn producer(
        mut self,
        registers: Option<u32>,
        others: Vec<(RoleKind, FxHashSet<Node>, u32)>,
    ) -> Result<Func<'a>> {
        let work = self.code.func.new_block();
        let end = self.code.func.new_block();
        if let Some(n) = registers {
            self.at().push(NewInst::new(Opcode::SetmaxnregDec, &[], &[]).attr(Attr::Imm(n.into())));
        }
        let first = i64::from(self.given.program.computing_warps());
        let teams = i64::from(self.given.program.teams);
        let thread = self.at().op(Opcode::Tid, &[], Ty::B32);
        let five = self.at().imm(5);
        let warp = self.at().int(Opcode::ShrU32, thread, five);
        let warp = self.at().op(Opcode::Uniform, &[warp], Ty::B32);
        // The first warps are producers, one for each team. Then come the warps of the other roles. The rest only give
        // their registers away.
        let team = self.at().add_imm(warp, -first);
        self.own.team = Some(team);
        let teams = self.at().imm(teams);
        let mine = self.at().compare(CmpOp::Lt, team, teams);
        let elected = self.at().op(Opcode::Elect, &[], Ty::Pred);
        self.own.elected = Some(elected);
        let both = self.at().op(Opcode::AndPred, &[mine, elected], Ty::Pred);
        self.shared_base();
        let mut next = if others.is_empty() { end } else { self.code.func.new_block() };
        self.branch(both, (work, &[]), (next, &[]));
        self.copy_all(work, end)?;
        let (last, mut before) = (others.len(), i64::from(self.given.program.teams));
        for (n, (role, needed, warps)) in others.into_iter().enumerate() {
            self.code.func.order.push(next);
            self.code.block = next;
            let number = self.at().add_imm(team, -before);
            before += i64::from(warps);
            let all = self.at().imm(before);
            let below = self.at().compare(CmpOp::Lt, team, all);
            // The idle lanes of a copying warp must not enter: its copying lane would wait for them.
            let behind = match role.copies() {
                true => elected,
                false => {
                    let zero = self.at().imm(0);
                    self.at().compare(CmpOp::Ge, number, zero)
                }
            };
            let mine = self.at().op(Opcode::AndPred, &[below, behind], Ty::Pred);
            let work = self.code.func.new_block();
            next = if n + 1 == last { end } else { self.code.func.new_block() };
            self.branch(mine, (work, &[]), (next, &[]));
            (self.who.role, self.who.needed) = (role, needed);
            self.own.helper = (role == RoleKind::Helper).then_some(number);
            self.from.env.clear();
            self.copy_all(work, end)?;
        }
        self.code.func.order.push(end);
        self.code.block = end;
        self.leave_together();
        self.at().push(NewInst::new(Opcode::Ret, &[], &[]));
        Ok(self.code.func)
    }

    /// Expands all copies of one thread, or the work of a helper, from the block `work` on. It ends with a jump to
    /// `end`.
    fn copy_all(&mut self, work: Block, end: Block) -> Result<()> {
        self.code.func.order.push(work);
        self.code.block = work;
        self.open_rings();
        // The role of the early loop waits after its first stages. A helper reads only data that others have waited
        // for.
        if self.who.role.copies() && self.given.schedule.before_wait.is_none_or(|looped| !self.keeps(looped))
        {
            self.wait_for_grids();
        }
        self.walk(self.given.program.func.entry)?;
        self.jump(end, &[]);
        Ok(())
    }

    /// Expands one instruction for the producer.
    pub fn produce(&mut self, _block: Block, inst: Inst) -> Result<()> {
        if self.hears_tile_info(inst) || !self.keeps(inst) || self.hears_decision(inst) {
            return Ok(());
        }
        self.produce_kept(inst)?;
        self.tells_tile_info(inst);
        Ok(())
    }

    fn produce_kept(&mut self, inst: Inst) -> Result<()> {
        match self.data(inst).op {
            Opcode::For if self.given.schedule.before_wait == Some(inst) => self.expand_before_wait(inst),
            Opcode::For => self.expand_for(inst),
            Opcode::If => self.expand_if(inst),
            Opcode::Yield | Opcode::Await => Ok(()),
            Opcode::TmaLoad | Opcode::BulkLoad => {
                self.fill(inst);
                Ok(())
            }
            _ => {
                self.clone_inst(inst);
                Ok(())
            }
        }
    }

    /// A tensor load. The producer issues it; without a producer, one of the computing threads does.
    pub fn fill(&mut self, inst: Inst) {
        let d = self.data(inst);
        let Attr::Tma(t) = &d.attr else { return };
        let Some(place) = t.place else { return };
        let Some(ring) = self.ring_of(place.buffer) else { return };
        let guard = self.filler();
        if !self.fills_now(ring, t.before_wait) {
            return;
        }
        let to = self.stage_address(ring, place.buffer, place.offset);
        let barrier = self.full_barrier(ring);
        if self.given.schedule.multicast[inst] {
            return self.fill_part(inst, to, barrier);
        }
        let args = [vec![to, barrier], self.values(d.args)].concat();
        let attr = Attr::Tma(TmaAttr { place: None, ..*t });
        self.at().push(NewInst::new(d.op, &args, &[]).attr(attr).guard(guard));
    }

    /// The thread that copies if there is no producer: the elected one of a team's first warp. ptxas knows that this is
    /// one thread; for a predicate on the thread's number it makes a loop over lanes around every copy. All threads
    /// step through the copies: behind a branch, 32 copies of 2 KB are issued so fast that a row of 64 KB takes longer
    /// (measured).
    pub fn filler(&mut self) -> Option<Guard> {
        (!self.given.schedule.producer).then(|| self.first_thread())
    }

    /// The elected thread of a team's first warp.
    pub fn first_thread(&mut self) -> Guard {
        let pred = match self.own.first {
            Some(p) => p,
            None => {
                let (entry, threads) = (self.code.func.entry, i64::from(32 * self.given.program.warps));
                let p = self.before_end(entry, |c| {
                    let thread = c.op(Opcode::Tid, &[], Ty::B32);
                    let threads = c.imm(threads);
                    let own = c.int(Opcode::RemU32, thread, threads);
                    let five = c.imm(5);
                    let warp = c.int(Opcode::ShrU32, own, five);
                    let warp = c.op(Opcode::Uniform, &[warp], Ty::B32);
                    let zero = c.imm(0);
                    let first = c.compare(CmpOp::Eq, warp, zero);
                    let elected = c.op(Opcode::Elect, &[], Ty::Pred);
                    c.op(Opcode::AndPred, &[first, elected], Ty::Pred)
                });
                self.own.first = Some(p);
                p
            }
        };
        Guard { pred, negated: false }
    }
}
