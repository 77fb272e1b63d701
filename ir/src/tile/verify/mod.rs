//! The verifier checks a kernel after every pass. It collects all violations of these rules:
//!
//! - Structure: blocks form a tree, each ends in its only `yield`, every value is defined before its
//!   use in its block or one around it.
//! - Types: every instruction obeys the rules of `typing`. The yielded values of blocks have the types of the results.
//! - Sizes: extents are positive, tiles hold at most [`MAX_TILE_ELEMENTS`] elements.
//! - Asserts that the tunables decide hold for the text's values.
//! - The extent `?` is one of a view on which no stride depends.
//! - The grid: one to three i32 scalars that depend on parameters and tunables only.
//! - Asynchronous copies: nothing reads their data before a wait that covers them.

mod asynchronous;
mod mapping;
mod regions;

pub use mapping::{MAX_SLICES, verify_mapping};

use super::typing::{Typing, same_type};
use super::*;
use cranelift_entity::EntityRef;
use rustc_hash::FxHashSet;

/// The greatest number of elements of a tile.
pub const MAX_TILE_ELEMENTS: u64 = 1 << 20;

/// The deepest nesting of blocks.
pub const MAX_BLOCK_DEPTH: u32 = 64;

/// Where `?` stands as it may not.
const UNBOUNDED: &str =
    "`?` is an extent on which no stride depends: the first one of a view, or any of a view with strides";

/// A violation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{message}", place(*.loc))]
pub struct VerifyError {
    /// The instruction; `None` for the kernel as a whole.
    pub inst: Option<Inst>,
    /// Its place in the text.
    pub loc: Loc,
    /// The mistake. It names the instruction.
    pub message: String,
}

fn place(loc: Loc) -> String {
    match loc.line {
        0 => String::new(),
        line => format!("{line}:{}: ", loc.column),
    }
}

/// Checks a kernel; gives all violations.
pub fn verify(kernel: &Kernel) -> Result<(), Vec<VerifyError>> {
    let mut verifier = Verifier::new(kernel);
    verifier.signature();
    verifier.block(kernel.entry, 0);
    verifier.grid();
    if verifier.errors.is_empty() {
        verifier.asserts();
        asynchronous::check(&mut verifier);
    }
    match verifier.errors.is_empty() {
        true => Ok(()),
        false => Err(verifier.errors),
    }
}

struct Verifier<'a> {
    kernel: &'a Kernel,
    errors: Vec<VerifyError>,
    /// Values in sight.
    visible: SecondaryMap<Value, bool>,
    /// Blocks and instructions that have had their place.
    blocks: FxHashSet<Block>,
    insts: FxHashSet<Inst>,
}

impl<'a> Verifier<'a> {
    fn new(kernel: &'a Kernel) -> Self {
        Self {
            kernel,
            errors: Vec::new(),
            visible: SecondaryMap::new(),
            blocks: FxHashSet::default(),
            insts: FxHashSet::default(),
        }
    }

    fn error(&mut self, message: String) {
        self.errors.push(VerifyError { inst: None, loc: self.kernel.loc, message });
    }

    /// A violation by an instruction.
    fn error_at(&mut self, inst: Inst, message: impl fmt::Display) {
        let data = &self.kernel.insts[inst];
        let named = match self.kernel.results(inst).first() {
            Some(&v) if v.index() < self.kernel.values.len() => {
                let name = self.kernel.value_text(v);
                format!("`{name} = {}`", data.op.name())
            }
            _ => format!("`{}`", data.op.name()),
        };
        self.errors.push(VerifyError {
            inst: Some(inst),
            loc: data.loc,
            message: format!("{named}: {message}"),
        });
    }

    fn known(&self, value: Value) -> bool {
        value.index() < self.kernel.values.len()
    }

    fn signature(&mut self) {
        let kernel = self.kernel;
        let entry = kernel.blocks.get(kernel.entry).map(|b| &b.params);
        let params: Vec<Value> = kernel.params.iter().map(|p| p.value).collect();
        if entry != Some(&params) {
            self.error("the entry block's parameters are not the kernel's".to_owned());
        }
        let mut names = FxHashSet::default();
        let tunables = kernel.tunables.values().map(|t| &t.name);
        let others = kernel.constants.iter().map(|c| &c.name).chain(tunables);
        for name in kernel.params.iter().map(|p| &p.name).chain(others) {
            if !names.insert(name) {
                self.error(format!("the name `{name}` is taken twice"));
            }
        }
        kernel.params.iter().for_each(|p| self.param(p));
        kernel.tunables.values().filter_map(TunableData::fault).for_each(|fault| self.error(fault));
    }

    fn asserts(&mut self) {
        let kernel = self.kernel;
        for unmet in kernel.settled(|t| kernel.tunables[t].default).unmet {
            self.error_at(unmet.inst, unmet.message);
        }
    }

