//! Launches worked out and refused, without a device.

use super::*;

fn manifest() -> Manifest {
    let text = r#"{
        "version": 1, "kernel": "gemm", "entry": "gemm_0", "target": "sm_90a",
        "arguments": [
            {"name": "a", "type": "ptr<f16>"},
            {"name": "c", "type": "ptr<f16>", "written": true},
            {"name": "alpha", "type": "f32"},
            {"name": "m", "type": "i32"}, {"name": "k", "type": "i32"}],
        "params": [
            {"kind": "tensor_map", "base": "a", "element": "f16", "dims": ["k", "m"],
             "strides": ["k * 2"], "box": [64, 128], "swizzle": 128, "l2_promotion": 128},
            {"kind": "argument", "name": "c"}, {"kind": "argument", "name": "alpha"},
            {"kind": "argument", "name": "m"}, {"kind": "workspace"}],
        "grid": ["min(cdiv(m, 128) * 2, sm_count)", "1", "1"], "cluster": [2, 1, 1],
        "block": 384, "dynamic_shared": 200000, "workspace": "4 * m", "roles": [],
        "facts": [
            {"fact": "aligned", "name": "a", "align": 16},
            {"fact": "multiple", "name": "k", "of": 8},
            {"fact": "range", "name": "m", "min": 0, "max": 1048576}]
    }"#;
    serde_json::from_str(text).unwrap()
}

fn pointer(address: u64) -> Arg {
    Arg::Pointer { address, bytes: None }
}

fn args(m: i32, k: i32) -> Vec<Arg> {
    vec![pointer(0x1000), pointer(0x2000), 0.5f32.into(), m.into(), k.into()]
}

fn refused(args: &[Arg]) -> String {
    plan(&manifest(), args, 132).unwrap_err().to_string()
}

#[test]
fn a_launch_is_worked_out() {
    let plan = plan(&manifest(), &args(1000, 64), 132).unwrap();
    assert_eq!((plan.grid, plan.workspace), ([16, 1, 1], 4000));
    let PlannedParam::TensorMap(map) = &plan.params[0] else {
        panic!("{:?}", plan.params[0]);
    };
    assert_eq!((map.dims.as_slice(), map.strides.as_slice()), (&[64, 1000][..], &[128][..]));
    assert_eq!(plan.params[1], PlannedParam::Bytes(0x2000u64.to_le_bytes()));
    let mut half = [0; 8];
    half[..4].copy_from_slice(&0.5f32.to_le_bytes());
    assert_eq!(plan.params[2], PlannedParam::Bytes(half));
    assert_eq!(plan.params[4], PlannedParam::Workspace(0));
}

#[test]
fn an_empty_grid_launches_nothing() {
    let plan = plan(&manifest(), &args(0, 64), 132).unwrap();
    assert!(plan.is_empty() && plan.params.is_empty());
}

#[test]
fn an_empty_tensor_stands_on_spare_memory() {
    let plan = plan(&manifest(), &args(256, 0), 132).unwrap();
    let PlannedParam::EmptyTensor { request, written } = &plan.params[0] else {
        panic!("{:?}", plan.params[0]);
    };
    assert_eq!((request.dims.as_slice(), *written), (&[1, 1][..], false));
    assert_eq!(request.check(), Ok(()));
}

#[test]
fn refusals_name_argument_value_and_requirement() {
    let mut misaligned = args(8, 8);
    misaligned[0] = pointer(0x1008);
    let mut wrong = args(8, 8);
    wrong[2] = 3.into();
    let mut wide = args(8, 8);
    wide[3] = (1i64 << 31).into();
    let mut short = args(128, 64);
    short[0] = Arg::Pointer { address: 0x1000, bytes: Some(16383) };
    let table = [
        (refused(&args(8, 12)), "argument `k` = 12 must be a multiple of 8"),
        (
            refused(&args(-1, 8)),
            "argument `m` = -1 must be in 0..=1048576; if negative numbers are meant, the signature says so: `m: i32 in LO..HI`",
        ),
        (refused(&misaligned), "argument `a` = 0x1008 must be aligned to 16 bytes"),
        (refused(&args(8, 8)[1..]), "`gemm` takes 5 arguments (a, c, alpha, m, k), 4 were given"),
        (refused(&wrong), "argument `alpha` is f32, Int(3) was given"),
        (refused(&wide), "argument `m` = 2147483648 does not fit i32"),
        (refused(&short), "tensor map over `a`: the tensor covers 16384 bytes, the buffer has 16383"),
    ];
    for (message, expected) in table {
        assert_eq!(message, expected);
    }
}

