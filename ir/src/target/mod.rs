//! The opcode table of a target, data that every stage reads.
//!
//! A row: operand and result types, unit, latency and issue interval, PTX syntax with its least ISA
//! version, the SASS it must become. `sm_90a` is the only target yet; a second one is a second table.

mod sm90a;
mod sm90a_cycles;

use serde::{Deserialize, Serialize};
pub use sm90a::{Opcode, ROWS};
pub use sm90a_cycles::{MEASURED, MEASURED_ON, RATES};

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
    /// Both were measured, on the device and day of [`MEASURED_ON`].
    Measured,
}

/// Cycles of a row as the microbenchmarks found them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// Row.
    pub opcode: Opcode,
    /// Its latency, if that was measured.
    pub latency: Option<u16>,
    /// Its interval, if that was measured.
    pub interval: Option<u16>,
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
    /// Cycles before a block's first and after its last instruction, by hand.
    pub start_cycles: f64,
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

/// One row.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Its opcode.
    pub opcode: Opcode,
    /// Name in dumps.
    pub name: &'static str,
    /// PTX. `$d` is the result, `$0`, `$1` operands, `$i` `$j` immediates, `$c` the comparison, `$p` a
    /// parameter, `$v` a vector suffix, `$o` an offset. Several instructions are separated by `;`.
    /// Empty: `emit` writes the row by its attribute.
    pub syntax: &'static str,
    /// Operand classes.
    pub args: &'static [Class],
    /// Result classes.
    pub results: &'static [Class],
    /// Unit.
    pub unit: Unit,
    /// Effect.
    pub effect: Effect,
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

impl Opcode {
    /// Its row.
    pub fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }

    /// Whether it is a copy into shared memory that completes on a barrier.
    pub fn is_async_load(self) -> bool {
        matches!(self, Self::TmaLoad | Self::BulkLoad)
    }

    /// Whether it may be cloned, merged, moved and dropped.
    pub fn is_pure(self) -> bool {
        self.row().effect == Effect::Pure
    }
}

/// A chip: what its limits are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// `.target`.
    pub name: &'static str,
    /// Dynamic shared memory of a block, bytes.
    pub shared_bytes: u32,
    /// 32-bit registers of a multiprocessor.
    pub registers: u32,
    /// Registers of a thread at most.
    pub thread_registers: u32,
    /// Blocks of a cluster at most, portably.
    pub cluster: u32,
    /// Multiprocessors assumed where the device is unknown.
    pub multiprocessors: u32,
    /// Extent of a tensor-copy box at most.
    pub box_extent: u32,
    /// Bytes of the L2 (NVIDIA H100 Tensor Core GPU Architecture, "H100 GPU Architecture In-Depth").
    pub l2_bytes: u32,
}

/// Bytes that every resident block takes beyond its own (CUDA C++ Programming Guide, "Compute Capability 9.0").
const RESERVED_BYTES: u32 = 1024;

impl Target {
    /// Shared memory of each of so many blocks on one multiprocessor, bytes.
    pub fn shared_of_resident(&self, blocks: u32) -> u32 {
        ((self.shared_bytes + RESERVED_BYTES) / blocks.max(1)).saturating_sub(RESERVED_BYTES)
    }
}

/// H100 and H200.
pub const SM90A: Target = Target {
    name: "sm_90a",
    shared_bytes: 232_448,
    registers: 65_536,
    thread_registers: 255,
    cluster: 8,
    multiprocessors: 132,
    box_extent: 256,
    l2_bytes: 50 << 20,
};

impl Target {
    /// Registers of each thread at a block's entry: an equal share of each scheduler's quarter,
    /// rounded down to 8.
    pub fn entry_registers(&self, threads: u32) -> u32 {
        let rows = threads.div_ceil(32).div_ceil(4).max(1);
        (self.registers / 128 / rows / 8 * 8).min(self.thread_registers / 8 * 8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_at_their_opcode() {
        for (i, row) in ROWS.iter().enumerate() {
            assert_eq!(row.opcode as usize, i, "{}", row.name);
        }
    }

    #[test]
    fn syntax_names_operands_that_exist() {
        for row in ROWS {
            let highest = (0..9).rev().find(|i| row.syntax.contains(&format!("${i}")));
            let named = highest.map_or(0, |i| i + 1);
            assert!(named <= row.args.len(), "{}: {}", row.name, row.syntax);
            assert_eq!(
                row.syntax.contains("$d"),
                !row.results.is_empty() && !row.syntax.is_empty(),
                "{}",
                row.name
            );
        }
    }

    #[test]
    fn entry_registers_follow_the_measured_caps() {
        assert_eq!(SM90A.entry_registers(384), 168);
        assert_eq!(SM90A.entry_registers(544), 96);
        assert_eq!(SM90A.entry_registers(128), 248);
    }
}
