//! Every attribute of an instruction and every word of a mapping prints, and the text reads back to the same.

use super::*;
use crate::layout::Layout;
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;

const KERNEL: &str = "kernel rows(x: ptr<f32>, y: ptr<f32>, n: i32) {
    grid cdiv(n, 8)
    gx = view x : f32[n]
    gy = view y : f32[n]
    i = block_index
    zero = full 0.0 : f32[8]
    sum = for t in 0..n carry s = zero {
        tile = load gx[i * 8] : f32[8]
        yield s + tile
    }
    store gy[i * 8], sum
}";

fn layouts() -> impl Strategy<Value = Layout> {
    let texts =
        vec!["(reg: 8:1@d0) -> (d0: 8)", "(reg: 2:1@d1 2:8@d0, lane: 4:2@d1 8:1@d0) -> (d0: 16, d1: 8)"];
    select(texts).prop_map(|text| text.parse().expect("a layout"))
}

fn count() -> impl Strategy<Value = u32> {
    1..100u32
}

fn loops() -> impl Strategy<Value = LoopMapping> {
    let pipeline = prop_oneof![Just(Depth::Fit), count().prop_map(Depth::Stages)];
    let counts =
        (of(count()), of(count()), of(count()), of(count()), of(0..2u32), of(count()), any::<bool>());
    (pipeline, counts).prop_map(
        |(pipeline, (producers, consumers, wait, chunk, mma_order, split_k, stream_k))| LoopMapping {
            pipeline,
            producers,
            consumers,
            wait,
            chunk,
            mma_order,
            split_k,
            stream_k,
        },
    )
}

fn arrays() -> impl Strategy<Value = ArrayMapping> {
    let ways = vec![Way::Fit, Way::Plain, Way::Staged, Way::Packed];
    (select(ways), any::<[bool; 2]>()).prop_map(|(way, [stream, before_wait])| ArrayMapping {
        way,
        stream,
        before_wait,
    })
}

fn attributes() -> impl Strategy<Value = Attrs> {
    let team = prop_oneof![
        Just(Team::None),
        Just(Team::Thread),
        count().prop_map(Team::Warps),
        count().prop_map(Team::Warpgroups)
    ];
    let warp_grid = (count(), count(), any::<bool>()).prop_map(|(rows, columns, contiguous)| WarpGrid {
        rows,
        columns,
        contiguous,
    });
    (team, of(loops()), any::<[bool; 8]>(), of(0..3u32), arrays(), of(layouts()), of(warp_grid)).prop_map(
        |(team, looped, flags, below, array, layout, warp_grid)| {
            let [persistent, index, deferred, by_threads, ahead, in_parts, operand, trips] = flags;
            Attrs {
                team,
                looped,
                persistent,
                index,
                below,
                deferred,
                by_threads,
                ahead,
                in_parts,
                operand,
                trips,
                array,
                layout: layout.map(Box::new),
                warp_grid,
            }
        },
    )
}

fn wholes() -> impl Strategy<Value = KernelMapping> {
    let raster = prop_oneof![
        Just(Raster::Linear),
        Just(Raster::Paired),
        Just(Raster::Square),
        count().prop_map(Raster::BandM),
        count().prop_map(Raster::BandN)
    ];
    let epilogue = select(vec![Epilogue::Direct, Epilogue::Deferred, Epilogue::Warps]);
    let products = select(vec![Products::Fit, Products::Wgmma, Products::MmaSync]);
    let counts = (count(), count(), count(), count(), of(count()), of(count()));
    (any::<[bool; 4]>(), raster, epilogue, products, counts).prop_map(
        |([persistent, counter, bulk_store, pdl], raster, epilogue, products, counts)| {
            let (cluster, pingpong, blocks, resident, warps, chunk) = counts;
            KernelMapping {
                persistent,
                raster,
                counter,
                epilogue,
                cluster,
                pingpong,
                blocks,
                warps,
                chunk,
                bulk_store,
                products,
                resident,
                pdl,
            }
        },
    )
}

fn mappings() -> impl Strategy<Value = Mapping> {
    let promise = prop_oneof![
        (0..8u32).prop_map(|n| Promise::Align(1 << n)),
        (1..100i64, -5..5i64, 6..9i64).prop_map(|(multiple, min, max)| Promise::Number(Assumption {
            multiple,
            min,
            max
        })),
        (1..100i64).prop_map(|multiple| Promise::Number(Assumption { multiple, ..Assumption::default() })),
    ];
    (of(1..1000i64), of(loops()), of(arrays()), of(layouts()), of(promise), wholes()).prop_map(
        |(tunable, looped, array, tile, promise, whole)| Mapping {
            kernel: "rows".to_owned(),
            tunables: tunable.into_iter().map(|v| ("B".to_owned(), v)).collect(),
            loops: looped.into_iter().map(|l| ("t".to_owned(), l)).collect(),
            arrays: array.into_iter().map(|a| ("x".to_owned(), a)).collect(),
            tiles: tile.into_iter().map(|l| ("sum".to_owned(), l)).collect(),
            promises: promise.into_iter().map(|p| ("x".to_owned(), p)).collect(),
            whole,
            places: Places::default(),
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn attributes_print_and_read_back(all in prop::collection::vec(attributes(), 4)) {
        let mut kernel = parse_file(KERNEL, "").expect("a kernel").kernels.remove(0);
        let insts: Vec<Inst> = kernel.insts.keys().filter(|&i| kernel.insts[i].op != Op::Yield).collect();
        for (n, inst) in insts.into_iter().enumerate() {
            kernel.attrs[inst] = all[n % all.len()].clone();
        }
        let text = kernel.to_string();
        let read = parse_file(&text, "").map_err(|e| TestCaseError::fail(format!("{e}\n{text}")))?;
        prop_assert!(read.kernels[0].same_as(&kernel), "{text}");
    }

    #[test]
    fn mappings_print_and_read_back(mapping in mappings()) {
        let text = format!("{KERNEL}\n{mapping}");
        let read = parse_file(&text, "").map_err(|e| TestCaseError::fail(format!("{e}\n{text}")))?;
        prop_assert_eq!(&read.mappings[0], &mapping, "{}", text);
    }
}
