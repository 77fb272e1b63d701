//! Scalars from memory as indices, bounds, extents, trip counts and conditions: against the interpreter, under eight orders
//! of events, with adversarial data.

use warplift::kernels::find;
use warplift_golden::given::{Given, check, has_producer, made, parsed, problem};
use warplift_golden::orders::{MANY_ORDERS, right};

/// One, and no number, as halves.
const ONE: u16 = 0x3c00;
const NAN: u16 = 0x7e00;

/// One scalar of each type, each in another use.
#[test]
fn scalars_are_indices_bounds_extents_trips_and_conditions() {
    let text = |ty: &str| {
        format!(
            "kernel uses(x: ptr<f32> align 16, s: ptr<{ty}>, y: ptr<f32> align 16, n: i32 % 4, m: i32) {{
            grid m
            gx = view x : f32[n]
            gs = view s : {ty}[m] fill -1
            i = block_index
            at = load gs[i] : {ty}
            next = load gs[i + 1] : {ty}
            part = view x : f32[min(cast(next, i32), n)]
            t = load gx[at] : f32[128]
            u = load part[i*128] : f32[128]
            stop = select(next < 6, next, 6)
            s1 = for k in 0..stop carry a = t {{ yield a + 1.0 }}
            r = if at > 1 {{ yield s1 + u }} else {{ yield s1 - u }}
            gy = view y : f32[m, 128]
            store gy[i, 0], reshape r : f32[1, 128] }}
            mapping uses {{ kernel: warps 2 }}"
        )
    };
    let wide: [&[i64]; 4] = [
        &[0, 3, 7, 1, 4],
        &[-5, -1, -300, 2, -128],
        &[1 << 32, (1 << 32) + 3, -(1 << 32), i64::MAX - 1, i64::MAX],
        &[i64::MIN, -7, i64::MIN + 4, -(1 << 31) - 1, i64::from(i32::MIN)],
    ];
    for at in wide {
        check(&text("i64"), &[("n", 600), ("m", 5)], &[("s", Given::I64(at))]);
    }
    for at in [[0, 3, 7, 1, 4], [-5, -1, -300, 2, i32::MIN], [599, 600, 601, i32::MAX, i32::MAX]] {
        check(&text("i32"), &[("n", 600), ("m", 5)], &[("s", Given::I32(&at))]);
    }
}

/// Bytes and halves are compared with constants on either side and with each other, as flags of blocks are.
#[test]
fn narrow_scalars_are_compared() {
    let text = |ty: &str, condition: &str| {
        format!(
            "kernel flags(x: ptr<f32> align 16, s: ptr<{ty}>, y: ptr<f32> align 16, m: i32) {{
            grid m
            gx = view x : f32[m, 128]
            gs = view s : {ty}[m] fill 1
            gy = view y : f32[m, 128]
            i = block_index
            a = load gs[i] : {ty}
            b = load gs[i + 1] : {ty}
            t = load gx[i, 0] : f32[1, 128]
            r = if {condition} {{ yield t + 1.0 }} else {{ yield t * 2.0 }}
            store gy[i, 0], r }}
            mapping flags {{ kernel: warps 1 }}"
        )
    };
    let given = |ty: &str| match ty {
        "u8" => Given::Bytes(&[0, 255, 1, 128, 127, 1]),
        _ => Given::F16(&[ONE, NAN, 0xbc00, 0x2e66, 0x3dcd, 0x7bff]),
    };
    let right = |ty: &str, condition: &str| {
        check(&text(ty, condition), &[("m", 6)], &[("s", given(ty))]);
    };
    for comparison in ["==", "!=", "<", "<=", ">", ">="] {
        for (ty, one) in [("u8", "1"), ("f16", "1.0"), ("bf16", "1.0")] {
            for [x, y] in [["a", one], [one, "a"], ["a", "b"]] {
                right(ty, &format!("{x} {comparison} {y}"));
            }
        }
    }
    right("u8", "(a > 0) & (b != 255) & (a <= b)");
    // 0.1 is rounded to the type before it is compared: two of the halves are what it is then.
    for ty in ["f16", "bf16"] {
        for condition in ["a < 0.1", "a >= 0.1", "0.1 == a", "a != -0.1"] {
            right(ty, condition);
        }
    }
}

