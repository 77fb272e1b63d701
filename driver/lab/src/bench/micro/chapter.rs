//! The documentation's chapter on microbenchmarks. Tables go into the marked places of its text, plots beside it.
//!
//! ```text
//!  <!-- micro: wgmma -->      the lines between the marks are written from the results;
//!  ...                        everything else in the chapter is written by hand
//!  <!-- end -->
//! ```

use super::cases;
use super::results::{Figure, Results};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

const END: &str = "<!-- end -->";

/// The chapter with its tables written anew.
///
/// # Errors
/// A mark names no table, or has no end.
pub fn update_chapter(text: &str, results: &Results) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("<!-- micro: ") {
        let after = &rest[at..];
        let close = after.find("-->").ok_or("a mark is not closed")? + 3;
        let name = after[..close].trim_start_matches("<!-- micro: ").trim_end_matches("-->").trim();
        let end = after.find(END).ok_or_else(|| format!("the mark `{name}` has no end"))?;
        let _ = write!(out, "{}{}\n\n{}\n", &rest[..at], &after[..close], section(name, results)?);
        rest = &after[end..];
    }
    Ok(out + rest)
}

fn of<'r>(results: &'r Results, group: &'r str) -> impl Iterator<Item = &'r Figure> {
    results.figures.iter().filter(move |f| f.group == group)
}

fn section(name: &str, results: &Results) -> Result<String, String> {
    Ok(match name {
        "machine" => format!(
            "Measured on {}, {} multiprocessors, driver {}.{}, {}.\n",
            results.device,
            results.multiprocessors,
            results.driver / 1000,
            results.driver % 1000 / 10,
            results.days().join(" and ")
        ),
        "rows" => kinds("row", of(results, "rows")),
        "memory" | "atomics" => across("blocks", &predictions(name), of(results, name)),
        "turns" => across("steps", &predictions(name), of(results, name)),
        "mix" => across("", &predictions(name), of(results, name)),
        "wgmma" => products(&of(results, "wgmma").collect::<Vec<_>>()),
        group if of(results, group).next().is_some() => plain(of(results, group)),
        other => return Err(format!("there are no results for the mark `{other}`")),
    })
}

/// Name and value.
fn plain<'r>(figures: impl Iterator<Item = &'r Figure>) -> String {
    let mut out = "| case | value | |\n| --- | ---: | --- |\n".to_owned();
    for f in figures {
        let _ = writeln!(out, "| `{}` | {:.2} | {} |", f.name, f.value, f.unit.name());
    }
    out
}

/// What the model predicts for the cases of a group, by name.
type Predictions = BTreeMap<String, f64>;

fn predictions(group: &str) -> Predictions {
    let own = cases().into_iter().filter(|case| case.group == group);
    own.filter_map(|case| Some((case.name.clone(), case.predicted()?))).collect()
}

/// A figure, and behind it the prediction over it.
fn judged(figure: &Figure, predictions: &Predictions, digits: usize) -> String {
    let ratio = predictions.get(&figure.name).map(|p| format!(" ({:.2})", p / figure.value));
    format!("{:.digits$}{}", figure.value, ratio.unwrap_or_default())
}

/// One line for all figures whose names differ in the number of one word: `blocks43`. Figures without it stand below. The
/// prediction over the figure stands behind it.
fn across<'r>(word: &str, predicted: &Predictions, figures: impl Iterator<Item = &'r Figure>) -> String {
    let (mut lines, mut plainly): (Vec<(String, BTreeMap<u32, &Figure>)>, _) = (Vec::new(), Vec::new());
    for f in figures {
        let number = |part: &str| part.strip_prefix(word).filter(|_| !word.is_empty())?.parse::<u32>().ok();
        let Some(n) = f.name.split('.').find_map(number) else {
            plainly.push(f);
            continue;
        };
        let stem: Vec<&str> = f.name.split('.').filter(|part| number(part).is_none()).collect();
        let stem = stem.join(".");
        match lines.iter_mut().find(|(known, _)| *known == stem) {
            Some((_, line)) => drop(line.insert(n, f)),
            None => lines.push((stem, BTreeMap::from([(n, f)]))),
        }
    }
    let columns: BTreeSet<u32> = lines.iter().flat_map(|(_, line)| line.keys().copied()).collect();
    let mut out = String::new();
    if let Some(unit) = lines.first().and_then(|(_, line)| line.values().next()).map(|f| f.unit.name()) {
        let heads: String = columns.iter().map(|n| format!(" {n} |")).collect();
        out = format!("| {unit}, by {word} |{heads}\n| --- |{}\n", " ---: |".repeat(columns.len()));
    }
    for (stem, line) in &lines {
        let cell = |n| line.get(n).map_or(String::new(), |f| judged(f, predicted, 1));
        let cells: Vec<String> = columns.iter().map(cell).collect();
        let _ = writeln!(out, "| `{stem}` | {} |", cells.join(" | "));
    }
    if !plainly.is_empty() {
        let gap = if out.is_empty() { "" } else { "\n" };
        let _ = write!(out, "{gap}| case | value | |\n| --- | ---: | --- |\n");
    }
    for f in plainly {
        let _ = writeln!(out, "| `{}` | {} | {} |", f.name, judged(f, predicted, 2), f.unit.name());
    }
    out
}

