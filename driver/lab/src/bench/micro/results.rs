//! Measured figures with the machine and the day.

use super::Case;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};
use warplift::cuda::DeviceInfo;

/// The unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unit {
    /// Cycles of a multiprocessor.
    #[serde(rename = "cycles")]
    Cycles,
    /// Bytes of one multiprocessor in a cycle.
    #[serde(rename = "B/cycle/SM")]
    BytesPerCycle,
    /// Bytes of the device in a second, 10^9.
    #[serde(rename = "GB/s")]
    Bandwidth,
    /// Microseconds.
    #[serde(rename = "us")]
    Microseconds,
}

impl Unit {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cycles => "cycles",
            Self::BytesPerCycle => "B/cycle/SM",
            Self::Bandwidth => "GB/s",
            Self::Microseconds => "us",
        }
    }
}

/// One number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Name of the case.
    pub name: String,
    /// Section of the chapter.
    pub group: String,
    /// Value.
    pub value: f64,
    /// Its unit.
    pub unit: Unit,
    /// Its place on the axes of a plot.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub axes: BTreeMap<String, f64>,
    /// Day of the measurement, where it is not that of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub date: Option<String>,
}

/// A run of `bench micro`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// Name of the device.
    pub device: String,
    /// Day, `2026-11-21`, UTC.
    pub date: String,
    /// Version of the CUDA driver's interface, 13000 for 13.0.
    pub driver: u32,
    /// Multiprocessors.
    pub multiprocessors: u32,
    /// Figures, in the order of measuring.
    pub figures: Vec<Figure>,
}

impl Results {
    /// An empty run of today on a device.
    pub fn new(device: &DeviceInfo) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
        Self {
            device: device.name.clone(),
            date: day((now / 86_400) as i64),
            driver: device.driver,
            multiprocessors: device.sm_count,
            figures: Vec::new(),
        }
    }

    /// The value of a figure.
    pub fn value(&self, name: &str) -> Option<f64> {
        self.figures.iter().find(|f| f.name == name).map(|f| f.value)
    }

    /// Adds the figure of a case, less the rows that only close its chain. If a subtrahend was not measured in this
    /// run, the case is left out: `false`.
    pub fn add(&mut self, case: &Case, value: f64, unit: Unit) -> bool {
        let less: Option<f64> = case.less.iter().map(|name| self.value(name)).sum();
        let Some(less) = less else { return false };
        // Two units may overlap, but an instruction takes at least one cycle of its scheduler.
        let value = if case.less.is_empty() { value } else { (value - less).max(1.0) };
        let axes = case.axes.iter().map(|(n, v)| ((*n).to_owned(), *v)).collect();
        let (name, group) = (case.name.clone(), case.group.to_owned());
        self.figures.push(Figure { name, group, value: (value * 1e3).round() / 1e3, unit, axes, date: None });
        true
    }

    /// Takes the figures of a later run on the same kind of device: those of the same name are replaced, others come last.
    /// They keep their day.
    ///
    /// # Errors
    /// The other run is of another device.
    pub fn take(&mut self, later: Self) -> Result<(), String> {
        if later.device != self.device {
            return Err(format!("figures of {} do not join those of {}", later.device, self.device));
        }
        for figure in later.figures {
            let date = figure.date.or_else(|| Some(later.date.clone())).filter(|day| *day != self.date);
            let figure = Figure { date, ..figure };
            match self.figures.iter_mut().find(|f| f.name == figure.name) {
                Some(known) => *known = figure,
                None => self.figures.push(figure),
            }
        }
        Ok(())
    }

    /// The days of the figures, the run's own first.
    pub fn days(&self) -> Vec<&str> {
        let mut days = vec![self.date.as_str()];
        for day in self.figures.iter().filter_map(|f| f.date.as_deref()) {
            if !days.contains(&day) {
                days.push(day);
            }
        }
        days
    }
}

/// The day of the proleptic Gregorian calendar that is so many days after 1970-01-01 (Hinnant,
/// chrono-Compatible Low-Level Date Algorithms, `civil_from_days`).
fn day(since: i64) -> String {
    let z = since + 719_468;
    let (era, day_of_era) = (z.div_euclid(146_097), z.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(date: &str, figures: &[(&str, f64)]) -> Results {
        let figure = |&(name, value): &(&str, f64)| {
            let (name, group, axes) = (name.into(), "rows".into(), BTreeMap::new());
            Figure { name, group, value, unit: Unit::Cycles, axes, date: None }
        };
        let figures = figures.iter().map(figure).collect();
        Results { device: "a GPU".into(), date: date.into(), driver: 13000, multiprocessors: 132, figures }
    }

    #[test]
    fn figures_of_a_later_run_keep_their_day() {
        let mut all = run("2026-11-21", &[("a", 1.0), ("b", 2.0)]);
        all.take(run("2026-11-25", &[("b", 3.0), ("c", 4.0)])).unwrap();
        let seen: Vec<_> =
            all.figures.iter().map(|f| (f.name.as_str(), f.value, f.date.as_deref())).collect();
        assert_eq!(seen, [("a", 1.0, None), ("b", 3.0, Some("2026-11-25")), ("c", 4.0, Some("2026-11-25"))]);
        assert_eq!(all.days(), ["2026-11-21", "2026-11-25"]);
        assert!(all.take(Results { device: "another".into(), ..run("2026-11-25", &[]) }).is_err());
    }

    #[test]
    fn days_have_names() {
        assert_eq!(day(0), "1970-01-01");
        assert_eq!(day(20_778), "2026-11-21");
        assert_eq!(day(11_016), "2000-02-29");
    }
}