/// Floats fill both halves of their register; a load outside gives the fill.
#[test]
fn scalars_of_all_types_are_loaded() {
    for (ty, fill) in [
        ("f32", "-2.5"),
        ("f16", "1.5"),
        ("bf16", "0.0"),
        ("i32", "-7"),
        ("u32", "9"),
        ("i64", "-3"),
        ("u64", "0"),
    ] {
        let used = match ty {
            "f32" => "s",
            "i64" | "u64" => "cast(cast(s, i32), f32)",
            _ => "cast(s, f32)",
        };
        let text = format!(
            "kernel types(x: ptr<{ty}>, y: ptr<f32> align 16, m: i32) {{
            grid m
            gx = view x : {ty}[m, 3] fill {fill}
            i = block_index
            s = load gx[i - 1, 2] : {ty}
            gy = view y : f32[m, 64]
            store gy[i, 0], full {used} : f32[1, 64] }}
            mapping types {{ kernel: warps 1 }}"
        );
        check(&text, &[("m", 4)], &[]);
    }
}

/// A product whose groups of rows begin and end where an array says.
const GROUPED: &str = "kernel grouped(
        a: ptr<f16> align 16, b: ptr<f16> align 16, c: ptr<f16> align 16,
        group: ptr<i32>, first: ptr<i32>, offsets: ptr<i32>,
        tiles: i32, groups: i32, rows: i32, n: i32 % 8, k: i32 % 8) {
        tunable BM = 64, BN = 64, BK = 64
        grid tiles, cdiv(n, BN)
        i, j = block_index
        gg = view group : i32[tiles] fill -1
        gf = view first : i32[tiles]
        go = view offsets : i32[groups + 1]
        g = load gg[i] : i32
        row = load gf[i] : i32
        end = min(load go[g + 1] : i32, rows)
        all_b = view b : f16[groups, n, k]
        ga = view a : f16[rows, k]
        gb = subview all_b[g, _, _]
        gc = view c : f16[select(g < 0, 0, end), n]
        zero = full 0.0 : f32[BM, BN]
        steps = select(g < 0, 0, cdiv(k, BK))
        acc = for t in 0..steps carry x = zero {
            ta = load ga[row, t*BK] : f16[BM, BK]
            tb = load gb[j*BN, t*BK] : f16[BN, BK]
            y = mma x, ta, trans(tb)
            yield y
        }
        store gc[row, j*BN], cast(acc, f16)
    }
    mapping grouped { for t: pipeline 3, producers 1, consumers 1 kernel: persistent }";

/// The tiles of groups with these offsets, and tiles of no group.
fn tiles(offsets: &[i32], none: usize) -> (Vec<i32>, Vec<i32>) {
    let (mut group, mut first) = (Vec::new(), Vec::new());
    for (g, ends) in (0..).zip(offsets.windows(2)) {
        for row in (ends[0]..ends[1]).step_by(64) {
            group.push(g);
            first.push(row);
        }
    }
    group.resize(group.len() + none, -1);
    first.resize(group.len(), 0);
    (group, first)
}

#[test]
fn a_grouped_product_keeps_its_producer_and_is_right_on_any_groups() {
    let sizes =
        |tiles: usize| [("tiles", tiles as i64), ("groups", 4), ("rows", 300), ("n", 136), ("k", 200)];
    for (offsets, none, reversed) in [
        ([0, 75, 150, 225, 300], 0, false),
        ([0, 0, 0, 0, 300], 2, false),
        ([0, 300, 300, 300, 300], 1, true),
        ([0, 1, 64, 129, 290], 3, true),
        ([0, 0, 0, 0, 0], 3, false),
    ] {
        let (mut group, mut first) = tiles(&offsets, none);
        if reversed {
            group.reverse();
            first.reverse();
        }
        let given =
            [("group", Given::I32(&group)), ("first", Given::I32(&first)), ("offsets", Given::I32(&offsets))];
        let compiled = check(GROUPED, &sizes(group.len()), &given);
        assert!(has_producer(&compiled));
    }
}

