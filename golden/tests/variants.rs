//! Equal programs, equal plans: texts of the library as other authors would write them. Each file of `golden/variants`
//! is a kernel and its re-expressions. All are compiled, simulated without hazard, compared with the interpreter, and
//! predicted to take about as long as the best of them.
//!
//! ```text
//!  # What the texts compute.
//!  kernel gemm                          the library's text
//!  size m=4096,n=4096,k=4096            predicted
//!  try m=130,n=264,k=136                simulated
//!  base                                 all texts differ from the library's by this
//!  -    y = mma x, ta, tb
//!  +    ..
//!
//!  == sums in another order             a re-expression: parts of the text, and what stands there instead
//!  most 1.20: the reason                not at the bar yet: at most so much of the best
//!  slower: what was measured            measured to be slower than predicted: others are not compared with it
//!  -    y = x + d
//!  +    y = d + x
//! ```

use std::fmt::Write as _;
use std::path::Path;
use warplift::ir::target::SM90A;
use warplift::ir::tile::{Kernel, Mapping, parse_file};
use warplift::kernels::LIBRARY;
use warplift::predict::predict;
use warplift::{Options, compile};
use warplift_golden::orders::{FEW_ORDERS, right};
use warplift_lab::validate::{Sizes, Style, Validation};

/// The most that a text's cycles may be of those of the best text.
const MOST: f64 = 1.05;
/// Greatest difference from the interpreter.
const TOLERANCE: f64 = 2e-2;

/// A re-expression.
#[derive(Default)]
struct Variant {
    name: String,
    /// The most of the best text's cycles, if it is not at the bar.
    most: Option<f64>,
    /// Whether it was measured to be slower than predicted, so that others are not compared with it.
    measured_slower: bool,
    /// Parts of the text and what stands there instead.
    words: Vec<(String, String)>,
}

/// A kernel and its re-expressions. The first is the text itself.
#[derive(Default)]
struct Group {
    kernel: String,
    size: String,
    tried: Vec<String>,
    variants: Vec<Variant>,
}

impl Group {
    fn parse(text: &str) -> Self {
        let text_itself = Variant { name: "the text".to_owned(), ..Variant::default() };
        let mut group = Self { variants: vec![text_itself], ..Self::default() };
        let mut removes = false;
        for line in text.lines() {
            let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
            let last = group.variants.len() - 1;
            let variant = &mut group.variants[last];
            match (line.chars().next(), first) {
                (None | Some('#'), _) | (_, "base") => {}
                (Some('-'), _) if removes => push_line(&mut variant.words.last_mut().unwrap().0, &line[1..]),
                (Some('-'), _) => variant.words.push((line[1..].to_owned(), String::new())),
                (Some('+'), _) => push_line(&mut variant.words.last_mut().expect("a `-` line").1, &line[1..]),
                (_, "==") => group.variants.push(Variant { name: rest.to_owned(), ..Variant::default() }),
                (_, "most") => {
                    let (most, reason) = rest.split_once(": ").expect("`most NUMBER: reason`");
                    assert!(!reason.is_empty());
                    variant.most = Some(most.parse().expect("a number"));
                }
                (_, "slower:") => {
                    assert!(rest.contains("measured"), "`slower: what was measured`");
                    variant.measured_slower = true;
                }
                (_, "kernel") => rest.clone_into(&mut group.kernel),
                (_, "size") => rest.clone_into(&mut group.size),
                (_, "try") => group.tried.push(rest.to_owned()),
                _ => panic!("what is `{line}`?"),
            }
            removes = line.starts_with('-');
        }
        group
    }

    /// The text of a variant.
    fn text(&self, variant: &Variant) -> String {
        let library = LIBRARY.iter().find(|t| t.name == self.kernel).expect("a kernel of the library");
        let mut text = library.text.to_owned();
        let base = &self.variants[0].words;
        let own = variant.words.iter().filter(|_| variant.name != self.variants[0].name);
        for (from, to) in base.iter().chain(own) {
            assert!(text.contains(from.as_str()), "{}: the text has no\n{from}\n\n{text}", variant.name);
            text = text.replace(from.as_str(), to);
        }
        text
    }

    fn parsed(&self, variant: &Variant) -> (Kernel, Mapping) {
        let text = self.text(variant);
        let module = parse_file(&text, "again").unwrap_or_else(|e| panic!("{}: {e:?}\n{text}", variant.name));
        (module.kernels[0].clone(), module.mappings[0].clone())
    }

    /// The predicted cycles of each variant, or why there are none.
    fn cycles(&self) -> Vec<Result<f64, String>> {
        let cycles = |v: &Variant| {
            let (kernel, mapping) = self.parsed(v);
            let sizes = Sizes::parse(&kernel, &self.size).map_err(|e| format!("{e:?}"))?;
            let made = predict(&kernel, &mapping, &SM90A, &sizes, &Options::default());
            made.map(|p| p.cycles).map_err(|e| e.to_string())
        };
        self.variants.iter().map(cycles).collect()
    }
}

/// A further line.
fn push_line(text: &mut String, line: &str) {
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(line);
}

/// The files, with the names that `VARIANTS` holds if it is set.
fn groups() -> Vec<(String, Group)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("variants");
    let wanted = std::env::var("VARIANTS").unwrap_or_default();
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|f| f.unwrap().path()).collect();
    files.sort();
    let name = |p: &Path| p.file_stem().unwrap().to_string_lossy().into_owned();
    let named = files.iter().map(|p| (name(p), Group::parse(&std::fs::read_to_string(p).unwrap())));
    named.filter(|(name, _)| wanted.is_empty() || wanted.split(',').any(|w| w == name)).collect()
}

#[test]
fn equal_programs_take_equal_time() {
    let mut slow = String::new();
    for (file, group) in groups() {
        let cycles = group.cycles();
        let compared = group.variants.iter().zip(&cycles).filter(|(v, _)| !v.measured_slower);
        let best = compared.flat_map(|(_, c)| c.as_ref().ok()).copied().fold(f64::INFINITY, f64::min);
        for (variant, here) in group.variants.iter().zip(&cycles) {
            let most = variant.most.unwrap_or(MOST);
            let ratio = here.as_ref().map(|c| c / best);
            println!("{file}: {}: {ratio:.3?}", variant.name);
            if ratio.is_err() || ratio.as_ref().is_ok_and(|r| *r > most) {
                writeln!(slow, "{file}: {}: {ratio:.3?}, at most {most}", variant.name).unwrap();
            }
        }
    }
    assert!(slow.is_empty(), "\n{slow}");
}

#[test]
fn equal_programs_compute_the_same() {
    let mut texts = 0;
    for (file, group) in groups() {
        for variant in &group.variants {
            let (kernel, mapping) = group.parsed(variant);
            let options = Options { verify: true, ..Options::default() };
            let name = format!("{file}: {}", variant.name);
            let made = compile(&kernel, &mapping, &SM90A, &options).unwrap_or_else(|e| panic!("{name}: {e}"));
            texts += 1;
            for sizes in &group.tried {
                let sizes = Sizes::parse(&kernel, sizes).expect("sizes");
                let validation = Validation::new(&kernel, &mapping, sizes).expect("a trial");
                let problem = validation.reference(Style::Normal, 7).expect("a reference");
                right(&problem, &made, &FEW_ORDERS, (2, TOLERANCE), &name);
            }
        }
    }
    assert!(texts >= 60 || std::env::var_os("VARIANTS").is_some(), "{texts} texts");
}
