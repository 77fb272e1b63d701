//! Clocks and power during a measurement, from NVML if it is present.
//!
//! Under load, the reported multiprocessor clock is 8 to 10 percent above the true one (measured). It is recorded
//! beside a result and never used in a computation.

use serde::{Deserialize, Serialize};
use std::ffi::{CString, OsString, c_char, c_void};
use warplift::cuda::DeviceInfo;
use warplift::cuda::library::{functions, open};

functions! {
    /// NVML's entry points (NVML API Reference Guide, "Device Queries").
    Api {
        nvmlInit_v2();
        nvmlDeviceGetHandleByPciBusId_v2(*const c_char, *mut *mut c_void);
        nvmlDeviceGetClockInfo(*mut c_void, u32, *mut u32);
        nvmlDeviceGetPowerUsage(*mut c_void, *mut u32);
    }
}

/// One reading of the sensors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reading {
    /// Multiprocessor clock, MHz.
    pub sm_mhz: u32,
    /// Memory clock, MHz.
    pub memory_mhz: u32,
    /// Power, W.
    pub watts: f64,
}

/// The sensors of one device.
pub struct Sensor {
    api: Api,
    device: *mut c_void,
}

impl Sensor {
    /// Opens NVML for a device; `None` if the library or the device is not available.
    pub fn open(info: &DeviceInfo) -> Option<Self> {
        let (library, _) = open("libnvidia-ml.so.1", [OsString::from("libnvidia-ml.so.1")]).ok()?;
        let api = Api::load(library).ok()?;
        let pci = CString::new(info.pci.as_str()).ok()?;
        let mut device = std::ptr::null_mut();
        // SAFETY: the declarations match nvml.h; both pointers are live locals.
        let status = unsafe {
            match (api.nvmlInit_v2)() {
                0 => (api.nvmlDeviceGetHandleByPciBusId_v2)(pci.as_ptr(), &mut device),
                failed => failed,
            }
        };
        (status == 0).then_some(Self { api, device })
    }

    /// Reads the sensors. A value that the device does not report is 0.
    pub fn read(&self) -> Reading {
        const SM: u32 = 1;
        const MEMORY: u32 = 2;
        let clock = |kind| {
            let mut mhz = 0;
            // SAFETY: the handle came from NVML and `mhz` is a live local.
            let status = unsafe { (self.api.nvmlDeviceGetClockInfo)(self.device, kind, &mut mhz) };
            if status == 0 { mhz } else { 0 }
        };
        let mut milliwatts = 0;
        // SAFETY: as above.
        let status = unsafe { (self.api.nvmlDeviceGetPowerUsage)(self.device, &mut milliwatts) };
        Reading {
            sm_mhz: clock(SM),
            memory_mhz: clock(MEMORY),
            watts: if status == 0 { f64::from(milliwatts) / 1e3 } else { 0.0 },
        }
    }
}
