//! What is known as soon as the tunables are: scalars made of tunables and numbers alone, and the asserts about them.
//!
//! ```text
//!  assert 128 % BN == 0      BN = 64: holds      BN = 176: refused, by verifier, mapping and choice alike
//! ```

use super::dims::DimText;
use super::names::{INFIX, Infix};
use super::*;

/// An assert that does not hold for some values of the tunables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unmet {
    /// The assert.
    pub inst: Inst,
    /// The tunables that it speaks of.
    pub tunables: SmallVec<[Tunable; 2]>,
    /// What is asserted, and the values for which it does not hold.
    pub message: String,
}

/// Asserts that tunables decide.
#[derive(Clone, Debug, Default)]
pub struct Settled {
    /// Those that hold, or would for other values: no launch has to check them.
    pub asserts: Vec<Inst>,
    /// Those that do not hold.
    pub unmet: Vec<Unmet>,
}

/// A scalar, and the tunables behind it.
type Known = (i64, SmallVec<[Tunable; 2]>);

impl Kernel {
    /// The asserts that these values of the tunables decide.
    pub fn settled(&self, value: impl Fn(Tunable) -> i64) -> Settled {
        self.settled_with(value, |_| None)
    }

    /// The asserts that these values of the tunables and of arguments decide.
    pub fn settled_with(
        &self,
        value: impl Fn(Tunable) -> i64,
        argument: impl Fn(&str) -> Option<i64>,
    ) -> Settled {
        let mut known: SecondaryMap<Value, Option<Known>> = SecondaryMap::new();
        for param in &self.params {
            known[param.value] = argument(&param.name).map(|number| (number, SmallVec::new()));
        }
        let mut settled = Settled::default();
        // In loops and branches an assert may never be reached.
        for &inst in &self.blocks[self.entry].insts {
            if let Op::Assert(text) = &self.insts[inst].op {
                let Some((holds, tunables)) = known[self.args(inst)[0]].clone() else { continue };
                settled.asserts.push(inst);
                if holds == 0 {
                    let message = self.unmet_text(inst, text, &tunables, &value);
                    settled.unmet.push(Unmet { inst, tunables, message });
                }
            } else if let &[result] = self.results(inst) {
                known[result] = self.known(inst, &known, &value);
            }
        }
        settled
    }

    fn unmet_text(
        &self,
        inst: Inst,
        text: &str,
        tunables: &[Tunable],
        value: &impl Fn(Tunable) -> i64,
    ) -> String {
        let condition = self.condition_text(self.args(inst)[0]);
        let values = tunables.iter().map(|&t| format!("{} = {}", self.tunables[t].name, value(t)));
        let values: Vec<String> = values.collect();
        let of = if values.is_empty() { String::new() } else { format!(" for {}", values.join(", ")) };
        let why = if text.is_empty() { String::new() } else { format!(": {text}") };
        format!("`assert {condition}` does not hold{of}{why}")
    }

    /// The value of a scalar instruction, if tunables and numbers alone are behind it.
    fn known(
        &self,
        inst: Inst,
        known: &SecondaryMap<Value, Option<Known>>,
        value: &impl Fn(Tunable) -> i64,
    ) -> Option<Known> {
        let op = &self.insts[inst].op;
        let Type::Scalar(elem) = self.ty(self.result(inst)) else { return None };
        let mut tunables: SmallVec<[Tunable; 2]> = SmallVec::new();
        let mut args: SmallVec<[i64; 3]> = SmallVec::new();
        for &arg in self.args(inst) {
            let (number, behind) = known[arg].as_ref()?;
            args.push(*number);
            tunables.extend(behind.iter().copied());
        }
        let number = match op {
            Op::Dim(d) => {
                tunables.extend(d.tunables());
                i64::from(d.resolve(value)?)
            }
            op => whole_number(op, &args)?,
        };
        tunables.sort_unstable();
        tunables.dedup();
        fits(number, elem).then_some((number, tunables))
    }

    /// A scalar as the text writes it, its operands spelled out; `..` where it is deep.
    pub fn condition_text(&self, value: Value) -> String {
        self.scalar_text(value, 0, 8)
    }

