//! Scalars through regalloc2: one `Function` per role, fragments outside it.
//!
//! Classes: `Int` = 32 and 16 bits, `Float` = 64 bits, `Vector` = predicates. regalloc2 0.15 has 64 names
//! per class, of which `Int` 63 is its invalid register; both limits are checked here in release too.

use crate::descriptors::Names;
use crate::literals::takes_literal;
use crate::liveness::{Liveness, occupies};
use crate::normalize::Normalized;
use crate::planned::Planned;
use crate::table::per_value;
use crate::{Budget, NAMES, RegallocError};
use regalloc2::{
    Allocation, AllocationKind, Block, Edit, Inst, InstPosition, InstRange, MachineEnv, Operand, Output,
    PReg, PRegSet, RegAllocError, RegClass, RegallocOptions, VReg,
};
use warplift_ir::entity::SecondaryMap;
use warplift_ir::machine::{Block as IrBlock, Inst as IrInst, Move, Reg, Ty, Value};
use warplift_ir::target::Opcode;

/// The names of the classes in errors.
const CLASSES: [&str; 3] = ["32-bit", "64-bit", "predicate"];

/// A role as regalloc2 sees it: numbers in the order of its text.
pub(crate) struct Scalars {
    insts: Vec<IrInst>,
    ops: Vec<Opcode>,
    operands: Vec<Operand>,
    /// First operand of each instruction; one more at the end.
    first: Vec<u32>,
    ranges: Vec<InstRange>,
    succs: Vec<Vec<Block>>,
    preds: Vec<Vec<Block>>,
    params: Vec<Vec<VReg>>,
    passed: Vec<Vec<VReg>>,
    vregs: usize,
}

/// Registers of scalars.
pub(crate) struct Assigned {
    scalars: Scalars,
    numbers: SecondaryMap<IrInst, u32>,
    output: Output,
}

fn class(ty: Ty) -> RegClass {
    match ty {
        Ty::B64 => RegClass::Float,
        Ty::Pred => RegClass::Vector,
        _ => RegClass::Int,
    }
}

impl Scalars {
    fn new(normal: &Normalized<'_>, live: &Liveness, planned: &Planned, names: &Names) -> Self {
        let func = &normal.func;
        let mut vregs: SecondaryMap<Value, Option<VReg>> = per_value(func);
        let mut count = 0;
        for (v, data) in func.values.iter() {
            if planned.get(v).is_none() && names.get(v).is_none() && occupies(normal, v) {
                vregs[v] = Some(VReg::new(count, class(data.ty)));
                count += 1;
            }
        }
        let insts = live.blocks.iter().map(|&b| func.blocks[b].insts.len()).sum();
        let mut this = Self {
            insts: Vec::with_capacity(insts),
            ops: Vec::with_capacity(insts),
            operands: Vec::with_capacity(2 * insts),
            first: Vec::with_capacity(insts + 1),
            ranges: Vec::new(),
            succs: Vec::new(),
            preds: vec![Vec::new(); live.blocks.len()],
            params: Vec::new(),
            passed: Vec::new(),
            vregs: count,
        };
        this.first.push(0);
        for (b, &block) in live.blocks.iter().enumerate() {
            this.block(normal, live, &vregs, b, block);
        }
        this
    }

    fn block(
        &mut self,
        normal: &Normalized<'_>,
        live: &Liveness,
        vregs: &SecondaryMap<Value, Option<VReg>>,
        b: usize,
        block: IrBlock,
    ) {
        let func = &normal.func;
        let start = Inst::new(self.insts.len());
        for &inst in &func.blocks[block].insts {
            self.insts.push(inst);
            self.ops.push(func.insts[inst].op);
            let guarded = func.insts[inst].guard.is_some();
            for (v, is_result) in slots(normal, inst) {
                if let Some(vreg) = v.and_then(|v| vregs[v]) {
                    self.operands.push(match (is_result, guarded) {
                        (false, _) => Operand::reg_use(vreg),
                        (true, false) => Operand::reg_def(vreg),
                        // Zeros are written before a guarded instruction reads.
                        (true, true) => Operand::reg_def_at_start(vreg),
                    });
                }
            }
            self.first.push(self.operands.len() as u32);
        }
        self.ranges.push(InstRange::new(start, Inst::new(self.insts.len())));
        let list = |values: &[Value]| values.iter().filter_map(|&v| vregs[v]).collect();
        self.params.push(list(&func.blocks[block].params));
        let calls = func.successors(block);
        let succs: Vec<Block> = calls.iter().map(|c| Block::new(live.number[c.block] as usize)).collect();
        for s in &succs {
            self.preds[s.index()].push(Block::new(b));
        }
        self.succs.push(succs);
        // Only unconditional branches pass values: edges are split.
        self.passed.push(calls.first().map_or(Vec::new(), |c| list(c.args)));
    }
}

/// The values of an instruction in the order of an allocation's operands, and which are results. Literals
/// are `None`.
pub(crate) fn slots<'n>(
    normal: &'n Normalized<'_>,
    inst: IrInst,
) -> impl Iterator<Item = (Option<Value>, bool)> + 'n {
    let data = &normal.func.insts[inst];
    let literal = |v: Value| normal.func.constant(v).is_some() && !normal.func.ty(v).is_frag();
    let args = data.args.iter().enumerate();
    let args =
        args.map(move |(k, &v)| ((!literal(v) || !takes_literal(normal.rows, data, k)).then_some(v), false));
    let results = data.results.iter().map(|&v| (Some(v), true));
    let guard = data.guard.iter().map(|g| (Some(g.pred), false));
    args.chain(results).chain(guard)
}

impl regalloc2::Function for Scalars {
    fn num_insts(&self) -> usize {
        self.insts.len()
    }

