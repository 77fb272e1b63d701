//! Tuning files: which mapping was best for a kernel and a class of sizes, measured or predicted.
//!
//! ```text
//!  warplift-tuning 1
//!  kernel hash <tab> chip <tab> compiler <tab> m=1..8,n=4096,k=4096 <tab> 12.34 us <tab> mapping gemm { .. }
//! ```
//!
//! A record has one line, and lines are sorted, so a file can be committed and merged line by line. Of two records with
//! one key the measured one counts, else the one with the lower number. A record of another kernel text, chip or
//! compiler has another key: it is kept and not used.

use crate::problem::Sizes;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use warplift_ir::target::Target;
use warplift_ir::tile::{Kernel, Mapping, parse_file};

/// The first line of a file.
const HEAD: &str = "warplift-tuning 1";

/// The compiler's build: `WARPLIFT_BUILD` when it was built, else its version.
pub const BUILD: &str = match option_env!("WARPLIFT_BUILD") {
    Some(build) => build,
    None => env!("CARGO_PKG_VERSION"),
};

/// What a record says of its mapping.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Took {
    /// Microseconds of a launch on a GPU.
    Measured(f64),
    /// Predicted cycles.
    Predicted(f64),
}

impl Took {
    /// Measured before predicted, then the lower number.
    fn rank(self) -> (bool, f64) {
        match self {
            Self::Measured(us) => (false, us),
            Self::Predicted(cycles) => (true, cycles),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let (number, unit) = text.split_once(' ')?;
        let number = number.parse().ok().filter(|n: &f64| n.is_finite())?;
        match unit {
            "us" => Some(Self::Measured(number)),
            "cycles" => Some(Self::Predicted(number)),
            _ => None,
        }
    }
}

impl fmt::Display for Took {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Measured(us) => write!(f, "{us:.2} us"),
            Self::Predicted(cycles) => write!(f, "{cycles:.0} cycles"),
        }
    }
}

/// A kernel, chip, compiler and class of sizes. Its order is that of the lines.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    kernel: String,
    chip: String,
    build: String,
    sizes: String,
}

impl Key {
    fn new(kernel: &Kernel, target: &Target, sizes: String) -> Self {
        Self { kernel: hash(kernel), chip: target.name.to_owned(), build: BUILD.to_owned(), sizes }
    }

    /// Whether sizes lie in the key's class.
    fn holds(&self, sizes: &Sizes) -> bool {
        let holds = |(name, range): (&str, [i64; 2])| {
            sizes.int(name).is_some_and(|v| (range[0]..=range[1]).contains(&v))
        };
        ranges(&self.sizes).is_some_and(|all| all.into_iter().all(holds))
    }
}

/// Ranges of a class, `m=1..8,n=4096`; none for a kernel without integer arguments.
fn ranges(class: &str) -> Option<Vec<(&str, [i64; 2])>> {
    let items = class.split(',').filter(|_| !class.is_empty());
    items.map(|item| item.split_once('=').and_then(|(name, range)| Some((name, ends(range)?)))).collect()
}

/// `4096` or `1..64`.
fn ends(range: &str) -> Option<[i64; 2]> {
    let number = |text: &str| text.parse::<i64>().ok();
    match range.split_once("..") {
        Some((least, most)) => Some([number(least)?, number(most)?]),
        None => number(range).map(|v| [v; 2]),
    }
}

/// The hash of a kernel's canonical text (FNV-1a, 64 bits): names of its file and comments do not count.
fn hash(kernel: &Kernel) -> String {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = kernel.to_string().bytes().fold(0xcbf2_9ce4_8422_2325, step);
    format!("{hash:016x}")
}

/// The records of a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tunings(BTreeMap<Key, (Took, String)>);

/// Why a file is no tuning file.
#[derive(Debug, thiserror::Error)]
pub enum TuningError {
    /// It cannot be read or written.
    #[error("tuning file {path}: {error}")]
    File {
        /// The file.
        path: String,
        /// The system's reason.
        error: std::io::Error,
    },
    /// A line that is no record.
    #[error("tuning file, line {line}: {why}")]
    Line {
        /// From 1.
        line: usize,
        /// The mistake.
        why: &'static str,
    },
}

impl Tunings {
    /// Reads a text.
    ///
    /// # Errors
    /// Another first line, or a line that is no record.
    pub fn parse(text: &str) -> Result<Self, TuningError> {
        let mut lines = text.lines().enumerate();
        if lines.next().is_none_or(|(_, head)| head != HEAD) {
            return Err(TuningError::Line { line: 1, why: "expected `warplift-tuning 1`" });
        }
        let mut found = Self::default();
        for (n, line) in lines.filter(|(_, line)| !line.is_empty()) {
            let (key, record) = record(line).map_err(|why| TuningError::Line { line: n + 1, why })?;
            found.insert(key, record);
        }
        Ok(found)
    }

