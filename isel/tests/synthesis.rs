//! What the search over plans is worth, in sectors, shuffles and instructions that can be counted; and what is
//! left where a feature is off.

use std::time::{Duration, Instant};
use warplift_ir::layout::Layout;
use warplift_ir::layout::convert::Conversion;
use warplift_ir::machine::{Attr, Program};
use warplift_ir::target::{Opcode, SM90A};
use warplift_ir::tile::{Inst, Kernel, Mapping, Module, Op, Value, WarpGrid, parse_file};
use warplift_ir::{Bump, Deadline};
use warplift_isel::map::{MapContext, Variant, do_map};
use warplift_isel::plan::{
    Outcome, Plan, Point, StorePlan, Touched, Tried, Way, choose, do_plan, do_plan_until, do_plan_without,
    touched,
};
use warplift_isel::{Feature, lower::do_lower, select::do_select};

fn parse(text: &str) -> (Kernel, Mapping) {
    let m = parse_file(text, "s.tile").unwrap_or_else(|e| panic!("{e:?}\n{text}"));
    (variants(&m)[0].kernel.clone(), m.mappings[0].clone())
}

fn variants(m: &Module) -> Vec<Variant> {
    let context = MapContext::new(&m.mappings[0], &SM90A, &[]);
    do_map(&m.kernels[0], &context).unwrap_or_else(|e| panic!("{e}"))
}

fn plans(k: &Kernel) -> [Plan; 2] {
    let plan = |without: &[Feature]| do_plan_without(k, &SM90A, without).unwrap_or_else(|e| panic!("{e}"));
    [plan(&[Feature::Synthesis]), plan(&[])]
}

fn lower<'a>(k: &Kernel, plan: &Plan, m: &Mapping, bump: &'a Bump) -> Program<'a> {
    do_lower(k, plan, m, &SM90A, bump).unwrap_or_else(|e| panic!("{e}"))
}

/// Rows of an opcode, each as often as its fragment has registers.
fn registers(p: &Program<'_>, op: Opcode) -> u32 {
    let made = p.func.insts.values().filter(|d| d.op == op);
    made.map(|d| d.results.first().map_or(1, |&r| p.func.ty(r).regs())).sum()
}

/// Tile, its layout in memory accesses, and what these touch.
fn access(k: &Kernel, plan: &Plan, of: impl Fn(&Op) -> bool) -> Touched {
    let mut all = Vec::new();
    k.walk(|_, i| all.push(i));
    let inst = all.into_iter().find(|&i| of(&k.insts[i].op)).expect("an access");
    let (tile, layout) = seen(k, plan, inst);
    touched(k, inst, tile, &layout, &SM90A)
}

fn seen(k: &Kernel, plan: &Plan, inst: Inst) -> (Value, Layout) {
    let n = k.args(inst).len() - 1;
    let (tile, other) = match k.insts[inst].op {
        Op::Load => (k.result(inst), plan.made.get(&k.result(inst))),
        _ => (k.args(inst)[n], plan.uses.get(&(inst, n))),
    };
    (tile, other.or(plan.layouts[tile].as_ref()).expect("a layout").clone())
}

/// The greatest sum: every iteration needs its sums whole.
const ROWS: &str = "
kernel r(x: ptr<f32> align 16, y: ptr<f32> align 16, m: i32, n: i32 % 4) {
    tunable BM = 32, BN = 128
    grid cdiv(m, BM)
    gx = view x : f32[m, n]
    gy = view y : f32[m]
    i = block_index
    zero = full 0.0 : f32[BM]
    s = for t in 0..cdiv(n, BN) carry a = zero {
        tx = load gx[i*BM, t*BN] : f32[BM, BN]
        b = max(a, reduce_sum(tx, 1))
        yield b
    }
    store gy[i*BM], s
}
mapping r { BM = 32, BN = 128 kernel: warps 4 }
";

