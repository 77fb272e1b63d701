//! Loads of epilogue warps that do not depend on the tile are hoisted and kept in registers. If the mapping allows it,
//! they run before other grids have ended. Otherwise they are loaded again, and a remark gives the reason.

use warplift::ir::target::SM90A;
use warplift::ir::tile::{Module, parse_file};
use warplift::{Compiled, Options, compile};
use warplift_golden::library::reference;
use warplift_golden::orders::{self, ORDERS};

/// Rows over their sums, times a row of weights and a row more.
const SCALED: &str = "kernel k(
    x: ptr<f16> align 16, w: ptr<f16> align 16, b: ptr<f16> align 16, y: ptr<f16> align 16, m: i32, n: i32 % 8 in 1..=4096
) {
    tunable BM = 1, BN = 512
    grid cdiv(m, BM)
    gx = view x : f16[m, n]
    gw = view w : f16[n]
    gb = view b : f16[n]
    gy = view y : f16[m, n]
    i = block_index
    zero = full 1.0 : f32[BM]
    sum = for t in 0..cdiv(n, BN) carry s = zero {
        yield s + reduce_sum(abs(cast(load gx[i*BM, t*BN] : f16[BM, BN], f32)), 1)
    }
    part = rcp(sum)
    for u in 0..cdiv(n, BN) {
        x2 = cast(load gx[i*BM, u*BN] : f16[BM, BN], f32) * expand_dims(part, 1)
        scale = broadcast(cast(load gw[u*BN] : f16[BN], f32)) : f32[BM, BN]
        shift = broadcast(cast(load gb[u*BN] : f16[BN], f32)) : f32[BM, BN]
        store gy[i*BM, u*BN], cast(fma(x2, scale, shift), f16)
    }
}";

const EPILOGUE_WARPS: &str = "BM = 1, BN = 512 kernel: persistent, warps 4, epilogue warps array x: staged";
const WHOLE: (&str, &str) = ("", "");

fn module(change: (&str, &str), mapping: &str) -> Module {
    assert!(SCALED.contains(change.0), "{}", change.0);
    let text = format!("{}\nmapping k {{ {mapping} }}", SCALED.replace(change.0, change.1));
    parse_file(&text, "held.tile").unwrap_or_else(|e| panic!("{e:?}\n{text}"))
}

fn compiled(module: &Module, without: &[&str]) -> Compiled {
    let disable = without.iter().map(|f| f.parse().expect("a feature")).collect();
    let options = Options { verify: true, disable, ..Options::default() };
    compile(&module.kernels[0], &module.mappings[0], &SM90A, &options).unwrap_or_else(|e| panic!("{e}"))
}

fn right(module: &Module, made: &Compiled, sizes: &[(i64, i64)]) {
    for &(m, n) in sizes {
        let problem = reference(&module.kernels[0], &module.mappings[0], &[("m", m), ("n", n)], 5);
        orders::right(&problem, made, &ORDERS, (2, 4e-3), &format!("{m} rows of {n}"));
    }
}

/// The epilogue warps' code.
fn epilogue(made: &Compiled) -> &str {
    let (_, behind) = made.ptx.split_once("$epilogue:").expect("epilogue warps");
    behind.split_once("$producer:").expect("a producer").0
}

/// Where the first, or the last, of these stands.
fn first(code: &str, of: &str) -> usize {
    code.find(of).unwrap_or_else(|| panic!("no {of}"))
}

fn last(code: &str, of: &str) -> usize {
    code.rfind(of).unwrap_or_else(|| panic!("no {of}"))
}

#[test]
fn what_all_tiles_load_is_loaded_before_the_first() {
    let module = module(WHOLE, EPILOGUE_WARPS);
    let made = compiled(&module, &[]);
    // Eight iterations, four halves of each array a thread.
    assert_eq!(made.explained.hoisted_registers, 8 * 2 * 2);
    let code = epilogue(&made);
    assert_eq!(code.matches("ld.global").count(), 8 * 2);
    assert!(last(code, "ld.global") < first(code, "mbarrier.try_wait"));
    // Rows for one tile, for many of each block; one iteration, some, all, the last one in part.
    right(&module, &made, &[(1, 4096), (2, 8), (9, 512), (11, 520), (7, 3000), (5, 4088), (5, 4096)]);
    let without = compiled(&module, &["hoist-loads"]);
    assert_eq!(without.explained.hoisted_registers, 0);
    assert!(first(epilogue(&without), "ld.global") > first(epilogue(&without), "mbarrier.try_wait"));
    right(&module, &without, &[(5, 3000), (5, 4096)]);
}

