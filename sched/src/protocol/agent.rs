//! An agent: one warp on its way through its role, or the one thread that copies.

use super::memory::Cluster;
use super::{ProtocolError, Run, value};
use warplift_ir::entity::SecondaryMap;
use warplift_ir::machine::{
    Attr, Block, BlockCall, Buffer, Func, Inst, InstData, Role, RoleKind, TmaAttr, Value,
};
use warplift_ir::manifest::Param;
use warplift_ir::target::Opcode;

/// The state after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// There are more instructions.
    More,
    /// The role is over.
    End,
}

type StageKey = (u32, Buffer, u32);

pub(super) struct Agent<'f, 'a> {
    func: &'f Func<'a>,
    /// Rank of the agent's block in the cluster.
    pub(super) block: usize,
    pub(super) producer: bool,
    pub(super) done: bool,
    thread: u32,
    elected: bool,
    at: (Block, usize),
    env: SecondaryMap<Value, Option<i64>>,
    /// Products that are issued and not committed, then committed groups, oldest first.
    open: Vec<StageKey>,
    groups: Vec<Vec<StageKey>>,
    /// The opening of the cluster's barrier that the agent waits for.
    cluster_goal: u64,
    /// The named barrier at which the agent waits, and the opening that it waits for.
    named_goal: Option<(i64, u64)>,
}

/// Agents of one block: every computing warp (epilogue warps too), the threads that copy, and one thread of the
/// producer's that does not copy.
pub(super) fn per_block(r: &Run<'_, '_>) -> u32 {
    r.scheduled.roles.iter().map(|role| threads(role).len() as u32).sum()
}

/// The threads of a role that agents stand for, each with whether it is the elected one of its warp.
fn threads(role: &Role<'_>) -> Vec<(u32, bool)> {
    let first = |warps: u32| (0..warps).map(|w| (32 * (role.first_warp + w), true));
    match role.copiers {
        0 => first(role.warps).collect(),
        copiers => first(copiers).chain([(32 * role.first_warp + 1, false)]).collect(),
    }
}

/// All agents of a cluster.
pub(super) fn all<'r, 'a>(r: &Run<'r, 'a>) -> Vec<Agent<'r, 'a>> {
    let mut agents = Vec::new();
    for block in 0..r.scheduled.launch.cluster.max(1) as usize {
        for role in &r.scheduled.roles {
            let kind = if role.copiers > 0 { RoleKind::Producer } else { RoleKind::Consumer };
            agents.extend(threads(role).into_iter().map(|t| Agent::new(&role.func, block, kind, t)));
        }
    }
    agents
}

/// Barriers as the first thread of the setup initialises them: addresses, and arrivals of a phase.
pub(super) fn initialised(r: &Run<'_, '_>) -> Result<Vec<(i64, i64)>, ProtocolError> {
    let func = &r.scheduled.setup;
    let mut agent = Agent::setup(func);
    let mut barriers = Vec::new();
    for &inst in func.order.iter().flat_map(|&b| &func.blocks[b].insts) {
        let d = &func.insts[inst];
        match (d.op, &d.attr) {
            (Opcode::MbarInit, Attr::Imm(count)) => {
                barriers.push((agent.known(d.args[0], "a barrier's address")?, *count));
            }
            _ => agent.define(r, inst),
        }
    }
    Ok(barriers)
}

impl<'f, 'a> Agent<'f, 'a> {
    fn new(func: &'f Func<'a>, block: usize, kind: RoleKind, (thread, elected): (u32, bool)) -> Self {
        Self {
            func,
            block,
            producer: kind == RoleKind::Producer,
            done: false,
            thread,
            elected,
            at: (func.entry, 0),
            env: SecondaryMap::new(),
            open: Vec::new(),
            groups: Vec::new(),
            cluster_goal: 0,
            named_goal: None,
        }
    }

    /// The thread that initialises the barriers.
    fn setup(func: &'f Func<'a>) -> Self {
        Self::new(func, 0, RoleKind::Consumer, (0, true))
    }

    fn warp(&self) -> u32 {
        self.thread / 32
    }

    fn data(&self) -> Option<(Inst, &'f InstData<'a>)> {
        let inst = *self.func.blocks[self.at.0].insts.get(self.at.1)?;
        Some((inst, &self.func.insts[inst]))
    }

    /// A value that must be known.
    pub(super) fn known(&self, v: Value, what: &str) -> Result<i64, ProtocolError> {
        self.env[v].ok_or_else(|| {
            ProtocolError::Undecided(format!("{what} ({v}) of warp {} depends on data", self.warp()))
        })
    }

    fn address(&self, d: &InstData<'_>) -> Result<i64, ProtocolError> {
        let base = self.known(d.args[0], "an address")?;
        Ok(match d.attr {
            Attr::Mem { offset, .. } => base + i64::from(offset),
            _ => base,
        })
    }

