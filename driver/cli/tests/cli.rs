//! The binary, as a user meets it: outputs, messages, exit status.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Exit status, standard output, standard error.
fn warplift(args: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_warplift")).args(args).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn file(folder: &tempfile::TempDir, name: &str, text: &str) -> String {
    let path: PathBuf = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

const GEMM: &str = include_str!("../../kernels/gemm.tile");

/// Compiling `gemm` with one piece of its text replaced: status and messages.
fn gemm_with(from: &str, to: &str) -> (i32, String) {
    let folder = folder();
    let text = GEMM.replace(from, to);
    assert_ne!(text, GEMM, "`{from}` is not in the text");
    let path = file(&folder, "bad.tile", &text);
    let (status, _, errors) = warplift(&["compile", &path]);
    (status, errors)
}

#[test]
fn compiling_writes_ptx_to_standard_output() {
    let (status, ptx, errors) = warplift(&["compile", "gemm", "--verify"]);
    assert_eq!((status, errors.as_str()), (0, ""));
    assert!(ptx.contains(".entry gemm") && ptx.contains("wgmma.mma_async"), "{ptx}");
}

#[test]
fn outputs_dumps_and_times_go_where_they_are_asked_to() {
    let folder = folder();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (ptx, manifest) = (path("o.ptx"), path("o.json"));
    let args = [
        "compile",
        "axpy",
        "-o",
        &ptx,
        "--manifest",
        &manifest,
        "--dump",
        "teams",
        "--timings",
        "-D",
        "B=2048",
    ];
    let (status, output, errors) = warplift(&args);
    assert_eq!((status, output.as_str()), (0, ""), "{errors}");
    assert!(
        errors.contains("after: \"teams\"") && errors.contains("f32[2048]") && errors.contains("emit"),
        "{errors}"
    );
    assert!(std::fs::read_to_string(ptx).unwrap().contains(".target sm_90a"));
    let json: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(manifest).unwrap()).unwrap();
    assert_eq!(json["kernel"], "axpy");
}

#[test]
fn what_came_before_a_refusal_is_shown() {
    let words =
        "mapping gemm_dual { BM = 128, BN = 240, BK = 64 for t: pipeline fit, producers 1, consumers 2 }";
    let (status, output, errors) = warplift(&["compile", "gemm_dual", "--mapping", words, "--dump", "lower"]);
    assert_eq!((status, output.as_str()), (2, ""), "{errors}");
    assert!(errors.contains("after: \"lower\"") && errors.contains("registers"), "{errors}");
}

#[test]
fn a_compile_goes_on_from_the_state_after_any_pass() {
    let folder = folder();
    let (_, ptx, _) = warplift(&["compile", "gemm"]);
    let states = folder.path().join("states");
    let (status, again, errors) = warplift(&["compile", "gemm", "--dump-dir", states.to_str().unwrap()]);
    assert!(status == 0 && again == ptx, "{errors}");
    assert!(std::fs::read_dir(&states).unwrap().count() > 20);
    let (status, state, errors) = warplift(&["compile", "gemm", "--stop-after", "lower"]);
    assert_eq!(status, 0, "{errors}");
    let mut from_folder = std::fs::read_dir(&states).unwrap().map(|f| f.unwrap().path());
    let lowered = from_folder.find(|p| p.to_string_lossy().ends_with("-lower.txt")).unwrap();
    assert!(std::fs::read_to_string(&lowered).unwrap() == state, "two states after `lower`");
    let from = |pass| warplift(&["compile", lowered.to_str().unwrap(), "--start-after", pass]);
    assert!(from("lower").1 == ptx);
    let (status, _, errors) = from("plan");
    assert!(status == 2 && errors.contains("after `lower`, not after `plan`"), "{errors}");
}

#[test]
fn the_kernel_that_packs_an_array_is_text() {
    let (status, text, _) = warplift(&["compile", "a16w4", "--packing", "w"]);
    assert!(status == 0 && text.contains("kernel pack(") && text.contains("448 x 128"), "{text}");
    let folder = folder();
    let path = file(&folder, "pack.tile", &text);
    let (status, ptx, error) = warplift(&["compile", &path]);
    assert!(status == 0 && ptx.contains(".entry pack("), "{error}");
    let (status, _, error) = warplift(&["compile", "a16w4", "--packing", "x"]);
    assert!(status == 2 && error.contains("no argument `x`"), "{error}");
}

#[test]
fn a_mapping_is_proposed_where_there_is_none() {
    let folder = folder();
    let text = GEMM.split("mapping").next().unwrap();
    let path = file(&folder, "own.tile", text);
    let (status, _, errors) = warplift(&["compile", &path]);
    assert_eq!(status, 0, "{errors}");
    assert!(errors.contains("proposed mappings compile") && errors.contains("BN = 256"), "{errors}");
}

