//! Elementwise chains run slice by slice, so that the values between their steps never exist as a whole.
//!
//! ```text
//!  s: 64 registers, b: 32            s0 s1 ..  = slices of s          free views
//!  t = low b; u = high b   64        t0 = low b[0..4]; u0 = high ..    8
//!  r = fma s, c, (t, u)     0        r0 = fma s0, c, (t0, u0)          in place of s0
//!                                    t1 = ..
//!                                    r = join r0, r1, ..              free
//! ```
//!
//! A loop whose iterations overlap holds fragments of two iterations. Intermediate values of a chain that meets another
//! fragment (a converted bias, scaled distances) do not fit beside them. A chain that is cut needs only a slice of each
//! step. Only chains that meet another large fragment are cut: a sequence of steps over one fragment runs in place
//! anyway.
//!
//! A reduction of what a chain computes takes its operands as it goes:
//!
//! ```text
//!  t = low x; u = high x  32      t0 = low x[0, 8, ..]   4      r = t0
//!  r = t[0] + t[1] + ..    4      u0 = high x[0, 8, ..]  4      r = r + u0      ..
//! ```

use super::body::LARGE_REGISTERS;
use rustc_hash::{FxHashMap, FxHashSet};
use warplift_ir::machine::{Attr, Block, Func, IndexMap, Inst, NewInst, Ty, Value};
use warplift_ir::target::Opcode;

/// Registers of a slice. Enough steps run side by side to hide their latency.
const WIDTH: u16 = 8;

/// Cuts the chains of a block. Returns whether there were any.
pub(super) fn do_elementwise_subtiles(func: &mut Func<'_>, block: Block) -> bool {
    let chains = chains(func, block);
    for chain in &chains {
        Cut::new(func, block, &chain.members).run(chain);
    }
    !chains.is_empty()
}

/// Lets the reductions of a block compute their operands as they go. Returns whether there were any.
pub(super) fn do_reduction_subtiles(func: &mut Func<'_>, block: Block) -> bool {
    let chains = reductions(func, block);
    for chain in &chains {
        Cut::new(func, block, &chain.members).run(chain);
    }
    !chains.is_empty()
}

/// A step that computes a large fragment, and the elementwise work whose results only this step uses, directly or
/// indirectly.
struct Chain {
    root: Inst,
    members: FxHashSet<Inst>,
    /// Registers of the root's result that are computed at once.
    width: u16,
}

/// The chains of a block that are worth cutting.
fn chains(func: &Func<'_>, block: Block) -> Vec<Chain> {
    let (mut taken, mut found) = (FxHashSet::<Inst>::default(), Vec::new());
    for (at, &root) in func.blocks[block].insts.iter().enumerate().rev() {
        if is_root(func, root) && !taken.contains(&root) {
            let chain = Chain { root, members: members(func, block, at, LARGE_REGISTERS), width: WIDTH };
            taken.extend(&chain.members);
            found.extend(chain.meets_another(func).then_some(chain));
        }
    }
    found
}

/// The last steps of a block's reductions of large fragments that nothing else reads. Their results are small.
fn reductions(func: &Func<'_>, block: Block) -> Vec<Chain> {
    let (mut taken, mut found) = (FxHashSet::<Inst>::default(), Vec::new());
    for (at, &root) in func.blocks[block].insts.iter().enumerate().rev() {
        let small = |&r: &Value| (1..LARGE_REGISTERS).contains(&func.ty(r).regs());
        if !is_step(func, root) || taken.contains(&root) || !func.insts[root].results.iter().all(small) {
            continue;
        }
        let members = members(func, block, at, 1);
        let width = func.ty(func.result(root)).regs() as u16;
        let chain = Chain { root, members, width };
        taken.extend(&chain.members);
        found.extend(chain.takes_apart(func).then_some(chain));
    }
    found
}

/// Whether an instruction of a block reads a value only through mapped operands.
pub(super) fn reads_by_map(func: &Func<'_>, (block, v): (Block, Value), inst: Inst) -> bool {
    let d = &func.insts[inst];
    let mapped = |k: usize| d.maps.get(k).is_some_and(|m| *m != IndexMap::Whole);
    let by_map = || d.args.iter().enumerate().all(|(k, &a)| a != v || mapped(k));
    let guards = d.guard.is_some_and(|g| g.pred == v);
    func.block_of(inst) == Some(block) && (is_view(func, inst) || by_map() && !guards)
}

/// Instruction number `at` of a block, and the earlier ones whose results only these instructions use, directly or
/// indirectly.
fn members(func: &Func<'_>, block: Block, at: usize, least: u32) -> FxHashSet<Inst> {
    let insts = &func.blocks[block].insts[..=at];
    let mut members: FxHashSet<Inst> = insts.last().copied().into_iter().collect();
    for &inst in insts.iter().rev().skip(1).filter(|&&i| is_step(func, i) || is_view(func, i)) {
        let inner = |&r: &Value| {
            let mut users = func.users(r).peekable();
            let is_read = users.peek().is_some();
            is_read && users.all(|i| members.contains(&i) && reads_by_map(func, (block, r), i))
        };
        let results = func.insts[inst].results;
        // A small value is read by every slice, so it is computed once, before them.
        if results.iter().all(|&r| func.ty(r).regs() >= least) && results.iter().all(inner) {
            members.insert(inst);
        }
    }
    members
}

