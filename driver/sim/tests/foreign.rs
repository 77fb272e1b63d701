//! PTX that is not ours: what LLVM's NVPTX back end made of kernels in LLVM IR (vector add, block
//! reduction, an `mma.sync` product, a private array), and Triton's forms.

mod common;

use common::floats::{bytes, floats, halves, read, small};
use warplift_sim::{HazardKind, Launch, Memory, Options, ParamValue, SimError, parse, run};

const LLVM: &str = include_str!("ptx/llvm.ptx");
const TRITON: &str = include_str!("ptx/triton_style.ptx");

fn launch(ptx: &str, entry: &str, grid: u32, block: u32, params: Vec<ParamValue>, memory: &mut Memory) {
    let module = parse(ptx).unwrap_or_else(|e| panic!("{e}"));
    let mut l = Launch::new(&module, entry);
    (l.grid, l.block, l.params) = ([grid, 1, 1], block, params);
    let report = run(&l, memory, &Options::default()).unwrap_or_else(|e| panic!("{entry}: {e}"));
    assert_eq!(report.blocks, u64::from(grid));
}

#[test]
fn vector_add() {
    let n = 1000;
    let (a, b) = (floats(n), floats(n + 3)[3..].to_vec());
    let mut m = Memory::new();
    let (ia, ib, ic) = (m.alloc("a", bytes(&a)), m.alloc("b", bytes(&b)), m.alloc_poisoned("c", 4 * n));
    let p = |i| ParamValue::Pointer(i, 0);
    launch(LLVM, "vadd", 4, 256, vec![p(ia), p(ib), p(ic), ParamValue::u32(n as u32)], &mut m);
    assert_eq!(m.poisoned(ic), 0);
    let c = read(&m, ic);
    assert!((0..n).all(|i| c[i] == a[i] + b[i]));
}

#[test]
fn block_reduction() {
    let a = floats(3000);
    let mut m = Memory::new();
    let (ia, io) = (m.alloc("a", bytes(&a)), m.alloc("out", vec![0; 4]));
    let p = |i| ParamValue::Pointer(i, 0);
    launch(LLVM, "block_sum", 3, 128, vec![p(ia), p(io), ParamValue::u32(3000)], &mut m);
    assert_eq!(read(&m, io), vec![a.iter().sum::<f32>()]);
}

#[test]
fn synchronous_product() {
    let k = 48;
    let (a, b) = (small(16 * k, 0), small(8 * k, 5));
    let mut m = Memory::new();
    let (ia, ib, ic) = (m.alloc("a", halves(&a)), m.alloc("b", halves(&b)), m.alloc_poisoned("c", 512));
    let p = |i| ParamValue::Pointer(i, 0);
    launch(LLVM, "matmul", 1, 32, vec![p(ia), p(ib), p(ic), ParamValue::u32(k as u32)], &mut m);
    let c = read(&m, ic);
    for i in 0..16 {
        for j in 0..8 {
            let want: f32 = (0..k).map(|x| a[i * k + x] * b[j * k + x]).sum();
            assert_eq!(c[8 * i + j], want, "{i} {j}");
        }
    }
}

#[test]
fn private_array() {
    let mut m = Memory::new();
    let io = m.alloc_poisoned("out", 256);
    launch(LLVM, "local_array", 1, 64, vec![ParamValue::Pointer(io, 0)], &mut m);
    let words = m.bytes(io).chunks(4).map(|c| u32::from_le_bytes(c.try_into().expect("4 bytes")));
    assert!(words.enumerate().all(|(t, v)| v == (t as u32 % 8) * t as u32));
}

#[test]
fn triton_forms() {
    let n = 700;
    let a = floats(n);
    let mut m = Memory::new();
    let (ia, io) = (m.alloc("in", bytes(&a)), m.alloc_poisoned("out", 4 * n));
    let p = |i| ParamValue::Pointer(i, 0);
    launch(TRITON, "scale", 2, 128, vec![p(ia), p(io), ParamValue::u32(n as u32)], &mut m);
    let c = read(&m, io);
    assert!((0..n).all(|i| c[i] == 10.0 * a[i]));
}

#[test]
fn what_is_not_simulated_is_named_with_its_line() {
    let body = |s: &str| {
        format!(
            ".version 8.4\n.target sm_90a\n.address_size 64\n.visible .entry k()\n{{\n.reg .b32 %r<4>;\n.reg .b64 %rd<4>;\n{s}\nret;\n}}\n"
        )
    };
    for (ptx, line, part) in [
        (body("tex.1d.v4.u32.s32 {%r0, %r1, %r2, %r3}, [%rd1, {%r1}];"), 8, "tex.1d.v4.u32.s32"),
        (body("call.uni foo;"), 8, "call.uni"),
        (body("mov.u32 %r1, 1;\nvadd.s32.s32.s32 %r1, %r1, %r1, %r1;"), 9, "vadd"),
        (".version 8.4\n.target sm_90a\n.address_size 64\n.global .texref image;\n".to_owned(), 4, ".texref"),
        (
            ".version 8.4\n.target sm_90a\n.address_size 64\n.const .u64 table[2] = {1, other};\n".to_owned(),
            4,
            "other",
        ),
        (
            ".version 8.4\n.target sm_90a\n.address_size 64\n.extern .func malloc;\n".to_owned(),
            4,
            "only `vprintf`",
        ),
    ] {
        let e = parse(&ptx).expect_err(part);
        assert_eq!(e.line, line, "{e}");
        assert!(e.what.contains(part), "{e}");
    }
}

