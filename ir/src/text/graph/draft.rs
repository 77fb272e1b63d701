//! A graph under construction by the parser. Entities have numbers and may come in any order. At the end the numbers
//! must run from 0 without a gap, and every named entity must be defined.

use super::{Def, Prefixes};
use crate::text::Result;
use crate::tile::parse::lex::Span;
use crate::tile::{Loc, ParseError};
use rustc_hash::FxHashMap;

/// The entities of one kind read so far.
struct Entities<T> {
    prefix: &'static str,
    defined: FxHashMap<u32, (T, Span)>,
    /// Where each was named first.
    named: FxHashMap<u32, Span>,
}

impl<T> Entities<T> {
    fn new(prefix: &'static str) -> Self {
        Self { prefix, defined: FxHashMap::default(), named: FxHashMap::default() }
    }

    fn mention(&mut self, number: u32, span: Span) {
        self.named.entry(number).or_insert(span);
    }

    fn define(&mut self, number: u32, data: T, span: Span) -> Result<()> {
        let prefix = self.prefix;
        match self.defined.insert(number, (data, span)) {
            None => Ok(()),
            Some(_) => Err(ParseError::at(span, format!("there is a {prefix}{number} already"))),
        }
    }

    /// All of them in the order of their numbers.
    fn finish(mut self) -> Result<Vec<T>> {
        let prefix = self.prefix;
        let missing = self.named.iter().filter(|(n, _)| !self.defined.contains_key(n));
        if let Some((number, &span)) = missing.min_by_key(|(_, s)| s.loc) {
            return Err(ParseError::at(span, format!("{prefix}{number} is named but defined nowhere")));
        }
        let count = self.defined.len() as u32;
        let last = self.defined.values().map(|d| d.1).max_by_key(|s| s.loc).unwrap_or_default();
        let in_order = (0..count).map(|n| match self.defined.remove(&n) {
            Some((data, _)) => Ok(data),
            None => Err(ParseError::at(
                last,
                format!("numbers have a gap: of {prefix}0 .. there are {count}, but no {prefix}{n}"),
            )),
        });
        in_order.collect()
    }
}

/// A value as read.
pub(crate) struct ValuePart<T> {
    /// Type.
    pub ty: T,
    /// Where it is defined.
    pub def: Def,
    /// Name, if it has one.
    pub name: Option<String>,
}

/// An instruction as read.
pub(crate) struct InstPart<O> {
    /// The IR's own part.
    pub operation: O,
    /// Results.
    pub results: Vec<u32>,
    /// Nested blocks.
    pub blocks: Vec<u32>,
    /// Place in the source.
    pub loc: Loc,
}

/// The content of a text: entities by number.
pub(crate) struct Parts<T, O> {
    /// Entry.
    pub entry: u32,
    /// Blocks that stand by themselves.
    pub order: Vec<u32>,
    /// Values.
    pub values: Vec<ValuePart<T>>,
    /// Instructions.
    pub insts: Vec<InstPart<O>>,
    /// Parameters and instructions of each block.
    pub blocks: Vec<(Vec<u32>, Vec<u32>)>,
}

/// A graph while it is read.
pub(super) struct Draft<T, O> {
    values: Entities<ValuePart<T>>,
    insts: Entities<InstPart<O>>,
    blocks: Entities<(Vec<u32>, Vec<u32>)>,
}

/// Records the entities that an operation names.
pub(crate) trait Mentions {
    /// A value that must be defined somewhere.
    fn value(&mut self, number: u32, span: Span);
    /// A block that must stand somewhere.
    fn block(&mut self, number: u32, span: Span);
}

impl<T, O> Mentions for Draft<T, O> {
    fn value(&mut self, number: u32, span: Span) {
        self.values.mention(number, span);
    }

    fn block(&mut self, number: u32, span: Span) {
        self.blocks.mention(number, span);
    }
}

impl<T, O> Draft<T, O> {
    /// Nothing read.
    pub fn new(prefixes: Prefixes) -> Self {
        let Prefixes { value, inst, block } = prefixes;
        Self { values: Entities::new(value), insts: Entities::new(inst), blocks: Entities::new(block) }
    }

    /// An instruction that must stand somewhere.
    pub fn inst(&mut self, number: u32, span: Span) {
        self.insts.mention(number, span);
    }

    /// A value.
    pub fn define_value(&mut self, number: u32, part: ValuePart<T>, span: Span) -> Result<()> {
        self.values.define(number, part, span)
    }

    /// An instruction.
    pub fn define_inst(&mut self, number: u32, part: InstPart<O>, span: Span) -> Result<()> {
        self.insts.define(number, part, span)
    }

    /// A block with its parameters and instructions.
    pub fn define_block(&mut self, number: u32, params: Vec<u32>, insts: Vec<u32>, span: Span) -> Result<()> {
        self.blocks.define(number, (params, insts), span)
    }

    /// The finished content, checked for completeness.
    pub fn finish(self, entry: u32, order: Vec<u32>) -> Result<Parts<T, O>> {
        let (blocks, insts, values) = (self.blocks.finish()?, self.insts.finish()?, self.values.finish()?);
        Ok(Parts { entry, order, values, insts, blocks })
    }
}
