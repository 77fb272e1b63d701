//! Elementwise chains that are cut so that a loop can be overlapped, and what is read beside its products: compiled with
//! and without, simulated without hazard, compared with the interpreter.

use std::collections::BTreeSet;
use warplift::ir::target::SM90A;
use warplift::ir::tile::{Kernel, Mapping, parse_file};
use warplift::{CompileError, Compiled, Options, compile};
use warplift_golden::library::reference;
use warplift_golden::orders::{FEW_ORDERS, right};

/// Attention whose scores get a bias, whatever makes it.
fn biased(tile: u32, made: &str) -> (Kernel, Mapping) {
    biased_by(tile, ["bf16", ""], made)
}

/// The same by a matrix of other elements, or in another order.
fn biased_by(tile: u32, [elem, strides]: [&str; 2], made: &str) -> (Kernel, Mapping) {
    let text = include_str!("../../driver/kernels/attention.tile");
    let (text, _) = text.split_once("mapping attention").expect("a mapping");
    let changes = [
        ("o: ptr<bf16> align 16,", format!("o: ptr<bf16> align 16, bias: ptr<{elem}> align 16,")),
        ("queries: i32,", "queries: i32 % 16,".to_owned()),
        ("keys: i32,", "keys: i32 % 16,".to_owned()),
        (
            "    gq = subview",
            format!("    all_b = view bias : {elem}[queries, keys]{strides}\n    gq = subview"),
        ),
        ("s = mma zero, tq, trans(tk)", made.to_owned()),
    ];
    let text = changes.iter().fold(text.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "the text has no `{from}`");
        text.replace(from, to)
    });
    let staged = if elem == "bf16" && strides.is_empty() { "" } else { "array bias: staged\n" };
    let words =
        format!("{staged}BM = 128, BN = {tile}, D = 128\nfor t: pipeline fit, producers 1, consumers 2");
    let text = format!("{text}\nmapping attention {{\n{words}\nkernel: persistent\n}}");
    let mut module = parse_file(&text, "biased.tile").unwrap_or_else(|e| panic!("{e:?}\n{text}"));
    (module.kernels.remove(0), module.mappings.remove(0))
}

const TILE: &str = "raw = mma zero, tq, trans(tk)
        tb = load all_b[i*BM, first] : bf16[BM, BN]
        s = fma(raw, 8.0, cast(tb, f32))";

fn tried((kernel, mapping): &(Kernel, Mapping), without: &[&str]) -> Result<Compiled, CompileError> {
    let disable = without.iter().map(|f| f.parse().expect("a feature")).collect();
    compile(kernel, mapping, &SM90A, &Options { verify: true, disable, ..Options::default() })
}

fn compiled(case: &(Kernel, Mapping), without: &[&str]) -> Compiled {
    tried(case, without).unwrap_or_else(|e| panic!("{}\n{e}", case.1))
}

fn check((kernel, mapping): &(Kernel, Mapping), made: &Compiled, keys: i64) {
    let size = [("batch", 1), ("heads", 1), ("queries", 144), ("keys", keys)];
    let problem = reference(kernel, mapping, &size, 3);
    right(&problem, made, &FEW_ORDERS, (2, 2e-2), &format!("{keys} keys"));
}

/// Registers that the allocation of the consumers needed.
fn registers(made: &Compiled) -> u32 {
    made.explained.registers.iter().map(|r| r.needed).max().expect("roles")
}

#[test]
fn chains_are_cut_where_a_loop_is_then_overlapped() {
    // What is added comes from both halves of registers, in another order; from two chains; it decides what is taken.
    let twice = "raw = mma zero, tq, trans(tk)
        tb = cast(load all_b[i*BM, first] : bf16[BM, BN], f32)
        far = cast((iota 1 : i32[BM, BN]) - (iota 0 : i32[BM, BN]) + first, f32)
        s = fma(raw, 8.0, tb * far)";
    let chosen = "raw = mma zero, tq, trans(tk)
        tb = cast(load all_b[i*BM, first] : bf16[BM, BN], f32)
        s = select(tb > 0.0, raw * 8.0, raw + min(tb, -0.5) * 2.0)";
    for (tile, made) in [(128, TILE), (112, TILE), (96, twice), (96, chosen)] {
        let case = biased(tile, made);
        let cut = compiled(&case, &[]);
        for keys in [16, i64::from(tile), 3 * i64::from(tile) - 16] {
            check(&case, &cut, keys);
        }
        match tried(&case, &["elementwise-subtiles"]) {
            Ok(whole) => {
                let [less, more] = [&cut, &whole].map(|c| c.explained.schedule.loops[0].expected());
                assert!(
                    cut.ptx != whole.ptx && less <= more,
                    "{tile}: {less} cycles cut, {more} whole: {made}"
                );
            }
            // Whole, both chains of a product of two need more registers than there are.
            Err(e) => assert!(matches!(e, CompileError::Registers(_)) && made != TILE, "{e}"),
        }
    }
    let case = biased(128, TILE);
    let (cut, whole) = (compiled(&case, &[]), compiled(&case, &["elementwise-subtiles"]));
    let [cut_loop, whole_loop] = [&cut, &whole].map(|c| &c.explained.schedule.loops[0]);
    assert!(cut_loop.pipelined && !whole_loop.pipelined);
    assert!(cut_loop.expected() * 10 < whole_loop.expected() * 9);
    assert!(registers(&cut) <= 232);
}

