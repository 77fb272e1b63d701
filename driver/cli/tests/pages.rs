//! What README and the pages of docs say of the command line, held against the binary.

use std::process::Command;

/// Exit status and both outputs.
fn warplift(args: &[&str]) -> (i32, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_warplift")).args(args).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(&output.stdout) + &text(&output.stderr))
}

const README: &str = include_str!("../../../README.md");
const LAYOUTS: &str = include_str!("../../../docs/layouts.md");

/// All forms of `smem 64x64 f16 [swizzle 128 | pad 8]`: without what stands in brackets, and with each part of it.
fn forms(expression: &str) -> Vec<String> {
    // Brackets behind a space are of the grammar; those of Tilus hold numbers.
    let Some((before, rest)) =
        expression.split_once(" [").filter(|(_, r)| !r.starts_with(|c: char| c.is_ascii_digit()))
    else {
        return vec![expression.to_owned()];
    };
    let (inside, after) = rest.split_once(']').unwrap();
    let with = inside.split('|').map(|part| format!("{before} {}{after}", part.trim()));
    std::iter::once(format!("{before}{after}")).chain(with).collect()
}

#[test]
fn every_expression_of_the_page_of_layouts_is_read() {
    let (_, rest) = LAYOUTS.split_once("## Expressions").unwrap();
    let block = rest.split("```").nth(1).unwrap();
    let all = block.lines().skip(1).flat_map(|line| line.split("    ")).map(str::trim);
    // Operations name their operands `a`, `b`, `read` ..
    let whole =
        all.filter(|e| !e.is_empty() && !e.contains("(a") && !e.contains("(write") && !e.contains("(from"));
    let mut count = 0;
    for form in whole.flat_map(forms) {
        let (status, output) = warplift(&["layout", &form]);
        assert_eq!(status, 0, "`{form}`: {output}");
        count += 1;
    }
    assert!(count > 15, "{count} expressions");
}

#[test]
fn readme_lists_the_verbs_that_there_are() {
    let (_, help) = warplift(&["--help"]);
    let commands = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    // A command stands behind two spaces; the lines that go on with its help behind more.
    let commands =
        commands.lines().filter_map(|l| l.strip_prefix("  ")?.split(' ').next().filter(|w| !w.is_empty()));
    let verb =
        |line: &str| Some(line.strip_prefix("| `warplift ")?.split([' ', '`']).next().unwrap().to_owned());
    let listed: Vec<String> = README.lines().filter_map(verb).collect();
    for command in commands {
        assert!(listed.iter().any(|v| v == command), "README does not list `{command}`");
    }
    for verb in &listed {
        assert!(help.contains(&format!("  {verb} ")), "there is no `{verb}`");
    }
}

#[test]
fn readme_names_options_that_there_are() {
    let verbs = [
        "compile", "run", "check", "bench", "explain", "tune", "bundle", "sim", "mutate", "litmus", "layout",
    ];
    let mut helps: String = verbs.iter().map(|v| warplift(&[v, "--help"]).1).collect();
    helps += &warplift(&["toolchain", "install", "--help"]).1;
    let section = README.split("## Command line").nth(1).unwrap().split("\n## ").next().unwrap();
    let options = section.split("--").skip(1);
    let names = options.map(|o| o.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').next().unwrap());
    for name in names.filter(|n| !n.is_empty() && n.starts_with(|c: char| c.is_ascii_lowercase())) {
        assert!(helps.contains(&format!("--{name}")), "no verb has an option --{name}");
    }
}

#[test]
fn limits_of_readme_are_the_limits() {
    let cluster = |blocks: &str| {
        let rest = "for t: pipeline fit, producers 1, consumers 2";
        let mapping =
            format!("mapping gemm {{ BM = 128, BN = 256, BK = 64 {rest} kernel: cluster {blocks} }}");
        warplift(&["compile", "gemm", "--mapping", &mapping, "-o", "/dev/null"])
    };
    assert!(README.contains("| clusters | two blocks (`cluster 2`)"));
    assert_eq!(cluster("2").0, 0);
    let (status, output) = cluster("4");
    assert!(status == 2 && output.contains("a cluster of 4 blocks: at most 2 are possible"), "{output}");
}
