//! Bundles: one kernel under several mappings, and a table that says which of them serves which sizes.
//!
//! ```text
//!  kernel, classes of sizes ─► choose, predict, find borders ─► entries: mapping, manifest, cubin or PTX ─► file
//!                                                               table: ranges of sizes ─► entry
//!  file ─► Bundle ─► pick(sizes) ─► entry ─► launch             (cuda::LoadedBundle does all of it)
//! ```
//!
//! A mapping never changes a result, so any entry is right for any sizes that its facts allow. The table says which one
//! is fast. Sizes in no class get the nearest one.

mod borders;
mod class;
mod file;
mod table;

pub use class::SizeClass;
pub use file::BUNDLE_VERSION;
pub use table::{Class, Table};

use crate::enumerate::Grants;
use crate::tuning::Tunings;
use crate::{CompileError, Compiled, Options};
use borders::Pool;
use std::fmt;
use std::sync::Arc;
use warplift_ir::manifest::Manifest;
use warplift_ir::target::Target;
use warplift_ir::tile::{Kernel, Mapping};

/// The code of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Code {
    /// What ptxas made.
    Cubin(Vec<u8>),
    /// Text for the driver's compiler.
    Ptx(String),
}

impl Code {
    /// What a module is loaded from.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Cubin(bytes) => bytes,
            Self::Ptx(text) => text.as_bytes(),
        }
    }
}

/// A kernel under one mapping.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The mapping's text.
    pub mapping: String,
    /// Its launch manifest.
    pub manifest: Manifest,
    /// Its code.
    pub code: Code,
}

/// A kernel under several mappings. All entries take the same arguments, packed alike.
#[derive(Clone, Debug, PartialEq)]
pub struct Bundle {
    /// Name of the kernel.
    pub kernel: String,
    /// `.target` of the code, `sm_90a`.
    pub target: String,
    /// Version of the compiler that made it.
    pub compiler: String,
    /// The mappings.
    pub entries: Vec<Entry>,
    /// Which of them serves which sizes.
    pub table: Table,
}

/// Why there is no bundle.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// Sizes that are no class.
    #[error("sizes `{text}`: {why}")]
    Sizes {
        /// What was given.
        text: String,
        /// The mistake.
        why: String,
    },
    /// No classes were given.
    #[error("no sizes: a bundle needs one class at least")]
    NoSizes,
    /// No mapping compiles.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// No mapping that wants its arrays packed as the others do serves a class.
    #[error("no mapping with the packing of the others serves `{class}`: make a bundle of its own for it")]
    Unserved {
        /// The class.
        class: String,
    },
    /// No code could be made.
    #[error("{0}")]
    Code(String),
    /// The bytes are something else.
    #[error("the file is no bundle: it does not begin with `warplift-bundle`")]
    NoBundle,
    /// A bundle of another version.
    #[error("the bundle has version {found}, this reads {BUNDLE_VERSION}: make it anew with this compiler")]
    Version {
        /// Its version.
        found: String,
    },
    /// A bundle that was cut or altered.
    #[error("the bundle is damaged: {0}")]
    Broken(String),
}

/// What a caller of [`Bundle::make`] decides and sees.
pub struct Making<'m> {
    /// Makes the code of an entry: assembles, or takes the PTX.
    pub code: &'m dyn Fn(&Mapping, &Compiled) -> Result<Code, String>,
    /// Whether the assembler makes an entry slower than predicted, as by registers that it spills: another one is taken.
    pub is_slow: &'m dyn Fn(&Compiled) -> bool,
    /// Told after each sample of so many.
    pub progress: &'m mut dyn FnMut(usize, usize),
    /// Earlier results, which are taken as they are.
    pub tuned: Option<Arc<Tunings>>,
    /// What mappings may ask of the caller.
    pub grants: Grants,
}

