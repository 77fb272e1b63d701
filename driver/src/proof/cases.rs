//! What the mutation proof covers: pipelines of the library, and problems that reach every line of each.
//!
//! A ring's slot must be used more often than its barrier has arrivals, so that a wrong count drifts into a
//! wrong phase; a program must take several tiles, so that buffers of results are used again; short loops
//! reach the other ways through a program.

/// A kernel of the library under a mapping.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Kernel.
    pub kernel: &'static str,
    /// Lines of a mapping, `; ` between them; empty: the kernel's own.
    pub mapping: &'static str,
    /// Sizes, and multiprocessors of the device imagined.
    pub problems: &'static [(&'static str, u32)],
}

impl Case {
    /// Kernel and mapping.
    pub fn name(&self) -> String {
        match self.mapping {
            "" => self.kernel.to_owned(),
            mapping => format!("{} {{ {mapping} }}", self.kernel),
        }
    }
}

/// The cases of one kernel of the library.
pub fn find(kernel: &str) -> impl Iterator<Item = &'static Case> {
    CASES.iter().filter(move |c| c.kernel == kernel)
}

const fn case(kernel: &'static str, mapping: &'static str, problems: &'static [(&'static str, u32)]) -> Case {
    Case { kernel, mapping, problems }
}

/// For a deferred epilogue over tiles of 128 x 256: loops too short for it, in few tiles and in many, and long
/// ones.
const DEFERRED: &[(&str, u32)] = &[("136x264x64", 1), ("1288x8x192", 1), ("136x264x2560", 1)];

/// The cases.
pub const CASES: &[Case] = &[
    case(
        "gemm",
        "BM = 64, BN = 128, BK = 32; for t: pipeline 3, producers 1, consumers 1, wait 0; \
         kernel: persistent, raster band_m 16, epilogue deferred",
        &[("136x136x32", 1), ("712x8x32", 1), ("136x136x648", 1)],
    ),
    case("gemm", "", DEFERRED),
    case("gemm_bf16", "", DEFERRED),
    case("gemm_f32out", "", DEFERRED),
    case("gemm_nn", "", DEFERRED),
    case("gemm_tn", "", DEFERRED),
    case("gemm_tt", "", DEFERRED),
    case("gemm_two_outputs", "", &[("136x136x1280", 1)]),
    case("gemm_dual", "", &[("136x136x1280", 1)]),
    case("gemm_bias_relu_residual", "", &[("136x264x2560", 1)]),
    case("gemm_chain", "", &[("m=136,n=128,k=576,p=72", 1), ("m=5120,n=64,k=64,p=72", 1)]),
    case("gemm_any", "", &[("65x67x69", 2), ("129x130x133", 2), ("1x8x0", 2)]),
    // Products in flight over an iteration.
    case(
        "gemm",
        "BM = 64, BN = 64, BK = 32; for t: pipeline 3, consumers 1, wait 1; kernel: persistent",
        &[("136x72x328", 1), ("136x136x32", 2)],
    ),
    case(
        "gemm",
        "BM = 128, BN = 128, BK = 32; for t: pipeline 3, consumers 2, wait 1; \
         kernel: persistent, epilogue deferred",
        &[("264x136x32", 1), ("1416x8x32", 1), ("264x136x712", 1)],
    ),
    // Teams that take tiles in turn.
    case(
        "gemm",
        "BM = 64, BN = 64, BK = 64; for t: pipeline fit, producers 1, consumers 1; \
         kernel: persistent, alternate 2",
        &[("264x136x328", 1), ("328x72x1288", 1)],
    ),
    // Blocks that share loads.
    case(
        "gemm",
        "BM = 64, BN = 64, BK = 32; for t: pipeline 3, consumers 1; kernel: persistent, cluster 2",
        &[("136x72x104", 4), ("328x136x328", 2)],
    ),
    case(
        "gemm",
        "BM = 128, BN = 128, BK = 32; for t: consumers 2; \
         kernel: persistent, cluster 2, raster band_m 2, epilogue deferred",
        &[("392x264x32", 2), ("4104x264x32", 2), ("392x264x648", 2)],
    ),
    // Products of warps, fed by tensor copies, by copies of the threads ahead and in place.
    case(
        "gemm",
        "BM = 64, BN = 64, BK = 32; for t: pipeline 3; kernel: persistent, warps 4, products mma_sync",
        &[("136x64x456", 1), ("136x64x32", 1)],
    ),
    case(
        "gemm",
        "BM = 64, BN = 64, BK = 32; for t: pipeline 3, producers 0; \
         kernel: persistent, warps 4, products mma_sync",
        &[("136x64x456", 1), ("136x64x32", 1)],
    ),
    case(
        "gemm_nn",
        "BM = 32, BN = 64, BK = 32; for t: pipeline 1, producers 0; kernel: persistent, warps 2",
        &[("136x64x456", 1), ("136x64x32", 1)],
    ),
    case("axpy", "", &[("n=5000", 2)]),
    case("row_max", "", &[("33x516", 2)]),
    case("row_sum", "", &[("33x516", 2)]),
];
