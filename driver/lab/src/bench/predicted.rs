//! Predictions beside what was measured: how far the model can be trusted.
//!
//! ```text
//!  measured.txt   kernel  sizes  figure  kind  date:chip  mapping ──► predict ──► measured, predicted, ratio
//!                                                                             median and worst error
//! ```

use super::Regime;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use tabled::builder::Builder;
use tabled::settings::object::Columns;
use tabled::settings::{Alignment, Modify, Style};
use warplift::ir::target::{SM90A, Target};
use warplift::ir::tile::{Mapping, parse_file};
use warplift::kernels::find;
use warplift::predict::{Prediction, predict};
use warplift::problem::Sizes;
use warplift::{Feature, Options};

/// What was measured: launches that stand in no other table, and those of the tables of docs/performance.md.
const MEASURED: [&str; 2] = [include_str!("measured.txt"), include_str!("measured_tables.txt")];

/// Features with the day from which the library has them. What was measured before is predicted without them.
const SINCE: [(&str, &str); 8] = [
    ("shared-rings", "2026-11-26"),
    ("operand-rings", "2026-11-29"),
    ("tight-overlap", "2026-11-26"),
    ("quotients", "2026-11-28"),
    ("halfwords", "2026-11-28"),
    ("broadcast-tile-info", "2026-11-28"),
    ("prefetch-indices", "2026-11-29"),
    ("unrolled-loads", "2026-11-29"),
];

/// What a figure of the table is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Cycles that the profiler counted, or a time at the nominal clock.
    Cycles,
    /// Microseconds.
    Time(Regime),
}

/// A measurement and its prediction, both in cycles or both in microseconds.
#[derive(Clone, Debug)]
pub struct Predicted {
    /// Kernel of the library.
    pub kernel: String,
    /// Its sizes, and the words of its mapping if it is not the first.
    pub sizes: String,
    /// What the figures are.
    pub kind: Kind,
    /// Day of the measurement.
    pub date: String,
    /// It stands in a table of docs/performance.md.
    pub elsewhere: bool,
    /// Figure of the measurement.
    pub measured: f64,
    /// Figure of the prediction.
    pub predicted: f64,
}

impl Predicted {
    /// Predicted over measured.
    pub fn ratio(&self) -> f64 {
        self.predicted / self.measured
    }

    /// How far the prediction is off, as a part of the measurement.
    pub fn error(&self) -> f64 {
        (self.ratio() - 1.0).abs()
    }
}

/// All measurements with their predictions.
pub struct Table(Vec<Predicted>);

impl Table {
    /// Predicts every launch of the list.
    ///
    /// # Errors
    /// A line that does not read, or a launch that cannot be predicted.
    pub fn new() -> Result<Self, String> {
        let lines = MEASURED.iter().enumerate().flat_map(|(k, text)| text.lines().map(move |line| (k, line)));
        let mut known = Known::new();
        lines
            .filter(|(_, line)| !line.starts_with('#'))
            .map(|(k, line)| row(line, k == 1, &mut known).map_err(|e| format!("{line}: {e}")))
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// The rows.
    pub fn rows(&self) -> &[Predicted] {
        &self.0
    }

    /// The median of the errors.
    pub fn median(&self) -> f64 {
        super::median(&self.0.iter().map(Predicted::error).collect::<Vec<_>>())
    }

    /// The row that is furthest off.
    pub fn worst(&self) -> Option<&Predicted> {
        self.0.iter().max_by(|a, b| a.error().total_cmp(&b.error()))
    }
}

/// Predictions by kernel, sizes and words of the mapping: most launches were measured in both regimes.
type Known<'l> = BTreeMap<Launch<'l>, Prediction>;

/// A kernel, sizes, words of its mapping, the features that it was measured without, and the chip.
type Launch<'l> = (&'l str, &'l str, &'l str, Vec<&'static str>, &'static str);

fn row<'l>(line: &'l str, elsewhere: bool, known: &mut Known<'l>) -> Result<Predicted, String> {
    let (fields, words) = split(line)?;
    let [name, sizes, figure, kind, when] = fields;
    let (date, chip) = when.split_once(':').unwrap_or((when, SM90A.name));
    let chip = Target::named(chip).ok_or_else(|| format!("`{chip}` is no chip"))?;
    let measured: f64 = figure.parse().map_err(|_| format!("`{figure}` is no number"))?;
    let kind = match kind {
        "counted" | "timed" => Kind::Cycles,
        "burst" => Kind::Time(Regime::Burst),
        "sustained" => Kind::Time(Regime::Sustained),
        other => return Err(format!("`{other}` is no kind of figure")),
    };
    let without = SINCE.iter().filter(|(_, since)| date < *since).map(|f| f.0).collect();
    let prediction = match known.entry((name, sizes, words, without, chip.name)) {
        Entry::Occupied(entry) => entry.into_mut(),
        Entry::Vacant(entry) => {
            let prediction = predicted(entry.key(), chip)?;
            entry.insert(prediction)
        }
    };
    let predicted = match kind {
        Kind::Cycles => prediction.cycles,
        Kind::Time(Regime::Burst) => prediction.microseconds(prediction.clock.burst),
        Kind::Time(Regime::Sustained) => prediction.microseconds(prediction.clock.sustained),
    };
    let sizes = if words.is_empty() { sizes.to_owned() } else { format!("{sizes}, `{words}`") };
    let (kernel, date) = (name.to_owned(), date.to_owned());
    Ok(Predicted { kernel, sizes, kind, date, elsewhere, measured, predicted })
}

