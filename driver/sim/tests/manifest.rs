//! Launches from a manifest: sizes, facts, tensor maps, and mistakes named.

use warplift_manifest::Manifest;
use warplift_sim::{Arg, Memory, Options, SimError, launch_from_manifest, parse, run};

const PTX: &str = include_str!("ptx/gemm_ws.ptx");

const MANIFEST: &str = r#"{
  "version": 1, "kernel": "gemm", "entry": "gemm", "target": "sm_90a",
  "arguments": [
    {"name": "a", "type": "ptr<f16>"}, {"name": "b", "type": "ptr<f16>"},
    {"name": "c", "type": "ptr<f16>", "written": true},
    {"name": "m", "type": "i32"}, {"name": "n", "type": "i32"}, {"name": "k", "type": "i32"},
    {"name": "tiles_m", "type": "u32"}, {"name": "tiles", "type": "u32"},
    {"name": "depth", "type": "u32"}],
  "params": [
    {"kind": "tensor_map", "base": "a", "element": "f16", "dims": ["k", "m"],
     "strides": ["k * 2"], "box": [64, 128], "swizzle": 128, "l2_promotion": 256},
    {"kind": "tensor_map", "base": "b", "element": "f16", "dims": ["k", "n"],
     "strides": ["k * 2"], "box": [64, 64], "swizzle": 128, "l2_promotion": 256},
    {"kind": "tensor_map", "base": "c", "element": "f16", "dims": ["n", "m"],
     "strides": ["n * 2"], "box": [64, 64], "swizzle": 128, "l2_promotion": 0},
    {"kind": "argument", "name": "tiles_m"}, {"kind": "argument", "name": "tiles"},
    {"kind": "argument", "name": "depth"}],
  "grid": ["min(tiles, sm_count)", "1", "1"], "cluster": [1, 1, 1], "block": 384,
  "dynamic_shared": 90160, "workspace": "0", "roles": [],
  "facts": [{"fact": "aligned", "name": "a", "align": 16},
            {"fact": "multiple", "name": "k", "of": 8},
            {"fact": "range", "name": "m", "min": 1, "max": 65536}]
}"#;

/// Runs `a = b = 1` with these sizes and an offset of `a`; the first element of C.
fn ones(m: i64, k: i64, offset: u64, drop: &str) -> Result<f32, SimError> {
    let module = parse(PTX).expect("parses");
    let manifest: Manifest = serde_json::from_str(MANIFEST).expect("a manifest");
    let mut memory = Memory::new();
    let one = half::f16::ONE.to_le_bytes();
    let fill = |n: usize| one.iter().copied().cycle().take(2 * n).collect::<Vec<u8>>();
    let a = memory.alloc("a", fill(512 * 512 + 64));
    let b = memory.alloc("b", fill(64 * 512));
    let c = memory.alloc_poisoned("c", 512 * 64 * 2);
    let tiles = m.div_euclid(128) + i64::from(m.rem_euclid(128) != 0);
    let args = [
        ("a", Arg::Pointer(a, offset)),
        ("b", Arg::Pointer(b, 0)),
        ("c", Arg::Pointer(c, 0)),
        ("m", Arg::Int(m)),
        ("n", Arg::Int(64)),
        ("k", Arg::Int(k)),
        ("tiles_m", Arg::Int(tiles)),
        ("tiles", Arg::Int(tiles)),
        ("depth", Arg::Int((k + 63) / 64)),
    ];
    let args: Vec<_> = args.into_iter().filter(|(n, _)| *n != drop).collect();
    let launch = launch_from_manifest(&module, &manifest, &args, &mut memory, 2)?;
    run(&launch, &mut memory, &Options::default())?;
    let bytes = memory.bytes(c);
    Ok(half::f16::from_le_bytes([bytes[0], bytes[1]]).to_f32())
}

#[test]
fn a_manifest_launches() {
    assert_eq!(ones(300, 72, 0, "").unwrap(), 72.0);
}

/// What a launch of one block says whose manifest asks for so much; nothing is allocated for it.
fn refused(grid: &str, workspace: &str) -> String {
    let ptx =
        ".version 8.4\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 w)\n{\nret;\n}\n";
    let text = format!(
        r#"{{"version": 1, "kernel": "k", "entry": "k", "target": "sm_90a", "arguments": [],
        "params": [{{"kind": "workspace"}}], "grid": ["{grid}", "1", "1"], "cluster": [1, 1, 1], "block": 32,
        "dynamic_shared": 0, "workspace": "{workspace}", "roles": [], "facts": []}}"#
    );
    let manifest: Manifest = serde_json::from_str(&text).expect("a manifest");
    let module = parse(ptx).expect("parses");
    let mut memory = Memory::new();
    let launch = launch_from_manifest(&module, &manifest, &[], &mut memory, 2);
    let ran = launch.and_then(|l| run(&l, &mut memory, &Options::default()));
    ran.map_or_else(|e| e.to_string(), |r| format!("{} blocks", r.blocks))
}

#[test]
fn limits_are_told_before_anything_is_allocated() {
    assert_eq!(refused("3", "4096"), "3 blocks");
    let grid = refused("1000000000", "4096");
    assert!(grid.contains("1000000000 x 1 x 1") && grid.contains("4194304"), "{grid}");
    let workspace = refused("1", "8589934592");
    assert!(workspace.contains("8589934592") && workspace.contains("1073741824"), "{workspace}");
}

#[test]
fn broken_facts_and_arguments_are_named() {
    for (m, k, offset, drop, part) in [
        (300, 71, 0, "", "`k` is 71, no multiple of 8"),
        (0, 64, 0, "", "`m` is 0, not from 1 to 65536"),
        (300, 64, 8, "", "not aligned to 16"),
        (300, 64, 0, "c", "`c` is missing"),
        (300, 64, 0, "tiles", "tiles"),
    ] {
        let e = ones(m, k, offset, drop).unwrap_err().to_string();
        assert!(e.contains(part), "{e}");
    }
}
