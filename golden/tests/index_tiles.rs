//! Tiles of indices in other forms: of two dimensions for a view of one, without a sign, and carried by a loop. Against the
//! interpreter, under many orders of events.

use warplift_golden::given::{Given, check};

/// Elements of a view of one dimension by a tile of two.
fn flat(ty: &str, statements: &str, warps: u32) -> String {
    format!(
        "kernel flat(p: ptr<i32>, x: ptr<{ty}>, y: ptr<{ty}>, z: ptr<{ty}>, n: i32, m: i32) {{
        tunable A = 8
        grid cdiv(m, A)
        gp = view p : i32[m, 32] fill -1
        gx = view x : {ty}[n]
        gy = view y : {ty}[m, 32]
        gz = view z : {ty}[n]
        i = block_index
        at = load gp[i*A, 0] : i32[A, 32]
        t = load gy[i*A, 0] : {ty}[A, 32]
        {statements}
    }}
    mapping flat {{ kernel: warps {warps} }}"
    )
}

/// Each place once, in another order, and some outside.
fn places(m: i32) -> Vec<i32> {
    (0..m * 32)
        .map(|p| if p % 13 == 5 { [-1, 700, i32::MIN][p as usize % 3] } else { p * 7 % (m * 32) })
        .collect()
}

#[test]
fn two_dimensions_of_a_view_of_one() {
    for m in [1, 19] {
        let at = places(m);
        let sizes = [("n", i64::from(m) * 32), ("m", m.into())];
        for ty in ["f32", "f16", "i64"] {
            for (statements, warps) in [
                ("store gy[i*A, 0], load gx[at] : TY[A, 32]", 4),
                ("store gz[at], t where at % 5 != 2", 2),
                ("atomic_add gz[at], t", 1),
                ("old = atomic_add gz[at], t : TY[A, 32] where at > 9 store gy[i*A, 0], old", 2),
                ("store gy[i*A, 0], (load gx[cast(at, u32)] : TY[A, 32] where at % 3 == 0) + t", 4),
            ] {
                let text = flat(ty, &statements.replace("TY", ty), warps);
                check(&text, &sizes, &[("p", Given::I32(&at))]);
            }
        }
    }
}

/// A column of indices grows along the rows; so does a scalar.
#[test]
fn what_is_smaller_grows() {
    let at = places(19);
    let statements = "row = slice(at, [0, 3]) : i32[A, 1]
        store gy[i*A, 0], (load gx[row + (iota 1 : i32[1, 32])] : f32[A, 32]) + t
        atomic_add gz[at], 2.0";
    check(&flat("f32", statements, 2), &[("n", 608), ("m", 19)], &[("p", Given::I32(&at))]);
}

/// A sum of rows of one array, whose indices count up.
fn summed(before: &str, carry: &str, next: &str, at: &str) -> String {
    format!(
        "kernel summed(x: ptr<f32> align 16, y: ptr<f32> align 16, n: i32, m: i32 % 4) {{
        tunable B = 256
        grid n
        gx = view x : f32[n, m]
        gy = view y : f32[n, B]
        i = block_index
        none = full 0.0 : f32[1, B]
        {before}
        s{last} = for t in 0..cdiv(m, B) carry a = none{carry} {{
            yield a + load gx[i, {at}] : f32[1, B]{next}
        }}
        store gy[i, 0], s
    }}
    mapping summed {{ kernel: warps 2 }}",
        last = if carry.is_empty() { "" } else { ", last" },
    )
}

#[test]
fn indices_that_count_up_are_rows() {
    let first = "first = iota 0 : i32[B]";
    let texts = [
        summed(first, "", "", "first + t*B"),
        summed(first, "", "", "cast(first, u32) + cast(t*B, u32)"),
        summed(first, "", "", "cast(first + t*B, u32)"),
        summed(first, ", at = first", ", at + B", "at"),
        summed(first, ", at = first", ", at + (full B : i32[B])", "at"),
        summed("first = cast(iota 0 : i32[B], u32)", ", at = first", ", at + 256", "at"),
        summed(first, ", at = first, c = 0", ", at + B, c + 1", "at").replace(", last", ", last, count"),
    ];
    for text in texts {
        for (n, m) in [(3, 1000), (2, 256), (1, 4), (2, 0)] {
            let made = check(&text, &[("n", n), ("m", m)], &[]);
            assert!(made.ptx.contains("ld.global.v4"), "{text}\n{}", made.ptx);
        }
    }
}

/// Below zero a sum without a sign is large, and comes back to the array where it wraps around.
#[test]
fn sums_without_a_sign_wrap_around() {
    for shift in ["t*B - 3", "t*B + 5", "5 - t*B"] {
        let at = format!("cast(first, u32) + cast({shift}, u32)");
        check(&summed("first = iota 0 : i32[B]", "", "", &at), &[("n", 2), ("m", 700)], &[]);
    }
}

/// Places in a table by its rows and its columns, for a tile of one dimension and for one of three; a scalar stands for all.
#[test]
fn places_in_views_of_other_ranks() {
    let text = "kernel pages(seq: ptr<TY>, pos: ptr<i32>, table: ptr<f32>, y: ptr<f32>, z: ptr<f32>, seqs: i32, most: i32, m: i32) {
        grid cdiv(m, 64)
        gs = view seq : TY[m] fill -1
        gp = view pos : i32[m] fill -1
        gt = view table : f32[seqs, most]
        gy = view y : f32[seqs, most]
        gz = view z : f32[m]
        i = block_index
        s = load gs[i*64] : TY[64]
        p = load gp[i*64] : i32[64]
        t = load gt[s, p / 4] : f32[64] where p >= 0
        first = load gt[s, 1] : f32[64]
        at = reshape (p / 4) : i32[2, 4, 8]
        three = load gt[reshape s : TY[2, 4, 8], at] : f32[2, 4, 8] where at >= 0
        atomic_add gy[s, p / 4], t where p >= 0
        store gz[i*64], t * 2.0 + first + reshape three : f32[64]
    }
    mapping pages { kernel: warps WARPS }";
    let seq: Vec<i32> = (0..150).map(|i| i * 7 % 23 - 2).collect();
    let wide: Vec<i64> = seq.iter().map(|&s| if s == 5 { 1 << 32 } else { s.into() }).collect();
    let pos: Vec<i32> = (0..150).map(|i| i * 11 % 37 - 1).collect();
    let sizes = [("seqs", 19), ("most", 8), ("m", 150)];
    for (ty, warps) in [("i32", "1"), ("i32", "4"), ("i64", "1"), ("i64", "4")] {
        let text = text.replace("TY", ty).replace("WARPS", warps);
        let given = if ty == "i64" { Given::I64(&wide) } else { Given::I32(&seq) };
        check(&text, &sizes, &[("seq", given), ("pos", Given::I32(&pos))]);
    }
}
