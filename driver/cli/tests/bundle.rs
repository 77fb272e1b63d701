//! `bundle` and `tune`, as a user calls them, without ptxas and without a GPU.

use std::fs;
use std::path::Path;
use std::process::Command;
use warplift::bundle::Bundle;
use warplift::tuning::Tunings;

/// Status, output, errors.
fn warplift(folder: &Path, args: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warplift"));
    command.args(args).arg("--offline").env("WARPLIFT_TUNING", folder.join("tuning")).env("PATH", "");
    let output = command.env("WARPLIFT_CACHE_DIR", folder.join("cache")).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_bundle_is_made_shown_and_read() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("axpy.bundle");
    let path = file.to_str().unwrap();
    let (status, made, errors) =
        warplift(folder.path(), &["bundle", "axpy", "--sizes", "n=1000..5000", "--ptx", "-o", path]);
    assert_eq!(status, 0, "{errors}");
    let bundle = Bundle::from_bytes(&fs::read(&file).unwrap()).unwrap();
    assert_eq!((bundle.to_string(), bundle.kernel.as_str()), (made.clone(), "axpy"));
    assert!(bundle.entries.iter().all(|e| e.code.bytes().windows(8).any(|w| w == b".version")));
    assert_eq!(warplift(folder.path(), &["bundle", "--show", path]).1, made);
    // Half of a file, and sizes that are no class.
    fs::write(&file, &fs::read(&file).unwrap()[..2000]).unwrap();
    let (status, _, errors) = warplift(folder.path(), &["bundle", "--show", path]);
    assert!(status == 2 && errors.contains("is damaged"), "{errors}");
    let (status, _, errors) = warplift(folder.path(), &["bundle", "axpy", "--sizes", "m=1", "-o", path]);
    assert!(status == 2 && errors.contains("`m` is none of n"), "{errors}");
}

#[test]
fn what_was_tuned_is_kept_and_taken() {
    let folder = tempfile::tempdir().unwrap();
    let picture = folder.path().join("tried.svg");
    let args = ["tune", "axpy", "--size", "n=4096..65536", "--predict", "--budget", "20s", "--svg"];
    let (status, table, errors) =
        warplift(folder.path(), &[&args[..], &[picture.to_str().unwrap()]].concat());
    assert_eq!(status, 0, "{errors}");
    assert!(table.contains("n=4096..65536") && table.matches(" cycles").count() >= 4, "{table}");
    assert!(fs::read_to_string(&picture).unwrap().contains("mapping axpy"));
    let file = folder.path().join("tuning");
    assert_eq!(Tunings::read(&file).unwrap().len(), 1);
    let auto =
        |size: &str| warplift(folder.path(), &["compile", "axpy", "--mapping", "auto", "--size", size]).2;
    let one = "1 of 1 proposed mappings compile";
    assert!(auto("n=5000").contains(one) && !auto("n=100").contains(one), "{}", auto("n=5000"));
    // A file with a mistake is named, and nothing is overwritten.
    fs::write(&file, "something else\n").unwrap();
    assert!(auto("n=5000").contains("expected `warplift-tuning 1`"));
    let (status, _, errors) = warplift(folder.path(), &args[..5]);
    assert!(status == 2 && errors.contains("expected `warplift-tuning 1`"), "{errors}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "something else\n");
}
