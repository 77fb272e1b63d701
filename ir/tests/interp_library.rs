//! The kernel library in the interpreter, against plain loops on data whose sums are exact.

use std::path::Path;
use warplift_ir::interp::{Arg, BufferId, Memory, Options, Order, run};
use warplift_ir::tile::{Kernel, parse_file};
use warplift_ir::types::Elem;

fn kernel(name: &str) -> Kernel {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../driver/kernels");
    let text = std::fs::read_to_string(folder.join(format!("{name}.tile"))).unwrap();
    parse_file(&text, name).unwrap().kernels.remove(0)
}

/// Small integers, so that all sums are exact.
fn data(count: usize, seed: usize) -> Vec<f64> {
    (0..count).map(|i| ((i * 7 + seed * 13 + i / 11) % 7) as f64 - 3.0).collect()
}

struct Case {
    memory: Memory,
    args: Vec<Arg>,
}

impl Case {
    fn new() -> Self {
        Self { memory: Memory::new(), args: Vec::new() }
    }

    fn input(&mut self, elem: Elem, values: &[f64]) -> BufferId {
        let id = self.memory.add_values("buffer", elem, values);
        self.args.push(Arg::Ptr(id, 0));
        id
    }

    fn output(&mut self, elem: Elem, count: usize) -> BufferId {
        self.input(elem, &vec![-77.0; count])
    }

    fn sizes(&mut self, sizes: &[usize]) {
        self.args.extend(sizes.iter().map(|&s| Arg::Int(s as i64)));
    }

    fn run(&mut self, kernel: &str, tunables: &[(&str, i64)]) {
        let options = Options {
            tunables: tunables.iter().map(|(n, v)| ((*n).to_owned(), *v)).collect(),
            order: Order::Shuffled(1),
            ..Options::default()
        };
        let result = run(&self::kernel(kernel), &self.args, &mut self.memory, &options);
        assert_eq!(result, Ok(()), "{kernel}");
    }
}

/// `a` and `b` give the elements of [m, k] and [k, n].
fn product(
    (m, n, k): (usize, usize, usize),
    a: impl Fn(usize, usize) -> f64,
    b: impl Fn(usize, usize) -> f64,
) -> Vec<f64> {
    let sum = |i: usize, j: usize| (0..k).map(|l| a(i, l) * b(l, j)).sum();
    (0..m * n).map(|at| sum(at / n, at % n)).collect()
}

const SMALL: [(&str, i64); 3] = [("BM", 16), ("BN", 32), ("BK", 16)];

#[test]
fn products_in_all_storage_orders() {
    for (name, a_trans, b_trans, input, output) in [
        ("gemm", false, true, Elem::F16, Elem::F16),
        ("gemm_any", false, true, Elem::F16, Elem::F16),
        ("gemm_bf16", false, true, Elem::Bf16, Elem::Bf16),
        ("gemm_f32out", false, true, Elem::F16, Elem::F32),
        ("gemm_nn", false, false, Elem::F16, Elem::F16),
        ("gemm_tn", true, false, Elem::F16, Elem::F16),
        ("gemm_tt", true, true, Elem::F16, Elem::F16),
    ] {
        let (m, n, k) = (24, 40, 24);
        let (a, b) = (data(m * k, 1), data(k * n, 2));
        let mut case = Case::new();
        case.input(input, &a);
        case.input(input, &b);
        let c = case.output(output, m * n);
        case.sizes(&[m, n, k]);
        case.run(name, &SMALL);
        let at_a = |i, l| if a_trans { a[l * m + i] } else { a[i * k + l] };
        let at_b = |l, j| if b_trans { b[j * k + l] } else { b[l * n + j] };
        assert_eq!(case.memory.values(c, output), product((m, n, k), at_a, at_b), "{name}");
    }
}

#[test]
fn empty_and_tiny_sizes() {
    for (m, n, k) in [(1, 1, 1), (0, 4, 4), (3, 0, 2), (2, 3, 0)] {
        let (a, b) = (data(m * k, 1), data(n * k, 2));
        let mut case = Case::new();
        case.input(Elem::F16, &a);
        case.input(Elem::F16, &b);
        let c = case.output(Elem::F16, m * n);
        case.sizes(&[m, n, k]);
        case.run("gemm_any", &SMALL);
        let expected = product((m, n, k), |i, l| a[i * k + l], |l, j| b[j * k + l]);
        assert_eq!(case.memory.values(c, Elem::F16), expected, "{m} {n} {k}");
    }
}

