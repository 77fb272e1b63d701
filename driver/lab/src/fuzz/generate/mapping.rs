//! Mappings: a random choice of everything that a mapping can say.

use super::{Generator, NAME};
use warplift_ir::tile::{
    ArrayMapping, Depth, Epilogue, KernelMapping, LoopMapping, Mapping, Products, Raster, Way,
};
use warplift_isel::map::{can_split_k, can_stream_k};

impl Generator<'_> {
    pub(super) fn mapping(&mut self) -> Mapping {
        let mut mapping = Mapping { kernel: NAME.to_owned(), ..Mapping::default() };
        for (_, name, value) in &self.tunables {
            mapping.tunables.push((name.clone(), *value));
        }
        for name in self.loops.clone() {
            if self.choices.chance(2, 3) {
                let looped = self.loop_mapping();
                mapping.loops.push((name, looped));
            }
        }
        // The block's width follows from the products' rows.
        let first = self.loops.first().filter(|_| self.groups.is_some());
        if let (Some(groups), Some(first)) = (self.groups, first) {
            if !mapping.loops.iter().any(|(n, _)| n == first) {
                mapping.loops.insert(0, (first.clone(), LoopMapping::default()));
            }
            for (_, l) in &mut mapping.loops {
                l.consumers = Some(groups);
            }
        }
        mapping.whole = if self.rows { self.row_mapping() } else { self.kernel_mapping() };
        mapping.arrays = self.arrays();
        self.share_out(&mut mapping);
        mapping
    }

    /// Now and then blocks share out a loop that can be shared out, where the other words allow it.
    fn share_out(&mut self, mapping: &mut Mapping) {
        let whole = &mapping.whole;
        let possible = whole.blocks == 1 && whole.pingpong == 1 && whole.epilogue != Epilogue::Warps;
        let name = self.loops.iter().find(|name| can_split_k(self.b.kernel(), name)).cloned();
        let Some(name) = name.filter(|_| possible && self.choices.chance(1, 3)) else { return };
        let alone = whole.cluster == 1 && !whole.counter && whole.raster != Raster::Paired;
        let streams = whole.persistent && alone && can_stream_k(self.b.kernel(), &name);
        let stream_k = streams && self.choices.chance(1, 2);
        // More slices than trips, and more than are added in the text.
        let split_k = (!stream_k).then(|| self.choices.of(&[2, 3, 5, 11]));
        match mapping.loops.iter_mut().find(|l| l.0 == name) {
            Some((_, looped)) => (looped.split_k, looped.stream_k) = (split_k, stream_k),
            None => mapping.loops.push((name, LoopMapping { split_k, stream_k, ..LoopMapping::default() })),
        }
    }

    /// For warps of its own for the second loop over a row, most of the time.
    fn row_mapping(&mut self) -> KernelMapping {
        let epilogue = self.choices.weighted(&[(5, Epilogue::Warps), (1, Epilogue::Direct)]);
        KernelMapping {
            persistent: true,
            epilogue,
            warps: Some(self.choices.of(&[4, 8])),
            pdl: self.choices.chance(1, 4),
            bulk_store: !self.choices.chance(1, 4),
            ..KernelMapping::default()
        }
    }

    /// Sometimes pins how an array gets to registers.
    fn arrays(&mut self) -> Vec<(String, ArrayMapping)> {
        let names: Vec<String> = self.inputs.iter().map(|i| i.array.clone()).collect();
        let said = names.into_iter().filter_map(|name| {
            let way = match (self.packed.contains(&name), self.rows) {
                (true, _) => Way::Packed,
                (_, true) => self.choices.weighted(&[(6, Way::Staged), (1, Way::Fit), (1, Way::Plain)]),
                _ => self.choices.weighted(&[(6, Way::Fit), (2, Way::Staged), (1, Way::Plain)]),
            };
            (way != Way::Fit).then(|| (name, ArrayMapping { way, ..ArrayMapping::default() }))
        });
        said.collect()
    }

    fn loop_mapping(&mut self) -> LoopMapping {
        let pipeline = match self.choices.chance(1, 2) {
            true => Depth::Stages(self.choices.of(&[2, 1, 3, 4])),
            false => Depth::Fit,
        };
        let producers = self.choices.weighted(&[(2, None), (1, Some(1)), (1, Some(0))]);
        let wait = self.choices.weighted(&[(3, None), (1, Some(0)), (1, Some(1))]);
        let mma_order = self.choices.weighted(&[(5, None), (1, Some(1))]);
        LoopMapping { pipeline, producers, wait, mma_order, ..LoopMapping::default() }
    }

    fn raster(&mut self) -> Raster {
        self.choices.weighted(&[
            (3, Raster::Linear),
            (1, Raster::Square),
            (1, Raster::BandM(3)),
            (1, Raster::BandN(2)),
            (1, Raster::Paired),
        ])
    }

    fn kernel_mapping(&mut self) -> KernelMapping {
        let product = self.groups.is_some();
        let persistent = self.choices.chance(1, 2);
        let pingpong = product && persistent && self.groups == Some(1) && self.choices.chance(1, 5);
        let mut whole = KernelMapping {
            persistent,
            raster: self.raster(),
            counter: false,
            epilogue: self.choices.weighted(&[(2, Epilogue::Direct), (1, Epilogue::Deferred)]),
            cluster: self.choices.weighted(if product && self.regular {
                &[(1, 1), (1, 2)]
            } else {
                &[(5, 1), (1, 2)]
            }),
            pingpong: if pingpong { 2 } else { 1 },
            blocks: 1,
            resident: 1,
            warps: if product { None } else { self.choices.of(&[Some(4), None, Some(1), Some(2), Some(8)]) },
            chunk: self.choices.weighted(&[(6, None), (1, Some(16)), (1, Some(32))]),
            pdl: self.choices.chance(1, 6),
            bulk_store: !self.choices.chance(1, 6),
            products: self.choices.weighted(&[
                (6, Products::Fit),
                (2, Products::MmaSync),
                (1, Products::Wgmma),
            ]),
        };
        let epilogue_warps = !product && persistent && self.choices.chance(1, 4);
        // Programs of a paired raster count with tiles of their own.
        if whole.raster == Raster::Paired && (whole.cluster > 1 || whole.pingpong > 1) {
            whole.raster = Raster::Linear;
        }
        // Teams take tiles in turn in blocks without neighbours.
        if whole.pingpong > 1 {
            whole.cluster = 1;
        }
        // Several blocks beside each other leave a thread 64 registers: wide work is cut into strips.
        if !product && self.choices.chance(1, 4) {
            whole.resident = 32 / whole.warps.unwrap_or(4);
        }
        // Without products blocks have nothing to multicast: half of the clusters hold tiles together.
        if !product && whole.cluster > 1 && whole.raster == Raster::Linear {
            (whole.cluster, whole.blocks) = (1, if persistent { 2 } else { 4 });
        }
        // Epilogue warps come in whole warpgroups, to blocks alone.
        if epilogue_warps {
            whole.epilogue = Epilogue::Warps;
            (whole.cluster, whole.blocks, whole.resident) = (1, 1, 1);
            whole.warps = Some(self.choices.of(&[4, 8]));
        }
        // Blocks that draw tiles draw alone.
        let alone = whole.cluster == 1 && whole.blocks == 1 && whole.raster != Raster::Paired;
        whole.counter = persistent && alone && self.choices.chance(1, 3);
        whole
    }
}
