//! Orientation classes: tiles that must be transposed together, because elementwise work, loops and branches connect
//! them.
//!
//! ```text
//!  p = exp2(s - m)   o = p * c      ─►   class {s, p, o, ..}
//!  q = trans(p)                     ─►   a class of its own
//! ```

use rustc_hash::{FxHashMap, FxHashSet};
use warplift_ir::tile::{Block, Inst, Kernel, Op, Type, Value};

/// Classes of tiles of rank 2, a forest of values.
pub struct Classes {
    /// The next value on the way to the root; roots have none.
    parent: FxHashMap<Value, Value>,
    pinned: FxHashSet<Value>,
}

/// Whether a value is a tile that can be transposed.
pub fn is_matrix(k: &Kernel, v: Value) -> bool {
    matches!(k.ty(v), Type::Tile(_, s) if s.rank() == 2)
}

/// Whether an instruction exchanges the dimensions of a matrix.
pub fn exchanges(k: &Kernel, inst: Inst) -> bool {
    matches!(&k.insts[inst].op, Op::Trans(perm) if perm[..] == [1, 0])
}

/// The tile behind a chain of transpositions, and whether their number is odd.
pub fn untransposed(k: &Kernel, v: Value) -> (Value, bool) {
    match k.def(v) {
        Some(def) if exchanges(k, def) => {
            let (from, odd) = untransposed(k, k.args(def)[0]);
            (from, !odd)
        }
        _ => (v, false),
    }
}

impl Classes {
    /// The classes of a kernel.
    pub fn of(k: &Kernel) -> Self {
        let mut all = Self { parent: FxHashMap::default(), pinned: FxHashSet::default() };
        for inst in k.insts.keys() {
            all.tie_all(k, &tied(k, inst));
        }
        let pinned = k.insts.keys().filter(|&i| k.attrs[i].layout.is_some());
        all.pinned = pinned.flat_map(|i| k.results(i)).map(|&v| all.root(v)).collect();
        all
    }

    /// The representative of a class.
    pub fn root(&self, v: Value) -> Value {
        self.parent.get(&v).map_or(v, |&up| self.root(up))
    }

    /// Whether the mapping pins the layout of a tile of the class.
    pub fn is_pinned(&self, root: Value) -> bool {
        self.pinned.contains(&root)
    }

    fn tie_all(&mut self, k: &Kernel, groups: &[Vec<Value>]) {
        for group in groups {
            let mut matrices = group.iter().copied().filter(|&v| is_matrix(k, v));
            let Some(first) = matrices.next() else { continue };
            for other in matrices {
                let (a, b) = (self.root(first), self.root(other));
                if a != b {
                    self.parent.insert(b, a);
                }
            }
        }
    }
}

/// Operands and results of an instruction that share one orientation, group by group.
pub fn tied(k: &Kernel, inst: Inst) -> Vec<Vec<Value>> {
    let data = &k.insts[inst];
    let (args, results) = (k.args(inst), k.results(inst));
    match data.op {
        Op::Rearrange | Op::Broadcast | Op::Slice(_) | Op::Scan(..) | Op::Gather(_) => {
            vec![args.iter().chain(results).copied().collect()]
        }
        ref op if op.is_elementwise() => vec![args.iter().chain(results).copied().collect()],
        Op::Mma { .. } => vec![vec![args[0], results[0]]],
        Op::For => carried(k, &args[3..], results, data.blocks[0], 1, 0),
        Op::While => carried(k, args, results, data.blocks[0], 0, 1),
        Op::If => {
            let yields = data.blocks.iter().map(|&b| k.yields(b));
            yields.flat_map(|y| y.iter().zip(results)).map(|(&a, &b)| vec![a, b]).collect()
        }
        _ => Vec::new(),
    }
}

/// The carried values of a loop: its parameters after the counter, and its yields.
fn carried(
    k: &Kernel,
    init: &[Value],
    results: &[Value],
    body: Block,
    params: usize,
    yields: usize,
) -> Vec<Vec<Value>> {
    let params = &k.blocks[body].params[params..];
    let yields = k.yields(body).get(yields..).unwrap_or_default();
    (0..results.len())
        .map(|n| [init, results, params, yields].iter().filter_map(|l| l.get(n)).copied().collect())
        .collect()
}
