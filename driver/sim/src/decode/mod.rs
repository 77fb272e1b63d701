//! Statements to instructions: the opcode's words are taken one by one, and a word that nobody took
//! is an error, so that nothing is executed whose modifiers are not understood.

mod alu;
mod asynch;
mod memory;
mod warp;

use super::PtxError;
use super::ast::{Class, EntryAst, Operand, Register, Statement};
use super::float::{BF16, E4M3, E5M2, F16, F32, F64, Format, Round, TF32};
use super::inst::{Addr, Bool, Dst, Inst, Op, PredSrc, Special, Src, Ty};
use super::lex::Pos;
use std::collections::HashMap;

/// What names mean inside an entry.
pub(crate) struct Names<'a> {
    pub entry: &'a EntryAst,
    /// Offset of each shared variable in the block's window.
    pub shared: HashMap<&'a str, u32>,
    /// Offset of each parameter.
    pub params: HashMap<&'a str, u32>,
    /// Offset of each local variable in the thread's window.
    pub locals: HashMap<&'a str, u32>,
    /// Offsets of the module's variables in constant and in global memory.
    pub constants: &'a HashMap<String, u32>,
    pub globals: &'a HashMap<String, u32>,
}

/// Decodes one statement.
pub(crate) fn statement(st: &Statement, names: &Names<'_>) -> Result<Op, PtxError> {
    let mut d = Decoder::new(st, names);
    let inst = d.instruction()?;
    d.finish()?;
    Ok(Op { inst, guard: st.guard.map(|(r, neg)| PredSrc { id: r.id, neg }), meet: u32::MAX })
}

/// A statement being taken apart.
pub(crate) struct Decoder<'a> {
    pub pos: Pos,
    words: Vec<(&'a str, bool)>,
    operands: &'a [Operand],
    next: usize,
    names: &'a Names<'a>,
}

type Res<T> = Result<T, PtxError>;

impl<'a> Decoder<'a> {
    fn new(st: &'a Statement, names: &'a Names<'a>) -> Self {
        Self {
            pos: st.pos,
            words: st.opcode.split('.').map(|w| (w, false)).collect(),
            operands: &st.operands,
            next: 0,
            names,
        }
    }

    fn error<T>(&self, what: impl Into<String>) -> Res<T> {
        Err(self.pos.error(what))
    }

    fn opcode(&self) -> String {
        let words: Vec<_> = self.words.iter().map(|w| w.0).collect();
        words.join(".")
    }

    fn instruction(&mut self) -> Res<Inst> {
        let name = self.words.first().map_or("", |w| w.0);
        self.take(name);
        if let Some(i) = warp::decode(self, name)? {
            return Ok(i);
        }
        if let Some(i) = memory::decode(self, name)? {
            return Ok(i);
        }
        if let Some(i) = asynch::decode(self, name)? {
            return Ok(i);
        }
        if let Some(i) = alu::decode(self, name)? {
            return Ok(i);
        }
        self.error(format!("instruction `{}` is not simulated", self.opcode()))
    }

    fn finish(&self) -> Res<()> {
        if let Some((w, _)) = self.words.iter().find(|w| !w.1) {
            return self.error(format!("`.{w}` of `{}` is not simulated", self.opcode()));
        }
        if self.next < self.operands.len() {
            return self.error(format!("`{}` has too many operands", self.opcode()));
        }
        Ok(())
    }

    // Words of the opcode.

    /// Takes a word if it is there.
    fn take(&mut self, word: &str) -> bool {
        let found = self.words.iter_mut().find(|w| w.0 == word && !w.1);
        found.map(|w| w.1 = true).is_some()
    }

    /// Takes the first of these words that is there.
    fn choice<T: Copy>(&mut self, table: &[(&str, T)]) -> Option<T> {
        let hit = table.iter().find(|(w, _)| self.has(w))?;
        self.take(hit.0);
        Some(hit.1)
    }

    fn has(&self, word: &str) -> bool {
        self.words.iter().any(|w| w.0 == word && !w.1)
    }

