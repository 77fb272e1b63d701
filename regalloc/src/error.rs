//! What does not fit.

/// Why registers could not be given.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegallocError {
    /// More registers are needed than the role has.
    #[error("role `{role}` has {limit} registers, needs {needed}")]
    Budget {
        /// Role.
        role: String,
        /// Registers it has.
        limit: u32,
        /// Registers it needs.
        needed: u32,
    },
}
