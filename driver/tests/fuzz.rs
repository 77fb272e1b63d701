//! Mutated texts of the library through the whole pipeline for a second: nothing panics, and what
//! compiles passes every level's verifier.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use warplift::ir::target::SM90A;
use warplift::ir::tile::{parse_file, verify_mapping};
use warplift::kernels::LIBRARY;
use warplift::{CompileError, Options, compile};

struct Dice(u64);

impl Dice {
    /// Xorshift (Marsaglia: Xorshift RNGs).
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n.max(1) as u64) as usize
    }
}

/// Words of one kind, so that exchanging them often leaves a kernel that still parses.
const KINDS: &[&[&str]] = &[
    &["0", "1", "2", "3", "4", "7", "8", "16", "48", "64", "96", "128", "192", "256", "512", "4096", "65536"],
    &["f16", "bf16", "f32", "f64", "i32", "u8", "f8e4m3"],
    &["BM", "BN", "BK", "B"],
    &["m", "n", "k"],
    &["i", "j", "t"],
    &["a", "b", "c", "x", "y"],
    &["ga", "gb", "gc", "gx", "gy"],
    &["ta", "tb", "tx", "acc", "zero", "x"],
    &["+", "-", "*"],
    &["max", "min", "cdiv"],
    &["persistent", "cluster 2", "warps 8", "warps 3", "epilogue deferred", "chunk 32", "no bulk_store"],
    &["raster linear", "raster square", "raster band_n 3"],
    &["consumers 1", "consumers 2", "consumers 3", "producers 0", "producers 1"],
    &["pipeline fit", "pipeline 1", "pipeline 2", "pipeline 9", "wait 0", "wait 1"],
    &["align 16", "align 8", "% 8", "% 4"],
];

/// Exchanges a few words for others of their kind, or drops a line.
fn mutated(dice: &mut Dice) -> String {
    let mut text = LIBRARY[dice.below(LIBRARY.len())].text.to_owned();
    for _ in 0..=dice.below(3) {
        if dice.below(12) == 0 {
            let lines: Vec<&str> = text.lines().collect();
            let drop = dice.below(lines.len());
            let kept = lines.iter().enumerate().filter(|(i, _)| *i != drop).map(|(_, l)| *l);
            text = kept.collect::<Vec<_>>().join("\n");
            continue;
        }
        let kind = KINDS[dice.below(KINDS.len())];
        let from = kind[dice.below(kind.len())];
        let places: Vec<usize> =
            text.match_indices(from).map(|(i, _)| i).filter(|&i| is_word(&text, i, from)).collect();
        if let Some(&at) = places.get(dice.below(places.len())) {
            text.replace_range(at..at + from.len(), kind[dice.below(kind.len())]);
        }
    }
    text
}

/// Whether a match is no part of a longer word.
fn is_word(text: &str, at: usize, word: &str) -> bool {
    let part = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_');
    !part(text[..at].chars().next_back()) && !part(text[at + word.len()..].chars().next())
}

/// Whether it compiles. A verifier that complains about a pass is a failure.
fn try_text(text: &str) -> bool {
    let Ok(module) = parse_file(text, "fuzz.tile") else { return false };
    let Some(kernel) = module.kernels.first() else { return false };
    let mapping = module.mapping(&kernel.name).cloned().unwrap_or_default();
    // A mapping that names what is not there is refused, and does no harm either.
    let _ = verify_mapping(kernel, &mapping, &SM90A);
    match compile(kernel, &mapping, &SM90A, &Options { verify: true, ..Options::default() }) {
        Ok(compiled) => {
            assert!(compiled.ptx.contains(".entry"));
            true
        }
        Err(bug @ CompileError::Bug { .. }) => panic!("{bug}"),
        Err(refusal) => {
            assert!(!refusal.to_string().is_empty());
            false
        }
    }
}

fn fuzz(seed: u64, time: Duration) -> (usize, usize) {
    let (mut dice, start) = (Dice(seed | 1), Instant::now());
    let (mut tried, mut compiled) = (0, 0);
    while start.elapsed() < time {
        let text = mutated(&mut dice);
        let outcome = std::panic::catch_unwind(|| try_text(&text));
        match outcome {
            Ok(made) => compiled += usize::from(made),
            Err(_) => panic!("seed {seed}, after {tried} texts:\n{text}"),
        }
        tried += 1;
    }
    (tried, compiled)
}

#[test]
fn no_text_panics() {
    let seconds = std::env::var("WARPLIFT_FUZZ_SECONDS").ok().and_then(|s| s.parse().ok()).unwrap_or(1.0);
    let half = Duration::from_secs_f64(seconds / 2.0);
    let fresh = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |d| d.as_nanos() as u64);
    let (known, fresh) = (fuzz(0x5eed, half), fuzz(fresh, half));
    let (tried, compiled) = (known.0 + fresh.0, known.1 + fresh.1);
    assert!(tried > 20 && compiled > 2, "{tried} texts, {compiled} of them compiled");
}
