//! Commands do what was asked, say what they did, and fail where they did not.

use std::fs::{self, File};
use std::io::Read;
use std::os::fd::FromRawFd;
use std::path::Path;
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// The binary, which fetches nothing.
fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warplift"));
    command.args(args);
    command
}

/// Exit status, standard output, standard error.
fn warplift(args: &[&str]) -> (i32, String, String) {
    let output = command(args).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn file(folder: &TempDir, name: &str, text: &str) -> String {
    let path = folder.path().join(name);
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

const AXPY: &str = include_str!("../../kernels/axpy.tile");

#[test]
fn what_check_did_not_execute_is_counted_and_is_no_success() {
    let folder = folder();
    let sizes = file(&folder, "sizes", "axpy n=5\naxpy n=100000000\n");
    let check = |more: &[&str]| warplift(&[&["check", "--device", "sim", "--sizes", &sizes], more].concat());
    let (status, output, errors) = check(&[]);
    assert!(output.contains("2 cases: 1 passed, 1 too large for the simulator, not executed"), "{output}");
    assert!(status == 2 && errors.contains("--skip-large"), "{status} {errors}");
    assert_eq!(check(&["--skip-large"]).0, 0);
    let sizes = file(&folder, "facts", "gemm 8x9x8\ngemm 1x8x8\n");
    let (status, output, errors) = warplift(&["check", "--device", "sim", "--sizes", &sizes]);
    assert!(output.contains("2 cases: 1 passed, 1 not tried"), "{output}");
    assert!(status == 2 && errors.contains("not tried: gemm 8x9x8"), "a mistake is not WRONG: {errors}");
}

#[test]
fn check_takes_the_kernels_that_its_cases_name() {
    let folder = folder();
    let sizes = file(&folder, "sizes", "axpy n=5\nrow_sum 3x8\n");
    let (status, output, errors) = warplift(&["check", "--device", "sim", "--sizes", &sizes]);
    assert!(status == 0 && output.contains("2 cases: 2 passed\n"), "{output}{errors}");
    assert!(!output.contains("gemm"), "{output}");
}

#[test]
fn check_runs_in_the_simulator_where_there_is_no_gpu() {
    let folder = folder();
    let sizes = file(&folder, "sizes", "axpy n=5\n");
    let (status, output, errors) = warplift(&["check", "--sizes", &sizes]);
    assert!(status == 0 && output.contains("ok, error"), "{output}{errors}");
}

/// What a terminal shows at the end: standard output and error of a command on one pseudo terminal.
fn on_a_terminal(args: &[&str]) -> String {
    let (mut ours, mut theirs) = (0, 0);
    let none = std::ptr::null_mut();
    // SAFETY: both descriptors are written before the call returns; the other arguments may be null.
    let opened = unsafe { libc::openpty(&mut ours, &mut theirs, none, none as _, none as _) };
    assert_eq!(opened, 0);
    // SAFETY: openpty has just opened both, and nobody else owns them.
    let (mut ours, theirs) = unsafe { (File::from_raw_fd(ours), File::from_raw_fd(theirs)) };
    let mut run = command(args);
    run.stdout(theirs.try_clone().unwrap()).stderr(theirs).env("TERM", "xterm");
    let mut child = run.spawn().unwrap();
    drop(run);
    let mut bytes = Vec::new();
    // The read fails when the last writer is gone.
    let _ = ours.read_to_end(&mut bytes);
    child.wait().unwrap();
    screen(&String::from_utf8_lossy(&bytes))
}

/// Plays the lines of a terminal: a carriage return goes to the line's start, `ESC [ 2 K` erases the line.
fn screen(text: &str) -> String {
    let mut lines = vec![Vec::new()];
    let (mut row, mut column) = (0, 0);
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            '\r' => column = 0,
            '\n' => {
                (row, column) = (row + 1, 0);
                lines.resize(lines.len().max(row + 1), Vec::new());
            }
            '\x1b' => {
                // A letter ends the sequence.
                match rest.by_ref().find(char::is_ascii_alphabetic) {
                    Some('K') => lines[row].clear(),
                    Some('A') => row = row.saturating_sub(1),
                    _ => {}
                }
            }
            c => {
                let line: &mut Vec<char> = &mut lines[row];
                line.resize(line.len().max(column + 1), ' ');
                line[column] = c;
                column += 1;
            }
        }
    }
    lines.into_iter().map(|l| l.into_iter().collect::<String>() + "\n").collect()
}