#[test]
fn blocks_may_wait_for_each_other() {
    // Block b waits until a counter in global memory says b, in the order against the adversary's.
    let ptx = ".version 8.4\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 counter)\n.reqntid 32\n{\n\
        .reg .pred %p<2>;\n.reg .b32 %r<4>;\n.reg .b64 %rd<2>;\nld.param.u64 %rd1, [counter];\nmov.u32 %r1, %ctaid.x;\n\
        WAIT:\nld.acquire.gpu.global.u32 %r2, [%rd1];\nsetp.ne.u32 %p1, %r1, %r2;\n@%p1 bra WAIT;\n\
        bar.warp.sync -1;\nadd.u32 %r3, %r1, 1;\nst.release.gpu.global.u32 [%rd1], %r3;\nret;\n}\n";
    let mut m = Memory::new();
    let id = m.alloc("counter", vec![0; 4]);
    launch(ptx, "k", 3, 32, vec![ParamValue::Pointer(id, 0)], &mut m);
    assert_eq!(m.bytes(id), 3u32.to_le_bytes());
}

/// Tables in constant memory, read by name, through a register and generically; a counter in global memory that begins
/// with a number in every run.
#[test]
fn variables_of_the_module() {
    let ptx = ".version 8.4\n.target sm_90a\n.address_size 64\n.const .align 4 .b8 table[8] = {1, 2, 3, 4, 250};\n\
        .visible .const .f32 factor = 0f40200000;\n.global .align 8 .u32 counter = 40;\n.global .u32 zeros[3];\n\
        .visible .entry k(.param .u64 out)\n.reqntid 32\n{\n\
        .reg .b32 %r<9>;\n.reg .f32 %f<3>;\n.reg .b64 %rd<5>;\nld.param.u64 %rd1, [out];\n\
        ld.const.u32 %r1, [table];\nmov.u64 %rd2, table;\nld.const.u8 %r2, [%rd2+4];\ncvta.const.u64 %rd3, %rd2;\n\
        ld.u16 %r3, [%rd3+2];\nld.const.f32 %f1, [factor];\nmov.b32 %r4, %f1;\n\
        atom.global.add.u32 %r5, [counter], 1;\nld.global.u32 %r6, [zeros+8];\nbar.warp.sync -1;\nld.relaxed.gpu.global.u32 %r7, [counter];\n\
        st.global.v4.u32 [%rd1], {%r1, %r2, %r3, %r4};\nst.global.v2.u32 [%rd1+16], {%r6, %r7};\nret;\n}\n";
    let mut m = Memory::new();
    let out = m.alloc("out", vec![0xff; 24]);
    let ptx = ptx
        .replace("st.global.v", "@%p1 st.global.v")
        .replace("ld.param", "mov.u32 %r8, %tid.x;\nsetp.eq.u32 %p1, %r8, 0;\nld.param");
    let ptx = ptx.replace(".reg .f32", ".reg .pred %p<2>;\n.reg .f32");
    for _ in 0..2 {
        launch(&ptx, "k", 1, 32, vec![ParamValue::Pointer(out, 0)], &mut m);
        let words: Vec<u32> =
            m.bytes(out).chunks(4).map(|c| u32::from_le_bytes(c.try_into().expect("4 bytes"))).collect();
        assert_eq!(words, [0x0403_0201, 250, 0x0403, 2.5f32.to_bits(), 0, 72]);
    }
}

#[test]
fn a_register_that_is_narrower_than_what_it_holds_is_an_error() {
    let text = |what: &str| {
        format!(
            ".version 8.4\n.target sm_90a\n.address_size 64\n.visible .entry k()\n.reqntid 32\n{{\n.reg .b32 %r<3>;\n\
             .reg .b64 %rd<3>;\n{what}\nret;\n}}\n"
        )
    };
    for moved in
        ["ld.global.b64 %r1, [%rd1];", "st.global.b64 [%rd1], %r1;", "ld.global.v2.b64 {%rd1, %r1}, [%rd1];"]
    {
        let e = parse(&text(moved)).unwrap_err();
        assert!(e.what.contains("moves 64 bits, the register has 32"), "{e}");
    }
    assert!(parse(&text("ld.global.b16 %r1, [%rd1];\nst.global.b8 [%rd1], %r1;")).is_ok());
}

#[test]
fn constants_end_where_they_end() {
    let text = |what: &str| {
        format!(
            ".version 8.4\n.target sm_90a\n.address_size 64\n.const .u32 table[2] = {{1, 2}};\n.visible .entry k()\n\
             .reqntid 32\n{{\n.reg .b32 %r<3>;\n.reg .b64 %rd<3>;\n{what}\nret;\n}}\n"
        )
    };
    let module = parse(&text("ld.const.u32 %r1, [table+8];")).unwrap();
    let found = run(&Launch::new(&module, "k"), &mut Memory::new(), &Options::default());
    assert!(matches!(&found, Err(SimError::Hazard(h)) if h.kind == HazardKind::OutOfBounds), "{found:?}");
    let e = parse(&text("mov.u32 %r1, 0;\nst.const.u32 [table], %r1;")).unwrap_err();
    assert!(e.line == 11 && e.what.contains("constants"), "{e}");
    let long = ".version 8.4\n.target sm_90a\n.address_size 64\n.const .u32 table[1] = {1, 2};\n";
    assert_eq!(parse(long).unwrap_err().line, 4);
}