#[test]
fn syntax_errors_show_file_line_column_and_a_caret() {
    let (status, errors) = gemm_with("y = mma x", "y = = mma x");
    assert_eq!(status, 2);
    let lines: Vec<&str> = errors.lines().collect();
    assert!(lines[0].contains("bad.tile:14:13: expected"), "{errors}");
    assert!(lines[1].contains("14 |         y = = mma") && lines[2].ends_with('^'), "{errors}");
}

#[test]
fn type_and_name_errors_show_their_line() {
    for (from, to, message) in [
        ("mma x, ta, trans(tb)", "mma x, ta, tb", "mma"),
        ("mma x, ta", "mma z, ta", "unknown name `z`"),
        ("BN = 256, BK = 64\n    for", "BQ = 256, BK = 64\n    for", "no tunable `BQ`"),
        ("for t: pipeline", "for u: pipeline", "no loop `u`"),
    ] {
        let (status, errors) = gemm_with(from, to);
        assert_eq!(status, 2, "{errors}");
        assert!(errors.contains(message) && errors.contains("bad.tile:") && errors.contains('^'), "{errors}");
    }
}

#[test]
fn impossible_mappings_are_refused_with_limit_and_number() {
    for (define, limit) in [("BK=1024", "232448"), ("BM=512", "registers"), ("BN=2048", "")] {
        let (status, _, errors) = warplift(&["compile", "gemm", "-D", define]);
        assert_eq!(status, 2, "{define}");
        assert!(errors.contains(limit) && errors.chars().any(|c| c.is_ascii_digit()), "{define}: {errors}");
    }
}

#[test]
fn broken_facts_are_refused_by_name() {
    let (status, output, errors) = warplift(&["run", "gemm", "--size", "128x129x128"]);
    assert_eq!(status, 2, "{output}");
    assert!(errors.contains("`n` = 129 must be a multiple of 8"), "{errors}");
    assert!(errors.contains("`gemm_any` computes the same and takes these sizes"), "{errors}");
    assert!(
        output.contains("mapping from gemm.tile") && output.contains("swizzle 128 by tensor copies"),
        "{output}"
    );
}

#[test]
fn artifacts_carry_all_that_a_run_needs() {
    let folder = folder();
    let at = folder.path().to_str().unwrap();
    let (status, output, errors) = warplift(&["compile", "row_sum", "--save", at, "--as", "sums"]);
    assert_eq!(status, 0, "{errors}");
    assert!(output.starts_with("sums: "), "{output}");
    assert!(["tile", "ptx", "json"].iter().all(|e| Path::new(at).join(format!("sums.{e}")).exists()));
    let (status, output, errors) = warplift(&["check", "--artifacts", at, "--device", "sim", "--skip-large"]);
    assert!(status == 0 && output.contains("ok, error"), "{output}{errors}");
    // Each is checked in a process of its own, which meets the cases of all.
    assert_eq!(warplift(&["compile", "axpy", "--save", at, "--as", "other"]).0, 0);
    let cases = folder.path().join("cases.txt");
    std::fs::write(&cases, "sums 3x8\nother n=100\n").unwrap();
    let sizes = cases.to_str().unwrap();
    let (status, output, errors) =
        warplift(&["check", "--artifacts", at, "--device", "sim", "--sizes", sizes]);
    assert!(status == 0 && output.matches("ok, error").count() == 2, "{output}{errors}");
    let (status, _, errors) = warplift(&["run", "missing", "--artifacts", at]);
    assert!(status == 2 && errors.contains("artifact `missing`"), "{errors}");
    std::fs::remove_file(folder.path().join("sums.tile")).unwrap();
    let (status, _, errors) = warplift(&["run", "sums", "--artifacts", at]);
    assert!(status == 2 && errors.contains("lacks its text, sums.tile"), "{errors}");
}

#[test]
fn mistakes_in_the_command_line_are_status_2() {
    for (args, message) in [
        (&["compile", "nothing"][..], "no kernel `nothing`; the library has a16e4m3"),
        (&["compile", "gemmm"], "no kernel `gemmm`; did you mean `gemm`?"),
        (&["compile", "gemm", "-D", "BM"], "expected NAME=NUMBER"),
        (&["compile", "gemm", "--dump", "nowhere"], "no pass `nowhere`: there are"),
        (&["compile", "missing.tile"], "reading missing.tile"),
        (&["run", "gemm", "--size", "1x2"], "sizes m x n x k"),
        (&["frobnicate"], "unrecognized subcommand"),
        (&["toolchain", "where", "--ptxas", "/no/ptxas"], "--ptxas names /no/ptxas"),
    ] {
        let (status, _, errors) = warplift(args);
        assert_eq!(status, 2, "{args:?}");
        assert!(errors.contains(message), "{args:?}: {errors}");
    }
    assert_eq!(warplift(&["--help"]).0, 0);
}

