//! Which blocks belong to which role.

use super::flow::Flow;
use super::instruction::Instruction;
use std::collections::BTreeSet;

/// Warps that run the same part of the code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Role {
    /// `producer` holds bulk loads (and what its helpers multiply), `consumer` products; `all` where roles do not differ; beside a producer and without
    /// products the first of the others is `consumer`, the second `epilogue`; else `other`.
    pub name: &'static str,
    /// Registers that its `USETMAXREG` asks for.
    pub set: Option<u32>,
    /// Its blocks.
    pub blocks: BTreeSet<usize>,
}

/// The roles of a kernel in the order of the listing. What stands before the roles part belongs to none.
pub fn roles(flow: &Flow) -> Vec<Role> {
    let live = flow.reachable(0);
    let starts: Vec<(usize, Option<u32>)> =
        live.iter().filter_map(|&b| registers_set(flow, b).map(|set| (b, set))).collect();
    let mut roles: Vec<Role> = Vec::new();
    for (start, set) in starts {
        let blocks = flow.reachable(start);
        // A second change of registers within a role does not start another.
        if !roles.iter().any(|r| r.blocks.contains(&start)) {
            roles.push(Role { name: name(flow, &blocks), set, blocks });
        }
    }
    if roles.is_empty() {
        roles.push(Role { name: "all", set: None, blocks: live });
    }
    name_others(&mut roles);
    roles
}

/// Without products, what stands beside a producer is told apart by its order alone.
fn name_others(roles: &mut [Role]) {
    let has = |name: &str| roles.iter().any(|r| r.name == name);
    if has("producer") && !has("consumer") {
        let others = roles.iter_mut().filter(|r| r.name == "other");
        others.zip(["consumer", "epilogue"]).for_each(|(role, name)| role.name = name);
    }
}

/// Whether a block changes the registers of its warps, and to what count.
fn registers_set(flow: &Flow, block: usize) -> Option<Option<u32>> {
    let i = flow.of(block).iter().find(|i| i.name() == "USETMAXREG")?;
    let count = i.operands.last().and_then(|o| o.strip_prefix("0x"));
    Some(count.and_then(|c| u32::from_str_radix(c, 16).ok()))
}

fn name(flow: &Flow, blocks: &BTreeSet<usize>) -> &'static str {
    let holds = |is: fn(&Instruction) -> bool| blocks.iter().any(|b| flow.of(*b).iter().any(is));
    match (holds(|i| i.name() == "UTMALDG"), holds(Instruction::is_product)) {
        (true, _) => "producer",
        (false, true) => "consumer",
        (false, false) => "other",
    }
}
