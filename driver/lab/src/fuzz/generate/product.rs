//! Kernels with products: one to three over a loop, chained or not, and what follows them.

use super::super::range::Range;
use super::memory::{Along, NARROW};
use super::{Generator, Result, shape};
use warplift_ir::tile::{BinOp, Op, Type, UnOp, Value};
use warplift_ir::types::Elem;

impl Generator<'_> {
    /// Loads, products in a loop over the depth, operations on their sums, stores.
    pub(super) fn product_kernel(&mut self) -> Result<()> {
        let groups = self.choices.of(&[1, 1, 2, 3]);
        self.groups = Some(groups);
        let rows = 64 * groups * if self.choices.chance(1, 6) { 2 } else { 1 };
        let columns = self.choices.of(&[16, 32, 64, 8, 24, 48, 128, 96]);
        let elem = if self.wild && self.choices.chance(1, 2) {
            self.elem()
        } else {
            self.choices.of(&[Elem::F16, Elem::Bf16, Elem::F16, Elem::Bf16, Elem::E4M3, Elem::Tf32])
        };
        // A step of wgmma is 32 bytes deep.
        let deep = self.choices.of(&[16, 32, 64]).max(if elem.bits() == 8 { 32 } else { 16 });
        let odd = self.wild && self.choices.chance(1, 6);
        let narrow = elem.bits() == 16 && self.choices.chance(1, 4);
        self.regular = narrow || self.choices.chance(1, 3);
        self.grid_axis("m", if odd { 48 } else { rows })?;
        self.grid_axis("n", columns)?;
        self.finish_grid()?;
        self.depth_axis(deep)?;
        self.scalars()?;
        let count = self.choices.weighted(&[(5, 1), (2, 2), (1, 3)]);
        match narrow {
            true => {
                let narrow = self.choices.of(&NARROW);
                self.narrow(vec![Along::Grid(0), Along::Depth], narrow, elem)?;
            }
            false => self.operand(Along::Grid(0), elem)?,
        }
        for _ in 0..count {
            let others: &[Elem] = if elem == Elem::E4M3 { &[Elem::E4M3, Elem::E5M2] } else { &[elem] };
            let right = self.choices.of(others);
            self.operand(Along::Grid(1), right)?;
        }
        let late = self.inputs.len();
        for _ in 0..self.choices.below(3) {
            let along = self.choices.of(&[vec![Along::Grid(0), Along::Grid(1)], vec![Along::Grid(1)]]);
            let elem = self.choices.of(&[elem, Elem::F32]);
            self.input(Some((along, elem)))?;
        }
        let sums = self.main_loop(count)?;
        self.values.clear();
        self.values.extend(&sums);
        let late: Vec<usize> = (late..self.inputs.len()).collect();
        for i in late {
            self.load(i, None)?;
        }
        self.statements(1, 4)?;
        self.results(&sums)
    }

    /// An operand: along the depth and a grid axis, in either order.
    fn operand(&mut self, along: Along, elem: Elem) -> Result<()> {
        let mut both = vec![along, Along::Depth];
        if self.choices.chance(1, 3) && (self.wild || elem.bits() == 16) {
            both.reverse();
        }
        self.input(Some((both, elem)))
    }

    /// Sums of products over the depth, of the first operand with each of the others.
    fn main_loop(&mut self, count: usize) -> Result<Vec<Value>> {
        let (Some(axis), [m, n]) = (self.depth, [self.axes[0].extent, self.axes[1].extent]) else {
            return Ok(Vec::new());
        };
        let Some(shape) = shape(&[m, n]) else { return Ok(Vec::new()) };
        let zero = self.b.float(0.0, Elem::F32)?;
        let mut init = Vec::new();
        for _ in 0..count {
            let v = match self.choices.chance(1, 10) {
                true => self.constant_of(Type::Tile(Elem::F32, shape))?,
                false => self.b.full(zero, shape)?,
            };
            self.known.insert(v, Range::whole(-5.0, 5.0));
            init.push(v);
        }
        let (low, step) = (self.int(0)?, self.int(1)?);
        let (counter, carried) = self.b.begin_for(low, axis.tiles, step, &init)?;
        self.enter(counter, &carried, &init);
        let width = self.b.dim(axis.extent)?;
        let start = self.index(BinOp::Mul, counter, width)?;
        let a = self.turned(0, start)?;
        let mut sums = Vec::new();
        for (i, &c) in carried.iter().enumerate() {
            let b = self.turned(1 + i, start)?;
            let args = a.zip(b).map(|(a, b)| [c, a, b]);
            let negated = a.is_some_and(|a| self.ty(a).elem().is_float()) && self.choices.chance(1, 8);
            sums.push(args.and_then(|args| self.apply(Op::Mma { negated }, &args, None)).unwrap_or(c));
        }
        if self.wild && self.choices.chance(1, 4) {
            self.branch(1)?;
        }
        let made = self.b.end(&sums)?;
        let results = self.b.results(made).to_vec();
        for &v in &results {
            self.known.insert(v, Range::whole(-2048.0, 2048.0));
        }
        Ok(results)
    }

    /// The tile of an input as the product wants it: the left operand's depth last, the right one's first.
    fn turned(&mut self, input: usize, start: Value) -> Result<Option<Value>> {
        let Some(mut v) = self.load(input, Some(start))? else { return Ok(None) };
        // Weights come with a zero point. Now and then another operand is computed.
        let is_weight = self.inputs[input].converted.is_some() && self.choices.chance(1, 2);
        if is_weight && self.ty(v).elem().is_float() {
            let eight = self.b.float(8.0, self.ty(v).elem())?;
            self.known.insert(eight, Range::whole(8.0, 8.0));
            v = self.apply(Op::Binary(BinOp::Sub), &[v, eight], None).unwrap_or(v);
        }
        let computed = self.wild || self.ty(v).elem().bits() == 16;
        if self.choices.chance(1, if self.wild { 4 } else { 8 }) && computed {
            v = self.apply(Op::Unary(UnOp::Neg), &[v], None).unwrap_or(v);
        }
        let along = &self.inputs[input].along;
        let flipped = self.inputs[input].flipped;
        // Square tiles fit both ways: the axes decide.
        let grid_first = (along[0] != Along::Depth) != flipped;
        let wants_grid = input == 0;
        match grid_first == wants_grid {
            true => Ok(Some(v)),
            false => Ok(self.apply(Op::Trans([1, 0].into_iter().collect()), &[v], None)),
        }
    }

    /// Stores every sum, or a value computed from it.
    fn results(&mut self, sums: &[Value]) -> Result<()> {
        for &sum in sums {
            let Some(shape) = self.ty(sum).shape() else { continue };
            let to = self.choices.of(&[Elem::F16, Elem::F32, Elem::Bf16]);
            let fits = |g: &Self, v: Value| g.ty(v) == Type::Tile(Elem::F32, shape);
            let v = self.pick(fits).filter(|_| self.choices.chance(1, 2)).unwrap_or(sum);
            let v = match to {
                Elem::F32 => Some(v),
                to => self.apply(Op::Cast, &[v], Some(Type::Tile(to, shape))),
            };
            self.store(v.unwrap_or(sum))?;
        }
        match self.choices.chance(1, 4) {
            true => self.stores(2),
            false => Ok(()),
        }
    }
}
