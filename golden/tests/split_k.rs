//! Loops whose iterations are shared out among blocks: the interpreter and the simulator give the same as one block does,
//! in any order of blocks, and leave the counters at zero.

use warplift::ir::target::SM90A;
use warplift::ir::tile::{Kernel, Mapping, Op, parse_file};
use warplift::kernels::find;
use warplift::sim::Adversary;
use warplift::{Options, compile};
use warplift_golden::library::{compiled, in_rules_form, load, reference, remapped, with_mapping};
use warplift_golden::orders::{FEW_ORDERS, right};
use warplift_golden::relaunch::relaunch;
use warplift_golden::shared_out::{self, EIGHT, SUMS};

fn check(kernel: &Kernel, mapping: &Mapping, size: &[(&str, i64)], orders: &[(u64, Adversary)]) {
    shared_out::check(kernel, mapping, size, orders, 2);
}

fn check_library(name: &str, mapping: &str, size: &[(&str, i64)], orders: &[(u64, Adversary)]) {
    let (kernel, mapping) = remapped(name, mapping);
    check(&kernel, &mapping, size, orders);
}

#[test]
fn products_of_warpgroups_are_shared_out() {
    let one = "BM = 64, BN = 64, BK = 32\nfor t: pipeline 3, producers 1, consumers 1, split_k 3";
    // Fewer iterations than slices, a number that does not divide, none.
    for k in [8, 40, 328, 0] {
        check_library("gemm", one, &[("m", 72), ("n", 136), ("k", k)], &EIGHT);
    }
    let persistent = "BM = 64, BN = 64, BK = 32\nfor t: pipeline 3, consumers 1, split_k 4\nkernel: persistent, raster band_m 2";
    check_library("gemm", persistent, &[("m", 136), ("n", 136), ("k", 328)], &EIGHT);
}

#[test]
fn every_kind_of_product_is_shared_out() {
    let size = [("m", 136), ("n", 136), ("k", 328)];
    let few = &EIGHT[..3];
    let two = "BM = 128, BN = 128, BK = 64\nfor t: consumers 2, wait 1, split_k 2";
    check_library("gemm", two, &size, few);
    let warps = "BM = 64, BN = 64, BK = 32\nfor t: pipeline 3, split_k 2\nkernel: warps 4, products mma_sync";
    check_library("gemm", warps, &size, few);
    let copies = "BM = 64, BN = 64, BK = 32\nfor t: pipeline 3, producers 0, split_k 2\nkernel: persistent, warps 4, products mma_sync";
    check_library("gemm_tt", copies, &size, few);
    let cluster = "BM = 64, BN = 64, BK = 32\nfor t: pipeline 3, consumers 1, split_k 3\nkernel: cluster 2";
    check_library("gemm", cluster, &size, few);
    let clusters = "BM = 64, BN = 64, BK = 32\nfor t: pipeline 3, consumers 1, split_k 2\nkernel: persistent, cluster 2, pdl";
    check_library("gemm", clusters, &size, few);
    check_library(
        "gemm_e4m3",
        "BM = 64, BN = 64, BK = 64\nfor t: consumers 1, split_k 3",
        &[("m", 72), ("n", 136), ("k", 656)],
        few,
    );
}

/// Slices take the third dimension of a launch: the last two of the grid become one, of which indices are parts.
#[test]
fn a_grid_of_three_dimensions_has_room_for_slices() {
    let size = [("batch", 3), ("m", 136), ("n", 72), ("k", 264)];
    let one = "BM = 64, BN = 64, BK = 32\nfor t: consumers 1";
    for more in
        [", split_k 3", ", split_k 3\nkernel: persistent, raster band_m 2", ", stream_k\nkernel: persistent"]
    {
        check_library("gemm_batched", &format!("{one}{more}"), &size, &EIGHT[..3]);
    }
}

#[test]
fn epilogues_run_once() {
    let size = [("m", 136), ("n", 136), ("k", 264)];
    let one = "BM = 64, BN = 64, BK = 32\nfor t: consumers 1, split_k 3";
    for name in ["gemm_dual", "gemm_two_outputs", "gemm_bias_relu_residual", "gemm_f32out", "gemm_rowsum"] {
        check_library(name, one, &size, &EIGHT[..3]);
    }
    // More parts than are added in the text.
    check_library(
        "gemm",
        "BM = 64, BN = 64, BK = 16\nfor t: consumers 1, split_k 11",
        &[("m", 64), ("n", 64), ("k", 200)],
        &EIGHT[..3],
    );
}