    /// Reads a file; one that does not exist has no records.
    ///
    /// # Errors
    /// It cannot be read, or is no tuning file.
    pub fn read(path: &Path) -> Result<Self, TuningError> {
        match std::fs::read_to_string(path) {
            Ok(text) => Self::parse(&text),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(TuningError::File { path: path.display().to_string(), error }),
        }
    }

    /// Adds these records to a file's, and writes it whole by a rename. A lock beside it keeps what two processes write at
    /// once.
    ///
    /// # Errors
    /// As [`Tunings::read`], or it cannot be written.
    pub fn write_into(&self, path: &Path) -> Result<(), TuningError> {
        let locked = || {
            if let Some(folder) = path.parent() {
                std::fs::create_dir_all(folder)?;
            }
            let lock = std::fs::File::create(path.with_extension("lock"))?;
            lock.lock().map(|()| lock)
        };
        let failed = |error| TuningError::File { path: path.display().to_string(), error };
        let _lock = locked().map_err(failed)?;
        let mut all = Self::read(path)?;
        all.merge(self.clone());
        let written = || {
            let unfinished = path.with_extension(format!("unfinished-{}", std::process::id()));
            std::fs::write(&unfinished, all.to_string())?;
            std::fs::rename(&unfinished, path)
        };
        written().map_err(failed)
    }

    /// Takes the records of another file; the better one of a key stays.
    pub fn merge(&mut self, other: Self) {
        other.0.into_iter().for_each(|(key, record)| self.insert(key, record));
    }

    fn insert(&mut self, key: Key, record: (Took, String)) {
        let rank = |record: &(Took, String)| record.0.rank();
        match self.0.get(&key) {
            Some(known) if rank(known) <= rank(&record) => {}
            _ => _ = self.0.insert(key, record),
        }
    }

    /// Adds a record of a class of sizes, `m=1..8,n=4096,k=4096`.
    pub fn add(&mut self, kernel: &Kernel, target: &Target, sizes: &str, mapping: &Mapping, took: Took) {
        self.insert(Key::new(kernel, target, sizes.to_owned()), (took, one_line(mapping)));
    }

    /// The record for sizes: of the classes that hold them, and whose mappings assume nothing else of them, the narrowest in the
    /// order of lines.
    pub fn find(&self, kernel: &Kernel, target: &Target, sizes: &Sizes) -> Option<(Mapping, Took)> {
        let from = Key::new(kernel, target, String::new());
        let same =
            |key: &Key| (&key.kernel, &key.chip, &key.build) == (&from.kernel, &from.chip, &from.build);
        let mut held: Vec<_> = self
            .0
            .range(from.clone()..)
            .take_while(|(key, _)| same(key))
            .filter(|(key, _)| key.holds(sizes))
            .collect();
        let width = |key: &Key| -> i128 {
            let all = ranges(&key.sizes).unwrap_or_default().into_iter();
            all.map(|(_, [a, b])| i128::from(b) - i128::from(a)).sum()
        };
        held.sort_by_cached_key(|(key, _)| width(key));
        held.into_iter().find_map(|(_, (took, text))| {
            let mapping = parse_file(text, "tuning").ok()?.mappings.into_iter().next()?;
            mapping.admits(|name| sizes.int(name)).then_some((mapping, *took))
        })
    }

    /// The number of records.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A mapping's text in one line.
pub fn one_line(mapping: &Mapping) -> String {
    mapping.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
}

fn record(line: &str) -> Result<(Key, (Took, String)), &'static str> {
    let fields: Vec<&str> = line.split('\t').collect();
    let &[kernel, chip, build, sizes, took, mapping] = &fields[..] else {
        return Err("expected kernel, chip, compiler, sizes, time and mapping, with tabs between them");
    };
    if ranges(sizes).is_none() {
        return Err("expected sizes such as `m=1..8,n=4096`");
    }
    let took = Took::parse(took).ok_or("expected a time such as `12.34 us` or `5000 cycles`")?;
    if !parse_file(mapping, "tuning").is_ok_and(|m| m.mappings.len() == 1) {
        return Err("expected a mapping behind the time");
    }
    let [kernel, chip, build, sizes] = [kernel, chip, build, sizes].map(str::to_owned);
    Ok((Key { kernel, chip, build, sizes }, (took, mapping.to_owned())))
}

