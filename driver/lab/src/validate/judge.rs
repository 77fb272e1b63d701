//! The judge compares the buffers that a kernel left with the reference.
//!
//! Plain products obey the bounds of [`crate::reference`]. Any other output may differ from the interpreter's, which
//! adds in f64, by `2 u |ref| + (max(u, v) + c sqrt(K) eps) rms` and one step between subnormals. The terms allow two
//! roundings to the output type, an intermediate that rounds the other way, and f32 sums of up to K terms. (`v` is the
//! roundoff of the coarsest type on the way to this output, or the loss of tensor cores in sums of 8-bit floats.) On
//! small integers everything must agree bit by bit, unless the kernel uses functions that round.
//!
//! Where atomics add n floats of magnitudes that sum to S to one element, any order of them is allowed. Each of the n
//! sums rounds off at most `w` of a partial sum, which is at most S (the element's first value included): a machine and
//! the interpreter each stay within `n w S` of the exact sum, so they differ by `2 n w S`. The addends themselves are
//! off by the terms above, relative to S. The norm may grow by the norm of these bounds.

use super::blocks::{Meaning, meaning};
use super::data::{element, is_same};
use super::rounding::coarsest;
use super::work::{longest_product, longest_sum};
use super::{Data, PlainProduct, ProductSource, Style, Validation, ValidationError};
use crate::reference::{
    ACCUMULATION_FACTOR, Array, Comparison, Element, FULL_LIMIT, Matrix, Tally, norm_limit,
};
use std::fmt;
use warplift_ir::interp::{Additions, Number};
use warplift_ir::tile::{BinOp, Kernel, Op, ReduceOp, UnOp};
use warplift_ir::types::Elem;

/// The result of the comparison of one launch.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// Data.
    pub style: Style,
    /// Each output, by name.
    pub outputs: Vec<(String, Comparison)>,
    /// The kind of reference.
    pub reference: String,
}

impl Verdict {
    /// Whether all outputs are right.
    pub fn passed(&self) -> bool {
        self.outputs.iter().all(|(_, c)| c.passed())
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let data = match self.style {
            Style::Normal => "normal data",
            Style::Integers => "small integers, bit by bit",
        };
        for (i, (name, comparison)) in self.outputs.iter().enumerate() {
            let line = if i == 0 { "" } else { "\n" };
            write!(f, "{line}{name}, {data} against {}: {comparison}", self.reference)?;
        }
        Ok(())
    }
}

/// Whether a kernel maps small integers to integers, exactly.
pub fn exact_on_integers(kernel: &Kernel) -> bool {
    kernel.insts.values().all(|d| match d.op {
        Op::Unary(u) => matches!(u, UnOp::Neg | UnOp::Abs | UnOp::Not | UnOp::Likely | UnOp::Unlikely),
        Op::Binary(b) => b != BinOp::Div || kernel.results_are_integers(d),
        Op::Reduce(r, _) | Op::Scan(r, _) => r != ReduceOp::Prod,
        _ => true,
    })
}

/// Questions about instructions.
trait Results {
    fn results_are_integers(&self, data: &warplift_ir::tile::InstData) -> bool;
}

impl Results for Kernel {
    fn results_are_integers(&self, data: &warplift_ir::tile::InstData) -> bool {
        data.results.as_slice(&self.pool).iter().all(|&r| !self.ty(r).elem().is_float())
    }
}

