//! Plots of figures against an axis, as SVG on a light background.

use super::results::Results;
use plotters::prelude::*;

/// Points of figures whose names begin and end so, against one of their axes.
struct Line {
    label: &'static str,
    begins: &'static str,
    ends: &'static str,
    axis: &'static str,
}

/// One drawing.
struct Plot {
    file: &'static str,
    title: &'static str,
    across: &'static str,
    up: &'static str,
    lines: &'static [Line],
}

const fn line(label: &'static str, begins: &'static str, ends: &'static str, axis: &'static str) -> Line {
    Line { label, begins, ends, axis }
}

const PLOTS: &[Plot] = &[
    Plot {
        file: "wgmma.svg",
        title: "wgmma m64nNk16, cycles from one to the next",
        across: "N",
        up: "cycles",
        lines: &[
            line("A in shared memory", "wgmma.f16.ss.", ".interval", "n"),
            line("A in registers", "wgmma.f16.rs.", ".interval", "n"),
        ],
    },
    Plot {
        file: "wgmma_latency.svg",
        title: "wgmma m64nNk16, fence to result",
        across: "N",
        up: "cycles",
        lines: &[
            line("A in shared memory", "wgmma.f16.ss.", ".latency", "n"),
            line("A in registers", "wgmma.f16.rs.", ".latency", "n"),
        ],
    },
    Plot {
        file: "bandwidth.svg",
        title: "Plain loads, bandwidth of the device",
        across: "KiB in flight on a multiprocessor",
        up: "GB/s",
        lines: &[
            line("from L2", "global.bandwidth.l2.", "", "in_flight"),
            line("from device memory", "global.bandwidth.memory.", "", "in_flight"),
        ],
    },
    Plot {
        file: "tma.svg",
        title: "Tensor copies from L2, boxes of 128-byte rows",
        across: "KiB in flight on a multiprocessor",
        up: "bytes per cycle and multiprocessor",
        lines: &[
            line("64 rows, one block", "tma.load.rows64.inner128.swizzle128.stages", ".one", "in_flight"),
            line("64 rows, all", "tma.load.rows64.inner128.swizzle128.stages", ".all", "in_flight"),
            line("128 rows, one block", "tma.load.rows128.inner128.swizzle128.stages", ".one", "in_flight"),
            line("128 rows, all", "tma.load.rows128.inner128.swizzle128.stages", ".all", "in_flight"),
        ],
    },
    Plot {
        file: "conflicts.svg",
        title: "Shared memory, 32-bit accesses of a warp",
        across: "lanes in the fullest bank",
        up: "cycles",
        lines: &[
            line("ld.shared", "shared.ld.v1.", ".interval", "conflict"),
            line("st.shared", "shared.st.v1.", ".interval", "conflict"),
        ],
    },
    Plot {
        file: "barrier.svg",
        title: "bar.sync",
        across: "warps that meet",
        up: "cycles",
        lines: &[line("bar.sync", "sync.bar.sync.", "", "warps")],
    },
];

/// Width and height in pixels.
const SIZE: (u32, u32) = (560, 300);
const COLOURS: [RGBColor; 4] =
    [RGBColor(0, 96, 180), RGBColor(200, 80, 20), RGBColor(40, 140, 60), RGBColor(130, 60, 150)];

impl Line {
    /// Points by their place on the axis; bytes are shown in KiB.
    fn points(&self, results: &Results) -> Vec<(f64, f64)> {
        let scale = if self.axis == "in_flight" { 1024.0 } else { 1.0 };
        let named =
            results.figures.iter().filter(|f| f.name.starts_with(self.begins) && f.name.ends_with(self.ends));
        let mut points: Vec<(f64, f64)> =
            named.filter_map(|f| Some((f.axes.get(self.axis)? / scale, f.value))).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        points
    }
}

impl Plot {
    fn draw(&self, lines: &[(&str, Vec<(f64, f64)>)]) -> Result<String, String> {
        let greatest =
            |of: fn(&(f64, f64)) -> f64| lines.iter().flat_map(|(_, p)| p).map(of).fold(0.0, f64::max) * 1.05;
        let (width, height) = (greatest(|p| p.0), greatest(|p| p.1));
        let mut text = String::new();
        {
            let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
            let failed = |e: &dyn std::fmt::Display| e.to_string();
            area.fill(&WHITE).map_err(|e| failed(&e))?;
            let mut chart = ChartBuilder::on(&area)
                .caption(self.title, ("sans-serif", 15))
                .margin(8)
                .x_label_area_size(34)
                .y_label_area_size(52)
                .build_cartesian_2d(0.0..width, 0.0..height)
                .map_err(|e| failed(&e))?;
            let mut mesh = chart.configure_mesh();
            mesh.x_desc(self.across).y_desc(self.up).light_line_style(WHITE).label_style(("sans-serif", 11));
            mesh.draw().map_err(|e| failed(&e))?;
            for ((label, points), colour) in lines.iter().zip(COLOURS) {
                let drawn =
                    chart.draw_series(LineSeries::new(points.iter().copied(), colour.stroke_width(2)));
                drawn
                    .map_err(|e| failed(&e))?
                    .label(*label)
                    .legend(move |(x, y)| PathElement::new([(x, y), (x + 14, y)], colour.stroke_width(2)));
                let dots = points.iter().map(|&p| Circle::new(p, 3, colour.filled()));
                chart.draw_series(dots).map_err(|e| failed(&e))?;
            }
            let mut legend = chart.configure_series_labels();
            legend.position(SeriesLabelPosition::LowerRight).background_style(WHITE.mix(0.8));
            legend.label_font(("sans-serif", 11)).draw().map_err(|e| failed(&e))?;
            area.present().map_err(|e| failed(&e))?;
        }
        Ok(text)
    }
}

/// File name and text of every plot for which there are at least two points.
///
/// # Errors
/// The words of the drawing library.
pub fn plots(results: &Results) -> Result<Vec<(&'static str, String)>, String> {
    let mut drawn = Vec::new();
    for plot in PLOTS {
        let lines: Vec<_> = plot.lines.iter().map(|l| (l.label, l.points(results))).collect();
        let lines: Vec<_> = lines.into_iter().filter(|(_, p)| p.len() > 1).collect();
        if !lines.is_empty() {
            drawn.push((plot.file, plot.draw(&lines)?));
        }
    }
    Ok(drawn)
}
