//! Refusals have a place and a reason: for correct kernels that no stage compiles, and for mappings with impossible
//! numbers.

use std::sync::LazyLock;
use warplift::ir::target::SM90A;
use warplift::ir::tile::{Mapping, Module, parse_file};
use warplift::{CompileError, Options, compile};

/// Kernel and mapping of a text with one argument `x` and what stands in its body, and the message.
fn message(params: &str, body: &str, mapping: &str) -> String {
    let text = format!(
        "kernel f(x: ptr<f32>, y: ptr<f32>, {params}) {{\n tunable B = 256\n grid 3\n {body}\n}}\nmapping f {{ {mapping} }}"
    );
    let module = parse_file(&text, "f.tile").unwrap_or_else(|e| panic!("{e:?}\n{text}"));
    match compile(&module.kernels[0], &module.mappings[0], &SM90A, &Options::default()) {
        Ok(c) => panic!("it compiles:\n{text}\n{}", c.ptx),
        Err(e) => placed(&e, &module.mappings[0]),
    }
}

/// A refusal as it is shown, with its place.
fn placed(error: &CompileError, mapping: &Mapping) -> String {
    let message = match error {
        CompileError::Isel(e) => e.message.clone(),
        other => other.to_string(),
    };
    match error.place(mapping) {
        Some((origin, loc)) => format!("{origin:?} f.tile:{}:{}: {message}", loc.line, loc.column),
        None => message,
    }
}

const COPY: &str = "gx = view x : f32[n]\n gy = view y : f32[n]\n z = load gx[0] : f32[B]";

#[test]
fn blocks_past_the_grid_may_store_nothing() {
    let said = message("n: i32", &format!("{COPY}\n atomic_add gy[0], z"), "kernel: warps 4, cluster 2");
    assert!(said.contains("past the grid's end") && said.contains("f.tile:7:"), "{said}");
}

#[test]
fn an_assert_in_a_branch_is_no_fact() {
    let body = format!("{COPY}\n if m > 3 {{ assert n <= 64, \"small\" }}\n store gy[0], z");
    let said = message("n: i32, m: i32", &body, "kernel: warps 4");
    assert!(said.contains("inside a branch") && said.contains("f.tile:7:"), "{said}");
}

/// Indices and extents of 64 bits compile; scalars of a byte are not loaded.
#[test]
fn loaded_scalars_are_words_or_halves() {
    let body = "gx = view s : i8[n]\n z = load gx[0] : i8\n gy = view y : f32[n]\n store gy[cast(z, i32)], full 1.0 : f32[B]";
    let said = message("s: ptr<i8>, n: i64", body, "kernel: warps 4");
    assert!(said.contains("`load` of i8 scalars does not compile") && said.contains("f.tile:5:"), "{said}");
}

#[test]
fn a_pipeline_has_stages_that_can_be() {
    let body = format!("{COPY}\n w = for t in 0..m carry a = z {{ b = a + 1.0 yield b }}\n store gy[0], w");
    for stages in ["0", "257", "268435456"] {
        let said = message("n: i32, m: i32", &body, &format!("for t: pipeline {stages}"));
        assert!(said.contains(stages) && said.contains("1 to 256"), "{said}");
    }
}

/// The library's product, with tiles for one warpgroup.
static GEMM: LazyLock<String> = LazyLock::new(|| {
    let text = warplift::kernels::find("gemm").unwrap().text;
    text.split("mapping").next().unwrap().replace("BN = 256", "BN = 128")
});
const ADD: &str = "kernel add(x: ptr<f32> align 16, y: ptr<f32> align 16, n: i32) {
 tunable B = 1024
 grid cdiv(n, B)
 gx = view x : f32[n]
 gy = view y : f32[n]
 i = block_index
 z = for t in 0..2 carry s = full 0.0 : f32[B] { r = load gx[i*B] : f32[B] yield s + r }
 store gy[i*B], z
}
";

