//! Tiles that two users need in two register layouts. For every choice of the plan, the kernel computes what its text
//! says, without a hazard. The kernels here exist only for their conversions.

use warplift::ir::target::SM90A;
use warplift::ir::tile::parse_file;
use warplift::sim::{self};
use warplift::{Options, compile};
use warplift_golden::library::reference;
use warplift_golden::orders::{ORDERS, right};

/// `y = f(x, z)` on one tile; in the body `R`, `C` and `E` are its extents and element type.
fn kernel(body: &str, elem: &str, rows: u32, cols: u32, warps: u32) -> String {
    let word = |w: &str| match w {
        "R" => rows.to_string(),
        "C" => cols.to_string(),
        "E" => elem.to_owned(),
        _ => w.to_owned(),
    };
    let parts = body.split_inclusive(|c: char| !c.is_alphanumeric() && c != '_');
    let body: String = parts
        .map(|p| {
            let (name, end) =
                p.split_at(p.len() - usize::from(p.ends_with(|c: char| !c.is_alphanumeric() && c != '_')));
            word(name) + end
        })
        .collect();
    format!(
        "kernel c(x: ptr<{elem}> align 16, z: ptr<{elem}> align 16, y: ptr<{elem}> align 16, n: i32 % 8) {{
    grid 1
    gx = view x : {elem}[{rows}, n]
    gz = view z : {elem}[{rows}, n]
    gy = view y : {elem}[{rows}, n]
    tx = load gx[0, 0] : {elem}[{rows}, {cols}]
    tz = load gz[0, 0] : {elem}[{rows}, {cols}]
{body}
}}
mapping c {{ kernel: warps {warps} }}
"
    )
}

/// Compiles, simulates under three orders, compares; gives what the plan says of its conversions.
fn check(text: &str, cols: u32) -> Vec<String> {
    let module = parse_file(text, "c").unwrap_or_else(|e| panic!("{e:?}\n{text}"));
    let (kernel, mapping) = (&module.kernels[0], &module.mappings[0]);
    let options = Options { verify: true, ..Options::default() };
    let compiled = compile(kernel, mapping, &SM90A, &options).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let size = [("n", i64::from(cols))];
    let problem = reference(kernel, mapping, &size, 3);
    right(&problem, &compiled, &ORDERS, (1, 0.0), text);
    compiled.explained.plan.into_iter().filter(|l| l.contains("conversion")).collect()
}

/// A sum with a tile's own transposition.
const SYMMETRIC: &str = "    store gy[0, 0], tx + trans(tx) + tz";
/// Column sums used along rows.
const ACROSS: &str = "    sums = reduce_sum(tx, 0)
    store gy[0, 0], tz + expand_dims(sums, 1)";
/// A loop that turns its tile every time.
const TURNING: &str = "    last = for t in 0..3 carry a = tx {
        next = trans(a) + tz
        yield next
    }
    store gy[0, 0], last";
/// Truth values change threads.
const MASKS: &str = "    flags = trans(tx > tz)
    store gy[0, 0], select(flags, tx, tz)";
/// Positions in two layouts.
const POSITIONS: &str = "    at = iota(1) : i32[R, C]
    keep = trans(tx > cast(at, E))
    store gy[0, 0], select(keep, tz, cast(at, E))";

#[test]
fn a_tile_meets_its_transposition() {
    let mut ways = Vec::new();
    for elem in ["f32", "f16", "bf16"] {
        for (size, warps) in [(32, 1), (64, 4), (64, 2), (96, 6), (32, 4), (128, 16), (16, 1), (48, 3)] {
            ways.extend(check(&kernel(SYMMETRIC, elem, size, size, warps), size));
        }
    }
    assert!(ways.iter().any(|w| w.contains("shared memory")), "{ways:?}");
    assert!(ways.len() >= 20, "every one of them converts: {ways:?}");
}

#[test]
fn sums_along_one_dimension_serve_the_other() {
    for elem in ["f32"] {
        for (size, warps) in [(32, 1), (64, 4), (96, 6), (128, 8), (128, 16)] {
            let ways = check(&kernel(ACROSS, elem, size, size, warps), size);
            assert!(!ways.is_empty(), "{size} on {warps}");
        }
    }
}

