//! Arithmetic on extents. Tunables stay symbols; two extents are the same when their reduced forms
//! are: `BM * 2 / 4` and `BM / 2`.

use super::{Dim, Kernel, MAX_RANK, Shape, Tunable, TunableData, Type, Value};
use cranelift_entity::PrimaryMap;
use smallvec::SmallVec;
use std::fmt;

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

impl Dim {
    /// The same extent with multiplier and divisor in lowest terms; a zero divisor stays as it is.
    pub fn reduced(self) -> Self {
        self.scaled(1, 1).unwrap_or(self)
    }

    /// This extent times `mul / div`; `None` for a zero divisor or above `u32::MAX`.
    pub fn scaled(self, mul: u32, div: u32) -> Option<Self> {
        let mul = u64::from(self.mul) * u64::from(mul);
        let div = u64::from(self.div) * u64::from(div);
        if div == 0 {
            return None;
        }
        let common = gcd(mul, div);
        Some(Self {
            tunable: self.tunable,
            mul: u32::try_from(mul / common).ok()?,
            div: u32::try_from(div / common).ok()?,
        })
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

    /// The product of the extents: the tunables in it, and a fraction in lowest terms.
    fn product(&self) -> Option<(SmallVec<[Tunable; MAX_RANK]>, u64, u64)> {
        let mut tunables: SmallVec<[Tunable; MAX_RANK]> =
            self.dims().iter().filter_map(|d| d.tunable).collect();
        tunables.sort_unstable();
        let (mut mul, mut div) = (1u64, 1u64);
        for d in self.dims() {
            mul = mul.checked_mul(d.mul.into())?;
            div = div.checked_mul(d.div.into()).filter(|&d| d != 0)?;
            let common = gcd(mul, div);
            (mul, div) = (mul / common, div / common);
        }
        Some((tunables, mul, div))
    }
}

/// Names of a kernel's tunables, to print extents and types with.
pub(crate) type Tunables = PrimaryMap<Tunable, TunableData>;

/// An extent as the text form writes it.
pub(crate) struct DimText<'a>(pub &'a Tunables, pub Dim);

impl fmt::Display for DimText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(tunables, dim) = self;
        match dim.tunable.map(|t| tunables.get(t)) {
            Some(Some(t)) => f.write_str(&t.name)?,
            Some(None) => f.write_str("?")?,
            None => write!(f, "{}", dim.mul)?,
        }
        if dim.tunable.is_some() && dim.mul != 1 {
            write!(f, " * {}", dim.mul)?;
        }
        if dim.div != 1 {
            write!(f, " / {}", dim.div)?;
        }
        Ok(())
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
    fn shapes_grow_to_a_common_one() {
        let s = |e: &[u32]| Shape::of(e).unwrap();
        assert_eq!(s(&[4, 1]).common(&s(&[8])), Some(s(&[4, 8])));
        assert_eq!(s(&[4]).common(&s(&[8])), None);
        assert!(s(&[4, 6]).same_elements(&s(&[3, 8])));
    }
}
