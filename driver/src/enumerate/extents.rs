//! The extents of a product's tiles at given sizes: the values that are tried, and what they make of blocks and trips.

use super::propose::{Anchor, mapping, set};
use crate::predict::Arrays;
use crate::problem::{BlockNumbers, BlockWork, Blocks, Costed, Sizes, grid_of, products, total};
use warplift_ir::tile::{Domain, Inst, Kernel, KernelMapping, LoopMapping, Tunable, TunableData};

/// Rows or columns of a tile that are tried where a tunable may have any value.
const EXTENTS: [i64; 20] =
    [8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240, 256];
/// The same where threads convert an operand.
const CONVERTED_EXTENTS: [i64; 15] = [8, 16, 24, 32, 40, 48, 56, 64, 128, 192, 256, 320, 384, 448, 512];
/// Bytes of a row of operands in a trip.
const DEPTHS: [i64; 3] = [128, 256, 512];

/// What one choice of extents makes of the kernel.
pub(super) struct Tried {
    pub blocks: f64,
    pub columns: f64,
    pub trips: f64,
    pub resolved: Kernel,
}

/// A product at given sizes.
pub(super) struct Asked<'a> {
    pub kernel: &'a Kernel,
    pub anchor: &'a Anchor<'a>,
    pub sizes: &'a Sizes,
    pub arrays: &'a Arrays,
    pub defines: &'a [(String, i64)],
}

impl Asked<'_> {
    /// The kernel with these extents.
    pub fn tried(&self, extents: [i64; 3]) -> Option<Tried> {
        let plain = (LoopMapping::default(), KernelMapping::default());
        let mut mapping = mapping(self.kernel, self.anchor, extents, plain.0, plain.1);
        set(&mut mapping, self.defines);
        let resolved = warplift_isel::map::do_tunables(self.kernel, &mapping).ok()?;
        let grid = grid_of(&resolved, self.sizes)?.map(|g| g as f64);
        let each = (extents.iter().product::<i64>() * self.anchor.count) as f64;
        let mean = |cost: &dyn Fn(&Kernel, Inst) -> f64| match self.work(&resolved, cost) {
            // Of blocks that have any.
            Some(BlockWork::Each(all)) => {
                let some = all.iter().filter(|&&work| work > 0.0).count() as f64;
                (some, all.iter().sum::<f64>() / some.max(1.0))
            }
            _ => (grid.iter().product(), total(&resolved, self.sizes, cost)),
        };
        let (blocks, work) = mean(&products);
        // A block that takes tile after tile counts as so many blocks.
        let entered = |_: &Kernel, inst: Inst| f64::from(u8::from(Some(inst) == self.anchor.begins));
        let tiles = mean(&entered).1.max(1.0);
        Some(Tried { blocks: blocks * tiles, columns: grid[1], trips: work / each / tiles, resolved })
    }

    /// What each block of the kernel without tunables costs.
    fn work(&self, resolved: &Kernel, cost: &dyn Fn(&Kernel, Inst) -> f64) -> Option<BlockWork> {
        let blocks = Blocks::of(grid_of(resolved, self.sizes)?);
        let cost = |numbers: &mut BlockNumbers<'_>, inst| Some(cost(numbers.kernel, inst));
        let (kernel, sizes, arrays) = (resolved, self.sizes, self.arrays);
        Costed { kernel, sizes, arrays, blocks, cost, looks_at: &[], least: false }.by_block()
    }

    /// The values of each extent.
    pub fn values(&self, bytes: f64) -> [Vec<i64>; 3] {
        [0, 1, 2].map(|i| match (self.anchor.free[i], self.anchor.fixed[i]) {
            (Some(t), _) if self.anchor.narrow_bits.is_some() && i < 2 => {
                values_of(t, &CONVERTED_EXTENTS, self.defines)
            }
            (Some(t), _) if i == 2 => values_of(t, &DEPTHS.map(|d| (d as f64 / bytes) as i64), self.defines),
            (Some(t), _) => values_of(t, &EXTENTS, self.defines),
            (None, fixed) => fixed.into_iter().collect(),
        })
    }

    /// The value of a tunable where these are the extents.
    pub fn value(&self, tunable: Tunable, extents: [i64; 3]) -> i64 {
        let data = &self.kernel.tunables[tunable];
        let given = self.defines.iter().find(|d| d.0 == data.name).map(|d| d.1);
        let own = (0..3).find(|&i| self.anchor.free[i].is_some_and(|t| t.name == data.name));
        own.map(|i| extents[i]).or(given).unwrap_or(data.default)
    }

    /// For each extent the one before it that the same tunable decides.
    pub fn same(&self) -> [Option<usize>; 3] {
        let name = |i: usize| self.anchor.free[i].map(|t| &t.name);
        [0, 1, 2].map(|i| (0..i).find(|&j| name(i).is_some() && name(i) == name(j)))
    }
}

/// The values that are tried for a tunable.
fn values_of(tunable: &TunableData, wishes: &[i64], defines: &[(String, i64)]) -> Vec<i64> {
    if let Some((_, value)) = defines.iter().find(|d| d.0 == tunable.name) {
        return vec![*value];
    }
    match &tunable.domain {
        Domain::OneOf(all) => all.clone(),
        domain => wishes.iter().copied().filter(|&w| domain.contains(w)).collect(),
    }
}
