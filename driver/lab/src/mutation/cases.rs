//! The cases of the mutation proof: pipelines of the library, and problems that reach every line of each.
//!
//! A ring's slot must be used more often than its barrier has arrivals: a wrong count then drifts into a wrong phase.
//! Every wait with a computed parity must meet both parities: the iterations of a tile are no multiple of the ring's
//! depth. Every store must store something, that of the last tile too. A program must take several tiles, so that it
//! reuses the buffers of results. Short loops reach the other paths through a program.

use warplift_sim::mutate::Mutation;

/// A kernel of the library under a mapping.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Kernel.
    pub kernel: &'static str,
    /// What the replacements make of the kernel; empty: it stands as in the library.
    pub name: &'static str,
    /// What is replaced, and by what.
    pub edits: &'static [(&'static str, &'static str)],
    /// Lines of a mapping, `; ` between them; empty: the kernel's own.
    pub mapping: &'static str,
    /// Sizes, and multiprocessors of the imagined device.
    pub problems: &'static [(&'static str, u32)],
    /// Contents of arrays in all problems, as `--data` takes them; the others are drawn.
    pub data: &'static [&'static str],
    /// Equivalent mutants whose reason no rule can read from the text.
    pub known: &'static [Known],
    /// Equivalent mutants of a class that are allowed, where that is more than the class's share of the case.
    pub caps: &'static [(Mutation, usize)],
}

/// A mutant that is known to be equivalent.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// The mutation: the beginning of its description after the line's number, and a further part.
    pub parts: [&'static str; 2],
    /// How many mutants of the case it names.
    pub mutants: usize,
    /// Why.
    pub why: &'static str,
}

impl Known {
    /// Whether a mutant's description matches.
    pub fn names(&self, description: &str) -> bool {
        let what = description.split_once(": ").map_or("", |d| d.1);
        what.starts_with(self.parts[0]) && what.contains(self.parts[1])
    }
}

impl Case {
    /// Kernel and mapping.
    pub fn name(&self) -> String {
        let kernel = format!("{} {}", self.kernel, self.name);
        match self.mapping {
            "" => kernel.trim_end().to_owned(),
            mapping => format!("{} {{ {mapping} }}", kernel.trim_end()),
        }
    }
}

/// The cases of one kernel of the library.
pub fn find(kernel: &str) -> impl Iterator<Item = &'static Case> {
    CASES.iter().filter(move |c| c.kernel == kernel)
}

const fn case(kernel: &'static str, mapping: &'static str, problems: &'static [(&'static str, u32)]) -> Case {
    Case { kernel, name: "", edits: &[], mapping, problems, data: &[], known: &[], caps: &[] }
}

/// A product that is added to what C holds.
const fn in_place(case: Case) -> Case {
    const EDITS: &[(&str, &str)] = &[
        ("k: i32 % 8)", "k: i32 % 8, alpha: f32, beta: f32)"),
        (
            "    store gc[i*BM, j*BN], cast(acc, f16)\n",
            "    old = load gc[i*BM, j*BN] : f16[BM, BN]\n    r = alpha * acc + beta * cast(old, f32)\n    \
             store gc[i*BM, j*BN], cast(r, f16)\n",
        ),
    ];
    Case { name: "in place", edits: EDITS, ..case }
}

/// A product whose depth two loops share out, one behind the other.
const fn in_two_loops(case: Case) -> Case {
    const EDITS: &[(&str, &str)] = &[(
        "    acc = for t in 0..cdiv(k, BK) carry x = zero {\n",
        "    half = cdiv(k, 2*BK)
    first = for u in 0..half carry w = zero {
        ua = load ga[i*BM, u*BK] : f16[BM, BK]
        ub = load gb[j*BN, u*BK] : f16[BN, BK]
        yield mma w, ua, trans(ub)
    }
    acc = for t in half..cdiv(k, BK) carry x = first {\n",
    )];
    Case { name: "in two loops", edits: EDITS, ..case }
}

const fn given(case: Case, data: &'static [&'static str]) -> Case {
    Case { data, ..case }
}

const fn knowing(case: Case, known: &'static [Known]) -> Case {
    Case { known, ..case }
}

/// Ends of clusters, fences of copies and products that join others make these the same programs by a rule; few mutants of
/// their class are made of such short programs.
const fn capped(case: Case, caps: &'static [(Mutation, usize)]) -> Case {
    Case { caps, ..case }
}