impl Bundle {
    /// Makes a bundle for classes of sizes. Mappings are chosen at samples of each class, and the borders between them
    /// are found by prediction.
    ///
    /// # Errors
    /// No class, no mapping that compiles, no code.
    pub fn make(
        kernel: &Kernel,
        classes: &[SizeClass],
        target: &Target,
        options: &Options,
        mut making: Making<'_>,
    ) -> Result<Self, BundleError> {
        if classes.is_empty() {
            return Err(BundleError::NoSizes);
        }
        let mut pool = Pool::new(kernel, classes, target, options, &mut making)?;
        let group = pool.group(classes);
        let found = classes.iter().enumerate().map(|(c, class)| pool.classes(c, class, &group));
        let found = found.collect::<Result<Vec<_>, _>>()?;
        let assumes = |of: &[Class]| of.iter().any(|class| !class.multiples.is_empty());
        let general = classes.iter().zip(&found).filter(|(_, found)| assumes(found));
        let general = general.map(|(class, _)| pool.general(class, &group, &making));
        let general = general.collect::<Result<Vec<_>, _>>()?;
        let mut found: Vec<Class> =
            found.into_iter().flatten().chain(general.into_iter().flatten()).collect();
        let mut used: Vec<u32> = found.iter().map(|class| class.entry).collect();
        used.sort_unstable();
        used.dedup();
        for class in &mut found {
            class.entry = used.iter().position(|&m| m == class.entry).unwrap_or(0) as u32;
        }
        let entry = |&member: &u32| {
            let member = &pool.members[member as usize];
            let code = (making.code)(&member.mapping, &member.compiled).map_err(BundleError::Code)?;
            let (mapping, manifest) = (member.mapping.to_string(), member.compiled.manifest.clone());
            Ok(Entry { mapping, manifest, code })
        };
        Ok(Self {
            kernel: kernel.name.clone(),
            target: target.arch.to_string(),
            compiler: env!("CARGO_PKG_VERSION").to_owned(),
            entries: used.iter().map(entry).collect::<Result<_, BundleError>>()?,
            table: Table { names: class::integers(kernel), classes: found },
        })
    }

    /// The entry for the integer arguments of a launch, in the order of [`Table::names`].
    pub fn pick(&self, sizes: &[i64]) -> &Entry {
        &self.entries[self.table.pick(sizes).unwrap_or(0)]
    }
}