/// What is cut must fit: fragments that only a step long after them would read, two results of one fragment.
#[test]
fn chains_are_cut_only_where_they_fit_and_it_pays() {
    let before = "x1 = fma(cast(load all_b[i*BM, first] : bf16[BM, BN], f32), 0.5, cast(load all_b[first, 0] : bf16[BM, BN], f32))
        raw = mma zero, tq, trans(tk)
        s = fma(raw, 8.0, x1)";
    let twice = "raw = mma zero, tq, trans(tk)
        rounded = cast(cast(raw * 8.0, bf16), f32)
        s = raw * 8.0 + rounded";
    for (tile, made) in [(128, before), (144, twice)] {
        let case = biased(tile, made);
        let (made, whole) = (compiled(&case, &[]), compiled(&case, &["elementwise-subtiles"]));
        let remarks = &made.explained.schedule.remarks;
        // Threads that load a tile for themselves leave no loop to schedule.
        let cycles = |c: &Compiled| c.explained.schedule.loops.first().map_or(u32::MAX, |l| l.expected());
        let pays = || cycles(&made) < cycles(&whole) && registers(&made) <= 232;
        assert!(made.ptx == whole.ptx || pays(), "{remarks:?}");
        check(&case, &made, 144);
    }
}

/// What is small is made once, not in every slice.
#[test]
fn slices_share_what_is_small() {
    let rows = "raw = mma zero, tq, trans(tk)
        tb = cast(load all_b[i*BM, first] : bf16[BM, BN], f32)
        row = broadcast(expand_dims(sin(cast(iota 0 : i32[BM], f32) * m0), 1)) : f32[BM, BN]
        s = fma(raw, 8.0, tb * row)";
    let made = compiled(&biased(128, rows), &[]);
    let remarks = &made.explained.schedule.remarks;
    assert!(remarks.iter().any(|r| r.contains("chains are cut")), "{remarks:?}");
    // Two rows a thread, in the loop's body and in iterations before and behind it.
    let sines = made.ptx.matches("sin.approx").count();
    assert!((2..=8).contains(&sines), "{sines} sines");
}

/// A loop's own tiles have two stages before the next tile's query has.
#[test]
fn stages_go_to_the_loop_first() {
    let made = compiled(&biased(128, TILE), &[]);
    let depth = |name: &str| made.explained.buffers.iter().find(|b| b.name == name).expect("a ring").stages;
    assert_eq!(["tq", "tk", "tb"].map(depth), [1, 2, 2], "{:?}", made.explained.buffers);
}

/// Threads read a row's elements by fours; eight rows of 256 bytes would meet in the same banks.
#[test]
fn tiles_for_registers_are_swizzled_where_rows_would_meet() {
    let case = biased(128, TILE);
    let line = |without: &[&str]| {
        let made = compiled(&case, without);
        let lines = made.explained.plan.into_iter();
        lines.filter(|l| l.contains("through shared memory to registers")).collect::<Vec<_>>()
    };
    assert!(matches!(&line(&[])[..], [l] if l.contains("64 elements, swizzle 128")), "{:?}", line(&[]));
    assert!(matches!(&line(&["swizzle"])[..], [l] if !l.contains("swizzle")), "{:?}", line(&["swizzle"]));
    for without in [&[][..], &["swizzle"]] {
        check(&case, &compiled(&case, without), 272);
    }
}

/// Of every width, along rows and along columns, in spans of 128, 64 and 32 bytes.
#[test]
fn swizzled_tiles_of_other_elements() {
    let mut spans = BTreeSet::new();
    for (elem, strides) in [("f32", ""), ("f8e4m3", ""), ("u8", ""), ("bf16", " strides [1, queries]")] {
        for tile in [128, 80, 64] {
            let made = TILE
                .replace("bf16", elem)
                .replace("cast(tb, f32)", if elem == "f32" { "tb" } else { "cast(tb, f32)" });
            let case = biased_by(tile, [elem, strides], &made);
            let made = compiled(&case, &[]);
            let line = made.explained.plan.iter().find(|l| l.contains("to registers")).expect("a tile");
            spans.extend(
                line.split_once("swizzle ").and_then(|(_, l)| l.split(',').next()?.parse::<u32>().ok()),
            );
            check(&case, &made, 176);
        }
    }
    assert_eq!(spans, BTreeSet::from([32, 64, 128]));
}
