//! Loops whose body stands there once for each slot of their rings: the shape of what is emitted, and every number of
//! iterations around the ring's depth, in the simulator against the interpreter.

use warplift::ir::target::SM90A;
use warplift::ir::tile::{Kernel, Mapping, parse_file};
use warplift::{Compiled, Options, compile};
use warplift_golden::library::reference;
use warplift_golden::orders::{FEW_ORDERS, right};

const UNROLL: &str = "unroll";

/// Narrow weights by one or more warpgroups, tiles of so many columns, rings of so many stages.
fn case(columns: u32, consumers: u32, stages: u32, rest: &str) -> (Kernel, Mapping) {
    let text = include_str!("../../driver/kernels/a16w4.tile");
    let (kernel, _) = text.split_once("mapping a16w4").expect("a mapping");
    let (rows, chunk) = (64 * consumers, if columns > 16 { 16 } else { 32 });
    let mapping = format!(
        "mapping a16w4 {{\nBN = {rows}, BM = {columns}, GROUP = 128\n\
         for t: pipeline {stages}, producers 1, consumers {consumers}, chunk {chunk}\narray w: packed\narray s: staged\n{rest}\n}}"
    );
    let module =
        parse_file(&format!("{kernel}\n{mapping}"), "a16w4.tile").unwrap_or_else(|e| panic!("{e:?}"));
    (module.kernels[0].clone(), module.mappings[0].clone())
}

fn compiled((kernel, mapping): &(Kernel, Mapping), without: &[&str]) -> Compiled {
    let disable = without.iter().map(|f| f.parse().expect("a feature")).collect();
    let options = Options { verify: true, disable, ..Options::default() };
    compile(kernel, mapping, &SM90A, &options).unwrap_or_else(|e| panic!("{mapping}\n{e}"))
}

/// Waits for a stage in the consumers' code.
fn waits(made: &Compiled) -> usize {
    let (consumer, _) = made.ptx.split_once("$producer:").expect("a producer");
    consumer.matches("mbarrier.try_wait").count()
}

/// Instructions by which slots are counted in the consumers' code.
fn plural(made: &Compiled) -> bool {
    let (consumer, _) = made.ptx.split_once("$producer:").expect("a producer");
    consumer.contains("selp.b32")
}

#[test]
fn a_body_stands_there_for_each_slot() {
    // One warpgroup's work is overlapped, unless a helper makes something for it; seven have too little that could be.
    for (columns, consumers, rings) in [(32, 7, 1), (16, 1, 2)] {
        for stages in [2, 3, 5] {
            let case = case(columns, consumers, stages, "");
            let (made, rolled) = (compiled(&case, &[]), compiled(&case, &[UNROLL]));
            assert_eq!(waits(&made), rings * stages as usize, "{columns} columns, {stages} stages");
            assert_eq!(waits(&rolled), rings);
            assert!(!plural(&made) && plural(&rolled));
        }
    }
}

#[test]
fn any_number_of_iterations_leaves_at_its_slot() {
    for (columns, consumers, stages) in [(16, 1, 3), (32, 7, 2), (8, 2, 4)] {
        let case = case(columns, consumers, stages, "");
        let made = compiled(&case, &[]);
        for iterations in 1..=2 * i64::from(stages) + 1 {
            let size = [("m", 13), ("n", 72), ("k", 128 * iterations)];
            let problem = reference(&case.0, &case.1, &size, 5);
            right(&problem, &made, &FEW_ORDERS, (2, 0.0), &format!("{iterations} of {stages}"));
        }
    }
}

#[test]
fn bodies_stay_alone_where_slots_are_carried_or_registers_short() {
    let unrolls = |case| compiled(&case, &[]).explained.schedule.loops.iter().any(|l| l.unrolls);
    assert!(unrolls(case(16, 7, 2, "")));
    // The next tile begins at any slot.
    assert!(!unrolls(case(16, 7, 2, "kernel: persistent")));
    // 61 of 64 registers.
    let (kernel, mapping) = case(32, 7, 2, "");
    let text = mapping.to_string().replace("chunk 16", "chunk 32");
    let mapping = parse_file(&text, "mapping").unwrap_or_else(|e| panic!("{text}: {e:?}")).mappings.remove(0);
    assert!(!unrolls((kernel, mapping)));
}