#[test]
fn narrow_weights_are_shared_out() {
    let mapping = "BN = 64, BM = 16, GROUP = 128\nfor t: pipeline 3, producers 1, consumers 1, split_k 3\narray s: staged";
    check_library("a16w4", mapping, &[("m", 13), ("n", 136), ("k", 1152)], &EIGHT[..3]);
    // As they are chosen: warps beside a producer, several blocks on a multiprocessor, more slices than are added in the
    // text.
    let arrays = "array w: packed, stream\narray s: staged";
    for (looped, whole) in [
        (
            "BN = 128, BM = 16, GROUP = 128\nfor t: pipeline 4, producers 1, split_k 2",
            "kernel: warps 8, products mma_sync",
        ),
        ("BN = 128, BM = 8, GROUP = 128\nfor t: pipeline 4, producers 1, consumers 2, split_k 11", ""),
    ] {
        let mapping = format!("{looped}\n{arrays}\n{whole}");
        check_library("a16w4", &mapping, &[("m", 13), ("n", 136), ("k", 1152)], &EIGHT[..3]);
    }
    let (_, own) = load("a16w4");
    let own = own.to_string().replace("for t: ", "for t: split_k 4, ");
    let body =
        own.split_once('{').and_then(|(_, rest)| rest.rsplit_once('}')).map(|(body, _)| body.to_owned());
    check_library("a16w4", &body.unwrap_or_default(), &[("m", 13), ("n", 456), ("k", 1152)], &EIGHT[..3]);
}

/// Seven warpgroups leave a thread 64 registers: fewer parts wait for memory together, in the text and in a loop.
#[test]
fn parts_take_no_more_registers_than_there_are() {
    let (kernel, own) = load("a16w4");
    for slices in [8, 19] {
        let mut mapping = own.clone();
        mapping.loops[0].1.split_k = Some(slices);
        let made = compiled(&kernel, &mapping);
        assert!(made.explained.registers.iter().all(|r| r.needed <= 64), "{:?}", made.explained.registers);
    }
}

#[test]
fn a_loop_without_products_is_shared_out() {
    let kernel = parse_file(SUMS, "sums.tile").unwrap_or_else(|e| panic!("{e:?}")).kernels.remove(0);
    let (kernel, mapping) = with_mapping(&kernel, "BM = 4, BN = 128\nfor t: split_k 3\nkernel: warps 4");
    check(&kernel, &mapping, &[("m", 10), ("n", 1300)], &EIGHT);
}

/// Two launches on one memory: the first leaves the counters as the second needs them.
#[test]
fn counters_end_at_zero() {
    let mapping = "BM = 64, BN = 64, BK = 32\nfor t: consumers 1, split_k 3\nkernel: persistent";
    let (kernel, mapping) = remapped("gemm", mapping);
    relaunch(&compiled(&kernel, &mapping), (72, 136), &[2, 2], |launch, workspace| {
        let (parts, counters) = workspace.split_at(workspace.len() - 256);
        // Two by three tiles, three parts of 64 x 64 sums each.
        assert_eq!(parts.len(), 6 * 3 * 64 * 64 * 4);
        assert!(parts.iter().any(|&b| b != 0) && counters.iter().all(|&b| b == 0), "launch {launch}");
    });
}

#[test]
fn what_cannot_be_shared_out_is_refused() {
    let two = "for t: split_k 2";
    let (start, next) = ("full 0.0", "y = mma x, ta, trans(tb)");
    for (name, mapping, edit, why) in [
        ("gemm", "for t: split_k 1", None, "2 to 256 are possible"),
        ("gemm", "for t: split_k 2\nkernel: persistent, pingpong 2", None, "teams take whole tiles in turn"),
        (
            "gemm",
            "for t: split_k 2\nkernel: persistent, epilogue warps",
            None,
            "only the last block of a tile",
        ),
        ("gemm", two, Some((start, "full 1.0")), "`x` does not start at zero"),
        ("gemm", two, Some((next, "y = 2.0 * mma(x, ta, trans(tb))")), "it does more than add to `x`"),
        ("gemm", two, Some((next, "y = x + mma(x, ta, trans(tb))")), "it does more than add to `x`"),
    ] {
        let file = find(name).unwrap_or_else(|| panic!("no kernel {name}"));
        let text = edit.map_or(file.text.to_owned(), |(from, to)| file.text.replacen(from, to, 1));
        let kernel = parse_file(&text, name).unwrap_or_else(|e| panic!("{e:?}\n{text}")).kernels.remove(0);
        let (kernel, mapping) = with_mapping(&kernel, mapping);
        let error = compile(&kernel, &mapping, &SM90A, &Options::default());
        let message = error.map_or_else(|e| e.to_string(), |_| "it compiles".to_owned());
        assert!(message.contains(why), "{name} {mapping}: {message}");
    }
}

