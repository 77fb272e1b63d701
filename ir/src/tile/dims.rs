//! Arithmetic on extents. Tunables stay symbols; two extents are the same when their reduced forms
//! are: `BM * 2 / 4` and `BM / 2`.

use super::{Kernel, MAX_RANK, Shape, Tunable, TunableData, Type, Value};
use cranelift_entity::PrimaryMap;
use cranelift_entity::packed_option::PackedOption;
use smallvec::SmallVec;
use std::fmt;

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// No tunable.
const NONE: PackedOption<Tunable> = PackedOption::new(Tunable(u32::MAX));

/// One extent of a tile: `mul / div + add`, or `mul * a / div + add` and `mul * a * b / div + add` with tunables.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Dim {
    /// The tunables that it multiplies, in order; the second only behind a first.
    factors: [PackedOption<Tunable>; 2],
    mul: u32,
    div: u32,
    add: i32,
}

impl Dim {
    /// A constant extent.
    pub const fn new(extent: u32) -> Self {
        Self { factors: [NONE; 2], mul: extent, div: 1, add: 0 }
    }

    /// A tunable's value.
    pub fn tunable(t: Tunable) -> Self {
        Self { factors: [t.into(), NONE], mul: 1, div: 1, add: 0 }
    }

    /// The multiplier, the divisor, which must divide exactly once the tunables are known, and what is added at last.
    pub fn parts(self) -> (u32, u32, i32) {
        (self.mul, self.div, self.add)
    }

    /// `mul * a * b / div + add`, as it is written.
    pub fn of_parts(tunables: &[Tunable], (mul, div, add): (u32, u32, i32)) -> Option<Self> {
        let mut sorted: SmallVec<[Tunable; 2]> = tunables.into();
        sorted.sort_unstable();
        let at = |n: usize| sorted.get(n).copied().into();
        (sorted.len() <= 2).then(|| Self { factors: [at(0), at(1)], mul, div, add })
    }

    /// The tunables in it.
    pub fn tunables(self) -> impl Iterator<Item = Tunable> {
        self.factors.into_iter().filter_map(PackedOption::expand)
    }

    /// Whether a tunable is in it.
    pub fn mentions(self, t: Tunable) -> bool {
        self.tunables().any(|own| own == t)
    }

    /// The tunable whose value this is, as it is.
    pub fn alone(self) -> Option<Tunable> {
        let first = self.tunables().next()?;
        (self == Self::tunable(first)).then_some(first)
    }

    /// The extent if no tunable is left in it.
    pub fn constant(self) -> Option<u32> {
        match self.tunables().next() {
            None if self.div != 0 && self.mul.is_multiple_of(self.div) => {
                (self.mul / self.div).checked_add_signed(self.add)
            }
            _ => None,
        }
    }

    /// The extent when tunables have the given values; `None` if it overflows or does not divide.
    pub fn resolve(self, value: impl Fn(Tunable) -> i64) -> Option<u32> {
        let mut mul = u64::from(self.mul);
        for t in self.tunables() {
            mul = mul.checked_mul(u32::try_from(value(t)).ok()?.into())?;
        }
        let div = u64::from(self.div);
        let whole = (div != 0 && mul.is_multiple_of(div)).then(|| mul / div)?;
        u32::try_from(whole).ok()?.checked_add_signed(self.add)
    }

    /// The same extent with multiplier and divisor in lowest terms; a zero divisor stays as it is.
    pub fn reduced(self) -> Self {
        match self.constant() {
            Some(extent) => Self::new(extent),
            None => self.scaled(1, 1).unwrap_or(self),
        }
    }

    /// This extent times `mul / div`; `None` for a zero divisor, above `u32::MAX`, or where that splits what is added.
    pub fn scaled(self, mul: u32, div: u32) -> Option<Self> {
        if div == 0 || self.div == 0 {
            return None;
        }
        let add = i64::from(self.add) * i64::from(mul);
        let add = (add % i64::from(div) == 0).then(|| add / i64::from(div))?;
        let mul = u64::from(self.mul) * u64::from(mul);
        let div = u64::from(self.div) * u64::from(div);
        let common = gcd(mul, div);
        Some(Self {
            mul: u32::try_from(mul / common).ok()?,
            div: u32::try_from(div / common).ok()?,
            add: i32::try_from(add).ok()?,
            ..self
        })
    }