/// A late initialisation of a barrier of the ring that one half of a tile's work fills for the other, but of its first full
/// one: by a consumer's thread, which meets the other consumers in the row's reduction before any of them touches it;
/// epilogue warps first wait for that full one, which is filled behind the meeting.
const fn handed(barrier: &'static str) -> Known {
    Known {
        parts: ["moved behind", barrier],
        mutants: 1,
        why: "the ring of what is handed on is first touched behind a meeting of consumers",
    }
}

/// Scales are loaded an iteration ahead and handed back last in one.
const AHEAD: &[Known] = &[Known {
    parts: ["wait not repeated", "$producer_wait1;"],
    mutants: 1,
    why: "the producer waited for the scales' stage, which is handed back behind that of x",
}];

/// A fence behind the barrier instead of before it, where ordinary stores come before both: no rule sees what those write.
const GATHERED: &[Known] = &[
    Known {
        parts: ["moved behind", "`bar.sync`: `fence.proxy.async.shared::cta;`"],
        mutants: 3,
        why: OWN_FENCE,
    },
    Known {
        parts: ["moved before", "`fence.proxy.async.shared::cta`: `bar.sync 1, 256;`"],
        mutants: 3,
        why: OWN_FENCE,
    },
];
/// The second stage of the queries is of the second tile.
const SECOND_STAGE: &[Known] = &[Known {
    parts: ["moved behind", "`bar.sync`: `@%p3 mbarrier.init.shared::cta.b64 [%r22], 4;`"],
    mutants: 1,
    why: "the warp that sets the barrier up meets the others in the first tile's exchanges, before any of them arrives at it",
}];
const OWN_FENCE: &str = "each reader's own fence covers the copies that the barrier told it of; ordinary stores write the \
     numbers of rows, which threads read";

/// For a deferred epilogue over tiles of 128 x 256: loops too short for it, in few tiles and in many, and long
/// ones.
const DEFERRED: &[(&str, u32)] = &[("136x264x64", 1), ("1288x8x192", 1), ("136x504x1344", 1)];

/// Epilogues that read a tile. A stage of the main loop's ring, or of the tile's, is filled again before the producer has
/// to wait for the other, in long loops (as many iterations as stages) and in short ones (some fewer). With another number
/// of stages one wait covers the other, and what stands before one of the hand-backs could go.
const READING: &str = "BM = 128, BN = 256, BK = 32; for t: pipeline 5, producers 1, consumers 2, wait 0; kernel: persistent, epilogue deferred";
const READ_TILES: &[(&str, u32)] = &[("136x1016x96", 1), ("392x504x128", 1), ("136x504x416", 1)];

