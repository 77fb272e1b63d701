//! The barrier protocol of every kernel of the library, apart from its data: all trip counts around the
//! depth of the rings, several tiles, every order of agents; and planted errors, which must be found.

use std::cell::Cell;
use warplift::ir::machine::{Allocation, Attr, Func, Program, RingFill, Schedule, Scheduled};
use warplift::ir::target::{Opcode, SM90A};
use warplift::ir::tile::{Kernel, Mapping, Module, parse_file};
use warplift::ir::{Bump, Deadline};
use warplift_emit::Allocations;
use warplift_isel::map::{MapContext, do_map};
use warplift_lab::validate::{Sizes, Style, Validation};
use warplift_regalloc::Budget;
use warplift_sched::protocol::{Order, ProtocolError, Report, Run, run};
use warplift_sched::{
    Feature, Graph, do_dead_code, do_epilogue_roles, do_expand_roles, do_merge_waits, do_modulo,
    do_modulo_expand, do_operand_rings, do_schedule_without, do_setmaxnreg, do_smem, do_value_numbering,
};
use warplift_sim as sim;

const ORDERS: [Order; 4] =
    [Order::ProducersFirst, Order::ConsumersFirst, Order::Random(1), Order::Random(0x9e37)];

fn library(name: &str) -> Module {
    let path = format!("{}/../kernels/{name}.tile", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    parse(&text)
}

fn parse(text: &str) -> Module {
    parse_file(text, "test.tile").unwrap_or_else(|e| panic!("{e:?}"))
}

/// What scheduling makes of a kernel.
struct Made<'a> {
    program: Program<'a>,
    schedule: Schedule,
    scheduled: Scheduled<'a>,
}

fn make<'a>(m: &Module, bump: &'a Bump) -> Made<'a> {
    make_without(m, &[], bump)
}

fn make_without<'a>(m: &Module, disabled: &[Feature], bump: &'a Bump) -> Made<'a> {
    make_as(m, disabled, bump, false)
}

/// The same, with iterations that overlap if `overlaps` is set.
fn make_as<'a>(m: &Module, disabled: &[Feature], bump: &'a Bump, overlaps: bool) -> Made<'a> {
    let (kernel, mapping) = (&m.kernels[0], &m.mappings[0]);
    let variants = do_map(kernel, &MapContext::new(mapping, &SM90A, &[])).unwrap_or_else(|e| panic!("{e}"));
    let (v, plan) = warplift_isel::select::do_select(variants, &SM90A, &[], Deadline::default())
        .unwrap_or_else(|e| panic!("{e}"));
    let program = warplift_isel::lower::do_lower(&v.kernel, &plan, mapping, &SM90A, bump);
    let mut program = program.unwrap_or_else(|e| panic!("{e}"));
    let mut graph = Graph::of(&mut program.func);
    let (program, _) =
        do_epilogue_roles(program, &mut graph, &SM90A, disabled).unwrap_or_else(|e| panic!("{e}"));
    let program = do_merge_waits(program, &mut graph, &SM90A, &[]).unwrap_or_else(|e| panic!("{e}"));
    let program = do_operand_rings(program, &mut graph, &SM90A, disabled);
    let made = do_modulo(program, &mut graph, &SM90A, disabled, Deadline::default());
    let made = made.unwrap_or_else(|e| panic!("{e}"));
    let program = match overlaps {
        true => do_modulo_expand(made.program, &mut graph, &made.loops).unwrap_or_else(|e| panic!("{e}")),
        false => made.program,
    };
    let mut schedule =
        do_schedule_without(&program, &graph, &SM90A, disabled).unwrap_or_else(|e| panic!("{e}"));
    let shared = do_smem(&program, &mut schedule, &SM90A).unwrap_or_else(|e| panic!("{e}"));
    let mut scheduled =
        do_expand_roles(&program, &graph, &schedule, shared, &SM90A).unwrap_or_else(|e| panic!("{e}"));
    for role in &mut scheduled.roles {
        do_value_numbering(&mut role.func);
        do_dead_code(&mut role.func);
    }
    Made { program, schedule, scheduled }
}

fn allocated<'a>(func: &Func<'a>, registers: u32, role: &str) -> (Func<'a>, Allocation) {
    let made = warplift_regalloc::allocate(func, &Budget { registers, role, target: &SM90A });
    made.unwrap_or_else(|e| panic!("{e}"))
}