#[test]
fn loops_convert_every_time() {
    for elem in ["f32", "f16"] {
        for (size, warps) in [(32, 1), (64, 4), (96, 9), (48, 3)] {
            assert!(!check(&kernel(TURNING, elem, size, size, warps), size).is_empty());
        }
    }
}

#[test]
fn truth_values_and_positions_change_threads() {
    for (size, warps) in [(32, 1), (64, 4), (96, 9), (48, 3)] {
        for body in [MASKS, POSITIONS] {
            check(&kernel(body, "f32", size, size, warps), size);
        }
        check(&kernel(MASKS, "f16", size, size, warps), size);
    }
}

#[test]
fn shapes_change_without_moving_elements() {
    for (elem, rows, cols, warps) in [("f32", 16, 64, 4), ("f16", 32, 32, 2)] {
        let flat = format!("    flat = reshape(tx) : E[{}]\n", rows * cols);
        let body = flat + "    back = reshape(flat) : E[R, C]\n    store gy[0, 0], back + tz";
        check(&kernel(&body, elem, rows, cols, warps), cols);
    }
}

/// `convert` of the library with the layouts of its two tiles.
fn pinned(a: &str, b: &str) -> String {
    let text = include_str!("../../driver/kernels/convert.tile");
    let (kernel, _) = text.split_once("mapping convert").expect("a mapping");
    format!("{kernel}mapping convert {{ tile a: layout \"{a}\" tile b: layout \"{b}\" kernel: warps 4 }}")
}

#[test]
fn any_two_layouts_that_a_mapping_pins() {
    let layouts = [
        "(reg: 8:1@d1 4:16@d0, lane: 8:8@d1 4:1@d0, warp: 4:4@d0)",
        "(reg: 2:1@d1 2:8@d0 8:8@d1, lane: 4:2@d1 8:1@d0, warp: 4:16@d0)",
        "(reg: 64:1@d1, lane: 32:1@d0, warp: 2:32@d0 2:0)",
        "(reg: 2:1@d0 16:2@d0, lane: 32:1@d1, warp: 2:32@d0 2:32@d1)",
    ]
    .map(|l| format!("{l} -> (d0: 64, d1: 64)"));
    for (a, b) in layouts.iter().flat_map(|a| layouts.iter().map(move |b| (a, b))) {
        let text = pinned(a, b);
        let mut module = parse_file(&text, "convert").unwrap_or_else(|e| panic!("{e:?}\n{text}"));
        let (kernel, mapping) = (module.kernels.remove(0), module.mappings.remove(0));
        let again =
            parse_file(&mapping.to_string(), "mapping").unwrap_or_else(|e| panic!("{e:?}\n{mapping}"));
        assert_eq!(again.mappings[0].tiles, mapping.tiles);
        let options = Options { verify: true, ..Options::default() };
        let compiled = compile(&kernel, &mapping, &SM90A, &options).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let problem = reference(&kernel, &mapping, &[("m", 65), ("n", 72)], 7);
        let run = problem.simulate(&compiled.ptx, &compiled.manifest, &sim::Options::default(), 2);
        let (have, report) = run.unwrap_or_else(|e| panic!("{e}\n{text}"));
        assert!(report.hazards.is_empty(), "{:?}\n{text}", report.hazards);
        assert_eq!(problem.difference(&have), None, "{text}");
    }
}

#[test]
fn layouts_that_do_not_hold_a_tile_are_refused() {
    let good = "(reg: 64:1@d1, lane: 32:1@d0, warp: 2:32@d0 2:0) -> (d0: 64, d1: 64)";
    for (layout, why) in [
        ("(reg: 32:1@d1, lane: 32:1@d0, warp: 2:32@d0 2:0) -> (d0: 64, d1: 64)", "2048 of 4096 elements"),
        ("(reg: 64:1@d1, lane: 32:1@d0, warp: 2:32@d0) -> (d0: 64, d1: 64)", "4 warps of 32 lanes"),
        ("(reg: 32:1@d1, lane: 32:1@d0, warp: 2:32@d0 2:0) -> (d0: 64, d1: 32)", "the tile is [64, 64]"),
    ] {
        let module = parse_file(&pinned(good, layout), "convert").unwrap_or_else(|e| panic!("{e:?}"));
        let refused = compile(&module.kernels[0], &module.mappings[0], &SM90A, &Options::default());
        let message = refused.err().map(|e| e.to_string()).unwrap_or_default();
        assert!(message.contains(why), "{layout}: {message}");
    }
}

