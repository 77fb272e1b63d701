//! A steady iteration of a loop as a chart of the units that each role takes over time.
//!
//! ```text
//!                0 ── cycles of one interval ── II
//!  copies        aaaa      bbbb                       asynchronous: one row for the block
//!  0 tensor      CCCCCCCCCCDDDDDDDDDD                 warpgroup 0, a row for each unit it takes
//!  0 special               eeee    ff
//!  1 tensor                          CCCCCCCCCC ..    warpgroup 1, its part of the interval later
//! ```
//!
//! Times are drawn modulo the interval. A letter is an instruction. Its stage is its delay after the iteration's first
//! copy, in intervals. [`Chart`] is the text; the drawing uses the same [`rows`].

use std::fmt;
use warplift_ir::machine::{LoopSchedule, MmaOrderGain, Pins, Span};
use warplift_ir::target::Unit;

/// Columns of the text.
const COLUMNS: i64 = 72;
/// Width of a row's name.
const NAME: usize = 14;
/// Letters of instructions, in the order of issue.
const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// A loop's schedule as text.
#[derive(Clone, Copy, Debug)]
pub struct Chart<'l>(pub &'l LoopSchedule);

/// An instruction in a chart.
#[derive(Clone, Copy, Debug)]
pub struct Item<'l> {
    /// Its letter in the text.
    pub letter: char,
    /// Its unit, and when it takes it.
    pub span: &'l Span,
    /// Intervals after the first copy.
    pub stage: i64,
}

/// A row of a chart: a unit of one warpgroup, or the copies.
#[derive(Clone, Debug)]
pub struct Row<'l> {
    /// Warpgroup and unit.
    pub name: String,
    /// Delay of the whole row, cycles.
    shift: i64,
    items: Vec<Item<'l>>,
}

/// A unit in words.
pub fn unit_name(unit: Unit) -> &'static str {
    match unit {
        Unit::None => "issue",
        Unit::Alu => "integer",
        Unit::Fma => "fma",
        Unit::Sfu => "special",
        Unit::Fp64 => "fp64",
        Unit::Lsu => "shared",
        Unit::Tensor => "tensor",
        Unit::Tma => "copies",
        Unit::Sync => "barriers",
        Unit::Branch => "branches",
    }
}

/// Copies, then the work of the warps, with letters.
fn items(l: &LoopSchedule) -> Vec<Item<'_>> {
    let ii = i64::from(l.interval);
    let own = l.slots.iter().map(|s| s.stage + 1).max().unwrap_or(1);
    let ahead = i64::from(l.stages) - i64::from(own);
    let spans = l.copies.iter().chain(l.slots.iter().map(|s| &s.span)).filter(|s| s.busy > 0);
    let each = spans.enumerate().map(|(n, span)| Item {
        letter: LETTERS[n % LETTERS.len()].into(),
        span,
        stage: ahead + span.time.div_euclid(ii),
    });
    each.collect()
}

/// The rows of a loop: copies, then each warpgroup with the units that it takes.
pub fn rows(l: &LoopSchedule) -> Vec<Row<'_>> {
    let mut units: Vec<Unit> = Vec::new();
    for item in items(l).iter().filter(|i| i.span.unit != Unit::Tma) {
        if !units.contains(&item.span.unit) {
            units.push(item.span.unit);
        }
    }
    units.sort_by_key(|&u| (u != Unit::Tensor, u as u8));
    let of = |unit: Unit| items(l).into_iter().filter(move |i| i.span.unit == unit).collect::<Vec<_>>();
    let mut rows = vec![Row { name: "copies".to_owned(), shift: 0, items: of(Unit::Tma) }];
    for group in 0..l.groups {
        let shift = i64::from(l.interval) * i64::from(group) / i64::from(l.groups.max(1));
        let own = |&u: &Unit| Row { name: format!("{group} {}", unit_name(u)), shift, items: of(u) };
        rows.extend(units.iter().map(own));
    }
    rows.retain(|r| !r.items.is_empty());
    rows
}

impl Row<'_> {
    /// The bars within one interval of `ii` cycles: instruction, first and last cycle.
    pub fn pieces(&self, ii: i64) -> Vec<(&Item<'_>, i64, i64)> {
        let mut pieces = Vec::new();
        for item in &self.items {
            let start = (item.span.time + self.shift).rem_euclid(ii);
            let end = start + i64::from(item.span.busy).min(ii);
            pieces.push((item, start, end.min(ii)));
            if end > ii {
                pieces.push((item, 0, end - ii));
            }
        }
        // Short bars stay visible over long ones.
        pieces.sort_by_key(|p| std::cmp::Reverse(p.2 - p.1));
        pieces
    }

    fn text(&self, ii: i64) -> String {
        let mut cells = vec!['.'; COLUMNS as usize];
        for (item, from, to) in self.pieces(ii) {
            let first = (from * COLUMNS / ii).min(COLUMNS - 1);
            let last = ((to * COLUMNS + ii - 1) / ii).clamp(first + 1, COLUMNS);
            cells[first as usize..last as usize].fill(item.letter);
        }
        cells.into_iter().collect()
    }
}

