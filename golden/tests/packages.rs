//! The packages: their dependencies, the crates that they must not depend on, and their published files.

use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Crates that the compiler alone may take, its own included.
const MOST: usize = 45;

/// What cargo says.
fn cargo(args: &[&str]) -> String {
    let program = std::env::var_os("CARGO").expect("cargo sets it");
    let said = Command::new(program).args(args).arg("--offline").output().unwrap();
    assert!(said.status.success(), "cargo {args:?}: {}", String::from_utf8_lossy(&said.stderr));
    String::from_utf8(said.stdout).unwrap()
}

/// Names of the crates that one needs, itself included.
fn tree(package: &str, more: &[&str]) -> BTreeSet<String> {
    let args = [&["tree", "-p", package, "-e", "normal", "--prefix", "none"], more].concat();
    // Name and version: two versions of a crate are two.
    let words = |line: &str| line.split(' ').take(2).collect::<Vec<_>>().join(" ");
    cargo(&args).lines().filter(|l| !l.is_empty()).map(words).collect()
}

/// Whether a crate of that name is among some.
fn has(tree: &BTreeSet<String>, name: &str) -> bool {
    tree.iter().any(|c| c.split(' ').next() == Some(name))
}

/// Each package of the workspace with its folder.
fn packages() -> Vec<(String, String)> {
    let all: Value =
        serde_json::from_str(&cargo(&["metadata", "--no-deps", "--format-version", "1"])).unwrap();
    let of = |p: &Value| {
        let manifest = Path::new(p["manifest_path"].as_str().unwrap());
        (p["name"].as_str().unwrap().to_owned(), manifest.parent().unwrap().to_str().unwrap().to_owned())
    };
    all["packages"].as_array().unwrap().iter().map(of).collect()
}

#[test]
fn the_compiler_alone_is_lean() {
    let lean = tree("warplift", &["--no-default-features"]);
    assert!(lean.len() <= MOST, "{} crates, at most {MOST}: {lean:?}", lean.len());
    for own in
        ["warplift", "warplift-ir", "warplift-manifest", "warplift-isel", "warplift-sched", "warplift-emit"]
    {
        assert!(has(&lean, own), "{own}: {lean:?}");
    }
    let whole = tree("warplift", &[]);
    for name in ["clap", "tabled", "indicatif", "plotters", "rand", "rayon", "warplift-lab"] {
        assert!(!has(&whole, name), "a frontend does not need {name}: {whole:?}");
        assert!(has(&tree("warplift-cli", &[]), name), "the command line has no {name}: the name is wrong");
    }
}

#[test]
fn the_simulator_knows_nothing_of_the_compiler() {
    let own: Vec<String> =
        tree("warplift-sim", &[]).into_iter().filter(|c| c.starts_with("warplift")).collect();
    let names: Vec<&str> = own.iter().filter_map(|c| c.split(' ').next()).collect();
    assert_eq!(names, ["warplift-manifest", "warplift-sim"]);
}

#[test]
fn every_package_carries_its_license_and_readme() {
    let packages = packages();
    assert!(packages.len() >= 11, "{packages:?}");
    let license = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../LICENSE")).unwrap();
    for (name, folder) in packages {
        let files = cargo(&["package", "--list", "--allow-dirty", "-p", &name]);
        for file in ["LICENSE", "README.md"] {
            assert!(files.lines().any(|f| f == file), "{name} has no {file}: {files}");
        }
        assert!(
            fs::read_to_string(format!("{folder}/LICENSE")).unwrap() == license,
            "{name}: another license"
        );
    }
}
