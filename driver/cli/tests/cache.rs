//! What ptxas made is found again by the next process. A script that counts its runs plays ptxas.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// A ptxas that counts, and a cache.
struct Bench {
    root: TempDir,
}

impl Bench {
    fn new() -> Self {
        let bench = Self { root: tempfile::tempdir().unwrap() };
        let count = bench.at("count").display().to_string();
        let text = format!(
            "case \"$1\" in --version) echo V13.0.88 ;; *) echo run >> {count}; {{ printf '\\177ELF'; head -c 60 /dev/zero; cat kernel.ptx kernel.ptx; }} > kernel.cubin ;; esac"
        );
        let script = r#"printf '#!/bin/sh\n%s\n' "$1" > "$2" && chmod +x "$2""#;
        let made =
            Command::new("sh").args(["-c", script, "sh", &text]).arg(bench.at("ptxas")).status().unwrap();
        assert!(made.success());
        bench
    }

    fn at(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_warplift"));
        command.args(args).arg("--ptxas").arg(self.at("ptxas")).env("WARPLIFT_CACHE_DIR", self.at("cache"));
        command.env_remove("WARPLIFT_CACHE_SIZE").stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Both outputs of a command that succeeds.
    fn run(&self, args: &[&str]) -> String {
        let output = self.command(args).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let both = text(&output.stdout) + &text(&output.stderr);
        assert!(output.status.success(), "{args:?}: {both}");
        both
    }

    /// Assembles a kernel; the cubin, and how often ptxas ran so far.
    fn assemble(&self, kernel: &str, more: &[&str]) -> (Vec<u8>, usize) {
        let cubin = self.at("cubin");
        let args = ["compile", kernel, "--cubin", cubin.to_str().unwrap()];
        self.run(&[&args, more].concat());
        (fs::read(cubin).unwrap(), self.runs())
    }

    fn runs(&self) -> usize {
        fs::read_to_string(self.at("count")).map_or(0, |text| text.lines().count())
    }

    /// Files of results of more than a few bytes, wherever they lie.
    fn entries(&self) -> Vec<PathBuf> {
        let files = |d: &Path| fs::read_dir(d).unwrap().map(|e| e.unwrap().path()).collect::<Vec<_>>();
        let all = files(&self.at("cache")).into_iter().flat_map(|shard| files(&shard));
        all.filter(|p| fs::metadata(p).unwrap().len() > 1000).collect()
    }
}

#[test]
fn the_same_text_is_assembled_once() {
    let bench = Bench::new();
    let (first, runs) = bench.assemble("axpy", &[]);
    assert_eq!(runs, 1);
    assert_eq!(bench.assemble("axpy", &[]), (first.clone(), 1), "from the cache");
    assert_eq!(bench.assemble("axpy", &["--no-cache"]), (first.clone(), 2), "neither read nor written");
    assert_ne!(bench.assemble("axpy", &["-D", "B=512"]).0, first);
    assert_eq!(bench.runs(), 3, "another text");
    assert!(bench.run(&["explain", "axpy"]).contains("ptxas 13.0.88: "));
    assert_eq!(bench.runs(), 3, "explain finds it too");
}

#[test]
fn a_result_that_was_cut_is_made_anew() {
    let bench = Bench::new();
    let (whole, _) = bench.assemble("axpy", &[]);
    let entries = bench.entries();
    assert_eq!(entries.len(), 1, "{entries:?}");
    let bytes = fs::read(&entries[0]).unwrap();
    fs::write(&entries[0], &bytes[..bytes.len() / 2]).unwrap();
    assert_eq!(bench.assemble("axpy", &[]), (whole.clone(), 2), "detected, and rebuilt");
    assert_eq!(fs::read(&entries[0]).unwrap(), bytes);
    assert_eq!(bench.assemble("axpy", &[]), (whole, 2));
}

#[test]
fn two_processes_at_once_keep_both_results() {
    let bench = Bench::new();
    let start = |kernel: &str, n: usize| -> Child {
        let cubin = bench.at(&format!("{kernel}{n}"));
        bench.command(&["compile", kernel, "--cubin", cubin.to_str().unwrap()]).spawn().unwrap()
    };
    let all: Vec<Child> =
        (0..3).flat_map(|n| ["axpy", "row_sum", "transpose"].map(|kernel| start(kernel, n))).collect();
    for mut child in all {
        assert!(child.wait().unwrap().success());
    }
    let runs = bench.runs();
    assert!((3..=9).contains(&runs), "{runs}");
    for kernel in ["axpy", "row_sum", "transpose"] {
        let (cubin, now) = bench.assemble(kernel, &[]);
        assert_eq!(now, runs, "{kernel} is kept");
        assert!((0..3).all(|n| fs::read(bench.at(&format!("{kernel}{n}"))).unwrap() == cubin));
    }
}

#[test]
fn check_assembles_each_kernel_once() {
    let bench = Bench::new();
    let sizes = bench.at("sizes");
    fs::write(&sizes, "axpy n=5\nrow_sum 3x40\n").unwrap();
    let line = ["check", "--device", "sim", "--sizes", sizes.to_str().unwrap()];
    assert!(bench.run(&line).contains("2 cases: 2 passed"));
    assert_eq!(bench.runs(), 2);
    bench.run(&line);
    assert_eq!(bench.runs(), 2);
}

#[test]
fn the_cache_is_counted_cleared_bounded_and_turned_off() {
    let bench = Bench::new();
    bench.assemble("axpy", &[]);
    let stats = bench.run(&["cache", "stats"]);
    assert!(stats.contains("/cache\n2 results, 0.0 MB of 512.0 MB"), "{stats}");
    assert!(bench.run(&["cache", "clear"]).contains("removed 2 results"));
    assert!(bench.run(&["cache", "stats"]).contains("0 results"));
    assert_eq!(bench.assemble("axpy", &[]).1, 2);
    let sized = |size: &str, args: &[&str]| {
        let output = bench.command(args).env("WARPLIFT_CACHE_SIZE", size).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (status, errors) = sized("0", &["cache", "stats"]);
    assert!(status == Some(2) && errors.contains("WARPLIFT_CACHE_SIZE is 0"), "{errors}");
    let (status, errors) = sized("many", &["toolchain", "where"]);
    assert!(status == Some(2) && errors.contains("WARPLIFT_CACHE_SIZE=many: expected a whole"), "{errors}");
    let cubin = bench.at("cubin");
    assert_eq!(sized("0", &["compile", "axpy", "--cubin", cubin.to_str().unwrap()]).0, Some(0));
    assert_eq!(bench.runs(), 3, "no cache");
}

#[test]
fn a_mapping_is_chosen_for_the_sizes_that_are_asked_for() {
    let bench = Bench::new();
    let chosen = |size: &str| {
        let text = bench.run(&["compile", "gemm", "--mapping", "auto", "--size", size, "-o", "/dev/null"]);
        assert!(text.contains(&format!("for {size}: ")), "{text}");
        text.split("mapping gemm").nth(1).unwrap().to_owned()
    };
    assert_ne!(chosen("m=1,n=4096,k=4096"), chosen("m=4096,n=4096,k=4096"));
    let output = bench.command(&["compile", "gemm", "--size", "1x64x64"]).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && errors.contains("--size is for `--mapping auto`"), "{errors}");
}
