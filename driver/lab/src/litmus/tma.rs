//! Bulk and tensor copies: boxes, coordinates, fill, clipping, swizzles, multicast, reductions,
//! against the formula of the CUDA driver API and the PTX ISA written out by element.

use super::case::{Case, Kernel};
use warplift_ir::manifest::{Expr, TensorMap};

/// A tensor in global memory and a box of it.
#[derive(Clone, Debug)]
struct Tensor {
    element: &'static str,
    size: usize,
    dims: Vec<u64>,
    boxes: Vec<u32>,
    swizzle: u32,
}

impl Tensor {
    /// Strides with some room after each row, multiples of 16.
    fn strides(&self) -> Vec<u64> {
        let row = (self.dims[0] * self.size as u64).next_multiple_of(16) + 16;
        let inner = &self.dims[1..];
        let steps = inner.iter().scan(row, |at, d| {
            let stride = *at;
            *at *= d;
            Some(stride)
        });
        steps.collect()
    }

    fn map(&self, base: &str) -> TensorMap {
        let number = |v: &u64| Expr::Const(*v as i64);
        TensorMap {
            base: base.to_owned(),
            offset: Expr::zero(),
            element: self.element.to_owned(),
            dims: self.dims.iter().map(number).collect(),
            strides: self.strides().iter().map(number).collect(),
            box_dims: self.boxes.clone(),
            swizzle: self.swizzle,
            l2_promotion: 0,
        }
    }

    fn bytes(&self) -> usize {
        let last = self.strides().last().map_or(0, |s| s * self.dims[self.dims.len() - 1]);
        (last + self.dims[0] * self.size as u64 + 64) as usize
    }

    fn elements(&self) -> usize {
        self.boxes.iter().product::<u32>() as usize
    }

    fn box_bytes(&self) -> usize {
        self.elements() * self.size
    }

    /// Bytes from a row to the next in shared memory: the swizzle's span, also where the box is narrower.
    fn pitch(&self) -> usize {
        usize::max(self.boxes[0] as usize * self.size, self.swizzle as usize)
    }

    /// Byte offsets of a box element in global memory (none outside) and in shared memory.
    fn place(&self, coordinates: &[i32], mut index: usize) -> (Option<usize>, usize) {
        let row = index / self.boxes[0] as usize;
        let linear = row * self.pitch() + index % self.boxes[0] as usize * self.size;
        let mut at = Some(0u64);
        for (d, c) in coordinates.iter().enumerate() {
            let i = i64::from(*c) + (index % self.boxes[d] as usize) as i64;
            index /= self.boxes[d] as usize;
            let step = if d == 0 { self.size as u64 } else { self.strides()[d - 1] };
            at = match (at, u64::try_from(i)) {
                (Some(a), Ok(i)) if i < self.dims[d] => Some(a + i * step),
                _ => None,
            };
        }
        // Shared memory begins at a multiple of 1024: the offset alone says the swizzle.
        let (row, chunk) = (linear / 128, linear / 16 % 8);
        let pattern = self.swizzle as usize / 16;
        let chunk = if pattern == 0 { chunk } else { chunk ^ (row % pattern) };
        (at.map(|a| a as usize), row * 128 + chunk * 16 + linear % 16)
    }

    fn rank(&self) -> usize {
        self.dims.len()
    }

    /// Copies a box from global to shared memory.
    fn copy(&self, at: &[i32], global: &[u8], shared: &mut [u8]) {
        for e in 0..self.elements() {
            if let (Some(a), s) = self.place(at, e) {
                shared[s..s + self.size].copy_from_slice(&global[a..a + self.size]);
            }
        }
    }

    fn name(&self, what: &str, at: &[i32]) -> String {
        format!("tma/{what}.{}d.{}.swizzle{}.at.{}", self.rank(), self.element, self.swizzle, list(at, "."))
    }
}

/// Bytes that are never 0, which is what fills.
fn noise(n: usize) -> Vec<u8> {
    let mut x = 0x1234_5678u32;
    let mut next = || {
        x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (x >> 24) as u8 | 1
    };
    (0..n).map(|_| next()).collect()
}