    fn param(&mut self, p: &ParamData) {
        if !self.known(p.value) {
            return;
        }
        let ty = self.kernel.ty(p.value);
        if !matches!(ty, Type::Scalar(_) | Type::Ptr(_)) {
            let ty = self.kernel.type_text(ty);
            self.error(format!("parameter `{}` is {ty}, must be a scalar or pointer", p.name));
        }
        let f = p.facts;
        if !f.align.is_power_of_two() || f.multiple < 1 || f.min > f.max {
            self.error(format!("the facts of parameter `{}` contradict themselves", p.name));
        }
    }

    /// A block and its nested blocks. Its values are out of scope afterwards.
    fn block(&mut self, block: Block, depth: u32) {
        let kernel = self.kernel;
        let Some(data) = kernel.blocks.get(block) else {
            return self.error(format!("{block} does not exist"));
        };
        if !self.blocks.insert(block) || depth > MAX_BLOCK_DEPTH {
            return self.error(format!("{block} stands twice, or is nested deeper than {MAX_BLOCK_DEPTH}"));
        }
        let mut shown = Vec::new();
        self.show(&data.params, &mut shown);
        for (i, &inst) in data.insts.iter().enumerate() {
            self.placed(inst, i + 1 == data.insts.len(), &mut shown, depth);
        }
        if data.insts.is_empty() {
            self.error(format!("{block} has no `yield`"));
        }
        for value in shown {
            self.visible[value] = false;
        }
    }

    fn show(&mut self, values: &[Value], shown: &mut Vec<Value>) {
        for &v in values {
            if !self.known(v) {
                self.error(format!("{v} does not exist"));
                continue;
            }
            self.visible[v] = true;
            shown.push(v);
            self.size(v);
        }
    }

    /// Extents and number of elements, with tunables at their defaults.
    fn size(&mut self, value: Value) {
        let Type::Tile(_, shape) = self.kernel.ty(value) else {
            return;
        };
        let mut elements = Some(u64::from(shape.rank() > 0));
        for d in shape.dims() {
            let extent = self.extent(*d).filter(|&e| e > 0);
            elements = elements.and_then(|n| n.checked_mul(u64::from(extent?)));
        }
        if elements.is_some_and(|n| (1..=MAX_TILE_ELEMENTS).contains(&n)) {
            return;
        }
        let ty = self.kernel.type_text(self.kernel.ty(value));
        let message =
            format!("{ty} must have positive whole extents and at most {MAX_TILE_ELEMENTS} elements");
        match self.kernel.def(value) {
            Some(inst) if inst.index() < self.kernel.insts.len() => self.error_at(inst, message),
            _ => self.error(format!("{value}: {message}")),
        }
    }

    /// An extent with tunables at their defaults; `None` if it is no whole number.
    fn extent(&self, dim: Dim) -> Option<u32> {
        let known = dim.tunables().all(|t| self.kernel.tunables.is_valid(t));
        let default = |t: Tunable| self.kernel.tunables[t].default;
        known.then(|| dim.resolve(default)).flatten()
    }

    fn fraction(&mut self, inst: Inst) {
        self.error_at(inst, "is no whole number with the tunables' values");
    }

    fn placed(&mut self, inst: Inst, last: bool, shown: &mut Vec<Value>, depth: u32) {
        let kernel = self.kernel;
        let Some(data) = kernel.insts.get(inst) else {
            return self.error(format!("{inst} does not exist"));
        };
        if !self.insts.insert(inst) {
            return self.error_at(inst, "stands twice");
        }
        if matches!(data.op, Op::Yield) != last {
            self.error_at(inst, "a block ends in its only `yield`");
        }
        let before = self.errors.len();
        self.operands(inst);
        if self.errors.len() == before {
            self.types(inst);
        }
        for &block in &data.blocks {
            self.block(block, depth + 1);
        }
        if self.errors.len() == before {
            self.region(inst);
        }
        self.show(kernel.results(inst), shown);
    }

    fn operands(&mut self, inst: Inst) {
        for (i, &v) in self.kernel.args(inst).iter().enumerate() {
            if !self.known(v) || !self.visible[v] {
                self.error_at(inst, format!("operand {} ({v}) is not defined here", i + 1));
            } else if self.kernel.is_unbounded(v) && !self.takes_unbounded(inst, i) {
                self.error_at(inst, UNBOUNDED);
            }
        }
        for (i, &v) in self.kernel.results(inst).iter().enumerate() {
            let def = ValueDef::Result(inst, i as u32);
            if self.kernel.values.get(v).map(|d| d.def) != Some(def) {
                self.error_at(inst, format!("{v} is not its result"));
            }
        }
    }

