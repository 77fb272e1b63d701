//! Rows written from the table's syntax, and the free rows: constants, joins and slices.

use crate::EmitError;
use crate::operand::{register, registers};
use crate::role::{Site, Writer};
use std::fmt::Write as _;
use warplift_ir::machine::{Attr, Operand, Ty};
use warplift_ir::target::Opcode;
use warplift_ir::tile::{Assumption, CmpOp, MemoryOrder, MemoryScope};

/// Type of a move.
fn suffix(ty: Ty) -> &'static str {
    match ty {
        Ty::Pred => "pred",
        Ty::B16 => "b16",
        Ty::B64 => "b64",
        _ => "b32",
    }
}

/// The PTX name of a comparison. On floats, `ne` holds for NaN.
fn comparison(cmp: CmpOp, float: bool) -> &'static str {
    match cmp {
        CmpOp::Eq => "eq",
        CmpOp::Ne if float => "neu",
        CmpOp::Ne => "ne",
        CmpOp::Lt => "lt",
        CmpOp::Le => "le",
        CmpOp::Gt => "gt",
        CmpOp::Ge => "ge",
    }
}

/// The PTX word of an order.
fn order(order: MemoryOrder) -> &'static str {
    match order {
        MemoryOrder::Relaxed => "relaxed",
        MemoryOrder::Acquire => "acquire",
        MemoryOrder::Release => "release",
        MemoryOrder::AcqRel => "acq_rel",
    }
}

/// The PTX word of a scope.
fn scope(scope: MemoryScope) -> &'static str {
    match scope {
        MemoryScope::Cta => "cta",
        MemoryScope::Cluster => "cluster",
        MemoryScope::Gpu => "gpu",
        MemoryScope::Sys => "sys",
    }
}

