//! The f64 reference of a matrix product, and the bounds on a 16-bit kernel's error.
//!
//! ```text
//!   full up to 2048^3          above: 2 border + 64 random rows, and as many columns
//!   ┌────────┐                 ┌──┬─┬───┐
//!   │████████│                 ├──┼─┼───┤
//!   │████████│                 ├──┼─┼───┤
//!   └────────┘                 └──┴─┴───┘
//! ```
//!
//! An element passes if its error is at most `c sqrt(K) eps sqrt(sum a^2 b^2) + u |ref| + s`. The first term is the
//! loss of f32 accumulation of K random products ([`ACCUMULATION_FACTOR`], `eps` = 2^-23). The second is the rounding
//! to the output type (unit roundoff `u`), the third that type's underflow. The relative norm of the whole must pass
//! too ([`norm_limit`]). Integers small enough for exact partial sums must agree exactly.

use super::{Array, Comparison, Element, Tally};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rayon::prelude::*;

/// The factor `c` of the bound. The tensor cores truncate when they add, so the error is a drift
/// that grows with K as well as a random walk: cuBLAS's own f32 results on an H200 need 3.7 at
/// K = 4096, and about sqrt(K) times more beyond. 16 covers K up to 2^16; a single missing
/// product of K = 8192 is still a hundred times over the bound.
pub const ACCUMULATION_FACTOR: f64 = 16.0;

/// Multiplications up to which the reference is full.
pub const FULL_LIMIT: u128 = 1 << 33;

/// Greatest relative norm of the error: 3e-4 for f16, 2.5e-3 for bf16; for f32 output half an ulp
/// for each addition of 16 products (cuBLAS: a third of that).
pub fn norm_limit(out: Element, k: usize) -> f64 {
    match out {
        Element::F16 => 3e-4,
        Element::Bf16 => 2.5e-3,
        Element::F32 => f64::from(f32::EPSILON) * (2.0 + k as f64 / 32.0),
        Element::F64 => 1e-14 * (k as f64).sqrt().max(1.0),
    }
}

fn accumulation(k: usize) -> f64 {
    ACCUMULATION_FACTOR * (k as f64).sqrt() * f64::from(f32::EPSILON)
}

/// An array seen as a matrix; strides in elements.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a> {
    /// Elements.
    pub array: &'a Array,
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub cols: usize,
    /// Elements from a row to the next.
    pub row_stride: usize,
    /// Elements from a column to the next.
    pub col_stride: usize,
}

impl<'a> Matrix<'a> {
    /// Rows of `cols` elements, one behind the other.
    pub fn row_major(array: &'a Array, rows: usize, cols: usize) -> Self {
        Self { array, rows, cols, row_stride: cols, col_stride: 1 }
    }

    /// The same memory with rows and columns exchanged.
    pub fn transposed(self) -> Self {
        Self {
            rows: self.cols,
            cols: self.rows,
            row_stride: self.col_stride,
            col_stride: self.row_stride,
            ..self
        }
    }

    /// The value at a row and column; NaN outside the array.
    pub fn get(&self, row: usize, col: usize) -> f64 {
        self.array.get(row * self.row_stride + col * self.col_stride)
    }

    fn row(&self, row: usize) -> Vec<f64> {
        (0..self.cols).map(|col| self.get(row, col)).collect()
    }
}

/// A product `a b` to be compared with: `a` is m x k, `b` is k x n.
#[derive(Clone, Copy, Debug)]
pub struct Product<'a> {
    /// Left factor.
    pub a: Matrix<'a>,
    /// Right factor.
    pub b: Matrix<'a>,
}

/// How elements are judged.
#[derive(Clone, Copy)]
enum Judge {
    Bound,
    Exact,
}

/// Columns gathered at once, so that row-major memory is read by lines.
const COLUMN_BLOCK: usize = 16;

impl<'a> Product<'a> {
    /// Compares `found` (m x n, rounded to its type) within the bound of the module's head.
    pub fn check(&self, found: Matrix<'_>, seed: u64) -> Comparison {
        let limit = norm_limit(found.array.element(), self.a.cols);
        self.run(found, seed, Judge::Bound).finish(limit)
    }

    /// Compares `found` bit by bit with the exact product rounded once: for small integers.
    pub fn check_exact(&self, found: Matrix<'_>, seed: u64) -> Comparison {
        self.run(found, seed, Judge::Exact).finish(0.0)
    }

    /// Compares every element with a product made elsewhere, row-major m x n: `sums` of a b, and
    /// `squares`, sums of a^2 b^2. For products too large for the CPU, see
    /// [`crate::bench::product_on_device`].
    pub fn check_given(&self, found: Matrix<'_>, sums: &[f64], squares: &[f64]) -> Comparison {
        let n = self.b.cols;
        let tallies = (0..self.a.rows).into_par_iter().map(|row| {
            let mut tally = Tally::default();
            for col in 0..n {
                let at = |list: &[f64]| list.get(row * n + col).copied().unwrap_or(f64::NAN);
                let values = (at(sums), at(squares));
                self.judge(&mut tally, found, (row, col), values, Judge::Bound);
            }
            tally
        });
        let limit = norm_limit(found.array.element(), self.a.cols);
        tallies.reduce(Tally::default, Tally::merge).finish(limit)
    }

