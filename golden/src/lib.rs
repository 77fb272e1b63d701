//! Golden files, SASS checks, and the proof that the simulator's hazards catch mistakes.

pub mod check;
pub mod fuzz;
pub mod kernels;
pub mod library;
pub mod mutation;
pub mod sass;
