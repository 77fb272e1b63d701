//! Random structured programs: fragments and scalars through loops and branches, products in flight,
//! views of views. Every allocation must pass the checker; planted errors must not.

use super::*;

/// xorshift64: the same programs everywhere.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n.max(1) as u64) as usize
    }

    fn pick(&mut self, list: &[Value]) -> Value {
        list[self.roll(list.len())]
    }
}

struct Generator<'f, 'a> {
    c: Cursor<'f, 'a>,
    dice: Dice,
    /// Values that dominate the cursor.
    words: Vec<Value>,
    frags: Vec<Value>,
    preds: Vec<Value>,
    left: usize,
}

impl Generator<'_, '_> {
    fn frag_of(&mut self, regs: u16) -> Value {
        let func = &self.c.func;
        let fit: Vec<Value> =
            self.frags.iter().copied().filter(|&v| func.ty(v).regs() == u32::from(regs)).collect();
        if !fit.is_empty() && self.dice.roll(4) > 0 {
            return self.dice.pick(&fit);
        }
        let word = self.dice.pick(&self.words);
        let maps = smallvec![IndexMap::Whole];
        self.c.value(NewInst::new(Opcode::Mov, &[word], &[Ty::frag(regs)]).maps(maps))
    }

    fn statements(&mut self, depth: usize) {
        for _ in 0..2 + self.dice.roll(6) {
            if self.left == 0 {
                return;
            }
            self.left -= 1;
            match self.dice.roll(if depth < 3 { 14 } else { 12 }) {
                0 => self.scalar(),
                1 => self.predicate(),
                2 | 3 => self.elementwise(),
                4 => self.slice(),
                5 => self.join(),
                6 | 7 => self.products(),
                8 => self.load(),
                9 => self.consume(),
                10 => self.reduce(),
                11 => self.pick(),
                12 => self.repeat(depth),
                _ => self.choice(depth),
            }
        }
    }

    fn scalar(&mut self) {
        let (a, b) = (self.dice.pick(&self.words), self.dice.pick(&self.words));
        let b = if self.dice.roll(2) == 0 { self.c.imm(7) } else { b };
        let v = self.c.op(Opcode::AddS32, &[a, b], Ty::B32);
        self.words.push(v);
    }

    fn predicate(&mut self) {
        let (a, b) = (self.dice.pick(&self.words), self.dice.pick(&self.words));
        let v = self.c.compare(CmpOp::Lt, a, b);
        self.preds.push(v);
    }

    fn elementwise(&mut self) {
        let a = self.dice.pick(&self.frags);
        let regs = self.c.func.ty(a).regs() as u16;
        let v = match self.dice.roll(3) {
            0 if regs.is_multiple_of(2) => each(&mut self.c, Opcode::PackF16, a, 2),
            1 if regs <= 16 => {
                let map = IndexMap::Table((0..2 * regs).map(|i| i / 2).collect());
                let new = [a];
                self.c.value(NewInst::new(Opcode::NegF32, &new, &[Ty::frag(2 * regs)]).maps(smallvec![map]))
            }
            _ => {
                let b = self.frag_of(regs);
                let maps = smallvec![IndexMap::EACH, IndexMap::EACH];
                self.c.value(NewInst::new(Opcode::AddF32, &[a, b], &[Ty::frag(regs)]).maps(maps))
            }
        };
        self.frags.push(v);
    }

    fn slice(&mut self) {
        let a = self.dice.pick(&self.frags);
        let regs = self.c.func.ty(a).regs() as usize;
        let stride = 1 + self.dice.roll(2).min(regs / 4);
        let n = 1 + self.dice.roll((regs / stride).max(1));
        let start = self.dice.roll(regs - (n - 1) * stride);
        let attr = Attr::Imm2(start as i64, stride as i64);
        let single = n == 1 && self.dice.roll(2) == 0;
        let ty = if single { Ty::B32 } else { Ty::frag(n as u16) };
        let v = self.c.value(NewInst::new(Opcode::Slice, &[a], &[ty]).attr(attr));
        if single { self.words.push(v) } else { self.frags.push(v) }
    }

