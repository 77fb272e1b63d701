//! The module around the roles: directives, entry and parameters, the branch to the roles.

use crate::role::{Context, End, write_role};
use crate::texts::{self, funcs};
use crate::{Allocations, EmitError};
use std::fmt::Write as _;
use warplift_ir::machine::{Attr, Func, InstData, Scheduled};
use warplift_ir::manifest::Param;
use warplift_ir::target::Target;
use warplift_ir::types::Elem;

/// Names that no entry can have: shared memory has the first, the others mean something in PTX.
const TAKEN: [&str; 3] = ["smem", "WARP_SZ", "_"];

/// Name of the entry: the kernel's name, unless that is taken.
pub(crate) fn entry_name(kernel: &str) -> String {
    if TAKEN.contains(&kernel) { format!("{kernel}_kernel") } else { kernel.to_owned() }
}

/// A file's name as a string of PTX, which has no escapes and no characters beyond ASCII: what it cannot hold is
/// written as `%` and two hexadecimal digits for each byte.
fn file_name(name: &str) -> String {
    let plain = |b: u8| (b == b' ' || b.is_ascii_graphic()) && !matches!(b, b'"' | b'\\');
    name.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}

/// The whole text.
pub(crate) fn write(
    program: &Scheduled<'_>,
    allocs: &Allocations,
    target: &Target,
) -> Result<String, EmitError> {
    if program.roles.len() != allocs.roles.len() {
        return Err(EmitError::Roles { roles: program.roles.len(), allocations: allocs.roles.len() });
    }
    let mut out = String::with_capacity(64 << 10);
    header(&mut out, program, target);
    entry(&mut out, program)?;
    out.push_str("{\n");
    let context = Context { program, target };
    write_role(&mut out, "setup", &program.setup, &allocs.setup, context, End::FallThrough)?;
    if program.roles.len() > 1 {
        dispatch(&mut out, program);
    }
    for (role, alloc) in program.roles.iter().zip(&allocs.roles) {
        let _ = writeln!(out, "${}:", role.name);
        write_role(&mut out, role.name, &role.func, alloc, context, End::Return)?;
    }
    out.push_str("}\n");
    Ok(out)
}

/// The PTX version of products of signed and unsigned bytes.
const MIXED_INTEGERS: u16 = 84;

/// The lowest PTX version that has all rows.
fn version(program: &Scheduled<'_>, target: &Target) -> u16 {
    let of = |inst: &InstData<'_>| match &inst.attr {
        Attr::Wgmma(w) if w.elem.is_int() && w.elem != w.right => MIXED_INTEGERS,
        _ => target.require(inst.op).map_or(0, |row| row.ptx),
    };
    let least = |f: &Func<'_>| {
        let insts = f.order.iter().flat_map(|&b| &f.blocks[b].insts);
        insts.map(|&i| of(&f.insts[i])).fold(target.least_ptx, u16::max)
    };
    funcs(program).map(least).fold(target.least_ptx, u16::max)
}

fn header(out: &mut String, program: &Scheduled<'_>, target: &Target) {
    let version = version(program, target);
    let _ = writeln!(out, ".version {}.{}\n.target {}", version / 10, version % 10, target.arch);
    out.push_str(".address_size 64\n");
    if funcs(program).any(|f| f.insts.values().any(|i| i.loc.line > 0)) {
        let _ = writeln!(out, ".file 1 \"{}\"", file_name(&program.launch.file));
    }
    out.push_str(".extern .shared .align 1024 .b8 smem[];\n");
    texts::declare(out, &texts::texts(program));
}

fn entry(out: &mut String, program: &Scheduled<'_>) -> Result<(), EmitError> {
    let launch = &program.launch;
    let _ = write!(out, ".visible .entry {}(", entry_name(&launch.kernel));
    for (i, param) in launch.params.iter().enumerate() {
        out.push_str(if i == 0 { "\n    .param " } else { ",\n    .param " });
        let ty = match param {
            Param::TensorMap(_) => {
                let _ = write!(out, ".align 64 .b8 param{i}[128]");
                continue;
            }
            Param::Workspace { .. } => ".u64",
            Param::Argument { name } => argument_type(program, i as u32, name)?,
        };
        let _ = write!(out, "{ty} param{i}");
    }
    let _ = writeln!(out, "\n)\n.reqntid {},1,1\n.minnctapersm {}", program.threads, launch.resident);
    if launch.cluster > 1 {
        let _ = writeln!(out, ".explicitcluster\n.reqnctapercluster {},1,1", launch.cluster);
    }
    Ok(())
}

/// PTX type of an argument passed by value.
fn argument_type(program: &Scheduled<'_>, number: u32, name: &str) -> Result<&'static str, EmitError> {
    let error = |what| EmitError::Parameter { number, name: name.to_owned(), what };
    let argument = program.launch.arguments.iter().find(|a| a.name == name);
    let ty = &argument.ok_or_else(|| error("the kernel has no such argument"))?.ty;
    if ty.starts_with("ptr") {
        return Ok(".u64");
    }
    let elem = Elem::from_name(ty).ok_or_else(|| error("its type is unknown"))?;
    Ok(match (elem, elem.bits()) {
        (Elem::Uint(32) | Elem::Int(32), _) => ".u32",
        (_, 64) => ".b64",
        (_, 32) => ".b32",
        (_, 16) => ".b16",
        (_, 8) => ".b8",
        _ => return Err(error("its width is none of 8, 16, 32, 64 bits")),
    })
}

/// Branches from the uniform warp index to the roles; the first one follows.
fn dispatch(out: &mut String, program: &Scheduled<'_>) {
    out.push_str("{\n.reg .b32 %warp;\n.reg .pred %is;\nmov.u32 %warp, %tid.x;\nshr.u32 %warp, %warp, 5;\n");
    out.push_str("shfl.sync.idx.b32 %warp, %warp, 0, 31, -1;\n");
    for role in program.roles.iter().skip(1).rev() {
        let _ = writeln!(out, "setp.ge.u32 %is, %warp, {};\n@%is bra.uni ${};", role.first_warp, role.name);
    }
    out.push_str("}\n");
}
