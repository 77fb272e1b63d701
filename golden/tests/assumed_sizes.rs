//! What a mapping assumes of arguments: chosen for given sizes, right at them, and refused at others.

use std::sync::Arc;
use warplift::Options;
use warplift::enumerate::{Chosen, Grants, Search, choose};
use warplift::ir::manifest::Fact;
use warplift::ir::target::SM90A;
use warplift::ir::tile::Kernel;
use warplift::kernels::find;
use warplift::problem::Sizes;
use warplift::tuning::{Took, Tunings};
use warplift_golden::library::reference;
use warplift_golden::orders::{MANY_ORDERS, right};

fn any() -> (Kernel, Grants) {
    let mut module = find("gemm_any").expect("a kernel").parse().expect("a text");
    let mut grants = Grants::of(&module.mappings);
    grants.tell(["m", "n", "k"]);
    (module.kernels.remove(0), grants)
}

fn chosen(kernel: &Kernel, grants: &Grants, sizes: &[(&str, i64)], tuned: Option<Arc<Tunings>>) -> Chosen {
    let sizes = Sizes::of(kernel, sizes).expect("sizes");
    let search = Search { grants: grants.clone(), tuned, ..Search::default() };
    choose(kernel, &sizes, &SM90A, &Options::default(), &search).expect("a mapping")
}

/// As the interpreter says, at sizes that divide by 8, by 4, by 2 and by nothing, and at empty ones.
#[test]
fn a_mapping_that_assumes_its_sizes_is_right_at_them() {
    let (kernel, grants) = any();
    for (m, n, k, of) in [
        (70, 72, 136, Some(8)),
        (33, 68, 100, Some(4)),
        (5, 66, 34, Some(2)),
        (65, 67, 69, None),
        (5, 8, 0, None),
    ] {
        let sizes = [("m", m), ("n", n), ("k", k)];
        let best = chosen(&kernel, &grants, &sizes, None).best;
        let fact = |f: &Fact| matches!(f, Fact::Multiple { name, of: by } if name == "k" && Some(*by) == of);
        assert_eq!(
            best.compiled.manifest.facts.iter().any(fact),
            of.is_some(),
            "{sizes:?}: {}",
            best.mapping
        );
        let aligned = |f: &&Fact| matches!(f, Fact::Aligned { align: 16, .. });
        assert_eq!(best.compiled.manifest.facts.iter().filter(aligned).count(), 3, "{}", best.mapping);
        let problem = reference(&kernel, &best.mapping, &sizes, 5);
        right(&problem, &best.compiled, &MANY_ORDERS, (2, 0.0), &format!("gemm_any {sizes:?}"));
    }
}

#[test]
fn facts_that_sizes_give_are_worth_as_much_as_facts_of_the_text() {
    let (kernel, grants) = any();
    let gemm = find("gemm").expect("a kernel").parse().expect("a text").kernels.remove(0);
    let sizes = [("m", 1024), ("n", 1024), ("k", 1024)];
    let [own, wanted] = [(&kernel, &grants), (&gemm, &Grants::default())]
        .map(|(kernel, grants)| chosen(kernel, grants, &sizes, None).best.cycles);
    assert!(own < 1.01 * wanted, "{own} of {wanted}");
    let mut pointers = Grants::default();
    pointers.tell(["n", "k"]);
    let plain = chosen(&kernel, &pointers, &sizes, None).best;
    assert!(plain.mapping.promises.is_empty() && plain.cycles > 2.0 * own, "{}", plain.mapping);
}

/// A record serves the sizes of its class, but not those that break what its mapping assumes, nor a caller who grants nothing.
#[test]
fn a_tuned_mapping_serves_only_what_it_assumes() {
    let (kernel, grants) = any();
    let at = |k: i64| [("m", 64), ("n", 64), ("k", k)];
    let found = chosen(&kernel, &grants, &at(128), None).best.mapping;
    assert!(!found.promises.is_empty(), "{found}");
    let mut tuned = Tunings::default();
    tuned.add(&kernel, &SM90A, "m=64,n=64,k=1..256", &found, Took::Predicted(1.0));
    let tuned = Some(Arc::new(tuned));
    let tried = |grants: &Grants, k: i64| {
        let chosen = chosen(&kernel, grants, &at(k), tuned.clone());
        (chosen.best.mapping == found, chosen.tried.1 == 1)
    };
    assert_eq!(tried(&grants, 120), (true, true));
    assert_eq!(tried(&grants, 100), (false, false), "100 is no multiple of 8");
    assert_eq!(tried(&Grants::default(), 120), (false, false), "nothing is granted");
}
