//! `wgmma.mma_async`, `stmatrix` and `ldmatrix`: PTX ISA, chapters on asynchronous warpgroup-level
//! matrix instructions and on warp-level matrix store and load.

use crate::EmitError;
use crate::role::{Site, Writer};
use std::fmt::Write as _;
use warplift_ir::machine::{Attr, Operand, WgmmaAttr};
use warplift_ir::types::Elem;

/// Registers of the A fragment of one instruction.
const A_REGS: usize = 4;

/// Name of an element type in PTX; minis that tensor cores read have their own.
pub(crate) fn element(elem: Elem) -> Option<&'static str> {
    Some(match elem {
        Elem::F32 => "f32",
        Elem::Tf32 => "tf32",
        Elem::F16 => "f16",
        Elem::Bf16 => "bf16",
        Elem::E4M3 => "e4m3",
        Elem::E5M2 => "e5m2",
        Elem::Int(8) => "s8",
        Elem::Uint(8) => "u8",
        Elem::Int(32) => "s32",
        _ => return None,
    })
}

/// Accumulator registers of one instruction.
fn acc_regs(attr: &WgmmaAttr) -> usize {
    usize::from(attr.n) * attr.acc.bits() as usize / 64
}

/// One instruction of a tile product.
struct Atom {
    m: usize,
    n: usize,
    k: usize,
}

impl<'a> Writer<'_, 'a> {
    /// All instructions of a tile product: k-steps outermost, then atoms of M, then of N.
    pub(crate) fn wgmma(&mut self, site: Site<'_, 'a>) -> Result<(), EmitError> {
        let Attr::Wgmma(attr) = &site.data.attr else {
            return Err(self.attribute(site, "a tensor product"));
        };
        let literal = match site.operands.get(1) {
            Some(Operand::Literal(v)) => Some(*v != 0),
            _ => None,
        };
        self.out.push_str("{\n.reg .pred %on, %off;\nmov.pred %on, -1;\nmov.pred %off, 0;\n");
        let [m, n, k] = [attr.m_atoms, attr.n_atoms, attr.k_steps].map(usize::from);
        for k in 0..k {
            for m in 0..m {
                for n in 0..n {
                    self.wgmma_atom(site, attr, &Atom { m, n, k }, literal)?;
                }
            }
        }
        self.out.push_str("}\n");
        Ok(())
    }

    fn wgmma_atom(
        &mut self,
        site: Site<'_, 'a>,
        attr: &WgmmaAttr,
        atom: &Atom,
        scale: Option<bool>,
    ) -> Result<(), EmitError> {
        let types = element(attr.elem).zip(element(attr.right)).zip(element(attr.acc));
        let ((elem, right), acc) =
            types.ok_or_else(|| self.attribute(site, "types that tensor cores have"))?;
        let depth = 256 / attr.elem.bits().max(8);
        self.guard(site)?;
        let _ = write!(self.out, "wgmma.mma_async.sync.aligned.m64n{}k{depth}.{acc}.{elem}.{right} ", attr.n);
        let regs = acc_regs(attr);
        let steps = usize::from(attr.k_steps);
        let first = (atom.m * usize::from(attr.n_atoms) + atom.n) * regs;
        self.list(site, site.result(), first, regs)?;
        self.out.push_str(", ");
        let b = match &attr.a {
            Some(_) => {
                self.operand(site, 2 + atom.m * steps + atom.k, 0, false)?;
                2 + usize::from(attr.m_atoms) * steps
            }
            None => {
                self.list(site, 2, (atom.m * steps + atom.k) * A_REGS, A_REGS)?;
                3
            }
        };
        self.out.push_str(", ");
        self.operand(site, b + atom.n * steps + atom.k, 0, false)?;
        self.out.push_str(", ");
        match scale {
            _ if atom.k > 0 => self.out.push_str("%on"),
            Some(on) => self.out.push_str(if on { "%on" } else { "%off" }),
            None => self.operand(site, 1, 0, false)?,
        }
        self.flags(attr);
        self.out.push_str(";\n");
        Ok(())
    }

    /// Signs of A and B (floats only), and which of them stand transposed (16-bit floats only).
    fn flags(&mut self, attr: &WgmmaAttr) {
        if attr.elem.is_float() {
            self.out.push_str(if attr.negated { ", -1, 1" } else { ", 1, 1" });
        }
        if attr.elem.bits() == 16 {
            if let Some(a) = &attr.a {
                let _ = write!(self.out, ", {}", u8::from(a.mn_major));
            }
            let _ = write!(self.out, ", {}", u8::from(attr.b.mn_major));
        }
    }

    /// `stmatrix` and `ldmatrix`.
    pub(crate) fn matrix(&mut self, site: Site<'_, 'a>) -> Result<(), EmitError> {
        let Attr::Matrix { count, trans, offset, .. } = site.data.attr else {
            return Err(self.attribute(site, "matrices"));
        };
        let trans = if trans { ".trans" } else { "" };
        let store = site.data.results.is_empty();
        self.guard(site)?;
        let name = if store { "stmatrix" } else { "ldmatrix" };
        let _ = write!(self.out, "{name}.sync.aligned.m8n8.x{count}{trans}.shared.b16 ");
        if !store {
            self.list(site, site.result(), 0, count.into())?;
            self.out.push_str(", ");
        }
        self.address(site, 0, offset)?;
        if store {
            self.out.push_str(", ");
            self.list(site, 1, 0, count.into())?;
        }
        self.out.push_str(";\n");
        Ok(())
    }
}
