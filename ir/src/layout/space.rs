//! Subspaces of F2^64 as sets of vectors: what the algorithms on access patterns and conversions compute with.

use super::inverse::Elimination;

/// Vectors of a space or a basis of it.
pub(crate) type Vectors = Vec<u64>;

/// The independent vectors among `all`, the first of each dependent set.
pub(crate) fn independent(all: &[u64]) -> Vectors {
    extension(&[], all)
}

/// The vectors of `candidates` that extend `base` one after the other.
pub(crate) fn extension(base: &[u64], candidates: &[u64]) -> Vectors {
    let mut elimination = Elimination::new();
    base.iter().enumerate().for_each(|(k, &v)| {
        elimination.insert(v, k.min(63));
    });
    let add = |v: &u64| elimination.insert(*v, 0);
    candidates.iter().copied().filter(add).collect()
}

/// Number of independent vectors.
pub(crate) fn dimension(all: &[u64]) -> usize {
    independent(all).len()
}

/// A basis of the intersection of two spans.
pub(crate) fn intersection(a: &[u64], b: &[u64]) -> Vectors {
    let (a, b) = (independent(a), independent(b));
    let mut elimination = Elimination::new();
    for (k, &v) in a.iter().enumerate() {
        elimination.insert(v, k);
    }
    let mut common = Vectors::new();
    for (k, &v) in b.iter().enumerate() {
        let index = a.len() + k;
        let (rest, used) = elimination.reduce(v);
        if rest != 0 && index < 64 {
            elimination.insert(v, index);
        } else if rest == 0 {
            let of_a = a.iter().enumerate().filter(|(i, _)| used >> i & 1 == 1);
            common.push(of_a.fold(0, |sum, (_, &x)| sum ^ x));
        }
    }
    common
}

/// The largest subspace that meets neither span outside zero, inside the span of `whole` (Linear Layouts, lemma 9.5): with
/// `U = I + E`, `V = I + F` it is spanned by the sums of a vector of `E` and one of `F`, and by what is in neither.
pub(crate) fn avoiding(u: &[u64], v: &[u64], whole: &[u64]) -> Vectors {
    let common = intersection(u, v);
    let (e, f) = (extension(&common, u), extension(&common, v));
    let mut space: Vectors = e.iter().zip(&f).map(|(e, f)| e ^ f).collect();
    let both: Vectors = u.iter().chain(v).copied().collect();
    space.extend(extension(&both, whole));
    space
}

/// The unit vectors of `bits` bits.
pub(crate) fn units(bits: u32) -> Vectors {
    (0..bits).map(|b| 1 << b).collect()
}

/// Coordinates in a basis.
pub(crate) struct Coordinates(Elimination);

impl Coordinates {
    /// Coordinates in `basis`, of at most 64 vectors; dependent vectors get none.
    pub fn new(basis: &[u64]) -> Coordinates {
        let mut elimination = Elimination::new();
        for (k, &v) in basis.iter().enumerate().take(64) {
            elimination.insert(v, k);
        }
        Coordinates(elimination)
    }

    /// The set of basis vectors that sum to `vector`.
    pub fn of(&self, vector: u64) -> Option<u64> {
        self.0.solve(vector)
    }
}

/// Sum of the vectors whose bit is set.
pub(crate) fn combine(vectors: &[u64], set: u64) -> u64 {
    let chosen = vectors.iter().enumerate().filter(|(k, _)| set >> k & 1 == 1);
    chosen.fold(0, |sum, (_, &v)| sum ^ v)
}

/// Sum of the numbers whose bit is set.
pub(crate) fn sum(numbers: &[u64], set: u64) -> u64 {
    let chosen = numbers.iter().enumerate().filter(|(k, _)| set >> k & 1 == 1);
    chosen.map(|(_, n)| n).sum()
}
