//! The CUDA driver, found at run time, and the launcher on top of it.
//!
//! ```text
//!  libcuda.so.1 ─dlopen─► api ─► Device ─► Module ─► Function ─┐
//!                                  ├─► Buffer, Stream, Event   ├─► Kernel ─► Prepared ─► launch
//!                                  └─► Graph        manifest ──┘     (arguments, tensor maps)
//! ```
//!
//! Nothing here links against CUDA: a machine without a driver builds and runs everything that
//! needs no GPU and gets [`CudaError::NoDriver`] from [`Device::open`]. The functions are declared
//! by Warplift and return `u32`: the enums of `cuda-driver-sys` lack the codes of today's drivers, and an unlisted code
//! would be undefined behaviour. Only its handle types are used.
//!
//! Decisions that need no device ([`arguments`], [`tensor_map`]) are separate from the calls. A refused launch is
//! refused, and tested, without a GPU.

mod api;
pub mod arguments;
#[cfg(feature = "bundle")]
mod bundle;
mod device;
mod error;
pub mod launch;
pub mod library;
mod memory;
mod module;
mod stream;
pub mod tensor_map;

pub use arguments::{Arg, LaunchError};
#[cfg(feature = "bundle")]
pub use bundle::LoadedBundle;
pub use device::{Device, DeviceInfo};
pub use error::CudaError;
pub use launch::{Kernel, Prepared};
pub use memory::Buffer;
pub use module::{Function, LaunchConfig, Module};
pub use stream::{Event, Graph, Stream};

/// What tests of several modules share.
#[cfg(test)]
pub(crate) mod tests_support {
    use super::DeviceInfo;

    /// An H200, as the driver describes it.
    pub(crate) fn h200() -> DeviceInfo {
        serde_json::from_str(include_str!("testdata/h200.json")).expect("the fields of a device")
    }
}