#[test]
fn kernels_are_listed_with_what_they_do() {
    let (status, output, _) = warplift(&["kernels"]);
    assert!(status == 0 && output.lines().count() >= 14, "{output}");
    assert!(output.contains("axpy                     y = alpha x + y"), "{output}");
}

#[test]
fn explain_tells_what_was_decided() {
    let (status, output, errors) = warplift(&["explain", "gemm"]);
    assert_eq!(status, 0, "{errors}");
    for part in [
        "mapping gemm {",
        "swizzle 128",
        "ring0: ta, tb depth 4",
        "shared memory:",
        "consumer:",
        "compiled in",
        "swizzle 128 (4 times)\nsearch\n  ",
        "1 plan built\n",
        "1 wave of 1 block on",
        "  tensor: ",
    ] {
        assert!(output.contains(part), "{part}: {output}");
    }
    let (_, run, _) = warplift(&["run", "axpy", "--device", "sim"]);
    assert!(run.contains("load: plain, 1 element\n") && !run.contains("made"), "{run}");
}

#[test]
fn the_simulator_runs_and_checks() {
    let (status, output, errors) = warplift(&["run", "gemm", "--device", "sim", "--size", "136x264x328"]);
    assert_eq!(status, 0, "{errors}");
    assert_eq!(output.matches("correct:").count(), 2, "{output}");
    let folder = folder();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (ptx, manifest) = (path("o.ptx"), path("o.json"));
    assert_eq!(warplift(&["compile", "gemm", "-o", &ptx, "--manifest", &manifest]).0, 0);
    let sim = |size: &str| warplift(&["sim", &ptx, "--manifest", &manifest, "--size", size, "--seeds", "1"]);
    let (status, output, errors) = sim("129x8x72");
    assert_eq!((status, output.matches("correct:").count()), (0, 10), "{output}{errors}");
    assert_eq!(sim("129x9x72").0, 2);
    // Without proxy fences the copy engine may read what was not written yet.
    let text = std::fs::read_to_string(&ptx).unwrap();
    let broken = text.replace("fence.proxy.async", "// fence.proxy.async");
    std::fs::write(&ptx, broken).unwrap();
    let (status, output, errors) = sim("129x8x72");
    assert_eq!(status, 1, "{output}{errors}");
}

#[test]
fn layouts_are_shown() {
    let folder = folder();
    let svg = folder.path().join("l.svg");
    let (status, output, errors) =
        warplift(&["layout", "wgmma.acc m64n32 f32", "--svg", svg.to_str().unwrap()]);
    assert_eq!(status, 0, "{errors}");
    assert!(output.lines().count() > 4 && std::fs::read_to_string(svg).unwrap().contains("<svg"), "{output}");
    let (status, _, errors) = warplift(&["layout", "nonsense("]);
    assert!(status == 2 && errors.contains("nonsense"), "{errors}");
}

#[test]
fn hazards_are_denied_or_told() {
    let folder = folder();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (ptx, manifest) = (path("o.ptx"), path("o.json"));
    let small = ["-D", "BN=64", "-D", "BK=32"];
    let args = [&["compile", "gemm", "-o", &ptx, "--manifest", &manifest][..], &small].concat();
    assert_eq!(warplift(&args).0, 0);
    let text = std::fs::read_to_string(&ptx).unwrap();
    let broken = file(&folder, "broken.ptx", &text.replace("fence.proxy.async.shared::cta;", ""));
    let sim = |hazards: &str| {
        let place = ["--manifest", &manifest, "--size", "128x64x64", "--seeds", "0", "--hazards", hazards];
        warplift(&[&["sim", &broken][..], &place].concat())
    };
    let (status, _, errors) = sim("deny");
    assert!(status == 1 && errors.contains("MissingProxyFence"), "{status} {errors}");
    let (status, output, errors) = sim("warn");
    assert_eq!((status, errors.as_str()), (0, ""), "the result is right all the same");
    assert!(output.contains("hazard: MissingProxyFence"), "{output}");
    assert_eq!(sim("perhaps").0, 2);
}

