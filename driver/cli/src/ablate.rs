//! The ablation compares every kernel with its forms that lack one feature each.
//!
//! ```text
//!  compile --ablate --save DIR ─► NAME, NAME-without-FEATURE .., NAME.forms ─► bench --ablate --artifacts DIR
//!                                 (artifacts)                    (the effect of each feature)
//! ```
//!
//! A form with the same PTX as the full kernel is not measured. A form that the compiler refuses is reported.

use super::Tools;
use super::artifact::{Artifact, Ready, write};
use super::failure::{Outcome, user};
use super::source::{Choice, Source, load};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};
use tabled::builder::Builder;
use tabled::settings::Style;
use warplift::Feature;
use warplift_lab::bench::{Regime, Report};

/// A kernel's form without a feature.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Form {
    /// The same PTX.
    Same,
    /// The compiler refuses it, with this reason.
    Refused(String),
    /// Another kernel, by its artifact's name.
    Other(String),
}

/// A kernel's forms, by the name of the feature that each lacks.
pub struct Forms {
    full: Artifact,
    others: Vec<Artifact>,
    index: Vec<(String, Form)>,
}

fn index_path(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.forms"))
}

impl Forms {
    /// Compiles all forms, and assembles where there is a ptxas.
    ///
    /// # Errors
    /// The full form is refused.
    pub fn make(mut source: Source, tools: &Tools) -> Outcome<Self> {
        let full = Artifact::make(&source, tools)?;
        source.mapping = Some(full.mapping.clone());
        let given = source.disable.clone();
        let mut forms = Self { full, others: Vec::new(), index: Vec::new() };
        for (name, feature) in Feature::all().filter(|(_, f)| !given.contains(f)) {
            source.disable = [&given[..], &[feature]].concat();
            let form = match Artifact::make(&source, tools) {
                Err(refusal) => Form::Refused(refusal.message()),
                Ok(made) if made.ptx == forms.full.ptx => Form::Same,
                Ok(mut made) => {
                    made.name = format!("{}-without-{name}", forms.full.name);
                    forms.others.push(made);
                    Form::Other(forms.others[forms.others.len() - 1].name.clone())
                }
            };
            forms.index.push((name.to_owned(), form));
        }
        Ok(forms)
    }

    /// Reads the forms that [`Forms::save`] wrote.
    ///
    /// # Errors
    /// A file is missing or cannot be read.
    fn open(folder: &Path, name: &str) -> Outcome<Self> {
        let path = index_path(folder, name);
        let text = fs::read_to_string(&path).map_err(|e| {
            user(format!("reading {}: {e}; `compile --ablate --save` writes it", path.display()))
        })?;
        let index: Vec<(String, Form)> = serde_json::from_str(&text)?;
        let others = index.iter().filter_map(|(_, form)| match form {
            Form::Other(name) => Some(Artifact::open(folder, name)),
            _ => None,
        });
        Ok(Self { full: Artifact::open(folder, name)?, others: others.collect::<Outcome<_>>()?, index })
    }

    /// Reads or makes the forms of a kernel.
    ///
    /// # Errors
    /// They cannot be read or compiled.
    pub fn of(ready: &Ready, name: &str, choice: &Choice, tools: &Tools) -> Outcome<Self> {
        match &ready.artifacts {
            Some(folder) => Self::open(folder, name),
            None => Self::make(load(name, choice)?, tools),
        }
    }

