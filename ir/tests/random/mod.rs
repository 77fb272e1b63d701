//! Random kernels, put together with the builder from a list of numbers.

use warplift_ir::tile::*;
use warplift_ir::types::Elem;

const RELEASE: MemorySync = MemorySync { scope: MemoryScope::Cta, order: MemoryOrder::Release };
const ELEMS: [Elem; 12] = [
    Elem::F32,
    Elem::I32,
    Elem::F16,
    Elem::Bool,
    Elem::Bf16,
    Elem::F64,
    Elem::Tf32,
    Elem::Int(6),
    Elem::Uint(4),
    Elem::Uint(64),
    Elem::E4M3,
    Elem::Mini { exponent: 2, mantissa: 1 },
];

/// Some legal names, some that the text cannot use.
const NAMES: [&str; 8] = ["x", "y", "acc", "v3", "for", "f16", "", "\u{e4} b"];

const FLOATS: [f64; 8] = [0.0, -0.0, 1.5, -3.25e-30, 1e300, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];

/// Numbers that decide what is built.
struct Choices<'a>(std::slice::Iter<'a, u32>);

impl Choices<'_> {
    fn below(&mut self, n: usize) -> usize {
        self.0.next().map_or(0, |&c| c as usize % n.max(1))
    }

    fn of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())].clone()
    }
}

struct Random<'a> {
    b: KernelBuilder,
    choices: Choices<'a>,
    /// Values that may be in sight.
    values: Vec<Value>,
    tunable: Tunable,
}

/// The kernel that these numbers mean. It takes a pointer to f32 and an i32.
pub fn kernel(choices: &[u32]) -> Result<Kernel, BuildError> {
    let mut b = KernelBuilder::new("random")?;
    let p = b.param("p", Type::Ptr(Elem::F32), Facts::default())?;
    let n = b.param("n", Type::Scalar(Elem::I32), Facts::default())?;
    b.constant("C", Constant::Float(-0.5))?;
    b.constant("D", Constant::Int(-7))?;
    b.tunable_in("S", 6, Domain::Range { min: 2, max: 9, step: 4 })?;
    let tunable = b.tunable_in("T", 4, Domain::OneOf(vec![4, 8]))?;
    b.set_grid(&[n, n])?;
    let view = b.view(p, &[n, n], None, 0.5)?;
    let i = b.block_index(1)?;
    let mut random = Random { b, choices: Choices(choices.iter()), values: vec![n, i, view], tunable };
    random.constants()?;
    random.block(0)?;
    random.b.finish()
}