/// The file of a kernel and a mapping that starts in the line behind it.
fn under(kernel: &str, items: &str) -> (Module, u32) {
    let name = if kernel == ADD { "add" } else { "gemm" };
    let text = format!("{kernel}mapping {name} {{ {items} }}");
    let module = parse_file(&text, "f.tile").unwrap_or_else(|e| panic!("{e:?}\n{text}"));
    (module, kernel.lines().count() as u32 + 1)
}

/// Numbers that no chip has and words that contradict each other are refused where they stand.
#[test]
fn impossible_mappings_are_refused_at_their_word() {
    let gemm = GEMM.as_str();
    for (kernel, items, piece) in [
        (gemm, "for t: producers 5", "loop `t`: `producers 5`: 0 to 1"),
        (gemm, "for t: consumers 0", "`consumers 0`: 1 to 8"),
        (gemm, "for t: wait 2", "`wait 2`: 0 to 1"),
        (gemm, "for t: chunk 0", "`chunk 0`: 1 or more"),
        (gemm, "for t: mma_order 2", "`mma_order 2`: 0 to 1"),
        (gemm, "for t: split_k 1", "`split_k 1`: 2 to 256"),
        (gemm, "for t: split_k 2 kernel: persistent, pingpong 2", "`split_k 2`: `pingpong 2`: teams"),
        (gemm, "for t: stream_k", "`stream_k`: only a `persistent` kernel"),
        (
            gemm,
            "for t: stream_k kernel: persistent, raster counter",
            "`stream_k`: `raster counter`: a program",
        ),
        (gemm, "for t: stream_k, split_k 2 kernel: persistent", "`split_k 2`: `stream_k` shares it out too"),
        (gemm, "for t: consumers 1 kernel: warps 8", "`warps 8` contradicts `consumers 1`"),
        (gemm, "for t: wait 0 kernel: warps 6, products wgmma", "`warps 6` beside `products wgmma`"),
        (gemm, "array c: before_wait", "loaded `before_wait`: a `pdl`"),
        (gemm, "array a: packed", "array `a` cannot be `packed`: what line 12 loads is an operand"),
        (gemm, "array c: packed", "array `c` cannot be `packed`: line 17 writes"),
        (gemm, "kernel: raster band_m 0", "`raster band_m 0`: 1 to 32768"),
        (gemm, "kernel: raster band_n 40000", "`raster band_n 40000`: 1 to 32768"),
        (gemm, "kernel: persistent, raster paired, cluster 2", "`raster paired` with clusters"),
        (gemm, "kernel: pingpong 2", "`pingpong 2`: only a `persistent` kernel"),
        (gemm, "kernel: blocks 3", "`blocks 3`: 1, 2, 4 or 8"),
        (gemm, "kernel: blocks 2", "`blocks 2`: products of tiles"),
        (gemm, "kernel: resident 2", "divide the registers of the whole multiprocessor"),
        (gemm, "kernel: cluster 4", "a cluster of 4 blocks: at most 2"),
        (gemm, "kernel: cluster 2, pingpong 2, persistent", "clusters of blocks whose teams"),
        (gemm, "for t: pipeline 40", "shared memory: "),
        (
            gemm,
            "BM = 100",
            "a product of 100 x 128 on 1 warp: each warp takes a multiple of 16 rows and 8 columns",
        ),
        (gemm, "BN = 256, BM = 256", "registers"),
        (ADD, "kernel: warps 33", "`warps 33`: 1 to 32"),
        (ADD, "kernel: resident 0", "`resident 0`: 1 to 32"),
        (ADD, "kernel: resident 33", "`resident 33`: 1 to 32"),
        (ADD, "kernel: warps 8, resident 9", "9 resident blocks of 256 threads"),
        (ADD, "B = 0", "tunable `B` is 0"),
        (ADD, "B = 2097152", "more than 1048576 elements"),
        (ADD, "for t: consumers 2 kernel: warps 4", "`warps 4` contradicts `consumers 2`"),
        (ADD, "kernel: blocks 2, cluster 2", "beside clusters of neighbours"),
    ] {
        let (module, line) = under(kernel, items);
        let refused = match compile(&module.kernels[0], &module.mappings[0], &SM90A, &Options::default()) {
            Ok(_) => panic!("it compiles: {items}"),
            Err(CompileError::Mapping(errors)) => errors[0].to_string(),
            Err(e) => placed(&e, &module.mappings[0]),
        };
        assert!(refused.contains(piece), "{items}: {refused}");
        let in_mapping =
            refused.starts_with(&format!("{line}:")) || refused.contains(&format!("Mapping f.tile:{line}:"));
        assert!(in_mapping || refused.contains("Kernel f.tile:14:"), "{items}: {refused}");
    }
}

