//! Parsing of functions: the part of the grammar that only machine IR has.

use crate::Bump;
use crate::machine::*;
use crate::target::Opcode;
use crate::text::graph::{Def, Grammar, Mentions, Parts, Prefixes, entities, next_number, parse};
use crate::text::{Field, Result};
use crate::tile::CmpOp;
use crate::tile::parse::cursor::Cursor;
use crate::tile::parse::lex::Tok;
use cranelift_entity::{EntityRef, SecondaryMap};
use smallvec::SmallVec;

/// A function, from `func` to its closing brace.
pub(super) fn func<'a>(c: &mut Cursor<'_>, bump: &'a Bump) -> Result<Func<'a>> {
    Ok(of_parts(parse(c, &Rows { bump })?, bump))
}

fn of_parts<'a>(parts: Parts<Declared, Operation<'a>>, bump: &'a Bump) -> Func<'a> {
    let Parts { entry, order, values, insts, blocks } = parts;
    let insts = insts.into_iter().map(|part| InstData {
        results: bump.alloc_slice_copy(&entities::<Value, Vec<_>>(&part.results)),
        blocks: entities(&part.blocks),
        loc: part.loc,
        ..part.operation
    });
    let blocks = blocks.iter().map(|(p, i)| BlockData { params: entities(p), insts: InstList(entities(i)) });
    let mut names = SecondaryMap::new();
    for (number, value) in values.iter().enumerate() {
        if let Some(name) = &value.name {
            names[Value::new(number)] = Some(&*bump.alloc_str(name));
        }
    }
    let values =
        values.iter().map(|v| ValueData { ty: v.ty.ty, uniform: v.ty.uniform, def: definition(v.def) });
    let mut func = Func {
        entry: Block::from_u32(entry),
        insts: insts.collect(),
        blocks: blocks.collect(),
        values: values.collect(),
        order: entities(&order),
        names,
        ..Func::new(bump)
    };
    func.make_tables();
    func
}

fn definition(def: Def) -> ValueDef {
    match def {
        Def::Result(inst, at) => ValueDef::Result(Inst::from_u32(inst), at),
        Def::Param(block, at) => ValueDef::Param(Block::from_u32(block), at),
    }
}

/// An instruction without the parts that the grammar of graphs reads.
type Operation<'a> = InstData<'a>;

/// Reads rows of the opcode table.
struct Rows<'a> {
    bump: &'a Bump,
}

impl<'a> Grammar for Rows<'a> {
    const PREFIXES: Prefixes = PREFIXES;
    type Type = Declared;
    type Guard = Option<Guard>;
    type Operation = Operation<'a>;

    /// `@!r7`
    fn guard(&self, c: &mut Cursor<'_>, mentions: &mut dyn Mentions) -> Result<Option<Guard>> {
        if !c.eat("@") {
            return Ok(None);
        }
        let negated = c.eat("!");
        Ok(Some(Guard { pred: value(c, mentions)?, negated }))
    }

    fn operation(
        &self,
        c: &mut Cursor<'_>,
        guard: Option<Guard>,
        mentions: &mut dyn Mentions,
    ) -> Result<Operation<'a>> {
        let op = opcode(c)?;
        let (args, attr) = operands(c, mentions)?;
        let maps = if c.is("[") { SmallVec::read(c)? } else { SmallVec::new() };
        let targets = self.targets(c, mentions)?;
        let (args, results) = (self.bump.alloc_slice_copy(&args), &[]);
        Ok(InstData {
            op,
            attr,
            args,
            results,
            maps,
            guard,
            blocks: SmallVec::new(),
            targets,
            loc: Loc::default(),
        })
    }
}

