//! Small problems for the library's kernels. On their grids every role works, rings wrap, edges are ragged, and a
//! persistent program takes more than one tile.

use std::path::Path;
use warplift::ir::target::SM90A;
use warplift::ir::tile::{Kernel, Mapping, parse_file};
use warplift::isel::map::{MapContext, do_map};
use warplift::{Compiled, Options, compile};
use warplift_lab::validate::{Given, Reference, Sizes, Style, Validation, ValidationError};

/// A kernel of the library by its file, with sizes and the multiprocessors of the imagined device.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// File name without its ending, or name of a variant.
    pub name: &'static str,
    /// Integer arguments.
    pub sizes: &'static [(&'static str, i64)],
    /// Contents of arrays, as `--data` takes them; the others are drawn.
    pub data: &'static [&'static str],
    /// Multiprocessors.
    pub sms: u32,
    /// Greatest difference from the interpreter; not zero where functions are approximate.
    pub tolerance: f64,
}

/// A kernel of the library under another mapping, by a name of its own.
#[derive(Clone, Copy, Debug)]
pub struct Variant {
    /// Its name.
    pub name: &'static str,
    /// The kernel.
    pub kernel: &'static str,
    /// What stands between the braces of the mapping.
    pub mapping: &'static str,
}

/// The variants: products of warps fed by tensor copies and by copies of their own, tiles that are too low for
/// warpgroups, rows that the blocks of a cluster hold together, and tiles that programs share out.
pub const VARIANTS: &[Variant] = &[
    Variant {
        name: "gemm_mma_sync",
        kernel: "gemm",
        mapping: "BM = 128, BN = 256, BK = 64 for t: pipeline fit \
                  kernel: persistent, raster band_m 16, warps 8, products mma_sync",
    },
    Variant {
        name: "gemm_mma_copies",
        kernel: "gemm",
        mapping: "BM = 128, BN = 256, BK = 64 for t: pipeline 4, producers 0 \
                  kernel: persistent, raster band_m 16, warps 8, products mma_sync",
    },
    Variant {
        name: "gemm_tt_mma_copies",
        kernel: "gemm_tt",
        mapping: "BM = 128, BN = 128, BK = 32 for t: pipeline fit, producers 0 \
                  kernel: warps 4, products mma_sync",
    },
    Variant {
        name: "softmax_blocks",
        kernel: "softmax",
        mapping: "BM = 1, BN = 32768 kernel: warps 4, blocks 8",
    },
    Variant {
        name: "layer_norm_blocks",
        kernel: "layer_norm",
        mapping: "BM = 1, BN = 4096 kernel: persistent, warps 4, blocks 2",
    },
    Variant {
        name: "softmax_strips",
        kernel: "softmax",
        mapping: "BM = 1, BN = 32768 kernel: warps 16, resident 2",
    },
    Variant {
        name: "layer_norm_ahead",
        kernel: "layer_norm",
        mapping: "BM = 1, BN = 16384 kernel: warps 8, persistent, resident 2",
    },
    Variant {
        name: "softmax_stays",
        kernel: "softmax",
        mapping: "BM = 1, BN = 65536 kernel: warps 32, resident 2, pdl array x: staged",
    },
    Variant {
        name: "layer_norm_kept",
        kernel: "layer_norm",
        mapping: "BM = 1, BN = 16384 kernel: warps 32, persistent, pdl array w: staged array b: staged",
    },
    Variant {
        name: "gemm_stream_k",
        kernel: "gemm",
        mapping: "BM = 128, BN = 256, BK = 64 for t: pipeline fit, producers 1, consumers 2, wait 0, stream_k \
                  kernel: persistent, raster band_m 16",
    },
    Variant { name: "gemm_low", kernel: "gemm", mapping: "BM = 16, BN = 64, BK = 128 kernel: persistent" },
];