#[test]
fn grids_keep_their_limits() {
    let mut odd = manifest();
    odd.grid[0] = "cdiv(m, 128)".parse().unwrap();
    let message = plan(&odd, &args(384, 8), 132).unwrap_err().to_string();
    assert!(message.contains("3 blocks in x") && message.contains("2 blocks a cluster"));
    odd.grid[1] = "m * 100".parse().unwrap();
    let message = plan(&odd, &args(1024, 8), 132).unwrap_err().to_string();
    assert_eq!(message, "grid in y is 102400; the limit is 65535");
    odd.grid[1] = "div(m, k - 8)".parse().unwrap();
    let message = plan(&odd, &args(1024, 8), 132).unwrap_err().to_string();
    assert!(message.starts_with("grid in y: expression"), "{message}");
}

#[test]
fn inconsistent_manifests_are_errors() {
    let mut bad = manifest();
    bad.params[1] = Param::Argument { name: "nobody".into() };
    assert!(plan(&bad, &args(128, 8), 132).unwrap_err().to_string().contains("`nobody`"));
    bad = manifest();
    bad.facts = vec![Fact::Multiple { name: "k".into(), of: 0 }];
    assert!(plan(&bad, &args(128, 8), 132).is_err());
    let value = "m * k".parse().unwrap();
    bad.facts = vec![Fact::Limit { what: "the area".into(), value, min: 0, max: 1024 }];
    assert!(plan(&bad, &args(128, 8), 132).is_ok());
    let message = plan(&bad, &args(256, 8), 132).unwrap_err().to_string();
    assert_eq!(message, "the area is 2048 (`(m * k)`); it must be in 0..=1024");
    bad = manifest();
    assert_eq!(check_manifest(&bad, 232_448), Ok(()));
    bad.dynamic_shared = 232_449;
    let message = check_manifest(&bad, 232_448).unwrap_err().to_string();
    assert_eq!(message, "dynamic shared memory is 232449; the limit is 232448");
    bad.version = 99;
    assert_eq!(check_manifest(&bad, 0), Err(LaunchError::Version { found: 99 }));
}

#[test]
fn scalars_of_every_width() {
    let declare = |ty: &str| Argument {
        name: "x".into(),
        ty: ty.into(),
        written: false,
        before_wait: false,
        packing: None,
    };
    let bits = |ty: &str, arg: Arg| encode(&declare(ty), &arg).map(u64::from_le_bytes).ok();
    assert_eq!(bits("i8", (-1).into()), Some(u64::MAX));
    assert_eq!(bits("u64", u64::MAX.into()), Some(u64::MAX));
    assert_eq!(bits("u64", (-1).into()), None);
    assert_eq!(bits("i64", i64::MIN.into()), Some(1 << 63));
    assert_eq!(bits("bool", true.into()), Some(1));
    assert_eq!(bits("bool", 2.into()), None);
    assert_eq!(bits("f16", 1.0.into()), Some(0x3c00));
    assert_eq!(bits("bf16", 1.0.into()), Some(0x3f80));
    assert_eq!(bits("i65", 0.into()), None);
    for (ty, bytes) in [("i6", 1), ("u16", 2), ("i33", 8), ("ptr<f32>", 8), ("bf16", 2)] {
        assert_eq!(value_bytes(ty), Some(bytes), "{ty}");
    }
}

/// The hand-made kernels that `examples/launch_check.rs` runs on a GPU.
#[test]
fn test_kernels_plan_their_launches() {
    let copy: Manifest = serde_json::from_str(include_str!("testdata/copy2d.json")).unwrap();
    let p = pointer(1 << 20);
    let planned = plan(&copy, &[p, p, 100.into(), 200.into()], 132).unwrap();
    assert_eq!((planned.grid, planned.workspace), ([4, 2, 1], 8));
    let sizes: Vec<_> = copy.params.iter().map(|q| param_bytes(&copy, q)).collect();
    assert_eq!(sizes, [Some(128), Some(128), Some(8)]);
    let axpy: Manifest = serde_json::from_str(include_str!("testdata/axpy.json")).unwrap();
    let planned = plan(&axpy, &[p, p, 1.5.into(), 257.into()], 132).unwrap();
    assert_eq!((planned.grid, planned.params.len()), ([2, 1, 1], 4));
}
