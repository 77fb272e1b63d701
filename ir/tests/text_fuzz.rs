//! Texts and kernels at random: nothing panics, what reads also prints and reads back, and means the
//! same.

mod random;

use proptest::prelude::*;
use std::collections::HashSet;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use warplift_ir::interp::{Arg, Memory, Options, run};
use warplift_ir::target::SM90A;
use warplift_ir::tile::{Kernel, Module, parse_file, verify, verify_mapping};
use warplift_ir::types::Elem;

const SEEDS: [&str; 3] = [
    include_str!("../../driver/kernels/gemm_bias_relu_residual.tile"),
    include_str!("../../driver/kernels/row_max.tile"),
    "kernel zoo(p: ptr<i32> align 4, n: i64 % 2 in -5..=9) { tunable T = 32, U = 0x10
    grid 1, cdiv(T, 2) g = view p : i32[64, n] strides [1, 3] fill -1.5e3
    x = load g[0, 1] : i32[T, 2] h, l = split(join(x, y << 2)) print \"a \\\"b\\\"\", h
    r, s = while carry i = 0, z = x { yield (i < 10) & (n != 3), i + 1, z * 2 }
    q = if r == 4 { yield s } else { w = @[warps 2, deferred] abs(s) yield w % 7 }
    atomic_max g[r, 0], q o = async_copy g[4, 0] : i32[T, 2] async_commit async_wait 0
    assert !(n == 0), \"n\" store g[0, 0], o - trans(slice(q, [0, T / 4]) : i32[2, T / 4]) }
    mapping zoo { T = 8, U = 2 for t: pipeline 3, wait 1 kernel: raster band_n 4, no bulk_store }",
];

/// What a mutation may put in.
const WORDS: [&str; 40] = [
    "kernel",
    "mapping",
    "tunable",
    "grid",
    "for",
    "in",
    "while",
    "carry",
    "if",
    "else",
    "yield",
    "view",
    "load",
    "store",
    "mma",
    "full",
    "iota",
    "cast",
    "trans",
    "strides",
    "fill",
    "f16",
    "i32",
    "T",
    "x",
    "v7",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ",",
    ":",
    "=",
    "..",
    "-",
    "*",
    "99999999999",
    "1.5",
];

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

fn mutated(dice: &mut Dice) -> String {
    let mut text: Vec<char> = SEEDS[dice.below(SEEDS.len())].chars().collect();
    for _ in 0..=dice.below(6) {
        let at = dice.below(text.len());
        let end = (at + dice.below(12)).min(text.len());
        let word: Vec<char> = match dice.below(4) {
            0 => vec![],
            1 => text[at..end].repeat(2),
            2 => vec![char::from_u32(dice.below(0x300) as u32).unwrap_or(' ')],
            _ => format!(" {} ", WORDS[dice.below(WORDS.len())]).chars().collect(),
        };
        let over = if dice.below(2) == 0 { at } else { end };
        text.splice(at..over, word);
    }
    text.into_iter().collect()
}

/// Any list of the language's words.
fn babble(dice: &mut Dice) -> String {
    let words = (0..dice.below(60)).map(|_| WORDS[dice.below(WORDS.len())]);
    format!("kernel k( ) {{ {}", words.collect::<Vec<_>>().join(" "))
}

fn reads_back(kernel: &Kernel) -> Kernel {
    let printed = kernel.to_string();
    match parse_file(&printed, "") {
        Ok(Module { mut kernels, .. }) if kernels.len() == 1 => {
            assert!(kernel.same_as(&kernels[0]), "{printed}\n{}", kernels[0]);
            kernels.remove(0)
        }
        other => panic!("{other:?}\n{printed}"),
    }
}

fn try_text(text: &str) {
    let Ok(module) = parse_file(text, "fuzz") else {
        return;
    };
    for kernel in &module.kernels {
        let sound = verify(kernel).is_ok();
        let again = reads_back(kernel);
        assert_eq!(sound, verify(&again).is_ok());
        for mapping in &module.mappings {
            let fits = verify_mapping(kernel, mapping, &SM90A).is_ok();
            assert!(!fits || mapping.kernel == kernel.name);
        }
    }
}

fn fuzz(seed: u64, time: Duration) -> usize {
    let (mut dice, start) = (Dice(seed | 1), Instant::now());
    let mut tried = 0;
    while start.elapsed() < time {
        let text = match dice.below(4) {
            0 => babble(&mut dice),
            _ => mutated(&mut dice),
        };
        let caught = std::panic::catch_unwind(|| try_text(&text));
        assert!(caught.is_ok(), "seed {seed}: {text}");
        tried += 1;
    }
    tried
}

#[test]
fn no_text_panics() {
    let fresh = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |d| d.as_nanos() as u64);
    let half = Duration::from_millis(500);
    let tried = fuzz(0x5eed, half) + fuzz(fresh, half);
    assert!(tried > 100, "only {tried} texts in a second");
}

/// What a kernel leaves in memory, or why it stopped (places aside, which reading back changes).
fn outcome(kernel: &Kernel) -> (Vec<u8>, Vec<String>, Option<String>) {
    let mut memory = Memory::new();
    let p = memory.add_values("p", Elem::F32, &[1.0, 2.0, -3.0, 0.5]);
    let options = Options { steps: 2000, ..Options::default() };
    let result = run(kernel, &[Arg::Ptr(p, 0), Arg::Int(2)], &mut memory, &options);
    let fault = result.err().map(|e| e.fault.to_string());
    (memory.bytes(p).to_vec(), memory.printed, fault)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn built_kernels_read_back_and_mean_the_same(
        choices in prop::collection::vec(any::<u32>(), 0..400)
    ) {
        let kernel = random::kernel(&choices).expect("the generator obeys the builder");
        let again = reads_back(&kernel);
        if verify(&kernel).is_ok() {
            prop_assert_eq!(outcome(&kernel), outcome(&again));
        }
    }
}

#[test]
fn random_kernels_are_sound_and_use_most_operations() {
    let mut dice = Dice(11);
    let (mut sound, mut finished) = (0, 0);
    let mut names = HashSet::new();
    for _ in 0..300 {
        let choices: Vec<u32> = (0..400).map(|_| dice.below(1 << 30) as u32).collect();
        let kernel = random::kernel(&choices).expect("the generator obeys the builder");
        kernel.walk(|_, i| {
            names.insert(kernel.insts[i].op.name());
        });
        sound += usize::from(verify(&kernel).is_ok());
        finished += usize::from(outcome(&kernel).2.is_none());
    }
    assert!(sound > 100 && finished > 50, "{sound} sound, {finished} finished");
    assert!(names.len() > 35, "only {} operations: {names:?}", names.len());
}
