//! Compare-and-swap: where an element is what is expected, a new one takes its place. Against the interpreter, under eight
//! orders of events.

use warplift::ir::tile::parse_file;
use warplift_golden::described;
use warplift_golden::given::{Given, check};

/// Each element with its own place, some outside, under a mask, with a type that may be unsigned.
const EACH: &str =
    "kernel each(g: ptr<TYPE>, at: ptr<i32> align 16, e: ptr<TYPE> align 16, x: ptr<TYPE> align 16,
        old: ptr<TYPE> align 16, n: i32, m: i32) {
        tunable B = 64
        grid cdiv(m, B)
        gg = view g : TYPE[n]
        ga = view at : i32[m] fill -1
        ge = view e : TYPE[m]
        gx = view x : TYPE[m]
        go = view old : TYPE[m]
        i = block_index
        place = load ga[i*B] : i32[B]
        expected = load ge[i*B] : TYPE[B]
        new = load gx[i*B] : TYPE[B]
        was = atomic_cas gg[place], expected, new : TYPE[B] where place % 5 != 3
        store go[i*B], was
    }
    mapping each { kernel: warps WARPS }";

#[test]
fn elements_change_where_they_are_expected() {
    // Every place once, in another order, and some outside.
    let at: Vec<i32> = (0..150)
        .map(|i| if i % 11 == 0 { [-1, 150, i32::MAX][i as usize % 3] } else { i * 7 % 150 })
        .collect();
    for ty in ["i32", "u32"] {
        for warps in ["1", "4"] {
            let text = EACH.replace("TYPE", ty).replace("WARPS", warps);
            let [e, g] = [3, 2].map(|m| (0..150).map(|i| i % m - 1).collect::<Vec<i32>>());
            let given = [("at", Given::I32(&at)), ("e", Given::I32(&e)), ("g", Given::I32(&g))];
            check(&text, &[("n", 150), ("m", 150)], &given);
        }
    }
}

/// Blocks that want one place: one of them gets it. A loop that tries again computes any update.
const CONTENDED: &str =
    "kernel contended(x: ptr<i32>, most: ptr<i32>, lock: ptr<i32>, won: ptr<i32>, m: i32) {
        grid m
        gx = view x : i32[m]
        gm = view most : i32[1]
        gl = view lock : i32[1]
        gw = view won : i32[2]
        i = block_index
        v = load gx[i] : i32
        free = full 0 : i32[1]
        taken = full 1 : i32[1]
        was = atomic_cas gl[0], free, taken : i32[1]
        mine = reduce_max(was, 0) == 0
        atomic_add gw[0], full select(mine, 1, 0) : i32[1]
        last, tries = while carry seen = 0, tries = 0 {
            before = full seen : i32[1]
            then = full max(seen, v * v % 97) : i32[1]
            there = atomic_cas gm[0], before, then : i32[1]
            found = reduce_max(there, 0)
            yield (found != seen) & (tries < 1000), found, tries + 1
        }
        atomic_add gw[1], full select(last < 0, 1, 0) : i32[1]
    }
    mapping contended { kernel: WORDS }";

#[test]
fn one_of_many_blocks_wins_and_a_loop_tries_again() {
    for words in ["warps 1", "warps 4", "persistent, warps 2"] {
        let text = CONTENDED.replace("WORDS", words);
        let x: Vec<i32> = (0..23).map(|i| 31 * i % 50).collect();
        let zero = [0i32];
        let given = [
            ("x", Given::I32(&x)),
            ("most", Given::I32(&zero)),
            ("lock", Given::I32(&zero)),
            ("won", Given::I32(&[0, 0])),
        ];
        let compiled = check(&text, &[("m", 23)], &given);
        assert!(compiled.ptx.contains("atom.global.cas.b32"), "{}", compiled.ptx);
    }
}