#[test]
fn fused_products() {
    let (m, n, k) = (24, 40, 24);
    let (a, b, e, bias) = (data(m * k, 1), data(n * k, 2), data(n * k, 3), data(n, 4));
    let residual = data(m * n, 5);
    let ab = product((m, n, k), |i, l| a[i * k + l], |l, j| b[j * k + l]);
    let ae = product((m, n, k), |i, l| a[i * k + l], |l, j| e[j * k + l]);

    let mut case = Case::new();
    for v in [&a, &b, &bias, &residual] {
        case.input(Elem::F16, v);
    }
    let c = case.output(Elem::F16, m * n);
    case.sizes(&[m, n, k]);
    case.run("gemm_bias_relu_residual", &SMALL);
    let fused = |at: usize| (ab[at] + bias[at % n]).max(0.0) + residual[at];
    let expected: Vec<f64> = (0..m * n).map(fused).collect();
    assert_eq!(case.memory.values(c, Elem::F16), expected);

    let mut case = Case::new();
    for v in [&a, &b, &e] {
        case.input(Elem::F16, v);
    }
    let (c, d) = (case.output(Elem::F16, m * n), case.output(Elem::F16, m * n));
    case.sizes(&[m, n, k]);
    case.run("gemm_dual", &SMALL);
    assert_eq!(case.memory.values(c, Elem::F16), ab);
    assert_eq!(case.memory.values(d, Elem::F16), ae);

    let mut case = Case::new();
    case.input(Elem::F16, &a);
    case.input(Elem::F16, &b);
    let (c, d) = (case.output(Elem::F16, m * n), case.output(Elem::F32, m * n));
    case.sizes(&[m, n, k]);
    case.run("gemm_two_outputs", &SMALL);
    assert_eq!(case.memory.values(c, Elem::F16), ab);
    let relu: Vec<f64> = ab.iter().map(|v| v.max(0.0)).collect();
    assert_eq!(case.memory.values(d, Elem::F32), relu);
}

#[test]
fn chained_products() {
    let (m, n, k, p) = (24, 40, 16, 24);
    let (a, b, c) = (data(m * k, 1), data(n * k, 2), data(p * n, 3));
    let mut case = Case::new();
    for v in [&a, &b, &c] {
        case.input(Elem::F16, v);
    }
    let d = case.output(Elem::F16, m * p);
    case.sizes(&[m, n, k, p]);
    case.run("gemm_chain", &[("BM", 16), ("BP", 16), ("BK", 8)]);
    let ab = product((m, n, k), |i, l| a[i * k + l], |l, j| b[j * k + l]);
    let abc = product((m, p, n), |i, l| ab[i * n + l], |l, j| c[j * n + l]);
    let rounded: Vec<f64> = abc.iter().map(|&v| half::f16::from_f64(v).to_f64()).collect();
    assert_eq!(case.memory.values(d, Elem::F16), rounded);
}

#[test]
fn vectors_and_rows() {
    let (x, y) = (data(5000, 1), data(5000, 2));
    let mut case = Case::new();
    case.args.push(Arg::Float(0.5));
    case.input(Elem::F32, &x);
    let out = case.input(Elem::F32, &y);
    case.sizes(&[5000]);
    case.run("axpy", &[("B", 512)]);
    let expected: Vec<f64> = x.iter().zip(&y).map(|(x, y)| 0.5 * x + y).collect();
    assert_eq!(case.memory.values(out, Elem::F32), expected);

    let (m, n) = (21, 300);
    let x: Vec<f64> = data(m * n, 3).iter().map(|v| v - 9.0).collect();
    let rows = |fold: fn(f64, f64) -> f64, init: f64| -> Vec<f64> {
        x.chunks(n).map(|r| r.iter().copied().fold(init, fold)).collect()
    };
    for (name, expected) in
        [("row_max", rows(f64::max, f64::NEG_INFINITY)), ("row_sum", rows(|a, b| a + b, 0.0))]
    {
        let mut case = Case::new();
        case.input(Elem::F32, &x);
        let y = case.output(Elem::F32, m);
        case.sizes(&[m, n]);
        case.run(name, &[]);
        assert_eq!(case.memory.values(y, Elem::F32), expected, "{name}");
    }
}

#[test]
fn a_product_of_256_takes_less_than_a_second() {
    let size = 256;
    let (a, b) = (data(size * size, 1), data(size * size, 2));
    let mut case = Case::new();
    case.input(Elem::F16, &a);
    case.input(Elem::F16, &b);
    let c = case.output(Elem::F16, size * size);
    case.sizes(&[size, size, size]);
    let start = std::time::Instant::now();
    case.run("gemm", &[]);
    let took = start.elapsed();
    assert!(took.as_secs_f64() < 1.0, "{took:?}");
    let expected = product((size, size, size), |i, l| a[i * size + l], |l, j| b[j * size + l]);
    let rounded: Vec<f64> = expected.iter().map(|&v| half::f16::from_f64(v).to_f64()).collect();
    assert_eq!(case.memory.values(c, Elem::F16), rounded);
}
