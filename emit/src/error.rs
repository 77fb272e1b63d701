//! Errors of emission. All but [`EmitError::Lacks`] are bugs of earlier stages.

use warplift_ir::machine::Inst;
use warplift_ir::target::Lacks;

/// Why a program could not be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EmitError {
    /// An instruction that the target does not have.
    #[error("role `{role}`, {inst}: {lacks}")]
    Lacks {
        /// Role.
        role: String,
        /// Instruction.
        inst: Inst,
        /// Instruction and target.
        lacks: Lacks,
    },
    /// A row that scheduling should have expanded.
    #[error("role `{role}`, {inst}: `{row}` has no PTX, it should not be left after scheduling")]
    Unscheduled {
        /// Role.
        role: String,
        /// Instruction.
        inst: Inst,
        /// Name of the row.
        row: &'static str,
    },
    /// An instruction whose attribute is not of the kind that its row needs.
    #[error("role `{role}`, {inst}: `{row}` lacks its attribute ({needs})")]
    Attribute {
        /// Role.
        role: String,
        /// Instruction.
        inst: Inst,
        /// Name of the row.
        row: &'static str,
        /// The required attribute.
        needs: &'static str,
    },
    /// Allocation gave no register where the text needs one, or too few.
    #[error("role `{role}`, {inst}: `{row}` has no register for operand {operand}, register {register}")]
    Register {
        /// Role.
        role: String,
        /// Instruction.
        inst: Inst,
        /// Name of the row.
        row: &'static str,
        /// Number of the operand; results follow operands, the guard follows results.
        operand: usize,
        /// Number of the register inside it.
        register: usize,
    },
    /// A parameter that the entry lacks, or whose type PTX parameters cannot have.
    #[error("parameter {number} (`{name}`) of the entry: {what}")]
    Parameter {
        /// Number.
        number: u32,
        /// Name of its argument, if it has one.
        name: String,
        /// The mistake.
        what: &'static str,
    },
    /// The numbers of roles and allocations differ.
    #[error("{roles} roles, but {allocations} allocations")]
    Roles {
        /// Roles.
        roles: usize,
        /// Allocations.
        allocations: usize,
    },
}
