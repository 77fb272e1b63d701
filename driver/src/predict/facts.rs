//! What a walk needs to know of an instruction, read once from its row and attributes.

use super::fragments::is_followed;
use rustc_hash::FxHashSet;
use warplift_ir::entity::SecondaryMap;
use warplift_ir::machine::{Attr, Func, Inst, InstData, Value, ValueDef};
use warplift_ir::target::{Effect, Opcode, Row, Target, Unit};

/// Instructions of a row over a fragment that are walked at once; between two such pieces other warps have their turn.
const PIECE: f64 = 8.0;

/// Threads of a warp.
pub const LANES: f64 = 32.0;

/// Facts of one instruction, of one warp where nothing else is said.
#[derive(Clone, Copy, Default)]
pub struct Facts {
    /// It may change places with others that wait for memory.
    pub passes: bool,
    /// It costs nothing: no unit, or a fragment's registers in another order, which allocation makes names.
    pub free: bool,
    /// It reads global memory.
    pub loads: bool,
    /// Addresses are made of its results.
    pub for_addresses: bool,
    /// It makes or reads a fragment that addresses or masks are made of.
    pub follows: bool,
    /// Pieces in which it is walked: one, or more for a row that is repeated over a large fragment.
    pub pieces: u32,
    /// Its unit.
    pub unit: Option<Unit>,
    /// The assembler gives it to the unit of products where its own has more to do: a left shift by a number is a product.
    pub shifts: bool,
    /// Cycles in which a scheduler issues it.
    pub issued: f64,
    /// The same of what takes no unit of the scheduler: products of warpgroups, barriers, groups and branches.
    pub slots: f64,
    /// Cycles that a scheduler's unit is taken.
    pub busy: f64,
    /// Cycles until its result is there.
    pub latency: f64,
    /// Bytes that it moves, and whose way they take: shared memory's (`Lsu`), or the L2's (`Tma`).
    pub access: Option<(Unit, f64)>,
}

/// Facts of all instructions of a function.
pub fn read_facts(func: &Func<'_>, target: &Target) -> SecondaryMap<Inst, Facts> {
    let mut facts = SecondaryMap::with_capacity(func.insts.len());
    let addresses = made_to(func, |d| d.args.get(usize::from(d.op == Opcode::CpAsync)).copied());
    let guards = made_to(func, |d| d.guard.map(|g| g.pred));
    for (inst, data) in func.insts.iter() {
        let for_addresses = data.results.iter().any(|r| addresses.contains(r));
        let decides = for_addresses || data.results.iter().any(|r| guards.contains(r));
        let follows = decides && data.args.iter().chain(data.results).any(|&v| is_followed(func, v));
        facts[inst] = Facts { for_addresses, follows, slots: slots(data), ..facts_of(func, data, target) };
    }
    facts
}

/// Values that one operand of accesses is made of: addresses, or guards.
fn made_to(func: &Func<'_>, operand: impl Fn(&InstData<'_>) -> Option<Value>) -> FxHashSet<Value> {
    let accesses = func.insts.values().filter(|d| access(d).is_some());
    let mut work: Vec<Value> = accesses.filter_map(operand).collect();
    let calls = || func.order.iter().flat_map(|&b| func.successors(b));
    let mut made = FxHashSet::default();
    while let Some(v) = work.pop() {
        if !made.insert(v) {
            continue;
        }
        match func.values[v].def {
            ValueDef::Result(inst, _) => work.extend(func.insts[inst].args),
            ValueDef::Param(block, n) => {
                work.extend(calls().filter(|c| c.block == block).map(|c| c.args[n as usize]));
            }
        }
    }
    made
}

fn facts_of(func: &Func<'_>, data: &InstData<'_>, target: &Target) -> Facts {
    let passes = matches!(data.op.effect(), Effect::Pure | Effect::Read);
    let loads = data.op.is_global_load();
    let Some(row) = &target.rows[data.op as usize] else {
        return Facts { passes, loads, free: true, pieces: 1, ..Facts::default() };
    };
    let times = repeats(func, data);
    if row.unit == Unit::Alu && is_uniform(func, data) {
        // The assembler gives it to the warp's uniform datapath: only its issue counts.
        let (issued, latency) = (issues(row, data), row.latency.into());
        return Facts { passes, pieces: 1, unit: Some(Unit::None), issued, latency, ..Facts::default() };
    }
    let is_product = matches!(data.attr, Attr::Mma(_));
    Facts {
        passes,
        loads,
        free: row.unit == Unit::None || func.is_view(data),
        pieces: if is_product { 1 } else { (times / PIECE).ceil() as u32 },
        unit: Some(row.unit),
        shifts: data.op == Opcode::Shl && data.args.get(1).is_some_and(|&by| func.constant(by).is_some()),
        issued: times * issues(row, data),
        busy: times * if is_product { target.rates.warp_product_cycles } else { interval(row) },
        latency: row.latency.into(),
        access: access(data),
        ..Facts::default()
    }
}

