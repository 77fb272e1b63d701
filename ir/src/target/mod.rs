//! Instructions and chips.
//!
//! ```text
//!  Opcode   definition of an instruction: name, operands, results, effect, least architecture; the same on every chip
//!  Target   one chip:  rows       its implementation of each instruction: unit, cycles, PTX, SASS
//!                      limits     threads, registers, shared memory, barriers
//!                      rates      measured rates of its units beyond single rows
//!                      estimates  numbers that no microbenchmark measures, set by hand
//! ```
//!
//! Every stage takes a `&Target`. No number of a chip stands anywhere else. [`SM90A`] and [`H100`] are the chips of
//! `sm_90a`: they run the same code, and differ in the rates of their memories. A target that lacks an instruction refuses it
//! by name: [`Lacks`].

mod arch;
mod h100;
mod opcode;
mod sm90a;
mod sm90a_cycles;

pub use arch::{Arch, Lacks};
pub use opcode::Opcode;
pub use sm90a::{H100, SM90A};

use serde::{Deserialize, Serialize};

/// Hardware unit that an instruction occupies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Unit {
    /// No instruction at all: constants, free views of fragments, structure.
    None,
    /// Integer, logic and compare.
    Alu,
    /// 32-bit floating point and packed halves.
    Fma,
    /// Special functions and conversions.
    Sfu,
    /// 64-bit floating point.
    Fp64,
    /// Loads and stores, shuffles.
    Lsu,
    /// Tensor cores.
    Tensor,
    /// Tensor memory accelerator.
    Tma,
    /// Barriers and fences.
    Sync,
    /// Branches.
    Branch,
}

/// Whether and how an instruction touches memory or shared state. Its order against others follows from that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Pure. A pass may clone, merge, move or drop it.
    Pure,
    /// Reads memory.
    Read,
    /// Writes memory.
    Write,
    /// Synchronises, branches, or changes state.
    Order,
}

/// Class of one operand or result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Predicate.
    Pred,
    /// 16 bits.
    B16,
    /// 32 bits.
    B32,
    /// 64 bits.
    B64,
    /// Any number of operands of any class.
    Any,
}

/// The source of a row's cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// Usual figures of the architecture, by hand.
    ByHand,
    /// Either latency or interval was measured. The other one is by hand.
    Partly,
    /// Both were measured, on the device and day of [`Target::measured_on`].
    Measured,
}

/// Measured cycles of a row.
#[derive(Clone, Copy, Debug)]
struct Measured {
    opcode: Opcode,
    latency: Option<u16>,
    interval: Option<u16>,
}

/// Measured rates of units beyond single rows. They are rates of one multiprocessor unless the text says otherwise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// Least cycles of a warpgroup's product with A in shared memory, without the n/4 cycles for B.
    pub product_shared_cycles: f64,
    /// Least cycles of a warpgroup's product with A in registers.
    pub product_register_cycles: f64,
    /// Cycles from the end of a product to the end of the wait for it.
    pub product_latency: f64,
    /// Cycles of a scheduler's tensor core for a warp's product of 16 x 8 x 16 halves (`mma.sync`).
    pub warp_product_cycles: f64,
    /// Cycles of a tensor load beyond its bytes.
    pub copy_latency: f64,
    /// Bytes of tensor loads in a cycle.
    pub copy_bytes_per_cycle: f64,
    /// Least cycles of a row of such a box, however short.
    pub copy_row_cycles: f64,
    /// Bytes of tensor stores in a cycle while all multiprocessors store.
    pub store_bytes_per_cycle: f64,
    /// Bytes from the L2 in a cycle while all multiprocessors read.
    pub cache_bytes_per_cycle: f64,
    /// Bytes of device memory in a cycle for the whole device.
    pub memory_bytes_per_cycle: f64,
    /// Cycles until the L2 answers.
    pub cache_latency: f64,
    /// Cycles until device memory answers.
    pub memory_latency: f64,
    /// The same of loads and bulk copies beside others: until the last of some has come.
    pub memory_load_latency: f64,
    /// The same of tensor loads beside others, without the bytes of their box, whose rows lie far apart.
    pub memory_copy_latency: f64,
    /// Bytes of device memory in a cycle of multiprocessors that all have as many in flight as they can.
    pub memory_shared_rate: f64,
    /// Cycles of an update of a sector of global memory, one multiprocessor alone.
    pub update_cycles: f64,
    /// The same while all multiprocessors update.
    pub shared_update_cycles: f64,
    /// Cycles between two updates of 32 lanes at one line, whoever sends them.
    pub line_update_cycles: f64,
    /// Cycles between two updates of one word by integers, and by floats, whoever sends them.
    pub word_update_cycles: [f64; 2],
    /// So many multiprocessors, and the bytes from the L2 in a cycle for each of them while they read.
    pub cache_shares: [(u32, f64); 11],
}

