//! Tensor copies and the waits for them, copies of threads: PTX ISA, `cp.async.bulk.tensor`,
//! `mbarrier.try_wait` and `cp.async`.

use crate::EmitError;
use crate::role::{Site, Writer};
use std::fmt::Write as _;
use warplift_ir::machine::{Attr, CacheHint, TmaAttr};
use warplift_ir::target::Opcode;

/// The policy operand of a hint: the result of `createpolicy.fractional` for a fraction of 1.
fn policy(hint: CacheHint) -> Option<u64> {
    match hint {
        CacheHint::Normal => None,
        CacheHint::First => Some(0x12f0_0000_0000_0000),
        CacheHint::Last => Some(0x14f0_0000_0000_0000),
    }
}

impl<'a> Writer<'_, 'a> {
    /// A tensor copy into or out of shared memory.
    pub(crate) fn tensor_copy(&mut self, site: Site<'_, 'a>) -> Result<(), EmitError> {
        let Attr::Tma(tma) = site.data.attr else { return Err(self.attribute(site, "a tensor copy")) };
        self.guard(site)?;
        let hint = if policy(tma.hint).is_some() { ".L2::cache_hint" } else { "" };
        let _ = write!(self.out, "cp.async.bulk.tensor.{}d", tma.rank);
        if site.data.op == Opcode::TmaLoad {
            let multicast = if tma.multicast != 0 { ".multicast::cluster" } else { "" };
            let _ =
                write!(self.out, ".shared::cluster.global.mbarrier::complete_tx::bytes{multicast}{hint} ");
            self.address(site, 0, 0)?;
            self.out.push_str(", ");
            self.map_place(site, tma, 2)?;
            self.out.push_str(", ");
            self.address(site, 1, 0)?;
            if tma.multicast != 0 {
                let _ = write!(self.out, ", {}", tma.multicast);
            }
        } else {
            let _ = write!(self.out, ".global.shared::cta.bulk_group{hint} ");
            self.map_place(site, tma, 1)?;
            self.out.push_str(", ");
            self.address(site, 0, 0)?;
        }
        if let Some(p) = policy(tma.hint) {
            let _ = write!(self.out, ", 0x{p:016x}");
        }
        self.out.push_str(";\n");
        Ok(())
    }

    /// A copy of contiguous bytes into shared memory.
    pub(crate) fn bulk_copy(&mut self, site: Site<'_, 'a>) -> Result<(), EmitError> {
        let Attr::Tma(tma) = site.data.attr else { return Err(self.attribute(site, "a bulk copy")) };
        self.guard(site)?;
        let hint = if policy(tma.hint).is_some() { ".L2::cache_hint" } else { "" };
        let _ = write!(self.out, "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes{hint} ");
        self.address(site, 0, 0)?;
        self.out.push_str(", ");
        self.address(site, 2, 0)?;
        let _ = write!(self.out, ", {}, ", tma.bytes);
        self.address(site, 1, 0)?;
        if let Some(p) = policy(tma.hint) {
            let _ = write!(self.out, ", 0x{p:016x}");
        }
        self.out.push_str(";\n");
        Ok(())
    }

    /// A copy of one thread. Copies of 16 bytes bypass the first-level cache.
    pub(crate) fn thread_copy(&mut self, site: Site<'_, 'a>) -> Result<(), EmitError> {
        let Attr::Copy(copy) = site.data.attr else { return Err(self.attribute(site, "a copy")) };
        self.guard(site)?;
        let cache = if copy.bytes == 16 { "cg" } else { "ca" };
        let _ = write!(self.out, "cp.async.{cache}.shared.global ");
        self.address(site, 0, copy.offset)?;
        self.out.push_str(", ");
        self.address(site, 1, copy.source)?;
        let _ = write!(self.out, ", {}, ", copy.bytes);
        self.operand(site, 2, 0, false)?;
        self.out.push_str(";\n");
        Ok(())
    }

    /// `[map, {c0, c1}]`.
    fn map_place(&mut self, site: Site<'_, 'a>, tma: TmaAttr, first: usize) -> Result<(), EmitError> {
        let _ = write!(self.out, "[%map{}, {{", tma.map);
        for i in 0..usize::from(tma.rank) {
            if i > 0 {
                self.out.push_str(", ");
            }
            self.operand(site, first + i, 0, false)?;
        }
        self.out.push_str("}]");
        Ok(())
    }

    /// Spins until the barrier's phase with the given parity is over. The loop also keeps ptxas from moving earlier
    /// instructions below the wait.
    pub(crate) fn wait(&mut self, site: Site<'_, 'a>) -> Result<(), EmitError> {
        let label = self.labels;
        self.labels += 1;
        let name = self.name;
        self.out.push_str("{ .reg .pred done;\n");
        if let Some(guard) = site.data.guard {
            self.out.push_str(if guard.negated { "@" } else { "@!" });
            self.operand(site, site.guard(), 0, false)?;
            let _ = writeln!(self.out, " bra ${name}_skip{label};");
        }
        let _ = write!(self.out, "${name}_wait{label}:\nmbarrier.try_wait.parity.shared::cta.b64 done, ");
        self.address(site, 0, self.memory_offset(site))?;
        self.out.push_str(", ");
        self.operand(site, 1, 0, false)?;
        let _ = writeln!(self.out, ";\n@!done bra ${name}_wait{label};");
        if site.data.guard.is_some() {
            let _ = writeln!(self.out, "${name}_skip{label}:");
        }
        self.out.push_str("}\n");
        Ok(())
    }
}
