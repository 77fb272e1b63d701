//! Random kernels: library texts with a few edits, compiled by the whole pipeline.
//!
//! ```text
//!  library text ─ edits ─► text ─ parse ─ compile (verifiers on) ─► Reached
//! ```
//!
//! An edit keeps most of a text intact, so many texts pass the parser. Tokens are removed, repeated, exchanged or
//! replaced by others of the library. Numbers take values near limits.

use rand::Rng;
use rand::rngs::StdRng;
use std::panic::{AssertUnwindSafe, catch_unwind};
use warplift::ir::target::SM90A;
use warplift::ir::tile::{Mapping, parse_file};
use warplift::{CompileError, Options, compile};

/// The last stage that a text reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reached {
    /// It does not parse.
    Text,
    /// Its kernel is wrong.
    Verify,
    /// A stage refused it.
    Refused,
    /// PTX.
    Compiled,
}

/// A bug that a text reveals.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}\n--- text ---\n{text}")]
pub struct Crash {
    /// The panic's message, or a verifier's message about a pass's result.
    pub message: String,
    /// The text.
    pub text: String,
}

/// Parses a text and compiles all its kernels, each under its mapping or none.
///
/// # Errors
/// A stage panicked, or a verifier refused its result.
pub fn try_text(text: &str) -> Result<Reached, Crash> {
    let crash = |message| Crash { message, text: text.to_owned() };
    match catch_unwind(AssertUnwindSafe(|| pipeline(text))) {
        Ok(reached) => reached.map_err(crash),
        Err(panic) => {
            let words = panic.downcast_ref::<String>().map(String::as_str);
            let words = words.or_else(|| panic.downcast_ref::<&str>().copied());
            Err(crash(format!("panic: {}", words.unwrap_or("of an unknown type"))))
        }
    }
}

/// As [`try_text`], but panics pass through, as a fuzzer needs.
///
/// # Errors
/// The message of a verifier that refuses a pass's result.
pub fn pipeline(text: &str) -> Result<Reached, String> {
    let Ok(module) = parse_file(text, "fuzz") else { return Ok(Reached::Text) };
    let mut reached = Reached::Text;
    for kernel in &module.kernels {
        let none = Mapping { kernel: kernel.name.clone(), ..Mapping::default() };
        let mapping = module.mapping(&kernel.name).unwrap_or(&none);
        let options = Options { verify: true, ..Options::default() };
        reached = reached.max(match compile(kernel, mapping, &SM90A, &options) {
            Ok(_) => Reached::Compiled,
            Err(CompileError::Verify(_) | CompileError::Mapping(_)) => Reached::Verify,
            Err(bug @ CompileError::Bug { .. }) => return Err(bug.to_string()),
            Err(_) => Reached::Refused,
        });
    }
    Ok(reached)
}

/// Values near limits.
const NUMBERS: &[&str] = &[
    "0",
    "1",
    "2",
    "3",
    "4",
    "5",
    "7",
    "8",
    "12",
    "15",
    "16",
    "17",
    "24",
    "31",
    "32",
    "33",
    "40",
    "48",
    "63",
    "64",
    "65",
    "80",
    "96",
    "100",
    "127",
    "128",
    "129",
    "192",
    "255",
    "256",
    "257",
    "320",
    "384",
    "512",
    "1000",
    "1024",
    "4096",
    "65535",
    "65536",
    "2147483647",
    "2147483648",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "-1",
    "1.5",
    "0.0",
    "1e39",
];

/// Words that may stand where another stands.
const WORDS: &[&str] = &[
    "f16",
    "bf16",
    "f32",
    "f64",
    "i32",
    "i64",
    "u8",
    "i8",
    "i1",
    "e4m3",
    "exp",
    "max",
    "abs",
    "neg",
    "sqrt",
    "trans",
    "cast",
    "load",
    "store",
    "mma",
    "full",
    "iota",
    "reduce_max",
    "reduce_sum",
    "select",
    "for",
    "while",
    "if",
    "yield",
    "carry",
    "fit",
    "deferred",
    "direct",
    "persistent",
    "linear",
    "square",
    "band_m",
    "band_n",
    "cluster",
    "producers",
    "consumers",
    "pipeline",
    "wait",
    "warps",
    "chunk",
    "no",
    "m",
    "n",
    "k",
    "i",
    "j",
    "t",
    "x",
    "ta",
    "tb",
    "acc",
    "zero",
    "ga",
    "gb",
    "gc",
    "BM",
    "BN",
    "BK",
];

/// The pieces of a text: words with digits, white space, other characters one by one.
fn tokens(text: &str) -> Vec<String> {
    let kind = |c: char| match c {
        c if c.is_alphanumeric() || c == '_' => 0,
        c if c.is_whitespace() => 1,
        _ => 2,
    };
    let mut tokens: Vec<String> = Vec::new();
    for c in text.chars() {
        match tokens.last_mut() {
            Some(last) if kind(c) != 2 && last.ends_with(|l| kind(l) == kind(c)) => last.push(c),
            _ => tokens.push(c.to_string()),
        }
    }
    tokens
}

/// One of several.
fn one<'a, T>(of: &'a [T], random: &mut StdRng) -> Option<&'a T> {
    (!of.is_empty()).then(|| &of[random.random_range(0..of.len())])
}

/// A text with one to four edits, and half the time with nothing but changed numbers.
pub fn mutate(text: &str, random: &mut StdRng) -> String {
    // A comment hides its edits.
    let code: Vec<&str> = text.lines().filter(|l| !l.starts_with('#')).collect();
    let mut tokens = tokens(&code.join("\n"));
    let numbers_only = random.random_bool(0.5);
    for _ in 0..random.random_range(1..=4) {
        let what = if numbers_only { 0 } else { random.random_range(0..6) };
        edit(&mut tokens, what, random);
    }
    tokens.concat()
}

fn edit(tokens: &mut Vec<String>, what: u32, random: &mut StdRng) {
    let is_number = |t: &String| t.starts_with(|c: char| c.is_ascii_digit());
    let is_word = |t: &String| t.starts_with(|c: char| c.is_alphabetic());
    let is_code = |t: &String| !t.trim().is_empty();
    let places = |fits: &dyn Fn(&String) -> bool| -> Vec<usize> {
        (0..tokens.len()).filter(|i| fits(&tokens[*i])).collect()
    };
    let places = match what {
        0 | 1 => places(&is_number),
        2 => places(&is_word),
        _ => places(&is_code),
    };
    let (Some(&a), Some(&b)) = (one(&places, random), one(&places, random)) else { return };
    match what {
        0 | 1 => tokens[a] = one(NUMBERS, random).map_or_else(String::new, |n| (*n).to_owned()),
        2 if random.random_bool(0.5) => {
            tokens[a] = one(WORDS, random).map_or_else(String::new, |w| (*w).to_owned())
        }
        2 | 3 => tokens.swap(a, b),
        4 => drop(tokens.remove(a)),
        _ => tokens.insert(b, tokens[a].clone()),
    }
}