    /// Writes all forms and the effect of each feature.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn save(&self, folder: &Path) -> Outcome<()> {
        for artifact in std::iter::once(&self.full).chain(&self.others) {
            artifact.save(folder)?;
        }
        let text = serde_json::to_string_pretty(&self.index)? + "\n";
        write(&index_path(folder, &self.full.name), text.as_bytes())
    }

    /// Each feature and its effect, a line each.
    pub fn lines(&self) -> String {
        let line = |(name, form): &(String, Form)| match form {
            Form::Same => format!("{}: the same without {name}\n", self.full.name),
            Form::Refused(why) => format!("{}: refused without {name}: {why}\n", self.full.name),
            Form::Other(other) => format!("{}: {other}\n", self.full.name),
        };
        self.index.iter().map(line).collect()
    }

    /// Changes the name of the full form, and of the others with it.
    pub fn rename(&mut self, name: &str) {
        let old = std::mem::replace(&mut self.full.name, name.to_owned());
        let renamed = |n: &str| n.strip_prefix(&old).map(|rest| format!("{name}{rest}"));
        self.others.iter_mut().for_each(|a| a.name = renamed(&a.name).unwrap_or_default());
        for (_, form) in &mut self.index {
            if let Form::Other(n) = form {
                *n = renamed(n).unwrap_or_default();
            }
        }
    }

    /// The forms to measure, the full form first.
    pub fn into_parts(self) -> (Vec<Artifact>, Row) {
        let row = Row { index: self.index };
        (std::iter::once(self.full).chain(self.others).collect(), row)
    }
}

/// The effect of each feature of a kernel, for its row of the table.
#[derive(Clone)]
pub struct Row {
    index: Vec<(String, Form)>,
}

impl Row {
    /// Time without each feature over the time with it, by regime.
    fn cells(&self, report: &Report) -> Vec<String> {
        let ratio = |name: &str, regime: Regime| {
            let found = report.standings.iter().find(|s| s.against == name && s.regime == regime);
            found.map(|s| format!("{:.3}", s.ratio.mean))
        };
        let cell = |(_, form): &(String, Form)| match form {
            Form::Same => "=".to_owned(),
            Form::Refused(_) => "refused".to_owned(),
            Form::Other(name) => {
                let regimes = [Regime::Burst, Regime::Sustained];
                regimes.iter().filter_map(|&r| ratio(name, r)).collect::<Vec<_>>().join(" / ")
            }
        };
        self.index.iter().map(cell).collect()
    }
}

/// The table: a row for each kernel and size, a column for each feature.
pub fn table(rows: &[(Row, Report)]) -> String {
    let mut builder = Builder::default();
    let names = rows.first().map(|(row, _)| row.index.iter().map(|(n, _)| n.clone())).into_iter().flatten();
    builder.push_record(std::iter::once("time without / with".to_owned()).chain(names));
    for (row, report) in rows {
        builder.push_record(std::iter::once(report.work.label.clone()).chain(row.cells(report)));
    }
    builder.build().with(Style::markdown()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use warplift::cuda::DeviceInfo;
    use warplift_lab::bench::{Measurement, Peak, Work};

    fn report(full: f64, others: &[(&str, f64)]) -> Report {
        let work = Work { label: "probe".into(), flops: 1e9, bytes: 1e6, peak: Peak::h200_dense(16) };
        let m = |name: &str, t: f64| Measurement::new(name, Regime::Burst, &work, vec![t; 3], None, false);
        let device: DeviceInfo =
            serde_json::from_str(include_str!("../../src/cuda/testdata/h200.json")).unwrap();
        let all = std::iter::once(m("probe", full)).chain(others.iter().map(|&(n, t)| m(n, t)));
        Report::new(&device, &work, all.collect())
    }

    #[test]
    fn a_row_says_what_each_feature_is_worth() {
        let other = Form::Other("probe-without-modulo".into());
        let index = vec![
            ("modulo".to_owned(), other),
            ("multicast".to_owned(), Form::Same),
            ("wgmma-pipelining".to_owned(), Form::Refused("no".into())),
        ];
        let text = table(&[(Row { index }, report(1e-4, &[("probe-without-modulo", 1.25e-4)]))]);
        let row: Vec<&str> = text.lines().last().unwrap().split('|').map(str::trim).collect();
        assert_eq!(row, ["", "probe", "1.250", "=", "refused", ""]);
        assert!(
            text.starts_with("| time without / with | modulo | multicast | wgmma-pipelining |"),
            "{text}"
        );
    }
}