/// Updates of one element by scalars, with and without the scalar that was there.
#[test]
fn scalars_update_one_element() {
    let text = "kernel scalars(x: ptr<i32>, most: ptr<i32>, sum: ptr<f32>, wide: ptr<i64>, n: i32) {
            grid n
            gx = view x : i32[n]
            gm = view most : i32[2, 3]
            gs = view sum : f32[1]
            gw = view wide : i64[2]
            v = load gx[block_index] : i32
            atomic_max gm[1, 2], v
            atomic_add gs[0], 0.5
            atomic_add gs[0], 2.0 order release
            place = atomic_add gm[0, 1], 1 : i32
            atomic_add gm[0, 0], place * place
            before = atomic_add gw[1], cast(v, i64) : i64
            atomic_max gw[0], before + cast(v, i64)
            none, tries, seen = while carry again = 0, tries = 0, seen = 0 {
                there = atomic_cas gm[0, 2], seen, max(seen, v * v % 97) : i32
                yield (there != seen) & (tries < 1000), again, tries + 1, there
            }
            outside = atomic_add gm[2, 0], 1 : i32
            atomic_add gm[1, 0], outside
        }
        mapping scalars { kernel: warps 2 }";
    let x: Vec<i32> = (0..23).map(|i| 31 * i % 50).collect();
    let given = [("x", Given::I32(&x)), ("most", Given::I32(&[0; 6])), ("wide", Given::I64(&[0, 1 << 40]))];
    let compiled = check(text, &[("n", 23)], &given);
    assert!(
        compiled.ptx.contains("red.") && compiled.ptx.contains("atom.global.cas.b32"),
        "{}",
        compiled.ptx
    );
}

#[test]
fn what_cannot_be_compared_is_said() {
    let text = |ty: &str, statement: &str| {
        format!("kernel f(y: ptr<{ty}>) {{ grid 1 gy = view y : {ty}[4] z = full 1 : i32[4] t = full ONE : {ty}[4] {statement} }}")
            .replace("ONE", if ty == "f64" { "1.0" } else { "1" })
    };
    for (ty, statement, why) in [
        ("i32", "atomic_cas gy[0], t, t", "atomic_cas"),
        ("f64", "o = atomic_cas gy[0], t, t : f64[4]", "integers, f32, f16 or bf16"),
        ("u32", "o = atomic_cas gy[0], z, t : u32[4]", "u32[4]"),
        ("i32", "o = atomic_cas gy[0], t : i32[4]", ","),
        ("i32", "o = atomic_add gy[0], 1 : f32", "the type of its operand"),
        ("i32", "o = atomic_add gy[0], 1.5 : i32", "the tile is f32[1]"),
    ] {
        let text = text(ty, statement);
        let error = parse_file(&text, "f.tile").expect_err(&text).to_string();
        assert!(error.contains(why), "{statement}: {error}");
    }
}

/// Halves have no instruction for these updates: a column, or a single element, of which a thread has one.
#[test]
fn columns_of_halves_change() {
    for ty in ["f16", "bf16"] {
        for (op, extents) in [("atomic_max", [64, 1]), ("atomic_min", [1, 1]), ("atomic_exchange", [128, 1])]
        {
            let text = "kernel column(x: ptr<TYPE> align 16, at: ptr<i32>, y: ptr<TYPE> align 16, n: i32) {
                grid cdiv(n, ROWS)
                gx = view x : TYPE[n, 1]
                ga = view at : i32[n] fill -1
                gy = view y : TYPE[n, 1]
                i = block_index
                OP gy[load ga[i*ROWS] : i32[ROWS], 0], load gx[i*ROWS, 0] : TYPE[ROWS, 1]
            }
            mapping column { kernel: warps WARPS }";
            let rows = extents[0].to_string();
            let text = text.replace("OP", op).replace("TYPE", ty).replace("ROWS", &rows);
            for warps in ["1", "4", "8"] {
                described::check(&text.replace("WARPS", warps), &[("n", 130)], &["at=perm"]);
            }
        }
    }
}
