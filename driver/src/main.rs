//! The `warplift` binary.
fn main() {}
