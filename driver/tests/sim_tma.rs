//! Tensor copies: boxes, coordinates, fill, clipping, swizzles, reductions, against the formula of
//! the CUDA driver API and the PTX ISA written out by element.

use warplift::sim::{Adversary, Launch, Memory, Options, ParamValue, SimError, TensorMapDesc, parse, run};

fn dump(name: &str, ptx: &str) {
    if let Ok(folder) = std::env::var("WARPLIFT_LITMUS_OUT") {
        std::fs::write(format!("{folder}/{name}.ptx"), ptx).expect("the folder is there");
    }
}

/// Loads a box into shared memory and copies the raw bytes out.
fn load_text(rank: usize, coordinates: &[i32], bytes: usize) -> String {
    let list: Vec<String> = coordinates.iter().map(i32::to_string).collect();
    let ptx = format!(
        ".version 8.4\n.target sm_90a\n.address_size 64\n.extern .shared .align 1024 .b8 smem[];\n\
         .visible .entry k(.param .align 64 .b8 map[128], .param .u64 out)\n.reqntid 32\n{{\n\
         .reg .pred %p<4>;\n.reg .b32 %r<8>;\n.reg .b64 %rd<8>;\n\
         mov.b64 %rd1, map;\ncvta.param.u64 %rd1, %rd1;\nld.param.u64 %rd2, [out];\n\
         mov.u32 %r1, smem;\nadd.u32 %r2, %r1, {bytes};\nelect.sync _|%p1, -1;\n@!%p1 bra END;\n\
         mbarrier.init.shared::cta.b64 [%r2], 1;\nfence.mbarrier_init.release.cluster;\n\
         mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], {bytes};\n\
         cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r1], [%rd1, {{{}}}], [%r2];\n\
         WAIT:\nmbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0;\n@!%p2 bra WAIT;\n\
         cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r1], {bytes};\n\
         cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\nEND:\nret;\n}}\n",
        list.join(", ")
    );
    dump(&format!("load_{rank}d_{bytes}_{}", list.join("_")), &ptx);
    ptx
}

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
        let mut out = Vec::new();
        let mut at = (self.dims[0] * self.size as u64).next_multiple_of(16) + 16;
        for d in &self.dims[1..] {
            out.push(at);
            at *= d;
        }
        out
    }

    fn map(&self, address: u64) -> TensorMapDesc {
        TensorMapDesc {
            address,
            element: self.element.to_owned(),
            dims: self.dims.clone(),
            strides: self.strides(),
            box_dims: self.boxes.clone(),
            swizzle: self.swizzle,
        }
    }

    fn bytes(&self) -> usize {
        let last = self.strides().last().map_or(0, |s| s * self.dims[self.dims.len() - 1]);
        (last + self.dims[0] * self.size as u64 + 64) as usize
    }

    fn box_bytes(&self) -> usize {
        self.boxes.iter().product::<u32>() as usize * self.size
    }

    /// Byte offsets of a box element in global memory (none outside) and in shared memory.
    fn place(&self, coordinates: &[i32], mut index: usize) -> (Option<u64>, usize) {
        let linear = index * self.size;
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
        (at, row * 128 + chunk * 16 + linear % 16)
    }
}

fn noise(n: usize) -> Vec<u8> {
    let mut x = 0x1234_5678u32;
    (0..n)
        .map(|_| {
            x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (x >> 24) as u8 | 1
        })
        .collect()
}

fn check_load(t: &Tensor, coordinates: &[i32]) {
    let ptx = load_text(coordinates.len(), coordinates, t.box_bytes());
    let module = parse(&ptx).unwrap_or_else(|e| panic!("{e}"));
    let mut memory = Memory::new();
    let data = noise(t.bytes());
    let input = memory.alloc("in", data.clone());
    let out = memory.alloc_poisoned("out", t.box_bytes());
    let mut launch = Launch::new(&module, "k");
    launch.dynamic_shared = t.box_bytes() as u32 + 64;
    launch.params = vec![ParamValue::TensorMap(t.map(memory.address(input))), ParamValue::Pointer(out, 0)];
    run(&launch, &mut memory, &Options::default()).unwrap_or_else(|e| panic!("{coordinates:?}: {e}"));
    let got = memory.bytes(out);
    for i in 0..t.box_bytes() / t.size {
        let (global, shared) = t.place(coordinates, i);
        let want = match global {
            Some(a) => data[a as usize..a as usize + t.size].to_vec(),
            None => vec![0; t.size],
        };
        assert_eq!(&got[shared..shared + t.size], want, "element {i} at {coordinates:?} of {:?}", t.boxes);
    }
}

