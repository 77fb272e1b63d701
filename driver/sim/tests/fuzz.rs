//! Broken PTX gives an error, never a panic: random edits of real texts, parsed and run.

mod common;

use common::{Problem, gemm_of};
use warplift_sim::{Adversary, Hazards, Launch, Memory, Module, Options, ParamValue, parse, run};

const TEXTS: [&str; 2] = [include_str!("ptx/gemm_ws.ptx"), include_str!("ptx/litmus.ptx")];

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % n.max(1)
    }
}

/// Numbers at the ends of their types, and beyond.
const NUMBERS: [&str; 8] =
    ["0", "-1", "4294967295", "0x80000000", "18446744073709551615", "7", "0f7F800000", "1e400"];
/// Signs and words where none belong.
const ODD: [&str; 14] = [
    "{",
    "}",
    "[",
    "]",
    "\"",
    "/*",
    "@",
    "é",
    "\0",
    "|",
    "%",
    ";",
    ".reg .b32 %r<4294967295>;",
    ".shared .b8 z[4294967295];",
];

/// One edit: a byte, a word, a number, a line.
fn edit(text: &str, r: &mut Random) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    if lines.is_empty() {
        return String::new();
    }
    let i = r.below(lines.len());
    match r.below(7) {
        0 => {
            lines.remove(i);
        }
        1 => {
            let j = r.below(lines.len());
            lines.swap(i, j);
        }
        2 => {
            let j = r.below(lines.len());
            let line = lines[j].clone();
            lines.insert(i, line);
        }
        3 => {
            let n = NUMBERS[r.below(NUMBERS.len())];
            let digit = |c: char| c.is_ascii_digit();
            if let Some(at) = lines[i].rfind(digit) {
                let start = lines[i][..at].rfind(|c| !digit(c)).map_or(0, |p| p + 1);
                let line = format!("{}{n}{}", &lines[i][..start], &lines[i][at + 1..]);
                lines[i] = line;
            }
        }
        4 => {
            let j = r.below(lines.len());
            let (a, b) = (lines[i].clone(), lines[j].clone());
            let words: Vec<_> = b.split_whitespace().collect();
            let w = words.get(r.below(words.len())).copied().unwrap_or("");
            let target: Vec<_> = a.split_whitespace().collect();
            let at = r.below(target.len());
            lines[i] = target
                .iter()
                .enumerate()
                .map(|(k, t)| if k == at { w } else { t })
                .collect::<Vec<_>>()
                .join(" ");
        }
        5 => {
            let at = (0..=lines[i].len())
                .filter(|k| lines[i].is_char_boundary(*k))
                .nth(r.below(lines[i].len() + 1))
                .unwrap_or(0);
            lines[i].insert_str(at, ODD[r.below(ODD.len())]);
        }
        _ => {
            let keep = r.below(text.len());
            if text.is_char_boundary(keep) {
                return text[..keep].to_owned();
            }
        }
    }
    lines.join("\n")
}

fn attempt(seed: u64, rounds: usize) {
    let mut r = Random(seed | 1);
    let p = Problem { m: 128, n: 64, k: 128, blocks: 1, cluster: 1 };
    for round in 0..rounds {
        let mut text = TEXTS[r.below(TEXTS.len())].to_owned();
        for _ in 0..1 + r.below(3) {
            text = edit(&text, &mut r);
        }
        let order = [Adversary::Earliest, Adversary::Latest, Adversary::Random][round % 3];
        let hazards = if round % 2 == 0 { Hazards::Warn } else { Hazards::Deny };
        let options = Options { seed, order, hazards, max_steps: 20_000, ..Options::default() };
        if let Ok(module) = parse(&text) {
            let _ = gemm_of(&module, &p, &options);
            for entry in module.entries().filter(|e| *e != "gemm") {
                small(&module, entry, round, &options);
            }
        }
    }
}

fn small(module: &Module, entry: &str, round: usize, options: &Options) {
    let mut memory = Memory::new();
    let buffers = ["in", "out"].map(|n| memory.alloc(n, vec![1; 2048]));
    let mut launch = Launch::new(module, entry);
    launch.block = [32, 64, 96][round % 3];
    launch.cluster = [1 + round as u32 / 3 % 2, 1, 1];
    launch.grid = launch.cluster;
    launch.dynamic_shared = 4096;
    launch.params = buffers.iter().map(|b| ParamValue::Pointer(*b, 0)).collect();
    let _ = run(&launch, &mut memory, options);
}

#[test]
fn no_panic_on_broken_text() {
    attempt(1, 1500);
    let fresh =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(3, |d| d.as_nanos() as u64);
    println!("fresh seed {fresh}");
    attempt(fresh, 500);
}

#[test]
fn errors_have_their_place() {
    for (text, line, column, part) in [
        ("nonsense", 1, 1, "nonsense"),
        (".version 8.0\n.visible .entry k()\n{\n  frob.u32 1;\n}", 4, 3, "frob.u32"),
        (".visible .entry k()\n{\n  add.u32 %r1, %r1, 1;\n}", 3, 3, "result"),
        (".visible .entry k()\n{\n .reg .b32 %r<2>;\n add.u32.frob %r1, %r1, 1;\n}", 4, 2, ".frob"),
        (".visible .entry k()\n{\n bra NOWHERE;\n}", 3, 2, "NOWHERE"),
        (".visible .entry k()\n{\n .reg .b32 %r<2>;\n mov.u32 %r1, 5\n}", 5, 1, "expected `,`"),
        (".visible .entry k()\n{ /* open", 2, 3, "comment"),
        (".func f() { }", 1, 1, ".func"),
    ] {
        let e = parse(text).expect_err(text);
        assert_eq!((e.line, e.column), (line, column), "{e}");
        assert!(e.what.contains(part), "{e}");
    }
}
