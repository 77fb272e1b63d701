//! Modules and functions: loading code and launching it by hand.

use super::api::{Api, RawLaunchAttribute, RawLaunchConfig, call};
use super::device::Device;
use super::error::CudaError;
use super::stream::Stream;
use cuda_driver_sys::{CUfunction, CUmodule};
use std::ffi::{CString, c_void};
use std::sync::Arc;

/// Loaded code; clones share it, and it is unloaded with the last.
#[derive(Clone)]
pub struct Module(Arc<Inner>);

struct Inner {
    device: Device,
    raw: CUmodule,
    warning: Option<String>,
}

// SAFETY: the driver API is thread-safe; the handle is only passed to it.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

/// `CUjit_option` numbers of `cuda.h`.
mod jit {
    pub const INFO_LOG: u32 = 3;
    pub const INFO_LOG_BYTES: u32 = 4;
    pub const ERROR_LOG: u32 = 5;
    pub const ERROR_LOG_BYTES: u32 = 6;
}

const LOG_BYTES: usize = 16 << 10;

/// What the bytes of a module are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Image {
    Cubin,
    Ptx,
}

fn image(bytes: &[u8]) -> Result<Image, CudaError> {
    let text = || std::str::from_utf8(bytes).is_ok_and(|t| t.contains(".version"));
    if bytes.starts_with(b"\x7fELF") {
        Ok(Image::Cubin)
    } else if text() {
        Ok(Image::Ptx)
    } else {
        Err(CudaError::NotAModule(bytes.iter().take(8).copied().collect()))
    }
}

impl Module {
    /// Loads a cubin, or PTX text through the driver's own compiler.
    ///
    /// # Errors
    /// The bytes are neither, or the driver refuses them; its compiler's log is in the error.
    pub fn load(device: &Device, bytes: &[u8]) -> Result<Self, CudaError> {
        let kind = image(bytes)?;
        let api = device.bind()?;
        let mut code = bytes.to_vec();
        code.push(0);
        let (raw, log) = load_raw(api, &code)?;
        let warning = (kind == Image::Ptx).then(|| jit_warning(&log));
        Ok(Self(Arc::new(Inner { device: device.clone(), raw, warning })))
    }

    /// Set when the driver compiled PTX: its code differs from that of the pinned ptxas.
    pub fn warning(&self) -> Option<&str> {
        self.0.warning.as_deref()
    }

    /// The device it is loaded on.
    pub fn device(&self) -> &Device {
        &self.0.device
    }

    /// Finds an entry by name.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn function(&self, name: &str) -> Result<Function, CudaError> {
        let api = self.0.device.bind()?;
        let c_name = CString::new(name).map_err(|_| CudaError::ZeroByte(name.to_owned()))?;
        let mut raw: CUfunction = std::ptr::null_mut();
        call!(api.cuModuleGetFunction(&mut raw, self.0.raw, c_name.as_ptr()))?;
        Ok(Function { module: self.clone(), raw })
    }
}

fn jit_warning(log: &str) -> String {
    let warning = "the driver compiled the PTX itself; speed and registers may differ from the \
                   pinned ptxas";
    if log.is_empty() { warning.to_owned() } else { format!("{warning}\n{log}") }
}

/// Loads a zero-terminated image; returns the module and the info log.
fn load_raw(api: &Api, code: &[u8]) -> Result<(CUmodule, String), CudaError> {
    let mut info = vec![0u8; LOG_BYTES];
    let mut errors = vec![0u8; LOG_BYTES];
    let mut options = [jit::INFO_LOG, jit::INFO_LOG_BYTES, jit::ERROR_LOG, jit::ERROR_LOG_BYTES];
    // Integer options travel in the pointer itself.
    let mut values: [*mut c_void; 4] = [
        info.as_mut_ptr().cast(),
        LOG_BYTES as *mut c_void,
        errors.as_mut_ptr().cast(),
        LOG_BYTES as *mut c_void,
    ];
    let mut raw: CUmodule = std::ptr::null_mut();
    let (count, options, values) = (4, options.as_mut_ptr(), values.as_mut_ptr());
    call!(api.cuModuleLoadDataEx(&mut raw, code.as_ptr().cast(), count, options, values))
        .map_err(|error| CudaError::Module { error: Box::new(error), log: log_text(&errors) })?;
    Ok((raw, log_text(&info)))
}