#[test]
fn a_terminal_keeps_the_names_of_checked_cases() {
    let folder = folder();
    let sizes = file(&folder, "sizes", "axpy n=300000\n");
    let shown = on_a_terminal(&["check", "--device", "sim", "--sizes", &sizes]);
    let line = shown.lines().find(|l| l.contains("ok, error"));
    assert!(line.is_some_and(|l| l.starts_with("axpy ") && l.contains("n=300000")), "{shown:?}");
}

#[test]
fn a_kernel_is_recommended_only_if_it_computes_the_same() {
    let hint = |kernel: &str, size: &str| {
        let (status, _, errors) = warplift(&["run", kernel, "--device", "sim", "--size", size]);
        assert_eq!(status, 2, "{errors}");
        errors.split_once("; kernel `").map(|(_, rest)| rest.split('`').next().unwrap().to_owned())
    };
    assert_eq!(hint("gemm", "128x129x128").as_deref(), Some("gemm_any"));
    assert_ne!(hint("softmax", "5x4104").as_deref(), Some("convert"));
    assert_eq!(hint("gemm_tn", "129x264x72"), None, "no other kernel takes A transposed");
}

#[test]
fn saving_drops_no_other_output() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (saved, ptx, cubin, manifest) = (at("saved"), at("o.ptx"), at("o.cubin"), at("o.json"));
    let args = ["compile", "axpy", "--save", &saved, "-o", &ptx, "--cubin", &cubin, "--manifest", &manifest];
    let (status, _, errors) = warplift(&[&args[..], &["--dump", "teams", "--timings"]].concat());
    assert_eq!(status, 0, "{errors}");
    assert!(errors.contains("after: \"teams\"") && errors.contains("compiled in"), "{errors}");
    for (file, same) in [(&ptx, "axpy.ptx"), (&cubin, "axpy.cubin"), (&manifest, "axpy.json")] {
        assert_eq!(fs::read(file).unwrap(), fs::read(Path::new(&saved).join(same)).unwrap(), "{same}");
    }
    for more in [&["--all", "-o", &ptx][..], &["axpy", "--ablate", "--timings"]] {
        let (status, _, errors) = warplift(&[&["compile", "--save", &saved], more].concat());
        assert!(status == 2 && errors.contains("cannot be used with"), "{more:?}: {errors}");
    }
}

#[test]
fn every_kernel_has_a_picture() {
    let folder = folder();
    for kernel in ["gemm", "axpy", "softmax"] {
        let svg = folder.path().join(format!("{kernel}.svg"));
        let (status, _, errors) = warplift(&["explain", kernel, "--svg", svg.to_str().unwrap()]);
        let drawn = fs::read_to_string(&svg).unwrap_or_default();
        assert!(status == 0 && drawn.matches("<rect").count() > 1, "{kernel}: {errors}{drawn}");
    }
}

#[test]
fn a_mapping_of_no_kernel_in_the_file_is_refused() {
    let folder = folder();
    let path = file(&folder, "own.tile", &format!("{AXPY}\nmapping axpi {{ B = 512 }}\n"));
    let (status, _, errors) = warplift(&["compile", &path]);
    assert!(status == 2 && errors.contains("mapping of kernel `axpi`: the file holds `axpy`"), "{errors}");
    assert!(errors.contains("own.tile:") && errors.trim_end().ends_with('^'), "{errors}");
}

#[test]
fn a_full_disk_is_an_error_and_no_panic() {
    for args in
        [&["kernels"][..], &["compile", "axpy"], &["explain", "axpy"], &["--help"], &["run", "--help"]]
    {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = command(args).stdout(full).stderr(Stdio::piped()).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {errors}");
        assert!(errors.contains("error: writing to standard output: No space left"), "{args:?}: {errors}");
    }
}