    /// One element of the product.
    pub fn element(&self, row: usize, col: usize) -> f64 {
        dot(&self.a.row(row), &self.b.transposed().row(col)).0
    }

    fn run(&self, found: Matrix<'_>, seed: u64, judge: Judge) -> Tally {
        let (m, k, n) = (self.a.rows, self.a.cols, self.b.cols);
        if m as u128 * n as u128 * k as u128 <= FULL_LIMIT {
            return self.rows(found, &(0..m).collect::<Vec<_>>(), judge);
        }
        let mut rng = StdRng::seed_from_u64(seed);
        let by_row = self.rows(found, &sample(m, &mut rng), judge);
        let turned = Product { a: self.b.transposed(), b: self.a.transposed() };
        let by_column = turned.rows(found.transposed(), &sample(n, &mut rng), judge);
        by_row.merge(by_column)
    }

    /// Compares whole rows of the product.
    fn rows(&self, found: Matrix<'_>, rows: &[usize], judge: Judge) -> Tally {
        let left: Vec<Vec<f64>> = rows.par_iter().map(|&r| self.a.row(r)).collect();
        let blocks = (0..self.b.cols.div_ceil(COLUMN_BLOCK)).into_par_iter();
        let tallies = blocks.map(|block| {
            let mut tally = Tally::default();
            for (offset, column) in self.columns(block * COLUMN_BLOCK).iter().enumerate() {
                let col = block * COLUMN_BLOCK + offset;
                for (&row, values) in rows.iter().zip(&left) {
                    let (sum, squares) = dot(values, column);
                    self.judge(&mut tally, found, (row, col), (sum, squares), judge);
                }
            }
            tally
        });
        tallies.reduce(Tally::default, Tally::merge)
    }

    fn judge(
        &self,
        tally: &mut Tally,
        found: Matrix<'_>,
        (row, col): (usize, usize),
        (sum, squares): (f64, f64),
        judge: Judge,
    ) {
        let element = found.array.element();
        let value = found.get(row, col);
        let index = [row, col];
        match judge {
            Judge::Exact => tally.add(&index, value, element.round(sum), 0.0),
            Judge::Bound => {
                let rounding = element.unit_roundoff() * sum.abs() + element.underflow_error();
                let bound = accumulation(self.a.cols) * squares.sqrt() + rounding;
                tally.add(&index, value, sum, bound);
            }
        }
    }

    /// Up to a block of columns of `b`, from `first` on.
    fn columns(&self, first: usize) -> Vec<Vec<f64>> {
        let last = (first + COLUMN_BLOCK).min(self.b.cols);
        let mut columns = vec![Vec::with_capacity(self.b.rows); last - first];
        for row in 0..self.b.rows {
            for (offset, column) in columns.iter_mut().enumerate() {
                column.push(self.b.get(row, first + offset));
            }
        }
        columns
    }
}

/// First, last and 64 random indices, sorted, each once.
fn sample(count: usize, rng: &mut StdRng) -> Vec<usize> {
    let mut picked: Vec<usize> = (0..64.min(count)).map(|_| rng.random_range(0..count)).collect();
    picked.extend([0, count.saturating_sub(1)].into_iter().filter(|&i| i < count));
    picked.sort_unstable();
    picked.dedup();
    picked
}