    /// Whether an operand may be `?`: an extent on which no stride depends.
    fn takes_unbounded(&self, inst: Inst, operand: usize) -> bool {
        let extents = match self.kernel.insts[inst].op {
            Op::View { strided: true, .. } => (self.kernel.args(inst).len() - 1) / 2,
            Op::View { strided: false, .. } => 1,
            _ => 0,
        };
        (1..=extents).contains(&operand)
    }

    fn types(&mut self, inst: Inst) {
        let kernel = self.kernel;
        let ty = |&v: &Value| kernel.ty(v);
        let args: SmallVec<[Type; 8]> = kernel.args(inst).iter().map(ty).collect();
        let results: Types = kernel.results(inst).iter().map(ty).collect();
        let op = &kernel.insts[inst].op;
        let rule = Typing { tunables: &kernel.tunables, op, args: &args, want: results.first().copied() };
        if matches!(op, Op::For | Op::While | Op::If) {
            return;
        }
        match rule.infer() {
            Err(e) => self.error_at(inst, e),
            Ok(given) if !same_types(&given, &results) => {
                let [given, found] = [&given, &results].map(|t| self.list(t));
                self.error_at(inst, format!("gives {given}, not {found}"));
            }
            Ok(_) => self.attributes(inst, op, &results),
        }
    }

    fn attributes(&mut self, inst: Inst, op: &Op, results: &[Type]) {
        let rank = self.kernel.grid.len();
        match op {
            Op::BlockIndex(d) | Op::GridDim(d) if usize::from(*d) >= rank => {
                self.error_at(inst, format!("the grid has {rank} dimensions"));
            }
            Op::Int(v) if !results.iter().all(|t| fits(*v, t.elem())) => {
                self.error_at(inst, format!("{v} does not fit {}", self.list(results)));
            }
            Op::Dim(d) if self.extent(*d).is_none() => self.fraction(inst),
            Op::Slice(offsets) if offsets.iter().any(|&d| self.extent(d).is_none()) => {
                self.fraction(inst);
            }
            _ => {}
        }
    }

    fn list(&self, types: &[Type]) -> String {
        typing::list_text(&self.kernel.tunables, types)
    }

    fn grid(&mut self) {
        let kernel = self.kernel;
        if !(1..=MAX_GRID).contains(&kernel.grid.len()) {
            return self.error(match kernel.grid.len() {
                0 => format!(
                    "kernel `{}` has no grid; write `grid cdiv(n, B)`, 1 to {MAX_GRID} extents",
                    kernel.name
                ),
                n => format!("the grid has {n} dimensions, 1 to {MAX_GRID} are possible"),
            });
        }
        let own: FxHashSet<Inst> =
            kernel.blocks.get(kernel.entry).iter().flat_map(|b| b.insts.iter().copied()).collect();
        for (d, &v) in kernel.grid.iter().enumerate() {
            if !self.known(v) || kernel.ty(v) != Type::Scalar(Elem::I32) {
                self.error(format!("grid dimension {d} is no i32"));
            } else if !self.launch_time(v, &own) {
                self.error(format!("grid dimension {d} depends on more than parameters and tunables"));
            }
        }
    }

    /// Whether a value follows from parameters and tunables by arithmetic in the entry block.
    fn launch_time(&self, value: Value, own: &FxHashSet<Inst>) -> bool {
        let kernel = self.kernel;
        let mut todo = vec![value];
        let mut seen = FxHashSet::default();
        while let Some(v) = todo.pop().filter(|&v| self.known(v)) {
            match kernel.values[v].def {
                ValueDef::Param(block, _) if block == kernel.entry => {}
                ValueDef::Result(inst, _) if own.contains(&inst) => {
                    let arithmetic = matches!(
                        kernel.insts[inst].op,
                        Op::Int(_)
                            | Op::Dim(_)
                            | Op::Binary(_)
                            | Op::Unary(_)
                            | Op::Compare(_)
                            | Op::Select
                            | Op::Fma
                            | Op::Cast
                            | Op::Assume(_)
                    );
                    if !arithmetic {
                        return false;
                    }
                    let args = kernel.args(inst).iter().copied();
                    todo.extend(args.filter(|&a| seen.insert(a)));
                }
                _ => return false,
            }
        }
        true
    }
}

fn same_types(a: &[Type], b: &[Type]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(x, y)| same_type(*x, *y))
}

/// Whether the integer is in the range of the type; a u64 keeps all 64 bits.
fn fits(value: i64, elem: Elem) -> bool {
    let bits = elem.bits();
    match elem {
        Elem::Bool => (0..=1).contains(&value),
        Elem::Int(64) | Elem::Uint(64) => true,
        Elem::Int(_) => (-(1i64 << (bits - 1))..1i64 << (bits - 1)).contains(&value),
        _ => (0..1i64 << bits.min(62)).contains(&value) || bits == 63 && value >= 0,
    }
}

#[cfg(test)]
mod tests;
