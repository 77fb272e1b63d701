//! Layout conversions: a tile moves between two register layouts by the cheapest of three ways (Linear Layouts,
//! sections 5.4 and 9.2).
//!
//! ```text
//!  registers   no element leaves its thread                     a move a register at most
//!  shuffles    elements stay in their warps                     selects ─ shuffles ─ selects
//!  shared      stores ─ barrier ─ loads, through a swizzle      two passes and a meeting of the block
//! ```

use super::types::Plan;
use crate::feature::Ways;
use crate::tiles::layout_error;
use crate::{IselError, Result};
use warplift_ir::layout::convert::{
    Conversion, SharedPass, Shuffle, cells, convert, through_rows, through_shared,
};
use warplift_ir::layout::{Axis, Layout};
use warplift_ir::tile::{Inst, Kernel, Op, Value};
use warplift_ir::types::Elem;

/// Bits of an element in a fragment. A bool is a mask of a whole register.
pub fn cell_bits(elem: Elem) -> u64 {
    if elem == Elem::Bool { 32 } else { elem.bits().into() }
}

/// Chooses the cheapest conversion from one layout to another. `meeting_cycles`: the least cycles of a pass through
/// shared memory.
///
/// # Errors
/// No access to shared memory moves the elements, or the layouts are of different tiles.
pub fn choose(
    k: &Kernel,
    inst: Inst,
    from: &Layout,
    to: &Layout,
    elem: Elem,
    ways: Ways,
    meeting_cycles: u64,
) -> Result<Conversion> {
    match cell_bits(elem) {
        bits @ (8 | 16 | 32) => of_bits(k, inst, from, to, bits, ways, meeting_cycles),
        bits @ (1 | 2 | 4) => {
            let cells = cells(from, to, bits).map_err(layout_error(k, inst))?;
            let plan = of_bits(k, inst, &cells.from, &cells.to, cells.bits, ways, meeting_cycles)?;
            Ok(Conversion::Cells(Box::new(cells), Box::new(plan)))
        }
        _ => {
            let message = format!(
                "a conversion of tiles of {elem} between register layouts: elements of 1, 2, 4, 8, 16 and 32 bits have one \
                 (`cast` the tile before)"
            );
            Err(IselError::at(k, inst, message))
        }
    }
}

/// Chooses for elements that fill bytes.
fn of_bits(
    k: &Kernel,
    inst: Inst,
    from: &Layout,
    to: &Layout,
    bits: u64,
    ways: Ways,
    meeting_cycles: u64,
) -> Result<Conversion> {
    let plan = convert(from, to, bits).map_err(layout_error(k, inst))?;
    let pass = || {
        let through = if ways.swizzles { through_shared } else { through_rows };
        through(from, to, bits).map_err(layout_error(k, inst))
    };
    let shuffle = match plan {
        Conversion::Shuffle(shuffle) if ways.shuffles => shuffle,
        Conversion::Registers { .. } => return Ok(plan),
        Conversion::Shared(_) if ways.swizzles => return Ok(plan),
        _ => return Ok(Conversion::Shared(Box::new(pass()?))),
    };
    match (shuffle_cost(&shuffle, from, to, bits), pass()) {
        (Some(cost), Ok(pass)) if cost > shared_cost(&pass, meeting_cycles) => {
            Ok(Conversion::Shared(Box::new(pass)))
        }
        (None, pass) => Ok(Conversion::Shared(Box::new(pass?))),
        (Some(_), _) => Ok(Conversion::Shuffle(shuffle)),
    }
}

/// Cycles of a warp; `None` if the rounds move parts of registers, or registers that do not form a plain set.
fn shuffle_cost(s: &Shuffle, from: &Layout, to: &Layout, bits: u64) -> Option<u64> {
    let packed = 32 / bits;
    let pairs = (0..packed).collect::<Vec<u64>>();
    let whole = s.vector_from == pairs && s.vector_to == pairs;
    let first = s.rounds.first()?;
    let plain = s.rounds.iter().all(|r| {
        let used = |m: &warplift_ir::layout::convert::LaneMap| m.columns.iter().fold(m.base, |a, c| a | c);
        let same = r.send.columns == first.send.columns
            && r.receive.columns == first.receive.columns
            && r.from.columns == first.from.columns;
        same && used(&r.send) & r.repeat.0 == 0 && used(&r.receive) & r.repeat.1 == 0
    });
    let moving = |columns: &[u64; 5]| columns.iter().filter(|&&c| c != 0).count() as u64;
    let registers = |l: &Layout| l.in_extent(Axis::Reg) / packed;
    let selects =
        moving(&first.send.columns) * registers(from) + moving(&first.receive.columns) * registers(to);
    (whole && plain).then_some(2 * s.rounds.len() as u64 + selects)
}

/// Cycles of a warp.
fn shared_cost(pass: &SharedPass, meeting_cycles: u64) -> u64 {
    let (wavefronts, instructions) = pass.cost();
    wavefronts + instructions + meeting_cycles
}

/// A conversion, for `explain`.
fn in_words(way: &Conversion) -> String {
    match way {
        Conversion::Registers { .. } => "registers".to_owned(),
        Conversion::Shuffle(s) => format!("{} warp shuffles", s.rounds.len()),
        Conversion::Shared(p) => format!("shared memory, {} wavefronts a warp", p.cost().0),
        Conversion::Cells(cells, plan) => {
            let how = if cells.widened { "widened to" } else { "by" };
            format!("{how} {} bits: {}", cells.bits, in_words(plan))
        }
    }
}

impl Plan {
    /// The conversion of a `rearrange`: the tile, its layout and the result's layout, if they differ.
    pub(super) fn rearranged(&self, k: &Kernel, inst: Inst) -> Option<(Value, &Layout, &Layout)> {
        let tile = *k.args(inst).first().filter(|_| matches!(k.insts[inst].op, Op::Rearrange))?;
        let from = self.uses.get(&(inst, 0)).or(self.layouts[tile].as_ref())?;
        let result = k.result(inst);
        let to = self.made.get(&result).or(self.layouts[result].as_ref())?;
        (from != to && !from.equivalent(to)).then_some((tile, from, to))
    }

    /// A line for each conversion, for `explain`.
    pub(super) fn describe_conversions(&self, k: &Kernel, inst: Inst) -> Vec<String> {
        let at = k.insts[inst].loc;
        let args = k.args(inst).iter().enumerate();
        let remade = (0..k.args(inst).len()).filter_map(|n| {
            let chain = self.rematerialized.get(&(inst, n))?;
            let (name, count) = (&k.names[k.args(inst)[n]], chain.len());
            Some(format!("{}:{} conversion of {name}: made again, {count} instructions", at.line, at.column))
        });
        let uses = args.filter_map(|(n, &v)| {
            let to = self.uses.get(&(inst, n)).filter(|_| !self.rematerialized.contains_key(&(inst, n)))?;
            (!super::constraint::adapts(k, v)).then_some((v, self.layouts[v].as_ref()?, to))
        });
        let results = k.results(inst).iter();
        let results = results.filter_map(|&v| Some((v, self.made.get(&v)?, self.layouts[v].as_ref()?)));
        let lines = uses.chain(results).chain(self.rearranged(k, inst)).map(|(v, from, to)| {
            let way = match choose(k, inst, from, to, k.ty(v).elem(), self.ways, self.meeting_cycles) {
                Ok(way) => in_words(&way),
                Err(e) => e.to_string(),
            };
            format!("{}:{} conversion of {}: {way}", at.line, at.column, k.names[v])
        });
        remade.chain(lines).collect()
    }
}
