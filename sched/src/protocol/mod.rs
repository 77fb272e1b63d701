//! The barrier protocol of a scheduled program, run on its own. An abstract machine runs the emitted roles of one
//! cluster. It keeps only scalars, barriers, and which stage holds which fill.
//!
//! ```text
//!  producer   wait empty ─ expect bytes ─ copy ····bytes land····┐      an agent: one warp's path
//!  consumer   wait full ─ product reads stage ─ wait ─ arrive    │      through its role
//!  stage      fill 3 issued ─ landed ─ read by all warps ─ fill 4 ┘
//! ```
//!
//! The machine checks:
//!
//! - phases: a stage is read if and only if its fill has landed;
//! - bytes: every phase gets the bytes that it expects;
//! - arrivals: none too many, none missing;
//! - stages: none is overwritten while a product still reads it;
//! - blocks: nobody writes to a block that has ended;
//! - ends: all agents reach their end.
//!
//! The order of agents and of landing bytes is chosen adversarially by [`Order`].

mod agent;
mod memory;
mod value;

use agent::{Agent, Next};
use memory::Cluster;
use warplift_ir::machine::{Program, Schedule, Scheduled};

/// A run with more instructions than this counts as endless.
const MOST_STEPS: u64 = 50_000_000;

/// The agent that goes first if several can go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Producers run ahead; bytes land at once.
    ProducersFirst,
    /// Consumers run ahead; bytes land when no agent can go on.
    ConsumersFirst,
    /// A random order from a seed.
    Random(u64),
}

/// The inputs of a run: one cluster of a launch.
pub struct Run<'r, 'a> {
    /// The program before scheduling, with its buffers.
    pub program: &'r Program<'a>,
    /// The schedule.
    pub schedule: &'r Schedule,
    /// The expansion of the schedule.
    pub scheduled: &'r Scheduled<'a>,
    /// Integer arguments by name.
    pub arguments: &'r dyn Fn(&str) -> Option<i64>,
    /// Blocks along x of the launch.
    pub blocks: u32,
    /// Number of the cluster among those of the launch.
    pub cluster: u32,
    /// Order of agents.
    pub order: Order,
}

/// Counts of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Fills of a stage of a buffer, over all blocks.
    pub fills: u64,
    /// Arrivals of consumers.
    pub releases: u64,
    /// Reads of stages by products.
    pub reads: u64,
}

/// The errors of a run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// All agents are waiting, and no bytes are on their way.
    #[error("deadlock: {0}")]
    Deadlock(String),
    /// A rule of a barrier is broken.
    #[error("barrier: {0}")]
    Barrier(String),
    /// A stage is read or written at the wrong time.
    #[error("stage: {0}")]
    Stage(String),
    /// A block ended too early.
    #[error("end: {0}")]
    End(String),
    /// The machine cannot decide a branch or an address, because it depends on data.
    #[error("undecided: {0}")]
    Undecided(String),
}

/// Runs one cluster.
///
/// # Errors
/// The first rule that the program breaks.
pub fn run(r: &Run<'_, '_>) -> Result<Report, ProtocolError> {
    let mut cluster = Cluster::new(r, &agent::initialised(r)?, agent::per_block(r));
    let mut agents = agent::all(r);
    let mut rng = Rng(match r.order {
        Order::Random(seed) => seed.wrapping_mul(2).wrapping_add(1),
        _ => 1,
    });
    let mut steps = 0;
    while agents.iter().any(|a| !a.done) {
        let Some(i) = choose(r, &agents, &mut cluster, &mut rng)? else {
            return Err(deadlock(&agents, &cluster));
        };
        // An agent goes on until it waits. Other agents see its steps only through barriers.
        let mut budget = if matches!(r.order, Order::Random(_)) { 1 + rng.below(64) } else { u64::MAX };
        while budget > 0 && agents[i].ready(&cluster)? {
            budget -= 1;
            steps += 1;
            if steps > MOST_STEPS {
                return Err(ProtocolError::Undecided(format!("no end after {steps} instructions")));
            }
            let next = agents[i].step(r, &mut cluster)?;
            if next == Next::End {
                cluster.leave(agents[i].block);
                break;
            }
            if r.order == Order::ProducersFirst {
                cluster.complete_copies()?;
                // A producer that waits for the release of this step goes first.
                if !agents[i].producer {
                    break;
                }
            }
        }
    }
    cluster.complete_copies()?;
    cluster.finish(r)
}

/// The next agent to run, in the given order. `None` if all wait in vain.
fn choose(
    r: &Run<'_, '_>,
    agents: &[Agent<'_, '_>],
    cluster: &mut Cluster,
    rng: &mut Rng,
) -> Result<Option<usize>, ProtocolError> {
    loop {
        let mut ready = Vec::new();
        for (i, a) in agents.iter().enumerate() {
            if !a.done && a.ready(cluster)? {
                ready.push(i);
            }
        }
        let random = matches!(r.order, Order::Random(_));
        if random && cluster.in_flight() > 0 && (ready.is_empty() || rng.below(4) == 0) {
            cluster.complete_copy(rng.below(cluster.in_flight() as u64) as usize)?;
            continue;
        }
        let first = |producer: bool| ready.iter().copied().find(|&i| agents[i].producer == producer);
        let found = match r.order {
            Order::ProducersFirst => first(true).or(first(false)),
            Order::ConsumersFirst => first(false).or(first(true)),
            Order::Random(_) if ready.is_empty() => None,
            Order::Random(_) => Some(ready[rng.below(ready.len() as u64) as usize]),
        };
        if found.is_some() || cluster.in_flight() == 0 {
            return Ok(found);
        }
        cluster.complete_copy(0)?;
    }
}

fn deadlock(agents: &[Agent<'_, '_>], cluster: &Cluster) -> ProtocolError {
    let waiting: Vec<String> = agents.iter().filter(|a| !a.done).map(Agent::describe).collect();
    ProtocolError::Deadlock(format!("{}; {}", waiting.join(", "), cluster.describe()))
}

/// Xorshift: it is reproducible and needs no dependency.
struct Rng(u64);

impl Rng {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n.max(1)
    }
}