#[test]
fn sums_of_rows_take_fewer_shuffles_for_the_same_sectors() {
    let (k, m) = parse(ROWS);
    let [rule, best] = plans(&k);
    let [was, is] = [&rule, &best].map(|p| access(&k, p, |o| matches!(o, Op::Load)));
    assert_eq!((was.instructions, was.sectors), (is.instructions, is.sectors), "the same is loaded");
    let bump = Bump::new();
    let [was, is] = [&rule, &best].map(|p| registers(&lower(&k, p, &m, &bump), Opcode::ShflBfly));
    // 8 rows a warp: 5 rounds for each, or 3 for each of two that four eighths of a warp hold.
    assert_eq!((was, is), (40, 6));
    let found = best.search.expect("the search was on");
    assert!(found.best.total() < found.rule.expect("the rule's").total());
    assert!(found.tried.iter().any(|t| matches!(t.outcome, Outcome::Made(_))), "{:?}", found.tried);
}

const PRODUCT: &str = "
kernel g(a: ptr<f16> align 16, b: ptr<f16> align 16, c: ptr<f16> ALIGN, m: i32, n: i32 % 8, k: i32 % 8) {
    tunable BM = 192, BN = 192, BK = 64
    grid cdiv(m, BM), cdiv(n, BN)
    ga = view a : f16[m, k]
    gb = view b : f16[k, n]
    gc = view c : f16[m, n]
    i, j = block_index
    zero = full 0.0 : f32[BM, BN]
    acc = for t in 0..cdiv(k, BK) carry x = zero {
        ta = load ga[i*BM, t*BK] : f16[BM, BK]
        tb = load gb[t*BK, j*BN] : f16[BK, BN]
        y = mma x, ta, tb
        yield y
    }
    store gc[i*BM, j*BN], cast(acc, f16)
}
mapping g { BM = 192, BN = 192, BK = 64 for t: consumers 3 kernel: MORE }
";

#[test]
fn scattered_stores_become_whole_sectors() {
    let text = PRODUCT.replace("ALIGN", "").replace("MORE", "raster band_m 16");
    let (k, _) = parse(&text.replace("192", "128").replace("consumers 3", "consumers 2"));
    let [rule, best] = plans(&k);
    let [was, is] = [&rule, &best].map(|p| access(&k, p, |o| matches!(o, Op::Store)));
    assert_eq!(was.instructions, is.instructions);
    assert_eq!((was.sectors, is.sectors), (8, 2), "eight rows of two bytes four times, or a row");
}

#[test]
fn conversions_do_not_take_what_the_mapping_gave_to_rings() {
    let text = PRODUCT.replace("ALIGN", "").replace("MORE", "raster band_m 16").replace("192", "128");
    for (stages, converts) in [(6, true), (7, false)] {
        let (k, _) = parse(&text.replace("consumers 3", &format!("consumers 2, pipeline {stages}")));
        let plan = do_plan(&k, &SM90A).unwrap_or_else(|e| panic!("{e}"));
        // Stages of 32 KiB, and two parts of the result of 16 KiB each.
        assert_eq!(plan.uses.is_empty(), !converts, "{stages} stages: {:?}", plan.describe(&k));
    }
}

#[test]
fn columns_that_no_wide_slab_holds_are_cut_otherwise() {
    let (k, _) = parse(&PRODUCT.replace("ALIGN", "align 16").replace("MORE", "raster band_m 16"));
    let refused =
        do_plan_without(&k, &SM90A, &[Feature::Synthesis]).expect_err("96 columns are no slabs of 64");
    assert!(refused.message.contains("96 columns"), "{refused}");
    let plan = do_plan(&k, &SM90A).unwrap_or_else(|e| panic!("{e}"));
    let product = plan.products.values().next().expect("a product");
    let slab = plan.shared[&product.b.0].slab;
    assert!(product.n.is_multiple_of(slab) || product.n <= slab, "{} columns, slabs of {slab}", product.n);
    let found = plan.search.as_ref().expect("the search was on");
    assert!(found.rule.is_none() && found.plans > 1, "{found:?}");
}

#[test]
fn no_plan_is_tried_behind_the_deadline() {
    let (k, _) = parse(ROWS);
    let plans = |deadline| {
        let plan = do_plan_until(&k, &SM90A, &[], deadline).unwrap_or_else(|e| panic!("{e}"));
        plan.search.expect("the search was on").plans
    };
    let passed = Deadline::after(Instant::now(), Some(Duration::ZERO));
    assert_eq!(plans(passed), 1, "the default plan");
    let far = Deadline::after(Instant::now(), Some(Duration::from_secs(3600)));
    assert!(plans(far) > 1 && plans(far) == plans(Deadline::default()));
}

