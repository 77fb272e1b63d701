//! Values that the blocks of a cluster have in common. A tensor load that fetches the same box in all blocks is shared:
//! each block fetches a part of the box and sends it to all.
//!
//! ```text
//!  ctaid.x = 2 u + rank                        offset      u the same in both blocks
//!  tile = ctaid.x + n * nctaid.x               offset      nctaid.x is even
//!  tile / 2, constants, parameters             equal
//!  a scalar in memory that nothing writes      as its index
//!  tile % 2, thread numbers, other values of memory    varies
//! ```
//!
//! A load is shared if its place is equal in all blocks, and every loop and branch around it goes the same way in all
//! of them. Then the blocks fill and release the same stages in the same order.

use super::access::reads_fixed;
use super::structure::yields;
use warplift_ir::entity::SecondaryMap;
use warplift_ir::machine::{Attr, Block, Func, Inst, InstData, Program, Value};
use warplift_ir::target::Opcode;

/// How a value compares between the blocks of one cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// The same in all blocks. `true` if it is certainly a multiple of the cluster's size.
    Equal(bool),
    /// A multiple of the cluster's size, the same in all blocks, plus the block's rank. It is never negative.
    Offset,
    /// Nothing is known.
    Varies,
}

impl Class {
    fn join(self, other: Self) -> Self {
        match (self, other) {
            (Self::Equal(a), Self::Equal(b)) => Self::Equal(a && b),
            (Self::Offset, Self::Offset) => Self::Offset,
            _ => Self::Varies,
        }
    }

    fn is_equal(self) -> bool {
        matches!(self, Self::Equal(_))
    }
}

struct Classes<'f, 'a> {
    func: &'f Func<'a>,
    size: i64,
    of: SecondaryMap<Value, Option<Class>>,
    /// Blocks that one rank may run and another may not.
    apart: SecondaryMap<Block, bool>,
    changed: bool,
}

impl Classes<'_, '_> {
    fn get(&self, v: Value) -> Option<Class> {
        self.of[v]
    }

    fn put(&mut self, v: Value, class: Option<Class>) {
        let old = self.of[v];
        let new = match (old, class) {
            (Some(a), Some(b)) => Some(a.join(b)),
            (a, b) => a.or(b),
        };
        self.changed |= new != old;
        self.of[v] = new;
    }

    fn block(&mut self, block: Block) {
        for &inst in &self.func.blocks[block].insts {
            let d = &self.func.insts[inst];
            match d.op {
                Opcode::For => self.looped(d),
                Opcode::If => self.branch(d),
                _ => {
                    let class = self.plain(d);
                    d.results.iter().for_each(|&r| self.put(r, class));
                }
            }
        }
    }

    fn divide(&mut self, block: Block, apart: bool) {
        self.changed |= apart && !self.apart[block];
        self.apart[block] |= apart;
    }

    fn looped(&mut self, d: &InstData<'_>) {
        let body = d.blocks[0];
        let params = &self.func.blocks[body].params;
        let [low, high, step] = [0, 1, 2].map(|k| self.get(d.args[k]));
        let (counter, together) = match (low, high, step) {
            (Some(Class::Offset), Some(Class::Equal(whole)), Some(Class::Equal(true))) => {
                (Class::Offset, whole)
            }
            (Some(Class::Equal(a)), Some(Class::Equal(_)), Some(Class::Equal(b))) => {
                (Class::Equal(a && b), true)
            }
            (None, ..) | (_, None, _) | (.., None) => return,
            _ => (Class::Varies, false),
        };
        let together = match d.is_conditional_loop() {
            true => {
                // Its condition counts as soon as something is known of it.
                self.put(params[1], self.get(d.args[3]));
                let Some(condition) = self.get(params[1]) else { return };
                together && condition.is_equal()
            }
            false => together,
        };
        self.put(params[0], Some(counter));
        self.divide(body, !together);
        for (n, &result) in d.results.iter().enumerate() {
            self.put(params[1 + n], self.get(d.args[3 + n]));
            if let Some(&y) = yields(self.func, body).get(n) {
                self.put(params[1 + n], self.get(y));
            }
            let out = if together { self.get(params[1 + n]) } else { Some(Class::Varies) };
            self.put(result, out);
        }
        self.block(body);
    }