/// Clocks of the multiprocessors, GHz. Power decides them, so they differ by what a kernel works on: they turn cycles
/// into time, and change no cycles.
///
/// ```text
///  GHz  top ────────╲            a launch of products: the less time its tensor cores work,
///                    ╲           the less power it takes, and the higher the clock
///  products ──────────╲
///            0    busy    1
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Clocks {
    /// The clock at which cycles that the profiler counts and times agree.
    pub nominal: f64,
    /// The highest clock.
    pub top: f64,
    /// Kernels that the tensor cores bound, all of them at work all the time.
    pub products: Clock,
    /// What such a clock rises by from tensor cores that are always at work to those that never are.
    pub relief: f64,
    /// All others; less where their tensor cores work too.
    pub memory: Clock,
}

impl Clocks {
    /// The clock of a launch that the tensor cores bound; `busy` is the share of its time in which they work, as a mean
    /// over all multiprocessors.
    pub fn of_products(&self, busy: f64) -> Clock {
        let at = |full: f64| (full + self.relief * (1.0 - busy)).min(self.top);
        Clock { burst: at(self.products.burst), sustained: at(self.products.sustained) }
    }
}

/// A clock by how long the chip has been at work.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Clock {
    /// Idle before, then a few milliseconds.
    pub burst: f64,
    /// Back to back, after a time to settle.
    pub sustained: f64,
}

impl Rates {
    /// Cycles of the copy engine for a large box of so many bytes in so many rows.
    pub fn copy(&self, bytes: f64, rows: f64) -> f64 {
        (bytes / self.copy_bytes_per_cycle).max(rows * self.copy_row_cycles)
    }

    /// Bytes from the L2 in a cycle for each of so many multiprocessors that read: on lines between those measured.
    pub fn cache_share(&self, multiprocessors: u32) -> f64 {
        let next = self.cache_shares.iter().position(|&(n, _)| n >= multiprocessors);
        let Some(next) = next else { return self.cache_bytes_per_cycle };
        let (end, after) = self.cache_shares[next];
        let (start, before) = self.cache_shares[next.saturating_sub(1)];
        let part = f64::from(multiprocessors.saturating_sub(start)) / f64::from(end - start).max(1.0);
        (before + part * (after - before)).max(self.cache_bytes_per_cycle)
    }

    /// Bytes from device memory in a cycle for each of so many multiprocessors that read.
    pub fn memory_share(&self, multiprocessors: u32) -> f64 {
        self.cache_share(multiprocessors).min(self.memory_shared_rate / f64::from(multiprocessors.max(1)))
    }

    /// Bytes from device memory in a cycle for each of so many multiprocessors that have so many bytes in flight in tensor
    /// loads: between `in_flight / latency` and what there is for each (docs/microbenchmarks.md, `memory`).
    pub fn memory_rate(&self, multiprocessors: u32, in_flight: f64) -> f64 {
        let (asked, given) = (in_flight / self.memory_copy_latency, self.memory_share(multiprocessors));
        given / (1.0 + (given / asked.max(1.0)).powi(3)).cbrt()
    }

    /// Cycles of each of so many multiprocessors, of all of them, for an update of a sector of global memory.
    pub fn update(&self, multiprocessors: u32, all: u32) -> f64 {
        let part = f64::from(multiprocessors) / f64::from(all.max(1));
        self.update_cycles.max(part * self.shared_update_cycles)
    }