fn list(coordinates: &[i32], between: &str) -> String {
    coordinates.iter().map(i32::to_string).collect::<Vec<_>>().join(between)
}

/// The first lane makes a barrier at `%r3`, behind `bytes` of shared memory; the others leave.
fn one_thread(bytes: usize) -> String {
    format!(
        "add.u32 %r3, %r1, {bytes};\nelect.sync _|%p1, -1;\n@!%p1 bra END;\nmbarrier.init.shared::cta.b64 [%r3], 1;\n\
         fence.mbarrier_init.release.cluster;\n"
    )
}

/// Waits for the phase of that number.
fn wait(phase: usize) -> String {
    format!(
        "WAIT{phase}:\nmbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], {};\n@!%p2 bra WAIT{phase};\n",
        phase % 2
    )
}

/// The tensor map by which a copy reaches a box, and the box's coordinates there.
struct Reached {
    name: String,
    map: TensorMap,
    at: Vec<i32>,
}

/// Loads a box and copies its raw bytes out.
fn load(t: &Tensor, at: &[i32]) -> Case {
    let reached = Reached { name: t.name("load", at), map: t.map("in"), at: at.to_vec() };
    load_by(reached, t, at, noise(t.bytes()))
}

/// The same by another map.
fn load_by(Reached { name, map, at: place }: Reached, t: &Tensor, at: &[i32], data: Vec<u8>) -> Case {
    let bytes = t.box_bytes();
    let body = one_thread(bytes)
        + &format!(
            "prefetch.tensormap [%map0];\nmbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], {bytes};\n\
             cp.async.bulk.tensor.{}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r1], [%map0, {{{}}}], [%r3];\n\
             {}cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r1], {bytes};\ncp.async.bulk.commit_group;\n\
             cp.async.bulk.wait_group.read 0;\ncp.async.bulk.wait_group 0;\nEND:",
            place.len(),
            list(&place, ", "),
            wait(0)
        );
    let mut expected = vec![0; bytes];
    t.copy(at, &data, &mut expected);
    let kernel = Kernel {
        name,
        body,
        shared: bytes as u32 + 64,
        maps: vec![map],
        input: data,
        output: vec![0xaa; bytes],
        ..Kernel::default()
    };
    kernel.expecting(t.size, expected)
}

/// Loads a box that is narrower than the span of its swizzle over other bytes, which stay in the gaps.
fn load_narrow(t: &Tensor, at: &[i32]) -> Case {
    let (moved, bytes) = (t.box_bytes(), t.elements() / t.boxes[0] as usize * t.pitch());
    let data = noise(t.bytes().max(bytes));
    let body = one_thread(bytes)
        + &format!(
            "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], {bytes};\n\
             cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], {bytes}, [%r3];\n{}\
             mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], {moved};\n\
             cp.async.bulk.tensor.{}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r1], [%map0, {{{}}}], [%r3];\n\
             {}cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r1], {bytes};\ncp.async.bulk.commit_group;\n\
             cp.async.bulk.wait_group 0;\nEND:",
            wait(0),
            t.rank(),
            list(at, ", "),
            wait(1)
        );
    let mut expected = data[..bytes].to_vec();
    for e in 0..t.elements() {
        let (from, to) = t.place(at, e);
        let new = from.map_or(vec![0; t.size], |a| data[a..a + t.size].to_vec());
        expected[to..to + t.size].copy_from_slice(&new);
    }
    let kernel = Kernel {
        name: t.name(&format!("load.narrow{}", t.boxes[0]), at),
        body,
        shared: bytes as u32 + 64,
        maps: vec![t.map("in")],
        input: data,
        output: vec![0xaa; bytes],
        ..Kernel::default()
    };
    kernel.expecting(t.size, expected)
}

/// Boxes of fewer columns than the span of their swizzle has: inside the array, and cut by its ends.
fn narrow_loads(out: &mut Vec<Case>) {
    for (swizzle, columns) in [(128, 8), (128, 40), (128, 56), (64, 8), (64, 24), (32, 8)] {
        let t = Tensor { element: "bf16", size: 2, dims: vec![104, 21], boxes: vec![columns, 16], swizzle };
        out.extend([[64, 0], [0, 16], [96, 3], [-8, -3]].map(|at| load_narrow(&t, &at)));
    }
}

