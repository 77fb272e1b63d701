//! Instructions and chips.
//!
//! ```text
//!  Opcode   what an instruction is: name, operands, results, effect, least architecture   the same on every chip
//!  Target   one chip:  rows       what it makes of each instruction: unit, cycles, PTX, SASS
//!                      limits     threads, registers, shared memory, barriers
//!                      rates      what its units do beyond single rows, measured
//!                      estimates  what no microbenchmark tells, by hand
//! ```
//!
//! Every stage takes a `&Target`: no number of a chip stands anywhere else. [`SM90A`] is the only target yet; a second
//! one is a second table. A target without an instruction refuses it by name: [`Lacks`].

mod arch;
mod opcode;
mod sm90a;
mod sm90a_cycles;

pub use arch::{Arch, Lacks};
pub use opcode::Opcode;
pub use sm90a::SM90A;

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

/// Whether, and how, an instruction touches memory or shared state; what keeps it in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Pure: may be cloned, merged, moved, dropped.
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

/// Where a row's cycles are from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// The architecture's usual figures.
    ByHand,
    /// One of latency and interval was measured, the other is by hand.
    Partly,
    /// Both were measured, on the device and day of [`Target::measured_on`].
    Measured,
}

/// Cycles of a row as the microbenchmarks found them.
#[derive(Clone, Copy, Debug)]
struct Measured {
    opcode: Opcode,
    latency: Option<u16>,
    interval: Option<u16>,
}

/// What units beyond single rows were measured to do; of one multiprocessor where nothing else is said.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// Least cycles of a warpgroup's product with A in shared memory, without the n/4 of B.
    pub product_shared_cycles: f64,
    /// Least cycles of one with A in registers.
    pub product_register_cycles: f64,
    /// Cycles from the end of a product to that of the wait for it.
    pub product_latency: f64,
    /// Cycles of a tensor load beyond its bytes.
    pub copy_latency: f64,
    /// Bytes of tensor loads in a cycle.
    pub copy_bytes_per_cycle: f64,
    /// Bytes of tensor stores in a cycle, all multiprocessors storing.
    pub store_bytes_per_cycle: f64,
    /// Bytes from the L2 in a cycle, all multiprocessors reading.
    pub cache_bytes_per_cycle: f64,
    /// Bytes of device memory in a cycle, the whole device.
    pub memory_bytes_per_cycle: f64,
    /// Cycles until device memory answers.
    pub memory_latency: f64,
}

impl Rates {
    /// Cycles of the tensor cores for a warpgroup's product of so many columns, with A in shared memory or in
    /// registers.
    pub fn product(&self, n: u32, shared: bool) -> f64 {
        let n = f64::from(n);
        // 128 bytes a cycle for both operands.
        let least = if shared { self.product_shared_cycles + n / 4.0 } else { self.product_register_cycles };
        least.max(n / 2.0)
    }
}

/// What no microbenchmark tells: set by hand from whole kernels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimates {
    /// Cycles before a block's first and after its last instruction.
    pub start_cycles: f64,
    /// Cycles of a warp to issue one instruction of a warpgroup's product (measured: 8 in about 100).
    pub product_issue_cycles: f64,
    /// Instructions with a fragment that wait at the tensor cores while one runs.
    pub products_ahead: usize,
    /// Speed of threads' work while the tensor cores run, of the speed it has alone (measured on attention: 774
    /// cycles of softmax take 988 beside 512 cycles of products, 1397 where products never pause).
    pub beside_products: f64,
    /// Cycles that a store to shared memory, the meeting of a block and a load take at least, whatever they move.
    pub meeting_cycles: f64,
    /// Multiply-adds of a multiprocessor in a cycle, 16-bit operands.
    pub product_rate: f64,
    /// Cycles that storing a tile of 128 x 256 adds: spread under the next tile, at once through shared memory, by
    /// plain stores.
    pub epilogue_cycles: [f64; 3],
    /// Slowdown for each 1000 rows and columns that a wave of tiles reads: power, not stalls.
    pub footprint_slowdown: f64,
    /// Slowdown of tiles of 128 columns against 256: narrower instructions read the left operand more often.
    pub narrow_slowdown: f64,
    /// Slowdown of a ring of two stages.
    pub shallow_slowdown: f64,
    /// Slowdown of operands that threads load.
    pub thread_copy_slowdown: f64,
    /// Bytes of device memory for one multiprocessor in a cycle, of a kernel without products.
    pub plain_bytes_per_cycle: f64,
    /// Cycles until a load of such a kernel answers.
    pub plain_latency: f64,
}

