//! `wgmma` in every operand layout, type and width, on integers small enough that every sum is exact.
//!
//! The host builds the image of shared memory from the canonical layouts of the PTX ISA ("Shared
//! memory matrix layout"), a bulk copy brings it in, one warpgroup multiplies along K in one or more
//! steps and stores its raw accumulators.

use super::case::{Case, Kernel};
use super::product::{BF16, E4M3, E5M2, Element, F16, S8, TF32, U8, accumulator, fragment};

/// How an operand lies in shared memory.
#[derive(Clone, Copy, Debug)]
struct Layout {
    /// Swizzle span in bytes, 0 for none.
    span: usize,
    /// Contiguous along M or N instead of K.
    transposed: bool,
}

/// An operand in shared memory: its layout and size.
#[derive(Clone, Copy, Debug)]
struct Shared {
    layout: Layout,
    bytes: usize,
    /// Extent in M or N.
    rows: usize,
    /// Extent in K.
    k: usize,
}

impl Shared {
    /// Extents along which elements are contiguous, and the other.
    fn extents(&self) -> (usize, usize) {
        if self.layout.transposed { (self.rows, self.k) } else { (self.k, self.rows) }
    }

    /// Byte offset of an element. Written with core matrices (8 lines of 16 bytes) and atoms (8 lines
    /// of the span).
    fn place(&self, row: usize, column: usize) -> usize {
        let (major, minor) = if self.layout.transposed { (row, column) } else { (column, row) };
        let (along, span) = (major * self.bytes, self.layout.span);
        if span == 0 {
            let per_line = self.extents().0 * self.bytes / 16;
            return (minor / 8 * per_line + along / 16) * 128 + minor % 8 * 16 + along % 16;
        }
        let (line, chunk) = (minor % 8, along % span / 16);
        // Every 128 bytes of address advance the pattern by one.
        let turn = (line * span / 128) % (span / 16);
        along / span * self.column() + minor / 8 * 8 * span + line * span + (chunk ^ turn) * 16 + along % 16
    }

    /// Bytes of a column of atoms.
    fn column(&self) -> usize {
        self.extents().1 / 8 * 8 * self.layout.span
    }

    /// Leading and stride offsets of the descriptor.
    fn offsets(&self) -> (usize, usize) {
        let step = self.extents().0 * self.bytes / 16 * 128;
        match (self.layout.span, self.layout.transposed) {
            (0, true) => (step, 128),
            (0, false) => (128, step),
            (span, _) => (self.column(), 8 * span),
        }
    }

    /// Descriptor of the part that begins at a column of K, the operand standing at `start`.
    fn descriptor(&self, start: usize, column: usize) -> u64 {
        let mode = match self.layout.span {
            128 => 1u64,
            64 => 2,
            32 => 3,
            _ => 0,
        };
        let (leading, stride) = self.offsets();
        let field = |v: usize| ((v & 0x3ffff) >> 4) as u64;
        field(start + self.place(0, column)) | field(leading) << 16 | field(stride) << 32 | mode << 62
    }
}

/// One litmus.
#[derive(Clone, Copy, Debug)]
struct Product {
    a: Element,
    b: Element,
    acc: &'static str,
    n: usize,
    /// `None`: A in registers.
    layout_a: Option<Layout>,
    layout_b: Layout,
    negate: (bool, bool),
    scale_d: bool,
    /// Instructions along K.
    steps: usize,
}

/// Where shared memory begins for a block, and the operands within the image.
const START: usize = 0x400;
const B: usize = 32768;
const IMAGE: usize = 65536;
/// What accumulators hold before.
const OLD: i32 = 10;

impl Product {
    /// K of one instruction.
    fn step(&self) -> usize {
        32 / self.a.bytes
    }

    fn k(&self) -> usize {
        self.step() * self.steps
    }

    fn shared_a(&self) -> Option<Shared> {
        Some(Shared { layout: self.layout_a?, bytes: self.a.bytes, rows: 64, k: self.k() })
    }

    fn shared_b(&self) -> Shared {
        Shared { layout: self.layout_b, bytes: self.b.bytes, rows: self.n, k: self.k() }
    }

    fn value_a(&self, row: usize, at: usize) -> i32 {
        self.a.value(row * self.k() + at)
    }

    fn value_b(&self, column: usize, at: usize) -> i32 {
        self.b.value(column * self.k() + at + 11)
    }

    /// Accumulator registers of a thread.
    fn registers(&self) -> usize {
        if self.acc == "f16" { self.n / 4 } else { self.n / 2 }
    }

