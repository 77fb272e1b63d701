//! The live maximum of each role: how many general registers hold a value at once.
//!
//! ```text
//!  nvdisasm -c ────────► roles, by their blocks ─┐
//!  nvdisasm -c -plr ───► live by address ────────┴─► the largest of each role, and where
//! ```
//!
//! Life ranges at a call are those of every caller of the function (a slow path of a division, say), so that a call
//! shows registers of other roles. Calls are left out.

use super::flow::Flow;
use super::instruction::{SassError, parse};
use super::roles::roles;
use std::collections::BTreeMap;
use warplift::toolchain::LiveRegisters;

/// The live maximum of a role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleLive {
    /// Its name, see [`super::Role::name`].
    pub name: &'static str,
    /// General registers that hold a value at once.
    pub general: u32,
    /// Uniform ones, at most.
    pub uniform: u32,
    /// The instruction where `general` are live.
    pub text: String,
}

/// The live maximum of each role in the order of the listing. `rows`: the life ranges of the same code.
///
/// # Errors
/// The text is no listing, or jumps to where it cannot be followed.
pub fn live(listing: &str, rows: &[LiveRegisters]) -> Result<Vec<RoleLive>, SassError> {
    let flow = Flow::new(parse(listing)?)?;
    let rows: BTreeMap<u32, &LiveRegisters> = rows.iter().map(|r| (r.address, r)).collect();
    let of_role = |role: &super::Role| {
        let code = role.blocks.iter().flat_map(|b| flow.of(*b)).filter(|i| i.name() != "CALL");
        let rows: Vec<&LiveRegisters> = code.filter_map(|i| rows.get(&i.address).copied()).collect();
        // Of equals the first one.
        let most = rows.iter().rev().max_by_key(|r| r.general);
        RoleLive {
            name: role.name,
            general: most.map_or(0, |r| r.general),
            uniform: rows.iter().map(|r| r.uniform).max().unwrap_or(0),
            text: most.map_or_else(String::new, |r| r.text.clone()),
        }
    };
    Ok(roles(&flow).iter().map(of_role).collect())
}
