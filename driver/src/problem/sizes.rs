//! Scalar arguments, given or by default.

use super::ProblemError;
use warplift_ir::tile::{Facts, Kernel, Op, Type};

/// A scalar argument.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar {
    /// An integer or truth value.
    Int(i64),
    /// A float.
    Float(f64),
}

/// The scalar arguments of one launch, by name, in the order of the signature.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sizes(Vec<(String, Scalar)>);

/// Extent of a size of a kernel with products. The reference still computes all elements.
const PRODUCT_SIZE: i64 = 2048;
/// Extent of a size for predictions.
const NOMINAL_SIZE: i64 = 4096;
/// A size that is itself an extent of the grid: the number of equal problems.
const COUNT: i64 = 4;
/// Extent of a size of a kernel without products, by the number of sizes.
const PLAIN_SIZES: [i64; 3] = [1 << 20, 4096, 256];
/// Extents of sizes for the simulator.
const SMALL_PRODUCT: i64 = 264;
const SMALL_PLAIN: i64 = 516;
/// A factor that is exact in every float type.
const FACTOR: f64 = 0.5;

impl Sizes {
    /// Sensible values for every scalar parameter, within its facts.
    pub fn defaults(kernel: &Kernel) -> Self {
        let count = integers(kernel).count();
        let wish = if multiplies(kernel) { PRODUCT_SIZE } else { PLAIN_SIZES[count.clamp(1, 3) - 1] };
        Self::all(kernel, wish)
    }

    /// Typical sizes of real work for predictions, if none are given.
    pub fn nominal(kernel: &Kernel) -> Self {
        let count = integers(kernel).count();
        let wish = if multiplies(kernel) { NOMINAL_SIZE } else { PLAIN_SIZES[count.clamp(1, 3) - 1] };
        Self::all(kernel, wish)
    }

    /// Sizes that the simulator runs within seconds. They have ragged edges and several tiles.
    pub fn small(kernel: &Kernel) -> Self {
        Self::all(kernel, if multiplies(kernel) { SMALL_PRODUCT } else { SMALL_PLAIN })
    }

    fn all(kernel: &Kernel, wish: i64) -> Self {
        let each = kernel.params.iter().filter_map(|p| {
            let Type::Scalar(elem) = kernel.ty(p.value) else { return None };
            let value = match elem.is_float() {
                true => Scalar::Float(FACTOR),
                false if kernel.grid.contains(&p.value) => Scalar::Int(within(wish.min(COUNT), &p.facts)),
                false => Scalar::Int(within(wish, &p.facts)),
            };
            Some((p.name.clone(), value))
        });
        Self(each.collect())
    }

    /// The defaults, overridden by a text.
    ///
    /// # Errors
    /// As [`Sizes::overridden`].
    pub fn parse(kernel: &Kernel, text: &str) -> Result<Self, ProblemError> {
        Self::defaults(kernel).overridden(kernel, text)
    }

    /// These, overridden by a text: `m=128, n=256`, or the integers in the order of the signature, `128x256x64`.
    ///
    /// # Errors
    /// A name that is no scalar parameter or given twice, too many or unreadable numbers.
    pub fn overridden(self, kernel: &Kernel, text: &str) -> Result<Self, ProblemError> {
        let mut sizes = self;
        if text.contains('=') {
            let items = text.split([',', ' ']).map(str::trim).filter(|i| !i.is_empty());
            let mut given: Vec<&str> = Vec::new();
            for item in items {
                sizes.assign(kernel, item)?;
                let name = item.split('=').next().unwrap_or(item).trim();
                if given.contains(&name) {
                    return Err(wrong(format!("`{name}` is given twice in `{text}`")));
                }
                given.push(name);
            }
            return Ok(sizes);
        }
        let names: Vec<String> = integers(kernel).map(str::to_owned).collect();
        let values: Vec<&str> = text.split(['x', ',']).map(str::trim).collect();
        if values.len() != names.len() {
            let (takes, found) = (names.join(" x "), values.len());
            return Err(wrong(format!("`{}` has sizes {takes}, found {found} in `{text}`", kernel.name)));
        }
        for (name, value) in names.iter().zip(values) {
            sizes.set(name, Scalar::Int(number(value)?));
        }
        Ok(sizes)
    }

    /// The defaults, overridden by integers by name.
    ///
    /// # Errors
    /// A name that is no scalar parameter.
    pub fn of(kernel: &Kernel, values: &[(&str, i64)]) -> Result<Self, ProblemError> {
        let mut sizes = Self::defaults(kernel);
        for (name, value) in values {
            sizes.assign(kernel, &format!("{name}={value}"))?;
        }
        Ok(sizes)
    }

    /// Integers by name, of a program that has no kernel's signature.
    pub fn of_integers(values: &[(&str, i64)]) -> Self {
        Self(values.iter().map(|&(name, value)| (name.to_owned(), Scalar::Int(value))).collect())
    }

