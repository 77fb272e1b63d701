//! Errors between Warplift and the driver.

use super::library::LibraryMissing;

/// A failure of the driver, or of finding it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CudaError {
    /// `libcuda.so.1` could not be opened.
    #[error("no CUDA driver on this machine: {0}")]
    NoDriver(#[from] LibraryMissing),
    /// The driver is too old: it lacks a function.
    #[error("the CUDA driver has no function `{0}`; a driver of CUDA 12.4 or newer is needed")]
    OldDriver(&'static str),
    /// The driver is there, but no GPU.
    #[error("the CUDA driver is present but reports no device")]
    NoDevice,
    /// There are fewer GPUs than the ordinal asks for.
    #[error("device {ordinal} asked for, but there are {count}")]
    NoSuchDevice {
        /// Asked for, from 0.
        ordinal: u32,
        /// Devices present.
        count: u32,
    },
    /// The code was compiled for another architecture.
    #[error(
        "the kernel is compiled for {target}, which needs compute capability {needed}; \
         {device} has {}.{}", found.0, found.1
    )]
    WrongCapability {
        /// Target of the kernel, `sm_90a`.
        target: String,
        /// The requirement of that target, in words.
        needed: String,
        /// Name of the device.
        device: String,
        /// Its compute capability.
        found: (u32, u32),
    },
    /// A call failed.
    #[error("{function} failed with {name} ({code}): {text}")]
    Call {
        /// Driver function.
        function: &'static str,
        /// `CUresult`.
        code: u32,
        /// Its name, from `cuGetErrorName`.
        name: String,
        /// Its description, from `cuGetErrorString`.
        text: String,
    },
    /// A module could not be loaded; the log is the JIT compiler's.
    #[error("the module could not be loaded: {error}{}{log}", if log.is_empty() { "" } else { "\n" })]
    Module {
        /// The failed call.
        error: Box<CudaError>,
        /// Messages of the driver's PTX compiler; empty for a cubin.
        log: String,
    },
    /// The bytes are neither a cubin nor PTX text.
    #[error("the module is neither a cubin (ELF) nor PTX text: it begins with {0:02x?}")]
    NotAModule(Vec<u8>),
    /// A name with a zero byte inside.
    #[error("`{0}` contains a zero byte")]
    ZeroByte(String),
    /// A copy whose sides differ in length, or leave the buffer.
    #[error("copy of {bytes} bytes at offset {offset} of a buffer of {capacity} bytes")]
    CopyBounds {
        /// First byte.
        offset: u64,
        /// Bytes to copy.
        bytes: u64,
        /// Bytes of the buffer.
        capacity: u64,
    },
}
