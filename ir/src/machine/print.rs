//! Dumps of machine IR: one instruction a line, nested blocks indented.

use super::*;
use std::fmt;

impl fmt::Display for Ty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pred => f.write_str("pred"),
            Self::B16 => f.write_str("b16"),
            Self::B32 => f.write_str("b32"),
            Self::B64 => f.write_str("b64"),
            Self::Frag { regs, atom } if regs == atom => write!(f, "frag<{regs}>"),
            Self::Frag { regs, atom } => write!(f, "frag<{regs}/{atom}>"),
            Self::Event => f.write_str("event"),
        }
    }
}

struct List<'v>(&'v [Value]);

impl fmt::Display for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, v) in self.0.iter().enumerate() {
            write!(f, "{}{v}", if i == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

impl fmt::Display for Func<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for &block in &self.order {
            self.print_block(f, block, 0)?;
        }
        Ok(())
    }
}

impl Func<'_> {
    fn print_block(&self, f: &mut fmt::Formatter<'_>, block: Block, depth: usize) -> fmt::Result {
        write!(f, "{:1$}{block}(", "", depth * 2)?;
        for (i, &p) in self.blocks[block].params.iter().enumerate() {
            write!(f, "{}{p}: {}", if i == 0 { "" } else { ", " }, self.ty(p))?;
        }
        writeln!(f, "):")?;
        self.blocks[block].insts.iter().try_for_each(|&i| self.print_inst(f, i, depth + 1))
    }

    fn print_inst(&self, f: &mut fmt::Formatter<'_>, inst: Inst, depth: usize) -> fmt::Result {
        let data = &self.insts[inst];
        write!(f, "{:1$}", "", depth * 2)?;
        if let Some(g) = data.guard {
            write!(f, "@{}{} ", if g.negated { "!" } else { "" }, g.pred)?;
        }
        for (i, &r) in data.results.iter().enumerate() {
            let end = if i + 1 == data.results.len() { " = " } else { ", " };
            write!(f, "{r}: {}{end}", self.ty(r))?;
        }
        write!(f, "{}", data.op.row().name)?;
        if !data.args.is_empty() {
            write!(f, " {}", List(data.args))?;
        }
        self.print_attr(f, &data.attr)?;
        for (i, m) in data.maps.iter().enumerate() {
            match m {
                IndexMap::Whole => {}
                IndexMap::Affine { scale: 1, offset: 0 } => write!(f, " [{i}: each]")?,
                IndexMap::Affine { scale, offset } => write!(f, " [{i}: {scale}i+{offset}]")?,
                IndexMap::Table(t) => write!(f, " [{i}: {t:?}]")?,
            }
        }
        for t in &data.targets {
            write!(f, " {}({})", t.block, List(t.args))?;
        }
        if data.loc.line > 0 {
            write!(f, "  # {}:{}", data.loc.line, data.loc.column)?;
        }
        writeln!(f)?;
        data.blocks.iter().try_for_each(|&b| self.print_block(f, b, depth + 1))
    }

    fn print_attr(&self, f: &mut fmt::Formatter<'_>, attr: &Attr) -> fmt::Result {
        match attr {
            Attr::None => Ok(()),
            Attr::Imm(v) => write!(f, " {v}"),
            Attr::Imm2(a, b) => write!(f, " {a}, {b}"),
            Attr::Cmp(c) => write!(f, " {c:?}"),
            Attr::Param(n) => write!(f, " param{n}"),
            Attr::GlobalMem { offset, count, access } => {
                write!(f, " +{offset} x{count} of param{} footprint {}", access.pointer, access.footprint)
            }
            Attr::Mem { offset, count } => write!(f, " +{offset} x{count}"),
            Attr::Place(p) => write!(f, " {}+{}", p.buffer, p.offset),
            Attr::PlaceMem { place, count } => write!(f, " {}+{} x{count}", place.buffer, place.offset),
            Attr::Wgmma(w) => write!(
                f,
                " m64n{}.{}.{} m{} n{} k{} a={} b={}",
                w.n,
                w.acc,
                w.elem,
                w.m_atoms,
                w.n_atoms,
                w.k_steps,
                w.a.as_ref().map_or("regs".to_owned(), |a| a.place.buffer.to_string()),
                w.b.place.buffer
            ),
            Attr::Mma(m) => write!(f, " m16n8k16.{}.{} m{} n{}", m.acc, m.elem, m.m_atoms, m.n_atoms),
            Attr::Tma(t) => {
                write!(f, " map{} {}d {} bytes", t.map, t.rank, t.bytes)?;
                f.write_str(if t.before_wait { " early" } else { "" })?;
                t.place.map_or(Ok(()), |p| write!(f, " {}+{}", p.buffer, p.offset))
            }
            Attr::Copy(c) => {
                write!(f, " {} bytes from +{}", c.bytes, c.source)?;
                c.place.map_or(write!(f, " to +{}", c.offset), |p| write!(f, " to {}+{}", p.buffer, p.offset))
            }
            Attr::Matrix { count, trans, offset, .. } => {
                write!(f, " x{count}{} +{offset}", if *trans { " trans" } else { "" })
            }
            Attr::Loop(l) => write!(f, " `{}`", l.name),
        }
    }
}

impl fmt::Display for Program<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "program {} ({} warps)", self.launch.kernel, self.warps)?;
        for (b, d) in self.buffers.iter() {
            writeln!(f, "  {b} {} {:?} {} bytes align {}", d.name, d.kind, d.bytes, d.align)?;
        }
        write!(f, "{}", self.func)
    }
}

impl fmt::Display for Scheduled<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "scheduled {} ({} threads, {} bytes shared)",
            self.launch.kernel, self.threads, self.shared.bytes
        )?;
        write!(f, "setup:\n{}", self.setup)?;
        for r in &self.roles {
            writeln!(f, "role {} warps {}+{} registers {}:", r.name, r.first_warp, r.warps, r.registers)?;
            write!(f, "{}", r.func)?;
        }
        Ok(())
    }
}
