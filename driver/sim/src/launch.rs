//! A launch of an entry: grid, parameters, tensor maps.

use super::inst::Inst;
use super::memory::{BufferId, Memory};
use super::program::{Entry, Module};
use super::space::SHARED_LIMIT;
use super::tensormap::TensorMapDesc;
use super::{SimError, space};
use std::ops::Range;

/// A launch of one entry.
#[derive(Clone, Debug)]
pub struct Launch<'a> {
    /// The module.
    pub module: &'a Module,
    /// Name of the entry.
    pub entry: &'a str,
    /// Blocks in x, y, z.
    pub grid: [u32; 3],
    /// Blocks of a cluster in x, y, z; all 1 where there is none.
    pub cluster: [u32; 3],
    /// Threads of a block.
    pub block: u32,
    /// Bytes of dynamic shared memory.
    pub dynamic_shared: u32,
    /// Values of the entry's parameters, in order.
    pub params: Vec<ParamValue>,
    /// The value of `%nsmid`.
    pub sm_count: u32,
    /// Whether the grid may start before the one before it in the stream has ended. An entry with a
    /// `griddepcontrol.wait` is always taken so.
    pub pdl: bool,
    /// Buffers that no grid before writes: threads may read them before they wait.
    pub before_wait: Vec<BufferId>,
}

/// The value of one parameter.
#[derive(Clone, Debug)]
pub enum ParamValue {
    /// Raw little-endian bytes of a scalar.
    Bytes(Vec<u8>),
    /// The address of a buffer plus an offset in bytes.
    Pointer(BufferId, u64),
    /// A tensor map.
    TensorMap(TensorMapDesc),
}

/// Blocks of a grid along each dimension at most.
const GRID_LIMITS: [u32; 3] = [(1 << 31) - 1, 65535, 65535];

/// Blocks of a grid at most: the simulator runs them one by one.
pub const BLOCK_LIMIT: u64 = 1 << 22;

impl ParamValue {
    /// A 32-bit scalar.
    pub fn u32(v: u32) -> Self {
        Self::Bytes(v.to_le_bytes().to_vec())
    }

    /// A 64-bit scalar.
    pub fn u64(v: u64) -> Self {
        Self::Bytes(v.to_le_bytes().to_vec())
    }

    /// A float scalar.
    pub fn f32(v: f32) -> Self {
        Self::Bytes(v.to_le_bytes().to_vec())
    }
}

/// The order of all possible events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Adversary {
    /// Asynchronous operations complete as soon as they are issued; warps in order.
    Earliest,
    /// Asynchronous operations complete only when nothing else can go on; warps in reverse.
    Latest,
    /// Each class of asynchronous operations (loads, stores, copies of threads, products) has a rule that the seed
    /// selects: at once, only when a warp waits for it, or random. Seed 0 completes products at once and loads late;
    /// seed 1 loads at once and products late. Warps run in random order.
    Classes,
    /// Everything in random order.
    #[default]
    Random,
}

/// The reaction to a hazard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hazards {
    /// Stop at the first.
    #[default]
    Deny,
    /// Collect them and continue.
    Warn,
}

/// Where `fence.proxy.async` must stand between a generic write and an asynchronous access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProxyFence {
    /// In the thread that wrote, as the CUDA programming guide's examples have it.
    #[default]
    Writer,
    /// Anywhere on the causality path, as the PTX memory model words it.
    Path,
}

/// Options of a run.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Seed of every choice.
    pub seed: u64,
    /// The order of events.
    pub order: Adversary,
    /// The reaction to hazards.
    pub hazards: Hazards,
    /// Warp instructions of one cluster after which the run is given up.
    pub max_steps: u64,
    /// The proxy fence's place.
    pub proxy_fence: ProxyFence,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: 0,
            order: Adversary::default(),
            hazards: Hazards::default(),
            max_steps: 200_000_000,
            proxy_fence: ProxyFence::default(),
        }
    }
}

/// A launch that was checked against its entry.
pub(crate) struct Prepared<'a> {
    pub module: &'a Module,
    pub entry: &'a Entry,
    pub grid: [u32; 3],
    pub cluster: [u32; 3],
    pub block: u32,
    pub dynamic_shared: u32,
    /// Bytes of shared memory with the reserved part.
    pub shared_size: u32,
    pub params: Vec<u8>,
    /// Offset in the parameters and the map.
    pub maps: Vec<(u32, TensorMapDesc)>,
    pub sm_count: u32,
    /// Registers of a thread at entry.
    pub registers: u32,
    /// Address of the module's global variables.
    pub variables: u64,
    /// The obligations of a grid that may start early.
    pub grids: Option<Grids>,
}

impl<'a> Launch<'a> {
    /// A launch of one block row without clusters; the rest is filled in by the caller.
    pub fn new(module: &'a Module, entry: &'a str) -> Self {
        Self {
            module,
            entry,
            grid: [1; 3],
            cluster: [1; 3],
            block: 32,
            dynamic_shared: 0,
            params: Vec::new(),
            sm_count: 132,
            pdl: false,
            before_wait: Vec::new(),
        }
    }

