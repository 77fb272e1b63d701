//! Ranges of values, and the distance that a machine's result may have from the interpreter's.
//!
//! This is abstract interpretation. A [`Range`] contains every value that the interpreter can compute. Its `error` is
//! the greatest distance of a machine's value. Correctly rounded operations on equal operands give equal results. The
//! error therefore stays 0 until an operation may differ: a function that the IR allows to be approximate, or a sum
//! with free order and inexact partial sums. A decision (comparison, conversion to integer) on values with an error has
//! an infinite error. The check reports such arrays.

use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use warplift_ir::tile::{AtomicOp, BinOp, Block, CmpOp, Inst, Kernel, MOST_INDEX, Op, ReduceOp, UnOp, Value};
use warplift_ir::types::Elem;

/// Magnitude of the integers that inputs hold.
pub(super) const DATA: f64 = 3.0;
/// Relative error granted to approximate functions: the worst documented is `tanh` with 2^-11.
const APPROXIMATE: f64 = 1.0 / 1024.0;
/// Relative error of a quotient of floats: 2 ulp in f32.
const QUOTIENT: f64 = 1.0 / 4_194_304.0;
/// Iterations of a loop that are interpreted one by one.
const MAX_TRIPS: u32 = 64;

/// The values of a scalar, or of a tile's elements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    /// Least value.
    pub low: f64,
    /// Greatest value.
    pub high: f64,
    /// Distance of the machine's values at most.
    pub error: f64,
    /// Whether all values are whole numbers.
    pub whole: bool,
}

impl Range {
    /// Whole numbers from `low` to `high`, exactly.
    pub fn whole(low: f64, high: f64) -> Self {
        Self { low, high, error: 0.0, whole: true }
    }

    fn constant(v: f64) -> Self {
        Self { low: v, high: v, error: 0.0, whole: v.fract() == 0.0 }
    }

    /// All values of a type, nothing known about the distance.
    fn unknown(elem: Elem) -> Self {
        let (low, high) = limits(elem);
        Self { low, high, error: f64::INFINITY, whole: !elem.is_float() }
    }

    /// The greatest magnitude.
    pub fn magnitude(&self) -> f64 {
        self.low.abs().max(self.high.abs())
    }

    pub(super) fn join(self, other: Self) -> Self {
        Self {
            low: self.low.min(other.low),
            high: self.high.max(other.high),
            error: self.error.max(other.error),
            whole: self.whole && other.whole,
        }
    }

    fn hull(values: &[f64], error: f64, whole: bool) -> Self {
        // An undefined corner (infinity less infinity) does not restrict the others.
        if values.iter().any(|v| v.is_nan()) {
            return Self { low: f64::NEG_INFINITY, high: f64::INFINITY, error, whole: false };
        }
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Self { low, high, error, whole }
    }
}

/// Least and greatest finite value, roughly.
fn limits(elem: Elem) -> (f64, f64) {
    let power = |n: u8| 2f64.powi(n.into());
    match elem {
        Elem::Bool => (0.0, 1.0),
        Elem::Uint(b) => (0.0, power(b) - 1.0),
        Elem::Int(b) => (-power(b - 1), power(b - 1) - 1.0),
        Elem::F16 => (-65504.0, 65504.0),
        Elem::F64 => (f64::MIN, f64::MAX),
        Elem::Mini { exponent, .. } => {
            let most = 2f64.powi((1 << exponent) / 2);
            (-most, most)
        }
        _ => (f64::from(f32::MIN), f64::from(f32::MAX)),
    }
}

/// Bits of a float's significand; integers are exact in theirs.
fn precision(elem: Elem) -> i32 {
    match elem {
        Elem::F32 => 24,
        Elem::Tf32 | Elem::F16 => 11,
        Elem::Bf16 => 8,
        Elem::Mini { mantissa, .. } => i32::from(mantissa) + 1,
        _ => 53,
    }
}

