//! Matrix descriptors of products: increments of a base that hold no registers.
//!
//! ```text
//!  base = ..                  one uniform register, as long as the ring's stage lives
//!  low  = add base, 64   ┐
//!  d    = pack low, high ┴─►  wgmma .. d ..       ptxas: UIADD3 right before the HGMMA that takes it
//! ```
//!
//! A `wgmma` of our IR names the descriptors of all its K-steps at once: 72 of them for 36 steps. The assembler makes
//! each in the four uniform registers that its `HGMMA` reads, so they count nothing at any point. Their names are
//! another matter: regalloc2 has 64 of that class. Where a function needs more, descriptors get names behind those.

use crate::NAMES;
use crate::liveness::{Liveness, uses};
use crate::normalize::Normalized;
use crate::table::per_value;
use warplift_ir::entity::SecondaryMap;
use warplift_ir::machine::{Block, Func, Reg, Value};
use warplift_ir::target::Opcode;

/// Limit on the 64-bit scalars for regalloc2: its names less some room for its moves.
const LONGS: u32 = 60;

/// Which values are descriptors, or the sums from which only descriptors are made.
pub(crate) struct Descriptors {
    packed: SecondaryMap<Value, bool>,
    sums: SecondaryMap<Value, bool>,
}

/// What the uses of a value are.
#[derive(Clone, Copy, Default)]
struct Uses {
    count: u32,
    /// Those by a product, or by the packing of a descriptor, in the block that makes the value.
    near: u32,
}

impl Uses {
    fn all_near(self) -> bool {
        self.count > 0 && self.count == self.near
    }
}

impl Descriptors {
    /// Finds the descriptors of a function.
    pub(crate) fn find(normal: &Normalized<'_>) -> Self {
        let func = &normal.func;
        let mut this = Self { packed: per_value(func), sums: per_value(func) };
        let into_products = count(normal, |user, _| user == Opcode::Wgmma);
        for v in func.values.keys().filter(|&v| op(func, v) == Some(Opcode::Pack64)) {
            this.packed[v] = func.values[v].uniform && into_products[v].all_near();
        }
        let into_packs = count(normal, |user, result| user == Opcode::Pack64 && this.packed[result]);
        for v in func.values.keys().filter(|&v| is_increment(func, v)) {
            this.sums[v] = func.values[v].uniform && into_packs[v].all_near();
        }
        this
    }

    /// Whether a value holds no register of a thread or warp, because it is made where its product stands.
    pub(crate) fn free(&self, v: Value) -> bool {
        self.packed[v] || self.sums[v]
    }

    /// Names of descriptors behind those of regalloc2, if a function has more 64-bit scalars at once than regalloc2 has
    /// names. Descriptors live within their block, so that a walk through it finds the names that are free.
    pub(crate) fn names(&self, normal: &Normalized<'_>, live: &Liveness, longs: u32) -> Names {
        let mut names = Names(SecondaryMap::new());
        if longs > LONGS {
            live.blocks.iter().for_each(|&b| self.names_in(normal, b, &mut names));
        }
        names
    }

    fn names_in(&self, normal: &Normalized<'_>, block: Block, names: &mut Names) {
        let insts = &normal.func.blocks[block].insts;
        let mut last: SecondaryMap<Value, Option<usize>> = SecondaryMap::new();
        for (at, &inst) in insts.iter().enumerate() {
            uses(normal, inst, |v| last[v] = Some(at).filter(|_| self.packed[v]));
        }
        let (mut free, mut next) = (Vec::new(), NAMES[1] as u16);
        for (at, &inst) in insts.iter().enumerate() {
            let data = &normal.func.insts[inst];
            for &v in data.results.iter().filter(|&&v| self.packed[v]) {
                names.0[v] = Some(free.pop().unwrap_or_else(|| {
                    next += 1;
                    next - 1
                }));
            }
            let mut dead: Vec<Value> = data.args.to_vec();
            dead.sort_unstable();
            dead.dedup();
            free.extend(dead.into_iter().filter(|&v| last[v] == Some(at)).filter_map(|v| names.0[v]));
        }
    }
}

/// Names of 64-bit registers that regalloc2 does not know.
pub(crate) struct Names(SecondaryMap<Value, Option<u16>>);

impl Names {
    /// The register of a value, if it has a name here.
    pub(crate) fn get(&self, v: Value) -> Option<Reg> {
        self.0[v].map(Reg::D)
    }
}

fn op(func: &Func<'_>, v: Value) -> Option<Opcode> {
    func.def(v).map(|i| func.insts[i].op)
}

/// Whether a value is another one plus a constant.
fn is_increment(func: &Func<'_>, v: Value) -> bool {
    let data = func.def(v).map(|i| &func.insts[i]);
    data.is_some_and(|d| {
        d.op == Opcode::AddS32 && d.guard.is_none() && d.args.iter().any(|&a| func.constant(a).is_some())
    })
}

/// Counts the uses of all values. `wanted` sees the user's opcode and its first result.
fn count(normal: &Normalized<'_>, wanted: impl Fn(Opcode, Value) -> bool) -> SecondaryMap<Value, Uses> {
    let func = &normal.func;
    let mut home: SecondaryMap<Value, Option<Block>> = per_value(func);
    let mut found: SecondaryMap<Value, Uses> = per_value(func);
    for &block in &func.order {
        for &inst in &func.blocks[block].insts {
            func.insts[inst].results.iter().for_each(|&r| home[r] = Some(block));
        }
    }
    for &block in &func.order {
        for &inst in &func.blocks[block].insts {
            let data = &func.insts[inst];
            let taken = data.results.first().is_some_and(|&r| wanted(data.op, r));
            uses(normal, inst, |v| {
                found[v].count += 1;
                found[v].near += u32::from(taken && home[v] == Some(block));
            });
        }
    }
    found
}
