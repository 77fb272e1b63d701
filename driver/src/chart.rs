//! A steady iteration of a loop as a chart: which unit each role takes, and when.
//!
//! ```text
//!                0 ── cycles of one interval ── II
//!  copies        aaaa      bbbb                       asynchronous: one row for the block
//!  0 tensor      CCCCCCCCCCDDDDDDDDDD                 warpgroup 0, a row for each unit it takes
//!  0 special               eeee    ff
//!  1 tensor                          CCCCCCCCCC ..    warpgroup 1, its part of the interval later
//! ```
//!
//! Everything is drawn modulo the interval. A letter is an instruction; its stage says how many intervals after
//! its iteration's first copy it runs. [`Chart`] is the text, [`svg`] the drawing of the same rows.

use plotters::prelude::*;
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

/// Something drawn.
struct Item<'l> {
    letter: char,
    span: &'l Span,
    /// Intervals after the first copy.
    stage: i64,
}

/// A row: a unit of one warpgroup, or the copies.
struct Row<'l> {
    name: String,
    /// Cycles that all of it is late.
    shift: i64,
    items: Vec<Item<'l>>,
}

/// A unit in words.
pub(crate) fn unit_name(unit: Unit) -> &'static str {
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

/// Copies, then what the warps do, with letters.
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

fn rows(l: &LoopSchedule) -> Vec<Row<'_>> {
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
    /// Pieces of what is drawn, first and last cycle, within one interval.
    fn pieces(&self, ii: i64) -> Vec<(&Item<'_>, i64, i64)> {
        let mut pieces = Vec::new();
        for item in &self.items {
            let start = (item.span.time + self.shift).rem_euclid(ii);
            let end = start + i64::from(item.span.busy).min(ii);
            pieces.push((item, start, end.min(ii)));
            if end > ii {
                pieces.push((item, 0, end - ii));
            }
        }
        // Short ones stay visible over long ones.
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

/// The first line: the interval and what bounds it.
fn head(l: &LoopSchedule) -> String {
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

/// What turns are worth, and what was chosen why.
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

/// What pins are worth, and what was chosen why.
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

/// Pixels of a row, and of the drawing's parts.
const HEIGHT: i32 = 20;
const LEFT: i32 = 120;
const WIDTH: i32 = 900;
const COLOURS: [RGBColor; 4] =
    [RGBColor(120, 170, 220), RGBColor(240, 170, 110), RGBColor(150, 205, 150), RGBColor(200, 160, 215)];

/// The charts of loops below each other, as SVG: colours are stages.
///
/// # Errors
/// There is no loop, or the drawing fails.
pub fn svg(loops: &[LoopSchedule]) -> Result<String, String> {
    if loops.is_empty() {
        return Err("no loop is scheduled: there is nothing to draw".to_owned());
    }
    let heights: Vec<i32> = loops.iter().map(|l| HEIGHT * (4 + rows(l).len() as i32)).collect();
    let mut text = String::new();
    {
        let size = ((LEFT + WIDTH + 20) as u32, heights.iter().sum::<i32>() as u32);
        let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
        area.fill(&WHITE).map_err(|e| e.to_string())?;
        let mut top = 0;
        for (l, height) in loops.iter().zip(heights) {
            draw(&area, l, top).map_err(|e| e.to_string())?;
            top += height;
        }
        area.present().map_err(|e| e.to_string())?;
    }
    Ok(text)
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
type Drawn<'a> = Result<(), DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>>;

/// One loop, from a line downwards.
fn draw<'a>(area: &Area<'a>, l: &LoopSchedule, top: i32) -> Drawn<'a> {
    let ii = i64::from(l.interval.max(1));
    let x = |cycle: i64| LEFT + (cycle * i64::from(WIDTH) / ii) as i32;
    let font = ("sans-serif", 12).into_font();
    area.draw(&Text::new(head(l), (8, top + 6), ("sans-serif", 14).into_font()))?;
    for (n, row) in rows(l).iter().enumerate() {
        let y = top + HEIGHT * (n as i32 + 2);
        area.draw(&Text::new(row.name.clone(), (8, y + 3), font.clone()))?;
        for (item, from, to) in row.pieces(ii) {
            let colour = COLOURS[item.stage.rem_euclid(COLOURS.len() as i64) as usize];
            let corners = [(x(from), y), (x(to).max(x(from) + 1), y + HEIGHT - 3)];
            area.draw(&Rectangle::new(corners, colour.filled()))?;
            area.draw(&Rectangle::new(corners, BLACK.stroke_width(1)))?;
            let label = format!("{} ({})", item.span.name, item.stage);
            let fits = (corners[1].0 - corners[0].0) / 7;
            let label: String = label.chars().take(fits.max(0) as usize).collect();
            area.draw(&Text::new(label, (corners[0].0 + 3, y + 3), font.clone()))?;
        }
    }
    let y = top + HEIGHT * (rows(l).len() as i32 + 2);
    for quarter in 0..=4 {
        let cycle = ii * quarter / 4;
        area.draw(&Text::new(cycle.to_string(), (x(cycle) - 10, y + 2), font.clone()))?;
    }
    Ok(())
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

    #[test]
    fn the_drawing_has_the_same_instructions() {
        let drawn = svg(&[sample(), sample()]).unwrap();
        assert!(
            drawn.starts_with("<svg") && drawn.contains("wgmma s (1)") && drawn.contains("copy k"),
            "{drawn}"
        );
        assert!(svg(&[]).is_err());
    }
}