/// The first line of a chart: the interval and what bounds it.
pub fn head(l: &LoopSchedule) -> String {
    let bound = l.taken.first().map_or("nothing", |t| unit_name(t.0));
    format!(
        "loop {}: interval {} cycles (ResMII {} by {bound}, RecMII {}), {} stages, {} warpgroups{}{}",
        l.name,
        l.interval,
        l.resource(),
        l.recurrence,
        l.stages,
        l.groups,
        if l.pipelined { format!(", body holds {} iterations", l.extra_stages() + 1) } else { String::new() },
        if l.unrolls { ", unrolled by slots" } else { "" }
    )
}

/// The gain of turns, the choice, and its reason.
fn turning(t: &MmaOrderGain) -> String {
    let reason = match (t.taken, t.given) {
        (true, true) => "taken, as was said",
        (false, true) => "not taken, as was said",
        (true, false) => "taken: they keep warpgroups from being in step",
        (false, false) if t.work_inside => {
            "not taken: a turn would hold threads' work, during which others wait"
        }
        (false, false) => "not taken: they save less than they cost",
    };
    let MmaOrderGain { expected, staggered, in_step, ordered, .. } = t;
    format!(
        "simulated: {expected} cycles without turns ({staggered} apart, {in_step} in step), {ordered} with; {reason}"
    )
}

/// The gain of pins, the choice, and its reason.
fn pinning(l: &LoopSchedule, p: &Pins) -> String {
    let tensor = l.taken.first().is_some_and(|t| t.0 == Unit::Tensor);
    let chosen = match (p.waits.is_empty(), tensor) {
        (false, _) => "pinned",
        (true, true) => "none is pinned",
        (true, false) => "none is pinned: tensor cores are not the fullest unit",
    };
    format!("waits that ptxas would move: {} cycles moved, {} pinned; {chosen}", p.loose, p.pinned)
}

impl fmt::Display for Chart<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let l = self.0;
        writeln!(f, "{}", head(l))?;
        let taken = l.taken.iter().map(|(u, c)| format!("{} {c}", unit_name(*u))).collect::<Vec<_>>();
        writeln!(f, "  taken by all warpgroups: {}", taken.join(", "))?;
        if let Some(t) = &l.mma_order {
            writeln!(f, "  {}", turning(t))?;
        }
        if let Some(p) = &l.pins {
            writeln!(f, "  {}", pinning(l, p))?;
        }
        let ii = i64::from(l.interval.max(1));
        let scale = format!("0{:>width$}", ii, width = COLUMNS as usize - 1);
        writeln!(f, "  {:NAME$} {scale}", "cycle")?;
        for row in rows(l) {
            writeln!(f, "  {:NAME$} {}", row.name, row.text(ii))?;
        }
        for i in items(l) {
            let (time, busy) = (i.span.time.rem_euclid(ii), i.span.busy);
            let unit = unit_name(i.span.unit);
            writeln!(
                f,
                "  {} stage {} cycle {time:>5} +{busy:<5} {unit:<8} {}",
                i.letter, i.stage, i.span.name
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(name: &str, unit: Unit, time: i64, busy: u32) -> Span {
        Span { name: name.to_owned(), unit, time, busy }
    }

    fn sample() -> LoopSchedule {
        let slot = |stage, span| warplift_ir::machine::Slot { insts: Vec::new(), stage, span };
        LoopSchedule {
            inst: warplift_ir::machine::Inst::from_u32(0),
            name: "t".to_owned(),
            groups: 2,
            interval: 720,
            taken: vec![(Unit::Tensor, 720)],
            recurrence: 100,
            stages: 3,
            pipelined: true,
            tight: false,
            unrolls: false,
            mma_order: None,
            pins: None,
            slots: vec![
                slot(0, span("wgmma s", Unit::Tensor, 0, 360)),
                slot(1, span("ex2 p", Unit::Sfu, 900, 270)),
            ],
            copies: vec![span("copy k", Unit::Tma, -500, 100)],
        }
    }

    #[test]
    fn rows_are_modulo_the_interval_and_groups_are_apart() {
        let text = Chart(&sample()).to_string();
        let row = |name: &str| {
            let line =
                text.lines().find(|l| l.trim_start().starts_with(name)).unwrap_or_else(|| panic!("{text}"));
            line.trim_start()[name.len()..].trim().to_owned()
        };
        // 10 cycles a column.
        assert_eq!(row("copies"), format!("{}{}{}", ".".repeat(22), "a".repeat(10), ".".repeat(40)));
        assert_eq!(row("0 tensor"), format!("{}{}", "b".repeat(36), ".".repeat(36)));
        assert_eq!(row("1 tensor"), format!("{}{}", ".".repeat(36), "b".repeat(36)));
        assert_eq!(row("0 special"), format!("{}{}{}", ".".repeat(18), "c".repeat(27), ".".repeat(27)));
        assert_eq!(row("1 special"), format!("{}{}{}", "c".repeat(9), ".".repeat(45), "c".repeat(18)));
        assert!(
            text.contains("a stage 0 cycle   220 +100") && text.contains("c stage 2 cycle   180 +270"),
            "{text}"
        );
    }
}
