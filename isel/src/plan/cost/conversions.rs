//! What conversions of layouts cost in a plan, by the model of [`cost`](super).
//!
//! ```text
//!  registers │ shuffles and selects │ shared memory and a meeting │ cells, for elements below a byte
//! ```

use super::Model;
use crate::plan::constraint::adapts;
use crate::plan::convert::{cell_bits, choose};
use crate::plan::types::{Plan, Remade};
use crate::rows::row_of;
use crate::tiles::warps;
use crate::{IselError, Result};
use rustc_hash::FxHashSet;
use warplift_ir::layout::convert::Conversion;
use warplift_ir::layout::{Axis, Layout};
use warplift_ir::target::Opcode;
use warplift_ir::tile::{Inst, Op, Value};
use warplift_ir::types::Elem;

/// Instructions that widen four elements below a byte to a register of bytes, or narrow them.
const WIDENING: f64 = 7.0;

/// A conversion of one warp.
#[derive(Clone, Copy, Debug)]
pub(in crate::plan) struct Passed {
    pub cycles: f64,
    /// Bytes of shared memory for the whole block.
    pub scratch: f64,
}

/// The sum over all conversions.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::plan) struct Conversions {
    pub cycles: f64,
    pub scratch: f64,
    /// Whether a deferred result goes through shared memory.
    pub deferred_insts: bool,
}

impl Model<'_> {
    /// Cycles of all conversions. Uses with the same layout share one.
    pub(in crate::plan) fn conversions(&self, plan: &Plan) -> Result<Conversions> {
        let (k, mut seen, mut all) = (self.k, FxHashSet::default(), Conversions::default());
        let mut add = |inst: Inst, c: Passed| {
            all.cycles += self.trips[inst] * c.cycles;
            all.scratch += c.scratch;
            all.deferred_insts |= c.scratch > 0.0 && self.deferred_insts.contains(&inst);
        };
        let mut uses: Vec<_> = plan.uses.iter().collect();
        uses.sort_by_key(|u| *u.0);
        for (&(inst, n), to) in uses {
            let v = k.args(inst)[n];
            let Some(from) = plan.layouts[v].as_ref() else { continue };
            if seen.insert((v, to)) {
                let passed = match plan.rematerialized.get(&(inst, n)) {
                    Some(chain) => Passed { cycles: self.rematerialization(chain), scratch: 0.0 },
                    None => self.conversion(inst, v, from, to)?,
                };
                add(inst, passed);
            }
        }
        let mut made: Vec<_> = plan.made.iter().collect();
        made.sort_by_key(|m| *m.0);
        for (&v, from) in made {
            let (Some(to), Some(inst)) = (plan.layouts[v].as_ref(), k.def(v)) else { continue };
            add(inst, self.conversion(inst, v, from, to)?);
        }
        for &inst in self.order {
            let Some((v, from, to)) = plan.rearranged(k, inst) else { continue };
            add(inst, self.conversion(inst, v, from, to)?);
        }
        Ok(all)
    }

    /// Cycles of a conversion; `None` if it is impossible.
    pub fn converted(&self, inst: Inst, v: Value, from: &Layout, to: &Layout) -> Option<f64> {
        self.conversion(inst, v, from, to).ok().map(|p| p.cycles)
    }

    /// Cycles of rematerializing tiles.
    pub fn rematerialization(&self, chain: &[Remade]) -> f64 {
        let one = |(v, layout): &Remade| {
            let Some(def) = self.k.def(*v) else { return 0.0 };
            let registers = (layout.in_extent(Axis::Reg) * cell_bits(self.k.ty(*v).elem())) as f64 / 32.0;
            let row = match self.k.insts[def].op {
                Op::Iota(_) => Some(Opcode::AddS32),
                _ => row_of(self.k, def),
            };
            row.map_or(0.0, |r| self.row(def, registers, self.interval(r)))
        };
        chain.iter().map(one).sum()
    }

    /// Cycles of one conversion for all warps, or of rematerializing the tile.
    fn conversion(&self, inst: Inst, v: Value, from: &Layout, to: &Layout) -> Result<Passed> {
        let elem = self.k.ty(v).elem();
        let registers = (to.in_extent(Axis::Reg) * cell_bits(elem)) as f64 / 32.0;
        if adapts(self.k, v) {
            let cycles = self.row(inst, registers, self.interval(Opcode::AddS32));
            return Ok(Passed { cycles, scratch: 0.0 });
        }
        let key = (from.clone(), to.clone(), cell_bits(elem));
        let known = self.conversions.borrow().get(&key).copied();
        let passed = match known {
            Some(passed) => passed,
            None => {
                let passed = self.way(inst, from, to, elem).ok();
                self.conversions.borrow_mut().insert(key, passed);
                passed
            }
        };
        let refused = || {
            IselError::at(
                self.k,
                inst,
                format!(
                    "this tile of {elem} is wanted in two layouts, and no conversion compiles: `cast` to 8, 16 or 32 bits before"
                ),
            )
        };
        let one = passed.ok_or_else(refused)?;
        Ok(Passed { cycles: one.cycles * f64::from(warps(self.k, inst)), ..one })
    }

    /// The cheapest conversion between two layouts, for one warp.
    fn way(&self, inst: Inst, from: &Layout, to: &Layout, elem: Elem) -> Result<Passed> {
        let meeting = self.target.estimates.meeting_cycles as u64;
        let way = choose(self.k, inst, from, to, elem, self.ways, meeting)?;
        Ok(self.passed(inst, &way, [from, to], cell_bits(elem)))
    }

    /// Cycles of a warp for a conversion of elements of so many bits.
    fn passed(&self, inst: Inst, way: &Conversion, [from, to]: [&Layout; 2], bits: u64) -> Passed {
        let meeting = self.target.estimates.meeting_cycles;
        let registers = |l: &Layout| (l.in_extent(Axis::Reg) * bits) as f64 / 32.0;
        let interval = |op: Opcode| self.interval(op) / self.schedulers();
        let mut scratch = 0.0;
        let cycles = match way {
            Conversion::Registers { .. } => registers(to) * interval(Opcode::Prmt),
            Conversion::Shuffle(s) => {
                s.rounds.len() as f64 * interval(Opcode::ShflIdx)
                    + (registers(from) + registers(to)) * interval(Opcode::Selp)
            }
            Conversion::Shared(pass) => {
                scratch = (pass.memory.out_extent(Axis::Mem) * bits / 8) as f64;
                let (wavefronts, instructions) = pass.cost();
                (wavefronts + instructions) as f64 + meeting / f64::from(warps(self.k, inst))
            }
            Conversion::Cells(cells, plan) => {
                let moved = self.passed(inst, plan, [&cells.from, &cells.to], cells.bits);
                let spread = if cells.widened { WIDENING * interval(Opcode::Lop3) } else { 0.0 };
                let bytes = (cells.from.in_extent(Axis::Reg) + cells.to.in_extent(Axis::Reg)) as f64;
                return Passed { cycles: moved.cycles + spread * bytes / 4.0, ..moved };
            }
        };
        Passed { cycles, scratch }
    }
}
