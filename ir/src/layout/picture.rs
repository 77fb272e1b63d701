//! Pictures show the owner and the address of each element, as text tables and as SVG.
//!
//! Three kinds: a fragment (a tile coloured by warp, `lane:register` in each cell), memory (a tile coloured by bank, the offset in each
//! cell), an access (rows of 32 banks; the words that the lanes of one instruction touch, in red where two rows of
//! one bank are touched together).

use super::notation::expr::is_fragment;
use super::{Axis, Layout, OutVec};
use std::fmt::Write;

/// Most cells of a picture; larger tiles are cut.
const CELLS: u64 = 64 * 64;
/// Size of a cell in an SVG.
const WIDTH: usize = 34;
const HEIGHT: usize = 18;

/// One cell: what is written, its colour class, and whether it is marked.
#[derive(Clone, Default)]
struct Cell {
    text: String,
    hue: u64,
    light: u64,
    marked: bool,
}

/// A grid of cells.
pub struct Picture {
    cells: Vec<Vec<Cell>>,
    cut: bool,
}

/// Draws a layout whose elements have `bits` bits.
pub fn draw(layout: &Layout, bits: u64) -> Picture {
    if is_fragment(layout) {
        fragment(layout)
    } else if layout.in_extent(Axis::Lane) > 1 && layout.outs().iter().any(|o| o.0 == Axis::Mem) {
        access(layout, bits)
    } else {
        memory(layout, bits)
    }
}

/// Rows and columns of a shape (all dimensions but the last make rows), cut to what is drawn.
fn grid(axes: &[(Axis, u64)]) -> (u64, u64, bool) {
    let cols = axes.last().map_or(1, |a| a.1);
    let rows: u64 = axes[..axes.len().saturating_sub(1)].iter().map(|a| a.1).product();
    let wide = cols.min(CELLS);
    let high = rows.min((CELLS / wide).max(1));
    (high, wide, high < rows || wide < cols)
}

/// Row and column of coordinates.
fn position(axes: &[(Axis, u64)], coords: &[u64]) -> (u64, u64) {
    let last = axes.len().saturating_sub(1);
    let row = axes[..last].iter().zip(coords).fold(0, |n, (a, c)| n * a.1 + c);
    (row, coords.get(last).copied().unwrap_or(0))
}

/// A tile and who owns its elements.
fn fragment(layout: &Layout) -> Picture {
    let (rows, cols, cut) = grid(layout.outs());
    let mut cells = vec![vec![Cell::default(); cols as usize]; rows as usize];
    let index = |axis| layout.ins().iter().position(|a| a.0 == axis);
    let (reg, lane) = (index(Axis::Reg), index(Axis::Lane));
    for x in layout.inputs().take(1 << 20) {
        let (row, col) = position(layout.outs(), &layout.apply(&x));
        let Some(cell) = cells.get_mut(row as usize).and_then(|r| r.get_mut(col as usize)) else {
            continue;
        };
        let at = |i: Option<usize>| i.map_or(0, |i| x[i]);
        match cell.text.is_empty() {
            true => {
                cell.text = format!("{}:{}", at(lane), at(reg));
                cell.hue = warp_of(layout, &x);
                cell.light = at(lane) / 4 % 2;
            }
            false => cell.marked = true,
        }
    }
    Picture { cells, cut }
}

/// Number of the warp of a coordinate, over all axes above lanes.
fn warp_of(layout: &Layout, x: &OutVec) -> u64 {
    let above = layout.ins().iter().zip(x).filter(|((a, _), _)| !matches!(a, Axis::Reg | Axis::Lane));
    let (mut number, mut scale) = (0, 1);
    for (&(_, extent), &c) in above {
        number += c * scale;
        scale *= extent;
    }
    number
}

/// A tile and where its elements lie.
fn memory(layout: &Layout, bits: u64) -> Picture {
    let (rows, cols, cut) = grid(layout.ins());
    let mut cells = vec![vec![Cell::default(); cols as usize]; rows as usize];
    for x in layout.inputs().take(1 << 20) {
        let (row, col) = position(layout.ins(), &x);
        let at = layout.apply(&x);
        if let Some(cell) = cells.get_mut(row as usize).and_then(|r| r.get_mut(col as usize)) {
            let text: Vec<String> = at.iter().map(u64::to_string).collect();
            cell.text = text.join(",");
            cell.hue = at.first().map_or(0, |a| a.saturating_mul(bits) / 128 % 8);
        }
    }
    Picture { cells, cut }
}

