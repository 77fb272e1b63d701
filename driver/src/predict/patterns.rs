//! Numbers of a warp's 32 lanes, kept as what the first lane holds and how the others differ from it.
//!
//! ```text
//!  lanes       1000 1064 1128 ..       first 1000, pattern {0, 64, 128, ..}
//!  a step of a loop adds to the first and keeps the pattern; every different pattern is stored once
//! ```
//!
//! Sums, differences and multiples by a number that is equal in all lanes take one step, and so do comparisons that all
//! lanes answer alike. All else is computed lane by lane, and gives the same.

use super::scalars::{Lanes, WARP, evaluate};
use rustc_hash::FxHashMap;
use warplift_ir::machine::{Attr, InstData};
use warplift_ir::target::Opcode;
use warplift_ir::tile::CmpOp;

/// How lanes differ from the first one, by its place among the patterns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Pattern(u32);

impl Pattern {
    /// All lanes hold the same.
    pub const SAME: Self = Self(0);
}

/// A known value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Number {
    /// What the first lane holds.
    pub first: i64,
    /// How the others differ from it.
    pub pattern: Pattern,
}

impl Number {
    /// The same in all lanes.
    pub fn same(first: i64) -> Self {
        Self { first, pattern: Pattern::SAME }
    }

    /// Whether all lanes hold the same.
    pub fn is_same(self) -> bool {
        self.pattern == Pattern::SAME
    }

    /// More by a number in all lanes.
    pub fn shifted(self, by: i64) -> Self {
        Self { first: self.first.wrapping_add(by), ..self }
    }
}

/// A pattern's lanes, each minus the first.
struct Row {
    lanes: Lanes,
    least: i64,
    most: i64,
}

/// All patterns that a walk has seen.
pub struct Patterns {
    rows: Vec<Row>,
    places: FxHashMap<Lanes, Pattern>,
    multiples: FxHashMap<(Pattern, i64), Pattern>,
    sums: FxHashMap<(Pattern, Pattern, bool), Pattern>,
    /// Numbers that were computed lane by lane.
    by_lanes: u64,
}

impl Default for Patterns {
    fn default() -> Self {
        let (multiples, sums, by_lanes) = Default::default();
        let mut patterns = Self { rows: Vec::new(), places: FxHashMap::default(), multiples, sums, by_lanes };
        patterns.pattern([0; WARP]);
        patterns
    }
}

impl Patterns {
    fn pattern(&mut self, lanes: Lanes) -> Pattern {
        let rows = &mut self.rows;
        *self.places.entry(lanes).or_insert_with(|| {
            let (least, most) = lanes.iter().fold((0, 0), |(a, b), &v| (v.min(a), v.max(b)));
            rows.push(Row { lanes, least, most });
            Pattern(rows.len() as u32 - 1)
        })
    }

    /// Numbers that were computed lane by lane.
    pub fn by_lanes(&self) -> u64 {
        self.by_lanes
    }

    fn row(&self, pattern: Pattern) -> &Row {
        &self.rows[pattern.0 as usize]
    }

    /// Of what each lane holds.
    pub fn number(&mut self, lanes: Lanes) -> Number {
        let first = lanes[0];
        Number { first, pattern: self.pattern(lanes.map(|v| v.wrapping_sub(first))) }
    }

    /// What each lane holds.
    pub fn lanes(&self, number: Number) -> Lanes {
        self.row(number.pattern).lanes.map(|v| v.wrapping_add(number.first))
    }

    /// The least and the most of all lanes; `None` where numbers wrapped.
    fn range(&self, n: Number) -> Option<(i64, i64)> {
        let row = self.row(n.pattern);
        Some((n.first.checked_add(row.least)?, n.first.checked_add(row.most)?))
    }

    /// Whether all lanes are 32-bit numbers.
    fn is_word(&self, n: Number) -> bool {
        let word = |v: i64| i32::try_from(v).is_ok();
        self.range(n).is_some_and(|(least, most)| word(least) && word(most))
    }