/// Rows of sums, sums of columns, and prefixes of a tile whose layout the mapping pins.
fn held(body: &str, layout: &str) -> Result<(), String> {
    let text = format!(
        "kernel c(x: ptr<f32> align 16, y: ptr<f32> align 16, n: i32 % 8) {{
    grid 1
    gx = view x : f32[8, n]
    gy = view y : f32[8, n]
    a = load gx[0, 0] : f32[8, 32]
    b = rearrange(a)
    {body}
}}
mapping c {{ tile b: layout \"{layout} -> (d0: 8, d1: 32)\"  kernel: warps 2 }}
"
    );
    let module = parse_file(&text, "c").unwrap_or_else(|e| panic!("{e:?}\n{text}"));
    let options = Options { verify: true, ..Options::default() };
    let compiled =
        compile(&module.kernels[0], &module.mappings[0], &SM90A, &options).map_err(|e| e.to_string())?;
    let problem = reference(&module.kernels[0], &module.mappings[0], &[("n", 32)], 3);
    let run = problem.simulate(&compiled.ptx, &compiled.manifest, &sim::Options::default(), 1);
    let (have, report) = run.unwrap_or_else(|e| panic!("{e}\n{text}\n{}", compiled.ptx));
    assert!(report.hazards.is_empty(), "{:?}\n{text}", report.hazards);
    assert_eq!(problem.difference_beyond(&have, 0.0), None, "{text}\n{}", compiled.ptx);
    Ok(())
}

const OF_ROWS: &str = "store gy[0, 0], b + expand_dims(reduce_sum(b, 1), 1)";
const OF_COLUMNS: &str = "store gy[0, 0], b + expand_dims(reduce_sum(b, 0), 0)";
const PREFIXES: &str = "store gy[0, 0], scan_sum(b, 1)";

#[test]
fn what_a_thread_holds_twice_counts_once() {
    for layout in [
        "(reg: 2:1@d1 2:0@d0 2:2@d1, lane: 8:4@d1 4:1@d0, warp: 2:4@d0)",
        "(reg: 2:0@d0 2:4@d0 4:1@d1, lane: 8:4@d1 4:1@d0, warp: 2:0@d0)",
        "(reg: 8:1@d0 2:0@d1, lane: 32:1@d1, warp: 2:0@d0)",
        "(reg: 4:1@d1, lane: 8:4@d1 4:1@d0, warp: 2:4@d0)",
    ] {
        for body in [OF_ROWS, OF_COLUMNS, PREFIXES] {
            held(body, layout).unwrap_or_else(|e| panic!("{e}\n{layout}\n{body}"));
        }
    }
}

#[test]
fn threads_that_hold_elements_twice_or_along_two_dimensions_are_refused() {
    for layout in [
        // The lanes' lowest bit moves along both dimensions.
        "(reg: 4:1@d1, lane: ^4@d1+1@d0 4:8@d1 4:2@d0, warp: ^4@d1)",
        // It repeats the registers' one.
        "(reg: ^1@d1 ^2@d1 ^4@d0, lane: ^1@d1 8:4@d1 2:1@d0, warp: ^2@d0)",
    ] {
        let said = held(OF_ROWS, layout).unwrap_err();
        assert!(said.contains("hold elements twice, or more than one dimension in one step"), "{said}");
    }
}

/// Compiles with the given mapping, simulates, compares; gives what the plan says of its conversions.
fn check_pinned(text: &str) -> Vec<String> {
    let module = parse_file(text, "c").unwrap_or_else(|e| panic!("{e:?}\n{text}"));
    let (kernel, mapping) = (&module.kernels[0], &module.mappings[0]);
    let options = Options { verify: true, ..Options::default() };
    let compiled = compile(kernel, mapping, &SM90A, &options).unwrap_or_else(|e| panic!("{e}\n{text}"));
    right(&reference(kernel, mapping, &[], 5), &compiled, &ORDERS, (1, 0.0), text);
    compiled.explained.plan.into_iter().filter(|l| l.contains("conversion")).collect()
}

