//! Executes one instruction of one warp. Control flow is here; other instructions go to their family.

use super::hazard::{HazardKind, SimError};
use super::inst::{BoolOp, Dst, Inst, LaneFn, Lanes, Mods, Op, Src};
use super::machine::{Found, Frame, Machine, Reason, State, Stop};
use super::mask::lanes;
use super::undefined::Truth;

/// The state of the warp after an instruction.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Flow {
    /// On to the next instruction.
    Next,
    /// The instruction set the program counter.
    Jumped,
    /// Execute it again after an event.
    Wait(Reason),
    /// Continue with the next instruction, but other warps may run first.
    Yield,
}

impl Machine<'_> {
    /// Runs one instruction. Returns whether the warp can continue at once.
    pub fn step(&mut self, w: usize) -> Result<bool, Stop> {
        let Some(frame) = self.top(w) else {
            self.finish_warp(w)?;
            return Ok(false);
        };
        let code = &self.launch.entry.code;
        let Some(op) = code.get(frame.pc as usize) else {
            self.exit_lanes(w, frame.mask)?;
            return Ok(true);
        };
        self.steps += 1;
        if self.steps > self.options.max_steps {
            return Err(SimError::Steps(self.options.max_steps, self.site(frame.pc)));
        }
        let mut mask = frame.mask;
        if let Some(g) = op.guard {
            mask &= self.predicate(w, g, frame.mask)?;
        }
        self.report.warp_instructions += 1;
        if mask != 0 {
            self.executed[frame.pc as usize] += 1;
        }
        self.report.thread_instructions += u64::from(mask.count_ones());
        let flow = if mask == 0 { Flow::Next } else { self.execute(w, op, mask)? };
        Ok(self.advance(w, flow))
    }

    fn advance(&mut self, w: usize, flow: Flow) -> bool {
        let progress = self.progress;
        let warp = &mut self.warps[w];
        match flow {
            Flow::Next | Flow::Yield => {
                if let Some(f) = warp.stack.last_mut() {
                    f.pc += 1;
                }
                if flow == Flow::Yield {
                    warp.yielded = Some(progress);
                }
                flow == Flow::Next
            }
            Flow::Jumped => true,
            Flow::Wait(reason) => {
                warp.state = State::Blocked(progress, reason);
                false
            }
        }
    }

    /// The frame to run, after joining lanes that have met.
    fn top(&mut self, w: usize) -> Option<Frame> {
        let warp = &mut self.warps[w];
        loop {
            let f = warp.stack.last_mut()?;
            f.mask &= warp.live;
            if f.mask == 0 || f.pc == f.meet {
                warp.stack.pop();
                continue;
            }
            return Some(*f);
        }
    }

    fn execute(&mut self, w: usize, op: &Op, mask: u32) -> Result<Flow, Stop> {
        match &op.inst {
            Inst::Nop => Ok(Flow::Next),
            Inst::Lane { f, m, d, s, n } => self.lane_op(w, *f, m, *d, &s[..usize::from(*n)], mask),
            Inst::SetP { f, m, d, s, combine } => {
                let known = self.known(w, s[0]) & self.known(w, s[1]);
                let bits = self.compare(w, *f, m, s, mask)?;
                let extra = combine.map(|(op, b)| (op, self.truth(w, b)));
                for (d, bits) in d.iter().zip([bits, !bits]) {
                    if let Some(d) = d {
                        let truth = Truth { bits, known };
                        let v = extra.map_or(truth, |(op, b)| logic(op, truth, b));
                        self.put_truth(w, *d, v, mask);
                    }
                }
                Ok(Flow::Next)
            }
            Inst::PredMov { d, s, neg } => {
                let Truth { bits, known } = self.truth(w, *s);
                self.put_truth(w, *d, Truth { bits: if *neg { !bits } else { bits }, known }, mask);
                Ok(Flow::Next)
            }
            Inst::PredOp { d, op, a, b } => {
                let v = logic(*op, self.truth(w, *a), self.truth(w, *b));
                self.put_truth(w, *d, v, mask);
                Ok(Flow::Next)
            }
            Inst::Pack { d, parts, bits } => self.pack(w, *d, parts, *bits, mask),
            Inst::Unpack { d, s, bits } => self.unpack(w, d, *s, *bits, mask),
            Inst::Carry { f, bits, d, s, read, write } => {
                let known = s.iter().fold(u32::MAX, |known, s| known & self.known(w, *s));
                let x = [self.peek(w, s[0])?, self.peek(w, s[1])?, self.peek(w, s[2])?];
                let mut out = [0; 32];
                let old = self.warps[w].carry;
                let mut flags = old;
                for l in lanes(mask) {
                    let c = *read && old >> l & 1 == 1;
                    let (v, c) = f([x[0][l], x[1][l], x[2][l]], c, *bits);
                    out[l] = v;
                    flags = (flags & !(1 << l)) | u32::from(c) << l;
                }
                if *write {
                    self.warps[w].carry = flags;
                }
                self.put_known(w, *d, &out, (mask, known))?;
                Ok(Flow::Next)
            }
            Inst::Bra { target, uniform } => self.branch(w, op, *target, *uniform, mask),
            Inst::Exit => {
                if op.guard.is_some()
                    && let Some(f) = self.warps[w].stack.last_mut()
                {
                    f.pc += 1;
                }
                self.exit_lanes(w, mask)?;
                Ok(Flow::Jumped)
            }
            Inst::Trap => Err(SimError::Trap(self.site(self.pc(w)))),
            Inst::Assume { .. } => self.assume(w, &op.inst, mask),
            Inst::Print { text, values } => self.print(w, (*text, *values), mask),
            other => self.execute_memory(w, other, mask),
        }
    }

    fn execute_memory(&mut self, w: usize, inst: &Inst, mask: u32) -> Result<Flow, Stop> {
        match inst {
            Inst::Load(l) => self.load(w, l, mask),
            Inst::Store(s) => self.store(w, s, mask),
            Inst::Atom(a) => self.atomic(w, a, mask),
            Inst::LdMatrix { d, addr, trans } => self.ldmatrix(w, d, *addr, *trans, mask),
            Inst::StMatrix { s, addr, trans } => self.stmatrix(w, s, *addr, *trans, mask),
            Inst::MovMatrix { d, s } => self.movmatrix(w, *d, *s, mask),
            Inst::Mma(m) => self.mma(w, m, mask),
            Inst::Elect { d, p, mask: m } => self.elect(w, *d, *p, *m, mask),
            Inst::Shfl { .. } => self.shuffle(w, inst, mask),
            Inst::Vote { .. } => self.vote(w, inst, mask),
            Inst::Match { .. } => self.matching(w, inst, mask),
            Inst::Redux { .. } => self.redux(w, inst, mask),
            Inst::Wgmma(g) => self.wgmma(w, g, mask),
            Inst::WgmmaFence => self.wgmma_fence(w, mask),
            Inst::WgmmaCommit => self.wgmma_commit(w, mask),
            Inst::WgmmaWait(n) => self.wgmma_wait(w, *n, mask),
            other => self.execute_sync(w, other, mask),
        }
    }

    fn execute_sync(&mut self, w: usize, inst: &Inst, mask: u32) -> Result<Flow, Stop> {
        match inst {
            Inst::Bar { .. } => self.named(w, inst, mask),
            Inst::WarpSync { mask: m } => self.warp_sync(w, *m, mask),
            Inst::ClusterArrive { relaxed, aligned } => self.cluster_arrive(w, *relaxed, *aligned, mask),
            Inst::ClusterWait { aligned } => self.cluster_wait(w, *aligned, mask),
            Inst::GridWait => Ok(self.grid_wait(w, mask)),
            Inst::Fence(kind) => self.fence(w, *kind, mask),
            Inst::SetMaxNReg { inc, count } => self.setmaxnreg(w, *inc, *count, mask),
            Inst::MbarInit { addr, count } => self.mbar_init(w, *addr, *count, mask),
            Inst::MbarInval { addr } => self.mbar_inval(w, *addr, mask),
            Inst::MbarArrive(a) => self.mbar_arrive(w, a, mask),
            Inst::MbarExpect { addr, bytes, complete } => self.mbar_expect(w, *addr, *bytes, *complete, mask),
            Inst::MbarWait(m) => self.mbar_wait(w, m, mask),
            Inst::CpAsync { .. } => self.cp_async(w, inst, mask),
            Inst::CpAsyncCommit => self.cp_async_commit(w, mask),
            Inst::CpAsyncWait { pending } => self.cp_async_wait(w, *pending, mask),
            Inst::CpAsyncArrive { addr, noinc } => self.cp_async_arrive(w, *addr, *noinc, mask),
            Inst::BulkLoad(b) => self.bulk_load(w, b, mask),
            Inst::BulkStore(b) => self.bulk_store(w, b, mask),
            Inst::BulkCommit => self.bulk_commit(w, mask),
            Inst::BulkWait { pending, read } => self.bulk_wait(w, *pending, *read, mask),
            Inst::PrefetchTensor { map } => self.prefetch_tensor(w, *map, mask),
            _ => self.unsupported(w, "this instruction"),
        }
    }

    /// Reports the first number that is not as promised.
    fn assume(&mut self, w: usize, inst: &Inst, mask: u32) -> Result<Flow, Stop> {
        let Inst::Assume { s, ty, multiple, min, max } = *inst else { return Ok(Flow::Next) };
        let (values, known) = (self.peek(w, s)?, self.known(w, s));
        let shift = 64 - ty.bits();
        for lane in lanes(mask & known) {
            let high = values[lane] << shift;
            let number = match ty.signed() {
                true => i128::from(high as i64 >> shift),
                false => i128::from(high >> shift),
            };
            // No promise is made of numbers above what the text can say.
            let below = max == i64::MAX || number <= max.into();
            if number % i128::from(multiple) != 0 || number < min.into() || !below {
                let what = format!("{number} is assumed to be {}", promise(multiple, min, max));
                let found = Found::new(HazardKind::Assumption, w, self.pc(w), what);
                self.hazard(found.lane(lane as u32))?;
                break;
            }
        }
        Ok(Flow::Next)
    }

    fn lane_op(&mut self, w: usize, f: LaneFn, m: &Mods, d: Dst, s: &[Src], mask: u32) -> Result<Flow, Stop> {
        let mut x = [[0u64; 32]; 4];
        for (slot, src) in x.iter_mut().zip(s) {
            *slot = self.peek(w, *src)?;
        }
        let known = self.known_result(w, s);
        let mut out = [0; 32];
        for l in lanes(mask) {
            out[l] = f(&[x[0][l], x[1][l], x[2][l], x[3][l]], m);
        }
        self.put_known(w, d, &out, (mask, known))?;
        Ok(Flow::Next)
    }

    fn compare(&mut self, w: usize, f: LaneFn, m: &Mods, s: &[Src; 2], mask: u32) -> Result<u32, Stop> {
        let (a, b) = (self.peek(w, s[0])?, self.peek(w, s[1])?);
        Ok(lanes(mask).fold(0, |bits, l| bits | u32::from(f(&[a[l], b[l], 0, 0], m) != 0) << l))
    }

    fn pack(&mut self, w: usize, d: Dst, parts: &[Src], bits: u32, mask: u32) -> Result<Flow, Stop> {
        let mut out: Lanes = [0; 32];
        let known = parts.iter().fold(u32::MAX, |known, p| known & self.known(w, *p));
        for (i, p) in parts.iter().enumerate() {
            let v = self.peek(w, *p)?;
            for l in lanes(mask) {
                out[l] |= (v[l] & ((1 << bits) - 1)) << (bits * i as u32);
            }
        }
        self.put_known(w, d, &out, (mask, known))?;
        Ok(Flow::Next)
    }

    fn unpack(&mut self, w: usize, d: &[Option<Dst>], s: Src, bits: u32, mask: u32) -> Result<Flow, Stop> {
        let (v, known) = (self.peek(w, s)?, self.known(w, s));
        for (i, d) in d.iter().enumerate() {
            if let Some(d) = d {
                let part = v.map(|x| x >> (bits * i as u32) & ((1 << bits) - 1));
                self.put_known(w, *d, &part, (mask, known))?;
            }
        }
        Ok(Flow::Next)
    }

    fn branch(&mut self, w: usize, op: &Op, target: u32, uniform: bool, taken: u32) -> Result<Flow, Stop> {
        let Some(frame) = self.warps[w].stack.last().copied() else {
            return Ok(Flow::Next);
        };
        let rest = frame.mask & !taken;
        if rest == 0 {
            if let Some(f) = self.warps[w].stack.last_mut() {
                f.pc = target;
            }
            return Ok(Flow::Jumped);
        }
        if uniform {
            let what = "`bra.uni` is taken by some lanes only";
            let found = Found::new(HazardKind::Divergence, w, frame.pc, what);
            self.hazard(found.lane(rest.trailing_zeros()))?;
        }
        self.part(w, frame, op.meet, (target, taken), (frame.pc + 1, rest));
        Ok(Flow::Jumped)
    }

    /// Splits the running frame: the taken side runs first, then the other, then both from `meet`.
    fn part(&mut self, w: usize, frame: Frame, meet: u32, taken: (u32, u32), other: (u32, u32)) {
        self.warps[w].parted = Some(frame.pc);
        let stack = &mut self.warps[w].stack;
        stack.pop();
        if meet != u32::MAX && meet != frame.meet {
            stack.push(Frame { pc: meet, ..frame });
        }
        let meet = if meet == u32::MAX { frame.meet } else { meet };
        for (pc, mask) in [other, taken] {
            if pc != meet {
                stack.push(Frame { pc, meet, mask });
            }
        }
    }

    /// Reports that other lanes than it takes execute an instruction, with the branch that parted them.
    pub fn divergence(&mut self, w: usize, lane: u32, what: String) -> Result<(), Stop> {
        let found = Found::new(HazardKind::Divergence, w, self.pc(w), what);
        self.hazard(found.lane(lane).other(self.warps[w].parted))
    }

    /// The warp's lanes that have not exited must all be active.
    pub fn aligned(&mut self, w: usize, mask: u32) -> Result<(), Stop> {
        let live = self.warps[w].live;
        if mask == live {
            return Ok(());
        }
        let missing = live & !mask;
        let what = format!("only lanes {mask:#x} of {live:#x} execute a warp-wide instruction");
        self.divergence(w, missing.trailing_zeros(), what)
    }
}

/// A promise in words: `a multiple of 8, at least 0, at most 64`.
fn promise(multiple: i64, min: i64, max: i64) -> String {
    let of = (multiple > 1).then(|| format!("a multiple of {multiple}"));
    let least = (min > i64::MIN).then(|| format!("at least {min}"));
    let most = (max < i64::MAX).then(|| format!("at most {max}"));
    [of, least, most].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn logic(op: BoolOp, a: Truth, b: Truth) -> Truth {
    let both = a.known & b.known;
    match op {
        // One that is known decides where it is false, or true.
        BoolOp::And => Truth { bits: a.bits & b.bits, known: both | a.known & !a.bits | b.known & !b.bits },
        BoolOp::Or => Truth { bits: a.bits | b.bits, known: both | a.known & a.bits | b.known & b.bits },
        BoolOp::Xor => Truth { bits: a.bits ^ b.bits, known: both },
    }
}
