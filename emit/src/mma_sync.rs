//! `mma.sync`: PTX ISA, "Multiply-and-Accumulate Instruction: mma".

use crate::EmitError;
use crate::role::{Site, Writer};
use crate::tensor::element;
use std::fmt::Write as _;
use warplift_ir::machine::{Attr, MmaAttr};

/// Registers of the A fragment of one instruction, and of its B fragment.
const A_REGS: usize = 4;
const B_REGS: usize = 2;

impl<'a> Writer<'_, 'a> {
    /// All instructions of a step: atoms of M, then of N, every second row of atoms backwards so that
    /// neighbours share an operand.
    pub(crate) fn mma_sync(&mut self, site: Site<'_, 'a>) -> Result<(), EmitError> {
        let Attr::Mma(attr) = site.data.attr else { return Err(self.attribute(site, "a product of warps")) };
        let [m_atoms, n_atoms] = [attr.m_atoms, attr.n_atoms].map(usize::from);
        for m in 0..m_atoms {
            for n in 0..n_atoms {
                let n = if m % 2 == 0 { n } else { n_atoms - 1 - n };
                self.mma_atom(site, attr, m, n)?;
            }
        }
        Ok(())
    }

    fn mma_atom(&mut self, site: Site<'_, 'a>, attr: MmaAttr, m: usize, n: usize) -> Result<(), EmitError> {
        let types = element(attr.elem).zip(element(attr.acc));
        let (elem, acc) = types.ok_or_else(|| self.attribute(site, "types that tensor cores have"))?;
        let regs = attr.acc.bits() as usize / 8;
        let first = (m * usize::from(attr.n_atoms) + n) * regs;
        self.guard(site)?;
        let _ = write!(self.out, "mma.sync.aligned.m16n8k16.row.col.{acc}.{elem}.{elem}.{acc} ");
        let lists = [(site.result(), first, regs), (1, m * A_REGS, A_REGS), (2, n * B_REGS, B_REGS)];
        for (k, first, n) in lists {
            self.list(site, k, first, n)?;
            self.out.push_str(", ");
        }
        self.list(site, 0, first, regs)?;
        self.out.push_str(";\n");
        Ok(())
    }
}