    /// Takes words that do not change what is simulated.
    fn ignore(&mut self, words: &[&str]) {
        for w in words {
            self.take(w);
        }
    }

    /// Takes words that begin so and do not change what is simulated.
    fn ignore_prefix(&mut self, prefix: &str) {
        for w in &mut self.words {
            w.1 |= w.0.starts_with(prefix);
        }
    }

    fn ty(&mut self) -> Res<Ty> {
        match self.ty_option() {
            Some(t) => Ok(t),
            None => self.error(format!("`{}` names no type", self.opcode())),
        }
    }

    /// Takes the next word that is a type.
    fn ty_option(&mut self) -> Option<Ty> {
        let w = self.words.iter_mut().find(|w| !w.1 && type_of(w.0).is_some())?;
        w.1 = true;
        type_of(w.0)
    }

    fn round(&mut self) -> Option<Round> {
        self.choice(&[
            ("rn", Round::Even),
            ("rna", Round::Away),
            ("rz", Round::Zero),
            ("rm", Round::Down),
            ("rp", Round::Up),
        ])
    }

    // Operands.

    fn operand(&mut self) -> Res<&'a Operand> {
        match self.operands.get(self.next) {
            Some(o) => {
                self.next += 1;
                Ok(o)
            }
            None => self.error(format!("`{}` lacks an operand", self.opcode())),
        }
    }

    fn left(&self) -> usize {
        self.operands.len() - self.next
    }

    fn peek(&self) -> Option<&'a Operand> {
        self.operands.get(self.next)
    }

    fn dst(&mut self) -> Res<Dst> {
        let o = self.operand()?;
        self.dst_of(o)
    }

    fn dst_of(&self, o: &Operand) -> Res<Dst> {
        match self.dst_or_sink(o)? {
            Some(d) => Ok(d),
            None => self.error("the result cannot be `_`"),
        }
    }

    fn dst_or_sink(&self, o: &Operand) -> Res<Option<Dst>> {
        match o {
            Operand::Reg(Register { id, class: Class::Bits(b) }) => {
                Ok(Some(Dst { reg: *id, mask: u64::MAX >> (64 - u32::from(*b)) }))
            }
            Operand::Sink => Ok(None),
            _ => self.error("the result must be a register that is no predicate"),
        }
    }

    fn pred_dst(&mut self) -> Res<Option<u32>> {
        let o = self.operand()?;
        self.pred_dst_of(o)
    }

    fn pred_dst_of(&self, o: &Operand) -> Res<Option<u32>> {
        match o {
            Operand::Reg(Register { id, class: Class::Pred }) => Ok(Some(*id)),
            Operand::Sink => Ok(None),
            _ => self.error("the result must be a predicate register"),
        }
    }

    fn boolean(&mut self) -> Res<Bool> {
        match self.operand()? {
            Operand::Reg(Register { id, class: Class::Pred }) => {
                Ok(Bool::Reg(PredSrc { id: *id, neg: false }))
            }
            Operand::Not(r) => Ok(Bool::Reg(PredSrc { id: r.id, neg: true })),
            Operand::Int(v) => Ok(Bool::Const(*v != 0)),
            _ => self.error("the operand must be a predicate"),
        }
    }

    /// A source of an integer or untyped instruction.
    fn src(&mut self) -> Res<Src> {
        self.src_as(Ty::B(64))
    }

    fn src_as(&mut self, ty: Ty) -> Res<Src> {
        let o = self.operand()?;
        self.src_of(o, ty)
    }

    fn src_of(&self, o: &Operand, ty: Ty) -> Res<Src> {
        match o {
            Operand::Reg(r) => match r.class {
                Class::Bits(_) => Ok(Src::Reg(r.id)),
                Class::Pred => self.error("a predicate where a value belongs"),
            },
            Operand::Name(n, offset) => self.name(n, *offset),
            Operand::Int(v) => Ok(Src::Imm(int_literal(*v, ty))),
            Operand::F32(_) | Operand::F64(_) | Operand::Decimal(_) => self.float_literal(o, ty),
            _ => self.error(format!("`{}` cannot have such an operand", self.opcode())),
        }
    }

    fn float_literal(&self, o: &Operand, ty: Ty) -> Res<Src> {
        let value = match o {
            Operand::F32(b) => match ty {
                Ty::F(f) if f != F64 && f != F32 => return self.error("a literal of another type"),
                Ty::F(f) if f == F64 => f64::from(f32::from_bits(*b)),
                _ => return Ok(Src::Imm(u64::from(*b))),
            },
            Operand::F64(b) => f64::from_bits(*b),
            Operand::Decimal(d) => *d,
            _ => 0.0,
        };
        Ok(Src::Imm(match ty {
            Ty::F(f) => f.encode(value, Round::Even),
            Ty::B(32) => F32.encode(value, Round::Even),
            _ => value.to_bits(),
        }))
    }

    fn name(&self, n: &str, offset: i64) -> Res<Src> {
        if let Some(o) = self.names.shared.get(n) {
            return Ok(Src::Shared(o.wrapping_add(offset as u32)));
        }
        if let Some(o) = self.names.globals.get(n) {
            return Ok(Src::Variable(u64::from(*o).wrapping_add_signed(offset)));
        }
        let own = self.names.params.get(n).or_else(|| self.names.locals.get(n));
        let plain = own.or_else(|| self.names.constants.get(n));
        if let Some(o) = plain {
            return Ok(Src::Imm(u64::from(*o).wrapping_add_signed(offset)));
        }
        if n == "WARP_SZ" {
            return Ok(Src::Imm(32));
        }
        match special(n) {
            Some(s) => Ok(s),
            None => self.error(format!("`{n}` is not declared")),
        }
    }

    /// The offset of a local variable in the thread's window.
    fn local(&self, name: &str) -> Option<u32> {
        self.names.locals.get(name).copied()
    }

    /// Whether the next operand is the address of a local variable.
    fn at_local(&self) -> bool {
        let Some(Operand::Address { base, .. }) = self.peek() else { return false };
        matches!(&**base, Operand::Name(n, _) if self.local(n).is_some())
    }

    fn addr(&mut self) -> Res<Addr> {
        let o = self.operand()?;
        self.addr_of(o)
    }

    fn addr_of(&self, o: &Operand) -> Res<Addr> {
        match o {
            Operand::Address { base, offset, coordinates: None } => {
                Ok(Addr { base: self.src_of(base, Ty::B(64))?, offset: *offset })
            }
            _ => self.error(format!("`{}` needs an address in brackets", self.opcode())),
        }
    }

    fn vector(&mut self) -> Res<&'a [Operand]> {
        match self.operand()? {
            Operand::Vector(v) => Ok(v),
            _ => self.error(format!("`{}` needs a list in braces here", self.opcode())),
        }
    }

    /// One operand or the elements of a list.
    fn one_or_list(&mut self) -> Res<&'a [Operand]> {
        match self.operand()? {
            Operand::Vector(v) => Ok(v),
            other => Ok(std::slice::from_ref(other)),
        }
    }

    fn dsts(&mut self, list: &[Operand]) -> Res<Vec<Dst>> {
        list.iter().map(|o| self.dst_of(o)).collect()
    }

    fn srcs(&mut self, list: &[Operand], ty: Ty) -> Res<Vec<Src>> {
        list.iter().map(|o| self.src_of(o, ty)).collect()
    }

    /// An immediate integer operand.
    fn immediate(&mut self) -> Res<u64> {
        match self.operand()? {
            Operand::Int(v) => Ok(*v),
            _ => self.error(format!("`{}` needs a constant here", self.opcode())),
        }
    }

    fn label(&mut self) -> Res<u32> {
        let Operand::Name(n, 0) = self.operand()? else {
            return self.error("a branch needs a label");
        };
        match self.names.entry.labels.get(n) {
            Some(at) => Ok(*at),
            None => self.error(format!("label `{n}` is not defined")),
        }
    }
}

