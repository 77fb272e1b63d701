//! The checker runs an allocation symbolically and finds whether it is right. It shares no code with the planner.
//!
//! The state maps each register to the set of symbols that it surely holds. A symbol is one register of one value. The
//! analysis goes forward over the graph and intersects sets where paths meet (the method of regalloc2's checker). Every
//! read must find its symbol. Only `wgmma` may write a register that a `wgmma` in flight still uses.

use smallvec::SmallVec;
use warplift_ir::entity::{EntityRef, SecondaryMap};
use warplift_ir::machine::{Allocation, Attr, Block, Func, Inst, InstData, Move, Operand, Reg, Ty, Value};
use warplift_ir::target::Opcode;

/// A mistake in an allocation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{inst}: {message}")]
pub struct CheckError {
    /// Where.
    pub inst: Inst,
    /// What.
    pub message: String,
}

/// Symbols that a register holds.
type Holds = SmallVec<[u32; 3]>;

/// Registers of an instruction's operands and results, by value; none for literals.
struct Regs {
    args: Vec<Vec<usize>>,
    results: Vec<Vec<usize>>,
}

/// How a register is used by products in flight.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Flight {
    /// Groups committed since.
    age: u32,
    /// Read as an operand, not accumulated.
    read: bool,
}

#[derive(Clone, PartialEq, Eq, Default)]
struct State {
    holds: Vec<Holds>,
    flight: Vec<Option<Flight>>,
}

struct Checker<'c, 'a> {
    func: &'c Func<'a>,
    alloc: &'c Allocation,
    /// First symbol of each value.
    first: Vec<u32>,
}

/// Checks an allocation against its function.
///
/// # Errors
/// The first instruction that reads a register without its value in it, that lacks registers, or that
/// disturbs a product in flight.
pub fn check(func: &Func<'_>, alloc: &Allocation) -> Result<(), CheckError> {
    let mut next = 0;
    let first = func.values.values().map(|v| {
        next += width(v.ty) as u32;
        next - width(v.ty) as u32
    });
    Checker { func, alloc, first: first.collect() }.run()
}

/// The number of a value's registers, of any class.
fn width(ty: Ty) -> usize {
    match ty {
        Ty::Frag { regs, .. } => regs.into(),
        Ty::Event => 0,
        _ => 1,
    }
}

impl State {
    fn meet(&mut self, other: &Self) -> bool {
        let mut changed = false;
        for (mine, theirs) in self.holds.iter_mut().zip(&other.holds) {
            let before = mine.len();
            mine.retain(|s| theirs.contains(s));
            changed |= mine.len() != before;
        }
        for (mine, theirs) in self.flight.iter_mut().zip(&other.flight) {
            let both = match (*mine, *theirs) {
                (Some(a), Some(b)) => Some(Flight { age: a.age.min(b.age), read: a.read || b.read }),
                (a, b) => a.or(b),
            };
            changed |= both != *mine;
            *mine = both;
        }
        changed
    }

    fn forget(&mut self, symbols: std::ops::Range<u32>) {
        for holds in &mut self.holds {
            holds.retain(|s| !symbols.contains(s));
        }
    }
}

/// The results of a product share no register with A, B or other results, because it writes them while it still reads.
fn apart(Regs { args, results }: &Regs) -> Result<(), String> {
    let (Some(sums), [acc, operands @ ..]) = (results.first(), &args[..]) else { return Ok(()) };
    let meets = |list: &Vec<usize>| list.iter().any(|r| sums.contains(r));
    match (sums != acc && meets(acc)) || operands.iter().any(meets) {
        true => Err("a product's sums lie on registers that it still reads".to_owned()),
        false => Ok(()),
    }
}

