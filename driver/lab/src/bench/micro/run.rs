//! Runs cases on a device: code, buffers, launches, clocks.

use super::frame::{CLOCKS, FrameError};
use super::results::{Results, Unit};
use super::{Case, Contents, Reading};
use crate::bench::median;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use std::fs;
use std::path::{Path, PathBuf};
use warplift::cuda::{Arg, Buffer, CudaError, Device, Event, Graph, Kernel, LaunchError, Prepared, Stream};
use warplift::toolchain::{PtxasOptions, ToolError, Toolchain};
use warplift_emit::Output;
use warplift_ir::target::SM90A;

/// Bytes of `data`: several times the L2, and a piece more for the last block.
const DATA: u64 = (1 << 30) + (1 << 20);
/// Bytes of `out`: clocks, then one word for each thread that a device holds.
const OUT: u64 = CLOCKS + (4 << 20);
/// Runs of each length. The fastest counts, because no disturbance makes a run faster.
const RUNS: usize = 5;
/// Launches of a graph, for cases that measure launches.
const LAUNCHES: usize = 64;

/// Why a case was not measured.
#[derive(Debug, thiserror::Error)]
pub enum MicroError {
    /// A stage refused the kernel.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// ptxas refused it, or was not found.
    #[error(transparent)]
    Tool(#[from] ToolError),
    /// The device refused it.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// A failed call.
    #[error(transparent)]
    Cuda(#[from] CudaError),
    /// A file.
    #[error("{path}: {error}")]
    File {
        /// Path.
        path: PathBuf,
        /// The system's words.
        error: std::io::Error,
    },
    /// Code of another version.
    #[error("{path} is not the text that this version emits: make the artifacts again")]
    Stale {
        /// The PTX file.
        path: PathBuf,
    },
}

/// The source of code.
#[derive(Clone, Debug)]
pub enum Ready {
    /// Assembled here.
    Assemble(Toolchain),
    /// Read from a folder that [`Ready::save`] wrote.
    Folder(PathBuf),
}

fn file<T>(path: &Path, result: std::io::Result<T>) -> Result<T, MicroError> {
    result.map_err(|error| MicroError::File { path: path.to_owned(), error })
}

impl Ready {
    /// Text, manifest and cubin of a case.
    ///
    /// # Errors
    /// A stage or ptxas refuses it; the folder lacks it or holds that of another text.
    pub fn code(&self, case: &Case) -> Result<(Output, Vec<u8>), MicroError> {
        let output = case.compile()?;
        let cubin = match self {
            Self::Assemble(tools) => tools.ptxas(&output.ptx, &PtxasOptions::default())?.cubin,
            Self::Folder(folder) => {
                let (text, cubin) = paths(folder, case);
                if file(&text, fs::read_to_string(&text))? != output.ptx {
                    return Err(MicroError::Stale { path: text });
                }
                file(&cubin, fs::read(&cubin))?
            }
        };
        Ok((output, cubin))
    }

    /// Writes text and cubin into a folder, for a machine without ptxas.
    ///
    /// # Errors
    /// As [`Ready::code`]; a file cannot be written.
    pub fn save(&self, case: &Case, folder: &Path) -> Result<(), MicroError> {
        let (output, code) = self.code(case)?;
        let (text, cubin) = paths(folder, case);
        file(&text, fs::write(&text, &output.ptx))?;
        file(&cubin, fs::write(&cubin, &code))
    }
}

fn paths(folder: &Path, case: &Case) -> (PathBuf, PathBuf) {
    (folder.join(format!("{}.ptx", case.name)), folder.join(format!("{}.cubin", case.name)))
}

/// A device with the buffers of all cases.
pub struct Runner {
    device: Device,
    stream: Stream,
    out: Buffer,
    data: Buffer,
    /// More than the L2 holds.
    other: Buffer,
    contents: Contents,
    /// The L2 is emptied before each run.
    cold: bool,
}

impl Runner {
    /// Takes the buffers.
    ///
    /// # Errors
    /// A failed call, such as out of memory.
    pub fn new(device: &Device) -> Result<Self, MicroError> {
        let stream = Stream::new(device)?;
        let (out, data) = (Buffer::new(device, OUT)?, Buffer::new(device, DATA)?);
        out.fill(0, &stream)?;
        data.fill(0, &stream)?;
        stream.synchronize()?;
        let other = Buffer::new(device, 4 * device.info().l2)?;
        Ok(Self { device: device.clone(), stream, out, data, other, contents: Contents::Zeros, cold: false })
    }

    /// Measures one case and adds its figure; `false` where a figure that it needs is missing.
    ///
    /// # Errors
    /// The case has no code, or the device refuses it.
    pub fn measure(&mut self, case: &Case, ready: &Ready, results: &mut Results) -> Result<bool, MicroError> {
        let (output, cubin) = ready.code(case)?;
        self.prepare_data(case.contents)?;
        self.cold =
            case.cold || matches!(case.contents, Contents::Chain(span) if span > self.device.info().l2);
        let (block, pdl) = (output.manifest.block, output.manifest.pdl);
        let kernel = Kernel::load(&self.device, &cubin, output.manifest)?;
        let turns = |n: u32| {
            let args: [Arg; 4] = [(&self.out).into(), (&self.data).into(), n.into(), 0.into()];
            kernel.prepare(&args).map(|p| p.pdl(pdl))
        };
        let [short, long] = [turns(case.turns[0])?, turns(case.turns[1])?];
        let n = f64::from(case.turns[1] - case.turns[0]);
        let (value, unit) = match case.reading {
            Reading::Cycles { per } => {
                let cycles = self.cycles(&long, block)? - self.cycles(&short, block)?;
                (cycles / n / per, Unit::Cycles)
            }
            Reading::BytesPerCycle { bytes } => {
                let cycles = self.cycles(&long, block)? - self.cycles(&short, block)?;
                (bytes * n / cycles, Unit::BytesPerCycle)
            }
            Reading::Bandwidth { bytes } => {
                let blocks = f64::from(long.grid()[0]);
                let seconds = self.seconds(&long)? - self.seconds(&short)?;
                (bytes * blocks * n / seconds * 1e-9, Unit::Bandwidth)
            }
            Reading::Launch => (self.launches(&long)? * 1e6, Unit::Microseconds),
        };
        Ok(results.add(case, value, unit))
    }

    fn prepare_data(&mut self, contents: Contents) -> Result<(), MicroError> {
        if contents == self.contents {
            return Ok(());
        }
        self.data.fill(0, &self.stream)?;
        self.stream.synchronize()?;
        if let Contents::Chain(span) = contents {
            self.data.write(0, &chain(self.data.address(), span))?;
        }
        self.contents = contents;
        Ok(())
    }

    /// Cycles of a launch: from the first start to the last end of each block, then the median of the blocks, then the
    /// least of the runs.
    fn cycles(&self, prepared: &Prepared, block: u32) -> Result<f64, MicroError> {
        let (blocks, warps) = (prepared.grid()[0] as usize, block as usize / 32);
        let mut bytes = vec![0; blocks * warps * 8];
        let mut least = f64::INFINITY;
        for _ in 0..RUNS {
            self.forget()?;
            prepared.launch(&self.stream)?;
            self.stream.synchronize()?;
            self.out.read(0, &mut bytes)?;
            let each: Vec<f64> = bytes.chunks_exact(warps * 8).map(span).collect();
            least = least.min(median(&each));
        }
        Ok(least)
    }

    /// Empties the L2 if the case measures memory.
    fn forget(&self) -> Result<(), MicroError> {
        if self.cold { Ok(self.other.fill(1, &self.stream)?) } else { Ok(()) }
    }

    fn seconds(&self, prepared: &Prepared) -> Result<f64, MicroError> {
        let (start, end) = (Event::new(&self.device)?, Event::new(&self.device)?);
        let mut least = f64::INFINITY;
        for _ in 0..RUNS {
            start.record(&self.stream)?;
            prepared.launch(&self.stream)?;
            end.record(&self.stream)?;
            end.synchronize()?;
            least = least.min(end.seconds_since(&start)?);
        }
        Ok(least)
    }

    /// Seconds of one launch in a graph of many. The launches are a chain without overlap.
    fn launches(&self, prepared: &Prepared) -> Result<f64, MicroError> {
        let graph = |n: usize| {
            Graph::capture::<LaunchError>(&self.device, |s| (0..n).try_for_each(|_| prepared.launch(s)))
        };
        let (short, long) = (graph(LAUNCHES)?, graph(2 * LAUNCHES)?);
        let (start, end) = (Event::new(&self.device)?, Event::new(&self.device)?);
        let time = |graph: &Graph| -> Result<f64, MicroError> {
            let mut all = Vec::new();
            for _ in 0..4 * RUNS {
                start.record(&self.stream)?;
                graph.launch(&self.stream)?;
                end.record(&self.stream)?;
                end.synchronize()?;
                all.push(end.seconds_since(&start)?);
            }
            Ok(median(&all))
        };
        Ok((time(&long)? - time(&short)?) / LAUNCHES as f64)
    }
}

/// Memory of a chain through all lines of `span` bytes, in random order.
fn chain(address: u64, span: u64) -> Vec<u8> {
    // One node a line.
    let line = u64::from(SM90A.line_bytes);
    let mut order: Vec<u64> = (1..span / line).collect();
    order.shuffle(&mut StdRng::seed_from_u64(1));
    let mut bytes = vec![0; span as usize];
    let mut at = 0;
    for next in order.into_iter().chain([0]) {
        bytes[at..at + 8].copy_from_slice(&(address + next * line).to_le_bytes());
        at = (next * line) as usize;
    }
    bytes
}

/// Cycles from the first start to the last end of a block's warps; the counters' low words.
fn span(block: &[u8]) -> f64 {
    let word = |b: &[u8]| b.try_into().map_or(0, u32::from_le_bytes);
    let base = word(&block[..4]);
    let since = |b: &[u8]| word(b).wrapping_sub(base).cast_signed();
    let starts = block.chunks_exact(8).map(|w| since(&w[..4])).min();
    let ends = block.chunks_exact(8).map(|w| since(&w[4..])).max();
    f64::from(ends.unwrap_or(0) - starts.unwrap_or(0))
}
