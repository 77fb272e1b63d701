//! The SASS of a cubin, and its live registers.

use super::cache::kept;
use super::{ToolError, Toolchain, run};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Registers live at one instruction, as nvdisasm's life ranges show them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveRegisters {
    /// Byte address of the instruction.
    pub address: u32,
    /// The instruction's text.
    pub text: String,
    /// General registers that hold a value.
    pub general: u32,
    /// Predicates.
    pub predicates: u32,
    /// Uniform general registers.
    pub uniform: u32,
}

impl Toolchain {
    /// The code of a cubin as SASS text, with labels (`nvdisasm -c`).
    ///
    /// # Errors
    /// nvdisasm is not found, or refuses the file.
    pub fn disassemble(&self, cubin: &[u8]) -> Result<String, ToolError> {
        self.nvdisasm(cubin, &["-c"])
    }

    /// The code of a cubin with its life ranges (`nvdisasm -c -plr`); [`live_registers`] reads it.
    ///
    /// # Errors
    /// nvdisasm is not found, or refuses the file.
    pub fn life_ranges(&self, cubin: &[u8]) -> Result<Vec<LiveRegisters>, ToolError> {
        Ok(live_registers(&self.nvdisasm(cubin, &["-c", "-plr"])?))
    }

    /// The headers and code of a cubin as `cuobjdump -sass` prints them, with the machine words.
    ///
    /// # Errors
    /// cuobjdump is not found, or refuses the file.
    pub fn dump_sass(&self, cubin: &[u8]) -> Result<String, ToolError> {
        self.printed("cuobjdump", cubin, &["-sass"])
    }

    fn nvdisasm(&self, cubin: &[u8], options: &[&str]) -> Result<String, ToolError> {
        self.printed("nvdisasm", cubin, options)
    }

    /// What a disassembler prints, or printed before.
    fn printed(&self, tool: &'static str, cubin: &[u8], options: &[&str]) -> Result<String, ToolError> {
        let program = self.companion(tool)?;
        let mut asked = vec![tool.as_bytes(), cubin];
        asked.extend(options.iter().map(|o| o.as_bytes()));
        let make = || {
            let text = with_file(cubin, |path| run(Command::new(&program).args(options).arg(path)))?;
            Ok([text.into_bytes(), Vec::new()])
        };
        let [text, _] = kept(self.cache.as_ref(), &program, &asked, |_| true, make)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}

/// Puts the bytes into a file for one run of a program; returns what it printed.
fn with_file(
    bytes: &[u8],
    work: impl FnOnce(&Path) -> Result<std::process::Output, ToolError>,
) -> Result<String, ToolError> {
    let file = tempfile::Builder::new().prefix("warplift-").suffix(".cubin").tempfile();
    let file = file.map_err(ToolError::file("creating a file in", &std::env::temp_dir()))?;
    fs::write(file.path(), bytes).map_err(ToolError::file("writing", file.path()))?;
    let output = work(file.path())?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Reads the life ranges of every instruction.
///
/// ```text
///         /*0040*/   LEA R7, R7, R0, 0x8 ;   // | 3 v :  x  |        | 1  :  |
///                                                 general     preds    uniform
/// ```
///
/// The heading of each function names its columns (`GPR`, `PRED`, `UGPR`, ...); a column without a
/// number has nothing live.
pub fn live_registers(text: &str) -> Vec<LiveRegisters> {
    let mut columns: Vec<String> = Vec::new();
    let mut rows = Vec::new();
    for line in text.lines() {
        let Some((code, table)) = line.split_once("// |") else {
            continue;
        };
        let cells: Vec<&str> = table.split('|').map(str::trim).collect();
        if cells.first() == Some(&"GPR") {
            columns = cells.iter().map(|&c| c.to_owned()).collect();
        } else if let Some((address, text)) = instruction(code) {
            let live = |name: &str| live_in(&columns, &cells, name);
            rows.push(LiveRegisters {
                address,
                text: text.to_owned(),
                general: live("GPR"),
                predicates: live("PRED"),
                uniform: live("UGPR"),
            });
        }
    }
    rows
}

fn live_in(columns: &[String], cells: &[&str], name: &str) -> u32 {
    let at = columns.iter().position(|c| c == name);
    let cell = at.and_then(|at| cells.get(at)).copied().unwrap_or("");
    let first = cell.split_whitespace().next();
    first.and_then(|w| w.parse().ok()).unwrap_or(0)
}

/// Address and text of `/*0040*/  LEA R7, R7, R0, 0x8 ;`.
fn instruction(code: &str) -> Option<(u32, &str)> {
    let (address, text) = code.trim().strip_prefix("/*")?.split_once("*/")?;
    let address = u32::from_str_radix(address, 16).ok()?;
    Some((address, text.trim().trim_end_matches(';').trim_end()))
}