impl Validation<'_> {
    /// Compares the buffers that a launch left with the reference for `data`, which has this style.
    ///
    /// # Errors
    /// The interpreter refuses the kernel.
    pub fn judge(
        &self,
        data: &Data,
        found: &[Vec<u8>],
        style: Style,
        seed: u64,
        products: Option<&ProductSource<'_>>,
    ) -> Result<Verdict, ValidationError> {
        if let Some(product) = &self.product {
            return Ok(self.judge_product(product, data, found, style, seed, products));
        }
        let meaning = meaning(&self.resolved, &self.sizes, &self.operands, data, seed)?;
        let (ran, all) = meaning.blocks;
        let whole = ran as u64 == all;
        let written = self.operands.iter().enumerate().filter(|(_, o)| o.written);
        let outputs = written.map(|(place, operand)| {
            let buffers = (&data.buffers[place][..], found.get(place).map_or(&[][..], Vec::as_slice));
            let comparison = self.judge_buffer(&meaning, place, operand.elem, buffers, style, whole);
            (operand.name.clone(), comparison)
        });
        let outputs = outputs.collect();
        let reference = match whole {
            true => "the interpreter".to_owned(),
            false => format!("the interpreter ({ran} of {all} blocks)"),
        };
        Ok(Verdict { style, outputs, reference })
    }

    fn judge_product(
        &self,
        product: &PlainProduct,
        data: &Data,
        found: &[Vec<u8>],
        style: Style,
        seed: u64,
        products: Option<&ProductSource<'_>>,
    ) -> Verdict {
        let p = &product.problem;
        let [a, b, c] = product.operands;
        let array =
            |element, bytes: Option<&Vec<u8>>| Array::from_bytes(element, bytes.cloned().unwrap_or_default());
        let (a, b) = (array(p.input, data.buffers.get(a)), array(p.input, data.buffers.get(b)));
        let c_array = array(p.output, found.get(c));
        let c_matrix = Matrix::row_major(&c_array, p.m as usize, p.n as usize);
        let factors = product.matrices(&a, &b);
        let mut outputs = Vec::new();
        let name = &self.operands[c].name;
        let comparison = match style {
            Style::Normal => factors.check(c_matrix, seed),
            Style::Integers => factors.check_exact(c_matrix, seed),
        };
        outputs.push((name.clone(), comparison));
        let large = u128::from(p.m) * u128::from(p.n) * u128::from(p.k) > FULL_LIMIT;
        let mut reference = if large { "sampled rows and columns in f64" } else { "the full product in f64" };
        let given = products.filter(|_| large && style == Style::Normal).and_then(|source| source(p, &a, &b));
        if let Some((sums, squares)) = given {
            outputs.push((format!("{name} (all)"), factors.check_given(c_matrix, &sums, &squares)));
            reference = "the product in f64";
        }
        Verdict { style, outputs, reference: reference.to_owned() }
    }

    fn judge_buffer(
        &self,
        meaning: &Meaning,
        place: usize,
        elem: Elem,
        (before, after): (&[u8], &[u8]),
        style: Style,
        whole: bool,
    ) -> Comparison {
        let terms = longest_sum(&self.resolved, &self.sizes);
        let expected: Vec<f64> =
            meaning.written.iter().filter(|((p, _), _)| *p == place).map(|(_, v)| v.as_f64()).collect();
        let exact = style == Style::Integers && exact_on_integers(&self.resolved);
        let products = longest_product(&self.resolved, &self.sizes);
        let inner = coarsest(&self.resolved, &self.operands[place].name, products);
        let bounds = Bounds::new(elem, (terms, inner), &expected, exact);
        let (mut tally, mut more) = (Tally::default(), 0.0);
        let count = self.operands[place].elements as usize;
        for index in 0..count {
            let at = |bytes| element(bytes, index, elem).unwrap_or(Number::Float(f64::NAN));
            match meaning.written.get(&(place, index)) {
                Some(&value) => {
                    let added = meaning.additions.get(&(place, index)).copied().unwrap_or_default();
                    let atomics = bounds.of_additions(added, at(before).as_f64());
                    more += atomics * atomics;
                    add(&mut tally, index, at(after), value, bounds.of(value.as_f64()) + atomics);
                }
                None if whole && !is_same(at(before), at(after)) => {
                    add(&mut tally, index, at(after), at(before), 0.0);
                }
                None => {}
            }
        }
        tally.finish(bounds.norm_with(more, &expected))
    }
}

