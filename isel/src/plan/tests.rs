//! Plans that are found hold every constraint, cost no more than the default plan, and are the same each time.

use super::cost::Model;
use super::solve::Solver;
use super::*;
use crate::map::{MapContext, do_map};
use proptest::prelude::*;
use std::path::Path;
use warplift_ir::target::SM90A;
use warplift_ir::tile::{Op, parse_file};

fn mapped(text: &str) -> Kernel {
    let m = parse_file(text, "t.tile").unwrap_or_else(|e| panic!("{e:?}\n{text}"));
    let context = MapContext::new(&m.mappings[0], &SM90A, &[]);
    let variants = do_map(&m.kernels[0], &context).unwrap_or_else(|e| panic!("{e}\n{text}"));
    variants[0].kernel.clone()
}

/// The result of the search, checked against the default plan and against a second search.
fn check(k: &Kernel) -> Result<Plan> {
    let plan = do_plan(k, &SM90A)?;
    let order = program_order(k);
    let broken = Solver::new(k, &order);
    let broken = broken.broken(&plan);
    assert!(broken.is_empty(), "{broken:?}\n{k}");
    let found = plan.search.as_ref().expect("the search was on");
    let model = Model::new(k, &order, Ways::default(), &SM90A);
    assert_eq!(model.cost(&plan)?, found.best, "what is said of the plan is what it costs");
    assert!(found.plans <= search::PLANS);
    if let Ok(rule) = do_plan_without(k, &SM90A, &[Feature::Synthesis]) {
        let rule = model.cost(&rule)?;
        assert_eq!(found.rule, Some(rule));
        assert!(found.best.total() <= rule.total());
        assert!(rule.least <= found.best.total() + 1e-6, "the bound is one: {rule:?} {:?}", found.best);
    }
    assert_eq!(do_plan(k, &SM90A)?.describe(k), plan.describe(k), "the same each time");
    Ok(plan)
}

#[test]
fn plans_of_the_library_hold_and_cost_no_more_than_the_rules() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../driver/kernels");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).expect("the library") {
        let path = entry.expect("an entry").path();
        let text = std::fs::read_to_string(&path).expect("a kernel");
        check(&mapped(&text)).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        seen += 1;
    }
    assert!(seen > 20);
}

#[test]
fn what_the_bounds_decide_takes_one_plan() {
    for name in ["gemm", "gemm_nn", "attention", "attention_causal", "a16w4"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../driver/kernels/{name}.tile"));
        let k = mapped(&std::fs::read_to_string(path).expect("a kernel"));
        let found =
            do_plan(&k, &SM90A).unwrap_or_else(|e| panic!("{name}: {e}")).search.expect("the search was on");
        assert_eq!(found.plans, 1, "{name}: {found:?}");
        assert!(found.tried.len() > 3 && Some(found.best) == found.rule, "{name}: {found:?}");
    }
}

/// Bodies over tiles `tx` and `tz` of as many rows as columns, `R` and `C`.
const BODIES: [&str; 6] = [
    "store gy[0, 0], tx + tz",
    "store gy[0, 0], tx + trans(tx) * tz",
    "store gy[0, 0], tz + expand_dims(reduce_sum(tx, 0), 1)",
    "last = for t in 0..3 carry a = tx {
        next = trans(a) + tz
        yield next
    }
    store gy[0, 0], last",
    "at = iota(1) : i32[R, C]
    keep = trans(cast(at, f32) < tx)
    store gy[0, 0], select(keep, tz, cast(at, f32))",
    "flat = reshape(tx) : f32[R*C]
    store gy[0, 0], (reshape(flat) : f32[R, C]) + tz * expand_dims(reduce_max(tz, 1), 1)",
];

fn text(body: &str, size: u32, warps: u32) -> String {
    let body = body.replace(['R', 'C'], &size.to_string());
    format!(
        "kernel c(x: ptr<f32> align 16, z: ptr<f32> align 16, y: ptr<f32> align 16, n: i32 % 8) {{
    grid 1
    gx = view x : f32[{size}, n]
    gz = view z : f32[{size}, n]
    gy = view y : f32[{size}, n]
    tx = load gx[0, 0] : f32[{size}, {size}]
    tz = load gz[0, 0] : f32[{size}, {size}]
    {body}
}}
mapping c {{ kernel: warps {warps} }}
"
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn random_plans_hold(body in 0..BODIES.len(), eighths in 1..17u32, warps in 1..9u32) {
        let k = mapped(&text(BODIES[body], 8 * eighths, warps));
        // The default plan refuses such a kernel too, with a message.
        if let Err(e) = check(&k) {
            prop_assert!(do_plan_without(&k, &SM90A, &[Feature::Synthesis]).is_err(), "{e}");
        }
    }
}

#[test]
fn a_constraint_that_does_not_hold_is_noticed() {
    let k = mapped(&text(BODIES[0], 64, 4));
    let mut plan = do_plan(&k, &SM90A).unwrap_or_else(|e| panic!("{e}"));
    let sum = k.insts.iter().find(|(_, d)| matches!(d.op, Op::Binary(_))).expect("a sum").0;
    let turned = blocked(&[64, 64], 0, 4, 4).expect("a layout");
    plan.layouts[k.result(sum)] = Some(turned);
    assert!(!Solver::new(&k, &program_order(&k)).broken(&plan).is_empty());
}
