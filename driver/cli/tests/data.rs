//! `--data`: what arrays hold, and what is said where results cannot be judged.

use std::fs;
use std::process::Command;

/// Exit status and both outputs.
fn warplift(args: &[&str]) -> (i32, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_warplift")).args(args).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(&output.stdout) + &text(&output.stderr))
}

fn axpy(verb: &str, data: &[&str]) -> (i32, String) {
    let place: &[&str] = if verb == "run" { &["--device", "sim"] } else { &["--seeds", "1"] };
    let each: Vec<&str> = data.iter().flat_map(|d| ["--data", d]).collect();
    warplift(&[&[verb, "axpy", "--size", "n=100"], place, &each].concat())
}

#[test]
fn arrays_hold_what_is_given() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.npy");
    let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (100,), }\n";
    let numbers: Vec<u8> = (0..100u8).flat_map(|i| f32::from(i).to_le_bytes()).collect();
    let length = (header.len() as u16).to_le_bytes();
    fs::write(&file, [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes(), &numbers].concat()).unwrap();
    let from_file = format!("x={}", file.display());
    let kinds = ["normal", "zeros", "ints:-2..=2", "perm", "sorted:0..9", "zipf:1.2:0..50"];
    let list = format!("list:{}", (0..100).map(|i| i.to_string()).collect::<Vec<_>>().join(","));
    for contents in kinds.iter().map(|k| format!("x={k}")).chain([from_file, format!("x={list}")]) {
        for verb in ["run", "sim"] {
            let (status, output) = axpy(verb, &[&contents, "y=zeros"]);
            assert!(status == 0 && output.contains("correct:"), "{verb} {contents}: {output}");
        }
    }
    // Zeros in all arrays give zeros, which differ from no number.
    let (_, output) = axpy("run", &["x=zeros", "y=zeros"]);
    assert!(output.contains("worst at 0.00 of its bound"), "{output}");
}

#[test]
fn mistakes_in_data_are_named() {
    for (data, message) in [
        ("z=zeros", "data of `z`: the arrays that the kernel reads are x, y"),
        ("x=many", "`many`: arrays hold normal, zeros"),
        ("x", "expected NAME=CONTENTS"),
        ("x=none.npy", "reading none.npy"),
        ("x=list:1,2", "a list of 2 elements; `x` has 100 at these sizes"),
        ("x=list:1,b", "expected integers, as in list:0,0,1"),
    ] {
        let (status, output) = axpy("run", &[data]);
        assert!(status == 2 && output.contains(message), "{data}: {output}");
    }
}

#[test]
fn results_that_depend_on_the_order_of_blocks_are_not_wrong() {
    let text = "kernel last(x: ptr<f32>, y: ptr<f32>, n: i32) { grid cdiv(n, 64)
        gx = view x : f32[n] gy = view y : f32[64] i = block_index
        t = load gx[i*64] : f32[64] store gy[0], t }
        mapping last { kernel: warps 2 }";
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("last.tile");
    fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap();
    let run = |data: &[&str]| {
        warplift(&[&["run", path, "--device", "sim", "--hazards", "warn", "--size", "n=512"], data].concat())
    };
    let (status, output) = run(&[]);
    assert!(output.contains("depends on their order") || output.contains("correct:"), "{output}");
    assert!(status != 1 && !output.contains("WRONG"), "{status} {output}");
    let (status, output) = run(&["--data", "x=zeros"]);
    assert!(status == 0 && output.contains("correct:"), "every block writes the same: {output}");
}

/// A kernel in a file, run in the simulator.
fn run_text(text: &str, data: &[&str]) -> (i32, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("k.tile");
    fs::write(&path, format!("{text}\nmapping k {{ kernel: warps 2 }}\n")).unwrap();
    let each: Vec<&str> = data.iter().flat_map(|d| ["--data", d]).collect();
    warplift(&[&["run", path.to_str().unwrap(), "--device", "sim"][..], &each].concat())
}

#[test]
fn sizes_of_views_may_come_from_memory() {
    let text = "kernel k(count: ptr<i32>, x: ptr<f32>, y: ptr<f32>, m: i32) { grid cdiv(m, 64)
        gc = view count : i32[1] c = reduce_max(load gc[0] : i32[1], 0)
        gx = view x : f32[c] gy = view y : f32[m] i = block_index
        store gy[i*64], (load gx[i*64] : f32[64]) + 1.0 }";
    for data in [&[][..], &["count=ints:100..=100"], &["count=zeros"]] {
        let (status, output) = run_text(text, data);
        assert!(status == 0 && output.contains("correct:"), "{data:?}: {output}");
    }
}

#[test]
fn random_places_and_scales_make_results_that_can_be_judged() {
    let scatter = "kernel k(index: ptr<i32>, x: ptr<f32>, y: ptr<f32>, n: i32) { grid n
        gi = view index : i32[n] gx = view x : f32[n] gy = view y : f32[n] i = block_index
        k = reduce_max(load gi[i] : i32[1], 0)
        store gy[k], load gx[i] : f32[1] }";
    let (status, output) = run_text(scatter, &[]);
    assert!(status == 0 && output.contains("of 4 elements"), "every place is written: {output}");
    let (status, output) = run_text(scatter, &["index=zeros"]);
    assert!(status == 2 && output.contains("several blocks write the same elements"), "{status}: {output}");
    let scaled = "kernel k(s: ptr<u8>, x: ptr<f32>, y: ptr<f32>, n: i32) { grid cdiv(n, 64)
        gs = view s : u8[n] gx = view x : f32[n] gy = view y : f32[n] i = block_index
        t = view_as(cast(load gs[i*64] : u8[64], i32) << 23, f32)
        store gy[i*64], t * (load gx[i*64] : f32[64]) }";
    let (status, output) = run_text(scaled, &[]);
    assert!(status == 0 && output.contains("correct:"), "{output}");
}

#[test]
fn sizes_by_default_are_as_the_mapping_assumes() {
    let mapping = "mapping axpy { kernel: warps 4 assume n % 48 }";
    let run = ["run", "axpy", "--mapping", mapping, "--device", "sim"];
    let (status, output) = warplift(&run);
    assert!(status == 0 && output.contains("correct:"), "{output}");
    let (status, output) = warplift(&[&run[..], &["--size", "n=516"]].concat());
    assert!(status == 2 && output.contains("48"), "{output}");
}