fn int_literal(v: u64, ty: Ty) -> u64 {
    match ty {
        Ty::F(f) if f == F32 || f == F64 => f.encode(v as i64 as f64, Round::Even),
        _ => v,
    }
}

/// The type that a word of an opcode names.
pub(crate) fn type_of(word: &str) -> Option<Ty> {
    Some(match word {
        "pred" => Ty::Pred,
        "u8" => Ty::U(8),
        "u16" => Ty::U(16),
        "u32" => Ty::U(32),
        "u64" => Ty::U(64),
        "s8" => Ty::S(8),
        "s16" => Ty::S(16),
        "s32" => Ty::S(32),
        "s64" => Ty::S(64),
        "b8" => Ty::B(8),
        "b16" => Ty::B(16),
        "b32" => Ty::B(32),
        "b64" => Ty::B(64),
        "f16" => Ty::F(F16),
        "bf16" => Ty::F(BF16),
        "tf32" => Ty::F(TF32),
        "f32" => Ty::F(F32),
        "f64" => Ty::F(F64),
        "f16x2" => Ty::F2(F16),
        "bf16x2" => Ty::F2(BF16),
        "e4m3x2" => Ty::F2(E4M3),
        "e5m2x2" => Ty::F2(E5M2),
        "e4m3" => Ty::F(E4M3),
        "e5m2" => Ty::F(E5M2),
        _ => return None,
    })
}