impl Made<'_> {
    /// Sizes that are no named argument are 64.
    fn run(&self, sizes: &[(&str, i64)], blocks: u32, order: Order) -> Result<Report, ProtocolError> {
        let arguments = |name: &str| Some(sizes.iter().find(|(n, _)| *n == name).map_or(64, |(_, v)| *v));
        let cluster = self.scheduled.launch.cluster.max(1);
        let mut total = Report::default();
        for number in 0..blocks / cluster {
            let r = run(&Run {
                program: &self.program,
                schedule: &self.schedule,
                scheduled: &self.scheduled,
                arguments: &arguments,
                blocks,
                cluster: number,
                order,
            })?;
            total.fills += r.fills;
            total.reads += r.reads;
            total.releases += r.releases;
        }
        Ok(total)
    }

    fn depth(&self) -> i64 {
        self.schedule.rings.values().map(|r| i64::from(r.depth)).max().unwrap_or(1)
    }

    /// Compiled to the end, and run in the simulator: as the interpreter has it, and without a hazard.
    fn check(mut self, kernel: &Kernel, mapping: &Mapping, sizes: &[(&str, i64)]) {
        let mut roles = Vec::new();
        let (setup, setup_alloc) = allocated(&self.scheduled.setup, 128, "setup");
        self.scheduled.setup = setup;
        for role in &mut self.scheduled.roles {
            let (func, alloc) = allocated(&role.func, role.registers, role.name);
            role.func = func;
            roles.push(alloc);
        }
        let needed: Vec<u32> = roles.iter().map(|a| a.pressure).collect();
        assert!(do_setmaxnreg(&mut self.scheduled, &needed, &SM90A), "{needed:?}");
        let allocations = Allocations { setup: setup_alloc, roles };
        let out =
            warplift_emit::emit(&self.scheduled, &allocations, &SM90A).unwrap_or_else(|e| panic!("{e}"));
        let sizes = Sizes::of(kernel, sizes).unwrap_or_else(|e| panic!("{e}"));
        let validation = Validation::new(kernel, mapping, sizes).unwrap_or_else(|e| panic!("{e}"));
        let reference = validation.reference(Style::Integers, 3).unwrap_or_else(|e| panic!("{e}"));
        let options = sim::Options { seed: 2, order: sim::Adversary::Random, ..sim::Options::default() };
        let run = reference.simulate(&out.ptx, &out.manifest, &options, 2);
        let (found, report) = run.unwrap_or_else(|e| panic!("{e}"));
        assert!(report.hazards.is_empty(), "{:?}", report.hazards);
        assert_eq!(reference.difference(&found), None);
    }

    /// All trip counts to twice the depth, one tile and several, all orders.
    fn sweep(&self, name: &str) {
        for (m, n) in [(128, 128), (300, 520)] {
            self.sweep_trips(name, &|trips| vec![("m", m), ("n", n), ("p", n), ("k", 64 * trips)]);
        }
    }

    /// All trip counts to twice the depth and all orders, on two blocks; sizes from the trips.
    fn sweep_trips(&self, name: &str, sizes: &dyn Fn(i64) -> Vec<(&'static str, i64)>) {
        for trips in 0..=2 * self.depth() + 1 {
            let sizes = sizes(trips);
            for order in ORDERS {
                let r = self.run(&sizes, 2, order);
                let r = r.unwrap_or_else(|e| panic!("{name}, {trips} trips, {sizes:?}, {order:?}: {e}"));
                assert!(trips == 0 || r.fills > 0, "{name}: nothing was filled");
                assert!(trips == 0 || r.reads >= r.fills, "{name}: {r:?}");
            }
        }
    }
}

#[test]
fn every_product_of_the_library_keeps_the_protocol() {
    for name in ["gemm", "gemm_tn", "gemm_f32out", "gemm_chain", "gemm_dual", "gemm_two_outputs"] {
        let bump = Bump::new();
        make(&library(name), &bump).sweep(name);
    }
}

