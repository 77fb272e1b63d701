//! Violations: patterns that assembled code must never have, whatever the golden files say.
//!
//! ```text
//!  manifest (roles, tensor maps) ─┐
//!  ptxas (spills, warnings) ──────┼─► violations
//!  SASS summary ──────────────────┘
//! ```

use crate::sass::{RoleSummary, Summary, WARPGROUP_PRODUCTS};
use warplift::ir::manifest::{Manifest, Param, RoleInfo};
use warplift::ir::target::SM90A;
use warplift::toolchain::Assembled;

/// Rows of the opcode table that the assembler translates one by one. It peels the first iteration of small copy loops
/// in spite of the pragma, so a copy may stand twice. No other row may.
const ONE_BY_ONE: &[(&str, &str)] = &[
    ("wgmma.mma_async", PRODUCT),
    ("mma.sync.aligned", "HMMA"),
    ("ldmatrix.sync", "LDSM"),
    ("stmatrix.sync", "STSM"),
    (".shared.global [", "LDGSTS"),
    ("cp.async.commit_group", "LDGDEPBAR"),
    ("d.shared::cluster.global", "UTMALDG"),
    ("bulk.shared::cluster.global", "UBLKCP"),
    (".global.shared::cta", "UTMASTG"),
];

/// Stands for all products of warpgroups.
const PRODUCT: &str = "HGMMA";

/// Those of [`ONE_BY_ONE`] that a producer's loop is made of.
const COPIES: &[&str] = &["UTMALDG", "UBLKCP"];

/// A message of ptxas that is known and accepted.
#[derive(Clone, Copy, Debug)]
pub struct Accepted {
    /// Kernel; never a GEMM.
    pub kernel: &'static str,
    /// Message number, `C7519`.
    pub code: &'static str,
    /// The wgmma group that it is about, and why it stays.
    pub reason: &'static str,
}

/// The accepted messages about the library's kernels.
pub const ACCEPTED: &[Accepted] = &[];

/// A violation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// ptxas spilled.
    #[error("ptxas spills {stores} bytes of stores and {loads} bytes of loads, stack {stack}")]
    Spill {
        /// Bytes stored.
        stores: u32,
        /// Bytes loaded.
        loads: u32,
        /// Bytes of the stack frame.
        stack: u32,
    },
    /// Loads or stores of local memory.
    #[error("{place}: {count} accesses of local memory")]
    Local {
        /// Role, or `setup`.
        place: &'static str,
        /// STL and LDL.
        count: u32,
    },
    /// A message of ptxas without an accepted reason.
    #[error("ptxas says {code}: {text}")]
    Warning {
        /// Its number.
        code: String,
        /// Its text.
        text: String,
    },
    /// A message of a GEMM is in the list of accepted ones.
    #[error("{code} of {kernel} cannot be accepted: a GEMM has none")]
    AcceptedGemm {
        /// Kernel.
        kernel: &'static str,
        /// Its number.
        code: &'static str,
    },
    /// A required instruction is missing.
    #[error("no {opcode}, though {why}")]
    Missing {
        /// Opcode.
        opcode: &'static str,
        /// The reason why it is required.
        why: &'static str,
    },
    /// The assembler made another number of instructions of a row that it should translate one by one.
    #[error("{ptx} `{row}` of the PTX became {sass} {opcode}")]
    Count {
        /// PTX, as far as it names the row.
        row: &'static str,
        /// How many there are.
        ptx: u32,
        /// Opcode.
        opcode: &'static str,
        /// How many there are.
        sass: u32,
    },
    /// A copy of an accumulator in a product loop.
    #[error("role {role}: `{text}` copies an accumulator in a loop of products")]
    AccumulatorCopy {
        /// Role.
        role: &'static str,
        /// Instruction.
        text: String,
    },
    /// The manifest's roles and those of the code differ.
    #[error("the manifest has role {role}, the code has {found}")]
    Roles {
        /// Role of the manifest.
        role: String,
        /// Roles of the code.
        found: String,
    },
    /// `setmaxnreg` asks for another count than the manifest.
    #[error("role {role}: setmaxnreg asks for {set}, the manifest says {budget}")]
    Budget {
        /// Role.
        role: String,
        /// Of the code.
        set: u32,
        /// Of the manifest.
        budget: u32,
    },
    /// A role uses more registers than it has.
    #[error("role {role}: {used} registers of {budget}")]
    OverBudget {
        /// Role.
        role: String,
        /// Highest number plus 1.
        used: u32,
        /// Its budget.
        budget: u32,
    },
    /// The roles together want more registers than the block was given at launch.
    #[error("the roles' budgets take {wanted} registers, the block has {pool}")]
    Pool {
        /// Sum over the roles.
        wanted: u32,
        /// Registers of the block.
        pool: u32,
    },
}

/// The data of one kernel.
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'a> {
    /// Name.
    pub kernel: &'a str,
    /// Whether its tile IR has a product.
    pub product: bool,
    /// Its PTX.
    pub ptx: &'a str,
    /// Its manifest.
    pub manifest: &'a Manifest,
    /// The output of ptxas.
    pub assembled: &'a Assembled,
    /// Its SASS.
    pub sass: &'a Summary,
}

