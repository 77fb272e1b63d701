//! Loops whose indices are loaded an iteration ahead, loops that run several iterations at once, both in several wordings, and
//! others that must stay as they are: as emitted, in the simulator against the interpreter.

use warplift::ir::target::SM90A;
use warplift::{Feature, Options, compile};
use warplift_golden::described::check;
use warplift_golden::given::parsed;

const SIZES: [(&str, i64); 3] = [("n", 19), ("e", 70), ("rows", 23)];
/// Ends of ranges that are in order, and such that are not; places within their arrays, and outside.
const DATA: [&str; 2] =
    ["offs=sorted:0..70 ids=ints:-3..30 next=ints:-2..75", "offs=ints:-9..90 ids=ints:0..23 next=ints:0..70"];

/// A kernel of a block for each of `n` ranges of `e` numbers; `body` yields what a row of 64 sums.
fn text(looped: &str, body: &str) -> String {
    format!(
        "kernel sums(x: ptr<f32> align 16, offs: ptr<i32>, ids: ptr<i32>, next: ptr<i32>, y: ptr<f32> align 16,
                     n: i32, e: i32, rows: i32) {{
            grid n
            gx = view x : f32[rows, 64]  go = view offs : i32[n + 1]
            gi = view ids : i32[e] fill -1  gn = view next : i32[e] fill -1
            gy = view y : f32[n, 64]
            i = block_index
            lo = load go[i] : i32
            hi = min(load go[i + 1] : i32, e)
            zero = full 0.0 : f32[64]
            lane = iota 0 : i32[8]
            sum = {looped} {{ {body} }}
            store gy[i, 0], expand_dims(sum, 0)
        }}
        mapping sums {{ kernel: warps 2 }}"
    )
}

/// Whether the feature changes what is emitted. The results are checked with it.
fn changes(feature: &str, looped: &str, body: &str) -> bool {
    let text = text(looped, body);
    // Contents are given of what is read.
    let reads = |given: &&str| {
        (!given.starts_with("ids") || body.contains("gi["))
            && (!given.starts_with("next") || body.contains("gn["))
    };
    let data = DATA.map(|d| d.split_whitespace().filter(reads).collect::<Vec<_>>().join(" "));
    let with = check(&text, &SIZES, &data.each_ref().map(String::as_str));
    let (kernel, mapping) = parsed(&text);
    let feature: Feature = feature.parse().expect("a feature");
    let options = Options { verify: true, disable: vec![feature], ..Options::default() };
    compile(&kernel, &mapping, &SM90A, &options).unwrap_or_else(|e| panic!("{e}")).ptx != with
}

const TILES: &str = "for t in 0..cdiv(hi - lo, 8) carry s = zero";
const EACH: &str = "for t in max(lo, 0)..hi carry s = zero";
const ROWS: &str = "yield s + reduce_sum(load gx[c, 0] : f32[8, 64] where expand_dims(at < hi, 1), 0)";

#[test]
fn indices_are_loaded_ahead() {
    let at = "at = lane + (lo + t*8)";
    for (looped, body) in [
        (TILES, format!("{at}  c = load gi[at] : i32[8] where at < hi  {ROWS}")),
        (TILES, format!("{at}  c = load gi[at] : i32[8]  {ROWS}")),
        (TILES, format!("{at}  c = load gi[lo + t*8] : i32[8]  {ROWS}")),
        // A chain, of tiles and of scalars.
        (TILES, format!("{at}  b = load gn[at] : i32[8] where at < hi  c = load gi[b] : i32[8]  {ROWS}")),
        (EACH, "c = load gi[load gn[t] : i32] : i32  yield s + reshape (load gx[c, 0] : f32[1, 64]) : f32[64]".into()),
        (EACH, "c = load gi[t] : i32  yield s + reshape (load gx[c, 0] : f32[1, 64]) : f32[64]".into()),
        // Steps, other arithmetic on what was loaded, an inner loop that takes it, a branch around the row.
        ("for t in 0..e step 9 carry s = zero", "c = load gi[t] : i32  yield s + reshape (load gx[c*2 - 1, 0] : f32[1, 64]) : f32[64]".into()),
        (EACH, "c = load gi[t] : i32  u = for v in 0..3 carry a = s { yield a + reshape (load gx[c + v, 0] : f32[1, 64]) : f32[64] }  yield u".into()),
        (EACH, "c = load gi[t] : i32  u = if c > 4 { yield s + reshape (load gx[c, 0] : f32[1, 64]) : f32[64] } else { yield s }  yield u".into()),
        // The index is added up too, and what a promise says of it stays where it is.
        (EACH, "c = load gi[t] : i32  yield s + cast(c, f32) + reshape (load gx[c, 0] : f32[1, 64]) : f32[64]".into()),
        (EACH, "c = load gi[t] : i32  assume c in -9..99  yield s + reshape (load gx[c, 0] : f32[1, 64]) : f32[64]".into()),
        // A loop in a loop.
        ("for o in 0..3 carry z = zero", format!("w = {TILES} {{ {at}  c = load gi[at] : i32[8] where at < hi - o  {ROWS} }}  yield z + w")),
    ] {
        assert!(changes("prefetch-indices", looped, &body), "{looped} {body}");
    }
}