impl Random<'_> {
    fn constants(&mut self) -> Result<(), BuildError> {
        let zero = self.b.float(0.5, Elem::F32)?;
        let one = self.b.int(1, Elem::I32)?;
        let shape = self.shape();
        let tile = self.b.full(zero, shape)?;
        let store = Shape::of(&[2, 2]).and_then(|s| self.b.full(zero, s).ok());
        self.values.extend([zero, one, tile]);
        self.values.extend(store);
        Ok(())
    }

    /// Instructions until the numbers run out or say stop.
    fn block(&mut self, depth: u32) -> Result<(), BuildError> {
        while self.choices.0.len() > 0 && self.choices.below(16) != 0 {
            match self.choices.below(8) {
                0 if depth < 3 => self.region(depth)?,
                _ => self.inst(),
            }
        }
        Ok(())
    }

    fn value(&mut self) -> Value {
        let near = self.values.len().min(8);
        let at = match self.choices.below(2) {
            0 => self.choices.below(self.values.len()),
            _ => self.values.len() - 1 - self.choices.below(near),
        };
        self.values[at]
    }

    fn args(&mut self, count: usize) -> Vec<Value> {
        (0..count).map(|_| self.value()).collect()
    }

    fn dim(&mut self) -> Dim {
        let count = self.choices.of(&[0, 0, 1, 2]);
        let tunables = vec![self.tunable; count];
        let add = self.choices.of(&[0, 0, 0, 8]);
        let parts = (self.choices.of(&[1, 2, 4]), self.choices.of(&[1, 1, 1, 2]), add);
        Dim::of_parts(&tunables, parts).expect("at most two tunables")
    }

    fn shape(&mut self) -> Shape {
        let rank = 1 + self.choices.below(2);
        let dims: Vec<Dim> = (0..rank).map(|_| self.dim()).collect();
        Shape::new(&dims).expect("rank 1 or 2")
    }

    /// Any instruction; the builder may refuse it, which changes nothing.
    fn inst(&mut self) {
        let op = self.op();
        let operands = match op {
            Op::Select | Op::Fma | Op::Mma { .. } | Op::Load | Op::AsyncCopy | Op::LoadGather { .. } => 3,
            Op::LoadRuns(_) => 4,
            ref op if op.is_write() => 4,
            Op::Binary(_) | Op::Compare(_) | Op::Join | Op::Gather(_) | Op::Print(_) => 2,
            Op::Int(_)
            | Op::Float(_)
            | Op::Dim(_)
            | Op::BlockIndex(_)
            | Op::GridDim(_)
            | Op::Unbounded
            | Op::Iota(_)
            | Op::AsyncCommit
            | Op::AsyncWait(_) => 0,
            _ => 1,
        };
        let mut args = self.args(operands);
        if op.is_read() || op.is_write() || matches!(op, Op::AsyncCopy) {
            args[0] = self.values[2];
        }
        let own = args.first().map_or(Elem::F32, |&v| self.b.kernel().ty(v).elem());
        let any = self.choices.of(&ELEMS);
        let elem = match op {
            Op::Cast | Op::Int(_) | Op::Float(_) => any,
            Op::Iota(_) => Elem::I32,
            _ => own,
        };
        let want = match op {
            Op::Cast | Op::Int(_) | Op::Float(_) => Type::Scalar(elem),
            Op::Workspace => Type::Ptr(elem),
            Op::Shared { .. } => Type::View(elem, args.len() as u8),
            _ => Type::Tile(elem, self.shape()),
        };
        if let Ok(inst) = self.b.inst(op, &args, Some(want)) {
            self.keep(inst);
        }
    }

    fn keep(&mut self, inst: Inst) {
        let results = self.b.results(inst).to_vec();
        for &v in &results {
            let name = self.choices.of(&NAMES);
            self.b.set_name(v, name);
        }
        self.values.extend(results);
        if self.choices.below(8) == 0 {
            let team = self.choices.of(&[Team::Thread, Team::Warps(4), Team::Warpgroups(2)]);
            let attrs = Attrs { team, deferred: self.choices.below(2) == 0, ..Attrs::default() };
            self.b.set_attrs(inst, attrs);
        }
    }

    fn op(&mut self) -> Op {
        let (d, dim) = (self.choices.below(2) as u8, self.dim());
        let reduce = self.choices.of(&[ReduceOp::Sum, ReduceOp::Max, ReduceOp::Xor]);
        let (float, elem) = (self.choices.of(&FLOATS), self.choices.of(&ELEMS));
        let unary = self.choices.of(&[UnOp::Neg, UnOp::Exp2, UnOp::Not]);
        self.choices.of(&[
            Op::Int(i64::from(d)),
            Op::Float(float),
            Op::Dim(dim),
            Op::BlockIndex(d),
            Op::GridDim(d),
            Op::Unbounded,
            Op::Unary(unary),
            Op::Binary(BinOp::Add),
            Op::Binary(BinOp::Div),
            Op::Binary(BinOp::Max),
            Op::Binary(BinOp::CeilDiv),
            Op::Binary(BinOp::Shl),
            Op::Compare(CmpOp::Le),
            Op::Select,
            Op::Fma,
            Op::Cast,
            Op::ViewAs(elem),
            Op::Full,
            Op::Iota(d),
            Op::Broadcast,
            Op::Reshape,
            Op::Trans([1, 0].into_iter().collect()),
            Op::Join,
            Op::Split,
            Op::Slice([Dim::new(0), dim].into_iter().collect()),
            Op::Rearrange,
            Op::ExpandDims(d),
            Op::SubView([1].into_iter().collect()),
            Op::Load,
            Op::Store,
            Op::Atomic(AtomicOp::Add),
            Op::Workspace,
            Op::Shared { layout: None },
            Op::Arrive,
            Op::LoadGather { masked: false },
            Op::LoadRuns(d),
            Op::StoreScatter { masked: false },
            Op::AtomicScatter { op: AtomicOp::Add, old: true, masked: false, sync: MemorySync::default() },
            Op::AtomicScatter { op: AtomicOp::Max, old: false, masked: false, sync: RELEASE },
            Op::ToIndex,
            Op::Mma { negated: d == 0 },
            Op::Reduce(reduce, d),
            Op::Scan(reduce, d),
            Op::Gather(d),
            Op::AsyncCopy,
            Op::AsyncCommit,
            Op::AsyncWait(0),
            Op::Assume(Assumption { multiple: 8, min: -1, max: 64 }),
            Op::Assume(Assumption { max: 5, ..Assumption::default() }),
            Op::Print("\"quoted\"\n".to_owned()),
            Op::Assert(String::new()),
            Op::Assert("text".to_owned()),
        ])
    }

    fn region(&mut self, depth: u32) -> Result<(), BuildError> {
        let outside = self.values.len();
        let count = self.choices.below(3);
        let init = self.args(count);
        let inst = match self.choices.below(3) {
            0 => {
                let range = [0, 3, 1].map(|v| self.b.int(v, Elem::I32));
                let [lo, hi, step] = range;
                let (at, carried) = self.b.begin_for(lo?, hi?, step?, &init)?;
                self.values.extend(carried.iter().chain([&at]));
                self.block(depth + 1)?;
                let yields = self.like(&carried);
                self.b.end(&yields)?
            }
            1 => {
                let carried = self.b.begin_while(&init)?;
                self.values.extend(&carried);
                self.block(depth + 1)?;
                let mut yields = vec![self.b.int(0, Elem::Bool)?];
                yields.extend(self.like(&carried));
                self.b.end(&yields)?
            }
            _ => {
                let condition = self.b.int(1, Elem::Bool)?;
                self.b.begin_if(condition)?;
                self.block(depth + 1)?;
                let first = self.like(&init);
                self.b.begin_else(&first)?;
                self.values.truncate(outside);
                self.block(depth + 1)?;
                self.b.end(&init)?
            }
        };
        self.values.truncate(outside);
        self.keep(inst);
        Ok(())
    }

    /// For each value the last one in sight of the same type.
    fn like(&mut self, values: &[Value]) -> Vec<Value> {
        let ty = |v: Value| self.b.kernel().ty(v);
        let last = |&v: &Value| {
            let same = |w: &&Value| ty(**w) == ty(v) && self.b.visible(**w);
            self.values.iter().rev().find(same).copied().unwrap_or(v)
        };
        values.iter().map(last).collect()
    }
}