    /// Whether the agent's next instruction can run without waiting.
    pub(super) fn ready(&self, cluster: &Cluster) -> Result<bool, ProtocolError> {
        let Some((_, d)) = self.data().filter(|_| !self.done) else { return Ok(false) };
        if self.named_goal.is_some_and(|(id, goal)| cluster.named(self.block, id) < goal) {
            return Ok(false);
        }
        if !self.guarded(d)? {
            return Ok(true);
        }
        match d.op {
            Opcode::MbarWait => {
                let parity = self.known(d.args[1], "a phase")?;
                cluster.passed(self.block, self.address(d)?, parity)
            }
            Opcode::ClusterWait => Ok(cluster.opened >= self.cluster_goal),
            _ => Ok(true),
        }
    }

    fn guarded(&self, d: &InstData<'_>) -> Result<bool, ProtocolError> {
        // A guard that depends on data guards only plain accesses, which are not simulated.
        Ok(d.guard.is_none_or(|g| self.env[g.pred].is_none_or(|p| (p != 0) != g.negated)))
    }

    /// Sets the results of an instruction that has no effects here.
    pub(super) fn define(&mut self, r: &Run<'_, '_>, inst: Inst) {
        let d = &self.func.insts[inst];
        let args: Vec<Option<i64>> = d.args.iter().map(|&v| self.env[v]).collect();
        let scalar = |v: &&Value| !self.func.ty(**v).is_frag();
        let Some(&result) = d.results.first().filter(scalar) else { return };
        let cluster = i64::from(r.scheduled.launch.cluster.max(1));
        self.env[result] = match (d.op, &d.attr) {
            (Opcode::Tid, _) => Some(self.thread.into()),
            (Opcode::Laneid, _) => Some((self.thread % 32).into()),
            (Opcode::Elect, _) => Some(self.elected.into()),
            (Opcode::SharedBase, _) => Some(0),
            (Opcode::ClusterRank, _) => Some(self.block as i64),
            (Opcode::ClusterId, _) => Some(r.cluster.into()),
            (Opcode::ClusterCount, _) => Some(i64::from(r.blocks) / cluster),
            (Opcode::CtaidX, _) => Some(i64::from(r.cluster) * cluster + self.block as i64),
            (Opcode::CtaidY | Opcode::CtaidZ, _) => Some(0),
            (Opcode::NctaidX, _) => Some(r.blocks.into()),
            (Opcode::NctaidY | Opcode::NctaidZ, _) => Some(1),
            (Opcode::LdParam32, Attr::Param(n)) => match r.scheduled.launch.params.get(*n as usize) {
                Some(Param::Argument { name }) => (r.arguments)(name),
                _ => None,
            },
            _ if d.op.is_pure() => value::pure(d, &args),
            _ => None,
        };
    }

    /// Runs one instruction.
    pub(super) fn step(&mut self, r: &Run<'_, '_>, cluster: &mut Cluster) -> Result<Next, ProtocolError> {
        let Some((inst, d)) = self.data() else { return Ok(self.end()) };
        self.at.1 += 1;
        self.named_goal = None;
        if !self.guarded(d)? {
            return Ok(Next::More);
        }
        match (d.op, &d.attr) {
            (Opcode::Ret | Opcode::Trap, _) => return self.ended(),
            (Opcode::Br, _) => self.go(&d.targets[0]),
            (Opcode::BrIf, _) => {
                let yes = self.known(d.args[0], "a branch")? != 0;
                self.go(&d.targets[usize::from(!yes)]);
            }
            (Opcode::MbarExpectTx, Attr::Imm(bytes)) => {
                cluster.arrive(self.block, self.known(d.args[0], "a barrier")?, *bytes)?;
            }
            (Opcode::MbarArrive | Opcode::MbarArriveRemote, _) => {
                cluster.arrive(self.block, self.address(d)?, 0)?;
            }
            (Opcode::TmaLoad | Opcode::BulkLoad, Attr::Tma(t)) => self.copy(d, t, cluster)?,
            (Opcode::MbarWait, _) if !self.producer => {
                cluster.awaited(self.block, self.warp(), self.address(d)?);
            }
            (Opcode::Wgmma, _) => self.product(d, cluster)?,
            (Opcode::Ldmatrix, Attr::Matrix { offset, .. }) => {
                self.read(self.known(d.args[0], "an address")? + i64::from(*offset), cluster)?;
                self.define(r, inst);
            }
            (Opcode::LdShared | Opcode::LdShared16 | Opcode::LdShared8, Attr::Mem { offset, .. }) => {
                self.load(r, inst, (*offset).into(), cluster)?;
            }
            (Opcode::StShared | Opcode::StShared16 | Opcode::StShared8, Attr::Mem { offset, count }) => {
                self.store(d, i64::from(*offset), i64::from(*count), cluster)?;
            }
            (Opcode::AtomIncU32, _) => {
                let last = cluster.is_last();
                self.env[d.results[0]] = self.env[d.args[1]].map(|most| if last { most } else { 0 });
            }
            (Opcode::AtomIncRelaxedU32, _) => self.env[d.results[0]] = Some(cluster.draw(r)),
            (Opcode::WgmmaCommit, _) => self.groups.push(std::mem::take(&mut self.open)),
            (Opcode::WgmmaWait, Attr::Imm(n)) => self.wait(*n as usize, cluster),
            (Opcode::BarSync, Attr::Imm2(id, threads)) => {
                let goal = cluster.arrive_named(self.block, *id, *threads as u32 / 32);
                self.named_goal = Some((*id, goal));
            }
            (Opcode::BarArrive, Attr::Imm2(id, threads)) => {
                cluster.arrive_named(self.block, *id, *threads as u32 / 32);
            }
            (Opcode::ClusterArrive, _) => {
                self.cluster_goal = cluster.opened + 1;
                cluster.arrive_cluster();
            }
            _ => self.define(r, inst),
        }
        Ok(Next::More)
    }