#[test]
fn boxes_of_every_rank() {
    let all = [
        (vec![100], vec![64]),
        (vec![100, 9], vec![64, 8]),
        (vec![40, 5, 7], vec![32, 4, 3]),
        (vec![40, 3, 4, 5], vec![16, 2, 3, 2]),
        (vec![24, 3, 2, 3, 4], vec![16, 2, 2, 2, 3]),
    ];
    for (dims, boxes) in all {
        let rank = dims.len();
        let t = Tensor { element: "u16", size: 2, dims, boxes, swizzle: 0 };
        for first in [0, 7, -3, 90, 200] {
            for other in [0, 1, -1, 3] {
                let mut c = vec![other; rank];
                c[0] = first;
                check_load(&t, &c);
            }
        }
    }
}

#[test]
fn swizzles_and_element_sizes() {
    for swizzle in [32, 64, 128] {
        for (element, size) in [("u8", 1), ("bf16", 2), ("f32", 4), ("f64", 8)] {
            let inner = swizzle / size as u32;
            let t = Tensor {
                element,
                size,
                dims: vec![3 * u64::from(inner), 50],
                boxes: vec![inner, 16],
                swizzle,
            };
            check_load(&t, &[0, 0]);
            check_load(&t, &[5, 40]);
            check_load(&t, &[-2, -7]);
        }
    }
}

/// Fills shared memory from `data` by a bulk load, then stores or reduces a box.
fn store(
    t: &Tensor,
    coordinates: &[i32],
    operation: &str,
    data: &[u8],
    target: &[u8],
) -> Result<Vec<u8>, SimError> {
    let list: Vec<String> = coordinates.iter().map(i32::to_string).collect();
    let bytes = t.box_bytes();
    let rank = coordinates.len();
    let head = if operation.is_empty() {
        format!("cp.async.bulk.tensor.{rank}d.global.shared::cta.tile.bulk_group")
    } else {
        format!("cp.reduce.async.bulk.tensor.{rank}d.global.shared::cta.{operation}.tile.bulk_group")
    };
    let ptx = format!(
        ".version 8.4\n.target sm_90a\n.address_size 64\n.extern .shared .align 1024 .b8 smem[];\n\
         .visible .entry k(.param .align 64 .b8 map[128], .param .u64 in)\n.reqntid 32\n{{\n\
         .reg .pred %p<4>;\n.reg .b32 %r<8>;\n.reg .b64 %rd<8>;\n\
         mov.b64 %rd1, map;\ncvta.param.u64 %rd1, %rd1;\nld.param.u64 %rd2, [in];\n\
         mov.u32 %r1, smem;\nadd.u32 %r2, %r1, {bytes};\nmov.u32 %r3, %laneid;\nsetp.ne.u32 %p1, %r3, 0;\n@%p1 bra END;\n\
         mbarrier.init.shared::cta.b64 [%r2], 1;\nfence.mbarrier_init.release.cluster;\n\
         mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], {bytes};\n\
         cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd2], {bytes}, [%r2];\n\
         WAIT:\nmbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0;\n@!%p2 bra WAIT;\n\
         {head} [%rd1, {{{}}}], [%r1];\n\
         cp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 0;\nEND:\nret;\n}}\n",
        list.join(", ")
    );
    dump(&format!("store_{rank}d_{operation}_{bytes}_{}", list.join("_")), &ptx);
    let module = parse(&ptx).unwrap_or_else(|e| panic!("{e}"));
    let mut memory = Memory::new();
    let input = memory.alloc("in", data.to_vec());
    let out = memory.alloc("out", target.to_vec());
    let mut launch = Launch::new(&module, "k");
    launch.dynamic_shared = bytes as u32 + 64;
    launch.params = vec![ParamValue::TensorMap(t.map(memory.address(out))), ParamValue::Pointer(input, 0)];
    let options = Options { order: Adversary::Latest, ..Options::default() };
    run(&launch, &mut memory, &options)?;
    Ok(memory.bytes(out).to_vec())
}

