//! One role: its names, its blocks in order, its instructions.

use crate::{EmitError, loops, texts};
use std::fmt::Write as _;
use warplift_ir::machine::{
    Allocation, Attr, Block, Func, Inst, InstData, Move, Operand, Reg, Scheduled, Ty,
};
use warplift_ir::target::{Lacks, Opcode, Row, Target};
use warplift_ir::tile::Loc;

/// The form of a role's `ret`.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum End {
    /// The code after it.
    FallThrough,
    /// The thread ends.
    Return,
}

/// The program of a role, and the chip that it is written for.
#[derive(Clone, Copy)]
pub(crate) struct Context<'c, 'a> {
    pub(crate) program: &'c Scheduled<'a>,
    pub(crate) target: &'c Target,
}

/// The role being written, and its text.
pub(crate) struct Writer<'w, 'a> {
    pub(crate) out: &'w mut String,
    pub(crate) name: &'w str,
    pub(crate) func: &'w Func<'a>,
    pub(crate) alloc: &'w Allocation,
    target: &'w Target,
    pub(crate) labels: u32,
    /// The texts of the module's prints.
    pub(crate) texts: Vec<&'w str>,
    end: End,
    halves: bool,
    loc: Loc,
}

/// One instruction with its registers.
#[derive(Clone, Copy)]
pub(crate) struct Site<'s, 'a> {
    pub(crate) inst: Inst,
    pub(crate) data: &'s InstData<'a>,
    pub(crate) row: &'static Row,
    pub(crate) operands: &'s [Operand],
}

impl Site<'_, '_> {
    /// Number of the first result among the operands.
    pub(crate) fn result(&self) -> usize {
        self.data.args.len()
    }

    /// Number of the guard among the operands.
    pub(crate) fn guard(&self) -> usize {
        self.data.args.len() + self.data.results.len()
    }
}

/// Writes a role between braces.
pub(crate) fn write_role<'w, 'a>(
    out: &'w mut String,
    name: &'w str,
    func: &'w Func<'a>,
    alloc: &'w Allocation,
    context: Context<'w, 'a>,
    end: End,
) -> Result<(), EmitError> {
    let halves = func.values.values().any(|v| v.ty == Ty::B16);
    let Context { program, target } = context;
    let texts = texts::texts(program);
    let mut w = Writer { out, name, func, alloc, target, labels: 0, texts, end, halves, loc: Loc::default() };
    w.out.push_str("{\n");
    w.declare();
    w.maps(program)?;
    w.blocks()?;
    w.out.push_str("}\n");
    Ok(())
}

impl<'w, 'a> Writer<'w, 'a> {
    fn declare(&mut self) {
        let [r, d, p] = self.alloc.names;
        let halves = if self.halves { r } else { 0 };
        for (ty, name, n) in [("b32", 'r', r), ("b16", 'h', halves), ("b64", 'd', d), ("pred", 'p', p)] {
            if n > 0 {
                let _ = writeln!(self.out, ".reg .{ty} %{name}<{n}>;");
            }
        }
    }

    /// Addresses of the tensor maps that this role names, once.
    fn maps(&mut self, program: &Scheduled<'a>) -> Result<(), EmitError> {
        let insts = self.func.order.iter().flat_map(|&b| &self.func.blocks[b].insts);
        let named = insts.filter_map(|&i| match self.func.insts[i].attr {
            Attr::Tma(t) => Some(t.map),
            _ => None,
        });
        let mut maps: Vec<u32> = named.collect();
        maps.sort_unstable();
        maps.dedup();
        for map in maps {
            if program.launch.params.get(map as usize).is_none() {
                let name = String::new();
                return Err(EmitError::Parameter { number: map, name, what: "it is named, but not there" });
            }
            let _ = writeln!(
                self.out,
                ".reg .b64 %map{map};\nmov.b64 %map{map}, param{map};\ncvta.param.u64 %map{map}, %map{map};"
            );
        }
        Ok(())
    }

    fn blocks(&mut self) -> Result<(), EmitError> {
        let headers = loops::headers(self.func);
        let func = self.func;
        for (at, &block) in func.order.iter().enumerate() {
            if block != func.entry || headers[block] {
                self.label(block);
                self.out.push_str(":\n");
            }
            if headers[block] {
                self.out.push_str(".pragma \"nounroll\";\n");
            }
            let next = func.order.get(at + 1).copied();
            for &inst in &func.blocks[block].insts {
                self.inst(inst, next)?;
            }
        }
        if self.end == End::FallThrough {
            let _ = writeln!(self.out, "${}_end:", self.name);
        }
        Ok(())
    }

