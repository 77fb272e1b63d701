//! ptxas keeps the measured instructions of a microbenchmark in its loop, and adds none.
//!
//! `golden/micro.txt` says of every case which SASS instructions its loop holds. `UPDATE_GOLDENFILES=1`
//! rewrites it; what a case declares of its SASS is checked all the same. And ptxas takes the litmus test of every row of the
//! opcode table, which a machine with a GPU runs.

use goldenfile::Mint;
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::Mutex;
use warplift::toolchain::{Fetch, PtxasOptions, Toolchain};
use warplift_golden::sass::{Flow, parse};
use warplift_lab::bench::micro::{Case, Ready, cases};
use warplift_lab::litmus;

/// Opcodes of the longest loop, by number.
fn in_loop(case: &Case, tools: &Toolchain, ready: &Ready) -> Result<BTreeMap<String, u32>, String> {
    let (_, cubin) = ready.code(case).map_err(|e| e.to_string())?;
    let text = tools.disassemble(&cubin).map_err(|e| e.to_string())?;
    let flow = Flow::new(parse(&text).map_err(|e| e.to_string())?).map_err(|e| e.to_string())?;
    let length = |l: &&warplift_golden::sass::Loop| l.blocks.iter().map(|&b| flow.of(b).len()).sum::<usize>();
    let longest = flow.loops.iter().max_by_key(length).ok_or("no loop")?;
    let mut counts = BTreeMap::new();
    for i in longest.blocks.iter().flat_map(|&b| flow.of(b)).filter(|i| i.name() != "NOP") {
        *counts.entry(i.name().to_owned()).or_default() += 1;
    }
    Ok(counts)
}

/// What a case declares, against what its loop holds.
fn violation(case: &Case, counts: &BTreeMap<String, u32>) -> Option<String> {
    let (name, declared) = case.sass;
    let found = match name {
        "" => counts.values().sum(),
        _ => counts.get(name).copied().unwrap_or(0),
    };
    // Loops of other opcodes hold each repetition as one instruction or more.
    let holds = if name.is_empty() { found >= declared } else { found == declared };
    (!holds).then(|| format!("{}: {declared} of `{name}` declared, {found} found in {counts:?}", case.name))
}

type Line = Result<(String, Option<String>), String>;

fn line(case: &Case, tools: &Toolchain, ready: &Ready) -> Line {
    let counts = in_loop(case, tools, ready).map_err(|e| format!("{}: {e}", case.name))?;
    let mut text = format!("{:<52}", case.name);
    for (name, n) in &counts {
        let _ = write!(text, " {name} {n}");
    }
    Ok((text, violation(case, &counts)))
}

/// Those whose code the golden file leaves out too.
#[test]
fn every_case_compiles() {
    let refused = |c: &Case| c.compile().err().map(|e| format!("{}: {e}", c.name));
    let refused: Vec<String> = cases().iter().filter_map(refused).collect();
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}

#[test]
fn nothing_measured_is_optimised_away() {
    let tools = Toolchain::find_or_install(None, Fetch::default()).expect("the tools");
    let ready = Ready::Assemble(tools.clone());
    // Of products the least, middle and greatest shape; of rows the chains and some of the streams; of cases that differ
    // by their blocks or their turns alone one; launches have no loop.
    let axis = |c: &Case, of: &str| c.axes.iter().find(|(name, _)| *name == of).map(|&(_, n)| n as u32);
    let shown = |(i, c): &(usize, Case)| {
        let stream = c.group == "rows" && c.name.ends_with(".interval") && i % 8 > 1;
        let repeated = axis(c, "blocks").is_some_and(|n| n > 1) || axis(c, "steps").is_some_and(|n| n != 2);
        !stream && !repeated && c.group != "launch" && axis(c, "n").is_none_or(|n| [8, 64, 256].contains(&n))
    };
    let cases: Vec<Case> = cases().into_iter().enumerate().filter(shown).map(|(_, c)| c).collect();
    let next = Mutex::new(0..cases.len());
    let done: Mutex<BTreeMap<usize, Line>> = Mutex::default();
    let work = || {
        while let Some(i) = { next.lock().expect("no worker panics").next() } {
            let line = line(&cases[i], &tools, &ready);
            done.lock().expect("no worker panics").insert(i, line);
        }
    };
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|s| (0..threads).for_each(|_| drop(s.spawn(work))));
    let lines = done.into_inner().expect("no worker panics");
    let mut wrong = Vec::new();
    let mut mint = Mint::new(std::path::Path::new(env!("CARGO_MANIFEST_DIR")));
    let mut file = mint.new_goldenfile("micro.txt").expect("a golden file");
    for line in lines.into_values() {
        match line {
            Ok((text, violation)) => {
                writeln!(file, "{text}").expect("writing");
                wrong.extend(violation);
            }
            Err(error) => wrong.push(error),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The simulator takes registers of a wrong width that ptxas refuses.
#[test]
fn every_row_of_the_opcode_table_assembles() {
    let tools = Toolchain::find_or_install(None, Fetch::default()).expect("the tools");
    let rows: Vec<litmus::Case> =
        litmus::cases().into_iter().filter(|c| c.name.starts_with("row/")).collect();
    let refused = |c: &litmus::Case| {
        tools.ptxas(&c.ptx, &PtxasOptions::default()).err().map(|e| format!("{}: {e}", c.name))
    };
    let refused: Vec<String> = rows.par_iter().filter_map(refused).collect();
    assert!(rows.len() > 150, "{} rows", rows.len());
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}
