//! Writes the table of cycles, `ir/src/target/sm90a_cycles.rs`, from the JSON results.

use super::results::Results;
use super::rows::is_measured;
use crate::bench::median;
use std::collections::BTreeMap;
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
    ("memory_load_latency", |r| Some(f64::from(4 * 16 * 4 * 32) / r.value("memory.loads4.warps4.blocks1")?)),
    ("memory_copy_latency", |r| {
        let (in_flight, one) = (f64::from(2 * 64 * 128), f64::from(64 * 128));
        let copy = r.value("tma.load.rows128.inner128.swizzle128.stages8.one")?;
        Some(in_flight / r.value("memory.copies.rows64.stages2.blocks1")? - one / copy)
    }),
    ("memory_shared_rate", |r| {
        Some(r.value("memory.loads8.warps24.blocks132")? * f64::from(r.multiprocessors))
    }),
    ("update_cycles", |r| Some(r.value("atomics.red.add.s32.lane.blocks1")? / SECTORS)),
    ("shared_update_cycles", |r| Some(r.value("atomics.red.add.s32.lane.blocks132")? / SECTORS)),
    ("line_update_cycles", |r| {
        Some(r.value("atomics.red.add.f32.line.blocks132")? / f64::from(r.multiprocessors))
    }),
];

/// Sectors of a line, which 32 lanes with a word each touch.
const SECTORS: f64 = 4.0;

/// Cycles between updates of a word: each update of the case is of 32 lanes.
fn word_updates(results: &Results) -> Option<[f64; 2]> {
    let of = |kind: &str| Some(results.value(&format!("atomics.red.add.{kind}.word.blocks1"))? / 32.0);
    Some([of("s32")?, of("f32")?])
}

/// Bytes from the L2 by multiprocessors that read: of three shapes of copies the one in the middle.
fn cache_shares(results: &Results) -> Vec<(u32, f64)> {
    let mut shares: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for f in results.figures.iter().filter(|f| f.name.starts_with("cache.copies.")) {
        shares.entry(f.axes.get("blocks").map_or(0, |&b| b as u32)).or_default().push(f.value);
    }
    shares.into_iter().map(|(blocks, rates)| (blocks, median(&rates))).collect()
}

/// The rates as an expression.
fn rates(results: &Results) -> Result<String, String> {
    let mut out = "Rates {\n".to_owned();
    for (field, of) in RATE_FIELDS {
        let value = of(results).ok_or_else(|| format!("the results lack what `{field}` is made of"))?;
        let _ = writeln!(out, "    {field}: {value:.1},");
    }
    let [integers, floats] = word_updates(results).ok_or("the results lack updates of a word")?;
    let _ = writeln!(out, "    word_update_cycles: [{integers:.2}, {floats:.2}],\n    cache_shares: [");
    for (blocks, rate) in cache_shares(results) {
        let _ = writeln!(out, "        ({blocks}, {rate:.1}),");
    }
    Ok(out + "    ],\n}")
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

#[cfg(test)]
mod tests {
    use super::*;
    use warplift_ir::target::H100;

    /// The memory of an H100 is entered by hand: it is what was measured there, by the rules of the table.
    #[test]
    fn the_memory_of_an_h100_is_what_was_measured() {
        let text = include_str!("../../../../../docs/microbenchmarks/h100.json");
        let results: Results = serde_json::from_str(text).unwrap();
        let entered = H100.rates;
        let fields = [
            ("store_bytes_per_cycle", entered.store_bytes_per_cycle),
            ("cache_bytes_per_cycle", entered.cache_bytes_per_cycle),
            ("memory_bytes_per_cycle", entered.memory_bytes_per_cycle),
            ("cache_latency", entered.cache_latency),
            ("memory_latency", entered.memory_latency),
            ("memory_load_latency", entered.memory_load_latency),
            ("memory_copy_latency", entered.memory_copy_latency),
            ("memory_shared_rate", entered.memory_shared_rate),
        ];
        for (name, value) in fields {
            let (_, of) = RATE_FIELDS.iter().find(|f| f.0 == name).unwrap();
            let measured = of(&results).unwrap();
            assert!((measured - value).abs() < 0.06, "{name}: {value}, measured {measured}");
        }
        let shares = cache_shares(&results);
        for (blocks, value) in entered.cache_shares {
            let measured = shares.iter().find(|s| s.0 == blocks).unwrap().1;
            assert!((measured - value).abs() < 0.06, "{blocks} blocks: {value}, measured {measured}");
        }
    }
}