#[test]
fn the_mutation_proof_is_a_command() {
    let (status, output, errors) = warplift(&["mutate", "row_max", "row_sum"]);
    assert_eq!((status, errors.as_str()), (0, ""), "{output}");
    assert!(output.contains("all: ") && output.contains("caught"), "{output}");
    let (status, _, errors) = warplift(&["mutate", "nothing"]);
    assert!(status == 2 && errors.contains("does not cover"), "{errors}");
}

#[test]
fn features_are_left_out_by_name() {
    let full = warplift(&["compile", "gemm"]).1;
    let (status, plain, _) =
        warplift(&["compile", "gemm", "--disable", "deferral,modulo", "--disable", "wgmma-pipelining"]);
    assert!(status == 0 && plain != full && plain.contains("wgmma"), "{plain}");
    let (status, _, errors) = warplift(&["compile", "gemm", "--disable", "frob"]);
    assert!(status == 2 && errors.contains("no feature `frob`: there are"), "{errors}");
    let (status, output, errors) =
        warplift(&["sim", "axpy", "--disable", "modulo", "--size", "n=1000", "--seeds", "1"]);
    assert!(status == 0 && output.contains("n=1000"), "{output}{errors}");
    let (status, _, errors) = warplift(&["sim", "axpy.ptx"]);
    assert!(status == 2 && errors.contains("--manifest"), "{errors}");
}

#[test]
fn forms_without_features_are_saved_for_the_ablation() {
    let folder = folder();
    let path = folder.path().to_str().unwrap();
    let (status, output, errors) =
        warplift(&["compile", "gemm", "--ablate", "--save", path, "--as", "probe"]);
    assert_eq!(status, 0, "{errors}");
    assert!(output.contains("probe: probe-without-deferral\n"), "{output}");
    assert!(output.contains("probe: the same without modulo\n"), "{output}");
    for name in ["probe.ptx", "probe.forms", "probe-without-deferral.json", "probe-without-deferral.tile"] {
        assert!(folder.path().join(name).exists(), "{name}");
    }
    let (status, _, errors) = warplift(&["run", "probe", "--artifacts", path, "--disable", "modulo"]);
    assert!(status == 2 && errors.contains("cannot be without `modulo`"), "{errors}");
}

