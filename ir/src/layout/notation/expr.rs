//! Expressions: named fragments, every notation, and operations on them.