    /// Shared memory, then A by thread, step and register.
    fn input(&self) -> Vec<u8> {
        let mut image = vec![0xee; IMAGE];
        let mut put = |at: usize, bytes: Vec<u8>| image[at..at + bytes.len()].copy_from_slice(&bytes);
        let indices = |rows: usize| (0..rows).flat_map(|r| (0..self.k()).map(move |c| (r, c)));
        if let Some(a) = self.shared_a() {
            indices(64).for_each(|(r, c)| put(a.place(r, c), self.a.bytes_of(self.value_a(r, c))));
        }
        let b = self.shared_b();
        indices(self.n).for_each(|(r, c)| put(B + b.place(r, c), self.b.bytes_of(self.value_b(r, c))));
        let per = self.a.per_register();
        for (thread, step, register) in
            (0..128).flat_map(|t| (0..self.steps).flat_map(move |s| (0..4).map(move |r| (t, s, r))))
        {
            let (row, at) = fragment(thread % 32, register, per);
            for p in 0..per {
                let v = self.value_a(16 * (thread / 32) + row, step * self.step() + at + p);
                image.extend(self.a.bytes_of(v));
            }
        }
        image
    }

    fn expected(&self) -> Vec<u8> {
        let mut out = vec![0; 128 * self.registers() * 4];
        let sign = if self.negate.0 ^ self.negate.1 { -1 } else { 1 };
        for (row, column) in (0..64).flat_map(|r| (0..self.n).map(move |c| (r, c))) {
            let dot: i32 = (0..self.k()).map(|i| self.value_a(row, i) * self.value_b(column, i)).sum();
            let bytes = accumulator(self.acc, sign * dot + if self.scale_d { OLD } else { 0 });
            let thread = row / 16 * 32 + row % 8 * 4 + column % 8 / 2;
            let element = column / 8 * 4 + row % 16 / 8 * 2 + column % 2;
            let at = thread * self.registers() * 4 + element * bytes.len();
            out[at..at + bytes.len()].copy_from_slice(&bytes);
        }
        out
    }

    /// One instruction.
    fn instruction(&self, list: &str, step: usize) -> String {
        let column = step * self.step();
        let b = self.shared_b().descriptor(START + B, column);
        let mut text = format!("mov.b64 %rd5, 0x{b:x};\n");
        let first = match self.shared_a() {
            Some(a) => {
                text += &format!("mov.b64 %rd4, 0x{:x};\n", a.descriptor(START, column));
                "%rd4".to_owned()
            }
            None => {
                let r = 10 + 4 * step;
                format!("{{%r{r}, %r{}, %r{}, %r{}}}", r + 1, r + 2, r + 3)
            }
        };
        let scale = |negative: bool| if negative { -1 } else { 1 };
        let mut tail = if step == 0 { "%p2" } else { "%p3" }.to_owned();
        if self.acc != "s32" {
            tail += &format!(", {}, {}", scale(self.negate.0), scale(self.negate.1));
        }
        if self.a.bytes == 2 {
            let transposed = self.layout_a.into_iter().chain([self.layout_b]).map(|l| u8::from(l.transposed));
            tail += &transposed.map(|t| format!(", {t}")).collect::<String>();
        }
        let (n, k, types) = (self.n, self.step(), format!("{}.{}.{}", self.acc, self.a.name, self.b.name));
        text + &format!(
            "wgmma.mma_async.sync.aligned.m64n{n}k{k}.{types} {{{list}}}, {first}, %rd5, {tail};\n"
        )
    }

    fn body(&self) -> String {
        let registers = self.registers();
        let names: Vec<String> = (0..registers).map(|i| format!("%x{i}")).collect();
        let old = u32::from_le_bytes(match accumulator(self.acc, OLD)[..] {
            [a, b] => [a, b, a, b],
            [a, b, c, d] => [a, b, c, d],
            _ => [0; 4],
        });
        let load = |i: usize| format!("ld.global.b32 %r{}, [%rd6+{}];\n", 10 + i, IMAGE + 4 * i);
        let loads: String = (0..4 * self.steps).map(load).collect();
        let start: String = names.iter().map(|n| format!("mov.b32 {n}, {old};\n")).collect();
        let products: String = (0..self.steps).map(|s| self.instruction(&names.join(", "), s)).collect();
        let store = |(i, n): (usize, &String)| format!("st.global.b32 [%rd7+{}], {n};\n", 4 * i);
        format!(
            "add.u32 %r3, %r1, {IMAGE};\nsetp.ne.u32 %p1, %r2, 0;\n@%p1 bra READY;\n\
             mbarrier.init.shared::cta.b64 [%r3], 1;\nfence.mbarrier_init.release.cluster;\n\
             mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], {IMAGE};\n\
             cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], {IMAGE}, [%r3];\n\
             READY:\nbar.sync 0;\nWAIT:\nmbarrier.try_wait.parity.shared::cta.b64 %p3, [%r3], 0;\n@!%p3 bra WAIT;\n\
             mad.wide.u32 %rd6, %r2, {}, %rd1;\n{loads}{start}setp.eq.u32 %p2, 1, {};\nsetp.eq.u32 %p3, 1, 1;\n\
             wgmma.fence.sync.aligned;\n{products}wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n\
             mad.wide.u32 %rd7, %r2, {}, %rd2;\n{}",
            16 * self.steps,
            u8::from(self.scale_d),
            4 * registers,
            names.iter().enumerate().map(store).collect::<String>(),
        )
    }

