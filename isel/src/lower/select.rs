//! Comparisons and selects of tiles. A comparison gives a mask, one register for each element. A comparison that only
//! decides a select is folded into it, element by element, so no mask is live beside the selected tile.
//!
//! ```text
//!  m = row < column      s' = select(m, s, low)     ─►   s' = select.s32 s, low, row Lt column
//!  m = a and b           s' = select(m, s, low)     ─►   t = select(b, s, low)    s' = select(a, t, low)
//! ```

use super::fused_index_compare::Sum;
use super::{Low, Lower};
use crate::Result;
use crate::rows::{Kind, is_half, kind};
use rustc_hash::{FxHashMap, FxHashSet};
use warplift_ir::machine::{self, Attr, IndexMap, Ty};
use warplift_ir::target::Opcode;
use warplift_ir::tile::{BinOp, Block, CmpOp, Inst, Kernel, Op, Type, Value};
use warplift_ir::types::Elem;

/// Masks that ptxas keeps as predicates, of which it has seven.
const PREDICATES: u32 = 4;
/// Elements of a mask register from which on a predicate costs less than a mask of all bits.
const SHARED: u32 = 4;
/// `lop3` table of `(a & c) | (b & !c)`.
const CHOOSE: i64 = 0xe4;

/// Which register of an operand each element reads.
type Operand = (machine::Value, IndexMap);

/// A condition that is folded into a select.
#[derive(Clone, Debug)]
pub(super) enum Test {
    /// A comparison of elements of this kind.
    Compare(Kind, CmpOp, Operand, Operand),
    /// A comparison of signed sums with numbers.
    Sum(CmpOp, Sum, Operand),
    /// A mask register for each element, or one predicate for all.
    Mask(Operand),
    /// Both hold, or either.
    Both(BinOp, Box<[Test; 2]>),
}

/// Finds conditions whose only use is one select in their own block, and sums that only such conditions use.
pub(super) fn do_tests(k: &Kernel) -> (FxHashSet<Value>, FxHashSet<Value>) {
    let mut uses: FxHashMap<Value, Vec<(Block, Inst)>> = FxHashMap::default();
    let mut made: FxHashMap<Value, Block> = FxHashMap::default();
    let mut order = Vec::new();
    k.walk(|block, inst| {
        k.args(inst).iter().for_each(|&v| uses.entry(v).or_default().push((block, inst)));
        made.extend(k.results(inst).iter().map(|&v| (v, block)));
        order.extend(k.results(inst));
    });
    let tests = Tests { k, uses, made, order };
    let found: FxHashSet<Value> = tests.made.keys().copied().filter(|&v| tests.is_test(v)).collect();
    let mut sums = FxHashSet::default();
    // Users come before their operands.
    for &v in tests.order.iter().rev() {
        if tests.is_sum(v, &found, &sums) {
            sums.insert(v);
        }
    }
    (found, sums)
}

struct Tests<'k> {
    k: &'k Kernel,
    uses: FxHashMap<Value, Vec<(Block, Inst)>>,
    made: FxHashMap<Value, Block>,
    order: Vec<Value>,
}

impl Tests<'_> {
    fn is_test(&self, v: Value) -> bool {
        let Some(def) = self.k.def(v).filter(|_| matches!(self.k.ty(v), Type::Tile(Elem::Bool, _))) else {
            return false;
        };
        let fits = match self.k.insts[def].op {
            Op::Compare(_) => self.k.ty(self.k.args(def)[0]).elem().bits() == 32,
            Op::Binary(BinOp::And | BinOp::Or) => true,
            _ => false,
        };
        let Some([(block, user)]) = self.uses.get(&v).map(Vec::as_slice) else { return false };
        fits && self.made.get(&v) == Some(block) && self.decides(v, *user)
    }

    fn is_sum(&self, v: Value, tests: &FxHashSet<Value>, sums: &FxHashSet<Value>) -> bool {
        let adds = |d: Inst| matches!(self.k.insts[d].op, Op::Binary(BinOp::Add | BinOp::Sub));
        let iota_ranges = matches!(self.k.ty(v), Type::Tile(Elem::I32, _)) && self.k.def(v).is_some_and(adds);
        let compares = |(block, user): &(Block, Inst)| {
            let result = self.k.results(*user).first();
            self.made.get(&v) == Some(block) && result.is_some_and(|r| tests.contains(r) || sums.contains(r))
        };
        iota_ranges && self.uses.get(&v).is_some_and(|all| all.iter().all(compares))
    }

    fn decides(&self, v: Value, user: Inst) -> bool {
        let result = self.k.results(user).first();
        match self.k.insts[user].op {
            Op::Select => {
                self.k.args(user)[0] == v && result.is_some_and(|&r| self.k.ty(r).elem().bits() == 32)
            }
            Op::Binary(BinOp::And | BinOp::Or) => result.is_some_and(|&r| self.is_test(r)),
            _ => false,
        }
    }
}

