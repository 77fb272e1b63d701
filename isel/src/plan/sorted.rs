//! The text of hash maps: entries in the order of their keys, so that equal plans have equal texts.
//!
//! ```text
//!  {%7: a, %2: b}   ─►   %2 = b, %7 = a
//! ```

use rustc_hash::FxHashMap;
use serde::{Serialize, Serializer};

/// Writes a map in the order of its keys.
pub(super) fn sorted<K: Ord + Serialize, V: Serialize, S: Serializer>(
    map: &FxHashMap<K, V>,
    s: S,
) -> Result<S::Ok, S::Error> {
    s.collect_map(map.iter().collect::<std::collections::BTreeMap<_, _>>())
}
