//! Scalars of a tile that come from memory: the producer finds them, a tile ahead, and hands them on to the other roles.

use warplift::ir::machine::{RingData, RingFill};
use warplift::ir::target::SM90A;
use warplift::{Compiled, Options, compile};
use warplift_golden::described::{compiled, reference};
use warplift_golden::given::parsed;
use warplift_golden::orders::{MANY_ORDERS, ORDERS, right};

/// Rows of each group times the group's matrix. A search finds the group of a tile.
fn ragged(behind: &str, mapping: &str) -> String {
    format!(
        "kernel ragged(a: ptr<f16> align 16, b: ptr<f16> align 16, c: ptr<f16> align 16, offsets: ptr<i32>,
            factor: ptr<f32>, groups: i32 in 1.., rows: i32, n: i32 % 8, k: i32 % 8) {{
            grid cdiv(rows, 64) + groups, cdiv(n, 64)
            i, j = block_index
            go = view offsets : i32[groups + 1]
            gf = view factor : f32[groups]
            g, above = while carry low = 0, high = groups {{
                middle = (low + high) / 2
                at = load go[middle] : i32
                found = at / 64 + middle <= i
                next = select(found, middle, low)
                end = select(found, high, middle)
                yield end - next > 1, next, end
            }}
            begin = load go[g] : i32
            end = load go[g + 1] : i32
            row = max(begin, 0) + max(i - begin / 64 - g, 0) * 64
            all_b = view b : f16[groups, n, k]
            ga = view a : f16[rows, k]
            gb = subview all_b[g, _, _]
            gc = view c : f16[min(end, rows), n]
            zero = full 0.0 : f32[64, 64]
            steps = select(row < end, cdiv(k, 32), 0)
            acc = for t in 0..steps carry x = zero {{
                ta = load ga[row, t*32] : f16[64, 32]
                tb = load gb[j*64, t*32] : f16[64, 32]
                yield mma x, ta, trans(tb)
            }}
            {behind}
        }}
        mapping ragged {{ for t: pipeline fit, producers 1, consumers 1 kernel: {mapping} }}"
    )
}

const STORE: &str = "store gc[row, j*64], cast(acc, f16)";
const SCALED: &str = "by = load gf[g] : f32
            store gc[row, j*64], cast(acc * by, f16)";
/// Offsets of three groups: sorted, equal, one group alone, empty, and none that begins at 0.
const OFFSETS: [&str; 5] = ["0,70,71,200", "0,66,132,198", "0,0,200,200", "0,0,0,0", "30,40,130,131"];

/// What a text makes on all offsets is what the interpreter makes, on one program and on several.
fn right_on_all(text: &str) -> Compiled {
    let (kernel, mapping, made) = compiled(text);
    for offsets in OFFSETS {
        let data = [format!("offsets=list:{offsets}"), "factor=list:1,2,3".to_owned()];
        let data: Vec<&str> = data.iter().map(String::as_str).collect();
        let sizes = [("groups", 3), ("rows", 200), ("n", 72), ("k", 200)];
        let problem = reference(&kernel, &mapping, &sizes, &data);
        for programs in [1, 3] {
            right(&problem, &made, &ORDERS, (programs, 0.0), &format!("{offsets} {}", mapping.kernel));
        }
    }
    made
}

fn told(made: &Compiled) -> Option<&RingData> {
    made.explained.schedule.rings.values().find(|r| r.fill == RingFill::TileInfo)
}

/// The PTX of a role.
fn role<'p>(ptx: &'p str, name: &str, behind: &str) -> &'p str {
    let from = ptx.find(&format!("${name}:")).unwrap_or_else(|| panic!("no role {name}"));
    let rest = &ptx[from..];
    &rest[..rest.find(&format!("${behind}:")).unwrap_or(rest.len())]
}

#[test]
fn the_producer_searches_for_all_roles() {
    for words in [
        "persistent",
        "persistent, epilogue deferred",
        "persistent, raster counter",
        "persistent, raster counter, epilogue deferred",
        "persistent, pingpong 2",
        "persistent, no bulk_store",
    ] {
        let made = right_on_all(&ragged(STORE, words));
        let ring = told(&made).unwrap_or_else(|| panic!("{words}: each role searches"));
        // The group, and where it begins and ends.
        assert_eq!((ring.bytes, ring.depth), (12, 2), "{words}");
        let consumer = role(&made.ptx, "consumer", "producer");
        assert!(!consumer.contains("ld.global"), "{words}: {consumer}");
    }
}