#[test]
fn what_is_read_behind_the_loop_is_read_after_its_stores() {
    let text = "kernel told(x: ptr<f32> align 16, y: ptr<f32> align 16, z: ptr<f32> align 16, n: i32 % 4) {
            grid 1
            gx = view x : f32[4, n]
            gy = view y : f32[4, 128]
            gz = view z : f32[1]
            zero = full 0.0 : f32[4, 128]
            acc = for t in 0..cdiv(n, 128) carry s = zero { yield s + load gx[0, t*128] : f32[4, 128] }
            store gy[0, 0], acc
            first = load gy[0, 0] : f32
            store gz[0], full first : f32[1]
        }";
    let kernel = parse_file(text, "told.tile").unwrap_or_else(|e| panic!("{e:?}")).kernels.remove(0);
    let (kernel, mapping) = with_mapping(&kernel, "for t: split_k 3\nkernel: warps 4");
    check(&kernel, &mapping, &[("n", 1300)], &EIGHT);
}

#[test]
fn a_sum_of_sums_is_looked_through_once() {
    let chain: String = (1..40).map(|n| format!("x{n} = x{0} + x{0}\n", n - 1)).collect();
    let text = format!(
        "kernel sums(x: ptr<f32> align 16, y: ptr<f32> align 16, n: i32 % 4) {{
            grid 1
            gx = view x : f32[4, n]
            gy = view y : f32[4, 128]
            zero = full 0.0 : f32[4, 128]
            acc = for t in 0..cdiv(n, 128) carry s = zero {{
                x0 = load gx[0, t*128] : f32[4, 128]
                {chain}
                yield x39 + s
            }}
            store gy[0, 0], acc
        }}"
    );
    let kernel = parse_file(&text, "sums.tile").unwrap_or_else(|e| panic!("{e:?}")).kernels.remove(0);
    let (kernel, mapping) = with_mapping(&kernel, "for t: split_k 2\nkernel: warps 4");
    let mapped = in_rules_form(&kernel, &mapping).unwrap_or_else(|e| panic!("{e}"));
    assert!(mapped.insts.values().any(|d| d.op == Op::Arrive), "{mapped}");
}

/// An arrival does not wait for tensor copies: what stands before it is stored by threads, what stands behind it need not be.
#[test]
fn results_before_an_arrival_are_stored_by_threads() {
    let text =
        "kernel both(a: ptr<f16> align 16, b: ptr<f16> align 16, c: ptr<f16> align 16, d: ptr<f16> align 16,
            m: i32 % 64, k: i32 % 8) {
            grid cdiv(m, 64)
            ga = view a : f16[m, k]
            gb = view b : f16[64, k]
            gc = view c : f16[m, 64]
            gd = view d : f16[64, 64]
            counter = workspace 1 : u32
            gn = view counter : u32[1]
            i = block_index
            zero = full 0.0 : f32[64, 64]
            acc = for t in 0..cdiv(k, 64) carry s = zero {
                ta = load ga[i*64, t*64] : f16[64, 64]
                tb = load gb[0, t*64] : f16[64, 64]
                yield mma s, ta, trans(tb)
            }
            store gc[i*64, 0], cast(acc, f16)
            last = arrive gn[0], cdiv(m, 64)
            if last { store gd[0, 0], cast(acc - acc, f16) }
        }";
    let kernel = parse_file(text, "both.tile").unwrap_or_else(|e| panic!("{e:?}")).kernels.remove(0);
    let (kernel, mapping) = with_mapping(&kernel, "for t: pipeline 3, producers 1, consumers 1");
    let made = compiled(&kernel, &mapping);
    let plan = &made.explained.plan;
    assert!(plan.iter().any(|l| l.contains("the `arrive` behind it")), "{plan:?}");
    assert!(plan.iter().any(|l| l.contains("store: staged, tensor copy")), "{plan:?}");
    let problem = reference(&kernel, &mapping, &[("m", 192), ("k", 200)], 3);
    right(&problem, &made, &FEW_ORDERS, (2, 2e-2), "both");
}