impl Lower<'_, '_> {
    pub(super) fn tile_compare(&mut self, result: Value, cmp: CmpOp, args: &[Value]) -> Result<()> {
        let elem = self.k.ty(args[0]).elem();
        let regs = self.result_regs(result)?;
        if elem == Elem::Bool {
            return self.masks_compared(result, cmp, args);
        }
        let iota_ranges = |kind: &Kind| !matches!(kind, Kind::Mask | Kind::Pred | Kind::Wide);
        let Some(kind) = kind(elem, true).filter(iota_ranges) else {
            return self.refuse_tiles(elem);
        };
        if self.tests.contains(&result)
            && let Some(test) = self.sum_test(cmp, args)?
        {
            self.env.insert(result, Low::Test(test));
            return Ok(());
        }
        let (x, y) = match is_half(elem) {
            true => (self.widened(args[0], elem, regs / 2)?, self.widened(args[1], elem, regs / 2)?),
            false => {
                let (x, y) = (self.operand(args[0])?, self.operand(args[1])?);
                (self.compared(cmp, x, args[1]), y)
            }
        };
        if self.tests.contains(&result) {
            self.env.insert(result, Low::Test(Test::Compare(kind, cmp, x, y)));
            return Ok(());
        }
        let row = match kind {
            Kind::Signed => Opcode::SetS32,
            Kind::Unsigned => Opcode::SetU32,
            _ => Opcode::SetF32,
        };
        self.elementwise(result, row, Attr::Cmp(cmp), &[x, y])
    }

    /// Whether truth values are equal, or not: their masks are ones or zeros.
    fn masks_compared(&mut self, result: Value, cmp: CmpOp, args: &[Value]) -> Result<()> {
        if !matches!(cmp, CmpOp::Eq | CmpOp::Ne) {
            return self.refuse_tiles(Elem::Bool);
        }
        let (x, y) = (self.operand(args[0])?, self.operand(args[1])?);
        let regs = self.result_regs(result)?;
        let mut r = self.repeat(Opcode::Xor, Attr::None, &[x, y], regs);
        if cmp == CmpOp::Eq {
            r = self.repeat(Opcode::Not, Attr::None, &[(r, IndexMap::EACH)], regs);
        }
        self.set(result, r);
        Ok(())
    }

    /// A comparison in which one side is a folded sum.
    fn sum_test(&mut self, cmp: CmpOp, args: &[Value]) -> Result<Option<Test>> {
        Ok(match (self.sum(args[0]), self.sum(args[1])) {
            (Some(sum), _) => Some(Test::Sum(cmp, sum, self.operand(args[1])?)),
            (None, Some(sum)) => Some(Test::Sum(cmp.exchanged(), sum, self.operand(args[0])?)),
            (None, None) => None,
        })
    }

    /// Folds two conditions into a select. Returns whether it did.
    pub(super) fn tile_test(&mut self, result: Value, op: BinOp, args: &[Value]) -> Result<bool> {
        if !self.tests.contains(&result) {
            return Ok(false);
        }
        let both = Box::new([self.test(args[0])?, self.test(args[1])?]);
        self.env.insert(result, Low::Test(Test::Both(op, both)));
        Ok(true)
    }

    fn test(&mut self, v: Value) -> Result<Test> {
        match self.env.get(&v) {
            Some(Low::Test(test)) => Ok(test.clone()),
            // One predicate for all elements.
            Some(Low::Reg(r)) if self.func.ty(*r) == Ty::Pred => Ok(Test::Mask((*r, IndexMap::Whole))),
            _ => Ok(Test::Mask(self.operand(v)?)),
        }
    }

    pub(super) fn tile_select(&mut self, result: Value, args: &[Value]) -> Result<()> {
        let elem = self.k.ty(result).elem();
        let regs = self.result_regs(result)?;
        if elem.bits() == 16 {
            let r = self.half_select(args, regs)?;
            self.set(result, r);
            return Ok(());
        }
        if elem.bits() != 32 {
            return self.refuse_tiles(elem);
        }
        let test = self.test(args[0])?;
        let [x, y] = [self.operand(args[1])?, self.operand(args[2])?];
        let r = self.selected(&test, x, y, regs)?;
        self.set(result, r);
        Ok(())
    }

    /// `x` where the condition holds, else `y`.
    fn selected(&mut self, test: &Test, x: Operand, y: Operand, regs: u16) -> Result<machine::Value> {
        Ok(match test {
            Test::Compare(kind, cmp, a, b) => {
                let row = match kind {
                    Kind::Signed => Opcode::SelectS32,
                    Kind::Unsigned => Opcode::SelectU32,
                    _ => Opcode::SelectF32,
                };
                self.repeat(row, Attr::Cmp(*cmp), &[x, y, a.clone(), b.clone()], regs)
            }
            Test::Sum(cmp, Sum { first, second, negative }, bound) => {
                let row = if *negative { Opcode::SelectDiffS32 } else { Opcode::SelectSumS32 };
                let args = [x, y, first.clone(), second.clone(), bound.clone()];
                self.repeat(row, Attr::Cmp(*cmp), &args, regs)
            }
            Test::Mask(mask) => {
                let masks = self.func.ty(mask.0).regs().max(1);
                let few = masks <= PREDICATES || u32::from(regs) >= SHARED * masks;
                let (row, attr) = match self.func.ty(mask.0) {
                    Ty::Pred => (Opcode::Selp, Attr::None),
                    // ptxas makes predicates of the registers, each for all that it decides.
                    _ if few => (Opcode::SelectMask, Attr::None),
                    // A mask register is all ones or zero, so a select is a choice bit by bit.
                    _ => (Opcode::Lop3, Attr::Imm(CHOOSE)),
                };
                self.repeat(row, attr, &[x, y, mask.clone()], regs)
            }
            Test::Both(BinOp::And, both) => {
                let inner = self.selected(&both[1], x, y.clone(), regs)?;
                self.selected(&both[0], (inner, IndexMap::EACH), y, regs)?
            }
            Test::Both(_, both) => {
                let inner = self.selected(&both[1], x.clone(), y, regs)?;
                self.selected(&both[0], x, (inner, IndexMap::EACH), regs)?
            }
        })
    }
}
