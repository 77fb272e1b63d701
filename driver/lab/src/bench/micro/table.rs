//! Writes the table of cycles, `ir/src/target/sm90a_cycles.rs`, from the JSON results.

use super::results::Results;
use super::rows::is_measured;
use std::fmt::Write as _;
use warplift_ir::target::{Opcode, SM90A};

/// Rows that a case of another name measures: row, case of the latency, case of the interval, and how many
/// schedulers share that interval's unit.
const OTHERS: &[(Opcode, &str, &str, f64)] = &[
    (Opcode::LdShared, "shared.ld.v1.latency", "shared.ld.v1.conflict1.interval", 4.0),
    (Opcode::StShared, "", "shared.st.v1.conflict1.interval", 4.0),
    (Opcode::Ldmatrix, "shared.ldmatrix.x4.latency", "shared.ldmatrix.x4.conflict1.interval", 4.0),
    (Opcode::Stmatrix, "", "shared.stmatrix.x4.conflict1.interval", 4.0),
    (Opcode::LdGlobal, "global.latency.l2", "", 1.0),
    (Opcode::Wgmma, "", "wgmma.f16.ss.n256.interval", 1.0),
    (Opcode::MmaSync, "mma.m16n8k16.f16.latency", "mma.m16n8k16.f16.interval", 1.0),
    (Opcode::TmaLoad, "tma.load.rows128.inner128.swizzle128.latency", "", 1.0),
    (Opcode::TmaStore, "tma.store.rows128.inner128.swizzle128.latency.done", "", 1.0),
    (Opcode::BarSync, "sync.bar.sync.warps4", "", 1.0),
    (Opcode::MbarWait, "sync.mbarrier.round_trip", "", 1.0),
    (Opcode::FenceProxyAsync, "sync.fence.proxy.async", "", 1.0),
    (Opcode::BarWarpSync, "sync.bar.warp.sync", "", 1.0),
];

/// Latency and interval of a row, each if it was measured.
fn cycles(results: &Results, op: Opcode) -> [Option<f64>; 2] {
    let row = SM90A.row(op);
    if is_measured(row) {
        return ["latency", "interval"]
            .map(|kind| results.value(&format!("row.{}.{kind}", row.opcode.name())));
    }
    match OTHERS.iter().find(|(o, ..)| *o == op) {
        Some((_, latency, interval, share)) => {
            [results.value(latency), results.value(interval).map(|v| v * share)]
        }
        None => [None, None],
    }
}

/// A field of the rates from the figures; `None` where one is missing.
type Rate = (&'static str, fn(&Results) -> Option<f64>);

const RATE_FIELDS: &[Rate] = &[
    ("product_shared_cycles", |r| Some(r.value("wgmma.f16.ss.n8.interval")? - 2.0)),
    ("product_register_cycles", |r| r.value("wgmma.f16.rs.n8.interval")),
    ("product_latency", |r| {
        Some(r.value("wgmma.f16.ss.n256.latency")? - r.value("wgmma.f16.ss.n256.interval")?)
    }),
    ("warp_product_cycles", |r| r.value("mma.m16n8k16.f16.interval")),
    ("copy_latency", |r| r.value("tma.load.rows8.inner128.swizzle128.latency")),
    ("copy_bytes_per_cycle", |r| r.value("tma.load.rows128.inner128.swizzle128.stages8.one")),
    ("copy_box_cycles", |r| Some(1024.0 / r.value("tma.load.rows8.inner128.swizzle128.stages8.one")?)),
    ("copy_row_cycles", |r| Some(32.0 / r.value("tma.load.rows256.inner32.swizzle32.stages8.one")?)),
    ("store_bytes_per_cycle", |r| r.value("tma.store.rows64.inner128.swizzle128.stages8.all")),
    ("cache_bytes_per_cycle", |r| {
        let device = r.value("global.bandwidth.l2.loads4.warps32")? * 1e9 / SM90A.clock_hz;
        Some(device / f64::from(r.multiprocessors))
    }),
    ("memory_bytes_per_cycle", |r| {
        Some(r.value("global.bandwidth.memory.loads8.warps24")? * 1e9 / SM90A.clock_hz)
    }),
    ("cache_latency", |r| r.value("global.latency.l2")),
    ("memory_latency", |r| r.value("global.latency.memory")),
];

/// The rates as an expression.
fn rates(results: &Results) -> Result<String, String> {
    let mut out = "Rates {\n".to_owned();
    for (field, of) in RATE_FIELDS {
        let value = of(results).ok_or_else(|| format!("the results lack what `{field}` is made of"))?;
        let _ = writeln!(out, "    {field}: {value:.1},");
    }
    Ok(out + "}")
}

/// The text of the module with the measured cycles.
///
/// # Errors
/// A figure of the rates is missing: the results are of some cases only.
pub fn update_table(results: &Results) -> Result<String, String> {
    let mut out = format!(
        "//! Cycles of rows as measured: {}, {}, by `warplift bench micro`.\n//!\n\
         //! Written by `warplift bench micro --update-table`; not edited by hand. Rows that are not listed, and\n\
         //! figures that are `None`, keep what their line of the table says.\n\n\
         use super::{{Measured, Opcode, Rates}};\n\n\
         /// Where the figures are from.\n\
         pub(super) const MEASURED_ON: &str = \"{}, {}\";\n\n\
         /// The figures: row, latency, interval.\n\
         #[rustfmt::skip]\n\
         pub(super) const MEASURED: &[Measured] = &[\n",
        results.device, results.date, results.device, results.date
    );
    for row in SM90A.rows() {
        let [latency, interval] = cycles(results, row.opcode);
        if latency.is_some() || interval.is_some() {
            let text =
                |v: Option<f64>| v.map_or("None".to_owned(), |v| format!("Some({})", v.round() as u16));
            let (op, latency, interval) = (row.opcode, text(latency), text(interval));
            let _ = writeln!(
                out,
                "    Measured {{ opcode: Opcode::{op:?}, latency: {latency}, interval: {interval} }},"
            );
        }
    }
    let _ =
        write!(out, "];\n\n/// The rates of units.\npub(super) const RATES: Rates = {};\n", rates(results)?);
    Ok(out)
}