    /// Registers in another order, some of them more than once.
    fn pick(&mut self) {
        let a = self.dice.pick(&self.frags);
        let regs = self.c.func.ty(a).regs() as usize;
        let table: Box<[u16]> = (0..1 + self.dice.roll(20)).map(|_| self.dice.roll(regs) as u16).collect();
        let ty = Ty::frag(table.len() as u16);
        let op = if self.dice.roll(2) == 0 { Opcode::Mov } else { Opcode::Slice };
        let maps = smallvec![IndexMap::Table(table)];
        let v = self.c.value(NewInst::new(op, &[a], &[ty]).maps(maps));
        self.frags.push(v);
    }

    fn join(&mut self) {
        let mut args = vec![self.dice.pick(&self.frags)];
        for _ in 0..self.dice.roll(3) {
            args.push(match self.dice.roll(3) {
                0 => self.dice.pick(&self.words),
                1 => self.c.imm(5),
                _ => self.dice.pick(&self.frags),
            });
        }
        let regs: u32 = args.iter().map(|&v| self.c.func.ty(v).regs()).sum();
        if regs <= 40 {
            let v = self.c.value(NewInst::new(Opcode::Join, &args, &[Ty::frag(regs as u16)]));
            self.frags.push(v);
        }
    }

    /// A group of products; those before the wait may be interleaved with other work.
    fn products(&mut self) {
        let acc = self.frag_of(16);
        let a = (self.dice.roll(2) == 0).then(|| self.frag_of(4));
        sync(&mut self.c, Opcode::WgmmaFence, Attr::None);
        let mut y = product(&mut self.c, acc, a, 32);
        if self.dice.roll(2) == 0 {
            y = product(&mut self.c, y, None, 32);
        }
        sync(&mut self.c, Opcode::WgmmaCommit, Attr::None);
        for _ in 0..self.dice.roll(3) {
            self.elementwise();
        }
        sync(&mut self.c, Opcode::WgmmaWait, Attr::Imm(0));
        self.frags.push(y);
    }

    fn load(&mut self) {
        let base = self.dice.pick(&self.words);
        let mem = Attr::Mem { offset: 16, count: 4 };
        let pred = self.dice.pick(&self.preds);
        let guard = (self.dice.roll(2) == 0).then_some(Guard { pred, negated: false });
        let new = [base];
        let v = self.c.value(NewInst::new(Opcode::LdShared, &new, &[Ty::frag(4)]).attr(mem).guard(guard));
        self.frags.push(v);
    }

    fn consume(&mut self) {
        let v = self.frag_of(4);
        store(&mut self.c, v, 0);
    }

    fn reduce(&mut self) {
        let a = self.dice.pick(&self.frags);
        let regs = i64::from(self.c.func.ty(a).regs());
        let mut cut =
            |at: i64| self.c.value(NewInst::new(Opcode::Slice, &[a], &[Ty::B32]).attr(Attr::Imm(at)));
        let first = cut(0);
        let last = cut(regs - 1);
        let sum = self.c.op(Opcode::AddF32, &[first, last], Ty::B32);
        self.words.push(sum);
    }

    /// Values to carry, of types that `types` names.
    fn carried(&mut self, types: &[Ty]) -> Vec<Value> {
        let one = |g: &mut Self, &ty: &Ty| match ty {
            Ty::Frag { regs, .. } if g.dice.roll(6) == 0 => g.c.op(Opcode::Undef, &[], Ty::frag(regs)),
            Ty::Frag { regs, .. } => g.frag_of(regs),
            Ty::Pred => g.dice.pick(&g.preds.clone()),
            _ if g.dice.roll(3) == 0 => g.c.imm(3),
            _ => g.dice.pick(&g.words.clone()),
        };
        types.iter().map(|ty| one(self, ty)).collect()
    }

    fn types(&mut self) -> Vec<Ty> {
        let all = [Ty::B32, Ty::Pred, Ty::frag(4), Ty::frag(16), Ty::frag(16), Ty::frag(8)];
        (0..1 + self.dice.roll(5)).map(|_| all[self.dice.roll(all.len())]).collect()
    }

    fn params(&mut self, at: Block, types: &[Ty]) {
        for &ty in types {
            let p = self.c.func.append_param(at, ty, false);
            match ty {
                Ty::Frag { .. } => self.frags.push(p),
                Ty::Pred => self.preds.push(p),
                _ => self.words.push(p),
            }
        }
    }