fn log_text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).trim().to_owned()
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Ok(api) = self.device.bind() {
            let _ = call!(api.cuModuleUnload(self.raw));
        }
    }
}

/// An entry of a module.
#[derive(Clone)]
pub struct Function {
    module: Module,
    raw: CUfunction,
}

// SAFETY: the driver API is thread-safe; the handle is only passed to it.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

/// How to launch a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchConfig {
    /// Blocks in x, y, z.
    pub grid: [u32; 3],
    /// Blocks of a cluster in x, y, z; all 1 where there is none.
    pub cluster: [u32; 3],
    /// Threads of a block in x, y, z.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub dynamic_shared: u32,
    /// Lets the kernel start before its predecessor in the stream has finished (programmatic
    /// dependent launch); it then waits by `griddepcontrol.wait` itself.
    pub pdl: bool,
}

impl LaunchConfig {
    fn attributes(&self) -> ([RawLaunchAttribute; 2], u32) {
        const CLUSTER_DIMENSION: u32 = 4;
        const PROGRAMMATIC_STREAM_SERIALIZATION: u32 = 6;
        let mut list = [RawLaunchAttribute { id: 0, pad: 0, value: [0; 8] }; 2];
        let mut count = 0;
        if self.cluster != [1; 3] {
            let [x, y, z] = self.cluster.map(u64::from);
            list[count].id = CLUSTER_DIMENSION;
            // Three u32 in memory order; the targets of the driver are little-endian.
            list[count].value[..2].copy_from_slice(&[x | y << 32, z]);
            count += 1;
        }
        if self.pdl {
            list[count].id = PROGRAMMATIC_STREAM_SERIALIZATION;
            list[count].value[0] = 1;
            count += 1;
        }
        (list, count as u32)
    }

    /// Hands the driver's form of this configuration to `use_it`.
    fn with_raw<T>(
        &self,
        stream: cuda_driver_sys::CUstream,
        use_it: impl FnOnce(*const RawLaunchConfig) -> T,
    ) -> T {
        let (mut list, attribute_count) = self.attributes();
        use_it(&RawLaunchConfig {
            grid: self.grid,
            block: self.block,
            dynamic_shared: self.dynamic_shared,
            stream,
            attributes: list.as_mut_ptr(),
            attribute_count,
        })
    }
}

/// `CUfunction_attribute` numbers of `cuda.h`.
mod attribute {
    pub const LOCAL_BYTES: u32 = 3;
    pub const REGISTERS: u32 = 4;
    pub const MAX_DYNAMIC_SHARED: u32 = 8;
    pub const NON_PORTABLE_CLUSTER: u32 = 14;
}

impl Function {
    /// Prepares the function for a configuration: opts in to more than 48 KB of dynamic shared
    /// memory, and to clusters of more than 8 blocks.
    ///
    /// # Errors
    /// A failed call.
    pub fn allow(&self, config: &LaunchConfig) -> Result<(), CudaError> {
        const DEFAULT_SHARED: u32 = 48 << 10;
        const PORTABLE_CLUSTER: u32 = 8;
        let api = self.module.0.device.bind()?;
        let shared = config.dynamic_shared;
        if shared > DEFAULT_SHARED {
            let shared = i32::try_from(shared).unwrap_or(i32::MAX);
            call!(api.cuFuncSetAttribute(self.raw, attribute::MAX_DYNAMIC_SHARED, shared))?;
        }
        if config.cluster.iter().product::<u32>() > PORTABLE_CLUSTER {
            call!(api.cuFuncSetAttribute(self.raw, attribute::NON_PORTABLE_CLUSTER, 1))?;
        }
        Ok(())
    }

    /// Registers of a thread at entry.
    ///
    /// # Errors
    /// A failed call.
    pub fn registers(&self) -> Result<u32, CudaError> {
        self.attribute(attribute::REGISTERS)
    }