/// Cycles between two repetitions of a row on a scheduler's unit.
pub fn interval(row: &Row) -> f64 {
    f64::from(row.interval).max(1.0)
}

/// How often a row stands for one instruction of its fragment.
fn repeats(func: &Func<'_>, data: &InstData<'_>) -> f64 {
    match &data.attr {
        Attr::Mma(mma) => f64::from(mma.m_atoms) * f64::from(mma.n_atoms),
        _ if data.maps.is_empty() => 1.0,
        _ => f64::from(data.results.first().map_or(1, |&r| func.ty(r).regs().max(1))),
    }
}

/// Instructions of a row: the pieces of its text, and zeros in what a guarded one may leave.
fn issues(row: &Row, data: &InstData<'_>) -> f64 {
    let pieces = row.syntax.split(';').filter(|p| !p.contains(".reg ") && p.contains('$'));
    let zeros = usize::from(data.guard.is_some()) * data.results.len();
    (pieces.count().max(1) + zeros) as f64
}

/// Instructions of what takes no unit of the scheduler. Waiting for a phase is a try and a branch.
fn slots(data: &InstData<'_>) -> f64 {
    use Opcode::*;
    match (data.op, &data.attr) {
        (Wgmma, Attr::Wgmma(attr)) => attr.instructions().into(),
        (MbarWait, _) => 2.0,
        (MbarExpectTx | MbarArrive | MbarArriveRemote | BrIf, _) => 1.0,
        (WgmmaCommit | WgmmaWait | BulkCommit | BulkWait | BulkWaitRead, _) => 1.0,
        _ => 0.0,
    }
}

/// Whether it computes scalars that are equal in a warp.
fn is_uniform(func: &Func<'_>, data: &InstData<'_>) -> bool {
    let equal = |&v: &Value| func.values[v].uniform && !func.ty(v).is_frag();
    !data.results.is_empty() && data.results.iter().all(equal) && data.args.iter().all(equal)
}

/// Whether it updates global memory.
pub fn is_atomic(op: Opcode) -> bool {
    use Opcode::*;
    matches!(
        op,
        RedGlobalAddF32
            | RedGlobalAddS32
            | RedGlobalMinS32
            | RedGlobalMaxS32
            | RedGlobalMinU32
            | RedGlobalMaxU32
            | RedGlobalAddF16
            | RedGlobalAddBf16
            | RedGlobalAddF16x2
            | RedGlobalAddBf16x2
            | AtomAddU32
            | AtomIncU32
            | AtomIncRelaxedU32
            | AtomAddF32
            | AtomMinS32
            | AtomMaxS32
            | AtomMinU32
            | AtomMaxU32
            | AtomExchB32
            | AtomCasB32
            | AtomCasB16
            | AtomAddF16
            | AtomAddBf16
            | AtomAddU64
            | AtomMinS64
            | AtomMaxS64
            | AtomMinU64
            | AtomMaxU64
            | AtomExchB64
            | AtomCasB64
    )
}

/// Whether it updates an array in shared memory.
pub fn is_shared_atomic(op: Opcode) -> bool {
    op.in_global().is_some_and(is_atomic)
}

fn access(data: &InstData<'_>) -> Option<(Unit, f64)> {
    use Opcode::*;
    let count = match data.attr {
        Attr::Mem { count, .. } | Attr::Sync { count, .. } | Attr::Matrix { count, .. } => f64::from(count),
        _ => 1.0,
    };
    match data.op {
        LdGlobal | StGlobal => Some((Unit::Tma, 4.0 * LANES * count)),
        op if is_atomic(op) => Some((Unit::Tma, 4.0 * LANES * count)),
        op if is_shared_atomic(op) => Some((Unit::Lsu, 4.0 * LANES)),
        LdGlobal8 | StGlobal8 => Some((Unit::Tma, LANES)),
        LdGlobal64 => Some((Unit::Tma, 8.0 * LANES)),
        LdGlobal16 | StGlobal16 => Some((Unit::Tma, 2.0 * LANES)),
        CpAsync => match data.attr {
            Attr::Copy(copy) => Some((Unit::Tma, f64::from(copy.bytes) * LANES)),
            _ => None,
        },
        LdShared8 | LdShared16 | StShared8 | StShared16 | StRemote8 | StRemote16 => {
            Some((Unit::Lsu, 2.0 * LANES))
        }
        LdShared | StShared | StRemote | Ldmatrix | Stmatrix => Some((Unit::Lsu, 4.0 * LANES * count)),
        _ => None,
    }
}