/// The file's text: sorted lines.
impl fmt::Display for Tunings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{HEAD}")?;
        for (Key { kernel, chip, build, sizes }, (took, mapping)) in &self.0 {
            writeln!(f, "{kernel}\t{chip}\t{build}\t{sizes}\t{took}\t{mapping}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::find;
    use warplift_ir::target::SM90A;

    fn gemm() -> (Kernel, Mapping) {
        let mut module = find("gemm").unwrap().parse().unwrap();
        (module.kernels.remove(0), module.mappings.remove(0))
    }

    fn mapping(bm: u32) -> Mapping {
        let text = format!("mapping gemm {{ BM = {bm}, BN = 64 for t: pipeline 3, consumers 1 }}");
        parse_file(&text, "").unwrap().mappings.remove(0)
    }

    fn one(sizes: &str, bm: u32, took: Took) -> Tunings {
        let mut all = Tunings::default();
        all.add(&gemm().0, &SM90A, sizes, &mapping(bm), took);
        all
    }

    #[test]
    fn records_come_back_and_serve_the_sizes_of_their_class() {
        let mut all = one("m=1..64,n=4096,k=4096", 64, Took::Predicted(9000.0));
        all.merge(one("m=8,n=4096,k=4096", 128, Took::Measured(5.5)));
        let read = Tunings::parse(&all.to_string()).unwrap();
        assert_eq!(read, all);
        let found = |text: &str| {
            let sizes = Sizes::nominal(&gemm().0).overridden(&gemm().0, text).unwrap();
            read.find(&gemm().0, &SM90A, &sizes).map(|(m, took)| (m.tunable("BM").unwrap(), took))
        };
        assert_eq!(found("8x4096x4096"), Some((128, Took::Measured(5.5))), "the narrower class");
        let assumes = "mapping gemm { BM = 256 BN = 64 for t: pipeline 3, consumers 1 assume m % 8 }";
        let assumes = parse_file(assumes, "").unwrap().mappings.remove(0);
        let mut more = read.clone();
        more.add(&gemm().0, &SM90A, "m=1..32,n=4096,k=4096", &assumes, Took::Predicted(8000.0));
        let of = |m: i64| {
            let sizes = Sizes::nominal(&gemm().0).overridden(&gemm().0, &format!("{m}x4096x4096")).unwrap();
            more.find(&gemm().0, &SM90A, &sizes).and_then(|(found, _)| found.tunable("BM"))
        };
        assert_eq!([of(16), of(17)], [Some(256), Some(64)], "what a record assumes hides no wider one");
        assert_eq!(found("9x4096x4096"), Some((64, Took::Predicted(9000.0))));
        assert_eq!((found("65x4096x4096"), found("9x4096x4104")), (None, None));
        // Another text is another kernel.
        let other = find("gemm_bf16").unwrap().parse().unwrap().kernels.remove(0);
        assert_eq!(read.find(&other, &SM90A, &Sizes::nominal(&other)), None);
    }

    #[test]
    fn a_kernel_without_integers_has_a_record_too() {
        let text = "kernel k(x: ptr<f32>, y: ptr<f32>) { grid 4 i = block_index gx = view x : f32[512] \
                    gy = view y : f32[512] store gy[i*128], load gx[i*128] : f32[128] }";
        let kernel = parse_file(text, "k").unwrap().kernels.remove(0);
        let mut all = Tunings::default();
        all.add(&kernel, &SM90A, "", &mapping(64), Took::Measured(2.0));
        let read = Tunings::parse(&all.to_string()).unwrap();
        assert_eq!(
            read.find(&kernel, &SM90A, &Sizes::nominal(&kernel)).map(|f| f.1),
            Some(Took::Measured(2.0))
        );
    }

    #[test]
    fn records_that_many_write_at_once_are_all_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tuning");
        std::thread::scope(|s| {
            for m in 1..=16 {
                let path = &path;
                s.spawn(move || {
                    one(&format!("m={m},n=8,k=8"), 64, Took::Measured(1.0)).write_into(path).unwrap();
                });
            }
        });
        assert_eq!(Tunings::read(&path).unwrap().len(), 16);
    }

    #[test]
    fn files_merge_in_any_order_and_the_better_record_stays() {
        let (class, took) = ("m=1,n=8,k=8", [Took::Predicted(7.0), Took::Measured(3.0), Took::Measured(2.0)]);
        let each: Vec<Tunings> = (0..3).map(|n| one(class, 64 * (n as u32 + 1), took[n])).collect();
        for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
            let mut all = Tunings::default();
            order.into_iter().for_each(|n| all.merge(each[n].clone()));
            assert_eq!(all, each[2], "{order:?}");
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/tuning");
        assert!(Tunings::read(&path).unwrap().is_empty());
        each.iter().chain([&one("m=2,n=8,k=8", 64, took[0])]).for_each(|t| t.write_into(&path).unwrap());
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(
            Tunings::read(&path).unwrap().len() == 2
                && text.lines().is_sorted_by(|a, b| a <= b || *a == HEAD)
        );
    }

    #[test]
    fn a_line_that_is_no_record_is_named() {
        let good = one("m=1,n=8,k=8", 64, Took::Predicted(7.0)).to_string();
        for (from, to, why) in [
            ("warplift-tuning 1", "warplift-tuning 2", "line 1: expected `warplift-tuning 1`"),
            ("7 cycles", "7 hours", "line 2: expected a time"),
            ("7 cycles", "nan us", "line 2: expected a time"),
            ("m=1,", "m=x,", "line 2: expected sizes"),
            ("mapping gemm {", "mapping gemm", "line 2: expected a mapping"),
            ("\th200", "", "line 2: expected kernel, chip"),
        ] {
            let error = Tunings::parse(&good.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
        let cut = &good[..good.len() - 4];
        assert!(Tunings::parse(cut).is_err(), "a file that was cut");
    }
}