/// Rows between groups are nobody's: what they hold stays out of every result.
#[test]
fn neighbours_of_a_group_may_hold_nan() {
    let (group, first) = (vec![0, 1, 2], vec![0, 100, 200]);
    let mut a = vec![NAN; 300 * 72];
    for (begin, count) in [(0, 40), (100, 3), (200, 64)] {
        a[begin * 72..(begin + count) * 72].fill(ONE);
    }
    let (kernel, mapping) = parsed(GROUPED);
    let sizes = [("tiles", 3), ("groups", 4), ("rows", 300), ("n", 64), ("k", 72)];
    // Each group ends behind its own rows; the next begins elsewhere.
    let offsets = [0, 40, 103, 264, 300];
    let given = [
        ("a", Given::F16(&a)),
        ("group", Given::I32(&group)),
        ("first", Given::I32(&first)),
        ("offsets", Given::I32(&offsets)),
    ];
    let problem = problem(&kernel, &mapping, &sizes, &given);
    let compiled = made(&kernel, &mapping);
    right(&problem, &compiled, &MANY_ORDERS, (2, 0.0), "neighbours");
    let (found, _) = problem
        .simulate(&compiled.ptx, &compiled.manifest, &warplift::sim::Options::default(), 2)
        .unwrap_or_else(|e| panic!("{e}"));
    let finite = |at: usize| found[2][2 * at + 1] & 0x7c != 0x7c;
    for row in (0..40).chain(100..103).chain(200..264) {
        assert!((0..64).all(|column| finite(row * 64 + column)), "row {row}");
    }
}

/// Groups, rows and offsets that no caller would mean: no access leaves its view.
#[test]
fn bad_groups_give_what_the_interpreter_gives() {
    let given = [
        ("group", Given::I32(&[0, 7, -9, i32::MAX, 1])),
        ("first", Given::I32(&[-64, 0, 64, 128, 1 << 30])),
        ("offsets", Given::I32(&[0, -5, i32::MAX, 9, i32::MIN])),
    ];
    check(GROUPED, &[("tiles", 5), ("groups", 4), ("rows", 70), ("n", 72), ("k", 72)], &given);
}

/// Pages of a cache: the coordinates of the loop's copies come from memory, an iteration of it ahead.
const PAGED: &str = "kernel paged(x: ptr<f16> align 16, w: ptr<f16> align 16, y: ptr<f32> align 16,
        table: ptr<TYPE>, length: ptr<TYPE>, batch: i32, most: i32, pages: i32) {
        tunable BM = 64, BN = 64, BK = 64
        grid batch
        b = block_index
        gt = view table : TYPE[batch, most] fill -1
        gl = view length : TYPE[batch]
        gx = view x : f16[batch, BM, BK]
        cache = view w : f16[pages, BN, BK]
        own = subview gx[b, _, _]
        gy = view y : f32[batch, BM, BN]
        part = subview gy[b, _, _]
        count = load gl[b] : TYPE
        tx = load own[0, 0] : f16[BM, BK]
        zero = full 0.0 : f32[BM, BN]
        acc = for t in 0..cast(count, i32) carry s = zero {
            at = load gt[b, t] : TYPE
            page = subview cache[at, _, _]
            tw = load page[0, 0] : f16[BN, BK]
            r = mma s, tx, trans(tw)
            yield r
        }
        store part[0, 0], acc
    }
    mapping paged { for t: pipeline 4, producers 1, consumers 1 kernel: persistent }";

#[test]
fn pages_keep_the_producer_and_the_ring() {
    let sizes = [("batch", 3), ("most", 5), ("pages", 6)];
    let narrow = PAGED.replace("TYPE", "i32");
    for (length, table) in [
        ([5, 0, 2], [0, 1, 2, 3, 4, 5, 5, 5, 5, 5, 4, 3, -1, -1, -1]),
        ([1, 5, -4], [3; 15]),
        ([5, 5, 5], [6, -1, i32::MAX, i32::MIN, 0, 1, 9, 2, 8, 3, 5, 4, 3, 2, 1]),
    ] {
        let given = [("length", Given::I32(&length)), ("table", Given::I32(&table))];
        let compiled = check(&narrow, &sizes, &given);
        assert!(has_producer(&compiled));
    }
    let wide = PAGED.replace("TYPE", "i64");
    let table: Vec<i64> = [6, -1, i64::MAX, i64::MIN, 1 << 32, 1, 9, 2, 8, 3, 5, 4, 3, 2, 1].to_vec();
    let given = [("length", Given::I64(&[5, 5, 1])), ("table", Given::I64(&table))];
    assert!(has_producer(&check(&wide, &sizes, &given)));
}