impl Checker<'_, '_> {
    fn run(&self) -> Result<(), CheckError> {
        let names = self.alloc.names.iter().sum::<u32>() as usize;
        let mut enter: SecondaryMap<Block, Option<State>> = SecondaryMap::new();
        let empty = State { holds: vec![Holds::new(); names], flight: vec![None; names] };
        enter[self.func.entry] = Some(empty);
        let mut todo = vec![self.func.entry];
        while let Some(block) = todo.pop() {
            let Some(mut state) = enter[block].clone() else { continue };
            for &inst in &self.func.blocks[block].insts {
                // Errors count only at the fixpoint.
                let _ = self.step(inst, &mut state);
            }
            for call in self.func.successors(block) {
                let passed = self.pass(&state, call.args, &self.func.blocks[call.block].params);
                let changed = match &mut enter[call.block] {
                    Some(old) => old.meet(&passed),
                    slot => {
                        *slot = Some(passed);
                        true
                    }
                };
                if changed {
                    todo.push(call.block);
                }
            }
        }
        for &block in &self.func.order {
            let Some(mut state) = enter[block].take() else { continue };
            for &inst in &self.func.blocks[block].insts {
                self.step(inst, &mut state).map_err(|message| CheckError { inst, message })?;
            }
        }
        Ok(())
    }

    fn index(&self, reg: Reg) -> usize {
        let [r, d, _] = self.alloc.names.map(|n| n as usize);
        match reg {
            Reg::R(n) => usize::from(n),
            Reg::D(n) => r + usize::from(n),
            Reg::Pred(n) => r + d + usize::from(n),
        }
    }

    fn symbols(&self, v: Value) -> std::ops::Range<u32> {
        let first = self.first[v.index()];
        first..first + width(self.func.ty(v)) as u32
    }

    /// Parameters hold the contents of their arguments.
    fn pass(&self, state: &State, args: &[Value], params: &[Value]) -> State {
        let mut next = state.clone();
        params.iter().for_each(|&p| next.forget(self.symbols(p)));
        for (&arg, &param) in args.iter().zip(params) {
            let delta = self.symbols(param).start as i64 - i64::from(self.symbols(arg).start);
            let range = self.symbols(arg);
            for (holds, new) in state.holds.iter().zip(&mut next.holds) {
                new.extend(
                    holds.iter().filter(|s| range.contains(s)).map(|&s| (i64::from(s) + delta) as u32),
                );
            }
        }
        next
    }

    fn moved(&self, state: &mut State, m: Move) -> Result<(), String> {
        let (from, to) = (self.index(m.from), self.index(m.to));
        if from >= state.holds.len() || to >= state.holds.len() {
            return Err(format!("move {m:?} leaves the names"));
        }
        self.writable(state, to)?;
        state.holds[to] = state.holds[from].clone();
        Ok(())
    }

    fn writable(&self, state: &State, reg: usize) -> Result<(), String> {
        match state.flight.get(reg) {
            Some(Some(_)) => Err(format!("register {reg} is written while a product in flight uses it")),
            Some(None) => Ok(()),
            None => Err(format!("register {reg} is beyond the names")),
        }
    }

    /// Registers of an operand of a value.
    fn place(&self, v: Value, operand: Option<&Operand>) -> Result<Vec<usize>, String> {
        let regs: Vec<usize> = match operand {
            Some(Operand::Scalar(r)) => vec![self.index(*r)],
            Some(Operand::Fragment(f, n)) => (*f..f + n).map(|r| self.index(Reg::R(r))).collect(),
            Some(Operand::Scattered(list)) => list.iter().map(|&r| self.index(Reg::R(r))).collect(),
            Some(Operand::Literal(_) | Operand::None) | None => Vec::new(),
        };
        if regs.len() == width(self.func.ty(v)) {
            Ok(regs)
        } else {
            Err(format!("{v} has {} registers of {}", regs.len(), width(self.func.ty(v))))
        }
    }

    fn read(&self, state: &State, v: Value, at: usize, reg: usize) -> Result<(), String> {
        let symbol = self.symbols(v).start + at as u32;
        let held = state.holds.get(reg).is_some_and(|h| h.contains(&symbol));
        if held { Ok(()) } else { Err(format!("register {reg} does not hold part {at} of {v}")) }
    }