/// The table, a line for each class.
impl fmt::Display for Bundle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "kernel `{}` for {}, compiler {}: {} mappings",
            self.kernel,
            self.target,
            self.compiler,
            self.entries.len()
        )?;
        for class in &self.table.classes {
            let ranges = class::named(&self.table.names, &class.ranges);
            writeln!(f, "{:<40} entry {}, predicted {:.0} cycles", ranges, class.entry, class.cycles)?;
        }
        for (n, entry) in self.entries.iter().enumerate() {
            let kind = if matches!(entry.code, Code::Cubin(_)) { "cubin" } else { "PTX" };
            writeln!(
                f,
                "entry {n}: {kind} of {} bytes\n{}",
                entry.code.bytes().len(),
                entry.mapping.trim_end()
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::kernels::find;
    use warplift_ir::target::SM90A;

    /// A bundle of two mappings of `axpy`.
    pub(crate) fn small() -> Bundle {
        let module = find("axpy").unwrap().parse().unwrap();
        let (kernel, mapping) = (&module.kernels[0], &module.mappings[0]);
        let compiled = crate::compile(kernel, mapping, &SM90A, &Options::default()).unwrap();
        let entry = |code| Entry { mapping: mapping.to_string(), manifest: compiled.manifest.clone(), code };
        let class =
            |range, entry| Class { ranges: vec![range], entry, cycles: 5000.0, multiples: Vec::new() };
        Bundle {
            kernel: kernel.name.clone(),
            target: "sm_90a".to_owned(),
            compiler: "0".to_owned(),
            entries: vec![entry(Code::Cubin(vec![127, 0, 10, 255])), entry(Code::Ptx("text\n".to_owned()))],
            table: Table {
                names: vec!["n".to_owned()],
                classes: vec![class([1, 1000], 0), class([1001, 4000], 1)],
            },
        }
    }

    fn made(name: &str, sizes: &[&str]) -> Bundle {
        of_kernel(&find(name).unwrap().parse().unwrap().kernels[0], sizes)
    }

    fn of_kernel(kernel: &Kernel, sizes: &[&str]) -> Bundle {
        let classes: Vec<SizeClass> = sizes.iter().map(|s| SizeClass::parse(kernel, s).unwrap()).collect();
        let code = |_: &Mapping, compiled: &Compiled| Ok(Code::Ptx(compiled.ptx.clone()));
        let grants = Grants::packing(kernel);
        let making =
            Making { code: &code, is_slow: &|_| false, progress: &mut |_, _| {}, tuned: None, grants };
        Bundle::make(kernel, &classes, &SM90A, &Options::default(), making).unwrap()
    }

    #[test]
    fn classes_cover_their_range_without_gaps_and_win_on_both_sides_of_a_border() {
        let kernel = find("gemm").unwrap().parse().unwrap().kernels.remove(0);
        let bundle = made("gemm", &["m=1..512,n=4096,k=4096"]);
        println!("{bundle}");
        let classes = &bundle.table.classes;
        assert!(classes.len() > 1 && bundle.entries.len() > 1, "{bundle}");
        let ends: Vec<[i64; 2]> = classes.iter().map(|c| c.ranges[0]).collect();
        assert_eq!((ends[0][0], ends[ends.len() - 1][1]), (1, 512));
        assert!(ends.windows(2).all(|w| w[0][1] + 1 == w[1][0]), "{ends:?}");
        let cycles = |entry: &Entry, m: i64| {
            let text = format!("{m}x4096x4096");
            let sizes = crate::problem::Sizes::nominal(&kernel).overridden(&kernel, &text).unwrap();
            let mapping = warplift_ir::tile::parse_file(&entry.mapping, "").unwrap().mappings.remove(0);
            crate::predict::predict(&kernel, &mapping, &SM90A, &sizes, &Options::default()).unwrap().cycles
        };
        for (a, b) in classes.iter().zip(&classes[1..]) {
            let [low, high] = [&bundle.entries[a.entry as usize], &bundle.entries[b.entry as usize]];
            let border = a.ranges[0][1];
            assert!(cycles(low, border) <= 1.04 * cycles(high, border), "{border}");
            assert!(cycles(high, border + 1) <= 1.04 * cycles(low, border + 1), "{border}");
        }
    }

    /// Weights are packed once: whatever the number of rows, they are packed alike.
    #[test]
    fn entries_want_their_arrays_packed_alike() {
        let bundle = made("a16w4", &["m=1..32,n=4096,k=4096"]);
        println!("{bundle}");
        let packing = |e: &Entry| e.manifest.arguments.iter().map(|a| a.packing.clone()).collect::<Vec<_>>();
        assert!(packing(&bundle.entries[0]).iter().any(Option::is_some));
        assert!(bundle.entries.iter().all(|e| packing(e) == packing(&bundle.entries[0])), "{bundle}");
        assert!(std::ptr::eq(
            bundle.pick(&[1, 4096, 4096]),
            &bundle.entries[bundle.table.classes[0].entry as usize]
        ));
    }

    /// Where the text has no facts, an entry assumes what the sizes of its class say, and another one takes all other sizes.
    #[test]
    fn entries_assume_what_their_sizes_say() {
        let mut kernel = find("gemm").unwrap().parse().unwrap().kernels.remove(0);
        kernel.params.iter_mut().for_each(|p| p.facts.multiple = 1);
        let bundle = of_kernel(&kernel, &["m=1..64,n=4096,k=4096", "m=128,n=4096,k=4099"]);
        println!("{bundle}");
        let mapping = |sizes: &[i64]| bundle.pick(sizes).mapping.clone();
        for m in [1, 7, 64] {
            assert!(mapping(&[m, 4096, 4096]).contains("assume k % 8"), "{bundle}");
            assert!(!mapping(&[m, 4096, 4096]).contains("assume m"), "{bundle}");
            assert!(!mapping(&[m, 4096, 4097]).contains("assume k"), "{bundle}");
        }
        let other = mapping(&[128, 4096, 4099]);
        assert!(other.contains("assume n % 8") && !other.contains("assume k"), "{bundle}");
    }

    /// What the assembler slows down is no entry, unless it slows all down.
    #[test]
    fn entries_are_not_what_the_assembler_slows_down() {
        let kernel = find("gemm").unwrap().parse().unwrap().kernels.remove(0);
        let classes = [SizeClass::parse(&kernel, "m=512,n=4096,k=4096").unwrap()];
        let code = |_: &Mapping, compiled: &Compiled| Ok(Code::Ptx(compiled.ptx.clone()));
        let text = |is_slow: &dyn Fn(&Compiled) -> bool| {
            let grants = Grants::default();
            let making = Making { code: &code, is_slow, progress: &mut |_, _| {}, tuned: None, grants };
            let mut made = Bundle::make(&kernel, &classes, &SM90A, &Options::default(), making).unwrap();
            assert_eq!(made.entries.len(), 1, "{made}");
            made.entries.remove(0).code.bytes().to_vec()
        };
        let best = text(&|_| false);
        let next = text(&|c| c.ptx.as_bytes() == best);
        assert!(next != best);
        assert!(text(&|_| true) == best);
    }

    #[test]
    fn a_bundle_without_sizes_is_refused() {
        let kernel = find("axpy").unwrap().parse().unwrap().kernels.remove(0);
        let code = |_: &Mapping, _: &Compiled| Err("no".to_owned());
        let make = |classes: &[SizeClass]| {
            let making = Making {
                code: &code,
                is_slow: &|_| false,
                progress: &mut |_, _| {},
                tuned: None,
                grants: Grants::default(),
            };
            Bundle::make(&kernel, classes, &SM90A, &Options::default(), making).unwrap_err().to_string()
        };
        assert!(make(&[]).contains("no sizes"));
        assert_eq!(make(&[SizeClass::parse(&kernel, "n=4096").unwrap()]), "no");
    }
}