#[test]
fn explain_says_what_was_tried_and_at_which_cost() {
    let (k, _) = parse(ROWS);
    let search = do_plan(&k, &SM90A).unwrap_or_else(|e| panic!("{e}")).describe_search(&k);
    assert!(search[0].contains("cycles (memory") && search[0].contains("the default plan"), "{search:?}");
    assert!(search.len() > 2 && search[1..].iter().all(|l| l.contains("cycles")), "{search:?}");
}

const TURNED: &str = "
kernel t(x: ptr<f32> align 16, y: ptr<f32> align 16, n: i32 % 8) {
    grid 1
    gx = view x : f32[SIZE, n]
    gy = view y : f32[SIZE, n]
    tx = load gx[0, 0] : f32[SIZE, SIZE]
    store gy[0, 0], tx + trans(tx)
}
mapping t { kernel: warps WARPS }
";

fn conversions(k: &Kernel, plan: &Plan) -> Vec<Conversion> {
    let wanted = plan.uses.iter().filter(|(u, _)| !plan.rematerialized.contains_key(u));
    let uses = wanted.map(|(&(inst, n), to)| (k.args(inst)[n], inst, to.clone(), true));
    let made = plan.made.iter().map(|(&v, l)| (v, k.def(v).expect("a result"), l.clone(), false));
    let all = uses.chain(made).map(|(v, inst, other, to_other)| {
        let own = plan.layouts[v].as_ref().expect("a layout");
        let (from, to) = if to_other { (own, &other) } else { (&other, own) };
        choose(k, inst, from, to, k.ty(v).elem(), plan.ways, plan.meeting_cycles)
            .unwrap_or_else(|e| panic!("{e}"))
    });
    all.collect()
}

#[test]
fn without_shuffles_everything_goes_through_shared_memory() {
    let (k, m) = parse(&TURNED.replace("SIZE", "8").replace("WARPS", "1"));
    let plan = |f: &[Feature]| do_plan_without(&k, &SM90A, f).unwrap_or_else(|e| panic!("{e}"));
    let [with, without] = [plan(&[]), plan(&[Feature::Shuffles])];
    assert!(conversions(&k, &with).iter().any(|c| matches!(c, Conversion::Shuffle(_))));
    assert!(conversions(&k, &without).iter().all(|c| !matches!(c, Conversion::Shuffle(_))));
    let bump = Bump::new();
    assert!(registers(&lower(&k, &with, &m, &bump), Opcode::ShflIdx) > 0);
    assert_eq!(registers(&lower(&k, &without, &m, &bump), Opcode::ShflIdx), 0);
}

#[test]
fn without_swizzles_conversions_meet_in_banks_and_tiles_are_core_matrices() {
    let (k, _) = parse(&TURNED.replace("SIZE", "64").replace("WARPS", "4"));
    let cost = |f: &[Feature]| -> u64 {
        let plan = do_plan_without(&k, &SM90A, f).unwrap_or_else(|e| panic!("{e}"));
        let passes = conversions(&k, &plan);
        passes.iter().map(|c| if let Conversion::Shared(p) = c { p.cost().0 } else { 0 }).sum()
    };
    assert!(cost(&[Feature::Swizzle]) > 2 * cost(&[]), "{} {}", cost(&[Feature::Swizzle]), cost(&[]));
    let text = PRODUCT.replace("ALIGN", "align 16").replace("MORE", "persistent");
    let (k, m) = parse(&text.replace("192", "128").replace("consumers 3", "consumers 2"));
    let plan = do_plan_without(&k, &SM90A, &[Feature::Swizzle]).unwrap_or_else(|e| panic!("{e}"));
    assert!(plan.shared.values().all(|t| t.swizzle == 0 && t.row_bytes == 16));
    assert!(plan.stores.values().all(|s| matches!(s, StorePlan::Bulk(s) if s.swizzle == 0)));
    let bump = Bump::new();
    let p = lower(&k, &plan, &m, &bump);
    let copies = p.func.insts.values().filter(|d| d.op == Opcode::TmaLoad).count();
    assert_eq!(copies, 64 / 8 + 128 / 8, "a copy for each 16 bytes of a row");
    assert!(p.func.insts.values().all(|d| !matches!(&d.attr, Attr::Wgmma(w) if w.b.swizzle != 0)));
}

