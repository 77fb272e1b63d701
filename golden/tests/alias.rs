//! Memory of different arguments: what lies apart is listed and checked; what may alias is ordered.

use warplift::cuda::{Arg, LaunchError, arguments};
use warplift::ir::interp::{self, Memory, run};
use warplift::ir::manifest::Fact;
use warplift::ir::target::SM90A;
use warplift::ir::tile::{Kernel, Mapping, parse_file};
use warplift::ir::types::Elem;
use warplift::{Compiled, Options, compile, sim};

/// `y` is written between two loads of `x`, by other threads than those that read it: the second load sees it where the two
/// are one array.
const TEXT: &str = "kernel shifted(x: ptr<f32> FACT, y: ptr<f32> FACT, z: ptr<f32>, w: ptr<f32>, n: i32) {
    tunable B = 256
    grid 1
    gx = view x : f32[n]
    gy = view y : f32[n]
    gz = view z : f32[n]
    gw = view w : f32[n]
    a = load gx[0] : f32[B]
    store gy[1], a * 2.0
    b = load gx[0] : f32[B]
    store gz[0], a + b
    store gw[0], load gx[8] : f32[B]
}";

fn compiled(fact: &str) -> (Kernel, Compiled) {
    let text = TEXT.replace("FACT", fact);
    let kernel = parse_file(&text, "shifted.tile").unwrap_or_else(|e| panic!("{e}")).kernels.remove(0);
    let options = Options { verify: true, ..Options::default() };
    let made = compile(&kernel, &Mapping::default(), &SM90A, &options).unwrap_or_else(|e| panic!("{e}"));
    (kernel, made)
}

/// Pairs of arguments that must lie apart.
fn pairs(made: &Compiled) -> Vec<(&str, &str)> {
    let pair = |f: &'_ Fact| match f {
        Fact::Disjoint { written, other } => Some((written.as_str().to_owned(), other.as_str().to_owned())),
        _ => None,
    };
    let all: Vec<(String, String)> = made.manifest.facts.iter().filter_map(pair).collect();
    let known = |name: &str| ["x", "y", "z", "w"].into_iter().find(|k| *k == name).unwrap_or("?");
    all.iter().map(|(a, b)| (known(a), known(b))).collect()
}

#[test]
fn the_manifest_lists_what_lies_apart() {
    let all = [("y", "x"), ("y", "z"), ("y", "w"), ("z", "x"), ("z", "w"), ("w", "x")];
    assert_eq!(pairs(&compiled("").1), all);
    let rest: Vec<_> = all.into_iter().filter(|p| *p != ("y", "x")).collect();
    assert_eq!(pairs(&compiled("may_alias").1), rest);
}

#[test]
fn the_launcher_refuses_buffers_that_overlap() {
    let plan = |made: &Compiled, y: u64| {
        let buffer = |address| Arg::Pointer { address, bytes: Some(1024) };
        let args = [buffer(4096), buffer(y), buffer(1 << 20), buffer(1 << 21), Arg::Int(256)];
        arguments::plan(&made.manifest, &args, 132).map(|_| ())
    };
    let made = compiled("").1;
    assert_eq!(plan(&made, 4096 + 1024), Ok(()));
    let overlap = LaunchError::Overlap { written: "y".into(), other: "x".into(), address: 5104, bytes: 16 };
    assert_eq!(plan(&made, 5104), Err(overlap.clone()));
    assert!(overlap.to_string().contains("say `may_alias` of both in the signature"));
    assert_eq!(plan(&compiled("may_alias").1, 5104), Ok(()));
}

#[test]
fn what_may_alias_is_ordered() {
    let values: Vec<f32> = (0..300).map(|i| i as f32).collect();
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    let (kernel, made) = compiled("may_alias");
    let mut memory = Memory::new();
    let ids = [0; 3].map(|_| memory.add("", bytes.clone()));
    let args = [ids[0], ids[0], ids[1], ids[2]].map(|id| interp::Arg::Ptr(id, 0));
    let args = [&args[..], &[interp::Arg::Int(300)]].concat();
    run(&kernel, &args, &mut memory, &interp::Options::default()).unwrap();
    assert_eq!(memory.values(ids[1], Elem::F32)[2], 2.0 + 2.0, "the second load sees what is stored");

    for seed in 0..8 {
        let module = sim::parse(&made.ptx).unwrap();
        let mut found = sim::Memory::new();
        let all = [0; 3].map(|_| found.alloc("", bytes.clone()));
        let pointer = |id| sim::Arg::Pointer(id, 0);
        let named = [("x", all[0]), ("y", all[0]), ("z", all[1]), ("w", all[2])];
        let mut args: Vec<_> = named.into_iter().map(|(name, id)| (name, pointer(id))).collect();
        args.push(("n", sim::Arg::Int(300)));
        let launch = sim::launch_from_manifest(&module, &made.manifest, &args, &mut found, 2).unwrap();
        let options = sim::Options { seed, order: sim::Adversary::Random, ..sim::Options::default() };
        sim::run(&launch, &mut found, &options).unwrap_or_else(|e| panic!("{e}"));
        for (here, there) in ids.into_iter().zip(all) {
            assert_eq!(memory.bytes(here), found.bytes(there), "seed {seed}");
        }
        let plain = compiled("").1;
        let module = sim::parse(&plain.ptx).unwrap();
        let refused = sim::launch_from_manifest(&module, &plain.manifest, &args, &mut found, 2);
        assert!(refused.is_err_and(|e| e.to_string().contains("`y` and `x` are one buffer")));
    }
}

#[test]
fn a_negative_number_without_a_range_says_what_helps() {
    let text = "kernel k(y: ptr<f32>, n: i32 RANGE) { grid 1 gy = view y : f32[8] store gy[0], (load gy[0] : f32[8]) * cast(n, f32) }";
    let plan = |range: &str| {
        let kernel = parse_file(&text.replace("RANGE", range), "").unwrap().kernels.remove(0);
        let made = compile(&kernel, &Mapping::default(), &SM90A, &Options::default()).unwrap();
        let args = [Arg::Pointer { address: 4096, bytes: None }, Arg::Int(-7)];
        arguments::plan(&made.manifest, &args, 132).map(|_| ()).map_err(|e| e.to_string())
    };
    assert_eq!(plan("in -8..8"), Ok(()));
    let refused = plan("").unwrap_err();
    assert!(
        refused.contains("if negative numbers are meant, the signature says so: `n: i32 in LO..HI`"),
        "{refused}"
    );
}
