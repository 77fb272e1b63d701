//! Exchanges between lanes: elect, shuffles, votes, matches, reductions.

use super::data::atom;
use super::exec::Flow;
use super::inst::{Dst, Inst, ShflMode, Src, Ty, VoteMode};
use super::launch::Adversary;
use super::machine::{Machine, Stop};
use super::mask::{first_lane, lanes};

impl Machine<'_> {
    /// The lanes among `rest` that execute a collective together with the first of them: those with its mask. (PTX ISA,
    /// "vote.sync": an executing thread waits for the non-exited threads of its own `membermask`, and must be one of them.)
    fn members(&mut self, w: usize, mask: Src, rest: u32) -> Result<u32, Stop> {
        let live = self.warps[w].live;
        let masks = self.get(w, mask, rest)?;
        let members = masks[first_lane(rest)] as u32;
        let group = lanes(rest).filter(|l| masks[*l] as u32 == members).fold(0, |all, l| all | 1 << l);
        if members & live != group {
            let what = format!("lanes {group:#x} execute a collective of lanes {members:#x}");
            self.divergence(w, group.trailing_zeros(), what)?;
        }
        Ok(group)
    }

    /// Executes a collective once for each set of lanes that name each other.
    fn each_group(
        &mut self,
        w: usize,
        mask: Src,
        active: u32,
        act: impl Fn(&mut Self, u32) -> Result<(), Stop>,
    ) -> Result<Flow, Stop> {
        let mut rest = active;
        while rest != 0 {
            let group = self.members(w, mask, rest)?;
            act(self, group)?;
            rest &= !group;
        }
        Ok(Flow::Next)
    }

    pub fn elect(
        &mut self,
        w: usize,
        d: Option<Dst>,
        p: Option<u32>,
        mask: Src,
        active: u32,
    ) -> Result<Flow, Stop> {
        self.each_group(w, mask, active, |machine, members| {
            let leader = match machine.options.order {
                Adversary::Latest => 31 - members.leading_zeros().min(31),
                _ => first_lane(members) as u32,
            };
            if let Some(d) = d {
                machine.put(w, d, &[u64::from(leader); 32], members)?;
            }
            if let Some(p) = p {
                machine.put_predicate(w, p, 1 << leader, members);
            }
            Ok(())
        })
    }

    /// `shfl.sync` (PTX ISA, "Data movement instructions: shfl.sync").
    pub fn shuffle(&mut self, w: usize, inst: &Inst, active: u32) -> Result<Flow, Stop> {
        let Inst::Shfl { mask, .. } = inst else {
            return Ok(Flow::Next);
        };
        self.each_group(w, *mask, active, |machine, members| machine.shuffle_of(w, inst, members))
    }

    fn shuffle_of(&mut self, w: usize, inst: &Inst, members: u32) -> Result<(), Stop> {
        let Inst::Shfl { mode, d, p, a, b, c, .. } = inst else {
            return Ok(());
        };
        let (a, b, c) = (self.get(w, *a, members)?, self.get(w, *b, members)?, self.get(w, *c, members)?);
        let (mut out, mut ok) = ([0; 32], 0u32);
        for l in lanes(members) {
            let (source, valid) = shuffle_source(*mode, l as u32, b[l] as u32, c[l] as u32);
            if members >> source & 1 == 0 {
                let what = format!("lane {l} reads lane {source}, which does not take part");
                self.divergence(w, l as u32, what)?;
            }
            out[l] = a[source as usize];
            ok |= u32::from(valid) << l;
        }
        self.put(w, *d, &out, members)?;
        if let Some(p) = p {
            self.put_predicate(w, *p, ok, members);
        }
        Ok(())
    }

    pub fn vote(&mut self, w: usize, inst: &Inst, active: u32) -> Result<Flow, Stop> {
        let Inst::Vote { mask, .. } = inst else {
            return Ok(Flow::Next);
        };
        self.each_group(w, *mask, active, |machine, members| machine.vote_of(w, inst, members))
    }

    fn vote_of(&mut self, w: usize, inst: &Inst, members: u32) -> Result<(), Stop> {
        let Inst::Vote { mode, d, p, a, .. } = inst else {
            return Ok(());
        };
        let votes = self.boolean(w, *a, members)? & members;
        if let Some(d) = d {
            self.put(w, *d, &[u64::from(votes); 32], members)?;
        }
        let holds = match mode {
            VoteMode::All => votes == members,
            VoteMode::Any => votes != 0,
            VoteMode::Uni => votes == 0 || votes == members,
            VoteMode::Ballot => false,
        };
        if let Some(p) = p {
            self.put_predicate(w, *p, if holds { u32::MAX } else { 0 }, members);
        }
        Ok(())
    }

    pub fn matching(&mut self, w: usize, inst: &Inst, active: u32) -> Result<Flow, Stop> {
        let Inst::Match { mask, .. } = inst else {
            return Ok(Flow::Next);
        };
        self.each_group(w, *mask, active, |machine, members| machine.matching_of(w, inst, members))
    }

    fn matching_of(&mut self, w: usize, inst: &Inst, members: u32) -> Result<(), Stop> {
        let Inst::Match { all, d, p, a, .. } = inst else {
            return Ok(());
        };
        let v = self.get(w, *a, members)?;
        let equal = |l: usize| lanes(members).filter(|k| v[*k] == v[l]).fold(0u32, |m, k| m | 1 << k);
        let first = equal(first_lane(members));
        let mut out = [0; 32];
        for l in lanes(members) {
            out[l] = u64::from(match all {
                true if first == members => members,
                true => 0,
                false => equal(l),
            });
        }
        self.put(w, *d, &out, members)?;
        if let Some(p) = p {
            let holds = first == members;
            self.put_predicate(w, *p, if holds { u32::MAX } else { 0 }, members);
        }
        Ok(())
    }

    pub fn redux(&mut self, w: usize, inst: &Inst, active: u32) -> Result<Flow, Stop> {
        let Inst::Redux { mask, .. } = inst else {
            return Ok(Flow::Next);
        };
        self.each_group(w, *mask, active, |machine, members| machine.redux_of(w, inst, members))
    }

    fn redux_of(&mut self, w: usize, inst: &Inst, members: u32) -> Result<(), Stop> {
        let Inst::Redux { op, signed, d, a, .. } = inst else {
            return Ok(());
        };
        let v = self.get(w, *a, members)?;
        let ty = if *signed { Ty::S(32) } else { Ty::U(32) };
        let total = lanes(members).map(|l| v[l]).reduce(|x, y| atom(*op, ty, x, y, 0));
        self.put(w, *d, &[total.unwrap_or(0); 32], members)?;
        Ok(())
    }
}

fn shuffle_source(mode: ShflMode, lane: u32, b: u32, c: u32) -> (u32, bool) {
    let (bval, cval, segment) = (b & 31, c & 31, c >> 8 & 31);
    let max = (lane & segment) | (cval & !segment);
    let min = lane & segment;
    let (j, valid) = match mode {
        ShflMode::Up => {
            let j = lane as i32 - bval as i32;
            (j, j >= max as i32)
        }
        ShflMode::Down => ((lane + bval) as i32, lane + bval <= max),
        ShflMode::Bfly => ((lane ^ bval) as i32, (lane ^ bval) <= max),
        ShflMode::Idx => {
            let j = min | (bval & !segment);
            (j as i32, j <= max)
        }
    };
    (if valid { j as u32 & 31 } else { lane }, valid)
}
