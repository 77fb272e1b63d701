//! Fragments of several registers that addresses and masks are made of: what each register holds.
//!
//! ```text
//!  rows = iota + first      register 0: 0 0 0 0 1 1 1 1 ..     register 1: 8 8 8 8 9 9 9 9 ..
//!  load table[rows]         both addresses are known, so lanes of one row find one number
//!  where rows < end         so are the lanes that take part
//! ```
//!
//! The data of tiles is not followed: it has no numbers, and there is much of it.

use super::lanes::Values;
use super::patterns::{Number, Patterns};
use warplift_ir::machine::{Attr, Func, InstData, Value};
use warplift_ir::target::Opcode;

/// Fragments of more registers hold data.
pub const MOST_REGISTERS: u32 = 64;

/// Whether a fragment's registers are followed one by one.
pub fn is_followed(func: &Func<'_>, value: Value) -> bool {
    let ty = func.ty(value);
    ty.is_frag() && (2..=MOST_REGISTERS).contains(&ty.regs())
}

/// What the registers of an instruction's result hold, if all are known; with guesses, or what stands for them.
pub fn computed(
    func: &Func<'_>,
    data: &InstData<'_>,
    known: Operands<'_>,
    patterns: &mut Patterns,
) -> Option<Box<[Number]>> {
    let registers = func.ty(*data.results.first()?).regs() as usize;
    match (data.op, &data.attr) {
        (Opcode::Join, _) => {
            let all: Option<Vec<Vec<Number>>> = data.args.iter().map(|&v| known.whole(v)).collect();
            Some(all?.concat().into())
        }
        (Opcode::Slice, Attr::Imm(from)) => {
            let all = known.fragment(*data.args.first()?)?;
            all.get(*from as usize..)?.get(..registers).map(Into::into)
        }
        _ => (0..registers as u16)
            .map(|i| patterns.compute(data, |k| known.register(data, k, i)))
            .collect::<Option<Vec<_>>>()
            .map(Vec::into_boxed_slice),
    }
}

/// The operands of an instruction.
#[derive(Clone, Copy)]
pub struct Operands<'v> {
    /// What is known of them.
    pub known: &'v Values,
    /// Whether what stands for a number in addresses counts as one.
    pub guesses: bool,
}

impl Operands<'_> {
    fn fragment(&self, value: Value) -> Option<&[Number]> {
        let guessed = || self.known.guessed.of(value).filter(|_| self.guesses);
        self.known.fragments.of(value).or_else(guessed)
    }

    fn number(&self, value: Value) -> Option<Number> {
        if self.guesses { self.known.guess(value) } else { self.known.number(value) }
    }

    /// All registers of an operand.
    fn whole(&self, value: Value) -> Option<Vec<Number>> {
        self.fragment(value).map(<[Number]>::to_vec).or_else(|| Some(vec![self.number(value)?]))
    }

    /// The register of operand `k` that a row reads at repetition `i`.
    fn register(&self, data: &InstData<'_>, k: usize, i: u16) -> Option<Number> {
        let &value = data.args.get(k)?;
        match self.fragment(value) {
            Some(all) => all.get(usize::from(data.maps.get(k).and_then(|m| m.at(i)).unwrap_or(i))).copied(),
            None => self.number(value),
        }
    }
}