/// What a chip makes of one instruction.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The instruction.
    pub opcode: Opcode,
    /// PTX. `$d` is the result, `$0`, `$1` operands, `$i` `$j` immediates, `$c` the comparison, `$p` a
    /// parameter, `$v` a vector suffix, `$o` an offset. Several instructions are separated by `;`.
    /// Empty: `emit` writes the row by its attribute.
    pub syntax: &'static str,
    /// Which operands of the syntax may be literals, as bits.
    pub literals: u32,
    /// Unit.
    pub unit: Unit,
    /// Cycles until the result can be used, per warp.
    pub latency: u16,
    /// Cycles until the unit of one SM sub-partition takes the next one of a warp.
    pub interval: u16,
    /// Where the cycles are from.
    pub source: Source,
    /// Least PTX ISA version, major * 10 + minor.
    pub ptx: u16,
    /// Opcode that its SASS must show; empty where it may take many forms.
    pub sass: &'static str,
}

/// Which operands of a syntax may be literals, as bits: all but addresses and packed halves (tried, row by row, with
/// the assembler).
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

/// The rows of a chip, at the number of their opcode; `None`: it has no such instruction.
pub type Rows = [Option<Row>; Opcode::COUNT];

/// A chip.
#[derive(Clone, Debug)]
pub struct Target {
    /// Architecture: `.target`.
    pub arch: Arch,
    /// Threads of a block at most.
    pub block_threads: u32,
    /// Threads that a multiprocessor holds.
    pub resident_threads: u32,
    /// Blocks that a multiprocessor holds.
    pub resident_blocks: u32,
    /// Multiprocessors assumed where the device is unknown.
    pub multiprocessors: u32,
    /// Cycles in a second under load.
    pub clock_hz: f64,
    /// Schedulers of a multiprocessor, each with a quarter of its registers.
    pub schedulers: u32,
    /// Dynamic shared memory of a block, bytes.
    pub shared_bytes: u32,
    /// Bytes of shared memory that every resident block takes beyond its own.
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
    /// Registers are handed out in multiples of this many a thread.
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
    /// Least version of PTX that is written, major * 10 + minor.
    pub least_ptx: u16,
    /// What it makes of each instruction.
    pub rows: &'static Rows,
    /// Device and day of the measured cycles and rates.
    pub measured_on: &'static str,
    /// What its units do beyond single rows.
    pub rates: Rates,
    /// What no microbenchmark tells.
    pub estimates: Estimates,
}

impl Target {
    /// What its table says of an instruction that was chosen, whether or not its architecture runs it.
    ///
    /// # Panics
    /// The table has no row of it: who chose it did not ask [`Target::require`].
    pub fn row(&self, op: Opcode) -> &'static Row {
        self.rows[op as usize].as_ref().unwrap_or_else(|| panic!("{}", self.lacks(op)))
    }

    /// What it makes of an instruction.
    ///
    /// # Errors
    /// It lacks the instruction.
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

    /// The rows that it has, in the order of [`Opcode`].
    pub fn rows(&self) -> impl Iterator<Item = &'static Row> + Clone {
        self.rows.iter().flatten()
    }

    /// Shared memory of each of so many blocks on one multiprocessor, bytes.
    pub fn shared_of_resident(&self, blocks: u32) -> u32 {
        let all = self.shared_bytes + self.reserved_shared_bytes;
        (all / blocks.max(1)).saturating_sub(self.reserved_shared_bytes)
    }

    /// Registers of each thread at a block's entry: an equal share of each scheduler's part, in steps.
    pub fn entry_registers(&self, threads: u32) -> u32 {
        let warps = threads.div_ceil(32).div_ceil(self.schedulers).max(1);
        let share = self.registers / (32 * self.schedulers) / warps;
        self.in_steps(share).min(self.most_registers())
    }

    /// Registers of a thread at most, in steps.
    pub fn most_registers(&self) -> u32 {
        self.in_steps(self.thread_registers)
    }

    /// So many registers, or the next count below that the chip hands out.
    pub fn in_steps(&self, registers: u32) -> u32 {
        registers / self.register_step * self.register_step
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