/// Blocks of a product that an array leaves out: the condition stands in both roles.
#[test]
fn a_branch_on_a_loaded_scalar_keeps_the_producer() {
    let text =
        "kernel sparse(a: ptr<f16> align 16, b: ptr<f16> align 16, c: ptr<f32> align 16, mask: ptr<i32>,
            m: i32, n: i32 % 8, k: i32 % 8) {
        tunable BM = 64, BN = 64, BK = 64
        grid cdiv(m, BM), cdiv(n, BN)
        i, j = block_index
        ga = view a : f16[m, k]
        gb = view b : f16[n, k]
        gc = view c : f32[m, n]
        gm = view mask : i32[cdiv(m, BM), cdiv(k, BK)]
        zero = full 0.0 : f32[BM, BN]
        acc = for t in 0..cdiv(k, BK) carry x = zero {
            kept = load gm[i, t] : i32
            y = if kept != 0 {
                ta = load ga[i*BM, t*BK] : f16[BM, BK]
                tb = load gb[j*BN, t*BK] : f16[BN, BK]
                z = mma x, ta, trans(tb)
                yield z
            } else {
                yield x
            }
            yield y
        }
        store gc[i*BM, j*BN], acc
    }
    mapping sparse { for t: pipeline 3, producers 1, consumers 1 kernel: persistent }";
    for mask in [[1; 12], [0; 12], [1, 0, 0, 1, 0, 1, -1, 0, 0, 0, 7, 1]] {
        let sizes = [("m", 136), ("n", 72), ("k", 200)];
        let compiled = check(text, &sizes, &[("mask", Given::I32(&mask))]);
        assert!(has_producer(&compiled));
    }
}

/// The producer cannot repeat a load of what the kernel writes. A remark says so, and the result is right.
#[test]
fn scalars_that_the_kernel_writes_are_loaded_by_the_threads_that_compute() {
    let text = PAGED.replace("TYPE", "i32").replace(
        "        store part[0, 0], acc\n",
        "        store part[0, 0], acc\n        store gl[b], full count : i32[1]\n",
    );
    let given = [("length", Given::I32(&[5, 0, 2])), ("table", Given::I32(&[1; 15]))];
    let compiled = check(&text, &[("batch", 3), ("most", 5), ("pages", 6)], &given);
    assert!(!has_producer(&compiled));
    let why = "`load v[i] : i32` of an array that it only reads mends it";
    let remarks = &compiled.explained.schedule.remarks;
    assert!(remarks.iter().any(|r| r.contains(why)), "{remarks:?}");
}

/// Pages of 64 rows, with the library's second mapping.
#[test]
fn attention_reads_small_pages() {
    let module = find("attention_paged").and_then(|t| t.parse().ok()).unwrap_or_else(|| panic!("no kernel"));
    let (kernel, mapping) = (&module.kernels[0], &module.mappings[1]);
    let sizes = [
        ("batch", 2),
        ("queries", 70),
        ("heads", 2),
        ("kv_heads", 1),
        ("pages", 6),
        ("page", 64),
        ("most", 4),
    ];
    let table = [5, 0, 3, 6, 2, 1, -1, i32::MAX];
    let given = [("table", Given::I32(&table)), ("lengths", Given::I32(&[200, 129]))];
    let compiled = made(kernel, mapping);
    assert!(has_producer(&compiled));
    let problem = problem(kernel, mapping, &sizes, &given);
    right(&problem, &compiled, &MANY_ORDERS, (2, 2e-2), "pages of 64");
}

