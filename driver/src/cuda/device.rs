//! A GPU and its primary context.
//!
//! The primary context is the one that PyTorch and cuBLAS use too, so pointers and streams can be
//! shared with them. It is made current before each call, which costs nanoseconds and lets a
//! [`Device`] be used from any thread.

use super::api::{Api, call};
use super::error::CudaError;
use cuda_driver_sys::{CUcontext, CUdevice};
use serde::{Deserialize, Serialize};
use std::ffi::c_char;
use std::sync::Arc;

/// An opened GPU; clones share it.
#[derive(Clone)]
pub struct Device(Arc<Inner>);

struct Inner {
    api: &'static Api,
    device: CUdevice,
    context: CUcontext,
    info: DeviceInfo,
}

// SAFETY: the driver API is thread-safe, and the context is bound to the thread before each use.
unsafe impl Send for Inner {}
// SAFETY: as above; nothing in `Inner` changes after it is made.
unsafe impl Sync for Inner {}

/// What a device is. Sizes in bytes, clocks in kHz as the driver states them (maximum).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceInfo {
    /// Ordinal, from 0.
    pub ordinal: u32,
    /// Name, `NVIDIA H200`.
    pub name: String,
    /// PCI bus identifier, `0000:1b:00.0`.
    pub pci: String,
    /// Compute capability, major and minor.
    pub capability: (u32, u32),
    /// Streaming multiprocessors.
    pub sm_count: u32,
    /// Highest clock of the multiprocessors, kHz.
    pub clock_khz: u32,
    /// Highest clock of the memory, kHz.
    pub memory_clock_khz: u32,
    /// Width of the memory bus in bits.
    pub memory_bus_bits: u32,
    /// Device memory.
    pub memory: u64,
    /// Second-level cache.
    pub l2: u64,
    /// Shared memory that one block may take after opting in.
    pub shared_per_block: u32,
    /// Registers of one multiprocessor.
    pub registers_per_sm: u32,
    /// CUDA version that the driver supports, 13000 for 13.0.
    pub driver: u32,
}

/// `CUdevice_attribute` numbers of `cuda.h`.
mod attribute {
    pub const CLOCK_RATE: u32 = 13;
    pub const MULTIPROCESSOR_COUNT: u32 = 16;
    pub const MEMORY_CLOCK_RATE: u32 = 36;
    pub const GLOBAL_MEMORY_BUS_WIDTH: u32 = 37;
    pub const L2_CACHE_SIZE: u32 = 38;
    pub const CAPABILITY_MAJOR: u32 = 75;
    pub const CAPABILITY_MINOR: u32 = 76;
    pub const REGISTERS_PER_MULTIPROCESSOR: u32 = 82;
    pub const SHARED_PER_BLOCK_OPTIN: u32 = 97;
}

impl Device {
    /// Opens a device by ordinal, from 0, and retains its primary context.
    ///
    /// # Errors
    /// No driver, no such device, or a failed call.
    pub fn open(ordinal: u32) -> Result<Self, CudaError> {
        let api = Api::get()?;
        let count = Self::count()?;
        if count == 0 {
            return Err(CudaError::NoDevice);
        }
        let index = i32::try_from(ordinal).ok().filter(|_| ordinal < count);
        let index = index.ok_or(CudaError::NoSuchDevice { ordinal, count })?;
        let mut device: CUdevice = 0;
        call!(api.cuDeviceGet(&mut device, index))?;
        let info = read_info(api, device, ordinal)?;
        let mut context: CUcontext = std::ptr::null_mut();
        call!(api.cuDevicePrimaryCtxRetain(&mut context, device))?;
        let inner = Inner { api, device, context, info };
        Ok(Self(Arc::new(inner)))
    }

    /// Devices that the driver shows.
    ///
    /// # Errors
    /// No driver, or a failed call.
    pub fn count() -> Result<u32, CudaError> {
        let api = Api::get()?;
        let mut count = 0;
        call!(api.cuDeviceGetCount(&mut count))?;
        Ok(u32::try_from(count).unwrap_or(0))
    }

    /// What the device is.
    pub fn info(&self) -> &DeviceInfo {
        &self.0.info
    }

    /// Free and total device memory in bytes, at this moment.
    ///
    /// # Errors
    /// A failed call.
    pub fn memory(&self) -> Result<(u64, u64), CudaError> {
        let api = self.bind()?;
        let (mut free, mut total) = (0usize, 0usize);
        call!(api.cuMemGetInfo_v2(&mut free, &mut total))?;
        Ok((free as u64, total as u64))
    }

    /// Waits for all work of the context.
    ///
    /// # Errors
    /// A failed call, which may belong to an earlier launch.
    pub fn synchronize(&self) -> Result<(), CudaError> {
        let api = self.bind()?;
        call!(api.cuCtxSynchronize())
    }

    /// Refuses code for another architecture: `sm_90a` runs on capability 9.0 alone, `sm_90` on
    /// 9.0 and later minor versions of the same major one.
    ///
    /// # Errors
    /// [`CudaError::WrongCapability`].
    pub fn require(&self, target: &str) -> Result<(), CudaError> {
        require(target, &self.0.info)
    }