    /// Cycles in which a line takes an update of a warp whose lanes meet at its words, so many at the one where most do.
    pub fn meeting(&self, lanes: u32, float: bool) -> f64 {
        let word = self.word_update_cycles[usize::from(float)];
        (f64::from(lanes) * word).max(self.line_update_cycles)
    }

    /// Tensor-core cycles of a warpgroup's product with `n` columns. `shared` says whether A is in shared memory or in
    /// registers.
    pub fn product(&self, n: u32, shared: bool) -> f64 {
        let n = f64::from(n);
        // 128 bytes a cycle for both operands.
        let least = if shared { self.product_shared_cycles + n / 4.0 } else { self.product_register_cycles };
        least.max(n / 2.0)
    }
}

/// Numbers that no microbenchmark measures. They are set by hand from whole kernels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimates {
    /// Cycles of a launch beyond those of its blocks: what the kernels of docs/microbenchmarks.md's table take beyond
    /// their walk, from 823 to 5610 where nothing else is missing.
    pub start_cycles: f64,
    /// The same of a launch that does nothing in a stream of launches (measured: 0.87 us for `launch.each_384_threads_200k`).
    pub streamed_start_cycles: f64,
    /// The part of the blocks' time that this grows by, up to [`Self::start_cycles`]. (Measured on an H100, products of 512 x 512
    /// with depths of 128 to 4096: 1,680 to 5,830 cycles beyond walks of 2,380 to 11,770.)
    pub streamed_start_growth: f64,
    /// The same of a launch that overlaps the one before (programmatic dependent launch) and loads before it waits for that.
    pub overlapped_start_cycles: f64,
    /// By how many cycles a launch that overlaps the one before begins earlier where it loads nothing before the wait.
    /// (Measured on an H100: 400 to 500 of chains, whatever their blocks and shared memory; of products of 512^3 to 1536^3
    /// 50 to 1,340, the median 650, and up to 1,440 slower where several blocks fit on a multiprocessor.)
    pub pdl_saved_cycles: f64,
    /// Least cycles of a multiprocessor for a line of 128 bytes from the L2, however little of it a load or a box's row wants, while
    /// all multiprocessors read. (Measured on an H100: `global.apart.l2` and `tma.load.*.offset*` of docs/microbenchmarks.md.)
    pub cache_line_cycles: f64,
    /// Neighbours in the grid that get a line at once which they copy at the same time. Of blocks that share their boxes two next
    /// to each other get 1.8 times as much, four and more 2.6 times, sixteen and more blocks apart nothing more
    /// (docs/microbenchmarks.md, `tma.load.*.sharers*`); of what products share with the next block
    /// a fourth counts (docs/lab-book/2026-11-28.md: 44 plans of 8192^3).
    pub neighbours: f64,
    /// Cycles from one block's start to the next one's, whatever multiprocessors they go to and however small they are.
    pub block_start_cycles: f64,
    /// Cycles that the blocks of a cluster begin later than blocks alone. (Measured on an H100, products of 2048^3 and 4096^3
    /// with and without clusters, persistent and not: 1800 to 2070 for each wave of clusters that is launched.)
    pub cluster_start_cycles: f64,
    /// How many times as long device memory takes for clusters whose blocks copy to each other. (Measured on an H100, products
    /// of 64 rows with and without: 1.19 to 1.24 for 124 to 132 blocks, 1.11 for 66; 1.22 to 1.31 on an H200.)
    pub multicast_slowdown: f64,
    /// Cycles in which a warp issues one instruction of a warpgroup's product (measured: about 100 for 8).
    pub product_issue_cycles: f64,
    /// Instructions with a fragment operand that can wait at the tensor cores while one runs.
    pub products_ahead: usize,
    /// Columns of an accumulator that a product of a warpgroup moves between registers and tensor cores in a cycle, in which no
    /// other instruction of the scheduler reads registers. (Measured on an H100: `turns.*.beside`.)
    pub accumulator_columns: f64,
    /// Cycles more for a left operand in registers.
    pub fragment_port_cycles: f64,
    /// Relative speed of the threads' work while the tensor cores run, as modulo scheduling takes it. (Measured on attention:
    /// 774 cycles of softmax take 988 beside 512 cycles of products, and 1397 if products never pause.)
    pub beside_products: f64,
    /// Least cycles of a store to shared memory, a block barrier and a load, for any number of bytes.
    pub meeting_cycles: f64,
    /// Multiply-adds of a multiprocessor in a cycle on 16-bit operands.
    pub product_rate: f64,
    /// Extra cycles for the stores of a 128 x 256 tile: deferred under the next tile, direct through shared memory, and
    /// by plain stores.
    pub epilogue_cycles: [f64; 3],
    /// Least cycles of a row of a tensor load while all multiprocessors load: the L2 answers so many requests, even for
    /// rows that several ask for. (Measured on two H100, not on the device of the other rates: 1.44 to 1.57 for rows of 128
    /// bytes that 8 or 16 blocks share.)
    pub cache_row_cycles: f64,
    /// Least cycles of the box of a tensor load, however small. (Measured on an H100: boxes of 8 and of 16 rows of 128 bytes,
    /// eight to a barrier. With a barrier for each box, whoever waits takes 63 cycles.)
    pub copy_box_cycles: f64,
    /// Bytes of boxes that lie outside the array, in a cycle, while all multiprocessors load such boxes; one alone loads them
    /// like others. (Measured on an H100, boxes of 128 rows of which 32, 64 and 127 are outside: 11.2 to 17.1; a
    /// convolution whose weights' boxes are half outside: 10.7.)
    pub outside_bytes_per_cycle: f64,
    /// Cycles more of the copy engine for a row of a box that the array's end cuts, on one multiprocessor, and twice as many where all
    /// load: the mean of boxes of 128 rows of 64 elements of 16 bits of which 8, 24, 40 and 56 are inside (0.8 to 1.8, and 0.9 to
    /// 3.6; docs/lab-book/2026-11-28.md).
    pub cut_row_cycles: f64,
    /// Slowdown for each 1000 rows and columns that a wave of tiles reads. The cause is power, not stalls.
    pub footprint_slowdown: f64,
    /// Slowdown of tiles with 128 columns against 256. Narrower instructions read the left operand more often.
    pub narrow_slowdown: f64,
    /// Slowdown of a ring of two stages.
    pub shallow_slowdown: f64,
    /// Slowdown if threads load the operands.
    pub thread_copy_slowdown: f64,
    /// Bytes of device memory for one multiprocessor in a cycle, in a kernel without products.
    pub plain_bytes_per_cycle: f64,
    /// Cycles until a load of such a kernel answers.
    pub plain_latency: f64,
}