#[test]
fn others_stay() {
    for (looped, body) in [
        // The place of the index is what the iteration before found, or does not move.
        (
            "if n > 0",
            "r, w = for t in 0..4 carry r0 = i, s = zero { c = load gn[r0] : i32  yield c, s + reshape (load gx[c, 0] : f32[1, 64]) : f32[64] }  yield w } else { yield zero",
        ),
        (EACH, "c = load gi[i] : i32  yield s + reshape (load gx[c + t, 0] : f32[1, 64]) : f32[64]"),
        // Nothing is loaded at it.
        (EACH, "c = load gi[t] : i32  yield s + cast(c, f32)"),
        // A promise stands before the index.
        (
            EACH,
            "assume t in 0..70  u = t*2  assume u in 0..140  c = load gi[u] : i32  yield s + reshape (load gx[c, 0] : f32[1, 64]) : f32[64]",
        ),
        // One iteration alone.
        (
            "for t in 0..1 carry s = zero",
            "c = load gi[t + i] : i32  yield s + reshape (load gx[c, 0] : f32[1, 64]) : f32[64]",
        ),
    ] {
        assert!(!changes("prefetch-indices", looped, body), "{looped} {body}");
    }
}

const ROW: &str = "yield s + reshape (load gx[c, 0] : f32[1, 64]) : f32[64]";

#[test]
fn iterations_run_at_once() {
    for (looped, body) in [
        (EACH, format!("c = load gi[t] : i32  {ROW}")),
        ("for t in max(lo, 0)..hi step 3 carry s = zero", format!("c = load gi[t] : i32  {ROW}")),
        // The bounds are not in order, and begin below the array.
        ("for t in lo..hi carry s = zero", format!("c = load gi[t] : i32  {ROW}")),
        // Not a sum, and what a quotient by a constant says.
        (EACH, "c = load gi[t] : i32  yield max(s, reshape (load gx[c / 2, 0] : f32[1, 64]) : f32[64])".into()),
        (EACH, "c = load gi[t] : i32  yield s * 0.5 + cast(c % 7, f32)".into()),
        // A mask of the text, a chain, a tile of places.
        (EACH, "c = load gi[t] : i32  yield s + reshape (load gx[c, 0] : f32[1, 64] where (iota 1 : i32[1, 64]) < c * 3) : f32[64]".into()),
        (EACH, format!("b = load gn[t] : i32  c = load gi[b] : i32  {ROW}")),
        (TILES, "at = (iota 0 : i32[64]) + (lo + t*8)  yield s + cast(load gi[at] : i32[64] where at < hi, f32)".into()),
        // A loop in a loop.
        ("for o in 0..3 carry z = zero", format!("w = {EACH} {{ c = load gi[t + o] : i32  {ROW} }}  yield z + w")),
    ] {
        assert!(changes("unrolled-loads", looped, &body), "{looped} {body}");
    }
}

#[test]
fn iterations_follow_each_other() {
    for (looped, body) in [
        // Arguments or numbers say how many there are.
        ("for t in 0..e carry s = zero", format!("c = load gi[t] : i32  {ROW}")),
        // Threads work together in each.
        (TILES, format!("at = lane + (lo + t*8)  c = load gi[at] : i32[8] where at < hi  {ROWS}")),
        // A promise, a divisor that may be zero, a loop inside.
        (EACH, format!("assume t in 0..70  c = load gi[t] : i32  {ROW}")),
        (EACH, format!("c = load gi[t / (hi - lo)] : i32  {ROW}")),
        // Each load waits for the iteration before, or none is there.
        (
            "if n > 0",
            "r, w = for t in 0..hi carry r0 = i, s = zero { c = load gn[r0] : i32  yield c, s + cast(c, f32) }  yield w } else { yield zero".to_owned(),
        ),
        (EACH, "yield s + cast(t, f32)".to_owned()),
    ] {
        assert!(!changes("unrolled-loads", looped, &body), "{looped} {body}");
    }
}

/// Ends near the greatest integer, and numbers that come past the end: an iteration that is not meant changes nothing, reads nothing and
/// ends the loop.
#[test]
fn ends_are_where_they_are() {
    let text = |looped: &str| {
        format!(
            "kernel count(s: ptr<i32>, ids: ptr<i32>, y: ptr<i32>, n: i32) {{
                grid 1
                gs = view s : i32[2]  gi = view ids : i32[8] fill 3  gy = view y : i32[1]
                lo = load gs[0] : i32
                hi = load gs[1] : i32
                sum = for t in lo..hi{looped} carry v = n {{ yield v + (load gi[t] : i32) + 1 }}
                store gy[0], full sum : i32[1]
            }}
            mapping count {{ kernel: warps 1 }}"
        )
    };
    for (looped, ends) in [
        ("", "2147483640,2147483647"),
        ("", "7,-3"),
        ("", "-4,9"),
        (" step 500000000", "-2000000000,1900000000"),
    ] {
        let data = format!("s=list:{ends} ids=ints:0..9");
        check(&text(looped), &[("n", 2)], &[&data]);
    }
}

/// Values of which none can be kept by a select.
#[test]
fn iterations_that_may_not_run_once_more_do_not() {
    let any = "kernel any(s: ptr<i32>, x: ptr<f32>, y: ptr<f32>, n: i32) {
        grid 1
        gs = view s : i32[1]  gx = view x : f32[8, 64]  gy = view y : f32[1, 64]
        hi = min(load gs[0] : i32, 8)
        found = for t in 0..hi carry v = full false : bool[1, 64] { yield v | ((load gx[t, 0] : f32[1, 64]) > 0.5) }
        store gy[0, 0], cast(found, f32)
    }
    mapping any { kernel: warps 1 }";
    check(any, &[("n", 2)], &["s=list:5"]);
}
