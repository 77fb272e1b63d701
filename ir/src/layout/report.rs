//! The output of `warplift layout EXPR`: every notation that can express a layout, facts about it, and its picture.

use super::access::{matrix_copy, tma_copy, vector_width, wavefronts};
use super::axe::Axe;
use super::convert::{Conversion, convert};
use super::linear::labels;
use super::notation::cute::{Cute, Swizzle};
use super::notation::expr::{self, is_fragment};
use super::notation::{Cursor, joined, thread_value, tilus::Tilus};
use super::picture::draw;
use super::{Axis, Layout, LayoutError};
use std::fmt;

/// The answer to an expression.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// The layout; of a conversion, the target.
    pub layout: Layout,
    /// Notation and text, only those that can express the layout.
    pub notations: Vec<(&'static str, String)>,
    /// Name and value of what can be said.
    pub facts: Vec<(&'static str, String)>,
    /// The owner of each element, or its address.
    pub table: String,
    /// The picture.
    pub svg: String,
}

impl fmt::Display for Report {
    /// Notations, facts and the table, as `warplift layout` prints them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, text) in self.notations.iter().chain(&self.facts) {
            writeln!(f, "{name:<13}{text}")?;
        }
        write!(f, "\n{}", self.table)
    }
}

/// Reads an expression in any notation (see [`expr`]).
///
/// # Errors
/// The byte that does not belong there, or an operation that does not exist.
pub fn read(text: &str) -> Result<Layout, LayoutError> {
    Ok(expr::parse(text)?.layout)
}

/// Reads an expression (see [`expr`]) and reports. `convert(a, b)` reports the plan of a conversion.
pub fn layout(text: &str) -> Result<Report, LayoutError> {
    let mut cursor = Cursor::new(text);
    if cursor.eat("convert") {
        let (from, to) = expr::pair(&mut cursor)?;
        cursor.end()?;
        let bits = from.bits.or(to.bits).unwrap_or(16);
        let plan = convert(&from.layout, &to.layout, bits)?;
        let mut report = describe(to.layout, bits, text);
        report.facts.insert(0, ("conversion", plan_text(&plan)));
        return Ok(report);
    }
    let parsed = expr::parse(text)?;
    Ok(describe(parsed.layout, parsed.bits.unwrap_or(16), text))
}

/// Everything about one layout.
fn describe(layout: Layout, bits: u64, title: &str) -> Report {
    let picture = draw(&layout, bits);
    Report {
        notations: notations(&layout),
        facts: facts(&layout, bits),
        table: picture.table(),
        svg: picture.svg(title),
        layout,
    }
}

/// Every notation that can express the layout.
fn notations(layout: &Layout) -> Vec<(&'static str, String)> {
    let mut out = vec![("layout", layout.to_string())];
    let mut add = |name, text: Option<String>| out.extend(text.map(|t| (name, t)));
    if is_fragment(layout) {
        let tile = joined(layout.outs().iter().map(|o| o.1), "x");
        add("thread-value", thread_value::of_layout(layout).ok().map(|t| format!("{t} over {tile}")));
        let tilus = Tilus::of_layout(layout).ok();
        add("Tilus", tilus.as_ref().map(Tilus::to_string));
        let unified = tilus.and_then(|t| t.unified().ok());
        add("unified", unified.map(|u| u.to_string()));
        add("Axe", Axe::of_fragment(layout).ok().map(|a| format!("{a} over {tile}")));
        return out;
    }
    let swizzled =
        Swizzle::find(layout).and_then(|(s, plain)| Some(format!("{s} o {}", Cute::of_layout(&plain).ok()?)));
    add("CuTe", Cute::of_layout(layout).ok().map(|c| c.to_string()).or(swizzled));
    add("Axe", Axe::of_layout(layout).ok().map(|a| a.to_string()));
    out
}

/// The facts of a layout.
fn facts(layout: &Layout, bits: u64) -> Vec<(&'static str, String)> {
    let mut out = vec![(
        "form",
        if layout.is_linear() { "linear over bits" } else { "outer part over bits" }.to_string(),
    )];
    let mut copies = Vec::new();
    for axis in labels(layout.ins()) {
        let count: u64 = layout.replicated(axis).iter().map(|b| b.extent).product();
        if count > 1 {
            copies.push(format!("{count} on {axis}"));
        }
    }
    out.push(("copies", if copies.is_empty() { "none".into() } else { copies.join(", ") }));
    let to_memory = layout.outs().len() == 1 && layout.outs()[0].0 == Axis::Mem;
    if to_memory && layout.in_extent(Axis::Lane) > 1 {
        access_facts(layout, bits, &mut out);
    } else if to_memory {
        let copy = tma_copy(layout, bits);
        out.push((
            "TMA",
            copy.map_or("no box".into(), |c| {
                format!(
                    "box {} x {}, swizzle {} bytes, {} boxes",
                    c.box_shape[0],
                    c.box_shape[1],
                    c.swizzle,
                    c.boxes.size()
                )
            }),
        ));
    }
    out
}

/// Facts of an access.
fn access_facts(access: &Layout, bits: u64, out: &mut Vec<(&'static str, String)>) {
    let widest = (128 / bits.max(1)).max(1);
    if let Ok(vector) = vector_width(access, widest, 1 << 32) {
        out.push(("vector", format!("{} elements of {bits} bits", vector.elements)));
        if let Ok(count) = wavefronts(access, bits, vector.elements) {
            let least = (vector.elements * bits / 32).max(1);
            out.push(("wavefronts", format!("{count}, {least} at best")));
        }
    }
    if let Some(copy) = matrix_copy(access, bits) {
        let trans = if copy.trans { ".trans" } else { "" };
        let count = copy.wavefronts(bits);
        out.push((
            "matrix copy",
            format!("x{}{trans}, {count} wavefronts, {} at best", copy.count, copy.count),
        ));
    }
}

/// A conversion in words.
fn plan_text(plan: &Conversion) -> String {
    match plan {
        Conversion::Registers { source } => {
            let moved = source.iter().enumerate().filter(|(r, s)| *r as u64 != **s).count();
            format!("registers, {moved} of {} move", source.len())
        }
        Conversion::Shuffle(s) => format!("{} shuffles of {} elements", s.rounds.len(), s.vector_from.len()),
        Conversion::Shared(p) => {
            let (wavefronts, instructions) = p.cost();
            format!("shared memory {}, {instructions} instructions, {wavefronts} wavefronts a warp", p.memory)
        }
        Conversion::Cells(cells, plan) => {
            let how = if cells.widened { ", an element in each" } else { "" };
            format!("cells of {} bits{how}: {}", cells.bits, plan_text(plan))
        }
    }
}