impl Evidence<'_> {
    /// All violations; `accepted` lists the messages of ptxas that have a reason.
    pub fn violations(&self, accepted: &[Accepted]) -> Vec<Violation> {
        let mut found = self.spills();
        found.extend(self.warnings(accepted));
        found.extend(self.missing());
        found.extend(self.counts());
        found.extend(self.copies());
        found.extend(self.manifest.roles.iter().flat_map(|r| self.budget(r)));
        found.extend(self.pool());
        found
    }

    fn spills(&self) -> Vec<Violation> {
        let ((stores, loads), stack) = (self.assembled.spills, self.assembled.stack);
        let spilled = (stores + loads + stack > 0).then_some(Violation::Spill { stores, loads, stack });
        let places = self.sass.roles.iter().map(|r| (r.name, r.counts.spills()));
        let places = places.chain([("setup", self.sass.setup.spills())]).filter(|(_, count)| *count > 0);
        let local = places.map(|(place, count)| Violation::Local { place, count });
        spilled.into_iter().chain(local).collect()
    }

    fn warnings(&self, accepted: &[Accepted]) -> Vec<Violation> {
        let gemm = |name: &str| name.starts_with("gemm");
        let has_reason = |code: &str| {
            let fits = |a: &&Accepted| a.kernel == self.kernel && a.code == code && !a.reason.is_empty();
            !gemm(self.kernel) && accepted.iter().any(|a| fits(&a))
        };
        let new = self.assembled.warnings.iter().filter(|w| !has_reason(&w.code));
        let new = new.map(|w| Violation::Warning { code: w.code.clone(), text: w.text.clone() });
        let wrong = accepted.iter().filter(|a| gemm(a.kernel));
        let wrong = wrong.map(|a| Violation::AcceptedGemm { kernel: a.kernel, code: a.code });
        new.chain(wrong).collect()
    }

    fn missing(&self) -> Vec<Violation> {
        let needed = [
            (self.product && self.sass.count("HMMA") == 0, PRODUCT, "the kernel has a product"),
            (self.has_map(false), "UTMALDG", "the manifest has a tensor map of an operand"),
            (self.has_map(true), "UTMASTG", "the manifest has a tensor map of a result"),
        ];
        let missing = needed.iter().filter(|(needed, opcode, _)| *needed && self.count(opcode) == 0);
        missing.map(|(_, opcode, why)| Violation::Missing { opcode, why }).collect()
    }

    fn count(&self, opcode: &str) -> u32 {
        let alike = if opcode == PRODUCT { WARPGROUP_PRODUCTS } else { &[opcode][..] };
        alike.iter().map(|o| self.sass.count(o)).sum()
    }

    fn counts(&self) -> Vec<Violation> {
        let wrong = |&(row, opcode): &(&'static str, &'static str)| {
            let (ptx, sass) = (self.ptx.matches(row).count() as u32, self.count(opcode));
            let most = if COPIES.contains(&opcode) { 2 * ptx } else { ptx };
            (!(ptx..=most).contains(&sass)).then_some(Violation::Count { row, ptx, opcode, sass })
        };
        ONE_BY_ONE.iter().filter_map(wrong).collect()
    }

    /// Whether a tensor map describes an array that is only read, or one that is written.
    fn has_map(&self, written: bool) -> bool {
        let is = |name: &str| self.manifest.arguments.iter().any(|a| a.name == name && a.written == written);
        self.manifest.params.iter().any(|p| matches!(p, Param::TensorMap(map) if is(&map.base)))
    }

    fn copies(&self) -> Vec<Violation> {
        let of_role = |role: &RoleSummary| {
            let loops = role.loops.iter().filter(|l| l.multiplies);
            let copies = loops.flat_map(|l| l.copies.iter().cloned());
            copies.map(|text| Violation::AccumulatorCopy { role: role.name, text }).collect::<Vec<_>>()
        };
        // Helpers, who multiply beside a producer, have the time.
        self.sass.roles.iter().filter(|r| r.name != "producer").flat_map(of_role).collect()
    }

    /// Every role of the code under the manifest's name for it; a code without roles is all of them.
    fn budget(&self, role: &RoleInfo) -> Vec<Violation> {
        let whole = self.sass.roles.iter().any(|r| r.name == "all");
        let own: Vec<&RoleSummary> =
            self.sass.roles.iter().filter(|r| whole || role.name.starts_with(r.name)).collect();
        if own.is_empty() {
            let found = self.sass.roles.iter().map(|r| r.name).collect::<Vec<_>>().join(", ");
            return vec![Violation::Roles { role: role.name.clone(), found }];
        }
        own.into_iter().flat_map(|r| limits(role, r)).collect()
    }

    fn pool(&self) -> Option<Violation> {
        let wanted: u32 = self.manifest.roles.iter().map(|r| r.warps[1] * 32 * r.registers).sum();
        let changed = self.sass.roles.iter().any(|r| r.set.is_some());
        let given = self.assembled.registers * self.manifest.block;
        let all = SM90A.registers;
        let pool = if changed { given.min(all) } else { all };
        (wanted > pool).then_some(Violation::Pool { wanted, pool })
    }
}

/// The registers that a role asks for and uses, against its budget.
fn limits(role: &RoleInfo, code: &RoleSummary) -> Vec<Violation> {
    let (budget, used) = (role.registers, code.registers);
    let set = code.set.filter(|set| *set != budget);
    let set = set.map(|set| Violation::Budget { role: role.name.clone(), set, budget });
    let over = (used > budget).then(|| Violation::OverBudget { role: role.name.clone(), used, budget });
    set.into_iter().chain(over).collect()
}

#[cfg(test)]
mod tests;
