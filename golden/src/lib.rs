//! Golden files, SASS checks, and the proof that the simulator's hazards catch mistakes.

pub mod check;

pub mod library;
pub mod mutation;
pub mod sass;