#[test]
fn names_that_ptx_cannot_hold_are_written_otherwise() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    for (name, kernel) in [("a\"b\\é.tile", "axpy"), ("plain.tile", "WARP_SZ"), ("low.tile", "_")] {
        let path = file(&folder, name, &AXPY.replace(" axpy", &format!(" {kernel}")));
        let (status, _, errors) = warplift(&["compile", &path, "--cubin", &at("o.cubin")]);
        assert!(status == 0 && errors.contains("registers at entry"), "{name} {kernel}: {errors}");
        let (status, output, errors) =
            warplift(&["run", &path, "--device", "sim", "--size", "n=100", "--mapping", "auto"]);
        assert!(status == 0 && output.contains("correct:"), "{name} {kernel}: {output}{errors}");
    }
}

#[test]
fn a_mapping_takes_the_layouts_that_layout_reads() {
    let text = "kernel half(x: ptr<f32>, y: ptr<f32>) { grid 1 gx = view x : f32[64, 64] gy = view y : f32[64, 64]
        t = load gx[0, 0] : f32[64, 64] r = rearrange(t) store gy[0, 0], r }
        mapping half { tile r: layout \"blocked 64x64 reg 1x4 lane 2x16 warp 4x1 order 1,0\" kernel: warps 4 }";
    let folder = folder();
    let path = file(&folder, "half.tile", text);
    let (status, _, errors) = warplift(&["compile", &path, "-o", "/dev/null"]);
    assert_eq!(status, 0, "{errors}");
    let path = file(&folder, "bad.tile", &text.replace("blocked 64x64", "blocked 64by64"));
    let (status, _, errors) = warplift(&["compile", &path]);
    assert!(status == 2 && errors.contains("bad.tile:3:") && errors.contains("layout: "), "{errors}");
}

#[test]
fn a_record_needs_a_gpu() {
    let folder = folder();
    let record = folder.path().join("record");
    let at = record.to_str().unwrap();
    let (status, _, errors) = warplift(&["litmus", "row/mov", "--device", "sim", "--record", at]);
    assert!(status == 2 && errors.contains("--record needs one"), "{errors}");
    assert!(!record.exists());
}

#[test]
fn bench_reads_names_and_sizes_first() {
    for (args, piece) in
        [(&["axpi"][..], "no kernel `axpi`"), (&["gemm", "--size", "1x2"], "sizes m x n x k")]
    {
        let (status, _, errors) = warplift(&[&["bench"], args].concat());
        assert!(status == 2 && errors.contains(piece), "{errors}");
    }
}

#[test]
fn empty_tensors_are_launched() {
    let folder = folder();
    let sizes = file(&folder, "sizes", "gemm 0x8x8\ngemm 8x0x8\ngemm 8x8x0\ngemm_nn 8x8x0\n");
    let (status, output, errors) = warplift(&["check", "--device", "sim", "--sizes", &sizes]);
    assert!(status == 0 && output.contains("4 cases: 4 passed"), "{output}{errors}");
}

/// Where device memory decides, an H100 takes longer than an H200; a chip that is not known is a mistake.
#[test]
fn predictions_are_for_the_named_chip() {
    let predicted = |chip: &[&str]| {
        let asked = ["explain", "softmax", "--size", "m=8192,n=4096", "--offline"];
        let (status, output, errors) = warplift(&[&asked, chip].concat());
        let cycles =
            output.split("predicted: ").nth(1).and_then(|s| s.split(' ').next()?.parse::<f64>().ok());
        cycles.unwrap_or_else(|| panic!("{status}: {output} {errors}"))
    };
    let usual = predicted(&[]);
    assert_eq!(predicted(&["--chip", "h200"]), usual);
    assert!((1.2..1.6).contains(&(predicted(&["--chip", "h100"]) / usual)));
    let (status, _, errors) = warplift(&["explain", "softmax", "--chip", "h300"]);
    assert!(status == 2 && errors.contains("it knows h200, h100"), "{status}: {errors}");
}