/// What an operation makes of the old bytes of an element and of the new ones.
type Combine = fn(&[u8], &[u8]) -> Vec<u8>;

/// Stores or reduces a box into `out`.
fn store(t: &Tensor, at: &[i32], operation: &str, data: &[u8], old: Vec<u8>, combine: Combine) -> Case {
    let what = if operation.is_empty() { "store".to_owned() } else { format!("reduce.{operation}") };
    let reached = Reached { name: t.name(&what, at), map: t.map("out"), at: at.to_vec() };
    store_by(reached, (t, at), operation, data, old, combine)
}

/// The same by another map.
fn store_by(
    Reached { name, map, at: place }: Reached,
    (t, at): (&Tensor, &[i32]),
    operation: &str,
    data: &[u8],
    old: Vec<u8>,
    combine: Combine,
) -> Case {
    let (bytes, rank) = (t.box_bytes(), place.len());
    let head = match operation {
        "" => format!("cp.async.bulk.tensor.{rank}d.global.shared::cta.tile.bulk_group"),
        o => format!("cp.reduce.async.bulk.tensor.{rank}d.global.shared::cta.{o}.tile.bulk_group"),
    };
    let body = one_thread(bytes)
        + &format!(
            "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], {bytes};\n\
             cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], {bytes}, [%r3];\n{}\
             {head} [%map0, {{{}}}], [%r1];\ncp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\nEND:",
            wait(0),
            list(&place, ", ")
        );
    let mut expected = old.clone();
    for e in 0..t.elements() {
        if let (Some(a), s) = t.place(at, e) {
            let new = combine(&old[a..a + t.size], &data[s..s + t.size]);
            expected[a..a + t.size].copy_from_slice(&new);
        }
    }
    let kernel = Kernel {
        name,
        body,
        shared: bytes as u32 + 64,
        maps: vec![map],
        input: data.to_vec(),
        output: old,
        ..Kernel::default()
    };
    kernel.expecting(t.size, expected)
}

/// First and every other coordinate of boxes of rows of 2-byte elements: inside, cut at either end,
/// outside. The first one is a multiple of 16 bytes, which the hardware asks for.
const LOADED: &[(i32, i32)] = &[(0, 0), (8, 1), (16, -1), (-8, 0), (0, 3), (96, 0), (200, 0)];

fn loads(out: &mut Vec<Case>) {
    let ranks = [
        (vec![100], vec![64]),
        (vec![100, 9], vec![64, 8]),
        (vec![40, 5, 7], vec![32, 4, 3]),
        (vec![40, 3, 4, 5], vec![16, 2, 3, 2]),
        (vec![24, 3, 2, 3, 4], vec![16, 2, 2, 2, 3]),
    ];
    for (dims, boxes) in ranks {
        let rank = dims.len();
        let t = Tensor { element: "u16", size: 2, dims, boxes, swizzle: 0 };
        for (first, other) in LOADED {
            let mut at = vec![*other; rank];
            at[0] = *first;
            let made = load(&t, &at);
            // A line has no other coordinate: two of these places are one.
            if out.iter().all(|c| c.name != made.name) {
                out.push(made);
            }
        }
    }
    for swizzle in [32, 64, 128] {
        for (element, size) in [("u8", 1), ("bf16", 2), ("f32", 4), ("f64", 8)] {
            let inner = swizzle / size as u32;
            let (dims, boxes) = (vec![3 * u64::from(inner), 50], vec![inner, 16]);
            let t = Tensor { element, size, dims, boxes, swizzle };
            out.extend([[0, 0], [inner as i32, 40], [-16 / size as i32, -7]].map(|at| load(&t, &at)));
        }
    }
    let whole = Tensor { element: "f16", size: 2, dims: vec![64, 300], boxes: vec![64, 256], swizzle: 128 };
    out.extend([[0, 0], [0, 100]].map(|at| load(&whole, &at)));
    let long = Tensor { element: "i32", size: 4, dims: vec![300, 4], boxes: vec![256, 2], swizzle: 0 };
    out.extend([[0, 0], [64, 3]].map(|at| load(&long, &at)));
}