/// Whether an instruction computes on fragments register by register.
pub(super) fn is_step(func: &Func<'_>, inst: Inst) -> bool {
    let d = &func.insts[inst];
    let repeats = d.op.is_pure() && d.blocks.is_empty() && d.guard.is_none() && !d.maps.is_empty();
    repeats && !is_view(func, inst) && matches!(d.results, [r] if func.ty(*r).is_frag())
}

/// Whether an instruction only renames registers: it joins values, takes a part of one, or reorders registers.
pub(super) fn is_view(func: &Func<'_>, inst: Inst) -> bool {
    let d = &func.insts[inst];
    match d.op {
        _ if d.guard.is_some() => false,
        Opcode::Join => true,
        Opcode::Slice => !d.maps.is_empty() || matches!(d.attr, Attr::Imm(_)),
        Opcode::Mov => !d.maps.is_empty(),
        _ => false,
    }
}

fn is_root(func: &Func<'_>, inst: Inst) -> bool {
    let regs = |v: Value| func.ty(v).regs();
    is_step(func, inst)
        && func.insts[inst]
            .results
            .iter()
            .all(|&r| regs(r) >= LARGE_REGISTERS && regs(r).is_multiple_of(WIDTH.into()))
}

impl Chain {
    /// Whether a small step reads registers of a large fragment that the chain computes.
    fn takes_apart(&self, func: &Func<'_>) -> bool {
        let large = |v: Value| func.ty(v).is_frag() && func.ty(v).regs() >= LARGE_REGISTERS;
        let own = |&i: &Inst| is_step(func, i) && func.insts[i].results.iter().all(|&r| large(r));
        let small = |&i: &Inst| is_step(func, i) && !own(&i) && func.insts[i].args.iter().any(|&v| large(v));
        self.members.iter().any(own) && self.members.iter().any(small)
    }

    /// Whether a step reads a large fragment of the chain together with another large fragment.
    fn meets_another(&self, func: &Func<'_>) -> bool {
        let large = |v: &&Value| func.ty(**v).is_frag() && func.ty(**v).regs() >= LARGE_REGISTERS;
        let inner = |v: &&Value| func.def(**v).is_some_and(|d| self.members.contains(&d));
        self.members.iter().filter(|&&i| is_step(func, i)).any(|&i| {
            let read: FxHashSet<&Value> = func.insts[i].args.iter().filter(large).collect();
            read.len() > 1 && read.iter().any(inner)
        })
    }
}

/// A register of a value.
type Source = (Value, u16);

/// A chain during rewriting.
pub(super) struct Cut<'f, 'a> {
    /// The instructions that are cut.
    pub chain: &'f FxHashSet<Inst>,
    pub block: Block,
    /// Slices of the values that the chain reads: value, first register and length.
    slices: FxHashMap<(Value, u16, u16), Value>,
    /// Steps of the current slice, by their registers.
    steps: FxHashMap<(Inst, Vec<u16>), Value>,
    pub func: &'f mut Func<'a>,
}

impl<'f, 'a> Cut<'f, 'a> {
    pub fn new(func: &'f mut Func<'a>, block: Block, chain: &'f FxHashSet<Inst>) -> Self {
        Self { chain, block, slices: FxHashMap::default(), steps: FxHashMap::default(), func }
    }

    /// Adds the slices of all values that the chain reads, then the chain slice by slice, at the place of its last
    /// step.
    fn run(mut self, Chain { root, width, .. }: &Chain) {
        let (root, width) = (*root, *width);
        let list = self.func.take(self.block);
        let regs = self.func.ty(self.func.result(root)).regs() as u16;
        let parts = (0..regs / width).map(|n| {
            self.steps.clear();
            self.step(root, (n * width..(n + 1) * width).collect())
        });
        let parts: Vec<Value> = parts.collect();
        let made = self.func.take(self.block);
        let is_slice = |i: &Inst| self.slices.values().any(|&v| self.func.def(v) == Some(*i));
        let (slices, steps): (Vec<Inst>, Vec<Inst>) = made.into_iter().partition(is_slice);
        let last = list.iter().position(|&i| i == root).unwrap_or(list.len() - 1);
        let kept = |i: &&Inst| !self.chain.contains(i);
        let before = list[..last].iter().filter(kept).copied();
        let all = before.chain(slices).chain(steps).chain(list[last..].iter().copied());
        all.for_each(|i| self.func.append(self.block, i));
        self.func.set_args(root, &parts);
        self.func.set_op(root, Opcode::Join, Attr::None);
        self.func.insts[root].maps.clear();
    }