/// Words without effect are told, each at its place, and what is printed compiles to the same.
#[test]
fn words_without_effect_are_remarks() {
    let gemm = GEMM.as_str();
    for (kernel, items, word, piece) in [
        (ADD, "for t: pipeline 3", "pipeline", "`pipeline 3` has no effect: nothing that it loads"),
        (ADD, "for t: producers 1", "producers", "none of its loads is a tensor copy"),
        (ADD, "for t: wait 0", "wait", "no products of warpgroups"),
        (ADD, "for t: chunk 32", "chunk", "none of its products"),
        (gemm, "for t: chunk 32", "chunk", "none of its products"),
        (gemm, "for t: mma_order 1, consumers 1", "mma_order", "no two warpgroups"),
        (gemm, "for t: wait 0 kernel: products mma_sync", "wait", "no products of warpgroups"),
        (gemm, "array a: plain", "plain", "products read it in shared memory"),
        (gemm, "array c: staged", "staged", "nothing is loaded from it"),
        (ADD, "array x: stream", "stream", "only copies"),
        (ADD, "array x: before_wait kernel: pdl", "before_wait", "none of its loads is a tensor copy"),
        (gemm, "kernel: raster band_m 16", "raster", "`raster band_m 16` has no effect: the chip orders"),
        (ADD, "kernel: persistent, raster square", "raster", "a grid of rank 1"),
        (gemm, "kernel: persistent, cluster 2, raster band_m 3", "raster", "clusters of 2 make it 2 tiles"),
        (gemm, "kernel: epilogue deferred", "epilogue", "only a `persistent` kernel"),
        (
            gemm,
            "for t: split_k 2 kernel: persistent, epilogue deferred",
            "epilogue",
            "where blocks share out a loop",
        ),
        (
            gemm,
            "for t: stream_k kernel: persistent, epilogue deferred",
            "epilogue",
            "where blocks share out a loop",
        ),
        (ADD, "kernel: persistent, epilogue deferred", "epilogue", "nothing is stored after a product"),
        (gemm, "kernel: persistent, no bulk_store, epilogue deferred", "epilogue", "`no bulk_store` leaves"),
        (gemm, "kernel: chunk 48", "chunk", "no result has columns"),
        (ADD, "kernel: chunk 32", "chunk", "only results of products"),
        (ADD, "kernel: products wgmma", "products", "the kernel has no products"),
    ] {
        let (module, line) = under(kernel, items);
        let made = compile(&module.kernels[0], &module.mappings[0], &SM90A, &Options::default());
        let remarks = made.unwrap_or_else(|e| panic!("{items}: {e}")).explained.lints;
        let [remark] = &remarks[..] else { panic!("{items}: {remarks:?}") };
        assert!(remark.message.contains(piece), "{items}: {remark}");
        let before = format!("mapping {} {{ ", module.kernels[0].name).len() + items.find(word).unwrap();
        assert_eq!((remark.loc.line, remark.loc.column as usize), (line, before + 1), "{items}: {remark}");
    }
}

