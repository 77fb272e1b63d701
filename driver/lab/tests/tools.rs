//! The Python tools beside the launcher: what they know of manifests, and the tables of families. They run without a
//! GPU and without PyTorch.

use std::process::Command;
use warplift::ir::target::SM90A;
use warplift::{Options, compile, kernels};

const TOOLS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tools");

/// Runs a script in the folder of the tools; returns what it prints.
fn python(script: &str, input: &str) -> String {
    let run = Command::new("python3").args(["-B", "-c", script, input]).current_dir(TOOLS).output();
    let output = run.expect("python3 runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// Checks a manifest's facts with pointers far apart, then with all of them at one address.
const CHECK: &str = "
import facts, json, sys
manifest = json.loads(sys.argv[1])
class Values(dict):
    def __missing__(self, name): return 0
def check(step):
    values = Values({a['name']: (i + 1) * step for i, a in enumerate(manifest['arguments'])})
    sizes = {a['name']: 64 for a in manifest['arguments']}
    known = [f for f in manifest['facts'] if f['fact'] in ('aligned', 'disjoint')]
    facts.check(known, values, sizes)
check(4096)
unknown = {f['fact'] for f in manifest['facts']} - set(facts.CHECKS)
try:
    check(0)
    print('overlap passes', *unknown)
except ValueError as error:
    print(error, *unknown)
";

#[test]
fn every_fact_of_a_manifest_is_known_and_checked() {
    for name in ["gemm", "gemm_any", "softmax", "a16w4"] {
        let module = kernels::find(name).expect("a kernel").parse().expect("a text");
        let made = compile(&module.kernels[0], &module.mappings[0], &SM90A, &Options::default());
        let manifest = serde_json::to_string(&made.expect("a program").manifest).expect("JSON");
        let said = python(CHECK, &manifest);
        assert!(said.contains("is written and overlaps"), "{name}: {said}");
        assert_eq!(said.trim().lines().count(), 1, "{said}");
        assert!(said.trim().ends_with('`'), "{name}: kinds of facts that the tool does not know: {said}");
    }
}

/// Every table names kernels that exist, words that their texts have, and rows of kernels that it lists.
const TABLES: &str = "
import pathlib, tempfile, table
for path in sorted((table.HERE / 'tables').glob('*.json')):
    family = table.family(path.stem)
    with tempfile.TemporaryDirectory() as folder:
        for name, kernel in family['kernels'].items():
            assert (table.KERNELS / (kernel['source'] + '.tile')).exists(), (name, kernel)
            table.source(name, kernel, folder)
    used = {kernel for kernel, _ in table.rows(family)}
    assert used == set(family['kernels']), used ^ set(family['kernels'])
    assert (table.HERE / 'peers' / family['peers']).exists(), family['peers']
    print(path.stem, len(list(table.rows(family))))
";

#[test]
fn tables_name_what_exists() {
    let said = python(TABLES, "");
    let families: Vec<&str> = said.lines().filter_map(|l| l.split(' ').next()).collect();
    assert_eq!(families, ["attention", "gemm", "library", "products", "rows", "weights"], "{said}");
}
