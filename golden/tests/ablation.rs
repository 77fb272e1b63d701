//! The ablation: a kernel without a feature is refused with a reason, or computes the same, as emitted, in the
//! simulator, without a hazard.

use warplift::ir::target::SM90A;
use warplift::{CompileError, Feature, Options, compile};
use warplift_golden::library::{CASES, Case, load, reference_on};
use warplift_golden::orders::{ORDERS, right};

const KERNELS: [&str; 7] =
    ["gemm", "attention", "attention_causal", "a16w4", "a16w4_large", "softmax", "transpose"];

fn case(name: &str) -> &'static Case {
    CASES.iter().find(|c| c.name == name).unwrap_or_else(|| panic!("no case of {name}"))
}

/// Whether a kernel without a feature is another one; a refusal's words.
fn without(case: &Case, feature: Feature) -> Result<bool, String> {
    let (kernel, mapping) = load(case.name);
    let options = |disable| Options { verify: true, disable, ..Options::default() };
    let full = compile(&kernel, &mapping, &SM90A, &options(Vec::new())).unwrap_or_else(|e| panic!("{e}"));
    let made = match compile(&kernel, &mapping, &SM90A, &options(vec![feature])) {
        Ok(made) => made,
        Err(e @ CompileError::Bug { .. }) => panic!("{} without {feature}: {e}", case.name),
        Err(e) => return Err(e.to_string()),
    };
    if made.ptx == full.ptx {
        return Ok(false);
    }
    let problem = reference_on(&kernel, &mapping, (case.sizes, case.data), 7);
    let what = format!("{} without {feature}", case.name);
    right(&problem, &made, &ORDERS, (case.sms, case.tolerance), &what);
    Ok(true)
}

#[test]
fn every_feature_can_be_left_out_of_every_probe() {
    let mut table = Vec::new();
    for name in KERNELS {
        for (feature_name, feature) in Feature::all() {
            let form = without(case(name), feature);
            println!("{name:<18} {feature_name:<20} {form:?}");
            table.push((name, feature_name, form));
        }
    }
    let refused: Vec<_> = table.iter().filter(|t| t.2.is_err()).map(|t| (t.0, t.1)).collect();
    assert_eq!(refused, [], "{table:?}");
    let differs = |kernel, feature| table.contains(&(kernel, feature, Ok(true)));
    for (kernel, feature) in [
        ("gemm", "warp-specialization"),
        ("gemm", "deferral"),
        ("attention", "warp-specialization"),
        ("attention", "modulo"),
        ("attention_causal", "modulo"),
        ("a16w4", "warp-specialization"),
    ] {
        assert!(differs(kernel, feature), "{kernel} without {feature} is the same");
    }
}