    /// These, with other integers; a name that is no parameter changes nothing.
    #[cfg(feature = "bundle")]
    pub(crate) fn with_integers<'n>(mut self, values: impl Iterator<Item = (&'n str, i64)>) -> Self {
        values.for_each(|(name, value)| self.set(name, Scalar::Int(value)));
        self
    }

    fn assign(&mut self, kernel: &Kernel, item: &str) -> Result<(), ProblemError> {
        let (name, value) =
            item.split_once('=').ok_or_else(|| wrong(format!("`{item}` is no name=value")))?;
        let (name, value) = (name.trim(), value.trim());
        let value = match self.get(name) {
            Some(Scalar::Int(_)) => Scalar::Int(number(value)?),
            Some(Scalar::Float(_)) => {
                let parsed = value.parse().map_err(|_| wrong(format!("`{value}` is no number")));
                Scalar::Float(parsed?)
            }
            None => return Err(wrong(format!("kernel `{}` has no size `{name}`", kernel.name))),
        };
        self.set(name, value);
        Ok(())
    }

    fn set(&mut self, name: &str, value: Scalar) {
        if let Some(slot) = self.0.iter_mut().find(|(n, _)| n == name) {
            slot.1 = value;
        }
    }

    /// The same sizes with every float from `draw`.
    pub fn with_floats(mut self, mut draw: impl FnMut() -> f64) -> Self {
        for (_, value) in self.0.iter_mut().filter(|(_, v)| matches!(v, Scalar::Float(_))) {
            *value = Scalar::Float(draw());
        }
        self
    }

    /// The value of a parameter.
    pub fn get(&self, name: &str) -> Option<Scalar> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, v)| *v)
    }

    /// The value of an integer parameter.
    pub fn int(&self, name: &str) -> Option<i64> {
        match self.get(name) {
            Some(Scalar::Int(v)) => Some(v),
            _ => None,
        }
    }
}

impl std::fmt::Display for Sizes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let each = self.0.iter().map(|(name, value)| match value {
            Scalar::Int(v) => format!("{name}={v}"),
            Scalar::Float(v) => format!("{name}={v}"),
        });
        f.write_str(&each.collect::<Vec<_>>().join(","))
    }
}

/// Whether a kernel has products.
pub fn multiplies(kernel: &Kernel) -> bool {
    kernel.insts.values().any(|d| matches!(d.op, Op::Mma { .. }))
}

fn integers(kernel: &Kernel) -> impl Iterator<Item = &str> {
    let integer = |ty| matches!(ty, Type::Scalar(e) if !e.is_float());
    kernel.params.iter().filter(move |p| integer(kernel.ty(p.value))).map(|p| p.name.as_str())
}

fn number(text: &str) -> Result<i64, ProblemError> {
    text.parse().map_err(|_| wrong(format!("`{text}` is no whole number")))
}

fn wrong(message: String) -> ProblemError {
    ProblemError::Sizes(message)
}

/// The greatest value up to `wish` that the facts allow.
fn within(wish: i64, facts: &Facts) -> i64 {
    let value = wish.clamp(facts.min, facts.max.max(facts.min));
    let down = value - value.rem_euclid(facts.multiple.max(1));
    if down < facts.min { down.saturating_add(facts.multiple) } else { down }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::find;

    fn kernel(name: &str) -> Kernel {
        find(name).unwrap().parse().unwrap().kernels.remove(0)
    }

    #[test]
    fn defaults_obey_the_facts() {
        assert_eq!(Sizes::defaults(&kernel("gemm")).to_string(), "m=2048,n=2048,k=2048");
        assert_eq!(Sizes::defaults(&kernel("gemm_chain")).int("n"), Some(128));
        assert_eq!(Sizes::defaults(&kernel("axpy")).to_string(), "alpha=0.5,n=1048576");
        let facts = Facts { multiple: 8, min: 4, max: 7, ..Facts::default() };
        assert_eq!(within(100, &facts), 8, "facts that no number meets still give a number");
    }

    #[test]
    fn sizes_are_read_by_name_and_by_place() {
        let gemm = kernel("gemm");
        assert_eq!(Sizes::parse(&gemm, "1x2x3").unwrap().to_string(), "m=1,n=2,k=3");
        assert_eq!(Sizes::parse(&gemm, "n=8, m=0").unwrap().to_string(), "m=0,n=8,k=2048");
        for (text, message) in [
            ("1x2", "sizes m x n x k, found 2"),
            ("q=1", "no size `q`"),
            ("m=a", "`a` is no whole number"),
            ("m=1,2", "`2` is no name=value"),
            ("m=1,n=2,m=1", "`m` is given twice"),
        ] {
            let error = Sizes::parse(&gemm, text).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
        let small = Sizes::small(&gemm).overridden(&gemm, "m=5").unwrap();
        assert_eq!(small.to_string(), "m=5,n=264,k=264", "what is not given stays small");
        let alpha = Sizes::parse(&kernel("axpy"), "alpha=-1.5").unwrap();
        assert_eq!(alpha.get("alpha"), Some(Scalar::Float(-1.5)));
    }
}