/// The cases.
pub const CASES: &[Case] = &[
    case(
        "gemm",
        "BM = 64, BN = 128, BK = 32; for t: pipeline 3, producers 1, consumers 1, wait 0; \
         kernel: persistent, raster band_m 16, epilogue deferred",
        &[("136x136x32", 1), ("712x8x32", 1), ("136x200x712", 1)],
    ),
    case("gemm", "", DEFERRED),
    in_place(case("gemm", READING, READ_TILES)),
    case("gemm_bf16", "", DEFERRED),
    case("gemm_e4m3", "", DEFERRED),
    case("gemm_e4m3_blocks", "", &[("200x264x512", 1), ("200x136x1536", 1)]),
    case(
        "gemm_i8_scaled",
        "BM = 128, BN = 256, BK = 32; for t: pipeline 8, producers 1, consumers 2, wait 0; kernel: persistent, epilogue deferred",
        &[("136x1016x96", 1), ("392x504x128", 1), ("520x504x160", 1)],
    ),
    case("gemm_f32out", "", DEFERRED),
    case("gemm_nn", "", DEFERRED),
    case("gemm_tn", "", DEFERRED),
    case("gemm_tt", "", DEFERRED),
    case("gemm_two_outputs", "", &[("136x200x1344", 1)]),
    case("gemm_dual", "", &[("136x200x1344", 1)]),
    case("gemm_bias_relu_residual", READING, READ_TILES),
    case("gemm_silu", "", DEFERRED),
    case("gemm_rowsum", "", DEFERRED),
    case("swiglu", "", &[("136x200x1344", 1)]),
    case("gemm_chain", "", &[("m=136,n=128,k=576,p=72", 1), ("m=5120,n=64,k=64,p=72", 1)]),
    case("gemm_any", "", &[("65x67x69", 2), ("129x130x157", 2), ("1x8x0", 2)]),
    // Extents, coordinates and trips from memory: groups that end within a tile, an empty one, a tile of no group.
    given(
        case(
            "gemm_grouped",
            "",
            &[("tiles=5,groups=4,rows=290,n=264,k=1344", 1), ("tiles=5,groups=4,rows=290,n=1280,k=64", 1)],
        ),
        &["group=list:0,1,1,-1,3", "first=list:0,3,131,0,140", "offsets=list:0,3,140,140,290"],
    ),
    capped(
        knowing(
            given(
                case(
                    "moe_gemm",
                    "",
                    &[
                        ("tiles=5,experts=4,tokens=145,top=2,n=264,k=1344", 1),
                        ("tiles=5,experts=4,tokens=145,top=2,n=1288,k=64", 1),
                    ],
                ),
                &[
                    "order=perm",
                    "group=list:0,1,1,3,-1",
                    "first=list:0,3,131,140,0",
                    "offsets=list:0,3,140,140,290",
                ],
            ),
            GATHERED,
        ),
        &[(Mutation::Move, 6)],
    ),
    // Boxes of four dimensions, and stores of them.
    case(
        "convolution",
        "TH = 4, TW = 16, BF = 64, BC = 32; for t: pipeline 3, producers 1, consumers 1; kernel: persistent",
        &[("images=2,height=5,width=17,c=40,f=72", 1), ("images=1,height=4,width=33,c=32,f=64", 2)],
    ),
    // Loops one behind the other at one ring: the second goes on in the middle of it.
    in_two_loops(case(
        "gemm",
        "BM = 64, BN = 64, BK = 32; for u: pipeline 3, consumers 1; for t: pipeline 3, consumers 1; kernel: persistent",
        &[("136x72x328", 1), ("136x136x32", 2)],
    )),
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
        &[("264x136x32", 1), ("1416x8x32", 1), ("264x136x64", 1), ("264x200x712", 1)],
    ),
    // Tiles from a counter: drawn by a producer for the consumers, and by a thread for the block.
    case(
        "gemm",
        "BM = 64, BN = 64, BK = 32; for t: pipeline 3, consumers 1; kernel: persistent, raster counter",
        // In loops shorter than their ring the ring of tiles alone holds the producer back.
        &[("328x136x32", 1), ("264x136x328", 2), ("712x72x8", 2), ("200x136x0", 1)],
    ),
    // Its threads meet nowhere else, so that the slots of the number are needed.
    case("axpy", "B = 512; kernel: persistent, warps 4, raster counter", &[("n=5000", 2)]),
    // Teams that take tiles in turn.
    case(
        "gemm",
        "BM = 64, BN = 64, BK = 64; for t: pipeline fit, producers 1, consumers 1; \
         kernel: persistent, pingpong 2",
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
        &[("392x264x32", 2), ("4104x264x32", 2), ("392x328x712", 2)],
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
    // One tile a block.
    case("gemm", "BM = 64, BN = 64, BK = 32; for t: pipeline 3, consumers 1, wait 0", &[("72x72x648", 2)]),
    case(
        "gemm",
        "BM = 64, BN = 64, BK = 32; for t: pipeline 3, consumers 1, wait 1",
        &[("72x72x648", 2), ("8x8x32", 2)],
    ),
    case(
        "gemm_dual",
        "BM = 64, BN = 64, BK = 32; for t: pipeline 3, consumers 1",
        &[("72x72x648", 2), ("8x8x32", 2)],
    ),
    capped(
        case(
            "gemm",
            "BM = 64, BN = 64, BK = 32; for t: pipeline 3, consumers 1; kernel: cluster 2",
            &[("136x72x648", 4), ("8x8x32", 2)],
        ),
        &[(Mutation::Move, 2)],
    ),
    case(
        "gemm",
        "BM = 64, BN = 64, BK = 32; for t: pipeline 3; kernel: warps 4, products mma_sync",
        &[("72x64x648", 2)],
    ),
    case(
        "gemm_tt",
        "BM = 64, BN = 64, BK = 32; for t: pipeline 3, producers 0; kernel: warps 4, products mma_sync",
        &[("72x64x456", 2), ("72x64x32", 2)],
    ),
    // Copies of the threads ahead of products of warpgroups. They are issued behind the wait for the stage before, so two
    // more moves are the same program by the rule of copies.
    capped(
        case(
            "gemm",
            "BM = 128, BN = 64, BK = 32; for t: pipeline 3, producers 0, consumers 2; kernel: persistent",
            &[("264x64x456", 1), ("264x64x32", 1)],
        ),
        &[(Mutation::Move, 4)],
    ),
    // Iterations that blocks share out: counters, and parts in memory.
    case(
        "gemm",
        "BM = 64, BN = 64, BK = 32; for t: pipeline 3, consumers 1, split_k 3",
        &[("72x72x968", 2), ("8x8x32", 2)],
    ),
    case(
        "gemm",
        "BM = 64, BN = 64, BK = 32; for t: pipeline 3, consumers 1, split_k 2; kernel: persistent",
        &[("136x136x328", 4)],
    ),
    // The same where programs share out the tiles of no whole wave: tiles of two parts and of four, and whole ones.
    case(
        "gemm_bf16",
        "BM = 64, BN = 64, BK = 32; for t: pipeline 3, consumers 1, stream_k; kernel: persistent",
        &[("264x72x328", 4), ("72x72x456", 11), ("136x136x32", 3)],
    ),
    case("gemm_split_k", "", &[("136x136x9600", 2)]),
    case(
        "gemm_split_k",
        "BM = 64, BN = 64, BK = 32, S = 2; for t: pipeline 3, consumers 1",
        &[("72x72x1304", 2), ("8x8x32", 2)],
    ),
    // Loops whose body holds work of several iterations.
    case(
        "attention",
        "",
        &[
            ("batch=1,heads=1,queries=136,keys=2500", 1),
            ("batch=1,heads=8,queries=136,keys=60", 1),
            ("batch=1,heads=8,queries=136,keys=130", 1),
        ],
    ),
    given(
        case(
            "attention_paged",
            "",
            &[("batch=9,queries=136,heads=1,kv_heads=1,pages=21,page=128,most=20", 1)],
        ),
        &["table=ints:0..20", "lengths=list:60,2500,60,60,0,130,130,130,257"],
    ),
    // Boxes of 16 rows, each at the number of its page.
    knowing(
        given(
            case(
                "attention_decode_paged",
                "BM = 64, BN = 64, D = 64; for t: pipeline 3, producers 1, consumers 1; kernel: persistent, no bulk_store",
                &[("batch=3,kv_heads=2,group=3,pages=60,page=16,most=90,splits=2", 2)],
            ),
            &["table=ints:0..60", "lengths=list:1300,60,129"],
        ),
        SECOND_STAGE,
    ),
    case(
        "attention_causal",
        "BM = 128, BN = 64, D = 64; for t: pipeline 2, producers 1, consumers 2",
        &[("batch=1,heads=1,length=1300", 2)],
    ),
    case(
        "attention_f16",
        "BM = 64, BN = 64, D = 64; for t: pipeline 3, producers 1, consumers 1; kernel: persistent",
        &[
            ("batch=1,heads=1,queries=72,keys=1300", 1),
            ("batch=1,heads=12,queries=72,keys=60", 1),
            ("batch=1,heads=12,queries=72,keys=130", 1),
        ],
    ),
    // Narrow weights, packed and as they stand.
    capped(case("a16w4", "", &[("20x456x2560", 2)]), &[(Mutation::Remove, 18), (Mutation::Corrupt, 12)]),
    knowing(
        case(
            "a16w4",
            "BN = 64, BM = 16, GROUP = 128; for t: pipeline 3, producers 1, consumers 1; array w: plain array s: staged",
            &[
                ("20x72x1920", 2),
                ("20x1032x256", 2),
                ("20x1032x128", 2),
                ("20x72x384", 2),
                ("20x1032x640", 2),
            ],
        ),
        AHEAD,
    ),
    case("a16w4_large", "", &[("264x136x1280", 1)]),
    // Grids that start before the ones before them have ended.
    case(
        "gemm",
        "BM = 64, BN = 64, BK = 32; for t: pipeline 3, consumers 1; array b: before_wait; kernel: persistent, pdl",
        &[("136x72x328", 1), ("136x136x32", 2)],
    ),
    case(
        "gemm_any",
        "BM = 64, BN = 64, BK = 32; for t: pipeline 2, producers 0; kernel: warps 4, products mma_sync, pdl",
        &[("65x67x69", 2)],
    ),
    case("softmax", "BM = 1, BN = 1024; kernel: warps 4, pdl", &[("3x1000", 2)]),
    // Rows, scans and exchanges.
    case("axpy", "", &[("n=5000", 2)]),
    case("row_max", "", &[("5x6200", 2)]),
    case("row_sum", "", &[("5x6200", 2)]),
    case("softmax", "BM = 1, BN = 1024; kernel: warps 4", &[("3x1000", 2)]),
    // Rows that the blocks of a cluster hold together: once, and again in the same buffers.
    case("softmax", "BM = 1, BN = 2048; kernel: warps 2, blocks 4", &[("3x2000", 2)]),
    case("rms_norm", "BM = 1, BN = 1024; kernel: persistent, warps 2, blocks 2", &[("m=5,n=1000", 2)]),
    case("softmax_long", "BM = 1, BN = 512; kernel: warps 4", &[("3x1200", 2)]),
    // Halves of a row by warps of their own, in more stages than the ring has.
    capped(
        knowing(
            case(
                "softmax_warp_specialized",
                "BM = 1, BN = 4096; for t: pipeline 16; kernel: persistent, warps 4, epilogue warps; array x: staged",
                &[("23x12200", 2)],
            ),
            &[handed("[%r16], 4;"), handed("[%r20], 4;"), handed("[%r24], 4;")],
        ),
        &[(Mutation::Move, 3)],
    ),
    // The same, with a thread of its own for copies that only epilogue warps read.
    knowing(
        case(
            "layer_norm_warp_specialized",
            "BM = 1, BN = 4096; for t: pipeline 16; for u: pipeline 2; kernel: persistent, warps 4, epilogue warps; \
             array x: staged; array w: staged; array b: staged",
            &[("m=23,n=9000", 2)],
        ),
        &[handed("[%r32], 4;"), handed("[%r36], 4;"), handed("[%r40], 4;")],
    ),
    // And with data common to all rows held in registers: a body for each iteration, all of them run. A row has 16 stages,
    // which no depth here divides, so that within 18 rows every body meets the end of either ring, and goes on behind it.
    // (With depths of 24 and 4 the last body would meet one slot in three, and one slot and phase of the other ring.)
    knowing(
        case(
            "layer_norm_warp_specialized",
            "BM = 1, BN = 4096; for t: pipeline 17; for u: pipeline 3; kernel: persistent, warps 8, epilogue warps, pdl; \
             array x: staged; array w: before_wait; array b: staged",
            &[("m=18,n=65000", 1), ("m=23,n=9000", 2)],
        ),
        &[handed("[%r49], 8;"), handed("[%r53], 8;"), handed("[%r57], 8;")],
    ),
    case("rms_norm", "BM = 1, BN = 1024; kernel: warps 4", &[("m=3,n=1000", 2)]),
    case("layer_norm", "BM = 1, BN = 1024; kernel: warps 4", &[("m=3,n=1000", 2)]),
    // In strips; with the next tile's loads under this one.
    case("layer_norm", "BM = 1, BN = 4096; kernel: warps 2, resident 12", &[("m=3,n=4000", 2)]),
    case("softmax", "BM = 1, BN = 2048; kernel: persistent, warps 2, resident 12", &[("m=61,n=2000", 2)]),
    case("transpose", "BM = 64, BN = 64; kernel: warps 4", &[("136x200", 2)]),
    case("cumsum", "BM = 4, BN = 128; kernel: warps 4", &[("5x300", 2)]),
    case("gemv", "BM = 4, BN = 256; kernel: warps 4", &[("5x600", 2)]),
    // Groups of rows: the next tile may have no iterations, so that the stores of the last one cannot wait.
    given(
        case(
            "gemm_grouped",
            "BM = 128, BN = 64, BK = 64; for t: pipeline 3, producers 1, consumers 2, wait 0; kernel: persistent, epilogue deferred",
            &[("tiles=6,groups=4,rows=290,n=136,k=456", 2)],
        ),
        &["group=list:0,-1,1,1,-1,3", "first=list:0,0,3,131,0,140", "offsets=list:0,3,140,140,290"],
    ),
    // A search by a loop with a condition, in every role; tiles that are left over have no iterations.
    given(
        case(
            "gemm_ragged",
            "BM = 128, BN = 64, BK = 64; for t: pipeline 3, producers 1, consumers 2, wait 0; kernel: persistent",
            &[("groups=4,rows=290,n=136,k=456", 2), ("groups=4,rows=290,n=136,k=136", 2)],
        ),
        &["offsets=list:0,3,140,140,290"],
    ),
    case("embedding", "BM = 8, BN = 256; kernel: warps 4", &[("m=21,v=5,n=520", 2)]),
    // Numbers that reach the first words that a thread loads and the last ones that it sets to zero.
    given(
        case(
            "histogram",
            "B = 128, BLOCKS = 2; kernel: warps 4",
            &[("n=900,bins=4096", 2), ("n=300,bins=5000", 2)],
        ),
        &["x=ints:0..4200"],
    ),
    given(
        case(
            "histogram",
            "B = 128, BLOCKS = 2; array x: staged; for t: pipeline 3; kernel: warps 4",
            &[("n=1800,bins=4096", 2), ("n=1800,bins=5000", 2)],
        ),
        &["x=ints:0..4200"],
    ),
    case("gather_rows", "BM = 1, BN = 512, BP = 128; kernel: warps 4", &[("m=3,n=400,p=200", 2)]),
];
