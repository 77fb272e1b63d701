//! A fresh machine: the tools are fetched on first use, and what keeps them from it is said. A program that plays
//! `python3` stands for the package index.

use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// A machine without tools, whose `python3` is a script.
struct Machine {
    root: TempDir,
}

impl Machine {
    /// One whose `python3` does this; without a script there is none.
    fn new(python: Option<&str>) -> Self {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("path")).unwrap();
        let machine = Self { root };
        python.iter().for_each(|script| machine.program(&machine.at("path/python3"), script));
        machine
    }

    fn at(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// An executable script, written by a shell of its own: see the tests of the library's toolchain.
    fn program(&self, path: &Path, text: &str) {
        let script = r#"printf '#!/bin/sh\n%s\n' "$1" > "$2" && /bin/chmod +x "$2""#;
        let made = Command::new("/bin/sh").args(["-c", script, "sh", text]).arg(path).status().unwrap();
        assert!(made.success());
    }

    /// Exit status and both outputs.
    fn warplift(&self, args: &[&str], variables: &[(&str, &str)]) -> (i32, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_warplift"));
        command.args(args).env("XDG_CACHE_HOME", self.at("cache")).env("PATH", self.at("path"));
        command.env_remove("WARPLIFT_OFFLINE").env_remove("WARPLIFT_PTXAS");
        let output = command.envs(variables.iter().copied()).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code().unwrap_or(-1), text(&output.stdout) + &text(&output.stderr))
    }
}

const RUN: [&str; 6] = ["run", "axpy", "--device", "sim", "--size", "n=100"];

#[test]
fn the_first_use_fetches_and_says_what_and_how_large() {
    let machine = Machine::new(Some("echo no network >&2; exit 1"));
    let (status, output) = machine.warplift(&RUN, &[]);
    assert!(output.contains("fetching ptxas 13.0.88, cuobjdump 13.5.37, nvdisasm 13.5.37"), "{output}");
    assert!(output.contains(" MB) into ") && output.contains("no network"), "{output}");
    assert!(status == 0 && output.contains("correct:"), "the simulator needs no ptxas: {output}");
}

#[test]
fn nothing_is_fetched_offline() {
    let machine = Machine::new(Some("echo FETCHED >&2; exit 1"));
    let offline = [&RUN[..], &["--offline"]].concat();
    for (args, variables) in [(&RUN[..], &[("WARPLIFT_OFFLINE", "1")][..]), (&offline, &[])] {
        let (status, output) = machine.warplift(args, variables);
        assert!(status == 0 && output.contains("not assembled: ") && output.contains("toolchain install"));
        assert!(!output.contains("FETCHED") && !output.contains("fetching"), "{output}");
    }
    let (status, output) = machine.warplift(&["toolchain", "install", "--offline"], &[]);
    assert!(status == 2 && output.contains("forbids fetching"), "{output}");
}

#[test]
fn a_missing_python_or_pip_is_named() {
    let without_pip = "echo \"python3: No module named pip\" >&2; exit 1";
    for (python, why) in [(None, "`python3` is not on PATH"), (Some(without_pip), "`python3` has no pip")] {
        let (status, output) = Machine::new(python).warplift(&["toolchain", "install"], &[]);
        assert_eq!(status, 2, "{output}");
        assert!(output.contains(why) && output.contains("needs Python 3 with pip"), "{output}");
    }
}

#[test]
fn what_an_interrupted_installation_left_is_removed_by_the_next() {
    let machine = Machine::new(Some("kill -9 $PPID"));
    let (status, _) = machine.warplift(&["toolchain", "install"], &[]);
    assert_eq!(status, -1, "it was not interrupted");
    let left = || std::fs::read_dir(machine.at("cache/warplift/toolchain")).unwrap().count();
    assert_eq!(left(), 2, "the lock, and the directory it worked in");
    machine.program(&machine.at("path/python3"), "exit 1");
    assert_eq!(machine.warplift(&["toolchain", "install"], &[]).0, 2);
    assert_eq!(left(), 1, "the lock");
}

#[test]
fn an_altered_tool_in_the_cache_is_not_used() {
    let machine = Machine::new(Some("exit 1"));
    let cache = machine.at("cache/warplift/toolchain/13.0.88");
    std::fs::create_dir_all(&cache).unwrap();
    ["ptxas", "cuobjdump", "nvdisasm"].iter().for_each(|t| machine.program(&cache.join(t), "echo V13.0.88"));
    let (status, output) = machine.warplift(&["toolchain", "where"], &[]);
    assert!(status == 2 && output.contains("ptxas is not the pinned program: its SHA-256 is"), "{output}");
    let (status, output) = machine.warplift(&["toolchain", "install"], &[]);
    assert!(status == 2 && output.contains("fetching ptxas"), "it is to be repaired: {output}");
}

#[test]
fn an_empty_variable_names_no_ptxas() {
    let (_, output) = Machine::new(None).warplift(&["toolchain", "where"], &[("WARPLIFT_PTXAS", "")]);
    assert!(output.contains("ptxas 13.0.88 not found"), "{output}");
}

#[test]
fn a_missing_driver_is_one_line() {
    let machine = Machine::new(None);
    let run = |more: &[&str]| {
        let args = [&["run", "axpy", "--size", "n=100", "--offline"], more].concat();
        machine.warplift(&args, &[]).1
    };
    let Some(missing) = run(&[]).lines().find(|l| l.contains("no CUDA driver")).map(str::to_owned) else {
        return assert!(run(&[]).contains("correct:"), "a machine with a driver");
    };
    assert!(missing.contains("libcuda.so.1 not found in 6 places"), "{missing}");
    assert!(!run(&[]).contains("/usr/lib") && run(&["--verbose"]).contains("/usr/lib64/libcuda.so.1: "));
}
