//! Arrays in shared memory that hand tiles to products: rings written by hand, in the ways in which frontends write them. Each
//! is compiled, simulated and compared with the interpreter, which keeps the arrays.

use warplift_golden::described::{check, compiled};

/// A product over tiles of `64 x 64`, with these arrays and stores in front of the loop, and this as its body. `carried` is what
/// the loop carries beside the sum.
fn product(before: &str, carried: &str, body: &str) -> String {
    format!(
        "kernel k(a: ptr<f16> align 16, b: ptr<f16> align 16, c: ptr<f32> align 16, m: i32 % 8, n: i32 % 8, d: i32 % 8) {{
            grid cdiv(m, 64), cdiv(n, 64)
            ga = view a : f16[m, d]
            gb = view b : f16[n, d]
            gc = view c : f32[m, n]
            i, j = block_index
            zero = full 0.0 : f32[64, 64]
            trips = cdiv(d, 64)
            {before}
            acc{results} = for t in 0..trips carry x = zero{carried} {{
                {body}
            }}
            store gc[i*64, j*64], acc
        }}
        mapping k {{ for t: pipeline fit, producers 1, consumers 1 }}",
        results = carried.matches('=').enumerate().map(|(n, _)| format!(", r{n}")).collect::<String>(),
    )
}

/// Right for several depths; the PTX of the compiled text.
fn right(text: &str) -> String {
    let mut ptx = String::new();
    for d in [8, 64, 128, 200, 448] {
        ptx = check(text, &[("m", 72), ("n", 64), ("d", d)], &[""]);
    }
    ptx
}

/// Right, and all tiles come by tensor copies.
fn becomes_values(what: &str, text: &str) {
    let ptx = right(text);
    let copies = ptx.matches("cp.async.bulk.tensor").count();
    assert!(copies >= 2, "{what}: {copies} tensor copies");
    assert!(!ptx.contains("st.shared.v4") && !ptx.contains("ld.global"), "{what}: threads copy");
}

const STAGED: &str = "sa = shared f16[2, 64, 64]
    sb = shared f16[2, 64, 64]
    store sa[0, 0, 0], reshape load ga[i*64, 0] : f16[64, 64] : f16[1, 64, 64]
    store sb[0, 0, 0], reshape load gb[j*64, 0] : f16[64, 64] : f16[1, 64, 64]";

/// Stores the tiles of iteration `t + ahead` in a stage.
fn stores(stage: &str, ahead: u32) -> String {
    format!(
        "store sa[{stage}, 0, 0], reshape load ga[i*64, (t + {ahead})*64] : f16[64, 64] : f16[1, 64, 64]
         store sb[{stage}, 0, 0], reshape load gb[j*64, (t + {ahead})*64] : f16[64, 64] : f16[1, 64, 64]"
    )
}

/// The product of the tiles in a stage.
fn reads(stage: &str) -> String {
    format!(
        "la = reshape load sa[{stage}, 0, 0] : f16[1, 64, 64] : f16[64, 64]
         lb = reshape load sb[{stage}, 0, 0] : f16[1, 64, 64] : f16[64, 64]
         y = mma x, la, trans(lb)"
    )
}

const ONE: &str = "sa = shared f16[64, 64]  sb = shared f16[64, 64]";
const STORE_ONE: &str = "store sa[0, 0], load ga[i*64, t*64] : f16[64, 64]
    store sb[0, 0], load gb[j*64, t*64] : f16[64, 64]";

#[test]
fn one_buffer() {
    let reads = "yield mma x, load sa[0, 0] : f16[64, 64], trans(load sb[0, 0] : f16[64, 64])";
    becomes_values("one", &product(ONE, "", &format!("{STORE_ONE} {reads}")));
    let parts = "y = mma x, load sa[0, 0] : f16[64, 32], trans(load sb[0, 0] : f16[64, 32])
        yield mma y, load sa[0, 32] : f16[64, 32], trans(load sb[0, 32] : f16[64, 32])";
    becomes_values("parts", &product(ONE, "", &format!("{STORE_ONE} {parts}")));
    let steps = "y = for h in 0..4 carry z = x {
            yield mma z, load sa[0, h*16] : f16[64, 16], trans(load sb[0, h*16] : f16[64, 16])
        }
        yield y";
    becomes_values("steps", &product(ONE, "", &format!("{STORE_ONE} {steps}")));
    let turned = "store sa[0, 0], load ga[i*64, t*64] : f16[64, 64]
        store sb[0, 0], trans(load gb[j*64, t*64] : f16[64, 64])
        yield mma x, load sa[0, 0] : f16[64, 64], load sb[0, 0] : f16[64, 64]";
    becomes_values("turned", &product(ONE, "", turned));
}

#[test]
fn two_buffers() {
    let (next, now) = (stores("(t + 1) % 2", 1), reads("t % 2"));
    becomes_values("stores first", &product(STAGED, "", &format!("{next} {now} yield y")));
    becomes_values("reads first", &product(STAGED, "", &format!("{now} {next} yield y")));
    let bits = format!("{} {} yield y", stores("(t + 1) & 1", 1), reads("t & 1"));
    becomes_values("bits", &product(STAGED, "", &bits));
    for guard in ["t + 1 < trips", "t < trips - 1", "trips > t + 1", "(t + 1) * 64 < d", "t + 1 != trips"] {
        let guarded = format!("if {guard} {{ {next} }} {now} yield y");
        becomes_values(guard, &product(STAGED, "", &guarded));
    }
    for (other, after) in
        [("1 - s", "other"), ("s ^ 1", "(s + 1) % 2"), ("(s + 1) % 2", "select(s == 1, 0, 1)")]
    {
        let text = format!("other = {other} {} {} yield y, {after}", stores("other", 1), reads("s"));
        becomes_values(other, &product(STAGED, ", s = 0", &text));
    }
}