    fn scoped(&mut self, body: impl FnOnce(&mut Self)) {
        let lengths = [self.words.len(), self.frags.len(), self.preds.len()];
        body(self);
        self.words.truncate(lengths[0]);
        self.frags.truncate(lengths[1]);
        self.preds.truncate(lengths[2]);
    }

    fn repeat(&mut self, depth: usize) {
        let (body, exit) = (block(&mut self.c), block(&mut self.c));
        let types = self.types();
        let start = self.carried(&types);
        go(&mut self.c, Opcode::Br, &[], &[(body, &start)], body);
        self.scoped(|g| {
            g.params(body, &types);
            g.statements(depth + 1);
            let (next, out) = (g.carried(&types), g.carried(&types));
            let more = g.dice.pick(&g.preds);
            go(&mut g.c, Opcode::BrIf, &[more], &[(body, &next), (exit, &out)], exit);
        });
        self.params(exit, &types);
    }

    fn choice(&mut self, depth: usize) {
        let (yes, end) = (block(&mut self.c), block(&mut self.c));
        let types = self.types();
        let (cond, skip) = (self.dice.pick(&self.preds), self.carried(&types));
        go(&mut self.c, Opcode::BrIf, &[cond], &[(yes, &[]), (end, &skip)], yes);
        self.scoped(|g| {
            g.statements(depth + 1);
            let out = g.carried(&types);
            go(&mut g.c, Opcode::Br, &[], &[(end, &out)], end);
        });
        self.params(end, &types);
    }
}

fn program(bump: &Bump, seed: u64) -> Func<'_> {
    let mut func = Func::new(bump);
    let mut c = cursor(&mut func);
    let word = c.op(Opcode::Tid, &[], Ty::B32);
    let pred = c.compare(CmpOp::Lt, word, word);
    let dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut g = Generator { c, dice, words: vec![word], frags: vec![], preds: vec![pred], left: 60 };
    let first = g.frag_of(16);
    g.frags.push(first);
    while g.left > 0 {
        g.statements(0);
    }
    sync(&mut g.c, Opcode::Ret, Attr::None);
    func
}

#[test]
fn random_programs_pass_the_checker() {
    for seed in 0..400 {
        let bump = Bump::new();
        let before = program(&bump, seed);
        assert_eq!(verify_scheduled(&before), Ok(()), "seed {seed}\n{before}");
        let (func, alloc) = match allocate(&before, &WIDE) {
            Ok(done) => done,
            Err(error) => panic!("seed {seed}: {error}\n{before}"),
        };
        assert_eq!(verify_scheduled(&func), Ok(()), "seed {seed}\n{func}");
        assert_eq!(check(&func, &alloc), Ok(()), "seed {seed}\n{func}");
    }
}

/// Moves one operand of a fragment elsewhere: what read it, or reads it later, misses it.
#[test]
fn planted_errors_are_found() {
    let mut planted = 0;
    for seed in 0..60 {
        let bump = Bump::new();
        let Ok((func, alloc)) = allocate(&program(&bump, seed), &WIDE) else { continue };
        let mut dice = Dice(seed + 77);
        let victims: Vec<Inst> = func.insts.keys().filter(|&i| reads(&func, &alloc, i)).collect();
        let victim = victims[dice.roll(victims.len())];
        let mut wrong = alloc.clone();
        for operand in &mut wrong.insts[victim] {
            if let Operand::Fragment(first, n) = operand {
                *operand = Operand::Fragment(if *first == 0 { 1 } else { *first - 1 }, *n);
                break;
            }
        }
        planted += 1;
        assert!(check(&func, &wrong).is_err(), "seed {seed}: {victim} reads elsewhere\n{func}");
    }
    assert!(planted > 50);
}

fn reads(func: &Func<'_>, alloc: &Allocation, inst: Inst) -> bool {
    let data = &func.insts[inst];
    let first = alloc.insts[inst].iter().position(|o| matches!(o, Operand::Fragment(..)));
    let defined = |v: Value| func.def(v).is_some_and(|i| func.insts[i].op != Opcode::Mov);
    first.is_some_and(|k| k < data.args.len() && defined(data.args[k])) && data.op == Opcode::Stmatrix
}