/// Sum of products, and of their squares; in lanes, so that the loop vectorizes.
fn dot(a: &[f64], b: &[f64]) -> (f64, f64) {
    const LANES: usize = 8;
    let (mut sums, mut squares) = ([0.0; LANES], [0.0; LANES]);
    let (a_chunks, b_chunks) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let rest = a_chunks.remainder().iter().zip(b_chunks.remainder());
    let tail = rest.map(|(x, y)| x * y).fold((0.0, 0.0), |(s, q), p| (s + p, q + p * p));
    for (x, y) in a_chunks.zip(b_chunks) {
        for lane in 0..LANES {
            let p = x[lane] * y[lane];
            sums[lane] += p;
            squares[lane] += p * p;
        }
    }
    let total = |lanes: [f64; LANES]| lanes.iter().sum::<f64>();
    (total(sums) + tail.0, total(squares) + tail.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The result of a correct kernel: f32 accumulation in blocks of 16, rounded at the end.
    fn device_like(p: &Product<'_>, out: Element) -> Array {
        let (m, k, n) = (p.a.rows, p.a.cols, p.b.cols);
        let mut values = Vec::with_capacity(m * n);
        for i in 0..m {
            for j in 0..n {
                let mut sum = 0f32;
                for block in (0..k).step_by(16) {
                    let part: f64 = (block..k.min(block + 16)).map(|t| p.a.get(i, t) * p.b.get(t, j)).sum();
                    sum += part as f32;
                }
                values.push(f64::from(sum));
            }
        }
        Array::from_f64(out, &values)
    }

    #[test]
    fn correct_products_pass_in_every_type_and_transposition() {
        let (m, n, k) = (37, 29, 250);
        for (input, out) in
            [(Element::F16, Element::F16), (Element::Bf16, Element::Bf16), (Element::F16, Element::F32)]
        {
            let (a, b) = (Array::normal(input, m * k, 1), Array::normal(input, n * k, 2));
            let product = Product {
                a: Matrix::row_major(&a, k, m).transposed(),
                b: Matrix::row_major(&b, n, k).transposed(),
            };
            let found = device_like(&product, out);
            let report = product.check(Matrix::row_major(&found, m, n), 0);
            assert!(report.passed() && report.checked == (m * n) as u64, "{report}");
        }
    }

    #[test]
    fn one_wrong_element_is_found() {
        let (a, b) = (Array::normal(Element::F16, 64 * 64, 1), Array::normal(Element::F16, 64 * 64, 2));
        let product = Product { a: Matrix::row_major(&a, 64, 64), b: Matrix::row_major(&b, 64, 64) };
        let mut values = device_like(&product, Element::F16).to_f64();
        values[64 * 5 + 9] += 0.1;
        let found = Array::from_f64(Element::F16, &values);
        let report = product.check(Matrix::row_major(&found, 64, 64), 0);
        assert_eq!((report.failed, report.passed()), (1, false), "{report}");
        assert_eq!(report.worst.map(|w| w.index), Some(vec![5, 9]));
        let poison = Array::poison(Element::F16, 64 * 64);
        assert_eq!(product.check(Matrix::row_major(&poison, 64, 64), 0).failed, 64 * 64);
    }

    #[test]
    fn a_given_product_is_as_good_as_our_own() {
        let (m, n, k) = (9, 17, 100);
        let (a, b) = (Array::normal(Element::F16, m * k, 1), Array::normal(Element::F16, k * n, 2));
        let product = Product { a: Matrix::row_major(&a, m, k), b: Matrix::row_major(&b, k, n) };
        let places = (0..m * n).map(|i| (product.a.row(i / n), product.b.transposed().row(i % n)));
        let (sums, squares): (Vec<f64>, Vec<f64>) = places.map(|(x, y)| dot(&x, &y)).unzip();
        let found = device_like(&product, Element::F32);
        let found = Matrix::row_major(&found, m, n);
        let given = product.check_given(found, &sums, &squares);
        let own = product.check(found, 0);
        assert!(given.passed() && given.checked == own.checked, "{given}");
        assert_eq!(given.worst_ratio, own.worst_ratio);
        assert!(!product.check_given(found, &sums[1..], &squares).passed());
    }

    #[test]
    fn small_integers_agree_exactly() {
        let (m, n, k) = (20, 33, 512);
        let a = Array::small_integers(Element::Bf16, m * k, 3, 2);
        let b = Array::small_integers(Element::Bf16, k * n, 4, 2);
        let product = Product { a: Matrix::row_major(&a, m, k), b: Matrix::row_major(&b, k, n) };
        let found = device_like(&product, Element::Bf16);
        assert!(product.check_exact(Matrix::row_major(&found, m, n), 0).passed());
        let mut bytes = found.bytes().to_vec();
        bytes[0] ^= 1;
        let off = Array::from_bytes(Element::Bf16, bytes);
        assert_eq!(product.check_exact(Matrix::row_major(&off, m, n), 0).failed, 1);
    }

    #[test]
    fn large_products_are_sampled_with_their_borders() {
        let (m, n, k) = (3000, 2900, 1000);
        assert!(m as u128 * n as u128 * k as u128 > FULL_LIMIT);
        let zeros = Array::from_f64(Element::F16, &vec![0.0; m.max(n) * k]);
        let product = Product { a: Matrix::row_major(&zeros, m, k), b: Matrix::row_major(&zeros, k, n) };
        let mut values = vec![0.0; m * n];
        values[m * n - 1] = 1.0;
        let found = Array::from_f64(Element::F16, &values);
        let report = product.check(Matrix::row_major(&found, m, n), 5);
        assert_eq!(report.failed, 2, "the corner is in a row and in a column: {report}");
        assert!(report.checked < 66 * (m + n) as u64 + 1);
    }

    #[test]
    fn empty_products_pass() {
        let none = Array::from_f64(Element::F16, &[]);
        for (m, n, k) in [(0, 5, 5), (5, 0, 5), (2, 2, 0)] {
            let found = Array::from_f64(Element::F16, &vec![0.0; m * n]);
            let product = Product { a: Matrix::row_major(&none, m, k), b: Matrix::row_major(&none, k, n) };
            let report = product.check(Matrix::row_major(&found, m, n), 0);
            assert!(report.passed() && report.checked == (m * n) as u64, "{report}");
        }
    }
}