impl<'a> Rows<'a> {
    /// `to b1(r2), b3()`
    fn targets(
        &self,
        c: &mut Cursor<'_>,
        mentions: &mut dyn Mentions,
    ) -> Result<SmallVec<[BlockCall<'a>; 2]>> {
        if !c.eat_word("to") {
            return Ok(SmallVec::new());
        }
        let calls = c.comma_list(|c| {
            let block = Block::read(c)?;
            mentions.block(block.as_u32(), c.last_span());
            c.expect("(")?;
            let args = c.list(")", |c| value(c, mentions))?;
            Ok(BlockCall { block, args: self.bump.alloc_slice_copy(&args) })
        });
        Ok(calls?.into())
    }
}

/// A value that must be defined somewhere.
fn value(c: &mut Cursor<'_>, mentions: &mut dyn Mentions) -> Result<Value> {
    let value = Value::read(c)?;
    mentions.value(value.as_u32(), c.last_span());
    Ok(value)
}

/// `ld.global.u8`
fn opcode(c: &mut Cursor<'_>) -> Result<Opcode> {
    let span = c.span();
    let mut name = c.word("an instruction")?.to_owned();
    while c.eat(".") {
        name.push('.');
        name.push_str(c.word("the rest of the instruction's name")?);
    }
    let unknown = || ParseError::at(span, format!("there is no instruction `{name}` in the opcode table"));
    Opcode::from_name(&name).ok_or_else(unknown)
}

/// Operands, then the attribute, all separated by commas.
fn operands(c: &mut Cursor<'_>, mentions: &mut dyn Mentions) -> Result<(Vec<Value>, Attr)> {
    let mut args = Vec::new();
    if !starts_operand(c) {
        return Ok((args, Attr::None));
    }
    while next_number(c, PREFIXES.value).is_some() {
        args.push(value(c, mentions)?);
        if !c.eat(",") {
            return Ok((args, Attr::None));
        }
    }
    Ok((args, attr(c)?))
}

fn starts_operand(c: &Cursor<'_>) -> bool {
    let starts = match c.peek() {
        Tok::Ident(w) => w != "to" && w != "at",
        Tok::Int(_) => true,
        Tok::Punct(p) => *p == "-",
        _ => false,
    };
    starts && !c.at_line_end()
}

/// `5`, `1, 128`, `lt`, or a word and a record.
fn attr(c: &mut Cursor<'_>) -> Result<Attr> {
    match c.peek() {
        Tok::Int(_) | Tok::Punct(_) => {
            let first = i64::read(c)?;
            if !c.eat(",") {
                return Ok(Attr::Imm(first));
            }
            Ok(Attr::Imm2(first, i64::read(c)?))
        }
        Tok::Ident(w) if ["eq", "ne", "lt", "le", "gt", "ge"].contains(&w.as_str()) => {
            CmpOp::read(c).map(Attr::Cmp)
        }
        _ => Attr::read(c),
    }
}

/// How entities are written.
pub(super) const PREFIXES: Prefixes = Prefixes { value: "r", inst: "i", block: "b" };

/// The declaration after a value's colon: `uniform b32`.
pub(super) struct Declared {
    /// Type.
    pub ty: Ty,
    /// Equal in all threads of a warp.
    pub uniform: bool,
}

impl Field for Declared {
    fn write(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}", if self.uniform { "uniform " } else { "" }, self.ty)
    }

    fn read(c: &mut Cursor<'_>) -> Result<Self> {
        let uniform = c.eat_word("uniform");
        Ok(Self { ty: ty(c)?, uniform })
    }
}

fn ty(c: &mut Cursor<'_>) -> Result<Ty> {
    let words =
        [("pred", Ty::Pred), ("b16", Ty::B16), ("b32", Ty::B32), ("b64", Ty::B64), ("event", Ty::Event)];
    if let Some((_, ty)) = words.into_iter().find(|(w, _)| c.eat_word(w)) {
        return Ok(ty);
    }
    if !c.eat_word("frag") {
        return c.expected("a type");
    }
    c.expect("<")?;
    let regs = u16::read(c)?;
    let atom = if c.eat("/") { u16::read(c)? } else { regs };
    c.expect(">")?;
    Ok(Ty::Frag { regs, atom })
}
