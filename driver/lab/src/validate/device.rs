//! A GPU as executor.

use super::{Executor, Input, Scalar, ValidationError, integer};
use std::time::{Duration, Instant};
use warplift::cuda::{Arg, Buffer, CudaError, Device, Event, Kernel, Stream};
use warplift::packing::as_wanted;

/// A loaded kernel on a device.
pub struct GpuExecutor {
    device: Device,
    kernel: Kernel,
    /// Seconds after which a launch counts as deadlocked.
    limit: u64,
}

/// Bytes behind every buffer that must not change.
const GUARD: usize = 512;
/// Their contents.
const GUARD_BYTE: u8 = 0xa5;
/// The contents of outputs before the launch: a NaN in every float.
const POISON: u8 = 0xff;

impl GpuExecutor {
    /// Runs `kernel` on its device; a launch that takes longer than `limit` seconds is a deadlock.
    pub fn new(device: &Device, kernel: Kernel, limit: u64) -> Self {
        Self { device: device.clone(), kernel, limit }
    }

    fn upload(&self, bytes: &[u8]) -> Result<Buffer, CudaError> {
        let buffer = Buffer::new(&self.device, (bytes.len() + GUARD) as u64)?;
        buffer.write(0, bytes)?;
        buffer.write(bytes.len() as u64, &[GUARD_BYTE; GUARD])?;
        Ok(buffer)
    }

    /// An argument that points to a new buffer.
    fn pointer(&self, bytes: &[u8], buffers: &mut Vec<Buffer>) -> Result<Arg, CudaError> {
        let buffer = self.upload(bytes)?;
        let (address, bytes) = (buffer.address(), Some(bytes.len() as u64));
        buffers.push(buffer);
        Ok(Arg::Pointer { address, bytes })
    }

    fn wait(&self, stream: &Stream) -> Result<(), ValidationError> {
        let done = Event::new(&self.device)?;
        done.record(stream)?;
        let start = Instant::now();
        while !done.is_done()? {
            if start.elapsed() > Duration::from_secs(self.limit) {
                // To destroy an event that never comes would wait for it.
                std::mem::forget(done);
                return Err(ValidationError::Hang(self.limit));
            }
            std::thread::sleep(Duration::from_micros(100));
        }
        Ok(())
    }

    fn launch(&self, args: &[Arg]) -> Result<(), ValidationError> {
        let stream = Stream::new(&self.device)?;
        let prepared = self.kernel.prepare(args)?;
        prepared.launch(&stream)?;
        let waited = self.wait(&stream);
        if matches!(waited, Err(ValidationError::Hang(_))) {
            std::mem::forget((stream, prepared));
        }
        waited
    }

    /// Contents of a buffer, and whether the bytes behind it are unchanged.
    fn download(&self, buffer: &Buffer) -> Result<(Vec<u8>, bool), CudaError> {
        let mut bytes = buffer.to_vec()?;
        let guard = bytes.split_off(bytes.len() - GUARD);
        Ok((bytes, guard.iter().all(|b| *b == GUARD_BYTE)))
    }
}

impl Executor for GpuExecutor {
    fn name(&self) -> String {
        let info = self.device.info();
        format!("device {}: {}", info.ordinal, info.name)
    }

    fn execute(&self, inputs: &[Input<'_>]) -> Result<Vec<Vec<u8>>, ValidationError> {
        let mut buffers = Vec::new();
        let mut args = Vec::new();
        let manifest = self.kernel.manifest();
        let value = |name: &str| integer(manifest, inputs, name);
        for (argument, input) in manifest.arguments.iter().zip(inputs) {
            args.push(match input {
                Input::Scalar(Scalar::Int(v)) => Arg::Int((*v).into()),
                Input::Scalar(Scalar::Float(v)) => Arg::Float(*v),
                Input::Buffer(bytes) => {
                    let bytes = as_wanted(manifest, &argument.name, bytes, &value)?;
                    self.pointer(&bytes, &mut buffers)?
                }
                Input::Output(bytes) => self.pointer(&vec![POISON; *bytes], &mut buffers)?,
            });
        }
        if let Err(error) = self.launch(&args) {
            if matches!(error, ValidationError::Hang(_)) {
                std::mem::forget(buffers);
            }
            return Err(error);
        }
        let names = self.kernel.manifest().arguments.iter().filter(|a| a.ty.starts_with("ptr"));
        let mut found = Vec::new();
        for (buffer, argument) in buffers.iter().zip(names) {
            let (bytes, intact) = self.download(buffer)?;
            if !intact {
                return Err(ValidationError::Overrun(argument.name.clone()));
            }
            found.push(bytes);
        }
        Ok(found)
    }
}
