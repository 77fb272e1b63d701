//! `stream_k`: programs share out the iterations of the tiles that fill no whole wave. The interpreter and the simulator give
//! the same as one block a tile does, for any number of programs, and counters end at zero.

use warplift::ir::manifest::Fact;
use warplift::ir::target::SM90A;
use warplift::ir::tile::{Kernel, parse_file};
use warplift::kernels::find;
use warplift::sim::Adversary;
use warplift::{Options, compile};
use warplift_golden::library::{compiled, remapped, with_mapping};
use warplift_golden::relaunch::relaunch;
use warplift_golden::shared_out::{EIGHT, SUMS, check};

const PRODUCT: &str =
    "BM = 64, BN = 64, BK = 32\nfor t: pipeline 3, producers 1, consumers 1, stream_k\nkernel: persistent";

fn check_library(
    name: &str,
    mapping: &str,
    size: &[(&str, i64)],
    orders: &[(u64, Adversary)],
    multiprocessors: u32,
) {
    let (kernel, mapping) = remapped(name, mapping);
    check(&kernel, &mapping, size, orders, multiprocessors);
}

#[test]
fn products_of_warpgroups_are_streamed() {
    // Waves and a rest, a rest alone, fewer tiles than programs, whole waves, fewer iterations than programs, none.
    for (m, n, k, programs) in [
        (200, 136, 328, 5),
        (200, 72, 200, 4),
        (72, 136, 328, 7),
        (136, 136, 104, 3),
        (72, 136, 40, 11),
        (72, 72, 0, 3),
        (0, 72, 40, 3),
    ] {
        check_library("gemm", PRODUCT, &[("m", m), ("n", n), ("k", k)], &EIGHT, programs);
    }
    let banded = format!("{PRODUCT}, raster band_m 2");
    check_library("gemm", &banded, &[("m", 200), ("n", 200), ("k", 328)], &EIGHT, 7);
}

#[test]
fn every_kind_of_product_is_streamed() {
    let size = [("m", 264), ("n", 136), ("k", 328)];
    let few = &EIGHT[..3];
    let two = "BM = 128, BN = 128, BK = 64\nfor t: consumers 2, wait 1, stream_k\nkernel: persistent, pdl";
    check_library("gemm", two, &size, few, 4);
    let warps = "BM = 64, BN = 64, BK = 32\nfor t: pipeline 3, stream_k\nkernel: persistent, warps 4, products mma_sync";
    check_library("gemm", warps, &size, few, 4);
    let copies = "BM = 64, BN = 64, BK = 32\nfor t: pipeline 3, producers 0, stream_k\nkernel: persistent, warps 4, products mma_sync";
    check_library("gemm_tt", copies, &size, few, 4);
    let threads = "BM = 128, BN = 64, BK = 32\nfor t: pipeline 3, producers 0, consumers 2, stream_k\nkernel: persistent";
    check_library("gemm", threads, &size, few, 4);
    check_library(
        "gemm_e4m3",
        "BM = 64, BN = 64, BK = 64\nfor t: consumers 1, stream_k\nkernel: persistent",
        &[("m", 136), ("n", 136), ("k", 656)],
        few,
        5,
    );
}

#[test]
fn epilogues_run_once() {
    let size = [("m", 136), ("n", 136), ("k", 264)];
    let one = "BM = 64, BN = 64, BK = 32\nfor t: consumers 1, stream_k\nkernel: persistent";
    for name in ["gemm_dual", "gemm_two_outputs", "gemm_bias_relu_residual", "gemm_f32out", "gemm_rowsum"] {
        check_library(name, one, &size, &EIGHT[..3], 4);
    }
}

#[test]
fn narrow_weights_are_streamed() {
    for (looped, whole) in [
        ("BN = 64, BM = 16, GROUP = 128\nfor t: pipeline 3, producers 1, consumers 1, stream_k", ""),
        (
            "BN = 128, BM = 16, GROUP = 128\nfor t: pipeline 4, producers 1, stream_k",
            ", warps 8, products mma_sync",
        ),
    ] {
        for arrays in ["array s: staged", "array w: packed, stream\narray s: staged"] {
            let mapping = format!("{looped}\n{arrays}\nkernel: persistent{whole}");
            check_library("a16w4", &mapping, &[("m", 13), ("n", 456), ("k", 1152)], &EIGHT[..3], 3);
        }
    }
}

#[test]
fn a_loop_without_products_is_streamed() {
    let kernel = parse_file(SUMS, "sums.tile").unwrap_or_else(|e| panic!("{e:?}")).kernels.remove(0);
    let (kernel, mapping) =
        with_mapping(&kernel, "BM = 4, BN = 128\nfor t: stream_k\nkernel: persistent, warps 4");
    check(&kernel, &mapping, &[("m", 26), ("n", 1300)], &EIGHT, 4);
}

/// Whole tiles are stored as without cut ones: by tensor copies, from buffers that both share.
#[test]
fn whole_tiles_are_stored_by_tensor_copies() {
    let large = "BM = 128, BN = 256, BK = 64\nfor t: consumers 2, stream_k\nkernel: persistent";
    let (kernel, streamed) = remapped("gemm", large);
    let (_, plain) = remapped("gemm", &large.replace(", stream_k", ""));
    let [streamed, plain] = [streamed, plain].map(|mapping| compiled(&kernel, &mapping));
    let plan = &streamed.explained.plan;
    assert!(plan.iter().any(|l| l.contains("store: staged, tensor copy")), "{plan:?}");
    // What those who arrive tell each other takes a few bytes.
    let more = streamed.manifest.dynamic_shared - plain.manifest.dynamic_shared;
    assert!(more <= 1024, "{more}");
}

