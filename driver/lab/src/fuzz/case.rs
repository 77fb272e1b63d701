//! A case is a kernel, a mapping, sizes and a device. As text it is a `.tile` file. Its leading comments hold
//! everything but kernel and mapping:
//!
//! ```text
//!  # A store through a strided view lost its last column.
//!  # sizes: m = 33, n = 12
//!  # sms: 2
//!  # data: 7
//!  kernel k(...) { ... }
//!  mapping k { ... }
//! ```

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::str::FromStr;
use warplift_ir::tile::{Kernel, Mapping, parse_file};

/// The input of a differential check.
#[derive(Clone, Debug)]
pub struct Case {
    /// Its description without the comment sign; empty for generated cases.
    pub note: String,
    /// Integer arguments.
    pub sizes: BTreeMap<String, i64>,
    /// Multiprocessors of the imagined device.
    pub sms: u32,
    /// Seed of the inputs.
    pub data: u64,
    /// The kernel.
    pub kernel: Kernel,
    /// Its mapping.
    pub mapping: Mapping,
}

/// A file that is no case.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CaseError {
    /// The kernel or the mapping does not read.
    #[error("{0}")]
    Text(String),
    /// Not one kernel and its mapping.
    #[error("a case is one kernel and its mapping")]
    Count,
    /// A leading comment that cannot be read.
    #[error("`{0}`: expected `sizes: name = number, ...`, `sms: number` or `data: number`")]
    Header(String),
}

impl Display for Case {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for line in self.note.lines() {
            writeln!(f, "# {line}")?;
        }
        let sizes: Vec<String> = self.sizes.iter().map(|(n, v)| format!("{n} = {v}")).collect();
        writeln!(f, "# sizes: {}", sizes.join(", "))?;
        writeln!(f, "# sms: {}\n# data: {}", self.sms, self.data)?;
        write!(f, "{}\n{}", self.kernel, self.mapping)
    }
}

impl FromStr for Case {
    type Err = CaseError;

    fn from_str(text: &str) -> Result<Self, CaseError> {
        let module = parse_file(text, "case.tile").map_err(|errors| {
            let all: Vec<String> = errors.iter().map(ToString::to_string).collect();
            CaseError::Text(all.join("\n"))
        })?;
        let (Ok([kernel]), Ok([mapping])) =
            (<[Kernel; 1]>::try_from(module.kernels), <[Mapping; 1]>::try_from(module.mappings))
        else {
            return Err(CaseError::Count);
        };
        let mut case = Self { note: String::new(), sizes: BTreeMap::new(), sms: 1, data: 0, kernel, mapping };
        let comments = text.lines().map_while(|l| l.strip_prefix('#'));
        comments.map(str::trim).try_for_each(|line| case.header(line))?;
        Ok(case)
    }
}

impl Case {
    fn header(&mut self, line: &str) -> Result<(), CaseError> {
        let bad = || CaseError::Header(line.to_owned());
        let number = |text: &str| text.trim().parse::<i64>().map_err(|_| bad());
        match line.split_once(':') {
            Some(("sizes", list)) => {
                for item in list.split(',').filter(|i| !i.trim().is_empty()) {
                    let (name, value) = item.split_once('=').ok_or_else(bad)?;
                    self.sizes.insert(name.trim().to_owned(), number(value)?);
                }
            }
            Some(("sms", n)) => self.sms = u32::try_from(number(n)?).map_err(|_| bad())?,
            Some(("data", n)) => self.data = number(n)? as u64,
            _ => {
                let line_break = if self.note.is_empty() { "" } else { "\n" };
                self.note = format!("{}{line_break}{line}", self.note);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# What it is: about.\n# sizes: n = 5\n# sms: 3\n# data: 7\n\
        kernel k(x: ptr<f32>, n: i32) { grid 1 g = view x : f32[n] store g[0], full 0.0 : f32[8] }\n\
        mapping k { kernel: warps 2 }\n";

    #[test]
    fn text_reads_back() {
        let case: Case = TEXT.parse().unwrap();
        assert_eq!(
            (case.sizes["n"], case.sms, case.data, case.note.as_str()),
            (5, 3, 7, "What it is: about.")
        );
        let again: Case = case.to_string().parse().unwrap();
        assert!(again.kernel.same_as(&case.kernel) && again.mapping.whole == case.mapping.whole);
        assert_eq!(again.to_string(), case.to_string());
    }

    #[test]
    fn mistakes_are_named() {
        let bad = TEXT.replace("n = 5", "n = five");
        assert_eq!(bad.parse::<Case>().err(), Some(CaseError::Header("sizes: n = five".into())));
        let two = format!("{TEXT}mapping k {{ }}");
        assert_eq!(two.parse::<Case>().err(), Some(CaseError::Count));
        assert!(matches!(TEXT.replace("view", "vieww").parse::<Case>(), Err(CaseError::Text(_))));
    }
}
