//! Kernels: a cubin and its manifest, launched with checked arguments.
//!
//! ```text
//!  Kernel::load ─► prepare(args) ─► Prepared ─► launch(stream), launch(stream), ...
//!                    │   plan, tensor maps (cached), workspace         one driver call each
//! ```

use super::api::RawTensorMap;
use super::arguments::{Arg, LaunchError, Plan, PlannedParam, check_manifest, param_bytes, plan};
use super::device::Device;
use super::error::CudaError;
use super::memory::Buffer;
use super::module::{Function, LaunchConfig, Module};
use super::stream::Stream;
use super::tensor_map::TensorMapRequest;
use rustc_hash::FxHashMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, PoisonError};
use warplift_ir::manifest::Manifest;

/// Tensor maps kept per kernel; a launcher that streams fresh buffers starts over at this many.
const CACHED_MAPS: usize = 1024;

/// Bytes of stand-in memory for an empty tensor: one element of 8 bytes, on a 256-byte boundary.
const SPARE_BYTES: u64 = 512;

/// A loaded kernel; clones share it.
#[derive(Clone)]
pub struct Kernel(Arc<Inner>);

struct Inner {
    module: Module,
    function: Function,
    manifest: Manifest,
    maps: Mutex<FxHashMap<TensorMapRequest, RawTensorMap>>,
    /// Zeros that empty tensors stand on: the first half is only read, the second may be written.
    spare: Buffer,
}

impl Kernel {
    /// Loads a cubin (or PTX, see [`Kernel::warning`]) with its manifest, and checks that they
    /// belong together: entry, parameter sizes, target, shared memory.
    ///
    /// # Errors
    /// The device has another capability, the manifest does not fit the code, or a failed call.
    pub fn load(device: &Device, code: &[u8], manifest: Manifest) -> Result<Self, LaunchError> {
        check_manifest(&manifest, device.info().shared_per_block)?;
        device.require(&manifest.target)?;
        let module = Module::load(device, code)?;
        let function = module.function(&manifest.entry)?;
        check_parameters(&manifest, &function)?;
        function.allow(&config(&manifest, [1; 3], false))?;
        let spare = Buffer::from_bytes(device, &[0; SPARE_BYTES as usize])?;
        Ok(Self(Arc::new(Inner { module, function, manifest, maps: Mutex::default(), spare })))
    }

    /// Set when the driver's own compiler made the code.
    pub fn warning(&self) -> Option<&str> {
        self.0.module.warning()
    }

    /// What it was loaded with.
    pub fn manifest(&self) -> &Manifest {
        &self.0.manifest
    }

    /// The entry.
    pub fn function(&self) -> &Function {
        &self.0.function
    }

    /// Checks arguments and launches once. Pointers must stay valid until the work is done.
    ///
    /// A kernel with a workspace is waited for, since its workspace is freed here; it cannot be
    /// captured into a graph this way. [`Kernel::prepare`] keeps the workspace and does not wait.
    ///
    /// # Errors
    /// A refused argument, or a failed call.
    pub fn launch(&self, args: &[Arg], stream: &Stream) -> Result<(), LaunchError> {
        let prepared = self.prepare(args)?;
        prepared.launch(stream)?;
        if !prepared.workspace.is_empty() {
            stream.synchronize()?;
        }
        Ok(())
    }

    /// Checks arguments and makes everything that a launch with them needs.
    ///
    /// # Errors
    /// A refused argument, or a failed call.
    pub fn prepare(&self, args: &[Arg]) -> Result<Prepared, LaunchError> {
        let device = self.0.module.device();
        let plan = plan(&self.0.manifest, args, device.info().sm_count)?;
        let workspace = Buffer::zeroed(device, plan.workspace)?;
        let values = self.values(&plan, &workspace)?;
        let pointer = |value: &RawTensorMap| std::ptr::from_ref(value).cast_mut().cast();
        Ok(Prepared {
            params: values.iter().map(pointer).collect(),
            _values: values,
            config: config(&self.0.manifest, plan.grid, false),
            workspace,
            kernel: self.clone(),
        })
    }