/// The producer comes to what stands behind a tile's copies only when the others have read them: each role loads that itself,
/// by the number of the group, which it is told.
#[test]
fn what_stands_behind_the_copies_is_found_by_each_role() {
    for words in ["persistent", "persistent, raster counter"] {
        let made = right_on_all(&ragged(SCALED, words));
        assert_eq!(told(&made).map(|r| r.bytes), Some(12), "{words}");
        let consumer = role(&made.ptx, "consumer", "producer");
        assert_eq!(consumer.matches("ld.global").count(), 1, "{words}: {consumer}");
    }
}

#[test]
fn without_the_feature_or_a_loop_over_tiles_each_role_searches() {
    let (kernel, mapping) = parsed(&ragged(STORE, "persistent"));
    let disable = vec!["broadcast-tile-info".parse().expect("a feature")];
    let made = compile(&kernel, &mapping, &SM90A, &Options { disable, ..Options::default() });
    let made = made.unwrap_or_else(|e| panic!("{e}"));
    assert!(told(&made).is_none() && role(&made.ptx, "consumer", "producer").contains("ld.global"));
    assert!(told(&right_on_all(&ragged(STORE, "warps 4"))).is_none());
}

/// A branch whose scalars come from memory is one maker; a number of 64 bits, and what threads find together, are none.
#[test]
fn branches_are_handed_on_and_wide_numbers_are_not() {
    let text = |make: &str| {
        format!(
            "kernel pick(x: ptr<f16> align 16, w: ptr<f16> align 16, y: ptr<f16> align 16, own: ptr<i32>, wide: ptr<i64>,
                m: i32, k: i32 % 8) {{
                grid cdiv(m, 64)
                gx = view x : f16[m, k]
                gw = view w : f16[4, 64, k]
                gy = view y : f16[m, 64]
                go = view own : i32[cdiv(m, 64)]
                gi = view wide : i64[cdiv(m, 64)]
                i = block_index
                {make}
                zero = full 0.0 : f32[64, 64]
                acc = for t in 0..min(max(n, 0), cdiv(k, 32)) carry c = zero {{
                    tx = load gx[i*64, t*32] : f16[64, 32]
                    tw = load gw[0, 0, t*32] : f16[1, 64, 32]
                    yield mma c, tx, trans(reshape tw : f16[64, 32])
                }}
                store gy[i*64, 0], cast(acc, f16)
            }}
            mapping pick {{ for t: pipeline fit, producers 1, consumers 1 kernel: persistent }}"
        )
    };
    let branch = "a = load go[i] : i32
        n = if a > 1 {
            b = load go[i - 1] : i32
            yield b
        } else {
            yield a
        }";
    let wide = "a = load gi[i] : i64
        n = cast(select(a < 3, a, cast(2, i64)), i32)";
    for (make, words) in [(branch, Some(4)), (wide, None)] {
        let (kernel, mapping, made) = compiled(&text(make));
        assert_eq!(told(&made).map(|r| r.bytes), words, "{make}");
        for own in ["1,0,2,3", "-1,5,2,2", "0,0,0,0"] {
            let data = [format!("own=list:{own}"), format!("wide=list:{own}")];
            let data: Vec<&str> = data.iter().map(String::as_str).collect();
            let problem = reference(&kernel, &mapping, &[("m", 250), ("k", 72)], &data);
            right(&problem, &made, &MANY_ORDERS, (2, 0.0), own);
        }
    }
}

/// Programs take unequal tiles: none of the multiprocessors is left out. Equal ones come in even waves.
#[test]
fn unequal_tiles_have_as_many_programs_as_run_at_once() {
    let programs = |words: &str| {
        let (_, _, made) = compiled(&ragged(STORE, words));
        let names = [("rows", 64 * 197), ("groups", 3), ("n", 64), ("k", 64), ("sm_count", 132)];
        let of = |name: &str| names.iter().find(|n| n.0 == name).map(|n| n.1);
        made.manifest.grid[0].eval(&of).unwrap_or_else(|e| panic!("{e}"))
    };
    // 200 tiles: two waves of 100 would be even.
    assert_eq!(programs("persistent"), 132);
    assert_eq!(programs("persistent, raster paired"), 100);
}

