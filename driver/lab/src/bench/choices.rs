//! The mappings that are chosen for a list of products, and how far their predictions are from what no schedule beats.
//!
//! ```text
//!  products.txt
//!  weights.txt    kernel  m x n x k ──► choose ──► mapping, predicted cycles ┐
//!                           └─► floor: launch + max(m n k / rate, bytes) ────┴─► ratio, and whether the bar holds
//! ```

use rayon::prelude::*;
use std::fmt;
use tabled::builder::Builder;
use tabled::settings::object::Columns;
use tabled::settings::{Alignment, Modify, Style};
use warplift::Options;
use warplift::enumerate::{Grants, Search, choose};
use warplift::ir::target::{SM90A, Target};
use warplift::ir::tile::{Kernel, Mapping};
use warplift::kernels::find;
use warplift::problem::{Problem, Sizes, operand_bits, traffic};

/// The products.
pub const PRODUCTS: &str = include_str!("products.txt");
/// Layers with weights of 4 bits, at 1 to 64 rows.
pub const WEIGHTS: &str = include_str!("weights.txt");

/// The bar: so many floors where the list says nothing else, and cycles for the first loads and the epilogue.
const BAR: (f64, f64) = (1.2, 2500.0);
/// Cycles more where blocks share out the depth and add their parts.
const SHARED_OUT: f64 = 2500.0;

/// A product and the mapping that was chosen for it.
#[derive(Clone, Debug)]
pub struct Choice {
    /// Kernel of the library.
    pub kernel: String,
    /// Its sizes.
    pub sizes: String,
    /// What it is.
    pub about: String,
    /// The mapping.
    pub mapping: Mapping,
    /// Predicted cycles of the whole launch.
    pub predicted: f64,
    /// Cycles that no schedule beats: the product itself, without padding to tiles.
    pub floor: f64,
    /// Floors that the bar allows.
    pub floors: f64,
    /// Mappings that were compiled, and milliseconds of the choice.
    pub cost: (usize, f64),
}

impl Choice {
    /// Predicted over floor.
    pub fn ratio(&self) -> f64 {
        self.predicted / self.floor
    }

    /// Cycles above the bar of [`Choice::floors`] and 2,500 cycles, 5,000 where the depth is shared out; none where the
    /// bar holds.
    pub fn above_bar(&self) -> Option<f64> {
        let more = if self.mapping.is_shared_out() { SHARED_OUT } else { 0.0 };
        let above = self.predicted - (self.floors * self.floor + BAR.1 + more);
        (above > 0.0).then_some(above)
    }
}

/// Chooses for every product of a list. A line `bar 1.5` says how many floors the bar of the next lines allows.
///
/// # Errors
/// A line that is no product, and a product for which no mapping compiles.
pub fn choices(list: &str) -> Result<Vec<Choice>, String> {
    let about = |line: &str, e: String| format!("`{line}`: {e}");
    let mut floors = BAR.0;
    let mut lines = Vec::new();
    for line in list.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#')) {
        match line.strip_prefix("bar ") {
            Some(bar) => {
                let bar = bar.trim().parse::<f64>().ok().filter(|bar| *bar >= 1.0);
                floors =
                    bar.ok_or_else(|| about(line, "expected a number of floors, 1 or more".to_owned()))?;
            }
            None => lines.push((line, floors)),
        }
    }
    lines.par_iter().map(|&(line, floors)| choice(line, floors).map_err(|e| about(line, e))).collect()
}

fn choice(line: &str, floors: f64) -> Result<Choice, String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [name, size, about @ ..] = &words[..] else { return Err("expected a kernel and sizes".to_owned()) };
    let text = find(name).ok_or_else(|| format!("no kernel `{name}`"))?;
    let mut module = text.parse().map_err(|e| e.to_string())?;
    let kernel = module.kernels.swap_remove(0);
    let mut grants = Grants::of(&module.mappings);
    grants.tell(kernel.params.iter().map(|p| p.name.as_str()));
    let search = Search { grants, ..Search::default() };
    let sizes = Sizes::nominal(&kernel).overridden(&kernel, size).map_err(|e| e.to_string())?;
    let chosen = choose(&kernel, &sizes, &SM90A, &Options::default(), &search);
    let chosen = chosen.map_err(|e| e.to_string())?;
    let prediction = chosen.best.prediction.ok_or("a block has too many instructions to walk")?;
    Ok(Choice {
        kernel: (*name).to_owned(),
        sizes: (*size).to_owned(),
        about: about.join(" "),
        floor: floor(&kernel, &chosen.best.mapping, &sizes, &SM90A)?,
        floors,
        mapping: chosen.best.mapping,
        predicted: prediction.cycles,
        cost: (chosen.tried.1, chosen.elapsed.as_secs_f64() * 1e3),
    })
}

/// The floor of `m` by `n` by `k`.
fn floor(kernel: &Kernel, mapping: &Mapping, sizes: &Sizes, target: &Target) -> Result<f64, String> {
    let problem = Problem::new(kernel, mapping, sizes.clone()).map_err(|e| e.to_string())?;
    let extent = |name| sizes.int(name).ok_or_else(|| format!("the kernel has no size `{name}`"));
    let work = extent("m")? as f64 * extent("n")? as f64 * extent("k")? as f64;
    let rate = target.estimates.product_rate * 16.0 / f64::from(operand_bits(kernel));
    let products = work / (rate * f64::from(target.multiprocessors));
    let memory = traffic(&problem.operands) / target.rates.memory_bytes_per_cycle;
    Ok(target.estimates.start_cycles + products.max(memory))
}