/// The cache of keys and values that no sequence wrote holds NaN: a weight of zero times NaN is NaN, so the rows past a
/// sequence's end must come as zeros.
#[test]
fn unused_rows_of_a_page_may_hold_nan() {
    let module = find("attention_paged").and_then(|t| t.parse().ok()).unwrap_or_else(|| panic!("no kernel"));
    let (kernel, mapping) = (&module.kernels[0], &module.mappings[1]);
    let (page, width, lengths, table) = (64, 128, [100, 1, 64], [3, 1, 5, -1, 0, 7]);
    let sizes = [
        ("batch", 3),
        ("queries", 5),
        ("heads", 1),
        ("kv_heads", 1),
        ("pages", 6),
        ("page", 64),
        ("most", 2),
    ];
    let mut cache = vec![NAN; 6 * page * width];
    for (b, &length) in lengths.iter().enumerate() {
        for key in 0..length as usize {
            let row = table[2 * b + key / page] as usize * page + key % page;
            cache[row * width..][..width].fill(ONE);
        }
    }
    let given = || {
        [
            ("k", Given::F16(&cache)),
            ("v", Given::F16(&cache)),
            ("table", Given::I32(&table)),
            ("lengths", Given::I32(&lengths)),
        ]
    };
    let compiled = made(kernel, mapping);
    assert!(has_producer(&compiled));
    let problem = problem(kernel, mapping, &sizes, &given());
    right(&problem, &compiled, &MANY_ORDERS, (2, 2e-2), "pages with NaN");
    let (found, _) = problem
        .simulate(&compiled.ptx, &compiled.manifest, &warplift::sim::Options::default(), 2)
        .unwrap_or_else(|e| panic!("{e}"));
    // Every value is one, so every average of values is.
    assert!(found[3].chunks(2).all(|v| (0x3bf0..=0x3c10).contains(&u16::from_le_bytes([v[0], v[1]]))));
}

/// Products over the rows of a group: the depth begins and ends where an array says.
const DEPTHS: &str = "kernel depths(
        x: ptr<f16> align 16, y: ptr<f16> align 16, c: ptr<f32> align 16, offsets: ptr<i32>,
        groups: i32, rows: i32, m: i32 % 8, n: i32 % 8) {
        tunable BM = 64, BN = 64, BK = 64
        grid cdiv(m, BM), cdiv(n, BN), groups
        i, j, g = block_index
        go = view offsets : i32[groups + 1]
        first = max(load go[g] : i32, 0)
        end = min(max(load go[g + 1] : i32, 0), rows)
        gx = view x : f16[end, m]
        gy = view y : f16[end, n]
        all = view c : f32[groups, m, n]
        gc = subview all[g, _, _]
        zero = full 0.0 : f32[BM, BN]
        acc = for t in 0..cdiv(max(end - first, 0), BK) carry s = zero {
            tx = load gx[first + t*BK, i*BM] : f16[BK, BM]
            ty = load gy[first + t*BK, j*BN] : f16[BK, BN]
            r = mma s, trans(tx), ty
            yield r
        }
        store gc[i*BM, j*BN], acc
    }
    mapping depths { for t: pipeline 3, producers 1, consumers 1 kernel: persistent }";

#[test]
fn a_depth_from_memory_keeps_tensor_copies() {
    for offsets in [
        [0, 75, 150, 225, 300],
        [0, 0, 0, 0, 300],
        [0, 1, 64, 129, 299],
        [7, 3, 200, 400, 1 << 30],
        [i32::MIN, 64, -1, 300, i32::MAX],
    ] {
        let sizes = [("groups", 4), ("rows", 300), ("m", 72), ("n", 136)];
        let compiled = check(DEPTHS, &sizes, &[("offsets", Given::I32(&offsets))]);
        assert!(has_producer(&compiled));
        assert!(!compiled.ptx.contains("cp.async.ca") && !compiled.ptx.contains("cp.async.cg"));
    }
}

/// The neighbours along the depth are NaN in both operands.
#[test]
fn neighbours_along_the_depth_may_hold_nan() {
    let (m, n, rows, offsets) = (64, 64, 300, [0, 75, 80, 224, 300]);
    let (kernel, mapping) = parsed(DEPTHS);
    let mut x = vec![ONE; rows * m];
    x[75 * m..80 * m].fill(NAN);
    x[224 * m..].fill(NAN);
    let given = [("offsets", Given::I32(&offsets)), ("x", Given::F16(&x)), ("y", Given::F16(&x))];
    let sizes = [("groups", 4), ("rows", rows as i64), ("m", m as i64), ("n", n as i64)];
    let problem = problem(&kernel, &mapping, &sizes, &given);
    let compiled = made(&kernel, &mapping);
    right(&problem, &compiled, &MANY_ORDERS, (2, 0.0), "neighbours along the depth");
    let (found, _) = problem
        .simulate(&compiled.ptx, &compiled.manifest, &warplift::sim::Options::default(), 2)
        .unwrap_or_else(|e| panic!("{e}"));
    let sums: Vec<f32> = found[2].chunks(4).map(|v| f32::from_le_bytes([v[0], v[1], v[2], v[3]])).collect();
    for (group, depth) in [(0, 75.0), (2, 144.0)] {
        assert!(sums[group * m * n..][..m * n].iter().all(|&s| s == depth), "group {group}");
    }
    for group in [1, 3] {
        assert!(sums[group * m * n..][..m * n].iter().all(|s| s.is_nan()), "group {group}");
    }
}

