//! A chip stands in one table: the stages name none, and what another one lacks is refused by name.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use warplift::ir::target::{Arch, Opcode, Rows, SM90A, Target};
use warplift::{Options, compile};
use warplift_golden::kernels::texts;
use warplift_golden::library::load;

/// A second chip: the table of the first one less what only its own architecture has.
fn plain() -> Target {
    let arch = Arch { number: 90, specific: false };
    let mut rows: Rows = *SM90A.rows;
    Opcode::ALL.iter().filter(|op| !arch.runs(op.least())).for_each(|&op| rows[op as usize] = None);
    Target { arch, least_ptx: 78, rows: Box::leak(Box::new(rows)), ..SM90A.clone() }
}

#[test]
fn a_kernel_of_the_library_fits_a_plain_chip_or_is_refused_by_name() {
    let target = plain();
    let [mut fit, mut refused] = [0, 0];
    let mut reasons = BTreeSet::new();
    for name in texts().expect("the library").into_keys() {
        let (kernel, mapping) = load(&name);
        match compile(&kernel, &mapping, &target, &Options::default()) {
            Ok(made) => {
                assert!(made.ptx.contains("\n.target sm_90\n"), "{name}: {}", &made.ptx[..80]);
                assert_eq!(made.manifest.target, "sm_90", "{name}");
                fit += 1;
            }
            Err(e) => {
                let why = e.lacks().unwrap_or_else(|| panic!("{name}: {e}")).to_string();
                assert!(why.contains(" needs sm_") && why.ends_with("the target is sm_90"), "{name}: {why}");
                assert!(e.to_string().contains(&why), "{name}: {e}");
                reasons.insert(why);
                refused += 1;
            }
        }
    }
    assert!(fit >= 5 && refused >= 20, "{fit} fit, {refused} are refused: {reasons:?}");
}

#[test]
fn a_product_of_warpgroups_is_refused_where_it_stands() {
    let (kernel, mapping) = load("gemm");
    let error = compile(&kernel, &mapping, &plain(), &Options::default()).map(|c| c.ptx).unwrap_err();
    let Some((_, place)) = error.place(&mapping) else { panic!("{error} has no place") };
    assert!(place.line > 0, "{error}");
    assert!(error.to_string().ends_with("`wgmma` needs sm_90a: the target is sm_90"), "{error}");
}

#[test]
fn accumulators_follow_the_chip() {
    let (kernel, mapping) = load("gemm");
    let tight = Target { warpgroup_accumulator: 100, ..SM90A.clone() };
    let error = compile(&kernel, &mapping, &tight, &Options::default()).map(|c| c.ptx).unwrap_err();
    assert!(error.to_string().contains("at most 100 leave room for the rest"), "{error}");
}

/// Files of Rust under a folder that are no tests.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder").map(|e| e.expect("an entry").path()) {
        let name = entry.file_name().and_then(|n| n.to_str()).unwrap_or("").to_owned();
        match entry.is_dir() {
            true if name != "tests" => sources(&entry, found),
            false if name.ends_with(".rs") && name != "tests.rs" => found.push(entry),
            _ => {}
        }
    }
}

/// Code of a file: no comments, and nothing from its tests on.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.lines().take_while(|l| l.trim() != "mod tests {").filter(|l| !l.trim_start().starts_with("//"))
}

#[test]
fn stages_name_no_chip() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    for stage in ["ir", "isel", "sched", "regalloc", "emit"] {
        sources(&root.join(stage).join("src"), &mut files);
    }
    let table = root.join("ir/src/target");
    files.retain(|f| !f.starts_with(&table));
    assert!(files.len() > 150, "only {} files", files.len());
    for file in files {
        let text = fs::read_to_string(&file).expect("a file of text");
        for line in code(&text) {
            let named = line.split(|c: char| !c.is_alphanumeric() && c != '_');
            let chip = named.into_iter().find(|w| ["SM90A", "RATES", "ROWS", "MEASURED"].contains(w));
            assert_eq!(chip, None, "{}: {line}", file.display());
        }
    }
}
