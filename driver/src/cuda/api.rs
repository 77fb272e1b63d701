//! The driver functions in use, and the check of what they return.
//!
//! Source: CUDA Driver API, header `cuda.h` of CUDA 12.4 and later.

use super::error::CudaError;
use super::library::{functions, open};
use cuda_driver_sys::{
    CUcontext, CUdevice, CUdeviceptr, CUevent, CUfunction, CUgraph, CUgraphExec, CUgraphNode, CUmodule,
    CUstream,
};
use std::ffi::{CStr, OsString, c_char, c_void};
use std::sync::OnceLock;

/// A 128-byte tensor map, `CUtensorMap` of `cuda.h`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C, align(128))]
pub struct RawTensorMap(pub [u64; 16]);

/// `CUlaunchConfig`.
#[repr(C)]
pub(crate) struct RawLaunchConfig {
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub dynamic_shared: u32,
    pub stream: CUstream,
    pub attributes: *mut RawLaunchAttribute,
    pub attribute_count: u32,
}

/// `CUlaunchAttribute`: an identifier and a union of 64 bytes.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct RawLaunchAttribute {
    pub id: u32,
    pub pad: u32,
    pub value: [u64; 8],
}

functions! {
    /// The driver's entry points, under their exported names.
    Api {
        cuInit(u32);
        cuDriverGetVersion(*mut i32);
        cuGetErrorName(u32, *mut *const c_char);
        cuGetErrorString(u32, *mut *const c_char);
        cuDeviceGetCount(*mut i32);
        cuDeviceGet(*mut CUdevice, i32);
        cuDeviceGetName(*mut c_char, i32, CUdevice);
        cuDeviceGetPCIBusId(*mut c_char, i32, CUdevice);
        cuDeviceGetAttribute(*mut i32, u32, CUdevice);
        cuDeviceTotalMem_v2(*mut usize, CUdevice);
        cuDevicePrimaryCtxRetain(*mut CUcontext, CUdevice);
        cuDevicePrimaryCtxRelease_v2(CUdevice);
        cuCtxSetCurrent(CUcontext);
        cuCtxSynchronize();
        cuMemGetInfo_v2(*mut usize, *mut usize);
        cuMemAlloc_v2(*mut CUdeviceptr, usize);
        cuMemFree_v2(CUdeviceptr);
        cuMemcpyHtoD_v2(CUdeviceptr, *const c_void, usize);
        cuMemcpyDtoH_v2(*mut c_void, CUdeviceptr, usize);
        cuMemcpyDtoDAsync_v2(CUdeviceptr, CUdeviceptr, usize, CUstream);
        cuMemsetD8Async(CUdeviceptr, u8, usize, CUstream);
        cuModuleLoadDataEx(*mut CUmodule, *const c_void, u32, *mut u32, *mut *mut c_void);
        cuModuleUnload(CUmodule);
        cuModuleGetFunction(*mut CUfunction, CUmodule, *const c_char);
        cuFuncSetAttribute(CUfunction, u32, i32);
        cuFuncGetParamInfo(CUfunction, usize, *mut usize, *mut usize);
        cuFuncGetAttribute(*mut i32, u32, CUfunction);
        cuOccupancyMaxActiveBlocksPerMultiprocessor(*mut i32, CUfunction, i32, usize);
        cuOccupancyMaxActiveClusters(*mut i32, CUfunction, *const RawLaunchConfig);
        cuLaunchKernelEx(*const RawLaunchConfig, CUfunction, *mut *mut c_void, *mut *mut c_void);
        cuStreamCreate(*mut CUstream, u32);
        cuStreamDestroy_v2(CUstream);
        cuStreamSynchronize(CUstream);
        cuStreamWaitEvent(CUstream, CUevent, u32);
        cuStreamBeginCapture_v2(CUstream, u32);
        cuStreamEndCapture(CUstream, *mut CUgraph);
        cuGraphGetNodes(CUgraph, *mut CUgraphNode, *mut usize);
        cuGraphInstantiateWithFlags(*mut CUgraphExec, CUgraph, u64);
        cuGraphLaunch(CUgraphExec, CUstream);
        cuGraphExecDestroy(CUgraphExec);
        cuGraphDestroy(CUgraph);
        cuEventCreate(*mut CUevent, u32);
        cuEventDestroy_v2(CUevent);
        cuEventRecord(CUevent, CUstream);
        cuEventQuery(CUevent);
        cuEventSynchronize(CUevent);
        cuEventElapsedTime(*mut f32, CUevent, CUevent);
        cuTensorMapEncodeTiled(
            *mut RawTensorMap, u32, u32, *mut c_void, *const u64, *const u64, *const u32,
            *const u32, u32, u32, u32, u32,
        );
    }
}