    /// A load from shared memory. An address that depends on data is not followed, like the data itself; of data only the
    /// numbers of tiles are.
    fn load(
        &mut self,
        r: &Run<'_, '_>,
        inst: Inst,
        offset: i64,
        cluster: &mut Cluster,
    ) -> Result<(), ProtocolError> {
        let d = &self.func.insts[inst];
        let from = self.env[d.args[0]].map(|from| from + offset);
        if let Some(from) = from {
            self.read(from, cluster)?;
        }
        self.define(r, inst);
        let number = from.and_then(|at| cluster.word(self.block, at));
        if let (Some(number), Some(&result)) = (number, d.results.first()) {
            self.env[result] = Some(number);
        }
        Ok(())
    }

    /// A store to shared memory: its words hold a number if that is known and alone, and are forgotten else.
    fn store(
        &self,
        d: &InstData<'_>,
        offset: i64,
        count: i64,
        cluster: &mut Cluster,
    ) -> Result<(), ProtocolError> {
        let Some(to) = self.env[d.args[0]] else { return Ok(()) };
        cluster.store(self.block, self.warp(), to + offset)?;
        if d.op == Opcode::StShared {
            let number = self.env[d.args[1]].filter(|_| count == 1);
            (0..count).for_each(|n| cluster.put_word(self.block, to + offset + 4 * n, number));
        }
        Ok(())
    }

    /// Issues a copy into every block that it names.
    fn copy(&self, d: &InstData<'_>, t: &TmaAttr, cluster: &mut Cluster) -> Result<(), ProtocolError> {
        let (to, barrier) = (self.known(d.args[0], "a place")?, self.known(d.args[1], "a barrier")?);
        let mask = if t.multicast == 0 { 1 << self.block } else { t.multicast };
        for block in (0..16).filter(|b| mask >> b & 1 == 1) {
            cluster.issue(block, to, t.bytes, barrier)?;
        }
        Ok(())
    }

    /// Threads read a stage. The warp has read it when it goes on.
    fn read(&self, from: i64, cluster: &mut Cluster) -> Result<(), ProtocolError> {
        if let Some(stage) = cluster.read(self.block, self.warp(), from)? {
            cluster.read_done(self.block, self.warp(), stage);
        }
        Ok(())
    }

    fn ended(&mut self) -> Result<Next, ProtocolError> {
        let left = self.groups.iter().flatten().chain(&self.open).count();
        if left > 0 {
            return Err(ProtocolError::End(format!("warp {} ends with products in flight", self.warp())));
        }
        Ok(self.end())
    }

    fn end(&mut self) -> Next {
        self.done = true;
        Next::End
    }

    fn go(&mut self, call: &BlockCall<'a>) {
        let values: Vec<Option<i64>> = call.args.iter().map(|&v| self.env[v]).collect();
        for (&p, v) in self.func.blocks[call.block].params.iter().zip(values) {
            self.env[p] = v;
        }
        self.at = (call.block, 0);
    }

    /// A product reads the stages to which its descriptors point.
    fn product(&mut self, d: &InstData<'_>, cluster: &mut Cluster) -> Result<(), ProtocolError> {
        for &v in d.args.iter().skip(2).filter(|&&v| !self.func.ty(v).is_frag()) {
            let low = self.known(v, "a descriptor")? & 0x3fff;
            if let Some(stage) = cluster.read(self.block, self.warp(), low << 4)? {
                self.open.push(stage);
            }
        }
        Ok(())
    }

    fn wait(&mut self, left: usize, cluster: &mut Cluster) {
        let over = self.groups.len().saturating_sub(left);
        for stage in self.groups.drain(..over).flatten() {
            cluster.read_done(self.block, self.thread / 32, stage);
        }
    }

    pub(super) fn describe(&self) -> String {
        let role = if self.producer { "producer" } else { "consumer" };
        let at = self.data().map_or_else(|| "the end".to_owned(), |(i, d)| format!("{i} {}", d.op.name()));
        format!("{role} warp {} of block {} at {at}", self.warp(), self.block)
    }
}
