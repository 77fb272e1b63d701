//! The tools found, installed and run; the last two tests fetch the pinned ones on first use.

use super::install::install_into;
use super::pins::{Pin, Pinned, sha256};
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
    let sha256 = sha256(&cache.join("ptxas")).unwrap();
    let tools = [Pin { tool: "ptxas", sha256: &sha256 }];
    let pinned = Pinned { directory: &cache, tools: &tools };
    let path = std::env::join_paths([&old, &good]).unwrap();
    let found = Toolchain::search(Some(&pinned), Some(&path)).unwrap();
    assert_eq!(found.ptxas, cache.join("ptxas"));
    // Another program than the pinned one is left alone, whatever it says of itself.
    let more = r#"echo : >> "$1""#;
    run(Command::new("sh").args(["-c", more, "sh"]).arg(cache.join("ptxas"))).unwrap();
    assert_eq!(version_of(&cache.join("ptxas")).unwrap(), PTXAS_VERSION);
    let error = Toolchain::search(Some(&pinned), None).unwrap_err().to_string();
    assert!(error.contains("cache/ptxas is not the pinned program: its SHA-256 is"), "{error}");
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

/// Puts a wheel with one tool of these bytes into a directory; Python's zipfile makes it.
fn wheel(directory: &Path, bytes: &str) -> Result<(), ToolError> {
    let script =
        "import sys, zipfile; zipfile.ZipFile(sys.argv[1], 'w').writestr('x/bin/ptxas', sys.argv[2])";
    let mut python = Command::new("python3");
    run(python.args(["-c", script]).arg(directory.join("x.whl")).arg(bytes)).map(drop)
}

/// [`PROGRAM`], as `sha256sum` knows it.
const PINS: [Pin<'static>; 1] =
    [Pin { tool: "ptxas", sha256: "62cae202c8380d2858087f69afa3512c244dae472197d55523380810d0ca7c22" }];
const PROGRAM: &str = "#!/bin/sh\necho V13.0.88\n";

#[test]
fn an_installation_without_wheels_leaves_nothing() {
    let root = tempfile::tempdir().unwrap();
    let target = root.path().join("toolchain");
    let error = install_into(&Pinned { directory: &target, tools: &PINS }, false, |_| Ok(())).unwrap_err();
    assert!(matches!(error, ToolError::Incomplete { tool: "ptxas", .. }), "{error}");
    assert!(!target.exists());
    assert_eq!(names(root.path()), ["toolchain.lock"]);
}

fn names(directory: &Path) -> Vec<String> {
    let each = fs::read_dir(directory).unwrap().map(|e| e.unwrap().file_name());
    let mut names: Vec<_> = each.map(|n| n.into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_tool_that_is_not_the_pinned_one_is_refused_and_repaired() {
    let root = tempfile::tempdir().unwrap();
    let target = root.path().join("toolchain");
    let pinned = Pinned { directory: &target, tools: &PINS };
    let error = install_into(&pinned, false, |to| wheel(to, "another")).unwrap_err();
    assert!(matches!(error, ToolError::Altered { .. }), "{error}");
    assert!(!target.exists(), "it was installed all the same");
    install_into(&pinned, false, |to| wheel(to, PROGRAM)).unwrap();
    pinned.check().unwrap();
    // Intact tools are not fetched again, unless that is asked for.
    let fetched = |force| {
        let mut fetched = false;
        install_into(&pinned, force, |to| {
            fetched = true;
            wheel(to, PROGRAM)
        })
        .unwrap();
        fetched
    };
    assert!(!fetched(false) && fetched(true));
    let ptxas = target.join("ptxas");
    fs::write(&ptxas, PROGRAM.replace("88", "89")).unwrap();
    assert!(matches!(pinned.check(), Err(ToolError::Altered { .. })));
    assert!(fetched(false));
    pinned.check().unwrap();
    assert_eq!(fs::read_to_string(&ptxas).unwrap(), PROGRAM);
    fs::remove_file(&ptxas).unwrap();
    assert!(pinned.check().is_err());
    assert!(fetched(false));
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
    let tools = Toolchain::find_or_install(None, Fetch::default()).unwrap();
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
    let tools = Toolchain::find_or_install(None, Fetch::default()).unwrap();
    let bad = PTX.replace("ret;", "mov.u32 %q, 1; ret;");
    match tools.ptxas(&bad, &PtxasOptions::default()).unwrap_err() {
        ToolError::Rejected { log } => assert!(log.contains("kernel.ptx, line"), "{log}"),
        other => panic!("{other}"),
    }
}