#[test]
fn a_reader_that_leaves_early_is_no_panic() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_warplift"))
        .args(["explain", "gemm"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(!output.status.success(), "it has not noticed");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn mistakes_come_before_work() {
    let (none, saved) = (folder(), folder());
    let saved = saved.path().to_str().unwrap();
    assert_eq!(warplift(&["compile", "axpy", "--save", saved]).0, 0);
    let twice = file(&none, "twice", "axpy n=5\naxpy n=5\n");
    let unread = file(&none, "unread", "axpy n=5\naxpy n=q\n");
    let bare = file(&none, "own.tile", &include_str!("../../kernels/axpy.tile").replace(" axpy", " own"));
    let table: [(&[&str], &str); 16] = [
        (&["explain", "gemm", "--size", "m=-1"], "`m` = -1 must be in 0"),
        (&["explain", "gemm", "--size", "129x129x8"], "`n` = 129"),
        (&["explain", "gemm", "--size", "q=1"], "no size `q`"),
        (&["explain", "gemm", "--size", "m=2000000000,n=8,k=64"], "a view spans 128000000000 elements"),
        (&["sim", "gemm", "--size", "128x129x8"], "`n` = 129"),
        (&["run", "gemm", "--mapping", "auto", "--size", "1x2"], "sizes m x n x k, found 2"),
        (&["run", "gemm", "--size", "m=1,n=8,m=2"], "`m` is given twice"),
        (&["compile", "gemm", "-D", "BM=64", "-D", "BM=128"], "-D BM: it is given twice"),
        (&["run", "axpy", "--artifacts", saved, "-D", "B=512"], "-D B=512 comes too late"),
        (&["run", "axpi", "--artifacts", saved], "no artifact `axpi`"),
        (&["check", "axpy", "axpy", "--device", "sim"], "`axpy` is named twice"),
        (&["check", "axpi", "--device", "sim"], "no kernel `axpi`"),
        (&["check", "axpy", "--device", "sim", "--sizes", &twice], "`axpy n=5` is there twice"),
        (&["check", "axpy", "--device", "sim", "--sizes", &unread], "`q` is no whole number"),
        (&["check", &bare, "--device", "sim"], "no case of"),
        (&["check", "gemm", "--device", "sim", "--disable", "frob"], "no feature `frob`"),
    ];
    for (args, piece) in table {
        let (status, output, errors) = warplift(args);
        assert!(status == 2 && errors.contains(piece), "{args:?}: {status}\n{output}{errors}");
    }
}

#[test]
fn words_without_effect_are_told() {
    let idle = "mapping gemm { BM = 64, BN = 64 for t: consumers 1 kernel: raster band_m 8 }";
    let (status, ptx, errors) = warplift(&["compile", "gemm", "--mapping", idle]);
    assert!(status == 0 && ptx.contains(".entry gemm"), "{errors}");
    let place = "--mapping:1:60: remark: `raster band_m 8` has no effect: the chip orders";
    assert!(errors.starts_with(place) && errors.trim_end().ends_with('^'), "{errors}");
    let (_, output, _) = warplift(&["explain", "gemm", "--mapping", idle]);
    assert!(output.contains("remark: 1:60: `raster band_m 8` has no effect"), "{output}");
    let (status, _, errors) =
        warplift(&["compile", "gemm", "--mapping", "mapping gemm { kernel: resident 2 }"]);
    assert!(
        status == 2 && errors.contains("--mapping:1:24: `resident` does not go with a producer"),
        "{errors}"
    );
}

#[test]
fn what_was_not_done_is_no_success() {
    let none = folder();
    let silent = file(
        &none,
        "silent.tile",
        "kernel silent(x: ptr<f32>, n: i32) { grid 1 g = view x : f32[n] t = load g[0] : f32[64] }\nmapping silent { }",
    );
    let cases = file(&none, "cases", "axp n=5\n");
    let table: [(&[&str], &str); 6] = [
        (&["run", &silent, "--device", "sim"], "stores nothing"),
        (&["check", "axpy", "--device", "sim", "--sizes", &cases], "a case of `axp`"),
        (&["run", "gemm", "--device", "sim", "--size=2147483647x8x8"], "at most 536870912"),
        (&["run", "gemm", "--device", "sim", "--mapping", "mapping foo { }"], "no mapping of kernel `gemm`"),
        (&["sim", "gemm", "--multiprocessors", "0"], "0 is not in 1.."),
        (&["layout", "smem 64x64 f99"], "expected a type"),
    ];
    for (args, piece) in table {
        let (status, output, errors) = warplift(args);
        assert!(status == 2 && errors.contains(piece), "{args:?}: {status}\n{output}{errors}");
    }
}

#[test]
fn a_grid_of_nothing_is_predicted() {
    let (status, output, errors) = warplift(&["explain", "axpy", "--size", "0"]);
    assert!(status == 0 && output.contains("predicted: "), "{output}{errors}");
}

#[test]
fn resident_blocks_limit_registers_and_threads() {
    let (_, wide, _) = warplift(&["compile", "softmax", "-D", "BN=16384"]);
    assert!(wide.contains(".reqntid 256,1,1\n.minnctapersm 3\n"), "{wide}");
    let table = [
        (
            "softmax",
            "mapping softmax { BN = 4096 kernel: warps 8, resident 9 }",
            "9 resident blocks of 256 threads",
        ),
        (
            "gemm",
            "mapping gemm { for t: producers 1, consumers 2 kernel: resident 2 }",
            "its roles divide the registers",
        ),
        ("softmax", "mapping softmax { kernel: resident 0 }", "`resident 0`: 1 to 32 are possible"),
    ];
    for (kernel, mapping, piece) in table {
        let (status, _, errors) = warplift(&["compile", kernel, "--mapping", mapping]);
        assert!(status == 2 && errors.contains(piece), "{mapping}: {errors}");
    }
}

/// A domain is the author's word. Where it is wrong, a chosen mapping computes something else than the text, and that shows.
#[test]
fn a_chosen_mapping_is_held_to_the_values_of_the_text() {
    let text = "kernel scaled(x: ptr<f32>, y: ptr<f32>, n: i32) {
        tunable B in {1, 2} = 1
        grid cdiv(n, B)
        gx = view x : f32[n]
        gy = view y : f32[n]
        i = block_index
        store gy[i*B], (load gx[i*B] : f32[B]) * FACTOR
    }";
    let folder = folder();
    // More blocks than the device holds at once, so that fewer and larger ones are faster.
    for (factor, wanted, says) in [("2.0", 0, "correct"), ("cast(B, f32)", 1, "WRONG")] {
        let path = file(&folder, "scaled.tile", &text.replace("FACTOR", factor));
        let run = ["run", &path, "--mapping", "auto", "--device", "sim", "--size", "n=4500"];
        let (status, output, errors) = warplift(&run);
        assert!(errors.contains("B = 2"), "the larger tile is the better one: {errors}");
        assert_eq!(status, wanted, "{output}\n{errors}");
        assert!(output.contains(says), "{output}");
    }
}