/// A product whose operands threads convert: the left one in registers, the right one in shared memory.
fn converted() -> Module {
    let changes = [
        ("a: ptr<f16>", "a: ptr<i8>"),
        ("b: ptr<f16>", "b: ptr<i8>"),
        ("view a : f16", "view a : i8"),
        ("view b : f16", "view b : i8"),
        ("n: i32 % 8, k: i32 % 8", "n: i32 % 16, k: i32 % 16"),
        ("load ga[i*BM, t*BK] : f16[BM, BK]", "cast(load ga[i*BM, t*BK] : i8[BM, BK], f16)"),
        ("load gb[j*BN, t*BK] : f16[BN, BK]", "cast(load gb[j*BN, t*BK] : i8[BN, BK], f16)"),
    ];
    let text = changes.iter().fold(include_str!("../../kernels/gemm.tile").to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "no `{from}`");
        text.replace(from, to)
    });
    let (kernel, _) = text.split_once("mapping gemm").unwrap_or_else(|| panic!("no mapping"));
    let mapping =
        "BM = 128, BN = 256, BK = 64 for t: pipeline fit, producers 1, consumers 4 kernel: persistent";
    parse(&format!("{kernel}mapping gemm {{ {mapping} }}"))
}

/// Threads fill the stages that their own products read: in the iteration before, or in the same one.
#[test]
fn operands_that_threads_compute_keep_the_protocol() {
    let module = converted();
    for overlaps in [true, false] {
        let bump = Bump::new();
        let made = make_as(&module, &[], &bump, overlaps);
        let operand = made.schedule.rings.values().find(|r| r.fill == RingFill::Operand);
        let operand = operand.unwrap_or_else(|| panic!("no operand has a ring"));
        assert_eq!((operand.least, operand.blocks.len()), if overlaps { (2, 2) } else { (1, 1) });
        made.sweep("converted");
    }
}

#[test]
fn planted_errors_of_computed_operands_are_found() {
    let module = converted();
    for overlaps in [true, false] {
        for op in [Opcode::MbarArrive, Opcode::MbarWait] {
            let bump = Bump::new();
            let mut made = make_as(&module, &[], &bump, overlaps);
            let ring = made.schedule.rings.iter().find(|(_, r)| r.fill == RingFill::Operand);
            let (ring, data) = ring.unwrap_or_else(|| panic!("no operand has a ring"));
            assert!(data.depth > 1, "{overlaps}");
            let first = made.scheduled.shared.barriers[ring] as i32;
            let own = first..first + 16 * data.depth as i32;
            if op == Opcode::MbarWait {
                mutate(
                    &mut made,
                    "consumer",
                    |a| matches!(a, Attr::Mem { offset, .. } if own.contains(offset)),
                    op,
                );
                let found = fails(&made).to_string();
                assert!(found.starts_with("stage") || found.starts_with("barrier"), "{found}");
            } else {
                mutate(&mut made, "consumer", |_| true, op);
                assert!(fails(&made).to_string().starts_with("deadlock"));
            }
        }
    }
}

#[test]
fn products_of_warps_keep_the_protocol() {
    for (name, mapping) in [
        (
            "gemm",
            "BM = 128, BN = 128, BK = 64 for t: pipeline 3 kernel: persistent, warps 8, products mma_sync",
        ),
        ("gemm_tn", "BM = 32, BN = 64, BK = 64 kernel: persistent"),
        (
            "gemm_dual",
            "BM = 64, BN = 64, BK = 64 for t: pipeline 2 kernel: persistent, warps 4, products mma_sync",
        ),
    ] {
        let bump = Bump::new();
        make(&remapped(name, mapping), &bump).sweep(name);
    }
}

