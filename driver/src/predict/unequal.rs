//! What tells the blocks of a launch apart, by the mapped tile IR and given data: how much each computes, and numbers that no
//! warp knows by itself.
//!
//! ```text
//!  for t in 0..reduce_max(ends)     ends: a tile, a part in each warp     the maximum: one number for the block
//! ```
//!
//! A walk follows one warp of each warpgroup. What it reads of other warps' parts is told to it.

use super::launched::Launch;
use super::order::{Order, answered, in_order};
use crate::problem::{
    BlockNumbers, BlockWork, Blocks, Costed, Tiles, elements, follow_from_memory, footprints, numbers_at,
};
use crate::state::State;
use rustc_hash::FxHashMap;
use std::cell::OnceCell;
use warplift_ir::tile::{Kernel, Loc, Op, Value};

/// Waves of tiles that are looked at; what later ones ask for is alike.
const WAVES: u64 = 12;

/// A mapped kernel and its launch.
pub struct Unequal<'s> {
    kernel: &'s Kernel,
    launch: Launch<'s>,
    blocks: Blocks,
    /// Sums over tiles that are scalars, and where they stand in the text.
    sums: Vec<(Loc, Value)>,
    /// Elements that each block computes: those of its tile, or of the tiles that a program takes one after the other.
    pub work: Option<Vec<f64>>,
    /// What the first tiles of each wave ask for.
    tiles: OnceCell<Option<Tiles>>,
}

impl<'s> Unequal<'s> {
    /// Of the last state of a compile. `unequal`: blocks may do unequal work.
    pub fn new(state: &'s State<'_>, grid: [i64; 3], launch: Launch<'s>, unequal: bool) -> Self {
        let (program, kernel) = (state.program(), state.kernel());
        let cluster = if program.blocks > 1 { program.launch.cluster.max(1) } else { 1 };
        let (cluster, teams) = (cluster.into(), program.teams.max(1).into());
        let blocks = Blocks { grid: grid.map(|n| n as u64), cluster, teams };
        let mut sums = Vec::new();
        if !launch.arrays.is_empty() {
            kernel.walk(|_, inst| {
                let is_sum = matches!(kernel.insts[inst].op, Op::Reduce(..));
                let result = kernel.results(inst).first().filter(|_| is_sum);
                let scalar =
                    result.filter(|&&r| kernel.ty(r).shape().is_none() && kernel.ty(r).elem().is_int());
                sums.extend(scalar.map(|&r| (kernel.insts[inst].loc, r)));
            });
        }
        let own = Self { kernel, launch, blocks, sums, work: None, tiles: OnceCell::new() };
        let work = if unequal { own.work_of(blocks) } else { None };
        Self { work, ..own }
    }

    /// What blocks compute in the mean, as a multiple of what the first one does; 1 where they are equal.
    pub fn mean(&self) -> f64 {
        let Some((each, &first)) = self.work.as_ref().and_then(|w| Some((w, w.first()?))) else { return 1.0 };
        if first > 0.0 { each.iter().sum::<f64>() / (each.len() as f64 * first) } else { 1.0 }
    }

    /// Elements that each of so many tiles of a persistent kernel computes.
    pub fn tiles(&self, count: u64) -> Option<Vec<f64>> {
        // As many programs take one tile each.
        self.work_of(Blocks::of([count, 1, 1]))
    }

    /// What tiles ask for in their order, of so many blocks beside each other and with a cache of so many bytes, and the names
    /// of the arrays.
    pub fn order(&self, beside: u32, cache: f64) -> Option<(Order, Vec<&'s str>)> {
        let names = self.kernel.params.iter().map(|p| p.name.as_str()).collect();
        Some((in_order(self.footprints(beside)?, self.beside(beside) as usize, cache), names))
    }

    /// Of what tiles ask for, the part that is left where so many neighbours are answered together; `None` where one pair of them
    /// tells that, since no index follows from memory.
    pub fn answered(&self, beside: u32, together: f64) -> Option<f64> {
        let known = follow_from_memory(self.kernel, self.launch.sizes);
        known.then(|| self.footprints(beside)).flatten().map(|tiles| answered(tiles, together as usize))
    }

    /// Tiles beside each other, of so many blocks.
    fn beside(&self, blocks: u32) -> u64 {
        (u64::from(blocks) / self.blocks.cluster * self.blocks.teams).max(1)
    }

    /// What the first tiles ask for, of so many blocks beside each other.
    fn footprints(&self, beside: u32) -> Option<&Tiles> {
        let Self { kernel, launch: Launch { sizes, arrays }, blocks, .. } = *self;
        let found = || footprints(kernel, (sizes, arrays), blocks, WAVES * self.beside(beside));
        self.tiles.get_or_init(found).as_ref()
    }

    fn work_of(&self, blocks: Blocks) -> Option<Vec<f64>> {
        let Self { kernel, launch: Launch { sizes, arrays }, .. } = *self;
        let cost = |numbers: &mut BlockNumbers<'_>, inst| Some(elements(numbers.kernel, inst));
        match (Costed { kernel, sizes, arrays, blocks, cost, looks_at: &[], least: false }).by_block() {
            Some(BlockWork::Each(all)) => Some(all),
            _ => None,
        }
    }

    /// Sums over tiles, of the block at a place, by where they stand in the text. What changes from trip to trip is not
    /// among them.
    pub fn sums(&self, place: [i64; 3]) -> FxHashMap<Loc, i64> {
        if self.sums.is_empty() {
            return FxHashMap::default();
        }
        let values: Vec<Value> = self.sums.iter().map(|s| s.1).collect();
        let found =
            numbers_at(self.kernel, (self.launch.sizes, self.launch.arrays), self.blocks, place, &values);
        self.sums.iter().zip(found).filter_map(|(&(loc, _), number)| Some((loc, number?))).collect()
    }
}
