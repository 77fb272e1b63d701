//! An entry ready to run: decoded instructions, reconvergence points, shared memory layout.

use super::PtxError;
use super::ast::{EntryAst, Variable};
use super::cursor::ModuleAst;
use super::decode::{Names, statement};
use super::initial::Image;
use super::inst::{Inst, Op, WgmmaA};
use super::lex::Pos;
use super::parse::module;
use super::space::SHARED_BASE;
use std::collections::HashMap;

/// A parsed PTX module.
#[derive(Debug)]
pub struct Module {
    pub(crate) entries: Vec<Entry>,
    pub(crate) files: HashMap<u32, String>,
    target: String,
    /// What its constant and its global variables begin with.
    pub(crate) constants: Vec<u8>,
    pub(crate) globals: Vec<u8>,
}

/// A parameter as the launch sees it.
#[derive(Clone, Debug)]
pub(crate) struct ParamSlot {
    pub name: String,
    pub offset: u32,
    pub bytes: u32,
}

#[derive(Debug)]
pub(crate) struct Entry {
    pub name: String,
    pub params: Vec<ParamSlot>,
    pub block: Option<[u32; 3]>,
    pub max_block: Option<[u32; 3]>,
    pub cluster: Option<[u32; 3]>,
    pub maxnreg: Option<u32>,
    /// End of static shared memory, and start of the dynamic part.
    pub static_shared: u32,
    pub dynamic_start: u32,
    pub local_bytes: u32,
    pub code: Vec<Op>,
    pub places: Vec<CodeLocation>,
    pub registers: u32,
    pub predicates: u32,
    pub register_names: Vec<String>,
    pub predicate_names: Vec<String>,
    /// Registers that some wgmma touches.
    pub tensor_registers: Vec<bool>,
}

/// Where an instruction stands in the PTX and in the kernel's source.
#[derive(Clone, Debug)]
pub(crate) struct CodeLocation {
    pub pos: Pos,
    pub opcode: String,
    pub loc: Option<(u32, u32, u32)>,
}

/// Reads and decodes a PTX module.
///
/// # Errors
/// Text that is not PTX, or PTX that the simulator does not execute, with line and column.
pub fn parse(ptx: &str) -> Result<Module, PtxError> {
    let ModuleAst { entries, files, target, constants, globals } = module(ptx)?;
    let images = Image::of_module(constants, globals)?;
    let entries = entries.into_iter().map(|e| entry(e, &images)).collect::<Result<_, _>>()?;
    let [constants, globals] = images.map(|i| i.bytes);
    Ok(Module { entries, files, target, constants, globals })
}

impl Module {
    /// Names of the entries, in order.
    pub fn entries(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|e| e.name.as_str())
    }

    /// The `.target` of the module.
    pub fn target(&self) -> &str {
        &self.target
    }

    /// Number of instructions of an entry.
    pub fn instructions(&self, entry: &str) -> Option<usize> {
        self.entry(entry).map(|e| e.code.len())
    }

    pub(crate) fn entry(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|e| e.name == name)
    }
}

fn entry(ast: EntryAst, [constants, globals]: &[Image; 2]) -> Result<Entry, PtxError> {
    let (shared, static_shared, dynamic_start) = shared_layout(&ast)?;
    let (locals, local_bytes) = place(&ast.local, 0, &ast)?;
    let names = Names {
        shared,
        params: ast.params.iter().map(|p| (p.name.as_str(), p.offset)).collect(),
        locals,
        constants: &constants.offsets,
        globals: &globals.offsets,
        entry: &ast,
    };
    let mut code = ast.statements.iter().map(|s| statement(s, &names)).collect::<Result<Vec<_>, _>>()?;
    super::cfg::set_meeting_points(&mut code);
    let tensor_registers = tensor_registers(&code, ast.registers);
    Ok(Entry {
        params: ast
            .params
            .iter()
            .map(|p| ParamSlot { name: p.name.clone(), offset: p.offset, bytes: p.bytes })
            .collect(),
        block: ast.reqntid,
        max_block: ast.maxntid,
        cluster: ast.cluster,
        maxnreg: ast.maxnreg,
        static_shared,
        dynamic_start,
        local_bytes,
        code,
        places: ast
            .statements
            .iter()
            .map(|s| CodeLocation { pos: s.pos, opcode: s.opcode.clone(), loc: s.loc })
            .collect(),
        registers: ast.registers,
        predicates: ast.predicates,
        register_names: ast.register_names,
        predicate_names: ast.predicate_names,
        tensor_registers,
        name: ast.name,
    })
}

type Offsets<'a> = HashMap<&'a str, u32>;

/// Static variables first, then the start of the dynamic array.
fn shared_layout(ast: &EntryAst) -> Result<(Offsets<'_>, u32, u32), PtxError> {
    let (mut map, end) = place(&ast.shared, SHARED_BASE, ast)?;
    let externs = || ast.shared.iter().filter(|v| v.bytes.is_none());
    let align = externs().map(|v| v.align).max().unwrap_or(1);
    let start = align_up(end, align.max(16), ast)?;
    for v in externs() {
        map.insert(&v.name, start);
    }
    Ok((map, end, start))
}

fn place<'a>(variables: &'a [Variable], start: u32, ast: &EntryAst) -> Result<(Offsets<'a>, u32), PtxError> {
    let mut map = HashMap::new();
    let mut end = start;
    for v in variables {
        let Some(bytes) = v.bytes else { continue };
        let at = align_up(end, v.align, ast)?;
        map.insert(v.name.as_str(), at);
        end = at
            .checked_add(bytes)
            .filter(|e| *e <= 1 << 24)
            .ok_or_else(|| ast.pos.error(format!("`{}` is over 16 MiB", v.name)))?;
    }
    Ok((map, end))
}

fn align_up(at: u32, align: u32, ast: &EntryAst) -> Result<u32, PtxError> {
    at.checked_next_multiple_of(align).ok_or_else(|| ast.pos.error("variables over 4 GiB"))
}

fn tensor_registers(code: &[Op], registers: u32) -> Vec<bool> {
    let mut out = vec![false; registers as usize];
    for op in code {
        if let Inst::Wgmma(w) = &op.inst {
            let mut mark = |r: &u32| out[*r as usize] = true;
            w.d.iter().for_each(&mut mark);
            if let WgmmaA::Registers(a) = &w.a_from {
                a.iter().for_each(&mut mark);
            }
        }
    }
    out
}
