//! Exchanges between lanes: elect, shuffles, votes, matches, reductions.

use super::data::atom;
use super::exec::Flow;
use super::inst::{Dst, Inst, ShflMode, Src, Ty, VoteMode};
use super::launch::Adversary;
use super::machine::{Machine, Stop};
use super::values::{first_lane, lanes};

impl Machine<'_> {
    /// The member mask of a collective; the active lanes must be just these.
    fn members(&mut self, w: usize, mask: Src, active: u32) -> Result<u32, Stop> {
        let live = self.warps[w].live;
        let members = self.get_uniform(w, mask, active)? as u32;
        if members & live != active {
            let what = format!("lanes {active:#x} execute a collective of lanes {members:#x}");
            self.divergence(w, active.trailing_zeros(), what)?;
        }
        Ok(active)
    }

    pub fn elect(
        &mut self,
        w: usize,
        d: Option<Dst>,
        p: Option<u32>,
        mask: Src,
        active: u32,
    ) -> Result<Flow, Stop> {
        let members = self.members(w, mask, active)?;
        let leader = match self.options.order {
            Adversary::Latest => 31 - members.leading_zeros().min(31),
            _ => first_lane(members) as u32,
        };
        if let Some(d) = d {
            self.put(w, d, &[u64::from(leader); 32], active)?;
        }
        if let Some(p) = p {
            self.put_predicate(w, p, 1 << leader, active);
        }
        Ok(Flow::Next)
    }

    /// `shfl.sync` (PTX ISA, "Data movement instructions: shfl.sync").
    pub fn shuffle(&mut self, w: usize, inst: &Inst, active: u32) -> Result<Flow, Stop> {
        let Inst::Shfl { mode, d, p, a, b, c, mask } = inst else {
            return Ok(Flow::Next);
        };
        self.members(w, *mask, active)?;
        let (a, b, c) = (self.get(w, *a, active)?, self.get(w, *b, active)?, self.get(w, *c, active)?);
        let (mut out, mut ok) = ([0; 32], 0u32);
        for l in lanes(active) {
            let (source, valid) = shuffle_source(*mode, l as u32, b[l] as u32, c[l] as u32);
            if active >> source & 1 == 0 {
                let what = format!("lane {l} reads lane {source}, which does not take part");
                self.divergence(w, l as u32, what)?;
            }
            out[l] = a[source as usize];
            ok |= u32::from(valid) << l;
        }
        self.put(w, *d, &out, active)?;
        if let Some(p) = p {
            self.put_predicate(w, *p, ok, active);
        }
        Ok(Flow::Next)
    }

    pub fn vote(&mut self, w: usize, inst: &Inst, active: u32) -> Result<Flow, Stop> {
        let Inst::Vote { mode, d, p, a, mask } = inst else {
            return Ok(Flow::Next);
        };
        let members = self.members(w, *mask, active)?;
        let votes = self.boolean(w, *a, active)? & members;
        if let Some(d) = d {
            self.put(w, *d, &[u64::from(votes); 32], active)?;
        }
        let holds = match mode {
            VoteMode::All => votes == members,
            VoteMode::Any => votes != 0,
            VoteMode::Uni => votes == 0 || votes == members,
            VoteMode::Ballot => false,
        };
        if let Some(p) = p {
            self.put_predicate(w, *p, if holds { u32::MAX } else { 0 }, active);
        }
        Ok(Flow::Next)
    }

    pub fn matching(&mut self, w: usize, inst: &Inst, active: u32) -> Result<Flow, Stop> {
        let Inst::Match { all, d, p, a, mask } = inst else {
            return Ok(Flow::Next);
        };
        let members = self.members(w, *mask, active)?;
        let v = self.get(w, *a, active)?;
        let equal = |l: usize| lanes(members).filter(|k| v[*k] == v[l]).fold(0u32, |m, k| m | 1 << k);
        let first = equal(first_lane(members));
        let mut out = [0; 32];
        for l in lanes(active) {
            out[l] = u64::from(match all {
                true if first == members => members,
                true => 0,
                false => equal(l),
            });
        }
        self.put(w, *d, &out, active)?;
        if let Some(p) = p {
            let holds = first == members;
            self.put_predicate(w, *p, if holds { u32::MAX } else { 0 }, active);
        }
        Ok(Flow::Next)
    }

    pub fn redux(&mut self, w: usize, inst: &Inst, active: u32) -> Result<Flow, Stop> {
        let Inst::Redux { op, signed, d, a, mask } = inst else {
            return Ok(Flow::Next);
        };
        let members = self.members(w, *mask, active)?;
        let v = self.get(w, *a, active)?;
        let ty = if *signed { Ty::S(32) } else { Ty::U(32) };
        let total = lanes(members).map(|l| v[l]).reduce(|x, y| atom(*op, ty, x, y, 0));
        self.put(w, *d, &[total.unwrap_or(0); 32], active)?;
        Ok(Flow::Next)
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