impl Estimates {
    /// Cycles of a launch beyond those of its blocks, in a stream of such launches.
    pub fn streamed_start(&self, blocks: f64) -> f64 {
        (self.streamed_start_cycles + self.streamed_start_growth * blocks).min(self.start_cycles)
    }

    /// Cycles in which one product of a warpgroup with so many columns keeps other instructions from their registers.
    /// `shared` says whether A is in shared memory or in registers.
    pub fn product_port_cycles(&self, n: u32, shared: bool) -> f64 {
        f64::from(n) / self.accumulator_columns + if shared { 0.0 } else { self.fragment_port_cycles }
    }
}

/// A chip's implementation of one instruction.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The instruction.
    pub opcode: Opcode,
    /// PTX. `$d` is the result, `$0`, `$1` operands, `$i` `$j` immediates, `$c` the comparison, `$p` a
    /// parameter, `$v` a vector suffix, `$o` an offset. Several instructions are separated by `;`.
    /// If it is empty, `emit` writes the row by its attribute.
    pub syntax: &'static str,
    /// Which operands of the syntax may be literals, as bits.
    pub literals: u32,
    /// Unit.
    pub unit: Unit,
    /// Cycles until the result can be used, per warp.
    pub latency: u16,
    /// Cycles until the unit of one sub-partition accepts a warp's next instruction.
    pub interval: u16,
    /// The source of the cycles.
    pub source: Source,
    /// Least PTX ISA version, major * 10 + minor.
    pub ptx: u16,
    /// Opcode that its SASS must contain; empty if it has many forms.
    pub sass: &'static str,
}