/// A kernel of the library under another mapping.
fn remapped(name: &str, mapping: &str) -> Module {
    let path = format!("{}/../kernels/{name}.tile", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let (kernel, _) = text.split_once(&format!("mapping {name}")).unwrap_or_else(|| panic!("no mapping"));
    parse(&format!("{kernel}mapping {name} {{ {mapping} }}"))
}

#[test]
fn products_in_flight_over_an_iteration_keep_the_protocol() {
    for (name, mapping) in [
        ("gemm", "BM = 64\nfor t: pipeline 3, consumers 1\nkernel: persistent"),
        ("gemm", "BM = 64\nfor t: pipeline 2, consumers 1\nkernel: persistent, epilogue deferred"),
        ("gemm", "for t: pipeline 4, consumers 2, wait 1\nkernel: persistent, epilogue deferred"),
        ("gemm_dual", "BM = 64\nfor t: pipeline 3, consumers 1\nkernel: persistent"),
    ] {
        let bump = Bump::new();
        let made = make(&remapped(name, mapping), &bump);
        let flying = made.program.func.insts.keys().any(|i| made.schedule.in_flight[i] == 1);
        assert!(flying, "{name}, {mapping}: {:?}", made.schedule.remarks);
        made.sweep(name);
    }
}

/// Persistent loops over several tiles whose inner loops are rotated, in turns, or of another length for each
/// tile.
#[test]
fn attention_keeps_the_protocol() {
    for (name, mapping) in [
        ("attention", ""),
        ("attention", "BM = 64, BN = 64, D = 64\nfor t: pipeline 2, consumers 1\nkernel: persistent"),
        ("attention_causal", ""),
        ("attention_causal", "BM = 128, BN = 64, D = 64\nfor t: pipeline 3, consumers 2\nkernel: persistent"),
    ] {
        let module = if mapping.is_empty() { library(name) } else { remapped(name, mapping) };
        let tunables = &module.mappings[0].tunables;
        let tile = tunables.iter().find(|(n, _)| n == "BN").map_or(64, |(_, v)| *v);
        let bump = Bump::new();
        let made = make(&module, &bump);
        for rest in [0, 3] {
            made.sweep_trips(name, &|trips| {
                let length = (tile * trips - rest).max(0);
                let keys = [("keys", length), ("length", length)];
                [("batch", 1), ("heads", 3), ("queries", 300)].into_iter().chain(keys).collect()
            });
        }
    }
}

/// Consumers and epilogue warps read each stage of a row, and epilogue warps hand it back; rows of as many stages as the ring has
/// at least, and fewer, several to a block.
#[test]
fn halves_of_a_tile_keep_the_protocol() {
    let mapping =
        "BN = 4096\nfor t: pipeline 17\nkernel: persistent, warps 4, epilogue warps\narray x: staged";
    let (bump, module) = (Bump::new(), remapped("softmax_warp_specialized", mapping));
    let made = make(&module, &bump);
    let rings: Vec<_> = made.schedule.rings.values().map(|r| (r.depth, r.least, r.rereads.len())).collect();
    assert_eq!(rings, [(17, 16, 1), (2, 1, 0)]);
    for (trips, rows) in [(0, 3), (1, 50), (3, 15), (16, 5)] {
        for order in ORDERS {
            let sizes = [("m", rows), ("n", 4096 * trips)];
            let r = made.run(&sizes, 2, order).unwrap_or_else(|e| panic!("{sizes:?}, {order:?}: {e}"));
            assert_eq!(r.fills, (rows * trips) as u64, "{sizes:?}, {order:?}: {r:?}");
            // Each of eight warps reads each fill.
            assert_eq!(r.reads, 8 * r.fills, "{sizes:?}, {order:?}: {r:?}");
        }
    }
    let sizes = [("m", 15), ("n", 12288)];
    for (role, op, what) in [
        ("epilogue", Opcode::MbarArrive, "deadlock"),
        ("consumer", Opcode::MbarArrive, "deadlock"),
        ("producer", Opcode::MbarWait, "overwritten"),
    ] {
        let mut made = make(&module, &bump);
        mutate(&mut made, role, |_| true, op);
        let found = made.run(&sizes, 2, Order::ProducersFirst).expect_err(role).to_string();
        assert!(found.contains(what), "{role}: {found}");
    }
}

/// What epilogue warps alone read is copied by a thread of its own, whose ring the producer's does not wait for.
#[test]
fn what_the_epilogue_alone_read_keeps_the_protocol() {
    let mapping = "BN = 4096\nfor t: pipeline 17\nfor u: pipeline 2\nkernel: persistent, warps 4, epilogue warps\n\
                   array x: staged\narray w: staged\narray b: staged";
    let (bump, module) = (Bump::new(), remapped("layer_norm_warp_specialized", mapping));
    let made = make(&module, &bump);
    let rings: Vec<_> =
        made.schedule.rings.values().map(|r| (r.depth, r.buffers.len(), r.rereads.len())).collect();
    assert_eq!(rings, [(17, 1, 1), (2, 2, 0), (2, 1, 0)]);
    assert_eq!(made.scheduled.roles.iter().map(|r| r.copiers).collect::<Vec<_>>(), [0, 0, 2]);
    for (trips, rows) in [(0, 3), (1, 50), (3, 15), (16, 5)] {
        for order in ORDERS {
            let sizes = [("m", rows), ("n", 4096 * trips)];
            let r = made.run(&sizes, 2, order).unwrap_or_else(|e| panic!("{sizes:?}, {order:?}: {e}"));
            // A stage of x is read by eight warps, those of w and b by four.
            let stages = (rows * trips) as u64;
            assert_eq!((r.fills, r.reads), (3 * stages, 16 * stages), "{sizes:?}, {order:?}: {r:?}");
        }
    }
    let sizes = [("m", 15), ("n", 12288)];
    // The second wait of the producer's warps is the other thread's.
    for nth in [0, 1] {
        let mut made = make(&module, &bump);
        let seen = Cell::new(0);
        mutate(&mut made, "producer", |_| seen.replace(seen.get() + 1) == nth, Opcode::MbarWait);
        let found = made.run(&sizes, 2, Order::ProducersFirst).expect_err("a wait is missing").to_string();
        assert!(found.contains("overwritten"), "{nth}: {found}");
    }
}

#[test]
fn loads_before_the_wait_for_grids_keep_the_protocol() {
    let module = library("a16w4");
    let bump = Bump::new();
    let made = make(&module, &bump);
    assert!(made.schedule.before_wait.is_some(), "{:?}", made.schedule.remarks);
    for m in [20, 300] {
        made.sweep_trips("a16w4", &|trips| vec![("m", m), ("n", 520), ("k", 128 * trips)]);
    }
}

#[test]
fn teams_in_turn_keep_the_protocol() {
    let mapping = "BM = 64, BN = 64\nfor t: pipeline 2, consumers 1\nkernel: persistent, pingpong 2";
    let bump = Bump::new();
    make(&remapped("gemm", mapping), &bump).sweep("gemm");
}

#[test]
fn tiles_that_programs_share_keep_the_protocol() {
    let mapping = "BM = 64, BN = 64\nfor t: pipeline 2, consumers 1, stream_k\nkernel: persistent";
    let bump = Bump::new();
    make(&remapped("gemm", mapping), &bump).sweep("gemm");
}

/// Head of a product with a further argument, whose bits say which conditions hold.
const HEAD: &str = "
kernel conditional(
    a: ptr<f16> align 16, b: ptr<f16> align 16, c: ptr<f16> align 16, m: i32, n: i32 % 8, k: i32 % 8, mask: i32
) {
    tunable BM = 64, BN = 64, BK = 64
    grid cdiv(m, BM), cdiv(n, BN)
    ga = view a : f16[m, k]
    gb = view b : f16[n, k]
    gc = view c : f16[m, n]
    i, j = block_index
    zero = full 0.0 : f32[BM, BN]
";

/// One iteration of its loop.
const ITERATION: &str = "
    ta = load ga[i*BM, t*BK] : f16[BM, BK]
    tb = load gb[j*BN, t*BK] : f16[BN, BK]
    y = mma x, ta, trans(tb)
    yield y
";

const PIPELINED: &str = "
mapping conditional {
    for t: pipeline 2, producers 1, consumers 1
    kernel: persistent
}";

/// Every iteration under a condition of its own.
fn iterations_with_conditions() -> String {
    format!(
        "{HEAD}
        acc = for t in 0..cdiv(k, BK) carry x = zero {{
            z = if (mask >> t) & 1 == 1 {{ {ITERATION} }} else {{ yield x }}
            yield z
        }}
        store gc[i*BM, j*BN], cast(acc, f16)
    }}{PIPELINED}"
    )
}