#[test]
fn what_is_held_may_be_read_early() {
    let before_wait = |made: &Compiled| -> Vec<String> {
        made.manifest.arguments.iter().filter(|a| a.before_wait).map(|a| a.name.clone()).collect()
    };
    let pdl = EPILOGUE_WARPS.replace("epilogue warps", "epilogue warps, pdl");
    let all = module(WHOLE, &format!("{pdl} array w: before_wait array b: before_wait"));
    let made = compiled(&all, &[]);
    assert_eq!(before_wait(&made), ["w", "b"]);
    assert!(last(epilogue(&made), "ld.global") < first(epilogue(&made), "griddepcontrol.wait"));
    assert_eq!(epilogue(&made).matches("griddepcontrol.wait").count(), 1);
    right(&all, &made, &[(5, 3000), (1, 8)]);
    // One that may not be, and all wait; one that is staged, and the others need not.
    let one = module(WHOLE, &format!("{pdl} array w: before_wait"));
    let made = compiled(&one, &[]);
    assert_eq!(before_wait(&made), [] as [&str; 0]);
    assert!(first(epilogue(&made), "ld.global") > first(epilogue(&made), "griddepcontrol.wait"));
    assert_eq!(
        made.explained.schedule.remarks,
        [
            "`w` waits for other grids: the epilogue role loads hoisted arrays before the wait only if all of them may be"
        ]
    );
    right(&one, &made, &[(5, 3000)]);
    let staged = module(WHOLE, &format!("{pdl} array w: before_wait array b: staged"));
    let made = compiled(&staged, &[]);
    assert_eq!((made.explained.hoisted_registers, before_wait(&made)), (16, vec!["w".to_owned()]));
    right(&staged, &made, &[(5, 3000)]);
}

#[test]
fn what_tiles_load_differently_is_not_held() {
    let by_rows = ("load gw[u*BN] : f16[BN]", "load gw[(i*8 + u)*BN] : f16[BN]");
    let unbounded = ("n: i32 % 8 in 1..=4096", "n: i32 % 8");
    let from_one = (
        "for u in 0..cdiv(n, BN) {\n        x2 = cast(load gx[i*BM, u*BN]",
        "for u in 1..1 + cdiv(n, BN) {\n        x2 = cast(load gx[i*BM, (u - 1)*BN]",
    );
    for (change, hoisted_registers) in [(by_rows, 16), (unbounded, 0), (from_one, 0)] {
        let made = compiled(&module(change, EPILOGUE_WARPS), &[]);
        assert_eq!(made.explained.hoisted_registers, hoisted_registers, "{}", change.1);
    }
}

/// A body stands there for each iteration: not where it is so long that all of them would be more than code should.
#[test]
fn long_bodies_hold_nothing() {
    let store = "store gy[i*BM, u*BN], cast(fma(x2, scale, shift), f16)";
    let work = |times: usize| {
        let steps: String = (0..times).map(|n| format!("r{} = fma(r{n}, scale, shift)\n", n + 1)).collect();
        format!("r0 = x2\n{steps}store gy[i*BM, u*BN], cast(r{times}, f16)")
    };
    let long = [(store, &*work(20)), (store, &work(200)), ("in 1..=4096", "in 1..=65536")];
    for (change, holds) in long.into_iter().zip([true, false, false]) {
        let made = compiled(&module(change, EPILOGUE_WARPS), &[]);
        let remarks = &made.explained.schedule.remarks;
        assert_eq!(made.explained.hoisted_registers > 0, holds, "{}: {remarks:?}", change.1);
        assert_eq!(remarks.iter().any(|r| r.contains("hold nothing")), !holds, "{remarks:?}");
    }
}

