//! Results of a measurement as a table, CSV and JSON.

use super::nvml::Reading;
use super::statistics::{Ratio, median};
use serde::{Deserialize, Serialize};
use std::time::{SystemTime, UNIX_EPOCH};
use tabled::builder::Builder;
use tabled::settings::Style;
use tabled::settings::object::Columns;
use tabled::settings::{Alignment, Modify};
use warplift::cuda::DeviceInfo;

/// The work of one launch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Work {
    /// Kernel, sizes and types, as the table's title.
    pub label: String,
    /// Necessary floating-point operations.
    pub flops: f64,
    /// Necessary bytes: each input read once, each output written once.
    pub bytes: f64,
    /// The rates for percentages.
    pub peak: Peak,
}

impl Work {
    /// The same work with the rates of a device.
    pub fn on(&self, device: &DeviceInfo) -> Self {
        Self { peak: Peak::of(&device.name, self.peak.bits), ..self.clone() }
    }
}

/// Stated peak rates of a device, from its data sheet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Peak {
    /// Words for the arithmetic peak.
    pub name: String,
    /// TFLOP/s.
    pub tflops: f64,
    /// GB/s of device memory.
    pub gbs: f64,
    /// Bits of an element.
    pub bits: u32,
}

/// The data sheets of Hopper cards: a part of the device's name, the card, TFLOP/s of dense tensor cores on 16-bit elements,
/// and GB/s of device memory. The first that matches holds.
const SHEETS: [(&str, &str, f64, f64); 7] = [
    ("GH200", "GH200", 989.4, 4000.0),
    ("H200 NVL", "H200 NVL", 835.5, 4800.0),
    ("H200", "H200 SXM", 989.4, 4800.0),
    ("H20", "H20", 148.0, 4000.0),
    ("H100 NVL", "H100 NVL", 835.5, 3900.0),
    ("H100 PCIe", "H100 PCIe", 756.5, 2000.0),
    ("H100", "H100 SXM", 989.4, 3350.0),
];

impl Peak {
    /// The dense tensor cores of a device on elements of so many bits, and its memory. A device without a data sheet here is
    /// compared with an H200 SXM, as the name says.
    pub fn of(device: &str, bits: u32) -> Self {
        let known = SHEETS.iter().find(|sheet| device.contains(sheet.0));
        let &(_, card, tflops, gbs) = known.unwrap_or(&SHEETS[2]);
        let name = format!("{card} data sheet, dense {bits}-bit");
        Self { name, tflops: tflops * 16.0 / f64::from(bits), gbs, bits }
    }

    /// Those of an H200 SXM.
    pub fn h200_dense(bits: u32) -> Self {
        Self::of("H200", bits)
    }

    /// Least seconds for some work, and whether arithmetic decides.
    fn floor(&self, flops: f64, bytes: f64) -> (f64, bool) {
        let (arithmetic, memory) = (flops / (self.tflops * 1e12), bytes / (self.gbs * 1e9));
        (arithmetic.max(memory), arithmetic >= memory)
    }
}

/// The conditions of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Regime {
    /// Idle first, then a few milliseconds of launches.
    Burst,
    /// Launches back to back, after a time to settle.
    Sustained,
}

impl Regime {
    /// `burst` or `sustained`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Burst => "burst",
            Self::Sustained => "sustained",
        }
    }
}

/// One contender under one regime.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// Contender.
    pub name: String,
    /// Conditions.
    pub regime: Regime,
    /// Median over the rounds, microseconds of a launch.
    pub median_us: f64,
    /// Least and greatest round.
    pub range_us: [f64; 2],
    /// TFLOP/s at the median.
    pub tflops: f64,
    /// GB/s at the median.
    pub gbs: f64,
    /// Percent of the stated peak that limits this work: of arithmetic, or of memory.
    pub percent: f64,
    /// Which of the two.
    pub limit: String,
    /// Clocks and power, median over the rounds, where they could be read.
    pub clocks: Option<Reading>,
    /// Whether launches were replayed from a graph.
    pub graph: bool,
    /// Every round, in microseconds.
    pub rounds_us: Vec<f64>,
}

