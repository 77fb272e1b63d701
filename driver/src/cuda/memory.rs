//! Device memory.

use super::api::call;
use super::device::Device;
use super::error::CudaError;
use super::stream::Stream;
use cuda_driver_sys::CUdeviceptr;

/// An allocation of device memory, freed when dropped. Addresses are aligned to 256 bytes.
pub struct Buffer {
    device: Device,
    address: CUdeviceptr,
    bytes: u64,
}

impl Buffer {
    /// Allocates `bytes` bytes of undefined content; 0 bytes give a null address.
    ///
    /// # Errors
    /// Out of memory, or another failed call.
    pub fn new(device: &Device, bytes: u64) -> Result<Self, CudaError> {
        let mut address: CUdeviceptr = 0;
        if bytes > 0 {
            let api = device.bind()?;
            call!(api.cuMemAlloc_v2(&mut address, bytes as usize))?;
        }
        Ok(Self { device: device.clone(), address, bytes })
    }

    /// Allocates zeros; returns when they are written.
    ///
    /// # Errors
    /// A failed call.
    pub fn zeroed(device: &Device, bytes: u64) -> Result<Self, CudaError> {
        let buffer = Self::new(device, bytes)?;
        if bytes > 0 {
            let stream = Stream::new(device)?;
            buffer.fill(0, &stream)?;
            stream.synchronize()?;
        }
        Ok(buffer)
    }

    /// Allocates and copies host bytes.
    ///
    /// # Errors
    /// A failed call.
    pub fn from_bytes(device: &Device, bytes: &[u8]) -> Result<Self, CudaError> {
        let buffer = Self::new(device, bytes.len() as u64)?;
        buffer.write(0, bytes)?;
        Ok(buffer)
    }

    /// Device address.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Length in bytes.
    pub fn len(&self) -> u64 {
        self.bytes
    }

    /// Whether the length is 0.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Copies host bytes to an offset; returns when the copy is done.
    ///
    /// # Errors
    /// The range leaves the buffer, or a failed call.
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), CudaError> {
        let at = self.range(offset, bytes.len() as u64)?;
        if bytes.is_empty() {
            return Ok(());
        }
        let api = self.device.bind()?;
        call!(api.cuMemcpyHtoD_v2(at, bytes.as_ptr().cast(), bytes.len()))
    }

    /// Copies from an offset to host bytes; returns when the copy is done.
    ///
    /// The copy waits for the legacy default stream only: synchronize the stream that writes the
    /// buffer first.
    ///
    /// # Errors
    /// The range leaves the buffer, or a failed call.
    pub fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<(), CudaError> {
        let at = self.range(offset, bytes.len() as u64)?;
        if bytes.is_empty() {
            return Ok(());
        }
        let api = self.device.bind()?;
        call!(api.cuMemcpyDtoH_v2(bytes.as_mut_ptr().cast(), at, bytes.len()))
    }

    /// The whole content.
    ///
    /// # Errors
    /// A failed call.
    pub fn to_vec(&self) -> Result<Vec<u8>, CudaError> {
        let mut bytes = vec![0; self.bytes as usize];
        self.read(0, &mut bytes)?;
        Ok(bytes)
    }

    /// Sets every byte, in the order of the stream.
    ///
    /// # Errors
    /// A failed call.
    pub fn fill(&self, byte: u8, stream: &Stream) -> Result<(), CudaError> {
        if self.bytes == 0 {
            return Ok(());
        }
        let api = self.device.bind()?;
        call!(api.cuMemsetD8Async(self.address, byte, self.bytes as usize, stream.raw()))
    }

    /// Copies another buffer's content to the start of this one, in the order of the stream.
    ///
    /// # Errors
    /// `other` is longer, or a failed call.
    pub fn copy_from(&self, other: &Self, stream: &Stream) -> Result<(), CudaError> {
        let at = self.range(0, other.bytes)?;
        if other.bytes == 0 {
            return Ok(());
        }
        let api = self.device.bind()?;
        let bytes = other.bytes as usize;
        call!(api.cuMemcpyDtoDAsync_v2(at, other.address, bytes, stream.raw()))
    }

    fn range(&self, offset: u64, bytes: u64) -> Result<CUdeviceptr, CudaError> {
        match offset.checked_add(bytes) {
            Some(end) if end <= self.bytes => Ok(self.address + offset),
            _ => Err(CudaError::CopyBounds { offset, bytes, capacity: self.bytes }),
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.address != 0
            && let Ok(api) = self.device.bind()
        {
            // Nothing can be done about a failure while dropping.
            let _ = call!(api.cuMemFree_v2(self.address));
        }
    }
}