/// The words of a mapping that choices differ in.
fn short(mapping: &Mapping) -> String {
    let tile: Vec<String> = mapping.tunables.iter().map(|t| t.1.to_string()).collect();
    let looped = mapping.loops.first().map(|l| &l.1);
    let whole = &mapping.whole;
    let mut words = vec![tile.join(" x ")];
    words.extend(looped.and_then(|l| l.consumers).map(|n| format!("consumers {n}")));
    words.extend(looped.and_then(|l| l.wait).map(|n| format!("wait {n}")));
    words.extend(looped.and_then(|l| l.split_k).map(|n| format!("split_k {n}")));
    words.extend(looped.filter(|l| l.stream_k).map(|_| "stream_k".to_owned()));
    words.extend(whole.warps.map(|n| format!("warps {n}")));
    words.extend((whole.cluster > 1).then(|| format!("cluster {}", whole.cluster)));
    if whole.persistent {
        words.push("persistent".to_owned());
        words.extend(whole.raster_words().map(|words| words.replace("raster ", "")));
    }
    words.join(", ")
}

/// A table of choices, and how many meet the bar.
pub struct Table(pub Vec<Choice>);

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Builder::default();
        table.push_record([
            "kernel",
            "m x n x k",
            "what",
            "choice",
            "cycles",
            "floor",
            "ratio",
            "above the bar",
        ]);
        for c in &self.0 {
            let above = c.above_bar().map_or(String::new(), |cycles| format!("{cycles:.0}"));
            let numbers = [c.predicted, c.floor].map(|v| format!("{v:.0}"));
            let words = [c.kernel.clone(), c.sizes.clone(), c.about.clone(), short(&c.mapping)];
            let rest = [format!("{:.2}", c.ratio()), above];
            table.push_record(words.into_iter().chain(numbers).chain(rest));
        }
        let mut table = table.build();
        table.with(Style::markdown()).with(Modify::new(Columns::new(4..)).with(Alignment::right()));
        let good = self.0.iter().filter(|c| c.above_bar().is_none()).count();
        let slowest = self.0.iter().map(|c| c.cost.1).fold(0.0, f64::max);
        writeln!(f, "{table}\n")?;
        writeln!(
            f,
            "{good} of {} within their bar: {} floors, or as the list says, and {} cycles ({SHARED_OUT} more where the depth is shared out); the slowest choice took {slowest:.0} ms",
            self.0.len(),
            BAR.0,
            BAR.1
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warplift::ir::tile::Way;

    fn products(list: &str) -> Vec<String> {
        let lines = list.lines().filter(|l| !l.starts_with('#') && !l.starts_with("bar"));
        let mut all: Vec<String> =
            lines.map(|l| l.split_whitespace().take(2).collect::<Vec<_>>().join(" ")).collect();
        all.sort();
        all.dedup();
        all
    }

    #[test]
    fn the_lists_have_forty_products_and_each_layer_at_five_numbers_of_rows() {
        assert_eq!(products(PRODUCTS).len(), 40);
        let all = products(WEIGHTS);
        assert_eq!(all.len(), 5 * 27);
        for m in [1, 8, 16, 32, 64] {
            assert_eq!(all.iter().filter(|l| l.starts_with(&format!("a16w4 {m}x"))).count(), 27, "{m}");
        }
    }

    /// One layer of each kind: deep, wide, square, with rows that few tiles divide.
    #[test]
    fn layers_with_narrow_weights_meet_the_bar() {
        let list = "a16w4 1x4096x14336\na16w4 8x8192x8192\na16w4 16x8192x8192\na16w4 32x28672x4096\n";
        for c in choices(list).unwrap() {
            assert!(c.above_bar().is_none(), "{} {:.2}\n{}", c.sizes, c.ratio(), c.mapping);
            assert!(c.mapping.arrays.iter().any(|a| a.1.way == Way::Packed), "{}", c.mapping);
        }
    }

    #[test]
    fn a_list_says_how_many_floors_are_allowed() {
        let of = |bar: &str| choices(&format!("{bar}gemm 64x4096x7168\n"));
        let [usual, strict] = ["", "bar 1.01\n"].map(|bar| of(bar).unwrap().remove(0));
        assert_eq!((usual.floors, strict.floors, usual.mapping.clone()), (1.2, 1.01, strict.mapping.clone()));
        let bar = strict.predicted - 1.01 * strict.floor - BAR.1;
        let more = if strict.mapping.is_shared_out() { SHARED_OUT } else { 0.0 };
        assert_eq!(strict.above_bar(), (bar > more).then_some(bar - more));
        assert!(of("bar 0.9\n").unwrap_err().contains("expected a number of floors"));
    }

    #[test]
    fn small_and_thin_products_meet_the_bar() {
        let list = "gemm 1x6144x4096\ngemm 64x4096x7168 an expert\n# no product\ngemm 1024x1024x1024\n";
        let all = choices(list).unwrap();
        assert_eq!((all.len(), all[1].about.as_str()), (3, "an expert"));
        for c in &all {
            assert!(
                c.ratio() >= 1.0 && c.above_bar().is_none(),
                "{} {:.2}\n{}",
                c.sizes,
                c.ratio(),
                c.mapping
            );
        }
        assert!(Table(all).to_string().contains("3 of 3 within their bar: 1.2 floors"));
    }

    #[test]
    fn a_line_that_is_no_product_is_named() {
        for (line, message) in [
            ("gemm", "expected a kernel and sizes"),
            ("gem 1x2x3", "no kernel `gem`"),
            ("gemm 1x2", "sizes m x n x k"),
            ("axpy n=100", "no size `m`"),
        ] {
            let error = choices(line).unwrap_err();
            assert!(error.contains(message) && error.starts_with(&format!("`{line}`")), "{error}");
        }
    }
}