/// Counts an element. Two NaNs are alike.
fn add(tally: &mut Tally, index: usize, found: Number, expected: Number, bound: f64) {
    match (found, expected) {
        (Number::Int(found), Number::Int(expected)) => tally.add_integer(&[index], found, expected),
        _ if is_same(found, expected) && expected.as_f64().is_nan() => tally.add(&[index], 0.0, 0.0, bound),
        _ => tally.add(&[index], found.as_f64(), expected.as_f64(), bound),
    }
}

/// The norm of the errors of rounding to nearest, in parts of the largest one.
const ROUNDED: f64 = 0.64;

/// Part of an intermediate's roundoff that the errors' norm may reach: few intermediates round the other way, and
/// sums of them are less uncertain than each.
const OTHER_WAY: f64 = 1.0 / 16.0;

/// Of a type: the largest relative error of rounding to nearest, the largest absolute one below the normal numbers, and the
/// limit of the norm of all errors. `None` for whole numbers.
fn roundoffs(elem: Elem, terms: f64) -> Option<[f64; 3]> {
    if let Elem::Mini { exponent, mantissa } = elem {
        let unit = f64::exp2(-f64::from(mantissa) - 1.0);
        let least = 2.0 - f64::exp2(f64::from(exponent) - 1.0);
        return Some([unit, unit * f64::exp2(least), ROUNDED * unit]);
    }
    let element = Element::named(&elem.to_string())?;
    Some([element.unit_roundoff(), element.underflow_error(), norm_limit(element, terms as usize)])
}

/// The bounds on the errors of one output.
struct Bounds {
    relative: f64,
    absolute: f64,
    norm: f64,
    /// Roundoff of one addition in the element's type.
    unit: f64,
    /// Roundoff of what is added, in parts of it.
    addend: f64,
}

impl Bounds {
    /// For sums of so many terms, and intermediates of this roundoff.
    fn new(elem: Elem, (terms, inner): (f64, f64), expected: &[f64], exact: bool) -> Self {
        let Some([unit, underflow, norm]) = roundoffs(elem, terms).filter(|_| !exact) else {
            return Self { relative: 0.0, absolute: 0.0, norm: 0.0, unit: 0.0, addend: 0.0 };
        };
        let finite = expected.iter().filter(|v| v.is_finite());
        let (sum, count) = finite.fold((0.0, 0usize), |(s, n), v| (s + v * v, n + 1));
        let rms = (sum / count.max(1) as f64).sqrt();
        let sums = ACCUMULATION_FACTOR * terms.sqrt() * f64::from(f32::EPSILON);
        Self {
            relative: 2.0 * unit,
            // Below the normal numbers, our rounding and the interpreter's may differ by a whole step.
            absolute: (unit.max(inner) + sums) * rms + 2.0 * underflow,
            norm: norm.max(inner * OTHER_WAY),
            unit,
            addend: unit.max(inner) + sums,
        }
    }

    /// What atomics may add to the bound of an element that held `before`.
    fn of_additions(&self, added: Additions, before: f64) -> f64 {
        if added.count == 0 {
            return 0.0;
        }
        let all = added.magnitude + if before.is_finite() { before.abs() } else { 0.0 };
        let bound = (2.0 * f64::from(added.count) * self.unit + self.addend) * all;
        if bound.is_finite() { bound } else { 0.0 }
    }

    /// The limit of the errors' norm, where atomics may add errors of this squared norm.
    fn norm_with(&self, more: f64, expected: &[f64]) -> f64 {
        let squares: f64 = expected.iter().filter(|v| v.is_finite()).map(|v| v * v).sum();
        if more == 0.0 { self.norm } else { self.norm + (more / squares).sqrt() }
    }

    fn of(&self, value: f64) -> f64 {
        if value.is_finite() { self.relative * value.abs() + self.absolute } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Executor, Input, Scalar, Sizes};
    use super::*;
    use warplift::kernels::find;
    use warplift_ir::interp::{Arg, Memory, Options, Order, run};