/// The library says nothing in vain.
#[test]
fn words_of_the_library_have_effects() {
    for text in warplift::kernels::LIBRARY {
        let module = text.parse().unwrap();
        for mapping in &module.mappings {
            let made = compile(&module.kernels[0], mapping, &SM90A, &Options::default()).unwrap();
            assert_eq!(made.explained.lints, [], "{}: {mapping}", text.name);
        }
    }
}

#[test]
fn stores_by_threads_are() {
    for items in ["", "products mma_sync, warps 4,", "products mma_sync, warps 8,"] {
        let copies = |bulk: &str| {
            let (module, _) = under(&GEMM, &format!("kernel: {items} {bulk}"));
            let made = compile(&module.kernels[0], &module.mappings[0], &SM90A, &Options::default()).unwrap();
            made.ptx.contains("cp.async.bulk.tensor.2d.global")
        };
        assert!(copies("pdl") && !copies("no bulk_store"), "{items}");
    }
}

#[test]
fn warps_are_warpgroups_where_products_are_of_these() {
    let (module, _) = under(&GEMM, "kernel: warps 8");
    let made = compile(&module.kernels[0], &module.mappings[0], &SM90A, &Options::default()).unwrap();
    assert!(made.ptx.contains("wgmma") && made.manifest.block == 8 * 32 + 128, "{}", made.manifest.block);
}

/// A product of two loaded tiles, `ta` and `tb`, of these types into sums of another.
fn product([left, right]: [&str; 2], (sum, zero): (&str, &str), [a, b]: [&str; 2], words: &str) -> String {
    let params = format!("a: ptr<{left}> align 16, b: ptr<{right}> align 16, o: ptr<{sum}>");
    let body = format!(
        "ga = view a : {left}[128, 128]\n gb = view b : {right}[128, 128]\n go = view o : {sum}[128, 128]\n \
         ta = load ga[0, 0] : {left}[128, 128]\n tb = load gb[0, 0] : {right}[128, 128]\n \
         z = full {zero} : {sum}[128, 128]\n store go[0, 0], mma(z, {a}, {b})"
    );
    message(&params, &body, &format!("kernel: warps 4{words}"))
}

const WORDS: (&str, &str) = ("i32", "0");
const FLOATS: (&str, &str) = ("f32", "0.0");
const LOADED: [&str; 2] = ["ta", "trans(tb)"];

#[test]
fn bytes_and_words_are_multiplied_along_the_depth() {
    let said = product(["i8"; 2], WORDS, ["ta", "tb"], "");
    assert!(
        said.contains("an operand of i8 must be contiguous along the depth") && said.contains("f.tile:8:"),
        "{said}"
    );
    let said = product(["tf32"; 2], FLOATS, ["trans(ta)", "trans(tb)"], "");
    assert!(said.contains("an operand of tf32 must be contiguous") && said.contains("f.tile:7:"), "{said}");
}

#[test]
fn bytes_are_multiplied_by_warpgroups_as_they_were_loaded() {
    let said = product(["f8e4m3"; 2], FLOATS, ["cast(cast(ta, f32) * 2.0, f8e4m3)", "trans(tb)"], "");
    assert!(said.contains("no product of f8e4m3 with a computed operand: only f16 and bf16"), "{said}");
    let said = product(["i8"; 2], WORDS, ["ta", "trans(neg(tb))"], "");
    assert!(said.contains("no product of i8 with a computed operand"), "{said}");
    let said = product(["f8e5m2"; 2], FLOATS, LOADED, ", products mma_sync");
    assert!(said.contains("no product of f8e5m2 and f8e5m2 into f32 by `mma_sync`: f16 and bf16"), "{said}");
}

#[test]
fn operands_are_of_one_type_or_of_two_of_8_bits() {
    let said = product(["f16", "bf16"], FLOATS, LOADED, "");
    assert!(said.contains("no product of f16 and bf16 into f32: operands of f16, of bf16"), "{said}");
    let said = product(["f8e4m3", "f16"], FLOATS, LOADED, "");
    assert!(said.contains("no product of f8e4m3 and f16 into f32: "), "{said}");
}
