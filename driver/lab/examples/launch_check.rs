//! Checks launching and measuring on a real GPU: `cargo run --release --example launch_check`.
//!
//! Each step prints what it found; the exit status is 1 if one failed. For developers who change
//! the launcher: everything that needs no GPU is covered by `cargo test`.

use std::process::ExitCode;
use std::sync::Arc;
use warplift::cuda::{Arg, Buffer, Device, Graph, Kernel, LaunchError, Stream};
use warplift::toolchain::{PtxasOptions, Toolchain};
use warplift_lab::bench::{
    Contender, CublasGemm, CublasLt, GemmProblem, KernelContender, Operands, Peak, Regime, Settings, Work,
    best_of, measure, product_on_device, rotations,
};
use warplift_lab::reference::{Array, Element, Matrix, Product, Tolerance, compare};

/// A step's name and what it does.
type Step = (&'static str, fn(&Device) -> Outcome);

/// What a step found, in words.
type Outcome = Result<String, Box<dyn std::error::Error>>;

const AXPY: [&str; 2] =
    [include_str!("../../src/cuda/testdata/axpy.ptx"), include_str!("../../src/cuda/testdata/axpy.json")];
const COPY: [&str; 2] =
    [include_str!("../../src/cuda/testdata/copy2d.ptx"), include_str!("../../src/cuda/testdata/copy2d.json")];

fn main() -> ExitCode {
    let device = match Device::open(0) {
        Ok(device) => device,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    println!("{:#?}", device.info());
    let steps: [Step; 8] = [
        ("axpy", axpy),
        ("copy by tensor maps", copy),
        ("refusals", refusals),
        ("faults", faults_are_reported),
        ("cublas products", products),
        ("product in f64", product_in_f64),
        ("bench of axpy", bench_axpy),
        ("bench of cublas", bench_cublas),
    ];
    let mut failed = false;
    for (name, step) in steps {
        match step(&device) {
            Ok(text) => println!("== {name}: ok\n{text}"),
            Err(error) => {
                failed = true;
                println!("== {name}: FAILED: {error}");
            }
        }
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn ensure(holds: bool, otherwise: impl std::fmt::Display) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise.to_string()) }
}

/// The kernel as a cubin where ptxas is to be had, else through the driver's compiler.
fn load(device: &Device, [ptx, manifest]: [&str; 2]) -> Result<Kernel, Box<dyn std::error::Error>> {
    let code = match Toolchain::find(None) {
        Ok(tools) => tools.ptxas(ptx, &PtxasOptions::default())?.cubin,
        Err(_) => ptx.as_bytes().to_vec(),
    };
    Ok(Kernel::load(device, &code, serde_json::from_str(manifest)?)?)
}

fn axpy(device: &Device) -> Outcome {
    let n = 1_000_003;
    let (x, y) = (Array::normal(Element::F32, n, 1), Array::normal(Element::F32, n, 2));
    let (dx, dy) = (Buffer::from_bytes(device, x.bytes())?, Buffer::from_bytes(device, y.bytes())?);
    let stream = Stream::new(device)?;
    let kernel = load(device, AXPY)?;
    kernel.launch(&[(&dx).into(), (&dy).into(), 0.5f32.into(), (n as i32).into()], &stream)?;
    kernel.launch(&[(&dx).into(), (&dy).into(), 0.5f32.into(), 0.into()], &stream)?;
    stream.synchronize()?;
    let found = Array::from_bytes(Element::F32, dy.to_vec()?).to_f64();
    let expected: Vec<f64> = x.to_f64().iter().zip(y.to_f64()).map(|(x, y)| 0.5 * x + y).collect();
    let report = compare(&found, &expected, Tolerance::rounding(Element::F32));
    ensure(report.passed(), &report)?;
    let by_driver = Kernel::load(device, AXPY[0].as_bytes(), serde_json::from_str(AXPY[1])?)?;
    let warning = by_driver.warning().ok_or("no warning for PTX")?;
    let function = kernel.function();
    Ok(format!("{report}\n{} registers; PTX: {warning}", function.registers()?))
}

fn copy(device: &Device) -> Outcome {
    let kernel = load(device, COPY)?;
    let stream = Stream::new(device)?;
    let mut lines = Vec::new();
    for (rows, cols) in [(64, 128), (100, 200), (1000, 1016), (1, 8), (0, 64)] {
        let from = Array::normal(Element::F16, rows * cols, 3);
        let (source, target) =
            (Buffer::from_bytes(device, from.bytes())?, Buffer::new(device, from.bytes().len() as u64)?);
        target.fill(0xff, &stream)?;
        let prepared = kernel.prepare(&[
            (&source).into(),
            (&target).into(),
            (rows as i32).into(),
            (cols as i32).into(),
        ])?;
        prepared.launch(&stream)?;
        let graph = Graph::capture(device, |s| (0..3).try_for_each(|_| prepared.launch(s)))?;
        graph.launch(&stream)?;
        stream.synchronize()?;
        ensure(target.to_vec()? == from.bytes(), format!("{rows} x {cols} differs"))?;
        lines.push(format!("{rows} x {cols}: grid {:?}, {} graph nodes", prepared.grid(), graph.nodes()));
    }
    Ok(lines.join("\n"))
}

fn refusals(device: &Device) -> Outcome {
    let kernel = load(device, COPY)?;
    let stream = Stream::new(device)?;
    let buffer = Buffer::new(device, 1 << 20)?;
    let p = Arg::from(&buffer);
    let off = Arg::Pointer { address: buffer.address() + 8, bytes: None };
    let mut lines = Vec::new();
    for args in [
        vec![p; 2],
        vec![p, p, 8.into(), 12.into()],
        vec![p, off, 8.into(), 8.into()],
        vec![p, p, 2000.into(), 1000.into()],
    ] {
        let error = kernel.launch(&args, &stream).err().ok_or("not refused")?;
        lines.push(error.to_string());
    }
    let mut manifest = kernel.manifest().clone();
    manifest.params.pop();
    let error = Kernel::load(device, COPY[0].as_bytes(), manifest).err().ok_or("accepted")?;
    ensure(matches!(error, LaunchError::Parameters(_)), &error)?;
    lines.push(error.to_string());
    let error = Kernel::load(device, b".version 8.0 nonsense", kernel.manifest().clone());
    lines.push(error.err().ok_or("accepted")?.to_string());
    Ok(lines.join("\n"))
}

/// Out of memory is an error with the driver's words, and does no harm.
fn faults_are_reported(device: &Device) -> Outcome {
    let error = Buffer::new(device, 1 << 45).err().ok_or("32 TiB were allocated")?;
    Ok(error.to_string())
}

fn operands(
    device: &Device,
    problem: &GemmProblem,
    a: &Array,
    b: &Array,
) -> Result<Operands, Box<dyn std::error::Error>> {
    let stream = Stream::new(device)?;
    let c = Buffer::new(device, problem.bytes()[2])?;
    c.fill(0xff, &stream)?;
    stream.synchronize()?;
    let (a, b) = (Buffer::from_bytes(device, a.bytes())?, Buffer::from_bytes(device, b.bytes())?);
    Ok(Operands { a: Arc::new(a), b: Arc::new(b), c: Arc::new(c) })
}

/// One product by cuBLAS; its factors and result.
fn product(
    device: &Device,
    library: &Arc<CublasLt>,
    problem: &GemmProblem,
    small: bool,
) -> Result<[Array; 3], Box<dyn std::error::Error>> {
    let (m, n, k) = (problem.m as usize, problem.n as usize, problem.k as usize);
    let draw = |len, seed| match small {
        true => Array::small_integers(problem.input, len, seed, 2),
        false => Array::normal(problem.input, len, seed),
    };
    let (a, b) = (draw(m * k, 5), draw(k * n, 6));
    let set = operands(device, problem, &a, &b)?;
    let stream = Stream::new(device)?;
    CublasGemm::new(library, problem, std::slice::from_ref(&set))?.enqueue(&stream, 0)?;
    stream.synchronize()?;
    let c = Array::from_bytes(problem.output, set.c.to_vec()?);
    Ok([a, b, c])
}

fn matrices<'a>(problem: &GemmProblem, a: &'a Array, b: &'a Array) -> Product<'a> {
    let (m, n, k) = (problem.m as usize, problem.n as usize, problem.k as usize);
    let see = |array, rows, cols, turned| match turned {
        true => Matrix::row_major(array, cols, rows).transposed(),
        false => Matrix::row_major(array, rows, cols),
    };
    Product { a: see(a, m, k, problem.a_transposed), b: see(b, k, n, problem.b_transposed) }
}

fn products(device: &Device) -> Outcome {
    let library = CublasLt::load(device, None)?;
    let mut lines = vec![library.version()];
    let sizes = [(512, 384, 256), (520, 392, 1032)];
    let transpositions = [(false, false), (false, true), (true, false), (true, true)];
    let types = [
        (Element::F16, Element::F16),
        (Element::Bf16, Element::Bf16),
        (Element::F16, Element::F32),
        (Element::Bf16, Element::F32),
    ];
    let mut checked = 0;
    for (m, n, k) in sizes {
        for (a_transposed, b_transposed) in transpositions {
            for (input, output) in types {
                let problem = GemmProblem { m, n, k, a_transposed, b_transposed, input, output };
                for small in [false, true] {
                    let [a, b, c] = product(device, &library, &problem, small)?;
                    let found = Matrix::row_major(&c, m as usize, n as usize);
                    let product = matrices(&problem, &a, &b);
                    let report = if small { product.check_exact(found, 0) } else { product.check(found, 0) };
                    ensure(report.passed(), format!("{problem}: {report}"))?;
                    checked += 1;
                }
            }
        }
    }
    lines.push(format!("{checked} small products correct"));
    for (m, n, k) in [(4096, 4096, 8192), (1024, 1024, 32768)] {
        for (input, output) in types {
            let problem = GemmProblem { m, n, k, a_transposed: false, b_transposed: true, input, output };
            let [a, b, c] = product(device, &library, &problem, false)?;
            let start = std::time::Instant::now();
            let found = Matrix::row_major(&c, m as usize, n as usize);
            let report = matrices(&problem, &a, &b).check(found, 1);
            let seconds = start.elapsed().as_secs_f64();
            lines.push(format!("{problem}: {report} ({seconds:.1} s)"));
            ensure(report.passed(), lines.join("\n"))?;
        }
    }
    Ok(lines.join("\n"))
}

fn product_in_f64(device: &Device) -> Outcome {
    let library = CublasLt::load(device, None)?;
    let problem = GemmProblem {
        m: 3072,
        n: 4096,
        k: 4096,
        a_transposed: false,
        b_transposed: true,
        input: Element::Bf16,
        output: Element::F32,
    };
    let [a, b, c] = product(device, &library, &problem, false)?;
    let start = std::time::Instant::now();
    let (sums, squares) = product_on_device(&library, device, &problem, &a, &b)?;
    let product = matrices(&problem, &a, &b);
    let own = product.element(3071, 17);
    let given = sums[3071 * 4096 + 17];
    ensure((own - given).abs() < 1e-9, format!("{own} and {given}"))?;
    let report = product.check_given(Matrix::row_major(&c, 3072, 4096), &sums, &squares);
    ensure(report.passed(), &report)?;
    Ok(format!("{report} ({:.1} s)", start.elapsed().as_secs_f64()))
}

fn bench_axpy(device: &Device) -> Outcome {
    let n: usize = 1 << 24;
    let bytes = 3.0 * 4.0 * n as f64;
    let kernel = load(device, AXPY)?;
    let x = Array::normal(Element::F32, n, 1);
    let mut buffers = Vec::new();
    let count = rotations(8 * n as u64, device.info().l2, device.memory()?.0);
    for _ in 0..count {
        buffers.push([Buffer::from_bytes(device, x.bytes())?, Buffer::from_bytes(device, x.bytes())?]);
    }
    let sets =
        buffers.iter().map(|[x, y]| kernel.prepare(&[x.into(), y.into(), 1e-3f32.into(), (n as i32).into()]));
    let contender = KernelContender::new("axpy", sets.collect::<Result<_, _>>()?);
    let work = Work {
        label: format!("axpy, n = {n}, f32"),
        flops: 2.0 * n as f64,
        bytes,
        peak: Peak::h200_dense(16),
    };
    let report = measure(device, &work, &[&contender], Regime::Burst, &Settings::default())?;
    Ok(format!("{} rotations\n{}", count, report.table()))
}

fn bench_cublas(device: &Device) -> Outcome {
    let library = CublasLt::load(device, None)?;
    let mut text = String::new();
    for (size, regimes) in [(2048, &[Regime::Burst][..]), (4096, &[Regime::Burst, Regime::Sustained])] {
        let problem = GemmProblem {
            m: size,
            n: size,
            k: size,
            a_transposed: false,
            b_transposed: true,
            input: Element::Bf16,
            output: Element::Bf16,
        };
        let len = (size * size) as usize;
        let (a, b) = (Array::normal(problem.input, len, 1), Array::normal(problem.input, len, 2));
        let set_bytes = problem.bytes().iter().sum();
        let count = rotations(set_bytes, device.info().l2, device.memory()?.0);
        let sets = (0..count).map(|_| operands(device, &problem, &a, &b)).collect::<Result<Vec<_>, _>>()?;
        let first = CublasGemm::new(&library, &problem, &sets)?;
        let same = CublasGemm::new(&library, &problem, &sets)?.named("cublas again");
        let (best, _) = best_of(&library, &problem, &sets)?;
        let work = Work {
            label: problem.to_string(),
            flops: problem.flops(),
            bytes: set_bytes as f64,
            peak: Peak::h200_dense(16),
        };
        for &regime in regimes {
            let contenders: [&dyn Contender; 3] = [&first, &same, &best];
            let report = measure(device, &work, &contenders, regime, &Settings::default())?;
            text += &format!("{count} rotations\n{}\n{}", report.table(), report.csv());
            ensure(report.json()?.contains("standings"), "no standings")?;
        }
    }
    Ok(text)
}