fn stores(out: &mut Vec<Case>) {
    let copy: Combine = |_, new| new.to_vec();
    for (swizzle, inner) in [(0, 24), (32, 16), (64, 32), (128, 64)] {
        let t = Tensor { element: "f16", size: 2, dims: vec![72, 21], boxes: vec![inner, 8], swizzle };
        let one = |at: &[i32]| store(&t, at, "", &noise(t.box_bytes()), vec![0xaa; t.bytes()], copy);
        out.extend([[0, 0], [8, 16], [64, 3], [80, 0]].iter().map(|at| one(at)));
    }
    for dims in [vec![40], vec![40, 5, 7], vec![40, 3, 4, 5], vec![24, 3, 2, 3, 4]] {
        let boxes: Vec<u32> = dims.iter().enumerate().map(|(i, _)| if i == 0 { 16 } else { 2 }).collect();
        let rank = dims.len();
        let t = Tensor { element: "u32", size: 4, dims, boxes, swizzle: 0 };
        let mut at = vec![1; rank];
        for first in [4, 28] {
            at[0] = first;
            out.push(store(&t, &at, "", &noise(t.box_bytes()), vec![0xaa; t.bytes()], copy));
        }
    }
}

/// Boxes of a tensor whose number of rows only the kernel knows. Two dimensions of the map have the stride of a row, and
/// the address lies as many rows before the array as it has at most: the copy engine adds both coordinates, and compares
/// the first one with the extent.
fn ragged(out: &mut Vec<Case>) {
    let whole = Tensor { element: "f16", size: 2, dims: vec![96, 40], boxes: vec![64, 16], swizzle: 128 };
    for (rows, first) in [(40, 8), (40, 32), (21, 16), (21, 0), (21, 24), (1, 0), (0, 0)] {
        let part = Tensor { dims: vec![96, rows], ..whole.clone() };
        let (most, stride) = (whole.dims[1] as i64, whole.strides()[0] as i64);
        let map = |base: &str| {
            let mut map = whole.map(base);
            map.offset = Expr::Const(-most * stride);
            map.dims.push(Expr::Const(most + 1));
            map.strides.push(Expr::Const(stride));
            map.box_dims.push(1);
            map
        };
        let reached = |what: &str, base: &str| Reached {
            name: format!("tma/{what}.ragged.{rows}.rows.at.{first}"),
            map: map(base),
            at: vec![16, first + most as i32 - rows as i32, rows as i32],
        };
        let at = [16, first];
        out.push(load_by(reached("load", "in"), &part, &at, noise(whole.bytes())));
        let (data, old) = (noise(part.box_bytes()), vec![0xaa; whole.bytes()]);
        let copy: Combine = |_, new| new.to_vec();
        out.push(store_by(reached("store", "out"), (&part, &at), "", &data, old, copy));
    }
}

fn word(b: &[u8]) -> u32 {
    u32::from_le_bytes([b[0], b[1], b[2], b[3]])
}

/// Operation, element, size, code of a small integer, and what it computes.
type Reduction = (&'static str, &'static str, usize, fn(i32) -> u32, Combine);

const REDUCTIONS: &[Reduction] = &[
    (
        "add",
        "f32",
        4,
        |v| (v as f32).to_bits(),
        |a, b| (f32::from_bits(word(a)) + f32::from_bits(word(b))).to_le_bytes().to_vec(),
    ),
    (
        "add",
        "f16",
        2,
        |v| half::f16::from_f32(v as f32).to_bits().into(),
        |a, b| {
            let of = |v: &[u8]| half::f16::from_le_bytes([v[0], v[1]]).to_f32();
            half::f16::from_f32(of(a) + of(b)).to_le_bytes().to_vec()
        },
    ),
    (
        "add",
        "bf16",
        2,
        |v| half::bf16::from_f32(v as f32).to_bits().into(),
        |a, b| {
            let of = |v: &[u8]| half::bf16::from_le_bytes([v[0], v[1]]).to_f32();
            half::bf16::from_f32(of(a) + of(b)).to_le_bytes().to_vec()
        },
    ),
    ("add", "u32", 4, |v| v as u32, |a, b| word(a).wrapping_add(word(b)).to_le_bytes().to_vec()),
    ("min", "i32", 4, |v| v as u32, |a, b| (word(a) as i32).min(word(b) as i32).to_le_bytes().to_vec()),
    ("max", "u32", 4, |v| v as u32, |a, b| word(a).max(word(b)).to_le_bytes().to_vec()),
    (
        "inc",
        "u32",
        4,
        |v| v as u32,
        |a, b| (if word(a) >= word(b) { 0 } else { word(a) + 1 }).to_le_bytes().to_vec(),
    ),
    (
        "dec",
        "u32",
        4,
        |v| v as u32,
        |a, b| (if word(a) == 0 || word(a) > word(b) { word(b) } else { word(a) - 1 }).to_le_bytes().to_vec(),
    ),
    ("and", "u32", 4, |v| v as u32, |a, b| (word(a) & word(b)).to_le_bytes().to_vec()),
    ("or", "u32", 4, |v| v as u32, |a, b| (word(a) | word(b)).to_le_bytes().to_vec()),
    ("xor", "u32", 4, |v| v as u32, |a, b| (word(a) ^ word(b)).to_le_bytes().to_vec()),
];

