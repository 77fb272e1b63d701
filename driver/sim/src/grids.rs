//! Grids that this one depends on: what a thread may touch before its `griddepcontrol.wait`.
//!
//! ```text
//!  the grid before      ..may write anything..│ended, its writes performed
//!  a thread of this one    reads of `early`   │griddepcontrol.wait   all else
//! ```
//!
//! A grid that waits, or that its manifest launches programmatically, may run beside the one before it. Before a
//! thread's own wait it may only read, and only what nobody is said to write meanwhile; that another thread's wait
//! stands on the way is not enough. An asynchronous operation belongs to the moment of its issue.
//! Source: PTX ISA, "Parallel synchronization and communication instructions: griddepcontrol".

use super::access::Blame;
use super::exec::Flow;
use super::hazard::HazardKind;
use super::machine::{Found, Machine, Stop};

impl Machine<'_> {
    /// `griddepcontrol.wait`: the grids before are simulated as ended, so it only tells.
    pub fn grid_wait(&mut self, w: usize, mask: u32) -> Flow {
        self.warps[w].waited |= mask;
        Flow::Next
    }

    /// Checks that a thread, which has waited or not, may touch global memory.
    pub fn after_grids(&mut self, b: Blame, address: u64, waited: u32, write: bool) -> Result<(), Stop> {
        let has_waited = waited.checked_shr(b.lane.into()).unwrap_or(waited) & 1 == 1;
        let Some(grids) = self.launch.grids.as_ref().filter(|_| !has_waited) else {
            return Ok(());
        };
        if grids.allows(address, write) {
            return Ok(());
        }
        let verb = if write { "write" } else { "read" };
        let what = format!(
            "{verb} of global memory by a thread that has not waited for the grids before this one \
             (griddepcontrol.wait)"
        );
        let found = Found::new(HazardKind::GridDependency, b.warp, b.pc, what);
        let found = Found { other: grids.wait, ..found };
        self.hazard(found.lane(u32::from(b.lane)).at(address))
    }
}
