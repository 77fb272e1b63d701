//! Columns of right operands that no swizzle divides are padded, and with them all tiles that have these columns. What lies past the
//! end of the array's rows is its fill, and a store writes nothing there.
//!
//! ```text
//!  view v : bf16[keys, 72]   tv = load v[t, 0] : bf16[128, 72]            ─►   tv : bf16[128, 80]
//!  acc1 = mma acc0 * c, p, tv                 : f32[128, 72]                   f32[128, 80]
//!  store o[i, 0], cast(acc * n, bf16)         : bf16[128, 72], view of 72      bf16[128, 80], the view clips
//! ```
//!
//! The columns are an AXIS: a dimension of each of the tiles that elementwise work, products, loops and branches connect.

use super::pad_depth::{ends_there, set_extent};
use super::swap_ab::tied;
use crate::operand::{padded_row, swizzle_span};
use crate::tiles::{Users, users};
use crate::window::Window;
use rustc_hash::FxHashMap;
use warplift_ir::tile::{Block, Inst, Kernel, Op, Shape, Value, ValueDef};

/// Pads the columns of the right operands of all products.
pub fn do_pad_columns(k: &mut Kernel) {
    let products: Vec<Value> = k
        .insts
        .values()
        .filter(|d| matches!(d.op, Op::Mma { .. }))
        .map(|d| d.args.as_slice(&k.pool)[2])
        .collect();
    for right in products {
        let Some((extent, padded)) = widths(k, right) else { continue };
        if let Some(columns) = Axis::of(k, right, 1, extent) {
            columns.tiles.iter().for_each(|(&v, &dim)| set_extent(k, v, dim, padded));
        }
    }
}

/// The columns that a right operand has and should have: those of a load whose rows lie in memory as copies bring them.
fn widths(k: &Kernel, right: Value) -> Option<(u32, u32)> {
    let load = k.def(right).filter(|&d| matches!(k.insts[d].op, Op::Load))?;
    let extent = extent(k, right, 1)?;
    let contiguous = Window::of(k, k.args(load)[0])?.unit(k) == Some(1);
    let bits = k.ty(right).elem().bits();
    let bytes = extent.checked_mul(bits).filter(|n| n.is_multiple_of(8))? / 8;
    (contiguous && swizzle_span(bytes).is_none()).then(|| (extent, padded_row(bytes) * 8 / bits))
}

/// The extent of a dimension of a tile.
fn extent(k: &Kernel, v: Value, dim: usize) -> Option<u32> {
    k.ty(v).shape()?.extents()?.get(dim).copied()
}

/// A dimension that several tiles have in common.
struct Axis<'k> {
    k: &'k Kernel,
    users: Users,
    /// The block of each `yield`, and the instruction of each block.
    yields: FxHashMap<Inst, Block>,
    owners: FxHashMap<Block, Inst>,
    extent: u32,
    tiles: FxHashMap<Value, usize>,
    work: Vec<Value>,
}

impl<'k> Axis<'k> {
    /// The axis that a dimension of a value belongs to, if all of its tiles may be longer along it.
    fn of(k: &'k Kernel, v: Value, dim: usize, extent: u32) -> Option<Self> {
        let (mut yields, mut owners) = (FxHashMap::default(), FxHashMap::default());
        k.walk(|block, inst| {
            yields.extend(matches!(k.insts[inst].op, Op::Yield).then_some((inst, block)));
            owners.extend(k.insts[inst].blocks.iter().map(|&b| (b, inst)));
        });
        let (tiles, work) = (FxHashMap::default(), Vec::new());
        let mut axis = Self { k, users: users(k), yields, owners, extent, tiles, work };
        axis.add(v, dim)?;
        while let Some(v) = axis.work.pop() {
            axis.visit(v)?;
        }
        Some(axis)
    }

    /// Adds a dimension of a value. One along which it is repeated stays.
    fn add(&mut self, v: Value, dim: usize) -> Option<()> {
        match self.tiles.get(&v) {
            Some(&known) => (known == dim).then_some(()),
            None => match extent(self.k, v, dim)? {
                1 => Some(()),
                n if n == self.extent => {
                    self.tiles.insert(v, dim);
                    self.work.push(v);
                    Some(())
                }
                _ => None,
            },
        }
    }

    /// Adds the same dimension, counted from the last one, of other values. Scalars have none, nor tiles of fewer dimensions.
    fn add_all(&mut self, values: &[Value], from_end: usize) -> Option<()> {
        let rank = |v: Value| self.k.ty(v).shape().map_or(0, |s: Shape| s.rank());
        let dims: Vec<(Value, usize)> =
            values.iter().filter_map(|&v| Some((v, rank(v).checked_sub(from_end)?))).collect();
        dims.into_iter().try_for_each(|(v, dim)| self.add(v, dim))
    }

    /// Follows a tile to the instruction that makes it and to those that use it.
    fn visit(&mut self, v: Value) -> Option<()> {
        let maker = match self.k.values[v].def {
            ValueDef::Result(inst, _) => inst,
            ValueDef::Param(block, _) => *self.owners.get(&block)?,
        };
        self.through(maker, v)?;
        let users = self.users.get(&v).cloned().unwrap_or_default();
        users.into_iter().try_for_each(|user| self.through(user, v))
    }

    /// Adds what an instruction ties to the axis of one of its operands or results. `None` if it needs the tile as it is.
    fn through(&mut self, inst: Inst, v: Value) -> Option<()> {
        let k = self.k;
        let (args, dim) = (k.args(inst), *self.tiles.get(&v)?);
        if k.attrs[inst].layout.is_some() {
            return None;
        }
        let from_end = k.ty(v).shape()?.rank() - dim;
        match &k.insts[inst].op {
            Op::Full | Op::Iota(_) => Some(()),
            Op::Load | Op::Store => ends_there(k, inst, dim, self.extent).then_some(()),
            Op::Mma { .. } if args[1] != v && dim == 1 => {
                self.add_all(&[args[0], args[2], k.result(inst)], from_end)
            }
            Op::Trans(perm) if k.result(inst) == v => self.add(args[0], perm[dim].into()),
            Op::Trans(perm) => self.add(k.result(inst), perm.iter().position(|&p| usize::from(p) == dim)?),
            &Op::ExpandDims(d) if k.result(inst) == v => {
                self.add(args[0], dim.checked_sub(usize::from(usize::from(d) < dim))?)
            }
            &Op::ExpandDims(d) => self.add(k.result(inst), dim + usize::from(usize::from(d) <= dim)),
            Op::Reduce(_, d) if args[0] == v => {
                let d = usize::from(*d);
                (d != dim).then_some(())?;
                self.add(k.result(inst), dim - usize::from(d < dim))
            }
            Op::Yield => {
                let owner = *self.owners.get(self.yields.get(&inst)?)?;
                self.tie(owner, v, from_end)
            }
            Op::Broadcast | Op::Rearrange | Op::For | Op::While | Op::If => self.tie(inst, v, from_end),
            op if op.is_elementwise() => self.tie(inst, v, from_end),
            _ => None,
        }
    }

    /// Adds all values that an instruction ties to one.
    fn tie(&mut self, inst: Inst, v: Value, from_end: usize) -> Option<()> {
        let groups = tied(self.k, inst);
        groups.iter().filter(|g| g.contains(&v)).try_for_each(|g| self.add_all(g, from_end))
    }
}