/// Which operands of a syntax may be literals, as bits. Addresses and packed halves may not (tried row by row with the
/// assembler).
const fn literals(syntax: &str) -> u32 {
    let s = syntax.as_bytes();
    let (mut bits, mut i) = (0u32, 0);
    let mut addresses = 0u32;
    while i + 1 < s.len() {
        if s[i] == b'$' && s[i + 1].is_ascii_digit() {
            let bit = 1 << (s[i + 1] - b'0');
            bits |= bit;
            if i > 0 && s[i - 1] == b'[' {
                addresses |= bit;
            }
        }
        i += 1;
    }
    if is_packed(s) { 0 } else { bits & !addresses }
}

/// Whether the first word of a syntax ends in `f16x2`.
const fn is_packed(s: &[u8]) -> bool {
    let mut end = 0;
    while end < s.len() && s[end] != b' ' {
        end += 1;
    }
    let word = s.split_at(end).0;
    matches!(word, [.., b'f', b'1', b'6', b'x', b'2'])
}

/// The rows of a chip, indexed by opcode; `None`: the chip lacks the instruction.
pub type Rows = [Option<Row>; Opcode::COUNT];

/// How `setmaxnreg` divides the registers of a block between the warps that compute and the producer.
#[derive(Clone, Copy, Debug)]
pub struct RoleRegisters {
    /// Registers of a thread that computes, at most.
    pub computing: u32,
    /// Registers of a thread of the producer's warpgroup: for up to so many computing warps, so many.
    pub producer: &'static [(u32, u32)],
}

impl RoleRegisters {
    /// Registers of a thread of the producer's warpgroup beside this number of computing warps.
    pub fn of_producer(&self, warps: u32) -> u32 {
        let row = self.producer.iter().find(|(most, _)| warps <= *most);
        row.or(self.producer.last()).map_or(0, |r| r.1)
    }
}

/// Bytes of an instruction, from Volta on.
const INSTRUCTION_BYTES: u32 = 16;

/// All chips.
static CHIPS: [&Target; 2] = [&SM90A, &H100];

/// A chip.
#[derive(Clone, Debug)]
pub struct Target {
    /// Name, in small letters: `h200`.
    pub name: &'static str,
    /// Architecture: `.target`.
    pub arch: Arch,
    /// Threads of a block at most.
    pub block_threads: u32,
    /// Threads that a multiprocessor holds.
    pub resident_threads: u32,
    /// Blocks that a multiprocessor holds.
    pub resident_blocks: u32,
    /// Number of multiprocessors, assumed if the device is unknown.
    pub multiprocessors: u32,
    /// Cycles in a second under load.
    pub clock_hz: f64,
    /// Schedulers of a multiprocessor, each with a quarter of its registers.
    pub schedulers: u32,
    /// Dynamic shared memory of a block, bytes.
    pub shared_bytes: u32,
    /// Bytes of shared memory that the system reserves for every resident block.
    pub reserved_shared_bytes: u32,
    /// Bytes of a sector: the least that memory moves.
    pub sector_bytes: u32,
    /// Bytes of a cache line: what a cache looks up at once. Shared memory moves as many in a cycle.
    pub line_bytes: u32,
    /// Bytes that the L2 fetches at most for a tensor copy with shorter rows.
    pub l2_promotion: u32,
    /// Bytes of the L2 (NVIDIA H100 Tensor Core GPU Architecture, "H100 GPU Architecture In-Depth").
    pub l2_bytes: u32,
    /// 32-bit registers of a multiprocessor.
    pub registers: u32,
    /// Registers of a thread at most.
    pub thread_registers: u32,
    /// The chip allocates registers of a thread in multiples of this number.
    pub register_step: u32,
    /// Registers of a thread that the accumulator of one warpgroup product may take. The others hold addresses, counters
    /// and what is computed beside it.
    pub warpgroup_accumulator: u32,
    /// The same for a product of warps. The others hold two steps of fragments too.
    pub warp_accumulator: u32,
    /// Registers of a thread that an accumulator and a loaded left operand may take together.
    pub operand_registers: u32,
    /// Registers that `setmaxnreg` leaves a thread at least.
    pub least_registers: u32,
    /// How `setmaxnreg` divides registers between roles.
    pub role_registers: RoleRegisters,
    /// Bytes of a multiprocessor's instruction cache.
    pub instruction_cache_bytes: u32,
    /// Uniform 32-bit registers of a warp.
    pub uniform_registers: u32,
    /// Predicates of a thread.
    pub predicates: u32,
    /// Blocks of a cluster at most, portably.
    pub cluster: u32,
    /// Named barriers of a block.
    pub named_barriers: u32,
    /// Extent of a tensor-copy box at most.
    pub box_extent: u32,
    /// Least PTX version that `emit` writes, major * 10 + minor.
    pub least_ptx: u16,
    /// Its implementation of each instruction.
    pub rows: &'static Rows,
    /// Device and day of the measured cycles and rates.
    pub measured_on: &'static str,
    /// Measured rates of its units.
    pub rates: Rates,
    /// Numbers that no microbenchmark measures.
    pub estimates: Estimates,
    /// Clocks by the kind of work.
    pub clocks: Clocks,
}