/// Two loops one after another, each under a condition; the first differs from tile to tile.
fn loops_with_conditions() -> String {
    let looped = |from| format!("for t in 0..cdiv(k, BK) carry x = {from} {{ {ITERATION} }}");
    format!(
        "{HEAD}
        first = if (mask >> ((i + j) & 1)) & 1 == 1 {{ p = {} yield p }} else {{ yield zero }}
        if mask & 4 == 4 {{
            q = {}
            store gc[i*BM, j*BN], cast(q, f16)
        }}
        if mask & 4 == 0 {{ store gc[i*BM, j*BN], cast(first, f16) }}
    }}{PIPELINED}",
        looped("zero"),
        looped("first")
    )
}

#[test]
fn ifs_taken_and_not_keep_the_protocol() {
    for (text, bits) in [(iterations_with_conditions(), 5), (loops_with_conditions(), 3)] {
        let bump = Bump::new();
        let module = parse(&text);
        let made = make(&module, &bump);
        assert!(made.schedule.producer && made.depth() == 2, "{:?}", made.schedule.remarks);
        for mask in 0..1 << bits {
            for trips in 0..=2 * made.depth() + 1 {
                for order in ORDERS {
                    let sizes = [("m", 136), ("n", 136), ("k", 64 * trips), ("mask", mask)];
                    let run = made.run(&sizes, 2, order);
                    run.unwrap_or_else(|e| panic!("mask {mask:b}, {trips} trips, {order:?}: {e}"));
                }
            }
        }
        for mask in [0, 2, 5, 7] {
            let sizes = [("m", 136), ("n", 136), ("k", 296), ("mask", mask)];
            make(&module, &bump).check(&module.kernels[0], &module.mappings[0], &sizes);
        }
    }
}

