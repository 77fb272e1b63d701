//! Hazards decide whether a result may lie on a dying operand of its own instruction.
//!
//! A row that is repeated over a fragment writes register `i` of its result before it reads for repetition `j > i`. A
//! result may take the operand's registers if none of those reads comes too late:
//!
//! ```text
//!  cvt d[i], a[2i+1], a[2i]     d on the lower half of a: read 0 1, write 0, read 2 3, write 1: fine
//!  cvt d[i], a[i/2]             d on a: read 0, write 0, read 0: too late
//! ```

use crate::normalize::Normalized;
use crate::planned::Planned;
use crate::shape::WebSlice;
use rustc_hash::FxHashMap;
use warplift_ir::machine::{IndexMap, Inst};
use warplift_ir::target::Opcode;

/// Pairs of operand and result of one instruction that cannot share every register.
pub(crate) struct Hazards(FxHashMap<(u32, u32), Vec<(Inst, usize)>>);

impl Hazards {
    pub(crate) fn collect(normal: &Normalized<'_>, planned: &Planned) -> Self {
        let mut map: FxHashMap<(u32, u32), Vec<(Inst, usize)>> = FxHashMap::default();
        for inst in normal.func.order.iter().flat_map(|&b| &normal.func.blocks[b].insts) {
            let data = &normal.func.insts[*inst];
            let Some(result) = data.results.first().and_then(|&r| planned.get(r)) else { continue };
            if data.maps.is_empty() && !matches!(data.op, Opcode::Wgmma | Opcode::MmaSync) {
                continue;
            }
            for (k, &arg) in data.args.iter().enumerate() {
                if let Some(i) = planned.get(arg) {
                    map.entry((i as u32, result as u32)).or_default().push((*inst, k));
                }
            }
        }
        Self(map)
    }

    /// Whether the two values are operand and result, either way round, of an instruction.
    pub(crate) fn linked(&self, u: usize, v: usize) -> bool {
        !self.0.is_empty() && (self.0.contains_key(&key(u, v)) || self.0.contains_key(&key(v, u)))
    }

    /// Whether the values may lie at these places, as far as their common instructions go.
    pub(crate) fn allow(
        &self,
        normal: &Normalized<'_>,
        planned: &Planned,
        (u, pu): (usize, &WebSlice),
        (v, pv): (usize, &WebSlice),
    ) -> bool {
        let one = |o: usize, po: &WebSlice, r: usize, pr: &WebSlice| {
            let list = self.0.get(&key(o, r)).map_or(&[][..], |l| l);
            list.iter().all(|&(inst, k)| in_time(normal, planned, inst, k, (o, po), (r, pr)))
        };
        one(u, pu, v, pv) && one(v, pv, u, pu)
    }
}

fn key(u: usize, v: usize) -> (u32, u32) {
    (u as u32, v as u32)
}

/// Whether no register of operand `k` is read after the result has overwritten it.
fn in_time(
    normal: &Normalized<'_>,
    planned: &Planned,
    inst: Inst,
    k: usize,
    (o, po): (usize, &WebSlice),
    (r, pr): (usize, &WebSlice),
) -> bool {
    let data = &normal.func.insts[inst];
    let n = planned.regs[r];
    if matches!(data.op, Opcode::Wgmma | Opcode::MmaSync) {
        return k == 0 && po == pr;
    }
    let map = data.maps.get(k).unwrap_or(&IndexMap::Whole);
    (0..n).all(|j| {
        let read = map.at(j).unwrap_or(0);
        let written = (read < planned.regs[o]).then(|| pr.index(po.at(read.into()), n)).flatten();
        written.is_none_or(|i| i >= usize::from(j))
    })
}