/// The range in its type: integers wrap, floats round (an error grows by it) or overflow.
fn in_type(elem: Elem, r: Range) -> Range {
    let (low, high) = limits(elem);
    let fits = low <= r.low && r.high <= high;
    if !elem.is_float() {
        let error = if r.error > 0.0 { f64::INFINITY } else { 0.0 };
        return if fits {
            Range { error, whole: true, ..r }
        } else {
            Range { low, high, error, whole: true }
        };
    }
    let rounding = if r.error > 0.0 { r.magnitude() * 2f64.powi(1 - precision(elem)) } else { 0.0 };
    let error = r.error + rounding;
    match fits {
        true => Range { error, ..r },
        false if error > 0.0 => Range { error: f64::INFINITY, ..r },
        false => Range { low: f64::NEG_INFINITY, high: f64::INFINITY, error, whole: false },
    }
}

/// Operands of [`transfer`].
pub(super) struct Operands<'a> {
    pub op: &'a Op,
    /// Element type of the result.
    pub elem: Elem,
    /// Element type of the last operand.
    pub from: Elem,
    pub args: &'a [Range],
    /// Terms of a sum: the extent of a reduction, the depth of a product.
    pub terms: u32,
}

/// The range of an operation's result.
pub(super) fn transfer(o: &Operands<'_>) -> Range {
    let Operands { op, elem, from, args, terms } = *o;
    let any = Range::unknown(elem);
    let arg = |n: usize| args.get(n).copied().unwrap_or(any);
    let result = match op {
        Op::Int(v) => Range::constant(*v as f64),
        Op::Float(v) => Range::constant(*v),
        Op::Unary(u) => unary(*u, elem, arg(0)),
        Op::Binary(b) => binary(*b, elem, arg(0), arg(1)),
        Op::Compare(_) => decided(&[arg(0), arg(1)], Range::whole(0.0, 1.0)),
        Op::Select => decided(&[arg(0)], arg(1).join(arg(2))),
        Op::Cast => cast(from, elem, arg(0)),
        Op::ToIndex => cast(Elem::Int(64), Elem::I32, arg(0)),
        Op::Mma { negated } => {
            let left = if *negated { unary(UnOp::Neg, Elem::F64, arg(1)) } else { arg(1) };
            let product = binary(BinOp::Mul, Elem::F64, left, arg(2));
            let all = sum(product, terms, elem);
            sum_of_two(all, arg(0), elem)
        }
        Op::Reduce(r, _) | Op::Scan(r, _) => reduce(*r, arg(0), terms, elem),
        Op::Join => arg(0).join(arg(1)),
        Op::Assume(_)
        | Op::Full
        | Op::Broadcast
        | Op::Reshape
        | Op::Trans(_)
        | Op::Split
        | Op::Slice(_)
        | Op::Rearrange
        | Op::ExpandDims(_)
        | Op::Gather(_) => arg(0),
        // Each element is one thread's own: what it finds follows from what it is given.
        Op::AtomicScatter { .. } => decided(args, Range { error: 0.0, ..any }),
        // Bits of another type: equal where the operand's are.
        Op::ViewAs(_) => Range { error: 0.0, ..decided(&[arg(0)], any) },
        _ => any,
    };
    in_type(elem, result)
}

/// A result that other values choose. It has no error only if they have none.
fn decided(by: &[Range], result: Range) -> Range {
    match by.iter().all(|r| r.error == 0.0) {
        true => result,
        false => Range { error: f64::INFINITY, ..result },
    }
}

fn cast(from: Elem, to: Elem, x: Range) -> Range {
    if to.is_float() || !from.is_float() {
        return x;
    }
    let (low, high) = limits(to);
    let clamp = |v: f64| v.trunc().clamp(low, high);
    decided(&[x], Range::whole(clamp(x.low).min(0.0), clamp(x.high).max(0.0)))
}

