//! Passes from program to program. Each pass gives the same program, but faster.
//!
//! ```text
//!  before the schedule     epilogue_roles ─ hoist_loads ─ merge_waits ─ dedup_mma ─ share_rings ─ operand_rings ─ share_scratch
//!  of overlapped loops     bounds_masks
//!  of each expanded role   cse ─ dce
//! ```

mod bounds_masks;
mod buffers;
mod cse;
mod dce;
mod dedup_mma;
mod epilogue_roles;
mod handoff;
mod hoist_loads;
mod merge_waits;
mod operand_rings;
mod share_rings;
mod share_scratch;
mod transpose_helper_mma;

pub use bounds_masks::do_bounds_masks;
pub use cse::do_cse as do_value_numbering;
pub use dce::do_dce as do_dead_code;
pub use dedup_mma::do_dedup_mma;
pub(crate) use epilogue_roles::array_of;
pub use epilogue_roles::do_epilogue_roles;
pub use hoist_loads::do_hoist_loads;
pub use merge_waits::do_merge_waits;
pub use operand_rings::do_operand_rings;
pub use share_rings::do_share_rings;
pub use share_scratch::do_share_scratch;
