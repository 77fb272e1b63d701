//! Golden files, SASS checks, and the proof that the simulator's hazards catch mistakes.

pub mod library;
pub mod mutation;