fn unary(op: UnOp, elem: Elem, x: Range) -> Range {
    let ends = |f: fn(f64) -> f64, slope: f64| {
        let r = Range::hull(&[f(x.low), f(x.high)], x.error * slope, false);
        Range { error: r.error + r.magnitude() * APPROXIMATE, ..r }
    };
    let steepest = |at: f64| if at > 0.0 { at } else { f64::INFINITY };
    match op {
        UnOp::Neg => Range { low: -x.high, high: -x.low, ..x },
        UnOp::Abs => Range { low: x.low.max(-x.high).max(0.0), high: x.magnitude(), ..x },
        UnOp::Likely | UnOp::Unlikely => x,
        UnOp::Not if elem == Elem::Bool => decided(&[x], Range::whole(0.0, 1.0)),
        UnOp::Not => decided(&[x], Range { error: 0.0, ..Range::unknown(elem) }),
        // Rounded correctly.
        UnOp::Sqrt if x.error == 0.0 => {
            Range::hull(&[x.low.max(0.0).sqrt(), x.high.max(0.0).sqrt()], 0.0, false)
        }
        UnOp::Sqrt => ends(f64::sqrt, 0.5 / steepest(x.low).sqrt()),
        UnOp::Exp => ends(f64::exp, (x.high + x.error).exp()),
        UnOp::Exp2 => ends(f64::exp2, (x.high + x.error).exp2()),
        UnOp::Log => Range {
            error: ends(f64::ln, 0.0).error + x.error / steepest(x.low - x.error),
            ..ends(f64::ln, 0.0)
        },
        UnOp::Log2 => {
            let r = ends(f64::log2, 0.0);
            Range { error: r.error + 1.5 * x.error / steepest(x.low - x.error), ..r }
        }
        UnOp::Rsqrt => ends(|v| 1.0 / v.sqrt(), 0.5 / steepest(x.low - x.error).powf(1.5)),
        UnOp::Rcp => ends(|v| 1.0 / v, steepest(x.low - x.error).powi(-2)),
        // Far from zero the hardware's argument reduction is not the IR's.
        UnOp::Sin | UnOp::Cos if x.magnitude() > 4.0 => {
            Range { error: f64::INFINITY, ..Range::whole(-1.0, 1.0) }
        }
        UnOp::Erf => Range {
            low: -1.0,
            high: 1.0,
            error: x.error * std::f64::consts::FRAC_2_SQRT_PI + APPROXIMATE,
            whole: false,
        },
        UnOp::Sin | UnOp::Cos | UnOp::Tanh => {
            Range { low: -1.0, high: 1.0, error: x.error + APPROXIMATE, whole: false }
        }
    }
}

fn binary(op: BinOp, elem: Elem, x: Range, y: Range) -> Range {
    let error = match op {
        BinOp::Add | BinOp::Sub => x.error + y.error,
        BinOp::Min | BinOp::Max => x.error.max(y.error),
        // A product that is only added to is not rounded.
        BinOp::Mul if elem == Elem::F32 && !(x.whole && y.whole) => {
            let (x_most, y_most) = (x.magnitude() + x.error, y.magnitude() + y.error);
            x.error * y_most + y.error * x.magnitude() + x_most * y_most * f64::from(f32::EPSILON)
        }
        _ if x.error == 0.0 && y.error == 0.0 => 0.0,
        BinOp::Mul => x.error * (y.magnitude() + y.error) + y.error * x.magnitude(),
        _ => f64::INFINITY,
    };
    let whole = x.whole && y.whole;
    let corners =
        |f: fn(f64, f64) -> f64| [f(x.low, y.low), f(x.low, y.high), f(x.high, y.low), f(x.high, y.high)];
    match op {
        BinOp::Add => Range::hull(&[x.low + y.low, x.high + y.high], error, whole),
        BinOp::Sub => Range::hull(&[x.low - y.high, x.high - y.low], error, whole),
        BinOp::Mul => {
            Range::hull(&corners(|a, b| if a == 0.0 || b == 0.0 { 0.0 } else { a * b }), error, whole)
        }
        BinOp::Min => Range::hull(&[x.low.min(y.low), x.high.min(y.high)], error, whole),
        BinOp::Max => Range::hull(&[x.low.max(y.low), x.high.max(y.high)], error, whole),
        BinOp::Div | BinOp::CeilDiv if !elem.is_float() && y.low > 0.0 => {
            let up = if op == BinOp::CeilDiv { 1.0 } else { 0.0 };
            let r = Range::hull(&corners(|a, b| a / b), error, true);
            Range { low: r.low.trunc(), high: r.high.trunc() + up, ..r }
        }
        BinOp::Div if elem.is_float() && (y.low > 0.0 || y.high < 0.0) => {
            let r = Range::hull(&corners(|a, b| a / b), error, false);
            Range { error: error + r.magnitude() * QUOTIENT, ..r }
        }
        BinOp::Div if elem.is_float() => {
            Range { low: f64::NEG_INFINITY, high: f64::INFINITY, error: f64::INFINITY, whole: false }
        }
        BinOp::MulHi if x.low >= 0.0 && y.low >= 0.0 => {
            let most = (x.high * y.high / 2f64.powi(elem.bits() as i32)).ceil();
            Range { error, ..Range::whole(0.0, most) }
        }
        BinOp::Rem => Range { error, ..Range::whole(-x.magnitude(), x.magnitude()) },
        BinOp::Shr if y.low >= 0.0 => Range { error, ..Range::whole(x.low.min(0.0), x.high.max(0.0)) },
        BinOp::And | BinOp::Or | BinOp::Xor if elem == Elem::Bool => {
            Range { error, ..Range::whole(0.0, 1.0) }
        }
        BinOp::And if x.low >= 0.0 && y.low >= 0.0 => {
            Range { error, ..Range::whole(0.0, x.high.min(y.high)) }
        }
        _ => Range { error, ..Range::unknown(elem) },
    }
}