    fn branch(&mut self, d: &InstData<'_>) {
        let Some(cond) = self.get(d.args[0]) else { return };
        for &b in &d.blocks {
            self.divide(b, !cond.is_equal());
            self.block(b);
            for (n, &result) in d.results.iter().enumerate() {
                let y = yields(self.func, b).get(n).and_then(|&y| self.get(y));
                self.put(result, if cond.is_equal() { y } else { Some(Class::Varies) });
            }
        }
    }

    /// An instruction with equal operands does the same in all blocks if its guard is equal too.
    fn guarded(&self, d: &InstData<'_>) -> Class {
        let equal = d.guard.is_none_or(|g| self.get(g.pred).is_some_and(Class::is_equal));
        if equal { Class::Equal(false) } else { Class::Varies }
    }

    /// The class of an instruction's results, from the classes of its operands. `None` while one of them is not known
    /// yet.
    fn plain(&self, d: &InstData<'_>) -> Option<Class> {
        let args = d.args.iter().map(|&v| self.get(v)).collect::<Option<Vec<Class>>>()?;
        let whole = |k: usize| {
            let c = d.args.get(k).and_then(|&v| self.func.constant(v));
            c.is_some_and(|c| match d.op {
                Opcode::ShrU32 | Opcode::ShrS32 => (0..31).contains(&c) && (1i64 << c) % self.size == 0,
                _ => c > 0 && c % self.size == 0,
            })
        };
        Some(match (d.op, &d.attr, &args[..]) {
            (Opcode::Const, Attr::Imm(v), _) => Class::Equal(v % self.size == 0),
            (Opcode::CtaidX, ..) => Class::Offset,
            (Opcode::NctaidX, ..) => Class::Equal(true),
            (Opcode::Tid | Opcode::Laneid | Opcode::Elect | Opcode::ClusterRank | Opcode::TeamIndex, ..) => {
                Class::Varies
            }
            (Opcode::AddS32 | Opcode::SubS32, _, [Class::Equal(a), Class::Equal(b)]) => {
                Class::Equal(*a && *b)
            }
            (Opcode::MulS32, _, [Class::Equal(a), Class::Equal(b)]) => Class::Equal(*a || *b),
            (Opcode::Uniform, _, [x]) => *x,
            (
                Opcode::DivU32 | Opcode::DivS32 | Opcode::ShrU32 | Opcode::ShrS32,
                _,
                [Class::Offset, Class::Equal(_)],
            ) if whole(1) => Class::Equal(false),
            (op, _, args) if (op.is_pure() || reads_fixed(d)) && args.iter().all(|c| c.is_equal()) => {
                self.guarded(d)
            }
            _ => Class::Varies,
        })
    }
}

/// All tensor loads, each with whether it is the same in all blocks of the cluster.
pub(crate) fn loads_of_cluster(program: &Program<'_>) -> Vec<(Inst, bool)> {
    let func = &program.func;
    let size = program.launch.cluster.into();
    let (of, apart) = (SecondaryMap::new(), SecondaryMap::new());
    let mut c = Classes { func, size, of, apart, changed: true };
    while std::mem::take(&mut c.changed) {
        c.block(func.entry);
    }
    let mut loads = Vec::new();
    collect(&c, func.entry, false, &mut loads);
    loads
}

/// All tensor loads, each with whether it is equal.
fn collect(c: &Classes<'_, '_>, block: Block, apart: bool, out: &mut Vec<(Inst, bool)>) {
    let apart = apart || c.apart[block];
    for &inst in &c.func.blocks[block].insts {
        let d = &c.func.insts[inst];
        if d.op.is_async_load() {
            let equal = d.args.iter().all(|&v| c.get(v).is_some_and(Class::is_equal));
            out.push((inst, equal && !apart));
        }
        d.blocks.iter().for_each(|&b| collect(c, b, apart, out));
    }
}