/// Places of the driver besides the loader's own search path.
const CANDIDATES: [&str; 6] = [
    "libcuda.so.1",
    "/usr/lib/x86_64-linux-gnu/libcuda.so.1",
    "/usr/lib/aarch64-linux-gnu/libcuda.so.1",
    "/usr/lib64/libcuda.so.1",
    "/usr/local/nvidia/lib64/libcuda.so.1",
    "/usr/lib/wsl/lib/libcuda.so.1",
];

impl Api {
    /// The driver, opened and initialised once in a process.
    pub(crate) fn get() -> Result<&'static Self, CudaError> {
        static API: OnceLock<Result<Api, CudaError>> = OnceLock::new();
        API.get_or_init(Self::open).as_ref().map_err(Clone::clone)
    }

    fn open() -> Result<Self, CudaError> {
        let (library, _) = open("libcuda.so.1", CANDIDATES.map(OsString::from))?;
        let api = Self::load(library).map_err(CudaError::OldDriver)?;
        match call!(api.cuInit(0)) {
            Err(CudaError::Call { code: NO_DEVICE, .. }) => Err(CudaError::NoDevice),
            other => other.map(|()| api),
        }
    }

    /// Turns a `CUresult` into an error with the driver's own words.
    pub(crate) fn check(&self, function: &'static str, code: u32) -> Result<(), CudaError> {
        if code == 0 {
            return Ok(());
        }
        Err(CudaError::Call {
            function,
            code,
            name: self.words(self.cuGetErrorName, code),
            text: self.words(self.cuGetErrorString, code),
        })
    }

    fn words(&self, get: unsafe extern "C" fn(u32, *mut *const c_char) -> u32, code: u32) -> String {
        let mut text: *const c_char = std::ptr::null();
        // SAFETY: `text` receives a pointer to a static string, or stays null.
        let status = unsafe { get(code, &mut text) };
        if status != 0 || text.is_null() {
            return "unknown to this driver".to_owned();
        }
        // SAFETY: the driver's strings are static and end in a zero byte.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }
}

/// `CUDA_ERROR_NO_DEVICE`.
const NO_DEVICE: u32 = 100;

/// Calls a function of the table and checks its status. Pointers among the arguments must be valid
/// for that call: they are references to locals, or handles that the wrapper types keep alive.
macro_rules! call {
    ($api:ident . $function:ident ( $($arg:expr),* $(,)? )) => {{
        let api = &$api;
        // SAFETY: the declaration matches `cuda.h`; every pointer passed is a live local of the
        // caller or a handle owned by a wrapper that outlives the call.
        let code = unsafe { (api.$function)($($arg),*) };
        api.check(stringify!($function), code)
    }};
}
pub(crate) use call;

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{align_of, size_of};

    #[test]
    fn layouts_are_those_of_the_header() {
        assert_eq!(size_of::<RawTensorMap>(), 128);
        assert_eq!(size_of::<RawLaunchAttribute>(), 72);
        assert_eq!(size_of::<RawLaunchConfig>(), 56);
        assert_eq!(align_of::<RawLaunchAttribute>(), 8);
    }
}