    /// The interpreter as a machine; on request with one wrong element.
    struct Interpreter<'a> {
        kernel: &'a Kernel,
        spoil: Option<(usize, usize)>,
        order: Order,
    }

    impl Executor for Interpreter<'_> {
        fn name(&self) -> String {
            "interpreter".into()
        }

        fn execute(&self, inputs: &[Input<'_>]) -> Result<Vec<Vec<u8>>, ValidationError> {
            let mut memory = Memory::new();
            let mut ids = Vec::new();
            let args: Vec<Arg> = inputs
                .iter()
                .map(|i| match i {
                    Input::Buffer(b) => {
                        ids.push(memory.add("b", b.to_vec()));
                        Arg::Ptr(ids[ids.len() - 1], 0)
                    }
                    Input::Output(bytes) => {
                        ids.push(memory.add("b", vec![0xff; *bytes]));
                        Arg::Ptr(ids[ids.len() - 1], 0)
                    }
                    Input::Scalar(Scalar::Int(v)) => Arg::Int(*v),
                    Input::Scalar(Scalar::Float(v)) => Arg::Float(*v),
                })
                .collect();
            run(self.kernel, &args, &mut memory, &Options { order: self.order, ..Options::default() })?;
            let mut left: Vec<Vec<u8>> = ids.iter().map(|&i| memory.bytes(i).to_vec()).collect();
            if let Some((buffer, byte)) = self.spoil {
                left[buffer][byte] ^= 0x10;
            }
            Ok(left)
        }
    }

    const SMALL: &str = "gemm_chain 40x24x32x48;row_max 37x40;row_sum 20x44;axpy n=5000;gemm 40x24x32;\
        gemm_dual 40x24x32;gemm_two_outputs 40x24x32;gemm_bias_relu_residual 40x24x32";

    fn each(act: impl Fn(&Validation<'_>, &Kernel)) {
        for case in SMALL.split(';') {
            let (name, sizes) = case.split_once(' ').unwrap();
            let module = find(name).unwrap().parse().unwrap();
            let kernel = &module.kernels[0];
            let sizes = Sizes::parse(kernel, sizes).unwrap();
            act(&Validation::new(kernel, &Default::default(), sizes).unwrap(), kernel);
        }
    }

    #[test]
    fn right_results_pass_in_both_styles() {
        each(|validation, kernel| {
            for style in [Style::Normal, Style::Integers] {
                let verdict = validation
                    .check(&Interpreter { kernel, spoil: None, order: Order::Forward }, style, 1, None)
                    .unwrap();
                assert!(verdict.passed(), "{}: {verdict}", kernel.name);
                assert!(verdict.outputs.iter().all(|(_, c)| c.checked > 0), "{verdict}");
            }
        });
    }

    #[test]
    fn one_wrong_byte_is_found() {
        each(|validation, kernel| {
            let output = validation.operands.iter().rposition(|o| o.written).unwrap();
            let spoil = Some((output, validation.operands[output].bytes() as usize - 1));
            let verdict = validation
                .check(&Interpreter { kernel, spoil, order: Order::Forward }, Style::Integers, 1, None)
                .unwrap();
            assert!(!verdict.passed(), "{}: {verdict}", kernel.name);
        });
    }

    const SUM: &str = "kernel k(x: ptr<f32>, y: ptr<f32>, n: i32) { grid n
        gx = view x : f32[n] gy = view y : f32[1] i = block_index
        atomic_add gy[0], load gx[i] : f32[1] }";

    /// Another order of the blocks is no error, a missing addend among small integers is one.
    #[test]
    fn many_additions_to_one_element_may_come_in_any_order() {
        let kernel = &warplift_ir::tile::parse_file(SUM, "").unwrap().kernels[0];
        let sizes = Sizes::parse(kernel, "n=20000").unwrap();
        let validation = Validation::new(kernel, &Default::default(), sizes).unwrap();
        for (seed, order) in (0..12).map(|seed| (seed, Order::Shuffled(seed))) {
            let machine = Interpreter { kernel, spoil: None, order };
            let verdict = validation.check(&machine, Style::Normal, seed, None).unwrap();
            assert!(verdict.passed(), "{seed}: {verdict}");
        }
        let machine = Interpreter { kernel, spoil: Some((1, 2)), order: Order::Reverse };
        assert!(!validation.check(&machine, Style::Integers, 1, None).unwrap().passed());
    }

    #[test]
    fn the_bound_of_atomics_grows_with_their_number_and_size() {
        let bounds = Bounds::new(Elem::F32, (1.0, 0.0), &[1.0; 64], false);
        let of = |count, magnitude| bounds.of_additions(Additions { count, magnitude }, 0.0);
        assert_eq!(of(0, 0.0), 0.0);
        let unit = f64::exp2(-24.0);
        assert!((of(1000, 1000.0) - of(999, 1000.0) - 2.0 * unit * 1000.0).abs() < 1e-12);
        assert!((of(1000, 2000.0) / of(1000, 1000.0) - 2.0).abs() < 1e-12);
        assert_eq!(bounds.norm_with(0.0, &[1.0]), bounds.norm);
        assert!(bounds.norm_with(1e-8, &[1.0]) > 1e-4);
    }

    /// A sum that lies between two numbers of 8 bits may go either way, and no further.
    #[test]
    fn floats_of_8_bits_may_differ_by_a_step() {
        let bounds = Bounds::new(Elem::E4M3, (64.0, 0.0), &[112.0, 120.0, -0.5], false);
        assert!(bounds.of(112.0) >= 8.0 && bounds.of(112.0) < 24.0, "{}", bounds.of(112.0));
        assert!((0.03..0.05).contains(&bounds.norm), "{}", bounds.norm);
        let exact = Bounds::new(Elem::E4M3, (64.0, 0.0), &[112.0], true);
        assert_eq!((exact.of(112.0), exact.norm), (0.0, 0.0));
    }

    #[test]
    fn an_intermediate_loosens_a_bound_by_as_much_as_it_rounds() {
        let (row, half) = ([1.0; 64], f64::exp2(-11.0));
        let [plain, through] = [0.0, half].map(|inner| Bounds::new(Elem::F32, (64.0, inner), &row, false));
        assert!(plain.of(1.0) < half / 20.0 && plain.norm < half / 20.0);
        assert!((half..1.1 * half).contains(&through.of(1.0)), "{}", through.of(1.0) / half);
        assert!(through.norm < half / 10.0, "{}", through.norm / half);
    }

    /// Softmax of 65536 columns: most results are subnormal, where an approximate function that is off by an
    /// f32 ulp moves a result that lay between two by a step of 2^-24.
    #[test]
    fn subnormal_results_may_round_the_other_way() {
        let step = f64::exp2(-24.0);
        let row: Vec<f64> = (0..65536).map(|i| step * f64::from(1 + i % 511)).collect();
        let bounds = Bounds::new(Elem::F16, (65536.0, 0.0), &row, false);
        assert!((step..1.5 * step).contains(&bounds.of(step)), "{}", bounds.of(step) / step);
        assert!(bounds.of(200.0 * step) < 2.0 * step, "{}", bounds.of(200.0 * step) / step);
    }

    #[test]
    fn what_is_exact_is_known() {
        let gemm = find("gemm").unwrap();
        let sqrt = gemm.text.replace("cast(acc, f16)", "cast(sqrt(acc), f16)");
        let kernel = warplift_ir::tile::parse_file(&sqrt, "").unwrap().kernels.remove(0);
        assert!(!exact_on_integers(&kernel) && exact_on_integers(&gemm.parse().unwrap().kernels[0]));
    }
}