fn reductions(out: &mut Vec<Case>) {
    for (operation, element, size, code, combine) in REDUCTIONS {
        let inner = 32 / *size as u32;
        let t = Tensor {
            element,
            size: *size,
            dims: vec![inner as u64 * 5 / 2, 6],
            boxes: vec![inner, 4],
            swizzle: 32,
        };
        let numbers = |n: usize, by: usize| -> Vec<u8> {
            let one = |i: usize| code((i * by % 17) as i32 - 8).to_le_bytes()[..*size].to_vec();
            (0..n / size).flat_map(one).collect()
        };
        let old = numbers(t.bytes(), 3);
        let new = numbers(t.box_bytes(), 5);
        let cut = 2 * inner as i32;
        out.extend([[cut, 3], [0, 0]].map(|at| store(&t, &at, operation, &new, old.clone(), *combine)));
    }
}

/// Copies without a tensor: into shared memory, into a peer's, and reductions.
fn bulk(out: &mut Vec<Case>) {
    let data = noise(1024);
    let fetch = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 512;\n\
        cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], 512, [%r3];\n";
    let end = "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\nEND:";
    for (operation, ty) in [("add", "u32"), ("max", "s32"), ("and", "b32"), ("add", "u64"), ("min", "s64")] {
        let body = one_thread(512)
            + fetch
            + &wait(0)
            + &format!(
                "cp.reduce.async.bulk.global.shared::cta.bulk_group.{operation}.{ty} [%rd2+16], [%r1], 496;\n{end}"
            );
        let name = format!("tma/bulk.reduce.{operation}.{ty}");
        let kernel = Kernel { name, body, input: data.clone(), output: noise(512), ..Kernel::default() };
        out.push(kernel.bits(8));
    }
    // Written by threads, read by the copy engine.
    let written = format!(
        "mad.lo.u32 %r4, %r2, 16, %r1;\nmad.wide.u32 %rd3, %r2, 16, %rd1;\nld.global.v4.b32 {{%x0, %x1, %x2, %x3}}, [%rd3];\n\
         st.shared.v4.b32 [%r4], {{%x0, %x1, %x2, %x3}};\nfence.proxy.async.shared::cta;\nbar.sync 0;\nelect.sync _|%p1, -1;\n\
         @!%p1 bra END;\ncp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r1], 512;\n{end}"
    );
    let kernel =
        Kernel { name: "tma/bulk.written".into(), body: written, input: data.clone(), ..Kernel::default() };
    out.push(Kernel { output: vec![0xaa; 512], ..kernel }.expecting(1, data[..512].to_vec()));
    // Each block's bytes go to the other block, whose barrier they complete.
    let swap = format!(
        "add.u32 %r3, %r1, 1024;\nmov.u32 %r4, %cluster_ctarank;\nxor.b32 %r5, %r4, 1;\nsetp.ne.u32 %p1, %r2, 0;\n@%p1 bra READY;\n\
         mbarrier.init.shared::cta.b64 [%r3], 1;\nmbarrier.init.shared::cta.b64 [%r3+8], 1;\nfence.mbarrier_init.release.cluster;\n\
         mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3+8], 512;\nREADY:\nbarrier.cluster.arrive.release.aligned;\n\
         barrier.cluster.wait.acquire.aligned;\n@%p1 bra END;\nmad.wide.u32 %rd1, %r4, 512, %rd1;\nmad.wide.u32 %rd2, %r4, 512, %rd2;\n{fetch}{}\
         mapa.shared::cluster.u32 %r6, %r1, %r5;\nmapa.shared::cluster.u32 %r7, %r3, %r5;\n\
         cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r6+512], [%r1], 512, [%r7+8];\n\
         CAME:\nmbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3+8], 0;\n@!%p2 bra CAME;\n\
         cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r1+512], 512;\ncp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\nEND:\n\
         barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;",
        wait(0)
    );
    let expected = [&data[512..], &data[..512]].concat();
    let pair = Kernel {
        name: "tma/bulk.peer".into(),
        body: swap,
        grid: [2, 1, 1],
        cluster: 2,
        input: data.clone(),
        output: vec![0xaa; 1024],
        ..Kernel::default()
    };
    out.push(pair.expecting(1, expected));
}