const CLUSTERS: [(&str, &str); 5] = [
    (
        "gemm_nn",
        "BM = 128, BN = 128, BK = 32\nfor t: consumers 2\nkernel: persistent, cluster 2, raster band_m 2",
    ),
    ("gemm", "for t: pipeline 3, consumers 2\nkernel: persistent, cluster 2, epilogue deferred"),
    ("gemm", "BM = 64\nfor t: pipeline 2, consumers 1\nkernel: persistent, cluster 2, raster band_m 4"),
    ("gemm_tn", "for t: consumers 2\nkernel: persistent, cluster 2"),
    ("gemm_chain", "for t: pipeline 2, consumers 2\nkernel: persistent, cluster 2"),
];

#[test]
fn clusters_keep_the_protocol() {
    for (name, mapping) in CLUSTERS {
        let bump = Bump::new();
        let made = make(&remapped(name, mapping), &bump);
        assert!(made.schedule.rings.values().all(|r| r.cluster), "{name}: {:?}", made.schedule.remarks);
        made.sweep(name);
    }
}

#[test]
fn features_can_be_left_out() {
    let mapping =
        "BM = 64, BN = 64, BK = 32\nfor t: consumers 1\nkernel: persistent, cluster 2, epilogue deferred";
    let module = remapped("gemm", mapping);
    let plain = |f: Feature| {
        let bump = Bump::new();
        let made = make_without(&module, &[f], &bump);
        made.sweep("gemm");
        let s = &made.schedule;
        let flying = made.program.func.insts.keys().any(|i| s.in_flight[i] > 0);
        let shared = s.rings.values().any(|r| r.cluster);
        let has = [s.producer, shared, s.deferral.is_some(), flying];
        made.check(&module.kernels[0], &module.mappings[0], &[("m", 136), ("n", 136), ("k", 104)]);
        has
    };
    assert_eq!(plain(Feature::WarpSpecialization), [false, false, true, false]);
    assert_eq!(plain(Feature::Multicast), [true, false, true, true]);
    assert_eq!(plain(Feature::Deferral), [true, true, false, true]);
    assert_eq!(plain(Feature::InFlight), [true, true, true, false]);
}

#[test]
fn only_what_the_blocks_of_a_cluster_share_is_multicast() {
    let shared = |mapping: &str| {
        let bump = Bump::new();
        let made = make(&remapped("gemm", mapping), &bump);
        let insts = made.program.func.insts.iter().filter(|(i, _)| made.schedule.multicast[*i]);
        let place = |d: &Attr| if let Attr::Tma(t) = d { t.place } else { None };
        let buffers = insts.filter_map(|(_, d)| place(&d.attr));
        buffers.map(|p| made.program.buffers[p.buffer].name.clone()).collect::<Vec<_>>()
    };
    for kernel in ["persistent, cluster 2", "persistent, cluster 2, raster band_n 4", "cluster 2"] {
        assert_eq!(shared(&format!("for t: consumers 2\nkernel: {kernel}")), ["tb"], "{kernel}");
    }
    let odd = "BN = 24\nfor t: consumers 2\nkernel: cluster 2";
    assert!(shared(odd).is_empty(), "24 rows have no halves of whole swizzle patterns");
    assert!(shared("for t: consumers 2\nkernel: persistent").is_empty(), "no cluster");
}

