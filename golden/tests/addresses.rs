//! Addresses that threads compute: no step wraps at 2^31 bytes. Facts show it, the launch checks it, or the step is
//! multiplied in 64 bits.

use warplift::ir::target::SM90A;
use warplift::ir::tile::parse_file;
use warplift::{Compiled, Options, compile, sim};

fn compiled(text: &str) -> Compiled {
    let module = parse_file(text, "f.tile").unwrap_or_else(|e| panic!("{e:?}\n{text}"));
    let compiled = compile(&module.kernels[0], &module.mappings[0], &SM90A, &Options::default());
    compiled.unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// What the simulator's launch says of a kernel under these sizes; nothing is run.
fn launch(text: &str, sizes: &[(&str, i64)]) -> Result<(), String> {
    let compiled = compiled(text);
    let program = sim::parse(&compiled.ptx).unwrap();
    let mut memory = sim::Memory::new();
    let pointers = compiled.manifest.arguments.iter().filter(|a| a.ty.starts_with("ptr"));
    let mut args: Vec<(&str, sim::Arg)> = pointers
        .map(|a| (a.name.as_str(), sim::Arg::Pointer(memory.alloc(&a.name, vec![0; 16]), 0)))
        .collect();
    args.extend(sizes.iter().map(|&(name, v)| (name, sim::Arg::Int(v))));
    let made = sim::launch_from_manifest(&program, &compiled.manifest, &args, &mut memory, 132);
    made.map(|_| ()).map_err(|e| e.to_string())
}

/// A copy of parts of views of rank 3 by threads: plain, or with the first index fixed.
fn copy_of_rank_3(load: &str, mapping: &str) -> String {
    format!(
        "kernel f(x: ptr<f32>, y: ptr<f32>, a: i32, b: i32, c: i32) {{\n tunable B = 256\n grid a, b\n i, j = block_index\n \
         gx = view x : f32[a, b, c]\n gy = view y : f32[a, b, c]\n {load}\n}}\nmapping f {{ {mapping} }}"
    )
}

#[test]
fn steps_beyond_31_bits_are_refused_at_launch() {
    let whole = "z = load gx[i, j, 0] : f32[1, 1, B]\n store gy[i, j, 0], z";
    let part = "px = subview gx[i, _, _]\n py = subview gy[i, _, _]\n z = load px[j, 0] : f32[1, B]\n store py[j, 0], z";
    let atomic = "z = load gx[i, j, 0] : f32[1, 1, B]\n atomic_add gy[i, j, 0], z";
    for load in [whole, part, atomic] {
        let text = copy_of_rank_3(load, "kernel: warps 4");
        let at = |a, b, c| launch(&text, &[("a", a), ("b", b), ("c", c)]);
        assert_eq!(at(3, 32767, 16384), Ok(()), "{load}");
        let said = at(3, 32768, 16384).unwrap_err();
        let named = said.contains("stride of dimension 0 of `x`") && said.contains("2147483648");
        assert!(named && said.contains("2147483647"), "{said}");
        assert_eq!(at(1, 32768, 16384), Ok(()), "one slice alone is never stepped over: {load}");
        let said = at(1, 2, 1 << 29).unwrap_err();
        assert!(said.contains("stride of dimension 1 of `x`"), "{said}");
    }
}

#[test]
fn steps_that_facts_bound_are_not_checked() {
    let whole = "z = load gx[i, j, 0] : f32[1, 1, B]\n store gy[i, j, 0], z";
    let text = copy_of_rank_3(whole, "kernel: warps 4");
    let text = text.replace("b: i32, c: i32", "b: i32 in 0..32767, c: i32 in 0..16384");
    let facts = format!("{:?}", compiled(&text).manifest.facts);
    assert!(!facts.contains("Limit"), "{facts}");
}

#[test]
fn strides_that_only_a_block_knows_are_multiplied_in_64_bits() {
    let text = "kernel f(x: ptr<f32>, y: ptr<f32>, ld: i32) {
    grid 2
    i = block_index
    far = ld * (2 - i)
    gx = view x : f32[4, 32] strides [far, 1]
    gp = view x : f32[2, 2, far]
    gy = view y : f32[8, 32]
    px = subview gp[1, _, _]
    store gy[i*4, 0], (load gx[0, 0] : f32[4, 32]) + (load px[1, 0] : f32[1, 32])
}
mapping f { kernel: warps 2 }";
    let compiled = compiled(text);
    assert!(compiled.ptx.contains("mul.lo.s64"), "{}", compiled.ptx);
    let program = sim::parse(&compiled.ptx).unwrap();
    let mut memory = sim::Memory::new();
    let bytes: Vec<u8> = (0..320).flat_map(|n| (n as f32).to_le_bytes()).collect();
    let [x, y] = [("x", bytes), ("y", vec![0; 4 * 256])].map(|(name, bytes)| memory.alloc(name, bytes));
    let args = [("x", sim::Arg::Pointer(x, 0)), ("y", sim::Arg::Pointer(y, 0)), ("ld", sim::Arg::Int(40))];
    let launch = sim::launch_from_manifest(&program, &compiled.manifest, &args, &mut memory, 1).unwrap();
    let report = sim::run(&launch, &mut memory, &sim::Options::default()).unwrap();
    assert!(report.hazards.is_empty(), "{:?}", report.hazards);
    let found: Vec<f32> =
        memory.bytes(y).chunks(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
    for (n, v) in found.iter().enumerate() {
        let (block, row, column) = (n / 128, n / 32 % 4, n % 32);
        let far = 40 * (2 - block);
        assert_eq!(*v, (row * far + column + 3 * far + column) as f32, "{n}");
    }
}
