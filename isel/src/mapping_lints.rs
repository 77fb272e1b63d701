//! Lints for a mapping: words that ask for something that no stage can do. Such a word is an error if results depend
//! on it. Otherwise it is a remark, so that no word is ignored in silence.
//!
//! ```text
//!  array w: packed   ─►  w feeds a product as it lies         error: the caller would pack it, and nothing would unpack it
//!  for t: wait 0     ─►  its products are of warps            remark: nothing is in flight
//! ```

use crate::map::kept_arrays;
use crate::plan::{Fill, Plan, StagedFill};
use crate::tiles::{extents, loop_name, program_order, waits_for_blocks};
use crate::window::Window;
use crate::{IselError, Result};
use warplift_ir::tile::{
    ArrayMapping, Depth, Epilogue, Inst, Item, Kernel, LoopMapping, Mapping, Op, Products, Raster, Remark,
    Team, Way,
};

/// Reports the words that have no effect on a kernel, in the order of the mapping's items. `written` is the kernel
/// before `map`, `k` the kernel after it.
///
/// # Errors
/// An array is `packed` in the mapping, but the kernel does not read it as packed.
pub fn do_mapping_lints(written: &Kernel, k: &Kernel, plan: &Plan, mapping: &Mapping) -> Result<Vec<Remark>> {
    let mut idle = Lints { written, k, plan, mapping, order: program_order(k), remarks: Vec::new() };
    for (i, (name, looped)) in mapping.loops.iter().enumerate() {
        idle.looped(Item::Loop(i), name, looped);
    }
    for (i, (name, array)) in mapping.arrays.iter().enumerate() {
        idle.array(Item::Array(i), name, *array)?;
    }
    for (i, (name, _)) in mapping.tiles.iter().enumerate() {
        idle.tile(Item::Tile(i), name);
    }
    idle.tiles_in_order();
    idle.epilogue();
    idle.products();
    idle.kept_arrays();
    Ok(idle.remarks)
}

struct Lints<'a> {
    written: &'a Kernel,
    k: &'a Kernel,
    plan: &'a Plan,
    mapping: &'a Mapping,
    order: Vec<Inst>,
    remarks: Vec<Remark>,
}

