//! Registers of consumers and epilogue warps, by what each needs, where hoisted loads take registers of the epilogue warps.
//!
//! ```text
//!  at entry     96 each of 640 threads
//!  producer     32  ◄─ setmaxnreg.dec
//!  consumers    40  ◄─ setmaxnreg.dec     they need 35 ┐ as many left over on both sides,
//!  epilogue warps   184  ◄─ setmaxnreg.inc     they need 180┘ in steps of 8
//! ```
//!
//! Expansion allows each role the most that the other can spare. Kernels without hoisted loads give both the same number.

use crate::analysis::budgets;
use warplift_ir::machine::{Attr, Func, Role, RoleKind, Scheduled};
use warplift_ir::target::{Opcode, Target};

/// Gives roles that share out their registers as many as they need, and of the rest the same; whether there are enough.
/// `needed`: by role.
pub fn do_setmaxnreg(s: &mut Scheduled<'_>, needed: &[u32], target: &Target) -> bool {
    let Some([consumer, epilogue]) = halves(&s.roles) else { return true };
    let warps = s.roles[consumer].warps + s.roles[epilogue].warps;
    let (high, ..) = budgets(warps, true, target);
    if s.roles[epilogue].registers == high {
        return true;
    }
    let Some(given) = shares(2 * high, [needed[consumer], needed[epilogue]], target) else { return false };
    let entry = target.entry_registers(s.threads);
    for (role, registers) in [consumer, epilogue].into_iter().zip(given) {
        s.roles[role].registers = registers;
        set(&mut s.roles[role].func, registers, entry);
    }
    true
}

/// Numbers of the roles that have a half of a tile's work each.
fn halves(roles: &[Role<'_>]) -> Option<[usize; 2]> {
    let of = |kind: RoleKind| roles.iter().position(|r| r.name == kind.name());
    Some([of(RoleKind::Consumer)?, of(RoleKind::Epilogue)?])
}

/// What each gets of so many in all: in steps, not less than it needs, and as equally above as that goes.
fn shares(all: u32, [a, b]: [u32; 2], target: &Target) -> Option<[u32; 2]> {
    let (least, most) = (target.least_registers, target.most_registers());
    let fits = |&first: &u32| first >= a && all - first >= b && all - first <= most;
    let steps = (least..=most.min(all)).step_by(target.register_step as usize).filter(fits);
    steps.min_by_key(|&first| (first - a).abs_diff(all - first - b)).map(|first| [first, all - first])
}

/// Writes a role's number of registers to where it asks for it.
fn set(func: &mut Func<'_>, registers: u32, entry: u32) {
    let asks = |op: Opcode| matches!(op, Opcode::SetmaxnregInc | Opcode::SetmaxnregDec);
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
        let shares = |all, needed| super::shares(all, needed, &SM90A);
        assert_eq!(shares(224, [35, 180]), Some([40, 184]));
        assert_eq!(shares(224, [39, 180]), Some([40, 184]));
        assert_eq!(shares(224, [41, 180]), None);
        assert_eq!(shares(224, [20, 100]), Some([72, 152]));
        assert_eq!(shares(400, [20, 100]), Some([160, 240]));
        assert_eq!(shares(480, [10, 230]), Some([232, 248]));
    }
}
