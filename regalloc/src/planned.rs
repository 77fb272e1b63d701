//! The values that the fragment planner places, and the contents of their registers.
//!
//! Besides fragments these are the 32-bit scalars that are cut out of fragments or joined into them: a
//! `slice` or `join` of such a scalar then names a register of the fragment and costs no move. Scalars
//! that meet them at block parameters follow.

use crate::descriptors::Descriptors;
use crate::liveness::occupies;
use crate::normalize::Normalized;
use crate::shape::View;
use crate::table::per_value;
use warplift_ir::entity::SecondaryMap;
use warplift_ir::machine::{Attr, Inst, InstData, Ty, Value};
use warplift_ir::target::Opcode;

/// The content of a register of an undefined value: equal to any other.
pub(crate) const ANY: u32 = 0;

/// The planner's values.
pub(crate) struct Planned {
    /// Values by number.
    pub(crate) values: Vec<Value>,
    number: SecondaryMap<Value, Option<u32>>,
    /// Registers of each.
    pub(crate) regs: Vec<u16>,
    first: Vec<u32>,
    content: Vec<u32>,
    /// Scalars that hold no register.
    pub(crate) descriptors: Descriptors,
}

/// Which registers of its operand a free view names: a `slice`, or registers in another order. `n`
/// registers result.
pub(crate) fn view_of(data: &InstData<'_>, n: u16) -> Option<View> {
    let run = |start: i64| u16::try_from(start).ok().map(|s| View::Run(s.into()));
    let list = |at: &dyn Fn(u16) -> Option<u16>| (0..n).map(at).collect::<Option<_>>().map(View::List);
    match (data.op, &data.attr) {
        (Opcode::Slice | Opcode::Mov, _) if !data.maps.is_empty() => list(&|i| data.maps[0].at(i)),
        (Opcode::Slice, Attr::Imm(start) | Attr::Imm2(start, 1)) => run(*start),
        (Opcode::Slice, Attr::Imm2(start, stride)) => {
            list(&|i| u16::try_from(start + stride * i64::from(i)).ok())
        }
        _ => None,
    }
}

impl Planned {
    /// Chooses the values; `also` are scalars placed here for want of names.
    pub(crate) fn choose(normal: &Normalized<'_>, also: &[Value]) -> Self {
        let func = &normal.func;
        let mut chosen: SecondaryMap<Value, bool> = per_value(func);
        for (v, data) in func.values.iter() {
            chosen[v] = data.ty.is_frag();
        }
        for &v in also {
            chosen[v] = true;
        }
        for (_, data) in func.insts.iter() {
            match data.op {
                Opcode::Slice => chosen[data.results[0]] = true,
                Opcode::Join => data.args.iter().for_each(|&a| chosen[a] = true),
                _ => {}
            }
        }
        while spread(normal, &mut chosen) {}
        let keep = |v: &Value| chosen[*v] && occupies(normal, *v) && func.ty(*v) != Ty::B64;
        let values: Vec<Value> = func.values.keys().filter(keep).collect();
        Self::number(normal, values)
    }

    fn number(normal: &Normalized<'_>, values: Vec<Value>) -> Self {
        let mut this = Self {
            number: per_value(&normal.func),
            regs: Vec::with_capacity(values.len()),
            first: Vec::with_capacity(values.len()),
            content: Vec::new(),
            descriptors: Descriptors::find(normal),
            values,
        };
        for (i, &v) in this.values.iter().enumerate() {
            this.number[v] = Some(i as u32);
            let n = normal.func.ty(v).regs() as u16;
            let first = this.content.len() as u32;
            this.regs.push(n);
            this.first.push(first);
            this.content.extend((0..u32::from(n)).map(|r| first + r + 1));
        }
        this
    }

    /// Number of a value, if it is one of the planner's.
    pub(crate) fn get(&self, v: Value) -> Option<usize> {
        self.number[v].map(|n| n as usize)
    }

    /// The contents of a value's registers. Equal numbers mean equal content.
    pub(crate) fn content(&self, i: usize) -> &[u32] {
        let first = self.first[i] as usize;
        &self.content[first..first + usize::from(self.regs[i])]
    }

    /// Contents are less than this.
    pub(crate) fn registers(&self) -> usize {
        self.content.len() + 1
    }

    /// The content of register `r` of a value that is no view.
    pub(crate) fn own(&self, i: usize, r: u16) -> u32 {
        self.first[i] + u32::from(r) + 1
    }

    /// Follows slices and joins; `Err` names one that leaves its fragment. Instructions come in an order
    /// in which definitions stand before uses.
    pub(crate) fn trace(
        &mut self,
        normal: &Normalized<'_>,
        insts: impl Iterator<Item = Inst>,
    ) -> Result<(), Inst> {
        for inst in insts {
            let data = &normal.func.insts[inst];
            let Some(result) = data.results.first().and_then(|&r| self.get(r)) else { continue };
            let traced = match data.op {
                Opcode::Undef => Some(vec![ANY; usize::from(self.regs[result])]),
                Opcode::Slice => Some(self.viewed(data, self.regs[result]).ok_or(inst)?),
                _ if normal.func.is_view(data) => self.viewed(data, self.regs[result]),
                Opcode::Join => Some(self.joined(normal, data, result).ok_or(inst)?),
                _ => None,
            };
            if let Some(list) = traced {
                let first = self.first[result] as usize;
                self.content[first..first + list.len()].copy_from_slice(&list);
            }
        }
        Ok(())
    }

    fn viewed(&self, data: &InstData<'_>, n: u16) -> Option<Vec<u32>> {
        let source = self.content(self.get(*data.args.first()?)?);
        match view_of(data, n)? {
            View::Run(start) => {
                source.get(start as usize..start as usize + usize::from(n)).map(<[u32]>::to_vec)
            }
            View::List(list) => list.iter().map(|&i| source.get(usize::from(i)).copied()).collect(),
        }
    }

    fn joined(&self, normal: &Normalized<'_>, data: &InstData<'_>, result: usize) -> Option<Vec<u32>> {
        let mut list = Vec::with_capacity(usize::from(self.regs[result]));
        for &arg in data.args {
            match self.get(arg) {
                Some(i) => list.extend_from_slice(self.content(i)),
                // A literal: the register of the result that it is written to.
                None => {
                    normal.func.constant(arg)?;
                    list.push(self.first[result] + list.len() as u32 + 1);
                }
            }
        }
        (list.len() == usize::from(self.regs[result])).then_some(list)
    }
}

/// One round of the closure over block parameters; whether something was added.
fn spread(normal: &Normalized<'_>, chosen: &mut SecondaryMap<Value, bool>) -> bool {
    let func = &normal.func;
    let mut changed = false;
    for &block in &func.order {
        for call in func.successors(block) {
            for (&arg, &param) in call.args.iter().zip(&func.blocks[call.block].params) {
                if chosen[arg] != chosen[param] {
                    chosen[arg] = true;
                    chosen[param] = true;
                    changed = true;
                }
            }
        }
    }
    changed
}
