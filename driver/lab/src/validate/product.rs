//! Kernels that are one matrix product and nothing else, found by their shape in the IR.
//!
//! ```text
//!  grid cdiv(m, BM), cdiv(n, BN)
//!  acc = for t in 0..cdiv(k, BK) carry x = 0 { y = mma x, [trans] load a[..], [trans] load b[..]; yield y }
//!  store c[i*BM, j*BN], [cast] acc
//! ```
//!
//! Such a kernel is checked against a product in f64 and compared with vendor libraries. Every index is checked, so a
//! kernel that only resembles a product does not match.

use super::Sizes;
use crate::bench::GemmProblem;
use crate::reference::{Array, Element, Matrix, Product};
use warplift::problem::{evaluate, extents};
use warplift_ir::tile::{BinOp, Inst, Kernel, Op, Type, Value, ValueDef};
use warplift_ir::types::Elem;

/// A product, and the parameters that are its matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlainProduct {
    /// Sizes, types and storage order.
    pub problem: GemmProblem,
    /// Places of A, B and C among the pointer parameters.
    pub operands: [usize; 3],
}

impl PlainProduct {
    /// A and B as matrices m x k and k x n.
    pub fn matrices<'a>(&self, a: &'a Array, b: &'a Array) -> Product<'a> {
        let p = &self.problem;
        let see = |array, rows: u64, cols: u64, turned| match turned {
            true => Matrix::row_major(array, cols as usize, rows as usize).transposed(),
            false => Matrix::row_major(array, rows as usize, cols as usize),
        };
        Product { a: see(a, p.m, p.k, p.a_transposed), b: see(b, p.k, p.n, p.b_transposed) }
    }
}

/// A tile loaded from a matrix, perhaps transposed.
struct Factor {
    operand: usize,
    elem: Elem,
    transposed: bool,
    /// Extents of the view, in the order of the factor's use.
    extents: [i64; 2],
    /// The factors of the tile's extents, in the same order.
    steps: [Value; 2],
}

/// The product of a kernel without tunables, if it is a plain product.
pub fn plain_product(kernel: &Kernel, sizes: &Sizes) -> Option<PlainProduct> {
    let mut ops = kernel.insts.iter();
    let only = |op: fn(&Op) -> bool| {
        let mut found = kernel.insts.iter().filter(|(_, d)| op(&d.op)).map(|(i, _)| i);
        found.next().filter(|_| found.next().is_none())
    };
    let gathers = |op: &Op| matches!(op, Op::LoadGather { .. } | Op::LoadRuns(_) | Op::StoreScatter { .. });
    if ops.any(|(_, d)| matches!(d.op, Op::While | Op::If) || d.op.atomic().is_some() || gathers(&d.op)) {
        return None;
    }
    let (store, mma, looped) = (
        only(|o| *o == Op::Store)?,
        only(|o| matches!(o, Op::Mma { negated: false }))?,
        only(|o| *o == Op::For)?,
    );
    let c = stored(kernel, store, looped, sizes)?;
    let counter = accumulates(kernel, looped, mma)?;
    let [_, a, b] = *kernel.args(mma) else { return None };
    let (a, b) = (factor(kernel, a, sizes)?, factor(kernel, b, sizes)?);
    let ([m, k], [k2, n]) = (a.extents, b.extents);
    let steps = c.steps == [a.steps[0], b.steps[1]] && a.steps[1] == counter && b.steps[0] == counter;
    let blocks = c.steps.map(|s| kernel.def(s).map(|i| kernel.insts[i].op.clone()));
    let indices = blocks == [Some(Op::BlockIndex(0)), Some(Op::BlockIndex(1))];
    if !steps || !indices || k != k2 || c.extents != [m, n] || a.elem != b.elem {
        return None;
    }
    covers(kernel, looped, mma, [m, n, k], sizes)?;
    let problem = GemmProblem {
        m: m as u64,
        n: n as u64,
        k: k as u64,
        a_transposed: a.transposed,
        b_transposed: b.transposed,
        input: Element::named(&a.elem.to_string())?,
        output: Element::named(&c.elem.to_string())?,
    };
    Some(PlainProduct { problem, operands: [a.operand, b.operand, c.operand] })
}