impl<'a> Writer<'_, 'a> {
    /// A row by its syntax, once or once for each register of its result.
    pub(crate) fn row(&mut self, site: Site<'_, 'a>) -> Result<(), EmitError> {
        let times = match site.data.maps.is_empty() {
            true => 1,
            false => site.operands.get(site.result()).map_or(1, registers),
        };
        if site.data.guard.is_some() {
            self.zeros(site)?;
        }
        (0..times).try_for_each(|rep| self.row_once(site, rep))
    }

    /// Writes zeros before a guarded instruction, for the threads that do not execute it.
    fn zeros(&mut self, site: Site<'_, 'a>) -> Result<(), EmitError> {
        for (k, &v) in (site.result()..).zip(site.data.results) {
            let ty = self.func.ty(v);
            for at in 0..site.operands.get(k).map_or(0, registers) {
                let _ = write!(self.out, "mov.{} ", suffix(ty));
                self.operand(site, k, at, false)?;
                self.out.push_str(", 0;\n");
            }
        }
        Ok(())
    }

    /// Whether a copy would have the same source and destination because the view is free.
    fn is_free(&self, site: Site<'_, 'a>, rep: usize) -> bool {
        let [map] = &site.data.maps[..] else { return false };
        let name = |k: usize, at: usize| site.operands.get(k).and_then(|o| register(o, at));
        let from = map.at(rep as u16).and_then(|at| name(0, at.into()));
        site.data.op == Opcode::Mov && from.is_some() && from == name(site.result(), rep)
    }

    fn row_once(&mut self, site: Site<'_, 'a>, rep: usize) -> Result<(), EmitError> {
        if self.is_free(site, rep) {
            return Ok(());
        }
        let syntax = site.row.syntax;
        let inner = syntax.strip_prefix('{').and_then(|s| s.strip_suffix('}'));
        if inner.is_some() {
            self.out.push_str("{ ");
        }
        for piece in inner.unwrap_or(syntax).split(';').map(str::trim).filter(|p| !p.is_empty()) {
            if !piece.starts_with(".reg") {
                self.guard(site)?;
            }
            self.piece(site, piece, rep)?;
            self.out.push_str(if inner.is_some() { "; " } else { ";\n" });
        }
        if inner.is_some() {
            self.out.push_str("}\n");
        }
        Ok(())
    }

    /// One PTX instruction of a row with its places filled.
    fn piece(&mut self, site: Site<'_, 'a>, piece: &str, rep: usize) -> Result<(), EmitError> {
        let float = piece.split(' ').next().is_some_and(|op| op.ends_with(".f32"));
        let mut rest = piece;
        if let (Attr::Sync { sync, .. }, Some((op, words))) = (&site.data.attr, piece.split_once('.')) {
            let _ = write!(self.out, "{op}.{}.{}.", order(sync.order), scope(sync.scope));
            rest = words;
        }
        while let Some(at) = rest.find('$') {
            self.out.push_str(&rest[..at]);
            let place = rest[at + 1..].chars().next().unwrap_or('$');
            self.place(site, place, rep, float)?;
            rest = &rest[at + 1 + place.len_utf8()..];
        }
        self.out.push_str(rest);
        Ok(())
    }

    fn place(&mut self, site: Site<'_, 'a>, place: char, rep: usize, float: bool) -> Result<(), EmitError> {
        match place {
            'd' => return self.repeated(site, site.result(), rep, float),
            '0'..='9' => return self.repeated(site, place as usize - '0' as usize, rep, float),
            'o' => self.offset(self.memory_offset(site)),
            'v' => self.out.push_str(self.vector(site)?),
            'c' => {
                let Attr::Cmp(cmp) = site.data.attr else {
                    return Err(self.attribute(site, "a comparison"));
                };
                self.out.push_str(comparison(cmp, float));
            }
            'p' => {
                let Attr::Param(n) = site.data.attr else {
                    return Err(self.attribute(site, "a parameter"));
                };
                let _ = write!(self.out, "param{n}");
            }
            _ => {
                let v = self.immediate(site, place)?;
                let _ = write!(self.out, "{v}");
            }
        }
        Ok(())
    }

    fn immediate(&self, site: Site<'_, 'a>, place: char) -> Result<i64, EmitError> {
        match (&site.data.attr, place) {
            (Attr::Imm(v), 'i') | (Attr::Imm2(v, _), 'i') | (Attr::Imm2(_, v), 'j') => Ok(*v),
            _ => Err(self.attribute(site, "an immediate")),
        }
    }

    fn count(&self, site: Site<'_, 'a>) -> usize {
        match site.data.attr {
            Attr::Mem { count, .. } | Attr::Sync { count, .. } => usize::from(count),
            _ => 1,
        }
    }

    fn vector(&self, site: Site<'_, 'a>) -> Result<&'static str, EmitError> {
        match self.count(site) {
            1 => Ok(""),
            2 => Ok(".v2"),
            4 => Ok(".v4"),
            _ => Err(self.attribute(site, "1, 2 or 4 registers")),
        }
    }

    /// Operand `k` at one repetition: through its map, as a list where an access moves several.
    fn repeated(&mut self, site: Site<'_, 'a>, k: usize, rep: usize, float: bool) -> Result<(), EmitError> {
        if site.data.maps.is_empty() {
            let scalar = matches!(site.operands.get(k), Some(Operand::Scalar(_) | Operand::Literal(_)));
            return match self.count(site) {
                n if n > 1 && !scalar => self.list(site, k, 0, n),
                _ => self.operand(site, k, 0, float),
            };
        }
        let at = match site.data.maps.get(k) {
            Some(map) if k < site.result() => map.at(rep as u16).map_or(0, usize::from),
            _ => rep,
        };
        self.operand(site, k, at, float)
    }

    /// A constant that has a register, or registers.
    pub(crate) fn constant(&mut self, site: Site<'_, 'a>) -> Result<(), EmitError> {
        let Attr::Imm(v) = site.data.attr else { return Err(self.attribute(site, "an immediate")) };
        let ty = site.data.results.first().map_or(Ty::B32, |&v| self.func.ty(v));
        let n = site.operands.first().map_or(0, registers);
        for at in 0..n {
            let _ = write!(self.out, "mov.{} ", suffix(ty));
            self.operand(site, 0, at, false)?;
            self.out.push_str(", ");
            self.literal(v, ty, false);
            self.out.push_str(";\n");
        }
        Ok(())
    }

    /// A number of which something is promised: the number, unless it lies there already, and the promise in a comment that
    /// only the simulator reads: `//sim assume.s32 %r1, 8, 0, 64;` for a multiple of 8 from 0 to 64.
    pub(crate) fn assume(&mut self, site: Site<'_, 'a>) -> Result<(), EmitError> {
        let Attr::Assume { promise: Assumption { multiple, min, max }, signed } = site.data.attr else {
            return Err(self.attribute(site, "a promise"));
        };
        let bits = if site.data.op == Opcode::Assume64 { 64 } else { 32 };
        if site.operands.first() != site.operands.get(site.result()) {
            let _ = write!(self.out, "mov.b{bits} ");
            self.operand(site, site.result(), 0, false)?;
            self.out.push_str(", ");
            self.operand(site, 0, 0, false)?;
            self.out.push_str(";\n");
        }
        let _ = write!(self.out, "//sim assume.{}{bits} ", if signed { 's' } else { 'u' });
        self.operand(site, site.result(), 0, false)?;
        let _ = writeln!(self.out, ", {multiple}, {min}, {max};");
        Ok(())
    }

    /// Parts side by side. Only parts that do not lie there already are moved.
    pub(crate) fn join(&mut self, site: Site<'_, 'a>) -> Result<(), EmitError> {
        let result = site.result();
        let mut at = 0;
        for k in 0..result {
            let n = site.operands.get(k).map_or(0, |o| registers(o).max(usize::from(is_literal(o))));
            for i in 0..n {
                self.copy(site, (k, i), (result, at))?;
                at += 1;
            }
        }
        Ok(())
    }

    /// Registers of a fragment from a start, by a stride, or by a map.
    pub(crate) fn slice(&mut self, site: Site<'_, 'a>) -> Result<(), EmitError> {
        let n = site.operands.get(site.result()).map_or(0, registers);
        (0..n).try_for_each(|i| {
            let from = match (&site.data.attr, site.data.maps.first()) {
                (_, Some(map)) => map.at(i as u16).map(usize::from),
                (Attr::Imm(start), _) => usize::try_from(start + i as i64).ok(),
                (Attr::Imm2(start, stride), _) => usize::try_from(start + stride * i as i64).ok(),
                _ => None,
            };
            let from = from.ok_or_else(|| self.attribute(site, "a start"))?;
            self.copy(site, (0, from), (site.result(), i))
        })
    }

    /// One register from operand to operand, unless it is the same one.
    fn copy(
        &mut self,
        site: Site<'_, 'a>,
        from: (usize, usize),
        to: (usize, usize),
    ) -> Result<(), EmitError> {
        let name = |(k, at): (usize, usize)| site.operands.get(k).and_then(|o| register(o, at));
        if name(from).is_some() && name(from) == name(to) {
            return Ok(());
        }
        self.out.push_str("mov.b32 ");
        self.operand(site, to.0, to.1, false)?;
        self.out.push_str(", ");
        self.operand(site, from.0, from.1, false)?;
        self.out.push_str(";\n");
        Ok(())
    }
}

fn is_literal(operand: &Operand) -> bool {
    matches!(operand, Operand::Literal(_))
}
