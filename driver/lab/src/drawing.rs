//! Charts of steady iterations as SVG: the rows of [`warplift::chart`], colours for stages.
//!
//! ```text
//!  loop t: interval 720 cycles ..
//!  copies    ┌──────┐                 a row for each unit that a warpgroup takes
//!  0 tensor  ├─────────────┬─────┐    a box for each instruction, its stage in brackets
//!            0     180     360   ..   cycles
//! ```

use plotters::prelude::*;
use warplift::chart::{head, rows, unit_name};
use warplift::predict::Prediction;
use warplift_ir::machine::LoopSchedule;
use warplift_ir::target::Unit;

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

/// How busy each unit is predicted to be, as SVG: for a kernel without a scheduled loop.
///
/// # Errors
/// The drawing fails.
pub fn units(prediction: Option<&Prediction>) -> Result<String, String> {
    let bars = prediction.map_or(&[][..], |p| &p.taken);
    let mut text = String::new();
    {
        let size = ((LEFT + WIDTH + 20) as u32, (HEIGHT * (bars.len() as i32 + 3)) as u32);
        let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
        area.fill(&WHITE).map_err(|e| e.to_string())?;
        draw_units(&area, prediction, bars).map_err(|e| e.to_string())?;
        area.present().map_err(|e| e.to_string())?;
    }
    Ok(text)
}

/// Numbers below each other as bars, each with its text, as SVG; the longest bar is the greatest number.
///
/// # Errors
/// The drawing fails.
pub fn bars(title: &str, all: &[(String, f64)]) -> Result<String, String> {
    let most = all.iter().map(|bar| bar.1).fold(f64::MIN_POSITIVE, f64::max);
    let mut text = String::new();
    {
        let size = ((LEFT + WIDTH + 20) as u32, (HEIGHT * (all.len() as i32 + 3)) as u32);
        let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
        area.fill(&WHITE).map_err(|e| e.to_string())?;
        draw_bars(&area, title, all, most).map_err(|e| e.to_string())?;
        area.present().map_err(|e| e.to_string())?;
    }
    Ok(text)
}

fn draw_bars<'a>(area: &Area<'a>, title: &str, all: &[(String, f64)], most: f64) -> Drawn<'a> {
    let font = ("sans-serif", 12).into_font();
    area.draw(&Text::new(title.to_owned(), (8, 6), ("sans-serif", 14).into_font()))?;
    for (n, (label, value)) in all.iter().enumerate() {
        let y = HEIGHT * (n as i32 + 2);
        let right = LEFT + (f64::from(WIDTH) * value / most) as i32;
        area.draw(&Text::new(format!("{value:.1}"), (8, y + 3), font.clone()))?;
        area.draw(&Rectangle::new([(LEFT, y), (right, y + HEIGHT - 3)], COLOURS[0].filled()))?;
        area.draw(&Text::new(label.clone(), (LEFT + 3, y + 3), font.clone()))?;
    }
    Ok(())
}

fn draw_units<'a>(area: &Area<'a>, prediction: Option<&Prediction>, bars: &[(Unit, f64)]) -> Drawn<'a> {
    let font = ("sans-serif", 12).into_font();
    let head = prediction.map_or("no loop is scheduled, and there is no prediction".to_owned(), |p| {
        format!(
            "no loop is scheduled; share of the {:.0} cycles of a block in which a unit is taken",
            p.block
        )
    });
    area.draw(&Text::new(head, (8, 6), ("sans-serif", 14).into_font()))?;
    for (n, (unit, share)) in bars.iter().enumerate() {
        let y = HEIGHT * (n as i32 + 2);
        let right = LEFT + (f64::from(WIDTH) * share.min(1.0)) as i32;
        area.draw(&Text::new(unit_name(*unit), (8, y + 3), font.clone()))?;
        area.draw(&Rectangle::new([(LEFT, y), (right, y + HEIGHT - 3)], COLOURS[0].filled()))?;
        area.draw(&Text::new(format!("{:.0}%", 100.0 * share), (LEFT + 3, y + 3), font.clone()))?;
    }
    Ok(())
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
    use warplift::kernels::find;
    use warplift_ir::target::SM90A;

    #[test]
    fn bars_have_their_texts_and_the_greatest_is_the_longest() {
        let all = [("one".to_owned(), 1.0), ("two".to_owned(), 4.0)];
        let text = bars("title", &all).unwrap();
        assert!(["title", "one", "two", "4.0"].iter().all(|t| text.contains(t)), "{text}");
        let width = |n: usize| {
            let rects: Vec<&str> = text.lines().filter(|l| l.starts_with("<rect")).collect();
            let of = |l: &str| l.split("width=\"").nth(1)?.split('"').next()?.parse::<i32>().ok();
            of(rects[n + 1]).unwrap()
        };
        assert_eq!((width(0), width(1)), (WIDTH / 4, WIDTH), "{text}");
        assert!(bars("none", &[]).unwrap().contains("none"));
    }

    #[test]
    fn the_drawing_has_the_instructions_of_each_loop() {
        let module = find("gemm").unwrap().parse().unwrap();
        let (kernel, mapping) = (&module.kernels[0], &module.mappings[0]);
        let made = warplift::compile(kernel, mapping, &SM90A, &Default::default()).unwrap();
        let loops = made.explained.schedule.loops;
        let twice = [loops[0].clone(), loops[0].clone()];
        let drawn = svg(&twice).unwrap();
        assert!(drawn.starts_with("<svg"), "{drawn}");
        for label in [head(&loops[0]).as_str(), "wgmma", "copies"] {
            assert!(drawn.matches(label).count() >= 2, "{label}: {drawn}");
        }
        assert!(svg(&[]).is_err());
    }
}
