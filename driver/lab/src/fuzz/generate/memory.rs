//! Axes, views, loads and stores.

use super::super::range::{DATA, Range};
use super::{Generator, Result, shape};
use warplift_ir::tile::{BinOp, CmpOp, Constant, Dim, Domain, Facts, Op, Tunable, Type, Value};
use warplift_ir::types::Elem;

/// One direction of the problem, cut into tiles.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis {
    /// Its size, a parameter.
    pub size: Value,
    /// The size's value.
    pub value: i64,
    /// Extent of a tile.
    pub extent: Dim,
    /// Tiles.
    pub tiles: Value,
    /// First element of this block's tile; of the depth, known in its loop only.
    pub start: Option<Value>,
    /// This block's tile.
    pub index: Option<Value>,
}

/// Which axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Along {
    Grid(usize),
    Depth,
}

/// A view to load from.
#[derive(Clone, Debug)]
pub(super) struct Input {
    /// Name of its array.
    pub array: String,
    pub view: Value,
    pub elem: Elem,
    /// The type to which its tiles are converted at once.
    pub converted: Option<Elem>,
    /// The axis of each dimension of the view.
    pub along: Vec<Along>,
    /// Whether its tile is used transposed.
    pub flipped: bool,
    /// Added to the index of each dimension.
    pub shift: Vec<i64>,
    pub fill: f64,
}

const TAME: [Elem; 6] = [Elem::F32, Elem::F16, Elem::F32, Elem::Bf16, Elem::I32, Elem::Uint(32)];
const WILD: [Elem; 14] = [
    Elem::F32,
    Elem::F16,
    Elem::I32,
    Elem::Int(8),
    Elem::Uint(8),
    Elem::E4M3,
    Elem::E5M2,
    Elem::Uint(4),
    Elem::Int(16),
    Elem::F64,
    Elem::I64,
    Elem::Tf32,
    Elem::Int(6),
    Elem::Bool,
];

/// Types of packed arrays.
pub(super) const NARROW: [Elem; 8] = [
    Elem::Uint(4),
    Elem::Int(4),
    Elem::Int(6),
    Elem::Uint(3),
    Elem::Int(8),
    Elem::Uint(2),
    Elem::Int(5),
    Elem::Mini { exponent: 3, mantissa: 2 },
];

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