#[test]
fn what_does_not_fit_is_loaded_for_every_tile() {
    // 32 and 64 iterations: both arrays, one.
    for (most, hoisted_registers, left) in [(16384, 128, 0), (32768, 128, 1)] {
        let made = compiled(&module(("in 1..=4096", &format!("in 1..={most}")), EPILOGUE_WARPS), &[]);
        let remarks = &made.explained.schedule.remarks;
        let said = remarks.iter().filter(|r| r.contains("to hold it takes")).count();
        assert_eq!(
            (made.explained.hoisted_registers, said),
            (hoisted_registers, left),
            "{most}: {remarks:?}"
        );
        let [consumer, epilogue] = [0, 1].map(|role| &made.explained.registers[role]);
        assert!(
            consumer.budget >= consumer.needed
                && epilogue.budget >= epilogue.needed
                && epilogue.needed > hoisted_registers
        );
        assert_eq!(consumer.budget + epilogue.budget, 2 * 232, "{:?}", made.explained.registers);
    }
}

/// Rows times the greatest of a row of a product, and times a row of weights.
const PRODUCT: &str = "kernel k(
    a: ptr<f16> align 16, b: ptr<f16> align 16, x: ptr<f16> align 16, w: ptr<f16> align 16, y: ptr<f16> align 16,
    m: i32, n: i32 % 8 in 1..=512, k: i32 % 8
) {
    tunable BM = 64, BN = 64, BK = 64
    grid cdiv(m, BM)
    ga = view a : f16[m, k]
    gb = view b : f16[64, k]
    gx = view x : f16[m, n]
    gw = view w : f16[n]
    gy = view y : f16[m, n]
    i = block_index
    zero = full 0.0 : f32[BM, 64]
    acc = for t in 0..cdiv(k, BK) carry s = zero {
        ta = load ga[i*BM, t*BK] : f16[BM, BK]
        tb = load gb[0, t*BK] : f16[64, BK]
        p = mma s, ta, trans(tb)
        yield p
    }
    rows = reduce_max(acc, 1)
    for u in 0..cdiv(n, BN) {
        x2 = cast(load gx[i*BM, u*BN] : f16[BM, BN], f32) * expand_dims(rows, 1)
        scale = broadcast(cast(load gw[u*BN] : f16[BN], f32)) : f32[BM, BN]
        store gy[i*BM, u*BN], cast(x2 * scale, f16)
    }
}
mapping k {
    BM = 64, BN = 64, BK = 64
    for t: pipeline fit, producers 1, consumers 1
    kernel: persistent
    array x: staged
}";

/// Loads before the first tensor copy is waited for, and all of them.
fn global_loads(made: &Compiled) -> (usize, usize) {
    let code = made.ptx.split_once("$consumer:").map_or(made.ptx.as_str(), |c| c.1);
    let (before, _) = code.split_once("mbarrier.try_wait").expect("a wait");
    (before.matches("ld.global").count(), code.matches("ld.global").count())
}

#[test]
fn the_warps_that_compute_hold_it_where_a_kernel_has_no_epilogue_warps() {
    let rows = module(WHOLE, "BM = 1, BN = 512 kernel: persistent, warps 4 array x: staged");
    let made = compiled(&rows, &[]);
    // Eight iterations, one load of each array for each.
    assert_eq!(global_loads(&made), (8 * 2, 8 * 2));
    assert_eq!(global_loads(&compiled(&rows, &["hoist-loads"])), (0, 2));
    right(&rows, &made, &[(1, 4096), (2, 8), (9, 512), (11, 520), (5, 4088)]);
    let product = parse_file(PRODUCT, "product.tile").unwrap_or_else(|e| panic!("{e:?}"));
    let made = compiled(&product, &[]);
    let (before, all) = global_loads(&made);
    assert!(before == all && all >= 8, "{before} of {all}");
    assert_eq!(global_loads(&compiled(&product, &["hoist-loads"])).0, 0);
    for (m, n, k) in [(64, 512, 64), (200, 72, 136), (130, 8, 8)] {
        let sizes = [("m", m), ("n", n), ("k", k)];
        let problem = reference(&product.kernels[0], &product.mappings[0], &sizes, 5);
        orders::right(&problem, &made, &ORDERS, (2, 2e-2), &format!("{m} rows of {n}, depth {k}"));
    }
}
