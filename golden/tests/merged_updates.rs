//! Rows that are updated by indices: neighbours with one index are one update. Against the interpreter, under many orders of
//! events.

use warplift_golden::given::{Given, check};

/// Rows of a tile go to places of another array.
fn rows(ty: &str, op: &str, warps: u32) -> String {
    format!(
        "kernel rows(x: ptr<{ty}> align 16, at: ptr<i32>, y: ptr<{ty}> align 16, m: i32, s: i32, d: i32 % 4) {{
        tunable BM = 8, BD = COLUMNS
        grid cdiv(m, BM), cdiv(d, BD)
        gx = view x : {ty}[m, d]
        ga = view at : i32[m] fill -1
        gy = view y : {ty}[s, d]
        i, j = block_index
        place = load ga[i*BM] : i32[BM]
        t = load gx[i*BM, j*BD] : {ty}[BM, BD]
        atomic_{op} gy[place, j*BD], t
    }}
    mapping rows {{ kernel: warps {warps} }}"
    )
    .replace("COLUMNS", if ty.ends_with("16") { "256" } else { "128" })
}

/// Runs of all lengths, some outside the array, and indices that change with every row.
fn places(m: i32, kind: u32) -> Vec<i32> {
    let one = |r: i32| match kind {
        0 => r / 5,
        1 => [3, 3, -1, 7, 7, 7, 2, 3][r as usize % 8],
        2 => r * 11 % 9 - 1,
        _ => 4,
    };
    (0..m).map(one).collect()
}

#[test]
fn neighbours_with_one_index_are_one_update() {
    let updates =
        [("f32", "add"), ("i32", "add"), ("f32", "max"), ("u32", "min"), ("f16", "add"), ("bf16", "max")];
    for (ty, op) in updates {
        for (m, d, warps) in [(8, 128, 1), (19, 132, 2), (1, 4, 4)] {
            for kind in if (ty, op) == ("f32", "add") { 0..4 } else { 1..2 } {
                let at = places(m, kind);
                let sizes = [("m", m.into()), ("s", 12), ("d", d)];
                check(&rows(ty, op, warps), &sizes, &[("at", Given::I32(&at))]);
            }
        }
    }
}

/// Four rows of a thread make one update without a condition, and three under one.
#[test]
fn a_thread_has_the_rows_of_a_group() {
    let at = places(37, 0);
    let made = check(&rows("f32", "add", 1), &[("m", 37), ("s", 12), ("d", 128)], &[("at", Given::I32(&at))]);
    let updates = made.ptx.matches("red.global.add.v4.f32").count();
    assert_eq!(updates, 8, "{}", made.ptx);
    assert!(!made.ptx.contains("shfl") && !made.ptx.contains("st.shared"), "{}", made.ptx);
}

/// Masks, orders, single elements and rows along another dimension are updated as they are written.
#[test]
fn other_updates_are_right_too() {
    let at = places(37, 1);
    let sizes = [("m", 37), ("s", 12), ("d", 128)];
    let text = rows("f32", "add", 2);
    for (from, to) in [
        ("gy[place, j*BD], t", "gy[place, j*BD], t where t > 0.0"),
        ("gy[place, j*BD], t", "gy[place, j*BD], t order release"),
        ("gy[place, j*BD], t", "gy[iota 0 : i32[BM], j*BD], t"),
        ("gy[place, j*BD], t", "gy[place & 3, j*BD + (iota 0 : i32[BD])], t"),
        ("gy[place, j*BD], t", "gy[expand_dims(place, 1) + ((iota 1 : i32[BM, BD]) & 1), j*BD], t"),
        (
            "atomic_add gy[place, j*BD], t",
            "atomic_add gy[5, place & 15], trans(slice(t, [0, 0]) : f32[BM, 1])",
        ),
    ] {
        assert!(text.contains(from), "{from}");
        check(&text.replace(from, to), &sizes, &[("at", Given::I32(&at))]);
    }
}
