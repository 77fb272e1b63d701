//! Runs ptxas and reads its messages.

use super::cache::kept;
use super::elf::is_whole;
use super::{ToolError, Toolchain, messages};
use std::fs;
use std::process::{Command, Stdio};

/// Options of one run of ptxas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PtxasOptions {
    /// Architecture, `sm_90a`.
    pub arch: String,
    /// Keep the line table that `.loc` describes.
    pub line_info: bool,
    /// Further options, as they are.
    pub extra: Vec<String>,
}

impl Default for PtxasOptions {
    fn default() -> Self {
        Self { arch: "sm_90a".into(), line_info: false, extra: Vec::new() }
    }
}

impl PtxasOptions {
    fn arguments(&self) -> Vec<String> {
        let mut arguments = vec![format!("-arch={}", self.arch), "-v".to_owned()];
        arguments.extend(self.line_info.then(|| "-lineinfo".to_owned()));
        arguments.extend_from_slice(&self.extra);
        arguments
    }
}

/// The result of ptxas for one PTX text. If it has several entries, the figures are the largest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assembled {
    /// The ELF file.
    pub cubin: Vec<u8>,
    /// Everything that ptxas printed (`-v`).
    pub log: String,
    /// Registers of a thread at entry.
    pub registers: u32,
    /// Bytes of spill stores and loads.
    pub spills: (u32, u32),
    /// Bytes of stack frame.
    pub stack: u32,
    /// Barriers used.
    pub barriers: u32,
    /// Advisories and warnings.
    pub warnings: Vec<Warning>,
}

/// A message of ptxas that is not about resources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// Its number, `C7515`; empty where the message has none.
    pub code: String,
    /// Its text.
    pub text: String,
}

/// Bytes that are spilled of one register, stored and loaded.
const ONE_REGISTER: u32 = 8;

impl Assembled {
    /// What makes right code slow: products that are serialized, registers that are spilled.
    pub fn slowdown(&self) -> Option<String> {
        let serialized = self.warnings.iter().find(|w| w.code.starts_with("C75"));
        let spilled = self.spills.0 + self.spills.1;
        match serialized {
            Some(warning) => Some(format!("ptxas serializes products ({})", warning.code)),
            None => (spilled > 0).then(|| format!("ptxas spills {spilled} bytes")),
        }
    }

    /// Why a choice takes another mapping. One register, stored and loaded once, is no reason: a layer norm with that took 43.6 us
    /// where the next mapping took 56.2.
    pub fn passed_over(&self) -> Option<String> {
        let serialized = self.warnings.iter().any(|w| w.code.starts_with("C75"));
        self.slowdown().filter(|_| serialized || self.spills.0 + self.spills.1 > ONE_REGISTER)
    }
}

impl Toolchain {
    /// Assembles PTX text, or takes what an earlier run made of the same text from the cache.
    ///
    /// # Errors
    /// ptxas refuses the text ([`ToolError::Rejected`] with its messages), or cannot be run.
    pub fn ptxas(&self, ptx: &str, options: &PtxasOptions) -> Result<Assembled, ToolError> {
        let arguments = options.arguments();
        let mut asked = vec![b"ptxas", self.version.as_bytes(), ptx.as_bytes()];
        asked.extend(arguments.iter().map(String::as_bytes));
        let make = || self.assemble(ptx, &arguments);
        let [cubin, log] = kept(self.cache.as_ref(), &self.ptxas, &asked, is_whole, make)?;
        Ok(Assembled { cubin, ..read_log(String::from_utf8_lossy(&log).into_owned()) })
    }

    /// Runs ptxas; the cubin and the messages.
    fn assemble(&self, ptx: &str, arguments: &[String]) -> Result<[Vec<u8>; 2], ToolError> {
        let directory = tempfile::Builder::new().prefix("warplift-").tempdir();
        let directory =
            directory.map_err(ToolError::file("creating a directory in", &std::env::temp_dir()))?;
        let (input, output) = (directory.path().join("kernel.ptx"), directory.path().join("kernel.cubin"));
        fs::write(&input, ptx).map_err(ToolError::file("writing", &input))?;
        let mut command = Command::new(&self.ptxas);
        // A relative name keeps the directory out of the messages.
        command.current_dir(directory.path()).stdin(Stdio::null());
        let run = command.args(arguments).args(["kernel.ptx", "-o", "kernel.cubin"]).output();
        let run = run.map_err(ToolError::file("running", &self.ptxas))?;
        let log = messages(&run);
        if !run.status.success() {
            return Err(ToolError::Rejected { log });
        }
        let cubin = fs::read(&output).map_err(ToolError::file("reading", &output))?;
        if !is_whole(&cubin) {
            return Err(ToolError::Cut { bytes: cubin.len() as u64 });
        }
        Ok([cubin, log.into_bytes()])
    }
}

/// Reads the figures and warnings out of a log.
pub(super) fn read_log(log: String) -> Assembled {
    let mut result = Assembled::default();
    for line in log.lines() {
        read_line(line.trim(), &mut result);
    }
    result.log = log;
    result
}

fn read_line(line: &str, result: &mut Assembled) {
    let largest = |slot: &mut u32, unit| *slot = (*slot).max(number_before(line, unit));
    largest(&mut result.stack, "bytes stack frame");
    largest(&mut result.spills.0, "bytes spill stores");
    largest(&mut result.spills.1, "bytes spill loads");
    largest(&mut result.registers, "registers");
    largest(&mut result.barriers, "barriers");
    if let Some(warning) = warning(line) {
        result.warnings.push(warning);
    }
}

/// The number right before `unit`, or 0.
fn number_before(line: &str, unit: &str) -> u32 {
    let before = line.find(unit).map(|at| line[..at].trim_end());
    let word = before.and_then(|b| b.rsplit(|c: char| !c.is_ascii_digit()).next());
    word.and_then(|w| w.parse().ok()).unwrap_or(0)
}

/// `ptxas info : (C7515) text`, `ptxas warning : text`, `ptxas FILE, line 3; warning : text`.
fn warning(line: &str) -> Option<Warning> {
    let rest = line.strip_prefix("ptxas ")?;
    let (head, text) = rest.split_once(" : ")?;
    let text = text.trim();
    let (code, text) = split_code(text);
    let head = head.trim_end();
    let warns = head.ends_with("warning") || (head.ends_with("info") && !code.is_empty());
    warns.then(|| Warning { code: code.to_owned(), text: text.to_owned() })
}

/// `(C7515) text` into its parts; the code is empty where there is none.
fn split_code(text: &str) -> (&str, &str) {
    let inner = text.strip_prefix('(').and_then(|t| t.split_once(')'));
    match inner {
        Some((code, rest)) if code.starts_with('C') => (code, rest.trim_start()),
        _ => ("", text),
    }
}