#[test]
fn planted_errors_of_clusters_are_found() {
    let module = remapped(CLUSTERS[1].0, CLUSTERS[1].1);
    let bump = Bump::new();
    let without = |role: &str, op| {
        let mut made = make(&module, &bump);
        mutate(&mut made, role, |_| true, op);
        fails(&made).to_string()
    };
    assert!(without("consumer", Opcode::MbarArriveRemote).starts_with("deadlock"));
    let mut made = make(&module, &bump);
    for role in ["consumer", "producer"] {
        mutate(&mut made, role, |_| true, Opcode::ClusterWait);
    }
    let early = fails(&made).to_string();
    assert!(early.contains("ended"), "{early}");
    let mut made = make(&module, &bump);
    let alone = |a: &mut Attr| {
        if let Attr::Tma(t) = a {
            t.multicast = t.multicast.min(1);
        }
        false
    };
    mutate(&mut made, "producer", alone, Opcode::TmaLoad);
    fails(&made);
}

/// A copy of the roles with one kind of instruction changed.
fn mutate(made: &mut Made<'_>, role: &str, change: impl Fn(&mut Attr) -> bool, op: Opcode) {
    let found = made.scheduled.roles.iter_mut().find(|r| r.name == role);
    let role = found.unwrap_or_else(|| panic!("no {role}"));
    let insts: Vec<_> = role.func.insts.keys().filter(|&i| role.func.insts[i].op == op).collect();
    assert!(!insts.is_empty(), "{op:?} is not there");
    for inst in insts {
        if change(&mut role.func.insts[inst].attr) {
            role.func.insts[inst].op = Opcode::BarWarpSync;
        }
    }
}

fn fails(made: &Made<'_>) -> ProtocolError {
    let sizes = [("m", 500), ("n", 700), ("k", 64 * (2 * made.depth() + 1))];
    let found = ORDERS.iter().find_map(|&o| made.run(&sizes, 2, o).err());
    found.unwrap_or_else(|| panic!("a planted error was not found"))
}

#[test]
fn planted_errors_are_found() {
    let module = library("gemm");
    let bump = Bump::new();
    let change = |role: &str, op, f: &dyn Fn(&mut Attr) -> bool| {
        let mut made = make(&module, &bump);
        mutate(&mut made, role, f, op);
        fails(&made).to_string()
    };
    let gone = |_: &mut Attr| true;
    assert!(change("consumer", Opcode::MbarArrive, &gone).starts_with("deadlock"));
    let early = change("consumer", Opcode::MbarWait, &gone);
    assert!(early.starts_with("stage") || early.starts_with("barrier"), "{early}");
    let overrun = change("producer", Opcode::MbarWait, &gone);
    assert!(overrun.contains("overwritten"), "{overrun}");
    let unwaited = change("consumer", Opcode::WgmmaWait, &gone);
    assert!(unwaited.contains("overwritten while") || unwaited.contains("in flight"), "{unwaited}");
    let bytes = |a: &mut Attr| {
        if let Attr::Imm(n) = a {
            *n -= 16;
        }
        false
    };
    change("producer", Opcode::MbarExpectTx, &bytes);
}

#[test]
fn a_wrong_depth_is_found() {
    let module = library("gemm");
    let bump = Bump::new();
    let mut made = make(&module, &bump);
    for r in made.schedule.rings.keys().collect::<Vec<_>>() {
        made.schedule.rings[r].depth -= 1;
    }
    let graph = Graph::of(&mut made.program.func);
    let wrong = do_expand_roles(&made.program, &graph, &made.schedule, made.scheduled.shared.clone(), &SM90A);
    let wrong = wrong.unwrap_or_else(|e| panic!("{e}"));
    // The consumers of one depth beside the producer of another.
    let at = |s: &Scheduled<'_>, name: &str| s.roles.iter().position(|r| r.name == name);
    let (i, j) = (at(&wrong, "consumer"), at(&made.scheduled, "consumer"));
    let (Some(i), Some(j)) = (i, j) else { panic!("no consumers") };
    made.scheduled.roles[j] = wrong.roles[i].clone();
    fails(&made);
}