    /// Computes some registers of a step's result.
    fn step(&mut self, inst: Inst, regs: Vec<u16>) -> Value {
        if let Some(&made) = self.steps.get(&(inst, regs.clone())) {
            return made;
        }
        let d = self.func.insts[inst].clone();
        let (mut args, mut maps) = (Vec::new(), Vec::new());
        for (k, &v) in d.args.iter().enumerate() {
            let (arg, map) = match d.maps.get(k).filter(|m| **m != IndexMap::Whole) {
                Some(map) => self.operand(regs.iter().map(|&r| self.source(v, read(map, r))).collect()),
                None => (v, IndexMap::Whole),
            };
            args.push(arg);
            maps.push(map);
        }
        let new = NewInst::new(d.op, &args, &[Ty::frag(regs.len() as u16)]);
        let new = new.attr(d.attr).loc(d.loc).maps(maps.into_iter().collect());
        let made = self.push(new);
        self.steps.insert((inst, regs), made);
        made
    }

    pub fn push(&mut self, new: NewInst) -> Value {
        let inst = self.func.push(self.block, new);
        self.func.result(inst)
    }

    /// The register that a register of a view stands for.
    pub fn source(&self, v: Value, r: u16) -> Source {
        let Some(def) = self.func.def(v).filter(|d| self.chain.contains(d)) else { return (v, r) };
        let d = &self.func.insts[def];
        match (d.op, &d.attr) {
            _ if !is_view(self.func, def) => (v, r),
            (Opcode::Join, _) => self.part(d.args, r),
            (_, Attr::Imm(start)) if d.maps.is_empty() => self.source(d.args[0], *start as u16 + r),
            _ if d.maps[0] == IndexMap::Whole => self.source(d.args[0], 0),
            _ => self.source(d.args[0], read(&d.maps[0], r)),
        }
    }

    /// The register at a position of several values side by side.
    fn part(&self, values: &[Value], mut r: u16) -> Source {
        for &v in values {
            let regs = self.func.ty(v).regs().max(1) as u16;
            if r < regs {
                return self.source(v, r);
            }
            r -= regs;
        }
        panic!("a join of fewer registers than its result has")
    }

    /// An operand with these registers, and the place of each register in it.
    pub fn operand(&mut self, sources: Vec<Source>) -> (Value, IndexMap) {
        let mut values: Vec<Value> = Vec::new();
        sources.iter().for_each(|s| values.extend((!values.contains(&s.0)).then_some(s.0)));
        let mut places: FxHashMap<Source, u16> = FxHashMap::default();
        let (mut parts, mut at) = (Vec::new(), 0);
        for &v in &values {
            let mut regs: Vec<u16> = sources.iter().filter(|s| s.0 == v).map(|s| s.1).collect();
            regs.sort_unstable();
            regs.dedup();
            let (part, first) = self.registers(v, &regs);
            places.extend(regs.iter().enumerate().map(|(n, &r)| {
                let own = first.map_or(n as u16, |first| r - first);
                ((v, r), at + own)
            }));
            at += self.func.ty(part).regs().max(1) as u16;
            parts.push(part);
        }
        let places: Vec<u16> = sources.iter().map(|s| places[s]).collect();
        match parts[..] {
            [part] if !self.func.ty(part).is_frag() => (part, IndexMap::Whole),
            [part] => (part, map_of(places)),
            _ => (self.push(NewInst::new(Opcode::Join, &parts, &[Ty::frag(at)])), map_of(places)),
        }
    }

    /// A value that holds these registers of another value, in sequence or from a register on.
    fn registers(&mut self, v: Value, regs: &[u16]) -> (Value, Option<u16>) {
        let inner = self.func.def(v).filter(|d| self.chain.contains(d));
        if let Some(step) = inner {
            return (self.step(step, regs.to_vec()), None);
        }
        let run = regs.windows(2).all(|w| w[1] == w[0] + 1);
        if !run || self.func.ty(v).regs() < LARGE_REGISTERS || !self.func.ty(v).is_frag() {
            return (v, Some(0));
        }
        let key = (v, regs[0], regs.len() as u16);
        if let Some(&slice) = self.slices.get(&key) {
            return (slice, None);
        }
        let new = NewInst::new(Opcode::Slice, &[v], &[Ty::frag(key.2)]);
        let slice = self.push(new.attr(Attr::Imm(key.1.into())));
        self.slices.insert(key, slice);
        (slice, None)
    }
}

/// The register that a map reads for register `r` of the result.
fn read(map: &IndexMap, r: u16) -> u16 {
    map.at(r).unwrap_or_else(|| panic!("{map:?} has no register {r}"))
}

/// The map that reads these registers.
fn map_of(places: Vec<u16>) -> IndexMap {
    match places.iter().enumerate().all(|(i, &p)| usize::from(p) == i) {
        true => IndexMap::EACH,
        false => IndexMap::Table(places.into()),
    }
}
