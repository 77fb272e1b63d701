//! Attention without a running maximum: as near to f64 as the exact form, on data that fit the first block's maximum and on
//! data that send a tile through the exact loop.
//!
//! ```text
//!  data ─┬─ attention_max_free, emitted, in the simulator ─► error to f64 ─┐
//!        └─ attention, in the interpreter ─────────────────► error to f64 ─┴─ not much greater
//! ```

use warplift::ir::interp;
use warplift::ir::target::SM90A;
use warplift::ir::tile::{Kernel, Mapping, parse_file};
use warplift::kernels::find;
use warplift::sim::{self, Adversary};
use warplift::{Options, compile};
use warplift_lab::validate::{Data, Reference, Sizes, Style, Validation};

/// Queries, and keys or rows of a square.
const QUERIES: usize = 72;
const KEYS: usize = 330;
const HEAD: usize = 128;
/// The scale of the scores, a power of two of which includes log2(e).
const SCALE: f64 = 0.125;

/// Element (row, column) of an array with so many rows.
type Pattern = fn(row: usize, column: usize) -> f64;

/// Contents of q, k and v; `None`: normal numbers.
struct Contents {
    name: &'static str,
    q: Option<Pattern>,
    k: Option<Pattern>,
    v: Option<Pattern>,
    /// Whether a tile is computed again.
    again: bool,
}

/// 0 or 1, without a pattern.
fn mixed(row: usize, column: usize) -> f64 {
    ((row * 31 + column * 17) % 7 % 2) as f64
}

const ALL: &[Contents] = &[
    Contents { name: "normal numbers", q: None, k: None, v: None, again: false },
    Contents { name: "equal rows", q: Some(|_, _| 1.0), k: Some(|_, _| 1.0), v: None, again: false },
    Contents { name: "zeros", q: Some(|_, _| 0.0), k: None, v: None, again: false },
    Contents {
        name: "outliers",
        q: Some(mixed),
        k: Some(|r, c| if (r * 7 + c) % 1900 == 3 { 1e4 } else { mixed(c, r) }),
        v: None,
        again: true,
    },
    Contents {
        name: "one huge key",
        q: Some(|_, _| 1.0),
        k: Some(|r, c| if r == 5 { 100.0 } else { mixed(r, c) }),
        v: None,
        again: true,
    },
    Contents {
        name: "rising scores",
        q: Some(|_, _| 1.0),
        k: Some(|r, _| (r / 4) as f64),
        v: None,
        again: false,
    },
    Contents {
        name: "falling scores",
        q: Some(|_, _| 1.0),
        k: Some(|r, _| -((r / 4) as f64)),
        v: None,
        again: true,
    },
    Contents {
        name: "a result that overflows on its way",
        q: Some(|_, _| 1.0),
        k: Some(|r, _| if r < 64 { 3.0 } else { 0.5 }),
        v: Some(|_, _| 1e30),
        again: true,
    },
];

fn bits(x: f64) -> [u8; 2] {
    // Round to nearest even: the patterns' values need few bits, but for 1e4 and 1e30.
    let word = (x as f32).to_bits();
    (((word + 0x7fff + ((word >> 16) & 1)) >> 16) as u16).to_le_bytes()
}

fn values(bytes: &[u8]) -> Vec<f64> {
    let of = |b: &[u8]| f64::from(f32::from_bits(u32::from(u16::from_le_bytes([b[0], b[1]])) << 16));
    bytes.chunks(2).map(of).collect()
}

fn kernel(name: &str) -> (Kernel, Mapping) {
    let mut module = parse_file(find(name).expect("a kernel").text, name).expect("a text");
    (module.kernels.remove(0), module.mappings.remove(0))
}

/// Attention in f64, and the norm of the difference over the norm.
fn error(data: &Data, found: &[u8], causal: bool) -> f64 {
    let [q, k, v] = [0, 1, 2].map(|i| values(&data.buffers[i]));
    let found = values(found);
    let row = |a: &[f64], r: usize| a[r * HEAD..][..HEAD].to_vec();
    let (mut far, mut all) = (0.0, 0.0);
    for r in 0..q.len() / HEAD {
        let (query, keys) = (row(&q, r), if causal { r + 1 } else { k.len() / HEAD });
        let dot = |j: usize| query.iter().zip(row(&k, j)).map(|(a, b)| a * b).sum::<f64>();
        let scores: Vec<f64> = (0..keys).map(|j| dot(j) * SCALE).collect();
        let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = scores.iter().map(|s| (s - top).exp2()).collect();
        let sum: f64 = weights.iter().sum();
        for c in 0..HEAD {
            let want = weights.iter().enumerate().map(|(j, w)| w * v[j * HEAD + c]).sum::<f64>() / sum;
            far += (found[r * HEAD + c] - want).powi(2);
            all += want * want;
        }
    }
    (far / all).sqrt()
}

/// The trip counts of the exact loop show in the products that the simulator counts.
fn check(name: &str, exact: &str, sizes: &str, causal: bool) {
    let (text, mapping) = kernel(name);
    let compiled =
        compile(&text, &mapping, &SM90A, &Options { verify: true, ..Options::default() }).expect("code");
    assert!(compiled.manifest.roles.iter().any(|r| r.name == "producer"), "{name} has a producer");
    let other = kernel(exact).0;
    let (mut least, mut most) = (usize::MAX, 0);
    for case in ALL {
        let validation =
            Validation::new(&text, &mapping, Sizes::parse(&text, sizes).expect("sizes")).expect("a trial");
        let mut data = Data::new(&validation.operands, Style::Normal, 11);
        for (at, pattern) in [case.q, case.k, case.v].into_iter().enumerate() {
            let Some(pattern) = pattern else { continue };
            let count = data.buffers[at].len() / 2;
            data.buffers[at] = (0..count).flat_map(|i| bits(pattern(i / HEAD, i % HEAD))).collect();
        }
        let reference = Reference::of(validation, data).expect("a reference");
        let options = sim::Options { order: Adversary::Random, ..sim::Options::default() };
        let run = reference.simulate(&compiled.ptx, &compiled.manifest, &options, 1);
        let (found, report) = run.unwrap_or_else(|e| panic!("{name}, {}: {e}", case.name));
        assert!(report.hazards.is_empty(), "{name}, {}: {:?}", case.name, report.hazards);
        let plain = reference.interpret(&other, &interp::Options::default()).expect("the exact form");
        let [own, theirs] = [&found[3], &plain[3]].map(|o| error(&reference.data, o, causal));
        assert!(own <= 1.1 * theirs + 1e-3, "{name}, {}: error {own}, exact {theirs}", case.name);
        let lines = report.lines.len();
        if case.again { least = least.min(lines) } else { most = most.max(lines) }
    }
    assert!(least > most, "{name}: data that fit execute {most} lines, the exact loop at least {least}");
}

#[test]
fn full_attention_is_as_exact_as_with_the_maximum() {
    let sizes = format!("batch=1,heads=1,queries={QUERIES},keys={KEYS},scale={SCALE}");
    check("attention_max_free", "attention", &sizes, false);
}

#[test]
fn causal_attention_is_as_exact_as_with_the_maximum() {
    let sizes = format!("batch=1,heads=1,length={KEYS},scale={SCALE}");
    check("attention_causal_max_free", "attention_causal", &sizes, true);
}
