//! The roundings on the way to an output. If an intermediate lies between two numbers of a narrower type, a machine may
//! take one of them and the interpreter the other.
//!
//! ```text
//!  p = exp2 s   h = cast p to f16   o = mma o, h, v   store y, o        y: by way of f16
//!  d = max c, 0                                       store z, d        z: of f32 alone, whatever y does
//! ```

use crate::reference::Element;
use rustc_hash::FxHashSet;
use warplift_ir::tile::{Inst, Kernel, Op, Value, ValueDef};

/// The largest roundoff of the types to which wider floats are rounded on the way to an output, or the loss in sums of
/// so many products; 0 if there are none. The rounding to the stored type does not count.
pub(super) fn coarsest(kernel: &Kernel, output: &str, products: f64) -> f64 {
    let mut seen = FxHashSet::default();
    let mut work: Vec<Value> = Vec::new();
    kernel.walk(|_, inst| work.extend(stored(kernel, inst, output)));
    let mut found: f64 = 0.0;
    while let Some(v) = work.pop() {
        if seen.insert(v) {
            let loss = |def| rounded(kernel, def).or_else(|| cut_off(kernel, def, products));
            found = kernel.def(v).and_then(loss).unwrap_or(0.0).max(found);
            work.extend(behind(kernel, v));
        }
    }
    found
}

/// The value that an instruction writes to an output, before the rounding to its type.
fn stored(k: &Kernel, inst: Inst, output: &str) -> Option<Value> {
    let written = k.insts[inst].op.written_operand(k.args(inst).len())?;
    let (view, value) = (*k.args(inst).first()?, *k.args(inst).get(written)?);
    let def = k.def(k.whole_view(view))?;
    let pointer = *k.args(def).first()?;
    k.params.iter().find(|p| p.value == pointer && p.name == output)?;
    let cast = k.def(value).filter(|d| matches!(k.insts[*d].op, Op::Cast));
    Some(cast.map_or(value, |d| k.args(d)[0]))
}

/// Bound on the relative distance of tensor cores' sums of 8-bit products from f32 sums. The tensor cores truncate each
/// step of 32 products and the running sum to about 13 bits. The norm of all errors was measured on an H200: 3.4e-4 for
/// 272 products, 1.4e-3 for 4096, 2.1e-3 for 8192. The bound is 24 to 61 times that, because norms must stay below a
/// sixteenth of it.
fn cut_off(k: &Kernel, inst: Inst, products: f64) -> Option<f64> {
    let bytes = |v: Value| k.ty(v).elem().is_float() && k.ty(v).elem().bits() == 8;
    let cut = matches!(k.insts[inst].op, Op::Mma { .. }) && bytes(k.args(inst)[1]);
    cut.then_some((products / 32.0 + 8.0) * f64::exp2(-11.0))
}

/// The roundoff of a cast to a narrower float.
fn rounded(k: &Kernel, inst: Inst) -> Option<f64> {
    let (from, to) = (k.ty(*k.args(inst).first()?).elem(), k.ty(*k.results(inst).first()?).elem());
    let narrows = matches!(k.insts[inst].op, Op::Cast) && from.is_float() && from.bits() > to.bits();
    Element::named(&to.to_string()).filter(|_| narrows).map(Element::unit_roundoff)
}

/// The values that a value is computed from. For loops and branches, these are the yielded values.
pub(super) fn behind(k: &Kernel, v: Value) -> Vec<Value> {
    let carried = |tiles: Inst, n: usize| {
        let yields = k.insts[tiles].blocks.iter().filter_map(move |&b| k.yields(b).get(n).copied());
        let start = matches!(k.insts[tiles].op, Op::For).then(|| k.args(tiles).get(3 + n).copied());
        yields.chain(start.flatten()).collect()
    };
    match k.values[v].def {
        ValueDef::Result(inst, n) if !k.insts[inst].blocks.is_empty() => carried(inst, n as usize),
        ValueDef::Result(inst, _) => k.args(inst).to_vec(),
        ValueDef::Param(block, n) => {
            let holder = k.insts.iter().find(|(_, d)| matches!(d.op, Op::For) && d.blocks.contains(&block));
            holder.zip((n as usize).checked_sub(1)).map_or(Vec::new(), |((inst, _), n)| carried(inst, n))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warplift::kernels::find;

    fn of(name: &str, output: &str) -> f64 {
        of_sums(name, output, 1.0)
    }

    fn of_sums(name: &str, output: &str, products: f64) -> f64 {
        coarsest(&find(name).unwrap().parse().unwrap().kernels[0], output, products)
    }

    #[test]
    fn sums_of_8_bit_floats_are_cut_off() {
        assert_eq!(of_sums("gemm_f32out", "c", 4096.0), 0.0);
        assert_eq!(of_sums("a16e4m3", "y", 4096.0), 0.0, "weights are halves before they are multiplied");
        assert_eq!(of_sums("gemm_e4m3", "nothing", 4096.0), 0.0, "another output's sums");
        // Measured norms, which must stay below a sixteenth: 1.4e-3 for 4096 products, 3.4e-4 for 272.
        assert!((0.03..0.1).contains(&of_sums("gemm_e4m3", "c", 4096.0)));
        assert!((0.0055..0.01).contains(&of_sums("gemm_e4m3", "c", 272.0)));
    }

    #[test]
    fn only_roundings_on_the_way_count() {
        assert_eq!(of("gemm_two_outputs", "c"), 0.0, "the rounding to what is stored");
        assert_eq!(of("gemm_two_outputs", "d"), 0.0, "another output's rounding");
        assert_eq!(of("gemm_f32out", "c"), 0.0);
        assert_eq!(of("attention", "o"), f64::exp2(-8.0), "in a loop, what it carries");
        assert_eq!(of("gemm_chain", "d"), f64::exp2(-11.0));
        assert_eq!(of("gemm_chain", "nothing"), 0.0);
    }
}