impl Target {
    /// The chip of a name, such as `h100`.
    pub fn named(name: &str) -> Option<&'static Self> {
        CHIPS.into_iter().find(|chip| name.eq_ignore_ascii_case(chip.name))
    }

    /// The names of all chips.
    pub fn names() -> impl Iterator<Item = &'static str> {
        CHIPS.into_iter().map(|chip| chip.name)
    }

    /// The row of a chosen instruction. It does not check whether the architecture runs it.
    ///
    /// # Panics
    /// The table has no such row: the caller did not check with [`Target::require`].
    pub fn row(&self, op: Opcode) -> &'static Row {
        self.rows[op as usize].as_ref().unwrap_or_else(|| panic!("{}", self.lacks(op)))
    }

    /// The row of an instruction.
    ///
    /// # Errors
    /// The chip lacks the instruction.
    pub fn require(&self, op: Opcode) -> Result<&'static Row, Lacks> {
        match &self.rows[op as usize] {
            Some(row) if self.arch.runs(op.least()) => Ok(row),
            _ => Err(self.lacks(op)),
        }
    }

    fn lacks(&self, opcode: Opcode) -> Lacks {
        Lacks { opcode, target: self.arch }
    }

    /// Warps of a block at most.
    pub fn block_warps(&self) -> u32 {
        self.block_threads / 32
    }

    /// Its rows in the order of [`Opcode`].
    pub fn rows(&self) -> impl Iterator<Item = &'static Row> + Clone {
        self.rows.iter().flatten()
    }

    /// Cycles of the copy engine for a box of so many bytes in so many rows, while so many multiprocessors load.
    pub fn copy_beside(&self, bytes: f64, rows: f64, multiprocessors: u32) -> f64 {
        let part = f64::from(multiprocessors) / f64::from(self.multiprocessors.max(1));
        let least = self.estimates.copy_box_cycles.max(part * rows * self.estimates.cache_row_cycles);
        self.rates.copy(bytes, rows).max(least)
    }

    /// Lines that a row of a box touches as a mean, if rows begin at multiples of `begins` bytes, fewer than a line. Rows that begin
    /// within a sector take as long as twice their lines (measured on an H100: `tma.load.*.skew*` of docs/microbenchmarks.md).
    pub fn row_lines(&self, bytes: f64, begins: i64) -> f64 {
        let sector = i64::from(self.sector_bytes);
        let lines = 1.0 + (bytes - begins.max(sector) as f64) / f64::from(self.line_bytes);
        if begins < sector { 1.5 * lines } else { lines }
    }

    /// Cycles of the copy engine for a box that touches so many lines, whose rows do not begin where lines do, while so many
    /// multiprocessors load.
    pub fn lines_beside(&self, lines: f64, multiprocessors: u32) -> f64 {
        let part = f64::from(multiprocessors) / f64::from(self.multiprocessors.max(1));
        lines * (part * self.estimates.cache_line_cycles).max(self.rates.copy_row_cycles)
    }

    /// Cycles more for so many bytes of a box that lie outside the array, while so many multiprocessors load.
    pub fn zeros_beside(&self, bytes: f64, multiprocessors: u32) -> f64 {
        let part = f64::from(multiprocessors) / f64::from(self.multiprocessors.max(1));
        part * bytes / self.estimates.outside_bytes_per_cycle
    }

    /// Cycles more for so many rows of a box of which a part lies outside the array, while so many multiprocessors load.
    pub fn cut_beside(&self, rows: f64, multiprocessors: u32) -> f64 {
        let part = f64::from(multiprocessors) / f64::from(self.multiprocessors.max(1));
        rows * self.estimates.cut_row_cycles * (1.0 + part)
    }

    /// Bytes of shared memory of each block if `blocks` blocks share one multiprocessor.
    pub fn shared_of_resident(&self, blocks: u32) -> u32 {
        let all = self.shared_bytes + self.reserved_shared_bytes;
        (all / blocks.max(1)).saturating_sub(self.reserved_shared_bytes)
    }

    /// Registers of each thread at a block's entry: an equal share of each scheduler's registers, rounded down to
    /// steps.
    pub fn entry_registers(&self, threads: u32) -> u32 {
        let warps = threads.div_ceil(32).div_ceil(self.schedulers).max(1);
        let share = self.registers / (32 * self.schedulers) / warps;
        self.in_steps(share).min(self.most_registers())
    }

    /// Instructions that the instruction cache of a multiprocessor holds.
    pub fn cached_instructions(&self) -> u32 {
        self.instruction_cache_bytes / INSTRUCTION_BYTES
    }

    /// Registers of a thread at most, rounded down to steps.
    pub fn most_registers(&self) -> u32 {
        self.in_steps(self.thread_registers)
    }

    /// A number of registers, rounded down to a number that the chip allocates.
    pub fn in_steps(&self, registers: u32) -> u32 {
        registers / self.register_step * self.register_step
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// docs/lab-book/2026-11-26.md: 64 rows of 32 bytes take as many requests to the L2 as 64 of 128.
    #[test]
    fn short_rows_of_boxes_cost_requests() {
        let all = SM90A.multiprocessors;
        assert_eq!(SM90A.copy_beside(16384.0, 128.0, 1), SM90A.rates.copy(16384.0, 128.0));
        assert_eq!(SM90A.copy_beside(16384.0, 512.0, all), 768.0);
    }

    #[test]
    fn rows_stand_at_their_opcode() {
        for &op in Opcode::ALL {
            let row = SM90A.require(op).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(row.opcode, op);
        }
    }

    #[test]
    fn syntax_names_operands_that_exist() {
        for row in SM90A.rows() {
            let (op, syntax) = (row.opcode, row.syntax);
            let highest = (0..9).rev().find(|i| syntax.contains(&format!("${i}")));
            assert!(highest.map_or(0, |i| i + 1) <= op.args().len(), "{}: {syntax}", op.name());
            let gives = !op.results().is_empty() && !syntax.is_empty();
            assert_eq!(syntax.contains("$d"), gives, "{}", op.name());
        }
    }

    #[test]
    fn literals_stand_neither_in_addresses_nor_in_packed_halves() {
        let of = |op| SM90A.row(op).literals;
        assert_eq!([of(Opcode::MadS32), of(Opcode::StGlobal), of(Opcode::LdShared)], [0b111, 0b10, 0]);
        assert_eq!([of(Opcode::FmaF16x2), of(Opcode::AddBf16x2), of(Opcode::LowE4m3)], [0, 0, 1]);
        assert_eq!(of(Opcode::Wgmma), 0);
    }

    #[test]
    fn what_a_target_lacks_is_refused_by_name() {
        let older = Target { arch: Arch::new("sm_80"), ..SM90A };
        let refused = |op| older.require(op).map(|r| r.opcode).map_err(|e| e.to_string());
        assert_eq!(refused(Opcode::Wgmma), Err("`wgmma` needs sm_90a: the target is sm_80".to_owned()));
        assert_eq!(refused(Opcode::TmaLoad), Err("`tma.load` needs sm_90: the target is sm_80".to_owned()));
        assert_eq!(refused(Opcode::CpAsync), Ok(Opcode::CpAsync));
    }

    #[test]
    fn entry_registers_follow_the_measured_caps() {
        assert_eq!(SM90A.entry_registers(384), 168);
        assert_eq!(SM90A.entry_registers(544), 96);
        assert_eq!(SM90A.entry_registers(128), 248);
    }
}
