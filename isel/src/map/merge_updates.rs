//! Rows that go to places by a tile of indices: of neighbours with one index a thread updates with their sum alone.
//!
//! ```text
//!                                      rows  0  1  2  3      at  5  5  5  7
//!  atomic_add y[at, j], x     ─►       s0 = x0    s1 = s0 + x1    s2 = s1 + x2    s3 = x3
//!                                      update with s2 at 5, and with s3 at 7
//! ```
//!
//! Segments, sorted edges and tokens of one expert lie next to each other. Groups of rows are registers of one thread, so nobody
//! waits for another. Where all indices differ, each row is updated as before. (Segmented reduction; Blelloch, "Prefix Sums and
//! Their Applications".)

use super::cursor::Cursor;
use crate::tiles::{WARP, WARPGROUP_THREADS, extents, with_elem};
use warplift_ir::tile::{
    AtomicOp, BinOp, CmpOp, Dim, Inst, Kernel, MAX_RANK, Mapping, MemorySync, Op, Shape, Type, UnOp, Value,
};
use warplift_ir::types::Elem;

/// Rows of a group at most.
const MERGED: u32 = 4;
/// Bytes of a row at least: 16 of each lane of a warp. Of shorter rows lanes hold several, and a group would be theirs.
const ROW: u32 = 16 * WARP;

/// Rewrites all updates of rows. Sums of products lie as tensor cores leave them, so their kernels stay.
pub fn do_merge_updates(k: &mut Kernel, mapping: &Mapping) {
    let threads = mapping.whole.warps.map_or(WARPGROUP_THREADS, |w| WARP * w);
    if k.insts.values().any(|d| matches!(d.op, Op::Mma { .. })) {
        return;
    }
    Cursor::rewrite(k, |mut c, inst| match rows(c.k, inst, threads) {
        Some(rows) => merge(&mut c, inst, &rows),
        None => c.keep(inst),
    });
}

/// An update of rows.
struct Rows {
    /// What updates, and the same of two values.
    op: AtomicOp,
    both: BinOp,
    /// The dimension of the rows, and how many are a group.
    dim: usize,
    group: u32,
    /// For each index: the column of indices that it repeats along the rows.
    columns: Vec<Option<Value>>,
}

fn rows(k: &Kernel, inst: Inst, threads: u32) -> Option<Rows> {
    let Op::AtomicScatter { op, old: false, masked: false, sync } = k.insts[inst].op else { return None };
    let both = match op {
        AtomicOp::Add => BinOp::Add,
        AtomicOp::Min => BinOp::Min,
        AtomicOp::Max => BinOp::Max,
        _ => return None,
    };
    let (args, shape) = (k.args(inst), extents(k, *k.args(inst).last()?));
    let of_columns = |dim: usize| {
        let column = |&index: &Value| match k.ty(index) {
            Type::Scalar(_) => Some(None),
            _ => column(k, index, dim).map(Some),
        };
        args[1..args.len() - 1].iter().map(column).collect::<Option<Vec<_>>>()
    };
    let found = (0..shape.len()).find_map(|dim| Some((dim, of_columns(dim)?)));
    let (dim, columns) = found.filter(|(_, columns)| columns.iter().any(Option::is_some))?;
    let all: u32 = shape.iter().product();
    let elem = k.ty(*args.last()?).elem();
    let is_wide = all / shape[dim].max(1) * elem.bits() / 8 >= ROW;
    let fits = |&group: &u32| is_wide && shape[dim].is_multiple_of(group) && all >= group * threads;
    let group = [MERGED, MERGED / 2].into_iter().find(fits)?;
    (sync == MemorySync::default() && shape.len() < MAX_RANK).then_some(Rows {
        op,
        both,
        dim,
        group,
        columns,
    })
}

/// The column of a dimension that a tile repeats along all others.
fn column(k: &Kernel, index: Value, dim: usize) -> Option<Value> {
    let repeats = k.def(index).filter(|&d| matches!(k.insts[d].op, Op::Broadcast))?;
    let (column, shape) = (k.args(repeats)[0], extents(k, index));
    let own = extents(k, column);
    let is_column = (0..shape.len()).all(|d| own.get(d) == Some(if d == dim { &shape[d] } else { &1 }));
    is_column.then_some(column)
}

fn merge(c: &mut Cursor<'_>, inst: Inst, rows: &Rows) {
    let args = c.k.args(inst).to_vec();
    let (x, last) = (args[args.len() - 1], rows.group as usize - 1);
    let parts = apart(c, x, rows);
    let columns: Vec<Option<Vec<Value>>> =
        rows.columns.iter().map(|own| own.map(|column| apart(c, column, rows))).collect();
    let shape = c.k.ty(parts[0]);
    let same: Vec<Value> = (0..last).map(|n| alike(c, &columns, n, shape)).collect();
    let mut sum = parts[0];
    for n in 0..=last {
        if n > 0 {
            let both = c.op(rows.both, sum, parts[n]);
            sum = c.select(same[n - 1], both, parts[n]);
        }
        let place = args[1..].iter().zip(&columns).map(|(&scalar, own)| match own {
            Some(own) => c.broadcast(own[n], with_elem(shape, c.k.ty(own[n]).elem())),
            None => scalar,
        });
        let mut written = vec![args[0]];
        written.extend(place);
        written.push(sum);
        if n < last {
            let ty = c.k.ty(same[n]);
            written.push(c.inst(Op::Unary(UnOp::Not), &[same[n]], ty));
        }
        let (masked, sync) = (n < last, MemorySync::default());
        c.effect(Op::AtomicScatter { op: rows.op, old: false, masked, sync }, &written);
    }
}

/// The rows of each place in a group: those that one index of its group has.
fn apart(c: &mut Cursor<'_>, v: Value, rows: &Rows) -> Vec<Value> {
    let (elem, shape, dim) = (c.k.ty(v).elem(), extents(c.k, v), rows.dim);
    let groups = shape[dim] / rows.group;
    let with = |middle: &[u32]| {
        let all = [&shape[..dim], middle, &shape[dim + 1..]].concat();
        Type::Tile(elem, Shape::of(&all).expect("one dimension more fits"))
    };
    let grouped = c.inst(Op::Reshape, &[v], with(&[groups, rows.group]));
    let mut all = Vec::new();
    for n in 0..rows.group {
        let from = (0..=shape.len()).map(|d| Dim::new(if d == dim + 1 { n } else { 0 })).collect();
        let part = c.inst(Op::Slice(from), &[grouped], with(&[groups, 1]));
        all.push(c.inst(Op::Reshape, &[part], with(&[groups])));
    }
    all
}

/// Where place `n` of a group has the indices of the next one.
fn alike(c: &mut Cursor<'_>, columns: &[Option<Vec<Value>>], n: usize, shape: Type) -> Value {
    let mut all: Option<Value> = None;
    for own in columns.iter().flatten() {
        let same = c.compare(CmpOp::Eq, own[n], own[n + 1]);
        all = Some(all.map_or(same, |all| c.op(BinOp::And, all, same)));
    }
    let all = all.expect("an update of rows has a column");
    c.broadcast(all, with_elem(shape, Elem::Bool))
}
