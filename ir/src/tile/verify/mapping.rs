//! Checks that a mapping names only existing items, that its numbers are possible, and that its words agree.

use super::VerifyError;
use crate::target::Target;
use crate::tile::{Depth, Epilogue, Item, Kernel, LoopMapping, Mapping, Op, Raster, Tunable, Type, nearest};
use std::ops::RangeInclusive;

/// Limit on the stages of a loop's rings. Barriers alone would fill shared memory long before.
const MAX_STAGES: u32 = 256;
/// Blocks that share out a loop at most: more than any chip runs at once, and few enough to add their parts one by one.
pub const MAX_SLICES: u32 = 256;
/// Warps of a warpgroup.
const WARPGROUP: u32 = 4;
/// Tiles of the widest band. A wider one would overflow the index arithmetic.
pub(crate) const MAX_BAND: u32 = 1 << 15;

/// Checks the names, numbers and words of a mapping for a target; gives all violations, at their places in the mapping's text.
pub fn verify_mapping(kernel: &Kernel, mapping: &Mapping, target: &Target) -> Result<(), Vec<VerifyError>> {
    let mut check = Check { kernel, mapping, target, errors: Vec::new() };
    check.names();
    check.tunables();
    for (i, (name, looped)) in mapping.loops.iter().enumerate() {
        check.looped(Item::Loop(i), name, looped);
    }
    check.arrays();
    check.promises();
    check.whole();
    check.raster();
    check.widths();
    check.clusters();
    check.errors.sort_by_key(|e| e.loc);
    if check.errors.is_empty() { Ok(()) } else { Err(check.errors) }
}

struct Check<'a> {
    kernel: &'a Kernel,
    mapping: &'a Mapping,
    target: &'a Target,
    errors: Vec<VerifyError>,
}

