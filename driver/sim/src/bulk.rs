//! Bulk copies and tensor copies (TMA): loads that an mbarrier completes, stores and reductions
//! that a bulk group completes.
//!
//! Source: PTX ISA, "Data movement and conversion instructions: asynchronous copy", bulk and tensor.

use super::access::{Blame, Target};
use super::data::{atom, number};
use super::exec::Flow;
use super::hazard::HazardKind;
use super::inst::{Addr, AtomOp, BulkFrom, BulkLoad, BulkStore, BulkTo, Scope, Space, TensorOperand, Ty};
use super::machine::{Found, Machine, Reason, Stop};
use super::mask::lanes;
use super::shadow::{Access, Kind};
use super::space::GENERIC_PARAM;
use super::state::{BarrierAt, Far, LoadTask, Operation, Stage, StoreTask, Task};
use super::tensormap::Run;

impl Machine<'_> {
    fn blame(&self, w: usize, lane: usize) -> Blame {
        Blame { warp: w, lane: lane as u8, pc: self.pc(w) }
    }

    fn bad(&mut self, b: Blame, what: String) -> Result<(), Stop> {
        self.hazard(Found::new(HazardKind::BadOperand, b.warp, b.pc, what).lane(u32::from(b.lane)))
    }

    fn misaligned(&mut self, b: Blame, address: u64, what: String) -> Result<(), Stop> {
        let found = Found::new(HazardKind::Misaligned, b.warp, b.pc, what);
        self.hazard(found.lane(u32::from(b.lane)).at(address))
    }

    /// A local mbarrier operand.
    pub fn local_barrier(&mut self, w: usize, lane: usize, address: u64) -> Result<Option<BarrierAt>, Stop> {
        let b = self.blame(w, lane);
        let space =
            if address >= super::space::GENERIC_SHARED { Space::Generic } else { Space::SharedCluster };
        Ok(match self.resolve(b, space, address, 8)? {
            Some(Target::Shared { block, offset }) => Some(BarrierAt { block, offset }),
            _ => None,
        })
    }

    /// The shared side of a bulk copy: whole range inside and aligned.
    fn shared_side(
        &mut self,
        b: Blame,
        address: u64,
        bytes: u32,
        align: u32,
    ) -> Result<Option<(usize, u32)>, Stop> {
        let space =
            if address >= super::space::GENERIC_SHARED { Space::Generic } else { Space::SharedCluster };
        let Some(Target::Shared { block, offset }) = self.resolve(b, space, address, 1)? else {
            return Ok(None);
        };
        if !offset.is_multiple_of(align) {
            let what = format!("shared address {address:#x} is no multiple of {align}");
            self.misaligned(b, address, what)?;
            return Ok(None);
        }
        if u64::from(offset) + u64::from(bytes) > self.blocks[block].shared.len() as u64 {
            self.outside(b, address, bytes)?;
            return Ok(None);
        }
        Ok(Some((block, offset)))
    }

    fn global_side(&mut self, b: Blame, address: u64, bytes: u64) -> Result<Option<Far>, Stop> {
        if !address.is_multiple_of(16) || !bytes.is_multiple_of(16) || bytes > 1 << 20 {
            let what = format!("a bulk copy of {bytes} bytes at {address:#x}; both are multiples of 16");
            self.misaligned(b, address, what)?;
            return Ok(None);
        }
        Ok(Some(Far::Global { address, bytes: bytes as u32 }))
    }

    /// The map at a tensor operand's address.
    fn map_of(&mut self, w: usize, map: Addr, lane: usize) -> Result<Option<usize>, Stop> {
        let address = self.address(w, map, lane)?;
        let offset = address.wrapping_sub(GENERIC_PARAM);
        let found = self.launch.maps.iter().position(|(o, _)| u64::from(*o) == offset);
        if found.is_none() {
            let what = format!("{address:#x} is no tensor map of the parameters");
            let b = self.blame(w, lane);
            self.bad(b, what)?;
        }
        Ok(found)
    }

    /// The box of an operand; for a store, `stores` says whether it reduces.
    fn tensor_side(
        &mut self,
        w: usize,
        t: &TensorOperand,
        lane: usize,
        stores: Option<bool>,
    ) -> Result<Option<Far>, Stop> {
        let Some(map) = self.map_of(w, t.map, lane)? else {
            return Ok(None);
        };
        let mut coordinates = Vec::new();
        for c in &t.coordinates {
            coordinates.push(self.get_lane(w, *c, lane)? as u32 as i32);
        }
        let rank = self.launch.maps[map].1.dims.len();
        if rank != coordinates.len() {
            let what = format!("{} coordinates for a tensor map of rank {rank}", coordinates.len());
            let b = self.blame(w, lane);
            self.bad(b, what)?;
            return Ok(None);
        }
        if let Some(what) = self.launch.maps[map].1.refuses(&coordinates, stores) {
            let b = self.blame(w, lane);
            self.bad(b, what)?;
            return Ok(None);
        }
        Ok(Some(Far::Tensor { map, coordinates }))
    }

    fn far_bytes(&self, far: &Far) -> u32 {
        match far {
            Far::Global { bytes, .. } | Far::Shared { bytes, .. } => *bytes,
            Far::Tensor { map, .. } => self.launch.maps[*map].1.box_bytes(),
        }
    }

    /// Bytes of shared memory from the first one to the last one that a copy touches.
    fn shared_span(&self, far: &Far) -> u32 {
        match far {
            Far::Tensor { map, .. } => self.launch.maps[*map].1.shared_bytes(),
            _ => self.far_bytes(far),
        }
    }

    fn align_of(&self, far: &Far) -> u32 {
        match far {
            Far::Tensor { map, .. } => self.launch.maps[*map].1.alignment(),
            _ => 16,
        }
    }

    pub fn prefetch_tensor(&mut self, w: usize, map: Addr, mask: u32) -> Result<Flow, Stop> {
        for l in lanes(mask) {
            self.map_of(w, map, l)?;
        }
        Ok(Flow::Next)
    }

    pub fn bulk_load(&mut self, w: usize, b: &BulkLoad, mask: u32) -> Result<Flow, Stop> {
        for lane in lanes(mask) {
            if let Some(task) = self.load_task(w, b, lane)? {
                let targets = task.targets.clone();
                let source = match task.from {
                    Far::Shared { block, .. } => Some(block),
                    _ => None,
                };
                let id = self.issue(w, 1 << lane, Task::Load(task))?;
                for block in targets.into_iter().chain(source) {
                    self.hold(id, block, Kind::Async);
                }
            }
        }
        Ok(Flow::Next)
    }

    fn load_task(&mut self, w: usize, b: &BulkLoad, lane: usize) -> Result<Option<LoadTask>, Stop> {
        let blame = self.blame(w, lane);
        let from = match &b.from {
            BulkFrom::Tensor(t) => self.tensor_side(w, t, lane, None)?,
            BulkFrom::Global { addr, bytes } => {
                let (a, n) = (self.address(w, *addr, lane)?, self.get_lane(w, *bytes, lane)?);
                self.global_side(blame, a, n)?
            }
            BulkFrom::Shared { addr, bytes } => {
                let (a, n) = (self.address(w, *addr, lane)?, self.get_lane(w, *bytes, lane)? as u32);
                let place = self.shared_side(blame, a, n, 16)?;
                place.map(|(block, offset)| Far::Shared { block, offset, bytes: n })
            }
        };
        let Some(from) = from else { return Ok(None) };
        let bytes = self.far_bytes(&from);
        let dst = self.address(w, b.dst, lane)?;
        let align = self.align_of(&from);
        let Some((block, offset)) = self.shared_side(blame, dst, self.shared_span(&from), align)? else {
            return Ok(None);
        };
        let mbar = self.address(w, b.mbar, lane)?;
        let Some(barrier) = self.local_barrier(w, lane, mbar)? else {
            return Ok(None);
        };
        let mut targets = vec![block];
        if let Some(m) = b.multicast {
            let bits = self.get_lane(w, m, lane)? as u16;
            targets = (0..16).filter(|r| bits >> r & 1 == 1).collect();
            if targets.is_empty() || targets.iter().any(|r| *r >= self.blocks.len()) {
                let what = format!("multicast mask {bits:#x} in a cluster of {}", self.blocks.len());
                self.bad(blame, what)?;
                return Ok(None);
            }
        } else if barrier.block != block {
            let what = "the mbarrier is in another block than the destination".to_owned();
            self.bad(blame, what)?;
        }
        let barriers = targets
            .iter()
            .map(|t| BarrierAt {
                block: if b.multicast.is_some() { *t } else { barrier.block },
                offset: barrier.offset,
            })
            .collect();
        Ok(Some(LoadTask { from, targets, offset, barriers, bytes }))
    }

    /// All the data arrives, then the barriers count it.
    pub fn run_load(&mut self, op: &Operation, t: &LoadTask) -> Result<Stage, Stop> {
        for &block in &t.targets {
            if self.blocks[block].live_warps == 0 {
                self.note_remote(block, op.access(Kind::Async))?;
                continue;
            }
            match &t.from {
                Far::Tensor { map, coordinates } => {
                    let launch = self.launch;
                    launch.maps[*map].1.runs(coordinates, t.offset, |run| self.arrive_run(op, block, run))?;
                }
                Far::Global { address, bytes } => {
                    for at in (0..*bytes).step_by(16) {
                        let run =
                            Run { global: Some(address + u64::from(at)), shared: t.offset + at, bytes: 16 };
                        self.arrive_run(op, block, run)?;
                    }
                }
                Far::Shared { block: from, offset, bytes } => {
                    let data = self.read_async(op, *from, *offset, *bytes)?;
                    self.write_async(op, block, t.offset, &data)?;
                }
            }
        }
        for at in &t.barriers {
            self.arrive_bytes(op, *at, t.bytes)?;
        }
        Ok(Stage::Done)
    }

    fn arrive_run(&mut self, op: &Operation, block: usize, run: Run) -> Result<(), Stop> {
        let mut bytes = [0; 16];
        let bytes = &mut bytes[..run.bytes as usize];
        if let Some(address) = run.global {
            let blame = Blame { warp: op.warp, lane: op.lane, pc: op.pc };
            self.read_global(blame, address, bytes)?;
            let access = op.access(Kind::Async);
            self.note_global(blame, (address, run.bytes), access, Some(op), false)?;
        }
        self.write_async(op, block, run.shared, bytes)
    }

    fn write_async(&mut self, op: &Operation, block: usize, offset: u32, bytes: &[u8]) -> Result<(), Stop> {
        let access = op.access(Kind::Async);
        let who = self.who_issued(op, access);
        let len = bytes.len() as u32;
        let found = self.blocks[block].shadow.write(offset, len, who);
        let at = offset as usize;
        self.blocks[block].shared[at..at + bytes.len()].copy_from_slice(bytes);
        self.not_a_barrier(op.warp, block, offset, len, access)?;
        match found {
            Some(c) => self.conflict(op.warp, block, access, c, true),
            None => Ok(()),
        }
    }

    fn read_async(&mut self, op: &Operation, block: usize, offset: u32, bytes: u32) -> Result<Vec<u8>, Stop> {
        let access = op.access(Kind::Async);
        let who = self.who_issued(op, access);
        let found = self.blocks[block].shadow.read(offset, bytes, who);
        let at = offset as usize;
        let data = self.blocks[block].shared[at..at + bytes as usize].to_vec();
        if let Some(c) = found {
            self.conflict(op.warp, block, access, c, false)?;
        }
        Ok(data)
    }

    /// Counts bytes on an mbarrier. Its waiters then know that the operation is complete.
    fn arrive_bytes(&mut self, op: &Operation, at: BarrierAt, bytes: u32) -> Result<(), Stop> {
        let Some(b) = self.blocks[at.block].mbarriers.get_mut(&at.offset) else {
            let what = "bytes complete on an mbarrier that was not initialised";
            let found = Found::new(HazardKind::BarrierMisuse, op.warp, op.pc, what);
            return self.hazard(found.at(u64::from(at.offset)));
        };
        let init = b.init;
        b.current.near.seen.raise(op.timeline, op.clock);
        // The copy was issued after everything that its issuer waited for.
        b.current.near.phases.join(&op.start.phases);
        b.used(op.access(Kind::Barrier));
        let t = usize::from(init.timeline);
        let visible = op.start.inits.get(t) >= init.clock;
        if !self.transact(at, i64::from(bytes)) {
            let what = "more bytes than an mbarrier can count were never expected";
            let found = Found::new(HazardKind::TransactionCount, op.warp, op.pc, what).other(init.pc);
            self.hazard(found.lane(u32::from(op.lane)).at(u64::from(at.offset)))?;
        }
        if !visible {
            let what = "an asynchronous copy uses an mbarrier whose initialisation was not made \
                        visible by fence.mbarrier_init or fence.proxy.async";
            let found = Found::new(HazardKind::MissingProxyFence, op.warp, op.pc, what);
            self.hazard(found.other(init.pc).at(u64::from(at.offset)))?;
        }
        Ok(())
    }

    pub fn bulk_store(&mut self, w: usize, b: &BulkStore, mask: u32) -> Result<Flow, Stop> {
        for lane in lanes(mask) {
            if let Some(task) = self.store_task(w, b, lane)? {
                let block = task.block;
                let id = self.issue(w, 1 << lane, Task::Store(task))?;
                self.hold(id, block, Kind::Async);
                self.warps[w].bulk.entry(lane as u8).or_default().open.push(id);
            }
        }
        Ok(Flow::Next)
    }

    fn store_task(&mut self, w: usize, b: &BulkStore, lane: usize) -> Result<Option<StoreTask>, Stop> {
        let blame = self.blame(w, lane);
        let to = match &b.to {
            BulkTo::Tensor(t) => self.tensor_side(w, t, lane, Some(b.reduce.is_some()))?,
            BulkTo::Global { addr, bytes } => {
                let (a, n) = (self.address(w, *addr, lane)?, self.get_lane(w, *bytes, lane)?);
                self.global_side(blame, a, n)?
            }
        };
        let Some(to) = to else { return Ok(None) };
        let src = self.address(w, b.src, lane)?;
        let align = self.align_of(&to);
        let Some((block, offset)) = self.shared_side(blame, src, self.shared_span(&to), align)? else {
            return Ok(None);
        };
        if block != self.warps[w].block {
            let what = "a bulk store reads another block's shared memory".to_owned();
            self.bad(blame, what)?;
        }
        let reduce = b.reduce.map(|(op, ty)| {
            let map_type = match &to {
                Far::Tensor { map, .. } => self.launch.maps[*map].1.ty(),
                _ => None,
            };
            (op, ty.or(map_type).unwrap_or(Ty::B(32)))
        });
        Ok(Some(StoreTask { to, block, offset, reduce, read: None }))
    }

    /// First reads the source, then writes it out.
    pub fn run_store(&mut self, op: &Operation, t: &mut StoreTask) -> Result<Stage, Stop> {
        if let Some(data) = t.read.take() {
            for (address, bytes) in data {
                self.store_out(op, address, bytes, t.reduce)?;
            }
            return Ok(Stage::Done);
        }
        let mut data = Vec::new();
        match &t.to {
            Far::Global { address, bytes } => {
                data.push((*address, self.read_async(op, t.block, t.offset, *bytes)?));
            }
            Far::Tensor { map, coordinates } => {
                let launch = self.launch;
                launch.maps[*map].1.runs(coordinates, t.offset, |run| {
                    let bytes = self.read_async(op, t.block, run.shared, run.bytes)?;
                    if let Some(address) = run.global {
                        data.push((address, bytes));
                    }
                    Ok::<(), Stop>(())
                })?;
            }
            Far::Shared { .. } => {}
        }
        t.read = Some(data);
        Ok(Stage::Read)
    }

    fn store_out(
        &mut self,
        op: &Operation,
        address: u64,
        mut bytes: Vec<u8>,
        reduce: Option<(AtomOp, Ty)>,
    ) -> Result<(), Stop> {
        let blame = Blame { warp: op.warp, lane: op.lane, pc: op.pc };
        if let Some((operation, ty)) = reduce {
            let mut old = vec![0; bytes.len()];
            self.read_global(blame, address, &mut old)?;
            let size = ty.bytes() as usize;
            for (new, old) in bytes.chunks_mut(size).zip(old.chunks(size)) {
                let v = atom(operation, ty, number(old), number(new), 0);
                let n = new.len();
                new.copy_from_slice(&v.to_le_bytes()[..n]);
            }
        }
        if self.memory.store(address, &bytes) {
            // Reductions are atomic. The write ends after the read of the source.
            let kind = if reduce.is_some() { Kind::Strong(Scope::Gpu) } else { Kind::Async };
            let access = Access { clock: op.clock + 1, ..op.access(kind) };
            return self.note_global(blame, (address, bytes.len() as u32), access, Some(op), true);
        }
        self.outside(blame, address, bytes.len() as u32)
    }

    pub fn bulk_commit(&mut self, w: usize, mask: u32) -> Result<Flow, Stop> {
        for l in lanes(mask) {
            let groups = self.warps[w].bulk.entry(l as u8).or_default();
            let open = std::mem::take(&mut groups.open);
            groups.committed.push_back(open);
        }
        Ok(Flow::Next)
    }

    pub fn bulk_wait(&mut self, w: usize, pending: u32, read: bool, mask: u32) -> Result<Flow, Stop> {
        let stage = if read { Stage::Read } else { Stage::Done };
        let mut all = Vec::new();
        for l in lanes(mask) {
            let Some(groups) = self.warps[w].bulk.get(&(l as u8)) else {
                continue;
            };
            let retire = groups.committed.len().saturating_sub(pending as usize);
            all.extend(groups.committed.iter().take(retire).flatten().copied());
        }
        if !self.reached(&all, stage) {
            return Ok(Flow::Wait(Reason::Bulk));
        }
        self.learn(w, mask, &all, stage);
        self.forget(&all);
        for l in lanes(mask) {
            self.drop_groups(w, l as u8);
        }
        Ok(Flow::Next)
    }

    /// Drops the oldest groups of a thread that are complete and known to be complete.
    fn drop_groups(&mut self, w: usize, lane: u8) {
        let Some(groups) = self.warps[w].bulk.get(&lane) else {
            return;
        };
        let gone = |ids: &Vec<u64>| ids.iter().all(|id| !self.operations.contains_key(id));
        let n = groups.committed.iter().take_while(|g| gone(g)).count();
        if let Some(groups) = self.warps[w].bulk.get_mut(&lane) {
            groups.committed.drain(..n);
        }
    }
}
