//! Looks for panics: `cargo run -p warplift-golden --example fuzz SECONDS [SEED]`. Each crash is printed
//! with its text, once for each message.

use rand::SeedableRng;
use rand::rngs::StdRng;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use warplift_golden::fuzz::{mutate, try_text};
use warplift_golden::kernels::texts;

fn main() {
    let argument = |n| std::env::args().nth(n).and_then(|a| a.parse().ok());
    let (seconds, seed): (u64, u64) = (argument(1).unwrap_or(10), argument(2).unwrap_or(1));
    let (mut random, texts) = (StdRng::seed_from_u64(seed), texts().expect("the library"));
    let (start, mut seen, mut reached) = (Instant::now(), BTreeSet::new(), BTreeMap::new());
    for text in texts.values().cycle() {
        if start.elapsed() > Duration::from_secs(seconds) {
            break;
        }
        let (text, one) = (mutate(text, &mut random), Instant::now());
        match try_text(&text) {
            Ok(r) => *reached.entry(r).or_insert(0) += 1,
            Err(crash) => {
                let head: String = crash.message.lines().take(2).collect();
                if seen.insert(head) {
                    println!("{crash}\n");
                }
            }
        }
        if one.elapsed() > Duration::from_secs(1) {
            println!("slow, {:?}:\n{text}\n", one.elapsed());
        }
    }
    println!("seed {seed}: {reached:?}, {} kinds of crash", seen.len());
}