    /// Bytes of local memory of a thread: stack and spills.
    ///
    /// # Errors
    /// A failed call.
    pub fn local_bytes(&self) -> Result<u32, CudaError> {
        self.attribute(attribute::LOCAL_BYTES)
    }

    fn attribute(&self, attribute: u32) -> Result<u32, CudaError> {
        let api = self.module.0.device.bind()?;
        let mut value = 0;
        call!(api.cuFuncGetAttribute(&mut value, attribute, self.raw))?;
        Ok(u32::try_from(value).unwrap_or(0))
    }

    /// Bytes of each parameter of the entry, in order.
    ///
    /// # Errors
    /// A failed call.
    pub fn parameter_sizes(&self) -> Result<Vec<usize>, CudaError> {
        const INVALID_VALUE: u32 = 1;
        let api = self.module.0.device.bind()?;
        let mut sizes = Vec::new();
        loop {
            let (mut offset, mut size) = (0usize, 0usize);
            let index = sizes.len();
            match call!(api.cuFuncGetParamInfo(self.raw, index, &mut offset, &mut size)) {
                Ok(()) => sizes.push(size),
                // The driver's way to say that there is no such parameter.
                Err(CudaError::Call { code: INVALID_VALUE, .. }) => return Ok(sizes),
                Err(other) => return Err(other),
            }
        }
    }

    /// Blocks of this configuration that run on the device at once: whole clusters where there
    /// are clusters. Call [`Function::allow`] first.
    ///
    /// # Errors
    /// A failed call.
    pub fn occupancy(&self, config: &LaunchConfig) -> Result<u32, CudaError> {
        let device = &self.module.0.device;
        let api = device.bind()?;
        let cluster: u32 = config.cluster.iter().product();
        let threads = config.block.iter().product::<u32>();
        let mut count = 0;
        if cluster > 1 {
            config.with_raw(std::ptr::null_mut(), |raw| {
                call!(api.cuOccupancyMaxActiveClusters(&mut count, self.raw, raw))
            })?;
            return Ok(u32::try_from(count).unwrap_or(0) * cluster);
        }
        let (threads, shared) = (threads as i32, config.dynamic_shared as usize);
        call!(api.cuOccupancyMaxActiveBlocksPerMultiprocessor(&mut count, self.raw, threads, shared))?;
        Ok(u32::try_from(count).unwrap_or(0) * device.info().sm_count)
    }

    /// Launches with parameters given by address, one per parameter of the entry.
    ///
    /// # Safety
    /// `params` must hold one pointer per parameter, each to as many readable bytes as the entry
    /// declares; device addresses among them must be valid for what the kernel does.
    ///
    /// # Errors
    /// A failed call. Faults of the kernel itself appear at the next synchronization.
    pub unsafe fn launch(
        &self,
        config: &LaunchConfig,
        params: &[*mut c_void],
        stream: &Stream,
    ) -> Result<(), CudaError> {
        let api = self.module.0.device.bind()?;
        let params = params.as_ptr().cast_mut();
        config.with_raw(stream.raw(), |raw| {
            call!(api.cuLaunchKernelEx(raw, self.raw, params, std::ptr::null_mut()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: LaunchConfig =
        LaunchConfig { grid: [1; 3], cluster: [1; 3], block: [128, 1, 1], dynamic_shared: 0, pdl: false };

    #[test]
    fn bytes_are_recognised() {
        assert_eq!(image(b"\x7fELF\x02"), Ok(Image::Cubin));
        assert_eq!(image(b"// c\n.version 8.0\n"), Ok(Image::Ptx));
        assert_eq!(image(b"hello"), Err(CudaError::NotAModule(b"hello".to_vec())));
    }

    #[test]
    fn attributes_only_where_needed() {
        assert_eq!(PLAIN.attributes().1, 0);
        let config = LaunchConfig { cluster: [2, 1, 1], pdl: true, ..PLAIN };
        let (list, count) = config.attributes();
        assert_eq!(count, 2);
        assert_eq!((list[0].id, list[0].value[0], list[0].value[1]), (4, 2 | 1 << 32, 1));
        assert_eq!((list[1].id, list[1].value[0]), (6, 1));
    }
}