    /// Memory images of the parameters, each at the start of a 128-byte slot.
    fn values(&self, plan: &Plan, workspace: &Buffer) -> Result<Box<[RawTensorMap]>, CudaError> {
        let each = plan.params.iter().map(|param| match param {
            PlannedParam::Bytes(bytes) => Ok(slot(u64::from_le_bytes(*bytes))),
            PlannedParam::Workspace(offset) => Ok(slot(workspace.address() + offset)),
            PlannedParam::TensorMap(request) => self.map(request),
            PlannedParam::EmptyTensor { request, written } => {
                let mut request = request.clone();
                let half = if *written { SPARE_BYTES / 2 } else { 0 };
                request.address = self.0.spare.address() + half;
                self.map(&request)
            }
        });
        each.collect()
    }

    fn map(&self, request: &TensorMapRequest) -> Result<RawTensorMap, CudaError> {
        let mut maps = self.0.maps.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(map) = maps.get(request) {
            return Ok(*map);
        }
        let map = request.encode(self.0.module.device())?;
        if maps.len() >= CACHED_MAPS {
            maps.clear();
        }
        maps.insert(request.clone(), map);
        Ok(map)
    }
}

fn slot(value: u64) -> RawTensorMap {
    let mut slot = [0; 16];
    slot[0] = value.to_le();
    RawTensorMap(slot)
}

fn config(manifest: &Manifest, grid: [u32; 3], pdl: bool) -> LaunchConfig {
    LaunchConfig {
        grid,
        cluster: manifest.cluster,
        block: [manifest.block, 1, 1],
        dynamic_shared: manifest.dynamic_shared,
        pdl,
    }
}

/// Compares the parameters that the code declares with the manifest's: a launch copies as many
/// bytes as the code says, from memory laid out by the manifest.
fn check_parameters(manifest: &Manifest, function: &Function) -> Result<(), LaunchError> {
    let found = function.parameter_sizes()?;
    let expected = manifest.params.iter().map(|p| param_bytes(manifest, p));
    let expected: Option<Vec<usize>> = expected.collect();
    if expected.as_ref() == Some(&found) {
        return Ok(());
    }
    let entry = &manifest.entry;
    let expected = expected.unwrap_or_default();
    Err(LaunchError::Parameters(format!(
        "`{entry}` has parameters of {found:?} bytes, the manifest describes {expected:?}"
    )))
}

/// A launch with everything decided; repeating it costs one driver call. Launches of it that share a
/// workspace must follow each other, as those of one stream do.
pub struct Prepared {
    kernel: Kernel,
    config: LaunchConfig,
    workspace: Buffer,
    _values: Box<[RawTensorMap]>,
    /// Into `_values`.
    params: Vec<*mut c_void>,
}

// SAFETY: the pointers lead into `_values`, which moves with them and is never written.
unsafe impl Send for Prepared {}
// SAFETY: as above; launching only reads.
unsafe impl Sync for Prepared {}

impl Prepared {
    /// Blocks in x, y, z.
    pub fn grid(&self) -> [u32; 3] {
        self.config.grid
    }

    /// Lets repeated launches overlap their ends and beginnings (programmatic dependent launch).
    /// For kernels that wait by `griddepcontrol.wait` before they touch their inputs.
    pub fn pdl(mut self, on: bool) -> Self {
        self.config.pdl = on;
        self
    }

    /// Launches; a grid without blocks launches nothing.
    ///
    /// # Errors
    /// A failed call. Faults of the kernel itself appear at the next synchronization.
    pub fn launch(&self, stream: &Stream) -> Result<(), LaunchError> {
        if self.config.grid.contains(&0) {
            return Ok(());
        }
        // SAFETY: `Kernel::load` compared the sizes of the entry's parameters with the manifest,
        // and every slot has 128 bytes, the largest of them.
        unsafe { self.kernel.0.function.launch(&self.config, &self.params, stream) }?;
        Ok(())
    }
}