    pub(crate) fn prepare(&self, memory: &Memory) -> Result<Prepared<'a>, SimError> {
        let fail = |what: String| SimError::Launch(what);
        let entry = self
            .module
            .entry(self.entry)
            .ok_or_else(|| fail(format!("there is no entry `{}`", self.entry)))?;
        self.check_shape(entry).map_err(fail)?;
        let shared_size = entry.dynamic_start.max(entry.static_shared).saturating_add(self.dynamic_shared);
        if shared_size > SHARED_LIMIT {
            return Err(fail(format!(
                "{} bytes of shared memory with the reserved {}; a block has {SHARED_LIMIT}",
                shared_size,
                space::SHARED_BASE
            )));
        }
        let (params, maps) = self.parameters(entry, memory).map_err(fail)?;
        Ok(Prepared {
            module: self.module,
            entry,
            grid: self.grid,
            cluster: self.cluster,
            block: self.block,
            dynamic_shared: self.dynamic_shared,
            shared_size,
            params,
            maps,
            sm_count: self.sm_count,
            registers: entry_registers(entry, self.block),
            variables: 0,
            grids: Grids::new(self, entry, memory),
        })
    }

    fn check_shape(&self, entry: &Entry) -> Result<(), String> {
        if self.block == 0 || self.block > 1024 {
            return Err(format!("{} threads in a block; 1 to 1024 are possible", self.block));
        }
        if let Some(b) = entry.block.filter(|b| *b != [self.block, 1, 1]) {
            return Err(format!("{} threads in a block, `.reqntid` says {b:?}", self.block));
        }
        if entry.max_block.is_some_and(|b| b.iter().product::<u32>() < self.block) {
            return Err(format!("{} threads in a block exceed `.maxntid`", self.block));
        }
        if let Some(c) = entry.cluster.filter(|c| *c != self.cluster) {
            return Err(format!("clusters of {:?}, `.reqnctapercluster` says {c:?}", self.cluster));
        }
        let size: u64 = self.cluster.iter().map(|c| u64::from(*c)).product();
        if !(1..=16).contains(&size) {
            return Err(format!("clusters of {size} blocks; 1 to 16 are possible"));
        }
        // PTX ISA, "%ctaid, %nctaid".
        if let Some((g, limit)) = self.grid.iter().zip(&GRID_LIMITS).find(|(g, limit)| g > limit) {
            return Err(format!("a grid of {g} blocks in one dimension; {limit} are possible"));
        }
        let blocks = self.grid.iter().fold(1_u64, |all, g| all.saturating_mul((*g).into()));
        if blocks > BLOCK_LIMIT {
            let [x, y, z] = self.grid;
            return Err(format!(
                "a grid of {x} x {y} x {z} blocks: the simulator runs at most {BLOCK_LIMIT}; give smaller sizes"
            ));
        }
        for (g, c) in self.grid.iter().zip(&self.cluster) {
            if g % c != 0 || *g == 0 {
                return Err(format!("a grid of {g} blocks does not divide into clusters of {c}"));
            }
        }
        Ok(())
    }

    #[allow(clippy::type_complexity, reason = "bytes and maps, used once")]
    fn parameters(
        &self,
        entry: &Entry,
        memory: &Memory,
    ) -> Result<(Vec<u8>, Vec<(u32, TensorMapDesc)>), String> {
        if entry.params.len() != self.params.len() {
            return Err(format!(
                "{} parameters given, the entry has {}",
                self.params.len(),
                entry.params.len()
            ));
        }
        let end = entry.params.last().map_or(0, |p| p.offset + p.bytes);
        let mut bytes = vec![0; end as usize];
        let mut maps = Vec::new();
        for (slot, value) in entry.params.iter().zip(&self.params) {
            let raw = match value {
                ParamValue::Bytes(b) => b.clone(),
                ParamValue::Pointer(id, offset) => {
                    memory.address(*id).wrapping_add(*offset).to_le_bytes().to_vec()
                }
                ParamValue::TensorMap(map) => {
                    map.check().map_err(|e| format!("tensor map `{}`: {e}", slot.name))?;
                    if slot.offset % 64 != 0 {
                        return Err(format!("tensor map `{}` is not aligned to 64 bytes", slot.name));
                    }
                    maps.push((slot.offset, map.clone()));
                    vec![0; 128]
                }
            };
            if raw.len() != slot.bytes as usize {
                return Err(format!(
                    "parameter `{}` has {} bytes, {} given",
                    slot.name,
                    slot.bytes,
                    raw.len()
                ));
            }
            let at = slot.offset as usize;
            bytes[at..at + raw.len()].copy_from_slice(&raw);
        }
        Ok((bytes, maps))
    }
}

/// Registers that each thread has at entry: `.maxnreg`, or the share of its scheduler's 512 a warp,
/// rounded down to 8.
fn entry_registers(entry: &Entry, block: u32) -> u32 {
    let warps = block.div_ceil(32);
    let share = 512 / warps.div_ceil(4) / 8 * 8;
    entry.maxnreg.unwrap_or(share).min(share).min(255)
}

/// The obligations of a grid that may start before its predecessor has ended.
pub(crate) struct Grids {
    /// Addresses that threads may read before they wait.
    before_wait: Vec<Range<u64>>,
    /// The entry's first wait, to be named.
    pub(super) wait: Option<u32>,
}

impl Grids {
    /// None for a grid that starts after all that it depends on.
    fn new(launch: &Launch<'_>, entry: &Entry, memory: &Memory) -> Option<Self> {
        let wait = entry.code.iter().position(|op| matches!(op.inst, Inst::GridWait)).map(|pc| pc as u32);
        let range = |id| {
            let from = memory.address(id);
            from..from + memory.bytes(id).len() as u64
        };
        let before_wait = launch.before_wait.iter().map(|&id| range(id)).collect();
        (launch.pdl || wait.is_some()).then_some(Self { before_wait, wait })
    }

    pub(super) fn allows(&self, address: u64, write: bool) -> bool {
        !write && self.before_wait.iter().any(|r| r.contains(&address))
    }
}