#[test]
fn an_operand_that_stays_is_held_in_registers_where_that_saves_more_than_it_loads() {
    let text = "
kernel q(a: ptr<f16> align 16, b: ptr<f16> align 16, c: ptr<f32> align 16, n: i32 % 8) {
    grid 1
    ga = view a : f16[64, 64]
    gb = view b : f16[n, 64]
    gc = view c : f32[64, 8]
    zero = full 0.0 : f32[64, 8]
    ta = load ga[0, 0] : f16[64, 64]
    acc = for t in 0..TRIPS carry x = zero {
        tb = load gb[t*8, 0] : f16[8, 64]
        y = mma x, ta, trans(tb)
        yield y
    }
    store gc[0, 0], acc
}
mapping q { for t: consumers 1 }
";
    for (trips, registers) in [("2", false), ("256", true)] {
        let (k, _) = parse(&text.replace("TRIPS", trips));
        let plan = do_plan(&k, &SM90A).unwrap_or_else(|e| panic!("{e}"));
        let product = plan.products.values().next().expect("a product");
        assert_eq!(product.a.is_none(), registers, "{trips} trips: {:?}", plan.describe(&k));
        let points = plan.choices.met().filter(|p| matches!(p, Point::Operand(_)));
        assert_eq!(points.count(), 1);
    }
    assert_eq!(Way::InRegisters.to_string(), "in registers");
}

/// A product whose rows are reduced after it.
const SUMMED: &str = "
kernel s(a: ptr<f16> align 16, b: ptr<f16> align 16, y: ptr<f32> align 16, m: i32, n: i32 % 8, k: i32 % 8) {
    tunable BM = 128, BN = 128, BK = 64
    grid cdiv(m, BM)
    ga = view a : f16[m, k]
    gb = view b : f16[k, n]
    gy = view y : f32[m]
    i = block_index
    ta = load ga[i*BM, 0] : f16[BM, BK]
    none = full 0.0 : f32[BM]
    sums = for t in 0..cdiv(n, BN) carry old = none {
        tb = load gb[0, t*BN] : f16[BK, BN]
        zero = full 0.0 : f32[BM, BN]
        p = mma zero, ta, tb
        new = old + reduce_max(p, 1)
        yield new
    }
    store gy[i*BM], sums
}
mapping s { BM = 128, BN = 128, BK = 64 kernel: WHAT }
";

fn select(text: &str, without: &[Feature]) -> (Kernel, Plan) {
    let m = parse_file(text, "s.tile").unwrap_or_else(|e| panic!("{e:?}\n{text}"));
    let (variant, plan) =
        do_select(variants(&m), &SM90A, without, Deadline::default()).unwrap_or_else(|e| panic!("{e}"));
    (variant.kernel, plan)
}

fn shared(plan: &Plan) -> WarpGrid {
    plan.warp_products.values().next().expect("a product of warps").warp_grid
}

#[test]
fn rows_that_are_reduced_stay_in_a_warp() {
    // A deep product hides what a meeting in each trip takes; a shallow one does not.
    let text = SUMMED.replace("WHAT", "warps 8, products mma_sync");
    assert_eq!(shared(&select(&text, &[]).1).columns, 2, "less is read from shared memory");
    let text = text.replace("BK = 64", "BK = 16");
    let (_, rule) = select(&text, &[Feature::Synthesis]);
    let (_, best) = select(&text, &[]);
    assert!(shared(&rule).columns > 1, "the rule reads the least: {:?}", shared(&rule));
    assert_eq!((shared(&best).rows, shared(&best).columns), (8, 1), "no meeting of the block in the loop");
    let found = best.search.expect("the search was on");
    let variant = |t: &&Tried| t.point == Point::MmaVariant;
    assert!(found.tried.iter().filter(variant).count() >= 3, "{:?}", found.tried);
}

#[test]
fn a_product_alone_is_shared_as_it_reads_the_least() {
    let text = PRODUCT.replace("ALIGN", "align 16").replace("192", "128").replace("for t: consumers 3", "");
    let (k, plan) = select(&text.replace("MORE", "warps 8, products mma_sync"), &[]);
    assert_eq!(shared(&plan), WarpGrid { rows: 4, columns: 2, contiguous: false });
    let lines = plan.describe_search(&k);
    assert!(lines.iter().any(|l| l.contains("products: mma.sync by 8 x 1 warps")), "{lines:?}");
}