    fn sum(&mut self, a: Number, b: Number, minus: bool) -> Number {
        let first = if minus { a.first.wrapping_sub(b.first) } else { a.first.wrapping_add(b.first) };
        if b.is_same() {
            return Number { first, ..a };
        }
        let key = (a.pattern, b.pattern, minus);
        let known = self.sums.get(&key).copied();
        let pattern = known.unwrap_or_else(|| {
            let (x, y) = (self.row(a.pattern).lanes, self.row(b.pattern).lanes);
            let each = |l: usize| if minus { x[l].wrapping_sub(y[l]) } else { x[l].wrapping_add(y[l]) };
            let pattern = self.pattern(std::array::from_fn(each));
            self.sums.insert(key, pattern);
            pattern
        });
        Number { first, pattern }
    }

    /// A number times one that is the same in all lanes; `None` where neither is.
    fn multiple(&mut self, a: Number, b: Number) -> Option<Number> {
        let (a, b) = if b.is_same() { (a, b) } else { (b, a) };
        if !b.is_same() {
            return None;
        }
        let first = a.first.wrapping_mul(b.first);
        let key = (a.pattern, b.first);
        let known = self.multiples.get(&key).copied();
        let pattern = known.unwrap_or_else(|| {
            let lanes = self.row(a.pattern).lanes.map(|v| v.wrapping_mul(b.first));
            let pattern = self.pattern(lanes);
            self.multiples.insert(key, pattern);
            pattern
        });
        Some(Number { first, pattern })
    }

    /// A comparison that all lanes answer alike; `None` where they may not.
    fn alike(&self, cmp: CmpOp, a: Number, b: Number) -> Option<Number> {
        let ((a0, a1), (b0, b1)) = (self.range(a)?, self.range(b)?);
        let apart = a1 < b0 || b1 < a0;
        // The order of any two lanes is that of the ends where ranges lie apart.
        let touches = match cmp {
            CmpOp::Le | CmpOp::Gt => a1 <= b0,
            CmpOp::Lt | CmpOp::Ge => b1 <= a0,
            CmpOp::Eq | CmpOp::Ne => false,
        };
        (apart || touches).then(|| Number::same(cmp.holds(&a0, &b0).into()))
    }

    /// The value of a pure row, of its operands by number; `None` where one that matters is unknown, or the row has no
    /// meaning here.
    pub fn compute(&mut self, data: &InstData<'_>, arg: impl Fn(usize) -> Option<Number>) -> Option<Number> {
        if let Some(number) = self.at_once(data, &arg) {
            return Some(number);
        }
        let lanes = evaluate(data, |k| arg(k).map(|n| self.lanes(n)))?;
        self.by_lanes += 1;
        Some(self.number(lanes))
    }

    /// The same in one step, where there is one.
    fn at_once(&mut self, data: &InstData<'_>, arg: &impl Fn(usize) -> Option<Number>) -> Option<Number> {
        use Opcode::*;
        let a = arg(0)?;
        match data.op {
            Mov | MovPred | Mov64 | WidenS32 | ToGlobal => return Some(a),
            Join if data.args.len() == 1 => return Some(a),
            Narrow64 => return self.is_word(a).then_some(a),
            _ => {}
        }
        let b = arg(1)?;
        match data.op {
            AddS64 => Some(self.sum(a, b, false)),
            SubS64 => Some(self.sum(a, b, true)),
            MulS64 | MulWideS32 => self.multiple(a, b),
            MadWideS32 => {
                let product = self.multiple(a, b)?;
                Some(self.sum(product, arg(2)?, false))
            }
            AddS32 | SubS32 | MulS32 | Shl | MadS32 => self.words(data.op, a, b, arg(2)),
            SetpS32 | SetpS64 => match data.attr {
                Attr::Cmp(cmp) => self.alike(cmp, a, b),
                _ => None,
            },
            _ => None,
        }
    }