/// One line for all kinds of one figure. The last word of a name is its kind.
fn kinds<'r>(head: &str, figures: impl Iterator<Item = &'r Figure>) -> String {
    let mut lines: BTreeMap<&str, BTreeMap<&str, f64>> = BTreeMap::new();
    for f in figures {
        let (stem, kind) = f.name.rsplit_once('.').unwrap_or((&f.name, ""));
        let stem = stem.strip_prefix("row.").unwrap_or(stem);
        lines.entry(stem).or_default().insert(kind, f.value);
    }
    let mut out = format!("| {head} | latency | interval |\n| --- | ---: | ---: |\n");
    for (stem, kinds) in lines {
        let cell = |kind| kinds.get(kind).map_or(String::new(), |v| format!("{v:.1}"));
        let _ = writeln!(out, "| `{stem}` | {} | {} |", cell("latency"), cell("interval"));
    }
    out
}

/// Columns down, sources and types across.
fn products(figures: &[&Figure]) -> String {
    let value = |name: String| {
        let found = figures.iter().find(|f| f.name == name);
        found.map_or(String::new(), |f| format!("{:.1}", f.value))
    };
    let mut columns: Vec<u32> = figures.iter().filter_map(|f| Some(*f.axes.get("n")? as u32)).collect();
    columns.sort_unstable();
    columns.dedup();
    let mut out =
        "| n | f16 SS interval | f16 RS interval | f16 SS latency | f16 RS latency | tf32 SS interval \
                   | e4m3 SS interval | s8 SS interval |\n\
                   | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n"
            .to_owned();
    for n in columns {
        let _ = write!(out, "| {n} |");
        for (ty, from, kind) in [
            ("f16", "ss", "interval"),
            ("f16", "rs", "interval"),
            ("f16", "ss", "latency"),
            ("f16", "rs", "latency"),
            ("tf32", "ss", "interval"),
            ("e4m3", "ss", "interval"),
            ("s8", "ss", "interval"),
        ] {
            let _ = write!(out, " {} |", value(format!("wgmma.{ty}.{from}.n{n}.{kind}")));
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::Unit;
    use super::*;

    fn results() -> Results {
        let figure = |name: &str, value| Figure {
            name: name.into(),
            group: "rows".into(),
            value,
            unit: Unit::Cycles,
            axes: BTreeMap::new(),
            date: None,
        };
        Results {
            device: "a GPU".into(),
            date: "2026-11-21".into(),
            driver: 13000,
            multiprocessors: 132,
            figures: vec![figure("row.add.latency", 4.04), figure("row.add.interval", 1.96)],
        }
    }

    #[test]
    fn figures_that_differ_in_one_number_share_a_line() {
        let one = results().figures.remove(0);
        let named = |(name, value): (&str, f64)| Figure { name: name.into(), value, ..one.clone() };
        let figures = [("a.blocks8.x", 1.0), ("a.latency", 7.0), ("a.blocks16.x", 2.0), ("b.blocks16", 3.0)];
        let figures = figures.map(named);
        let predicted = Predictions::from([("b.blocks16".to_owned(), 3.3)]);
        let text = across("blocks", &predicted, figures.iter());
        assert!(text.starts_with("| cycles, by blocks | 8 | 16 |\n| --- | ---: | ---: |\n"), "{text}");
        assert!(text.contains("| `a.x` | 1.0 | 2.0 |\n| `b` |  | 3.0 (1.10) |\n"), "{text}");
        assert!(text.ends_with("| `a.latency` | 7.00 | cycles |\n"), "{text}");
    }

    #[test]
    fn marked_places_are_written_and_nothing_else() {
        let text = "a\n<!-- micro: rows -->\nold\n<!-- end -->\nb\n";
        let new = update_chapter(text, &results()).unwrap();
        assert!(
            new.starts_with("a\n<!-- micro: rows -->\n\n| row |") && new.ends_with("\n<!-- end -->\nb\n"),
            "{new}"
        );
        assert!(new.contains("| `add` | 4.0 | 2.0 |") && !new.contains("old"), "{new}");
        assert_eq!(update_chapter(&new, &results()).unwrap(), new);
        assert!(update_chapter("<!-- micro: tea -->\n<!-- end -->", &results()).is_err());
        assert!(update_chapter("<!-- micro: rows -->", &results()).is_err());
    }
}
