//! Tables over the values of a function, which have their room from the start.

use warplift_ir::entity::SecondaryMap;
use warplift_ir::machine::{Func, Value};

/// A table with room for all values of a function.
pub(crate) fn per_value<T: Clone + Default>(func: &Func<'_>) -> SecondaryMap<Value, T> {
    let mut table = SecondaryMap::new();
    table.resize(func.values.len());
    table
}