/// The five fields of a line, and the words of a mapping behind them.
fn split(line: &str) -> Result<([&str; 5], &str), String> {
    let mut fields = [""; 5];
    let mut rest = line.trim();
    for field in &mut fields {
        let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        (*field, rest) = (&rest[..end], rest[end..].trim_start());
    }
    if fields[4].is_empty() {
        return Err("five fields are needed: kernel, sizes, figure, kind, date".to_owned());
    }
    Ok((fields, rest))
}

/// The library's first mapping; the one with a tunable's value; or one of its own words.
fn mapping_of(library: &[Mapping], name: &str, words: &str) -> Result<Mapping, String> {
    let tunable = words.split_once('=').filter(|_| !words.contains("for")).map(|(k, v)| (k.trim(), v.trim()));
    match tunable {
        None if words.is_empty() => library.first().cloned().ok_or_else(|| "no mapping".to_owned()),
        None => {
            let text = format!("mapping {name} {{ {words} }}");
            let module = parse_file(&text, "measured.txt").map_err(|e| e.to_string())?;
            module.mappings.into_iter().next().ok_or_else(|| "no mapping".to_owned())
        }
        Some((tunable, value)) => {
            let value = value.parse::<i64>().map_err(|_| format!("`{value}` is no number"))?;
            let fits = |m: &&Mapping| m.tunable(tunable) == Some(value);
            library.iter().find(fits).cloned().ok_or_else(|| format!("no mapping with {words}"))
        }
    }
}

/// The library's text of a name, `a16w4[u4=u6;8.0=32.0]`: with other words in the place of some.
fn text_of(name: &str) -> Result<(&str, String), String> {
    let (name, replaced) = name.trim_end_matches(']').split_once('[').unwrap_or((name, ""));
    let mut text = find(name).ok_or("no such kernel")?.text.to_owned();
    for pair in replaced.split(';').filter(|pair| !pair.is_empty()) {
        let (old, new) = pair.split_once('=').ok_or_else(|| format!("`{pair}` replaces nothing"))?;
        if !text.contains(old) {
            return Err(format!("`{name}` has no `{old}` to replace"));
        }
        text = text.replace(old, new);
    }
    Ok((name, text))
}

fn predicted((name, sizes, words, without, _): &Launch<'_>, target: &Target) -> Result<Prediction, String> {
    let (name, text) = text_of(name)?;
    let module = parse_file(&text, "measured.tile").map_err(|e| e.to_string())?;
    let kernel = &module.kernel(name).ok_or("no such kernel")?;
    let mapping = &mapping_of(&module.mappings, name, words)?;
    let sizes = Sizes::parse(kernel, sizes).map_err(|e| e.to_string())?;
    let disable = without.iter().map(|f| f.parse::<Feature>().map_err(|e| e.to_string()));
    let options = Options { disable: disable.collect::<Result<_, _>>()?, ..Options::default() };
    predict(kernel, mapping, target, &sizes, &options).map_err(|e| e.to_string())
}

/// All measurements with their predictions, each for the chip that it was taken on.
///
/// # Errors
/// As [`Table::new`].
pub fn predictions() -> Result<Table, String> {
    Table::new()
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut builder = Builder::default();
        builder.push_record(["kernel", "sizes", "", "measured", "predicted", "ratio", "date"]);
        for row in self.0.iter().filter(|row| !row.elsewhere) {
            let (unit, digits) = match row.kind {
                Kind::Cycles => ("cycles".to_owned(), 0),
                Kind::Time(regime) => (format!("us, {}", regime.name()), 1),
            };
            let figure = |v: f64| format!("{v:.digits$}");
            builder.push_record([
                row.kernel.clone(),
                row.sizes.clone(),
                unit,
                figure(row.measured),
                figure(row.predicted),
                format!("{:.3}", row.ratio()),
                row.date.clone(),
            ]);
        }
        let mut table = builder.build();
        table.with(Style::markdown()).with(Modify::new(Columns::new(3..=5)).with(Alignment::right()));
        writeln!(f, "{table}")?;
        let Some(worst) = self.worst() else { return Ok(()) };
        writeln!(
            f,
            "\nWith the {} figures of the tables of docs/performance.md: median error {:.1}%, worst {:.1}% ({} {})",
            self.0.iter().filter(|row| row.elsewhere).count(),
            100.0 * self.median(),
            100.0 * worst.error(),
            worst.kernel,
            worst.sizes
        )
    }
}
