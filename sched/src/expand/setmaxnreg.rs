//! Divides the registers between roles by their needs.
//!
//! ```text
//!  at entry           96 each of 640 threads
//!  producer           32  ◄─ setmaxnreg.dec
//!  consumers          40  ◄─ setmaxnreg.dec     they need 35  ┐ the rest is divided evenly,
//!  epilogue warps    184  ◄─ setmaxnreg.inc     they need 180 ┘ in steps of 8
//! ```
//!
//! Computing roles get the same number, if that is enough for each of them. If not, a role gets the registers that the
//! others can spare; if that is too little, also those that the producer can spare.
//!
//! Nothing is divided where several blocks fit beside each other and no role of them needs more than an equal share:
//! a launch whose roles divide registers holds all registers of a multiprocessor, so that its other blocks wait. Blocks with a
//! producer that need no division are held to an equal share too: ptxas takes what nothing holds it to.
//!
//! ```text
//!  384 threads, 64 KB: 168 registers at entry, 232 + 40 after setmaxnreg     1 block, of which a role needs 41
//!                       56 registers                                         3 blocks
//! ```

use crate::analysis::{WARPGROUP, budgets};
use warplift_ir::machine::{Attr, Func, Scheduled};
use warplift_ir::target::{Opcode, Target};

/// Registers left to ptxas, which hoists work out of unrolled bodies. With 3 it serialized products, with 10 it
/// spilled, with 11 it did neither (measured on a16w4).
pub const LEFT_TO_PTXAS: u32 = 11;

/// Registers that ptxas wants beside the accumulators of one `wgmma`: 26 with its left operand in shared memory, for 8 to 120
/// columns (C7602 names the number), and 4 for a left operand in registers; in steps of 8.
const BESIDE_ACCUMULATORS: u32 = 32;

/// Divides the registers between the roles that use `setmaxnreg`. Returns whether there are enough. `needed`: registers
/// by role.
pub fn do_setmaxnreg(s: &mut Scheduled<'_>, needed: &[u32], target: &Target) -> bool {
    let divides = divides_registers(s);
    if (divides || has_copiers(s))
        && let Some(blocks) = beside(s, needed, target)
    {
        share_equally(s, blocks, target);
        return true;
    }
    if !divides {
        return true;
    }
    let (computing, copying): (Vec<usize>, Vec<usize>) =
        (0..s.roles.len()).partition(|&n| s.roles[n].copiers == 0);
    let of = |roles: &[usize]| roles.iter().map(|&n| needed[n]).collect::<Vec<u32>>();
    let warps = computing.iter().map(|&n| s.roles[n].warps).sum();
    let Some((given, low)) = divided(warps, &of(&computing), &of(&copying), target) else { return false };
    let entry = target.entry_registers(s.threads);
    let all = computing.into_iter().zip(given).chain(copying.into_iter().map(|n| (n, low)));
    for (role, registers) in all {
        s.roles[role].registers = registers;
        set(&mut s.roles[role].func, registers, entry);
    }
    true
}

/// Whether roles divide the registers that their block has at entry. It then holds an equal share of the
/// multiprocessor's.
pub fn divides_registers(s: &Scheduled<'_>) -> bool {
    let divides = |func: &Func<'_>| {
        let mut insts = func.order.iter().flat_map(|&b| &func.blocks[b].insts);
        insts.any(|&i| asks(func.insts[i].op))
    };
    s.roles.iter().any(|r| divides(&r.func))
}

/// Whether some role only copies. What its block is chosen for, others of its kind beside it, then depends on what ptxas takes:
/// with nothing to hold it, it took 150 registers where 94 were needed, and one block ran where two were counted on.
fn has_copiers(s: &Scheduled<'_>) -> bool {
    s.roles.iter().any(|role| role.copiers > 0)
}

/// Whether ptxas takes the share that its threads have of so many blocks beside each other: with the products of warpgroups it
/// does. With those of warps it takes fewer than are allocated here (54 of 68, 42 of 56).
pub fn takes_its_share(s: &Scheduled<'_>) -> bool {
    let multiplies = |func: &Func<'_>| func.insts.values().any(|d| d.op == Opcode::Wgmma);
    has_copiers(s) && s.roles.iter().any(|role| multiplies(&role.func))
}

/// The most blocks that a multiprocessor holds beside each other with an equal share for all threads, if more than one
/// does. A persistent kernel has no further blocks.
fn beside(s: &Scheduled<'_>, needed: &[u32], target: &Target) -> Option<u32> {
    if s.launch.grid.iter().any(|extent| extent.names("sm_count")) {
        return None;
    }
    let least = s.roles.iter().map(|r| least_of_products(&r.func)).max().unwrap_or_default();
    let most = needed.iter().max().map_or(0, |n| n + LEFT_TO_PTXAS).max(least);
    let fits = |&blocks: &u32| {
        let threads = blocks * s.threads;
        threads <= target.resident_threads
            && s.shared.bytes <= target.shared_of_resident(blocks)
            && most <= target.entry_registers(threads)
    };
    (2..=target.resident_blocks).take_while(fits).last()
}