/// Words of shared memory that the first instruction of warp 0 touches.
fn access(layout: &Layout, bits: u64) -> Picture {
    let widest = (128 / bits.max(1)).max(1);
    let vector = super::access::vector_width(layout, widest, 1 << 32).map_or(1, |v| v.elements);
    let mem = layout.outs().iter().position(|o| o.0 == Axis::Mem).unwrap_or(0);
    let lane_axis = layout.ins().iter().position(|a| a.0 == Axis::Lane).unwrap_or(0);
    let mut touched: Vec<(u64, u64)> = Vec::new();
    for lane in 0..layout.in_extent(Axis::Lane).min(32) {
        let mut x = OutVec::from_elem(0, layout.ins().len());
        x[lane_axis] = lane;
        let start = layout.apply(&x)[mem].saturating_mul(bits);
        let end = start.saturating_add(vector.saturating_mul(bits).max(1) - 1);
        touched.extend((start / 32..=end / 32).take(4).map(|w| (w, lane)));
    }
    let parts = (vector * bits / 32).clamp(1, 4);
    let mut rows: Vec<u64> = touched.iter().map(|t| t.0 / 32).collect();
    rows.sort_unstable();
    rows.dedup();
    rows.truncate(64);
    let place = |row: &u64| {
        let cell = |bank: u64| {
            let lanes: Vec<u64> = touched.iter().filter(|t| t.0 == row * 32 + bank).map(|t| t.1).collect();
            let Some(&lane) = lanes.first() else {
                return Cell { light: 1, hue: 9, ..Cell::default() };
            };
            let part = |l: u64| l * parts / 32;
            let conflict = |t: &&(u64, u64)| t.0 % 32 == bank && t.0 / 32 != *row && part(t.1) == part(lane);
            let marked = touched.iter().find(conflict).is_some();
            Cell { text: lane.to_string(), hue: part(lane), light: 0, marked }
        };
        (0..32).map(cell).collect()
    };
    Picture { cells: rows.iter().map(place).collect(), cut: false }
}

impl Picture {
    /// As text, columns aligned; a `*` marks repeated elements or conflicts.
    pub fn table(&self) -> String {
        let text = |c: &Cell| format!("{}{}", c.text, if c.marked { "*" } else { "" });
        let width = self.cells.iter().flatten().map(|c| text(c).len()).max().unwrap_or(0);
        let mut out = String::new();
        for row in &self.cells {
            let line: Vec<String> = row.iter().map(|c| format!("{:>width$}", text(c))).collect();
            out.push_str(line.join(" ").trim_end());
            out.push('\n');
        }
        if self.cut {
            out.push_str("...\n");
        }
        out
    }

    /// As SVG with a title.
    pub fn svg(&self, title: &str) -> String {
        let cols = self.cells.first().map_or(0, Vec::len);
        let (w, h) = (cols * WIDTH + 8, self.cells.len() * HEIGHT + 30);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {w} {h}\" width=\"{w}\" height=\"{h}\" \
             font-family=\"monospace\" font-size=\"10\" text-anchor=\"middle\">\n\
             <rect width=\"{w}\" height=\"{h}\" fill=\"#fff\"/>\n\
             <text x=\"4\" y=\"14\" font-size=\"12\" text-anchor=\"start\">{}</text>\n",
            escape(title)
        );
        for (r, row) in self.cells.iter().enumerate() {
            self.row(&mut svg, 22 + r * HEIGHT, row);
        }
        svg.push_str(&self.lines(cols));
        svg.push_str("</svg>\n");
        svg
    }

    /// One row: equal neighbours share a rectangle.
    fn row(&self, svg: &mut String, y: usize, row: &[Cell]) {
        let mut start = 0;
        for end in 1..=row.len() {
            if row.get(end).is_some_and(|c| fill(c) == fill(&row[start])) {
                continue;
            }
            let (x, width) = (4 + start * WIDTH, (end - start) * WIDTH);
            // Writing to a string cannot fail.
            let _ = writeln!(
                svg,
                "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{HEIGHT}\" fill=\"{}\"/>",
                fill(&row[start])
            );
            start = end;
        }
        for (c, cell) in row.iter().enumerate().filter(|(_, c)| !c.text.is_empty()) {
            let (x, at) = (4 + c * WIDTH + WIDTH / 2, y + 13);
            let _ = writeln!(svg, "<text x=\"{x}\" y=\"{at}\">{}</text>", escape(&cell.text));
        }
    }

    /// The lines between cells.
    fn lines(&self, cols: usize) -> String {
        let (right, bottom) = (4 + cols * WIDTH, 22 + self.cells.len() * HEIGHT);
        let across = (0..=self.cells.len()).map(|r| format!("M4 {}H{right}", 22 + r * HEIGHT));
        let down = (0..=cols).map(|c| format!("M{} 22V{bottom}", 4 + c * WIDTH));
        let path: String = across.chain(down).collect();
        format!("<path d=\"{path}\" stroke=\"#999\" fill=\"none\"/>\n")
    }
}

/// Colour of a cell.
fn fill(cell: &Cell) -> String {
    match (cell.marked, cell.hue) {
        (true, _) => "#f88".into(),
        (false, 9) => "#fff".into(),
        (false, hue) => format!("hsl({},{}%,{}%)", hue * 47 % 360 + 190, 60, 88 - 8 * cell.light),
    }
}

/// Text inside XML.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