    fn label(&mut self, block: Block) {
        let _ = write!(self.out, "${}_{block}", self.name);
    }

    fn inst(&mut self, inst: Inst, next: Option<Block>) -> Result<(), EmitError> {
        let (func, alloc) = (self.func, self.alloc);
        let data = &func.insts[inst];
        let row = self.target.require(data.op).map_err(|lacks| self.lacks(inst, lacks))?;
        let site = Site { inst, data, row, operands: &alloc.insts[inst] };
        self.location(site.data.loc);
        for &m in &alloc.before[inst] {
            self.write_move(m);
        }
        match site.data.op {
            Opcode::Const => self.constant(site),
            Opcode::Undef => Ok(()),
            Opcode::Join => self.join(site),
            Opcode::Slice => self.slice(site),
            Opcode::Br => {
                let [to] = &site.data.targets[..] else { return Err(self.attribute(site, "one target")) };
                self.branch(to.block, next);
                Ok(())
            }
            Opcode::BrIf => self.branch_if(site, next),
            Opcode::Ret if self.end == End::FallThrough => {
                if next.is_some() {
                    let _ = writeln!(self.out, "bra.uni ${}_end;", self.name);
                }
                Ok(())
            }
            Opcode::Wgmma => self.wgmma(site),
            Opcode::MmaSync => self.mma_sync(site),
            Opcode::Stmatrix | Opcode::Ldmatrix => self.matrix(site),
            Opcode::TmaLoad | Opcode::TmaStore => self.tensor_copy(site),
            Opcode::BulkLoad => self.bulk_copy(site),
            Opcode::CpAsync => self.thread_copy(site),
            Opcode::MbarWait => self.wait(site),
            Opcode::Assume | Opcode::Assume64 => self.assume(site),
            Opcode::Printf => self.printf(site),
            op if row.syntax.is_empty() => {
                Err(EmitError::Unscheduled { role: self.name.to_owned(), inst, row: op.name() })
            }
            _ => self.row(site),
        }
    }

    fn lacks(&self, inst: Inst, lacks: Lacks) -> EmitError {
        EmitError::Lacks { role: self.name.to_owned(), inst, lacks }
    }

    fn location(&mut self, loc: Loc) {
        if loc.line > 0 && loc != self.loc {
            self.loc = loc;
            let _ = writeln!(self.out, ".loc 1 {} {}", loc.line, loc.column);
        }
    }

    fn write_move(&mut self, m: Move) {
        let (ty, name, from, to) = match (m.from, m.to) {
            (Reg::D(a), Reg::D(b)) => ("b64", 'd', a, b),
            (Reg::Pred(a), Reg::Pred(b)) => ("pred", 'p', a, b),
            (Reg::R(a) | Reg::D(a) | Reg::Pred(a), Reg::R(b) | Reg::D(b) | Reg::Pred(b)) => {
                ("b32", 'r', a, b)
            }
        };
        let _ = writeln!(self.out, "mov.{ty} %{name}{to}, %{name}{from};");
        if self.halves && name == 'r' {
            let _ = writeln!(self.out, "mov.b16 %h{to}, %h{from};");
        }
    }

    fn branch(&mut self, to: Block, next: Option<Block>) {
        if next != Some(to) {
            self.out.push_str("bra.uni ");
            self.label(to);
            self.out.push_str(";\n");
        }
    }

    /// Branches to the first target if the predicate holds, else to the second one.
    fn branch_if(&mut self, site: Site<'_, 'a>, next: Option<Block>) -> Result<(), EmitError> {
        let ([yes, no], [cond]) = (&site.data.targets[..], site.data.args) else {
            return Err(self.attribute(site, "a condition and two targets"));
        };
        let [yes, no] = [yes.block, no.block];
        let (not, to, other) = if next == Some(yes) { ("!", no, yes) } else { ("", yes, no) };
        let uniform = self.func.values[*cond].uniform;
        let _ = write!(self.out, "@{not}");
        self.operand(site, 0, 0, false)?;
        self.out.push_str(if uniform { " bra.uni " } else { " bra " });
        self.label(to);
        self.out.push_str(";\n");
        self.branch(other, next);
        Ok(())
    }
}
