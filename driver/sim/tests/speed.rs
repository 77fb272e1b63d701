//! How fast the simulator is with hazards on, by processor time of the one thread that it runs on, the best of three
//! runs: what else the machine does counts little. A core that is slower or faster than the one whose seconds are meant
//! shows in a loop of plain arithmetic and lookups, timed beside. The floors hold in the development profile too;
//! `cargo test -p warplift-sim --release --test speed -- --nocapture` prints the real numbers.

mod common;

use common::kernel::Kernel;
use common::{Problem, gemm};
use warplift_sim::Options;

/// Thread-instructions a second on one core.
const FLOOR: f64 = 20e6;
/// Steps a second of [`steps`] on the core that the numbers here are of.
const REFERENCE: f64 = 300e6;
/// Seconds of a warp-specialised GEMM of 256 x 256 x 256.
const GEMM_LIMIT: f64 = 3.0;

/// Processor time of this thread, in seconds.
fn processor_time() -> f64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes the structure that it is given, and nothing else.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut now) };
    assert_eq!(failed, 0);
    now.tv_sec as f64 + now.tv_nsec as f64 * 1e-9
}

/// The least processor time of three runs, and what the last one gave.
fn least<T>(mut run: impl FnMut() -> T) -> (f64, T) {
    let mut once = || {
        let start = processor_time();
        let result = run();
        (processor_time() - start, result)
    };
    let (first, second, (third, result)) = (once().0, once().0, once());
    (first.min(second).min(third), result)
}

/// A walk over a table of 64 KB, every place from what stands at the one before.
fn steps(count: u32) -> u64 {
    let mut table: Vec<u32> = (0..1 << 14).collect();
    let mut at = 1u32;
    for n in 0..count {
        let slot = &mut table[(at >> 7) as usize % (1 << 14)];
        *slot = slot.rotate_left(5) ^ n;
        at = at.wrapping_mul(0x9E37_79B1) ^ *slot;
    }
    u64::from(at)
}

/// How much faster than the reference this core was, the slower of before and after some work; and what that gave.
fn beside<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let before = core();
    let given = work();
    (before.min(core()), given)
}

/// How much faster than the reference this core is now.
fn core() -> f64 {
    let count = 20_000_000;
    let (seconds, _) = least(|| std::hint::black_box(steps(std::hint::black_box(count))));
    println!("core: {:.1} million steps a second", f64::from(count) / seconds / 1e6);
    f64::from(count) / seconds / REFERENCE
}

/// Thread-instructions a second of a body that 256 threads execute.
fn rate(name: &str, body: &str) -> f64 {
    let k = Kernel { name, body, block: 256, out_bytes: 1024, ..Kernel::default() };
    let (seconds, executed) = least(|| match k.run(&Options::default()) {
        Ok((report, _)) => report.thread_instructions,
        Err(e) => panic!("{e}"),
    });
    let rate = executed as f64 / seconds;
    println!("{name}: {:.1} million thread-instructions a second ({executed} in {seconds:.3} s)", rate / 1e6);
    rate
}

/// Each thread its own word.
#[test]
fn loads_and_stores_of_global_memory() {
    let body = "mul.wide.u32 %rd3, %r2, 4;\nadd.s64 %rd3, %rd3, %rd2;\nmov.u32 %r4, 0;\n\
        LOOP:\nst.global.u32 [%rd3], %r4;\nld.global.u32 %r6, [%rd3];\nadd.u32 %r4, %r6, 1;\n\
        setp.lt.u32 %p1, %r4, 4000;\n@%p1 bra LOOP;";
    let (core, rate) = beside(|| rate("two of five in global memory", body));
    assert!(rate > FLOOR * core, "{rate} on a core {core} times as fast as the reference");
}

#[test]
fn arithmetic_with_a_load_and_a_store_of_shared_memory() {
    let body = "shl.b32 %r3, %r2, 2;\nadd.u32 %r3, %r3, %r1;\nmov.u32 %r4, 0;\nmov.u32 %r5, 1;\nst.shared.u32 [%r3], %r2;\n\
        LOOP:\nld.shared.u32 %r6, [%r3];\nmad.lo.u32 %r5, %r5, %r6, %r4;\nxor.b32 %r7, %r5, %r6;\nshr.u32 %r7, %r7, 3;\n\
        cvt.rn.f32.u32 %f1, %r7;\nfma.rn.f32 %f2, %f1, %f1, %f1;\nst.shared.f32 [%r3], %f2;\n\
        add.u32 %r4, %r4, 1;\nsetp.lt.u32 %p1, %r4, 4000;\n@%p1 bra LOOP;";
    let (core, rate) = beside(|| rate("two of ten in shared memory", body));
    assert!(rate > FLOOR * core, "{rate} on a core {core} times as fast as the reference");
}

#[test]
fn a_gemm_of_256() {
    let p = Problem { m: 256, n: 256, k: 256, blocks: 2, cluster: 1 };
    let ptx = include_str!("ptx/gemm_ws.ptx");
    let run = || gemm(ptx, &p, &Options::default()).unwrap_or_else(|e| panic!("{e}"));
    let (core, (seconds, (report, wrong))) = beside(|| least(run));
    println!("GEMM: {seconds:.3} s, {} thread-instructions", report.thread_instructions);
    assert_eq!(wrong, 0);
    assert!(seconds * core < GEMM_LIMIT, "{seconds}");
}