const PINNED: &str = "
kernel c(x: ptr<f32> align 16, y: ptr<f32> align 16, n: i32 % 8) {
    grid 1
    gx = view x : f32[64, n]
    gy = view y : f32[64, n]
    a = load gx[0, 0] : f32[64, 64]
    b = rearrange(a)
    store gy[0, 0], b
}
mapping c {
    tile a: layout \"(reg: 8:1@d1 4:4@d0, lane: 8:8@d1 4:1@d0, warp: 4:16@d0) -> (d0: 64, d1: 64)\"
    tile b: layout \"(reg: 8:1@d1 4:4@d0, lane: 4:1@d0 8:8@d1, warp: 4:16@d0) -> (d0: 64, d1: 64)\"
    kernel: warps 4
}
";

#[test]
fn what_the_text_rearranges_is_counted_and_told() {
    let (k, plan) = select(PINNED, &[]);
    let found = plan.search.as_ref().expect("the search was on");
    assert!(found.best.conversions > 0.0, "{found:?}");
    let lines = plan.describe(&k);
    assert!(lines.iter().any(|l| l.contains("conversion of a: ") && l.contains("shuffles")), "{lines:?}");
}

/// A product of a computed operand, so that each warp has all columns, stored to memory of which nothing is known.
const COMPUTED: &str = "
kernel b(a: ptr<f16> align 16, b: ptr<f16> align 16, c: ptr<f16>, m: i32, n: i32) {
    tunable BM = 512, BN = 16
    grid cdiv(m, BM), cdiv(n, BN)
    ga = view a : f16[m, 16]
    gb = view b : f16[n, 16]
    gc = view c : f16[m, n]
    i, j = block_index
    ta = load ga[i*BM, 0] : f16[BM, 16]
    tb = load gb[j*BN, 0] : f16[BN, 16]
    zero = full 0.0 : f32[BM, BN]
    y = mma zero, ta + ta, trans(tb)
    store gc[i*BM, j*BN], cast(y, f16)
}
mapping b { BM = 512, BN = 16 kernel: warps 4, products mma_sync }
";

#[test]
fn rows_lie_together_where_that_saves_meetings() {
    let rule = shared(&select(COMPUTED, &[Feature::Synthesis]).1);
    assert_eq!(rule, WarpGrid { rows: 4, columns: 1, contiguous: false });
    let (k, plan) = select(COMPUTED, &[]);
    assert!(shared(&plan).contiguous, "{:?}", plan.describe(&k));
    let stores = k.insts.values().filter(|d| matches!(d.op, Op::Store)).count();
    assert_eq!(stores, 1, "sixteen columns are one chunk, instead of eight of 64 rows");
}

#[test]
fn where_the_mapping_names_no_instruction_the_cheaper_one_is_taken() {
    // Reduced both ways, so that turning the product helps neither: warps side by side have columns whole, those of a
    // warpgroup never.
    let text = SUMMED
        .replace(", BN = 128", "")
        .replace("BN", "BM")
        .replace("reduce_max(p, 1)", "reduce_max(p, 1) + reduce_max(p, 0)")
        .replace("BK = 64", "BK = 16");
    let text = text.replace("WHAT", "raster linear");
    let (k, columns) = select(&text, &[]);
    assert!(!columns.warp_products.is_empty(), "{:?}", columns.describe(&k));
    assert_eq!(shared(&columns).columns, 4, "{:?}", columns.describe(&k));
    let rule = select(&text, &[Feature::Synthesis]).1;
    assert!(!rule.products.is_empty(), "128 rows are a warpgroup's");
    let wide = PRODUCT.replace("ALIGN", "align 16").replace("192", "128").replace("for t: consumers 3", "");
    let (k, wide) = select(&wide.replace("MORE", "raster linear"), &[]);
    assert!(!wide.products.is_empty(), "{:?}", wide.describe(&k));
    let variant = |t: &Tried| t.point == Point::MmaVariant && matches!(t.outcome, Outcome::Bounded(_));
    assert!(wide.search.is_some_and(|f| f.tried.iter().any(variant)), "{:?}", k.name);
}
