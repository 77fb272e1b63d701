//! A common dimension: one of each of the tiles that elementwise work, products, loops and branches connect. All of them may be longer
//! along it where what is loaded ends with its view, in zeros, and what is stored too, which clips.
//!
//! ```text
//!  tv = load v[t, 0] : bf16[128, 72]     acc1 = mma acc0 * c, p, tv     store o[i, 0], cast(acc, bf16)
//!                            ^^                      ^^^^^^^^^^                        ^^^
//! ```

use super::swap_ab::tied;
use crate::tiles::{Users, users};
use crate::window::Window;
use rustc_hash::FxHashMap;
use warplift_ir::tile::{Block, Dim, Inst, Kernel, Op, Shape, Type, Value, ValueDef};

/// The extent of a dimension of a tile.
pub(super) fn extent(k: &Kernel, v: Value, dim: usize) -> Option<u32> {
    k.ty(v).shape()?.extents()?.get(dim).copied()
}

/// The dimension of each tile that has it.
pub(super) struct Tiles(FxHashMap<Value, usize>);

impl Tiles {
    /// Gives all of them another extent along it.
    pub fn set_extent(&self, k: &mut Kernel, extent: u32) {
        for (&v, &dim) in &self.0 {
            let Type::Tile(elem, shape) = k.ty(v) else { continue };
            let mut dims = shape.dims().to_vec();
            dims[dim] = Dim::new(extent);
            if let Some(shape) = Shape::new(&dims) {
                k.values[v].ty = Type::Tile(elem, shape);
            }
        }
    }

    /// Those of them that are loaded.
    pub fn loads(&self, k: &Kernel) -> impl Iterator<Item = Inst> {
        self.0.keys().filter_map(|&v| k.def(v).filter(|&d| matches!(k.insts[d].op, Op::Load)))
    }

    /// Whether it is contiguous in memory in one of the tiles that are loaded.
    pub fn are_contiguous(&self, k: &Kernel) -> bool {
        self.0.iter().any(|(&v, &dim)| {
            let load = k.def(v).filter(|&d| matches!(k.insts[d].op, Op::Load));
            load.and_then(|d| Window::of(k, k.args(d)[0])).is_some_and(|w| w.unit(k) == Some(dim))
        })
    }
}

/// What connects the values of a kernel: the users of each, the block of each `yield`, and the instruction of each block.
pub(super) struct Connections {
    users: Users,
    yields: FxHashMap<Inst, Block>,
    owners: FxHashMap<Block, Inst>,
}

impl Connections {
    /// Those of a kernel.
    pub fn of(k: &Kernel) -> Self {
        let (mut yields, mut owners) = (FxHashMap::default(), FxHashMap::default());
        k.walk(|block, inst| {
            yields.extend(matches!(k.insts[inst].op, Op::Yield).then_some((inst, block)));
            owners.extend(k.insts[inst].blocks.iter().map(|&b| (b, inst)));
        });
        Self { users: users(k), yields, owners }
    }

    /// The tiles that have a dimension of a value in common, if all of them may be longer along it.
    pub fn tiles(&self, k: &Kernel, v: Value, dim: usize) -> Option<Tiles> {
        let extent = extent(k, v, dim)?;
        let (tiles, work) = (FxHashMap::default(), Vec::new());
        let mut common = CommonDim { k, by: self, extent, tiles, work };
        common.add(v, dim)?;
        while let Some(v) = common.work.pop() {
            common.visit(v)?;
        }
        Some(Tiles(common.tiles))
    }
}

/// A dimension that several tiles have in common, as far as it is known.
struct CommonDim<'k> {
    k: &'k Kernel,
    by: &'k Connections,
    extent: u32,
    tiles: FxHashMap<Value, usize>,
    work: Vec<Value>,
}

impl CommonDim<'_> {
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
            ValueDef::Param(block, _) => *self.by.owners.get(&block)?,
        };
        self.through(maker, v)?;
        let users = self.by.users.get(&v).cloned().unwrap_or_default();
        users.into_iter().try_for_each(|user| self.through(user, v))
    }

    /// Adds what an instruction ties to that dimension of one of its operands or results. `None` if it needs the tile as it is.
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
            Op::Mma { .. } => self.product(inst, v, dim),
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
                let owner = *self.by.owners.get(self.by.yields.get(&inst)?)?;
                self.tie(owner, v, from_end)
            }
            Op::Broadcast | Op::Rearrange | Op::For | Op::While | Op::If => self.tie(inst, v, from_end),
            op if op.is_elementwise() => self.tie(inst, v, from_end),
            _ => None,
        }
    }

    /// A product ties its columns to those of its right operand and of its sums, and depths that end in zeros to each other.
    fn product(&mut self, inst: Inst, v: Value, dim: usize) -> Option<()> {
        let k = self.k;
        let &[sum, a, b] = k.args(inst) else { return None };
        match (a == v, b == v, dim) {
            (false, _, 1) => [sum, b, k.result(inst)].into_iter().try_for_each(|v| self.add(v, 1)),
            (true, false, 1) | (false, true, 0) if [a, b].iter().all(|&v| ends_in_zeros(k, v)) => {
                self.add(a, 1)?;
                self.add(b, 0)
            }
            _ => None,
        }
    }

    /// Adds all values that an instruction ties to one.
    fn tie(&mut self, inst: Inst, v: Value, from_end: usize) -> Option<()> {
        let groups = tied(self.k, inst);
        groups.iter().filter(|g| g.contains(&v)).try_for_each(|g| self.add_all(g, from_end))
    }
}

/// Whether a tile is zero where it is longer than the text says: what is loaded there is the view's fill.
fn ends_in_zeros(k: &Kernel, v: Value) -> bool {
    k.def(v).is_some_and(|def| match k.insts[def].op {
        Op::Load => true,
        Op::Trans(_) | Op::Rearrange | Op::Cast => ends_in_zeros(k, k.args(def)[0]),
        _ => false,
    })
}

/// Whether a load or a store ends where its view ends along a dimension, which is filled with zeros from there on.
fn ends_there(k: &Kernel, access: Inst, dim: usize, extent: u32) -> bool {
    let args = k.args(access);
    let ends = |w: Window| {
        let whole = w.kept.get(dim).map(|&d| w.extent(k, d))?;
        let end = k.int_const(*args.get(1 + dim)?)?.checked_add(extent.into())?;
        Some(w.fill(k) == 0.0 && k.int_const(whole)? == end)
    };
    Window::of(k, args[0]).and_then(ends).unwrap_or(false)
}