/// Results of a group are stored by tensor copies that end with it.
#[test]
fn rows_of_a_group_are_stored_by_tensor_copies() {
    let text = GROUPED.replace("row = load gf[i] : i32", "row = max(load gf[i] : i32, 0)");
    for offsets in [[0, 75, 150, 225, 300], [0, 1, 64, 129, 290], [0, 64, 64, 64, 300]] {
        let (group, first) = tiles(&offsets, 1);
        let given =
            [("group", Given::I32(&group)), ("first", Given::I32(&first)), ("offsets", Given::I32(&offsets))];
        let sizes = [("tiles", group.len() as i64), ("groups", 4), ("rows", 300), ("n", 136), ("k", 200)];
        let compiled = check(&text, &sizes, &given);
        assert!(compiled.ptx.contains("cp.async.bulk.tensor.3d.global.shared::cta"));
        assert!(!compiled.ptx.contains("st.global"));
    }
    let compiled = check(&text, &[("tiles", 2), ("groups", 1), ("rows", 0), ("n", 8), ("k", 8)], &[]);
    assert!(compiled.ptx.contains("cp.async.bulk.tensor.3d.global.shared::cta"));
}

/// What keeps tensor copies from such a view, each with what mends it.
#[test]
fn what_tensor_copies_cannot_reach_is_said() {
    for (from, to, why) in [
        ("first = max(load go[g] : i32, 0)", "first = load go[g] : i32", "`max(row, 0)` mends that"),
        (
            "end = min(max(load go[g + 1] : i32, 0), rows)",
            "end = load go[g + 1] : i32",
            "as in `min(count, rows)`",
        ),
        (
            "f16[end, m]",
            "f16[rows, min(m, end)] strides [m, 1]",
            "its contiguous dimension comes from memory",
        ),
        ("f16[end, m]", "f16[end, min(m, end)] strides [m, 1]", "several of its extents"),
    ] {
        let text = DEPTHS.replace(from, to);
        assert_ne!(text, DEPTHS, "{from}");
        let (kernel, mapping) = parsed(&text);
        let plan = made(&kernel, &mapping).explained.plan.join("\n");
        assert!(plan.contains(why), "{why}: {plan}");
    }
}

/// Quotients and remainders of an argument in a loop are exact at both ends of the numbers.
#[test]
fn divisions_by_an_argument_in_a_loop_are_exact() {
    let text = "kernel divisions(from: ptr<i32>, q: ptr<i32> align 16, r: ptr<i32> align 16, by: i32 in 1.., n: i32) {
        grid 2
        gf = view from : i32[n]
        gq = view q : i32[2, n]
        gr = view r : i32[2, n]
        i = block_index
        none = full 0 : i32[1, 1]
        for t in 0..n {
            x = max(load gf[t] : i32, 0)
            store gq[i, t], none + x / by
            store gr[i, t], none + x % by
        }
    }
    mapping divisions { kernel: warps 1 }";
    const MOST: i32 = i32::MAX;
    let from =
        [0, 1, 2, 6, 7, 63, 64, 65, 4095, 65535, 65536, 1 << 20, 1 << 30, MOST - 65536, MOST - 1, MOST];
    for by in [1, 2, 3, 7, 64, 65535, 65536, 1 << 30, (1 << 30) + 1, MOST - 1, MOST] {
        let sizes = [("by", i64::from(by)), ("n", from.len() as i64)];
        let compiled = check(text, &sizes, &[("from", Given::I32(&from))]);
        assert!(compiled.ptx.contains("mul.hi.u32"), "{}", compiled.ptx);
    }
}

