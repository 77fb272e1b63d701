//! Streams, events and graphs.

use super::api::call;
use super::device::Device;
use super::error::CudaError;
use cuda_driver_sys::{CUevent, CUgraph, CUgraphExec, CUstream};

/// `CU_STREAM_NON_BLOCKING`: no implicit order with the legacy default stream.
const NON_BLOCKING: u32 = 1;
/// `CU_STREAM_CAPTURE_MODE_THREAD_LOCAL`: other threads may allocate meanwhile.
const CAPTURE_THREAD_LOCAL: u32 = 1;
/// `CUDA_ERROR_NOT_READY`.
const NOT_READY: u32 = 600;

/// A queue of device work. Destroyed when dropped, unless borrowed from another library.
pub struct Stream {
    device: Device,
    raw: CUstream,
    owned: bool,
}

// SAFETY: the driver API is thread-safe; the handle is only passed to it.
unsafe impl Send for Stream {}
// SAFETY: as above.
unsafe impl Sync for Stream {}

impl Stream {
    /// A new stream, independent of the default one.
    ///
    /// # Errors
    /// A failed call.
    pub fn new(device: &Device) -> Result<Self, CudaError> {
        let api = device.bind()?;
        let mut raw: CUstream = std::ptr::null_mut();
        call!(api.cuStreamCreate(&mut raw, NON_BLOCKING))?;
        Ok(Self { device: device.clone(), raw, owned: true })
    }

    /// The legacy default stream.
    pub fn default_of(device: &Device) -> Self {
        Self { device: device.clone(), raw: std::ptr::null_mut(), owned: false }
    }

    /// The device it belongs to.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Waits until all work in it is done.
    ///
    /// # Errors
    /// A failed call, which may belong to an earlier launch.
    pub fn synchronize(&self) -> Result<(), CudaError> {
        let api = self.device.bind()?;
        call!(api.cuStreamSynchronize(self.raw))
    }

    /// Lets later work in this stream wait for an event.
    ///
    /// # Errors
    /// A failed call.
    pub fn wait(&self, event: &Event) -> Result<(), CudaError> {
        let api = self.device.bind()?;
        call!(api.cuStreamWaitEvent(self.raw, event.raw, 0))
    }

    /// The driver's handle, for libraries that enqueue into it.
    pub fn raw(&self) -> CUstream {
        self.raw
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.owned
            && let Ok(api) = self.device.bind()
        {
            let _ = call!(api.cuStreamDestroy_v2(self.raw));
        }
    }
}

/// A point in a stream, with a time stamp.
pub struct Event {
    device: Device,
    raw: CUevent,
}

// SAFETY: the driver API is thread-safe; the handle is only passed to it.
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

impl Event {
    /// A new event.
    ///
    /// # Errors
    /// A failed call.
    pub fn new(device: &Device) -> Result<Self, CudaError> {
        let api = device.bind()?;
        let mut raw: CUevent = std::ptr::null_mut();
        call!(api.cuEventCreate(&mut raw, 0))?;
        Ok(Self { device: device.clone(), raw })
    }

    /// Marks the current end of a stream.
    ///
    /// # Errors
    /// A failed call.
    pub fn record(&self, stream: &Stream) -> Result<(), CudaError> {
        let api = self.device.bind()?;
        call!(api.cuEventRecord(self.raw, stream.raw))
    }

    /// Waits until the mark is reached.
    ///
    /// # Errors
    /// A failed call, which may belong to an earlier launch.
    pub fn synchronize(&self) -> Result<(), CudaError> {
        let api = self.device.bind()?;
        call!(api.cuEventSynchronize(self.raw))
    }

    /// Whether the mark has been reached; does not wait.
    ///
    /// # Errors
    /// A failed call, which may belong to an earlier launch.
    pub fn is_done(&self) -> Result<bool, CudaError> {
        let api = self.device.bind()?;
        match call!(api.cuEventQuery(self.raw)) {
            Ok(()) => Ok(true),
            Err(CudaError::Call { code: NOT_READY, .. }) => Ok(false),
            Err(other) => Err(other),
        }
    }

    /// Seconds from an earlier event to this one; both must be done.
    ///
    /// # Errors
    /// A failed call.
    pub fn seconds_since(&self, start: &Self) -> Result<f64, CudaError> {
        let api = self.device.bind()?;
        let mut ms = 0f32;
        call!(api.cuEventElapsedTime(&mut ms, start.raw, self.raw))?;
        Ok(f64::from(ms) * 1e-3)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if let Ok(api) = self.device.bind() {
            let _ = call!(api.cuEventDestroy_v2(self.raw));
        }
    }
}

/// Captured work that replays with one call.
pub struct Graph {
    device: Device,
    raw: CUgraphExec,
    nodes: usize,
}

// SAFETY: the driver API is thread-safe; the handle is only passed to it.
unsafe impl Send for Graph {}

impl Graph {
    /// Records what `work` enqueues into a private stream, and instantiates it.
    ///
    /// # Errors
    /// What `work` returns, or a failed call.
    pub fn capture<E: From<CudaError>>(
        device: &Device,
        work: impl FnOnce(&Stream) -> Result<(), E>,
    ) -> Result<Self, E> {
        let stream = Stream::new(device)?;
        let api = device.bind()?;
        call!(api.cuStreamBeginCapture_v2(stream.raw, CAPTURE_THREAD_LOCAL))?;
        let outcome = work(&stream);
        let mut graph: CUgraph = std::ptr::null_mut();
        // The capture ends also when the work failed, so that the stream can be destroyed.
        let ended = call!(api.cuStreamEndCapture(stream.raw, &mut graph));
        let instance = outcome
            .and_then(|()| ended.map_err(E::from))
            .and_then(|()| Ok(Self::instantiate(device, graph)?));
        if !graph.is_null() {
            let _ = call!(api.cuGraphDestroy(graph));
        }
        instance
    }

    fn instantiate(device: &Device, graph: CUgraph) -> Result<Self, CudaError> {
        let api = device.bind()?;
        let mut nodes = 0usize;
        call!(api.cuGraphGetNodes(graph, std::ptr::null_mut(), &mut nodes))?;
        let mut raw: CUgraphExec = std::ptr::null_mut();
        call!(api.cuGraphInstantiateWithFlags(&mut raw, graph, 0))?;
        Ok(Self { device: device.clone(), raw, nodes })
    }

    /// Nodes that were captured.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// Enqueues the whole graph into a stream.
    ///
    /// # Errors
    /// A failed call.
    pub fn launch(&self, stream: &Stream) -> Result<(), CudaError> {
        let api = self.device.bind()?;
        call!(api.cuGraphLaunch(self.raw, stream.raw))
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        if let Ok(api) = self.device.bind() {
            let _ = call!(api.cuGraphExecDestroy(self.raw));
        }
    }
}
