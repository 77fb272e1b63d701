//! What an iteration computes if a mask leaves nothing: numbers, infinities, and sums of products of values that the
//! iteration finds.
//!
//! ```text
//!  m0 * c - max(m0, -inf) * c     ─►   c m0 - c m0 = 0           exp2 of it is 1
//!  exp2(-inf - m0 * c)            ─►   exp2(-inf) = 0
//! ```

/// What is known of each element of a value.
#[derive(Clone, Debug)]
pub(super) enum Known {
    /// It is finite, and this sum.
    Finite(Sum),
    /// It is infinite; `true`: negative.
    Infinite(bool),
    /// It is a truth value.
    Truth(bool),
    /// Nothing.
    Nothing,
}

impl Known {
    /// A number.
    pub fn number(c: f64) -> Self {
        match c {
            _ if c.is_nan() => Self::Nothing,
            _ if c.is_infinite() => Self::Infinite(c < 0.0),
            _ => Self::Finite(Sum::number(c)),
        }
    }

    /// The finite number that it is.
    pub fn as_number(&self) -> Option<f64> {
        match self {
            Self::Finite(sum) => sum.as_number(),
            _ => None,
        }
    }

    /// Whether it is zero.
    pub fn is_zero(&self) -> bool {
        self.as_number() == Some(0.0)
    }

    /// Whether both are known to be equal.
    pub fn equals(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Finite(a), Self::Finite(b)) => a.plus(b, -1.0).is_zero(),
            (Self::Infinite(a), Self::Infinite(b)) | (Self::Truth(a), Self::Truth(b)) => a == b,
            _ => false,
        }
    }

    /// Whether each element is the same number or truth value, whatever the iteration finds.
    pub fn is_constant(&self) -> bool {
        matches!(self, Self::Infinite(_) | Self::Truth(_)) || self.as_number().is_some()
    }

    /// The sum of both, the second times a number.
    pub fn plus(&self, other: &Self, times: f64) -> Self {
        match (self, other) {
            (Self::Finite(a), Self::Finite(b)) => Self::Finite(a.plus(b, times)),
            (Self::Infinite(a), Self::Finite(_)) => Self::Infinite(*a),
            (Self::Finite(_), Self::Infinite(b)) => Self::Infinite(*b != (times < 0.0)),
            (Self::Infinite(a), Self::Infinite(b)) if *a == (*b != (times < 0.0)) => Self::Infinite(*a),
            _ => Self::Nothing,
        }
    }
}

/// Coefficients within this part of both are equal: a factor on the way is rounded to f32.
pub(super) const ROUNDED: f64 = 6e-8;
/// The most products of a sum.
const PRODUCTS: usize = 16;

/// Products of atoms by their coefficients, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Sum(Vec<(Vec<usize>, f64)>);

impl Sum {
    /// A number.
    pub fn number(c: f64) -> Self {
        Self(if c == 0.0 { Vec::new() } else { vec![(Vec::new(), c)] })
    }

    /// An atom.
    pub fn atom(n: usize) -> Self {
        Self(vec![(vec![n], 1.0)])
    }

    /// The number, if it is one.
    pub fn as_number(&self) -> Option<f64> {
        match &self.0[..] {
            [] => Some(0.0),
            [(atoms, c)] if atoms.is_empty() => Some(*c),
            _ => None,
        }
    }

    /// Whether it is zero.
    pub fn is_zero(&self) -> bool {
        self.0.is_empty()
    }

    /// The atoms and the coefficient of its only product.
    pub fn product(&self) -> Option<(&[usize], f64)> {
        match &self.0[..] {
            [(atoms, c)] => Some((atoms, *c)),
            _ => None,
        }
    }

    /// The sum of both, the second times a number.
    pub fn plus(&self, other: &Self, times: f64) -> Self {
        let mut all = self.0.clone();
        for (atoms, c) in &other.0 {
            let c = c * times;
            match all.binary_search_by(|(a, _)| a.cmp(atoms)) {
                Ok(at) => {
                    let (whole, sum) = (all[at].1.abs() + c.abs(), all[at].1 + c);
                    all[at].1 = if sum.abs() <= whole * ROUNDED { 0.0 } else { sum };
                }
                Err(at) => all.insert(at, (atoms.clone(), c)),
            }
        }
        all.retain(|(_, c)| *c != 0.0);
        Self(all)
    }

    /// The atoms and coefficients of its products.
    pub fn products(&self) -> impl Iterator<Item = (&[usize], f64)> {
        self.0.iter().map(|(atoms, c)| (atoms.as_slice(), *c))
    }

    /// The products that hold an atom of a kind, and the others.
    pub fn parted(&self, is: impl Fn(usize) -> bool) -> (Self, Self) {
        let holds = |(atoms, _): &(Vec<usize>, f64)| atoms.iter().any(|&a| is(a));
        let (some, others) = self.0.iter().cloned().partition(holds);
        (Self(some), Self(others))
    }

    /// The product of both; `None` if it is too long.
    pub fn times(&self, other: &Self) -> Option<Self> {
        if self.0.len() * other.0.len() > PRODUCTS {
            return None;
        }
        let mut all = Self::default();
        for ((a, c), (b, d)) in self.0.iter().flat_map(|x| other.0.iter().map(move |y| (x, y))) {
            let mut atoms = [a.as_slice(), b].concat();
            atoms.sort_unstable();
            all = all.plus(&Self(vec![(atoms, c * d)]), 1.0);
        }
        Some(all)
    }

    /// The quotient by a sum of one product, where all of its atoms cancel.
    pub fn divided(&self, by: &Self) -> Option<Self> {
        let (taken, d) = by.product()?;
        let mut all = Self::default();
        for (atoms, c) in &self.0 {
            let mut left = atoms.clone();
            for atom in taken {
                left.remove(left.iter().position(|a| a == atom)?);
            }
            all = all.plus(&Self(vec![(left, c / d)]), 1.0);
        }
        Some(all)
    }

    /// The sum with other atoms.
    pub fn renamed(&self, mut name: impl FnMut(usize) -> usize) -> Self {
        let mut all = Self::default();
        for (atoms, c) in &self.0 {
            let mut atoms: Vec<usize> = atoms.iter().map(|&a| name(a)).collect();
            atoms.sort_unstable();
            all = all.plus(&Self(vec![(atoms, *c)]), 1.0);
        }
        all
    }
}