    /// Makes the context current on this thread, for calls of other libraries (cuBLAS).
    ///
    /// # Errors
    /// The driver refuses.
    pub fn make_current(&self) -> Result<(), CudaError> {
        self.bind().map(|_| ())
    }

    /// Makes the context current on this thread.
    pub(crate) fn bind(&self) -> Result<&'static Api, CudaError> {
        let api = self.0.api;
        call!(api.cuCtxSetCurrent(self.0.context))?;
        Ok(api)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let api = self.api;
        // Nothing can be done about a failure while dropping.
        let _ = call!(api.cuDevicePrimaryCtxRelease_v2(self.device));
    }
}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Device").field(&self.0.info).finish()
    }
}

fn read_info(api: &Api, device: CUdevice, ordinal: u32) -> Result<DeviceInfo, CudaError> {
    let get = |attribute: u32| -> Result<u32, CudaError> {
        let mut value = 0;
        call!(api.cuDeviceGetAttribute(&mut value, attribute, device))?;
        Ok(u32::try_from(value).unwrap_or(0))
    };
    let mut memory = 0usize;
    call!(api.cuDeviceTotalMem_v2(&mut memory, device))?;
    let mut driver = 0;
    call!(api.cuDriverGetVersion(&mut driver))?;
    let name = text(|buffer, length| call!(api.cuDeviceGetName(buffer, length, device)))?;
    let pci = text(|buffer, length| call!(api.cuDeviceGetPCIBusId(buffer, length, device)))?;
    let capability = (get(attribute::CAPABILITY_MAJOR)?, get(attribute::CAPABILITY_MINOR)?);
    Ok(DeviceInfo {
        ordinal,
        name,
        pci,
        capability,
        sm_count: get(attribute::MULTIPROCESSOR_COUNT)?,
        clock_khz: get(attribute::CLOCK_RATE)?,
        memory_clock_khz: get(attribute::MEMORY_CLOCK_RATE)?,
        memory_bus_bits: get(attribute::GLOBAL_MEMORY_BUS_WIDTH)?,
        memory: memory as u64,
        l2: u64::from(get(attribute::L2_CACHE_SIZE)?),
        shared_per_block: get(attribute::SHARED_PER_BLOCK_OPTIN)?,
        registers_per_sm: get(attribute::REGISTERS_PER_MULTIPROCESSOR)?,
        driver: u32::try_from(driver).unwrap_or(0),
    })
}

/// Reads a C string that a function writes into a buffer of the given length.
fn text(write: impl Fn(*mut c_char, i32) -> Result<(), CudaError>) -> Result<String, CudaError> {
    let mut buffer = [0u8; 256];
    write(buffer.as_mut_ptr().cast(), 255)?;
    let end = buffer.iter().position(|&b| b == 0).unwrap_or(buffer.len());
    Ok(String::from_utf8_lossy(&buffer[..end]).into_owned())
}

fn require(target: &str, info: &DeviceInfo) -> Result<(), CudaError> {
    let (number, exact) = split_target(target);
    let (major, minor) = (number / 10, number % 10);
    let (has_major, has_minor) = info.capability;
    let fits = has_major == major && (has_minor == minor || (!exact && has_minor > minor));
    if fits {
        return Ok(());
    }
    let word = if exact { "exactly" } else { "at least" };
    Err(CudaError::WrongCapability {
        target: target.to_owned(),
        needed: format!("{word} {major}.{minor}"),
        device: info.name.clone(),
        found: info.capability,
    })
}

/// `sm_90a` into 90 and whether it is bound to that one architecture.
fn split_target(target: &str) -> (u32, bool) {
    let digits = target.trim_start_matches("sm_");
    let exact = digits.ends_with(|c: char| c.is_ascii_alphabetic());
    let digits = digits.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    (digits.parse().unwrap_or(u32::MAX), exact)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::tests_support::h200;

    #[test]
    fn architecture_targets_are_exact() {
        let card = h200();
        assert!(require("sm_90a", &card).is_ok());
        assert!(require("sm_90", &card).is_ok());
        let later = DeviceInfo { capability: (9, 1), ..card.clone() };
        assert!(require("sm_90", &later).is_ok());
        let message = require("sm_90a", &later).unwrap_err().to_string();
        assert!(message.contains("exactly 9.0") && message.contains("has 9.1"), "{message}");
        assert!(require("sm_100a", &card).is_err());
        assert!(require("nonsense", &card).is_err());
    }

    #[test]
    fn without_a_driver_the_error_says_so() {
        match Device::open(0) {
            Ok(device) => assert!(device.info().sm_count > 0),
            Err(CudaError::NoDriver(missing)) => {
                assert!(missing.tried.iter().any(|(name, _)| name == "libcuda.so.1"));
            }
            Err(other) => assert!(!other.to_string().is_empty()),
        }
    }

    #[test]
    fn an_ordinal_beyond_the_devices_is_refused() {
        let error = Device::open(4096).unwrap_err();
        assert!(!matches!(error, CudaError::Call { .. }), "{error}");
    }
}