/// Formats by name, for matrix operands.
pub(crate) fn format_of(word: &str) -> Option<Format> {
    match type_of(word)? {
        Ty::F(f) => Some(f),
        _ => None,
    }
}

type Vector3 = fn(u8) -> Special;

fn special(n: &str) -> Option<Src> {
    const VECTORS: [(&str, Vector3); 8] = [
        ("%tid", Special::Tid),
        ("%ntid", Special::Ntid),
        ("%ctaid", Special::Ctaid),
        ("%nctaid", Special::Nctaid),
        ("%clusterid", Special::ClusterId),
        ("%nclusterid", Special::NClusterId),
        ("%cluster_ctaid", Special::ClusterCtaid),
        ("%cluster_nctaid", Special::ClusterNctaid),
    ];
    const SCALARS: [(&str, Special); 22] = [
        ("%laneid", Special::LaneId),
        ("%warpid", Special::WarpId),
        ("%nwarpid", Special::NWarpId),
        ("%cluster_ctarank", Special::ClusterCtarank),
        ("%cluster_nctarank", Special::ClusterNctarank),
        ("%is_explicit_cluster", Special::IsExplicitCluster),
        ("%smid", Special::SmId),
        ("%nsmid", Special::NSmId),
        ("%gridid", Special::GridId),
        ("%clock", Special::Clock),
        ("%clock64", Special::Clock),
        ("%clock_hi", Special::Clock),
        ("%globaltimer", Special::Clock),
        ("%globaltimer_lo", Special::Clock),
        ("%lanemask_eq", Special::LaneMaskEq),
        ("%lanemask_lt", Special::LaneMaskLt),
        ("%lanemask_le", Special::LaneMaskLe),
        ("%lanemask_gt", Special::LaneMaskGt),
        ("%lanemask_ge", Special::LaneMaskGe),
        ("%dynamic_smem_size", Special::DynamicSmemSize),
        ("%total_smem_size", Special::TotalSmemSize),
        ("%aggr_smem_size", Special::TotalSmemSize),
    ];
    if let Some((_, s)) = SCALARS.iter().find(|(w, _)| *w == n) {
        return Some(Src::Special(*s));
    }
    let (stem, axis) = n.split_once('.')?;
    let axis = ["x", "y", "z", "w"].iter().position(|a| *a == axis)? as u8;
    let (_, f) = VECTORS.iter().find(|(w, _)| *w == stem)?;
    Some(if axis == 3 { Src::Imm(0) } else { Src::Special(f(axis)) })
}
