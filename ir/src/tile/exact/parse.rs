//! Reading.

use super::print::PREFIXES;
use crate::text::graph::{Def, Grammar, Mentions, Parts, Prefixes, entities, next_number, parse};
use crate::text::{Field, FieldReader, Result};
use crate::tile::parse::cursor::Cursor;
use crate::tile::*;
use cranelift_entity::EntityRef;

/// The whole kernel.
pub(super) fn kernel(c: &mut Cursor<'_>) -> Result<Kernel> {
    c.expect_word("kernel")?;
    let span = c.span();
    let mut fields = FieldReader::open(c)?;
    let header = Kernel {
        name: fields.field("name")?,
        file: fields.field("file")?,
        loc: fields.field("loc")?,
        params: fields.field("params")?,
        constants: fields.field("constants")?,
        tunables: fields.field("tunables")?,
        grid: fields.field("grid")?,
        ..Kernel::new("")
    };
    fields.close()?;
    let kernel = of_parts(header, parse(c, &Operations)?);
    match unknown(&kernel) {
        None => Ok(kernel),
        Some(what) => Err(ParseError::at(span, format!("there is no {what}"))),
    }
}

/// A missing value of the header, or a missing tunable.
fn unknown(k: &Kernel) -> Option<String> {
    let mut values = k.params.iter().map(|p| p.value).chain(k.grid.iter().copied());
    let of_type = |ty: Type| ty.shape().map_or(Vec::new(), |s| s.dims().to_vec());
    let of_op = |op: &Op| match op {
        Op::Dim(d) => vec![*d],
        Op::Slice(offsets) => offsets.to_vec(),
        _ => Vec::new(),
    };
    let dims =
        k.values.values().flat_map(|v| of_type(v.ty)).chain(k.insts.values().flat_map(|i| of_op(&i.op)));
    let mut tunables = dims.flat_map(|d| d.tunables());
    let value = values.find(|&v| !k.values.is_valid(v)).map(|v| v.to_string());
    value.or_else(|| tunables.find(|&t| !k.tunables.is_valid(t)).map(|t| t.to_string()))
}

fn of_parts(header: Kernel, parts: Parts<Type, Operation>) -> Kernel {
    let Parts { entry, order: _, values, insts, blocks } = parts;
    let mut k = header;
    k.entry = Block::from_u32(entry);
    k.blocks = blocks.iter().map(|(p, i)| BlockData { params: entities(p), insts: entities(i) }).collect();
    k.values = values.iter().map(|v| ValueData { ty: v.ty, def: definition(v.def) }).collect();
    for (number, value) in values.into_iter().enumerate() {
        if let Some(name) = value.name {
            k.names[Value::new(number)] = name;
        }
    }
    for part in insts {
        let Operation { op, args, attrs } = part.operation;
        let args = ValueList::from_slice(&args, &mut k.pool);
        let results: Vec<Value> = entities(&part.results);
        let results = ValueList::from_slice(&results, &mut k.pool);
        let inst =
            k.insts.push(InstData { op, args, results, blocks: entities(&part.blocks), loc: part.loc });
        if attrs != Attrs::default() {
            k.attrs[inst] = attrs;
        }
    }
    k
}

fn definition(def: Def) -> ValueDef {
    match def {
        Def::Result(inst, at) => ValueDef::Result(Inst::from_u32(inst), at),
        Def::Param(block, at) => ValueDef::Param(Block::from_u32(block), at),
    }
}

/// The parts of an instruction that only tile IR has.
struct Operation {
    op: Op,
    args: Vec<Value>,
    attrs: Attrs,
}

/// Reads operations of tile IR.
struct Operations;

impl Grammar for Operations {
    const PREFIXES: Prefixes = PREFIXES;
    type Type = Type;
    type Guard = ();
    type Operation = Operation;

    fn guard(&self, _: &mut Cursor<'_>, _: &mut dyn Mentions) -> Result<()> {
        Ok(())
    }

    fn operation(&self, c: &mut Cursor<'_>, (): (), mentions: &mut dyn Mentions) -> Result<Operation> {
        let op = Op::read(c)?;
        let mut args = Vec::new();
        if !c.at_line_end() && next_number(c, PREFIXES.value).is_some() {
            args = c.comma_list(Value::read)?;
            args.iter().for_each(|v| mentions.value(v.as_u32(), c.last_span()));
        }
        let attrs = if c.eat("@") { Attrs::read(c)? } else { Attrs::default() };
        Ok(Operation { op, args, attrs })
    }
}