const fn case(name: &'static str, sizes: &'static [(&'static str, i64)], sms: u32) -> Case {
    Case { name, sizes, data: &[], sms, tolerance: 0.0 }
}

/// A case whose functions are approximate: results of f16 differ by rounding.
const fn close(name: &'static str, sizes: &'static [(&'static str, i64)]) -> Case {
    Case { name, sizes, data: &[], sms: 2, tolerance: 4e-3 }
}

/// A case with approximate functions whose results are rounded to 16 bits on the way.
const fn rough(name: &'static str, sizes: &'static [(&'static str, i64)]) -> Case {
    Case { name, sizes, data: &[], sms: 2, tolerance: 2e-2 }
}

/// A case whose arrays of indices are given.
const fn given(case: Case, data: &'static [&'static str]) -> Case {
    Case { data, ..case }
}

/// The cases.
pub const CASES: &[Case] = &[
    case("gemm", &[("m", 136), ("n", 264), ("k", 328)], 2),
    case("gemm", &[("m", 129), ("n", 264), ("k", 136)], 1),
    case("gemm_mma_sync", &[("m", 136), ("n", 264), ("k", 328)], 2),
    case("gemm_mma_copies", &[("m", 136), ("n", 264), ("k", 328)], 2),
    case("gemm_mma_copies", &[("m", 1), ("n", 8), ("k", 0)], 2),
    case("gemm_tt_mma_copies", &[("m", 136), ("n", 264), ("k", 136)], 2),
    case("gemm_stream_k", &[("m", 392), ("n", 264), ("k", 456)], 5),
    case("gemm_low", &[("m", 33), ("n", 136), ("k", 264)], 2),
    case("gemm_bf16", &[("m", 136), ("n", 264), ("k", 328)], 3),
    case("gemm_f32out", &[("m", 136), ("n", 264), ("k", 136)], 2),
    case("gemm_e4m3", &[("m", 136), ("n", 264), ("k", 656)], 3),
    case("gemm_e4m3", &[("m", 1), ("n", 8), ("k", 16)], 1),
    rough("gemm_e4m3_blocks", &[("m", 200), ("n", 264), ("k", 1536)]),
    rough("gemm_e4m3_blocks", &[("m", 4), ("n", 8), ("k", 512)]),
    rough("gemm_i8_scaled", &[("m", 136), ("n", 264), ("k", 656)]),
    case("gemm_nn", &[("m", 136), ("n", 264), ("k", 328)], 2),
    case("gemm_nn", &[("m", 136), ("n", 264), ("k", 136)], 1),
    case("gemm_tn", &[("m", 136), ("n", 264), ("k", 327)], 2),
    case("gemm_tt", &[("m", 136), ("n", 264), ("k", 328)], 2),
    case("gemm_tt", &[("m", 136), ("n", 264), ("k", 136)], 1),
    case("gemm_any", &[("m", 65), ("n", 67), ("k", 69)], 2),
    case("gemm_any", &[("m", 1), ("n", 8), ("k", 0)], 2),
    case("gemm_dual", &[("m", 136), ("n", 136), ("k", 264)], 1),
    case("gemm_two_outputs", &[("m", 136), ("n", 136), ("k", 264)], 1),
    case("gemm_chain", &[("m", 136), ("n", 128), ("k", 136), ("p", 72)], 2),
    case("gemm_bias_relu_residual", &[("m", 136), ("n", 264), ("k", 328)], 2),
    case("gemm_alpha_beta", &[("m", 136), ("n", 264), ("k", 328), ("alpha", 2), ("beta", 3)], 2),
    case("gemm_batched", &[("batch", 2), ("m", 136), ("n", 264), ("k", 328)], 2),
    given(
        case("gemm_grouped", &[("tiles", 5), ("groups", 4), ("rows", 290), ("n", 264), ("k", 328)], 2),
        &["group=list:0,1,1,3,-1", "first=list:0,3,131,140,0", "offsets=list:0,3,140,140,290"],
    ),
    given(
        case("gemm_ragged", &[("groups", 4), ("rows", 290), ("n", 264), ("k", 328)], 2),
        &["offsets=list:0,3,140,140,290"],
    ),
    case("gemm_rowsum", &[("m", 136), ("n", 264), ("k", 328)], 2),
    rough("gemm_silu", &[("m", 136), ("n", 264), ("k", 328)]),
    rough("swiglu", &[("m", 136), ("n", 264), ("k", 328)]),
    case("a16e4m3", &[("m", 13), ("n", 456), ("k", 640)], 2),
    case("a16w4", &[("m", 13), ("n", 456), ("k", 1152)], 2),
    case("a16w4", &[("m", 17), ("n", 904), ("k", 128)], 2),
    case("a16w4_large", &[("m", 264), ("n", 264), ("k", 512)], 2),
    case("a16w8", &[("m", 13), ("n", 456), ("k", 640)], 2),
    case("axpy", &[("n", 2001)], 2),
    case("row_max", &[("m", 5), ("n", 4100)], 2),
    case("row_sum", &[("m", 5), ("n", 4100)], 2),
    case("transpose", &[("m", 136), ("n", 72)], 2),
    case("cumsum", &[("m", 3), ("n", 2500)], 2),
    case("gemv", &[("m", 5), ("n", 1032)], 2),
    case("gemm_split_k", &[("m", 136), ("n", 136), ("k", 584)], 2),
    case("convert", &[("m", 72), ("n", 136)], 2),
    case("convolution", &[("images", 2), ("height", 9), ("width", 17), ("c", 72), ("f", 264)], 2),
    case("gemm_parts", &[("m", 136), ("n", 136), ("k", 584)], 2),
    case("sum_parts", &[("parts", 3), ("n", 5000)], 2),
    given(
        case(
            "moe_gemm",
            &[("tiles", 4), ("experts", 3), ("tokens", 150), ("top", 2), ("n", 136), ("k", 264)],
            2,
        ),
        &["order=perm", "group=list:0,1,1,2", "first=list:0,100,228,230", "offsets=list:0,100,230,300"],
    ),
    given(
        case(
            "moe_a16w4",
            &[("tiles", 4), ("experts", 3), ("tokens", 30), ("top", 2), ("n", 264), ("k", 384)],
            2,
        ),
        &["order=perm", "group=list:0,1,-1,2", "first=list:0,11,0,27", "offsets=list:0,11,27,60"],
    ),
    given(
        case(
            "moe_e4m3",
            &[("tiles", 4), ("experts", 3), ("tokens", 76), ("top", 2), ("n", 256), ("k", 512)],
            2,
        ),
        &["order=perm", "group=list:0,1,-1,2", "first=list:0,50,0,130", "offsets=list:0,50,130,152"],
    ),
    given(case("moe_route", &[("n", 3000), ("experts", 5), ("tiles", 40)], 2), &["ids=ints:-1..6"]),
    given(case("compaction", &[("n", 5000), ("m", 6144), ("limit", 1)], 2), &["first=list:0,2048,4096"]),
    given(
        case("spmv", &[("m", 50), ("n", 300), ("count", 900)], 2),
        &["starts=sorted:0..900", "columns=ints:-1..301"],
    ),
    case("embedding", &[("m", 21), ("v", 3), ("n", 1032)], 2),
    case("histogram", &[("n", 5000), ("bins", 2)], 2),
    case("gather_rows", &[("m", 2), ("n", 200), ("p", 1032)], 2),
    rough("attention", &[("batch", 1), ("heads", 2), ("queries", 130), ("keys", 330)]),
    rough("attention_causal", &[("batch", 2), ("heads", 1), ("length", 290)]),
    rough("attention_max_free", &[("batch", 1), ("heads", 2), ("queries", 130), ("keys", 330)]),
    rough("attention_causal_max_free", &[("batch", 2), ("heads", 1), ("length", 290)]),
    given(
        rough(
            "attention_paged",
            &[
                ("batch", 2),
                ("queries", 130),
                ("heads", 4),
                ("kv_heads", 2),
                ("pages", 5),
                ("page", 128),
                ("most", 2),
            ],
        ),
        &["table=list:4,0,5,-1", "lengths=list:200,65"],
    ),
    given(
        rough(
            "attention_paged",
            &[
                ("batch", 3),
                ("queries", 1),
                ("heads", 2),
                ("kv_heads", 1),
                ("pages", 3),
                ("page", 256),
                ("most", 2),
            ],
        ),
        &["table=list:2,0,1,1,0,0", "lengths=list:500,0,1"],
    ),
    rough("attention_decode", &[("batch", 2), ("kv_heads", 2), ("group", 5), ("keys", 700), ("splits", 3)]),
    rough("attention_decode", &[("batch", 1), ("kv_heads", 1), ("group", 1), ("keys", 1), ("splits", 4)]),
    rough("attention_decode", &[("batch", 1), ("kv_heads", 1), ("group", 13), ("keys", 300), ("splits", 9)]),
    given(
        rough(
            "attention_varlen",
            &[
                ("tiles", 4),
                ("sequences", 3),
                ("rows_q", 300),
                ("rows_k", 500),
                ("heads", 2),
                ("kv_heads", 1),
            ],
        ),
        &[
            "sequence=list:0,0,1,-1",
            "first=list:0,128,0,0",
            "starts_q=list:0,200,230,300",
            "starts_k=list:0,300,301,500",
        ],
    ),
    rough("attention_f16", &[("batch", 1), ("heads", 1), ("queries", 200), ("keys", 129)]),
    close("softmax", &[("m", 3), ("n", 1000)]),
    close("softmax_blocks", &[("m", 2), ("n", 20000)]),
    close("layer_norm_blocks", &[("m", 5), ("n", 4000)]),
    close("softmax_long", &[("m", 2), ("n", 5000)]),
    close("softmax_warp_specialized", &[("m", 5), ("n", 20000)]),
    close("layer_norm_warp_specialized", &[("m", 5), ("n", 20000)]),
    close("rms_norm", &[("m", 3), ("n", 1000)]),
    close("layer_norm", &[("m", 3), ("n", 1000)]),
];

/// A kernel of the library with its mapping, or a variant of one.
///
/// # Panics
/// If there is none of that name, or it does not parse: then the library is broken.
pub fn load(name: &str) -> (Kernel, Mapping) {
    if let Some(v) = VARIANTS.iter().find(|v| v.name == name) {
        let (kernel, _) = load(v.kernel);
        let text = format!("mapping {} {{ {} }}", v.kernel, v.mapping);
        let mut module = parse_file(&text, name).unwrap_or_else(|e| panic!("{name}: {e:?}"));
        return (kernel, module.mappings.remove(0));
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../driver/kernels/{name}.tile"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let module = parse_file(&text, name).unwrap_or_else(|e| panic!("{name}: {e:?}"));
    (module.kernels[0].clone(), module.mappings[0].clone())
}

/// A kernel under a mapping that is written as text.
///
/// # Panics
/// If the text is no mapping: then the test is wrong.
pub fn with_mapping(kernel: &Kernel, mapping: &str) -> (Kernel, Mapping) {
    let text = format!("{kernel}\nmapping {} {{\n{mapping}\n}}\n", kernel.name);
    let mut module = parse_file(&text, "test.tile").unwrap_or_else(|e| panic!("{e:?}\n{text}"));
    (module.kernels.remove(0), module.mappings.remove(0))
}

/// A kernel of the library under a mapping that is written as text.
///
/// # Panics
/// As [`load`] and [`with_mapping`].
pub fn remapped(name: &str, mapping: &str) -> (Kernel, Mapping) {
    with_mapping(&load(name).0, mapping)
}

/// A kernel compiled under a mapping, each state verified.
///
/// # Panics
/// If it is refused: then the test is wrong, or the compiler.
pub fn compiled(kernel: &Kernel, mapping: &Mapping) -> Compiled {
    let options = Options { verify: true, ..Options::default() };
    compile(kernel, mapping, &SM90A, &options).unwrap_or_else(|e| panic!("{mapping}: {e}"))
}

/// A kernel on sizes, with data and the interpreter's results.
///
/// # Panics
/// If the sizes are not the kernel's or it has no meaning: then the test is wrong.
pub fn reference<'a>(
    kernel: &'a Kernel,
    mapping: &Mapping,
    sizes: &[(&str, i64)],
    seed: u64,
) -> Reference<'a> {
    reference_on(kernel, mapping, (sizes, &[]), seed)
}

/// The same on given contents of arrays.
///
/// # Panics
/// As [`reference()`], or if the contents do not fit.
pub fn reference_on<'a>(
    kernel: &'a Kernel,
    mapping: &Mapping,
    (sizes, data): (&[(&str, i64)], &[&str]),
    seed: u64,
) -> Reference<'a> {
    let wrong = |e: ValidationError| -> ! { panic!("{} {sizes:?}: {e}", kernel.name) };
    let sizes = Sizes::of(kernel, sizes).unwrap_or_else(|e| wrong(e.into()));
    let given = Given::parse(data.iter().copied()).unwrap_or_else(|e| wrong(e.into()));
    let validation = Validation::new(kernel, mapping, sizes).and_then(|v| v.with_data(given));
    let validation = validation.unwrap_or_else(|e| wrong(e));
    validation.reference(Style::Integers, seed).unwrap_or_else(|e| wrong(e))
}

/// A kernel under its mapping, in the form that the rule chooses.
///
/// # Errors
/// What the mapping makes impossible.
pub fn in_rules_form(kernel: &Kernel, mapping: &Mapping) -> warplift::isel::Result<Kernel> {
    let variants = do_map(kernel, &MapContext::new(mapping, &SM90A, &[]))?;
    Ok(variants[0].kernel.clone())
}
