//! The text around functions: the program of a block before scheduling, the roles after it.
//!
//! ```text
//!  launch( .. )               what is launched
//!  program( .. )              scheduled( .. )
//!  buffer buf0( .. )          setup
//!  func b0 { .. }             func b0 { .. }
//!                             role "producer"( .. )
//!                             func b0 { .. }
//! ```

use super::parse;
use crate::Bump;
use crate::machine::*;
use crate::manifest::{Argument, Fact, Packing, PackingDigit, Param, TensorMap};
use crate::text::{Field, FieldReader, FieldWriter, Result, Shown, record, variants};
use crate::tile::parse::cursor::Cursor;
use cranelift_entity::PrimaryMap;
use std::fmt::{self, Display, Formatter};

record!(LaunchInfo { kernel, file, arguments, params, grid, cluster, resident, pdl, facts, workspace });
record!(Argument { name, ty, written, before_wait, packing });
record!(Packing { outer, extents, tile, bits, digits, zeros });
record!(PackingDigit { extent, step });
record!(TensorMap { base, offset, element, dims, strides, box_dims, swizzle, l2_promotion });
variants!(Param { Argument "argument" { name }, TensorMap "tensor_map" (map), Workspace "workspace" { offset } });
variants!(Fact {
    Aligned "aligned" { name, align },
    Multiple "multiple" { name, of },
    Range "range" { name, min, max },
    Limit "limit" { what, value, min, max },
    Disjoint "disjoint" { written, other },
});

variants!(BufferKind {
    Ring "ring",
    Handoff "handoff",
    Operand "operand",
    Helper "helper",
    NextTile "next_tile",
    TileInfo "tile_info",
    Decision "decision",
    Staging "staging",
    Scratch "scratch",
    Array "array",
});
record!(BufferData { name, bytes, align, kind });
record!(SharedMap { bytes, team, buffers, barriers });

impl Display for Program<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "launch{:#}", Shown(&self.launch))?;
        let Self { launch: _, buffers, blocks, warps, teams, deferred, epilogue_warps, func } = self;
        f.write_str("program(")?;
        let mut fields = FieldWriter::new(f);
        fields.field("blocks", blocks)?;
        fields.field("warps", warps)?;
        fields.field("teams", teams)?;
        fields.field("deferred", deferred)?;
        fields.field("epilogue_warps", epilogue_warps)?;
        f.write_str(")\n")?;
        for (buffer, data) in buffers {
            writeln!(f, "buffer {buffer}{}", Shown(data))?;
        }
        write!(f, "{func}")
    }
}

/// A program; its buffers are numbered from 0 in order.
pub(super) fn program<'a>(c: &mut Cursor<'_>, bump: &'a Bump) -> Result<Program<'a>> {
    let launch = named(c, "launch")?;
    c.expect_word("program")?;
    let mut fields = FieldReader::open(c)?;
    let program = Program {
        launch,
        blocks: fields.field("blocks")?,
        warps: fields.field("warps")?,
        teams: fields.field("teams")?,
        deferred: fields.field("deferred")?,
        epilogue_warps: fields.field("epilogue_warps")?,
        buffers: PrimaryMap::new(),
        func: Func::new(bump),
    };
    fields.close()?;
    let buffers = buffers(c)?;
    let (at, func) = (c.span(), parse::func(c, bump)?);
    let program = Program { buffers, func, ..program };
    match unknown_buffer(&program) {
        None => Ok(program),
        Some(buffer) => Err(ParseError::at(at, format!("there is no {buffer}"))),
    }
}

/// `buffer buf0( .. )`, line by line.
fn buffers(c: &mut Cursor<'_>) -> Result<PrimaryMap<Buffer, BufferData>> {
    let mut buffers = PrimaryMap::new();
    while c.eat_word("buffer") {
        let number = Buffer::read(c)?;
        if number != buffers.next_key() {
            let message =
                format!("expected {}, found {number}: buffers are numbered in order", buffers.next_key());
            return Err(ParseError::at(c.last_span(), message));
        }
        buffers.push(BufferData::read(c)?);
    }
    Ok(buffers)
}

/// A buffer that the program names but does not define.
fn unknown_buffer(p: &Program<'_>) -> Option<Buffer> {
    let of_attr = |attr: &Attr| match attr {
        Attr::Place(place) | Attr::PlaceMem { place, .. } => vec![place.buffer],
        Attr::Wgmma(w) => w.a.iter().chain([&w.b]).map(|o| o.place.buffer).collect(),
        Attr::Tma(t) => t.place.iter().map(|p| p.buffer).collect(),
        Attr::Copy(t) => t.place.iter().map(|p| p.buffer).collect(),
        Attr::Matrix { buffer, .. } => buffer.iter().copied().collect(),
        _ => Vec::new(),
    };
    let mut named = p.func.insts.values().flat_map(|i| of_attr(&i.attr));
    named.find(|&b| !p.buffers.is_valid(b))
}

impl Display for Scheduled<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { launch, threads, shared, setup, roles } = self;
        writeln!(f, "launch{:#}", Shown(launch))?;
        f.write_str("scheduled(")?;
        let mut fields = FieldWriter::new(f);
        fields.field("threads", threads)?;
        fields.field("shared", shared)?;
        write!(f, ")\nsetup\n{setup}")?;
        roles.iter().try_for_each(|r| write!(f, "{r}"))
    }
}

impl Display for Role<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { name, first_warp, warps, copiers, registers, func } = self;
        write!(f, "role {name}(")?;
        let mut fields = FieldWriter::new(f);
        fields.field("first_warp", first_warp)?;
        fields.field("warps", warps)?;
        fields.field("copiers", copiers)?;
        fields.field("registers", registers)?;
        write!(f, ")\n{func}")
    }
}

/// A scheduled program.
pub(super) fn scheduled<'a>(c: &mut Cursor<'_>, bump: &'a Bump) -> Result<Scheduled<'a>> {
    let launch = named(c, "launch")?;
    c.expect_word("scheduled")?;
    let mut fields = FieldReader::open(c)?;
    let (threads, shared) = (fields.field("threads")?, fields.field("shared")?);
    fields.close()?;
    c.expect_word("setup")?;
    let setup = parse::func(c, bump)?;
    let mut roles = Vec::new();
    while c.is_word("role") {
        roles.push(role(c, bump)?);
    }
    Ok(Scheduled { launch, threads, shared, setup, roles })
}

fn role<'a>(c: &mut Cursor<'_>, bump: &'a Bump) -> Result<Role<'a>> {
    c.expect_word("role")?;
    let name = bump.alloc_str(c.word("the name of a role")?);
    let mut fields = FieldReader::open(c)?;
    let role = Role {
        name,
        first_warp: fields.field("first_warp")?,
        warps: fields.field("warps")?,
        copiers: fields.field("copiers")?,
        registers: fields.field("registers")?,
        func: Func::new(bump),
    };
    fields.close()?;
    Ok(Role { func: parse::func(c, bump)?, ..role })
}

/// A record behind its word.
fn named<T: Field>(c: &mut Cursor<'_>, word: &str) -> Result<T> {
    c.expect_word(word)?;
    T::read(c)
}