impl Check<'_> {
    fn error(&mut self, item: Item, word: &str, message: String) {
        let loc = self.mapping.places.of(item, word);
        self.errors.push(VerifyError { inst: None, loc, message });
    }

    /// Reports an impossible number of a word.
    fn number(&mut self, item: Item, word: &str, what: &str, number: u32, possible: RangeInclusive<u32>) {
        if possible.contains(&number) {
            return;
        }
        let (least, most) = (possible.start(), possible.end());
        let possible = match *most {
            u32::MAX => format!("{least} or more"),
            most => format!("{least} to {most}"),
        };
        self.error(item, word, format!("{what}`{word} {number}`: {possible} are possible"));
    }

    fn names(&mut self) {
        let (m, k) = (self.mapping, self.kernel);
        let of = k.name.as_str();
        if !m.kernel.is_empty() && m.kernel != of {
            let message = format!("a mapping of `{}` does not fit kernel `{of}`", m.kernel);
            self.error(Item::Mapping, "", message);
        }
        let tunables: Vec<&str> = k.tunables.values().map(|t| t.name.as_str()).collect();
        for (i, (name, _)) in m.tunables.iter().enumerate() {
            if k.constants.iter().any(|c| c.name == *name) {
                let message = format!("`{name}` is a constant of kernel `{of}`: it says what is computed");
                self.error(Item::Tunable(i), "", message);
            } else {
                self.known(Item::Tunable(i), "tunable", name, &tunables);
            }
        }
        let loops = loop_names(k);
        for (i, (name, _)) in m.loops.iter().enumerate() {
            self.known(Item::Loop(i), "loop", name, &loops);
        }
        let pointers = k.params.iter().filter(|p| matches!(k.ty(p.value), Type::Ptr(_)));
        let pointers: Vec<&str> = pointers.map(|p| p.name.as_str()).collect();
        for (i, (name, _)) in m.arrays.iter().enumerate() {
            self.known(Item::Array(i), "pointer argument", name, &pointers);
        }
        let tiles = k.values.keys().filter(|&v| matches!(k.ty(v), Type::Tile(..)));
        let tiles: Vec<&str> = tiles.map(|v| k.names[v].as_str()).filter(|n| !n.is_empty()).collect();
        for (i, (name, _)) in m.tiles.iter().enumerate() {
            self.known(Item::Tile(i), "tile", name, &tiles);
        }
    }

    /// Reports an item whose name the kernel lacks.
    fn known(&mut self, item: Item, what: &str, name: &str, all: &[&str]) {
        if all.contains(&name) {
            return;
        }
        let meant = match (nearest(name, all.iter().copied()), all) {
            (Some(near), _) => format!("; did you mean `{near}`?"),
            (None, [] | [_, _, _, _, _, ..]) => String::new(),
            (None, few) => format!("; it has `{}`", few.join("`, `")),
        };
        self.error(item, "", format!("kernel `{}` has no {what} `{name}`{meant}", self.kernel.name));
    }

    fn tunables(&mut self) {
        let (m, k) = (self.mapping, self.kernel);
        let before = self.errors.len();
        for (i, (name, value)) in m.tunables.iter().enumerate() {
            let refused = k.tunables.values().find(|t| t.name == *name).and_then(|t| t.refuses(*value));
            refused.into_iter().for_each(|why| self.error(Item::Tunable(i), "", why));
        }
        if self.errors.len() == before {
            self.asserts();
        }
    }

    /// Asserts that the mapping's values decide, at the first of the values.
    fn asserts(&mut self) {
        let (m, k) = (self.mapping, self.kernel);
        for unmet in k.settled(|t| m.value_of(&k.tunables[t])).unmet {
            let given = |t: &Tunable| m.tunables.iter().position(|(n, _)| *n == k.tunables[*t].name);
            let item = unmet.tunables.iter().find_map(given).map_or(Item::Mapping, Item::Tunable);
            self.error(item, "", unmet.message);
        }
    }

    fn looped(&mut self, item: Item, name: &str, l: &LoopMapping) {
        let what = format!("loop `{name}`: ");
        if let Depth::Stages(stages) = l.pipeline {
            self.number(item, "pipeline", &what, stages, 1..=MAX_STAGES);
        }
        let numbers = [
            ("producers", l.producers, 0..=1),
            ("consumers", l.consumers, 1..=self.target.block_warps() / WARPGROUP),
            ("wait", l.wait, 0..=1),
            ("chunk", l.chunk, 1..=u32::MAX),
            ("mma_order", l.mma_order, 0..=1),
            ("split_k", l.split_k, 2..=MAX_SLICES),
        ];
        for (word, number, possible) in numbers {
            if let Some(number) = number {
                self.number(item, word, &what, number, possible);
            }
        }
    }

    fn arrays(&mut self) {
        for (i, (name, array)) in self.mapping.arrays.iter().enumerate() {
            if array.before_wait && !self.mapping.whole.pdl {
                let what = "a `pdl` kernel waits for the grid before it; other kernels start after it";
                self.error(
                    Item::Array(i),
                    "before_wait",
                    format!("array `{name}` is loaded `before_wait`: {what}"),
                );
            }
        }
    }

    /// What is assumed of an argument must be of its type, and possible beside its facts.
    fn promises(&mut self) {
        let k = self.kernel;
        for (i, (name, promise)) in self.mapping.promises.iter().enumerate() {
            let item = Item::Promise(i);
            let Some(param) = k.params.iter().find(|p| p.name == *name) else {
                let all: Vec<&str> = k.params.iter().map(|p| p.name.as_str()).collect();
                self.known(item, "argument", name, &all);
                continue;
            };
            if !promise.suits(k.ty(param.value)) {
                let (ty, can) =
                    (k.type_text(k.ty(param.value)), "a pointer has `align`, an integer `%` and `in`");
                self.error(item, "", format!("`assume {name}{promise}`: `{name}` is {ty}; {can}"));
            } else if promise.with(param.facts).is_none() {
                let message = format!(
                    "`assume {name}{promise}` contradicts the facts of `{name}`: no argument obeys both"
                );
                self.error(item, "", message);
            }
        }
    }

    fn whole(&mut self) {
        let w = self.mapping.whole;
        let numbers = [
            ("cluster", Some(w.cluster), 1..=u32::MAX),
            ("pingpong", Some(w.pingpong), 1..=self.target.block_warps() / WARPGROUP),
            ("resident", Some(w.resident), 1..=self.target.resident_blocks),
            ("warps", w.warps, 1..=self.target.block_warps()),
            ("chunk", w.chunk, 1..=u32::MAX),
        ];
        for (word, number, possible) in numbers {
            if let Some(number) = number {
                self.number(Item::Kernel, word, "", number, possible);
            }
        }
        if ![1, 2, 4, 8].contains(&w.blocks) {
            let message = format!("`blocks {}`: 1, 2, 4 or 8 hold a tile together", w.blocks);
            self.error(Item::Kernel, "blocks", message);
        }
        if w.pingpong > 1 && !w.persistent {
            let message =
                format!("`pingpong {}`: only a `persistent` kernel has tiles to take in turn", w.pingpong);
            self.error(Item::Kernel, "pingpong", message);
        }
        if w.epilogue == Epilogue::Warps && !w.persistent {
            let message =
                "`epilogue warps`: only a `persistent` kernel has a next tile to go on to".to_owned();
            self.error(Item::Kernel, "epilogue", message);
        }
    }

    fn raster(&mut self) {
        let w = self.mapping.whole;
        let band = match w.raster {
            Raster::BandM(n) => Some(("raster band_m", n)),
            Raster::BandN(n) => Some(("raster band_n", n)),
            _ => None,
        };
        if let Some((word, n)) = band.filter(|b| !(1..=MAX_BAND).contains(&b.1)) {
            let message = format!("`{word} {n}`: 1 to {MAX_BAND} tiles are possible");
            self.error(Item::Kernel, "raster", message);
        }
        if w.raster == Raster::Paired && (w.cluster > 1 || w.pingpong > 1) {
            let message = "`raster paired` with clusters of blocks or teams in turn".to_owned();
            self.error(Item::Kernel, "raster", message);
        }
        let why = match w {
            _ if !w.counter => None,
            _ if w.raster == Raster::Paired => Some(
                "`paired` gives each program the same work, and a counter whatever is next: use one of the two"
                    .to_owned(),
            ),
            _ if w.cluster > 1 => {
                Some(format!("`cluster {}`: its blocks take neighbours, and each draws alone", w.cluster))
            }
            _ if w.blocks > 1 => {
                Some(format!("`blocks {}`: they hold a tile together, and each draws alone", w.blocks))
            }
            _ => None,
        };
        if let Some(why) = why {
            self.error(Item::Kernel, "raster", format!("`raster counter`: {why}"));
        }
    }

    /// Loops and the kernel agree about the computing warps.
    fn widths(&mut self) {
        let m = self.mapping;
        let each = m.loops.iter().enumerate().filter_map(|(i, (_, l))| Some((Item::Loop(i), l.consumers?)));
        let each: Vec<(Item, u32)> = each.collect();
        let Some(&(_, first)) = each.first() else { return };
        for &(item, groups) in each.iter().filter(|(_, groups)| *groups != first) {
            let message =
                format!("loops ask for {first} and {groups} consumer warpgroups; a block has one number");
            self.error(item, "consumers", message);
        }
        if let Some(warps) = m.whole.warps.filter(|&w| w != first.saturating_mul(WARPGROUP)) {
            let message = format!("`warps {warps}` contradicts `consumers {first}`, {WARPGROUP} warps each");
            self.error(Item::Kernel, "warps", message);
        }
    }

    /// Blocks are neighbours, hold tiles together, or have teams: one of these.
    fn clusters(&mut self) {
        let w = self.mapping.whole;
        if w.blocks > 1 && (w.cluster > 1 || w.pingpong > 1) {
            let message = "blocks that hold a tile together beside clusters of neighbours or teams in turn";
            self.error(Item::Kernel, "blocks", message.to_owned());
        }
        if w.cluster > 1 && w.pingpong > 1 {
            let message = "clusters of blocks whose teams take tiles in turn".to_owned();
            self.error(Item::Kernel, "cluster", message);
        }
    }
}

fn loop_names(kernel: &Kernel) -> Vec<&str> {
    let loops = kernel.insts.values().filter(|d| matches!(d.op, Op::For));
    let counters = loops.filter_map(|d| kernel.blocks.get(*d.blocks.first()?)?.params.first());
    counters.map(|&v| kernel.names[v].as_str()).collect()
}