#[test]
fn stores_clip_and_unswizzle() {
    for (swizzle, inner) in [(0, 24), (32, 16), (64, 32), (128, 64)] {
        let t = Tensor { element: "f16", size: 2, dims: vec![72, 21], boxes: vec![inner, 8], swizzle };
        for c in [[0, 0], [8, 16], [64, 3], [-8, -2], [80, 0]] {
            let (data, before) = (noise(t.box_bytes()), vec![0xaa; t.bytes()]);
            let got = store(&t, &c, "", &data, &before).unwrap();
            let mut want = before;
            for i in 0..t.box_bytes() / 2 {
                if let (Some(a), s) = t.place(&c, i) {
                    want[a as usize..a as usize + 2].copy_from_slice(&data[s..s + 2]);
                }
            }
            assert_eq!(got, want, "{c:?} swizzle {swizzle}");
        }
    }
}

#[test]
fn reductions_add_and_take_the_larger() {
    let t = Tensor { element: "f32", size: 4, dims: vec![20, 6], boxes: vec![8, 4], swizzle: 0 };
    let ints = |n: usize, by: usize| {
        (0..n).flat_map(|i| ((i * by % 17) as f32 - 8.0).to_le_bytes()).collect::<Vec<u8>>()
    };
    let read = |b: &[u8], at: usize| f32::from_le_bytes(b[at..at + 4].try_into().expect("4 bytes"));
    let (data, before) = (ints(32, 5), ints(t.bytes() / 4, 3));
    let got = store(&t, &[16, 3], "add", &data, &before).unwrap();
    let mut want = before.clone();
    for i in 0..32 {
        if let (Some(a), s) = t.place(&[16, 3], i) {
            let a = a as usize;
            want[a..a + 4].copy_from_slice(&(read(&before, a) + read(&data, s)).to_le_bytes());
        }
    }
    assert_eq!(got, want);
    let t = Tensor { element: "u32", ..t };
    let got = store(&t, &[0, 0], "max", &data, &before).unwrap();
    let word = |b: &[u8], at: usize| u32::from_le_bytes(b[at..at + 4].try_into().expect("4 bytes"));
    for i in 0..32 {
        if let (Some(a), s) = t.place(&[0, 0], i) {
            assert_eq!(word(&got, a as usize), word(&before, a as usize).max(word(&data, s)));
        }
    }
}

#[test]
fn what_the_driver_would_refuse_is_refused_2630() {
    let good = Tensor { element: "f16", size: 2, dims: vec![64, 8], boxes: vec![64, 8], swizzle: 128 };
    let data = noise(good.box_bytes());
    let attempt = |t: &Tensor| store(t, &[0, 0], "", &data, &vec![0; t.bytes()]).map(|_| ());
    assert!(attempt(&good).is_ok());
    let wide = Tensor { boxes: vec![72, 8], ..Tensor { dims: vec![128, 8], ..good } };
    let e = attempt(&wide).unwrap_err().to_string();
    assert!(e.contains("wider than the swizzle span of 128"), "{e}");
    let long = Tensor { element: "f16", size: 2, dims: vec![64, 600], boxes: vec![64, 257], swizzle: 128 };
    assert!(attempt(&long).unwrap_err().to_string().contains("257"));
    let odd = Tensor { element: "f16", size: 2, dims: vec![64, 8], boxes: vec![12, 8], swizzle: 0 };
    assert!(attempt(&odd).unwrap_err().to_string().contains("24 bytes is no multiple of 16"));
}

#[test]
fn a_row_stride_that_is_no_multiple_of_16_is_refused_2567() {
    let mut map = Tensor { element: "f16", size: 2, dims: vec![64, 8], boxes: vec![64, 8], swizzle: 128 }
        .map(0x7_0000_0000);
    map.strides[0] = 136;
    let ptx = load_text(2, &[0, 0], 1024);
    let module = parse(&ptx).expect("parses");
    let mut memory = Memory::new();
    let out = memory.alloc("out", vec![0; 1024]);
    let mut launch = Launch::new(&module, "k");
    launch.dynamic_shared = 2048;
    launch.params = vec![ParamValue::TensorMap(map), ParamValue::Pointer(out, 0)];
    let e = run(&launch, &mut memory, &Options::default()).unwrap_err().to_string();
    assert!(e.contains("stride 136 is no multiple of 16"), "{e}");
}
