//! Warplift: the library's front door.
