//! From the sizes of a launch to an entry of a bundle.
//!
//! ```text
//!  class   m        n             k              entry
//!  0       1..8     4096..4096    14336..14336   0
//!  1       9..32    4096..4096    14336..14336   2        sizes in no class: the one they are the least factor away from
//! ```

use serde::{Deserialize, Serialize};

/// Sizes for which one entry is taken: a closed range of each integer argument.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Class {
    /// Least and greatest value of each argument, in the order of [`Table::names`].
    pub ranges: Vec<[i64; 2]>,
    /// Number of the entry.
    pub entry: u32,
    /// Predicted cycles at the greatest sizes.
    pub cycles: f64,
    /// What the entry assumes each argument to be a multiple of; none where it assumes nothing. Sizes that break it get another
    /// class.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub multiples: Vec<i64>,
}

/// Which entry of a bundle serves which sizes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// Integer arguments of the kernel, in the order of its signature.
    pub names: Vec<String>,
    /// Classes; of those that contain a launch's sizes the first counts.
    pub classes: Vec<Class>,
}

impl Class {
    /// Whether sizes are as the entry assumes.
    fn admits(&self, sizes: &[i64]) -> bool {
        self.multiples.iter().zip(sizes).all(|(&multiple, &v)| multiple <= 1 || v % multiple == 0)
    }

    /// Whether sizes lie in its ranges.
    fn holds(&self, sizes: &[i64]) -> bool {
        self.ranges.iter().zip(sizes).all(|(&[least, most], &v)| least <= v && v <= most)
    }

    /// How far sizes are from it: for each argument the logarithm of the factor to the nearest value; 0 only inside.
    fn distance(&self, sizes: &[i64]) -> i64 {
        let mut sum = 0;
        for (&[least, most], &v) in self.ranges.iter().zip(sizes) {
            if v < least {
                sum += (logarithm(least) - logarithm(v)).max(1);
            } else if v > most {
                sum += (logarithm(v) - logarithm(most)).max(1);
            }
        }
        sum
    }
}

/// Logarithm of a size to the base 2 in units of 2^-20: the exponent and mantissa of a float, taken as one number, are
/// linear between powers of two, rise with the size, and need no division, which would take longer than all else here.
fn logarithm(size: i64) -> i64 {
    ((size.max(1) as f64).to_bits() >> 32) as i64
}

impl Table {
    /// The entry for sizes in the order of [`Table::names`]: of the class that contains them, else of the nearest one, among
    /// those that assume nothing else of them, or among all if there are none; `None` in a table without classes.
    pub fn pick(&self, sizes: &[i64]) -> Option<usize> {
        let held = self.classes.iter().find(|class| class.holds(sizes) && class.admits(sizes));
        let fitting = || self.nearest(sizes, |class| class.admits(sizes));
        let class = held.or_else(fitting).or_else(|| self.nearest(sizes, |_| true))?;
        Some(class.entry as usize)
    }

    /// The first of the nearest classes; of those that `may` admits.
    fn nearest(&self, sizes: &[i64], may: impl Fn(&Class) -> bool) -> Option<&Class> {
        self.classes.iter().filter(|class| may(class)).min_by_key(|class| class.distance(sizes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;
    use std::time::{Duration, Instant};

    fn class(m: [i64; 2], n: i64, entry: u32) -> Class {
        Class { ranges: vec![m, [n, n], [4096, 4096]], entry, cycles: 1.0, multiples: Vec::new() }
    }

    fn table(layers: i64) -> Table {
        let names = ["m", "n", "k"].map(str::to_owned).to_vec();
        let of = |n| {
            let borders = [[1, 8], [9, 16], [17, 32], [33, 64]];
            borders
                .into_iter()
                .enumerate()
                .map(move |(e, m)| class(m, 1024 * n, e as u32 + 4 * (n as u32 - 1)))
        };
        Table { names, classes: (1..=layers).flat_map(of).collect() }
    }

    #[test]
    fn sizes_get_the_class_that_holds_them_else_the_nearest() {
        let table = table(4);
        for (sizes, entry) in [
            ([1, 1024, 4096], 0),
            ([8, 1024, 4096], 0),
            ([9, 1024, 4096], 1),
            ([64, 4096, 4096], 15),
            // Beyond the last class, between two, another depth, an empty one.
            ([1000, 4096, 4096], 15),
            ([64, 3500, 4096], 11),
            ([64, 3700, 4096], 15),
            ([64, 1200, 4096], 3),
            ([8, 2048, 8192], 4),
            ([0, 1024, 0], 0),
        ] {
            assert_eq!(table.pick(&sizes), Some(entry), "{sizes:?}");
        }
        assert_eq!(Table::default().pick(&[1]), None);
    }

    #[test]
    fn sizes_that_break_what_an_entry_assumes_get_another_one() {
        let mut table = table(1);
        table.classes[0].multiples = vec![1, 8, 8];
        let general = Class { entry: 9, ..class([1, 64], 1024, 0) };
        assert_eq!(table.pick(&[3, 1023, 4096]), Some(1), "the nearest class that assumes nothing");
        table.classes.iter_mut().for_each(|class| class.multiples = vec![1, 8, 8]);
        assert_eq!(table.pick(&[3, 1023, 4096]), Some(0), "there is none: the launch says what is wrong");
        table.classes.push(general);
        let picked =
            [[3, 1024, 4096], [3, 1023, 4096], [3, 1032, 4096], [3, 1024, 4100]].map(|s| table.pick(&s));
        assert_eq!(picked, [Some(0), Some(9), Some(0), Some(9)]);
    }

    /// The least of many picks, since other processes may hold the machine: of sizes in the last of 64 classes, and of
    /// sizes in none. Code that is not optimized may take twice as long.
    #[test]
    fn a_pick_takes_less_than_a_microsecond() {
        let (table, limit) = (table(16), if cfg!(debug_assertions) { 2 } else { 1 });
        for sizes in [[64, 16384, 4096], [64, 16000, 4096]] {
            let time = |_| {
                let start = Instant::now();
                (0..1000).for_each(|_| _ = black_box(table.pick(black_box(&sizes))));
                start.elapsed() / 1000
            };
            let least = (0..50).map(time).min().unwrap();
            println!("{sizes:?}: {least:?}");
            assert!(least < Duration::from_micros(limit), "{sizes:?}: {least:?}");
        }
    }
}