/// What only copies need does not stand among the products: these stay in flight over an iteration.
#[test]
fn a_scalar_that_only_the_producer_loads_keeps_products_in_flight() {
    let text = |rows: &str| {
        format!(
            "kernel sparse(v: ptr<f16> align 16, column: ptr<i32>, starts: ptr<i32>, x: ptr<f16> align 16, y: ptr<f16> align 16,
                hits: ptr<i32>, rows: i32, count: i32, n: i32 % 8, k: i32 % 64) {{
                grid rows, cdiv(n, 64)
                gs = view starts : i32[rows + 1]
                gc = view column : i32[count] fill -1
                gv = view v : f16[count, 64, 64]
                gx = view x : f16[k, n]
                gy = view y : f16[rows * 64, n]
                gz = view hits : i32[4]
                i, j = block_index
                first = load gs[i] : i32
                behind = load gs[i + 1] : i32
                zero = full 0.0 : f32[64, 64]
                acc = for t in first..behind carry z = zero {{
                    c = load gc[t] : i32
                    ta = load gv[t, 0, 0] : f16[1, 64, 64]
                    tb = load gx[c*64, j*64] : f16[64, 64]
                    {rows}
                    yield mma z, reshape ta : f16[64, 64], tb
                }}
                store gy[i*64, j*64], cast(acc, f16)
            }}
            mapping sparse {{ for t: pipeline fit, producers 1, consumers 1 kernel: persistent }}"
        )
    };
    for (used, flies) in [("", true), ("atomic_add gz[c], full 1 : i32[1]", false)] {
        let text = text(used);
        let (kernel, mapping, made) = compiled(&text);
        let schedule = &made.explained.schedule;
        assert_eq!(schedule.in_flight.values().any(|&n| n > 0), flies, "{used}");
        let sizes = [("rows", 4), ("count", 6), ("n", 72), ("k", 256)];
        for (starts, column) in
            [("0,2,2,5,6", "3,0,1,-1,2,3"), ("0,0,0,0,6", "0,0,0,0,0,0"), ("5,1,9,2,0", "1,1,2,3,0,7")]
        {
            let data = [format!("starts=list:{starts}"), format!("column=list:{column}")];
            let data: Vec<&str> = data.iter().map(String::as_str).collect();
            let problem = reference(&kernel, &mapping, &sizes, &data);
            right(&problem, &made, &MANY_ORDERS, (2, 0.0), starts);
        }
    }
}

/// All other roles are told: epilogue warps, and the thread that copies for them alone.
#[test]
fn epilogue_warps_are_told_too() {
    let text =
        "kernel centre(x: ptr<f16> align 16, w: ptr<f16> align 16, y: ptr<f16> align 16, order: ptr<i32>,
            place: ptr<i32>, m: i32, rows: i32, n: i32 % 8 in 1..=512) {
        grid m
        go = view order : i32[m] fill -1
        gp = view place : i32[rows] fill -1
        gx = view x : f16[rows, n]
        gw = view w : f16[n]
        gy = view y : f16[m, n]
        i = block_index
        a = load go[i] : i32
        r = load gp[a] : i32
        none = full 0.0 : f32[1]
        sum = for t in 0..cdiv(n, 256) carry before = none {
            x1 = cast(load gx[r, t*256] : f16[1, 256], f32)
            yield before + reduce_sum(x1, 1)
        }
        mean = sum + cast(full r : i32[1], f32)
        for u in 0..cdiv(n, 256) {
            x2 = cast(load gx[r, u*256] : f16[1, 256], f32)
            tw = cast(load gw[u*256] : f16[256], f32)
            own = cast(full r : i32[1, 256], f32)
            store gy[i, u*256], cast((x2 - expand_dims(mean, 1)) * expand_dims(tw, 0) + own, f16)
        }
    }
    mapping centre { kernel: warps 4, persistent, epilogue warps array x: staged array w: staged }";
    let (kernel, mapping, made) = compiled(text);
    assert_eq!(told(&made).map(|r| (r.bytes, r.depth)), Some((8, 2)));
    assert!(!role(&made.ptx, "epilogue", "producer").contains("ld.global"), "{}", made.ptx);
    for data in [["order=ints:0..9", "place=ints:-2..9"], ["order=ints:-3..20", "place=zeros"]] {
        let problem = reference(&kernel, &mapping, &[("m", 11), ("rows", 9), ("n", 264)], &data);
        right(&problem, &made, &MANY_ORDERS, (2, 0.0), &format!("{data:?}"));
    }
}
