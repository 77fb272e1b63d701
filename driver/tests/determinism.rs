//! Compiling is a function: the same input gives the same PTX, in any order and on any number of threads.

use std::sync::Mutex;
use std::thread;
use warplift::ir::target::SM90A;
use warplift::kernels::LIBRARY;
use warplift::prelude::{Arg, Buffer, Device, Stream, Toolchain};
use warplift::prelude::{Kernel, KernelBuilder, LoadedKernel, Manifest, Mapping, Module, Target};
use warplift::{CompileError, Compiled, Explained, Feature, Options, compile};

/// Threads that compile at once.
const THREADS: usize = 4;

/// Every kernel of the library under each of its mappings.
fn cases() -> Vec<(Kernel, Mapping)> {
    let modules = LIBRARY.iter().map(|text| text.parse().unwrap_or_else(|e| panic!("{e}")));
    let pairs = modules.flat_map(|m: Module| {
        let of = |mapping: &Mapping| Some((m.kernel(&mapping.kernel)?.clone(), mapping.clone()));
        m.mappings.iter().filter_map(of).collect::<Vec<_>>()
    });
    pairs.collect()
}

/// PTX and manifest.
fn made(kernel: &Kernel, mapping: &Mapping) -> (String, String) {
    let compiled = compile(kernel, mapping, &SM90A, &Options::default());
    let compiled = compiled.unwrap_or_else(|e| panic!("{}: {e}", kernel.name));
    (compiled.ptx, serde_json::to_string(&compiled.manifest).unwrap())
}

#[test]
fn the_whole_library_compiles_to_the_same_text_again_and_on_threads() {
    let cases = cases();
    assert!(cases.len() > 50, "{} mappings", cases.len());
    let first: Vec<_> = cases.iter().map(|(k, m)| made(k, m)).collect();
    // The last first, so that neighbours differ; each thread takes the next that is left.
    let left = Mutex::new((0..cases.len()).collect::<Vec<_>>());
    let work = || {
        while let Some(n) = { left.lock().unwrap().pop() } {
            let (kernel, mapping) = &cases[n];
            assert_eq!(made(kernel, mapping), first[n], "{} under {mapping}", kernel.name);
        }
    };
    thread::scope(|s| (0..THREADS).for_each(|_| drop(s.spawn(work))));
    assert!(left.lock().unwrap().is_empty());
}

#[test]
fn one_kernel_compiles_on_all_threads_at_once() {
    let (kernel, mapping) = cases().into_iter().find(|(k, _)| k.name == "gemm").expect("the library has it");
    let alone = made(&kernel, &mapping);
    thread::scope(|s| {
        let all: Vec<_> = (0..THREADS).map(|_| s.spawn(|| made(&kernel, &mapping))).collect();
        assert!(all.into_iter().all(|one| one.join().unwrap() == alone));
    });
}

/// Compiles only where the type goes from thread to thread, and is shared among them.
const fn crosses_threads<T: Send + Sync>() {}

/// What a frontend holds, each checked when this file is compiled.
const _: () = {
    crosses_threads::<Kernel>();
    crosses_threads::<KernelBuilder>();
    crosses_threads::<Mapping>();
    crosses_threads::<Module>();
    crosses_threads::<Options>();
    crosses_threads::<Feature>();
    crosses_threads::<Target>();
    crosses_threads::<Compiled>();
    crosses_threads::<Explained>();
    crosses_threads::<CompileError>();
    crosses_threads::<Manifest>();
    crosses_threads::<Toolchain>();
    crosses_threads::<Device>();
    crosses_threads::<Buffer>();
    crosses_threads::<Stream>();
    crosses_threads::<LoadedKernel>();
    crosses_threads::<Arg>();
    crosses_threads::<warplift::problem::Sizes>();
    crosses_threads::<warplift::predict::Prediction>();
    crosses_threads::<warplift::enumerate::Chosen>();
    crosses_threads::<warplift::sim::Module>();
    crosses_threads::<warplift::sim::Report>();
};