impl Measurement {
    /// From the seconds of each round.
    pub fn new(
        name: &str,
        regime: Regime,
        work: &Work,
        times: Vec<f64>,
        clocks: Option<Reading>,
        graph: bool,
    ) -> Self {
        let seconds = median(&times);
        let (floor, arithmetic) = work.peak.floor(work.flops, work.bytes);
        let rounds_us: Vec<f64> = times.iter().map(|t| t * 1e6).collect();
        let least = rounds_us.iter().copied().fold(f64::INFINITY, f64::min);
        let most = rounds_us.iter().copied().fold(0.0, f64::max);
        Self {
            name: name.to_owned(),
            regime,
            median_us: seconds * 1e6,
            range_us: [least, most],
            tflops: work.flops / seconds * 1e-12,
            gbs: work.bytes / seconds * 1e-9,
            percent: floor / seconds * 100.0,
            limit: if arithmetic { "TFLOP/s" } else { "GB/s" }.to_owned(),
            clocks,
            graph,
            rounds_us,
        }
    }
}

/// The first contender compared with another one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Standing {
    /// The first contender.
    pub name: String,
    /// The other one.
    pub against: String,
    /// Conditions.
    pub regime: Regime,
    /// Speed of the first over that of the other.
    pub ratio: Ratio,
}

/// The result of a measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Seconds since 1970.
    pub time: u64,
    /// The device.
    pub device: DeviceInfo,
    /// The work of a launch.
    pub work: Work,
    /// One per contender and regime.
    pub measurements: Vec<Measurement>,
    /// The first contender against each other one, by regime.
    pub standings: Vec<Standing>,
}

const HEADINGS: [&str; 10] =
    ["contender", "regime", "us", "least us", "most us", "TFLOP/s", "GB/s", "% of peak", "SM MHz", "W"];

impl Report {
    /// Puts measurements of one regime together; the first is compared with each other one.
    pub fn new(device: &DeviceInfo, work: &Work, measurements: Vec<Measurement>) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let standings = match measurements.split_first() {
            Some((own, others)) => others.iter().filter_map(|other| standing(own, other)).collect(),
            None => Vec::new(),
        };
        Self {
            time: now.map_or(0, |d| d.as_secs()),
            device: device.clone(),
            work: work.clone(),
            measurements,
            standings,
        }
    }

    /// Adds the measurements of the same work under another regime.
    pub fn merge(mut self, other: Self) -> Self {
        self.measurements.extend(other.measurements);
        self.standings.extend(other.standings);
        self
    }

    /// A readable table with device, peak and ratios.
    pub fn table(&self) -> String {
        let mut builder = Builder::default();
        builder.push_record(HEADINGS);
        for m in &self.measurements {
            builder.push_record(row(m, 1));
        }
        let mut table = builder.build();
        table.with(Style::sharp());
        table.with(Modify::new(Columns::new(2..)).with(Alignment::right()));
        let standings = self.standings.iter().map(|s| format!("{s}\n"));
        format!("{}\n{table}\n{}", self.head(), standings.collect::<String>())
    }

    fn head(&self) -> String {
        let (d, p) = (&self.device, &self.work.peak);
        format!(
            "{}\n{}, {} SMs, up to {} MHz, driver for CUDA {}.{}; peak: {} TFLOP/s, {} GB/s ({})",
            self.work.label,
            d.name,
            d.sm_count,
            d.clock_khz / 1000,
            d.driver / 1000,
            d.driver % 1000 / 10,
            p.tflops,
            p.gbs,
            p.name
        )
    }

    /// One line a measurement, with a heading.
    pub fn csv(&self) -> String {
        let head = ["work", "device"].into_iter().chain(HEADINGS).map(str::to_owned);
        let mut lines = vec![csv_line(head)];
        for m in &self.measurements {
            let place = [self.work.label.clone(), self.device.name.clone()];
            lines.push(csv_line(place.into_iter().chain(row(m, 4))));
        }
        lines.concat()
    }

    /// Everything, indented.
    ///
    /// # Errors
    /// A figure that JSON cannot hold.
    pub fn json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string_pretty(self)
    }
}

impl std::fmt::Display for Standing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let r = &self.ratio;
        write!(
            f,
            "{} is {:.3} x {} ({}; {} rounds, {:.3} to {:.3}, spread {:.1}%)",
            self.name,
            r.mean,
            self.against,
            self.regime.name(),
            r.rounds,
            r.low,
            r.high,
            (r.deviation - 1.0) * 100.0
        )
    }
}

