//! How fast the simulator is with hazards on. The floors hold in the development profile on a slow
//! machine; `cargo test --release --test sim_speed -- --nocapture` prints the real numbers.

mod sim_common;

use sim_common::kernel::Kernel;
use sim_common::{Problem, gemm};
use std::time::Instant;
use warplift::sim::Options;

/// Loads and stores of global memory, each thread its own word.
fn global() -> f64 {
    let body = "mul.wide.u32 %rd3, %r2, 4;\nadd.s64 %rd3, %rd3, %rd2;\nmov.u32 %r4, 0;\n\
        LOOP:\nst.global.u32 [%rd3], %r4;\nld.global.u32 %r6, [%rd3];\nadd.u32 %r4, %r6, 1;\n\
        setp.lt.u32 %p1, %r4, 4000;\n@%p1 bra LOOP;";
    let k = Kernel { name: "global_speed", body, block: 256, out_bytes: 1024, ..Kernel::default() };
    let start = Instant::now();
    let (report, _) = k.run(&Options::default()).unwrap_or_else(|e| panic!("{e}"));
    report.thread_instructions as f64 / start.elapsed().as_secs_f64()
}

#[test]
fn accesses_of_global_memory_a_second() {
    let rate = global();
    println!("{:.1} million thread instructions a second, 2 of 5 in global memory", rate / 1e6);
    assert!(rate > 1e6, "{rate}");
}

/// Integer work with a load and a store of shared memory in each round.
fn mixed() -> f64 {
    let body = "shl.b32 %r3, %r2, 2;\nadd.u32 %r3, %r3, %r1;\nmov.u32 %r4, 0;\nmov.u32 %r5, 1;\nst.shared.u32 [%r3], %r2;\n\
        LOOP:\nld.shared.u32 %r6, [%r3];\nmad.lo.u32 %r5, %r5, %r6, %r4;\nxor.b32 %r7, %r5, %r6;\nshr.u32 %r7, %r7, 3;\n\
        cvt.rn.f32.u32 %f1, %r7;\nfma.rn.f32 %f2, %f1, %f1, %f1;\nst.shared.f32 [%r3], %f2;\n\
        add.u32 %r4, %r4, 1;\nsetp.lt.u32 %p1, %r4, 4000;\n@%p1 bra LOOP;";
    let k = Kernel { name: "speed", body, block: 256, ..Kernel::default() };
    let start = Instant::now();
    let (report, _) = k.run(&Options::default()).unwrap_or_else(|e| panic!("{e}"));
    report.thread_instructions as f64 / start.elapsed().as_secs_f64()
}

#[test]
fn instructions_a_second() {
    let rate = mixed();
    println!("{:.1} million thread instructions a second", rate / 1e6);
    assert!(rate > 2e6, "{rate}");
}

#[test]
fn a_gemm_of_256() {
    let p = Problem { m: 256, n: 256, k: 256, blocks: 2, cluster: 1 };
    let start = Instant::now();
    let (report, wrong) =
        gemm(include_str!("ptx/gemm_ws.ptx"), &p, &Options::default()).unwrap_or_else(|e| panic!("{e}"));
    let seconds = start.elapsed().as_secs_f64();
    println!("{seconds:.3} s, {} thread instructions", report.thread_instructions);
    assert_eq!(wrong, 0);
    assert!(seconds < 30.0, "{seconds}");
}