/// A sum of so many terms in any order, partial sums in a type.
fn sum(x: Range, terms: u32, elem: Elem) -> Range {
    let n = f64::from(terms);
    let most = n * x.magnitude();
    let exact = !elem.is_float() || (x.whole && most <= 2f64.powi(precision(elem)));
    let rounding = if exact { 0.0 } else { n * most * 2f64.powi(1 - precision(elem)) };
    Range {
        low: n * x.low.min(0.0),
        high: n * x.high.max(0.0),
        error: n * x.error + rounding,
        whole: x.whole,
    }
}

/// The last step of a sum, whose place among the others is free.
fn sum_of_two(x: Range, y: Range, elem: Elem) -> Range {
    let two = sum(x.join(y), 2, elem);
    let r = binary(BinOp::Add, elem, x, y);
    Range { error: r.error.max(two.error), ..r }
}

fn reduce(op: ReduceOp, x: Range, terms: u32, elem: Elem) -> Range {
    match op {
        ReduceOp::Sum => sum(x, terms, elem),
        ReduceOp::Min | ReduceOp::Max => x,
        ReduceOp::Prod => {
            let most = x.magnitude().max(1.0).powf(f64::from(terms));
            let exact = !elem.is_float() || (x.error == 0.0 && x.whole && most <= 2f64.powi(precision(elem)));
            Range { low: -most, high: most, error: if exact { 0.0 } else { f64::INFINITY }, whole: x.whole }
        }
        _ => decided(&[x], Range { error: 0.0, ..Range::unknown(elem) }),
    }
}

/// The ranges of all values of a kernel without tunables, for inputs that hold whole numbers of magnitude 3
/// and fills. Values in loops: over all iterations.
pub fn ranges(kernel: &Kernel, sizes: &BTreeMap<String, i64>) -> FxHashMap<Value, Range> {
    let mut all = Ranges { kernel, known: FxHashMap::default(), arrays: FxHashMap::default() };
    for p in &kernel.params {
        let range = match sizes.get(&p.name) {
            Some(&v) => Range::constant(v as f64),
            None => Range::whole(-DATA, DATA),
        };
        all.known.insert(p.value, range);
    }
    all.block(kernel.entry);
    all.known
}

struct Ranges<'k> {
    kernel: &'k Kernel,
    known: FxHashMap<Value, Range>,
    /// What arrays in shared memory hold.
    arrays: FxHashMap<Value, Range>,
}