/// Looks through one operation.
fn through(kernel: &Kernel, value: Value, op: fn(&Op) -> bool) -> Option<Value> {
    let inst = kernel.def(value)?;
    if op(&kernel.insts[inst].op) { kernel.args(inst).first().copied() } else { None }
}

/// The matrix that the loop's only result is stored to.
fn stored(kernel: &Kernel, store: Inst, looped: Inst, sizes: &Sizes) -> Option<Factor> {
    let value = *kernel.args(store).last()?;
    let value = through(kernel, value, |o| *o == Op::Cast).unwrap_or(value);
    if kernel.def(value) != Some(looped) || kernel.results(looped) != [value] {
        return None;
    }
    access(kernel, store, sizes)
}

/// The counter of a loop whose only carried value starts at zero and is what the product adds to.
fn accumulates(kernel: &Kernel, looped: Inst, mma: Inst) -> Option<Value> {
    let body = *kernel.insts[looped].blocks.first()?;
    let [counter, carried] = kernel.blocks[body].params[..] else { return None };
    let zero = through(kernel, *kernel.args(looped).get(3)?, |o| *o == Op::Full)?;
    let zero = matches!(kernel.insts[kernel.def(zero)?].op, Op::Float(v) if v == 0.0);
    let sums = kernel.args(mma).first() == Some(&carried) && kernel.yields(body) == kernel.results(mma);
    (zero && sums).then_some(counter)
}

/// Whether loop and grid reach every element.
fn covers(kernel: &Kernel, looped: Inst, mma: Inst, [m, n, k]: [i64; 3], sizes: &Sizes) -> Option<()> {
    let extents = |v: Value| kernel.ty(v).shape()?.extents();
    let tile = extents(*kernel.args(mma).first()?)?;
    let depth = *extents(*kernel.args(mma).get(1)?)?.get(1)?;
    let range: Vec<Option<i64>> =
        kernel.args(looped)[..3].iter().map(|&v| evaluate(kernel, v, sizes)).collect();
    let grid: Vec<Option<i64>> = kernel.grid.iter().map(|&v| evaluate(kernel, v, sizes)).collect();
    let tiles = |size: i64, extent: u32| Some((size + i64::from(extent) - 1) / i64::from(extent));
    let whole = range == [Some(0), tiles(k, depth), Some(1)];
    (whole && grid == [tiles(m, tile[0]), tiles(n, tile[1])]).then_some(())
}

/// An operand of the product.
fn factor(kernel: &Kernel, value: Value, sizes: &Sizes) -> Option<Factor> {
    let turned = through(kernel, value, |o| matches!(o, Op::Trans(p) if p[..] == [1, 0]));
    let load = kernel.def(turned.unwrap_or(value))?;
    if kernel.insts[load].op != Op::Load {
        return None;
    }
    let mut f = access(kernel, load, sizes)?;
    f.transposed = turned.is_some();
    if f.transposed {
        f.extents.reverse();
        f.steps.reverse();
    }
    Some(f)
}