/// The least registers with which ptxas takes the products of a role.
fn least_of_products(func: &Func<'_>) -> u32 {
    let columns = func.insts.values().filter_map(|d| match &d.attr {
        Attr::Wgmma(w) => Some(u32::from(w.n)),
        _ => None,
    });
    columns.max().map_or(0, |n| n / 2 + BESIDE_ACCUMULATORS)
}

/// Gives all threads of so many blocks the same number of registers, from the launch on.
fn share_equally(s: &mut Scheduled<'_>, blocks: u32, target: &Target) {
    s.launch.resident = blocks;
    let registers = target.entry_registers(blocks * s.threads);
    for role in &mut s.roles {
        role.registers = registers;
        for block in role.func.order.clone() {
            role.func.retain(block, |func, inst| !asks(func.insts[inst].op));
        }
    }
}

/// Registers of each computing role and of the producer's warpgroup; `None` if there are too few. All computing roles
/// have the same number of warps.
fn divided(warps: u32, computing: &[u32], copying: &[u32], target: &Target) -> Option<(Vec<u32>, u32)> {
    let (high, low, _) = budgets(warps, true, target);
    let copies = copying.iter().copied().max().unwrap_or_default();
    if copies > low {
        return None;
    }
    if computing.iter().all(|&n| n <= high) {
        return Some((vec![high; computing.len()], low));
    }
    let roles = computing.len() as u32;
    let (threads, own) = (32 * (warps + WARPGROUP), 32 * warps / roles);
    let least = copies.next_multiple_of(target.register_step).max(target.least_registers);
    let left = target.entry_registers(threads) * threads - 32 * WARPGROUP * least;
    [(roles * high, low), (target.in_steps(left / own), least)]
        .into_iter()
        .find_map(|(all, low)| shares(all, computing, target).map(|given| (given, low)))
}

/// Divides `all` registers in steps. Each role gets at least its need; the rest goes to the roles with the smallest
/// surplus.
fn shares(all: u32, needed: &[u32], target: &Target) -> Option<Vec<u32>> {
    let (step, most) = (target.register_step, target.most_registers());
    let least = |&n: &u32| n.next_multiple_of(step).max(target.least_registers);
    let mut given: Vec<u32> = needed.iter().map(least).collect();
    let mut left = all.checked_sub(given.iter().sum())?;
    while left >= step {
        let more = (0..given.len()).filter(|&n| given[n] + step <= most);
        let Some(next) = more.min_by_key(|&n| given[n] - needed[n]) else { break };
        given[next] += step;
        left -= step;
    }
    given.iter().all(|&g| g <= most).then_some(given)
}

fn asks(op: Opcode) -> bool {
    matches!(op, Opcode::SetmaxnregInc | Opcode::SetmaxnregDec)
}

/// Writes a role's number of registers into its `setmaxnreg`.
fn set(func: &mut Func<'_>, registers: u32, entry: u32) {
    for d in func.insts.values_mut().filter(|d| asks(d.op)) {
        d.op = if registers > entry { Opcode::SetmaxnregInc } else { Opcode::SetmaxnregDec };
        d.attr = Attr::Imm(registers.into());
    }
}

#[cfg(test)]
mod tests {
    use warplift_ir::target::SM90A;

    #[test]
    fn both_have_what_they_need() {
        let shares = |all, needed: [u32; 2]| super::shares(all, &needed, &SM90A);
        assert_eq!(shares(224, [35, 180]), Some(vec![40, 184]));
        assert_eq!(shares(224, [39, 180]), Some(vec![40, 184]));
        assert_eq!(shares(224, [41, 180]), None);
        assert_eq!(shares(224, [20, 100]), Some(vec![72, 152]));
        assert_eq!(shares(400, [20, 100]), Some(vec![160, 240]));
        assert_eq!(shares(480, [10, 230]), Some(vec![232, 248]));
    }

    #[test]
    fn a_role_gets_more_only_where_it_needs_more() {
        let divided = |computing: &[u32], copying| super::divided(8, computing, &[copying], &SM90A);
        // Two warpgroups beside a producer: in one role, and in two.
        assert_eq!(divided(&[200], 20), Some((vec![232], 40)));
        assert_eq!(divided(&[200, 230], 20), Some((vec![232, 232], 40)));
        assert_eq!(divided(&[200, 240], 20), Some((vec![216, 248], 40)));
        // The producer gives up the registers that it does not need.
        assert_eq!(divided(&[236], 20), Some((vec![240], 24)));
        assert_eq!(divided(&[236, 236], 24), Some((vec![240, 240], 24)));
        assert_eq!(divided(&[236], 30), None);
        assert_eq!(divided(&[100], 41), None);
    }
}