impl Ranges<'_> {
    fn get(&self, v: Value) -> Range {
        let unknown = || Range::unknown(self.kernel.ty(v).elem());
        self.known.get(&v).copied().unwrap_or_else(unknown)
    }

    fn block(&mut self, block: Block) {
        for &inst in &self.kernel.blocks[block].insts {
            self.inst(inst);
        }
    }

    fn inst(&mut self, inst: Inst) {
        let k = self.kernel;
        let args: Vec<Range> = k.args(inst).iter().map(|&a| self.get(a)).collect();
        match &k.insts[inst].op {
            Op::For => self.looped(inst, &args, 3),
            Op::While => self.looped(inst, &args, 0),
            Op::If => self.branches(inst),
            op => {
                self.stored(inst, op);
                for &result in k.results(inst) {
                    let range = match op {
                        Op::Load | Op::AsyncCopy | Op::LoadGather { .. } | Op::LoadRuns(_) => {
                            self.loaded(inst)
                        }
                        Op::BlockIndex(_) | Op::ProgramId => Range::whole(0.0, 1024.0),
                        Op::GridDim(_) | Op::ProgramCount => Range::whole(1.0, 1024.0),
                        Op::Unbounded => Range::constant(MOST_INDEX as f64),
                        Op::Dim(d) => Range::constant(d.constant().unwrap_or(1).into()),
                        Op::Iota(d) => Range::whole(0.0, f64::from(extent(k, result, (*d).into()) - 1)),
                        op => {
                            let (elem, last) = (k.ty(result).elem(), k.args(inst).last());
                            let from = last.map_or(elem, |&a| k.ty(a).elem());
                            transfer(&Operands { op, elem, from, args: &args, terms: terms(k, inst) })
                        }
                    };
                    self.known.insert(result, range);
                }
            }
        }
    }

    /// The array in shared memory that an access reaches, if it does.
    fn array(&self, inst: Inst) -> Option<Value> {
        let view = self.kernel.whole_view(*self.kernel.args(inst).first()?);
        self.kernel.def(view).filter(|&d| matches!(self.kernel.insts[d].op, Op::Shared { .. })).map(|_| view)
    }

    /// What a write leaves in an array. A sum may be anything.
    fn stored(&mut self, inst: Inst, op: &Op) {
        let args = self.kernel.args(inst);
        let Some(n) = op.written_operand(args.len()) else { return };
        let Some(array) = self.array(inst) else { return };
        let written = match op.atomic() {
            None | Some(AtomicOp::Min | AtomicOp::Max) => self.get(args[n]),
            Some(_) => Range::unknown(self.kernel.ty(args[n]).elem()),
        };
        self.arrays.entry(array).and_modify(|r| *r = r.join(written)).or_insert(written);
    }

    fn loaded(&self, inst: Inst) -> Range {
        let k = self.kernel;
        if let Some(held) = self.array(inst) {
            return self.arrays.get(&held).copied().unwrap_or_else(|| self.get(k.result(inst)));
        }
        let view = k.args(inst).first().and_then(|&v| k.def(v));
        let fill = match view.map(|v| &k.insts[v].op) {
            Some(Op::View { fill, .. }) => *fill,
            _ => 0.0,
        };
        let elem = k.ty(k.result(inst)).elem();
        in_type(elem, Range::whole(-DATA, DATA).join(Range::constant(fill)))
    }

    /// The most iterations of a `while` that stops, at the latest, where a carried number that grows by a constant meets an
    /// end.
    fn trips_of_while(&self, inst: Inst, args: &[Range]) -> Option<u32> {
        let k = self.kernel;
        let body = k.insts[inst].blocks[0];
        let (&condition, next) = k.yields(body).split_first()?;
        let mut all = vec![condition];
        let ends = |op: &Op, x: Value, end: Value| {
            let at = next.iter().position(|&v| v == x).filter(|_| *op == Op::Compare(CmpOp::Lt))?;
            let grows = k.def(x).filter(|&d| k.insts[d].op == Op::Binary(BinOp::Add))?;
            let (param, step) = (k.args(grows)[0], k.int_const(k.args(grows)[1])?);
            let carried = param == k.blocks[body].params[at] && step > 0;
            let left = (self.get(end).high - args[at].low).max(0.0) / step as f64;
            carried.then(|| left.ceil().clamp(1.0, f64::from(MAX_TRIPS + 1)) as u32)
        };
        while let Some(c) = all.pop() {
            let Some(def) = k.def(c) else { continue };
            match (&k.insts[def].op, k.args(def)) {
                (Op::Binary(BinOp::And), both) => all.extend(both),
                (op, &[x, end]) => {
                    if let Some(trips) = ends(op, x, end) {
                        return Some(trips);
                    }
                }
                _ => {}
            }
        }
        None
    }

    /// A loop: its body over and over, as often as it can run.
    fn looped(&mut self, inst: Inst, args: &[Range], first: usize) {
        let k = self.kernel;
        let body = k.insts[inst].blocks[0];
        let params = &k.blocks[body].params;
        let counter = usize::from(first > 0);
        let mut trips = MAX_TRIPS + 1;
        if let [low, high, step, ..] = args[..]
            && counter == 1
        {
            self.known.insert(params[0], Range::whole(low.low, high.high.max(low.low)));
            let most = (high.high - low.low).max(0.0) / step.low.max(1.0);
            trips = most.ceil().min(f64::from(MAX_TRIPS + 1)) as u32;
        }
        if counter == 0 {
            trips = self.trips_of_while(inst, args).unwrap_or(trips);
        }
        let mut carried: Vec<Range> = args[first..].to_vec();
        // Beyond the limit, nothing is known about values that still grow.
        for trip in 0..trips {
            for (&p, &r) in params[counter..].iter().zip(&carried) {
                self.known.insert(p, r);
            }
            self.block(body);
            let skipped = 1 - counter;
            let yields = k.yields(body).iter().skip(skipped);
            let next: Vec<Range> = yields.zip(&carried).map(|(&y, &c)| c.join(self.get(y))).collect();
            if next == carried {
                break;
            }
            carried = match trip == MAX_TRIPS {
                true => k.results(inst).iter().map(|&r| Range::unknown(k.ty(r).elem())).collect(),
                false => next,
            };
        }
        self.known.extend(k.results(inst).iter().copied().zip(carried));
    }

    fn branches(&mut self, inst: Inst) {
        let k = self.kernel;
        for &b in &k.insts[inst].blocks {
            self.block(b);
        }
        for (i, &result) in k.results(inst).iter().enumerate() {
            let each = k.insts[inst].blocks.iter().map(|&b| self.get(k.yields(b)[i]));
            let range = each.reduce(Range::join).unwrap_or_else(|| self.get(result));
            self.known.insert(result, range);
        }
    }
}