    /// The sum of two extents, of which one is a number.
    pub fn plus(self, other: Self) -> Option<Self> {
        let (sum, n) = match (self.constant(), other.constant()) {
            (_, Some(n)) => (self, n),
            (Some(n), _) => (other, n),
            (None, None) => return None,
        };
        Some(Self { add: sum.add.checked_add_unsigned(n)?, ..sum })
    }

    /// This extent less a number.
    pub fn minus(self, other: Self) -> Option<Self> {
        Some(Self { add: self.add.checked_sub_unsigned(other.constant()?)?, ..self })
    }

    /// The product of two extents; `None` if it has more than two tunables, or a sum times a tunable.
    pub fn times(self, other: Self) -> Option<Self> {
        let sum = |x: Self, y: Self| x.add != 0 && y.tunables().next().is_some();
        if let Some(n) = other.constant() {
            return self.scaled(n, 1);
        }
        if let Some(n) = self.constant() {
            return other.scaled(n, 1);
        }
        if sum(self, other) || sum(other, self) {
            return None;
        }
        let all: SmallVec<[Tunable; 4]> = self.tunables().chain(other.tunables()).collect();
        let scale = Self { factors: Default::default(), ..self }.scaled(other.mul, other.div)?;
        Self::of_parts(&all, (scale.mul, scale.div, 0))
    }

    /// Whether two extents are equal for every value of the tunables.
    pub fn same(self, other: Self) -> bool {
        self.reduced() == other.reduced()
    }

    /// Whether this is the constant 1.
    pub fn is_one(self) -> bool {
        self.constant() == Some(1)
    }
}

impl fmt::Debug for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { mul, div, add, .. } = self;
        self.tunables().try_for_each(|t| write!(f, "{t} * "))?;
        write!(f, "{mul} / {div} + {add}")
    }
}

impl Shape {
    /// Whether all extents are [`Dim::same`].
    pub fn same(&self, other: &Self) -> bool {
        self.rank() == other.rank() && self.dims().iter().zip(other.dims()).all(|(a, b)| a.same(*b))
    }

    /// The shape to which both broadcast: aligned at the last extent, extents of 1 and missing ones
    /// grow. `None` if they do not.
    pub fn common(&self, other: &Self) -> Option<Self> {
        let rank = self.rank().max(other.rank());
        let at = |s: &Self, d: usize| (d + s.rank()).checked_sub(rank).map_or(Dim::new(1), |i| s.dims()[i]);
        let dims: Option<SmallVec<[Dim; MAX_RANK]>> = (0..rank)
            .map(|d| match (at(self, d), at(other, d)) {
                (a, b) if a.same(b) || b.is_one() => Some(a),
                (a, b) => a.is_one().then_some(b),
            })
            .collect();
        Self::new(&dims?)
    }

    /// Whether the number of elements is equal for every value of the tunables.
    pub fn same_elements(&self, other: &Self) -> bool {
        match (self.product(), other.product()) {
            (Some(a), Some(b)) => a == b,
            _ => false,
        }
    }

    /// The product of the extents: the tunables and sums in it, and a fraction in lowest terms.
    fn product(&self) -> Option<(SmallVec<[Dim; MAX_RANK]>, u64, u64)> {
        let mut symbols: SmallVec<[Dim; MAX_RANK]> = SmallVec::new();
        let (mut mul, mut div) = (1u64, 1u64);
        for d in self.dims().iter().map(|d| d.reduced()) {
            if d.add != 0 {
                symbols.push(d);
                continue;
            }
            symbols.extend(d.tunables().map(Dim::tunable));
            mul = mul.checked_mul(d.mul.into())?;
            div = div.checked_mul(d.div.into()).filter(|&d| d != 0)?;
            let common = gcd(mul, div);
            (mul, div) = (mul / common, div / common);
        }
        symbols.sort_unstable();
        Some((symbols, mul, div))
    }
}

/// Names of a kernel's tunables, to print extents and types with.
pub(crate) type Tunables = PrimaryMap<Tunable, TunableData>;

/// An extent as the text form writes it.
pub(crate) struct DimText<'a>(pub &'a Tunables, pub Dim);