/// A load or store of a tile at multiples of its extents in a row-major matrix.
fn access(kernel: &Kernel, inst: Inst, sizes: &Sizes) -> Option<Factor> {
    let args = kernel.args(inst);
    let view = kernel.def(*args.first()?)?;
    let Op::View { strided: false, fill } = kernel.insts[view].op else { return None };
    let base = kernel.args(view)[0];
    let pointers = kernel.params.iter().filter(|p| matches!(kernel.ty(p.value), Type::Ptr(_)));
    let operand = pointers.clone().position(|p| p.value == base)?;
    let extents = <[i64; 2]>::try_from(extents(kernel, view, false, sizes).ok()?.0).ok()?;
    let tile = match kernel.insts[inst].op {
        Op::Store => *args.last()?,
        _ => kernel.result(inst),
    };
    let tile = kernel.ty(tile).shape()?.extents()?;
    let step = |d: usize| scaled(kernel, *args.get(1 + d)?, i64::from(*tile.get(d)?));
    let steps = [step(0)?, step(1)?];
    (fill == 0.0).then_some(Factor {
        operand,
        elem: kernel.ty(base).elem(),
        transposed: false,
        extents,
        steps,
    })
}

/// `x` of `x * by`.
fn scaled(kernel: &Kernel, value: Value, by: i64) -> Option<Value> {
    let ValueDef::Result(inst, _) = kernel.values[value].def else { return None };
    let [x, y] = *kernel.args(inst) else { return None };
    let product = matches!(kernel.insts[inst].op, Op::Binary(BinOp::Mul));
    let constant = |v| kernel.int_const(v) == Some(by);
    match (product, constant(x), constant(y)) {
        (true, _, true) => Some(x),
        (true, true, _) => Some(y),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warplift::kernels::{LIBRARY, find};
    use warplift_ir::tile::{Mapping, parse_file};

    fn product_of(text: &str) -> Option<PlainProduct> {
        let kernel = parse_file(text, "").unwrap().kernels.remove(0);
        let resolved = warplift_isel::map::do_tunables(&kernel, &Mapping::default()).unwrap();
        plain_product(&resolved, &Sizes::parse(&kernel, "m=400,n=24,k=16").unwrap())
    }

    #[test]
    fn products_of_the_library_are_found() {
        for (name, text) in [
            ("gemm", "gemm NT 400x24x16, f16 to f16"),
            ("gemm_any", "gemm NT 400x24x16, f16 to f16"),
            ("gemm_bf16", "gemm NT 400x24x16, bf16 to bf16"),
            ("gemm_f32out", "gemm NT 400x24x16, f16 to f32"),
            ("gemm_nn", "gemm NN 400x24x16, f16 to f16"),
            ("gemm_tn", "gemm TN 400x24x16, f16 to f16"),
            ("gemm_tt", "gemm TT 400x24x16, f16 to f16"),
        ] {
            let found = product_of(find(name).unwrap().text);
            assert_eq!(found.map(|p| p.problem.to_string()).as_deref(), Some(text), "{name}");
            assert_eq!(found.unwrap().operands, [0, 1, 2]);
        }
        let others = LIBRARY.iter().filter(|t| t.name.contains("residual") || t.name.contains("chain"));
        for text in others {
            let kernel = text.parse().unwrap().kernels.remove(0);
            let resolved = warplift_isel::map::do_tunables(&kernel, &Mapping::default()).unwrap();
            assert_eq!(plain_product(&resolved, &Sizes::defaults(&kernel)), None, "{}", text.name);
        }
    }

    #[test]
    fn what_only_resembles_a_product_is_none() {
        let gemm = find("gemm").unwrap().text;
        assert!(product_of(gemm).is_some());
        for (from, to) in [
            ("0..cdiv(k, BK)", "1..cdiv(k, BK)"),
            ("full 0.0", "full 1.0"),
            ("ga[i*BM, t*BK]", "ga[j*BM, t*BK]"),
            ("gb[j*BN, t*BK]", "gb[j*BN, i*BK]"),
            ("grid cdiv(m, BM)", "grid cdiv(m, 2*BM)"),
            ("cast(acc, f16)", "cast(acc * 2.0, f16)"),
            ("mma x, ta, trans(tb)", "mma x, ta * ta, trans(tb)"),
        ] {
            let text = gemm.replace(from, to);
            assert_ne!(text, gemm, "{from}");
            assert_eq!(product_of(&text), None, "{to}");
        }
    }
}