    /// Arithmetic of 32 bits that does not wrap.
    fn words(&mut self, op: Opcode, a: Number, b: Number, c: Option<Number>) -> Option<Number> {
        if !self.is_word(a) || !self.is_word(b) {
            return None;
        }
        let number = match op {
            Opcode::AddS32 => self.sum(a, b, false),
            Opcode::SubS32 => self.sum(a, b, true),
            Opcode::MulS32 => self.multiple(a, b)?,
            Opcode::Shl if b.is_same() && (0..31).contains(&b.first) => {
                self.multiple(a, Number::same(1 << b.first))?
            }
            Opcode::MadS32 => {
                let product = self.multiple(a, b)?;
                self.sum(product, c?, false)
            }
            _ => return None,
        };
        self.is_word(number).then_some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warplift_ir::tile::Loc;

    fn data(op: Opcode, attr: Attr) -> InstData<'static> {
        let (maps, blocks, targets) = Default::default();
        InstData {
            op,
            attr,
            args: &[],
            results: &[],
            maps,
            guard: None,
            blocks,
            targets,
            loc: Loc::default(),
        }
    }

    #[test]
    fn rows_that_select_give_what_they_take() {
        use Opcode::*;
        let of = |op, attr, args: &[i64]| evaluate(&data(op, attr), |k| args.get(k).copied());
        let cmp = Attr::Cmp;
        assert_eq!(of(SelectS32, cmp(CmpOp::Lt), &[7, 8, -1, 2]), Some(7));
        assert_eq!(of(SelectU32, cmp(CmpOp::Lt), &[7, 8, -1, 2]), Some(8));
        assert_eq!(of(SelectSumS32, cmp(CmpOp::Ge), &[7, 8, 3, 4, 8]), Some(8));
        assert_eq!(of(SelectDiffS32, cmp(CmpOp::Le), &[7, 8, 3, 4, -1]), Some(7));
        assert_eq!([0, -1].map(|m| of(SelectMask, Attr::None, &[7, 8, m])), [Some(8), Some(7)]);
        assert_eq!(of(SelectS32, cmp(CmpOp::Lt), &[7, 8, 1]), None);
        // `a ? b : c`, and `a ^ b ^ c`, bit by bit.
        assert_eq!(of(Lop3, Attr::Imm(0xca), &[0b1100, 0b1010, 0b0110]), Some(0b1010));
        assert_eq!(of(Lop3, Attr::Imm(0x96), &[0b1100, -1, 0b0110]), Some(!0b1010));
    }

    /// One step gives what the lanes give, at the borders of 32 bits too.
    #[test]
    fn one_step_gives_what_the_lanes_give() {
        use Opcode::*;
        let mut patterns = Patterns::default();
        let bases = [0, 1, 5, -7, 1 << 20, i64::from(i32::MAX) - 40, i64::from(i32::MIN) + 3];
        let each = |f: fn(i64) -> i64, base: i64| std::array::from_fn(|l| base + f(l as i64));
        let shapes: [fn(i64) -> i64; 4] = [|_| 0, |l| l, |l| 2 * (l % 4), |l| -3 * l];
        let numbers: Vec<Number> =
            bases.iter().flat_map(|&b| shapes.map(|f| each(f, b))).map(|l| patterns.number(l)).collect();
        let plain =
            [AddS32, SubS32, MulS32, Shl, MadS32, AddS64, SubS64, MulS64, MulWideS32, MadWideS32, Narrow64];
        let mut all: Vec<_> = plain.map(|op| data(op, Attr::None)).into();
        let compared = [CmpOp::Lt, CmpOp::Le, CmpOp::Gt, CmpOp::Ge, CmpOp::Eq, CmpOp::Ne];
        all.extend(compared.map(|c| data(SetpS32, Attr::Cmp(c))));
        let mut steps = 0;
        for (k, &a) in numbers.iter().enumerate() {
            for &b in &numbers {
                let args = [a, b, numbers[(5 * k + 3) % numbers.len()]];
                for data in &all {
                    let Some(found) = patterns.at_once(data, &|i| Some(args[i])) else { continue };
                    let expected = evaluate(data, |i| Some(patterns.lanes(args[i]))).unwrap();
                    assert_eq!(patterns.lanes(found), expected, "{:?} {args:?}", data.op);
                    steps += 1;
                }
            }
        }
        assert!(steps > 2000, "{steps}");
    }
}