    fn name(&self) -> String {
        let side = |l: Layout| format!("{}{}", if l.transposed { "mn" } else { "k" }, l.span);
        let a = self.layout_a.map_or("registers".to_owned(), side);
        let mut name = format!(
            "wgmma/{}.{}.{}.n{}.{a}.{}",
            self.acc,
            self.a.name,
            self.b.name,
            self.n,
            side(self.layout_b)
        );
        let signs = [(self.negate.0, ".-a"), (self.negate.1, ".-b"), (!self.scale_d, ".fresh")];
        name.extend(signs.iter().filter(|s| s.0).map(|s| s.1));
        if self.steps > 1 {
            name += &format!(".steps{}", self.steps);
        }
        name
    }

    fn case(&self) -> Case {
        let kernel = Kernel {
            name: self.name(),
            body: self.body(),
            block: 128,
            shared: IMAGE as u32 + 1024,
            input: self.input(),
            output: vec![0xaa; 128 * self.registers() * 4],
            ..Kernel::default()
        };
        kernel.expecting(if self.acc == "f16" { 2 } else { 4 }, self.expected())
    }
}

const fn k_major(span: usize) -> Layout {
    Layout { span, transposed: false }
}

const fn mn_major(span: usize) -> Layout {
    Layout { span, transposed: true }
}

const PLAIN: Product = Product {
    a: F16,
    b: F16,
    acc: "f32",
    n: 64,
    layout_a: Some(k_major(128)),
    layout_b: k_major(128),
    negate: (false, false),
    scale_d: true,
    steps: 1,
};

const SPANS: [usize; 4] = [0, 32, 64, 128];

/// Both operands in every major order and swizzle, also along K in steps.
fn layouts(out: &mut Vec<Product>) {
    for span in SPANS {
        let (k, mn) = (k_major(span), mn_major(span));
        for (a, layout_b) in [(k, k), (mn, k), (k, mn), (mn, mn)] {
            let one = Product { layout_a: Some(a), layout_b, ..PLAIN };
            out.extend([one, Product { steps: 4, n: 128, a: BF16, b: BF16, ..one }]);
        }
    }
    for layout_b in [k_major(0), k_major(32), mn_major(128)] {
        out.push(Product { layout_a: None, layout_b, ..PLAIN });
    }
    out.push(Product { layout_a: None, steps: 4, ..PLAIN });
    out.push(Product { layout_a: Some(mn_major(64)), layout_b: k_major(32), n: 40, ..PLAIN });
    // The last swizzle pattern along N is read in part.
    for (span, n) in [(128, 72), (128, 88), (128, 104), (128, 120), (128, 40), (64, 40), (32, 24)] {
        out.push(Product { layout_a: None, layout_b: mn_major(span), n, steps: 4, ..PLAIN });
    }
}

fn types(out: &mut Vec<Product>) {
    for (a, b, acc) in [
        (BF16, BF16, "f32"),
        (F16, F16, "f16"),
        (TF32, TF32, "f32"),
        (E4M3, E5M2, "f32"),
        (E5M2, E4M3, "f16"),
        (E4M3, E4M3, "f32"),
        (E5M2, E5M2, "f32"),
        (E4M3, E4M3, "f16"),
        (S8, S8, "s32"),
        (U8, U8, "s32"),
        (S8, U8, "s32"),
        (U8, S8, "s32"),
    ] {
        let one = Product { a, b, acc, ..PLAIN };
        out.extend(SPANS.map(|s| Product { layout_a: Some(k_major(s)), layout_b: k_major(s), ..one }));
        out.push(Product { layout_a: None, ..one });
        out.push(Product { steps: 4, n: 48, ..one });
    }
}

/// All of them.
pub(super) fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    layouts(&mut all);
    types(&mut all);
    all.extend((8..=256).step_by(8).filter(|n| *n != 64).map(|n| Product { n, ..PLAIN }));
    all.extend([8, 16, 24, 32, 96, 224, 256].map(|n| Product { n, a: S8, b: S8, acc: "s32", ..PLAIN }));
    let signs = [(true, false), (false, true), (true, true)];
    all.extend(signs.map(|negate| Product { negate, ..PLAIN }));
    all.push(Product { scale_d: false, ..PLAIN });
    all.iter().map(Product::case).collect()
}
