//! Prints: what the simulator prints is what the interpreter does, up to the order of lines.

use warplift::ir::interp::{Arg, Memory, Options as InterpOptions, run};
use warplift::ir::types::Elem;
use warplift::sim::Options;
use warplift_golden::given::{Given, made, parsed, problem};

const TEXT: &str = "kernel prints(x: ptr<f32> align 16, s: ptr<TYPE> align 16, n: i32) {
    grid 2
    gx = view x : f32[n]
    gs = view s : TYPE[2]
    i = block_index
    one = load gs[i] : TYPE
    t = load gx[i*64] : f32[64]
    u = reshape t : f32[4, 16]
    print \"100% of\", i, one, n > 3, cast(i, i64) * -5
    print \"t\", cast(u, f16), cast(t, i32)
    print \"here\"
    if i == 1 {
        print \"sum\", reduce_sum(t, 0)
    }
    store gx[i*64], t + 1.0
}
mapping prints { kernel: WORDS }";

#[test]
fn the_simulator_prints_what_the_interpreter_does() {
    let x: Vec<f32> = (0..128).map(|i| (i % 19 - 7) as f32 / 4.0).collect();
    let bytes: Vec<u8> = x.iter().flat_map(|v| v.to_le_bytes()).collect();
    for (ty, words) in [("i32", "warps 1"), ("u32", "warps 4"), ("i32", "persistent, warps 2")] {
        let text = TEXT.replace("TYPE", ty).replace("WORDS", words);
        let (kernel, mapping) = parsed(&text);
        let mut memory = Memory::new();
        let xs: Vec<f64> = x.iter().map(|&v| v.into()).collect();
        let ids = [memory.add_values("x", Elem::F32, &xs), memory.add_values("s", Elem::I32, &[5.0, 70.0])];
        let args = [Arg::Ptr(ids[0], 0), Arg::Ptr(ids[1], 0), Arg::Int(128)];
        run(&kernel, &args, &mut memory, &InterpOptions::default()).unwrap();
        let mut wanted = memory.printed;
        wanted.sort();
        assert_eq!(wanted.len(), 2 * (1 + 64 + 64 + 1) + 1);

        let compiled = made(&kernel, &mapping);
        assert!(compiled.ptx.contains("vprintf"));
        let given = [("x", Given::Bytes(&bytes)), ("s", Given::I32(&[5, 70]))];
        let problem = problem(&kernel, &mapping, &[("n", 128)], &given);
        let (_, report) =
            problem.simulate(&compiled.ptx, &compiled.manifest, &Options::default(), 2).unwrap();
        assert_eq!(report.hazards, []);
        let mut found: Vec<String> = report.printed.lines().map(str::to_owned).collect();
        found.sort();
        assert_eq!(found, wanted, "{ty}, {words}");
    }
}

#[test]
fn what_cannot_be_printed_is_said() {
    let text = "kernel f(x: ptr<f8e4m3> align 16) {
        grid 1
        gx = view x : f8e4m3[64]
        t = load gx[0] : f8e4m3[64]
        print \"t\", t
    }
    mapping f { kernel: warps 1 }";
    let (kernel, mapping) = parsed(text);
    let options = warplift::Options::default();
    let error = warplift::compile(&kernel, &mapping, &warplift::ir::target::SM90A, &options).unwrap_err();
    assert!(error.to_string().contains("`print` of"), "{error}");
}

/// The assembler takes the calls.
#[test]
fn prints_assemble() {
    use warplift::prelude::{Fetch, PtxasOptions, Toolchain};
    let (kernel, mapping) = parsed(&TEXT.replace("TYPE", "i32").replace("WORDS", "warps 4"));
    let compiled = made(&kernel, &mapping);
    let tools = Toolchain::find_or_install(None, Fetch::default()).expect("the tools");
    tools.ptxas(&compiled.ptx, &PtxasOptions::default()).unwrap_or_else(|e| panic!("{e}\n{}", compiled.ptx));
}
