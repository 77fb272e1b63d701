//! Contenders: the subjects of a measurement.

use super::cublas_library::CublasError;
use warplift::cuda::{CudaError, LaunchError, Prepared, Stream};

/// Why a measurement failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum BenchError {
    /// A driver call.
    #[error(transparent)]
    Cuda(#[from] CudaError),
    /// A launch.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// cuBLASLt.
    #[error(transparent)]
    Cublas(#[from] CublasError),
    /// A contender takes no measurable time, because it launches nothing.
    #[error("`{0}` takes no time that can be measured; is its grid empty?")]
    NoTime(String),
}

/// Something that enqueues one unit of work, to be timed.
pub trait Contender {
    /// Name in tables.
    fn name(&self) -> &str;

    /// Enqueues one launch on the buffers of a rotation. Rotations count up; the contender wraps them around. The
    /// launch must be capturable into a graph: no allocation, no synchronization.
    ///
    /// # Errors
    /// The launch fails.
    fn enqueue(&self, stream: &Stream, rotation: usize) -> Result<(), BenchError>;
}

/// A kernel of ours, prepared once per set of buffers.
pub struct KernelContender {
    name: String,
    sets: Vec<Prepared>,
}

impl KernelContender {
    /// One prepared launch per set of rotating buffers.
    pub fn new(name: impl Into<String>, sets: Vec<Prepared>) -> Self {
        Self { name: name.into(), sets }
    }
}

impl Contender for KernelContender {
    fn name(&self) -> &str {
        &self.name
    }

    fn enqueue(&self, stream: &Stream, rotation: usize) -> Result<(), BenchError> {
        match rotation.checked_rem(self.sets.len()) {
            Some(set) => Ok(self.sets[set].launch(stream)?),
            None => Err(BenchError::NoTime(self.name.clone())),
        }
    }
}

/// Sets of buffers to rotate among: together at least three times the cache, at least 2, at most
/// 64, and no more than fit into `free` bytes with room to spare.
pub fn rotations(set_bytes: u64, l2: u64, free: u64) -> usize {
    let set = set_bytes.max(1);
    let wanted = (3 * l2).div_ceil(set).clamp(2, 64);
    let fitting = (free / 4 * 3 / set).max(1);
    wanted.min(fitting) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rotations_exceed_the_cache_and_fit_the_memory() {
        let (l2, free) = (60 << 20, 140 << 30);
        assert_eq!(rotations(400 << 20, l2, free), 2);
        assert_eq!(rotations(30 << 20, l2, free), 6);
        assert_eq!(rotations(0, l2, free), 64);
        assert_eq!(rotations(100 << 30, l2, free), 1);
    }
}
