//! The tools found, installed and run; the last two tests fetch the pinned ones on first use.

use super::install::install_into;
use super::ptxas::read_log;
use super::*;
use std::fs;

const PTX: &str = include_str!("../cuda/testdata/axpy.ptx");

/// An executable file that prints `text`. A shell writes it: were it open for writing in this
/// process while another test starts a program, running it could fail as busy.
fn program(path: &Path, text: &str) {
    let script = r##"printf '#!/bin/sh\necho %s\n' "$1" > "$2" && chmod +x "$2""##;
    let mut shell = Command::new("sh");
    run(shell.args(["-c", script, "sh", text]).arg(path)).unwrap();
}

#[test]
fn search_takes_the_cache_first_and_path_only_in_the_right_version() {
    let root = tempfile::tempdir().unwrap();
    let directory = |name: &str, version: &str| {
        let d = root.path().join(name);
        fs::create_dir(&d).unwrap();
        program(&d.join("ptxas"), &format!("V{version}"));
        d
    };
    let (old, good) = (directory("old", "12.4.1"), directory("good", PTXAS_VERSION));
    let cache = directory("cache", PTXAS_VERSION);
    let path = std::env::join_paths([&old, &good]).unwrap();
    let found = Toolchain::search(Some(&cache), Some(&path)).unwrap();
    assert_eq!(found.ptxas, cache.join("ptxas"));
    let found = Toolchain::search(None, Some(&path)).unwrap();
    assert_eq!(found.ptxas, good.join("ptxas"));
    let error = Toolchain::search(None, Some(old.as_os_str())).unwrap_err().to_string();
    assert!(error.contains("old/ptxas is 12.4.1") && error.contains("toolchain install"), "{error}");
}

#[test]
fn a_given_path_must_be_a_ptxas() {
    let error = Toolchain::find(Some(Path::new("/no/such/ptxas"))).unwrap_err().to_string();
    assert!(error.contains("--ptxas names /no/such/ptxas"), "{error}");
}

#[test]
fn an_installation_without_wheels_leaves_nothing() {
    let root = tempfile::tempdir().unwrap();
    let target = root.path().join("toolchain");
    let error = install_into(&target, |_| Ok(())).unwrap_err();
    assert!(matches!(error, ToolError::Incomplete { tool: "ptxas", .. }), "{error}");
    assert!(!target.exists());
    let left: Vec<_> = fs::read_dir(root.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, ["toolchain.lock"]);
}

#[test]
fn logs_are_read() {
    let log = "\
ptxas info    : 0 bytes gmem
ptxas info    : (C7515) Potential Performance Loss: wgmma.mma_async instructions are serialized
ptxas warning : Value of threads per SM is out of range. .minnctapersm will be ignored
ptxas info    : Compiling entry function 'gemm' for 'sm_90a'
    16 bytes stack frame, 24 bytes spill stores, 32 bytes spill loads
ptxas info    : Used 168 registers, used 9 barriers, 16 bytes cumulative stack size";
    let read = read_log(log.to_owned());
    assert_eq!((read.registers, read.spills, read.stack, read.barriers), (168, (24, 32), 16, 9));
    assert_eq!(read.warnings.len(), 2);
    assert_eq!(read.warnings[0].code, "C7515");
    assert!(read.warnings[0].text.starts_with("Potential"));
    assert_eq!(read.warnings[1].code, "");
}

#[test]
fn the_pinned_tools_assemble_and_disassemble() {
    let tools = Toolchain::find_or_install(None).unwrap();
    let made = tools.ptxas(PTX, &PtxasOptions::default()).unwrap();
    assert!(made.cubin.starts_with(b"\x7fELF"));
    assert!(made.registers >= 8 && made.spills == (0, 0) && made.warnings.is_empty(), "{}", made.log);
    let sass = tools.disassemble(&made.cubin).unwrap();
    assert!(sass.contains("FFMA") && sass.contains("EXIT"), "{sass}");
    assert!(tools.dump_sass(&made.cubin).unwrap().contains("Function : axpy"));
    let live = tools.life_ranges(&made.cubin).unwrap();
    let most = live.iter().map(|row| row.general).max();
    assert!(most.is_some_and(|m| m > 2 && m <= made.registers), "{live:?}");
    assert!(live.iter().any(|row| row.uniform > 0 && row.text.starts_with("FFMA")));
}

#[test]
fn a_mistake_is_reported_with_its_line() {
    let tools = Toolchain::find_or_install(None).unwrap();
    let bad = PTX.replace("ret;", "mov.u32 %q, 1; ret;");
    match tools.ptxas(&bad, &PtxasOptions::default()).unwrap_err() {
        ToolError::Rejected { log } => assert!(log.contains("kernel.ptx, line"), "{log}"),
        other => panic!("{other}"),
    }
}