impl Generator<'_> {
    pub(super) fn elem(&mut self) -> Elem {
        match self.wild && self.choices.chance(1, 2) {
            true => self.choices.of(&WILD),
            false => self.choices.of(&TAME),
        }
    }

    /// A size of about `tiles` tiles, with or without facts.
    fn size(&mut self, name: &str, extent: u32, least: i64) -> Result<(Value, i64)> {
        let multiple = self.choices.of(if self.regular { &[8, 16, 32] } else { &[1, 8, 4, 16, 1, 2] });
        let most = (2 * i64::from(extent) + i64::from(extent) / 2).max(2);
        let value = match self.choices.below(4) {
            0 => i64::from(extent) * self.choices.between(1, 2),
            1 => self.choices.between(least, 9),
            _ => self.choices.between(least, most),
        };
        let value = (value / multiple * multiple).max(if least > 0 { multiple } else { 0 });
        let max = if self.choices.chance(1, 4) { value + 5 } else { i64::MAX };
        let min = if least > 0 && self.choices.chance(1, 4) { 1 } else { 0 };
        self.sizes.insert(name.to_owned(), value);
        let facts = Facts { multiple, min, max, ..Facts::default() };
        let size = self.b.param(name, Type::Scalar(Elem::I32), facts)?;
        self.keep(size, Range::whole(value as f64, value as f64));
        Ok((size, value))
    }

    /// A constant extent, or a tunable to which the mapping gives this value.
    fn tile_extent(&mut self, name: &str, extent: u32) -> Result<Dim> {
        if self.choices.chance(1, 2) {
            return Ok(Dim::new(extent));
        }
        if extent > 1 && self.choices.chance(1, 6) {
            return self.composed_extent(name, extent);
        }
        let name = format!("B{}", name.to_uppercase());
        let default = if self.choices.chance(1, 2) { i64::from(extent) } else { 16 };
        let domain = self.domain(extent.into(), default);
        let t = self.b.tunable_in(&name, default, domain)?;
        self.tunables.push((t, name, extent.into()));
        if self.choices.chance(1, 4) {
            self.assert_divides(t, gcd(extent.into(), default))?;
        }
        Ok(Dim::tunable(t))
    }

    /// A product of two tunables, or a tunable and a number, that together have this value.
    fn composed_extent(&mut self, name: &str, extent: u32) -> Result<Dim> {
        let of = if extent.is_multiple_of(2) && self.choices.chance(1, 2) {
            let half = self.part_of(name, "H", extent / 2)?;
            half.times(self.part_of(name, "T", 2)?)
        } else {
            let rest = 1 + self.choices.below(extent as usize - 1) as u32;
            self.part_of(name, "R", rest)?.plus(Dim::new(extent - rest))
        };
        Ok(of.unwrap_or(Dim::new(extent)))
    }

    /// A tunable to which the mapping gives this value.
    fn part_of(&mut self, name: &str, letter: &str, value: u32) -> Result<Dim> {
        let name = format!("{letter}{}", name.to_uppercase());
        let t = self.b.tunable(&name, value.into())?;
        self.tunables.push((t, name, value.into()));
        Ok(Dim::tunable(t))
    }

    /// A domain that holds both values.
    fn domain(&mut self, a: i64, b: i64) -> Domain {
        match self.choices.below(3) {
            0 => Domain::OneOf(vec![a, b, a + b]),
            1 => Domain::Range { min: a.min(b), max: a.max(b) + 5, step: gcd(a, b) },
            _ => Domain::Any,
        }
    }

    /// An assert that tunables decide: a named number divides one.
    fn assert_divides(&mut self, t: Tunable, by: i64) -> Result<()> {
        let name = format!("C{}", self.tunables.len());
        self.b.constant(&name, Constant::Int(by))?;
        let (value, by) = (self.b.dim(Dim::tunable(t))?, self.int(by)?);
        let rest = self.index(BinOp::Rem, value, by)?;
        let zero = self.int(0)?;
        let whole = self.b.compare(CmpOp::Eq, rest, zero)?;
        let text = if self.choices.chance(1, 2) { "" } else { "whole" };
        self.b.inst(Op::Assert(text.to_owned()), &[whole], None).map(drop)
    }

    fn axis(&mut self, name: &str, extent: u32, least: i64) -> Result<Axis> {
        let (size, value) = self.size(name, extent, least)?;
        let extent = self.tile_extent(name, extent)?;
        let width = self.b.dim(extent)?;
        let tiles = self.index(BinOp::CeilDiv, size, width)?;
        Ok(Axis { size, value, extent, tiles, start: None, index: None })
    }

    pub(super) fn grid_axis(&mut self, name: &str, extent: u32) -> Result<()> {
        let least = if self.choices.chance(1, 12) { 0 } else { 1 };
        let axis = self.axis(name, extent, least)?;
        self.axes.push(axis);
        Ok(())
    }

    pub(super) fn depth_axis(&mut self, extent: u32) -> Result<()> {
        let least = if self.choices.chance(1, 8) { 0 } else { 1 };
        let axis = self.axis("k", extent, least)?;
        self.depth = Some(axis);
        Ok(())
    }

    /// The grid, and this block's place in it.
    pub(super) fn finish_grid(&mut self) -> Result<()> {
        let tiles: Vec<Value> = self.axes.iter().map(|a| a.tiles).collect();
        self.b.set_grid(&tiles)?;
        for d in 0..tiles.len() {
            let index = self.b.block_index(d as u8)?;
            self.keep(index, Range::whole(0.0, 64.0));
            let width = self.b.dim(self.axes[d].extent)?;
            let start = match self.choices.chance(1, 2) {
                true => self.index(BinOp::Mul, index, width)?,
                false => self.index(BinOp::Mul, width, index)?,
            };
            (self.axes[d].index, self.axes[d].start) = (Some(index), Some(start));
        }
        self.loaded_scalars()
    }

    pub(super) fn along(&self, a: Along) -> Option<Axis> {
        match a {
            Along::Grid(d) => self.axes.get(d).copied(),
            Along::Depth => self.depth,
        }
    }

    /// Name of the array that comes next.
    fn next_array(&self) -> String {
        format!("x{}", self.pointers)
    }

    pub(super) fn pointer(&mut self, elem: Elem) -> Result<Value> {
        let align = self.choices.of(if self.regular { &[16] } else { &[16, 16, 1, 16, 4, 8] });
        let name = self.next_array();
        self.pointers += 1;
        let may_alias = !self.regular && self.choices.chance(1, 8);
        self.b.param(&name, Type::Ptr(elem), Facts { align, may_alias, ..Facts::default() })
    }

    /// A view over these sizes: row-major, with a leading dimension of its own, or the other way round.
    pub(super) fn view(&mut self, ptr: Value, sizes: &[(Value, i64)], fill: f64) -> Result<Value> {
        let extents: Vec<Value> = sizes.iter().map(|s| s.0).collect();
        let kind = self.choices.weighted(&[(5, 0), (1, 1), (1, 2)]);
        let [(_, rows), (_, columns)] = sizes[..] else {
            return self.b.view(ptr, &extents, None, fill);
        };
        if kind == 0 || self.regular {
            return self.b.view(ptr, &extents, None, fill);
        }
        let least = if kind == 1 { columns } else { rows };
        let name = format!("ld{}", self.pointers);
        let multiple = self.choices.of(&[8, 1, 16]);
        let value = (least + self.choices.between(0, 9) + multiple - 1) / multiple * multiple;
        self.sizes.insert(name.clone(), value);
        let facts = Facts { multiple, ..Facts::default() };
        let leading = self.b.param(&name, Type::Scalar(Elem::I32), facts)?;
        let one = self.int(1)?;
        let strides = if kind == 1 { [leading, one] } else { [one, leading] };
        self.b.view(ptr, &extents, Some(&strides), fill)
    }

    /// One of a few arrays that lie one behind the other. Its index may lie outside of them.
    fn one_of(&mut self, ptr: Value, sizes: &[(Value, i64)], fill: f64) -> Result<Value> {
        let name = format!("o{}", self.pointers);
        let count = self.choices.between(1, 4);
        self.sizes.insert(name.clone(), count);
        let outer = self.b.param(&name, Type::Scalar(Elem::I32), Facts::default())?;
        let extents: Vec<Value> = [outer].into_iter().chain(sizes.iter().map(|s| s.0)).collect();
        let whole = self.b.view(ptr, &extents, None, fill)?;
        let loaded = self.offset.filter(|&v| self.ty(v) == Type::Scalar(Elem::I32));
        let index = match (self.choices.below(3), loaded) {
            (0, Some(loaded)) => loaded,
            (1, _) => match self.axes[0].index {
                Some(index) => index,
                None => self.int(0)?,
            },
            _ => {
                let at = self.choices.between(-1, count);
                self.int(at)?
            }
        };
        self.b.sub_view(whole, &[Some(index), None, None])
    }

    /// Something to load from, along these axes or any.
    pub(super) fn input(&mut self, along: Option<(Vec<Along>, Elem)>) -> Result<()> {
        let (mut along, elem) = match along {
            Some(given) => given,
            None if self.choices.chance(1, 10) => (self.any_axes(), Elem::Bool),
            None => (self.any_axes(), self.elem()),
        };
        let flipped = along.len() == 2 && !self.regular && self.choices.chance(1, 6);
        if flipped {
            along.reverse();
        }
        let filled = (elem.is_float() || self.wild) && !self.regular && self.choices.chance(1, 8);
        let fill = if filled { f64::from(self.choices.of(&[1i8, -2])) } else { 0.0 };
        let others = if self.regular { 0 } else { 1 };
        let shifts = [(12, 0), (others, 8), (others, 1), (others, -1)];
        let shift = along.iter().map(|_| self.choices.weighted(&shifts)).collect();
        let array = self.next_array();
        let ptr = self.pointer(elem)?;
        let sizes: Vec<(Value, i64)> =
            along.iter().filter_map(|&a| self.along(a)).map(|a| (a.size, a.value)).collect();
        let view = match sizes.len() == 2 && self.choices.chance(1, 8) {
            true => self.one_of(ptr, &sizes, fill)?,
            false => self.view(ptr, &sizes, fill)?,
        };
        self.inputs.push(Input { array, view, elem, converted: None, along, flipped, shift, fill });
        Ok(())
    }

    /// Something narrow to load from, converted at once. The mapping packs it most of the time.
    pub(super) fn narrow(&mut self, along: Vec<Along>, elem: Elem, converted: Elem) -> Result<()> {
        let made = self.input(Some((along, elem)));
        if let Some(input) = self.inputs.last_mut() {
            input.converted = Some(converted);
            if !self.choices.chance(1, 6) {
                self.packed.push(input.array.clone());
            }
        }
        made
    }

    /// A narrow input of a kernel without products.
    pub(super) fn narrow_input(&mut self) -> Result<()> {
        let (along, elem) = (self.any_axes(), self.choices.of(&NARROW));
        let to = if elem.is_int() { self.choices.of(&[Elem::F32, Elem::I32]) } else { Elem::F32 };
        self.narrow(along, elem, to)
    }

    /// All axes of the grid, one of them, or the depth and one.
    fn any_axes(&mut self) -> Vec<Along> {
        let first = Along::Grid(self.choices.below(self.axes.len()));
        let all: Vec<Along> = (0..self.axes.len()).map(Along::Grid).collect();
        let depth = self.depth.is_some();
        match self.choices.below(6) {
            0 => vec![first],
            1 | 2 if depth => vec![first, Along::Depth],
            3 if depth => vec![Along::Depth],
            _ => all,
        }
    }

    /// Loads an input. Outside a loop over the depth, only inputs without that axis can be loaded.
    pub(super) fn load_inputs(&mut self, depth_start: Option<Value>) -> Result<()> {
        for i in 0..self.inputs.len() {
            let deep = self.inputs[i].along.contains(&Along::Depth);
            if deep == depth_start.is_some() {
                self.load(i, depth_start)?;
            }
        }
        Ok(())
    }

    /// The tile of an input.
    pub(super) fn load(&mut self, input: usize, depth_start: Option<Value>) -> Result<Option<Value>> {
        let Input { view, elem, converted, along, flipped, shift, fill, .. } = self.inputs[input].clone();
        let mut index = Vec::new();
        let mut dims = Vec::new();
        for (d, (&a, &by)) in along.iter().zip(&shift).enumerate() {
            let Some(axis) = self.along(a) else { return Ok(None) };
            let Some(start) = axis.start.or(depth_start) else { return Ok(None) };
            dims.push(axis.extent);
            let start = match by {
                0 => start,
                by => {
                    let by = self.int(by)?;
                    self.index(BinOp::Add, start, by)?
                }
            };
            index.push(self.moved_by_memory(start, d + 1 == along.len())?);
        }
        let Some(shape) = shape(&dims) else { return Ok(None) };
        let gathers = !self.regular && elem.bits() >= 8 && self.choices.chance(1, 8);
        let tile = match gathers {
            true => {
                let d = self.choices.below(dims.len());
                index[d] = self.permuted(index[d], dims[d])?;
                self.b.load_gather(view, &index, None, shape)?
            }
            false => self.b.load(view, &index, shape)?,
        };
        // Inputs are negative too: an unsigned type makes large numbers of that.
        let range = match elem {
            Elem::Uint(b) if b <= 8 => Range::whole(0.0, 2f64.powi(b.into()) - 1.0),
            Elem::Uint(_) => Range::whole(0.0, 2f64.powi(64)),
            Elem::Bool => Range::whole(0.0, 1.0),
            _ => Range::whole(fill.min(-DATA), fill.max(DATA)),
        };
        self.keep(tile, range);
        if let Some(to) = converted {
            return Ok(self.apply(Op::Cast, &[tile], Some(Type::Tile(to, shape))));
        }
        Ok(match flipped {
            true => self.apply(Op::Trans([1, 0].into_iter().collect()), &[tile], None),
            false => Some(tile),
        })
    }

    /// Stores one to `most` values, the last ones first.
    pub(super) fn stores(&mut self, most: usize) -> Result<()> {
        // Results of loops and branches are out of sight here. Every other kernel rounds some value for its stores.
        if self.choices.chance(1, 2)
            && let Some(x) = self.pick_tile()
        {
            self.function(x)?;
        }
        let count = 1 + self.choices.below(most);
        let mut stored = Vec::new();
        for _ in 0..count {
            // Of the values that can be stored, every other time one that was rounded, if there is one.
            let fresh = |g: &Self, v: Value| g.ty(v).shape().is_some() && !stored.contains(&v);
            let rounded = |g: &Self, v: Value| fresh(g, v) && g.range(v).error > 0.0;
            let rough = if self.choices.chance(1, 2) { self.pick(rounded) } else { None };
            let Some(v) = rough.or_else(|| self.pick(fresh)) else { break };
            stored.push(v);
            self.store(v)?;
        }
        if stored.is_empty() {
            let extents: Vec<Dim> = self.axes.iter().map(|a| a.extent).collect();
            let ty = shape(&extents).map(|s| Type::Tile(Elem::F32, s));
            let tile = self.constant_of(ty.unwrap_or(Type::Scalar(Elem::F32)))?;
            self.store(tile)?;
        }
        Ok(())
    }

    /// Stores a tile: where its axes say so to the block's part of a whole, else to a place of the block's own.
    pub(super) fn store(&mut self, v: Value) -> Result<()> {
        let v = self.storable(v)?;
        let Type::Tile(elem, shape) = self.ty(v) else { return Ok(()) };
        let updates = self.updates(v);
        if updates
            && self.choices.chance(1, 3)
            && let Some(flat) = self.flat(v)
        {
            return self.update_shared(flat);
        }
        let ptr = self.pointer(elem)?;
        let whole = self.axes.len() == shape.rank()
            && self.axes.iter().zip(shape.dims()).all(|(a, d)| a.extent.same(*d));
        if whole && !self.choices.chance(1, 8) {
            let sizes: Vec<(Value, i64)> = self.axes.iter().map(|a| (a.size, a.value)).collect();
            let view = self.view(ptr, &sizes, 0.0)?;
            let mut index: Vec<Value> = self.axes.iter().filter_map(|a| a.start).collect();
            if updates {
                return self.update_own(view, &index, v);
            }
            if elem.bits() < 8 || !self.choices.chance(1, 10) {
                return self.b.store(view, &index, v);
            }
            let d = self.choices.below(index.len());
            index[d] = self.permuted(index[d], shape.dims()[d])?;
            return self.b.store_scatter(view, &index, v, None);
        }
        let (mut block, mut blocks) = (self.int(0)?, self.int(1)?);
        for axis in self.axes.clone() {
            let Some(index) = axis.index else { continue };
            let before = self.index(BinOp::Mul, block, axis.tiles)?;
            block = self.index(BinOp::Add, before, index)?;
            blocks = self.index(BinOp::Mul, blocks, axis.tiles)?;
        }
        let zero = self.int(0)?;
        let extents = shape.dims().iter().map(|&d| self.b.dim(d)).collect::<Result<Vec<Value>>>()?;
        let mut sizes = extents.clone();
        sizes[0] = match self.choices.chance(1, 4) {
            // Every place lies inside.
            true => self.b.unbounded()?,
            false => self.index(BinOp::Mul, blocks, extents[0])?,
        };
        let mut index = vec![zero; extents.len()];
        index[0] = self.index(BinOp::Mul, block, extents[0])?;
        let view = self.b.view(ptr, &sizes, None, 0.0)?;
        self.b.store(view, &index, v)
    }

    /// The indices from a start on along a dimension, in another order: each block still touches its own part.
    pub(super) fn permuted(&mut self, start: Value, extent: Dim) -> Result<Value> {
        let Some(shape) = shape(&[extent]) else { return Ok(start) };
        let iota = self.b.inst(Op::Iota(0), &[], Some(Type::Tile(Elem::I32, shape)))?;
        let iota = self.b.results(iota)[0];
        let run = self.choices.of(&[8, 16]);
        let whole = self.extent(extent).is_multiple_of(run);
        let order = match self.choices.below(4) {
            0 => iota,
            // Runs of neighbours, from the last run to the first.
            1 if whole => self.runs_from_the_last(iota, extent, run.into())?,
            // From the last one to the first.
            _ => {
                let last = self.b.dim(extent)?;
                let one = self.int(1)?;
                let last = self.index(BinOp::Sub, last, one)?;
                self.b.binary(BinOp::Sub, last, iota)?
            }
        };
        // Nothing is added to tiles of 64-bit integers.
        let start = match self.ty(start) {
            Type::Scalar(Elem::Int(64)) => self.b.cast(start, Elem::I32)?,
            _ => start,
        };
        self.b.binary(BinOp::Add, order, start)
    }

    fn runs_from_the_last(&mut self, iota: Value, extent: Dim, run: i64) -> Result<Value> {
        let (all, length) = (self.b.dim(extent)?, self.int(run)?);
        let last = self.index(BinOp::Sub, all, length)?;
        let number = self.b.binary(BinOp::Div, iota, length)?;
        let before = self.b.binary(BinOp::Mul, number, length)?;
        let first = self.b.binary(BinOp::Sub, last, before)?;
        let within = self.b.binary(BinOp::Rem, iota, length)?;
        self.b.binary(BinOp::Add, first, within)
    }

    /// Truth values as integers; wild kernels may store them as they are.
    fn storable(&mut self, v: Value) -> Result<Value> {
        let ty = self.ty(v);
        if ty.elem() != Elem::Bool || self.choices.chance(1, 2) {
            return Ok(v);
        }
        let (yes, no) = (self.constant(Elem::I32)?, self.constant(Elem::I32)?);
        Ok(self.apply(Op::Select, &[v, yes, no], None).unwrap_or(v))
    }
}