impl fmt::Display for DimText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(tunables, dim) = self;
        let (mul, div, add) = dim.parts();
        let mut names = dim.tunables().map(|t| tunables.get(t).map_or("?", |t| t.name.as_str()));
        match names.next() {
            Some(first) => f.write_str(first)?,
            None => write!(f, "{mul}")?,
        }
        names.try_for_each(|name| write!(f, " * {name}"))?;
        if dim.tunables().next().is_some() && mul != 1 {
            write!(f, " * {mul}")?;
        }
        if div != 1 {
            write!(f, " / {div}")?;
        }
        match add {
            0 => Ok(()),
            1.. => write!(f, " + {add}"),
            _ => write!(f, " - {}", add.unsigned_abs()),
        }
    }
}

/// A type as the text form writes it.
pub(crate) struct TypeText<'a>(pub &'a Tunables, pub Type);

impl fmt::Display for TypeText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.1 {
            Type::Scalar(e) => write!(f, "{e}"),
            Type::Ptr(e) => write!(f, "ptr<{e}>"),
            Type::View(e, rank) => write!(f, "view<{e}, {rank}-d>"),
            Type::Tile(e, shape) => {
                write!(f, "{e}[")?;
                for (i, &d) in shape.dims().iter().enumerate() {
                    let comma = if i == 0 { "" } else { ", " };
                    write!(f, "{comma}{}", DimText(self.0, d))?;
                }
                f.write_str("]")
            }
        }
    }
}

impl Kernel {
    /// A type as the text form writes it, tunables by name.
    pub fn type_text(&self, ty: Type) -> String {
        TypeText(&self.tunables, ty).to_string()
    }

    /// An extent as the text form writes it, tunables by name.
    pub fn extent_text(&self, dim: Dim) -> String {
        DimText(&self.tunables, dim).to_string()
    }

    /// A value's name, or its number where it has none.
    pub fn value_text(&self, value: Value) -> String {
        match self.names[value].as_str() {
            "" => value.to_string(),
            name => name.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cranelift_entity::EntityRef;

    #[test]
    fn extents_reduce() {
        let t = Dim::tunable(Tunable::new(0));
        let half = t.scaled(2, 4).unwrap();
        assert!(half.same(t.scaled(1, 2).unwrap()) && !half.same(t));
        assert_eq!(t.scaled(1, 0), None);
        assert_eq!(Dim::new(u32::MAX).scaled(2, 1), None);
    }

    #[test]
    fn extents_are_products_and_sums() {
        let [a, b] = [0, 1].map(|t| Dim::tunable(Tunable::new(t)));
        let value = |t: Tunable| [6, 4][t.index()];
        let both = a.times(b).unwrap();
        assert!(both.same(b.times(a).unwrap()) && !both.same(a) && both.times(a).is_none());
        let half = both.scaled(1, 2).and_then(|d| d.plus(Dim::new(8))).unwrap();
        assert_eq!(
            (half.resolve(value), half.constant(), half.alone(), a.alone().is_some()),
            (Some(20), None, None, true)
        );
        assert_eq!(half.scaled(1, 4).and_then(|d| d.resolve(value)), Some(5));
        assert_eq!(
            (half.scaled(1, 3), half.times(a), a.minus(Dim::new(7)).and_then(|d| d.resolve(value))),
            (None, None, None)
        );
        assert_eq!(half.times(Dim::new(2)).and_then(|d| d.resolve(value)), Some(40));
        let shape = |dims: &[Dim]| Shape::new(dims).unwrap();
        assert!(shape(&[both, Dim::new(3)]).same_elements(&shape(&[b, a.scaled(3, 1).unwrap()])));
        assert!(!shape(&[half]).same_elements(&shape(&[both.scaled(1, 2).unwrap()])));
        assert!(shape(&[half, a]).same_elements(&shape(&[a, half])));
    }

    #[test]
    fn shapes_grow_to_a_common_one() {
        let s = |e: &[u32]| Shape::of(e).unwrap();
        assert_eq!(s(&[4, 1]).common(&s(&[8])), Some(s(&[4, 8])));
        assert_eq!(s(&[4]).common(&s(&[8])), None);
        assert!(s(&[4, 6]).same_elements(&s(&[3, 8])));
    }
}