#[test]
fn elements_below_a_byte_change_threads() {
    // Rows and columns to threads: nothing in common. Halves of rows to other threads: runs of elements in common.
    let apart = [
        "(reg: 16:1@d1 4:32@d0, lane: 4:16@d1 8:1@d0, warp: 4:8@d0)",
        "(reg: 16:1@d0 4:16@d1, lane: 8:16@d0 4:1@d1, warp: 4:4@d1)",
    ];
    let runs = [
        "(reg: 16:1@d1 4:32@d0, lane: 4:16@d1 8:1@d0, warp: 4:8@d0)",
        "(reg: 16:1@d1 4:32@d0, lane: 8:4@d0 4:16@d1, warp: 4:1@d0)",
    ];
    for elem in ["u4", "i4", "u2", "u1"] {
        let mut ways = Vec::new();
        for [a, b] in [apart, runs] {
            let text = format!(
                "kernel c(x: ptr<{elem}> align 16, y: ptr<i32> align 16) {{
    grid 1
    gx = view x : {elem}[128, 64]
    gy = view y : i32[128, 64]
    a = load gx[0, 0] : {elem}[128, 64]
    b = rearrange(a)
    store gy[0, 0], cast(b, i32)
}}
mapping c {{ kernel: warps 4 tile a: layout \"{a} -> (d0: 128, d1: 64)\" tile b: layout \"{b} -> (d0: 128, d1: 64)\" }}
"
            );
            ways.extend(check_pinned(&text));
        }
        assert!(ways.iter().any(|w| w.contains("widened to 8 bits: shared memory")), "{ways:?}");
        assert!(ways.iter().any(|w| w.contains(" by ") && w.contains("bits: ")), "{ways:?}");
    }
}

#[test]
fn a_tile_of_four_bits_meets_its_transposition() {
    let text = "kernel c(x: ptr<u4> align 16, y: ptr<i32> align 16) {
    grid 1
    gx = view x : u4[64, 64]
    gy = view y : i32[64, 64]
    v = load gx[0, 0] : u4[64, 64]
    store gy[0, 0], cast(v, i32) * 16 + cast(trans(v), i32)
}
mapping c { kernel: warps 2 }
";
    assert!(!check_pinned(text).is_empty());
}

/// Six bits over whole bytes, both ways: the registers stay as they are.
#[test]
fn six_bits_over_whole_bytes_are_a_view() {
    let kernel = |types: [&str; 2], cols: [u32; 2], body: &str, layout: &str| {
        format!(
            "kernel c(x: ptr<{}> align 16, y: ptr<{}> align 16) {{
    grid 1
    gx = view x : {}[8, {}]
    gy = view y : {}[8, {}]
    v = load gx[0, 0] : {}[8, {}]
    store gy[0, 0], {body}
}}
mapping c {{ kernel: warps 1 {layout} }}
",
            types[0], types[1], types[0], cols[0], types[1], cols[1], types[0], cols[0]
        )
    };
    let threes =
        "tile v: layout \"(reg: 48:1@d1 2:4@d0, lane: 8:48@d1 4:1@d0, warp: 1) -> (d0: 8, d1: 384)\"";
    let ways = check_pinned(&kernel(["u8", "f16"], [384, 512], "cast(view_as(v, u6), f16)", threes));
    assert!(ways.iter().all(|w| !w.contains("conversion of v:")), "{ways:?}");
    // There and back is the tile itself, instruction by instruction.
    let ptx = |body: &str| {
        let text = kernel(["u8", "u8"], [384, 384], body, threes);
        check_pinned(&text);
        let module = parse_file(&text, "c").unwrap();
        compile(&module.kernels[0], &module.mappings[0], &SM90A, &Options::default()).unwrap().ptx
    };
    assert_eq!(ptx("view_as(view_as(v, i6), u8)"), ptx("v"));
    // Where a thread holds 16 bytes, five runs and a third, the refusal says what to write.
    let text = kernel(["u8", "f16"], [384, 512], "cast(view_as(v, u6), f16)", "");
    let module = parse_file(&text, "c").unwrap();
    let error = compile(&module.kernels[0], &module.mappings[0], &SM90A, &Options::default()).err().unwrap();
    assert!(error.to_string().contains("a multiple of 3"), "{error}");
}