/// Rows of one array are the stages; a loop fills the first ones.
#[test]
fn three_stages() {
    let before = "sa = shared f16[192, 64]  sb = shared f16[192, 64]
        for p in 0..2 {
            store sa[p*64, 0], load ga[i*64, p*64] : f16[64, 64]
            store sb[p*64, 0], load gb[j*64, p*64] : f16[64, 64]
        }";
    let text = |now: &str, next: &str, end: &str| {
        format!(
            "store sa[{next}, 0], load ga[i*64, (t + 2)*64] : f16[64, 64]
             store sb[{next}, 0], load gb[j*64, (t + 2)*64] : f16[64, 64]
             y = mma x, load sa[{now}, 0] : f16[64, 64], trans(load sb[{now}, 0] : f16[64, 64])
             yield y{end}"
        )
    };
    becomes_values("remainders", &product(before, "", &text("t % 3 * 64", "(t + 2) % 3 * 64", "")));
    let wrapped = ", select(s + 1 == 3, 0, s + 1), select(z == 128, 0, z + 64)";
    becomes_values("circles", &product(before, ", s = 0, z = 128", &text("s * 64", "z", wrapped)));
}

/// The last iteration stands behind the loop.
#[test]
fn what_a_loop_stored_is_read_behind_it() {
    let text = product(STAGED, "", &format!("{} {} yield y", stores("(t + 1) % 2", 1), reads("t % 2")));
    let text = text
        .replace("trips = cdiv(d, 64)", "trips = max(cdiv(d, 64) - 1, 0)")
        .replace("acc = for", "part = for")
        .replace(
            "store gc",
            &format!(
                "{} store gc",
                reads("trips % 2").replace("mma x", "mma part").replace("y = ", "acc = ")
            ),
        );
    becomes_values("peeled", &text);
}

/// What is converted or computed before it is stored comes from threads, but needs no array either.
#[test]
fn computed_tiles() {
    let text = product(
        ONE,
        "",
        "store sa[0, 0], (load ga[i*64, t*64] : f16[64, 64]) * 2.0
         store sb[0, 0], load gb[j*64, t*64] : f16[64, 64]
         yield mma x, load sa[0, 0] : f16[64, 64], trans(load sb[0, 0] : f16[64, 64])",
    );
    becomes_values("computed", &text);
}

/// Arrays of which it is not known what is read stay: with the reason, and right.
#[test]
fn what_is_not_known_stays() {
    let (next, now) = (stores("(t + 1) % 2", 1), reads("t % 2"));
    let zeros = STAGED.replace("load ga[i*64, 0] : f16[64, 64]", "(full 0.0 : f16[64, 64])");
    let filled = "sa = shared f16[2, 64, 64]  sb = shared f16[2, 64, 64]
        store sa[0, 0, 0], full 0.0 : f16[2, 64, 64]
        store sb[0, 0, 0], full 0.0 : f16[2, 64, 64]";
    let both = format!(
        "{STAGED} store sa[1, 0, 0], full 1.0 : f16[1, 64, 64]  store sb[1, 0, 0], full 1.0 : f16[1, 64, 64]"
    );
    let twice = format!(
        "{next} {now} y1 = mma y, reshape load sa[(t + 1) % 2, 0, 0] : f16[1, 64, 64] : f16[64, 64], trans(lb) yield y1"
    );
    let sum = "store sa[0, 0], load ga[i*64, t*64] : f16[64, 64]
        store sb[0, 0], load gb[j*64, t*64] : f16[64, 64]
        store sb[0, 0], full 1.0 : f16[64, 16]
        yield mma x, load sa[0, 0] : f16[64, 64], trans(load sb[0, 0] : f16[64, 64])";
    let cases = [
        ("its first iterations read", product(&zeros, "", &format!("{next} {now} yield y"))),
        ("may leave out", product(&both, "", &format!("if t + 2 < trips {{ {next} }} {now} yield y"))),
        ("crosses the border of a stage", product(filled, "", &format!("{next} {now} yield y"))),
        ("several iterations read", product(STAGED, "", &twice)),
        ("what several stores left", product(ONE, "", sum)),
    ];
    for (why, text) in cases {
        right(&text);
        let remarks: Vec<String> =
            compiled(&text).2.explained.lints.iter().map(ToString::to_string).collect();
        assert!(
            remarks.iter().any(|r| r.contains("in shared memory") && r.contains(why)),
            "{why}: {remarks:?}"
        );
    }
}

/// What an array keeps for several iterations is read behind the stores before it, also where `mma.sync` multiplies beside a
/// producer: the order of a schedule knows no such arrays.
#[test]
fn arrays_that_stay_are_read_behind_their_stores() {
    let body = "store sa[0, 0], (load ga[i*64, t*64] : f16[64, 64]) * 0.5
        store sa[t % 4, 0], full 0.0 : f16[1, 64]
        y = mma x, load sa[0, 0] : f16[64, 64], trans(load gb[j*64, t*64] : f16[64, 64])
        yield y";
    let text = product("sa = shared f16[64, 64]", "", body)
        .replace("consumers 1 }", "consumers 1 kernel: products mma_sync }");
    assert!(right(&text).contains("mma.sync"), "{text}");
}