fn standing(own: &Measurement, other: &Measurement) -> Option<Standing> {
    Some(Standing {
        name: own.name.clone(),
        against: other.name.clone(),
        regime: own.regime,
        ratio: Ratio::of_times(&own.rounds_us, &other.rounds_us)?,
    })
}

/// The cells under [`HEADINGS`], with so many decimals.
fn row(m: &Measurement, decimals: usize) -> [String; 10] {
    let number = |v: f64| format!("{v:.decimals$}");
    let clock = m.clocks.map_or_else(String::new, |c| c.sm_mhz.to_string());
    let watts = m.clocks.map_or_else(String::new, |c| format!("{:.0}", c.watts));
    let graph = if m.graph { " (graph)" } else { "" };
    [
        m.name.clone(),
        format!("{}{graph}", m.regime.name()),
        format!("{:.*}", decimals + 1, m.median_us),
        format!("{:.*}", decimals + 1, m.range_us[0]),
        format!("{:.*}", decimals + 1, m.range_us[1]),
        number(m.tflops),
        number(m.gbs),
        number(m.percent),
        clock,
        watts,
    ]
}

/// Fields separated by commas, quoted where needed (RFC 4180).
fn csv_line(fields: impl Iterator<Item = String>) -> String {
    let quote = |field: String| {
        if field.contains([',', '"', '\n']) { format!("\"{}\"", field.replace('"', "\"\"")) } else { field }
    };
    let fields: Vec<String> = fields.map(quote).collect();
    fields.join(",") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An H200, as the driver describes it.
    fn h200() -> DeviceInfo {
        serde_json::from_str(include_str!("../../../src/cuda/testdata/h200.json")).unwrap()
    }

    fn report() -> Report {
        let n = 4096f64;
        let work = Work {
            label: "gemm 4096x4096x4096, f16".into(),
            flops: 2.0 * n * n * n,
            bytes: 3.0 * n * n * 2.0,
            peak: Peak::h200_dense(16),
        };
        let clocks = Reading { sm_mhz: 1500, memory_mhz: 3201, watts: 690.0 };
        let m = |name, times: [f64; 3]| {
            Measurement::new(name, Regime::Burst, &work, times.to_vec(), Some(clocks), false)
        };
        let rows = vec![m("own", [180e-6, 200e-6, 190e-6]), m("cublas", [190e-6, 200e-6, 200e-6])];
        Report::new(&h200(), &work, rows)
    }

    #[test]
    fn figures_follow_from_the_median() {
        let report = report();
        let own = &report.measurements[0];
        assert!((own.median_us - 190.0).abs() < 1e-9);
        assert!((own.tflops - 723.36).abs() < 0.01, "{}", own.tflops);
        assert!((own.percent - own.tflops / 9.894).abs() < 1e-6);
        assert_eq!((own.limit.as_str(), report.standings.len()), ("TFLOP/s", 1));
        assert!(report.standings[0].ratio.mean > 1.03);
    }

    #[test]
    fn percentages_are_of_the_device_at_hand() {
        let rates = |device| {
            let peak = Peak::of(device, 8);
            (peak.name, peak.tflops, peak.gbs)
        };
        let h100 = ("H100 SXM data sheet, dense 8-bit".to_owned(), 1978.8, 3350.0);
        assert_eq!(rates("NVIDIA H100 80GB HBM3"), h100);
        assert_eq!(rates("NVIDIA GH200 480GB").2, 4000.0);
        assert_eq!(rates("NVIDIA H200").0, "H200 SXM data sheet, dense 8-bit");
        assert_eq!(rates("another"), rates("NVIDIA H200"));
    }

    #[test]
    fn every_form_carries_the_rows() {
        let report = report();
        let table = report.table();
        assert!(table.contains("NVIDIA H200, 132 SMs, up to 1980 MHz, driver for CUDA 13.0"), "{table}");
        assert!(
            table.contains("723.4") && table.contains("own is 1.036 x cublas (burst; 3 rounds"),
            "{table}"
        );
        let csv = report.csv();
        assert_eq!(csv.lines().count(), 3);
        assert!(csv.lines().all(|l| l.starts_with("work,")
            || l.starts_with("\"gemm 4096x4096x4096, f16\",NVIDIA H200,")));
        let again: Report = serde_json::from_str(&report.json().unwrap()).unwrap();
        assert_eq!(again.measurements.len(), 2);
        assert_eq!(again.merge(report).standings.len(), 2);
    }
}