/// Launches on one memory: each leaves the counters as the next one needs them.
#[test]
fn counters_end_at_zero() {
    let (kernel, mapping) = remapped("gemm", PRODUCT);
    relaunch(&compiled(&kernel, &mapping), (200, 136), &[5, 5, 5], |launch, workspace| {
        let (parts, counters) = workspace.split_at(workspace.len() - 256);
        // Two parts of 64 x 64 sums for each program.
        assert_eq!(parts.len(), 5 * 2 * 64 * 64 * 4);
        assert!(parts.iter().any(|&b| b != 0) && counters.iter().all(|&b| b == 0), "launch {launch}");
    });
}

fn edited(name: &str, edit: Option<(&str, &str)>) -> Kernel {
    let file = find(name).unwrap_or_else(|| panic!("no kernel {name}"));
    let text = edit.map_or(file.text.to_owned(), |(from, to)| file.text.replacen(from, to, 1));
    parse_file(&text, name).unwrap_or_else(|e| panic!("{e:?}\n{text}")).kernels.remove(0)
}

#[test]
fn what_cannot_be_streamed_is_refused() {
    let with = |words: &str| format!("for t: stream_k\nkernel: persistent{words}");
    for (name, mapping, edit, why) in [
        ("gemm", "for t: stream_k".to_owned(), None, "only a `persistent` kernel has programs"),
        ("gemm", with(", cluster 2"), None, "its blocks work on neighbours in step"),
        ("gemm", with(", blocks 2"), None, "hold a tile together"),
        ("gemm", with(", raster counter"), None, "a program gets its iterations before it starts"),
        ("gemm", with(", raster paired"), None, "gives each program whole tiles"),
        ("gemm", with(", pingpong 2"), None, "teams take whole tiles in turn"),
        ("gemm", with(", epilogue warps"), None, "only the last block of a tile"),
        ("gemm", with("").replace("stream_k", "stream_k, split_k 2"), None, "use one of the two"),
        ("gemm", with(""), Some(("0..cdiv(k, BK)", "0..cdiv(k, BK) - i")), "tiles may differ"),
        ("gemm", with(""), Some(("full 0.0", "full 1.0")), "`x` does not start at zero"),
    ] {
        let (kernel, mapping) = with_mapping(&edited(name, edit), &mapping);
        let error = compile(&kernel, &mapping, &SM90A, &Options::default());
        let message = error.map_or_else(|e| e.to_string(), |_| "it compiles".to_owned());
        assert!(message.contains(why), "{name} {mapping}: {message}");
    }
}

/// A kernel whose loop has so many iterations, under `stream_k`.
fn shared_out(trips: &str, before: &str) -> String {
    format!(
        "kernel sums(x: ptr<f32> align 16, y: ptr<f32> align 16, m: i32, n: i32 % 4) {{
            grid cdiv(m, 4)
            gx = view x : f32[m, n]
            gy = view y : f32[m, 128]
            i = block_index
            {before}
            acc = for t in 0..{trips} carry s = full 0.0 : f32[4, 128] {{
                yield s + load gx[i*4, t*128] : f32[4, 128]
            }}
            store gy[i*4, 0], acc
        }}
        mapping sums {{ for t: stream_k kernel: persistent, warps 4 }}"
    )
}

fn refused(text: &str) -> String {
    let mut module = parse_file(text, "k.tile").unwrap_or_else(|e| panic!("{e}"));
    let (kernel, mapping) = (module.kernels.remove(0), module.mappings.remove(0));
    let made = compile(&kernel, &mapping, &SM90A, &Options::default());
    made.err().map_or_else(String::new, |e| e.to_string())
}

/// Iterations are counted in 32 bits: the launch checks that they are few enough.
#[test]
fn the_launch_limits_the_iterations() {
    let text = shared_out("cdiv(n, 128)", "");
    let mut module = parse_file(&text, "k.tile").unwrap_or_else(|e| panic!("{e}"));
    let (kernel, mapping) = (module.kernels.remove(0), module.mappings.remove(0));
    let made = compile(&kernel, &mapping, &SM90A, &Options::default());
    let manifest = made.unwrap_or_else(|e| panic!("{e}")).manifest;
    let limits = manifest
        .facts
        .iter()
        .filter(|f| matches!(f, Fact::Limit { what, .. } if what.contains("iterations")));
    assert_eq!(limits.count(), 1, "{:?}", manifest.facts);
}

/// Bounds that share their parts are looked at once: 30 lines, each of which takes the one before twice.
#[test]
fn shared_bounds_take_no_longer() {
    let lines: Vec<String> = (1..30).map(|n| format!("a{n} = min(a{}, a{})", n - 1, n - 1)).collect();
    let text = shared_out("a29", &format!("a0 = cdiv(n, 128)\n{}", lines.join("\n")));
    let start = std::time::Instant::now();
    let why = refused(&text);
    assert!(start.elapsed().as_secs() < 5, "{why}");
}

#[test]
fn what_the_compiler_writes_is_refused_in_a_text() {
    let why = refused(&shared_out("cdiv(n, 128)", "z = @[trips] m + 1"));
    assert!(why.contains("`trips`") && why.contains("stream_k"), "{why}");
    let why = refused(&shared_out("cdiv(n, 128)", "").replace("full 0.0", "full -0.0"));
    assert!(why.contains("does not start at zero"), "{why}");
}

#[test]
fn iterations_are_known_at_launch() {
    let why = refused(&shared_out("n >> 7", ""));
    assert!(why.contains("stream_k") && why.contains("known at launch"), "{why}");
    assert_eq!(refused(&shared_out("max(n / 128 - 1, 0)", "")), "");
}
