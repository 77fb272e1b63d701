//! How threads bring an operand that tensor copies cannot bring, for those who choose a mapping.
//!
//! ```text
//!  a: align 16, rows of k % 8 elements     tensor copies
//!  a: align 4, rows of k % 2               cp.async, 2 elements of 16 bits at a time
//!  no facts                                loads and stores of one element, which is in a register on its way
//! ```

use crate::feature::Ways;
use crate::plan::cp_async_bytes;
use crate::tensor_copies::load_refused;
use crate::vector::vector_elements;
use warplift_ir::tile::{Inst, Kernel};

/// How threads bring an operand that tensor copies cannot bring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadLoads {
    /// Elements that one access brings.
    pub elements: u32,
    /// Whether they pass through registers; else `cp.async` brings them.
    pub through_registers: bool,
}

/// How threads bring the operand that a load makes, in a loop with a producer; `None` if tensor copies can.
pub fn thread_loads(k: &Kernel, load: Inst) -> Option<ThreadLoads> {
    load_refused(k, load, Ways::without(&[]))?;
    let elements = vector_elements(k, load, k.result(load));
    Some(ThreadLoads { elements, through_registers: cp_async_bytes(k, load).is_none() })
}
