//! A helper's product with equal rows is transposed: its right operand becomes the left one.
//!
//! ```text
//!  16 equal rows x 8 columns, twice        16 rows x 8 columns
//!
//!   c c c c       x0 .. x7 │ x8 .. x15      x0-7   0-7, 8-15       c d c d c d c d
//!   d d d d   ×    .    .  │  .    .    ─►                     ×   .    .     .
//!                                           x8-15  0-7, 8-15       c d c d c d c d
//! ```
//!
//! An instruction multiplies 16 rows by 8 columns. The rows of such a product are equal within each half of an atom, so
//! two columns hold all of it. The transposed product takes half the instructions. The right operand was read in the order
//! of a left one's matrices, and a move put them into its own order, which is now left out. Every column of `x` keeps a row
//! of its own, so one that is no number spoils no other (PTX ISA, "Matrix Fragments for mma.m16n8k16").

use super::handoff::TransposedSums;
use warplift_ir::machine::{Attr, Cursor, Func, IndexMap, Inst, MmaAttr, NewInst, Ty, Value};
use warplift_ir::target::Opcode;
use warplift_ir::tile::CmpOp;

/// Atoms of columns that make one atom of rows.
const ATOMS: u8 = 2;
/// Registers of an atom's sums.
const REGISTERS: u16 = 4;
/// The bit of a lane that is set if its column of a right operand is odd.
const ODD: i64 = 4;

/// A chain of products that add up, with one left operand.
struct Row {
    /// The products, first to last.
    products: Vec<Inst>,
    /// The right operand of each, as it was read.
    rights: Vec<Value>,
    /// Words of an atom of the left operand, for the upper rows and for the lower rows. They are the same in all lanes
    /// and along the depth.
    words: [Value; 2],
    /// The instruction that computes the left operand.
    left: Inst,
    /// The zeros with which the sums begin.
    zeros: Value,
}

/// Transposes the products behind sums with equal rows. `None` if the products do not have this shape. All their sums
/// change their type. Each sum is read only by the next product; the caller adapts the readers of the last sum.
pub(crate) fn transpose(func: &mut Func<'_>, last: Inst) -> Option<TransposedSums> {
    let row = row_of(func, last)?;
    let of = func.insts[last].results[0];
    let was = func.ty(of);
    let right = both_words(func, &row);
    let ty = Ty::frag(REGISTERS);
    let mut sums = row.zeros;
    func.values[sums].ty = ty;
    for (&product, &left) in row.products.iter().zip(&row.rights) {
        func.set_args(product, &[sums, left, right]);
        if let Attr::Mma(attr) = &mut func.insts[product].attr {
            attr.n_atoms = 1;
        }
        sums = func.insts[product].results[0];
        func.values[sums].ty = ty;
    }
    Some(TransposedSums { of, was })
}

/// The chain of products behind sums, if all of them have one left operand of words and the sums begin at zero.
fn row_of(func: &Func<'_>, last: Inst) -> Option<Row> {
    let left = func.def(func.insts[last].args[1])?;
    let &[upper, lower, further, furthest] = func.insts[left].args else { return None };
    let same = [upper, lower] == [further, furthest] && ![upper, lower].iter().any(|&w| func.ty(w).is_frag());
    let mut products = vec![last];
    let mut start = func.def(func.insts[last].args[0])?;
    while func.insts[start].op == Opcode::MmaSync {
        products.push(start);
        start = func.def(func.insts[start].args[0])?;
    }
    products.reverse();
    let zeros = func.insts[products[0]].args[0];
    let of_zero = func.insts[start].args.first().is_some_and(|&v| func.constant(v) == Some(0));
    let begins = func.insts[start].op == Opcode::Mov && of_zero;
    let fits = |&p: &Inst| {
        let Attr::Mma(MmaAttr { elem, m_atoms: 1, n_atoms: ATOMS, .. }) = func.insts[p].attr else {
            return false;
        };
        elem.bits() == 16 && func.def(func.insts[p].args[1]) == Some(left)
    };
    let once = |&v: &Value| func.users(v).count() == 1;
    let joined = func.insts[left].op == Opcode::Join && same;
    let alone = products.iter().map(|&p| &func.insts[p].args[0]).all(once);
    let rights = products.iter().map(|&p| as_read(func, func.insts[p].args[2])).collect::<Option<_>>()?;
    let words = [upper, lower];
    let holds = joined && alone && begins && products.iter().all(fits);
    holds.then_some(Row { products, rights, words, left, zeros })
}

/// A right operand as it was read: in the order of a left one's matrices.
fn as_read(func: &Func<'_>, right: Value) -> Option<Value> {
    let d = &func.insts[func.def(right)?];
    let moved = matches!(d.maps.first(), Some(IndexMap::Table(t)) if t[..] == IndexMap::READ_AS_ROWS);
    (d.op == Opcode::Mov && moved).then(|| d.args[0])
}

/// The right operand: along the whole depth, even columns have the word of upper rows, odd columns that of lower rows. The
/// instruction stands beside the left operand that it replaces.
fn both_words(func: &mut Func<'_>, row: &Row) -> Value {
    let home = func.block_of(row.left).unwrap_or(func.entry);
    let all = &func.blocks[home].insts;
    let at = all.iter().position(|&i| i == row.left).unwrap_or(all.len());
    let loc = func.insts[row.left].loc;
    func.insert_at(home, at, |f| make_right(&mut Cursor::new(f, home, loc), row.words))
}

fn make_right(c: &mut Cursor<'_, '_>, [upper, lower]: [Value; 2]) -> Value {
    let thread = c.op(Opcode::Tid, &[], Ty::B32);
    let zero = c.imm(0);
    let odd = c.and_imm(thread, ODD);
    let even = c.compare(CmpOp::Eq, odd, zero);
    let word = c.op(Opcode::Selp, &[upper, lower, even], Ty::B32);
    c.value(NewInst::new(Opcode::Join, &[word, word], &[Ty::frag(2)]))
}