    fn step(&self, inst: Inst, state: &mut State) -> Result<(), String> {
        for &m in &self.alloc.before[inst] {
            self.moved(state, m)?;
        }
        let data = &self.func.insts[inst];
        let operands = &self.alloc.insts[inst];
        let guard = data.args.len() + data.results.len();
        if let Some(g) = data.guard {
            let regs = self.place(g.pred, operands.get(guard))?;
            self.read(state, g.pred, 0, regs[0])?;
        }
        let mut args = Vec::with_capacity(data.args.len());
        for (k, &v) in data.args.iter().enumerate() {
            args.push(match operands.get(k) {
                Some(Operand::Literal(c)) if self.func.constant(v) == Some(*c) => Vec::new(),
                other => self.place(v, other)?,
            });
        }
        let mut results = Vec::with_capacity(data.results.len());
        for (k, &v) in data.results.iter().enumerate() {
            results.push(match operands.get(data.args.len() + k) {
                Some(Operand::Literal(_)) if data.op == Opcode::Const => Vec::new(),
                other => self.place(v, other)?,
            });
        }
        let regs = Regs { args, results };
        match data.op {
            Opcode::Join | Opcode::Slice => self.view(state, data, &regs),
            Opcode::Undef => {
                data.results.iter().zip(&regs.results).for_each(|(&v, regs)| self.add(state, v, regs));
                Ok(())
            }
            Opcode::Wgmma => self.product(state, data, &regs),
            Opcode::MmaSync => {
                self.read_all(state, data, &regs.args)?;
                apart(&regs)?;
                self.define(state, data, &regs.results, |s, r| self.writable(s, r))
            }
            _ if self.func.is_view(data) => self.view(state, data, &regs),
            _ if !data.maps.is_empty() => self.repeated(state, data, &regs),
            _ => {
                if data.guard.is_some() {
                    // Zeros where the guard does not hold, written first.
                    self.define(state, data, &regs.results, |s, r| self.writable(s, r))?;
                }
                self.read_all(state, data, &regs.args)?;
                self.follow(state, data);
                self.define(state, data, &regs.results, |s, r| self.writable(s, r))
            }
        }
    }

    fn read_all(&self, state: &State, data: &InstData<'_>, args: &[Vec<usize>]) -> Result<(), String> {
        for (&v, regs) in data.args.iter().zip(args) {
            for (at, &reg) in regs.iter().enumerate() {
                self.read(state, v, at, reg)?;
            }
        }
        Ok(())
    }

    fn define(
        &self,
        state: &mut State,
        data: &InstData<'_>,
        results: &[Vec<usize>],
        allowed: impl Fn(&State, usize) -> Result<(), String>,
    ) -> Result<(), String> {
        for (&v, regs) in data.results.iter().zip(results) {
            let symbols = self.symbols(v);
            state.forget(symbols.clone());
            for (symbol, &reg) in symbols.zip(regs) {
                allowed(state, reg)?;
                state.holds[reg] = Holds::from_slice(&[symbol]);
            }
        }
        Ok(())
    }

    /// Steps through the repetitions and finds late reads of overwritten registers.
    fn repeated(
        &self,
        state: &mut State,
        data: &InstData<'_>,
        Regs { args, results }: &Regs,
    ) -> Result<(), String> {
        let (Some(&result), Some(regs)) = (data.results.first(), results.first()) else {
            return self.read_all(state, data, args);
        };
        let symbols = self.symbols(result);
        state.forget(symbols.clone());
        for (rep, (symbol, &reg)) in symbols.zip(regs).enumerate() {
            for (k, &v) in data.args.iter().enumerate() {
                let at = data.maps.get(k).and_then(|m| m.at(rep as u16)).map_or(0, usize::from);
                if let Some(&source) = args[k].get(at) {
                    self.read(state, v, at, source)?;
                }
            }
            self.writable(state, reg)?;
            state.holds[reg] = Holds::from_slice(&[symbol]);
        }
        Ok(())
    }

