//! Registers, predicates and special registers of a warp, with the checks on each touch.

use super::hazard::HazardKind;
use super::inst::{Addr, Bool, Dst, Lanes, PredSrc, Special, Src};
use super::machine::{Found, Machine, Stop};
use super::mask::{first_lane, lanes};
use super::space::shared_address;

impl Machine<'_> {
    /// The value of a source in the lanes of `mask`.
    pub fn get(&mut self, w: usize, src: Src, mask: u32) -> Result<Lanes, Stop> {
        match src {
            Src::Reg(r) => {
                self.check_read(w, r, mask)?;
                Ok(self.warps[w].registers[r as usize])
            }
            Src::Imm(v) => Ok([v; 32]),
            Src::Shared(offset) => Ok([shared_address(self.warps[w].block, offset); 32]),
            Src::Variable(offset) => Ok([self.launch.variables.wrapping_add(offset); 32]),
            Src::Pred(p) => {
                let bits = self.predicate(w, p, mask)?;
                Ok(std::array::from_fn(|l| u64::from(bits >> l & 1)))
            }
            Src::Special(s) => Ok(self.special(w, s)),
        }
    }

    /// The value of a source where nothing but arithmetic depends on it: unknown lanes are no mistake yet.
    pub fn peek(&mut self, w: usize, src: Src) -> Result<Lanes, Stop> {
        match src {
            Src::Reg(r) => {
                if self.launch.entry.tensor_registers[r as usize] {
                    self.tensor_touch(w, r as usize, false)?;
                }
                Ok(self.warps[w].registers[r as usize])
            }
            Src::Pred(p) => {
                let bits = self.truth(w, Bool::Reg(p)).bits;
                Ok(std::array::from_fn(|l| u64::from(bits >> l & 1)))
            }
            other => self.get(w, other, u32::MAX),
        }
    }

    /// The value of a source in one lane.
    pub fn get_lane(&mut self, w: usize, src: Src, lane: usize) -> Result<u64, Stop> {
        Ok(self.get(w, src, 1 << lane)?[lane])
    }

    /// A value that must be the same in all active lanes.
    pub fn get_uniform(&mut self, w: usize, src: Src, mask: u32) -> Result<u64, Stop> {
        let v = self.get(w, src, mask)?;
        let first = v[first_lane(mask)];
        if let Some(l) = lanes(mask).find(|l| v[*l] != first) {
            let pc = self.pc(w);
            let what = format!("lanes disagree on an operand: {first:#x} and {:#x}", v[l]);
            let found = Found::new(HazardKind::Disagreement, w, pc, what);
            self.hazard(found.lane(l as u32))?;
        }
        Ok(first)
    }

    pub fn addresses(&mut self, w: usize, addr: Addr, mask: u32) -> Result<Lanes, Stop> {
        let mut a = self.get(w, addr.base, mask)?;
        if addr.offset != 0 {
            for v in &mut a {
                *v = v.wrapping_add_signed(addr.offset);
            }
        }
        Ok(a)
    }

    pub fn address(&mut self, w: usize, addr: Addr, lane: usize) -> Result<u64, Stop> {
        let base = self.get_lane(w, addr.base, lane)?;
        Ok(base.wrapping_add_signed(addr.offset))
    }

    fn check_read(&mut self, w: usize, r: u32, mask: u32) -> Result<(), Stop> {
        let i = r as usize;
        if self.launch.entry.tensor_registers[i] {
            self.tensor_touch(w, i, false)?;
        }
        let missing = mask & !self.warps[w].defined[i];
        if missing != 0 {
            self.undefined(w, r, missing)?;
        }
        Ok(())
    }

    fn undefined(&mut self, w: usize, r: u32, lanes: u32) -> Result<(), Stop> {
        let name = &self.launch.entry.register_names[r as usize];
        let from = self.warps[w].made_unknown.get(&r).copied();
        let what = match from {
            Some(_) => format!("register `{name}` is used: it was computed from one that was never written"),
            None => format!("register `{name}` is read before it is written"),
        };
        let found = Found::new(HazardKind::UninitialisedRegister, w, self.pc(w), what);
        self.hazard(found.lane(lanes.trailing_zeros()).other(from))
    }

    /// Writes a result in the lanes of `mask`.
    pub fn put(&mut self, w: usize, d: Dst, v: &Lanes, mask: u32) -> Result<(), Stop> {
        let i = d.reg as usize;
        if self.launch.entry.tensor_registers[i] {
            self.tensor_touch(w, i, true)?;
        }
        let warp = &mut self.warps[w];
        let slot = &mut warp.registers[i];
        if mask == u32::MAX {
            for (s, v) in slot.iter_mut().zip(v) {
                *s = v & d.mask;
            }
        } else {
            for l in lanes(mask) {
                slot[l] = v[l] & d.mask;
            }
        }
        warp.defined[i] |= mask;
        Ok(())
    }

    /// A predicate operand as a mask.
    pub fn predicate(&mut self, w: usize, p: PredSrc, mask: u32) -> Result<u32, Stop> {
        let i = p.id as usize;
        let warp = &self.warps[w];
        let missing = mask & !warp.predicates_defined[i];
        let bits = warp.predicates[i];
        if missing != 0 {
            let name = &self.launch.entry.predicate_names[i];
            let what = format!("predicate `{name}` is read before it is written");
            let found = Found::new(HazardKind::UninitialisedRegister, w, self.pc(w), what);
            self.hazard(found.lane(missing.trailing_zeros()))?;
        }
        Ok(if p.neg { !bits } else { bits })
    }

    pub fn boolean(&mut self, w: usize, b: Bool, mask: u32) -> Result<u32, Stop> {
        match b {
            Bool::Reg(p) => self.predicate(w, p, mask),
            Bool::Const(true) => Ok(u32::MAX),
            Bool::Const(false) => Ok(0),
        }
    }

    pub fn put_predicate(&mut self, w: usize, d: u32, bits: u32, mask: u32) {
        let warp = &mut self.warps[w];
        let slot = &mut warp.predicates[d as usize];
        *slot = (*slot & !mask) | (bits & mask);
        warp.predicates_defined[d as usize] |= mask;
    }

    fn special(&mut self, w: usize, s: Special) -> Lanes {
        let warp = &self.warps[w];
        let lane = |f: fn(u32) -> u32| std::array::from_fn(|l| u64::from(f(l as u32)));
        let same = match s {
            Special::Tid(0) => {
                return std::array::from_fn(|l| u64::from(warp.index * 32) + l as u64);
            }
            Special::LaneId => return lane(|l| l),
            Special::LaneMaskEq => return lane(|l| 1 << l),
            Special::LaneMaskLt => return lane(|l| ((1u64 << l) - 1) as u32),
            Special::LaneMaskLe => return lane(|l| ((2u64 << l) - 1) as u32),
            Special::LaneMaskGt => return lane(|l| !((2u64 << l) - 1) as u32),
            Special::LaneMaskGe => return lane(|l| !((1u64 << l) - 1) as u32),
            Special::Clock => self.steps,
            Special::ActiveMask => u64::from(warp.stack.last().map_or(0, |f| f.mask)),
            other => u64::from(self.block_special(w, other)),
        };
        [same; 32]
    }

    fn block_special(&self, w: usize, s: Special) -> u32 {
        let (l, warp) = (self.launch, &self.warps[w]);
        let rank = warp.block as u32;
        let [cx, cy, _] = l.cluster;
        let size: u32 = l.cluster.iter().product();
        let axis = |v: &[u32; 3], a: u8| v.get(usize::from(a)).copied().unwrap_or(0);
        match s {
            Special::Ntid(0) => l.block,
            Special::Ntid(_) => 1,
            Special::Ctaid(a) => axis(&self.blocks[warp.block].id, a),
            Special::Nctaid(a) => axis(&l.grid, a),
            Special::WarpId => warp.index,
            Special::NWarpId => l.block.div_ceil(32),
            Special::ClusterId(a) => axis(&self.cluster, a),
            Special::NClusterId(a) => axis(&l.grid, a) / axis(&l.cluster, a).max(1),
            Special::ClusterCtaid(a) => axis(&[rank % cx, rank / cx % cy, rank / (cx * cy)], a),
            Special::ClusterNctaid(a) => axis(&l.cluster, a),
            Special::ClusterCtarank => rank,
            Special::ClusterNctarank => size,
            Special::IsExplicitCluster => u32::from(size > 1),
            Special::SmId => self.cluster[0] * size + rank,
            Special::NSmId => l.sm_count,
            Special::DynamicSmemSize => l.dynamic_shared,
            Special::TotalSmemSize => l.shared_size - super::space::SHARED_BASE,
            _ => 0,
        }
    }
}