/// Block 0 and block 2 load a box each into two of four blocks at once.
fn multicast(name: &str, [first, second, third]: [[i32; 2]; 3]) -> Case {
    let t = Tensor { element: "f16", size: 2, dims: vec![64, 40], boxes: vec![64, 8], swizzle: 128 };
    let bytes = t.box_bytes();
    let data = noise(t.bytes());
    let head =
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster";
    let body = format!(
        "add.u32 %r3, %r1, {};\nmov.u32 %r4, %cluster_ctarank;\nsetp.ne.u32 %p1, %r2, 0;\n@%p1 bra READY;\n\
         mbarrier.init.shared::cta.b64 [%r3], 1;\nfence.mbarrier_init.release.cluster;\n\
         mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], {};\nREADY:\nbarrier.cluster.arrive.release.aligned;\n\
         barrier.cluster.wait.acquire.aligned;\n@%p1 bra END;\nsetp.eq.u32 %p3, %r4, 0;\nsetp.eq.u32 %p4, %r4, 2;\nmov.u16 %h1, 11;\nmov.u16 %h2, 15;\n\
         @%p3 {head} [%r1], [%map0, {{{}}}], [%r3], %h1;\n@%p4 {head} [%r1+{bytes}], [%map0, {{{}}}], [%r3], %h2;\n\
         setp.ne.u32 %p5, %r4, 2;\n@%p5 bra WAIT0;\n\
         {head} [%r1], [%map0, {{{}}}], [%r3], 4;\n{}\
         mul.lo.u32 %r5, %r4, {};\ncvt.u64.u32 %rd3, %r5;\nadd.s64 %rd2, %rd2, %rd3;\n\
         cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r1], {};\ncp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\nEND:\n\
         barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;",
        2 * bytes,
        2 * bytes,
        list(&first, ", "),
        list(&second, ", "),
        list(&third, ", "),
        wait(0),
        2 * bytes,
        2 * bytes
    );
    let mut expected = vec![0; 8 * bytes];
    for block in 0..4 {
        let own = if block == 2 { third } else { first };
        for (half, at) in [own, second].iter().enumerate() {
            t.copy(at, &data, &mut expected[(2 * block + half) * bytes..][..bytes]);
        }
    }
    let kernel = Kernel {
        name: format!("tma/multicast.{name}"),
        body,
        grid: [4, 1, 1],
        cluster: 4,
        shared: 2 * bytes as u32 + 64,
        maps: vec![t.map("in")],
        input: data,
        output: vec![0xaa; expected.len()],
        ..Kernel::default()
    };
    kernel.expecting(2, expected)
}

/// All of them.
pub(super) fn cases() -> Vec<Case> {
    let mut out = Vec::new();
    loads(&mut out);
    narrow_loads(&mut out);
    stores(&mut out);
    ragged(&mut out);
    reductions(&mut out);
    bulk(&mut out);
    out.push(multicast("inside", [[0, 12], [0, 5], [0, 2]]));
    out.push(multicast("cut", [[0, 36], [16, 5], [-8, 2]]));
    out
}