    /// Joins and slices. It copies register by register in the order of emission; then every part must have arrived.
    fn view(
        &self,
        state: &mut State,
        data: &InstData<'_>,
        Regs { args, results }: &Regs,
    ) -> Result<(), String> {
        let (Some(&result), Some(regs)) = (data.results.first(), results.first()) else { return Ok(()) };
        let sources: Vec<Option<(Value, usize, usize)>> = match data.op {
            Opcode::Join => {
                let part = |(&v, regs): (&Value, &Vec<usize>)| -> Vec<Option<(Value, usize, usize)>> {
                    match regs.is_empty() {
                        true => vec![None],
                        false => regs.iter().enumerate().map(|(i, &r)| Some((v, i, r))).collect(),
                    }
                };
                data.args.iter().zip(args).flat_map(part).collect()
            }
            _ => {
                let at = |i: usize| match (&data.attr, data.maps.first()) {
                    (_, Some(map)) => map.at(i as u16).map_or(usize::MAX, usize::from),
                    (Attr::Imm(start), _) => *start as usize + i,
                    (Attr::Imm2(start, stride), _) => (start + stride * i as i64) as usize,
                    _ => usize::MAX,
                };
                let pick = |i| args[0].get(at(i)).map(|&r| (data.args[0], at(i), r));
                (0..regs.len()).map(pick).collect()
            }
        };
        if sources.len() != regs.len() {
            return Err(format!("{} parts for {} registers", sources.len(), regs.len()));
        }
        for (source, &to) in sources.iter().zip(regs) {
            match *source {
                Some((v, i, from)) => {
                    self.read(state, v, i, from)?;
                    if from != to {
                        self.writable(state, to)?;
                        state.holds[to] = state.holds[from].clone();
                    }
                }
                None => {
                    self.writable(state, to)?;
                    state.holds[to].clear();
                }
            }
        }
        self.follow_parts(state, result, &sources, regs)
    }

    /// Adds the result of a view: whatever holds one of its parts holds the result's register, in whichever registers
    /// other views put that part.
    fn follow_parts(
        &self,
        state: &mut State,
        result: Value,
        sources: &[Option<(Value, usize, usize)>],
        regs: &[usize],
    ) -> Result<(), String> {
        let symbols = self.symbols(result);
        state.forget(symbols.clone());
        for ((source, &to), symbol) in sources.iter().zip(regs).zip(symbols) {
            match *source {
                Some((v, i, _)) => {
                    self.read(state, v, i, to)?;
                    let part = self.symbols(v).start + i as u32;
                    state.holds.iter_mut().filter(|h| h.contains(&part)).for_each(|h| h.push(symbol));
                }
                None => state.holds[to].push(symbol),
            }
        }
        Ok(())
    }

    /// Adds a value to the contents of registers. Nothing is written.
    fn add(&self, state: &mut State, v: Value, regs: &[usize]) {
        let symbols = self.symbols(v);
        state.forget(symbols.clone());
        for (symbol, &reg) in symbols.zip(regs) {
            if let Some(holds) = state.holds.get_mut(reg) {
                holds.push(symbol);
            }
        }
    }

    fn product(
        &self,
        state: &mut State,
        data: &InstData<'_>,
        Regs { args, results }: &Regs,
    ) -> Result<(), String> {
        self.read_all(state, data, args)?;
        if args.first() != results.first() {
            return Err("accumulator and result lie apart".to_owned());
        }
        self.define(state, data, results, |state, reg| match state.flight.get(reg) {
            Some(Some(Flight { read: true, .. })) => {
                Err(format!("register {reg} is still read by a product"))
            }
            _ => Ok(()),
        })?;
        let read = data.args.iter().zip(args).skip(2).filter(|(v, _)| self.func.ty(**v).is_frag());
        for &reg in read.flat_map(|(_, regs)| regs) {
            state.flight[reg] = Some(Flight { age: 0, read: true });
        }
        for &reg in results.iter().flatten() {
            state.flight[reg] = Some(Flight { age: 0, read: false });
        }
        Ok(())
    }

    /// Commits and waits.
    fn follow(&self, state: &mut State, data: &InstData<'_>) {
        match (data.op, &data.attr) {
            (Opcode::WgmmaCommit, _) => {
                state.flight.iter_mut().flatten().for_each(|f| f.age = (f.age + 1).min(64));
            }
            (Opcode::WgmmaWait, Attr::Imm(n)) => {
                for slot in &mut state.flight {
                    *slot = slot.filter(|f| i64::from(f.age) <= *n);
                }
            }
            _ => {}
        }
    }
}