    /// `least` is the precedence below which an operator takes parentheses.
    fn scalar_text(&self, value: Value, least: u8, depth: u32) -> String {
        let Some(inst) = self.def(value) else { return self.value_text(value) };
        if depth == 0 {
            return "..".to_owned();
        }
        let op = &self.insts[inst].op;
        let infix = match op {
            Op::Binary(b) => Some(Infix::Binary(*b)),
            Op::Compare(c) => Some(Infix::Compare(*c)),
            _ => None,
        };
        let infix = INFIX.iter().find(|row| Some(row.2) == infix);
        match (op, infix, self.args(inst)) {
            (Op::Int(v), ..) => v.to_string(),
            (Op::Assume(_), _, &[x]) => self.scalar_text(x, least, depth),
            (Op::Dim(d), ..) => DimText(&self.tunables, *d).to_string(),
            (_, Some(&(name, level, _)), &[a, b]) => {
                let [a, b] = [(a, level), (b, level + 1)].map(|(v, l)| self.scalar_text(v, l, depth - 1));
                if level < least { format!("({a} {name} {b})") } else { format!("{a} {name} {b}") }
            }
            (op, _, args) => {
                let args: Vec<String> = args.iter().map(|&v| self.scalar_text(v, 0, depth - 1)).collect();
                format!("{}({})", op.name(), args.join(", "))
            }
        }
    }
}

/// Whether a number is one of the type's; others are left to the interpreter, which wraps them.
fn fits(value: i64, elem: Elem) -> bool {
    match elem {
        Elem::Bool => (0..=1).contains(&value),
        Elem::Int(64) => true,
        Elem::Int(bits) => (-(1i64 << (bits - 1))..1i64 << (bits - 1)).contains(&value),
        Elem::Uint(bits) if bits < 64 => (0..1i64 << bits.min(62)).contains(&value),
        _ => false,
    }
}

/// An operation on whole numbers; `None` where it is none, or not defined.
pub fn whole_number(op: &Op, args: &[i64]) -> Option<i64> {
    match (op, args) {
        (Op::Int(v), _) => Some(*v),
        (Op::Cast | Op::Assume(_), [x]) => Some(*x),
        (Op::Unary(UnOp::Neg), [x]) => x.checked_neg(),
        (Op::Unary(UnOp::Abs), [x]) => x.checked_abs(),
        (Op::Select, [c, x, y]) => Some(if *c != 0 { *x } else { *y }),
        (Op::Compare(c), [x, y]) => Some(c.holds(x, y).into()),
        (Op::Binary(b), &[x, y]) => match b {
            BinOp::Add => x.checked_add(y),
            BinOp::Sub => x.checked_sub(y),
            BinOp::Mul => x.checked_mul(y),
            BinOp::Div => x.checked_div(y),
            BinOp::Rem => x.checked_rem(y),
            BinOp::CeilDiv if x >= 0 && y > 0 => Some(x.unsigned_abs().div_ceil(y.unsigned_abs()) as i64),
            BinOp::Min => Some(x.min(y)),
            BinOp::Max => Some(x.max(y)),
            BinOp::And => Some(x & y),
            BinOp::Or => Some(x | y),
            BinOp::Xor => Some(x ^ y),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(body: &str) -> Kernel {
        let text = format!("kernel k(n: i32) {{ tunable BN = 64, BM = 16 grid n {body} }}");
        parse_file(&text, "").unwrap_or_else(|e| panic!("{e}")).kernels.remove(0)
    }

    #[test]
    fn asserts_about_tunables_are_decided_for_their_values() {
        let k = kernel("assert 128 % BN == 0 assert 2 * (BN + 1) >= BM, \"wide\" assert n <= BN, \"fits\"");
        let of = |bn: i64| k.settled(|t| if t.as_u32() == 0 { bn } else { 1000 });
        let messages = |bn| of(bn).unmet.into_iter().map(|u| u.message).collect::<Vec<_>>();
        assert_eq!(of(64).asserts.len(), 2, "the third is about an argument");
        assert_eq!(messages(512)[0], "`assert 128 % BN == 0` does not hold for BN = 512");
        let wide = "`assert 2 * (BN + 1) >= BM` does not hold for BN = 128, BM = 1000: wide";
        assert_eq!(messages(128), [wide]);
    }

    #[test]
    fn arguments_decide_what_is_promised_of_them() {
        let k = kernel("assert n % BN == 0");
        let of = |bn: i64, n: i64| k.settled_with(|_| bn, |name| (name == "n").then_some(n)).unmet;
        assert!(of(64, 192).is_empty());
        assert_eq!(of(128, 192)[0].message, "`assert n % BN == 0` does not hold for BN = 128");
    }

    #[test]
    fn what_is_not_defined_decides_nothing() {
        let k = kernel("assert 7 / (BN - 64) == 1 assert BN * 1000000 * 1000000 == 0");
        assert!(k.settled(|_| 64).asserts.is_empty());
    }
}