    fn num_blocks(&self) -> usize {
        self.ranges.len()
    }

    fn entry_block(&self) -> Block {
        Block::new(0)
    }

    fn block_insns(&self, block: Block) -> InstRange {
        self.ranges[block.index()]
    }

    fn block_succs(&self, block: Block) -> &[Block] {
        &self.succs[block.index()]
    }

    fn block_preds(&self, block: Block) -> &[Block] {
        &self.preds[block.index()]
    }

    fn block_params(&self, block: Block) -> &[VReg] {
        &self.params[block.index()]
    }

    fn is_ret(&self, inst: Inst) -> bool {
        matches!(self.ops[inst.index()], Opcode::Ret | Opcode::Trap)
    }

    fn is_branch(&self, inst: Inst) -> bool {
        matches!(self.ops[inst.index()], Opcode::Br | Opcode::BrIf)
    }

    fn branch_blockparams(&self, block: Block, inst: Inst, _: usize) -> &[VReg] {
        match self.ops[inst.index()] {
            Opcode::Br => &self.passed[block.index()],
            _ => &[],
        }
    }

    fn inst_operands(&self, inst: Inst) -> &[Operand] {
        &self.operands[self.first[inst.index()] as usize..self.first[inst.index() + 1] as usize]
    }

    fn inst_clobbers(&self, _: Inst) -> PRegSet {
        PRegSet::empty()
    }

    fn num_vregs(&self) -> usize {
        self.vregs
    }

    fn spillslot_size(&self, _: RegClass) -> usize {
        1
    }
}

fn environment() -> MachineEnv {
    let set = |class, n| (0..n).fold(PRegSet::empty(), |s, i| s.with(PReg::new(i, class)));
    let [int, float, pred] = NAMES;
    MachineEnv {
        preferred_regs_by_class: [
            set(RegClass::Int, int),
            set(RegClass::Float, float),
            set(RegClass::Vector, pred),
        ],
        non_preferred_regs_by_class: [PRegSet::empty(); 3],
        scratch_by_class: [None; 3],
        fixed_stack_slots: Vec::new(),
    }
}

fn names_error(budget: &Budget<'_>, class: RegClass) -> RegallocError {
    let c = class as usize;
    RegallocError::Names { role: budget.role.to_owned(), class: CLASSES[c], limit: NAMES[c] as u32 }
}

/// Gives scalars their registers, but for those that have `names` already.
pub(crate) fn assign(
    normal: &Normalized<'_>,
    live: &Liveness,
    planned: &Planned,
    names: &Names,
    budget: &Budget<'_>,
) -> Result<Assigned, RegallocError> {
    let scalars = Scalars::new(normal, live, planned, names);
    let env = environment();
    let output =
        regalloc2::run(&scalars, &env, &RegallocOptions::default()).map_err(|error| match error {
            RegAllocError::TooManyLiveRegs => names_error(budget, RegClass::Int),
            other => RegallocError::Scalars { role: budget.role.to_owned(), what: format!("{other:?}") },
        })?;
    let spilled = output.allocs.iter().position(|a| a.kind() == AllocationKind::Stack);
    if let Some(at) = spilled {
        return Err(names_error(budget, scalars.operands[at].class()));
    }
    let moved = output.edits.iter().find_map(|(_, Edit::Move { from, to })| {
        let reg = from.as_reg().or(to.as_reg());
        (from.is_stack() || to.is_stack()).then(|| reg.map_or(RegClass::Int, PReg::class))
    });
    if let Some(class) = moved {
        return Err(names_error(budget, class));
    }
    #[cfg(debug_assertions)]
    verify(&scalars, &env, &output, budget)?;
    let mut numbers = SecondaryMap::new();
    numbers.resize(normal.func.insts.len());
    for (n, &inst) in scalars.insts.iter().enumerate() {
        numbers[inst] = n as u32;
    }
    Ok(Assigned { scalars, numbers, output })
}

/// regalloc2's own checker, in debug builds.
#[cfg(debug_assertions)]
fn verify(
    scalars: &Scalars,
    env: &MachineEnv,
    output: &Output,
    budget: &Budget<'_>,
) -> Result<(), RegallocError> {
    let mut checker = regalloc2::checker::Checker::new(scalars, env);
    checker.prepare(output);
    checker.run().map_err(|errors| RegallocError::Scalars {
        role: budget.role.to_owned(),
        what: format!("{errors:?}"),
    })
}

impl Assigned {
    fn reg(&self, alloc: Allocation, shift: u16) -> Option<Reg> {
        let preg = alloc.as_reg()?;
        let n = preg.hw_enc() as u16;
        Some(match preg.class() {
            RegClass::Int => Reg::R(n + shift),
            RegClass::Float => Reg::D(n),
            RegClass::Vector => Reg::Pred(n),
        })
    }

    /// Registers of an instruction's scalars, in the order of [`slots`]; 32-bit names begin at `shift`.
    pub(crate) fn operands(&self, inst: IrInst, shift: u16) -> impl Iterator<Item = Option<Reg>> + '_ {
        let allocs = self.output.inst_allocs(Inst::new(self.numbers[inst] as usize));
        allocs.iter().map(move |&a| self.reg(a, shift))
    }

    /// Moves before instructions, in order.
    pub(crate) fn moves(&self, shift: u16) -> impl Iterator<Item = (IrInst, Move)> + '_ {
        self.output.edits.iter().filter_map(move |(point, Edit::Move { from, to })| {
            let after = usize::from(point.pos() == InstPosition::After);
            let inst = self.scalars.insts.get(point.inst().index() + after)?;
            Some((*inst, Move { from: self.reg(*from, shift)?, to: self.reg(*to, shift)? }))
        })
    }
}