fn extent(k: &Kernel, v: Value, dim: usize) -> u32 {
    k.ty(v).shape().and_then(|s| s.extents()?.get(dim).copied()).unwrap_or(1)
}

/// Terms of an instruction's sums.
fn terms(k: &Kernel, inst: Inst) -> u32 {
    match k.insts[inst].op {
        Op::Reduce(_, d) | Op::Scan(_, d) => extent(k, k.args(inst)[0], d.into()),
        Op::Mma { .. } => extent(k, k.args(inst)[1], 1),
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warplift_ir::tile::parse_file;

    fn stored(body: &str) -> Range {
        let text = format!(
            "kernel k(x: ptr<f32>, n: i32) {{ grid 1 g = view x : f32[n] t = load g[0] : f32[64] {body} }}"
        );
        let kernel = parse_file(&text, "").unwrap().kernels.remove(0);
        let all = ranges(&kernel, &[("n".to_owned(), 40)].into());
        let mut last = None;
        kernel.walk(|_, i| {
            if matches!(kernel.insts[i].op, Op::Store) {
                last = kernel.args(i).last().copied();
            }
        });
        all[&last.unwrap()]
    }

    #[test]
    fn whole_numbers_stay_exact() {
        let r = stored("s = for i in 0..n carry a = t { yield a + t } store g[0], s * 2.0");
        assert_eq!((r.low, r.high, r.error, r.whole), (-246.0, 246.0, 0.0, true));
        let c = stored("store g[0], cast(cast(t * 100.0, i8), f32)");
        assert_eq!((c.low, c.high, c.error), (-128.0, 127.0, 0.0));
    }

    #[test]
    fn what_may_differ_has_an_error() {
        let e = stored("store g[0], exp(t)");
        assert!(e.error > 0.0 && e.error < 0.1 && e.high > 20.0, "{e:?}");
        let quotient = stored("store g[0], t / 3.0");
        assert!(quotient.error > 0.0 && quotient.error < 1e-5, "{quotient:?}");
        let decided = stored("store g[0], select(exp(t) > 1.0, t, 0.0)");
        assert_eq!(decided.error, f64::INFINITY);
        let endless = stored("s = for i in 0..n * 8 carry a = t { yield a + exp(t) } store g[0], s");
        assert_eq!(endless.error, f64::INFINITY);
    }
}