impl Lints<'_> {
    fn remark(&mut self, item: Item, word: &str, why: impl AsRef<str>) {
        let m = self.mapping;
        let name = match item {
            Item::Loop(n) => m.loops.get(n).map(|l| format!("loop `{}`: ", l.0)),
            Item::Array(n) => m.arrays.get(n).map(|a| format!("array `{}`: ", a.0)),
            Item::Tile(n) => m.tiles.get(n).map(|t| format!("tile `{}`: ", t.0)),
            _ => None,
        };
        let of = name.unwrap_or_default();
        let key = word.split(' ').next().unwrap_or(word);
        let message = format!("{of}`{word}` has no effect: {}", why.as_ref());
        self.remarks.push(Remark { loc: self.mapping.places.of(item, key), message });
    }

    /// Arrays in shared memory that products read, if they did not become values.
    fn kept_arrays(&mut self) {
        for (array, why) in kept_arrays(self.k) {
            let (name, loc) = (self.k.names[self.k.result(array)].as_str(), self.k.insts[array].loc);
            let message = format!(
                "array `{name}` in shared memory: products read it through a copy that threads make: {why}"
            );
            self.remarks.push(Remark { loc, message });
        }
    }

    /// Instructions of a loop's body, without those of inner loops.
    fn body(&self, k: &Kernel, name: &str) -> Vec<Inst> {
        let named = k.insts.keys().filter(|&i| loop_name(k, i) == Some(name));
        let mut blocks: Vec<_> = named.flat_map(|i| k.insts[i].blocks.clone()).collect();
        let mut body = Vec::new();
        while let Some(block) = blocks.pop() {
            for &inst in &k.blocks[block].insts {
                body.push(inst);
                if matches!(k.insts[inst].op, Op::If) {
                    blocks.extend(&k.insts[inst].blocks);
                }
            }
        }
        body
    }

    fn is_copied(&self, load: Inst) -> bool {
        let by_tensor = |l| self.plan.shared.get(l).is_some_and(|s| s.fill == Fill::Tma);
        by_tensor(&load) || self.plan.staged.contains_key(&load)
    }

    fn is_in_memory(&self, load: Inst) -> bool {
        self.plan.shared.contains_key(&load) || self.plan.staged.contains_key(&load)
    }

    fn looped(&mut self, item: Item, name: &str, l: &LoopMapping) {
        let body = self.body(self.k, name);
        let products = |i: &Inst| self.plan.products.contains_key(i);
        let by_groups = body.iter().any(products);
        let groups = body.iter().find(|i| products(i)).map(|&i| self.k.attrs[i].team);
        if let Depth::Stages(n) = l.pipeline
            && !body.iter().any(|&i| self.is_in_memory(i))
        {
            self.remark(item, &format!("pipeline {n}"), "nothing that it loads goes through shared memory");
        }
        if l.producers == Some(1) && !body.iter().any(|&i| self.is_copied(i)) {
            self.remark(
                item,
                "producers 1",
                "none of its loads is a tensor copy, which a producer could make",
            );
        }
        if let Some(n) = l.wait.filter(|_| !by_groups) {
            self.remark(
                item,
                &format!("wait {n}"),
                "it has no products of warpgroups, which could be in flight",
            );
        }
        if let Some(n) = l.mma_order.filter(|_| !matches!(groups, Some(Team::Warpgroups(2..)))) {
            self.remark(item, &format!("mma_order {n}"), "no two warpgroups share its products");
        }
        let count = |k: &Kernel| {
            self.body(k, name).iter().filter(|&&i| matches!(k.insts[i].op, Op::Mma { .. })).count()
        };
        if let Some(n) = l.chunk.filter(|_| count(self.k) == count(self.written)) {
            let why = "none of its products has a computed left operand that parts of this depth divide";
            self.remark(item, &format!("chunk {n}"), why);
        }
    }

    /// Accesses of an array: its loads and its writes.
    fn accesses(&self, name: &str) -> (Vec<Inst>, Vec<Inst>) {
        let k = self.k;
        let pointer = k.params.iter().find(|p| p.name == name).map(|p| p.value);
        let of = |&i: &Inst| Window::of(k, *k.args(i).first()?).map(|w| w.pointer(k));
        let touches = |i: &Inst| k.insts[*i].op.is_read() || k.insts[*i].op.is_write();
        let all =
            self.order.iter().copied().filter(touches).filter(|i| pointer.is_some() && of(i) == pointer);
        all.partition(|&i| k.insts[i].op.is_read())
    }

    fn array(&mut self, item: Item, name: &str, said: ArrayMapping) -> Result<()> {
        let (loads, writes) = self.accesses(name);
        if said.way == Way::Packed {
            self.packed(item, name, &loads, &writes)?;
        }
        let in_memory = loads.iter().filter(|&&l| self.is_in_memory(l)).count();
        if said.way == Way::Staged && in_memory == 0 {
            self.remark(item, "staged", "nothing is loaded from it");
        }
        if self.mapping.places.says(item, "plain") && in_memory == loads.len() {
            let why = if loads.is_empty() {
                "nothing is loaded from it"
            } else {
                "products read it in shared memory"
            };
            self.remark(item, "plain", why);
        }
        if said.stream && !loads.iter().any(|l| self.plan.staged.contains_key(l)) {
            let why = "only copies that bring tiles to registers carry the hint: arrays that are `staged` or `packed`";
            self.remark(item, "stream", why);
        }
        // Epilogue warps may hoist their own loads. Scheduling reports where they do not.
        if said.before_wait
            && self.mapping.whole.epilogue != Epilogue::Warps
            && !loads.iter().any(|&l| self.is_copied(l))
        {
            self.remark(
                item,
                "before_wait",
                "none of its loads is a tensor copy, which a producer could make before it waits for other grids",
            );
        }
        Ok(())
    }

    /// Every load of a packed array must know the packing, because the caller packs the array once.
    fn packed(&self, item: Item, name: &str, loads: &[Inst], writes: &[Inst]) -> Result<()> {
        let refuse = |why: String| {
            Err(IselError::said(
                self.mapping,
                item,
                "packed",
                format!("array `{name}` cannot be `packed`: {why}"),
            ))
        };
        let unpacks =
            |l: &&Inst| matches!(self.plan.staged.get(l).map(|s| &s.fill), Some(StagedFill::Packed { .. }));
        let line = |i: &Inst| self.k.insts[*i].loc.line;
        if let Some(write) = writes.first() {
            return refuse(format!("line {} writes to it", line(write)));
        }
        match loads.iter().find(|l| !unpacks(l)) {
            Some(load) if self.plan.shared.contains_key(load) => refuse(format!(
                "what line {} loads is an operand of a product in shared memory as it lies",
                line(load)
            )),
            Some(load) => refuse(format!("what line {} loads is not used in registers", line(load))),
            None if loads.is_empty() => refuse("nothing is loaded from it".to_owned()),
            None => Ok(()),
        }
    }

    fn tile(&mut self, item: Item, name: &str) {
        let named = |&&i: &&Inst| self.k.results(i).iter().any(|&r| self.k.names[r] == name);
        if self.order.iter().filter(named).any(|i| self.plan.shared.contains_key(i)) {
            self.remark(item, "layout", "products read the tile in shared memory");
        }
    }

    fn tiles_in_order(&mut self) {
        let (w, rank) = (self.mapping.whole, self.written.grid.len());
        let Some(word) = w.raster_words() else { return };
        match w.raster {
            _ if !w.persistent => self.remark(
                Item::Kernel,
                &word,
                "the chip orders the blocks of a kernel that is not `persistent`",
            ),
            raster if raster != Raster::Linear && waits_for_blocks(self.written) => self.remark(
                Item::Kernel,
                &word,
                "blocks wait for others, so programs take tiles in the order of their numbers",
            ),
            Raster::Square | Raster::BandM(_) | Raster::BandN(_) if rank != 2 => {
                let why = format!(
                    "a grid of rank {rank} is walked with its first dimension fastest, bands are of rank 2"
                );
                self.remark(Item::Kernel, &word, why);
            }
            Raster::BandM(n) if !n.is_multiple_of(w.cluster) => {
                let tiles = (n / w.cluster).max(1) * w.cluster;
                let message = format!("`{word}`: clusters of {} make it {tiles} tiles", w.cluster);
                self.remarks.push(Remark { loc: self.mapping.places.of(Item::Kernel, "raster"), message });
            }
            _ => {}
        }
    }

    fn epilogue(&mut self) {
        let (w, k) = (self.mapping.whole, self.k);
        if w.epilogue == Epilogue::Deferred {
            let deferred = self.order.iter().any(|&i| k.attrs[i].deferred);
            let why = match (w.persistent, deferred, w.bulk_store) {
                _ if self.mapping.is_shared_out() => Some(
                    "where blocks share out a loop, the last block of a tile has its results, and stores them at once",
                ),
                (false, ..) => Some("only a `persistent` kernel has a next tile"),
                (_, false, false) => Some("`no bulk_store` leaves the stores to the threads at once"),
                (_, false, _) => Some("nothing is stored after a product"),
                _ => None,
            };
            why.into_iter().for_each(|why| self.remark(Item::Kernel, "epilogue deferred", why));
        }
        let Some(width) = w.chunk else { return };
        let stored = |i: &Inst| matches!(k.insts[*i].op, Op::Store);
        let columns = |i: &Inst| k.args(*i).last().and_then(|&v| extents(k, v).get(1).copied());
        if !self.order.iter().filter(|i| stored(i)).any(|i| columns(i) == Some(width)) {
            let why = match (w.bulk_store, self.has_products()) {
                (false, _) => "`no bulk_store` leaves results whole",
                (_, false) => "only results of products are stored in pieces",
                _ => "no result has columns that pieces of this width divide",
            };
            self.remark(Item::Kernel, &format!("chunk {width}"), why);
        }
    }

    fn has_products(&self) -> bool {
        self.written.insts.values().any(|d| matches!(d.op, Op::Mma { .. }))
    }

    fn products(&mut self) {
        let word = match self.mapping.whole.products {
            Products::Fit => return,
            Products::Wgmma => "products wgmma",
            Products::MmaSync => "products mma_sync",
        };
        if !self.has_products() {
            self.remark(Item::Kernel, word, "the kernel has no products");
        }
    }
}