/// Rows from memory that add up to more than an i32 holds: a tensor copy that begins below the array would end the kernel
/// (a store) or read other memory (a load). Such a row is past the end.
#[test]
fn a_row_that_overflows_is_past_the_end() {
    let (kernel, mapping) = parsed(find("attention_varlen").expect("a kernel").text);
    let sizes =
        [("tiles", 1), ("sequences", 1), ("rows_q", 64), ("rows_k", 64), ("heads", 1), ("kv_heads", 1)];
    let given = [
        ("sequence", Given::I32(&[0])),
        ("first", Given::I32(&[i32::MAX])),
        ("starts_q", Given::I32(&[i32::MAX, 64])),
        ("starts_k", Given::I32(&[0, 64])),
    ];
    let (problem, made) = (problem(&kernel, &mapping, &sizes, &given), made(&kernel, &mapping));
    let run = problem.simulate(&made.ptx, &made.manifest, &warplift::sim::Options::default(), 2);
    let (found, report) = run.unwrap_or_else(|e| panic!("{e}"));
    assert!(report.hazards.is_empty(), "{:?}", report.hazards);
    let output = problem.validation.operands.iter().position(|o| o.name == "o").expect("an output");
    // A copy holds 16 rows. The first one begins at row -2 and is left out; the others begin inside again.
    let rows = 14 * 128 * 2;
    assert_eq!(found[output][..rows], problem.data.buffers[output][..rows], "rows that nobody computed");
}

/// A deferred epilogue whose tiles have trip counts of their own, where products stay in flight, and by products of warps.
#[test]
fn trips_of_each_tile_go_with_products_in_flight() {
    let kernel = parsed(find("gemm_grouped").expect("a kernel").text).0;
    let sizes = [("tiles", 4), ("groups", 3), ("rows", 150), ("n", 136), ("k", 328)];
    let given = [
        ("group", Given::I32(&[0, 1, -1, 2])),
        ("first", Given::I32(&[0, 3, 0, 70])),
        ("offsets", Given::I32(&[0, 3, 70, 150])),
    ];
    for words in [
        "BM = 64, BN = 64, BK = 32 for t: pipeline 3, consumers 1, wait 1 kernel: persistent, epilogue deferred",
        "BM = 128, BN = 64, BK = 32 for t: pipeline 3, consumers 2, wait 1 kernel: persistent, epilogue deferred",
        "BM = 64, BN = 64, BK = 32 for t: pipeline 3 kernel: persistent, warps 4, products mma_sync",
    ] {
        let text = format!("{kernel}\nmapping gemm_grouped {{ {words} }}");
        let (kernel, mapping) = parsed(&text);
        let (problem, made) = (problem(&kernel, &mapping, &sizes, &given), made(&kernel, &mapping));
        right(&problem, &made, &MANY_ORDERS, (1, 0.0), words);
    }
}

/// A scalar that the kernel stores before it loads it stays behind the store, in the loop over tiles.
#[test]
fn stored_scalars_are_not_loaded_before() {
    let text = "kernel kept(x: ptr<i32> align 16, c: ptr<i32> align 16, y: ptr<i32> align 16, n: i32 % 4) {
        grid 1
        gx = view x : i32[n]
        gc = view c : i32[64]
        gy = view y : i32[n]
        store gc[0], load gx[0] : i32[64]
        k = load gc[2] : i32
        store gy[0], k + load gx[0] : i32[64]
    }
    mapping kept { kernel: persistent, warps 2 }";
    check(text, &[("n", 64)], &[("x", Given::I32(&(5..69).collect::<Vec<i32>>()))]);
}

/// A loaded half beside a tile of halves, of one register and of several.
#[test]
fn halves_stand_for_tiles() {
    let text = |ty: &str, warps: u32| {
        format!(
            "kernel scaled(x: ptr<{ty}> align 16, y: ptr<{ty}> align 16, n: i32 % 8) {{
                grid cdiv(n, 256)
                gx = view x : {ty}[n]
                gy = view y : {ty}[n]
                b = block_index
                v = load gx[b*256] : {ty}[256]
                q = load gx[1] : {ty}
                store gy[b*256], v * q + q
            }}
            mapping scaled {{ kernel: warps {warps} }}"
        )
    };
    for (ty, warps) in [("f16", 4), ("f16", 1), ("bf16", 4), ("bf16", 2)] {
        check(&text(ty, warps), &[("n", 520)], &[]);
    }
}
